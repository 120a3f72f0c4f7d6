//! The plan: the cases that are measured, in order.

use std::time::Duration;

use crate::case::Case;
use crate::experiments::{Depth, Experiment, Variant};
use crate::peers::Contender;

pub struct Plan {
    pub depth: Depth,
    pub cases: Vec<Planned>,
    pub repeats: usize,
    /// After this time only cases without any measurement are measured.
    pub budget: Option<Duration>,
    /// The limit of every case, in place of the experiments' own.
    pub limit: Option<Duration>,
    /// The measurements that are left out, and why.
    pub refusals: Vec<String>,
}

pub struct Planned {
    pub experiment: &'static Experiment,
    pub case: Case,
}

impl Planned {
    /// Returns whether a server and the load on it have to share these CPUs.
    pub fn shares_cpus(&self, cpus: usize) -> bool {
        !self.experiment.is_pinned && self.case.processors >= cpus
    }
}

/// The request of the caller.
pub struct Wish {
    pub depth: Depth,
    pub experiments: Vec<&'static Experiment>,
    pub peers: Vec<&'static Contender>,
    pub processors: Vec<usize>,
    pub seconds: f64,
    pub repeats: usize,
    pub budget: Option<Duration>,
    pub limit: Option<Duration>,
    /// Only the first variant of each experiment.
    pub only_first: bool,
    /// Only these variants; all if there is none.
    pub variants: Vec<String>,
}

/// Experiments whose tour has one processor as well as two.
const WITH_ONE: [&str; 3] = ["yield", "cycle", "spawn"];

impl Plan {
    pub fn of(wish: Wish) -> Plan {
        let mut cases = Vec::new();
        let mut refusals = Vec::new();
        for experiment in &wish.experiments {
            if wish.processors.iter().all(|&processors| processors < experiment.least_processors) {
                let least = experiment.least_processors;
                refusals.push(format!("{}: needs {least} processors", experiment.name));
                continue;
            }
            let concerned: Vec<_> = wish.peers.iter().filter(|peer| (experiment.concerns)(peer)).collect();
            let refused = concerned.iter().filter_map(|peer| Some((peer.name, experiment.refusal(peer)?)));
            for (why, peers) in group(refused) {
                refusals.push(format!("{}: {}: {why}", experiment.name, peers.join(", ")));
            }
            let able = || concerned.iter().filter(|peer| experiment.refusal(peer).is_none());
            let mut lacking = Vec::new();
            let most = wish.processors.iter().max().copied();
            for &processors in wish.processors.iter().filter(|&&p| p >= experiment.least_processors) {
                // The load of a server needs a CPU of its own.
                let in_tour = match experiment.is_pinned {
                    true => Some(processors) == most || WITH_ONE.contains(&experiment.name),
                    false => processors == 1,
                };
                if wish.depth == Depth::Tour && !in_tour {
                    continue;
                }
                for peer in able() {
                    let mut variants = (experiment.variants)(wish.depth, processors, peer);
                    if wish.only_first {
                        variants.truncate(1);
                    }
                    if variants.is_empty() && !lacking.contains(&peer.name) {
                        lacking.push(peer.name);
                    }
                    if !wish.variants.is_empty() {
                        // Those of the tour can be asked for by name.
                        let of_tour = (experiment.variants)(Depth::Tour, processors, peer);
                        let is_new = |variant: &Variant| variants.iter().all(|own| own.name != variant.name);
                        let new: Vec<_> = of_tour.into_iter().filter(is_new).collect();
                        variants.extend(new);
                        variants.retain(|variant| wish.variants.contains(&variant.name));
                    }
                    cases.extend(variants.into_iter().map(|variant| Planned {
                        experiment,
                        case: Case {
                            experiment: experiment.name.to_owned(),
                            peer: peer.name.to_owned(),
                            processors,
                            threads: variant.threads,
                            variant: variant.name,
                            seconds: wish.seconds,
                        },
                    }));
                }
            }
            if !lacking.is_empty() {
                refusals.push(format!("{}: {}: cannot have that many strands", experiment.name, lacking.join(", ")));
            }
        }
        for variant in &wish.variants {
            if cases.iter().all(|planned| planned.case.variant != *variant) {
                refusals.push(format!("no variant of these experiments is called '{variant}'"));
            }
        }
        interleave(&mut cases);
        let Wish { depth, repeats, budget, limit, .. } = wish;
        Plan { depth, cases, repeats, budget, limit, refusals }
    }

    /// Returns the experiments that a peer is measured by, each once.
    pub fn experiments_of(&self, peer: &str) -> Vec<&'static str> {
        let own = self.cases.iter().filter(|planned| planned.case.peer == peer);
        let mut names: Vec<&str> = own.map(|planned| planned.experiment.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Leaves out a peer that cannot be built.
    pub fn leave_out(&mut self, peer: &str, why: &str) {
        self.cases.retain(|planned| planned.case.peer != peer);
        self.refusals.push(format!("{peer}: {why}"));
    }

    pub fn limit_of(&self, planned: &Planned) -> Duration {
        let own = self.limit.unwrap_or_else(|| (planned.experiment.limit)(self.depth));
        own + Duration::from_secs_f64(3.0 * planned.case.seconds)
    }

    /// Returns one case for each configuration that a model computes.
    pub fn cases_with_models(&self) -> impl Iterator<Item = &Planned> {
        let mut seen = Vec::new();
        self.cases.iter().filter(move |planned| {
            let case = &planned.case;
            let configuration = (planned.experiment.name, case.processors, case.threads, case.variant.clone());
            let is_new = !planned.experiment.models.is_empty() && !seen.contains(&configuration);
            if is_new {
                seen.push(configuration);
            }
            is_new
        })
    }
}

/// Sorts the cases, so that all peers' cases of one configuration follow each other.
fn interleave(cases: &mut [Planned]) {
    let mut configurations: Vec<(&str, usize, String)> = Vec::new();
    let mut place = |planned: &Planned| {
        let configuration = (planned.experiment.name, planned.case.processors, planned.case.variant.clone());
        configurations.iter().position(|known| *known == configuration).unwrap_or_else(|| {
            configurations.push(configuration);
            configurations.len() - 1
        })
    };
    cases.sort_by_cached_key(|planned| place(planned));
}

fn group(pairs: impl Iterator<Item = (&'static str, &'static str)>) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, why) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => groups.push((why, vec![name])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::ring;
    use crate::{experiments, peers};

    fn plan(depth: Depth) -> Plan {
        Plan::of(Wish {
            depth,
            experiments: experiments::ALL.to_vec(),
            peers: peers::ALL.iter().collect(),
            processors: vec![1, 2],
            seconds: 0.1,
            repeats: 3,
            budget: None,
            limit: None,
            only_first: false,
            variants: Vec::new(),
        })
    }

    #[test]
    fn peers_take_turns_within_a_configuration() {
        let plan = plan(Depth::Full);
        let mut done: Vec<(&str, usize, &str)> = Vec::new();
        for planned in &plan.cases {
            let now = (planned.experiment.name, planned.case.processors, planned.case.variant.as_str());
            if done.last() != Some(&now) {
                assert!(!done.contains(&now), "{now:?} is taken up again");
                done.push(now);
            }
        }
    }

    #[test]
    fn the_tour_has_every_experiment_that_is_possible_here_and_every_peer() {
        let plan = plan(Depth::Tour);
        let can_be_measured = |experiment: &&&Experiment| {
            peers::ALL.iter().any(|peer| (experiment.concerns)(peer) && experiment.refusal(peer).is_none())
        };
        for experiment in experiments::ALL.iter().filter(can_be_measured) {
            assert!(plan.cases.iter().any(|planned| planned.experiment.name == experiment.name), "{}", experiment.name);
        }
        let is_inside = |peer: &&Contender| matches!(peer.kind, peers::Kind::Inside | peers::Kind::Server);
        let is_possible = |peer: &&Contender| !peer.needs_ring() || ring::is_permitted();
        for peer in peers::ALL.iter().filter(is_inside).filter(is_possible) {
            assert!(plan.cases.iter().any(|planned| planned.case.peer == peer.name), "{}", peer.name);
        }
    }

    #[test]
    fn a_peer_without_clusters_is_named_and_not_measured() {
        let plan = plan(Depth::Tour);
        assert!(plan.refusals.iter().any(|refusal| refusal.contains("migrate") && refusal.contains("tokio")));
        assert!(
            plan.cases
                .iter()
                .all(|planned| planned.experiment.name != "migrate" || planned.case.peer.starts_with("sinew"))
        );
    }
}

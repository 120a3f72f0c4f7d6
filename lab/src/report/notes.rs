//! The sentences below the plots: why a peer did not complete, or is missing.

use std::fmt::Write;

use super::escaped;
use crate::experiments::Experiment;
use crate::peers::{self, Contender};
use crate::rows::DID_NOT_COMPLETE;
use crate::table::{Group, counted};

/// Appends a list of sentences, if there are any. `present` are the peers of the whole report.
pub fn list(html: &mut String, experiment: &Experiment, groups: &[Group], refusals: &[String], present: &[&str]) {
    let notes = notes(experiment, groups, refusals, present);
    if notes.is_empty() {
        return;
    }
    *html += "<ul class=\"notes\">\n";
    for note in notes {
        let _ = writeln!(html, "<li>{}</li>", escaped(&note));
    }
    *html += "</ul>\n";
}

fn notes(experiment: &Experiment, groups: &[Group], refusals: &[String], present: &[&str]) -> Vec<String> {
    let mut notes = Vec::new();
    incomplete(&mut notes, experiment, groups);
    absent_from_groups(&mut notes, groups);
    let own = format!("{}: ", experiment.name);
    for refusal in refusals.iter().filter_map(|refusal| refusal.strip_prefix(&own)) {
        notes.push(format!("Not measured: {refusal}."));
    }
    let others = |name: &&&str| peers::find(name).is_some_and(|p| p.is_runtime() && !(experiment.concerns)(p));
    let others: Vec<&str> = present.iter().filter(others).copied().collect();
    if !others.is_empty() && !experiment.others.is_empty() {
        notes.push(format!("Without {}: {}.", others.join(", "), experiment.others));
    }
    notes
}

/// Says why peers did not complete, with one sentence for each reason.
fn incomplete(notes: &mut Vec<String>, experiment: &Experiment, groups: &[Group]) {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for group in groups {
        for peer in &group.peers {
            let reason = match group.trouble(peer) {
                None => continue,
                Some(DID_NOT_COMPLETE) => match peers::find(peer).and_then(|peer| (experiment.incomplete)(peer)) {
                    Some(why) => format!("did not complete: {why}"),
                    None => "did not complete: it was not done when the lab stopped it at its limit".to_owned(),
                },
                Some(trouble) => trouble.to_owned(),
            };
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, peers)) if peers.contains(peer) => {}
                Some((_, peers)) => peers.push(peer),
                None => reasons.push((reason, vec![peer])),
            }
        }
    }
    notes.extend(reasons.into_iter().map(|(reason, peers)| format!("{} {reason}.", peers.join(", "))));
}

/// Says which peers have only some of the variants.
fn absent_from_groups(notes: &mut Vec<String>, groups: &[Group]) {
    let is_peer = |name: &&str| peers::find(name).is_some();
    let mut all: Vec<&str> = Vec::new();
    for peer in groups.iter().flat_map(|group| &group.peers).copied().filter(is_peer) {
        if !all.contains(&peer) {
            all.push(peer);
        }
    }
    let mut limited: Vec<&Contender> = Vec::new();
    let mut special: Vec<(&str, Vec<&str>)> = Vec::new();
    for group in groups {
        let absent: Vec<&str> = all.iter().filter(|peer| !group.peers.contains(peer)).copied().collect();
        for peer in absent.iter().filter_map(|peer| peers::find(peer)) {
            if group.threads > peer.most_strands && limited.iter().all(|known| known.name != peer.name) {
                limited.push(peer);
            }
        }
        let can = |peer: &&&str| peers::find(peer).is_some_and(|peer| group.threads <= peer.most_strands);
        if absent.iter().any(|peer| can(&peer)) && special.iter().all(|(variant, _)| *variant != group.variant) {
            special.push((group.variant, group.peers.iter().copied().filter(is_peer).collect()));
        }
    }
    for peer in limited {
        let most = counted(peer.most_strands, "strand");
        notes.push(format!("{} stops early: the lab asks it for at most {most}, {}.", peer.name, peer.most_why));
    }
    for (variant, peers) in special {
        notes.push(format!("Only {} can do “{variant}”.", peers.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Outcome, Reading};
    use crate::experiments;
    use crate::rows::{self, Row};

    fn rows_of(experiment: &Experiment, peer: &str, threads: usize, outcome: Outcome) -> Vec<Row> {
        let case = Case {
            experiment: experiment.name.to_owned(),
            peer: peer.to_owned(),
            processors: 2,
            threads,
            variant: threads.to_string(),
            seconds: 1.0,
        };
        rows::of_case(experiment, &case, &[outcome])
    }

    #[test]
    fn a_peer_that_did_not_complete_has_a_sentence_that_says_why() {
        let transfer = experiments::find("transfer").expect("an experiment");
        let rows = rows_of(transfer, peers::DEFAULT, 200, Outcome::DidNotComplete);
        let notes = notes(transfer, &Group::all(transfer, &rows), &[], &[]);
        assert!(notes[0].starts_with("sinew/default did not complete: this is by design."), "{notes:?}");
    }

    #[test]
    fn a_peer_that_stops_early_has_a_sentence_that_says_why() {
        let memory = experiments::find("memory").expect("an experiment");
        let measured = || Outcome::Measured(Reading::of([("bytes_per_thread", 5000.0)]));
        let mut rows = rows_of(memory, "tokio", 10_000, measured());
        rows.extend(rows_of(memory, "may", 10_000, measured()));
        rows.extend(rows_of(memory, "tokio", 100_000, measured()));
        let notes = notes(memory, &Group::all(memory, &rows), &[], &[]);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("may stops early") && notes[0].contains("20,000 strands"), "{notes:?}");
    }

    #[test]
    fn a_peer_that_takes_no_part_has_a_sentence_that_says_why() {
        let blocking = experiments::find("blocking").expect("an experiment");
        let refusals = ["blocking: go: not written in Go".to_owned(), "yield: go: no".to_owned()];
        let notes = notes(blocking, &[], &refusals, &["tokio", "may", "bare/epoll"]);
        assert_eq!(notes[0], "Not measured: go: not written in Go.");
        assert!(notes[1].starts_with("Without may: they have no pool"), "{notes:?}");
        assert_eq!(notes.len(), 2, "{notes:?}");
    }
}

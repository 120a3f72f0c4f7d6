//! `keepalive` and `one-each`: small requests, on connections that stay and on one
//! connection each; `pollers`: the first with each way to poll. The figure is requests per second of the server's CPU time: what
//! the server is asked depends on the generator, what it needs for it does not.

use std::time::Duration;

use crate::generator;
use crate::protocol::Stay;
use crate::servers::{LISTENING, POLLINGS};
use crate::support::case::{Case, Contender};
use crate::support::child::{Outcome, Reading, Running};
use crate::support::options::Options;
use crate::support::procfs::cpu_seconds;
use crate::support::report::{Bound, Column, Report};

pub const KEEP_ALIVE: &str = "keepalive";
pub const ONE_EACH: &str = "one-each";
pub const POLLERS: &str = "pollers";

/// How many connections there are when the way to poll is what varies.
const POLLED: usize = 64;

const WARM_UP: Duration = Duration::from_secs(1);

/// Beside the time under load.
const LIMIT: Duration = Duration::from_secs(20);

/// A server in a child, ended when this returns.
fn measure(case: &Case) -> Outcome {
    let server = Running::start(case, LIMIT + case.window());
    let address = match server.wait_for_prefix(LISTENING) {
        Ok(address) => address.parse().expect("an address"),
        Err(outcome) => return outcome,
    };
    let stay = if case.experiment == ONE_EACH { Stay::Close } else { Stay::Open };
    let connections = case.variant.parse().unwrap_or(POLLED);
    // First touches of memory are not what a request costs.
    if let Err(error) = generator::run(address, connections, stay, WARM_UP) {
        return Outcome::Failed(error.to_string());
    }
    let before = cpu_seconds(server.pid());
    let load = generator::run(address, connections, stay, case.window());
    let after = cpu_seconds(server.pid());
    match (load, before, after) {
        (Ok(load), Some(before), Some(after)) => Outcome::Measured(Reading::of([
            ("per_cpu", load.requests / (after - before)),
            ("per_second", load.requests / load.seconds),
        ])),
        (Err(error), ..) => Outcome::Failed(error.to_string()),
        _ => Outcome::Failed("the server is gone".to_owned()),
    }
}

/// With `rival` to be measured against.
fn conduct(options: &Options, report: &mut Report, name: &str, connections: &[usize], rival: Contender) {
    let contenders = options.contenders(&Contender::ALL_PEERS);
    let cases = connections.iter().flat_map(|connections| {
        let case = move |&who| Case::new(name, who, 1, &connections.to_string(), options.load_ms());
        contenders.iter().map(case)
    });
    let results = report.measure_with(cases.collect(), options.repeats, measure);
    report.heading(&format!("{name}: one processor, load by {}, {} ms", generator::name(), options.load_ms()));
    for connections in connections.iter().map(usize::to_string) {
        for (title, figure) in [("server CPU", "per_cpu"), ("time", "per_second")] {
            let title = format!("thousand requests per second of {title}, {connections} connections");
            report.table(&title, &results, |c| c.variant == connections, Column { figure, unit: 1e3 });
        }
        for sinew in results.sinews() {
            let rate = |who| results.median("per_cpu", who, 1, &connections);
            let claim = format!("{name}, {connections} connections, at least the requests per CPU time of {rival}");
            report.bar(&results, sinew, &claim, rate(sinew) / rate(rival), Bound::AtLeast(1.0));
        }
    }
}

pub fn conduct_keep_alive(options: &Options, report: &mut Report) {
    conduct(options, report, KEEP_ALIVE, &[64, 1_000], Contender::Epoll);
}

pub fn conduct_pollers(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&[]);
    let cases = [1, 2].into_iter().flat_map(|processors| {
        let case = move |(who, polling)| Case::new(POLLERS, who, processors, polling, options.load_ms());
        let contenders = contenders.iter();
        contenders.flat_map(|&who| POLLINGS.map(|(name, _)| (who, name))).map(case)
    });
    let results = report.measure_with(cases.collect(), options.repeats, measure);
    report.heading(&format!(
        "{POLLERS}: {POLLED} connections, load by {}, {} ms",
        generator::name(),
        options.load_ms()
    ));
    for processors in [1, 2] {
        for (name, _) in POLLINGS {
            for (title, figure) in [("server CPU", "per_cpu"), ("time", "per_second")] {
                let title = format!("thousand requests per second of {title}, {name}, {processors} processor(s)");
                let selected = |c: &Case| c.variant == name && c.processors == processors;
                report.table(&title, &results, selected, Column { figure, unit: 1e3 });
            }
        }
    }
}

pub fn conduct_one_each(options: &Options, report: &mut Report) {
    conduct(options, report, ONE_EACH, &[64], Contender::Tokio);
}

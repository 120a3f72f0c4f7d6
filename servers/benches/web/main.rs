//! This server and the system's nginx under the same load, in turns.
//!
//! ```sh
//! cargo bench -p sinew-servers --bench web -- [EXPERIMENT...] [--repeat N] [--seconds S]
//! ```
//!
//! Each server has one worker, on one CPU; the load comes from `wrk` on another. What is
//! compared is requests for each second of CPU time that the server used, so that a generator
//! that is slower than the server does not matter; of large files, bytes for each second, for
//! there both CPUs share the work of moving them. Experiments: `plaintext64`,
//! `plaintext1000`, `small`, `medium`, `large`, `close`, `slow`, `idle`, `tls`; all of them
//! if none is named. nginx's configuration is in `server.rs`.

mod load;
mod server;

use load::{Load, Slow};
use server::{Kind, Server};
use std::time::Duration;

/// The sizes of the files.
const FILES: [(&str, usize); 3] = [("1k.bin", 1 << 10), ("16k.bin", 16 << 10), ("1m.bin", 1 << 20)];

struct Plan {
    experiments: Vec<String>,
    repeat: usize,
    seconds: usize,
}

fn plan() -> Plan {
    let mut plan = Plan { experiments: Vec::new(), repeat: 5, seconds: 3 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|number| number.parse().ok()).expect("a number");
        match argument.as_str() {
            "--bench" => {}
            "--repeat" => plan.repeat = number(),
            "--seconds" => plan.seconds = number(),
            name => plan.experiments.push(name.to_owned()),
        }
    }
    plan
}

/// The middle one.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Medians for both servers, which take turns.
fn compare(name: &str, unit: &str, bar: &str, repeat: usize, measure: impl Fn(Kind) -> f64) {
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..repeat {
        for (kind, figures) in [Kind::Sinew, Kind::Nginx].into_iter().zip(&mut figures) {
            figures.push(measure(kind));
        }
    }
    let [ours, theirs] = figures.map(median);
    println!("{name:<14} sinew {ours:>9.0} nginx {theirs:>9.0} {unit}, ratio {:.3} (bar: {bar})", ours / theirs);
}

/// What most experiments compare.
const PER_CPU_SECOND: &str = "requests/CPU second";

/// Requests for each second of the server's CPU time.
fn throughput(server: &Server, load: &Load) -> f64 {
    let before = server.cpu_seconds();
    let requests = load.run(server);
    requests / (server.cpu_seconds() - before)
}

fn main() {
    let plan = plan();
    if !server::are_installed() {
        println!("nginx or wrk is not installed: nothing to compare with");
        return;
    }
    server::pin_here();
    let wants = |name: &str| plan.experiments.is_empty() || plan.experiments.iter().any(|wanted| wanted == name);
    let base = Load { target: "/plaintext", connections: 64, seconds: plan.seconds, close: false };
    let experiments = [
        ("plaintext64", ">= 1.1", base),
        ("plaintext1000", ">= 1.1", Load { connections: 1000, ..base }),
        ("small", ">= 1.0", Load { target: "/1k.bin", ..base }),
        ("medium", ">= 1.0", Load { target: "/16k.bin", ..base }),
        ("close", ">= 0.95", Load { close: true, ..base }),
    ];
    for (name, bar, load) in experiments {
        if wants(name) {
            compare(name, PER_CPU_SECOND, bar, plan.repeat, |kind| {
                throughput(&Server::start(kind, &FILES, &[]), &load)
            });
        }
    }
    if wants("large") {
        let load = Load { target: "/1m.bin", connections: 16, ..base };
        compare("large", "MiB/second", ">= 1.0", plan.repeat, |kind| {
            load.run(&Server::start(kind, &FILES, &[])) / load.seconds as f64
        });
    }
    if wants("tls") {
        compare("tls, 16 KiB", PER_CPU_SECOND, "none", plan.repeat, |kind| {
            let server = Server::start_secure(kind, &FILES);
            throughput(&server, &Load { target: "/16k.bin", ..base })
        });
    }
    if wants("slow") {
        slow(&plan, base);
    }
    if wants("idle") {
        idle();
    }
}

/// What fast clients lose when 400 slow ones are there: half of them send a byte at a time,
/// the others hardly read.
fn slow(plan: &Plan, load: Load) {
    for kind in [Kind::Sinew, Kind::Nginx] {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..plan.repeat {
            let server = Server::start(kind, &FILES, &[]);
            alone.push(throughput(&server, &load));
            let slow = Slow::attach(&server, 400);
            beside.push(throughput(&server, &load));
            assert_eq!(slow.detach(), 400, "slow clients were turned away");
        }
        let (alone, beside) = (median(alone), median(beside));
        println!(
            "slow           {kind:?} alone {alone:.0}, beside 400 slow clients {beside:.0} requests/CPU second: \
             {:.3} (bar for sinew: >= 0.9)",
            beside / alone
        );
    }
}

/// What a connection takes that has asked once, and stays, when all have been silent for a
/// while.
fn idle() {
    const CONNECTIONS: usize = 2000;
    const SILENCE: Duration = Duration::from_secs(3);
    for kind in [Kind::Sinew, Kind::Nginx] {
        let server = Server::start(kind, &FILES, &[]);
        let first = load::idle(&server, 10);
        let before = server.resident();
        let connections = load::idle(&server, CONNECTIONS);
        std::thread::sleep(SILENCE);
        let bytes = server.resident().saturating_sub(before) as f64 / connections.len() as f64;
        println!("idle           {kind:?} {bytes:.0} resident bytes for each of {CONNECTIONS} connections");
        drop(first);
    }
}

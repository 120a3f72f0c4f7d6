//! `slow`: the requests that fast clients of `sinew web` and of nginx lose to slow clients. Half of
//! those send a head by a byte a second, the others read a large file by a byte a second.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::files::is_real;
use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant, serving};
use crate::case::{Case, Reading};
use crate::load::http::{self, PLAINTEXT, Stay};
use crate::load::server::Server;
use crate::load::slow::Slow;
use crate::load::{Load, Shape, sites};

const FAST: usize = 64;
const SLOW_CLIENTS: usize = 400;
const LARGE: &str = "/1m.bin";

/// How often the server is looked at until it has settled, and for how long at most.
const LOOK: Duration = Duration::from_millis(50);
const LONGEST_SETTLING: Duration = Duration::from_secs(5);

pub static SLOW: Experiment = Experiment {
    name: "slow",
    source: "Sinew",
    measures: "Requests for /plaintext per second of server CPU, by 64 clients alone and beside 400 slow ones, half of which send a byte a second while the others read a byte a second.",
    good: "At least 0.9 of the figure alone, and no slow client is turned away.",
    metrics: &[
        Metric::higher("of_alone", "of the figure alone", 1.0),
        Metric::beside("ops_per_cpu_s", "thousand requests per second of server CPU, beside", 1e3),
        Metric::beside("ops_per_s", "thousand requests/s, beside", 1e3),
    ],
    plots: &[Plot::Bars { metric: "of_alone" }],
    is_pinned: false,
    others: "only real web servers have a bound for slow clients",
    concerns: is_real,
    command: Some("web"),
    variants: |_, _, _| vec![Variant::new("-", FAST)],
    measure: |case| measure(case).into(),
    serve: Some(|case| sites::serve(case, sites::Scheme::Http)),
    bars: &[Bar::of("sinew/web", "-", 1).at_least(0.9)],
    ..PLAIN
};

/// Waits until the server has filled the buffers of the clients that read, which happens once.
fn settle(server: &Server) {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST_SETTLING {
        let before = server.cpu();
        thread::sleep(LOOK);
        if server.cpu() - before < LOOK / 20 {
            return;
        }
    }
}

fn measure(case: &Case) -> io::Result<Reading> {
    let server = serving::start(case)?;
    let traffic = http::traffic(server.address, Stay::Open.request(PLAINTEXT))?;
    let mut load = Load::connect(server.address, Shape::plain(case.threads), traffic)?;
    let half = case.window() / 2;
    let (mut alone, mut beside) = (Reading::default(), Reading::default());
    serving::closed(&server, &mut load, half, &mut alone)?;
    let slow = Slow::attach(server.address, SLOW_CLIENTS, LARGE)?;
    settle(&server);
    serving::closed(&server, &mut load, half, &mut beside)?;
    let served = slow.detach();
    if served < SLOW_CLIENTS {
        return Err(io::Error::other(format!("{} slow clients were turned away", SLOW_CLIENTS - served)));
    }
    let figure = |reading: &Reading| reading.get("ops_per_cpu_s").unwrap_or(f64::NAN);
    beside.set("of_alone", figure(&beside) / figure(&alone));
    Ok(beside)
}

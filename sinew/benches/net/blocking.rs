//! `blocking`: a round trip to the pool of kernel threads for calls that block, one at
//! a time.

use std::time::{Duration, Instant};

use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::options::Options;
use crate::support::peers::fibres::Fibres;
use crate::support::peers::{Stackful, run_task};
use crate::support::report::{Bound, Column, Report};

pub const NAME: &str = "blocking";

const PROCESSORS: usize = 2;
const LIMIT: Duration = Duration::from_secs(30);
/// How many round trips are made between two looks at the clock.
const BATCH: u64 = 100;

pub fn measure(case: &Case) -> Reading {
    let window = case.window();
    let ns = match case.contender {
        Contender::Sinew(scheduler) => Fibres::new(case.processors, scheduler).run(move || {
            let (began, mut count) = (Instant::now(), 0);
            while began.elapsed() < window {
                for number in 0..BATCH {
                    assert_eq!(sinew::blocking(move || number), number);
                }
                count += BATCH;
            }
            began.elapsed().as_nanos() as f64 / count as f64
        }),
        Contender::Tokio => run_task(case.processors, async move {
            let (began, mut count) = (Instant::now(), 0);
            while began.elapsed() < window {
                for number in 0..BATCH {
                    assert_eq!(tokio::task::spawn_blocking(move || number).await.expect("a call"), number);
                }
                count += BATCH;
            }
            began.elapsed().as_nanos() as f64 / count as f64
        }),
        _ => unreachable!("no other has such a pool"),
    };
    Reading::of([("ns", ns)])
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&[Contender::Tokio]);
    let cases = contenders.iter().map(|&who| Case::new(NAME, who, PROCESSORS, "-", options.window_ms())).collect();
    let results = report.measure(cases, options.repeats, LIMIT);
    report.heading("blocking: a call on the pool, there and back");
    report.table("µs for a round trip", &results, |_| true, Column { figure: "ns", unit: 1e3 });
    for sinew in results.sinews() {
        let ns = |who| results.median("ns", who, PROCESSORS, "-");
        let claim = "blocking, a round trip no slower than Tokio's";
        report.bar(&results, sinew, claim, ns(sinew) / ns(Contender::Tokio), Bound::AtMost(1.0));
    }
}

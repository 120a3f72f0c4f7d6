//! `tracing` with `sinew_tracing::FollowFibres`: every event is in the spans of its own fibre.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use fixture::everywhere;
use sinew::Runtime;
use sinew::sync::Barrier;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once};
use tracing::{info, info_span};
use tracing_subscriber::prelude::*;

const FIBRES: usize = 8;
const STEPS: usize = 5;

/// What the subscriber of the process has written.
static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `body` in every set-up, and calls `check` with the lines that it has logged.
fn lines_of(body: impl Fn(&Runtime), check: impl Fn(&[String])) {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let lines = tracing_subscriber::fmt::layer().with_writer(|| Writer);
        let lines = lines.without_time().with_target(false).with_level(false).with_ansi(false);
        tracing_subscriber::registry().with(lines).with(sinew_tracing::FollowFibres::new()).init();
    });
    everywhere(|rt, _| {
        WRITTEN.lock().unwrap().clear();
        body(rt);
        let written = String::from_utf8(std::mem::take(&mut *WRITTEN.lock().unwrap())).unwrap();
        check(&written.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>());
    });
}

/// Runs `body` in fibres of the runtime that begin together.
fn in_fibres(rt: &Runtime, body: fn(usize)) {
    let all_begun = Arc::new(Barrier::new(FIBRES));
    let fibre = |number| {
        let all_begun = Arc::clone(&all_begun);
        move || {
            all_begun.wait();
            body(number);
        }
    };
    let fibres: Vec<_> = (0..FIBRES).map(|number| rt.spawn(fibre(number))).collect();
    fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
}

#[test]
fn every_event_is_in_the_spans_of_its_fibre() {
    let session = |fibre: usize| {
        info!("{fibre} is in no span");
        let _session = info_span!("session", fibre).entered();
        for step in 0..STEPS {
            sinew::yield_now();
            // The parent is the span that the fibre is in.
            info_span!("step", step).in_scope(|| {
                sinew::yield_now();
                info!("{fibre} {step}");
            });
        }
        sinew::yield_now();
        info!("{fibre} ends");
    };
    lines_of(
        |rt| in_fibres(rt, session),
        |lines| {
            let mut expected = Vec::new();
            for fibre in 0..FIBRES {
                expected.push(format!("{fibre} is in no span"));
                let step = |step| format!("session{{fibre={fibre}}}:step{{step={step}}}: {fibre} {step}");
                expected.extend((0..STEPS).map(step));
                expected.push(format!("session{{fibre={fibre}}}: {fibre} ends"));
            }
            expected.sort();
            let mut lines = lines.to_vec();
            lines.sort();
            assert_eq!(lines, expected);
        },
    );
}

#[test]
fn spans_may_be_exited_in_another_order_than_they_were_entered() {
    let session = |fibre: usize| {
        let (outer, inner) = (info_span!("outer", fibre), info_span!("inner", fibre));
        let entered = outer.enter();
        let kept = inner.enter();
        sinew::yield_now();
        drop(entered);
        sinew::yield_now();
        info!("{fibre}");
        drop(kept);
        sinew::yield_now();
        info!("{fibre}");
    };
    lines_of(
        |rt| in_fibres(rt, session),
        |lines| {
            for fibre in 0..FIBRES {
                let of_fibre: Vec<_> = lines.iter().filter(|line| line.ends_with(&fibre.to_string())).collect();
                let expected = [format!("inner{{fibre={fibre}}}: {fibre}"), fibre.to_string()];
                assert_eq!(of_fibre, expected.iter().collect::<Vec<_>>());
            }
        },
    );
}

#[test]
fn a_fibre_that_ends_in_a_span_takes_it_along() {
    let session = |fibre: usize| {
        info!("{fibre} begins");
        std::mem::forget(info_span!("left", fibre).entered());
        sinew::yield_now();
        info!("{fibre} ends");
    };
    lines_of(
        |rt| (0..3).for_each(|_| in_fibres(rt, session)),
        |lines| {
            let begins = lines.iter().filter(|line| line.ends_with("begins"));
            assert!(begins.clone().all(|line| !line.contains("left")), "{lines:#?}");
            assert_eq!(begins.count(), 3 * FIBRES);
            let ends = |fibre: usize| format!("left{{fibre={fibre}}}: {fibre} ends");
            assert!((0..FIBRES).all(|fibre| lines.iter().filter(|line| **line == ends(fibre)).count() == 3));
        },
    );
}

//! `placement`: on which processors strands begin, by the way in which they arrive.
//!
//! - `burst`: one strand spawns them all at once.
//! - `paced`: one strand spawns one, sleeps for 2 ms, and spawns the next.
//! - `accepted`: one strand accepts connections and spawns a strand for each. The client
//!   opens a connection when the one before has had a reply.
//!
//! A strand notes the kernel thread that begins it, and lives until all have begun. A fibre
//! of the default runtime stays on that processor for life. Strands of other peers may move
//! later.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::kernel;
use crate::peers::{self, Body, Peer};

const BURST: &str = "burst";
const PACED: &str = "paced";
const ACCEPTED: &str = "accepted";
const STRANDS: usize = 100;
const PACE: Duration = Duration::from_millis(2);

pub static PLACEMENT: Experiment = Experiment {
    name: "placement",
    source: "Sinew",
    measures: "How 100 strands are spread over the processors when they begin: spawned at once (burst), spawned 2 ms apart (paced), or one for each accepted connection (accepted).",
    good: "An even spread: at most 60 % on one of two processors, and at most twice as many on the fullest of four as on the emptiest. A fibre of the default runtime stays where it begins, so an uneven start lasts.",
    metrics: &[
        Metric::lower("fullest_percent", "% on the fullest processor", 1.0),
        Metric::lower("most_fewest_ratio", "most strands over fewest (counted as 1 if none)", 1.0),
        Metric::beside("most", "most strands on a processor", 1.0),
        Metric::beside("fewest", "fewest strands on a processor", 1.0),
    ],
    plots: &[Plot::Bars { metric: "fullest_percent" }],
    least_processors: 2,
    limit: |_| Duration::from_secs(10),
    variants: |_, _, _| [BURST, PACED, ACCEPTED].map(|name| Variant::new(name, STRANDS)).to_vec(),
    cannot: |peer| (peer.name == "threads").then_some("each strand is a kernel thread of its own"),
    measure: peers::measure::<Placement>,
    bars: &[on_two(BURST), on_two(PACED), on_two(ACCEPTED), on_four(BURST), on_four(PACED), on_four(ACCEPTED)],
    ..PLAIN
};

const fn on_two(variant: &'static str) -> Bar {
    Bar::of(peers::DEFAULT, variant, 2).at_most(60.0).in_every_run()
}

const fn on_four(variant: &'static str) -> Bar {
    Bar::of(peers::DEFAULT, variant, 4).metric("most_fewest_ratio").at_most(2.0).in_every_run()
}

/// The part that all strands share.
struct Census<P: Peer> {
    /// The number of strands that each kernel thread has begun.
    begun: Mutex<BTreeMap<i32, usize>>,
    /// A permit for each strand that has begun.
    arrived: P::Semaphore,
    /// A permit lets a strand end.
    over: P::Semaphore,
}

impl<P: Peer> Census<P> {
    fn new() -> Arc<Census<P>> {
        Arc::new(Census { begun: Mutex::default(), arrived: P::semaphore(), over: P::semaphore() })
    }

    fn note(&self) {
        *self.begun.lock().expect("no poison").entry(kernel::thread_id()).or_default() += 1;
    }

    /// The life of a strand.
    async fn live(self: Arc<Self>) -> u64 {
        self.note();
        P::post(&self.arrived, 1);
        P::wait(&self.over).await;
        1
    }

    /// The life of a strand with a connection: answers one byte, then lives on.
    async fn serve(self: Arc<Self>, mut stream: P::Stream) -> u64 {
        self.note();
        let mut byte = [0];
        P::read(&mut stream, &mut byte).await.expect("a byte");
        P::write_all(&mut stream, &byte).await.expect("a client that reads");
        P::post(&self.arrived, 1);
        P::wait(&self.over).await;
        1
    }

    /// Waits until all have begun, and lets them end.
    async fn close(&self, handles: Vec<P::Handle>) {
        for _ in 0..handles.len() {
            P::wait(&self.arrived).await;
        }
        P::post(&self.over, handles.len());
        for handle in handles {
            P::join(handle).await;
        }
    }

    fn reading(&self, processors: usize) -> Reading {
        let begun = self.begun.lock().expect("no poison");
        let most = begun.values().max().copied().unwrap_or(0) as f64;
        let fewest = if begun.len() < processors { 0 } else { begun.values().min().copied().unwrap_or(0) };
        let all: usize = begun.values().sum();
        Reading::of([
            ("fullest_percent", 100.0 * most / all as f64),
            ("most_fewest_ratio", most / fewest.max(1) as f64),
            ("most", most),
            ("fewest", fewest as f64),
        ])
    }
}

async fn spawned<P: Peer>(census: &Arc<Census<P>>, strands: usize, pace: Option<Duration>) -> Vec<P::Handle> {
    let mut handles = Vec::with_capacity(strands);
    for _ in 0..strands {
        handles.push(P::spawn(census.clone().live()));
        if let Some(pace) = pace {
            P::sleep(pace).await;
        }
    }
    handles
}

async fn accepted<P: Peer>(census: &Arc<Census<P>>, strands: usize) -> Vec<P::Handle> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut listener = P::listener(listener).expect("a listener");
    std::thread::spawn(move || connect(address, strands));
    let mut handles = Vec::with_capacity(strands);
    for _ in 0..strands {
        let stream = P::accept(&mut listener).await.expect("a connection");
        handles.push(P::spawn(census.clone().serve(stream)));
    }
    handles
}

/// Opens connections one after the other, and keeps them open until the last has had a reply.
fn connect(address: SocketAddr, connections: usize) -> io::Result<Vec<TcpStream>> {
    let one = |_| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"?")?;
        stream.read_exact(&mut [0])?;
        Ok(stream)
    };
    (0..connections).map(one).collect()
}

struct Placement;

impl Body for Placement {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let (strands, variant) = (case.threads, case.variant.clone());
        let census = peer.run(async move {
            let census = Census::<P>::new();
            let handles = match variant.as_str() {
                BURST => spawned(&census, strands, None).await,
                PACED => spawned(&census, strands, Some(PACE)).await,
                _ => accepted(&census, strands).await,
            };
            census.close(handles).await;
            census
        });
        census.reading(case.processors)
    }
}

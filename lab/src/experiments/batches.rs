//! `batches`: the server's part of a plaintext request, by the number of connections that are
//! ready at once.
//!
//! The client and the server share one CPU and take turns. In a round the client sends one request
//! on each of some connections. Then it is the server's turn: from the client's last request until
//! the last reply is sent. Only this turn is timed. Then the client reads the replies. So neither
//! the client's work nor a CPU that waits is in the figure, and the number of connections that a
//! server finds ready is known.
//!
//! The client is the root strand of the server's own runtime. It blocks in calls that the runtime
//! does not know of, and waits for its server by parking. The strand that sent the last reply of a
//! turn unparks it. So the runtime polls, switches, reads and sends as for a client elsewhere; one
//! unpark and one switch for each round are in its figure. Bare loops run their turns until all
//! replies are sent.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Instant;

use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::kernel;
use crate::load::bare::{self, Bare};
use crate::load::connect;
use crate::load::http::{PLAINTEXT, ROOM, Stay, requests};
use crate::measure::slices::Slices;
use crate::peers::{self, Body, Contender, Peer};

/// Connections and how many of them are ready at once.
const SHAPES: [(usize, usize); 6] = [(64, 1), (64, 4), (64, 16), (64, 64), (1000, 20), (1000, 100)];

const NAMES: [&str; 5] = ["sinew/default", "sinew/fair", "sinew/default/epoll", "sinew/fair/epoll", "tokio/current"];

pub static BATCHES: Experiment = Experiment {
    name: "batches",
    source: "Sinew",
    measures: "The server’s part of a plaintext request, by the number of connections @ ready at once. The client and the server take turns on one CPU, and only the server’s turns are timed.",
    good: "More requests per second when several connections are ready at once: then one call sends several replies.",
    metrics: &[
        Metric::higher("ops_per_s", "thousand requests per second of the server’s turns", 1e3),
        Metric::lower("ns_per_op", "ns for each request", 1.0),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    others: "the experiment compares ways to ask the kernel. Tokio takes part with its runtime of one thread",
    concerns: takes_part,
    variants: |depth, _, _| {
        let shapes = if depth == Depth::Tour { &SHAPES[2..3] } else { &SHAPES[..] };
        shapes.iter().map(|(all, ready)| Variant::new(format!("{all}@{ready}"), *all)).collect()
    },
    measure: |case| match bare::NAMES.contains(&case.peer.as_str()) {
        true => measure_bare(case).into(),
        false => peers::measure::<Batches>(case),
    },
    bars: &[
        batching("sinew/default", "64@1", 0.98).over_peers(&["sinew/default/epoll"]),
        batching("sinew/default", "64@4", 1.06).over_peers(&["sinew/default/epoll"]),
        batching("sinew/default", "64@16", 1.12).over_peers(&["sinew/default/epoll"]),
        batching("sinew/default", "1000@20", 1.10).over_peers(&["sinew/default/epoll"]),
        batching("sinew/fair", "64@1", 0.98).over_peers(&["sinew/fair/epoll"]),
        batching("sinew/fair", "64@4", 1.06).over_peers(&["sinew/fair/epoll"]),
        batching("sinew/fair", "64@16", 1.12).over_peers(&["sinew/fair/epoll"]),
        batching("sinew/fair", "1000@20", 1.10).over_peers(&["sinew/fair/epoll"]),
        batching("sinew/default", "64@4", 1.03).over_peers(&["bare/epoll"]),
        batching("sinew/default", "64@16", 1.10).over_peers(&["bare/epoll"]),
        batching("sinew/default", "1000@20", 1.15).over_peers(&["bare/epoll"]),
        batching("sinew/fair", "64@4", 1.03).over_peers(&["bare/epoll"]),
        batching("sinew/fair", "64@16", 1.10).over_peers(&["bare/epoll"]),
        batching("sinew/fair", "1000@20", 1.15).over_peers(&["bare/epoll"]),
    ],
    ..PLAIN
};

const fn batching(peer: &'static str, variant: &'static str, bound: f64) -> Bar {
    Bar::of(peer, variant, 1).at_least(bound)
}

fn takes_part(peer: &Contender) -> bool {
    NAMES.contains(&peer.name) || bare::NAMES.contains(&peer.name)
}

/// Returns how many connections of a case are ready at once.
fn ready_at_once(case: &Case) -> usize {
    let ready = case.variant.split_once('@').and_then(|(_, ready)| ready.parse().ok());
    ready.unwrap_or_else(|| panic!("not a number of connections @ ready: {}", case.variant))
}

/// The client: one end of all connections. All its calls block.
struct Client {
    streams: Vec<TcpStream>,
    ready: usize,
    /// The connection with which the next round begins.
    next: usize,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Client {
    /// Returns the client of a case, and the server's ends of its connections.
    fn connect(case: &Case) -> io::Result<(Client, Vec<TcpStream>)> {
        kernel::raise_descriptor_limit()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (mut streams, mut others) = (Vec::new(), Vec::new());
        for _ in 0..case.threads {
            streams.push(connect(listener.local_addr()?)?);
            let (other, _) = listener.accept()?;
            other.set_nodelay(true)?;
            others.push(other);
        }
        let (request, reply) = (Stay::Open.request(PLAINTEXT), vec![0; Stay::Open.reply().len()]);
        Ok((Client { streams, ready: ready_at_once(case), next: 0, request, reply }, others))
    }

    /// Sends the requests of a round.
    fn ask(&mut self) -> io::Result<()> {
        for place in self.next..self.next + self.ready {
            let place = place % self.streams.len();
            self.streams[place].write_all(&self.request)?;
        }
        Ok(())
    }

    /// Reads the replies of a round.
    fn hear(&mut self) -> io::Result<()> {
        for place in self.next..self.next + self.ready {
            let place = place % self.streams.len();
            self.streams[place].read_exact(&mut self.reply)?;
            if self.reply != Stay::Open.reply() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not the reply that was expected"));
            }
        }
        self.next = (self.next + self.ready) % self.streams.len();
        Ok(())
    }
}

/// Returns the reading of the server's turns.
fn reading(turns: &Slices) -> Reading {
    let ns = turns.median_ns();
    Reading::of([("ops_per_s", 1e9 / ns), ("ns_per_op", ns)])
}

fn measure_bare(case: &Case) -> io::Result<Reading> {
    let (mut client, others) = Client::connect(case)?;
    let mut server: Box<dyn Bare> = bare::of(&case.peer, Stay::Open)?;
    others.into_iter().try_for_each(|stream| server.clients().add(stream))?;
    let mut turns = Slices::new(case.window());
    let mut replies = 0;
    while !turns.is_over() {
        client.ask()?;
        replies += client.ready as u64;
        let begun = Instant::now();
        while server.clients().replies() < replies {
            server.turn()?;
        }
        turns.note(begun.elapsed(), client.ready);
        client.hear()?;
    }
    Ok(reading(&turns))
}

struct Batches;

impl Body for Batches {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let (mut client, others) = Client::connect(case).expect("connections");
        let mut turns = Slices::new(case.window());
        peer.run(async move {
            let own = P::parker();
            let missing = Arc::new(AtomicUsize::new(0));
            for stream in others {
                let stream = P::stream(stream).expect("a stream");
                P::spawn(session::<P>(stream, missing.clone(), own.clone()));
            }
            while !turns.is_over() {
                // Pairs with `session`, though the kernel's queues order the two as well.
                missing.store(client.ready, Release);
                client.ask().expect("to send requests");
                let begun = Instant::now();
                // Pairs with `session`.
                while missing.load(Acquire) > 0 {
                    P::park(&own).await;
                }
                turns.note(begun.elapsed(), client.ready);
                client.hear().expect("replies");
            }
            reading(&turns)
        })
    }
}

/// Answers requests, and unparks the client after the last one of a round.
async fn session<P: Peer>(mut stream: P::Stream, missing: Arc<AtomicUsize>, client: P::Parker) -> u64 {
    let (mut buffer, mut filled) = ([0; ROOM], 0);
    loop {
        filled += match P::read(&mut stream, &mut buffer[filled..]).await {
            Ok(0) | Err(_) => return 0,
            Ok(count) => count,
        };
        let (asked, end) = requests(&buffer[..filled]);
        for _ in 0..asked {
            if P::write_all(&mut stream, Stay::Open.reply()).await.is_err() {
                return 0;
            }
            // Pairs with the load of the client.
            if missing.fetch_sub(1, AcqRel) == 1 {
                P::unpark(&client);
            }
        }
        buffer.copy_within(end..filled, 0);
        filled -= end;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn case(peer: &str, variant: &str) -> Case {
        let threads = variant.split('@').next().and_then(|all| all.parse().ok()).expect("a number");
        Case {
            experiment: "batches".into(),
            peer: peer.into(),
            processors: 1,
            threads,
            variant: variant.into(),
            seconds: 0.001,
        }
    }

    #[test]
    fn a_round_goes_on_where_the_last_one_ended() {
        let (mut client, mut others) = Client::connect(&case("bare/epoll", "5@3")).expect("connections");
        for round in [[0, 1, 2], [3, 4, 0]] {
            client.ask().expect("to send");
            for place in round {
                others[place].set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
                let mut request = vec![0; client.request.len()];
                others[place].read_exact(&mut request).expect("a request");
                assert_eq!(request, client.request);
                others[place].write_all(Stay::Open.reply()).expect("to send");
            }
            client.hear().expect("replies");
        }
    }

    #[test]
    fn a_wrong_reply_is_an_error() {
        let (mut client, mut others) = Client::connect(&case("bare/epoll", "1@1")).expect("a connection");
        others[0].write_all(&vec![b'?'; Stay::Open.reply().len()]).expect("to send");
        assert!(client.hear().is_err());
    }
}

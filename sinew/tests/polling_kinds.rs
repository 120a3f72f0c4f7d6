//! The three kinds of polling serve the same sockets in the same way.

mod fixture;

use fixture::loopback::{echo, pair};
use fixture::{Setup, alone, everywhere_owning, spin_until};
use sinew::io::Polling;
use sinew::net::TcpStream;
use sinew::{Cluster, Runtime};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

const POLLINGS: [Polling; 3] = [Polling::Shared, Polling::PerProcessor, Polling::Thread];

/// Connects pairs of streams. A fibre echoes on the second stream of each. The fibres are spread
/// over the processors.
fn sessions(rt: &Runtime, count: usize) -> Vec<TcpStream> {
    rt.run(|| {
        (0..count)
            .map(|_| {
                let (here, there) = pair();
                sinew::spawn(move || drop(echo(there)));
                here
            })
            .collect()
    })
}

/// Sends a message over each stream, and checks that it comes back.
fn check(rt: &Runtime, streams: &[TcpStream]) {
    rt.run(|| {
        sinew::scope(|scope| {
            for (number, mut stream) in streams.iter().enumerate() {
                scope.spawn(move || {
                    let sent = [number as u8; 50];
                    stream.write_all(&sent).unwrap();
                    let mut received = [0; 50];
                    stream.read_exact(&mut received).unwrap();
                    assert_eq!(sent, received);
                });
            }
        });
    });
}

#[test]
fn sessions_are_served_with_every_kind_of_polling() {
    everywhere_owning(|_, setup| {
        for polling in POLLINGS {
            let rt = setup.builder().polling(polling).build().unwrap();
            assert_eq!(rt.main_cluster().polling(), polling);
            let streams = sessions(&rt, 20);
            for _ in 0..10 {
                check(&rt, &streams);
            }
        }
    });
}

/// Processors leave their pollers to others, some of them twice, and get them back.
#[test]
fn descriptors_stay_served_while_processors_come_and_go() {
    everywhere_owning(|_, setup: Setup| {
        if setup.processors != 4 {
            return;
        }
        for polling in POLLINGS {
            let rt = setup.builder().polling(polling).build().unwrap();
            let cluster = rt.main_cluster().clone();
            let streams = sessions(&rt, 40);
            check(&rt, &streams);
            // The first inherits from the last, and leaves both to another.
            let first = cluster.processor_ids()[0];
            cluster.remove_processor().unwrap();
            check(&rt, &streams);
            cluster.remove_processor_by_id(first).unwrap();
            check(&rt, &streams);
            cluster.remove_processor().unwrap();
            check(&rt, &streams);
            for _ in 0..3 {
                cluster.add_processor().unwrap();
                check(&rt, &streams);
            }
            for _ in 0..3 {
                cluster.remove_processor().unwrap();
            }
            check(&rt, &streams);
        }
    });
}

/// A fibre that never yields holds up neither the sockets that its processor polls nor their
/// fibres, if these may migrate.
#[test]
fn a_busy_processor_does_not_hold_up_its_sockets() {
    everywhere_owning(|_, setup: Setup| {
        if setup.processors < 2 || !setup.migrating {
            return;
        }
        for polling in POLLINGS {
            let rt = setup.builder().polling(polling).build().unwrap();
            let streams = sessions(&rt, 20);
            let (is_busy, is_over) = (&AtomicBool::new(false), &AtomicBool::new(false));
            rt.run(|| {
                sinew::scope(|scope| {
                    scope.spawn(|| {
                        is_busy.store(true, Ordering::Relaxed);
                        spin_until(|| is_over.load(Ordering::Relaxed));
                    });
                    scope.spawn(|| {
                        fixture::wait_until(|| is_busy.load(Ordering::Relaxed));
                        let cluster = Cluster::current().unwrap();
                        assert!(cluster.processors() > 1);
                        for mut stream in &streams {
                            stream.write_all(b"on").unwrap();
                            stream.read_exact(&mut [0; 2]).unwrap();
                        }
                        is_over.store(true, Ordering::Relaxed);
                    });
                });
            });
        }
    });
}

#[test]
fn the_thread_of_a_poller_ends_with_its_runtime() {
    let pollers = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.trim_end() == "endsoon-poller").count()
    };
    alone(|| {
        let rt = Runtime::builder()
            .spares(0)
            .stall_limit(None)
            .processors(1)
            .name("endsoon")
            .polling(Polling::Thread)
            .build()
            .unwrap();
        assert_eq!(pollers(), 0, "there is a poller's thread although nothing is polled");
        let streams = sessions(&rt, 2);
        check(&rt, &streams);
        assert_eq!(pollers(), 1);
        drop(streams);
        drop(rt);
        assert!(fixture::happens_within(fixture::SOON, || pollers() == 0));
    });
}

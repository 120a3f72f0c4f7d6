//! ureq over Sinew's sockets, against a small server on Sinew's sockets.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;
mod server;

use fixture::loopback::{bytes, listener};
use fixture::{LONG, everywhere};
use server::{run, serve, silent, spawn};
use sinew::cancel::Cancelled;
use sinew::sync::{Barrier, oneshot};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use ureq::config::{Config, IpFamily};
use ureq::{Agent, Error, Proxy, Timeout};

/// A limit that is reached.
const SHORT: Duration = Duration::from_millis(5);

fn agent() -> Agent {
    sinew_ureq::agent(Config::default())
}

fn get(agent: &Agent, url: &str) -> String {
    agent.get(url).call().unwrap().body_mut().read_to_string().unwrap()
}

/// Returns the cancellation that ended a call.
fn cancelled(error: Error) -> Cancelled {
    match error {
        Error::Io(error) => *error.get_ref().expect("an error with a source").downcast_ref().expect("a cancellation"),
        other => panic!("not an error of the socket: {other:?}"),
    }
}

#[test]
fn a_hundred_fibres_ask_at_once() {
    const FIBRES: usize = 100;
    everywhere(|rt, _| {
        run(rt, || {
            let agent = agent();
            // The server answers when all have asked.
            let all_asked = Barrier::new(FIBRES);
            serve(
                |request| {
                    all_asked.wait();
                    format!("you asked for {}", request.path).into_bytes()
                },
                |url| {
                    sinew::scope(|scope| {
                        for fibre in 0..FIBRES {
                            let (agent, url) = (&agent, format!("{url}/{fibre}"));
                            spawn(scope, move || assert_eq!(get(agent, &url), format!("you asked for /{fibre}")));
                        }
                    });
                    drop(agent);
                },
            );
        });
    });
}

#[test]
fn large_bodies_go_both_ways() {
    const BYTES: usize = 500_000;
    everywhere(|rt, _| {
        run(rt, || {
            serve(
                |request| request.body,
                |url| {
                    let sent = bytes(5, BYTES);
                    let agent = agent();
                    let mut response = agent.post(url).send(&sent[..]).unwrap();
                    let received = response.body_mut().with_config().limit(BYTES as u64 + 1).read_to_vec().unwrap();
                    assert!(sent == received, "the bytes came back changed");
                    drop(response);
                    drop(agent);
                },
            );
        });
    });
}

#[test]
fn a_connection_is_used_again_unless_the_server_has_closed_it() {
    everywhere(|rt, _| {
        run(rt, || {
            let (listener, address) = listener();
            let url = format!("http://{address}/");
            let (closed, is_closed) = oneshot::channel();
            sinew::scope(|scope| {
                scope.spawn(move || {
                    let mut closed = Some(closed);
                    for answers in [3, 1] {
                        let mut stream = listener.accept().unwrap().0;
                        for _ in 0..answers {
                            server::read(&mut stream).unwrap();
                            server::answer(&mut stream, b"here");
                        }
                        drop(stream);
                        closed.take().map(|closed| closed.send(()));
                    }
                });
                let agent = agent();
                (0..3).for_each(|_| assert_eq!(get(&agent, &url), "here"));
                is_closed.recv().unwrap();
                assert_eq!(get(&agent, &url), "here");
            });
        });
    });
}

#[test]
fn names_of_hosts_are_looked_up() {
    everywhere(|rt, _| {
        run(rt, || {
            serve(
                |_| b"found".to_vec(),
                |url| {
                    let url = url.replace("127.0.0.1", "localhost");
                    assert_eq!(get(&agent(), &url), "found");
                    let limited = Agent::config_builder().timeout_resolve(Some(LONG)).build();
                    assert_eq!(get(&sinew_ureq::agent(limited), &url), "found");
                },
            );
        });
    });
}

#[test]
fn addresses_in_brackets_and_the_wanted_family_are_honoured() {
    everywhere(|rt, _| {
        run(rt, || {
            // Nobody listens at this port.
            let refused = agent().get("http://[::1]:1/").call().unwrap_err();
            assert!(matches!(refused, Error::Io(_)), "{refused:?}");
            let config = Agent::config_builder().ip_family(IpFamily::Ipv6Only).build();
            let none = sinew_ureq::agent(config).get("http://127.0.0.1:1/").call().unwrap_err();
            assert!(matches!(none, Error::HostNotFound), "{none:?}");
        });
    });
}

#[test]
fn timeouts_are_honoured() {
    everywhere(|rt, _| {
        run(rt, || {
            // A server that accepts, and never says a word.
            silent(|url| {
                let ask = |config: Config| {
                    let began = Instant::now();
                    let error = sinew_ureq::agent(config).get(url).call().unwrap_err();
                    assert!(began.elapsed() >= SHORT, "too early: {error}");
                    match error {
                        Error::Timeout(reason) => reason,
                        other => panic!("not a timeout: {other:?}"),
                    }
                };
                let builder = || Agent::config_builder().timeout_global(Some(LONG));
                assert_eq!(ask(builder().timeout_global(Some(SHORT)).build()), Timeout::Global);
                assert_eq!(ask(builder().timeout_recv_response(Some(SHORT)).build()), Timeout::RecvResponse);
                assert_eq!(ask(builder().timeout_per_read(Some(SHORT)).build()), Timeout::PerRead);
                // More bytes than the sockets hold, and nobody reads them.
                let config = builder().timeout_send_body(Some(SHORT)).build();
                let error = sinew_ureq::agent(config).post(url).send(&vec![0; 20_000_000][..]).unwrap_err();
                assert!(matches!(error, Error::Timeout(Timeout::SendBody)), "{error:?}");
            });
        });
    });
}

#[test]
fn cancellation_and_carried_deadlines_end_a_call() {
    everywhere(|rt, _| {
        run(rt, || {
            silent(|url| {
                sinew::scope(|scope| {
                    let call = spawn(scope, || agent().get(url).call().map(drop));
                    fixture::let_others_wait();
                    call.fibre().cancel();
                    assert_eq!(cancelled(call.join().unwrap().unwrap_err()), Cancelled::Requested);
                });
                let overdue = sinew::time::timeout(SHORT, || agent().get(url).call().map(drop));
                assert_eq!(cancelled(overdue.unwrap_err()), Cancelled::Overdue);
            });
        });
    });
}

#[test]
fn the_end_of_an_agent_ends_its_calls() {
    everywhere(|rt, _| {
        run(rt, || {
            let (listener, address) = listener();
            let agent = agent();
            sinew::scope(|scope| {
                let call = spawn(scope, || agent.get(format!("http://{address}/")).call().map(drop));
                let mut stream = listener.accept().unwrap().0;
                server::read(&mut stream).unwrap();
                agent.clone().shutdown();
                call.join().unwrap().unwrap_err();
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            });
        });
    });
}

#[test]
fn errors_of_the_server_are_errors_of_the_call() {
    everywhere(|rt, _| {
        run(rt, || {
            let (listener, address) = listener();
            let url = format!("http://{address}/");
            sinew::scope(|scope| {
                scope.spawn(|| {
                    let mut stream = listener.accept().unwrap().0;
                    server::read(&mut stream).unwrap();
                    stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").unwrap();
                    // The next connection ends in the middle of its answer.
                    let mut stream = listener.accept().unwrap().0;
                    server::read(&mut stream).unwrap();
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").unwrap();
                });
                assert!(matches!(agent().get(&url).call().unwrap_err(), Error::StatusCode(404)));
                assert!(agent().get(&url).call().unwrap().body_mut().read_to_string().is_err());
            });
            drop(listener);
            let refused = agent().get(&url).call().unwrap_err();
            assert!(matches!(refused, Error::Io(_)), "{refused:?}");
        });
    });
}

#[test]
fn http_proxies_work_and_socks_proxies_are_refused() {
    everywhere(|rt, _| {
        run(rt, || {
            let (listener, address) = listener();
            let through = |scheme: &str| {
                let proxy = Proxy::new(&format!("{scheme}://{address}")).unwrap();
                sinew_ureq::agent(Agent::config_builder().proxy(Some(proxy)).build())
            };
            // Nobody listens at this port.
            let elsewhere = "http://127.0.0.1:1/page";
            sinew::scope(|scope| {
                scope.spawn(|| {
                    let mut stream = listener.accept().unwrap().0;
                    assert_eq!(server::read(&mut stream).unwrap().path, "127.0.0.1:1");
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                    assert_eq!(server::read(&mut stream).unwrap().path, "/page");
                    server::answer(&mut stream, b"through a proxy");
                });
                assert_eq!(get(&through("http"), elsewhere), "through a proxy");
            });
            let refused = through("socks5").get(elsewhere).call().unwrap_err();
            assert!(matches!(&refused, Error::Io(error) if error.kind() == ErrorKind::Unsupported), "{refused:?}");
        });
    });
}

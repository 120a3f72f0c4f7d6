//! Twenty thousand connections at once: each of them works, and each is cheap while it is idle. The
//! server and its clients are separate processes.

#[macro_use]
mod fixture;

use fixture::process_bytes;
use fixture::rerun::{self, Rerun};
use sinew::net::{TcpListener, TcpStream};
use sinew::{JoinHandle, Runtime};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

const CONNECTIONS: usize = 20_000;

/// Descriptors that are not connections.
const OTHERS: usize = 64;

/// The clients use several addresses, because the number of their ports limits the connections to
/// one address.
const LISTENERS: usize = 4;

/// Environment variable: the number of connections, and the addresses to connect to.
const CLIENTS: &str = "SINEW_TEST_CLIENTS";

const OPEN: &str = "all are open";
const DONE: &str = "all have answered twice";

/// Raises the limit of descriptors to `wanted`, or as far as allowed. Returns the limit.
#[allow(unsafe_code)]
fn raise_descriptors(wanted: usize) -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for writing.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    let most = limit.rlim_max.max(wanted as libc::rlim_t);
    for rlim_max in [most, limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: rlim_max, rlim_max };
        // Only a privileged process may raise the hard limit. SAFETY: the limit is valid for
        // reading.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
            return rlim_max.min(wanted as libc::rlim_t) as usize;
        }
    }
    limit.rlim_cur.min(wanted as libc::rlim_t) as usize
}

fn question(connection: usize, round: u64) -> u64 {
    (connection as u64) << 8 | round
}

fn answer(question: u64) -> u64 {
    question.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Answers until the client closes. Returns the number of questions.
fn session(mut stream: TcpStream) -> u64 {
    let mut questions = 0;
    let mut buffer = [0; 8];
    while stream.read_exact(&mut buffer).is_ok() {
        questions += 1;
        stream.write_all(&answer(u64::from_le_bytes(buffer)).to_le_bytes()).unwrap();
    }
    questions
}

fn accept(listener: &TcpListener, count: usize) -> Vec<JoinHandle<u64>> {
    let serve = |_| {
        let (stream, _) = listener.accept().unwrap();
        sinew::spawn(move || session(stream))
    };
    (0..count).map(serve).collect()
}

/// Runs the clients' process: opens `count` connections, spread over the addresses.
fn be_clients(instructions: &str) {
    let mut words = instructions.split_whitespace();
    let count: usize = words.next().unwrap().parse().unwrap();
    let addresses: Vec<SocketAddr> = words.map(|address| address.parse().unwrap()).collect();
    raise_descriptors(count + OTHERS);
    let connect = |number| std::net::TcpStream::connect(addresses[number % addresses.len()]).unwrap();
    let mut streams: Vec<_> = (0..count).map(connect).collect();
    let mut exchange = |round| {
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&question(number, round).to_le_bytes()).unwrap();
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let mut buffer = [0; 8];
            stream.read_exact(&mut buffer).unwrap();
            assert_eq!(u64::from_le_bytes(buffer), answer(question(number, round)), "connection {number}");
        }
    };
    exchange(1);
    println!("{OPEN}");
    std::io::stdin().read_exact(&mut [0]).unwrap();
    exchange(2);
    println!("{DONE}");
}

fn start_clients(test: &str, instructions: &str) -> Child {
    let mut command = rerun::command(test, CLIENTS, instructions);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads the child's output until it has said `expected`.
fn wait_for(expected: &str, said: &mut impl BufRead) {
    let mut line = String::new();
    while !line.contains(expected) {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the clients ended before {expected:?}");
    }
}

#[test]
fn twenty_thousand_connections_all_answer_and_cost_five_kib_each() {
    if let Ok(instructions) = std::env::var(CLIENTS) {
        return be_clients(&instructions);
    }
    let test = name_of_test!();
    let outcome = in_child!(Rerun::new(), || {
        let descriptors = raise_descriptors(CONNECTIONS + OTHERS);
        let each_listener = (descriptors - OTHERS) / LISTENERS;
        let count = each_listener * LISTENERS;
        let most_each = if cfg!(debug_assertions) { 9 * 1024 } else { 5 * 1024 };

        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        let (listeners, addresses): (Vec<_>, Vec<_>) = runtime.run(|| {
            let bind = |number| {
                let listener = TcpListener::bind(format!("127.0.0.{}:0", number + 1)).unwrap();
                let address = listener.local_addr().unwrap();
                (listener, address.to_string())
            };
            (0..LISTENERS).map(bind).unzip()
        });
        let before = process_bytes("RssAnon");
        let acceptors: Vec<_> =
            listeners.into_iter().map(|listener| runtime.spawn(move || accept(&listener, each_listener))).collect();
        let mut clients = start_clients(test, &format!("{count} {}", addresses.join(" ")));
        let mut said = BufReader::new(clients.stdout.take().unwrap());
        wait_for(OPEN, &mut said);
        let sessions: Vec<_> = acceptors.into_iter().flat_map(|acceptor| acceptor.join().unwrap()).collect();
        assert_eq!(sessions.len(), count);
        let each = (process_bytes("RssAnon") - before) / count;
        println!("{count} connections, {each} bytes each");
        assert!(each <= most_each, "{each} bytes each");

        clients.stdin.take().unwrap().write_all(b"!").unwrap();
        wait_for(DONE, &mut said);
        assert!(clients.wait().unwrap().success());
        for session in sessions {
            assert_eq!(session.join().unwrap(), 2);
        }
        println!("all sessions have ended");
    });
    outcome.assert_success("all sessions have ended");
    println!("{}", outcome.stdout.lines().find(|line| line.contains("bytes each")).unwrap_or_default());
}

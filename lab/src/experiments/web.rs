//! `web`: a plaintext server with one strand for each connection, against a bare
//! epoll loop, nginx, and `sinew web`: a real server, which parses what it is asked
//! and says the date.
//!
//! The server is a process of its own on as many CPUs as the case has processors;
//! the load comes from the others, if there are any. First all connections ask as
//! fast as they get replies, then those of `wrk` if it is installed, then requests
//! come at a fixed rate.

use std::fs;
use std::io;
use std::time::Duration;

use super::{Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::kernel;
use crate::load::server::{self, Server};
use crate::load::{Load, Request, floor, wrk};
use crate::peers::{self, Body, Peer};

/// Where `sinew web` has the fixed reply; the others have it everywhere.
const PATH: &str = "/plaintext";
const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: localhost\r\n\r\n";
const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";

/// Requests per second of the open loop: a fraction of what one core can do.
pub const RATE: f64 = 10_000.0;

pub const METRICS: &[Metric] = &[
    Metric::higher("ops_per_s", "thousand requests/s, closed loop", 1e3),
    Metric::higher("ops_per_cpu_s", "thousand requests per second of server CPU", 1e3),
    Metric::beside("wrk_per_s", "thousand requests/s by wrk", 1e3),
    Metric::beside("p50_us", "µs at 10,000/s, median", 1.0),
    Metric::beside("p90_us", "p90", 1.0),
    Metric::beside("p99_us", "p99", 1.0),
    Metric::beside("p999_us", "p99.9", 1.0),
    Metric::beside("p9999_us", "p99.99", 1.0),
    Metric::beside("max_us", "max", 1.0),
    Metric::beside("lost", "requests without a reply", 1.0),
];

pub static WEB: Experiment = Experiment {
    name: "web",
    source: "Karsten & Barghi 2020, 5.2; Delisle 2022, 8.2",
    measures: "Requests per second of a plaintext web server with a thread for each connection, as fast as it can and for each second of its CPU time, and how long a reply takes when requests come at 10,000 per second whatever the server does.",
    good: "At least the bare epoll loop’s figure for each second of CPU: threads are then free.",
    metrics: METRICS,
    plots: &[Plot::Bars { metric: "ops_per_cpu_s" }, Plot::Bars { metric: "ops_per_s" }, Plot::Quantiles],
    is_pinned: false,
    variants: |depth, _, peer| {
        let connections: &[usize] = if depth == Depth::Tour { &[64] } else { &[64, 1000] };
        let most = connections.iter().filter(|&&connections| connections <= peer.most_strands);
        most.map(|&many| Variant::new(format!("{many} connections"), many)).collect()
    },
    measure,
    serve: Some(serve),
    ..PLAIN
};

fn whole_reply(bytes: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, _) = text.split_once("\r\n\r\n")?;
    let field =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned));
    let length = head.len() + 4 + field?.trim().parse::<usize>().ok()?;
    (bytes.len() >= length).then_some(length)
}

fn measure(case: &Case) -> Outcome {
    let request = Request { bytes: REQUEST.to_vec(), whole: whole_reply };
    match drive(case, vec![request], Some(PATH)) {
        Ok(reading) => Outcome::Measured(reading),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// Starts the case's server and puts load on it, each way for half of the time. Only
/// what has a path for `wrk` is asked by it.
pub fn drive(case: &Case, requests: Vec<Request>, path: Option<&str>) -> io::Result<Reading> {
    kernel::raise_descriptor_limit()?;
    let server = Server::start(case)?;
    let cpus = kernel::allowed_cpus()?.len();
    if cpus > case.processors {
        kernel::pin_to(case.processors..cpus)?;
    }
    let mut load = Load::connect(server.address, case.threads, requests)?;
    let half = case.window() / 2;
    load.closed(half.min(Duration::from_millis(50)))?;
    let used = server.cpu();
    let rate = load.closed(half)?;
    let used = (server.cpu() - used).as_secs_f64();
    let by_wrk = path.and_then(|path| wrk::per_second(server.address, path, case.threads, half));
    let served = load.open(half, RATE)?;
    let mut reading = Reading::of([
        ("ops_per_s", rate.per_second),
        ("ops_per_cpu_s", rate.all as f64 / used),
        ("lost", served.lost as f64),
    ]);
    if let Some(rate) = by_wrk {
        reading.set("wrk_per_s", rate);
    }
    served.times.read_into(&mut reading);
    Ok(reading)
}

/// In the server's process.
fn serve(case: &Case) -> io::Result<()> {
    match case.peer.as_str() {
        "epoll" => floor::serve(server::listener()?, REPLY),
        "nginx" => Err(nginx(case)?),
        "sinew/web" => Err(sinew_web(case)?),
        _ => match peers::measure::<Serve>(case) {
            Outcome::Measured(_) => Ok(()),
            other => Err(io::Error::other(format!("{other:?}"))),
        },
    }
}

/// As its documentation advises for a fixed reply: workers as there are processors,
/// connections kept, no log.
fn nginx(case: &Case) -> io::Result<io::Error> {
    let port = server::free_port()?;
    let folder = server::folder_of(std::process::id());
    fs::create_dir_all(&folder)?;
    let path = folder.join("nginx.conf");
    let master = if case.processors == 1 { "off" } else { "on" };
    fs::write(
        &path,
        format!(
            "daemon off; master_process {master}; worker_processes {}; pid {}; error_log /dev/null;\n\
             events {{ worker_connections 8192; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; server_tokens off;\n\
             server {{ listen 127.0.0.1:{port}; location / {{ default_type text/plain; return 200 'Hello, world!'; }} }} }}\n",
            case.processors,
            folder.join("pid").display(),
        ),
    )?;
    let mut command = server::installed("nginx")?;
    command.arg("-p").arg(&folder).arg("-c").arg(&path);
    Ok(server::become_program(command, port))
}

/// It serves an empty folder besides.
fn sinew_web(case: &Case) -> io::Result<io::Error> {
    let port = server::free_port()?;
    let folder = server::folder_of(std::process::id());
    fs::create_dir_all(&folder)?;
    let mut command = server::sinew_command("web").map_err(io::Error::other)?;
    command.arg("--plaintext").arg("--listen").arg(format!("127.0.0.1:{port}"));
    // Those of wrk come beside the lab's own.
    command.arg("--threads").arg(case.processors.to_string());
    command.arg("--connections").arg((2 * case.threads + 100).to_string()).arg(folder);
    Ok(server::become_program(command, port))
}

struct Serve;

impl Body for Serve {
    fn measure<P: Peer>(peer: P, _: &Case) -> Reading {
        peer.run(async {
            let listener = server::listener().expect("a port");
            let mut listener = P::listener(listener).expect("a listener");
            while let Ok(stream) = P::accept(&mut listener).await {
                P::spawn(session::<P>(stream));
            }
        });
        Reading::default()
    }
}

async fn session<P: Peer>(mut stream: P::Stream) -> u64 {
    let mut buffer = [0; 2048];
    loop {
        let count = match P::read(&mut stream, &mut buffer).await {
            Ok(0) | Err(_) => return 0,
            Ok(count) => count,
        };
        for _ in buffer[..count].windows(4).filter(|w| w == b"\r\n\r\n") {
            if P::write_all(&mut stream, REPLY).await.is_err() {
                return 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{REPLY, whole_reply};

    #[test]
    fn a_reply_is_whole_when_its_body_is() {
        assert_eq!(whole_reply(REPLY), Some(REPLY.len()));
        assert_eq!(whole_reply(&REPLY[..REPLY.len() - 1]), None);
    }
}

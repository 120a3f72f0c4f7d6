//! hyper answering short requests on Sinew and on Tokio, one worker each: requests per second of
//! the server's CPU time, under load by `wrk` from another CPU, in turns.
//!
//! `cargo bench -p sinew-hyper -- [--repeat N] [--seconds N] [--connections N]`; with `--serve` and
//! a name it is the server of that name, until its standard input ends.

#[allow(dead_code)]
#[path = "../../../sinew/benches/support/procfs.rs"]
mod procfs;
mod servers;

use procfs::Usage;
use servers::{Contender, LISTENING, serve};
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

/// What Sinew has to reach of the faster Tokio's requests per CPU time.
const BAR: f64 = 0.97;

/// The server's CPU and that of `wrk`.
const CPUS: [&str; 2] = ["0", "1"];

const WARM_UP_SECONDS: u32 = 1;

struct Options {
    repeats: u32,
    seconds: u32,
    connections: u32,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("--serve") => named(&arguments).and_then(serve),
        _ => options(&arguments).and_then(|options| compare(&options)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn wrong(argument: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("what is {argument}?"))
}

fn named(arguments: &[String]) -> io::Result<Contender> {
    let name = arguments.get(1).map_or("", String::as_str);
    Contender::from_name(name).ok_or_else(|| wrong(name))
}

fn options(arguments: &[String]) -> io::Result<Options> {
    let mut options = Options { repeats: 5, seconds: 3, connections: 64 };
    for pair in arguments.chunks(2) {
        let value = pair.get(1).and_then(|value| value.parse().ok()).filter(|&value| value > 0);
        let place = match pair[0].as_str() {
            "--repeat" => &mut options.repeats,
            "--seconds" => &mut options.seconds,
            "--connections" => &mut options.connections,
            other => return Err(wrong(other)),
        };
        *place = value.ok_or_else(|| wrong(&pair.join(" ")))?;
    }
    Ok(options)
}

fn compare(options: &Options) -> io::Result<()> {
    let mut figures = Contender::ALL.map(|_| Vec::new());
    for _ in 0..options.repeats {
        for (figures, contender) in figures.iter_mut().zip(Contender::ALL) {
            figures.push(measure(contender, options)?);
        }
    }
    println!("thousand requests per second of server CPU, {} connections: median (least to most)", options.connections);
    let medians = figures.map(|mut figures| {
        figures.sort_by(f64::total_cmp);
        (figures[figures.len() / 2], figures[0], figures[figures.len() - 1])
    });
    for ((median, least, most), contender) in medians.iter().zip(Contender::ALL) {
        println!("  {:<14}{:8.1}  ({:.1} to {:.1})", contender.name(), median / 1e3, least / 1e3, most / 1e3);
    }
    let [(sinew, ..), (current, ..), (multi, ..)] = medians;
    let ratio = sinew / current.max(multi);
    let verdict = if ratio >= BAR { "holds" } else { "does not hold" };
    println!("sinew to the faster tokio: {ratio:.3}; at least {BAR} {verdict}");
    Ok(())
}

/// A server in a process of its own. Dropping it ends that.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(contender: Contender) -> io::Result<Server> {
        let binary = std::env::current_exe()?;
        let mut process = Command::new("taskset")
            .args(["-c", CPUS[0]])
            .arg(binary)
            .args(["--serve", contender.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = process.stdout.take().expect("a pipe");
        let mut server = Server { process, address: String::new() };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        server.address = line.trim_end().strip_prefix(LISTENING).ok_or(io::ErrorKind::UnexpectedEof)?.to_owned();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail harmlessly on one that has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn measure(contender: Contender, options: &Options) -> io::Result<f64> {
    let server = Server::start(contender)?;
    load(&server, options.connections, WARM_UP_SECONDS)?;
    let before = Usage::of(server.process.id());
    let requests = load(&server, options.connections, options.seconds)?;
    let after = Usage::of(server.process.id());
    Ok(requests / ((after.cpu_ns - before.cpu_ns) as f64 / 1e9))
}

/// Gives how many requests `wrk` says were answered.
fn load(server: &Server, connections: u32, seconds: u32) -> io::Result<f64> {
    let output = Command::new("taskset")
        .args(["-c", CPUS[1], "wrk", "-t1", "-c", &connections.to_string(), "-d", &format!("{seconds}s")])
        .arg(format!("http://{}/", server.address))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = said.lines().any(|line| line.contains("Socket errors") || line.contains("Non-2xx"));
    let requests = said.lines().find(|line| line.contains("requests in"));
    let requests = requests.and_then(|line| line.split_whitespace().next()?.parse().ok());
    requests.filter(|_| !failed).ok_or_else(|| io::Error::other(format!("wrk failed: {said}")))
}

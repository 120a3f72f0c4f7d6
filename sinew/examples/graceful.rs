//! An echo server that stops in order.
//!
//! ```sh
//! cargo run --release -p sinew --example graceful                      # runs a demonstration
//! cargo run --release -p sinew --example graceful -- 127.0.0.1:7000    # serves; try: nc 127.0.0.1 7000
//! ```
//!
//! On Ctrl-C or SIGTERM the server takes no more clients, and clients that send nothing are
//! disconnected. Lines that were received are answered: that takes a second for each, and the server
//! waits for at most three. Then it ends, and says how many sessions it has cut off. A second Ctrl-C
//! ends it at once.

use sinew::net::{TcpListener, TcpStream};
use sinew::process::Command;
use sinew::shutdown::Shutdown;
use sinew::signal::{Signal, Signals};
use std::io::{self, BufRead, BufReader, Write};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(3);

fn main() -> io::Result<()> {
    sinew::run(|| match std::env::args().nth(1) {
        Some(address) => serve(&TcpListener::bind(address)?, Duration::from_secs(1)),
        None => demonstrate(),
    })
}

/// Serves until a signal comes and the sessions have ended.
fn serve(listener: &TcpListener, work: Duration) -> io::Result<()> {
    let signals = Signals::new([Signal::INT, Signal::TERM])?;
    let shutdown = Shutdown::new(LIMIT);
    println!("serving at {}", listener.local_addr()?);
    sinew::scope(|scope| {
        scope.spawn(|| {
            let Some(door) = shutdown.enter() else { return };
            // `incoming` waits if there are no descriptors left.
            let mut clients = listener.incoming();
            while let Ok(Some(stream)) = door.idle(|| clients.next().transpose()) {
                let shutdown = &shutdown;
                scope.spawn(move || session(&stream, shutdown, work));
            }
        });
        let signal = signals.recv()?;
        // From now on a signal ends the process.
        drop(signals);
        println!("{signal}: stopping");
        match shutdown.stop() {
            Ok(()) => println!("all sessions have ended"),
            Err(left) => println!("{left}"),
        }
        Ok(())
    })
}

/// Sends each line back, after some work.
fn session(stream: &TcpStream, shutdown: &Shutdown, work: Duration) -> io::Result<()> {
    let Some(session) = shutdown.enter() else { return Ok(()) };
    let (mut lines, mut stream) = (BufReader::new(stream).lines(), stream);
    while let Some(line) = session.idle(|| lines.next().transpose())? {
        sinew::time::try_sleep(work)?;
        writeln!(stream, "{line}")?;
    }
    Ok(())
}

/// Serves two clients, and sends a SIGTERM to this process while one of them waits for its answer.
fn demonstrate() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = sinew::spawn(move || serve(&listener, Duration::from_millis(100)));
    let (silent, mut busy) = (TcpStream::connect(address)?, TcpStream::connect(address)?);
    busy.write_all(b"the last line\n")?;
    // The server has seen the line by then, and works.
    sinew::sleep(Duration::from_millis(20));
    Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status()?;
    for (name, client) in [("busy", &busy), ("silent", &silent)] {
        let mut heard = String::new();
        let count = BufReader::new(client).read_line(&mut heard)?;
        println!("{name} client: {}", if count > 0 { heard.trim() } else { "disconnected" });
    }
    server.join().unwrap()
}

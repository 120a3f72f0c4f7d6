//! `threaded.rs` with fibres instead of threads. Only these lines differ:
//!
//! ```diff
//! -use std::net::{SocketAddr, TcpListener, TcpStream};
//! -use std::sync::mpsc::{self, Sender};
//! -use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock};
//! -use std::thread;
//! +use sinew::net::{SocketAddr, TcpListener, TcpStream};
//! +use sinew::sync::mpsc::{self, Sender};
//! +use sinew::sync::{Arc, Barrier, Condvar, Mutex, RwLock};
//! +use sinew::thread;
//! ```
//!
//! `main` still runs on its kernel thread, and blocks it. All other threads are fibres on the
//! runtime that `sinew::thread` starts.
//!
//! ```sh
//! cargo run --release -p sinew --example ported                      # runs a demonstration
//! cargo run --release -p sinew --example ported -- 127.0.0.1:7000    # serves; try: nc 127.0.0.1 7000
//! ```

use sinew::net::{SocketAddr, TcpListener, TcpStream};
use sinew::sync::mpsc::{self, Sender};
use sinew::sync::{Arc, Barrier, Condvar, Mutex, RwLock};
use sinew::thread;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::time::Duration;

/// The data that all sessions share.
#[derive(Default)]
struct Store {
    values: RwLock<HashMap<String, String>>,
    /// The number of changes. Sessions that wait for a key wait for the next change.
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Store {
    fn get(&self, key: &str) -> Option<String> {
        self.values.read().unwrap().get(key).cloned()
    }

    fn update(&self, key: &str, new: impl FnOnce(Option<&String>) -> String) -> String {
        let mut values = self.values.write().unwrap();
        let value = new(values.get(key));
        values.insert(key.to_owned(), value.clone());
        drop(values);
        *self.changes.lock().unwrap() += 1;
        self.changed.notify_all();
        value
    }

    fn wait_for(&self, key: &str) -> String {
        let mut changes = self.changes.lock().unwrap();
        loop {
            if let Some(value) = self.get(key) {
                return value;
            }
            changes = self.changed.wait(changes).unwrap();
        }
    }

    fn answer(&self, line: &str) -> String {
        match *line.splitn(3, ' ').collect::<Vec<_>>() {
            ["GET", key] => self.get(key).unwrap_or_else(|| "not found".to_owned()),
            ["SET", key, value] => self.update(key, |_| value.to_owned()),
            ["WAIT", key] => self.wait_for(key),
            ["ADD", key, number] => match number.parse::<i64>() {
                Ok(number) => self.update(key, |old| {
                    let old: i64 = old.and_then(|old| old.parse().ok()).unwrap_or(0);
                    old.saturating_add(number).to_string()
                }),
                Err(error) => format!("{number}: {error}"),
            },
            _ => "GET key | SET key value | ADD key number | WAIT key | QUIT".to_owned(),
        }
    }
}

/// The events that sessions report to the thread that keeps the log.
enum Event {
    Came(SocketAddr),
    Asked,
    Left(SocketAddr, &'static str),
}

/// Answers a client until it leaves. Returns how it left.
fn converse(stream: &TcpStream, store: &Store, log: &Sender<Event>) -> io::Result<&'static str> {
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        match line {
            Ok(line) if line.trim_end() == "QUIT" => return writer.write_all(b"bye\n").map(|()| "said goodbye"),
            Ok(line) => {
                let _ = log.send(Event::Asked);
                writer.write_all(format!("{}\n", store.answer(line.trim_end())).as_bytes())?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return writer.write_all(b"too slow\n").map(|()| "fell silent");
            }
            Err(error) => return Err(error),
        }
    }
    Ok("hung up")
}

/// Runs a session from its beginning to its end.
fn session(stream: TcpStream, store: &Store, idle: Duration, log: &Sender<Event>) -> io::Result<()> {
    let client = stream.peer_addr()?;
    stream.set_read_timeout(Some(idle))?;
    let _ = log.send(Event::Came(client));
    let how = converse(&stream, store, log).unwrap_or("was cut off");
    let _ = log.send(Event::Left(client, how));
    Ok(())
}

/// Serves `clients` clients, each in a thread of its own.
fn serve(listener: TcpListener, clients: usize, idle: Duration, log: Sender<Event>) -> io::Result<()> {
    let store = Arc::new(Store::default());
    for (number, stream) in listener.incoming().take(clients).enumerate() {
        let (stream, store, log) = (stream?, Arc::clone(&store), log.clone());
        let thread = thread::Builder::new().name(format!("session {number}"));
        thread.spawn(move || session(stream, &store, idle, &log))?;
    }
    Ok(())
}

/// Starts a server. Returns its address and its thread.
fn start(
    clients: usize,
    idle: Duration,
    log: Sender<Event>,
) -> io::Result<(SocketAddr, thread::JoinHandle<io::Result<()>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    Ok((address, thread::spawn(move || serve(listener, clients, idle, log))))
}

/// Sends one line and returns the answer.
fn ask(stream: &mut BufReader<TcpStream>, line: &str) -> io::Result<String> {
    stream.get_mut().write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_line(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}

/// Lets a hundred clients use a server at once, and a silent client a server with a short limit.
/// Returns a report.
pub fn demonstrate() -> io::Result<String> {
    const CLIENTS: usize = 100;
    const ROUNDS: usize = 20;
    let (log, events) = mpsc::channel();
    let logger = thread::spawn(move || {
        let (mut questions, mut ends) = (0, HashMap::<_, usize>::new());
        for event in events {
            match event {
                Event::Came(_) => {}
                Event::Asked => questions += 1,
                Event::Left(_, how) => *ends.entry(how).or_default() += 1,
            }
        }
        (questions, ends)
    });
    let (address, server) = start(CLIENTS, Duration::from_secs(60), log.clone())?;
    let (strict_address, strict_server) = start(1, Duration::from_millis(100), log)?;

    let mut silent = BufReader::new(TcpStream::connect(strict_address)?);
    let together = Barrier::new(CLIENTS);
    let sum = thread::scope(|scope| -> io::Result<String> {
        let client = |number: usize| -> io::Result<String> {
            let mut stream = BufReader::new(TcpStream::connect(address)?);
            // After all have come, each client waits for the key that the next one sets.
            let next = (number + 1) % CLIENTS;
            together.wait();
            ask(&mut stream, &format!("SET name-{number} client {number}"))?;
            assert_eq!(ask(&mut stream, &format!("WAIT name-{next}"))?, format!("client {next}"));
            for _ in 0..ROUNDS {
                ask(&mut stream, &format!("ADD sum {number}"))?;
            }
            // When all clients are here, all have added.
            together.wait();
            let sum = ask(&mut stream, "GET sum")?;
            assert_eq!(ask(&mut stream, "QUIT")?, "bye");
            Ok(sum)
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        let sums: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect::<io::Result<_>>()?;
        assert!(sums.iter().all(|sum| *sum == sums[0]));
        Ok(sums[0].clone())
    })?;
    let mut last_words = String::new();
    silent.read_line(&mut last_words)?;
    server.join().unwrap()?;
    strict_server.join().unwrap()?;
    let (questions, ends) = logger.join().unwrap();
    let ended = |how| ends.get(how).copied().unwrap_or(0);
    Ok(format!(
        "{CLIENTS} clients asked {questions} questions; the sum is {sum}\n{} said goodbye, {} fell silent and was told: {last_words}",
        ended("said goodbye"),
        ended("fell silent"),
    ))
}

fn main() -> io::Result<()> {
    let Some(address) = std::env::args().nth(1) else {
        print!("{}", demonstrate()?);
        return Ok(());
    };
    let listener = TcpListener::bind(address)?;
    println!("listening at {}", listener.local_addr()?);
    let (log, events) = mpsc::channel();
    thread::spawn(move || {
        for event in events {
            match event {
                Event::Came(client) => println!("{client} came"),
                Event::Asked => {}
                Event::Left(client, how) => println!("{client} {how}"),
            }
        }
    });
    serve(listener, usize::MAX, Duration::from_secs(60), log)
}

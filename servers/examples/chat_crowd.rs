//! A crowd in a chat: starts `sinew chat`, lets people come, and measures what the server holds for each of them and how
//! fast it delivers.
//!
//! ```sh
//! cargo build --release -p sinew-servers
//! cargo run --release -p sinew-servers --example chat_crowd -- 10000
//! ```
//!
//! Server and crowd share the CPUs of this machine.

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use sinew::net::{Duplex, TcpStream};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{HandshakeError, Message, WebSocket};

/// The people in each of the small rooms.
const SMALL: usize = 10;

/// The messages to the room where all are.
const SPEECHES: usize = 20;

/// The longest time to wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Socket = Duplex<WebSocket<TcpStream>>;

/// The server that runs beside this program.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(people: usize) -> Outcome<Server> {
        let own = std::env::current_exe()?;
        let command = own.ancestors().nth(2).ok_or("no directory")?.join("sinew");
        let connections = (people + 1).to_string();
        let mut command = Command::new(command);
        command.args(["chat", "--listen", "127.0.0.1:0", "--connections", &connections, "--rooms", "1000000"]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim().rsplit('/').next().ok_or("no address")?.parse()?;
        Ok(Server { child, address })
    }

    /// Returns the resident bytes that belong to no file.
    fn resident(&self) -> Outcome<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("no line RssAnon")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(address: SocketAddr) -> Outcome<Socket> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let config = WebSocketConfig::default().read_buffer_size(1024).write_buffer_size(0);
    let url = format!("ws://{address}/ws");
    let handle = stream.clone();
    let socket = match tungstenite::client::client_with_config(url, stream, Some(config)) {
        Ok((socket, _)) => socket,
        Err(HandshakeError::Failure(error)) => return Err(error.into()),
        Err(HandshakeError::Interrupted(_)) => return Err("the handshake was interrupted".into()),
    };
    Ok(Duplex::new(socket, &handle))
}

fn say(socket: &Socket, request: &Value) -> Outcome<()> {
    let mut message = Some(Message::text(request.to_string()));
    Ok(socket.write_with(|socket| match message.take() {
        Some(message) => socket.send(message),
        None => socket.flush(),
    })?)
}

/// Reads until a message of this type comes.
fn hear(socket: &Socket, kind: &str) -> Outcome<()> {
    let start = format!("{{\"type\":\"{kind}\"");
    loop {
        if let Message::Text(text) = socket.read_with_timeout(PATIENCE, WebSocket::read)? {
            if text.starts_with("{\"type\":\"error\"") {
                return Err(text.to_string().into());
            }
            if text.starts_with(&start) {
                return Ok(());
            }
        }
    }
}

/// Calls `act` for each person, in fibres, and waits for all.
fn each(people: &[Socket], act: impl Fn(usize, &Socket) -> Outcome<()> + Sync) -> Outcome<()> {
    let act = &act;
    sinew::scope(|scope| {
        let fibres: Vec<_> =
            people.iter().enumerate().map(|(number, socket)| scope.spawn(move || act(number, socket))).collect();
        fibres.into_iter().try_for_each(|fibre| fibre.join().map_err(|_| "a panic")?)
    })
}

/// Lets people write and all of them read, and prints how long the deliveries took.
fn measure(
    people: &[Socket],
    what: &str,
    to_hear: usize,
    speech: impl Fn(usize) -> Option<Value> + Sync,
) -> Outcome<()> {
    let heard = AtomicU64::new(0);
    let begin = Instant::now();
    each(people, |number, socket| {
        if let Some(request) = speech(number) {
            say(socket, &request)?;
        }
        for _ in 0..to_hear {
            hear(socket, "said")?;
            heard.fetch_add(1, Relaxed);
        }
        Ok(())
    })?;
    let (heard, seconds) = (heard.into_inner(), begin.elapsed().as_secs_f64());
    println!("{what}: {heard} deliveries in {seconds:.2} s, {:.0} in a second", heard as f64 / seconds);
    Ok(())
}

fn crowd(count: usize) -> Outcome<()> {
    let server = Server::start(count)?;
    let empty = server.resident()?;
    let begin = Instant::now();
    let mut people = Vec::new();
    for number in 0..count {
        let socket = connect(server.address)?;
        say(&socket, &json!({ "type": "name", "name": format!("p{number}") }))?;
        hear(&socket, "welcome")?;
        people.push(socket);
    }
    println!("{count} people have come in {:.2} s", begin.elapsed().as_secs_f64());
    let report = |what: &str| -> Outcome<()> {
        let held = server.resident()?.saturating_sub(empty);
        println!("{what}: {:.0} bytes for each connection", held as f64 / count as f64);
        Ok(())
    };
    report("just come")?;
    // After a second of silence a reader gives up its stack.
    sinew::sleep(Duration::from_secs(3));
    report("silent")?;
    let room = |number: usize| format!("room-{}", number / SMALL);
    each(&people, |number, socket| {
        say(socket, &json!({ "type": "join", "room": room(number) }))?;
        hear(socket, "entered")
    })?;
    each(&people, |_, socket| {
        say(socket, &json!({ "type": "join", "room": "hall" }))?;
        hear(socket, "entered")
    })?;
    sinew::sleep(Duration::from_secs(3));
    report("silent, in two rooms")?;
    let whole = count / SMALL * SMALL;
    measure(&people[..whole], &format!("each writes to a room of {SMALL}"), SMALL, |number| {
        Some(
            json!({ "type": "say", "room": room(number), "text": "a message of about fifty letters, as people write" }),
        )
    })?;
    let step = (count / SPEECHES).max(1);
    let speakers = count.div_ceil(step);
    measure(&people, &format!("{speakers} write to a room of {count}"), speakers, |number| {
        let request =
            json!({ "type": "say", "room": "hall", "text": "a message of about fifty letters, as people write" });
        number.is_multiple_of(step).then_some(request)
    })?;
    sinew::sleep(Duration::from_secs(3));
    report("silent again")?;
    let begin = Instant::now();
    let sent = Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status()?;
    assert!(sent.success());
    each(&people, |_, socket| hear(socket, "goodbye"))?;
    println!("all have heard the goodbye after {:.2} s", begin.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> Outcome<()> {
    let count = std::env::args().nth(1).unwrap_or_else(|| "1000".to_owned()).parse()?;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    sinew::run(|| crowd(count))
}

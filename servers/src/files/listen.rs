//! Accepts clients, shakes hands with them, and resumes those of the lobby.

use super::Server;
use super::keys::Public;
use super::noise::{self, CipherName, FIRST, HELLO, Verdict};
use super::seal;
use super::session::{self, Talk, Who};
use crate::memory;
use crate::room::Permit;
use crate::serving::{report, spawn};
use sinew::event::Colour;
use sinew::net::TcpStream;
use sinew::time::{deadline_async, timeout};
use sinew::{FibreBuilder, Scope};
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Serves a new client in a fibre of its own.
pub fn admit<'scope>(server: &'scope Server, scope: &'scope Scope<'scope, '_>, permit: Permit, stream: TcpStream) {
    if memory::room_for_connection().is_err() {
        return report(server, 1, || "no memory for a connection".to_owned());
    }
    spawn(server, scope, FibreBuilder::new(), move || {
        // A client that has gone already has no address.
        let Ok(address) = stream.peer_addr() else { return };
        match begin(server, stream, address) {
            Ok((talk, colour)) => {
                let deadline = Instant::now() + server.patience();
                Guest { talk, _permit: permit, deadline }.go_on(server, &colour);
            }
            Err(_) if server.shutdown.is_told() => {}
            Err(error) => report(server, 1, || format!("{address}: {error}")),
        }
    });
}

/// Shakes hands with a client.
///
/// # Errors
/// The errors of the connection; `TimedOut`; `InvalidData` if the client speaks something else or does
/// not have the server's key; `PermissionDenied` if the server does not have the client's.
fn begin(server: &Server, stream: TcpStream, address: SocketAddr) -> io::Result<(Talk, Colour)> {
    let (cipher, first) = timeout(server.options.request_timeout, || receive(&stream))?;
    let colour = Colour::new();
    let secret = Arc::clone(&server.secret);
    let answering = seal::run(&colour, move || noise::answer(cipher, &secret, &first))??;
    let client = answering.client;
    let name = server.find_client(&client);
    let verdict = if name.is_some() { Verdict::Welcome } else { Verdict::Unknown };
    let (second, cipher) = seal::run(&colour, move || answering.end(verdict))??;
    timeout(server.options.request_timeout, || (&stream).write_all(&second))?;
    let name = name.ok_or_else(|| unknown(&client))?;
    let who = Who { address, key: client, name };
    Ok((Talk::new(stream, Arc::new(cipher), who), colour))
}

fn unknown(client: &Public) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, format!("refused: no client has the key {client}"))
}

/// Receives a client's first bytes and its message of the handshake.
fn receive(mut stream: &TcpStream) -> io::Result<(CipherName, [u8; FIRST])> {
    let explain = |error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the handshake was cut short"),
        ErrorKind::TimedOut => io::Error::new(error.kind(), "the handshake took too long"),
        _ => error,
    };
    let mut hello = [0; HELLO];
    stream.read_exact(&mut hello).map_err(explain)?;
    let cipher = CipherName::of_hello(hello)
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "this is not a client of \"sinew files\""))?;
    let mut first = [0; FIRST];
    stream.read_exact(&mut first).map_err(explain)?;
    Ok((cipher, first))
}

/// A connection whose session may end its fibre and go on in another one.
pub struct Guest {
    talk: Talk,
    _permit: Permit,
    /// The client has to send something before this time.
    deadline: Instant,
}

impl Guest {
    /// Serves the client in a fibre of its own, until it leaves or becomes silent.
    pub fn serve<'scope>(self, server: &'scope Server, scope: &'scope Scope<'scope, '_>) {
        spawn(server, scope, FibreBuilder::new(), move || self.go_on(server, &Colour::new()));
    }

    fn go_on(mut self, server: &Server, colour: &Colour) {
        if let Some(deadline) = session::serve(server, &mut self.talk, colour, self.deadline) {
            self.deadline = deadline;
            self.rest(server);
        }
    }

    /// Moves the client to the lobby, to be resumed by its deadline at the latest.
    fn rest(mut self, server: &Server) {
        self.talk.rest();
        let (stream, deadline) = (self.talk.stream.clone(), self.deadline);
        let bytes = poll_fn(move |context| stream.poll_readable(context));
        let heard = async move { drop(deadline_async(deadline, bytes).await) };
        // The lobby refuses a client if the server stops or has no memory. Its connection is
        // closed.
        let _ = server.lobby.enter(self, heard);
    }
}

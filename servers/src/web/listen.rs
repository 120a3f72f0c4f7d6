//! Accepts clients, and resumes those of the lobby.

use super::session;
use super::talk::Client;
use super::transport::{Plain, Secure};
use super::{Options, Server, tls};
use crate::memory;
use crate::room::Permit;
use crate::serving::{accept, report, spawn};
use sinew::net::{TcpListener, TcpStream};
use sinew::time::deadline_async;
use sinew::{FibreBuilder, Scope};
use std::future::poll_fn;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Writes the addresses to standard output.
///
/// # Errors
/// Standard output cannot be written.
pub fn announce(options: &Options, doors: &[TcpListener]) -> io::Result<()> {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let mut output = io::stdout().lock();
    for door in doors {
        writeln!(output, "serving {} at {scheme}://{}", options.directory.display(), door.local_addr()?)?;
    }
    output.flush()
}

/// Accepts clients, each to a fibre of its own, until the server stops.
pub fn serve<'scope>(server: &'scope Server, door: &TcpListener, scope: &'scope Scope<'scope, '_>) {
    let admit = |permit, stream| admit(server, scope, permit, stream);
    accept(server, door.incoming(), || server.room.take(), admit);
}

fn admit<'scope>(server: &'scope Server, scope: &'scope Scope<'scope, '_>, permit: Permit, stream: TcpStream) {
    // A client that has gone already has no address. Its line in the log does not matter.
    let address: Option<SocketAddr> = server.log.as_ref().and_then(|_| stream.peer_addr().ok());
    let deadline = Instant::now() + server.options.header_timeout;
    let Some(config) = &server.tls else {
        return Guest { stream, _permit: permit, client: Client { address }, deadline }.serve(server, scope);
    };
    if !memory::is_left(tls::MEMORY) {
        return report(server, 1, || "no memory for a connection".to_owned());
    }
    let config = Arc::clone(config);
    spawn(server, scope, FibreBuilder::new().stack_size(tls::STACK), move || {
        let _permit = permit;
        if let Ok(mut secure) = Secure::new(stream, config, server.options.send_timeout) {
            session::serve(server, &mut secure, Client { address }, deadline, false);
        }
    });
}

/// A connection without TLS. Its session may end its fibre and go on in another one.
pub struct Guest {
    stream: TcpStream,
    _permit: Permit,
    client: Client,
    /// The client has to send something before this time.
    deadline: Instant,
}

impl Guest {
    /// Serves the client in a fibre of its own, until it leaves or becomes silent.
    pub fn serve<'scope>(mut self, server: &'scope Server, scope: &'scope Scope<'scope, '_>) {
        spawn(server, scope, FibreBuilder::new(), move || {
            let mut plain = Plain::new(self.stream.clone(), server.options.send_timeout);
            if let Some(deadline) = session::serve(server, &mut plain, self.client, self.deadline, true) {
                self.deadline = deadline;
                self.rest(server);
            }
        });
    }

    /// Moves the client to the lobby, to be resumed by its deadline at the latest. This is a
    /// function of its own, so that its frame is not on the stacks of sessions that wait.
    #[cold]
    #[inline(never)]
    fn rest(self, server: &Server) {
        let (stream, deadline) = (self.stream.clone(), self.deadline);
        let bytes = poll_fn(move |context| stream.poll_readable(context));
        let heard = async move { drop(deadline_async(deadline, bytes).await) };
        // The lobby refuses a client if the server stops or has no memory. Its connection is
        // closed.
        let _ = server.lobby.enter(self, heard);
    }
}

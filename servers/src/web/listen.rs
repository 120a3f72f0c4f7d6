//! Where clients come in.

use super::session::{self, Client};
use super::transport::{Plain, Secure};
use super::{Options, Server, tls};
use crate::memory;
use crate::serving::{accept, listen_error, report, spawn};
use sinew::net::{TcpListener, TcpStream};
use sinew::sync::Semaphore;
use sinew::time::deadline_async;
use sinew::{FibreBuilder, Scope};
use std::future::poll_fn;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// As many connections as may wait to be accepted; the kernel's own limit is mostly this.
const BACKLOG: u32 = 4096;

/// Who says nothing at first is let in after so long. The others are let in when their request
/// is there, so that a session need not wait for it: of the CPU time for a connection that comes
/// for one request, that saves a third.
const SILENCE: Duration = Duration::from_secs(1);

/// Listens as the options say.
///
/// # Errors
/// The kernel's, with the address.
pub fn open(options: &Options) -> io::Result<Vec<TcpListener>> {
    let open = |address: &String| {
        let listener = TcpListener::builder().backlog(BACKLOG).defer(SILENCE).bind(address.as_str())?;
        // Connections inherit it.
        rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
        Ok(listener)
    };
    let open = |address| open(address).map_err(|error| listen_error(address, &error));
    options.listen.iter().map(open).collect()
}

/// Says where it listens.
///
/// # Errors
/// Those of standard output.
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
    let admit = |place, stream| admit(server, scope, place, stream);
    accept(server, door.incoming(), || Place::take(&server.room), admit);
}

/// A connection's part of the room that there is for connections.
struct Place(Arc<Semaphore>);

impl Place {
    /// Waits until there is room for another.
    fn take(room: &Arc<Semaphore>) -> Place {
        room.wait();
        Place(Arc::clone(room))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.post(1);
    }
}

fn admit<'scope>(server: &'scope Server, scope: &'scope Scope<'scope, '_>, place: Place, stream: TcpStream) {
    // Who has gone already has no address; nobody will miss its line in the log.
    let address: Option<SocketAddr> = server.log.as_ref().and_then(|_| stream.peer_addr().ok());
    let deadline = Instant::now() + server.options.header_timeout;
    let Some(config) = &server.tls else {
        return Guest { stream, _place: place, client: Client { address }, deadline }.serve(server, scope);
    };
    if !memory::is_left(tls::MEMORY) {
        return report(server, 1, || "no memory for a connection".to_owned());
    }
    let config = Arc::clone(config);
    spawn(server, scope, FibreBuilder::new().stack_size(tls::STACK), move || {
        let _place = place;
        if let Ok(mut secure) = Secure::new(stream, config, server.options.send_timeout) {
            session::serve(server, &mut secure, Client { address }, deadline, false);
        }
    });
}

/// A connection without TLS, whose session may give up its fibre and go on in another.
pub struct Guest {
    stream: TcpStream,
    _place: Place,
    client: Client,
    /// When it has to have said something.
    deadline: Instant,
}

impl Guest {
    /// Serves it, in a fibre of its own: until all has been said, or nothing is.
    pub fn serve<'scope>(mut self, server: &'scope Server, scope: &'scope Scope<'scope, '_>) {
        spawn(server, scope, FibreBuilder::new(), move || {
            let mut plain = Plain::new(self.stream.clone(), server.options.send_timeout);
            if let Some(deadline) = session::serve(server, &mut plain, self.client, self.deadline, true) {
                self.deadline = deadline;
                self.rest(server);
            }
        });
    }

    /// Lets it wait in the lobby, to be called in time if nothing comes. A function of its own:
    /// what this takes is not to lie on the stacks of those who wait for a client.
    #[cold]
    #[inline(never)]
    fn rest(self, server: &Server) {
        let (stream, deadline) = (self.stream.clone(), self.deadline);
        let bytes = poll_fn(move |context| stream.poll_readable(context));
        let heard = async move { drop(deadline_async(deadline, bytes).await) };
        // One who is turned away goes, as all do when the server stops.
        let _ = server.lobby.enter(self, heard);
    }
}

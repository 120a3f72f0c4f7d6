//! Accepts clients, and resumes those of the lobby.

use super::session::{End, Known, Session};
use super::stream::{Connection, tcp_text};
use super::traffic::{Admitted, Reason};
use super::udp::Mailbox;
use super::{Options, Server};
use crate::serving::{accept, listen_error, spawn};
use crate::{memory, message};
use sinew::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use sinew::{FibreBuilder, Scope};
use std::fs::Permissions;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A place where the server listens.
pub enum Door {
    /// A TCP port.
    Tcp(TcpListener),
    /// The path of a Unix socket.
    Unix(UnixListener),
    /// A UDP port.
    Udp(Mailbox),
}

/// The answer to a client when there are too many connections.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// Binds the doors that the options name.
///
/// # Errors
/// The error of the kernel, with the address.
pub fn open(options: &Options) -> io::Result<Vec<Door>> {
    if let Some(path) = &options.unix_socket {
        let listener = open_unix(path, options.unix_mask).map_err(|error| listen_error(&path.display(), &error))?;
        return Ok(vec![Door::Unix(listener)]);
    }
    let open = |address: &String| {
        let listener = TcpListener::builder().backlog(options.listen_backlog);
        let (host, port) = host_and_port(address);
        let port = match port {
            Some(port) => port.parse().map_err(|_| io::Error::new(ErrorKind::InvalidInput, "no such port"))?,
            None => options.tcp_port(),
        };
        let bound = listener.bind((host, port));
        let listener = bound.map_err(|error| listen_error(address, &error))?;
        // Connections inherit both. Keep-alive finds clients that have vanished. Without it they
        // would stay for ever, for a client may be silent as long as it likes.
        rustix::net::sockopt::set_socket_keepalive(&listener, true)?;
        rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
        Ok(Door::Tcp(listener))
    };
    let mut doors = options.listen.iter().map(open).collect::<io::Result<Vec<Door>>>()?;
    if let Some(port) = options.udp_port.number() {
        for address in &options.listen {
            let mailbox = Mailbox::open(host_and_port(address).0, port);
            doors.push(Door::Udp(mailbox.map_err(|error| listen_error(address, &error))?));
        }
    }
    Ok(doors)
}

/// Splits an address into host and port, if it has one. Takes the brackets of IPv6 away.
fn host_and_port(address: &str) -> (&str, Option<&str>) {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && (host.ends_with(']') || !host.contains(':')) => (host, Some(port)),
        _ => (address, None),
    };
    (host.trim_matches(['[', ']']), port)
}

/// Writes the ports into the file that the environment variable `MEMCACHED_PORT_FILENAME` names, if
/// it is set. The file appears only when it is complete.
///
/// # Errors
/// The file cannot be written.
pub fn write_ports(doors: &[Door]) -> io::Result<()> {
    let Some(name) = std::env::var_os("MEMCACHED_PORT_FILENAME") else { return Ok(()) };
    let mut temporary = name.clone();
    temporary.push(".lck");
    std::fs::write(&temporary, doors.iter().map(Door::port_line).collect::<String>())?;
    std::fs::rename(&temporary, name)
}

/// Binds a Unix socket. Removes the file that a former server has left at the path.
fn open_unix(path: &Path, mask: u32) -> io::Result<UnixListener> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(mask))?;
    Ok(listener)
}

/// The file of the Unix socket. It is removed when this value is dropped.
pub struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    /// Returns the file that is at this path now.
    pub fn of(path: &Path) -> SocketFile {
        SocketFile { path: path.to_owned(), identity: identity(path) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another server may have put its own file there.
        if identity(&self.path) == self.identity {
            // The file may be gone already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns the file system and the inode of the file at this path.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

impl Door {
    /// Returns the descriptor and the address, in memcached's words.
    pub fn describe(&self) -> (i32, String) {
        match self {
            Door::Tcp(listener) => {
                let address = listener.local_addr().map_or(String::new(), |address| tcp_text("tcp", address));
                (listener.as_raw_fd(), address)
            }
            Door::Unix(listener) => {
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                (listener.as_raw_fd(), format!("unix:{}", path.unwrap_or(Path::new("")).display()))
            }
            Door::Udp(mailbox) => mailbox.describe(),
        }
    }

    /// Writes the address to standard error.
    pub fn announce(&self) {
        match self {
            Door::Tcp(listener) => match listener.local_addr() {
                Ok(address) => message::say(format_args!("listening at {address}")),
                Err(error) => message::say(format_args!("listening: {error}")),
            },
            Door::Unix(listener) => match listener.local_addr() {
                Ok(address) => message::say(format_args!("listening at {address:?}")),
                Err(error) => message::say(format_args!("listening: {error}")),
            },
            Door::Udp(mailbox) => match mailbox.address() {
                Ok(address) => message::say(format_args!("listening at {address} for datagrams")),
                Err(error) => message::say(format_args!("listening: {error}")),
            },
        }
    }

    /// Returns the line about this door in the file of [`write_ports`], as memcached writes it.
    fn port_line(&self) -> String {
        let line = |kind: &str, address: io::Result<std::net::SocketAddr>| {
            address.map_or(String::new(), |address| {
                let version = if address.is_ipv6() { "INET6" } else { "INET" };
                format!("{kind} {version}: {}\n", address.port())
            })
        };
        match self {
            Door::Tcp(listener) => line("TCP", listener.local_addr()),
            Door::Udp(mailbox) => line("UDP", mailbox.address()),
            Door::Unix(_) => String::new(),
        }
    }

    /// Accepts clients, each to a fibre of its own, until the server stops.
    pub fn serve<'scope>(&self, server: &'scope Server, scope: &'scope Scope<'scope, '_>) {
        match self {
            Door::Udp(mailbox) => mailbox.serve(server),
            Door::Tcp(listener) => {
                accept(server, listener.incoming(), || (), |(), stream| admit(server, scope, stream));
            }
            Door::Unix(listener) => {
                accept(server, listener.incoming(), || (), |(), stream| admit(server, scope, stream));
            }
        }
    }
}

/// Serves a connection, or refuses it if there are too many. Then waits until there is room for
/// another one, unless the user wants refusals (`maxconns_fast`).
fn admit<'scope, S: Connection>(server: &'scope Server, scope: &'scope Scope<'scope, '_>, stream: S) {
    let Some(admitted) = server.connections.admit(stream.any(), server.clock.now()) else {
        server.log(1, || "too many open connections".to_owned());
        // A new socket has room for this. An error means that the client is gone.
        let _ = stream.write(TOO_MANY);
        return;
    };
    Client { stream, admitted, known: server.introduction() }.serve(server, scope);
    if !server.extended().maxconns_fast {
        server.connections.wait_for_room();
    }
}

/// A client that has been admitted.
pub struct Client<S> {
    stream: S,
    admitted: Admitted,
    known: Known,
}

impl<S: Connection> Client<S> {
    /// Serves the client in a fibre of its own. Closes the connection if there is no memory.
    fn serve<'scope>(self, server: &'scope Server, scope: &'scope Scope<'scope, '_>) {
        match memory::room_for_connection() {
            Ok(()) => spawn(server, scope, FibreBuilder::new(), move || self.session(server)),
            Err(error) => server.log(1, || format!("no memory for a connection: {error}")),
        }
    }

    /// Runs a session until the client leaves or becomes silent.
    fn session(mut self, server: &Server) {
        match Session::serve(server, &self.stream, self.admitted.entry(), &mut self.known) {
            Ok(End::Over) => {}
            Ok(End::Silent) => self.rest(server),
            Err(error) => {
                self.admitted.entry().set_reason(Reason::Error);
                server.log(1, || format!("a connection broke: {error}"));
            }
        }
    }

    /// Moves the client to the lobby. This is a function of its own, so that its frame is not on
    /// the stacks of sessions that wait.
    #[cold]
    #[inline(never)]
    fn rest(self, server: &Server) {
        let stream = self.stream.clone();
        let heard = poll_fn(move |context| stream.poll_readable(context));
        // The lobby refuses a client if the server stops or has no memory. Its connection is
        // closed.
        let _ = server.lobby.enter(S::client(self), heard);
    }
}

/// A client of any kind.
pub enum AnyClient {
    /// A client of a TCP port.
    Tcp(Client<TcpStream>),
    /// A client of a Unix socket.
    Unix(Client<UnixStream>),
}

impl AnyClient {
    /// Serves the client in a fibre of its own.
    pub fn serve<'scope>(self, server: &'scope Server, scope: &'scope Scope<'scope, '_>) {
        match self {
            AnyClient::Tcp(client) => client.serve(server, scope),
            AnyClient::Unix(client) => client.serve(server, scope),
        }
    }
}

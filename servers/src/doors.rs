//! Listeners for clients that speak first.

use crate::serving::listen_error;
use sinew::net::TcpListener;
use std::io;
use std::time::Duration;

/// The number of connections that may wait to be accepted. On most systems the kernel's own limit
/// is the same.
const BACKLOG: u32 = 4096;

/// A silent client is accepted after this time. Other clients are accepted when their first bytes
/// have arrived, so that the session need not wait for them. That saves a third of the CPU time of a
/// connection with one request.
const SILENCE: Duration = Duration::from_secs(1);

/// Binds these addresses.
///
/// # Errors
/// The error of the kernel, with the address.
pub fn open(addresses: &[String]) -> io::Result<Vec<TcpListener>> {
    let open = |address: &String| {
        let listener = TcpListener::builder().backlog(BACKLOG).defer(SILENCE).bind(address.as_str())?;
        // Connections inherit it.
        rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
        Ok(listener)
    };
    let open = |address| open(address).map_err(|error| listen_error(address, &error));
    addresses.iter().map(open).collect()
}

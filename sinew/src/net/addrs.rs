//! Looks up the addresses that a name stands for.

use crate::io::blocking;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{iter, option, slice, vec};

/// A value that names one address or several: `std::net::ToSocketAddrs`, with a lookup of names
/// that blocks the fibre, not the processor. In a task the lookup of a name panics.
///
/// ```
/// use sinew::net::{SocketAddr, ToSocketAddrs};
/// let mut addresses = "127.0.0.1:80".to_socket_addrs().unwrap();
/// assert_eq!(addresses.next(), Some(SocketAddr::from(([127, 0, 0, 1], 80))));
/// assert_eq!(addresses.next(), None);
/// ```
pub trait ToSocketAddrs {
    /// Goes through the addresses.
    type Iter: Iterator<Item = SocketAddr>;

    /// Returns the addresses that this names.
    ///
    /// # Errors
    /// `InvalidInput` if it names none; the error of a name's lookup.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

/// Looks a name up, on a thread of the pool.
fn look_up(host: &str, port: u16) -> io::Result<vec::IntoIter<SocketAddr>> {
    blocking(|| std::net::ToSocketAddrs::to_socket_addrs(&(host, port)))
}

/// Tries one address after the other. Returns the first success, or the last error.
pub(super) fn each<A: ToSocketAddrs, T>(
    addresses: A,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in addresses.to_socket_addrs()? {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| invalid("could not resolve to any addresses")))
}

pub(super) fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

impl ToSocketAddrs for SocketAddr {
    type Iter = option::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(Some(*self).into_iter())
    }
}

macro_rules! one_address {
    ($($Type:ty),*) => {$(
        impl ToSocketAddrs for $Type {
            type Iter = option::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                Ok(Some(SocketAddr::from(*self)).into_iter())
            }
        }
    )*};
}

one_address!(SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl ToSocketAddrs for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        let (host, port) = *self;
        match host.parse::<IpAddr>() {
            Ok(ip) => Ok(vec![SocketAddr::new(ip, port)].into_iter()),
            Err(_) => look_up(host, port),
        }
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (self.0.as_str(), self.1).to_socket_addrs()
    }
}

impl ToSocketAddrs for str {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        if let Ok(address) = self.parse::<SocketAddr>() {
            return Ok(vec![address].into_iter());
        }
        let (host, port) = self.rsplit_once(':').ok_or_else(|| invalid("invalid socket address"))?;
        let port = port.parse().map_err(|_| invalid("invalid port value"))?;
        (host, port).to_socket_addrs()
    }
}

impl ToSocketAddrs for String {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.as_str().to_socket_addrs()
    }
}

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = iter::Cloned<slice::Iter<'a, SocketAddr>>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.iter().cloned())
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}

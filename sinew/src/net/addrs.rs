//! Looks up the addresses that a name stands for.

use super::lookup::SYSTEM;
use crate::base::Deadline;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{future::ready, iter, option, slice, vec};

/// A value that names one address or several: `std::net::ToSocketAddrs`, with a lookup of names
/// that blocks the fibre, not the processor: see [`lookup`](super::lookup()). An address is never
/// looked up. In a task the lookup of a name panics; calls whose names end in `_async` look names up
/// by [`to_socket_addrs_async`](ToSocketAddrs::to_socket_addrs_async).
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

    /// As [`to_socket_addrs`](ToSocketAddrs::to_socket_addrs), for tasks. Unless the type has a
    /// form of its own, this calls `to_socket_addrs`, which must not block then.
    ///
    /// # Errors
    /// As for `to_socket_addrs`.
    fn to_socket_addrs_async(&self) -> impl Future<Output = io::Result<Self::Iter>> {
        ready(self.to_socket_addrs())
    }
}

/// Returns the addresses with this port.
fn with_port(mut addresses: Vec<SocketAddr>, port: u16) -> vec::IntoIter<SocketAddr> {
    addresses.iter_mut().for_each(|address| address.set_port(port));
    addresses.into_iter()
}

/// Returns the parts of "host:port".
fn host_and_port(name: &str) -> io::Result<(&str, u16)> {
    let (host, port) = name.rsplit_once(':').ok_or_else(|| invalid("invalid socket address"))?;
    Ok((host, port.parse().map_err(|_| invalid("invalid port value"))?))
}

/// As [`each`], for tasks.
pub(super) async fn each_async<A: ToSocketAddrs, T, F: Future<Output = io::Result<T>>>(
    addresses: A,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<T> {
    let mut last = None;
    for address in addresses.to_socket_addrs_async().await? {
        match attempt(address).await {
            Ok(value) => return Ok(value),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| invalid("could not resolve to any addresses")))
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
        Ok(with_port(SYSTEM.look_up(host, Deadline::NEVER)?, port))
    }

    async fn to_socket_addrs_async(&self) -> io::Result<Self::Iter> {
        let (host, port) = *self;
        Ok(with_port(SYSTEM.look_up_async(host).await?, port))
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (self.0.as_str(), self.1).to_socket_addrs()
    }

    async fn to_socket_addrs_async(&self) -> io::Result<Self::Iter> {
        (self.0.as_str(), self.1).to_socket_addrs_async().await
    }
}

impl ToSocketAddrs for str {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        match self.parse::<SocketAddr>() {
            Ok(address) => Ok(vec![address].into_iter()),
            Err(_) => host_and_port(self)?.to_socket_addrs(),
        }
    }

    async fn to_socket_addrs_async(&self) -> io::Result<Self::Iter> {
        match self.parse::<SocketAddr>() {
            Ok(address) => Ok(vec![address].into_iter()),
            Err(_) => host_and_port(self)?.to_socket_addrs_async().await,
        }
    }
}

impl ToSocketAddrs for String {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.as_str().to_socket_addrs()
    }

    async fn to_socket_addrs_async(&self) -> io::Result<Self::Iter> {
        self.as_str().to_socket_addrs_async().await
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

    async fn to_socket_addrs_async(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs_async().await
    }
}

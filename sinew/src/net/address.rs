//! Addresses as the kernel writes them, and as std does.

use super::raw;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix};
use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddress;

/// An address as the kernel knows it.
pub(crate) struct Address(SocketAddrAny);

impl Address {
    /// The address in the form that the kernel takes.
    pub(super) fn as_any(&self) -> &SocketAddrAny {
        &self.0
    }
}

impl From<SocketAddrAny> for Address {
    fn from(address: SocketAddrAny) -> Address {
        Address(address)
    }
}

/// The kernel writes nothing for the sender of a Unix datagram that has no name.
impl From<Option<SocketAddrAny>> for Address {
    fn from(address: Option<SocketAddrAny>) -> Address {
        Address(address.unwrap_or_else(|| SocketAddrUnix::new_unnamed().into()))
    }
}

impl From<SocketAddr> for Address {
    fn from(mut address: SocketAddr) -> Address {
        // std keeps the flow information in the kernel's byte order, rustix in the machine's.
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_flowinfo(u32::from_be(v6.flowinfo()));
        }
        Address(address.into())
    }
}

impl TryFrom<Address> for SocketAddr {
    type Error = io::Error;

    fn try_from(address: Address) -> io::Result<SocketAddr> {
        let wrong = |_| io::Error::new(io::ErrorKind::InvalidInput, "invalid argument");
        let mut address = SocketAddr::try_from(address.0).map_err(wrong)?;
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_flowinfo(v6.flowinfo().to_be());
        }
        Ok(address)
    }
}

impl TryFrom<&UnixAddress> for Address {
    type Error = io::Error;

    fn try_from(address: &UnixAddress) -> io::Result<Address> {
        let address = match (address.as_pathname(), address.as_abstract_name()) {
            (Some(path), _) => SocketAddrUnix::new(path)?,
            (None, Some(name)) => SocketAddrUnix::new_abstract_name(name)?,
            (None, None) => SocketAddrUnix::new_unnamed(),
        };
        Ok(Address(address.into()))
    }
}

/// Where the path begins in the address of a Unix socket.
const PATH: usize = std::mem::offset_of!(libc::sockaddr_un, sun_path);

impl TryFrom<Address> for UnixAddress {
    type Error = io::Error;

    fn try_from(Address(address): Address) -> io::Result<UnixAddress> {
        if address.address_family() != AddressFamily::UNIX {
            let message = "file descriptor did not correspond to a Unix socket";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // Not rustix's conversion, which panics for a path that fills the address: a peer may
        // have such a name.
        let bytes = raw::bytes_of(&address);
        let end = bytes.len().min(size_of::<libc::sockaddr_un>());
        match bytes.get(PATH..end).unwrap_or_default() {
            [0, name @ ..] => UnixAddress::from_abstract_name(name),
            path => {
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                UnixAddress::from_pathname(OsStr::from_bytes(&path[..end]))
            }
        }
    }
}

//! Addresses as the kernel writes them.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddress;

/// An address as the kernel knows it.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    pub(crate) storage: libc::sockaddr_storage,
    pub(crate) length: libc::socklen_t,
}

impl Address {
    pub(crate) fn empty() -> Address {
        // SAFETY: all-zero is a valid address of no family.
        let storage = unsafe { std::mem::zeroed() };
        Address { storage, length: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.storage).cast()
    }

    pub(crate) fn family(&self) -> libc::c_int {
        self.storage.ss_family.into()
    }

    /// # Safety
    /// `T` is an address of the kernel's, no larger than its storage.
    unsafe fn of<T>(address: T) -> Address {
        let mut storage = Address::empty();
        // SAFETY: by the contract it fits.
        unsafe { storage.as_mut_ptr().cast::<T>().write_unaligned(address) };
        storage.length = size_of::<T>() as libc::socklen_t;
        storage
    }
}

impl From<std::net::SocketAddr> for Address {
    fn from(address: std::net::SocketAddr) -> Address {
        match address {
            std::net::SocketAddr::V4(v4) => {
                let address = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: it is one.
                unsafe { Address::of(address) }
            }
            std::net::SocketAddr::V6(v6) => {
                let address = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: it is one.
                unsafe { Address::of(address) }
            }
        }
    }
}

impl TryFrom<Address> for std::net::SocketAddr {
    type Error = io::Error;

    fn try_from(address: Address) -> io::Result<std::net::SocketAddr> {
        match address.family() {
            libc::AF_INET => {
                // SAFETY: the family says that it is one.
                let v4 = unsafe { &*address.as_ptr().cast::<libc::sockaddr_in>() };
                let ip = std::net::Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Ok(std::net::SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that it is one.
                let v6 = unsafe { &*address.as_ptr().cast::<libc::sockaddr_in6>() };
                let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(std::net::SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "invalid argument")),
        }
    }
}

/// Where the path begins in an address of a Unix socket.
const PATH: usize = std::mem::offset_of!(libc::sockaddr_un, sun_path);

impl From<&UnixAddress> for Address {
    fn from(address: &UnixAddress) -> Address {
        // A path ends with a zero, an abstract name begins with one.
        let (leading, name, trailing) = match (address.as_pathname(), address.as_abstract_name()) {
            (Some(path), _) => (0, path.as_os_str().as_bytes(), 1),
            (None, Some(name)) => (1, name, 0),
            (None, None) => (0, &[][..], 0),
        };
        let mut un = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
        for (to, from) in un.sun_path[leading..].iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        // SAFETY: it is one.
        let mut address = unsafe { Address::of(un) };
        address.length = (PATH + leading + name.len() + trailing) as libc::socklen_t;
        address
    }
}

impl TryFrom<Address> for UnixAddress {
    type Error = io::Error;

    fn try_from(address: Address) -> io::Result<UnixAddress> {
        // Of a socket without a name nothing is written at times.
        if address.length != 0 && address.family() != libc::AF_UNIX {
            let message = "file descriptor did not correspond to a Unix socket";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let length = (address.length as usize).clamp(PATH, size_of::<libc::sockaddr_un>()) - PATH;
        // SAFETY: the storage is larger than such an address, and all of it is initialised.
        let path = unsafe { std::slice::from_raw_parts(address.as_ptr().cast::<u8>().add(PATH), length) };
        match path {
            [0, name @ ..] => UnixAddress::from_abstract_name(name),
            path => {
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                UnixAddress::from_pathname(OsStr::from_bytes(&path[..end]))
            }
        }
    }
}

//! The peers of the sockets of another process.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The sockets of a process, by the kernel's number of them.
#[derive(Default)]
pub struct Sockets(HashMap<u64, String>);

impl Sockets {
    /// Reads the kernel's tables. A table that cannot be read counts as empty.
    pub fn read(process: u32) -> Sockets {
        let mut sockets = HashMap::new();
        for table in ["tcp", "tcp6", "udp", "udp6"] {
            let text = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
            sockets.extend(text.lines().skip(1).filter_map(|line| row(&table[..3], line)));
        }
        let text = fs::read_to_string(format!("/proc/{process}/net/unix")).unwrap_or_default();
        sockets.extend(text.lines().skip(1).filter_map(unix_row));
        Sockets(sockets)
    }

    /// Says what a descriptor is.
    pub fn name(&self, process: u32, descriptor: u64) -> String {
        let link = fs::read_link(format!("/proc/{process}/fd/{descriptor}")).unwrap_or_default();
        let link = link.to_string_lossy();
        let inode = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')?.parse().ok());
        match inode.and_then(|inode: u64| self.0.get(&inode)) {
            Some(name) => name.clone(),
            None => link.into_owned(),
        }
    }
}

/// Reads a line of `/proc/net/tcp`: the third and fourth columns are addresses, the eleventh is the number.
fn row(kind: &str, line: &str) -> Option<(u64, String)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (local, peer) = (address(fields.get(1)?)?, address(fields.get(2)?)?);
    let inode = fields.get(9)?.parse().ok()?;
    let name = if peer.port() == 0 { format!("{kind} {local}, listening") } else { format!("{kind} {local} - {peer}") };
    Some((inode, name))
}

/// Reads a line of `/proc/net/unix`: the seventh column is the number, the eighth the path, if there is one.
fn unix_row(line: &str) -> Option<(u64, String)> {
    let mut fields = line.split_ascii_whitespace().skip(6);
    let inode = fields.next()?.parse().ok()?;
    Some((inode, fields.next().map_or("unix".to_owned(), |path| format!("unix {path}"))))
}

/// Parses an address as the kernel prints it: words in the machine's order, in hexadecimal.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len() / 8)
        .map(|word| Some(u32::from_str_radix(address.get(8 * word..8 * word + 8)?, 16).ok()?.to_ne_bytes()))
        .collect();
    let address = match words?.as_slice() {
        [only] => IpAddr::V4(Ipv4Addr::from(*only)),
        all => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(all.concat()).ok()?)),
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line = "   0: 0100007F:1F90 0200007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1";
        assert_eq!(row("tcp", line), Some((4711, "tcp 127.0.0.1:8080 - 127.0.0.2:50000".to_owned())));
        let line =
            " 1: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 12";
        assert_eq!(row("tcp", line), Some((12, "tcp [::1]:80, listening".to_owned())));
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 4242 /run/socket";
        assert_eq!(unix_row(line), Some((4242, "unix /run/socket".to_owned())));
        assert_eq!(row("tcp", "nonsense"), None);
    }

    #[test]
    fn a_socket_of_this_process_has_its_address() {
        use std::os::fd::AsRawFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let name = Sockets::read(std::process::id()).name(std::process::id(), listener.as_raw_fd() as u64);
        assert_eq!(name, format!("tcp {}, listening", listener.local_addr().expect("it is bound")));
    }
}

//! Names of hosts.

use crate::transport::{deadline, failure};
use sinew::net::{IpAddr, SocketAddr, lookup, lookup_deadline};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// The number of addresses for which `ResolvedSocketAddrs` has room.
const MOST: usize = 16;

/// Looks up names of hosts with [`sinew::net::lookup`]: the fibre waits, and not its processor.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SinewResolver;

impl SinewResolver {
    /// Returns the resolver, which has no state.
    #[must_use]
    pub const fn new() -> SinewResolver {
        SinewResolver
    }
}

impl Resolver for SinewResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let (host, port) = host_and_port(uri).ok_or_else(|| Error::BadUri(format!("no host, or no port: {uri}")))?;
        let found = match deadline(timeout)? {
            None => lookup(&host),
            Some(deadline) => lookup_deadline(&host, deadline),
        };
        let hosts = found.map_err(|error| failure(error, timeout.reason))?;
        let addresses = hosts.into_iter().map(|ip: IpAddr| SocketAddr::new(ip, port));
        let mut resolved = self.empty();
        config.ip_family().keep_wanted(addresses).take(MOST).for_each(|address| resolved.push(address));
        if resolved.is_empty() { Err(Error::HostNotFound) } else { Ok(resolved) }
    }
}

/// Returns the host without the brackets of an address, and the port, which the scheme may imply.
fn host_and_port(uri: &Uri) -> Option<(String, u16)> {
    let named = DefaultResolver::host_and_port(uri.scheme()?, uri.authority()?)?;
    let (host, port) = named.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((bare.to_owned(), port.parse().ok()?))
}

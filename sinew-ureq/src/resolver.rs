//! Names of hosts.

use std::net::IpAddr;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::{Error, http::uri::Authority};

/// Looks up names of hosts on a thread of Sinew's pool for blocking calls.
#[derive(Debug, Default)]
pub struct SinewResolver {
    resolver: DefaultResolver,
}

impl SinewResolver {
    /// Returns a resolver that asks the system, as ureq's own one does.
    #[must_use]
    pub fn new() -> SinewResolver {
        SinewResolver::default()
    }
}

impl Resolver for SinewResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        if uri.authority().is_some_and(is_address) {
            // Without a timeout, ureq's resolver starts no thread, and an address needs no lookup.
            return self.resolver.resolve(uri, config, NextTimeout::default());
        }
        sinew::blocking(|| self.resolver.resolve(uri, config, timeout))
    }
}

fn is_address(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().is_ok()
}

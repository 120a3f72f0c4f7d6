//! Connections, and an agent that uses them.

use crate::transport::{SinewTransport, failure};
use crate::{SinewResolver, transport};
use sinew::cancel::Cancelled;
use sinew::net::TcpStream;
use std::io;
use std::time::Instant;
use ureq::config::Config;
use ureq::unversioned::transport::{ConnectProxyConnector, ConnectionDetails, Connector, Either, Transport};
use ureq::{Agent, Error, ProxyProtocol};

/// Returns an agent whose calls block their fibre, and not their processor. With the feature
/// `rustls` it speaks https. HTTP proxies work; SOCKS proxies are refused.
///
/// ```
/// use std::time::Duration;
/// let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).build();
/// let agent = sinew_ureq::agent(config);
/// sinew::run(|| {
///     // Nobody listens at this port.
///     assert!(agent.get("http://127.0.0.1:1/").call().is_err());
/// });
/// ```
///
/// The agent may be cloned and shared by fibres. It works on kernel threads, too. A
/// [task](sinew::task) may not use it: it would hold up its processor.
#[must_use]
pub fn agent(config: Config) -> Agent {
    let connector = ().chain(ConnectProxyConnector::default()).chain(SinewConnector::new());
    #[cfg(feature = "rustls")]
    let connector = connector.chain(ureq::unversioned::transport::RustlsConnector::default());
    Agent::with_parts(config, connector, SinewResolver::new())
}

/// Opens sockets of [`sinew::net`] for ureq: for chains of connectors of your own. [`agent`] is one
/// such chain.
///
/// ```
/// use sinew_ureq::{SinewConnector, SinewResolver};
/// use ureq::{Agent, unversioned::transport::Connector};
/// let agent = Agent::with_parts(Default::default(), ().chain(SinewConnector::new()), SinewResolver::new());
/// // Nobody listens at this port.
/// assert!(agent.get("http://127.0.0.1:1/").call().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SinewConnector;

impl SinewConnector {
    /// Returns the connector, which has no state.
    #[must_use]
    pub const fn new() -> SinewConnector {
        SinewConnector
    }
}

impl<In: Transport> Connector<In> for SinewConnector {
    type Out = Either<In, SinewTransport>;

    /// Passes on the connection that an earlier connector of the chain made, or makes one.
    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        if let Some(earlier) = chained {
            return Ok(Some(Either::A(earlier)));
        }
        let config = details.config;
        if config.proxy().is_some_and(|proxy| is_socks(proxy.protocol())) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "sinew-ureq has no SOCKS proxies").into());
        }
        let stream = connect_to_any(details)?;
        stream.set_nodelay(config.no_delay())?;
        let transport = SinewTransport::new(stream, config.input_buffer_size(), config.output_buffer_size());
        (details.register_shutdown)(transport.shutdown_handle())?;
        Ok(Some(Either::B(transport)))
    }
}

fn is_socks(protocol: ProxyProtocol) -> bool {
    !matches!(protocol, ProxyProtocol::Http | ProxyProtocol::Https)
}

/// Tries one address after the other. Each one but the last gets half of the time that is left, so
/// that one silent address does not use up all of it.
fn connect_to_any(details: &ConnectionDetails<'_>) -> Result<TcpStream, Error> {
    let timeout = details.timeout;
    let deadline = transport::deadline(timeout)?;
    let mut last = Error::HostNotFound;
    for (number, address) in details.addrs.iter().enumerate() {
        let attempt = match deadline {
            None => TcpStream::connect(address),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(Error::Timeout(timeout.reason));
                }
                let is_last = number + 1 == details.addrs.len();
                TcpStream::connect_timeout(address, if is_last { left } else { left / 2 })
            }
        };
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) if error.get_ref().is_some_and(|source| source.is::<Cancelled>()) => return Err(error.into()),
            Err(error) => last = failure(error, timeout.reason),
        }
    }
    Err(last)
}

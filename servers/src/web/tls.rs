//! HTTPS: the configuration of rustls.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The stack of a session with TLS, in bytes. rustls needs 56 KiB of it in a debug build. The rest
/// costs only addresses.
pub const STACK: usize = 128 * 1024;

/// The bytes that rustls takes for a connection during the handshake, roughly.
pub const MEMORY: usize = 128 * 1024;

/// Returns a configuration with the certificate chain and the key of these two files.
///
/// # Errors
/// A file cannot be read, or rustls refuses its content.
pub fn config(files: &[PathBuf]) -> io::Result<Arc<ServerConfig>> {
    let [certificates, key] = files else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "--tls takes a certificate and a key"));
    };
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| explain(certificates, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| explain(key, &error))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| explain(certificates, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn explain(file: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", file.display()))
}

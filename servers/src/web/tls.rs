//! HTTPS: what a server with a certificate is like.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The stack of a session that speaks TLS. rustls needs 56 KiB of it in a debug build; more
/// costs addresses only.
pub const STACK: usize = 128 * 1024;

/// What rustls takes for a connection, roughly, while hands are shaken.
pub const MEMORY: usize = 128 * 1024;

/// Of the certificate chain and the key in these two files.
///
/// # Errors
/// Those of reading them, and what rustls has to say of them.
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

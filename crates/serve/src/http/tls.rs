//! TLS, from PEM files of certificates and of a key.

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_rustls::TlsAcceptor;

/// Why the files of a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct TlsError {
    path: PathBuf,
    reason: Box<dyn Error + Send + Sync>,
}

/// Accepts TLS connections with a chain of certificates (the server's own first)
/// and its key.
///
/// # Errors
/// If a file cannot be read or used, or if the key does not belong to the
/// certificate.
pub fn tls_acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    fn failed(path: &Path, reason: impl Into<Box<dyn Error + Send + Sync>>) -> TlsError {
        TlsError { path: path.to_owned(), reason: reason.into() }
    }
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect)
        .map_err(|error| failed(certificates, error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(certificates, error))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                failed(key, format!("it is not the key of the certificate in {}", certificates.display()))
            }
            error => failed(certificates, error),
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

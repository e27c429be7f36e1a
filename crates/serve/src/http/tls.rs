//! TLS, from PEM files of certificates and of a key.

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_rustls::TlsAcceptor;

/// Why TLS cannot be served from files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not the PEM file that is expected.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// The certificates or the key cannot be used.
    #[error("{}: {source}", path.display())]
    Unusable {
        /// The file of certificates.
        path: PathBuf,
        /// What is wrong with them.
        source: rustls::Error,
    },
    /// The key does not belong to the certificate.
    #[error("{}: it is not the key of the certificate in {}", key.display(), certificates.display())]
    OtherKey {
        /// The file of the key.
        key: PathBuf,
        /// The file of certificates.
        certificates: PathBuf,
    },
}

/// Accepts TLS connections with a chain of certificates (the server's own first)
/// and its key.
///
/// # Errors
/// If a file cannot be read or used, or if the key does not belong to the
/// certificate.
pub fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let file = |path: &Path, source| TlsError::File { path: path.to_owned(), source };
    let unusable = |source| TlsError::Unusable { path: certificates.to_owned(), source };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect)
        .map_err(|error| file(certificates, error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| file(key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::OtherKey { key: key.to_owned(), certificates: certificates.to_owned() }
            }
            error => unusable(error),
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

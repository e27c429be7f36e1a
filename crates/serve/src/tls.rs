//! TLS, from files of certificates and of a key (PEM).

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{fmt, path::Path, sync::Arc};
use tokio_rustls::TlsAcceptor;

/// Why a file cannot be used, with its path.
#[derive(Debug)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// What accepts TLS connections with these certificates, the server's own first.
///
/// # Errors
/// A file that cannot be read or holds something else, or a key that does not
/// belong to the certificate.
pub fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let failed = |path: &Path, reason: &dyn fmt::Display| TlsError(format!("{}: {reason}", path.display()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect)
        .map_err(|error| failed(certificates, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(certificates, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                failed(key, &format_args!("it is not the key of the certificate in {}", certificates.display()))
            }
            error => failed(certificates, &error),
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

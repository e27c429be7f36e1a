//! Servers whose certificate is not trusted, and servers without space: clients of object stores do not ask them
//! again, since the answer would be the same.

use crate::space::InsufficientStorage;
use async_trait::async_trait;
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    },
};

/// What to do about an error, by rustls' words; none if it is not about the
/// certificate of a server.
pub fn advice(text: &str) -> Option<&'static str> {
    if !is_refused(text) {
        None
    } else if text.contains("CaUsedAsEndEntity") {
        // What `openssl req -x509` makes. rustls takes no authority as a server.
        Some(
            "its certificate is that of an authority, which no server may have: give the server one without `CA:TRUE` \
             (openssl req -x509 -addext basicConstraints=critical,CA:FALSE …), and set SSL_CERT_FILE to it",
        )
    } else {
        Some(
            "its certificate is not trusted: set SSL_CERT_FILE to the certificate of the authority that signed it (a \
             file in PEM form, which takes the place of the system's)",
        )
    }
}

pub(crate) fn is_refused(text: &str) -> bool {
    text.contains("invalid peer certificate")
}

/// Makes HTTP clients.
#[derive(Debug, Default)]
pub(crate) struct StoreConnector(ReqwestConnector);

impl HttpConnector for StoreConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        self.0.connect(options).map(|client| HttpClient::new(ClientService(client)))
    }
}

#[derive(Debug)]
struct ClientService(HttpClient);

#[async_trait]
impl HttpService for ClientService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response =
            self.0.execute(request).await.map_err(|error| match is_refused(&crate::error_chain(&error)) {
                // Of a kind that is not repeated.
                true => HttpError::new(HttpErrorKind::Unknown, error),
                false => error,
            })?;
        if response.status().as_u16() == 507 {
            return Err(HttpError::new(HttpErrorKind::Unknown, InsufficientStorage));
        }
        Ok(response)
    }
}

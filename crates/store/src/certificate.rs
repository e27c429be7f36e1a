//! Servers whose certificate is not trusted: clients of object stores do not
//! ask them again, since the answer would be the same.

use async_trait::async_trait;
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    },
};

/// Whether an error is about the certificate of a server, by rustls' words.
pub fn is_refused(text: &str) -> bool {
    text.contains("invalid peer certificate")
}

/// Makes such clients.
#[derive(Debug, Default)]
pub(crate) struct Connector(ReqwestConnector);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        self.0.connect(options).map(|client| HttpClient::new(Service(client)))
    }
}

#[derive(Debug)]
struct Service(HttpClient);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.0.execute(request).await.map_err(|error| match is_refused(&crate::error_chain(&error)) {
            // Of a kind that is not repeated.
            true => HttpError::new(HttpErrorKind::Unknown, error),
            false => error,
        })
    }
}

//! The errors that the pages get, in the shape of the service's.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use lab::Error;
use serde_json::json;

/// What went wrong with a request of a page.
#[derive(Debug)]
pub(crate) struct PageError {
    status: StatusCode,
    message: String,
}

impl PageError {
    /// Something that is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, message: message.into() }
    }

    /// Something that cannot be done now.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self { status: StatusCode::CONFLICT, message: message.into() }
    }

    /// A request with more bytes than are read.
    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, message: message.into() }
    }

    /// A request that has to be changed.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into() }
    }
}

impl From<Error> for PageError {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::NotFound(_) | Error::NoRun { .. } => StatusCode::NOT_FOUND,
            Error::Refused(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, message: lab::error_chain(&error) }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": { "message": self.message } }))).into_response()
    }
}

//! An error in the form in which one process sends it to another.

use super::{Error, FunctionError};
use crate::{Cap, RateHeaders};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// An error for a caller in another process: its kind, as far as the caller acts
/// on it, and its text. All other kinds arrive as [`Error::Config`] with the same
/// text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are those of the errors that are named")]
pub enum ErrorReport {
    /// [`Error::MissingKey`].
    MissingKey { variable: String, model: String },
    /// [`Error::Connection`]; its cause in words.
    Connection { endpoint: String, cause: String },
    /// [`Error::Timeout`].
    Timeout { model: String, after: Duration },
    /// [`Error::TooLarge`].
    TooLarge { model: String, limit: usize },
    /// [`Error::Stalled`].
    Stalled { model: String, after: Duration, message: String },
    /// [`Error::Authentication`].
    Authentication { endpoint: String, message: String },
    /// [`Error::RateLimited`], without its headers, which only the process that holds the model needs.
    RateLimited { endpoint: String, message: String, retry_after: Option<Duration> },
    /// [`Error::QuotaExhausted`].
    QuotaExhausted { endpoint: String, message: String },
    /// [`Error::BudgetExhausted`].
    BudgetExhausted { cap: Cap, spent: f64, limit: f64 },
    /// [`Error::Server`].
    Server { endpoint: String, status: u16, message: String, retry_after: Option<Duration> },
    /// [`Error::Refused`].
    Refused { endpoint: String, status: u16, message: String },
    /// [`Error::ContextTooLong`].
    ContextTooLong { model: String, tokens: usize, limit: usize },
    /// [`Error::ContentFiltered`].
    ContentFiltered { model: String, reason: String },
    /// [`Error::NoText`].
    NoText { model: String, reason: String },
    /// [`Error::Malformed`].
    Malformed { model: String, reason: String },
    /// [`Error::SchemaMismatch`].
    SchemaMismatch { model: String, reason: String, reply: String },
    /// [`Error::Function`].
    Function(Box<FunctionError>),
    /// [`Error::Cancelled`].
    Cancelled,
    /// Any other error, in words.
    Other(String),
}

impl From<&Error> for ErrorReport {
    fn from(error: &Error) -> Self {
        match error.clone() {
            Error::MissingKey { variable, model } => Self::MissingKey { variable, model },
            Error::Connection { endpoint, cause } => {
                Self::Connection { endpoint, cause: store::error_chain(cause.as_ref()) }
            }
            Error::Timeout { model, after } => Self::Timeout { model, after },
            Error::TooLarge { model, limit } => Self::TooLarge { model, limit },
            Error::Stalled { model, after, message } => Self::Stalled { model, after, message },
            Error::Authentication { endpoint, message } => Self::Authentication { endpoint, message },
            Error::RateLimited { endpoint, message, retry_after, .. } => {
                Self::RateLimited { endpoint, message, retry_after }
            }
            Error::QuotaExhausted { endpoint, message } => Self::QuotaExhausted { endpoint, message },
            Error::BudgetExhausted { cap, spent, limit } => Self::BudgetExhausted { cap, spent, limit },
            Error::Server { endpoint, status, message, retry_after } => {
                Self::Server { endpoint, status, message, retry_after }
            }
            Error::Refused { endpoint, status, message } => Self::Refused { endpoint, status, message },
            Error::ContextTooLong { model, tokens, limit } => Self::ContextTooLong { model, tokens, limit },
            Error::ContentFiltered { model, reason } => Self::ContentFiltered { model, reason },
            Error::NoText { model, reason } => Self::NoText { model, reason },
            Error::Malformed { model, reason } => Self::Malformed { model, reason },
            Error::SchemaMismatch { model, reason, reply } => Self::SchemaMismatch { model, reason, reply },
            Error::Function(failed) => Self::Function(failed),
            Error::Cancelled => Self::Cancelled,
            error => Self::Other(store::error_chain(&error)),
        }
    }
}

impl From<ErrorReport> for Error {
    fn from(told: ErrorReport) -> Self {
        match told {
            ErrorReport::MissingKey { variable, model } => Self::MissingKey { variable, model },
            ErrorReport::Connection { endpoint, cause } => {
                Self::Connection { endpoint, cause: Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(cause)) }
            }
            ErrorReport::Timeout { model, after } => Self::Timeout { model, after },
            ErrorReport::TooLarge { model, limit } => Self::TooLarge { model, limit },
            ErrorReport::Stalled { model, after, message } => Self::Stalled { model, after, message },
            ErrorReport::Authentication { endpoint, message } => Self::Authentication { endpoint, message },
            ErrorReport::RateLimited { endpoint, message, retry_after } => {
                Self::RateLimited { endpoint, message, retry_after, hints: Box::<RateHeaders>::default() }
            }
            ErrorReport::QuotaExhausted { endpoint, message } => Self::QuotaExhausted { endpoint, message },
            ErrorReport::BudgetExhausted { cap, spent, limit } => Self::BudgetExhausted { cap, spent, limit },
            ErrorReport::Server { endpoint, status, message, retry_after } => {
                Self::Server { endpoint, status, message, retry_after }
            }
            ErrorReport::Refused { endpoint, status, message } => Self::Refused { endpoint, status, message },
            ErrorReport::ContextTooLong { model, tokens, limit } => Self::ContextTooLong { model, tokens, limit },
            ErrorReport::ContentFiltered { model, reason } => Self::ContentFiltered { model, reason },
            ErrorReport::NoText { model, reason } => Self::NoText { model, reason },
            ErrorReport::Malformed { model, reason } => Self::Malformed { model, reason },
            ErrorReport::SchemaMismatch { model, reason, reply } => Self::SchemaMismatch { model, reason, reply },
            ErrorReport::Function(failed) => Self::Function(failed),
            ErrorReport::Cancelled => Self::Cancelled,
            ErrorReport::Other(words) => Self::Config(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_arrives_with_its_words_and_with_what_can_be_done_about_it() {
        let errors = [
            Error::Connection { endpoint: "http://h".into(), cause: Arc::new(std::io::Error::other("refused")) },
            Error::Timeout { model: "m".into(), after: Duration::from_millis(1500) },
            Error::RateLimited {
                endpoint: "http://h".into(),
                message: "slow down".into(),
                retry_after: Some(Duration::from_secs(2)),
                hints: Box::default(),
            },
            Error::Server { endpoint: "http://h".into(), status: 503, message: "no".into(), retry_after: None },
            Error::Refused { endpoint: "http://h".into(), status: 413, message: "too much".into() },
            Error::ContextTooLong { model: "m".into(), tokens: 9, limit: 8 },
            Error::BudgetExhausted { cap: Cap::Usd, spent: 1.0, limit: 1.0 },
            Error::Unsupported { model: "m".into(), what: "token vectors" },
            Error::bad_file(std::path::Path::new("a.gguf"), "is cut off"),
            Error::Cancelled,
        ];
        for error in errors {
            let written = serde_json::to_string(&ErrorReport::from(&error)).unwrap();
            let arrived = Error::from(serde_json::from_str::<ErrorReport>(&written).unwrap());
            assert_eq!(store::error_chain(&arrived), store::error_chain(&error));
            assert_eq!((arrived.is_transient(), arrived.retry_after()), (error.is_transient(), error.retry_after()));
            if !matches!(error, Error::Unsupported { .. } | Error::BadFile { .. }) {
                assert_eq!(std::mem::discriminant(&arrived), std::mem::discriminant(&error), "{error}");
            }
        }
    }
}

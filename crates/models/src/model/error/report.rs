//! An error in the form in which one process sends it to another.

use super::{Error, FunctionError};
use crate::Cap;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Declares [`ErrorReport`] with the errors that are sent as they are, and the conversions.
macro_rules! reports {
    ($( $Kind:ident { $($field:ident: $Type:ty),+ } )+) => {
        /// An error for a caller in another process: its kind, as far as the caller acts
        /// on it, and its text. All other kinds arrive as [`Error::Config`] with the same
        /// text.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "variants and fields are those of the errors of the same names")]
        pub enum ErrorReport {
            $( $Kind { $($field: $Type),+ }, )+
            /// With its cause in words.
            Connection { endpoint: String, cause: String },
            Function(Box<FunctionError>),
            Cancelled,
            /// Any other error, in words.
            Other(String),
        }

        impl From<&Error> for ErrorReport {
            fn from(error: &Error) -> Self {
                match error.clone() {
                    $( Error::$Kind { $($field),+ } => Self::$Kind { $($field),+ }, )+
                    Error::Connection { endpoint, cause } => {
                        Self::Connection { endpoint, cause: store::error_chain(cause.as_ref()) }
                    }
                    Error::Function(failed) => Self::Function(failed),
                    Error::Cancelled => Self::Cancelled,
                    error => Self::Other(store::error_chain(&error)),
                }
            }
        }

        impl From<ErrorReport> for Error {
            fn from(report: ErrorReport) -> Self {
                match report {
                    $( ErrorReport::$Kind { $($field),+ } => Self::$Kind { $($field),+ }, )+
                    ErrorReport::Connection { endpoint, cause } => Self::connection(&endpoint, cause),
                    ErrorReport::Function(failed) => Self::Function(failed),
                    ErrorReport::Cancelled => Self::Cancelled,
                    ErrorReport::Other(words) => Self::Config(words),
                }
            }
        }
    };
}

reports! {
    MissingKey { variable: String, model: String }
    Timeout { model: String, after: Duration }
    FinalTimeout { model: String, after: Duration }
    TooLarge { model: String, limit: usize }
    Stalled { model: String, after: Duration, message: String }
    Authentication { endpoint: String, message: String }
    RateLimited { endpoint: String, message: String, retry_after: Option<Duration> }
    QuotaExhausted { endpoint: String, message: String }
    BudgetExhausted { cap: Cap, spent: f64, limit: f64, earlier: Option<f64> }
    BatchLost { model: String, reason: String }
    Server { endpoint: String, status: u16, message: String, retry_after: Option<Duration> }
    Refused { endpoint: String, status: u16, message: String }
    ContextTooLong { model: String, tokens: usize, limit: usize }
    TextTooLong {
        model: String, text: String, tokens: usize, limit: usize, is_estimate: bool, longer: usize, of: usize
    }
    ContentFiltered { model: String, reason: String }
    NoText { model: String, reason: String }
    Malformed { model: String, reason: String }
    NotJson { model: String, reason: String }
    SchemaMismatch { model: String, reason: String, reply: String }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_error_arrives_with_its_words_and_with_what_can_be_done_about_it() {
        let errors = [
            Error::Connection { endpoint: "http://h".into(), cause: Arc::new(std::io::Error::other("refused")) },
            Error::Timeout { model: "m".into(), after: Duration::from_millis(1500) },
            Error::RateLimited {
                endpoint: "http://h".into(),
                message: "slow down".into(),
                retry_after: Some(Duration::from_secs(2)),
            },
            Error::Server { endpoint: "http://h".into(), status: 503, message: "no".into(), retry_after: None },
            Error::Refused { endpoint: "http://h".into(), status: 413, message: "too much".into() },
            Error::ContextTooLong { model: "m".into(), tokens: 9, limit: 8 },
            Error::TextTooLong {
                model: "m".into(),
                text: "Once upon".into(),
                tokens: 9,
                limit: 8,
                is_estimate: false,
                longer: 2,
                of: 3,
            },
            Error::BudgetExhausted { cap: Cap::Usd, spent: 1.0, limit: 1.0, earlier: None },
            Error::BudgetExhausted { cap: Cap::Usd, spent: 1.0, limit: 1.0, earlier: Some(0.75) },
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

//! What error codes mean: those of gRPC, and those of Milvus.

use super::messages::Status;
use crate::DatabaseProblem;
use percent_encoding::percent_decode_str;
use reqwest::header::HeaderMap;
use std::time::Duration;

/// The older number for a collection that is not there.
const OLD_MISSING_COLLECTION: i32 = 4;

/// The problem of a call that failed before Milvus itself looked at it.
pub(super) fn grpc_problem(
    headers: &HeaderMap,
    limit: Duration,
    shown: impl Fn(&str) -> String,
) -> Result<(), DatabaseProblem> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let code = header("grpc-status");
    let message = shown(&percent_decode_str(header("grpc-message")).decode_utf8_lossy());
    Err(match code {
        "" | "0" => return Ok(()),
        "16" => DatabaseProblem::Credentials { message },
        "7" => DatabaseProblem::Permission { message },
        "4" => DatabaseProblem::TimedOut { after: limit },
        "8" if message.contains("larger than max") => DatabaseProblem::TooLarge { reason: message },
        "8" | "14" => DatabaseProblem::Busy { message, retry_after: None },
        "12" => DatabaseProblem::Malformed {
            reason: format!("the service has no such call: {message}; is it Milvus 2.4 or newer?"),
        },
        code => DatabaseProblem::Refused { message: format!("{message} (gRPC status {code})") },
    })
}

/// The problem that a status of Milvus tells of; none if it tells of success.
pub(super) fn refusal(status: &Status, shown: impl Fn(&str) -> String) -> Option<DatabaseProblem> {
    let message = shown(&status.reason);
    Some(match (status.code, status.error_code) {
        (0, 0) => return None,
        (0, OLD_MISSING_COLLECTION) | (100, _) => DatabaseProblem::MissingCollection,
        (101 | 103, _) => DatabaseProblem::NotReady { reason: format!("it is not loaded: {message}") },
        (700, _) => DatabaseProblem::NotReady { reason: format!("it has no index: {message}") },
        (800, _) => DatabaseProblem::InvalidSettings { reason: message },
        (1400 | 1800, _) => DatabaseProblem::Credentials { message },
        (1401, _) => DatabaseProblem::Permission { message },
        (1102, _) => DatabaseProblem::TooLarge { reason: message },
        // Milvus Lite has no number of its own for it.
        (1 | 6, _) if message.starts_with("database ") && message.ends_with("does not exist") => {
            DatabaseProblem::InvalidSettings { reason: message }
        }
        (4 | 8, _) => DatabaseProblem::Busy { message, retry_after: None },
        _ if status.retriable => DatabaseProblem::Busy { message, retry_after: None },
        (code, _) if message.contains("auth check failure") => {
            DatabaseProblem::Credentials { message: format!("{message} (code {code})") }
        }
        (code, older) => DatabaseProblem::Refused { message: format!("{message} (code {})", code.max(older)) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_problems() {
        let problem = |code, retriable| {
            refusal(&Status { code, retriable, reason: "why".to_owned(), error_code: 0 }, str::to_owned)
        };
        assert_eq!(problem(0, false), None);
        assert_eq!(problem(100, false), Some(DatabaseProblem::MissingCollection));
        assert!(matches!(problem(101, false), Some(DatabaseProblem::NotReady { .. })));
        assert!(matches!(problem(8, true), Some(DatabaseProblem::Busy { .. })));
        assert!(matches!(problem(401, true), Some(DatabaseProblem::Busy { .. })));
        assert!(matches!(problem(1400, false), Some(DatabaseProblem::Credentials { .. })));
        assert!(
            matches!(problem(1100, false), Some(DatabaseProblem::Refused { message }) if message == "why (code 1100)")
        );
    }
}

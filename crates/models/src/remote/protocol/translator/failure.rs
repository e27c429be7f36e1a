//! Interprets the errors of `genai`, which wrap the endpoint's message or a
//! failure of the connection.

use super::ChatTarget;
use crate::Error;
use genai::webc::Error as Web;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::time::Instant;

/// Why a call gave no answer.
pub(super) fn of_a_call(model: &ChatTarget<'_>, error: genai::Error, sent: Instant) -> Error {
    let endpoint = &model.endpoint;
    match error {
        genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
            match webc_error {
                Web::ResponseFailedStatus { status, body, headers } => {
                    endpoint.error_of_status(status, &headers, &body, sent)
                }
                Web::Reqwest(error) => endpoint.broken(error, sent),
                Web::ResponseFailedNotJson { content_type, .. } => {
                    endpoint.malformed(format!("not JSON but `{content_type}`"))
                }
                Web::ResponseFailedInvalidJson { cause, .. } => endpoint.malformed(format!("not JSON: {cause}")),
                other @ Web::JsonValueExt(_) => endpoint.malformed(other),
            }
        }
        genai::Error::ChatResponseGeneration { response_body, cause, .. } => {
            if let Some(error) = endpoint.error_in(&response_body) {
                return error;
            }
            blocked(model, &response_body).unwrap_or_else(|| endpoint.malformed(cause))
        }
        // The other errors are about requests that the provider's protocol cannot express.
        other => Error::bad_settings(model.name(), other),
    }
}

/// Why a stream stopped too early; `last` is its last event.
pub(super) fn of_a_stream(model: &ChatTarget<'_>, error: genai::Error, last: &str, sent: Instant) -> Error {
    let endpoint = &model.endpoint;
    match error {
        genai::Error::WebStream { error, cause, .. } => {
            let error = match error.downcast::<genai::Error>() {
                Ok(error) => match *error {
                    genai::Error::HttpError { status, body, headers, .. } => {
                        let headers: &HeaderMap = &headers;
                        return endpoint.error_of_status(status, headers, &body, sent);
                    }
                    other => return endpoint.malformed(other),
                },
                Err(error) => error,
            };
            match error.downcast::<reqwest::Error>() {
                Ok(error) => endpoint.broken(*error, sent),
                Err(_) => endpoint.malformed(cause),
            }
        }
        genai::Error::ChatResponse { body, .. } => {
            let said = |name: &str| body.get(name).is_some_and(|said| !said.is_null());
            let blocked = || blocked(model, &serde_json::from_str(last).unwrap_or_default());
            match said("error") || said("message") {
                true => endpoint.error_in_200(&body.to_string()),
                false => blocked()
                    .unwrap_or_else(|| endpoint.malformed(format!("this event is not part of an answer: {body}"))),
            }
        }
        other => endpoint.malformed(other),
    }
}

/// The error if Gemini refuses to read a prompt.
fn blocked(model: &ChatTarget<'_>, body: &Value) -> Option<Error> {
    let reason = body.pointer("/promptFeedback/blockReason")?.as_str()?;
    Some(model.endpoint.filtered(&format!("the prompt was blocked: {reason}")))
}

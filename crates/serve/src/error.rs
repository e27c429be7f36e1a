//! The errors that clients get, in OpenAI's shape.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// `Retry-After` if a model refuses calls without saying for how long.
const AFTER_REFUSALS: Duration = Duration::from_secs(10);

/// What went wrong with a request.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    kind: &'static str,
    pub(crate) code: &'static str,
    parameter: Option<Box<str>>,
    pub(crate) message: String,
    retry_after: Option<Duration>,
    /// The reason for the operator, which is not sent to the client.
    pub(crate) detail: Option<Box<str>>,
}

/// The body of an error.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

#[derive(Serialize, JsonSchema)]
struct ErrorDetail {
    /// What happened, and what to do.
    message: String,
    /// The kind of error, such as `invalid_request_error`.
    r#type: &'static str,
    /// The field that is wrong, if one is.
    param: Option<Box<str>>,
    /// The code of the error, such as `model_not_found`.
    code: &'static str,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, code, parameter: None, message: message.into(), retry_after: None, detail: None }
    }

    /// A request that the client must change.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_request", message)
    }

    pub(crate) fn with_parameter(self, name: impl Into<Box<str>>) -> Self {
        Self { parameter: Some(name.into()), ..self }
    }

    pub(crate) fn with_status(self, status: StatusCode, code: &'static str) -> Self {
        Self { status, code, ..self }
    }

    /// Adds a reason for the operator.
    pub(crate) fn with_detail(self, detail: impl Into<Box<str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    pub(crate) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", code, message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", "invalid_api_key", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_error", "forbidden", message)
    }

    pub(crate) fn overloaded(message: impl Into<String>, retry_after: Duration) -> Self {
        let retry_after = Some(retry_after);
        Self { retry_after, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", "overloaded", message) }
    }

    pub(crate) fn too_many(message: impl Into<String>, retry_after: Duration) -> Self {
        let limited = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", "rate_limit_exceeded", message);
        Self { retry_after: Some(retry_after), ..limited }
    }

    /// A body that is not JSON. A form of any web page can send other kinds of bodies
    /// from a visitor's browser.
    pub(crate) fn not_json() -> Self {
        Self::invalid("the body must be JSON: send `Content-Type: application/json`")
            .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "server_error", "timeout", message)
    }

    pub(crate) fn upstream(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "server_error", "upstream_error", message)
    }

    /// A search that took too long. It does not count as a failure of a model.
    pub(crate) fn search_timeout(message: impl Into<String>) -> Self {
        Self { code: "search_timeout", ..Self::timeout(message) }
    }

    /// A failure whose reason only the operator gets: it may hold paths, addresses
    /// and names of buckets.
    pub(crate) fn internal(detail: impl Into<Box<str>>) -> Self {
        let message = "the service failed on this request; its log has the reason under the request's id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal_error", message).with_detail(detail)
    }

    /// A panic, which is a bug of the service.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::internal(format!("a bug in the service: {}", text.unwrap_or("a panic without a text")))
    }

    pub(crate) fn body(&self) -> ErrorBody {
        let (message, param) = (self.message.clone(), self.parameter.clone());
        ErrorBody { error: ErrorDetail { message, r#type: self.kind, param, code: self.code } }
    }

    /// The kind of failure, for metrics and log lines.
    pub(crate) fn failure_kind(&self) -> &'static str {
        match self.status.as_u16() {
            502 => "upstream",
            503 if self.is_upstream() => "upstream",
            504 => "timeout",
            503 => "shed",
            _ => "other",
        }
    }

    /// Whether the service or a model failed, rather than the client.
    pub(crate) fn is_failure(&self) -> bool {
        self.status.is_server_error() || self.code == "insufficient_quota"
    }

    /// Whether a model or its endpoint failed.
    pub(crate) fn is_upstream(&self) -> bool {
        matches!(self.code, "upstream_error" | "model_rate_limited" | "timeout")
    }

    /// Whether the model refused this question, but might answer another.
    pub(crate) fn is_question_refused(&self) -> bool {
        self.code == "upstream_refused"
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // Middleware counts it and writes it to the log.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<lab::Error> for ApiError {
    fn from(error: lab::Error) -> Self {
        let detail = lab::error_chain(&error);
        if let lab::Error::Stage(rag::Error::Remote { retry_after: Some(after), .. }) = &error {
            return Self::overloaded("a part of the service cannot be reached; try again", *after).with_detail(detail);
        }
        let model = match &error {
            lab::Error::Model(model) | lab::Error::Stage(rag::Error::Model(model)) => model,
            _ => return Self::internal(detail),
        };
        let bad_request = |code, reason: &str| Self::invalid(reason).with_status(StatusCode::BAD_REQUEST, code);
        let public = match model {
            models::Error::Cancelled => {
                return Self::overloaded("the service is shutting down", Duration::from_secs(5));
            }
            models::Error::ContextTooLong { .. } => bad_request(
                "context_length_exceeded",
                "the conversation and the passages are longer than the model reads: ask a shorter question, or send \
                 fewer earlier messages",
            ),
            models::Error::TextTooLong { .. } => bad_request(
                "context_length_exceeded",
                "the question is longer than the embedding model reads, and its settings refuse longer ones: ask a \
                 shorter question",
            ),
            models::Error::ContentFiltered { .. } => {
                bad_request("content_filter", "the chat model withheld its answer")
            }
            models::Error::Timeout { .. } => Self::timeout("a model did not answer in time"),
            models::Error::BudgetExhausted { .. } => {
                let (status, kind) = (StatusCode::TOO_MANY_REQUESTS, "insufficient_quota");
                Self::new(status, kind, kind, "the budget of the service is spent")
            }
            // A refused question does not count as a failure of the model.
            models::Error::Refused { status: 400 | 413 | 422, .. } => {
                Self { code: "upstream_refused", ..Self::upstream("the model refused the request") }
            }
            models::Error::RateLimited { .. } | models::Error::Stalled { .. } => {
                let wait = model.retry_after().unwrap_or(AFTER_REFUSALS);
                let reason = "a model takes no more calls now (its rate limit); try again later";
                Self { code: "model_rate_limited", ..Self::overloaded(reason, wait) }
            }
            _ => Self::upstream(upstream_reason(model)),
        };
        // `detail` has addresses and settings of endpoints, which only the operator may see.
        public.with_detail(detail)
    }
}

/// Why a model failed, in words for a client.
fn upstream_reason(model: &models::Error) -> &'static str {
    match model {
        models::Error::Connection { .. } => "a model cannot be reached; try again later",
        models::Error::Server { .. } => "a model's endpoint failed; try again later",
        models::Error::NoText { .. } => "the chat model wrote no answer",
        // Retries do not help until the operator has changed something.
        models::Error::Authentication { .. } | models::Error::MissingKey { .. } => {
            "a model refuses the service's key; the operator of the service must replace it"
        }
        models::Error::QuotaExhausted { .. } => {
            "the service's account with a model is used up; the operator of the service must add credit"
        }
        models::Error::Refused { status: 404, .. } => {
            "a model is not there under its name; the operator of the service must correct its name or address"
        }
        models::Error::Refused { .. } | models::Error::Redirected { .. } => {
            "a model's endpoint refuses the service; the log of the service has the reason for its operator"
        }
        _ => "a model failed; try again later",
    }
}

//! The errors of models, divided by what the caller can do about them.

mod report;
pub(crate) mod section;

pub use report::ErrorReport;
pub use section::{retriever_section, system_section};

use super::cap::budget_reached;
use crate::Cap;
use section::{address_setting, malformed_advice, redirect_advice, request_settings};
use std::{error::Error as StdError, fmt::Display, path::Path, sync::Arc, time::Duration};

/// The cause of an error: the error of a library or of the system, or a
/// sentence.
pub type Cause = Arc<dyn StdError + Send + Sync>;

/// Why a model gave no answer. Never holds a secret.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields whose names do not say all are explained with their error")]
pub enum Error {
    /// The settings cannot work. Nothing was called.
    #[error("{0}")]
    Config(String),
    /// A model, a library, or one of its files is missing here.
    #[error("model `{model}` is not on this machine{absence}")]
    NotHere { model: String, absence: Absence },
    /// A pulled file is not the one that the catalogue names.
    #[error("{path} is not the file that the catalogue names")]
    NotPinned { path: String, model: String },
    /// A file has the wrong content.
    #[error("{path}: {cause}")]
    BadFile {
        path: String,
        #[source]
        cause: Cause,
    },
    /// The environment variable that must hold the model's key is not set.
    #[error("the environment variable `{variable}` is not set: it must hold the API key of {model}")]
    MissingKey { variable: String, model: String },
    /// No connection, or it broke.
    #[error("{endpoint} cannot be reached: {cause}; {}", way_to(endpoint, .cause.as_ref()))]
    Connection {
        endpoint: String,
        #[source]
        cause: Cause,
    },
    /// No answer in time.
    #[error("{model} did not answer within {after:?}; if it is only slow, raise its `timeout_seconds`")]
    Timeout { model: String, after: Duration },
    /// No answer in time, and the settings do not allow a second call.
    #[error(
        "{model} did not answer within {after:?}, and was not called again (`retry_timeouts = false`); if it is only \
         slow, raise its `timeout_seconds`"
    )]
    FinalTimeout { model: String, after: Duration },
    /// The endpoint sent a larger answer than allowed; `limit` is in bytes.
    #[error(
        "{model} sent an answer of more than {limit} bytes, of which nothing was kept; if answers may be so large, \
         raise its `max_response_bytes`"
    )]
    TooLarge { model: String, limit: usize },
    /// The endpoint redirects to another address. The redirect is not followed,
    /// because prompts are sent only to addresses that the user named.
    #[error(
        "{endpoint} redirects to {location} ({status}), which is not followed; if that address is right, {}",
        redirect_advice(endpoint)
    )]
    Redirected { endpoint: String, status: u16, location: String },
    /// Every call was refused for so long that waiting was given up; `message` is that of the last refusal.
    #[error(
        "{model}: nothing got through for {after:?}, every call was refused; the last refusal said: {message}; run \
         again later: what was answered is kept; raise `limits.refusal_timeout_seconds` to wait longer"
    )]
    Stalled { model: String, after: Duration, message: String },
    /// The authority that divides the budget among processes cannot be reached,
    /// so nothing may be spent; `after` is how long it was asked.
    #[error("the budget's authority did not answer for {after:?}: {reason}; run again: nothing is paid twice")]
    BudgetUnreachable { after: Duration, reason: String },
    /// A batch that was sent cannot be followed any further in this run. It may be billed, so its calls are not repeated.
    #[error(
        "{model}: a batch of calls was sent and cannot be followed now: {reason}; run again: the next run takes its \
         answers, and nothing is paid twice"
    )]
    BatchLost { model: String, reason: String },
    /// The key was refused.
    #[error("{endpoint} refused the key: {message}; check the variable that `api_key_env` names")]
    Authentication { endpoint: String, message: String },
    /// Too many requests for now.
    #[error("{endpoint} is rate limited: {message}; lower `concurrency`, or run again later")]
    RateLimited { endpoint: String, message: String, retry_after: Option<Duration> },
    /// The account has nothing left: waiting does not help.
    #[error(
        "{endpoint}: the quota is used up: {message}; add credit to the account or raise its limit, and run again: \
         nothing is paid twice"
    )]
    QuotaExhausted { endpoint: String, message: String },
    /// A cap of the budget was reached, so the call was not made; `spent` and `limit` are in the cap's unit. If it is a
    /// cap over all starts, `earlier` is the part of `spent` that other starts have spent.
    #[error("{}", budget_reached(*.cap, *.spent, *.limit, *.earlier))]
    BudgetExhausted { cap: Cap, spent: f64, limit: f64, earlier: Option<f64> },
    /// The server failed or is overloaded.
    #[error("{endpoint} answered {status}: {message}; that often passes: run again")]
    Server { endpoint: String, status: u16, message: String, retry_after: Option<Duration> },
    /// The request was refused, and the same request would be refused again.
    #[error("{endpoint} refused the request ({status}): {message}; check {}", request_settings(endpoint))]
    Refused { endpoint: String, status: u16, message: String },
    /// Prompt and answer, of `tokens` together, do not fit into the context.
    #[error(
        "{model}: {tokens} tokens do not fit its context of {limit}; lower `context_tokens`, `top_k` or `max_tokens`"
    )]
    ContextTooLong { model: String, tokens: usize, limit: usize },
    /// A text is longer than the embedding model reads, and its settings refuse
    /// such texts. `longer` of the `of` texts are too long; `text` is the beginning
    /// of the first of these, and `tokens` is the number of its tokens.
    #[error(
        "{model} reads {limit} tokens of a text, and {}: the first, “{text}”, has {}{tokens} tokens; make texts shorter \
         (`chunk_size`), take a model that reads more, or set `long_texts` of the model to {}",
        longer_texts(*.longer, *.of), if *.is_estimate { "about " } else { "" },
        if *.is_estimate { "`cut`" } else { "`cut`, or `windows` for a model of this process" }
    )]
    TextTooLong {
        model: String,
        text: String,
        tokens: usize,
        limit: usize,
        is_estimate: bool,
        longer: usize,
        of: usize,
    },
    /// The provider withheld the answer.
    #[error("{model} withheld its answer: {reason}; only another model or another text can change that")]
    ContentFiltered { model: String, reason: String },
    /// The model ended without a text, so that there is no answer. The same
    /// call would end so again. `reason` also says what helps.
    #[error("{model} wrote no text: {reason}")]
    NoText { model: String, reason: String },
    /// The answer does not follow the protocol.
    #[error("{model} sent an answer that cannot be read: {reason}{}", malformed_advice(model))]
    Malformed { model: String, reason: String },
    /// The answer is of another kind than the protocol's, such as a page of HTML. The same call would be answered so
    /// again.
    #[error("{model} sent an answer that cannot be read: {reason}")]
    NotJson { model: String, reason: String },
    /// The reply could be read, but does not match the request's JSON Schema,
    /// even after the model was asked once more; `reply` is the beginning of the last one. The reply is in the
    /// journal, so the same call would give the same reply again.
    #[error(
        "{model} did not write what its JSON Schema asks for: {reason}; its reply was: {reply}; if it was cut, raise \
         the limit of its tokens, else only another model or another text can change that"
    )]
    SchemaMismatch { model: String, reason: String, reply: String },
    /// The model has no such ability.
    #[error("{model} does not offer {what}")]
    Unsupported { model: String, what: &'static str },
    /// The in-process runtime failed.
    #[error("{model}: {cause}")]
    Runtime {
        model: String,
        #[source]
        cause: Cause,
    },
    /// The program's own function that stands for the model (see `remote/functions.rs`) failed.
    #[error("{0}")]
    Function(Box<FunctionError>),
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The journal could not keep an answer, or an answer could not be looked up in it, so
    /// no further call is made; see [`Error::ends_work`]. The text holds the whole chain of causes, because
    /// callers that share an answer get only the text.
    #[error("answers cannot be kept: {}", store::error_chain(&**.0))]
    Journal(#[source] Arc<store::Error>),
    /// An answer cannot be converted to or from the form that the journal
    /// keeps.
    #[error("an answer cannot be converted to or from its stored form: {0}")]
    KeptForm(String),
}

/// The failure of a function that a program gave in the place of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Deserialize, serde::Serialize)]
#[error("the function `{function}`{}: {message}", if .file.is_empty() { String::new() } else { format!(" of {file}") })]
pub struct FunctionError {
    /// Its name.
    pub function: String,
    /// The file that it is from; may be empty.
    #[serde(default)]
    pub file: String,
    /// What happened, with the line of the file.
    #[serde(default)]
    pub message: String,
    /// The language's own traceback, if the function raised an exception; none
    /// if it returned something that cannot be used.
    #[serde(default)]
    pub traceback: Option<String>,
    /// Whether another attempt may help.
    #[serde(default, rename = "passes")]
    pub is_transient: bool,
    /// How long to wait before the next attempt, if the function said so.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// The missing part of a model. Its text is the end of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the fields are")]
pub enum Absence {
    /// All of it: the model was not pulled.
    #[error("")]
    NotPulled,
    /// Its path leads nowhere.
    #[error(": there is no such file or folder")]
    NoSuchPath,
    /// One of its files.
    #[error(": {folder} holds no {what}")]
    Lacks { folder: String, what: String },
    /// All of it: no source of the model could be pulled; `reason` names each.
    #[error(": {reason}")]
    NotPullable { reason: String },
}

impl Absence {
    pub(crate) fn lacks(folder: &Path, what: &str) -> Self {
        Self::Lacks { folder: folder.display().to_string(), what: what.to_owned() }
    }
}

impl Error {
    /// Settings of this model that cannot work, for this reason.
    pub(crate) fn bad_settings(model: &str, reason: impl Display) -> Self {
        Self::Config(format!("{model}: {reason}"))
    }

    /// A file that is not what it should be, for this reason.
    pub(crate) fn bad_file(path: &Path, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::BadFile { path: path.display().to_string(), cause: Arc::from(cause.into()) }
    }

    /// The connection to this endpoint failed, for this reason.
    pub(crate) fn connection(endpoint: &str, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Connection { endpoint: endpoint.to_owned(), cause: Arc::from(cause.into()) }
    }

    /// The runtime of this model failed, for this reason.
    pub(crate) fn runtime(model: &str, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Runtime { model: model.to_owned(), cause: Arc::from(cause.into()) }
    }

    /// An answer of this model that does not follow the protocol, for this reason.
    pub(crate) fn malformed(model: &str, reason: impl Into<String>) -> Self {
        Self::Malformed { model: model.to_owned(), reason: reason.into() }
    }

    /// Whether the work as a whole must end, without a fallback for the answer:
    /// it was cancelled, or answers cannot be kept.
    pub fn ends_work(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Journal(_))
    }

    /// Whether the same call may work later.
    pub fn is_transient(&self) -> bool {
        if let Self::Function(failed) = self {
            return failed.is_transient;
        }
        matches!(
            self,
            Self::Connection { .. }
                | Self::Timeout { .. }
                | Self::RateLimited { .. }
                | Self::Server { .. }
                | Self::Malformed { .. }
                | Self::TooLarge { .. }
                | Self::Redirected { .. }
                | Self::Stalled { .. }
                | Self::BudgetUnreachable { .. }
        )
    }

    /// The wait that the other side asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            Self::Function(failed) => failed.retry_after,
            _ => None,
        }
    }
}

/// Says how many texts are too long, for an error message.
fn longer_texts(longer: usize, of: usize) -> String {
    match (longer, of) {
        (1, 1) => "1 text is longer".to_owned(),
        (1, of) => format!("1 of {of} texts is longer"),
        (longer, of) => format!("{longer} of {of} texts are longer"),
    }
}

/// What helps to reach an endpoint.
fn way_to(endpoint: &str, cause: &(dyn StdError + 'static)) -> String {
    match store::certificate_advice(&store::error_chain(cause)) {
        Some(advice) => advice.to_owned(),
        None => format!("check `{}`, and that the server runs", address_setting(endpoint)),
    }
}

/// The innermost cause. Of a network error, the outer causes only repeat the
/// address, which may hold a secret.
pub(crate) fn innermost<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause
}

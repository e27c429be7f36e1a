//! The errors of models, divided by what the caller can do about them.

mod report;

pub use report::ErrorReport;

use crate::{Cap, RateHeaders};
use std::{error::Error as StdError, fmt, path::Path, sync::Arc, time::Duration};

/// The cause of an error: the error of a library or of the system, or a
/// sentence.
pub type Cause = Arc<dyn StdError + Send + Sync>;

/// Why a model gave no answer. Never holds a secret.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings cannot work. Nothing was called.
    #[error("{0}")]
    Config(String),
    /// A model, a library, or one of its files is missing here.
    #[error("model `{model}` is not here{absence}")]
    NotHere {
        /// The model.
        model: String,
        /// What is missing.
        absence: Absence,
    },
    /// A pulled file is not the one that the catalogue names.
    #[error("{path}: is not the pinned file")]
    NotPinned {
        /// The file.
        path: String,
        /// The model that it is of.
        model: String,
    },
    /// A file has the wrong content.
    #[error("{path}: {cause}")]
    BadFile {
        /// The file.
        path: String,
        /// What is wrong.
        #[source]
        cause: Cause,
    },
    /// The named environment variable is not set.
    #[error("the environment variable `{variable}` is not set: it must hold the API key of {model}")]
    MissingKey {
        /// The variable's name.
        variable: String,
        /// The model that needs it.
        model: String,
    },
    /// No connection, or it broke.
    #[error("{endpoint} cannot be reached: {cause}; {}", way_to(.cause.as_ref()))]
    Connection {
        /// The endpoint.
        endpoint: String,
        /// What the system said.
        #[source]
        cause: Cause,
    },
    /// No answer in time.
    #[error("{model} did not answer within {after:?}; if it is only slow, raise its `timeout_seconds`")]
    Timeout {
        /// The model.
        model: String,
        /// The limit.
        after: Duration,
    },
    /// The endpoint sent a larger answer than allowed.
    #[error(
        "{model} sent an answer of more than {limit} bytes, of which nothing was kept; if answers may be so large, \
         raise its `max_response_bytes`"
    )]
    TooLarge {
        /// The model.
        model: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The endpoint redirects to another address. The redirect is not followed,
    /// because prompts are sent only to addresses that the user named.
    #[error(
        "{endpoint} redirects to {location} ({status}), which is not followed; if that is right, set `base_url` so"
    )]
    Redirected {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// Where it points.
        location: String,
    },
    /// Every call was refused for so long that waiting was given up.
    #[error(
        "{model}: nothing got through for {after:?}, every call was refused; the last refusal said: {message}; run \
         again later: what was answered is kept; `limits.refusal_timeout_seconds` is how long this is waited for"
    )]
    Stalled {
        /// The model.
        model: String,
        /// How long nothing got through.
        after: Duration,
        /// What the last refusal said.
        message: String,
    },
    /// The authority that divides the budget among processes cannot be reached,
    /// so nothing may be spent.
    #[error("the budget's authority did not answer for {after:?}: {reason}; run again: nothing is paid twice")]
    BudgetUnreachable {
        /// How long it was asked.
        after: Duration,
        /// What happened to the last request.
        reason: String,
    },
    /// The key was refused.
    #[error("{endpoint} refused the key: {message}; check the variable that `api_key_env` names")]
    Authentication {
        /// The endpoint.
        endpoint: String,
        /// What it said.
        message: String,
    },
    /// Too many requests for now.
    #[error("{endpoint} is rate limited: {message}; lower `concurrency`, or run again later")]
    RateLimited {
        /// The endpoint.
        endpoint: String,
        /// What it said.
        message: String,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
        /// What its headers said of its limits.
        hints: Box<RateHeaders>,
    },
    /// The account has nothing left: waiting does not help.
    #[error(
        "{endpoint}: the quota is used up: {message}; add credit to the account or raise its limit, and run again: \
         nothing is paid twice"
    )]
    QuotaExhausted {
        /// The endpoint.
        endpoint: String,
        /// What it said.
        message: String,
    },
    /// A cap of the budget was reached, so the call was not made.
    #[error(
        "the budget of {} was reached ({} spent); run again with a larger one to go on: nothing is paid twice",
        shown(.cap, .limit), shown(.cap, .spent)
    )]
    BudgetExhausted {
        /// The cap.
        cap: Cap,
        /// What was spent when the call was to be made, in the cap's unit.
        spent: f64,
        /// The limit, in the same unit.
        limit: f64,
    },
    /// The server failed or is overloaded.
    #[error("{endpoint} answered {status}: {message}; that often passes: run again")]
    Server {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
    },
    /// The request was refused, and the same request would be refused again.
    #[error("{endpoint} refused the request ({status}): {message}; check `model`, `base_url`, `omit` and `extra`")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// Prompt and answer do not fit into the context.
    #[error(
        "{model}: {tokens} tokens do not fit its context of {limit}; lower `context_tokens`, `top_k` or `max_tokens`"
    )]
    ContextTooLong {
        /// The model.
        model: String,
        /// What was asked for.
        tokens: usize,
        /// What fits.
        limit: usize,
    },
    /// The provider withheld the answer.
    #[error("{model} withheld its answer: {reason}; only another model or another text can change that")]
    ContentFiltered {
        /// The model.
        model: String,
        /// What it said.
        reason: String,
    },
    /// The model ended without a text, so that there is no answer. The same
    /// call would end so again.
    #[error("{model} wrote no text: {reason}")]
    NoText {
        /// The model.
        model: String,
        /// Why it ended, and what helps.
        reason: String,
    },
    /// The answer does not follow the protocol.
    #[error(
        "{model} sent an answer that cannot be read: {reason}; run again, and if it stays so, check what serves it"
    )]
    Malformed {
        /// The model.
        model: String,
        /// What is wrong.
        reason: String,
    },
    /// The reply could be read, but does not match the request's JSON Schema,
    /// even after the model was asked once more. The reply is in the journal,
    /// so the same call would give the same reply again.
    #[error(
        "{model} did not write what its JSON Schema asks for: {reason}; its reply was: {reply}; if it was cut, raise \
         the limit of its tokens, else only another model or another text can change that"
    )]
    SchemaMismatch {
        /// The model.
        model: String,
        /// What is wrong, and where.
        reason: String,
        /// The beginning of its last reply.
        reply: String,
    },
    /// The model has no such ability.
    #[error("{model} does not offer {what}")]
    Unsupported {
        /// The model.
        model: String,
        /// The ability.
        what: &'static str,
    },
    /// The in-process runtime failed.
    #[error("{model}: {cause}")]
    Runtime {
        /// The model.
        model: String,
        /// What it said.
        #[source]
        cause: Cause,
    },
    /// A function of the program's own that stands for the model failed.
    #[error("{0}")]
    Function(Box<FunctionError>),
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The journal could not keep an answer, or could not be asked for one, so
    /// no further call is made; see [`Error::ends_work`]. The text holds everything that is known, because callers that share an
    /// answer do not follow its chain of causes.
    #[error("answers cannot be kept: {}", in_words(.0))]
    Journal(#[source] Arc<store::Error>),
    /// An answer cannot be converted to or from the form that the journal
    /// keeps.
    #[error("the answer could not be kept: its kept form cannot be read: {0}")]
    KeptForm(String),
}

/// The failure of a function that a program gave in the place of a model.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
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
    #[serde(default)]
    pub passes: bool,
    /// When to come back, if it said so.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, file, message, .. } = self;
        match file.as_str() {
            "" => write!(f, "the function `{function}`: {message}"),
            file => write!(f, "the function `{function}` of {file}: {message}"),
        }
    }
}

/// The missing part of a model. Its text is the end of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// All of it: the model was not pulled.
    NotPulled,
    /// Its path leads nowhere.
    NoSuchPath,
    /// One of its files.
    Lacks {
        /// The folder.
        folder: String,
        /// What the folder does not hold.
        what: String,
    },
    /// All of it: the model could not be pulled.
    NotPullable {
        /// Each source, and why it failed.
        reason: String,
    },
}

impl Absence {
    pub(crate) fn lacks(folder: &Path, what: &str) -> Self {
        Self::Lacks { folder: folder.display().to_string(), what: what.to_owned() }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPulled => Ok(()),
            Self::NoSuchPath => f.write_str(": there is no such file or folder"),
            Self::Lacks { folder, what } => write!(f, ": {folder} holds no {what}"),
            Self::NotPullable { reason } => write!(f, ": {reason}"),
        }
    }
}

fn in_words(error: &Arc<store::Error>) -> String {
    store::error_chain(&**error)
}

impl Error {
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

    /// Whether this is the end of the work that asked, so that nothing takes
    /// the place of the answer: it was cancelled, or answers cannot be kept.
    pub fn ends_work(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Journal(_))
    }

    /// Whether the same call may work later.
    pub fn is_transient(&self) -> bool {
        if let Self::Function(failed) = self {
            return failed.passes;
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

/// What helps to reach an endpoint.
fn way_to(cause: &(dyn StdError + 'static)) -> &'static str {
    store::certificate_advice(&store::error_chain(cause)).unwrap_or("check `base_url`, and that the server runs")
}

fn shown(cap: &Cap, amount: &f64) -> String {
    cap.amount(*amount)
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

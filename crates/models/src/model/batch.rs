//! The interface of a provider for many calls at once: cheaper, and answered within hours.

use super::Error;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Sends the calls of a model in batches, which cost half as much and may take hours.
///
/// Calls are gathered until no other call came for `quiet_seconds`, then sent together. A batch survives the end of
/// the program: the next run takes its answers. Only runs use batches; `query`, `serve` and streamed answers do not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BatchSettings {
    /// The price of a call in a batch, as a share of its normal price: 0.5 unless set.
    pub price_share: f64,
    /// A batch is sent when no other call came for this long, in seconds.
    pub quiet_seconds: f64,
    /// The most calls of a batch: 50,000 unless set, which is the most that OpenAI takes.
    pub max_requests: usize,
    /// How often the provider is asked whether a batch is done, in seconds: so often at first, and then less often,
    /// down to once in a minute.
    pub poll_seconds: f64,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self { price_share: 0.5, quiet_seconds: 5.0, max_requests: 50_000, poll_seconds: 5.0 }
    }
}

impl BatchSettings {
    /// Checks that these numbers can be meant.
    pub(crate) fn check(&self, model: &str) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::bad_settings(model, what));
        if !(0.0..=1.0).contains(&self.price_share) {
            return refuse("`batch.price_share` is a share of the normal price: from 0 to 1, such as 0.5");
        }
        if !(0.01..=3600.0).contains(&self.quiet_seconds) {
            return refuse("`batch.quiet_seconds` must be from 0.01 to 3600");
        }
        if !(0.01..=3600.0).contains(&self.poll_seconds) {
            return refuse("`batch.poll_seconds` must be from 0.01 to 3600");
        }
        if !(1..=50_000).contains(&self.max_requests) {
            return refuse("`batch.max_requests` must be from 1 to 50000");
        }
        Ok(())
    }

    pub(crate) fn quiet(&self) -> Duration {
        Duration::from_secs_f64(self.quiet_seconds)
    }

    pub(crate) fn poll(&self) -> Duration {
        Duration::from_secs_f64(self.poll_seconds)
    }
}

/// How far a provider is with a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchState {
    /// It works on it, or has not begun.
    Running,
    /// It will answer nothing more.
    Ended {
        /// How the provider calls the end, such as `completed` or `expired`.
        status: String,
        /// The files that hold answers and errors.
        files: Vec<String>,
        /// Why it failed as a whole, if the provider says so.
        message: String,
    },
}

/// The outcome of one call of a batch.
#[derive(Debug)]
pub struct BatchLine {
    /// The name that the call was sent under.
    pub id: String,
    /// The body of the answer, or why there is none.
    pub outcome: Result<Value, Error>,
}

/// Sends batches to a provider.
#[async_trait]
pub trait BatchEndpoint: Send + Sync {
    /// The settings of the model.
    fn settings(&self) -> BatchSettings;
    /// A call as a line of the file that is sent.
    fn line(&self, id: &str, body: &Value) -> String;
    /// Uploads the lines of a batch; returns the file's id. The file alone costs nothing.
    async fn upload(&self, token: &str, lines: String) -> Result<String, Error>;
    /// Starts a batch that can be found by its token; returns its id. From here on it is billed.
    async fn create(&self, file: &str, token: &str) -> Result<String, Error>;
    /// The id of the batch with this token, if it was started.
    async fn find(&self, token: &str) -> Result<Option<String>, Error>;
    /// How far a batch is.
    async fn state(&self, batch: &str) -> Result<BatchState, Error>;
    /// The outcomes in a file, in any order. A line that cannot be read is left out.
    async fn outcomes(&self, file: &str) -> Result<Vec<BatchLine>, Error>;
    /// The error of a call that a batch did not answer.
    fn unanswered(&self, reason: &str) -> Error;
}

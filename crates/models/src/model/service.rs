//! Services: programs that answer JSON with JSON, such as another RAG system.

use super::{Error, Model, Usage};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A program that answers a request in JSON with a reply in JSON.
#[async_trait]
pub trait JsonService: Model {
    /// Sends one request and waits for its reply.
    ///
    /// # Errors
    /// No reply, or one that is not JSON or too large.
    async fn call(&self, request: &Value) -> Result<ServiceReply, Error>;

    /// What a reply cost, as far as it or the settings say.
    fn stated_usage(&self, reply: &ServiceReply) -> StatedUsage;

    /// What one call costs in dollars, if that is known before the call.
    fn price_of_call(&self) -> Option<f64> {
        None
    }
}

/// A reply of a service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceReply {
    /// The reply.
    pub body: Value,
    /// Headers that the settings ask for, by their names in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How long the reply took, in seconds, without waiting for a turn.
    pub seconds: f64,
}

/// What a call cost, as far as it is known: unknown is not 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StatedUsage {
    /// Tokens read and written.
    pub tokens: Option<Usage>,
    /// Dollars.
    pub cost_usd: Option<f64>,
}

//! The handle to a service that answers JSON with JSON.

use super::{
    amount::BudgetAmount,
    caller::{Caller, call_settings},
    reply::{CallAnswer, from_text, to_text},
};
use crate::{Error, Identity, JsonService, ServiceReply, StatedUsage};
use serde_json::Value;
use std::sync::Arc;

/// A handle to a service, such as a RAG system.
#[derive(Clone)]
pub struct ServiceHandle {
    pub(super) caller: Caller,
    pub(super) service: Arc<dyn JsonService>,
    /// Whether a reply is kept, and taken from the journal.
    pub(super) uses_journal: bool,
}

call_settings!(ServiceHandle);

impl ServiceHandle {
    /// The identity of the service, which decides its replies.
    pub fn identity(&self) -> &Identity {
        &self.caller.identity
    }

    /// How many calls the service takes at once, at most.
    pub fn concurrency(&self) -> usize {
        self.service.concurrency()
    }

    /// What a call cost, as far as its reply or the settings say; the same that the budget was charged with.
    pub fn stated_usage(&self, reply: &ServiceReply) -> StatedUsage {
        stated(self.service.as_ref(), reply)
    }

    /// This handle, with replies that are neither kept nor taken from the journal.
    #[must_use]
    pub fn without_journal(self) -> Self {
        Self { uses_journal: false, ..self }
    }

    /// Answers one request, unless an equal one was answered before.
    ///
    /// A budget is charged with the tokens and dollars that are known of the call; unknown ones count as none.
    ///
    /// # Errors
    /// Why there is no reply, after retries.
    pub async fn ask(&self, request: &Value) -> Result<ServiceReply, Error> {
        let key = self.caller.key(request);
        let usd = self.service.price_of_call().and_then(price).unwrap_or_default();
        let estimate = move || BudgetAmount::cost(usd, 0);
        let (service, request) = (self.service.clone(), Arc::new(request.clone()));
        let make = move || {
            let (service, request) = (service.clone(), request.clone());
            async move {
                let reply = service.call(&request).await?;
                let StatedUsage { tokens, cost_usd } = stated(service.as_ref(), &reply);
                let answer = CallAnswer {
                    response: to_text(&reply)?,
                    usage: tokens.unwrap_or_default(),
                    cost_usd: cost_usd.unwrap_or_default(),
                    seconds: reply.seconds,
                    parts: Vec::new(),
                };
                Ok((answer, reply))
            }
        };
        if !self.uses_journal {
            return self.caller.direct(estimate, make).await;
        }
        let make = move || {
            let made = make();
            async move { Ok(made.await?.0) }
        };
        from_text(&self.caller.answer(key, estimate, make, None, None).await?)
    }
}

/// What a reply cost; a cost that no call can have is unknown.
fn stated(service: &dyn JsonService, reply: &ServiceReply) -> StatedUsage {
    let usage = service.stated_usage(reply);
    StatedUsage { cost_usd: usage.cost_usd.and_then(price), ..usage }
}

/// A number of dollars, if it is one.
fn price(usd: f64) -> Option<f64> {
    Some(usd).filter(|usd| usd.is_finite() && *usd >= 0.0)
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;

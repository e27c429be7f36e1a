//! The traffic of each model: counters of the client, and the rates between two
//! looks at them.

use super::{WINDOW, rate};
use models::{Client, ModelLimit};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Instant,
};

/// The calls to one model. A model that is called with two keys has two limits,
/// so it counts as two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelTraffic {
    /// The kind of model, and its name.
    pub name: String,
    /// Calls in flight.
    pub in_flight: usize,
    /// How many may be in flight now, as declared or as learned.
    pub target: usize,
    /// Calls that wait for their turn.
    pub waiting: usize,
    /// Calls that were answered in this run.
    pub answered: u64,
    /// Answers per second, refusals not counted.
    pub goodput: f64,
    /// Tokens per second, read and written.
    pub tokens_per_second: f64,
    /// The share of attempts that were refused for lack of capacity, in [0, 1].
    pub refused_share: f64,
}

/// A client, and its counters at recent looks.
#[derive(Debug, Default)]
pub(super) struct TrafficCounts {
    client: Option<Client>,
    looks: VecDeque<(Instant, BTreeMap<String, Counts>)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    answered: u64,
    tokens: u64,
}

impl TrafficCounts {
    pub(super) fn of(client: Client) -> Self {
        Self { client: Some(client), looks: VecDeque::new() }
    }

    pub(super) fn look(&mut self, now: Instant) -> Vec<ModelTraffic> {
        let Some(client) = &self.client else { return Vec::new() };
        let limits = client.limits();
        let spent = client.meter().by_model();
        let counts = |limit: &ModelLimit| {
            let spending = spent.get(&limit.model).copied().unwrap_or_default();
            Counts { answered: limit.status.completed, tokens: spending.tokens() }
        };
        let counts: BTreeMap<String, Counts> =
            limits.iter().map(|(name, limit)| (name.clone(), counts(limit))).collect();
        self.looks.push_back((now, counts.clone()));
        // The first look that is kept is as old as the window, or the oldest there is.
        while self.looks.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.looks.pop_front();
        }
        let (since, before) = self.looks.front().cloned().unwrap_or_else(|| (now, counts.clone()));
        let seconds = now.duration_since(since).as_secs_f64();
        let called =
            limits.into_iter().filter(|(_, limit)| limit.status.attempts() + limit.status.in_flight as u64 > 0);
        called
            .map(|(name, ModelLimit { status, .. })| {
                let (then, now) = (before.get(&name).copied().unwrap_or_default(), counts[&name]);
                let since = |now: u64, then: u64| rate(now.saturating_sub(then) as usize, seconds);
                ModelTraffic {
                    in_flight: status.in_flight,
                    target: status.target,
                    waiting: status.waiting,
                    answered: now.answered,
                    goodput: since(now.answered, then.answered),
                    tokens_per_second: since(now.tokens, then.tokens),
                    refused_share: status.refused_share(),
                    name,
                }
            })
            .collect()
    }
}

/// Merges the rows of a model that several processes call.
pub(super) fn sum(rows: Vec<ModelTraffic>) -> Vec<ModelTraffic> {
    let mut sums: BTreeMap<String, ModelTraffic> = BTreeMap::new();
    for row in rows {
        let Some(sum) = sums.get_mut(&row.name) else {
            sums.insert(row.name.clone(), row);
            continue;
        };
        // Weighted by attempts, estimated from answers and refused shares.
        let attempts = |row: &ModelTraffic| row.answered as f64 / (1.0 - row.refused_share).max(0.01);
        let (before, more) = (attempts(sum), attempts(&row));
        if before + more > 0.0 {
            sum.refused_share = (sum.refused_share * before + row.refused_share * more) / (before + more);
        }
        sum.in_flight += row.in_flight;
        sum.target += row.target;
        sum.waiting += row.waiting;
        sum.answered += row.answered;
        sum.goodput += row.goodput;
        sum.tokens_per_second += row.tokens_per_second;
    }
    sums.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use models::{ChatModel, ChatRequest, ChatResponse, Error, Finish, Identity, Message, Model, Usage};
    use std::{sync::Arc, time::Duration};

    /// Answers each request with one token.
    struct OneToken(Identity);

    impl Model for OneToken {
        fn identity(&self) -> &Identity {
            &self.0
        }

        fn concurrency(&self) -> usize {
            2
        }
    }

    #[async_trait::async_trait]
    impl ChatModel for OneToken {
        fn context_length(&self) -> usize {
            100
        }
        fn count_tokens(&self, _text: &str) -> usize {
            1
        }
        async fn chat(&self, _request: &ChatRequest) -> Result<ChatResponse, Error> {
            let usage = Usage { prompt_tokens: 4, completion_tokens: 1, cached_tokens: 0, ..Usage::default() };
            Ok(ChatResponse { text: "yes".to_owned(), finish: Finish::Stop, usage, choices: Vec::new(), seconds: 0.0 })
        }
    }

    #[test]
    fn processes_that_call_one_model_are_one_row() {
        let row = |answered, refused_share| ModelTraffic {
            name: "chat gpt".to_owned(),
            in_flight: 2,
            target: 4,
            waiting: 1,
            answered,
            goodput: 1.5,
            tokens_per_second: 10.0,
            refused_share,
        };
        let rows = sum(vec![row(60, 0.4), ModelTraffic { name: "other".to_owned(), ..row(1, 0.0) }, row(100, 0.0)]);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].in_flight, rows[0].target, rows[0].answered), (4, 8, 160));
        assert!((rows[0].refused_share - 0.2).abs() < 1e-9, "40 of 200 attempts: {}", rows[0].refused_share);
    }

    #[tokio::test]
    async fn rates_are_those_between_two_looks() {
        let client = Client::new(None);
        let mut traffic = TrafficCounts::of(client.clone());
        let identity = Identity {
            provider: "test".to_owned(),
            model: "one-token".to_owned(),
            revision: String::new(),
            parameters: serde_json::Value::Null,
        };
        let chat = client.chat(Arc::new(OneToken(identity)));
        let start = Instant::now();
        assert!(traffic.look(start).is_empty(), "nothing was called yet");
        for i in 0..6 {
            chat.chat(&ChatRequest::new(vec![Message::user(i.to_string())], 5)).await.expect("an answer");
        }
        let seen = traffic.look(start + Duration::from_secs(2));
        let [model] = seen.as_slice() else { panic!("one model, not {seen:?}") };
        assert_eq!((model.answered, model.in_flight, model.waiting), (6, 0, 0));
        assert!((model.goodput - 3.0).abs() < 1e-9, "six answers in two seconds");
        assert!((model.tokens_per_second - 15.0).abs() < 1e-9, "five tokens each");
        assert!(model.refused_share.abs() < 1e-9);
        let later = traffic.look(start + Duration::from_secs(9));
        assert!(later[0].goodput.abs() < 1e-9, "nothing happened since");
    }
}

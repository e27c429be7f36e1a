//! A rerank model behind an HTTP endpoint. OpenAI's protocol has no
//! reranking; three shapes are in use: Jina's (also vLLM, LiteLLM), Cohere's,
//! and that of text-embeddings-inference.

use super::{
    Context, Described, EndpointLimits, Limits,
    http::{Endpoint, MAX_RESPONSE, Settings, estimated_tokens, told_tokens},
};
use crate::{Error, Identity, RerankModel, Usage};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

pub(super) const VERSION: u32 = 1;

/// Settings of a remote rerank model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The name by which the endpoint knows the model.
    pub model: String,
    /// The address up to and without `/rerank`.
    pub base_url: String,
    /// The shape of requests.
    pub shape: Shape,
    /// The name of the environment variable that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// More headers. A value `env:NAME` is read from that variable.
    pub headers: BTreeMap<String, String>,
    /// How long one answer may take, in seconds.
    pub timeout_seconds: f64,
    /// How long the connection may take, in seconds.
    pub connect_timeout_seconds: f64,
    /// The largest answer, in bytes; 16 MiB if not set.
    pub max_response_bytes: usize,
    /// How many calls may be in flight at once; up to 256 if left out, as many
    /// as the endpoint shows to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// What is known of its limits; the rest is learned.
    pub limits: EndpointLimits,
    /// US dollars per million tokens; needed where the budget caps money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

/// The shape of requests. Answers are understood in any of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// `documents`, without sending them back; also vLLM's.
    #[default]
    Jina,
    /// `documents`, version 2.
    Cohere,
    /// `texts`; the server holds one model.
    Tei,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: String::new(),
            base_url: String::new(),
            shape: Shape::default(),
            api_key_env: None,
            headers: BTreeMap::new(),
            timeout_seconds: 60.0,
            connect_timeout_seconds: 5.0,
            max_response_bytes: MAX_RESPONSE,
            concurrency: None,
            limits: EndpointLimits::default(),
            price: None,
        }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context) -> Result<Arc<dyn RerankModel>, Error> {
        self.limits.check(&self.model, self.concurrency)?;
        if self.price.is_some_and(|price| !price.is_finite() || price < 0.0) {
            return Err(Error::Config(format!("{}: `price` must not be below 0", self.model)));
        }
        Ok(Arc::new(Remote {
            identity: self.identity(cx)?,
            endpoint: self.settings().connect(cx)?,
            config: self.clone(),
        }))
    }

    pub(super) fn prices(&self) -> Option<(f64, f64)> {
        self.price.map(|price| (price, 0.0))
    }

    pub(super) async fn ready(&self, cx: &Context) -> Result<(), Error> {
        self.settings().ready(cx).await
    }

    fn settings(&self) -> Settings<'_> {
        Settings {
            model: &self.model,
            base_url: &self.base_url,
            api_key_env: self.api_key_env.as_deref(),
            headers: &self.headers,
            timeout_seconds: self.timeout_seconds,
            connect_timeout_seconds: self.connect_timeout_seconds,
            max_response_bytes: self.max_response_bytes,
            ..Settings::PLAIN
        }
    }
}

impl Described for Config {
    fn describe(&self, _cx: &Context) -> Result<Identity, Error> {
        Ok(Identity {
            provider: "openai".to_owned(),
            model: self.model.clone(),
            revision: self.settings().base()?,
            parameters: json!({ "kind": "rerank", "shape": self.shape }),
        })
    }
}

struct Remote {
    identity: Identity,
    endpoint: Endpoint,
    config: Config,
}

#[async_trait]
impl RerankModel for Remote {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        self.limits().maximum()
    }

    fn account(&self) -> &str {
        self.config.api_key_env.as_deref().unwrap_or_default()
    }

    fn limits(&self) -> Limits {
        self.config.limits.within(self.config.concurrency, self.config.timeout_seconds)
    }

    fn price(&self) -> f64 {
        self.config.price.unwrap_or_default()
    }

    fn rate_hints(&self) -> Option<executor::RateHints> {
        self.endpoint.hints()
    }

    async fn rerank(&self, query: &str, passages: &[String]) -> Result<(Vec<f32>, Usage), Error> {
        if passages.is_empty() {
            return Ok((Vec::new(), Usage::default()));
        }
        let model = &self.config.model;
        let body = match self.config.shape {
            Shape::Jina => json!({
                "model": model,
                "query": query,
                "documents": passages,
                "top_n": passages.len(),
                "return_documents": false,
            }),
            Shape::Cohere => json!({ "model": model, "query": query, "documents": passages, "top_n": passages.len() }),
            Shape::Tei => json!({ "query": query, "texts": passages, "truncate": true, "return_text": false }),
        };
        let answer = self.endpoint.post("rerank", &body).await?;
        let scores = self.scores(&answer, passages.len())?;
        let counted = ["/usage/total_tokens", "/meta/tokens/input_tokens"]
            .iter()
            .find_map(|pointer| told_tokens(&answer, pointer));
        let estimated = || {
            let query = estimated_tokens(query);
            passages.iter().map(|passage| (query + estimated_tokens(passage)) as u64).sum()
        };
        Ok((scores, Usage { prompt_tokens: counted.unwrap_or_else(estimated), ..Usage::default() }))
    }
}

impl Remote {
    /// The scores in the order of the passages: `[…]` or `{"results": […]}`
    /// of `{"index", "relevance_score" or "score"}`.
    fn scores(&self, answer: &Value, n_passages: usize) -> Result<Vec<f32>, Error> {
        let malformed = |reason: String| self.endpoint.malformed(reason);
        let results = ["results", "data"].iter().find_map(|name| answer.get(name)).unwrap_or(answer);
        let results = results.as_array().ok_or_else(|| malformed("there are no `results`".to_owned()))?;
        let mut scores = vec![None; n_passages];
        for (position, result) in results.iter().enumerate() {
            let score = ["relevance_score", "score"].iter().find_map(|name| result.get(name)?.as_f64());
            let index = result.get("index").and_then(Value::as_u64).map(|index| index as usize);
            let (Some(score), Some(place)) = (score, index.and_then(|index| scores.get_mut(index))) else {
                return Err(malformed(format!("result {position} has no score or no index of a passage")));
            };
            *place = Some(score as f32);
        }
        // A passage without a score would look irrelevant without being so.
        let n_scored = scores.iter().flatten().count();
        let all: Option<Vec<f32>> = scores.into_iter().collect();
        all.ok_or_else(|| malformed(format!("{n_scored} scores for {n_passages} passages")))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::http::tests::Bench, *};

    fn model(bench: &Bench, shape: Shape) -> Arc<dyn RerankModel> {
        let config = Config {
            model: "m".to_owned(),
            base_url: bench.base_url(),
            api_key_env: Some("KEY".to_owned()),
            shape,
            ..Config::default()
        };
        config.build(&bench.context()).expect("a model")
    }

    fn passages() -> Vec<String> {
        vec!["a".to_owned(), "b".to_owned()]
    }

    #[tokio::test]
    async fn each_shape_is_spoken() {
        let jina =
            json!({ "model": "m", "query": "q", "documents": ["a", "b"], "top_n": 2, "return_documents": false });
        let cohere = json!({ "model": "m", "query": "q", "documents": ["a", "b"], "top_n": 2 });
        let tei = json!({ "query": "q", "texts": ["a", "b"], "truncate": true, "return_text": false });
        let scored = json!([{ "index": 1, "relevance_score": 0.75 }, { "index": 0, "relevance_score": 0.25 }]);
        let cases = [
            (Shape::Jina, jina, json!({ "results": scored, "usage": { "total_tokens": 9 } }), 9),
            (Shape::Cohere, cohere, json!({ "results": scored, "meta": { "tokens": { "input_tokens": 8 } } }), 8),
            (Shape::Tei, tei, json!([{ "index": 1, "score": 0.75 }, { "index": 0, "score": 0.25 }]), 4),
        ];
        for (shape, expected, answer, n_tokens) in cases {
            let bench = Bench::new().await;
            bench.answer(200, answer).await;
            let (scores, usage) = model(&bench, shape).rerank("q", &passages()).await.expect("scores");
            assert_eq!((scores.as_slice(), usage.prompt_tokens), (&[0.25, 0.75][..], n_tokens));
            let (sent, headers) = bench.last_request().await;
            assert_eq!(sent, expected);
            assert_eq!(headers.get("authorization").and_then(|key| key.to_str().ok()), Some("Bearer sk-very-secret"));
        }
    }

    #[tokio::test]
    async fn a_passage_without_a_score_is_malformed_and_none_is_no_call() {
        let bench = Bench::new().await;
        bench.answer(200, json!({ "results": [{ "index": 0, "relevance_score": 0.5 }] })).await;
        let model = model(&bench, Shape::Jina);
        assert!(matches!(model.rerank("q", &passages()).await, Err(Error::Malformed { .. })));
        assert_eq!(model.rerank("q", &[]).await.map(|(scores, _)| scores.len()).ok(), Some(0));
        assert_eq!(bench.n_requests().await, 1);
        assert!(!format!("{:?}", model.identity()).contains("secret"));
    }
}

//! A rerank model behind an HTTP endpoint. OpenAI's protocol has no
//! reranking; three shapes are in use: Jina's (also vLLM, LiteLLM), Cohere's,
//! and that of text-embeddings-inference.

use super::{
    endpoint::{RemoteModel, check_prices, endpoint_settings},
    http::{Conventions, MAX_RESPONSE, token_count},
};
use crate::{
    EndpointAccess, Error, Identity, RerankModel, Usage,
    provider::{ModelContext, ModelSettings},
    tokens::{ModelTokenizer, RemoteTokenizer},
    trace,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const VERSION: u32 = 1;

endpoint_settings! {
    /// Settings of a remote rerank model.
    pub struct Config, conventions: Conventions::DEFAULT, by default {
        base_url: "", api_key_env: None, timeout_seconds: 60.0, max_response_bytes: MAX_RESPONSE
    };
    after base_url {
        /// The shape of requests.
        pub shape: RerankShape = RerankShape::default(),
    }
    after headers {}
    after limits {
        /// US dollars per million tokens; needed where the budget caps money.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub price: Option<f64> = None,
    }
}

/// The shape of requests. Answers are understood in any of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RerankShape {
    /// `documents`, which the answer does not repeat; also vLLM's.
    #[default]
    Jina,
    /// `documents`; version 2 of Cohere's API.
    Cohere,
    /// `texts`; the server holds one model.
    Tei,
}

impl ModelSettings for Config {
    type Model = dyn RerankModel;

    fn base_identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
        Ok(Identity {
            provider: "openai".to_owned(),
            model: self.model.clone(),
            revision: self.endpoint().base(cx)?,
            parameters: json!({ "kind": "rerank", "shape": self.shape }),
        })
    }

    fn build(&self, cx: &ModelContext) -> Result<Arc<Self::Model>, Error> {
        check_prices(&self.model, &[self.price])?;
        let tokenizer = RemoteTokenizer::of(&self.model);
        let rerank = RerankPart { shape: self.shape, price: self.price.unwrap_or_default(), tokenizer };
        Ok(Arc::new(RemoteModel::new(self.identity(cx)?, &self.endpoint(), cx, |_| Ok(rerank))?))
    }

    fn endpoint_access(&self) -> Option<EndpointAccess> {
        Some(self.endpoint().access())
    }

    async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        self.endpoint().ready(cx).await
    }

    fn tokenizer(&self, _: &ModelContext) -> Result<ModelTokenizer, Error> {
        Ok(ModelTokenizer::of_endpoint(&self.model))
    }

    fn prices(&self) -> Option<(f64, f64)> {
        self.price.map(|price| (price, 0.0))
    }
}

struct RerankPart {
    shape: RerankShape,
    /// Dollars per million tokens.
    price: f64,
    tokenizer: RemoteTokenizer,
}

#[async_trait]
impl RerankModel for RemoteModel<RerankPart> {
    fn estimate_tokens(&self, text: &str) -> usize {
        self.kind.tokenizer.count(text)
    }

    fn price(&self) -> f64 {
        self.kind.price
    }

    async fn rerank(&self, query: &str, passages: &[String]) -> Result<(Vec<f32>, Usage), Error> {
        if passages.is_empty() {
            return Ok((Vec::new(), Usage::default()));
        }
        let model = &self.endpoint.model;
        let body = match self.kind.shape {
            RerankShape::Jina => json!({
                "model": model,
                "query": query,
                "documents": passages,
                "top_n": passages.len(),
                "return_documents": false,
            }),
            RerankShape::Cohere => {
                json!({ "model": model, "query": query, "documents": passages, "top_n": passages.len() })
            }
            RerankShape::Tei => json!({ "query": query, "texts": passages, "truncate": true, "return_text": false }),
        };
        let answer = self.endpoint.post("rerank", &body).await?;
        trace::record_model(answer.get("model").and_then(Value::as_str));
        let scores = self.scores(&answer, passages.len())?;
        let counted = ["/usage/total_tokens", "/meta/tokens/input_tokens"]
            .iter()
            .find_map(|pointer| token_count(&answer, pointer));
        let estimated = || {
            let query = self.estimate_tokens(query);
            passages.iter().map(|passage| (query + self.estimate_tokens(passage)) as u64).sum()
        };
        Ok((scores, Usage { prompt_tokens: counted.unwrap_or_else(estimated), ..Usage::default() }))
    }
}

impl RemoteModel<RerankPart> {
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

    fn model(bench: &Bench, shape: RerankShape) -> Arc<dyn RerankModel> {
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
            (RerankShape::Jina, jina, json!({ "results": scored, "usage": { "total_tokens": 9 } }), 9),
            (RerankShape::Cohere, cohere, json!({ "results": scored, "meta": { "tokens": { "input_tokens": 8 } } }), 8),
            (RerankShape::Tei, tei, json!([{ "index": 1, "score": 0.75 }, { "index": 0, "score": 0.25 }]), 4),
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
        let model = model(&bench, RerankShape::Jina);
        assert!(matches!(model.rerank("q", &passages()).await, Err(Error::Malformed { .. })));
        assert_eq!(model.rerank("q", &[]).await.map(|(scores, _)| scores.len()).ok(), Some(0));
        assert_eq!(bench.n_requests().await, 1);
        assert!(!format!("{:?}", model.identity()).contains("secret"));
    }
}

//! `cross_encoder`: a model reads question and passage together and says how
//! well they match.
//!
//! The most accurate order for its cost where such a model is to be had: it
//! sees both texts at once, which vectors made apart cannot.
//! Source: Nogueira and Cho, Passage Re-ranking with BERT, 2019.

use super::{Corpus, PassageReranker, Query, by_score, check_top_n, keeps_top_n};
use crate::{Component, Context, Error, InputSize, ModelCalls, Passage, component::settings};
use async_trait::async_trait;
use models::ModelKind;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "reranker cross_encoder";

settings! {
    /// Settings of `cross_encoder`.
    pub struct Config {
        /// The name of the rerank model.
        pub model: String = String::new(),
        /// How many hits the retriever finds for it to choose from. Default: four
        /// times the retriever's `top_k`, at least 20.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub candidates: Option<usize> = None,
        /// The most passages to keep. Default 3.
        pub top_n: usize = 3,
    }
}

impl Component for Config {
    keeps_top_n!();

    fn reads_chunks(&self) -> bool {
        false
    }

    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        // Each passage is read together with the question.
        let prompt_tokens = item.passage_tokens + item.passages * item.text_tokens;
        vec![ModelCalls { model: &self.model, kind: ModelKind::Rerank, calls: 1, prompt_tokens, completion_tokens: 0 }]
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn PassageReranker>, Error> {
        check_top_n(NAME, self.top_n, self.candidates)?;
        let model = cx.reranker(NAME, &self.model)?;
        Ok(Box::new(CrossEncoderReranker { model, top_n: self.top_n }))
    }
}

struct CrossEncoderReranker {
    model: models::Reranker,
    top_n: usize,
}

#[async_trait]
impl PassageReranker for CrossEncoderReranker {
    async fn rerank(&self, query: Query<'_>, _: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        if passages.is_empty() {
            return Ok(passages);
        }
        let texts: Vec<String> = passages.iter().map(|passage| passage.text.clone()).collect();
        let scores = self.model.rerank(query.text, &texts).await?;
        Ok(by_score(passages, &scores, self.top_n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rerank::tests::{Fixture, texts};

    #[tokio::test]
    async fn the_models_scores_are_the_order() {
        let fixture = Fixture::new();
        let reranker = Config { top_n: 2, ..Config::default() }.build(&fixture.context()).unwrap();
        let passages = fixture.rerank(&*reranker).await.unwrap();
        assert_eq!(texts(&passages), ["running", "chased"], "the test's model likes the last ones");
        assert!(passages[0].score > passages[1].score);
    }

    #[test]
    fn a_missing_model_is_named() {
        let error = Config::default().build(&Context::default()).err().unwrap();
        assert_eq!(error.to_string(), "reranker cross_encoder needs a rerank model; name it in `model`");
    }
}

//! `python`: passages in the order that a function of the user's own says.
//!
//! When to use it: where something outside the texts decides, such as age,
//! source or a house rule, or to try a model that Reverie does not run. The
//! file's path is relative to the experiment file:
//!
//! ```toml
//! reranker = ["none", { python = { file = "rerankers.py", top_n = 3 } }]
//! ```
//!
//! ```python
//! def rerank(question, passages):
//!     return [sum(word in passage for word in question.split()) for passage in passages]
//! ```
//!
//! The function gets what its parameters name: `question`, `passages` (a list of texts,
//! best first), `documents` (their paths). It returns a score for each
//! passage, higher is better; equal scores keep their order. What it raises,
//! or a call that takes too long, ends the task.

use super::{Corpus, PassageReranker, Query, by_score, check_top_n, keeps_top_n};
use crate::{
    Component, Context, Error, Passage, function_settings,
    python::{StageFunction, runs_function},
};
use async_trait::async_trait;
use serde_json::{Value, json};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "reranker python";
const PARAMETERS: [&str; 3] = ["question", "passages", "documents"];

function_settings! {
    /// Settings of `python`.
    pub struct Config;
    /// The function. Default `rerank`.
    function = "rerank";
    // The place of these fields in the struct: behind `timeout_seconds` and the other fields that all functions have.
    after timeout_seconds {
        /// How many hits the retriever finds for it to choose from. Default: four
        /// times the retriever's `top_k`, at least 20.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub candidates: Option<usize> = None,
        /// The most passages to keep. Default 3.
        pub top_n: usize = 3,
    }
}

impl Component for Config {
    runs_function!();

    keeps_top_n!();

    fn reads_chunks(&self) -> bool {
        false
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageReranker>, Error> {
        check_top_n(NAME, self.top_n, self.candidates)?;
        let function = StageFunction::new(NAME, self.script(), &PARAMETERS)?;
        Ok(Box::new(PythonReranker { function, top_n: self.top_n }))
    }
}

struct PythonReranker {
    function: StageFunction,
    top_n: usize,
}

#[async_trait]
impl PassageReranker for PythonReranker {
    async fn rerank(&self, query: Query<'_>, _: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        if passages.is_empty() {
            return Ok(passages);
        }
        let arguments = self.function.arguments(|name| match name {
            "question" => json!(query.text),
            "passages" => passages.iter().map(|passage| passage.text.as_str()).collect(),
            _ => passages.iter().map(|passage| passage.document.as_str()).collect(),
        });
        let reply = self.function.call_async(arguments).await?;
        // A number too large for 32 bits could be written into results, but not read again.
        let score = |score: &Value| score.as_f64().map(|score| score as f32).filter(|score| score.is_finite());
        let scores: Option<Vec<f32>> = reply.as_array().and_then(|scores| scores.iter().map(score).collect());
        match scores {
            Some(scores) if scores.len() == passages.len() => Ok(by_score(passages, &scores, self.top_n)),
            _ => {
                let n = passages.len();
                let reason = format!("a list of {n} numbers is wanted, one for each passage, not {reply}");
                Err(self.function.unusable(reason, None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rerank::tests::{Fixture, texts};

    async fn reranked(source: &str) -> Result<Vec<Passage>, Error> {
        let fixture = Fixture::new();
        let config = Config { source: source.to_owned(), top_n: 2, ..Config::default() };
        fixture.rerank(&*config.build(&fixture.context()).unwrap()).await
    }

    #[tokio::test]
    async fn its_scores_are_the_order() {
        let passages = reranked("def rerank(passages, question):\n    return range(len(passages))\n").await.unwrap();
        assert_eq!(texts(&passages), ["running", "chased"], "the last ones");
    }

    #[tokio::test]
    async fn a_list_of_another_length_is_refused() {
        let error = reranked("def rerank(passages):\n    return [1.0]\n").await.unwrap_err().to_string();
        assert!(error.contains("reranker python") && error.contains("a list of 3 numbers"), "{error}");
        let error = reranked("def rerank(passages):\n    return [1, -1e300, 0]\n").await.unwrap_err().to_string();
        assert!(error.contains("a list of 3 numbers"), "{error}");
    }
}

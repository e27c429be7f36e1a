//! `self_route`: a chat model says whether the passages answer the question; only
//! where they do not, the whole document, or the whole corpus, takes their place.
//!
//! Most questions then cost what retrieval costs, and the hard ones get the long
//! context. It pays for corpora whose documents fit the window of a model that
//! reads them well, where some questions need much of a document. It does not pay
//! with a model of half a billion parameters, which says "answerable" of nearly
//! everything. It makes one short call for each question. The paper takes the
//! answer from the same call; here a generator answers afterwards, so a question
//! that the passages answer costs one call more. The result of a question shows
//! whether it got more text. A model that fails leaves the passages as they are.
//! Source: Li et al., Retrieval Augmented Generation or Long-Context LLMs?, 2024
//! (arXiv 2407.16741).

use super::long_context::{self, Scope};
use crate::{
    Component, Context, Error, InputSize, ModelCalls, Passage, PassageStep, PassagesWithRemarks,
    component::{object_schema, settings},
    corpus::{Corpus, Query},
    query::{
        Fallback,
        asker::{Asker, ask_settings},
    },
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "refine self_route";

const ROUTE: &str = "Say whether the sources alone hold everything that is needed to answer the question. Reply as \
                     {\"answerable\": true} or {\"answerable\": false}.";

settings! {
    /// Settings of `self_route`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// What is read where the passages do not answer: `document` (the default),
        /// that of the best hit, or `corpus`, all documents.
        pub scope: Scope = Scope::Document,
        /// The most tokens of what is read then, counted as `cl100k_base` does; at
        /// least 16. Default 100,000.
        pub tokens: usize = 100_000,
        /// 0 (the default) always takes the likeliest word.
        pub temperature: f32 = 0.0,
        /// Makes replies repeatable at a temperature above 0, if the model
        /// supports it. Default 0.
        pub seed: u64 = 0,
        /// The longest reply, in tokens; a longer one is not used. Default 16.
        pub max_tokens: u32 = 16,
    }
}

impl Config {
    ask_settings!();

    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        let reader = long_context::Config { scope: self.scope, tokens: self.tokens };
        reader.check(NAME)?;
        Ok(Box::new(SelfRoute { asker: self.ask_settings().asker(NAME, cx)?, reader }))
    }
}

impl Component for Config {
    fn estimate_output(&self, item: InputSize) -> InputSize {
        InputSize { passage_tokens: self.tokens as u64, ..item }
    }

    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.ask_settings().estimate_calls_about(item, 1, 1)
    }
}

struct SelfRoute {
    asker: Asker,
    reader: long_context::Config,
}

#[derive(Deserialize)]
struct Route {
    answerable: bool,
}

#[async_trait]
impl PassageStep for SelfRoute {
    async fn run_with_remarks(
        &self,
        query: Query<'_>,
        corpus: Corpus<'_>,
        passages: Vec<Passage>,
    ) -> Result<PassagesWithRemarks, Error> {
        let schema = object_schema([("answerable", json!({ "type": "boolean" }))]);
        match self.asker.ask_about(ROUTE, (&passages, query.text, ""), schema).await {
            Ok(Route { answerable: true }) => Ok(passages.into()),
            Ok(Route { answerable: false }) => {
                let passages = self.reader.run(query, corpus, passages).await?;
                let remark = "self_route: the passages do not answer the question, so more of the documents is read";
                Ok(PassagesWithRemarks { passages, remarks: vec![remark.to_owned()], failed: false })
            }
            Err(no_reply) => {
                let Fallback { reason, failed } = no_reply.fallback()?;
                let remarks = vec![format!("self_route left the passages as they were, because: {reason}")];
                Ok(PassagesWithRemarks { passages, remarks, failed })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refine::tests::again;

    #[tokio::test]
    async fn only_a_question_that_the_passages_do_not_answer_gets_the_document() {
        let config = || json!({ "self_route": { "model": "m" } });
        let made = again(config(), "fox", &[r#"{"answerable": true}"#]).await.unwrap();
        assert_eq!((made.refined.passages.len(), made.refined.remarks.len()), (2, 0));
        let made = again(config(), "fox", &[r#"{"answerable": false}"#]).await.unwrap();
        assert_eq!(made.refined.passages.len(), 1);
        assert!(made.refined.passages[0].text.contains("fox"), "{:?}", made.refined.passages);
        assert_eq!(made.refined.remarks.len(), 1);
        assert!(made.prompts[0].contains("<source id=\"2\"") && made.prompts[0].contains("<question>\nfox"));
    }

    #[tokio::test]
    async fn a_reply_that_cannot_be_used_leaves_the_passages() {
        let made = again(json!({ "self_route": { "model": "m" } }), "fox", &["perhaps"]).await.unwrap();
        assert_eq!((made.refined.passages.len(), made.refined.failed), (2, false));
        assert!(made.refined.remarks[0].contains("is not what it was asked for"), "{:?}", made.refined.remarks);
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let error = Config { tokens: 15, ..Config::default() }.build(&Context::default()).err().unwrap().to_string();
        assert!(error.contains("self_route") && error.contains("at least 16"), "{error}");
    }
}

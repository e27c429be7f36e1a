//! `hyde`: a chat model writes passages that would answer the question, and
//! the mean of their vectors and the question's is compared with the chunks.
//!
//! It pays with an embedder that was not trained on questions and their
//! passages, and for short questions, because a passage looks more like what
//! is to be found than a question does. It does not pay with an embedder that
//! was trained for search, where the model knows nothing of the field (its
//! passages then lead astray), or with `bm25` alone, which compares no
//! vectors: the words that are searched are the question's. It asks the model
//! `n` times for each question; `n = 1` is the cheap variant, and often
//! nearly as good. Passages that fail are reported, and the others used.
//! Source: Gao et al., Precise Zero-Shot Dense Retrieval without Relevance
//! Labels, 2022 (`n`, temperature and length are those of its code,
//! `texttron/hyde`).

use super::{
    Fallback, QueryWriter, SearchQuery, WrittenQueries,
    asker::{Asker, Conversation, NoReply, ask_settings},
};
use crate::{
    Component, Context, Error, InputSize, ModelCalls,
    component::{ensure, settings},
};
use async_trait::async_trait;
use models::Message;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "query hyde";

const INSTRUCTIONS: &str = "Write a passage that answers the question, as it could stand in a document, in at most \
                            120 words. If you are not sure of the answer, write the passage that is likeliest. Write \
                            nothing but the passage.";

settings! {
    /// Settings of `hyde`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// How many passages to write, each with a call. Default 8.
        pub n: usize = 8,
        /// How much passages differ; more than 0 if there are several. Default 0.7.
        pub temperature: f32 = 0.7,
        /// The seed of the first passage; each further one has the next. Makes
        /// passages repeatable where the model offers it. Default 0.
        pub seed: u64 = 0,
        /// The longest passage, in tokens; a longer one is not used. Default 512.
        pub max_tokens: u32 = 512,
    }
}

impl Config {
    ask_settings!();

    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn QueryWriter>, Error> {
        ensure(NAME, self.n > 0, "n must be at least 1")?;
        let reason = "with a temperature of 0 all passages are the same; raise it or set n to 1";
        ensure(NAME, self.n == 1 || self.temperature != 0.0, reason)?;
        Ok(Box::new(Hyde { asker: self.ask_settings().asker(NAME, cx)?, n: self.n }))
    }
}

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.ask_settings().estimate_calls(item, self.n as u64)
    }
}

struct Hyde {
    asker: Asker,
    n: usize,
}

#[async_trait]
impl QueryWriter for Hyde {
    async fn write(&self, question: &str, history: &[Message]) -> Result<WrittenQueries, Error> {
        let conversation = Conversation { question, history };
        let calls = (0..self.n as u64).map(|number| self.asker.ask_text(INSTRUCTIONS, conversation, number));
        let (mut passages, mut missing) = (Vec::new(), Vec::new());
        for reply in futures::future::join_all(calls).await {
            match reply {
                Ok(passage) => passages.push(passage),
                Err(no_reply) => missing.push(no_reply),
            }
        }
        // An error that ends the run is the worst, then one that a retry may fix; of equals the first.
        let severity = |no_reply: &&NoReply| match no_reply {
            NoReply::Failed(error) => 1 + u8::from(error.ends_work()),
            NoReply::Unusable(_) => 0,
        };
        let worst = missing.iter().rev().max_by_key(severity);
        let mut fallback = worst.map(NoReply::fallback).transpose()?;
        if let Some(Fallback { reason, .. }) = fallback.as_mut().filter(|_| !passages.is_empty()) {
            *reason = format!("{} of {} passages are missing: {reason}", missing.len(), self.n);
        }
        let queries = vec![SearchQuery { hypothetical_passages: passages, ..SearchQuery::from(question) }];
        Ok(WrittenQueries { queries, fallback })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::{ScriptedChat, reply};
    use models::ChatRequest;

    fn passages(written: &WrittenQueries) -> Vec<&str> {
        assert_eq!((written.queries.len(), written.queries[0].words.as_str()), (1, "Who?"));
        assert_eq!(written.queries[0].text, "Who?");
        written.queries[0].hypothetical_passages.iter().map(String::as_str).collect()
    }

    #[tokio::test]
    async fn each_passage_has_its_own_seed_and_the_question_stays() {
        let script =
            ScriptedChat::replying(4096, |_, request: &ChatRequest| Ok(reply(format!("Seed\n{}.", request.seed))));
        let config = Config { n: 3, seed: 7, ..Config::default() };
        let written = config.build(&script.context()).unwrap().write("Who?", &[]).await.unwrap();
        assert_eq!(passages(&written), ["Seed 7.", "Seed 8.", "Seed 9."]);
        assert_eq!(written.fallback, None);
        assert_eq!(script.requests()[0].temperature, 0.7);
    }

    #[tokio::test]
    async fn passages_that_came_are_used_and_missing_ones_are_told() {
        let script = ScriptedChat::replying(4096, |_, request: &ChatRequest| match request.seed {
            0 => Ok(reply("A passage.")),
            1 => Ok(reply("...")),
            _ => Err(models::Error::Config("down".to_owned())),
        });
        let writer = |n| Config { n, ..Config::default() }.build(&script.context()).unwrap();
        let written = writer(2).write("Who?", &[]).await.unwrap();
        assert_eq!(passages(&written), ["A passage."]);
        let reason = "1 of 2 passages are missing: the model wrote nothing that can be searched".to_owned();
        assert_eq!(written.fallback, Some(Fallback { reason, failed: false }));
        let written = writer(3).write("Who?", &[]).await.unwrap();
        assert_eq!(passages(&written), ["A passage."]);
        let reason = "2 of 3 passages are missing: down".to_owned();
        assert_eq!(written.fallback, Some(Fallback { reason, failed: true }), "another try may give more");
    }

    #[test]
    fn passages_that_would_be_the_same_are_refused() {
        let refused = |config: Config| config.build(&Context::default()).err().unwrap().to_string();
        assert!(refused(Config { temperature: 0.0, ..Config::default() }).contains("set n to 1"));
        assert!(refused(Config { n: 0, ..Config::default() }).contains("at least 1"));
        let one = refused(Config { n: 1, temperature: 0.0, ..Config::default() });
        assert_eq!(one, "query hyde needs a chat model; name it in `model`");
        assert_eq!(Config::default().estimate_calls(InputSize::default())[0].calls, 8);
    }
}

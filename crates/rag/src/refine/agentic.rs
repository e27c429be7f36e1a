//! `agentic`: a chat model looks at what was found and writes questions for what is
//! still missing; each is searched, and once more in other words where that does
//! not answer it.
//!
//! First the model says whether the passages are `enough`, whether `nothing` that
//! could be searched would help, or what `more` is needed: at most `tasks`
//! questions. These are searched side by side; for each the model says whether
//! what was found answers it, and writes one other query where it does not. At the
//! end the first passages and those of each question take turns, the best of each
//! first, as many as there were before unless `top_n` is set. A passage's score
//! is its place as a share: 1 for the first. The answer is then written by the
//! generator, as for any other step.
//!
//! It pays for questions that need facts from several places ("which of the two
//! mills is older?") and a capable model. It does not pay for questions of one
//! fact, or with a model of half a billion parameters. The bounds are fixed before
//! the first call: `1 + tasks` calls and `2 x tasks` searches for a question. What
//! was searched is shown with each question. A model that fails leaves what was
//! found until then.
//! Source: the agentic retrieval of NVIDIA's RAG blueprint; Press et al.,
//! Measuring and Narrowing the Compositionality Gap (self-ask), 2022 (arXiv
//! 2210.03350).

use crate::{
    Component, Context, Error, InputSize, ModelCalls, Passage, PassageStep, PassagesWithRemarks, Searcher,
    component::{ensure, limited_by, object_schema, settings},
    corpus::{Corpus, Query},
    query::{
        Fallback,
        asker::{Asker, EarlyEnd, NoReply, ask_settings, is_text, one_line},
    },
};
use async_trait::async_trait;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "refine agentic";
/// The most questions of a plan.
const MOST_TASKS: usize = 8;

const PLAN: &str = "Look at what a search found for the question. Reply \"enough\" if the sources hold all that is \
                    needed to answer it, \"nothing\" if no further search could help, or \"more\" with short questions, \
                    each for one fact that is still missing and each understandable alone. Do not answer anything. \
                    Reply as {\"verdict\": \"more\", \"questions\": [\"...\"]}.";
const CHECK: &str = "Say whether the sources answer the question. If they do not, write one other query for the \
                     search, in other words. Reply as {\"answered\": true, \"query\": \"\"} or \
                     {\"answered\": false, \"query\": \"...\"}.";

settings! {
    /// Settings of `agentic`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// How many questions the model may ask, 1 to 8. Default 3.
        pub tasks: usize = 3,
        /// The most passages to keep. Default: as many as were found before.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub top_n: Option<usize> = None,
        /// 0 (the default) always takes the likeliest word.
        pub temperature: f32 = 0.0,
        /// Makes replies repeatable at a temperature above 0, if the model
        /// supports it. Default 0.
        pub seed: u64 = 0,
        /// The longest reply, in tokens; a longer one is not used. Default 256.
        pub max_tokens: u32 = 256,
    }
}

impl Config {
    ask_settings!();

    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        let reason = format!("tasks is {}, but must be between 1 and {MOST_TASKS}", self.tasks);
        ensure(NAME, (1..=MOST_TASKS).contains(&self.tasks), reason)?;
        ensure(NAME, self.top_n != Some(0), "top_n must be at least 1")?;
        let asker = self.ask_settings().asker(NAME, cx)?;
        Ok(Box::new(Agentic { config: self.clone(), asker, searcher: Searcher::new(NAME, cx)? }))
    }
}

impl Component for Config {
    fn estimate_output(&self, item: InputSize) -> InputSize {
        self.top_n.map_or(item, |top_n| item.limit_passages(top_n))
    }

    limited_by!(top_n);

    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        let calls = 1 + self.tasks as u64;
        self.ask_settings().estimate_calls_about(item, calls, calls)
    }

    fn searches_again(&self) -> bool {
        true
    }
}

struct Agentic {
    config: Config,
    asker: Asker,
    searcher: Searcher,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Enough,
    Nothing,
    More,
}

#[derive(Deserialize)]
struct QuestionPlan {
    verdict: Verdict,
    questions: Vec<String>,
}

#[derive(Deserialize)]
struct AnswerCheck {
    answered: bool,
    query: String,
}

/// What was found for a question of the plan.
#[derive(Default)]
struct SubquestionResult {
    lists: Vec<Vec<Passage>>,
    /// The query in other words that was searched too.
    other_query: Option<String>,
    /// Why it ended early.
    ended: Option<Fallback>,
}

#[async_trait]
impl PassageStep for Agentic {
    async fn run_with_remarks(
        &self,
        query: Query<'_>,
        corpus: Corpus<'_>,
        passages: Vec<Passage>,
    ) -> Result<PassagesWithRemarks, Error> {
        let questions = match self.plan(query.text, &passages).await {
            Ok(questions) if questions.is_empty() => return Ok(passages.into()),
            Ok(questions) => questions,
            Err(no_reply) => {
                let Fallback { reason, failed } = no_reply.fallback()?;
                let remarks = vec![format!("agentic left the passages as they were, because: {reason}")];
                return Ok(PassagesWithRemarks { passages, remarks, failed });
            }
        };
        // All calls are waited for, because they may have been paid.
        let found = join_all(questions.iter().map(|question| self.search_question(question, query, corpus))).await;
        let most = self.config.top_n.unwrap_or(passages.len().max(1));
        let (mut refined, mut lists) = (PassagesWithRemarks::default(), vec![passages]);
        for (question, found) in questions.iter().zip(found) {
            let SubquestionResult { lists: more, other_query, ended } = found?;
            lists.extend(more);
            let then = other_query.map(|query| format!(", then for: {query}")).unwrap_or_default();
            refined.remarks.push(format!("agentic searched for: {question}{then}"));
            if let Some(Fallback { reason, failed }) = ended {
                refined.remarks.push(format!("agentic ended early for that, because: {reason}"));
                refined.failed |= failed;
            }
        }
        refined.passages = interleave(lists, most);
        Ok(refined)
    }
}

impl Agentic {
    /// The questions that are still to be searched; none if that would not help.
    async fn plan(&self, question: &str, passages: &[Passage]) -> Result<Vec<String>, NoReply> {
        let questions = json!({ "type": "array", "items": { "type": "string" }, "maxItems": self.config.tasks });
        let verdict = json!({ "enum": ["enough", "nothing", "more"] });
        let schema = object_schema([("verdict", verdict), ("questions", questions)]);
        let QuestionPlan { verdict, questions } = self.asker.ask_about(PLAN, (passages, question, ""), schema).await?;
        if verdict != Verdict::More {
            return Ok(Vec::new());
        }
        let mut asked: Vec<String> = Vec::new();
        for text in questions.iter().map(|text| one_line(text)) {
            let is_new = !asked.contains(&text) && !text.eq_ignore_ascii_case(question.trim());
            if is_new && is_text(&text) {
                asked.push(text);
            }
        }
        asked.truncate(self.config.tasks);
        match asked.is_empty() {
            true => Err(NoReply::Unusable("the model asked for more, but wrote no new question".to_owned())),
            false => Ok(asked),
        }
    }

    /// Searches for one question of the plan.
    async fn search_question(
        &self,
        question: &str,
        query: Query<'_>,
        corpus: Corpus<'_>,
    ) -> Result<SubquestionResult, Error> {
        let mut found = SubquestionResult::default();
        if let Err(end) = self.search(question, query, corpus, &mut found).await {
            found.ended = Some(end.fallback()?);
        }
        Ok(found)
    }

    /// Searches for a question, and once more if that does not answer it.
    async fn search(
        &self,
        question: &str,
        query: Query<'_>,
        corpus: Corpus<'_>,
        found: &mut SubquestionResult,
    ) -> Result<(), EarlyEnd> {
        let first = self.searcher.search(question, corpus, query.filter).await?;
        let types = [("answered", json!({ "type": "boolean" })), ("query", json!({ "type": "string" }))];
        let check = self.asker.ask_about(CHECK, (&first, question, ""), object_schema(types)).await;
        found.lists.push(first);
        let AnswerCheck { answered, query: next } = check?;
        if answered {
            return Ok(());
        }
        let next = one_line(&next);
        if !is_text(&next) || next.eq_ignore_ascii_case(question) {
            return Err(NoReply::Unusable("the model wrote no other query".to_owned()).into());
        }
        let second = self.searcher.search(&next, corpus, query.filter).await;
        found.other_query = Some(next);
        found.lists.push(second?);
        Ok(())
    }
}

/// Takes passages from the lists in turn, each text once, at most `most`.
fn interleave(lists: Vec<Vec<Passage>>, most: usize) -> Vec<Passage> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
    let mut joined: Vec<Passage> = Vec::new();
    for place in 0..longest {
        for passage in lists.iter().filter_map(|list| list.get(place)) {
            if !joined.iter().any(|known| known.is_same_text(passage)) {
                joined.push(passage.clone());
            }
        }
    }
    joined.truncate(most);
    let n = joined.len() as f32;
    (0u16..).zip(&mut joined).for_each(|(place, passage)| passage.score = (n - f32::from(place)) / n);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refine::tests::again;

    fn config() -> serde_json::Value {
        json!({ "agentic": { "model": "m", "tasks": 2, "top_n": 4 } })
    }

    fn texts(refined: &PassagesWithRemarks) -> Vec<&str> {
        refined.passages.iter().map(|passage| passage.text.as_str()).collect()
    }

    #[tokio::test]
    async fn what_is_enough_or_cannot_be_helped_stays_as_it_is() {
        for verdict in ["enough", "nothing"] {
            let reply = format!(r#"{{"verdict": "{verdict}", "questions": ["Which fox?"]}}"#);
            let made = again(config(), "fox", &[&reply]).await.unwrap();
            assert_eq!(texts(&made.refined), made.given, "{verdict}");
            assert_eq!((made.prompts.len(), made.refined.remarks.len()), (1, 0), "{verdict}");
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_searched_and_takes_turns_with_what_was_found() {
        let replies =
            [r#"{"verdict": "more", "questions": ["Is it quick?", "fox"]}"#, r#"{"answered": true, "query": ""}"#];
        let made = again(config(), "fox", &replies).await.unwrap();
        assert_eq!(texts(&made.refined)[..3], [made.given[0].as_str(), "a quick brown fox", made.given[1].as_str()]);
        assert_eq!(made.refined.passages[0].score, 1.0);
        assert!(made.refined.remarks.contains(&"agentic searched for: Is it quick?".to_owned()));
    }

    #[tokio::test]
    async fn a_question_that_is_not_answered_is_searched_once_more_in_other_words() {
        let replies =
            [r#"{"verdict": "more", "questions": ["Which animal?"]}"#, r#"{"answered": false, "query": "brown fox"}"#];
        let made = again(config(), "fur", &replies).await.unwrap();
        assert_eq!(made.refined.remarks, ["agentic searched for: Which animal?, then for: brown fox"]);
        assert!(texts(&made.refined).contains(&"a quick brown fox"));
        assert_eq!(made.prompts.len(), 2, "there is no third call");
    }

    #[tokio::test]
    async fn no_more_passages_are_kept_than_there_were() {
        let replies = [r#"{"verdict": "more", "questions": ["brown fox"]}"#, r#"{"answered": true, "query": ""}"#];
        let config = json!({ "agentic": { "model": "m" } });
        let made = again(config, "fur", &replies).await.unwrap();
        assert_eq!(texts(&made.refined), [made.given[0].as_str(), "a quick brown fox"]);
    }

    #[tokio::test]
    async fn replies_that_cannot_be_used_and_failures_leave_what_was_found() {
        for replies in [&["no"][..], &[r#"{"verdict": "more", "questions": ["?"]}"#]] {
            let made = again(config(), "fox", replies).await.unwrap();
            assert_eq!(texts(&made.refined), made.given);
            assert!(!made.refined.failed && made.refined.remarks[0].contains("because: "));
        }
        let made = again(config(), "fox", &[]).await.unwrap();
        assert!(made.refined.failed && texts(&made.refined) == made.given);
        let begun = again(config(), "fur", &[r#"{"verdict": "more", "questions": ["brown fox"]}"#]).await.unwrap();
        assert!(begun.refined.failed && texts(&begun.refined).contains(&"a quick brown fox"));
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        for wrong in [json!({ "tasks": 0 }), json!({ "tasks": 9 }), json!({ "top_n": 0 })] {
            let config: Config = serde_json::from_value(wrong.clone()).unwrap();
            assert!(matches!(config.build(&Context::default()), Err(Error::Config { .. })), "{wrong}");
        }
    }
}

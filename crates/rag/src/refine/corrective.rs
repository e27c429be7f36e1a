//! `corrective`: a chat model grades what was found; where it is not enough, the
//! model writes another query and the trial's retriever searches again.
//!
//! Every passage gets a grade: 2 if it holds the answer or a part of it, 1 if it
//! is about the same matter, 0 if not. Where no passage reaches `enough`, the
//! model writes a query with other words, and what that finds is graded too, in
//! at most `rounds` rounds. The best grades come first, of equals what was found
//! first, as many as there were before; a passage below `least` goes, but one
//! stays. A passage's score is its grade.
//!
//! It pays with a capable model and questions that are worded unlike the
//! documents, where one search often misses. It does not pay with a model of half
//! a billion parameters, whose grades are close to chance, or where retrieval
//! nearly always finds the answer: then every question pays a call for nothing.
//! It makes one call for each question, and two more and a search for each round.
//! What was searched for is shown with each question. A model that fails, or
//! grades in a form that cannot be read, leaves what was found until then.
//! Source: Yan et al., Corrective Retrieval Augmented Generation, 2024 (arXiv
//! 2401.15884), and the reflection on context in NVIDIA's RAG blueprint.

use crate::{
    Component, Context, Error, InputSize, ModelCalls, Passage, PassageStep, PassagesWithRemarks, Searcher,
    component::{ensure, object_schema, settings},
    corpus::{Corpus, Query},
    fence,
    query::{
        Fallback,
        asker::{Asker, EarlyEnd, NoReply, ask_settings, is_text, one_line},
    },
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "refine corrective";

const GRADE: &str = "Grade each source by how much it helps to answer the question: 2 if it holds the answer or a part \
                     of it, 1 if it is about the same matter but without the answer, 0 if it is about something else. \
                     Reply with one grade for each source, in their order, as {\"grades\": [0, 2, 1]}.";
const REWRITE: &str = "A search in a collection of documents did not find the answer to the question. Write one other \
                       query for the search: other words for the same thing, a name, or a wider or narrower subject. \
                       Do not repeat a query that was tried, and do not answer the question. Reply as \
                       {\"query\": \"...\"}.";

settings! {
    /// Settings of `corrective`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// How often it searches again, at most; 1 to 3. Default 3.
        pub rounds: usize = 3,
        /// The grade that the best passage must have for the search to end; 1 or 2. Default 2.
        pub enough: u8 = 2,
        /// The least grade of a passage that stays, 0 to 2. Default 1.
        pub least: u8 = 1,
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
        ensure(NAME, (1..=3).contains(&self.rounds), "rounds must be 1, 2 or 3")?;
        let are_grades = (1..=2).contains(&self.enough) && self.least <= 2;
        ensure(NAME, are_grades, "grades are 0, 1 and 2: enough must be 1 or 2, and least at most 2")?;
        let asker = self.ask_settings().asker(NAME, cx)?;
        Ok(Box::new(Corrective { config: self.clone(), asker, searcher: Searcher::new(NAME, cx)? }))
    }
}

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        let rounds = self.rounds as u64;
        self.ask_settings().estimate_calls_about(item, 1 + 2 * rounds, 1 + rounds)
    }

    fn searches_again(&self) -> bool {
        true
    }
}

struct Corrective {
    config: Config,
    asker: Asker,
    searcher: Searcher,
}

/// The graded passages and the tried queries so far.
#[derive(Default)]
struct GradingState {
    passages: Vec<(u8, Passage)>,
    /// The queries that were searched beside the question.
    tried: Vec<String>,
}

#[derive(Deserialize)]
struct Grades {
    grades: Vec<u8>,
}

#[derive(Deserialize)]
struct QueryReply {
    query: String,
}

#[async_trait]
impl PassageStep for Corrective {
    async fn run_with_remarks(
        &self,
        query: Query<'_>,
        corpus: Corpus<'_>,
        passages: Vec<Passage>,
    ) -> Result<PassagesWithRemarks, Error> {
        let most = if passages.is_empty() { usize::MAX } else { passages.len() };
        let (mut graded, mut refined) = (GradingState::default(), PassagesWithRemarks::default());
        let ended = self.run_rounds(query, corpus, passages.clone(), &mut graded).await;
        if !graded.tried.is_empty() {
            refined.remarks.push(format!("corrective searched again for: {}", graded.tried.join("; ")));
        }
        if let Err(end) = ended {
            let Fallback { reason, failed } = end.fallback()?;
            refined.remarks.push(format!("corrective ended early, because: {reason}"));
            refined.failed = failed;
            if graded.passages.is_empty() {
                refined.passages = passages;
                return Ok(refined);
            }
        }
        let mut kept = graded.passages;
        kept.sort_by_key(|(grade, _)| std::cmp::Reverse(*grade));
        let good = kept.iter().take_while(|(grade, _)| *grade >= self.config.least).count();
        kept.truncate(good.max(1).min(most));
        let scored = |(grade, passage)| Passage { score: f32::from(grade), ..passage };
        refined.passages = kept.into_iter().map(scored).collect();
        Ok(refined)
    }
}

impl Corrective {
    async fn run_rounds(
        &self,
        query: Query<'_>,
        corpus: Corpus<'_>,
        mut found: Vec<Passage>,
        graded: &mut GradingState,
    ) -> Result<(), EarlyEnd> {
        for round in 0..=self.config.rounds {
            if !found.is_empty() {
                let grades = self.grades(query.text, &found).await?;
                graded.passages.extend(grades.into_iter().zip(found));
            }
            let is_enough = graded.passages.iter().any(|(grade, _)| *grade >= self.config.enough);
            if is_enough || round == self.config.rounds {
                break;
            }
            let next = self.rewrite_query(query.text, &graded.tried).await?;
            let search = self.searcher.search(&next, corpus, query.filter).await;
            graded.tried.push(next);
            let known = |passage: &Passage| graded.passages.iter().any(|(_, known)| known.is_same_text(passage));
            found = search?.into_iter().filter(|passage| !known(passage)).collect();
        }
        Ok(())
    }

    async fn grades(&self, question: &str, passages: &[Passage]) -> Result<Vec<u8>, NoReply> {
        let n = passages.len();
        let grade = json!({ "type": "integer", "enum": [0, 1, 2] });
        let grades = json!({ "type": "array", "items": grade, "minItems": n, "maxItems": n });
        let schema = object_schema([("grades", grades)]);
        let Grades { grades } = self.asker.ask_about(GRADE, (passages, question, ""), schema).await?;
        if grades.len() != n || grades.iter().any(|&grade| grade > 2) {
            return Err(NoReply::Unusable(format!("the model gave {} grades for {n} passages", grades.len())));
        }
        Ok(grades)
    }

    /// A query that was not tried yet.
    async fn rewrite_query(&self, question: &str, tried: &[String]) -> Result<String, NoReply> {
        let schema = object_schema([("query", json!({ "type": "string" }))]);
        let earlier: String = tried.iter().map(|query| format!("Tried: {}\n", fence::neutral(query))).collect();
        let QueryReply { query } = self.asker.ask_about(REWRITE, (&[], question, &earlier), schema).await?;
        let query = one_line(&query);
        if !is_text(&query) {
            return Err(NoReply::Unusable("the model wrote no query that can be searched".to_owned()));
        }
        let same = |other: &str| other.trim().eq_ignore_ascii_case(&query);
        if same(question) || tried.iter().any(|other| same(other)) {
            return Err(NoReply::Unusable("the model only repeated a query that was tried".to_owned()));
        }
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refine::tests::again;

    fn config() -> serde_json::Value {
        json!({ "corrective": { "model": "m", "rounds": 2 } })
    }

    #[tokio::test]
    async fn a_good_passage_ends_the_search_and_what_is_graded_low_goes() {
        let made = again(config(), "fox", &[r#"{"grades": [0, 2]}"#]).await.unwrap();
        assert_eq!(made.refined.passages.len(), 1);
        assert_eq!(
            (made.refined.passages[0].text.as_str(), made.refined.passages[0].score),
            (made.given[1].as_str(), 2.0)
        );
        assert_eq!((made.prompts.len(), made.refined.remarks.len(), made.refined.failed), (1, 0, false));
    }

    #[tokio::test]
    async fn where_nothing_is_good_another_query_is_searched_and_told() {
        let all = [r#"{"grades": [0, 0]}"#, r#"{"query": "quick foxes"}"#, r#"{"grades": [2]}"#];
        let made = again(config(), "fox", &all).await.unwrap();
        assert_eq!(made.refined.remarks, ["corrective searched again for: quick foxes"]);
        let found: Vec<(&str, f32)> =
            made.refined.passages.iter().map(|passage| (passage.text.as_str(), passage.score)).collect();
        assert_eq!(found, [("a quick brown fox", 2.0)]);
    }

    #[tokio::test]
    async fn the_last_round_ends_it_and_one_passage_always_stays() {
        let all = [
            r#"{"grades": [0, 0]}"#,
            r#"{"query": "running"}"#,
            r#"{"grades": [0]}"#,
            r#"{"query": "brown"}"#,
            r#"{"grades": [0]}"#,
        ];
        let made = again(config(), "fox", &all).await.unwrap();
        assert_eq!(made.refined.passages.len(), 1);
        assert_eq!(made.refined.remarks, ["corrective searched again for: running; brown"]);
    }

    #[tokio::test]
    async fn a_reply_that_cannot_be_used_leaves_what_was_found() {
        for reply in ["no", r#"{"grades": [2]}"#] {
            let made = again(config(), "fox", &[reply]).await.unwrap();
            let texts: Vec<&str> = made.refined.passages.iter().map(|passage| passage.text.as_str()).collect();
            assert_eq!(texts, made.given, "{reply}");
            assert!(made.refined.remarks[0].starts_with("corrective ended early, because: "), "{reply}");
            assert!(!made.refined.failed);
        }
        let repeated = [r#"{"grades": [1, 0]}"#, r#"{"query": "Fox"}"#];
        let made = again(config(), "fox", &repeated).await.unwrap();
        assert_eq!((made.refined.passages.len(), made.refined.passages[0].score), (1, 1.0));
        assert!(made.refined.remarks[0].contains("repeated a query"));
    }

    #[tokio::test]
    async fn a_model_that_fails_leaves_what_was_found_and_the_next_run_tries_again() {
        let made = again(config(), "fox", &[]).await.unwrap();
        assert_eq!((made.refined.passages.len(), made.refined.failed), (made.given.len(), true));
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        for wrong in [json!({ "rounds": 0 }), json!({ "rounds": 4 }), json!({ "enough": 0 }), json!({ "least": 3 })] {
            let config: Config = serde_json::from_value(wrong.clone()).unwrap();
            assert!(matches!(config.build(&Context::default()), Err(Error::Config { .. })), "{wrong}");
        }
    }
}

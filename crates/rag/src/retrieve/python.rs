//! `python`: chunks that a function of the user's own finds.
//!
//! When to use it: to try a way of searching that Reverie has not, on a corpus
//! that fits into memory several times: every call gives the function all
//! searchable chunks. An experiment makes one call for all its questions; a
//! pipeline that is asked makes one for each question. The file's path is
//! relative to the experiment file:
//!
//! ```toml
//! retriever = ["hybrid", { python = { file = "retrievers.py", top_k = 5 } }]
//! ```
//!
//! ```python
//! def retrieve(questions, chunks):
//!     def shared(question, chunk):
//!         return len(set(question.split()) & set(chunk.split()))
//!     return [[(i, shared(q, chunk)) for i, chunk in enumerate(chunks)] for q in questions]
//! ```
//!
//! The function gets what its parameters name: `questions`, `chunks` (a list of texts),
//! `documents` (their paths). It returns a list for each question: numbers of
//! chunks, from 0, best first; or pairs of number and score, of which the
//! `top_k` highest are kept. A chunk that it does not name is not found. What it raises,
//! or a call that takes too long, ends the task.

use super::{Retriever, check_top_k, finds_top_k, sort};
use crate::{
    Component, Context, Error, Hit,
    corpus::{Corpus, Query},
    function_settings,
    python::{StageFunction, runs_function},
};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever python";
const PARAMETERS: [&str; 3] = ["questions", "chunks", "documents"];

function_settings! {
    /// Settings of `python`.
    pub struct Config;
    /// The function. Default `retrieve`.
    function = "retrieve";
    // The place of these fields in the struct: behind `timeout_seconds` and the other fields that all functions have.
    after timeout_seconds {
        /// The most chunks to return. Default 5.
        pub top_k: usize = 5,
    }
}

impl Component for Config {
    runs_function!();

    finds_top_k!();
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        check_top_k(NAME, self.top_k)?;
        let function = StageFunction::new(NAME, self.script(), &PARAMETERS)?;
        Ok(Box::new(PythonRetriever { function, top_k: self.top_k }))
    }
}

struct PythonRetriever {
    function: StageFunction,
    top_k: usize,
}

#[async_trait]
impl Retriever for PythonRetriever {
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let table = corpus.table;
        let chunks = || table.searchable().iter().map(|&row| table.chunk(row));
        let arguments = self.function.arguments(|name| match name {
            "questions" => queries.iter().map(|query| query.text).collect(),
            "chunks" => chunks().map(|chunk| chunk.text.as_str()).collect(),
            _ => chunks().map(|chunk| json!(chunk.document)).collect(),
        });
        let reply = self.function.call(&arguments, None)?;
        let unusable = |error| self.function.unusable(error, None);
        let lists = reply.as_array().filter(|lists| lists.len() == queries.len());
        let lists = lists.ok_or_else(|| unusable(HitsError::Lists { questions: queries.len() }))?;
        lists.iter().map(|list| hits(list, table.searchable(), self.top_k).map_err(unusable)).collect()
    }
}

/// Why what the function returned names no hits.
#[derive(Debug, thiserror::Error)]
enum HitsError {
    #[error("a list for each of the {questions} questions is wanted, in their order")]
    Lists { questions: usize },
    #[error("{value} is neither the number of a chunk, from 0 to {last}, nor [number, score]")]
    Hit { value: Value, last: i64 },
    #[error("chunk {number} is named twice for one question")]
    Twice { number: usize },
}

/// The hits that a list names.
fn hits(list: &Value, rows: &[u32], top_k: usize) -> Result<Vec<Hit>, HitsError> {
    let wrong = |value: &Value| HitsError::Hit { value: value.clone(), last: rows.len() as i64 - 1 };
    let list = list.as_array().ok_or_else(|| wrong(list))?;
    let row = |number: &Value| number.as_u64().and_then(|number| rows.get(usize::try_from(number).ok()?)).copied();
    let mut hits = Vec::with_capacity(list.len());
    for (rank, named) in (1u32..).zip(list) {
        let hit = match named.as_array().map(Vec::as_slice) {
            // Without scores the order counts.
            None => row(named).map(|row| Hit { row, score: 1.0 / rank as f32 }),
            Some([number, score]) => {
                row(number).zip(score.as_f64()).map(|(row, score)| Hit { row, score: score as f32 })
            }
            Some(_) => None,
        };
        hits.push(hit.filter(|hit| hit.score.is_finite()).ok_or_else(|| wrong(named))?);
    }
    let mut seen = HashSet::new();
    if let Some(hit) = hits.iter().find(|hit| !seen.insert(hit.row)) {
        let number = rows.iter().position(|row| *row == hit.row).unwrap_or_default();
        return Err(HitsError::Twice { number });
    }
    sort(&mut hits);
    hits.truncate(top_k);
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieve::tests::{Fixture, rows};

    fn retrieved(body: &str) -> Result<Vec<Vec<u32>>, String> {
        let fixture = Fixture::new();
        let source = format!("def retrieve(chunks, questions, documents):\n    {body}\n");
        let config = Config { source, top_k: 2, ..Config::default() };
        let queries = [fixture.query("cat dog", &[]), fixture.query("fox", &[])];
        let found = config.build(&Context::default()).unwrap().retrieve_now(&queries, &fixture.corpus());
        Ok(found.map_err(|error| error.to_string())?.iter().map(|hits| rows(hits)).collect())
    }

    #[test]
    fn numbers_are_in_order_and_scores_make_one() {
        // Chunk 0 of the function is row 1: the parent is not searched.
        assert_eq!(retrieved("return [[3, 0, 1], []]").unwrap(), [vec![4, 1], vec![]]);
        let shared =
            "return [[(i, len(set(q.split()) & set(c.split()))) for i, c in enumerate(chunks)] for q in questions]";
        assert_eq!(retrieved(shared).unwrap(), [vec![2, 1], vec![4, 1]]);
    }

    #[test]
    fn what_names_no_chunk_is_refused() {
        let refused = |body: &str| retrieved(body).unwrap_err();
        assert!(refused("return [[0]]").contains("each of the 2 questions"));
        assert!(refused("return [[4], []]").contains("4 is neither the number of a chunk, from 0 to 3"));
        assert!(refused("return [[-1], []]").contains("-1 is neither"));
        assert!(refused("return [[1, 1], []]").contains("chunk 1 is named twice"));
        assert!(refused("return [[(1, 2, 3)], []]").contains("[1,2,3] is neither"));
        assert!(refused("return [[(1, -1e300)], []]").contains("[1,-1e+300] is neither"));
        assert!(refused("return chunks.oats").contains("AttributeError"));
    }
}

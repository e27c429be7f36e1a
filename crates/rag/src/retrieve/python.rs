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
//!
//! A search in an index of your own may return passages instead, as dictionaries: `text`,
//! and optionally `document` (its path in the corpus), `start_byte` and `end_byte` (its place in
//! the document's text), `score` (higher is better; without scores the order counts),
//! `page`, `title` and `heading`. A passage without a place is looked for in its document, or in
//! all. A passage that stands in no document is kept, and no evidence is found in it.

use super::{
    Retriever, SearchOutput, check_top_k, finds_top_k,
    placing::{PlacedTexts, TextPlace},
    sort, touched,
};
use crate::{
    Component, Context, Error, Hit, Passage, Span,
    corpus::{Corpus, Query},
    function_settings,
    python::{StageFunction, runs_function},
};
use async_trait::async_trait;
use serde::Deserialize;
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
        /// The most chunks or passages to return. Default 5.
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
        Ok(match self.search(queries, corpus).await? {
            SearchOutput::Hits(found) => found,
            SearchOutput::Passages(found) => found.iter().map(|passages| touched(passages)).collect(),
        })
    }

    async fn search(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<SearchOutput, Error> {
        if queries.is_empty() {
            return Ok(SearchOutput::Hits(Vec::new()));
        }
        let table = corpus.table;
        let chunks = || table.searchable_chunks();
        let arguments = self.function.arguments(|name| match name {
            "questions" => queries.iter().map(|query| query.text).collect(),
            "chunks" => chunks().map(|chunk| chunk.text).collect(),
            _ => chunks().map(|chunk| json!(chunk.document)).collect(),
        });
        let reply = self.function.call(&arguments, None)?;
        let unusable = |error| self.function.unusable(error, None);
        let lists = reply.as_array().filter(|lists| lists.len() == queries.len());
        let lists = lists.ok_or_else(|| unusable(HitsError::Lists { questions: queries.len() }))?;
        let is_passage = |list: &Value| list.as_array().is_some_and(|items| items.iter().any(Value::is_object));
        if lists.iter().any(is_passage) {
            let texts = PlacedTexts::new(table);
            let found = lists.iter().map(|list| passages(list, &texts, self.top_k).map_err(unusable));
            return found.collect::<Result<_, _>>().map(SearchOutput::Passages);
        }
        let found = lists.iter().map(|list| hits(list, table.searchable(), self.top_k).map_err(unusable));
        found.collect::<Result<_, _>>().map(SearchOutput::Hits)
    }
}

/// A passage as a function returns it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnPassage {
    text: String,
    document: Option<String>,
    start_byte: Option<usize>,
    end_byte: Option<usize>,
    score: Option<f32>,
    page: Option<u32>,
    title: Option<String>,
    heading: Option<String>,
}

impl OwnPassage {
    fn placed(self, rank: u32, texts: &PlacedTexts<'_>) -> Passage {
        let stated = self.start_byte.zip(self.end_byte).map(|(start, end)| Span { start, end });
        let place = texts.place(&self.text, self.document.as_deref(), stated);
        let (document, span, rows) = match place {
            Some(TextPlace { document, span, rows }) => (document, span, rows),
            None => (self.document.unwrap_or_default(), Span::default(), Vec::new()),
        };
        let score = self.score.unwrap_or(1.0 / rank as f32);
        let (text, page, book, heading, parts) = (self.text, self.page, self.title, self.heading, Vec::new());
        Passage { document, span, text, score, page, book, heading, rows, parts }
    }
}

/// The passages of a list, best first; equal scores keep their order.
fn passages(list: &Value, texts: &PlacedTexts<'_>, top_k: usize) -> Result<Vec<Passage>, HitsError> {
    let wrong = |value: &Value, reason: String| HitsError::Passage { value: value.clone(), reason };
    let items = list.as_array().ok_or_else(|| wrong(list, "a list is wanted".to_owned()))?;
    let mut passages = Vec::with_capacity(items.len());
    for (rank, item) in (1u32..).zip(items) {
        let own: OwnPassage = serde_json::from_value(item.clone()).map_err(|error| wrong(item, error.to_string()))?;
        if own.score.is_some_and(|score| !score.is_finite()) {
            return Err(wrong(item, "its score is no finite number".to_owned()));
        }
        passages.push(own.placed(rank, texts));
    }
    passages.sort_by(|a, b| b.score.total_cmp(&a.score));
    passages.truncate(top_k);
    Ok(passages)
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
    #[error("{value} is no passage with a `text`: {reason}")]
    Passage { value: Value, reason: String },
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
    use futures::FutureExt;

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
    fn passages_of_its_own_are_placed_in_the_documents_and_keep_their_texts() {
        let fixture = Fixture::new();
        let (first, document) = (fixture.table.chunk(1).text.to_owned(), fixture.table.chunk(1).document.to_owned());
        let source = format!(
            "def retrieve(questions):\n    return [[{{'text': 'not in the corpus', 'document': 'x', 'score': 1}}, {{'text': \
             {first:?}, 'score': 2, 'title': 'Own'}}, {{'text': 'late', 'score': 0}}], []]\n"
        );
        let retriever = Config { source, top_k: 2, ..Config::default() }.build(&Context::default()).unwrap();
        let queries = [fixture.query("cat", &[]), fixture.query("fox", &[])];
        let found = retriever.search(&queries, &fixture.corpus()).now_or_never().unwrap().unwrap();
        let SearchOutput::Passages(found) = found else { panic!("{found:?}") };
        assert!(found[1].is_empty());
        let [best, unplaced] = found[0].as_slice() else { panic!("{found:?}") };
        assert_eq!((&best.text, &best.document, best.book.as_deref()), (&first, &document, Some("Own")));
        assert_eq!((best.span, best.rows.as_slice(), best.score), (fixture.table.chunk(1).span, [1].as_slice(), 2.0));
        assert_eq!((unplaced.document.as_str(), unplaced.span, unplaced.rows.len()), ("x", Span::default(), 0));
        let hits = retriever.retrieve_now(&queries, &fixture.corpus()).unwrap();
        assert_eq!(hits.iter().map(|hits| rows(hits)).collect::<Vec<_>>(), [vec![1], vec![]], "the chunks they touch");
    }

    #[test]
    fn what_is_no_passage_is_refused() {
        let refused = |body: &str| retrieved(body).unwrap_err();
        assert!(refused("return [[{'txt': 'a'}], []]").contains("unknown field `txt`"));
        assert!(refused("return [[{'document': 'a'}], []]").contains("missing field `text`"));
        assert!(refused("return [[{'text': 'a'}, 3], []]").contains("3 is no passage with a `text`"));
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

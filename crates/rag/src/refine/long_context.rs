//! `long_context`: the model reads a whole document, or the whole corpus.
//!
//! The baseline that answers "do I need retrieval at all?": many corpora fit
//! into the window of a model. `scope = "document"` gives the document of the
//! best hit; `scope = "corpus"` gives every document in the order of the corpus,
//! whatever was found. It pays for small corpora and questions that need much of
//! a document; each question costs the whole text, and models overlook facts in
//! the middle of a long context, so it loses against retrieval on single facts.
//!
//! The text is put together from the chunks, each byte once. What no chunk
//! holds is lost: the white space between chunks becomes one line end or two,
//! and text that a chunker of the user's own left out becomes ` … `.
//! At most `tokens` tokens are given. If that cuts something, the last passage
//! says in its heading what is missing. The generator gives only as much as fits
//! into its own window, and counts the rest in `dropped_passages`: raise its
//! `context_tokens` too.
//! Source: Anthropic, Introducing Contextual Retrieval, 2024 (corpora below
//! 200,000 tokens need no retrieval); Li et al., Retrieval Augmented Generation
//! or Long-Context LLMs?, 2024 (arXiv 2407.16741).

use super::pieces::{Piece, between, join, of_document, rows_of, some_beginning};
use crate::{
    ChunkTable, Component, Context, Error, Hit, InputSize, Passage, PassageStep,
    chunk::TokenCounter,
    component::{ensure, settings},
    corpus::{Corpus, Query},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 2;
const NAME: &str = "refine long_context";
/// The least number of tokens: a character may need four.
const LEAST: usize = 16;

/// How much is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The document of the best hit.
    #[default]
    Document,
    /// All documents.
    Corpus,
}

settings! {
    /// Settings of `long_context`.
    pub struct Config {
        /// `document` (the default): that of the best hit. `corpus`: all documents.
        pub scope: Scope = Scope::Document,
        /// The most tokens of all text together, counted as `cl100k_base` does; at
        /// least 16. Default 100,000.
        pub tokens: usize = 100_000,
    }
}

impl Component for Config {
    fn estimate_output(&self, item: InputSize) -> InputSize {
        InputSize { passage_tokens: self.tokens as u64, ..item }
    }

    fn reads_documents(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        self.check(NAME)?;
        Ok(Box::new(self.clone()))
    }

    /// Checks the settings; another step also uses them, for some questions only.
    pub(super) fn check(&self, component: &'static str) -> Result<(), Error> {
        let reason = format!("tokens is {}, but must be at least {LEAST}", self.tokens);
        ensure(component, self.tokens >= LEAST, reason)
    }
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, corpus: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let table = corpus.table;
        // One row of each document.
        let documents = match self.scope {
            Scope::Corpus => documents(table),
            Scope::Document => match passages.first().and_then(|passage| passage.rows.first()) {
                Some(&row) => vec![row],
                None => return Ok(passages),
            },
        };
        let counter = TokenCounter::shared();
        let mut left = self.tokens;
        let mut kept: Vec<Passage> = Vec::new();
        for (i, &row) in documents.iter().enumerate() {
            let Some(whole) = whole(row, &passages, table) else { continue };
            if let Some(size) = counter.count_up_to(&whole.text, left) {
                left -= size;
                kept.push(whole);
                continue;
            }
            let cut = some_beginning(&whole, left, &|text| counter.count(text));
            let others = documents.len() - i - 1;
            let is_begun = cut.is_some();
            kept.extend(cut);
            if let Some(last) = kept.last_mut() {
                last.heading = Some(missing(self.tokens, is_begun, others + usize::from(!is_begun)));
            }
            break;
        }
        Ok(kept)
    }
}

/// What was cut, in words.
fn missing(tokens: usize, rest: bool, documents: usize) -> String {
    let others = format!("{documents} more document{}", if documents == 1 { "" } else { "s" });
    let what = match (rest, documents) {
        (true, 0) => "the rest of this document".to_owned(),
        (true, _) => format!("the rest of this document and {others}"),
        (false, _) => others,
    };
    format!("left out after {tokens} tokens: {what}")
}

/// A searchable row of each document, in the order of the corpus.
fn documents(table: &ChunkTable) -> Vec<u32> {
    let rows = table.searchable();
    let mut documents = Vec::new();
    let mut next = 0;
    while let Some(&row) = rows.get(next) {
        documents.push(row);
        next = of_document(table, row).end;
    }
    documents
}

/// The document that holds a row, with the hits in it.
fn whole(row: u32, passages: &[Passage], table: &ChunkTable) -> Option<Passage> {
    let rows = &table.searchable()[of_document(table, row)];
    let joined = join(rows.iter().map(|&row| Piece::chunk(table, row)).collect(), between)?;
    let first = table.passage(Hit { row: *rows.first()?, score: 0.0 });
    let found: Vec<&Passage> = passages.iter().filter(|passage| passage.document == first.document).collect();
    let score = found.iter().map(|passage| passage.score).reduce(f32::max).unwrap_or(0.0);
    Some(Passage { score, rows: rows_of(found), heading: None, ..joined.into_passage(first) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refine::pieces::tests::{assert_true, chunks, hits};
    use serde_json::json;

    const TEXTS: [&str; 3] = [
        "# Mill\n\nThe mill is old. It stands by the river. Nobody works there.",
        "The barn is new. It is red.",
        "Cats run. Dogs sleep all day.",
    ];

    fn table() -> std::sync::Arc<ChunkTable> {
        chunks(json!({ "sentence": { "chunk_size": 8, "chunk_overlap": 6 } }), &TEXTS)
    }

    async fn run(config: serde_json::Value, rows: &[u32], table: &std::sync::Arc<ChunkTable>) -> Vec<Passage> {
        let config: Config = serde_json::from_value(config).unwrap();
        let step = config.build(&Context::default()).unwrap();
        let query = Query { text: "q", embedding: None, tokens: None, filter: None };
        step.run(query, Corpus::exact(table, &[]), hits(table, rows)).await.unwrap()
    }

    #[tokio::test]
    async fn the_document_of_the_best_hit_is_whole_and_says_no_byte_twice() {
        let table = table();
        let last = table.len() as u32 - 1;
        let passages = run(json!({}), &[1, last, 0], &table).await;
        assert_eq!(passages.len(), 1);
        assert_eq!(
            passages[0].text.split_whitespace().collect::<Vec<_>>(),
            TEXTS[0].split_whitespace().collect::<Vec<_>>()
        );
        assert_eq!((passages[0].score, passages[0].rows.as_slice()), (1.0, &[1, 0][..]));
        assert_eq!((passages[0].span.start, passages[0].span.end), (0, TEXTS[0].len()));
        assert_true(&passages[0], TEXTS[0]);
        assert!(run(json!({}), &[], &table).await.is_empty());
    }

    #[tokio::test]
    async fn the_corpus_comes_in_its_order_even_if_nothing_was_found() {
        let table = table();
        for rows in [&[][..], &[table.len() as u32 - 1][..]] {
            let passages = run(json!({ "scope": "corpus" }), rows, &table).await;
            let names: Vec<&str> = passages.iter().map(|passage| passage.document.as_str()).collect();
            assert_eq!(names, ["0.md", "1.md", "2.md"]);
            assert_eq!(passages[2].rows, rows);
            passages.iter().zip(TEXTS).for_each(|(passage, text)| assert_true(passage, text));
        }
    }

    #[tokio::test]
    async fn what_was_cut_is_told() {
        let table = table();
        let first = TokenCounter::shared().count(&run(json!({}), &[0], &table).await[0].text);
        let passages = run(json!({ "scope": "corpus", "tokens": first + 5 }), &[], &table).await;
        assert_eq!(passages.len(), 2);
        assert_eq!(passages[1].text, "The barn is new.");
        let told = passages[1].heading.as_deref().unwrap();
        assert!(told.ends_with("the rest of this document and 1 more document"), "{told}");
        let passages = run(json!({ "scope": "corpus", "tokens": first }), &[], &table).await;
        assert!(passages[0].heading.as_deref().unwrap().ends_with(": 2 more documents"), "{passages:?}");
        let passages = run(json!({ "tokens": 16 }), &[0], &table).await;
        assert!(passages[0].heading.as_deref().unwrap().ends_with("the rest of this document"));
        assert_true(&passages[0], TEXTS[0]);
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        assert!(Config { tokens: 15, ..Config::default() }.build(&Context::default()).is_err());
        assert!(serde_json::from_value::<Config>(json!({ "scope": "all" })).is_err());
    }
}

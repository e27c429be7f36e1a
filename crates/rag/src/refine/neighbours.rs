//! `neighbours`: a passage is read with the chunks before and after it.
//!
//! Small chunks are found sharply but say little; their neighbours complete
//! them. It pays with small chunks and answers that run on over a border of
//! chunks. It does not pay with chunks of several hundred tokens: it then adds
//! tokens that dilute what was found. Neighbours are chunks of the same
//! document. Passages that overlap or touch become one, in the place of the
//! best of them and with its score, so no text comes twice, and there may be
//! fewer passages than before.
//! Source: LlamaIndex's `PrevNextNodePostprocessor`; the joining is ours.

use super::pieces::{Piece, between, join, of_document, pieces, rows_of};
use crate::{
    Component, Context, Error, InputSize, Passage, PassageStep,
    chunk::merge_headings,
    component::{ensure, settings},
    corpus::{Corpus, Query},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "refine neighbours";

settings! {
    /// Settings of `neighbours`.
    pub struct Config {
        /// How many chunks before a passage, and how many after it. Default 1.
        pub chunks: usize = 1,
    }
}

impl Component for Config {
    fn estimate_output(&self, item: InputSize) -> InputSize {
        item.multiply_passage_size(1 + 2 * self.chunks as u64)
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        ensure(NAME, self.chunks > 0, "chunks must be at least 1; leave the step out to have no neighbours")?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, corpus: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let mut stretches: Vec<TextRange<'_>> =
            passages.iter().enumerate().map(|(rank, passage)| self.stretch(rank, passage, corpus)).collect();
        stretches.sort_by(|a, b| (a.document, a.start, a.rank).cmp(&(b.document, b.start, b.rank)));
        let mut merged: Vec<TextRange<'_>> = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            match merged.last_mut() {
                Some(last) if last.touches(&stretch) => last.add(stretch),
                _ => merged.push(stretch),
            }
        }
        merged.sort_by_key(|stretch| stretch.rank);
        Ok(merged.into_iter().filter_map(|stretch| stretch.passage(&passages)).collect())
    }
}

impl Config {
    fn stretch<'a>(&self, rank: usize, passage: &'a Passage, corpus: Corpus<'a>) -> TextRange<'a> {
        let table = corpus.table;
        let mut stretch = TextRange {
            document: &passage.document,
            start: passage.span.start,
            end: passage.span.end,
            entries: None,
            rank,
            ranks: vec![rank],
            pieces: pieces(passage),
            page: passage.page,
            headings: passage.heading.as_deref().into_iter().collect(),
        };
        let entries = || passage.rows.iter().filter_map(|&row| Some(corpus.entry(row)? as usize));
        let (Some(first), Some(last), Some(&row)) = (entries().min(), entries().max(), passage.rows.first()) else {
            return stretch;
        };
        let document = of_document(table, row);
        let from = first.saturating_sub(self.chunks).max(document.start);
        let to = (last + self.chunks).min(document.end.saturating_sub(1));
        stretch.entries = Some((from, to));
        let rows = table.searchable();
        let mut before = Vec::new();
        for &row in rows[from..first].iter().chain(&rows[last + 1..=to]) {
            let (piece, chunk) = (Piece::chunk(table, row), table.chunk(row));
            if piece.span.start < stretch.start {
                (stretch.start, stretch.page) = (piece.span.start, chunk.page);
            }
            stretch.end = stretch.end.max(piece.span.end);
            let headings = if row < rows[first] { &mut before } else { &mut stretch.headings };
            headings.extend(chunk.heading);
            stretch.pieces.push(piece);
        }
        before.append(&mut stretch.headings);
        stretch.headings = before;
        stretch
    }
}

/// A part of a document that becomes one passage.
struct TextRange<'a> {
    document: &'a str,
    start: usize,
    end: usize,
    /// The first and the last searchable chunk in it.
    entries: Option<(usize, usize)>,
    /// The best rank of the passages in it.
    rank: usize,
    ranks: Vec<usize>,
    pieces: Vec<Piece<'a>>,
    page: Option<u32>,
    /// In the order of the document.
    headings: Vec<&'a str>,
}

impl<'a> TextRange<'a> {
    /// Whether another one, which does not start before it, overlaps with it
    /// or follows right after.
    fn touches(&self, other: &Self) -> bool {
        let follows = self.entries.zip(other.entries).is_some_and(|(these, those)| those.0 <= these.1 + 1);
        self.document == other.document && (other.start <= self.end || follows)
    }

    fn add(&mut self, other: Self) {
        self.end = self.end.max(other.end);
        self.entries = match (self.entries, other.entries) {
            (Some(these), Some(those)) => Some((these.0.min(those.0), these.1.max(those.1))),
            (these, those) => these.or(those),
        };
        self.rank = self.rank.min(other.rank);
        self.ranks.extend(other.ranks);
        self.pieces.extend(other.pieces);
        self.headings.extend(other.headings);
    }

    fn passage(mut self, passages: &[Passage]) -> Option<Passage> {
        self.ranks.sort_unstable();
        let found = || self.ranks.iter().map(|&rank| &passages[rank]);
        let (score, rows) = (found().map(|passage| passage.score).fold(f32::NEG_INFINITY, f32::max), rows_of(found()));
        let heading = merge_headings(&self.headings);
        let joined = join(self.pieces, between)?;
        Some(Passage { score, rows, heading, page: self.page, ..joined.into_passage(passages[self.rank].clone()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refine::pieces::tests::{assert_true, chunks, hits};
    use serde_json::json;

    const TEXT: &str = "# Mill\n\nOne one one. Two two two.\n\n# Barn\n\nThree three. Four four. Five five. Six six. \
                        Seven seven. Eight eight.";

    fn table() -> std::sync::Arc<crate::ChunkTable> {
        chunks(json!({ "sentence": { "chunk_size": 6, "chunk_overlap": 0 } }), &[TEXT, "Alone here."])
    }

    async fn run(n: usize, passages: Vec<Passage>, table: &std::sync::Arc<crate::ChunkTable>) -> Vec<Passage> {
        let corpus = Corpus::exact(table, &[]);
        let step = Config { chunks: n }.build(&Context::default()).unwrap();
        step.run(Query { text: "q", embedding: None, tokens: None, filter: None }, corpus, passages).await.unwrap()
    }

    #[tokio::test]
    async fn a_passage_grows_to_both_sides_within_its_document() {
        let table = table();
        let last = table.len() as u32 - 1;
        for row in 0..last {
            let grown = run(1, hits(&table, &[row]), &table).await.remove(0);
            let (from, to) = (row.saturating_sub(1), (row + 1).min(last - 1));
            assert_eq!((grown.span.start, grown.span.end), (table.chunk(from).span.start, table.chunk(to).span.end));
            assert_eq!((grown.page, grown.rows.as_slice()), (table.chunk(from).page, &[row][..]));
            assert_true(&grown, TEXT);
        }
        let alone = run(3, hits(&table, &[last]), &table).await;
        assert_eq!(alone, hits(&table, &[last]));
    }

    #[tokio::test]
    async fn passages_that_touch_become_one_with_the_best_score() {
        let table = table();
        assert!(table.len() >= 9, "{}", table.len());
        let last = table.len() as u32 - 2;
        // 1 grows to 0..=2 and 4 to 3..=5, which follow each other.
        let grown = run(1, hits(&table, &[4, last, 1]), &table).await;
        assert_eq!(grown.len(), if last <= 6 { 1 } else { 2 });
        assert_eq!((grown[0].score, grown[0].rows.as_slice()), (1.0, &[4, 1][..]));
        assert_eq!(grown[0].span.start, 0);
        assert_eq!(grown[0].heading.as_deref(), Some("Mill; Barn"));
        grown.iter().for_each(|passage| assert_true(passage, TEXT));
    }

    #[test]
    fn no_neighbours_are_no_step() {
        assert!(Config { chunks: 0 }.build(&Context::default()).is_err());
    }
}

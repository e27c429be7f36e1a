//! `parents`: a passage is read as the larger part that it belongs to.
//!
//! Where the chunker makes a hierarchy, that is the parent chunk; elsewhere all
//! chunks in a row under the same heading. Several hits of one parent become
//! one passage, in the place of the best and with its score. It pays where an
//! answer needs the whole section but a sentence of it is what matches, as in
//! manuals and regulations. It does not pay where sections are long, or a
//! question needs one fact: most of what is added is noise. The chunker
//! `hierarchical` merges by itself where enough of a parent was found; this step
//! does it for every hit. Text without a heading stays as it is, and so does a
//! passage whose section has more than `chunks` chunks.
//! Source: LangChain's `ParentDocumentRetriever`.

use super::pieces::{Piece, between, join, of_document};
use crate::{
    ChunkTable, Component, Context, Error, Hit, InputSize, Passage, PassageStep,
    component::{ensure, settings},
    corpus::{Corpus, Query},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "refine parents";

settings! {
    /// Settings of `parents`.
    pub struct Config {
        /// The most chunks of a section under a heading; passages of larger
        /// sections stay as they are. It does not concern parent chunks. Default 10.
        pub chunks: usize = 10,
    }
}

impl Component for Config {
    fn estimate_output(&self, item: InputSize) -> InputSize {
        item.multiply_passage_size(self.chunks as u64)
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        ensure(NAME, self.chunks > 0, "chunks must be at least 1")?;
        Ok(Box::new(self.clone()))
    }
}

/// The chunks that a passage is replaced by.
#[derive(Clone, Copy, PartialEq)]
enum Replacement {
    Parent(u32),
    /// The first and the last, by their positions among the searchable chunks.
    Section(usize, usize),
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, corpus: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let mut found: Vec<(Option<Replacement>, Passage)> = Vec::with_capacity(passages.len());
        for passage in passages {
            // A passage that an earlier step made larger than the part stays unchanged.
            let made = self
                .find_replacement(&passage, corpus)
                .and_then(|part| Some((part, whole(part, &passage, corpus.table)?)));
            let (part, whole) = made.unzip();
            match found.iter_mut().find(|(known, _)| part.is_some() && *known == part) {
                Some((_, known)) => {
                    let more: Vec<u32> = passage.rows.iter().filter(|row| !known.rows.contains(row)).copied().collect();
                    known.rows.extend(more);
                    known.score = known.score.max(passage.score);
                }
                None => found.push((part, whole.unwrap_or(passage))),
            }
            // Each is compared with all before it.
            tokio::task::yield_now().await;
        }
        Ok(found.into_iter().map(|(_, passage)| passage).collect())
    }
}

impl Config {
    fn find_replacement(&self, passage: &Passage, corpus: Corpus<'_>) -> Option<Replacement> {
        let table = corpus.table;
        let row = *passage.rows.first()?;
        if table.chunk(row).parent.is_some() {
            let mut at = row;
            // A passage may be a parent already; it is not made smaller.
            while let Some(number) = table.chunk(at).parent {
                at = table.sibling(row, number);
                if passage.span.overlap(table.chunk(at).span) == passage.span.len() {
                    return Some(Replacement::Parent(at));
                }
            }
            return None;
        }
        let heading = |entry: usize| table.chunk(table.searchable()[entry]).heading;
        let entry = corpus.entry(row)? as usize;
        let above = heading(entry)?;
        let document = of_document(table, row);
        let same = |entry: &usize| heading(*entry) == Some(above);
        let first = (document.start..entry).rev().take_while(same).last().unwrap_or(entry);
        let last = (entry + 1..document.end).take_while(same).last().unwrap_or(entry);
        (last - first < self.chunks).then_some(Replacement::Section(first, last))
    }
}

fn whole(part: Replacement, passage: &Passage, table: &ChunkTable) -> Option<Passage> {
    let rows = match part {
        Replacement::Parent(row) => &[row][..],
        Replacement::Section(first, last) => &table.searchable()[first..=last],
    };
    let joined = join(rows.iter().map(|&row| Piece::chunk(table, row)).collect(), between)?;
    if joined.span.overlap(passage.span) < passage.span.len() {
        // An earlier step made the passage larger than the part.
        return None;
    }
    let first = table.passage(Hit { row: *rows.first()?, score: passage.score });
    Some(Passage { rows: passage.rows.clone(), ..joined.into_passage(first) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refine::pieces::tests::{assert_true, chunks, hits};
    use serde_json::json;

    const TEXT: &str = "Before. And more.\n\n# Mill\n\nOne one one. Two two two. Three three three.\n\n# Barn\n\nFour \
                        four. Five five. Six six. Seven seven. Eight eight.";

    async fn run(config: Config, rows: &[u32], table: &std::sync::Arc<ChunkTable>) -> Vec<Passage> {
        let corpus = Corpus::exact(table, &[]);
        let step = config.build(&Context::default()).unwrap();
        let query = Query { text: "q", embedding: None, tokens: None, filter: None };
        step.run(query, corpus, hits(table, rows)).await.unwrap()
    }

    #[tokio::test]
    async fn hits_of_one_parent_become_it() {
        let settings = json!({ "hierarchical": { "chunk_sizes": [32, 6], "chunk_overlap": 0 } });
        let table = chunks(settings, &[TEXT]);
        let (&first, &last) = (table.searchable().first().unwrap(), table.searchable().last().unwrap());
        let passages = run(Config::default(), &[last, first, first + 1], &table).await;
        assert_eq!(passages.len(), 2);
        let parent = table.chunk(table.chunk(first).parent.unwrap());
        assert_eq!((passages[1].text.as_str(), passages[1].span), (parent.text, parent.span));
        assert_eq!((passages[1].score, passages[1].rows.as_slice()), (0.5, &[first, first + 1][..]));
        let corpus = Corpus::exact(&table, &[]);
        let step = Config::default().build(&Context::default()).unwrap();
        let query = Query { text: "q", embedding: None, tokens: None, filter: None };
        assert_eq!(step.run(query, corpus, passages.clone()).await.unwrap(), passages, "parents stay");
    }

    #[tokio::test]
    async fn without_a_hierarchy_it_is_the_section_unless_that_is_too_long() {
        let table = chunks(json!({ "sentence": { "chunk_size": 6, "chunk_overlap": 0 } }), &[TEXT]);
        let rows = |heading: Option<&str>| -> Vec<u32> {
            let same = |row: &u32| table.chunk(*row).heading == heading;
            (0..table.len() as u32).filter(same).collect()
        };
        let (none, barn) = (rows(None), rows(Some("Barn")));
        assert!(!none.is_empty() && barn.len() > 2);
        let passages = run(Config::default(), &[barn[1], none[0], barn[0]], &table).await;
        assert_eq!(passages.len(), 2);
        assert!(passages[0].text.ends_with("Eight eight.") && passages[0].heading.as_deref() == Some("Barn"));
        assert_eq!(passages[0].rows, [barn[1], barn[0]]);
        assert_eq!(passages[1].text, table.chunk(none[0]).text);
        passages.iter().for_each(|passage| assert_true(passage, TEXT));
        let short = Config { chunks: barn.len() - 1 };
        assert_eq!(run(short, &barn[..2], &table).await, hits(&table, &barn[..2]));
        assert!(Config { chunks: 0 }.build(&Context::default()).is_err());
    }
}

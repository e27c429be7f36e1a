//! `heading`: the document's title, the headings above a chunk and the header rows of its table stand before its text.
//!
//! Free, and worth a try wherever documents have titles and headings: a chunk
//! that says "it takes two arguments" is found by the name of what takes them.
//! It changes nothing where a document states neither; and where headings are
//! long and chunks short, it makes chunks of one section look alike.

use super::{EnrichedText, Enricher, above_chunk};
use crate::{Chunk, Component, Context, Document, Error, component::settings};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 2;

settings! {
    /// Settings of `heading`.
    pub struct Config {
        /// Whether the document's title stands there as well. Default true.
        pub title: bool = true,
        /// Whether the header rows stand there as well, if the chunk begins in a table behind them. Default true.
        pub table_header: bool = true,
    }
}

impl Component for Config {}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Enricher>, Error> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Enricher for Config {
    async fn enrich(&self, document: &Document, chunks: &[&Chunk]) -> Result<Vec<EnrichedText>, Error> {
        let title = document.title.as_deref().filter(|_| self.title);
        let text = |chunk: &&Chunk| {
            let header = header_above(document, chunk).filter(|_| self.table_header);
            let lines: Vec<&str> = title.into_iter().chain(chunk.heading.as_deref()).chain(header).collect();
            above_chunk(&lines.join("\n"), chunk).into()
        };
        Ok(chunks.iter().map(text).collect())
    }
}

/// The header rows of the table that a chunk begins in, if it begins behind them.
fn header_above<'d>(document: &'d Document, chunk: &Chunk) -> Option<&'d str> {
    let next = document.tables.partition_point(|table| table.span.start <= chunk.span.start);
    let table = &document.tables[next.checked_sub(1)?];
    let header = table.header_span(&document.text)?;
    let is_behind = header.end <= chunk.span.start && chunk.span.start < table.span.end;
    document.text.get(header.start..header.end).map(str::trim_end).filter(|_| is_behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Span,
        enrich::tests::book,
        load::{ParseLimits, parse},
    };
    use futures::FutureExt;

    #[test]
    fn title_and_headings_stand_before_the_text() {
        let (document, chunks) = book();
        let chunks: Vec<&Chunk> = chunks.iter().collect();
        let texts = |config: Config| {
            let enricher = config.build(&Context::default()).unwrap();
            let enriched = enricher.enrich(&document, &chunks).now_or_never().unwrap().unwrap();
            enriched.into_iter().map(|one| one.text).collect::<Vec<_>>()
        };
        let last = texts(Config::default()).pop().unwrap();
        assert!(last.starts_with("A Book of Places\nRivers\n\n") && last.ends_with("The river is wide."), "{last}");
        let last = texts(Config { title: false, ..Config::default() }).pop().unwrap();
        assert!(last.starts_with("Rivers\n\n"), "{last}");
    }

    #[test]
    fn the_header_of_a_table_stands_before_its_rows() {
        let text = "| part | weight |\n| --- | --- |\n| wheel | 3 |\n| stone | 9 |\n\nThe end.";
        let document = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        let of = |words: &str, config: Config| {
            let start = text.find(words).unwrap();
            let span = Span { start, end: start + words.len() };
            let chunk = Chunk { span, text: words.to_owned(), ..Chunk::default() };
            let enricher = config.build(&Context::default()).unwrap();
            enricher.enrich(&document, &[&chunk]).now_or_never().unwrap().unwrap().remove(0).text
        };
        let header = "| part | weight |\n| --- | --- |";
        assert_eq!(of("| stone | 9 |", Config::default()), format!("{header}\n\n| stone | 9 |"));
        let off = Config { table_header: false, ..Config::default() };
        assert_eq!(of("| stone | 9 |", off), "| stone | 9 |");
        assert_eq!(of("| part | weight |", Config::default()), "| part | weight |");
        assert_eq!(of("The end.", Config::default()), "The end.");
    }
}

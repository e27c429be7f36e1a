//! `heading`: the document's title and the headings above a chunk stand before
//! its text.
//!
//! Free, and worth a try wherever documents have titles and headings: a chunk
//! that says "it takes two arguments" is found by the name of what takes them.
//! It changes nothing where a document states neither; and where headings are
//! long and chunks short, it makes chunks of one section look alike.

use super::{EnrichedText, Enricher, above_chunk};
use crate::{Chunk, Component, Context, Document, Error, component::settings};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;

settings! {
    /// Settings of `heading`.
    pub struct Config {
        /// Whether the document's title stands there as well. Default true.
        pub title: bool = true,
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
            let lines: Vec<&str> = title.into_iter().chain(chunk.heading.as_deref()).collect();
            above_chunk(&lines.join("\n"), chunk).into()
        };
        Ok(chunks.iter().map(text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enrich::tests::book;
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
        let last = texts(Config { title: false }).pop().unwrap();
        assert!(last.starts_with("Rivers\n\n"), "{last}");
    }
}

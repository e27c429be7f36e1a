//! `none`: documents are not cut, because the retriever searches an index of your own.
//!
//! It is what a trial gets whose retriever searches an existing index, such as `pgvector`, and need not be listed. Other
//! retrievers find nothing with it, and are refused. The texts of documents are kept, to look up the places of passages.

use super::Chunker;
use crate::{Chunk, Component, Context, Document, Error, InputSize, Span, component::settings};
use async_trait::async_trait;
use std::borrow::Cow;

pub(super) const VERSION: u32 = 1;

settings! {
    /// Settings of `none`: there are none.
    pub struct Config {}
}

impl Component for Config {
    fn estimate_chunks(&self, item: InputSize) -> InputSize {
        InputSize { passages: 0, passage_tokens: 0, ..item }
    }

    fn is_nothing(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Chunker for Config {
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        let text = document.text.clone();
        if text.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![Chunk {
            document: document.path.clone(),
            number: 0,
            span: Span { start: 0, end: text.len() },
            text,
            searchable: false,
            level: 0,
            parent: None,
            previous: None,
            next: None,
            page: None,
            book: document.title.clone(),
            heading: None,
            metadata: document.metadata.clone(),
            space: Cow::Borrowed(""),
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::conformance_tests::text_document;

    #[test]
    fn a_document_is_kept_whole_and_is_not_searched() {
        let chunker = Config {}.build(&Context::default()).unwrap();
        let chunks = chunker.chunk_now(&text_document("one. two.")).unwrap();
        assert!(matches!(&chunks[..], [chunk] if chunk.text == "one. two." && !chunk.searchable));
        assert!(chunker.chunk_now(&text_document("")).unwrap().is_empty());
    }
}

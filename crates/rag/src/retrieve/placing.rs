//! Finds the place of a text in the documents of a corpus, for retrievers whose
//! passages are not chunks.

use crate::{ChunkTable, Span, TableChunk};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Where a text stands in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextPlace {
    pub(super) document: String,
    pub(super) span: Span,
    /// The rows of the searchable chunks that share bytes with it.
    pub(super) rows: Vec<u32>,
}

/// The documents of a table of chunks. Their texts are put together from their
/// chunks, so a stretch that no chunk holds is not known.
pub(super) struct PlacedTexts<'a> {
    table: &'a ChunkTable,
    /// The texts that were needed so far, by document.
    texts: Mutex<HashMap<String, String>>,
}

impl<'a> PlacedTexts<'a> {
    pub(super) fn new(table: &'a ChunkTable) -> Self {
        Self { table, texts: Mutex::default() }
    }

    /// The place of a text: `stated` if the text stands there, otherwise the first place in the document, or in any
    /// document if none is named. `None` if it stands nowhere.
    pub(super) fn place(&self, text: &str, document: Option<&str>, stated: Option<Span>) -> Option<TextPlace> {
        if text.is_empty() {
            return None;
        }
        let in_document = |document: &str| {
            let span = self.with_text(document, |whole| {
                let is_there = |span: &Span| whole.get(span.start..span.end) == Some(text);
                let found = || whole.find(text).map(|start| Span { start, end: start + text.len() });
                stated.filter(is_there).or_else(found)
            })?;
            let rows = self.table.rows_of_document(document);
            let shares = |row: &u32| {
                let chunk = self.table.chunk(*row);
                chunk.searchable && chunk.span.overlap(span) > 0
            };
            Some(TextPlace { document: document.to_owned(), span, rows: rows.filter(shares).collect() })
        };
        match document {
            Some(document) => in_document(document),
            None => self.documents().find_map(in_document),
        }
    }

    /// The document that another program calls so, and the place of a text in it, or in any document if it names none.
    pub(super) fn place_named(&self, text: &str, named: Option<&str>) -> (Option<String>, Option<TextPlace>) {
        let document = named.and_then(|name| self.document_of(name));
        let place = match (named, &document) {
            // A document that is not in the corpus holds no place of it.
            (Some(_), None) => None,
            _ => self.place(text, document.as_deref(), None),
        };
        (document, place)
    }

    /// The document of this path, or else the only one with this file name, or with this name without its ending.
    pub(super) fn document_of(&self, name: &str) -> Option<String> {
        if !self.table.rows_of_document(name).is_empty() {
            return Some(name.to_owned());
        }
        let file = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or_default().to_lowercase();
        let stem = |file: String| file.rsplit_once('.').map_or(file.clone(), |(stem, _)| stem.to_owned());
        let only = |is_it: &dyn Fn(&str) -> bool| {
            let mut found = self.documents().filter(|document| is_it(document));
            found.next().filter(|_| found.next().is_none()).map(str::to_owned)
        };
        let wanted = file(name);
        only(&|document| file(document) == wanted)
            .or_else(|| only(&|document| stem(file(document)) == stem(wanted.clone())))
    }

    /// The names of the documents, in the order of the table.
    fn documents(&self) -> impl Iterator<Item = &str> {
        self.table.documents()
    }

    fn with_text<T>(&self, document: &str, read: impl FnOnce(&str) -> T) -> T {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = texts.entry(document.to_owned()).or_insert_with(|| whole_text(self.table.of_document(document)));
        read(text)
    }
}

/// The text of a document, from its chunks. Bytes that none of them holds are spaces.
fn whole_text<'a>(chunks: impl Iterator<Item = TableChunk<'a>> + Clone) -> String {
    let parts = chunks.flat_map(|chunk| [(chunk.span.start, chunk.text), (chunk.span.end, chunk.space)]);
    let length = parts.clone().map(|(start, part)| start + part.len()).max().unwrap_or_default();
    let mut bytes = vec![b' '; length];
    for (start, part) in parts {
        bytes[start..start + part.len()].copy_from_slice(part.as_bytes());
    }
    // Chunks of another text than that of their document could cut characters apart.
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chunk;

    fn table() -> ChunkTable {
        // A parent over two chunks with a space between them, and a second document.
        let chunk = |document: &str, number: u32, start: usize, text: &str, searchable: bool| Chunk {
            document: document.to_owned(),
            number,
            span: Span { start, end: start + text.len() },
            text: text.to_owned(),
            searchable,
            ..Chunk::default()
        };
        ChunkTable::new(vec![
            chunk("a", 0, 0, "The mühle turns. Oats are ground.", false),
            chunk("a", 1, 0, "The mühle turns.", true),
            chunk("a", 2, 18, "Oats are ground.", true),
            chunk("b", 0, 0, "An owl.", true),
            chunk("b", 1, 9, "Oats are ground.", true),
        ])
    }

    #[test]
    fn a_text_is_found_across_chunks_with_the_chunks_that_it_touches() {
        let table = table();
        let texts = PlacedTexts::new(&table);
        let place = |text: &str, document: Option<&str>| texts.place(text, document, None);
        let found = place("turns. Oats", None).unwrap();
        assert_eq!((found.document.as_str(), found.rows.as_slice()), ("a", [1, 2].as_slice()));
        assert_eq!(found.span, Span { start: 11, end: 22 }, "in bytes");
        assert_eq!(place("Oats are", Some("b")).unwrap().rows, [4]);
        assert_eq!(place("owl", None).unwrap().document, "b");
        for (text, document) in [("hare", None), ("owl", Some("a")), ("owl", Some("c")), ("", None)] {
            assert_eq!(place(text, document), None, "{text}");
        }
    }

    #[test]
    fn a_stated_place_counts_if_the_text_stands_there() {
        let table = ChunkTable::new(vec![Chunk {
            document: "a".to_owned(),
            span: Span { start: 0, end: 10 },
            text: "owl owl ü".to_owned(),
            searchable: true,
            ..Chunk::default()
        }]);
        let texts = PlacedTexts::new(&table);
        let place = |start: usize| {
            texts.place("owl", Some("a"), Some(Span { start, end: start + 3 })).map(|found| found.span.start)
        };
        assert_eq!(place(4), Some(4));
        for wrong in [1, 7, 8, 99] {
            assert_eq!(place(wrong), Some(0), "{wrong}: not on a character, or elsewhere");
        }
    }
}

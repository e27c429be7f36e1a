//! `table`: tables are cut between their rows, and the rest of a document between sentences.
//!
//! A row is never cut from its neighbours in the middle, and never read without the header rows of its table: a passage
//! of rows begins with them. For spreadsheets, price lists, reports and forms; with `rows = 1` each row is a passage,
//! which suits questions about one thing in a long list. Searches see the header rows only with `enrich = "heading"`.
//! A document without tables is cut as by `sentence`. Text that is no table is never mixed with rows.
//! Source: ours; compare the table elements of Unstructured's `by_title` chunking and Docling's `HybridChunker`, which
//! repeats header rows.

use super::{
    Chunker,
    outline::{Outline, link},
    sentences::SentenceFinder,
    split::{Cut, Splitter, check_sizes, cut_by_size, not_set, overlap_follows_size, trim},
};
use crate::{
    Chunk, ChunkTable, Component, Context, Document, Error, Hit, Passage, Span, Table,
    analysis::{Language, LanguageChoice},
    component::{ensure, settings},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "chunker table";

settings! {
    /// Settings of `table`.
    // `overlap_follows_size!` below implements serde's traits; `sentence.rs` says how.
    #[serde(remote = "Self")]
    pub struct Config {
        /// The size of a chunk, in tokens of `cl100k_base`, the repeated header rows included. Default 512.
        pub chunk_size: u32 = 512,
        /// The most that a chunk of prose repeats of the one before, in tokens. Rows are not repeated. Default: a fifth
        /// of `chunk_size`, at most 50.
        // Only a mark: `overlap_follows_size!` replaces it by the default that the text above names.
        #[serde(default = "not_set")]
        #[schemars(with = "Option<u32>", extend("default" = null))]
        pub chunk_overlap: u32 = 50,
        /// The most rows of a chunk, without the header rows; 0 for as many as fit. Default 0.
        pub rows: u32 = 0,
        /// The language whose rules find sentences, by its English name in small letters, such
        /// as `german`. Default `auto`: the language of each document, if it is recognised, else English.
        pub language: LanguageChoice = LanguageChoice::Auto,
    }
}

overlap_follows_size!(|config| config.chunk_size);

impl Component for Config {
    fn named_language(&self) -> Option<Language> {
        self.language.language()
    }

    cut_by_size!(|size| size);
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        check_sizes(NAME, "chunk_size", self.chunk_size, Self::default().chunk_size, self.chunk_overlap)?;
        let many = format!("`rows` is {}; give at most 1,000,000, or 0 for as many as fit", self.rows);
        ensure(NAME, self.rows <= 1_000_000, many)?;
        let lines = vec![Cut::Before(" ".to_owned()), Cut::Characters];
        Ok(Box::new(TableChunker {
            prose: Splitter::by_tokens(
                Cut::of_sentences(self.language, "\n\n\n", " "),
                self.chunk_size,
                self.chunk_overlap,
            ),
            lines: Splitter::by_tokens(lines, self.chunk_size, 0),
            rows: match self.rows {
                0 => usize::MAX,
                rows => rows as usize,
            },
        }))
    }
}

struct TableChunker {
    prose: Splitter,
    /// Cuts a row that is too large.
    lines: Splitter,
    rows: usize,
}

/// The chunks of a document so far.
struct CutDocument<'a> {
    outline: Outline<'a>,
    chunks: Vec<Chunk>,
    /// The numbers of the chunks of prose.
    prose: Vec<u32>,
}

impl CutDocument<'_> {
    fn push(&mut self, span: Span) -> &mut Chunk {
        let number = u32::try_from(self.chunks.len()).unwrap_or(u32::MAX);
        let chunk = self.outline.chunk(number, span);
        self.chunks.push(chunk);
        let last = self.chunks.len() - 1;
        &mut self.chunks[last]
    }
}

#[async_trait]
impl Chunker for TableChunker {
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        let text = &document.text;
        let finder = self.prose.finder(text);
        let mut cut = CutDocument { outline: Outline::new(document), chunks: Vec::new(), prose: Vec::new() };
        let mut at = 0;
        for table in &document.tables {
            // The tables of a document of a user's own may be anything.
            let is_sound = at <= table.span.start && text.get(table.span.start..table.span.end).is_some();
            if !is_sound || table.span.is_empty() {
                continue;
            }
            self.cut_prose(text, Span { start: at, end: table.span.start }, finder, &mut cut);
            self.cut_table(text, table, finder, &mut cut);
            at = table.span.end;
        }
        self.cut_prose(text, Span { start: at, end: text.len() }, finder, &mut cut);
        let CutDocument { mut chunks, prose, .. } = cut;
        for pair in prose.windows(2) {
            chunks[pair[0] as usize].next = Some(pair[1]);
            chunks[pair[1] as usize].previous = Some(pair[0]);
        }
        Ok(chunks)
    }

    fn context(&self, hits: Vec<Hit>, table: &ChunkTable) -> Vec<Passage> {
        hits.into_iter().map(|hit| with_header(hit, table)).collect()
    }
}

impl TableChunker {
    fn cut_prose(&self, text: &str, within: Span, finder: SentenceFinder, cut: &mut CutDocument<'_>) {
        for span in self.prose.split(text, within, finder) {
            let number = cut.push(span).number;
            cut.prose.push(number);
        }
    }

    /// A chunk of the whole table and one of its header rows, which are not searched, then those of its rows.
    fn cut_table(&self, text: &str, table: &Table, finder: SentenceFinder, cut: &mut CutDocument<'_>) {
        let Some(whole) = trim(text, table.span) else { return };
        let parent = {
            let chunk = cut.push(whole);
            chunk.searchable = false;
            Some(chunk.number)
        };
        let rows = table.row_spans(text);
        let headers = (table.header_rows as usize).min(rows.len());
        let header = table.header_span(text).and_then(|span| trim(text, span));
        let size_of = |span: Span| self.prose.count(&text[span.start..span.end]);
        // A header that leaves no room for rows is not repeated.
        let repeated = header.and_then(size_of).filter(|size| size * 2 <= self.prose.size && headers < rows.len());
        if let (Some(header), Some(_)) = (header, repeated) {
            let chunk = cut.push(header);
            (chunk.searchable, chunk.level, chunk.parent) = (false, 1, parent);
        }
        let first = cut.chunks.len();
        let mut groups = RowGroups { text, splitter: &self.lines, finder, open: None, done: Vec::new() };
        if let Some(header) = header {
            groups.add(header, self.prose.size);
        }
        let mut in_group = 0;
        for row in &rows[headers..] {
            let size = size_of(*row).unwrap_or(usize::MAX);
            let is_full = groups.open.is_some_and(|(_, open)| open.saturating_add(size) > self.prose.size);
            if in_group >= self.rows || is_full {
                groups.close();
                in_group = 0;
            }
            // What begins behind the first rows begins with the header when it is read.
            let room = match groups.open {
                None => self.prose.size - repeated.unwrap_or(0),
                Some(_) => self.prose.size,
            };
            groups.add(*row, room);
            in_group += 1;
        }
        groups.close();
        for span in groups.done {
            let chunk = cut.push(span);
            (chunk.level, chunk.parent) = (1, parent);
        }
        link(&mut cut.chunks[first..]);
    }
}

/// Rows in a row that share a chunk.
struct RowGroups<'a> {
    text: &'a str,
    /// Cuts a row that is too large.
    splitter: &'a Splitter,
    finder: SentenceFinder,
    /// The open group and its tokens, with what will be read before it.
    open: Option<(Span, usize)>,
    done: Vec<Span>,
}

impl RowGroups<'_> {
    /// Adds a row to the open group, or begins one for `room` tokens.
    fn add(&mut self, row: Span, room: usize) {
        let Some(size) = self.splitter.count(&self.text[row.start..row.end]) else {
            self.close();
            self.done.extend(self.splitter.split(self.text, row, self.finder));
            return;
        };
        // The line end between two rows is a token.
        self.open = Some(match self.open {
            Some((span, open)) => (Span { start: span.start, end: row.end }, open + size + 1),
            None => (row, self.splitter.size - room + size),
        });
    }

    fn close(&mut self) {
        self.done.extend(self.open.take().and_then(|(span, _)| trim(self.text, span)));
    }
}

/// A chunk as a passage, with the header rows of its table before it.
fn with_header(hit: Hit, table: &ChunkTable) -> Passage {
    let passage = table.passage(hit);
    let chunk = table.chunk(hit.row);
    let Some(parent) = chunk.parent else { return passage };
    let header = table.sibling(hit.row, parent + 1);
    let header = table.chunk(header);
    if header.searchable || header.parent != Some(parent) || header.span.end > chunk.span.start {
        return passage;
    }
    let span = Span { start: header.span.start, end: chunk.span.end };
    Passage {
        text: format!("{}\n{}", header.text, passage.text),
        span,
        parts: vec![header.span, chunk.span],
        ..passage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Format,
        chunk::{TokenCounter, conformance_tests::text_document},
        load::{ParseLimits, parse},
    };

    /// A text, a table of so many rows, and a text.
    fn report(rows: usize) -> Document {
        let rows: String = (1..=rows).map(|row| format!("| part {row} | {row}.5 kg |\n")).collect();
        let text = format!(
            "# Parts\n\nAll parts of the mill. They are of oak.\n\n| part | weight |\n| --- | --- |\n{rows}\nThe end."
        );
        parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap()
    }

    fn cut(config: &Config, document: &Document) -> (Vec<Chunk>, ChunkTable) {
        let chunks = config.build(&Context::default()).unwrap().chunk_now(document).unwrap();
        let table = ChunkTable::checked(chunks.clone()).unwrap();
        (chunks, table)
    }

    fn passages(config: &Config, table: &ChunkTable) -> Vec<Passage> {
        let hits = table.searchable().iter().map(|&row| Hit { row, score: 1.0 }).collect();
        config.build(&Context::default()).unwrap().context(hits, table)
    }

    const HEADER: &str = "| part | weight |\n| --- | --- |";

    #[test]
    fn rows_stay_whole_and_are_read_with_their_header() {
        let document = report(60);
        let config = Config { chunk_size: 60, chunk_overlap: 0, ..Config::default() };
        let (chunks, table) = cut(&config, &document);
        let searched: Vec<&Chunk> = chunks.iter().filter(|chunk| chunk.searchable).collect();
        assert!(searched.len() > 10);
        assert!(searched[0].text.ends_with("of oak.") && searched.last().unwrap().text == "The end.");
        let found = passages(&config, &table);
        for (chunk, passage) in searched.iter().zip(&found).filter(|(chunk, _)| chunk.parent.is_some()) {
            assert!(chunk.text.starts_with("| part") && chunk.text.ends_with("kg |"), "{}", chunk.text);
            assert!(passage.text.starts_with(HEADER), "{}", passage.text);
            assert!(TokenCounter::shared().count(&passage.text) <= 60, "{}", passage.text);
            let pieces: Vec<&str> = passage.spans().iter().map(|span| &document.text[span.start..span.end]).collect();
            assert_eq!(pieces.join("\n"), passage.text);
        }
        let rows: usize = searched.iter().map(|chunk| chunk.text.matches(" kg |").count()).sum();
        assert_eq!(rows, 60, "each row once");
    }

    #[test]
    fn each_row_can_be_a_passage() {
        let config = Config { rows: 1, ..Config::default() };
        let (_, table) = cut(&config, &report(3));
        let texts: Vec<String> = passages(&config, &table).into_iter().map(|passage| passage.text).collect();
        let row = |row: u32| format!("{HEADER}\n| part {row} | {row}.5 kg |");
        assert_eq!(texts[1..4], [row(1), row(2), row(3)]);
        let parent = table.chunks().find(|chunk| !chunk.searchable).unwrap();
        assert!(parent.text.starts_with(HEADER) && parent.text.ends_with("| part 3 | 3.5 kg |"), "the whole table");
    }

    #[test]
    fn a_header_that_leaves_no_room_is_not_repeated_and_a_row_that_is_too_large_is_cut() {
        let long = "word ".repeat(80);
        let text = format!("| {long}| b |\n| --- | --- |\n| {long}| 1 |\n| 2 | 3 |");
        let document = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        let config = Config { chunk_size: 32, chunk_overlap: 0, ..Config::default() };
        let (chunks, table) = cut(&config, &document);
        super::super::conformance_tests::check(&document, &chunks, Some(32), "a wide table");
        assert!(passages(&config, &table).iter().all(|passage| passage.parts.is_empty()));
    }

    #[test]
    fn a_text_without_tables_is_cut_as_by_sentence() {
        let text = "One two three. Four five six. Seven eight nine ten. Eleven twelve.".repeat(9);
        let document = Document { format: Format::Text, ..text_document(&text) };
        let of = |settings: serde_json::Value| {
            let config: super::super::ChunkerConfig = serde_json::from_value(settings).unwrap();
            config.build(&Context::default()).unwrap().chunk_now(&document).unwrap()
        };
        let sizes = serde_json::json!({ "chunk_size": 24, "chunk_overlap": 5 });
        assert_eq!(of(serde_json::json!({ "table": sizes })), of(serde_json::json!({ "sentence": sizes })));
    }
}

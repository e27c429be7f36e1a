//! Names what a chunk belongs to: its page, its book, and the chapter and
//! headings above it. Computed once per document, then asked per chunk.

use super::classes::is_blank;
use crate::{Chunk, Document, Format, Span};

/// Between the headings of a path.
const SEPARATOR: &str = " > ";

/// A document's headings.
pub(super) struct Outline<'a> {
    document: &'a Document,
    /// Where each heading starts, and the titles from the outermost to it.
    headings: Vec<(usize, Vec<&'a str>)>,
    /// For each page, where the chapter that it belongs to starts.
    chapter_starts: Vec<usize>,
}

impl<'a> Outline<'a> {
    /// Reads the headings of a document whose text keeps them as Markdown.
    pub(super) fn new(document: &'a Document) -> Self {
        let headings = if keeps_headings(document.format) { headings(&document.text) } else { Vec::new() };
        let mut chapter_starts = Vec::with_capacity(document.pages.len());
        for (i, page) in document.pages.iter().enumerate() {
            let before = i.checked_sub(1).map(|before| (&document.pages[before].chapter, chapter_starts[before]));
            let start = match before {
                Some((chapter, start)) if *chapter == page.chapter => start,
                _ => page.span.start,
            };
            chapter_starts.push(start);
        }
        Self { document, headings, chapter_starts }
    }

    /// A searchable chunk of level 0 without neighbours.
    pub(super) fn chunk(&self, number: u32, span: Span) -> Chunk {
        Chunk {
            document: self.document.path.clone(),
            number,
            span,
            text: self.document.text[span.start..span.end].to_owned(),
            searchable: true,
            level: 0,
            parent: None,
            previous: None,
            next: None,
            page: self.document.page_at(span.start).map(|page| page.number),
            book: self.document.title.clone(),
            heading: self.heading(span.start),
        }
    }

    /// Chunks side by side, each linked to its neighbours.
    pub(super) fn row(&self, spans: impl IntoIterator<Item = Span>) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> = (0..).zip(spans).map(|(number, span)| self.chunk(number, span)).collect();
        link(&mut chunks);
        chunks
    }

    /// The chapter of the page and the headings above the byte within it.
    fn heading(&self, byte: usize) -> Option<String> {
        let above = self.headings.partition_point(|(start, _)| *start <= byte).checked_sub(1);
        let (start, path) =
            above.map_or((0, &[][..]), |above| (self.headings[above].0, self.headings[above].1.as_slice()));
        self.path(byte, start, path)
    }

    /// The chapter of a byte's page, then the titles of the heading that
    /// starts at `heading_start` and those above it.
    pub(super) fn path(&self, byte: usize, heading_start: usize, titles: &[&str]) -> Option<String> {
        let page = self.document.pages.partition_point(|page| page.span.start <= byte).checked_sub(1);
        let chapter = page.and_then(|page| self.document.pages[page].chapter.as_deref());
        let chapter = chapter.map(|title| title.trim_matches(is_blank)).filter(|title| !title.is_empty());
        // A heading of the chapter before says nothing about this one.
        let chapter_start = page.filter(|_| chapter.is_some()).map_or(0, |page| self.chapter_starts[page]);
        let titles = if heading_start >= chapter_start { titles } else { &[] };
        let chapter = chapter.filter(|chapter| !titles.contains(chapter));
        let path: Vec<&str> = chapter.into_iter().chain(titles.iter().copied()).collect();
        (!path.is_empty()).then(|| path.join(SEPARATOR))
    }
}

/// Makes chunks that stand in a row neighbours of each other.
pub(super) fn link(chunks: &mut [Chunk]) {
    for i in 1..chunks.len() {
        chunks[i].previous = Some(chunks[i - 1].number);
        chunks[i - 1].next = Some(chunks[i].number);
    }
}

/// Whether the document's text has Markdown headings. In others a `#` is a
/// comment or a number sign.
pub(super) fn keeps_headings(format: Format) -> bool {
    match format {
        Format::Markdown | Format::Html | Format::Epub | Format::Docx => true,
        Format::Pdf | Format::Text => false,
    }
}

/// All `#` headings outside of fenced code, with the titles above each.
fn headings(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut found = Vec::new();
    let mut path: Vec<(usize, &str)> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches(' ').trim_end();
        let indented = line.len() - line.trim_start_matches(' ').len() > 3;
        match (fence, fence_of(content).filter(|_| !indented)) {
            // A fence is closed by one at least as long, with nothing after it.
            (Some(open), Some(mark)) if mark.starts_with(open) && mark == content => fence = None,
            (None, Some(mark)) => fence = Some(mark),
            (None, None) if !indented => {
                if let Some((level, title)) = heading_of(content) {
                    path.retain(|(above, _)| *above < level);
                    path.push((level, title));
                    found.push((start, path.iter().map(|(_, title)| *title).collect()));
                }
            }
            _ => {}
        }
        start += line.len();
    }
    found
}

/// The backticks or tildes that open or close fenced code.
fn fence_of(line: &str) -> Option<&str> {
    ['`', '~'].into_iter().find_map(|mark| {
        let length = line.len() - line.trim_start_matches(mark).len();
        (length >= 3).then(|| &line[..length])
    })
}

/// The level and title of a heading's line.
fn heading_of(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    if !(1..=6).contains(&level) || !title.starts_with([' ', '\t']) {
        return None;
    }
    let title = title.trim();
    // Closing marks (`# Title ##`) are decoration, but `C#` is a name.
    let bare = title.trim_end_matches('#');
    let title = if bare.is_empty() || bare.ends_with(' ') { bare.trim_end() } else { title };
    (!title.is_empty()).then_some((level, title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Page;

    fn document(format: Format, text: &str) -> Document {
        Document {
            path: "a/b.md".to_owned(),
            content: store::Key::of_bytes(text.as_bytes()),
            format,
            title: Some("The Book".to_owned()),
            author: None,
            text: text.to_owned(),
            pages: Vec::new(),
        }
    }

    #[test]
    fn headings_nest_and_code_has_none() {
        let text = "# A\n## B ##\nx\n```sh\n# no\n```\n### C#\n## D\n    # code\n#hash\n# E";
        let found = headings(text);
        let paths: Vec<String> = found.iter().map(|(_, path)| path.join(SEPARATOR)).collect();
        assert_eq!(paths, ["A", "A > B", "A > B > C#", "A > D", "E"]);
        assert_eq!(&text[found[2].0..found[2].0 + 6], "### C#");
    }

    #[test]
    fn chunks_know_book_page_and_headings() {
        let mut document = document(Format::Epub, "# One\ntext\n# Two\nmore\nrest");
        let page = |number, start, end, chapter: &str| Page {
            number,
            span: Span { start, end },
            chapter: Some(chapter.to_owned()),
        };
        document.pages = vec![page(1, 0, 11, "First"), page(2, 11, 22, "Two"), page(3, 22, 26, "Three")];
        let outline = Outline::new(&document);
        let at = |start| outline.chunk(0, Span { start, end: start + 1 });
        assert_eq!(at(7).heading.as_deref(), Some("First > One"));
        assert_eq!((at(18).heading.as_deref(), at(18).page), (Some("Two"), Some(2)));
        assert_eq!(at(23).heading.as_deref(), Some("Three"));
        assert_eq!(at(0).book.as_deref(), Some("The Book"));
    }

    #[test]
    fn plain_text_has_no_headings() {
        let document = document(Format::Text, "# a comment\nls");
        assert_eq!(Outline::new(&document).chunk(0, Span { start: 12, end: 14 }).heading, None);
    }
}

//! Names what a chunk belongs to: its page, its book, and the headings above
//! its text. Computed once per document, then asked per chunk.

use crate::{Chunk, Document, Metadata, Span};

const SEPARATOR: &str = " > ";
/// The most sections that a chunk's heading names. Of more sections it names the
/// first and the last.
const NAMED: usize = 3;

pub(super) struct Outline<'a> {
    document: &'a Document,
    /// The document's metadata, with its author.
    metadata: Metadata,
    /// In order of their beginnings; before the first one there is no heading.
    sections: Vec<Section<'a>>,
}

struct Section<'a> {
    start: usize,
    /// Where its text begins, after the title.
    body: usize,
    /// The titles from the outermost to its own.
    path: Vec<&'a str>,
}

impl<'a> Outline<'a> {
    /// Puts the headings of a document in order.
    pub(super) fn new(document: &'a Document) -> Self {
        let mut above: Vec<(u32, &str)> = Vec::new();
        let mut sections = Vec::with_capacity(document.headings.len());
        for heading in &document.headings {
            above.retain(|(level, _)| *level < heading.level);
            above.push((heading.level, heading.title.as_str()));
            let path = above.iter().map(|(_, title)| *title).filter(|title| !title.is_empty()).collect();
            let body = after_title(&document.text, heading.start, &heading.title);
            sections.push(Section { start: heading.start, body, path });
        }
        let author = document.author.clone().map(|author| ("author".to_owned(), author.into()));
        let metadata = author.into_iter().chain(document.metadata.clone()).collect();
        Self { document, metadata, sections }
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
            heading: self.heading(span),
            metadata: self.metadata.clone(),
            space: Default::default(),
        }
    }

    /// Chunks in a row, each linked to its neighbours.
    pub(super) fn linked_chunks(&self, spans: impl IntoIterator<Item = Span>) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> = (0..).zip(spans).map(|(number, span)| self.chunk(number, span)).collect();
        link(&mut chunks);
        chunks
    }

    /// The headings above the text of a span. A title alone does not count as
    /// text: a chunk that ends with the title of the next section gets no heading
    /// of that section, and one that begins right before a title gets its heading.
    fn heading(&self, span: Span) -> Option<String> {
        let next = self.sections.partition_point(|section| section.start <= span.start);
        let has_text = |start: usize, end: usize| {
            let (start, end) = (start.max(span.start), end.min(span.end));
            start < end && self.document.text.get(start..end).is_some_and(|text| !text.trim().is_empty())
        };
        // From the section that the span begins in; text before the first heading is in none.
        let begun = self.sections[next.saturating_sub(1)..].iter().take_while(|section| section.start < span.end);
        let ends = self.sections[next.saturating_sub(1)..].iter().skip(1).map(|section| section.start);
        let touched: Vec<(&Section<'_>, usize)> = begun.zip(ends.chain([usize::MAX])).collect();
        let mut paths: Vec<&[&str]> = Vec::new();
        for (section, end) in &touched {
            if has_text(section.body, *end) && !paths.contains(&section.path.as_slice()) {
                paths.push(&section.path);
            }
        }
        if paths.is_empty() {
            // Titles only: the last one.
            paths.extend(touched.last().map(|(section, _)| section.path.as_slice()));
        }
        merge_paths(&paths)
    }
}

/// Several paths as one: what they share, then the last title of each.
pub(super) fn merge_paths(paths: &[&[&str]]) -> Option<String> {
    let paths: Vec<&[&str]> = paths.iter().copied().filter(|path| !path.is_empty()).collect();
    let (first, rest) = paths.split_first()?;
    if rest.is_empty() {
        return Some(first.join(SEPARATOR));
    }
    // A path that begins another path keeps its last title, so that title is not shared.
    let most = paths.iter().map(|path| path.len() - 1).min().unwrap_or(0);
    let shared = (0..most).take_while(|&i| rest.iter().all(|path| path[i] == first[i])).count();
    let mut names: Vec<&str> = paths.iter().filter_map(|path| path.last().copied()).collect();
    names.dedup();
    let names = match names.as_slice() {
        [first, .., last] if names.len() > NAMED => format!("{first}; …; {last}"),
        names => names.join("; "),
    };
    Some(first[..shared].iter().copied().chain([names.as_str()]).collect::<Vec<_>>().join(SEPARATOR))
}

/// Merges the headings of several passages in a row. What stands after the last
/// ` > ` counts as one title, even if it is `B; C`.
pub(crate) fn merge_headings(headings: &[&str]) -> Option<String> {
    let mut paths: Vec<Vec<&str>> = Vec::new();
    for heading in headings {
        let path: Vec<&str> = heading.split(SEPARATOR).collect();
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    merge_paths(&paths.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// The end of a section's title if the text begins with it, else `start`.
fn after_title(text: &str, start: usize, title: &str) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let blank = rest.len() - rest.trim_start().len();
    let line = rest[blank..].split('\n').next().unwrap_or_default();
    let wanted = title.strip_suffix('…').unwrap_or(title);
    if line.starts_with('#') || (!wanted.is_empty() && line.contains(wanted)) {
        start + blank + line.len()
    } else {
        start
    }
}

/// Makes chunks that stand in a row neighbours of each other.
pub(super) fn link(chunks: &mut [Chunk]) {
    for i in 1..chunks.len() {
        chunks[i].previous = Some(chunks[i - 1].number);
        chunks[i - 1].next = Some(chunks[i].number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Heading, Page, chunk::conformance_tests::text_document, load::markdown_headings};

    fn document(text: &str) -> Document {
        let headings = markdown_headings(text);
        Document { format: Format::Markdown, title: Some("The Book".to_owned()), headings, ..text_document(text) }
    }

    /// The heading of the words from one to the other.
    fn heading(document: &Document, from: &str, to: &str) -> Option<String> {
        let start = document.text.find(from).unwrap();
        let end = start + document.text[start..].find(to).unwrap() + to.len();
        Outline::new(document).chunk(0, Span { start, end }).heading
    }

    const MANUAL: &str = "Preface.\n\n# 5. Packages\n\nIntro.\n\n## 5.6. Upload\n\n### 5.6.2. Master\n\nGo there.\n\n### 5.6.3. Delayed\n\nWait a day.\n\n### 5.6.4. Security\n\nBe careful.\n\n# 6. End\n\nBye.";

    #[test]
    fn text_is_named_by_the_headings_above_it() {
        let document = document(MANUAL);
        let at = |from: &str, to: &str| heading(&document, from, to).unwrap_or_default();
        assert_eq!(at("Wait", "day."), "5. Packages > 5.6. Upload > 5.6.3. Delayed");
        assert_eq!((at("Preface.", "."), at("Intro.", ".").as_str()), (String::new(), "5. Packages"));
        assert_eq!(at("Bye", "."), "6. End");
    }

    #[test]
    fn a_chunk_that_begins_right_before_a_heading_is_named_by_it() {
        let document = document(MANUAL);
        let at = |from: &str, to: &str| heading(&document, from, to).unwrap_or_default();
        assert_eq!(at("### 5.6.3", "day."), "5. Packages > 5.6. Upload > 5.6.3. Delayed");
        assert_eq!(at("\n\n### 5.6.3", "day."), "5. Packages > 5.6. Upload > 5.6.3. Delayed");
        // It ends with the next title, of which it says nothing.
        assert_eq!(at("Wait", "5.6.4. Security"), "5. Packages > 5.6. Upload > 5.6.3. Delayed");
        assert_eq!(at("## 5.6.", "5.6.2. Master"), "5. Packages > 5.6. Upload > 5.6.2. Master");
    }

    #[test]
    fn a_chunk_over_several_sections_names_them_all() {
        let document = document(MANUAL);
        let at = |from: &str, to: &str| heading(&document, from, to).unwrap_or_default();
        assert_eq!(at("there.", "day."), "5. Packages > 5.6. Upload > 5.6.2. Master; 5.6.3. Delayed");
        assert_eq!(at("careful.", "Bye."), "5.6.4. Security; 6. End");
        assert_eq!(at("Intro.", "there."), "5. Packages; 5.6.2. Master");
        assert_eq!(at("Preface.", "Bye."), "5. Packages; …; 6. End");
    }

    #[test]
    fn a_part_that_ends_without_a_next_title_is_not_cited_behind_its_end() {
        let mut document = text_document("Mills\nwords\nmore");
        let named = |start, level, title: &str| Heading { start, level, title: title.to_owned() };
        document.headings = vec![named(0, 1, "Book"), named(0, 2, "Mills"), named(12, 2, "")];
        assert_eq!(heading(&document, "words", "s").as_deref(), Some("Book > Mills"));
        assert_eq!(heading(&document, "more", "e").as_deref(), Some("Book"));
    }

    #[test]
    fn chunks_know_book_and_page_and_text_between_pages_has_none() {
        let mut document = document("front\n\nfirst page\n\nsecond page");
        let page = |number, start, end| Page { number, span: Span { start, end } };
        document.pages = vec![page(11, 7, 17), page(12, 19, 30)];
        let outline = Outline::new(&document);
        let at = |start| outline.chunk(0, Span { start, end: start + 1 }).page;
        assert_eq!([0, 7, 18, 19, 29].map(at), [None, Some(11), Some(11), Some(12), Some(12)]);
        assert_eq!(outline.chunk(0, Span { start: 0, end: 1 }).book.as_deref(), Some("The Book"));
    }

    #[test]
    fn paths_of_neighbours_become_one() {
        assert_eq!(merge_headings(&["A > B", "A > B", "A > C"]).as_deref(), Some("A > B; C"));
        assert_eq!(merge_headings(&["A"]).as_deref(), Some("A"));
        assert_eq!(merge_headings(&[]), None);
    }
}

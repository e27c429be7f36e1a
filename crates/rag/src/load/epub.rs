//! `load::epub`: an e-book as Markdown, part after part in reading order.
//!
//! An EPUB has no pages. So that an answer can still say where in a book its
//! evidence stands, the text is counted off in pages of the length of printed
//! ones: each part of the book begins a page, and a page ends at the first
//! blank line after [`PAGE_CHARACTERS`] characters, or at the first line end
//! after twice as many. The rule depends on nothing but the text, so equal
//! files have equal pages.

use super::archive::Archive;
use super::element::Boilerplate;
use super::markup::{Markdown, Writer};
use super::package::{self, Entry, Package};
use super::xml::{self, Node, Xml};
use super::{Limits, LoadError, Parsed, html, starts_by};
use crate::types::{Page, Span};
use std::collections::{HashMap, HashSet};

/// About what a page of a paperback holds.
const PAGE_CHARACTERS: usize = 1_800;

/// Reads an e-book.
pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Parsed, LoadError> {
    let mut archive = Archive::open(bytes, limits)?;
    let package = package::read(&mut archive, limits)?;
    let contents = contents_by_part(&package);
    let mut book = Book::default();
    for part in &package.spine {
        let Some(bytes) = archive.read(part)? else { continue };
        let entries = contents.get(part.as_str()).map_or(&[][..], Vec::as_slice);
        book.add(&bytes, entries, limits)?;
    }
    let author = (!package.authors.is_empty()).then(|| package.authors.join(", "));
    Ok(Parsed { title: package.title, author, text: book.text, pages: book.pages })
}

fn contents_by_part(package: &Package) -> HashMap<&str, Vec<&Entry>> {
    let mut contents: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for entry in &package.contents {
        contents.entry(&entry.part).or_default().push(entry);
    }
    contents
}

/// The text so far.
#[derive(Default)]
struct Book {
    text: String,
    pages: Vec<Page>,
    /// The chapter that a part without its own belongs to.
    chapter: Option<String>,
}

impl Book {
    fn add(&mut self, bytes: &[u8], entries: &[&Entry], limits: &Limits) -> Result<(), LoadError> {
        let wanted: HashSet<String> = entries.iter().filter_map(|entry| entry.fragment.clone()).collect();
        let markdown = to_markdown(&xml::decode(bytes), &wanted, limits)?;
        if markdown.text.is_empty() {
            return Ok(());
        }
        let chapters = self.chapters(entries, &markdown);
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        let base = self.text.len();
        for span in page_spans(&markdown.text) {
            let started = chapters.iter().take_while(|(start, _)| starts_by(&markdown.text, *start, span.start));
            let chapter = started.last().map(|(_, label)| label.clone()).or_else(|| self.chapter.clone());
            let number = u32::try_from(self.pages.len() + 1).unwrap_or(u32::MAX);
            self.pages.push(Page { number, span: Span { start: base + span.start, end: base + span.end }, chapter });
        }
        self.chapter = chapters.into_iter().last().map(|(_, label)| label).or_else(|| self.chapter.take());
        self.text.push_str(&markdown.text);
        Ok(())
    }

    /// Where chapters begin in a part, in order: from the table of contents,
    /// else from a heading that the part begins with, else from any heading if
    /// no chapter has begun yet.
    fn chapters(&self, entries: &[&Entry], markdown: &Markdown) -> Vec<(usize, String)> {
        let anchors: HashMap<&str, usize> = markdown.anchors.iter().rev().map(|(id, at)| (id.as_str(), *at)).collect();
        let place = |entry: &Entry| match &entry.fragment {
            Some(fragment) => anchors.get(fragment.as_str()).copied(),
            None => Some(0),
        };
        let mut chapters: Vec<(usize, String)> =
            entries.iter().filter_map(|entry| Some((place(entry)?, entry.label.clone()))).collect();
        chapters.sort_by_key(|(start, _)| *start);
        let begins_chapter = markdown.text.starts_with("# ") || markdown.text.starts_with("## ");
        if chapters.is_empty() && (begins_chapter || self.chapter.is_none()) {
            chapters.extend(markdown.first_heading.clone().map(|heading| (0, heading)));
        }
        chapters
    }
}

/// XHTML is streamed; what is not well-formed goes through the HTML parser,
/// which accepts everything.
fn to_markdown(text: &str, wanted: &HashSet<String>, limits: &Limits) -> Result<Markdown, LoadError> {
    match stream(text, wanted, limits) {
        Ok(Some(markdown)) => Ok(markdown),
        Err(LoadError::OverLimit(reason)) => Err(LoadError::OverLimit(reason)),
        Ok(None) | Err(_) => html::to_markdown(text, wanted, limits),
    }
}

/// None where the text uses names that only HTML defines.
fn stream(text: &str, wanted: &HashSet<String>, limits: &Limits) -> Result<Option<Markdown>, LoadError> {
    let mut writer = Writer::new(Boilerplate::Book, wanted);
    let mut xml = Xml::new(text, limits);
    while let Some(node) = xml.next()? {
        match node {
            Node::Open(start) => writer.open(xml::local(&start), |name| xml::attribute(&start, name)),
            Node::Close => writer.close(),
            Node::Text(text) => writer.text(&text),
            Node::Entity(name) if name == "nbsp" => writer.text(" "),
            Node::Entity(_) => return Ok(None),
        }
    }
    Ok(Some(writer.finish()))
}

/// The pages of one part; see the module's rule.
fn page_spans(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut start = 0;
    let mut characters = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        characters += line.chars().count();
        at += line.len();
        let is_blank = text[at..].starts_with('\n') || line == "\n";
        let is_full = characters >= PAGE_CHARACTERS && is_blank || characters >= 2 * PAGE_CHARACTERS;
        if is_full && !text[at..].trim().is_empty() {
            spans.push(Span { start, end: at });
            start = at;
            characters = 0;
        }
    }
    spans.push(Span { start, end: text.len() });
    spans
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::zipped;
    use super::*;

    const CONTAINER: &str = "<container><rootfiles><rootfile full-path='O/c.opf'/></rootfiles></container>";
    const OPF: &str = "<package><metadata><dc:title>The Book</dc:title><dc:creator>A. Writer</dc:creator>
        <dc:creator opf:role='trl'>T. Ranslator</dc:creator></metadata>
        <manifest><item id='n' href='nav.xhtml' media-type='application/xhtml+xml' properties='nav'/>
        <item id='a' href='a.xhtml' media-type='application/xhtml+xml'/>
        <item id='b' href='b%20b.xhtml' media-type='application/xhtml+xml'/></manifest>
        <spine><itemref idref='n'/><itemref idref='a'/><itemref idref='b'/><itemref idref='none'/></spine></package>";
    const NAV: &str = "<html><body><nav epub:type='toc'><ol><li><a href='a.xhtml'>First</a></li>
        <li><a href='b%20b.xhtml#late'>Late</a></li></ol></nav></body></html>";

    fn book(a: &str, b: &str) -> Vec<u8> {
        zipped(&[
            ("mimetype", "application/epub+zip"),
            ("META-INF/container.xml", CONTAINER),
            ("O/c.opf", OPF),
            ("O/nav.xhtml", NAV),
            ("O/a.xhtml", a),
            ("O/b b.xhtml", b),
        ])
    }

    #[test]
    fn parts_come_in_reading_order_with_title_and_author() {
        let bytes = book(
            "<html><head><title/></head><body><h1>One</h1><p>First&nbsp;words</p></body></html>",
            "<html><body><p>Broken <b>but</p> read &hellip;</body></html>",
        );
        let parsed = parse(&bytes, &Limits::default()).unwrap();
        assert_eq!(parsed.text, "# One\n\nFirst words\n\nBroken but\n\nread …");
        assert_eq!(parsed.title.as_deref(), Some("The Book"));
        assert_eq!(parsed.author.as_deref(), Some("A. Writer"));
        assert_eq!(parsed.pages.len(), 2);
    }

    #[test]
    fn long_parts_have_pages_with_their_chapters() {
        let paragraphs = "<p>word word word word word word word word word word</p>".repeat(120);
        let b = format!("<html><body>{paragraphs}<h2 id='late'>Late</h2>{paragraphs}</body></html>");
        let parsed = parse(&book("<html><body><p>x</p></body></html>", &b), &Limits::default()).unwrap();
        let chapters: Vec<&str> = parsed.pages.iter().filter_map(|page| page.chapter.as_deref()).collect();
        assert_eq!(chapters.len(), parsed.pages.len());
        assert_eq!((chapters[0], chapters[1], chapters[chapters.len() - 1]), ("First", "First", "Late"));
        for (index, page) in parsed.pages.iter().enumerate() {
            assert_eq!(page.number as usize, index + 1);
            let text = &parsed.text[page.span.start..page.span.end];
            assert!(text.chars().count() < 2 * PAGE_CHARACTERS && !text.trim().is_empty());
        }
    }

    #[test]
    fn a_page_without_blank_lines_ends_at_a_line_end() {
        let text = "a line of code\n".repeat(1000);
        let spans = page_spans(&text);
        assert!(spans.iter().all(|span| span.len() <= 2 * PAGE_CHARACTERS + 15 && text[..span.end].ends_with('\n')));
        assert_eq!(spans.iter().map(|span| span.len()).sum::<usize>(), text.len());
    }

    #[test]
    fn copy_protection_is_encrypted_and_font_obfuscation_is_not() {
        let with = |algorithm: &str| {
            let encryption = format!(
                "<encryption><EncryptedData><EncryptionMethod Algorithm='{algorithm}'/>
                <CipherData><CipherReference URI='O/a.xhtml'/></CipherData></EncryptedData></encryption>"
            );
            zipped(&[
                ("META-INF/container.xml", CONTAINER),
                ("META-INF/encryption.xml", &encryption),
                ("O/c.opf", OPF),
                ("O/a.xhtml", "<p>x</p>"),
            ])
        };
        let drm = with("http://www.w3.org/2001/04/xmlenc#aes128-cbc");
        assert_eq!(parse(&drm, &Limits::default()).unwrap_err(), LoadError::Encrypted);
        assert!(parse(&with("http://www.idpf.org/2008/embedding"), &Limits::default()).is_ok());
    }

    #[test]
    fn a_book_with_too_many_parts_is_refused() {
        let limits = Limits { pages: 2, ..Limits::default() };
        assert!(matches!(parse(&book("<p/>", "<p/>"), &limits), Err(LoadError::OverLimit(_))));
    }

    #[test]
    fn deep_nesting_inside_a_book_is_refused() {
        let deep = "<div>".repeat(100_000);
        assert!(matches!(parse(&book(&deep, "<p/>"), &Limits::default()), Err(LoadError::OverLimit(_))));
    }
}

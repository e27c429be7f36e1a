//! `load::epub`: an e-book as Markdown, part after part in reading order.
//!
//! Pages are those that the book itself marks: its list of pages, or the page
//! breaks in its text. Most e-books have neither, and then the document has no
//! pages: where evidence stands is told by the headings.
//! Parts begin where the table of contents points to, and at headings.

use super::archive::Archive;
use super::element::MarkupOrigin;
use super::format::{Entries, FileFormat, NO_TEXT, Signature};
use super::headings::{self, ContentsLine};
use super::markup::{Markdown, Writer};
use super::package::{self, Entry, Package};
use super::xml::{self, Node, Xml};
use super::{LoadError, ParseLimits, Parsed, html};
use crate::types::{Heading, Page, Span, Table};
use std::collections::{HashMap, HashSet};

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["epub"],
    signature: Signature::Archive(is_epub),
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

fn is_epub(entries: &Entries<'_>) -> bool {
    entries.has_type("application/epub+zip") || entries.has("META-INF/container.xml")
}

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let mut archive = Archive::open(bytes, limits)?;
    let package = package::read(&mut archive, limits)?;
    let (contents, pages) = (by_part(&package.contents), by_part(&package.pages));
    let mut book = Book { has_page_list: !package.pages.is_empty(), ..Book::default() };
    for part in &package.spine {
        let Some(bytes) = archive.read(part)? else { continue };
        let of_contents = contents.get(part.as_str()).map_or(&[][..], Vec::as_slice);
        let of_pages = pages.get(part.as_str()).map_or(&[][..], Vec::as_slice);
        book.add(&bytes, of_contents, of_pages, limits)?;
    }
    let Package { title, authors, date, language, publisher, .. } = package;
    let author = (!authors.is_empty()).then(|| authors.join(", "));
    let pages = book.pages();
    let (text, headings, tables) = (book.text, book.headings, book.tables);
    let parsed = Parsed { title, author, text, pages, headings, tables, ..Parsed::default() };
    Ok(parsed.with("date", date).with("language", language).with("publisher", publisher))
}

fn by_part(entries: &[Entry]) -> HashMap<&str, Vec<&Entry>> {
    let mut parts: HashMap<&str, Vec<&Entry>> = HashMap::new();
    for entry in entries {
        parts.entry(&entry.part).or_default().push(entry);
    }
    parts
}

/// The text so far.
#[derive(Default)]
struct Book {
    text: String,
    headings: Vec<Heading>,
    /// The level of the last line of the table of contents so far.
    depth: u32,
    has_page_list: bool,
    /// Where pages begin, and their numbers; none for a page whose mark is no number.
    marks: Vec<(usize, Option<u32>)>,
    tables: Vec<Table>,
}

impl Book {
    fn add(
        &mut self,
        bytes: &[u8],
        contents: &[&Entry],
        pages: &[&Entry],
        limits: &ParseLimits,
    ) -> Result<(), LoadError> {
        let wanted: HashSet<String> = contents.iter().chain(pages).filter_map(|entry| entry.fragment.clone()).collect();
        let markdown = to_markdown(&xml::decode(bytes), &wanted, limits)?;
        if markdown.text.is_empty() {
            return Ok(());
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        let base = self.text.len();
        let anchors: HashMap<&str, usize> = markdown.anchors.iter().rev().map(|(id, at)| (id.as_str(), *at)).collect();
        let place = |entry: &Entry| match &entry.fragment {
            Some(fragment) => anchors.get(fragment.as_str()).copied(),
            None => Some(0),
        };
        if self.has_page_list {
            self.marks.extend(pages.iter().filter_map(|page| Some((base + place(page)?, page_number(&page.label)))));
        } else {
            self.marks.extend(markdown.breaks.iter().map(|(at, label)| (base + at, page_number(label))));
        }
        let line = |entry: &&Entry| {
            Some(ContentsLine { start: place(entry)?, level: entry.level, title: entry.label.clone() })
        };
        let contents: Vec<ContentsLine> = contents.iter().filter_map(line).collect();
        // A part that the table of contents does not know goes on with the one
        // before, unless it begins with the heading of a chapter.
        let begins_chapter = markdown.headings.first().is_some_and(|first| first.start == 0 && first.level <= 2);
        if contents.is_empty() && begins_chapter {
            self.depth = 0;
        }
        let Markdown { text, headings, tables, .. } = markdown;
        self.tables.extend(tables.into_iter().map(|table| table.moved(base)));
        let found = headings::merge(&text, contents, headings, &mut self.depth);
        self.headings.extend(found.into_iter().map(|heading| Heading { start: base + heading.start, ..heading }));
        self.text.push_str(&text);
        limits.check_text(self.text.len())
    }

    /// The stretches between page marks. Text before the first mark, and pages
    /// that are not numbered in digits, are on no page.
    fn pages(&mut self) -> Vec<Page> {
        self.marks.sort_by_key(|(start, _)| *start);
        let ends = self.marks.iter().skip(1).map(|(start, _)| *start).chain([self.text.len()]);
        let pages = self.marks.iter().zip(ends).filter(|((start, _), end)| start < end);
        pages
            .filter_map(|((start, number), end)| Some(Page { number: (*number)?, span: Span { start: *start, end } }))
            .collect()
    }
}

/// The number in a page's mark: `12`, `page 12`, `[12]`.
fn page_number(label: &str) -> Option<u32> {
    let label = label.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
    let digits = ["page", "pg", "p"].into_iter().find_map(|word| label.strip_prefix(word)).unwrap_or(&label);
    digits.trim_matches(|character: char| !character.is_alphanumeric()).parse().ok()
}

/// XHTML is streamed; what is not well-formed goes through the HTML parser,
/// which accepts everything.
fn to_markdown(text: &str, wanted: &HashSet<String>, limits: &ParseLimits) -> Result<Markdown, LoadError> {
    match stream(text, wanted, limits) {
        Ok(Some(markdown)) => Ok(markdown),
        Err(LoadError::OverLimit(reason)) => Err(LoadError::OverLimit(reason)),
        Ok(None) | Err(_) => html::to_markdown(text, wanted, limits),
    }
}

/// None where the text uses entities that only HTML defines.
fn stream(text: &str, wanted: &HashSet<String>, limits: &ParseLimits) -> Result<Option<Markdown>, LoadError> {
    let mut writer = Writer::new(MarkupOrigin::Book, wanted, limits);
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
    writer.finish().map(Some)
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::zipped;
    use super::*;
    use crate::load::format::sample::Sample;

    const EPUB: &[(&str, &str)] = &[
        ("mimetype", "application/epub+zip"),
        ("META-INF/container.xml", "<container><rootfile full-path='b/c.opf'/></container>"),
        (
            "b/c.opf",
            "<package><dc:title>Mills</dc:title><dc:creator>A. Writer</dc:creator>
         <item id='n' href='nav.xhtml' media-type='application/xhtml+xml' properties='nav'/>
         <item id='a' href='a.xhtml' media-type='application/xhtml+xml'/>
         <item id='b' href='b.xhtml' media-type='application/xhtml+xml'/>
         <itemref idref='a'/><itemref idref='b'/></package>",
        ),
        (
            "b/nav.xhtml",
            "<html><body><nav epub:type='toc'><ol><li><a href='a.xhtml'>First</a></li><li><a href='b.xhtml#s'>Second</a>
         </li></ol></nav></body></html>",
        ),
        ("b/a.xhtml", "<html><body><h1>Mills</h1><p>A mill grinds rye.</p><h2>Parts</h2><p>Wheel.</p></body></html>"),
        (
            "b/b.xhtml",
            "<html><body><p>Before.</p><h1 id='s'>Überall</h1><p>Rye <i>grows</i>.</p><span epub:type='pagebreak' title='7'/>
         <p>On page 7.</p></body></html>",
        ),
    ];

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::archive("a.epub", EPUB)
    }

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
        let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.text, "# One\n\nFirst words\n\nBroken but\n\nread …");
        assert_eq!(parsed.title.as_deref(), Some("The Book"));
        assert_eq!(parsed.author.as_deref(), Some("A. Writer"));
        let titles: Vec<&str> = parsed.headings.iter().map(|heading| heading.title.as_str()).collect();
        assert_eq!(titles, ["First", "One"]);
    }

    fn path_at(parsed: &Parsed, words: &str) -> Vec<String> {
        let at = parsed.text.find(words).unwrap();
        let mut path: Vec<&Heading> = Vec::new();
        for heading in parsed.headings.iter().filter(|heading| heading.start <= at) {
            path.retain(|above| above.level < heading.level);
            path.push(heading);
        }
        path.into_iter().map(|heading| heading.title.clone()).collect()
    }

    #[test]
    fn a_book_without_page_marks_has_no_pages_and_its_parts_are_where_the_contents_say() {
        let paragraphs = "<p>word word word word word word word word word word</p>".repeat(120);
        let b = format!("<html><body>{paragraphs}<h2 id='late'>Late</h2><p>mark</p>{paragraphs}</body></html>");
        let parsed = parse(&book("<html><body><p>x</p></body></html>", &b), &ParseLimits::default()).unwrap();
        assert_eq!(parsed.pages, []);
        let late = parsed.text.find("## Late").unwrap();
        assert_eq!(path_at(&parsed, "mark"), ["Late"]);
        let before = parsed.headings.iter().filter(|heading| heading.start < late && heading.title == "Late").count();
        assert_eq!((before, path_at(&parsed, "word")), (1, vec!["First".to_owned()]));
        assert!(parsed.text[parsed.headings[1].start..late].trim().is_empty());
    }

    #[test]
    fn pages_are_those_that_the_book_marks() {
        let marked = "<html><body><p>front</p><span epub:type='pagebreak' title='iv'/><p>roman</p>
            <span epub:type='pagebreak' id='p12' title='12'/><p>twelve</p><p>still twelve</p>
            <span role='doc-pagebreak' aria-label='page 13'/><p>thirteen</p></body></html>";
        let parsed =
            parse(&book(marked, "<html><body><p>next part</p></body></html>"), &ParseLimits::default()).unwrap();
        let on = |words: &str| {
            let at = parsed.text.find(words).unwrap();
            parsed.pages.iter().find(|page| (page.span.start..page.span.end).contains(&at)).map(|page| page.number)
        };
        let numbers = ["front", "roman", "twelve", "still", "thirteen", "next part"].map(on);
        assert_eq!(numbers, [None, None, Some(12), Some(12), Some(13), Some(13)]);
    }

    #[test]
    fn a_list_of_pages_goes_before_the_breaks_in_the_text() {
        let nav =
            "<html><body><nav epub:type='page-list'><ol><li><a href='a.xhtml#q'>77</a></li></ol></nav></body></html>";
        let bytes = zipped(&[
            ("mimetype", "application/epub+zip"),
            ("META-INF/container.xml", CONTAINER),
            ("O/c.opf", OPF),
            ("O/nav.xhtml", nav),
            ("O/a.xhtml", "<html><body><p>before</p><p id='q'>after</p></body></html>"),
        ]);
        let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
        let pages: Vec<(u32, &str)> =
            parsed.pages.iter().map(|page| (page.number, parsed.text[page.span.start..page.span.end].trim())).collect();
        assert_eq!(pages, [(77, "after")]);
    }

    #[test]
    fn numbers_of_pages_are_read_out_of_their_labels() {
        let labels = ["12", " page 12", "[p. 12]", "Page-12", "xii", "", "12a"];
        assert_eq!(labels.map(page_number), [Some(12), Some(12), Some(12), Some(12), None, None, None]);
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
        assert_eq!(parse(&drm, &ParseLimits::default()).unwrap_err(), LoadError::Encrypted);
        assert!(parse(&with("http://www.idpf.org/2008/embedding"), &ParseLimits::default()).is_ok());
    }

    #[test]
    fn a_book_with_too_many_parts_is_refused() {
        let limits = ParseLimits { pages: 2, ..ParseLimits::default() };
        assert!(matches!(parse(&book("<p/>", "<p/>"), &limits), Err(LoadError::OverLimit(_))));
    }

    #[test]
    fn deep_nesting_inside_a_book_is_refused() {
        let deep = "<div>".repeat(100_000);
        assert!(matches!(parse(&book(&deep, "<p/>"), &ParseLimits::default()), Err(LoadError::OverLimit(_))));
    }
}

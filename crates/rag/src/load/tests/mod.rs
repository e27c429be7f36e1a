//! What holds for every format: a bad file is a typed reason and never a
//! panic, and pages are stretches of the text.

mod conformance;
mod fuzz;
mod layout;
pub(super) mod pdf;
mod pins;

use super::archive::tests::zipped;
use super::*;

const DOCX: &str = "<w:document><w:body><w:p><w:r><w:t>Ünïcode — wörds</w:t></w:r></w:p>
    <w:p><w:r><w:br w:type='page'/><w:t>Second → page</w:t></w:r></w:p></w:body></w:document>";

fn docx() -> Vec<u8> {
    zipped(&[("[Content_Types].xml", "<Types/>"), ("word/document.xml", DOCX)])
}

fn epub() -> Vec<u8> {
    let container = "<container><rootfile full-path='c.opf'/></container>";
    let opf = "<package><dc:title>Bøk</dc:title><item id='a' href='a.xhtml' media-type='application/xhtml+xml'/>
        <itemref idref='a'/></package>";
    let chapter = format!("<html><body><h1>Öne</h1>{}</body></html>", "<p>Ünïcode — wörds → ok</p>".repeat(500));
    zipped(&[
        ("mimetype", "application/epub+zip"),
        ("META-INF/container.xml", container),
        ("c.opf", opf),
        ("a.xhtml", &chapter),
    ])
}

/// One small file of each format that needs no library.
fn samples() -> Vec<(&'static str, Vec<u8>, Format)> {
    vec![
        ("a.txt", "Ünïcode — wörds".into(), Format::Text),
        ("a.md", "# Ünïcode\n\nwörds".into(), Format::Markdown),
        ("a.html", "<!DOCTYPE html><title>Ünïcode</title><p>wörds".into(), Format::Html),
        ("a.docx", docx(), Format::Docx),
        ("a.epub", epub(), Format::Epub),
    ]
}

fn name_of(format: Format) -> String {
    serde_json::to_value(format).unwrap().as_str().unwrap().to_owned()
}

/// The documents of a file and of the files in it.
fn documents_in(path: &str, bytes: &[u8]) -> Vec<Document> {
    let mut documents = Vec::new();
    let limits = ParseLimits::default();
    parse_files(path, Ok(bytes), &limits, &mut |_, parsed| documents.extend(parsed));
    documents
}

/// Whether the library that a format needs is here; if not, says that its
/// tests do nothing.
fn has_library(format: Format) -> bool {
    match format.library() {
        None => true,
        Some("libpdfium") => pdf::has_library(),
        Some(other) => panic!("no test knows where `{other}` lies"),
    }
}

/// Pages are in order, without overlap, inside the text, at character boundaries.
pub(super) fn assert_pages_fit(document: &Document) {
    let mut end = 0;
    for page in &document.pages {
        assert!(page.span.start >= end && page.span.end >= page.span.start);
        assert!(document.text.get(page.span.start..page.span.end).is_some());
        end = page.span.end;
    }
    assert!(document.headings.is_sorted_by_key(|heading| heading.start));
    assert!(document.headings.iter().all(|heading| document.text.is_char_boundary(heading.start)));
}

/// Tables are in order, without overlap, and their lines have as many rows and columns as they say.
pub(super) fn assert_tables_fit(document: &Document) {
    let mut end = 0;
    for table in &document.tables {
        assert!(table.span.start >= end, "{table:?}");
        let cells = table.cells(&document.text);
        assert_eq!(cells.len(), table.rows as usize, "{table:?}");
        assert!(cells.iter().all(|row| row.len() == table.columns as usize), "{table:?}: {cells:?}");
        assert!(table.header_rows <= table.rows);
        end = table.span.end;
    }
}

#[test]
fn every_format_is_parsed_whatever_its_name() {
    for (name, bytes, format) in samples() {
        for path in [name, "folder/wrong.txt", "folder/wrong.pdf"] {
            let document = match parse(path, &bytes, &ParseLimits::default()) {
                // Text that is named as a book is what is left of a failed download.
                Err(LoadError::Mislabelled { .. }) if path.ends_with(".pdf") => {
                    assert!(matches!(format, Format::Text | Format::Markdown | Format::Html), "{name}");
                    continue;
                }
                document => document.unwrap(),
            };
            let expected = if format == Format::Markdown && path != name { Format::Text } else { format };
            assert_eq!((document.format, document.path.as_str()), (expected, path));
            assert!(document.text.contains("wörds"));
            assert_pages_fit(&document);
        }
    }
}

#[test]
fn equal_files_give_equal_documents() {
    for (name, bytes, _) in samples() {
        let read = || parse(name, &bytes, &ParseLimits::default()).unwrap();
        assert_eq!(read(), read());
    }
}

#[test]
fn pages_of_books_and_office_files_are_kept() {
    let docx = parse("a.docx", &docx(), &ParseLimits::default()).unwrap();
    assert_eq!(docx.pages.len(), 2);
    assert_eq!(docx.page_at(docx.text.find("Second").unwrap()).unwrap().number, 2);
    let epub = parse("a.epub", &epub(), &ParseLimits::default()).unwrap();
    let headings: Vec<&str> = epub.headings.iter().map(|heading| heading.title.as_str()).collect();
    assert_eq!((epub.pages.len(), headings.as_slice()), (0, &["Öne"][..]));
}

#[test]
fn damaged_files_never_panic() {
    for (name, bytes, _) in samples() {
        for cut in 0..bytes.len().min(2000) {
            if let Ok(document) = parse(name, &bytes[..cut], &ParseLimits::default()) {
                assert_pages_fit(&document);
            }
        }
        for at in 0..bytes.len().min(2000) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xA5;
            if let Ok(document) = parse(name, &damaged, &ParseLimits::default()) {
                assert_pages_fit(&document);
            }
        }
    }
}

#[test]
fn a_cut_archive_is_broken() {
    for (name, bytes) in [("a.docx", docx()), ("a.epub", epub())] {
        let cut = parse(name, &bytes[..bytes.len() / 2], &ParseLimits::default());
        assert!(matches!(cut, Err(LoadError::Broken(_))), "{cut:?}");
    }
}

#[test]
fn files_without_text_are_empty() {
    for (name, bytes) in
        [("a.txt", &b""[..]), ("a.txt", b" \n\t "), ("a.html", b"<p><img src=x></p>"), ("a.md", b"\xEF\xBB\xBF")]
    {
        assert!(matches!(parse(name, bytes, &ParseLimits::default()), Err(LoadError::Empty(_))));
    }
    let docx = zipped(&[("word/document.xml", "<w:document><w:p/></w:document>")]);
    assert!(matches!(parse("a.docx", &docx, &ParseLimits::default()), Err(LoadError::Empty(_))));
}

#[test]
fn bombs_are_refused() {
    let zeros = "0".repeat(3_000_000);
    let limits = ParseLimits { unpacked_bytes: 1_000_000, ..ParseLimits::default() };
    let docx = zipped(&[("word/document.xml", DOCX), ("word/media/zeros", &zeros)]);
    assert!(matches!(parse("a.docx", &docx, &limits), Err(LoadError::OverLimit(_))));
    let epub = zipped(&[("META-INF/container.xml", "<container/>"), ("zeros", &zeros)]);
    assert!(matches!(parse("a.epub", &epub, &limits), Err(LoadError::OverLimit(_))));
    let deep = "<div>".repeat(100_000);
    assert!(matches!(parse("a.html", deep.as_bytes(), &ParseLimits::default()), Err(LoadError::OverLimit(_))));
    let large = ParseLimits { file_bytes: 3, ..ParseLimits::default() };
    assert!(matches!(parse("a.txt", b"four", &large), Err(LoadError::OverLimit(_))));
}

#[test]
fn a_small_file_that_unpacks_to_a_huge_text_is_refused_by_ratio() {
    let words = format!(
        "<w:document><w:body><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:body></w:document>",
        "word ".repeat(8 << 20)
    );
    let docx = zipped(&[("[Content_Types].xml", "<Types/>"), ("word/document.xml", &words)]);
    assert!(docx.len() < 300_000);
    let refused = parse("a.docx", &docx, &ParseLimits::default()).unwrap_err();
    assert!(matches!(&refused, LoadError::OverLimit(reason) if reason.contains("word/document.xml")), "{refused}");
    let page = format!("<html><body><p>{}</p></body></html>", "word ".repeat(8 << 20));
    let epub = zipped(&[
        ("mimetype", "application/epub+zip"),
        ("META-INF/container.xml", "<container><rootfile full-path='c.opf'/></container>"),
        (
            "c.opf",
            "<package><item id='a' href='a.xhtml' media-type='application/xhtml+xml'/><itemref idref='a'/></package>",
        ),
        ("a.xhtml", &page),
    ]);
    assert!(matches!(parse("a.epub", &epub, &ParseLimits::default()), Err(LoadError::OverLimit(_))));
    let generous = ParseLimits { expansion: 10_000, ..ParseLimits::default() };
    assert!(parse("a.docx", &docx, &generous).is_ok());
    let capped = ParseLimits { text_bytes: 1 << 20, ..generous };
    assert!(matches!(parse("a.docx", &docx, &capped), Err(LoadError::OverLimit(_))));
}

#[test]
fn invalid_text_is_read_as_well_as_it_goes() {
    let document = parse("a.txt", b"abc \xFF\xFE\x80 def", &ParseLimits::default()).unwrap();
    assert!(document.text.starts_with("abc ") && document.text.ends_with(" def"));
}

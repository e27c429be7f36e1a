//! `load::docx`: a word-processor file as Markdown: headings by style, lists
//! (`- `, whatever their numbering), tables, footnotes at the end. Pages are
//! those that the word processor laid out when it last saved the file; files
//! that were never laid out have none.

use super::archive::Archive;
use super::docx_body::Body;
use super::docx_styles::{Notes, Styles};
use super::format::{Entries, FileFormat, NO_TEXT, Signature};
use super::office_package::{main_part, with_core_properties};
use super::xml;
use super::{LoadError, ParseLimits, Parsed};

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["docx"],
    signature: Signature::Archive(is_docx),
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

fn is_docx(entries: &Entries<'_>) -> bool {
    entries.has("word/document.xml") || (entries.has("[Content_Types].xml") && entries.has_folder("word/"))
}

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let mut archive = Archive::open(bytes, limits)?;
    let main = main_part(&mut archive, "word/document.xml", limits)?;
    let folder = main.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut part = |name: &str| -> Result<Option<String>, LoadError> {
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        Ok(archive.read(&path)?.map(|bytes| xml::decode(&bytes)))
    };
    let styles = part("styles.xml")?.map(|text| Styles::parse(&text, limits)).transpose()?.unwrap_or_default();
    let mut notes = Notes::default();
    for kind in ["footnote", "endnote"] {
        if let Some(text) = part(&format!("{kind}s.xml"))? {
            notes.parse(kind, &text, limits)?;
        }
    }
    let document = xml::decode(&archive.require(&main)?);
    with_core_properties(Body::new(&styles, &notes, limits).read(&document)?, &mut archive, limits)
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::zipped;
    use super::*;
    use crate::load::format::sample::Sample;

    const DOCX: &[(&str, &str)] = &[
        ("[Content_Types].xml", "<Types/>"),
        (
            "docProps/core.xml",
            "<cp:coreProperties><dc:title>Mills</dc:title><dc:creator>A. Writer</dc:creator></cp:coreProperties>",
        ),
        (
            "word/styles.xml",
            "<w:styles><w:style w:type='paragraph' w:styleId='H1'><w:name w:val='heading 1'/></w:style>
         <w:style w:type='paragraph' w:styleId='H2'><w:name w:val='heading 2'/></w:style></w:styles>",
        ),
        (
            "word/document.xml",
            "<w:document><w:body><w:p><w:pPr><w:pStyle w:val='H1'/></w:pPr><w:r><w:t>Mills</w:t></w:r></w:p>
         <w:p><w:r><w:t xml:space='preserve'>A mill </w:t></w:r><w:r><w:t>grinds rye.</w:t><w:tab/><w:t>Ünïcode</w:t></w:r></w:p>
         <w:p><w:pPr><w:numPr><w:ilvl w:val='0'/><w:numId w:val='1'/></w:numPr></w:pPr><w:r><w:t>wheel</w:t></w:r></w:p>
         <w:tbl><w:tr><w:tc><w:p><w:r><w:t>part</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>m</w:t></w:r></w:p></w:tc></w:tr>
         <w:tr><w:tc><w:p><w:r><w:t>wheel</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>3</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
         <w:p><w:r><w:br w:type='page'/></w:r></w:p>
         <w:p><w:pPr><w:pStyle w:val='H2'/></w:pPr><w:r><w:t>Parts</w:t></w:r></w:p><w:p><w:r><w:t>Second page.</w:t></w:r></w:p>
         </w:body></w:document>",
        ),
    ];

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::archive("a.docx", DOCX)
    }

    const STYLES: &str = "<w:styles><w:style w:styleId='Kop1'><w:name w:val='heading 1'/></w:style>
        <w:style w:styleId='Mine'><w:name w:val='Mine'/><w:basedOn w:val='Kop2'/></w:style>
        <w:style w:styleId='Kop2'><w:name w:val='Kop'/><w:basedOn w:val='Mine'/><w:pPr><w:outlineLvl w:val='1'/></w:pPr></w:style>
        <w:style w:styleId='Inhopg1'><w:name w:val='toc 1'/></w:style></w:styles>";

    fn document(body: &str) -> Vec<u8> {
        zipped(&[
            ("[Content_Types].xml", "<Types/>"),
            ("word/document.xml", &format!("<w:document><w:body>{body}</w:body></w:document>")),
            ("word/styles.xml", STYLES),
            (
                "word/footnotes.xml",
                "<w:footnotes><w:footnote w:type='separator' w:id='0'><w:p/></w:footnote>
                <w:footnote w:id='2'><w:p><w:r><w:t>The note.</w:t></w:r></w:p></w:footnote></w:footnotes>",
            ),
            (
                "docProps/core.xml",
                "<cp:coreProperties><dc:title>A title</dc:title><dc:creator>B &amp; C</dc:creator></cp:coreProperties>",
            ),
        ])
    }

    fn paragraph(style: &str, text: &str) -> String {
        format!("<w:p><w:pPr><w:pStyle w:val='{style}'/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
    }

    #[test]
    fn headings_lists_and_notes_become_markdown() {
        let body = paragraph("Kop1", "One")
            + &paragraph("Mine", "Two")
            + &paragraph("Inhopg1", "One 1")
            + "<w:p><w:r><w:t>Split </w:t></w:r><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink>
               <w:r><w:footnoteReference w:id='2'/></w:r><w:del><w:r><w:t>gone</w:t></w:r></w:del></w:p>"
            + "<w:p><w:pPr><w:numPr><w:ilvl w:val='0'/><w:numId w:val='1'/></w:numPr></w:pPr><w:r><w:t>a</w:t></w:r></w:p>"
            + "<w:p><w:pPr><w:numPr><w:ilvl w:val='1'/><w:numId w:val='1'/></w:numPr></w:pPr><w:r><w:t>b</w:t></w:r></w:p>";
        let parsed = parse(&document(&body), &ParseLimits::default()).unwrap();
        assert_eq!(parsed.text, "# One\n\n## Two\n\nSplit link[^1]\n\n- a\n  - b\n\n[^1]: The note.");
        assert_eq!((parsed.title.as_deref(), parsed.author.as_deref()), (Some("A title"), Some("B & C")));
        assert!(parsed.pages.is_empty());
    }

    #[test]
    fn tables_become_rows() {
        let cell = |text: &str| format!("<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>");
        let row = |one: &str, two: &str| format!("<w:tr>{}{}</w:tr>", cell(one), cell(two));
        let body = format!("<w:tbl>{}{}</w:tbl>", row("a", "b"), row("1", "2"));
        let parsed = parse(&document(&body), &ParseLimits::default()).unwrap();
        assert_eq!(parsed.text, "| a | b |\n| --- | --- |\n| 1 | 2 |");
    }

    #[test]
    fn page_breaks_make_pages_and_double_breaks_count_once() {
        let body = paragraph("Kop1", "First")
            + "<w:p><w:r><w:t>before</w:t><w:br w:type='page'/></w:r></w:p>
               <w:p><w:r><w:lastRenderedPageBreak/><w:t>after </w:t><w:lastRenderedPageBreak/><w:t>third</w:t></w:r></w:p>";
        let parsed = parse(&document(&body), &ParseLimits::default()).unwrap();
        let pages: Vec<&str> =
            parsed.pages.iter().map(|page| parsed.text[page.span.start..page.span.end].trim()).collect();
        assert_eq!(pages, ["# First\n\nbefore", "after", "third"]);
        assert_eq!(parsed.pages[2].number, 3);
        let headings: Vec<(usize, &str)> =
            parsed.headings.iter().map(|heading| (heading.start, heading.title.as_str())).collect();
        assert_eq!(headings, [(0, "First")]);
    }

    #[test]
    fn a_note_that_is_referred_to_often_is_written_once() {
        let reference = "<w:r><w:footnoteReference w:id='2'/></w:r>";
        let body = format!("<w:p><w:r><w:t>x</w:t></w:r>{}</w:p>", reference.repeat(1000));
        let parsed = parse(&document(&body), &ParseLimits::default()).unwrap();
        assert_eq!(parsed.text.matches("The note.").count(), 1);
        assert!(parsed.text.contains("[^1][^1]") && !parsed.text.contains("[^2]"));
    }

    #[test]
    fn damaged_deep_and_trapped_files_are_refused() {
        let cut = zipped(&[("word/document.xml", "<w:document><w:body><w:p>")]);
        assert!(matches!(parse(&cut, &ParseLimits::default()), Err(LoadError::Broken(_))));
        let deep = zipped(&[("word/document.xml", &"<w:sdt>".repeat(100_000))]);
        assert!(matches!(parse(&deep, &ParseLimits::default()), Err(LoadError::OverLimit(_))));
        let bomb = "<!DOCTYPE d [<!ENTITY b 'boom'>]><w:document><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:document>";
        assert!(matches!(
            parse(&zipped(&[("word/document.xml", bomb)]), &ParseLimits::default()),
            Err(LoadError::Broken(_))
        ));
        assert!(matches!(parse(&zipped(&[("x", "y")]), &ParseLimits::default()), Err(LoadError::Broken(_))));
    }
}

//! `load::odt`: an OpenDocument text: headings, paragraphs, lists and tables, footnotes at the end. Pages are those that
//! the word processor laid out when it last saved the file; files that lack their marks have none.

use super::format::{Entries, FileFormat, NO_TEXT, Signature};
use super::open_document::{is_type, parse};

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["odt", "ott"],
    signature: Signature::Archive(is_odt),
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

fn is_odt(entries: &Entries<'_>) -> bool {
    is_type(entries, "text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::archive::tests::zipped;
    use crate::load::format::sample::Sample;
    use crate::load::{LoadError, ParseLimits};
    use crate::types::MergedCells;

    const CONTENT: &str = "<office:document-content><office:automatic-styles><style:style style:name='s'/></office:automatic-styles>
        <office:body><office:text>
        <text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>
        <text:h text:outline-level='1'>Mills</text:h>
        <text:p>A mill<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Or a quern.</text:p></text:note-body></text:note>
           grinds<text:s text:c='2'/>rye,<text:line-break/><text:span>slowly</text:span>.<office:annotation><text:p>why?</text:p></office:annotation></text:p>
        <text:list><text:list-item><text:p>wheel</text:p><text:list><text:list-item><text:p>of oak</text:p></text:list-item></text:list></text:list-item>
          <text:list-item><text:p>stone</text:p></text:list-item></text:list>
        <text:soft-page-break/><text:h text:outline-level='2'>Größen</text:h>
        <table:table><table:table-header-rows><table:table-row><table:table-cell table:number-columns-spanned='2'><text:p>size</text:p></table:table-cell><table:covered-table-cell/></table:table-row></table:table-header-rows>
          <table:table-row><table:table-cell><text:p>1</text:p></table:table-cell><table:table-cell><text:p>2</text:p><text:p>3</text:p></table:table-cell></table:table-row>
          <table:table-row><table:table-cell table:number-columns-repeated='2'><text:p>same</text:p></table:table-cell></table:table-row></table:table>
        </office:text></office:body></office:document-content>";
    const META: &str = "<office:document-meta><office:meta><dc:title>Of mills</dc:title><meta:initial-creator>A. Writer</meta:initial-creator>
        <dc:creator>B. Editor</dc:creator><dc:date>2024-05-01T10:00:00</dc:date></office:meta></office:document-meta>";

    fn entries() -> Vec<(&'static str, &'static str)> {
        vec![("mimetype", "application/vnd.oasis.opendocument.text"), ("content.xml", CONTENT), ("meta.xml", META)]
    }

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::archive("a.odt", &entries())
    }

    #[test]
    fn text_is_read_with_its_headings_lists_tables_and_notes() {
        let parsed = parse(&sample().bytes, &ParseLimits::default()).unwrap();
        let expected = "# Mills\n\nA mill[^1] grinds  rye,\nslowly.\n\n- wheel\n  - of oak\n- stone\n\n## Größen\n\n\
                        | size |  |\n| --- | --- |\n| 1 | 2 3 |\n| same | same |\n\n[^1]: Or a quern.";
        assert_eq!(parsed.text, expected);
        assert_eq!((parsed.title.as_deref(), parsed.author.as_deref()), (Some("Of mills"), Some("A. Writer")));
        assert_eq!(parsed.pages.len(), 2);
        assert_eq!(parsed.tables[0].merged, [MergedCells { row: 0, column: 0, rows: 1, columns: 2 }]);
    }

    #[test]
    fn an_encrypted_file_is_told_as_one() {
        let manifest = "<manifest:manifest><manifest:encryption-data/></manifest:manifest>";
        let bytes = zipped(&[&entries()[..], &[("META-INF/manifest.xml", manifest)]].concat());
        assert_eq!(parse(&bytes, &ParseLimits::default()).unwrap_err(), LoadError::Encrypted);
    }
}

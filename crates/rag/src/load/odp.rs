//! `load::odp`: an OpenDocument presentation: each slide is a page with its title as a heading, the text of its frames,
//! its tables, and the notes of the speaker. Text in pictures and charts is not read.

use super::format::{Entries, FileFormat, NO_TEXT, Signature};
use super::open_document::{is_type, parse};

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["odp", "otp"],
    signature: Signature::Archive(is_odp),
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

fn is_odp(entries: &Entries<'_>) -> bool {
    is_type(entries, "presentation")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::ParseLimits;
    use crate::load::format::sample::Sample;
    use crate::types::ReadingProblemKind;

    const CONTENT: &str = "<office:document-content><office:automatic-styles><style:style style:name='h' style:family='drawing-page'>
        <style:drawing-page-properties presentation:visibility='hidden'/></style:style></office:automatic-styles>
        <office:body><office:presentation>
        <draw:page draw:name='one'><draw:frame presentation:class='title'><draw:text-box><text:p>Mills &amp; <text:span>rye</text:span></text:p></draw:text-box></draw:frame>
          <draw:frame presentation:class='outline'><draw:text-box><text:list><text:list-item><text:p>wheel</text:p></text:list-item><text:list-item><text:p>stone</text:p></text:list-item></text:list></draw:text-box></draw:frame>
          <draw:frame><table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell><table:table-cell><text:p>b</text:p></table:table-cell></table:table-row>
            <table:table-row><table:table-cell><text:p>1</text:p></table:table-cell><table:table-cell><text:p>2</text:p></table:table-cell></table:table-row></table:table></draw:frame>
          <presentation:notes><draw:page-thumbnail/><draw:frame presentation:class='notes'><draw:text-box><text:p>Say it slowly.</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>
        <draw:page draw:style-name='h'><draw:frame><draw:text-box><text:p>Größen.</text:p></draw:text-box></draw:frame></draw:page>
        </office:presentation></office:body></office:document-content>";

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        let entries = [("mimetype", "application/vnd.oasis.opendocument.presentation"), ("content.xml", CONTENT)];
        Sample::archive("a.odp", &entries)
    }

    #[test]
    fn slides_are_pages_with_their_notes() {
        let parsed = parse(&sample().bytes, &ParseLimits::default()).unwrap();
        let expected = "# Mills & rye\n\n- wheel\n- stone\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\nNotes: Say it slowly.\n\nGrößen.";
        assert_eq!(parsed.text, expected);
        let pages: Vec<&str> = parsed.pages.iter().map(|page| &parsed.text[page.span.start..page.span.end]).collect();
        assert!(pages.len() == 2 && pages[0].ends_with("slowly.") && pages[1] == "Größen.");
        assert_eq!(parsed.problems[0].kind, ReadingProblemKind::HiddenPart);
    }
}

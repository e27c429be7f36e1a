//! `load::tsv`: values separated by tabs, as a table. The first row holds the names of the columns.

use super::csv;
use super::format::{FileFormat, NO_TEXT, Signature};

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["tsv", "tab"],
    signature: Signature::Name,
    parse: |bytes, limits| csv::parse(bytes, Some(b'\t'), limits),
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: || super::format::sample::Sample::plain("a.tsv", b"part\tm, long\nwheel\t3\n"),
};

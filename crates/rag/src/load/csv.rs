//! `load::csv`: values separated by commas or semicolons, as a table. The first row holds the names of the columns.

use super::format::{FileFormat, NO_TEXT, Signature};
use super::sheet::Sheet;
use super::{LoadError, ParseLimits, Parsed, text};

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["csv"],
    signature: Signature::Name,
    parse: |bytes, limits| parse(bytes, None, limits),
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

/// What separates values, if the name of the file does not say it.
const SEPARATORS: [u8; 4] = *b",;\t|";
/// How many rows are looked at to find the separator.
const TRIED_ROWS: usize = 20;

/// Reads a table of values with this separator, or with the one that its first rows have.
pub(super) fn parse(bytes: &[u8], separator: Option<u8>, limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let text::Decoded { text, problems } = text::read(bytes, None);
    let mut parsed = Parsed { problems, ..Parsed::default() };
    let separator = separator.unwrap_or_else(|| separator_of(&text));
    let mut sheet = Sheet::default();
    for (row, record) in (0..).zip(reader(&text, separator).records()) {
        let record = record.map_err(|error| LoadError::Broken(format!("row {}: {error}", row + 1)))?;
        for (column, value) in (0..).zip(&record) {
            sheet.push((row, column), value.to_owned(), (1, 1), limits)?;
        }
    }
    sheet.finish(None, false, &mut parsed, limits)?;
    Ok(parsed)
}

fn reader(text: &str, separator: u8) -> ::csv::Reader<&[u8]> {
    ::csv::ReaderBuilder::new().delimiter(separator).has_headers(false).flexible(true).from_reader(text.as_bytes())
}

/// The separator by which the first rows have the same number of columns, and many.
fn separator_of(text: &str) -> u8 {
    let columns = |separator: u8| {
        let records = reader(text, separator).into_records().take(TRIED_ROWS);
        let widths: Vec<usize> = records.filter_map(Result::ok).map(|record| record.len()).collect();
        let first = widths.first().copied().unwrap_or(0);
        let same = widths.iter().filter(|width| **width == first).count();
        (first > 1, same, first)
    };
    // Of equal ones, the first in the list.
    SEPARATORS.into_iter().rev().max_by_key(|separator| columns(*separator)).unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::format::sample::Sample;

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::plain("a.csv", "part;größe\nwheel;\"3,5\"\n\"two\nlines\";\"a \"\"b\"\" | c\"\n".as_bytes())
    }

    fn read(text: &str) -> Parsed {
        parse(text.as_bytes(), None, &ParseLimits::default()).unwrap()
    }

    #[test]
    fn rows_are_those_of_a_table_whatever_separates_values() {
        for text in ["a,b\n1,\"2\n3\"\n", "a;b\r\n1;2 3\r\n", "a\tb\n1\t2 3", "a|b\n1|2 3"] {
            assert_eq!(read(text).text, "| a | b |\n| --- | --- |\n| 1 | 2 3 |", "{text:?}");
        }
        assert_eq!(read("a;b\n1,5;2,5\n").tables[0].columns, 2, "commas inside values");
    }

    #[test]
    fn rows_of_different_lengths_are_padded() {
        assert_eq!(read("a,b,c\n1\n2,3,4\n").text, "| a | b | c |\n| --- | --- | --- |\n| 1 |  |  |\n| 2 | 3 | 4 |");
    }

    #[test]
    fn one_column_is_lines() {
        assert_eq!(read("one\ntwo\n").text, "one\ntwo");
    }
}

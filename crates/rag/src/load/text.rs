//! `load::text`: plain text, and the decoding that every text-like format
//! shares: byte order marks, declared encodings, UTF-8, UTF-16 without a mark,
//! Windows-1252 as the last resort. Line ends become `\n`.

use super::format::{FileFormat, NO_TEXT, Signature};
use super::{LoadError, Parsed};
use crate::types::{ReadingProblem, ReadingProblemKind};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use std::borrow::Cow;

/// What stands in the place of bytes that mean no character.
const REPLACED: char = '\u{fffd}';

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["txt", "text", "rst", "adoc", "org"],
    signature: Signature::Name,
    parse: |bytes, _| parse(bytes),
    inner_files: None,
    keeps_headings: false,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

/// Reads a plain text file. It has no title, author or pages.
fn parse(bytes: &[u8]) -> Result<Parsed, LoadError> {
    let Decoded { text, problems } = read(bytes, None);
    Ok(Parsed { text, problems, ..Parsed::default() })
}

/// A text, and what was doubtful about its bytes.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) text: String,
    pub(super) problems: Vec<ReadingProblem>,
}

/// Decodes a text as [`decode`] does, and notes what was guessed or replaced.
pub(super) fn read(bytes: &[u8], declared: Option<&str>) -> Decoded {
    let text = decode(bytes, declared);
    let mut problems = Vec::new();
    let mut tell = |kind, detail| problems.push(ReadingProblem { kind, page: None, detail });
    let replaced = text.matches(REPLACED).count();
    if replaced > 0 {
        let characters = if replaced == 1 { "character stands" } else { "characters stand" };
        tell(ReadingProblemKind::ReplacedCharacters, format!("{replaced} {characters} as U+FFFD"));
    }
    let is_known = Encoding::for_bom(bytes).is_some() || utf16_without_mark(bytes).is_some();
    let is_declared =
        declared.and_then(|label| Encoding::for_label(label.trim().as_bytes())).is_some_and(|it| it != UTF_8);
    if !is_known && !is_declared && std::str::from_utf8(bytes).is_err() && !mostly_utf8(bytes) {
        let detail = "it is not UTF-8 and names no encoding; read as Windows-1252".to_owned();
        tell(ReadingProblemKind::GuessedEncoding, detail);
    }
    Decoded { text, problems }
}

/// Turns bytes into text. `declared` is an encoding's label that the content
/// names for itself (`charset=…`); bytes that are valid UTF-8 overrule it,
/// because wrong labels are common and accidental UTF-8 is not.
pub(super) fn decode(bytes: &[u8], declared: Option<&str>) -> String {
    let declared = declared.and_then(|label| Encoding::for_label(label.trim().as_bytes()));
    let text = match Encoding::for_bom(bytes) {
        Some((encoding, length)) => encoding.decode_without_bom_handling(&bytes[length..]).0,
        None => decode_unmarked(bytes, declared),
    };
    normalise(text)
}

fn decode_unmarked<'a>(bytes: &'a [u8], declared: Option<&'static Encoding>) -> Cow<'a, str> {
    // Text in UTF-16 or ISO-2022-JP can also be valid UTF-8, so both go first.
    if let Some(encoding) = utf16_without_mark(bytes) {
        return encoding.decode_without_bom_handling(bytes).0;
    }
    if declared == Some(ISO_2022_JP) {
        return ISO_2022_JP.decode_without_bom_handling(bytes).0;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let declared = declared.filter(|encoding| *encoding != UTF_8);
    let encoding = declared.unwrap_or_else(|| if mostly_utf8(bytes) { UTF_8 } else { WINDOWS_1252 });
    encoding.decode_without_bom_handling(bytes).0
}

/// UTF-16 is recognised by NUL bytes that are all on one side of each pair.
pub(super) fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let sample = &bytes[..bytes.len().min(4096) & !1];
    let (mut even, mut odd) = (0usize, 0usize);
    for pair in sample.chunks_exact(2) {
        even += usize::from(pair[0] == 0);
        odd += usize::from(pair[1] == 0);
    }
    let pairs = sample.len() / 2;
    let many = |count: usize| count * 10 >= pairs * 3;
    let few = |count: usize| count * 50 <= pairs;
    match (pairs >= 4, even, odd) {
        (true, even, odd) if many(odd) && few(even) => Some(UTF_16LE),
        (true, even, odd) if many(even) && few(odd) => Some(UTF_16BE),
        _ => None,
    }
}

/// Whether damaged UTF-8 is more likely than another encoding: one bad byte
/// must not turn every accent of a long file into two wrong characters.
fn mostly_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut bad) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().bytes().filter(|byte| *byte >= 0xC0).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > bad
}

fn normalise(text: Cow<'_, str>) -> String {
    let odd = |byte: u8| byte == b'\r' || byte == 0;
    if !text.bytes().any(odd) && !text.contains('\u{feff}') {
        return text.into_owned();
    }
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' => {
                characters.next_if_eq(&'\n');
                clean.push('\n');
            }
            '\0' | '\u{feff}' => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::format::sample::Sample;

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::plain("a.txt", b"\xEF\xBB\xBFOne line.\r\nAnother \xFF one.\n\n\n\nLast\x0C page")
    }

    #[test]
    fn utf8_is_kept_and_line_ends_are_unified() {
        assert_eq!(decode("a\r\nb\rc\n→".as_bytes(), None), "a\nb\nc\n→");
    }

    #[test]
    fn byte_order_marks_decide() {
        assert_eq!(decode(b"\xEF\xBB\xBFhi", Some("windows-1252")), "hi");
        assert_eq!(decode(b"\xFF\xFEh\0\xE9\0", None), "hé");
        assert_eq!(decode(b"\xFE\xFF\0h\0i", None), "hi");
    }

    #[test]
    fn utf16_without_a_mark_is_found() {
        let bytes: Vec<u8> = "plain words".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decode(&bytes, None), "plain words");
    }

    #[test]
    fn latin_text_is_read_as_windows_1252_or_as_declared() {
        assert_eq!(decode(b"caf\xE9 \x93x\x94", None), "café “x”");
        assert_eq!(decode(b"\xE9\xE8", Some("iso-8859-2")), "éč");
    }

    #[test]
    fn one_bad_byte_does_not_spoil_the_accents() {
        let mut bytes = "déjà vu — naïve".as_bytes().to_vec();
        bytes.push(0xFF);
        assert_eq!(decode(&bytes, None), "déjà vu — naïve\u{fffd}");
    }

    #[test]
    fn a_wrong_label_does_not_overrule_valid_utf8() {
        assert_eq!(decode("é".as_bytes(), Some("iso-8859-1")), "é");
    }
}

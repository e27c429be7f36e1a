//! The words by which the text of documents is recognised in other texts: answers of models, lines of logs, notes.
//!
//! A text is cut into words without case, punctuation and white space. Whatever shares eight words in a row with a document
//! holds its text; so does what holds a whole sentence of it, if that is shorter. Words that another document has in the
//! same order, such as a notice that stands in many files, are no sign of this one.

use std::collections::HashSet;

/// Words in a row that are no coincidence.
const WORDS: usize = 8;
/// The fewest words of a whole sentence that is recognised.
const FEWEST: usize = 3;
/// The fewest characters of eight words in a row, so that a row of numbers or letters is no sign.
const CHARACTERS: usize = 24;
/// The fewest characters of a sentence that has fewer words.
const OF_SENTENCE: usize = 14;
/// A character of a script without spaces between words counts as so many letters.
const LETTERS: usize = 3;

/// A text as its words.
struct TextWords {
    hashes: Vec<u64>,
    /// The number of characters before each word, and of all words.
    characters: Vec<usize>,
    /// The places of the words before which a sentence begins, and the end.
    sentences: Vec<usize>,
}

impl TextWords {
    fn of(text: &str) -> Self {
        let mut words = Self { hashes: Vec::new(), characters: vec![0], sentences: vec![0] };
        let mut open = OpenWord::default();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if is_without_spaces(c) {
                words.push(&mut open);
                open.add(c, LETTERS);
                words.push(&mut open);
            } else if c.is_alphanumeric() {
                c.to_lowercase().for_each(|c| open.add(c, 0));
                open.letters += 1;
            } else {
                words.push(&mut open);
                // An escaped character of JSON in JSON: `\n` is a line break and no letter.
                let escaped = chars.peek().copied().filter(|_| c == '\\');
                if let Some(next) = escaped.filter(|next| "nrtbf\"\\/".contains(*next)) {
                    chars.next();
                    if next == 'n' {
                        words.end_sentence();
                    }
                }
                if "\n.!?;:。！？；：".contains(c) {
                    words.end_sentence();
                }
            }
        }
        words.push(&mut open);
        words.end_sentence();
        words
    }

    fn push(&mut self, open: &mut OpenWord) {
        if open.letters > 0 {
            let before = self.characters.last().copied().unwrap_or_default();
            self.hashes.push(open.hash);
            self.characters.push(before + open.letters);
        }
        *open = OpenWord::default();
    }

    fn end_sentence(&mut self) {
        if self.sentences.last() != Some(&self.hashes.len()) {
            self.sentences.push(self.hashes.len());
        }
    }

    /// The hash of these words in a row.
    fn row(&self, from: usize, length: usize) -> u64 {
        let mix = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(PRIME).rotate_left(29) ^ hash;
        self.hashes[from..from + length].iter().fold(BASIS ^ length as u64, mix)
    }

    fn letters(&self, from: usize, length: usize) -> usize {
        self.characters[from + length] - self.characters[from]
    }

    /// The rows of eight words.
    fn rows(&self) -> impl Iterator<Item = u64> {
        let starts = 0..(self.hashes.len() + 1).saturating_sub(WORDS);
        starts.filter(|&from| self.letters(from, WORDS) >= CHARACTERS).map(|from| self.row(from, WORDS))
    }

    /// The sentences that have fewer words, with their lengths.
    fn short_sentences(&self) -> impl Iterator<Item = (usize, u64)> {
        self.sentences.windows(2).filter_map(|bounds| {
            let (from, length) = (bounds[0], bounds[1] - bounds[0]);
            let is_one = (FEWEST..WORDS).contains(&length) && self.letters(from, length) >= OF_SENTENCE;
            is_one.then(|| (length, self.row(from, length)))
        })
    }
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

struct OpenWord {
    /// FNV-1a over the characters; it never leaves this process.
    hash: u64,
    letters: usize,
}

impl Default for OpenWord {
    fn default() -> Self {
        Self { hash: BASIS, letters: 0 }
    }
}

impl OpenWord {
    fn add(&mut self, c: char, letters: usize) {
        self.hash = (self.hash ^ u64::from(u32::from(c))).wrapping_mul(PRIME);
        self.letters += letters;
    }
}

/// Whether a character belongs to a script that puts no spaces between words.
fn is_without_spaces(c: char) -> bool {
    matches!(u32::from(c), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x2E80..=0x2FDF | 0x3040..=0x30FF
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
        && c.is_alphanumeric()
}

/// The words of some documents.
#[derive(Debug, Clone, Default)]
pub(super) struct TextFingerprint {
    /// Hashes of rows of words: of eight, and of whole sentences that are shorter.
    rows: HashSet<u64>,
    /// Which lengths the shorter ones have.
    lengths: [bool; WORDS],
}

impl TextFingerprint {
    /// Adds the text of a document.
    pub(super) fn add(&mut self, text: &str) {
        let words = TextWords::of(text);
        self.rows.extend(words.rows());
        for (length, row) in words.short_sentences() {
            self.lengths[length] = true;
            self.rows.insert(row);
        }
    }

    /// Adds the words of other documents.
    pub(super) fn join(&mut self, other: Self) {
        self.rows.extend(other.rows);
        for (own, lengths) in self.lengths.iter_mut().zip(other.lengths) {
            *own |= lengths;
        }
    }

    /// The rows of words that another document has in the same order.
    pub(super) fn shared_rows(&self, other: &str) -> Vec<u64> {
        let mut rows = self.rows_of(&TextWords::of(other));
        rows.retain(|row| self.rows.contains(row));
        rows
    }

    /// Leaves out rows of words, so that they are no sign of the documents any more.
    pub(super) fn leave_out(&mut self, rows: impl IntoIterator<Item = u64>) {
        for row in rows {
            self.rows.remove(&row);
        }
    }

    /// Whether it recognises anything.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a text holds text of the documents.
    pub(super) fn is_in(&self, text: &str) -> bool {
        // A text that is shorter than any sentence needs no look.
        if self.rows.is_empty() || text.len() < FEWEST {
            return false;
        }
        let words = TextWords::of(text);
        self.rows_of(&words).iter().any(|row| self.rows.contains(row))
    }

    /// All rows of a text that may be among those of the documents.
    fn rows_of(&self, words: &TextWords) -> Vec<u64> {
        let mut rows: Vec<u64> = words.rows().collect();
        for length in (FEWEST..WORDS).filter(|&length| self.lengths[length]) {
            let starts = 0..(words.hashes.len() + 1).saturating_sub(length);
            let long = starts.filter(|&from| words.letters(from, length) >= OF_SENTENCE);
            rows.extend(long.map(|from| words.row(from, length)));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Anna Otterberg lives at the river Wiesent, near Muggendorf. Her number is 4711. \
                        She breeds black swans in a pond that nobody else may enter.";

    fn of(texts: &[&str]) -> TextFingerprint {
        let mut fingerprint = TextFingerprint::default();
        texts.iter().for_each(|text| fingerprint.add(text));
        fingerprint
    }

    #[test]
    fn eight_words_in_a_row_are_recognised_whatever_stands_between_them() {
        let fingerprint = of(&[TEXT]);
        for (text, expected) in [
            (TEXT, true),
            ("It says: \"she breeds BLACK swans\n\nin a pond that — nobody else\" knows.", true),
            (r#"{"text":"breeds black\nswans in a pond that nobody"}"#, true),
            ("She breeds black swans in a pond.", false),
            ("nobody that pond a in swans black breeds she else may enter", false),
            ("", false),
        ] {
            assert_eq!(fingerprint.is_in(text), expected, "{text}");
        }
    }

    #[test]
    fn a_whole_sentence_is_recognised_although_it_is_short() {
        let fingerprint = of(&[TEXT]);
        assert!(fingerprint.is_in("I found that her number is 4711, if you ask."));
        assert!(!fingerprint.is_in("Her number is unknown."));
        assert!(
            !of(&["Yes, it is. No. A b c d e f g h i j."]).is_in("Yes, it is. No. A b c d e f g h i j."),
            "too short"
        );
    }

    #[test]
    fn characters_of_scripts_without_spaces_count_as_words() {
        let fingerprint = of(&["住所は東京都千代田区丸の内一丁目です。电话号码是四七一一。"]);
        assert!(fingerprint.is_in("答え：東京都千代田区丸の内一丁目"));
        assert!(fingerprint.is_in("电话号码是四七一一"));
        assert!(!fingerprint.is_in("東京都の天気は晴れです"));
    }

    #[test]
    fn words_that_other_documents_have_too_are_no_sign() {
        let notice = "This file may be copied by everybody who keeps this notice.";
        let mut fingerprint = of(&[TEXT, notice, "All rights are reserved."]);
        assert!(fingerprint.is_in(notice) && fingerprint.is_in("All rights are reserved."));
        let other = fingerprint.shared_rows(&format!("Beavers build dams. {notice} All rights are reserved."));
        fingerprint.leave_out(other);
        assert!(!fingerprint.is_in(notice) && !fingerprint.is_in("All rights are reserved."));
        assert!(fingerprint.is_in(TEXT));
        let same = fingerprint.shared_rows(TEXT);
        fingerprint.leave_out(same);
        assert!(fingerprint.is_empty());
    }
}

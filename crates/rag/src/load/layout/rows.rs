//! Phrases of one height are a row: a line of text, or a row of cells.

use super::area::Area;
use super::lists;
use super::words::{Phrase, Word};

/// Phrases of one row have baselines at most so far from each other, in sizes of the font.
const SAME_ROW: f32 = 0.45;
/// A gap in a row that is wider than this, in sizes of the font, is no space between words.
const WIDE_GAP: f32 = 0.9;
/// No space between the words of a justified line is wider than this, in sizes of the font.
pub(super) const WIDEST_SPACE: f32 = 2.0;

/// Phrases beside each other.
#[derive(Debug, Clone)]
pub(super) struct PageRow {
    /// From left to right.
    pub(super) phrases: Vec<Phrase>,
    pub(super) area: Area,
    pub(super) baseline: f32,
    pub(super) size: f32,
}

impl PageRow {
    pub(super) fn of(mut phrases: Vec<Phrase>) -> Self {
        phrases.sort_by(|one, other| one.area.left.total_cmp(&other.area.left));
        let area = Area::around(phrases.iter().map(|phrase| &phrase.area));
        let main = phrases.iter().max_by_key(|phrase| phrase.letters());
        let (baseline, size) = main.map_or((area.bottom, area.height()), |phrase| (phrase.baseline, phrase.size));
        Self { phrases, area, baseline, size }
    }

    /// Whether it is a line of a listing, with or without a line number.
    pub(super) fn is_code(&self) -> bool {
        let words = || self.phrases.iter().flat_map(|phrase| &phrase.words);
        let is_number = |word: &Word| word.text.bytes().all(|byte| byte.is_ascii_digit());
        words().enumerate().all(|(at, word)| word.is_fixed || at == 0 && is_number(word))
            && words().any(|word| word.is_fixed)
    }

    /// Whether all of its words are bold.
    pub(super) fn is_bold(&self) -> bool {
        let mut words = self.phrases.iter().flat_map(|phrase| &phrase.words).peekable();
        words.peek().is_some() && words.all(|word| word.is_bold)
    }

    /// Whether it has the number of a section and its title, with a gap between them.
    pub(super) fn is_numbered_title(&self) -> bool {
        self.phrases.len() == 2 && self.is_bold() && lists::is_section_number(&self.phrases[0].text())
    }

    /// Whether points lead from a title to the number of its page.
    pub(super) fn has_leader(&self) -> bool {
        let points = |word: &Word| word.text.len() > 5 && word.text.bytes().all(|byte| byte == b'.');
        let words = || self.phrases.iter().flat_map(|phrase| &phrase.words);
        words().filter(|word| word.text == ".").count() > 4 || words().any(points)
    }

    /// Whether wide gaps divide it. The mark of a list is no part by itself.
    pub(super) fn is_split(&self) -> bool {
        self.pieces().len() > 1 + usize::from(lists::is_mark(&self.phrases[0].text()))
    }

    /// How many parts wide gaps make of it.
    pub(super) fn parts(&self) -> usize {
        let gaps = self.phrases.windows(2).map(|pair| pair[1].area.left - pair[0].area.right);
        1 + gaps.filter(|gap| *gap > WIDE_GAP * self.size).count()
    }

    /// The gap from which on it is divided. In a justified line all gaps may be wide.
    fn wide_gap(&self) -> f32 {
        let words: Vec<&Area> = self.phrases.iter().flat_map(|phrase| &phrase.words).map(|word| &word.area).collect();
        let gaps: Vec<f32> = words.windows(2).map(|pair| pair[1].left - pair[0].right).collect();
        let usual = median(&gaps).unwrap_or(0.0);
        (2.0 * usual).clamp(WIDE_GAP * self.size, WIDEST_SPACE * self.size)
    }

    /// The letters and the width of its parts.
    pub(super) fn pieces(&self) -> Vec<(usize, f32)> {
        let wide = self.wide_gap();
        let mut pieces: Vec<(usize, f32, f32)> = Vec::new();
        for phrase in &self.phrases {
            match pieces.last_mut().filter(|last| phrase.area.left - last.2 <= wide) {
                Some(last) => *last = (last.0 + phrase.letters(), last.1, phrase.area.right),
                None => pieces.push((phrase.letters(), phrase.area.left, phrase.area.right)),
            }
        }
        pieces.into_iter().map(|(letters, left, right)| (letters, right - left)).collect()
    }

    pub(super) fn letters(&self) -> usize {
        self.phrases.iter().map(Phrase::letters).sum()
    }
}

/// The rows of phrases, from top to bottom.
pub(super) fn rows(mut phrases: Vec<Phrase>) -> Vec<PageRow> {
    phrases.sort_by(|one, other| one.baseline.total_cmp(&other.baseline));
    let mut rows: Vec<Vec<Phrase>> = Vec::new();
    for phrase in phrases {
        let is_same = |row: &Vec<Phrase>| {
            let (first, last) = (&row[0], &row[row.len() - 1]);
            phrase.baseline - first.baseline <= SAME_ROW * first.size.min(phrase.size).max(last.size * 0.5)
        };
        match rows.last_mut().filter(|row| is_same(row)) {
            Some(row) => row.push(phrase),
            None => rows.push(vec![phrase]),
        }
    }
    rows.into_iter().map(PageRow::of).collect()
}

/// The value in the middle of these, by size.
pub(super) fn median(values: &[f32]) -> Option<f32> {
    let mut values = values.to_vec();
    values.sort_by(f32::total_cmp);
    values.get(values.len() / 2).copied()
}

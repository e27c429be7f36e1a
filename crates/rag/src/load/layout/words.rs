//! Letters become words, and words become phrases: pieces of a line without a wide gap.

use super::area::Area;
use super::letters::Letter;

/// A gap wider than this, in sizes of the font, stands between two words.
const WORD_GAP: f32 = 0.25;
/// A gap wider than this, in sizes of the font, ends a phrase.
const PHRASE_GAP: f32 = 0.55;
/// The distance of the baselines of one line, in sizes of the font.
const SAME_BASELINE: f32 = 0.25;
/// Letters that are lifted or lowered are smaller than this, in sizes of the line.
pub(super) const SMALL: f32 = 0.8;

/// Letters without a space between them.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) area: Area,
    pub(super) baseline: f32,
    pub(super) size: f32,
    pub(super) is_bold: bool,
    pub(super) is_fixed: bool,
    /// Whether it ends with a hyphen that divides it.
    pub(super) is_divided: bool,
}

impl Word {
    fn of(letter: &Letter) -> Self {
        Self {
            text: letter.character.to_string(),
            area: letter.area,
            baseline: letter.baseline,
            size: letter.size,
            is_bold: letter.is_bold,
            is_fixed: letter.is_fixed,
            is_divided: letter.divides,
        }
    }

    /// A word of a font of which nothing more is known.
    pub(super) fn plain(text: String, area: Area, baseline: f32, size: f32) -> Self {
        Self { text, area, baseline, size, is_bold: false, is_fixed: false, is_divided: false }
    }

    fn push(&mut self, letter: &Letter) {
        self.text.push(letter.character);
        self.area = self.area.with(&letter.area);
        self.is_divided = letter.divides;
    }
}

/// Words of one line, with no wide gap between them.
#[derive(Debug, Clone)]
pub(super) struct Phrase {
    /// From left to right.
    pub(super) words: Vec<Word>,
    pub(super) area: Area,
    pub(super) baseline: f32,
    /// The size of most of its letters.
    pub(super) size: f32,
}

impl Phrase {
    pub(super) fn of(mut words: Vec<Word>) -> Self {
        words.sort_by(|one, other| one.area.left.total_cmp(&other.area.left));
        let area = Area::around(words.iter().map(|word| &word.area));
        let main = words.iter().max_by(|one, other| {
            let weight = |word: &Word| word.text.len() as f32 * word.size;
            weight(one).total_cmp(&weight(other))
        });
        let (baseline, size) = main.map_or((area.bottom, area.height()), |word| (word.baseline, word.size));
        Self { words, area, baseline, size }
    }

    /// Its words with spaces between them.
    pub(super) fn text(&self) -> String {
        text_of(self.words.iter())
    }

    pub(super) fn letters(&self) -> usize {
        self.words.iter().map(|word| word.text.chars().count()).sum()
    }
}

/// Words from left to right as a text; those of a script that runs from right to left in their order.
pub(super) fn text_of<'w>(words: impl DoubleEndedIterator<Item = &'w Word> + Clone) -> String {
    let (mut left, mut right) = (0, 0);
    for word in words.clone() {
        let is_right = word.text.chars().any(runs_to_the_left);
        right += usize::from(is_right);
        left += usize::from(!is_right && word.text.chars().any(char::is_alphabetic));
    }
    let mut text = String::new();
    let mut push = |word: &Word| {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word.text);
    };
    if right > left {
        words.rev().for_each(&mut push)
    } else {
        words.for_each(&mut push)
    }
    text
}

/// Whether a letter belongs to a script that runs from right to left.
fn runs_to_the_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}')
}

/// The words of letters in PDFium's order.
pub(super) fn words(letters: &[Letter]) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut before: Option<&Letter> = None;
    for letter in letters {
        let continues = !letter.after_space && before.is_some_and(|before| touches(before, letter));
        match words.last_mut() {
            Some(word) if continues => word.push(letter),
            _ => words.push(Word::of(letter)),
        }
        before = Some(letter);
    }
    words
}

fn touches(before: &Letter, letter: &Letter) -> bool {
    let size = before.size.max(letter.size);
    let gap = (letter.area.left - before.area.right).max(before.area.left - letter.area.right);
    let is_level = (before.baseline - letter.baseline).abs() <= SAME_BASELINE * size;
    is_level && gap <= WORD_GAP * size && before.size.min(letter.size) > SMALL * size
}

/// The phrases of words in any order.
pub(super) fn phrases(words: Vec<Word>) -> Vec<Phrase> {
    let mut words = words;
    words.sort_by(|one, other| one.area.left.total_cmp(&other.area.left));
    let mut open: Vec<Vec<Word>> = Vec::new();
    // The phrases that were begun, by their height on the page.
    let mut by_height: std::collections::BTreeMap<i32, Vec<usize>> = std::collections::BTreeMap::new();
    let step = |height: f32| (height / 8.0) as i32;
    for word in words {
        let height = step(word.baseline);
        let reach = 1 + step(word.size * 0.6);
        let near = by_height.range(height - reach..=height + reach).flat_map(|(_, numbers)| numbers.iter().copied());
        let place = near
            .filter_map(|number| {
                let last = open[number].last()?;
                follows(last, &word).then(|| (number, (word.area.left - last.area.right).abs()))
            })
            .min_by(|one, other| one.1.total_cmp(&other.1));
        match place {
            Some((number, _)) => open[number].push(word),
            None => {
                by_height.entry(height).or_default().push(open.len());
                open.push(vec![word]);
            }
        }
    }
    open.into_iter().map(Phrase::of).collect()
}

/// Whether a word stands behind another one in the same line. One of both may be lifted, such as the mark of a footnote.
fn follows(last: &Word, word: &Word) -> bool {
    let size = last.size.max(word.size);
    let gap = word.area.left - last.area.right;
    let is_level = (last.baseline - word.baseline).abs() <= SAME_BASELINE * size
        || last.size.min(word.size) <= SMALL * size && last.area.overlap_y(&word.area) > 0.5;
    is_level && gap <= PHRASE_GAP * size && gap > -0.5 * size
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A word of a font of 10 points whose letters are 5 points wide.
    pub(in super::super) fn word(text: &str, left: f32, baseline: f32) -> Word {
        let right = left + 5.0 * text.chars().count() as f32;
        let area = Area { left, right, top: baseline - 8.0, bottom: baseline + 2.0 };
        Word::plain(text.to_owned(), area, baseline, 10.0)
    }

    #[test]
    fn a_wide_gap_ends_a_phrase_and_other_lines_are_others() {
        let found = phrases(vec![
            word("below", 0.0, 30.0),
            word("mill", 28.0, 10.0),
            word("a", 20.0, 10.0),
            word("3", 80.0, 10.0),
        ]);
        let texts: Vec<String> = found.iter().map(Phrase::text).collect();
        assert_eq!(texts, ["below", "a mill", "3"]);
    }

    #[test]
    fn words_of_scripts_that_run_to_the_left_are_read_in_their_order() {
        let words = [word("עולם", 0.0, 10.0), word("שלום", 30.0, 10.0)];
        assert_eq!(text_of(words.iter()), "שלום עולם");
    }
}

//! Texts repeated on several pages: headers, footers and page numbers.

use super::PAGES_AROUND;
use super::rows::{self, PageRow};
use super::words::Phrase;
use std::collections::{HashMap, HashSet};

/// Headers are in this part of a page's height at its top, and footers in the same part at its bottom.
const MARGIN: f32 = 0.12;
/// The heights of a text that is the same on several pages differ by so many points at most.
const SAME_HEIGHT: f32 = 6.0;

/// A longer text, in bytes, has no page number in it.
const MOST_LENGTH: usize = 200;

/// How often texts stand at the ends of pages.
#[derive(Debug, Default)]
pub(super) struct RunningTexts {
    pages: HashMap<(String, i32), HashSet<u32>>,
}

impl RunningTexts {
    /// Notes what stands at the ends of a page. Pages are counted from 1.
    pub(super) fn note(&mut self, page: u32, phrases: &[Phrase], height: f32) {
        for phrase in phrases.iter().filter(|phrase| is_at_end(phrase, height)) {
            for text in texts(phrase, page) {
                self.pages.entry((text, step(phrase))).or_default().insert(page);
            }
        }
    }

    /// The phrases of a page without those that are repeated on other pages. A table stays whole: its header, and some of
    /// its cells, may be repeated too.
    pub(super) fn without_repeated(&self, page: u32, phrases: Vec<Phrase>, height: f32) -> Vec<Phrase> {
        let rows = rows::rows(phrases);
        let mut kept = Vec::new();
        for block in rows.chunk_by(has_same_columns) {
            let of_row = |row: &PageRow| -> Vec<bool> {
                row.phrases.iter().map(|phrase| self.is_repeated(page, phrase, &row.phrases, height)).collect()
            };
            let repeated: Vec<Vec<bool>> = block.iter().map(of_row).collect();
            let is_whole = repeated.iter().flatten().all(|is_repeated| *is_repeated);
            for (phrase, is_repeated) in block.iter().flat_map(|row| &row.phrases).zip(repeated.concat()) {
                // A page number stands beside a title that only this page has.
                let is_number = block.len() == 1 && !phrase.text().contains(char::is_alphabetic);
                if !(is_repeated && (is_whole || is_number)) {
                    kept.push(phrase.clone());
                }
            }
        }
        kept
    }

    /// Whether a phrase is the number of its page, or also stands on a page nearby. Pages further away do not count: two
    /// listings may begin with the same line, and the text of a page must not depend on how many pages are read at once.
    fn is_repeated(&self, page: u32, phrase: &Phrase, row: &[Phrase], height: f32) -> bool {
        if !is_at_end(phrase, height) {
            return false;
        }
        let step = step(phrase);
        let is_on_others = texts(phrase, page).into_iter().any(|text| {
            let same = (step - 1..=step + 1).filter_map(|step| self.pages.get(&(text.clone(), step))).flatten();
            same.into_iter().any(|&other| other != page && other.abs_diff(page) <= PAGES_AROUND)
        });
        is_on_others || row.len() == 1 && phrase.text().parse() == Ok(page)
    }
}

/// Whether two rows stand near each other, and two of their phrases begin at the same places.
fn has_same_columns(row: &PageRow, next: &PageRow) -> bool {
    let is_near = (row.baseline - next.baseline).abs() < 3.0 * row.size.max(next.size);
    let begins = |phrase: &&Phrase| next.phrases.iter().any(|other| (other.area.left - phrase.area.left).abs() < 3.0);
    is_near && row.phrases.iter().filter(begins).count() > 1
}

fn is_at_end(phrase: &Phrase, height: f32) -> bool {
    let middle = phrase.area.middle_y();
    middle < MARGIN * height || middle > (1.0 - MARGIN) * height
}

fn step(phrase: &Phrase) -> i32 {
    (phrase.baseline / SAME_HEIGHT) as i32
}

/// A text as it may stand on other pages: unchanged, or with one number that grows with the pages.
fn texts(phrase: &Phrase, page: u32) -> Vec<String> {
    let text = phrase.text().to_lowercase();
    if text.len() > MOST_LENGTH {
        return vec![text];
    }
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(first) = text[start..].find(|character: char| character.is_ascii_digit()).map(|at| at + start) {
        let end = text[first..].find(|character: char| !character.is_ascii_digit()).map_or(text.len(), |at| at + first);
        if let Ok(number) = text[first..end].parse::<i64>() {
            found.push(format!("{}#{}{}", &text[..first], number - i64::from(page), &text[end..]));
        }
        start = end;
    }
    let is_roman = !text.is_empty() && text.len() <= 7 && text.bytes().all(|byte| b"ivxlc".contains(&byte));
    found.push(if is_roman { "#".to_owned() } else { text });
    found
}

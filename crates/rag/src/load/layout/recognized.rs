//! Pages that were read from pictures: their lines are put in order as those of other pages are.

use super::area::Area;
use super::page_draft::PageDraft;
use super::rows::median;
use super::running_texts::RunningTexts;
use super::words::{Phrase, Word};
use super::{PageState, ReadPage};
use models::{RecognizedLine, RecognizedPage};

/// The size of a font as a part of the height of the box around its line.
const FONT_SIZE: f32 = 0.72;
/// The height of a line's baseline above the lower side of its box, as a part of the box.
const DESCENT: f32 = 0.24;
/// A box begins and ends so far outside its text, as a part of its height.
const MARGIN: f32 = 0.25;
/// Lines whose boxes are so much lower or higher than most have the same font: some have no letters that reach up or down.
const SAME_FONT: f32 = 0.28;

/// So many unsure lines of a page are named, and so much of each.
const NAMED_LINES: usize = 3;
const NAMED_CHARACTERS: usize = 40;

/// The pages of these pictures, by number, with the size of a pixel in points.
pub(in crate::load) fn recognized_pages(pictures: Vec<(u32, RecognizedPage, f32)>) -> Vec<ReadPage> {
    let mut running = RunningTexts::default();
    let mut drafts = Vec::new();
    for (number, page, scale) in pictures {
        let draft = PageDraft::of_phrases(phrases(&page.lines, scale), page.height * scale);
        draft.note_running_texts(number, &mut running);
        let state = match page.lines.is_empty() {
            true => PageState::Blank,
            false => PageState::Recognized(percent(&page)),
        };
        let least_sure = least_sure(&page.lines);
        drafts.push((ReadPage { least_sure, ..ReadPage::new(number, state, Vec::new()) }, draft));
    }
    drafts.into_iter().map(|(page, draft)| page.with(draft, &running)).collect()
}

/// The lines that were read with the least confidence, in words.
fn least_sure(lines: &[RecognizedLine]) -> String {
    let mut lines: Vec<&RecognizedLine> = lines.iter().filter(|line| !line.text.trim().is_empty()).collect();
    lines.sort_by(|one, other| one.confidence.total_cmp(&other.confidence));
    let text = |line: &&RecognizedLine| {
        let begin: String = line.text.trim().chars().take(NAMED_CHARACTERS).collect();
        format!("“{begin}” ({:.0} %)", 100.0 * line.confidence)
    };
    lines.iter().take(NAMED_LINES).map(text).collect::<Vec<_>>().join(", ")
}

/// The confidence of a page, in percent.
fn percent(page: &RecognizedPage) -> u8 {
    (100.0 * page.confidence()).round().clamp(0.0, 100.0) as u8
}

fn phrases(lines: &[RecognizedLine], scale: f32) -> Vec<Phrase> {
    let heights: Vec<f32> = lines.iter().map(|line| line.bottom - line.top).collect();
    let usual = median(&heights).unwrap_or(0.0);
    lines.iter().filter(|line| !line.text.trim().is_empty()).map(|line| phrase(line, usual, scale)).collect()
}

/// A line as a phrase, whose words share its width by their characters.
fn phrase(line: &RecognizedLine, usual: f32, scale: f32) -> Phrase {
    let height = line.bottom - line.top;
    let font = if (height - usual).abs() <= SAME_FONT * usual { usual } else { height };
    let count = line.text.chars().count().max(1) as f32;
    let margin = (MARGIN * height).min((line.right - line.left) / 4.0);
    let (left, right) = (line.left + margin, line.right - margin);
    let step = (right - left) / count;
    let middle = f32::midpoint(line.top, line.bottom);
    let baseline = middle + (0.5 - DESCENT) * font;
    let mut at = 0;
    let mut words = Vec::new();
    for word in line.text.split(' ') {
        let length = word.chars().count();
        let (from, to) = (left + step * at as f32, left + step * (at + length) as f32);
        at += length + 1;
        if word.is_empty() {
            continue;
        }
        let area = Area {
            left: from * scale,
            right: to * scale,
            top: (middle - font / 2.0) * scale,
            bottom: (middle + font / 2.0) * scale,
        };
        let (baseline, size) = (baseline * scale, FONT_SIZE * font * scale);
        words.push(Word::plain(word.to_owned(), area, baseline, size));
    }
    Phrase::of(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, left: f32, top: f32, height: f32) -> RecognizedLine {
        let right = left + 10.0 * text.len() as f32;
        RecognizedLine { text: text.to_owned(), confidence: 0.9, left, top, right, bottom: top + height }
    }

    fn texts(lines: Vec<RecognizedLine>) -> Vec<String> {
        let page = RecognizedPage { lines, width: 1600.0, height: 2300.0, ..RecognizedPage::default() };
        let pages = recognized_pages(vec![(1, page, 0.36)]);
        let parsed = super::super::document(pages, &[], &crate::load::ParseLimits::default()).unwrap();
        parsed.text.split("\n\n").map(str::to_owned).collect()
    }

    #[test]
    fn cells_beside_each_other_are_a_table_and_lines_below_each_other_a_paragraph() {
        let mut lines = vec![line("The mill at the upper weir was built in the year", 100.0, 100.0, 40.0)];
        lines.push(line("of the flood, and its stones turn to this day.", 100.0, 145.0, 36.0));
        for (row, cells) in
            [["part", "mass", "count"], ["wheel", "12 kg", "4"], ["stone", "900 kg", "2"]].iter().enumerate()
        {
            for (column, cell) in cells.iter().enumerate() {
                lines.push(line(cell, 100.0 + 300.0 * column as f32, 300.0 + 60.0 * row as f32, 38.0));
            }
        }
        let found = texts(lines);
        assert_eq!(
            found[0],
            "The mill at the upper weir was built in the year of the flood, and its stones turn to this day."
        );
        assert_eq!(
            found[1],
            "| part | mass | count |\n| --- | --- | --- |\n| wheel | 12 kg | 4 |\n| stone | 900 kg | 2 |"
        );
    }

    #[test]
    fn the_confidence_counts_by_characters() {
        let lines = [RecognizedLine { confidence: 0.5, ..line("ab", 0.0, 0.0, 9.0) }, line("abcdef", 0.0, 20.0, 9.0)];
        let page = RecognizedPage { lines: lines.to_vec(), ..RecognizedPage::default() };
        assert_eq!(percent(&page), 80);
    }
}

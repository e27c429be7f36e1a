//! The order in which a page is read: columns beside each other, and what lies across them.

use super::area::Area;
use super::leaf;
use super::page_parts::{Item, PagePart};
use super::rows::{self, PageRow};
use super::rules::DrawnLine;
use super::words::Phrase;

/// The narrowest gap between columns of text, in sizes of the font.
const GUTTER: f32 = 0.7;
/// So many of a zone's letters may reach into a gap between columns.
const CROSSING: f32 = 0.03;
/// Lines of text have so many letters at least, in the middle.
const LINE_LETTERS: usize = 20;
/// A column of an index has so many entries at least.
const INDEX_ENTRIES: usize = 8;
/// Columns in columns are looked for to this depth.
const DEEPEST: u32 = 8;

/// The parts of a page, as they are read.
pub(super) fn read(items: Vec<Item>, lines: &[DrawnLine]) -> Vec<PagePart> {
    let mut parts = Vec::new();
    zone(items, lines, 0, &mut parts);
    parts
}

fn zone(items: Vec<Item>, lines: &[DrawnLine], depth: u32, parts: &mut Vec<PagePart>) {
    if items.is_empty() {
        return;
    }
    let Some(gutter) = (if depth < DEEPEST { gutter(&items) } else { None }) else {
        leaf::read(items, lines, parts);
        return;
    };
    let mut sides: [Vec<Item>; 3] = Default::default();
    for item in items {
        sides[gutter.side(item.area())].push(item);
    }
    let [mut left, mut right, mut across] = sides;
    absorb_last_lines(&mut left, &right, &mut across);
    across.sort_by(|one, other| one.area().middle_y().total_cmp(&other.area().middle_y()));
    let mut whole: Vec<Item> = Vec::new();
    let mut across = across.into_iter().peekable();
    loop {
        let height = across.peek().map_or(f32::INFINITY, |item| item.area().middle_y());
        let above = |side: &mut Vec<Item>| -> Vec<Item> {
            let (above, below) = std::mem::take(side).into_iter().partition(|item| item.area().middle_y() < height);
            *side = below;
            above
        };
        let (one, other) = (above(&mut left), above(&mut right));
        if !one.is_empty() || !other.is_empty() {
            leaf::read(std::mem::take(&mut whole), lines, parts);
            zone(one, lines, depth + 1, parts);
            zone(other, lines, depth + 1, parts);
        }
        let Some(item) = across.next() else { break };
        whole.push(item);
    }
    leaf::read(whole, lines, parts);
}

/// The last line of a text that lies across both columns is short: it belongs to the lines above it.
fn absorb_last_lines(left: &mut Vec<Item>, right: &[Item], across: &mut Vec<Item>) {
    let belongs = |item: &Item, across: &[Item]| {
        let Item::Phrase(phrase) = item else { return false };
        let is_alone = right.iter().all(|other| other.area().overlap_y(&phrase.area) < 0.3);
        is_alone
            && across.iter().any(|above| {
                let Item::Phrase(above) = above else { return false };
                let pitch = phrase.baseline - above.baseline;
                pitch > 0.0
                    && pitch <= 1.5 * phrase.size
                    && (phrase.size - above.size).abs() < 0.5
                    && (phrase.area.left - above.area.left).abs() < 2.0 * phrase.size
            })
    };
    let mut at = 0;
    while at < left.len() {
        if belongs(&left[at], across) { across.push(left.swap_remove(at)) } else { at += 1 }
    }
}

/// A strip of a page without text, between two columns.
#[derive(Debug, Clone, Copy)]
struct Gutter {
    left: f32,
    right: f32,
}

impl Gutter {
    /// 0 for what lies on the left of it, 1 for the right, 2 for what lies across.
    fn side(&self, area: &Area) -> usize {
        if area.left < self.left && area.right < self.right - 1.0 {
            0
        } else if area.left > self.left {
            1
        } else {
            2
        }
    }
}

/// The strip that divides the text of a zone into columns, if there is one.
fn gutter(items: &[Item]) -> Option<Gutter> {
    let phrases: Vec<&Phrase> = items
        .iter()
        .filter_map(|item| match item {
            Item::Phrase(phrase) => Some(phrase),
            Item::Table(_) | Item::Frame(..) => None,
        })
        .collect();
    if phrases.len() < 6 {
        return None;
    }
    let area = Area::around(phrases.iter().map(|phrase| &phrase.area));
    let mut sizes: Vec<f32> = phrases.iter().map(|phrase| phrase.size).collect();
    sizes.sort_by(f32::total_cmp);
    let size = sizes[sizes.len() / 2];
    // Letters in each strip of two points.
    let step = 2.0;
    let count = (area.width() / step).ceil() as usize + 1;
    if !(8..20_000).contains(&count) {
        return None;
    }
    let mut crossed = vec![0_i64; count + 1];
    let place = |x: f32| (((x - area.left) / step).max(0.0) as usize).min(count);
    for phrase in &phrases {
        let weight = phrase.letters() as i64;
        crossed[place(phrase.area.left)] += weight;
        crossed[(place(phrase.area.right) + 1).min(count)] -= weight;
    }
    let mut sum = 0;
    for strip in &mut crossed {
        sum += *strip;
        *strip = sum;
    }
    let total: usize = phrases.iter().map(|phrase| phrase.letters()).sum();
    let inside = count / 12..count - count / 12;
    // A few lines may reach into the strip.
    let most = crossed[inside.clone()].iter().min()? + (total as f32 * CROSSING) as i64;
    if most as f32 > 0.6 * total as f32 {
        return None;
    }
    let mut best: Option<(i64, Gutter)> = None;
    let mut start = inside.start;
    while start < inside.end {
        let free = crossed[start..count].iter().take_while(|letters| **letters <= most);
        let (strips, letters) = free.fold((0, 0), |(strips, letters), next| (strips + 1, letters + next));
        if strips > 0 {
            let end = start + strips;
            let gutter = Gutter { left: area.left + start as f32 * step, right: area.left + end as f32 * step };
            let letters = letters / strips as i64;
            let is_wide = (strips + 1) as f32 * step >= GUTTER * size;
            let is_better = best.is_none_or(|(least, _)| letters < least);
            if is_wide && end < count - count / 12 && is_better && divides(&phrases, &gutter) {
                best = Some((letters, gutter));
            }
        }
        start += strips + 1;
    }
    best.map(|(_, gutter)| gutter)
}

/// Whether both sides are lines of text, not cells of a table.
fn divides(phrases: &[&Phrase], gutter: &Gutter) -> bool {
    let side = |number: usize| -> Vec<&Phrase> {
        phrases.iter().filter(|phrase| gutter.side(&phrase.area) == number).copied().collect()
    };
    let is_text = |side: &[&Phrase]| {
        if side.len() < 3 {
            return false;
        }
        let rows = rows::rows(side.iter().map(|phrase| (*phrase).clone()).collect());
        if is_index(&rows) {
            return true;
        }
        let pieces: Vec<(usize, f32)> = rows.iter().flat_map(PageRow::pieces).collect();
        let mut letters: Vec<usize> = pieces.iter().map(|piece| piece.0).collect();
        letters.sort_unstable();
        let mut widths: Vec<f32> = pieces.iter().map(|piece| piece.1).collect();
        widths.sort_by(f32::total_cmp);
        let wide = widths[widths.len() * 9 / 10];
        let all: usize = letters.iter().sum();
        let full: usize = pieces.iter().filter(|piece| piece.1 >= 0.75 * wide).map(|piece| piece.0).sum();
        letters[letters.len() / 2] >= LINE_LETTERS && full * 2 >= all
    };
    is_text(&side(0)) && is_text(&side(1))
}

/// Whether most rows are the entries of an index: words, a comma and the numbers of pages.
fn is_index(rows: &[PageRow]) -> bool {
    let is_entry = |row: &&PageRow| {
        let words: Vec<&str> =
            row.phrases.iter().flat_map(|phrase| &phrase.words).map(|word| word.text.as_str()).collect();
        let Some((last, before)) = words.split_last() else { return false };
        let is_page = last.starts_with(|character: char| character.is_ascii_digit())
            && last.chars().all(|character| character.is_ascii_digit() || matches!(character, '-' | '–'));
        is_page && before.last().is_some_and(|word| word.ends_with(','))
    };
    rows.len() >= INDEX_ENTRIES && rows.iter().filter(is_entry).count() * 10 >= rows.len() * 6
}

//! The columns of a table without drawn cells, and which of them each part of a row covers.

use super::area::Area;
use super::rows::{PageRow, WIDEST_SPACE};
use super::rules::DrawnLine;
use super::words::{Phrase, Word};
use std::ops::Range;

/// The narrowest gap between two columns, in sizes of the font.
const COLUMN_GAP: f32 = 0.35;
/// The middle of a title is at most so far from that of its table, as a part of the table's width.
const CENTRED: f32 = 0.06;
/// In so many rows, a column of one row is none.
const MANY_ROWS: usize = 10;
/// A line that is so wide, as a part of its table's width, stands below all columns.
const WHOLE_WIDTH: f32 = 0.97;
/// A gap between two words that is wider than this, in sizes of the font, can stand between two cells.
const CELL_GAP: f32 = 0.5;

/// Where the columns stand, from left to right.
pub(super) fn columns(rows: &[PageRow], size: f32) -> Vec<(f32, f32)> {
    let mut counts: Vec<usize> = rows.iter().map(PageRow::parts).collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let usual = counts[counts.len() / 4];
    let base: Vec<&PageRow> = rows.iter().filter(|row| row.parts() * 10 >= usual * 7 && row.parts() > 1).collect();
    let tolerated = if base.len() < 7 { 0 } else { base.len() * 15 / 100 };
    let mut ends: Vec<(f32, i32)> = base
        .iter()
        .flat_map(|row| &row.phrases)
        .flat_map(|phrase| [(phrase.area.left, 1), (phrase.area.right, -1)])
        .collect();
    ends.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
    let mut columns: Vec<(f32, f32)> = Vec::new();
    let (mut covering, mut start) = (0_i32, None);
    for (x, change) in ends {
        covering += change;
        match start {
            None if covering > tolerated as i32 => start = Some(x),
            Some(from) if covering <= tolerated as i32 => {
                match columns.last_mut().filter(|last| from - last.1 < COLUMN_GAP * size) {
                    Some(last) => last.1 = x,
                    None => columns.push((from, x)),
                }
                start = None;
            }
            _ => {}
        }
    }
    for row in rows {
        for (at, phrase) in row.phrases.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &row.phrases[before].area);
            add(&mut columns, &phrase.area, before, size);
        }
    }
    join_sentences(&mut columns, rows, size);
    if rows.len() >= MANY_ROWS {
        join_accidental(&mut columns, rows);
    }
    columns
}

/// Joins columns that a single row has, the first row aside, to the column before: wide spaces in a justified line.
fn join_accidental(columns: &mut Vec<(f32, f32)>, rows: &[PageRow]) {
    let mut at = 1;
    while at < columns.len() {
        let (left, right) = columns[at];
        let has = |row: &PageRow| row.phrases.iter().any(|phrase| phrase.area.left < right && left < phrase.area.right);
        let is_accidental = !has(&rows[0]) && rows.iter().filter(|row| has(row)).count() < 2;
        if is_accidental {
            columns[at - 1].1 = right;
            columns.remove(at);
        } else {
            at += 1;
        }
    }
}

/// Joins columns that begin where a sentence ends in each row: the space between two sentences is wide, but no gap.
fn join_sentences(columns: &mut Vec<(f32, f32)>, rows: &[PageRow], size: f32) {
    let mut at = 1;
    while at < columns.len() {
        let edge = f32::midpoint(columns[at - 1].1, columns[at].0);
        let mut pairs = rows
            .iter()
            .flat_map(|row| row.phrases.windows(2))
            .filter(|pair| pair[0].area.middle_x() < edge && edge < pair[1].area.middle_x());
        let goes_on = |pair: &[Phrase]| {
            let ends = pair[0].words.last().is_some_and(|word| word.text.ends_with(['.', '!', '?', ':', ';']));
            ends && pair[1].area.left - pair[0].area.right <= WIDEST_SPACE * size
        };
        let mut seen = 0;
        let is_joined = pairs.all(|pair| {
            seen += 1;
            goes_on(pair)
        });
        if is_joined && seen > 0 {
            columns[at - 1].1 = columns[at].1;
            columns.remove(at);
        } else {
            at += 1;
        }
    }
}

/// Makes columns wide enough for a phrase, or adds a column for it. `before` is the phrase before it in its row.
fn add(columns: &mut Vec<(f32, f32)>, area: &Area, before: Option<&Area>, size: f32) {
    let touched = |area: &Area| -> Vec<usize> {
        (0..columns.len()).filter(|&at| area.left < columns[at].1 && columns[at].0 < area.right).collect()
    };
    let own = touched(area);
    let wider = match own[..] {
        [at] => at,
        [] => {
            // A word behind a wide space in a justified line is no cell.
            let near = before.filter(|before| area.left - before.right <= WIDEST_SPACE * size);
            match near.map(touched).as_deref() {
                Some([at]) => *at,
                _ => {
                    let at = columns.partition_point(|column| column.0 < area.left);
                    columns.insert(at, (area.left, area.right));
                    return;
                }
            }
        }
        _ => return,
    };
    let low = if wider == 0 { f32::NEG_INFINITY } else { columns[wider - 1].1 + COLUMN_GAP * size };
    let high = columns.get(wider + 1).map_or(f32::INFINITY, |next| next.0 - COLUMN_GAP * size);
    let column = &mut columns[wider];
    *column = (column.0.min(area.left.max(low)), column.1.max(area.right.min(high)));
}

/// A part of a row, and the columns that it covers.
#[derive(Debug)]
pub(super) struct RowPiece {
    pub(super) columns: Range<usize>,
    pub(super) words: Vec<Word>,
    pub(super) area: Area,
}

/// The parts of a row. A phrase over several columns is divided where its words stand apart.
pub(super) fn pieces(row: &PageRow, columns: &[(f32, f32)], size: f32) -> Vec<RowPiece> {
    let nearest = |area: &Area| -> Range<usize> {
        let touched: Vec<usize> = (0..columns.len())
            .filter(|&at| {
                let shared = area.right.min(columns[at].1) - area.left.max(columns[at].0);
                shared > 0.15 * area.width().min(columns[at].1 - columns[at].0) || shared > size
            })
            .collect();
        if let (Some(first), Some(last)) = (touched.first(), touched.last()) {
            return *first..*last + 1;
        }
        let distance = |at: usize| (columns[at].0 - area.right).max(area.left - columns[at].1);
        let at = (0..columns.len()).min_by(|&one, &other| distance(one).total_cmp(&distance(other))).unwrap_or(0);
        at..at + 1
    };
    let mut pieces: Vec<RowPiece> = Vec::new();
    for phrase in &row.phrases {
        let mut open: Option<RowPiece> = None;
        for word in &phrase.words {
            let place = nearest(&word.area);
            match &mut open {
                Some(piece)
                    if piece.columns.contains(&place.start) || word.area.left - piece.area.right < CELL_GAP * size =>
                {
                    piece.columns = piece.columns.start.min(place.start)..piece.columns.end.max(place.end);
                    piece.area = piece.area.with(&word.area);
                    piece.words.push(word.clone());
                }
                _ => {
                    pieces.extend(open.replace(RowPiece { columns: place, words: vec![word.clone()], area: word.area }))
                }
            }
        }
        pieces.extend(open);
    }
    // Two phrases in one column are one cell.
    let mut joined: Vec<RowPiece> = Vec::new();
    for piece in pieces {
        match joined.last_mut().filter(|last| last.columns.end > piece.columns.start) {
            Some(last) => {
                last.columns.end = last.columns.end.max(piece.columns.end);
                last.area = last.area.with(&piece.area);
                last.words.extend(piece.words);
            }
            None => joined.push(piece),
        }
    }
    joined
}

/// Whether the only text of a row stands in the middle of the table: a title, or a note below it.
fn is_title(piece: &RowPiece, columns: &[(f32, f32)], is_first: bool) -> bool {
    let (left, right) = (columns[0].0, columns[columns.len() - 1].1);
    let is_centred = (piece.area.middle_x() - f32::midpoint(left, right)).abs() < CENTRED * (right - left);
    let is_symmetric = (piece.area.left - left).min(right - piece.area.right) > 0.05 * (right - left);
    is_centred && is_symmetric && (is_first || piece.columns.len() > 1)
}

/// Finds out which cells of a header cover several columns: a line below them, or their place in the middle, tells.
pub(super) fn widen(
    row: &PageRow,
    pieces: &mut [RowPiece],
    columns: &[(f32, f32)],
    lines: &[DrawnLine],
    width: f32,
    is_bounded: bool,
    is_first: bool,
) {
    if pieces.len() >= columns.len() {
        return;
    }
    if let [only] = pieces
        && is_bounded
        && is_title(only, columns, is_first)
    {
        only.columns = 0..columns.len();
        return;
    }
    let taken: Vec<Range<usize>> = pieces.iter().map(|piece| piece.columns.clone()).collect();
    for (number, piece) in pieces.iter_mut().enumerate() {
        let below = lines.iter().find(|line| {
            line.at > row.area.middle_y()
                && line.at < row.area.bottom + row.size
                && line.from <= piece.area.middle_x()
                && piece.area.middle_x() <= line.to
                && line.to - line.from < WHOLE_WIDTH * width
        });
        let Some(line) = below else { continue };
        let covered: Vec<usize> = (0..columns.len())
            .filter(|&at| {
                let middle = f32::midpoint(columns[at].0, columns[at].1);
                line.from - 1.0 <= middle && middle <= line.to + 1.0
            })
            .filter(|at| !taken.iter().enumerate().any(|(other, range)| other != number && range.contains(at)))
            .collect();
        if let (Some(first), Some(last)) = (covered.first(), covered.last()) {
            piece.columns = *first.min(&piece.columns.start)..(*last + 1).max(piece.columns.end);
        }
    }
}

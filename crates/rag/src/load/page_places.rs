//! `load::page_places`: a page as a person sees it, and where a text stands on it. A text is found by its letters and
//! digits alone, so it is found whichever parser read it: lines, hyphens, marks of Markdown and the borders of tables are
//! no part of a page.

use models::{Picture, RecognizedLine, RecognizedPage};
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

/// A text is looked for up to so many characters: no passage is longer than a page.
const MOST_LETTERS: usize = 20_000;
/// A piece of a text with fewer letters is only looked for behind the piece before it.
const LEAST_LETTERS: usize = 16;
/// How far behind the last piece a short one is looked for, in letters.
const NEAR: usize = 240;
/// The colour of a mark: red, green and blue.
const MARK: [u8; 3] = [255, 222, 89];
/// The colour of a line that was read with little confidence.
const UNSURE_MARK: [u8; 3] = [255, 150, 130];
/// A line with less confidence is unsure.
const UNSURE: f32 = 0.8;
/// A sign that is nearer to a letter belongs to it, as a part of the height of the line.
const TOUCHING: f32 = 0.15;
/// A box is drawn so much higher and wider than its letters, as a part of its height.
const MARGIN: f32 = 0.06;

/// A letter on a picture.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct PlacedLetter {
    pub(super) letter: char,
    /// Left, top, right and bottom, in pixels.
    pub(super) area: [f32; 4],
}

/// A page as a picture in colour, with the letters on it in the order in which they are read.
#[derive(Debug)]
pub(super) struct LetteredPicture {
    pub(super) picture: Picture,
    pub(super) letters: Vec<PlacedLetter>,
}

/// Where a line of a text is on a page, in parts of the page's width and height from its upper left corner: from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PageBox {
    /// Its left side.
    pub left: f32,
    /// Its upper side.
    pub top: f32,
    /// Its right side.
    pub right: f32,
    /// Its lower side.
    pub bottom: f32,
}

/// A page as a person sees it, with the places of texts.
#[derive(Debug, Clone)]
pub struct PageView {
    /// Its number, from 1.
    pub page: u32,
    /// The page, in colour, without marks.
    pub picture: Picture,
    /// For each text the boxes of its lines; empty for a text that is not on the page.
    pub boxes: Vec<Vec<PageBox>>,
    /// The lines that were read on the page, from top to bottom, if it is a picture; else none.
    pub lines: Vec<ReadLine>,
}

/// A line that was read on a picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadLine {
    /// Its text.
    pub text: String,
    /// How sure the network is of it, from 0 to 1.
    pub confidence: f32,
    /// Where it is on the page.
    pub area: PageBox,
}

impl PageView {
    /// The page with marks over the texts.
    pub fn marked(&self) -> Picture {
        let mut picture = self.picture.clone();
        for area in self.boxes.iter().flatten() {
            mark(&mut picture, area, MARK);
        }
        picture
    }

    /// The lines that were read with less than 80 % confidence.
    pub fn unsure_lines(&self) -> impl Iterator<Item = &ReadLine> {
        self.lines.iter().filter(|line| line.confidence < UNSURE)
    }

    /// The page with marks over the texts, and others over the lines that are unsure.
    pub fn marked_with_unsure_lines(&self) -> Picture {
        let mut picture = self.marked();
        for line in self.unsure_lines() {
            mark(&mut picture, &line.area, UNSURE_MARK);
        }
        picture
    }
}

/// The part of a picture's width and height at which an area in pixels lies.
fn share(picture: &Picture, [left, top, right, bottom]: [f32; 4]) -> PageBox {
    let (width, height) = (picture.width.max(1) as f32, picture.height.max(1) as f32);
    PageBox {
        left: (left / width).clamp(0.0, 1.0),
        top: (top / height).clamp(0.0, 1.0),
        right: (right / width).clamp(0.0, 1.0),
        bottom: (bottom / height).clamp(0.0, 1.0),
    }
}

/// The lines of a picture that was read, from top to bottom.
pub(super) fn read_lines(picture: &Picture, page: &RecognizedPage) -> Vec<ReadLine> {
    let read = |line: &RecognizedLine| ReadLine {
        text: line.text.clone(),
        confidence: (line.confidence * 1000.0).round() / 1000.0,
        area: share(picture, page.place_on_picture(line, (0.0, 1.0))),
    };
    let mut lines: Vec<ReadLine> = page.lines.iter().map(read).collect();
    lines.sort_by(|one, other| one.area.top.total_cmp(&other.area.top));
    lines
}

impl LetteredPicture {
    /// The view of a page with the places of these texts.
    pub(super) fn view(self, page: u32, texts: &[&str]) -> PageView {
        let stream = LetterStream::of(&self.letters);
        let boxes = |text: &&str| {
            let places = with_signs(&self.letters, stream.find(text));
            lines(&self.letters, &places).into_iter().map(|area| share(&self.picture, area)).collect()
        };
        let boxes = texts.iter().map(boxes).collect();
        PageView { page, picture: self.picture, boxes, lines: Vec::new() }
    }

    /// A picture with the letters that were read on a finer or coarser one of the same. The letters of a line share its
    /// width.
    pub(super) fn recognized(picture: Picture, seen: &Picture, page: &RecognizedPage) -> Self {
        let scale = picture.width as f32 / seen.width.max(1) as f32;
        let mut letters = Vec::new();
        let mut lines: Vec<_> = page.lines.iter().collect();
        lines.sort_by(|one, other| (one.top + one.bottom).total_cmp(&(other.top + other.bottom)));
        for line in lines {
            let count = line.text.chars().count().max(1) as f32;
            for (place, letter) in line.text.chars().enumerate().filter(|(_, letter)| !letter.is_whitespace()) {
                let part = (place as f32 / count, (place + 1) as f32 / count);
                let area = page.place_on_picture(line, part).map(|side| side * scale);
                letters.push(PlacedLetter { letter, area });
            }
        }
        Self { picture, letters }
    }
}

/// The letters and digits of a page in their order, in lower case and without accents, each with the place of its letter.
struct LetterStream {
    text: Vec<char>,
    letters: Vec<usize>,
}

impl LetterStream {
    fn of(letters: &[PlacedLetter]) -> Self {
        let mut stream = Self { text: Vec::new(), letters: Vec::new() };
        for (place, placed) in letters.iter().enumerate() {
            for letter in plain([placed.letter]) {
                stream.text.push(letter);
                stream.letters.push(place);
            }
        }
        stream
    }

    /// The places of the letters of a text.
    fn find(&self, text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let mut behind = None;
        // A cell or a line is a piece at whose beginning a text can go on somewhere else.
        let end = text.char_indices().nth(MOST_LETTERS).map_or(text.len(), |(end, _)| end);
        let pieces: Vec<Vec<char>> = text[..end]
            .split(['\n', '|'])
            .map(|piece| plain(piece.chars()).collect::<Vec<char>>())
            .filter(|piece| !piece.is_empty())
            .collect();
        let whole: Vec<char> = pieces.concat();
        let starts: Vec<usize> = pieces
            .iter()
            .scan(0, |at, piece| {
                let start = *at;
                *at += piece.len();
                Some(start)
            })
            .collect();
        let mut at = 0;
        while at < whole.len() {
            let next_piece = starts.get(starts.partition_point(|start| *start <= at)).copied().unwrap_or(whole.len());
            let Some((start, length)) = self.longest(&whole[at..], next_piece - at, behind) else {
                // What is not found here may go on a few letters later: a footnote's mark, a hyphen, a number of a page.
                at = if next_piece - at > LEAST_LETTERS { at + 1 } else { next_piece };
                continue;
            };
            found.extend(&self.letters[start..start + length]);
            behind = Some(start + length);
            at += length;
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Where the longest beginning of a text stands, and how long it is. One that is shorter than the least must be a whole
    /// piece, close behind what was found before.
    fn longest(&self, text: &[char], piece: usize, behind: Option<usize>) -> Option<(usize, usize)> {
        let common = |start: usize| self.text[start..].iter().zip(text).take_while(|(one, other)| one == other).count();
        if let Some(behind) = behind {
            // A text mostly goes on where it was.
            let near = (behind..self.text.len().min(behind + NEAR)).map(|start| (start, common(start)));
            let near = near.max_by_key(|(start, length)| (*length, std::cmp::Reverse(*start)));
            if let Some((start, length)) = near.filter(|(_, length)| *length >= piece.min(LEAST_LETTERS)) {
                return Some((start, length));
            }
        }
        let all = (0..self.text.len()).map(|start| (start, common(start)));
        let (start, length) = all.max_by_key(|(start, length)| (*length, std::cmp::Reverse(*start)))?;
        // A short text alone must be there as a whole.
        let least = if behind.is_none() && text.len() < LEAST_LETTERS { text.len() } else { LEAST_LETTERS };
        (length >= least).then_some((start, length))
    }
}

/// Where the letters and digits of a quote begin in a text, in bytes, whatever stands between them.
pub fn find_letters(text: &str, quote: &str) -> Option<usize> {
    let wanted: Vec<char> = plain(quote.chars()).collect();
    let (mut letters, mut places) = (Vec::new(), Vec::new());
    for (place, letter) in text.char_indices() {
        for letter in plain([letter]) {
            letters.push(letter);
            places.push(place);
        }
    }
    let found = letters.windows(wanted.len().max(1)).position(|window| window == wanted)?;
    places.get(found).copied()
}

/// Letters and digits in lower case, ligatures as their letters, accents away.
fn plain(letters: impl IntoIterator<Item = char>) -> impl Iterator<Item = char> {
    letters.into_iter().nfkd().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase)
}

/// The letters with the signs that touch them, such as `£` before a number and the full stop of a sentence.
fn with_signs(letters: &[PlacedLetter], mut places: Vec<usize>) -> Vec<usize> {
    let touches = |one: usize, other: usize| {
        let [one, other] = [letters[one].area, letters[other].area];
        let height = (one[3] - one[1]).max(other[3] - other[1]);
        one[3].min(other[3]) - one[1].max(other[1]) > height / 2.0
            && (other[0] - one[2]).max(one[0] - other[2]) < TOUCHING * height
    };
    let is_sign = |place: usize| letters.get(place).is_some_and(|placed| plain([placed.letter]).next().is_none());
    for i in 0..places.len() {
        for step in [-1, 1] {
            let mut at = places[i];
            while let Some(next) = at.checked_add_signed(step).filter(|&next| is_sign(next) && touches(at, next)) {
                places.push(next);
                at = next;
            }
        }
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// The areas around the letters of each line.
fn lines(letters: &[PlacedLetter], places: &[usize]) -> Vec<[f32; 4]> {
    let mut lines: Vec<([f32; 4], usize)> = Vec::new();
    for &place in places {
        let area = letters[place].area;
        let height = area[3] - area[1];
        let goes_on = |(line, last): &([f32; 4], usize)| {
            let shared = line[3].min(area[3]) - line[1].max(area[1]);
            // A gap between two columns ends a line, unless the letters between are marked too.
            let gap = (area[0] - line[2]).max(line[0] - area[2]);
            shared > height / 2.0 && (gap < 2.0 * height || place == last + 1 && gap < 4.0 * height)
        };
        match lines.last_mut().filter(|last| goes_on(last)) {
            Some((line, last)) => {
                *line = [line[0].min(area[0]), line[1].min(area[1]), line[2].max(area[2]), line[3].max(area[3])];
                *last = place;
            }
            None => lines.push((area, place)),
        }
    }
    lines.into_iter().map(|(line, _)| line).collect()
}

/// Colours an area as a marker does: what is dark stays dark.
fn mark(picture: &mut Picture, area: &PageBox, colour: [u8; 3]) {
    let (width, height) = (picture.width as f32, picture.height as f32);
    let margin = MARGIN * (area.bottom - area.top) * height;
    let column = |x: f32| (x.max(0.0) as usize).min(picture.width);
    let row = |y: f32| (y.max(0.0) as usize).min(picture.height);
    let (left, right) = (column(area.left * width - margin), column((area.right * width + margin).ceil()));
    let (top, bottom) = (row(area.top * height - margin), row((area.bottom * height + margin).ceil()));
    for y in top..bottom {
        for pixel in
            picture.pixels[(y * picture.width + left) * 3..(y * picture.width + right) * 3].as_chunks_mut::<3>().0
        {
            for (value, colour) in pixel.iter_mut().zip(colour) {
                *value = (u16::from(*value) * u16::from(colour) / 255) as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters of ten pixels in lines of twenty.
    fn page(lines: &[&str]) -> LetteredPicture {
        let mut letters = Vec::new();
        for (row, line) in lines.iter().enumerate() {
            for (column, letter) in line.chars().enumerate().filter(|(_, letter)| *letter != ' ') {
                let (left, top) = (10.0 * column as f32, 20.0 * row as f32);
                letters.push(PlacedLetter { letter, area: [left, top, left + 10.0, top + 12.0] });
            }
        }
        let (width, height) = (400, 200);
        LetteredPicture {
            picture: Picture { width, height, channels: 3, pixels: vec![255; width * height * 3] },
            letters,
        }
    }

    fn found(lines: &[&str], text: &str) -> Vec<[u32; 4]> {
        let view = page(lines).view(1, &[text]);
        let pixels = |area: &PageBox| [area.left * 400.0, area.top * 200.0, area.right * 400.0, area.bottom * 200.0];
        view.boxes[0].iter().map(|area| pixels(area).map(|value| value.round() as u32)).collect()
    }

    #[test]
    fn a_text_is_found_over_lines_hyphens_and_ligatures() {
        let lines = ["The miller grinds the ﬁnest", "flour of all, with-", "out a doubt. He sleeps."];
        let text = "grinds the **finest** flour of all, without a doubt.";
        assert_eq!(found(&lines, text), [[110, 0, 270, 12], [0, 20, 190, 32], [0, 40, 120, 52]]);
        assert_eq!(found(&lines, "He sleeps"), [[130, 40, 230, 52]]);
        assert_eq!(found(&lines, "The owl wakes at night"), [[0u32; 4]; 0]);
    }

    #[test]
    fn the_letters_of_a_quote_are_found_between_other_signs() {
        let text = "Äpfel | rye | 42 |\n| --- |";
        assert_eq!(find_letters(text, "rye 42"), Some("Äpfel | ".len()));
        assert_eq!((find_letters(text, "rye 43"), find_letters(text, "—"), find_letters("", "a")), (None, None, None));
    }

    #[test]
    fn cells_are_found_where_their_row_is_and_not_where_the_same_word_stands_elsewhere() {
        let lines = ["rye 42 is what a bushel costs", "grain        price", "rye          42", "oats         38"];
        let text = "| grain | price |\n| --- | --- |\n| rye | 42 |";
        let rows = found(&lines, text);
        assert!(rows.iter().all(|row| row[1] >= 20 && row[1] < 60), "{rows:?}");
        assert!(rows.iter().any(|row| row[1] == 40), "{rows:?}");
    }

    #[test]
    fn a_mark_colours_the_paper_and_keeps_letters_dark() {
        let mut view = page(&["owl"]).view(1, &["owl"]);
        view.picture.pixels[..3].fill(0);
        let marked = view.marked();
        assert_eq!(marked.pixels[..6], [0, 0, 0, 255, 222, 89]);
        assert_eq!(marked.pixels[marked.pixels.len() - 3..], [255, 255, 255]);
        assert!(marked.to_png().unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn long_texts_that_are_not_on_the_page_end() {
        let line = "abcdefghij ".repeat(20);
        let lines: Vec<&str> = std::iter::repeat_n(line.as_str(), 40).collect();
        let view = page(&lines).view(1, &["abcdefghix ".repeat(300).as_str(), "", "|||\n\n"]);
        assert!(view.boxes.iter().all(|boxes| boxes.len() < 5000));
    }
}

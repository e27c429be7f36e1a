//! `recognition`: the text of a line. The network reads a picture of 48 rows and gives, for each step of 8 columns,
//! how likely each character is (connectionist temporal classification, CTC).

use super::geometry::{Rectangle, straighten};
use super::picture::Picture;
use super::runtime;
use crate::Error;
use ort::session::Session;

/// The rows that the network reads.
const HEIGHT: usize = 48;
/// Lines are squeezed: fewer columns take less time. At 0.85 as much is read right as at 1, at 0.7 less.
const SQUEEZE: f32 = 0.85;
/// Lines with fewer rows of pixels on the page are not squeezed, because their letters are hardly told apart.
const SMALL: f32 = 28.0;
/// Lines that are read in one run have at most so many columns together. Short lines alone take longer for each column.
const RUN_WIDTH: usize = 1_000;
/// A narrower picture is filled up to so many columns.
const LEAST_WIDTH: usize = 96;
/// A wider line is cut, so that its memory stays bounded.
const MOST_WIDTH: usize = 2_400;
/// After so many columns, a session gives its memory back: lines of ever new widths leave gaps in it, and it grows.
const COLUMNS_OF_MEMORY: usize = 50_000;
/// A wider line is cut at least there, so that it is no endless work.
const MOST_TOTAL_WIDTH: usize = 100_000;
/// The class of "no character".
const BLANK: usize = 0;
/// Empty columns where a line may be cut have at most this difference between light and dark.
const FLAT: u8 = 24;

/// The text of a line, and how sure the network is of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RecognizedText {
    /// With spaces between words.
    pub(super) text: String,
    /// The mean over the characters, 0 to 1.
    pub(super) confidence: f32,
}

/// The network that reads lines.
#[derive(Debug)]
pub(super) struct Recognizer {
    session: Session,
    characters: Vec<String>,
    /// The columns that were read since the session gave its memory back.
    columns: usize,
}

impl Recognizer {
    /// Takes a session of the network. The metadata of its file list the characters.
    ///
    /// # Errors
    /// The metadata have no characters.
    pub(super) fn new(session: Session) -> Result<Self, Error> {
        let list = session.metadata().map_err(|error| runtime::failed(&error))?.custom("character");
        let list = list.ok_or_else(|| runtime::failed("its metadata have no list `character`"))?;
        let characters = list.lines().map(str::to_owned).chain([" ".to_owned()]).collect();
        Ok(Self { session, characters, columns: 0 })
    }

    /// Reads the text inside rectangles of the page, each in the direction of its rectangle. They are read in one run,
    /// so they should be about equally wide: see [`groups`].
    ///
    /// # Errors
    /// The network cannot be run, or does not have the classes that its metadata name.
    pub(super) fn recognize(&mut self, page: &Picture, rectangles: &[Rectangle]) -> Result<Vec<RecognizedText>, Error> {
        let picture = |rectangle: &Rectangle| straighten(page, rectangle, line_width(rectangle), HEIGHT);
        let lines: Vec<Picture> = rectangles.iter().map(picture).collect();
        if lines.iter().all(|line| line.width <= MOST_WIDTH) {
            let strips: Vec<Strip> = lines.iter().map(|line| Strip { line, begin: 0, end: line.width }).collect();
            return self.run(&strips);
        }
        let in_parts = |line| {
            let parts = parts_of(line).into_iter().map(|(begin, end)| self.run(&[Strip { line, begin, end }]));
            Ok(joined(parts.collect::<Result<Vec<_>, _>>()?.concat()))
        };
        lines.iter().map(in_parts).collect()
    }

    fn run(&mut self, strips: &[Strip]) -> Result<Vec<RecognizedText>, Error> {
        let columns = strips.iter().map(Strip::width).fold(LEAST_WIDTH, usize::max);
        let mut input = vec![0.0; strips.len() * 3 * HEIGHT * columns];
        for (strip, values) in strips.iter().zip(input.chunks_exact_mut(3 * HEIGHT * columns)) {
            strip.write(values, columns);
        }
        self.columns += strips.len() * columns;
        let gives_memory_back = self.columns > COLUMNS_OF_MEMORY;
        if gives_memory_back {
            self.columns = 0;
        }
        let characters = &self.characters;
        let shape = [strips.len(), 3, HEIGHT, columns];
        let texts = runtime::run(&mut self.session, shape, &input, gives_memory_back, |shape, values| {
            let classes = shape.last().map_or(0, |size| *size as usize);
            let text = |values| decode(values, characters);
            (classes == characters.len() + 1)
                .then(|| values.chunks((values.len() / strips.len()).max(1)).map(text).collect())
        })?;
        texts.ok_or_else(|| runtime::failed("it has other classes than characters"))
    }
}

/// The columns of a line's picture when it has 48 rows.
pub(super) fn line_width(rectangle: &Rectangle) -> usize {
    let squeeze = if rectangle.height < SMALL { 1.0 } else { SQUEEZE };
    let ratio = rectangle.width / rectangle.height.max(1.0) * squeeze;
    ((ratio * HEIGHT as f32).ceil() as usize).clamp(1, MOST_TOTAL_WIDTH)
}

/// The lines in groups that are read in one run, the widest first.
pub(super) fn groups(rectangles: &[Rectangle]) -> Vec<Vec<usize>> {
    let width = |index: &usize| line_width(&rectangles[*index]).max(LEAST_WIDTH);
    let mut order: Vec<usize> = (0..rectangles.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(width(index)));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in order {
        match groups.last_mut() {
            Some(group) if (group.len() + 1) * width(&group[0]) <= RUN_WIDTH => group.push(index),
            _ => groups.push(vec![index]),
        }
    }
    groups
}

/// Some columns of a line's picture.
#[derive(Debug, Clone, Copy)]
struct Strip<'a> {
    line: &'a Picture,
    begin: usize,
    end: usize,
}

impl Strip<'_> {
    fn width(&self) -> usize {
        self.end - self.begin
    }

    /// Writes three planes of values from -1 to 1: blue, green, red. Columns after the strip stay 0.
    fn write(&self, values: &mut [f32], columns: usize) {
        let line = self.line;
        for (row, place) in values.chunks_exact_mut(columns).zip(0..) {
            let (plane, y) = (place / HEIGHT, place % HEIGHT);
            let channel = if line.channels == 3 { 2 - plane } else { 0 };
            for (value, x) in row.iter_mut().zip(self.begin..self.end) {
                *value = f32::from(line.pixels[(y * line.width + x) * line.channels + channel]) / 127.5 - 1.0;
            }
        }
    }
}

/// The columns of the parts of a line, each at most [`MOST_WIDTH`] wide. It is cut where most empty columns stand
/// together, in the last third of a part.
fn parts_of(line: &Picture) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut begin = 0;
    while line.width - begin > MOST_WIDTH {
        let end = cut(line, begin + MOST_WIDTH * 2 / 3, begin + MOST_WIDTH);
        parts.push((begin, end));
        begin = end;
    }
    parts.push((begin, line.width));
    parts
}

/// The middle of the longest row of empty columns.
fn cut(line: &Picture, first: usize, last: usize) -> usize {
    let is_empty = |x: usize| {
        let column = (0..line.height).map(|y| line.pixels[(y * line.width + x) * line.channels]);
        let (dark, light) = column.fold((255, 0), |(dark, light): (u8, u8), value| (dark.min(value), light.max(value)));
        light - dark <= FLAT
    };
    let (mut best, mut length, mut run) = (last, 0, 0);
    for x in first..last {
        run = if is_empty(x) { run + 1 } else { 0 };
        if run > length {
            (best, length) = (x - run / 2, run);
        }
    }
    best
}

/// The likeliest character of each step: one that is repeated counts once, unless a blank stands between.
fn decode(values: &[f32], characters: &[String]) -> RecognizedText {
    let mut text = String::new();
    let (mut sum, mut count) = (0.0, 0.0);
    let mut previous = BLANK;
    for step in values.chunks_exact(characters.len() + 1) {
        let (class, likelihood) = largest(step);
        if class != BLANK && class != previous {
            text.push_str(&characters[class - 1]);
            sum += likelihood;
            count += 1.0;
        }
        previous = class;
    }
    RecognizedText { text, confidence: if count > 0.0 { sum / count } else { 0.0 } }
}

/// The place of the largest value, and the value. The maximum is found first, in blocks, because that is quick.
fn largest(values: &[f32]) -> (usize, f32) {
    let mut block = [f32::MIN; 16];
    let (blocks, rest) = values.as_chunks::<16>();
    for values in blocks {
        block.iter_mut().zip(values).for_each(|(most, value)| *most = most.max(*value));
    }
    let most = block.iter().chain(rest).fold(f32::MIN, |most, value| most.max(*value));
    (values.iter().position(|value| *value >= most).unwrap_or(BLANK), most)
}

/// The parts of a line as one text. Its confidence is their mean, by their length.
fn joined(mut parts: Vec<RecognizedText>) -> RecognizedText {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    parts.retain(|part| !part.text.trim().is_empty());
    let characters: usize = parts.iter().map(|part| part.text.len()).sum();
    let sum: f32 = parts.iter().map(|part| part.confidence * part.text.len() as f32).sum();
    let texts: Vec<&str> = parts.iter().map(|part| part.text.trim()).collect();
    RecognizedText { text: texts.join(" "), confidence: if characters > 0 { sum / characters as f32 } else { 0.0 } }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::Point;
    use super::*;

    /// Steps in which one class has the given likelihood, for the characters `a`, `b` and space.
    fn read(steps: &[(usize, f32)]) -> RecognizedText {
        let characters: Vec<String> = ["a", "b", " "].map(str::to_owned).to_vec();
        let mut values = Vec::new();
        for (class, likelihood) in steps {
            values.extend((0..4).map(|i| if i == *class { *likelihood } else { 0.1 }));
        }
        decode(&values, &characters)
    }

    #[test]
    fn repeated_steps_are_one_character_unless_a_blank_stands_between() {
        let [blank, a, b, space] = [(0, 0.9), (1, 0.9), (2, 0.9), (3, 0.9)];
        assert_eq!(read(&[blank, a, a, blank, b, b]).text, "ab");
        assert_eq!(read(&[a, blank, a, a, blank, blank, a]).text, "aaa");
        assert_eq!(read(&[a, b, a]).text, "aba");
        assert_eq!(read(&[a, space, space, b, blank, space]).text, "a b ");
        assert_eq!(read(&[blank, blank]), RecognizedText::default());
        assert_eq!(read(&[]), RecognizedText::default());
    }

    #[test]
    fn the_confidence_is_the_mean_over_the_characters_that_are_read() {
        let found = read(&[(1, 0.8), (1, 0.3), (0, 0.9), (2, 0.6)]);
        assert!((found.confidence - 0.7).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn the_largest_value_is_found_wherever_it_stands() {
        for place in 0..53 {
            let mut values = vec![0.25; 53];
            values[place] = 0.5;
            assert_eq!(largest(&values), (place, 0.5));
        }
        assert_eq!(largest(&[]).0, BLANK);
        // Not a number is no largest value, and the program goes on.
        assert_eq!(largest(&[f32::NAN, 0.5, f32::NAN]), (1, 0.5));
    }

    #[test]
    fn a_long_line_is_cut_between_words() {
        let mut line = Picture { width: 6_000, height: HEIGHT, channels: 1, pixels: vec![0; 6_000 * HEIGHT] };
        let gaps = [300..310, 1_700..1_750, 2_000..2_020, 3_900..3_930, 5_000..5_010];
        for (i, pixel) in line.pixels.iter_mut().enumerate() {
            let x = i % 6_000;
            let is_gap = gaps.iter().any(|gap| gap.contains(&x));
            *pixel = if is_gap || (i / 6_000) % 2 == 0 { 255 } else { 0 };
        }
        let parts = parts_of(&line);
        assert_eq!(parts.iter().map(|part| part.1).collect::<Vec<_>>(), [1_724, 3_914, 6_000], "{parts:?}");
        assert!(parts.iter().all(|(begin, end)| end - begin <= MOST_WIDTH));
    }

    #[test]
    fn a_line_without_gaps_is_cut_all_the_same() {
        let pixels = (0..9_000 * HEIGHT).map(|i| if (i / 9_000) % 2 == 0 { 255 } else { 0 }).collect();
        let parts = parts_of(&Picture { width: 9_000, height: HEIGHT, channels: 1, pixels });
        assert_eq!(parts.len(), 4);
        assert_eq!(parts.last().map(|part| part.1), Some(9_000));
    }

    #[test]
    fn each_line_is_in_one_group_that_is_not_too_wide() {
        let rectangle =
            |width: f32| Rectangle { center: Point::new(0.0, 0.0), along: Point::new(1.0, 0.0), width, height: 48.0 };
        let rectangles: Vec<Rectangle> =
            [50.0, 9_000.0, 300.0, 310.0, 70.0, 1_300.0, 320.0, 60.0].map(rectangle).to_vec();
        assert_eq!(groups(&rectangles), [vec![1], vec![5], vec![6, 3, 2], vec![0, 4, 7]]);
        assert!(groups(&[]).is_empty());
    }

    #[test]
    fn parts_are_one_text() {
        let part = |text: &str, confidence| RecognizedText { text: text.to_owned(), confidence };
        assert_eq!(joined(vec![part("one ", 0.5), part(" ", 0.1), part("two", 1.0)]).text, "one two");
        assert_eq!(joined(vec![part(" one ", 0.5)]).text, " one ");
        assert_eq!(joined(Vec::new()), RecognizedText::default());
    }
}

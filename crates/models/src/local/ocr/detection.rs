//! `detection`: where the lines of text are. The network marks the inner part of each line on a map; the marked
//! areas become rectangles (differentiable binarization, Liao et al. 2020, arXiv:1911.08947).

use super::geometry::{Point, Rectangle, smallest_rectangle, unclip_distance};
use super::picture::Picture;
use super::runtime;
use crate::Error;
use ort::session::Session;

/// Both sides of the network's input are multiples of it.
const MULTIPLE: usize = 32;
/// A picture is made smaller to at most so many pixels for detection. This bounds time and memory whatever its shape,
/// and A4 has then 102 dpi. Half as many pixels find fewer of the small cells of tables.
const MOST_PIXELS: f32 = 1_000_000.0;
/// The longest side of a picture for detection.
const LONGEST_SIDE: f32 = 8_000.0;
/// Pixels of the map above it are marked.
const MARKED: f32 = 0.3;
/// The least mean of the map inside a rectangle.
const LEAST_SCORE: f32 = 0.5;
/// See [`unclip_distance`].
const UNCLIP: f32 = 1.6;
/// The shortest side of a marked area, in pixels of the map.
const LEAST_SIDE: f32 = 2.0;
/// No page has more lines. It bounds the time for noise.
const MOST_BOXES: usize = 4_000;

/// A line of text on the page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TextBox {
    /// Where it is, in pixels of the picture.
    pub(super) rectangle: Rectangle,
    /// How sure the network is, 0 to 1.
    pub(super) score: f32,
}

/// The network that finds lines.
#[derive(Debug)]
pub(super) struct Detector {
    session: Session,
}

impl Detector {
    /// With a session of the model.
    pub(super) fn new(session: Session) -> Self {
        Self { session }
    }

    /// The lines of a picture, in no order.
    ///
    /// # Errors
    /// The network cannot be run.
    pub(super) fn detect(&mut self, picture: &Picture) -> Result<Vec<TextBox>, Error> {
        let scale = scale(picture.width, picture.height);
        let size = |side: usize| ((side as f32 * scale) as usize).max(1);
        let small = picture.resized(size(picture.width), size(picture.height));
        let (width, height) = (small.width.next_multiple_of(MULTIPLE), small.height.next_multiple_of(MULTIPLE));
        let input = input(&small, width, height);
        let boxes = runtime::run(&mut self.session, [1, 3, height, width], &input, true, |_, map| {
            let map = Map { width, height, values: map };
            map.boxes()
        })?;
        let factor = 1.0 / scale;
        Ok(boxes.into_iter().map(|found| TextBox { rectangle: found.rectangle.scaled(factor), ..found }).collect())
    }
}

/// By how much a picture is made smaller.
fn scale(width: usize, height: usize) -> f32 {
    let (width, height) = (width as f32, height as f32);
    (MOST_PIXELS / (width * height)).sqrt().min(LONGEST_SIDE / width.max(height)).min(1.0)
}

/// Three planes of values from -1 to 1: blue, green, red. To the right and below, the picture's last pixels are
/// repeated.
fn input(picture: &Picture, width: usize, height: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(3 * width * height);
    for plane in (0..3).rev() {
        let channel = if picture.channels == 3 { plane } else { 0 };
        for y in 0..height {
            let row = y.min(picture.height - 1) * picture.width;
            values.extend((0..width).map(|x| {
                let pixel = picture.pixels[(row + x.min(picture.width - 1)) * picture.channels + channel];
                f32::from(pixel) / 127.5 - 1.0
            }));
        }
    }
    values
}

/// How likely each pixel is inside a line.
struct Map<'a> {
    width: usize,
    height: usize,
    values: &'a [f32],
}

impl Map<'_> {
    fn boxes(&self) -> Vec<TextBox> {
        let mut marked: Vec<bool> = self.values.iter().map(|value| *value > MARKED).collect();
        let mut boxes = Vec::new();
        for start in 0..marked.len() {
            if !marked[start] {
                continue;
            }
            let mut outline = outline(&take_component(&mut marked, self.width, start), self.width);
            boxes.extend(smallest_rectangle(&mut outline).and_then(|rectangle| self.text_box(rectangle.upright())));
            if boxes.len() == MOST_BOXES {
                break;
            }
        }
        boxes
    }

    fn text_box(&self, rectangle: Rectangle) -> Option<TextBox> {
        if rectangle.width.min(rectangle.height) < LEAST_SIDE {
            return None;
        }
        let score = self.mean(&rectangle);
        if score < LEAST_SCORE {
            return None;
        }
        let rectangle = rectangle.grown(unclip_distance(&rectangle, UNCLIP));
        Some(TextBox { rectangle, score })
    }

    /// The mean of the map inside a rectangle.
    fn mean(&self, rectangle: &Rectangle) -> f32 {
        let (left, top, right, bottom) = rectangle.bounds();
        let (first, last) = (top.max(0.0) as usize, (bottom.ceil() as usize).min(self.height));
        let (begin, end) = (left.max(0.0) as usize, (right.ceil() as usize).min(self.width));
        let (along, down) = (rectangle.along, rectangle.down());
        let (mut sum, mut count) = (0.0, 0.0);
        for y in first..last {
            for x in begin..end {
                let (dx, dy) = (x as f32 + 0.5 - rectangle.center.x, y as f32 + 0.5 - rectangle.center.y);
                let inside = (dx * along.x + dy * along.y).abs() <= rectangle.width / 2.0
                    && (dx * down.x + dy * down.y).abs() <= rectangle.height / 2.0;
                if inside {
                    sum += self.values[y * self.width + x];
                    count += 1.0;
                }
            }
        }
        if count > 0.0 { sum / count } else { 0.0 }
    }
}

/// The places of all marked pixels that hang together with `start`, also by their corners. Their marks are removed.
fn take_component(marked: &mut [bool], width: usize, start: usize) -> Vec<usize> {
    let height = marked.len() / width;
    marked[start] = false;
    let mut places = vec![start];
    let mut next = 0;
    while let Some(&place) = places.get(next) {
        next += 1;
        let (x, y) = (place % width, place / width);
        for row in y.saturating_sub(1)..(y + 2).min(height) {
            for column in x.saturating_sub(1)..(x + 2).min(width) {
                let neighbour = row * width + column;
                if marked[neighbour] {
                    marked[neighbour] = false;
                    places.push(neighbour);
                }
            }
        }
    }
    places
}

/// The corners of the first and the last pixel in each row: all that the convex hull needs.
fn outline(places: &[usize], width: usize) -> Vec<Point> {
    let (top, bottom) =
        places.iter().fold((usize::MAX, 0), |(top, bottom), place| (top.min(place / width), bottom.max(place / width)));
    let mut rows = vec![(usize::MAX, 0); bottom + 1 - top];
    for place in places {
        let (first, last) = &mut rows[place / width - top];
        *first = (*first).min(place % width);
        *last = (*last).max(place % width);
    }
    let corners = |(row, (first, last)): (usize, &(usize, usize))| {
        let (y, left, right) = ((top + row) as f32, *first as f32, *last as f32 + 1.0);
        [Point::new(left, y), Point::new(right, y), Point::new(left, y + 1.0), Point::new(right, y + 1.0)]
    };
    rows.iter().enumerate().filter(|(_, (first, last))| first <= last).flat_map(corners).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map with a line for each row of text: `#` is marked.
    fn map(rows: &[&str]) -> (usize, usize, Vec<f32>) {
        let values = rows.iter().flat_map(|row| row.bytes().map(|byte| if byte == b'#' { 0.9 } else { 0.0 })).collect();
        (rows[0].len(), rows.len(), values)
    }

    fn boxes(rows: &[&str]) -> Vec<TextBox> {
        let (width, height, values) = map(rows);
        Map { width, height, values: &values }.boxes()
    }

    #[test]
    fn each_area_is_a_box() {
        let found = boxes(&[
            "                    ",
            "  ########   ###### ",
            "  ########   ###### ",
            "  ########   ###### ",
            "                    ",
            "    #####           ",
            "    #####           ",
            "    #####           ",
        ]);
        let centers: Vec<(f32, f32)> =
            found.iter().map(|found| (found.rectangle.center.x, found.rectangle.center.y)).collect();
        assert_eq!(centers, [(6.0, 2.5), (16.0, 2.5), (6.5, 6.5)]);
        assert!(found.iter().all(|found| found.score > 0.85));
        // 8 × 3 pixels grow by 8 · 3 · 1.6 / 22 on each side.
        let grown = found[0].rectangle;
        assert!((grown.width - 11.49).abs() < 0.02 && (grown.height - 6.49).abs() < 0.02, "{grown:?}");
    }

    #[test]
    fn corners_connect_and_small_or_weak_areas_are_left_out() {
        let mut marked: Vec<bool> = "###   #   ## #".bytes().map(|byte| byte == b'#').collect();
        // Rows of 7 pixels: the third and the eleventh touch by their corners.
        assert_eq!(take_component(&mut marked, 7, 0), [0, 1, 2, 10, 11]);
        assert_eq!(take_component(&mut marked, 7, 6), [6, 13]);
        assert!(!marked.contains(&true));
        assert_eq!(boxes(&["###  ", "     ", "     ", "   ##"]).len(), 0);
        // A frame is marked on its sides only: the mean inside is small.
        assert_eq!(
            boxes(&["##########", "#        #", "#        #", "#        #", "#        #", "##########"]).len(),
            0
        );
    }

    #[test]
    fn an_empty_and_a_full_map_end() {
        assert_eq!(boxes(&["    "; 4]).len(), 0);
        assert_eq!(boxes(&["####"; 4]).len(), 1);
    }

    #[test]
    fn detection_is_bounded_for_all_shapes() {
        for (width, height) in [(1654, 2339), (2480, 3508), (20_000, 10), (10, 20_000), (10_000, 10_000), (1, 1)] {
            let scale = scale(width, height);
            assert!(scale <= 1.0 && (width * height) as f32 * scale * scale <= MOST_PIXELS * 1.01);
        }
    }
}

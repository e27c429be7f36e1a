//! `direction`: which way up a page and its lines are. The shape of the lines says whether a page lies on its side;
//! whether it stands on its head is seen from how well it can be read, so no other network is needed.

use super::detection::TextBox;
use super::geometry::Rectangle;

/// How much longer than wide a line is whose direction can be seen.
const LONG: f32 = 1.5;
/// Tall boxes up to this ratio may be single letters that stand upright.
const ONE_LETTER: f32 = 2.5;
/// A text with this confidence was read the right way up.
pub(super) const SURE: f32 = 0.8;
/// So many lines show which way up the page is.
pub(super) const SAMPLE: usize = 5;
/// Lines with more columns for recognition are too expensive for a sample.
const SAMPLE_WIDTH: usize = 1_200;

/// Whether most of the text runs up or down the page.
pub(super) fn lies_on_side(boxes: &[TextBox]) -> bool {
    let lengths = |is_standing: bool| -> f32 {
        let long = boxes.iter().map(|found| found.rectangle).filter(|rectangle| {
            let (width, height) = (rectangle.width, rectangle.height);
            if is_standing { height >= LONG * width } else { width >= LONG * height }
        });
        long.map(|rectangle| rectangle.width.max(rectangle.height)).sum()
    };
    lengths(true) > lengths(false)
}

/// The longest lines that are not expensive to read.
pub(super) fn sample(boxes: &[TextBox]) -> Vec<usize> {
    let width = |index: &usize| super::recognition::line_width(&boxes[*index].rectangle);
    let mut indices: Vec<usize> = (0..boxes.len()).filter(|index| width(index) <= SAMPLE_WIDTH).collect();
    indices.sort_by_key(|index| std::cmp::Reverse(width(index)));
    indices.truncate(SAMPLE);
    indices
}

/// The directions in which a line on an upright page may be read, the likeliest first, as quarter turns clockwise.
/// Text on its side mostly runs upwards.
pub(super) fn directions(rectangle: &Rectangle) -> &'static [u8] {
    match rectangle.height / rectangle.width.max(1.0) {
        ratio if ratio < LONG => &[0, 2],
        ratio if ratio < ONE_LETTER => &[0, 3, 1],
        _ => &[3, 1],
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::Point;
    use super::*;

    fn text_box(width: f32, height: f32) -> TextBox {
        let rectangle = Rectangle { center: Point::new(50.0, 50.0), along: Point::new(1.0, 0.0), width, height };
        TextBox { rectangle, score: 1.0 }
    }

    #[test]
    fn the_length_of_the_text_decides_not_the_number_of_boxes() {
        let page = [text_box(300.0, 20.0), text_box(10.0, 20.0), text_box(10.0, 20.0), text_box(12.0, 20.0)];
        assert!(!lies_on_side(&page));
        assert!(lies_on_side(&[text_box(20.0, 300.0), text_box(60.0, 20.0)]));
        assert!(!lies_on_side(&[]));
    }

    #[test]
    fn a_narrow_letter_is_first_read_upright() {
        assert_eq!(directions(&text_box(11.0, 20.0).rectangle), [0, 3, 1]);
        assert_eq!(directions(&text_box(20.0, 100.0).rectangle), [3, 1]);
        assert_eq!(directions(&text_box(100.0, 20.0).rectangle), [0, 2]);
        assert_eq!(directions(&text_box(0.0, 0.0).rectangle), [0, 2]);
    }

    #[test]
    fn the_sample_has_long_lines_that_are_not_too_long() {
        let boxes = [text_box(30.0, 20.0), text_box(900.0, 20.0), text_box(400.0, 20.0), text_box(200.0, 20.0)];
        assert_eq!(sample(&boxes), [2, 3, 0]);
    }
}

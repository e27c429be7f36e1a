//! The straight lines that are drawn on a page: the borders of tables and frames.

use super::area::Area;
use pdfium_render::prelude::{
    PdfMatrix, PdfPage, PdfPageObject, PdfPageObjectsCommon, PdfPagePathObject, PdfPathFillMode, PdfPathSegmentType,
    PdfPathSegments, PdfPoints,
};

/// The most lines of a page that are looked at: maps have a million.
const MOST_RULES: usize = 20_000;
/// A drawn area of at most so many points is a line.
const LINE_WIDTH: f32 = 3.0;
/// Strokes of ticks and crosses are shorter than this, in points, in each direction.
const MOST_STROKE: f32 = 18.0;
/// Forms in forms are looked at to this depth.
const DEEPEST_FORM: u32 = 8;
/// Lines at most so far from each other, in points, are one.
pub(super) const SAME_LINE: f32 = 2.5;

/// A line that is drawn on a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DrawnPiece {
    pub(super) is_horizontal: bool,
    /// Its height on the page if it is horizontal, or else its distance from the left.
    pub(super) at: f32,
    pub(super) from: f32,
    pub(super) to: f32,
}

impl DrawnPiece {
    /// The line that a flat area is.
    pub(super) fn of(area: &Area) -> Self {
        if area.width() >= area.height() {
            Self { is_horizontal: true, at: area.middle_y(), from: area.left, to: area.right }
        } else {
            Self { is_horizontal: false, at: area.middle_x(), from: area.top, to: area.bottom }
        }
    }
}

/// A line of one direction, after all its pieces were joined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DrawnLine {
    pub(super) at: f32,
    pub(super) from: f32,
    pub(super) to: f32,
}

/// The lines of one direction, with pieces of one line joined.
pub(super) fn lines(rules: &[DrawnPiece], is_horizontal: bool) -> Vec<DrawnLine> {
    let mut pieces: Vec<DrawnLine> = rules
        .iter()
        .filter(|rule| rule.is_horizontal == is_horizontal)
        .map(|rule| DrawnLine { at: rule.at, from: rule.from, to: rule.to })
        .collect();
    pieces.sort_by(|one, other| one.at.total_cmp(&other.at).then(one.from.total_cmp(&other.from)));
    let mut lines: Vec<DrawnLine> = Vec::new();
    let mut start = 0;
    while start < pieces.len() {
        let at = pieces[start].at;
        let end = start + pieces[start..].iter().take_while(|piece| piece.at - at <= SAME_LINE).count();
        let mut level: Vec<DrawnLine> = pieces[start..end].to_vec();
        level.sort_by(|one, other| one.from.total_cmp(&other.from));
        for piece in level {
            match lines.last_mut() {
                Some(line) if line.at == at && piece.from <= line.to + SAME_LINE => line.to = line.to.max(piece.to),
                _ => lines.push(DrawnLine { at, ..piece }),
            }
        }
        start = end.max(start + 1);
    }
    lines
}

/// What is drawn on a page, as areas whose heights grow upwards.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    /// The straight lines along the sides of the page, as flat areas.
    pub(super) lines: Vec<Area>,
    /// Small strokes in other directions, such as the cross in a box that is ticked.
    pub(super) strokes: Vec<Area>,
}

impl Drawing {
    pub(super) fn of(page: &PdfPage<'_>) -> Self {
        let mut found = Self::default();
        for object in page.objects().iter() {
            collect(&object, &PdfMatrix::identity(), 0, &mut found);
        }
        found
    }
}

fn collect(object: &PdfPageObject<'_>, matrix: &PdfMatrix, depth: u32, found: &mut Drawing) {
    if found.lines.len() + found.strokes.len() >= MOST_RULES {
        return;
    }
    if let Some(path) = object.as_path_object() {
        path_lines(path, matrix, found);
    } else if let Some(form) = object.as_x_object_form_object().filter(|_| depth < DEEPEST_FORM) {
        let Ok(own) = form.matrix() else { return };
        let matrix = own * *matrix;
        for index in form.as_range() {
            if let Ok(object) = form.get(index) {
                collect(&object, &matrix, depth + 1, found);
            }
        }
    }
}

fn path_lines(path: &PdfPagePathObject<'_>, matrix: &PdfMatrix, found: &mut Drawing) {
    let is_stroked = path.is_stroked().unwrap_or(false);
    let is_filled = path.fill_mode().is_ok_and(|mode| mode != PdfPathFillMode::None);
    let Ok(own) = path.matrix() else { return };
    let matrix = own * *matrix;
    let mut shape = DrawnShape { points: Vec::new(), is_stroked, is_filled };
    let segments = path.segments();
    for index in segments.as_range() {
        let Ok(segment) = segments.get(index) else { return };
        let point = |(x, y): (PdfPoints, PdfPoints)| {
            let (x, y) = matrix.apply_to_points(x, y);
            (x.value, y.value)
        };
        // A curve ends what can be a line.
        if segment.segment_type() != PdfPathSegmentType::LineTo {
            shape.finish(false, found);
        }
        shape.points.push(point(segment.point()));
        if segment.is_close() {
            let first = shape.points.first().copied();
            shape.finish(true, found);
            shape.points.extend(first);
        }
        if shape.points.len() > MOST_RULES || found.lines.len() + found.strokes.len() > MOST_RULES {
            return;
        }
    }
    shape.finish(false, found);
}

/// Points of a path with straight lines between them.
struct DrawnShape {
    points: Vec<(f32, f32)>,
    is_stroked: bool,
    is_filled: bool,
}

impl DrawnShape {
    /// Ends the shape, and adds its lines. A flat shape is a line itself.
    fn finish(&mut self, is_closed: bool, found: &mut Drawing) {
        let points = std::mem::take(&mut self.points);
        if points.len() < 2 {
            return;
        }
        // Heights grow upwards here.
        let between = |(x0, y0): (f32, f32), (x1, y1): (f32, f32)| Area {
            left: x0.min(x1),
            right: x0.max(x1),
            top: y0.max(y1),
            bottom: y0.min(y1),
        };
        let extent = |area: &Area| (area.right - area.left, area.top - area.bottom);
        let around = points.iter().fold(between(points[0], points[0]), |all, &(x, y)| Area {
            left: all.left.min(x),
            right: all.right.max(x),
            top: all.top.max(y),
            bottom: all.bottom.min(y),
        });
        let (width, height) = extent(&around);
        if width.min(height) <= LINE_WIDTH {
            if width.max(height) > LINE_WIDTH && (self.is_stroked || self.is_filled) {
                found.lines.push(around);
            }
            return;
        }
        if !self.is_stroked {
            return;
        }
        let closing = is_closed.then(|| (points[points.len() - 1], points[0]));
        for (one, other) in points.windows(2).map(|pair| (pair[0], pair[1])).chain(closing) {
            let side = between(one, other);
            let (across, up) = extent(&side);
            if across.min(up) <= 1.0 && across.max(up) > LINE_WIDTH {
                found.lines.push(side);
            } else if across.min(up) > 1.0 && across.max(up) < MOST_STROKE {
                found.strokes.push(side);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_line_are_one_line() {
        let rule = |at: f32, from: f32, to: f32| DrawnPiece { is_horizontal: true, at, from, to };
        let found = lines(&[rule(101.0, 40.0, 80.0), rule(100.0, 0.0, 39.0), rule(100.0, 200.0, 300.0)], true);
        let expected = [DrawnLine { at: 100.0, from: 0.0, to: 80.0 }, DrawnLine { at: 100.0, from: 200.0, to: 300.0 }];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_filled_bar_is_a_line_and_a_filled_box_is_none() {
        let finish = |points: &[(f32, f32)], is_stroked: bool| {
            let mut found = Drawing::default();
            DrawnShape { points: points.to_vec(), is_stroked, is_filled: true }.finish(true, &mut found);
            found.lines.len()
        };
        assert_eq!(finish(&[(0.0, 0.0), (100.0, 0.0), (100.0, 1.0), (0.0, 1.0)], false), 1);
        let square = [(0.0, 0.0), (100.0, 0.0), (100.0, 50.0), (0.0, 50.0)];
        assert_eq!(finish(&square, false), 0);
        assert_eq!(finish(&square, true), 4, "its sides are drawn");
    }
}

//! `geometry`: points, the smallest rectangle around points, and the pixels inside a turned rectangle.
//!
//! The y axis points down, as in pictures. A rectangle is read along `along`, and its next line of text would stand
//! in the direction `down`.

use super::picture::Picture;

/// A point or a vector, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// To the right.
    pub(super) x: f32,
    /// Downwards.
    pub(super) y: f32,
}

impl Point {
    /// The point at these coordinates.
    pub(super) fn new(x: f32, y: f32) -> Self {
        Self { x, y }
    }

    fn dot(self, other: Self) -> f32 {
        self.x * other.x + self.y * other.y
    }

    /// This point, `steps` times the vector further.
    pub(super) fn plus(self, vector: Self, steps: f32) -> Self {
        Self::new(self.x + vector.x * steps, self.y + vector.y * steps)
    }

    /// Turned by 90 degrees clockwise.
    fn turned(self) -> Self {
        Self::new(-self.y, self.x)
    }
}

/// A rectangle that may be turned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rectangle {
    /// Where its diagonals meet.
    pub(super) center: Point,
    /// The direction in which its text is read, of length 1.
    pub(super) along: Point,
    /// Its size in that direction.
    pub(super) width: f32,
    /// Its size across that direction.
    pub(super) height: f32,
}

impl Rectangle {
    /// The direction of the next line of text, of length 1.
    pub(super) fn down(&self) -> Point {
        self.along.turned()
    }

    /// The corners in the order in which they stand around the text: top left, top right, bottom right, bottom left.
    pub(super) fn corners(&self) -> [Point; 4] {
        [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)]
            .map(|(x, y)| self.center.plus(self.along, x * self.width).plus(self.down(), y * self.height))
    }

    /// The left, top, right and bottom of the upright rectangle around this one.
    pub(super) fn bounds(&self) -> (f32, f32, f32, f32) {
        self.corners().iter().fold((f32::MAX, f32::MAX, f32::MIN, f32::MIN), |(left, top, right, bottom), corner| {
            (left.min(corner.x), top.min(corner.y), right.max(corner.x), bottom.max(corner.y))
        })
    }

    /// Larger by `distance` on each side.
    pub(super) fn grown(&self, distance: f32) -> Self {
        Self { width: self.width + 2.0 * distance, height: self.height + 2.0 * distance, ..*self }
    }

    /// With all coordinates multiplied.
    pub(super) fn scaled(&self, factor: f32) -> Self {
        let center = Point::new(self.center.x * factor, self.center.y * factor);
        Self { center, along: self.along, width: self.width * factor, height: self.height * factor }
    }

    /// The same area, read in a direction turned by so many times 90 degrees clockwise.
    pub(super) fn quarter_turned(&self, turns: u8) -> Self {
        (0..turns % 4).fold(*self, |rectangle, _| Self {
            along: rectangle.along.turned(),
            width: rectangle.height,
            height: rectangle.width,
            ..rectangle
        })
    }

    /// The same area, read in the direction that is nearest to the horizontal, from left to right.
    pub(super) fn upright(&self) -> Self {
        let turned = |turns: &u8| self.quarter_turned(*turns).along.x;
        let turns = (0..4).max_by(|a, b| turned(a).total_cmp(&turned(b))).unwrap_or(0);
        self.quarter_turned(turns)
    }
}

/// How far the sides of a detected rectangle are moved out: the network marks only the middle of the letters.
/// `ratio` is multiplied by the area and divided by the perimeter.
pub(super) fn unclip_distance(rectangle: &Rectangle, ratio: f32) -> f32 {
    let perimeter = 2.0 * (rectangle.width + rectangle.height);
    if perimeter > 0.0 { rectangle.width * rectangle.height * ratio / perimeter } else { 0.0 }
}

/// The corners of the convex hull, clockwise as seen on the screen (Andrew's monotone chain). Sorts the points.
fn convex_hull(points: &mut Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    points.dedup();
    if points.len() < 3 {
        return points.clone();
    }
    let turns_left = |hull: &[Point], next: Point| {
        let [.., a, b] = hull else { return false };
        (b.x - a.x) * (next.y - a.y) - (b.y - a.y) * (next.x - a.x) <= 0.0
    };
    let mut hull: Vec<Point> = Vec::new();
    for half in 0..2 {
        let mut chain: Vec<Point> = Vec::new();
        for i in 0..points.len() {
            let next = points[if half == 0 { i } else { points.len() - 1 - i }];
            while turns_left(&chain, next) {
                chain.pop();
            }
            chain.push(next);
        }
        // The last point is the first of the other half.
        chain.pop();
        hull.extend(chain);
    }
    hull
}

/// The rectangle of the smallest area around the points: one of its sides lies on a side of their convex hull, so each
/// is tried. The points that are furthest out move around the hull together with the side (rotating calipers). None
/// if there are no points.
pub(super) fn smallest_rectangle(points: &mut Vec<Point>) -> Option<Rectangle> {
    let hull = convex_hull(points);
    let count = hull.len();
    if count < 2 {
        let center = *hull.first()?;
        return Some(Rectangle { center, along: Point::new(1.0, 0.0), width: 0.0, height: 0.0 });
    }
    let mut best: Option<Rectangle> = None;
    let [mut right, mut bottom, mut left] = [1, 1, 1];
    for i in 0..count {
        let (from, to) = (hull[i], hull[(i + 1) % count]);
        let length = (to.x - from.x).hypot(to.y - from.y);
        let along = Point::new((to.x - from.x) / length, (to.y - from.y) / length);
        let down = along.turned();
        right = furthest(&hull, right.max(i + 1), along);
        bottom = furthest(&hull, bottom.max(right), down);
        left = furthest(&hull, left.max(bottom), Point::new(-along.x, -along.y));
        let at = |index: usize| hull[index % count];
        let (begin, end) = (at(left).dot(along), at(right).dot(along));
        let (top, foot) = (from.dot(down), at(bottom).dot(down));
        let (width, height) = (end - begin, foot - top);
        if best.is_none_or(|best| width * height < best.width * best.height) {
            let (x, y) = (f32::midpoint(begin, end), f32::midpoint(top, foot));
            let center = Point::new(0.0, 0.0).plus(along, x).plus(down, y);
            best = Some(Rectangle { center, along, width, height });
        }
    }
    best
}

/// From the corner `start` on, the corner of the hull after which the way in this direction gets shorter.
fn furthest(hull: &[Point], start: usize, direction: Point) -> usize {
    let reach = |index: usize| hull[index % hull.len()].dot(direction);
    let mut index = start;
    while index < start + hull.len() && reach(index + 1) > reach(index) {
        index += 1;
    }
    index
}

/// The pixels of a turned rectangle as an upright grey picture of this size. Where a pixel of the result covers
/// several pixels, it is their mean; what lies outside the picture has the colour of its edge.
pub(super) fn straighten(picture: &Picture, rectangle: &Rectangle, width: usize, height: usize) -> Picture {
    let right = Point::new(0.0, 0.0).plus(rectangle.along, rectangle.width / width as f32);
    let down = Point::new(0.0, 0.0).plus(rectangle.down(), rectangle.height / height as f32);
    let [origin, ..] = rectangle.corners();
    let samples = |size: f32, count: usize| (size / count as f32 - 0.25).ceil().clamp(1.0, 8.0) as usize;
    let (across, along) = (samples(rectangle.height, height), samples(rectangle.width, width));
    let share = 1.0 / (across * along) as f32;
    let channels = picture.channels;
    let mut pixels = Vec::with_capacity(width * height * channels);
    for y in 0..height {
        for x in 0..width {
            let mut sums = [0.0; 3];
            for i in 0..across * along {
                let step_x = x as f32 + ((i % along) as f32 + 0.5) / along as f32;
                let step_y = y as f32 + ((i / along) as f32 + 0.5) / across as f32;
                let point = origin.plus(right, step_x).plus(down, step_y);
                picture.add_at((point.x, point.y), &mut sums);
            }
            pixels.extend(sums[..channels].iter().map(|sum| (sum * share + 0.5) as u8));
        }
    }
    Picture { width, height, channels, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f32, b: f32) -> bool {
        (a - b).abs() < 0.01
    }

    /// The corners of a rectangle at (50, 40), turned by so many degrees.
    fn turned(width: f32, height: f32, degrees: f32) -> Rectangle {
        let (sin, cos) = degrees.to_radians().sin_cos();
        Rectangle { center: Point::new(50.0, 40.0), along: Point::new(cos, sin), width, height }
    }

    #[test]
    fn the_smallest_rectangle_is_found_at_each_angle() {
        for degrees in 0..90 {
            let truth = turned(30.0, 8.0, degrees as f32);
            // The middles of the sides and points inside change nothing.
            let mut points = truth.corners().to_vec();
            points.extend(
                truth
                    .corners()
                    .windows(2)
                    .map(|pair| Point::new(f32::midpoint(pair[0].x, pair[1].x), f32::midpoint(pair[0].y, pair[1].y))),
            );
            points.extend([truth.center, truth.center.plus(truth.along, 9.0)]);
            let found = smallest_rectangle(&mut points).expect("a rectangle").upright();
            let (long, short) = (found.width.max(found.height), found.width.min(found.height));
            assert!(near(long, 30.0) && near(short, 8.0), "{degrees}: {found:?}");
            assert!(near(found.center.x, 50.0) && near(found.center.y, 40.0), "{degrees}: {found:?}");
        }
    }

    #[test]
    fn the_calipers_agree_with_trying_all_points() {
        let mut state = 7u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as f32 / 65536.0 * 100.0
        };
        for _ in 0..200 {
            let mut points: Vec<Point> = (0..12).map(|_| Point::new(random(), random())).collect();
            let found = smallest_rectangle(&mut points).expect("a rectangle");
            let hull = convex_hull(&mut points);
            let least = (0..hull.len())
                .map(|i| {
                    let (a, b) = (hull[i], hull[(i + 1) % hull.len()]);
                    let length = (b.x - a.x).hypot(b.y - a.y);
                    let along = Point::new((b.x - a.x) / length, (b.y - a.y) / length);
                    let extent = |axis: Point| {
                        let values = hull.iter().map(|point| point.dot(axis));
                        values.clone().fold(f32::MIN, f32::max) - values.fold(f32::MAX, f32::min)
                    };
                    extent(along) * extent(along.turned())
                })
                .fold(f32::MAX, f32::min);
            assert!((found.width * found.height - least).abs() < 0.5, "{found:?} {least}");
        }
    }

    #[test]
    fn few_points_are_a_flat_rectangle() {
        assert_eq!(smallest_rectangle(&mut Vec::new()), None);
        let one = smallest_rectangle(&mut vec![Point::new(3.0, 4.0); 3]).expect("a rectangle");
        assert!(near(one.width, 0.0) && near(one.center.y, 4.0));
        let two = smallest_rectangle(&mut vec![Point::new(0.0, 0.0), Point::new(3.0, 4.0)]).expect("a rectangle");
        assert!(near(two.width, 5.0) && near(two.height, 0.0), "{two:?}");
    }

    #[test]
    fn text_is_read_from_left_to_right() {
        for degrees in [0.0, 44.0, 91.0, 180.0, 271.0, 359.0] {
            let upright = turned(30.0, 8.0, degrees).upright();
            assert!(upright.along.x > 0.7, "{degrees}: {upright:?}");
        }
        assert!(near(turned(30.0, 8.0, 90.0).upright().height, 30.0));
    }

    #[test]
    fn the_sides_move_out_by_area_through_perimeter() {
        let distance = unclip_distance(&turned(30.0, 10.0, 0.0), 1.6);
        assert!(near(distance, 6.0), "{distance}");
        assert!(near(turned(30.0, 10.0, 0.0).grown(distance).height, 22.0));
        assert!(near(unclip_distance(&turned(0.0, 0.0, 0.0), 1.6), 0.0));
    }

    #[test]
    fn a_turned_bar_becomes_upright() {
        let bar = turned(40.0, 10.0, 30.0);
        let mut picture = Picture { width: 100, height: 80, channels: 1, pixels: vec![255; 8000] };
        for y in 0..80 {
            for x in 0..100 {
                let offset = Point::new(x as f32 + 0.5 - 50.0, y as f32 + 0.5 - 40.0);
                if offset.dot(bar.along).abs() < 20.0 && offset.dot(bar.down()).abs() < 5.0 {
                    picture.pixels[y * 100 + x] = 0;
                }
            }
        }
        let inside = straighten(&picture, &bar.grown(-1.5), 37, 7);
        assert!(inside.pixels.iter().all(|pixel| *pixel < 60), "{:?}", inside.pixels);
        let around = straighten(&picture, &bar.grown(6.0), 52, 22);
        assert!(around.pixels[..52].iter().all(|pixel| *pixel > 200));
    }
}

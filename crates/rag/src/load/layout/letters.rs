//! The letters of a page with their places. Text that runs in another direction than the page is turned upright, so that
//! all that follows reads from left to right.

use super::area::Area;
use super::form_fields::{self, FormField};
use super::rules::{Drawing, DrawnPiece};
use crate::load::lines;
use pdfium_render::prelude::{PdfPage, PdfPageTextChar};

/// Letters of a damaged file can be anywhere, and of any size: those farther from the page or larger, in points, are left
/// out.
const FARTHEST: f32 = 100_000.0;
const LARGEST: f32 = 10_000.0;
/// The size of a font as a part of the height of its letters' boxes.
const FONT_SIZE: f32 = 0.86;

/// A letter on a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letter {
    pub(super) character: char,
    pub(super) area: Area,
    /// The height on which it stands.
    pub(super) baseline: f32,
    /// The size of its font, in points.
    pub(super) size: f32,
    pub(super) is_bold: bool,
    /// Whether all letters of its font have one width, as in listings.
    pub(super) is_fixed: bool,
    /// Whether a space or the end of a line stands before it.
    pub(super) after_space: bool,
    /// Whether it is a hyphen that divides a word.
    pub(super) divides: bool,
}

/// The text of a page that runs in one direction, turned upright, with what is drawn on the page.
#[derive(Debug, Default)]
pub(super) struct OrientedText {
    pub(super) letters: Vec<Letter>,
    pub(super) rules: Vec<DrawnPiece>,
    /// Small strokes that run along no side of the page.
    pub(super) strokes: Vec<Area>,
    pub(super) fields: Vec<FormField>,
    /// The size of the page as it is turned, in points.
    pub(super) width: f32,
    pub(super) height: f32,
    turns: QuarterTurns,
}

impl OrientedText {
    /// Where an area of this text is for another text of the same page.
    pub(super) fn area_in(&self, other: &Self, area: &Area) -> Area {
        let page = if self.turns.is_multiple_of(2) { (self.width, self.height) } else { (self.height, self.width) };
        Upright { turns: other.turns, page }.area(Upright { turns: self.turns, page }.back(area))
    }
}

/// How often a text is turned by 90 degrees, with the clock.
type QuarterTurns = usize;

/// How places of the page become places of an upright text. On the page, heights grow upwards from the lower left
/// corner; in an upright text, they grow downwards from the upper left one.
#[derive(Debug, Clone, Copy)]
struct Upright {
    turns: QuarterTurns,
    /// The width and the height of the page.
    page: (f32, f32),
}

impl Upright {
    fn area(self, area: Area) -> Area {
        let (width, height) = self.page;
        let Area { left, right, top, bottom } = area;
        match self.turns {
            0 => Area { left, right, top: height - top, bottom: height - bottom },
            // The text runs down.
            1 => Area { left: height - top, right: height - bottom, top: width - right, bottom: width - left },
            2 => Area { left: width - right, right: width - left, top: bottom, bottom: top },
            _ => Area { left: bottom, right: top, top: left, bottom: right },
        }
    }

    /// The place on the page of an area of the upright text.
    fn back(self, area: &Area) -> Area {
        let (width, height) = self.page;
        let Area { left, right, top, bottom } = *area;
        match self.turns {
            0 => Area { left, right, top: height - top, bottom: height - bottom },
            1 => Area { left: width - bottom, right: width - top, top: height - left, bottom: height - right },
            2 => Area { left: width - right, right: width - left, top: bottom, bottom: top },
            _ => Area { left: top, right: bottom, top: right, bottom: left },
        }
    }

    fn baseline(self, x: f32, y: f32) -> f32 {
        let (width, height) = self.page;
        match self.turns {
            0 => height - y,
            1 => width - x,
            2 => y,
            _ => x,
        }
    }
}

/// The texts of a page by direction; the one with the most letters first. None if PDFium cannot read the page, or if it
/// has more letters than `most`.
pub(super) fn oriented_texts(page: &PdfPage<'_>, most: usize) -> Option<Vec<OrientedText>> {
    let text = page.text().ok()?;
    let frame = page.page_size();
    let (left, bottom) = (frame.left().value, frame.bottom().value);
    let size = (frame.right().value - left, frame.top().value - bottom);
    let from_corner = |area: Area| Area {
        left: area.left - left,
        right: area.right - left,
        top: area.top - bottom,
        bottom: area.bottom - bottom,
    };
    let characters = text.chars();
    if characters.len() > most {
        return None;
    }
    let mut texts: [OrientedText; 4] = Default::default();
    let mut font = LastFont { after_space: true, ..LastFont::default() };
    for character in characters.iter() {
        let Some((letter, (x, y), turns)) = font.letter(&character) else { continue };
        let upright = Upright { turns, page: size };
        let area = upright.area(from_corner(letter.area));
        let places = [area.left, area.right, area.top, area.bottom];
        if !places.iter().all(|place| place.abs() < FARTHEST) || letter.size > LARGEST {
            continue;
        }
        // Turned letters have no size of their own.
        let size = if letter.size > 0.5 { letter.size } else { FONT_SIZE * area.height() };
        texts[turns].letters.push(Letter { area, size, baseline: upright.baseline(x - left, y - bottom), ..letter });
    }
    let drawing = Drawing::of(page);
    let filled_in = form_fields::filled_in(page);
    for (turns, text) in texts.iter_mut().enumerate() {
        let upright = Upright { turns, page: size };
        text.turns = turns;
        (text.width, text.height) = if turns.is_multiple_of(2) { size } else { (size.1, size.0) };
        if !text.letters.is_empty() {
            text.rules = drawing.lines.iter().map(|area| DrawnPiece::of(&upright.area(from_corner(*area)))).collect();
        }
        if turns == 0 {
            let area = |area: Area| upright.area(from_corner(area));
            text.strokes = drawing.strokes.iter().map(|stroke| area(*stroke)).collect();
            let fields = filled_in.iter().map(|field| FormField { area: area(field.area), ..field.clone() });
            text.fields = fields.collect();
        }
    }
    let mut texts: Vec<OrientedText> =
        texts.into_iter().filter(|text| !text.letters.is_empty() || !text.fields.is_empty()).collect();
    texts.sort_by_key(|text| std::cmp::Reverse(text.letters.len()));
    Some(texts)
}

/// What the letters of a word have in common: PDFium is asked once for each word.
#[derive(Debug, Default)]
struct LastFont {
    after_space: bool,
    is_bold: bool,
    is_fixed: bool,
}

impl LastFont {
    /// A letter where it is on the page, the point where it stands, and its direction. None for white space.
    fn letter(&mut self, character: &PdfPageTextChar<'_>) -> Option<(Letter, (f32, f32), QuarterTurns)> {
        let letter = character.unicode_char()?;
        if letter.is_whitespace() || matches!(letter, '\0' | '\u{200b}' | '\u{feff}') {
            self.after_space = true;
            return None;
        }
        let bounds = character.loose_bounds().ok()?;
        let (x, y) = character.origin().ok()?;
        let turns = quarter_turns(character.angle_radians().unwrap_or(0.0));
        if self.after_space {
            let font = character.font_name().to_ascii_lowercase();
            self.is_bold = names_bold(&font);
            self.is_fixed = names_fixed(&font) || character.font_is_fixed_pitch();
        }
        let area = Area::of_rectangle(&bounds);
        let places = [area.left, area.right, area.top, area.bottom, x.value, y.value];
        if !places.iter().all(|place| place.is_finite()) {
            return None;
        }
        let after_space = std::mem::replace(&mut self.after_space, false);
        let letter = Letter {
            // PDFium's sign for a hyphen that divides a word at the end of a line.
            character: if letter == lines::BREAK { '-' } else { letter },
            area,
            baseline: 0.0,
            size: Some(character.scaled_font_size().value.abs()).filter(|size| size.is_finite()).unwrap_or(0.0),
            is_bold: self.is_bold,
            is_fixed: self.is_fixed,
            after_space,
            divides: matches!(letter, lines::BREAK | lines::SOFT_HYPHEN),
        };
        Some((letter, (x.value, y.value), turns))
    }
}

fn quarter_turns(angle: f32) -> QuarterTurns {
    (angle / std::f32::consts::FRAC_PI_2).round() as usize % 4
}

fn names_bold(font: &str) -> bool {
    ["bold", "black", "heavy", "cmbx", "demi"].iter().any(|name| font.contains(name))
}

fn names_fixed(font: &str) -> bool {
    const NAMES: [&str; 8] = ["mono", "courier", "typewriter", "cmtt", "consolas", "fixed", "nimbusmon", "menlo"];
    NAMES.iter().any(|name| font.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_after_it_was_turned_upright_and_back() {
        let area = Area { left: 10.0, right: 30.0, top: 95.0, bottom: 80.0 };
        for turns in 0..4 {
            let upright = Upright { turns, page: (200.0, 100.0) };
            let turned = upright.area(area);
            assert!(turned.left < turned.right && turned.top < turned.bottom, "{turns}: {turned:?}");
            assert_eq!(upright.back(&turned), area, "{turns}");
        }
        let upright = Upright { turns: 0, page: (200.0, 100.0) };
        assert_eq!(upright.area(area), Area { left: 10.0, right: 30.0, top: 5.0, bottom: 20.0 });
    }

    #[test]
    fn names_of_fonts_tell_bold_and_fixed_ones() {
        assert!(names_bold("liberationserif-bold") && names_bold("cmbx12") && !names_bold("times-roman"));
        assert!(names_fixed("dejavusansmono") && names_fixed("cmtt10") && !names_fixed("helvetica"));
    }
}

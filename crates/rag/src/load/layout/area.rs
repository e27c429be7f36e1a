//! Where things are on a page.

use pdfium_render::prelude::PdfRect;

/// A part of a page, in points (1/72 inch) from the upper left corner of the page as it is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f32,
    pub(super) top: f32,
    pub(super) right: f32,
    pub(super) bottom: f32,
}

impl Area {
    /// An area that every other one enlarges.
    pub(super) const NONE: Self =
        Self { left: f32::INFINITY, top: f32::INFINITY, right: f32::NEG_INFINITY, bottom: f32::NEG_INFINITY };

    /// A rectangle of PDFium, whose heights grow upwards.
    pub(super) fn of_rectangle(rectangle: &PdfRect) -> Self {
        Self {
            left: rectangle.left().value,
            right: rectangle.right().value,
            top: rectangle.top().value,
            bottom: rectangle.bottom().value,
        }
    }

    pub(super) fn around<'a>(areas: impl Iterator<Item = &'a Self>) -> Self {
        areas.fold(Self::NONE, |all, one| all.with(one))
    }

    pub(super) fn with(&self, other: &Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    pub(super) fn width(&self) -> f32 {
        (self.right - self.left).max(0.0)
    }

    pub(super) fn height(&self) -> f32 {
        (self.bottom - self.top).max(0.0)
    }

    pub(super) fn middle_x(&self) -> f32 {
        f32::midpoint(self.left, self.right)
    }

    pub(super) fn middle_y(&self) -> f32 {
        f32::midpoint(self.top, self.bottom)
    }

    /// Whether the middle of another area lies in this one.
    pub(super) fn holds(&self, other: &Self) -> bool {
        let (x, y) = (other.middle_x(), other.middle_y());
        self.left <= x && x <= self.right && self.top <= y && y <= self.bottom
    }

    /// How much of the lower of two areas lies beside the other, from 0 to 1.
    pub(super) fn overlap_y(&self, other: &Self) -> f32 {
        let shared = self.bottom.min(other.bottom) - self.top.max(other.top);
        (shared / self.height().min(other.height()).max(0.1)).clamp(0.0, 1.0)
    }

    /// How many points of width two areas share; below 0, the gap between them.
    pub(super) fn shared_x(&self, other: &Self) -> f32 {
        self.right.min(other.right) - self.left.max(other.left)
    }
}

//! `parse::view`: a page of a document as a person sees it, with the places of texts.

use super::ocr::recognize;
use crate::load::{self, LoadError, PageView, ParseLimits};

/// Draws a page of a PDF, or a picture, and finds where texts stand on it, whichever parser read them. A page without
/// letters is read by the networks of `ocr`, if they are here; otherwise no text is found on it. None if there
/// is no such page, or the file is neither a PDF nor a picture.
///
/// # Errors
/// If the file is damaged or needs a password, or cannot be read now.
pub fn view_page(
    path: &str,
    bytes: &[u8],
    page: u32,
    texts: &[&str],
    dots_per_inch: u32,
    limits: &ParseLimits,
) -> Result<Option<PageView>, LoadError> {
    load::view_page((path, bytes), page, texts, dots_per_inch, limits, &|picture| recognize(picture).ok())
}

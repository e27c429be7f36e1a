//! `reverie.view_page`: a page of a document as a picture, with the places of texts.

use super::{stages::failed, work::value_error};
use pyo3::{prelude::*, types::PyBytes};
use rag::load::{self, LoadError, ParseLimits};

/// The left, top, right and bottom of a line, in parts of the width and height of a page.
type Sides = (f32, f32, f32, f32);

/// The number of the page; its picture as a PNG file with the texts marked; the width and the height of the picture; for each
/// text the places of its lines; and the lines that were read on a picture, with their confidence.
type View<'py> = (u32, Bound<'py, PyBytes>, usize, usize, Vec<Vec<Sides>>, Vec<(String, f32, Sides)>);

/// Draws a page of a PDF, or a picture.
#[pyfunction]
pub(crate) fn view_page<'py>(
    py: Python<'py>,
    path: &str,
    page: u32,
    texts: Vec<String>,
    dots_per_inch: u32,
) -> PyResult<View<'py>> {
    let directory = app::model_directory();
    if let Ok(library) = directory.library(models::Library::Pdfium) {
        load::bind_pdfium(&library).map_err(|error| failed(&error))?;
    }
    rag::parse::set_model_directory(&directory);
    let drawn = py.detach(|| {
        let unread = |error: std::io::Error| value_error(format!("{path} cannot be read: {error}"));
        let bytes = std::fs::read(path).map_err(unread)?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let limits = ParseLimits::default();
        let seen = rag::parse::view_page(path, &bytes, page, &texts, dots_per_inch, &limits);
        let seen = seen.map_err(|reason: LoadError| value_error(format!("{path}, page {page}: {reason}")))?;
        let seen = seen.ok_or_else(|| {
            value_error(format!("{path} has no page {page} that can be drawn: only pages of PDFs and pictures can be"))
        })?;
        let png = seen.marked().to_png().map_err(|error| failed(&error))?;
        PyResult::Ok((seen, png))
    });
    let (seen, png) = drawn?;
    let sides = |area: &load::PageBox| (area.left, area.top, area.right, area.bottom);
    let boxes = seen.boxes.iter().map(|boxes| boxes.iter().map(sides).collect()).collect();
    let lines = seen.lines.iter().map(|line| (line.text.clone(), line.confidence, sides(&line.area))).collect();
    Ok((seen.page, PyBytes::new(py, &png), seen.picture.width, seen.picture.height, boxes, lines))
}

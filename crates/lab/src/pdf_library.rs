//! The PDF library: whether it is there, and its identity, which is part of the keys of parsed files.

use crate::{Error, error_chain};
use models::{Library, ModelDirectory};
use rag::load;
use std::path::Path;
use store::Key;

/// The identity of a PDF library that is not there.
pub(crate) const NO_LIBRARY: &str = "none";

/// Makes the PDF library ready, and returns its identity. A missing library is a mistake if one of
/// these files needs it.
pub(crate) fn bind_pdf_library<'a>(
    directory: &ModelDirectory,
    paths: impl IntoIterator<Item = &'a str>,
    mistakes: &mut Vec<String>,
) -> Result<String, Error> {
    let is_pdf =
        |path: &str| Path::new(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("pdf"));
    match directory.library(Library::Pdfium) {
        Ok(path) => {
            if let Err(error) = load::bind_pdfium(&path) {
                mistakes.push(error.to_string());
            }
            let bytes = std::fs::read(&path).map_err(|source| Error::file("read", &path, source))?;
            Ok(Key::of_bytes(&bytes).hex())
        }
        Err(error) => {
            if paths.into_iter().any(is_pdf) {
                mistakes.push(format!("the corpus holds PDF files: {}", error_chain(&error)));
            }
            Ok(NO_LIBRARY.to_owned())
        }
    }
}

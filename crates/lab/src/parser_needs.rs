//! What parsers need besides themselves: the PDF library, whose identity is part of the keys of parsed files, and models.

use crate::{Error, error_chain};
use models::{Library, ModelDirectory, ModelKind};
use rag::{Component, load, parse::ParseConfig};
use std::path::Path;
use store::Key;

/// The identity of a PDF library that is not there.
pub(crate) const NO_LIBRARY: &str = "none";

/// Names the folder of models to the parsers, and makes the PDF library ready, whose identity is returned. A missing
/// library is a mistake if one of these files needs it: a PDF that one of these parsers reads by itself. Without a parser,
/// files are read by default.
pub(crate) fn prepare_parsers<'a>(
    directory: &ModelDirectory,
    parsers: &[&ParseConfig],
    paths: impl IntoIterator<Item = &'a str>,
    mistakes: &mut Vec<String>,
) -> Result<String, Error> {
    rag::parse::set_model_directory(directory);
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
            let readers: Vec<_> = parsers.iter().map(|parser| parser.reads_pdf()).collect();
            let is_read = |path: &str| readers.is_empty() || readers.iter().any(|reads| reads(path));
            if paths.into_iter().any(|path| is_pdf(path) && is_read(path)) {
                mistakes.push(format!("the corpus holds PDF files: {}", error_chain(&error)));
            }
            Ok(NO_LIBRARY.to_owned())
        }
    }
}

/// Checks that the models of these parsers are on this machine. Each missing one is a mistake.
pub(crate) fn check_models_of_parsers(
    parsers: &[&ParseConfig],
    directory: &ModelDirectory,
    mistakes: &mut Vec<String>,
) {
    let mut names: Vec<&str> = parsers.iter().flat_map(|parser| parser.catalogue_models()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let found = directory.locate(name, ModelKind::Ocr).and_then(|_| directory.library(Library::OnnxRuntime));
        if let Err(error) = found {
            mistakes.push(format!("space.parse: {}", error_chain(&error)));
        }
    }
}

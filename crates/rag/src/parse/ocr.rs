//! `ocr`: reads pictures of text: scanned pages, photographs of documents, screenshots.
//!
//! When to use it: for scanned PDFs, and for PNG, JPEG, TIFF and WebP files. Pages with letters are read as
//! [`layout`](super::layout) reads them; only those without are drawn and recognized, about one in a second on two cores.
//!
//! ```toml
//! [corpus]
//! source = "docs"
//! include = ["**/*.pdf", "**/*.png"]      # pictures are documents only where they are named
//!
//! [space]
//! parse = [{ pdf = "ocr", "*.png" = "ocr" }]
//! ```
//!
//! The networks are PP-OCRv6 (small), which read Latin script with its accents, Chinese and Japanese, in any mixture. No
//! Cyrillic, Greek text, Arabic, Hebrew or Korean: a page in these gives wrong letters. `reverie models pull
//! pp-ocrv6-small onnxruntime` brings them (31 MB and 29 MB). Pages that were read with less than 85 %
//! confidence are listed among the problems of the document, with the lines that are least sure; `reverie document PATH
//! --page N --json` has the confidence of each line, and `--image` marks those below 80 %.

use super::{ParseError, Parser};
use crate::{
    Component, Context, Document, Error,
    component::{ensure, settings},
    lines::lock,
    load::{self, LoadError, PagePictures, ParseLimits},
};
use models::{CpuBudget, ModelDirectory, OCR_MODEL, Picture, RecognizedPage, TextRecognizer};
use std::sync::{Arc, Mutex};

pub(super) const VERSION: u32 = 3;
const NAME: &str = "parse ocr";
/// Pages with fewer or more dots per inch are not worth it.
const DOTS: std::ops::RangeInclusive<u32> = 72..=600;

settings! {
    /// Settings of `ocr`.
    pub struct Config {
        /// How finely a page of a PDF is drawn before it is read, in dots per inch, 72 to 600. Default 200.
        pub dots_per_inch: u32 = load::RECOGNIZED_DOTS,
        /// Whether pages that have letters are read as pictures too: for PDFs whose letters are wrong. Default false.
        pub all_pages: bool = false,
    }
}

impl Component for Config {
    fn catalogue_models(&self) -> Vec<&'static str> {
        vec![OCR_MODEL]
    }

    fn precisions(&self) -> Vec<&'static str> {
        vec![models::ocr_quantization()]
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Parser>, Error> {
        let reason = || format!("`dots_per_inch` is {}; give 72 to 600", self.dots_per_inch);
        ensure(NAME, DOTS.contains(&self.dots_per_inch), reason())?;
        Ok(Box::new(self.clone()))
    }
}

impl Parser for Config {
    fn parse(&self, path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, ParseError> {
        limits.check_file(bytes.len() as u64)?;
        let recognize = |picture: Picture| recognize(&picture);
        if Picture::is_picture(bytes) {
            return Ok(load::parse_picture(path, bytes, limits, &recognize)?);
        }
        let pictures = PagePictures { dots_per_inch: self.dots_per_inch, all_pages: self.all_pages };
        Ok(load::parse_recognized(path, bytes, limits, &pictures, &recognize)?)
    }
}

/// Reads the text of a picture. The networks are opened for the first one.
pub(super) fn recognize(picture: &Picture) -> Result<RecognizedPage, LoadError> {
    let not_read = |error: &dyn std::fmt::Display| LoadError::NotRead(error.to_string());
    recognizer().map_err(|error| not_read(&error))?.read(picture).map_err(|error| not_read(&error))
}

/// Where the networks are, and the recognizer once it is open.
static SETUP: Mutex<RecognizerSetup> = Mutex::new(RecognizerSetup { directory: None, open: None });

struct RecognizerSetup {
    directory: Option<ModelDirectory>,
    open: Option<Arc<TextRecognizer>>,
}

/// Names the folder of models in which parsers find theirs.
pub fn set_model_directory(directory: &ModelDirectory) {
    let mut setup = lock(&SETUP);
    let is_another = setup.directory.as_ref().is_none_or(|named| named.root() != directory.root());
    if is_another {
        *setup = RecognizerSetup { directory: Some(directory.clone()), open: None };
    }
}

/// The recognizer of this process, which is opened for the first file.
fn recognizer() -> Result<Arc<TextRecognizer>, Error> {
    let mut setup = lock(&SETUP);
    if let Some(open) = &setup.open {
        return Ok(open.clone());
    }
    let config = |reason: String| Error::Config { component: NAME, reason };
    let directory = setup.directory.as_ref().ok_or_else(|| config("no folder of models was named".to_owned()))?;
    let opened = TextRecognizer::open(directory, CpuBudget::machine().cores());
    let opened = Arc::new(opened.map_err(|error| config(error.to_string()))?);
    setup.open = Some(opened.clone());
    Ok(opened)
}

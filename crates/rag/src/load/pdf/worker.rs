//! The process in which PDFium reads documents. It answers lines of JSON, one after another, and ends with its input.

use super::super::{LoadError, panic_message};
use super::pages::{PageReading, PdfFacts, PdfPages, not_opened};
use super::{PDFIUM, bind_pdfium};
use pdfium_render::prelude::{PdfDocument, Pdfium};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The most address space of the process, in bytes. What a document needs beyond it ends the process, not the machine.
const MOST_MEMORY: u64 = 4 << 30;

/// What the process is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PdfRequest {
    pub(super) call: u64,
    pub(super) file: PathBuf,
    pub(super) reading: PageReading,
    /// The pages from 1; none if `first` is greater than `last`. Pages that the document does not have are left out.
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) looks_around: bool,
    /// Pages that ended a process before.
    pub(super) skipped: Vec<u32>,
    /// Whether the facts about the document are wanted too.
    pub(super) facts: bool,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PdfReply {
    pub(super) call: u64,
    pub(super) outcome: Result<PdfPart, LoadError>,
}

/// A part of a document.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PdfPart {
    pub(super) facts: Option<PdfFacts>,
    pub(super) pages: PdfPages,
}

/// The document that was opened last: it is mostly the next one too.
#[derive(Default)]
struct OpenDocument {
    open: Option<(PathBuf, PdfDocument<'static>)>,
}

/// Answers requests from standard input until it ends.
///
/// # Errors
/// The library cannot be used, or standard input or output fails.
pub fn run_pdf_worker(library: &Path) -> io::Result<()> {
    let limit = Some(MOST_MEMORY);
    // Where it is not allowed, the process has the limits of its parent.
    let _ = setrlimit(Resource::As, Rlimit { current: limit, maximum: limit });
    bind_pdfium(library).map_err(io::Error::other)?;
    let pdfium = PDFIUM.get().ok_or_else(|| io::Error::other("PDFium was not loaded"))?;
    let (mut document, mut output) = (OpenDocument::default(), io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let request: PdfRequest = serde_json::from_str(&line?).map_err(io::Error::other)?;
        let read = catch_unwind(AssertUnwindSafe(|| document.read(pdfium, &request)));
        let outcome = read.unwrap_or_else(|panic| Err(LoadError::Broken(panic_message(&*panic))));
        let reply = serde_json::to_string(&PdfReply { call: request.call, outcome }).map_err(io::Error::other)?;
        writeln!(output, "{reply}")?;
        output.flush()?;
    }
    Ok(())
}

impl OpenDocument {
    fn read(&mut self, pdfium: &'static Pdfium, request: &PdfRequest) -> Result<PdfPart, LoadError> {
        let document = self.open(pdfium, &request.file)?;
        let facts = request.facts.then(|| PdfFacts::of(document));
        let last = request.last.min(u32::try_from(document.pages().len()).unwrap_or(0));
        let (numbers, around) = (request.first..=last, request.looks_around);
        let pages = PdfPages::read(document, numbers, request.reading, around, &request.skipped, &request.file);
        Ok(PdfPart { facts, pages })
    }

    fn open(&mut self, pdfium: &'static Pdfium, file: &Path) -> Result<&PdfDocument<'static>, LoadError> {
        let is_open = self.open.as_ref().is_some_and(|(path, _)| path == file);
        if !is_open {
            self.open = None;
            let bytes = std::fs::read(file).map_err(|error| LoadError::NotRead(error.to_string()))?;
            let document = pdfium.load_pdf_from_byte_vec(bytes, None).map_err(|error| not_opened(&error))?;
            self.open = Some((file.to_owned(), document));
        }
        let missing = || LoadError::Broken("the document was closed".to_owned());
        self.open.as_ref().map(|(_, document)| document).ok_or_else(missing)
    }
}

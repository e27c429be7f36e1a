//! `load::pdf`: the text of a PDF, page by page, with PDFium. The library is loaded at run time, once per process, by
//! [`bind_pdfium`].
//!
//! PDFium is not thread-safe. Programs that call [`read_pdfs_with`] read PDFs in processes of their own, as many at once
//! as there are cores; otherwise one file is read at a time.

mod copies;
mod pages;
mod processes;
mod worker;

use super::format::{FileFormat, Signature};
use super::lines::{self, WordCounts};
use super::page_places::LetteredPicture;
use super::pdf_page::{UnreadPage, problems};
use super::{LoadError, ParseLimits, Parsed, Recognize, bookmarks, layout, sniff};
use crate::lines::lock;
use crate::types::{Page, Span};
use models::Picture;
use pages::{DrawnPage, PagePicture, PageReading, PdfFacts, PdfPages, SEGMENT_PAGES, not_opened};
use pdfium_render::prelude::{PdfDocument, Pdfium};
use processes::MOST_FAILED_PAGES;
pub use processes::{PdfProgram, read_pdfs_with};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
pub use worker::run_pdf_worker;

static PDFIUM: OnceLock<Pdfium> = OnceLock::new();
/// Where the library lies.
static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
/// Held from opening a file to closing it, and while the library is loaded.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A PDF with fewer characters than this on average, and most pages without any, is a scan.
const CHARACTERS_PER_PAGE: usize = 100;
/// Loads the PDFium library. A second call does nothing.
///
/// # Errors
/// The library is not there or is not PDFium.
pub fn bind_pdfium(path: &Path) -> Result<(), LoadError> {
    let _guard = lock(&ONE_AT_A_TIME);
    if PDFIUM.get().is_none() {
        let bindings = Pdfium::bind_to_library(path)
            .map_err(|error| LoadError::Library(format!("{} cannot be used as libpdfium: {error}", path.display())))?;
        // No other thread sets them while the guard is held.
        let _ = LIBRARY.set(path.to_owned());
        let _ = PDFIUM.set(Pdfium::new(bindings));
    }
    Ok(())
}

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["pdf"],
    signature: Signature::Bytes(is_pdf),
    parse,
    inner_files: None,
    keeps_headings: false,
    without_text: "no text could be extracted (scanned pages have no letters: the parser `ocr` reads them)",
    library: Some("libpdfium"),
    #[cfg(test)]
    sample: || super::format::sample::Sample::plain("a.pdf", &super::tests::pdf::sample()),
};

/// A header at the start decides. Elsewhere it may be a quote: then the name or
/// binary data must confirm it.
fn is_pdf(bytes: &[u8], is_named_pdf: bool) -> bool {
    let head = &bytes[..bytes.len().min(1024)];
    match head.windows(5).position(|window| window == b"%PDF-") {
        Some(at) if head[..at].iter().all(u8::is_ascii_whitespace) => true,
        Some(_) => is_named_pdf || sniff::is_binary(bytes),
        None => false,
    }
}

/// The text of a PDF line by line, in the order in which it was written.
fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    read(bytes, PageReading::Lines, limits)
}

/// The text of a PDF by the places of its letters: columns, tables, headings.
pub(super) fn parse_layout(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    read(bytes, PageReading::Layout, limits)
}

fn read(bytes: &[u8], reading: PageReading, limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let (facts, pages) = OpenPdf::open(bytes)?.read(reading, limits)?;
    let parsed = match pages {
        PdfPages::Lines(pages) => from_lines(&pages, &facts)?,
        PdfPages::Layout(pages) => layout::document(pages, &facts.bookmarks, limits)?,
        PdfPages::Pictures(_) | PdfPages::Views(_) => Parsed::default(),
    };
    finish(parsed, facts)
}

fn finish(parsed: Parsed, facts: PdfFacts) -> Result<Parsed, LoadError> {
    refuse_scans(&parsed)?;
    let title = facts.title.or(parsed.title);
    Ok(Parsed { title, author: facts.author, ..parsed }.with("date", facts.date))
}

/// Which pages of a PDF are read as pictures, and how they are drawn.
pub(crate) struct PagePictures {
    /// A page is drawn with so many dots per inch.
    pub(crate) dots_per_inch: u32,
    /// Whether pages that have letters are read as pictures too.
    pub(crate) all_pages: bool,
}

/// The text of a PDF as [`parse_layout`] gives it. Pages without letters are drawn, and `recognize` reads the pictures.
///
/// # Errors
/// As [`parse_layout`], and those of `recognize`.
pub(super) fn parse_recognized(
    bytes: &[u8],
    limits: &ParseLimits,
    pictures: &PagePictures,
    recognize: &Recognize<'_>,
) -> Result<Parsed, LoadError> {
    let pdf = OpenPdf::open(bytes)?;
    let (facts, PdfPages::Layout(mut pages)) = pdf.read(PageReading::Layout, limits)? else {
        return Err(LoadError::Broken("its pages were read in another way".to_owned()));
    };
    let (mut recognized, mut failed) = (Vec::new(), 0);
    for (number, page) in (1..).zip(&mut pages) {
        if !(page.is_blank() || pictures.all_pages) {
            continue;
        }
        match pdf.draw(number, pictures.dots_per_inch)? {
            Ok((picture, points)) => {
                let scale = points / picture.width.max(1) as f32;
                recognized.push((number, recognize(picture)?, scale));
            }
            Err(reason) => {
                failed += 1;
                if failed > MOST_FAILED_PAGES {
                    return Err(LoadError::Broken(format!(
                        "more than {MOST_FAILED_PAGES} of its pages cannot be drawn"
                    )));
                }
                if page.is_blank() {
                    *page = layout::ReadPage::unread(number, reason);
                }
            }
        }
    }
    for page in layout::recognized_pages(recognized) {
        let place = page.number() as usize - 1;
        pages[place] = page;
    }
    finish(layout::document(pages, &facts.bookmarks, limits)?, facts)
}

/// A page of a PDF as a picture in colour, with its letters. A page without letters comes with a second picture for
/// recognition, in grey and with `recognized_dots` per inch. None if there is no such page.
///
/// # Errors
/// If the file cannot be opened, or the page cannot be drawn.
pub(super) fn view(
    bytes: &[u8],
    number: u32,
    dots_per_inch: u32,
    recognized_dots: u32,
) -> Result<Option<(LetteredPicture, Option<Picture>)>, LoadError> {
    if number == 0 {
        return Ok(None);
    }
    let pdf = OpenPdf::open(bytes)?;
    let Some(view) = pdf.view(number, dots_per_inch)? else { return Ok(None) };
    let drawn = view.map_err(|reason| LoadError::Broken(reason.in_words().to_owned()))?;
    let recognized = match drawn.letters.is_empty() {
        true => pdf.draw(number, recognized_dots)?.ok().map(|(picture, _)| picture),
        false => None,
    };
    Ok(Some((drawn, recognized)))
}

/// A PDF that is being read, in this process or in others.
struct OpenPdf<'b> {
    pdfium: &'static Pdfium,
    library: &'static Path,
    bytes: &'b [u8],
    /// The file that other processes read; pictures are written beside it.
    copy: tempfile::NamedTempFile,
    folder: tempfile::TempDir,
}

impl<'b> OpenPdf<'b> {
    fn open(bytes: &'b [u8]) -> Result<Self, LoadError> {
        let (Some(pdfium), Some(library)) = (PDFIUM.get(), LIBRARY.get()) else {
            return Err(LoadError::NoLibrary("PDF needs libpdfium, which is not installed".to_owned()));
        };
        let written = || -> std::io::Result<(tempfile::TempDir, tempfile::NamedTempFile)> {
            copies::remove_left_copies();
            let folder = tempfile::Builder::new().prefix(&copies::prefix()).tempdir()?;
            let mut copy = tempfile::Builder::new().suffix(".pdf").tempfile_in(folder.path())?;
            if processes::program().is_some() {
                copy.write_all(bytes)?;
                copy.flush()?;
            }
            Ok((folder, copy))
        };
        let not_written =
            |error: std::io::Error| LoadError::NotRead(format!("a copy of it cannot be written: {error}"));
        let (folder, copy) = written().map_err(not_written)?;
        Ok(Self { pdfium, library, bytes, copy, folder })
    }

    fn read(&self, reading: PageReading, limits: &ParseLimits) -> Result<(PdfFacts, PdfPages), LoadError> {
        if let Some(program) = processes::program() {
            return processes::read(program, self.library, self.copy.path(), reading, limits);
        }
        self.with_document(|document| {
            let facts = PdfFacts::of(document);
            check_pages(facts.pages, limits)?;
            let mut pages = PdfPages::none(reading);
            for first in (1..=facts.pages).step_by(SEGMENT_PAGES as usize) {
                let last = facts.pages.min(first + SEGMENT_PAGES - 1);
                pages.append(PdfPages::read(document, first..=last, reading, true, &[], self.copy.path()));
                limits.check_text(pages.size())?;
            }
            Ok((facts, pages))
        })
    }

    /// A page as a grey picture, with its width in points.
    fn draw(&self, number: u32, dots_per_inch: u32) -> Result<Result<(Picture, f32), UnreadPage>, LoadError> {
        let PdfPages::Pictures(mut pictures) = self.read_one(number, PageReading::Pictures { dots_per_inch })? else {
            return Ok(Err(UnreadPage::Damaged));
        };
        match pictures.pop().unwrap_or(Err(UnreadPage::Damaged)) {
            Ok(drawn) => Ok(self.take_picture(&drawn)?.map(|picture| (picture, drawn.points))),
            Err(reason) => Ok(Err(reason)),
        }
    }

    /// A page as a picture in colour, with its letters. None if there is no such page.
    fn view(&self, number: u32, dots_per_inch: u32) -> Result<Option<Result<LetteredPicture, UnreadPage>>, LoadError> {
        let PdfPages::Views(mut views) = self.read_one(number, PageReading::Views { dots_per_inch })? else {
            return Ok(None);
        };
        Ok(match views.pop() {
            Some(Ok(DrawnPage { picture, letters })) => {
                Some(self.take_picture(&picture)?.map(|picture| LetteredPicture { picture, letters }))
            }
            Some(Err(reason)) => Some(Err(reason)),
            None => None,
        })
    }

    fn read_one(&self, number: u32, reading: PageReading) -> Result<PdfPages, LoadError> {
        match processes::program() {
            Some(program) => processes::read_one(program, self.library, self.copy.path(), number, reading),
            None => self.with_document(|document| {
                let last = number.min(u32::try_from(document.pages().len()).unwrap_or(0));
                Ok(PdfPages::read(document, number..=last, reading, false, &[], self.copy.path()))
            }),
        }
    }

    /// Reads the pixels of a page that was drawn, and removes their file.
    fn take_picture(&self, drawn: &PagePicture) -> Result<Result<Picture, UnreadPage>, LoadError> {
        // Nothing outside the folder is read or removed, whatever a process answers.
        let is_file = std::fs::symlink_metadata(&drawn.file).is_ok_and(|file| file.is_file());
        if drawn.file.parent() != Some(self.folder.path()) || !is_file {
            return Ok(Err(UnreadPage::Damaged));
        }
        let not_read = |error| LoadError::NotRead(format!("the picture of a page cannot be read: {error}"));
        let pixels = std::fs::read(&drawn.file).map_err(not_read)?;
        // Removed with the folder in any case.
        let _ = std::fs::remove_file(&drawn.file);
        let (width, height, channels) = (drawn.width, drawn.height, drawn.channels);
        if width == 0 || !matches!(channels, 1 | 3) || pixels.len() != width * height * channels {
            return Ok(Err(UnreadPage::Damaged));
        }
        Ok(Ok(Picture { width, height, channels, pixels }))
    }

    fn with_document<T>(&self, read: impl FnOnce(&PdfDocument<'_>) -> Result<T, LoadError>) -> Result<T, LoadError> {
        let _guard = lock(&ONE_AT_A_TIME);
        let document = self.pdfium.load_pdf_from_byte_slice(self.bytes, None).map_err(|error| not_opened(&error))?;
        read(&document)
    }
}

fn check_pages(count: u32, limits: &ParseLimits) -> Result<(), LoadError> {
    if count > limits.pages {
        return Err(LoadError::OverLimit(format!("{count} pages, and at most {} are read", limits.pages)));
    }
    Ok(())
}

fn from_lines(pages: &[Result<String, UnreadPage>], facts: &PdfFacts) -> Result<Parsed, LoadError> {
    if pages.iter().all(Result::is_err) {
        return Err(LoadError::Broken("no page can be read".to_owned()));
    }
    let mut parsed = Parsed::default();
    let vocabulary = WordCounts::of(pages.iter().flatten());
    for (number, page) in (1u32..).zip(pages) {
        if number > 1 {
            parsed.text.push_str("\n\n");
        }
        let start = parsed.text.len();
        lines::push_clean(&mut parsed.text, page.as_deref().unwrap_or_default(), &vocabulary);
        let text = &parsed.text[start..];
        parsed.problems.extend(problems(number, page.as_ref().err().copied(), text.trim().is_empty(), text));
        parsed.pages.push(Page { number, span: Span { start, end: parsed.text.len() } });
    }
    parsed.headings = bookmarks::headings(&facts.bookmarks, &parsed.text, &parsed.pages);
    Ok(parsed)
}

/// Scanned books, and books whose fonts do not name their letters, often have a
/// few real words: a stamp, a link, a page number. These words are not the
/// text.
fn refuse_scans(parsed: &Parsed) -> Result<(), LoadError> {
    let pages = parsed.pages.len();
    let with_text = parsed.pages.iter().filter(|page| !page.span.is_empty()).count();
    if with_text * 2 < pages && parsed.text.trim().len() < CHARACTERS_PER_PAGE * pages {
        let reason = format!(
            "only {with_text} of {pages} pages have text, and few characters (scanned pages have no letters: the parser `ocr` \
             reads them)"
        );
        return Err(LoadError::Empty(reason));
    }
    Ok(())
}

//! `load::pdf`: the text of a PDF, page by page, with PDFium. The library is
//! loaded at run time, once per process, by [`bind_pdfium`].
//!
//! PDFium is not thread-safe, so one file is read at a time; more speed comes
//! from more processes, not from more threads.

use super::bookmarks;
use super::format::{FileFormat, Signature};
use super::lines::{self, WordCounts};
use super::{LoadError, ParseLimits, Parsed, sniff};
use crate::types::{Page, ReadingProblem, ReadingProblemKind, Span};
use pdfium_render::prelude::{
    PdfDocument, PdfDocumentMetadataTagType, PdfPage, PdfRect, Pdfium, PdfiumError, PdfiumInternalError,
};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

static PDFIUM: OnceLock<Pdfium> = OnceLock::new();
/// Held from opening a file to closing it, and while the library is loaded.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A PDF with fewer characters than this on average, and most pages without any, is a scan.
const CHARACTERS_PER_PAGE: usize = 100;
/// So many symbols without a letter on a page may be the marks of its lists.
const UNMAPPED: usize = 20;

/// Loads the PDFium library. A second call does nothing.
///
/// # Errors
/// The library is not there or is not PDFium.
pub fn bind_pdfium(path: &Path) -> Result<(), LoadError> {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if PDFIUM.get().is_none() {
        let bindings = Pdfium::bind_to_library(path)
            .map_err(|error| LoadError::Library(format!("{} cannot be used as libpdfium: {error}", path.display())))?;
        // No other thread sets it while the guard is held.
        let _ = PDFIUM.set(Pdfium::new(bindings));
    }
    Ok(())
}

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["pdf"],
    signature: Signature::Bytes(is_pdf),
    parse,
    keeps_headings: false,
    without_text: "no text could be extracted (scanned pages need OCR first)",
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

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let Some(pdfium) = PDFIUM.get() else {
        return Err(LoadError::NoLibrary("PDF needs libpdfium, which is not installed".to_owned()));
    };
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let document = pdfium.load_pdf_from_byte_slice(bytes, None).map_err(|error| reason(&error))?;
    let count = u32::try_from(document.pages().len()).unwrap_or(0);
    if count > limits.pages {
        return Err(LoadError::OverLimit(format!("{count} pages, and at most {} are read", limits.pages)));
    }

    let mut parsed = Parsed {
        title: metadata(&document, PdfDocumentMetadataTagType::Title),
        author: metadata(&document, PdfDocumentMetadataTagType::Author),
        ..Parsed::default()
    }
    .with("date", metadata(&document, PdfDocumentMetadataTagType::CreationDate).as_deref().and_then(day));
    let page = |number: u32| document.pages().get(i32::try_from(number - 1).ok()?).ok();
    let mut pages: Vec<Option<String>> = Vec::new();
    let mut size = 0;
    for number in 1..=count {
        let text = page(number).and_then(|page| page_text(&page));
        size += text.as_ref().map_or(0, String::len);
        limits.check_text(size)?;
        pages.push(text);
    }
    if pages.iter().all(Option::is_none) {
        return Err(LoadError::Broken("no page can be read".to_owned()));
    }
    let vocabulary = WordCounts::of(pages.iter().flatten());
    for (number, page) in (1u32..).zip(&pages) {
        if number > 1 {
            parsed.text.push_str("\n\n");
        }
        let start = parsed.text.len();
        lines::push_clean(&mut parsed.text, page.as_deref().unwrap_or_default(), &vocabulary);
        let problems = problems(number, page.as_deref(), &parsed.text[start..]);
        parsed.problems.extend(problems);
        parsed.pages.push(Page { number, span: Span { start, end: parsed.text.len() } });
    }
    parsed.headings = bookmarks::headings(&bookmarks::read(&document), &parsed.text, &parsed.pages);
    refuse_scans(&parsed)?;
    Ok(parsed)
}

/// What was read badly on a page: `raw` as PDFium gives it, none where the page is damaged, and `text` as it is kept.
fn problems(number: u32, raw: Option<&str>, text: &str) -> Vec<ReadingProblem> {
    let mut found = Vec::new();
    let mut tell = |kind, detail: String| found.push(ReadingProblem { kind, page: Some(number), detail });
    if raw.is_none() {
        tell(ReadingProblemKind::UnreadPart, "the page is damaged".to_owned());
    } else if text.trim().is_empty() {
        tell(ReadingProblemKind::NoText, "the page has no text".to_owned());
    }
    let replaced = text.matches('\u{fffd}').count();
    if replaced > 0 {
        tell(ReadingProblemKind::ReplacedCharacters, format!("{} on the page", characters(replaced, "U+FFFD")));
    }
    // Fonts that do not name their letters give numbers that Unicode leaves to each program.
    let unmapped = text.chars().filter(|character| matches!(character, '\u{e000}'..='\u{f8ff}')).count();
    if unmapped > UNMAPPED {
        tell(
            ReadingProblemKind::UnmappedFont,
            format!("{} on the page", characters(unmapped, "symbols without a letter")),
        );
    }
    found
}

fn characters(count: usize, what: &str) -> String {
    format!("{count} {} as {what}", if count == 1 { "character stands" } else { "characters stand" })
}

/// Scanned books, and books whose fonts do not name their letters, often have a
/// few real words: a stamp, a link, a page number. These words are not the
/// text.
fn refuse_scans(parsed: &Parsed) -> Result<(), LoadError> {
    let pages = parsed.pages.len();
    let with_text = parsed.pages.iter().filter(|page| !page.span.is_empty()).count();
    if with_text * 2 < pages && parsed.text.trim().len() < CHARACTERS_PER_PAGE * pages {
        let reason =
            format!("only {with_text} of {pages} pages have text, and few characters (scanned pages need OCR first)");
        return Err(LoadError::Empty(reason));
    }
    Ok(())
}

fn reason(error: &PdfiumError) -> LoadError {
    match error {
        PdfiumError::PdfiumLibraryInternalError(
            PdfiumInternalError::PasswordError | PdfiumInternalError::SecurityError,
        ) => LoadError::Encrypted,
        PdfiumError::PdfiumLibraryInternalError(PdfiumInternalError::FormatError) => {
            LoadError::Broken("PDFium finds no PDF in it (damaged or cut short)".to_owned())
        }
        other => LoadError::Broken(format!("PDFium: {other}")),
    }
}

fn metadata(document: &PdfDocument<'_>, tag: PdfDocumentMetadataTagType) -> Option<String> {
    let value = document.metadata().get(tag)?;
    let value = value.value().split_whitespace().collect::<Vec<_>>().join(" ");
    (!value.is_empty()).then_some(value)
}

/// The day of a date such as `D:20240501120000Z`.
fn day(date: &str) -> Option<String> {
    let digits = date.strip_prefix("D:").unwrap_or(date).get(..8)?;
    let is_day = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_day.then(|| format!("{}-{}-{}", &digits[..4], &digits[4..6], &digits[6..]))
}

/// A page's text in reading order, or none where the page is damaged.
fn page_text(page: &PdfPage<'_>) -> Option<String> {
    let text = page.text().ok()?;
    // `all()` drops text outside a box from (0, 0), so pages with other
    // coordinates would lose text.
    let all = text.inside_rect(PdfRect::new_from_values(-1e6, -1e6, 1e6, 1e6));
    if all.is_empty() && !text.is_empty() {
        // Half of a surrogate pair makes the text of a whole page undecodable, so each character is read alone.
        return Some(text.chars().iter().filter_map(|character| character.unicode_char()).collect());
    }
    Some(all)
}

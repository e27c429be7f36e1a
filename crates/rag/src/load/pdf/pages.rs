//! What PDFium is asked for: facts about a document, and its pages in segments. A segment is the same whichever process
//! reads it, so a large book is read by several at once.

use super::super::LoadError;
use super::super::bookmarks::{self, Bookmark};
use super::super::layout::{self, ReadPage};
use super::super::pdf_page::{UnreadPage, page, page_text};
use pdfium_render::prelude::{
    PdfBitmapFormat, PdfDocument, PdfDocumentMetadataTagType, PdfRenderConfig, PdfiumError, PdfiumInternalError,
};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The most pixels of a page's picture.
const MOST_PIXELS: f32 = 40_000_000.0;
/// The pages of a segment.
pub(super) const SEGMENT_PAGES: u32 = 128;

/// How pages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PageReading {
    /// Line by line, in the order in which they were written.
    Lines,
    /// By the places of letters.
    Layout,
    /// As pictures of so many dots per inch, in grey.
    Pictures { dots_per_inch: u32 },
}

/// A page as a grey picture. Its pixels, a byte each, are in a file, because they are too many for a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::load) struct PagePicture {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) file: PathBuf,
    /// The width of the page, in points.
    pub(super) points: f32,
}

/// The facts about a document other than its pages.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PdfFacts {
    pub(super) pages: u32,
    pub(super) title: Option<String>,
    pub(super) author: Option<String>,
    /// The day on which it was made, such as `2024-05-01`.
    pub(super) date: Option<String>,
    pub(super) bookmarks: Vec<Bookmark>,
}

impl PdfFacts {
    pub(super) fn of(document: &PdfDocument<'_>) -> Self {
        let date = metadata(document, PdfDocumentMetadataTagType::CreationDate);
        Self {
            pages: u32::try_from(document.pages().len()).unwrap_or(0),
            title: metadata(document, PdfDocumentMetadataTagType::Title),
            author: metadata(document, PdfDocumentMetadataTagType::Author),
            date: date.as_deref().and_then(day),
            bookmarks: bookmarks::read(document),
        }
    }
}

/// Pages that follow each other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PdfPages {
    Lines(Vec<Result<String, UnreadPage>>),
    Layout(Vec<ReadPage>),
    Pictures(Vec<Result<PagePicture, UnreadPage>>),
}

impl PdfPages {
    pub(super) fn none(reading: PageReading) -> Self {
        match reading {
            PageReading::Lines => Self::Lines(Vec::new()),
            PageReading::Layout => Self::Layout(Vec::new()),
            PageReading::Pictures { .. } => Self::Pictures(Vec::new()),
        }
    }

    /// Reads these pages of a file, except those that are skipped. `looks_around` tells whether other pages are looked at for texts that stand on several.
    pub(super) fn read(
        document: &PdfDocument<'_>,
        numbers: RangeInclusive<u32>,
        reading: PageReading,
        looks_around: bool,
        skipped: &[u32],
        file: &Path,
    ) -> Self {
        match reading {
            PageReading::Lines => {
                let line = |number| match skipped.contains(&number) {
                    true => Err(UnreadPage::Crashed),
                    false => lines(document, number),
                };
                Self::Lines(numbers.map(line).collect())
            }
            PageReading::Layout => Self::Layout(layout::read_pages(document, numbers, looks_around, skipped)),
            PageReading::Pictures { dots_per_inch } => {
                Self::Pictures(numbers.map(|number| picture(document, number, dots_per_inch, file)).collect())
            }
        }
    }

    /// A page that was not read.
    pub(super) fn unread(number: u32, reading: PageReading, reason: UnreadPage) -> Self {
        match reading {
            PageReading::Lines => Self::Lines(vec![Err(reason)]),
            PageReading::Layout => Self::Layout(vec![ReadPage::unread(number, reason)]),
            PageReading::Pictures { .. } => Self::Pictures(vec![Err(reason)]),
        }
    }

    pub(super) fn append(&mut self, next: Self) {
        match (self, next) {
            (Self::Lines(pages), Self::Lines(next)) => pages.extend(next),
            (Self::Layout(pages), Self::Layout(next)) => pages.extend(next),
            (Self::Pictures(pages), Self::Pictures(next)) => pages.extend(next),
            // A process answers what it is asked.
            (Self::Lines(_) | Self::Layout(_) | Self::Pictures(_), _) => {}
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Lines(pages) => pages.len(),
            Self::Layout(pages) => pages.len(),
            Self::Pictures(pages) => pages.len(),
        }
    }

    /// About how many bytes of text they have.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Lines(pages) => pages.iter().flatten().map(String::len).sum(),
            Self::Layout(pages) => pages.iter().map(ReadPage::size).sum(),
            Self::Pictures(_) => 0,
        }
    }
}

/// The error for a document that PDFium does not open.
pub(super) fn not_opened(error: &PdfiumError) -> LoadError {
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

fn lines(document: &PdfDocument<'_>, number: u32) -> Result<String, UnreadPage> {
    page(document, number).and_then(|page| page_text(&page)).ok_or(UnreadPage::Damaged)
}

/// A page as a picture, whose pixels are written beside the file.
fn picture(
    document: &PdfDocument<'_>,
    number: u32,
    dots_per_inch: u32,
    file: &Path,
) -> Result<PagePicture, UnreadPage> {
    let page = page(document, number).ok_or(UnreadPage::Damaged)?;
    let (width, height) = (page.width().value, page.height().value);
    if !(width > 0.0 && height > 0.0) {
        return Err(UnreadPage::Damaged);
    }
    // A poster is drawn with fewer dots.
    let scale = (dots_per_inch as f32 / 72.0).min((MOST_PIXELS / (width * height)).sqrt());
    let config = PdfRenderConfig::new()
        .set_target_width(((width * scale).round() as i32).max(1))
        .set_format(PdfBitmapFormat::BGRA)
        .render_form_data(true);
    let bitmap = page.render_with_config(&config).map_err(|_| UnreadPage::Damaged)?;
    let grey: Vec<u8> = bitmap.as_raw_bytes().as_chunks::<4>().0.iter().map(|pixel| grey(*pixel)).collect();
    let (width_in_pixels, height) = (bitmap.width().max(0) as usize, bitmap.height().max(0) as usize);
    if grey.len() != width_in_pixels * height {
        return Err(UnreadPage::Damaged);
    }
    let file = file.with_extension(format!("{number}.grey"));
    std::fs::write(&file, grey).map_err(|_| UnreadPage::Damaged)?;
    Ok(PagePicture { width: width_in_pixels, height, file, points: width })
}

/// The brightness of a pixel (ITU-R BT.601), whose bytes are blue, green, red and alpha.
fn grey([blue, green, red, _]: [u8; 4]) -> u8 {
    let [blue, green, red] = [blue, green, red].map(u32::from);
    ((114 * blue + 587 * green + 299 * red + 500) / 1000) as u8
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

//! What PDFium is asked for: facts about a document, and its pages in segments. A segment is the same whichever process
//! reads it, so a large book is read by several at once.

use super::super::LoadError;
use super::super::bookmarks::{self, Bookmark};
use super::super::layout::{self, ReadPage};
use super::super::page_places::PlacedLetter;
use super::super::pdf_page::{UnreadPage, page, page_text};
use pdfium_render::prelude::{
    PdfBitmapFormat, PdfDocument, PdfDocumentMetadataTagType, PdfPage, PdfPageText, PdfPageTextChar, PdfRenderConfig,
    PdfiumError, PdfiumInternalError,
};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The most pixels of a page's picture.
const MOST_PIXELS: f32 = 40_000_000.0;
/// The most letters whose places are looked at.
const MOST_LETTERS: usize = 40_000;
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
    /// As pictures in colour, with the places of the letters on them.
    Views { dots_per_inch: u32 },
}

/// A page as a picture. Its pixels are in a file, because they are too many for a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::load) struct PagePicture {
    pub(super) width: usize,
    pub(super) height: usize,
    /// The bytes of a pixel: 1 for grey, 3 for colours.
    pub(super) channels: usize,
    pub(super) file: PathBuf,
    /// The width of the page, in points.
    pub(super) points: f32,
}

/// A page as a picture, with its letters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::load) struct DrawnPage {
    pub(super) picture: PagePicture,
    pub(super) letters: Vec<PlacedLetter>,
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
    Views(Vec<Result<DrawnPage, UnreadPage>>),
}

impl PdfPages {
    pub(super) fn none(reading: PageReading) -> Self {
        match reading {
            PageReading::Lines => Self::Lines(Vec::new()),
            PageReading::Layout => Self::Layout(Vec::new()),
            PageReading::Pictures { .. } => Self::Pictures(Vec::new()),
            PageReading::Views { .. } => Self::Views(Vec::new()),
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
            PageReading::Views { dots_per_inch } => {
                Self::Views(numbers.map(|number| drawn_page(document, number, dots_per_inch, file)).collect())
            }
        }
    }

    /// A page that was not read.
    pub(super) fn unread(number: u32, reading: PageReading, reason: UnreadPage) -> Self {
        match reading {
            PageReading::Lines => Self::Lines(vec![Err(reason)]),
            PageReading::Layout => Self::Layout(vec![ReadPage::unread(number, reason)]),
            PageReading::Pictures { .. } => Self::Pictures(vec![Err(reason)]),
            PageReading::Views { .. } => Self::Views(vec![Err(reason)]),
        }
    }

    pub(super) fn append(&mut self, next: Self) {
        match (self, next) {
            (Self::Lines(pages), Self::Lines(next)) => pages.extend(next),
            (Self::Layout(pages), Self::Layout(next)) => pages.extend(next),
            (Self::Pictures(pages), Self::Pictures(next)) => pages.extend(next),
            (Self::Views(pages), Self::Views(next)) => pages.extend(next),
            // A process answers what it is asked.
            (Self::Lines(_) | Self::Layout(_) | Self::Pictures(_) | Self::Views(_), _) => {}
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Lines(pages) => pages.len(),
            Self::Layout(pages) => pages.len(),
            Self::Pictures(pages) => pages.len(),
            Self::Views(pages) => pages.len(),
        }
    }

    /// About how many bytes of text they have.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Lines(pages) => pages.iter().flatten().map(String::len).sum(),
            Self::Layout(pages) => pages.iter().map(ReadPage::size).sum(),
            Self::Pictures(_) | Self::Views(_) => 0,
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

/// A page as a grey picture, whose pixels are written beside the file.
fn picture(
    document: &PdfDocument<'_>,
    number: u32,
    dots_per_inch: u32,
    file: &Path,
) -> Result<PagePicture, UnreadPage> {
    let page = page(document, number).ok_or(UnreadPage::Damaged)?;
    draw(&page, &config(&page, dots_per_inch)?, &file.with_extension(format!("{number}.grey")), |pixel| [grey(pixel)])
}

/// A page as a picture in colour, with the places of its letters.
fn drawn_page(
    document: &PdfDocument<'_>,
    number: u32,
    dots_per_inch: u32,
    file: &Path,
) -> Result<DrawnPage, UnreadPage> {
    let page = page(document, number).ok_or(UnreadPage::Damaged)?;
    let config = config(&page, dots_per_inch)?;
    let file = file.with_extension(format!("{number}.colours"));
    let picture = draw(&page, &config, &file, |[blue, green, red, _]| [red, green, blue])?;
    let letters = page.text().map(|text| letters(&text, &page, &config)).unwrap_or_default();
    Ok(DrawnPage { picture, letters })
}

/// The letters of a page with their places on the picture.
fn letters(text: &PdfPageText<'_>, page: &PdfPage<'_>, config: &PdfRenderConfig) -> Vec<PlacedLetter> {
    let pixel = |x, y| page.points_to_pixels(x, y, config).map(|(x, y)| (x as f32, y as f32));
    let place = |character: PdfPageTextChar<'_>| {
        let letter = character.unicode_char().filter(|letter| !letter.is_whitespace())?;
        let bounds = character.loose_bounds().ok()?;
        let (x, y) = pixel(bounds.left(), bounds.top()).ok()?;
        let (other_x, other_y) = pixel(bounds.right(), bounds.bottom()).ok()?;
        // A turned page turns the corners.
        Some(PlacedLetter { letter, area: [x.min(other_x), y.min(other_y), x.max(other_x), y.max(other_y)] })
    };
    text.chars().iter().take(MOST_LETTERS).filter_map(place).collect()
}

/// How a page is drawn. A poster is drawn with fewer dots.
fn config(page: &PdfPage<'_>, dots_per_inch: u32) -> Result<PdfRenderConfig, UnreadPage> {
    let (width, height) = (page.width().value, page.height().value);
    if !(width > 0.0 && height > 0.0) {
        return Err(UnreadPage::Damaged);
    }
    let scale = (dots_per_inch as f32 / 72.0).min((MOST_PIXELS / (width * height)).sqrt());
    let width = ((width * scale).round() as i32).max(1);
    Ok(PdfRenderConfig::new().set_target_width(width).set_format(PdfBitmapFormat::BGRA).render_form_data(true))
}

/// Draws a page into a file of pixels. `of` makes a pixel of its blue, green, red and alpha.
fn draw<const CHANNELS: usize>(
    page: &PdfPage<'_>,
    config: &PdfRenderConfig,
    file: &Path,
    of: impl Fn([u8; 4]) -> [u8; CHANNELS],
) -> Result<PagePicture, UnreadPage> {
    let bitmap = page.render_with_config(config).map_err(|_| UnreadPage::Damaged)?;
    let pixels: Vec<u8> = bitmap.as_raw_bytes().as_chunks::<4>().0.iter().flat_map(|pixel| of(*pixel)).collect();
    let (width, height) = (bitmap.width().max(0) as usize, bitmap.height().max(0) as usize);
    if pixels.len() != width * height * CHANNELS {
        return Err(UnreadPage::Damaged);
    }
    std::fs::write(file, pixels).map_err(|_| UnreadPage::Damaged)?;
    Ok(PagePicture { width, height, channels: CHANNELS, file: file.to_owned(), points: page.width().value })
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

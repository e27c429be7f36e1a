//! `load`: files become documents, one at a time.

mod archive;
mod bookmarks;
mod docx_body;
mod docx_styles;
mod element;
mod file_state;
mod filter;
mod format;
mod headings;
mod inner_files;
mod layout;
mod lines;
mod markup;
mod mime;
mod nesting;
mod office_package;
mod open_document;
mod package;
mod page_places;
mod pdf_page;
mod sheet;
mod similar_names;
mod sniff;
mod source;
mod table;
mod walk;
mod workbook;
mod written;
mod xml;

#[cfg(test)]
mod tests;

pub use file_state::FileState;
pub(crate) use filter::MATCHING;
pub use inner_files::{FileLookup, VisitFile, find_file, parse_files, visit_files};
#[cfg(test)]
pub(crate) use markdown::headings as markdown_headings;
pub use page_places::{PageBox, PageView, ReadLine, find_letters};
pub(crate) use pdf::PagePictures;
pub use pdf::{PdfProgram, bind_pdfium, read_pdfs_with, run_pdf_worker};
pub use similar_names::similar_names;
pub use source::{Listing, Source, SourceFile};
pub(crate) use written::{returned_document, written_document};

use crate::types::{Heading, Metadata, Page, ReadingProblem, Span, Table};
use format::{FileFormat, formats};
use layout::ReadPage;
use models::{Picture, PictureError, PictureFile, RecognizedPage};
use page_places::LetteredPicture;
use pdf_page::UnreadPage;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::Key;
use table::BuiltTable;

// The formats, in the order in which they are tried. A new one is a file here,
// with its `FORMAT`, and one line.
formats! {
    Pdf => pdf,
    Epub => epub,
    Html => html,
    Markdown => markdown,
    Docx => docx,
    Pptx => pptx,
    Xlsx => xlsx,
    Xls => xls,
    Odt => odt,
    Odp => odp,
    Ods => ods,
    Rtf => rtf,
    Csv => csv,
    Tsv => tsv,
    Eml => eml,
    Mbox => mbox,
    Text => text,
}

impl Format {
    /// Whether its text has its headings as Markdown. In others a `#` is a
    /// comment or a number sign.
    pub(crate) fn keeps_headings(self) -> bool {
        self.definition().keeps_headings
    }

    /// The native library without which no file of this format can be read.
    pub fn library(self) -> Option<&'static str> {
        self.definition().library
    }
}

/// Raise when any parser's output changes: part of every task key.
pub const VERSION: u32 = 5;

/// Below this size nothing counts as expansion: a small file of one repeated
/// word is not a bomb.
const ALWAYS_ALLOWED: u64 = 16 << 20;

/// A picture is read as a page of this width, in points.
const PICTURE_POINTS: f32 = 600.0;

/// The longest title that is kept, in characters: every chunk below it repeats it.
const TITLE_CHARACTERS: usize = 200;

/// How much of a file is read before it is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ParseLimits {
    /// The largest file, in bytes. Default 256 MiB.
    pub file_bytes: u64,
    /// The most pages of a PDF or DOCX, parts of an EPUB or of a mail, or files in a mail or mailbox. Default 20,000.
    pub pages: u32,
    /// The most bytes that an archive (EPUB, DOCX) or the files in a mail or mailbox may unpack to. Default 1 GiB.
    pub unpacked_bytes: u64,
    /// The most bytes of text that a file may hold. Default 256 MiB.
    pub text_bytes: u64,
    /// The largest ratio of unpacked to packed size of a part of an archive, and
    /// of a text's size to that of its file; up to 16 MiB are always allowed.
    /// Default 100.
    pub expansion: u32,
    /// The deepest nesting of elements in HTML or XML. Default 256.
    pub nesting: u32,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self {
            file_bytes: 256 << 20,
            pages: 20_000,
            unpacked_bytes: 1 << 30,
            text_bytes: 256 << 20,
            expansion: 100,
            nesting: 256,
        }
    }
}

impl ParseLimits {
    /// The most bytes that these bytes may unpack to, by the ratio alone.
    fn max_unpacked(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(u64::from(self.expansion)).max(ALWAYS_ALLOWED)
    }

    /// These limits for one file, with the limit for its text.
    fn for_file(&self, bytes: usize) -> Self {
        Self { text_bytes: self.text_bytes.min(self.max_unpacked(bytes as u64)), ..self.clone() }
    }

    /// Refuses a file of more bytes than are read.
    ///
    /// # Errors
    /// [`LoadError::OverLimit`].
    pub fn check_file(&self, bytes: u64) -> Result<(), LoadError> {
        let reason = || format!("{bytes} bytes, and at most {} are read", self.file_bytes);
        if bytes > self.file_bytes { Err(LoadError::OverLimit(reason())) } else { Ok(()) }
    }

    /// Refuses a text that is longer than it may be.
    fn check_text(&self, bytes: usize) -> Result<(), LoadError> {
        if bytes as u64 <= self.text_bytes {
            return Ok(());
        }
        Err(LoadError::OverLimit(format!(
            "its text is longer than {} bytes, the most for a file of its size (`text_bytes` and `expansion` under \
             [corpus.limits])",
            self.text_bytes
        )))
    }
}

/// Why a file gave no document. Other files are still read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoadError {
    /// Not a format that is read here.
    #[error("unknown format: {0}")]
    UnknownFormat(String),
    /// The content is not what the name says, and cannot be read.
    #[error("has the extension {named} but is {found}")]
    Mislabelled {
        /// What the name says.
        named: String,
        /// What the bytes say.
        found: String,
    },
    /// The file is damaged.
    #[error("broken: {0}")]
    Broken(String),
    /// The file needs a password.
    #[error("encrypted")]
    Encrypted,
    /// The file holds no text.
    #[error("no text: {0}")]
    Empty(String),
    /// Beyond a limit.
    #[error("over a limit: {0}")]
    OverLimit(String),
    /// The name, or the link's target, is no readable file.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// A symbolic link that leaves the corpus.
    #[error(
        "a link that leaves the corpus, to {target}: put the file itself there, or allow it with `links = \"anywhere\"` under [corpus]"
    )]
    OutsideLink {
        /// Where it leads.
        target: String,
    },
    /// A library that this format needs is not here.
    #[error("{0}")]
    NoLibrary(String),
    /// A library that this format needs cannot be used.
    #[error("{0}")]
    Library(String),
    /// It was not read this time, which says nothing about the file.
    #[error("not read: {0}")]
    NotRead(String),
}

/// A file that gave no document, by name and reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The path below the corpus' root.
    pub path: String,
    /// Why.
    pub reason: LoadError,
}

/// Which symbolic links of a folder are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Links {
    /// Those that lead to somewhere in the same folder.
    #[default]
    Inside,
    /// All, wherever they lead.
    Anywhere,
}

/// Why a file's bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is not part of the corpus; reading it again changes nothing.
    #[error(transparent)]
    Rejected(LoadError),
    /// The file could not be read now; this says nothing about the file.
    #[error("{reason}")]
    Failed {
        /// What happened.
        reason: String,
        /// Whether another try soon may succeed.
        is_temporary: bool,
    },
}

/// A file, or a folder, that could not be read now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The path below the corpus' root.
    pub path: String,
    /// What happened.
    pub reason: String,
}

/// A file's text and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The path below the corpus' root, with `/`: the document's name everywhere.
    pub path: String,
    /// The key of the file's bytes.
    pub content: Key,
    /// What it was parsed as.
    pub format: Format,
    /// The book or page title, else none.
    pub title: Option<String>,
    /// The author, if the file names one.
    pub author: Option<String>,
    /// The extracted text. Markdown, HTML, EPUB and DOCX keep their headings
    /// as Markdown (`# …`).
    pub text: String,
    /// In order, without overlap; empty for formats without pages. Text before the
    /// first page mark is on no page.
    pub pages: Vec<Page>,
    /// The parts of the document, in order of their beginnings.
    pub headings: Vec<Heading>,
    /// What else its file and the corpus' table of metadata say.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// The tables in the text, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// What was read badly or not at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ReadingProblem>,
}

impl Document {
    /// The document with these tables, each with its page.
    fn with_tables(self, tables: Vec<Table>) -> Self {
        let on_page = |table: Table| Table { page: self.page_at(table.span.start).map(|page| page.number), ..table };
        let tables = tables.into_iter().map(on_page).collect();
        Self { tables, ..self }
    }

    /// Whether its text has headings, tables and listings as Markdown.
    pub(crate) fn is_markdown(&self) -> bool {
        let is_written = |heading: &Heading| self.text.get(heading.start..).is_some_and(|text| text.starts_with('#'));
        self.format.keeps_headings()
            || self.format == Format::Pdf && (!self.tables.is_empty() || self.headings.iter().any(is_written))
    }

    /// The number of the page on which a quote begins: where its letters and digits stand in the text, whatever stands
    /// between them. None if it is nowhere, or on no page.
    pub fn page_of_quote(&self, quote: &str) -> Option<u32> {
        let start = self.text.find(quote).or_else(|| find_letters(&self.text, quote))?;
        self.page_at(start).map(|page| page.number)
    }

    /// The page that holds a byte of the text; white space behind a page
    /// belongs to it.
    pub fn page_at(&self, byte: usize) -> Option<&Page> {
        let next = self.pages.partition_point(|page| page.span.start <= byte);
        let page = &self.pages[next.checked_sub(1)?];
        let behind = self.text.get(page.span.end..byte).unwrap_or_default();
        (byte < page.span.end || behind.trim().is_empty()).then_some(page)
    }
}

/// Parses one file's bytes. The bytes decide the format; the name only helps
/// between formats that look alike (plain text, Markdown). A PDF, an e-book or
/// an office file with another extension is parsed as what it is. Text or HTML
/// that is named as one of these is [`LoadError::Mislabelled`]: failed
/// downloads leave such files behind.
///
/// # Errors
/// Typed reasons; a panic in a parser is caught and reported as `Broken`.
pub fn parse(path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, LoadError> {
    parse_by(path, bytes, limits, |format, limits| (format.definition().parse)(bytes, limits))
}

/// As [`parse`], and PDFs by the places of their letters.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_layout(path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, LoadError> {
    parse_by(path, bytes, limits, |format, limits| match format {
        Format::Pdf => pdf::parse_layout(bytes, limits),
        other => (other.definition().parse)(bytes, limits),
    })
}

/// Reads the text of a picture.
pub(crate) type Recognize<'a> = dyn Fn(Picture) -> Result<RecognizedPage, LoadError> + 'a;

/// As [`parse_layout`], and pages of PDFs that have no letters as pictures, whose text `recognize` reads.
///
/// # Errors
/// As [`parse`], and those of `recognize`.
pub(crate) fn parse_recognized(
    path: &str,
    bytes: &[u8],
    limits: &ParseLimits,
    pictures: &PagePictures,
    recognize: &Recognize<'_>,
) -> Result<Document, LoadError> {
    parse_by(path, bytes, limits, |format, limits| match format {
        Format::Pdf => pdf::parse_recognized(bytes, limits, pictures, recognize),
        other => (other.definition().parse)(bytes, limits),
    })
}

/// The document of a picture, whose text `recognize` reads: one page, or several of a TIFF. If a page after the first is
/// damaged, it is skipped and listed among the problems.
///
/// # Errors
/// If the first page is damaged, if one is too large, if there are more than the limits allow or none has a text, and those
/// of `recognize`.
pub(crate) fn parse_picture(
    path: &str,
    bytes: &[u8],
    limits: &ParseLimits,
    recognize: &Recognize<'_>,
) -> Result<Document, LoadError> {
    limits.check_file(bytes.len() as u64)?;
    let read = || {
        let mut file = PictureFile::open(bytes);
        if file.pages() > limits.pages as usize {
            return Err(LoadError::OverLimit(format!("more than {} pages", limits.pages)));
        }
        let (mut recognized, mut damaged) = (Vec::new(), Vec::new());
        for (number, page) in (1..).zip(0..file.pages()) {
            match decode(&mut file, page) {
                Ok(picture) => {
                    // The text of a page that is 600 points wide has a size of about ten.
                    let scale = PICTURE_POINTS / picture.width.max(1) as f32;
                    recognized.push((number, recognize(picture)?, scale));
                }
                Err(LoadError::Broken(_)) if page > 0 => damaged.push(ReadPage::unread(number, UnreadPage::Damaged)),
                Err(reason) => return Err(reason),
            }
        }
        let mut pages = layout::recognized_pages(recognized);
        pages.extend(damaged);
        pages.sort_by_key(ReadPage::number);
        layout::document(pages, &[], limits)
    };
    let parsed = caught(read, limits)?;
    document(path, bytes, Format::Markdown, parsed)
}

/// How finely a page of a PDF without letters is drawn before it is recognized, in dots per inch.
pub(crate) const RECOGNIZED_DOTS: u32 = 200;
/// The pixels of a picture's longer side, at most, where it is looked at.
const VIEWED_PIXELS: usize = 2_000;

/// Draws a page, and finds texts on it. `recognize` reads pages without letters, if it can. None if there is no such page,
/// or the file is neither a PDF nor a picture.
///
/// # Errors
/// If the file is damaged or needs a password, or cannot be read now.
pub(crate) fn view_page(
    (path, bytes): (&str, &[u8]),
    page: u32,
    texts: &[&str],
    dots_per_inch: u32,
    limits: &ParseLimits,
    recognize: &dyn Fn(&Picture) -> Option<RecognizedPage>,
) -> Result<Option<PageView>, LoadError> {
    limits.check_file(bytes.len() as u64)?;
    // What is recognized has the resolution that the parser `ocr` uses, which is higher than that of the view.
    let (mut drawn, seen) = if Picture::is_picture(bytes) {
        let mut file = PictureFile::open(bytes);
        let Some(place) = (page as usize).checked_sub(1).filter(|&place| place < file.pages()) else { return Ok(None) };
        let seen = decode(&mut file, place)?;
        let picture = seen.clone().in_colour(VIEWED_PIXELS);
        (LetteredPicture { picture, letters: Vec::new() }, Some(seen))
    } else if sniff::format(path, bytes) == Ok(Format::Pdf) {
        let Some(drawn) = pdf::view(bytes, page, dots_per_inch, RECOGNIZED_DOTS)? else { return Ok(None) };
        drawn
    } else {
        return Ok(None);
    };
    let mut lines = Vec::new();
    if let Some(seen) = seen
        && let Some(found) = recognize(&seen)
    {
        lines = page_places::read_lines(&seen, &found);
        drawn = LetteredPicture::recognized(drawn.picture, &seen, &found);
    }
    Ok(Some(PageView { lines, ..drawn.view(page, texts) }))
}

/// A page of a picture, from 0.
fn decode(file: &mut PictureFile<'_>, page: usize) -> Result<Picture, LoadError> {
    file.decode(page).map_err(|error| match error {
        PictureError::TooLarge(reason) => LoadError::OverLimit(reason),
        PictureError::Broken(reason) => LoadError::Broken(reason),
    })
}

/// Finds the format of the bytes, and makes a document of what `parse` makes of it within the limits for one file.
fn parse_by(
    path: &str,
    bytes: &[u8],
    limits: &ParseLimits,
    parse: impl FnOnce(Format, &ParseLimits) -> Result<Parsed, LoadError>,
) -> Result<Document, LoadError> {
    limits.check_file(bytes.len() as u64)?;
    let format = sniff::format(path, bytes)?;
    let limits = limits.for_file(bytes.len());
    let parsed = caught(|| parse(format, &limits), &limits)?;
    document(path, bytes, format, parsed)
}

/// The document of what was parsed.
fn document(path: &str, bytes: &[u8], format: Format, parsed: Parsed) -> Result<Document, LoadError> {
    let document = Document {
        path: path.to_owned(),
        content: Key::of_bytes(bytes),
        format,
        title: parsed.title.filter(|title| !title.trim().is_empty()).map(headings::clip_title),
        author: parsed.author.filter(|author| !author.trim().is_empty()).map(headings::clip_title),
        text: parsed.text,
        pages: parsed.pages,
        headings: parsed.headings,
        metadata: parsed.metadata,
        tables: Vec::new(),
        problems: parsed.problems,
    };
    let document = document.with_tables(parsed.tables);
    if document.text.trim().is_empty() {
        return Err(LoadError::Empty(format.definition().without_text.to_owned()));
    }
    Ok(document)
}

/// The format of a file, by its bytes and then by its name.
///
/// # Errors
/// If the bytes are of no format that is read here.
pub(crate) fn format_of(path: &str, bytes: &[u8]) -> Result<Format, LoadError> {
    sniff::format(path, bytes)
}

/// What a parser gives back: a document without its name.
#[derive(Debug, Default)]
struct Parsed {
    title: Option<String>,
    author: Option<String>,
    text: String,
    pages: Vec<Page>,
    headings: Vec<Heading>,
    /// What else the file says: `date` (such as `2024-05-01`), `language`, and fields of its own.
    metadata: Metadata,
    /// The tables in the text; their pages follow from their places.
    tables: Vec<Table>,
    problems: Vec<ReadingProblem>,
}

impl Parsed {
    /// Adds a field, if the file has it.
    fn with(mut self, field: &str, value: Option<String>) -> Self {
        let value = value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        self.metadata.extend(value.map(|value| (field.to_owned(), value.into())));
        self
    }

    /// Begins a new block of the text after a blank line, if there is text. Returns where it begins.
    fn begin_block(&mut self) -> usize {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.len()
    }

    /// Appends a heading as a block of its own.
    fn push_heading(&mut self, level: u32, title: &str) {
        let start = self.begin_block();
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        self.text.extend(std::iter::repeat_n('#', level.clamp(1, 6) as usize));
        self.text.push(' ');
        self.text.push_str(&title);
        self.headings.push(Heading { start, level, title: headings::clip_title(title) });
    }

    /// Appends a text as a block of its own, unless it is blank.
    fn push_block(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.begin_block();
            self.text.push_str(text.trim_end());
        }
    }

    /// Appends what another parser made as blocks of their own, unless it is blank. Its headings and tables are kept.
    fn push_parsed(&mut self, other: Self) {
        self.problems.extend(other.problems);
        if other.text.trim().is_empty() {
            return;
        }
        let start = self.begin_block();
        self.text.push_str(other.text.trim_end());
        let heading = |heading: Heading| Heading { start: heading.start + start, ..heading };
        self.headings.extend(other.headings.into_iter().map(heading));
        let span = |span: Span| Span { start: span.start + start, end: span.end + start };
        self.tables.extend(other.tables.into_iter().map(|table| Table { span: span(table.span), ..table }));
    }

    /// Appends a table as a block of its own, unless it is empty.
    fn push_table(&mut self, built: BuiltTable) {
        if built.text.trim().is_empty() {
            return;
        }
        let start = self.begin_block();
        self.text.push_str(built.text.trim_end());
        let span = Span { start, end: self.text.len() };
        self.tables.extend(built.table.map(|table| Table { span, ..table }));
    }
}

/// Makes the text of a file's bytes.
type ParseFunction = fn(&[u8], &ParseLimits) -> Result<Parsed, LoadError>;

/// Runs a parser. A panic in it concerns only this file.
fn caught(parse: impl FnOnce() -> Result<Parsed, LoadError>, limits: &ParseLimits) -> Result<Parsed, LoadError> {
    match catch_unwind(AssertUnwindSafe(parse)) {
        Ok(parsed) => {
            let parsed = parsed?;
            limits.check_text(parsed.text.len())?;
            Ok(parsed)
        }
        Err(panic) => Err(LoadError::Broken(panic_message(&*panic))),
    }
}

/// What a panic in a parser said.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
    format!("the parser panicked: {message}")
}

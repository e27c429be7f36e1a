//! `load::open_document`: what texts, presentations and spreadsheets in the OpenDocument format share, and the reader of
//! texts and presentations: headings, paragraphs, lists, tables, footnotes, pages of slides with their notes.
//!
//! Source: OpenDocument 1.3, parts 3 and 4.

use super::archive::Archive;
use super::format::Entries;
use super::headings::clip_title;
use super::table::{CellPlace, TableBuilder};
use super::xml::{self, Node, Xml};
use super::{LoadError, ParseLimits, Parsed};
use crate::types::{Page, ReadingProblem, ReadingProblemKind, Span};
use quick_xml::events::BytesStart;
use std::collections::HashSet;

/// The most that a repeated cell, row or space is repeated where it has content.
pub(super) const MOST_REPEATED: u32 = 1024;

/// Whether an archive is an OpenDocument file whose type begins so, such as `text`.
pub(super) fn is_type(entries: &Entries<'_>, kind: &str) -> bool {
    // Templates and master documents have longer types.
    entries.has("content.xml") && entries.has_type(&format!("application/vnd.oasis.opendocument.{kind}"))
}

/// The main part of an archive, `content.xml`. Its manifest says whether the file is encrypted.
pub(super) fn content(archive: &mut Archive<'_>) -> Result<String, LoadError> {
    let manifest = archive.read("META-INF/manifest.xml")?.unwrap_or_default();
    if memchr::memmem::find(&manifest, b"encryption-data").is_some() {
        return Err(LoadError::Encrypted);
    }
    Ok(xml::decode(&archive.require("content.xml")?))
}

/// Reads a text or a presentation. Spreadsheets have a reader of their own.
pub(super) fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let mut archive = Archive::open(bytes, limits)?;
    let content = content(&mut archive)?;
    with_properties(BodyReader::read(&content, limits)?, &mut archive, limits)
}

/// Adds the title, author, date and language that the file states.
pub(super) fn with_properties(
    mut parsed: Parsed,
    archive: &mut Archive<'_>,
    limits: &ParseLimits,
) -> Result<Parsed, LoadError> {
    let Some(bytes) = archive.read("meta.xml")? else { return Ok(parsed) };
    // Damaged metadata must not cost the text.
    let names = ["title", "initial-creator", "creator", "creation-date", "date", "language"];
    let [title, first_author, author, created, date, language] =
        xml::texts_of(&xml::decode(&bytes), names, limits).unwrap_or_default();
    parsed.title = title.or(parsed.title);
    parsed.author = first_author.or(author);
    Ok(parsed.with("date", created.or(date)).with("language", language))
}

/// The styles of tables, or of slides, that are not shown.
pub(super) fn hidden_styles(content: &str, limits: &ParseLimits) -> Result<HashSet<String>, LoadError> {
    let mut hidden = HashSet::new();
    let mut style = None;
    let mut xml = Xml::new(content, limits);
    while let Some(node) = xml.next()? {
        let Node::Open(start) = node else { continue };
        match xml::local(&start) {
            "style" => style = xml::attribute(&start, "name").map(|name| name.into_owned()),
            "table-properties" if xml::attribute(&start, "display").as_deref() == Some("false") => {
                hidden.extend(style.clone());
            }
            "drawing-page-properties" if xml::attribute(&start, "visibility").as_deref() == Some("hidden") => {
                hidden.extend(style.clone());
            }
            // Styles stand before the content.
            "body" => break,
            _ => {}
        }
    }
    Ok(hidden)
}

/// A number in an attribute, or 1.
pub(super) fn count(start: &BytesStart<'_>, name: &str) -> u32 {
    xml::attribute(start, name).and_then(|value| value.parse().ok()).unwrap_or(1)
}

/// Text of an element, with white space as OpenDocument means it: a run is one space, and more are elements.
#[derive(Debug, Default)]
pub(super) struct RunText {
    text: String,
}

impl RunText {
    pub(super) fn words(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                ' ' | '\t' | '\r' | '\n' if self.text.is_empty() || self.text.ends_with([' ', '\n', '\t']) => {}
                ' ' | '\t' | '\r' | '\n' | '\u{a0}' => self.text.push(' '),
                '\u{ad}' | '\u{200b}' | '\u{feff}' => {}
                other => self.text.push(other),
            }
        }
    }

    /// An element that stands for white space. Returns whether it is one.
    pub(super) fn space(&mut self, start: &BytesStart<'_>) -> bool {
        match xml::local(start) {
            "s" => self.text.extend(std::iter::repeat_n(' ', count(start, "c").min(MOST_REPEATED) as usize)),
            "tab" => self.text.push('\t'),
            "line-break" => self.text.push('\n'),
            _ => return false,
        }
        true
    }

    pub(super) fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// Reads the body of a text or a presentation.
#[derive(Default)]
pub(super) struct BodyReader {
    parsed: Parsed,
    frames: Vec<BodyFrame>,
    skipped: usize,
    /// Paragraphs being read: a footnote or a frame puts paragraphs inside a paragraph.
    paragraphs: Vec<RunText>,
    tables: Vec<OpenDocumentTable>,
    /// How many lists are open, and whether the next paragraph begins an item.
    lists: usize,
    begins_item: bool,
    last_was_item: bool,
    /// Footnotes, with the text of each.
    notes: Vec<String>,
    in_note: usize,
    /// Where pages begin, in a text.
    breaks: Vec<usize>,
    /// Whether the open frame of a slide is its title.
    is_title: bool,
    slide_notes: Vec<String>,
    in_slide_notes: usize,
    slide_start: usize,
    hidden: HashSet<String>,
}

#[derive(Default)]
struct OpenDocumentTable {
    table: TableBuilder,
    blocks: Vec<String>,
    place: CellPlace,
    repeated: u32,
    in_header: bool,
}

enum BodyFrame {
    Heading(u32),
    Paragraph,
    List,
    Item,
    Table,
    HeaderRows,
    Cell,
    Note,
    NoteBody,
    Slide { is_hidden: bool },
    SlideNotes,
    Frame { was_title: bool },
    Other,
}

/// What is no text: deleted words, remarks of readers, tables of contents, scripts, and what repeats on every page.
const LEFT_OUT: [&str; 11] = [
    // The builder of tables knows which places a cell covers.
    "covered-table-cell",
    "tracked-changes",
    "annotation",
    "table-of-content",
    "note-citation",
    "forms",
    "scripts",
    "font-face-decls",
    "automatic-styles",
    "sequence-decls",
    "desc",
];

impl BodyReader {
    fn read(content: &str, limits: &ParseLimits) -> Result<Parsed, LoadError> {
        let mut reader = Self { hidden: hidden_styles(content, limits)?, ..Self::default() };
        let mut xml = Xml::new(content, limits);
        while let Some(node) = xml.next()? {
            match node {
                Node::Open(start) => reader.open(&start),
                Node::Close => reader.close(),
                Node::Text(text) if reader.skipped == 0 => {
                    reader.paragraphs.last_mut().into_iter().for_each(|paragraph| paragraph.words(&text));
                }
                Node::Text(_) => {}
                Node::Entity(name) => return Err(LoadError::Broken(format!("the entity &{name}; is not expanded"))),
            }
            let pages = reader.breaks.len().max(reader.parsed.pages.len());
            if pages >= limits.pages as usize {
                return Err(LoadError::OverLimit(format!("more than {} pages", limits.pages)));
            }
            let tables: usize = reader.tables.iter().map(|open| open.table.size()).sum();
            limits.check_text(reader.parsed.text.len().saturating_add(tables))?;
        }
        Ok(reader.finish())
    }

    fn open(&mut self, start: &BytesStart<'_>) {
        let name = xml::local(start);
        if self.skipped > 0 || LEFT_OUT.contains(&name) {
            self.skipped += 1;
            return;
        }
        if self.paragraphs.last_mut().is_some_and(|paragraph| paragraph.space(start)) {
            self.frames.push(BodyFrame::Other);
            return;
        }
        let frame = match name {
            "h" => {
                self.paragraphs.push(RunText::default());
                BodyFrame::Heading(count(start, "outline-level").clamp(1, 6))
            }
            "p" => {
                self.paragraphs.push(RunText::default());
                BodyFrame::Paragraph
            }
            "list" => {
                self.lists += 1;
                BodyFrame::List
            }
            "list-item" | "list-header" => {
                self.begins_item = true;
                BodyFrame::Item
            }
            "soft-page-break" => {
                self.page_break();
                BodyFrame::Other
            }
            "table" => {
                self.tables.push(OpenDocumentTable::default());
                BodyFrame::Table
            }
            "table-header-rows" => {
                self.tables.last_mut().into_iter().for_each(|open| open.in_header = true);
                BodyFrame::HeaderRows
            }
            "table-row" => {
                if let Some(open) = self.tables.last_mut() {
                    open.table.row();
                    if open.in_header {
                        open.table.mark_header();
                    }
                }
                BodyFrame::Other
            }
            "table-cell" => {
                if let Some(open) = self.tables.last_mut() {
                    let (rows, columns) = (count(start, "number-rows-spanned"), count(start, "number-columns-spanned"));
                    open.place = CellPlace { rows, columns, ..CellPlace::default() };
                    open.repeated = count(start, "number-columns-repeated").min(MOST_REPEATED);
                }
                BodyFrame::Cell
            }
            "note" => {
                self.in_note += 1;
                BodyFrame::Note
            }
            "note-body" => {
                self.notes.push(String::new());
                BodyFrame::NoteBody
            }
            "page" => self.open_slide(start),
            // Notes stand inside the page of their slide.
            "notes" => {
                self.in_slide_notes += 1;
                BodyFrame::SlideNotes
            }
            "frame" => {
                let is_title = xml::attribute(start, "class").as_deref() == Some("title");
                BodyFrame::Frame { was_title: std::mem::replace(&mut self.is_title, is_title) }
            }
            _ => BodyFrame::Other,
        };
        self.frames.push(frame);
    }

    fn open_slide(&mut self, start: &BytesStart<'_>) -> BodyFrame {
        self.slide_start = if self.parsed.text.is_empty() { 0 } else { self.parsed.text.len() + 2 };
        let is_hidden = xml::attribute(start, "style-name").is_some_and(|style| self.hidden.contains(style.as_ref()));
        BodyFrame::Slide { is_hidden }
    }

    fn close(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        match self.frames.pop() {
            Some(BodyFrame::Heading(level)) => self.close_paragraph(Some(level)),
            Some(BodyFrame::Paragraph) => self.close_paragraph(None),
            Some(BodyFrame::List) => self.lists = self.lists.saturating_sub(1),
            Some(BodyFrame::HeaderRows) => {
                self.tables.last_mut().into_iter().for_each(|open| open.in_header = false);
            }
            Some(BodyFrame::Cell) => {
                if let Some(open) = self.tables.last_mut() {
                    let text = std::mem::take(&mut open.blocks).join("\n\n");
                    // A cell that is repeated to the edge of a page without text is no content.
                    let times = if text.is_empty() { open.repeated.min(64) } else { open.repeated };
                    (0..times).for_each(|_| open.table.cell(text.clone(), open.place));
                }
            }
            Some(BodyFrame::Table) => self.close_table(),
            Some(BodyFrame::Note) => {
                self.in_note = self.in_note.saturating_sub(1);
                let number = self.notes.len();
                self.paragraphs.last_mut().into_iter().for_each(|it| it.push_str(&format!("[^{number}]")));
            }
            Some(BodyFrame::Slide { is_hidden }) => self.close_slide(is_hidden),
            Some(BodyFrame::SlideNotes) => self.in_slide_notes = self.in_slide_notes.saturating_sub(1),
            Some(BodyFrame::Frame { was_title }) => self.is_title = was_title,
            Some(BodyFrame::Item | BodyFrame::NoteBody | BodyFrame::Other) | None => {}
        }
    }

    fn page_break(&mut self) {
        if self.tables.is_empty() && self.in_note == 0 && !self.parsed.text.is_empty() {
            self.breaks.push(self.parsed.text.len());
        }
    }

    fn close_paragraph(&mut self, heading: Option<u32>) {
        let Some(mut paragraph) = self.paragraphs.pop() else { return };
        let text = paragraph.take();
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if self.in_note > 0 {
            if let Some(note) = self.notes.last_mut() {
                let space = if note.is_empty() { "" } else { " " };
                note.push_str(space);
                note.push_str(text);
            }
        } else if self.in_slide_notes > 0 {
            self.slide_notes.push(text.to_owned());
        } else if let Some(open) = self.tables.last_mut() {
            open.blocks.push(text.to_owned());
        } else if let Some(outer) = self.paragraphs.last_mut() {
            // A text box inside a paragraph.
            outer.words(" ");
            outer.words(text);
        } else if let Some(level) = heading.or(self.is_title.then_some(1)) {
            self.last_was_item = false;
            self.parsed.push_heading(level, text);
        } else {
            self.push_paragraph(text);
        }
    }

    fn push_paragraph(&mut self, text: &str) {
        let is_item = self.lists > 0;
        match (is_item && self.last_was_item, self.parsed.text.is_empty()) {
            (_, true) => {}
            (true, false) => self.parsed.text.push('\n'),
            (false, false) => self.parsed.text.push_str("\n\n"),
        }
        if is_item {
            let indent = "  ".repeat(self.lists.saturating_sub(1).min(8));
            let mark = if std::mem::take(&mut self.begins_item) { "- " } else { "  " };
            self.parsed.text.push_str(&indent);
            self.parsed.text.push_str(mark);
        }
        self.parsed.text.push_str(text);
        self.last_was_item = is_item;
    }

    fn close_table(&mut self) {
        let Some(open) = self.tables.pop() else { return };
        let built = open.table.finish();
        match self.tables.last_mut() {
            // A row cannot hold a table: its cells stay as words.
            Some(outer) => {
                let lines = built.text.lines().filter(|line| !line.starts_with("| ---"));
                outer.blocks.push(lines.collect::<Vec<_>>().join(" "));
            }
            None => self.parsed.push_table(built),
        }
        self.last_was_item = false;
    }

    fn close_slide(&mut self, is_hidden: bool) {
        let notes = std::mem::take(&mut self.slide_notes).join("\n");
        if !notes.is_empty() {
            self.parsed.push_block(&format!("Notes: {notes}"));
        }
        self.last_was_item = false;
        let number = self.parsed.pages.len() as u32 + 1;
        let end = self.parsed.text.len();
        self.parsed.pages.push(Page { number, span: Span { start: self.slide_start.min(end), end } });
        if is_hidden {
            let detail = "the slide is hidden; it was read".to_owned();
            self.parsed.problems.push(ReadingProblem {
                kind: ReadingProblemKind::HiddenPart,
                page: Some(number),
                detail,
            });
        }
    }

    fn finish(mut self) -> Parsed {
        if self.parsed.pages.is_empty() && !self.breaks.is_empty() {
            let starts = std::iter::once(0).chain(self.breaks.iter().copied());
            let ends = self.breaks.iter().copied().chain([self.parsed.text.len()]);
            let pages = (1..).zip(starts.zip(ends)).filter(|(_, (start, end))| start < end);
            self.parsed.pages =
                pages.map(|(number, (start, end))| Page { number, span: Span { start, end } }).collect();
        }
        for (number, note) in (1..).zip(&self.notes) {
            self.parsed.push_block(&format!("[^{number}]: {note}"));
        }
        let first = self.parsed.headings.iter().find(|heading| heading.level == 1);
        self.parsed.title = first.map(|heading| clip_title(heading.title.clone()));
        self.parsed
    }
}

//! `load::docx_body`: the paragraphs and tables of a word-processor file,
//! streamed into Markdown with the places of its page breaks.

use super::docx_styles::{Notes, Styles};
use super::headings::clip_title;
use super::table::{CellPlace, TableBuilder};
use super::xml::{self, Node, Xml};
use super::{LoadError, ParseLimits, Parsed};
use crate::types::{Heading, Page, Span, Table};
use quick_xml::events::BytesStart;
use std::{borrow::Cow, collections::HashMap};

/// Reads the body of a document.
pub(super) struct Body<'d> {
    styles: &'d Styles,
    notes: &'d Notes,
    limits: &'d ParseLimits,
    text: String,
    last_was_item: bool,
    /// Paragraphs being read: a text box puts paragraphs inside a paragraph.
    paragraphs: Vec<Paragraph>,
    /// Tables being read.
    tables: Vec<OpenTable>,
    /// Tables that were read.
    done: Vec<Table>,
    breaks: Vec<usize>,
    /// Breaks inside a table, which take effect at its end.
    table_breaks: usize,
    /// Whether nothing was written since the last break. A page break that the
    /// author set is followed by the mark of the layout; both are one break.
    page_is_new: bool,
    headings: Vec<Heading>,
    /// Notes that were referred to, and their numbers.
    notes_used: HashMap<(&'static str, String), usize>,
    frames: Vec<DocxFrame>,
    skipped: usize,
}

/// A table being read, and the blocks and the place of its open cell.
#[derive(Default)]
struct OpenTable {
    table: TableBuilder,
    blocks: Vec<String>,
    place: CellPlace,
}

#[derive(Default)]
struct Paragraph {
    text: String,
    heading: Option<u8>,
    list: bool,
    list_level: usize,
    is_contents: bool,
    breaks: Vec<usize>,
}

impl Paragraph {
    /// An element inside it begins: a property with a `value`, or a special character.
    fn open<'e>(&mut self, name: &str, value: impl Fn() -> Option<Cow<'e, str>>, styles: &Styles) {
        match name {
            "pStyle" => {
                let style = value().unwrap_or_default();
                self.heading = styles.heading(&style);
                self.list = styles.is_list(&style);
                self.is_contents = styles.is_contents(&style);
            }
            "outlineLvl" => {
                let level = value().and_then(|level| level.parse::<u8>().ok()).filter(|level| *level < 9);
                self.heading = level.map(|level| (level + 1).min(6)).or(self.heading);
            }
            "ilvl" => self.list_level = value().and_then(|level| level.parse().ok()).unwrap_or(0).min(8),
            // Zero takes a paragraph out of its style's list.
            "numId" => self.list = value().is_some_and(|id| id != "0"),
            "tab" | "ptab" => self.text.push('\t'),
            "br" | "cr" => self.text.push('\n'),
            "noBreakHyphen" => self.text.push('-'),
            _ => {}
        }
    }
}

enum DocxFrame {
    Paragraph,
    Text,
    Table,
    Cell,
    Other,
}

impl DocxFrame {
    fn of(name: &str) -> Self {
        match name {
            "p" => Self::Paragraph,
            "t" => Self::Text,
            "tbl" => Self::Table,
            "tc" => Self::Cell,
            _ => Self::Other,
        }
    }
}

impl<'d> Body<'d> {
    pub(super) fn new(styles: &'d Styles, notes: &'d Notes, limits: &'d ParseLimits) -> Self {
        Self {
            styles,
            notes,
            limits,
            text: String::new(),
            last_was_item: false,
            paragraphs: Vec::new(),
            tables: Vec::new(),
            done: Vec::new(),
            breaks: Vec::new(),
            table_breaks: 0,
            page_is_new: true,
            headings: Vec::new(),
            notes_used: HashMap::new(),
            frames: Vec::new(),
            skipped: 0,
        }
    }

    pub(super) fn read(mut self, document: &str) -> Result<Parsed, LoadError> {
        let mut xml = Xml::new(document, self.limits);
        while let Some(node) = xml.next()? {
            match node {
                Node::Open(start) => self.open(&start),
                Node::Close => self.close(),
                Node::Text(text) => self.words(&text),
                Node::Entity(name) => return Err(LoadError::Broken(format!("the entity &{name}; is not expanded"))),
            }
            if self.breaks.len() + self.table_breaks >= self.limits.pages as usize {
                return Err(LoadError::OverLimit(format!("more than {} pages", self.limits.pages)));
            }
            let tables: usize = self.tables.iter().map(|open| open.table.size()).sum();
            self.limits.check_text(self.text.len().saturating_add(tables))?;
        }
        Ok(self.finish())
    }

    fn open(&mut self, start: &BytesStart<'_>) {
        let name = xml::local(start);
        // Deleted text, earlier formatting, tab stops, and the copy of a
        // drawing for old readers.
        if self.skipped > 0
            || matches!(name, "del" | "moveFrom" | "Fallback" | "pPrChange" | "rPrChange" | "tblPrChange" | "tabs")
        {
            self.skipped += 1;
            return;
        }
        let value = || xml::attribute(start, "val");
        match name {
            "p" => self.paragraphs.push(Paragraph::default()),
            "tbl" => self.tables.push(OpenTable::default()),
            "tr" => {
                if let Some(open) = self.tables.last_mut() {
                    open.table.row();
                }
            }
            "tc" | "tblHeader" | "gridSpan" | "vMerge" if !self.tables.is_empty() => {
                self.cell_property(name, value().as_deref());
            }
            "br" if xml::attribute(start, "type").as_deref() == Some("page") => self.page_break(),
            "lastRenderedPageBreak" => self.page_break(),
            "pageBreakBefore" if !matches!(value().as_deref(), Some("0" | "false" | "off")) => self.page_break(),
            "footnoteReference" => self.note("footnote", start),
            "endnoteReference" => self.note("endnote", start),
            _ => {}
        }
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.open(name, value, self.styles);
        }
        self.frames.push(DocxFrame::of(name));
    }

    fn words(&mut self, text: &str) {
        if self.skipped > 0 || !matches!(self.frames.last(), Some(DocxFrame::Text)) {
            return;
        }
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.text.extend(text.chars().map(|character| if character == '\u{a0}' { ' ' } else { character }));
            self.page_is_new &= text.trim().is_empty();
        }
    }

    fn close(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        match self.frames.pop() {
            Some(DocxFrame::Paragraph) => self.close_paragraph(),
            Some(DocxFrame::Cell) => {
                if let Some(open) = self.tables.last_mut() {
                    open.table.cell(std::mem::take(&mut open.blocks).join("\n\n"), open.place);
                }
            }
            Some(DocxFrame::Table) => self.close_table(),
            Some(DocxFrame::Text | DocxFrame::Other) | None => {}
        }
    }

    fn page_break(&mut self) {
        if std::mem::replace(&mut self.page_is_new, true) {
            return;
        }
        match self.paragraphs.last_mut() {
            _ if !self.tables.is_empty() => self.table_breaks += 1,
            Some(paragraph) => paragraph.breaks.push(paragraph.text.len()),
            None => self.breaks.push(self.text.len()),
        }
    }

    /// A cell begins, or a property of a cell or a row is told, with its `value`.
    fn cell_property(&mut self, name: &str, value: Option<&str>) {
        let Some(open) = self.tables.last_mut() else { return };
        match name {
            "tc" => open.place = CellPlace::default(),
            "tblHeader" if !matches!(value, Some("0" | "false" | "off")) => open.table.mark_header(),
            "gridSpan" => open.place.columns = value.and_then(|columns| columns.parse().ok()).unwrap_or(1),
            "vMerge" => open.place.continues = value != Some("restart"),
            _ => {}
        }
    }

    fn note(&mut self, kind: &'static str, start: &BytesStart<'_>) {
        let Some(id) = xml::attribute(start, "id") else { return };
        if let (Some(paragraph), Some(_)) = (self.paragraphs.last_mut(), self.notes.get(kind, &id)) {
            // A note may be referred to again and again; it is written once.
            let next = self.notes_used.len() + 1;
            let number = *self.notes_used.entry((kind, id.into_owned())).or_insert(next);
            paragraph.text.push_str(&format!("[^{number}]"));
        }
    }

    fn close_paragraph(&mut self) {
        let Some(paragraph) = self.paragraphs.pop() else { return };
        let content = paragraph.text.trim();
        let lead = paragraph.text.len() - paragraph.text.trim_start().len();
        if content.is_empty() || paragraph.is_contents {
            self.breaks.extend(paragraph.breaks.iter().map(|_| self.text.len()));
            return;
        }
        if let Some(open) = self.tables.last_mut() {
            open.blocks.push(content.to_owned());
            return;
        }
        let (prefix, content) = match paragraph.heading {
            Some(level) => ("#".repeat(level.into()) + " ", content.replace(['\n', '\t'], " ")),
            None if paragraph.list => ("  ".repeat(paragraph.list_level) + "- ", content.to_owned()),
            None => (String::new(), content.to_owned()),
        };
        let is_item = paragraph.heading.is_none() && paragraph.list;
        self.separate(is_item);
        let start = self.text.len();
        self.text.push_str(&prefix);
        self.text.push_str(&content);
        self.breaks.extend(paragraph.breaks.iter().map(|at| match at.saturating_sub(lead) {
            0 => start,
            at => start + prefix.len() + at.min(content.len()),
        }));
        if let Some(level) = paragraph.heading {
            self.headings.push(Heading { start, level: level.into(), title: clip_title(content) });
        }
    }

    fn close_table(&mut self) {
        let Some(open) = self.tables.pop() else { return };
        let built = open.table.finish();
        let text = built.text;
        if let Some(open) = self.tables.last_mut() {
            // A row cannot hold a table: its cells stay as words.
            open.blocks.push(text.lines().filter(|line| !line.starts_with("| ---")).collect::<Vec<_>>().join(" "));
            return;
        }
        if !text.trim().is_empty() {
            self.separate(false);
            let start = self.text.len();
            self.text.push_str(text.trim_end());
            let span = Span { start, end: self.text.len() };
            self.done.extend(built.table.map(|table| Table { span, ..table }));
        }
        let end = self.text.len();
        self.breaks.extend(std::iter::repeat_n(end, std::mem::take(&mut self.table_breaks)));
    }

    fn separate(&mut self, is_item: bool) {
        if !self.text.is_empty() {
            self.text.push_str(if is_item && self.last_was_item { "\n" } else { "\n\n" });
        }
        self.last_was_item = is_item;
    }

    fn finish(mut self) -> Parsed {
        let mut notes: Vec<_> = self.notes_used.iter().collect();
        notes.sort_by_key(|(_, number)| **number);
        for ((kind, id), number) in notes {
            let note = self.notes.get(kind, id).unwrap_or_default();
            self.text.push_str(&format!("\n\n[^{number}]: {note}"));
        }
        let pages = self.pages();
        let title = self.headings.iter().find(|heading| heading.level == 1).map(|heading| heading.title.clone());
        Parsed { title, text: self.text, pages, headings: self.headings, tables: self.done, ..Parsed::default() }
    }

    fn pages(&self) -> Vec<Page> {
        if self.breaks.is_empty() {
            return Vec::new();
        }
        let starts = std::iter::once(0).chain(self.breaks.iter().copied());
        let ends = self.breaks.iter().copied().chain(std::iter::once(self.text.len()));
        let mut pages = Vec::new();
        for (number, (start, end)) in (1u32..).zip(starts.zip(ends)) {
            // A table over several pages is one stretch: the pages in it have no text of their own.
            if start >= end {
                continue;
            }
            pages.push(Page { number, span: Span { start, end } });
        }
        pages
    }
}

//! `load::markup`: a writer that takes elements and text and produces Markdown.
//! HTML (from a tree) and XHTML (from a stream) share it, so that all formats
//! look alike.
//!
//! Headings, lists, tables, quotes and code blocks become Markdown. Marks
//! inside a line (bold, links, inline code) are dropped and nothing is
//! escaped: the text is searched, quoted and compared, and `dpkg\_deb` is not
//! what the page says.

use super::element::{self, ElementAttributes, MarkupOrigin};
use super::headings::clip_title;
use super::table::{CellPlace, TableBuilder};
use super::{LoadError, ParseLimits};
use crate::types::{Heading, Span, Table};
use std::borrow::Cow;
use std::collections::HashSet;

/// What was written.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    pub(super) text: String,
    /// The headings, with the levels of their elements.
    pub(super) headings: Vec<Heading>,
    /// Where elements with a wanted `id` begin.
    pub(super) anchors: Vec<(String, usize)>,
    /// Where printed pages begin, with what their marks say.
    pub(super) breaks: Vec<(usize, String)>,
    /// The tables, in order.
    pub(super) tables: Vec<Table>,
}

/// Writes Markdown while elements open and close. Each [`open`](Self::open)
/// needs its [`close`](Self::close).
pub(super) struct Writer<'w> {
    origin: MarkupOrigin,
    wanted: &'w HashSet<String>,
    limits: &'w ParseLimits,
    /// Whether the text is longer than allowed: writing stops, and `finish` fails.
    is_over: bool,
    /// Whether the open page mark has no label; its text is the label then.
    break_is_unnamed: bool,
    /// Headings in cells of the outermost table; their places are found when
    /// the table is written.
    cell_headings: Vec<Heading>,
    output: MarkupText,
    frames: Vec<ElementFrame>,
    /// How many of the open elements are inside one that is left out.
    skipped: usize,
    is_in_heading: bool,
    lists: Vec<ListState>,
    tables: Vec<TableBuilder>,
    /// The outputs that wait while table cells are written.
    waiting: Vec<MarkupText>,
    verbatim: Option<String>,
    done: Markdown,
}

/// Text being written, and the white space or marks that must precede its next word.
#[derive(Default)]
struct MarkupText {
    text: String,
    newlines: usize,
    /// Whether the next text stays close to what is before it.
    is_glued: bool,
    space: bool,
    /// What each line begins with: indents of lists and marks of quotes.
    prefix: String,
    /// The mark of a list item or heading, and the length of the prefix before it.
    mark: Option<(usize, String)>,
}

struct ListState {
    ordered: bool,
    items: u64,
}

/// What to do when an element closes.
enum ElementFrame {
    Inline,
    Block,
    Heading { start: usize, level: u32 },
    List,
    Item { prefix: usize },
    Quote { prefix: usize },
    Verbatim { language: String },
    Table,
    TableHead,
    Row,
    Cell(CellPlace),
}

impl<'w> Writer<'w> {
    /// A writer that notes where the `wanted` ids are.
    pub(super) fn new(origin: MarkupOrigin, wanted: &'w HashSet<String>, limits: &'w ParseLimits) -> Self {
        Self {
            origin,
            wanted,
            limits,
            is_over: false,
            break_is_unnamed: false,
            cell_headings: Vec::new(),
            output: MarkupText::default(),
            frames: Vec::new(),
            skipped: 0,
            is_in_heading: false,
            lists: Vec::new(),
            tables: Vec::new(),
            waiting: Vec::new(),
            verbatim: None,
            done: Markdown::default(),
        }
    }

    /// An element begins. `attribute` looks up its attributes.
    pub(super) fn open<'e>(&mut self, name: &str, attribute: impl Fn(&str) -> Option<Cow<'e, str>>) {
        if self.skipped > 0 || element::is_left_out(self.origin, name, &attribute) {
            self.skipped += 1;
            return;
        }
        self.check_size();
        self.note_anchor(name, &attribute);
        self.note_break(&attribute);
        let frame = self.frame(name, &attribute);
        self.frames.push(frame);
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.skipped > 0 || self.is_over {
            return;
        }
        if std::mem::take(&mut self.break_is_unnamed)
            && let Some((_, label)) = self.done.breaks.last_mut()
        {
            label.push_str(text.trim());
        }
        match &mut self.verbatim {
            Some(verbatim) => verbatim.push_str(text),
            // Between the cells of a table there is only white space.
            None if matches!(
                self.frames.last(),
                Some(ElementFrame::Table | ElementFrame::TableHead | ElementFrame::Row)
            ) && text.trim().is_empty() => {}
            None => self.output.words(text),
        }
    }

    /// The innermost element ends.
    pub(super) fn close(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        self.check_size();
        self.break_is_unnamed = false;
        match self.frames.pop() {
            None | Some(ElementFrame::Inline) => {}
            Some(ElementFrame::Block) => {
                self.output.is_glued = false;
                self.separate(2);
            }
            Some(ElementFrame::Heading { start, level }) => self.close_heading(start, level),
            Some(ElementFrame::List) => {
                self.lists.pop();
                self.separate(if self.lists.is_empty() { 2 } else { 1 });
            }
            Some(ElementFrame::Item { prefix }) => {
                self.output.mark = None;
                self.output.prefix.truncate(prefix);
                self.separate(1);
            }
            Some(ElementFrame::Quote { prefix }) => {
                self.output.prefix.truncate(prefix);
                self.separate(2);
            }
            Some(ElementFrame::Verbatim { language }) => self.close_verbatim(&language),
            Some(ElementFrame::Table) => self.close_table(),
            Some(ElementFrame::TableHead | ElementFrame::Row) => {}
            Some(ElementFrame::Cell(place)) => self.close_cell(place),
        }
    }

    /// The Markdown. Elements that are still open are closed.
    pub(super) fn finish(mut self) -> Result<Markdown, LoadError> {
        self.skipped = 0;
        while !self.frames.is_empty() {
            self.close();
        }
        self.check_size();
        if self.is_over {
            self.limits.check_text(usize::MAX)?;
        }
        self.done.text = self.output.text;
        self.done.text.truncate(self.done.text.trim_end().len());
        Ok(self.done)
    }

    /// Every line repeats the marks of the lists and quotes around it, and
    /// tables are padded, so a small file could become a very long text.
    fn check_size(&mut self) {
        let waiting: usize = self.waiting.iter().map(|output| output.text.len()).sum();
        let tables: usize = self.tables.iter().map(TableBuilder::size).sum();
        self.check(waiting.saturating_add(tables).saturating_add(self.output.text.len()));
    }

    fn check(&mut self, size: usize) {
        if size as u64 > self.limits.text_bytes && !self.is_over {
            self.is_over = true;
            self.tables.clear();
            self.waiting.clear();
            self.verbatim = None;
            self.output = MarkupText::default();
        }
    }

    fn note_break(&mut self, attribute: ElementAttributes<'_, '_>) {
        // In a tree the name has its prefix; in a stream it does not.
        let kind = attribute("epub:type").or_else(|| attribute("type"));
        let is_break = kind.is_some_and(|kind| kind.split_whitespace().any(|one| one == "pagebreak"))
            || attribute("role").is_some_and(|role| role.split_whitespace().any(|one| one == "doc-pagebreak"));
        if is_break {
            let position = self.waiting.first().unwrap_or(&self.output).text.len();
            let label = attribute("aria-label").or_else(|| attribute("title")).unwrap_or_default();
            self.break_is_unnamed = label.trim().is_empty();
            self.done.breaks.push((position, label.into_owned()));
        }
    }

    fn note_anchor(&mut self, name: &str, attribute: ElementAttributes<'_, '_>) {
        if self.wanted.is_empty() {
            return;
        }
        let id = attribute("id").or_else(|| if name == "a" { attribute("name") } else { None });
        if let Some(id) = id.filter(|id| self.wanted.contains(id.as_ref())) {
            let position = self.waiting.first().unwrap_or(&self.output).text.len();
            self.done.anchors.push((id.into_owned(), position));
        }
    }

    /// Writes what comes before an element's content, and returns what to do at its end.
    fn frame(&mut self, name: &str, attribute: ElementAttributes<'_, '_>) -> ElementFrame {
        if self.verbatim.is_some() {
            return self.open_in_verbatim(name, attribute);
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" if !self.is_in_heading => {
                self.open_heading(usize::from(name.as_bytes()[1] - b'0'))
            }
            "br" => {
                self.separate(1);
                ElementFrame::Inline
            }
            "img" => {
                if let Some(alternative) = attribute("alt") {
                    self.output.words(&alternative);
                }
                ElementFrame::Inline
            }
            "ul" | "ol" | "menu" | "dir" => self.open_list(name == "ol", attribute("start").as_deref()),
            "li" => self.open_item(),
            "blockquote" => {
                self.separate(2);
                let prefix = self.output.prefix.len();
                self.output.prefix.push_str("> ");
                ElementFrame::Quote { prefix }
            }
            "pre" | "listing" | "xmp" if !self.is_in_heading => {
                self.open_verbatim(element::language(attribute).unwrap_or_default())
            }
            "table" if !self.is_in_heading => self.open_table(),
            "tr" if !self.tables.is_empty() => {
                let in_head = matches!(self.frames.last(), Some(ElementFrame::TableHead));
                if let Some(table) = self.tables.last_mut() {
                    table.row();
                    if in_head {
                        table.mark_header();
                    }
                }
                ElementFrame::Row
            }
            "thead" if !self.tables.is_empty() => ElementFrame::TableHead,
            "td" | "th" if !self.tables.is_empty() => {
                self.waiting.push(std::mem::take(&mut self.output));
                let covered = |name| attribute(name).and_then(|covered| covered.trim().parse().ok());
                // No rows at all means all rows to the end of the table.
                let rows = covered("rowspan").map_or(1, |rows: u32| if rows == 0 { u32::MAX } else { rows });
                let columns = covered("colspan").unwrap_or(1);
                ElementFrame::Cell(CellPlace { rows, columns, is_header: name == "th", ..CellPlace::default() })
            }
            "dd" => {
                // A definition stays with its term, whatever block it begins with.
                self.output.newlines = 1;
                self.output.is_glued = true;
                ElementFrame::Block
            }
            "p" | "div" | "section" | "article" | "main" | "address" | "figure" | "figcaption" | "details"
            | "summary" | "fieldset" | "form" | "hgroup" | "dl" | "dt" | "header" | "footer" | "aside" | "nav"
            | "center" | "caption" | "legend" | "hr" | "body" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.separate(2);
                ElementFrame::Block
            }
            _ => ElementFrame::Inline,
        }
    }

    fn open_heading(&mut self, level: usize) -> ElementFrame {
        self.separate(2);
        self.note_block_in_cell();
        self.is_in_heading = true;
        self.output.set_mark(format!("{} ", "#".repeat(level)), 0);
        ElementFrame::Heading { start: self.output.text.len(), level: level as u32 }
    }

    fn open_verbatim(&mut self, language: String) -> ElementFrame {
        self.separate(if self.lists.is_empty() { 2 } else { 1 });
        self.note_block_in_cell();
        self.verbatim = Some(String::new());
        ElementFrame::Verbatim { language }
    }

    /// Inside code, only line breaks and the language of the code count.
    fn open_in_verbatim(&mut self, name: &str, attribute: ElementAttributes<'_, '_>) -> ElementFrame {
        match name {
            "br" => self.text("\n"),
            "code" => self.note_language(attribute),
            _ => {}
        }
        ElementFrame::Inline
    }

    fn open_table(&mut self) -> ElementFrame {
        self.separate(2);
        self.note_block_in_cell();
        self.tables.push(TableBuilder::default());
        ElementFrame::Table
    }

    /// A list, whose first item has the number `start` if it has numbers.
    fn open_list(&mut self, ordered: bool, start: Option<&str>) -> ElementFrame {
        self.separate(if self.lists.is_empty() { 2 } else { 1 });
        let first = start.and_then(|start| start.trim().parse::<u64>().ok());
        self.lists.push(ListState { ordered, items: first.map_or(0, |first| first.saturating_sub(1)) });
        ElementFrame::List
    }

    fn open_item(&mut self) -> ElementFrame {
        let first = self.lists.last().is_none_or(|list| list.items == 0);
        let mark = match self.lists.last_mut() {
            Some(list) => {
                list.items = list.items.saturating_add(1);
                if list.ordered { format!("{}. ", list.items) } else { "- ".to_owned() }
            }
            None => "- ".to_owned(),
        };
        self.separate(1);
        if !first {
            // Paragraphs inside items must not tear the list apart.
            self.output.newlines = 1;
        }
        let prefix = self.output.prefix.len();
        let indent = mark.len();
        self.output.set_mark(mark, indent);
        ElementFrame::Item { prefix }
    }

    /// The next text begins at least this many line ends later; inside a
    /// heading, which must stay on one line, after a space.
    fn separate(&mut self, newlines: usize) {
        if self.is_in_heading {
            self.output.space = true;
        } else if self.output.mark.is_none() && !self.output.is_glued {
            self.output.newlines = self.output.newlines.max(newlines);
        }
    }

    fn note_block_in_cell(&mut self) {
        if !self.waiting.is_empty() {
            self.tables.last_mut().map(TableBuilder::mark_blocks);
        }
    }

    fn note_language(&mut self, attribute: ElementAttributes<'_, '_>) {
        if let (Some(found), Some(ElementFrame::Verbatim { language })) =
            (element::language(attribute), self.frames.last_mut())
            && language.is_empty()
        {
            *language = found;
        }
    }

    fn close_heading(&mut self, start: usize, level: u32) {
        self.is_in_heading = false;
        self.output.mark = None;
        self.separate(2);
        let written = self.output.text.get(start..).unwrap_or_default();
        let begin = written.trim_start_matches('\n');
        let title = begin.trim_start_matches([' ', '>', '-', '#']).trim();
        if title.is_empty() {
            return;
        }
        let start = start + (written.len() - begin.len());
        let heading = Heading { start, level, title: clip_title(title.to_owned()) };
        let in_quote = self.output.prefix.contains('>');
        match self.waiting.is_empty() {
            // Headings in a quote belong to another text.
            true if in_quote => {}
            true => self.done.headings.push(heading),
            false => self.cell_headings.push(heading),
        }
    }

    fn close_verbatim(&mut self, language: &str) {
        let verbatim = self.verbatim.take().unwrap_or_default();
        let content = verbatim.strip_prefix('\n').unwrap_or(&verbatim).trim_end();
        if !content.trim().is_empty() {
            // A fence must be longer than any run of backticks inside.
            let longest = content.split(|character| character != '`').map(str::len).max().unwrap_or(0);
            let fence = "`".repeat(longest.max(2) + 1);
            self.output.line(&format!("{fence}{language}"));
            for line in content.lines() {
                self.output.line(line);
                if self.output.text.len() as u64 > self.limits.text_bytes {
                    return self.check_size();
                }
            }
            self.output.line(&fence);
        }
        self.separate(2);
    }

    fn close_cell(&mut self, place: CellPlace) {
        let cell = std::mem::replace(&mut self.output, self.waiting.pop().unwrap_or_default());
        if let Some(table) = self.tables.last_mut() {
            table.cell(cell.text, place);
        }
    }

    fn close_table(&mut self) {
        let table = self.tables.pop().unwrap_or_default();
        self.note_block_in_cell();
        self.separate(2);
        let start = self.output.text.len();
        let built = table.finish();
        let mut first = None;
        for line in built.text.lines() {
            self.output.line(line);
            first.get_or_insert_with(|| self.output.text.len() - line.len());
            if self.output.text.len() as u64 > self.limits.text_bytes {
                return self.check_size();
            }
        }
        if let (Some(table), Some(start), true) = (built.table, first, self.waiting.is_empty()) {
            self.done.tables.push(Table { span: Span { start, end: self.output.text.len() }, ..table });
        }
        self.separate(2);
        if self.waiting.is_empty() {
            self.find_cell_headings(start);
        }
    }

    /// Finds the headings of cells in the written table. Each is on a line of its
    /// own if the table only arranged the page.
    fn find_cell_headings(&mut self, start: usize) {
        let mut headings = std::mem::take(&mut self.cell_headings).into_iter().peekable();
        let mut at = start;
        for line in self.output.text[start..].split_inclusive('\n') {
            let Some(heading) = headings.peek() else { break };
            let title = line.trim_start_matches([' ', '#']).trim();
            if line.trim_start().starts_with('#') && clip_title(title.to_owned()) == heading.title {
                self.done.headings.extend(headings.next().map(|heading| Heading { start: at, ..heading }));
            }
            at += line.len();
        }
    }
}

impl MarkupText {
    /// Appends words, with runs of white space as one space.
    fn words(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            if end > 0 {
                self.word(&rest[..end]);
            }
            rest = &rest[end..];
            let word = rest.find(|character: char| !character.is_whitespace()).unwrap_or(rest.len());
            self.space |= word > 0;
            rest = &rest[word..];
        }
    }

    fn word(&mut self, word: &str) {
        // Marks where a word may be broken are no part of it.
        let invisible = |character: char| matches!(character, '\u{ad}' | '\u{200b}' | '\u{feff}' | '\0');
        if word.chars().all(invisible) {
            return;
        }
        self.begin();
        if word.is_ascii() && !word.contains('\0') {
            self.text.push_str(word);
        } else {
            self.text.extend(word.chars().filter(|character| !invisible(*character)));
        }
    }

    /// Appends a whole line as it is.
    fn line(&mut self, line: &str) {
        self.newlines = self.newlines.max(1);
        if line.is_empty() {
            // A pending blank line is written with the next text; this one is content.
            self.begin();
            self.text.truncate(self.text.trim_end_matches(' ').len());
        } else {
            self.begin();
            self.text.push_str(line);
        }
        self.newlines = 1;
    }

    /// Writes what is pending: line ends, the prefix, a mark, a space.
    fn begin(&mut self) {
        let at_start = self.text.is_empty();
        if at_start || self.newlines > 0 || self.mark.is_some() {
            if !at_start {
                let quote = self.prefix.trim_end();
                for blank in 0..self.newlines.max(1) {
                    self.text.push('\n');
                    if blank + 1 < self.newlines {
                        self.text.push_str(quote);
                    }
                }
            }
            match self.mark.take() {
                Some((prefix, mark)) => {
                    self.text.push_str(&self.prefix[..prefix.min(self.prefix.len())]);
                    self.text.push_str(&mark);
                }
                None => self.text.push_str(&self.prefix),
            }
        } else if self.space && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
        self.newlines = 0;
        self.is_glued = false;
        self.space = false;
    }

    /// Puts a mark before the next text, and indents what follows it. Marks
    /// that meet (a list that begins inside an item) stand side by side.
    fn set_mark(&mut self, mark: String, indent: usize) {
        match &mut self.mark {
            Some((_, waiting)) => waiting.push_str(&mark),
            None => self.mark = Some((self.prefix.len(), mark)),
        }
        self.prefix.extend(std::iter::repeat_n(' ', indent));
    }
}

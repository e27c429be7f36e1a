//! `load::rtf`: Rich Text Format: headings by style or level, paragraphs, lists, tables, footnotes at the end, and the
//! page breaks that the author set. Pictures, headers and footers, and hidden or deleted text are left out.
//!
//! Source: Microsoft's Rich Text Format Specification 1.9.1.

use super::format::{FileFormat, NO_TEXT, Signature};
use super::table::{CellPlace, TableBuilder};
use super::{LoadError, ParseLimits, Parsed};
use crate::types::{Page, Span};
use encoding_rs::{Encoding, WINDOWS_1252};
use std::collections::{BTreeMap, HashMap};

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["rtf"],
    signature: Signature::Bytes(|bytes, _| bytes.starts_with(b"{\\rtf")),
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let mut reader = Reader::default();
    for token in (RtfTokens { rest: bytes }) {
        reader.token(token);
        if reader.groups.len() > limits.nesting as usize {
            return Err(LoadError::OverLimit(format!("groups are nested more than {} deep", limits.nesting)));
        }
        if reader.breaks.len() >= limits.pages as usize {
            return Err(LoadError::OverLimit(format!("more than {} pages", limits.pages)));
        }
        limits.check_text(
            reader.parsed.text.len().saturating_add(reader.table.size()).saturating_add(reader.text.len()),
        )?;
    }
    Ok(reader.finish())
}

/// A part of the file.
#[derive(Debug, PartialEq, Eq)]
enum Token<'b> {
    Open,
    Close,
    /// A command with its number.
    Command(&'b str, Option<i32>),
    /// A command that is one character, such as `~`.
    Symbol(u8),
    /// A byte in the encoding of the font.
    Byte(u8),
    /// Letters of the file itself.
    Plain(&'b [u8]),
}

struct RtfTokens<'b> {
    rest: &'b [u8],
}

impl<'b> Iterator for RtfTokens<'b> {
    type Item = Token<'b>;

    fn next(&mut self) -> Option<Token<'b>> {
        // Line ends in the file mean nothing.
        while let [b'\r' | b'\n' | 0, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let (first, rest) = self.rest.split_first()?;
        match first {
            b'{' => {
                self.rest = rest;
                Some(Token::Open)
            }
            b'}' => {
                self.rest = rest;
                Some(Token::Close)
            }
            b'\\' => Some(self.command(rest)),
            _ => {
                let end = self.rest.iter().position(|byte| matches!(byte, b'{' | b'}' | b'\\' | b'\r' | b'\n' | 0));
                let (plain, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                self.rest = rest;
                Some(Token::Plain(plain))
            }
        }
    }
}

impl<'b> RtfTokens<'b> {
    /// The command behind a backslash.
    fn command(&mut self, rest: &'b [u8]) -> Token<'b> {
        let letters = rest.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(rest.len());
        if letters == 0 {
            let Some((symbol, behind)) = rest.split_first() else {
                self.rest = rest;
                return Token::Plain(b"");
            };
            self.rest = behind;
            if *symbol == b'\''
                && let Some((digits, behind)) = behind.split_at_checked(2)
                && let Some(byte) =
                    std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok())
            {
                self.rest = behind;
                return Token::Byte(byte);
            }
            return Token::Symbol(*symbol);
        }
        let (name, behind) = rest.split_at(letters);
        let sign = usize::from(behind.first() == Some(&b'-'));
        let digits = behind[sign..].iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
        let length = if digits > 0 { sign + digits } else { 0 };
        let number = std::str::from_utf8(&behind[..length]).ok().and_then(|number| number.parse().ok());
        let behind = &behind[length..];
        self.rest = behind.strip_prefix(b" ").unwrap_or(behind);
        let name = std::str::from_utf8(name).unwrap_or_default();
        if name == "bin" {
            let bytes = usize::try_from(number.unwrap_or(0)).unwrap_or(0).min(self.rest.len());
            self.rest = &self.rest[bytes..];
        }
        Token::Command(name, number)
    }
}

/// Where text goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Destination {
    #[default]
    Body,
    Nowhere,
    Fonts,
    Styles,
    Title,
    Author,
    Footnote,
    /// The mark of a list item.
    ListMark,
}

/// What holds in a group, and in the groups inside it.
#[derive(Debug, Clone, Default)]
struct GroupState {
    destination: Destination,
    encoding: Option<&'static Encoding>,
    /// How many characters stand behind one in Unicode, for readers that do not know it.
    fallbacks: usize,
    is_hidden: bool,
    is_deleted: bool,
}

/// What holds for a paragraph.
#[derive(Debug, Clone, Default)]
struct ParagraphProperties {
    heading: Option<u32>,
    is_item: bool,
    level: usize,
    in_table: bool,
}

/// What a row says of one of its cells.
#[derive(Debug, Clone, Copy, Default)]
struct CellDefinition {
    continues_left: bool,
    continues_above: bool,
}

#[derive(Default)]
struct Reader {
    parsed: Parsed,
    groups: Vec<GroupState>,
    group: GroupState,
    /// Whether the group has just begun with `\*`: an unknown destination is left out then.
    is_optional: bool,
    begins_group: bool,
    /// Bytes that are not decoded yet.
    bytes: Vec<u8>,
    /// How many of the next characters only repeat one that was read already, for old readers.
    skipped: usize,
    /// The first half of a character beyond U+FFFF.
    surrogate: Option<u16>,
    /// The text of the open paragraph.
    text: String,
    properties: ParagraphProperties,
    default_encoding: Option<&'static Encoding>,
    fonts: HashMap<i32, &'static Encoding>,
    font: i32,
    /// Heading levels of styles, by their numbers.
    styles: HashMap<i32, u32>,
    style: i32,
    style_name: String,
    table: TableBuilder,
    has_rows: bool,
    definitions: Vec<CellDefinition>,
    definition: CellDefinition,
    cells: Vec<String>,
    is_header_row: bool,
    last_was_item: bool,
    breaks: Vec<usize>,
    notes: Vec<String>,
    title: String,
    author: String,
}

impl Reader {
    fn token(&mut self, token: Token<'_>) {
        match token {
            Token::Byte(byte) => return self.byte(byte),
            Token::Plain(bytes) => {
                // Plain letters are ASCII; others are in the encoding of the font.
                bytes.iter().for_each(|byte| self.byte(*byte));
                return;
            }
            _ => self.flush(),
        }
        match token {
            Token::Open => {
                self.groups.push(self.group.clone());
                self.begins_group = true;
                self.is_optional = false;
                self.skipped = 0;
                return;
            }
            Token::Close => {
                self.end_group();
                self.skipped = 0;
            }
            Token::Symbol(b'*') => {
                self.is_optional = true;
                return;
            }
            Token::Symbol(symbol) => self.symbol(symbol),
            Token::Command(name, number) => self.command(name, number),
            Token::Byte(_) | Token::Plain(_) => {}
        }
        self.begins_group = false;
        self.is_optional = false;
    }

    fn end_group(&mut self) {
        if let Some(outer) = self.groups.pop() {
            if self.group.destination == Destination::Styles && outer.destination == Destination::Styles {
                self.end_style();
            }
            self.group = outer;
        }
    }

    fn end_style(&mut self) {
        let name = std::mem::take(&mut self.style_name).to_lowercase();
        let level =
            name.trim_end_matches([';', ' ']).strip_prefix("heading ").and_then(|level| level.trim().parse().ok());
        if let Some(level) = level {
            self.styles.insert(self.style, level);
        }
    }

    fn byte(&mut self, byte: u8) {
        self.begins_group = false;
        if self.skipped > 0 {
            self.skipped -= 1;
        } else if self.group.destination != Destination::Nowhere {
            self.bytes.push(byte);
        }
    }

    /// Decodes what waits.
    fn flush(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        let encoding = self.group.encoding.or(self.default_encoding).unwrap_or(WINDOWS_1252);
        let (text, _) = encoding.decode_without_bom_handling(&bytes);
        self.push(&text);
    }

    fn push(&mut self, text: &str) {
        if self.group.is_hidden || self.group.is_deleted {
            return;
        }
        match self.group.destination {
            Destination::Body => self.text.push_str(text),
            Destination::Styles => self.style_name.push_str(text),
            Destination::Title => self.title.push_str(text),
            Destination::Author => self.author.push_str(text),
            Destination::Footnote => self.notes.last_mut().into_iter().for_each(|note| note.push_str(text)),
            Destination::Nowhere | Destination::Fonts | Destination::ListMark => {}
        }
    }

    fn symbol(&mut self, symbol: u8) {
        match symbol {
            b'\\' | b'{' | b'}' => self.byte(symbol),
            b'~' => self.push(" "),
            b'_' => self.push("-"),
            // A line end behind a backslash ends a paragraph.
            b'\r' | b'\n' => self.end_paragraph(),
            _ => {}
        }
    }

    fn command(&mut self, name: &str, number: Option<i32>) {
        if self.begins_group && self.destination(name) {
            return;
        }
        if self.group.destination == Destination::Nowhere {
            return;
        }
        let is_on = number != Some(0);
        match name {
            "u" => self.unicode(number.unwrap_or(0)),
            "uc" => self.group.fallbacks = usize::try_from(number.unwrap_or(1)).unwrap_or(0).min(16),
            "ansicpg" => self.default_encoding = number.and_then(code_page),
            "mac" => self.default_encoding = Some(encoding_rs::MACINTOSH),
            "f" => self.font(number.unwrap_or(0)),
            "fcharset" => {
                if let Some(encoding) = number.and_then(character_set) {
                    self.fonts.insert(self.font, encoding);
                }
            }
            "v" => self.group.is_hidden = is_on,
            "deleted" => self.group.is_deleted = is_on,
            "plain" => (self.group.is_hidden, self.group.is_deleted, self.group.encoding) = (false, false, None),
            "s" => {
                self.style = number.unwrap_or(0);
                self.properties.heading = self.styles.get(&self.style).copied();
            }
            "outlinelevel" => {
                self.properties.heading =
                    number.and_then(|level| u32::try_from(level + 1).ok()).filter(|level| *level < 10);
            }
            "pard" => self.properties = ParagraphProperties::default(),
            "ls" => self.properties.is_item = is_on,
            "ilvl" => self.properties.level = usize::try_from(number.unwrap_or(0)).unwrap_or(0).min(8),
            "intbl" => self.properties.in_table = true,
            "tab" => self.push("\t"),
            "line" => self.push("\n"),
            "emdash" => self.push("—"),
            "endash" => self.push("–"),
            "emspace" | "enspace" | "qmspace" => self.push(" "),
            "lquote" => self.push("‘"),
            "rquote" => self.push("’"),
            "ldblquote" => self.push("“"),
            "rdblquote" => self.push("”"),
            "bullet" => self.push("•"),
            "chftn" if self.group.destination == Destination::Body => {}
            "par" | "sect" if self.group.destination == Destination::Footnote => self.push(" "),
            "par" | "sect" => self.end_paragraph(),
            "page" => {
                self.end_paragraph();
                if self.breaks.last() != Some(&self.parsed.text.len()) && !self.parsed.text.is_empty() {
                    self.breaks.push(self.parsed.text.len());
                }
            }
            _ => self.table_command(name),
        }
    }

    fn table_command(&mut self, name: &str) {
        match name {
            "trowd" => (self.definitions, self.is_header_row) = (Vec::new(), false),
            "trhdr" => self.is_header_row = true,
            "clmrg" => self.definition.continues_left = true,
            "clvmrg" => self.definition.continues_above = true,
            "cellx" => self.definitions.push(std::mem::take(&mut self.definition)),
            "cell" => {
                let text = std::mem::take(&mut self.text);
                self.cells.push(text);
            }
            "row" => self.end_row(),
            // A table in a cell: its cells stay as words.
            "nestcell" | "nestrow" => self.push(" "),
            _ => {}
        }
    }

    /// If a command at the beginning of a group says where its text goes, notes that. Returns whether it does.
    fn destination(&mut self, name: &str) -> bool {
        self.group.destination = match name {
            "fonttbl" => Destination::Fonts,
            "stylesheet" => Destination::Styles,
            "title" => Destination::Title,
            "author" => Destination::Author,
            "footnote" => {
                let number = self.notes.len() + 1;
                self.push(&format!("[^{number}]"));
                self.notes.push(String::new());
                Destination::Footnote
            }
            "listtext" | "pntext" => {
                self.properties.is_item = true;
                Destination::ListMark
            }
            // Text boxes, and the shown part of fields and of objects, are text.
            "shptxt" | "fldrslt" | "result" | "shpinst" => return false,
            "colortbl" | "info" | "pict" | "header" | "headerl" | "headerr" | "headerf" | "footer" | "footerl"
            | "footerr" | "footerf" | "fldinst" | "object" | "datafield" | "sp" | "nonshppict" | "listtable"
            | "listoverridetable" | "revtbl" | "themedata" | "comment" | "subject" | "keywords" | "operator"
            | "creatim" | "revtim" | "printim" | "doccomm" | "company" | "atnid" | "atnauthor" | "annotation"
            | "xe" | "tc" | "bkmkstart" | "bkmkend" | "ud" => {
                // What is stated of the file has destinations of its own inside.
                if name == "info" {
                    return true;
                }
                Destination::Nowhere
            }
            _ if self.is_optional => Destination::Nowhere,
            _ => return false,
        };
        true
    }

    fn font(&mut self, font: i32) {
        self.font = font;
        if self.group.destination != Destination::Fonts {
            self.group.encoding = self.fonts.get(&font).copied();
        }
    }

    fn unicode(&mut self, number: i32) {
        // Numbers above 32,767 are written as negative ones.
        let unit = if number < 0 { (number + 65_536) as u16 } else { number as u16 };
        let first = self.surrogate.take();
        match (first, unit) {
            (_, 0xD800..=0xDBFF) => self.surrogate = Some(unit),
            (Some(first), 0xDC00..=0xDFFF) => {
                let text = String::from_utf16_lossy(&[first, unit]);
                self.push(&text);
            }
            _ => {
                let character = u32::try_from(number).ok().filter(|number| *number > 0xFFFF).and_then(char::from_u32);
                let character = character.or_else(|| char::from_u32(unit.into())).unwrap_or('\u{fffd}');
                self.push(character.encode_utf8(&mut [0; 4]));
            }
        }
        self.skipped = self.group.fallbacks;
    }

    fn end_paragraph(&mut self) {
        if self.group.destination == Destination::Nowhere {
            return;
        }
        if self.properties.in_table {
            self.text.push(' ');
            return;
        }
        self.end_table();
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let ParagraphProperties { heading, is_item, level, .. } = self.properties;
        if let Some(level) = heading {
            self.parsed.push_heading(level, text);
            self.last_was_item = false;
            return;
        }
        match (is_item && self.last_was_item, self.parsed.text.is_empty()) {
            (_, true) => {}
            (true, false) => self.parsed.text.push('\n'),
            (false, false) => self.parsed.text.push_str("\n\n"),
        }
        if is_item {
            self.parsed.text.push_str(&"  ".repeat(level));
            self.parsed.text.push_str("- ");
        }
        self.parsed.text.push_str(text);
        self.last_was_item = is_item;
    }

    fn end_row(&mut self) {
        self.table.row();
        if self.is_header_row {
            self.table.mark_header();
        }
        let mut places: Vec<(String, CellPlace)> = Vec::new();
        let definitions = self.definitions.iter().copied().chain(std::iter::repeat(CellDefinition::default()));
        for (text, definition) in std::mem::take(&mut self.cells).into_iter().zip(definitions) {
            match places.last_mut().filter(|_| definition.continues_left) {
                Some((_, place)) => place.columns += 1,
                None => {
                    places.push((text, CellPlace { continues: definition.continues_above, ..CellPlace::default() }))
                }
            }
        }
        places.into_iter().for_each(|(text, place)| self.table.cell(text, place));
        self.has_rows = true;
        self.text.clear();
        self.properties.in_table = false;
    }

    fn end_table(&mut self) {
        if std::mem::take(&mut self.has_rows) {
            let built = std::mem::take(&mut self.table).finish();
            self.parsed.push_table(built);
            self.last_was_item = false;
        }
    }

    fn finish(mut self) -> Parsed {
        self.flush();
        self.properties.in_table = false;
        if !self.cells.is_empty() {
            // The file ends inside a row.
            self.end_row();
        }
        self.end_paragraph();
        if !self.breaks.is_empty() {
            let starts = std::iter::once(0).chain(self.breaks.iter().copied());
            let ends = self.breaks.iter().copied().chain([self.parsed.text.len()]);
            let pages = (1..).zip(starts.zip(ends)).filter(|(_, (start, end))| start < end);
            self.parsed.pages =
                pages.map(|(number, (start, end))| Page { number, span: Span { start, end } }).collect();
        }
        for (number, note) in (1..).zip(&self.notes) {
            self.parsed.push_block(&format!("[^{number}]: {}", note.trim()));
        }
        let first = self.parsed.headings.iter().find(|heading| heading.level == 1).map(|heading| heading.title.clone());
        let stated = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        self.parsed.title = stated(self.title).or(first);
        self.parsed.author = stated(self.author);
        self.parsed
    }
}

/// The encoding of a code page of Windows.
fn code_page(number: i32) -> Option<&'static Encoding> {
    let label = match number {
        932 => "shift_jis".to_owned(),
        936 => "gbk".to_owned(),
        949 => "euc-kr".to_owned(),
        950 => "big5".to_owned(),
        65001 => "utf-8".to_owned(),
        number => format!("windows-{number}"),
    };
    Encoding::for_label(label.as_bytes())
}

/// The encoding of a character set of fonts.
fn character_set(number: i32) -> Option<&'static Encoding> {
    let pages = BTreeMap::from([
        (0, 1252),
        (77, 10000),
        (128, 932),
        (129, 949),
        (134, 936),
        (136, 950),
        (161, 1253),
        (162, 1254),
        (163, 1258),
        (177, 1255),
        (178, 1256),
        (186, 1257),
        (204, 1251),
        (222, 874),
        (238, 1250),
    ]);
    pages
        .get(&number)
        .copied()
        .and_then(|page| if page == 10000 { Some(encoding_rs::MACINTOSH) } else { code_page(page) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::format::sample::Sample;
    use crate::types::MergedCells;

    const TEXT: &str = r"{\rtf1\ansi\ansicpg1252\uc1{\fonttbl{\f0 Times;}{\f1\fcharset204 Cyr;}}{\colortbl;\red0;}
{\stylesheet{\s0 Normal;}{\s3 heading 2;}}{\info{\title Of mills}{\author A. Writer}{\creatim\yr2024}}
{\header a header\par}\pard\s0\outlinelevel0 Mills\par
\pard A {\b mill} gr\u246 ?\'dfer\~than \{rye\}{\footnote\pard Or a quern.}\emdash\f1\'ff\f0 .\par
{\*\unknown hidden}{\v not shown}{\pict 00ff}{\field{\*\fldinst HYPERLINK x}{\fldrslt a link}}\par
\pard{\listtext\'b7\tab}\ls1 wheel\par\pard{\listtext\'b7\tab}\ls1\ilvl1 of oak\par
\pard\s3 Parts\par
\trowd\trhdr\cellx1\clmgf\cellx2\clmrg\cellx3\pard\intbl part\cell sizes\cell\cell\row
\trowd\clvmgf\cellx1\cellx2\cellx3\pard\intbl Rad\cell 1\cell 2\cell\row
\trowd\clvmrg\cellx1\cellx2\cellx3\pard\intbl\cell 3\cell 4\cell\row
\page\pard \u-10179?\u-8704? End.\par}";

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::plain("a.rtf", TEXT.as_bytes())
    }

    #[test]
    fn text_is_read_with_headings_lists_tables_and_notes() {
        let parsed = parse(TEXT.as_bytes(), &ParseLimits::default()).unwrap();
        let expected = "# Mills\n\nA mill größer than {rye}[^1]—я.\n\na link\n\n- wheel\n  - of oak\n\n## Parts\n\n\
                        | part | sizes | sizes |\n| --- | --- | --- |\n| Rad | 1 | 2 |\n| Rad | 3 | 4 |\n\n😀 End.\n\n[^1]: Or a quern.";
        assert_eq!(parsed.text, expected);
        assert_eq!((parsed.title.as_deref(), parsed.author.as_deref()), (Some("Of mills"), Some("A. Writer")));
        assert_eq!(parsed.pages.len(), 2);
        let merged = |row, column, rows, columns| MergedCells { row, column, rows, columns };
        assert_eq!(parsed.tables[0].merged, [merged(0, 1, 1, 2), merged(1, 0, 2, 1)]);
    }

    #[test]
    fn broken_files_end_somewhere() {
        for text in [
            "{\\rtf1",
            "{\\rtf1 a\\",
            "{\\rtf1 a\\'4",
            "{\\rtf1 a\\bin99 b}",
            "{\\rtf1}}}} a \\par",
            "{\\rtf1\\u-99999999999 x}",
        ] {
            let _ = parse(text.as_bytes(), &ParseLimits::default()).unwrap();
        }
        let deep = format!("{{\\rtf1{}", "{".repeat(100_000));
        assert!(matches!(parse(deep.as_bytes(), &ParseLimits::default()), Err(LoadError::OverLimit(_))));
    }
}

//! `load::pptx`: a presentation: each slide is a page with its title as a heading, the text of its shapes, its tables,
//! and the notes of the speaker. Dates, footers and numbers of slides are left out. Text in pictures, diagrams and
//! charts is not read.

use super::archive::Archive;
use super::format::{Entries, FileFormat, NO_TEXT, Signature};
use super::office_package::{main_part, relations, with_core_properties};
use super::table::{CellPlace, TableBuilder};
use super::xml::{self, Node, Xml};
use super::{LoadError, ParseLimits, Parsed};
use crate::types::{Page, ReadingProblem, ReadingProblemKind, Span};
use quick_xml::events::BytesStart;

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["pptx", "pptm", "ppsx", "potx"],
    signature: Signature::Archive(is_pptx),
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

fn is_pptx(entries: &Entries<'_>) -> bool {
    entries.has("ppt/presentation.xml")
}

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let mut archive = Archive::open(bytes, limits)?;
    let main = main_part(&mut archive, "ppt/presentation.xml", limits)?;
    let parts = relations(&mut archive, &main, limits)?;
    let order = slide_ids(&xml::decode(&archive.require(&main)?), limits)?;
    if order.len() > limits.pages as usize {
        return Err(LoadError::OverLimit(format!("{} slides, and at most {} are read", order.len(), limits.pages)));
    }
    let mut parsed = Parsed::default();
    for (number, id) in (1..).zip(&order) {
        let Some(part) = parts.iter().find(|part| part.id == *id) else { continue };
        let Some(bytes) = archive.read(&part.target)? else {
            let detail = "the file lacks this slide".to_owned();
            parsed.problems.push(ReadingProblem { kind: ReadingProblemKind::UnreadPart, page: Some(number), detail });
            continue;
        };
        let slide = Slide::read(&xml::decode(&bytes), limits)?;
        let mut notes = String::new();
        for found in relations(&mut archive, &part.target, limits)?.into_iter().filter(|it| it.kind == "notesSlide") {
            if let Some(bytes) = archive.read(&found.target)? {
                notes = Slide::read(&xml::decode(&bytes), limits)?.notes();
            }
        }
        push_slide(&mut parsed, number, slide, &notes);
        limits.check_text(parsed.text.len())?;
    }
    with_core_properties(parsed, &mut archive, limits)
}

/// The references to the slides, in their order.
fn slide_ids(presentation: &str, limits: &ParseLimits) -> Result<Vec<String>, LoadError> {
    let mut xml = Xml::new(presentation, limits);
    let mut ids = Vec::new();
    while let Some(node) = xml.next()? {
        if let Node::Open(start) = node
            && xml::local(&start) == "sldId"
        {
            ids.extend(xml::prefixed_attribute(&start, "id").map(|id| id.into_owned()));
        }
    }
    Ok(ids)
}

fn push_slide(parsed: &mut Parsed, number: u32, slide: Slide, notes: &str) {
    // The page begins behind the blank line.
    let start = if parsed.text.is_empty() { 0 } else { parsed.text.len() + 2 };
    let is_hidden = slide.is_hidden;
    for block in slide.blocks {
        match block {
            SlideBlock::Title(title) => parsed.push_heading(1, &title),
            SlideBlock::Text(text) => parsed.push_block(&text),
            SlideBlock::Table(table) => parsed.push_table(table.finish()),
        }
    }
    if !notes.is_empty() {
        parsed.push_block(&format!("Notes: {notes}"));
    }
    let end = parsed.text.len();
    parsed.pages.push(Page { number, span: Span { start: start.min(end), end } });
    if is_hidden {
        let detail = "the slide is hidden; it was read".to_owned();
        parsed.problems.push(ReadingProblem { kind: ReadingProblemKind::HiddenPart, page: Some(number), detail });
    }
}

/// What stands on a slide.
#[derive(Default)]
struct Slide {
    blocks: Vec<SlideBlock>,
    is_hidden: bool,
    shape: Shape,
    tables: Vec<SlideTable>,
    frames: Vec<SlideFrame>,
    skipped: usize,
}

enum SlideBlock {
    Title(String),
    Text(String),
    Table(TableBuilder),
}

/// The shape being read.
#[derive(Default)]
struct Shape {
    /// The kind of its place on the slide, such as `title` or `body`; none for a shape of its own.
    placeholder: Option<String>,
    paragraphs: Vec<SlideParagraph>,
}

#[derive(Default)]
struct SlideParagraph {
    text: String,
    level: usize,
}

#[derive(Default)]
struct SlideTable {
    table: TableBuilder,
    /// Whether the first row is a header.
    has_header: bool,
    rows: usize,
    cell: Vec<SlideParagraph>,
    place: CellPlace,
    /// Whether another cell covers the open one.
    is_covered: bool,
}

enum SlideFrame {
    Shape,
    Paragraph,
    Text,
    Table,
    Cell,
    Other,
}

impl Slide {
    fn read(slide: &str, limits: &ParseLimits) -> Result<Self, LoadError> {
        let mut read = Self::default();
        let mut xml = Xml::new(slide, limits);
        while let Some(node) = xml.next()? {
            match node {
                Node::Open(start) => read.open(&start),
                Node::Close => read.close(),
                Node::Text(text) if read.skipped == 0 && matches!(read.frames.last(), Some(SlideFrame::Text)) => {
                    read.words(&text);
                }
                Node::Text(_) => {}
                Node::Entity(name) => return Err(LoadError::Broken(format!("the entity &{name}; is not expanded"))),
            }
            limits.check_text(read.tables.iter().map(|open| open.table.size()).sum())?;
        }
        Ok(read)
    }

    fn paragraphs(&mut self) -> &mut Vec<SlideParagraph> {
        match self.tables.last_mut() {
            Some(table) => &mut table.cell,
            None => &mut self.shape.paragraphs,
        }
    }

    fn words(&mut self, text: &str) {
        if let Some(paragraph) = self.paragraphs().last_mut() {
            paragraph.text.extend(text.chars().map(|character| if character == '\u{b}' { '\n' } else { character }));
        }
    }

    fn open(&mut self, start: &BytesStart<'_>) {
        let name = xml::local(start);
        // The copy of a drawing for old readers.
        if self.skipped > 0 || name == "Fallback" {
            self.skipped += 1;
            return;
        }
        let get = |name| xml::attribute(start, name);
        let is_set = |name| get(name).is_some_and(|value| value == "1" || value == "true");
        let count = |name| get(name).and_then(|value| value.parse().ok()).unwrap_or(1);
        let frame = match name {
            "sld" => {
                self.is_hidden = get("show").is_some_and(|value| value == "0" || value == "false");
                SlideFrame::Other
            }
            "sp" => {
                self.shape = Shape::default();
                SlideFrame::Shape
            }
            "ph" => {
                self.shape.placeholder = Some(get("type").map_or_else(|| "body".to_owned(), |kind| kind.into_owned()));
                SlideFrame::Other
            }
            "p" => {
                self.paragraphs().push(SlideParagraph::default());
                SlideFrame::Paragraph
            }
            "pPr" => {
                let level = get("lvl").and_then(|level| level.parse::<usize>().ok()).unwrap_or(0).min(8);
                self.paragraphs().last_mut().into_iter().for_each(|paragraph| paragraph.level = level);
                SlideFrame::Other
            }
            "t" => SlideFrame::Text,
            "br" => {
                self.words("\n");
                SlideFrame::Other
            }
            "tab" => {
                self.words("\t");
                SlideFrame::Other
            }
            "tbl" => {
                self.tables.push(SlideTable::default());
                SlideFrame::Table
            }
            "tblPr" => {
                let has_header = is_set("firstRow");
                self.tables.last_mut().into_iter().for_each(|table| table.has_header = has_header);
                SlideFrame::Other
            }
            "tr" => {
                if let Some(open) = self.tables.last_mut() {
                    open.table.row();
                    open.rows += 1;
                    if open.has_header && open.rows == 1 {
                        open.table.mark_header();
                    }
                }
                SlideFrame::Other
            }
            "tc" => {
                let place = CellPlace { rows: count("rowSpan"), columns: count("gridSpan"), ..CellPlace::default() };
                let is_covered = is_set("hMerge") || is_set("vMerge");
                if let Some(open) = self.tables.last_mut() {
                    (open.place, open.is_covered) = (place, is_covered);
                }
                SlideFrame::Cell
            }
            _ => SlideFrame::Other,
        };
        self.frames.push(frame);
    }

    fn close(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        match self.frames.pop() {
            Some(SlideFrame::Shape) => self.close_shape(),
            Some(SlideFrame::Cell) => {
                if let Some(open) = self.tables.last_mut() {
                    let cell: Vec<String> =
                        std::mem::take(&mut open.cell).into_iter().map(|paragraph| paragraph.text).collect();
                    if !open.is_covered {
                        open.table.cell(cell.join(" "), open.place);
                    }
                }
            }
            Some(SlideFrame::Table) => self.blocks.extend(self.tables.pop().map(|open| SlideBlock::Table(open.table))),
            Some(SlideFrame::Paragraph | SlideFrame::Text | SlideFrame::Other) | None => {}
        }
    }

    fn close_shape(&mut self) {
        let Shape { placeholder, mut paragraphs } = std::mem::take(&mut self.shape);
        paragraphs.retain(|paragraph| !paragraph.text.trim().is_empty());
        if paragraphs.is_empty() {
            return;
        }
        let all = |separator: &str| {
            let texts: Vec<&str> = paragraphs.iter().map(|paragraph| paragraph.text.trim()).collect();
            texts.join(separator)
        };
        let block = match placeholder.as_deref() {
            Some("dt" | "ftr" | "hdr" | "sldNum" | "sldImg") => return,
            Some("title" | "ctrTitle") => SlideBlock::Title(all(" ")),
            // The points of a slide are a list.
            Some(_) if paragraphs.len() > 1 => {
                let item =
                    |paragraph: &SlideParagraph| format!("{}- {}", "  ".repeat(paragraph.level), paragraph.text.trim());
                SlideBlock::Text(paragraphs.iter().map(item).collect::<Vec<_>>().join("\n"))
            }
            _ => SlideBlock::Text(all("\n")),
        };
        // The title comes first, wherever the file has it.
        match block {
            SlideBlock::Title(_) => self.blocks.insert(0, block),
            block => self.blocks.push(block),
        }
    }

    /// The text of a page of notes.
    fn notes(self) -> String {
        let text = |block| match block {
            SlideBlock::Text(text) => Some(text),
            _ => None,
        };
        self.blocks.into_iter().filter_map(text).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::format::sample::Sample;

    const SLIDE: &str = "<p:sld><p:cSld><p:spTree>
        <p:sp><p:nvSpPr><p:nvPr><p:ph idx='1'/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>wheel</a:t></a:r></a:p>
          <a:p><a:pPr lvl='1'/><a:r><a:t>of </a:t></a:r><a:r><a:t>oak</a:t></a:r></a:p></p:txBody></p:sp>
        <p:sp><p:nvSpPr><p:nvPr><p:ph type='title'/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>Parts &amp; Größen</a:t></a:r></a:p></p:txBody></p:sp>
        <p:sp><p:nvSpPr><p:nvPr><p:ph type='sldNum'/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:fld><a:t>1</a:t></a:fld></a:p></p:txBody></p:sp>
        <p:graphicFrame><a:graphic><a:tbl><a:tblPr firstRow='1'/>
          <a:tr><a:tc gridSpan='2'><a:txBody><a:p><a:r><a:t>size</a:t></a:r></a:p></a:txBody></a:tc><a:tc hMerge='1'><a:txBody><a:p/></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>kg</a:t></a:r></a:p></a:txBody></a:tc></a:tr>
          <a:tr><a:tc><a:txBody><a:p><a:r><a:t>1</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>2</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>3</a:t></a:r></a:p></a:txBody></a:tc></a:tr>
        </a:tbl></a:graphic></p:graphicFrame></p:spTree></p:cSld></p:sld>";
    const PRESENTATION: &[(&str, &str)] = &[
        ("[Content_Types].xml", "<Types/>"),
        (
            "ppt/presentation.xml",
            "<p:presentation><p:sldIdLst><p:sldId id='257' r:id='b'/><p:sldId id='256' r:id='a'/></p:sldIdLst></p:presentation>",
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            "<Relationships><Relationship Id='a' Type='t/slide' Target='slides/slide1.xml'/>
             <Relationship Id='b' Type='t/slide' Target='slides/slide2.xml'/></Relationships>",
        ),
        ("ppt/slides/slide1.xml", SLIDE),
        (
            "ppt/slides/_rels/slide1.xml.rels",
            "<Relationships><Relationship Id='n' Type='t/notesSlide' Target='../notesSlides/n1.xml'/></Relationships>",
        ),
        (
            "ppt/notesSlides/n1.xml",
            "<p:notes><p:sp><p:nvSpPr><p:nvPr><p:ph type='sldImg'/></p:nvPr></p:nvSpPr></p:sp><p:sp><p:nvSpPr><p:nvPr><p:ph type='body'/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>Say it slowly.</a:t></a:r></a:p></p:txBody></p:sp></p:notes>",
        ),
        (
            "ppt/slides/slide2.xml",
            "<p:sld show='0'><p:sp><p:txBody><a:p><a:r><a:t>A box.</a:t></a:r></a:p></p:txBody></p:sp></p:sld>",
        ),
    ];

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::archive("a.pptx", PRESENTATION)
    }

    #[test]
    fn slides_are_pages_in_the_order_of_the_presentation() {
        let parsed = parse(&sample().bytes, &ParseLimits::default()).unwrap();
        let expected = "A box.\n\n# Parts & Größen\n\n- wheel\n  - of oak\n\n| size | size | kg |\n| --- | --- | --- |\n\
                        | 1 | 2 | 3 |\n\nNotes: Say it slowly.";
        assert_eq!(parsed.text, expected);
        let pages: Vec<(u32, &str)> =
            parsed.pages.iter().map(|page| (page.number, &parsed.text[page.span.start..page.span.end])).collect();
        assert_eq!((pages.len(), pages[0]), (2, (1, "A box.")));
        assert!(pages[1].1.starts_with("# Parts") && pages[1].1.ends_with("slowly."));
        assert_eq!(parsed.problems.len(), 1);
        assert_eq!((parsed.problems[0].kind, parsed.problems[0].page), (ReadingProblemKind::HiddenPart, Some(1)));
        assert_eq!(parsed.tables[0].cells(&parsed.text)[0], ["size", "size", "kg"]);
    }
}

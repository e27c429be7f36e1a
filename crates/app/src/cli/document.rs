//! `reverie document`: the text of a document as it is parsed.

use crate::{
    command::{CommandContext, ExperimentFile},
    environment,
    failure::CommandFailure,
    render,
};
use lab::Session;
use rag::{
    Document, ReadingProblem, Span, Table,
    load::{PageBox, ReadLine},
};
use std::path::PathBuf;

/// Print a document's text as it is parsed: what chunks are made of.
///
/// The evidence of golden questions is quoted from this text. Where the format
/// has pages, a line `── page 3 ──` stands before each; it is no part of the
/// text. What was read badly is listed on standard error.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie document manuals/install.pdf
  reverie document manuals/install.pdf --page 12
  reverie document manuals/install.pdf --page 12 --image page.png        # the page, with its tables marked, and lines that `ocr` is not sure of
  reverie document manuals/install.pdf --page 12 --image page.png --mark \"the words\"
  reverie document manuals/install.pdf --page 12 --compare 2             # beside the second parser of the experiment
  reverie document prices.xlsx --json | jq .tables              # where its tables are
  reverie document manuals/install.pdf --json | jq -r .text     # the text alone")]
pub struct DocumentArguments {
    /// The file below the corpus' root, as passages name it.
    path: String,
    /// Print this page alone, without a line before it.
    #[arg(long, value_name = "NUMBER")]
    page: Option<u32>,
    /// Read it with this parser of the experiment's axis `parse`, by its place in the list.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    parser: usize,
    /// Print what another parser of the experiment reads beside it, and the words that only one of them reads.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["image", "mark"])]
    compare: Option<usize>,
    /// Draw the page into a PNG file (PDFs and pictures), with its tables marked, and the lines of a scan that are unsure.
    #[arg(long, value_name = "FILE", requires = "page")]
    image: Option<PathBuf>,
    /// Mark this text on the page instead of the tables. It may be given several times.
    #[arg(long, value_name = "TEXT", requires = "page")]
    mark: Vec<String>,
    #[command(flatten)]
    file: ExperimentFile,
}

pub async fn run(cx: &CommandContext, arguments: DocumentArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_maybe_read_only(environment::read(&arguments.file.experiment)?, cx.setup())?;
    let document = lab::document(&session, &arguments.path, arguments.parser).await?;
    if let Some(other) = arguments.compare {
        return compare(cx, &session, &arguments, document, other).await;
    }
    let Some(number) = arguments.page else {
        tell_problems(cx, &document.problems);
        return cx.finish(&document, render::document);
    };
    let mut page = DocumentPage::of(document, number).map_err(CommandFailure::usage)?;
    tell_problems(cx, &page.problems);
    if arguments.image.is_some() || !arguments.mark.is_empty() || cx.json {
        page.draw(cx, &session, &arguments).await?;
    }
    cx.finish(&page, |page| page.text.clone())
}

/// One page of a document.
#[derive(serde::Serialize)]
struct DocumentPage {
    page: u32,
    text: String,
    /// Their places are those in the whole document.
    tables: Vec<Table>,
    /// Where each table is on the page; empty for files that are neither PDFs nor pictures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    table_boxes: Vec<Vec<PageBox>>,
    /// Where each text of `--mark` is on the page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mark_boxes: Vec<Vec<PageBox>>,
    /// The lines that `ocr` reads on a page without letters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<ReadLine>,
    problems: Vec<ReadingProblem>,
    /// The text of each table.
    #[serde(skip)]
    table_texts: Vec<String>,
}

impl DocumentPage {
    /// A page of a document, or why there is none.
    fn of(mut document: Document, number: u32) -> Result<Self, String> {
        let Some(text) = render::page(&document, number) else {
            let known = match (document.pages.first(), document.pages.last()) {
                (Some(first), Some(last)) => format!("its pages are {} to {}", first.number, last.number),
                _ => "its format has no pages".to_owned(),
            };
            return Err(format!("{} has no page {number}: {known}", document.path));
        };
        document.problems.retain(|problem| problem.page.is_none_or(|page| page == number));
        // A table may go on from the page before.
        let span = document.pages.iter().find(|page| page.number == number).map_or(Span::default(), |page| page.span);
        document.tables.retain(|table| table.span.start < span.end && span.start < table.span.end);
        let on_page = |table: &Table| table.span.start.max(span.start)..table.span.end.min(span.end);
        let table_text = |table: &Table| document.text.get(on_page(table)).unwrap_or_default().to_owned();
        let table_texts = document.tables.iter().map(table_text).collect();
        let (tables, problems) = (document.tables, document.problems);
        let (table_boxes, mark_boxes, lines) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { page: number, text, tables, table_boxes, mark_boxes, lines, problems, table_texts })
    }

    /// Finds the places of the tables and marks on the page, and draws it if that was asked for.
    async fn draw(
        &mut self,
        cx: &CommandContext,
        session: &Session,
        arguments: &DocumentArguments,
    ) -> Result<(), CommandFailure> {
        let texts: Vec<String> = self.table_texts.iter().chain(&arguments.mark).cloned().collect();
        let asked = arguments.image.is_some() || !arguments.mark.is_empty();
        let view = match lab::page_view(session, &arguments.path, self.page, texts, lab::VIEW_DOTS).await {
            Ok(view) => view,
            Err(error) if asked => return Err(error.into()),
            Err(error) => {
                if !self.tables.is_empty() {
                    let reason = lab::error_chain(&error);
                    cx.note(format!("note: where its tables are on the page is not known: {reason}"));
                }
                return Ok(());
            }
        };
        let Some(mut view) = view else {
            let reason = format!("{}: only pages of PDFs and pictures can be drawn", arguments.path);
            return if asked { Err(CommandFailure::usage(reason)) } else { Ok(()) };
        };
        let tables = self.tables.len();
        for (text, boxes) in arguments.mark.iter().zip(&view.boxes[tables..]) {
            if boxes.is_empty() {
                cx.note(format!("note: page {}: “{text}” is not on it", self.page));
            }
        }
        (self.table_boxes, self.mark_boxes) = (view.boxes[..tables].to_vec(), view.boxes[tables..].to_vec());
        if let Some(file) = &arguments.image {
            if !arguments.mark.is_empty() {
                view.boxes.drain(..tables);
            }
            // With --mark, only what was asked for is marked.
            let shows_unsure = arguments.mark.is_empty();
            let picture = if shows_unsure { view.marked_with_unsure_lines() } else { view.marked() };
            let picture = picture.to_png().map_err(CommandFailure::runtime)?;
            std::fs::write(file, picture)
                .map_err(|error| CommandFailure::usage(format!("{} cannot be written: {error}", file.display())))?;
            let unsure = match view.unsure_lines().filter(|_| shows_unsure).count() {
                0 => String::new(),
                1 => ", and a line that is unsure in red".to_owned(),
                count => format!(", and {count} lines that are unsure in red"),
            };
            let marked = marked(&arguments.mark, tables);
            cx.note(format!("{}: page {} with {marked}{unsure}", file.display(), self.page));
        }
        self.lines = view.lines;
        Ok(())
    }
}

/// What is marked on a picture, in words.
fn marked(marks: &[String], tables: usize) -> String {
    match (marks.len(), tables) {
        (0, 0) => "nothing marked: it has no table, and no --mark was given".to_owned(),
        (0, 1) => "its table marked".to_owned(),
        (0, count) => format!("its {count} tables marked"),
        (1, _) => "the text marked".to_owned(),
        (count, _) => format!("{count} texts marked"),
    }
}

/// What two parsers read of a document, or of one page.
#[derive(serde::Serialize)]
struct ComparedParsers {
    first: ParsedText,
    second: ParsedText,
    /// The words that one parser reads more often than the other, and how much more often.
    only_first: render::WordSurplus,
    only_second: render::WordSurplus,
}

/// What one parser reads.
#[derive(serde::Serialize)]
struct ParsedText {
    parser: String,
    text: String,
    /// How many tables it found.
    tables: usize,
    problems: Vec<ReadingProblem>,
}

async fn compare(
    cx: &CommandContext,
    session: &Session,
    arguments: &DocumentArguments,
    document: Document,
    other: usize,
) -> Result<u8, CommandFailure> {
    let second = lab::document(session, &arguments.path, other).await?;
    let of = |document: Document, parser: usize| -> Result<ParsedText, CommandFailure> {
        let parser = format!("{parser} {}", lab::parser_name(session, parser));
        let Some(number) = arguments.page else {
            let (text, tables) = (render::document(&document), document.tables.len());
            return Ok(ParsedText { parser, text, tables, problems: document.problems });
        };
        let page = DocumentPage::of(document, number).map_err(CommandFailure::usage)?;
        Ok(ParsedText { parser, text: page.text, tables: page.tables.len(), problems: page.problems })
    };
    let (first, second) = (of(document, arguments.parser)?, of(second, other)?);
    let (only_first, only_second) = render::different_words(&first.text, &second.text);
    let compared = ComparedParsers { first, second, only_first, only_second };
    cx.finish(&compared, |ComparedParsers { first, second, only_first, only_second }| {
        let sides = [first, second].map(|side| (side.parser.clone(), side.text.as_str()));
        let problems = [first, second].map(|side| render::problems(&side.problems));
        render::side_by_side(sides, problems, [only_first, only_second], render::TableLayout::of_terminal().width)
    })
}

fn tell_problems(cx: &CommandContext, problems: &[ReadingProblem]) {
    render::problems(problems).lines().for_each(|line| cx.note(line));
}

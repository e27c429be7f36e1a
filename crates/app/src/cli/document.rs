//! `reverie document`: the text of a document as it is parsed.

use crate::{
    command::{CommandContext, ExperimentFile},
    environment,
    failure::CommandFailure,
    render,
};
use rag::{ReadingProblem, Table};

/// Print a document's text as it is parsed: what chunks are made of.
///
/// The evidence of golden questions is quoted from this text. Where the format
/// has pages, a line `── page 3 ──` stands before each; it is no part of the
/// text. What was read badly is listed on standard error.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie document manuals/install.pdf
  reverie document manuals/install.pdf --page 12
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
    #[command(flatten)]
    file: ExperimentFile,
}

pub async fn run(cx: &CommandContext, arguments: DocumentArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_maybe_read_only(environment::read(&arguments.file.experiment)?, cx.setup())?;
    let mut document = lab::document(&session, &arguments.path, arguments.parser).await?;
    let Some(number) = arguments.page else {
        tell_problems(cx, &document.problems);
        return cx.finish(&document, render::document);
    };
    let Some(text) = render::page(&document, number) else {
        let known = match (document.pages.first(), document.pages.last()) {
            (Some(first), Some(last)) => format!("its pages are {} to {}", first.number, last.number),
            _ => "its format has no pages".to_owned(),
        };
        return Err(CommandFailure::usage(format!("{} has no page {number}: {known}", arguments.path)));
    };
    document.problems.retain(|problem| problem.page.is_none_or(|page| page == number));
    document.tables.retain(|table| table.page == Some(number));
    tell_problems(cx, &document.problems);
    let page = DocumentPage { page: number, text, tables: document.tables, problems: document.problems };
    cx.finish(&page, |page| page.text.clone())
}

/// One page of a document.
#[derive(serde::Serialize)]
struct DocumentPage {
    page: u32,
    text: String,
    /// Their places are those in the whole document.
    tables: Vec<Table>,
    problems: Vec<ReadingProblem>,
}

fn tell_problems(cx: &CommandContext, problems: &[ReadingProblem]) {
    render::problems(problems).lines().for_each(|line| cx.note(line));
}

//! Writes the report of a run: into the run's folder, or to another path.

use crate::render::{self, EvidencePage, ReportForm};
use base64::{Engine, engine::general_purpose::STANDARD};
use lab::{CorpusPages, DocumentPages, Error, Results, Session, layout, layout::RunFileName};
use rag::load::find_letters;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Writes the report into the run's folder.
///
/// # Errors
/// If it cannot be written.
pub async fn write_report(session: &Session, results: &Results) -> Result<PathBuf, Error> {
    let (pages, form) = (evidence_pages(session, results).await, ReportForm::Fitting(layout::report_parts()));
    let report = render::report_with_pages(results, &pages, form).map_err(|error| Error::Table(error.to_string()))?;
    session.workspace().write_report(&results.run, report.page, report.parts).await?;
    Ok(report_path(session, &results.run))
}

/// The most pages of documents that are in a report as pictures.
const MOST_PAGES: usize = 40;
/// How finely they are drawn, in dots per inch.
const PAGE_DOTS: u32 = 80;

/// The pages on which the first pieces of evidence stand. A document that is not there any more, or whose pages nobody
/// draws, has none.
async fn evidence_pages(session: &Session, results: &Results) -> Vec<EvidencePage> {
    let mut pages: Vec<EvidencePage> = Vec::new();
    let Some(corpus) = CorpusPages::of(session) else { return pages };
    let (mut tried, mut open) = (BTreeSet::new(), None);
    for question in &results.questions {
        for evidence in question.evidence.iter().filter(|evidence| lab::has_drawn_pages(&evidence.document)) {
            let (path, quote) = (evidence.document.as_str(), evidence.quote.as_str());
            if tried.len() == MOST_PAGES {
                return pages;
            }
            if quote.is_empty() || !tried.insert((path, quote)) {
                continue;
            }
            // The next piece of evidence is often in the same document, so that stays open.
            let document = match open.take().filter(|(of, _)| *of == path) {
                Some((_, document)) => document,
                None => corpus.open(path).await.ok().flatten(),
            };
            if let Some(document) = &document {
                pages.extend(evidence_page(document, results, &question.id, (path, quote)).await);
            }
            open = Some((path, document));
        }
    }
    pages
}

/// The page of a piece of evidence: that of a passage that holds it, or else where the text of the document has it.
async fn evidence_page(
    document: &DocumentPages,
    results: &Results,
    question: &str,
    (path, quote): (&str, &str),
) -> Option<EvidencePage> {
    let rows = results.trials.iter().filter_map(|trial| trial.questions.iter().find(|row| row.question == question));
    let passages = rows.flat_map(|row| &row.passages).filter(|passage| passage.document == path);
    let holder =
        passages.filter(|passage| passage.page.is_some()).find(|passage| find_letters(&passage.text, quote).is_some());
    let first = match holder.and_then(|passage| passage.page) {
        Some(page) => page,
        None => document.page_of_quote(quote).await?,
    };
    // A passage may begin on the page before.
    let mut drawn = None;
    for page in [first, first + 1] {
        let Ok(Some(view)) = document.view(page, vec![quote.to_owned()], PAGE_DOTS).await else { break };
        let is_marked = view.boxes.iter().any(|boxes| !boxes.is_empty());
        if is_marked || drawn.is_none() {
            drawn = Some((view, is_marked));
        }
        if is_marked {
            break;
        }
    }
    let (view, is_marked) = drawn?;
    let picture = STANDARD.encode(view.marked().to_png().ok()?);
    Some(EvidencePage { document: path.to_owned(), quote: quote.to_owned(), page: view.page, is_marked, picture })
}

/// Writes the report as a page of this name. If `one_file` is true, the page contains
/// everything; if false, the parts that are loaded on demand go into a folder
/// next to the page (`report-parts` for `report.html`); if `None`, the page is one
/// file if it has at most 20 MB. Files of an earlier report in the folder are
/// removed.
///
/// # Errors
/// If it cannot be written.
pub fn save_report(results: &Results, page: &Path, one_file: Option<bool>) -> Result<(), Error> {
    let stem = page.file_stem().map_or_else(|| "report".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let name = format!("{stem}-parts");
    let folder = page.with_file_name(&name);
    let form = match one_file {
        None => ReportForm::Fitting(&name),
        Some(true) => ReportForm::OneFile,
        Some(false) => ReportForm::Folder(&name),
    };
    let report = render_report(results, form)?;
    let failed = |operation: &'static str, path: &Path| {
        let path = path.display().to_string();
        move |source| Error::File { operation, path, source }
    };
    for old in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let is_part = old.path().extension().is_some_and(|ending| ending == "js");
        if is_part && !report.parts.iter().any(|(name, _)| old.file_name() == name.as_str()) {
            std::fs::remove_file(old.path()).map_err(failed("remove", &old.path()))?;
        }
    }
    if report.parts.is_empty() {
        // A folder that holds something else, or is not there, stays as it is.
        let _ = std::fs::remove_dir(&folder);
    } else {
        std::fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
    }
    for (name, text) in &report.parts {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(failed("write", &path))?;
    }
    std::fs::write(page, &report.page).map_err(failed("write", page))
}

fn render_report(results: &Results, form: ReportForm<'_>) -> Result<render::ReportFiles, Error> {
    render::report(results, form).map_err(|error| Error::Table(error.to_string()))
}

/// The path of a run's report.
pub fn report_path(session: &Session, run: &str) -> PathBuf {
    let path = RunFileName::Report.within(&session.workspace().run_folder(run));
    path.canonicalize().unwrap_or(path)
}

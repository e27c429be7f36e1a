//! Writes the report of a run: into the run's folder, or to another path.

use crate::render::{self, EvidencePage, ReportForm};
use base64::{Engine, engine::general_purpose::STANDARD};
use lab::{CorpusPages, Error, Results, Session, layout, layout::RunFileName};
use rag::Document;
use std::{
    collections::HashMap,
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

/// The pages on which the evidence of the first questions stands. A document that is not there any more, or whose pages
/// nobody draws, has none.
async fn evidence_pages(session: &Session, results: &Results) -> Vec<EvidencePage> {
    let mut pages: Vec<EvidencePage> = Vec::new();
    let Some(corpus) = CorpusPages::of(session) else { return pages };
    let mut documents: HashMap<&str, Vec<Document>> = HashMap::new();
    for evidence in results.questions.iter().flat_map(|question| &question.evidence) {
        let (path, quote) = (evidence.document.as_str(), evidence.quote.as_str());
        let is_known = pages.iter().any(|page| page.document == path && page.quote == quote);
        if is_known || quote.is_empty() || !lab::has_drawn_pages(path) {
            continue;
        }
        if pages.len() == MOST_PAGES {
            break;
        }
        if !documents.contains_key(path) {
            let read = match corpus.read(path).await {
                Ok(Some(bytes)) => lab::parse_by_each(session, path, bytes).await.unwrap_or_default(),
                _ => Vec::new(),
            };
            documents.insert(path, read);
        }
        let page = documents.get(path).into_iter().flatten().find_map(|document| document.page_of_quote(quote));
        let Some(page) = page else { continue };
        let Ok(Some(view)) = corpus.view(path, page, vec![quote.to_owned()], PAGE_DOTS).await else { continue };
        let is_marked = view.boxes.iter().any(|boxes| !boxes.is_empty());
        let Ok(picture) = view.marked().to_png() else { continue };
        let picture = STANDARD.encode(picture);
        pages.push(EvidencePage { document: path.to_owned(), quote: quote.to_owned(), page, is_marked, picture });
    }
    pages
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

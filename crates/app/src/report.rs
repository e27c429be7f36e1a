//! Writes the report of a run: into the run's folder, or to another path.

use crate::render::{self, ReportForm};
use lab::{Error, Results, Session, layout, layout::RunFileName};
use std::path::{Path, PathBuf};

/// Writes the report into the run's folder.
///
/// # Errors
/// If it cannot be written.
pub async fn write_report(session: &Session, results: &Results) -> Result<PathBuf, Error> {
    let report = render_report(results, ReportForm::Fitting(layout::report_parts()))?;
    session.workspace().write_report(&results.run, report.page, report.parts).await?;
    Ok(report_path(session, &results.run))
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

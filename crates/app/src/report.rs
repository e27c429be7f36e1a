//! The report of a run, as files: in the run's folder, or where a program wants it.

use crate::render::{self, Form};
use lab::{Error, Results, Session, layout, layout::RunFile};
use std::path::{Path, PathBuf};

/// Writes the report into the run's folder.
///
/// # Errors
/// If it cannot be written.
pub async fn write_report(session: &Session, results: &Results) -> Result<PathBuf, Error> {
    let report = made(results, Form::Fitting(layout::report_parts()))?;
    session.workspace().write_report(&results.run, report.page, report.parts).await?;
    Ok(report_path(session, &results.run))
}

/// Writes the report as a page of this name. If it is not to be one file, what
/// is loaded when it is looked at goes into a folder beside the page, whose
/// name is that of the page with `-parts` for its ending. `one_file`: none for
/// one file if that has at most 20 MB. Files that an earlier report left in the
/// folder are removed.
///
/// # Errors
/// If it cannot be written.
pub fn save_report(results: &Results, page: &Path, one_file: Option<bool>) -> Result<(), Error> {
    let stem = page.file_stem().map_or_else(|| "report".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let name = format!("{stem}-parts");
    let folder = page.with_file_name(&name);
    let form = match one_file {
        None => Form::Fitting(&name),
        Some(true) => Form::OneFile,
        Some(false) => Form::Folder(&name),
    };
    let report = made(results, form)?;
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

fn made(results: &Results, form: Form<'_>) -> Result<render::Report, Error> {
    render::report(results, form).map_err(|error| Error::Table(error.to_string()))
}

/// Where a run's report is.
pub fn report_path(session: &Session, run: &str) -> PathBuf {
    let path = RunFile::Report.within(&session.workspace().run_folder(run));
    path.canonicalize().unwrap_or(path)
}

//! The report page of a run, as a file of the run's folder.

use crate::render;
use lab::{Error, Results, Session, layout::RunFile};
use std::path::PathBuf;

/// Writes the report into the run's folder.
///
/// # Errors
/// If it cannot be written.
pub async fn write_report(session: &Session, results: &Results) -> Result<PathBuf, Error> {
    let page = render::report(results).map_err(|error| Error::Table(error.to_string()))?;
    session.workspace().write_run_file(&results.run, RunFile::Report, page).await?;
    Ok(report_path(session, &results.run))
}

/// Where a run's report is.
pub fn report_path(session: &Session, run: &str) -> PathBuf {
    let path = RunFile::Report.within(&session.workspace().run_folder(run));
    path.canonicalize().unwrap_or(path)
}

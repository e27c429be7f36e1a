//! The data of a finished run's pages. It is that of the run's report, so opening a run with two hundred trials takes no
//! longer than reading a file. If there is no report of this version, the data is made from the results.

use crate::{
    blocking::blocking,
    error::PageError,
    recent::RecentlyOpened,
    report::{DATA_VERSION, ReportContent, stamp},
};
use lab::{Error, Session, layout, layout::RunFileName};
use serde::Deserialize;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// The most runs whose data is kept in memory.
const MOST_RUNS: usize = 4;

/// The data of a run.
pub(crate) struct RunData {
    /// As JSON.
    pub(crate) overview: String,
    /// By this, a page recognizes the parts of its overview: a run that goes on after its end writes others.
    stamp: String,
    parts: PartPlace,
}

enum PartPlace {
    /// By name, as JSON.
    Memory(HashMap<String, String>),
    /// Scripts in a folder, which carry the stamp.
    Folder(PathBuf),
}

/// What is read of an overview.
#[derive(Deserialize)]
struct OverviewHead {
    #[serde(default)]
    data_version: u32,
    #[serde(default)]
    folder: Option<String>,
    #[serde(default)]
    stamp: Option<String>,
}

impl RunData {
    /// Reads the data of a run.
    async fn open(session: &Session, run: &str) -> Result<Self, PageError> {
        let folder = session.workspace().run_folder(run);
        let read = tokio::task::spawn_blocking(move || Self::of_report(&folder));
        if let Ok(Some(data)) = read.await {
            return Ok(data);
        }
        if !RunFileName::Results.within(&session.workspace().run_folder(run)).exists() {
            let absent =
                format!("there are no results of a run `{run}`: it has not finished, or it is not in this store");
            return Err(PageError::not_found(absent));
        }
        let results = session.workspace().results(run).await?;
        let made = blocking(move || {
            let ReportContent { mut overview, parts } = ReportContent::of(&results, &[])?;
            let stamp = stamp(&parts).short();
            overview.stamp = Some(stamp.clone());
            let parts = parts.into_iter().map(|(name, json)| (name, json.into_text())).collect();
            Ok::<_, serde_json::Error>(Self {
                overview: serde_json::to_string(&overview)?,
                stamp,
                parts: PartPlace::Memory(parts),
            })
        });
        Ok(made.await?.map_err(|error| Error::Table(error.to_string()))?)
    }

    /// The data of the report in a run's folder; none if there is none of this version, or if the results are newer.
    fn of_report(folder: &Path) -> Option<Self> {
        let written = |file: RunFileName| file.within(folder).metadata().and_then(|file| file.modified()).ok();
        let (report, results) = (written(RunFileName::Report)?, written(RunFileName::Results)?);
        if report < results {
            return None;
        }
        let page = std::fs::read_to_string(RunFileName::Report.within(folder)).ok()?;
        let overview = script_content(&page, "data")?;
        let head: OverviewHead = serde_json::from_str(overview).ok()?;
        if head.data_version != DATA_VERSION {
            return None;
        }
        let stamp = head.stamp?;
        let parts = match head.folder {
            Some(name) if name == layout::report_parts() => PartPlace::Folder(folder.join(name)),
            Some(_) => return None,
            None => PartPlace::Memory(inline_parts(&page)),
        };
        Some(Self { overview: overview.to_owned(), stamp, parts })
    }

    /// A part, as JSON. With the stamp of an overview, only a part that belongs to it.
    pub(crate) fn part(&self, name: &str, stamp: Option<&str>) -> Result<String, PageError> {
        let absent = || PageError::not_found(format!("this run has no part `{name}`"));
        if stamp.is_some_and(|stamp| stamp != self.stamp) {
            return Err(PageError::conflict("this run has new results, to which what is shown does not belong"));
        }
        match &self.parts {
            PartPlace::Memory(parts) => parts.get(name).cloned().ok_or_else(absent),
            PartPlace::Folder(folder) => {
                let stamp = &self.stamp;
                if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                    return Err(absent());
                }
                let script = std::fs::read_to_string(folder.join(format!("{name}.js"))).map_err(|_| absent())?;
                let head = format!("reverieReportPart(\"{name}\",\"{stamp}\",");
                let text = script.strip_prefix(&head).and_then(|rest| rest.trim_end().strip_suffix(");"));
                let text = text.and_then(|text| serde_json::from_str::<String>(text).ok());
                text.ok_or_else(|| {
                    PageError::conflict(format!(
                        "the part `{name}` is of another report of this run; open the run again"
                    ))
                })
            }
        }
    }
}

/// The content of a script element with this id. Its text holds no `<`.
fn script_content<'a>(page: &'a str, id: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("<script type=\"application/json\" id=\"{id}\">"))?;
    rest.split_once("</script>").map(|(content, _)| content)
}

fn inline_parts(page: &str) -> HashMap<String, String> {
    const BEGIN: &str = "<script type=\"application/json\" id=\"part-";
    let mut parts = HashMap::new();
    for piece in page.split(BEGIN).skip(1) {
        let found = piece.split_once("\">").and_then(|(name, rest)| Some((name, rest.split_once("</script>")?.0)));
        parts.extend(found.map(|(name, content)| (name.to_owned(), content.to_owned())));
    }
    parts
}

/// The data of the runs that were opened last.
pub(crate) struct OpenRuns {
    /// By the run's id: when its files were written, and its data.
    open: RecentlyOpened<String, (Option<SystemTime>, Arc<RunData>)>,
}

impl Default for OpenRuns {
    fn default() -> Self {
        Self { open: RecentlyOpened::new(MOST_RUNS) }
    }
}

impl OpenRuns {
    /// The data of a run, read again if its results have changed.
    pub(crate) async fn get(&self, session: &Session, run: &str) -> Result<Arc<RunData>, PageError> {
        let folder = session.workspace().run_folder(run);
        let written = |file: RunFileName| file.within(&folder).metadata().and_then(|file| file.modified()).ok();
        let changed = written(RunFileName::Results).max(written(RunFileName::Report));
        let name = run.to_owned();
        if let Some((_, data)) = self.open.get(&name).filter(|(when, _)| *when == changed) {
            return Ok(data);
        }
        let data = Arc::new(RunData::open(session, run).await?);
        self.open.insert(name, (changed, data.clone()));
        Ok(data)
    }
}

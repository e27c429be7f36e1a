//! `report.html`: what a run found, as a page for a browser.
//!
//! The page holds summaries. Details (a trial's scores, a question's answers,
//! passages) are in parts, which are loaded on demand. If they are small, the parts
//! are in the page too, which is then one self-contained file. Otherwise each is a
//! script in a folder beside the page: a browser refuses to `fetch` a local file, but
//! loads a local script, also under a strict content security policy.
//!
//! `content.rs` makes the data; the application draws the same data when it is served.

mod content;
mod meanings;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use content::ReportContent;
pub(crate) use table::leaderboard as plain_leaderboard;

use crate::{SCRIPT, STYLE};
use base64::{Engine, engine::general_purpose::STANDARD};
use content::{ReportOverview, ScriptJson};
use lab::Results;
use serde::Serialize;
use sha2::{Digest, Sha256};
use store::{Key, KeyBuilder};

const PAGE: &str = include_str!("report/page.html");
/// The version of the data. Raise it when the application can no longer read what an earlier version wrote.
pub(crate) const DATA_VERSION: u32 = 1;
/// A page of at most this many bytes holds its parts.
const ONE_FILE_BYTES: usize = 20_000_000;

/// Where the parts of a page are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportForm<'a> {
    /// In the page, whatever its size.
    OneFile,
    /// In the page if it then has at most 20 MB, otherwise in the folder of this
    /// name beside it.
    Fitting(&'a str),
    /// In the folder of this name beside the page.
    Folder(&'a str),
}

/// A report: the page, and the files of the folder next to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFiles {
    /// The page.
    pub page: String,
    /// Files of the folder, by name; none if the page holds everything.
    pub parts: Vec<(String, String)>,
}

/// A page of a document on which evidence of a golden question is marked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvidencePage {
    /// The path of the document.
    pub document: String,
    /// The evidence.
    pub quote: String,
    /// The number of the page.
    pub page: u32,
    /// Whether the evidence was found on it, and is marked.
    pub is_marked: bool,
    /// The picture, a PNG file in Base64.
    #[serde(skip)]
    pub picture: String,
}

/// The whole report.
pub fn report(results: &Results, form: ReportForm<'_>) -> Result<ReportFiles, serde_json::Error> {
    report_with_pages(results, &[], form)
}

/// The whole report, with pages of documents as pictures.
pub fn report_with_pages(
    results: &Results,
    pages: &[EvidencePage],
    form: ReportForm<'_>,
) -> Result<ReportFiles, serde_json::Error> {
    let content = ReportContent::of(results, pages)?;
    let folder = match form {
        ReportForm::OneFile => None,
        ReportForm::Folder(folder) => Some(folder),
        ReportForm::Fitting(folder) => (content.bytes() > ONE_FILE_BYTES).then_some(folder),
    };
    let ReportContent { mut overview, parts } = content;
    let stamp = stamp(&parts);
    (overview.folder, overview.stamp) = (folder, Some(stamp.short()));
    let inside = if folder.is_none() { parts.as_slice() } else { &[] };
    let page = page(false, &overview, inside)?;
    let parts = match folder {
        Some(_) => parts.iter().map(|(name, json)| (format!("{name}.js"), script(name, &stamp, json))).collect(),
        None => Vec::new(),
    };
    Ok(ReportFiles { page, parts })
}

/// The page with nothing but its plot: it holds no question and no passage.
pub fn plot(results: &Results) -> Result<String, serde_json::Error> {
    let overview = content::only_the_plot(results);
    page(true, &overview, &[])
}

/// The stamp by which a page recognizes its own parts.
pub(crate) fn stamp(parts: &[(String, ScriptJson)]) -> Key {
    let whole =
        |key: KeyBuilder, (name, json): &(String, ScriptJson)| key.key(name, &Key::of_bytes(json.text().as_bytes()));
    parts.iter().fold(KeyBuilder::new("report parts"), whole).finish()
}

/// A part as a script: it calls the function that the page has registered. The
/// data goes in as the text of a JSON document, which a browser reads faster
/// than code, and in which no name has a special meaning.
fn script(name: &str, stamp: &Key, json: &ScriptJson) -> String {
    // A text can always be written as JSON.
    let text = serde_json::to_string(json.text()).unwrap_or_default();
    format!("reverieReportPart(\"{name}\",\"{}\",{text});\n", stamp.short())
}

fn page(
    only_the_plot: bool,
    overview: &ReportOverview<'_>,
    parts: &[(String, ScriptJson)],
) -> Result<String, serde_json::Error> {
    let inside: Vec<String> = parts
        .iter()
        .map(|(name, json)| format!("<script type=\"application/json\" id=\"part-{name}\">{}</script>\n", json.text()))
        .collect();
    let values = [
        ("<!--policy-->", policy(overview.folder.is_some(), !overview.pages.is_empty())),
        ("<!--title-->", table::escape(&format!("Reverie: {}", overview.board.experiment))),
        ("/*style*/", STYLE.to_owned()),
        ("<!--only-->", if only_the_plot { " data-only=\"plot\"".to_owned() } else { String::new() }),
        ("<!--table-->", table::leaderboard(&overview.board)),
        ("<!--data-->", ScriptJson::of(overview)?.text().to_owned()),
        ("<!--parts-->", inside.concat()),
        ("/*script*/", SCRIPT.to_owned()),
    ];
    // In the order of the page, so that placeholders are not replaced inside inserted values.
    let (mut page, mut rest) = (String::new(), PAGE);
    for (place, value) in values {
        let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(&value);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// The content security policy: this style and this script, the parts beside
/// the page and the pictures in them if there are any, and nothing else from anywhere.
fn policy(has_folder: bool, has_pictures: bool) -> String {
    let beside = if has_folder { " 'self'" } else { "" };
    let pictures = if has_pictures { " img-src data:;" } else { "" };
    format!(
        "default-src 'none';{pictures} script-src {}{beside}; style-src {}; base-uri 'none'; form-action 'none'",
        csp_hash(SCRIPT),
        csp_hash(STYLE)
    )
}

/// The hash by which a content security policy names a script or a style.
fn csp_hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

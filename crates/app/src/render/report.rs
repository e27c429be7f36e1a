//! `report.html`: one self-contained file. The page's code and style are in
//! `report/`; the results go in as JSON.

use lab::Results;

const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/style.css");
const SCRIPT: &str = include_str!("report/script.js");

/// The whole page.
pub fn report(results: &Results) -> Result<String, serde_json::Error> {
    // `<` could end the script element, so it is written as an escape that
    // JSON knows too: retrieved text is data.
    let data = serde_json::to_string(results)?
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let (before, rest) = PAGE.split_once("/*style*/").unwrap_or((PAGE, ""));
    let (middle, rest) = rest.split_once("/*data*/").unwrap_or((rest, ""));
    let (inner, after) = rest.split_once("/*script*/").unwrap_or((rest, ""));
    Ok([before, STYLE, middle, &data, inner, SCRIPT, after].concat())
}

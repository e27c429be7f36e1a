//! The pages of a run for a browser: one application, served on this machine ([`PageService`]) or written as the files of
//! a report ([`report()`]). Its TypeScript is in `web/`; `build.rs` builds it.

mod blocking;
mod error;
mod recent;
mod report;

mod documents;
mod run_data;

mod ask;
mod golden;
mod votes;

mod live_stream;
mod service;

pub use report::{EvidencePage, ReportFiles, ReportForm, plot, report, report_with_pages};
pub use service::PageService;

/// The application's script.
const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/app.js"));
/// Its style.
const STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/app.css"));

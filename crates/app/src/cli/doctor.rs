//! `reverie doctor`: which models and libraries are installed.

use crate::{command::CommandContext, environment, failure::CommandFailure};
use models::{Catalogue, Library};
use serde::Serialize;

/// Check which models and libraries are installed, and say how to get the missing ones.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  reverie doctor")]
pub struct DoctorArguments {}

#[derive(Serialize)]
struct DoctorCheck {
    what: String,
    ok: bool,
    found: String,
}

pub async fn run(cx: &CommandContext, _: DoctorArguments) -> Result<u8, CommandFailure> {
    let directory = environment::model_directory();
    let mut checks =
        vec![DoctorCheck { what: "home".to_owned(), ok: true, found: environment::home().display().to_string() }];
    let cores = models::CpuBudget::machine().cores();
    checks.push(DoctorCheck { what: "cores".to_owned(), ok: true, found: cores.to_string() });
    for (library, what) in [(Library::OnnxRuntime, "ONNX Runtime"), (Library::Pdfium, "PDFium")] {
        let found = directory.library(library);
        let ok = found.is_ok();
        let found = found.map_or_else(|error| lab::error_chain(&error), |path| path.display().to_string());
        checks.push(DoctorCheck { what: what.to_owned(), ok, found });
    }
    for entry in &Catalogue::embedded().entries {
        if entry.kind == models::ModelKind::Library {
            continue;
        }
        let ok = directory.holds(entry);
        let found = if ok { "here".to_owned() } else { format!("reverie models pull {}", entry.name) };
        checks.push(DoctorCheck { what: entry.name.clone(), ok, found });
    }
    let line =
        |check: &DoctorCheck| format!("{}  {:32} {}", if check.ok { "ok" } else { "--" }, check.what, check.found);
    cx.finish(&checks, |checks| checks.iter().map(line).collect::<Vec<_>>().join("\n"))
}

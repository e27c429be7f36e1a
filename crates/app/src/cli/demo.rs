//! `reverie demo`: the whole way on the bundled defaults.

use super::{Context, Failure, models, query, run};
use crate::{environment, render};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

const EXPERIMENT: &str = include_str!("../../../../examples/debian-manuals/experiment.toml");
const GOLDEN: &str = include_str!("../../../../examples/debian-manuals/golden.jsonl");
const QUESTION: &str = "Which section must a package be placed in if it depends on software outside of main?";

/// What the demo pulls: two embedders, one chat model and two libraries.
const MODELS: [&str; 5] =
    ["onnxruntime", "pdfium", "all-minilm-l6-v2", "paraphrase-minilm-l3-v2", "qwen2.5-coder-0.5b-instruct"];

/// Debian package, file in it, name in the corpus. `.gz` is unpacked.
const MANUALS: [(&str, &str, &str); 7] = [
    ("debian-policy", "usr/share/doc/debian-policy/policy.epub", "policy.epub"),
    ("debian-policy", "usr/share/doc/debian-policy/fhs/fhs-3.0.pdf.gz", "fhs.pdf"),
    ("developers-reference", "usr/share/developers-reference/developers-reference.epub", "developers-reference.epub"),
    ("live-manual-epub", "usr/share/doc/live-manual/epub/live-manual.en.epub", "live-manual.epub"),
    ("debian-faq", "usr/share/doc/debian/FAQ/debian-faq.en.pdf.gz", "debian-faq.pdf"),
    ("maint-guide", "usr/share/doc/maint-guide/maint-guide.en.pdf", "maint-guide.pdf"),
    ("debian-edu-doc-en", "usr/share/doc/debian-edu-doc-en/debian-edu-bookworm-manual.pdf", "debian-edu.pdf"),
];

/// Compare twelve pipelines on Debian's manuals with models that run here.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie demo
  reverie demo --folder /tmp/reverie-demo

Downloads about 680 MB the first time. On 2 cores the comparison takes about
five minutes; a second demo takes seconds, because everything is kept.")]
pub struct Arguments {
    /// Where the corpus, the experiment and its store are put. Default: `demo` in reverie's home.
    #[arg(long)]
    folder: Option<PathBuf>,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let folder = arguments.folder.unwrap_or_else(|| environment::home().join("demo"));
    let names: Vec<String> = MODELS.iter().map(|name| (*name).to_owned()).collect();
    models::pull(cx, &names).await?;
    fetch(cx, &folder.join("corpus"))?;
    for (name, text) in [("experiment.toml", EXPERIMENT), ("golden.jsonl", GOLDEN)] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| Failure::work(format!("{}: {error}", path.display())))?;
    }
    let experiment = folder.join("experiment.toml");
    let ran = run::execute(cx, environment::read(&experiment)?, None).await?;
    let run::Ran { session, results, report, tracking } = ran;
    let answered = query::answer(cx, &session, QUESTION, None, None).await;
    let shown = answered.and_then(|answered| show(cx, &experiment, &results, &report, &answered));
    run::tell(cx, tracking).await;
    shown?;
    Ok(run::exit_code(&results))
}

fn show(
    cx: &Context,
    experiment: &Path,
    results: &lab::Results,
    report: &Path,
    answered: &lab::Answered,
) -> Result<(), Failure> {
    if cx.json {
        cx.print_json(&serde_json::json!({ "results": results, "answered": answered, "report": report }))
    } else {
        cx.print(render::leaderboard(results));
        cx.print(format_args!("\nquestion: {QUESTION}\n{}", render::answered(answered)));
        cx.print(format_args!(
            "\nask another: reverie query \"…\" --experiment {}\nopen the report in a browser: file://{}",
            experiment.display(),
            report.display()
        ));
        Ok(())
    }
}

/// Puts the manuals into the corpus folder; what is there is not fetched again.
fn fetch(cx: &Context, corpus: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(corpus).map_err(|error| Failure::work(format!("{}: {error}", corpus.display())))?;
    let missing: Vec<_> = MANUALS.iter().filter(|(_, _, name)| !corpus.join(name).is_file()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let work = corpus.with_file_name("packages");
    std::fs::create_dir_all(&work).map_err(|error| Failure::work(format!("{}: {error}", work.display())))?;
    let mut packages: Vec<&str> = missing.iter().map(|(package, _, _)| *package).collect();
    packages.dedup();
    for (i, package) in packages.iter().enumerate() {
        cx.note(format_args!("manuals {}/{}: {package}", i + 1, packages.len()));
        download(&work, package)?;
        let archive = find(&work, package)?;
        command(&work, "dpkg-deb", &["-x", &archive, package])?;
    }
    for (package, file, name) in missing {
        let from = work.join(package).join(file);
        let to = corpus.join(name);
        let copied = if file.ends_with(".gz") {
            let output = Command::new("gzip").arg("-dc").arg(&from).output();
            output.and_then(|output| std::fs::write(&to, output.stdout))
        } else {
            std::fs::copy(&from, &to).map(|_| ())
        };
        copied.map_err(|error| Failure::work(format!("{}: {error}", from.display())))?;
    }
    std::fs::remove_dir_all(&work).map_err(|error| Failure::work(format!("{}: {error}", work.display())))
}

/// Downloads a package; package lists that are missing are fetched first.
fn download(folder: &Path, package: &str) -> Result<(), Failure> {
    let first = command(folder, "apt-get", &["download", "-q", package]);
    if first.is_ok() {
        return Ok(());
    }
    command(folder, "apt-get", &["update", "-q"]).and_then(|()| command(folder, "apt-get", &["download", "-q", package])).map_err(|_| {
        Failure::work(format!(
            "the demo's manuals come from Debian packages, and `apt-get download {package}` did not work here; on your own documents: reverie init FOLDER"
        ))
    })
}

fn find(folder: &Path, package: &str) -> Result<String, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::work(format!("{}: {error}", folder.display())))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let prefix = format!("{package}_");
    names
        .into_iter()
        .find(|name| name.starts_with(&prefix) && name.ends_with(".deb"))
        .ok_or_else(|| Failure::work(format!("no package file of {package} in {}", folder.display())))
}

fn command(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| Failure::work(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(Failure::work(format!("{program} {}: {}", arguments.join(" "), message.trim())))
}

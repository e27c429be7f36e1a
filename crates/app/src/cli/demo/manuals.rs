//! `reverie demo --manuals`: finds the best pipeline on Debian's manuals, with models that run here.

use super::{refuse_to_replace, show, write};
use crate::{
    command::{CommandContext, ask_trial, exit_code, finish_tracking, open_pipeline, pull_models, run_experiment},
    environment,
    failure::CommandFailure,
    render,
};
use lab::Board;
use std::{path::Path, process::Command};

const RETRIEVAL: &str = include_str!("../../../../../examples/debian-manuals/experiment.toml");
/// Without `[space]`, which the demo writes from the results of the first run.
const ANSWERS: &str = include_str!("../../../../../examples/debian-manuals/answers.toml");
const GOLDEN: &str = include_str!("../../../../../examples/debian-manuals/golden.jsonl");
const QUESTION: &str = "Which section must a package be placed in if it depends on software outside of main?";

/// The generator of the finalists.
const GENERATOR: &str = "{ compact = { model = \"qwen\", max_tokens = 48, context_tokens = 900 } }";
/// How many of the pipelines answer.
const FINALISTS: usize = 3;

/// What is pulled before the search for the best retrieval: two libraries and two embedding models.
const TO_RETRIEVE: [&str; 4] = ["onnxruntime", "pdfium", "all-minilm-l6-v2", "paraphrase-minilm-l3-v2"];
/// What is pulled before the finalists answer: a chat model.
const TO_ANSWER: [&str; 1] = ["qwen2.5-coder-0.5b-instruct"];

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

pub(super) async fn run(cx: &CommandContext, folder: &Path) -> Result<u8, CommandFailure> {
    // The content of answers.toml is not known yet: the file is replaced only if the demo wrote it.
    let mut files = [
        ("experiment.toml", RETRIEVAL.to_owned()),
        ("golden.jsonl", GOLDEN.to_owned()),
        ("answers.toml", String::new()),
    ];
    let own = refuse_to_replace(folder, &files)?;
    // The manuals first: they need tools that may be missing, and are a hundredth of the download.
    fetch(cx, &folder.join("corpus"))?;
    pull_models(&TO_RETRIEVE).await?;
    let own = write(folder, &files[..2], own)?;

    cx.note("\n1/3  every pipeline of experiment.toml retrieves for every golden question");
    let experiment = folder.join("experiment.toml");
    let retrieved = run_experiment(cx, environment::read(&experiment)?, None).await?;
    let board = Board::of(&retrieved.results);
    show(cx, &board, &retrieved.report)?;

    pull_models(&TO_ANSWER).await?;
    cx.note(format_args!(
        "\n2/3  the first {FINALISTS} answer (the space of answers.toml is what `reverie finalists` prints)"
    ));
    let generator = lab::Experiment::parse_value(GENERATOR).map_err(CommandFailure::runtime)?;
    let space = board.finalists(FINALISTS, &[(rag::Axis::Generator, generator)]).map_err(CommandFailure::runtime)?;
    files[2].1 = format!("{ANSWERS}\n{space}");
    write(folder, &files[2..], own)?;
    let experiment = folder.join("answers.toml");
    let answers = run_experiment(cx, environment::read(&experiment)?, None).await?;
    show(cx, &Board::of(&answers.results), &answers.report)?;

    cx.note("\n3/3  the best of them answers a question");
    let record = lab::latest_record(&answers.session).await?;
    let pipeline = open_pipeline(cx, &answers.session, &record, None).await?;
    let answered = ask_trial(&pipeline, QUESTION, &[], None).await?;
    let all = match cx.json {
        true => serde_json::json!({
            "retrieval": retrieved.whole_results().await?, "answers": answers.whole_results().await?,
            "answered": answered, "reports": [retrieved.report, answers.report],
        }),
        false => serde_json::Value::Null,
    };
    cx.show(&all, |_| {
        let (answer, file) = (render::answer(&answered), experiment.display());
        format!("question: {QUESTION}\n{answer}\n\nask another: reverie query \"…\" -f {file}")
    })?;
    for tracking in [retrieved.tracking, answers.tracking] {
        finish_tracking(cx, tracking).await;
    }
    Ok(exit_code(&retrieved.results).max(exit_code(&answers.results)))
}

/// Puts the manuals into the corpus folder; what is there is not fetched again.
fn fetch(cx: &CommandContext, corpus: &Path) -> Result<(), CommandFailure> {
    std::fs::create_dir_all(corpus).map_err(CommandFailure::at(corpus))?;
    let missing: Vec<_> = MANUALS.iter().filter(|(_, _, name)| !corpus.join(name).is_file()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // A folder of its own, because it is removed with everything in it.
    let work = corpus.with_file_name(format!(".packages-{}", store::unique_token()));
    std::fs::create_dir(&work).map_err(CommandFailure::at(&work))?;
    let fetched = unpack(cx, corpus, &work, &missing);
    let removed = std::fs::remove_dir_all(&work);
    fetched?;
    removed.map_err(CommandFailure::at(&work))
}

type DebianManual = (&'static str, &'static str, &'static str);

/// Downloads packages into a folder and puts their manuals into the corpus.
fn unpack(cx: &CommandContext, corpus: &Path, work: &Path, missing: &[&DebianManual]) -> Result<(), CommandFailure> {
    let mut packages: Vec<&str> = missing.iter().map(|(package, _, _)| *package).collect();
    packages.dedup();
    for (i, package) in packages.iter().enumerate() {
        cx.note(format_args!("manuals {}/{}: {package}", i + 1, packages.len()));
        download(work, package)?;
        let archive = find(work, package)?;
        command(work, "dpkg-deb", &["-x", &archive, package])?;
    }
    for (package, file, name) in missing {
        let from = work.join(package).join(file);
        let failed = CommandFailure::at(&from);
        let bytes = if file.ends_with(".gz") {
            let output = Command::new("gzip").arg("-dc").arg(&from).output().map_err(&failed)?;
            if !output.status.success() {
                return Err(CommandFailure::runtime(format!("{}: gzip cannot unpack it", from.display())));
            }
            output.stdout
        } else {
            std::fs::read(&from).map_err(failed)?
        };
        lab::write_whole(&corpus.join(name), &bytes)?;
    }
    Ok(())
}

/// Downloads a package; package lists that are missing are fetched first.
fn download(folder: &Path, package: &str) -> Result<(), CommandFailure> {
    let first = command(folder, "apt-get", &["download", "-q", package]);
    if first.is_ok() {
        return Ok(());
    }
    command(folder, "apt-get", &["update", "-q"]).and_then(|()| command(folder, "apt-get", &["download", "-q", package])).map_err(|_| {
        CommandFailure::runtime(format!(
            "the demo's manuals come from Debian packages, and `apt-get download {package}` did not work here; on your own documents: reverie init FOLDER"
        ))
    })
}

fn find(folder: &Path, package: &str) -> Result<String, CommandFailure> {
    let entries = std::fs::read_dir(folder).map_err(CommandFailure::at(folder))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let prefix = format!("{package}_");
    names
        .into_iter()
        .find(|name| name.starts_with(&prefix) && name.ends_with(".deb"))
        .ok_or_else(|| CommandFailure::runtime(format!("no package file of {package} in {}", folder.display())))
}

fn command(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), CommandFailure> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| CommandFailure::runtime(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(CommandFailure::runtime(format!("{program} {}: {}", arguments.join(" "), message.trim())))
}

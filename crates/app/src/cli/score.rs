//! `reverie score`: scores the answers of any other system.

use super::{BUDGET_REACHED, Context, FUNCTION_FAILED, Failure, PAID_CALLS, options::DryRun};
use crate::{environment, render};
use eval::Score;
use lab::{Choice, ScoreResults, Scoring};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Score the answers of any system: a file with questions, answers, what was
/// retrieved, and reference answers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie score answers.jsonl --metric token_f1 --metric rouge_l
  reverie score answers.csv --metric faithfulness --judge qwen2.5-coder-0.5b-instruct
  reverie score answers.parquet -f experiment.toml --budget-usd 1 --output scores.jsonl
  reverie score answers.csv -f experiment.toml --dry-run

Columns: `question`, `answer`, `contexts` (a list of texts), `reference`, and
optionally `id`, `answerable`, `evidence`; also by the names of Ragas
(`user_input`, `response`, `retrieved_contexts`, `ground_truth`) and DeepEval
(`input`, `actual_output`, `retrieval_context`, `expected_output`).
Of [evaluate], `metrics`, `judge`, `embedder` and `budget` count here; every row
is scored, and nothing is chosen, so `answered`, `judged` and `objective` do not.
What it should cost is told before anything is asked. A call that was paid once
is in the journal (`store` of the file, else ./.reverie) and never paid again.")]
pub struct Arguments {
    /// The answers: CSV, TSV, JSONL or Parquet.
    file: PathBuf,
    /// A metric by its name; may be given several times.
    #[arg(long = "metric", value_name = "NAME")]
    metrics: Vec<String>,
    /// An experiment file, or one with only [models] and [evaluate]. Default: none.
    #[arg(short = 'f', long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    experiment: Option<PathBuf>,
    /// A judge: a model of the file, or a chat model of the catalogue. Of
    /// several the majority decides.
    #[arg(long = "judge", value_name = "MODEL")]
    judges: Vec<String>,
    /// The embedder of similarities: a model of the file or the catalogue.
    #[arg(long, value_name = "MODEL")]
    embedder: Option<String>,
    /// The documents that places in the answers refer to: a folder, a file, a
    /// pattern or a URL. Places are checked against them, `start` and `end` may
    /// count characters, and quotes of golden evidence are looked for in them.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    documents: Option<String>,
    /// What this may cost, in US dollars, whatever the file says.
    #[arg(long, value_name = "DOLLARS", value_parser = crate::dollars::parse)]
    budget_usd: Option<f64>,
    #[command(flatten)]
    question: DryRun,
    /// Write the scores of each question here: .jsonl (with verdicts and
    /// transcripts) or .csv.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there.
    #[arg(long)]
    yes: bool,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let table = arguments.output.as_deref().map(table_kind).transpose()?;
    if let Some(path) = arguments.output.as_deref().filter(|path| path.exists() && !arguments.yes) {
        return Err(Failure::usage(format!(
            "{} is there already: choose another --output, or --yes to replace it",
            path.display()
        )));
    }
    let choice = Choice { metrics: arguments.metrics, judges: arguments.judges, embedder: arguments.embedder };
    let spec = environment::read_scoring(arguments.experiment.as_deref(), &choice)?;
    let setup = lab::Setup { budget_usd: arguments.budget_usd, ..cx.setup() };
    let progress = setup.control.progress.clone();
    let documents = match &arguments.documents {
        Some(address) => documents(cx, address, &setup).await?,
        None => Vec::new(),
    };
    let scoring = Scoring::open(spec, &arguments.file, &documents, setup).await?;
    let estimate = scoring.estimate();
    if arguments.question.dry_run {
        if cx.json {
            let metrics =
                scoring.applicable().into_iter().map(|(metric, rows)| json!({ "metric": metric, "rows": rows }));
            cx.print_json(
                &json!({ "rows": scoring.n_rows(), "metrics": Value::Array(metrics.collect()), "cost": estimate }),
            )?;
        } else {
            cx.print(render::scoring(&scoring, &estimate));
        }
        return Ok(0);
    }
    cx.note(render::scoring(&scoring, &estimate));
    let live = render::LiveTable::start(progress, environment::watched());
    cx.may_take_to_end(PAID_CALLS);
    let results = scoring.run().await;
    live.stop().await;
    if let (Err(lab::Error::Interrupted), Some(scored)) = (&results, scoring.so_far())
        && !cx.json
    {
        cx.print(render::scores(&scored));
    }
    let results = results?;
    if let (Some(path), Some(kind)) = (&arguments.output, table) {
        let text = match kind {
            Table::Jsonl => jsonl(&results)?,
            Table::Csv => csv(&results),
        };
        if arguments.yes { lab::write_whole(path, text.as_bytes())? } else { lab::write_new(path, text.as_bytes())? }
    }
    if cx.json {
        cx.print_json(&without_detail(&results))?;
    } else {
        cx.print(render::scores(&results));
        if results.needs_anchoring() {
            cx.print("`reverie golden anchor --yes` finds the places of an experiment's questions");
        }
        if let Some(path) = &arguments.output {
            cx.print(format_args!("scores of each question: {}", path.display()));
        }
    }
    if let Some(failures) = render::function_failures_of_scores(&results) {
        cx.warn(failures);
    }
    Ok(match (&results.partial, results.function_errors, results.provider_errors) {
        (Some(_), ..) => BUDGET_REACHED,
        (None, 1.., _) => FUNCTION_FAILED,
        (None, 0, 1..) => 3,
        (None, 0, 0) => 0,
    })
}

/// The documents at an address. Files that give none are named.
async fn documents(cx: &Context, address: &str, setup: &lab::Setup) -> Result<Vec<rag::Document>, Failure> {
    let (documents, rejected) = lab::documents(address, setup).await?;
    for file in rejected {
        cx.warn(format_args!("{} gives no document: {}", file.path, lab::error_chain(&file.reason)));
    }
    if documents.is_empty() {
        return Err(Failure::usage(format!("--documents {address}: no file there gives a document")));
    }
    Ok(documents)
}

#[derive(Clone, Copy)]
enum Table {
    Jsonl,
    Csv,
}

/// The format is known from the name, before anything is paid.
fn table_kind(path: &Path) -> Result<Table, Failure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("jsonl") => Ok(Table::Jsonl),
        Some("csv") => Ok(Table::Csv),
        _ => Err(Failure::usage(format!("--output {}: name it .jsonl or .csv", path.display()))),
    }
}

/// A question's scores and reasons.
fn numbers(score: &Score) -> Value {
    match score {
        Score::Value(value) => json!({ "value": value }),
        Score::Missing(missing) => json!({ "value": null, "missing": missing.name(), "reason": missing.to_string() }),
    }
}

/// The results as JSON, without verdicts and transcripts, which would fill screens.
fn without_detail(results: &ScoreResults) -> Value {
    let mut value = json!(results);
    let rows = results.rows.iter().map(|row| {
        let scores = row.scores.iter().map(|(metric, scored)| (metric.clone(), numbers(&scored.score)));
        json!({ "line": row.line, "id": row.id, "scores": Value::Object(scores.collect()) })
    });
    value["rows"] = Value::Array(rows.collect());
    value
}

/// A line per question, with everything that is known of its scores.
fn jsonl(results: &ScoreResults) -> Result<String, Failure> {
    let mut text = String::new();
    for row in &results.rows {
        let scores = row.scores.iter().map(|(metric, scored)| {
            let mut value = numbers(&scored.score);
            value["detail"] = scored.detail.clone();
            (metric.clone(), value)
        });
        let line = json!({
            "line": row.line, "id": row.id, "question": row.question, "scores": Value::Object(scores.collect()),
        });
        text.push_str(&serde_json::to_string(&line).map_err(Failure::work)?);
        text.push('\n');
    }
    Ok(text)
}

/// A line per question, and for each metric its value and why there is none.
fn csv(results: &ScoreResults) -> String {
    let mut header = vec!["line".to_owned(), "id".to_owned(), "question".to_owned()];
    for metric in &results.metrics {
        header.extend([metric.name.clone(), format!("{}_missing", metric.name)]);
    }
    let mut lines = vec![header];
    for row in &results.rows {
        let mut cells = vec![row.line.to_string(), row.id.clone(), row.question.clone()];
        for metric in &results.metrics {
            let score = row.scores.get(&metric.name).map(|scored| &scored.score);
            cells.push(score.and_then(Score::value).map(|value| value.to_string()).unwrap_or_default());
            cells.push(match score {
                Some(Score::Missing(missing)) => missing.to_string(),
                _ => String::new(),
            });
        }
        lines.push(cells);
    }
    let cell = |text: &String| match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.clone(),
    };
    lines.iter().map(|cells| cells.iter().map(cell).collect::<Vec<_>>().join(",") + "\n").collect()
}

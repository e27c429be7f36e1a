//! `reverie score`: scores the answers of any other system.

use crate::{
    command::{CommandContext, DryRun, PAID_CALLS_GRACE, refuse_to_replace, write_new_file},
    environment,
    failure::{BUDGET_REACHED, CommandFailure, FUNCTION_FAILED, INCOMPLETE},
    option_values::parse_dollars,
    render,
};
use eval::Score;
use lab::{ScoreResults, Scoring, ScoringChoice};
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
The expected cost is shown before anything is asked. A call that was paid once
is in the journal (`store` of the file, else ./.reverie) and never paid again.")]
pub struct ScoreArguments {
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
    /// The documents that locations in the answers refer to: a folder, a file, a
    /// pattern or a URL. Locations are checked against them, `start` and `end` (in
    /// characters) need them, and quotes of golden evidence are looked for in them.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    documents: Option<String>,
    /// What this may cost, in US dollars, whatever the file says.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars)]
    budget_usd: Option<f64>,
    #[command(flatten)]
    dry_run: DryRun,
    /// Write the scores of each question here: .jsonl (with verdicts and
    /// transcripts) or .csv.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    yes: bool,
}

pub async fn run(cx: &CommandContext, arguments: ScoreArguments) -> Result<u8, CommandFailure> {
    let table = arguments.output.as_deref().map(score_format).transpose()?;
    if let Some(path) = &arguments.output {
        refuse_to_replace(path, arguments.yes)?;
    }
    let choice = ScoringChoice { metrics: arguments.metrics, judges: arguments.judges, embedder: arguments.embedder };
    let spec = environment::read_scoring(arguments.experiment.as_deref(), &choice)?;
    let setup = lab::Setup { budget_usd: arguments.budget_usd, ..cx.setup() };
    let progress = setup.control.progress.clone();
    let documents = match &arguments.documents {
        Some(address) => documents(cx, address, &setup).await?,
        None => Vec::new(),
    };
    let scoring = Scoring::open(spec, &arguments.file, &documents, setup).await?;
    let estimate = scoring.estimate();
    if arguments.dry_run.is_on {
        let metrics = scoring.applicable().into_iter().map(|(metric, rows)| json!({ "metric": metric, "rows": rows }));
        let plan = json!({ "rows": scoring.n_rows(), "metrics": Value::Array(metrics.collect()), "cost": estimate });
        return cx.finish(&plan, |_| render::scoring(&scoring, &estimate));
    }
    cx.note(render::scoring(&scoring, &estimate));
    let live = render::LiveTable::start(progress, environment::audience());
    cx.set_grace(PAID_CALLS_GRACE);
    let results = scoring.run().await;
    live.stop().await;
    if let (Err(lab::Error::Interrupted), Some(scored)) = (&results, scoring.so_far())
        && !cx.json
    {
        cx.print(render::scores(&scored));
    }
    let results = results?;
    if let (Some(path), Some(kind)) = (&arguments.output, table) {
        let bytes = match kind {
            ScoreFormat::Jsonl => jsonl(&results)?.into_bytes(),
            ScoreFormat::Csv => csv(&results).map_err(CommandFailure::runtime)?,
        };
        write_new_file(path, &bytes, arguments.yes)?;
    }
    if cx.json {
        cx.print_json(&without_detail(&results))?;
    } else {
        cx.print(render::scores(&results));
        if results.needs_anchoring() {
            cx.print("`reverie golden anchor --yes` finds the locations of an experiment's evidence");
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
        (None, 0, 1..) => INCOMPLETE,
        (None, 0, 0) => 0,
    })
}

/// Reads the documents at an address; a warning names each file that gave no document.
async fn documents(
    cx: &CommandContext,
    address: &str,
    setup: &lab::Setup,
) -> Result<Vec<rag::Document>, CommandFailure> {
    let (documents, rejected) = lab::documents(address, setup).await?;
    for line in render::file_lines(&rejected, |file| {
        format!("{} gives no document: {}", file.path, lab::error_chain(&file.reason))
    }) {
        cx.warn(line);
    }
    if documents.is_empty() {
        return Err(CommandFailure::usage(format!("--documents {address}: no file there gives a document")));
    }
    Ok(documents)
}

#[derive(Clone, Copy)]
enum ScoreFormat {
    Jsonl,
    Csv,
}

/// The format by the ending of the name, checked before anything is paid.
fn score_format(path: &Path) -> Result<ScoreFormat, CommandFailure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("jsonl") => Ok(ScoreFormat::Jsonl),
        Some("csv") => Ok(ScoreFormat::Csv),
        _ => Err(CommandFailure::usage(format!("--output {}: name it .jsonl or .csv", path.display()))),
    }
}

/// A score as JSON, or the reason why it is missing.
fn score_json(score: &Score) -> Value {
    match score {
        Score::Value(value) => json!({ "value": value }),
        Score::Missing(missing) => json!({ "value": null, "missing": missing.name(), "reason": missing.to_string() }),
    }
}

/// The results as JSON without verdicts and transcripts, which are long.
fn without_detail(results: &ScoreResults) -> Value {
    let mut value = json!(results);
    let rows = results.rows.iter().map(|row| {
        let scores = row.scores.iter().map(|(metric, scored)| (metric.clone(), score_json(&scored.score)));
        json!({ "line": row.line, "id": row.id, "scores": Value::Object(scores.collect()) })
    });
    value["rows"] = Value::Array(rows.collect());
    value
}

/// A line of JSON per question, with details of each score.
fn jsonl(results: &ScoreResults) -> Result<String, CommandFailure> {
    let mut text = String::new();
    for row in &results.rows {
        let scores = row.scores.iter().map(|(metric, scored)| {
            let mut value = score_json(&scored.score);
            value["detail"] = scored.detail.clone();
            (metric.clone(), value)
        });
        let line = json!({
            "line": row.line, "id": row.id, "question": row.question, "scores": Value::Object(scores.collect()),
        });
        text.push_str(&serde_json::to_string(&line).map_err(CommandFailure::runtime)?);
        text.push('\n');
    }
    Ok(text)
}

/// A line per question; for each metric its value, and the reason if it is missing.
fn csv(results: &ScoreResults) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let columns = results.metrics.iter().flat_map(|metric| [metric.name.clone(), format!("{}_missing", metric.name)]);
    writer.write_record(["line", "id", "question"].map(str::to_owned).into_iter().chain(columns))?;
    for row in &results.rows {
        let cells =
            results.metrics.iter().flat_map(|metric| match row.scores.get(&metric.name).map(|scored| &scored.score) {
                Some(Score::Value(value)) => [value.to_string(), String::new()],
                Some(Score::Missing(missing)) => [String::new(), missing.to_string()],
                None => [String::new(), String::new()],
            });
        writer.write_record([row.line.to_string(), row.id.clone(), row.question.clone()].into_iter().chain(cells))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

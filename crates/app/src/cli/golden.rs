//! `reverie golden`: generates, reviews, attacks, compares, splits, imports and
//! exports golden questions.

mod attack;
mod review;
mod stats;
mod traffic;

use crate::{
    command::{
        CommandContext, Confirmation, DryRun, ExperimentFile, PAID_CALLS_GRACE, key_of, note_ignored_columns,
        note_unread_files, open_questions, open_questions_to_change, read_questions, refuse_to_replace,
        writable_format, write_new_file, write_questions,
    },
    environment,
    failure::{CommandFailure, INCOMPLETE},
    option_values::{parse_dollars, parse_kind_share, parse_name},
    render,
};
use eval::{
    Length, QuestionKind, QuestionStyle,
    dataset::{ColumnSet, DatasetDifference, DatasetFormat},
};
use lab::{AnchoredQuestions, Documents, GenerateSpec, Session};
use serde_json::json;
use std::path::{Path, PathBuf};
use store::{ArtifactStore, NoLayout, is_url};

/// Generate, review, attack, count, compare, split and export golden questions.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie golden generate --size 50 --model qwen --dry-run     # what it would cost
  reverie golden generate --size 50 --model qwen
  reverie golden review golden.jsonl
  reverie golden split golden.jsonl --test-share 0.3
  reverie golden export golden.jsonl --columns ragas --output s3://bucket/golden/test.parquet")]
pub struct GoldenArguments {
    #[command(subcommand)]
    verb: GoldenVerb,
}

#[derive(clap::Subcommand)]
enum GoldenVerb {
    Generate(GenerateArguments),
    Attack(attack::AttackArguments),
    /// Look at questions one by one: accept, edit, reject. Goes on where you left.
    #[command(after_help = "Example:
  reverie golden review golden.jsonl

Keys: a accepts, e edits question and answer, r rejects (kept in *.rejected.jsonl),
n leaves it for later, b goes back to the one before, whatever was decided on it,
q ends. Every decision is written at once, into the file's own format; all
columns are kept.")]
    Review {
        /// The questions.
        #[arg(default_value = "golden.jsonl")]
        file: PathBuf,
        /// Show also those that were reviewed before.
        #[arg(long)]
        all: bool,
    },
    Stats(stats::StatsArguments),
    /// Show what changed between two versions. Exit code 0 if nothing, 1 if something.
    #[command(after_help = "Example:
  reverie golden diff old.jsonl golden.jsonl")]
    Diff {
        /// The older one.
        before: PathBuf,
        /// The newer one.
        after: PathBuf,
    },
    /// Find the evidence again after documents changed, and list what could not be found.
    #[command(after_help = "Example:
  reverie golden anchor --dry-run          # only shows
  reverie golden anchor --yes              # writes the new locations into the dataset

Exit codes: 0 all was found, 3 some was not.")]
    Anchor {
        #[command(flatten)]
        file: ExperimentFile,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Split a dataset into a tune and a test part, by document.
    #[command(after_help = "Example:
  reverie golden split golden.jsonl --test-share 0.3 --seed 1")]
    Split {
        /// The questions.
        #[arg(default_value = "golden.jsonl")]
        file: PathBuf,
        /// The share of questions for the test split, on which the winner is reported.
        #[arg(long, default_value_t = 0.3)]
        test_share: f64,
        /// Makes the choice repeatable.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Read questions from CSV or JSONL in any known columns, or from what people asked a service, check them, and write
    /// them in reverie's columns.
    #[command(after_help = "Examples:
  reverie golden import testset.csv --output golden.jsonl
  reverie golden import --from-traffic traffic.jsonl --feedback feedback.jsonl --only down --output golden-traffic.jsonl

Columns that are no part of the questions are named and left out. Questions from
traffic have neither reference nor evidence: look through them with
`reverie golden review`.

Exit codes: 0 all was read, 3 some lines of traffic or feedback could not be used.")]
    Import {
        /// The file.
        #[arg(required_unless_present = "from_traffic", conflicts_with = "from_traffic")]
        file: Option<PathBuf>,
        #[command(flatten)]
        traffic: traffic::TrafficArguments,
        /// Where to.
        #[arg(long, value_name = "FILE", default_value = "golden.jsonl")]
        output: PathBuf,
        /// Replace an existing file.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Write questions for other programs: CSV, JSONL or Parquet, to a folder or an object store.
    #[command(after_help = "Examples:
  reverie golden export golden.jsonl --columns dream --output dream/golden.csv
  reverie golden export golden.jsonl --columns ragas --output s3://bucket/golden/testset.parquet

The name's ending decides the format. Access to object stores: AWS_… variables.")]
    Export {
        /// The questions.
        file: PathBuf,
        /// Whose columns: reverie, ragas (0.4) or dream (Ragas 0.1).
        #[arg(long, default_value = "reverie", value_parser = parse_name::<ColumnSet>)]
        columns: ColumnSet,
        /// Where to: a path or URL that ends in .jsonl, .csv or .parquet.
        #[arg(long, value_name = "FILE")]
        output: String,
        /// Replace an existing file; objects of an object store are never replaced.
        #[arg(long)]
        yes: bool,
    },
}

/// Write golden questions with a chat model. What the model answered is never paid twice.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie golden generate --size 50 --model qwen --dry-run
  reverie golden generate --size 50 --model qwen --kind multi_hop=0.3 --kind single_hop_specific=0.7
  reverie golden generate --personas 3 --style plain --style web_search --test-share 0.3

What is not given here is taken from `generate = { … }` under [dataset] of the
experiment file. Beside the questions a manifest and the rejections are written.")]
struct GenerateArguments {
    #[command(flatten)]
    file: ExperimentFile,
    /// How many questions.
    #[arg(long)]
    size: Option<usize>,
    /// The chat model that writes and checks, by its name in the experiment file.
    #[arg(long)]
    model: Option<String>,
    /// Makes the choice of passages repeatable.
    #[arg(long)]
    seed: Option<u64>,
    /// A kind of question and its share, such as multi_hop=0.3; may be given more than once.
    #[arg(long = "kind", value_name = "KIND=SHARE", value_parser = parse_kind_share)]
    kinds: Vec<(QuestionKind, f64)>,
    /// How many personas the model makes up.
    #[arg(long, value_name = "N")]
    personas: Option<usize>,
    /// A style; several take turns: plain, web_search, misspelled, poor_grammar.
    #[arg(long = "style", value_parser = parse_name::<QuestionStyle>)]
    styles: Vec<QuestionStyle>,
    /// A length; several take turns: short, medium, long.
    #[arg(long = "length", value_parser = parse_name::<Length>)]
    lengths: Vec<Length>,
    /// Keep questions that the model answers without the documents.
    #[arg(long)]
    keep_known: bool,
    /// Split the questions by document: this share goes into the test split.
    #[arg(long, value_name = "SHARE")]
    test_share: Option<f64>,
    /// Where to. Default: the dataset's path.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    dry_run: DryRun,
    /// What it may cost, in US dollars.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars)]
    budget_usd: Option<f64>,
}

pub async fn run(cx: &CommandContext, arguments: GoldenArguments) -> Result<u8, CommandFailure> {
    match arguments.verb {
        GoldenVerb::Generate(arguments) => generate(cx, arguments).await,
        GoldenVerb::Attack(arguments) => attack::run(cx, arguments).await,
        GoldenVerb::Review { file, all } => review::run(cx, &file, all),
        GoldenVerb::Stats(arguments) => stats::run(cx, &arguments).await,
        GoldenVerb::Diff { before, after } => {
            let difference = DatasetDifference::between(&read_questions(&before)?, &read_questions(&after)?);
            cx.show(&difference, render::difference)?;
            Ok(u8::from(!difference.is_empty()))
        }
        GoldenVerb::Anchor { file, confirmation } => {
            let yes = confirmation.is_given("golden anchor", "replaces the locations of evidence in the dataset")?;
            anchor(cx, &file.experiment, yes).await
        }
        GoldenVerb::Split { file, test_share, seed, dry_run } => {
            let mut opened = open_questions(&file)?;
            let counts = opened
                .dataset
                .split(test_share, seed)
                .map_err(|error| CommandFailure::usage(format!("{}: {}", file.display(), lab::error_chain(&error))))?;
            note_ignored_columns(cx, &opened);
            if !dry_run.is_on {
                write_questions(&file, &opened)?;
            }
            cx.finish(&counts, |_| {
                format!(
                    "{}: {} tune and {} test questions, from {} groups of documents that share questions",
                    file.display(),
                    counts.tune,
                    counts.test,
                    counts.groups
                )
            })
        }
        GoldenVerb::Import { file, traffic, output, yes, dry_run } => {
            if !dry_run.is_on {
                refuse_to_replace(&output, yes)?;
            }
            let Some(file) = file else { return traffic::run(cx, &traffic, &output, yes, dry_run.is_on) };
            let opened = open_questions(&file)?;
            let report = opened.report();
            let format = writable_format(&output)?;
            let bytes = opened.dataset.export(format, ColumnSet::Reverie).map_err(CommandFailure::runtime)?;
            if !dry_run.is_on {
                write_new_file(&output, &bytes, yes)?;
            }
            cx.finish(&json!({ "file": output, "dataset": report }), |_| {
                format!("{}: {}", output.display(), render::dataset_report(&report).join("\n"))
            })
        }
        GoldenVerb::Export { file, columns, output, yes } => export(cx, &file, columns, &output, yes).await,
    }
}

async fn generate(cx: &CommandContext, arguments: GenerateArguments) -> Result<u8, CommandFailure> {
    cx.set_grace(PAID_CALLS_GRACE);
    let mut setup = lab::Setup { budget_usd: arguments.budget_usd, ..cx.setup() };
    setup.control.sends_batches = true;
    let session = environment::open(&arguments.file.experiment, setup)?;
    let spec = merge_spec(&session, &arguments)?;
    let dataset = session.experiment.dataset.as_ref();
    refuse_url(arguments.output.as_deref().or(dataset.map(|dataset| Path::new(&dataset.path))))?;
    let default = dataset.map(|dataset| session.experiment.path(&dataset.path));
    let output = arguments.output.clone().or(default).unwrap_or_else(|| PathBuf::from("golden.jsonl"));
    writable_format(&output)?;
    if !arguments.dry_run.is_on {
        refuse_to_replace(&output, arguments.yes)?;
    }
    let corpus = lab::load_corpus(&session).await?;
    note_unread_files(cx, &corpus);
    let documents = Documents::Corpus(&corpus);
    let passages = documents.passages().await?;
    let estimate = lab::estimate_golden(&session, &passages, &spec);
    let prices = session.experiment.models.get(&spec.model).and_then(::models::ModelConfig::prices);
    let summary = render::golden_estimate(&estimate, &spec, prices);
    if arguments.dry_run.is_on {
        cx.show(&estimate, |_| summary)?;
        corpus.end().await;
        return Ok(0);
    }
    cx.note(summary);
    let bar = render::GoldenBar::start(spec.options.size, environment::audience());
    let golden = lab::generate_golden(&session, &documents, &passages, &spec, |progress| bar.show(progress)).await;
    bar.finish();
    let is_read = corpus.unread.is_empty();
    corpus.end().await;
    let mut golden = golden?;
    // Questions that were paid for are written, split or not.
    let not_split =
        arguments.test_share.and_then(|share| golden.generated.dataset.split(share, spec.options.seed).err());
    golden.manifest.version = golden.generated.dataset.version();
    let paths = golden.write(&output, arguments.yes)?;
    cx.show(&json!({ "files": paths, "manifest": golden.manifest }), |_| render::golden(&golden.manifest, &paths))?;
    if let Some(error) = not_split {
        return Err(CommandFailure::runtime(format!(
            "the questions are written, but not split: {}",
            lab::error_chain(&error)
        )));
    }
    // Fewer questions than asked for are a result, but not a complete one.
    let is_whole = golden.generated.dataset.questions.len() >= spec.options.size && is_read;
    Ok(if is_whole { 0 } else { INCOMPLETE })
}

/// Refuses the URL of an object store before anything is paid: the questions are written
/// together with a manifest and the rejections, which needs a folder.
fn refuse_url(output: Option<&Path>) -> Result<(), CommandFailure> {
    match output.map(|output| output.display().to_string()).filter(|output| is_url(output)) {
        None => Ok(()),
        Some(output) => Err(CommandFailure::usage(format!(
            "{output} is on an object store, and generated questions are written into a folder: give `--output golden.jsonl`, \
             review them, and copy them with `reverie golden export golden.jsonl --output {output}`"
        ))),
    }
}

/// Merges the options of the file with those of the command line, which win.
fn merge_spec(session: &Session, arguments: &GenerateArguments) -> Result<GenerateSpec, CommandFailure> {
    let written = session.experiment.dataset.as_ref().and_then(|dataset| dataset.generate.clone());
    let model = arguments.model.clone().or_else(|| written.as_ref().map(|spec| spec.model.clone()));
    let model = model.ok_or_else(|| {
        CommandFailure::usage(
            "no model is named: give --model NAME, or `generate = { model = \"NAME\" }` under [dataset]",
        )
    })?;
    let config = session.experiment.models.get(&model).ok_or_else(|| {
        let known: Vec<&str> = session.experiment.models.keys().map(String::as_str).collect();
        CommandFailure::usage(format!(
            "there is no model `{model}` in the experiment file; there are {}",
            known.join(", ")
        ))
    })?;
    if config.kind() != ::models::ModelKind::Chat {
        let kind = config.kind().name();
        return Err(CommandFailure::usage(format!(
            "model `{model}` is of kind {kind}, but only a chat model writes questions"
        )));
    }
    let mut options = written.map(|spec| spec.options).unwrap_or_default();
    options.size = arguments.size.unwrap_or(options.size);
    options.seed = arguments.seed.unwrap_or(options.seed);
    options.n_personas = arguments.personas.unwrap_or(options.n_personas);
    options.closed_book &= !arguments.keep_known;
    if !arguments.kinds.is_empty() {
        options.kinds = arguments.kinds.iter().copied().collect();
    }
    if !arguments.styles.is_empty() {
        options.styles.clone_from(&arguments.styles);
    }
    if !arguments.lengths.is_empty() {
        options.lengths.clone_from(&arguments.lengths);
    }
    options.check().map_err(CommandFailure::usage)?;
    Ok(GenerateSpec { model, options })
}

async fn anchor(cx: &CommandContext, experiment: &Path, yes: bool) -> Result<u8, CommandFailure> {
    let session = environment::open(experiment, cx.setup())?;
    let Some(spec) = &session.experiment.dataset else {
        return Err(CommandFailure::usage(format!("{} has no [dataset]", experiment.display())));
    };
    if spec.path.is_empty() {
        let reason = "has its questions inline; they are anchored at each run";
        return Err(CommandFailure::usage(format!("{} {reason}", experiment.display())));
    }
    let path = session.experiment.path(&spec.path);
    let (mut opened, held) = open_questions_to_change(&path)?;
    let corpus = lab::load_corpus(&session).await?;
    note_unread_files(cx, &corpus);
    let anchored = Documents::Corpus(&corpus).anchor(&mut opened.dataset).await;
    corpus.end().await;
    let anchored = anchored?;
    let moved = anchored.moved();
    let AnchoredQuestions { lost, evidence: all, difference } = anchored;
    if yes && !difference.is_empty() {
        note_ignored_columns(cx, &opened);
        if key_of(&path)? != held {
            let reason = "was changed while the documents were read, and is left as it is: anchor again";
            return Err(CommandFailure::runtime(format!("{} {reason}", path.display())));
        }
        write_questions(&path, &opened)?;
    }
    let lines: Vec<String> = lost.iter().map(ToString::to_string).collect();
    cx.show(&json!({ "evidence": all, "moved_questions": moved, "lost": lines, "written": yes }), |_| {
        let then = if difference.is_empty() || yes { "" } else { "; nothing was written: add --yes to write them" };
        let (path, found) = (path.display(), all - lost.len());
        let summary = format!("{path}: {found} of {all} quotes found, {moved} questions with a new location{then}");
        lines.iter().chain([&summary]).map(String::as_str).collect::<Vec<_>>().join("\n")
    })?;
    Ok(if lost.is_empty() { 0 } else { INCOMPLETE })
}

async fn export(
    cx: &CommandContext,
    file: &Path,
    columns: ColumnSet,
    to: &str,
    yes: bool,
) -> Result<u8, CommandFailure> {
    let Some(format) = DatasetFormat::of_name(to) else {
        return Err(CommandFailure::usage(format!(
            "the name `{to}` does not say the format: end it with {}",
            DatasetFormat::all().endings()
        )));
    };
    let opened = open_questions(file)?;
    note_ignored_columns(cx, &opened);
    let dataset = opened.dataset;
    let with_turns = dataset.questions.iter().filter(|question| !question.turns.is_empty()).count();
    if with_turns > 0 && !columns.hold_turns() {
        cx.warn(format_args!(
            "{with_turns} questions come after earlier messages. These columns have no place for the messages: the questions are written without them"
        ));
    }
    let bytes = dataset.export(format, columns).map_err(CommandFailure::runtime)?;
    if is_url(to) {
        let (folder, name) = to.rsplit_once('/').unwrap_or((to, "golden"));
        let store = ArtifactStore::open(folder, &cx.setup().store_options, &NoLayout)?;
        if !store.put(name, bytes).await? {
            return Err(CommandFailure::runtime(format!("{to} is there already: choose another name")));
        }
    } else {
        let path = Path::new(to);
        if path.exists() && !yes {
            return Err(CommandFailure::usage(format!(
                "{to} is there already: choose another name, or --yes to replace it"
            )));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(CommandFailure::at(folder))?;
        }
        write_new_file(path, &bytes, yes)?;
    }
    cx.finish(&json!({ "file": to, "questions": dataset.questions.len() }), |_| {
        format!("{to}: {} questions", dataset.questions.len())
    })
}

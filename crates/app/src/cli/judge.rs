//! `reverie judge`: qualifies judges on labelled cases.

use crate::{
    command::{CommandContext, DryRun, ExperimentFile, PAID_CALLS_GRACE, read_questions, refuse_positional_experiment},
    environment,
    failure::CommandFailure,
    render,
};
use eval::verdict::Case;
use serde_json::json;
use std::path::PathBuf;

/// Try judges on labelled cases before their numbers count.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie judge                                  # the experiment's judges, on cases planted from its golden questions
  reverie judge --dry-run                        # how many calls, and what they should cost
  reverie judge qwen --cases labelled.jsonl
  reverie judge qwen gemma --cases labelled.jsonl --json

A case is a line of JSON: kind (supported, relevant or correct), question,
against (the context, the answer or the reference), item (the statement, the
passage or the answer), label (true or false). Planted cases pair golden
questions with their own evidence and with that of others.
Labels from the pages of `reverie ui` are cases too; they are in the file
judge.labels.jsonl beside the golden questions.
The result is kept: a metric of a qualified judge may be in `objective`.")]
pub struct JudgeArguments {
    /// The chat models, by their names in the experiment file. Default: its judges.
    models: Vec<String>,
    #[command(flatten)]
    file: ExperimentFile,
    /// Labelled cases, JSONL; may be given more than once.
    #[arg(long = "cases", value_name = "FILE")]
    cases: Vec<PathBuf>,
    /// How many cases to plant for each kind of verdict, from the golden questions. Default: 60, or none with --cases.
    #[arg(long, value_name = "N")]
    planted: Option<usize>,
    /// Leave out the labels that people gave on the pages of `reverie ui`.
    #[arg(long)]
    no_labels: bool,
    #[command(flatten)]
    dry_run: DryRun,
}

pub async fn run(cx: &CommandContext, arguments: JudgeArguments) -> Result<u8, CommandFailure> {
    cx.set_grace(PAID_CALLS_GRACE);
    refuse_positional_experiment(&arguments.models, "judge")?;
    let session = environment::open(&arguments.file.experiment, cx.setup())?;
    let experiment = &session.experiment;
    let models = if arguments.models.is_empty() { experiment.evaluate.judges.clone() } else { arguments.models };
    if models.is_empty() {
        return Err(CommandFailure::usage(
            "no judge: name a chat model of the experiment file, or add `judge` under [evaluate]",
        ));
    }
    let mut cases = Vec::new();
    for path in &arguments.cases {
        cases.extend(environment::read_lines::<Case>(path)?);
    }
    let wanted = lab::planted_count(arguments.planted, &cases);
    if wanted > 0 {
        let Some(dataset) = &experiment.dataset else {
            return Err(CommandFailure::usage(
                "cases are planted from golden questions, but there is no [dataset]: give --cases",
            ));
        };
        let golden = match dataset.inline() {
            Some(read) => read.map_err(|mistakes| CommandFailure::usage(mistakes.join("\n")))?.dataset,
            None => read_questions(&experiment.path(&dataset.path))?,
        };
        cases.extend(lab::planted_cases(&golden.questions, wanted));
    }
    if !arguments.no_labels {
        let path = lab::labels_path(experiment);
        let labelled = lab::labelled_cases(&path)?;
        if !labelled.is_empty() {
            let said = lab::board::counted(labelled.len(), "case");
            cx.note(format_args!("{said} from the labels of people in {}", path.display()));
        }
        cases.extend(labelled);
    }
    if cases.is_empty() {
        return Err(CommandFailure::usage(
            "there are no cases: golden questions with evidence give some, or --cases FILE",
        ));
    }
    if arguments.dry_run.is_on {
        let cost = lab::qualify_cost(&session, &models, &cases)?;
        return cx.finish(&json!({ "judges": models, "cases": cases.len(), "cost": cost }), |_| {
            format!("{} cases for {}{}", cases.len(), models.join(", "), render::estimate(&cost))
        });
    }
    let mut records = Vec::new();
    for model in &models {
        cx.note(format_args!("{model}: {} cases", cases.len()));
        records.push(lab::qualify(&session, model, &cases).await?);
    }
    cx.finish(&records, |records| render::qualifications(records))
}

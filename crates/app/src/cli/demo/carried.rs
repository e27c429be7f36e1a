//! `reverie demo`: a few manuals, their questions and an experiment that the program carries.

use super::{refuse_to_replace, show, write};
use crate::{
    command::{CommandContext, ask_trial, exit_code, finish_tracking, open_pipeline, run_experiment},
    environment,
    failure::CommandFailure,
    render,
};
use lab::{Board, EvidenceLoss, QuestionResult, Results, TrialResult};
use std::{fmt::Write, path::Path};

const EXPERIMENT: &str = include_str!("../../../../../examples/demo/experiment.toml");
const GOLDEN: &str = include_str!("../../../../../examples/demo/golden.jsonl");

macro_rules! manuals {
    ($( $name:literal ),+ $(,)?) => {
        [ $( (concat!("manuals/", $name), include_str!(concat!("../../../../../examples/demo/manuals/", $name))) ),+ ]
    };
}

/// Written for this demo: the stations do not exist.
const MANUALS: [(&str, &str); 6] = manuals![
    "heron-field.md",
    "heron-garden.md",
    "heron-harbour.md",
    "heron-roof.md",
    "heron-school.md",
    "heron-snow.md",
];

/// It is not one of the golden questions.
const QUESTION: &str = "Does the warranty of a Heron Roof cover damage by hail?";

pub(super) async fn run(cx: &CommandContext, folder: &Path) -> Result<u8, CommandFailure> {
    let files: Vec<(&str, String)> = [("experiment.toml", EXPERIMENT), ("golden.jsonl", GOLDEN)]
        .into_iter()
        .chain(MANUALS)
        .map(|(name, text)| (name, text.to_owned()))
        .collect();
    let own = refuse_to_replace(folder, &files)?;
    let corpus = folder.join("manuals");
    std::fs::create_dir_all(&corpus).map_err(CommandFailure::at(&corpus))?;
    write(folder, &files, own)?;
    let experiment = folder.join("experiment.toml");
    let complete = run_experiment(cx, environment::read(&experiment)?, None).await?;
    let board = Board::of(&complete.results);
    show(cx, &board, &complete.report)?;
    let whole = complete.whole_results().await?;
    if let Some(lost) = lost_question(&whole).filter(|_| !cx.json) {
        cx.print(format_args!("{lost} -f {}\n", experiment.display()));
    }
    let record = lab::latest_record(&complete.session).await?;
    let pipeline = open_pipeline(cx, &complete.session, &record, None).await?;
    let answered = ask_trial(&pipeline, QUESTION, &[], None).await?;
    let all = match cx.json {
        true => serde_json::json!({ "results": whole, "answered": answered, "report": complete.report }),
        false => serde_json::Value::Null,
    };
    cx.show(&all, |_| {
        let (answer, file) = (render::answer(&answered), experiment.display());
        format!(
            "question: {QUESTION}\n{answer}\n\n\
             ask another:         reverie query \"…\" -f {file}\n\
             look in a browser:   reverie ui -f {file}\n\
             your own documents:  reverie init FOLDER"
        )
    })?;
    finish_tracking(cx, complete.tracking).await;
    Ok(exit_code(&complete.results))
}

/// Says, and ends with a command that shows it, why the trial that is most like the first one does not find the evidence of a question that the first one
/// finds. None if there is no such question.
fn lost_question(results: &Results) -> Option<String> {
    let answering = results.answering(None).ok()?.trial;
    let best = results.trials.iter().find(|trial| trial.trial.id == answering)?;
    let others = results.trials.iter().filter(|trial| trial.trial.id != answering);
    // The first of the leaderboard among those with the fewest other settings.
    let other = others.min_by_key(|other| differing(best, other).len())?;
    let pairs = best.questions.iter().zip(&other.questions);
    let (found, lost, item) =
        pairs.filter_map(|(found, lost)| Some((found, lost, evidence_of_loss(found, lost)?))).next()?;
    let golden = results.questions.iter().find(|golden| golden.id == found.question)?;
    let evidence = golden.evidence.first()?;
    let settings = differing_words(best, other);
    let (best, other) = (&best.trial.id, &other.trial.id);
    let mut text = format!("one question that {other} loses: {}\n", golden.question);
    let _ = writeln!(text, "  the evidence, in {}: {}", evidence.document, evidence.quote);
    let rank = found.loss.as_ref()?.evidence.first()?.rank?;
    let _ = writeln!(text, "  {best} finds it at rank {rank}");
    let kept = lost.passages.len();
    let _ = write!(text, "  {other} finds it at rank {}, and gives the first {kept}", item.rank?);
    if let Some(chunk) = &item.chunk {
        let _ = write!(text, ": its chunk shares with the question only the stems {}", chunk.shared_terms.join(", "));
    }
    if let Some(first) = lost.passages.first() {
        let heading = first.heading.as_deref().unwrap_or_default();
        let _ = write!(text, "\n  in its place, first: {}, {heading}", first.document);
    }
    let _ =
        write!(text, "\n  what differs between the two: {settings}\n  all of it: reverie show {other} {}", golden.id);
    Some(text)
}

/// The lost piece of evidence, if one question was lost in the search of the second trial only.
fn evidence_of_loss<'a>(found: &QuestionResult, lost: &'a QuestionResult) -> Option<&'a EvidenceLoss> {
    let is_lost = found.loss.as_ref()?.step.is_loss();
    let loss = lost.loss.as_ref().filter(|loss| !is_lost && loss.rank.is_some())?;
    loss.evidence.iter().find(|item| item.step.is_some())
}

/// The names of the axes on which the two differ.
fn differing<'a>(one: &'a TrialResult, other: &TrialResult) -> Vec<&'a str> {
    let labels = one.trial.labels.iter();
    labels.filter(|(axis, label)| other.trial.labels.get(*axis) != Some(label)).map(|(axis, _)| axis.as_str()).collect()
}

fn differing_words(one: &TrialResult, other: &TrialResult) -> String {
    let value = |trial: &TrialResult, axis: &str| {
        let label = trial.trial.labels.get(axis).map_or("none", String::as_str);
        format!("{label} ({})", trial.trial.id)
    };
    let words = |axis: &&str| format!("{axis} {}, {}", value(one, axis), value(other, axis));
    differing(one, other).iter().map(words).collect::<Vec<_>>().join("; ")
}

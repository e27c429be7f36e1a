//! `reverie golden review`: a person looks at every question.

use super::{Context, Failure, read, write};
use eval::{Dataset, Question, dataset::Review};
use std::{
    io::{BufRead, Write},
    path::Path,
};

const KEYS: &str = "[a]ccept  [e]dit  [r]eject  [n]ext  [b]ack  [q]uit > ";

/// Shows questions until all were seen or the person ends. Every decision is
/// written at once, so that nothing is lost.
pub fn run(cx: &Context, path: &Path, all: bool) -> Result<u8, Failure> {
    let mut dataset = read(path)?;
    let mut input = std::io::stdin().lock();
    let mut at = 0;
    let mut decided = 0;
    while at < dataset.questions.len() {
        if !all && dataset.questions[at].review.is_some() {
            at += 1;
            continue;
        }
        cx.print(show(&dataset, at));
        match ask(&mut input, KEYS)?.as_deref().map(str::trim) {
            Some("a") => {
                dataset.questions[at].review = Some(Review::Accepted);
                write(path, &dataset)?;
                (at, decided) = (at + 1, decided + 1);
            }
            Some("e") => {
                edit(&mut input, &mut dataset.questions[at])?;
                write(path, &dataset)?;
                (at, decided) = (at + 1, decided + 1);
            }
            Some("r") => {
                let rejected = dataset.questions.remove(at);
                keep(path, &rejected)?;
                write(path, &dataset)?;
                decided += 1;
            }
            Some("n" | "") => at += 1,
            Some("b") => at = at.saturating_sub(1),
            Some("q") | None => break,
            Some(other) => cx.note(format_args!("`{other}` is none of the keys")),
        }
    }
    let open = dataset.questions.iter().filter(|question| question.review.is_none()).count();
    cx.print(format_args!(
        "{decided} decided now; {} of {} reviewed, {open} open",
        dataset.questions.len() - open,
        dataset.questions.len()
    ));
    Ok(0)
}

fn show(dataset: &Dataset, at: usize) -> String {
    let question = &dataset.questions[at];
    let kind = question.origin.as_ref().map_or("written", |origin| origin.kind.name());
    let mut text = format!(
        "\n── {} of {} · {kind} · {}\nquestion:  {}\nreference: {}\n",
        at + 1,
        dataset.questions.len(),
        question.id,
        question.question,
        question.reference.as_deref().unwrap_or(if question.answerable { "–" } else { "the documents do not say" })
    );
    for evidence in &question.evidence {
        text.push_str(&format!("evidence:  “{}”\n           {}\n", evidence.quote, evidence.document));
    }
    text
}

/// A line, without its end; none at the end of the input.
fn ask(input: &mut impl BufRead, prompt: &str) -> Result<Option<String>, Failure> {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(prompt.as_bytes()).and_then(|()| stderr.flush());
    let mut line = String::new();
    let n_bytes = input.read_line(&mut line).map_err(Failure::work)?;
    Ok((n_bytes > 0).then(|| line.trim_end().to_owned()))
}

/// New words for question and reference; an empty line keeps the old ones.
/// The id stays: it is still the same question.
fn edit(input: &mut impl BufRead, question: &mut Question) -> Result<(), Failure> {
    if let Some(text) = ask(input, "question (empty keeps it) > ")?.filter(|text| !text.trim().is_empty()) {
        question.question = text;
    }
    if let Some(text) = ask(input, "reference (empty keeps it) > ")?.filter(|text| !text.trim().is_empty()) {
        question.reference = Some(text);
    }
    question.review = Some(Review::Edited);
    Ok(())
}

/// Adds a question to those that were rejected.
fn keep(path: &Path, question: &Question) -> Result<(), Failure> {
    let target = path.with_extension("rejected.jsonl");
    let line = serde_json::json!({ "reason": "review", "question": question.question, "removed": question });
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&target);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.map_err(|error| Failure::work(format!("{}: {error}", target.display())))
}

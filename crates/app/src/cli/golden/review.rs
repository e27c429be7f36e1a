//! `reverie golden review`: a person looks at every question.
//!
//! Every decision is in the file before the next question is shown, so a
//! process that is killed loses none. Rejecting a question changes two files:
//! the question is added to the rejected ones before it leaves the dataset.
//! Taking it back adds it to the dataset before it leaves the rejected ones. So
//! between the two steps the question is in both files and never in neither.

use crate::{
    command::{CommandContext, key_of, note_ignored_columns, open_questions_to_change},
    failure::CommandFailure,
};
use eval::{
    Question,
    dataset::{DatasetFile, Review},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, Write},
    path::{Path, PathBuf},
};
use store::Key;

const KEYS: &str = "[a]ccept  [e]dit  [r]eject  [n]ext  [b]ack  [q]uit > ";

/// Shows questions until all were seen or the person quits.
pub fn run(cx: &CommandContext, path: &Path, all: bool) -> Result<u8, CommandFailure> {
    let mut review = ReviewSession::start(path)?;
    note_ignored_columns(cx, &review.file);
    let mut input = std::io::stdin().lock();
    // Positions in the original file: of the present question, of those shown before
    // it, and of the question that `b` went back to.
    let (mut at, mut shown, mut again, mut decided) = (0, Vec::new(), None, 0);
    while at < review.questions.len() {
        let (question, state) = &review.questions[at];
        let is_open = *state == ReviewState::Kept && (all || question.review.is_none());
        if !is_open && again != Some(at) {
            at += 1;
            continue;
        }
        cx.print(review.show(at));
        let key = ask(&mut input, KEYS)?;
        let is_decision = match key.as_deref().map(str::trim) {
            Some("a") => {
                review.decide(at, Question::accept)?;
                true
            }
            Some("e") => {
                let mut edited = review.questions[at].0.clone();
                edit(&mut input, &mut edited)?;
                review.decide(at, |question| *question = edited)?;
                true
            }
            Some("r") => {
                review.reject(at)?;
                true
            }
            Some("n" | "") => false,
            Some("b") => {
                match shown.pop() {
                    Some(before) => (at, again) = (before, Some(before)),
                    None => cx.note("this is the first one that was shown"),
                }
                continue;
            }
            Some("q") | None => break,
            Some(other) => {
                cx.note(format_args!("`{other}` is none of the keys"));
                continue;
            }
        };
        decided += usize::from(is_decision);
        shown.push(at);
        at += 1;
    }
    let kept = || review.questions.iter().filter(|(_, state)| *state == ReviewState::Kept);
    let open = kept().filter(|(question, _)| question.review.is_none()).count();
    let all = kept().count();
    cx.print(format_args!("{decided} decided now; {} of {all} reviewed, {open} open", all - open));
    Ok(0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReviewState {
    /// In the dataset.
    Kept,
    /// In the file of rejected questions.
    Rejected,
}

/// A dataset that is being reviewed.
struct ReviewSession {
    path: PathBuf,
    /// The key of the file's content when it was last read or written here.
    written: Key,
    file: DatasetFile,
    /// All questions, rejected ones too, in the order of the file.
    questions: Vec<(Question, ReviewState)>,
}

impl ReviewSession {
    fn start(path: &Path) -> Result<Self, CommandFailure> {
        let (file, written) = open_questions_to_change(path)?;
        let questions = file.dataset.questions.iter().map(|question| (question.clone(), ReviewState::Kept)).collect();
        Ok(Self { path: path.to_owned(), written, file, questions })
    }

    /// Changes a question, which is then in the dataset, and writes the file.
    fn decide(&mut self, at: usize, change: impl FnOnce(&mut Question)) -> Result<(), CommandFailure> {
        let (question, state) = &mut self.questions[at];
        let was = std::mem::replace(state, ReviewState::Kept);
        change(question);
        self.write()?;
        if was == ReviewState::Rejected {
            self.forget_rejection(at)?;
        }
        Ok(())
    }

    /// Takes a question out of the dataset and keeps it among the rejected ones.
    fn reject(&mut self, at: usize) -> Result<(), CommandFailure> {
        if self.questions[at].1 == ReviewState::Rejected {
            return Ok(());
        }
        let kept = self.questions.iter().filter(|(_, state)| *state == ReviewState::Kept).count();
        if kept == 1 {
            return Err(CommandFailure::usage(format!(
                "{}: this is the last question that is left; remove the file yourself",
                self.path.display()
            )));
        }
        self.questions[at].1 = ReviewState::Rejected;
        let question = &self.questions[at].0;
        let mut lines = read_rejected(&self.path)?;
        lines.push(question.rejection().to_string());
        self.write_rejected(&lines)?;
        self.write()
    }

    /// Takes a question out of the rejected ones.
    fn forget_rejection(&self, at: usize) -> Result<(), CommandFailure> {
        let id = &self.questions[at].0.id;
        let mut lines = read_rejected(&self.path)?;
        let is_it = |line: &String| {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            line["reason"] == "review" && line["removed"]["id"] == json!(id)
        };
        if let Some(last) = lines.iter().rposition(is_it) {
            lines.remove(last);
        }
        self.write_rejected(&lines)
    }

    fn write_rejected(&self, lines: &[String]) -> Result<(), CommandFailure> {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        Ok(lab::write_whole(&rejected_path(&self.path), text.as_bytes())?)
    }

    /// Writes the dataset, unless another program changed it meanwhile.
    fn write(&mut self) -> Result<(), CommandFailure> {
        if key_of(&self.path)? != self.written {
            return Err(CommandFailure::runtime(format!(
                "{}: another program wrote it during this review; earlier decisions are kept, the last one is not: \
                 review again",
                self.path.display()
            )));
        }
        let kept = self.questions.iter().filter(|(_, state)| *state == ReviewState::Kept);
        self.file.dataset.questions = kept.map(|(question, _)| question.clone()).collect();
        let bytes = self.file.to_bytes().map_err(|error| CommandFailure::runtime(lab::error_chain(&error)))?;
        lab::write_whole(&self.path, &bytes)?;
        self.written = Key::of_bytes(&bytes);
        Ok(())
    }

    fn show(&self, at: usize) -> String {
        let (question, state) = &self.questions[at];
        let kind = question.origin.as_ref().map_or("written", |origin| origin.kind.name());
        let decision = match (state, question.review) {
            (ReviewState::Rejected, _) => " · rejected",
            (ReviewState::Kept, Some(Review::Accepted)) => " · accepted",
            (ReviewState::Kept, Some(Review::Edited)) => " · edited",
            (ReviewState::Kept, None) => "",
        };
        let mut text = format!(
            "\n── {} of {} · {kind} · {}{decision}\n{}question:  {}\nreference: {}\n",
            at + 1,
            self.questions.len(),
            question.id,
            crate::render::turns(question, "           "),
            question.question,
            question.reference.as_deref().unwrap_or(if question.answerable {
                "–"
            } else {
                "the documents do not say"
            })
        );
        if let Some(draft) = &question.draft {
            text.push_str(&format!(
                "draft:     {draft}\n           a system's answer; accepting makes it the reference\n"
            ));
        }
        for evidence in &question.evidence {
            text.push_str(&format!("evidence:  “{}”\n           {}\n", evidence.quote, evidence.document));
        }
        text
    }
}

fn rejected_path(path: &Path) -> PathBuf {
    path.with_extension("rejected.jsonl")
}

/// The lines of the file of rejected questions.
fn read_rejected(path: &Path) -> Result<Vec<String>, CommandFailure> {
    let path = rejected_path(path);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(CommandFailure::at(&path)(error)),
    }
}

/// Asks for a line of input; `None` at the end of the input.
fn ask(input: &mut impl BufRead, prompt: &str) -> Result<Option<String>, CommandFailure> {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(prompt.as_bytes()).and_then(|()| stderr.flush());
    let mut line = String::new();
    let n_bytes = input.read_line(&mut line).map_err(CommandFailure::runtime)?;
    Ok((n_bytes > 0).then(|| line.trim_end().to_owned()))
}

/// Asks for a new question and reference; an empty line keeps the old text.
fn edit(input: &mut impl BufRead, question: &mut Question) -> Result<(), CommandFailure> {
    let text = ask(input, "question (empty keeps it) > ")?.unwrap_or_default();
    let keeps = if question.draft.is_some() { "empty takes the draft, - leaves it out" } else { "empty keeps it" };
    let reference = ask(input, &format!("reference ({keeps}) > "))?.unwrap_or_default();
    let leaves_out = question.draft.is_some() && reference.trim() == "-";
    if leaves_out {
        question.draft = None;
    }
    question.edit(&text, if leaves_out { "" } else { &reference });
    Ok(())
}

//! `reverie golden review`: a person looks at every question.
//!
//! Every decision is in the log of reviews and in the file before the next question is shown, so a process that is killed
//! loses none. Others may review the same file at the same time, here or on the pages of `reverie ui`.

use crate::{
    command::{CommandContext, note_ignored_columns, open_questions},
    environment,
    failure::CommandFailure,
};
use eval::Question;
use lab::{Decision, ReviewDesk, ReviewedQuestion, review_state};
use std::{
    io::{BufRead, Write},
    path::Path,
};

const KEYS: &str = "[a]ccept  [e]dit  [r]eject  [n]ext  [b]ack  [q]uit > ";

/// Shows questions until all were seen or the person quits.
pub fn run(cx: &CommandContext, path: &Path, all: bool) -> Result<u8, CommandFailure> {
    if lab::has_unwritten_decisions(path)? {
        // A process that was killed has left them. They may be all that there is of the dataset.
        ReviewDesk::open(path)?.write()?;
    }
    note_ignored_columns(cx, &open_questions(path)?);
    let mut review = ReviewSession::start(path)?;
    let mut input = std::io::stdin().lock();
    // Positions in the original file: of the present question, of those shown before
    // it, and of the question that `b` went back to.
    let (mut at, mut shown, mut again, mut decided) = (0, Vec::new(), None, 0);
    while at < review.questions.len() {
        let ReviewedQuestion { question, is_rejected, .. } = &review.questions[at];
        let is_open = !is_rejected && (all || question.review.is_none());
        if !is_open && again != Some(at) {
            at += 1;
            continue;
        }
        cx.print(review.show(at));
        let key = ask(&mut input, KEYS)?;
        let is_decision = match key.as_deref().map(str::trim) {
            Some("a") => {
                review.decide(at, Decision::Accept {})?;
                true
            }
            Some("e") => {
                let edited = edit(&mut input, &review.questions[at].question)?;
                review.decide(at, edited)?;
                true
            }
            Some("r") => {
                if !review.questions[at].is_rejected {
                    review.decide(at, Decision::Reject {})?;
                }
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
    let kept = || review.questions.iter().filter(|reviewed| !reviewed.is_rejected);
    let open = kept().filter(|reviewed| reviewed.question.review.is_none()).count();
    let all = kept().count();
    cx.print(format_args!("{decided} decided now; {} of {all} reviewed, {open} open", all - open));
    Ok(0)
}

/// A dataset that is being reviewed in a terminal.
struct ReviewSession {
    desk: ReviewDesk,
    /// Who reviews.
    by: String,
    /// All questions, rejected ones too, in the order of the file.
    questions: Vec<ReviewedQuestion>,
}

impl ReviewSession {
    fn start(path: &Path) -> Result<Self, CommandFailure> {
        let desk = ReviewDesk::open(path)?;
        let by = environment::environment_variable("USER").unwrap_or_else(|| "reverie golden review".to_owned());
        Ok(Self { by, questions: desk.questions(), desk })
    }

    fn decide(&mut self, at: usize, decision: Decision) -> Result<(), CommandFailure> {
        let id = self.questions[at].question.id.clone();
        self.desk.decide(&self.by, &id, decision, None).map_err(|error| {
            let reason = lab::error_chain(&error);
            CommandFailure::usage(format!("{}: {reason}", self.desk.path().display()))
        })?;
        self.desk.write()?;
        self.questions[at] = self.desk.question(&id).unwrap_or_else(|| self.questions[at].clone());
        Ok(())
    }

    fn show(&self, at: usize) -> String {
        let reviewed = &self.questions[at];
        let question = &reviewed.question;
        let kind = question.origin.as_ref().map_or("written", |origin| origin.kind.name());
        let decision = match review_state(reviewed) {
            "open" => String::new(),
            state => format!(" · {state}"),
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

/// Asks for a line of input; `None` at the end of the input.
fn ask(input: &mut impl BufRead, prompt: &str) -> Result<Option<String>, CommandFailure> {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(prompt.as_bytes()).and_then(|()| stderr.flush());
    let mut line = String::new();
    let n_bytes = input.read_line(&mut line).map_err(CommandFailure::runtime)?;
    Ok((n_bytes > 0).then(|| line.trim_end().to_owned()))
}

/// Asks for a new question and reference; an empty line keeps the old text.
fn edit(input: &mut impl BufRead, question: &Question) -> Result<Decision, CommandFailure> {
    let text = ask(input, "question (empty keeps it) > ")?.unwrap_or_default();
    let keeps = if question.draft.is_some() { "empty takes the draft, - leaves it out" } else { "empty keeps it" };
    let reference = ask(input, &format!("reference ({keeps}) > "))?.unwrap_or_default();
    let leaves_out = question.draft.is_some() && reference.trim() == "-";
    let some = |text: String| Some(text).filter(|text| !text.trim().is_empty());
    Ok(Decision::Edit {
        question: some(text),
        // Without a reference of its own, the question would get the draft.
        reference: if leaves_out {
            question.reference.clone().or_else(|| Some(String::new()))
        } else {
            some(reference)
        },
        evidence: None,
        tags: None,
    })
}

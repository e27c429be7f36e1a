//! A prompt of the user's own, in a TOML file whose path is the value of the axis.
//!
//! ```toml
//! system = "Answer from the sources. Cite them as [1]. If they do not answer, say: {no_answer}"
//! user = """
//! {sources}
//! Question: {question}"""
//! answer_after = "Answer:"          # optional: what stands before it is thinking, and is not shown
//!
//! [[examples]]                      # optional, any number
//! sources = ["The mill was built in 1712."]
//! question = "When was the mill built?"
//! answer = "In 1712 [1]."
//! ```
//!
//! `{sources}` and `{question}` must stand in `user`, each once; `{no_answer}`, the
//! sentence with which the model says that it found no answer, may stand in `system`.
//! Anything else in braces is refused, with its line; `{{word}}` is
//! `{word}` as it stands. Sources are numbered, fenced and escaped. Where a
//! generator makes several calls for a question, the draft and what to do with it
//! stand behind the sources. Examples are shown as earlier turns, in the same form.
//! To make the model think first, ask for it, and for a word before the answer, and
//! give that word as `answer_after`; if it never comes, the whole reply is the answer.
//! What the file holds is part of the key of every answer; its path is not.
//!
//! It pays to compare a few: the words of a prompt move the scores of small models
//! by as much as another retriever does. It does not pay to compare many on few
//! questions: the best of twenty is partly luck. Trials that cannot be told apart
//! stand in one group of the leaderboard.

use super::no_answer;
use crate::fence;
use models::Message;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

const SOURCES: &str = "sources";
const QUESTION: &str = "question";
const NO_ANSWER_SLOT: &str = "no_answer";

/// `{word}` or `{{word}}`.
#[expect(clippy::expect_used, reason = "a constant pattern; the tests compile it")]
static SLOT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{\{([A-Za-z_]+)\}\}|\{([A-Za-z_]+)\}").expect("the pattern is valid"));

/// The text of a file with a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    template: String,
}

/// The parsed file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParsedTemplate {
    system: String,
    user: String,
    answer_after: Option<String>,
    #[serde(default)]
    examples: Vec<PromptExample>,
}

/// A question that is shown with its answer before the real one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptExample {
    #[serde(default)]
    sources: Vec<String>,
    question: String,
    answer: String,
}

/// What is wrong with a prompt of the user's own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("the file is empty")]
    Empty,
    #[error("line {line}: {message}")]
    Toml { line: usize, message: String },
    #[error("`user` lacks {{{0}}}: the model would not see it")]
    NoSlot(&'static str),
    #[error("`user` has {{{slot}}} {times} times: put it there once")]
    SlotTwice { slot: &'static str, times: usize },
    #[error("`answer_after` is empty: leave it out, or give the words before the answer")]
    NoMark,
    #[error(
        "line {line}: {slot} stands for nothing in `{key}`: there is {known}; write {{{slot}}} for the word in braces"
    )]
    UnknownSlot { line: usize, slot: String, key: String, known: String },
}

impl Template {
    pub(crate) fn is_empty(&self) -> bool {
        self.template.is_empty()
    }

    /// The text of a file, checked. The error says what is wrong, with the line.
    pub(crate) fn read(text: &str) -> Result<Self, TemplateError> {
        let template = Self { template: text.to_owned() };
        if text.trim().is_empty() {
            return Err(TemplateError::Empty);
        }
        template.parse().map(|_| template)
    }

    /// Parses and checks the text. The error says what is wrong, with the line.
    pub(crate) fn parse(&self) -> Result<ParsedTemplate, TemplateError> {
        let parsed: ParsedTemplate = toml::from_str(&self.template).map_err(|error| {
            let line = error.span().map(|span| self.line(span.start)).unwrap_or_default();
            TemplateError::Toml { line, message: error.message().to_owned() }
        })?;
        self.check_slots("system", &parsed.system, &[NO_ANSWER_SLOT])?;
        self.check_slots("user", &parsed.user, &[SOURCES, QUESTION])?;
        for slot in [SOURCES, QUESTION] {
            match slots(&parsed.user).filter(|found| *found == slot).count() {
                1 => {}
                0 => return Err(TemplateError::NoSlot(slot)),
                times => return Err(TemplateError::SlotTwice { slot, times }),
            }
        }
        if parsed.answer_after.as_deref().is_some_and(|mark| mark.trim().is_empty()) {
            return Err(TemplateError::NoMark);
        }
        Ok(parsed)
    }

    /// Checks that a text has only these slots.
    fn check_slots(&self, key: &str, text: &str, known: &[&str]) -> Result<(), TemplateError> {
        let Some(unknown) = slots(text).find(|slot| !known.contains(slot)) else { return Ok(()) };
        let slot = format!("{{{unknown}}}");
        let line = self.line(self.template.find(&slot).unwrap_or_default());
        let known: Vec<String> = known.iter().map(|slot| format!("{{{slot}}}")).collect();
        Err(TemplateError::UnknownSlot { line, slot, key: key.to_owned(), known: known.join(" and ") })
    }

    /// The line of a byte, from 1.
    fn line(&self, byte: usize) -> usize {
        1 + self.template.bytes().take(byte).filter(|&byte| byte == b'\n').count()
    }
}

fn slots(text: &str) -> impl Iterator<Item = &str> {
    SLOT.captures_iter(text).filter_map(|found| found.get(2)).map(|slot| slot.as_str())
}

/// Fills the slots of a text. Slots in a value are not filled.
fn fill_slots(text: &str, value: impl Fn(&str) -> String) -> String {
    let replaced = SLOT.replace_all(text, |found: &regex::Captures<'_>| match (found.get(1), found.get(2)) {
        (Some(literal), _) => format!("{{{}}}", literal.as_str()),
        (_, Some(slot)) => value(slot.as_str()),
        _ => String::new(),
    });
    replaced.into_owned()
}

impl ParsedTemplate {
    /// The messages of a call. `sources` holds fenced sources and drafts, and the
    /// instruction for them.
    pub(crate) fn messages(&self, sources: &str, question: &str) -> Vec<Message> {
        let user = |sources: &str, question: &str| {
            fill_slots(&self.user, |slot| match slot {
                SOURCES => sources.trim_end().to_owned(),
                _ => fence::neutral(question.trim()).into_owned(),
            })
        };
        let system = fill_slots(&self.system, |_| no_answer(question).to_owned());
        let mut messages = vec![Message::system(system)];
        for PromptExample { sources, question, answer } in &self.examples {
            let sources: String = (1..)
                .zip(sources)
                .map(|(i, text)| format!("<source id=\"{i}\">\n{}\n</source>\n", text.trim()))
                .collect();
            messages.push(Message::user(user(&sources, question)));
            messages.push(Message::assistant(answer.trim()));
        }
        messages.push(Message::user(user(sources, question)));
        messages
    }

    /// The answer in a reply: what stands behind the mark, if there is one.
    pub(crate) fn answer<'a>(&self, reply: &'a str) -> &'a str {
        let mark = self.answer_after.as_deref().map(str::trim);
        mark.and_then(|mark| reply.rsplit_once(mark)).map_or(reply, |(_, answer)| answer)
    }

    /// The part of a reply, which is not complete yet, that can be shown as the answer. With
    /// a mark that is nothing, even behind the mark.
    pub(crate) fn answer_so_far<'a>(&self, reply: &'a str) -> &'a str {
        match self.answer_after.as_deref().map(str::trim) {
            // The answer stands behind the last mark, and another mark may follow until the reply is complete.
            Some(_) => "",
            None => reply,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::NO_ANSWER;
    use models::Role;

    const GOOD: &str = "system = \"Say {no_answer} or {{this}}.\"\nuser = \"\"\"\n{sources}\nQ: {question}\"\"\"\n";

    fn wrong(text: &str) -> String {
        Template::read(text).unwrap_err().to_string()
    }

    fn parsed(text: &str) -> ParsedTemplate {
        Template::read(text).unwrap().parse().unwrap()
    }

    #[test]
    fn slots_are_filled_and_what_fills_them_is_not_looked_at() {
        let messages = parsed(GOOD).messages("<source>{question}</source>\n", "Who {sources}?");
        assert_eq!(messages[0].content, format!("Say {NO_ANSWER} or {{this}}."));
        assert_eq!(messages[1].content, "<source>{question}</source>\nQ: Who {sources}?");
        assert_eq!(messages.len(), 2);
    }

    #[test]
    fn examples_are_earlier_turns_in_the_same_form() {
        let text =
            format!("{GOOD}[[examples]]\nsources = [\"Old.\"]\nquestion = \"How old?\"\nanswer = \"Old [1].\"\n");
        let messages = parsed(&text).messages("S\n", "Q?");
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User]);
        assert_eq!(messages[1].content, "<source id=\"1\">\nOld.\n</source>\nQ: How old?");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let unknown = wrong("system = \"a\"\nuser = \"\"\"\n{sources}\n{contxt} {question}\"\"\"\n");
        assert!(unknown.starts_with("line 4: {contxt} stands for nothing in `user`"), "{unknown}");
        assert!(unknown.contains("{{contxt}}"), "{unknown}");
        assert!(wrong("system = \"{sources}\"\nuser = \"{sources}{question}\"").contains("line 1: {sources}"));
        assert!(wrong("system = \"a\"\nuser = \"{sources}\"").contains("`user` lacks {question}"));
        assert!(wrong("system = \"a\"\nuser = \"{sources}{sources}{question}\"").contains("{sources} 2 times"));
        let other_key = wrong("system = \"a\"\nuser = \"{sources}{question}\"\nstyle = 1\n");
        assert!(other_key.contains("line 3") && other_key.contains("style"), "{other_key}");
        assert!(wrong("system = ").contains("line 1"));
        assert!(wrong(" \n").contains("is empty"));
        assert!(wrong(&format!("answer_after = \" \"\n{GOOD}")).contains("answer_after"));
    }

    #[test]
    fn what_was_thought_before_the_answer_is_no_part_of_it() {
        let thinking = parsed(&format!("answer_after = \"Answer:\"\n{GOOD}"));
        assert_eq!(thinking.answer("It says 1712. Answer: In 1712 [1].").trim(), "In 1712 [1].");
        assert_eq!(thinking.answer("In 1712."), "In 1712.", "the mark never came");
        assert_eq!(thinking.answer_so_far("It says"), "");
        assert_eq!(parsed(GOOD).answer_so_far("It says"), "It says");
    }
}

//! Makes golden questions from the traffic of a service.
//!
//! When to use it: for the lines that `serve --traffic` kept, with the feedback of
//! users. A pipeline should be chosen by what is asked in production.
//!
//! Equal and nearly equal questions are merged; see `traffic/selection.rs`.
//!
//! The answer of the service is at most a draft for the reviewer of the question,
//! and its passages are no evidence: otherwise the system would be its own judge.

mod selection;

use super::{
    Dataset, Question,
    turns::{self, TurnsError},
};
use models::Message;
use selection::{CountedQuestion, normalize, select, turns_text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The feedback of a user on an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserVerdict {
    /// The answer helped.
    Up,
    /// The answer did not help.
    Down,
}

/// Which questions are selected.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficChoice {
    /// Only questions with this feedback.
    pub only: Option<UserVerdict>,
    /// The most questions; all if not set.
    pub size: Option<usize>,
    /// Whether the selected questions differ from each other as much as possible.
    /// Otherwise those with bad answers come first, then the most frequent.
    pub spread: bool,
    /// The share of common words and pairs of words from which on two questions are
    /// nearly equal: above 0, at most 1. Default 0.8.
    pub similarity: f64,
    /// Whether the answer becomes [`Question::draft`]. Default no. An answer with
    /// negative feedback never does.
    pub drafts: bool,
}

impl Default for TrafficChoice {
    fn default() -> Self {
        Self { only: None, size: None, spread: false, similarity: 0.8, drafts: false }
    }
}

/// A line that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Counts of all lines: `lines` is the sum of `bad_lines`, `shadows`, `equal`,
/// `similar`, `without_verdict`, `beyond_size` and `questions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TrafficReport {
    /// Lines of traffic that are not blank.
    pub lines: usize,
    /// Lines that could not be used.
    pub bad_lines: Vec<BadLine>,
    /// Lines with the answer of a shadow. The same question is in the line of the
    /// answer that the user got.
    pub shadows: usize,
    /// Lines with the same question as an earlier one.
    pub equal: usize,
    /// Questions that are nearly equal to another.
    pub similar: usize,
    /// Questions without the requested feedback.
    pub without_verdict: usize,
    /// Questions beyond the requested size.
    pub beyond_size: usize,
    /// Selected questions.
    pub questions: usize,
    /// Selected questions with earlier messages.
    pub follow_ups: usize,
    /// Selected questions with a draft of an answer.
    pub drafts: usize,
    /// Lines of feedback that are not blank.
    pub feedback: usize,
    /// Lines of feedback that could not be used.
    pub bad_feedback: Vec<BadLine>,
    /// Answers with feedback whose question is not in the traffic, because a service
    /// keeps only a share of it.
    pub feedback_elsewhere: usize,
    /// Lines of traffic without an id, which cannot have feedback.
    pub without_id: usize,
}

/// Questions from traffic, and counts of what was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficQuestions {
    /// The questions, which are not reviewed.
    pub dataset: Dataset,
    /// Counts of all lines.
    pub report: TrafficReport,
}

/// The fields of a line of traffic that are used.
#[derive(Deserialize)]
struct TrafficLine {
    id: Option<String>,
    question: String,
    #[serde(default)]
    turns: Value,
    answer: Option<String>,
    role: Option<String>,
}

#[derive(Deserialize)]
struct FeedbackLine {
    request_id: String,
    verdict: UserVerdict,
}

/// Makes questions from lines of traffic and of feedback. Lines that cannot be used
/// are reported, and the others are used.
pub fn import_traffic(traffic: &[u8], feedback: Option<&[u8]>, choice: &TrafficChoice) -> TrafficQuestions {
    let mut report = TrafficReport::default();
    let mut verdicts: HashMap<String, UserVerdict> = HashMap::new();
    for (line, read) in lines::<FeedbackLine>(feedback.unwrap_or_default()) {
        report.feedback += 1;
        match read {
            // The last feedback for a request wins.
            Ok(feedback) => {
                verdicts.insert(request_id(&feedback.request_id).to_owned(), feedback.verdict);
            }
            Err(error) => report.bad_feedback.push(BadLine { line, reason: error.to_string() }),
        }
    }
    let mut known: HashSet<String> = HashSet::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut asked: Vec<CountedQuestion> = Vec::new();
    for (number, read) in lines::<TrafficLine>(traffic) {
        report.lines += 1;
        let (line, turns) = match read.and_then(check_line) {
            Ok(usable) => usable,
            Err(error) => {
                report.bad_lines.push(BadLine { line: number, reason: error.to_string() });
                continue;
            }
        };
        if line.role.as_deref() == Some("shadow") {
            report.shadows += 1;
            continue;
        }
        report.without_id += usize::from(line.id.is_none());
        let verdict = line.id.as_deref().and_then(|id| {
            let id = request_id(id);
            known.insert(id.to_owned());
            verdicts.get(id).copied()
        });
        let place = *places.entry((turns_text(&turns), normalize(&line.question))).or_insert_with(|| {
            let question = line.question.trim().to_owned();
            asked.push(CountedQuestion::new(question, turns));
            asked.len() - 1
        });
        asked[place].add(verdict, line.answer);
    }
    report.feedback_elsewhere = verdicts.keys().filter(|id| !known.contains(*id)).count();
    report.equal = report.lines - report.bad_lines.len() - report.shadows - asked.len();
    let asked = select(asked, choice, &mut report);
    let questions: Vec<Question> = asked.into_iter().map(|asked| asked.into_question(choice.drafts)).collect();
    report.questions = questions.len();
    report.follow_ups = questions.iter().filter(|question| !question.turns.is_empty()).count();
    report.drafts = questions.iter().filter(|question| question.draft.is_some()).count();
    TrafficQuestions { dataset: Dataset { questions }, report }
}

/// Why a line cannot be used.
#[derive(Debug, thiserror::Error)]
enum TrafficLineError {
    #[error("is not UTF-8")]
    NotUtf8(#[from] std::str::Utf8Error),
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("has an empty question")]
    NoQuestion,
    #[error("`turns` {0}")]
    Turns(#[from] TurnsError),
}

/// The lines that are not blank, with their numbers from 1.
fn lines<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> impl Iterator<Item = (usize, Result<T, TrafficLineError>)> {
    let numbered = (1..).zip(bytes.split(|byte| *byte == b'\n'));
    numbered.filter(|(_, line)| !line.trim_ascii().is_empty()).map(|(number, line)| {
        let read = std::str::from_utf8(line).map_err(TrafficLineError::from);
        (number, read.and_then(|line| Ok(serde_json::from_str(line)?)))
    })
}

/// A line with its earlier messages; an error if its question is empty.
fn check_line(line: TrafficLine) -> Result<(TrafficLine, Vec<Message>), TrafficLineError> {
    if line.question.trim().is_empty() {
        return Err(TrafficLineError::NoQuestion);
    }
    let turns = match &line.turns {
        Value::Null => Vec::new(),
        value => turns::read(value)?,
    };
    Ok((line, turns))
}

/// The id of the request, at the end of an answer's id in OpenAI's form.
fn request_id(id: &str) -> &str {
    id.find("req-").map_or(id, |at| &id[at..])
}

#[cfg(test)]
mod tests {
    use super::{selection::Features, *};
    use serde_json::json;

    fn file(lines: &[Value]) -> Vec<u8> {
        lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
    }

    fn asked(question: &str) -> Value {
        json!({ "time": 1, "version": "v", "question": question, "turns": [], "answer": "It is [1].", "contexts": ["c"] })
    }

    fn answered(id: &str, question: &str, answer: &str) -> Value {
        json!({ "id": id, "question": question, "turns": [], "answer": answer, "contexts": [], "scores": {} })
    }

    fn texts(read: &TrafficQuestions) -> Vec<&str> {
        read.dataset.questions.iter().map(|question| question.question.as_str()).collect()
    }

    fn all_lines_are_accounted_for(report: &TrafficReport) {
        let TrafficReport { bad_lines, shadows, equal, similar, without_verdict, beyond_size, questions, .. } = report;
        let sum = bad_lines.len() + shadows + equal + similar + without_verdict + beyond_size + questions;
        assert_eq!(report.lines, sum, "{report:?}");
    }

    #[test]
    fn what_a_shadow_answered_is_no_question_of_its_own() {
        let mut lines =
            [answered("a", "Is the mill old?", "Yes."), answered("a", "Is the mill old?", "Nobody saw this.")];
        lines[1]["role"] = "shadow".into();
        let drafts = TrafficChoice { drafts: true, ..TrafficChoice::default() };
        let read = import_traffic(&file(&lines), None, &drafts);
        let [question] = &read.dataset.questions[..] else { panic!("one question") };
        assert_eq!((question.draft.as_deref(), read.report.shadows, read.report.equal), (Some("Yes."), 1, 0));
        all_lines_are_accounted_for(&read.report);
    }

    #[test]
    fn equal_and_nearly_equal_questions_are_one_and_the_most_frequent_comes_first() {
        let lines = [
            "Is the mill old?",
            "How do I install a package from a local file?",
            "how do i  install a package from a local file",
            "Please: how do I install a package from a local file?",
            "Is the mill new?",
        ];
        let read = import_traffic(&file(&lines.map(asked)), None, &TrafficChoice::default());
        assert_eq!(
            texts(&read),
            ["How do I install a package from a local file?", "Is the mill old?", "Is the mill new?"]
        );
        assert_eq!((read.report.equal, read.report.similar), (1, 1));
        all_lines_are_accounted_for(&read.report);
        let exact = TrafficChoice { similarity: 1.0, ..TrafficChoice::default() };
        assert_eq!(import_traffic(&file(&lines.map(asked)), None, &exact).report.similar, 0);
    }

    #[test]
    fn what_differs_in_a_number_a_sign_a_word_or_its_order_is_another_question() {
        let lines = [
            "Which package of the release 2.4 holds the library that reads the old format of the index files?",
            "Which package of the release 2.6 holds the library that reads the old format of the index files?",
            "What is C?",
            "What is C++?",
            "When was the mill built?",
            "How was the mill built?",
            "Convert pdf to text",
            "Convert text to pdf",
        ];
        let read = import_traffic(&file(&lines.map(asked)), None, &TrafficChoice::default());
        assert_eq!(texts(&read), lines);
    }

    #[test]
    fn no_question_is_missed_that_is_nearly_equal_to_one_before_it() {
        // Every pair is compared here, where `merge_similar` looks at a few.
        let words = ["mill", "barn", "owl", "roof", "old", "new", "door", "wall", "wheel", "grain", "wind", "stone"];
        let text = |seed: usize| -> String {
            let word = |i: usize| words[(seed * 7 + i * (1 + seed % 5) + (seed * i) / 9) % words.len()];
            (0..4 + seed % 9).map(word).collect::<Vec<_>>().join(" ")
        };
        let questions: Vec<String> = (0..300).map(text).collect();
        for similarity in [0.3, 0.5, 0.8, 1.0] {
            let choice = TrafficChoice { similarity, ..TrafficChoice::default() };
            let read =
                import_traffic(&file(&questions.iter().map(|text| asked(text)).collect::<Vec<_>>()), None, &choice);
            let kept: Vec<Features> = read
                .dataset
                .questions
                .iter()
                .map(|question| {
                    let question = question.question.clone();
                    Features::of(&CountedQuestion::new(question, Vec::new()), whatlang::Lang::Eng)
                })
                .collect();
            for (i, one) in kept.iter().enumerate() {
                assert!(kept[..i].iter().all(|other| !one.is_nearly_equal(other, similarity)), "{similarity}");
            }
            all_lines_are_accounted_for(&read.report);
            assert!(similarity == 1.0 || read.report.similar > 0, "{similarity}: nothing was to be joined");
        }
    }

    #[test]
    fn a_follow_up_keeps_its_turns_and_is_another_question_after_others() {
        let after = |before: &str| {
            let turns = json!([{ "role": "user", "content": before }, { "role": "assistant", "content": "Yes." }]);
            json!({ "question": "And how old is it?", "turns": turns, "answer": "90 years." })
        };
        let lines = [
            after("Is there a mill?"),
            after("Is there a barn?"),
            after("is there a mill"),
            asked("And how old is it?"),
        ];
        let read = import_traffic(&file(&lines), None, &TrafficChoice::default());
        assert_eq!((read.report.questions, read.report.follow_ups, read.report.equal), (3, 2, 1));
        let before: Vec<usize> = read.dataset.questions.iter().map(|question| question.turns.len()).collect();
        assert_eq!(before, [2, 2, 0]);
        let ids: HashSet<&str> = read.dataset.questions.iter().map(|question| question.id.as_str()).collect();
        assert_eq!(ids.len(), 3);
    }

    #[test]
    fn verdicts_order_and_choose_and_a_bad_answer_is_never_a_draft() {
        let traffic = file(&[
            answered("req-1", "Is the mill old?", "No."),
            answered("req-2", "Who owns the barn?", "Nobody."),
            answered("req-3", "Is the mill old?", "Yes, of 1701 [1]."),
            answered("req-4", "What do owls eat?", "Mice."),
            answered("req-5", "Is the mill old?", "Perhaps."),
        ]);
        let verdict =
            |id: &str, verdict: &str| json!({ "time": 1, "request_id": id, "verdict": verdict, "comment": null });
        let feedback = file(&[
            verdict("chatcmpl-req-2", "up"),
            verdict("req-3", "up"),
            verdict("req-2", "down"),
            verdict("req-9", "down"),
        ]);
        let choice = TrafficChoice { drafts: true, ..TrafficChoice::default() };
        let read = import_traffic(&traffic, Some(&feedback), &choice);
        assert_eq!(texts(&read), ["Who owns the barn?", "Is the mill old?", "What do owls eat?"]);
        let drafts: Vec<Option<&str>> =
            read.dataset.questions.iter().map(|question| question.draft.as_deref()).collect();
        assert_eq!(drafts, [None, Some("Yes, of 1701 [1]."), Some("Mice.")]);
        assert_eq!(read.dataset.questions[0].tags, ["traffic", "down"]);
        assert_eq!((read.report.feedback, read.report.feedback_elsewhere, read.report.drafts), (4, 1, 2));
        for (only, expected) in [(UserVerdict::Down, "Who owns the barn?"), (UserVerdict::Up, "Is the mill old?")] {
            let read = import_traffic(&traffic, Some(&feedback), &TrafficChoice { only: Some(only), ..choice.clone() });
            assert_eq!(texts(&read), [expected]);
            all_lines_are_accounted_for(&read.report);
        }
    }

    #[test]
    fn nothing_that_the_system_said_stands_as_true() {
        let choice = TrafficChoice { drafts: true, ..TrafficChoice::default() };
        for (drafts, draft) in [(false, None), (true, Some("It is [1]."))] {
            let read = import_traffic(&file(&[asked("Is it?")]), None, &TrafficChoice { drafts, ..choice.clone() });
            let question = &read.dataset.questions[0];
            assert_eq!(question.draft.as_deref(), draft);
            assert_eq!((&question.reference, question.evidence.len(), question.review), (&None, 0, None));
            let again = super::super::import("a.jsonl", read.dataset.to_jsonl().unwrap().as_bytes()).unwrap();
            assert_eq!(again, read.dataset, "a file of it is a dataset");
            let mut accepted = question.clone();
            accepted.accept();
            assert_eq!((accepted.reference.as_deref(), accepted.draft), (draft, None));
        }
    }

    #[test]
    fn a_bad_line_is_told_with_its_number_and_the_others_are_used() {
        let good = asked("Is the mill old?").to_string();
        let text = format!(
            "{good}\n\n{{\"question\": \n{{\"answer\": \"x\"}}\n{{\"question\": \" \"}}\n{{\"question\": \"a\", \"turns\": 3}}\n{good}\n"
        );
        let read = import_traffic(text.as_bytes(), Some(b"{}\n"), &TrafficChoice::default());
        let bad: Vec<usize> = read.report.bad_lines.iter().map(|bad| bad.line).collect();
        assert_eq!((bad, read.report.lines, read.report.questions), (vec![3, 4, 5, 6], 6, 1));
        assert_eq!(read.report.bad_feedback[0].line, 1);
        assert_eq!(read.report.without_id, 2);
        all_lines_are_accounted_for(&read.report);
    }

    #[test]
    fn a_spread_out_choice_takes_what_differs_before_what_is_alike() {
        let lines =
            ["Is the old mill open today?", "Is the old mill open now?", "Is the mill open?", "What do owls eat?"];
        let some = TrafficChoice { size: Some(2), ..TrafficChoice::default() };
        let first = import_traffic(&file(&lines.map(asked)), None, &some);
        assert_eq!(texts(&first), lines[..2]);
        let spread = import_traffic(&file(&lines.map(asked)), None, &TrafficChoice { spread: true, ..some });
        assert_eq!(texts(&spread), [lines[0], lines[3]]);
        assert_eq!(spread.report.beyond_size, 2);
        all_lines_are_accounted_for(&spread.report);
    }
}

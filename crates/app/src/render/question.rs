//! One question in full, for people.

use super::{
    excerpt::{beginning, matching},
    losses::question_loss,
    number_or_dash, visible_line,
};
use eval::{Score, statistics::Summary};
use lab::{QuestionResult, RunRecord, TrialAnswer, TrialResult};
use rag::Passage;
use std::fmt::Write;

/// The most characters of a passage that are shown with an answer.
const EXCERPT: usize = 200;

fn source(passage: &Passage) -> String {
    let mut text = visible_line(&passage.document).into_owned();
    if let Some(page) = passage.page {
        let _ = write!(text, ", page {page}");
    }
    if let Some(book) = &passage.book {
        let _ = write!(text, ", “{}”", visible_line(book));
    }
    if let Some(heading) = &passage.heading {
        let _ = write!(text, ", {}", visible_line(heading));
    }
    text
}

/// Whether a passage overlaps the evidence of a question.
fn holds_evidence(passage: &Passage, golden: &eval::Question) -> bool {
    golden.evidence.iter().any(|evidence| {
        evidence.document == passage.document && evidence.span.is_some_and(|span| span.overlap(passage.span) > 0)
    })
}

/// The messages before a question, an indented line each; empty if there are none.
pub fn turns(question: &eval::Question, indent: &str) -> String {
    let line = |message: &models::Message| {
        let who = match message.role {
            models::Role::System => "instructions",
            models::Role::User => "user",
            models::Role::Assistant => "assistant",
        };
        format!("{indent}{who}: {}\n", beginning(&message.content, usize::MAX))
    };
    let said: String = question.turns.iter().map(line).collect();
    if said.is_empty() { said } else { format!("said before:\n{said}") }
}

/// A trial's means, each with its number of questions.
pub fn means(trial: &TrialResult) -> String {
    let of = |(name, summary): (&String, &Summary)| {
        format!("{name} {} (n = {} of {})", number_or_dash(summary.mean, 3), summary.n_scored, summary.n_total)
    };
    let means: Vec<String> = trial.metrics.iter().map(of).collect();
    if means.is_empty() { "no scores".to_owned() } else { format!("means: {}", means.join(", ")) }
}

/// The searches that a component wrote for a question, why it fell back, and remarks of
/// later steps.
fn format_searches(result: &QuestionResult) -> String {
    let mut text = String::new();
    let whole = |text: &str| beginning(text, usize::MAX);
    if !result.queries.is_empty() {
        text.push_str("\nsearched:");
    }
    for (number, query) in (1..).zip(&result.queries) {
        if query.words == query.text {
            let _ = write!(text, "\n  {number}. {}", whole(&query.text));
        } else {
            let _ = write!(text, "\n  {number}. by meaning: {}", whole(&query.text));
            let _ = write!(text, "\n     by words: {}", whole(&query.words));
        }
        if let Some(filter) = &query.filter {
            let _ = write!(text, "\n     only where {}", whole(&filter.to_string()));
        }
        for passage in &query.hypothetical_passages {
            let _ = write!(text, "\n     with the vector of: {}", whole(passage));
        }
    }
    if let Some(reason) = &result.query_fallback {
        let _ = write!(text, "\n  fell back, because: {}", whole(reason));
    }
    if !result.remarks.is_empty() {
        text.push_str("\nafter retrieval:");
    }
    for remark in &result.remarks {
        let _ = write!(text, "\n  {}", whole(remark));
    }
    text
}

/// What a trial made of a question: queries, evidence, passages, answer, verdicts.
pub fn question(record: &RunRecord, trial: &TrialResult, result: &QuestionResult) -> String {
    let mut text = format!("{}\n{} · {}", record.title(), trial.trial.id, result.question);
    let golden = record.question_of(&trial.trial.id, &result.question);
    let golden = golden.as_ref();
    if let Some(golden) = golden {
        let _ = write!(text, "\n{}question: {}", turns(golden, "  "), golden.question);
        if let Some(reference) = &golden.reference {
            let _ = write!(text, "\nreference: {reference}");
        }
        for evidence in &golden.evidence {
            let _ = write!(text, "\nevidence: {}: {}", evidence.document, beginning(&evidence.quote, usize::MAX));
        }
    }
    if let Some(loss) = &result.loss {
        text.push_str(&question_loss(loss, golden.map_or(&[], |golden| &golden.evidence)));
    }
    text.push_str(&format_searches(result));
    let _ = write!(text, "\nretrieved:");
    for (i, passage) in result.passages.iter().enumerate() {
        let mark = if golden.is_some_and(|golden| holds_evidence(passage, golden)) { " · holds evidence" } else { "" };
        let _ = write!(text, "\n  [{}] {} (score {:.3}){mark}", i + 1, source(passage), passage.score);
        let _ = write!(text, "\n      {}", beginning(&passage.text, usize::MAX));
    }
    if result.passages.is_empty() {
        text.push_str(" nothing");
    }
    match (&result.answer, &result.error) {
        (Some(answer), _) => {
            let _ = write!(
                text,
                "\nanswer: {}\n  cites {:?}, {:.2} s, {} tokens read, {} written",
                answer.text,
                answer.citations,
                answer.seconds,
                answer.usage.prompt_tokens,
                answer.usage.completion_tokens
            );
        }
        (None, Some(error)) => _ = write!(text, "\nno answer: {error}"),
        (None, None) => {}
    }
    let _ = write!(text, "\nscores:");
    for (name, scored) in &result.scores {
        match &scored.score {
            Score::Value(value) => _ = write!(text, "\n  {name:20} {}", super::number(*value, 3)),
            Score::Missing(missing) => _ = write!(text, "\n  {name:20} – {missing}"),
        }
    }
    // Several metrics may share the same details.
    let mut details: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for (name, scored) in &result.scores {
        let lines = eval::explain(&scored.detail);
        match details.iter_mut().find(|(other, _)| *other == lines) {
            Some((_, names)) => names.push(name),
            None if lines.is_empty() => {}
            None => details.push((lines, vec![name])),
        }
    }
    for (lines, names) in details {
        let _ = write!(text, "\n{}:\n  {}", names.join(", "), lines.join("\n  "));
    }
    text
}

/// An answer with its sources.
pub fn answer(answered: &TrialAnswer) -> String {
    let mut text = String::new();
    if let Some(answer) = &answered.answer {
        let _ = writeln!(text, "{}\n", answer.text);
    }
    text + &sources(answered)
}

/// The sources of an answer.
pub fn sources(answered: &TrialAnswer) -> String {
    let time = lab::utc(answered.run_time_ms);
    let origin = format!("trial {} of run {} of {time}", answered.trial.id, answered.run);
    sources_of(&origin, &answered.passages, &answered.question)
}

/// The sources of an answer; `origin` names its trial or service.
pub fn sources_of(origin: &str, passages: &[Passage], question: &str) -> String {
    let mut text = format!("sources ({origin}):");
    for (i, passage) in passages.iter().enumerate() {
        let _ = write!(text, "\n  [{}] {} (score {:.3})", i + 1, source(passage), passage.score);
        let _ = write!(text, "\n      {}", matching(&passage.text, question, EXCERPT));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_searched_is_told_with_the_reason_why_it_is_less() {
        let found = |queries: serde_json::Value, fallback: Option<&str>| {
            let result = json!({
                "question": "q1", "queries": queries, "query_fallback": fallback, "passages": [], "answer": null,
                "error": null, "scores": {},
            });
            format_searches(&serde_json::from_value(result).unwrap())
        };
        let queries = json!([
            { "words": "Who?", "text": "Who?", "passages": ["Ode\nbuilt it."] },
            { "words": "Who? Who? Ode", "text": "Who? Ode", "passages": [] },
        ]);
        let expected = "\nsearched:\n  1. Who?\n     with the vector of: Ode built it.\n  2. by meaning: Who? Ode\n     \
                        by words: Who? Who? Ode\n  fell back, because: 1 of 2 is missing";
        assert_eq!(found(queries, Some("1 of 2 is missing")), expected);
        assert_eq!(found(json!([]), None), "", "without a component there is nothing to tell");
    }
}

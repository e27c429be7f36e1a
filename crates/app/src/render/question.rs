//! One question in full, for people.

use eval::Score;
use lab::{Answered, QuestionResult, Results, TrialResult};
use rag::Passage;
use std::fmt::Write;

fn source(passage: &Passage) -> String {
    let mut text = passage.document.clone();
    if let Some(page) = passage.page {
        let _ = write!(text, ", page {page}");
    }
    if let Some(book) = &passage.book {
        let _ = write!(text, ", “{book}”");
    }
    if let Some(heading) = &passage.heading {
        let _ = write!(text, ", {heading}");
    }
    text
}

fn excerpt(text: &str, characters: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= characters {
        return words;
    }
    let cut: String = words.chars().take(characters).collect();
    format!("{}…", cut.trim_end())
}

fn passages(text: &mut String, passages: &[Passage], characters: usize) {
    for (i, passage) in passages.iter().enumerate() {
        let _ = write!(text, "\n  [{}] {} (score {:.3})", i + 1, source(passage), passage.score);
        let _ = write!(text, "\n      {}", excerpt(&passage.text, characters));
    }
}

/// What a trial made of a question: evidence, passages, answer, verdicts.
pub fn question(results: &Results, trial: &TrialResult, result: &QuestionResult) -> String {
    let mut text = format!("{} · {}", trial.trial.id, result.question);
    if let Some(golden) = results.questions.iter().find(|golden| golden.id == result.question) {
        let _ = write!(text, "\nquestion: {}", golden.question);
        if let Some(reference) = &golden.reference {
            let _ = write!(text, "\nreference: {reference}");
        }
        for evidence in &golden.evidence {
            let _ = write!(text, "\nevidence: {}: {}", evidence.document, excerpt(&evidence.quote, 300));
        }
    }
    let _ = write!(text, "\nretrieved:");
    passages(&mut text, &result.passages, 300);
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
            Score::Value(value) => _ = write!(text, "\n  {name:20} {value:.3}"),
            Score::Missing(missing) => _ = write!(text, "\n  {name:20} – {missing}"),
        }
        if !scored.detail.is_null() {
            let _ = write!(text, "\n    {}", excerpt(&scored.detail.to_string(), 600));
        }
    }
    text
}

/// An answer with its sources.
pub fn answered(answered: &Answered) -> String {
    let mut text = String::new();
    if let Some(answer) = &answered.answer {
        let _ = writeln!(text, "{}\n", answer.text);
    }
    text + &sources(answered)
}

/// The sources of an answer.
pub fn sources(answered: &Answered) -> String {
    let mut text = format!("sources (trial {}):", answered.trial.id);
    passages(&mut text, &answered.passages, 200);
    text
}

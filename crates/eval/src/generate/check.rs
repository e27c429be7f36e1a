//! The fixed rules for what is a golden question.

use super::{Draft, Rejected};
use crate::Question;
use crate::dataset::anchor;
use crate::metric::words::{content_stems, sentences};
use rag::Span;
use regex::Regex;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Longer texts are no question, but a passage retold.
const LONGEST_QUESTION: usize = 300;
/// Shorter quotes hold a word and prove nothing.
const SHORTEST_QUOTE: usize = 15;
/// Longer quotes are narrowed to the sentence with the answer.
const LONGEST_QUOTE: usize = 600;
/// The share of the answer's words that a text must hold to hold the answer.
const HELD: f64 = 0.6;
/// The share of common words from which on two questions are the same.
const SAME: f64 = 0.8;

/// Words that point at a passage which the reader does not see.
static SPEAKS_OF_PASSAGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)
        \b(this|above|following|given|provided|preceding|previous)\s+
          (passage|text|excerpt|section|paragraph|document|chapter|context|article|table|figure|page|example|sentence|author|information)s?\b
        | \bthe\s+(passage|text|excerpt|paragraph|context|author|sentence|writer|article)s?\b
        | \b(mentioned|described|discussed|listed|shown)\s+(above|below|here)\b",
    )
    .ok()
});

/// Checks what the model wrote. Returns where the evidence lies in the passage.
pub(super) fn draft(draft: &Draft, passage: &str) -> Result<Span, Rejected> {
    if draft.question.chars().count() > LONGEST_QUESTION {
        return Err(Rejected::Unreadable("the question is too long".into()));
    }
    if SPEAKS_OF_PASSAGE.as_ref().is_some_and(|pattern| pattern.is_match(&draft.question)) {
        return Err(Rejected::SpeaksOfPassage);
    }
    let answer = content_stems(&draft.answer);
    if !answer.is_empty() && answer.is_subset(&content_stems(&draft.question)) {
        return Err(Rejected::AnswerInQuestion);
    }
    if !holds(passage, &answer) {
        return Err(Rejected::AnswerNotInPassage);
    }
    evidence(draft, passage, &answer).ok_or(Rejected::NoEvidence)
}

/// Whether a text holds most of an answer's words. An answer of small words
/// alone cannot be looked for and is believed.
fn holds(text: &str, answer: &HashSet<String>) -> bool {
    let held = answer.intersection(&content_stems(text)).count();
    held as f64 >= HELD * answer.len() as f64
}

/// The quote, if it stands in the passage and holds the answer; else the
/// sentence with the answer that has most in common with the question.
fn evidence(draft: &Draft, passage: &str, answer: &HashSet<String>) -> Option<Span> {
    let quoted = anchor(passage, &draft.quote, None).filter(|span| {
        let quote = &passage[span.start..span.end];
        (SHORTEST_QUOTE..=LONGEST_QUOTE).contains(&quote.len()) && holds(quote, answer)
    });
    if quoted.is_some() {
        return quoted;
    }
    let asked = content_stems(&draft.question);
    let mut best: Option<(usize, &str)> = None;
    for sentence in
        sentences(passage).into_iter().filter(|sentence| sentence.len() >= SHORTEST_QUOTE && holds(sentence, answer))
    {
        let common = content_stems(sentence).intersection(&asked).count();
        if best.is_none_or(|(most, _)| common > most) {
            best = Some((common, sentence));
        }
    }
    best.and_then(|(_, sentence)| anchor(passage, sentence, None))
}

/// Whether one of the questions asks nearly the same.
pub(super) fn is_repeated(question: &Question, known: &[Question]) -> bool {
    let stems = content_stems(&question.question);
    known.iter().any(|known| {
        let others = content_stems(&known.question);
        let common = stems.intersection(&others).count() as f64;
        let all = stems.union(&others).count() as f64;
        known.id == question.id || (all > 0.0 && common / all >= SAME)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::PROSE;
    use super::*;

    fn check(question: &str, answer: &str, quote: &str) -> Result<&'static str, Rejected> {
        let draft_of = Draft { question: question.into(), answer: answer.into(), quote: quote.into() };
        draft(&draft_of, PROSE).map(|span| &PROSE[span.start..span.end])
    }

    const SENTENCE: &str = "It was first released in 1998 by a small team of volunteers.";

    #[test]
    fn a_quote_that_stands_in_the_passage_is_the_evidence() {
        assert_eq!(
            check("When did APT come out?", "1998", "first released  in 1998 by a"),
            Ok("first released in 1998 by a")
        );
    }

    #[test]
    fn a_quote_that_does_not_is_replaced_by_the_sentence_with_the_answer() {
        for quote in ["", "APT appeared in 1998", "1998", "The package manager reads its list of sources"] {
            assert_eq!(check("When did APT come out?", "in 1998", quote), Ok(SENTENCE), "{quote}");
        }
    }

    #[test]
    fn questions_about_the_passage_are_rejected() {
        for question in
            ["What does this passage say?", "According to the text, when did APT come out?", "What is listed above?"]
        {
            assert_eq!(check(question, "1998", ""), Err(Rejected::SpeaksOfPassage), "{question}");
        }
    }

    #[test]
    fn answers_that_are_given_away_or_made_up_are_rejected() {
        assert_eq!(check("Was APT released in 1998?", "1998", ""), Err(Rejected::AnswerInQuestion));
        assert_eq!(check("Who wrote APT?", "Ada Lovelace", ""), Err(Rejected::AnswerNotInPassage));
    }

    #[test]
    fn an_answer_that_no_sentence_holds_has_no_evidence() {
        assert_eq!(check("What is it?", "1998, volunteers, directory, mirror, Debian", ""), Err(Rejected::NoEvidence));
    }

    #[test]
    fn questions_of_the_same_words_are_repeated() {
        let question = |text: &str| Question {
            id: text.into(),
            question: text.into(),
            reference: None,
            evidence: Vec::new(),
            tags: Vec::new(),
            answerable: true,
        };
        let known = [question("When was APT first released?")];
        assert!(is_repeated(&question("when APT was released first"), &known));
        assert!(!is_repeated(&question("Who first released APT to the public?"), &known));
    }
}

//! The answer depends on a condition, and the question names it.

use super::super::{QuestionDraft, RejectionReason};
use super::Recipe;
use crate::words::{Pattern, pattern};
use std::sync::LazyLock;
use whatlang::Lang;

pub(super) const RECIPE: Recipe = Recipe {
    task: "Find something in this passage that holds only under a condition. Write one question that names the \
           condition with the word \"if\", \"when\" or \"unless\" and asks what holds then, for a reader who does not \
           see the passage: name the thing that is asked about, and do not mention a passage, text or section. Then \
           give the answer, as short as it can be, in the words of the passage, and copy the one sentence of the \
           passage that holds the condition and the answer.",
    example_passages: &["A season ticket costs 40 crowns and is sent by post. If the ticket is lost, the office \
                         replaces it once for a fee of 5 crowns. Day tickets are sold at the gate and are not \
                         replaced."],
    example_reply: r#"{"question": "What fee does the office ask if a season ticket is lost?", "answer": "5 crowns", "quote": "If the ticket is lost, the office replaces it once for a fee of 5 crowns."}"#,
    answer_share: 0.6,
    rule,
};

/// Words that begin a condition, in the languages that most corpora are in.
static CONDITION: Pattern = LazyLock::new(|| {
    pattern(
        r"(?ix)\b(if|when|unless|until|once|while|in\ case|provided|without|during|after|before
        |wenn|falls|sobald|solange|ohne|sofern|bevor|nachdem|si|lorsque|quand|sans|tant\ que|cuando|salvo|a\ menos|sin
        |mientras|se|quando|caso|sem|enquanto|senza|qualora|finché|als|indien|wanneer|tenzij|zonder|zolang
        |jeśli|jeżeli|gdy|kiedy|bez|dopóki|om|när|utan|hvis|når|uden|uten|unntatt|medmindre)\b",
    )
});

/// Languages whose words are in [`CONDITION`]. In others a condition is not looked for.
const LANGUAGES: [Lang; 11] = [
    Lang::Eng,
    Lang::Deu,
    Lang::Fra,
    Lang::Spa,
    Lang::Por,
    Lang::Ita,
    Lang::Nld,
    Lang::Pol,
    Lang::Swe,
    Lang::Dan,
    Lang::Nob,
];

fn rule(draft: &QuestionDraft, _: &[&str], language: Lang) -> Result<(), RejectionReason> {
    // `When was …?` asks for a time and names no condition.
    let after_first = draft.question.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
    let first_is_if = draft.question.to_lowercase().starts_with("if ");
    let latin = draft.question.chars().any(|c| c.is_ascii_alphabetic());
    if first_is_if || !latin || !LANGUAGES.contains(&language) || CONDITION.is_match(after_first) {
        return Ok(());
    }
    Err(RejectionReason::OtherKind("the question names no condition".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, language: Lang) -> Result<(), RejectionReason> {
        let draft = QuestionDraft { question: question.into(), answer: String::new(), quotes: Vec::new() };
        rule(&draft, &[], language)
    }

    #[test]
    fn a_question_names_its_condition() {
        for good in
            ["If the disk is full, what happens?", "What is sent when a bug is closed?", "Was gilt, wenn es regnet?"]
        {
            assert_eq!(check(good, Lang::Eng), Ok(()), "{good}");
        }
        for bad in ["When was Debian founded?", "What is the name of the installer?"] {
            assert!(check(bad, Lang::Eng).is_err(), "{bad}");
        }
        assert!(check("Disk dolarsa ne olur?", Lang::Tur).is_ok(), "its conditions are endings");
        assert!(check("Co się dzieje, gdy dysk jest pełny?", Lang::Pol).is_ok());
        assert!(check("Wie heißt das Programm?", Lang::Deu).is_err());
    }
}

//! The answer depends on a condition, and the question names it.

use super::super::{QuestionDraft, RejectionReason};
use super::Recipe;
use crate::words::pattern;
use regex::Regex;
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

/// Words that begin a condition, by language. Questions in other languages pass unchecked.
const CONDITIONS: [(Lang, &str); 11] = [
    (Lang::Eng, "if|when|unless|until|once|while|in case|provided|without|during|after|before"),
    (Lang::Deu, "wenn|falls|sobald|solange|ohne|sofern|bevor|nachdem"),
    (Lang::Fra, "si|lorsque|quand|sans|tant que"),
    (Lang::Spa, "si|cuando|salvo|a menos|sin|mientras"),
    // `se` is also a reflexive pronoun (`onde se guarda`), and then no condition.
    (Lang::Por, "quando|caso|sem|enquanto|se (o|a|os|as|um|uma|não|eu|ele|ela|houver|for|estiver|tiver)"),
    (Lang::Ita, "se|quando|senza|qualora|finché"),
    (Lang::Nld, "als|indien|wanneer|tenzij|zonder|zolang"),
    (Lang::Pol, "jeśli|jeżeli|gdy|kiedy|bez|dopóki"),
    (Lang::Swe, "om|när|utan"),
    (Lang::Dan, "hvis|når|uden|medmindre"),
    (Lang::Nob, "hvis|når|uten|unntatt"),
];

/// The words of each language as a pattern.
static PATTERNS: LazyLock<Vec<(Lang, Regex)>> = LazyLock::new(|| {
    let compiled = |(language, words): &(Lang, &str)| (*language, pattern(&format!(r"(?i)\b({words})\b")));
    CONDITIONS.iter().map(compiled).collect()
});

fn rule(draft: &QuestionDraft, _: &[&str], language: Lang) -> Result<(), RejectionReason> {
    // `When was …?` asks for a time and names no condition.
    let after_first = draft.question.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
    let first_is_if = draft.question.to_lowercase().starts_with("if ");
    let latin = draft.question.chars().any(|c| c.is_ascii_alphabetic());
    // A passage whose language is not clear counts as English, so its questions may name a condition in any language.
    let mut known = PATTERNS.iter().filter(|(of, _)| *of == language || language == Lang::Eng).peekable();
    if first_is_if || !latin || known.peek().is_none() || known.any(|(_, words)| words.is_match(after_first)) {
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
        // Words that are a condition in another language.
        assert!(check("¿Dónde se guarda el archivo?", Lang::Spa).is_err());
        assert!(check("Onde se guarda o ficheiro?", Lang::Por).is_err());
        assert!(check("O que acontece se o disco estiver cheio?", Lang::Por).is_ok());
        assert!(check("Cosa succede se il disco è pieno?", Lang::Ita).is_ok());
    }
}

//! Detects the languages of passages and questions.
//!
//! Detection is by script and trigrams, with the crate `whatlang`. Questions are often too
//! short for it; then there is no language.

use super::RejectionReason;
use rag::analysis::Language;
use whatlang::Lang;

/// The language of a text, if the detection is certain.
pub(super) fn of(text: &str) -> Option<Lang> {
    Language::detected(text).map(Language::lang)
}

/// The language whose stemmer and stop words are used for a text in this language: the same,
/// or English if the language is not certain.
pub(super) fn rules_of(language: Option<Lang>) -> Lang {
    language.unwrap_or(Lang::Eng)
}

/// Rejects a question that is not in the language of its passage. Accepts it if either language
/// is not certain.
pub(super) fn check(question: &str, passage: Option<Lang>) -> Result<(), RejectionReason> {
    match (passage, of(question)) {
        (Some(passage), Some(question)) if passage != question => Err(RejectionReason::OtherLanguage {
            passage: passage.eng_name().to_owned(),
            question: question.eng_name().to_owned(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GERMAN: &str = "Der Leuchtturm wurde im Jahre 1871 zum ersten Mal entzündet und brannte mit Öl.";

    #[test]
    fn a_question_in_another_language_is_refused() {
        let english = "In which year was the lighthouse lit for the first time, and who was there to see it?";
        assert_eq!(of(GERMAN), Some(Lang::Deu));
        assert!(matches!(check(english, of(GERMAN)), Err(RejectionReason::OtherLanguage { .. })));
        assert_eq!(check("Wann wurde der Leuchtturm zum ersten Mal entzündet?", of(GERMAN)), Ok(()));
    }

    #[test]
    fn where_it_cannot_be_told_nothing_is_refused() {
        assert_eq!(check("apt-get 1.0?", of(GERMAN)), Ok(()));
        assert_eq!(check("What is it?", None), Ok(()));
    }
}

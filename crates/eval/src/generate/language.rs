//! The language of a text, if it can be recognised.
//!
//! By trigrams and script, through the crate `whatlang`. Short questions are
//! often too short; then no language is returned.

use super::RejectionReason;
use whatlang::{Lang, detect};

/// The language, if it is certain.
pub(super) fn of(text: &str) -> Option<Lang> {
    detect(text).filter(|info| info.is_reliable()).map(|info| info.lang())
}

/// The language whose stems and stop words are used; English where it is not certain.
pub(super) fn rules_of(language: Option<Lang>) -> Lang {
    language.unwrap_or(Lang::Eng)
}

/// The English name of a text's language, such as `German`, if it is certain.
pub fn language_name(text: &str) -> Option<&'static str> {
    of(text).map(|language| language.eng_name())
}

/// Refuses a question in another language than its passage.
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

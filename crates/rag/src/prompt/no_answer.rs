//! The sentence that is the whole answer when the sources do not answer the question, in the
//! language of the question.

use crate::analysis::Language;
use whatlang::Lang;

/// The text of the answer when the sources do not answer the question, in English.
pub const NO_ANSWER: &str = "The sources do not answer this question.";

/// The sentence in other languages.
const IN_OTHER_LANGUAGES: &[(Lang, &str)] = &[
    (Lang::Deu, "Die Quellen beantworten diese Frage nicht."),
    (Lang::Fra, "Les sources ne répondent pas à cette question."),
    (Lang::Spa, "Las fuentes no responden a esta pregunta."),
    (Lang::Por, "As fontes não respondem a esta pergunta."),
    (Lang::Ita, "Le fonti non rispondono a questa domanda."),
    (Lang::Nld, "De bronnen beantwoorden deze vraag niet."),
    (Lang::Pol, "Źródła nie odpowiadają na to pytanie."),
    (Lang::Tur, "Kaynaklar bu soruyu yanıtlamıyor."),
    (Lang::Rus, "Источники не отвечают на этот вопрос."),
    (Lang::Ara, "لا تجيب المصادر عن هذا السؤال."),
    (Lang::Hin, "स्रोत इस प्रश्न का उत्तर नहीं देते।"),
    (Lang::Cmn, "资料没有回答这个问题。"),
    (Lang::Jpn, "資料はこの質問に答えていません。"),
    (Lang::Kor, "자료에는 이 질문에 대한 답이 없습니다."),
];

/// Frequent English words that hardly occur in the languages above.
const ENGLISH_WORDS: [&str; 17] = [
    "the", "what", "which", "who", "how", "when", "where", "why", "does", "did", "are", "from", "with", "should",
    "there", "have", "and",
];

/// The language of a question or another short text; `None` if it is not clear.
///
/// The crate `whatlang` detects it by script and trigrams. But a text in ASCII letters
/// that has one of a few frequent English words is always English.
pub fn language_of_short_text(text: &str) -> Option<Lang> {
    if text.chars().filter(|c| c.is_alphabetic()).all(|c| c.is_ascii()) {
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        if words.any(|word| ENGLISH_WORDS.iter().any(|english| word.eq_ignore_ascii_case(english))) {
            return Some(Lang::Eng);
        }
    }
    Language::detected(text).map(Language::lang)
}

/// The sentence in the language of a question. It is in English if the language is not clear or
/// has no sentence in the list.
pub fn no_answer(question: &str) -> &'static str {
    let language = language_of_short_text(question);
    let sentence = IN_OTHER_LANGUAGES.iter().find(|(known, _)| Some(*known) == language);
    sentence.map_or(NO_ANSWER, |(_, sentence)| sentence)
}

/// The sentence in every language.
pub fn no_answers() -> impl Iterator<Item = &'static str> {
    std::iter::once(NO_ANSWER).chain(IN_OTHER_LANGUAGES.iter().map(|(_, sentence)| *sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_is_in_the_language_of_the_question() {
        for (question, sentence) in [
            (
                "Wann wurde die Mühle am Fluss gebaut, und wer hat sie bezahlt?",
                "Die Quellen beantworten diese Frage nicht.",
            ),
            ("水车是什么时候建造的？", "资料没有回答这个问题。"),
            ("水車はいつ建てられましたか。", "資料はこの質問に答えていません。"),
            ("물레방아는 언제 지어졌습니까?", "자료에는 이 질문에 대한 답이 없습니다."),
            ("When was the mill at the river built?", NO_ANSWER),
            ("apt-get 2.0?", NO_ANSWER),
            ("", NO_ANSWER),
        ] {
            assert_eq!(no_answer(question), sentence, "{question}");
        }
    }

    #[test]
    fn english_words_outweigh_trigrams() {
        let french = "What does robust molecular oscillation of brain clock neurons in DD suggest about certain brain locations?";
        assert_eq!(
            whatlang::detect(french).map(|info| info.lang()),
            Some(Lang::Fra),
            "the trigrams are those of French"
        );
        assert_eq!(language_of_short_text(french), Some(Lang::Eng));
    }

    #[test]
    fn every_sentence_is_in_its_language_or_too_short_to_tell() {
        for (language, sentence) in IN_OTHER_LANGUAGES {
            let found = language_of_short_text(sentence);
            assert!(found.is_none_or(|found| found == *language), "{sentence}: {found:?}");
        }
    }
}

//! Detects the language of a document or of a short text, to choose the rules for it.

use super::language::Language;

/// The size of the sample in which the language of a text is detected, in bytes.
const SAMPLE_BYTES: usize = 1_536;
/// How many stretches of a longer text make up its sample. There are several, so that a title
/// page or a licence in another language does not decide.
const STRETCHES: usize = 8;
/// The first Greek character. Letters from here on count as not Latin, also the letters of Latin Extended
/// Additional (U+1E00 to U+1EFF), which Vietnamese uses.
const FIRST_OF_OTHER_SCRIPTS: char = '\u{370}';
/// How many letters a passage or an answer must have for [`text_language`] to detect its language.
const FEWEST_OF_TEXT: usize = 40;

/// The language of a document; `None` if the document is too short or its language is not clear.
///
/// A long document is represented by eight stretches. If at least a quarter of the letters are
/// not Latin, the Latin ones are left out, because a Japanese manual may hold more code than
/// prose. Plain English is recognised by its frequent words, because `whatlang` takes 0.2 ms for
/// each document.
pub(crate) fn document_language(text: &str) -> Option<Language> {
    let sample = sample(text);
    let is_other = |c: char| c >= FIRST_OF_OTHER_SCRIPTS && c.is_alphabetic();
    let n_letters = sample.chars().filter(|c| c.is_alphabetic()).count();
    let n_others = sample.chars().filter(|c| is_other(*c)).count();
    if n_others * 4 < n_letters {
        return if is_plain_english(&sample) { Some(Language::ENGLISH) } else { Language::of(&sample) };
    }
    let others: String = sample.chars().filter(|c| is_other(*c) || !c.is_alphabetic()).collect();
    Language::of(&others)
}

/// The language of a passage or an answer. `None` if it is English, if it is not clear, or if the
/// text has fewer than 40 letters. A text whose letters are all ASCII counts as English, so that
/// plain English is never mistaken for another language.
pub fn text_language(text: &str) -> Option<Language> {
    let sample = sample(text);
    if !sample.chars().any(|c| !c.is_ascii() && c.is_alphabetic()) {
        return None;
    }
    let is_short = sample.chars().filter(|c| c.is_alphabetic()).nth(FEWEST_OF_TEXT - 1).is_none();
    if is_short { None } else { Language::detected(&sample).filter(|language| *language != Language::ENGLISH) }
}

/// Whether the frequent words of a text show that it is English: it has at least 30 words, and at
/// least one in 16 is a word that is frequent in English and rare in other languages.
fn is_plain_english(text: &str) -> bool {
    const WORDS: [&str; 12] =
        ["the", "and", "that", "with", "this", "are", "you", "have", "from", "which", "not", "they"];
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let (n_words, n_english) =
        words.fold((0, 0), |(n_words, n_english), word| (n_words + 1, n_english + usize::from(WORDS.contains(&word))));
    n_words >= 30 && n_english * 16 >= n_words
}

/// Evenly spaced stretches of a text, one on each line. A text that is no longer than the sample is returned whole.
fn sample(text: &str) -> String {
    if text.len() <= SAMPLE_BYTES {
        return text.to_owned();
    }
    let length = SAMPLE_BYTES / STRETCHES;
    let starts = (0..STRETCHES).map(|i| (text.len() - length) / (STRETCHES - 1) * i);
    let stretch = |start: usize| &text[text.floor_char_boundary(start)..text.floor_char_boundary(start + length)];
    starts.map(stretch).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GERMAN: &str = "Das Paketverwaltungssystem löst Abhängigkeiten selbst auf und entfernt Pakete, die nicht mehr \
                          gebraucht werden. Wer eine ältere Version behalten will, hält das Paket fest. Danach wird es \
                          bei keiner Aktualisierung des Systems angefasst, bis die Sperre aufgehoben ist. ";
    const ENGLISH: &str = "The package manager resolves dependencies on its own and removes packages that are no longer \
                           needed. Whoever wants to keep an older version holds the package. After that no upgrade of \
                           the system touches it until the hold is removed again. ";

    #[test]
    fn a_title_page_does_not_decide() {
        let text = ENGLISH.repeat(10) + &GERMAN.repeat(200);
        assert_eq!(document_language(&text), Language::named("german"));
        assert_eq!(document_language(GERMAN), Language::named("german"));
        assert_eq!(document_language(ENGLISH), Some(Language::ENGLISH));
        assert_eq!(document_language("Kurz."), None);
        assert_eq!(document_language(""), None);
    }

    #[test]
    fn plain_english_is_recognised_by_its_words() {
        assert!(is_plain_english(ENGLISH));
        assert!(!is_plain_english(GERMAN) && !is_plain_english("the and that") && !is_plain_english(""));
        let mixed = format!("{GERMAN}{GERMAN}{ENGLISH}");
        assert_eq!(document_language(&mixed), Language::named("german"));
    }

    #[test]
    fn code_does_not_decide_the_language_of_a_japanese_manual() {
        let prose = "パッケージ管理システムは依存関係を自動的に解決します。";
        let text = format!("{prose} sudo apt-get install --no-install-recommends\n").repeat(60);
        assert_eq!(document_language(&text), Language::named("japanese"));
        let russian = "Система управления пакетами сама разрешает зависимости. apt-get install package\n".repeat(60);
        assert_eq!(document_language(&russian), Language::named("russian"));
    }

    #[test]
    fn short_texts_of_ascii_count_as_english_and_others_are_recognised() {
        assert_eq!(text_language("Das Paket wird entfernt."), None);
        assert_eq!(text_language(ENGLISH), None);
        assert_eq!(text_language(GERMAN), Language::named("german"));
        assert_eq!(text_language("naïve"), None);
    }

    #[test]
    fn a_sample_is_short_and_cut_between_characters() {
        for text in ["日本語".repeat(5_000), "é".repeat(SAMPLE_BYTES), "👩‍👩‍👧".repeat(999)] {
            let sample = sample(&text);
            assert!(sample.len() <= SAMPLE_BYTES + 4 * STRETCHES && sample.len() > SAMPLE_BYTES / 2);
        }
        assert_eq!(sample("a"), "a");
    }
}

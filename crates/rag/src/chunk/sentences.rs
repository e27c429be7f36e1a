//! Chooses the rules that find the sentences of a document.
//!
//! English is cut by [`punkt`], as in LlamaIndex, other languages by
//! [`analysis`](crate::analysis). If the language is detected (`auto`), a document in English
//! or in an unclear language is cut by Punkt and also at the end marks of other scripts,
//! so that Chinese text within it is cut into sentences too.

use super::punkt;
use crate::{
    Span,
    analysis::{self, Language, LanguageChoice, document_language, may_cut, starts_by_script, tiles},
};

/// Finds the sentences of one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentenceFinder {
    /// Exactly as in LlamaIndex, except that no grapheme cluster is cut.
    Punkt,
    /// By Punkt, and also at the end marks of scripts other than Latin.
    PunktAndScripts,
    /// By the rules of a language.
    Rules(Language),
}

impl SentenceFinder {
    /// The finder for a document, by the setting `language`.
    pub(super) fn new(choice: LanguageChoice, document: &str) -> Self {
        match choice {
            LanguageChoice::Named(Language::ENGLISH) => Self::Punkt,
            LanguageChoice::Named(language) => Self::Rules(language),
            LanguageChoice::Auto => match document_language(document) {
                None | Some(Language::ENGLISH) => Self::PunktAndScripts,
                Some(language) => Self::Rules(language),
            },
        }
    }

    /// The sentences of a text. They tile it: each runs to the start of the next one and includes
    /// the white space between them. A text of nothing but white space has no sentences.
    pub(super) fn sentences(self, text: &str) -> Vec<Span> {
        let found = match self {
            Self::Rules(language) => return analysis::sentences(text, Some(language)),
            Self::Punkt | Self::PunktAndScripts => punkt::sentences(text),
        };
        let more = if self == Self::Punkt || found.is_empty() { Vec::new() } else { starts_by_script(text) };
        let is_cut = |span: &Span| may_cut(text, span.start);
        if more.is_empty() && found.iter().all(is_cut) {
            return found;
        }
        let mut starts: Vec<usize> =
            found.iter().filter(|span| is_cut(span)).map(|span| span.start).chain(more).collect();
        starts.sort_unstable();
        tiles(text, starts)
    }

    /// Whether a clause may end after a character: one of LlamaIndex's marks or, unless the
    /// finder is [`Punkt`](Self::Punkt), a mark of another script.
    pub(super) fn ends_clause(self, c: char) -> bool {
        match c {
            ',' | '.' | ';' | '。' | '？' | '！' => true,
            '，' | '、' | '；' | '：' | '،' | '؛' | '؟' | '۔' | '।' | '၊' | '።' | '፣' | '፤' | '།' => {
                self != Self::Punkt
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(finder: SentenceFinder, text: &str) -> Vec<&str> {
        finder.sentences(text).into_iter().map(|span| &text[span.start..span.end]).collect()
    }

    const GERMAN: &str = "Das Paket hängt z. B. von anderen Paketen ab, die am 3. Oktober erschienen sind. Dr. Müller \
                          pflegt sie seit mehreren Jahren. Wer eine ältere Version behalten will, hält das Paket fest, \
                          damit es bei keiner Aktualisierung des Systems angefasst wird. Danach ist alles in Ordnung.";

    #[test]
    fn the_language_is_detected_for_each_document_or_named() {
        let finder = |choice, text| SentenceFinder::new(choice, text);
        let german = Language::named("german").unwrap();
        assert_eq!(finder(LanguageChoice::Auto, GERMAN), SentenceFinder::Rules(german));
        assert_eq!(finder(LanguageChoice::Auto, "Too short."), SentenceFinder::PunktAndScripts);
        assert_eq!(finder(LanguageChoice::Named(german), "Too short."), SentenceFinder::Rules(german));
        assert_eq!(finder(LanguageChoice::Named(Language::ENGLISH), GERMAN), SentenceFinder::Punkt);
    }

    #[test]
    fn german_abbreviations_end_no_sentence_and_english_is_cut_as_llama_index_cuts_it() {
        let found = texts(SentenceFinder::new(LanguageChoice::Auto, GERMAN), GERMAN);
        assert_eq!(found.len(), 4);
        assert!(found[1].starts_with("Dr. Müller pflegt"));
        let english = SentenceFinder::new(LanguageChoice::Named(Language::ENGLISH), GERMAN);
        assert_eq!(english.sentences(GERMAN), punkt::sentences(GERMAN));
        for finder in [SentenceFinder::Punkt, SentenceFinder::PunktAndScripts] {
            assert_eq!(
                texts(finder, "Dr. Smith went. “Why?” (He did.)"),
                ["Dr. ", "Smith went. ", "“Why?” ", "(He did.)"]
            );
        }
    }

    #[test]
    fn chinese_within_an_english_text_is_cut_into_sentences_unless_the_text_is_named_english() {
        let text = "See this. 第一句话。第二句话！“第三句？” And J. Smith.";
        assert_eq!(
            texts(SentenceFinder::PunktAndScripts, text),
            ["See this. ", "第一句话。", "第二句话！", "“第三句？” ", "And J. Smith."]
        );
        assert_eq!(texts(SentenceFinder::Punkt, text), ["See this. ", "第一句话。第二句话！“第三句？” And J. Smith."]);
    }

    #[test]
    fn sentences_of_any_finder_tile_the_text_and_cut_no_cluster() {
        let finders =
            ["german", "chinese", "thai", "arabic"].map(|name| SentenceFinder::Rules(Language::named(name).unwrap()));
        let finders = [SentenceFinder::Punkt, SentenceFinder::PunktAndScripts].into_iter().chain(finders);
        for finder in finders {
            assert!(finder.sentences("").is_empty() && finder.sentences(" \n\u{3000}").is_empty());
            for text in [
                "  a. b?\u{1c} ",
                ". \u{301}B. C",
                "。\u{fe00}。x",
                "a.\u{a0}.\u{a0}. B.",
                "!!!! x",
                "\n\nx\n\n\ny\n\n",
            ] {
                let found = finder.sentences(text);
                assert_eq!(found.first().map(|span| span.start), Some(0), "{finder:?} {text:?}");
                assert_eq!(found.last().map(|span| span.end), Some(text.len()), "{finder:?} {text:?}");
                assert!(found.windows(2).all(|pair| pair[0].end == pair[1].start), "{finder:?} {text:?}");
                assert!(found.iter().all(|span| may_cut(text, span.start)), "{finder:?} {text:?}");
            }
        }
    }
}

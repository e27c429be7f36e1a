//! `question-language`: questions in another language than the documents.

use super::{Finding, RunFacts, WarningKind, WarningTime, language::of_many};
use crate::number::{counted, listed};

pub(super) const KIND: WarningKind = WarningKind {
    title: "questions in another language than the documents",
    meaning: "The language of documents and questions is detected from their letters and words; texts that are too short \
              to tell are left out, and so are languages of one text, or of fewer than one in twenty. A language of two \
              documents is enough not to be another one. A search by words cannot find a text in another language, \
              and a model for one language makes poor vectors of another.",
    action: "ask in the language of the documents, translate the questions before the search (a `query` component), or \
             use a multilingual embedder",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    let documents = of_many(&facts.corpus.languages);
    if documents.is_empty() {
        return Vec::new();
    }
    // Two documents in a language are enough, because all questions in that language may be about
    // them.
    let known: usize = facts.corpus.languages.values().sum();
    let is_of_documents = |name: &str| facts.corpus.languages.get(name).is_some_and(|n| *n >= known.min(2));
    let others: Vec<(&str, usize)> =
        of_many(&facts.questions.languages).into_iter().filter(|&(name, _)| !is_of_documents(name)).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let named: Vec<String> = others.iter().map(|(name, n)| format!("{} in {name}", counted(*n, "question"))).collect();
    let languages: Vec<&str> = documents.iter().map(|(name, _)| *name).collect();
    let text = format!("{}, and the documents are in {}", listed(&named), listed(&languages));
    let n = others.iter().map(|(_, n)| n).sum();
    vec![Finding::of_run(text, n, Some(facts.questions.questions))]
}

#[cfg(test)]
mod tests {
    use super::super::{
        CorpusFacts, QuestionFacts, WarningCode,
        fixture::{only, told},
    };
    use super::*;
    use std::collections::BTreeMap;

    const CODE: WarningCode = WarningCode::QuestionLanguage;

    fn facts(documents: &[(&str, usize)], questions: &[(&str, usize)]) -> RunFacts {
        let map = |counts: &[(&str, usize)]| -> BTreeMap<String, usize> {
            counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
        };
        RunFacts {
            corpus: CorpusFacts { languages: map(documents), ..CorpusFacts::default() },
            questions: QuestionFacts { questions: 30, languages: map(questions), ..QuestionFacts::default() },
            ..RunFacts::default()
        }
    }

    #[test]
    fn questions_in_another_language_are_counted() {
        let found = only(CODE, &facts(&[("German", 40)], &[("English", 20), ("German", 5)]));
        assert_eq!(found.text, "20 questions in English, and the documents are in German");
        assert_eq!((found.count, found.total), (Some(20), Some(30)));
        let several = facts(&[("German", 40), ("French", 9)], &[("English", 20), ("Dutch", 8)]);
        let expected = "20 questions in English and 8 questions in Dutch, and the documents are in German and French";
        assert_eq!(told(CODE, &several), [expected]);
    }

    #[test]
    fn a_language_of_two_documents_is_not_another_one_however_few_they_are() {
        let asked = [("German", 20), ("English", 10)];
        assert!(told(CODE, &facts(&[("German", 98), ("English", 2)], &asked)).is_empty());
        let expected = "10 questions in English, and the documents are in German";
        assert_eq!(told(CODE, &facts(&[("German", 99), ("English", 1)], &asked)), [expected], "one may be a mistake");
        assert!(told(CODE, &facts(&[("English", 1)], &[("English", 10)])).is_empty(), "it is the only one");
    }

    #[test]
    fn one_odd_question_and_languages_that_are_not_known_are_not_told() {
        assert!(told(CODE, &facts(&[("German", 40)], &[("German", 25)])).is_empty());
        assert!(told(CODE, &facts(&[("German", 40)], &[("German", 99), ("Dutch", 1)])).is_empty());
        assert!(told(CODE, &facts(&[], &[("English", 20)])).is_empty());
        assert!(told(CODE, &facts(&[("German", 40)], &[])).is_empty());
    }
}

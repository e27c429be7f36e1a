//! `mixed-languages`: documents in several languages.

use super::{Finding, RunFacts, WarningKind, WarningTime, language::of_many};
use crate::number::{counted, listed};

pub(super) const KIND: WarningKind = WarningKind {
    title: "documents in several languages",
    meaning: "The language of each document is detected from its beginning; of a large corpus, a sample of the documents is \
              looked at. Languages of one document, or of fewer than one in twenty, are left out. A question finds documents of its \
              own language first, and a setting for one language (a stemmer, a model for English) is wrong for the \
              others.",
    action: "use `language = \"auto\"` and a multilingual embedder, or compare the languages in experiments of their own",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    let languages = of_many(&facts.corpus.languages);
    if languages.len() < 2 {
        return Vec::new();
    }
    let named: Vec<String> =
        languages.iter().map(|(name, n)| format!("{} in {name}", counted(*n, "document"))).collect();
    let total = facts.corpus.languages.values().sum();
    let text = format!("several languages: {}", listed(&named));
    vec![Finding::of_run(text, languages.iter().skip(1).map(|(_, n)| n).sum(), Some(total))]
}

#[cfg(test)]
mod tests {
    use super::super::{
        CorpusFacts, WarningCode,
        fixture::{only, told},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::MixedLanguages;

    fn facts(documents: &[(&str, usize)]) -> RunFacts {
        let languages = documents.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        RunFacts { corpus: CorpusFacts { languages, ..CorpusFacts::default() }, ..RunFacts::default() }
    }

    #[test]
    fn each_language_is_told_with_its_documents() {
        let found = only(CODE, &facts(&[("English", 30), ("German", 69), ("Dutch", 1)]));
        assert_eq!(found.text, "several languages: 69 documents in German and 30 documents in English");
        assert_eq!((found.count, found.total), (Some(30), Some(100)));
    }

    #[test]
    fn one_language_with_a_few_exceptions_is_not_told() {
        assert!(told(CODE, &facts(&[("English", 99), ("Dutch", 1)])).is_empty());
        assert!(told(CODE, &facts(&[])).is_empty());
    }
}

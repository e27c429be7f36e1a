//! `other-language`: a setting names a language, and documents are in others.

use super::{Finding, RunFacts, WarningKind, WarningTime, language::of_many};
use crate::number::{listed, percent};

pub(super) const KIND: WarningKind = WarningKind {
    title: "a setting for another language than the documents'",
    meaning: "`language` of a chunker says by which rules sentences end, and `language` of a retriever says how words are cut, \
              which endings they lose and which of them are left out. The rules are applied to all texts. Documents in \
              other languages are cut at wrong places, and their words are not found in other forms.",
    action: "leave out `language`: each text is then read by the rules of its own language",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    let languages = of_many(&facts.corpus.languages);
    let documents: usize = facts.corpus.languages.values().sum();
    let stages = facts.trials.iter().flat_map(|trial| trial.named_languages.iter().map(move |stage| (trial, stage)));
    let in_others = stages.filter_map(|(trial, stage)| {
        let named = stage.language.title();
        let others: Vec<_> = languages.iter().filter(|(name, _)| *name != named).collect();
        let foreign: usize = others.iter().map(|(_, n)| n).sum();
        let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
        (foreign > 0).then(|| {
            let text = format!(
                "the {} has `language = \"{}\"`, and {} of the documents are in {}",
                stage.stage,
                stage.language.name(),
                percent(foreign as f64 / documents as f64),
                listed(&names)
            );
            Finding::of_trial(trial, text, foreign, Some(documents))
        })
    });
    in_others.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{
        CorpusFacts, NamedLanguage, TrialFacts, TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };
    use super::*;
    use rag::analysis::Language;

    const CODE: WarningCode = WarningCode::OtherLanguage;

    fn facts(documents: &[(&str, usize)]) -> RunFacts {
        let with = |id: &str, stages: &[(&'static str, &str)]| TrialFacts {
            named_languages: stages
                .iter()
                .map(|&(stage, name)| NamedLanguage { stage, language: Language::named(name).unwrap() })
                .collect(),
            ..trial(id, TrialFindings::default())
        };
        let languages = documents.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        RunFacts {
            corpus: CorpusFacts { languages, ..CorpusFacts::default() },
            ..run(vec![
                with("t01", &[]),
                with("t02", &[("retriever", "english")]),
                with("t03", &[("chunker", "german"), ("retriever", "chinese")]),
            ])
        }
    }

    #[test]
    fn stages_that_name_another_language_are_told() {
        assert_eq!(
            told(CODE, &facts(&[("German", 60), ("English", 40)])),
            [
                "t02: the retriever has `language = \"english\"`, and 60 % of the documents are in German",
                "t03: the chunker has `language = \"german\"`, and 40 % of the documents are in English",
                "t03: the retriever has `language = \"chinese\"`, and 100 % of the documents are in German and English",
            ]
        );
    }

    #[test]
    fn a_few_documents_in_another_language_are_not_told() {
        let facts = facts(&[("English", 99), ("French", 1)]);
        assert!(told(CODE, &facts).iter().all(|text| !text.starts_with("t02")));
        assert!(told(CODE, &super::RunFacts::default()).is_empty());
    }
}

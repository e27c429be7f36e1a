//! `english-model`: an embedder or a reranker for English on texts in other languages.

use super::{Finding, RunFacts, WarningKind, WarningTime, language::of_many};
use crate::number::{listed, percent};

pub(super) const KIND: WarningKind = WarningKind {
    title: "a model for English on other languages",
    meaning: "The model was trained on English, and the documents or the questions are in other languages. Its vectors and \
              scores then say little, and the trial loses to any search by words.",
    action: "use a multilingual model, or search by words",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

const ENGLISH: &str = "English";

fn find(facts: &RunFacts) -> Vec<Finding> {
    let mut others: Vec<&str> = Vec::new();
    for (name, _) in of_many(&facts.corpus.languages).into_iter().chain(of_many(&facts.questions.languages)) {
        if name != ENGLISH && !others.contains(&name) {
            others.push(name);
        }
    }
    if others.is_empty() {
        return Vec::new();
    }
    let documents: usize = facts.corpus.languages.values().sum();
    // Only documents in the languages that the sentence names count.
    let foreign: usize = others.iter().filter_map(|name| facts.corpus.languages.get(*name)).sum();
    let share = match foreign {
        0 => String::new(),
        n => format!(" ({} of the documents)", percent(n as f64 / documents as f64)),
    };
    let of_trial = |(trial, name): (&super::TrialFacts, &String)| {
        let text = format!("`{name}` reads English, and there are texts in {}{share}", listed(&others));
        match foreign {
            0 => Finding::planned(trial, text),
            n => Finding::of_trial(trial, text, n, Some(documents)),
        }
    };
    let readers = facts.trials.iter().flat_map(|trial| {
        trial
            .embedder
            .iter()
            .chain(&trial.rerankers)
            .filter(|name| facts.model(name).is_english)
            .map(move |name| (trial, name))
    });
    readers.map(of_trial).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{
        CorpusFacts, ModelFacts, QuestionFacts, TrialFacts, TrialFindings, WarningCode,
        fixture::{only, run, told, trial},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::EnglishModel;

    fn facts(documents: &[(&str, usize)], questions: &[(&str, usize)]) -> RunFacts {
        let map = |counts: &[(&str, usize)]| counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let with = |id: &str, embedder: Option<&str>| TrialFacts {
            embedder: embedder.map(str::to_owned),
            ..trial(id, TrialFindings::default())
        };
        let english = ModelFacts { is_english: true, ..ModelFacts::default() };
        RunFacts {
            corpus: CorpusFacts { languages: map(documents), ..CorpusFacts::default() },
            questions: QuestionFacts { questions: 9, languages: map(questions), ..QuestionFacts::default() },
            models: [("minilm".to_owned(), english), ("e5".to_owned(), ModelFacts::default())].into(),
            ..run(vec![with("t01", None), with("t02", Some("minilm")), with("t03", Some("e5"))])
        }
    }

    #[test]
    fn only_trials_whose_model_is_for_english_are_told() {
        let found = only(CODE, &facts(&[("German", 60), ("English", 40)], &[("German", 9)]));
        assert_eq!(found.text, "t02: `minilm` reads English, and there are texts in German (60 % of the documents)");
        assert_eq!((found.trials, found.count, found.total), (vec!["t02".to_owned()], Some(60), Some(100)));
        let asked = told(CODE, &facts(&[("English", 40)], &[("French", 9)]));
        assert_eq!(asked, ["t02: `minilm` reads English, and there are texts in French"]);
    }

    #[test]
    fn the_share_is_that_of_the_languages_that_are_named() {
        let found = only(CODE, &facts(&[("German", 20), ("English", 77), ("Dutch", 3)], &[]));
        assert_eq!(found.text, "t02: `minilm` reads English, and there are texts in German (20 % of the documents)");
        assert_eq!((found.count, found.total), (Some(20), Some(100)));
    }

    #[test]
    fn english_texts_and_texts_of_no_known_language_are_not_told() {
        assert!(told(CODE, &facts(&[("English", 40)], &[("English", 9)])).is_empty());
        assert!(told(CODE, &facts(&[], &[])).is_empty());
    }
}

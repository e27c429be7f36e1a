//! Remarks on what approximate indexes cost. Each is compared with trials that search exactly and are otherwise equal.

use super::{
    columns::searches_exactly,
    effects::{Effect, effect},
    note::{About, Note},
};
use crate::{
    number::size,
    results::{Results, TrialResult},
};
use eval::statistics::mean;
use rag::Axis;
use std::collections::BTreeMap;

/// A remark for each approximate index: the share of the nearest chunks that it finds, and the difference from `flat` in
/// the objective, in milliseconds and in bytes, as far as they are known.
pub(super) fn approximations(results: &Results) -> Vec<Note> {
    let axis = Axis::Index.name();
    let label = |found: &TrialResult| found.trial.labels.get(axis).cloned();
    let flat = results.trials.iter().filter(|found| searches_exactly(found)).find_map(label);
    let mut indexes: Vec<String> =
        results.trials.iter().filter(|found| found.index_recall.is_some()).filter_map(label).collect();
    indexes.sort_unstable();
    indexes.dedup();
    if indexes.is_empty() {
        return Vec::new();
    }
    let scores = results.contributions(&BTreeMap::new());
    let remark = |index: &String| {
        let of = |wanted: &str| -> Vec<&TrialResult> {
            results.trials.iter().filter(|found| label(found).as_deref() == Some(wanted)).collect()
        };
        let ours = of(index);
        let recalls: Vec<f64> = ours.iter().filter_map(|found| found.index_recall.as_ref()?.mean).collect();
        let recall = mean(&recalls)?;
        let mut text = format!("the index {index} finds {:.1} % of the nearest chunks", recall * 100.0);
        let against = flat.as_deref().map(|flat| (of(flat), effect(results, &scores, axis, index, flat)));
        match against.filter(|(_, effect)| effect.pairs > 0) {
            None => text.push_str("; list `flat` too to see what the others cost"),
            Some((exact, effect)) => {
                let all = [objective(&effect), milliseconds(&ours, &exact), bytes(&ours, &exact)];
                let known: Vec<String> = all.into_iter().flatten().collect();
                if !known.is_empty() {
                    text.push_str(&format!("; against flat: {}", known.join(", ")));
                }
            }
        }
        Some(Note { about: About::Approximation, subject: None, text })
    };
    indexes.iter().filter_map(remark).collect()
}

fn objective(effect: &Effect) -> Option<String> {
    let (difference, interval) = effect.difference.zip(effect.interval)?;
    Some(format!("objective {difference:+.3} [{:+.3}, {:+.3}]", interval.low, interval.high))
}

/// The median of a search, in trials that write no answers.
fn milliseconds(ours: &[&TrialResult], exact: &[&TrialResult]) -> Option<String> {
    let of = |trials: &[&TrialResult]| {
        let searches =
            |found: &&&TrialResult| found.trial.pipeline().is_some_and(|pipeline| pipeline.generator.is_none());
        let seconds: Vec<f64> = trials.iter().filter(searches).filter_map(|found| found.latency_p50).collect();
        mean(&seconds).map(|seconds| seconds * 1000.0)
    };
    Some(format!("{:.1} ms a question instead of {:.1}", of(ours)?, of(exact)?))
}

fn bytes(ours: &[&TrialResult], exact: &[&TrialResult]) -> Option<String> {
    let of = |trials: &[&TrialResult]| {
        let bytes: Vec<f64> = trials.iter().filter_map(|found| found.index_bytes).map(|bytes| bytes as f64).collect();
        mean(&bytes).map(|bytes| size(bytes as usize))
    };
    Some(format!("{} instead of {}", of(ours)?, of(exact)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plan::trial, results::fixture, spec::Experiment};
    use eval::{Score, statistics::Summary};

    /// A trial for each index, with these scores of five questions.
    fn results(indexes: &str, scores: &[[f64; 5]]) -> Results {
        let text = format!(
            "name = \"zoo\"\n[corpus]\nsource = \"d\"\n[models.m]\nembedding.static = {{ model = \"m\" }}\n[space]\nchunker = \"sentence\"\nembedder = \"m\"\nindex = [{indexes}]\nretriever = \"dense\"\n"
        );
        let mut results = fixture::results(scores.len());
        for (found, trial) in results.trials.iter_mut().zip(trial::grid(&Experiment::parse(&text, ".").unwrap())) {
            found.trial = trial;
        }
        let scores: Vec<Vec<Option<f64>>> =
            scores.iter().map(|scores| scores.iter().copied().map(Some).collect()).collect();
        fixture::score(&mut results, "recall", &scores);
        fixture::choose(&mut results, "recall", &vec![1; scores.len()]);
        results.metrics[0].objective = true;
        for (place, found) in results.trials.iter_mut().enumerate() {
            found.latency_p50 = Some(0.002 / (place + 1) as f64);
            found.index_bytes = Some(2_000_000 * (place as u64 + 1));
            if found.trial.pipeline().is_some_and(|pipeline| !pipeline.index.is_flat()) {
                found.index_recall = Some(Summary::of(&[Score::Value(0.5), Score::Value(1.0)], (0.0, 1.0), 0));
            }
        }
        results
    }

    fn texts(results: &Results) -> Vec<String> {
        approximations(results).into_iter().map(|note| note.text).collect()
    }

    #[test]
    fn each_approximate_index_is_compared_with_flat() {
        let scores = [[1.0, 0.5, 1.0, 0.5, 1.0], [1.0, 0.5, 1.0, 0.5, 0.5]];
        let mut found = results("\"flat\", \"hnsw\"", &scores);
        let [text] = texts(&found).try_into().unwrap();
        let beginning = "the index hnsw finds 75.0 % of the nearest chunks; against flat: objective -0.100 [";
        assert!(text.starts_with(beginning), "{text}");
        assert!(text.ends_with("], 1.0 ms a question instead of 2.0, 4.00 MB instead of 2.00 MB"), "{text}");
        found.trials[1].index_bytes = None;
        assert!(texts(&found)[0].ends_with("instead of 2.0"), "a size that is not known");
    }

    #[test]
    fn without_an_exact_search_only_the_recall_is_known() {
        let found = results("\"hnsw\"", &[[1.0; 5]]);
        let said = "the index hnsw finds 75.0 % of the nearest chunks; list `flat` too to see what the others cost";
        assert_eq!(texts(&found), [said]);
        assert!(texts(&results("\"flat\"", &[[1.0; 5]])).is_empty());
    }
}

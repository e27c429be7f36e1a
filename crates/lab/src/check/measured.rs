//! How a run measured: what the scores of a metric depend on in addition to questions and answers.

use crate::record::RunProvenance;
use eval::MetricConfig;
use models::Identity;
use std::collections::BTreeMap;

/// A metric as a run had it.
#[derive(Debug, Clone)]
pub(super) struct RecordedMetric {
    config: MetricConfig,
    /// The models that it asks.
    asks: Vec<Option<Identity>>,
}

impl RecordedMetric {
    /// The metrics of a run by name. Metrics that this version does not understand are left out, so
    /// they never count as the same.
    pub(super) fn of(provenance: &RunProvenance) -> BTreeMap<String, Self> {
        let evaluate = toml::from_str::<toml::Table>(&provenance.experiment).ok();
        let evaluate = evaluate.and_then(|mut root| root.remove("evaluate"));
        let part = |key: &str| evaluate.as_ref().and_then(|evaluate| evaluate.get(key));
        let names = |key: &str| -> Vec<&str> {
            let listed =
                part(key).map_or(&[][..], |value| value.as_array().map_or(std::slice::from_ref(value), |all| all));
            listed.iter().filter_map(toml::Value::as_str).collect()
        };
        let (judges, embedder) = (names("judge"), names("embedder"));
        let identity = |name: &&str| provenance.identities.get(*name).cloned();
        let metrics = part("metrics").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
        let measured = metrics.iter().filter_map(|value| {
            let config: MetricConfig = value.clone().try_into().ok()?;
            let needs = config.needs();
            let judges = judges.iter().filter(|_| needs.judge);
            let asks = judges.chain(embedder.iter().filter(|_| needs.embedder)).map(identity).collect();
            Some((config.label(), Self { config, asks }))
        });
        measured.collect()
    }

    pub(super) fn higher_is_better(&self) -> bool {
        self.config.higher_is_better()
    }
}

impl PartialEq for RecordedMetric {
    fn eq(&self, other: &Self) -> bool {
        self.config.key_settings() == other.config.key_settings() && self.asks == other.asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::fixture::record, results::fixture};
    use serde_json::json;

    /// The metrics of a run by an experiment with these settings, whose models have these revisions.
    fn measured(evaluate: &str, revisions: &[(&str, &str)]) -> BTreeMap<String, RecordedMetric> {
        let text = format!("[evaluate]\n{evaluate}\n");
        let record = record(&fixture::results(1), &text, |provenance| {
            let identity = |&(name, revision): &(&str, &str)| {
                let (provider, revision, parameters) = ("test".to_owned(), revision.to_owned(), json!({}));
                (name.to_owned(), Identity { provider, model: name.to_owned(), revision, parameters })
            };
            provenance.identities = revisions.iter().map(identity).collect();
        });
        RecordedMetric::of(record.provenance().unwrap())
    }

    const BOTH: &[(&str, &str)] = &[("a", "1"), ("b", "1"), ("small", "1")];

    #[test]
    fn a_metric_is_the_same_if_its_settings_and_the_models_that_it_asks_are() {
        let faithful = "metrics = [{ faithfulness = {} }, { recall = {} }]\njudge = [\"a\", \"b\"]";
        let before = measured(faithful, BOTH);
        // What has changed since, and whether faithfulness and recall are the same.
        type Case<'a> = (&'a str, String, &'a [(&'a str, &'a str)], [bool; 2]);
        let table: [Case<'_>; 8] = [
            ("nothing", faithful.to_owned(), BOTH, [true, true]),
            ("a judge's revision", faithful.to_owned(), &[("a", "1"), ("b", "2")], [false, true]),
            ("a judge is unknown", faithful.to_owned(), &[("a", "1")], [false, true]),
            ("one judge less", faithful.replace(", \"b\"", ""), BOTH, [false, true]),
            ("the first judge writes", faithful.replace("\"a\", \"b\"", "\"b\", \"a\""), BOTH, [false, true]),
            ("a setting", faithful.replace("recall = {}", "recall = { k = 3 }"), BOTH, [true, false]),
            (
                "a default that is written",
                faithful.replace("recall = {}", "recall = { min_overlap = 0.5 }"),
                BOTH,
                [true, true],
            ),
            (
                "the order of metrics",
                faithful.replace(", { recall = {} }", "").replace("[{", "[{ recall = {} }, {"),
                BOTH,
                [true, true],
            ),
        ];
        for (case, evaluate, revisions, same) in table {
            let now = measured(&evaluate, revisions);
            let found = ["faithfulness", "recall"].map(|name| now.get(name) == before.get(name));
            assert_eq!(found, same, "{case}: {evaluate}");
        }
    }

    #[test]
    fn one_judge_may_be_written_without_a_list() {
        let text = |judge: &str| measured(&format!("metrics = [{{ faithfulness = {{}} }}]\njudge = {judge}"), BOTH);
        assert_eq!(text("\"a\"")["faithfulness"], text("[\"a\"]")["faithfulness"]);
        assert_ne!(text("\"a\"")["faithfulness"], text("\"b\"")["faithfulness"]);
    }

    #[test]
    fn the_embedder_counts_for_metrics_that_compare_vectors() {
        let of = |embedder: &str, revision: &str| {
            let metrics = "metrics = [{ answer_similarity = {} }, { recall = {} }]";
            measured(&format!("{metrics}\nembedder = \"{embedder}\""), &[("small", revision), ("large", "1")])
        };
        let before = of("small", "1");
        for (now, similarity) in [(of("small", "1"), true), (of("small", "2"), false), (of("large", "1"), false)] {
            assert_eq!(now["answer_similarity"] == before["answer_similarity"], similarity);
            assert_eq!(now["recall"], before["recall"]);
        }
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        let names = |evaluate: &str| measured(evaluate, BOTH).into_keys().collect::<Vec<_>>();
        assert_eq!(names("metrics = [{ recall = {} }, { of_tomorrow = {} }, { ndcg = { n = 1 } }]"), ["recall"]);
        assert!(names("").is_empty() && names("metrics = 5").is_empty() && names("metrics = [").is_empty());
    }

    #[test]
    fn it_is_known_whether_more_is_better() {
        let measured = measured("metrics = [{ recall = {} }, { context_tokens = {} }]", BOTH);
        assert_eq!(["recall", "context_tokens"].map(|name| measured[name].higher_is_better()), [true, false]);
    }
}

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
    /// The metrics of a run by name. Metrics that this version does not
    /// understand are left out, so that they equal none of another run.
    pub(super) fn of(frozen: &RunProvenance) -> BTreeMap<String, Self> {
        let evaluate = toml::from_str::<toml::Table>(&frozen.experiment).ok();
        let evaluate = evaluate.and_then(|mut root| root.remove("evaluate"));
        let part = |key: &str| evaluate.as_ref().and_then(|evaluate| evaluate.get(key));
        let names = |key: &str| -> Vec<&str> {
            let listed =
                part(key).map_or(&[][..], |value| value.as_array().map_or(std::slice::from_ref(value), |all| all));
            listed.iter().filter_map(toml::Value::as_str).collect()
        };
        let (judges, embedder) = (names("judge"), names("embedder"));
        let identity = |name: &&str| frozen.identities.get(*name).cloned();
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
        self.config.keyed() == other.config.keyed() && self.asks == other.asks
    }
}

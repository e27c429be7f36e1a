//! `[engine]`: what executes the plan, here or on a Ray cluster.

use super::{
    reader::ExperimentReader,
    table::{optional, unknown_keys},
};
use crate::operator::Operator;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::de::DeTable;

/// What executes the plan: Ray where it is named, else this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineSpec {
    /// The engine of one machine; its settings, except `cores`, hold for each Ray worker too.
    pub local: LocalEngineSpec,
    /// The engine of a Ray cluster.
    pub ray: Option<RayEngineSpec>,
}

/// The engine of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LocalEngineSpec {
    /// The most threads that compute; at most the machine's cores, which are the default.
    pub cores: Option<usize>,
    /// The most tasks of one operator that wait for models at once, and the most questions or
    /// documents in flight in one task; each model's own limit holds too. Default 16.
    pub tasks: usize,
    /// Seconds between two saves of a long embedding; an interrupted run
    /// continues from the last one. Default 2.
    pub checkpoint_seconds: f64,
}

impl Default for LocalEngineSpec {
    fn default() -> Self {
        Self { cores: None, tasks: 16, checkpoint_seconds: 2.0 }
    }
}

/// The engine of a Ray cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RayEngineSpec {
    /// `auto` or `HOST:PORT` for a process inside the cluster; the address of
    /// the Jobs API (`http://HEAD:8265`) from anywhere. Default `auto`.
    pub address: String,
    /// Stages that get workers of their own, by operator (`embed`,
    /// `generate`, …). All others run on the one worker that each node has.
    #[schemars(with = "BTreeMap<String, StageSpec>")]
    pub stages: BTreeMap<Operator, StageSpec>,
    /// For a Jobs address: the wheel that the cluster installs. Left out, the
    /// cluster must have `reverie` installed.
    pub wheel: Option<String>,
    /// For a Jobs address: the variable that holds the cluster's token, where
    /// it asks for one. Default `RAY_AUTH_TOKEN`.
    pub token_env: String,
    /// For a Jobs address: variables that the job is given, such as a model's
    /// key. Ray shows them to whoever may look at its jobs; leave out those that
    /// are set on the cluster itself.
    pub environment: Vec<String>,
}

impl Default for RayEngineSpec {
    fn default() -> Self {
        Self {
            address: "auto".to_owned(),
            stages: BTreeMap::new(),
            wheel: None,
            token_env: "RAY_AUTH_TOKEN".to_owned(),
            environment: Vec::new(),
        }
    }
}

impl RayEngineSpec {
    /// Whether the address is that of the Jobs API.
    pub fn is_jobs_address(&self) -> bool {
        self.address.starts_with("http://") || self.address.starts_with("https://")
    }
}

/// The workers of a stage: each holds its models, and there are more of them
/// while tasks wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StageSpec {
    /// CPUs of a worker. Default 1.
    pub cpus: f64,
    /// GPUs of a worker; with a fraction, workers share one. Default 0.
    pub gpus: f64,
    /// Memory of a worker in MiB. Default: not reserved.
    pub memory_mib: Option<u64>,
    /// Other resources of a worker, as the cluster names them.
    pub resources: BTreeMap<String, f64>,
    /// Workers at least. Default 1.
    pub min: usize,
    /// Workers at most. Default 4.
    pub max: usize,
}

impl Default for StageSpec {
    fn default() -> Self {
        Self { cpus: 1.0, gpus: 0.0, memory_mib: None, resources: BTreeMap::new(), min: 1, max: 4 }
    }
}

impl StageSpec {
    fn mistake(&self) -> Option<&'static str> {
        let amounts = [self.cpus, self.gpus].into_iter().chain(self.resources.values().copied());
        if amounts.into_iter().any(|amount| !amount.is_finite() || amount < 0.0) {
            Some("CPUs, GPUs and resources must be numbers that are not below 0")
        } else if self.max == 0 || self.min > self.max {
            Some("`max` must be at least 1 and at least `min`")
        } else {
            None
        }
    }
}

pub(super) fn read<'a>(reader: &mut ExperimentReader<'a>, root: &DeTable<'a>) -> EngineSpec {
    let Some(value) = root.get("engine") else { return EngineSpec::default() };
    let Some(table) = value.get_ref().as_table() else {
        reader.error(value.span().start, "engine: expected `local = {}` or `ray = {}`");
        return EngineSpec::default();
    };
    unknown_keys(reader, table, &["local", "ray"], "engine");
    let local: LocalEngineSpec = optional(reader, table, "local").unwrap_or_default();
    if local.tasks == 0 || local.cores == Some(0) {
        reader.error(value.span().start, "engine.local: `cores` and `tasks` must be at least 1");
    }
    if !(0.0..=3600.0).contains(&local.checkpoint_seconds) {
        reader.error(value.span().start, "engine.local: `checkpoint_seconds` must be from 0 to 3600");
    }
    let ray: Option<RayEngineSpec> = optional(reader, table, "ray");
    for (operator, stage) in ray.iter().flat_map(|ray| &ray.stages) {
        if let Some(mistake) = stage.mistake() {
            reader.error(value.span().start, format!("engine.ray.stages.{}: {mistake}", operator.name()));
        }
    }
    EngineSpec { local, ray }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, SpecError};

    fn parse(engine: &str) -> Result<EngineSpec, Vec<SpecError>> {
        let rest =
            "name = \"n\"\n[corpus]\nsource = \"docs\"\n[space]\nchunker = [\"sentence\"]\nretriever = [\"bm25\"]\n";
        Experiment::parse(&format!("{rest}{engine}"), ".").map(|experiment| experiment.engine)
    }

    #[test]
    fn ray_has_stages_with_workers_of_their_own() {
        let engine = parse("[engine]\nray = { stages = { embed = { gpus = 0.5, max = 8 } } }\n").unwrap();
        let ray = engine.ray.unwrap();
        assert_eq!(ray.address, "auto");
        assert!(!ray.is_jobs_address());
        assert_eq!((ray.stages[&Operator::EMBED].gpus, ray.stages[&Operator::EMBED].max), (0.5, 8));
        assert_eq!(parse("").unwrap(), EngineSpec::default());
    }

    #[test]
    fn impossible_workers_are_refused() {
        for stage in ["cpus = -1", "min = 5, max = 2", "max = 0", "resources = { disk = -0.5 }"] {
            let errors = parse(&format!("[engine.ray.stages]\njudge = {{ {stage} }}\n")).unwrap_err();
            assert!(errors[0].message.contains("engine.ray.stages.judge"), "{stage}: {errors:?}");
        }
        assert!(parse("[engine]\nray = { adress = \"auto\" }\n").is_err());
        assert!(parse("[engine.ray.stages]\nembedding = {}\n").is_err());
    }
}

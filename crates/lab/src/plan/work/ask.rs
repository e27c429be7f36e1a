//! Questions to the replies of a system.

use super::{DescribeWork, KeyContext, Sizes, TimedComponent};
use crate::{
    operator::Operator,
    plan::{
        graph::PlanInputs,
        model_load::ModelLoad,
        ranges::RangePart,
        trial::{SystemTrial, identity_name},
    },
    spec::SystemSpec,
};
use rag::system::SystemConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use store::Key;

/// Asks a system some questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AskWork {
    /// Its name under `[systems]`.
    pub(crate) system: String,
    /// The name of its identity, by which estimates count its calls.
    pub(crate) called: String,
    /// Its version, as the run knows it.
    pub(crate) version: String,
    pub(crate) parameters: BTreeMap<String, Value>,
    pub(crate) questions: Vec<usize>,
    /// Which part of which range these questions are.
    pub(crate) part: RangePart,
}

impl AskWork {
    /// The work for these questions.
    pub(crate) fn new(inputs: &PlanInputs<'_>, trial: &SystemTrial, questions: Vec<usize>, part: RangePart) -> Self {
        let called = identity_name(&trial.system);
        let version = inputs.identities.get(&called).map(version_of).unwrap_or_default();
        let SystemTrial { system, parameters } = trial.clone();
        Self { system, called, version, parameters, questions, part }
    }

    /// The key of everything that decides replies, except the questions. Equal systems share it, whatever their names.
    pub(crate) fn stem(cx: &KeyContext<'_>, trial: &SystemTrial, spec: &SystemSpec, config: &SystemConfig) -> Key {
        let settings = config.settings();
        let builder = cx
            .builder("ask", &[])
            .field("version", &config.version())
            .field("kind", config.name())
            .field("config", &settings.key_settings())
            .field("identity", cx.identity(&identity_name(&trial.system)))
            .field("parameters", &trial.parameters)
            .field("seed", &spec.seed);
        // The key of a range of answers holds the texts of questions, and not the messages before them.
        if !cx.inputs.has_turns() || !settings.sends_history() {
            return builder.finish();
        }
        let turns: Vec<_> = cx.inputs.questions.iter().map(|question| &question.turns).collect();
        builder.field("turns", &turns).finish()
    }
}

/// The version of a system, as its identity holds it.
pub(crate) fn version_of(identity: &models::Identity) -> String {
    identity.parameters.get("version").and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl DescribeWork for AskWork {
    fn operator(&self) -> Operator {
        Operator::Ask
    }

    fn inputs(&self) -> Vec<usize> {
        Vec::new()
    }

    fn key(&self, _: &KeyContext<'_>) -> Key {
        self.part.key()
    }

    fn rows(&self, _: &PlanInputs<'_>) -> Option<usize> {
        Some(self.questions.len())
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        let settings = serde_json::to_value(&self.parameters).unwrap_or_default();
        TimedComponent { words: self.called.clone(), settings, ..TimedComponent::default() }
    }

    /// One call for each question. The tokens are the system's own matter.
    fn estimate_calls<'a>(&'a self, _: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        vec![(self.called.as_str(), ModelLoad::calls(self.questions.len() as u64))]
    }
}

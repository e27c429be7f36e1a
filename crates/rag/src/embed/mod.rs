//! `embed`: chunks and queries become vectors, by a model of the experiment.
//! There are no components: the axis lists names of models.

use crate::{
    AxisValue, Choice, Component, Error,
    component::{InputSize, ModelCalls},
};
use models::ModelKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fmt, ops::Deref};

/// The cosine of the angle between two vectors of the same length; 0 if one of them has the length 0.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f32::MIN_POSITIVE)
}

/// The name of an embedding model in the experiment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct EmbedderName(pub String);

impl Deref for EmbedderName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EmbedderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Component for EmbedderName {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        let prompt_tokens = item.text_tokens;
        vec![ModelCalls { model: &self.0, kind: ModelKind::Embedding, calls: 1, prompt_tokens, completion_tokens: 0 }]
    }
}

impl AxisValue for EmbedderName {
    const HAS_SETTINGS: bool = false;
}

impl Choice for EmbedderName {
    fn name(&self) -> &str {
        &self.0
    }
    fn version(&self) -> u32 {
        0
    }
    fn value(&self) -> Value {
        Value::String(self.0.clone())
    }
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

//! Whether enrichers that make vectors can make them with the embedders and the
//! chunkers that they are combined with.

use crate::{Error, Session, error_chain, task::CallTurn};
use models::Identity;
use rag::{Component, PipelineConfig};
use std::collections::BTreeMap;

/// All mistakes, each once. Models that cannot be used at all are reported elsewhere.
pub(super) fn check_vectors(session: &Session, identities: &BTreeMap<String, Identity>) -> Vec<String> {
    let models = session.models();
    let in_turn = models.in_turn(CallTurn::default());
    let mut mistakes: Vec<String> = Vec::new();
    let wanted = session.experiment.space.combinations().filter(|pipeline| pipeline.enrich.makes_vectors());
    let mut seen: Vec<PipelineConfig> = Vec::new();
    for pipeline in wanted {
        let same = |other: &PipelineConfig| {
            (&other.enrich, &other.embedder, &other.chunker)
                == (&pipeline.enrich, &pipeline.embedder, &pipeline.chunker)
        };
        let known = |name: &str| identities.contains_key(name);
        if seen.iter().any(same) || !pipeline.embedder.as_deref().is_some_and(known) {
            continue;
        }
        if let Err(error) = rag::enrich::check(&pipeline, &in_turn) {
            let embedder = pipeline.embedder.as_deref().unwrap_or_default();
            let reason = error_chain(&Error::from(error));
            let mistake = format!("space.enrich: with the embedder `{embedder}`: {reason}");
            if !mistakes.contains(&mistake) {
                mistakes.push(mistake);
            }
        }
        seen.push(pipeline);
    }
    mistakes
}

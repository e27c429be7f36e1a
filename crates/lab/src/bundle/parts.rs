//! Which parts the trial of a bundle has, if it is served in several processes.

use super::place::BundleLocation;
use crate::{
    Error,
    parts::{Part, models_of_kind},
    setup::Setup,
};
use models::ModelKind;

impl Part {
    /// The parts that have work to do for a bundle's trial.
    ///
    /// # Errors
    /// A place without a bundle, or with one of another format.
    pub async fn of_bundle(address: &str, setup: &Setup) -> Result<Vec<Self>, Error> {
        let place = BundleLocation::of(address, setup)?;
        let manifest = place.manifest().await?;
        let record = place.record(&manifest).await?;
        let (trial, ..) = record.trial_inputs(&manifest.trial)?;
        let pipeline = trial.runnable()?;
        let asks = |kind: ModelKind| !models_of_kind(pipeline, kind).is_empty();
        let has = |part: &Self| match part {
            Self::Encoder => pipeline.embedder.is_some() || asks(ModelKind::Embedding),
            Self::Reranker => asks(ModelKind::Rerank),
            Self::Llm => asks(ModelKind::Chat),
            Self::Qa => pipeline.prompted_generator().is_some(),
            Self::VectorStore | Self::Retriever | Self::Gateway => true,
        };
        Ok(Self::ALL.into_iter().filter(has).collect())
    }
}

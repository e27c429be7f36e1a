//! The artifacts that a piece of work, such as a run, uses. They are claimed before the work checks
//! whether they exist, so that nobody removes what is about to be reused.

use super::Workspace;
use store::{ArtifactStore, Error, upkeep::Claim};

/// The artifacts that one piece of work claims, for as long as it lives.
pub(crate) struct ClaimedArtifacts {
    store: ArtifactStore,
    /// A store that is only read is left as it is.
    is_reading: bool,
    /// Set once there is something to claim.
    claim: Option<Claim>,
}

impl ClaimedArtifacts {
    /// Claims nothing yet.
    pub(crate) fn new(workspace: &Workspace) -> Self {
        Self { store: workspace.store.clone(), is_reading: workspace.is_reading(), claim: None }
    }

    /// Adds artifacts of a run, whether they are there or not.
    pub(crate) async fn add(&mut self, run: &str, artifacts: impl Iterator<Item = String>) -> Result<(), Error> {
        if self.is_reading {
            return Ok(());
        }
        let claim = match self.claim.take() {
            Some(claim) => claim,
            None => Claim::begin(&self.store).await?,
        };
        self.claim.insert(claim).add(run, artifacts).await
    }

    /// How many other runs use the object store now; 0 for a folder. Runs that
    /// share an object store do not wait for each other: each finds only what
    /// others have finished.
    pub(crate) async fn others(&self) -> usize {
        match &self.claim {
            // Nothing depends on it: a store that cannot be listed fails elsewhere.
            Some(claim) if self.store.is_remote() => claim.others().await.unwrap_or_default(),
            _ => 0,
        }
    }

    /// Ends the claim: nothing of it is used any more.
    pub(crate) async fn end(self) {
        if let Some(claim) = self.claim {
            // If that fails, the claim expires.
            let _ = claim.end().await;
        }
    }
}

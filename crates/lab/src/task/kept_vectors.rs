//! Dense indexes that stay on this machine, under a second name. An index of nearly the same shards takes their vectors from
//! there, and decodes only the shards that are new.

use super::kept_files::{KeptContent, KeptFiles, SimilarFile};
use crate::{Error, blocking::compute, layout};
use rag::index::{DenseIndex, Index, IndexKind};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The dense indexes in a folder of this machine.
#[derive(Debug)]
pub(super) struct KeptVectors(Arc<KeptFiles>);

/// An index with vectors of some of the shards that are wanted.
pub(super) type SimilarIndex = SimilarFile<DenseIndex>;

impl KeptVectors {
    pub(super) fn new(scratch: &Path) -> Self {
        Self(Arc::new(KeptFiles::new(scratch.join(layout::DENSE_INDEXES), "dense index", IndexKind::Dense.name())))
    }

    /// The index that has vectors of the most of these shards.
    pub(super) async fn find_similar(&self, names: &[String]) -> Result<Option<SimilarIndex>, Error> {
        let (files, names) = (self.0.clone(), names.to_vec());
        let open = |path: &Path| {
            let index = DenseIndex::open(path).ok().filter(|index| index.verify().is_ok())?;
            let vectors = index.entries();
            Some((index, vectors))
        };
        compute(move || files.find_similar(&names, |path, _| open(path))).await
    }

    /// Keeps an index that was written from shards with these names and numbers of vectors.
    pub(super) async fn keep(
        &self,
        index: PathBuf,
        shards: Vec<(String, u32)>,
        taken_from: Option<SimilarIndex>,
    ) -> Result<(), Error> {
        let files = self.0.clone();
        let keep = move || {
            let names: Vec<String> = shards.iter().map(|(name, _)| name.clone()).collect();
            // Where the file system has no second names for a file, the next index decodes all shards.
            match files.link(&names, &index) {
                true => files.keep(&KeptContent::new(shards, None), taken_from.as_ref()),
                false => Ok(()),
            }
        };
        compute(keep).await?
    }
}

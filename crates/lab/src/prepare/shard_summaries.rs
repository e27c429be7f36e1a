//! What is known of the documents of each shard without decoding it, and which shards must be decoded to look for evidence.

use crate::{
    Error, Session,
    artifact::{DocumentRow, SHARDS_AT_ONCE},
    blocking::compute,
    corpus::{LoadedCorpus, LoadedShard},
    files::{read_with_checksum, write_with_checksum},
    layout,
    warning::CorpusFacts,
};
use eval::dataset::Anchoring;
use futures::{StreamExt, TryStreamExt, stream};
use rag::{Document, filter::add_fields, load::Rejected};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
};
use store::Key;

/// Raise when the summaries of earlier versions are of no use.
const VERSION: u32 = 2;

/// What is known of the documents of a shard.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ShardSummary {
    /// The paths of its documents, in order.
    pub(super) documents: Vec<String>,
    pub(super) text_bytes: usize,
    pub(super) rejected: Vec<Rejected>,
    pub(super) fields: BTreeSet<String>,
    pub(super) facts: CorpusFacts,
}

impl ShardSummary {
    fn of(rows: Vec<DocumentRow>) -> Self {
        let mut summary = Self::default();
        for row in rows {
            match row {
                DocumentRow::Document(document) => {
                    summary.facts.add(&document);
                    summary.text_bytes += document.text.len();
                    add_fields(&mut summary.fields, &document);
                    summary.documents.push(document.path);
                }
                DocumentRow::Rejected(rejected) => {
                    summary.facts.add_rejected(&rejected);
                    summary.rejected.push(rejected);
                }
            }
        }
        summary
    }
}

/// The summaries that an earlier run has kept, by the names of the shards' artifacts.
pub(super) struct KeptSummaries {
    path: PathBuf,
    by_name: HashMap<String, ShardSummary>,
}

impl KeptSummaries {
    pub(super) fn read(session: &Session) -> Self {
        let folder = layout::scratch_folder(session.workspace().root()).join(layout::SUMMARIES);
        let path = folder.join(Key::of_bytes(session.corpus_address().as_bytes()).hex());
        let kept = read_with_checksum(&path).and_then(|bytes| serde_json::from_slice::<(u32, _)>(&bytes).ok());
        let by_name = kept.filter(|(version, _)| *version == VERSION).map(|(_, by_name)| by_name);
        Self { path, by_name: by_name.unwrap_or_default() }
    }

    /// The summaries of shards: those that were kept, and new ones for the others. Then the file is written anew, with the
    /// summaries of these shards and no others.
    pub(super) async fn of(
        mut self,
        corpus: &LoadedCorpus,
        shards: &[LoadedShard],
        keep: bool,
    ) -> Result<Vec<ShardSummary>, Error> {
        let known: Vec<_> = shards.iter().map(|shard| self.by_name.remove(shard.artifact())).collect();
        let is_as_kept = self.by_name.is_empty() && known.iter().all(Option::is_some);
        let of_shard = async |(shard, known): (&LoadedShard, Option<ShardSummary>)| match known {
            Some(known) => Ok(known),
            None => {
                let rows = corpus.read(shard).await?;
                compute(move || ShardSummary::of(rows)).await
            }
        };
        let summaries = stream::iter(shards.iter().zip(known)).map(of_shard).buffered(SHARDS_AT_ONCE);
        let summaries: Vec<ShardSummary> = summaries.try_collect().await?;
        if keep && !is_as_kept {
            let by_name: HashMap<&str, &ShardSummary> =
                shards.iter().map(LoadedShard::artifact).zip(&summaries).collect();
            // Without this file, the next run decodes the corpus once more.
            if let Ok(bytes) = serde_json::to_vec(&(VERSION, by_name)) {
                let _ = write_with_checksum(&self.path, bytes);
            }
        }
        Ok(summaries)
    }
}

/// The shards with a document in which evidence is looked for, or whose place in the corpus `is_sampled`; each with the
/// place of its first document. The other documents are passed over.
pub(super) fn shards_to_read<'a>(
    (shards, summaries): (&'a [LoadedShard], &[ShardSummary]),
    anchoring: &mut Anchoring<'_>,
    is_sampled: impl Fn(usize) -> bool,
) -> Vec<(usize, &'a LoadedShard)> {
    let (mut first, mut wanted) = (0, Vec::new());
    for (shard, summary) in shards.iter().zip(summaries) {
        let mut is_wanted = false;
        for (place, path) in (first..).zip(&summary.documents) {
            let is_read = anchoring.reads(path);
            if !is_read {
                anchoring.visit(path, "");
            }
            is_wanted |= is_read || is_sampled(place);
        }
        if is_wanted {
            wanted.push((first, shard));
        }
        first += summary.documents.len();
    }
    wanted
}

/// Decodes shards, a few at a time, and shows each document with its place in the corpus, in order.
pub(super) async fn visit_documents(
    loaded: &LoadedCorpus,
    shards: Vec<(usize, &LoadedShard)>,
    mut visit: impl FnMut(usize, &Document),
) -> Result<(), Error> {
    let read = |(first, shard)| async move { loaded.read(shard).await.map(|rows| (first, rows)) };
    let mut shards = stream::iter(shards).map(read).buffered(SHARDS_AT_ONCE);
    while let Some((first, rows)) = shards.try_next().await? {
        let documents: Vec<Document> = rows.into_iter().filter_map(DocumentRow::into_document).collect();
        (first..).zip(&documents).for_each(|(place, document)| visit(place, document));
    }
    Ok(())
}

/// Looks for evidence in a document that may hold some.
pub(super) fn look_for_evidence(anchoring: &mut Anchoring<'_>, document: &Document) {
    if anchoring.reads(&document.path) {
        anchoring.visit(&document.path, &document.text);
    }
}

//! How the chunkers of a run have cut a document, and which of its chunks no search has found.

use crate::{
    Error, artifact,
    plan::{Trial, TrialKind},
    record::RunRecord,
    session::Session,
};
use rag::{Axis, Chunk, Span};
use serde::Serialize;
use std::collections::BTreeMap;

/// What one chunker made of a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChunkedDocument {
    /// The chunker and the parser, as their labels on the leaderboard.
    pub label: String,
    /// The trials that search these chunks.
    pub trials: Vec<String>,
    /// The chunks, in the order of the document.
    pub chunks: Vec<ChunkBorders>,
    /// Why the chunks cannot be shown; none if they are there.
    pub problem: Option<String>,
}

/// Where a chunk lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChunkBorders {
    /// Its number within the document.
    pub number: u32,
    /// Bytes of the document's text.
    pub span: Span,
    /// Whether it is searched. Parents of a hierarchy are not.
    pub searchable: bool,
    /// Its level in a hierarchy, from 0, the largest.
    pub level: u8,
}

/// The chunks of a document by each chunker of a run's trials, read from what the run has stored.
///
/// # Errors
/// If the run's record is damaged.
pub async fn document_chunks(session: &Session, record: &RunRecord, path: &str) -> Result<Vec<ChunkedDocument>, Error> {
    let mut chunked: BTreeMap<Vec<String>, ChunkedDocument> = BTreeMap::new();
    for row in &record.board().rows {
        // A trial that retrieves nothing, and one of a system, has no chunks.
        let Ok((trial, inputs, artifacts)) = record.trial_inputs(&row.id) else { continue };
        let names: Vec<String> = inputs.chunks.iter().filter_map(|id| artifacts.get(id).cloned()).collect();
        if let Some(known) = chunked.get_mut(&names) {
            known.trials.push(row.id.clone());
            continue;
        }
        let (chunks, problem) = match read_chunks(session, &names, path).await {
            Ok(chunks) => (chunks, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let (label, trials) = (label(trial), vec![row.id.clone()]);
        chunked.insert(names, ChunkedDocument { label, trials, chunks, problem });
    }
    // The board is in the order of scores, this in that of the trials.
    let mut chunked: Vec<ChunkedDocument> = chunked.into_values().collect();
    chunked.iter_mut().for_each(|document| document.trials.sort_unstable());
    chunked.sort_by(|a, b| a.trials.cmp(&b.trials));
    Ok(chunked)
}

/// The chunker of a trial, and its parser if that is not the default.
fn label(trial: &Trial) -> String {
    let of = |axis: Axis| trial.labels.get(axis.name()).filter(|label| !label.is_empty()).cloned();
    let chunker = of(Axis::Chunker).unwrap_or_default();
    let is_default = matches!(&trial.kind, TrialKind::Pipeline(pipeline) if pipeline.parse.is_default());
    match of(Axis::Parse).filter(|_| !is_default) {
        Some(parser) => format!("{chunker}, of {parser}"),
        None => chunker,
    }
}

/// The chunks of a document in these artifacts; or why they cannot be read, in a sentence.
async fn read_chunks(session: &Session, names: &[String], path: &str) -> Result<Vec<ChunkBorders>, String> {
    let mut found = Vec::new();
    for name in names {
        let read = session.workspace().store().read(name).await.map_err(|error| crate::error_chain(&error))?;
        let Some(content) = read else {
            return Err("its chunks are not in the store any more; run again to make them".to_owned());
        };
        let bytes = content.content;
        let path = path.to_owned();
        let decoded = tokio::task::spawn_blocking(move || {
            let chunks = artifact::decode::<Chunk>(bytes)?.into_iter().filter(|chunk| chunk.document == path);
            Ok::<_, Error>(
                chunks
                    .map(|Chunk { number, span, searchable, level, .. }| ChunkBorders {
                        number,
                        span,
                        searchable,
                        level,
                    })
                    .collect::<Vec<_>>(),
            )
        });
        found.extend(decoded.await.map_err(|error| error.to_string())?.map_err(|error| crate::error_chain(&error))?);
        // The chunks of a document are in one artifact.
        if !found.is_empty() {
            break;
        }
    }
    found.sort_by_key(|chunk| (chunk.span.start, chunk.level));
    Ok(found)
}

/// Where the searches of a run's trials found something of a document: by trial, the spans of passages and how many
/// questions found each.
///
/// # Errors
/// If the run's files cannot be read.
pub async fn found_passages(
    session: &Session,
    record: &RunRecord,
    path: &str,
) -> Result<BTreeMap<String, Vec<(Span, usize)>>, Error> {
    let mut found = BTreeMap::new();
    for row in &record.board().rows {
        let results = record.results_with_rows_of(session, &row.id).await?;
        let Ok(trial) = results.trial(&row.id) else { continue };
        let mut spans: BTreeMap<Span, usize> = BTreeMap::new();
        let passages = trial.questions.iter().flat_map(|question| &question.passages);
        for passage in passages.filter(|passage| passage.document == path) {
            *spans.entry(passage.span).or_default() += 1;
        }
        found.insert(row.id.clone(), spans.into_iter().collect());
    }
    Ok(found)
}

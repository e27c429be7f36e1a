//! Finds out why a search did not find golden evidence: whether the document was read, which chunk holds the evidence,
//! whether that chunk was among the candidates, and its rank in a deeper search.
//!
//! The deeper search runs on this machine with stored vectors, so no model is called. Its result is stored beside the
//! search's passages, and later runs read neither chunks nor indexes. If an index is missing or on another machine,
//! nothing is stored for the questions that need it, so that the next run looks again.

use super::{PassagesByQuestion, SearchedChunks, TracedTrial, holds_all};
use crate::{
    Error, artifact,
    artifact::DocumentRow,
    blocking::compute,
    layout,
    plan::{
        Outputs, TaskId,
        work::{ChunkWork, RetrieveWork, Work},
    },
    results::{EvidenceChunk, RANKED_CHUNKS, SearchedEvidence},
    task::{CallTurn, decode_matrix, open_corpus, searchable_questions},
};
use eval::{Evidence, Question};
use rag::{
    Chunk, ChunkTable, Component, Hit, Query,
    analysis::{TextAnalysis, shared_terms},
    pipeline::{find_deeper, searches},
    query::SearchQuery,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// The version of the stored facts. Raise it if their format changes, or if they are found in another way. Facts of an
/// earlier version are not used.
const VERSION: u32 = 3;

/// The most questions of a search that are searched deeper: the first ones that lost evidence. The others get no rank.
const MOST_SEARCHED: usize = 2_000;
/// The number of questions that are searched deeper at once. Each has up to [`RANKED_CHUNKS`] hits in memory.
const BLOCK: usize = 256;

/// The stored facts about the evidence that one search did not find.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct StoredEvidence {
    version: u32,
    min_overlap: f64,
    /// By the question's id.
    questions: BTreeMap<String, StoredQuestion>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredQuestion {
    /// The question's evidence. If the dataset has other evidence for it now, these facts are not used.
    golden: Vec<Evidence>,
    found: Vec<SearchedEvidence>,
}

/// For each question of which the search did not find all evidence, the facts about each piece of its evidence. None if
/// only stored facts may be used and some of these questions have none.
pub(super) async fn evidence(
    cx: &TracedTrial<'_>,
    search: TaskId,
    passages: &PassagesByQuestion,
) -> Result<Option<HashMap<String, Vec<SearchedEvidence>>>, Error> {
    let lacks = |question: &&Question| {
        let found = passages.get(&question.id).map_or(&[][..], |found| &found.passages);
        !holds_all(question, found, cx.min_overlap)
    };
    let lost: Vec<&Question> = cx.questions().iter().filter(lacks).collect();
    if lost.is_empty() {
        return Ok(Some(HashMap::new()));
    }
    let store = &cx.prepared.run_context.store;
    let name = cx.outputs([search]).remove(&search).unwrap_or_default();
    let path = layout::evidence(&name);
    let stored = store.get(&path).await.ok().flatten();
    let stored = stored.and_then(|bytes| serde_json::from_slice::<StoredEvidence>(&bytes).ok());
    let is_of_this = |stored: &StoredEvidence| stored.version == VERSION && stored.min_overlap == cx.min_overlap;
    let empty = || StoredEvidence { version: VERSION, min_overlap: cx.min_overlap, questions: BTreeMap::new() };
    let mut stored = stored.filter(is_of_this).unwrap_or_else(empty);
    let by_id: HashMap<&str, &Question> = lost.iter().map(|question| (question.id.as_str(), *question)).collect();
    stored.questions.retain(|id, known| by_id.get(id.as_str()).is_some_and(|it| it.evidence == known.golden));
    let is_open = |(_, question): &(usize, &Question)| !stored.questions.contains_key(&question.id);
    let open: Vec<(usize, &Question)> = lost.iter().copied().enumerate().filter(is_open).collect();
    let mut incomplete = Vec::new();
    if !open.is_empty() {
        if cx.only_stored {
            return Ok(None);
        }
        let to_search = open.iter().take_while(|(place, _)| *place < MOST_SEARCHED).count();
        let open: Vec<&Question> = open.into_iter().map(|(_, question)| question).collect();
        let before = stored.questions.len();
        for (question, found) in open.iter().zip(find(cx, search, &open, to_search).await?) {
            let FoundEvidence { found, is_complete } = found;
            if is_complete {
                let known = StoredQuestion { golden: question.evidence.clone(), found };
                stored.questions.insert(question.id.clone(), known);
            } else {
                incomplete.push((question.id.clone(), found));
            }
        }
        // If this fails, the next run looks again.
        if stored.questions.len() > before && layout::is_artifact(&name) {
            let _ = store.replace(&path, serde_json::to_vec(&stored).map_err(Error::table)?).await;
        }
    }
    let complete = stored.questions.into_iter().map(|(id, known)| (id, known.found));
    Ok(Some(complete.chain(incomplete).collect()))
}

/// The facts about each piece of a question's evidence.
struct FoundEvidence {
    found: Vec<SearchedEvidence>,
    /// Whether the facts are final and may be stored: looking again would find nothing more.
    is_complete: bool,
}

/// Finds the chunks that hold the evidence of these questions, and searches deeper for the first `to_search` of them.
async fn find(
    cx: &TracedTrial<'_>,
    search: TaskId,
    questions: &[&Question],
    to_search: usize,
) -> Result<Vec<FoundEvidence>, Error> {
    let Work::Retrieve(work) = &cx.plan.tasks[search].work else {
        return Err(Error::table(format_args!("{} searches nothing", cx.plan.tasks[search].label)));
    };
    let wanted: BTreeSet<&str> =
        questions.iter().flat_map(|question| &question.evidence).map(|item| item.document.as_str()).collect();
    let documents = read_documents(cx, work, &wanted).await?;
    let owned: Vec<Question> = questions.iter().map(|question| (*question).clone()).collect();
    let analysis = work.retriever.text_analysis().unwrap_or_default();
    let held = compute(move || owned.iter().map(|question| documents.hold(question, &analysis)).collect::<Vec<_>>());
    let mut held = held.await?;
    let is_searched = if work.retriever.runs_function() {
        // A retriever that is a function cannot search deeper, in this run or a later one.
        true
    } else {
        rank(cx, work, &questions[..to_search], &mut held[..to_search]).await?
    };
    let of_question = |items: Vec<HeldEvidence>| FoundEvidence {
        is_complete: is_searched || !is_held(&items),
        found: items.into_iter().map(|item| item.known).collect(),
    };
    Ok(held.into_iter().map(of_question).collect())
}

/// Whether a chunk holds enough of at least one of these pieces of evidence. Only then can a deeper search find a rank.
fn is_held(items: &[HeldEvidence]) -> bool {
    items.iter().any(|item| !item.holders.is_empty())
}

/// The chunks of the documents that the evidence is in.
struct ChunkedDocuments {
    chunks: SearchedChunks,
    /// The paths of the documents that were read, also of those without a chunk.
    read: BTreeSet<String>,
    /// Whether documents were cut into chunks. If not, an index of the user's own is searched, whose chunks are not
    /// known.
    is_cut: bool,
}

/// A piece of evidence with the chunks that hold enough of it.
struct HeldEvidence {
    known: SearchedEvidence,
    /// These chunks by document and number.
    holders: HashMap<(String, u32), EvidenceChunk>,
}

/// Reads the chunks of these documents. It reads shard by shard, so that other documents take no memory.
async fn read_documents(
    cx: &TracedTrial<'_>,
    work: &RetrieveWork,
    wanted: &BTreeSet<&str>,
) -> Result<ChunkedDocuments, Error> {
    let run_context = &cx.prepared.run_context;
    let mut all = Vec::new();
    for &shard in &work.corpus.chunks {
        let Work::Chunk(chunk) = &cx.plan.tasks[shard].work else { continue };
        if !holds_document(cx, chunk.documents, wanted) {
            continue;
        }
        let rows = artifact::decode::<Chunk>(run_context.read(&cx.outputs([shard]), shard).await?)?;
        all.extend(rows.into_iter().filter(|chunk| wanted.contains(chunk.document.as_str())));
    }
    let mut read: BTreeSet<String> = all.iter().map(|chunk: &Chunk| chunk.document.clone()).collect();
    // A document without a chunk may have been read too, so it is looked for among the documents.
    let without: BTreeSet<&str> = wanted.iter().copied().filter(|document| !read.contains(*document)).collect();
    for &shard in work.corpus.chunks.iter().filter(|_| !without.is_empty()) {
        let Work::Chunk(ChunkWork { documents, .. }) = &cx.plan.tasks[shard].work else { continue };
        if holds_document(cx, *documents, &without) {
            let rows = artifact::decode::<DocumentRow>(run_context.read(&cx.outputs([*documents]), *documents).await?)?;
            let paths = rows.into_iter().filter_map(DocumentRow::into_document).map(|document| document.path);
            read.extend(paths.filter(|path| without.contains(path.as_str())));
        }
    }
    let table = Arc::new(ChunkTable::checked(all)?);
    let (chunks, is_cut) = (SearchedChunks::new(table, &work.chunker, cx.min_overlap)?, !work.chunker.is_nothing());
    Ok(ChunkedDocuments { chunks, read, is_cut })
}

/// Whether the shard of files that a task loads may hold one of these documents. The path of a document in an archive
/// begins with the path of the archive.
fn holds_document(cx: &TracedTrial<'_>, documents: TaskId, wanted: &BTreeSet<&str>) -> bool {
    match &cx.plan.tasks[documents].work {
        Work::Load(load) => {
            let begins = |path: &str| wanted.range(path..).next().is_some_and(|document| document.starts_with(path));
            load.files.iter().any(|(file, _)| begins(&file.path))
        }
        _ => true,
    }
}

impl ChunkedDocuments {
    /// For each piece of a question's evidence, the chunks that hold it.
    fn hold(&self, question: &Question, analysis: &TextAnalysis) -> Vec<HeldEvidence> {
        question.evidence.iter().map(|item| self.hold_item(question, item, analysis)).collect()
    }

    fn hold_item(&self, question: &Question, item: &Evidence, analysis: &TextAnalysis) -> HeldEvidence {
        let (mut best, mut holders): (Option<EvidenceChunk>, _) = (None, HashMap::new());
        for part in self.chunks.parts(item) {
            let chunk = part.chunk;
            let known = EvidenceChunk {
                document: chunk.document.to_owned(),
                number: chunk.number,
                span: chunk.span,
                // With four decimals, the share is the same after it was stored and read.
                share: (part.share * 1e4).round() / 1e4,
                shared_terms: shared_terms(analysis, &question.question, chunk.text),
            };
            if part.is_enough {
                holders.insert((chunk.document.to_owned(), chunk.number), known.clone());
            }
            if best.as_ref().is_none_or(|best| known.share > best.share) {
                best = Some(known);
            }
        }
        let known = SearchedEvidence {
            is_read: self.read.contains(&item.document),
            is_held: !holders.is_empty() || !self.is_cut,
            chunk: best,
            ..SearchedEvidence::default()
        };
        HeldEvidence { known, holders }
    }
}

/// Searches deeper for the questions that have a chunk with enough of their evidence, and sets the ranks of these
/// chunks. Returns false if an input of the search is no longer in the store.
async fn rank(
    cx: &TracedTrial<'_>,
    work: &RetrieveWork,
    questions: &[&Question],
    found: &mut [Vec<HeldEvidence>],
) -> Result<bool, Error> {
    let held = questions.iter().zip(found).filter(|(_, items)| is_held(items));
    let (asked, held): (Vec<&Question>, Vec<&mut Vec<HeldEvidence>>) =
        held.map(|(question, items)| (*question, items)).unzip();
    if asked.is_empty() {
        return Ok(true);
    }
    let written = work.written.as_ref();
    let queries = written.map(|written| written.queries);
    let vectors = written.and_then(|written| written.vectors);
    let inputs = cx.outputs(work.corpus.all().into_iter().chain(queries).chain(vectors));
    if cx.prepared.run_context.store.first_missing(inputs.values()).await?.is_some() {
        return Ok(false);
    }
    let rankings = search(cx, work, &inputs, &asked).await?;
    for (items, ranking) in held.into_iter().zip(rankings) {
        for item in items.iter_mut().filter(|item| !item.holders.is_empty()) {
            item.note(&ranking);
        }
    }
    Ok(true)
}

/// The chunks that a deeper search for a question found, of the documents that its evidence is in.
struct DeeperRanking {
    chunks: Vec<ChunkRank>,
    /// The number of chunks that it found in all documents.
    depth: usize,
    /// The candidates that the retriever chose its hits from; empty if it does not choose.
    candidates: Vec<ChunkRank>,
}

/// A chunk that a search found, with its rank.
#[derive(Debug, PartialEq)]
struct ChunkRank {
    /// From 1.
    rank: usize,
    /// Its document and number.
    chunk: (String, u32),
}

/// The hits on chunks of these documents, with their ranks among all hits.
fn of_documents(hits: &[Hit], table: &ChunkTable, documents: &BTreeSet<String>) -> Vec<ChunkRank> {
    let ranked = |(rank, hit): (usize, &Hit)| {
        let chunk = table.chunk(hit.row);
        let is_wanted = documents.contains(chunk.document);
        is_wanted.then(|| ChunkRank { rank, chunk: (chunk.document.to_owned(), chunk.number) })
    };
    (1..).zip(hits).filter_map(ranked).collect()
}

/// Searches deeper for these questions. The rankings are in the order of the questions.
async fn search(
    cx: &TracedTrial<'_>,
    work: &RetrieveWork,
    inputs: &Outputs,
    questions: &[&Question],
) -> Result<Vec<DeeperRanking>, Error> {
    let run_context = &cx.prepared.run_context;
    let (corpus, mut vectors) = open_corpus(run_context, inputs, &work.corpus, None).await?;
    if let Some(written) = &work.written {
        vectors = decode_matrix(run_context, inputs, written.vectors).await?;
    }
    let models = run_context.models().in_turn(CallTurn::default());
    let retriever = work.retriever.build(&models.context(work.embedder.as_deref()))?;
    let written = work.written.as_ref().map(|written| written.queries);
    let all = searchable_questions(run_context, inputs, written, false).await?;
    let queries: Vec<Vec<SearchQuery>> = all.into_iter().map(|question| question.queries).collect();
    let places: HashMap<&str, usize> = run_context.questions.iter().map(|it| it.id.as_str()).zip(0..).collect();
    let of_question = |question: &&Question| {
        let not_asked = || Error::table(format_args!("the run has no question `{}`", question.id));
        let documents: BTreeSet<String> = question.evidence.iter().map(|item| item.document.clone()).collect();
        places.get(question.id.as_str()).map(|place| (*place, documents)).ok_or_else(not_asked)
    };
    let asked = questions.iter().map(of_question).collect::<Result<Vec<(usize, BTreeSet<String>)>, Error>>()?;
    // If questions have several queries, the hits of each query are candidates for the list that joins them.
    let has_several = queries.iter().any(|queries| queries.len() > 1);
    let hits = work.retriever.limit().filter(|_| has_several);
    let runtime = tokio::runtime::Handle::current();
    let rankings = compute(move || {
        let all = searches(&queries, vectors.as_ref());
        let corpus = corpus.corpus();
        let choice = retriever.searched_candidates().or(hits);
        let mut rankings = Vec::with_capacity(asked.len());
        for block in asked.chunks(BLOCK) {
            let searched: Vec<Vec<Query<'_>>> = block.iter().map(|(place, _)| all[*place].clone()).collect();
            let deeper = |depth: usize| runtime.block_on(find_deeper(&*retriever, &corpus, &searched, depth));
            let ranked = deeper(RANKED_CHUNKS)?;
            let candidates = match choice {
                Some(candidates) => deeper(candidates)?,
                None => vec![Vec::new(); ranked.len()],
            };
            for (((_, documents), ranked), candidates) in block.iter().zip(ranked).zip(candidates) {
                rankings.push(DeeperRanking {
                    chunks: of_documents(&ranked, corpus.table, documents),
                    depth: ranked.len(),
                    candidates: of_documents(&candidates, corpus.table, documents),
                });
            }
        }
        Ok::<_, rag::Error>(rankings)
    });
    Ok(rankings.await??)
}

impl HeldEvidence {
    /// Sets the rank of this piece of evidence, and whether it was a candidate, from a deeper search.
    fn note(&mut self, found: &DeeperRanking) {
        self.known.depth = found.depth;
        self.known.is_candidate = found.candidates.iter().any(|it| self.holders.contains_key(&it.chunk));
        let first = found.chunks.iter().find(|it| self.holders.contains_key(&it.chunk));
        if let Some(ChunkRank { rank, chunk }) = first {
            self.known.rank = Some(*rank);
            self.known.chunk = self.holders.get(chunk).cloned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_keeps_the_chunks_of_the_wanted_documents_with_their_ranks() {
        let chunk = |document: &str, number: u32| Chunk {
            document: document.to_owned(),
            number,
            searchable: true,
            space: " ".into(),
            ..Chunk::default()
        };
        let table = ChunkTable::new(vec![chunk("a", 0), chunk("b", 0), chunk("b", 1), chunk("c", 0)]);
        let hits = [3, 2, 0, 1].map(|row| Hit { row, score: 1.0 });
        let ranked = |rank, document: &str, number| ChunkRank { rank, chunk: (document.to_owned(), number) };
        let of =
            |documents: &[&str]| of_documents(&hits, &table, &documents.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(of(&["b"]), [ranked(2, "b", 1), ranked(4, "b", 0)]);
        assert_eq!(of(&["a", "c", "d"]), [ranked(1, "c", 0), ranked(3, "a", 0)]);
        assert!(of(&[]).is_empty());
    }
}

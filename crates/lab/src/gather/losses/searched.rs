//! What chunks and a deeper search tell of evidence that a search did not find: whether its document
//! was read, which chunk holds it, whether that chunk was among the candidates, and how far down it
//! is.
//!
//! The search is local and its vectors are stored, so that nothing is asked again. What was found is
//! stored beside the search's passages, and later runs read neither chunks nor indexes.

use super::{PassagesByQuestion, TracedTrial, holds_all};
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
use eval::{Evidence, Question, metric::find_evidence};
use rag::{
    Chunk, ChunkTable, Component, Hit, Passage,
    analysis::shared_terms,
    chunk::Chunker,
    pipeline::{find_deeper, searches},
    query::SearchQuery,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Raise when what is stored, or how it is found, changes: then it is found anew.
const VERSION: u32 = 1;

/// What is known of a search, as it is stored.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct StoredEvidence {
    version: u32,
    min_overlap: f64,
    /// By question.
    questions: BTreeMap<String, StoredQuestion>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredQuestion {
    /// The evidence that this speaks of: another version of the dataset may have another.
    golden: Vec<Evidence>,
    found: Vec<SearchedEvidence>,
}

/// For each question whose evidence the search did not find as a whole, what is known of each piece.
pub(super) async fn evidence(
    cx: &TracedTrial<'_>,
    search: TaskId,
    passages: &PassagesByQuestion,
) -> Result<HashMap<String, Vec<SearchedEvidence>>, Error> {
    let lacks = |question: &&Question| {
        let found = passages.get(&question.id).map_or(&[][..], |found| &found.passages);
        !holds_all(question, found, cx.min_overlap)
    };
    let lost: Vec<&Question> = cx.prepared.questions.iter().filter(lacks).collect();
    if lost.is_empty() {
        return Ok(HashMap::new());
    }
    let store = &cx.prepared.run_context.store;
    let name = cx.outputs([search]).remove(&search).unwrap_or_default();
    let path = layout::evidence(&name);
    let stored = store.get(&path).await.ok().flatten();
    let stored = stored.and_then(|bytes| serde_json::from_slice::<StoredEvidence>(&bytes).ok());
    let is_of_this = |stored: &StoredEvidence| stored.version == VERSION && stored.min_overlap == cx.min_overlap;
    let empty = || StoredEvidence { version: VERSION, min_overlap: cx.min_overlap, questions: BTreeMap::new() };
    let mut stored = stored.filter(is_of_this).unwrap_or_else(empty);
    stored
        .questions
        .retain(|id, known| lost.iter().any(|question| question.id == *id && question.evidence == known.golden));
    let open: Vec<&Question> =
        lost.iter().copied().filter(|question| !stored.questions.contains_key(&question.id)).collect();
    if !open.is_empty() {
        for (question, found) in open.iter().zip(find(cx, search, &open).await?) {
            let known = StoredQuestion { golden: question.evidence.clone(), found };
            stored.questions.insert(question.id.clone(), known);
        }
        // Without it, the next run looks again.
        if layout::is_artifact(&name) {
            let _ = store.replace(&path, serde_json::to_vec(&stored).map_err(Error::table)?).await;
        }
    }
    Ok(stored.questions.into_iter().map(|(id, known)| (id, known.found)).collect())
}

/// What chunks and a deeper search tell of the evidence of these questions.
async fn find(
    cx: &TracedTrial<'_>,
    search: TaskId,
    questions: &[&Question],
) -> Result<Vec<Vec<SearchedEvidence>>, Error> {
    let Work::Retrieve(work) = &cx.plan.tasks[search].work else {
        return Err(Error::table(format_args!("{} searches nothing", cx.plan.tasks[search].label)));
    };
    let wanted: BTreeSet<&str> =
        questions.iter().flat_map(|question| &question.evidence).map(|item| item.document.as_str()).collect();
    let documents = read_documents(cx, work, &wanted).await?;
    let mut found: Vec<Vec<HeldEvidence>> =
        questions.iter().map(|question| documents.hold(question, cx.min_overlap)).collect();
    if !work.retriever.runs_function() && found.iter().flatten().any(|item| !item.holders.is_empty()) {
        rank(cx, work, questions, &mut found).await?;
    }
    Ok(found.into_iter().map(|items| items.into_iter().map(|item| item.known).collect()).collect())
}

/// The documents of evidence, cut into chunks as the trial searches them.
struct ChunkedDocuments {
    table: ChunkTable,
    /// Documents that were read; one without text has no chunk.
    read: BTreeSet<String>,
    /// Turns a chunk into the passage that a hit on it gives; none if that is the chunk itself, or if
    /// making the chunker takes a model or a function.
    chunker: Option<Box<dyn Chunker>>,
}

/// A piece of evidence with the chunks that hold enough of it.
struct HeldEvidence {
    known: SearchedEvidence,
    /// By document and number, with the share of each.
    holders: HashMap<(String, u32), EvidenceChunk>,
}

/// Reads the chunks of these documents, shard by shard, so that the others need no memory.
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
    // A document without a chunk may have been read all the same.
    let without: BTreeSet<&str> = wanted.iter().copied().filter(|document| !read.contains(*document)).collect();
    for &shard in work.corpus.chunks.iter().filter(|_| !without.is_empty()) {
        let Work::Chunk(ChunkWork { documents, .. }) = &cx.plan.tasks[shard].work else { continue };
        if holds_document(cx, *documents, &without) {
            let rows = artifact::decode::<DocumentRow>(run_context.read(&cx.outputs([*documents]), *documents).await?)?;
            let paths = rows.into_iter().filter_map(DocumentRow::into_document).map(|document| document.path);
            read.extend(paths.filter(|path| without.contains(path.as_str())));
        }
    }
    let plain = work.chunker.models().is_empty() && !work.chunker.needs_embedder() && !work.chunker.runs_function();
    let chunker = if plain { Some(work.chunker.build(&rag::Context::default())?) } else { None };
    Ok(ChunkedDocuments { table: ChunkTable::checked(all)?, read, chunker })
}

/// Whether a shard of files may hold one of these documents. A document of an archive has a longer
/// path than its file.
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
    /// The chunks that hold each piece of a question's evidence.
    fn hold(&self, question: &Question, min_overlap: f64) -> Vec<HeldEvidence> {
        question.evidence.iter().map(|item| self.hold_item(question, item, min_overlap)).collect()
    }

    fn hold_item(&self, question: &Question, item: &Evidence, min_overlap: f64) -> HeldEvidence {
        let span = item.span.unwrap_or_default();
        let overlaps =
            |chunk: &Chunk| chunk.searchable && chunk.document == item.document && chunk.span.overlap(span) > 0;
        let (mut best, mut holders): (Option<EvidenceChunk>, _) = (None, HashMap::new());
        for (row, chunk) in (0u32..).zip(self.table.chunks()).filter(|(_, chunk)| overlaps(chunk)) {
            let passages = self.passages(Hit { row, score: 1.0 });
            let Some(held) = find_evidence(std::slice::from_ref(item), &passages, min_overlap).pop() else { continue };
            let known = EvidenceChunk {
                document: chunk.document.clone(),
                number: chunk.number,
                span: chunk.span,
                // So few digits are read as they were written.
                share: (held.share * 1e4).round() / 1e4,
                shared_terms: shared_terms(&question.question, &chunk.text),
            };
            if held.rank.is_some() {
                holders.insert((chunk.document.clone(), chunk.number), known.clone());
            }
            if best.as_ref().is_none_or(|best| known.share > best.share) {
                best = Some(known);
            }
        }
        let known = SearchedEvidence {
            is_read: self.read.contains(&item.document),
            is_held: !holders.is_empty(),
            chunk: best,
            ..SearchedEvidence::default()
        };
        HeldEvidence { known, holders }
    }

    /// What a hit on a chunk gives.
    fn passages(&self, hit: Hit) -> Vec<Passage> {
        match &self.chunker {
            Some(chunker) => chunker.context(vec![hit], &self.table),
            None => vec![self.table.passage(hit)],
        }
    }
}

/// Searches deeper, and notes where the chunks stand that hold evidence. Nothing is noted if
/// something that is searched is no longer in the store.
async fn rank(
    cx: &TracedTrial<'_>,
    work: &RetrieveWork,
    questions: &[&Question],
    found: &mut [Vec<HeldEvidence>],
) -> Result<(), Error> {
    let run_context = &cx.prepared.run_context;
    let written = work.written.as_ref();
    let queries = written.map(|written| written.queries);
    let vectors = written.and_then(|written| written.vectors);
    let inputs = cx.outputs(work.corpus.all().into_iter().chain(queries).chain(vectors));
    for name in inputs.values() {
        if !run_context.store.exists(name).await? {
            return Ok(());
        }
    }
    let (rankings, asked) = search(cx, work, &inputs, questions).await?;
    for (items, searched) in found.iter_mut().zip(asked) {
        let (ranking, candidates) = &rankings[searched];
        for item in items.iter_mut().filter(|item| !item.holders.is_empty()) {
            item.note(ranking, candidates);
        }
    }
    Ok(())
}

/// A question's chunks in the order of a deeper search, and the candidates that its retriever chose
/// from, by document and number.
type SearchRanking = (Vec<(String, u32)>, Vec<(String, u32)>);

/// The rankings of these questions, and for each question the place of its ranking.
async fn search(
    cx: &TracedTrial<'_>,
    work: &RetrieveWork,
    inputs: &Outputs,
    questions: &[&Question],
) -> Result<(Vec<SearchRanking>, Vec<usize>), Error> {
    let run_context = &cx.prepared.run_context;
    let (corpus, mut vectors) = open_corpus(run_context, inputs, &work.corpus).await?;
    if let Some(written) = &work.written {
        vectors = decode_matrix(run_context, inputs, written.vectors).await?;
    }
    let models = run_context.models().in_turn(CallTurn::default());
    let retriever = work.retriever.build(&models.context(work.embedder.as_deref()))?;
    let written = work.written.as_ref().map(|written| written.queries);
    let all = searchable_questions(run_context, inputs, written, false).await?;
    let queries: Vec<Vec<SearchQuery>> = all.into_iter().map(|question| question.queries).collect();
    let wanted: BTreeSet<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    let ids: Vec<String> = run_context.questions.iter().map(|question| question.id.clone()).collect();
    let places: Vec<usize> = (0..ids.len()).filter(|&i| wanted.contains(ids[i].as_str())).collect();
    let asked = questions.iter().map(|question| places.iter().position(|&i| ids[i] == question.id).unwrap_or_default());
    let asked: Vec<usize> = asked.collect();
    // The hits of several queries are candidates for the list that is made of them.
    let has_several = queries.iter().any(|queries| queries.len() > 1);
    let hits = work.retriever.limit().filter(|_| has_several);
    let runtime = tokio::runtime::Handle::current();
    let rankings = compute(move || {
        let all = searches(&queries, vectors.as_ref());
        let chosen: Vec<_> = places.iter().map(|&i| all[i].clone()).collect();
        let corpus = corpus.corpus();
        let names = |hits: Vec<Hit>| -> Vec<(String, u32)> {
            let chunk = |hit: Hit| corpus.table.chunk(hit.row);
            hits.into_iter().map(chunk).map(|chunk| (chunk.document.clone(), chunk.number)).collect()
        };
        let deeper = |depth: usize| {
            let found = runtime.block_on(find_deeper(&*retriever, &corpus, &chosen, depth))?;
            Ok::<_, rag::Error>(found.into_iter().map(names).collect::<Vec<_>>())
        };
        let ranked = deeper(RANKED_CHUNKS)?;
        let candidates = match retriever.searched_candidates().or(hits) {
            Some(candidates) => deeper(candidates)?,
            None => vec![Vec::new(); ranked.len()],
        };
        Ok::<_, rag::Error>(ranked.into_iter().zip(candidates).collect::<Vec<SearchRanking>>())
    });
    Ok((rankings.await??, asked))
}

impl HeldEvidence {
    /// Notes where the chunks that hold it stand in the order of a search.
    fn note(&mut self, ranking: &[(String, u32)], candidates: &[(String, u32)]) {
        self.known.depth = ranking.len();
        self.known.is_candidate = candidates.iter().any(|chunk| self.holders.contains_key(chunk));
        let first = ranking.iter().position(|chunk| self.holders.contains_key(chunk));
        if let Some(first) = first {
            self.known.rank = Some(first + 1);
            self.known.chunk = self.holders.get(&ranking[first]).cloned();
        }
    }
}

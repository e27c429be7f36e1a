//! Collects the facts for the warnings of a finished run, from its results, its chunks and its word indexes.

use super::losses::{SearchedChunks, min_overlap};
use crate::{
    Error, PreparedRun, Session,
    blocking::compute,
    engine::PlanOutcome,
    files::{read_with_checksum, write_with_checksum},
    layout,
    plan::{CorpusInputs, Outputs, TaskId, TrialTasks},
    results::{QuestionResult, Results, TrialResult, cut_share},
    task::{chunk_table, open_indexes},
    warning::{
        CutTextsFacts, EvidenceFacts, FilterFacts, PromptFacts, ReplyFacts, RunFacts, TrialFindings, Warning,
        WarningCode, find,
    },
};
use eval::{Evidence, Question, Score};
use models::Ledger;
use rag::{
    Component, PipelineConfig,
    chunk::ChunkerConfig,
    index::{Bm25Index, IndexKind},
    pipeline::chunks_left_by_filter,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};
use store::{Key, KeyBuilder};

/// Raise when the facts about chunks that earlier versions have kept are of no use.
const KEPT_VERSION: u32 = 1;
/// A part of the error message for a prompt that is longer than the model reads. A missing score contains the message.
const TOO_LONG: &str = "do not fit its context of";

/// The warnings of a finished run. If chunks or an index cannot be read, for example because they are no longer in the
/// store, the warnings that need them are left out.
pub(crate) async fn warnings(
    session: &Session,
    prepared: &PreparedRun,
    outcome: &PlanOutcome,
    results: &mut Results,
) -> Vec<Warning> {
    let mut facts = found(prepared, results);
    // On a cluster, chunks and indexes are on other machines, so they are not read.
    if session.experiment.engine.ray.is_none() {
        // After a search, the task ids of the outcome are those of its last step's plan, and not of the whole plan.
        let made = session.experiment.search.is_exhaustive().then_some(&outcome.outputs);
        let missing = ChunkReader::new(prepared, made, results).add(&mut facts, results).await;
        // A run whose chunks or indexes are gone was not checked for these warnings.
        results.looked_for.iter_mut().for_each(|codes| codes.retain(|code| !missing.contains(code)));
    }
    find(&facts, &session.experiment.warnings.ignore)
}

/// The warnings that follow from results alone, without reading chunks or indexes.
pub(crate) fn warnings_of_results(prepared: &PreparedRun, results: &Results, ignored: &[WarningCode]) -> Vec<Warning> {
    find(&found(prepared, results), ignored)
}

/// The facts that were known before the run, and those from the results.
fn found(prepared: &PreparedRun, results: &Results) -> RunFacts {
    let planned = |trial: &TrialResult| prepared.facts.trials.iter().find(|it| it.trial == trial.trial.id).cloned();
    let of_trial = |trial: &TrialResult| {
        let mut facts = planned(trial)?;
        facts.found = Some(findings(results, trial));
        Some(facts)
    };
    RunFacts {
        trials: results.trials.iter().filter_map(of_trial).collect(),
        equal: results.equal_trials(),
        ..prepared.facts.clone()
    }
}

/// The facts about a trial from the results.
fn findings(results: &Results, trial: &TrialResult) -> TrialFindings {
    let retrieval = trial.retrieval;
    let answers: Vec<_> = trial.questions.iter().filter_map(|question| question.answer.as_ref()).collect();
    let cut: Vec<usize> =
        answers.iter().map(|answer| answer.dropped_passages as usize).filter(|dropped| *dropped > 0).collect();
    let judged = results.metrics.iter().filter(|metric| metric.judged);
    let verdicts: Vec<&Score> = judged
        .flat_map(|metric| trial.questions.iter().filter_map(|question| question.scores.get(&metric.name)))
        .map(|scored| &scored.score)
        .filter(|score| score.value().is_some() || score.is_failure())
        .collect();
    let is_too_long = |score: &&&Score| match score {
        Score::Missing(missing) => missing.to_string().contains(TOO_LONG),
        Score::Value(_) => false,
    };
    TrialFindings {
        searched: retrieval.map_or(0, |count| count.questions),
        empty: retrieval.map_or(0, |count| count.empty),
        cut_texts: [(true, &trial.usage.index), (false, &trial.usage.questions)]
            .into_iter()
            .flat_map(|(of_chunks, ledger)| cut_texts(ledger, of_chunks))
            .collect(),
        filter: filter_facts(results, trial),
        prompts: PromptFacts { answers: answers.len(), cut: cut.len(), passages: cut.iter().sum() },
        replies: trial.replies.as_ref().map(|replies| ReplyFacts {
            questions: replies.questions,
            without_reply: replies.without_reply,
            passages: replies.passages,
            unanchored: replies.unanchored,
            versions: replies.versions.clone(),
            version: replies.version.clone(),
        }),
        beyond_judge: verdicts.iter().filter(is_too_long).count(),
        judged: verdicts.len(),
        ..TrialFindings::default()
    }
}

/// For each model of a ledger that cut texts, what it did not read.
fn cut_texts(ledger: &Ledger, of_chunks: bool) -> impl Iterator<Item = CutTextsFacts> {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    ledger.models().filter_map(|(_, used)| cut_share(used)).map(move |share| CutTextsFacts {
        model: share.model,
        of_chunks,
        texts: number(share.cut_texts),
        all: share.texts.map(number),
        max_tokens: share.max_tokens.map(number),
        lost: share.lost,
    })
}

/// Counts the questions with a filter, and those for which the filter left too few chunks. Nothing is counted for a
/// trial in which a stage after the retriever changes the number of passages. There are other reasons for few passages:
/// few chunks have the words of the question, or the chunker joins hits. So a question counts as short only if the
/// search remarked that its filter left too few chunks.
fn filter_facts(results: &Results, trial: &TrialResult) -> FilterFacts {
    let limit = |pipeline: &PipelineConfig| pipeline.retriever.limit().filter(|_| pipeline.passage_stages().is_empty());
    let Some(wanted) = trial.trial.pipeline().and_then(limit) else {
        return FilterFacts::default();
    };
    if trial.retrieval.is_none() {
        return FilterFacts::default();
    }
    let mut facts = FilterFacts { wanted, ..FilterFacts::default() };
    for (place, (found, question)) in trial.questions.iter().zip(&results.questions).enumerate() {
        let is_filtered = question.filter.is_some() || found.queries.iter().any(|query| query.filter.is_some());
        facts.questions += usize::from(is_filtered);
        let left_few =
            found.remarks.iter().filter_map(|remark| chunks_left_by_filter(remark)).any(|left| left < wanted);
        facts.short += usize::from(is_filtered && left_few && trial.passages_at(place) < wanted);
    }
    facts
}

/// Reads chunks and word indexes, each once.
struct ChunkReader<'a> {
    prepared: &'a PreparedRun,
    /// The names of the run's outputs by task; none if its task ids are not those of the whole plan.
    made: Option<&'a Outputs>,
    /// The share of a piece of evidence that one chunk must hold.
    min_overlap: f64,
    /// The evidence of the questions, with its places in the documents of each parser.
    evidence: Vec<Arc<Vec<Vec<Evidence>>>>,
    /// The facts about each table of chunks, by the tasks that made it.
    chunks: HashMap<Vec<TaskId>, Option<ChunkFacts>>,
    /// The number of questions that share no word with any chunk, by the tasks of the word index and of the queries.
    without_shared_words: HashMap<(Vec<TaskId>, Option<TaskId>), Option<usize>>,
}

/// The facts about a table of chunks.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct ChunkFacts {
    chunks: usize,
    evidence: EvidenceFacts,
}

impl<'a> ChunkReader<'a> {
    fn new(prepared: &'a PreparedRun, made: Option<&'a Outputs>, results: &Results) -> Self {
        Self {
            prepared,
            made,
            min_overlap: min_overlap(&prepared.run_context.experiment.evaluate),
            evidence: {
                let of_others = prepared.sources.views.others();
                let views = std::iter::once(&results.questions[..]).chain(of_others);
                views.map(|questions| Arc::new(placed_evidence(questions))).collect()
            },
            chunks: HashMap::new(),
            without_shared_words: HashMap::new(),
        }
    }

    /// Adds to each trial the facts from its chunks and its word index. Reads only what a warning needs. Returns the
    /// codes for which chunks or an index of at least one trial could not be read.
    async fn add(&mut self, facts: &mut RunFacts, results: &Results) -> BTreeSet<WarningCode> {
        let prepared = self.prepared;
        let mut missing = BTreeSet::new();
        let looks_for = |code: WarningCode| results.looked_for.iter().flatten().any(|known| *known == code);
        for trial in &mut facts.trials {
            let (Some(found), Some(number)) = (&mut trial.found, self.number(&trial.trial)) else { continue };
            let Some(result) = results.trials.iter().find(|result| result.trial.id == trial.trial) else { continue };
            if found.searched == 0 {
                continue;
            }
            let (tasks, Some(pipeline)) = (&prepared.plan.trials[number], result.trial.pipeline()) else { continue };
            let lacks_total = found.cut_texts.iter().any(|cut| cut.of_chunks && cut.all.is_none());
            let wants_chunks =
                looks_for(WarningCode::EvidenceInNoChunk) || (lacks_total && looks_for(WarningCode::LongTexts));
            if wants_chunks {
                match self.chunk_facts(tasks, pipeline).await {
                    Some(ChunkFacts { chunks, evidence }) => {
                        (found.chunks, found.evidence) = (Some(chunks), Some(evidence));
                    }
                    None => _ = missing.insert(WarningCode::EvidenceInNoChunk),
                }
            }
            // The retriever itself has to search the index: an index of a later step does not show what the retriever
            // can find.
            let searches_words = pipeline.retriever.indexes().contains(&IndexKind::Bm25);
            let wants_words = match trial.retriever.as_str() {
                "bm25" => found.empty > 0 && looks_for(WarningCode::RetrievesNothing),
                _ => looks_for(WarningCode::NoSharedWords),
            };
            if searches_words && wants_words {
                found.without_shared_words = self.without_shared_words(tasks, result, results).await;
                // `retrieves-nothing` itself follows from the results.
                if found.without_shared_words.is_none() && trial.retriever != "bm25" {
                    missing.insert(WarningCode::NoSharedWords);
                }
            }
        }
        missing
    }

    /// What was read, or none. An error is logged.
    fn readable<T>(&self, read: Result<Option<T>, Error>) -> Option<T> {
        let log = |error: &Error| {
            let reason = crate::error_chain(error);
            self.prepared.run_context.log("warnings_incomplete", json!({ "reason": reason }));
        };
        read.inspect_err(log).ok().flatten()
    }

    /// The facts about a trial's chunks; none if they cannot be read.
    async fn chunk_facts(&mut self, tasks: &TrialTasks, pipeline: &PipelineConfig) -> Option<ChunkFacts> {
        let chunks = &tasks.corpus.chunks;
        if let Some(known) = self.chunks.get(chunks) {
            return *known;
        }
        let parser = self.prepared.run_context.experiment.space.parser_number(&pipeline.parse);
        let evidence = self.evidence.get(parser).or(self.evidence.first()).cloned().unwrap_or_default();
        let found = self.readable(self.read_chunk_facts(chunks, &pipeline.chunker, evidence).await);
        self.chunks.insert(chunks.clone(), found);
        found
    }

    /// The facts about these chunks; none if the chunks are not in the store. They are kept on this machine for the run
    /// after this one, which then reads no chunks if none of them has changed.
    async fn read_chunk_facts(
        &self,
        chunks: &[TaskId],
        chunker: &ChunkerConfig,
        evidence: Arc<Vec<Vec<Evidence>>>,
    ) -> Result<Option<ChunkFacts>, Error> {
        let inputs = CorpusInputs { chunks: chunks.to_vec(), ..CorpusInputs::default() };
        let of_corpus =
            KeyBuilder::new("chunk facts").field("corpus", &self.prepared.run_context.experiment.corpus.source);
        let file = of_corpus.field("chunker", chunker).finish().hex();
        let file = self.prepared.run_context.scratch.join(layout::SUMMARIES).join(file);
        let of_chunks = KeyBuilder::new("chunk facts").field("version", &KEPT_VERSION).field("chunker", chunker);
        let names = self.names(&inputs);
        let of_chunks = of_chunks.list("chunks", chunks.iter().filter_map(|id| names.get(id)));
        let of_chunks = of_chunks.field("evidence", &*evidence);
        let key = of_chunks.field("min_overlap", &self.min_overlap).finish();
        let kept = read_with_checksum(&file).and_then(|bytes| serde_json::from_slice::<(Key, ChunkFacts)>(&bytes).ok());
        if let Some((_, facts)) = kept.filter(|(of, _)| *of == key) {
            return Ok(Some(facts));
        }
        let found = self.count_chunk_facts(inputs, chunks, chunker, evidence).await?;
        if let Some(bytes) = found.and_then(|facts| serde_json::to_vec(&(key, facts)).ok()) {
            // Without this file, the next run reads the chunks once more.
            let _ = write_with_checksum(&file, bytes);
        }
        Ok(found)
    }

    async fn count_chunk_facts(
        &self,
        inputs: CorpusInputs,
        chunks: &[TaskId],
        chunker: &ChunkerConfig,
        evidence: Arc<Vec<Vec<Evidence>>>,
    ) -> Result<Option<ChunkFacts>, Error> {
        let Some(outputs) = self.outputs(&inputs).await? else { return Ok(None) };
        let table = chunk_table(&self.prepared.run_context, &outputs, chunks).await?;
        // An index of the user's own is searched, whose chunks are not known.
        if table.searchable().is_empty() {
            return Ok(None);
        }
        let searched = SearchedChunks::new(table, chunker, self.min_overlap)?;
        compute(move || chunk_facts(&searched, &evidence)).await.map(Some)
    }

    /// How many of a trial's questions share no word with any chunk; none if its word index cannot be read.
    async fn without_shared_words(
        &mut self,
        tasks: &TrialTasks,
        trial: &TrialResult,
        results: &Results,
    ) -> Option<usize> {
        let files = tasks.corpus.indexes.get(&IndexKind::Bm25)?;
        let searched = (files.clone(), tasks.queries);
        if let Some(known) = self.without_shared_words.get(&searched) {
            return *known;
        }
        let found = self.readable(self.read_without_shared_words(files, trial, results).await);
        self.without_shared_words.insert(searched, found);
        found
    }

    /// How many of a trial's questions share no word with any chunk; none if these files of its word index are not in
    /// the store.
    async fn read_without_shared_words(
        &self,
        files: &[TaskId],
        trial: &TrialResult,
        results: &Results,
    ) -> Result<Option<usize>, Error> {
        let inputs = CorpusInputs { indexes: [(IndexKind::Bm25, files.to_vec())].into(), ..CorpusInputs::default() };
        let Some(outputs) = self.outputs(&inputs).await? else { return Ok(None) };
        let indexes = open_indexes(&self.prepared.run_context, &outputs, &inputs.indexes).await?;
        let questions = trial.questions.iter().zip(&results.questions);
        let words: Vec<Vec<String>> =
            questions.map(|(found, question)| searched_words(found, &question.question)).collect();
        compute(move || without_shared_words(&indexes, &words)).await
    }

    /// The position of a trial in the plan; none if the plan does not have it.
    fn number(&self, id: &str) -> Option<usize> {
        let number = self.prepared.trials.iter().position(|trial| trial.id == id)?;
        (number < self.prepared.plan.trials.len()).then_some(number)
    }

    /// The names of the inputs in the store; none if one of them is not there.
    async fn outputs(&self, inputs: &CorpusInputs) -> Result<Option<Outputs>, Error> {
        let outputs = self.names(inputs);
        let missing = self.prepared.run_context.store.first_missing(outputs.values()).await?;
        Ok(missing.is_none().then_some(outputs))
    }

    /// The names that the inputs have, or would have, in the store.
    fn names(&self, inputs: &CorpusInputs) -> Outputs {
        let made = |id: &TaskId| self.made.and_then(|made| made.get(id)).cloned();
        let name = |id| made(&id).unwrap_or_else(|| self.prepared.plan.tasks[id].artifact());
        inputs.all().into_iter().map(|id| (id, name(id))).collect()
    }
}

/// For each question, its pieces of evidence that have a location in a document. Questions without such evidence are
/// left out.
fn placed_evidence(questions: &[Question]) -> Vec<Vec<Evidence>> {
    let has_place = |item: &&Evidence| item.span.is_some_and(|span| !span.is_empty()) && !item.is_nowhere();
    let of_question = |question: &Question| question.evidence.iter().filter(has_place).cloned().collect::<Vec<_>>();
    questions.iter().map(of_question).filter(|evidence| !evidence.is_empty()).collect()
}

/// Counts the searchable chunks, the questions, and the questions with evidence of which no chunk holds enough.
/// Evidence in a document without any chunk does not count: that document was not read, or has no text.
fn chunk_facts(searched: &SearchedChunks, questions: &[Vec<Evidence>]) -> ChunkFacts {
    let is_cut = |item: &Evidence| searched.has_document(&item.document) && !searched.holds(item);
    let in_no_chunk = questions.iter().filter(|evidence| evidence.iter().any(is_cut)).count();
    let evidence = EvidenceFacts { questions: questions.len(), in_no_chunk };
    ChunkFacts { chunks: searched.table.searchable().len(), evidence }
}

/// The texts that a search by words searched for: the question's written queries, or else the question itself.
fn searched_words(found: &QuestionResult, question: &str) -> Vec<String> {
    match found.queries.is_empty() {
        true => vec![question.to_owned()],
        false => found.queries.iter().map(|query| query.words.clone()).collect(),
    }
}

/// The number of questions that share no word with any chunk; none if there is no word index.
fn without_shared_words(indexes: &[Arc<rag::index::OpenIndex>], questions: &[Vec<String>]) -> Option<usize> {
    let index = indexes.iter().find_map(|index| index.get::<Bm25Index>())?;
    let shares = |words: &&Vec<String>| words.iter().any(|text| !index.search(text, 1).is_empty());
    Some(questions.iter().filter(|words| !shares(words)).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;
    use eval::{Missing, Scored};
    use models::ModelUsage;
    use rag::{Answer, Chunk, ChunkTable, Passage, Span, index::OpenIndex};
    use serde_json::from_value;

    fn chunk(document: &str, number: u32, (start, end): (usize, usize), searchable: bool) -> Chunk {
        Chunk { document: document.to_owned(), number, span: Span { start, end }, searchable, ..Chunk::default() }
    }

    fn evidence(document: &str, start: usize, end: usize) -> Evidence {
        let span = Some(Span { start, end });
        Evidence { document: document.to_owned(), quote: "q".to_owned(), span }
    }

    fn chunker(settings: serde_json::Value) -> ChunkerConfig {
        from_value(settings).unwrap()
    }

    #[test]
    fn evidence_counts_as_held_if_one_searchable_chunk_holds_enough_of_it() {
        let chunks = vec![
            chunk("a", 0, (0, 10), true),
            chunk("a", 1, (10, 20), true),
            chunk("a", 2, (0, 20), false),
            chunk("b", 0, (0, 100), true),
        ];
        let table = Arc::new(ChunkTable::new(chunks));
        let facts = |min_overlap: f64, evidence: &[&[Evidence]]| {
            let chunker = chunker(json!({ "sentence": {} }));
            let searched = SearchedChunks::new(table.clone(), &chunker, min_overlap).unwrap();
            let questions: Vec<Vec<Evidence>> = evidence.iter().map(|evidence| evidence.to_vec()).collect();
            let ChunkFacts { chunks, evidence } = chunk_facts(&searched, &questions);
            (chunks, evidence.questions, evidence.in_no_chunk)
        };
        assert_eq!(facts(0.5, &[]), (3, 0, 0));
        assert_eq!(facts(0.5, &[&[evidence("a", 5, 15)]]), (3, 1, 0), "each chunk holds half");
        assert_eq!(facts(0.6, &[&[evidence("a", 5, 15)]]), (3, 1, 1), "the metrics demand more");
        assert_eq!(facts(0.5, &[&[evidence("a", 2, 19)]]), (3, 1, 0), "9 of 17");
        assert_eq!(facts(0.5, &[&[evidence("b", 50, 160)]]), (3, 1, 1), "50 of 110");
        assert_eq!(facts(0.5, &[&[evidence("c", 0, 5)]]), (3, 1, 0), "of a document without chunks");
        let both = [evidence("a", 0, 5), evidence("b", 90, 190)];
        assert_eq!(facts(0.5, &[&both, &both[..1]]), (3, 2, 1), "all evidence of a question is needed");
    }

    #[test]
    fn what_stands_around_a_chunk_counts_if_the_chunker_adds_it() {
        let linked = |number: u32, previous: Option<u32>, next: Option<u32>| {
            let start = number as usize * 10;
            let text = "0123456789".to_owned();
            Chunk { text, previous, next, ..chunk("a", number, (start, start + 10), true) }
        };
        let chunks = vec![linked(0, None, Some(1)), linked(1, Some(0), Some(2)), linked(2, Some(1), None)];
        let table = Arc::new(ChunkTable::new(chunks));
        let is_held = |settings: serde_json::Value| {
            let searched = SearchedChunks::new(table.clone(), &chunker(settings), 0.9).unwrap();
            searched.holds(&evidence("a", 0, 30))
        };
        assert!(!is_held(json!({ "sentence": {} })));
        assert!(is_held(json!({ "sentence_window": {} })));
    }

    #[test]
    fn questions_are_counted_whose_words_no_chunk_has() {
        let index = Bm25Index::build(&["owls turn their heads", "beavers build dams"]);
        let indexes = vec![Arc::new(OpenIndex::new(index))];
        let questions: Vec<Vec<String>> = [&["owls"][..], &["ネットワーク"], &["zebra", "dams"], &[]]
            .iter()
            .map(|words| words.iter().map(|&word| word.to_owned()).collect())
            .collect();
        assert_eq!(without_shared_words(&indexes, &questions), Some(2));
        assert_eq!(without_shared_words(&[], &questions), None);
    }

    #[test]
    fn what_was_searched_is_what_was_written_and_otherwise_the_question() {
        let mut found = fixture::results(1).trials[0].questions[0].clone();
        assert_eq!(searched_words(&found, "why?"), ["why?"]);
        found.queries = vec!["one".into(), "two".into()];
        assert_eq!(searched_words(&found, "why?"), ["one", "two"]);
    }

    #[test]
    fn evidence_without_a_place_says_nothing() {
        let mut results = fixture::results(1);
        let nowhere = Evidence { span: None, ..evidence("a", 0, 0) };
        results.questions[0].evidence = vec![nowhere.clone()];
        results.questions[1].evidence = vec![evidence("a", 1, 2), nowhere];
        assert_eq!(placed_evidence(&results.questions), [vec![evidence("a", 1, 2)]]);
    }

    #[test]
    fn answers_cut_texts_and_refused_prompts_are_counted() {
        let mut results = fixture::results(1);
        fixture::score(&mut results, "faithfulness", &[vec![Some(1.0); 5]]);
        results.metrics[0].judged = true;
        let trial = &mut results.trials[0];
        for (question, dropped_passages) in trial.questions.iter_mut().zip([0, 2, 3]) {
            question.answer = Some(Answer { dropped_passages, ..Answer::default() });
        }
        let refused = "judge: 9000 tokens do not fit its context of 4096; lower `top_k`".to_owned();
        for (place, reason) in [(0, refused), (1, "down".to_owned())] {
            let missing = Scored::missing(Missing::ProviderError(reason));
            trial.questions[place].scores.insert("faithfulness".to_owned(), missing);
        }
        let not_asked = Scored::missing(Missing::NotAsked("limited".to_owned()));
        trial.questions[4].scores.insert("faithfulness".to_owned(), not_asked);
        let used = ModelUsage { model: "small".to_owned(), cut_texts: 3, prompt_tokens: 70, ..ModelUsage::default() };
        trial.usage.index.add("a", &used);
        trial.usage.index.add("b", &ModelUsage { cut_texts: 0, ..used.clone() });
        let found = findings(&results, &results.trials[0]);
        assert_eq!(found.prompts, PromptFacts { answers: 3, cut: 2, passages: 5 });
        assert_eq!((found.judged, found.beyond_judge), (4, 1));
        assert_eq!(found.cut_texts.len(), 1);
        assert_eq!((found.cut_texts[0].texts, found.cut_texts[0].of_chunks), (3, true));
        assert_eq!((found.searched, found.empty), (0, 0), "an earlier version did not count");
    }

    #[test]
    fn passages_are_compared_with_what_was_wanted_only_where_a_filter_was_asked_for() {
        let mut results = fixture::results(3);
        results.questions[0].filter = Some(from_value(json!({ "year": 1700 })).unwrap());
        let trial = &mut results.trials[2];
        trial.retrieval = Some(crate::results::RetrievalCount { questions: 5, empty: 0 });
        let passage = || Passage::of_text("a".to_owned(), "x".to_owned());
        trial.questions[0].passages = vec![passage()];
        let filter = |results: &Results| filter_facts(results, &results.trials[2]);
        assert_eq!(filter(&results), FilterFacts { questions: 1, short: 0, wanted: 3 }, "few chunks had the words");
        let remark = |left: usize| format!("the filter {{}} leaves {left} of 9 chunks, and all of them were taken");
        results.trials[2].questions[0].remarks = vec![remark(3)];
        assert_eq!(filter(&results), FilterFacts { questions: 1, short: 0, wanted: 3 }, "hits were joined");
        results.trials[2].questions[0].remarks = vec![remark(1)];
        assert_eq!(filter(&results), FilterFacts { questions: 1, short: 1, wanted: 3 });
        results.trials[2].questions[0].passages = vec![passage(), passage(), passage()];
        assert_eq!(filter(&results), FilterFacts { questions: 1, short: 0, wanted: 3 });
        results.trials[2].trial.pipeline_mut().reranker = from_value(json!({ "none": { "top_n": 1 } })).unwrap();
        assert_eq!(filter(&results), FilterFacts::default(), "a step after the retriever changes the number");
    }
}

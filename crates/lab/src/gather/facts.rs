//! The facts that warnings are found from after a run: what it found, and what its chunks and word indexes hold.

use crate::{
    Error, PreparedRun, Session,
    blocking::compute,
    engine::PlanOutcome,
    plan::{CorpusInputs, Outputs, TaskId},
    results::{QuestionResult, Results, TrialResult, cut_share},
    task::open_corpus,
    warning::{
        CutTextsFacts, EvidenceFacts, FilterFacts, PromptFacts, RunFacts, TrialFindings, Warning, WarningCode, find,
    },
};
use eval::Score;
use models::Ledger;
use rag::{
    ChunkTable, Component, Span,
    index::{Bm25Index, IndexKind},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// The share of a piece of evidence that one chunk must hold: the default of the metrics' `min_overlap`.
const MIN_OVERLAP: f64 = 0.5;
/// The words of the error for a prompt that is longer than the model reads, as a missing score keeps them.
const TOO_LONG: &str = "do not fit its context of";

/// The warnings of a finished run. What cannot be read for them, such as an index that is no longer in the store, gives
/// no warning.
pub(crate) async fn warnings(
    session: &Session,
    prepared: &PreparedRun,
    outcome: &PlanOutcome,
    results: &Results,
) -> Vec<Warning> {
    let mut facts = found(prepared, results);
    // On a cluster, chunks and indexes are on other machines.
    if session.experiment.engine.ray.is_none() {
        // The outcome of a search has the task ids of its last step's plan.
        let made = session.experiment.search.is_exhaustive().then_some(&outcome.outputs);
        let mut reader = ChunkReader { prepared, made, chunks: HashMap::new() };
        if let Err(error) = reader.add(&mut facts, results).await {
            prepared.run_context.log("warnings_incomplete", json!({ "reason": crate::error_chain(&error) }));
        }
    }
    find(&facts, &session.experiment.warnings.ignore)
}

/// The warnings of results, without those for which chunks and indexes are read.
pub(crate) fn warnings_of_results(prepared: &PreparedRun, results: &Results, ignored: &[WarningCode]) -> Vec<Warning> {
    find(&found(prepared, results), ignored)
}

/// What was known before the run, and what the results say.
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

/// What the results say of a trial.
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
        beyond_judge: verdicts.iter().filter(is_too_long).count(),
        judged: verdicts.len(),
        ..TrialFindings::default()
    }
}

/// The texts that models did not read to their end.
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

/// Questions with a filter, of a trial in which nothing after the retriever changes the number of passages.
fn filter_facts(results: &Results, trial: &TrialResult) -> FilterFacts {
    let pipeline = &trial.trial.pipeline;
    let Some(wanted) = pipeline.retriever.limit().filter(|_| pipeline.passage_stages().is_empty()) else {
        return FilterFacts::default();
    };
    if trial.retrieval.is_none() {
        return FilterFacts::default();
    }
    let mut facts = FilterFacts { wanted, ..FilterFacts::default() };
    for (found, question) in trial.questions.iter().zip(&results.questions) {
        let is_filtered = question.filter.is_some() || found.queries.iter().any(|query| query.filter.is_some());
        facts.questions += usize::from(is_filtered);
        facts.short += usize::from(is_filtered && found.passages.len() < wanted);
    }
    facts
}

/// Reads chunks and word indexes, each table once.
struct ChunkReader<'a> {
    prepared: &'a PreparedRun,
    /// The outputs of the run, if they are those of the whole plan.
    made: Option<&'a Outputs>,
    /// What tables of chunks hold, by their tasks.
    chunks: HashMap<Vec<TaskId>, ChunkFacts>,
}

/// What a table of chunks holds.
#[derive(Debug, Clone, Copy)]
struct ChunkFacts {
    chunks: usize,
    evidence: EvidenceFacts,
}

impl ChunkReader<'_> {
    /// Adds to each trial what its chunks and its word index say.
    async fn add(&mut self, facts: &mut RunFacts, results: &Results) -> Result<(), Error> {
        for trial in &mut facts.trials {
            let (Some(found), Some(number)) = (&mut trial.found, self.number(&trial.trial)) else { continue };
            let Some(result) = results.trials.iter().find(|result| result.trial.id == trial.trial) else { continue };
            let tasks = &self.prepared.plan.trials[number];
            if found.searched == 0 {
                continue;
            }
            let has_words = tasks.corpus.indexes.contains_key(&IndexKind::Bm25);
            let has_evidence = results.questions.iter().any(|question| !question.evidence.is_empty());
            let known = self.chunks.get(&tasks.corpus.chunks).copied();
            if known.is_none() || has_words {
                let words = tasks.corpus.indexes.iter().filter(|(kind, _)| **kind == IndexKind::Bm25);
                let inputs = CorpusInputs {
                    chunks: tasks.corpus.chunks.clone(),
                    indexes: words.map(|(kind, files)| (*kind, files.clone())).collect(),
                    question_vectors: None,
                };
                let Some(outputs) = self.outputs(&inputs).await? else { continue };
                let (corpus, _) = open_corpus(&self.prepared.run_context, &outputs, &inputs).await?;
                let table = corpus.table.clone();
                if known.is_none() {
                    let spans = if has_evidence { evidence_spans(results) } else { Vec::new() };
                    let found = compute(move || chunk_facts(&table, &spans)).await?;
                    self.chunks.insert(tasks.corpus.chunks.clone(), found);
                }
                if has_words {
                    let searches = result.questions.iter().zip(&results.questions);
                    let words = searches.map(|(found, question)| searched_words(found, &question.question)).collect();
                    let indexes = corpus.indexes;
                    found.without_shared_words = compute(move || without_shared_words(&indexes, &words)).await?;
                }
            }
            if let Some(ChunkFacts { chunks, evidence }) = self.chunks.get(&tasks.corpus.chunks) {
                (found.chunks, found.evidence) = (Some(*chunks), Some(*evidence));
            }
        }
        Ok(())
    }

    /// The place of a trial in the plan.
    fn number(&self, id: &str) -> Option<usize> {
        let number = self.prepared.trials.iter().position(|trial| trial.id == id)?;
        (number < self.prepared.plan.trials.len()).then_some(number)
    }

    /// Where the inputs are; none if one of them is not in the store.
    async fn outputs(&self, inputs: &CorpusInputs) -> Result<Option<Outputs>, Error> {
        let mut outputs = Outputs::new();
        for id in inputs.all() {
            let made = self.made.and_then(|made| made.get(&id)).cloned();
            let name = made.unwrap_or_else(|| self.prepared.plan.tasks[id].artifact());
            if !self.prepared.run_context.store.exists(&name).await? {
                return Ok(None);
            }
            outputs.insert(id, name);
        }
        Ok(Some(outputs))
    }
}

/// Evidence with its place: the number of its question, its document, and its span.
type EvidenceSpan = (usize, String, Span);

fn evidence_spans(results: &Results) -> Vec<EvidenceSpan> {
    let questions = results.questions.iter().enumerate();
    let evidence = questions.flat_map(|(number, question)| question.evidence.iter().map(move |it| (number, it)));
    evidence.filter_map(|(number, it)| Some((number, it.document.clone(), it.span?))).collect()
}

/// How many chunks are searched, and for how many questions no chunk holds half of some evidence.
fn chunk_facts(table: &Arc<ChunkTable>, evidence: &[EvidenceSpan]) -> ChunkFacts {
    let mut by_document: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, (_, document, _)) in evidence.iter().enumerate() {
        by_document.entry(document.as_str()).or_default().push(number);
    }
    let mut most = vec![0; evidence.len()];
    for &row in table.searchable() {
        let chunk = table.chunk(row);
        for &number in by_document.get(chunk.document.as_str()).map_or(&[][..], Vec::as_slice) {
            most[number] = most[number].max(evidence[number].2.overlap(chunk.span));
        }
    }
    let mut questions: BTreeMap<usize, bool> = BTreeMap::new();
    for ((question, _, span), held) in evidence.iter().zip(most) {
        let is_held = held as f64 >= MIN_OVERLAP * span.len() as f64;
        *questions.entry(*question).or_insert(true) &= is_held;
    }
    let in_no_chunk = questions.values().filter(|is_held| !**is_held).count();
    ChunkFacts { chunks: table.searchable().len(), evidence: EvidenceFacts { questions: questions.len(), in_no_chunk } }
}

/// The texts whose words were searched for a question.
fn searched_words(found: &QuestionResult, question: &str) -> Vec<String> {
    match found.queries.is_empty() {
        true => vec![question.to_owned()],
        false => found.queries.iter().map(|query| query.words.clone()).collect(),
    }
}

/// How many questions share no word with any chunk; none without an index of words.
fn without_shared_words(indexes: &[Arc<rag::index::OpenIndex>], questions: &Vec<Vec<String>>) -> Option<usize> {
    let index = indexes.iter().find_map(|index| index.get::<Bm25Index>())?;
    let shares = |words: &&Vec<String>| words.iter().any(|text| !index.search(text, 1).is_empty());
    Some(questions.iter().filter(|words| !shares(words)).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;
    use eval::{Evidence, Missing, Scored};
    use models::ModelUsage;
    use rag::{Answer, Chunk, Passage, index::OpenIndex};
    use serde_json::from_value;

    fn chunk(document: &str, number: u32, (start, end): (usize, usize), searchable: bool) -> Chunk {
        from_value(json!({
            "document": document, "number": number, "span": { "start": start, "end": end }, "text": "",
            "searchable": searchable, "level": 0, "parent": null, "previous": null, "next": null, "page": null,
            "book": null, "heading": null,
        }))
        .unwrap()
    }

    #[test]
    fn evidence_counts_as_held_if_one_searchable_chunk_holds_half_of_it() {
        let chunks = vec![
            chunk("a", 0, (0, 10), true),
            chunk("a", 1, (10, 20), true),
            chunk("a", 2, (0, 20), false),
            chunk("b", 0, (0, 100), true),
        ];
        let table = Arc::new(ChunkTable::new(chunks));
        let evidence = |question, document: &str, start, end| (question, document.to_owned(), Span { start, end });
        let facts = |evidence: &[EvidenceSpan]| {
            let ChunkFacts { chunks, evidence } = chunk_facts(&table, evidence);
            (chunks, evidence.questions, evidence.in_no_chunk)
        };
        assert_eq!(facts(&[]), (3, 0, 0));
        assert_eq!(facts(&[evidence(0, "a", 5, 15)]), (3, 1, 0), "each chunk holds half");
        assert_eq!(facts(&[evidence(0, "a", 2, 19)]), (3, 1, 0), "9 of 17");
        assert_eq!(facts(&[evidence(0, "b", 50, 160)]), (3, 1, 1), "50 of 110");
        assert_eq!(facts(&[evidence(0, "c", 0, 5)]), (3, 1, 1), "of a document without chunks");
        let both = [evidence(0, "a", 0, 5), evidence(0, "c", 0, 5), evidence(1, "a", 0, 5)];
        assert_eq!(facts(&both), (3, 2, 1), "all evidence of a question is needed");
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
        let evidence = |span| Evidence { document: "a".to_owned(), quote: "q".to_owned(), span };
        let span = Span { start: 1, end: 2 };
        results.questions[1].evidence = vec![evidence(Some(span)), evidence(None)];
        assert_eq!(evidence_spans(&results), [(1, "a".to_owned(), span)]);
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
        assert_eq!(filter(&results), FilterFacts { questions: 1, short: 1, wanted: 3 });
        results.trials[2].questions[0].passages = vec![passage(), passage(), passage()];
        assert_eq!(filter(&results), FilterFacts { questions: 1, short: 0, wanted: 3 });
        results.trials[2].trial.pipeline.reranker = from_value(json!({ "none": { "top_n": 1 } })).unwrap();
        assert_eq!(filter(&results), FilterFacts::default(), "a step after the retriever changes the number");
    }
}

//! What is known of a corpus as a whole: the number of its documents, their fields, a sample of them, and the places of the
//! questions' evidence.
//!
//! A summary of each shard is kept on this machine. A shard that was summarised by an earlier run is decoded only if it
//! holds evidence, or a document of the samples.

use super::{
    even_sample::sample_step,
    facts::{LANGUAGE_DOCUMENTS, count_languages, language_of},
    parsed_corpora::{ParsedCorpora, join_views},
    shard_summaries::{KeptSummaries, ShardSummary, look_for_evidence, shards_to_read, visit_documents},
    text_sample::TextSample,
};
use crate::{
    Error, Session,
    corpus::{LoadedCorpus, LoadedShard},
    plan::QuestionViews,
    run_summary::RunSummary,
    warning::{CorpusFacts, LostEvidence},
};
use eval::{
    Dataset, Question,
    dataset::{AnchorError, Anchoring},
};
use rag::load::{Rejected, Unread};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Counts and fields of the documents.
#[derive(Default)]
pub(super) struct CorpusSummary {
    pub(super) documents: usize,
    pub(super) text_bytes: usize,
    pub(super) text_sample: TextSample,
    pub(super) rejected: Vec<Rejected>,
    /// The fields that some document has.
    pub(super) fields: BTreeSet<String>,
    /// The facts about the documents, for warnings.
    pub(super) facts: CorpusFacts,
    /// Questions that were taken out of the dataset because files could not be read, by id.
    pub(super) left_out: Vec<String>,
    /// Questions that were taken out of the dataset because the documents have changed.
    pub(super) lost_questions: Vec<Question>,
    /// The evidence that these questions have lost.
    pub(super) lost_evidence: Vec<LostEvidence>,
    /// The questions for each parser after the first.
    pub(super) views: QuestionViews,
}

/// Summarises the parsed corpus, a few shards at a time, and anchors the questions' evidence in it.
pub(super) async fn read_corpus(
    session: &Session,
    loaded: &LoadedCorpus,
    dataset: &mut Dataset,
    mistakes: &mut Vec<String>,
) -> Result<CorpusSummary, Error> {
    let parsed = ParsedCorpora::read(session, loaded).await?;
    let known @ (_, summaries) = parsed.by(0);
    let mut corpus = CorpusSummary::default();
    for summary in summaries {
        corpus.documents += summary.documents.len();
        corpus.text_bytes += summary.text_bytes;
        corpus.rejected.extend(summary.rejected.iter().cloned());
        corpus.fields.extend(summary.fields.iter().cloned());
        corpus.facts.merge(&summary.facts);
    }
    corpus.text_sample = TextSample::new(corpus.documents, corpus.text_bytes);
    let imported = dataset.clone();
    let mut anchoring = dataset.anchoring();
    let languages = look_at_documents(loaded, known, &mut corpus, &mut anchoring).await?;
    corpus.facts.languages = languages;
    let unanchored = anchoring.finish();
    let mut views = parsed.anchored_by_others(loaded, &imported.questions).await?;
    join_views(&mut dataset.questions, &mut views);
    // What another parser's text holds is no mistake: it counts against the parser whose text does not hold it.
    let is_found = |unanchored: &AnchorError| {
        let question = dataset.questions.iter().find(|question| question.id == unanchored.question);
        question.is_some_and(|question| question.evidence.iter().all(|evidence| evidence.span.is_some()))
    };
    let unanchored = unanchored.into_iter().filter(|unanchored| !is_found(unanchored));
    // Evidence in a file that could not be read is not wrong: its questions
    // wait for the next run.
    let (unread, absent): (Vec<_>, Vec<_>) =
        unanchored.partition(|unanchored| may_be_unread(unanchored, &loaded.unread));
    let waiting: BTreeSet<String> = unread.into_iter().map(|unanchored| unanchored.question).collect();
    let known = if absent.is_empty() { HashMap::new() } else { anchored_before(session) };
    let mut lost = BTreeSet::new();
    for unanchored in absent {
        // What was never there is a mistake of the dataset; what is there no more is a change of the documents.
        let now = dataset.questions.iter().find(|question| question.id == unanchored.question);
        if now.is_some_and(|now| known.get(&now.id).is_some_and(|before| have_same_quotes(before, now))) {
            lost.insert(unanchored.question.clone());
            corpus.lost_evidence.push(LostEvidence::of(unanchored));
        } else {
            mistakes.push(unanchored.to_string());
        }
    }
    if !lost.is_empty() && dataset.questions.iter().all(|question| lost.contains(&question.id)) {
        mistakes.extend(corpus.lost_evidence.iter().map(ToString::to_string));
    }
    corpus.lost_questions = dataset.questions.iter().filter(|question| lost.contains(&question.id)).cloned().collect();
    let is_asked = |question: &Question| !waiting.contains(&question.id) && !lost.contains(&question.id);
    dataset.questions.retain(is_asked);
    views.iter_mut().for_each(|questions| questions.retain(is_asked));
    corpus.views = QuestionViews::new(views);
    corpus.facts.parsers = parsed.facts(session, &dataset.questions, &corpus.views);
    mistakes.extend(parsed.useless(&corpus.facts.parsers, corpus.documents));
    corpus.left_out.extend(waiting);
    Ok(corpus)
}

/// The questions of the experiment's last run whose evidence was found then or earlier, by id.
fn anchored_before(session: &Session) -> HashMap<String, Question> {
    let workspace = session.workspace();
    let last = workspace.last_here(&session.experiment.name);
    let summary = last.and_then(|run| RunSummary::of_folder(&workspace.run_folder(&run)));
    let questions = summary.into_iter().flat_map(|summary| summary.questions.into_iter().chain(summary.lost_questions));
    questions.map(|question| (question.id.clone(), question)).collect()
}

/// Whether two questions have the same evidence, wherever it stands.
fn have_same_quotes(before: &Question, now: &Question) -> bool {
    let quotes = |question: &Question| -> Vec<String> {
        question.evidence.iter().map(|evidence| evidence.quote.clone()).collect()
    };
    quotes(before) == quotes(now)
}

/// Where the evidence of a finished run's questions is in a corpus now.
pub(crate) struct EvidenceCheck {
    /// The number of documents.
    pub(crate) documents: usize,
    /// Files that gave no document.
    pub(crate) rejected: Vec<Rejected>,
    /// The evidence that is in no document any more.
    pub(crate) lost: Vec<LostEvidence>,
}

/// Looks for the evidence of a finished run's questions in the documents.
pub(crate) async fn lost_evidence(
    session: &Session,
    loaded: &LoadedCorpus,
    questions: &[Question],
) -> Result<EvidenceCheck, Error> {
    let shards = loaded.shards();
    let summaries = KeptSummaries::read(session).of(loaded, &shards, !session.workspace().is_reading()).await?;
    let mut dataset = Dataset { questions: questions.to_vec() };
    // What the first parser's text did not hold then was not lost since.
    dataset.questions.iter_mut().for_each(|question| question.evidence.retain(|evidence| !evidence.is_nowhere()));
    let mut anchoring = dataset.anchoring();
    let wanted = shards_to_read((&shards, &summaries), &mut anchoring, |_| false);
    visit_documents(loaded, wanted, |_, document| look_for_evidence(&mut anchoring, document)).await?;
    Ok(EvidenceCheck {
        documents: summaries.iter().map(|summary| summary.documents.len()).sum(),
        rejected: summaries.iter().flat_map(|summary| summary.rejected.iter().cloned()).collect(),
        lost: anchoring.finish().into_iter().map(LostEvidence::of).collect(),
    })
}

/// Decodes the shards that hold evidence or a document of the samples. Returns how many documents of the sample are in each
/// language.
async fn look_at_documents(
    loaded: &LoadedCorpus,
    known: (&[LoadedShard], &[ShardSummary]),
    corpus: &mut CorpusSummary,
    anchoring: &mut Anchoring<'_>,
) -> Result<BTreeMap<String, usize>, Error> {
    let step = sample_step(corpus.documents, LANGUAGE_DOCUMENTS);
    let is_sampled = |place: usize| place.is_multiple_of(step);
    let sample = &mut corpus.text_sample;
    let wanted = shards_to_read(known, anchoring, |place| is_sampled(place) || sample.takes(place));
    let mut languages = Vec::new();
    visit_documents(loaded, wanted, |place, document| {
        if is_sampled(place) {
            languages.extend(language_of(&document.text));
        }
        sample.visit(place, document);
        look_for_evidence(anchoring, document);
    })
    .await?;
    Ok(count_languages(languages.into_iter()))
}

/// Whether evidence that was not found may stand in what could not be read: a
/// file, or all that is in a folder.
fn may_be_unread(unanchored: &AnchorError, unread: &[Unread]) -> bool {
    let document = unanchored.document.as_str();
    unread.iter().any(|unread| {
        let path = unread.path.as_str();
        let is_below = document.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        document.is_empty() || path.is_empty() || is_below
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use eval::dataset::AnchorErrorKind;

    #[test]
    fn only_evidence_that_may_stand_in_an_unread_file_waits() {
        let evidence = |document: &str| AnchorError {
            question: "q".into(),
            document: document.into(),
            quote: "words".into(),
            reason: AnchorErrorKind::Nowhere,
        };
        let unread =
            [Unread { path: "a/b.txt".into(), reason: "x".into() }, Unread { path: "deep".into(), reason: "x".into() }];
        let waits = |document: &str| may_be_unread(&evidence(document), &unread);
        assert!(waits("a/b.txt") && waits("deep/c.txt") && waits(""));
        assert!(!waits("a/b.txt2") && !waits("deeper/c.txt") && !waits("c.txt"));
        assert!(!may_be_unread(&evidence(""), &[]));
    }
}

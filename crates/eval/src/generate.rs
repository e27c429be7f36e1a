//! Makes golden questions from passages with a chat model, or with a Python function in
//! its place.
//!
//! When to use it: where nobody has written questions yet. What it makes is a
//! draft: look through it (`reverie golden review`) before trusting a winner to
//! it.
//!
//! 1. Passages are drawn without replacement, spread over the documents; those
//!    that hold no prose (tables of contents, tables, fragments) are skipped. A
//!    graph joins those that name the same thing or speak of related ones.
//! 2. Each kind of question has its share of the size. Its scenarios (one or
//!    two passages, and a voice: persona, style and length) are tried in a fixed
//!    order until its share is there; questions for one fact make up for kinds
//!    that lack questions, and the result names these kinds.
//! 3. The model writes a question, its answer and the quotes that hold it, as
//!    JSON of a given schema, in the passage's language.
//! 4. Fixed rules reject what is no golden question: one that speaks of "this
//!    passage" or does not name what it asks about, one that gives its answer
//!    away, an answer that the passages do not hold, a question for two passages
//!    that takes nothing from one of them, another language, a near repetition.
//!    Quotes are found in the passages (or replaced by the sentence that holds
//!    the answer), so that the evidence is a span of the document.
//! 5. The model is asked whether the evidence's passages answer the question,
//!    by token probability where it offers them; for two passages also whether
//!    one of them is enough; for a question without an answer whether the
//!    nearest passages of the corpus answer it after all.
//! 6. The model answers the question without any passage; what it knows anyway
//!    measures no retrieval and is rejected.
//!
//! Every rejection is kept with its reason. The result depends on the options,
//! the passages and the model's answers alone, and never exceeds `size`.
//!
//! What is checked, and why, follows from reading Ragas' test-set generators:
//! its current one has no check of answerability, draws with replacement and
//! may return more than was asked for. Source: S. Es et al., "RAGAS", EACL 2024.

mod check;
mod draft;
mod estimate;
mod graph;
mod kind;
mod language;
mod passages;
mod personas;
mod references;
mod rejected;
mod voice;

pub use estimate::GenerateEstimate;
pub use rejected::{Rejection, RejectionReason};
pub use voice::Persona;

use crate::dataset::{Length, Origin, QuestionKind, QuestionStyle, question_id};
use crate::words::content_stems;
use crate::{Dataset, Evidence, Missing, Question, prompt};
use crate::{
    metric::judge::{Judge, Transcript},
    verdict::Inquiry,
};
use draft::{QuestionDraft, read as read_draft};
use futures::{StreamExt, future, stream};
use graph::PassageGraph;
use models::{Chat, ChatRequest, Message};
use rag::{
    Chunk, Span,
    python::{Failure, FailureKind},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};
use voice::{Voice, Voices};

/// The number of nearest passages that must not answer an unanswerable question.
const NEAREST: usize = 3;

/// A function in place of the chat model that raises in this many scenarios in a row is not called
/// again.
const MOST_RAISES: usize = 3;

/// The share of the reference's words from which on an answer without passages is
/// the same answer.
const KNOWN: f64 = 0.8;

/// How questions are generated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GenerateOptions {
    /// How many questions are wanted; fewer come where passages run out.
    pub size: usize,
    /// Decides which passages are drawn, and in which voices.
    pub seed: u64,
    /// The share of each kind; what is not named has none. All kinds with
    /// their default shares if left out.
    pub kinds: BTreeMap<QuestionKind, f64>,
    /// Who asks, in turns; nobody in particular if empty.
    pub personas: Vec<Persona>,
    /// How many personas the model makes up from the corpus, where none are
    /// given.
    pub n_personas: usize,
    /// How questions are written, in turns.
    pub styles: Vec<QuestionStyle>,
    /// How long questions are, in turns.
    pub lengths: Vec<Length>,
    /// Whether questions are rejected that the model answers without passages.
    pub closed_book: bool,
    /// The longest reply, in tokens.
    pub max_tokens: u32,
    /// Passages with fewer characters are skipped.
    pub min_characters: usize,
    /// How many scenarios are tried at most; 8 for each question if left out.
    pub max_attempts: Option<usize>,
    /// The probability from which on a passage is taken to answer a question;
    /// for models that offer token probabilities.
    pub threshold: f64,
    /// How many scenarios are worked on at once. Does not change the result.
    pub concurrency: usize,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            size: 20,
            seed: 0,
            kinds: QuestionKind::ALL.iter().map(|kind| (*kind, kind.default_share())).collect(),
            personas: Vec::new(),
            n_personas: 0,
            styles: vec![QuestionStyle::Plain],
            lengths: vec![Length::Medium],
            closed_book: true,
            max_tokens: 300,
            min_characters: 200,
            max_attempts: None,
            threshold: 0.5,
            concurrency: 4,
        }
    }
}

/// Options that cannot work, and what to write instead.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateOptionsError {
    /// No question is wanted.
    #[error("`size` must be at least 1")]
    Size,
    /// The shares of the kinds do not add up to anything.
    #[error(
        "`kinds` must be shares of at least 0 of which one is above 0, such as {{ multi_hop = 0.3, single_hop_specific = \
         0.7 }}"
    )]
    Kinds,
    /// The threshold is no probability.
    #[error("`threshold` must be between 0 and 1, not {0}")]
    Threshold(f64),
    /// There is no style or no length.
    #[error("`styles` and `lengths` must name at least one each")]
    Voices,
}

impl GenerateOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<(), GenerateOptionsError> {
        if self.size == 0 {
            return Err(GenerateOptionsError::Size);
        }
        if self.kinds.values().any(|share| !share.is_finite() || *share < 0.0)
            || self.kinds.values().sum::<f64>() <= 0.0
        {
            return Err(GenerateOptionsError::Kinds);
        }
        if !(self.threshold > 0.0 && self.threshold < 1.0) {
            return Err(GenerateOptionsError::Threshold(self.threshold));
        }
        if self.styles.is_empty() || self.lengths.is_empty() {
            return Err(GenerateOptionsError::Voices);
        }
        Ok(())
    }

    /// The number of questions of each kind, by the largest remainder method, so that
    /// they add up to the size.
    fn quotas(&self) -> Vec<(QuestionKind, usize)> {
        let sum: f64 = self.kinds.values().sum();
        let exact = |kind: &QuestionKind| self.kinds.get(kind).copied().unwrap_or(0.0) / sum * self.size as f64;
        let mut quotas: Vec<(QuestionKind, usize)> =
            QuestionKind::ALL.iter().map(|kind| (*kind, exact(kind) as usize)).collect();
        let mut left = self.size.saturating_sub(quotas.iter().map(|quota| quota.1).sum());
        let mut by_remainder: Vec<usize> = (0..quotas.len()).collect();
        let remainder = |i: &usize| exact(&QuestionKind::ALL[*i]).fract();
        by_remainder.sort_by(|a, b| remainder(b).total_cmp(&remainder(a)));
        for i in by_remainder.into_iter().filter(|i| exact(&QuestionKind::ALL[*i]) > 0.0).cycle().take(self.size) {
            if left == 0 {
                break;
            }
            quotas[i].1 += 1;
            left -= 1;
        }
        quotas
    }

    fn attempts(&self, quota: usize) -> usize {
        match self.max_attempts {
            Some(most) => (most * quota).div_ceil(self.size.max(1)).min(most),
            None => quota.saturating_mul(8),
        }
    }
}

/// Generated questions, and what was rejected.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GeneratedQuestions {
    /// The questions, with anchored evidence.
    pub dataset: Dataset,
    /// A rejection for each scenario without a question, and for each unsuitable
    /// passage.
    pub rejected: Vec<Rejection>,
    /// The personas that ask.
    pub personas: Vec<Persona>,
    /// The number of scenarios that were tried.
    pub attempts: usize,
    /// The questions that each kind lacks of its share.
    pub lacking: BTreeMap<QuestionKind, usize>,
    /// The number of names and terms that connect passages.
    pub n_entities: usize,
    /// The number of suitable passages.
    pub n_passages: usize,
    /// How often in a row, at the end, the user's function raised.
    raised_in_a_row: usize,
}

impl GeneratedQuestions {
    /// How often each reason led to a rejection.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for rejection in &self.rejected {
            *counts.entry(rejection.reason.name()).or_default() += 1;
        }
        counts
    }

    /// Whether generation stopped because the user's function raised several times in a row.
    pub fn is_stopped_by_function(&self) -> bool {
        self.raised_in_a_row >= MOST_RAISES
    }

    /// The number of drafts, with those that were rejected.
    pub fn n_written(&self) -> usize {
        let rejected = self.rejected.iter().filter(|rejection| rejection.question.is_some());
        self.dataset.questions.len() + rejected.count()
    }

    /// The failures of the user's function.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.rejected.iter().filter_map(|rejection| match &rejection.reason {
            RejectionReason::Function(failure) => Some(&**failure),
            _ => None,
        })
    }

    /// Adds the outcome of a scenario: a new question, or a rejection.
    fn add(&mut self, scenario: &Scenario<'_>, outcome: AttemptOutcome) {
        self.attempts += 1;
        self.raised_in_a_row = match &outcome {
            Err((RejectionReason::Function(failure), _)) if failure.kind == FailureKind::Raised => {
                self.raised_in_a_row + 1
            }
            _ => 0,
        };
        let (reason, question) = match outcome {
            Ok(question)
                if check::is_repeated(&question, &self.dataset.questions, language::rules_of(scenario.language)) =>
            {
                (RejectionReason::Duplicate, Some(question.question))
            }
            Ok(question) => return self.dataset.questions.push(question),
            Err(rejected) => rejected,
        };
        let (document, span) = (scenario.passages[0].document.clone(), scenario.passages[0].span);
        self.rejected.push(Rejection { reason, kind: Some(scenario.kind), document, span, question });
    }
}

/// The progress of generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerateProgress {
    /// Questions accepted so far.
    pub accepted: usize,
    /// Questions wanted.
    pub size: usize,
    /// Scenarios tried so far.
    pub attempted: usize,
    /// The most scenarios.
    pub attempts: usize,
}

/// The material for one question.
struct Scenario<'a> {
    kind: QuestionKind,
    passages: Vec<&'a Chunk>,
    /// The name that both passages share.
    shared: Option<String>,
    voice: Voice,
    language: Option<whatlang::Lang>,
}

/// Makes golden questions from passages. `on_progress` is called after every
/// scenario.
///
/// # Errors
/// The model cannot be used at all (no key, no quota, cancelled, …). Its answers so
/// far are in the journal, and are not paid again.
pub async fn generate(
    options: &GenerateOptions,
    chunks: &[Chunk],
    chat: &Chat,
    mut on_progress: impl FnMut(GenerateProgress),
) -> Result<GeneratedQuestions, models::Error> {
    let (passages, rejected) = passages::draw(chunks, options);
    let graph = PassageGraph::build(&passages);
    let mut generated = GeneratedQuestions {
        rejected,
        n_entities: graph.n_entities(),
        n_passages: passages.len(),
        ..GeneratedQuestions::default()
    };
    if options.size == 0 || passages.is_empty() {
        return Ok(generated);
    }
    generated.personas = match &options.personas[..] {
        [] if options.n_personas > 0 => personas::make(options, &passages, chat).await?,
        given => given.to_vec(),
    };
    let writer = QuestionWriter { options, graph: &graph, chat, judge: Judge::new(chat, &[], options.threshold) };
    let mut pool = PassagePool { passages: passages.clone(), taken: 0 };
    let mut quotas = options.quotas();
    let attempts: usize = quotas.iter().map(|(_, quota)| options.attempts(*quota)).sum();
    quotas.retain(|(_, quota)| *quota > 0);
    let own_quotas = quotas.clone();
    for i in 0..quotas.len() {
        let (kind, quota) = quotas[i];
        // This kind has the fewest requirements, so it replaces what other kinds lack.
        let fills_up = kind == QuestionKind::SingleHopSpecific;
        let may_try = if fills_up { attempts - generated.attempts } else { options.attempts(quota) };
        let seed = options.seed ^ (i as u64 + 1).wrapping_mul(0x9E37_79B9);
        let voices = Voices::new(options, &generated.personas, seed);
        let may_try = if generated.is_stopped_by_function() { 0 } else { may_try };
        let scenarios = pool.scenarios(kind, &graph, seed, may_try, voices);
        let before = generated.dataset.questions.len();
        let wanted = before + quota;
        let report = |generated: &GeneratedQuestions| {
            let accepted = generated.dataset.questions.len();
            on_progress(GenerateProgress { accepted, size: options.size, attempted: generated.attempts, attempts });
        };
        let tried = writer.write(&scenarios, wanted, &mut generated, report).await?;
        pool.advance(kind, tried);
        let lacking = wanted - generated.dataset.questions.len();
        // Of the kind's own quota only: `SingleHopSpecific` has the others' too, and what it
        // replaces counts as lacking at those kinds.
        let of_quota = own_quotas[i].1.saturating_sub(generated.dataset.questions.len() - before);
        if of_quota > 0 {
            generated.lacking.insert(kind, of_quota);
        }
        // It is last in the list of `every_kind!`, so what all other kinds lack is known before its turn.
        if let Some(next) = quotas.last_mut().filter(|next| !fills_up && next.0 == QuestionKind::SingleHopSpecific) {
            next.1 += lacking;
        }
    }
    Ok(generated)
}

/// All passages that were drawn; each is used for at most one question about one passage.
struct PassagePool<'a> {
    passages: Vec<&'a Chunk>,
    /// How many of them were tried for questions about one passage.
    taken: usize,
}

impl<'a> PassagePool<'a> {
    /// The scenarios of a kind, in the order of trying.
    fn scenarios(
        &self,
        kind: QuestionKind,
        graph: &PassageGraph<'a>,
        seed: u64,
        most: usize,
        mut voices: Voices,
    ) -> Vec<Scenario<'a>> {
        let of_pair = |pair: graph::Pair| (vec![self.passages[pair.first], self.passages[pair.second]], pair.shared);
        let of: Vec<(Vec<&'a Chunk>, Option<String>)> = match kind {
            QuestionKind::MultiHop => graph.by_entity(seed).into_iter().take(most).map(of_pair).collect(),
            QuestionKind::Comparative => graph.by_similarity().take(most).map(of_pair).collect(),
            _ => self.passages[self.taken..].iter().take(most).map(|passage| (vec![*passage], None)).collect(),
        };
        let scenario = |(passages, shared): (Vec<&'a Chunk>, Option<String>)| {
            let language = language::of(&passages[0].text);
            Scenario { kind, passages, shared, voice: voices.next(), language }
        };
        of.into_iter().map(scenario).collect()
    }

    fn advance(&mut self, kind: QuestionKind, tried: usize) {
        if kind.hops() == 1 {
            self.taken += tried;
        }
    }
}

/// A question, or why there is none, with the question if one was written.
type AttemptOutcome = Result<Question, (RejectionReason, Option<String>)>;

struct QuestionWriter<'a> {
    options: &'a GenerateOptions,
    graph: &'a PassageGraph<'a>,
    chat: &'a Chat,
    judge: Judge,
}

impl QuestionWriter<'_> {
    /// Tries scenarios until there are `wanted` questions. Returns the number of
    /// scenarios that were tried.
    async fn write(
        &self,
        scenarios: &[Scenario<'_>],
        wanted: usize,
        generated: &mut GeneratedQuestions,
        mut on_progress: impl FnMut(&GeneratedQuestions),
    ) -> Result<usize, models::Error> {
        let enough = AtomicBool::new(false);
        let mut outcomes = stream::iter(scenarios)
            .take_while(|_| future::ready(!enough.load(Ordering::Relaxed)))
            .map(|scenario| self.attempt(scenario))
            .buffered(self.options.concurrency.max(1));
        let mut tried = 0;
        while generated.dataset.questions.len() < wanted && !generated.is_stopped_by_function() {
            let Some(outcome) = outcomes.next().await else { break };
            generated.add(&scenarios[tried], outcome?);
            tried += 1;
            on_progress(generated);
        }
        // Calls in flight are paid: they are awaited, so that the journal has their answers.
        enough.store(true, Ordering::Relaxed);
        while outcomes.next().await.is_some() {}
        Ok(tried)
    }

    async fn attempt(&self, scenario: &Scenario<'_>) -> Result<AttemptOutcome, models::Error> {
        let response = match self.chat.chat(&draft::request(self.options, scenario)).await {
            Ok(response) => response,
            Err(error @ models::Error::SchemaMismatch { .. }) => {
                return Ok(Err((RejectionReason::Unreadable(error.to_string()), None)));
            }
            Err(models::Error::Function(failed)) => {
                let failure = Failure::of_model(rejected::WRITER, *failed);
                return Ok(Err((RejectionReason::Function(Box::new(failure)), None)));
            }
            Err(error) if concerns_one_passage(&error) => {
                return Ok(Err((RejectionReason::Model(error.to_string()), None)));
            }
            Err(error) => return Err(error),
        };
        let draft = match read_draft(&response.text, scenario.kind) {
            Ok(draft) => draft,
            Err(error) => return Ok(Err((RejectionReason::Unreadable(error.to_string()), None))),
        };
        let asked = Some(draft.question.clone());
        let texts: Vec<&str> = scenario.passages.iter().map(|chunk| chunk.text.as_str()).collect();
        let checked = check::draft(&draft, &texts, scenario.kind, language::rules_of(scenario.language))
            .and_then(|spans| language::check(&draft.question, scenario.language).map(|()| spans));
        let spans = match checked {
            Ok(spans) => spans,
            Err(reason) => return Ok(Err((reason, asked))),
        };
        let rejection = match self.find_rejection(scenario, &draft).await {
            Ok(rejection) => rejection,
            Err(Missing::Cancelled) => return Err(models::Error::Cancelled),
            Err(Missing::ProviderError(reason) | Missing::Budget(reason)) => Some(RejectionReason::Model(reason)),
            Err(Missing::FunctionError(failure)) => {
                Some(RejectionReason::Function(Box::new(Failure { stage: rejected::WRITER.to_owned(), ..*failure })))
            }
            Err(missing) => Some(RejectionReason::Unreadable(missing.to_string())),
        };
        Ok(match rejection {
            Some(reason) => Err((reason, asked)),
            None => Ok(self.question(scenario, draft, &spans)),
        })
    }

    /// The reason for which the model's own checks reject a question.
    async fn find_rejection(
        &self,
        scenario: &Scenario<'_>,
        draft: &QuestionDraft,
    ) -> Result<Option<RejectionReason>, Missing> {
        if !scenario.kind.is_answerable() {
            let nearest = self.graph.nearest(&draft.question, NEAREST);
            for passage in scenario.passages.iter().copied().chain(nearest) {
                if self.answers(&[passage], &draft.question).await?.0 {
                    return Ok(Some(RejectionReason::Answerable));
                }
            }
            return Ok(None);
        }
        let (together, certainty) = self.answers(&scenario.passages, &draft.question).await?;
        if !together {
            return Ok(Some(RejectionReason::NotAnswered));
        }
        if let [_, _, ..] = scenario.passages[..] {
            for passage in &scenario.passages {
                let (alone, probability) = self.answers(&[*passage], &draft.question).await?;
                // Even a judge that always says yes varies in probability.
                if alone && probability.zip(certainty).is_none_or(|(alone, together)| alone >= together) {
                    return Ok(Some(RejectionReason::OnePassageIsEnough));
                }
            }
        }
        if self.options.closed_book && self.knows(draft, scenario.language).await? {
            return Ok(Some(RejectionReason::KnownWithout));
        }
        Ok(None)
    }

    /// Whether the model says that passages answer a question, with the probability
    /// if it offers one.
    async fn answers(&self, passages: &[&Chunk], question: &str) -> Result<(bool, Option<f64>), Missing> {
        let items = [question.to_owned()];
        let (shared, question) = match passages {
            [one] => (prompt::fence("passage", &one.text), "Does the passage hold the answer to the question?"),
            several => (
                prompt::fence_all("passages", "passage", several.iter().map(|chunk| chunk.text.as_str())),
                "Do the passages together hold the answer to the question?",
            ),
        };
        let inquiry = Inquiry { shared, tag: "question", items: &items, question, per_call: 1 };
        let verdicts = self.judge.verdicts(&inquiry, &mut Transcript::default()).await?;
        let verdict = verdicts.into_iter().next().unwrap_or_default();
        let yes = verdict
            .yes
            .ok_or_else(|| Missing::JudgeUnparsable("there is no verdict on whether the passage answers".into()))?;
        Ok((yes, verdict.probability))
    }

    /// Whether the model gives the reference answer without any passage.
    async fn knows(&self, draft: &QuestionDraft, language: Option<whatlang::Lang>) -> Result<bool, Missing> {
        let question = prompt::fence("question", &draft.question);
        let task = "Answer the question in as few words as you can, in the language of the question. If you do not know the answer, write: unknown.";
        let request = ChatRequest::new(vec![Message::user(format!("{question}\n\n{task}"))], 60);
        let response = self.chat.chat(&request).await?;
        let stems = |text: &str| content_stems(text, language::rules_of(language));
        let (known, wanted) = (stems(&response.text), stems(&draft.answer));
        let common = wanted.intersection(&known).count() as f64;
        Ok(!wanted.is_empty() && common >= KNOWN * wanted.len() as f64)
    }

    fn question(&self, scenario: &Scenario<'_>, draft: QuestionDraft, spans: &[Span]) -> Question {
        let evidence = scenario.passages.iter().zip(spans).map(|(chunk, span)| Evidence {
            document: chunk.document.clone(),
            quote: chunk.text[span.start..span.end].to_owned(),
            span: Some(Span { start: chunk.span.start + span.start, end: chunk.span.start + span.end }),
        });
        let voice = &scenario.voice;
        Question {
            id: question_id('g', &draft.question),
            evidence: evidence.collect(),
            reference: Some(draft.answer).filter(|answer| !answer.is_empty()),
            question: draft.question,
            tags: vec!["generated".to_owned()],
            answerable: scenario.kind.is_answerable(),
            origin: Some(Origin {
                kind: scenario.kind,
                persona: voice.persona.as_ref().map(|persona| persona.name.clone()),
                style: voice.style,
                length: voice.length,
                model: self.chat.identity().model.clone(),
            }),
            ..Question::default()
        }
    }
}

/// Whether another passage may succeed.
fn concerns_one_passage(error: &models::Error) -> bool {
    error.is_transient()
        || matches!(error, models::Error::ContextTooLong { .. } | models::Error::ContentFiltered { .. })
}

#[cfg(test)]
mod tests;

//! The pipelines of a service, and which of them a question goes to: the one
//! that is served, a candidate for its place, and the one that answers where
//! both fail.
//!
//! A candidate is tried in one of two ways. As a canary it answers a share of the
//! questions; a conversation stays with the pipeline that began it, and what the
//! canary cannot answer the served pipeline does. As a shadow it is asked a share
//! of the questions once more, and its answers go to nobody. Source: D. Sato,
//! "CanaryRelease", 2014; Google, Site Reliability Workbook, 2018, chapter 16.

use crate::{Settings, answer::Asked, breaker::Breaker, served::Served};
use rag::pipeline::AnswerEvent;
use sha2::{Digest, Sha256};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};
use tracing::Span;

/// So many questions at a time are asked of a shadow; those that come while it
/// works on them are not, so that it never takes the machine from real ones.
const SHADOWS_AT_ONCE: usize = 2;

/// What a pipeline is to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Serving,
    Canary,
    Shadow,
    Fallback,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Canary => "canary",
            Self::Shadow => "shadow",
            Self::Fallback => "fallback",
        }
    }
}

/// What a lane asks: a pipeline that searches and writes answers.
pub(crate) trait Pipeline: Send + Sync + 'static {
    /// The digest of the bundle, or the run and its trial.
    fn version(&self) -> &str;

    /// Whether it writes answers, besides finding passages.
    fn writes_answers(&self) -> bool;

    /// The span of one attempt at an answer.
    fn span(&self) -> Span;

    /// Answers a question; what comes of it goes to `on_event`.
    fn ask(
        &self,
        asked: &Asked,
        on_event: impl Fn(AnswerEvent) + Send + Sync,
    ) -> impl Future<Output = Result<(), lab::Error>> + Send;

    /// Finds the passages for a question.
    fn find(&self, asked: &Asked) -> impl Future<Output = Result<rag::pipeline::QueryResult, lab::Error>> + Send;
}

/// When a chat model last wrote something.
#[derive(Debug, Default)]
pub(crate) struct LastOutput(Mutex<Option<Instant>>);

impl LastOutput {
    pub(crate) fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether it wrote within so long a time before now.
    pub(crate) fn is_within(&self, time: Duration) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < time)
    }
}

/// A pipeline, what it is here, and whether its chat model may be asked.
#[derive(Debug)]
pub(crate) struct Lane<P = Served> {
    pub(crate) served: Arc<P>,
    pub(crate) role: Role,
    pub(crate) breaker: Breaker,
    /// Of searches without an answer: what the chat model does says nothing of them.
    pub(crate) search_breaker: Breaker,
    /// Of this lane's model: what another lane's model writes says nothing about it.
    pub(crate) last_output: LastOutput,
}

impl<P> Lane<P> {
    pub(crate) fn new(served: Arc<P>, role: Role, settings: &Settings) -> Arc<Self> {
        let breaker = || Breaker::new(settings.failures_to_break, settings.break_for);
        let (breaker, search_breaker) = (breaker(), breaker());
        Arc::new(Self { served, role, breaker, search_breaker, last_output: LastOutput::default() })
    }
}

/// A pipeline that is tried beside the one that is served.
#[derive(Debug)]
pub(crate) struct Candidate<P = Served> {
    pub(crate) lane: Arc<Lane<P>>,
    /// The share of the questions, from 0 to 1.
    pub(crate) share: f64,
    pub(crate) places: Arc<Semaphore>,
}

// Clones are the same candidate, of whatever kind of pipeline.
impl<P> Clone for Candidate<P> {
    fn clone(&self) -> Self {
        Self { lane: self.lane.clone(), share: self.share, places: self.places.clone() }
    }
}

impl<P: Pipeline> Candidate<P> {
    pub(crate) fn new(served: Arc<P>, share: f64, is_shadow: bool, settings: &Settings) -> Self {
        let role = if is_shadow { Role::Shadow } else { Role::Canary };
        let lane = Lane::new(served, role, settings);
        Self { lane, share, places: Arc::new(Semaphore::new(SHADOWS_AT_ONCE)) }
    }

    /// Whether a conversation belongs to it. Of a greater share, those of a
    /// smaller one are a part, so that nobody changes sides while it grows.
    fn takes(&self, asked: &Asked) -> bool {
        let begins = asked.history.first().map_or(&asked.question, |message| &message.content);
        // Another candidate is tried on other conversations.
        let digest = Sha256::new().chain_update(self.lane.served.version()).chain_update(begins).finalize();
        let first = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        f64::from(first) < self.share * 2f64.powi(32)
    }
}

/// All pipelines of a service.
#[derive(Debug)]
pub(crate) struct Lanes<P = Served> {
    pub(crate) serving: Arc<Lane<P>>,
    pub(crate) candidate: Option<Candidate<P>>,
    pub(crate) fallback: Option<Arc<Lane<P>>>,
}

impl<P> Clone for Lanes<P> {
    fn clone(&self) -> Self {
        Self { serving: self.serving.clone(), candidate: self.candidate.clone(), fallback: self.fallback.clone() }
    }
}

impl Lanes {
    /// Makes all of them ready.
    ///
    /// # Errors
    /// If the store or a model fails.
    pub(crate) async fn warm(&self) -> Result<(), lab::Error> {
        let candidate = self.candidate.as_ref().map(|candidate| &candidate.lane);
        for lane in [&self.serving].into_iter().chain(candidate).chain(&self.fallback) {
            lane.served.warm().await?;
        }
        Ok(())
    }
}

impl<P: Pipeline> Lanes<P> {
    /// Those that a question is asked of, one after the other until one answers.
    pub(crate) fn order(&self, asked: &Asked) -> Vec<Arc<Lane<P>>> {
        self.canary(asked).into_iter().chain([&self.serving]).chain(&self.fallback).cloned().collect()
    }

    /// The canary, if a question belongs to it.
    pub(crate) fn canary(&self, asked: &Asked) -> Option<&Arc<Lane<P>>> {
        let canary = self.candidate.as_ref().filter(|candidate| candidate.lane.role == Role::Canary);
        canary.filter(|canary| canary.takes(asked)).map(|canary| &canary.lane)
    }

    /// The candidate that is asked a share of the questions once more.
    pub(crate) fn shadow(&self) -> Option<&Candidate<P>> {
        self.candidate.as_ref().filter(|candidate| candidate.lane.role == Role::Shadow)
    }
}

//! The lanes of a service. A lane is a pipeline with its role and circuit breakers: the
//! served pipeline, a candidate to replace it, or a fallback for when they fail.
//!
//! A candidate has one of two roles. A canary answers a share of the conversations,
//! each from beginning to end; if it fails, the served pipeline answers. A shadow is
//! also asked a share of the questions, but its answers are not sent to clients.
//! Source: D. Sato, "CanaryRelease", 2014; Google,
//! Site Reliability Workbook, 2018, chapter 16.

use super::{
    breaker::Breaker,
    pipeline::{AnswerPipeline, UserQuestion},
    served::ServedPipeline,
};
use crate::settings::ServiceSettings;
use sha2::{Digest, Sha256};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};

/// A shadow answers this many questions at a time and skips the others, so that it
/// takes no resources from clients.
const SHADOWS_AT_ONCE: usize = 2;

/// The role of a pipeline in a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LaneRole {
    Serving,
    Canary,
    Shadow,
    Fallback,
}

impl LaneRole {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Canary => "canary",
            Self::Shadow => "shadow",
            Self::Fallback => "fallback",
        }
    }
}

/// A pipeline with its role and breakers.
#[derive(Debug)]
pub(crate) struct Lane<P = ServedPipeline> {
    pub(crate) pipeline: Arc<P>,
    pub(crate) role: LaneRole,
    pub(crate) breaker: Breaker,
    /// The breaker of searches without an answer, which need no chat model. It counts
    /// every failure after which another lane may be asked, also of the store.
    pub(crate) search_breaker: Breaker,
    /// When this lane's chat model last wrote a piece of an answer.
    last_output: Mutex<Option<Instant>>,
}

impl<P> Lane<P> {
    pub(crate) fn new(pipeline: Arc<P>, role: LaneRole, settings: &ServiceSettings) -> Arc<Self> {
        let breaker = || Breaker::new(settings.failures_to_break, settings.break_for);
        let (breaker, search_breaker) = (breaker(), breaker());
        Arc::new(Self { pipeline, role, breaker, search_breaker, last_output: Mutex::default() })
    }

    pub(crate) fn note_output(&self) {
        *self.last_output.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether the chat model wrote something within this time before now.
    pub(crate) fn has_written_within(&self, time: Duration) -> bool {
        let last = *self.last_output.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < time)
    }
}

/// The lane of a canary or shadow.
#[derive(Debug)]
pub(crate) struct CandidateLane<P = ServedPipeline> {
    pub(crate) lane: Arc<Lane<P>>,
    /// The share of the questions, from 0 to 1.
    pub(crate) share: f64,
    /// Limits how many questions a shadow answers at a time.
    pub(crate) permits: Arc<Semaphore>,
}

// A derived `Clone` would need `P: Clone`.
impl<P> Clone for CandidateLane<P> {
    fn clone(&self) -> Self {
        Self { lane: self.lane.clone(), share: self.share, permits: self.permits.clone() }
    }
}

impl<P: AnswerPipeline> CandidateLane<P> {
    pub(crate) fn new(pipeline: Arc<P>, share: f64, is_shadow: bool, settings: &ServiceSettings) -> Self {
        let role = if is_shadow { LaneRole::Shadow } else { LaneRole::Canary };
        let lane = Lane::new(pipeline, role, settings);
        Self { lane, share, permits: Arc::new(Semaphore::new(SHADOWS_AT_ONCE)) }
    }

    /// Whether the canary answers this question. The first message of the conversation
    /// decides, so a conversation keeps its pipeline, also when the share grows.
    fn takes(&self, question: &UserQuestion) -> bool {
        let first_message = question.history.first().map_or(&question.text, |message| &message.content);
        // The version is hashed too, so that each candidate gets other conversations.
        let digest = Sha256::new().chain_update(self.lane.pipeline.version()).chain_update(first_message).finalize();
        let hash = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        f64::from(hash) < self.share * 2f64.powi(32)
    }
}

/// The lanes of a service.
#[derive(Debug)]
pub(crate) struct LaneSet<P = ServedPipeline> {
    pub(crate) serving: Arc<Lane<P>>,
    pub(crate) candidate: Option<CandidateLane<P>>,
    pub(crate) fallback: Option<Arc<Lane<P>>>,
}

impl<P> Clone for LaneSet<P> {
    fn clone(&self) -> Self {
        Self { serving: self.serving.clone(), candidate: self.candidate.clone(), fallback: self.fallback.clone() }
    }
}

impl LaneSet {
    /// Warms up all pipelines.
    ///
    /// # Errors
    /// If the store or a model fails.
    pub(crate) async fn warm(&self) -> Result<(), lab::Error> {
        let candidate = self.candidate.as_ref().map(|candidate| &candidate.lane);
        for lane in [&self.serving].into_iter().chain(candidate).chain(&self.fallback) {
            lane.pipeline.warm().await?;
        }
        Ok(())
    }
}

impl<P: AnswerPipeline> LaneSet<P> {
    /// The lanes that may answer a question, in the order in which they are asked.
    pub(crate) fn order(&self, question: &UserQuestion) -> Vec<Arc<Lane<P>>> {
        self.canary(question).into_iter().chain([&self.serving]).chain(&self.fallback).cloned().collect()
    }

    /// The canary, if it answers this question.
    fn canary(&self, question: &UserQuestion) -> Option<&Arc<Lane<P>>> {
        let canary = self.candidate.as_ref().filter(|candidate| candidate.lane.role == LaneRole::Canary);
        canary.filter(|canary| canary.takes(question)).map(|canary| &canary.lane)
    }

    /// The candidate, if it is a shadow.
    pub(crate) fn shadow(&self) -> Option<&CandidateLane<P>> {
        self.candidate.as_ref().filter(|candidate| candidate.lane.role == LaneRole::Shadow)
    }
}

//! The state of a service, which middleware and handlers share.

mod following;
mod opening;

pub(crate) use following::FollowedVersions;
pub(crate) use opening::outcome_of;

use crate::{
    answering::{
        AdmissionQueue, CandidateLane, Deadline, DrawnPages, FoundPassages, Lane, LaneDispatcher, LaneRole, LaneSet,
        ServedPipeline, UserQuestion,
    },
    error::ApiError,
    sampling::AnswerSampler,
    settings::ServiceSettings,
    telemetry::{LineLog, Metrics, OperatorLog, OperatorSink},
};
use futures::future::BoxFuture;
use lab::VersionPlace;
use opening::OpeningLock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Opens a bundle by its address.
type OpenBundle = Arc<dyn Fn(String) -> BoxFuture<'static, Result<ServedPipeline, lab::Error>> + Send + Sync>;

/// A service over one pipeline. It answers when it is run or mounted.
pub struct HttpService {
    pub(crate) settings: ServiceSettings,
    pub(crate) dispatcher: Arc<LaneDispatcher>,
    pub(crate) open_bundle: Option<OpenBundle>,
    /// The place whose current version is served.
    pub(crate) followed: Option<FollowedVersions>,
    pub(crate) log: Arc<OperatorLog>,
    pub(crate) feedback: Option<LineLog>,
    pub(crate) sampler: Arc<AnswerSampler>,
    /// Limits searches, embeddings and rankings.
    pub(crate) searches: AdmissionQueue,
    pub(crate) pages: Arc<DrawnPages>,
    pub(crate) metrics: Arc<Metrics>,
    /// Whether the pipelines are warm.
    pub(crate) is_warm: AtomicBool,
    /// Whether the service was told to stop.
    pub(crate) is_ending: AtomicBool,
    pub(crate) is_tls: bool,
    pub(crate) opening: OpeningLock,
}

impl HttpService {
    /// Creates a service over a pipeline.
    pub fn new(served: ServedPipeline, settings: ServiceSettings) -> Self {
        let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
        let log = Arc::new(OperatorLog::new(metrics.clone()));
        let sampler = Arc::new(AnswerSampler::new(settings.sample.clone(), &served, &metrics));
        let serving = Lane::new(Arc::new(served), LaneRole::Serving, &settings);
        let lanes = LaneSet { serving, candidate: None, fallback: None };
        Self {
            dispatcher: Arc::new(LaneDispatcher::new(lanes, sampler.clone(), metrics.clone(), log.clone(), &settings)),
            searches: AdmissionQueue::new(settings.searches_at_once, settings.searches_at_once),
            pages: Arc::new(DrawnPages::new()),
            open_bundle: None,
            followed: None,
            log,
            feedback: None,
            sampler,
            metrics,
            is_warm: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            is_tls: false,
            opening: OpeningLock::default(),
            settings,
        }
    }

    /// Adds a pipeline that answers when the others fail.
    #[must_use]
    pub fn with_fallback(self, fallback: Option<ServedPipeline>) -> Self {
        let fallback = fallback.map(|served| Lane::new(Arc::new(served), LaneRole::Fallback, &self.settings));
        self.dispatcher.change_lanes(|lanes| lanes.fallback = fallback);
        self
    }

    /// Adds a candidate to replace the served pipeline. It is tried on this share of
    /// the questions, as a shadow, whose answers are not sent, or as a canary.
    #[must_use]
    pub fn with_candidate(self, candidate: Option<ServedPipeline>, share: f64, is_shadow: bool) -> Self {
        if let Some(served) = candidate {
            self.set_candidate(Some(CandidateLane::new(Arc::new(served), share, is_shadow, &self.settings)));
        }
        self
    }

    /// Lets administrators open other bundles. `sink` gets each change, and every other
    /// line for the operator, such as failures and drift: without it, none is written.
    #[must_use]
    pub fn with_admin(self, open_bundle: OpenBundle, sink: OperatorSink) -> Self {
        self.log.set_sink(sink);
        Self { open_bundle: Some(open_bundle), ..self }
    }

    /// Serves the current version of a place from now on. `serving` is the version of the pipeline that this service was
    /// created with; `open` opens others.
    #[must_use]
    pub fn with_versions(self, place: VersionPlace, serving: String, open: OpenBundle) -> Self {
        Self { followed: Some(FollowedVersions::new(place, serving, open)), ..self }
    }

    /// Adds a file for users' verdicts on answers.
    #[must_use]
    pub fn with_feedback(self, feedback: Option<LineLog>) -> Self {
        Self { feedback, ..self }
    }

    pub(crate) fn served(&self) -> Arc<ServedPipeline> {
        self.lanes().serving.pipeline.clone()
    }

    pub(crate) fn lanes(&self) -> Arc<LaneSet> {
        self.dispatcher.lanes()
    }

    /// What `/health/ready` says: whether new questions should be sent here. A service
    /// that is ending still answers those that come.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_warm.load(Relaxed) && !self.is_ending.load(Relaxed)
    }

    /// Replaces the served pipeline. Returns the previous one.
    pub(crate) fn swap(&self, next: Arc<ServedPipeline>) -> Arc<ServedPipeline> {
        if let Some(quality) = &self.sampler.quality {
            quality.set_serving(&next);
        }
        let next = Lane::new(next, LaneRole::Serving, &self.settings);
        self.dispatcher.change_lanes(|lanes| std::mem::replace(&mut lanes.serving, next)).pipeline.clone()
    }

    /// Replaces the candidate, or removes it. Returns the previous one.
    pub(crate) fn set_candidate(&self, candidate: Option<CandidateLane>) -> Option<CandidateLane> {
        if let Some(quality) = &self.sampler.quality {
            quality.set_candidate(candidate.as_ref().map(|candidate| &*candidate.lane.pipeline));
        }
        self.dispatcher.change_lanes(|lanes| std::mem::replace(&mut lanes.candidate, candidate))
    }

    /// Changes the candidate's share of the questions.
    pub(crate) fn set_candidate_share(&self, share: f64) {
        self.dispatcher.change_lanes(|lanes| {
            if let Some(candidate) = &mut lanes.candidate {
                candidate.share = share;
            }
        });
    }

    /// The deadline of a request that begins now.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.settings.deadline)
    }

    /// Finds the passages for a question, without an answer.
    ///
    /// # Errors
    /// If too many searches run, or every pipeline fails.
    pub(crate) async fn find(&self, question: &UserQuestion) -> Result<FoundPassages, ApiError> {
        let deadline = self.deadline();
        let _permit = self.searches.enter(deadline.left()).await?;
        let (served, found) = self.dispatcher.find(question, deadline).await?;
        // Not the lane: why the query component left the question unchanged, or wrote fewer queries.
        let remarks = found.fallback.into_iter().chain(found.remarks).collect();
        Ok(FoundPassages { served, passages: found.passages, remarks })
    }
}

/// The error while the service warms up or stops.
pub(crate) fn not_ready() -> ApiError {
    ApiError::overloaded("the service is not ready yet, or is shutting down", Duration::from_secs(1))
}

//! Pipelines of runs and bundles, opened for a service.

use super::pipeline::{AnswerPipeline, UserQuestion};
use crate::telemetry::pipeline_span;
use eval::statistics::Summary;
use futures::stream::BoxStream;
use lab::{Bundle, CorpusState, Error, Part, PartTransport, Reach, RunPipeline, RunRecord, Session, Setup};
use rag::pipeline::{PipelineEvent, QueryResult};
use std::{
    any::Any,
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The pipeline of a lane: served, candidate or fallback.
pub struct ServedPipeline {
    /// The name that clients send as `model`.
    pub name: String,
    /// The digest of the bundle, or `RUN/TRIAL`.
    pub version: String,
    /// When its run finished, in seconds since 1970.
    pub created: i64,
    pub(crate) pipeline: Arc<RunPipeline>,
    /// Which state of the corpus it searches, if that is known.
    pub corpus: Option<CorpusState>,
    /// The text of the experiment file.
    pub experiment: String,
    /// The scores that the run measured, by metric.
    pub(crate) scores: BTreeMap<String, Summary>,
    /// What the pipeline uses beyond its own files: functions, environment variables,
    /// hosts.
    pub reach: Reach,
    /// Holds the store and the journal open.
    _session: Arc<dyn Any + Send + Sync>,
    /// The folder of a bundle's temporary files, which is removed with the pipeline.
    scratch: Option<PathBuf>,
}

impl std::fmt::Debug for ServedPipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedPipeline")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl ServedPipeline {
    /// Opens a trial of a finished run. `keep` is what the session needs; it is dropped
    /// with the pipeline.
    ///
    /// # Errors
    /// If the trial cannot be opened.
    pub async fn open_run(
        session: &Session,
        record: &RunRecord,
        trial: &str,
        keep: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, Error> {
        let pipeline = RunPipeline::open(session, record, trial).await?;
        Ok(Self {
            name: record.board().experiment.clone(),
            version: format!("{}/{trial}", record.id()),
            created: record.time_ms().div_euclid(1000),
            pipeline: Arc::new(pipeline),
            corpus: record.provenance()?.corpus.clone(),
            experiment: record.provenance()?.experiment.clone(),
            scores: record.mean_scores(trial),
            reach: Reach::of(&session.experiment, record)?,
            _session: keep,
            scratch: None,
        })
    }

    /// Opens the trial of a bundle. Its temporary files are in a folder below `scratch`,
    /// which is removed with the pipeline. Model responses are not stored.
    ///
    /// # Errors
    /// If the bundle is damaged, or a model is missing.
    pub async fn open_bundle(address: &str, setup: Setup, cache: &Path, scratch: &Path) -> Result<Self, Error> {
        Self::open_bundle_with(address, setup, cache, scratch, None, None).await
    }

    /// Opens the trial of a bundle that was named over HTTP, if it uses no functions,
    /// variables or hosts beyond `allowed`. Without this limit, an administrator could
    /// run code here, or send the service's keys elsewhere.
    ///
    /// # Errors
    /// As [`ServedPipeline::open_bundle`], and if the bundle uses more than is allowed.
    pub async fn open_restricted_bundle(
        address: &str,
        setup: Setup,
        cache: &Path,
        scratch: &Path,
        allowed: &Reach,
    ) -> Result<Self, Error> {
        Self::open_bundle_with(address, setup, cache, scratch, None, Some(allowed)).await
    }

    /// Opens one part of a bundle's pipeline that is split over several processes;
    /// `others` sends requests to the other parts. [`Part::Gateway`] is for a
    /// [`crate::HttpService`], the other parts are for [`ServedPipeline::reply`].
    ///
    /// # Errors
    /// As [`ServedPipeline::open_bundle`].
    pub async fn open_bundle_part(
        address: &str,
        setup: Setup,
        cache: &Path,
        scratch: &Path,
        part: Part,
        others: Arc<dyn PartTransport>,
    ) -> Result<Self, Error> {
        Self::open_bundle_with(address, setup, cache, scratch, Some((part, others)), None).await
    }

    async fn open_bundle_with(
        address: &str,
        mut setup: Setup,
        cache: &Path,
        scratch: &Path,
        part: Option<(Part, Arc<dyn PartTransport>)>,
        allowed: Option<&Reach>,
    ) -> Result<Self, Error> {
        setup.control.forgets_answers = true;
        if let Some(allowed) = allowed.filter(|_| store::is_url(address)) {
            // This is checked first, so that a refused bundle is not fetched.
            check_reach(address, &Bundle::reach(address, &setup).await?, allowed)?;
        }
        let bundle = Bundle::open(address, &setup, cache).await?;
        let scratch = scratch.join(store::unique_token());
        std::fs::create_dir_all(&scratch).map_err(|source| Error::File {
            operation: "create",
            path: scratch.display().to_string(),
            source,
        })?;
        let opened = async {
            let (session, record) = bundle.session(setup, &scratch).await?;
            // The files may have changed since the first check.
            let reach = Reach::of(&session.experiment, &record)?;
            if let Some(allowed) = allowed {
                check_reach(address, &reach, allowed)?;
            }
            let trial = &bundle.manifest.trial;
            let pipeline = match part {
                Some((part, others)) => RunPipeline::open_part(&session, &record, trial, part, others).await?,
                None => RunPipeline::open(&session, &record, trial).await?,
            };
            Ok::<_, Error>((session, record, reach, pipeline))
        };
        match opened.await {
            Ok((session, record, reach, pipeline)) => Ok(Self {
                name: bundle.manifest.name.clone(),
                version: bundle.manifest.digest().to_owned(),
                created: bundle.manifest.run_time_ms.div_euclid(1000),
                pipeline: Arc::new(pipeline),
                corpus: record.provenance()?.corpus.clone(),
                experiment: record.provenance()?.experiment.clone(),
                scores: record.mean_scores(&bundle.manifest.trial),
                reach,
                _session: Arc::new(session),
                scratch: Some(scratch),
            }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&scratch);
                Err(error)
            }
        }
    }

    /// Answers a request of another part. The work ends when the stream is dropped.
    pub fn reply(&self, request: &[u8]) -> BoxStream<'static, Vec<u8>> {
        self.pipeline.clone().reply(request)
    }

    /// Differences from the run, in sentences, such as another chat model.
    pub fn notes(&self) -> &[String] {
        self.pipeline.notes()
    }

    /// Whether the pipeline writes answers, besides finding passages.
    pub fn writes_answers(&self) -> bool {
        self.pipeline.has_generator()
    }

    /// Opens the indexes and loads the local models, so that the first question does
    /// not wait for them.
    ///
    /// # Errors
    /// If the store or a model fails.
    pub async fn warm(&self) -> Result<(), Error> {
        self.pipeline.warm().await
    }
}

/// Refuses a bundle that uses more than is allowed.
fn check_reach(address: &str, reach: &Reach, allowed: &Reach) -> Result<(), Error> {
    let Some(beyond) = reach.beyond(allowed) else { return Ok(()) };
    Err(Error::Unusable(format!(
        "{} uses {beyond}, which the pipelines that this service was started with do not use; start the service with this \
         bundle, or with --allow-functions or --allow-other-models",
        store::without_secrets(address)
    )))
}

impl AnswerPipeline for ServedPipeline {
    fn version(&self) -> &str {
        &self.version
    }

    fn writes_answers(&self) -> bool {
        self.writes_answers()
    }

    fn span(&self) -> tracing::Span {
        pipeline_span(&self.name, &self.version)
    }

    async fn ask(&self, question: &UserQuestion, on_event: impl Fn(PipelineEvent) + Send + Sync) -> Result<(), Error> {
        self.pipeline.ask(&question.text, &question.history, question.max_passages, on_event).await
    }

    async fn find(&self, question: &UserQuestion) -> Result<QueryResult, Error> {
        self.pipeline.retrieve(&question.text, &question.history, question.max_passages).await
    }
}

impl Drop for ServedPipeline {
    fn drop(&mut self) {
        if let Some(scratch) = &self.scratch {
            let _ = std::fs::remove_dir_all(scratch);
        }
    }
}

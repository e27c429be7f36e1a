//! What answers: a pipeline with a name, opened and ready.

use crate::{answer::Asked, lanes::Pipeline};
use eval::statistics::Summary;
use futures::stream::BoxStream;
use lab::{Bundle, Elsewhere, Error, Part, Reach, RunPipeline, RunRecord, Session, Setup};
use rag::pipeline::AnswerEvent;
use std::{
    any::Any,
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A pipeline that is served.
pub struct Served {
    /// By which clients ask for it, in `model`.
    pub name: String,
    /// What exactly it is: a bundle's digest, or a run and its trial.
    pub version: String,
    /// When its run finished, in seconds since 1970.
    pub created: i64,
    pub(crate) pipeline: Arc<RunPipeline>,
    /// The experiment, as its file.
    experiment: String,
    /// What the run found of it, by metric.
    scores: BTreeMap<String, Summary>,
    /// What it uses beyond its own files.
    pub reach: Reach,
    /// What must live as long: the store, the journal.
    _keep: Arc<dyn Any + Send + Sync>,
    /// Removed at the end, if there is one.
    scratch: Option<PathBuf>,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").field("name", &self.name).field("version", &self.version).finish_non_exhaustive()
    }
}

impl Served {
    /// A trial of a finished run. `keep` is kept as long as this: what the session
    /// needs.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub async fn of_run(
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
            experiment: record.frozen()?.experiment.clone(),
            scores: record.mean_scores(trial),
            reach: Reach::of(&session.experiment, record)?,
            _keep: keep,
            scratch: None,
        })
    }

    /// The trial of a bundle. What must be written lies in a folder of `scratch`
    /// that is removed when the bundle is no longer served; answers of models are
    /// not kept.
    ///
    /// # Errors
    /// If the bundle is damaged, or a model is missing.
    pub async fn of_bundle(address: &str, setup: Setup, cache: &Path, scratch: &Path) -> Result<Self, Error> {
        Self::opened(address, setup, cache, scratch, None, None).await
    }

    /// The same of a bundle that somebody names over HTTP. It is refused if it
    /// uses functions, variables or hosts beyond `allowed`: whoever may swap could
    /// else run code here, or send the service's keys away.
    ///
    /// # Errors
    /// As [`Served::of_bundle`], and for a bundle that reaches further.
    pub async fn of_bundle_within(
        address: &str,
        setup: Setup,
        cache: &Path,
        scratch: &Path,
        allowed: &Reach,
    ) -> Result<Self, Error> {
        Self::opened(address, setup, cache, scratch, None, Some(allowed)).await
    }

    /// One part of the trial of a bundle, with the way to the others:
    /// [`Part::Gateway`] is for a [`crate::Service`], any other for
    /// [`Served::reply`].
    ///
    /// # Errors
    /// As [`Served::of_bundle`].
    pub async fn part_of_bundle(
        address: &str,
        setup: Setup,
        cache: &Path,
        scratch: &Path,
        part: Part,
        others: Arc<dyn Elsewhere>,
    ) -> Result<Self, Error> {
        Self::opened(address, setup, cache, scratch, Some((part, others)), None).await
    }

    async fn opened(
        address: &str,
        mut setup: Setup,
        cache: &Path,
        scratch: &Path,
        part: Option<(Part, Arc<dyn Elsewhere>)>,
        allowed: Option<&Reach>,
    ) -> Result<Self, Error> {
        setup.control.forgets_answers = true;
        if let Some(allowed) = allowed.filter(|_| store::is_url(address)) {
            // A bundle that is refused is not fetched.
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
            // Of what was read and is used, because its files may have changed since.
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
                experiment: record.frozen()?.experiment.clone(),
                scores: record.mean_scores(&bundle.manifest.trial),
                reach,
                _keep: Arc::new(session),
                scratch: Some(scratch),
            }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&scratch);
                Err(error)
            }
        }
    }

    /// What a part says to a request of another part. The work ends when the
    /// stream is dropped.
    pub fn reply(&self, request: &[u8]) -> BoxStream<'static, Vec<u8>> {
        self.pipeline.clone().reply(request)
    }

    /// What differs from the run although the answers come from its trial.
    pub fn notes(&self) -> &[String] {
        self.pipeline.notes()
    }

    /// The experiment, as its file: what its answers were measured by.
    pub fn experiment(&self) -> &str {
        &self.experiment
    }

    /// The scores that the run found, by metric.
    pub fn scores(&self) -> &BTreeMap<String, Summary> {
        &self.scores
    }

    /// Whether it writes answers, besides finding passages.
    pub fn answers(&self) -> bool {
        self.pipeline.answers()
    }

    /// Opens what is searched and loads what embeds, so that the first question
    /// need not wait.
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

impl Pipeline for Served {
    fn version(&self) -> &str {
        &self.version
    }

    fn writes_answers(&self) -> bool {
        self.answers()
    }

    fn span(&self) -> tracing::Span {
        crate::trace::pipeline(self)
    }

    async fn ask(&self, asked: &Asked, on_event: impl Fn(AnswerEvent) + Send + Sync) -> Result<(), Error> {
        self.pipeline.ask(&asked.question, &asked.history, asked.at_most, on_event).await
    }

    async fn find(&self, asked: &Asked) -> Result<rag::pipeline::QueryResult, Error> {
        self.pipeline.retrieve(&asked.question, &asked.history, asked.at_most).await
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(scratch) = &self.scratch {
            let _ = std::fs::remove_dir_all(scratch);
        }
    }
}

//! `/admin/…`: what is served is changed without a dropped request. A request
//! that has begun ends with the pipeline with which it began.

use crate::{
    Caller, RequestId, Service,
    error::ApiError,
    lanes::{Candidate, Role},
    request::Body,
    served::Served,
    stream::seconds,
};
use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::{StatusCode, request::Parts},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};
use tracing::Instrument;

/// The longest time to fetch and open a bundle.
const OPENING: Duration = Duration::from_secs(600);

/// What is to be served from now on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Swap {
    /// A bundle: a folder that the service can read, or a URL such as
    /// `s3://bucket/manuals-2`.
    bundle: String,
}

/// What is to be tried beside what is served.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Try {
    /// A bundle, as for a swap; without it, the share of the present candidate
    /// changes.
    #[serde(default)]
    bundle: Option<String>,
    /// The share of the questions, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    share: f64,
    /// Whether its answers go to nobody: it is then asked once more what the
    /// served pipeline has answered. Default false, a canary.
    #[serde(default)]
    shadow: Option<bool>,
}

fn told(served: &Served) -> Value {
    json!({ "name": served.name, "version": served.version, "notes": served.notes() })
}

fn candidate_told(candidate: &Candidate) -> Value {
    let mut told = told(&candidate.lane.served);
    (told["share"], told["shadow"]) = (candidate.share.into(), (candidate.lane.role == Role::Shadow).into());
    told
}

pub(crate) async fn status(State(service): State<Arc<Service>>) -> Result<Json<Value>, ApiError> {
    Ok(Json(whole_status(&service).await?))
}

async fn whole_status(service: &Arc<Service>) -> Result<Value, ApiError> {
    let service = service.clone();
    // Thousands of pairs of scores are compared for it.
    let status = tokio::task::spawn_blocking(move || status_now(&service)).await;
    status.map_err(|error| ApiError::internal(error.to_string()))
}

fn status_now(service: &Service) -> Value {
    let lanes = service.lanes();
    json!({
        "serving": told(&lanes.serving.served), "candidate": lanes.candidate.as_ref().map(candidate_told),
        "fallback": lanes.fallback.as_ref().map(|lane| told(&lane.served)),
        "answers": { "worked_on": service.answering.places.busy(), "waiting": service.answering.places.waiting() },
        "opening": *service.opening.lock().unwrap_or_else(PoisonError::into_inner),
        "breaker_open": lanes.serving.breaker.is_open(),
        "quality": service.sampling.quality.as_ref().map(|quality| quality.told()),
    })
}

/// A bundle that is being opened, or the last one that was.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Opening {
    /// `swap` or `try`.
    action: &'static str,
    bundle: String,
    /// When it began and ended, in seconds since 1970.
    since: u64,
    until: Option<u64>,
    /// `done`, or why it failed; null while it goes on.
    outcome: Option<String>,
}

/// Notes in the service that a bundle is being opened and, when it is dropped,
/// how that ended.
struct OpeningRecord<'a> {
    service: &'a Service,
    /// None until there is a result: a task that is cancelled or panics has none.
    outcome: Option<String>,
}

impl<'a> OpeningRecord<'a> {
    /// Begins an opening.
    ///
    /// # Errors
    /// If another bundle is being opened: each holds an index in memory.
    fn begin(service: &'a Service, action: &'static str, bundle: &str) -> Result<Self, ApiError> {
        let mut opening = service.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = opening.as_ref().filter(|opening| opening.until.is_none()) {
            let reason = format!("{} is being opened; GET /admin/status tells when that is over", other.bundle);
            return Err(ApiError::invalid(reason).with_status(StatusCode::CONFLICT, "already_opening"));
        }
        let bundle = store::without_secrets(bundle);
        *opening = Some(Opening { action, bundle, since: seconds(), until: None, outcome: None });
        Ok(Self { service, outcome: None })
    }
}

impl Drop for OpeningRecord<'_> {
    fn drop(&mut self) {
        let mut opening = self.service.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opening) = opening.as_mut() {
            opening.until = Some(seconds());
            opening.outcome = Some(self.outcome.take().unwrap_or_else(|| "it ended without a result".to_owned()));
        }
    }
}

/// Runs work in a task of its own, so that it is finished and noted even if the
/// client or a proxy no longer waits for the response.
async fn run_to_completion<Work>(work: Work) -> Result<Json<Value>, ApiError>
where
    Work: Future<Output = Result<Json<Value>, ApiError>> + Send + 'static,
{
    match tokio::spawn(work.in_current_span()).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => Err(ApiError::panicked(&*error.into_panic())),
        Err(_) => Err(ApiError::overloaded("the service is ending", Duration::from_secs(5))),
    }
}

/// Opens another bundle and makes it ready.
async fn opened(service: &Service, action: &'static str, bundle: &str) -> Result<Served, ApiError> {
    let mut record = OpeningRecord::begin(service, action, bundle)?;
    let opened = open(service, bundle).await;
    record.outcome = Some(outcome_of(&opened).to_owned());
    opened
}

async fn open(service: &Service, bundle: &str) -> Result<Served, ApiError> {
    let open = service.open.as_ref().ok_or_else(|| ApiError::invalid("this service cannot open other bundles"))?;
    let opening = async {
        let next = open(bundle.to_owned()).await?;
        next.warm().await?;
        Ok::<_, lab::Error>(next)
    };
    let outcome = match tokio::time::timeout(OPENING, opening).await {
        Ok(outcome) => outcome,
        Err(_) => {
            Err(lab::Error::Unusable(format!("{} was not open after {OPENING:?}", store::without_secrets(bundle))))
        }
    };
    outcome.map_err(|error| {
        let reason = format!("{}; what was served before is served still", lab::error_chain(&error));
        let told = match error {
            // The store failed, and not who asked.
            lab::Error::Store(store::Error::Object { .. } | store::Error::Access { .. }) => ApiError::upstream(reason),
            _ => ApiError::invalid(reason),
        };
        told.of_parameter("bundle")
    })
}

/// Notes what an administrator did.
fn note(service: &Service, action: &str, by: &Administrator, detail: Value, outcome: &Result<Json<Value>, ApiError>) {
    service.log.write(&json!({
        "time": seconds(), "action": action, "by": &*by.caller.0, "id": &*by.id.0, "detail": detail,
        "outcome": outcome_of(outcome),
    }));
}

/// Who asks for a change, in which request.
pub(crate) struct Administrator {
    caller: Caller,
    id: RequestId,
}

impl<S: Send + Sync> FromRequestParts<S> for Administrator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let (caller, id) = (parts.extensions.get().cloned(), parts.extensions.get().cloned());
        let found = caller.zip(id).map(|(caller, id)| Self { caller, id });
        found.ok_or_else(|| ApiError::internal("the request was not admitted"))
    }
}

/// A result in words: `done`, or why it failed.
fn outcome_of<T>(result: &Result<T, ApiError>) -> &str {
    result.as_ref().map_or_else(|error| error.message.as_str(), |_| "done")
}

pub(crate) async fn swap(
    State(service): State<Arc<Service>>,
    by: Administrator,
    Body(swap): Body<Swap>,
) -> Result<Json<Value>, ApiError> {
    let work = async move {
        let swapped = async {
            let next = Arc::new(opened(&service, "swap", &swap.bundle).await?);
            let before = service.swap(next.clone());
            Ok(Json(json!({ "serving": told(&next), "before": told(&before) })))
        };
        let outcome = swapped.await;
        note(&service, "swap", &by, json!({ "bundle": store::without_secrets(&swap.bundle) }), &outcome);
        outcome
    };
    run_to_completion(work).await
}

pub(crate) async fn try_candidate(
    State(service): State<Arc<Service>>,
    by: Administrator,
    Body(wanted): Body<Try>,
) -> Result<Json<Value>, ApiError> {
    let work = async move {
        let outcome = tried(&service, &wanted).await;
        let bundle = wanted.bundle.as_deref().map(store::without_secrets);
        let detail = json!({ "bundle": bundle, "share": wanted.share, "shadow": wanted.shadow });
        note(&service, "try", &by, detail, &outcome);
        outcome
    };
    run_to_completion(work).await
}

async fn tried(service: &Arc<Service>, wanted: &Try) -> Result<Json<Value>, ApiError> {
    if !(0.0..=1.0).contains(&wanted.share) {
        return Err(ApiError::invalid("share must be a number from 0 to 1").of_parameter("share"));
    }
    let candidate = match &wanted.bundle {
        Some(bundle) => {
            let served = opened(service, "try", bundle).await?;
            if service.served().answers() && !served.answers() {
                let reason = "this bundle has no generator, and what is served writes answers";
                return Err(ApiError::invalid(reason).of_parameter("bundle"));
            }
            Candidate::new(Arc::new(served), wanted.share, wanted.shadow == Some(true), &service.settings)
        }
        None => {
            let present = service.lanes().candidate.clone();
            let present = present.ok_or_else(|| ApiError::invalid("there is no candidate: name a bundle"))?;
            let was_shadow = present.lane.role == Role::Shadow;
            match wanted.shadow {
                // Another way of trying it is another trial.
                Some(shadow) if shadow != was_shadow => {
                    Candidate::new(present.lane.served.clone(), wanted.share, shadow, &service.settings)
                }
                _ => {
                    service.share_candidate(wanted.share);
                    return Ok(Json(whole_status(service).await?));
                }
            }
        }
    };
    service.try_candidate(Some(candidate));
    Ok(Json(whole_status(service).await?))
}

pub(crate) async fn drop_candidate(
    State(service): State<Arc<Service>>,
    by: Administrator,
) -> Result<Json<Value>, ApiError> {
    let outcome = match service.try_candidate(None) {
        Some(_) => whole_status(&service).await.map(Json),
        None => Err(no_candidate()),
    };
    note(&service, "drop", &by, Value::Null, &outcome);
    outcome
}

pub(crate) async fn promote_candidate(
    State(service): State<Arc<Service>>,
    by: Administrator,
) -> Result<Json<Value>, ApiError> {
    let outcome = match service.try_candidate(None) {
        Some(candidate) => {
            service.swap(candidate.lane.served.clone());
            whole_status(&service).await.map(Json)
        }
        None => Err(no_candidate()),
    };
    note(&service, "promote", &by, Value::Null, &outcome);
    outcome
}

fn no_candidate() -> ApiError {
    ApiError::not_found("no_candidate", "there is no candidate; POST /admin/candidate names one")
}

//! `/admin/…`: changes the pipelines without dropping a request. A request in flight
//! keeps the pipeline that it began with.

use super::request::JsonBody;
use crate::{
    answering::{CandidateLane, LaneRole, ServedPipeline},
    error::ApiError,
    http::{CallerName, RequestId},
    service::HttpService,
    telemetry::unix_seconds,
};
use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::request::Parts,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tracing::Instrument;

/// The longest time to fetch and open a bundle.
const OPENING_TIMEOUT: Duration = Duration::from_secs(600);

/// The bundle to serve from now on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwapRequest {
    /// A bundle: a folder that the service can read, or a URL such as
    /// `s3://bucket/manuals-2`.
    bundle: String,
}

/// The bundle to try next to the served pipeline.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CandidateRequest {
    /// A bundle, as for a swap. Without it, the share of the present candidate changes.
    #[serde(default)]
    bundle: Option<String>,
    /// The share of the questions, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    share: f64,
    /// Whether to ask it as a shadow, whose answers are not sent. Default false, which is
    /// a canary.
    #[serde(default)]
    shadow: Option<bool>,
}

fn describe(served: &ServedPipeline) -> Value {
    json!({ "name": served.name, "version": served.version, "notes": served.notes() })
}

fn describe_candidate(candidate: &CandidateLane) -> Value {
    let mut value = describe(&candidate.lane.served);
    (value["share"], value["shadow"]) = (candidate.share.into(), (candidate.lane.role == LaneRole::Shadow).into());
    value
}

pub(crate) async fn status(State(service): State<Arc<HttpService>>) -> Result<Json<Value>, ApiError> {
    Ok(Json(read_status(&service).await?))
}

async fn read_status(service: &Arc<HttpService>) -> Result<Value, ApiError> {
    let service = service.clone();
    // It may compare thousands of pairs of scores.
    let status = tokio::task::spawn_blocking(move || compute_status(&service)).await;
    status.map_err(|error| ApiError::internal(error.to_string()))
}

fn compute_status(service: &HttpService) -> Value {
    let lanes = service.lanes();
    json!({
        "serving": describe(&lanes.serving.served), "candidate": lanes.candidate.as_ref().map(describe_candidate),
        "fallback": lanes.fallback.as_ref().map(|lane| describe(&lane.served)),
        "answers": { "worked_on": service.dispatcher.admission.busy(), "waiting": service.dispatcher.admission.waiting() },
        "opening": service.opening.last(),
        "breaker_open": lanes.serving.breaker.is_open(),
        "quality": service.sampler.quality.as_ref().map(|quality| quality.summarize()),
    })
}

/// Runs work in a task of its own, so that it is finished and recorded even if the
/// client or a proxy stops waiting for the response.
async fn run_to_completion<Work>(work: Work) -> Result<Json<Value>, ApiError>
where
    Work: Future<Output = Result<Json<Value>, ApiError>> + Send + 'static,
{
    match tokio::spawn(work.in_current_span()).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => Err(ApiError::panicked(&*error.into_panic())),
        Err(_) => Err(ApiError::overloaded("the service is shutting down", Duration::from_secs(5))),
    }
}

/// Opens and warms up a bundle, and records it in the service's status.
async fn open(service: &HttpService, action: &'static str, bundle: &str) -> Result<ServedPipeline, ApiError> {
    let mut guard = service.opening.begin(action, bundle)?;
    let opened = open_within_time(service, bundle).await;
    guard.outcome = Some(outcome_of(&opened).to_owned());
    opened
}

async fn open_within_time(service: &HttpService, bundle: &str) -> Result<ServedPipeline, ApiError> {
    let open =
        service.open_bundle.as_ref().ok_or_else(|| ApiError::invalid("this service cannot open other bundles"))?;
    let opening = async {
        let next = open(bundle.to_owned()).await?;
        next.warm().await?;
        Ok::<_, lab::Error>(next)
    };
    let outcome = match tokio::time::timeout(OPENING_TIMEOUT, opening).await {
        Ok(outcome) => outcome,
        Err(_) => Err(lab::Error::Unusable(format!(
            "{} was not open after {OPENING_TIMEOUT:?}",
            store::without_secrets(bundle)
        ))),
    };
    outcome.map_err(|error| {
        let reason = format!("{}; what was served before is served still", lab::error_chain(&error));
        let refused = match error {
            // The store failed, not the administrator.
            lab::Error::Store(store::Error::Object { .. } | store::Error::Access { .. }) => ApiError::upstream(reason),
            _ => ApiError::invalid(reason),
        };
        refused.with_parameter("bundle")
    })
}

/// Writes an administrator's action to the operator's log.
fn record_action(
    service: &HttpService,
    action: &str,
    by: &Administrator,
    detail: Value,
    outcome: &Result<Json<Value>, ApiError>,
) {
    service.log.write(&json!({
        "time": unix_seconds(), "action": action, "by": &*by.caller.0, "id": &*by.id.0, "detail": detail,
        "outcome": outcome_of(outcome),
    }));
}

/// The key and the request of an administrator.
pub(crate) struct Administrator {
    caller: CallerName,
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

/// The outcome as text: `done`, or why it failed.
fn outcome_of<T>(result: &Result<T, ApiError>) -> &str {
    result.as_ref().map_or_else(|error| error.message.as_str(), |_| "done")
}

pub(crate) async fn swap(
    State(service): State<Arc<HttpService>>,
    by: Administrator,
    JsonBody(swap): JsonBody<SwapRequest>,
) -> Result<Json<Value>, ApiError> {
    let work = async move {
        let swapped = async {
            let next = Arc::new(open(&service, "swap", &swap.bundle).await?);
            let before = service.swap(next.clone());
            Ok(Json(json!({ "serving": describe(&next), "before": describe(&before) })))
        };
        let outcome = swapped.await;
        record_action(&service, "swap", &by, json!({ "bundle": store::without_secrets(&swap.bundle) }), &outcome);
        outcome
    };
    run_to_completion(work).await
}

pub(crate) async fn set_candidate(
    State(service): State<Arc<HttpService>>,
    by: Administrator,
    JsonBody(wanted): JsonBody<CandidateRequest>,
) -> Result<Json<Value>, ApiError> {
    let work = async move {
        let outcome = change_candidate(&service, &wanted).await;
        let bundle = wanted.bundle.as_deref().map(store::without_secrets);
        let detail = json!({ "bundle": bundle, "share": wanted.share, "shadow": wanted.shadow });
        record_action(&service, "try", &by, detail, &outcome);
        outcome
    };
    run_to_completion(work).await
}

async fn change_candidate(service: &Arc<HttpService>, wanted: &CandidateRequest) -> Result<Json<Value>, ApiError> {
    if !(0.0..=1.0).contains(&wanted.share) {
        return Err(ApiError::invalid("share must be a number from 0 to 1").with_parameter("share"));
    }
    let candidate = match &wanted.bundle {
        Some(bundle) => {
            let served = open(service, "try", bundle).await?;
            if service.served().writes_answers() && !served.writes_answers() {
                let reason = "this bundle has no generator, and what is served writes answers";
                return Err(ApiError::invalid(reason).with_parameter("bundle"));
            }
            CandidateLane::new(Arc::new(served), wanted.share, wanted.shadow == Some(true), &service.settings)
        }
        None => {
            let present = service.lanes().candidate.clone();
            let present = present.ok_or_else(|| ApiError::invalid("there is no candidate: name a bundle"))?;
            let was_shadow = present.lane.role == LaneRole::Shadow;
            match wanted.shadow {
                // The comparison starts anew in another role.
                Some(shadow) if shadow != was_shadow => {
                    CandidateLane::new(present.lane.served.clone(), wanted.share, shadow, &service.settings)
                }
                _ => {
                    service.set_candidate_share(wanted.share);
                    return Ok(Json(read_status(service).await?));
                }
            }
        }
    };
    service.set_candidate(Some(candidate));
    Ok(Json(read_status(service).await?))
}

pub(crate) async fn drop_candidate(
    State(service): State<Arc<HttpService>>,
    by: Administrator,
) -> Result<Json<Value>, ApiError> {
    let outcome = match service.set_candidate(None) {
        Some(_) => read_status(&service).await.map(Json),
        None => Err(no_candidate()),
    };
    record_action(&service, "drop", &by, Value::Null, &outcome);
    outcome
}

pub(crate) async fn promote_candidate(
    State(service): State<Arc<HttpService>>,
    by: Administrator,
) -> Result<Json<Value>, ApiError> {
    let outcome = match service.set_candidate(None) {
        Some(candidate) => {
            service.swap(candidate.lane.served.clone());
            read_status(&service).await.map(Json)
        }
        None => Err(no_candidate()),
    };
    record_action(&service, "promote", &by, Value::Null, &outcome);
    outcome
}

fn no_candidate() -> ApiError {
    ApiError::not_found("no_candidate", "there is no candidate; POST /admin/candidate names one")
}

//! `/admin/…`: changes the pipelines without dropping a request. A request in flight
//! keeps the pipeline that it began with.

use super::{rag::SearchedState, request::JsonBody};
use crate::{
    answering::{CandidateLane, LaneRole, ServedPipeline},
    error::ApiError,
    http::{CallerName, RequestId},
    service::{FollowedVersions, HttpService, outcome_of},
    telemetry::unix_seconds,
};
use axum::{Extension, Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tracing::Instrument;

/// The name of an administrator's key, and the id of the request.
type Administrator = (Extension<CallerName>, Extension<RequestId>);

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
    /// Whether to ask it as a shadow, whose answers are not sent, or as a canary. By
    /// default, a new bundle is a canary, and the present candidate keeps its role.
    #[serde(default)]
    shadow: Option<bool>,
}

fn describe(served: &ServedPipeline) -> Value {
    json!({ "name": served.name, "version": served.version, "corpus": SearchedState::of(served), "notes": served.notes() })
}

fn describe_candidate(candidate: &CandidateLane) -> Value {
    let mut value = describe(&candidate.lane.pipeline);
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
        "serving": describe(&lanes.serving.pipeline), "candidate": lanes.candidate.as_ref().map(describe_candidate),
        "fallback": lanes.fallback.as_ref().map(|lane| describe(&lane.pipeline)),
        "answers": { "worked_on": service.dispatcher.admission.busy(), "waiting": service.dispatcher.admission.waiting() },
        "opening": service.opening.last(),
        "follows": service.followed.as_ref().map(FollowedVersions::status),
        "breaker_open": lanes.serving.breaker.is_open(),
        "quality": service.sampler.quality.as_ref().map(|quality| quality.summarize()),
    })
}

/// Runs an administrator's action in a task of its own, and writes it to the operator's
/// log. It is finished even if the client or a proxy stops waiting for the response.
async fn act<Work>(
    service: &Arc<HttpService>,
    action: &'static str,
    (Extension(caller), Extension(id)): Administrator,
    detail: Value,
    work: impl FnOnce(Arc<HttpService>) -> Work,
) -> Result<Json<Value>, ApiError>
where
    Work: Future<Output = Result<Value, ApiError>> + Send + 'static,
{
    let (log, work) = (service.log.clone(), work(service.clone()));
    let recorded = async move {
        let outcome = work.await;
        log.write(&json!({
            "time": unix_seconds(), "action": action, "by": &*caller.0, "id": &*id.0, "detail": detail,
            "outcome": outcome_of(&outcome),
        }));
        outcome.map(Json)
    };
    match tokio::spawn(recorded.in_current_span()).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => Err(ApiError::panicked(&*error.into_panic())),
        Err(_) => Err(ApiError::overloaded("the service is shutting down", Duration::from_secs(5))),
    }
}

pub(crate) async fn swap(
    State(service): State<Arc<HttpService>>,
    by: Administrator,
    JsonBody(swap): JsonBody<SwapRequest>,
) -> Result<Json<Value>, ApiError> {
    let detail = json!({ "bundle": store::without_secrets(&swap.bundle) });
    act(&service, "swap", by, detail, async move |service: Arc<HttpService>| {
        let next = Arc::new(service.open("swap", &swap.bundle).await?);
        let before = service.swap(next.clone());
        Ok(json!({ "serving": describe(&next), "before": describe(&before) }))
    })
    .await
}

pub(crate) async fn set_candidate(
    State(service): State<Arc<HttpService>>,
    by: Administrator,
    JsonBody(wanted): JsonBody<CandidateRequest>,
) -> Result<Json<Value>, ApiError> {
    let bundle = wanted.bundle.as_deref().map(store::without_secrets);
    let detail = json!({ "bundle": bundle, "share": wanted.share, "shadow": wanted.shadow });
    act(&service, "try", by, detail, async move |service| change_candidate(&service, &wanted).await).await
}

async fn change_candidate(service: &Arc<HttpService>, wanted: &CandidateRequest) -> Result<Value, ApiError> {
    if !(0.0..=1.0).contains(&wanted.share) {
        return Err(ApiError::invalid("share must be a number from 0 to 1").with_parameter("share"));
    }
    let candidate = match &wanted.bundle {
        Some(bundle) => {
            let served = service.open("try", bundle).await?;
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
                    CandidateLane::new(present.lane.pipeline.clone(), wanted.share, shadow, &service.settings)
                }
                _ => {
                    service.set_candidate_share(wanted.share);
                    return read_status(service).await;
                }
            }
        }
    };
    service.set_candidate(Some(candidate));
    read_status(service).await
}

pub(crate) async fn drop_candidate(
    State(service): State<Arc<HttpService>>,
    by: Administrator,
) -> Result<Json<Value>, ApiError> {
    act(&service, "drop", by, Value::Null, async move |service: Arc<HttpService>| {
        service.set_candidate(None).ok_or_else(no_candidate)?;
        read_status(&service).await
    })
    .await
}

pub(crate) async fn promote_candidate(
    State(service): State<Arc<HttpService>>,
    by: Administrator,
) -> Result<Json<Value>, ApiError> {
    act(&service, "promote", by, Value::Null, async move |service: Arc<HttpService>| {
        let candidate = service.set_candidate(None).ok_or_else(no_candidate)?;
        service.swap(candidate.lane.pipeline.clone());
        read_status(&service).await
    })
    .await
}

fn no_candidate() -> ApiError {
    ApiError::not_found("no_candidate", "there is no candidate; POST /admin/candidate names one")
}

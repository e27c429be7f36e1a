//! `/admin/…`: what is served is changed without a dropped request. A request
//! that has begun ends with the pipeline with which it began.

use crate::{Caller, Service, error::ApiError, request::Body, served::Served};
use axum::{Extension, Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

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

fn told(served: &Served) -> Value {
    json!({ "name": served.name, "version": served.version, "notes": served.notes() })
}

pub(crate) async fn status(State(service): State<Arc<Service>>) -> Json<Value> {
    Json(json!({
        "serving": told(&service.served()), "fallback": service.fallback.as_deref().map(told),
        "answers": { "worked_on": service.answers.busy(), "waiting": service.answers.waiting() },
        "breaker_open": service.breaker.is_open(),
    }))
}

pub(crate) async fn swap(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Body(swap): Body<Swap>,
) -> Result<Json<Value>, ApiError> {
    let open = service.open.as_ref().ok_or_else(|| ApiError::invalid("this service cannot open other bundles"))?;
    // One at a time: each holds an index in memory.
    let _turn = service.swapping.lock().await;
    let opening = async {
        let next = open(swap.bundle.clone()).await?;
        next.warm().await?;
        Ok::<_, lab::Error>(next)
    };
    let outcome = match tokio::time::timeout(OPENING, opening).await {
        Ok(outcome) => outcome,
        Err(_) => Err(lab::Error::Unusable(format!("{} was not open after {OPENING:?}", swap.bundle))),
    };
    let said = |outcome: &str| {
        (service.audit)(&json!({
            "time": crate::stream::seconds(), "action": "swap", "bundle": swap.bundle, "by": &*caller.0,
            "outcome": outcome,
        }));
    };
    match outcome {
        Ok(next) => {
            let before = service.swap(next);
            said("done");
            Ok(Json(json!({ "serving": told(&service.served()), "before": told(&before) })))
        }
        Err(error) => {
            let reason = lab::error_chain(&error);
            said(&reason);
            Err(ApiError::invalid(format!("{reason}; what was served before is served still")).of_parameter("bundle"))
        }
    }
}

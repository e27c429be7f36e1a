//! The routes of a service. The router and the OpenAPI document are made from one
//! table; tests compare it with docs/http.md and with the responses of the router.

mod admin;
mod chat;
mod conversation;
mod embeddings;
mod health;
mod mcp;
mod models;
mod openapi;
mod operation;
mod page;
mod rag;
mod request;
mod rerank;
mod responses;
mod route;
mod sources;

use crate::{
    access::KeyScope,
    error::ApiError,
    middleware::{admit::admit, admit::allow_origins, record_request},
    service::HttpService,
};
use axum::{
    Json, Router,
    extract::DefaultBodyLimit,
    http::StatusCode,
    middleware::from_fn_with_state,
    response::IntoResponse,
    routing::{delete, get, post},
};
use route::RouteSpec;
use serde_json::{Value, json};
use std::{
    any::Any,
    sync::{Arc, LazyLock},
};
use tower_http::catch_panic::CatchPanicLayer;

const ASK: Option<KeyScope> = Some(KeyScope::Ask);
const ADMIN: Option<KeyScope> = Some(KeyScope::Admin);

/// All routes.
const ROUTES: &[RouteSpec] = &[
    RouteSpec::new("POST", "/v1/chat/completions", ASK, |_| post(chat::post))
        .summary("An answer with sources, whole or streamed")
        .described(|operation| {
            let text = "OpenAI's chat completion, with `citations` and `sources`; with `stream`, its chunks";
            let operation = operation.body::<chat::ChatCompletionRequest>().model_errors().errors(&["404"]);
            operation.json_or_events::<chat::ChatCompletion>(text)
        }),
    RouteSpec::new("POST", "/v1/responses", ASK, |_| post(responses::post))
        .summary("An answer with sources in OpenAI's newer API")
        .described(|operation| {
            let operation = operation.body::<responses::ResponsesRequest>().model_errors().errors(&["404"]);
            operation.json_or_events::<responses::ResponseObject>("OpenAI's response; with `stream`, its events")
        }),
    RouteSpec::new("POST", "/v1/embeddings", ASK, |_| post(embeddings::post))
        .summary(
            "Vectors of the pipeline's embedder. A text that is longer than the embedder reads is refused with 400, if the \
             embedder runs in this process",
        )
        .described(|operation| {
            let operation = operation.body::<embeddings::EmbeddingsRequest>().model_errors().errors(&["404"]);
            operation.json::<embeddings::Embeddings>("OpenAI's list of embeddings")
        }),
    RouteSpec::new("POST", "/v1/rerank", ASK, |_| post(rerank::post))
        .summary("Texts in the order of the pipeline's reranker. Without a reranker, they are ordered by similarity")
        .described(|operation| {
            let operation = operation.body::<rerank::RerankTextsRequest>().model_errors().errors(&["404"]);
            operation.json::<rerank::TextRanking>("`results`: each with `index` and `relevance_score`, best first")
        }),
    RouteSpec::new("GET", "/v1/models", ASK, |_| get(models::list))
        .summary("The names that `model` may have: the experiment's, and the embedder's")
        .described(|operation| operation.errors(&["503"]).json::<models::ModelList>("OpenAI's list of models")),
    RouteSpec::new("GET", "/v1/models/{*id}", ASK, |_| get(models::one))
        .summary("One name that `model` may have")
        .described(|operation| operation.path_id().errors(&["503"]).json::<models::ModelEntry>("OpenAI's model")),
    RouteSpec::new("GET", "/rag/answer", ASK, |_| get(rag::answer))
        .summary("An answer and its sources")
        .described(|operation| {
            operation.query::<rag::AnswerQuery>().model_errors().json::<rag::RagAnswer>("The answer")
        }),
    RouteSpec::new("GET", "/rag/retrieve", ASK, |_| get(rag::retrieve)).summary("The passages alone").described(
        |operation| {
            operation.query::<rag::RetrieveQuery>().model_errors().json::<rag::RagPassages>("The passages, best first")
        },
    ),
    RouteSpec::new("GET", "/rag/sources/{id}", ASK, |_| get(rag::source))
        .summary("A passage with the text around it. Browsers get a page")
        .described(|operation| {
            // The documents may be in a store that does not answer.
            let operation = operation.path_id().errors(&["502", "503", "504"]);
            operation.json::<sources::SourceExcerpt>("The passage; a page, where `Accept` asks for HTML")
        }),
    RouteSpec::new("GET", "/rag/sources/{id}/page", ASK, |_| get(rag::source_page))
        .summary("Where a passage is on a page of its document, if that is a PDF or a picture")
        .described(|operation| {
            let operation = operation.path_id().query::<sources::PageQuery>().errors(&["502", "503", "504"]);
            operation.json::<sources::SourcePage>("The lines of the passage on the page")
        }),
    RouteSpec::new("GET", "/rag/sources/{id}/page.png", ASK, |_| get(rag::source_page_image))
        .summary("The page as a picture in which the passage is marked")
        .described(|operation| {
            let operation = operation.path_id().query::<sources::PageQuery>().errors(&["502", "503", "504"]);
            let content = json!({ "image/png": { "schema": { "type": "string", "format": "binary" } } });
            operation.response("200", json!({ "description": "The picture", "content": content }))
        }),
    RouteSpec::new("POST", "/rag/feedback", ASK, |_| post(rag::feedback))
        .summary("A verdict on an answer, if the service was started with a file for feedback")
        .described(|operation| {
            let operation = operation.body::<rag::Feedback>().errors(&["404", "503"]);
            operation.response("204", json!({ "description": "The verdict was written" }))
        }),
    RouteSpec::new("POST", "/mcp", ASK, mcp::handler)
        .summary("The tools `search` and `fetch` of the Model Context Protocol, over streamable HTTP")
        .described(|operation| {
            let operation = operation.body_schema(mcp::message_schema()).model_errors().errors(&["406"]);
            operation.object("JSON-RPC").response("202", json!({ "description": "The notification was accepted" }))
        }),
    RouteSpec::new("GET", "/health/live", None, |_| get(health::live))
        .summary("Whether the process runs")
        .described(|operation| operation.object("The process runs")),
    RouteSpec::new("GET", "/health/ready", None, |_| get(health::ready))
        .summary("Whether the service takes questions, for balancers")
        .described(|operation| operation.errors(&["503"]).object("The service takes questions")),
    RouteSpec::new("GET", "/metrics", Some(KeyScope::Metrics), |_| get(health::metrics))
        .summary("Metrics in Prometheus' text format or in OpenMetrics, as `Accept` asks")
        .described(|operation| {
            let text = json!({ "schema": { "type": "string" } });
            let content = json!({ "text/plain": text, "application/openmetrics-text": text });
            operation.errors(&["503"]).response("200", json!({ "description": "The metrics", "content": content }))
        }),
    RouteSpec::new("GET", "/admin/status", ADMIN, |_| get(admin::status))
        .summary("The pipelines of the service, its load, and the quality of its answers")
        .described(|operation| operation.errors(&["503"]).object("The status")),
    RouteSpec::new("POST", "/admin/swap", ADMIN, |_| post(admin::swap))
        .summary("Serve another bundle, without dropping a request")
        .described(|operation| {
            operation.body::<admin::SwapRequest>().errors(&["409", "503"]).object("The pipeline that is served now")
        }),
    RouteSpec::new("POST", "/admin/candidate", ADMIN, |_| post(admin::set_candidate))
        .summary("Try another bundle on a share of the questions, or change the share")
        .described(|operation| {
            operation.body::<admin::CandidateRequest>().errors(&["404", "409", "503"]).object("The new status")
        }),
    RouteSpec::new("DELETE", "/admin/candidate", ADMIN, |_| delete(admin::drop_candidate))
        .summary("Stop trying the candidate")
        .described(|operation| operation.errors(&["404", "503"]).object("The new status")),
    RouteSpec::new("POST", "/admin/candidate/promote", ADMIN, |_| post(admin::promote_candidate))
        .summary("Serve the candidate from now on")
        .described(|operation| operation.errors(&["404", "503"]).object("The new status")),
    RouteSpec::new("GET", "/openapi.json", None, |_| get(async || Json(DOCUMENT.clone()))).summary("The OpenAPI document"),
    RouteSpec::new("GET", "/docs", None, |_| get(async || page::file(page::HTML, include_str!("page/docs.html")))).summary("The OpenAPI document as a page"),
    RouteSpec::new("GET", "/", None, |_| get(page::index)).summary("A page to ask questions, with sources that open at the passage"),
    // Files of the pages.
    RouteSpec::new("GET", "/page.js", None, |_| get(async || page::file(page::SCRIPT, include_str!("page/page.js")))),
    RouteSpec::new("GET", "/page.css", None, |_| get(async || page::file(page::STYLE, include_str!("page/page.css")))),
    RouteSpec::new("GET", "/docs.js", None, |_| get(async || page::file(page::SCRIPT, include_str!("page/docs.js")))),
    RouteSpec::new("GET", "/favicon.ico", None, |_| get(async || StatusCode::NO_CONTENT)),
];

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| openapi::document(ROUTES));

/// The router of a service.
pub(crate) fn router(service: &Arc<HttpService>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let handler = (route.handler)(service);
        let handler = match route.scope {
            Some(scope) => handler.layer(from_fn_with_state((service.clone(), scope), admit)),
            None => handler,
        };
        router = router.route(route.path, handler);
    }
    router
        .fallback(async || ApiError::not_found("not_found", "there is no such route; GET /docs lists them"))
        .method_not_allowed_fallback(async || {
            ApiError::invalid("this route does not take this method; GET /docs lists them")
                .with_status(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed")
        })
        .layer(DefaultBodyLimit::max(service.settings.body_bytes))
        .layer(allow_origins(&service.settings.origins))
        .layer(CatchPanicLayer::custom(|panic: Box<dyn Any + Send>| ApiError::panicked(&*panic).into_response()))
        .layer(from_fn_with_state(service.clone(), record_request))
        .with_state(service.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{answering::ServedPipeline, settings::ServiceSettings};
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use std::{collections::BTreeSet, fmt::Write};
    use tower::ServiceExt;

    /// A warm service over a run of BM25 on one document.
    async fn service(folder: &std::path::Path) -> Arc<HttpService> {
        std::fs::write(folder.join("owls.md"), "Owls hunt at night.").unwrap();
        let text = "name = \"owls\"\nstore = \"store\"\n[corpus]\nsource = \"owls.md\"\n[space]\nchunker = [\"sentence\"]\n\
                    retriever = [\"bm25\"]\n";
        let experiment = lab::Experiment::parse(text, folder).unwrap();
        let setup =
            lab::Setup::new(::models::ModelDirectory::new(folder.join("models"), Vec::new()), Arc::new(|_| None));
        let session = Arc::new(lab::Session::open(experiment, setup).unwrap());
        session.run(&session.prepare().await.unwrap()).await.unwrap();
        let record = lab::latest_record(&session).await.unwrap();
        let trial = record.answering(None).unwrap().trial;
        let served = ServedPipeline::open_run(&session, &record, &trial, session.clone()).await.unwrap();
        let settings = ServiceSettings { any_host: true, ..ServiceSettings::default() };
        let service = HttpService::new(served, settings);
        service.is_warm.store(true, std::sync::atomic::Ordering::Relaxed);
        Arc::new(service)
    }

    /// The status of a response to an empty request, and the code of its error.
    async fn ask(router: &Router, method: &str, path: &str) -> (StatusCode, String) {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    #[tokio::test]
    async fn the_router_answers_the_routes_of_the_table_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let router = router(&service(folder.path()).await);
        let listed: BTreeSet<(&str, &str)> = ROUTES.iter().map(|route| (route.method, route.path)).collect();
        assert_eq!(listed.len(), ROUTES.len(), "a route is listed twice");
        for route in ROUTES {
            let path = route.path.replace("{*id}", "a").replace("{id}", "a");
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
                let (status, code) = ask(&router, method, &path).await;
                let is_known = code != "method_not_allowed" && code != "not_found";
                // The protocol's library refuses the other methods of `/mcp`.
                let is_listed = listed.contains(&(method, route.path)) || route.path == "/mcp";
                assert_eq!(is_known, is_listed, "{method} {path}: {status} {code}");
            }
        }
        for path in ["/v1", "/admin", "/rag", "/page", "/v1/completions", "/v1/models/"] {
            assert_eq!(ask(&router, "GET", path).await.1, "not_found", "{path}");
        }
    }

    #[test]
    fn open_api_describes_the_routes_of_the_table_and_no_others() {
        let described = DOCUMENT["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
            methods.as_object().unwrap().iter().map(move |(method, operation)| {
                (method.to_uppercase(), path.clone(), operation["summary"].as_str().unwrap_or_default().to_owned())
            })
        });
        let listed = ROUTES.iter().filter(|route| route.describe.is_some()).map(|route| {
            let summary = route.summary.split(". ").next().unwrap_or_default();
            (route.method.to_owned(), route.open_api_path(), summary.to_owned())
        });
        assert_eq!(described.collect::<BTreeSet<_>>(), listed.collect::<BTreeSet<_>>());
    }

    #[test]
    fn the_documentation_has_the_table_of_routes() {
        let mut table = "| route | scope | |\n|---|---|---|\n".to_owned();
        for route in ROUTES.iter().filter(|route| !route.summary.is_empty()) {
            let scope = route.scope.map(|scope| json!(scope));
            let scope = scope.as_ref().and_then(Value::as_str).map(|scope| format!("`{scope}`")).unwrap_or_default();
            let path = route.open_api_path();
            writeln!(table, "| `{} {path}` | {scope} | {} |", route.method, route.summary).unwrap();
        }
        let page = include_str!("../../../../docs/http.md");
        assert!(page.contains(&table), "docs/http.md needs this table:\n{table}");
    }
}

//! `GET /openapi.json`: the description of the service (OpenAPI 3.1), made from
//! the types that requests are read into, so that it cannot say anything else.

use crate::{admin, chat, embeddings, error, rag_routes, rerank, responses, sources};
use axum::Json;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// What is wrong with a request in each case, and with which status.
const ERRORS: [(&str, &str); 12] = [
    ("400", "The request cannot be answered as it is"),
    ("401", "No API key, or one that is not known"),
    ("403", "The key does not allow this"),
    ("404", "There is no such thing"),
    ("406", "Only of `/mcp`: the client does not accept what may come"),
    ("408", "The request did not come in time"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
    ("429", "The key has used up its requests, or the budget is spent"),
    ("502", "The chat model failed"),
    ("503", "The service is full, not ready yet, or ending; `Retry-After` says when to come again"),
    ("504", "The answer was not done in time"),
];

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

pub(crate) async fn get() -> Json<Value> {
    Json(DOCUMENT.clone())
}

struct Paths {
    schemas: SchemaGenerator,
    paths: Map<String, Value>,
}

impl Paths {
    fn errors(&mut self) -> Map<String, Value> {
        let schema = self.schemas.subschema_for::<error::ErrorBody>().to_value();
        let error = |(status, text): &(&str, &str)| {
            (
                (*status).to_owned(),
                json!({ "description": text, "content": { "application/json": { "schema": schema } } }),
            )
        };
        ERRORS.iter().map(error).collect()
    }

    fn add(&mut self, method: &str, path: &str, summary: &str, mut route: Value, answers: Value) {
        let mut responses = self.errors();
        if let Value::Object(answers) = answers {
            responses.extend(answers);
        }
        route["summary"] = summary.into();
        route["operationId"] = format!("{method}{}", path.replace(['/', '{', '}', '.'], "_")).into();
        route["responses"] = Value::Object(responses);
        let methods = self.paths.entry(path).or_insert_with(|| json!({}));
        methods[method] = route;
    }

    fn json<T: JsonSchema>(&mut self, text: &str) -> Value {
        let schema = self.schemas.subschema_for::<T>().to_value();
        json!({ "200": { "description": text, "content": { "application/json": { "schema": schema } } } })
    }

    fn object(text: &str) -> Value {
        json!({ "200": { "description": text, "content": { "application/json": { "schema": { "type": "object" } } } } })
    }

    fn or_stream(text: &str) -> Value {
        let event = json!({ "type": "object", "required": ["data"], "properties": {
            "event": { "type": "string" }, "data": { "type": "string", "description": "JSON, or `[DONE]`" },
        }});
        json!({ "200": { "description": text, "content": {
            "application/json": { "schema": { "type": "object" } },
            "text/event-stream": { "schema": event },
        }}})
    }

    fn body<T: JsonSchema>(&mut self) -> Value {
        let schema = self.schemas.subschema_for::<T>().to_value();
        json!({ "requestBody": { "required": true, "content": { "application/json": { "schema": schema } } } })
    }

    /// The fields of a type as parameters of the URL.
    fn query<T: JsonSchema>(&mut self) -> Value {
        let schema = self.schemas.root_schema_for::<T>().to_value();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let parameter = |(name, of): (&String, &Value)| {
            let mut of = of.clone();
            // A URL has no way to say null; a field that is not wanted is left out.
            if let Some(kinds) = of["type"].as_array() {
                of["type"] = kinds.iter().find(|kind| *kind != "null").cloned().unwrap_or_default();
            }
            if let Value::Object(of) = &mut of {
                of.remove("default");
            }
            json!({ "name": name, "in": "query", "required": required.contains(&name.as_str()), "schema": of,
                    "description": of["description"] })
        };
        let fields = schema["properties"].as_object().into_iter().flatten();
        json!({ "parameters": fields.map(parameter).collect::<Vec<_>>() })
    }
}

fn document() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut paths = Paths { schemas: settings.into_generator(), paths: Map::new() };
    let of_path =
        || json!({ "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }] });

    let body = paths.body::<chat::ChatRequest>();
    let answer =
        Paths::or_stream("OpenAI's chat completion, with `citations` and `sources`; with `stream`, its chunks");
    paths.add("post", "/v1/chat/completions", "An answer with sources, whole or streamed", body, answer);
    let body = paths.body::<responses::ResponsesRequest>();
    let answer = Paths::or_stream("OpenAI's response; with `stream`, its events");
    paths.add("post", "/v1/responses", "The same in OpenAI's newer API", body, answer);
    let body = paths.body::<embeddings::EmbeddingsRequest>();
    let answer = Paths::object("OpenAI's list of embeddings");
    paths.add("post", "/v1/embeddings", "Vectors of the pipeline's embedder", body, answer);
    let body = paths.body::<rerank::RerankRequest>();
    let answer = Paths::object("`results`: each with `index` and `relevance_score`, best first");
    paths.add("post", "/v1/rerank", "Texts in the order of the pipeline's reranker", body, answer);
    paths.add("get", "/v1/models", "What `model` may be", json!({}), Paths::object("OpenAI's list of models"));
    paths.add("get", "/v1/models/{id}", "One of these", of_path(), Paths::object("OpenAI's model"));
    let query = paths.query::<rag_routes::AnswerQuery>();
    let answer = paths.json::<rag_routes::Answered>("The answer");
    paths.add("get", "/rag/answer", "An answer and its sources", query, answer);
    let query = paths.query::<rag_routes::RetrieveQuery>();
    let answer = paths.json::<rag_routes::Retrieved>("The passages, best first");
    paths.add("get", "/rag/retrieve", "The passages alone", query, answer);
    let answer = paths.json::<sources::Opened>("The passage; a page, where `Accept` asks for HTML");
    paths.add("get", "/rag/sources/{id}", "A passage with the text around it", of_path(), answer);
    let body = paths.body::<rag_routes::Feedback>();
    paths.add(
        "post",
        "/rag/feedback",
        "A verdict on an answer",
        body,
        json!({ "204": { "description": "It was noted" } }),
    );
    let rpc = json!({ "requestBody": { "required": true, "content": { "application/json": { "schema": { "type": "object" } } } } });
    paths.add(
        "post",
        "/mcp",
        "The tools `search` and `fetch` of the Model Context Protocol",
        rpc,
        Paths::object("JSON-RPC"),
    );
    for (path, summary) in
        [("/health/live", "Whether the process runs"), ("/health/ready", "Whether questions are taken")]
    {
        paths.add("get", path, summary, json!({}), Paths::object("It does"));
    }
    let text = json!({ "200": { "description": "OpenMetrics", "content": { "application/openmetrics-text": { "schema": { "type": "string" } } } } });
    paths.add("get", "/metrics", "Numbers for Prometheus", json!({}), text);
    paths.add("get", "/admin/status", "What is served, and how busy it is", json!({}), Paths::object("That"));
    let body = paths.body::<admin::Swap>();
    paths.add(
        "post",
        "/admin/swap",
        "Serve another bundle, without a dropped request",
        body,
        Paths::object("What is served now"),
    );
    let body = paths.body::<admin::Try>();
    let (path, answer) = ("/admin/candidate", || Paths::object("What is served and tried now"));
    paths.add("post", path, "Try another bundle on a share of the questions, or change the share", body, answer());
    paths.add("delete", path, "Try it no longer", json!({}), answer());
    paths.add("post", "/admin/candidate/promote", "Serve the candidate from now on", json!({}), answer());

    let Paths { mut schemas, paths } = paths;
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Reverie", "version": env!("CARGO_PKG_VERSION"),
            "description": "Answers questions from documents, with sources.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "key": [] }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_route_has_its_errors() {
        let document = document();
        let mut open = vec![&document];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(fields) => {
                    if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                        let found = document.pointer(reference.trim_start_matches('#'));
                        assert!(found.is_some(), "{reference}");
                    }
                    open.extend(fields.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
        for (path, methods) in document["paths"].as_object().unwrap() {
            for route in methods.as_object().unwrap().values() {
                assert!(route["responses"]["400"].is_object(), "{path}");
            }
        }
    }
}

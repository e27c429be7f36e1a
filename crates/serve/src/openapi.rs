//! `GET /openapi.json`: the description of the service (OpenAPI 3.1), made from
//! the types that requests are read into, so that it cannot say anything else.

use crate::{admin, chat, embeddings, error, models_routes, rag_routes, rerank, responses, sources};
use axum::Json;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// What is wrong with a request in each case, and with which status.
const ERRORS: [(&str, &str); 15] = [
    ("400", "The request cannot be answered as it is"),
    ("401", "No API key, or one that is not known"),
    ("403", "The key does not allow this"),
    ("404", "There is no such thing"),
    ("405", "The route does not take this method"),
    ("406", "The client does not accept what may come"),
    ("408", "The request did not come in time"),
    ("409", "Another bundle is being opened"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
    ("429", "The key has used up its requests, or the budget is spent"),
    ("431", "The headers are too large"),
    ("502", "A model failed"),
    ("503", "The service or a model takes no more requests now; `Retry-After` says when to come again"),
    ("504", "The answer was not done in time"),
];

/// What a route needs to answer, which decides how it can fail.
#[derive(Clone, Copy)]
enum RouteKind {
    /// Nothing, not even a key.
    Status,
    /// A key.
    Keyed,
    /// A key, and models.
    Model,
}

impl RouteKind {
    /// The statuses of errors of such a route.
    fn errors(self, method: &str, path: &str) -> Vec<&'static str> {
        // Of every route: the address of another host, another method, headers.
        let mut statuses = vec!["400", "403", "405", "408", "431"];
        if !matches!(self, Self::Status) {
            statuses.extend(["401", "429"]);
        }
        if matches!(path, "/admin/swap" | "/admin/candidate") && method == "post" {
            statuses.push("409");
        }
        if matches!(self, Self::Model) {
            statuses.extend(["429", "502", "503", "504"]);
        } else if path != "/health/live" {
            statuses.push("503");
        }
        if method == "post" && !path.ends_with("/promote") {
            statuses.extend(["413", "415"]);
        }
        if path.starts_with("/v1/") && method == "post" || path.contains('{') || path.starts_with("/admin/candidate") {
            statuses.push("404");
        }
        match path {
            "/mcp" => statuses.push("406"),
            "/rag/feedback" => statuses.push("404"),
            // What is searched may be in a store that is away.
            "/rag/sources/{id}" => statuses.extend(["502", "504"]),
            _ => {}
        }
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }
}

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

pub(crate) async fn get() -> Json<Value> {
    Json(DOCUMENT.clone())
}

struct Paths {
    schemas: SchemaGenerator,
    paths: Map<String, Value>,
}

impl Paths {
    fn errors(&mut self, statuses: &[&str]) -> Map<String, Value> {
        let schema = self.schemas.subschema_for::<error::ErrorBody>().to_value();
        let error = |(status, text): &(&str, &str)| {
            (
                (*status).to_owned(),
                json!({ "description": text, "content": { "application/json": { "schema": schema } } }),
            )
        };
        ERRORS.iter().filter(|(status, _)| statuses.contains(status)).map(error).collect()
    }

    fn add(&mut self, method: &str, path: &str, kind: RouteKind, summary: &str, mut route: Value, answers: Value) {
        let mut responses = self.errors(&kind.errors(method, path));
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

    fn or_stream<T: JsonSchema>(&mut self, text: &str) -> Value {
        let schema = self.schemas.subschema_for::<T>().to_value();
        let event = json!({ "type": "object", "required": ["data"], "properties": {
            "event": { "type": "string" }, "data": { "type": "string", "description": "JSON, or `[DONE]`" },
        }});
        json!({ "200": { "description": text, "content": {
            "application/json": { "schema": schema },
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
    let answer = paths.or_stream::<chat::ChatCompletion>(
        "OpenAI's chat completion, with `citations` and `sources`; with `stream`, its chunks",
    );
    let summary = "An answer with sources, whole or streamed";
    paths.add("post", "/v1/chat/completions", RouteKind::Model, summary, body, answer);
    let body = paths.body::<responses::ResponsesRequest>();
    let answer = paths.or_stream::<responses::ResponseObject>("OpenAI's response; with `stream`, its events");
    paths.add("post", "/v1/responses", RouteKind::Model, "The same in OpenAI's newer API", body, answer);
    let body = paths.body::<embeddings::EmbeddingsRequest>();
    let answer = paths.json::<embeddings::Embeddings>("OpenAI's list of embeddings");
    paths.add("post", "/v1/embeddings", RouteKind::Model, "Vectors of the pipeline's embedder", body, answer);
    let body = paths.body::<rerank::RerankRequest>();
    let answer = paths.json::<rerank::Ranking>("`results`: each with `index` and `relevance_score`, best first");
    paths.add("post", "/v1/rerank", RouteKind::Model, "Texts in the order of the pipeline's reranker", body, answer);
    let answer = paths.json::<models_routes::Models>("OpenAI's list of models");
    paths.add("get", "/v1/models", RouteKind::Keyed, "What `model` may be", json!({}), answer);
    let answer = paths.json::<models_routes::ModelEntry>("OpenAI's model");
    paths.add("get", "/v1/models/{id}", RouteKind::Keyed, "One of these", of_path(), answer);
    let query = paths.query::<rag_routes::AnswerQuery>();
    let answer = paths.json::<rag_routes::Answered>("The answer");
    paths.add("get", "/rag/answer", RouteKind::Model, "An answer and its sources", query, answer);
    let query = paths.query::<rag_routes::RetrieveQuery>();
    let answer = paths.json::<rag_routes::Retrieved>("The passages, best first");
    paths.add("get", "/rag/retrieve", RouteKind::Model, "The passages alone", query, answer);
    let answer = paths.json::<sources::Opened>("The passage; a page, where `Accept` asks for HTML");
    paths.add("get", "/rag/sources/{id}", RouteKind::Keyed, "A passage with the text around it", of_path(), answer);
    let body = paths.body::<rag_routes::Feedback>();
    let answer = json!({ "204": { "description": "It was noted" } });
    paths.add("post", "/rag/feedback", RouteKind::Keyed, "A verdict on an answer", body, answer);
    let rpc = json!({ "requestBody": { "required": true, "content": { "application/json": { "schema": {
        "type": "object", "required": ["jsonrpc"],
        "properties": {
            "jsonrpc": { "const": "2.0" }, "id": { "type": ["string", "integer"] }, "method": { "type": "string" },
            "params": { "type": ["object", "null"] },
        },
    }}}}});
    let summary = "The tools `search` and `fetch` of the Model Context Protocol";
    let mut answer = Paths::object("JSON-RPC");
    answer["202"] = json!({ "description": "A notification was taken" });
    paths.add("post", "/mcp", RouteKind::Model, summary, rpc, answer);
    for (path, summary) in
        [("/health/live", "Whether the process runs"), ("/health/ready", "Whether questions are taken")]
    {
        paths.add("get", path, RouteKind::Status, summary, json!({}), Paths::object("It does"));
    }
    let text = json!({ "200": { "description": "In the text format of Prometheus, or in OpenMetrics", "content": {
        "text/plain": { "schema": { "type": "string" } },
        "application/openmetrics-text": { "schema": { "type": "string" } },
    }}});
    paths.add("get", "/metrics", RouteKind::Keyed, "Numbers for Prometheus", json!({}), text);
    let summary = "What is served, and how busy it is";
    paths.add("get", "/admin/status", RouteKind::Keyed, summary, json!({}), Paths::object("That"));
    let body = paths.body::<admin::Swap>();
    let (summary, answer) = ("Serve another bundle, without a dropped request", Paths::object("What is served now"));
    paths.add("post", "/admin/swap", RouteKind::Keyed, summary, body, answer);
    let body = paths.body::<admin::Try>();
    let (path, answer) = ("/admin/candidate", || Paths::object("What is served and tried now"));
    let summary = "Try another bundle on a share of the questions, or change the share";
    paths.add("post", path, RouteKind::Keyed, summary, body, answer());
    paths.add("delete", path, RouteKind::Keyed, "Try it no longer", json!({}), answer());
    let (path, summary) = ("/admin/candidate/promote", "Serve the candidate from now on");
    paths.add("post", path, RouteKind::Keyed, summary, json!({}), answer());

    let Paths { mut schemas, paths } = paths;
    let mut definitions = Value::Object(schemas.take_definitions(true));
    as_generators_read_it(&mut definitions);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Reverie", "version": env!("CARGO_PKG_VERSION"),
            "description": "Answers questions from documents, with sources.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "key": [] }],
    })
}

/// Takes out `default: null`, since generators of types take a field with a
/// default for one that is always there, and writes what may hold anything as
/// `{}`, since openapi-python-client knows no `true` in the place of a schema.
fn as_generators_read_it(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("default") == Some(&Value::Null) {
                fields.remove("default");
            }
            let anything = |schema: &mut Value| {
                if *schema == Value::Bool(true) {
                    *schema = json!({});
                }
            };
            fields.get_mut("items").into_iter().for_each(anything);
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                properties.values_mut().for_each(anything);
            }
            fields.values_mut().for_each(as_generators_read_it);
        }
        Value::Array(items) => items.iter_mut().for_each(as_generators_read_it),
        _ => {}
    }
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
                    assert_ne!(fields.get("items"), Some(&Value::Bool(true)), "{fields:?}");
                    let properties = fields.get("properties").and_then(Value::as_object);
                    assert!(!properties.is_some_and(|all| all.values().any(Value::is_boolean)), "{fields:?}");
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
                let has = |status: &str| route["responses"][status].is_object();
                assert!(has("400") && has("405") && has("431"), "{path}");
                assert_eq!(has("406"), path == "/mcp", "{path}");
            }
        }
    }

    #[test]
    fn what_need_not_be_sent_has_no_default_and_answers_have_types() {
        let document = document();
        let schema = |name: &str| &document["components"]["schemas"][name];
        assert_eq!(schema("ChatRequest")["required"], json!(["model", "messages"]));
        assert!(!document.to_string().contains("\"default\":null"));
        for (path, methods) in document["paths"].as_object().unwrap() {
            let is_typed = path.starts_with("/v1/") || path.starts_with("/rag/");
            for route in methods.as_object().unwrap().values().filter(|_| is_typed && path != "/rag/feedback") {
                let schema = &route["responses"]["200"]["content"]["application/json"]["schema"];
                assert!(schema["$ref"].is_string(), "{path}: {schema}");
            }
        }
        assert!(schema("Choice")["properties"]["finish_reason"].is_object());
    }
}

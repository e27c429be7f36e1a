//! What each provider asks its endpoint, and what models of this process give,
//! is pinned in `pins/`: what changes needs a new `VERSION`. Providers are
//! taken from their registries, so a new one is tried too.
//!
//! Of models in this process only what is the same on every processor is
//! compared: counts of tokens, and numbers that are not near the border of
//! two rounded ones.

use super::*;
use crate::{ChatRequest, Client, CpuBudget, InputKind, Matrix, Message, ModelDirectory, testing::write_tiny_model};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use store::testing::{Pin, check_pins};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

const TEXTS: [&str; 4] = ["how to change engine oil", "bake cake", "change", "unknown words, engine"];

#[track_caller]
fn check(name: &str, pins: &[Pin], skipped: &[String]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("pins").join(name).with_extension("txt");
    let rewrite = std::env::var_os("REVERIE_WRITE_PINS").is_some();
    if let Err(reason) = check_pins(&file, pins, &skipped.iter().map(String::as_str).collect::<Vec<_>>(), rewrite) {
        panic!("{reason}");
    }
}

/// The providers of a registry, as a file names them.
fn names<T: Serialize>(defaults: Vec<T>) -> Vec<String> {
    let name = |config: T| match serde_json::to_value(config).expect("JSON") {
        Value::Object(fields) => fields.keys().next().cloned().expect("a name"),
        other => panic!("{other} names no provider"),
    };
    defaults.into_iter().map(name).collect()
}

fn texts() -> Vec<String> {
    TEXTS.map(str::to_owned).to_vec()
}

/// Every variable is set: keys are only compared by their names.
fn context(folder: &Path) -> ModelContext {
    let libraries = std::env::var_os("REVERIE_TEST_LIBRARIES").map(PathBuf::from);
    let directory = ModelDirectory::new(folder.join("models"), libraries.into_iter().collect());
    ModelContext { directory, cpu: CpuBudget::new(1), environment: Arc::new(|_| Some("key".to_owned())) }
}

/// An endpoint that refuses everything, and what it was asked.
struct Endpoint(MockServer);

impl Endpoint {
    async fn start() -> Self {
        let server = MockServer::start().await;
        let refusal = ResponseTemplate::new(400).set_body_json(json!({ "error": { "message": "no" } }));
        Mock::given(any()).respond_with(refusal).mount(&server).await;
        Self(server)
    }

    /// Settings of a model there.
    fn settings(&self) -> Value {
        json!({ "model": "m", "base_url": format!("{}/v1", self.0.uri()) })
    }

    async fn asked(&self) -> Vec<Value> {
        let requests = self.0.received_requests().await.expect("requests are recorded");
        assert!(!requests.is_empty(), "the provider asked nothing");
        let asked = requests.iter().map(|request| {
            let body: Value = serde_json::from_slice(&request.body).expect("a JSON body");
            json!([request.method.as_str(), request.url.path(), request.url.query(), body])
        });
        asked.collect()
    }
}

/// Numbers to one decimal, as other processors give them too: those near the
/// border between two are left out.
fn steady(matrices: &[Matrix]) -> Vec<Vec<f32>> {
    let rounded = |value: &f32| {
        let tenths = value * 10.0;
        let border = (tenths - tenths.floor() - 0.5).abs();
        if border < 0.05 { 99.0 } else { tenths.round() / 10.0 }
    };
    matrices.iter().map(|matrix| matrix.data.iter().map(rounded).collect()).collect()
}

#[tokio::test]
async fn chat_providers_are_pinned() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = ChatRequest {
        stop: vec!["END".to_owned()],
        ..ChatRequest::new(
            vec![
                Message::system("Answer from the context."),
                Message::user("What is <b>rye</b>?"),
                Message::assistant("A grass."),
                Message::user("And wheat? Überall."),
            ],
            64,
        )
    };
    let schema = json!({ "type": "object", "properties": { "answer": { "type": "string" } }, "required": ["answer"],
        "additionalProperties": false });
    let requests = [
        ChatRequest { schema: Some(schema), temperature: 0.5, top_p: 0.9, seed: 7, ..plain.clone() },
        ChatRequest { choices: vec!["Yes".to_owned(), "No".to_owned()], ..plain.clone() },
        plain,
    ];
    let mut pins = Vec::new();
    for name in names(ChatConfig::defaults()) {
        let build = |settings: Value| {
            let config: ChatConfig = serde_json::from_value(json!({ name.as_str(): settings })).expect("settings");
            let model = config.build(&context(folder.path()));
            (config.version(), model.unwrap_or_else(|error| panic!("{name}: {error}")))
        };
        let (version, output) = if name == "local" {
            let file = folder.path().join("tiny.gguf");
            local::testing::write_tiny_chat(&file);
            let (version, model) = build(json!({ "model": file, "threads": 1 }));
            let mut output = Vec::new();
            for request in &requests[1..] {
                let response = model.chat(request).await.expect("an answer");
                output.push(json!([response.usage.prompt_tokens, response.choices.len()]));
            }
            output.push(json!(TEXTS.map(|text| model.count_tokens(text))));
            (version, output)
        } else {
            let endpoint = Endpoint::start().await;
            let (version, model) = build(endpoint.settings());
            for request in &requests {
                assert!(model.chat(request).await.is_err(), "{name}");
                assert!(model.chat_streaming(request, &(Arc::new(|_: &str| {}) as crate::OnPiece)).await.is_err());
            }
            (version, endpoint.asked().await)
        };
        pins.push(Pin::new(&name, version, &(&requests, TEXTS), &output).expect("JSON"));
    }
    check("chat", &pins, &[]);
}

#[tokio::test]
async fn embedding_providers_are_pinned() {
    let (mut pins, mut skipped) = (Vec::new(), Vec::new());
    for name in names(EmbeddingConfig::defaults()) {
        let folder = tempfile::tempdir().expect("a folder");
        let cx = context(folder.path());
        let config = |settings: Value| -> EmbeddingConfig {
            serde_json::from_value(json!({ name.as_str(): settings })).expect("settings")
        };
        let version = config(json!({})).version();
        let model = match name.as_str() {
            "static" => {
                write_tiny_model(folder.path(), &["how", "to", "change", "engine", "oil"]).expect("written");
                Some(config(json!({ "model": folder.path() })))
            }
            "local" => {
                local::testing::write_small_bert(folder.path(), 0);
                let config = config(json!({ "model": folder.path(), "query_prefix": "how ", "quantization": "none" }));
                match config.ready(&cx).await {
                    Ok(()) => Some(config),
                    Err(error) => {
                        println!("skipped: {error}; the pin of `{name}` is not compared");
                        skipped.push(name);
                        continue;
                    }
                }
            }
            _ => None,
        };
        let output = match model {
            Some(config) => {
                let embedder = Client::new(None).embedder(config.build(&cx).expect("a model"));
                let mut output = Vec::new();
                for kind in [InputKind::Query, InputKind::Document] {
                    let whole = embedder.embed(&texts(), kind).await.expect("vectors");
                    let tokens = embedder.embed_tokens(&texts()[1..2], kind).await.expect("vectors");
                    output.push(json!([steady(&[whole]), steady(&tokens)]));
                }
                output
            }
            None => {
                let endpoint = Endpoint::start().await;
                let mut settings = endpoint.settings();
                settings["query_prefix"] = "query: ".into();
                let model = config(settings).build(&cx).unwrap_or_else(|error| panic!("{name}: {error}"));
                for kind in [InputKind::Query, InputKind::Document] {
                    assert!(model.embed(&texts(), kind).await.is_err(), "{name}");
                }
                endpoint.asked().await
            }
        };
        pins.push(Pin::new(&name, version, &TEXTS, &output).expect("JSON"));
    }
    check("embedding", &pins, &skipped);
}

#[tokio::test]
async fn rerank_providers_are_pinned() {
    let (mut pins, mut skipped) = (Vec::new(), Vec::new());
    for name in names(RerankConfig::defaults()) {
        let folder = tempfile::tempdir().expect("a folder");
        let cx = context(folder.path());
        let config = |settings: Value| -> RerankConfig {
            serde_json::from_value(json!({ name.as_str(): settings })).expect("settings")
        };
        let version = config(json!({})).version();
        let output = if name == "local" {
            local::testing::write_small_bert(folder.path(), 1);
            let config = config(json!({ "model": folder.path(), "quantization": "none" }));
            if let Err(error) = config.ready(&cx).await {
                println!("skipped: {error}; the pin of `{name}` is not compared");
                skipped.push(name);
                continue;
            }
            let (scores, usage) =
                config.build(&cx).expect("a model").rerank("change oil", &texts()).await.expect("scores");
            vec![json!([steady(&[Matrix { columns: scores.len(), data: scores }]), usage])]
        } else {
            let endpoint = Endpoint::start().await;
            let model = config(endpoint.settings()).build(&cx).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(model.rerank("change oil", &texts()).await.is_err(), "{name}");
            endpoint.asked().await
        };
        pins.push(Pin::new(&name, version, &TEXTS, &output).expect("JSON"));
    }
    check("rerank", &pins, &skipped);
}

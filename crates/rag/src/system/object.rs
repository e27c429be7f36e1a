//! `object`: a function or an object of the Python program that runs the experiment, called in that program.
//!
//! When to use it: never in a file. `reverie.Experiment(systems={"mine": query_engine})` writes it for everything that
//! cannot run in a process of its own: a query engine of LlamaIndex, a runnable of LangChain, a function that uses
//! variables of the program. `digest` identifies the object. The program calls it while it plans and runs the experiment.
//! Other programs, such as `reverie run` and the workers of a cluster, cannot.
//!
//! It gets the same arguments and may return the same values as a function of `python`.

use super::{
    ServiceReply, System, SystemContext, SystemPrice, SystemQuestion, SystemReply, SystemSettings, VersionSource,
    common::{read_reply, usage_of_reply},
};
use crate::python::{TIMEOUT_SECONDS, check_concurrency, check_timeout};
use async_trait::async_trait;
use models::{
    Error, FunctionError, Identity, JsonEndpoint, JsonEndpointSettings, JsonService, Limits, Model, StatedUsage,
    system_section,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

pub(super) const VERSION: u32 = 1;
/// How a digest begins.
const SCHEME: &str = "function:";
/// The field of the program's reply that holds the reply of the object.
const REPLY: &str = "reply";
/// The arguments that an object may get besides the question and the parameters of the trial.
const ARGUMENTS: [&str; 3] = ["messages", "seed", "id"];

/// Settings of `object`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `function:` and the digest of the object. The Python program writes it.
    pub digest: String,
    /// Its name in messages, such as `RetrieverQueryEngine`.
    pub name: String,
    /// What it gets besides the question and the parameters: `messages`, `seed` and `id`, as far as it takes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// How long one reply may take, in seconds. Default 300; no part of any key.
    pub timeout_seconds: f64,
    /// How many questions it gets at once, 1 to 256. Default 1; no part of any key.
    pub concurrency: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            digest: String::new(),
            name: String::new(),
            arguments: Vec::new(),
            timeout_seconds: TIMEOUT_SECONDS,
            concurrency: 1,
        }
    }
}

impl Config {
    fn takes(&self, argument: &str) -> bool {
        self.arguments.iter().any(|name| name == argument)
    }

    pub(super) fn build(&self, cx: &SystemContext<'_>) -> Result<Arc<dyn System>, Error> {
        let refuse = |reason: String| Error::Config(format!("{} object: {reason}", system_section(cx.name)));
        self.check(&BTreeMap::new()).map_err(refuse)?;
        let settings = JsonEndpointSettings {
            section: system_section(cx.name),
            url: self.digest.clone(),
            address_setting: "digest",
            timeout_seconds: self.timeout_seconds,
            concurrency: Some(self.concurrency),
            // A call that took too long goes on in the program.
            retry_timeouts: false,
            ..JsonEndpointSettings::default()
        };
        let endpoint = JsonEndpoint::new(self.identity(cx)?, settings, cx.models).map_err(|_| {
            refuse(format!(
                "`{}` is an object of a Python program, which is not here, or was changed since: run the experiment \
                 from the program that has the object, on the same machine",
                self.name
            ))
        })?;
        let service = ObjectService { endpoint, price: cx.price };
        Ok(Arc::new(ObjectSystem { section: cx.name.to_owned(), config: self.clone(), service: Arc::new(service) }))
    }
}

impl SystemSettings for Config {
    fn check(&self, parameters: &BTreeMap<String, Vec<Value>>) -> Result<(), String> {
        if !self.digest.starts_with(SCHEME) || self.digest.len() == SCHEME.len() {
            return Err("only a Python program can give an object: `reverie.Experiment(systems={\"mine\": …})`; in a \
                        file, write `python`, `http` or `command`"
                .to_owned());
        }
        if let Some(unknown) = self.arguments.iter().find(|name| !ARGUMENTS.contains(&name.as_str())) {
            return Err(format!("`arguments`: there is no `{unknown}`; there are {}", ARGUMENTS.join(", ")));
        }
        if let Some(known) = parameters.keys().find(|name| *name == "question" || ARGUMENTS.contains(&name.as_str())) {
            return Err(format!("`parameters.{known}`: every object may have that argument; take another name"));
        }
        check_timeout(self.timeout_seconds).map_err(|mistake| mistake.to_string())?;
        check_concurrency(Some(self.concurrency)).map_err(|mistake| mistake.to_string())?;
        Ok(())
    }

    fn identity(&self, cx: &SystemContext<'_>) -> Result<Identity, Error> {
        Ok(Identity {
            provider: "object".to_owned(),
            model: self.name.clone(),
            revision: self.digest.clone(),
            parameters: json!({ "version": cx.version }),
        })
    }

    fn key_settings(&self) -> Value {
        json!({ "name": self.name, "arguments": self.arguments })
    }

    fn sends_history(&self) -> bool {
        self.takes("messages")
    }

    fn runs_code(&self) -> bool {
        true
    }

    fn concurrency(&self) -> Option<usize> {
        Some(self.concurrency)
    }
}

/// An object that is asked.
struct ObjectSystem {
    section: String,
    config: Config,
    service: Arc<ObjectService>,
}

struct ObjectService {
    endpoint: JsonEndpoint,
    price: Option<SystemPrice>,
}

impl Model for ObjectService {
    fn identity(&self) -> &Identity {
        self.endpoint.identity()
    }

    fn concurrency(&self) -> usize {
        self.endpoint.concurrency()
    }

    fn account(&self) -> &str {
        self.endpoint.account()
    }

    fn limits(&self) -> Limits {
        self.endpoint.limits()
    }
}

#[async_trait]
impl JsonService for ObjectService {
    async fn call(&self, request: &Value) -> Result<ServiceReply, Error> {
        let mut reply = self.endpoint.call(&BTreeMap::new(), Some(request)).await?;
        // In a field of its own, so that a field `error` of the object's reply is no error of HTTP.
        reply.body = reply.body.get_mut(REPLY).map(Value::take).unwrap_or_default();
        Ok(reply)
    }

    fn stated_usage(&self, reply: &ServiceReply) -> StatedUsage {
        usage_of_reply(&reply.body, self.price.as_ref())
    }

    fn price_of_call(&self) -> Option<f64> {
        self.price?.call
    }
}

#[async_trait]
impl System for ObjectSystem {
    fn service(&self) -> Arc<dyn JsonService> {
        self.service.clone()
    }

    /// Arguments that the object does not take are left out, so that they are no part of the call's key.
    fn request(&self, question: &SystemQuestion<'_>) -> Value {
        let config = &self.config;
        let mut request = Map::new();
        request.insert("question".to_owned(), question.text.into());
        request.insert("parameters".to_owned(), json!(question.parameters));
        if config.takes("messages") {
            request.insert("messages".to_owned(), json!(question.messages()));
        }
        if config.takes("seed") {
            request.insert("seed".to_owned(), question.seed.into());
        }
        if config.takes("id") {
            request.insert("id".to_owned(), question.id.into());
        }
        Value::Object(request)
    }

    fn read(&self, _question: &SystemQuestion<'_>, reply: &ServiceReply) -> Result<SystemReply, Error> {
        read_reply(&reply.body, self.service.price.as_ref()).map_err(|mistake| {
            Error::Function(Box::new(FunctionError {
                function: self.config.name.clone(),
                file: String::new(),
                message: format!("it returned what cannot be used: {mistake}"),
                traceback: None,
                is_transient: false,
                retry_after: None,
            }))
        })
    }

    async fn ask_version(&self, _source: &VersionSource) -> Result<String, Error> {
        Err(Error::Config(format!(
            "{} an object cannot be asked for its version: give a text, `reverie.system(…, version=\"…\")`, and change \
             it with the object",
            system_section(&self.section)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{
        SystemConfig,
        testing::{ask, context, model_context},
    };
    use models::ServedFunction;
    use std::path::Path;
    use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::any};

    fn config(digest: &str, arguments: &[&str]) -> SystemConfig {
        let config = json!({ "object": { "digest": digest, "name": "Engine", "arguments": arguments } });
        serde_json::from_value(config).expect("the settings")
    }

    /// A program that replies with this to every question, under the name `app`.
    async fn program(digest: &str, reply: ResponseTemplate) -> (MockServer, ServedFunction) {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(reply).mount(&server).await;
        let served = ServedFunction::new(digest, &system_section("app"), &format!("{}/a", server.uri()), "rag.py");
        (server, served)
    }

    fn build(config: &SystemConfig) -> Result<Arc<dyn System>, Error> {
        let models = model_context();
        config.build(&context(&models, Path::new(".")))
    }

    #[tokio::test]
    async fn the_program_is_asked_where_it_serves_the_object_and_the_digest_is_its_identity() {
        let reply = json!({ "reply": { "answer": "In 1701.", "passages": ["a mill"], "usage": { "cost_usd": 0.5 } } });
        let (server, _served) = program("function:1a", ResponseTemplate::new(200).set_body_json(reply)).await;
        let config = config("function:1a", &["messages", "seed", "id"]);
        let system = build(&config).expect("it is served");
        assert_eq!(system.service().identity().revision, "function:1a");
        assert!(system.service().identity().is_remote(), "its replies are kept in the journal");
        let parameters = BTreeMap::from([("top_k".to_owned(), json!(3))]);
        let reply = ask(&system, "When?", &parameters).await.expect("a reply");
        assert_eq!(reply.answer.as_deref(), Some("In 1701."));
        assert_eq!(reply.passages.map(|passages| passages.len()), Some(1));
        assert_eq!(reply.usage.cost_usd, Some(0.5));
        let request: &Request = &server.received_requests().await.expect("requests")[0];
        let sent: Value = serde_json::from_slice(&request.body).expect("JSON");
        assert_eq!(request.url.path(), "/a");
        assert_eq!(sent["parameters"], json!({ "top_k": 3 }));
        assert_eq!((&sent["seed"], &sent["id"]), (&json!(5), &json!("q1")));
        assert_eq!(sent["messages"].as_array().map(Vec::len), Some(3), "two before the question");
    }

    #[tokio::test]
    async fn what_the_object_does_not_take_is_not_sent() {
        let reply = json!({ "reply": "In 1701." });
        let (server, _served) = program("function:1b", ResponseTemplate::new(200).set_body_json(reply)).await;
        let system = build(&config("function:1b", &[])).expect("it is served");
        ask(&system, "When?", &BTreeMap::new()).await.expect("a reply");
        let sent: Value = serde_json::from_slice(&server.received_requests().await.expect("requests")[0].body).unwrap();
        assert_eq!(sent, json!({ "question": "When?", "parameters": {} }));
    }

    #[tokio::test]
    async fn an_error_of_the_object_is_the_failure_of_a_function() {
        let failed =
            json!({ "function": "Engine", "file": "rag.py", "message": "KeyError: 'a' (line 3)", "traceback": "…" });
        let body = json!({ "error": { "message": "the function `Engine`: KeyError", "function_failed": failed } });
        let (_server, _served) = program("function:1c", ResponseTemplate::new(400).set_body_json(body)).await;
        let system = build(&config("function:1c", &[])).expect("it is served");
        let error = ask(&system, "When?", &BTreeMap::new()).await.expect_err("it raised");
        let Error::Function(failure) = error else { panic!("{error:?}") };
        assert_eq!((failure.file.as_str(), failure.is_transient), ("rag.py", false));
    }

    #[tokio::test]
    async fn a_field_error_of_a_reply_is_named_as_unusable() {
        let reply = json!({ "reply": { "answer": "a", "error": "none" } });
        let (_server, _served) = program("function:1d", ResponseTemplate::new(200).set_body_json(reply)).await;
        let system = build(&config("function:1d", &[])).expect("it is served");
        let error = ask(&system, "When?", &BTreeMap::new()).await.expect_err("no such field").to_string();
        assert!(error.contains("the function `Engine`") && error.contains("no field `error`"), "{error}");
    }

    #[test]
    fn an_object_that_no_program_serves_is_refused_with_what_to_do() {
        let error = build(&config("function:gone", &[])).err().expect("nobody serves it").to_string();
        assert!(error.contains("[systems.app] object: `Engine` is an object of a Python program"), "{error}");
    }

    #[test]
    fn settings_that_no_program_wrote_are_refused() {
        let check = |config: &SystemConfig, parameters: &[&str]| {
            let parameters = parameters.iter().map(|name| ((*name).to_owned(), vec![json!(1)])).collect();
            config.settings().check(&parameters).err().unwrap_or_default()
        };
        for digest in ["", "function:", "http://h/ask"] {
            assert!(check(&config(digest, &[]), &[]).starts_with("only a Python program"), "{digest}");
        }
        assert!(check(&config("function:1", &["top_k"]), &[]).contains("there is no `top_k`"));
        assert!(check(&config("function:1", &[]), &["seed"]).contains("take another name"));
        assert_eq!(check(&config("function:1", &["id"]), &["top_k"]), "");
    }
}

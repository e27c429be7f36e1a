//! Systems that are called over HTTP, whatever their kind: what is sent, and what is done with the reply.

use super::{
    System, SystemContext, SystemQuestion, SystemReply, VersionSource,
    path::{ReplyPath, kind_of},
    reply::{ReplyReader, UsageReader, name_of},
    template::{JsonTemplate, Placeholder, TextTemplate},
};
use async_trait::async_trait;
use models::{Error, Identity, JsonEndpoint, JsonService, Limits, Model, RateHints, ServiceReply, StatedUsage};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// The longest version, in characters.
const LONGEST_VERSION: usize = 200;
/// Methods whose requests have a body unless the settings say otherwise.
const WITH_BODY: [&str; 3] = ["POST", "PUT", "PATCH"];
/// The parts of a request.
const QUERY: &str = "query";
const BODY: &str = "body";

/// A kind of program that is called over HTTP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpKind {
    /// Its name in identities.
    pub(crate) provider: &'static str,
    /// The section with its settings, by which messages name it.
    pub(crate) section: fn(name: &str) -> String,
    /// The setting that holds the address.
    pub(crate) address_setting: &'static str,
    /// The settings that hold templates, as a sentence names them.
    pub(crate) templates: &'static str,
}

/// The templates of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestTemplates {
    query: BTreeMap<String, TextTemplate>,
    body: Option<JsonTemplate>,
}

impl RequestTemplates {
    /// Reads the templates of the settings. Without a body, a method that has one sends the question.
    ///
    /// # Errors
    /// A sentence that names the place of the mistake.
    pub(super) fn new(query: &BTreeMap<String, String>, body: Option<&Value>, method: &str) -> Result<Self, String> {
        let text = |(name, text): (&String, &String)| {
            let template = TextTemplate::parse(text).map_err(|error| format!("`query.{name}` {error}"))?;
            Ok((name.clone(), template))
        };
        let query = query.iter().map(text).collect::<Result<BTreeMap<_, _>, String>>()?;
        let asks = query.values().flat_map(TextTemplate::placeholders).any(Placeholder::asks);
        let has_body = WITH_BODY.contains(&method.to_uppercase().as_str());
        let body = match body {
            Some(body) => Some(JsonTemplate::parse(body, BODY)?),
            None if has_body && !asks => Some(JsonTemplate::parse(&json!({ "question": "{question}" }), BODY)?),
            None => None,
        };
        Ok(Self { query, body })
    }

    /// All their placeholders.
    pub(super) fn placeholders(&self) -> Vec<&Placeholder> {
        let query = self.query.values().flat_map(TextTemplate::placeholders);
        query.chain(self.body.iter().flat_map(JsonTemplate::placeholders)).collect()
    }

    /// The parts of a request that depend on the question. It decides the key of the call, so a part that is not sent
    /// is left out.
    fn render(&self, question: &SystemQuestion<'_>) -> Value {
        let mut request = Map::new();
        if !self.query.is_empty() {
            let query = self.query.iter().map(|(name, text)| (name.clone(), text.render(question).into()));
            request.insert(QUERY.to_owned(), query.collect::<Map<_, _>>().into());
        }
        if let Some(body) = &self.body {
            request.insert(BODY.to_owned(), body.render(question));
        }
        request.into()
    }
}

/// A system that is called over HTTP.
pub(crate) struct HttpSystem {
    section: String,
    templates: RequestTemplates,
    reader: ReplyReader,
    version_header: Option<String>,
    service: Arc<HttpSystemService>,
}

impl HttpSystem {
    /// A system at an endpoint, with the templates of its requests, and the readers of its replies.
    pub(super) fn new(
        (kind, cx): (HttpKind, &SystemContext<'_>),
        endpoint: JsonEndpoint,
        templates: RequestTemplates,
        (reader, usage): (ReplyReader, UsageReader),
    ) -> Self {
        Self {
            section: (kind.section)(cx.name),
            templates,
            reader,
            version_header: cx.version_header.map(str::to_lowercase),
            service: Arc::new(HttpSystemService { endpoint, usage }),
        }
    }

    fn malformed(&self, reason: String) -> Error {
        Error::Malformed { model: self.section.clone(), reason }
    }
}

#[async_trait]
impl System for HttpSystem {
    fn service(&self) -> Arc<dyn JsonService> {
        self.service.clone()
    }

    fn request(&self, question: &SystemQuestion<'_>) -> Value {
        self.templates.render(question)
    }

    fn read(&self, question: &SystemQuestion<'_>, reply: &ServiceReply) -> Result<SystemReply, Error> {
        let version = self.version_header.as_ref().and_then(|header| reply.headers.get(header));
        let read = self.reader.read(question, &reply.body, &self.section)?;
        Ok(SystemReply { usage: self.service.stated_usage(reply), version: version.cloned(), ..read })
    }

    async fn ask_version(&self, source: &VersionSource) -> Result<String, Error> {
        let text = self.service.endpoint.get_text(&source.url, "version.url").await?;
        let version = read_version(&text, &source.path, &self.section).map_err(|reason| self.malformed(reason))?;
        match version.chars().count() {
            0 => Err(self.malformed(format!("the version at {} is empty", source.url))),
            length if length > LONGEST_VERSION => Err(self.malformed(format!(
                "the version at {} has {length} characters, and may have {LONGEST_VERSION}: name its place in the reply \
                 with `version.path`",
                source.url
            ))),
            _ => Ok(version),
        }
    }
}

/// The version in the reply of a server.
fn read_version(text: &str, path: &str, section: &str) -> Result<String, String> {
    let json = serde_json::from_str::<Value>(text);
    if path.is_empty() {
        return match json {
            Ok(Value::String(version)) => Ok(version.trim().to_owned()),
            Ok(value @ (Value::Object(_) | Value::Array(_))) => {
                let kind = kind_of(&value);
                Err(format!("the version is {kind}: name the place of the version in it with `version.path`"))
            }
            // A number such as `1.10` is kept as it is written.
            _ => Ok(text.trim().to_owned()),
        };
    }
    let reply = json.map_err(|error| format!("the version is not JSON, so `version.path` finds nothing: {error}"))?;
    let path = ReplyPath::parse(path).map_err(|error| format!("`version.path`: {error}"))?;
    let version = path.find(&reply).and_then(name_of);
    let mismatch = || path.describe_mismatch(&reply, ("version.path", section), "a text", Value::is_string);
    version.map(|version| version.trim().to_owned()).ok_or_else(mismatch)
}

/// What is called: the endpoint, with requests in the form of [`RequestTemplates::render`].
struct HttpSystemService {
    endpoint: JsonEndpoint,
    usage: UsageReader,
}

impl Model for HttpSystemService {
    fn identity(&self) -> &Identity {
        self.endpoint.identity()
    }

    fn concurrency(&self) -> usize {
        self.endpoint.concurrency()
    }

    fn rate_hints(&self) -> Option<RateHints> {
        self.endpoint.rate_hints()
    }

    fn account(&self) -> &str {
        self.endpoint.account()
    }

    fn limits(&self) -> Limits {
        self.endpoint.limits()
    }
}

#[async_trait]
impl JsonService for HttpSystemService {
    async fn call(&self, request: &Value) -> Result<ServiceReply, Error> {
        let text = |(name, value): (&String, &Value)| (name.clone(), value.as_str().unwrap_or_default().to_owned());
        let query = request.get(QUERY).and_then(Value::as_object);
        let query = query.map(|query| query.iter().map(text).collect()).unwrap_or_default();
        self.endpoint.call(&query, request.get(BODY)).await
    }

    fn stated_usage(&self, reply: &ServiceReply) -> StatedUsage {
        self.usage.read(&reply.body)
    }

    fn price_of_call(&self) -> Option<f64> {
        self.usage.price_of_call()
    }
}

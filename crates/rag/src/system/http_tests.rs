//! Systems on a simulated server: what is sent, what comes back, and what is kept.

use super::*;
use crate::system::{SystemConfig, SystemQuestion, SystemReply, VersionSource};
use models::{Budget, Caps, Client, CpuBudget, Message, ModelDirectory, RetryPolicy, provider::ModelContext};
use std::{path::PathBuf, time::Duration};
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::any};

/// A server, and what a system that asks it is built with.
pub(in crate::system) struct Stage {
    server: MockServer,
    models: ModelContext,
}

impl Stage {
    pub(in crate::system) async fn new() -> Self {
        let environment = |name: &str| (name == "TOKEN").then(|| "secret-token".to_owned());
        let models = ModelContext {
            directory: ModelDirectory::new(PathBuf::from("/nonexistent"), Vec::new()),
            cpu: CpuBudget::new(1),
            environment: Arc::new(environment),
        };
        Self { server: MockServer::start().await, models }
    }

    pub(in crate::system) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.server.uri())
    }

    pub(in crate::system) fn context(&self) -> SystemContext<'_> {
        SystemContext {
            name: "app",
            models: &self.models,
            version: "",
            version_header: None,
            price: None,
            base: std::path::Path::new("."),
        }
    }

    pub(in crate::system) async fn respond(&self, response: ResponseTemplate) {
        Mock::given(any()).respond_with(response).mount(&self.server).await;
    }

    pub(in crate::system) async fn reply(&self, body: Value) {
        self.respond(ResponseTemplate::new(200).set_body_json(body)).await;
    }

    async fn requests(&self) -> Vec<Request> {
        self.server.received_requests().await.expect("requests are recorded")
    }

    pub(in crate::system) async fn last_path(&self) -> String {
        self.requests().await.last().expect("a request").url.path().to_owned()
    }

    pub(in crate::system) async fn last_body(&self) -> Value {
        serde_json::from_slice(&self.requests().await.last().expect("a request").body).expect("a JSON body")
    }
}

fn config(stage: &Stage) -> Config {
    Config { url: stage.address("/ask"), ..Config::default() }
}

fn question<'a>(text: &'a str, parameters: &'a BTreeMap<String, Value>) -> SystemQuestion<'a> {
    SystemQuestion { id: "q1", text, history: &[], seed: 0, parameters }
}

/// Asks "Who?" through a client.
async fn ask(client: &Client, system: &dyn System) -> Result<SystemReply, Error> {
    let parameters = BTreeMap::from([("top_k".to_owned(), json!(5))]);
    let question = question("Who?", &parameters);
    let reply = client.service(system.service()).ask(&system.request(&question)).await?;
    system.read(&question, &reply)
}

fn client() -> Client {
    Client::new(None).with_retry(RetryPolicy { base_delay: Duration::from_millis(1), ..RetryPolicy::default() })
}

#[tokio::test]
async fn the_default_sends_the_question_and_reads_the_answer() {
    let stage = Stage::new().await;
    stage.reply(json!({ "answer": "Ada." })).await;
    let system = config(&stage).build(&stage.context()).expect("a system");
    let reply = ask(&client(), system.as_ref()).await.expect("a reply");
    assert_eq!(stage.last_body().await, json!({ "question": "Who?" }));
    assert_eq!(reply, SystemReply { answer: Some("Ada.".to_owned()), ..SystemReply::default() });
}

#[tokio::test]
async fn parameters_and_secrets_are_sent_by_get_without_a_body() {
    let stage = Stage::new().await;
    stage.reply(json!({ "docs": ["a", "b"], "token": "secret-token" })).await;
    let config = Config {
        method: "get".to_owned(),
        headers: [("authorization".to_owned(), "env:TOKEN".to_owned())].into(),
        query: [("q", "{question}"), ("k", "{top_k}")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        answer: String::new(),
        passages: "docs".to_owned(),
        trace: Some("token".to_owned()),
        ..config(&stage)
    };
    let system = config.build(&stage.context()).expect("a system");
    let reply = ask(&client(), system.as_ref()).await.expect("a reply");
    let request = stage.requests().await.pop().expect("a request");
    assert_eq!((request.method.as_str(), request.url.query()), ("GET", Some("k=5&q=Who%3F")));
    assert_eq!((request.headers["authorization"].to_str().ok(), request.body.len()), (Some("secret-token"), 0));
    assert_eq!((reply.answer, reply.passages.map(|passages| passages.len())), (None, Some(2)));
    assert_eq!(reply.trace.as_deref(), Some("[redacted]"));
    assert!(!config.writes_answers() && config.returns_passages() && !config.sends_history());
}

#[tokio::test]
async fn the_version_comes_from_a_header_of_the_reply() {
    let stage = Stage::new().await;
    let response = ResponseTemplate::new(200).set_body_json(json!({ "answer": "a" }));
    stage.respond(response.insert_header("X-Version", "7.1")).await;
    let cx = SystemContext { version_header: Some("X-Version"), ..stage.context() };
    let system = config(&stage).build(&cx).expect("a system");
    assert_eq!(ask(&client(), system.as_ref()).await.expect("a reply").version.as_deref(), Some("7.1"));
}

#[tokio::test]
async fn a_stated_cost_is_charged_to_the_budget_and_a_price_is_reserved() {
    let stage = Stage::new().await;
    stage.reply(json!({ "answer": "a", "cost": 0.5 })).await;
    let usage = UsagePaths { cost_usd: Some("cost".to_owned()), ..UsagePaths::default() };
    let price = SystemPrice { call: Some(0.75), ..SystemPrice::default() };
    let cx = SystemContext { price: Some(price), ..stage.context() };
    let system = Config { usage, ..config(&stage) }.build(&cx).expect("a system");
    let budget = Budget::new(Caps { usd: Some(1.0), ..Caps::default() });
    let client = client().with_budget(budget.clone());
    let reply = ask(&client, system.as_ref()).await.expect("a reply");
    assert_eq!((reply.usage.cost_usd, budget.spent().usd), (Some(0.5), 0.5));
    let error = ask(&client, system.as_ref()).await.expect_err("0.5 + 0.75 is too much");
    assert!(matches!(error, Error::BudgetExhausted { .. }), "{error:?}");
}

#[tokio::test]
async fn a_reply_without_the_answer_is_an_error_that_names_what_is_there() {
    let stage = Stage::new().await;
    stage.reply(json!({ "output": "Ada.", "docs": [] })).await;
    let system = config(&stage).build(&stage.context()).expect("a system");
    let error = ask(&client(), system.as_ref()).await.expect_err("no answer");
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "[systems.app] sent an answer that cannot be read: `answer` is not in the reply; it has `output`, `docs`: set \
         `answer = \"output\"` under [systems.app]"
    );
    assert_eq!(stage.requests().await.len(), 1, "the same call would bring the same reply");
}

#[tokio::test]
async fn a_version_is_plain_text_or_stands_at_a_path() {
    for (body, path, expected) in [
        ("2025-11-03\n", "", Ok("2025-11-03")),
        ("\"abc\"", "", Ok("abc")),
        ("1.10", "", Ok("1.10")),
        ("{\"build\": {\"git\": \"1f2e\"}}", "build.git", Ok("1f2e")),
        ("{\"build\": 12}", "build", Ok("12")),
        (
            "{\"build\": 12}",
            "",
            Err("the version is an object: name the place of the version in it with `version.path`"),
        ),
        ("{\"sha\": \"1f\"}", "git", Err("set `version.path = \"sha\"` under [systems.app]")),
        ("plain", "git", Err("is not JSON")),
        (" \n", "", Err("is empty")),
        ("<!doctype html><html>", "", Err("HTML, and not a version: check `version.url`")),
    ] {
        let stage = Stage::new().await;
        stage.respond(ResponseTemplate::new(200).set_body_string(body)).await;
        let system = config(&stage).build(&stage.context()).expect("a system");
        let source = VersionSource { url: stage.address("/version"), path: path.to_owned(), header: String::new() };
        let version = system.ask_version(&source).await.map_err(|error| error.to_string());
        match (version, expected) {
            (Ok(version), Ok(expected)) => assert_eq!(version, expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (version, expected) => panic!("{version:?} is not {expected:?}"),
        }
    }
    let stage = Stage::new().await;
    stage.respond(ResponseTemplate::new(200).set_body_string("v".repeat(201))).await;
    let system = config(&stage).build(&stage.context()).expect("a system");
    let source = VersionSource { url: stage.address("/version"), path: String::new(), header: String::new() };
    let error = system.ask_version(&source).await.expect_err("too long").to_string();
    assert!(error.contains("has 201 characters, and may have 200"), "{error}");
}

#[tokio::test]
async fn equal_settings_have_one_identity_whatever_the_system_is_called() {
    let stage = Stage::new().await;
    let cx = SystemContext { version: "7", ..stage.context() };
    let renamed = SystemContext { name: "other", ..cx };
    let config = config(&stage);
    let identity = config.identity(&cx).expect("an identity");
    assert_eq!(identity, config.identity(&renamed).expect("an identity"));
    assert_eq!((identity.provider.as_str(), &identity.model, &identity.revision), ("http", &config.url, &config.url));
    assert_eq!(identity.parameters, json!({ "version": "7", "method": "POST" }));
    assert!(identity.is_remote());
    let of = |config: &Config, cx: &SystemContext<'_>| config.identity(cx).expect("an identity");
    assert_ne!(identity, of(&config, &SystemContext { version: "8", ..cx }));
    assert_ne!(identity, of(&Config { method: "PUT".to_owned(), ..config.clone() }, &cx));
    let tenant = |name: &str| Config { headers: [("x-tenant".to_owned(), name.to_owned())].into(), ..config.clone() };
    let (a, b) = (of(&tenant("tenant-a"), &cx), of(&tenant("tenant-b"), &cx));
    assert!(a != b && a != identity && !format!("{a:?}").contains("tenant-a"), "headers may be secret: {a:?}");
    assert_eq!(identity, of(&Config { timeout_seconds: 1.0, answer: "x".to_owned(), ..config.clone() }, &cx));
}

#[test]
fn keys_hold_what_decides_a_reply_and_no_limits() {
    let config = Config { url: "http://h/ask".to_owned(), ..Config::default() };
    let key = config.key_settings();
    let slow = Config {
        timeout_seconds: 1.0,
        connect_timeout_seconds: 1.0,
        retry_timeouts: false,
        max_response_bytes: 1,
        concurrency: Some(1),
        limits: EndpointLimits { hedge: Some(0.1), ..EndpointLimits::default() },
        plain_http: true,
        ..config.clone()
    };
    assert_eq!(slow.key_settings(), key);
    for other in [
        Config { answer: "x".to_owned(), ..config.clone() },
        Config { body: Some(json!("{question}")), ..config.clone() },
        Config { headers: [("a".to_owned(), "b".to_owned())].into(), ..config.clone() },
    ] {
        assert_ne!(other.key_settings(), key);
    }
}

#[test]
fn settings_are_checked_before_a_call() {
    let config = Config { url: "http://h/ask".to_owned(), ..Config::default() };
    let none = BTreeMap::new();
    let top_k = BTreeMap::from([("top_k".to_owned(), vec![json!(3), json!(5)])]);
    assert_eq!(config.check(&none), Ok(()));
    let body = |body: Value| Config { body: Some(body), ..config.clone() };
    assert_eq!(body(json!({ "q": "{question}", "k": "{top_k}" })).check(&top_k), Ok(()));
    let refusal = |config: Config| config.check(&none).expect_err("a refusal");
    assert!(config.check(&top_k).expect_err("a refusal").contains("`parameters.top_k` is sent nowhere"));
    assert!(refusal(body(json!({ "k": 5 }))).contains("neither {question} nor {messages} is sent"));
    assert!(refusal(body(json!({ "q": "{quetion}" }))).contains("`{quetion}` in `body` or `query` is no placeholder"));
    assert!(refusal(Config { method: "GET".to_owned(), ..config.clone() }).contains("neither {question}"));
    assert!(
        refusal(Config { url: "http://h/{question}".to_owned(), ..config.clone() }).contains("takes no placeholders")
    );
    assert!(refusal(Config { answer: "a[".to_owned(), ..config.clone() }).starts_with("`answer`: "));
    assert!(
        refusal(Config { answer: String::new(), ..config.clone() }).contains("`answer` and `passages` are both empty")
    );
    let usage = UsagePaths { cost_usd: Some("[".to_owned()), ..UsagePaths::default() };
    assert!(refusal(Config { usage, ..config.clone() }).starts_with("`usage.cost_usd`: "));
    let limits = EndpointLimits { hedge: Some(0.1), ..EndpointLimits::default() };
    assert!(
        refusal(Config { limits, retry_timeouts: false, ..config.clone() })
            .contains("`limits.hedge` makes calls twice")
    );
}

#[test]
fn settings_are_read_from_a_file_and_unknown_ones_are_refused() {
    let read = |text: &str| toml::from_str::<BTreeMap<String, SystemConfig>>(text);
    let text = r#"
        [app.http]
        url = "http://h/ask"
        body = { question = "{question}", k = "{top_k}", on = true }
        passages = "sources"
        passage = { text = "content", page = "page" }
        usage = { cost_usd = "cost" }
    "#;
    let systems = read(text).expect("a system");
    let SystemConfig::Http(config) = &systems["app"] else { panic!("{systems:?}") };
    assert_eq!((config.passage.text.as_str(), config.passage.page.as_deref()), ("content", Some("page")));
    assert_eq!(systems["app"].settings().parameters(), Some(BTreeSet::from(["top_k".to_owned()])));
    let written = serde_json::to_value(&systems["app"]).expect("JSON");
    assert_eq!(serde_json::from_value::<SystemConfig>(written).expect("the same"), systems["app"]);
    let error = read(r#"app.http = { url = "http://h", anwser = "a" }"#).expect_err("a misspelt key").to_string();
    assert!(error.contains("unknown field `anwser`"), "{error}");
}

#[test]
fn what_leaves_the_process_is_listed() {
    let config = Config {
        url: "http://h/ask".to_owned(),
        api_key_env: Some("KEY".to_owned()),
        query: [("tenant".to_owned(), "a".to_owned())].into(),
        body: Some(json!({ "q": "{question}", "k": 5 })),
        ..Config::default()
    };
    let access = config.endpoint_access().expect("an endpoint");
    assert_eq!((access.address.as_str(), access.variables), ("http://h/ask", vec!["KEY".to_owned()]));
    assert_eq!(access.query, [("tenant".to_owned(), "a".to_owned())]);
    assert_eq!(access.fields, [("q".to_owned(), "\"{question}\"".to_owned()), ("k".to_owned(), "5".to_owned())]);
}

#[tokio::test]
async fn a_question_is_passed_through_whatever_is_in_it() {
    let stage = Stage::new().await;
    stage.reply(json!({ "answer": "a" })).await;
    let body = json!({ "q": "{question}", "text": "Q: {question}", "chat": "{messages}" });
    let system = Config { body: Some(body), ..config(&stage) }.build(&stage.context()).expect("a system");
    let parameters = BTreeMap::new();
    let history = [Message::user("{id}")];
    let text = "What is {seed} in \"{{x}}\"?";
    let question = SystemQuestion { history: &history, ..question(text, &parameters) };
    system.service().call(&system.request(&question)).await.expect("a reply");
    let sent = stage.last_body().await;
    assert_eq!((&sent["q"], &sent["text"]), (&json!(text), &json!(format!("Q: {text}"))));
    assert_eq!((&sent["chat"][0]["content"], &sent["chat"][1]["content"]), (&json!("{id}"), &json!(text)));
}

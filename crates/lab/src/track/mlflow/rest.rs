//! A small client of MLflow's REST API. It repeats no call by itself: its
//! caller looks at what is on the server and tries again.

use super::{super::TrackerError, content::WantedRun, files::ArtifactFile, state::ServerRun};
use crate::{Environment, error_chain};
use reqwest::{RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};
use std::time::Duration;

const API: &str = "api/2.0/mlflow";
const PROXY: &str = "api/2.0/mlflow-artifacts/artifacts";
const CONNECT: Duration = Duration::from_secs(3);
/// The time limit of a call. It is long, because a slow server may still create
/// a run after we gave up, and the next try would create another one.
const CALL: Duration = Duration::from_secs(60);
const UPLOAD: Duration = Duration::from_secs(300);
const RUNS_PER_PAGE: usize = 1000;

pub(super) struct Server {
    client: reqwest::Client,
    address: String,
    secret: Secret,
}

enum Secret {
    None,
    Password(String, String),
    Token(String),
}

impl Server {
    pub(super) fn new(address: String, environment: &Environment) -> reqwest::Result<Self> {
        let [user, password, token] =
            ["USERNAME", "PASSWORD", "TOKEN"].map(|name| environment(&format!("MLFLOW_TRACKING_{name}")));
        let secret = match (user, password, token) {
            (Some(user), Some(password), _) => Secret::Password(user, password),
            (_, _, Some(token)) => Secret::Token(token),
            _ => Secret::None,
        };
        let client = store::http_client()
            .connect_timeout(CONNECT)
            .user_agent(concat!("reverie/", env!("CARGO_PKG_VERSION")))
            // A redirect would carry results to a host that the user did not name.
            .redirect(reqwest::redirect::Policy::none())
            .no_gzip()
            .build()?;
        Ok(Self { client, address, secret })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Warns if the password or the token crosses a network without TLS.
    pub(super) fn exposed_secret(&self) -> Option<String> {
        let sent = !matches!(self.secret, Secret::None) && models::lacks_tls(&self.address);
        sent.then(|| {
            "its password or token is sent over http://, where everybody on the way can read it: use an https:// address"
                .to_owned()
        })
    }

    /// Calls a function of the API that changes something.
    pub(super) async fn post(&self, function: &str, body: &Value) -> Result<Value, TrackerError> {
        let request = self.client.post(format!("{}/{API}/{function}", self.address)).json(body);
        self.send(function, request.timeout(CALL)).await
    }

    async fn get(&self, function: &str, name: &str, value: &str) -> Result<Value, TrackerError> {
        let mut url = Url::parse(&format!("{}/{API}/{function}", self.address))
            .map_err(|error| TrackerError::Refused(format!("{function}: {error}")))?;
        url.query_pairs_mut().append_pair(name, value);
        self.send(function, self.client.get(url).timeout(CALL)).await
    }

    /// Sends a file through the server to wherever it keeps files.
    pub(super) async fn put(&self, address: &str, file: &ArtifactFile) -> Result<(), TrackerError> {
        let request = self.client.put(address).header(reqwest::header::CONTENT_TYPE, file.kind());
        self.send(&file.name, request.body(file.bytes.clone()).timeout(UPLOAD)).await.map(drop)
    }

    async fn send(&self, what: &str, request: RequestBuilder) -> Result<Value, TrackerError> {
        let request = match &self.secret {
            Secret::None => request,
            Secret::Password(user, password) => request.basic_auth(user, Some(password)),
            Secret::Token(token) => request.bearer_auth(token),
        };
        let away = |error: reqwest::Error| TrackerError::Away(format!("{what}: {}", error_chain(&error.without_url())));
        let response = request.send().await.map_err(away)?;
        let status = response.status();
        let text = response.text().await.map_err(away)?;
        if status.is_success() {
            return match text.trim() {
                "" => Ok(Value::Null),
                text => serde_json::from_str(text).map_err(|_| {
                    TrackerError::Refused(format!(
                        "{what}: the answer is no JSON: is {} an MLflow server?",
                        self.address
                    ))
                }),
            };
        }
        let reply = serde_json::from_str::<Value>(&text).unwrap_or_default();
        let code = reply["error_code"].as_str().unwrap_or_default();
        let mut message = reply["message"].as_str().unwrap_or(&text).trim().to_owned();
        for secret in self.secret.texts() {
            message = message.replace(secret, "[redacted]");
        }
        let message: String = message.chars().take(300).collect();
        let whole = format!("{what}: {} {code} {message}", status.as_u16());
        Err(match status {
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => TrackerError::Away(whole),
            status if status.is_server_error() => TrackerError::Away(whole),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => TrackerError::Refused(format!(
                "{whole}; it wants MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, in the environment"
            )),
            _ => TrackerError::Refused(whole),
        })
    }

    /// The id of the experiment with this name, which is created if necessary.
    pub(super) async fn experiment(&self, name: &str) -> Result<String, TrackerError> {
        let id = |found: &Value| super::text(&found["experiment_id"]);
        let looked = self.get("experiments/get-by-name", "experiment_name", name).await;
        match looked {
            Ok(found) => {
                if found["experiment"]["lifecycle_stage"] == "deleted" {
                    return Err(TrackerError::Refused(format!(
                        "the MLflow experiment `{name}` was deleted: restore it, or name another one as `experiment` under [track]"
                    )));
                }
                Ok(id(&found["experiment"]))
            }
            Err(TrackerError::Refused(reason)) if reason.contains("RESOURCE_DOES_NOT_EXIST") => {
                // Of MLflow's kinds of experiments, this one has pages that compare runs
                // in tables and charts.
                let tags = json!([{ "key": "mlflow.experimentKind", "value": "custom_model_development" }]);
                match self.post("experiments/create", &json!({ "name": name, "tags": tags })).await {
                    Ok(made) => Ok(id(&made)),
                    // Another process created it in the meantime.
                    Err(TrackerError::Refused(reason)) if reason.contains("RESOURCE_ALREADY_EXISTS") => {
                        Ok(id(&self.get("experiments/get-by-name", "experiment_name", name).await?["experiment"]))
                    }
                    Err(failure) => Err(failure),
                }
            }
            Err(failure) => Err(failure),
        }
    }

    /// The runs of an experiment that match a filter.
    pub(super) async fn runs(&self, experiment: &str, filter: &str) -> Result<Vec<ServerRun>, TrackerError> {
        let mut runs = Vec::new();
        let mut page = String::new();
        loop {
            let mut body = json!({
                "experiment_ids": [experiment], "filter": filter, "run_view_type": "ACTIVE_ONLY",
                "max_results": RUNS_PER_PAGE,
            });
            if !page.is_empty() {
                body["page_token"] = json!(page);
            }
            let found = self.post("runs/search", &body).await?;
            runs.extend(found["runs"].as_array().into_iter().flatten().map(ServerRun::read));
            page = super::text(&found["next_page_token"]);
            if page.is_empty() {
                return Ok(runs);
            }
        }
    }

    /// Creates a run with only the tags by which it is found.
    pub(super) async fn create(&self, experiment: &str, wanted: &WantedRun) -> Result<ServerRun, TrackerError> {
        let tags = wanted.identifying_tags.iter().map(|(key, value)| json!({ "key": key, "value": value }));
        let body = json!({
            "experiment_id": experiment, "run_name": wanted.name, "start_time": wanted.start_ms,
            "user_id": wanted.user, "tags": tags.collect::<Vec<_>>(),
        });
        let made = self.post("runs/create", &body).await?;
        let run = ServerRun::read(&made["run"]);
        if run.id.is_empty() {
            return Err(TrackerError::Refused("runs/create: the answer names no run".to_owned()));
        }
        Ok(run)
    }
}

impl Secret {
    fn texts(&self) -> Vec<&str> {
        match self {
            Self::None => Vec::new(),
            Self::Password(_, password) => vec![password],
            Self::Token(token) => vec![token],
        }
    }
}

/// Why no files can be sent: the server does not pass them on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotProxied(String);

/// Where the files of a run are sent.
pub(super) struct Address(String);

impl Address {
    /// The address that a run's `artifact_uri` leads to, or why files cannot be sent there.
    pub(super) fn of(artifacts: &str, server: &str) -> Result<Self, NotProxied> {
        let Some(place) = artifacts.strip_prefix("mlflow-artifacts:") else {
            return Err(NotProxied(format!(
                "files cannot be uploaded: the experiment keeps them in {artifacts}, which only a program on the \
                 server's machine can write; use an MLflow experiment of a server that passes them on (`mlflow \
                 server --artifacts-destination …`)"
            )));
        };
        // Three slashes, or one: the server of the tracker. Two slashes: another server.
        let (host, path) = match place.strip_prefix("//").filter(|rest| !rest.starts_with('/')) {
            Some(rest) => {
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                let scheme = server.split("://").next().unwrap_or("http");
                (format!("{scheme}://{host}"), path)
            }
            None => (server.to_owned(), place),
        };
        Ok(Self(format!("{host}/{PROXY}/{}", path.trim_matches('/'))))
    }

    pub(super) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_through_the_server_that_keeps_them() {
        let at = |artifacts| Address::of(artifacts, "https://host/base").map(|address| address.file("a.csv"));
        let own = "https://host/base/api/2.0/mlflow-artifacts/artifacts/1/r/artifacts/a.csv";
        assert_eq!(at("mlflow-artifacts:/1/r/artifacts").as_deref(), Ok(own));
        assert_eq!(at("mlflow-artifacts:///1/r/artifacts").as_deref(), Ok(own));
        let other = "https://other:81/api/2.0/mlflow-artifacts/artifacts/1/r/artifacts/a.csv";
        assert_eq!(at("mlflow-artifacts://other:81/1/r/artifacts").as_deref(), Ok(other));
        assert!(at("s3://bucket/1/r").expect_err("no proxy").to_string().contains("--artifacts-destination"));
    }

    #[test]
    fn a_password_that_crosses_a_network_without_tls_is_told() {
        let warns = |uri: &str, variables: &'static [(&'static str, &'static str)]| {
            let environment: Environment = std::sync::Arc::new(move |name| {
                variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
            });
            Server::new(uri.to_owned(), &environment).expect("a good address").exposed_secret().is_some()
        };
        let password = &[("MLFLOW_TRACKING_USERNAME", "u"), ("MLFLOW_TRACKING_PASSWORD", "p")];
        let token = &[("MLFLOW_TRACKING_TOKEN", "t")];
        assert!(warns("http://mlflow.example:5000", password));
        assert!(warns("http://mlflow.example:5000", token));
        assert!(!warns("https://mlflow.example", password));
        assert!(!warns("http://127.0.0.1:5000", token));
        assert!(!warns("http://mlflow.example:5000", &[]));
    }
}

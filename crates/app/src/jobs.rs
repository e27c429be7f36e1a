//! A client of Ray's Jobs API (Ray 2.60, `/api/jobs/` and `/api/packages/` of
//! the dashboard): submits a program to a cluster from anywhere, follows its
//! log and stops it, without Python.

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// A request that took longer than this has failed; packages take longer.
const TIMEOUT: Duration = Duration::from_secs(30);
const UPLOAD: Duration = Duration::from_secs(600);
/// How often a request is repeated if the head cannot be reached.
const TRIES: u32 = 6;

/// How often, and after which pause, a cluster is asked again that cannot take jobs yet.
const AGENT_TRIES: u32 = 30;
const AGENT_PAUSE: Duration = Duration::from_secs(2);

/// The Jobs API of a cluster.
#[derive(Clone)]
pub struct Jobs {
    client: Client,
    address: String,
    token: Option<String>,
}

/// The cluster's state of a job.
#[derive(Debug, Clone, Deserialize)]
pub struct Job {
    /// `PENDING`, `RUNNING`, `STOPPED`, `SUCCEEDED` or `FAILED`.
    pub status: String,
    /// What happened, for people.
    #[serde(default)]
    pub message: Option<String>,
    /// The exit code of the program.
    #[serde(default)]
    pub driver_exit_code: Option<i32>,
}

impl Job {
    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "STOPPED" | "SUCCEEDED" | "FAILED")
    }
}

/// A job to submit.
pub struct Submission {
    /// Its name, which no other job had.
    pub id: String,
    /// The command line.
    pub entrypoint: String,
    /// The working folder: a package's name.
    pub working_dir: String,
    /// Wheels that are installed: packages' names.
    pub wheels: Vec<String>,
    /// Variables that it is given. Ray shows them.
    pub environment: BTreeMap<String, String>,
    /// What else is kept with it.
    pub metadata: BTreeMap<String, String>,
}

impl Jobs {
    /// The API at an address such as `http://head:8265`.
    ///
    /// # Errors
    /// If no HTTP client can be made.
    pub fn new(address: &str, token: Option<String>) -> Result<Self, String> {
        let client = store::http_client().timeout(TIMEOUT).build().map_err(|error| error.to_string())?;
        Ok(Self { client, address: address.trim_end_matches('/').to_owned(), token })
    }

    /// Uploads a package if the cluster does not have it, and returns its URI.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub async fn upload(&self, name: &str, bytes: &[u8]) -> Result<String, String> {
        let path = format!("/api/packages/gcs/{name}");
        let known = self.send("look for a package", || self.request(Method::GET, &path)).await?;
        if known.status() == StatusCode::NOT_FOUND {
            let put = || self.request(Method::PUT, &path).timeout(UPLOAD).body(bytes.to_vec());
            self.checked("upload a package", put).await?;
        } else if !known.status().is_success() {
            return Err(self.refusal("look for a package", known).await);
        }
        Ok(format!("gcs://{name}"))
    }

    /// Starts a job.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub async fn submit(&self, submission: &Submission) -> Result<(), String> {
        let body = json!({
            "submission_id": submission.id,
            "entrypoint": submission.entrypoint,
            "metadata": submission.metadata,
            "runtime_env": {
                "working_dir": submission.working_dir,
                "py_modules": submission.wheels,
                "env_vars": submission.environment,
            },
        });
        for attempt in 1.. {
            let response = self.send("submit the job", || self.request(Method::POST, "/api/jobs/").json(&body)).await?;
            if response.status().is_success() {
                break;
            }
            let reason = self.refusal("submit the job", response).await;
            // The job was started and only the answer was lost: no other job has this name.
            if reason.contains("already exists") {
                break;
            }
            // A cluster that has just started has no agent for jobs yet.
            if attempt == AGENT_TRIES || !reason.contains("No available agent") {
                return Err(reason);
            }
            tokio::time::sleep(AGENT_PAUSE).await;
        }
        Ok(())
    }

    /// How a job is doing.
    ///
    /// # Errors
    /// If the cluster cannot be reached or does not know it.
    pub async fn job(&self, id: &str) -> Result<Job, String> {
        let path = format!("/api/jobs/{id}");
        let response = self.checked("ask for the job", || self.request(Method::GET, &path)).await?;
        response.json().await.map_err(|error| format!("the answer of {} is no job: {error}", self.address))
    }

    /// All that a job has printed so far.
    ///
    /// # Errors
    /// If the cluster cannot be reached.
    pub async fn log(&self, id: &str) -> Result<String, String> {
        let path = format!("/api/jobs/{id}/logs");
        let response = self.checked("ask for the log", || self.request(Method::GET, &path)).await?;
        let answer: Value =
            response.json().await.map_err(|error| format!("the answer of {} is no log: {error}", self.address))?;
        Ok(answer["logs"].as_str().unwrap_or_default().to_owned())
    }

    /// Asks a job to stop.
    ///
    /// # Errors
    /// If the cluster cannot be reached.
    pub async fn stop(&self, id: &str) -> Result<(), String> {
        let path = format!("/api/jobs/{id}/stop");
        self.checked("stop the job", || self.request(Method::POST, &path)).await.map(drop)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.address));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn checked(&self, what: &str, request: impl Fn() -> RequestBuilder) -> Result<reqwest::Response, String> {
        let response = self.send(what, request).await?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(what, response).await) }
    }

    /// Sends a request, and repeats it if the head is away or overloaded.
    async fn send(&self, what: &str, request: impl Fn() -> RequestBuilder) -> Result<reqwest::Response, String> {
        let mut pause = Duration::from_millis(500);
        for attempt in 1.. {
            match request().send().await {
                Ok(response) if !matches!(response.status().as_u16(), 502..=504) => return Ok(response),
                Ok(response) if attempt == TRIES => return Ok(response),
                Err(error) if attempt == TRIES || error.is_builder() => return Err(self.unreachable(what, &error)),
                _ => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        Err(format!("cannot {what}"))
    }

    fn unreachable(&self, what: &str, error: &reqwest::Error) -> String {
        let reason = lab::error_chain(error);
        format!("cannot {what}: {} cannot be reached ({reason}); is that the address of Ray's dashboard?", self.address)
    }

    async fn refusal(&self, what: &str, response: reqwest::Response) -> String {
        let status = response.status();
        let advice = match (status, &self.token) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, None) => {
                "; the cluster asks for a token: set the variable that `token_env` under [engine.ray] names"
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(_)) => "; the token is not that of this cluster",
            _ => "",
        };
        let text = response.text().await.unwrap_or_default();
        // A traceback says what happened in its last line.
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        format!("cannot {what}: {} said {status}: {last}{advice}", self.address)
    }
}

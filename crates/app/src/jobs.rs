//! A client of Ray's Jobs API (Ray 2.60, `/api/jobs/` and `/api/packages/` of
//! the dashboard): submits a program to a cluster from anywhere, follows its
//! log and stops it, without Python.

mod result_lines;

pub use result_lines::{JobLogReader, LogPart, RESULT_MARK, ResultLines};

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// The time limit of a request; uploads have a longer one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// The most attempts of a request if the cluster's head node cannot be reached.
const MAX_ATTEMPTS: u32 = 6;

/// The most attempts to submit to a cluster that cannot take jobs yet, and the pause
/// between them.
const AGENT_ATTEMPTS: u32 = 30;
const AGENT_PAUSE: Duration = Duration::from_secs(2);

/// Why a cluster's Jobs API did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RayJobsError {
    /// The HTTP client cannot be made.
    #[error(transparent)]
    Client(reqwest::Error),
    /// The cluster does not answer.
    #[error(
        "cannot {operation}: {address} cannot be reached ({}); is that the address of Ray's dashboard?",
        lab::error_chain(source)
    )]
    Unreachable {
        /// What was to be done.
        operation: &'static str,
        /// The address of the Jobs API.
        address: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// The cluster refuses.
    #[error("cannot {operation}: {address} said {status}: {reason}{}", token_advice(*status, *has_token))]
    Refused {
        /// What was to be done.
        operation: &'static str,
        /// The address of the Jobs API.
        address: String,
        /// The HTTP status.
        status: StatusCode,
        /// The last line of the answer.
        reason: String,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// An answer that cannot be read.
    #[error("the answer of {address} is no {content}: {source}")]
    Unreadable {
        /// What the answer should be.
        content: &'static str,
        /// The address of the Jobs API.
        address: String,
        /// The reason.
        source: reqwest::Error,
    },
}

/// Advice about a refusal because of the token.
fn token_advice(status: StatusCode, has_token: bool) -> &'static str {
    match (status, has_token) {
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, false) => {
            "; the cluster asks for a token: set the variable that `token_env` under [engine.ray] names"
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, true) => "; the token is not that of this cluster",
        _ => "",
    }
}

/// The Jobs API of a cluster.
#[derive(Clone)]
pub struct RayJobsApi {
    client: Client,
    address: String,
    token: Option<String>,
}

/// The state of a job.
#[derive(Debug, Clone, Deserialize)]
pub struct RayJob {
    /// `PENDING`, `RUNNING`, `STOPPED`, `SUCCEEDED` or `FAILED`.
    pub status: String,
    /// What happened, as text for people.
    #[serde(default)]
    pub message: Option<String>,
    /// The exit code of the program.
    #[serde(default)]
    pub driver_exit_code: Option<i32>,
}

impl RayJob {
    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "STOPPED" | "SUCCEEDED" | "FAILED")
    }
}

impl RayJobsApi {
    /// The API at an address such as `http://head:8265`.
    ///
    /// # Errors
    /// If no HTTP client can be made.
    pub fn new(address: &str, token: Option<String>) -> Result<Self, RayJobsError> {
        let client = store::http_client().timeout(REQUEST_TIMEOUT).build().map_err(RayJobsError::Client)?;
        Ok(Self { client, address: address.trim_end_matches('/').to_owned(), token })
    }

    /// Uploads a package if the cluster does not have it, and returns its URI.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub async fn upload(&self, name: &str, bytes: &[u8]) -> Result<String, RayJobsError> {
        let path = format!("/api/packages/gcs/{name}");
        let known = self.send("look for a package", || self.request(Method::GET, &path)).await?;
        if known.status() == StatusCode::NOT_FOUND {
            let put = || self.request(Method::PUT, &path).timeout(UPLOAD_TIMEOUT).body(bytes.to_vec());
            self.send_checked("upload a package", put).await?;
        } else if !known.status().is_success() {
            return Err(self.refusal("look for a package", known).await);
        }
        Ok(format!("gcs://{name}"))
    }

    /// Starts a job; `body` is the one of `POST /api/jobs/`.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub async fn submit(&self, body: &Value) -> Result<(), RayJobsError> {
        for attempt in 1.. {
            let response = self.send("submit the job", || self.request(Method::POST, "/api/jobs/").json(body)).await?;
            if response.status().is_success() {
                break;
            }
            let error = self.refusal("submit the job", response).await;
            let RayJobsError::Refused { reason, .. } = &error else { return Err(error) };
            // An earlier attempt started the job and its response was lost: no other job has this id.
            if reason.contains("already exists") {
                break;
            }
            // A cluster that has just started has no agent for jobs yet.
            if attempt == AGENT_ATTEMPTS || !reason.contains("No available agent") {
                return Err(error);
            }
            tokio::time::sleep(AGENT_PAUSE).await;
        }
        Ok(())
    }

    /// Fetches the state of a job.
    ///
    /// # Errors
    /// If the cluster cannot be reached or does not know it.
    pub async fn job(&self, id: &str) -> Result<RayJob, RayJobsError> {
        let path = format!("/api/jobs/{id}");
        let response = self.send_checked("ask for the job", || self.request(Method::GET, &path)).await?;
        response.json().await.map_err(|source| self.unreadable("job", source))
    }

    /// Fetches everything that a job has printed so far.
    ///
    /// # Errors
    /// If the cluster cannot be reached.
    pub async fn log(&self, id: &str) -> Result<String, RayJobsError> {
        let path = format!("/api/jobs/{id}/logs");
        let response = self.send_checked("ask for the log", || self.request(Method::GET, &path)).await?;
        let answer: Value = response.json().await.map_err(|source| self.unreadable("log", source))?;
        Ok(answer["logs"].as_str().unwrap_or_default().to_owned())
    }

    /// Asks a job to stop.
    ///
    /// # Errors
    /// If the cluster cannot be reached.
    pub async fn stop(&self, id: &str) -> Result<(), RayJobsError> {
        let path = format!("/api/jobs/{id}/stop");
        self.send_checked("stop the job", || self.request(Method::POST, &path)).await.map(drop)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.address));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn send_checked(
        &self,
        operation: &'static str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<reqwest::Response, RayJobsError> {
        let response = self.send(operation, request).await?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(operation, response).await) }
    }

    /// Sends a request, and retries if the head node cannot be reached or is overloaded.
    async fn send(
        &self,
        operation: &'static str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<reqwest::Response, RayJobsError> {
        let mut pause = Duration::from_millis(500);
        let mut attempt = 1;
        loop {
            match request().send().await {
                Ok(response) if !matches!(response.status().as_u16(), 502..=504) => return Ok(response),
                Ok(response) if attempt == MAX_ATTEMPTS => return Ok(response),
                Err(error) if attempt == MAX_ATTEMPTS || error.is_builder() => {
                    return Err(RayJobsError::Unreachable { operation, address: self.address.clone(), source: error });
                }
                _ => tokio::time::sleep(pause).await,
            }
            pause *= 2;
            attempt += 1;
        }
    }

    fn unreadable(&self, content: &'static str, source: reqwest::Error) -> RayJobsError {
        RayJobsError::Unreadable { content, address: self.address.clone(), source }
    }

    async fn refusal(&self, operation: &'static str, response: reqwest::Response) -> RayJobsError {
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        // A traceback says what happened in its last line.
        let reason = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given").to_owned();
        let (address, has_token) = (self.address.clone(), self.token.is_some());
        RayJobsError::Refused { operation, address, status, reason, has_token }
    }
}

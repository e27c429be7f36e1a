//! OpenAI's Batch API: a file of requests is uploaded and a batch is made of it; its answers are lines of other files.

use super::http::{Endpoint, EndpointSettings};
use crate::{BatchEndpoint, BatchLine, BatchSettings, BatchState, Error, provider::ModelContext};
use async_trait::async_trait;
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::Instant;

/// The largest file of answers, in bytes.
const MAX_FILE: usize = 1 << 30;
/// How long one request may take, in seconds: a file may have 100 MB.
const TIMEOUT_SECONDS: f64 = 900.0;
/// Batches of one page of the list, and pages that are searched. Newest batches come first.
const PAGE: usize = 100;
const PAGES: usize = 50;
/// The name of our token in a batch's metadata.
const TOKEN: &str = "reverie";

/// Sends the batches of one model.
pub(super) struct OpenAiBatches {
    endpoint: Endpoint,
    settings: BatchSettings,
    /// The path of a call below the address, such as `chat/completions`.
    path: &'static str,
}

impl OpenAiBatches {
    /// # Errors
    /// If the settings cannot work.
    pub(super) fn build(
        batch: Option<BatchSettings>,
        endpoint: EndpointSettings<'_>,
        path: &'static str,
        cx: &ModelContext,
    ) -> Result<Option<Arc<dyn BatchEndpoint>>, Error> {
        let Some(settings) = batch else { return Ok(None) };
        settings.check(endpoint.model)?;
        let large = EndpointSettings { max_response_bytes: MAX_FILE, timeout_seconds: TIMEOUT_SECONDS, ..endpoint };
        Ok(Some(Arc::new(Self { endpoint: large.build_endpoint(cx)?, settings, path })))
    }

    async fn get(&self, path: &str) -> Result<Value, Error> {
        let answer = self.endpoint.send(self.endpoint.client.get(self.endpoint.url(path))).await?;
        self.endpoint.parse(answer.body)
    }

    fn text<'a>(&self, answer: &'a Value, field: &str) -> Result<&'a str, Error> {
        let text = answer.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.ok_or_else(|| self.endpoint.malformed(format!("there is no `{field}`")))
    }

    /// The outcome of a line; none if it cannot be read.
    fn outcome(&self, line: &str) -> Option<BatchLine> {
        let line = self.endpoint.parse(line.to_owned()).ok()?;
        let id = line.get("custom_id")?.as_str()?.to_owned();
        let response = line.get("response").filter(|response| response.is_object());
        let outcome = match response {
            Some(response) => {
                let status = response.get("status_code").and_then(Value::as_u64).and_then(|it| u16::try_from(it).ok());
                let status = StatusCode::from_u16(status.unwrap_or(200)).unwrap_or(StatusCode::OK);
                let body = response.get("body").cloned().unwrap_or(Value::Null);
                match status.is_success() {
                    true => self.endpoint.error_in(&body).map_or(Ok(body), Err),
                    false => {
                        let now = Instant::now();
                        let error = self.endpoint.error_of_status(status, &HeaderMap::new(), &body.to_string(), now);
                        Err(without_refusal(error))
                    }
                }
            }
            None => {
                let error = line.get("error").cloned().unwrap_or(Value::Null);
                let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
                Err(self.unanswered(message))
            }
        };
        Some(BatchLine { id, outcome })
    }
}

/// Inside a batch there is no rate to keep to, so a refusal is an ordinary failure of the server.
fn without_refusal(error: Error) -> Error {
    match error {
        Error::RateLimited { endpoint, message, .. } => {
            Error::Server { endpoint, status: 500, message, retry_after: None }
        }
        Error::Server { endpoint, message, .. } => Error::Server { endpoint, status: 500, message, retry_after: None },
        other => other,
    }
}

#[async_trait]
impl BatchEndpoint for OpenAiBatches {
    fn settings(&self) -> BatchSettings {
        self.settings
    }

    fn line(&self, id: &str, body: &Value) -> String {
        json!({ "custom_id": id, "method": "POST", "url": format!("/v1/{}", self.path), "body": body }).to_string()
    }

    async fn upload(&self, token: &str, lines: String) -> Result<String, Error> {
        // Lines are JSON, so none of them can hold this boundary.
        let boundary = format!("----reverie-{token}");
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{boundary}\r\n\
             Content-Disposition: form-data; name=\"file\"; filename=\"reverie-{token}.jsonl\"\r\n\
             Content-Type: application/jsonl\r\n\r\n"
        );
        let mut body = Vec::with_capacity(head.len() + lines.len() + boundary.len() + 8);
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(lines.as_bytes());
        drop(lines);
        body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        let request = self.endpoint.client.post(self.endpoint.url("files"));
        let request = request.header(CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}")).body(body);
        let answer = self.endpoint.parse(self.endpoint.send(request).await?.body)?;
        Ok(self.text(&answer, "id")?.to_owned())
    }

    async fn create(&self, file: &str, token: &str) -> Result<String, Error> {
        let body = json!({
            "input_file_id": file, "endpoint": format!("/v1/{}", self.path), "completion_window": "24h",
            "metadata": { TOKEN: token },
        });
        let answer = self.endpoint.post("batches", &body).await?;
        Ok(self.text(&answer, "id")?.to_owned())
    }

    async fn find(&self, token: &str) -> Result<Option<String>, Error> {
        let mut after = String::new();
        for _ in 0..PAGES {
            let page = self.get(&format!("batches?limit={PAGE}{after}")).await?;
            let data = page.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let ours = data
                .iter()
                .find(|batch| batch.pointer(&format!("/metadata/{TOKEN}")).and_then(Value::as_str) == Some(token));
            if let Some(batch) = ours {
                return Ok(Some(self.text(batch, "id")?.to_owned()));
            }
            let last = data.last().and_then(|batch| batch.get("id")).and_then(Value::as_str);
            match last {
                Some(last) if page.get("has_more").and_then(Value::as_bool) == Some(true) => {
                    after = format!("&after={}", super::http::path_segment(last));
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn state(&self, batch: &str) -> Result<BatchState, Error> {
        let found = self.get(&format!("batches/{}", super::http::path_segment(batch))).await?;
        let status = self.text(&found, "status")?;
        if !matches!(status, "completed" | "failed" | "expired" | "cancelled") {
            return Ok(BatchState::Running);
        }
        let file = |field: &str| found.get(field).and_then(Value::as_str).filter(|id| !id.is_empty());
        let files = ["output_file_id", "error_file_id"].into_iter().filter_map(file).map(str::to_owned).collect();
        let message = found.pointer("/errors/data/0/message").and_then(Value::as_str).unwrap_or_default();
        Ok(BatchState::Ended { status: status.to_owned(), files, message: message.to_owned() })
    }

    async fn outcomes(&self, file: &str) -> Result<Vec<BatchLine>, Error> {
        let url = self.endpoint.url(&format!("files/{}/content", super::http::path_segment(file)));
        let answer = self.endpoint.send(self.endpoint.client.get(url)).await?;
        Ok(answer.body.lines().filter_map(|line| self.outcome(line)).collect())
    }

    fn unanswered(&self, reason: &str) -> Error {
        let endpoint = self.endpoint.base().to_owned();
        let message = format!("the batch did not answer this call: {reason}");
        Error::Server { endpoint, status: 500, message, retry_after: None }
    }
}

//! The Batch API: files of requests, batches of them, and files of answers. Work on a batch is done when it is created,
//! and shown when its time is over. What can go wrong is set by `batches` of the settings.

use crate::{
    SimulatorSettings, chat,
    draw::scramble,
    embeddings,
    reply::{CREATED, ReplyContent, fingerprint},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How batches are worked on, and what goes wrong. Shares are of the lines of a batch, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchBehaviour {
    /// How long a batch takes.
    pub seconds: f64,
    /// How long an upload takes before its reply.
    pub upload_seconds: f64,
    /// How long the reply to the creation of a batch takes. The batch exists from the beginning.
    pub create_seconds: f64,
    /// Lines that expire: they are not answered and not billed.
    pub expired: f64,
    /// Lines that fail with 500, and are not billed.
    pub failed: f64,
    /// Lines that are in none of the files, and are not billed.
    pub missing: f64,
    /// Lines that are there twice.
    pub duplicated: f64,
    /// Of the questions how far a batch is, those that fail with 503.
    pub poll_errors: f64,
    /// The first creations whose reply is 500, although the batch was created.
    pub lost_replies: u64,
    /// Bytes that are added to each answer.
    pub padding: usize,
}

impl Default for BatchBehaviour {
    fn default() -> Self {
        Self {
            seconds: 0.0,
            upload_seconds: 0.0,
            create_seconds: 0.0,
            expired: 0.0,
            failed: 0.0,
            missing: 0.0,
            duplicated: 0.0,
            poll_errors: 0.0,
            lost_replies: 0,
            padding: 0,
        }
    }
}

/// What was asked of the Batch API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchCounts {
    /// Files that were uploaded.
    pub files: u64,
    /// Batches that were created.
    pub created: u64,
    /// Their lines.
    pub lines: u64,
    /// Questions how far a batch is.
    pub polls: u64,
    /// Files of answers that were read.
    pub downloads: u64,
}

/// Files and batches.
#[derive(Debug, Default)]
pub(crate) struct BatchDesk {
    inner: Mutex<DeskState>,
}

#[derive(Debug, Default)]
struct DeskState {
    files: BTreeMap<String, Bytes>,
    batches: Vec<SimulatedBatch>,
    counts: BatchCounts,
}

#[derive(Debug)]
struct SimulatedBatch {
    id: String,
    request: Value,
    done: Instant,
    status: &'static str,
    lines: usize,
    answered: usize,
    output: Option<String>,
    errors: Option<String>,
}

impl SimulatedBatch {
    fn json(&self) -> Value {
        let is_done = Instant::now() >= self.done;
        let status = if is_done { self.status } else { "in_progress" };
        let file = |id: &Option<String>| if is_done { json!(id) } else { Value::Null };
        json!({
            "id": self.id, "object": "batch", "endpoint": self.request["endpoint"], "created_at": CREATED,
            "input_file_id": self.request["input_file_id"], "completion_window": self.request["completion_window"],
            "metadata": self.request["metadata"], "status": status,
            "output_file_id": file(&self.output), "error_file_id": file(&self.errors),
            "request_counts": { "total": self.lines, "completed": self.answered, "failed": self.lines - self.answered },
        })
    }
}

/// Why a request is refused: a status and a message.
pub(crate) type BatchRefusal = (u16, String);

impl BatchDesk {
    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn counts(&self) -> BatchCounts {
        self.lock().counts
    }

    /// Takes an uploaded file out of its form.
    pub(crate) fn upload(&self, form: &[u8]) -> Result<Value, BatchRefusal> {
        let refuse = |what: &str| (400, what.to_owned());
        let boundary_end = form.windows(2).position(|pair| pair == b"\r\n").ok_or_else(|| refuse("no form"))?;
        let boundary = &form[..boundary_end];
        let is_batch = find(form, b"name=\"purpose\"\r\n\r\nbatch\r\n").is_some();
        let field = find(form, b"name=\"file\"").filter(|_| is_batch).ok_or_else(|| refuse("no `file` for a batch"))?;
        let start = field + find(&form[field..], b"\r\n\r\n").ok_or_else(|| refuse("no content"))? + 4;
        let length = find(&form[start..], &[b"\r\n", boundary].concat()).ok_or_else(|| refuse("no end"))?;
        let mut desk = self.lock();
        desk.counts.files += 1;
        let id = format!("file-{}", desk.files.len() + 1);
        desk.files.insert(id.clone(), Bytes::copy_from_slice(&form[start..start + length]));
        Ok(json!({ "id": id, "object": "file", "bytes": length, "created_at": CREATED, "purpose": "batch" }))
    }

    /// Creates a batch, and answers its lines. `answered` counts a line by the fingerprint of its body, the tokens read and
    /// the tokens written. Returns the batch, and whether its reply is lost.
    pub(crate) fn create(
        &self,
        settings: &SimulatorSettings,
        answered: &dyn Fn(u128, u64, u64),
        body: &[u8],
    ) -> Result<(Value, bool), BatchRefusal> {
        let request: Value = serde_json::from_slice(body).map_err(|error| (400, error.to_string()))?;
        let behaviour = settings.batches;
        let mut desk = self.lock();
        let file = request["input_file_id"].as_str().and_then(|id| desk.files.get(id)).cloned();
        let file = file.ok_or_else(|| (400, "no such file".to_owned()))?;
        let number = desk.batches.len() as u64;
        let (mut output, mut errors, mut lines, mut n_answered) = (Vec::new(), Vec::new(), 0, 0);
        for (i, line) in file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).enumerate() {
            lines += 1;
            let line: Value = serde_json::from_slice(line).map_err(|error| (400, format!("line {i}: {error}")))?;
            let draw = scramble(scramble(settings.seed ^ number) ^ i as u64);
            let draw = (draw >> 11) as f64 / (1u64 << 53) as f64;
            let id = &line["custom_id"];
            let (expired, failed) = (behaviour.expired, behaviour.expired + behaviour.failed);
            if draw < expired {
                let error = json!({ "code": "batch_expired", "message": "This request could not be executed before the completion window expired." });
                errors.push(json!({ "id": "x", "custom_id": id, "response": null, "error": error }));
            } else if draw < failed {
                let body = json!({ "error": { "message": "The server had an error.", "type": "server_error" } });
                let response = json!({ "status_code": 500, "request_id": "x", "body": body });
                errors.push(json!({ "id": "x", "custom_id": id, "response": response, "error": null }));
            } else if draw >= failed + behaviour.missing {
                let answer = answer(settings, answered, &line)?;
                n_answered += 1;
                let response = json!({ "status_code": 200, "request_id": "x", "body": answer });
                let line = json!({ "id": "x", "custom_id": id, "response": response, "error": null });
                if draw > 1.0 - behaviour.duplicated {
                    output.push(line.clone());
                }
                output.push(line);
            }
        }
        // In another order than they came.
        output.reverse();
        let mut keep = |lines: Vec<Value>, name: &str| {
            let id = (!lines.is_empty()).then(|| format!("file-{name}-{number}"))?;
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            desk.files.insert(id.clone(), text.into());
            Some(id)
        };
        let (output, errors) = (keep(output, "output"), keep(errors, "errors"));
        let status = if behaviour.expired > 0.0 { "expired" } else { "completed" };
        let batch = SimulatedBatch {
            id: format!("batch_{number}"),
            request,
            done: Instant::now() + Duration::from_secs_f64(behaviour.seconds),
            status,
            lines,
            answered: n_answered,
            output,
            errors,
        };
        let shown = batch.json();
        desk.batches.push(batch);
        desk.counts.created += 1;
        desk.counts.lines += lines as u64;
        Ok((shown, desk.counts.created <= behaviour.lost_replies))
    }

    /// All batches, the newest first, after one of them.
    pub(crate) fn list(&self, after: Option<&str>, limit: usize) -> Value {
        let desk = self.lock();
        let newest = desk.batches.iter().rev();
        let rest: Vec<&SimulatedBatch> = match after {
            Some(after) => newest.skip_while(|batch| batch.id != after).skip(1).collect(),
            None => newest.collect(),
        };
        let data: Vec<Value> = rest.iter().take(limit).map(|batch| batch.json()).collect();
        json!({ "object": "list", "data": data, "has_more": rest.len() > limit })
    }

    /// One batch; 503 if this question is to fail.
    pub(crate) fn get(&self, id: &str, settings: &SimulatorSettings) -> Result<Value, BatchRefusal> {
        let mut desk = self.lock();
        desk.counts.polls += 1;
        let draw = (scramble(settings.seed ^ desk.counts.polls) >> 11) as f64 / (1u64 << 53) as f64;
        if draw < settings.batches.poll_errors {
            return Err((503, "The engine is currently overloaded, please try again later.".to_owned()));
        }
        let batch = desk.batches.iter().find(|batch| batch.id == id);
        batch.map(SimulatedBatch::json).ok_or_else(|| (404, format!("No such batch: {id}")))
    }

    /// The content of a file.
    pub(crate) fn content(&self, id: &str) -> Result<Bytes, BatchRefusal> {
        let mut desk = self.lock();
        desk.counts.downloads += 1;
        desk.files.get(id).cloned().ok_or_else(|| (404, format!("No such file: {id}")))
    }
}

/// Answers one line of a batch, and counts it as billed.
fn answer(
    settings: &SimulatorSettings,
    answered: &dyn Fn(u128, u64, u64),
    line: &Value,
) -> Result<Value, BatchRefusal> {
    let body = line["body"].to_string();
    let fingerprint = fingerprint(body.as_bytes());
    let reply = match line["url"].as_str() {
        Some("/v1/chat/completions") => chat::reply,
        Some("/v1/embeddings") => embeddings::reply,
        other => return Err((400, format!("no such endpoint: {other:?}"))),
    };
    let reply = reply(body.as_bytes(), fingerprint, settings).map_err(|error| (400, error.to_string()))?;
    let ReplyContent::Json(bytes) = reply.content else { return Err((400, "a batch does not stream".to_owned())) };
    let mut answer: Value = serde_json::from_slice(&bytes).map_err(|error| (500, error.to_string()))?;
    if settings.batches.padding > 0 {
        answer["padding"] = json!("x".repeat(settings.batches.padding));
    }
    answered(fingerprint, reply.usage.prompt_tokens, reply.usage.completion_tokens);
    Ok(answer)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

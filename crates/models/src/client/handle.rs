//! Handles, which stages hold instead of models. They are cheap to clone. The
//! handle to a chat model is in `chat.rs`.

use super::{
    Chat, MOST_BATCHED,
    amount::BudgetAmount,
    caller::{BatchedCall, Caller, call_key},
    estimate,
    reply::{AnswerPart, CallAnswer, StoredAnswer, from_text, to_text, unreadable},
};
use crate::{EmbeddingModel, Error, Identity, InputKind, Matrix, ModelUsage, RerankModel, estimate_tokens, ledger};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::stream::{FuturesUnordered, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::HashMap, fmt, ops::Range, sync::Arc, time::Instant};
use store::Key;

/// Shows a handle without the model behind it.
macro_rules! debug_by_identity {
    ($($Handle:ident),+) => { $(
        impl fmt::Debug for $Handle {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Handle)).field("identity", self.identity()).finish_non_exhaustive()
            }
        }
    )+ };
}

debug_by_identity!(Chat, Embedder, Reranker);

/// A handle to an embedding model.
#[derive(Clone)]
pub struct Embedder {
    pub(super) caller: Caller,
    pub(super) model: Arc<dyn EmbeddingModel>,
}

/// The kind of embedding calls in the journal.
pub(super) const EMBEDDING: &str = "embedding";

/// Everything that decides the vectors of an embedding call.
#[derive(Serialize)]
pub(super) struct EmbeddingRequest<'a> {
    pub(super) texts: &'a [String],
    pub(super) kind: InputKind,
}

/// Vectors in the form that the journal keeps: exact, and a third of the size
/// of decimal digits.
#[derive(Serialize, Deserialize)]
pub(super) struct EmbeddingResponse {
    pub(super) columns: usize,
    /// Base64 of little-endian `f32`, row by row.
    pub(super) data: String,
}

impl Embedder {
    /// What decides the model's vectors.
    pub fn identity(&self) -> &Identity {
        &self.caller.identity
    }

    /// The length of a vector; 0 until a remote model has sent one.
    pub fn dimensions(&self) -> usize {
        self.model.dimensions()
    }

    /// The most tokens of a text that the model reads; `usize::MAX` if it reads
    /// longer texts in windows.
    pub fn max_tokens(&self) -> usize {
        self.model.max_tokens()
    }

    /// How many calls the model serves best at once.
    pub fn concurrency(&self) -> usize {
        match self.caller.queue {
            Some(_) => MOST_BATCHED,
            None => self.model.concurrency(),
        }
    }

    /// The most texts of one call; longer lists are split. `usize::MAX` for
    /// models that take lists of any length. In a batch of the provider, each text is a call.
    pub fn batch_size(&self) -> usize {
        match self.caller.queue {
            Some(_) => 1,
            None => self.model.batch_size(),
        }
    }

    /// The price of a million tokens, in dollars.
    fn price(&self) -> f64 {
        self.model.price() * self.caller.price_share
    }

    /// How many tokens each text has, also beyond [`Self::max_tokens`]; `None` if
    /// the tokenizer is not here.
    ///
    /// # Errors
    /// If the tokenizer fails on a text.
    pub async fn count_tokens(&self, texts: &[String], kind: InputKind) -> Result<Option<Vec<usize>>, Error> {
        self.model.count_tokens(texts, kind).await
    }

    /// Checks the lengths of texts before the first one is embedded. It does nothing
    /// unless the model's settings refuse texts that are longer than it reads.
    ///
    /// # Errors
    /// [`Error::TextTooLong`], or if the tokenizer fails on a text.
    pub async fn check_lengths(&self, texts: &[String], kind: InputKind) -> Result<(), Error> {
        self.model.check_lengths(texts, kind).await
    }

    /// One row per text, in order, each of length 1. Equal texts are embedded
    /// once: corpora hold more repeated texts than one expects.
    ///
    /// # Errors
    /// Why there are no vectors, after retries. Batches that were begun are
    /// finished and kept even if another one fails.
    pub async fn embed(&self, texts: &[String], kind: InputKind) -> Result<Matrix, Error> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut different = Vec::new();
        let row = |text| {
            *seen.entry(text).or_insert_with(|| {
                different.push(text);
                different.len() - 1
            })
        };
        let rows: Vec<usize> = texts.iter().map(String::as_str).map(row).collect();
        if different.len() == texts.len() {
            return self.embed_different(texts, kind).await;
        }
        let different: Vec<String> = different.into_iter().map(str::to_owned).collect();
        let once = self.embed_different(&different, kind).await?;
        let data = rows.into_iter().flat_map(|row| once.row(row)).copied().collect();
        Ok(Matrix { columns: once.columns, data })
    }

    async fn embed_different(&self, texts: &[String], kind: InputKind) -> Result<Matrix, Error> {
        // A single text needs no lookup of its own: its key is that of a call with this text alone, so `embed_all`
        // finds it in the journal. Vectors of an in-process model are not in the journal.
        let matrix = match self.caller.is_remote() && self.caller.client.inner.journal.is_some() && texts.len() > 1 {
            true => self.embed_missing(texts, kind).await,
            false => self.embed_all(texts, kind).await,
        }?;
        self.count(texts, kind);
        if self.caller.is_remote() && self.caller.client.inner.journal.is_some() && ledger::collects_keys() {
            let keys: Vec<Key> = texts.iter().map(|text| self.text_key(text, kind)).collect();
            ledger::record_keys(&keys);
        }
        Ok(matrix)
    }

    /// Adds to the open ledgers how many texts were embedded. Vectors from the journal count too.
    fn count(&self, texts: &[String], kind: InputKind) {
        if !texts.is_empty() {
            let counts = estimate::texts(self.model.as_ref(), texts, kind, self.caller.is_remote());
            ledger::count(self.identity(), &counts);
        }
    }

    /// Takes from the journal the vectors that it has, one for each text, and sends the other texts.
    async fn embed_missing(&self, texts: &[String], kind: InputKind) -> Result<Matrix, Error> {
        let client = &self.caller.client;
        let keys: Vec<Key> = texts.iter().map(|text| self.text_key(text, kind)).collect();
        let mut rows: Vec<Option<Matrix>> = vec![None; texts.len()];
        let place: HashMap<Key, usize> = keys.iter().copied().zip(0..).collect();
        loop {
            let absent: Vec<Key> =
                keys.iter().zip(&rows).filter(|(_, row)| row.is_none()).map(|(key, _)| *key).collect();
            if absent.is_empty() {
                break;
            }
            let claim = tokio::select! {
                biased;
                claim = client.inner.texts.claim(&absent) => claim,
                () = client.cancel.cancelled() => return Err(Error::Cancelled),
            };
            let began = tokio::time::Instant::now();
            let (mut missing, mut used, mut found) = (Vec::new(), ModelUsage::default(), 0);
            for (key, entry) in claim.keys.iter().zip(self.caller.kept(claim.keys.clone()).await?) {
                let Some(entry) = entry else {
                    missing.push(place[key]);
                    continue;
                };
                rows[place[key]] = Some(matrix(&entry.response, 1)?);
                found += 1;
                used += &StoredAnswer::from(entry).used;
            }
            if found > 0 {
                // Counts as many calls as these texts would need, each with the mean seconds of their entries.
                used.calls = usize::div_ceil(found, self.batch_size().max(1)) as u64;
                used.seconds *= used.calls as f64 / found as f64;
                ledger::record(self.identity(), &used, began);
            }
            if missing.is_empty() {
                continue;
            }
            let sent: Vec<String> = missing.iter().map(|&i| texts[i].clone()).collect();
            let made = self.embed_all(&sent, kind).await?;
            for (row, i) in missing.into_iter().enumerate() {
                rows[i] = Some(Matrix { columns: made.columns, data: made.row(row).to_vec() });
            }
        }
        joined(rows.into_iter().flatten().collect(), &self.identity().model)
    }

    /// The key of a text's vector in the journal: that of a call with this text alone.
    fn text_key(&self, text: &String, kind: InputKind) -> Key {
        self.caller.key(&EmbeddingRequest { texts: std::slice::from_ref(text), kind })
    }

    async fn embed_all(&self, texts: &[String], kind: InputKind) -> Result<Matrix, Error> {
        if texts.is_empty() {
            return Ok(Matrix { columns: self.dimensions(), data: Vec::new() });
        }
        let mut batches = texts.chunks(self.batch_size().max(1)).enumerate();
        let mut parts: Vec<Matrix> = vec![Matrix::default(); batches.len()];
        let mut calls = FuturesUnordered::new();
        let mut failure = None;
        loop {
            while failure.is_none()
                && calls.len() < self.concurrency()
                && let Some((i, batch)) = batches.next()
            {
                calls.push(async move { (i, self.batch(batch, kind).await) });
            }
            match calls.next().await {
                None => break,
                Some((i, Ok(part))) => parts[i] = part,
                Some((_, Err(error))) => {
                    failure.get_or_insert(error);
                }
            }
        }
        match failure {
            Some(error) => Err(error),
            None => joined(parts, &self.identity().model),
        }
    }

    /// One matrix per text with a row per token, each row of length 1.
    ///
    /// # Errors
    /// Why there are none; remote models have none.
    pub async fn embed_tokens(&self, texts: &[String], kind: InputKind) -> Result<Vec<Matrix>, Error> {
        // Token vectors are made in this process, and are too large to keep.
        let estimate = || estimate::embedding(self.model.as_ref(), self.price(), texts);
        let make = || async {
            let started = Instant::now();
            let (matrices, usage) = self.model.embed_tokens(texts, kind).await?;
            Ok((CallAnswer::new(usage, started), matrices))
        };
        let matrices = self.caller.direct(estimate, make).await?;
        self.count(texts, kind);
        Ok(matrices)
    }

    /// How many tokens of a text the model reads together, if it can embed
    /// parts of a text.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn window(&self) -> Result<usize, Error> {
        self.model.window()
    }

    /// One vector per part of a document's text, as
    /// [`EmbeddingModel::embed_parts`] says; none where no token lies in a part.
    ///
    /// # Errors
    /// Why there are none; remote models have none.
    pub async fn embed_parts(
        &self,
        text: &str,
        parts: &[Range<usize>],
        overlap: usize,
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        // Only models of this process embed parts of a text, and they cost nothing.
        let estimate = || BudgetAmount::cost(0.0, estimate_tokens(text) as u64);
        let make = || async {
            let started = Instant::now();
            let (vectors, usage) = self.model.embed_parts(text, parts, overlap).await?;
            if vectors.len() != parts.len() {
                let reason = format!("{} vectors for {} parts of a text", vectors.len(), parts.len());
                return Err(Error::malformed(&self.identity().model, reason));
            }
            Ok((CallAnswer::new(usage, started), vectors))
        };
        self.caller.direct(estimate, make).await
    }

    async fn batch(&self, texts: &[String], kind: InputKind) -> Result<Matrix, Error> {
        if !self.caller.is_remote() {
            let price = self.price();
            let estimate = || estimate::embedding(self.model.as_ref(), price, texts);
            return self.caller.direct(estimate, || embed(self.model.as_ref(), price, texts, kind)).await;
        }
        // Under this key, older versions kept the vectors of all these texts together.
        let key = self.caller.key(&EmbeddingRequest { texts, kind });
        let keys: Arc<[Key]> = texts.iter().map(|text| self.text_key(text, kind)).collect();
        let (model, texts): (_, Arc<[String]>) = (self.model.clone(), texts.into());
        let (estimated, asked, count) = (model.clone(), texts.clone(), texts.len());
        let price = self.price();
        let estimate = move || estimate::embedding(estimated.as_ref(), price, &asked);
        let batched = self.caller.queue.clone().map(|queue| {
            let (model, texts, keys) = (model.clone(), texts.clone(), keys.clone());
            let read = move |answer: &Value| {
                let (matrix, usage) = model.read_batched(&texts, kind, answer)?;
                // How long a batch took says nothing about the model.
                let answer = CallAnswer { usage, ..CallAnswer::default() };
                kept_apart(with_cost(answer, price), &matrix, &texts, &keys)
            };
            BatchedCall { queue, submitted: Arc::default(), read: Arc::new(read) }
        });
        let sent = batched.clone();
        let make = move || {
            let (model, texts, keys) = (model.clone(), texts.clone(), keys.clone());
            let batched = sent.clone();
            async move {
                if let Some(BatchedCall { queue, submitted, read }) = batched {
                    return read(&queue.call(key, &model.batch_body(&texts, kind), submitted).await?);
                }
                let (answer, matrix) = embed(model.as_ref(), price, &texts, kind).await?;
                kept_apart(answer, &matrix, &texts, &keys)
            }
        };
        matrix(&self.caller.answer(key, estimate, make, None, batched).await?, count)
    }
}

/// The keys under which the journal keeps the vectors of a text by a remote model: as a question and as a document.
pub fn embedding_keys(identity: &Identity, text: &str) -> [Key; 2] {
    let texts = &[text.to_owned()];
    [InputKind::Query, InputKind::Document]
        .map(|kind| call_key(EMBEDDING, identity, &EmbeddingRequest { texts, kind }).finish())
}

/// Whether the journal's response of an embedding call holds the vectors of several texts. Earlier versions kept all
/// vectors of a call together.
pub fn holds_several_vectors(response: &str) -> bool {
    let several = |line: &str| {
        let kept: Option<EmbeddingResponse> = from_text(line).ok();
        kept.is_some_and(|kept| STANDARD.decode(&kept.data).is_ok_and(|bytes| bytes.len() > 4 * kept.columns))
    };
    response.lines().count() > 1 || several(response)
}

/// A vector in the form that the journal keeps.
fn response(matrix: &Matrix, row: usize) -> Result<String, Error> {
    let bytes: Vec<u8> = matrix.row(row).iter().flat_map(|number| number.to_le_bytes()).collect();
    to_text(&EmbeddingResponse { columns: matrix.columns, data: STANDARD.encode(bytes) })
}

/// The vectors of `n_texts` texts: a line for each, or one line for all of them as older versions wrote it.
fn matrix(kept: &str, n_texts: usize) -> Result<Matrix, Error> {
    let mut all = Matrix::default();
    for line in kept.lines() {
        let EmbeddingResponse { columns, data } = from_text(line)?;
        let bytes = STANDARD.decode(&data).map_err(|error| unreadable(&error))?;
        let (numbers, _) = bytes.as_chunks::<4>();
        if !all.data.is_empty() && all.columns != columns {
            return Err(unreadable(&"its vectors differ in length"));
        }
        all.columns = columns;
        all.data.extend(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    }
    if all.rows() != n_texts || all.columns * n_texts != all.data.len() {
        return Err(unreadable(&format!("{} vectors for {n_texts} texts", all.rows())));
    }
    Ok(all)
}

/// An answer whose vectors have entries of their own in the journal.
fn kept_apart(answer: CallAnswer, matrix: &Matrix, texts: &[String], keys: &[Key]) -> Result<CallAnswer, Error> {
    let part = |(i, text): (usize, &String)| {
        Ok(AnswerPart { key: keys[i], response: response(matrix, i)?, weight: text.len() as u64 + 1 })
    };
    let parts = texts.iter().enumerate().map(part).collect::<Result<Vec<_>, Error>>()?;
    let lines: Vec<&str> = parts.iter().map(|part| part.response.as_str()).collect();
    Ok(CallAnswer { response: lines.join("\n"), parts, ..answer })
}

/// An answer with the cost of its tokens, at dollars per million.
fn with_cost(answer: CallAnswer, price: f64) -> CallAnswer {
    CallAnswer { cost_usd: answer.usage.prompt_tokens as f64 * price / 1e6, ..answer }
}

async fn embed(
    model: &dyn EmbeddingModel,
    price: f64,
    texts: &[String],
    kind: InputKind,
) -> Result<(CallAnswer, Matrix), Error> {
    let started = Instant::now();
    let (matrix, usage) = model.embed(texts, kind).await?;
    if matrix.rows() != texts.len() {
        let reason = format!("{} vectors for {} texts", matrix.rows(), texts.len());
        return Err(Error::malformed(&model.identity().model, reason));
    }
    Ok((with_cost(CallAnswer::new(usage, started), price), matrix))
}

fn joined(parts: Vec<Matrix>, model: &str) -> Result<Matrix, Error> {
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default();
    for part in parts {
        if part.columns != all.columns {
            return Err(Error::malformed(model, "its vectors differ in length"));
        }
        all.data.extend(part.data);
    }
    Ok(all)
}

/// A handle to a rerank model.
#[derive(Clone)]
pub struct Reranker {
    pub(super) caller: Caller,
    pub(super) model: Arc<dyn RerankModel>,
}

/// Everything that decides the scores of a rerank call.
#[derive(Serialize)]
struct RerankRequest<'a> {
    query: &'a str,
    passages: &'a [String],
}

impl Reranker {
    /// What decides the model's scores.
    pub fn identity(&self) -> &Identity {
        &self.caller.identity
    }

    /// How many calls the model serves best at once.
    pub fn concurrency(&self) -> usize {
        self.model.concurrency()
    }

    /// One score per passage, in order; higher is better.
    ///
    /// # Errors
    /// Why there are no scores, after retries.
    pub async fn rerank(&self, query: &str, passages: &[String]) -> Result<Vec<f32>, Error> {
        if passages.is_empty() {
            return Ok(Vec::new());
        }
        let scores = self.score(query, passages).await?;
        let (texts, max_tokens) = (passages.len() as u64, self.model.max_tokens().map_or(0, estimate::stated));
        ledger::count(self.identity(), &ModelUsage { texts, max_tokens, ..ModelUsage::default() });
        Ok(scores)
    }

    async fn score(&self, query: &str, passages: &[String]) -> Result<Vec<f32>, Error> {
        if !self.caller.is_remote() {
            let estimate = || estimate::rerank(self.model.as_ref(), query, passages);
            return self.caller.direct(estimate, || rerank(self.model.as_ref(), query, passages)).await;
        }
        let key = self.caller.key(&RerankRequest { query, passages });
        let (model, query, passages): (_, Arc<str>, Arc<[String]>) =
            (self.model.clone(), query.into(), passages.into());
        let (estimated, asked) = (model.clone(), (query.clone(), passages.clone()));
        let estimate = move || estimate::rerank(estimated.as_ref(), &asked.0, &asked.1);
        let make = move || {
            let (model, query, passages) = (model.clone(), query.clone(), passages.clone());
            async move {
                let (answer, scores) = rerank(model.as_ref(), &query, &passages).await?;
                Ok(CallAnswer { response: to_text(&scores)?, ..answer })
            }
        };
        from_text(&self.caller.answer(key, estimate, make, None, None).await?)
    }
}

async fn rerank(model: &dyn RerankModel, query: &str, passages: &[String]) -> Result<(CallAnswer, Vec<f32>), Error> {
    let started = Instant::now();
    let (scores, usage) = model.rerank(query, passages).await?;
    if scores.len() != passages.len() || scores.iter().any(|score| !score.is_finite()) {
        let reason = format!("{} scores for {} passages, or some that are no numbers", scores.len(), passages.len());
        return Err(Error::malformed(&model.identity().model, reason));
    }
    let cost_usd = usage.prompt_tokens as f64 * model.price() / 1e6;
    Ok((CallAnswer { cost_usd, ..CallAnswer::new(usage, started) }, scores))
}

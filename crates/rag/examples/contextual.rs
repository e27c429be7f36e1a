//! What `contextual` computes for a folder's chunks, compared with a loop that
//! sends whole prompts.
//!
//! `contextual MODEL.gguf FOLDER [CHUNKS] [MAX_TOKENS] [CHUNK_SIZE]` cuts the
//! text files of FOLDER (`sentence`, 256 tokens) until there are CHUNKS (default
//! 500), writes a context for each, and prints tokens and seconds: those of all
//! prompts, those that are unique (what two prompts share at their beginning
//! counts once), and those that were computed. Then the same prompts of the
//! first 5 % go one after the other through a model that reuses nothing.

use async_trait::async_trait;
use models::{
    Chat, ChatConfig, ChatModel, ChatRequest, ChatResponse, Client, CpuBudget, Error as ModelError, Identity, Model,
    ModelDirectory, Usage, provider,
};
use rag::{
    Chunk, Context, Document, Error, Models,
    chunk::ChunkerConfig,
    enrich::EnrichConfig,
    load::{self, ParseLimits},
};
use serde_json::json;
use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tokio::sync::Semaphore;

/// Tokens of `<|im_end|>`, a line break, `<|im_start|>`, `assistant` and a line break.
const OPENING: u64 = 5;

type Failure = Box<dyn std::error::Error>;

/// A model that remembers what it was asked, and what that took.
struct Recorder {
    model: Arc<dyn ChatModel>,
    asked: Mutex<Vec<(ChatRequest, Usage)>>,
}

impl Model for Recorder {
    fn identity(&self) -> &Identity {
        self.model.identity()
    }
    fn concurrency(&self) -> usize {
        self.model.concurrency()
    }
}

#[async_trait]
impl ChatModel for Recorder {
    fn context_length(&self) -> usize {
        self.model.context_length()
    }
    fn count_tokens(&self, text: &str) -> usize {
        self.model.count_tokens(text)
    }
    fn turns(&self) -> Option<&Arc<Semaphore>> {
        self.model.turns()
    }
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let response = self.model.chat(request).await?;
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push((request.clone(), response.usage));
        Ok(response)
    }
}

/// The one model of this program, under every name.
struct One(Chat);

impl Models for One {
    fn chat(&self, _: &str) -> Result<Chat, Error> {
        Ok(self.0.clone())
    }
    fn embedder(&self, _: &str) -> Result<models::Embedder, Error> {
        Err(Error::Needs { component: "this program", part: "an embedder" })
    }
    fn reranker(&self, _: &str) -> Result<models::Reranker, Error> {
        Err(Error::Needs { component: "this program", part: "a reranker" })
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, folder, numbers @ ..] = arguments.as_slice() else {
        return Err("usage: contextual MODEL.gguf FOLDER [CHUNKS] [MAX_TOKENS] [CHUNK_SIZE]".into());
    };
    let number = |at: usize, default: usize| numbers.get(at).map_or(Ok(default), |number| number.parse());
    let (wanted, max_tokens, chunk_size) = (number(0, 500)?, number(1, 100)?, number(2, 256)?);
    let documents = documents(folder, wanted, chunk_size)?;
    let chunks: usize = documents.iter().map(|(_, chunks)| chunks.len()).sum();

    let recorder = Arc::new(Recorder { model: model(path, 4)?, asked: Mutex::default() });
    let models = One(Client::new(None).chat(recorder.clone()));
    let cx = Context { models: Some(&models), ..Context::default() };
    let enricher: EnrichConfig =
        serde_json::from_value(json!({ "contextual": { "model": "one", "max_tokens": max_tokens } }))?;
    let enricher = enricher.build(&cx)?;
    let started = Instant::now();
    // As a run does: several documents at a time.
    let work = documents
        .iter()
        .map(async |(document, chunks)| enricher.enrich(document, &chunks.iter().collect::<Vec<_>>()).await.map(drop));
    for done in futures::future::join_all(work).await {
        done?;
    }
    let seconds = started.elapsed().as_secs_f64();

    let mut asked = std::mem::take(&mut *recorder.asked.lock().unwrap_or_else(PoisonError::into_inner));
    let prompt: u64 = asked.iter().map(|(_, usage)| usage.prompt_tokens).sum();
    let cached: u64 = asked.iter().map(|(_, usage)| usage.cached_tokens).sum();
    let written: u64 = asked.iter().map(|(_, usage)| usage.completion_tokens).sum();
    let unique = unique(&*recorder.model, &mut asked);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} documents, {chunks} chunks", documents.len())?;
    writeln!(out, "tokens of all prompts  {prompt:>10}")?;
    writeln!(out, "unique                 {unique:>10}")?;
    let computed = prompt - cached;
    writeln!(out, "computed               {computed:>10}   {:.3} x unique", computed as f64 / unique as f64)?;
    writeln!(out, "written                {written:>10}   {seconds:.1} s in all")?;

    // One slot and a number before each prompt prevent reuse; a new model each time would read its weights again.
    let alone = model(path, 1)?;
    let some = (asked.len() / 20).max(1);
    let started = Instant::now();
    let mut usage = Usage::default();
    for (number, (request, _)) in asked.iter().step_by(20).take(some).enumerate() {
        let mut request = request.clone();
        if let Some(first) = request.messages.first_mut() {
            first.content = format!("{number} {}", first.content);
        }
        usage += alone.chat(&request).await?.usage;
    }
    let each = started.elapsed().as_secs_f64() / some as f64;
    let tokens = (usage.prompt_tokens - usage.cached_tokens) as f64 / some as f64;
    writeln!(
        out,
        "without reuse: {tokens:.0} tokens computed a chunk beside {:.0}; {each:.2} s a chunk beside {:.2}",
        computed as f64 / chunks as f64,
        seconds / chunks as f64
    )?;
    Ok(())
}

fn model(path: &str, sequences: usize) -> Result<Arc<dyn ChatModel>, Failure> {
    let config: ChatConfig =
        serde_json::from_value(json!({ "local": { "model": path, "context_length": 8192, "sequences": sequences } }))?;
    let cores = std::thread::available_parallelism()?.get();
    let directory = ModelDirectory::new(PathBuf::from("."), Vec::new());
    Ok(config.build(&provider::ModelContext {
        directory,
        cpu: CpuBudget::new(cores),
        environment: Arc::new(|_| None),
    })?)
}

fn documents(folder: &str, wanted: usize, chunk_size: usize) -> Result<Vec<(Document, Vec<Chunk>)>, Failure> {
    let chunker: ChunkerConfig =
        serde_json::from_value(json!({ "sentence": { "chunk_size": chunk_size, "chunk_overlap": 0 } }))?;
    let chunker = chunker.build(&Context::default())?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut documents = Vec::new();
    let mut left = wanted;
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let document = load::parse(&name, &std::fs::read(&file)?, &ParseLimits::default())?;
        let mut chunks = chunker.chunk_now(&document)?;
        chunks.truncate(left);
        left -= chunks.len();
        if !chunks.is_empty() {
            documents.push((document, chunks));
        }
    }
    Ok(documents)
}

/// Tokens of all prompts; a beginning that a prompt shares with the one sorted
/// before it counts once.
fn unique(model: &dyn ChatModel, asked: &mut [(ChatRequest, Usage)]) -> u64 {
    let text = |request: &ChatRequest| request.messages.iter().map(|message| &*message.content).collect::<String>();
    asked.sort_by_key(|(request, _)| text(request));
    let mut before = String::new();
    let mut unique = 0;
    for (request, usage) in asked {
        let text = text(request);
        let shared = text.char_indices().zip(before.chars()).find(|((_, a), b)| a != b);
        let shared = shared.map_or(text.len().min(before.len()), |((at, _), _)| at);
        let template = usage.prompt_tokens.saturating_sub(model.count_tokens(&text) as u64);
        // Of what the chat template adds, the opening of the answer stands behind what is shared.
        let shared = match before.is_empty() {
            true => 0,
            false => model.count_tokens(&text[..shared]) as u64 + template.saturating_sub(OPENING),
        };
        unique += usage.prompt_tokens.saturating_sub(shared);
        before = text;
    }
    unique
}

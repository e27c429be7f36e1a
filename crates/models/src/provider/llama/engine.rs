//! One thread per model that owns weights and context. All requests it has
//! are decoded as one batch per step: those that write first, and what room
//! is left is filled with prompts, so that neither waits for the other.
//!
//! Weights are loaded with the first request. A request whose caller is gone
//! ends with the next step. The cores are taken from the [`CpuBudget`] for
//! one step at a time, so that embedding and decoding take turns.

use super::{
    Sampler, Vocabulary, Writer, backend,
    contention::{Advice, Contention},
    sampler::group_probabilities,
    slots::{Place, Slots},
};
use crate::{CpuBudget, Error, Finish};
use llama_cpp_2::{
    DecodeError,
    context::{LlamaContext, params::LlamaContextParams, session::LlamaStateSeqFlags},
    llama_batch::LlamaBatch,
    model::{LlamaModel, params::LlamaModelParams},
    token::LlamaToken,
};
use std::{collections::VecDeque, num::NonZeroU32, path::PathBuf, sync::Arc};
use tokio::{
    runtime::Runtime,
    sync::{mpsc, oneshot},
};

/// Tokens per step, prompts and answers together. More makes prompts hardly
/// faster, and a step that cannot be interrupted longer.
const BATCH: usize = 256;

/// What an engine is started with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The model's name, for errors.
    pub(crate) model: String,
    /// The GGUF file.
    pub(crate) path: PathBuf,
    /// Prompt and answer of one request, in tokens.
    pub(crate) context_length: usize,
    /// How many requests are decoded together.
    pub(crate) sequences: usize,
    /// How many threads a step uses while nobody else wants the cores.
    pub(crate) threads: usize,
    /// The cores.
    pub(crate) cpu: CpuBudget,
}

/// A request that was checked and is ready to run.
#[derive(Debug)]
pub(crate) struct Job {
    /// The conversation up to where the answer begins; never empty.
    pub(crate) prompt: Vec<LlamaToken>,
    /// What is asked for.
    pub(crate) goal: Goal,
    /// Kept until the job is done, since a grammar refers to it.
    pub(crate) vocabulary: Arc<Vocabulary>,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Goal {
    /// The probabilities of groups of tokens as the first token of the answer.
    Choices(Vec<Vec<i32>>),
    /// An answer in words.
    Text(Box<Writing>),
}

/// An answer being written.
#[derive(Debug)]
pub(crate) struct Writing {
    /// Chooses its tokens.
    pub(crate) sampler: Sampler,
    /// Puts its text together.
    pub(crate) writer: Writer,
    /// How many tokens it may have, at least 1.
    pub(crate) limit: usize,
}

/// What came of a job.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The answer.
    pub(crate) text: String,
    /// Why it ended; `None` for choices.
    pub(crate) finish: Option<Finish>,
    /// One probability per choice.
    pub(crate) choices: Vec<f64>,
    /// How many tokens of the prompt were there already.
    pub(crate) cached: usize,
    /// How many tokens were written.
    pub(crate) written: usize,
}

type Reply = oneshot::Sender<Result<Outcome, Error>>;

/// A handle to the thread; the thread ends when the last handle is gone.
#[derive(Debug)]
pub(crate) struct Engine {
    model: String,
    jobs: mpsc::UnboundedSender<(Job, Reply)>,
}

impl Engine {
    /// Starts the thread. It sleeps, and holds no weights, until the first job.
    pub(crate) fn start(settings: Settings) -> Result<Self, Error> {
        let model = settings.model.clone();
        let failed = |error: std::io::Error| Error::Runtime { model: model.clone(), reason: format!("no thread could be started: {error}") };
        // Without drivers this is only a place to wait for cores in.
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(failed)?;
        let (jobs, receiver) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("llama".into())
            .spawn(move || serve(&settings, &runtime, receiver))
            .map_err(failed)?;
        Ok(Self { model, jobs })
    }

    /// Runs a job. Dropping the future ends it.
    pub(crate) async fn run(&self, job: Job) -> Result<Outcome, Error> {
        let gone = || Error::Runtime { model: self.model.clone(), reason: "its thread has ended".into() };
        let (reply, outcome) = oneshot::channel();
        self.jobs.send((job, reply)).map_err(|_| gone())?;
        outcome.await.map_err(|_| gone())?
    }
}

/// Loads the weights for the first job; where that fails, the next job tries again.
fn serve(settings: &Settings, runtime: &Runtime, mut jobs: mpsc::UnboundedReceiver<(Job, Reply)>) {
    while let Some(first) = jobs.blocking_recv() {
        if first.1.is_closed() {
            continue;
        }
        let loaded = backend().and_then(|backend| {
            LlamaModel::load_from_file(backend, &settings.path, &LlamaModelParams::default()).map_err(|_| Error::BadFile {
                path: settings.path.display().to_string(),
                reason: "llama.cpp cannot load its weights: it is cut off, or does not fit into memory".into(),
            })
        });
        let error = match loaded {
            Err(error) => error,
            Ok(model) => match Worker::new(settings, &model) {
                Ok(mut worker) => {
                    worker.waiting.push_back(first);
                    return worker.run(runtime, jobs);
                }
                Err(error) => error,
            },
        };
        // The caller may be gone, and then nobody needs to know.
        let _ = first.1.send(Err(error));
    }
}

/// A job that has a slot.
struct Active {
    slot: usize,
    cached: usize,
    written: usize,
    job: Job,
    reply: Reply,
}

/// Everything the thread owns.
struct Worker<'model> {
    settings: &'model Settings,
    model: &'model LlamaModel,
    context: LlamaContext<'model>,
    batch: LlamaBatch<'static>,
    slots: Slots,
    active: Vec<Active>,
    waiting: VecDeque<(Job, Reply)>,
    threads: usize,
    contention: Contention,
}

impl<'model> Worker<'model> {
    fn new(settings: &'model Settings, model: &'model LlamaModel) -> Result<Self, Error> {
        Ok(Self {
            settings,
            model,
            context: context(settings, model, settings.threads)?,
            batch: LlamaBatch::new(BATCH, 1),
            slots: Slots::new(slot_count(settings.sequences)),
            active: Vec::new(),
            waiting: VecDeque::new(),
            threads: settings.threads,
            contention: Contention::new(),
        })
    }

    fn run(mut self, runtime: &Runtime, mut jobs: mpsc::UnboundedReceiver<(Job, Reply)>) {
        loop {
            while let Ok(job) = jobs.try_recv() {
                self.waiting.push_back(job);
            }
            self.drop_abandoned();
            if self.active.is_empty() && self.waiting.is_empty() {
                match jobs.blocking_recv() {
                    Some(job) => self.waiting.push_back(job),
                    None => return,
                }
                continue;
            }
            let last_rows = self.fill_batch();
            if self.batch.n_tokens() == 0 {
                continue;
            }
            let decoded = {
                let _cores = runtime.block_on(self.settings.cpu.acquire(self.threads));
                self.decode()
            };
            match decoded {
                Ok(()) => self.use_logits(&last_rows),
                Err(error) => self.fail_all(&error),
            }
            self.adapt();
        }
    }

    /// Ends what nobody waits for any more.
    fn drop_abandoned(&mut self) {
        self.waiting.retain(|(_, reply)| !reply.is_closed());
        let slots = &mut self.slots;
        self.active.retain(|active| {
            let wanted = !active.reply.is_closed();
            if !wanted {
                slots.release(active.slot);
            }
            wanted
        });
    }

    /// Puts the next step together; returns which job's logits will be in
    /// which row. Requests that write come first, since each needs one token.
    fn fill_batch(&mut self) -> Vec<(usize, i32)> {
        self.batch.clear();
        let mut last_rows = Vec::with_capacity(self.active.len());
        let (writing, reading): (Vec<usize>, Vec<usize>) = (0..self.active.len()).partition(|&index| {
            let slot = self.slots.get(self.active[index].slot);
            slot.tokens.len() - slot.computed == 1
        });
        for index in writing.into_iter().chain(reading) {
            self.schedule(index, &mut last_rows);
        }
        while self.room() > 0 && self.active.len() < self.settings.sequences && self.admit() {
            self.schedule(self.active.len() - 1, &mut last_rows);
        }
        last_rows
    }

    fn room(&self) -> usize {
        BATCH - self.batch.n_tokens() as usize
    }

    fn schedule(&mut self, index: usize, last_rows: &mut Vec<(usize, i32)>) {
        let room = self.room();
        let id = self.active[index].slot;
        let slot = self.slots.get_mut(id);
        let end = slot.tokens.len().min(slot.computed + room);
        for position in slot.computed..end {
            let last = position + 1 == slot.tokens.len();
            let row = self.batch.n_tokens();
            // There is room, so adding cannot fail.
            if self.batch.add(LlamaToken(slot.tokens[position]), position as i32, &[id as i32], last).is_err() {
                break;
            }
            slot.scheduled += 1;
            if last {
                last_rows.push((index, row));
            }
        }
    }

    /// Gives the next waiting job a slot. Says whether it did.
    fn admit(&mut self) -> bool {
        let Some((job, reply)) = self.waiting.pop_front() else { return false };
        let prompt: Vec<i32> = job.prompt.iter().map(|token| token.0).collect();
        let (slot, cached) = match self.slots.place(&prompt) {
            None | Some(Place::Later) => {
                self.waiting.push_front((job, reply));
                return false;
            }
            Some(Place::Continue { slot, reuse }) => (slot, self.keep(slot, reuse)),
            Some(Place::Share { slot, source, reuse }) => (slot, self.share(source, slot, reuse)),
        };
        self.slots.occupy(slot, prompt, cached);
        self.active.push(Active { slot, cached, written: 0, job, reply });
        true
    }

    /// Keeps the beginning of a slot. A model with a running state instead of
    /// a cache can only forget all of it.
    fn keep(&mut self, slot: usize, reuse: usize) -> usize {
        if self.context.kv_cache_seq_rm(slot as i32, Some(reuse as u32), None).is_ok() {
            return reuse;
        }
        self.forget(slot);
        0
    }

    fn share(&mut self, source: usize, slot: usize, reuse: usize) -> usize {
        self.forget(slot);
        if self.model.is_recurrent() || self.model.is_hybrid() {
            return 0;
        }
        match self.context.kv_cache_seq_cp(source as i32, slot as i32, Some(0), Some(reuse as u32)) {
            Ok(()) => reuse,
            Err(_) => 0,
        }
    }

    fn forget(&mut self, slot: usize) {
        // Removing a whole sequence is always possible.
        let _ = self.context.clear_kv_cache_seq(Some(slot as u32), None, None);
        self.slots.clear(slot);
    }

    /// Decodes the batch, giving up kept prefixes while there is no room.
    fn decode(&mut self) -> Result<(), Error> {
        loop {
            match self.context.decode(&mut self.batch) {
                Ok(()) => return Ok(()),
                Err(DecodeError::NoKvCacheSlot) => match self.slots.evictable() {
                    Some(slot) => self.forget(slot),
                    None => return Err(self.failure("its context is full")),
                },
                Err(error) => return Err(self.failure(&error.to_string())),
            }
        }
    }

    fn failure(&self, reason: &str) -> Error {
        Error::Runtime { model: self.settings.model.clone(), reason: reason.into() }
    }

    /// After a failed step nothing is known of the context's content.
    fn fail_all(&mut self, error: &Error) {
        for active in std::mem::take(&mut self.active) {
            let _ = active.reply.send(Err(error.clone()));
        }
        self.context.clear_kv_cache();
        self.slots = Slots::new(slot_count(self.settings.sequences));
    }

    /// Takes a token, or the probabilities, from each row that has logits.
    fn use_logits(&mut self, last_rows: &[(usize, i32)]) {
        for active in &self.active {
            let slot = self.slots.get_mut(active.slot);
            slot.computed += std::mem::take(&mut slot.scheduled);
        }
        let mut done = Vec::new();
        for &(index, row) in last_rows {
            let active = &mut self.active[index];
            let logits = self.context.get_logits_ith(row);
            let finish = match &mut active.job.goal {
                Goal::Choices(_) => Some(None),
                Goal::Text(writing) => match next_token(self.model, writing, &mut active.written, logits) {
                    Next::Token(token) => {
                        self.slots.get_mut(active.slot).tokens.push(token.0);
                        None
                    }
                    Next::Finish(finish) => Some(Some(finish)),
                },
            };
            if let Some(finish) = finish {
                let choices = match &active.job.goal {
                    Goal::Choices(groups) => group_probabilities(logits, groups),
                    Goal::Text(_) => Vec::new(),
                };
                done.push((index, finish, choices));
            }
        }
        // From the end, so that indices stay right while jobs are taken out.
        done.sort_by_key(|(index, ..)| std::cmp::Reverse(*index));
        for (index, finish, choices) in done {
            let Active { slot, cached, written, job, reply } = self.active.remove(index);
            self.slots.release(slot);
            let Job { goal, vocabulary, .. } = job;
            let text = match goal {
                Goal::Text(writing) => writing.writer.finish(),
                Goal::Choices(_) => String::new(),
            };
            // The grammar inside the goal is gone now, so its vocabulary may go.
            drop(vocabulary);
            let _ = reply.send(Ok(Outcome { text, finish, choices, cached, written }));
        }
    }

    /// Changes the number of threads when other programs come or go. The
    /// context cannot change it, so a new one takes the sequences over.
    fn adapt(&mut self) {
        if self.settings.threads == 1 {
            return;
        }
        let threads = match self.contention.advice() {
            Advice::Stay => return,
            Advice::Narrow => 1,
            Advice::Widen => self.settings.threads,
        };
        let Ok(mut context) = context(self.settings, self.model, threads) else { return };
        for index in 0..slot_count(self.settings.sequences) {
            let (id, flags) = (index as i32, LlamaStateSeqFlags::empty());
            let slot = self.slots.get_mut(index);
            // What cannot be taken over is computed again.
            let taken = slot.active
                && slot.computed > 0
                && self.context.state_seq_get(id, flags).is_ok_and(|state| context.state_seq_set(&state, id).is_ok());
            if !slot.active {
                self.slots.clear(index);
            } else if !taken {
                let _ = context.clear_kv_cache_seq(Some(index as u32), None, None);
                slot.computed = 0;
            }
        }
        self.context = context;
        self.threads = threads;
    }
}

enum Next {
    Token(LlamaToken),
    Finish(Finish),
}

fn next_token(model: &LlamaModel, writing: &mut Writing, written: &mut usize, logits: &[f32]) -> Next {
    // A grammar that allows nothing more leaves an answer that is cut off.
    let Some(token) = writing.sampler.choose(logits) else { return Next::Finish(Finish::Length) };
    if model.vocab().is_eog(token) {
        return Next::Finish(Finish::Stop);
    }
    *written += 1;
    if writing.writer.push(&model.vocab().token_to_piece(token, false, None)) {
        Next::Finish(Finish::Stop)
    } else if *written >= writing.limit {
        Next::Finish(Finish::Length)
    } else {
        Next::Token(token)
    }
}

/// Twice as many as are decoded together: the others keep the prefixes of
/// requests that are done (of the prompts of a judge beside those of a
/// generator, say). They cost no memory: cells are shared and given up on demand.
fn slot_count(sequences: usize) -> usize {
    2 * sequences
}

fn context<'model>(settings: &Settings, model: &'model LlamaModel, threads: usize) -> Result<LlamaContext<'model>, Error> {
    let cells = settings.context_length.min(model.n_ctx_train() as usize) * settings.sequences;
    let parameters = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(cells as u32))
        .with_n_batch(BATCH as u32)
        .with_n_ubatch(BATCH as u32)
        .with_n_seq_max(slot_count(settings.sequences) as u32)
        // One pool of cells for all sequences: sharing a prefix is then a
        // mark on its cells, not a copy, and a step mixes sequences freely.
        .with_kv_unified(true)
        // On a CPU this is what skips the cells of other sequences.
        .with_flash_attention_policy(FLASH_ATTENTION)
        .with_n_threads(threads as i32)
        .with_n_threads_batch(threads as i32)
        .with_no_perf(true);
    model.new_context(backend()?, parameters).map_err(|error| Error::Runtime {
        model: settings.model.clone(),
        reason: format!("a context of {cells} tokens could not be made: {error}"),
    })
}

/// llama.cpp's `LLAMA_FLASH_ATTN_TYPE_ENABLED`.
const FLASH_ATTENTION: i32 = 1;

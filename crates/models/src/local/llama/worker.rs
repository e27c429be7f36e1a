//! One thread's context: computes a prompt, then writes the answer.

use super::{
    backend,
    contention::Contention,
    job::{AnswerTask, Goal, JobOutcome, LlamaJob, OutcomeSender, ids},
    sampler::group_probabilities,
    shared::{EngineSettings, EngineState, PromptState},
    slots::{PromptSlots, SlotChoice, shared_prefix},
};
use crate::{Error, Finish, OnPiece};
use llama_cpp_2::{
    context::{LlamaContext, params::LlamaContextParams, session::LlamaStateSeqFlags},
    llama_batch::LlamaBatch,
    model::LlamaModel,
    token::LlamaToken,
};
use std::{num::NonZeroU32, time::Instant};
use tokio::runtime::Runtime;

/// The most prompt tokens of a step. More is hardly faster (measured: 1 % from 128 to
/// 512), and a step cannot be interrupted.
const STEP_TOKENS: usize = 128;

/// Steps of a prompt begin at multiples of this, and have no fewer tokens
/// unless the whole prompt is shorter. Kernels round differently for fewer than
/// 8 tokens, and for those left over from groups of 4. With whole grains, it
/// makes no difference to a token where a reused prefix ended.
const GRAIN: usize = 16;

/// Everything a thread owns.
pub(super) struct LlamaWorker<'a> {
    shared: &'a EngineState,
    model: &'a LlamaModel,
    runtime: &'a Runtime,
    thread: usize,
    context: LlamaContext<'a>,
    batch: LlamaBatch<'static>,
    slots: PromptSlots,
    /// Whether a copied sequence waits for the next step: llama.cpp only notes a copy, and moves the data with the next
    /// decode. Until then the sequence has the old data, so nothing is lent to other threads or moved to a new context.
    copying: bool,
    threads: usize,
    contention: Contention,
}

impl<'a> LlamaWorker<'a> {
    pub(super) fn new(
        shared: &'a EngineState,
        model: &'a LlamaModel,
        runtime: &'a Runtime,
        thread: usize,
    ) -> Result<Self, Error> {
        let threads = shared.threads_for_a_call();
        Ok(Self {
            shared,
            model,
            runtime,
            thread,
            context: context(shared, model, threads)?,
            batch: LlamaBatch::new(STEP_TOKENS, 1),
            slots: PromptSlots::new(shared.settings.slots_each()),
            copying: false,
            threads,
            contention: Contention::new(),
        })
    }

    /// The prompts that are held for reuse.
    pub(super) fn prompts(&self) -> Vec<Vec<i32>> {
        self.slots.prompts()
    }

    /// Does a job. Afterwards a slot holds its prompt, or, after a failure,
    /// nothing.
    pub(super) fn answer(&mut self, job: LlamaJob, reply: &OutcomeSender) -> Result<JobOutcome, Error> {
        let started = Instant::now();
        let prompt = ids(&job.prompt);
        // The end of the prompt is always computed anew: the answer needs the logits of its last token, and a step has
        // at least a whole grain.
        let wanted = &prompt[..prompt.len().saturating_sub(GRAIN)];
        self.borrow(wanted);
        let (slot, cached) = match self.slots.place(wanted) {
            SlotChoice::Continue { slot, reuse } => (slot, self.keep(slot, whole_grains(reuse))),
            SlotChoice::Copy { slot, source, reuse } => (slot, self.copy(source, slot, whole_grains(reuse))),
        };
        // Until all of the prompt is computed, the slot counts as empty.
        self.slots.clear(slot);
        let outcome = self.read(slot, &job.prompt, cached, reply).and_then(|row| match job.goal {
            Goal::Choices(groups) => Ok(JobOutcome {
                choices: group_probabilities(self.context.get_logits_ith(row), &groups),
                ..JobOutcome::default()
            }),
            Goal::Text(writing) => self.write(slot, prompt.len(), *writing, row, reply),
        });
        // Written tokens, and the rest after the last whole grain, were
        // computed in another way than the same tokens in a longer prompt would
        // be.
        let whole = whole_grains(prompt.len());
        if outcome.is_ok() && self.keep(slot, whole) == whole {
            self.slots.hold(slot, prompt[..whole].to_vec());
        } else {
            self.forget(slot);
        }
        // The grammar inside the goal is gone now, so its vocabulary may go.
        drop(job.vocabulary);
        outcome.map(|outcome| JobOutcome { cached, seconds: started.elapsed().as_secs_f64(), ..outcome })
    }

    /// Computes a prompt from `cached` on; returns the row of the last logits.
    fn read(&mut self, slot: usize, prompt: &[LlamaToken], cached: usize, reply: &OutcomeSender) -> Result<i32, Error> {
        let mut done = cached;
        loop {
            let left = prompt.len() - done;
            // The last step, too, must have a whole grain.
            let step = match left {
                ..=STEP_TOKENS => left,
                _ if left < STEP_TOKENS + GRAIN => STEP_TOKENS - GRAIN,
                _ => STEP_TOKENS,
            };
            self.batch.clear();
            for position in done..done + step {
                self.add(slot, prompt[position], position, position + 1 == prompt.len())?;
            }
            self.decode(slot, reply)?;
            done += step;
            if done == prompt.len() {
                return Ok(step as i32 - 1);
            }
        }
    }

    /// Writes an answer, one token per step.
    fn write(
        &mut self,
        slot: usize,
        mut position: usize,
        mut writing: AnswerTask,
        mut row: i32,
        reply: &OutcomeSender,
    ) -> Result<JobOutcome, Error> {
        let mut written = 0;
        let finish = loop {
            let logits = self.context.get_logits_ith(row);
            // If the grammar allows no further token, the answer is cut off.
            let Some(token) = writing.sampler.choose(logits) else { break Finish::Length };
            if self.model.vocab().is_eog(token) {
                break Finish::Stop;
            }
            written += 1;
            if writing.writer.push(&self.model.vocab().token_to_piece(token, false, None)) {
                break Finish::Stop;
            }
            if let Some(on_piece) = &writing.on_piece {
                show(on_piece, &writing.writer.ready());
            }
            if written == writing.limit {
                break Finish::Length;
            }
            self.batch.clear();
            self.add(slot, token, position, true)?;
            self.decode(slot, reply)?;
            (position, row) = (position + 1, 0);
        };
        let (text, rest) = writing.writer.finish();
        if let Some(on_piece) = &writing.on_piece {
            show(on_piece, text.get(rest..).unwrap_or_default());
        }
        Ok(JobOutcome { text, finish: Some(finish), written, ..JobOutcome::default() })
    }

    fn add(&mut self, slot: usize, token: LlamaToken, position: usize, logits: bool) -> Result<(), Error> {
        self.batch.add(token, position as i32, &[slot as i32], logits).map_err(|error| self.shared.failure(error))
    }

    /// Computes the batch, on cores that no other part of this process uses
    /// meanwhile, unless nobody waits for the result any more.
    fn decode(&mut self, slot: usize, reply: &OutcomeSender) -> Result<(), Error> {
        if reply.is_closed() {
            return Err(Error::Cancelled);
        }
        // Before the batch is computed: its logits, which the caller reads afterwards, lie in the context, and `adapt`
        // may replace the context.
        self.adapt(slot);
        if !self.copying {
            self.shared.queue.lend(self.thread, |prompt| self.copy_of(prompt));
        }
        let cores = self.shared.settings.cpu.acquire(self.threads);
        let _cores = self.runtime.block_on(cores);
        self.context.decode(&mut self.batch).map_err(|error| self.shared.failure(error))?;
        self.copying = false;
        Ok(())
    }

    /// Keeps the beginning of a slot; returns how much of it is there. A model
    /// with a running state instead of a cache can only forget all of it.
    fn keep(&mut self, slot: usize, reuse: usize) -> usize {
        if self.context.kv_cache_seq_rm(slot as i32, Some(reuse as u32), None).is_ok() {
            return reuse;
        }
        self.forget(slot);
        0
    }

    fn copy(&mut self, source: usize, slot: usize, reuse: usize) -> usize {
        self.forget(slot);
        if self.model.is_recurrent() || self.model.is_hybrid() {
            return 0;
        }
        // Each sequence of this context has its own memory (`with_kv_unified(false)`), so it can only be copied as a
        // whole.
        match self.context.kv_cache_seq_cp(source as i32, slot as i32, None, None) {
            Ok(()) => {
                self.copying = true;
                self.keep(slot, reuse)
            }
            Err(_) => 0,
        }
    }

    /// Takes over what another thread has computed of a prompt, if it is more
    /// than what this one holds.
    fn borrow(&mut self, wanted: &[i32]) {
        let own = self.slots.longest_shared(wanted);
        let Some(lent) = self.shared.queue.borrow(self.thread, wanted, own) else { return };
        // The prompts of the other thread may have changed since it last reported them.
        if shared_prefix(&lent.tokens, wanted) <= own {
            return;
        }
        let slot = self.slots.oldest();
        self.forget(slot);
        match self.context.state_seq_set(&lent.state, slot as i32) {
            Ok(()) => self.slots.hold(slot, lent.tokens),
            Err(_) => self.forget(slot),
        }
    }

    /// A copy, for another thread, of the slot that holds most of a prompt.
    pub(super) fn copy_of(&self, prompt: &[i32]) -> Option<PromptState> {
        // A model with a running state could not go back to the end of the shared prefix.
        if self.copying || self.model.is_recurrent() || self.model.is_hybrid() {
            return None;
        }
        let slot = self.slots.nearest(prompt);
        let state = self.context.state_seq_get(slot as i32, LlamaStateSeqFlags::empty()).ok()?;
        Some(PromptState { tokens: self.slots.prompt(slot).to_vec(), state })
    }

    fn forget(&mut self, slot: usize) {
        // Removing a whole sequence is always possible.
        let _ = self.context.clear_kv_cache_seq(Some(slot as u32), None, None);
        self.slots.clear(slot);
    }

    /// Changes the number of threads when calls or other programs come or go. A
    /// context cannot change its number of threads, so a new context takes
    /// everything over.
    fn adapt(&mut self, current: usize) {
        let crowded = self.contention.crowded();
        let threads = if crowded { 1 } else { self.shared.threads_for_a_call() };
        if threads == self.threads || self.copying {
            return;
        }
        let Ok(mut context) = context(self.shared, self.model, threads) else { return };
        for slot in 0..self.shared.settings.slots_each() {
            let id = slot as i32;
            let state = self.context.state_seq_get(id, LlamaStateSeqFlags::empty());
            match state.and_then(|state| context.state_seq_set(&state, id)) {
                Ok(()) => {}
                Err(_) if slot == current => return,
                Err(_) => self.slots.clear(slot),
            }
        }
        (self.context, self.threads) = (context, threads);
    }
}

fn show(on_piece: &OnPiece, piece: &str) {
    if !piece.is_empty() {
        on_piece(piece);
    }
}

fn whole_grains(tokens: usize) -> usize {
    tokens / GRAIN * GRAIN
}

fn context<'a>(shared: &EngineState, model: &'a LlamaModel, threads: usize) -> Result<LlamaContext<'a>, Error> {
    let EngineSettings { context_length, .. } = shared.settings;
    let slots = shared.settings.slots_each();
    let cells = context_length.min(model.n_ctx_train() as usize) * slots;
    let parameters = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(cells as u32))
        .with_n_batch(STEP_TOKENS as u32)
        .with_n_ubatch(STEP_TOKENS as u32)
        .with_n_seq_max(slots as u32)
        // Each sequence has its own memory, in order: attention then adds up
        // in the same order whatever was computed before.
        .with_kv_unified(false)
        .with_flash_attention_policy(FLASH_ATTENTION)
        .with_n_threads(threads as i32)
        .with_n_threads_batch(threads as i32)
        .with_no_perf(true);
    let backend = backend()?;
    shared
        .exclusively(|| model.new_context(backend, parameters))
        .map_err(|error| shared.failure(format!("a context of {cells} tokens could not be made: {error}")))
}

/// llama.cpp's `LLAMA_FLASH_ATTN_TYPE_DISABLED`. On a CPU flash attention adds
/// up differently for different numbers of tokens and of threads. It is 10 %
/// faster for prompts of 450 tokens, and 7 % slower for answers.
const FLASH_ATTENTION: i32 = 0;

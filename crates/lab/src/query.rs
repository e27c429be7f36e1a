//! Answers a new question with one trial of a run.

use crate::{
    Error,
    engine::Outputs,
    plan::{CorpusInputs, TaskId, Work},
    session::{Prepared, Session},
    task::open_corpus,
    trial::Trial,
};
use models::InputKind;
use rag::{Answer, Passage, retrieve::Query};
use serde::Serialize;

/// A question, what was found, and what was answered.
#[derive(Debug, Clone, Serialize)]
pub struct Answered {
    /// The trial that answered.
    pub trial: Trial,
    /// The question.
    pub question: String,
    /// What was found, best first; citation `[1]` is the first.
    pub passages: Vec<Passage>,
    /// The answer, if the trial has a generator.
    pub answer: Option<Answer>,
}

impl Session {
    /// Answers a question with a trial whose indexes are in the store.
    ///
    /// # Errors
    /// If there is no such trial, it was not run yet, or a model fails.
    pub async fn query(&self, prepared: &Prepared, trial: &str, question: &str) -> Result<Answered, Error> {
        let index = prepared.trials.iter().position(|other| other.id == trial);
        let index = index.ok_or_else(|| Error::NotFound(format!("there is no trial `{trial}`")))?;
        let trial = &prepared.trials[index];
        let plan = &prepared.plan;
        let execution = &prepared.execution;
        let inputs = corpus_inputs(prepared, plan.trials[index].passages)
            .ok_or_else(|| Error::NotFound(format!("trial `{}` retrieves nothing", trial.id)))?;
        let mut outputs = Outputs::new();
        for id in inputs.chunks.iter().copied().chain(inputs.dense).chain(inputs.bm25) {
            let name = plan.tasks[id].artifact();
            if !execution.store.exists(&name).await? {
                return Err(Error::NotFound(format!(
                    "trial `{}` has not been indexed yet: start `reverie run` first",
                    trial.id
                )));
            }
            outputs.insert(id, name);
        }
        let corpus = open_corpus(execution, &outputs, &CorpusInputs { queries: None, ..inputs }).await?;
        let models = execution.models();
        let vectors = match &trial.embedder {
            Some(embedder) if corpus.dense.is_some() => {
                Some(models.embedder(embedder)?.embed(&[question.to_owned()], InputKind::Query).await?)
            }
            _ => None,
        };
        let query = Query { text: question, embedding: vectors.as_ref().map(|matrix| matrix.row(0)) };
        let hits = trial.retriever.build(())?.retrieve(&[query], &corpus.corpus())?;
        let mut passages = trial.chunker.build(())?.context(hits.into_iter().next().unwrap_or_default(), &corpus.table);
        let reranker = trial.reranker.build(&models.rerank_context(&trial.reranker, trial.embedder.as_deref())?)?;
        passages = reranker.rerank(query, corpus.corpus(), passages).await?;
        let answer = match &trial.generator {
            Some(generator) => {
                let generator = generator.build(models.chat(generator.model())?)?;
                Some(generator.generate(question, &passages).await?)
            }
            None => None,
        };
        Ok(Answered { trial: trial.clone(), question: question.to_owned(), passages, answer })
    }
}

/// What the retrieval behind a trial's passages looks at.
fn corpus_inputs(prepared: &Prepared, id: TaskId) -> Option<CorpusInputs> {
    match &prepared.plan.tasks[id].work {
        Work::Retrieve(_, _, corpus) => Some(corpus.clone()),
        Work::Rerank(_, _, _, corpus) => Some(corpus.clone()),
        _ => None,
    }
}

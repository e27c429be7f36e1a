//! Answers a new question with one trial of a run.

use crate::{
    Error,
    engine::Outputs,
    plan::{CorpusInputs, TaskId, Work},
    session::{Prepared, Session},
    task::{compute, open_corpus},
    trial::Trial,
};
use models::{InputKind, Piece, Unfolding};
use rag::{Answer, Passage, generate::Generator, retrieve::Query};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

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
        self.query_watched(prepared, trial, question, None).await
    }

    /// [`Session::query`], with pieces of the answer's text as it is written:
    /// those since the last [`Piece::Restart`], together, are all of it when
    /// this returns. They make no difference to the answer.
    ///
    /// # Errors
    /// As without.
    pub async fn query_watched(
        &self,
        prepared: &Prepared,
        trial: &str,
        question: &str,
        on_piece: Option<&(dyn Fn(Piece) + Send + Sync)>,
    ) -> Result<Answered, Error> {
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
        let (retriever, chunker) = (trial.retriever.build(())?, trial.chunker.build(())?);
        let asked = question.to_owned();
        // A function of the user's own may take its time.
        let (corpus, vectors, mut passages) = compute(move || {
            let query = Query { text: &asked, embedding: vectors.as_ref().map(|matrix| matrix.row(0)) };
            let hits = retriever.retrieve(&[query], &corpus.corpus())?;
            let passages = chunker.context(hits.into_iter().next().unwrap_or_default(), &corpus.table);
            Ok::<_, rag::Error>((corpus, vectors, passages))
        })
        .await??;
        let query = Query { text: question, embedding: vectors.as_ref().map(|matrix| matrix.row(0)) };
        let reranker = trial.reranker.build(&models.rerank_context(&trial.reranker, trial.embedder.as_deref())?)?;
        passages = reranker.rerank(query, corpus.corpus(), passages).await?;
        let answer = match &trial.generator {
            Some(generator) => {
                let generator = generator.build(models.chat(generator.model())?)?;
                Some(answer(&*generator, question, &passages, on_piece).await?)
            }
            None => None,
        };
        Ok(Answered { trial: trial.clone(), question: question.to_owned(), passages, answer })
    }
}

/// The answer of a generator, with its text in pieces for whoever wants them.
async fn answer(
    generator: &dyn Generator,
    question: &str,
    passages: &[Passage],
    on_piece: Option<&(dyn Fn(Piece) + Send + Sync)>,
) -> Result<Answer, Error> {
    let Some(on_piece) = on_piece else { return Ok(generator.generate(question, passages).await?) };
    let unfolding = Mutex::new(Unfolding::default());
    let unfolding = || unfolding.lock().unwrap_or_else(PoisonError::into_inner);
    let onlooker = |text: &str| unfolding().grow(text).into_iter().for_each(on_piece);
    let answer = generator.generate_watched(question, passages, Some(&onlooker)).await?;
    unfolding().end(&answer.text).into_iter().for_each(on_piece);
    Ok(answer)
}

/// What the retrieval behind a trial's passages looks at.
fn corpus_inputs(prepared: &Prepared, id: TaskId) -> Option<CorpusInputs> {
    match &prepared.plan.tasks[id].work {
        Work::Retrieve(_, _, corpus) => Some(corpus.clone()),
        Work::Rerank(_, _, _, corpus) => Some(corpus.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use rag::generate::Onlooker;

    /// Tells texts on the way to its answer.
    struct Teller {
        told: &'static [&'static str],
        answer: &'static str,
    }

    #[async_trait]
    impl Generator for Teller {
        async fn generate_watched(
            &self,
            _question: &str,
            _passages: &[Passage],
            onlooker: Option<Onlooker<'_>>,
        ) -> Result<Answer, rag::Error> {
            for text in self.told {
                onlooker.inspect(|onlooker| onlooker(text));
            }
            let (text, usage) = (self.answer.to_owned(), models::Usage::default());
            Ok(Answer { text, citations: Vec::new(), dropped_passages: 0, calls: 1, usage, seconds: 0.0 })
        }
    }

    async fn told(told: &'static [&'static str], answer: &'static str) -> Vec<Piece> {
        let pieces = Mutex::new(Vec::new());
        let on_piece = |piece| pieces.lock().unwrap().push(piece);
        let answered = super::answer(&Teller { told, answer }, "q", &[], Some(&on_piece)).await.unwrap();
        assert_eq!(answered.text, answer);
        pieces.into_inner().unwrap()
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[tokio::test]
    async fn pieces_end_with_the_answer_whatever_was_told_on_the_way() {
        let grown = told(&["The mill", "The mill", "The mill is old"], "The mill is old [2].").await;
        assert_eq!(grown, [text("The mill"), text(" is old"), text(" [2].")]);
        assert_eq!(told(&[], "The mill is old.").await, [text("The mill is old.")]);
        let other = told(&["The mill"], "It is old.").await;
        assert_eq!(other, [text("The mill"), Piece::Restart, text("It is old.")]);
        let cut = told(&["The mill is"], "The mill").await;
        assert_eq!(cut, [text("The mill is"), Piece::Restart, text("The mill")]);
    }
}

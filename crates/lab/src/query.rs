//! Answers a new question with one trial of a finished run, as it was then.

use crate::{
    Error,
    engine::Outputs,
    frozen::RunRecord,
    layout,
    plan::CorpusInputs,
    session::Session,
    spec::Experiment,
    task::{Execution, compute, open_corpus},
    trial::Trial,
};
use models::{InputKind, Piece, Unfolding};
use rag::{Answer, Passage, generate::Generator, load::Source, retrieve::Query};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// A question, what was found, and what was answered.
#[derive(Debug, Clone, Serialize)]
pub struct Answered {
    /// The run whose trial answered.
    pub run: String,
    /// When that run finished, in milliseconds since 1970.
    pub run_time_ms: i64,
    /// The trial that answered.
    pub trial: Trial,
    /// The question.
    pub question: String,
    /// What was found, best first; citation `[1]` is the first.
    pub passages: Vec<Passage>,
    /// The answer, if the trial has a generator.
    pub answer: Option<Answer>,
}

/// A trial of a finished run that can be asked: with the settings that it had
/// in the run, on the documents that were read then.
pub struct RunPipeline {
    execution: Arc<Execution>,
    trial: Trial,
    inputs: CorpusInputs,
    outputs: Outputs,
    run: String,
    run_time_ms: i64,
    notes: Vec<String>,
}

impl Session {
    /// Opens a trial of a run.
    ///
    /// # Errors
    /// If there is no such trial, what it searches is not in the store, or the
    /// model that embeds its questions is no longer the one that embedded the
    /// documents.
    pub async fn pipeline(&self, record: &RunRecord, trial: &str) -> Result<RunPipeline, Error> {
        let (trial, inputs, artifacts) = record.searched(trial)?;
        let experiment = self.experiment_of(record)?;
        let mut outputs = Outputs::new();
        for id in inputs.all() {
            let Some(name) = artifacts.get(&id) else {
                return Err(Error::table(format!("{}: its record is damaged; run again", record.title())));
            };
            if !self.store().exists(name).await? {
                return Err(Error::Unusable(format!(
                    "trial `{}` of {} has no index in the store ({name} is not there): it was not indexed in that run, or \
                     `reverie store gc` removed it; `reverie run` makes what is missing",
                    trial.id,
                    record.title()
                )));
            }
            outputs.insert(id, name.clone());
        }
        let notes = self.check_models(record, &experiment, trial)?;
        // A question needs none of the corpus' files, which may be gone.
        let source = Source::parse(&self.root().display().to_string(), &[], &[], &[])?;
        let models = Arc::new(self.models_of(&experiment));
        let run = record.results.run.clone();
        let scratch = layout::scratch_folder(self.workspace());
        let execution = Execution::asking(Arc::new(experiment), self.store().clone(), source, scratch, &run, models);
        Ok(RunPipeline {
            execution: Arc::new(execution),
            trial: trial.clone(),
            inputs: inputs.clone(),
            outputs,
            run,
            run_time_ms: record.results.time_ms,
            notes,
        })
    }

    /// Whether the trial's models are those of the run. Other vectors than
    /// those in the index would find anything; another model that ranks or
    /// answers is told.
    fn check_models(&self, record: &RunRecord, experiment: &Experiment, trial: &Trial) -> Result<Vec<String>, Error> {
        let known = &record.frozen()?.identities;
        let others =
            trial.reranker.model().into_iter().chain(trial.generator.as_ref().map(|generator| generator.model()));
        let used: BTreeSet<&str> = trial.embedder.as_deref().into_iter().chain(others).collect();
        let mut notes = Vec::new();
        for name in used {
            let (Some(config), Some(then)) = (experiment.models.get(name), known.get(name)) else { continue };
            if config.identity(self.context())? == *then {
                continue;
            }
            if trial.embedder.as_deref() == Some(name) {
                return Err(Error::Unusable(format!(
                    "models.{name} is not what it was in {} (other files, or another version of reverie), so that its \
                     vectors do not fit those in the index: `reverie run` makes the index anew",
                    record.title()
                )));
            }
            notes.push(format!(
                "models.{name} is not what it was in the run: other files, or another version of reverie"
            ));
        }
        Ok(notes)
    }
}

impl RunPipeline {
    /// The trial.
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// What is not as it was in the run, though the answer comes from it.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Answers a question.
    ///
    /// # Errors
    /// If the store or a model fails.
    pub async fn query(&self, question: &str) -> Result<Answered, Error> {
        self.query_watched(question, None).await
    }

    /// [`RunPipeline::query`], with pieces of the answer's text as it is
    /// written: those since the last [`Piece::Restart`], together, are all of it
    /// when this returns. They make no difference to the answer.
    ///
    /// # Errors
    /// As without.
    pub async fn query_watched(
        &self,
        question: &str,
        on_piece: Option<&(dyn Fn(Piece) + Send + Sync)>,
    ) -> Result<Answered, Error> {
        let caller = Some(self.trial.id.as_str().into());
        rag::python::on_behalf_of(caller, self.answered(question, on_piece)).await
    }

    async fn answered(
        &self,
        question: &str,
        on_piece: Option<&(dyn Fn(Piece) + Send + Sync)>,
    ) -> Result<Answered, Error> {
        let Self { execution, trial, inputs, outputs, .. } = self;
        let corpus = open_corpus(execution, outputs, inputs).await?;
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
        let caller = rag::python::caller();
        let (corpus, vectors, mut passages) = compute(move || {
            let query = Query { text: &asked, embedding: vectors.as_ref().map(|matrix| matrix.row(0)), tokens: None };
            let hits = rag::python::computing_for(&caller, || retriever.retrieve(&[query], &corpus.corpus()))?;
            let passages = chunker.context(hits.into_iter().next().unwrap_or_default(), &corpus.table);
            Ok::<_, rag::Error>((corpus, vectors, passages))
        })
        .await??;
        let query = Query { text: question, embedding: vectors.as_ref().map(|matrix| matrix.row(0)), tokens: None };
        let reranker = trial.reranker.build(&models.rerank_context(&trial.reranker, trial.embedder.as_deref())?)?;
        passages = reranker.rerank(query, corpus.corpus(), passages).await?;
        let answer = match &trial.generator {
            Some(generator) => {
                let generator = generator.build(models.chat(generator.model())?)?;
                Some(answer(&*generator, question, &passages, on_piece).await?)
            }
            None => None,
        };
        Ok(Answered {
            run: self.run.clone(),
            run_time_ms: self.run_time_ms,
            trial: trial.clone(),
            question: question.to_owned(),
            passages,
            answer,
        })
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

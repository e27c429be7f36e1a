//! Questions to passages.

use super::{Keys, Kind, Made, MadeOf, Making, Purpose, component, passage_rows};
use crate::{
    Error, artifact,
    estimate::{Load, Sizes},
    operator::Operator,
    plan::{CorpusInputs, Inputs, TaskId},
    task::{compute, decode_matrix, filter_of, open_corpus, queries_in_order},
};
use async_trait::async_trait;
use rag::{
    Component, Item,
    chunk::ChunkerConfig,
    index::IndexKind,
    pipeline::{FUSION_VERSION, find},
    python::{caller, computing_for},
    query::SearchQuery,
    retrieve::{Query, RetrieverConfig},
};
use serde::{Deserialize, Serialize};
use store::Key;

/// Questions retrieved for between two looks at the progress table.
const QUESTIONS_PER_STEP: usize = 64;

/// Retrieves for all questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Retrieve {
    pub(crate) chunker: ChunkerConfig,
    pub(crate) retriever: RetrieverConfig,
    /// The trial's embedder, if the retriever or the chunker needs it.
    pub(crate) embedder: Option<String>,
    pub(crate) corpus: CorpusInputs,
    /// What is searched, if it is not the questions themselves, and its vectors.
    pub(crate) written: Option<Written>,
}

/// Queries that were written for the questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) queries: TaskId,
    pub(crate) vectors: Option<TaskId>,
}

#[async_trait]
impl Kind for Retrieve {
    fn operator(&self) -> Operator {
        Operator::RETRIEVE
    }

    fn inputs(&self) -> Vec<TaskId> {
        let written = self.written.iter().flat_map(|written| std::iter::once(written.queries).chain(written.vectors));
        self.corpus.all().into_iter().chain(written).collect()
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let questions: Vec<_> = cx.inputs.questions.iter().map(|question| (&question.id, &question.question)).collect();
        let builder = component(cx.builder("retrieve", &self.inputs()), &self.retriever);
        let mut builder = component(builder, &self.chunker).field("questions", &questions);
        if self.written.is_some() {
            builder = builder.field("fusion", &FUSION_VERSION);
        }
        // Datasets without filters keep the keys that they had before there were any.
        if cx.inputs.questions.iter().any(|question| question.filter.is_some()) {
            let filters: Vec<_> = cx.inputs.questions.iter().map(|question| &question.filter).collect();
            builder = builder.field("filters", &filters);
        }
        // If the retriever searches an embedder's vectors, the embedder is in
        // the keys of the inputs already.
        let embeds = self.retriever.indexes().into_iter().any(IndexKind::embeds);
        let embedder = self.embedder.as_deref().filter(|_| !embeds);
        cx.with_models(builder, &self.retriever, embedder).finish()
    }

    fn rows(&self, inputs: &Inputs<'_>) -> Option<usize> {
        Some(inputs.questions.len())
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    fn runs_function(&self) -> bool {
        self.retriever.runs_function()
    }

    fn purpose(&self) -> Purpose {
        Purpose::Questions
    }

    fn calls_models(&self) -> bool {
        self.embedder.is_some() || !self.retriever.models().is_empty() || !self.chunker.models().is_empty()
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf::component(&self.retriever, self.embedder.as_deref())
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        sizes.of_questions(&self.retriever, Item::default(), 0..sizes.questions.len())
    }

    fn gives(&self, sizes: &Sizes<'_>) -> Item {
        sizes.within_corpus(self.chunker.passes(self.retriever.passes(Item::default())))
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let cx = making.cx;
        let (corpus, mut vectors) = open_corpus(cx, making.inputs, &self.corpus).await?;
        let models = making.models();
        let context = models.context(self.embedder.as_deref());
        let (chunker, retriever) = (self.chunker.build(&context)?, self.retriever.build(&context)?);
        let ids: Vec<String> = cx.questions.iter().map(|question| question.id.clone()).collect();
        let mut queries: Vec<Vec<SearchQuery>> = match &self.written {
            Some(written) => {
                vectors = decode_matrix(cx, making.inputs, written.vectors).await?;
                queries_in_order(cx, making.inputs, written.queries).await?
            }
            None => cx.questions.iter().map(|question| vec![question.question.as_str().into()]).collect(),
        };
        for (question, queries) in cx.questions.iter().zip(&mut queries) {
            queries.iter_mut().for_each(|query| query.filter = filter_of(question, Some(query)));
        }
        let (progress, operator, caller) = (making.progress.clone(), self.operator(), caller());
        let runtime = tokio::runtime::Handle::current();
        let rows = compute(move || {
            let mut row = 0..;
            let mut query = |one| Query {
                text: words(one),
                embedding: row.next().and_then(|row| vectors.as_ref().map(|matrix| matrix.row(row))),
                tokens: None,
                filter: filter(one),
            };
            let queries: Vec<Vec<Query<'_>>> =
                queries.iter().map(|texts| texts.iter().map(&mut query).collect()).collect();
            let mut rows = Vec::new();
            for (ids, queries) in ids.chunks(QUESTIONS_PER_STEP).zip(queries.chunks(QUESTIONS_PER_STEP)) {
                let corpus = corpus.corpus();
                let found = find(&*chunker, &*retriever, &corpus, queries);
                let found = computing_for(&caller, || runtime.block_on(found))?;
                rows.extend(ids.iter().zip(found).flat_map(|(id, passages)| passage_rows(id, passages)));
                progress.rows(operator, ids.len());
            }
            Ok::<_, rag::Error>(rows)
        });
        Ok(Made::of(artifact::encode(&rows.await??)?, cx.questions.len()))
    }
}

fn words(query: &SearchQuery) -> &str {
    &query.words
}

fn filter(query: &SearchQuery) -> Option<&rag::Filter> {
    query.filter.as_ref()
}

//! The interface between a service and its pipelines.

use models::Message;
use rag::pipeline::{PipelineEvent, QueryResult};
use std::sync::Arc;
use tracing::Span;

/// A question that was checked, with its conversation.
#[derive(Debug, Clone)]
pub(crate) struct UserQuestion {
    /// The id of the request.
    pub(crate) id: Arc<str>,
    pub(crate) text: String,
    /// The messages before the question, oldest first.
    pub(crate) history: Vec<Message>,
    /// The most passages to find.
    pub(crate) max_passages: usize,
}

/// A pipeline that searches and writes answers. In tests it follows a script.
pub(crate) trait AnswerPipeline: Send + Sync + 'static {
    /// The digest of the bundle, or `RUN/TRIAL`.
    fn version(&self) -> &str;

    /// Whether it writes answers, besides finding passages.
    fn writes_answers(&self) -> bool;

    /// The span of one attempt at an answer.
    fn span(&self) -> Span;

    /// Answers a question, and calls `on_event` for each event.
    fn ask(
        &self,
        question: &UserQuestion,
        on_event: impl Fn(PipelineEvent) + Send + Sync,
    ) -> impl Future<Output = Result<(), lab::Error>> + Send;

    /// Finds the passages for a question.
    fn find(&self, question: &UserQuestion) -> impl Future<Output = Result<QueryResult, lab::Error>> + Send;
}

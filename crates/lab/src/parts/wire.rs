//! The messages between parts, as JSON. All parts of a graph run the same version of Reverie, so
//! the format need not be compatible with others.

use super::{Part, PartUnavailable};
use crate::{Error, error_chain, model_error};
use base64::{Engine, engine::general_purpose::STANDARD};
use models::{ChatRequest, ChatResponse, ErrorReport, InputKind, Matrix, Message};
use rag::{Answer, Filter, Passage, Span, pipeline::PipelineEvent, query::SearchQuery};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The pause before a retry if a replica ended: another one takes its place.
const AFTER_DEATH: Duration = Duration::from_secs(1);
/// The pause before a retry if a part takes no more requests.
const AFTER_BUSY: Duration = Duration::from_secs(2);

/// A request to a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartRequest {
    /// Vectors of texts: [`WireMatrix`].
    Embed { model: String, texts: Vec<String>, kind: InputKind },
    /// Vectors of the texts' tokens: a list of [`WireMatrix`].
    EmbedTokens { model: String, texts: Vec<String>, kind: InputKind },
    /// How many tokens each text has, and how many its embedder reads; none if it
    /// cannot count.
    CountTokens { model: String, texts: Vec<String>, kind: InputKind },
    /// A score for each passage.
    Score { model: String, query: String, passages: Vec<String> },
    /// An answer of a chat model: a stream of [`PartReply`].
    Chat { model: String, request: ChatRequest },
    /// The passages of searches.
    Find { searches: Vec<SearchQuery>, vectors: Option<WireMatrix> },
    /// What a stage makes of passages: [`rag::PassagesWithRemarks`].
    Step { step: usize, text: String, vector: Option<WireMatrix>, filter: Option<Filter>, passages: Vec<Passage> },
    /// The text of a stretch of a document, if there is such a document.
    Excerpt { document: String, span: Span },
    /// The chunk of a document that holds a byte, if there is one.
    ChunkAt { document: String, byte: usize },
    /// The positions of the texts in the order of the trial's reranker, with scores. It is sent only
    /// for a reranker that reads chunks, so it goes to the vector store, where the chunks are.
    Order { question: String, texts: Vec<String> },
    /// What is found for a question: [`rag::pipeline::Retrieval`].
    Retrieve { question: String, history: Vec<Message>, filter: Option<Filter>, at_most: usize },
    /// An answer to a question: a stream of [`PartReply`].
    Answer { question: String, history: Vec<Message>, at_most: usize },
}

impl PartRequest {
    /// The part that answers this request.
    pub(crate) fn part(&self) -> Part {
        match self {
            Self::Embed { .. } | Self::EmbedTokens { .. } | Self::CountTokens { .. } => Part::Encoder,
            Self::Score { .. } => Part::Reranker,
            Self::Chat { .. } => Part::Llm,
            Self::Find { .. }
            | Self::Step { .. }
            | Self::Excerpt { .. }
            | Self::ChunkAt { .. }
            | Self::Order { .. } => Part::VectorStore,
            Self::Retrieve { .. } => Part::Retriever,
            Self::Answer { .. } => Part::Qa,
        }
    }
}

/// Events while an answer is written. The last one is the answer, or why there is none.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartReply {
    Fallback(String),
    Remark(String),
    Found(Vec<Passage>),
    Text(String),
    /// Discards all text so far.
    Restart,
    /// The response of a chat model.
    Replied(Box<ChatResponse>),
    /// The answer of the pipeline.
    Answered(Box<Answer>),
    Failed(PartFailure),
}

impl From<PipelineEvent> for PartReply {
    fn from(event: PipelineEvent) -> Self {
        match event {
            PipelineEvent::Fallback(reason) => Self::Fallback(reason),
            PipelineEvent::Remark(remark) => Self::Remark(remark),
            PipelineEvent::PassagesFound(passages) => Self::Found(passages),
            PipelineEvent::Piece(piece) => piece.into(),
            PipelineEvent::Answered(answer) => Self::Answered(Box::new(answer)),
        }
    }
}

impl From<models::AnswerPiece> for PartReply {
    fn from(piece: models::AnswerPiece) -> Self {
        match piece {
            models::AnswerPiece::Text(text) => Self::Text(text),
            models::AnswerPiece::Restart => Self::Restart,
        }
    }
}

/// Vectors, exact and a third of the size of decimal digits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WireMatrix {
    columns: usize,
    /// Base64 of little-endian `f32`, row by row.
    data: String,
}

impl From<&Matrix> for WireMatrix {
    fn from(matrix: &Matrix) -> Self {
        Self::of(matrix.columns, &matrix.data)
    }
}

impl WireMatrix {
    fn of(columns: usize, data: &[f32]) -> Self {
        let bytes: Vec<u8> = data.iter().flat_map(|number| number.to_le_bytes()).collect();
        Self { columns, data: STANDARD.encode(bytes) }
    }

    pub(crate) fn vector(vector: &[f32]) -> Self {
        Self::of(vector.len(), vector)
    }

    pub(crate) fn matrix(&self) -> Result<Matrix, PartFailure> {
        let bytes = STANDARD.decode(&self.data).map_err(|error| PartFailure::unreadable(&error))?;
        let (numbers, _) = bytes.as_chunks::<4>();
        Ok(Matrix { columns: self.columns, data: numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect() })
    }
}

/// Why a part gave no answer, in enough detail for the caller to act as if the part were in its own
/// process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartFailure {
    /// A model failed.
    Model(ErrorReport),
    /// A part ended, or takes no more requests: another try may work.
    Unavailable { reason: String, retry_after: Duration },
    /// Anything else, in words.
    Reason(String),
}

impl PartFailure {
    pub(crate) fn unreadable(error: &dyn std::fmt::Display) -> Self {
        Self::Reason(format!(
            "parts of the graph do not understand each other ({error}): is it the same version of reverie everywhere?"
        ))
    }

    pub(crate) fn of(part: Part, lost: PartUnavailable) -> Self {
        let part = part.name();
        match lost {
            PartUnavailable::Died(reason) => Self::Unavailable {
                reason: format!("the {part} ended while it was asked: {reason}"),
                retry_after: AFTER_DEATH,
            },
            PartUnavailable::Busy(reason) => Self::Unavailable {
                reason: format!("the {part} takes no more requests now: {reason}"),
                retry_after: AFTER_BUSY,
            },
            PartUnavailable::Failed(reason) => Self::Reason(format!("the {part} failed: {reason}")),
        }
    }

    /// The failure as an error of the model that the part holds.
    pub(crate) fn of_model(self, model: &str) -> models::Error {
        match self {
            Self::Model(report) => report.into(),
            Self::Unavailable { reason, .. } => {
                ErrorReport::Connection { endpoint: format!("the process of {model}"), cause: reason }.into()
            }
            Self::Reason(reason) => ErrorReport::Other(reason).into(),
        }
    }
}

impl From<&Error> for PartFailure {
    fn from(error: &Error) -> Self {
        match (model_error(error), error) {
            (Some(model), _) => Self::Model(model.into()),
            (None, Error::Stage(rag::Error::Remote { reason, retry_after: Some(retry_after) })) => {
                Self::Unavailable { reason: reason.clone(), retry_after: *retry_after }
            }
            (None, error) => Self::Reason(error_chain(error)),
        }
    }
}

impl From<PartFailure> for rag::Error {
    fn from(failure: PartFailure) -> Self {
        match failure {
            PartFailure::Model(report) => Self::Model(report.into()),
            PartFailure::Unavailable { reason, retry_after } => Self::Remote { reason, retry_after: Some(retry_after) },
            PartFailure::Reason(reason) => Self::Remote { reason, retry_after: None },
        }
    }
}

impl From<PartFailure> for Error {
    fn from(failure: PartFailure) -> Self {
        Self::Stage(failure.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_arrive_as_they_were() {
        let matrix = Matrix { columns: 2, data: vec![0.1, -3.5e-8, f32::MIN_POSITIVE, 1.0 / 3.0] };
        let written = serde_json::to_string(&WireMatrix::from(&matrix)).unwrap();
        assert_eq!(serde_json::from_str::<WireMatrix>(&written).unwrap().matrix().unwrap(), matrix);
    }

    #[test]
    fn a_part_that_is_away_is_told_as_such_from_part_to_part() {
        let away = PartFailure::of(Part::Retriever, PartUnavailable::Died("killed".into()));
        let again = PartFailure::from(&Error::from(away.clone()));
        assert_eq!(again, away);
        let PartFailure::Unavailable { reason, .. } = &away else { panic!("{away:?}") };
        assert!(reason.contains("retriever") && reason.contains("killed"), "{reason}");
    }

    #[test]
    fn every_request_goes_to_the_part_that_can_answer_it() {
        let texts = || vec!["a".to_owned()];
        let model = || "m".to_owned();
        let (kind, span) = (InputKind::Query, Span { start: 0, end: 1 });
        let request = ChatRequest::new(vec![Message::user("Why?")], 5);
        let step = |step| PartRequest::Step { step, text: model(), vector: None, filter: None, passages: Vec::new() };
        let history = Vec::new;
        let table = [
            (PartRequest::Embed { model: model(), texts: texts(), kind }, "encoder"),
            (PartRequest::EmbedTokens { model: model(), texts: texts(), kind }, "encoder"),
            (PartRequest::CountTokens { model: model(), texts: texts(), kind }, "encoder"),
            (PartRequest::Score { model: model(), query: model(), passages: texts() }, "reranker"),
            (PartRequest::Chat { model: model(), request }, "llm"),
            (PartRequest::Find { searches: Vec::new(), vectors: None }, "vector_store"),
            (step(1), "vector_store"),
            (PartRequest::Excerpt { document: model(), span }, "vector_store"),
            (PartRequest::ChunkAt { document: model(), byte: 0 }, "vector_store"),
            (PartRequest::Order { question: model(), texts: texts() }, "vector_store"),
            (PartRequest::Retrieve { question: model(), history: history(), filter: None, at_most: 3 }, "retriever"),
            (PartRequest::Answer { question: model(), history: history(), at_most: 3 }, "qa"),
        ];
        for (request, part) in table {
            assert_eq!(request.part().name(), part);
            let written = serde_json::to_string(&request).unwrap();
            let read: PartRequest = serde_json::from_str(&written).unwrap();
            assert_eq!((read.part().name(), serde_json::to_string(&read).unwrap()), (part, written));
        }
    }

    #[test]
    fn vectors_are_written_in_base64_of_their_little_endian_bytes() {
        // 1.0 is 0x3f800000.
        let one = WireMatrix::vector(&[1.0]);
        assert_eq!(serde_json::to_value(&one).unwrap(), serde_json::json!({ "columns": 1, "data": "AACAPw==" }));
        let none = WireMatrix::vector(&[]).matrix().unwrap();
        assert_eq!((none.columns, none.data.len()), (0, 0));
        let bits = [f32::NAN.to_bits(), (-0.0_f32).to_bits(), f32::INFINITY.to_bits()];
        let read = WireMatrix::vector(&bits.map(f32::from_bits)).matrix().unwrap();
        assert_eq!(read.data.iter().map(|number| number.to_bits()).collect::<Vec<_>>(), bits);
    }

    #[test]
    fn vectors_that_cannot_be_read_are_a_failure_that_asks_for_one_version() {
        let read = |data: &str| {
            let written = serde_json::json!({ "columns": 2, "data": data });
            serde_json::from_value::<WireMatrix>(written).unwrap().matrix()
        };
        let Err(PartFailure::Reason(reason)) = read("no base64!") else { panic!("it was read") };
        assert!(reason.starts_with("parts of the graph do not understand each other (Invalid symbol"), "{reason}");
        assert!(reason.ends_with("is it the same version of reverie everywhere?"), "{reason}");
    }

    #[test]
    fn why_a_part_gave_no_reply_says_whether_and_when_to_try_again() {
        let away = |reason: &str, seconds| PartFailure::Unavailable {
            reason: reason.to_owned(),
            retry_after: Duration::from_secs(seconds),
        };
        let why = || "why".to_owned();
        let table = [
            (Part::Llm, PartUnavailable::Died(why()), away("the llm ended while it was asked: why", 1)),
            (Part::Qa, PartUnavailable::Busy(why()), away("the qa takes no more requests now: why", 2)),
            (
                Part::VectorStore,
                PartUnavailable::Failed(why()),
                PartFailure::Reason("the vector_store failed: why".to_owned()),
            ),
        ];
        for (part, lost, expected) in table {
            let failure = PartFailure::of(part, lost);
            assert_eq!(failure, expected);
            let written = serde_json::to_string(&failure).unwrap();
            assert_eq!(serde_json::from_str::<PartFailure>(&written).unwrap(), expected, "from part to part");
        }
    }

    #[test]
    fn a_failed_part_is_to_its_caller_as_a_model_that_cannot_be_reached() {
        let failed = |failure: PartFailure| failure.of_model("gpt");
        let away = PartFailure::Unavailable { reason: "the llm ended".to_owned(), retry_after: Duration::from_secs(1) };
        let error = failed(away);
        let models::Error::Connection { endpoint, .. } = &error else { panic!("{error:?}") };
        assert_eq!(endpoint, "the process of gpt");
        let report = ErrorReport::TooLarge { model: "m".to_owned(), limit: 7 };
        assert!(matches!(failed(PartFailure::Model(report)), models::Error::TooLarge { limit: 7, .. }));
        assert!(failed(PartFailure::Reason("odd".to_owned())).to_string().contains("odd"));
    }

    #[test]
    fn an_error_of_a_part_is_the_same_kind_of_error_where_it_was_asked() {
        let model = || models::Error::Timeout { model: "m".to_owned(), after: Duration::from_secs(3) };
        let elsewhere = |retry_after| Error::Stage(rag::Error::Remote { reason: "why".to_owned(), retry_after });
        for error in [Error::Model(model()), Error::Stage(rag::Error::Model(model()))] {
            let Error::Stage(rag::Error::Model(told)) = Error::from(PartFailure::from(&error)) else {
                panic!("{error:?}")
            };
            assert_eq!(told.to_string(), model().to_string());
        }
        let second = Some(Duration::from_secs(1));
        let told = Error::from(PartFailure::from(&elsewhere(second)));
        assert!(matches!(told, Error::Stage(rag::Error::Remote { retry_after, .. }) if retry_after == second));
        for error in [elsewhere(None), Error::Interrupted, Error::table("damaged")] {
            let expected = error_chain(&error);
            assert_eq!(PartFailure::from(&error), PartFailure::Reason(expected));
        }
    }
}

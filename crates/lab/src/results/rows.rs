//! The table of a trial's rows: what it found and answered, question by question. Columns of numbers and texts are for
//! people who look at it with DuckDB or pandas; what is nested is JSON.

use super::QuestionResult;
use crate::{
    Error,
    artifact::{self, ArtifactTable, TableBatch, TableColumns, json, optional_text},
};
use arrow_array::{Array, StringArray};
use bytes::Bytes;
use rag::Answer;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// What a trial found for one question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuestionRow {
    /// The trial's id, so that the tables of all trials can be read as one.
    pub(crate) trial: String,
    pub(crate) result: QuestionResult,
}

impl ArtifactTable for QuestionRow {
    /// In addition to the columns that every table has, there is one with the values of each metric.
    fn columns(rows: &[Self]) -> TableColumns {
        let results = || rows.iter().map(|row| &row.result);
        let answers = || results().map(|result| result.answer.as_ref());
        let documents = |result: &QuestionResult| -> Vec<String> {
            result.passages.iter().map(|passage| passage.document.clone()).collect()
        };
        let metrics: BTreeSet<&str> = results().flat_map(|result| result.scores.keys()).map(String::as_str).collect();
        let columns = TableColumns::default()
            .text("trial", rows.iter().map(|row| row.trial.as_str()))
            .text("question", results().map(|result| result.question.as_str()))
            .optional_text("answer", answers().map(|answer| Some(answer?.text.as_str())))
            .optional_text("error", results().map(|result| result.error.as_deref()))
            .optional_f64("seconds", answers().map(|answer| Some(answer?.seconds)))
            .optional_u64("prompt_tokens", answers().map(|answer| Some(answer?.usage.prompt_tokens)))
            .optional_u64("completion_tokens", answers().map(|answer| Some(answer?.usage.completion_tokens)))
            .json("documents", results().map(documents))
            .optional_text("lost_at", results().map(|result| Some(result.loss.as_ref()?.step.name())));
        let columns = metrics.into_iter().fold(columns, |columns, metric| {
            let value = |result: &QuestionResult| result.scores.get(metric)?.score.value();
            columns.optional_f64(&format!("score_{metric}"), results().map(value))
        });
        let rest_of_answer = |answer: &Answer| Answer { text: String::new(), ..answer.clone() };
        let queries = |result: &QuestionResult| (!result.queries.is_empty()).then(|| result.queries.clone());
        let remarks = |result: &QuestionResult| (!result.remarks.is_empty()).then(|| result.remarks.clone());
        columns
            .json("scores", results().map(|result| &result.scores))
            .json("passages", results().map(|result| &result.passages))
            .optional_json("rest_of_answer", answers().map(|answer| answer.map(rest_of_answer)))
            .optional_json("queries", results().map(queries))
            .optional_text("query_fallback", results().map(|result| result.query_fallback.as_deref()))
            .optional_json("remarks", results().map(remarks))
            .optional_json("loss", results().map(|result| result.loss.as_ref()))
            .optional_text("trace", results().map(|result| result.trace.as_deref()))
    }

    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error> {
        let (trial, question, answer) = (batch.text("trial")?, batch.text("question")?, batch.text("answer")?);
        let (error, scores, passages) = (batch.text("error")?, batch.text("scores")?, batch.text("passages")?);
        let (rest_of_answer, queries) = (batch.text("rest_of_answer")?, batch.text("queries")?);
        let (query_fallback, remarks) = (batch.text("query_fallback")?, batch.text("remarks")?);
        let (loss, trace) = (batch.text("loss")?, batch.text("trace")?);
        let row = |i: usize| -> Result<Self, Error> {
            let rest: Option<Answer> = optional_json(rest_of_answer, i)?;
            let result = QuestionResult {
                question: question.value(i).to_owned(),
                queries: optional_json(queries, i)?.unwrap_or_default(),
                query_fallback: optional_text(query_fallback, i),
                remarks: optional_json(remarks, i)?.unwrap_or_default(),
                passages: json(passages, i)?,
                answer: optional_text(answer, i).map(|text| Answer { text, ..rest.unwrap_or_default() }),
                error: optional_text(error, i),
                trace: optional_text(trace, i),
                scores: json(scores, i)?,
                loss: optional_json(loss, i)?,
            };
            Ok(Self { trial: trial.value(i).to_owned(), result })
        };
        (0..batch.len()).map(row).collect()
    }
}

fn optional_json<T: DeserializeOwned>(column: &StringArray, i: usize) -> Result<Option<T>, Error> {
    (!column.is_null(i)).then(|| json(column, i)).transpose()
}

/// A trial's rows as the file of its table. Gives the rows back.
pub(super) fn encode_rows(trial: &str, rows: Vec<QuestionResult>) -> Result<(Vec<QuestionResult>, Bytes), Error> {
    let rows: Vec<QuestionRow> =
        rows.into_iter().map(|result| QuestionRow { trial: trial.to_owned(), result }).collect();
    let bytes = artifact::encode(&rows)?;
    Ok((rows.into_iter().map(|row| row.result).collect(), bytes))
}

/// The rows that the file of a table has.
pub(super) fn decode_rows(bytes: Bytes) -> Result<Vec<QuestionResult>, Error> {
    Ok(artifact::decode::<QuestionRow>(bytes)?.into_iter().map(|row| row.result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        artifact::{TableSubject, schema, table_subject, to_batch},
        results::{EvidenceChunk, EvidenceLoss, LossStep, QuestionLoss, fixture},
    };
    use arrow_array::{Float64Array, UInt64Array};
    use eval::{Missing, Score, Scored};
    use models::{Finish, Usage};
    use rag::{Passage, Span, query::SearchQuery};
    use serde_json::json;

    /// A row in which nothing that may be missing is there.
    fn bare(question: &str) -> QuestionResult {
        QuestionResult { question: question.to_owned(), ..fixture::results(1).trials[0].questions[0].clone() }
    }

    /// A row in which every field is set to something.
    fn full() -> QuestionResult {
        let span = |start, end| Span { start, end };
        let query = SearchQuery {
            hypothetical_passages: vec!["Mills \"grind\".".to_owned()],
            ..SearchQuery::from("Wo mahlt man Hafer? 🌾")
        };
        let passage = Passage {
            document: "a/ü.md".to_owned(),
            span: span(3, 1 << 40),
            text: "The mill.\n\0[1]".to_owned(),
            score: 0.1,
            page: Some(7),
            book: Some("Mills".to_owned()),
            heading: Some("A > B".to_owned()),
            rows: vec![0, u32::MAX],
            parts: vec![span(3, 4), span(9, 12)],
        };
        let answer = Answer {
            text: "Oats [1].".to_owned(),
            citations: vec![1],
            dropped_passages: 2,
            calls: 3,
            usage: Usage { prompt_tokens: u64::MAX, cached_tokens: 5, completion_tokens: 11, ..Usage::default() },
            seconds: 0.1 + 0.2,
            finish: Finish::Length,
        };
        let chunk = EvidenceChunk {
            document: "a/ü.md".to_owned(),
            number: 4,
            span: span(1, 2),
            share: 1.0 / 3.0,
            shared_terms: vec!["mill".to_owned()],
        };
        let evidence = EvidenceLoss {
            step: Some(LossStep::NotFound),
            component: Some("bm25".to_owned()),
            rank: Some(9),
            searched: 5,
            depth: 1000,
            chunk: Some(chunk),
        };
        let loss = QuestionLoss {
            step: LossStep::NotFound,
            component: Some("bm25".to_owned()),
            rank: Some(9),
            evidence: vec![evidence],
        };
        let scored = |score, detail| Scored { score, detail };
        QuestionResult {
            queries: vec![query],
            query_fallback: Some("cut".to_owned()),
            remarks: vec!["searched again".to_owned(), String::new()],
            passages: vec![passage, Passage::of_text("b.md".to_owned(), String::new())],
            answer: Some(answer),
            error: Some("late".to_owned()),
            trace: Some("trace-1".to_owned()),
            scores: [
                ("recall".to_owned(), scored(Score::Value(2.0 / 3.0), json!({ "found": [1, null, "x"] }))),
                ("token f1.5".to_owned(), Scored::missing(Missing::ProviderError("down".to_owned()))),
            ]
            .into(),
            loss: Some(loss),
            ..bare("full")
        }
    }

    #[test]
    fn rows_are_read_as_they_were_written_with_every_field_set_or_not() {
        let empty = QuestionResult { answer: Some(Answer::default()), error: Some(String::new()), ..bare("") };
        let one_set = |change: fn(&mut QuestionResult, QuestionResult)| {
            let mut row = bare("one");
            change(&mut row, full());
            row
        };
        let rows = vec![
            bare("bare"),
            full(),
            empty,
            one_set(|row, full| row.queries = full.queries),
            one_set(|row, full| row.query_fallback = full.query_fallback),
            one_set(|row, full| row.remarks = full.remarks),
            one_set(|row, full| row.passages = full.passages),
            one_set(|row, full| row.answer = full.answer),
            one_set(|row, full| row.error = full.error),
            one_set(|row, full| row.trace = full.trace),
            one_set(|row, full| row.scores = full.scores),
            one_set(|row, full| row.loss = full.loss),
        ];
        for part in rows.chunks(1).chain([&rows[..], &[]]) {
            let (same, bytes) = encode_rows("t01", part.to_vec()).unwrap();
            assert_eq!(same, part);
            assert_eq!(decode_rows(bytes.clone()).unwrap(), part);
            assert_eq!(encode_rows("t01", part.to_vec()).unwrap().1, bytes, "equal rows are equal bytes");
        }
        // As they were in the JSON of earlier versions.
        let json = serde_json::to_string(&rows).unwrap();
        assert_eq!(serde_json::from_str::<Vec<QuestionResult>>(&json).unwrap(), rows);
    }

    #[test]
    fn people_find_answers_documents_and_the_values_of_each_metric_in_columns() {
        let rows = [full(), bare("bare")].map(|result| QuestionRow { trial: "t01".to_owned(), result });
        let batch = to_batch(&rows).unwrap();
        let text = |name: &str| batch.column_by_name(name).unwrap().as_any().downcast_ref::<StringArray>().unwrap();
        let number = |name: &str| batch.column_by_name(name).unwrap().as_any().downcast_ref::<Float64Array>().unwrap();
        let count = |name: &str| batch.column_by_name(name).unwrap().as_any().downcast_ref::<UInt64Array>().unwrap();
        assert_eq!((text("trial").value(0), text("question").value(0)), ("t01", "full"));
        assert_eq!((text("answer").value(0), text("documents").value(0)), ("Oats [1].", "[\"a/ü.md\",\"b.md\"]"));
        assert_eq!((text("lost_at").value(0), text("documents").value(1)), ("not_found", "[]"));
        assert_eq!((number("seconds").value(0), count("completion_tokens").value(0)), (0.1 + 0.2, 11));
        assert_eq!(number("score_recall").value(0), 2.0 / 3.0);
        assert!(number("score_token f1.5").is_null(0), "it is missing");
        for name in ["answer", "error", "lost_at", "trace", "queries"] {
            assert!(text(name).is_null(1), "{name}");
        }
        assert!(number("score_recall").is_null(1) && number("seconds").is_null(1));
        let (_, bytes) = encode_rows("t01", vec![full()]).unwrap();
        assert_eq!(table_subject(&bytes).unwrap(), TableSubject::Questions);
        let columns = schema::<QuestionRow>().unwrap();
        assert!(columns.fields().iter().all(|field| batch.schema().column_with_name(field.name()).is_some()));
    }

    #[test]
    fn a_table_that_is_cut_off_or_lacks_a_column_is_refused() {
        assert!(decode_rows(Bytes::from_static(b"cut")).is_err());
        let one = artifact::AnswerRow { question: "q".to_owned(), answer: Ok(Answer::default()) };
        assert!(decode_rows(artifact::encode(&[one]).unwrap()).is_err());
    }
}

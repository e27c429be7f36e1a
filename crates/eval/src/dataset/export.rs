//! Writes a dataset for other programs, in a format of `format/`: in our own
//! columns, those of Ragas, or those of DREAM (notebooks that score with Ragas 0.1).
//!
//! | columns | what |
//! |---|---|
//! | `reverie` | every field; what [`import`](super::import) reads back without loss |
//! | `ragas` | Ragas 0.4's test set: `user_input`, `reference_contexts`, `reference`, `synthesizer_name`, `persona_name`, `query_style`, `query_length` |
//! | `dream` | Ragas 0.1's test set, which DREAM keeps: `question`, `contexts`, `ground_truth`, `evolution_type`, `metadata`, `episode_done` |
//!
//! Lists are JSON in CSV and lists of strings in Parquet. Ragas cannot mark a
//! question as unanswerable: its reference and its contexts are then empty.
//! Only our own columns hold earlier messages of a conversation
//! ([`ColumnSet::hold_turns`]).

use super::{Dataset, DatasetFormat, Question, QuestionKind, QuestionStyle, format::WriteError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The columns of an exported file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnSet {
    /// Our own.
    Reverie,
    /// The columns of Ragas 0.4.
    Ragas,
    /// The columns of Ragas 0.1, which DREAM keeps.
    Dream,
}

impl ColumnSet {
    /// Whether they hold earlier messages of a conversation.
    pub fn hold_turns(self) -> bool {
        names(self).any(|name| name == "turns")
    }
}

/// The table of a dataset could not be built.
#[derive(Debug, thiserror::Error)]
#[error("the table cannot be written as {format:?}")]
pub struct ExportError {
    /// The format.
    pub format: DatasetFormat,
    /// The cause.
    #[source]
    pub cause: WriteError,
}

impl Dataset {
    /// The bytes of a file.
    ///
    /// # Errors
    /// Never for a dataset; the signatures of the writers allow some.
    pub fn export(&self, format: DatasetFormat, columns: ColumnSet) -> Result<Vec<u8>, ExportError> {
        let rows: Vec<Map<String, Value>> = self.questions.iter().map(|question| row(question, columns)).collect();
        let has = |has: fn(&Question) -> bool| self.questions.iter().any(has);
        let is_left_out = |name: &str| match name {
            "turns" => !has(|question| !question.turns.is_empty()),
            "filter" => !has(|question| question.filter.is_some()),
            "attack" => !has(|question| question.attack.is_some()),
            "draft" => !has(|question| question.draft.is_some()),
            _ => false,
        };
        let names: Vec<&str> = names(columns).filter(|name| !is_left_out(name)).collect();
        (format.file().write)(&rows, &names).map_err(|cause| ExportError { format, cause })
    }
}

/// The names of all columns, in order. [`Dataset::export`] leaves out `turns`,
/// `draft`, `filter` and `attack` if no question has them.
fn names(columns: ColumnSet) -> impl Iterator<Item = &'static str> {
    let names = match columns {
        ColumnSet::Reverie => {
            "id question turns reference evidence tags answerable origin split review draft filter attack"
        }
        ColumnSet::Ragas => {
            "user_input reference_contexts reference synthesizer_name persona_name query_style query_length"
        }
        ColumnSet::Dream => "question contexts ground_truth evolution_type metadata episode_done",
    };
    names.split(' ')
}

/// A question in these columns; missing values are null.
fn row(question: &Question, columns: ColumnSet) -> Map<String, Value> {
    let quotes: Vec<&str> = question.evidence.iter().map(|evidence| evidence.quote.as_str()).collect();
    let origin = question.origin.as_ref();
    let value = match columns {
        ColumnSet::Reverie => serde_json::to_value(question).unwrap_or_default(),
        ColumnSet::Ragas => json!({
            "user_input": question.question,
            "reference_contexts": quotes,
            "reference": question.reference.as_deref().unwrap_or_default(),
            "synthesizer_name": origin.map(|origin| synthesizer(origin.kind)),
            "persona_name": origin.and_then(|origin| origin.persona.as_deref()),
            "query_style": origin.map(|origin| style(origin.style)),
            "query_length": origin.map(|origin| origin.length.name().to_uppercase()),
        }),
        ColumnSet::Dream => json!({
            "question": question.question,
            "contexts": quotes,
            "ground_truth": question.reference,
            "evolution_type": origin.map(|origin| evolution(origin.kind)),
            "metadata": question.evidence.iter().map(|evidence| json!({ "filename": evidence.document })).collect::<Vec<_>>(),
            "episode_done": true,
        }),
    };
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The nearest synthesizer name of Ragas 0.4.
fn synthesizer(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::SingleHopSpecific | QuestionKind::Conditional | QuestionKind::Unanswerable => {
            "single_hop_specific_query_synthesizer"
        }
        QuestionKind::SingleHopAbstract => "single_hop_abstract_query_synthesizer",
        QuestionKind::MultiHop => "multi_hop_specific_query_synthesizer",
        QuestionKind::Comparative => "multi_hop_abstract_query_synthesizer",
    }
}

fn style(style: QuestionStyle) -> &'static str {
    match style {
        QuestionStyle::Plain => "PERFECT_GRAMMAR",
        QuestionStyle::WebSearch => "WEB_SEARCH_LIKE",
        QuestionStyle::Misspelled => "MISSPELLED",
        QuestionStyle::PoorGrammar => "POOR_GRAMMAR",
    }
}

/// The nearest evolution type of Ragas 0.1.
fn evolution(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::SingleHopSpecific | QuestionKind::Unanswerable => "simple",
        QuestionKind::SingleHopAbstract => "reasoning",
        QuestionKind::Conditional => "conditional",
        QuestionKind::MultiHop | QuestionKind::Comparative => "multi_context",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Origin, Split, import};
    use super::*;
    use crate::Evidence;
    use crate::dataset::{Length, QuestionStyle};
    use arrow_array::Array;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    fn dataset() -> Dataset {
        let evidence = |quote: &str| Evidence { document: "a.txt".into(), quote: quote.into(), span: None };
        let origin = Origin {
            kind: QuestionKind::MultiHop,
            persona: Some("Nurse".into()),
            style: QuestionStyle::WebSearch,
            length: Length::Short,
            model: "m".into(),
        };
        Dataset {
            questions: vec![
                Question {
                    id: "a".into(),
                    question: "Why, \"then\"?".into(),
                    reference: Some("So\nit is".into()),
                    evidence: vec![evidence("one, 'two'"), evidence("three")],
                    tags: vec!["t".into()],
                    origin: Some(origin),
                    split: Some(Split::Test),
                    ..Question::default()
                },
                Question { id: "b".into(), question: "Who?".into(), answerable: false, ..Question::default() },
            ],
        }
    }

    #[test]
    fn our_own_columns_are_read_back_without_loss() {
        for (format, name) in [(DatasetFormat::Jsonl, "a.jsonl"), (DatasetFormat::Csv, "a.csv")] {
            let bytes = dataset().export(format, ColumnSet::Reverie).unwrap();
            assert_eq!(import(name, &bytes), Ok(dataset()), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn earlier_messages_are_written_and_read_back_and_change_nothing_where_there_are_none() {
        use models::Message;
        let mut with = dataset();
        with.questions[0].turns = vec![Message::user("Is it, \"so\"?"), Message::assistant("Yes,\nit is.")];
        for (format, name) in [(DatasetFormat::Jsonl, "a.jsonl"), (DatasetFormat::Csv, "a.csv")] {
            let (bytes, without) = (
                with.export(format, ColumnSet::Reverie).unwrap(),
                dataset().export(format, ColumnSet::Reverie).unwrap(),
            );
            assert_eq!(import(name, &bytes), Ok(with.clone()), "{}", String::from_utf8_lossy(&bytes));
            assert!(!String::from_utf8_lossy(&without).contains("turns"));
        }
        assert!(with.export(DatasetFormat::Parquet, ColumnSet::Reverie).is_ok());
    }

    #[test]
    fn the_columns_of_ragas_and_dream_are_read_back_as_questions() {
        for columns in [ColumnSet::Ragas, ColumnSet::Dream] {
            for (format, name) in [(DatasetFormat::Jsonl, "a.jsonl"), (DatasetFormat::Csv, "a.csv")] {
                let bytes = dataset().export(format, columns).unwrap();
                let read = import(name, &bytes).unwrap();
                assert_eq!(read.questions[0].question, "Why, \"then\"?");
                assert_eq!(read.questions[0].reference.as_deref(), Some("So\nit is"));
                let quotes: Vec<&str> =
                    read.questions[0].evidence.iter().map(|evidence| evidence.quote.as_str()).collect();
                assert_eq!(quotes, ["one, 'two'", "three"], "{columns:?} {format:?}");
            }
        }
    }

    #[test]
    fn parquet_has_the_same_columns_with_lists() {
        for columns in [ColumnSet::Reverie, ColumnSet::Ragas, ColumnSet::Dream] {
            let bytes = dataset().export(DatasetFormat::Parquet, columns).unwrap();
            let mut reader =
                ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap().build().unwrap();
            let batch = reader.next().unwrap().unwrap();
            let fields: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
            let names: Vec<&str> =
                names(columns).filter(|name| !["turns", "draft", "filter", "attack"].contains(name)).collect();
            assert_eq!(fields, names);
            assert_eq!(batch.num_rows(), 2);
            if columns == ColumnSet::Ragas {
                let contexts = batch.column_by_name("reference_contexts").unwrap();
                assert_eq!(contexts.as_any().downcast_ref::<arrow_array::ListArray>().unwrap().value(0).len(), 2);
            }
        }
    }
}

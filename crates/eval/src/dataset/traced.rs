//! Reads rows that tracing tools exported (Phoenix, LangSmith, Langfuse) as rows of answers.
//!
//! Such a row holds what went in and came out as objects: `inputs`, `outputs` and `reference_outputs` of LangSmith, the
//! same as columns with dots (`inputs.question`), `input`, `output` and `expectedOutput` of Langfuse, `input`, `output`
//! and `reference_output` of Phoenix' experiments, and `attributes.input.value` of Phoenix' spans. In a CSV file the
//! objects are texts of JSON.
//!
//! Of an object, the question, the answer or the list of passages is the field with a common name, the last message
//! of its role, or the only text. A file of spans has several rows for a trace: the root gives the question and the
//! answer, and the last span with documents the passages.

use serde_json::{Map, Value};
use std::collections::HashMap;

/// A row and the number of its line or of its place in memory.
pub(super) type NumberedRow<'a> = (usize, &'a Map<String, Value>);

const INPUTS: &[&str] = &["inputs", "attributes.input.value", "input"];
const OUTPUTS: &[&str] = &["outputs", "attributes.output.value", "output"];
const REFERENCES: &[&str] = &[
    "reference_outputs",
    "referenceOutputs",
    "reference_output",
    "expectedOutput",
    "expected_output",
    "expected",
    "reference",
];
const DOCUMENTS: &[&str] = &["attributes.reranker.output_documents", "attributes.retrieval.documents"];
/// Columns that only exported rows have.
const MARKS: &[&str] = &[
    "inputs",
    "outputs",
    "attributes.input.value",
    "attributes.output.value",
    "reference_outputs",
    "referenceOutputs",
    "reference_output",
    "expectedOutput",
];
/// Beginnings of the names of columns that are fields of one object.
const GROUPS: &[&str] = &["inputs", "outputs", "reference_outputs", REFERENCE, "input", "output"];
/// Other files may have columns such as `reference.page`, so this group alone does not mark an exported row.
const REFERENCE: &str = "reference";

const QUESTION_FIELDS: &[&str] = &["question", "user_input", "query", "input", "prompt", "text", "content"];
const ANSWER_FIELDS: &[&str] =
    &["answer", "response", "output", "result", "output_text", "expected", "text", "content", "generation"];
const PASSAGE_FIELDS: &[&str] = &[
    "contexts",
    "retrieved_contexts",
    "retrieval_context",
    "passages",
    "documents",
    "source_documents",
    "retrieved_documents",
    "context",
    "sources",
    "chunks",
];
const TEXT_FIELDS: &[&str] = &["text", "content", "page_content", "document.content"];
const SOURCE_FIELDS: &[&str] = &["document", "source", "file_path", "file_name", "path", "url"];

/// The rows as rows of answers, if a tracing tool exported them; `None` if these are other rows.
pub(super) fn read_traced(rows: &[NumberedRow<'_>]) -> Option<Vec<(usize, Map<String, Value>)>> {
    if !rows.iter().any(|(_, fields)| is_traced(fields)) {
        return None;
    }
    let grouped = rows.iter().map(|&(number, fields)| (number, group_columns(fields))).collect();
    Some(join_spans(grouped).into_iter().map(|(number, fields)| (number, of_answer(fields))).collect())
}

fn is_traced(fields: &Map<String, Value>) -> bool {
    let has_object = |names: &[&str]| names.iter().any(|name| fields.get(*name).is_some_and(is_object));
    let has_group = || fields.keys().any(|name| group_of(name, fields).is_some_and(|(group, _)| group != REFERENCE));
    MARKS.iter().any(|mark| fields.contains_key(*mark)) || has_group() || has_object(INPUTS) || has_object(OUTPUTS)
}

/// The object of which a column is a field, and the name of the field; none if the column stands for itself.
fn group_of<'a>(column: &'a str, fields: &Map<String, Value>) -> Option<(&'a str, &'a str)> {
    column.split_once('.').filter(|(group, _)| GROUPS.contains(group) && !fields.contains_key(*group))
}

/// The fields with columns such as `inputs.question` as fields of one object.
fn group_columns(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut grouped = Map::new();
    for (name, value) in fields {
        let Some((group, field)) = group_of(name, fields) else {
            grouped.insert(name.clone(), value.clone());
            continue;
        };
        let object = grouped.entry(group).or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(object), false) = (object, value.is_null()) {
            object.insert(field.to_owned(), value.clone());
        }
    }
    grouped
}

/// One row for each trace, if the rows are spans: its root, with the documents of the last span that has some.
fn join_spans(rows: Vec<(usize, Map<String, Value>)>) -> Vec<(usize, Map<String, Value>)> {
    let trace = |fields: &Map<String, Value>| {
        ["context.trace_id", "trace_id", "traceId"]
            .iter()
            .find_map(|name| fields.get(*name)?.as_str().map(str::to_owned))
    };
    let is_child = |fields: &Map<String, Value>| {
        let parent = ["parent_id", "parent_run_id", "parentObservationId"].iter().find_map(|name| fields.get(*name));
        parent.is_some_and(|parent| parent.as_str().is_some_and(|parent| !parent.is_empty()))
    };
    if !rows.iter().any(|(_, fields)| is_child(fields)) {
        return rows;
    }
    let mut documents: HashMap<String, Value> = HashMap::new();
    for (_, fields) in &rows {
        let found = DOCUMENTS.iter().find_map(|name| fields.get(*name).filter(|value| as_list(value).is_some()));
        if let (Some(trace), Some(found)) = (trace(fields), found) {
            documents.insert(trace, found.clone());
        }
    }
    let roots = rows.into_iter().filter(|(_, fields)| !is_child(fields));
    roots
        .map(|(number, mut fields)| {
            if let Some(found) = trace(&fields).and_then(|trace| documents.remove(&trace)) {
                fields.insert(DOCUMENTS[1].to_owned(), found);
            }
            (number, fields)
        })
        .collect()
}

/// An exported row with our columns in place of its objects.
fn of_answer(mut fields: Map<String, Value>) -> Map<String, Value> {
    let mut take = |names: &[&str]| {
        let name = names.iter().find(|name| fields.get(**name).is_some_and(|value| !value.is_null()))?;
        fields.remove(*name).map(parsed)
    };
    let (input, output, reference) = (take(INPUTS), take(OUTPUTS), take(REFERENCES));
    let documents = take(DOCUMENTS);
    let question = input.as_ref().and_then(|input| text_of(input, QUESTION_FIELDS, &["user", "human"]));
    let answer = output.as_ref().and_then(|output| text_of(output, ANSWER_FIELDS, &["assistant", "ai"]));
    let reference = reference.as_ref().and_then(|it| text_of(it, ANSWER_FIELDS, &["assistant", "ai"]));
    let passages = documents.or_else(|| {
        let output = output.as_ref()?.as_object()?;
        PASSAGE_FIELDS.iter().find_map(|name| output.get(*name).filter(|value| as_list(value).is_some())).cloned()
    });
    let passages = passages.as_ref().and_then(as_list);
    let passages = passages.map(|items| Value::Array(items.into_iter().map(plain_passage).collect()));
    for (name, value) in [
        ("question", question.map(Value::String)),
        ("answer", answer.map(Value::String)),
        ("reference", reference.map(Value::String)),
        ("contexts", passages),
    ] {
        if let Some(value) = value {
            fields.entry(name).or_insert(value);
        }
    }
    fields
}

fn is_object(value: &Value) -> bool {
    matches!(value, Value::Object(_)) || matches!(parsed(value.clone()), Value::Object(_))
}

/// A value with its text of JSON read.
fn parsed(value: Value) -> Value {
    match &value {
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    }
}

/// The items of a list, which may be written as JSON.
fn as_list(value: &Value) -> Option<Vec<Value>> {
    match parsed(value.clone()) {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// The text of an object: the field with one of these names, the last message of one of these roles, or its only text.
fn text_of(value: &Value, names: &[&str], roles: &[&str]) -> Option<String> {
    let object = match value {
        Value::String(text) => return Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => return Some(value.to_string()),
        Value::Array(messages) => return message_of(messages, roles),
        Value::Object(object) => object,
        Value::Null => return None,
    };
    let named = names.iter().find_map(|name| object.get(*name).filter(|value| !value.is_null()));
    if let Some(found) = named {
        return text_of(found, names, roles);
    }
    if let Some(messages) = object.get("messages").and_then(Value::as_array) {
        return message_of(messages, roles);
    }
    let message = object.get("choices").and_then(|choices| choices.get(0)?.get("message")).or(object.get("message"));
    if let Some(message) = message {
        return text_of(message, names, roles);
    }
    let mut texts = object.values().filter_map(Value::as_str);
    let only = texts.next()?;
    texts.next().is_none().then(|| only.to_owned())
}

/// The content of the last message of one of these roles. Some tools keep messages in a list for each call.
fn message_of(messages: &[Value], roles: &[&str]) -> Option<String> {
    if let [Value::Array(inner)] = messages {
        return message_of(inner, roles);
    }
    let role = |message: &Value| {
        let of = |message: &Value| message.get("role").or(message.get("type"))?.as_str().map(str::to_lowercase);
        of(message).unwrap_or_default()
    };
    let content = |message: &Value| message.get("content").and_then(Value::as_str).map(str::to_owned);
    let spoken = messages.iter().rev().find(|message| roles.contains(&role(message).as_str()))?;
    content(spoken)
}

/// A passage with its text as `text` and its document as `document`.
fn plain_passage(item: Value) -> Value {
    let Value::Object(mut fields) = item else { return item };
    // LangChain writes a class with its arguments.
    if let Some(Value::Object(arguments)) = fields.remove("kwargs") {
        fields = arguments;
    }
    // A field `document` may be the whole passage.
    if let Some(Value::Object(inner)) = fields.get("document").cloned() {
        fields = inner;
    }
    let text = TEXT_FIELDS.iter().find_map(|name| fields.get(*name)).cloned();
    let metadata = fields.get("metadata").or(fields.get("document.metadata")).cloned().map(parsed);
    let of = |holder: &Map<String, Value>| {
        SOURCE_FIELDS.iter().find_map(|name| holder.get(*name).filter(|value| value.is_string()).cloned())
    };
    let document = of(&fields).or_else(|| of(metadata.as_ref()?.as_object()?));
    let named = [("text", text), ("document", document)];
    Value::Object(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

#[cfg(test)]
mod tests {
    use super::super::read_answers;
    use super::*;
    use serde_json::json;

    /// Question, answer, reference and passages (document: text) of a row.
    type ReadRow = (String, Option<String>, Option<String>, Option<Vec<String>>);

    fn read(rows: Value) -> Vec<ReadRow> {
        let rows: Vec<Map<String, Value>> = serde_json::from_value(rows).unwrap();
        let rows = read_answers(&rows, &[]).unwrap();
        let passages = |row: &super::super::AnsweredRow| {
            let passages = row.passages.as_ref()?;
            Some(passages.iter().map(|passage| format!("{}: {}", passage.document, passage.text)).collect())
        };
        rows.iter()
            .map(|row| {
                let answer = row.answer.as_ref().map(|answer| answer.text.clone());
                (row.question.question.clone(), answer, row.question.reference.clone(), passages(row))
            })
            .collect()
    }

    fn owl() -> ReadRow {
        let some = |text: &str| Some(text.to_owned());
        ("How far?".to_owned(), some("270 degrees."), some("By 270."), Some(vec!["owls.md: An owl turns.".to_owned()]))
    }

    #[test]
    fn examples_of_langsmith_have_objects_or_columns_with_dots() {
        let document =
            json!({ "page_content": "An owl turns.", "metadata": { "source": "owls.md" }, "type": "Document" });
        let objects = json!([{
            "id": "1", "inputs": { "question": "How far?" }, "execution_time": 0.4,
            "outputs": { "answer": "270 degrees.", "context": [document] }, "reference_outputs": { "answer": "By 270." },
        }]);
        assert_eq!(read(objects), [owl()]);
        let dotted = json!([{
            "inputs.question": "How far?", "outputs.answer": "270 degrees.", "outputs.documents": [{
                "lc": 1, "type": "constructor", "kwargs": { "page_content": "An owl turns.", "metadata": { "source": "owls.md" } }
            }], "reference.answer": "By 270.", "error": null,
        }]);
        assert_eq!(read(dotted), [owl()]);
    }

    #[test]
    fn rows_of_langfuse_may_be_texts_of_json_and_conversations() {
        let messages = json!([
            { "role": "system", "content": "Be brief." }, { "role": "user", "content": "Hello" },
            { "role": "assistant", "content": "Hi" }, { "role": "user", "content": "How far?" }
        ]);
        let output = json!({ "role": "assistant", "content": "270 degrees.", "sources": ["An owl turns."] });
        let rows = json!([{
            "id": "a", "name": "qa", "input": messages.to_string(), "output": output.to_string(),
            "expectedOutput": "By 270.", "latency": 1.5,
        }]);
        let (question, answer, reference, _) = owl();
        assert_eq!(read(rows), [(question, answer, reference, Some(vec![": An owl turns.".to_owned()]))]);
    }

    #[test]
    fn experiments_of_phoenix_have_a_reference_output() {
        let rows = json!([{
            "example_id": "e1", "repetition_number": 1, "input": { "query": "How far?" }, "output": "270 degrees.",
            "reference_output": { "expected": "By 270." }, "latency_ms": 12.0,
        }]);
        let (question, answer, reference, _) = owl();
        assert_eq!(read(rows), [(question, answer, reference, None)]);
    }

    #[test]
    fn spans_of_phoenix_are_joined_by_their_trace() {
        let documents = json!([{
            "document.content": "An owl turns.", "document.score": 0.5, "document.metadata": { "file_name": "owls.md" }
        }]);
        let rows = json!([
            { "context.trace_id": "a", "parent_id": "r", "attributes.input.value": "degrees owl",
              "attributes.output.value": null, "attributes.retrieval.documents": documents },
            { "context.trace_id": "a", "parent_id": null, "attributes.input.value": "{\"question\": \"How far?\"}",
              "attributes.output.value": "270 degrees.", "attributes.retrieval.documents": null },
            { "context.trace_id": "b", "parent_id": null, "attributes.input.value": "Who?",
              "attributes.output.value": "Nobody.", "attributes.retrieval.documents": null },
        ]);
        let (question, answer, _, passages) = owl();
        let second = ("Who?".to_owned(), Some("Nobody.".to_owned()), None, None);
        assert_eq!(read(rows), [(question, answer, None, passages), second]);
    }

    #[test]
    fn other_rows_stay_as_they_are() {
        let row = json!({ "input": "How far?", "actual_output": "270 degrees.", "expected_output": "By 270." });
        let row = row.as_object().unwrap();
        assert_eq!(read_traced(&[(0, row)]), None);
    }
}

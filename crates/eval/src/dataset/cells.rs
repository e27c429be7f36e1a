//! Reads one cell of a file of records: a text, a list of texts, yes or no. Finds
//! misspelt column names.
//!
//! The text of an error follows the column's name.

use super::literal::{self, LiteralError};
use serde_json::{Map, Value};

/// Why a cell cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CellError {
    #[error("must be a text, not {0}")]
    NotText(String),
    #[error("must be a list of texts, not {0}")]
    NotTexts(String),
    #[error("must be true or false, not {0}")]
    NotBoolean(String),
    #[error("cannot be read: {0}")]
    Literal(#[from] LiteralError),
    /// A field of our own that serde refuses.
    #[error("cannot be read: {0}")]
    Json(String),
}

impl CellError {
    fn new(kind: fn(String) -> Self, value: &Value) -> Self {
        kind(crate::prompt::shorten(&value.to_string(), 40))
    }
}

/// Whether a cell is empty; pandas writes missing values as `nan`.
pub(super) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty() || text.trim().eq_ignore_ascii_case("nan"),
        _ => false,
    }
}

/// The first of some columns that is not blank.
pub(super) fn find_filled<'a>(
    fields: &'a Map<String, Value>,
    names: &[&'static str],
) -> Option<(&'static str, &'a Value)> {
    names.iter().find_map(|name| Some((*name, fields.get(*name).filter(|value| !is_blank(value))?)))
}

/// A text, trimmed; a number counts as one (ids often are).
pub(super) fn text(value: &Value) -> Result<String, CellError> {
    match value {
        Value::String(text) => Ok(text.trim().to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null => Ok(String::new()),
        other => Err(CellError::new(CellError::NotText, other)),
    }
}

/// A list of texts; a single text is a list of one.
pub(super) fn texts(value: &Value) -> Result<Vec<String>, CellError> {
    match value {
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).map(text).collect(),
        Value::String(cell) if cell.trim_start().starts_with(['[', '(']) => Ok(literal::list_of_texts(cell)?),
        Value::String(text) => Ok(vec![text.trim().to_owned()]),
        other => Err(CellError::new(CellError::NotTexts, other)),
    }
}

/// Writes a cell: a text as it is, a missing value as nothing, the rest as JSON.
pub(super) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        // As pandas writes it.
        Some(Value::Bool(yes)) => if *yes { "True" } else { "False" }.to_owned(),
        Some(other) => other.to_string(),
    }
}

/// Yes or no, as JSON, Python and spreadsheets write it.
pub(super) fn boolean(value: &Value) -> Result<bool, CellError> {
    let word = match value {
        Value::Bool(value) => return Ok(*value),
        Value::String(text) => text.trim().to_lowercase(),
        other => other.to_string(),
    };
    match word.as_str() {
        "true" | "yes" | "1" | "1.0" => Ok(true),
        "false" | "no" | "0" | "0.0" => Ok(false),
        _ => Err(CellError::new(CellError::NotBoolean, value)),
    }
}

/// The known name that a column's name misspells; `None` if it is a known name.
pub(super) fn misspelled_name<'a>(column: &str, known: &[&'a str]) -> Option<&'a str> {
    if known.contains(&column) || column.chars().count() <= 3 {
        return None;
    }
    let column = column.to_lowercase();
    known.iter().find(|known| strsim::osa_distance(known, &column) <= 1 + known.len() / 8).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_near_if_few_letters_differ() {
        let known = ["question", "id", "reference_contexts"];
        assert_eq!(misspelled_name("Qestion", &known), Some("question"));
        assert_eq!(misspelled_name("question", &known), None);
        assert_eq!((misspelled_name("ids", &known), misspelled_name("notes", &known)), (None, None));
    }

    #[test]
    fn yes_and_no_are_read_as_programs_write_them() {
        for yes in [json!(true), json!("True"), json!("yes"), json!(1), json!("1")] {
            assert_eq!(boolean(&yes), Ok(true), "{yes}");
        }
        for no in [json!(false), json!(" FALSE"), json!("no"), json!(0), json!(0.0)] {
            assert_eq!(boolean(&no), Ok(false), "{no}");
        }
        assert!(boolean(&json!("maybe")).is_err() && boolean(&json!([])).is_err());
    }
}

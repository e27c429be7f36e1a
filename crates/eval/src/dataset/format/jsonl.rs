//! `jsonl`: one JSON object per line. A file that is changed keeps every other
//! member as it was written, to the digit.

use super::{ChangedRecord, OriginalFile, RecordFormat, WriteError};
use crate::dataset::fault::RowError;
use crate::dataset::rows::{FileRecord, RawRecord};
use serde_json::{Map, Value};
use std::ops::Range;

/// The format, for the list in [`super`].
pub(super) const FORMAT: RecordFormat = RecordFormat {
    title: "JSONL",
    written_as: &["jsonl", "ndjson"],
    read_as: &["jsonl", "ndjson", "json"],
    signature: None,
    begins_with: b"{[",
    read: |_, bytes, _| read_jsonl(bytes),
    header: None,
    write,
    rewrite: Some(rewrite),
};

fn write(rows: &[Map<String, Value>], _: &[&str]) -> Result<Vec<u8>, WriteError> {
    let mut out = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut out, row)?;
        out.push(b'\n');
    }
    Ok(out)
}

fn read_jsonl(bytes: &[u8]) -> (Vec<FileRecord>, Vec<RowError>) {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for (i, bytes) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = i + 1;
        let Ok(text) = std::str::from_utf8(bytes) else {
            faults.push(RowError::new(line, "is not UTF-8: save the file as UTF-8"));
            continue;
        };
        if text.trim().is_empty() {
            continue;
        }
        if rows.is_empty() && faults.is_empty() && text.trim_start().starts_with('[') {
            // One fault, and not one per line of the array.
            faults.push(RowError::new(line, "is a JSON array: write one object per line (`jq -c '.[]'` does it)"));
            break;
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => {
                rows.push(FileRecord { line, fields, raw: RawRecord::Text(text.trim().to_owned()) })
            }
            Ok(_) => faults.push(RowError::new(line, "is no JSON object: write one {…} per line")),
            Err(error) => faults.push(RowError::new(line, json_fault(text, &error))),
        }
    }
    (rows, faults)
}

fn json_fault(text: &str, error: &serde_json::Error) -> String {
    // Python writes what JSON does not know.
    if text.contains("NaN") {
        return "is not JSON: `NaN` has no place in it; write null".to_owned();
    }
    // The error's own line number is that within the line.
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    format!("is not JSON (column {}): {reason}", error.column())
}

fn rewrite(file: &OriginalFile<'_>, changed: &[ChangedRecord]) -> Result<Vec<u8>, WriteError> {
    let mut out = file.layout.mark().to_vec();
    for (row, changes) in changed {
        let line = match row.map(|i| &file.rows[i].raw) {
            Some(RawRecord::Text(line)) => line.clone(),
            _ => "{}".to_owned(),
        };
        out.extend(with_members(&line, changes).ok_or(WriteError::NoObject)?.bytes());
        out.extend(file.layout.line_end.bytes());
    }
    Ok(out)
}

/// A JSON object's text with some members replaced or added at its end. All
/// else stays as it was written, to the digit. None if it is no object.
fn with_members(line: &str, changes: &[(String, Value)]) -> Option<String> {
    if changes.is_empty() {
        return Some(line.trim().to_owned());
    }
    let mut text = line.trim().to_owned();
    let members = members(&text)?;
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut added = String::new();
    for (name, value) in changes {
        match members.iter().rev().find(|(known, _)| known == name) {
            Some((_, range)) => edits.push((range.clone(), value.to_string())),
            None => {
                if !(members.is_empty() && added.is_empty()) {
                    added.push_str(", ");
                }
                added.push_str(&format!("{}: {value}", Value::String(name.clone())));
            }
        }
    }
    let end = text.rfind('}')?;
    let inner_end = text[..end].trim_end().len();
    edits.push((inner_end..inner_end, added));
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    for (range, value) in edits {
        text.replace_range(range, &value);
    }
    Some(text)
}

/// The members of a JSON object, which is known to be one: names, and where
/// their values are.
fn members(text: &str) -> Option<Vec<(String, Range<usize>)>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = text.find('{')? + 1;
    loop {
        at += bytes[at..].iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b',')?;
        if bytes[at] == b'}' {
            return Some(found);
        }
        let name_end = value_end(bytes, at)?;
        let name: String = serde_json::from_str(&text[at..name_end]).ok()?;
        at = name_end + bytes[name_end..].iter().position(|byte| *byte == b':')? + 1;
        at += bytes[at..].iter().position(|byte| !byte.is_ascii_whitespace())?;
        let end = value_end(bytes, at)?;
        found.push((name, at..end));
        at = end;
    }
}

/// The end of the JSON value that begins here.
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut in_text = false;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if in_text => at += 1,
            b'"' => {
                in_text = !in_text;
                if !in_text && depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b',' if depth == 0 => return Some(at),
            byte if depth == 0 && byte.is_ascii_whitespace() => return Some(at),
            _ => {}
        }
        at += 1;
    }
    Some(bytes.len())
}

//! Paths in the payload of a point, such as `metadata."a key"`.

use serde_json::{Map, Value};

/// A path in Qdrant's form: `metadata."a key"`. None if Qdrant cannot name it.
pub(super) fn key_of_path(path: &[String]) -> Option<String> {
    let segments = path.iter().map(|segment| {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        match () {
            () if !segment.is_empty() && segment.chars().all(is_plain) => Some(segment.clone()),
            () if segment.contains(['"', '\\']) => None,
            () => Some(format!("\"{segment}\"")),
        }
    });
    Some(segments.collect::<Option<Vec<_>>>()?.join("."))
}

/// The segments of a path that a user wrote: `metadata."a.b"` has two.
pub(super) fn path_of_key(key: &str) -> Vec<String> {
    let (mut segments, mut segment, mut is_quoted) = (Vec::new(), String::new(), false);
    for character in key.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => segments.push(std::mem::take(&mut segment)),
            character => segment.push(character),
        }
    }
    segments.push(segment);
    segments
}

/// The value at a path.
pub(super) fn value_at<'a>(payload: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(payload.get(first)?, |value, segment| value.get(segment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_quoted_where_they_must_be_and_read_as_they_are_written() {
        let path = |segments: &[&str]| segments.iter().map(|segment| (*segment).to_owned()).collect::<Vec<_>>();
        for (segments, key) in [
            (path(&["fields", "a.b"]), Some("fields.\"a.b\"")),
            (path(&["fields", ""]), Some("fields.\"\"")),
            (path(&["ü", "x[0]"]), Some("\"ü\".\"x[0]\"")),
            (path(&["a_b-1"]), Some("a_b-1")),
            (path(&["fields", "it \"is\""]), None),
        ] {
            assert_eq!(key_of_path(&segments).as_deref(), key);
            if let Some(key) = key {
                assert_eq!(path_of_key(key), segments);
            }
        }
        let payload = json!({ "meta": { "a.b": [1] }, "x.y": 2 });
        let payload = payload.as_object().unwrap();
        assert_eq!(value_at(payload, &path_of_key("meta.\"a.b\"")), Some(&json!([1])));
        assert_eq!(value_at(payload, &path_of_key("x.y")), None);
        assert_eq!(value_at(payload, &path_of_key("\"x.y\"")), Some(&json!(2)));
    }
}

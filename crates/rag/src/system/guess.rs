//! Guesses from one reply where a system writes its answer and its passages, for a first experiment file.

use serde_json::Value;

/// Names of fields with the answer, the most telling first.
const ANSWERS: [&str; 9] =
    ["answer", "response", "output", "result", "completion", "text", "content", "message", "reply"];
/// Names of fields with the passages.
const PASSAGES: [&str; 12] = [
    "passages",
    "contexts",
    "context",
    "sources",
    "source_documents",
    "source_nodes",
    "documents",
    "retrieved_contexts",
    "chunks",
    "citations",
    "references",
    "results",
];
/// Names of fields with the text of a passage.
const TEXTS: [&str; 6] = ["text", "content", "page_content", "passage", "chunk", "snippet"];
/// Names of fields with the document of a passage.
const DOCUMENTS: [&str; 10] =
    ["document", "source", "file", "file_name", "file_path", "path", "url", "title", "document_id", "doc_id"];

/// Where a reply probably holds what is looked for: paths, as the settings of `http` take them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuessedPaths {
    /// The path of the answer.
    pub answer: Option<String>,
    /// The path of the list of passages.
    pub passages: Option<String>,
    /// Within a passage, the path of its text; none if passages are texts.
    pub text: Option<String>,
    /// Within a passage, the path of its document.
    pub document: Option<String>,
}

impl GuessedPaths {
    /// Looks at a reply.
    pub fn of(reply: &Value) -> Self {
        let openai = "choices[0].message.content";
        let is_openai = reply.pointer("/choices/0/message/content").is_some_and(Value::is_string);
        let answer = match is_openai {
            true => Some(openai.to_owned()),
            false => find(reply, &ANSWERS, &Value::is_string),
        };
        let passages = find(reply, &PASSAGES, &is_passages);
        let first = passages.as_deref().and_then(|path| get(reply, path)).and_then(|list| list.get(0));
        let within = |names: &[&str]| first.and_then(|first| find(first, names, &Value::is_string));
        Self { answer, passages: passages.clone(), text: within(&TEXTS), document: within(&DOCUMENTS) }
    }
}

/// Whether a value is a list of texts or objects.
fn is_passages(value: &Value) -> bool {
    value.as_array().is_some_and(|items| {
        !items.is_empty() && (items.iter().all(Value::is_string) || items.iter().all(Value::is_object))
    })
}

/// The path of the first field with one of these names that holds what is wanted: in the value itself, then one level
/// deeper, then two.
fn find(value: &Value, names: &[&str], holds: &dyn Fn(&Value) -> bool) -> Option<String> {
    (0..3).find_map(|depth| names.iter().find_map(|name| at_depth(value, name, holds, depth)))
}

fn at_depth(value: &Value, name: &str, holds: &dyn Fn(&Value) -> bool, depth: usize) -> Option<String> {
    let fields = value.as_object()?;
    if depth == 0 {
        return fields.get(name).filter(|value| holds(value)).map(|_| name.to_owned());
    }
    // A key with other characters would have to be quoted in a path.
    let is_plain = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let mut inner = fields.iter().filter(|(key, _)| is_plain(key));
    inner.find_map(|(key, value)| Some(format!("{key}.{}", at_depth(value, name, holds, depth - 1)?)))
}

fn get<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn guessed(reply: &Value) -> [Option<String>; 4] {
        let GuessedPaths { answer, passages, text, document } = GuessedPaths::of(reply);
        [answer, passages, text, document]
    }

    fn expected(paths: [&str; 4]) -> [Option<String>; 4] {
        paths.map(|path| (!path.is_empty()).then(|| path.to_owned()))
    }

    #[test]
    fn common_replies_are_understood() {
        let table = [
            (json!({ "answer": "x", "contexts": ["a", "b"] }), ["answer", "contexts", "", ""]),
            (
                json!({ "response": "x", "source_nodes": [{ "node": { "text": "a", "metadata": { "file_name": "f" } } }] }),
                ["response", "source_nodes", "node.text", "node.metadata.file_name"],
            ),
            (
                json!({ "data": { "result": "x", "documents": [{ "page_content": "a", "metadata": { "source": "f" } }] } }),
                ["data.result", "data.documents", "page_content", "metadata.source"],
            ),
            (
                json!({ "choices": [{ "message": { "content": "x" } }], "citations": [{ "content": "a", "url": "u" }] }),
                ["choices[0].message.content", "citations", "content", "url"],
            ),
            (json!({ "status": "ok" }), ["", "", "", ""]),
            (json!({ "answer": null, "passages": [] }), ["", "", "", ""]),
            (json!("x"), ["", "", "", ""]),
        ];
        for (reply, paths) in table {
            assert_eq!(guessed(&reply), expected(paths), "{reply}");
        }
    }
}

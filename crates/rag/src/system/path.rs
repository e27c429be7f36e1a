//! Paths into replies, such as `choices[0].message.content`.

use serde_json::Value;
use std::fmt;

/// The most names of a reply that a message lists.
const SHOWN_NAMES: usize = 12;
/// The most characters of a name or another text of a reply in a message.
const SHOWN_CHARACTERS: usize = 60;

/// A path to one value of a reply. `$` is the whole reply, and may begin any path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplyPath {
    steps: Vec<PathStep>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathStep {
    /// Into a field of an object; into an item of a list if it is a number.
    Name(String),
    /// Into an item of a list, counted from 0.
    Index(usize),
}

/// Why text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is no path: {reason}; paths look like `answer`, `choices[0].message.content` or `['a.b']`")]
pub(super) struct PathError {
    path: String,
    reason: &'static str,
}

impl ReplyPath {
    /// Reads a path.
    pub(super) fn parse(path: &str) -> Result<Self, PathError> {
        let failed = |reason| PathError { path: path.to_owned(), reason };
        if path.trim().is_empty() {
            return Err(failed("it is empty"));
        }
        let mut steps = Vec::new();
        let mut rest = path;
        if let Some(after) = path.strip_prefix('$')
            && (after.is_empty() || after.starts_with(['.', '[']))
        {
            rest = after.strip_prefix('.').unwrap_or(after);
            if rest.is_empty() && !after.is_empty() {
                return Err(failed("it ends with a dot"));
            }
        }
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('[') {
                Some(inside) => bracket(inside).map_err(failed)?,
                None => {
                    let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
                    (PathStep::Name(plain_name(&rest[..end]).map_err(failed)?), &rest[end..])
                }
            };
            steps.push(step);
            rest = match after.strip_prefix('.') {
                Some("") => return Err(failed("it ends with a dot")),
                Some(after) if after.starts_with('[') => return Err(failed("a dot stands before a bracket")),
                Some(after) => after,
                None if after.is_empty() || after.starts_with('[') => after,
                None => return Err(failed("a dot is missing after a bracket")),
            };
        }
        Ok(Self { steps })
    }

    /// The value at this path, which may be null; none if the reply has no such place.
    pub(super) fn find<'a>(&self, reply: &'a Value) -> Option<&'a Value> {
        self.steps.iter().try_fold(reply, |value, step| step.of(value))
    }

    /// Why this path leads to no value of the `wanted` kind, such as "a text". The text says what is there instead and,
    /// if one field probably holds the value, how to write `setting` under `section`. `is_wanted` tells whether a value
    /// is of that kind.
    pub(super) fn describe_mismatch(
        &self,
        reply: &Value,
        (setting, section): (&str, &str),
        wanted: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> String {
        let (mut found, mut depth) = (reply, 0);
        while let Some(inside) = self.steps.get(depth).and_then(|step| step.of(found)) {
            (found, depth) = (inside, depth + 1);
        }
        let before = Self { steps: self.steps[..depth].to_vec() };
        let problem = match (depth == self.steps.len(), depth, found) {
            (true, _, Value::Object(_)) => format!("`{self}` is an object, and not {wanted}; it {}", content(found)),
            (true, ..) => format!("`{self}` {}, and not {wanted}", content(found)),
            (false, 0, _) => format!("`{self}` is not in the reply; it {}", content(found)),
            (false, ..) => format!("`{self}` is not in the reply; `{before}` {}", content(found)),
        };
        match likely(found, &is_wanted) {
            Some(name) => {
                let mut path = before;
                path.steps.push(PathStep::Name(name.to_owned()));
                format!("{problem}: set `{setting} = {:?}` under {section}", path.to_string())
            }
            None => format!("{problem}: correct `{setting}` under {section}"),
        }
    }
}

/// As it is written in settings.
impl fmt::Display for ReplyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str("$");
        }
        for (i, step) in self.steps.iter().enumerate() {
            match step {
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Name(name) if plain_name(name).is_ok() && !name.contains(['.', '[', ']']) => {
                    write!(f, "{}{name}", if i == 0 { "" } else { "." })?;
                }
                PathStep::Name(name) => write!(f, "['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))?,
            }
        }
        Ok(())
    }
}

impl PathStep {
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match (self, value) {
            (Self::Name(name), Value::Object(fields)) => fields.get(name),
            // `sources.0.text`, as many write it.
            (Self::Name(name), Value::Array(items)) => items.get(name.parse::<usize>().ok()?),
            (Self::Index(index), Value::Array(items)) => items.get(*index),
            _ => None,
        }
    }
}

/// A name that stands without brackets.
fn plain_name(name: &str) -> Result<String, &'static str> {
    if name.is_empty() {
        return Err("a name is missing");
    }
    if name.contains('*') {
        return Err("it must lead to one place, so it has no `*`");
    }
    if name.starts_with('$')
        || name.contains(['\'', '"', '\\'])
        || name.trim() != name
        || name.contains(char::is_control)
    {
        return Err("a name with such characters must stand in brackets and quotes");
    }
    Ok(name.to_owned())
}

/// The step in brackets, and what follows.
fn bracket(inside: &str) -> Result<(PathStep, &str), &'static str> {
    const OPEN: &str = "a bracket is not closed";
    let quote = inside.chars().next().ok_or(OPEN)?;
    if !matches!(quote, '\'' | '"') {
        let (number, after) = inside.split_once(']').ok_or(OPEN)?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let index = number.parse().ok().filter(|_| is_number);
        let index = index.ok_or("brackets hold a position from 0, or a name in quotes")?;
        return Ok((PathStep::Index(index), after));
    }
    let (mut name, mut characters) = (String::new(), inside[1..].char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.push(characters.next().ok_or("a quote is not closed")?.1),
            character if character == quote => {
                let after = inside[1 + at + 1..].strip_prefix(']').ok_or(OPEN)?;
                return Ok((PathStep::Name(name), after));
            }
            character => name.push(character),
        }
    }
    Err("a quote is not closed")
}

/// What a value holds, as the end of a sentence.
fn content(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "is an object without fields".to_owned(),
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().take(SHOWN_NAMES).map(|name| format!("`{}`", shown(name))).collect();
            let more = if fields.len() > SHOWN_NAMES { ", …" } else { "" };
            format!("has {}{more}", names.join(", "))
        }
        Value::Array(items) => match items.len() {
            1 => "is a list of 1 item".to_owned(),
            n_items => format!("is a list of {n_items} items"),
        },
        value => format!("is {}", kind_of(value)),
    }
}

/// The kind of a value, with its article.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The field that probably holds the wanted value: the only one of its type, otherwise one with a usual name.
fn likely(value: &Value, is_wanted: impl Fn(&Value) -> bool) -> Option<&str> {
    const USUAL: [&str; 16] = [
        "answer",
        "response",
        "output",
        "result",
        "text",
        "content",
        "message",
        "reply",
        "passages",
        "sources",
        "contexts",
        "documents",
        "docs",
        "chunks",
        "results",
        "context",
    ];
    let wanted: Vec<&str> =
        value.as_object()?.iter().filter(|(_, value)| is_wanted(value)).map(|(name, _)| name.as_str()).collect();
    match wanted.as_slice() {
        [only] => Some(only),
        several => USUAL.into_iter().find_map(|usual| several.iter().copied().find(|name| *name == usual)),
    }
}

/// The beginning of text from outside on one line, without characters that a terminal would obey.
pub(super) fn shown(text: &str) -> String {
    let visible = |character: char| match character {
        '\'' | '"' => String::from(character),
        character => character.escape_debug().to_string(),
    };
    let mut shown: String = text.chars().take(SHOWN_CHARACTERS).map(visible).collect();
    if text.chars().nth(SHOWN_CHARACTERS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> ReplyPath {
        ReplyPath::parse(text).expect(text)
    }

    fn missing(text: &str, reply: &Value) -> String {
        path(text).describe_mismatch(reply, ("answer", "[systems.app]"), "a text", Value::is_string)
    }

    #[test]
    fn paths_lead_to_their_values() {
        let reply = json!({
            "answer": "a",
            "choices": [{ "message": { "content": "b" } }],
            "a.b": { "it's": "c", "[x]": "d" },
            "with space": { "kebab-case": "e" },
            "null": null,
            "$x": "f",
        });
        for (text, expected) in [
            ("answer", json!("a")),
            ("$.answer", json!("a")),
            ("$['answer']", json!("a")),
            ("choices[0].message.content", json!("b")),
            ("$.choices[0]['message'].content", json!("b")),
            ("choices.0.message.content", json!("b")),
            (r"['a.b']['it\'s']", json!("c")),
            (r#"["a.b"]["it's"]"#, json!("c")),
            ("['a.b']['[x]']", json!("d")),
            ("with space.kebab-case", json!("e")),
            ("null", json!(null)),
            ("['$x']", json!("f")),
        ] {
            assert_eq!(path(text).find(&reply), Some(&expected), "{text}");
        }
        assert_eq!(path("$").find(&reply), Some(&reply));
        assert_eq!(path("$[1]").find(&json!([1, 2])), Some(&json!(2)));
        for absent in ["other", "answer.x", "choices[1]", "choices.x", "null.x", "answer[0]", "a.b"] {
            assert_eq!(path(absent).find(&reply), None, "{absent}");
        }
    }

    #[test]
    fn a_path_is_written_as_it_is_read() {
        for text in ["answer", "choices[0].message.content", "['a.b'][0].c", r"a['it\'s \\ x']", "$", "[0]", "a['']"] {
            assert_eq!(path(text).to_string(), text);
            assert_eq!(path(&path(text).to_string()), path(text));
        }
        assert_eq!(path("$.a['b']").to_string(), "a.b");
    }

    #[test]
    fn what_is_no_path_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "it is empty"),
            ("a.", "it ends with a dot"),
            ("$.", "it ends with a dot"),
            ("a..b", "a name is missing"),
            (".a", "a name is missing"),
            ("a.[0]", "a dot stands before a bracket"),
            ("a[0]b", "a dot is missing after a bracket"),
            ("a[", "a bracket is not closed"),
            ("a[0", "a bracket is not closed"),
            ("a['b'", "a bracket is not closed"),
            ("a['b", "a quote is not closed"),
            ("a['b\\", "a quote is not closed"),
            ("a[-1]", "a position from 0"),
            ("a[+1]", "a position from 0"),
            ("a[]", "a position from 0"),
            ("a[99999999999999999999999]", "a position from 0"),
            ("a[*]", "a position from 0"),
            ("a.*.b", "no `*`"),
            ("a]", "a dot is missing after a bracket"),
            ("a 'b'", "must stand in brackets"),
            ("$x", "must stand in brackets"),
            (" a", "must stand in brackets"),
        ] {
            let error = ReplyPath::parse(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_missing_value_is_described_by_what_is_there() {
        assert_eq!(
            missing("answer", &json!({ "output": "x", "docs": [] })),
            "`answer` is not in the reply; it has `output`, `docs`: set `answer = \"output\"` under [systems.app]"
        );
        assert_eq!(
            missing("choices[0].message.content", &json!({ "choices": [{ "text": "x" }] })),
            "`choices[0].message.content` is not in the reply; `choices[0]` has `text`: set `answer = \
             \"choices[0].text\"` under [systems.app]"
        );
        assert_eq!(
            missing("choices[2]", &json!({ "choices": [1] })),
            "`choices[2]` is not in the reply; `choices` is a list of 1 item: correct `answer` under [systems.app]"
        );
        let two = missing("answer", &json!({ "id": "1", "response": "x" }));
        assert!(two.contains("set `answer = \"response\"`"), "the usual name of several: {two}");
        let unclear = missing("answer", &json!({ "id": "1", "key": "x" }));
        assert!(unclear.ends_with("correct `answer` under [systems.app]"), "{unclear}");
        assert!(missing("answer", &json!("text")).contains("; it is a text: "));
        assert_eq!(
            missing("answer", &json!({ "answer": { "text": "x", "n": 1 } })),
            "`answer` is an object, and not a text; it has `text`, `n`: set `answer = \"answer.text\"` under \
             [systems.app]"
        );
        assert!(missing("answer", &json!({ "answer": null })).starts_with("`answer` is null, and not a text: correct"));
        assert!(missing("answer", &json!({ "answer": [1, 2] })).starts_with("`answer` is a list of 2 items, and not"));
        assert!(missing("answer", &json!({})).contains("; it is an object without fields: "));
    }

    #[test]
    fn names_in_a_message_are_short_and_safe() {
        let many: Value = (0..100).map(|i| (format!("n{i}\u{1b}[2J{}", "x".repeat(1000)), json!(1))).collect();
        let text = missing("answer", &many);
        assert!(text.len() < 2000 && !text.contains('\u{1b}') && text.contains(", …"), "{text}");
    }
}

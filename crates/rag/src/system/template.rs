//! Templates of requests: JSON with placeholders such as `{question}`, which are replaced for each question.
//!
//! A string that is one placeholder becomes the value with its type: `"{top_k}"` becomes `5`. Inside a longer string
//! the value is text. `{{` and `}}` are braces. A template is read once, and rendering never looks for placeholders in
//! values, so the braces of a question stay as they are.

use super::SystemQuestion;
use models::{Message, Role};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt};

/// A value that a question has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Placeholder {
    /// The text of the question.
    Question,
    /// The messages before the question and the question, in the form of OpenAI's protocol.
    Messages,
    /// The id of the question in the dataset.
    Id,
    /// The seed of the system.
    Seed,
    /// A parameter of the trial.
    Parameter(String),
}

/// The placeholders of every question.
const COMMON: [(&str, Placeholder); 4] = [
    ("question", Placeholder::Question),
    ("messages", Placeholder::Messages),
    ("id", Placeholder::Id),
    ("seed", Placeholder::Seed),
];

/// Why text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlaceholderError {
    /// An opening brace without a closing one, or the reverse.
    #[error("has a single `{0}`, which begins no placeholder: write `{0}{0}` for a brace")]
    Brace(char),
    /// Braces around something that cannot be a name.
    #[error("has `{{{0}}}`, which is no placeholder: names have only a-z, 0-9 and _; write `{{{{` for a brace")]
    Name(String),
}

impl Placeholder {
    fn named(name: &str) -> Result<Self, PlaceholderError> {
        match COMMON.iter().find(|(common, _)| *common == name) {
            Some((_, placeholder)) => Ok(placeholder.clone()),
            None if is_name(name) => Ok(Self::Parameter(name.to_owned())),
            None => Err(PlaceholderError::Name(name.to_owned())),
        }
    }

    /// Whether it brings the question.
    pub(super) fn asks(&self) -> bool {
        matches!(self, Self::Question | Self::Messages)
    }

    /// The value, with its type.
    fn value(&self, question: &SystemQuestion<'_>) -> Value {
        match self {
            Self::Question => question.text.into(),
            Self::Messages => messages(question).map(|(role, text)| json!({ "role": role, "content": text })).collect(),
            Self::Id => question.id.into(),
            Self::Seed => question.seed.into(),
            Self::Parameter(name) => question.parameters.get(name).cloned().unwrap_or_default(),
        }
    }

    /// The value as text.
    fn write(&self, question: &SystemQuestion<'_>, text: &mut String) {
        match self {
            Self::Question => text.push_str(question.text),
            Self::Messages => {
                let lines: Vec<String> = messages(question).map(|(role, text)| format!("{role}: {text}")).collect();
                text.push_str(&lines.join("\n"));
            }
            Self::Id => text.push_str(question.id),
            Self::Seed => text.push_str(&question.seed.to_string()),
            Self::Parameter(name) => match question.parameters.get(name) {
                None | Some(Value::Null) => {}
                Some(Value::String(value)) => text.push_str(value),
                Some(value) => text.push_str(&value.to_string()),
            },
        }
    }
}

/// As it is written in a template.
impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Parameter(name) => name,
            common => COMMON.iter().find(|(_, placeholder)| placeholder == common).map_or("", |(name, _)| name),
        };
        write!(f, "{{{name}}}")
    }
}

/// Whether a parameter can have this name.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Roles and texts of the messages before the question, and of the question.
fn messages<'a>(question: &SystemQuestion<'a>) -> impl Iterator<Item = (&'static str, &'a str)> {
    let role = |message: &Message| match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let before = question.history.iter().map(move |message| (role(message), message.content.as_str()));
    before.chain([("user", question.text)])
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq)]
enum TextPart {
    Literal(String),
    Value(Placeholder),
}

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct TextTemplate {
    parts: Vec<TextPart>,
}

impl TextTemplate {
    /// Reads a text.
    pub(super) fn parse(text: &str) -> Result<Self, PlaceholderError> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = if rest[at..].starts_with('{') { '{' } else { '}' };
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                literal.push(brace);
                rest = after;
                continue;
            }
            let name = rest.split_once('}').filter(|(name, _)| brace == '{' && !name.contains('{'));
            let (name, after) = name.ok_or(PlaceholderError::Brace(brace))?;
            if !literal.is_empty() {
                parts.push(TextPart::Literal(std::mem::take(&mut literal)));
            }
            parts.push(TextPart::Value(Placeholder::named(name)?));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TextPart::Literal(literal));
        }
        Ok(Self { parts })
    }

    /// The text for a question.
    pub(super) fn render(&self, question: &SystemQuestion<'_>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TextPart::Literal(literal) => text.push_str(literal),
                TextPart::Value(placeholder) => placeholder.write(question, &mut text),
            }
        }
        text
    }

    /// The placeholder, if the text is nothing else.
    fn whole(&self) -> Option<&Placeholder> {
        match self.parts.as_slice() {
            [TextPart::Value(placeholder)] => Some(placeholder),
            _ => None,
        }
    }

    /// Its placeholders.
    pub(super) fn placeholders(&self) -> Vec<&Placeholder> {
        let placeholder = |part| match part {
            &TextPart::Literal(_) => None,
            TextPart::Value(placeholder) => Some(placeholder),
        };
        self.parts.iter().filter_map(placeholder).collect()
    }
}

/// Text in which no placeholder is found: with its braces doubled.
pub(super) fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// JSON with placeholders in its strings. Names of fields are written as they are.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JsonTemplate {
    /// A number, a boolean or null.
    Scalar(Value),
    /// A string.
    Text(TextTemplate),
    /// A list. All messages take the place of an item `"{messages}"`, each as an item of its own.
    List(Vec<JsonTemplate>),
    /// An object.
    Object(Vec<(String, JsonTemplate)>),
}

impl JsonTemplate {
    /// Reads JSON that stands at `place` of the settings, such as `body`.
    ///
    /// # Errors
    /// A sentence that names the place.
    pub(super) fn parse(value: &Value, place: &str) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Text(TextTemplate::parse(text).map_err(|error| format!("`{place}` {error}"))?),
            Value::Array(items) => {
                let item = |(i, item)| Self::parse(item, &format!("{place}[{i}]"));
                Self::List(items.iter().enumerate().map(item).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let field =
                    |(name, value): (&String, _)| Ok((name.clone(), Self::parse(value, &format!("{place}.{name}"))?));
                Self::Object(fields.iter().map(field).collect::<Result<_, String>>()?)
            }
            scalar => Self::Scalar(scalar.clone()),
        })
    }

    /// The JSON for a question.
    pub(super) fn render(&self, question: &SystemQuestion<'_>) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::Text(text) => match text.whole() {
                Some(placeholder) => placeholder.value(question),
                None => text.render(question).into(),
            },
            Self::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    match (item.is_messages(), item.render(question)) {
                        (true, Value::Array(messages)) => list.extend(messages),
                        (_, value) => list.push(value),
                    }
                }
                Value::Array(list)
            }
            Self::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), value.render(question))).collect::<Map<_, _>>().into()
            }
        }
    }

    fn is_messages(&self) -> bool {
        matches!(self, Self::Text(text) if text.whole() == Some(&Placeholder::Messages))
    }

    /// Its placeholders.
    pub(super) fn placeholders(&self) -> Vec<&Placeholder> {
        match self {
            Self::Scalar(_) => Vec::new(),
            Self::Text(text) => text.placeholders(),
            Self::List(items) => items.iter().flat_map(Self::placeholders).collect(),
            Self::Object(fields) => fields.iter().flat_map(|(_, value)| value.placeholders()).collect(),
        }
    }
}

/// Checks the placeholders of all templates of a system against the parameters of its trials. `places` are the
/// settings that hold templates, as a sentence names them.
///
/// # Errors
/// A sentence that names the placeholder or the parameter.
pub(super) fn check_placeholders(
    used: &[&Placeholder],
    parameters: &BTreeMap<String, Vec<Value>>,
    places: &str,
) -> Result<(), String> {
    for name in parameters.keys() {
        if COMMON.iter().any(|(common, _)| common == name) {
            return Err(format!("`parameters.{name}` has the name of a placeholder of every question: rename it"));
        }
        if !is_name(name) {
            return Err(format!("`parameters.{name}`: names of parameters have only a-z, 0-9 and _"));
        }
        if !used.iter().any(|placeholder| matches!(placeholder, Placeholder::Parameter(used) if used == name)) {
            return Err(format!(
                "`parameters.{name}` is sent nowhere: write \"{{{name}}}\" into {places}, or remove it"
            ));
        }
    }
    let unknown =
        used.iter().find(|used| matches!(used, Placeholder::Parameter(name) if !parameters.contains_key(name)));
    if let Some(unknown) = unknown {
        let known = COMMON.iter().map(|(name, _)| *name).chain(parameters.keys().map(String::as_str));
        let known: Vec<String> = known.map(|name| format!("{{{name}}}")).collect();
        return Err(format!(
            "`{unknown}` in {places} is no placeholder: there are {}; declare another value under `parameters`",
            known.join(", ")
        ));
    }
    if !used.iter().any(|used| used.asks()) {
        return Err(format!("neither {{question}} nor {{messages}} is sent: write one of them into {places}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &Value, question: &SystemQuestion<'_>) -> Value {
        JsonTemplate::parse(template, "body").expect("a template").render(question)
    }

    fn refusal(template: &Value) -> String {
        JsonTemplate::parse(template, "body").expect_err("a refusal")
    }

    fn with<T>(text: &str, check: impl FnOnce(&SystemQuestion<'_>) -> T) -> T {
        let history = [Message::user("Who is it?"), Message::assistant("Ada.")];
        let parameters = BTreeMap::from([
            ("top_k".to_owned(), json!(5)),
            ("mode".to_owned(), json!("fast")),
            ("tags".to_owned(), json!(["a", 1])),
            ("none".to_owned(), Value::Null),
        ]);
        check(&SystemQuestion { id: "q7", text, history: &history, seed: 3, parameters: &parameters })
    }

    #[test]
    fn a_placeholder_that_is_the_whole_string_keeps_its_type() {
        let template = json!({
            "q": "{question}", "k": "{top_k}", "mode": "{mode}", "tags": "{tags}", "seed": "{seed}", "id": "{id}",
            "none": "{none}", "stream": false, "depth": 2.5
        });
        let expected = json!({
            "q": "When?", "k": 5, "mode": "fast", "tags": ["a", 1], "seed": 3, "id": "q7", "none": null,
            "stream": false, "depth": 2.5
        });
        assert_eq!(with("When?", |question| rendered(&template, question)), expected);
    }

    #[test]
    fn inside_a_longer_string_a_value_is_text() {
        let template = json!("{{{id}}} {question} k={top_k} {mode} {tags}{none} #{seed}");
        let text = with("When?", |question| rendered(&template, question));
        assert_eq!(text, json!("{q7} When? k=5 fast [\"a\",1] #3"));
        let chat = with("When?", |question| rendered(&json!("Chat:\n{messages}"), question));
        assert_eq!(chat, json!("Chat:\nuser: Who is it?\nassistant: Ada.\nuser: When?"));
    }

    #[test]
    fn messages_are_a_list_and_join_the_list_that_they_stand_in() {
        let all = json!([
            { "role": "user", "content": "Who is it?" },
            { "role": "assistant", "content": "Ada." },
            { "role": "user", "content": "When?" },
        ]);
        with("When?", |question| {
            assert_eq!(rendered(&json!({ "history": "{messages}" }), question)["history"], all);
            let joined = rendered(&json!([{ "role": "system", "content": "Be brief." }, "{messages}"]), question);
            assert_eq!(joined.as_array().map(Vec::len), Some(4));
            assert_eq!((&joined[0]["role"], &joined[3]), (&json!("system"), &all[2]));
        });
    }

    #[test]
    fn a_question_with_placeholders_and_braces_is_sent_as_it_is() {
        for text in ["{seed}", "{{id}} }{ {question}", "{\"a\": 1}", "", "\u{0} \\ \" {top_k"] {
            let template = json!({ "q": "{question}", "text": "Q: {question}!", "chat": "{messages}" });
            let value = with(text, |question| rendered(&template, question));
            assert_eq!(value["q"], *text);
            assert_eq!(value["text"], format!("Q: {text}!"));
            assert_eq!(value["chat"][2]["content"], *text);
        }
    }

    #[test]
    fn braces_that_are_no_placeholder_are_refused_with_their_place() {
        assert_eq!(
            refusal(&json!({ "a": ["x", "a { b"] })),
            "`body.a[1]` has a single `{`, which begins no placeholder: write `{{` for a brace"
        );
        assert!(refusal(&json!("a } b")).contains("single `}`"));
        assert!(refusal(&json!("{question")).contains("single `{`"));
        assert!(refusal(&json!("{a{question}")).contains("single `{`"));
        for name in ["{Question}", "{ question }", "{}", "{top-k}"] {
            assert!(refusal(&json!(name)).contains(&format!("has `{name}`, which is no placeholder")));
        }
        assert_eq!(with("q", |question| rendered(&json!("{{question}} }}{{"), question)), json!("{question} }{"));
    }

    #[test]
    fn escaped_text_holds_no_placeholder() {
        for text in ["{question}", "}{", "{{x}}", "plain"] {
            let template = TextTemplate::parse(&escaped(text)).expect("a template");
            assert!(template.placeholders().is_empty());
            assert_eq!(with("q", |question| template.render(question)), text);
        }
    }

    #[test]
    fn parameters_and_placeholders_must_fit_each_other() {
        let check = |template: Value, names: &[&str]| {
            let parameters = names.iter().map(|name| ((*name).to_owned(), vec![json!(1)])).collect();
            let template = JsonTemplate::parse(&template, "body").expect("a template");
            check_placeholders(&template.placeholders(), &parameters, "`body` or `query`")
        };
        assert_eq!(check(json!(["{question}", "{top_k}"]), &["top_k"]), Ok(()));
        assert_eq!(check(json!("{messages}"), &[]), Ok(()));
        let refusal = |template, names| check(template, names).expect_err("a refusal");
        assert_eq!(
            refusal(json!(["{question}", "{topk}"]), &[]),
            "`{topk}` in `body` or `query` is no placeholder: there are {question}, {messages}, {id}, {seed}; declare \
             another value under `parameters`"
        );
        assert!(refusal(json!("{top_k}"), &["top_k"]).starts_with("neither {question} nor {messages} is sent"));
        assert_eq!(
            refusal(json!("{question}"), &["top_k"]),
            "`parameters.top_k` is sent nowhere: write \"{top_k}\" into `body` or `query`, or remove it"
        );
        assert!(refusal(json!("{question}"), &["seed"]).contains("has the name of a placeholder of every question"));
        assert!(refusal(json!("{question}"), &["Top-K"]).contains("only a-z, 0-9 and _"));
    }
}

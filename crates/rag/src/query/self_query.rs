//! `self_query`: a chat model reads from the question which documents it
//! means, and only these are searched.
//!
//! ```toml
//! [space.query.self_query]
//! model = "small"
//! fields = { year = "number", language = ["en", "de"], author = "text" }
//! ```
//!
//! It pays where questions name what metadata holds: a year, an author, a
//! product. A wrong filter hides the answer, so it harms where questions seldom
//! name any. The filter is held to a JSON Schema of the named fields. A reply that
//! cannot be used leaves the question without a filter, and the result says so.
//! Source: LangChain's self-querying retriever.

use super::{
    QueryWriter, SearchQuery, WrittenQueries,
    asker::{Asker, Conversation, ask_settings, holds_free_text},
};
use crate::{
    Component, Context, Error, Filter, InputSize, ModelCalls,
    component::{ensure, settings},
};
use async_trait::async_trait;
use models::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "query self_query";

settings! {
    /// Settings of `self_query`.
    pub struct Config {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// The fields that a filter may use, each with its type (`"text"`,
        /// `"number"`, `"boolean"`) or with the list of its texts.
        #[schemars(with = "Option<BTreeMap<String, Value>>", extend("default" = null))]
        pub fields: BTreeMap<String, FieldValues> = BTreeMap::new(),
        /// The longest reply, in tokens. Default 128.
        pub max_tokens: u32 = 128,
        /// 0 (the default) always takes the likeliest word.
        pub temperature: f32 = 0.0,
        /// Makes replies repeatable at a temperature above 0, if the model
        /// supports it. Default 0.
        pub seed: u64 = 0,
    }
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum FieldValues {
    /// One of these texts.
    OneOf(Vec<String>),
    /// `text`, `number` or `boolean`.
    Type(FieldType),
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    /// A text; filters compare it as a whole.
    Text,
    /// A number; filters state bounds.
    Number,
    /// True or false.
    Boolean,
}

impl Config {
    ask_settings!();

    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn QueryWriter>, Error> {
        let reason = "name the fields that a filter may look at, such as fields = { year = \"number\" }";
        ensure(NAME, !self.fields.is_empty(), reason)?;
        let is_empty = |holds: &FieldValues| matches!(holds, FieldValues::OneOf(texts) if texts.is_empty());
        ensure(NAME, !self.fields.values().any(is_empty), "a field's list of texts is empty")?;
        let asker = self.ask_settings().asker(NAME, cx)?;
        let told: Vec<String> = self.fields.iter().map(|(name, holds)| format!("{name}: {}", words(holds))).collect();
        let instructions = format!(
            "Documents have these fields:\n{}\nReply with the conditions that the question itself states on them, as \
             JSON such as {{\"filter\": {{\"year\": {{\"ge\": 2020}}}}}}. Leave out every field of which the question \
             says nothing; mostly that is all of them: then reply {{\"filter\": {{}}}}.",
            told.join("\n")
        );
        Ok(Box::new(SelfQuery { schema: self.schema(), fields: self.fields.clone(), instructions, asker }))
    }

    /// The JSON Schema of a filter over the fields.
    fn schema(&self) -> Value {
        let of_field = |(name, holds): (&String, &FieldValues)| {
            let schema = match holds {
                FieldValues::OneOf(texts) => json!({ "type": "string", "enum": texts }),
                FieldValues::Type(FieldType::Text) => json!({ "type": "string" }),
                FieldValues::Type(FieldType::Boolean) => json!({ "type": "boolean" }),
                FieldValues::Type(FieldType::Number) => json!({
                    "type": "object",
                    "properties": { "ge": { "type": "number" }, "le": { "type": "number" } },
                    "required": [],
                    "additionalProperties": false,
                }),
            };
            (name.clone(), schema)
        };
        let properties: Map<String, Value> = self.fields.iter().map(of_field).collect();
        json!({ "type": "object", "properties": properties, "required": [], "additionalProperties": false })
    }
}

/// The instruction that sets the language of the filter's values. They are compared with the metadata of documents,
/// so the language of the question does not matter.
const LANGUAGE: &str = " Write the values of fields in the language of the documents.";

impl Component for Config {
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.ask_settings().estimate_calls(item, 1)
    }

    fn fields(&self) -> Vec<&str> {
        self.fields.keys().map(String::as_str).collect()
    }
}

struct SelfQuery {
    schema: Value,
    fields: BTreeMap<String, FieldValues>,
    instructions: String,
    asker: Asker,
}

#[async_trait]
impl QueryWriter for SelfQuery {
    async fn write(&self, question: &str, history: &[Message]) -> Result<WrittenQueries, Error> {
        let conversation = Conversation { question, history };
        let language = if holds_free_text(&self.schema) { LANGUAGE } else { "" };
        let filter = ("filter", self.schema.clone());
        match self.asker.ask_value(&self.instructions, language, conversation, filter).await {
            Ok(conditions) => Ok(self.written(question, conditions)),
            Err(no_reply) => no_reply.search_unchanged(question),
        }
    }
}

impl SelfQuery {
    fn written(&self, question: &str, mut conditions: Map<String, Value>) -> WrittenQueries {
        // An empty condition means that the question says nothing of the field.
        conditions.retain(|_, value| !value.is_null() && *value != json!({}) && *value != json!(""));
        if let Some(name) = conditions.keys().find(|name| !self.fields.contains_key(*name)) {
            let reason = format!("the model's filter names `{name}`, which is none of the fields");
            return WrittenQueries::as_asked(question, reason);
        }
        match serde_json::from_value::<Filter>(Value::Object(conditions)) {
            Ok(filter) => {
                let filter = Some(filter).filter(|filter| !filter.is_empty());
                WrittenQueries::of(vec![SearchQuery { filter, ..question.into() }])
            }
            Err(error) => WrittenQueries::as_asked(question, format!("the model's filter cannot be used: {error}")),
        }
    }
}

fn words(holds: &FieldValues) -> String {
    match holds {
        FieldValues::OneOf(texts) => format!("one of {}", texts.join(", ")),
        FieldValues::Type(FieldType::Text) => "a text".to_owned(),
        FieldValues::Type(FieldType::Number) => "a number".to_owned(),
        FieldValues::Type(FieldType::Boolean) => "true or false".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::ScriptedChat;

    async fn written(reply: &'static str) -> WrittenQueries {
        let script = ScriptedChat::new(4096, move |_| reply.to_owned());
        let fields = json!({ "model": "m", "fields": { "year": "number", "language": ["en", "de"] } });
        let config: Config = serde_json::from_value(fields).unwrap();
        config.build(&script.context()).unwrap().write("What came after 2020?", &[]).await.unwrap()
    }

    #[tokio::test]
    async fn the_filter_of_the_reply_is_searched_with_the_question() {
        let found = written(r#"{"filter": {"year": {"ge": 2020}, "language": "en"}}"#).await;
        assert_eq!(found.queries.len(), 1);
        assert_eq!(found.queries[0].text, "What came after 2020?");
        let filter = found.queries[0].filter.as_ref().unwrap().to_string();
        assert_eq!(filter, r#"{"language":"en","year":{"ge":2020}}"#);
        let nothing = written(r#"{"filter": {"year": {}}}"#).await;
        assert!(nothing.queries[0].filter.is_none() && nothing.fallback.is_none());
    }

    #[tokio::test]
    async fn a_reply_that_cannot_be_used_leaves_the_question_and_says_why() {
        for (reply, reason) in [("no", "not what it was asked for"), (r#"{"filter": 3}"#, "not what it was asked for")]
        {
            let found = written(reply).await;
            assert_eq!(found.queries, [SearchQuery::from("What came after 2020?")], "{reply}");
            assert!(found.fallback.unwrap().reason.contains(reason), "{reply}");
        }
    }

    #[test]
    fn impossible_settings_are_refused() {
        for fields in [json!({}), json!({ "year": [] })] {
            let config: Config = serde_json::from_value(json!({ "model": "m", "fields": fields })).unwrap();
            assert!(matches!(config.build(&Context::default()), Err(Error::Config { .. })));
        }
    }
}

//! `prompt`: what the model is told to do with the passages. A value of the axis
//! is the name of built-in instructions, or the path of a file with a prompt of
//! the user's own. It takes the place of the generator's setting `prompt`.

mod instructions;
mod no_answer;
mod template;

pub(crate) use instructions::{ANSWER_LANGUAGE, Instructions, PromptTask};
pub use instructions::{COMBINE, CORRECT, Prompt, REFINE};
pub use no_answer::{NO_ANSWER, language_of_short_text, no_answer, no_answers};
pub(crate) use template::{ParsedTemplate, Template, TemplateError};

use crate::{AxisValue, Choice, Component, Error, FileError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};
use std::borrow::Cow;
use store::registry::{ReadSettingsFile, docs};

/// Raise when the same file gives another prompt.
const VERSION: u32 = 2;

/// Which instructions. In a file: `"grounded"`, `"brief"`, or the path of a
/// TOML file, relative to the experiment file.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptConfig {
    /// Built-in instructions.
    Named(Prompt, &'static str),
    /// A file's.
    File {
        /// The path, as it was written.
        path: String,
        /// What the file holds; empty until the file was read.
        template: Template,
    },
}

impl Serialize for PromptConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Named(_, name) => name.serialize(serializer),
            Self::File { path, template } if template.is_empty() => path.serialize(serializer),
            Self::File { path, template } => json!({ path: template }).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PromptConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = || {
            let names: Vec<&str> = Prompt::ALL.iter().map(|(name, _)| *name).collect();
            format!("there are {}, and files such as `prompts/short.toml`", names.join(", "))
        };
        match Value::deserialize(deserializer)? {
            Value::String(text) => match Prompt::ALL.iter().find(|(name, _)| *name == text) {
                Some(&(name, prompt)) => Ok(Self::Named(prompt, name)),
                None if text.ends_with(".toml") => Ok(Self::File { path: text, template: Template::default() }),
                None => Err(de::Error::custom(format!("unknown prompt `{text}`: {}", expected()))),
            },
            Value::Object(fields) if fields.len() == 1 => {
                let mut fields = fields.into_iter();
                let (path, template) = fields.next().unwrap_or_default();
                let template = serde_json::from_value(template).map_err(de::Error::custom)?;
                Ok(Self::File { path, template })
            }
            other => Err(de::Error::custom(format!("{other} is no prompt: {}", expected()))),
        }
    }
}

impl JsonSchema for PromptConfig {
    fn schema_name() -> Cow<'static, str> {
        "PromptConfig".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl Component for PromptConfig {
    fn read_files(&mut self, read: ReadSettingsFile<'_>) -> Result<(), FileError> {
        match self {
            Self::File { path, template } if template.is_empty() => {
                *template = Template::read(&read(path)?)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl AxisValue for PromptConfig {
    const HAS_SETTINGS: bool = false;
}

impl Choice for PromptConfig {
    fn name(&self) -> &str {
        match self {
            Self::Named(_, name) => name,
            Self::File { path, .. } => path,
        }
    }
    fn version(&self) -> u32 {
        VERSION
    }
    fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
    fn docs() -> Vec<(&'static str, String)> {
        let built_in = |about: &str| format!("Built-in instructions: {about}");
        vec![
            ("grounded", built_in("one or two sentences from the sources alone, with citations. The default.")),
            ("brief", built_in("the shortest possible answer: a name, a number, a phrase.")),
            ("file", docs(include_str!("template.rs"))),
        ]
    }
    fn check(&self) -> Result<(), Error> {
        match self {
            Self::File { path, template } if !template.is_empty() => {
                let failed = |reason| Error::Config { component: "prompt", reason };
                template.parse().map(drop).map_err(|error| failed(format!("{path}: {error}")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::registry::SettingsFileError;

    const TEXT: &str = "system = \"Answer.\"\nuser = \"\"\"\n{sources}\nQ: {question}\"\"\"\n";

    fn config(value: Value) -> Result<PromptConfig, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_is_a_name_or_a_path_and_is_written_as_it_was_read() {
        for value in [json!("grounded"), json!("brief"), json!("prompts/a.toml")] {
            assert_eq!(config(value.clone()).unwrap().value(), value);
        }
        let error = config(json!("breif")).unwrap_err();
        assert!(error.contains("`breif`") && error.contains("grounded, brief") && error.contains(".toml"), "{error}");
        assert!(config(json!(3)).is_err() && config(json!({ "a": 1, "b": 2 })).is_err());
    }

    #[test]
    fn what_a_file_holds_is_part_of_the_value_once_it_was_read() {
        let mut read = config(json!("prompts/a.toml")).unwrap();
        let lacking = |path: &str| SettingsFileError::NotInBundle(path.to_owned());
        read.read_files(&|path| if path == "prompts/a.toml" { Ok(TEXT.to_owned()) } else { Err(lacking(path)) })
            .unwrap();
        assert_eq!(read.name(), "prompts/a.toml");
        assert_eq!(config(read.value()).unwrap(), read);
        assert!(read.check().is_ok());
        let missing = |path: &str| Err(lacking(path));
        let error = config(json!("b.toml")).unwrap().read_files(&missing).unwrap_err();
        assert!(error.to_string().contains("b.toml is not in the bundle"));
    }
}

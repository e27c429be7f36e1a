//! Tokens and prompts without weights: enough to count tokens and to check a
//! request, at a hundredth of the cost of loading the model.

use super::backend;
use crate::{Error, Message, Role};
use llama_cpp_2::{
    model::{LlamaChatMessage, LlamaChatTemplate, LlamaModel, params::LlamaModelParams},
    token::LlamaToken,
    vocab::LlamaVocab,
};
use std::{collections::BTreeSet, io::Read, path::Path};

/// The vocabulary and chat template of a GGUF file.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    /// The model without weights.
    pub(crate) model: LlamaModel,
    template: Option<LlamaChatTemplate>,
    /// The texts of control tokens.
    control: Vec<String>,
    /// The context length the model was trained with, if the file says.
    pub(crate) trained_context: Option<usize>,
}

impl Vocabulary {
    /// Reads a file's header.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let bad = |reason: &str| Error::bad_file(path, reason);
        // llama.cpp gives no reason if it cannot load a file, so the most
        // likely mistake is checked first.
        let mut magic = [0; 4];
        std::fs::File::open(path)
            .and_then(|mut file| file.read_exact(&mut magic))
            .map_err(|error| bad(&format!("cannot be read: {error}")))?;
        if &magic != b"GGUF" {
            return Err(bad("is not a GGUF file"));
        }
        let parameters = LlamaModelParams::default().with_vocab_only(true);
        let model = LlamaModel::load_from_file(backend()?, path, &parameters)
            .map_err(|_| bad("llama.cpp cannot read it: it is cut off, or of a kind that is newer than llama.cpp"))?;
        let vocab = model.vocab();
        let control = vocab
            .tokens()
            .filter(|token| vocab.is_control(*token))
            .filter_map(|token| vocab.text(token)?.to_str().ok().map(str::to_owned))
            .filter(|text| text.len() > 1)
            .collect();
        let trained_context = model
            .meta_val_str("general.architecture")
            .and_then(|architecture| model.meta_val_str(&format!("{architecture}.context_length")))
            .ok()
            .and_then(|length| length.parse().ok());
        Ok(Self { template: model.chat_template(None).ok(), control, trained_context, model })
    }

    /// How many tokens a text is, without the marks of a conversation.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.vocab().tokenize(text.as_bytes(), false, false).len()
    }

    /// The tokens of a conversation, up to where the model's answer begins.
    pub(crate) fn prompt(&self, messages: &[Message]) -> Result<Vec<LlamaToken>, Error> {
        let text = self.render(messages)?;
        Ok(self.vocab().tokenize(text.as_bytes(), true, true))
    }

    /// The file's own template, or ChatML where it has none that llama.cpp knows.
    fn render(&self, messages: &[Message]) -> Result<String, Error> {
        let unusable =
            |reason: String| Error::Config(format!("the messages cannot be put into the chat template: {reason}"));
        let messages: Vec<LlamaChatMessage> = messages
            .iter()
            .map(|message| LlamaChatMessage::new(role(message.role).into(), self.inert(&message.content)))
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(error.to_string()))?;
        if let Some(template) = &self.template
            && let Ok(text) = self.model.apply_chat_template(template, &messages, true)
        {
            return Ok(text);
        }
        let template = LlamaChatTemplate::new("chatml").map_err(|error| unusable(error.to_string()))?;
        self.model.apply_chat_template(&template, &messages, true).map_err(|error| unusable(error.to_string()))
    }

    /// A message in which the text of a control token is only text: a
    /// retrieved passage that holds `<|im_end|>` must not end the message and
    /// speak for another role.
    fn inert(&self, content: &str) -> String {
        let mut content = content.replace('\0', "");
        for control in &self.control {
            if content.contains(control.as_str()) {
                let mut broken = control.clone();
                let second = control.char_indices().nth(1).map_or(control.len(), |(at, _)| at);
                broken.insert(second, '\u{200b}');
                content = content.replace(control.as_str(), &broken);
            }
        }
        content
    }

    /// For each choice the tokens with which it may begin: as written, in
    /// lower case, in upper case and capitalised, each with and without a
    /// space before it. A token with which two choices may begin belongs to neither.
    pub(crate) fn first_tokens(&self, choices: &[String]) -> Result<Vec<Vec<i32>>, Error> {
        let groups: Vec<BTreeSet<i32>> = choices.iter().map(|choice| self.variants(choice)).collect();
        choices
            .iter()
            .enumerate()
            .map(|(index, choice)| {
                let own: Vec<i32> = groups[index]
                    .iter()
                    .filter(|token| groups.iter().filter(|group| group.contains(token)).count() == 1)
                    .copied()
                    .collect();
                if own.is_empty() {
                    return Err(Error::Config(format!(
                        "the choice `{choice}` begins with the same token as another one: choices must differ at the beginning"
                    )));
                }
                Ok(own)
            })
            .collect()
    }

    fn variants(&self, choice: &str) -> BTreeSet<i32> {
        let choice = choice.trim();
        let capitalised: String = choice
            .chars()
            .enumerate()
            .flat_map(|(index, c)| if index == 0 { c.to_uppercase().collect::<Vec<_>>() } else { vec![c] })
            .collect();
        [choice.to_owned(), choice.to_lowercase(), choice.to_uppercase(), capitalised]
            .iter()
            .flat_map(|text| [text.clone(), format!(" {text}")])
            .filter_map(|text| {
                let tokens = self.vocab().tokenize(text.as_bytes(), false, false);
                // A token that is only a space can begin any choice.
                let pieces = tokens.iter().map(|token| (token.0, self.vocab().token_to_piece(*token, false, None)));
                pieces.into_iter().find(|(_, piece)| piece.iter().any(|byte| *byte != b' ')).map(|(id, _)| id)
            })
            .collect()
    }

    fn vocab(&self) -> LlamaVocab<'_> {
        self.model.vocab()
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

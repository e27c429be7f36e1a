//! A chat model and an embedder that ask the program that started this one for
//! their answers, so that it can give its own pipeline the same answers.

use async_trait::async_trait;
use models::{
    ChatModel, ChatRequest, ChatResponse, Client, EmbeddingModel, Error, Finish, Identity, InputKind, Matrix, Model,
    Usage,
};
use rag::NamedModels;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    io::{BufRead, Write},
    sync::{Arc, Mutex, PoisonError},
};

/// The names of the models.
pub(crate) const CHAT: &str = "chat";
pub(crate) const EMBEDDER: &str = "embedder";

/// One question and its answer at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Both models by their names.
pub(crate) fn models() -> NamedModels {
    let client = Client::new(None);
    let identity = |model: &str| {
        let (provider, model) = ("caller".to_owned(), model.to_owned());
        Identity { provider, model, revision: String::new(), parameters: Value::Null }
    };
    NamedModels {
        chats: [(CHAT.to_owned(), client.chat(Arc::new(Chat(identity(CHAT)))))].into(),
        embedders: [(EMBEDDER.to_owned(), client.embedder(Arc::new(Embedding(identity(EMBEDDER)))))].into(),
        ..NamedModels::default()
    }
}

/// Writes a line and reads the one that answers it.
fn asked<T: DeserializeOwned>(identity: &Identity, question: &Value) -> Result<T, Error> {
    let failed = |message: String| Error::Refused { endpoint: identity.model.clone(), status: 400, message };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut line = String::new();
    let mut talk = || {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", json!({ "asks": question }))?;
        out.flush()?;
        std::io::stdin().lock().read_line(&mut line)
    };
    talk().map_err(|error| failed(error.to_string()))?;
    let mut answer: Value = serde_json::from_str(&line).map_err(|error| failed(error.to_string()))?;
    if let Some(reason) = answer["error"].as_str() {
        return Err(failed(reason.to_owned()));
    }
    serde_json::from_value(answer["answer"].take()).map_err(|error| failed(error.to_string()))
}

struct Chat(Identity);

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    text: String,
    /// The probability of each choice.
    #[serde(default)]
    choices: Vec<f64>,
}

impl Model for Chat {
    fn identity(&self) -> &Identity {
        &self.0
    }
}

#[async_trait]
impl ChatModel for Chat {
    fn context_length(&self) -> usize {
        1 << 20
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        let ChatRequest { messages, schema, choices, seed, .. } = request;
        let question = json!({ "messages": messages, "schema": schema, "choices": choices, "seed": seed });
        let Reply { text, choices } = asked(&self.0, &json!({ "chat": question }))?;
        Ok(ChatResponse { text, finish: Finish::Stop, usage: Usage::default(), choices, seconds: 0.0 })
    }
}

struct Embedding(Identity);

impl Model for Embedding {
    fn identity(&self) -> &Identity {
        &self.0
    }
}

#[async_trait]
impl EmbeddingModel for Embedding {
    fn dimensions(&self) -> usize {
        0
    }

    fn max_tokens(&self) -> usize {
        usize::MAX
    }

    async fn embed(&self, texts: &[String], _: InputKind) -> Result<(Matrix, Usage), Error> {
        let vectors: Vec<Vec<f32>> = asked(&self.0, &json!({ "embed": texts }))?;
        let columns = vectors.first().map_or(0, Vec::len);
        Ok((Matrix { columns, data: vectors.concat() }, Usage::default()))
    }
}

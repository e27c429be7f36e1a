//! Scores samples with a judge and an embedder that follow a script: tests how
//! a metric uses given verdicts, and nothing else.
//!
//! Reads one JSON object per line and answers each with one line, the score:
//! `{"value": 0.5}`, `{"missing": {…}}` or `{"error": "…"}`. `fidelity` in
//! `benches` compares the answers with Ragas and `trec_eval`. A request:
//!
//! ```json
//! {"metric": {"faithfulness": {}},
//!  "question": "…", "reference": "…", "answer": "…", "citations": [1],
//!  "passages": [{"document": "a.txt", "start": 0, "end": 9, "text": "…"}],
//!  "evidence": [{"document": "a.txt", "start": 0, "end": 9}],
//!  "probabilities": true,
//!  "rules": [{"when": ["the text"], "reply": {"statements": ["…"]}}, {"when": ["the statement"], "say": "Yes"}],
//!  "ratings": [2, 1],
//!  "vectors": {"the text": [0.6, 0.8]}}
//! ```
//!
//! The judge follows the first rule of which all texts under `when` stand in
//! the prompt: `reply` answers a request with a JSON Schema that has these
//! properties, `say` a choice of yes or no. Where it is to choose a number, it
//! gives the next of `ratings`. Without `probabilities` it writes its verdicts
//! as a remote model does; an item without a rule then has no verdict. Asked
//! once more, it repeats what it said.

use async_trait::async_trait;
use eval::{
    Evidence, MetricConfig, Question, Sample, Score,
    metric::{MetricContext, PROBE},
};
use models::{
    ChatModel, ChatRequest, ChatResponse, Client, EmbeddingModel, Error, Finish, Identity, InputKind, Matrix, Model,
    Usage,
};
use rag::{Answer, NamedModels, Passage, Span};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    io::{BufRead, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    metric: MetricConfig,
    #[serde(default)]
    question: String,
    reference: Option<String>,
    answer: Option<String>,
    #[serde(default)]
    citations: Vec<u32>,
    #[serde(default)]
    passages: Vec<Place>,
    #[serde(default)]
    evidence: Vec<Place>,
    #[serde(default)]
    probabilities: bool,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    ratings: Vec<Value>,
    #[serde(default)]
    vectors: HashMap<String, Vec<f32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    document: String,
    start: usize,
    end: usize,
    #[serde(default)]
    text: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    when: Vec<String>,
    say: Option<String>,
    reply: Option<Map<String, Value>>,
}

/// A judge that follows its rules.
struct ScriptedJudge {
    identity: Identity,
    rules: Vec<Rule>,
    ratings: Vec<Value>,
    /// How many ratings were given.
    n_rated: AtomicUsize,
    probabilities: bool,
}

impl ScriptedJudge {
    /// The next rating, or the last one again.
    fn rating(&self, again: bool) -> Result<&Value, Error> {
        let given =
            if again { self.n_rated.load(Relaxed).saturating_sub(1) } else { self.n_rated.fetch_add(1, Relaxed) };
        self.ratings.get(given).ok_or_else(|| self.unknown("one more rating"))
    }

    /// What the first rule for this prompt says.
    fn said<'a>(&'a self, shared: &str, item: &str) -> Option<&'a str> {
        let stands = |text: &String| shared.contains(text.as_str()) || item.contains(text.as_str());
        self.rules.iter().filter(|rule| rule.when.iter().all(stands)).find_map(|rule| rule.say.as_deref())
    }

    /// The probability of each choice: nearly all for the one that is said.
    fn choices(&self, prompt: &str, choices: &[String]) -> Result<Vec<f64>, Error> {
        if !self.probabilities {
            return Ok(Vec::new());
        }
        let said = match choices {
            [yes, ..] if prompt == PROBE => Some(yes.clone()),
            [yes, no] if yes == "Yes" && no == "No" => self.said(prompt, "").map(str::to_owned),
            _ => Some(self.rating(false)?.to_string()),
        };
        let said = said.filter(|said| choices.contains(said)).ok_or_else(|| self.unknown(prompt))?;
        let rest = 0.1 / choices.len().saturating_sub(1).max(1) as f64;
        Ok(choices.iter().map(|choice| if *choice == said { 0.9 } else { rest }).collect())
    }

    /// Verdicts on the last `n` numbered items of the prompt.
    fn verdicts(&self, prompt: &str, n: usize) -> Value {
        let starts: Vec<usize> = prompt.match_indices("number=\"").map(|(at, _)| at).collect();
        let starts = &starts[starts.len().saturating_sub(n)..];
        let shared = &prompt[..starts.first().copied().unwrap_or(prompt.len())];
        let ends = starts.iter().skip(1).copied().chain([prompt.len()]);
        let verdicts = (1..).zip(starts.iter().zip(ends)).filter_map(|(number, (&start, end))| {
            let said = self.said(shared, &prompt[start..end])?;
            Some(json!({ "number": number, "reason": "it says so", "verdict": said }))
        });
        json!({ "verdicts": verdicts.collect::<Vec<_>>() })
    }

    fn object(&self, prompt: &str, schema: &Value, seed: u64, again: bool) -> Result<Value, Error> {
        let properties = &schema["properties"];
        if let Some(name) = ["choice", "number"].into_iter().find(|name| properties.get(name).is_some()) {
            return Ok(json!({ "reason": "it says so", name: self.rating(again)? }));
        }
        if let Some(n) = properties["verdicts"]["minItems"].as_u64() {
            return Ok(self.verdicts(prompt, n as usize));
        }
        let fits = |reply: &Map<String, Value>| {
            properties.as_object().is_some_and(|known| known.keys().all(|key| reply.contains_key(key)))
        };
        let mut replies = self
            .rules
            .iter()
            .filter(|rule| rule.when.iter().all(|text| prompt.contains(text.as_str())))
            .filter_map(|rule| rule.reply.as_ref())
            .filter(|reply| fits(reply));
        // Samples of one request differ by their seed.
        let last = replies.clone().next_back();
        let reply = replies.nth(seed as usize).or(last).ok_or_else(|| self.unknown(prompt))?;
        Ok(Value::Object(reply.clone()))
    }

    fn unknown(&self, prompt: &str) -> Error {
        let message = format!("no rule for the prompt: {prompt}");
        Error::Refused { endpoint: self.identity.model.clone(), status: 400, message }
    }
}

impl Model for ScriptedJudge {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        4
    }
}

#[async_trait]
impl ChatModel for ScriptedJudge {
    fn context_length(&self) -> usize {
        1 << 20
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        // A third message is a reply that could not be used.
        let (prompt, again) = (request.messages.get(1), request.messages.len() > 2);
        let prompt = prompt.map_or("", |message| message.content.as_str());
        let (text, choices) = match &request.schema {
            Some(schema) => (self.object(prompt, schema, request.seed, again)?.to_string(), Vec::new()),
            None => (String::new(), self.choices(prompt, &request.choices)?),
        };
        Ok(ChatResponse { text, finish: Finish::Stop, usage: Usage::default(), choices, seconds: 0.0 })
    }
}

/// An embedder that knows the vectors of some texts.
struct KnownVectors {
    identity: Identity,
    vectors: HashMap<String, Vec<f32>>,
}

impl Model for KnownVectors {
    fn identity(&self) -> &Identity {
        &self.identity
    }
}

#[async_trait]
impl EmbeddingModel for KnownVectors {
    fn dimensions(&self) -> usize {
        self.vectors.values().next().map_or(0, Vec::len)
    }

    fn max_tokens(&self) -> usize {
        usize::MAX
    }

    async fn embed(&self, texts: &[String], _: InputKind) -> Result<(Matrix, Usage), Error> {
        let mut data = Vec::new();
        for text in texts {
            data.extend(self.vectors.get(text).ok_or_else(|| Error::Refused {
                endpoint: self.identity.model.clone(),
                status: 400,
                message: format!("no vector for the text: {text}"),
            })?);
        }
        Ok((Matrix { columns: self.dimensions(), data }, Usage::default()))
    }
}

async fn score(request: Request) -> Result<Score, Failure> {
    let Request { metric, question, reference, answer, citations, passages, evidence, .. } = request;
    let Request { probabilities, rules, ratings, vectors, .. } = request;
    let client = Client::new(None);
    let identity = |model: &str| {
        let (provider, model) = ("scripted".to_owned(), model.to_owned());
        Identity { provider, model, revision: String::new(), parameters: Value::Null }
    };
    let judge =
        ScriptedJudge { identity: identity("judge"), rules, ratings, n_rated: AtomicUsize::new(0), probabilities };
    let embedder = client.embedder(Arc::new(KnownVectors { identity: identity("embedder"), vectors }));
    let models = NamedModels {
        chats: [("judge".to_owned(), client.chat(Arc::new(judge)))].into(),
        embedders: [("embedder".to_owned(), embedder)].into(),
        ..NamedModels::default()
    };
    let context = MetricContext { models: Some(&models), embedder: Some("embedder"), judges: &["judge".to_owned()] };
    let evidence = evidence.into_iter().map(|place| Evidence {
        document: place.document,
        quote: place.text,
        span: Some(Span { start: place.start, end: place.end }),
    });
    let (id, evidence) = ("case".to_owned(), evidence.collect());
    let question = Question { id, question, reference, evidence, ..Question::default() };
    let passage = |place: Place| Passage {
        document: place.document,
        span: Span { start: place.start, end: place.end },
        text: place.text,
        ..Passage::default()
    };
    let passages: Vec<Passage> = passages.into_iter().map(passage).collect();
    let answer = answer.map(|text| Answer { text, citations, calls: 1, ..Answer::default() });
    let metric = metric.build(&context)?;
    let sample = Sample { question: &question, passages: &passages, answer: answer.as_ref(), columns: None };
    Ok(metric.score(&sample).await.score)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(request) => score(request).await,
            Err(error) => Err(error.into()),
        };
        match answer {
            Ok(score) => serde_json::to_writer(&mut out, &score)?,
            Err(error) => serde_json::to_writer(&mut out, &json!({ "error": error.to_string() }))?,
        }
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}

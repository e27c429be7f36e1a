//! What the tests of metrics share: samples, a judge that says what it is
//! told, and an embedder that counts words. None of them needs a network.

use super::{Metric, MetricContext, Sample, judge::PROBE};
use crate::{Evidence, Question, Scored};
use async_trait::async_trait;
use models::{
    Chat, ChatModel, ChatRequest, ChatResponse, Client, EmbeddingModel, Error, Finish, Identity, InputKind, Matrix,
    Model, Usage,
};
use rag::{Answer, NamedModels, Passage, Span};
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Runs a future to its end.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(crate) fn score(metric: &dyn Metric, sample: &Sample<'_>) -> Scored {
    wait(metric.score(sample))
}

pub(crate) fn question(text: &str, reference: Option<&str>) -> Question {
    Question {
        id: "q".to_owned(),
        question: text.to_owned(),
        reference: reference.map(str::to_owned),
        ..Question::default()
    }
}

/// A question with evidence at these spans of `a.txt`.
pub(crate) fn question_with_evidence(spans: &[(usize, usize)]) -> Question {
    let evidence = spans.iter().map(|&(start, end)| Evidence {
        document: "a.txt".to_owned(),
        quote: "x".repeat(end - start),
        span: Some(Span { start, end }),
    });
    Question { evidence: evidence.collect(), ..question("Where is it?", None) }
}

pub(crate) fn passage(document: &str, start: usize, end: usize) -> Passage {
    Passage {
        document: document.to_owned(),
        span: Span { start, end },
        text: format!("the text from {start} to {end}"),
        ..Passage::default()
    }
}

/// An answer that cites the first passage.
pub(crate) fn answer(text: &str) -> Answer {
    Answer { text: text.to_owned(), citations: vec![1], calls: 1, ..Answer::default() }
}

pub(crate) fn sample<'a>(question: &'a Question, passages: &'a [Passage], answer: Option<&'a Answer>) -> Sample<'a> {
    Sample { question, passages, answer, columns: None }
}

/// The score of a retrieval metric for evidence and passages of `a.txt`.
pub(crate) fn retrieval_score(metric: &dyn Metric, evidence: &[(usize, usize)], passages: &[(usize, usize)]) -> f64 {
    let question = question_with_evidence(evidence);
    // The evidence is made of the same letter.
    let of = |&(start, end): &(usize, usize)| Passage { text: "x".repeat(end - start), ..passage("a.txt", start, end) };
    let passages: Vec<Passage> = passages.iter().map(of).collect();
    score(metric, &sample(&question, &passages, None)).score.value().unwrap()
}

/// Calls a function with a sample of a reference and an answer.
pub(crate) fn text_sample<T>(reference: &str, text: &str, then: impl FnOnce(&Sample<'_>) -> T) -> T {
    let question = question("What?", Some(reference));
    then(&sample(&question, &[], Some(&answer(text))))
}

/// The score of a text metric.
pub(crate) fn text_score(metric: &dyn Metric, reference: &str, text: &str) -> f64 {
    text_sample(reference, text, |sample| score(metric, sample).score.value().unwrap())
}

/// The models of an evaluation.
pub(crate) struct Evaluation {
    models: NamedModels,
    judges: Vec<String>,
}

impl Evaluation {
    pub(crate) fn context(&self) -> MetricContext<'_> {
        MetricContext { models: Some(&self.models), embedder: Some("words"), judges: &self.judges }
    }

    /// For a stage that asks the same models.
    pub(crate) fn stage(&self) -> rag::Context<'_> {
        rag::Context { models: Some(&self.models), ..rag::Context::default() }
    }
}

/// An embedder and no judge.
pub(crate) fn unjudged() -> Evaluation {
    judged_by_all([])
}

/// An embedder and this judge.
pub(crate) fn judged_by(judge: FakeJudge) -> Evaluation {
    judged_by_all([judge.chat()])
}

/// An embedder and these judges.
pub(crate) fn judged_by_all(judges: impl IntoIterator<Item = Chat>) -> Evaluation {
    let embedder = Client::new(None).embedder(Arc::new(WordCounter(identity("words"))));
    let chats: BTreeMap<String, Chat> = (0..).map(|i: usize| format!("judge {i}")).zip(judges).collect();
    let judges = chats.keys().cloned().collect();
    let models = NamedModels { chats, embedders: [("words".to_owned(), embedder)].into(), ..NamedModels::default() };
    Evaluation { models, judges }
}

fn identity(model: &str) -> Identity {
    Identity {
        provider: "test".to_owned(),
        model: model.to_owned(),
        revision: String::new(),
        parameters: serde_json::Value::Null,
    }
}

/// A judge that says what it is told.
pub(crate) struct FakeJudge {
    identity: Identity,
    statements: Vec<String>,
    question: String,
    objects: Mutex<Vec<String>>,
    verdicts: Mutex<Vec<char>>,
    ratings: Mutex<Vec<char>>,
    probabilities: bool,
    failing: bool,
    said: String,
    seen: Arc<Mutex<Vec<ChatRequest>>>,
    probes: Arc<AtomicUsize>,
}

impl FakeJudge {
    pub(crate) fn new() -> Self {
        Self {
            identity: identity("judge"),
            statements: vec!["a".to_owned(), "b".to_owned()],
            question: "What?".to_owned(),
            objects: Mutex::default(),
            verdicts: Mutex::default(),
            ratings: Mutex::default(),
            probabilities: true,
            failing: false,
            said: String::new(),
            seen: Arc::default(),
            probes: Arc::default(),
        }
    }

    pub(crate) fn named(mut self, model: &str) -> Self {
        self.identity = identity(model);
        self
    }

    /// The statements, claims or entities of every text.
    pub(crate) fn statements(mut self, statements: &[&str]) -> Self {
        self.statements = statements.iter().map(|text| (*text).to_owned()).collect();
        self
    }

    /// The question to which every answer belongs.
    pub(crate) fn question(mut self, question: &str) -> Self {
        self.question = question.to_owned();
        self
    }

    /// Replies to the first requests with a schema, before anything else.
    pub(crate) fn replies(self, replies: &[&str]) -> Self {
        *self.objects.lock().unwrap() = replies.iter().rev().map(|text| (*text).to_owned()).collect();
        self
    }

    /// The verdicts in the order of asking: `1` yes, `0` no, `?` none, `y` and `n`
    /// a word without probabilities; yes after the last.
    pub(crate) fn verdicts(self, verdicts: &str) -> Self {
        *self.verdicts.lock().unwrap() = verdicts.chars().rev().collect();
        self
    }

    /// The ratings in the order of asking, a digit each, `?` for none; the
    /// greatest of the scale after the last.
    pub(crate) fn ratings(self, ratings: &str) -> Self {
        *self.ratings.lock().unwrap() = ratings.chars().rev().collect();
        self
    }

    /// What is said where plain words are asked for.
    pub(crate) fn says(mut self, said: &str) -> Self {
        self.said = said.to_owned();
        self
    }

    pub(crate) fn without_probabilities(mut self) -> Self {
        self.probabilities = false;
        self
    }

    pub(crate) fn failing(mut self) -> Self {
        self.failing = true;
        self
    }

    /// How often it was asked whether it offers probabilities; this is not in [`Self::seen`].
    pub(crate) fn probes(&self) -> Arc<AtomicUsize> {
        self.probes.clone()
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Arc<Mutex<Vec<ChatRequest>>> {
        self.seen.clone()
    }

    pub(crate) fn chat(self) -> Chat {
        Client::new(None).chat(Arc::new(self))
    }

    fn verdict(&self) -> char {
        self.verdicts.lock().unwrap().pop().unwrap_or('1')
    }

    fn rating(&self, greatest: u64) -> Option<u64> {
        match self.ratings.lock().unwrap().pop() {
            Some(rating) => rating.to_digit(10).map(u64::from),
            None => Some(greatest),
        }
    }

    /// The reply to a question with choices, and the probability of each.
    fn choice(&self, choices: &[String]) -> (String, Vec<f64>) {
        let chosen = match choices {
            [yes, _] if yes == "Yes" => match self.verdict() {
                '1' => Some(0),
                '0' => Some(1),
                'y' => return ("Yes".to_owned(), Vec::new()),
                'n' => return ("No.".to_owned(), Vec::new()),
                _ => None,
            },
            numbers => {
                let greatest = numbers.last().and_then(|number| number.parse().ok());
                let rating = self.rating(greatest.unwrap_or_default()).map(|rating| rating.to_string());
                rating.and_then(|rating| numbers.iter().position(|number| *number == rating))
            }
        };
        let others = 0.1 / (choices.len() as f64 - 1.0);
        let probability = |index| if Some(index) == chosen { 0.9 } else { others };
        let probabilities = if chosen.is_some() { (0..choices.len()).map(probability).collect() } else { Vec::new() };
        (String::new(), probabilities)
    }

    fn object(&self, schema: &serde_json::Value) -> String {
        if let Some(reply) = self.objects.lock().unwrap().pop() {
            return reply;
        }
        let properties = &schema["properties"];
        let reply = if let Some(n) = properties["verdicts"]["minItems"].as_u64() {
            let row = |number| {
                let verdict = self.verdict();
                // As the schema wants it, but about nothing that was asked.
                let number = if verdict == '?' { 0 } else { number };
                json!({ "number": number, "reason": "so", "verdict": if verdict == '1' { "Yes" } else { "No" } })
            };
            let rows: Vec<_> = (1..=n).map(row).collect();
            // The order must not matter: verdicts are matched by number.
            json!({ "verdicts": rows.into_iter().rev().collect::<Vec<_>>() })
        } else if let Some(scale) = properties["choice"]["enum"].as_array() {
            let chosen = match scale.last().and_then(serde_json::Value::as_u64) {
                Some(greatest) => json!(self.rating(greatest)),
                None => json!(if self.verdict() == '1' { "Yes" } else { "No" }),
            };
            json!({ "reason": "so", "choice": chosen })
        } else if properties["number"]["type"] == "number" {
            json!({ "reason": "so", "number": 0.5 })
        } else if let Some(list) = list_of(properties) {
            json!({ list: self.statements })
        } else if properties.get("noncommittal").is_some() {
            json!({ "question": self.question, "noncommittal": false })
        } else {
            json!({ "question": self.question })
        };
        reply.to_string()
    }
}

impl Model for FakeJudge {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        1
    }
}

#[async_trait]
impl ChatModel for FakeJudge {
    fn context_length(&self) -> usize {
        1 << 20
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        let is_probe = request.messages.last().is_some_and(|message| message.content == PROBE);
        if is_probe {
            self.probes.fetch_add(1, Ordering::Relaxed);
        } else {
            self.seen.lock().unwrap().push(request.clone());
        }
        if self.failing {
            return Err(Error::Refused { endpoint: "test".into(), status: 400, message: "no".into() });
        }
        let (text, choices) = match (&request.schema, self.probabilities) {
            (Some(schema), _) => (self.object(schema), Vec::new()),
            // Neither JSON nor a choice is asked for: plain words.
            (None, _) if request.choices.is_empty() => (self.said.clone(), Vec::new()),
            (None, false) => (String::new(), Vec::new()),
            (None, true) if is_probe => (String::new(), vec![0.9, 0.1]),
            (None, true) => self.choice(&request.choices),
        };
        Ok(ChatResponse { text, finish: Finish::Stop, usage: Usage::default(), choices, seconds: 0.0 })
    }
}

/// The name of the list that a schema asks for.
fn list_of(properties: &serde_json::Value) -> Option<&String> {
    properties.as_object()?.iter().find(|(_, property)| property["type"] == "array").map(|(name, _)| name)
}

/// Embeds a text as the counts of its words, hashed.
struct WordCounter(Identity);

const DIMENSIONS: usize = 1024;

impl Model for WordCounter {
    fn identity(&self) -> &Identity {
        &self.0
    }
}

#[async_trait]
impl EmbeddingModel for WordCounter {
    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn max_tokens(&self) -> usize {
        usize::MAX
    }

    async fn embed(&self, texts: &[String], _: InputKind) -> Result<(Matrix, Usage), Error> {
        let mut matrix = Matrix { columns: DIMENSIONS, data: vec![0.0; DIMENSIONS * texts.len()] };
        for (row, text) in texts.iter().enumerate() {
            for word in text.to_lowercase().split_whitespace() {
                let hash = word.bytes().fold(14_695_981_039_346_656_037u64, |hash, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
                });
                matrix.data[row * DIMENSIONS + (hash % DIMENSIONS as u64) as usize] += 1.0;
            }
        }
        matrix.normalize();
        Ok((matrix, Usage::default()))
    }
}

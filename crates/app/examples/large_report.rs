//! Writes the report of an invented large run: 200 trials of 2,000
//! questions, unless other numbers are given. For looking at the page's size and
//! speed; `crates/python/tests/page/large.py` measures it in a browser.
//!
//! `cargo run --release -p app --example large_report -- FOLDER [TRIALS QUESTIONS]`
//!
//! 200 × 2,000 take about 5 GB of memory.

use eval::{Missing, Question, Score, Scored, statistics::Summary};
use lab::{QuestionResult, Results, TrialResult, Winner};
use rag::{Answer, Passage, Span};
use serde_json::{Value, json};
use std::{collections::BTreeMap, error::Error, io::Write, path::PathBuf, time::Instant};

const CHUNK_SIZES: [usize; 5] = [64, 128, 192, 256, 384];
const EMBEDDERS: [&str; 4] = ["minilm", "minilm-l3", "e5-small", "bge-small"];
const RETRIEVERS: [&str; 5] = ["bm25", "dense", "hybrid", "fusion", "mmr"];
const MODELS: [&str; 2] = ["qwen", "gpt"];
const RETRIEVAL: [&str; 5] = ["recall", "precision", "mrr", "ndcg", "hit_rate"];
const ANSWERS: [&str; 3] = ["token_f1", "rouge_l", "answer_similarity"];
const JUDGED: &str = "faithfulness";
/// A judge looks at this many questions of each trial.
const N_JUDGED: usize = 20;
const DOCUMENTS: usize = 300;
const DOCUMENT_BYTES: usize = 40_000;
const TOP_K: usize = 6;

/// Numbers that look random and are the same each time (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) ^ (mixed >> 31)
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

type ExampleResult<T> = Result<T, Box<dyn Error>>;

fn main() -> ExampleResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(arguments.first().ok_or("usage: large_report FOLDER [TRIALS QUESTIONS]")?);
    let number = |place: usize, otherwise| arguments.get(place).map_or(Ok(otherwise), |text| text.parse());
    let (trials, questions) = (number(1, 200)?, number(2, 2000)?);
    let mut out = std::io::stdout().lock();
    let begun = Instant::now();
    let results = results(trials, questions)?;
    writeln!(out, "{trials} trials × {questions} questions made in {:.1} s", begun.elapsed().as_secs_f64())?;
    let begun = Instant::now();
    results.differences();
    writeln!(out, "intervals of differences: {:.1} s", begun.elapsed().as_secs_f64())?;
    let begun = Instant::now();
    std::fs::create_dir_all(&folder)?;
    let page = folder.join("report.html");
    app::library::save_report(&results, &page, None)?;
    Ok(writeln!(out, "{}: written in {:.1} s", page.display(), begun.elapsed().as_secs_f64())?)
}

/// Text of a few words that repeat.
fn text(random: &mut Random, bytes: usize) -> String {
    const WORDS: [&str; 16] = [
        "the", "mill", "grinds", "oats", "and", "rye", "before", "winter", "because", "its", "wheel", "turns",
        "slowly", "when", "water", "freezes",
    ];
    let mut text = String::new();
    while text.len() < bytes {
        text.push_str(WORDS[random.below(WORDS.len())]);
        text.push(' ');
    }
    text.truncate(bytes);
    text
}

fn results(n_trials: usize, n_questions: usize) -> ExampleResult<Results> {
    let mut random = Random(1);
    let documents: Vec<String> = (0..DOCUMENTS).map(|_| text(&mut random, DOCUMENT_BYTES)).collect();
    let questions: Vec<Value> = (0..n_questions)
        .map(|number| {
            let (document, start) = (random.below(DOCUMENTS), random.below(DOCUMENT_BYTES - 200));
            let quote = &documents[document][start..start + 120];
            json!({
                "id": format!("q{number:04}"), "question": format!("When does mill number {number} grind {}?", text(&mut random, 60)),
                "reference": text(&mut random, 90),
                "evidence": [{ "document": format!("mill-{document:03}.md"), "quote": quote, "span": { "start": start, "end": start + 120 } }],
            })
        })
        .collect();
    let questions: Vec<Question> = serde_json::from_value(Value::Array(questions))?;
    let names: Vec<&str> = RETRIEVAL.into_iter().chain(ANSWERS).chain([JUDGED]).collect();
    let mut trials: Vec<TrialResult> =
        (0..n_trials).map(|number| trial(number, &documents, &questions, &names)).collect::<ExampleResult<_>>()?;
    trials.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    for (place, trial) in trials.iter_mut().enumerate() {
        let group = if place < 6 { 1 } else { 2 + place / 60 };
        (trial.group, trial.tied, trial.p_value) = (Some(group), place > 0 && place < 6, (place > 0).then_some(0.04));
        trial.front = place < 4;
    }
    let metrics: Vec<Value> = names
        .iter()
        .map(|&name| {
            let objective = name == "ndcg" || name == "token_f1";
            json!({ "name": name, "judged": name == JUDGED, "objective": objective, "range": [0.0, 1.0], "higher_is_better": true })
        })
        .collect();
    let winner = trials.first().map_or_else(String::new, |trial| trial.trial.id.clone());
    let base = json!({
        "version": 1, "experiment": "large", "run": "large-1", "time_ms": 1_795_342_062_000_i64, "documents": DOCUMENTS,
        "text_bytes": DOCUMENTS * DOCUMENT_BYTES, "rejected": [], "metrics": metrics, "objective": ["ndcg", "token_f1"],
        "questions": [], "trials": [], "winner": { "refused": "" }, "executed": 1, "reused": 0, "provider_errors": 0,
        "spending": {}, "verdict": [format!("{winner} is the best of a run that never was")],
    });
    let base: Results = serde_json::from_value(base)?;
    Ok(Results { questions, trials, winner: Winner::Trial(winner), ..base })
}

fn mean(trial: &TrialResult) -> f64 {
    trial.objective.as_ref().and_then(|summary| summary.mean).unwrap_or_default()
}

/// A trial: what it retrieves depends on its chunker, embedder and retriever alone.
fn trial(number: usize, documents: &[String], questions: &[Question], names: &[&str]) -> ExampleResult<TrialResult> {
    let (model, rest) = (number % MODELS.len(), number / MODELS.len());
    let (retriever, more) = (rest % RETRIEVERS.len(), rest / RETRIEVERS.len());
    let (chunk, embedder) = (more % CHUNK_SIZES.len(), more / CHUNK_SIZES.len() % EMBEDDERS.len());
    let (size, bytes) = (CHUNK_SIZES[chunk], CHUNK_SIZES[chunk] * 4);
    let pipeline = json!({
        "id": format!("t{:03}", number + 1), "chunker": { "sentence": { "chunk_size": size, "chunk_overlap": 0 } },
        "embedder": EMBEDDERS[embedder], "query": { "none": {} }, "retriever": { "bm25": { "top_k": 5 + retriever } },
        "reranker": { "none": {} }, "generator": { "compact": { "model": MODELS[model] } },
        "labels": {
            "chunker": format!("sentence({size})"), "embedder": EMBEDDERS[embedder], "query": "none",
            "retriever": RETRIEVERS[retriever], "reranker": "none", "generator": format!("compact({})", MODELS[model]),
        },
    });
    let skill = 0.5 + 0.04 * retriever as f64 + 0.02 * embedder as f64 - 0.01 * chunk as f64;
    let mut retrieval_random = Random(rest as u64 * 7919 + 11);
    let mut answer_random = Random(number as u64 * 104_729 + 5);
    let usage: models::Usage =
        serde_json::from_value(json!({ "prompt_tokens": 400, "cached_tokens": 0, "completion_tokens": 30 }))?;
    let results: Vec<QuestionResult> = questions
        .iter()
        .enumerate()
        .map(|(place, question)| {
            let passages = passages(&mut retrieval_random, documents, question, bytes, skill);
            let hit = passages.iter().position(|passage| passage.covers(question));
            let failed = answer_random.below(400) == 0;
            let scores = names.iter().map(|&name| {
                let score = score(name, place, hit, failed, skill, &mut answer_random);
                (name.to_owned(), Scored { detail: detail(name, &score, &passages, hit), score })
            });
            let scores = scores.collect();
            let text = format!("{} [1].", text(&mut answer_random, 140));
            let answer = Answer {
                text,
                citations: vec![1],
                dropped_passages: 0,
                calls: 1,
                usage,
                seconds: 0.5 + answer_random.share() + model as f64,
                ..Answer::default()
            };
            QuestionResult {
                queries: Vec::new(),
                query_fallback: None,
                remarks: Vec::new(),
                question: question.id.clone(),
                passages,
                answer: (!failed).then_some(answer),
                trace: None,
                error: failed.then(|| "the model did not answer within 60 s".to_owned()),
                scores,
                loss: None,
            }
        })
        .collect();
    // Invented: real intervals would take most of the time, and are not what is measured here.
    let summary = |name: &str| {
        let values: Vec<f64> = results.iter().filter_map(|question| question.scores[name].score.value()).collect();
        let mean = eval::statistics::mean(&values);
        Summary {
            mean,
            low: mean.map(|mean| mean - 0.02),
            high: mean.map(|mean| mean + 0.02),
            n_scored: values.len(),
            n_failed: 0,
            n_total: results.len(),
            worst: mean,
            best: mean,
        }
    };
    let metrics: BTreeMap<String, Summary> = names.iter().map(|&name| (name.to_owned(), summary(name))).collect();
    let objective = metrics["ndcg"].mean.zip(metrics["token_f1"].mean).map(|(ndcg, f1)| (ndcg + f1) / 2.0);
    let base = json!({
        "trial": pipeline, "objective": null, "metrics": {}, "latency_p50": 1.0 + model as f64 + 0.02 * size as f64,
        "latency_p95": 2.0 + model as f64 + 0.03 * size as f64, "tokens": 200.0 + 2.0 * size as f64,
        "cost_usd": 0.1 * (model + 1) as f64 * size as f64 / 64.0, "p_value": null, "tied": false, "questions": [], "failures": [],
    });
    let base: TrialResult = serde_json::from_value(base)?;
    let objective = Summary { mean: objective, ..metrics["ndcg"].clone() };
    Ok(TrialResult { objective: Some(objective), metrics, questions: results, ..base })
}

trait Covers {
    fn covers(&self, question: &Question) -> bool;
}

impl Covers for Passage {
    fn covers(&self, question: &Question) -> bool {
        question.evidence.iter().any(|item| {
            item.document == self.document
                && item.span.is_some_and(|span| span.start < self.span.end && self.span.start < span.end)
        })
    }
}

fn passages(random: &mut Random, documents: &[String], question: &Question, bytes: usize, skill: f64) -> Vec<Passage> {
    let evidence = &question.evidence[0];
    let start = evidence.span.map_or(0, |span| span.start);
    let own: usize =
        evidence.document.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap_or_default();
    (0..TOP_K)
        .map(|rank| {
            // Close to the evidence, or one of the passages that are found for many questions.
            let near = random.share() < skill;
            let (document, at) = if near {
                (own, start + random.below(3 * bytes))
            } else {
                (random.below(40), random.below(DOCUMENT_BYTES))
            };
            let from = (at / bytes * bytes).min(DOCUMENT_BYTES - bytes);
            Passage {
                document: format!("mill-{document:03}.md"),
                span: Span { start: from, end: from + bytes },
                text: documents[document][from..from + bytes].to_owned(),
                score: 1.0 / (1.0 + rank as f32 + random.share() as f32),
                page: None,
                book: None,
                heading: Some(format!("Mill {document}")),
                rows: vec![(from / bytes) as u32],
                parts: Vec::new(),
            }
        })
        .collect()
}

fn score(name: &str, place: usize, hit: Option<usize>, failed: bool, skill: f64, random: &mut Random) -> Score {
    let rank = hit.map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0));
    if name == JUDGED && place >= N_JUDGED {
        return Score::Missing(Missing::NotAsked("limited by `answered` or `judged` under [evaluate]".to_owned()));
    }
    if failed && !RETRIEVAL.contains(&name) {
        return Score::Missing(Missing::ProviderError("the model did not answer within 60 s".to_owned()));
    }
    Score::Value(match name {
        "recall" | "hit_rate" => f64::from(u8::from(hit.is_some())),
        "precision" => f64::from(u8::from(hit.is_some())) / TOP_K as f64,
        "mrr" => rank,
        "ndcg" => hit.map_or(0.0, |rank| 1.0 / (rank as f64 + 2.0).log2()),
        JUDGED => (random.below(4) as f64) / 3.0,
        _ => (skill * random.share() + 0.3 * rank).min(1.0),
    })
}

fn detail(name: &str, score: &Score, passages: &[Passage], hit: Option<usize>) -> Value {
    match (name, score) {
        (_, Score::Missing(_)) => Value::Null,
        ("token_f1", _) => json!({ "shared": 3, "answer": 12, "reference": 9 }),
        (name, _) if RETRIEVAL.contains(&name) => json!({
            "evidence": [{ "document": "mill", "start": 1, "end": 120, "covered": 1.0, "rank": hit.map(|rank| rank + 1) }],
            "relevant": passages.iter().enumerate().map(|(rank, _)| Some(rank) == hit).collect::<Vec<bool>>(),
        }),
        (JUDGED, _) => json!({
            "statements": [{ "number": 1, "text": "The mill grinds oats.", "verdict": true, "probability": 0.7, "reason": null }],
            "transcript": [{ "purpose": "verdict", "prompt": "Is it so? Answer with one word, Yes or No.", "reply": "Yes" }],
        }),
        _ => Value::Null,
    }
}

//! The calls to models and their tokens, estimated from the sizes of texts.

use crate::spec::EvaluateSpec;
use eval::{MetricConfig, Question, Sample};
use rag::{Component, INSTRUCTION_TOKENS, InputSize, ModelCalls, Passage};

/// Tokens of texts that are embedded by one call.
const TOKENS_PER_EMBEDDING_CALL: u64 = 16_384;
/// Tokens that a prompt has for each passage besides its text: number, file and heading.
pub(super) const LABEL_TOKENS: u64 = 24;
/// Tokens of a judge's reply.
const VERDICT_TOKENS: u64 = 60;

/// Counts the tokens of a text as a model does. The arguments are the model's name and the text.
pub(crate) type CountTokens<'c> = dyn Fn(&str, &str) -> u64 + 'c;

/// The calls to a model and their tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ModelLoad {
    pub(super) calls: u64,
    /// Tokens read.
    pub(super) read: u64,
    /// Tokens written.
    pub(super) written: u64,
}

impl ModelLoad {
    fn new(calls: u64, read: u64, written: u64) -> Self {
        Self { calls, read, written }
    }

    /// Calls whose tokens are not known.
    pub(crate) fn calls(calls: u64) -> Self {
        Self::new(calls, 0, 0)
    }

    /// This load for a model that reads pairs of texts. It adds `added` tokens to each pair, and limits the tokens read
    /// to `longest` for each pair.
    pub(super) fn of_pairs(self, pairs: u64, added: u64, longest: u64) -> Self {
        let read = self.read.saturating_add(pairs.saturating_mul(added));
        Self { read: read.min(pairs.saturating_mul(longest)), ..self }
    }

    /// The load of so many tasks like this one.
    pub(super) fn times(self, times: u64) -> Self {
        let of_all = |amount: u64| amount.saturating_mul(times);
        Self::new(of_all(self.calls), of_all(self.read), of_all(self.written))
    }

    pub(super) fn add(&mut self, more: Self) {
        *self = Self::new(self.calls + more.calls, self.read + more.read, self.written + more.written);
    }

    /// The load of a component's calls.
    pub(crate) fn of(ask: &ModelCalls<'_>) -> Self {
        Self::new(ask.calls, ask.prompt_tokens, ask.completion_tokens)
    }

    /// The load of embedding texts with this many tokens.
    pub(crate) fn embedding(tokens: u64) -> Self {
        Self::new(tokens.div_ceil(TOKENS_PER_EMBEDDING_CALL), tokens, 0)
    }
}

/// One call of a judge about a text of this many tokens.
pub(crate) fn verdict(tokens: u64) -> ModelLoad {
    ModelLoad::new(1, INSTRUCTION_TOKENS + tokens, VERDICT_TOKENS)
}

/// A component's load for one question and its passages.
pub(crate) fn of_item<'a, C: Component + ?Sized>(
    component: &'a C,
    question: &Question,
    passages: &[Passage],
    count: &CountTokens<'_>,
) -> Vec<(&'a str, ModelLoad)> {
    let item = |model: &str| InputSize {
        text_tokens: count(model, &question.question),
        passages: passages.len() as u64,
        passage_tokens: passages.iter().map(|passage| count(model, &passage.text)).sum(),
    };
    // A component calls the same models for every item, in the same order, so the position identifies the model.
    let models = component.models().into_iter().enumerate();
    let asked = models.filter_map(|(at, model)| component.estimate_calls(item(model)).into_iter().nth(at));
    asked.map(|ask| (ask.model, ModelLoad::of(&ask))).collect()
}

/// The tokens of a question and its reference answer.
pub(crate) fn question_and_reference_tokens(question: &Question, count: &dyn Fn(&str) -> u64) -> u64 {
    count(&question.question) + question.reference.as_deref().map_or(0, count)
}

/// The calls for one score. `item` returns the sizes of the judged item, in the tokens of the model with this name. Its
/// text is that of question, reference and answer together.
pub(crate) fn score<'a>(
    evaluate: &'a EvaluateSpec,
    metric: &MetricConfig,
    item: impl Fn(&str) -> InputSize,
) -> Vec<(&'a str, ModelLoad)> {
    let needs = metric.needs();
    let judge = |(seat, model): (usize, &'a String)| {
        let item = item(model);
        let calls = metric.judge_calls(item.passages);
        let passages = if needs.passages { item.passages } else { 0 };
        let read_at_once = if metric.reads_one_passage() { passages.min(1) } else { passages };
        let passage_tokens = item.passage_tokens.checked_div(item.passages).unwrap_or_default() + LABEL_TOKENS;
        let tokens = INSTRUCTION_TOKENS + item.text_tokens + read_at_once * passage_tokens;
        let calls = calls.voting + if seat == 0 { calls.writing } else { 0 };
        (model.as_str(), ModelLoad::new(calls, calls * tokens, calls * VERDICT_TOKENS))
    };
    let judges = evaluate.judges.iter().filter(|_| needs.judge).enumerate().map(judge);
    let embedder = evaluate.embedder.as_deref().filter(|_| needs.embedder);
    judges.chain(embedder.map(|model| (model, ModelLoad::new(1, INSTRUCTION_TOKENS, 0)))).collect()
}

/// The calls for the score of a sample that exists already.
pub(crate) fn score_of<'a>(
    evaluate: &'a EvaluateSpec,
    metric: &MetricConfig,
    sample: &Sample<'_>,
    count: &CountTokens<'_>,
) -> Vec<(&'a str, ModelLoad)> {
    let reads_passages = metric.needs().passages;
    score(evaluate, metric, |model| {
        let count = |text: &str| count(model, text);
        let answer = sample.answer.map_or(0, |answer| count(&answer.text));
        let passages = sample.passages.iter().filter(|_| reads_passages);
        InputSize {
            text_tokens: question_and_reference_tokens(sample.question, &count) + answer,
            passages: sample.passages.len() as u64,
            passage_tokens: passages.map(|passage| count(&passage.text)).sum(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Experiment;
    use serde_json::json;

    /// Counts one token for each character, and two for the model `b`.
    fn count(model: &str, text: &str) -> u64 {
        text.chars().count() as u64 * if model == "b" { 2 } else { 1 }
    }

    fn load(calls: u64, read: u64, written: u64) -> [u64; 3] {
        [calls, read, written]
    }

    fn numbers(load: ModelLoad) -> [u64; 3] {
        [load.calls, load.read, load.written]
    }

    #[test]
    fn texts_are_embedded_in_calls_of_sixteen_thousand_tokens() {
        for (tokens, calls) in [(0, 0), (1, 1), (16_384, 1), (16_385, 2), (100_000, 7)] {
            assert_eq!(numbers(ModelLoad::embedding(tokens)), load(calls, tokens, 0));
        }
    }

    #[test]
    fn a_verdict_is_one_call_with_instructions_and_a_text() {
        assert_eq!(numbers(verdict(0)), load(1, INSTRUCTION_TOKENS, 60));
        assert_eq!(numbers(verdict(100)), load(1, INSTRUCTION_TOKENS + 100, 60));
    }

    #[test]
    fn the_tokens_of_a_question_are_those_of_its_text_and_reference() {
        let question = |text: &str, reference: Option<&str>| {
            let reference = reference.map(str::to_owned);
            Question { question: text.to_owned(), reference, ..Question::default() }
        };
        let count = |text: &str| count("a", text);
        assert_eq!(question_and_reference_tokens(&question("", None), &count), 0);
        assert_eq!(question_and_reference_tokens(&question("12345678", None), &count), 8);
        assert_eq!(question_and_reference_tokens(&question("12345678", Some("1234")), &count), 12);
    }

    #[test]
    fn every_judge_is_asked_and_only_the_first_writes() {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.a]\nchat.openai = { model = \"m\", base_url = \
                    \"http://127.0.0.1:1/v1\" }\n[models.b]\nchat.openai = { model = \"n\", base_url = \
                    \"http://127.0.0.1:1/v1\" }\n[models.small]\nembedding.static = { model = \"small\" }\n[space]\n\
                    chunker = \"sentence\"\nretriever = \"bm25\"\n[dataset]\npath = \"golden.jsonl\"\n[evaluate]\n\
                    metrics = [\"recall\"]\njudge = [\"a\", \"b\"]\nembedder = \"small\"\n";
        let evaluate = Experiment::parse(text, ".").unwrap_or_else(|errors| panic!("{errors:?}")).evaluate;
        let item = InputSize { text_tokens: 50, passages: 4, passage_tokens: 400 };
        for name in ["recall", "faithfulness", "context_precision", "answer_relevancy", "answer_accuracy", "token_f1"] {
            let metric: MetricConfig = serde_json::from_value(json!({ name: {} })).unwrap();
            let needs = metric.needs();
            let calls = metric.judge_calls(4);
            let found: Vec<(&str, [u64; 3])> =
                score(&evaluate, &metric, |_| item).into_iter().map(|(model, load)| (model, numbers(load))).collect();
            // A passage is its text and 24 tokens of number, file and heading.
            let passages = match (needs.passages, metric.reads_one_passage()) {
                (false, _) => 0,
                (true, true) => 100 + 24,
                (true, false) => 4 * (100 + 24),
            };
            let read = INSTRUCTION_TOKENS + 50 + passages;
            let mut expected = Vec::new();
            if needs.judge {
                let (first, second) = (calls.voting + calls.writing, calls.voting);
                expected.push(("a", load(first, first * read, first * 60)));
                expected.push(("b", load(second, second * read, second * 60)));
            }
            if needs.embedder {
                expected.push(("small", load(1, INSTRUCTION_TOKENS, 0)));
            }
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn each_judge_is_asked_in_its_own_tokens() {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.a]\nchat.openai = { model = \"m\", base_url = \
                    \"http://127.0.0.1:1/v1\" }\n[models.b]\nchat.openai = { model = \"n\", base_url = \
                    \"http://127.0.0.1:1/v1\" }\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n\
                    [dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\njudge = [\"a\", \"b\"]\n";
        let evaluate = Experiment::parse(text, ".").unwrap_or_else(|errors| panic!("{errors:?}")).evaluate;
        let metric: MetricConfig = serde_json::from_value(json!({ "context_precision": {} })).unwrap();
        let question = Question { question: "12345678".to_owned(), ..Question::default() };
        let passages = [passage(100)];
        let sample = Sample { question: &question, passages: &passages, answer: None, columns: None };
        let found = score_of(&evaluate, &metric, &sample, &count);
        let read = |at: usize| (found[at].0, numbers(found[at].1)[1] / numbers(found[at].1)[0]);
        assert_eq!(read(0), ("a", INSTRUCTION_TOKENS + 8 + 100 + 24));
        assert_eq!(read(1), ("b", INSTRUCTION_TOKENS + 16 + 200 + 24));
    }

    #[test]
    fn loads_are_added_in_each_of_their_numbers() {
        let mut sum = ModelLoad::default();
        for more in [[1, 20, 300], [0, 0, 0], [4, 50, 600]] {
            sum.add(ModelLoad::new(more[0], more[1], more[2]));
        }
        assert_eq!(numbers(sum), load(5, 70, 900));
    }

    /// A passage of so many bytes.
    fn passage(bytes: usize) -> Passage {
        Passage::of_text("a.md".to_owned(), "x".repeat(bytes))
    }

    #[test]
    fn a_component_is_asked_of_a_question_and_the_texts_of_its_passages() {
        let settings = json!({ "pointwise": { "model": "gpt", "candidates": 2, "top_n": 1 } });
        let reranker: rag::rerank::RerankerConfig = serde_json::from_value(settings).unwrap();
        let question = Question { question: "12345678".to_owned(), ..Question::default() };
        let found = of_item(&reranker, &question, &[passage(400), passage(7)], &count);
        let item = InputSize { text_tokens: 8, passages: 2, passage_tokens: 407 };
        let expected: Vec<(&str, [u64; 3])> = reranker
            .estimate_calls(item)
            .into_iter()
            .map(|ask| (ask.model, load(ask.calls, ask.prompt_tokens, ask.completion_tokens)))
            .collect();
        let found: Vec<(&str, [u64; 3])> = found.into_iter().map(|(model, load)| (model, numbers(load))).collect();
        assert_eq!((found.len(), found[0].0, found[0].1[0]), (1, "gpt", 2), "a call for each passage");
        assert_eq!(found, expected);
    }

    #[test]
    fn the_score_of_a_sample_is_estimated_by_the_texts_that_it_has() {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.a]\nchat.openai = { model = \"m\", base_url = \
                    \"http://127.0.0.1:1/v1\" }\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n[dataset]\n\
                    path = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\njudge = \"a\"\n";
        let evaluate = Experiment::parse(text, ".").unwrap_or_else(|errors| panic!("{errors:?}")).evaluate;
        let metric: MetricConfig = serde_json::from_value(json!({ "context_precision": {} })).unwrap();
        let (question, reference) = ("12345678".to_owned(), Some("1234".to_owned()));
        let question = Question { question, reference, ..Question::default() };
        let answer = rag::Answer { text: "x".repeat(43), ..rag::Answer::default() };
        let passages = [passage(400), passage(403)];
        let sample = |answer| Sample { question: &question, passages: &passages, answer, columns: None };
        // Each call reads the question and the reference, which have 12 tokens, and one passage. The two passages have
        // 803 tokens, so 401 each, and 24 tokens of label.
        let without = INSTRUCTION_TOKENS + 12 + 401 + 24;
        for (given, read) in [(None, without), (Some(&answer), without + 43)] {
            let found = score_of(&evaluate, &metric, &sample(given), &count);
            let calls = metric.judge_calls(2).voting + metric.judge_calls(2).writing;
            let found: Vec<_> = found.into_iter().map(|(model, load)| (model, numbers(load))).collect();
            assert_eq!(found, [("a", load(calls, calls * read, calls * VERDICT_TOKENS))]);
        }
    }

    #[test]
    fn without_passages_nothing_is_divided_by_them() {
        let metric: MetricConfig = serde_json::from_value(json!({ "context_precision": {} })).unwrap();
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.a]\nchat.openai = { model = \"m\", base_url = \
                    \"http://127.0.0.1:1/v1\" }\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        let mut evaluate = Experiment::parse(text, ".").unwrap().evaluate;
        evaluate.judges = vec!["a".to_owned()];
        let none = score(&evaluate, &metric, |_| InputSize::default());
        let calls = metric.judge_calls(0).voting + metric.judge_calls(0).writing;
        assert_eq!(numbers(none[0].1), load(calls, calls * INSTRUCTION_TOKENS, calls * VERDICT_TOKENS));
    }
}

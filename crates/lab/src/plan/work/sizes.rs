//! The sizes of documents, chunks and questions from which a plan estimates the work of its tasks.

use super::{Task, Work};
use crate::{
    operator::Operator,
    plan::{
        graph::TaskId,
        model_load::{LABEL_TOKENS, ModelLoad, question_and_reference_tokens},
        text_sizes::{ChunkSizes, TextSizes, TokenRatio, scale},
    },
    spec::Experiment,
};
use eval::Question;
use models::ModelKind;
use rag::{
    Component, InputSize,
    chunk::{ChunkerConfig, TokenCounter},
};

/// The sizes that are known before a run. Sizes of texts are in tokens of `cl100k_base`.
#[derive(Clone)]
pub(crate) struct Sizes<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) questions: &'a [Question],
    tasks: &'a [Task],
    texts: &'a TextSizes,
    /// Tokens of each question.
    question_tokens: Vec<u64>,
    /// Tokens of each question with its reference answer.
    judged_tokens: Vec<u64>,
    /// The number of shards of the documents; at least one.
    shards: u64,
}

impl<'a> Sizes<'a> {
    /// The sizes of a plan's tasks.
    pub(crate) fn new(
        experiment: &'a Experiment,
        questions: &'a [Question],
        tasks: &'a [Task],
        texts: &'a TextSizes,
    ) -> Self {
        let loads = tasks.iter().filter(|task| task.operator() == Operator::Load).count();
        let count = |text: &str| TokenCounter::shared().count(text) as u64;
        let question_tokens = questions.iter().map(|question| count(&question.question)).collect();
        let judged_tokens = questions.iter().map(|question| question_and_reference_tokens(question, &count)).collect();
        Self { experiment, questions, tasks, texts, question_tokens, judged_tokens, shards: loads.max(1) as u64 }
    }

    /// The sizes of a plan with one shard, which stands for so many shards of equal size.
    pub(crate) fn of_shards(self, shards: u64) -> Self {
        Self { shards: shards.max(1), ..self }
    }

    /// The same sizes with other texts.
    pub(crate) fn with_texts<'b>(&'b self, texts: &'b TextSizes) -> Sizes<'b> {
        Sizes { texts, ..self.clone() }
    }

    /// The tokens of all documents.
    pub(crate) fn document_tokens(&self) -> u64 {
        self.texts.document_tokens
    }

    /// The number of chunks of a chunker in the whole corpus.
    pub(crate) fn all_chunks_of(&self, chunker: &ChunkerConfig) -> f64 {
        match self.texts.chunks_of(chunker) {
            Some(sizes) => sizes.count(),
            None => (chunker.estimate_chunks(self.shard()).passages * self.shards) as f64,
        }
    }

    /// The size of a shard of the documents.
    pub(crate) fn shard(&self) -> InputSize {
        InputSize { text_tokens: self.texts.document_tokens.div_ceil(self.shards), ..InputSize::default() }
    }

    /// The size of the chunks of a shard.
    pub(crate) fn chunks_of(&self, chunker: &ChunkerConfig) -> InputSize {
        let Some(sizes) = self.texts.chunks_of(chunker) else { return chunker.estimate_chunks(self.shard()) };
        let of_shard = |all: f64| (all / self.shards as f64).ceil() as u64;
        InputSize { passages: of_shard(sizes.count()), passage_tokens: of_shard(sizes.tokens()), ..self.shard() }
    }

    /// The size of the passages that a retriever finds among the chunks of a chunker. `found` has their number.
    pub(crate) fn passages_of(&self, chunker: &ChunkerConfig, found: InputSize) -> InputSize {
        self.within_corpus(self.texts.passages_of(chunker, found))
    }

    /// The estimated output of a task.
    pub(crate) fn output_of(&self, task: TaskId) -> InputSize {
        self.tasks[task].work.describe().estimate_output(self)
    }

    /// Limits passages to the size of the corpus, which may be less than what the settings allow.
    pub(crate) fn within_corpus(&self, item: InputSize) -> InputSize {
        InputSize { passage_tokens: item.passage_tokens.min(self.texts.document_tokens), ..item }
    }

    /// The tokens that a model reads for all questions. What it adds to each question, such as a prefix, counts too.
    pub(crate) fn all_question_tokens(&self, model: &str) -> u64 {
        let model = self.texts.model(model);
        let read = |tokens: &u64| scale(*tokens, model.questions).saturating_add(model.added).min(model.longest);
        self.question_tokens.iter().map(read).sum()
    }

    /// The size of question `i`, its reference answer and these passages, in the tokens of a model.
    pub(crate) fn judged(&self, model: &str, i: usize, found: InputSize) -> InputSize {
        self.texts.model(model).question(InputSize { text_tokens: self.judged_tokens[i], ..found })
    }

    /// The calls to a model that embeds the chunks of a task.
    pub(super) fn of_embedding<'b>(&self, model: &'b str, chunks: TaskId) -> Vec<(&'b str, ModelLoad)> {
        let output = self.output_of(chunks);
        let tokens = match self.measured_chunks(chunks) {
            Some(sizes) => {
                let shards = self.shards as f64;
                // The tokens that an enricher has added to each chunk.
                let more = (output.passage_tokens as f64 * shards - sizes.tokens()).max(0.0) / sizes.count().max(1.0);
                // Less than one token per chunk comes from rounding up the shards.
                let more = if more < 1.0 { 0.0 } else { more };
                sizes.read_by(&self.texts.model(model), more) / shards
            }
            None => self.texts.embedded(model, output),
        };
        vec![(model, ModelLoad::embedding((tokens.ceil() as u64).max(1)))]
    }

    /// The calls to a model that reads the whole documents of a shard, to embed their chunks in context.
    pub(super) fn of_reading<'b>(&self, model: &'b str) -> Vec<(&'b str, ModelLoad)> {
        let tokens = scale(self.shard().text_tokens, self.texts.model(model).documents);
        vec![(model, ModelLoad::embedding(tokens.max(1)))]
    }

    /// The measured sizes of the chunks that a task makes or enriches; none if they were not measured.
    fn measured_chunks(&self, task: TaskId) -> Option<&'a ChunkSizes> {
        match &self.tasks[task].work {
            Work::Chunk(work) => self.texts.chunks_of(&work.chunker),
            Work::Enrich(work) => self.measured_chunks(work.chunks),
            _ => None,
        }
    }

    /// The calls that a component makes for a shard of documents or chunks.
    pub(crate) fn of_documents<'b, C: Component + ?Sized>(
        &self,
        component: &'b C,
        item: InputSize,
    ) -> Vec<(&'b str, ModelLoad)> {
        self.ask(component, |model, _| model.document(item))
    }

    /// The calls that a component makes for some questions, with these passages for each.
    pub(crate) fn of_questions<'b, C: Component + ?Sized>(
        &self,
        component: &'b C,
        found: InputSize,
        questions: impl Iterator<Item = usize>,
    ) -> Vec<(&'b str, ModelLoad)> {
        let of_question = |i: usize| {
            self.ask(component, |model, kind| {
                let item = model.question(InputSize { text_tokens: self.question_tokens[i], ..found });
                // A chat model also reads the label of each passage; a reranker reads only its text.
                let label = if kind == ModelKind::Chat { LABEL_TOKENS } else { 0 };
                InputSize { passage_tokens: item.passage_tokens + found.passages * label, ..item }
            })
        };
        questions.flat_map(of_question).collect()
    }

    /// The calls that a component makes for one item, whose size depends on the model that reads it.
    fn ask<'b, C: Component + ?Sized>(
        &self,
        component: &'b C,
        item: impl Fn(&TokenRatio, ModelKind) -> InputSize,
    ) -> Vec<(&'b str, ModelLoad)> {
        // A component calls the same models for every item, in the same order, so the position identifies the model.
        let models = component.estimate_calls(InputSize::default());
        let asked = models.into_iter().enumerate().filter_map(|(at, ask)| {
            let model = self.texts.model(ask.model);
            let item = item(&model, ask.kind);
            let load = ModelLoad::of(&component.estimate_calls(item).into_iter().nth(at)?);
            let load = match ask.kind {
                // A reranker reads pairs of the question and a passage, and cuts each pair to its limit.
                ModelKind::Rerank => load.of_pairs(item.passages, model.added, model.longest),
                _ => load,
            };
            Some((ask.model, load))
        });
        asked.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, tests::Fixture};

    /// The texts of a plan whose models count tokens differently from `cl100k_base`.
    fn texts(plan: &Plan, sample: Vec<(u32, f64)>) -> TextSizes {
        let small = TokenRatio { documents: 1.5, questions: 2.0, added: 2, longest: 256 };
        let gpt = TokenRatio { documents: 0.5, questions: 3.0, ..TokenRatio::default() };
        let chunker = plan.tasks.iter().find_map(|task| match &task.work {
            Work::Chunk(work) => Some(work.chunker.clone()),
            _ => None,
        });
        TextSizes {
            document_tokens: 30_000,
            models: [("small", small), ("ranker", small), ("gpt", gpt)]
                .map(|(name, ratio)| (name.to_owned(), ratio))
                .into(),
            chunks: chunker.into_iter().map(|chunker| (chunker, ChunkSizes { sample: sample.clone() })).collect(),
        }
    }

    /// The calls of all tasks of an operator, and the tokens that they read.
    fn read(fixture: &Fixture, texts: &TextSizes, operator: Operator) -> (u64, u64) {
        let plan = fixture.plan();
        let sizes = Sizes::new(&fixture.experiment, &fixture.questions, &plan.tasks, texts);
        let tasks = plan.tasks.iter().filter(|task| task.operator() == operator);
        let loads = tasks.flat_map(|task| task.work.describe().estimate_calls(&sizes));
        loads.fold((0, 0), |sum, (_, load)| (sum.0 + load.calls, sum.1 + load.read))
    }

    const SPACE: &str = "chunker = { sentence = { chunk_size = 400, chunk_overlap = 0 } }\nembedder = \"small\"\n\
                         retriever = { dense = { top_k = 4 } }\n\
                         reranker = { cross_encoder = { model = \"ranker\", candidates = 20, top_n = 3 } }\n\
                         generator = { compact = { model = \"gpt\", max_tokens = 40 } }\n";

    #[test]
    fn an_embedder_reads_its_own_tokens_of_each_chunk_up_to_its_limit() {
        let fixture = Fixture::new(SPACE);
        // 60 chunks of 100 tokens, and 80 of 300, which are cut: the 30,000 tokens of the documents.
        let texts = texts(&fixture.plan(), vec![(100, 60.0), (300, 80.0)]);
        let (calls, tokens) = read(&fixture, &texts, Operator::EMBED);
        let expected = 60 * (150 + 2) + 80 * 256;
        // Each of the three shards is rounded up.
        assert!((expected..expected + 3).contains(&tokens), "{tokens} {expected}");
        assert_eq!(calls, 3);
        // 20 questions of 4 tokens. The model counts twice as many, and adds 2 to each question.
        assert_eq!(read(&fixture, &texts, Operator::EmbedQueries).1, 20 * (2 * 4 + 2));
    }

    #[test]
    fn a_reranker_reads_each_passage_with_the_question_up_to_its_limit() {
        let fixture = Fixture::new(SPACE);
        let reranked = |sample| read(&fixture, &texts(&fixture.plan(), sample), Operator::Stage(rag::Axis::Reranker));
        // A candidate of 100 tokens has 150 of the model. Each pair also has the 8 of the question, and 2 that the
        // model adds.
        assert_eq!(reranked(vec![(100, 300.0)]), (20, 20 * 20 * (150 + 8 + 2)));
        assert_eq!(reranked(vec![(300, 100.0)]), (20, 20 * 20 * 256));
    }

    #[test]
    fn a_prompt_has_passages_of_the_measured_size_in_the_tokens_of_its_model() {
        let fixture = Fixture::new(SPACE);
        let texts = texts(&fixture.plan(), vec![(200, 150.0)]);
        let (calls, tokens) = read(&fixture, &texts, Operator::GENERATE);
        // The model counts 12 tokens for a question of 4, and 100 for each of three passages of 200, which have labels.
        let prompt = rag::INSTRUCTION_TOKENS + 12 + 3 * (100 + LABEL_TOKENS);
        assert_eq!((calls, tokens), (20, 20 * prompt));
    }

    #[test]
    fn chunks_that_were_not_measured_are_as_full_as_the_settings_say() {
        let fixture = Fixture::new(SPACE);
        let plan = fixture.plan();
        let texts = TextSizes { chunks: Vec::new(), ..texts(&plan, Vec::new()) };
        let sizes = Sizes::new(&fixture.experiment, &fixture.questions, &plan.tasks, &texts);
        let chunks = plan.tasks.iter().position(|task| task.operator() == Operator::CHUNK).unwrap();
        let output = sizes.output_of(chunks);
        // A shard has a third of 30,000 tokens. Its chunks are taken to be three quarters full, of 400 tokens.
        assert_eq!((output.passages, output.passage_tokens), (34, 10_000));
        // A chunk has 294 tokens on average. Those are 443 of the model, cut to 256.
        assert_eq!(read(&fixture, &texts, Operator::EMBED).1, 3 * 34 * 256);
    }
}

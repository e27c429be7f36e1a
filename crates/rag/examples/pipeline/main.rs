//! Runs stages on request of another program: the steps of the product,
//! without its files.
//!
//! Reads one JSON object per line and answers with one line each; `fidelity`
//! in `benches` compares the answers with those of other packages. The requests:
//!
//! - `{"chunk": {"chunker": {"sentence": {}}, "documents": [{"path": "a.txt", "text": "…"}]}}`
//! - `{"enrich": {"heading": {}}}`, of all chunks
//! - `{"index": {"vectors": [[…], …]}}`, a vector for each searchable chunk
//! - `{"write": {"query": {"hyde": {"model": "chat"}}, "turns": [{"question": "…", "history": []}]}}`
//! - `{"retrieve": {"retriever": {"hybrid": {}}, "queries": [{"text": "…", "vector": […]}]}}`
//! - `{"find": {"retriever": {"dense": {}}, "questions": [[{"text": "…", "vector": […]}, …], …]}}`, several queries for
//!   each question
//! - `{"context": {"hits": [[{"row": 3, "score": 0.5}, …], …]}}`
//! - `{"rerank": {"reranker": {"listwise": {"model": "chat"}}, "lists": [{"text": "…", "hits": […]}]}}`
//! - `{"refine": {"refine": ["threshold"], "lists": [{"text": "…", "hits": […]}]}}`
//!
//! Each request builds on the earlier ones. After an answer `{"error": "…"}` the program continues.
//!
//! Where a stage asks a model, the line that is written is `{"asks": {"chat": …}}` or `{"asks": {"embed": ["…"]}}`, and
//! the next line that is read must be `{"answer": {"text": "…"}}`, `{"answer": {"choices": [0.9, 0.1]}}`,
//! `{"answer": [[…], …]}` or `{"error": "…"}`. The models' names are `chat` and `embedder`.

mod caller;

use caller::{EMBEDDER, models};
use models::{Matrix, Message};
use rag::{
    Chunk, ChunkTable, Component, Context, Corpus, Document, Filter, Format, Hit, Metadata, Models, NamedModels,
    Passage, PassageStage, Query,
    analysis::{Language, LanguageChoice, TextAnalysis},
    chunk::{Chunker, ChunkerConfig},
    enrich::EnrichConfig,
    index::{Bm25Index, DenseIndex, IndexedTexts, OpenIndex},
    pipeline::find,
    query::{QueryConfig, SearchQuery, vectors},
    refine::RefineConfig,
    rerank::RerankerConfig,
    retrieve::RetrieverConfig,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::{
    error::Error,
    io::{BufRead, Write},
    sync::Arc,
};

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    Chunk { chunker: ChunkerConfig, documents: Vec<Text> },
    Enrich(EnrichConfig),
    Index { vectors: Vec<Vec<f32>> },
    Write { query: QueryConfig, turns: Vec<Turn> },
    Retrieve { retriever: RetrieverConfig, queries: Vec<Question> },
    Find { retriever: RetrieverConfig, questions: Vec<Vec<Question>> },
    Context { hits: Vec<Vec<Hit>> },
    Rerank { reranker: RerankerConfig, lists: Vec<Found> },
    Refine { refine: RefineConfig, lists: Vec<Found> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    path: String,
    text: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    question: String,
    #[serde(default)]
    history: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    text: String,
    vector: Option<Vec<f32>>,
    filter: Option<Filter>,
}

impl Question {
    fn query(&self) -> Query<'_> {
        let Self { text, vector, filter } = self;
        Query { text, embedding: vector.as_deref(), tokens: None, filter: filter.as_ref() }
    }
}

/// What was found for a question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Found {
    text: String,
    hits: Vec<Hit>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Chunks(Vec<Chunk>),
    Enriched(Vec<String>),
    Indexed(usize),
    Written(Vec<Searches>),
    Hits(Vec<Vec<Hit>>),
    Passages(Vec<Vec<Passage>>),
    Error(String),
}

/// The searches that are made for a question.
#[derive(Serialize)]
struct Searches {
    queries: Vec<SearchQuery>,
    /// One for each query.
    vectors: Vec<Vec<f32>>,
    /// Why the question is searched as it was asked, or with less than was wanted.
    fallback: Option<String>,
}

/// The models, and the state that earlier requests left.
struct Pipeline {
    models: NamedModels,
    documents: Vec<Document>,
    chunker: Option<Box<dyn Chunker>>,
    table: Arc<ChunkTable>,
    indexes: Vec<Arc<OpenIndex>>,
}

impl Pipeline {
    fn context(&self) -> Context<'_> {
        Context { models: Some(&self.models), embedder: Some(EMBEDDER), ..Context::default() }
    }

    fn corpus(&self) -> Corpus<'_> {
        Corpus::exact(&self.table, &self.indexes)
    }

    fn chunker(&self) -> Result<&dyn Chunker, Box<dyn Error>> {
        Ok(&**self.chunker.as_ref().ok_or("nothing was chunked yet")?)
    }

    async fn answer(&mut self, line: &str) -> Result<Answer, Box<dyn Error>> {
        match serde_json::from_str(line)? {
            Request::Chunk { chunker, documents } => {
                self.chunk(&chunker, documents.into_iter().map(document).collect()).await?;
                Ok(Answer::Chunks(self.table.chunks().map(|chunk| chunk.to_chunk()).collect()))
            }
            Request::Enrich(config) => {
                let enricher = config.build(&self.context())?;
                let mut texts = Vec::with_capacity(self.table.len());
                for document in &self.documents {
                    let chunks: Vec<Chunk> =
                        self.table.of_document(&document.path).map(|chunk| chunk.to_chunk()).collect();
                    let chunks: Vec<&Chunk> = chunks.iter().collect();
                    texts.extend(enricher.enrich(document, &chunks).await?.into_iter().map(|one| one.text));
                }
                Ok(Answer::Enriched(texts))
            }
            Request::Index { vectors } => {
                let texts: Vec<&str> = self.table.searchable_chunks().map(|chunk| chunk.text).collect();
                let columns = vectors.first().map_or(0, Vec::len);
                if vectors.len() != texts.len() || vectors.iter().any(|vector| vector.len() != columns) {
                    return Err(format!("{} vectors for {} searchable chunks", vectors.len(), texts.len()).into());
                }
                let dense = DenseIndex::from_matrix(&Matrix { columns, data: vectors.concat() })?;
                // Cuts texts as LlamaIndex does. Only retrievers with `language = "english"` can search this index.
                let language = LanguageChoice::Named(Language::ENGLISH);
                let analysis = TextAnalysis { language, ..TextAnalysis::default() };
                let given = IndexedTexts { texts: &texts, documents: &[0], analysis: &analysis, languages: None };
                let indexes = [OpenIndex::new(dense), OpenIndex::new(Bm25Index::of(&given))];
                let n = texts.len();
                self.indexes = indexes.map(Arc::new).into();
                Ok(Answer::Indexed(n))
            }
            Request::Write { query, turns } => {
                let writer = query.build(&self.context())?;
                let embedder = self.models.embedder(EMBEDDER)?;
                let mut written = Vec::with_capacity(turns.len());
                for Turn { question, history } in &turns {
                    let rag::query::WrittenQueries { queries, fallback } = writer.write(question, history).await?;
                    let vectors = vectors(&embedder, &queries).await?.iter().map(<[f32]>::to_vec).collect();
                    written.push(Searches { queries, vectors, fallback: fallback.map(|fallback| fallback.reason) });
                }
                Ok(Answer::Written(written))
            }
            Request::Retrieve { retriever, queries } => {
                let queries: Vec<Query<'_>> = queries.iter().map(Question::query).collect();
                Ok(Answer::Hits(retriever.build(&self.context())?.retrieve_now(&queries, &self.corpus())?))
            }
            Request::Find { retriever, questions } => {
                let retriever = retriever.build(&self.context())?;
                let queries: Vec<Vec<Query<'_>>> =
                    questions.iter().map(|queries| queries.iter().map(Question::query).collect()).collect();
                let found = find(self.chunker()?, &*retriever, &self.corpus(), &queries).await?;
                Ok(Answer::Passages(found.into_iter().map(|found| found.passages).collect()))
            }
            Request::Context { hits } => {
                Ok(Answer::Passages(hits.into_iter().map(|hits| self.passages(hits)).collect::<Result<_, _>>()?))
            }
            Request::Rerank { reranker, lists } => self.staged(&reranker, lists).await,
            Request::Refine { refine, lists } => self.staged(&refine, lists).await,
        }
    }

    async fn chunk(&mut self, config: &ChunkerConfig, documents: Vec<Document>) -> Result<(), Box<dyn Error>> {
        let chunker = config.build(&self.context())?;
        let mut chunks = Vec::with_capacity(documents.len());
        if config.needs_embedder() {
            for document in &documents {
                chunks.push(chunker.chunk(document).await?);
            }
        } else {
            let made = documents.par_iter().map(|document| chunker.chunk_now(document));
            chunks = made.collect::<Result<Vec<Vec<Chunk>>, _>>()?;
        }
        self.table = Arc::new(ChunkTable::new(chunks.into_iter().flatten().collect()));
        (self.chunker, self.documents, self.indexes) = (Some(chunker), documents, Vec::new());
        Ok(())
    }

    fn passages(&self, hits: Vec<Hit>) -> Result<Vec<Passage>, Box<dyn Error>> {
        if let Some(hit) = hits.iter().find(|hit| hit.row as usize >= self.table.len()) {
            return Err(format!("row {} of {} chunks", hit.row, self.table.len()).into());
        }
        Ok(self.chunker()?.context(hits, &self.table))
    }

    /// What a stage makes of the passages of each list.
    async fn staged(&self, stage: &dyn PassageStage, lists: Vec<Found>) -> Result<Answer, Box<dyn Error>> {
        let step = stage.step(&self.context())?;
        let mut made = Vec::with_capacity(lists.len());
        for Found { text, hits } in lists {
            let query = Query { text: &text, embedding: None, tokens: None, filter: None };
            made.push(step.run(query, self.corpus(), self.passages(hits)?).await?);
        }
        Ok(Answer::Passages(made))
    }
}

fn document(Text { path, text, metadata }: Text) -> Document {
    let content = store::Key::of_bytes(text.as_bytes());
    Document {
        path,
        content,
        format: Format::Text,
        title: None,
        author: None,
        text,
        pages: Vec::new(),
        metadata,
        headings: Vec::new(),
        tables: Vec::new(),
        problems: Vec::new(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut pipeline =
        Pipeline { models: models(), documents: Vec::new(), chunker: None, table: Arc::default(), indexes: Vec::new() };
    let mut line = String::new();
    // The models read and write too, so nothing is held between lines.
    while std::io::stdin().lock().read_line(&mut line)? > 0 {
        let answer = pipeline.answer(&line).await.unwrap_or_else(|error| Answer::Error(error.to_string()));
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        writeln!(out)?;
        out.flush()?;
        line.clear();
    }
    Ok(())
}

//! What the retrievers have in common that search an index of the user's own, in a database that somebody else fills.

use super::{Retriever, SearchOutput, placing::PlacedTexts, reciprocal_rank_of_passages, touched};
use crate::{
    Context, Error, ExistingCollectionSettings, Filter, Hit, Passage,
    component::{default_candidates, ensure},
    corpus::{Corpus, Query},
    database::{self, DatabaseSettings},
    index::SEARCH_RETRIES,
};
use async_trait::async_trait;
use databases::{
    CollectionPlace, DatabaseQuery, FoundRecord, RecordContent, RecordFilter, RecordId, SearchOptions, VectorDatabase,
    VectorMetric, WordQuery, retrying,
};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Searches by words at once.
const WORD_SEARCHES: usize = 16;
/// The constant of reciprocal rank fusion, as the retriever `hybrid` has it by default.
const FUSION_K: u32 = 60;

/// How the vectors of an existing index are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IndexMetric {
    /// By the angle between them.
    Cosine,
    /// By their inner product.
    InnerProduct,
    /// By the distance between their ends.
    L2,
}

impl From<IndexMetric> for VectorMetric {
    fn from(metric: IndexMetric) -> Self {
        match metric {
            IndexMetric::Cosine => Self::Cosine,
            IndexMetric::InnerProduct => Self::InnerProduct,
            IndexMetric::L2 => Self::Euclidean,
        }
    }
}

/// Where the fields are that filters name: those that a setting has, and those of the setting `fields`.
pub(super) fn named_fields(
    own: [(&str, &Option<String>); 3],
    fields: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let own = own.into_iter().filter_map(|(name, place)| Some((name.to_owned(), place.clone()?)));
    own.chain(fields.clone()).collect()
}

/// Implements [`ExistingIndexSettings`](crate::ExistingIndexSettings) for settings of a database with `version` and a method
/// `collection`.
macro_rules! existing_index {
    ($Config:ident) => {
        impl $crate::ExistingIndexSettings for $Config {
            fn endpoint_access(&self) -> models::EndpointAccess {
                $crate::database::endpoint_access(self)
            }

            fn index_name(&self) -> String {
                format!("{}:{}", $crate::database::name(self), self.collection().name)
            }

            fn stated_version(&self) -> Option<&str> {
                self.version.as_deref()
            }

            fn place(&self) -> $crate::IndexPlace<'_> {
                $crate::IndexPlace::Collection(self)
            }
        }

        impl $crate::ExistingCollectionSettings for $Config {
            fn open_database(
                &self,
                environment: &models::provider::Environment,
            ) -> Result<std::sync::Arc<dyn databases::VectorDatabase>, $crate::Error> {
                $crate::database::open(self, environment)
            }

            fn collection_place(&self) -> databases::CollectionPlace {
                self.collection()
            }
        }
    };
}
pub(super) use existing_index;

/// A retriever over an existing index.
pub(super) struct ExistingIndex {
    component: &'static str,
    /// None where only the settings are checked.
    database: Option<Arc<dyn VectorDatabase>>,
    place: CollectionPlace,
    options: SearchOptions,
    /// Whether words are searched too.
    words: bool,
}

impl ExistingIndex {
    /// Checks the settings, and opens the database if the context knows the environment.
    pub(super) fn new(
        settings: &(impl DatabaseSettings + ExistingCollectionSettings),
        options: SearchOptions,
        cx: &Context<'_>,
    ) -> Result<Self, Error> {
        let component = settings.component();
        settings.connection().check(component)?;
        super::check_top_k(component, options.top)?;
        ensure(component, options.ef.is_none_or(|ef| ef > 0), "ef must be at least 1")?;
        ensure(component, options.probes.is_none_or(|probes| probes > 0), "probes must be at least 1")?;
        let is_possible = options.oversampling.is_none_or(|times| (1..=100).contains(&times));
        ensure(component, is_possible, "oversampling must be from 1 to 100")?;
        let context = cx.models.and_then(|models| models.model_context());
        let database = context.map(|context| database::open(settings, &context.environment)).transpose()?;
        Ok(Self { component, database, place: settings.collection_place(), options, words: false })
    }

    /// Searches by words too, where the database can, and joins both lists.
    pub(super) fn with_words(self, words: bool) -> Self {
        Self { words, ..self }
    }

    /// The records for each query: one list by vectors, and one by words if they are searched too.
    async fn found(&self, queries: &[Query<'_>], top: usize) -> Result<Vec<Vec<Vec<FoundRecord>>>, Error> {
        let component = self.component;
        let database = self.database.as_ref().ok_or(Error::Needs { component, part: "its database" })?;
        let vectors: Option<Vec<&[f32]>> = queries.iter().map(|query| query.embedding).collect();
        let vectors = vectors.ok_or(Error::Needs { component, part: "a vector of the question" })?;
        let pattern = || Error::Config {
            component,
            reason: "a filter with a glob cannot be asked of a database; name the values".to_owned(),
        };
        let filter = |filter: &Filter| filter.record_filter().ok_or_else(pattern);
        let filters = queries.iter().map(|query| query.filter.map(filter).transpose());
        let filters: Vec<_> = filters.collect::<Result<_, Error>>()?;
        let asked = vectors.iter().zip(&filters);
        let asked: Vec<_> = asked.map(|(vector, filter)| DatabaseQuery { vector, filter: filter.as_ref() }).collect();
        let candidates = if self.words { default_candidates(top) } else { top };
        let options = SearchOptions { top: candidates, ..self.options };
        let found = retrying(SEARCH_RETRIES, || database.search(&self.place, &asked, &options)).await?;
        let mut lists: Vec<_> = found.into_iter().map(|found| vec![found.records]).collect();
        if self.words {
            let mut by_words = Vec::with_capacity(queries.len());
            for (queries, filters) in queries.chunks(WORD_SEARCHES).zip(filters.chunks(WORD_SEARCHES)) {
                let asked = queries.iter().zip(filters);
                let asked =
                    asked.map(|(query, filter)| self.by_words(database, query.text, filter.as_ref(), candidates));
                by_words.extend(try_join_all(asked.collect::<Vec<_>>()).await?);
            }
            lists.iter_mut().zip(by_words).for_each(|(lists, found)| lists.push(found));
        }
        Ok(lists)
    }

    async fn by_words(
        &self,
        database: &Arc<dyn VectorDatabase>,
        text: &str,
        filter: Option<&RecordFilter>,
        top: usize,
    ) -> Result<Vec<FoundRecord>, Error> {
        let query = WordQuery { text, filter, top, with_content: true };
        let search = || database.search_text(&self.place, &query);
        Ok(retrying(SEARCH_RETRIES, search).await?.records)
    }

    async fn passages(
        &self,
        queries: &[Query<'_>],
        corpus: &Corpus<'_>,
        top: usize,
    ) -> Result<Vec<Vec<Passage>>, Error> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.found(queries, top).await?;
        let texts = PlacedTexts::new(corpus.table);
        let place = |records: Vec<FoundRecord>| records.into_iter().map(|record| placed(record, &texts)).collect();
        let join = |lists: Vec<Vec<FoundRecord>>| {
            let mut lists: Vec<Vec<Passage>> = lists.into_iter().map(place).collect();
            match lists.len() {
                0 | 1 => lists.pop().unwrap_or_default(),
                _ => {
                    let mut joined = reciprocal_rank_of_passages(lists, FUSION_K);
                    joined.truncate(top);
                    joined
                }
            }
        };
        Ok(found.into_iter().map(join).collect())
    }
}

#[async_trait]
impl Retriever for ExistingIndex {
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        let found = self.passages(queries, corpus, self.options.top).await?;
        Ok(found.iter().map(|passages| touched(passages)).collect())
    }

    async fn search(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<SearchOutput, Error> {
        self.passages(queries, corpus, self.options.top).await.map(SearchOutput::Passages)
    }

    async fn retrieve_deeper(
        &self,
        queries: &[Query<'_>],
        corpus: &Corpus<'_>,
        depth: usize,
    ) -> Result<Vec<Vec<Hit>>, Error> {
        let found = self.passages(queries, corpus, depth).await?;
        Ok(found.iter().map(|passages| touched(passages)).collect())
    }
}

/// The passage of a record, at its place in the corpus if it has one.
fn placed(record: FoundRecord, texts: &PlacedTexts<'_>) -> Passage {
    let RecordContent { text, fields } = record.content.unwrap_or_default();
    let word = |name: &str| match fields.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let page = fields.get("page").and_then(|page| match page {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    });
    let named = word("path");
    let (document, place) = texts.place_named(&text, named.as_deref());
    let (document, span, rows) = match place {
        Some(place) => (place.document, place.span, place.rows),
        None => (document.or(named).unwrap_or_else(|| record_name(&record.id)), Default::default(), Vec::new()),
    };
    let page = page.and_then(|page| u32::try_from(page).ok());
    let (book, heading) = (word("title"), word("heading"));
    Passage { document, span, text, score: record.score, page, book, heading, rows, parts: Vec::new() }
}

fn record_name(id: &RecordId) -> String {
    format!("record {id}")
}

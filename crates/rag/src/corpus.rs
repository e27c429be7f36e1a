//! The corpus that retrievers search, and the query.

use crate::{
    ChunkTable, Error, Filter, Hit,
    index::{Index, OpenIndex},
};
use databases::SearchOptions;
use models::Matrix;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// A question as retrievers see it.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// What is searched by words; for a step after the search, the standalone question.
    pub text: &'a str,
    /// Its vector, if the retriever needs one.
    pub embedding: Option<&'a [f32]>,
    /// A vector for each of its tokens, if they were computed already. Without
    /// them, a component that needs them asks the embedder.
    pub tokens: Option<&'a Matrix>,
    /// Which chunks are searched; all if there is none.
    pub filter: Option<&'a Filter>,
}

/// How vectors are searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VectorSearch {
    /// All are compared.
    #[default]
    Exact,
    /// A graph is walked.
    Graph {
        /// How many near vectors are kept.
        ef: usize,
    },
    /// A database is asked.
    Database(DatabaseSearch),
}

/// How a database searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DatabaseSearch {
    /// How many near vectors its graph keeps; none if that is a setting of the collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ef: Option<u32>,
    /// How many clusters it looks into; none if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<u32>,
    /// How many times as many chunks as are returned it finds by a smaller copy of the vectors; none if it has no copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversampling: Option<u32>,
}

impl DatabaseSearch {
    /// What of it is part of keys; none if nothing is set.
    pub(crate) fn key_settings(self) -> Option<Value> {
        (self != Self::default()).then(|| json!(self))
    }

    /// The options of a search for so many chunks.
    pub fn options(self, top: usize) -> SearchOptions {
        let Self { ef, probes, oversampling } = self;
        SearchOptions { ef, probes, oversampling, ..SearchOptions::top(top) }
    }
}

/// Everything that can be searched.
#[derive(Debug, Clone, Copy)]
pub struct Corpus<'a> {
    /// The chunks.
    pub table: &'a Arc<ChunkTable>,
    /// The indexes of the searchable chunks, at most one of each kind.
    pub indexes: &'a [Arc<OpenIndex>],
    /// How its vectors are searched.
    pub vector_search: VectorSearch,
}

impl<'a> Corpus<'a> {
    /// A corpus whose vectors are searched exactly.
    pub fn exact(table: &'a Arc<ChunkTable>, indexes: &'a [Arc<OpenIndex>]) -> Self {
        Self { table, indexes, vector_search: VectorSearch::Exact }
    }

    /// The index of a kind, for a component that searches it.
    ///
    /// # Errors
    /// If it is not there, or was made from other chunks than the table's:
    /// that would give wrong citations.
    pub fn index<T: Index>(&self, component: &'static str) -> Result<&'a T, Error> {
        let index = self.indexes.iter().find_map(|index| index.get::<T>());
        let index = index.ok_or(Error::NeedsIndex { component, index: T::TITLE })?;
        let (entries, searchable) = (index.entries(), self.table.searchable().len());
        if entries == searchable {
            return Ok(index);
        }
        let reason = format!(
            "the index holds {entries} entries but there are {searchable} searchable chunks: it was made from other \
             chunks"
        );
        Err(Error::Config { component, reason })
    }

    /// The entry of the indexes for a row of the table; none if its chunk is not searchable.
    pub fn entry(&self, row: u32) -> Option<u32> {
        self.table.searchable().binary_search(&row).ok().map(|entry| entry as u32)
    }

    /// Entries of an index as hits on rows of the table.
    pub(crate) fn hits(&self, found: Vec<(u32, f32)>) -> Vec<Hit> {
        let rows = self.table.searchable();
        found.into_iter().filter_map(|(entry, score)| rows.get(entry as usize).map(|&row| Hit { row, score })).collect()
    }
}

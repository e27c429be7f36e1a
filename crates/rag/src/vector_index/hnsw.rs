//! `hnsw`: a graph of near vectors is walked towards the question's, which looks at a small part of them and may miss some.
//!
//! Use it above a few hundred thousand chunks, where `flat` becomes slow. To see what it misses, list `flat`
//! too: the leaderboard compares them.
//!
//! The graph has one layer, that of DiskANN, and is searched like the lowest layer of HNSW. It holds no vectors and uses
//! those of `flat`, so scores are exact.
//! Source: Subramanya et al., DiskANN, 2019; Malkov and Yashunin, HNSW, 2016.

use super::VectorIndexSettings;
use crate::{
    Component, Context, Error,
    component::{ensure, settings},
    corpus::VectorSearch,
    index::{GraphSettings, IndexKind, Indexes},
};
use serde_json::{Value, json};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "index hnsw";

/// The most links of a node, candidates and vectors to look at.
const MOST: usize = 4096;

settings! {
    /// Settings of `hnsw`.
    pub struct Config {
        /// Half of the links that a vector has. More find more, and take more memory (about 9 bytes a vector each).
        /// Default 16.
        pub m: usize = 16,
        /// How many near vectors are kept while links are chosen. More give a better graph, and take longer to build.
        /// Default 128.
        pub ef_construction: usize = 128,
        /// How many near vectors are kept during a search, at least as many as are returned. More find more, and take
        /// longer. Trials that differ in this alone share one index. Default 128.
        pub ef: usize = 128,
    }
}

impl Component for Config {
    fn indexes(&self) -> Indexes {
        [IndexKind::Hnsw].into()
    }
}

impl VectorIndexSettings for Config {
    fn graph(&self) -> Option<GraphSettings> {
        Some(GraphSettings { degree: 2 * self.m as u32, candidates: self.ef_construction as u32 })
    }

    fn search_settings(&self) -> Option<Value> {
        Some(json!({ "ef": self.ef }))
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<VectorSearch, Error> {
        ensure(NAME, (2..=128).contains(&self.m), format!("m is {}, but must be from 2 to 128", self.m))?;
        for (name, value) in [("ef_construction", self.ef_construction), ("ef", self.ef)] {
            ensure(NAME, (1..=MOST).contains(&value), format!("{name} is {value}, but must be from 1 to {MOST}"))?;
        }
        Ok(VectorSearch::Graph { ef: self.ef })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_searched_more_thoroughly_is_the_same_index() {
        let (one, other) = (Config::default(), Config { ef: 400, ..Config::default() });
        assert_eq!(one.graph(), other.graph());
        assert_ne!(one.search_settings(), other.search_settings());
        assert_eq!(one.graph(), Some(GraphSettings::default()), "the defaults are those of the graph");
    }

    #[test]
    fn impossible_settings_are_refused() {
        for config in [Config { m: 1, ..Config::default() }, Config { ef: 0, ..Config::default() }] {
            assert!(config.build(&Context::default()).is_err(), "{config:?}");
        }
        assert!(Config { ef_construction: 5000, ..Config::default() }.build(&Context::default()).is_err());
    }
}

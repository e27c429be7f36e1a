//! Searches vectors in the index of a trial, and compares what was found with an exact search.

use crate::{Error, blocking::compute};
use databases::DatabaseQuery;
use models::Matrix;
use rag::{
    VectorSearch,
    index::{DatabaseIndex, DenseIndex, GraphIndex, OpenIndex},
};
use std::{ops::Range, sync::Arc};

/// Scores that differ by less are equal: which of the chunks with them is found makes no difference.
const ROUNDING: f32 = 1e-6;

/// The `k` nearest entries for some of the vectors, best first, with their scores, by the index of a trial.
pub(crate) async fn nearest_entries(
    search: VectorSearch,
    indexes: &Arc<Vec<Arc<OpenIndex>>>,
    (vectors, range): (&Arc<Matrix>, Range<usize>),
    k: usize,
) -> Result<Vec<Vec<(u32, f32)>>, Error> {
    let missing = || Error::table("an index is searched that is not there");
    if let VectorSearch::Database(search) = search {
        let database = indexes.iter().find_map(|index| index.get::<DatabaseIndex>()).ok_or_else(missing)?;
        let options = search.options(k);
        let queries: Vec<_> = range.map(|row| DatabaseQuery { vector: vectors.row(row), filter: None }).collect();
        let found = database.search(&queries, &options).await?;
        return Ok(found.into_iter().map(Option::unwrap_or_default).collect());
    }
    let (vectors, indexes) = (vectors.clone(), indexes.clone());
    let searched = compute(move || {
        let queries: Vec<&[f32]> = range.map(|row| vectors.row(row)).collect();
        let dense = indexes.iter().find_map(|index| index.get::<DenseIndex>()).ok_or_else(missing)?;
        Ok(match search {
            VectorSearch::Graph { ef } => {
                let graph = indexes.iter().find_map(|index| index.get::<GraphIndex>()).ok_or_else(missing)?;
                graph.search(dense, &queries, k, ef)?
            }
            VectorSearch::Exact | VectorSearch::Database(_) => dense.search(&queries, k)?,
        })
    });
    searched.await?
}

/// The share of the nearest entries that were found; none if there are none.
pub(crate) fn recall_of_nearest(nearest: &[(u32, f32)], found: &[(u32, f32)]) -> Option<f64> {
    let (_, least) = nearest.last()?;
    let is_near = |(entry, score): &&(u32, f32)| {
        nearest.iter().any(|(near, _)| near == entry) || (score - least).abs() <= ROUNDING
    };
    let near = found.iter().filter(is_near).count();
    Some(near.min(nearest.len()) as f64 / nearest.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_as_near_as_the_last_of_the_exact_ones_counts_as_found() {
        let exact = [(1, 0.9), (2, 0.8), (3, 0.7)];
        assert_eq!(recall_of_nearest(&exact, &exact), Some(1.0));
        let other = [(1, 0.9), (2, 0.8), (9, 0.7)];
        assert_eq!(recall_of_nearest(&exact, &other), Some(1.0), "which of two equal ones is no loss");
        assert_eq!(recall_of_nearest(&exact, &[(1, 0.9), (7, 0.6), (8, 0.5)]), Some(1.0 / 3.0));
        let rounded = [(1, 0.8999), (2, 0.7998), (3, 0.6999)];
        assert_eq!(recall_of_nearest(&exact, &rounded), Some(1.0), "scores of 16 bits");
        let renumbered = [(4, 0.9), (5, 0.8), (6, 0.7)];
        assert_eq!(recall_of_nearest(&exact, &renumbered), Some(1.0 / 3.0), "other chunks with these scores");
        assert_eq!(recall_of_nearest(&exact, &[]), Some(0.0));
        assert_eq!(recall_of_nearest(&[], &[]), None);
    }
}

//! Promotion into a database: writes a trial's chunks and vectors there, makes a bundle that searches there, and checks
//! later whether the database finds as many of the nearest chunks as after the promotion.

use crate::{
    Error, RunPipeline, Session, Setup,
    bundle::{Bundle, BundleManifest, ExpectedHits, ExpectedQueries, Promoted, PromotedIndex, SearchAgreement},
    collections::OpenDatabase,
    error_chain,
    layout::{self, Format},
    record::RunRecord,
    session::used_databases::check_can_create,
    task::{
        chunk_table, decode_matrix,
        filling::{FillProgress, Filling, call},
        nearest_entries, open_indexes, recall_of_nearest,
    },
};
use databases::VectorDatabase;
use models::Matrix;
use rag::{
    Choice, Component, Context, VectorSearch,
    index::{DatabaseIndex, DenseIndex, FilledCollection, Index, IndexKind, OpenIndex},
    vector_index::VectorIndexConfig,
};
use serde::Serialize;
use serde_json::json;
use std::{path::Path, sync::Arc};
use store::KeyBuilder;

/// The version of the records.
const VERSION: u32 = 1;
/// How many chunks a search is compared on, if the retriever has no limit.
const TOP: usize = 10;
/// How many chunks are searched for where there are no vectors of questions.
const ENTRIES: usize = 64;
/// Searches at once.
const SEARCHES_PER_STEP: usize = 64;
/// So much less of the nearest chunks may be found than after the promotion: a database may choose among equal ones.
const TOLERANCE: f64 = 0.005;

/// A database into which a trial is promoted.
#[derive(Debug, Clone)]
pub struct Promotion {
    /// The database, how it indexes vectors, and how it is searched.
    pub index: VectorIndexConfig,
    /// The name by which other programs find the vectors, also after the next promotion.
    pub alias: Option<String>,
}

impl Promotion {
    /// Fills a collection of the database with the chunks and vectors of a trial, compares its hits with those of an exact
    /// search, makes the trial's bundle at `output`, and then points the alias to the collection. A complete collection is
    /// filled again only if a record differs; an interrupted fill is resumed. The first function of `on_records` gets the
    /// number of records, the second the number of records in each part that was written.
    ///
    /// # Errors
    /// A trial without vectors of its own, a database that cannot be used, and those of [`Bundle::make`].
    pub async fn make_bundle(
        &self,
        session: &Session,
        record: &RunRecord,
        trial: &str,
        output: &str,
        on_records: (&(dyn Fn(usize) + Sync), &(dyn Fn(usize) + Sync)),
    ) -> Result<BundleManifest, Error> {
        Bundle::check_place(output, session.setup()).await?;
        let database = OpenDatabase::open(self.index.clone(), &session.context().environment)?;
        let promoted = self.fill(session, record, trial, &database, on_records).await?;
        let manifest = Bundle::make_with(session, record, (trial, Some(&promoted)), output).await?;
        if let Some(alias) = &self.alias {
            let collection = &promoted.index.collection.collection;
            database.swap(alias, collection).await.map_err(|error| {
                Error::Unusable(format!(
                    "{output} was made, but the alias `{alias}` could not be pointed to `{collection}`: {}; the alias can be \
                     pointed there alone, without another promotion",
                    error_chain(&error)
                ))
            })?;
        }
        Ok(manifest)
    }

    async fn fill(
        &self,
        session: &Session,
        record: &RunRecord,
        trial: &str,
        opened: &OpenDatabase,
        (expect, report): (&(dyn Fn(usize) + Sync), &(dyn Fn(usize) + Sync)),
    ) -> Result<Promoted, Error> {
        let unusable =
            |reason: &str| Error::Unusable(format!("trial `{trial}` cannot be put into a database: {reason}"));
        self.index.build(&Context::default())?;
        let pipeline = RunPipeline::open(session, record, trial).await?;
        let (config, inputs, outputs) = pipeline.searched();
        if config.retriever.existing_index().is_some() {
            return Err(unusable(
                "it searches an index of your own, which is in one already; promote it without --into",
            ));
        }
        let Some(dense) = inputs.indexes.get(&IndexKind::Dense) else {
            return Err(unusable("it compares no vectors; promote it without --into"));
        };
        let cx = pipeline.run_context();
        let (database, address) = (&opened.database, opened.address());
        check_can_create(&**database).await?;
        if let Some(alias) = &self.alias {
            opened.check_alias(alias).await?;
        }
        let files: Vec<&String> = inputs.chunks.iter().chain(dense).filter_map(|id| outputs.get(id)).collect();
        let key = KeyBuilder::new("promoted_index").field("version", &VERSION);
        let key = key.field("index", &(self.index.name(), self.index.version(), self.index.build_settings()));
        let key = key.field("address", &address).field("files", &files).finish();

        let table = chunk_table(cx, outputs, &inputs.chunks).await?;
        let indexes = open_indexes(cx, outputs, &[(IndexKind::Dense, dense.clone())].into()).await?;
        let vectors = indexes.iter().find_map(|index| index.get::<DenseIndex>());
        let vectors = vectors.ok_or_else(|| unusable("its vectors are not in the store"))?;
        let (rows, dimensions) = (vectors.entries(), vectors.dimensions());
        let named = self.index.collection(&key.hex(), dimensions);
        let (collection, spec) = named.ok_or_else(|| unusable("the index is in no database"))?;
        let collection = FilledCollection {
            address,
            collection,
            key: key.hex(),
            rows,
            dimensions,
            settings: self.index.value(),
            bytes: None,
        };
        expect(rows);
        let kept = (!cx.store.is_read_only()).then_some((&cx.store, &key));
        let (place, filled) = (collection.place(), &collection);
        let (database_of_filling, table) = (database.clone(), &*table);
        let filling =
            Filling { place, database: database_of_filling, filled, spec, table, vectors, reads_back_all: true };
        let facts = json!({
            "index": self.index.build_settings(),
            "experiment": record.board().experiment, "run": record.id(), "trial": trial,
        });
        filling.fill(&FillProgress { kept, report }, facts).await?;

        let questions = decode_matrix(cx, outputs, inputs.question_vectors).await?;
        let (queries, of) = match questions.filter(|questions| questions.rows() > 0) {
            Some(questions) => (questions, ExpectedQueries::Questions),
            None => {
                let entries: Vec<u32> =
                    (0..rows).step_by(rows.div_ceil(ENTRIES).max(1)).map(|entry| entry as u32).collect();
                let data = entries.iter().flat_map(|&entry| vectors.vector(entry).to_vec()).collect();
                (Matrix { columns: dimensions, data }, ExpectedQueries::Entries(entries))
            }
        };
        let top = config.search_retriever().limit().unwrap_or(TOP).min(rows).max(1);
        let indexes = Arc::new(indexes);
        let hits = search_all(VectorSearch::Exact, &indexes, queries.clone(), top).await?;
        let expected = ExpectedHits { top, queries: of, hits };
        let found = search_in(&self.index, &collection, database, queries, top).await?;
        let found = agreement(&expected, &found);
        let alias = self.alias.as_deref().map(|alias| self.index.name_in_database(alias));
        let artifact = layout::artifact(&key, Format::Index(IndexKind::Database));
        let index = PromotedIndex { collection, alias, found };
        Ok(Promoted { config: self.index.clone(), index, artifact, expected })
    }
}

/// The nearest entries for all vectors.
async fn search_all(
    search: VectorSearch,
    indexes: &Arc<Vec<Arc<OpenIndex>>>,
    queries: Matrix,
    top: usize,
) -> Result<Vec<Vec<(u32, f32)>>, Error> {
    let (rows, queries) = (queries.rows(), Arc::new(queries));
    let mut found = Vec::with_capacity(rows);
    for start in (0..rows).step_by(SEARCHES_PER_STEP) {
        let range = start..(start + SEARCHES_PER_STEP).min(rows);
        found.extend(nearest_entries(search, indexes, (&queries, range), top).await?);
    }
    Ok(found)
}

/// The same in a collection of a database.
async fn search_in(
    config: &VectorIndexConfig,
    collection: &FilledCollection,
    database: &Arc<dyn VectorDatabase>,
    queries: Matrix,
    top: usize,
) -> Result<Vec<Vec<(u32, f32)>>, Error> {
    let index = DatabaseIndex::new(collection.clone());
    index.connect(database.clone());
    let indexes = Arc::new(vec![Arc::new(OpenIndex::new(index))]);
    search_all(config.build(&Context::default())?, &indexes, queries, top).await
}

fn agreement(expected: &ExpectedHits, found: &[Vec<(u32, f32)>]) -> SearchAgreement {
    let pairs = expected.hits.iter().zip(found);
    let recalls: Vec<f64> = pairs.filter_map(|(nearest, found)| recall_of_nearest(nearest, found)).collect();
    SearchAgreement {
        searches: recalls.len(),
        top: expected.top,
        recall: eval::statistics::mean(&recalls).unwrap_or(1.0),
        complete: recalls.iter().filter(|recall| **recall >= 1.0).count(),
    }
}

/// Whether the database of a bundle finds what it found when the bundle was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatabaseCheck {
    /// The experiment's name.
    pub experiment: String,
    /// The trial of the bundle.
    pub trial: String,
    /// The address of the database, without user and password.
    pub address: String,
    /// The collection.
    pub collection: String,
    /// The records that were written.
    pub records: usize,
    /// What was found then.
    pub then: SearchAgreement,
    /// What is found now; none if the collection is not what was written.
    pub now: Option<SearchAgreement>,
    /// Why the database does not give the bundle's answers; none if it does.
    pub problem: Option<String>,
}

impl DatabaseCheck {
    /// Searches the collection of a bundle as its pipeline does, and compares the hits with those of an exact search that
    /// the bundle holds. No model is asked where the bundle has the vectors of the golden questions.
    ///
    /// # Errors
    /// A place without a bundle, a bundle without an index in a database, or a database that cannot be reached.
    pub async fn of_bundle(address: &str, setup: Setup, cache: &Path, scratch: &Path) -> Result<Self, Error> {
        let bundle = Bundle::open(address, &setup, cache).await?;
        let Some(promoted) = bundle.manifest.database.clone() else {
            let reason = "holds its index itself; only one that was made with `promote --into` has one in a database";
            return Err(Error::Unusable(format!("{address} {reason}")));
        };
        let (session, record) = bundle.session(setup, scratch).await?;
        let collection = promoted.collection;
        let (_, inputs, artifacts) = record.trial_inputs(&bundle.manifest.trial)?;
        let config: VectorIndexConfig = serde_json::from_value(collection.settings.clone()).map_err(Error::table)?;
        let OpenDatabase { database, .. } = OpenDatabase::open(config.clone(), &session.context().environment)?;
        if database.address() != collection.address {
            return Err(Error::Unusable(format!(
                "{address}: its vectors were put into {}, and the settings lead to {} now",
                collection.address,
                database.address()
            )));
        }
        let expected = bundle.expected_hits().await?;
        let place = collection.place();
        let found = call(|| database.describe(&place)).await?;
        let mut check = Self {
            experiment: bundle.manifest.name.clone(),
            trial: bundle.manifest.trial.clone(),
            address: collection.address.clone(),
            collection: collection.collection.clone(),
            records: collection.rows,
            then: promoted.found,
            now: None,
            problem: collection.problem(found).map(|problem| format!("`{}` {problem}", collection.collection)),
        };
        if check.problem.is_some() {
            return Ok(check);
        }
        let queries = match &expected.queries {
            ExpectedQueries::Questions => {
                let name = inputs.question_vectors.and_then(|id| artifacts.get(&id)).cloned().unwrap_or_default();
                let bytes = session.workspace().store().get(&name).await?;
                let bytes = bytes.ok_or_else(|| Error::Unusable(format!("{address} has no vectors of questions")))?;
                crate::artifact::decode_vectors(bytes)?
            }
            ExpectedQueries::Entries(entries) => {
                let ids: Vec<_> = entries.iter().map(|&entry| databases::RecordId::Number(entry.into())).collect();
                let records = call(|| database.read(&place, &ids)).await?;
                let vectors: Option<Vec<Vec<f32>>> = records.into_iter().map(|record| Some(record?.vector)).collect();
                let Some(vectors) = vectors.filter(|all| all.iter().all(|it| it.len() == collection.dimensions)) else {
                    check.problem = Some(format!("`{}` lacks records that were written", collection.collection));
                    return Ok(check);
                };
                Matrix { columns: collection.dimensions, data: vectors.concat() }
            }
        };
        match search_in(&config, &collection, &database, queries, expected.top).await {
            Ok(found) => {
                let now = agreement(&expected, &found);
                check.now = Some(now);
                check.problem = (now.recall < check.then.recall - TOLERANCE).then(|| {
                    format!(
                        "{:.1} % of the nearest chunks are found, and {:.1} % were after the promotion",
                        100.0 * now.recall,
                        100.0 * check.then.recall
                    )
                });
            }
            // A record that Reverie did not write is told by the search.
            Err(Error::Stage(error @ rag::Error::BadIndex { .. })) => check.problem = Some(error_chain(&error)),
            Err(error) => return Err(error),
        }
        Ok(check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_agree_as_far_as_the_nearest_chunks_are_found() {
        let hits = vec![vec![(1, 0.9), (2, 0.8)], vec![(3, 0.9), (4, 0.8)]];
        let expected = ExpectedHits { top: 2, queries: ExpectedQueries::Questions, hits: hits.clone() };
        let all = agreement(&expected, &hits);
        assert_eq!((all.searches, all.recall, all.complete), (2, 1.0, 2));
        let half = agreement(&expected, &[hits[0].clone(), vec![(3, 0.9), (9, 0.1)]]);
        assert_eq!((half.recall, half.complete), (0.75, 1));
        assert_eq!(agreement(&expected, &[vec![], vec![]]).recall, 0.0);
    }
}

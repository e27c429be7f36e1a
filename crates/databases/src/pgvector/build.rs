//! Making tables and their search indexes.

use super::{
    session::{PgFailure, PgSession, is_code},
    table::{MANIFEST, Relation, TableName, literal},
};
use crate::{CollectionSpec, IndexManifest, SearchIndexSpec, StoredPrecision, VectorMetric};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_postgres::error::SqlState;

/// How often the progress is asked for.
const PROGRESS: Duration = Duration::from_secs(1);
/// The least and the most memory for building an index, in MB.
const MEMORY: (u64, u64) = (64, 1024);

/// The statements that make a table. Rows stay in their page as long as they fit into one: reading a vector then needs
/// no second look-up, and writing is faster.
pub(super) fn create_table(name: &TableName, spec: &CollectionSpec) -> Result<String, serde_json::Error> {
    let kind = match spec.precision {
        StoredPrecision::F16 => "halfvec",
        StoredPrecision::F32 | StoredPrecision::Int8 | StoredPrecision::Binary => "vector",
    };
    let table = name.sql();
    Ok(format!(
        "create table {table} (id bigint primary key, vector {kind}({}) not null, text text not null, fields jsonb not null) \
         with (toast_tuple_target = 8160); {}",
        spec.dimensions,
        comment(name, &IndexManifest::of_filling(spec))?
    ))
}

/// The statement that stores a manifest.
pub(super) fn comment(name: &TableName, manifest: &IndexManifest) -> Result<String, serde_json::Error> {
    let text = format!("{MANIFEST}{}", serde_json::to_string(manifest)?);
    Ok(format!("comment on table {} is {}", name.sql(), literal(&text)))
}

/// Builds the search index of a table unless it has a valid one. Processes that do this at once wait for each other.
/// `watcher` is a second connection, on which the progress is read, if one is free.
pub(super) async fn build_index(
    session: &mut PgSession,
    watcher: Option<&mut PgSession>,
    name: &TableName,
    spec: &CollectionSpec,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<(), PgFailure> {
    // Ends with the connection, if not before.
    session.query("select pg_advisory_lock(hashtextextended($1, 0))", &[&name.sql()]).await?;
    let built = build(session, watcher, name, spec, progress).await;
    session.query("select pg_advisory_unlock(hashtextextended($1, 0))", &[&name.sql()]).await?;
    built
}

async fn build(
    session: &mut PgSession,
    watcher: Option<&mut PgSession>,
    name: &TableName,
    spec: &CollectionSpec,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<(), PgFailure> {
    let table = name.sql();
    let relation = Relation::find(session, name).await?;
    let existing = relation.and_then(|relation| relation.search_index("vector", VectorMetric::Cosine));
    let kind = match spec.index {
        SearchIndexSpec::Exact => None,
        SearchIndexSpec::Hnsw { m, ef_construction, .. } => {
            Some(("hnsw", format!("m = {m}, ef_construction = {ef_construction}")))
        }
        SearchIndexSpec::Ivfflat { lists } => {
            let lists = SearchIndexSpec::lists_for(lists, rows(session, &table).await?);
            Some(("ivfflat", format!("lists = {lists}")))
        }
    };
    if let Some((kind, settings)) = kind
        && !existing.as_ref().is_some_and(|index| index.is_ready)
    {
        let index = name.search_index();
        if existing.is_some() {
            session.run(&format!("drop index {}.{index}", super::table::quoted(&name.schema))).await?;
        }
        let indexed = match spec.precision {
            StoredPrecision::F32 | StoredPrecision::Int8 => "vector vector_cosine_ops".to_owned(),
            StoredPrecision::F16 => "vector halfvec_cosine_ops".to_owned(),
            StoredPrecision::Binary => {
                format!("({}) bit_hamming_ops", super::search::bits_of("vector", spec.dimensions))
            }
        };
        let statement = format!("create index {index} on {table} using {kind} ({indexed}) with ({settings})");
        let memory = memory_in_mb(spec, rows(session, &table).await?);
        watched(session, watcher, &format!("set maintenance_work_mem = '{memory}MB'"), &statement, progress).await?;
    }
    session.run(&format!("analyze {table}")).await
}

/// Builds with the server's processes, or alone where it has no shared memory for them (a container's `/dev/shm`).
async fn watched(
    session: &mut PgSession,
    mut watcher: Option<&mut PgSession>,
    setting: &str,
    statement: &str,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<(), PgFailure> {
    session.run(setting).await?;
    let rows = session.query("select pg_backend_pid()", &[]).await?;
    let process: i32 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    let mut ticks = tokio::time::interval(PROGRESS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_alone = false;
    loop {
        let built = {
            let building = session.run(statement);
            tokio::pin!(building);
            loop {
                tokio::select! {
                    built = &mut building => break built,
                    _ = ticks.tick() => {
                        // Progress is a courtesy: building goes on without it.
                        if let Some(watcher) = &mut watcher
                            && let Ok(Some(share)) = built_share(watcher, process).await
                        {
                            progress(share);
                        }
                    }
                }
            }
        };
        match built {
            Err(failure) if !is_alone && is_code(&failure, &[SqlState::DISK_FULL, SqlState::OUT_OF_MEMORY]) => {
                is_alone = true;
                session.run("set max_parallel_maintenance_workers = 0").await?;
            }
            built => {
                progress(1.0);
                session.run("reset maintenance_work_mem; reset max_parallel_maintenance_workers").await?;
                return built;
            }
        }
    }
}

async fn built_share(watcher: &mut PgSession, process: i32) -> Result<Option<f64>, PgFailure> {
    const SHARE: &str = "select coalesce(case when tuples_total > 0 then tuples_done::float8 / tuples_total \
        when blocks_total > 0 then blocks_done::float8 / blocks_total end, 0) \
        from pg_stat_progress_create_index where pid = $1";
    let rows = watcher.query(SHARE, &[&process]).await?;
    Ok(rows.first().map(|row| row.try_get::<_, f64>(0)).transpose()?.map(|share| share.clamp(0.0, 1.0)))
}

async fn rows(session: &mut PgSession, table: &str) -> Result<u64, PgFailure> {
    let rows = session.query(&format!("select count(*) from {table}"), &[]).await?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(count.try_into().unwrap_or_default())
}

/// The memory that keeps the whole graph of so many rows in memory, within limits.
fn memory_in_mb(spec: &CollectionSpec, rows: u64) -> u64 {
    let links = match spec.index {
        SearchIndexSpec::Hnsw { m, .. } => u64::from(m) * 2 * 24,
        SearchIndexSpec::Exact | SearchIndexSpec::Ivfflat { .. } => 0,
    };
    let bytes = rows * (spec.dimensions as u64 * 4 + links + 200);
    ((bytes * 3 / 2) >> 20).clamp(MEMORY.0, MEMORY.1)
}

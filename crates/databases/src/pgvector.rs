//! PostgreSQL with the extension [pgvector](https://github.com/pgvector/pgvector), 0.8 or newer.
//!
//! A collection that Reverie fills is a table `id, vector, text, fields`. Its manifest is the comment of the table. A
//! part is written by one binary copy in a transaction, so a part is there as a whole or not at all. An alias is a
//! view, which is replaced in a transaction.
//!
//! Filters are exact: they are SQL on JSON values with the order of our own filters. A search among ids is exact. A
//! search for which the index gives fewer rows than asked for is done again without the index, so no record that
//! passes is missed because of a filter.
//!
//! Rights: to search, `select` on the table and `usage` on its schema; to fill, `create` in the schema.

mod build;
mod copy;
mod reading;
mod search;
mod session;
mod table;
mod words;
mod writing;

use crate::{
    AccessSettings, CollectionDescription, CollectionPlace, CollectionSpec, DatabaseAccess, DatabaseProblem,
    DatabaseQuery, Error, FoundRecords, IndexManifest, IndexedRecord, RecordFilter, RecordId, RecordLayout,
    SearchOptions, ServerDescription, VectorDatabase, WordQuery,
};
use async_trait::async_trait;
use deadpool::{
    Runtime,
    managed::{Object, Pool, PoolError, QueueMode, Timeouts},
};
use futures::{StreamExt, TryStreamExt, stream};
use search::RowCondition;
use session::{PgFailure, PgSession, SessionMaker, SessionSettings, extension_advice, is_code, problem};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use table::{ALIAS, MANIFEST, Relation, TableName, TableShape, number};
use tokio_postgres::error::SqlState;

/// Connections at most; PostgreSQL allows 100 from all clients unless told otherwise.
const MAX_CONNECTIONS: usize = 16;
/// More rows than asked for, so that equal scores at the end are ordered by id and not by the database.
const MORE_ROWS: usize = 8;
/// pgvector's largest number of candidates.
const MAX_EF: usize = 1000;
/// The oldest version of pgvector with searches that go on until enough rows pass a filter.
const OLDEST: (u32, u32) = (0, 8);
/// Tries to write a part that another process is writing.
const MAX_WRITES: usize = 5;

/// A database of PostgreSQL with pgvector.
pub struct PgvectorDatabase {
    access: DatabaseAccess,
    pool: Pool<SessionMaker>,
    shapes: Mutex<HashMap<CollectionPlace, Arc<TableShape>>>,
}

impl fmt::Debug for PgvectorDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgvectorDatabase").field("access", &self.access).finish_non_exhaustive()
    }
}

/// A failure, or a problem that was found before the server was asked.
enum PgError {
    Failure(PgFailure),
    Problem(DatabaseProblem),
}

impl<E: Into<PgFailure>> From<E> for PgError {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

impl From<DatabaseProblem> for PgError {
    fn from(problem: DatabaseProblem) -> Self {
        Self::Problem(problem)
    }
}

impl PgvectorDatabase {
    /// Opens a database at an address `postgresql://user:password@host:port/name`, of which `sslmode` and
    /// `sslrootcert` are understood as `psql` understands them, except that certificates are always checked. Makes no
    /// connection. Fails if the address cannot be used.
    pub fn open(settings: AccessSettings) -> Result<Self, Error> {
        let access = DatabaseAccess::new(settings, &[("postgresql", 5432), ("postgres", 5432)])?;
        let maker = SessionMaker::new(&access)?;
        // A connection that was just used is still in the processor's cache of the server.
        let timeouts = Timeouts {
            wait: Some(access.settings.timeout),
            create: Some(access.settings.connect_timeout),
            recycle: None,
        };
        let pool = Pool::builder(maker)
            .max_size(access.settings.concurrency.min(MAX_CONNECTIONS))
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .timeouts(timeouts)
            .build();
        let refuse = |error| DatabaseProblem::InvalidSettings { reason: format!("{error}") };
        let pool = pool.map_err(|error| access.error(None, refuse(error)))?;
        Ok(Self { access, pool, shapes: Mutex::default() })
    }

    fn error(&self, collection: Option<&str>, error: PgError) -> Error {
        // What is remembered of tables may be what was wrong.
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let problem = match error {
            PgError::Failure(failure) => problem(&self.access, failure, false),
            PgError::Problem(problem) => problem,
        };
        self.access.error(collection, problem)
    }

    /// A connection with the default settings.
    async fn session(&self) -> Result<Object<SessionMaker>, Error> {
        self.session_with(SessionSettings::new(self.access.settings.timeout)).await
    }

    async fn session_with(&self, settings: SessionSettings) -> Result<Object<SessionMaker>, Error> {
        let mut session = self.pool.get().await.map_err(|error| {
            let problem = match error {
                PoolError::Backend(failure) => problem(&self.access, failure, true),
                PoolError::Timeout(_) => DatabaseProblem::Unreachable { reason: "no connection in time".to_owned() },
                error => DatabaseProblem::Unreachable { reason: self.access.shown(&format!("{error:?}")) },
            };
            self.access.error(None, problem)
        })?;
        session.apply(settings).await.map_err(|failure| self.error(None, failure.into()))?;
        Ok(session)
    }

    /// How a table is read, looked up once.
    async fn shape(&self, session: &mut PgSession, place: &CollectionPlace) -> Result<Arc<TableShape>, PgError> {
        let known = self.shapes.lock().unwrap_or_else(PoisonError::into_inner).get(place).cloned();
        if let Some(shape) = known {
            return Ok(shape);
        }
        let relation = Relation::find(session, &TableName::read(&place.name)?).await?;
        let shape = Arc::new(TableShape::of(&relation.ok_or(DatabaseProblem::MissingCollection)?, place)?);
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).insert(place.clone(), shape.clone());
        Ok(shape)
    }

    /// The table and its manifest; fails if Reverie did not make it.
    async fn own(session: &mut PgSession, name: &TableName) -> Result<Option<(Relation, IndexManifest)>, PgError> {
        match Relation::find(session, name).await? {
            None => Ok(None),
            Some(relation) => {
                let manifest = relation.manifest()?.ok_or(DatabaseProblem::ForeignCollection)?;
                Ok(Some((relation, manifest)))
            }
        }
    }
}

/// Whether a version such as `0.8.5` is not older than [`OLDEST`].
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST
}

#[async_trait]
impl VectorDatabase for PgvectorDatabase {
    fn address(&self) -> String {
        self.access.address_for_key().to_owned()
    }

    async fn describe_server(&self) -> Result<ServerDescription, Error> {
        const SERVER: &str = "select current_setting('server_version'), \
            (select extversion from pg_extension where extname = 'vector'), \
            (select default_version from pg_available_extensions where name = 'vector'), \
            exists (select from pg_namespace where nspname not like 'pg\\_%' and has_schema_privilege(oid, 'create'))";
        let mut session = self.session().await?;
        let describe = async {
            let rows = session.query(SERVER, &[]).await?;
            let row = rows.first().ok_or_else(|| DatabaseProblem::Malformed { reason: "no row".to_owned() })?;
            let (server, extension): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
            let Some(extension) = extension else {
                let message = match row.try_get::<_, Option<String>>(2)? {
                    Some(version) => extension_advice(&format!("version {version} is available")),
                    None => extension_advice("it is not installed on the server either: install pgvector there first"),
                };
                return Err(DatabaseProblem::ExtensionMissing { message }.into());
            };
            if !is_new_enough(&extension) {
                return Err(DatabaseProblem::TooOld { name: "pgvector", found: extension, needed: "0.8" }.into());
            }
            let version = format!("PostgreSQL {server}, pgvector {extension}");
            Ok(ServerDescription { version, can_create: row.try_get(3)? })
        };
        describe.await.map_err(|error: PgError| self.error(None, error))
    }

    async fn describe(&self, place: &CollectionPlace) -> Result<Option<CollectionDescription>, Error> {
        let mut session = self.session().await?;
        let describe = async {
            let name = TableName::read(&place.name)?;
            let Some(relation) = Relation::find(&mut session, &name).await? else { return Ok(None) };
            let vector = match &place.layout {
                RecordLayout::Filled => "vector",
                RecordLayout::Existing(fields) => &fields.vector,
            };
            if let RecordLayout::Existing(fields) = &place.layout
                && let Some(search) = &fields.text_search
            {
                // Fails if the server has no such configuration.
                session
                    .query(&format!("select to_tsvector({}, '')", table::regconfig(search.configuration())), &[])
                    .await?;
            }
            let rows = session.query(&format!("select count(*) from {}", name.sql()), &[]).await?;
            let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
            let mut dimensions = relation.declared_dimensions(vector);
            if dimensions.is_none() && relation.columns.get(vector).is_some_and(|kind| table::is_vector(kind)) {
                let column = table::quoted(vector);
                let sql =
                    format!("select vector_dims({column}) from {} where {column} is not null limit 1", name.sql());
                let rows = session.query(&sql, &[]).await?;
                dimensions =
                    rows.first().map(|row| row.try_get::<_, i32>(0)).transpose()?.map(|length| length as usize);
            }
            Ok(Some(CollectionDescription {
                rows: count.try_into().unwrap_or_default(),
                dimensions,
                search_index: relation.search_index(vector, place.metric()),
                manifest: relation.manifest()?,
                fields: relation.columns,
                key: relation.key,
                bytes: Some(relation.bytes),
                change_counter: relation.change_counter,
            }))
        };
        describe.await.map_err(|error: PgError| self.error(Some(&place.name), error))
    }

    async fn create(&self, place: &CollectionPlace, spec: &CollectionSpec) -> Result<(), Error> {
        self.create_table(place, spec).await.map_err(|error| self.error(Some(&place.name), error))
    }

    async fn write(&self, place: &CollectionPlace, records: &[IndexedRecord]) -> Result<(), Error> {
        if records.is_empty() {
            return Ok(());
        }
        for attempt in 1.. {
            match self.write_part(place, records).await {
                Err(PgError::Failure(failure))
                    if attempt < MAX_WRITES
                        && is_code(&failure, &[SqlState::UNIQUE_VIOLATION, SqlState::T_R_DEADLOCK_DETECTED]) => {}
                written => return written.map_err(|error| self.error(Some(&place.name), error)),
            }
        }
        Ok(())
    }

    async fn complete(
        &self,
        place: &CollectionPlace,
        spec: &CollectionSpec,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<(), Error> {
        let settings = SessionSettings { timeout: None, ..SessionSettings::new(self.access.settings.timeout) };
        let mut session = self.session_with(settings).await?;
        let at_once = Timeouts { wait: Some(Duration::ZERO), ..self.pool.timeouts() };
        let mut watcher = self.pool.timeout_get(&at_once).await.ok();
        let build = async {
            let name = TableName::read(&place.name)?;
            Self::own(&mut session, &name).await?.ok_or(DatabaseProblem::MissingCollection)?;
            build::build_index(&mut session, watcher.as_deref_mut(), &name, spec, progress).await?;
            self.shapes.lock().unwrap_or_else(PoisonError::into_inner).clear();
            Ok(())
        };
        build.await.map_err(|error: PgError| self.error(Some(&place.name), error))
    }

    async fn write_manifest(&self, place: &CollectionPlace, manifest: &IndexManifest) -> Result<(), Error> {
        let mut session = self.session().await?;
        let write = async {
            let name = TableName::read(&place.name)?;
            Self::own(&mut session, &name).await?.ok_or(DatabaseProblem::MissingCollection)?;
            let malformed = |error: serde_json::Error| DatabaseProblem::Malformed { reason: error.to_string() };
            Ok(session.run(&build::comment(&name, manifest).map_err(malformed)?).await?)
        };
        write.await.map_err(|error: PgError| self.error(Some(&place.name), error))
    }

    async fn search(
        &self,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, Error> {
        if let [query] = queries {
            return Ok(vec![self.search_one(place, query, options).await?]);
        }
        let searches: Vec<_> = queries.iter().map(|query| self.search_one(place, query, options)).collect();
        stream::iter(searches).buffered(self.access.settings.concurrency).try_collect().await
    }

    async fn search_text(&self, place: &CollectionPlace, query: &WordQuery<'_>) -> Result<FoundRecords, Error> {
        let mut session = self.session().await?;
        let found = self.find_text(&mut session, place, query).await;
        found.map_err(|error| self.error(Some(&place.name), error))
    }

    async fn read(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<Vec<Option<IndexedRecord>>, Error> {
        let filter = RecordFilter { ids: Some(ids.to_vec()), tests: BTreeMap::new() };
        let records = self.records(place, &filter, None).await?;
        let by_id: HashMap<String, IndexedRecord> =
            records.into_iter().map(|record| (record.id.to_string(), record)).collect();
        Ok(ids.iter().map(|id| by_id.get(&id.to_string()).cloned()).collect())
    }

    async fn first_records(
        &self,
        place: &CollectionPlace,
        filter: &RecordFilter,
        count: usize,
    ) -> Result<Vec<IndexedRecord>, Error> {
        self.records(place, filter, Some(count)).await
    }

    async fn count(&self, place: &CollectionPlace) -> Result<u64, Error> {
        let mut session = self.session().await?;
        let count = async {
            let table = self.shape(&mut session, place).await?;
            let condition = RowCondition::of(&table, None, 0)?;
            let rows =
                session.query(&format!("select count(*) from {} where {}", table.table(), condition.sql), &[]).await?;
            let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
            Ok::<_, PgError>(count.try_into().unwrap_or_default())
        };
        count.await.map_err(|error| self.error(Some(&place.name), error))
    }

    async fn delete(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<(), Error> {
        let mut session = self.session().await?;
        let delete = async {
            let name = TableName::read(&place.name)?;
            Self::own(&mut session, &name).await?.ok_or(DatabaseProblem::MissingCollection)?;
            let ids: Vec<i64> = ids.iter().filter_map(number).collect();
            session.query(&format!("delete from {} where id = any($1)", name.sql()), &[&ids]).await?;
            Ok::<_, PgError>(())
        };
        delete.await.map_err(|error| self.error(Some(&place.name), error))
    }

    async fn drop_collection(&self, place: &CollectionPlace, key: &str) -> Result<(), Error> {
        let mut session = self.session().await?;
        let drop_table = async {
            let name = TableName::read(&place.name)?;
            match Self::own(&mut session, &name).await? {
                None => Ok(()),
                Some((_, manifest)) if manifest.key == key => {
                    Ok(session.run(&format!("drop table {}", name.sql())).await?)
                }
                Some(_) => Err(PgError::Problem(DatabaseProblem::ForeignCollection)),
            }
        };
        let dropped = drop_table.await.map_err(|error| self.error(Some(&place.name), error));
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        dropped
    }

    async fn swap(&self, alias: &str, to: &CollectionPlace) -> Result<Option<String>, Error> {
        let mut session = self.session().await?;
        let swap = async {
            let (alias, target) = (TableName::read(alias)?, TableName::read(&to.name)?);
            self.point_alias(&mut session, &alias, &target).await
        };
        swap.await.map_err(|error| self.error(Some(alias), error))
    }

    async fn aliases(&self) -> Result<BTreeMap<String, String>, Error> {
        let found = self.with_comment(ALIAS).await?;
        Ok(found.into_iter().map(|(name, target)| (name.shown(), target)).collect())
    }

    async fn list(&self) -> Result<Vec<(CollectionPlace, IndexManifest)>, Error> {
        let found = self.with_comment(MANIFEST).await?;
        // One that a newer version of Reverie wrote is left alone.
        let readable = found.into_iter().filter_map(|(name, text)| Some((name, IndexManifest::read(&text).ok()?)));
        Ok(readable.map(|(name, manifest)| (CollectionPlace::filled(&name.shown()), manifest)).collect())
    }
}

impl PgvectorDatabase {
    /// Tables and views whose comment begins like this, with the rest of the comment.
    async fn with_comment(&self, beginning: &str) -> Result<Vec<(TableName, String)>, Error> {
        const COMMENTS: &str = "select n.nspname::text, c.relname::text, d.description from pg_description d \
            join pg_class c on c.oid = d.objoid and d.classoid = 'pg_class'::regclass and d.objsubid = 0 \
            join pg_namespace n on n.oid = c.relnamespace \
            where starts_with(d.description, $1) and c.relkind in ('r', 'v') order by 1, 2";
        let mut session = self.session().await?;
        let find = async {
            let mut found = Vec::new();
            for row in session.query(COMMENTS, &[&beginning]).await? {
                let (schema, table, comment): (String, String, String) =
                    (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                let rest = comment.strip_prefix(beginning).unwrap_or_default().to_owned();
                found.push((TableName { schema, table }, rest));
            }
            Ok::<_, PgError>(found)
        };
        find.await.map_err(|error| self.error(None, error))
    }
}

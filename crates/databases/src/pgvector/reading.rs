//! Searching and reading tables.

use super::{
    MAX_EF, MORE_ROWS, PgError, PgvectorDatabase,
    copy::QueryVector,
    search::{RowCondition, search_bits_sql, search_sql},
    session::{Parameter, PgFailure, PgSession, SessionSettings},
    table::TableShape,
};
use crate::{
    CollectionPlace, DatabaseProblem, DatabaseQuery, Error, FoundRecord, FoundRecords, IndexedRecord, RecordContent,
    RecordFilter, SearchOptions, record::rank,
};
use serde_json::{Map, Value};
use tokio_postgres::Row;

/// pgvector's own number of candidates.
const DEFAULT_EF: u32 = 40;

/// The rows that an index over bits finds, of which so many are returned.
fn near_rows(rows: usize, oversampling: Option<u32>) -> usize {
    let times = oversampling.map_or(1, |times| times.max(1) as usize);
    rows.saturating_mul(times).min(MAX_EF.max(rows))
}

impl PgvectorDatabase {
    pub(super) async fn search_one(
        &self,
        place: &CollectionPlace,
        query: &DatabaseQuery<'_>,
        options: &SearchOptions,
    ) -> Result<FoundRecords, Error> {
        let filter = query.filter.filter(|filter| !filter.is_empty());
        let rows = options.top + MORE_ROWS;
        let mut settings = SessionSettings::new(self.access.settings.timeout);
        // Of an index over bits, more rows are wanted than are returned.
        let near = near_rows(rows, options.oversampling);
        settings.ef = options.ef.unwrap_or(DEFAULT_EF).max(near.min(MAX_EF) as u32).min(MAX_EF as u32);
        settings.probes = options.probes.unwrap_or(settings.probes);
        settings.is_iterative = filter.is_some();
        let mut session = self.session_with(settings).await?;
        self.find(&mut session, place, query.vector, filter, options)
            .await
            .map_err(|error| self.error(Some(&place.name), error))
    }

    pub(super) async fn find(
        &self,
        session: &mut PgSession,
        place: &CollectionPlace,
        vector: &[f32],
        filter: Option<&RecordFilter>,
        options: &SearchOptions,
    ) -> Result<FoundRecords, PgError> {
        let table = self.shape(session, place).await?;
        if let Some(found) = table.dimensions.filter(|found| *found != vector.len()) {
            return Err(DatabaseProblem::Dimensions { expected: vector.len(), found }.into());
        }
        let condition = RowCondition::of(&table, filter, 1)?;
        let vector = QueryVector(vector);
        let parameters: Vec<Parameter<'_>> =
            std::iter::once(vector.parameter()).chain(condition.parameters()).collect();
        let rows = options.top + MORE_ROWS;
        let by_bits = table.has_bits || options.oversampling.is_some();
        let mut is_exact = options.exact
            || !(table.may_have_index || by_bits)
            || rows > MAX_EF
            || filter.is_some_and(|filter| filter.ids.is_some());
        let sql = |is_exact: bool| match by_bits && !is_exact {
            true => {
                let near = near_rows(rows, options.oversampling);
                search_bits_sql(&table, &condition, (rows, near), vector.0.len(), options.with_content)
            }
            false => search_sql(&table, &condition, rows, is_exact, options.with_content),
        };
        let mut found = session.query(&sql(is_exact), &parameters).await?;
        if !is_exact && found.len() < options.top {
            // The index stopped early; or there are no more, which only this tells.
            is_exact = true;
            found = session.query(&sql(true), &parameters).await?;
        }
        let found: Result<Vec<Option<FoundRecord>>, PgFailure> =
            found.iter().map(|row| found_record(&table, row, options.with_content)).collect();
        let mut records: Vec<FoundRecord> = found?.into_iter().flatten().collect();
        rank(&mut records, options.top);
        Ok(FoundRecords { records, is_exact, is_cut: false })
    }

    pub(super) async fn records(
        &self,
        place: &CollectionPlace,
        filter: &RecordFilter,
        count: Option<usize>,
    ) -> Result<Vec<IndexedRecord>, Error> {
        let mut session = self.session().await?;
        let read = async {
            let table = self.shape(&mut session, place).await?;
            let condition = RowCondition::of(&table, Some(filter), 0)?;
            let limit = count.map_or_else(String::new, |count| format!("limit {count}"));
            let sql = format!(
                "select {}, {}::real[], {}, {} from {} where {} order by {} {limit}",
                table.selected_id(),
                table.vector,
                table.text,
                table.fields,
                table.table(),
                condition.sql,
                table.id
            );
            let parameters: Vec<Parameter<'_>> = condition.parameters().collect();
            let rows = session.query(&sql, &parameters).await?;
            let records: Result<Vec<_>, PgFailure> = rows.iter().map(|row| indexed_record(&table, row)).collect();
            Ok::<_, PgError>(records?)
        };
        read.await.map_err(|error| self.error(Some(&place.name), error))
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Text and fields of a row of a search, which follow its id and its score ([`TableShape::content`]).
pub(super) fn content_of(row: &Row, with_content: bool) -> Result<Option<RecordContent>, PgFailure> {
    Ok(match with_content {
        true => Some(RecordContent { text: row.try_get(2)?, fields: object(row.try_get(3)?) }),
        false => None,
    })
}

/// A row of a search; none if it has no vector.
fn found_record(table: &TableShape, row: &Row, with_content: bool) -> Result<Option<FoundRecord>, PgFailure> {
    let Some(distance) = row.try_get::<_, Option<f64>>(1)?.filter(|distance| !distance.is_nan()) else {
        return Ok(None);
    };
    let content = content_of(row, with_content)?;
    Ok(Some(FoundRecord { id: table.id_in(row, 0)?, score: table.cosine(distance), content }))
}

fn indexed_record(table: &TableShape, row: &Row) -> Result<IndexedRecord, PgFailure> {
    Ok(IndexedRecord {
        id: table.id_in(row, 0)?,
        vector: row.try_get::<_, Option<Vec<f32>>>(1)?.unwrap_or_default(),
        text: row.try_get(2)?,
        fields: object(row.try_get(3)?),
    })
}

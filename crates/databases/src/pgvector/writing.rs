//! Making, writing and naming tables.

use super::{
    PgError, PgvectorDatabase, build, copy,
    session::{PgSession, is_code},
    table::{ALIAS, Relation, TableName, literal, number},
};
use crate::{
    CollectionPlace, CollectionSpec, DatabaseProblem, IndexedRecord, SearchIndexSpec, StoredPrecision,
    record::{check_records, null_character},
};
use tokio_postgres::error::SqlState;

/// More dimensions than an index of `vector` can have; one of `halfvec` has twice as many.
const MAX_INDEXED: usize = 2000;
/// The longest vector that pgvector stores.
const MAX_VECTOR: usize = 16_000;

impl PgvectorDatabase {
    pub(super) async fn write_part(&self, place: &CollectionPlace, records: &[IndexedRecord]) -> Result<(), PgError> {
        let mut session = self.session().await.map_err(|error| PgError::Problem(error.problem))?;
        let table = self.shape(&mut session, place).await?;
        let mut rows: Vec<(i64, &IndexedRecord)> = Vec::with_capacity(records.len());
        for record in records {
            let refuse = |reason| DatabaseProblem::InvalidRecord { id: record.id.clone(), reason };
            let id = number(&record.id).ok_or_else(|| refuse("its id is no number".to_owned()))?;
            if let Some(part) = null_character(record) {
                return Err(refuse(format!("{part} holds a null character, which PostgreSQL cannot store")).into());
            }
            rows.push((id, record));
        }
        check_records(records, table.dimensions.unwrap_or_default())?;
        let malformed =
            |error: Box<dyn std::error::Error + Send + Sync>| DatabaseProblem::Malformed { reason: error.to_string() };
        let pieces = copy::rows(&rows, table.is_half).map_err(malformed)?;
        let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
        session.begin().await?;
        let (name, first, last) = (table.table(), ids[0], ids[ids.len() - 1]);
        // A copy cannot overwrite.
        match ids.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
            true => session.query(&format!("delete from {name} where id between $1 and $2"), &[&first, &last]).await?,
            false => session.query(&format!("delete from {name} where id = any($1)"), &[&ids]).await?,
        };
        session.copy(&format!("copy {name} (id, vector, text, fields) from stdin binary"), pieces).await?;
        Ok(session.commit().await?)
    }

    pub(super) async fn create_table(&self, place: &CollectionPlace, spec: &CollectionSpec) -> Result<(), PgError> {
        let indexed = match spec.precision {
            StoredPrecision::F32 => MAX_INDEXED,
            StoredPrecision::F16 => MAX_INDEXED * 2,
            StoredPrecision::Binary => MAX_VECTOR,
            StoredPrecision::Int8 => {
                let reason = "pgvector has no index over 8 bits a number".to_owned();
                return Err(DatabaseProblem::InvalidSettings { reason }.into());
            }
        };
        if spec.index != SearchIndexSpec::Exact && spec.dimensions > indexed {
            let reason = format!(
                "an index of pgvector has at most {indexed} dimensions, and the vectors have {}; store them with 16 bits a number, index one bit a number, or make no index",
                spec.dimensions
            );
            return Err(DatabaseProblem::InvalidSettings { reason }.into());
        }
        let name = TableName::read(&place.name)?;
        let mut session = self.session().await.map_err(|error| PgError::Problem(error.problem))?;
        loop {
            if let Some((_, manifest)) = Self::own(&mut session, &name).await? {
                return match manifest.key == spec.key {
                    true => Ok(()),
                    false => Err(DatabaseProblem::ForeignCollection.into()),
                };
            }
            let malformed = |error: serde_json::Error| DatabaseProblem::Malformed { reason: error.to_string() };
            // One message with several statements is one transaction.
            match session.run(&build::create_table(&name, spec).map_err(malformed)?).await {
                // Another process made it just now.
                Err(failure) if is_code(&failure, &[SqlState::DUPLICATE_TABLE, SqlState::UNIQUE_VIOLATION]) => {}
                created => return Ok(created?),
            }
        }
    }

    pub(super) async fn point_alias(
        &self,
        session: &mut PgSession,
        alias: &TableName,
        target: &TableName,
    ) -> Result<Option<String>, PgError> {
        Self::own(session, target).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let previous = match Relation::find(session, alias).await? {
            None => None,
            Some(relation) => Some(relation.alias_of().ok_or(DatabaseProblem::ForeignCollection)?.to_owned()),
        };
        let view = format!(
            "view {} as select id, vector, text, fields from {}; comment on view {} is {}",
            alias.sql(),
            target.sql(),
            alias.sql(),
            literal(&format!("{ALIAS}{}", target.shown()))
        );
        // Each message with several statements is one transaction.
        match session.run(&format!("create or replace {view}")).await {
            // The vectors have another length than those before.
            Err(failure) if is_code(&failure, &[SqlState::INVALID_TABLE_DEFINITION]) => {
                session.run(&format!("drop view {}; create {view}", alias.sql())).await?;
            }
            replaced => replaced?,
        }
        Ok(previous)
    }
}

//! Searching texts by words: PostgreSQL's full-text search.

use super::{
    PgError, PgvectorDatabase,
    reading::content_of,
    search::RowCondition,
    session::{Parameter, PgFailure, PgSession},
    table::TableShape,
};
use crate::{CollectionPlace, DatabaseProblem, FoundRecord, FoundRecords, WordQuery, record::rank};
use tokio_postgres::Row;

/// The words of the text in the first parameter, of which a row must hold any: as the search language writes them.
const ANY_WORD: &str = "string_agg('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''', ' | ')";

impl PgvectorDatabase {
    /// The rows that hold any word of the text. The score is `ts_rank`, divided by 1 + the logarithm of the text's length. It
    /// does not weigh rare words more than common ones.
    pub(super) async fn find_text(
        &self,
        session: &mut PgSession,
        place: &CollectionPlace,
        query: &WordQuery<'_>,
    ) -> Result<FoundRecords, PgError> {
        let WordQuery { text, filter, top, with_content } = *query;
        let table = self.shape(session, place).await?;
        let unsupported = DatabaseProblem::Unsupported { what: "full-text search of a table without `text_search`" };
        let words = table.words.as_ref().ok_or(unsupported)?;
        let condition = RowCondition::of(&table, filter, 1)?;
        let content = table.content(with_content);
        let sql = format!(
            "select {id}, ts_rank({column}, reverie_asked.reverie_words, 1)::float8{content} from {table}, (select {ANY_WORD}::tsquery as reverie_words \
             from unnest(to_tsvector({language}, $1))) as reverie_asked where {column} @@ reverie_asked.reverie_words and {condition} order by 2 desc, \
             {key} limit {top}",
            id = table.selected_id(),
            column = words.column,
            language = words.language,
            table = table.table(),
            condition = condition.sql,
            key = table.id,
        );
        // PostgreSQL takes no text with a null character.
        let text = text.replace('\0', " ");
        let parameters: Vec<Parameter<'_>> =
            std::iter::once::<Parameter<'_>>(&text).chain(condition.parameters()).collect();
        let rows = session.query(&sql, &parameters).await?;
        let found: Result<Vec<FoundRecord>, PgFailure> =
            rows.iter().map(|row| found_by_words(&table, row, with_content)).collect();
        let mut records = found?;
        rank(&mut records, top);
        Ok(FoundRecords { records, is_exact: true, is_cut: false })
    }
}

fn found_by_words(table: &TableShape, row: &Row, with_content: bool) -> Result<FoundRecord, PgFailure> {
    let score = row.try_get::<_, f64>(1)? as f32;
    Ok(FoundRecord { id: table.id_in(row, 0)?, score, content: content_of(row, with_content)? })
}

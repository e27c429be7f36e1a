//! Tables: their names, columns, keys and indexes, as PostgreSQL's catalogue describes them.

use super::session::{PgFailure, PgSession};
use crate::{
    CollectionPlace, DatabaseProblem, IndexManifest, RecordId, RecordLayout, SearchIndexDescription, VectorMetric,
};
use std::collections::BTreeMap;
use tokio_postgres::Row;

/// The comment of a table that Reverie fills begins with this; the manifest follows.
pub(super) const MANIFEST: &str = "Reverie's index: ";
/// The comment of a view that is an alias begins with this; the name of the table follows.
pub(super) const ALIAS: &str = "Reverie's alias of: ";
/// The schema of a name without one.
const DEFAULT_SCHEMA: &str = "public";
/// PostgreSQL cuts longer names.
const MAX_NAME: usize = 63;

/// A name of a table or view, with its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableName {
    pub(super) schema: String,
    pub(super) table: String,
}

impl TableName {
    /// Reads `table`, `schema.table`, or either part in double quotes. Letters keep their case.
    pub(super) fn read(name: &str) -> Result<Self, DatabaseProblem> {
        let mut parts = vec![String::new()];
        let mut is_quoted = false;
        for character in name.chars() {
            match character {
                '"' => is_quoted = !is_quoted,
                '.' if !is_quoted => parts.push(String::new()),
                character => parts.last_mut().into_iter().for_each(|part| part.push(character)),
            }
        }
        let refuse =
            |reason: &str| Err(DatabaseProblem::InvalidSettings { reason: format!("the name {name:?} {reason}") });
        if parts.iter().any(|part| part.is_empty() || part.contains('\0')) {
            return refuse("has an empty part or a null character");
        }
        if parts.iter().any(|part| part.len() > MAX_NAME) {
            return refuse("is longer than the 63 bytes that PostgreSQL allows");
        }
        match <[String; 2]>::try_from(parts) {
            Ok([schema, table]) => Ok(Self { schema, table }),
            Err(parts) => match <[String; 1]>::try_from(parts) {
                Ok([table]) => Ok(Self { schema: DEFAULT_SCHEMA.to_owned(), table }),
                Err(_) => refuse("has more than two parts"),
            },
        }
    }

    /// As SQL.
    pub(super) fn sql(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.table))
    }

    /// As a place has it: with the schema, if it is not the default.
    pub(super) fn shown(&self) -> String {
        let part = |name: &str| if name.contains('.') { quoted(name) } else { name.to_owned() };
        match self.schema == DEFAULT_SCHEMA {
            true => part(&self.table),
            false => format!("{}.{}", part(&self.schema), part(&self.table)),
        }
    }

    /// The name of the search index of a table that Reverie fills, without its schema.
    pub(super) fn search_index(&self) -> String {
        quoted(&format!("{}_search", self.table.chars().take(48).collect::<String>()))
    }
}

/// An identifier in SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A text search configuration in SQL.
pub(super) fn regconfig(language: &str) -> String {
    format!("{}::regconfig", literal(language))
}

/// What the catalogue says about a table or view.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) name: TableName,
    oid: u32,
    pub(super) is_view: bool,
    comment: Option<String>,
    /// Types by column.
    pub(super) columns: BTreeMap<String, String>,
    /// Declared lengths of vectors by column.
    dimensions: BTreeMap<String, usize>,
    pub(super) key: Option<String>,
    pub(super) bytes: u64,
    pub(super) change_counter: Option<String>,
    indexes: Vec<VectorIndex>,
}

/// An index of a column of vectors.
#[derive(Debug)]
struct VectorIndex {
    column: String,
    /// Whether it is over the bits of the vectors, of which the nearest are compared by any metric.
    has_bits: bool,
    description: SearchIndexDescription,
}

impl Relation {
    /// Looks a table or view up; none if there is none.
    pub(super) async fn find(session: &mut PgSession, name: &TableName) -> Result<Option<Self>, PgFailure> {
        const RELATION: &str = "select c.oid, c.relkind::text, obj_description(c.oid, 'pg_class'), \
            pg_total_relation_size(c.oid), pg_relation_filenode(c.oid)::bigint, pg_stat_get_tuples_inserted(c.oid), \
            pg_stat_get_tuples_updated(c.oid), pg_stat_get_tuples_deleted(c.oid) \
            from pg_class c join pg_namespace n on n.oid = c.relnamespace \
            where n.nspname = $1 and c.relname = $2 and c.relkind in ('r', 'p', 'v', 'm', 'f')";
        let found = session.query(RELATION, &[&name.schema, &name.table]).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let kind: &str = row.try_get(1)?;
        let changes: Vec<Option<i64>> = (4..8).map(|column| row.try_get(column)).collect::<Result<_, _>>()?;
        let counted: Vec<String> = changes.iter().flatten().map(i64::to_string).collect();
        let mut relation = Self {
            name: name.clone(),
            oid: row.try_get(0)?,
            is_view: kind == "v",
            comment: row.try_get(2)?,
            columns: BTreeMap::new(),
            dimensions: BTreeMap::new(),
            key: None,
            bytes: row.try_get::<_, Option<i64>>(3)?.and_then(|bytes| bytes.try_into().ok()).unwrap_or_default(),
            change_counter: (kind == "r" && counted.len() == changes.len()).then(|| counted.join("/")),
            indexes: Vec::new(),
        };
        relation.add_columns(session).await?;
        relation.add_indexes(session).await?;
        Ok(Some(relation))
    }

    async fn add_columns(&mut self, session: &mut PgSession) -> Result<(), PgFailure> {
        const COLUMNS: &str = "select a.attname::text, format_type(a.atttypid, null), a.atttypmod from pg_attribute a \
            where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped";
        for row in session.query(COLUMNS, &[&self.oid]).await? {
            let (column, kind, modifier): (String, String, i32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            // With its schema, if that is not in the search path.
            let kind = kind.rsplit_once('.').map_or(kind.as_str(), |(_, kind)| kind).to_owned();
            if let Ok(declared @ 1..) = usize::try_from(modifier)
                && is_vector(&kind)
            {
                self.dimensions.insert(column.clone(), declared);
            }
            self.columns.insert(column, kind);
        }
        Ok(())
    }

    async fn add_indexes(&mut self, session: &mut PgSession) -> Result<(), PgFailure> {
        const INDEXES: &str = "select a.attname::text, am.amname::text, oc.opcname::text, x.indisvalid and x.indisready, \
            pg_relation_size(x.indexrelid), x.indisunique and x.indnatts = 1 and a.attnotnull and x.indpred is null, x.indisprimary \
            from pg_index x join pg_class i on i.oid = x.indexrelid join pg_am am on am.oid = i.relam \
            join pg_opclass oc on oc.oid = x.indclass[0] \
            join pg_attribute a on a.attrelid = x.indrelid and a.attnum = x.indkey[0] \
            where x.indrelid = $1 order by x.indisprimary desc, x.indexrelid";
        for row in session.query(INDEXES, &[&self.oid]).await? {
            let (column, kind, class): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if self.key.is_none() && row.try_get::<_, bool>(5)? {
                self.key = Some(column.clone());
            }
            let metric = match () {
                () if class.ends_with("_cosine_ops") => VectorMetric::Cosine,
                () if class.ends_with("_ip_ops") => VectorMetric::InnerProduct,
                () if class.ends_with("_l2_ops") => VectorMetric::Euclidean,
                () => continue,
            };
            let bytes = row.try_get::<_, i64>(4)?.try_into().ok();
            let description = SearchIndexDescription { kind, metric, is_ready: row.try_get(3)?, bytes };
            self.indexes.push(VectorIndex { column, has_bits: false, description });
        }
        const OVER_BITS: &str = "select a.attname::text, am.amname::text, x.indisvalid and x.indisready, \
            pg_relation_size(x.indexrelid) from pg_index x join pg_class i on i.oid = x.indexrelid \
            join pg_am am on am.oid = i.relam join pg_opclass oc on oc.oid = x.indclass[0] \
            join pg_attribute a on a.attrelid = x.indrelid and a.attnum > 0 \
            where x.indrelid = $1 and x.indkey[0] = 0 and oc.opcname = 'bit_hamming_ops' and x.indpred is null \
            and strpos(pg_get_indexdef(x.indexrelid), 'binary_quantize(' || quote_ident(a.attname) || ')') > 0";
        for row in session.query(OVER_BITS, &[&self.oid]).await? {
            let (column, kind): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let bytes = row.try_get::<_, i64>(3)?.try_into().ok();
            let (metric, is_ready) = (VectorMetric::Cosine, row.try_get(2)?);
            let description = SearchIndexDescription { kind, metric, is_ready, bytes };
            self.indexes.push(VectorIndex { column, has_bits: true, description });
        }
        Ok(())
    }

    /// The manifest, if Reverie fills the table.
    pub(super) fn manifest(&self) -> Result<Option<IndexManifest>, DatabaseProblem> {
        let text = self.comment.as_deref().and_then(|comment| comment.strip_prefix(MANIFEST));
        text.filter(|_| !self.is_view).map(IndexManifest::read).transpose()
    }

    /// The table to which it points, if it is an alias of Reverie's.
    pub(super) fn alias_of(&self) -> Option<&str> {
        self.comment.as_deref().filter(|_| self.is_view)?.strip_prefix(ALIAS)
    }

    /// The index of a column: one of this metric, if there are several. One over bits serves every metric.
    pub(super) fn search_index(&self, column: &str, metric: VectorMetric) -> Option<SearchIndexDescription> {
        let index = self.vector_index(column, metric)?;
        let metric = if index.has_bits { metric } else { index.description.metric };
        Some(SearchIndexDescription { metric, ..index.description.clone() })
    }

    fn vector_index(&self, column: &str, metric: VectorMetric) -> Option<&VectorIndex> {
        let of_column = self.indexes.iter().filter(|index| index.column == column);
        let is_other = |index: &VectorIndex| !index.has_bits && index.description.metric != metric;
        of_column.min_by_key(|index| (is_other(index), index.has_bits, !index.description.is_ready))
    }

    /// Whether the index of a column is over the bits of its vectors.
    fn has_bits(&self, column: &str, metric: VectorMetric) -> bool {
        self.vector_index(column, metric).is_some_and(|index| index.has_bits)
    }

    /// The declared length of the vectors in a column.
    pub(super) fn declared_dimensions(&self, column: &str) -> Option<usize> {
        self.dimensions.get(column).copied()
    }
}

pub(super) fn is_vector(kind: &str) -> bool {
    matches!(kind, "vector" | "halfvec")
}

/// How the texts of a table are searched by words, as SQL.
#[derive(Debug)]
pub(super) struct TableWords {
    /// The words of a row's text.
    pub(super) column: String,
    /// The text search configuration.
    pub(super) language: String,
}

/// How the records of a table are read, as SQL.
#[derive(Debug)]
pub(super) struct TableShape {
    pub(super) name: TableName,
    pub(super) metric: VectorMetric,
    /// Whether searches may use an index. A view may have one below.
    pub(super) may_have_index: bool,
    /// Whether the index is over the bits of the vectors.
    pub(super) has_bits: bool,
    pub(super) dimensions: Option<usize>,
    pub(super) is_half: bool,
    /// The columns, in SQL.
    pub(super) id: String,
    pub(super) vector: String,
    pub(super) text: String,
    /// All fields as one JSON object.
    pub(super) fields: String,
    /// The condition of the user's own that all records meet.
    pub(super) condition: Option<String>,
    /// How texts are searched by words.
    pub(super) words: Option<TableWords>,
    id_type: String,
    layout: RecordLayout,
    columns: BTreeMap<String, String>,
}

impl TableShape {
    /// Fails if a column that the place names is not there, or no column tells rows apart.
    pub(super) fn of(relation: &Relation, place: &CollectionPlace) -> Result<Self, DatabaseProblem> {
        let column = |name: &str| match relation.columns.get_key_value(name) {
            Some((name, kind)) => Ok((quoted(name), kind.clone())),
            None => Err(DatabaseProblem::MissingField {
                field: name.to_owned(),
                known: relation.columns.keys().cloned().collect(),
            }),
        };
        let (id, vector, text, condition) = match &place.layout {
            RecordLayout::Filled => ("id".to_owned(), "vector", Some("text"), None),
            RecordLayout::Existing(fields) => {
                let id = fields.id.clone().or_else(|| relation.key.clone()).ok_or(DatabaseProblem::NoKey)?;
                (id, fields.vector.as_str(), fields.text.as_deref(), fields.condition.clone())
            }
        };
        let index = relation.search_index(vector, place.metric());
        let has_bits = relation.has_bits(vector, place.metric());
        // An alias may point to another table a moment later.
        let dimensions = relation.declared_dimensions(vector).filter(|_| !relation.is_view);
        let (id, id_type) = column(&id)?;
        let (vector, kind) = column(vector)?;
        if !is_vector(&kind) {
            return Err(DatabaseProblem::InvalidSettings {
                reason: format!("the column {vector} is of the type {kind}; vectors are of the type vector or halfvec"),
            });
        }
        let text = match text {
            Some(text) => format!("coalesce({}::text, '')", column(text)?.0),
            None => "''".to_owned(),
        };
        let mut shape = Self {
            name: relation.name.clone(),
            metric: place.metric(),
            may_have_index: relation.is_view || index.is_some_and(|index| index.metric == place.metric()),
            has_bits,
            dimensions,
            is_half: kind == "halfvec",
            id,
            vector,
            text,
            fields: "fields".to_owned(),
            condition,
            words: None,
            id_type,
            layout: place.layout.clone(),
            columns: relation.columns.clone(),
        };
        if let RecordLayout::Existing(fields) = &place.layout {
            if let Some(search) = &fields.text_search {
                let language = regconfig(search.configuration());
                let words = match &search.words {
                    None => format!("to_tsvector({language}, {})", shape.text),
                    Some(named) => {
                        let (column, kind) = column(named)?;
                        if kind != "tsvector" {
                            let reason =
                                format!("the column {column} is of the type {kind}; words are of the type tsvector");
                            return Err(DatabaseProblem::InvalidSettings { reason });
                        }
                        column
                    }
                };
                shape.words = Some(TableWords { column: words, language });
            }
            let mapped: Result<Vec<String>, _> =
                fields.fields.keys().map(|field| Ok(format!("{}, {}", literal(field), shape.field(field)?))).collect();
            let own = format!("jsonb_strip_nulls(jsonb_build_object({}))", mapped?.join(", "));
            shape.fields = match &fields.metadata {
                None => own,
                Some(metadata) => {
                    let metadata = format!("to_jsonb({})", column(metadata)?.0);
                    format!("(case when jsonb_typeof({metadata}) = 'object' then {metadata} else '{{}}' end || {own})")
                }
            };
        }
        Ok(shape)
    }

    /// Text and fields as further columns of a search, in SQL.
    pub(super) fn content(&self, with_content: bool) -> String {
        match with_content {
            true => format!(", {}, {}", self.text, self.fields),
            false => String::new(),
        }
    }

    /// The table in SQL.
    pub(super) fn table(&self) -> String {
        self.name.sql()
    }

    /// A field as JSON, in SQL; null if a record does not have it.
    pub(super) fn field(&self, field: &str) -> Result<String, DatabaseProblem> {
        let unknown =
            |field: &str, known: Vec<String>| DatabaseProblem::MissingField { field: field.to_owned(), known };
        let fields = match &self.layout {
            RecordLayout::Filled => return Ok(format!("(fields -> {})", literal(field))),
            RecordLayout::Existing(fields) => fields,
        };
        let Some(column) = fields.fields.get(field) else {
            let Some(metadata) = &fields.metadata else {
                return Err(unknown(field, fields.fields.keys().cloned().collect()));
            };
            return Ok(format!("(to_jsonb({}) -> {})", quoted(metadata), literal(field)));
        };
        if self.columns.contains_key(column) {
            return Ok(format!("to_jsonb({})", quoted(column)));
        }
        match column.split_once('.') {
            Some((first, path)) if self.columns.contains_key(first) => {
                let path: Vec<String> = path.split('.').map(literal).collect();
                Ok(format!("(to_jsonb({}) #> array[{}])", quoted(first), path.join(", ")))
            }
            _ => Err(unknown(column, self.columns.keys().cloned().collect())),
        }
    }

    /// The column of a field, if it is one of texts.
    pub(super) fn text_column(&self, field: &str) -> Option<String> {
        let RecordLayout::Existing(fields) = &self.layout else { return None };
        let column = fields.fields.get(field)?;
        let is_text = matches!(self.columns.get(column)?.as_str(), "text" | "character varying");
        is_text.then(|| quoted(column))
    }

    fn has_numbers(&self) -> bool {
        matches!(self.id_type.as_str(), "bigint" | "integer" | "smallint")
    }

    /// The id as it is selected: a number or a text.
    pub(super) fn selected_id(&self) -> String {
        let kind = if self.has_numbers() { "bigint" } else { "text" };
        format!("{}::{kind}", self.id)
    }

    /// The id in this column of a row.
    pub(super) fn id_in(&self, row: &Row, column: usize) -> Result<RecordId, PgFailure> {
        Ok(match self.has_numbers() {
            true => {
                let id: i64 = row.try_get(column)?;
                u64::try_from(id).map_or_else(|_| RecordId::Text(id.to_string()), RecordId::Number)
            }
            false => RecordId::Text(row.try_get(column)?),
        })
    }

    /// Ids as the parameter of [`TableShape::id_condition`]. Ids that no row can have are left out.
    pub(super) fn id_parameter(&self, ids: &[RecordId]) -> IdParameter {
        match self.has_numbers() {
            true => IdParameter::Numbers(ids.iter().filter_map(number).collect()),
            false => IdParameter::Texts(ids.iter().map(RecordId::to_string).filter(|id| !id.contains('\0')).collect()),
        }
    }

    /// Whether the id of a row is in the parameter of this number.
    pub(super) fn id_condition(&self, parameter: usize) -> String {
        match self.has_numbers() {
            true => format!("{} = any(${parameter}::bigint[])", self.id),
            false => format!("{} = any(${parameter}::text[]::{}[])", self.id, self.id_type),
        }
    }

    /// The distance to the vector in the first parameter, in SQL.
    pub(super) fn distance(&self) -> String {
        let operator = match self.metric {
            VectorMetric::Cosine => "<=>",
            VectorMetric::InnerProduct => "<#>",
            VectorMetric::Euclidean => "<->",
        };
        format!("{} {operator} $1", self.vector)
    }

    /// The cosine that a distance stands for, between vectors of length 1.
    pub(super) fn cosine(&self, distance: f64) -> f32 {
        (match self.metric {
            VectorMetric::Cosine => 1.0 - distance,
            // pgvector's operator gives the negative product, because indexes find the smallest values.
            VectorMetric::InnerProduct => -distance,
            VectorMetric::Euclidean => 1.0 - distance * distance / 2.0,
        }) as f32
    }
}

/// Ids as a parameter.
pub(super) enum IdParameter {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

/// An id of a table with numbers.
pub(super) fn number(id: &RecordId) -> Option<i64> {
    match id {
        RecordId::Number(number) => (*number).try_into().ok(),
        RecordId::Text(text) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::TableName;

    #[test]
    fn names_have_a_schema_and_keep_their_letters() {
        for (name, sql, shown) in [
            ("docs", "\"public\".\"docs\"", "docs"),
            ("public.docs", "\"public\".\"docs\"", "docs"),
            ("Team.Docs", "\"Team\".\"Docs\"", "Team.Docs"),
            ("\"a.b\".c\"\"d", "\"a.b\".\"cd\"", "\"a.b\".cd"),
        ] {
            let read = TableName::read(name).unwrap();
            assert_eq!((read.sql().as_str(), read.shown().as_str()), (sql, shown));
        }
        for name in ["", "a.", "a.b.c", &"x".repeat(64)] {
            assert!(TableName::read(name).is_err(), "{name}");
        }
    }
}

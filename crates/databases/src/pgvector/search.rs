//! The SQL of searches and filters.

use super::table::{IdParameter, TableShape, literal};
use crate::{
    DatabaseProblem, FieldTest, RecordFilter, ScalarValue,
    filter::{BoundKind, FieldBounds},
};
use tokio_postgres::types::ToSql;

/// A condition on rows, with its parameters.
pub(super) struct RowCondition {
    /// In SQL.
    pub(super) sql: String,
    parameters: Vec<Box<dyn ToSql + Sync + Send>>,
    /// Parameters of the statement before these.
    before: usize,
}

impl RowCondition {
    /// That a row passes the filter and the condition of the user's own. `before`: the number of parameters that the
    /// statement has before those of the condition.
    pub(super) fn of(
        table: &TableShape,
        filter: Option<&RecordFilter>,
        before: usize,
    ) -> Result<Self, DatabaseProblem> {
        let mut condition = Self { sql: String::new(), parameters: Vec::new(), before };
        let mut all: Vec<String> = table.condition.iter().map(|own| format!("({own})")).collect();
        if let Some(ids) = filter.and_then(|filter| filter.ids.as_ref()) {
            let parameter = match table.id_parameter(ids) {
                IdParameter::Numbers(ids) => condition.add(ids),
                IdParameter::Texts(ids) => condition.add(ids),
            };
            all.push(table.id_condition(parameter));
        }
        for (field, test) in filter.into_iter().flat_map(|filter| &filter.tests) {
            all.push(condition.test(table, field, test)?);
        }
        condition.sql = if all.is_empty() { "true".to_owned() } else { all.join(" and ") };
        Ok(condition)
    }

    /// The parameters after those before.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &(dyn ToSql + Sync)> {
        self.parameters.iter().map(|parameter| -> &(dyn ToSql + Sync) { &**parameter })
    }

    /// Adds a parameter and returns its number.
    fn add(&mut self, parameter: impl ToSql + Sync + Send + 'static) -> usize {
        self.parameters.push(Box::new(parameter));
        self.before + self.parameters.len()
    }

    fn test(&mut self, table: &TableShape, field: &str, test: &FieldTest) -> Result<String, DatabaseProblem> {
        if field.contains('\0') {
            return Ok("false".to_owned());
        }
        if let (Some(column), Some(texts)) = (table.text_column(field), only_texts(test)) {
            let texts = self.add(texts);
            return Ok(format!("{column} = any(${texts}::text[])"));
        }
        let value = table.field(field)?;
        let holds = match test {
            FieldTest::OneOf(wanted) => self.one_of(wanted),
            FieldTest::Within(bounds) => self.within(bounds),
        };
        Ok(format!(
            "({value} is not null and exists (select from jsonb_array_elements(case when jsonb_typeof({value}) = 'array' \
             then {value} else jsonb_build_array({value}) end) as items(item) where {holds}))"
        ))
    }

    /// That an item equals one of these values.
    fn one_of(&mut self, wanted: &[ScalarValue]) -> String {
        let (mut texts, mut numbers, mut flags) = (Vec::new(), Vec::new(), Vec::new());
        for value in wanted {
            match value {
                // PostgreSQL stores no text with a null character.
                ScalarValue::Text(text) if text.contains('\0') => {}
                ScalarValue::Text(text) => texts.push(text.clone()),
                ScalarValue::Number(number) => numbers.push(*number),
                ScalarValue::Bool(flag) => flags.push(*flag),
            }
        }
        let mut any = Vec::new();
        if !texts.is_empty() {
            let texts = self.add(texts);
            any.push(of_type("string", &format!("(item #>> '{{}}') = any(${texts}::text[])")));
        }
        if !numbers.is_empty() {
            let numbers = self.add(numbers);
            any.push(of_type("number", &format!("item::float8 = any(${numbers}::float8[])")));
        }
        if !flags.is_empty() {
            let flags = self.add(flags);
            any.push(of_type("boolean", &format!("item::boolean = any(${flags}::boolean[])")));
        }
        if any.is_empty() { "false".to_owned() } else { format!("({})", any.join(" or ")) }
    }

    /// That an item is within all bounds.
    fn within(&mut self, bounds: &FieldBounds) -> String {
        let all: Vec<String> = bounds.each().map(|(kind, value)| self.bound(kind, value)).collect();
        if all.is_empty() { "true".to_owned() } else { all.join(" and ") }
    }

    fn bound(&mut self, kind: BoundKind, value: &ScalarValue) -> String {
        let operator = |kind| match kind {
            BoundKind::More => ">",
            BoundKind::AtLeast => ">=",
            BoundKind::Less => "<",
            BoundKind::AtMost => "<=",
            BoundKind::Not => "<>",
        };
        let (name, item, kind, parameter) = match value {
            ScalarValue::Text(text) => {
                let (kind, text) = match (text.split_once('\0'), kind) {
                    (None, kind) => (kind, text.clone()),
                    (Some(_), BoundKind::Not) => return "true".to_owned(),
                    // Stored texts have no null character, so that the text before it is what they compare with.
                    (Some((before, _)), BoundKind::More | BoundKind::AtLeast) => (BoundKind::More, before.to_owned()),
                    (Some((before, _)), BoundKind::Less | BoundKind::AtMost) => (BoundKind::AtMost, before.to_owned()),
                };
                ("string", "(item #>> '{}') collate \"C\"", kind, self.add(text))
            }
            ScalarValue::Number(number) => ("number", "item::float8", kind, self.add(*number)),
            ScalarValue::Bool(flag) => ("boolean", "item::boolean", kind, self.add(*flag)),
        };
        let compared = format!("{item} {} ${parameter}", operator(kind));
        match kind {
            BoundKind::Not => format!("case when jsonb_typeof(item) = {} then {compared} else true end", literal(name)),
            _ => of_type(name, &compared),
        }
    }
}

/// That an item has this type and this holds. `case` keeps PostgreSQL from casting items of other types.
fn of_type(name: &str, holds: &str) -> String {
    format!("case when jsonb_typeof(item) = {} then {holds} else false end", literal(name))
}

/// The texts of a test for equality that has only texts.
fn only_texts(test: &FieldTest) -> Option<Vec<String>> {
    let FieldTest::OneOf(wanted) = test else { return None };
    let mut texts = Vec::new();
    for value in wanted {
        match value {
            ScalarValue::Text(text) if text.contains('\0') => {}
            ScalarValue::Text(text) => texts.push(text.clone()),
            ScalarValue::Number(_) | ScalarValue::Bool(_) => return None,
        }
    }
    Some(texts)
}

/// One bit for each number of a vector: whether it is positive. As an index over it is declared.
pub(super) fn bits_of(column: &str, dimensions: usize) -> String {
    format!("binary_quantize({column})::bit({dimensions})")
}

/// The statement of a search through an index over the bits of the vectors ([`bits_of`]): of the `near` rows whose bits
/// differ least, the nearest by their vectors.
pub(super) fn search_bits_sql(
    table: &TableShape,
    condition: &RowCondition,
    (rows, near): (usize, usize),
    dimensions: usize,
    with_content: bool,
) -> String {
    let kind = if table.is_half { "halfvec" } else { "vector" };
    let content = table.content(with_content);
    format!(
        "select {}, {}{content} from (select * from {} where {} order by {} <~> binary_quantize($1::{kind}) limit {near}) as near \
         order by 2 limit {rows}",
        table.selected_id(),
        table.distance(),
        table.table(),
        condition.sql,
        bits_of(&table.vector, dimensions),
    )
}

/// The statement of a search. The vector is its first parameter. The number of rows is part of the text: the planner
/// would not use the index for an unknown number.
pub(super) fn search_sql(
    table: &TableShape,
    condition: &RowCondition,
    rows: usize,
    is_exact: bool,
    with_content: bool,
) -> String {
    let distance = table.distance();
    let content = table.content(with_content);
    // No index has the sum.
    let order = if is_exact { format!("({distance}) + 0") } else { distance.clone() };
    format!(
        "select {}, {distance}{content} from {} where {} order by {order} limit {rows}",
        table.selected_id(),
        table.table(),
        condition.sql
    )
}

//! The fields of chunks as columns, and the entries that pass filters on them.
//!
//! A field of the metadata is the same for all chunks of a group, so its column holds a number for each group: the
//! place of its value among the different values. A condition is tried once for each value.

use super::{ChunkTable, chunk::read_metadata};
use crate::{Error, Filter, filter::Matcher, types::Metadata};
use foldhash::{HashMap, HashMapExt};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

/// The filters whose entries are kept.
const MAX_FILTERS: usize = 32;
/// The fields that every chunk has, besides the metadata of its document.
const OWN_FIELDS: [&str; 4] = ["path", "title", "page", "heading"];
/// Stands for a group without a value.
const NO_VALUE: u32 = u32::MAX;

/// The entries of a table's indexes that pass a filter, a bit for each entry.
#[derive(Debug)]
pub(crate) struct FilteredEntries {
    bits: Vec<u64>,
    /// How many entries the table has.
    all: usize,
    passing: usize,
}

impl FilteredEntries {
    fn new(all: usize) -> Self {
        Self { bits: vec![0; all.div_ceil(64)], all, passing: 0 }
    }

    /// Adds an entry that was not added yet.
    fn push(&mut self, entry: usize) {
        self.bits[entry / 64] |= 1 << (entry % 64);
        self.passing += 1;
    }

    /// Whether an entry passes.
    pub(crate) fn has(&self, entry: u32) -> bool {
        self.bits[entry as usize / 64] >> (entry % 64) & 1 == 1
    }

    /// How many entries pass.
    pub(crate) fn passing(&self) -> usize {
        self.passing
    }

    /// How many entries there are.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// The entries that pass, in order.
    pub(crate) fn entries(&self) -> Vec<u32> {
        let mut entries = Vec::with_capacity(self.passing);
        for (place, &word) in self.bits.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                entries.push(place as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        entries
    }
}

/// The values of a field of the metadata.
#[derive(Debug)]
struct FieldColumn {
    /// The different values.
    values: Vec<Value>,
    /// For each group, the place of its value; [`NO_VALUE`] if it has none.
    places: Vec<u32>,
}

impl FieldColumn {
    fn of(table: &ChunkTable, field: &str) -> Self {
        let (mut values, mut known): (Vec<Value>, HashMap<String, u32>) = (Vec::new(), HashMap::new());
        let place = |group: usize| {
            let Some(value) = metadata(table, group).remove(field) else { return NO_VALUE };
            *known.entry(value.to_string()).or_insert_with(|| {
                values.push(value);
                values.len() as u32 - 1
            })
        };
        let places = (0..table.parts.groups).map(place).collect();
        Self { values, places }
    }
}

/// The columns that filters have used, and the entries that passed the most recent filters.
#[derive(Debug, Default)]
pub(super) struct FilterCache {
    columns: Mutex<BTreeMap<String, Arc<FieldColumn>>>,
    passing: Mutex<Vec<(Filter, Arc<FilteredEntries>)>>,
}

impl FilterCache {
    pub(super) fn entries(&self, table: &ChunkTable, filter: &Filter) -> Result<Arc<FilteredEntries>, Error> {
        let known = || self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, passing)) = known().iter().find(|(known, _)| known == filter) {
            return Ok(passing.clone());
        }
        let passing = Arc::new(self.find(table, filter)?);
        let mut known = known();
        if known.len() >= MAX_FILTERS {
            known.remove(0);
        }
        known.push((filter.clone(), passing.clone()));
        Ok(passing)
    }

    fn find(&self, table: &ChunkTable, filter: &Filter) -> Result<FilteredEntries, Error> {
        let tests: Vec<TestedField<'_>> =
            filter.matchers().map(|(field, test)| self.test(table, field, test)).collect();
        let mut passing = FilteredEntries::new(table.searchable.len());
        // For each test, whether some searchable chunk has its field.
        let mut has_field = vec![false; tests.len()];
        for (entry, &row) in table.searchable.iter().enumerate() {
            let mut passes = true;
            for (test, has_field) in tests.iter().zip(&mut has_field) {
                let found = test.try_row(table, row as usize);
                *has_field |= found.is_some();
                passes &= found == Some(true);
            }
            if passes {
                passing.push(entry);
            }
        }
        match tests.iter().zip(&has_field).find(|(_, has_field)| !**has_field) {
            Some((test, _)) if passing.all > 0 => {
                let (field, fields) = (test.field, fields(table).join(", "));
                let reason = format!("no document has the field `{field}`; there are {fields}");
                Err(Error::Config { component: "filter", reason })
            }
            _ => Ok(passing),
        }
    }

    fn test<'f>(&self, table: &ChunkTable, field: &'f str, matcher: Matcher<'f>) -> TestedField<'f> {
        let by_group = |value: &dyn Fn(usize) -> Option<Value>| {
            let result = |group: usize| value(group).map(|value| matcher.matches(&value));
            TestResults::ByGroup((0..table.parts.groups).map(result).collect())
        };
        let group = |group: usize| table.parts.group(table.bytes.all(), group);
        let results = match field {
            "path" => by_group(&|place| Some(group(place).document.into())),
            "title" => by_group(&|place| group(place).book.map(Value::from)),
            "page" | "heading" => TestResults::ByRow(matcher),
            _ => {
                let column = self.column(table, field);
                let found: Vec<bool> = column.values.iter().map(|value| matcher.matches(value)).collect();
                let of_place = |&place: &u32| found.get(place as usize).copied();
                TestResults::ByGroup(column.places.iter().map(of_place).collect())
            }
        };
        TestedField { field, results }
    }

    fn column(&self, table: &ChunkTable, field: &str) -> Arc<FieldColumn> {
        let known = || self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(column) = known().get(field) {
            return column.clone();
        }
        let column = Arc::new(FieldColumn::of(table, field));
        known().insert(field.to_owned(), column.clone());
        column
    }
}

/// A condition of a filter with its results.
struct TestedField<'f> {
    field: &'f str,
    results: TestResults<'f>,
}

/// Where the results of a condition are found.
enum TestResults<'f> {
    /// For each group; none if it does not have the field.
    ByGroup(Vec<Option<bool>>),
    /// The field differs from chunk to chunk, and is tried when a chunk is looked at.
    ByRow(Matcher<'f>),
}

impl TestedField<'_> {
    /// Whether the chunk of a row meets the condition; none if it does not have the field.
    fn try_row(&self, table: &ChunkTable, row: usize) -> Option<bool> {
        let bytes = table.bytes.all();
        match &self.results {
            TestResults::ByGroup(results) => results[table.parts.group_of_row(bytes, row)],
            TestResults::ByRow(matcher) => {
                let value = match self.field {
                    "page" => table.parts.page_of_row(bytes, row).map(Value::from),
                    _ => table.parts.heading_of_row(bytes, row).map(Value::from),
                };
                value.map(|value| matcher.matches(&value))
            }
        }
    }
}

/// The fields that some searchable chunk has: those of all tables, then those of the metadata by name.
pub(super) fn fields(table: &ChunkTable) -> Vec<String> {
    let bytes = table.bytes.all();
    let rows = || table.searchable.iter().map(|&row| row as usize);
    let mut groups: Vec<usize> = rows().map(|row| table.parts.group_of_row(bytes, row)).collect();
    groups.dedup();
    let has = |field: &&&str| match **field {
        "path" => !groups.is_empty(),
        "title" => groups.iter().any(|&group| table.parts.group(bytes, group).book.is_some()),
        "page" => rows().any(|row| table.parts.page_of_row(bytes, row).is_some()),
        _ => rows().any(|row| table.parts.heading_of_row(bytes, row).is_some()),
    };
    let own = OWN_FIELDS.iter().filter(has).map(|field| (*field).to_owned());
    let more: BTreeSet<String> = groups.iter().flat_map(|&group| metadata(table, group).into_keys()).collect();
    own.chain(more).collect()
}

fn metadata(table: &ChunkTable, group: usize) -> Metadata {
    read_metadata(table.parts.group(table.bytes.all(), group).metadata)
}

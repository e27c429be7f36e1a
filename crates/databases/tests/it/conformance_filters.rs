//! Filters of every database have the meaning of [`RecordFilter::passes`], for each kind of value and test.

use crate::conformance::{TestDatabase, fields, fill, spec, unit};
use databases::{
    CollectionPlace, DatabaseQuery, FieldBounds, FieldTest, IndexedRecord, RecordFilter, RecordId, ScalarValue,
    SearchOptions, VectorDatabase,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The dimensions of the records here.
pub const FILTERED: usize = 4;
/// Random filters with two fields.
const RANDOM: usize = 150;

/// Values of one field: all types, and what is nearly equal.
fn values() -> Vec<Value> {
    let mut values = vec![
        json!("water"),
        json!("Water"),
        json!("e\u{301}"),
        json!("\u{e9}"),
        json!("𝕏"),
        json!("\u{ffff}"),
        json!("2021"),
        json!("2021-05-01"),
        json!(""),
        json!(2021),
        json!(2021.0),
        json!(-3),
        json!(0.1),
        json!(1e300),
        json!(9_007_199_254_740_993_u64),
        json!(18_446_744_073_709_551_615_u64),
        json!(true),
        json!(false),
        json!(null),
        json!([]),
        json!(["water", "wind"]),
        json!([1, 4, 9]),
        json!([1.5, 4.0]),
        json!(["water", 4, true, null]),
        json!([["water"], [4]]),
        json!({ "water": 4 }),
        json!("it's \"quoted\" \\"),
    ];
    values.extend((0..4).map(|number| json!(number)));
    values
}

/// Records with each value in the field `f`, and one without it; `g` has two values.
pub fn filtered_records() -> Vec<IndexedRecord> {
    let values: Vec<Value> = values();
    let records = (0..=values.len()).map(|number| {
        let mut all = json!({ "g": number % 2 });
        if let Some(value) = values.get(number) {
            all["f"] = value.clone();
        }
        IndexedRecord {
            id: RecordId::Number(number as u64),
            vector: unit(&[1.0, number as f32 / 100.0, 0.5, 0.25]),
            text: format!("record {number}"),
            fields: fields(all),
        }
    });
    records.collect()
}

fn tests() -> Vec<FieldTest> {
    let scalars: Vec<ScalarValue> = values().iter().filter_map(ScalarValue::of_json).collect();
    let mut tests = vec![
        FieldTest::OneOf(Vec::new()),
        FieldTest::OneOf(scalars.clone()),
        FieldTest::OneOf(vec![ScalarValue::Text("water\0".to_owned()), ScalarValue::Number(4.0)]),
        FieldTest::Within(FieldBounds::default()),
        FieldTest::Within(FieldBounds {
            ge: Some(ScalarValue::Number(3.0)),
            lt: Some(ScalarValue::Number(5.0)),
            ..FieldBounds::default()
        }),
        FieldTest::Within(FieldBounds {
            ge: Some(ScalarValue::Number(3.0)),
            lt: Some(ScalarValue::Text("z".to_owned())),
            ..FieldBounds::default()
        }),
    ];
    for scalar in
        scalars.into_iter().chain([ScalarValue::Text("wat\0er".to_owned()), ScalarValue::Text("\u{e000}".to_owned())])
    {
        let some = || Some(scalar.clone());
        tests.push(FieldTest::OneOf(vec![scalar.clone()]));
        let bounds = [
            FieldBounds { gt: some(), ..FieldBounds::default() },
            FieldBounds { ge: some(), ..FieldBounds::default() },
            FieldBounds { lt: some(), ..FieldBounds::default() },
            FieldBounds { le: some(), ..FieldBounds::default() },
            FieldBounds { ne: some(), ..FieldBounds::default() },
        ];
        tests.extend(bounds.map(FieldTest::Within));
    }
    tests
}

pub async fn check_filters(test: &impl TestDatabase, database: &dyn VectorDatabase) {
    let (place, records) = (CollectionPlace::filled("reverie_filters"), filtered_records());
    fill(database, &place, &spec("filters", FILTERED, test.index()), &records).await;
    let tests = tests();
    let mut filters: Vec<RecordFilter> = Vec::new();
    filters.extend(tests.iter().map(|test| RecordFilter { ids: None, tests: [("f".to_owned(), test.clone())].into() }));
    filters.push(RecordFilter { ids: Some(Vec::new()), tests: [].into() });
    filters.push(RecordFilter { ids: None, tests: [("absent '\"".to_owned(), tests[1].clone())].into() });
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..RANDOM {
        let (f, g) = (&tests[random.usize(..tests.len())], &tests[random.usize(..tests.len())]);
        let ids = random.bool().then(|| (0..40).filter(|_| random.bool()).map(RecordId::Number).collect());
        filters.push(RecordFilter { ids, tests: [("f".to_owned(), f.clone()), ("g".to_owned(), g.clone())].into() });
    }
    let queries: Vec<DatabaseQuery<'_>> =
        filters.iter().map(|filter| DatabaseQuery { vector: &records[0].vector, filter: Some(filter) }).collect();
    let found = database.search(&place, &queries, &SearchOptions::top(records.len())).await.unwrap();
    for (filter, found) in filters.iter().zip(found) {
        let passing = records.iter().filter(|record| filter.passes_record(&record.id, &record.fields));
        let expected: BTreeSet<RecordId> = passing.map(|record| record.id.clone()).collect();
        let ids: BTreeSet<RecordId> = found.records.into_iter().map(|record| record.id).collect();
        assert_eq!(ids, expected, "{filter:?}");
        assert!(!found.is_cut);
        let listed = database.first_records(&place, filter, records.len()).await.unwrap();
        assert_eq!(listed.into_iter().map(|record| record.id).collect::<BTreeSet<_>>(), expected, "{filter:?}");
    }
    println!("{}: {} filters mean what they say", database.address(), filters.len());
}

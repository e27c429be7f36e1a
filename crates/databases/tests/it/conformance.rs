//! One test for every database: what [`VectorDatabase`] promises.

use crate::conformance_filters::{FILTERED, check_filters, filtered_records};
use databases::{
    CollectionPlace, CollectionSpec, DatabaseProblem, DatabaseQuery, IndexManifest, IndexedRecord, RecordFilter,
    RecordId, SearchIndexSpec, SearchOptions, StoredPrecision, VectorDatabase, testing::cosine,
};
use serde_json::{Map, json};
use std::{collections::BTreeMap, sync::Arc};

/// The dimensions of all vectors here.
pub const DIMENSIONS: usize = 48;
/// Records of the large collection; a hundred thousand with `REVERIE_LARGE`.
const ROWS: usize = 4_000;
/// Records in one write.
const PART: usize = 1_000;
const LEAST_RECALL: f64 = 0.95;

/// A database of one test, on a server that may be killed.
pub trait TestDatabase {
    fn open(&self) -> Arc<dyn VectorDatabase>;

    /// The search index that its collections have.
    fn index(&self) -> SearchIndexSpec;

    /// An id of a collection that is not Reverie's: a text, unless the database takes only other ids.
    fn users_id(&self, _number: usize, text: &str) -> RecordId {
        RecordId::Text(text.to_owned())
    }

    /// Makes a collection that is not Reverie's, with ids of [`TestDatabase::users_id`], and says how it is read.
    fn make_existing(&self, name: &str, records: &[IndexedRecord]) -> impl Future<Output = CollectionPlace>;

    /// Whether texts with null characters are stored; otherwise such a record is refused.
    fn stores_null_characters(&self) -> bool;

    /// Whether ids of the user's own are returned as texts that compare equal to what was stored.
    fn ties_users_ids_to_text(&self) -> bool;
}

pub fn unit(vector: &[f32]) -> Vec<f32> {
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / norm).collect()
}

pub fn spec(key: &str, dimensions: usize, index: SearchIndexSpec) -> CollectionSpec {
    CollectionSpec { key: key.to_owned(), dimensions, index, precision: StoredPrecision::F32 }
}

/// Records in clusters, as vectors of texts are, the same ones every time.
pub fn clustered(rows: usize) -> Vec<IndexedRecord> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut vector = |center: &[f32], spread: f32| {
        let noisy = center.iter().map(|value| value + spread * (random.f32() - 0.5));
        unit(&noisy.collect::<Vec<_>>())
    };
    let zero = vec![0.0; DIMENSIONS];
    let centers: Vec<Vec<f32>> = (0..rows.isqrt()).map(|_| vector(&zero, 1.0)).collect();
    let records = (0..rows).map(|row| IndexedRecord {
        id: RecordId::Number(row as u64),
        vector: vector(&centers[row % centers.len()], 0.2),
        text: format!("The text of the chunk {row}."),
        fields: fields(json!({ "path": format!("document-{}.md", row / 20), "page": row % 20, "half": row % 2 == 0 })),
    });
    records.collect()
}

/// Records whose vectors are long and lie around the centers of topics, of 60 records each, the same ones every time.
pub fn of_topics(rows: usize, dimensions: usize) -> Vec<IndexedRecord> {
    let mut random = fastrand::Rng::with_seed(11);
    let mut vector = || (0..dimensions).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
    let centers: Vec<Vec<f32>> = (0..rows.div_ceil(60)).map(|_| vector()).collect();
    let record = |(row, record): (usize, IndexedRecord)| {
        let near = centers[row % centers.len()].iter().zip(vector()).map(|(center, noise)| center + 0.7 * noise);
        IndexedRecord { vector: unit(&near.collect::<Vec<_>>()), ..record }
    };
    clustered(rows).into_iter().enumerate().map(record).collect()
}

/// How much of the exact results is found with this oversampling, over 20 records.
pub async fn quantized_recall(
    database: &dyn VectorDatabase,
    place: &CollectionPlace,
    records: &[IndexedRecord],
    oversampling: u32,
) -> f64 {
    let options = SearchOptions { ef: Some(200), oversampling: Some(oversampling), ..SearchOptions::top(10) };
    let mut sum = 0.0;
    for record in records.iter().step_by(records.len() / 20) {
        let query = DatabaseQuery { vector: &record.vector, filter: None };
        let found = database.search(place, &[query], &options).await.unwrap().remove(0);
        assert!(!found.is_exact);
        let exact = exact(records, &record.vector, 10);
        let score =
            |found: &databases::FoundRecord| exact.iter().find(|(_, id)| *id == found.id).map(|(score, _)| *score);
        let is_right =
            |record: &databases::FoundRecord| score(record).is_none_or(|score| (score - record.score).abs() < 1e-4);
        assert!(found.records.iter().all(is_right), "scores are those of the vectors themselves");
        sum += recall(&found.records, &exact);
    }
    sum / 20.0
}

pub fn fields(value: serde_json::Value) -> Map<String, serde_json::Value> {
    value.as_object().unwrap().clone()
}

fn ids(records: &[databases::FoundRecord]) -> Vec<RecordId> {
    records.iter().map(|record| record.id.clone()).collect()
}

/// The best records by comparing all, with their scores.
pub fn exact<'a>(
    records: impl IntoIterator<Item = &'a IndexedRecord>,
    query: &[f32],
    top: usize,
) -> Vec<(f32, RecordId)> {
    let mut all: Vec<_> =
        records.into_iter().map(|record| (cosine(&record.vector, query), record.id.clone())).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    all.truncate(top);
    all
}

/// How much of the exact result was found. An equal score is no loss: rounding decides about ties.
pub fn recall(found: &[databases::FoundRecord], exact: &[(f32, RecordId)]) -> f64 {
    let Some((least, _)) = exact.last() else { return 1.0 };
    found.iter().filter(|record| record.score >= least - 1e-5).count() as f64 / exact.len() as f64
}

/// Fills a collection to its end, as a run does.
pub async fn fill(
    database: &dyn VectorDatabase,
    place: &CollectionPlace,
    spec: &CollectionSpec,
    records: &[IndexedRecord],
) {
    database.create(place, spec).await.unwrap();
    for part in records.chunks(PART) {
        database.write(place, part).await.unwrap();
    }
    database.complete(place, spec, &|share| assert!((0.0..=1.0).contains(&share))).await.unwrap();
    let manifest = IndexManifest { rows: Some(records.len() as u64), ..IndexManifest::of_filling(spec) };
    database.write_manifest(place, &manifest).await.unwrap();
}

pub async fn conforms(test: &impl TestDatabase) {
    let database = test.open();
    database.describe_server().await.unwrap();
    check_large_collection(test, &*database).await;
    check_records(test, &*database).await;
    check_manifests(test, &*database).await;
    check_filters(test, &*database).await;
    check_existing(test, &*database).await;
    check_aliases(test, &*database).await;
    check_two_fills(test, &*database).await;
}

async fn check_large_collection(test: &impl TestDatabase, database: &dyn VectorDatabase) {
    let rows = if std::env::var_os("REVERIE_LARGE").is_some() { 100_000 } else { ROWS };
    let (place, records) = (CollectionPlace::filled("reverie_large"), clustered(rows));
    let spec = spec("large", DIMENSIONS, test.index());
    fill(database, &place, &spec, &records).await;
    assert_eq!(database.count(&place).await.unwrap(), rows as u64);
    let described = database.describe(&place).await.unwrap().unwrap();
    assert_eq!((described.rows, described.dimensions), (rows as u64, Some(DIMENSIONS)));
    assert_eq!(described.check(&place, DIMENSIONS), Ok(()));
    assert_eq!(described.check(&place, 7), Err(DatabaseProblem::Dimensions { expected: 7, found: DIMENSIONS }));
    assert!(described.manifest.unwrap().is_complete());

    let asked: Vec<&IndexedRecord> = records.iter().step_by(rows / 64).take(64).collect();
    let vectors: Vec<Vec<f32>> =
        asked.iter().map(|record| unit(&record.vector.iter().map(|value| value + 0.01).collect::<Vec<_>>())).collect();
    let queries: Vec<DatabaseQuery<'_>> = vectors.iter().map(|vector| DatabaseQuery { vector, filter: None }).collect();
    let options = SearchOptions::top(10);
    let together = database.search(&place, &queries, &options).await.unwrap();
    let (mut sum, mut scores) = (0.0, 0.0f32);
    for (query, found) in queries.iter().zip(&together) {
        let alone = database.search(&place, &[*query], &options).await.unwrap();
        assert_eq!(alone, std::slice::from_ref(found), "searches at once find what one after the other finds");
        let expected = exact(&records, query.vector, 10);
        sum += recall(&found.records, &expected);
        for record in &found.records {
            let RecordId::Number(row) = record.id else { panic!("{}", record.id) };
            scores = scores.max((record.score - cosine(&records[row as usize].vector, query.vector)).abs());
        }
        assert!(found.records.is_sorted_by(|a, b| a.score >= b.score));
    }
    let recall_at_10 = sum / queries.len() as f64;
    println!("{}: recall@10 {recall_at_10:.3} of {rows} records, scores within {scores:.7}", database.address());
    assert!(recall_at_10 >= LEAST_RECALL && scores < 1e-4, "{recall_at_10} {scores}");

    let compared = database.search(&place, &queries, &SearchOptions { exact: true, ..options }).await.unwrap();
    for (query, found) in queries.iter().zip(&compared).filter(|(_, found)| found.is_exact) {
        assert!(recall(&found.records, &exact(&records, query.vector, 10)) == 1.0);
    }
    let many = database.search(&place, &queries[..1], &SearchOptions::top(1500)).await.unwrap();
    assert!(
        many[0].records.len() == 1500
            && recall(&many[0].records, &exact(&records, queries[0].vector, 1500)) > LEAST_RECALL
    );

    // Among some records, also those that are not there.
    let some: Vec<RecordId> = (0..rows as u64 + 50).step_by(50).map(RecordId::Number).collect();
    let filter = RecordFilter { ids: Some(some.clone()), tests: BTreeMap::new() };
    let among: Vec<DatabaseQuery<'_>> =
        vectors.iter().map(|vector| DatabaseQuery { vector, filter: Some(&filter) }).collect();
    for (query, found) in among.iter().zip(database.search(&place, &among, &options).await.unwrap()) {
        let expected = exact(records.iter().filter(|record| some.contains(&record.id)), query.vector, 10);
        assert!(recall(&found.records, &expected) == 1.0, "a search among ids misses none");
    }
}

async fn check_records(test: &impl TestDatabase, database: &dyn VectorDatabase) {
    let place = CollectionPlace::filled("reverie_records");
    let spec = spec("records", 3, test.index());
    assert_eq!(database.describe(&place).await.unwrap(), None);
    let missing = database
        .search(&place, &[DatabaseQuery { vector: &[1.0, 0.0, 0.0], filter: None }], &SearchOptions::top(1))
        .await;
    let missing = missing.unwrap_err();
    assert_eq!(
        (missing.problem, missing.collection.as_deref()),
        (DatabaseProblem::MissingCollection, Some("reverie_records"))
    );
    database.create(&place, &spec).await.unwrap();
    database.create(&place, &spec).await.unwrap();
    assert_eq!(database.describe(&place).await.unwrap().unwrap().check(&place, 3), Err(DatabaseProblem::Empty));

    let record = |id: u64, vector: [f32; 3], text: &str| IndexedRecord {
        id: RecordId::Number(id),
        vector: unit(&vector),
        text: text.to_owned(),
        fields: fields(
            json!({ "path": text, "deep": { "list": [1, "a", null, 2.5] }, "none": null, "u\u{308}": "ü", "\"'": "\\" }),
        ),
    };
    let texts = ["e\u{301}", "\u{e9}", "🜁 𝕏", "שלום عالم", "it's \"quoted\" \\ $1 %s", "line\nbreak\ttab", ""];
    let stored: Vec<IndexedRecord> =
        (0..).zip(texts).map(|(id, text)| record(id, [1.0, id as f32, 0.5], text)).collect();
    database.write(&place, &stored).await.unwrap();
    database.complete(&place, &spec, &|_| {}).await.unwrap();
    let wanted: Vec<RecordId> = (0..8).rev().map(RecordId::Number).collect();
    let read = database.read(&place, &wanted).await.unwrap();
    assert_eq!(read[0], None);
    for (read, stored) in read[1..].iter().rev().zip(&stored) {
        let read = read.as_ref().unwrap();
        assert_eq!((&read.id, &read.text, &read.fields), (&stored.id, &stored.text, &stored.fields));
        assert!(cosine(&read.vector, &stored.vector) > 0.999_999);
    }
    let first = database.first_records(&place, &RecordFilter::default(), 3).await.unwrap();
    assert_eq!(
        first.iter().map(|record| record.id.clone()).collect::<Vec<_>>(),
        wanted[5..].iter().rev().cloned().collect::<Vec<_>>()
    );

    // The same ids again replace; a removed record is not found again.
    let query = [DatabaseQuery { vector: &[0.0, 0.0, 1.0], filter: None }];
    let options = SearchOptions { with_content: true, ..SearchOptions::top(1) };
    database.write(&place, &[record(3, [0.0, 0.0, 1.0], "new")]).await.unwrap();
    let found = database.search(&place, &query, &options).await.unwrap().remove(0).records.remove(0);
    assert_eq!((found.id, found.content.unwrap().text), (RecordId::Number(3), "new".to_owned()));
    database.delete(&place, &[RecordId::Number(3), RecordId::Number(99)]).await.unwrap();
    database.delete(&place, &[]).await.unwrap();
    assert_eq!(database.count(&place).await.unwrap(), 6);
    assert!(
        !ids(&database.search(&place, &query, &SearchOptions::top(7)).await.unwrap()[0].records)
            .contains(&RecordId::Number(3))
    );

    // What cannot be stored.
    let refused = |result: Result<(), databases::Error>| result.unwrap_err().problem;
    let long = IndexedRecord { vector: unit(&[1.0; 4]), ..record(9, [1.0; 3], "") };
    assert_eq!(refused(database.write(&place, &[long]).await), DatabaseProblem::Dimensions { expected: 4, found: 3 });
    for vector in [vec![2.0, 0.0, 0.0], vec![f32::NAN; 3], vec![0.0; 3]] {
        let bad = IndexedRecord { vector, ..record(9, [1.0; 3], "") };
        assert!(matches!(refused(database.write(&place, &[bad]).await), DatabaseProblem::InvalidRecord { .. }));
    }
    let twice = [record(9, [1.0; 3], "a"), record(9, [1.0; 3], "b")];
    assert!(matches!(refused(database.write(&place, &twice).await), DatabaseProblem::InvalidRecord { .. }));
    let null = record(7, [1.0; 3], "a\0b");
    match test.stores_null_characters() {
        true => {
            database.write(&place, std::slice::from_ref(&null)).await.unwrap();
            assert_eq!(
                database.read(&place, &[RecordId::Number(7)]).await.unwrap()[0].as_ref().unwrap().text,
                null.text
            );
        }
        false => {
            let problem = refused(database.write(&place, &[null]).await);
            assert!(
                matches!(&problem, DatabaseProblem::InvalidRecord { id: RecordId::Number(7), reason } if reason.contains("null character")),
                "{problem}"
            );
        }
    }
    let wrong =
        database.search(&place, &[DatabaseQuery { vector: &[1.0, 0.0], filter: None }], &SearchOptions::top(1)).await;
    assert_eq!(wrong.unwrap_err().problem, DatabaseProblem::Dimensions { expected: 2, found: 3 });
    database.drop_collection(&place, "records").await.unwrap();
}

async fn check_manifests(test: &impl TestDatabase, database: &dyn VectorDatabase) {
    let place = CollectionPlace::filled("reverie_manifests");
    let spec = spec("one", 3, test.index());
    database.create(&place, &spec).await.unwrap();
    let manifest = database.describe(&place).await.unwrap().unwrap().manifest.unwrap();
    assert!(!manifest.is_complete() && manifest.key == "one");
    let manifest = IndexManifest {
        rows: Some(0),
        facts: json!({ "embedder": "it's Müller's" }),
        previous: [("alias".to_owned(), "x".to_owned())].into(),
        ..manifest
    };
    database.write_manifest(&place, &manifest).await.unwrap();
    assert_eq!(database.describe(&place).await.unwrap().unwrap().manifest.as_ref(), Some(&manifest));
    assert!(database.list().await.unwrap().contains(&(place.clone(), manifest)));
    let other = CollectionSpec { key: "two".to_owned(), ..spec };
    assert_eq!(database.create(&place, &other).await.unwrap_err().problem, DatabaseProblem::ForeignCollection);
    assert_eq!(database.drop_collection(&place, "two").await.unwrap_err().problem, DatabaseProblem::ForeignCollection);
    database.drop_collection(&place, "one").await.unwrap();
    database.drop_collection(&place, "one").await.unwrap();
    assert_eq!(database.describe(&place).await.unwrap(), None);
}

async fn check_existing(test: &impl TestDatabase, database: &dyn VectorDatabase) {
    let names = ["docs/ä.md", "e\u{301}", "\u{e9}", "🜁", "it's", "a\"b"];
    let users_ids: Vec<RecordId> = names.iter().enumerate().map(|(number, name)| test.users_id(number, name)).collect();
    let records: Vec<IndexedRecord> = filtered_records()
        .into_iter()
        .zip(&users_ids)
        .map(|(record, id)| IndexedRecord { id: id.clone(), ..record })
        .collect();
    let place = test.make_existing("users_own", &records).await;
    let described = database.describe(&place).await.unwrap().unwrap();
    assert_eq!((described.rows, described.manifest.clone()), (records.len() as u64, None));
    assert_eq!(described.check(&place, FILTERED), Ok(()));
    let sample = database.first_records(&place, &RecordFilter::default(), 100).await.unwrap();
    assert_eq!(sample.len(), records.len());
    let absent = test.users_id(names.len(), "absent");
    let read = database.read(&place, &[users_ids[1].clone(), absent]).await.unwrap();
    assert!(
        read[0].as_ref().is_some_and(|record| record.text == records[1].text && record.vector.len() == FILTERED)
            && read[1].is_none()
    );
    let options = SearchOptions { with_content: true, ..SearchOptions::top(records.len()) };
    let filter = RecordFilter { ids: Some(users_ids[1..4].to_vec()), tests: BTreeMap::new() };
    for (filter, expected) in [(None, &records[..]), (Some(&filter), &records[1..4])] {
        let query = DatabaseQuery { vector: &records[3].vector, filter };
        let found = database.search(&place, &[query], &options).await.unwrap().remove(0).records;
        assert_eq!(found.len(), expected.len());
        assert_eq!((&found[0].id, &found[0].content.as_ref().unwrap().text), (&records[3].id, &records[3].text));
        assert!(
            test.ties_users_ids_to_text()
                && found.iter().all(|record| expected.iter().any(|expected| expected.id == record.id))
        );
    }
    // Nothing of it is changed or removed.
    let foreign = |result: Result<(), databases::Error>| {
        assert_eq!(result.unwrap_err().problem, DatabaseProblem::ForeignCollection)
    };
    let own = CollectionPlace::filled("users_own");
    foreign(database.create(&own, &spec("k", FILTERED, test.index())).await);
    foreign(database.drop_collection(&own, "k").await);
    foreign(database.delete(&own, &[RecordId::Number(1)]).await);
    foreign(database.write_manifest(&own, &IndexManifest::of_filling(&spec("k", FILTERED, test.index()))).await);
    foreign(database.swap("reverie_alias", &own).await.map(drop));
    assert!(database.list().await.unwrap().iter().all(|(place, _)| place.name != "users_own"));
    assert_eq!(database.count(&place).await.unwrap(), records.len() as u64);
}

async fn check_aliases(test: &impl TestDatabase, database: &dyn VectorDatabase) {
    let (one, two) = (CollectionPlace::filled("reverie_one"), CollectionPlace::filled("reverie_two"));
    let record = |text: &str, dimensions: usize| IndexedRecord {
        id: RecordId::Number(0),
        vector: unit(&vec![1.0; dimensions]),
        text: text.to_owned(),
        fields: Map::new(),
    };
    fill(database, &one, &spec("one", 3, test.index()), &[record("one", 3)]).await;
    // The next winner has another embedder.
    fill(database, &two, &spec("two", 5, test.index()), &[record("two", 5)]).await;
    let through = CollectionPlace::filled("manuals");
    let text = async |dimensions: usize| {
        let vector = unit(&vec![1.0; dimensions]);
        let options = SearchOptions { with_content: true, ..SearchOptions::top(1) };
        let query = [DatabaseQuery { vector: &vector, filter: None }];
        database.search(&through, &query, &options).await.unwrap().remove(0).records.remove(0).content.unwrap().text
    };
    assert_eq!(database.swap("manuals", &one).await.unwrap(), None);
    assert_eq!(text(3).await, "one");
    assert_eq!(database.swap("manuals", &two).await.unwrap().as_deref(), Some("reverie_one"));
    assert_eq!(database.aliases().await.unwrap().get("manuals").map(String::as_str), Some("reverie_two"));
    assert_eq!(text(5).await, "two");
    assert_eq!(database.swap("manuals", &one).await.unwrap().as_deref(), Some("reverie_two"));
    assert_eq!(text(3).await, "one");
    let refused = database.drop_collection(&one, "one").await.unwrap_err();
    assert!(matches!(refused.problem, DatabaseProblem::Refused { .. }), "an alias points to it: {refused}");
    assert_eq!(text(3).await, "one");
    assert_eq!(database.swap("reverie_two", &one).await.unwrap_err().problem, DatabaseProblem::ForeignCollection);
    let absent = CollectionPlace::filled("reverie_absent");
    assert_eq!(database.swap("manuals", &absent).await.unwrap_err().problem, DatabaseProblem::MissingCollection);
    database.drop_collection(&two, "two").await.unwrap();
}

async fn check_two_fills(test: &impl TestDatabase, database: &dyn VectorDatabase) {
    let (place, spec) = (CollectionPlace::filled("reverie_both"), spec("both", DIMENSIONS, test.index()));
    let records = clustered(2_000);
    let other = test.open();
    tokio::join!(fill(database, &place, &spec, &records), fill(&*other, &place, &spec, &records));
    assert_eq!(database.count(&place).await.unwrap(), 2_000);
}

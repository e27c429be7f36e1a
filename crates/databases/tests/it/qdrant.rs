//! Qdrant: the conformance test on a stub with Qdrant's engine, kills in the middle of a fill, and what is Qdrant's own.

use crate::{
    conformance::{
        self, DIMENSIONS, TestDatabase, clustered, exact, fields, fill, of_topics, quantized_recall, recall, spec, unit,
    },
    servers::QdrantServer,
};
use databases::{
    AccessSettings, CollectionPlace, CollectionSpec, DatabaseProblem, DatabaseQuery, Error, ExistingFields,
    FieldBounds, FieldTest, IndexManifest, IndexedRecord, QdrantDatabase, RecordFilter, RecordId, ScalarValue,
    SearchIndexSpec, SearchOptions, StoredPrecision, VectorDatabase, VectorMetric,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const HNSW: SearchIndexSpec = SearchIndexSpec::Hnsw { m: 16, ef_construction: 100, ef: 100 };

fn open(url: &str) -> QdrantDatabase {
    QdrantDatabase::open(AccessSettings::new(url)).unwrap()
}

fn number(id: u64) -> RecordId {
    RecordId::Number(id)
}

fn text(text: &str) -> RecordId {
    RecordId::Text(text.to_owned())
}

/// A request of another program.
async fn send(server: &QdrantServer, method: reqwest::Method, path: &str, body: Value) -> Value {
    let url = format!("{}/{path}", server.url());
    let sent = store::http_client().build().unwrap().request(method, url).json(&body).send().await.unwrap();
    let status = sent.status();
    let reply: Value = sent.json().await.unwrap();
    assert!(status.is_success(), "{status}: {reply}");
    reply
}

async fn put(server: &QdrantServer, path: &str, body: Value) {
    send(server, reqwest::Method::PUT, path, body).await;
}

struct Qdrant(QdrantServer);

impl TestDatabase for Qdrant {
    fn open(&self) -> Arc<dyn VectorDatabase> {
        Arc::new(open(&self.0.url()))
    }

    fn index(&self) -> SearchIndexSpec {
        HNSW
    }

    /// Qdrant has numbers and UUIDs.
    fn users_id(&self, order: usize, _: &str) -> RecordId {
        match order % 3 {
            0 => number(u64::MAX - order as u64),
            1 => text(&format!("550e8400-e29b-41d4-a716-44665544000{order}")),
            _ => number(order as u64),
        }
    }

    async fn make_existing(&self, name: &str, records: &[IndexedRecord]) -> CollectionPlace {
        // With one unnamed vector and the layout of LangChain.
        let vectors = json!({ "size": records[0].vector.len(), "distance": "Euclid" });
        put(&self.0, &format!("collections/{name}"), json!({ "vectors": vectors })).await;
        let points = records.iter().map(|record| {
            let payload = json!({ "page_content": record.text, "metadata": record.fields });
            json!({ "id": record.id, "vector": record.vector, "payload": payload })
        });
        let body = json!({ "points": points.collect::<Vec<_>>() });
        put(&self.0, &format!("collections/{name}/points?wait=true"), body).await;
        let fields = ExistingFields {
            text: Some("page_content".to_owned()),
            metadata: Some("metadata".to_owned()),
            metric: VectorMetric::Euclidean,
            ..ExistingFields::default()
        };
        CollectionPlace::existing(name, fields)
    }

    fn stores_null_characters(&self) -> bool {
        true
    }

    fn ties_users_ids_to_text(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn qdrant_conforms() {
    let Some(server) = QdrantServer::start(&[]).await else { return };
    conformance::conforms(&Qdrant(server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_qdrant_server_killed_while_it_is_written_to_loses_and_doubles_nothing() {
    let Some(mut server) = QdrantServer::start(&[]).await else { return };
    let (place, spec) = (CollectionPlace::filled("reverie_killed"), spec("killed", DIMENSIONS, HNSW));
    let records = clustered(8_000);
    let database = Arc::new(open(&server.url()));
    database.create(&place, &spec).await.unwrap();
    let parts: Vec<Vec<IndexedRecord>> = records.chunks(1_000).map(<[_]>::to_vec).collect();
    let (mut written, mut kills) = (0, 0);
    while written < parts.len() {
        let writing = tokio::spawn({
            let (database, place, part) = (database.clone(), place.clone(), parts[written].clone());
            async move { database.write(&place, &part).await }
        });
        if kills < 4 && written % 2 == 1 {
            tokio::time::sleep(Duration::from_millis(10 + 30 * kills)).await;
            server.kill();
            kills += 1;
            match writing.await.unwrap() {
                Ok(()) => written += 1,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
            server.restart().await;
            // All that was acknowledged is there.
            let acknowledged: Vec<RecordId> = (0..written as u64 * 1_000).map(number).collect();
            assert!(database.read(&place, &acknowledged).await.unwrap().iter().all(Option::is_some));
            let manifest = database.describe(&place).await.unwrap().unwrap().manifest.unwrap();
            assert!(manifest.key == "killed" && !manifest.is_complete());
            continue;
        }
        writing.await.unwrap().unwrap();
        written += 1;
    }
    // A kill while the index is built, too.
    let building = tokio::spawn({
        let (database, place, spec) = (database.clone(), place.clone(), spec.clone());
        async move { database.complete(&place, &spec, &|_| {}).await }
    });
    let info = async || send(&server, reqwest::Method::GET, "collections/reverie_killed", json!({})).await;
    while info().await["result"]["config"]["optimizer_config"]["indexing_threshold"] == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill();
    assert!(building.await.unwrap().unwrap_err().is_transient());
    server.restart().await;
    let info = async || send(&server, reqwest::Method::GET, "collections/reverie_killed", json!({})).await;
    assert_eq!(info().await["result"]["status"], "grey");
    database.complete(&place, &spec, &|_| {}).await.unwrap();
    assert_eq!(info().await["result"]["status"], "green");
    assert_eq!((database.count(&place).await.unwrap(), kills), (8_000, 4));
    let read = database.read(&place, &(0..8_000).map(number).collect::<Vec<_>>()).await.unwrap();
    assert!(read.iter().zip(&records).all(|(read, record)| {
        read.as_ref().is_some_and(|read| read.text == record.text && read.fields == record.fields)
    }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_built_at_the_end_and_other_indexes_and_precisions_find_what_they_should() {
    let Some(server) = QdrantServer::start(&[]).await else { return };
    let database = open(&server.url());
    // 12 MB of vectors: more than Qdrant compares one by one.
    let wide = |records: Vec<IndexedRecord>| {
        let repeated =
            records.into_iter().map(|record| IndexedRecord { vector: unit(&record.vector.repeat(22)), ..record });
        repeated.collect::<Vec<_>>()
    };
    for (name, index, precision, records, least) in [
        ("reverie_graph", HNSW, StoredPrecision::F32, wide(clustered(3_000)), 0.9),
        ("reverie_flat", SearchIndexSpec::Exact, StoredPrecision::F32, clustered(1_000), 1.0),
        ("reverie_half_flat", SearchIndexSpec::Exact, StoredPrecision::F16, clustered(1_000), 0.9),
    ] {
        let dimensions = records[0].vector.len();
        let place = CollectionPlace::filled(name);
        let spec = CollectionSpec { precision, ..spec(name, dimensions, index) };
        database.create(&place, &spec).await.unwrap();
        for part in records.chunks(1_000) {
            database.write(&place, part).await.unwrap();
        }
        let indexed = async || {
            let info = send(&server, reqwest::Method::GET, &format!("collections/{name}"), json!({})).await;
            info["result"]["indexed_vectors_count"].as_u64().unwrap()
        };
        assert_eq!(indexed().await, 0, "no graph is built while records are written");
        database.complete(&place, &spec, &|share| assert!((0.0..=1.0).contains(&share))).await.unwrap();
        assert_eq!(indexed().await > 0, index == HNSW, "{name}");
        // Again, this does nothing.
        database.complete(&place, &spec, &|_| {}).await.unwrap();
        let (mut sum, options) = (0.0, SearchOptions { ef: Some(100), ..SearchOptions::top(10) });
        for record in records.iter().step_by(records.len() / 20) {
            let query = DatabaseQuery { vector: &record.vector, filter: None };
            let found = database.search(&place, &[query], &options).await.unwrap().remove(0);
            assert_eq!(found.is_exact, index == SearchIndexSpec::Exact, "{name}");
            sum += recall(&found.records, &exact(&records, &record.vector, 10));
        }
        assert!(sum / 20.0 >= least, "{name}: {}", sum / 20.0);
        database.drop_collection(&place, name).await.unwrap();
    }
    let lists = spec("k", 3, SearchIndexSpec::Ivfflat { lists: 4 });
    let refused = database.create(&CollectionPlace::filled("reverie_lists"), &lists).await.unwrap_err();
    assert!(refused.to_string().contains("index `hnsw` or none"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_fewer_bits_is_searched_and_the_nearest_are_compared_by_their_vectors() {
    let Some(server) = QdrantServer::start(&[]).await else { return };
    let database = open(&server.url());
    let records = of_topics(3_000, 1_024);
    for (name, precision) in [("reverie_bytes", StoredPrecision::Int8), ("reverie_bits", StoredPrecision::Binary)] {
        let place = CollectionPlace::filled(name);
        let spec = CollectionSpec { precision, ..spec(name, 1_024, HNSW) };
        fill(&database, &place, &spec, &records).await;
        let config = send(&server, reqwest::Method::GET, &format!("collections/{name}"), json!({})).await;
        let quantization = &config["result"]["config"]["quantization_config"];
        assert_eq!(quantization["scalar"]["type"] == "int8", precision == StoredPrecision::Int8, "{config}");
        let (once, often) = (
            quantized_recall(&database, &place, &records, 1).await,
            quantized_recall(&database, &place, &records, 10).await,
        );
        assert!(often >= 0.95 && once <= often, "{name}: {once} {often}");
        assert!(precision == StoredPrecision::Int8 || once < often, "{name}: bits alone lose some: {once} {often}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_split_by_what_the_server_takes() {
    let Some(server) = QdrantServer::start(&["--max-request-bytes", "20000"]).await else { return };
    let database = open(&server.url());
    let place = CollectionPlace::filled("reverie_split");
    fill(&database, &place, &spec("split", DIMENSIONS, HNSW), &clustered(900)).await;
    assert_eq!(database.count(&place).await.unwrap(), 900);
    let large = IndexedRecord { id: number(7_000), text: "x".repeat(30_000), ..clustered(1).remove(0) };
    let error = database.write(&place, &[large]).await.unwrap_err();
    assert!(matches!(error.problem, DatabaseProblem::TooLarge { .. }), "{error}");
    let named = IndexedRecord { id: text("a"), ..clustered(1).remove(0) };
    let error = database.write(&place, &[named]).await.unwrap_err();
    assert!(matches!(error.problem, DatabaseProblem::InvalidRecord { .. }), "{error}");
    database.write(&place, &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_that_is_swapped_while_searches_run_always_leads_to_a_whole_collection() {
    let Some(server) = QdrantServer::start(&[]).await else { return };
    let database = Arc::new(open(&server.url()));
    let places = ["reverie_left", "reverie_right"].map(CollectionPlace::filled);
    for place in &places {
        let record = IndexedRecord { text: place.name.clone(), ..clustered(1).remove(0) };
        fill(&*database, place, &spec(&place.name, DIMENSIONS, HNSW), &[record]).await;
    }
    database.swap("manuals", &places[0]).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let searching = tokio::spawn({
        let (database, is_over) = (open(&server.url()), is_over.clone());
        async move {
            let vector = clustered(1).remove(0).vector;
            let queries = vec![DatabaseQuery { vector: &vector, filter: None }; 64];
            let options = SearchOptions { with_content: true, ..SearchOptions::top(1) };
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            while !is_over.load(Ordering::Relaxed) {
                let found = database.search(&CollectionPlace::filled("manuals"), &queries, &options).await.unwrap();
                for found in found {
                    *seen.entry(found.records[0].content.clone().unwrap().text).or_default() += 1;
                }
            }
            seen
        }
    });
    for swaps in 1..60 {
        let previous = database.swap("manuals", &places[swaps % 2]).await.unwrap();
        assert_eq!(previous.as_deref(), Some(places[(swaps + 1) % 2].name.as_str()));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let seen = searching.await.unwrap();
    assert!(seen.len() == 2 && seen.values().sum::<usize>() >= 128, "{seen:?}");

    // An alias of the user's own is not Reverie's.
    put(&server, "collections/users", json!({ "vectors": { "size": 3, "distance": "Dot" } })).await;
    let action = json!({ "create_alias": { "collection_name": "users", "alias_name": "users_alias" } });
    send(&server, reqwest::Method::POST, "collections/aliases", json!({ "actions": [action] })).await;
    let error = database.swap("users_alias", &places[0]).await.unwrap_err();
    assert_eq!(error.problem, DatabaseProblem::ForeignCollection);
    let aliases = database.aliases().await.unwrap();
    assert_eq!(aliases.keys().collect::<Vec<_>>(), ["manuals"]);
    // The name of an alias is no name of a collection.
    let through = CollectionPlace::filled("manuals");
    let foreign =
        |result: Result<(), Error>| assert_eq!(result.unwrap_err().problem, DatabaseProblem::ForeignCollection);
    foreign(database.create(&through, &spec("reverie_left", DIMENSIONS, HNSW)).await);
    foreign(database.drop_collection(&through, "reverie_left").await);
    foreign(database.delete(&through, &[number(0)]).await);
    assert_eq!(database.count(&through).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_is_there_from_the_first_moment_and_no_search_finds_it() {
    let Some(server) = QdrantServer::start(&[]).await else { return };
    let database = open(&server.url());
    let place = CollectionPlace::filled("reverie_ü \u{1f701}");
    let key = "key / with: \"all\" *kinds* of ü";
    let spec = spec(key, 3, HNSW);
    database.create(&place, &spec).await.unwrap();
    let manifest = database.describe(&place).await.unwrap().unwrap().manifest.unwrap();
    assert_eq!(manifest, IndexManifest::of_filling(&spec));
    assert_eq!(database.list().await.unwrap(), [(place.clone(), manifest.clone())]);
    let complete = IndexManifest { rows: Some(0), ..manifest };
    database.write_manifest(&place, &complete).await.unwrap();
    assert_eq!(database.list().await.unwrap(), [(place.clone(), complete)]);
    assert_eq!(database.count(&place).await.unwrap(), 0);
    assert!(database.first_records(&place, &RecordFilter::default(), 5).await.unwrap().is_empty());
    for exact in [false, true] {
        let query = [DatabaseQuery { vector: &[1.0, 0.0, 0.0], filter: None }];
        let options = SearchOptions { exact, with_content: true, ..SearchOptions::top(5) };
        assert!(database.search(&place, &query, &options).await.unwrap()[0].records.is_empty());
    }
    let ids = [text("72657665-7269-4500-8000-6d616e696665")];
    assert_eq!(database.read(&place, &ids).await.unwrap(), [None]);
    // Another process with other dimensions, and a key that does not fit.
    let other = CollectionSpec { dimensions: 4, ..spec.clone() };
    assert_eq!(database.create(&place, &other).await.unwrap_err().problem, DatabaseProblem::ForeignCollection);
    let long = CollectionSpec { key: "k".repeat(300), ..spec };
    let error = database.create(&CollectionPlace::filled("reverie_long"), &long).await.unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
    database.drop_collection(&place, key).await.unwrap();
    assert!(database.list().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_returned_as_they_were_and_ties_are_ordered_by_id() {
    let Some(server) = QdrantServer::start(&[]).await else { return };
    let database = open(&server.url());
    let place = CollectionPlace::filled("reverie_fields");
    let all = json!({
        "": "empty name", "a.b": [[1], { "c.d": null }], "\u{0}": "a\u{0}b", "it \"is\"": "\\", "𝕏": "e\u{301}",
        "numbers": [0.1, 2021.0, 1e300, -0.0, 5e-324, 18_446_744_073_709_551_615_u64, i64::MIN], "none": null, "text": "x",
        "fields": { "exact_fields": 1 }, "deep": (0..60).fold(json!(1), |inner, _| json!([inner])),
    });
    let record = |id: u64, vector: &[f32], all: &Value| IndexedRecord {
        id: number(id),
        vector: unit(vector),
        text: if id == 3 { String::new() } else { format!("text {id}\u{0}") },
        fields: fields(all.clone()),
    };
    let plain = json!({ "page": 7, "tag": "ä" });
    let mut records: Vec<IndexedRecord> = (0..40).rev().map(|id| record(id, &[1.0, 0.0], &plain)).collect();
    records.push(record(u64::MAX, &[0.0, 1.0], &all));
    fill(&database, &place, &spec("fields", 2, HNSW), &records).await;
    let read = database.read(&place, &[number(u64::MAX), number(3), number(77)]).await.unwrap();
    assert_eq!(read[0].as_ref(), records.last());
    assert_eq!((read[1].as_ref().unwrap().text.as_str(), &read[1].as_ref().unwrap().fields), ("", &fields(plain)));
    assert_eq!(read[2], None);
    let query = DatabaseQuery { vector: &[1.0, 0.0], filter: None };
    let found = database.search(&place, &[query], &SearchOptions::top(40)).await.unwrap().remove(0).records;
    assert_eq!(
        found.iter().map(|record| record.id.clone()).collect::<Vec<_>>(),
        (0..40).map(number).collect::<Vec<_>>()
    );
    // Fields with names that need quotes, and one that Qdrant cannot name.
    for (field, value, passing) in
        [("", "empty name", 1), ("\u{0}", "a\u{0}b", 1), ("it \"is\"", "\\", 1), ("tag", "ä", 40), ("tag", "a", 0)]
    {
        let test = FieldTest::OneOf(vec![ScalarValue::Text(value.to_owned())]);
        let filter = RecordFilter { ids: None, tests: [(field.to_owned(), test)].into() };
        let query = DatabaseQuery { vector: &[1.0, 0.0], filter: Some(&filter) };
        let found = database.search(&place, &[query], &SearchOptions::top(50)).await.unwrap().remove(0);
        assert_eq!((found.records.len(), found.is_cut), (passing, false), "{field}");
        assert_eq!(database.first_records(&place, &filter, 50).await.unwrap().len(), passing, "{field}");
    }
    let pages = database.first_records(&place, &RecordFilter::default(), 1_000).await.unwrap();
    assert!(pages.len() == 41 && pages.is_sorted_by(|a, b| a.id < b.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_of_the_users_own_is_read_by_the_names_that_they_give() {
    let Some(server) = QdrantServer::start(&[]).await else { return };
    let database = open(&server.url());
    let vectors = json!({
        "title": { "size": 2, "distance": "Cosine" },
        "body": { "size": 3, "distance": "Dot" },
        "far": { "size": 3, "distance": "Manhattan" },
    });
    put(&server, "collections/books", json!({ "vectors": vectors })).await;
    let point = |id: Value, vector: Value, year: Value| {
        let payload = json!({ "content": { "text": format!("book {id}") }, "meta": { "a.b": year, "n": [1, "x"] }, "kind": "book" });
        json!({ "id": id, "vector": vector, "payload": payload })
    };
    let id = "550E8400E29B41D4A716446655440000";
    let points = [
        point(json!(7), json!({ "title": [1.0, 0.0], "body": [1.0, 0.0, 0.0] }), json!(2020)),
        point(json!(id), json!({ "body": [0.0, 1.0, 0.0] }), json!("2021")),
        point(json!(9), json!({ "title": [0.0, 1.0] }), json!(2022.5)),
        json!({ "id": 10, "vector": { "body": [0.0, 0.0, 1.0] } }),
    ];
    put(&server, "collections/books/points?wait=true", json!({ "points": points })).await;
    let usual = ExistingFields {
        vector: "body".to_owned(),
        text: Some("content.text".to_owned()),
        metadata: Some("meta".to_owned()),
        fields: [("year", "meta.\"a.b\""), ("kind", "kind"), ("absent", "x.y")]
            .map(|(name, key)| (name.to_owned(), key.to_owned()))
            .into(),
        metric: VectorMetric::InnerProduct,
        ..ExistingFields::default()
    };
    let place = |fields: ExistingFields| CollectionPlace::existing("books", fields);
    let body = place(usual.clone());
    let described = database.describe(&body).await.unwrap().unwrap();
    assert_eq!((described.check(&body, 3), described.rows, described.manifest), (Ok(()), 4, None));
    assert!(["content", "kind", "year", "n"].iter().all(|name| described.fields.contains_key(*name)));
    let wrong = place(ExistingFields { vector: "title".to_owned(), ..usual.clone() });
    let described = database.describe(&wrong).await.unwrap().unwrap();
    assert_eq!(described.check(&wrong, 3), Err(DatabaseProblem::Dimensions { expected: 3, found: 2 }));
    let other = DatabaseProblem::OtherMetric { expected: VectorMetric::InnerProduct, found: VectorMetric::Cosine };
    assert_eq!(described.check(&wrong, 2), Err(other));
    let known = || ["body", "far", "title"].map(str::to_owned).to_vec();
    let missing = place(ExistingFields { vector: "absent".to_owned(), ..usual.clone() });
    let error = database.describe(&missing).await.unwrap_err();
    assert_eq!(error.problem, DatabaseProblem::MissingField { field: "absent".to_owned(), known: known() });
    let far = place(ExistingFields { vector: "far".to_owned(), ..usual.clone() });
    assert!(database.describe(&far).await.unwrap_err().to_string().contains("Manhattan"));
    let no_text = place(ExistingFields { text: Some("txt".to_owned()), ..usual.clone() });
    let error = database.describe(&no_text).await.unwrap_err();
    assert!(matches!(&error.problem, DatabaseProblem::MissingField { field, .. } if field == "txt"), "{error}");

    let canonical = text("550e8400-e29b-41d4-a716-446655440000");
    let read = database.read(&body, &[text(id), text("7"), text("no id"), number(9), text("007")]).await.unwrap();
    let first = read[0].as_ref().unwrap();
    assert_eq!((&first.id, first.text.as_str()), (&canonical, format!("book \"{id}\"").as_str()));
    let all = json!({ "year": "2021", "a.b": "2021", "n": [1, "x"], "kind": "book" });
    assert_eq!((&first.vector, &first.fields), (&vec![0.0, 1.0, 0.0], &fields(all)));
    assert_eq!(read[1].as_ref().unwrap().id, number(7));
    assert!(read[2].is_none() && read[4].is_none());
    assert!(read[3].as_ref().unwrap().vector.is_empty(), "this point has no such vector");

    let search = async |place: &CollectionPlace, filter: Option<&RecordFilter>| {
        let query = DatabaseQuery { vector: &[0.6, 0.8, 0.0], filter };
        let found = database.search(place, &[query], &SearchOptions::top(5)).await?;
        Ok::<_, Error>(found[0].records.iter().map(|record| (record.id.clone(), record.score)).collect::<Vec<_>>())
    };
    let found = search(&body, None).await.unwrap();
    assert_eq!(found.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), [canonical.clone(), number(7), number(10)]);
    assert!((found[0].1 - 0.8).abs() < 1e-6 && (found[1].1 - 0.6).abs() < 1e-6);
    let from = |least| FieldBounds { ge: Some(ScalarValue::Number(least)), ..FieldBounds::default() };
    let year = RecordFilter { ids: None, tests: [("year".to_owned(), FieldTest::Within(from(2000.0)))].into() };
    assert_eq!(search(&body, Some(&year)).await.unwrap().len(), 1);
    let among = RecordFilter { ids: Some(vec![text(id), text("no id")]), tests: BTreeMap::new() };
    assert_eq!(search(&body, Some(&among)).await.unwrap(), [(canonical, found[0].1)]);
    let nowhere = RecordFilter { ids: Some(vec![text("no id")]), tests: BTreeMap::new() };
    assert!(search(&body, Some(&nowhere)).await.unwrap().is_empty());
    let condition = json!({ "must_not": [{ "has_id": [7] }] }).to_string();
    let limited = place(ExistingFields { condition: Some(condition), ..usual.clone() });
    assert_eq!(search(&limited, None).await.unwrap().len(), 2);
    let other_id = place(ExistingFields { id: Some("isbn".to_owned()), ..usual.clone() });
    assert!(search(&other_id, None).await.unwrap_err().to_string().contains("leave out the field `id`"));
    let same_id = place(ExistingFields { id: Some("id".to_owned()), ..usual.clone() });
    assert_eq!(search(&same_id, None).await.unwrap().len(), 3);
    let no_json = place(ExistingFields { condition: Some("kind = 'book'".to_owned()), ..usual });
    assert!(search(&no_json, None).await.unwrap_err().to_string().contains("is not JSON"));
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_are_refused_without_the_key_in_any_message() {
    let keys = ["--api-key", "planted-write-0123", "--read-only-api-key", "planted-read-4567"];
    let Some(server) = QdrantServer::start(&keys).await else { return };
    let with = |key: Option<&str>| {
        let settings = AccessSettings { api_key: key.map(str::to_owned), ..AccessSettings::new(&server.url()) };
        QdrantDatabase::open(settings).unwrap()
    };
    let place = CollectionPlace::filled("reverie_a");
    let writer = with(Some("planted-write-0123"));
    let described = writer.describe_server().await.unwrap();
    assert_eq!((described.version.as_str(), described.can_create), ("Qdrant 1.19.0", true));
    writer.create(&place, &spec("k", 3, HNSW)).await.unwrap();
    let reader = with(Some("planted-read-4567"));
    assert!(!reader.describe_server().await.unwrap().can_create);
    assert_eq!(reader.count(&place).await.unwrap(), 0);
    let errors = [
        (with(None).describe_server().await.unwrap_err(), "the login was refused: Must provide an API key"),
        (with(Some("planted-wrong-89")).count(&place).await.unwrap_err(), "the login was refused: Invalid API key"),
        (reader.write(&place, &[clustered_of(3)]).await.unwrap_err(), "not permitted"),
        (reader.drop_collection(&place, "k").await.unwrap_err(), "not permitted"),
    ];
    for (error, expected) in errors {
        let (message, debug) = (error.to_string(), format!("{error:?} {writer:?} {reader:?}"));
        assert!(message.contains(expected) && !error.is_transient(), "{message}");
        assert!(!message.contains("planted") && !debug.contains("planted"), "{message} {debug}");
    }
}

fn clustered_of(dimensions: usize) -> IndexedRecord {
    IndexedRecord { vector: unit(&vec![1.0; dimensions]), ..clustered(1).remove(0) }
}

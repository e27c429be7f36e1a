//! Milvus Lite: the conformance test, kills in the middle of a fill, and collections that Milvus' own client made.

use crate::{
    conformance::{self, DIMENSIONS, TestDatabase, clustered, exact, fields, fill, recall, spec, unit},
    servers::MilvusServer,
};
use databases::{
    AccessSettings, CollectionPlace, CollectionSpec, DatabaseProblem, DatabaseQuery, ExistingFields, FieldBounds,
    FieldTest, IndexedRecord, MilvusDatabase, RecordFilter, RecordId, ScalarValue, SearchIndexSpec, SearchOptions,
    StoredPrecision, TextSearch, VectorDatabase, VectorMetric, WordQuery,
};
use futures::{StreamExt, stream};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const HNSW: SearchIndexSpec = SearchIndexSpec::Hnsw { m: 16, ef_construction: 100, ef: 64 };

pub fn open(url: &str) -> MilvusDatabase {
    MilvusDatabase::open(AccessSettings::new(url), "default").unwrap()
}

struct Milvus(MilvusServer);

impl TestDatabase for Milvus {
    fn open(&self) -> Arc<dyn VectorDatabase> {
        Arc::new(open(&self.0.url()))
    }

    fn index(&self) -> SearchIndexSpec {
        HNSW
    }

    async fn make_existing(&self, name: &str, records: &[IndexedRecord]) -> CollectionPlace {
        const MAKE: &str = "
schema = client.create_schema(enable_dynamic_field=True)
schema.add_field('name', DataType.VARCHAR, is_primary=True, max_length=100)
schema.add_field('embedding', DataType.FLOAT_VECTOR, dim=len(data['rows'][0]['embedding']))
schema.add_field('body', DataType.VARCHAR, max_length=1000)
index = client.prepare_index_params()
index.add_index('embedding', index_type='AUTOINDEX', metric_type='L2')
client.create_collection(data['name'], schema=schema, index_params=index)
client.insert(data['name'], data['rows'])
";
        let rows = records.iter().map(|record| {
            let mut row = record.fields.clone();
            row.insert("name".to_owned(), json!(record.id.to_string()));
            row.insert("body".to_owned(), json!(record.text));
            row.insert("embedding".to_owned(), json!(record.vector));
            row
        });
        self.0.run(MAKE, &json!({ "name": name, "rows": rows.collect::<Vec<_>>() })).await;
        let fields = ExistingFields {
            text: Some("body".to_owned()),
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
async fn milvus_conforms() {
    let Some(server) = MilvusServer::start().await else { return };
    conformance::conforms(&Milvus(server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_index_finds_what_it_should_and_is_what_was_asked_for() {
    let Some(server) = MilvusServer::start().await else { return };
    let database = open(&server.url());
    let records = clustered(3_000);
    for (name, index, kind, least) in [
        ("reverie_flat", SearchIndexSpec::Exact, "FLAT", 1.0),
        ("reverie_lists", SearchIndexSpec::Ivfflat { lists: 20 }, "IVF_FLAT", 0.9),
        ("reverie_some_lists", SearchIndexSpec::Ivfflat { lists: 0 }, "IVF_FLAT", 0.9),
        ("reverie_graph", SearchIndexSpec::Hnsw { m: 8, ef_construction: 40, ef: 10 }, "HNSW", 0.9),
    ] {
        let (place, spec) = (CollectionPlace::filled(name), spec(name, DIMENSIONS, index));
        fill(&database, &place, &spec, &records).await;
        let (mut sum, options) = (0.0, SearchOptions { probes: Some(5), ef: Some(50), ..SearchOptions::top(10) });
        for record in records.iter().step_by(60) {
            let query = DatabaseQuery { vector: &record.vector, filter: None };
            let found = database.search(&place, &[query], &options).await.unwrap().remove(0);
            assert_eq!(found.is_exact, index == SearchIndexSpec::Exact, "{name}");
            sum += recall(&found.records, &exact(&records, &record.vector, 10));
        }
        println!("{name}: recall@10 {:.3}", sum / 50.0);
        assert!(sum / 50.0 >= least, "{name}: {}", sum / 50.0);
        let described = server.run("print(client.describe_index(data, 'vector'))", &json!(name)).await;
        assert!(described.contains(&format!("'index_type': '{kind}'")), "{described}");
        let expected = match index {
            SearchIndexSpec::Exact => "COSINE",
            SearchIndexSpec::Ivfflat { lists: 20 } => "'nlist': 20",
            SearchIndexSpec::Ivfflat { .. } => "'nlist': 3}",
            SearchIndexSpec::Hnsw { .. } => "'efConstruction': 40",
        };
        assert!(described.replace('"', "'").contains(expected), "{described}");
        // Once more changes nothing.
        database.complete(&place, &spec, &|_| {}).await.unwrap();
        assert_eq!(database.count(&place).await.unwrap(), 3_000);
    }
    let half = CollectionSpec { precision: StoredPrecision::F16, ..spec("k", 3, HNSW) };
    let refused = database.create(&CollectionPlace::filled("reverie_half"), &half).await.unwrap_err();
    assert!(refused.to_string().contains("32 bits"), "{refused}");
    assert_eq!(database.describe(&CollectionPlace::filled("reverie_half")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_milvus_server_killed_while_it_is_written_to_loses_and_doubles_nothing() {
    let Some(mut server) = MilvusServer::start().await else { return };
    let (place, spec) = (CollectionPlace::filled("reverie_killed"), spec("killed", DIMENSIONS, HNSW));
    let records = clustered(6_000);
    let database = Arc::new(open(&server.url()));
    database.create(&place, &spec).await.unwrap();
    let parts: Vec<Vec<IndexedRecord>> = records.chunks(1_000).map(<[_]>::to_vec).collect();
    let (mut written, mut kills) = (0, 0);
    while written < parts.len() {
        let writing = tokio::spawn({
            let (database, place, part) = (database.clone(), place.clone(), parts[written].clone());
            async move { database.write(&place, &part).await }
        });
        if kills < 2 && written % 2 == 1 {
            tokio::time::sleep(Duration::from_millis(20 + 60 * kills)).await;
            server.kill();
            kills += 1;
            match writing.await.unwrap() {
                Ok(()) => written += 1,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
            server.restart().await;
            // What was acknowledged is there.
            assert!(database.count(&place).await.unwrap() >= 1_000 * written as u64);
            continue;
        }
        writing.await.unwrap().unwrap();
        written += 1;
    }
    // Before the index is built, and after it: a collection that is not in memory is loaded by the first search.
    server.kill();
    server.restart().await;
    database.complete(&place, &spec, &|_| {}).await.unwrap();
    server.kill();
    server.restart().await;
    let query = DatabaseQuery { vector: &records[5].vector, filter: None };
    let found = database.search(&place, &[query], &SearchOptions::top(1)).await.unwrap().remove(0);
    assert_eq!(found.records[0].id, RecordId::Number(5));
    assert_eq!((database.count(&place).await.unwrap(), kills), (6_000, 2));
    let manifest = database.describe(&place).await.unwrap().unwrap().manifest.unwrap();
    assert!(manifest.key == "killed" && !manifest.is_complete());
    let read = database.read(&place, &(0..6_000).map(RecordId::Number).collect::<Vec<_>>()).await.unwrap();
    assert!(read.iter().zip(&records).all(|(read, record)| read.as_ref().is_some_and(|read| read.text == record.text)));
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_that_many_tasks_write_at_once_survive_a_kill() {
    let Some(mut server) = MilvusServer::start_with_default_workers().await else { return };
    let (place, spec) = (CollectionPlace::filled("reverie_at_once"), spec("at once", DIMENSIONS, HNSW));
    let records = clustered(8_000);
    let database = open(&server.url());
    database.create(&place, &spec).await.unwrap();
    let writes: Vec<_> = records.chunks(100).map(|part| database.write(&place, part)).collect();
    let written: Vec<_> = stream::iter(writes).buffer_unordered(16).collect().await;
    assert!(written.iter().all(Result::is_ok));
    server.kill();
    server.restart().await;
    assert_eq!(database.count(&place).await.unwrap(), 8_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_texts_unusual_values_and_large_parts_are_stored_as_they_are() {
    let Some(server) = MilvusServer::start().await else { return };
    let database = open(&server.url());
    let (place, spec) = (CollectionPlace::filled("reverie_long"), spec("long", 3, SearchIndexSpec::Exact));
    database.create(&place, &spec).await.unwrap();
    let record = |id: u64, text: String, all: serde_json::Value| IndexedRecord {
        id: RecordId::Number(id),
        vector: unit(&[1.0, id as f32, 0.5]),
        text,
        fields: fields(all),
    };
    let mut records = vec![
        record(0, "ä".repeat(65_536), json!({ "a": "x".repeat(60_000) })),
        record(1, "🜁b".repeat(100_000), json!({ "\0": "a\0b", "": [], "$meta": { "id": 3 }, "id": "text" })),
        record(2, "\0".to_owned(), json!({ "n": [1.0, -0.0, 1e-300, 1e300, u64::MAX, i64::MIN, 0.1] })),
        record(
            i64::MAX as u64,
            String::new(),
            json!({ "fields_kind": 7, "text_rest": ["x"], "rare": 1, "deep": [[[{ "a": [] }]]] }),
        ),
    ];
    // Far more than one request holds, in texts that only fit into pieces.
    records.extend((10..50).map(|id| record(id, "e\u{301}\n".repeat(300_000), json!({}))));
    database.write(&place, &records).await.unwrap();
    database.complete(&place, &spec, &|_| {}).await.unwrap();
    let ids: Vec<RecordId> = records.iter().map(|record| record.id.clone()).collect();
    for (read, record) in database.read(&place, &ids).await.unwrap().iter().zip(&records) {
        let read = read.as_ref().unwrap();
        assert!(read.text == record.text, "{}", record.id);
        assert_eq!((&read.id, &read.fields), (&record.id, &record.fields));
    }
    let options = SearchOptions { with_content: true, ..SearchOptions::top(1) };
    let query = DatabaseQuery { vector: &records[1].vector, filter: None };
    let found = database.search(&place, &[query], &options).await.unwrap().remove(0).records.remove(0);
    assert!(found.id == RecordId::Number(1) && found.content.unwrap().text == records[1].text);
    // Fields count as well: these are 90 MB.
    let wide: Vec<IndexedRecord> =
        (100..1_600).map(|id| record(id, String::new(), json!({ "a": "x".repeat(60_000) }))).collect();
    database.write(&place, &wide).await.unwrap();
    let wide = RecordFilter { ids: Some((100..1_600).map(RecordId::Number).collect()), tests: BTreeMap::new() };
    assert_eq!(database.first_records(&place, &wide, 2_000).await.unwrap().len(), 1_500);
    database.delete(&place, wide.ids.as_deref().unwrap()).await.unwrap();
    // A text that no record of the best ones has is looked for among long texts, and an id that is named twice.
    let rare = FieldTest::Within(FieldBounds { ne: Some(ScalarValue::Number(0.0)), ..FieldBounds::default() });
    let rare = RecordFilter { ids: None, tests: [("rare".to_owned(), rare)].into() };
    let twice = RecordFilter { ids: Some([1, 2, 1].map(RecordId::Number).to_vec()), tests: BTreeMap::new() };
    for (filter, expected) in [(&rare, 1), (&twice, 2)] {
        let query = DatabaseQuery { vector: &records[8].vector, filter: Some(filter) };
        let found = database.search(&place, &[query], &SearchOptions { top: 3, ..options }).await.unwrap().remove(0);
        assert!(found.records.len() == expected && !found.is_cut, "{found:?}");
        assert_eq!(database.first_records(&place, filter, 9).await.unwrap().len(), expected);
    }
    let read = database.read(&place, &[RecordId::Number(1), RecordId::Number(1)]).await.unwrap();
    assert!(read.iter().all(Option::is_some));
    // What cannot be stored is refused, and nothing of its part is lost silently.
    let large = record(60, String::new(), json!({ "a": "x".repeat(70_000) }));
    for refused in [large, record(u64::MAX, String::new(), json!({}))] {
        let error = database.write(&place, std::slice::from_ref(&refused)).await.unwrap_err();
        assert!(matches!(&error.problem, DatabaseProblem::InvalidRecord { id, .. } if *id == refused.id), "{error}");
    }
    assert_eq!(database.count(&place).await.unwrap(), 44);
    assert_eq!(
        database.read(&place, &[RecordId::Text("x".to_owned()), RecordId::Number(u64::MAX)]).await.unwrap(),
        [None, None]
    );
    let many: Vec<RecordId> = (0..25_000).map(RecordId::Number).collect();
    database.delete(&place, &many).await.unwrap();
    database.delete(&place, &[RecordId::Text("x".to_owned()), RecordId::Number(u64::MAX)]).await.unwrap();
    assert_eq!(database.count(&place).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_is_swapped_while_many_searches_run() {
    let Some(server) = MilvusServer::start().await else { return };
    let database = Arc::new(open(&server.url()));
    let places = ["reverie_blue", "reverie_green"].map(CollectionPlace::filled);
    for place in &places {
        let mut records = clustered(200);
        records.iter_mut().for_each(|record| record.text.clone_from(&place.name));
        fill(&*database, place, &spec(&place.name, DIMENSIONS, HNSW), &records).await;
    }
    database.swap("live", &places[0]).await.unwrap();
    let vectors: Vec<Vec<f32>> = clustered(200).into_iter().map(|record| record.vector).collect();
    let searching = tokio::spawn({
        let (other, vectors) = (open(&server.url()), vectors.clone());
        async move {
            let queries: Vec<DatabaseQuery<'_>> =
                vectors.iter().map(|vector| DatabaseQuery { vector, filter: None }).collect();
            let options = SearchOptions { with_content: true, ..SearchOptions::top(3) };
            other.search(&CollectionPlace::filled("live"), &queries, &options).await.unwrap()
        }
    });
    for turn in 1..20 {
        let before = database.swap("live", &places[turn % 2]).await.unwrap();
        assert_eq!(before.as_deref(), Some(places[(turn + 1) % 2].name.as_str()));
    }
    let found = searching.await.unwrap();
    assert_eq!(found.len(), 200);
    for found in found {
        let texts: Vec<String> = found.records.into_iter().map(|record| record.content.unwrap().text).collect();
        assert!(texts.len() == 3 && texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    }
    assert_eq!(database.aliases().await.unwrap().len(), 1);
}

const MAKE_DOCUMENTS: &str = "
schema = client.create_schema(enable_dynamic_field=True)
schema.add_field('number', DataType.INT64, is_primary=True)
schema.add_field('code', DataType.VARCHAR, max_length=50)
schema.add_field('e', DataType.FLOAT_VECTOR, dim=3)
schema.add_field('inhalt', DataType.VARCHAR, max_length=1000)
schema.add_field('year', DataType.INT32, nullable=True)
schema.add_field('share', DataType.DOUBLE, nullable=True)
schema.add_field('open', DataType.BOOL)
schema.add_field('tags', DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=9, max_length=50)
schema.add_field('meta', DataType.JSON, nullable=True)
index = client.prepare_index_params()
index.add_index('e', index_type='HNSW', metric_type='IP', params={'M': 8, 'efConstruction': 20})
client.create_collection('documents', schema=schema, index_params=index)
client.insert('documents', data)
client.create_alias('documents', 'papers')
client.release_collection('documents')
schema = client.create_schema()
schema.add_field('id', DataType.INT64, is_primary=True)
schema.add_field('sparse', DataType.SPARSE_FLOAT_VECTOR)
client.create_collection('words', schema=schema)
";

async fn documents(server: &MilvusServer) -> ExistingFields {
    let rows: Vec<_> = (0..5)
        .map(|number| {
            json!({
                "number": number, "code": format!("c\"{number}\\"), "e": unit(&[1.0, number as f32, 0.0]),
                "inhalt": format!("text {number}"), "year": (number != 3).then_some(2020 + number), "share": 0.1 * f64::from(number),
                "open": number % 2 == 0, "tags": [format!("t{number}"), "all"],
                "meta": (number != 2).then(|| json!({ "author": format!("Ann {number}"), "deep": { "x": [number] } })),
                "loose": number, "list": [number, "x"], "a b": "c",
            })
        })
        .collect();
    server.run(MAKE_DOCUMENTS, &json!(rows)).await;
    ExistingFields {
        vector: "e".to_owned(),
        text: Some("inhalt".to_owned()),
        metric: VectorMetric::InnerProduct,
        ..ExistingFields::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_a_collection_of_the_users_own_are_read_and_filtered() {
    let Some(server) = MilvusServer::start().await else { return };
    let usual = documents(&server).await;
    let database = open(&server.url());
    let named = [("writer", "meta.author"), ("loose too", "loose"), ("when", "year")];
    let fields_named = named.iter().map(|(name, path)| ((*name).to_owned(), (*path).to_owned())).collect();
    let place = CollectionPlace::existing("documents", ExistingFields { fields: fields_named, ..usual.clone() });
    let described = database.describe(&place).await.unwrap().unwrap();
    assert_eq!(described.check(&place, 3), Ok(()), "{described:?}");
    assert_eq!(
        (
            described.rows,
            described.key.as_deref(),
            described.fields["year"].as_str(),
            described.fields["loose"].as_str()
        ),
        (5, Some("number"), "Int32", "dynamic")
    );
    let text = |text: &str| ScalarValue::Text(text.to_owned());
    let one_of = |value: ScalarValue| FieldTest::OneOf(vec![value]);
    let from = |value: ScalarValue| FieldTest::Within(FieldBounds { ge: Some(value), ..FieldBounds::default() });
    for (field, test, expected) in [
        ("code", one_of(text("c\"1\\")), vec![1]),
        ("year", one_of(ScalarValue::Number(2021.0)), vec![1]),
        ("when", from(ScalarValue::Number(2021.5)), vec![2, 4]),
        ("share", from(ScalarValue::Number(0.2)), vec![2, 3, 4]),
        ("share", one_of(ScalarValue::Number(0.1)), vec![1]),
        ("open", one_of(ScalarValue::Bool(true)), vec![0, 2, 4]),
        ("tags", one_of(text("t3")), vec![3]),
        ("tags", from(text("b")), vec![0, 1, 2, 3, 4]),
        ("writer", one_of(text("Ann 4")), vec![4]),
        ("loose", from(ScalarValue::Number(3.0)), vec![3, 4]),
        ("loose too", one_of(ScalarValue::Number(2.0)), vec![2]),
        ("list", one_of(ScalarValue::Number(2.0)), vec![2]),
        ("a b", one_of(text("c")), vec![0, 1, 2, 3, 4]),
        ("absent", one_of(text("c")), vec![]),
        ("meta", one_of(text("c")), vec![]),
    ] {
        let filter = RecordFilter { ids: None, tests: [(field.to_owned(), test)].into() };
        let query = DatabaseQuery { vector: &[1.0, 0.0, 0.0], filter: Some(&filter) };
        let options = SearchOptions { with_content: true, ..SearchOptions::top(10) };
        // Also by an alias of the user's.
        for place in [place.clone(), CollectionPlace { name: "papers".to_owned(), ..place.clone() }] {
            let found = database.search(&place, &[query], &options).await.unwrap().remove(0).records;
            let texts: Vec<String> = found.iter().map(|record| record.content.clone().unwrap().text).collect();
            assert_eq!(texts, expected.iter().map(|number| format!("text {number}")).collect::<Vec<_>>(), "{field}");
        }
    }
    let all = database.first_records(&place, &RecordFilter::default(), 10).await.unwrap();
    assert_eq!(all[1].id, RecordId::Text("1".to_owned()));
    let expected = json!({ "code": "c\"1\\", "year": 2021, "when": 2021, "share": 0.1, "open": false, "tags": ["t1", "all"],
        "meta": { "author": "Ann 1", "deep": { "x": [1] } }, "writer": "Ann 1", "loose": 1, "loose too": 1,
        "list": [1, "x"], "a b": "c" });
    assert_eq!(all[1].fields, fields(expected));
    assert!(!all[3].fields.contains_key("year") && !all[3].fields.contains_key("when"), "{:?}", all[3]);
    assert!(!all[2].fields.contains_key("meta") && !all[2].fields.contains_key("writer"), "{:?}", all[2]);

    // Another id, the fields of one object, a condition on all.
    let by_code = ExistingFields {
        id: Some("code".to_owned()),
        metadata: Some("meta".to_owned()),
        condition: Some("year > 2020 or year is null".to_owned()),
        ..usual.clone()
    };
    let by_code = CollectionPlace::existing("documents", by_code);
    assert_eq!(database.count(&by_code).await.unwrap(), 4);
    let ids = ["c\"0\\", "c\"1\\"].map(|id| RecordId::Text(id.to_owned()));
    let read = database.read(&by_code, &ids).await.unwrap();
    let author = json!({ "author": "Ann 1", "deep": { "x": [1] } });
    assert!(
        read[0].is_none() && read[1].as_ref().is_some_and(|read| read.id == ids[1] && read.fields == fields(author))
    );
    let filter = RecordFilter { ids: Some(ids.to_vec()), tests: BTreeMap::new() };
    let query = DatabaseQuery { vector: &[1.0, 0.0, 0.0], filter: Some(&filter) };
    let found = database.search(&by_code, &[query], &SearchOptions::top(10)).await.unwrap().remove(0);
    assert!(found.records.len() == 1 && found.is_exact && (found.records[0].score - 0.5f32.sqrt()).abs() < 1e-6);
    let dynamic = ExistingFields { metadata: Some("$meta".to_owned()), ..usual };
    let dynamic = CollectionPlace::existing("documents", dynamic);
    let first = database.first_records(&dynamic, &RecordFilter::default(), 1).await.unwrap();
    assert_eq!(first[0].fields, fields(json!({ "loose": 0, "list": [0, "x"], "a b": "c" })));
}

const MAKE_NOTES: &str = "
from pymilvus import Function, FunctionType
schema = client.create_schema(enable_dynamic_field=True)
schema.add_field('id', DataType.INT64, is_primary=True)
schema.add_field('e', DataType.FLOAT_VECTOR, dim=3)
schema.add_field('body', DataType.VARCHAR, max_length=1000, enable_analyzer=True)
schema.add_field('sparse', DataType.SPARSE_FLOAT_VECTOR)
schema.add_function(Function(name='bm25', function_type=FunctionType.BM25, input_field_names=['body'], output_field_names='sparse'))
index = client.prepare_index_params()
index.add_index('e', index_type='FLAT', metric_type='COSINE')
index.add_index('sparse', index_type='SPARSE_INVERTED_INDEX', metric_type='BM25')
client.create_collection('notes', schema=schema, index_params=index)
client.insert('notes', data)
";

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_searched_by_the_field_that_a_function_makes_of_them() {
    let Some(server) = MilvusServer::start().await else { return };
    let texts = [
        "an owl is how an owl turns",
        "owls turn their heads",
        "beavers build dams \u{1f9ab} \"quoted\"",
        "nothing of it",
    ];
    let note = |(id, text): (usize, &str)| json!({ "id": id, "e": [1.0, 0.0, 0.0], "body": text, "lang": if id == 0 { "de" } else { "en" } });
    let notes: Vec<_> = texts.into_iter().enumerate().map(note).collect();
    server.run(MAKE_NOTES, &json!(notes)).await;
    let database = open(&server.url());
    let place = |words: Option<&str>| {
        let search = words.map(|words| TextSearch { words: Some(words.to_owned()), language: None });
        let fields =
            ExistingFields { vector: "e".to_owned(), text: Some("body".to_owned()), ..ExistingFields::default() };
        CollectionPlace::existing("notes", ExistingFields { text_search: search, ..fields })
    };
    let notes = place(Some("sparse"));
    assert_eq!(database.describe(&notes).await.unwrap().unwrap().check(&notes, 3), Ok(()));
    let found = async |text: &str, filter: Option<&RecordFilter>, top: usize| {
        let found =
            database.search_text(&notes, &WordQuery { text, filter, top, with_content: true }).await.unwrap().records;
        assert!(found.iter().all(|record| record.score > 0.0 && record.content.is_some()), "{found:?}");
        assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{found:?}");
        found.into_iter().map(|record| record.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found("how does an owl turn?", None, 10).await, ["0", "1"]);
    assert_eq!(found("how does an owl turn?", None, 1).await, ["0"]);
    assert_eq!(found("quoted \"dams\" \u{1f9ab} \\", None, 10).await, ["2"]);
    let english = FieldTest::OneOf(vec![ScalarValue::Text("en".to_owned())]);
    let english = RecordFilter { ids: None, tests: [("lang".to_owned(), english)].into() };
    assert_eq!(found("owl turn", Some(&english), 10).await, ["1"]);
    let refused = async |words: Option<&str>| {
        let refused = database
            .search_text(&place(words), &WordQuery { text: "owl", filter: None, top: 1, with_content: false })
            .await
            .unwrap_err();
        refused.to_string()
    };
    assert!(refused(None).await.contains("without a field of words"));
    assert!(refused(Some("body")).await.contains("a field of words is a SparseFloatVector"));
    assert!(refused(Some("absent")).await.contains("absent"));
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_that_cannot_be_searched_say_why() {
    let Some(server) = MilvusServer::start().await else { return };
    let usual = documents(&server).await;
    let database = open(&server.url());
    let query = [DatabaseQuery { vector: &[1.0, 0.0, 0.0], filter: None }];
    let search = async |name: &str, fields: ExistingFields| {
        let place = CollectionPlace::existing(name, fields);
        database.search(&place, &query, &SearchOptions::top(1)).await.unwrap_err().problem
    };
    let cosine = ExistingFields { metric: VectorMetric::Cosine, ..usual.clone() };
    let other = DatabaseProblem::OtherMetric { expected: VectorMetric::Cosine, found: VectorMetric::InnerProduct };
    assert_eq!(search("documents", cosine.clone()).await, other);
    let place = CollectionPlace::existing("documents", cosine);
    assert_eq!(database.describe(&place).await.unwrap().unwrap().check(&place, 3), Err(other));
    let no_vector = ExistingFields { vector: "code".to_owned(), ..usual.clone() };
    assert!(search("documents", no_vector).await.to_string().contains("is of the type VarChar"));
    let sparse = ExistingFields { vector: "sparse".to_owned(), text: None, ..usual.clone() };
    assert!(search("words", sparse).await.to_string().contains("SparseFloatVector"));
    let missing = search("words", usual.clone()).await;
    assert!(matches!(&missing, DatabaseProblem::MissingField { field, .. } if field == "inhalt"), "{missing}");
    let bad = ExistingFields { condition: Some("year >".to_owned()), ..usual.clone() };
    assert!(matches!(search("documents", bad).await, DatabaseProblem::Refused { .. }));
    assert_eq!(search("absent", usual.clone()).await, DatabaseProblem::MissingCollection);
    let elsewhere = MilvusDatabase::open(AccessSettings::new(&server.url()), "absent").unwrap();
    let missing = elsewhere.describe_server().await.unwrap_err();
    assert!(matches!(missing.problem, DatabaseProblem::InvalidSettings { .. }), "{missing}");
    assert!(database.describe_server().await.unwrap().version.starts_with("Milvus Lite 3."));
    let long = [DatabaseQuery { vector: &[1.0, 0.0, 0.0], filter: None }];
    let place = CollectionPlace::existing("documents", usual);
    let large = database.search(&place, &long, &SearchOptions::top(20_000)).await.unwrap_err();
    assert!(matches!(large.problem, DatabaseProblem::TooLarge { .. }), "{large}");
    let name = CollectionPlace::filled("a/b");
    let name = database.create(&name, &spec("k", 3, HNSW)).await.unwrap_err();
    assert!(matches!(&name.problem, DatabaseProblem::Refused { message } if message.contains("name")), "{name}");
}

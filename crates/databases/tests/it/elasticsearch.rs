//! Elasticsearch and OpenSearch, with a stub: the conformance test, what their interface asks for, and what goes wrong.

use crate::{
    conformance::{self, DIMENSIONS, TestDatabase, clustered, fields, fill, spec, unit},
    servers::SearchStub,
};
use databases::{
    AccessSettings, CollectionPlace, CollectionSpec, DatabaseProblem, DatabaseQuery, ElasticsearchDatabase,
    ExistingFields, FieldTest, IndexManifest, IndexedRecord, RecordFilter, RecordId, ScalarValue, SearchIndexSpec,
    SearchOptions, StoredPrecision, VectorDatabase, WordQuery, retrying,
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

pub const HNSW: SearchIndexSpec = SearchIndexSpec::Hnsw { m: 16, ef_construction: 100, ef: 100 };

pub fn open(url: &str) -> ElasticsearchDatabase {
    ElasticsearchDatabase::open(AccessSettings::new(url)).unwrap()
}

/// A request of another client.
pub async fn send(stub: &SearchStub, method: reqwest::Method, path: &str, body: String) -> Value {
    let request = store::http_client().build().unwrap().request(method, format!("{}/{path}", stub.url()));
    let sent = request.header("content-type", "application/x-ndjson").body(body).send().await.unwrap();
    let (status, text) = (sent.status(), sent.text().await.unwrap());
    assert!(status.is_success(), "{status}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// Lets something go wrong from now on.
async fn set_faults(stub: &SearchStub, faults: Value) {
    send(stub, reqwest::Method::POST, "_stub", faults.to_string()).await;
}

pub async fn start(product: &str) -> Option<SearchStub> {
    SearchStub::start(product, if product == "opensearch" { "3.2.0" } else { "9.2.0" }, &[]).await
}

struct Search {
    stub: SearchStub,
    product: &'static str,
    index: SearchIndexSpec,
}

impl TestDatabase for Search {
    fn open(&self) -> Arc<dyn VectorDatabase> {
        Arc::new(open(&self.stub.url()))
    }

    fn index(&self) -> SearchIndexSpec {
        self.index
    }

    async fn make_existing(&self, name: &str, records: &[IndexedRecord]) -> CollectionPlace {
        let dimensions = records[0].vector.len();
        let vector = match self.product {
            "elasticsearch" => json!({ "type": "dense_vector", "dims": dimensions }),
            _ => {
                let method = json!({ "name": "hnsw", "engine": "lucene", "space_type": "cosinesimil" });
                json!({ "type": "knn_vector", "dimension": dimensions, "method": method })
            }
        };
        let settings = match self.product {
            "elasticsearch" => json!({}),
            _ => json!({ "index": { "knn": true } }),
        };
        let properties = json!({ "embedding": vector, "text": { "type": "text" }, "metadata": { "type": "object", "enabled": false } });
        let body = json!({ "settings": settings, "mappings": { "properties": properties } });
        send(&self.stub, reqwest::Method::PUT, name, body.to_string()).await;
        let lines = records.iter().map(|record| {
            let source = json!({ "embedding": record.vector, "text": record.text, "metadata": record.fields });
            format!("{}\n{source}\n", json!({ "index": { "_id": record.id.to_string() } }))
        });
        let reply =
            send(&self.stub, reqwest::Method::POST, &format!("{name}/_bulk?refresh=true"), lines.collect()).await;
        assert_eq!(reply["errors"], false, "{reply}");
        CollectionPlace::existing(
            name,
            ExistingFields { metadata: Some("metadata".to_owned()), ..ExistingFields::default() },
        )
    }

    fn stores_null_characters(&self) -> bool {
        true
    }

    fn ties_users_ids_to_text(&self) -> bool {
        true
    }
}

async fn conforms(product: &'static str, version: &str, index: SearchIndexSpec) {
    let Some(stub) = SearchStub::start(product, version, &[]).await else { return };
    conformance::conforms(&Search { stub, product, index }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_9_conforms() {
    conforms("elasticsearch", "9.2.0", HNSW).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_8_without_a_graph_conforms() {
    conforms("elasticsearch", "8.4.0", SearchIndexSpec::Exact).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opensearch_3_conforms() {
    conforms("opensearch", "3.2.0", HNSW).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opensearch_2_without_a_graph_conforms() {
    conforms("opensearch", "2.11.0", SearchIndexSpec::Exact).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_server_killed_while_it_is_written_to_loses_and_doubles_nothing() {
    let Some(mut stub) = start("elasticsearch").await else { return };
    let (place, spec) = (CollectionPlace::filled("reverie_killed"), spec("killed", DIMENSIONS, HNSW));
    let records = clustered(4_000);
    let database = Arc::new(open(&stub.url()));
    database.create(&place, &spec).await.unwrap();
    let parts: Vec<Vec<IndexedRecord>> = records.chunks(500).map(<[_]>::to_vec).collect();
    let (mut written, mut kills, mut partial) = (0, 0, 0);
    while written < parts.len() {
        let is_killed = written % 3 == 1;
        // A part takes half a second, so that it is written in part when the server is killed.
        set_faults(&stub, json!({ "slow_item_ms": u8::from(is_killed) })).await;
        let writing = tokio::spawn({
            let (database, place, part) = (database.clone(), place.clone(), parts[written].clone());
            async move { database.write(&place, &part).await }
        });
        if is_killed {
            tokio::time::sleep(Duration::from_millis(200)).await;
            stub.kill();
            kills += 1;
            // Once the server is away for longer than a call tries, and once it is back while the call still tries.
            if kills % 2 == 1 {
                let error = writing.await.unwrap().unwrap_err();
                assert!(error.is_transient(), "{error}");
                stub.restart().await;
                let count = database.count(&place).await.unwrap();
                let before = 500 * written as u64;
                assert!((before..before + 500).contains(&count), "{count}");
                partial += u32::from(count > before);
                database.write(&place, &parts[written]).await.unwrap();
            } else {
                stub.restart().await;
                writing.await.unwrap().unwrap();
            }
        } else {
            writing.await.unwrap().unwrap();
        }
        written += 1;
    }
    println!("killed {kills} times, {partial} parts were written in part");
    assert!(kills == 3 && partial > 0);
    stub.kill();
    stub.restart().await;
    database.complete(&place, &spec, &|_| {}).await.unwrap();
    assert_eq!(database.count(&place).await.unwrap(), 4_000);
    let read = database.read(&place, &(0..4_000).map(RecordId::Number).collect::<Vec<_>>()).await.unwrap();
    assert!(read.iter().zip(&records).all(|(read, record)| read.as_ref().is_some_and(|read| read.text == record.text)));
}

fn record(id: u64, text: &str, all: Value) -> IndexedRecord {
    let vector = unit(&[1.0, id as f32 / 10.0, 0.5]);
    IndexedRecord { id: RecordId::Number(id), vector, text: text.to_owned(), fields: fields(all) }
}

#[tokio::test(flavor = "multi_thread")]
async fn items_that_a_server_rejects_are_written_again_and_those_that_it_refuses_are_named() {
    let Some(stub) = start("elasticsearch").await else { return };
    let (database, place, spec) = (open(&stub.url()), CollectionPlace::filled("reverie_a"), spec("k", 3, HNSW));
    database.create(&place, &spec).await.unwrap();
    let records: Vec<IndexedRecord> = (0..20).map(|id| record(id, "a", json!({}))).collect();
    set_faults(&stub, json!({ "reject_items": 7 })).await;
    let error = database.write(&place, &records).await.unwrap_err();
    assert!(matches!(error.problem, DatabaseProblem::Busy { .. }) && error.is_transient(), "{error}");
    // The reply has 18 of 20, and says so only in its items.
    assert_eq!(database.count(&place).await.unwrap(), 18);
    let write = async |part: &[IndexedRecord]| {
        retrying(Duration::from_secs(60), || database.write(&place, part)).await.unwrap();
    };
    for part in records.chunks(3) {
        write(part).await;
    }
    assert_eq!(database.count(&place).await.unwrap(), 20);
    set_faults(&stub, json!({})).await;
    let long = IndexedRecord { id: RecordId::Text("ä".repeat(300)), ..record(0, "a", json!({})) };
    let error = database.write(&place, &[record(1, "b", json!({})), long.clone()]).await.unwrap_err();
    assert!(
        matches!(&error.problem, DatabaseProblem::InvalidRecord { id, reason } if *id == long.id && reason.contains("too long")),
        "{error}"
    );
    set_faults(&stub, json!({ "read_only": true })).await;
    let error = database.write(&place, &records).await.unwrap_err();
    assert!(matches!(error.problem, DatabaseProblem::Permission { .. }), "{error}");
    assert!(matches!(
        database.create(&CollectionPlace::filled("reverie_b"), &spec).await.unwrap_err().problem,
        DatabaseProblem::Permission { .. }
    ));
    set_faults(&stub, json!({ "delay_ms": 3_000 })).await;
    let settings = AccessSettings { timeout: Duration::from_secs(1), ..AccessSettings::new(&stub.url()) };
    let hasty = ElasticsearchDatabase::open(settings).unwrap();
    hasty.count(&place).await.unwrap();
    let error = hasty.first_records(&place, &RecordFilter::default(), 1).await.unwrap_err();
    assert!(matches!(error.problem, DatabaseProblem::TimedOut { .. }), "{error}");
    // Building graphs may take longer than a call.
    set_faults(&stub, json!({ "refresh_ms": 2_500 })).await;
    hasty.complete(&place, &spec, &|_| {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_an_index_that_was_removed_makes_no_new_one() {
    let Some(stub) = start("opensearch").await else { return };
    let (filling, cleaning) = (open(&stub.url()), open(&stub.url()));
    let (place, spec) = (CollectionPlace::filled("reverie_a"), spec("k", 3, HNSW));
    filling.create(&place, &spec).await.unwrap();
    filling.write(&place, &[record(0, "a", json!({}))]).await.unwrap();
    cleaning.drop_collection(&place, "k").await.unwrap();
    let error = filling.write(&place, &[record(1, "a", json!({}))]).await.unwrap_err();
    assert_eq!(error.problem, DatabaseProblem::MissingCollection);
    assert_eq!(cleaning.describe(&place).await.unwrap(), None);
    // What the other client knows is out of date: the new index has vectors of another length.
    filling.create(&place, &spec).await.unwrap();
    filling.write(&place, &[record(0, "a", json!({}))]).await.unwrap();
    assert_eq!(filling.count(&place).await.unwrap(), 1);
    cleaning.drop_collection(&place, "k").await.unwrap();
    let longer = CollectionSpec { dimensions: 4, ..spec };
    fill(&cleaning, &place, &longer, &[IndexedRecord { vector: unit(&[1.0; 4]), ..record(0, "b", json!({})) }]).await;
    let vector = unit(&[1.0; 4]);
    let query = [DatabaseQuery { vector: &vector, filter: None }];
    assert_eq!(filling.search(&place, &query, &SearchOptions::top(1)).await.unwrap()[0].records.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_parts_are_split_and_a_record_that_is_too_large_is_named() {
    let Some(stub) = start("elasticsearch").await else { return };
    let (database, place) = (open(&stub.url()), CollectionPlace::filled("reverie_long"));
    let spec = spec("k", 1_536, HNSW);
    let mut random = fastrand::Rng::with_seed(5);
    let records: Vec<IndexedRecord> = (0..1_200)
        .map(|id| {
            let vector: Vec<f32> = (0..1_536).map(|_| random.f32() - 0.5).collect();
            let text = "\u{1}\"long\" ".repeat(400);
            IndexedRecord { id: RecordId::Number(id), vector: unit(&vector), text, fields: fields(json!({ "id": id })) }
        })
        .collect();
    database.create(&place, &spec).await.unwrap();
    // About 20 MB; the stub takes 10 MiB at once.
    database.write(&place, &records).await.unwrap();
    assert_eq!(database.count(&place).await.unwrap(), 1_200);
    let all: Vec<RecordId> = records.iter().map(|record| record.id.clone()).collect();
    let read = database.read(&place, &all).await.unwrap();
    assert!(read.iter().zip(&records).all(|(read, record)| read.as_ref() == Some(record)));
    let first = database.first_records(&place, &RecordFilter::default(), 1_100).await.unwrap();
    assert_eq!(first, records[..1_100]);
    let huge = IndexedRecord { text: "a".repeat(11 << 20), ..records[0].clone() };
    let error = database.write(&place, &[huge]).await.unwrap_err();
    assert!(
        matches!(error.problem, DatabaseProblem::TooLarge { .. } | DatabaseProblem::ConnectionLost { .. }),
        "{error}"
    );
    assert_eq!(database.read(&place, &all[..1]).await.unwrap()[0].as_ref(), Some(&records[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn strange_names_texts_and_ids_are_kept_and_filtered() {
    for product in ["elasticsearch", "opensearch"] {
        let Some(stub) = start(product).await else { return };
        let (database, place) = (open(&stub.url()), CollectionPlace::filled("reverie_strange"));
        let long = "ä".repeat(3_000);
        let all = json!({
            "": "empty", "a.b": 1, ".": [true], "nul\u{0}": "x\u{0}y", "\"": "quote", "\u{1f701}": { "deep": [{ "\u{0}": [] }] },
            (long.as_str()): "long name", "long": long, "vector": [1, 2], "fields": { "text": 1 }, "-0": -0.0, "big": u64::MAX,
            "tiny": 5e-324, "id": "other",
        });
        let mut records = vec![record(0, "a\u{0}b \u{2028}", all.clone()), record(1, "", json!({}))];
        records.push(IndexedRecord {
            id: RecordId::Text("ключ/\u{1f701} ü".to_owned()), ..record(2, "c", json!({}))
        });
        records.push(record(u64::MAX, "last", json!({ "long": format!("{long}b") })));
        fill(&database, &place, &spec("k", 3, HNSW), &records).await;
        let ids: Vec<RecordId> = records.iter().map(|record| record.id.clone()).collect();
        let read = database.read(&place, &ids).await.unwrap();
        for (read, record) in read.iter().zip(&records) {
            assert_eq!(read.as_ref(), Some(record), "{product}");
        }
        for (name, value) in all.as_object().unwrap() {
            let wanted = value.as_array().map_or(value, |items| &items[0]);
            let Some(scalar) = ScalarValue::of_json(wanted) else { continue };
            let test = FieldTest::OneOf(vec![scalar]);
            let filter = RecordFilter { ids: None, tests: [(name.clone(), test)].into() };
            let query = [DatabaseQuery { vector: &records[1].vector, filter: Some(&filter) }];
            let found = database.search(&place, &query, &SearchOptions::top(4)).await.unwrap().remove(0);
            assert_eq!(found.records.iter().map(|record| &record.id).collect::<Vec<_>>(), [&ids[0]], "{name:.20}");
        }
        let nothing = RecordFilter { ids: None, tests: [("a".to_owned(), FieldTest::OneOf(Vec::new()))].into() };
        let query = [DatabaseQuery { vector: &records[1].vector, filter: Some(&nothing) }];
        let found = database.search(&place, &query, &SearchOptions::top(4)).await.unwrap().remove(0);
        assert!(found.records.is_empty() && !found.is_cut);
        database.delete(&place, &ids[2..3]).await.unwrap();
        assert_eq!(database.count(&place).await.unwrap(), 3);
        let query = [DatabaseQuery { vector: &records[1].vector, filter: None }];
        assert_eq!(database.search(&place, &query, &SearchOptions::top(0)).await.unwrap()[0].records, []);
        assert_eq!(database.search(&place, &query, &SearchOptions::top(50_000)).await.unwrap()[0].records.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_made_and_names_of_several_indexes_are_refused() {
    let Some(stub) = start("elasticsearch").await else { return };
    let database = open(&stub.url());
    let place = CollectionPlace::filled("reverie_a");
    let refuse = async |spec| database.create(&place, &spec).await.unwrap_err().to_string();
    assert!(refuse(spec("k", 3, SearchIndexSpec::Ivfflat { lists: 1 })).await.contains("the index `hnsw` or none"));
    let half = CollectionSpec { precision: StoredPrecision::F16, ..spec("k", 3, HNSW) };
    assert!(refuse(half).await.contains("32 bits"));
    assert!(refuse(spec("k", 5_000, HNSW)).await.contains("[1, 4096]"));
    database.create(&place, &spec("k", 3, HNSW)).await.unwrap();
    for name in ["", "*", "reverie_*", "_all", "a,b", "-a", ".", "..", "a/b", "<now>", "a b", "a\n", "a:b", "a#", "a?b"]
    {
        let place = CollectionPlace::filled(name);
        for error in [
            database.create(&place, &spec("k", 3, HNSW)).await.unwrap_err(),
            database.drop_collection(&place, "k").await.unwrap_err(),
            database.describe(&place).await.unwrap_err(),
            database.swap(name, &CollectionPlace::filled("reverie_a")).await.unwrap_err(),
        ] {
            assert!(matches!(error.problem, DatabaseProblem::InvalidSettings { .. }), "{name}: {error}");
        }
    }
    let upper = database.create(&CollectionPlace::filled("Reverie"), &spec("k", 3, HNSW)).await.unwrap_err();
    assert!(matches!(&upper.problem, DatabaseProblem::InvalidSettings { reason } if reason.contains("lowercase")));
    assert_eq!(database.list().await.unwrap().len(), 1);
    let write_alias = CollectionPlace::filled("reverie_a.write");
    assert!(database.create(&write_alias, &spec("k", 3, HNSW)).await.is_err());
    let swapped = database.swap("reverie_a.write", &place).await.unwrap_err();
    assert_eq!(swapped.problem, DatabaseProblem::ForeignCollection);
    assert_eq!(database.aliases().await.unwrap(), BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_at_once_see_one_index_of_an_alias_or_the_other() {
    let Some(stub) = start("elasticsearch").await else { return };
    let database = Arc::new(open(&stub.url()));
    let (one, two) = (CollectionPlace::filled("reverie_one"), CollectionPlace::filled("reverie_two"));
    let of = |text: &str| (0..100).map(|id| record(id, text, json!({ "index": text }))).collect::<Vec<_>>();
    fill(&*database, &one, &spec("one", 3, HNSW), &of("one")).await;
    fill(&*database, &two, &spec("two", 3, HNSW), &of("two")).await;
    // Two that make the same alias at the same time.
    let other = open(&stub.url());
    let (first, second) = tokio::join!(database.swap("manuals", &one), other.swap("manuals", &two));
    first.unwrap();
    second.unwrap();
    let aliases = database.aliases().await.unwrap();
    assert!(aliases.len() == 1 && ["reverie_one", "reverie_two"].contains(&aliases["manuals"].as_str()), "{aliases:?}");
    let is_over = Arc::new(AtomicBool::new(false));
    let searches: Vec<_> = (0..4)
        .map(|_| {
            let (database, is_over) = (database.clone(), is_over.clone());
            tokio::spawn(async move {
                let vector = unit(&[1.0, 0.0, 0.5]);
                let query = DatabaseQuery { vector: &vector, filter: None };
                let options = SearchOptions { with_content: true, ..SearchOptions::top(5) };
                let mut searches = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let found = database.search(&CollectionPlace::filled("manuals"), &[query; 16], &options).await;
                    for found in found.unwrap() {
                        let texts: Vec<_> =
                            found.records.iter().map(|record| &record.content.as_ref().unwrap().text).collect();
                        assert!(texts.len() == 5 && texts.iter().all(|text| *text == texts[0]), "{texts:?}");
                        searches += 1;
                    }
                }
                searches
            })
        })
        .collect();
    for round in 0..12 {
        // The index that the alias leaves is removed and filled again at once.
        let (to, from, text) = if round % 2 == 0 { (&one, &two, "two") } else { (&two, &one, "one") };
        other.swap("manuals", to).await.unwrap();
        other.drop_collection(from, text).await.unwrap();
        fill(&other, from, &spec(text, 3, HNSW), &of(text)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut sum = 0;
    for search in searches {
        sum += search.await.unwrap();
    }
    println!("{sum} searches while an alias was swapped 12 times");
    assert!(sum >= 64);
}

/// BM25 as Lucene computes it.
fn bm25(texts: &[&str], query: &str, factor: f64) -> Vec<f64> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let documents: Vec<Vec<String>> = texts.iter().map(|text| words(text)).collect();
    let count = documents.iter().filter(|document| !document.is_empty()).count() as f64;
    let mean = documents.iter().map(Vec::len).sum::<usize>() as f64 / count;
    let score = |document: &Vec<String>| {
        let of = |term: &String| {
            let having = documents.iter().filter(|document| document.contains(term)).count() as f64;
            let frequency = document.iter().filter(|word| *word == term).count() as f64;
            let idf = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            factor * idf * frequency / (frequency + 1.2 * (0.25 + 0.75 * document.len() as f64 / mean))
        };
        words(query).iter().map(of).sum()
    };
    documents.iter().map(score).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_text_search_ranks_by_bm25_and_filters() {
    let texts = [
        "Water pumps need water.",
        "A pump moves water",
        "Wind turbines",
        "WATER!",
        "",
        "the pump, the wind and the sea",
        "Wasserpumpe",
        "water",
        "Water",
    ];
    for (product, version, factor) in
        [("elasticsearch", "9.2.0", 2.2), ("opensearch", "2.19.0", 2.2), ("opensearch", "3.2.0", 1.0)]
    {
        let Some(stub) = SearchStub::start(product, version, &[]).await else { return };
        let (database, place) = (open(&stub.url()), CollectionPlace::filled("reverie_words"));
        let records: Vec<IndexedRecord> =
            (0..).zip(texts).map(|(id, text)| record(id, text, json!({ "even": id % 2 == 0 }))).collect();
        fill(&database, &place, &spec("k", 3, HNSW), &records).await;
        for query in ["water pump", "Water water", "wind", "no such word here", "", "\"water\" AND pump*"] {
            let scores = bm25(&texts, query, factor);
            for only_even in [false, true] {
                let filter = RecordFilter {
                    ids: None,
                    tests: [("even".to_owned(), FieldTest::OneOf(vec![ScalarValue::Bool(true)]))].into(),
                };
                let mut expected: Vec<(u64, f64)> = (0..).zip(scores.iter().copied()).collect();
                expected.retain(|(id, score)| *score > 0.0 && (!only_even || id % 2 == 0));
                expected.sort_by(|a, b| (b.1 as f32).total_cmp(&(a.1 as f32)).then(a.0.cmp(&b.0)));
                expected.truncate(4);
                let found = database
                    .search_text(
                        &place,
                        &WordQuery { text: query, filter: only_even.then_some(&filter), top: 4, with_content: true },
                    )
                    .await
                    .unwrap();
                let ids: Vec<RecordId> = found.records.iter().map(|record| record.id.clone()).collect();
                assert_eq!(ids, expected.iter().map(|(id, _)| RecordId::Number(*id)).collect::<Vec<_>>(), "{query}");
                for (record, (id, score)) in found.records.iter().zip(&expected) {
                    assert!((f64::from(record.score) - score).abs() < 1e-5, "{query}: {} {score}", record.score);
                    assert_eq!(record.content.as_ref().unwrap().text, texts[*id as usize]);
                }
            }
        }
        let error = database
            .search_text(
                &CollectionPlace::filled("absent"),
                &WordQuery { text: "a", filter: None, top: 1, with_content: false },
            )
            .await
            .unwrap_err();
        assert_eq!(error.problem, DatabaseProblem::MissingCollection);
    }
    let memory = databases::testing::MemoryDatabase::new("a");
    let error = memory
        .search_text(&CollectionPlace::filled("a"), &WordQuery { text: "a", filter: None, top: 1, with_content: false })
        .await
        .unwrap_err();
    assert_eq!(error.problem, DatabaseProblem::Unsupported { what: "full-text search" });
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_scores_are_ordered_by_id_and_a_description_has_a_counter_of_changes() {
    let Some(stub) = start("opensearch").await else { return };
    let (database, place, spec) = (open(&stub.url()), CollectionPlace::filled("reverie_ties"), spec("k", 3, HNSW));
    let records: Vec<IndexedRecord> =
        (0..12).map(|id| IndexedRecord { vector: unit(&[1.0; 3]), ..record(id, "same", json!({})) }).collect();
    fill(&database, &place, &spec, &records).await;
    let query = [DatabaseQuery { vector: &records[0].vector, filter: None }];
    for options in [SearchOptions::top(6), SearchOptions { exact: true, ..SearchOptions::top(6) }] {
        let found = database.search(&place, &query, &options).await.unwrap().remove(0);
        let ids: Vec<RecordId> = found.records.iter().map(|record| record.id.clone()).collect();
        assert_eq!((ids, found.is_exact), ((0..6).map(RecordId::Number).collect(), options.exact));
        assert!(found.records.iter().all(|record| (record.score - 1.0).abs() < 1e-6));
    }
    let described = database.describe(&place).await.unwrap().unwrap();
    assert!(described.bytes.is_some_and(|bytes| bytes > 0));
    database.write(&place, &records[..1]).await.unwrap();
    let changed = database.describe(&place).await.unwrap().unwrap();
    assert!(changed.change_counter.is_some() && changed.change_counter != described.change_counter);
    let manifest = IndexManifest { used_ms: Some(1), ..described.manifest.unwrap() };
    database.write_manifest(&place, &manifest).await.unwrap();
    let again = database.describe(&place).await.unwrap().unwrap();
    assert_eq!((again.change_counter, again.manifest), (changed.change_counter, Some(manifest)));
}

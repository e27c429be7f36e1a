//! Indexes of Elasticsearch and OpenSearch that are the user's own, with a stub.

use crate::{
    conformance::{fields, unit},
    elasticsearch::{open, send, start},
    servers::SearchStub,
};
use databases::{
    CollectionPlace, DatabaseProblem, DatabaseQuery, ExistingFields, FieldBounds, FieldTest, RecordFilter, RecordId,
    ScalarValue, SearchOptions, VectorDatabase, VectorMetric, WordQuery, testing::cosine,
};
use serde_json::{Value, json};

/// Makes an index with these sources, which have the ids `a`, `b` and so on.
async fn make(stub: &SearchStub, name: &str, settings: Value, properties: Value, sources: &[Value]) {
    let body = json!({ "settings": { "index": settings }, "mappings": { "properties": properties } });
    send(stub, reqwest::Method::PUT, name, body.to_string()).await;
    let lines = sources.iter().zip('a'..).map(|(source, id)| format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{source}\n"));
    let reply = send(stub, reqwest::Method::POST, &format!("{name}/_bulk?refresh=true"), lines.collect()).await;
    assert_eq!(reply["errors"], false, "{reply}");
}

fn vectors() -> Vec<Vec<f32>> {
    [[1.0, 0.1, 0.0], [0.5, -1.0, 0.2], [-1.0, 0.1, 0.3], [0.2, 0.3, 1.0]].iter().map(|vector| unit(vector)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_of_every_similarity_are_cosines() {
    for (product, version, vector, metric, kind) in [
        ("elasticsearch", "9.2.0", json!({ "similarity": "cosine" }), VectorMetric::Cosine, "int8_hnsw"),
        (
            "elasticsearch",
            "8.12.0",
            json!({ "similarity": "dot_product", "index_options": { "type": "hnsw" } }),
            VectorMetric::InnerProduct,
            "hnsw",
        ),
        (
            "elasticsearch",
            "9.2.0",
            json!({ "similarity": "max_inner_product" }),
            VectorMetric::InnerProduct,
            "int8_hnsw",
        ),
        (
            "elasticsearch",
            "9.2.0",
            json!({ "similarity": "l2_norm", "index_options": { "type": "flat" } }),
            VectorMetric::Euclidean,
            "flat",
        ),
        ("opensearch", "3.2.0", json!({ "space_type": "cosinesimil" }), VectorMetric::Cosine, "hnsw"),
        (
            "opensearch",
            "2.11.0",
            json!({ "method": { "name": "hnsw", "engine": "lucene", "space_type": "cosinesimil" } }),
            VectorMetric::Cosine,
            "hnsw",
        ),
        (
            "opensearch",
            "2.11.0",
            json!({ "method": { "name": "hnsw", "engine": "nmslib", "space_type": "cosinesimil" } }),
            VectorMetric::Cosine,
            "hnsw",
        ),
        (
            "opensearch",
            "2.19.0",
            json!({ "method": { "name": "ivf", "engine": "faiss", "space_type": "innerproduct" } }),
            VectorMetric::InnerProduct,
            "ivf",
        ),
        ("opensearch", "3.2.0", json!({}), VectorMetric::Euclidean, "hnsw"),
    ] {
        let Some(stub) = SearchStub::start(product, version, &[]).await else { return };
        let is_opensearch = product == "opensearch";
        let mut field = vector.clone();
        let (type_, length) = if is_opensearch { ("knn_vector", "dimension") } else { ("dense_vector", "dims") };
        (field["type"], field[length]) = (type_.into(), 3.into());
        let settings = if is_opensearch { json!({ "knn": true }) } else { json!({}) };
        let sources: Vec<Value> = vectors().iter().map(|vector| json!({ "it's": { "v": vector } })).collect();
        let sources = [&sources[..], &[json!({ "no": "vector" })]].concat();
        make(&stub, "docs", settings, json!({ "it's": { "properties": { "v": field } } }), &sources).await;
        let existing = |metric| {
            let fields =
                ExistingFields { vector: "it's.v".to_owned(), text: None, metric, ..ExistingFields::default() };
            CollectionPlace::existing("docs", fields)
        };
        let (database, place) = (open(&stub.url()), existing(metric));
        let described = database.describe(&place).await.unwrap().unwrap();
        assert_eq!(described.check(&place, 3), Ok(()));
        assert_eq!(described.check(&place, 4), Err(DatabaseProblem::Dimensions { expected: 4, found: 3 }));
        let index = described.search_index.clone().unwrap();
        assert_eq!((index.kind.as_str(), index.metric, described.rows), (kind, metric, 5));
        let other = if metric == VectorMetric::Cosine { VectorMetric::Euclidean } else { VectorMetric::Cosine };
        assert_eq!(
            described.check(&existing(other), 3),
            Err(DatabaseProblem::OtherMetric { expected: other, found: metric })
        );
        // Also the opposite of a vector, whose cosine may be rounded to less than -1.
        let opposites = vectors().into_iter().map(|vector| vector.iter().map(|value| -value).collect());
        let queries: Vec<Vec<f32>> = opposites.chain([unit(&[0.9, -0.3, 0.1])]).collect();
        for (query_vector, exact) in queries.iter().flat_map(|query| [(query, false), (query, true)]) {
            let query = [DatabaseQuery { vector: query_vector, filter: None }];
            let options = SearchOptions { exact, ..SearchOptions::top(10) };
            let found = database.search(&place, &query, &options).await.unwrap().remove(0);
            assert_eq!((found.records.len(), found.is_exact), (4, exact));
            for record in found.records {
                let RecordId::Text(id) = &record.id else { panic!("{}", record.id) };
                let expected = cosine(&vectors()[usize::from(id.as_bytes()[0] - b'a')], query_vector);
                assert!(
                    (record.score - expected).abs() < 1e-5,
                    "{product} {version} {vector} exact {exact}: {} {expected}",
                    record.score
                );
            }
        }
    }
}

fn one_of(values: &[ScalarValue]) -> FieldTest {
    FieldTest::OneOf(values.to_vec())
}

fn text(value: &str) -> ScalarValue {
    ScalarValue::Text(value.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_on_mapped_fields_are_exact_whatever_their_types() {
    let Some(stub) = start("elasticsearch").await else { return };
    let long = "x".repeat(300);
    let properties = json!({
        "e": { "type": "dense_vector", "dims": 3 }, "body": { "type": "text" }, "key": { "type": "keyword" },
        "path": { "type": "keyword" }, "year": { "type": "integer" }, "price": { "type": "double" }, "flag": { "type": "boolean" },
        "many": { "type": "nested", "properties": { "e": { "type": "dense_vector", "dims": 3 } } },
    });
    let all: Vec<Value> = vec![
        json!({ "path": "a/1.md", "year": 2020, "price": 1.5, "flag": true, "tags": ["x", "y"], "meta": { "author": "Ann", "n": 1 } }),
        json!({ "path": ["a/2.md", "b"], "year": 2021.7, "price": "2", "flag": "true", "tags": [], "meta": { "author": "2021", "n": 2 } }),
        json!({ "path": "2021", "year": "2021", "price": 3, "flag": false, "tags": [long.as_str(), "y"], "meta": { "author": "Ann B", "n": 3 } }),
        json!({ "path": null, "year": [2019, 2022], "tags": ["X"], "meta": {} }),
    ];
    let sources: Vec<Value> = (all.iter().zip(vectors()).zip('p'..))
        .map(|((fields, vector), key)| {
            let mut source = fields.clone();
            (source["e"], source["body"], source["key"]) = (json!(vector), json!(format!("body {key}")), json!(key));
            source
        })
        .collect();
    make(&stub, "docs", json!({ "number_of_shards": 3 }), properties, &sources).await;
    let fields_of = |id: Option<&str>| ExistingFields {
        id: id.map(str::to_owned),
        vector: "e".to_owned(),
        text: Some("body".to_owned()),
        fields: [("author", "meta.author"), ("n", "meta.n")]
            .map(|(name, path)| (name.to_owned(), path.to_owned()))
            .into(),
        ..ExistingFields::default()
    };
    let (database, place) = (open(&stub.url()), CollectionPlace::existing("docs", fields_of(None)));
    let flattened: Vec<_> = all
        .iter()
        .map(|source| {
            let mut source = fields(source.clone());
            for name in ["author", "n"] {
                source["meta"].get(name).cloned().and_then(|value| source.insert(name.to_owned(), value));
            }
            source
        })
        .collect();
    let number = ScalarValue::Number;
    let range = |ge: f64, le: f64| {
        FieldTest::Within(FieldBounds { ge: Some(number(ge)), le: Some(number(le)), ..FieldBounds::default() })
    };
    let not = |value| FieldTest::Within(FieldBounds { ne: Some(value), ..FieldBounds::default() });
    let scalars = [
        text("a/1.md"),
        text("b"),
        text("2021"),
        text("x"),
        text("y"),
        text(&long),
        text("Ann"),
        number(2021.0),
        number(2021.7),
        number(1.5),
        number(2.0),
        number(1.0),
        ScalarValue::Bool(true),
        ScalarValue::Bool(false),
    ];
    let mut tests: Vec<FieldTest> = scalars.iter().map(|scalar| one_of(std::slice::from_ref(scalar))).collect();
    tests.extend(scalars.iter().cloned().map(not));
    tests.extend([one_of(&scalars), one_of(&[]), range(2020.5, 2021.8), range(2020.0, 2021.0), range(1.0, 2.0)]);
    tests.push(FieldTest::Within(FieldBounds { ge: Some(text("a")), ..FieldBounds::default() }));
    let mut checked = 0;
    for field in ["path", "year", "price", "flag", "tags", "author", "n", "absent"] {
        for test in &tests {
            let filter = RecordFilter { ids: None, tests: [(field.to_owned(), test.clone())].into() };
            let passing = flattened.iter().zip('a'..).filter(|(fields, _)| filter.passes(fields));
            let expected: Vec<RecordId> = passing.map(|(_, id)| RecordId::Text(id.to_string())).collect();
            let query = DatabaseQuery { vector: &vectors()[0], filter: Some(&filter) };
            let found = database.search(&place, &[query], &SearchOptions::top(4)).await.unwrap().remove(0);
            let mut ids: Vec<RecordId> = found.records.into_iter().map(|record| record.id).collect();
            ids.sort();
            assert_eq!(ids, expected, "{field} {test:?}");
            let mut listed = database.first_records(&place, &filter, 10).await.unwrap();
            listed.sort_by(|a, b| a.id.cmp(&b.id));
            assert_eq!(listed.iter().map(|record| record.id.clone()).collect::<Vec<_>>(), expected, "{field} {test:?}");
            checked += 1;
        }
    }
    println!("{checked} filters on mapped fields");
    // Three shards, in an order that stays the same.
    let order = async |count| database.first_records(&place, &RecordFilter::default(), count).await.unwrap();
    let four = order(4).await;
    assert_eq!((four.len(), &four[..2]), (4, &order(2).await[..]));
    assert!(four.iter().all(|record| record.vector.len() == 3 && record.text.starts_with("body ")));
    // A field as the id, a condition of the user's own, words in the text.
    let condition = json!({ "bool": { "must_not": [{ "term": { "key": "q" } }] } }).to_string();
    let keyed =
        CollectionPlace::existing("docs", ExistingFields { condition: Some(condition), ..fields_of(Some("key")) });
    assert_eq!(database.count(&keyed).await.unwrap(), 3);
    let wanted = ["r", "q", "absent"].map(|id| RecordId::Text(id.to_owned()));
    let read = database.read(&keyed, &wanted).await.unwrap();
    assert_eq!(
        read.iter().map(|read| read.as_ref().map(|read| read.text.as_str())).collect::<Vec<_>>(),
        [Some("body r"), Some("body q"), None]
    );
    let words = database
        .search_text(&keyed, &WordQuery { text: "body", filter: None, top: 10, with_content: true })
        .await
        .unwrap();
    assert_eq!(words.records.iter().map(|record| record.id.to_string()).collect::<Vec<_>>(), ["p", "r", "s"]);
    let ids = RecordFilter { ids: Some(wanted.to_vec()), tests: [].into() };
    let query = DatabaseQuery { vector: &vectors()[0], filter: Some(&ids) };
    let found = database.search(&keyed, &[query], &SearchOptions::top(4)).await.unwrap().remove(0);
    assert_eq!(found.records.iter().map(|record| record.id.to_string()).collect::<Vec<_>>(), ["r"]);
    // What does not fit.
    let refused = async |fields: ExistingFields| {
        let query = DatabaseQuery { vector: &vectors()[0], filter: None };
        let place = CollectionPlace::existing("docs", fields);
        database.search(&place, &[query], &SearchOptions::top(1)).await.unwrap_err()
    };
    let missing = refused(ExistingFields { vector: "f".to_owned(), ..fields_of(None) }).await;
    assert!(matches!(&missing.problem, DatabaseProblem::MissingField { field, .. } if field == "f"), "{missing}");
    let described = database.describe(&place).await.unwrap().unwrap();
    let absent = CollectionPlace::existing("docs", ExistingFields { text: Some("f".to_owned()), ..fields_of(None) });
    assert!(matches!(described.check(&absent, 3), Err(DatabaseProblem::MissingField { .. })));
    let nested = refused(ExistingFields { vector: "many.e".to_owned(), ..fields_of(None) }).await;
    assert!(matches!(nested.problem, DatabaseProblem::MissingField { .. }), "{nested}");
    let other = refused(ExistingFields { vector: "body".to_owned(), ..fields_of(None) }).await;
    assert!(other.to_string().contains("is of the type text, and dense_vector is needed"), "{other}");
    let bad = refused(ExistingFields { condition: Some("year > 2".to_owned()), ..fields_of(None) }).await;
    assert!(bad.to_string().contains("is not JSON"), "{bad}");
    let body = json!({ "mappings": { "_source": { "enabled": false }, "properties": { "e": { "type": "dense_vector", "dims": 3 } } } });
    send(&stub, reqwest::Method::PUT, "sourceless", body.to_string()).await;
    let sourceless = CollectionPlace::existing("sourceless", fields_of(None));
    assert!(database.describe(&sourceless).await.unwrap_err().to_string().contains("`_source` disabled"));
    let by_number = CollectionPlace::existing("docs", fields_of(Some("price")));
    assert!(database.read(&by_number, &wanted).await.unwrap_err().to_string().contains("cannot be the id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_that_the_server_cannot_apply_ask_for_more_records() {
    let Some(stub) = start("opensearch").await else { return };
    let vector = json!({ "type": "knn_vector", "dimension": 3, "space_type": "cosinesimil" });
    let properties = json!({ "embedding": vector, "hidden": { "type": "object", "enabled": false } });
    let body = json!({ "settings": { "index": { "knn": true } }, "mappings": { "properties": properties } });
    send(&stub, reqwest::Method::PUT, "docs", body.to_string()).await;
    let lines = (0..2_000).map(|id| {
        let source = json!({ "embedding": unit(&[1.0, id as f32 / 500.0, 0.1]), "hidden": { "last": id >= 1_995 } });
        format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{source}\n")
    });
    send(&stub, reqwest::Method::POST, "docs/_bulk?refresh=true", lines.collect()).await;
    let fields = ExistingFields { text: None, metadata: Some("hidden".to_owned()), ..ExistingFields::default() };
    let (database, place) = (open(&stub.url()), CollectionPlace::existing("docs", fields));
    let filter = RecordFilter { ids: None, tests: [("last".to_owned(), one_of(&[ScalarValue::Bool(true)]))].into() };
    let vector = unit(&[1.0, 0.0, 0.1]);
    let query = DatabaseQuery { vector: &vector, filter: Some(&filter) };
    let found = database.search(&place, &[query; 64], &SearchOptions::top(3)).await.unwrap();
    let ids =
        |found: &databases::FoundRecords| found.records.iter().map(|record| record.id.to_string()).collect::<Vec<_>>();
    assert!(found.len() == 64 && found.iter().all(|found| ids(found) == ["1995", "1996", "1997"] && !found.is_cut));
    assert!(found[0].records.iter().all(|record| record.content.is_none()));
    let all = database.first_records(&place, &RecordFilter::default(), 5_000).await.unwrap();
    assert_eq!(all.len(), 2_000);
    assert_eq!(all[0].vector.len(), 3);
}

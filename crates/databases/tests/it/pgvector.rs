//! PostgreSQL with pgvector: the conformance test, kills in the middle of a fill, and mistakes that are named.

use crate::{
    conformance::{
        self, DIMENSIONS, TestDatabase, clustered, exact, fields, fill, of_topics, quantized_recall, recall, spec, unit,
    },
    servers::{PASSWORD, PostgresServer},
};
use databases::{
    AccessSettings, CollectionPlace, DatabaseProblem, DatabaseQuery, Error, ExistingFields, FieldBounds, FieldTest,
    IndexedRecord, PgvectorDatabase, RecordFilter, RecordId, ScalarValue, SearchIndexSpec, SearchOptions,
    StoredPrecision, TextSearch, VectorDatabase, VectorMetric, WordQuery,
};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const HNSW: SearchIndexSpec = SearchIndexSpec::Hnsw { m: 16, ef_construction: 64, ef: 40 };

fn open(url: &str) -> Result<PgvectorDatabase, Error> {
    PgvectorDatabase::open(AccessSettings { connect_timeout: Duration::from_secs(5), ..AccessSettings::new(url) })
}

struct Postgres(PostgresServer);

impl TestDatabase for Postgres {
    fn open(&self) -> Arc<dyn VectorDatabase> {
        Arc::new(open(&self.0.url()).unwrap())
    }

    fn index(&self) -> SearchIndexSpec {
        HNSW
    }

    async fn make_existing(&self, name: &str, records: &[IndexedRecord]) -> CollectionPlace {
        let dimensions = records[0].vector.len();
        let client = self.0.client().await.unwrap();
        let table = format!(
            "create table {name} (name text primary key, body text, meta jsonb, embedding vector({dimensions}))"
        );
        client.batch_execute(&table).await.unwrap();
        let insert = format!("insert into {name} values ($1, $2, $3, $4::text::vector)");
        for record in records {
            let (id, meta) = (record.id.to_string(), serde_json::Value::Object(record.fields.clone()));
            client.execute(&insert, &[&id, &record.text, &meta, &format!("{:?}", record.vector)]).await.unwrap();
        }
        let fields = ExistingFields {
            text: Some("body".to_owned()),
            metadata: Some("meta".to_owned()),
            ..ExistingFields::default()
        };
        CollectionPlace::existing(name, fields)
    }

    fn stores_null_characters(&self) -> bool {
        false
    }

    fn ties_users_ids_to_text(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pgvector_conforms() {
    let Some(server) = PostgresServer::start().await else { return };
    conformance::conforms(&Postgres(server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_indexes_and_half_precision_find_what_they_should() {
    let Some(server) = PostgresServer::start().await else { return };
    let database = open(&server.url()).unwrap();
    let records = clustered(3_000);
    for (name, index, precision, least) in [
        ("reverie_flat", SearchIndexSpec::Exact, StoredPrecision::F32, 1.0),
        ("reverie_lists", SearchIndexSpec::Ivfflat { lists: 20 }, StoredPrecision::F32, 0.9),
        ("reverie_half", HNSW, StoredPrecision::F16, 0.9),
        ("public.reverie_half_flat", SearchIndexSpec::Exact, StoredPrecision::F16, 0.9),
    ] {
        let place = CollectionPlace::filled(name);
        let spec = databases::CollectionSpec { precision, ..spec(name, DIMENSIONS, index) };
        fill(&database, &place, &spec, &records).await;
        let (mut sum, options) = (0.0, SearchOptions { probes: Some(5), ef: Some(100), ..SearchOptions::top(10) });
        for record in records.iter().step_by(60) {
            let query = DatabaseQuery { vector: &record.vector, filter: None };
            let found = database.search(&place, &[query], &options).await.unwrap().remove(0);
            assert_eq!(found.is_exact, index == SearchIndexSpec::Exact, "{name}");
            sum += recall(&found.records, &exact(&records, &record.vector, 10));
        }
        assert!(sum / 50.0 >= least, "{name}: {}", sum / 50.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bits_are_searched_and_the_nearest_rows_are_compared_by_their_vectors() {
    let Some(server) = PostgresServer::start().await else { return };
    let database = open(&server.url()).unwrap();
    let records = of_topics(3_000, 128);
    for (name, index) in [("reverie_bits", HNSW), ("reverie_bit_lists", SearchIndexSpec::Ivfflat { lists: 4 })] {
        let place = CollectionPlace::filled(name);
        let spec = databases::CollectionSpec { precision: StoredPrecision::Binary, ..spec(name, 128, index) };
        fill(&database, &place, &spec, &records).await;
        let described = database.describe(&place).await.unwrap().unwrap();
        let search_index = described.search_index.as_ref().unwrap();
        assert!(search_index.is_ready && search_index.bytes.unwrap() < described.bytes.unwrap() / 2, "{described:?}");
        // Building it again does nothing.
        database.complete(&place, &spec, &|_| {}).await.unwrap();
        if index == HNSW {
            let (once, often) = (
                quantized_recall(&database, &place, &records, 1).await,
                quantized_recall(&database, &place, &records, 10).await,
            );
            assert!(often >= 0.95 && once < often, "{name}: {once} {often}");
        }
        let found = DatabaseQuery { vector: &records[7].vector, filter: None };
        let options = SearchOptions { probes: Some(4), oversampling: Some(10), ..SearchOptions::top(10) };
        let found = database.search(&place, &[found], &options).await.unwrap().remove(0);
        assert_eq!(found.records[0].id, records[7].id, "{name}");
    }
    // A table of the user's own, with an index over the vectors and one over their bits.
    let test = Postgres(server);
    let own = test.make_existing("own", &records).await;
    let client = test.0.client().await.unwrap();
    let bits = "create index on own using hnsw ((binary_quantize(embedding)::bit(128)) bit_hamming_ops)";
    client.batch_execute(bits).await.unwrap();
    let database = open(&test.0.url()).unwrap();
    let described = database.describe(&own).await.unwrap().unwrap();
    assert_eq!(described.check(&own, 128), Ok(()));
    assert!(quantized_recall(&database, &own, &records, 10).await >= 0.95);
    client.batch_execute("create index on own using hnsw (embedding vector_cosine_ops)").await.unwrap();
    assert!(quantized_recall(&database, &own, &records, 10).await >= 0.95);
    let plan = client
        .query("explain select name from own order by embedding <=> array_fill(0.1, array[128])::vector limit 5", &[])
        .await
        .unwrap();
    assert!(plan.iter().any(|row| row.get::<_, String>(0).contains("own_embedding_idx")), "{plan:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_searched_by_any_word_of_the_question_in_the_language_of_the_table() {
    let Some(server) = PostgresServer::start().await else { return };
    let client = server.client().await.unwrap();
    client
        .batch_execute(
            "create table notes (id int primary key, embedding vector(2), body text, lang text); insert into notes values \
             (1, '[1,0]', 'Owls turn their heads by up to 270 degrees.', 'en'), (2, '[0,1]', 'Beavers build dams.', 'en'), \
             (3, '[1,1]', 'It''s a back\\slash and an owl''s head', 'en'), (4, '[1,0]', null, 'en'), \
             (5, '[1,0]', 'Die Eulen drehten den Kopf', 'de'); \
             alter table notes add words tsvector generated always as (to_tsvector('english', coalesce(body, ''))) stored; \
             create index on notes using gin (words)",
        )
        .await
        .unwrap();
    let database = open(&server.url()).unwrap();
    let place = |language: &str, column: Option<&str>| {
        let search = TextSearch { words: column.map(str::to_owned), language: Some(language.to_owned()) };
        let fields = [("lang".to_owned(), "lang".to_owned())].into();
        let existing = ExistingFields { text: Some("body".to_owned()), fields, ..ExistingFields::default() };
        CollectionPlace::existing("notes", ExistingFields { text_search: Some(search), ..existing })
    };
    let found = async |place: &CollectionPlace, text: &str, filter: Option<&RecordFilter>| {
        let found = database
            .search_text(place, &WordQuery { text, filter, top: 10, with_content: true })
            .await
            .unwrap()
            .records;
        assert!(found.is_sorted_by(|a, b| a.score >= b.score));
        found.into_iter().map(|record| record.id.to_string()).collect::<Vec<_>>()
    };
    for column in [None, Some("words")] {
        let english = place("english", column);
        assert_eq!(database.describe(&english).await.unwrap().unwrap().check(&english, 2), Ok(()));
        assert_eq!(found(&english, "How far does an owl turn its head?", None).await, ["1", "3"], "stems, any word");
        assert_eq!(found(&english, "dams \0 it's \\ 'quoted' & | ! :* <->", None).await, ["2"]);
        assert!(found(&english, "the of and ?!", None).await.is_empty(), "stop words alone");
        let german = FieldTest::OneOf(vec![ScalarValue::Text("de".to_owned())]);
        let german = RecordFilter { ids: None, tests: [("lang".to_owned(), german)].into() };
        assert!(found(&english, "owl", Some(&german)).await.is_empty());
    }
    assert_eq!(found(&place("german", None), "Wer dreht den Kopf?", None).await, ["5"]);
    let refused = async |place: CollectionPlace| match database.describe(&place).await {
        Err(error) => error.to_string(),
        Ok(_) => database.first_records(&place, &RecordFilter::default(), 1).await.unwrap_err().to_string(),
    };
    assert!(refused(place("klingon", None)).await.contains("text search configuration \"klingon\" does not exist"));
    assert!(refused(place("english", Some("absent"))).await.contains("absent"));
    assert!(refused(place("english", Some("body"))).await.contains("type text; words are of the type tsvector"));
    let without = CollectionPlace::existing(
        "notes",
        ExistingFields { text: Some("body".to_owned()), ..ExistingFields::default() },
    );
    assert!(
        database
            .search_text(&without, &WordQuery { text: "owl", filter: None, top: 1, with_content: false })
            .await
            .unwrap_err()
            .to_string()
            .contains("full-text search")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_few_rows_pass_leaves_none_of_them_out() {
    let Some(server) = PostgresServer::start().await else { return };
    let database = open(&server.url()).unwrap();
    let (place, records) = (CollectionPlace::filled("reverie_few"), clustered(30_000));
    fill(&database, &place, &spec("few", DIMENSIONS, HNSW), &records).await;
    let path = FieldTest::OneOf(vec![ScalarValue::Text("document-7.md".to_owned())]);
    let filter = RecordFilter { ids: None, tests: [("path".to_owned(), path)].into() };
    for record in records.iter().step_by(3_000) {
        let query = DatabaseQuery { vector: &record.vector, filter: Some(&filter) };
        let found = database.search(&place, &[query], &SearchOptions::top(25)).await.unwrap().remove(0);
        assert!(found.records.len() == 20 && found.is_exact, "the 20 chunks of the document");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_while_it_is_written_to_loses_and_doubles_nothing() {
    let Some(mut server) = PostgresServer::start().await else { return };
    let (place, spec) = (CollectionPlace::filled("reverie_killed"), spec("killed", DIMENSIONS, HNSW));
    let records = clustered(20_000);
    let database = Arc::new(open(&server.url()).unwrap());
    database.create(&place, &spec).await.unwrap();
    let parts: Vec<Vec<IndexedRecord>> = records.chunks(2_500).map(<[_]>::to_vec).collect();
    let mut written = Vec::new();
    let mut kills = 0;
    while written.len() < parts.len() {
        let number = written.len();
        let writing = tokio::spawn({
            let (database, place, part) = (database.clone(), place.clone(), parts[number].clone());
            async move { database.write(&place, &part).await }
        });
        if kills < 3 && number % 2 == 1 {
            tokio::time::sleep(Duration::from_millis(3 * (kills + 1))).await;
            server.kill();
            kills += 1;
        }
        match writing.await.unwrap() {
            Ok(()) => written.push(number),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        if kills > 0 && database.count(&place).await.is_err() {
            server.restart().await;
        }
    }
    assert!(kills == 3);
    assert_eq!(database.count(&place).await.unwrap(), records.len() as u64);

    // In the middle of building the index.
    let has_begun = Arc::new(tokio::sync::Notify::new());
    let building = tokio::spawn({
        let (database, place, spec, has_begun) = (database.clone(), place.clone(), spec.clone(), has_begun.clone());
        async move { database.complete(&place, &spec, &|_| has_begun.notify_one()).await }
    });
    has_begun.notified().await;
    server.kill();
    // On a busy machine the index may have been built before the server was killed.
    if let Err(error) = building.await.unwrap() {
        assert!(error.is_transient(), "{error}");
    }
    server.restart().await;
    database.complete(&place, &spec, &|_| {}).await.unwrap();
    let described = database.describe(&place).await.unwrap().unwrap();
    assert_eq!(described.check(&place, DIMENSIONS), Ok(()));
    assert!(described.rows == 20_000 && described.search_index.is_some());
    let read = database.read(&place, &(0..20_000).map(RecordId::Number).collect::<Vec<_>>()).await.unwrap();
    assert!(read.iter().zip(&records).all(|(read, record)| read.as_ref().is_some_and(|read| read.text == record.text)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_is_a_transient_error_and_the_next_search_works() {
    let Some(server) = PostgresServer::start().await else { return };
    let settings =
        AccessSettings { concurrency: 1, timeout: Duration::from_secs(5), ..AccessSettings::new(&server.url()) };
    let database = PgvectorDatabase::open(settings).unwrap();
    let place = CollectionPlace::filled("reverie_cut");
    fill(&database, &place, &spec("cut", DIMENSIONS, SearchIndexSpec::Exact), &clustered(100)).await;
    server
        .run("select pg_terminate_backend(pid, 60000) from pg_stat_activity where application_name = 'reverie'")
        .await;
    let vector = clustered(1).remove(0).vector;
    let query = [DatabaseQuery { vector: &vector, filter: None }];
    let options = SearchOptions::top(1);
    let search = || database.search(&place, &query, &options);
    // The pool may have seen that the connection is closed.
    if let Err(error) = search().await {
        assert!(error.is_transient(), "{error}");
    }
    assert_eq!(search().await.unwrap()[0].records.len(), 1);
    // A table that another process has locked.
    let blocker = server.client().await.unwrap();
    blocker.batch_execute("begin; lock table reverie_cut").await.unwrap();
    let error = search().await.unwrap_err();
    assert!(matches!(error.problem, DatabaseProblem::TimedOut { .. }) && error.is_transient(), "{error}");
    blocker.batch_execute("commit").await.unwrap();
    assert_eq!(search().await.unwrap()[0].records.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_named_and_hold_no_secret() {
    let Some(server) = PostgresServer::start_without_extension().await else { return };
    let database = open(&server.url()).unwrap();
    let missing = database.describe_server().await.unwrap_err();
    assert!(
        matches!(&missing.problem, DatabaseProblem::ExtensionMissing { message } if message.contains("create extension vector")),
        "{missing}"
    );
    let place = CollectionPlace::filled("reverie_a");
    let missing = database.create(&place, &spec("k", 3, HNSW)).await.unwrap_err();
    assert!(matches!(missing.problem, DatabaseProblem::ExtensionMissing { .. }), "{missing}");
    server.run("create extension vector; create role reader login password 'reader-password'; create table docs (id bigint primary key, embedding vector(3), text text); revoke all on schema public from public").await;
    assert!(database.describe_server().await.unwrap().version.contains("pgvector 0.8"));

    let as_user = |user: &str, password: &str, name: &str| open(&server.address(user, password, name)).unwrap();
    let reader = as_user("reader", "reader-password", "postgres");
    let docs = CollectionPlace::existing("docs", ExistingFields::default());
    assert!(!reader.describe_server().await.unwrap().can_create);
    let refusals = [
        (as_user("owner", "wrong-password", "postgres").describe_server().await.unwrap_err(), "the login was refused"),
        (as_user("owner", PASSWORD, "absent").describe_server().await.unwrap_err(), "does not exist"),
        (reader.count(&docs).await.unwrap_err(), "not permitted"),
        (reader.create(&place, &spec("k", 3, HNSW)).await.unwrap_err(), "not permitted"),
    ];
    for (error, expected) in refusals {
        let (text, debug) = (error.to_string(), format!("{error:?}"));
        assert!(text.contains(expected) && !error.is_transient(), "{text}");
        for secret in [PASSWORD, "wrong-password", "reader-password"] {
            assert!(!text.contains(secret) && !debug.contains(secret), "{text}");
        }
    }
    assert!(!format!("{database:?}").contains(PASSWORD));
    let unreachable =
        open("postgresql://me:secret-password@127.0.0.1:9/d").unwrap().describe_server().await.unwrap_err();
    assert!(
        matches!(unreachable.problem, DatabaseProblem::Unreachable { .. }) && unreachable.is_transient(),
        "{unreachable}"
    );
    let without_tls = open(&format!("{}?sslmode=require", server.url())).unwrap().describe_server().await.unwrap_err();
    assert!(without_tls.to_string().contains("TLS") && !without_tls.is_transient(), "{without_tls}");
    let remote = open("postgresql://me:secret-password@10.0.0.1/d?sslmode=disable").unwrap_err();
    assert!(remote.to_string().contains("without TLS"), "{remote}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_cannot_be_searched_say_why() {
    let Some(server) = PostgresServer::start().await else { return };
    server
        .run(
            "create table empty (id bigint primary key, embedding vector(3), text text); \
        create table no_key (embedding vector(3), text text); insert into no_key values ('[1,0,0]', 'a'); \
        create table by_length (id uuid primary key, embedding vector(3), text text); \
        insert into by_length values ('00000000-0000-0000-0000-000000000001', '[1,0,0]', 'a'); \
        create index on by_length using hnsw (embedding vector_l2_ops)",
        )
        .await;
    let database = open(&server.url()).unwrap();
    let check = async |name: &str, fields: ExistingFields, dimensions| {
        let place = CollectionPlace::existing(name, fields);
        database.describe(&place).await.unwrap().unwrap().check(&place, dimensions)
    };
    let usual = ExistingFields::default;
    assert_eq!(check("empty", usual(), 3).await, Err(DatabaseProblem::Empty));
    assert_eq!(check("no_key", usual(), 3).await, Err(DatabaseProblem::NoKey));
    assert_eq!(check("by_length", usual(), 4).await, Err(DatabaseProblem::Dimensions { expected: 4, found: 3 }));
    let other = DatabaseProblem::OtherMetric { expected: VectorMetric::Cosine, found: VectorMetric::Euclidean };
    assert_eq!(check("by_length", usual(), 3).await, Err(other));
    assert_eq!(check("by_length", ExistingFields { metric: VectorMetric::Euclidean, ..usual() }, 3).await, Ok(()));
    let body = ExistingFields { text: Some("body".to_owned()), ..usual() };
    let known = ["embedding", "id", "text"].map(str::to_owned).to_vec();
    let missing = DatabaseProblem::MissingField { field: "body".to_owned(), known };
    assert_eq!(check("empty", body.clone(), 3).await, Err(missing.clone()));
    let query = [DatabaseQuery { vector: &[1.0, 0.0, 0.0], filter: None }];
    let searched = database.search(&CollectionPlace::existing("empty", body), &query, &SearchOptions::top(1)).await;
    assert_eq!(searched.unwrap_err().problem, missing);
    let no_vector = ExistingFields { vector: "text".to_owned(), ..usual() };
    let searched =
        database.search(&CollectionPlace::existing("empty", no_vector), &query, &SearchOptions::top(1)).await;
    assert!(searched.unwrap_err().to_string().contains("is of the type text"));
    let too_long = databases::CollectionSpec { dimensions: 2_001, ..spec("k", 3, HNSW) };
    let refused = database.create(&CollectionPlace::filled("reverie_long"), &too_long).await.unwrap_err();
    assert!(refused.to_string().contains("at most 2000 dimensions"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_a_table_of_the_users_own_are_fields() {
    let Some(server) = PostgresServer::start().await else { return };
    server.run("create schema \"Team\"; create table \"Team\".\"Docs\" (key uuid primary key, e vector(3), body text, path text, year int, \
        published date, tags text[], meta jsonb); create index on \"Team\".\"Docs\" using hnsw (e vector_l2_ops)").await;
    let client = server.client().await.unwrap();
    for (number, (year, date)) in
        [(Some(2020), Some("2020-01-02")), (Some(2021), None), (None, Some("2021-05-06"))].into_iter().enumerate()
    {
        let vector = unit(&[1.0, number as f32, 0.0]);
        let sql = format!(
            "insert into \"Team\".\"Docs\" values ('00000000-0000-0000-0000-00000000000{number}', '{vector:?}', 'text {number}', 'a/{number}.md', {}, {}, \
             array['t{number}', 'all'], '{{\"author\": {{\"name\": \"Ann {number}\"}}, \"year\": 1}}')",
            year.map_or("null".to_owned(), |year: i32| year.to_string()),
            date.map_or("null".to_owned(), |date| format!("'{date}'"))
        );
        client.batch_execute(&sql).await.unwrap();
    }
    client.batch_execute("insert into \"Team\".\"Docs\" values ('00000000-0000-0000-0000-000000000009', null, 'no vector', 'a/9.md')").await.unwrap();
    let mapped =
        [("path", "path"), ("year", "year"), ("date", "published"), ("tags", "tags"), ("author", "meta.author.name")];
    let place = CollectionPlace::existing(
        "Team.Docs",
        ExistingFields {
            vector: "e".to_owned(),
            text: Some("body".to_owned()),
            fields: mapped.map(|(name, column)| (name.to_owned(), column.to_owned())).into(),
            metadata: Some("meta".to_owned()),
            metric: VectorMetric::Euclidean,
            condition: Some("path <> 'a/8.md'".to_owned()),
            ..ExistingFields::default()
        },
    );
    let database = open(&server.url()).unwrap();
    assert_eq!(database.describe(&place).await.unwrap().unwrap().check(&place, 3), Ok(()));
    let text = |value: &str| ScalarValue::Text(value.to_owned());
    let one_of = |value: ScalarValue| FieldTest::OneOf(vec![value]);
    let from = |value: ScalarValue| FieldTest::Within(FieldBounds { ge: Some(value), ..FieldBounds::default() });
    for (field, test, expected) in [
        ("path", one_of(text("a/1.md")), vec![1]),
        ("year", from(ScalarValue::Number(2021.0)), vec![1]),
        ("date", from(text("2020-06-01")), vec![2]),
        ("tags", one_of(text("all")), vec![0, 1, 2]),
        ("author", one_of(text("Ann 2")), vec![2]),
    ] {
        let filter = RecordFilter { ids: None, tests: [(field.to_owned(), test)].into() };
        let query = DatabaseQuery { vector: &[1.0, 0.0, 0.0], filter: Some(&filter) };
        let options = SearchOptions { with_content: true, ..SearchOptions::top(10) };
        let found = database.search(&place, &[query], &options).await.unwrap().remove(0).records;
        let texts: Vec<String> = found.iter().map(|record| record.content.clone().unwrap().text).collect();
        assert_eq!(texts, expected.iter().map(|number| format!("text {number}")).collect::<Vec<_>>(), "{field}");
        if let [record] = &found[..]
            && record.id == RecordId::Text("00000000-0000-0000-0000-000000000001".to_owned())
        {
            let content = record.content.clone().unwrap();
            let all = json!({ "author": "Ann 1", "year": 2021, "path": "a/1.md", "tags": ["t1", "all"] });
            assert_eq!(content.fields, fields(all));
            assert!((record.score - 0.5f32.sqrt()).abs() < 1e-6);
        }
    }
    let absent = RecordFilter { ids: None, tests: [("absent".to_owned(), one_of(text("a")))].into() };
    let query = DatabaseQuery { vector: &[1.0, 0.0, 0.0], filter: Some(&absent) };
    assert!(database.search(&place, &[query], &SearchOptions::top(1)).await.unwrap()[0].records.is_empty());
    let ids = RecordFilter {
        ids: Some(vec![RecordId::Text("00000000-0000-0000-0000-000000000002".to_owned())]),
        tests: BTreeMap::new(),
    };
    assert_eq!(database.first_records(&place, &ids, 5).await.unwrap()[0].text, "text 2");
}

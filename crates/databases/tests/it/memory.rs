//! The database in memory keeps the same promises as the real ones.

use crate::conformance::{self, TestDatabase, unit};
use databases::{
    CollectionPlace, ExistingFields, IndexedRecord, SearchIndexSpec, VectorDatabase, testing::MemoryDatabase,
};
use std::sync::Arc;

struct Memory(Arc<MemoryDatabase>);

impl TestDatabase for Memory {
    fn open(&self) -> Arc<dyn VectorDatabase> {
        self.0.clone()
    }

    fn index(&self) -> SearchIndexSpec {
        SearchIndexSpec::Exact
    }

    async fn make_existing(&self, name: &str, records: &[IndexedRecord]) -> CollectionPlace {
        self.0.insert_existing(name, records.to_vec());
        CollectionPlace::existing(name, ExistingFields::default())
    }

    fn stores_null_characters(&self) -> bool {
        true
    }

    fn ties_users_ids_to_text(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn the_database_in_memory_conforms() {
    conformance::conforms(&Memory(Arc::new(MemoryDatabase::new("a")))).await;
}

#[tokio::test]
async fn a_connection_that_is_taken_away_is_a_transient_error_until_it_is_back() {
    let database = MemoryDatabase::new("b");
    let place = CollectionPlace::filled("reverie_1");
    database.create(&place, &conformance::spec("k", 3, SearchIndexSpec::Exact)).await.unwrap();
    let record = |id| IndexedRecord {
        id: databases::RecordId::Number(id),
        vector: unit(&[1.0, 0.0, id as f32]),
        text: String::new(),
        fields: serde_json::Map::new(),
    };
    database.lose_connection_after(1);
    database.write(&place, &[record(0)]).await.unwrap();
    assert!(database.write(&place, &[record(1)]).await.unwrap_err().is_transient());
    database.reconnect();
    assert_eq!((database.count(&place).await.unwrap(), database.writes()), (1, 1));
}

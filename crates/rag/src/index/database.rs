//! The `database` index: the chunks with their vectors in a collection of a database. Its file says where they are; the
//! database itself is connected after the file was opened.

use super::{Index, MadeFrom, header::bad, kind::only};
use crate::Error;
use databases::{
    CollectionDescription, CollectionPlace, DatabaseQuery, RecordId, SearchOptions, VectorDatabase, retrying,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

/// How long a search is tried again while the database cannot be reached or is busy.
pub const SEARCH_RETRIES: Duration = Duration::from_secs(10);

/// The format of the file.
const FORMAT: u32 = 1;

/// Where the records of a corpus are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilledCollection {
    /// The address of the database without secrets, or the name that stands for it.
    pub address: String,
    /// The name of the collection.
    pub collection: String,
    /// The key of the task that filled it, which the collection's manifest holds.
    pub key: String,
    /// The records: one for each searchable chunk.
    pub rows: usize,
    /// The length of a vector.
    pub dimensions: usize,
    /// Name and settings of the component, with the names of variables in place of secrets: how to reach the database.
    pub settings: Value,
    /// The size of the collection with its search index, once it is filled; none if the database does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    #[serde(flatten)]
    filled: FilledCollection,
}

impl FilledCollection {
    /// The bytes of the index' file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let file = File { format: FORMAT, filled: self.clone() };
        serde_json::to_vec(&file).unwrap_or_default()
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// Bytes that are not such a file of this version.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        Self::read_from("database index", bytes)
    }

    fn read_from(origin: &str, bytes: &[u8]) -> Result<Self, Error> {
        let file: File = serde_json::from_slice(bytes).map_err(|error| bad(origin, error))?;
        match file.format {
            FORMAT => Ok(file.filled),
            other => Err(bad(origin, format!("format {other}, but this version reads format {FORMAT}"))),
        }
    }

    /// Why what a database says of the collection is not what was written; none if it is. `found` is none if there is no
    /// such collection.
    pub fn problem(&self, found: Option<CollectionDescription>) -> Option<String> {
        let Some(found) = found else { return Some("is gone".to_owned()) };
        let whole = Some(self.rows as u64);
        match found.manifest {
            None => Some("was not made by Reverie".to_owned()),
            Some(manifest) if manifest.key != self.key => Some("was filled by another task".to_owned()),
            Some(manifest) if manifest.rows == whole && Some(found.rows) == whole => None,
            Some(_) => Some(format!("has {} records, but {} were written", found.rows, self.rows)),
        }
    }

    /// Where it is in the database.
    pub fn place(&self) -> CollectionPlace {
        CollectionPlace::filled(&self.collection)
    }
}

/// Chunks in a collection of a database.
#[derive(Debug)]
pub struct DatabaseIndex {
    filled: FilledCollection,
    place: CollectionPlace,
    database: OnceLock<Arc<dyn VectorDatabase>>,
}

/// Entries of an index with their scores; none if the database could not look far enough to find all that it should.
pub(crate) type DatabaseHits = Option<Vec<(u32, f32)>>;

impl Index for DatabaseIndex {
    const NAME: &'static str = "database";
    const TITLE: &'static str = "index in a database";
    const VERSION: u32 = 1;
    const MADE_FROM: MadeFrom = MadeFrom::Records;

    fn open_files(files: &[PathBuf]) -> Result<Self, Error> {
        let path: &Path = only(files)?;
        let origin = path.display().to_string();
        let bytes = fs::read(path).map_err(|error| bad(&origin, error))?;
        Ok(Self::new(FilledCollection::read_from(&origin, &bytes)?))
    }

    fn verify(&self) -> Result<(), Error> {
        Ok(())
    }

    fn verify_bytes(bytes: &[u8]) -> Result<(), Error> {
        FilledCollection::read(bytes).map(drop)
    }

    fn entries(&self) -> usize {
        self.filled.rows
    }
}

impl DatabaseIndex {
    /// The index of a collection, without a connection.
    pub fn new(filled: FilledCollection) -> Self {
        let place = filled.place();
        Self { filled, place, database: OnceLock::new() }
    }

    /// Where the records are.
    pub fn filled(&self) -> &FilledCollection {
        &self.filled
    }

    /// Gives it the database in which its collection is. A database that was given before stays.
    pub fn connect(&self, database: Arc<dyn VectorDatabase>) {
        self.database.get_or_init(|| database);
    }

    /// Where the records are in the database.
    pub fn place(&self) -> &CollectionPlace {
        &self.place
    }

    /// The database, and where the records are in it.
    ///
    /// # Errors
    /// If none was given.
    pub fn database(&self) -> Result<(&Arc<dyn VectorDatabase>, &CollectionPlace), Error> {
        let none = Error::Needs { component: "database index", part: "a connection to its database" };
        Ok((self.database.get().ok_or(none)?, &self.place))
    }

    /// The best entries for each query, best first, equal scores by entry.
    ///
    /// # Errors
    /// Those of the database, and records that are not of this index.
    pub async fn search(
        &self,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<DatabaseHits>, Error> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let (database, place) = self.database()?;
        let found = retrying(SEARCH_RETRIES, || database.search(place, queries, options)).await?;
        let entry = |id: &RecordId| match id {
            RecordId::Number(number) if *number < self.filled.rows as u64 => Ok(*number as u32),
            other => Err(bad(
                &format!("{}, `{}`", self.filled.address, self.filled.collection),
                format!("the record {other} is none of the {} that were written; somebody added it", self.filled.rows),
            )),
        };
        // Without a filter there is nothing else that could be asked, so what was found counts.
        let found = found.into_iter().zip(queries).map(|(found, query)| match found.is_cut && query.filter.is_some() {
            true => Ok(None),
            false => {
                let hits = found.records.iter().map(|record| Ok((entry(&record.id)?, record.score)));
                hits.collect::<Result<Vec<_>, Error>>().map(Some)
            }
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use databases::{CollectionSpec, IndexedRecord, SearchIndexSpec, StoredPrecision, testing::MemoryDatabase};
    use serde_json::Map;

    fn filled(rows: usize) -> FilledCollection {
        let (address, collection) = ("memory://test".to_owned(), "reverie_1".to_owned());
        let (key, settings) = ("1".to_owned(), Value::Null);
        FilledCollection { address, collection, key, rows, dimensions: 2, settings, bytes: None }
    }

    #[test]
    fn the_file_of_an_index_is_read_as_it_was_written() {
        let bytes = filled(3).to_bytes();
        assert_eq!(FilledCollection::read(&bytes).unwrap(), filled(3));
        assert!(FilledCollection::read(&bytes[..bytes.len() - 1]).is_err(), "cut off");
        let newer = String::from_utf8(bytes).unwrap().replace("\"format\":1", "\"format\":2");
        assert!(FilledCollection::read(newer.as_bytes()).unwrap_err().to_string().contains("format 2"));
    }

    #[tokio::test]
    async fn a_record_that_is_not_of_the_index_is_an_error_and_no_hit() {
        let database = Arc::new(MemoryDatabase::new("test"));
        let index = SearchIndexSpec::Exact;
        let spec = CollectionSpec { key: "1".to_owned(), dimensions: 2, index, precision: StoredPrecision::F32 };
        let place = filled(1).place();
        database.create(&place, &spec).await.unwrap();
        let record = |id| IndexedRecord {
            id: RecordId::Number(id),
            vector: vec![1.0, 0.0],
            text: String::new(),
            fields: Map::new(),
        };
        database.write(&place, &[record(0)]).await.unwrap();
        let opened = DatabaseIndex::new(filled(1));
        let query = [DatabaseQuery { vector: &[1.0, 0.0], filter: None }];
        let options = SearchOptions::top(5);
        let unconnected = opened.search(&query, &options).await.unwrap_err();
        assert!(unconnected.to_string().contains("connection"), "{unconnected}");
        opened.connect(database.clone());
        assert_eq!(opened.search(&query, &options).await.unwrap(), [Some(vec![(0, 1.0)])]);
        database.write(&place, &[record(7)]).await.unwrap();
        let error = opened.search(&query, &options).await.unwrap_err().to_string();
        assert!(error.contains("the record 7 is none of the 1"), "{error}");
    }
}

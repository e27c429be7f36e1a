//! Tests of kept tables: what is decoded again, what is taken over, and what is made anew.

use super::*;
use crate::{
    artifact::encode,
    layout::Format,
    spec::Experiment,
    task::{fixture, kept_files::CONTENT},
};
use rag::Span;
use std::{fs, path::PathBuf};

/// A shard of two documents with two chunks each.
fn shard(number: usize, word: &str) -> Vec<Chunk> {
    let chunk = |document: usize, n: u32| Chunk {
        document: format!("{number:02}-{document}.txt"),
        number: n,
        span: Span { start: 10 * n as usize, end: 10 * n as usize + word.len() },
        text: word.to_owned(),
        searchable: n == 1,
        level: n as u8,
        parent: (n == 1).then_some(0),
        previous: None,
        next: None,
        page: Some(n + 1),
        book: Some(format!("Book {document}")),
        heading: (n == 0).then(|| "Heading".to_owned()),
        metadata: serde_json::from_value(serde_json::json!({ "year": 2000 + document })).unwrap(),
        space: Chunk::shared_space("\n"),
    };
    (0..4).map(|i| chunk(i / 2, i as u32 % 2)).collect()
}

/// A store with shards, and folders for scratch files.
struct Shards {
    folder: tempfile::TempDir,
    names: Vec<String>,
    min_lower_bytes: u64,
}

impl Shards {
    /// So many shards; each holds its number as text.
    async fn new(count: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut shards = Self { folder, names: Vec::new(), min_lower_bytes: MIN_LOWER_BYTES };
        for number in 0..count {
            let name = shards.put(number, &format!("word{number}")).await;
            shards.names.push(name);
        }
        shards
    }

    /// The same, of which the table has been opened once. Tables of any size are written over others.
    async fn opened(count: usize) -> Self {
        let shards = Self { min_lower_bytes: 0, ..Self::new(count).await };
        shards.open("scratch").await.unwrap();
        shards
    }

    /// Gives a shard other texts; returns the name that it had.
    async fn change(&mut self, place: usize, word: &str) -> String {
        let changed = self.put(place, word).await;
        std::mem::replace(&mut self.names[place], changed)
    }

    fn context(&self) -> RunContext {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        fixture::run_context(self.folder.path(), Experiment::parse(text, ".").unwrap(), Vec::new())
    }

    async fn put(&self, number: usize, word: &str) -> String {
        let name = crate::layout::artifact(&Key::of_bytes(format!("{number} {word}").as_bytes()), Format::Parquet);
        self.context().store.put(&name, encode(&shard(number, word)).unwrap()).await.unwrap();
        name
    }

    fn forget(&self, name: &str) {
        fs::remove_file(self.folder.path().join("store").join(name)).unwrap();
    }

    /// The table of these shards, opened by a process of its own with this folder for scratch files.
    async fn open(&self, scratch: &str) -> Result<ChunkTable, Error> {
        let (ids, inputs) = (self.names.iter().cloned().enumerate(), Outputs::new());
        let inputs = ids.fold(inputs, |mut inputs, (id, name)| {
            inputs.insert(id, name);
            inputs
        });
        let ids: Vec<TaskId> = (0..self.names.len()).collect();
        let mut tables = KeptTables::new(&self.folder.path().join(scratch));
        tables.min_lower_bytes = self.min_lower_bytes;
        tables.open(&self.context(), &inputs, &ids, &self.names).await
    }

    /// The kept files with this ending.
    fn files(&self, scratch: &str, ending: &str) -> Vec<PathBuf> {
        let folder = self.folder.path().join(scratch).join(layout::CHUNK_TABLES);
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|it| it == ending)).collect()
    }

    /// The bytes of the only kept table.
    fn bytes(&self, scratch: &str) -> Vec<u8> {
        let files = self.files(scratch, TABLE);
        assert_eq!(files.len(), 1, "{files:?}");
        fs::read(&files[0]).unwrap()
    }
}

fn chunks(table: &ChunkTable) -> Vec<Chunk> {
    table.chunks().map(|chunk| chunk.to_chunk()).collect()
}

#[tokio::test]
async fn a_table_is_mapped_again_without_its_shards() {
    let shards = Shards::new(5).await;
    let first = chunks(&shards.open("scratch").await.unwrap());
    assert_eq!(first, (0..5).flat_map(|number| shard(number, &format!("word{number}"))).collect::<Vec<_>>());
    shards.names.iter().for_each(|name| shards.forget(name));
    assert_eq!(chunks(&shards.open("scratch").await.unwrap()), first);
    assert!(shards.open("other").await.is_err(), "nothing is kept there, and the shards are gone");
}

#[tokio::test]
async fn a_table_of_nearly_the_same_shards_decodes_only_the_new_ones_and_replaces_the_old_table() {
    let mut shards = Shards::new(6).await;
    shards.open("scratch").await.unwrap();
    // One shard is changed, one is removed, one is added at the front.
    let (changed, added) = (shards.put(2, "changed").await, shards.put(9, "added").await);
    let old = shards.names.clone();
    shards.names[2] = changed;
    shards.names.remove(4);
    shards.names.insert(0, added);
    let fresh = chunks(&shards.open("fresh").await.unwrap());
    old.iter().for_each(|name| shards.forget(name));
    let table = shards.open("scratch").await.unwrap();
    assert_eq!(chunks(&table), fresh);
    assert_eq!(shards.bytes("scratch"), shards.bytes("fresh"), "byte for byte");
    assert_eq!(table.of_document("02-1.txt").len(), 2);
}

#[tokio::test]
async fn a_table_that_has_less_than_half_of_the_shards_stays() {
    let mut shards = Shards::new(4).await;
    shards.open("scratch").await.unwrap();
    for number in 10..14 {
        let name = shards.put(number, "other").await;
        shards.names.push(name);
    }
    shards.open("scratch").await.unwrap();
    assert_eq!(shards.files("scratch", TABLE).len(), 2);
}

#[tokio::test]
async fn a_damaged_table_is_made_anew_and_nothing_is_taken_from_it() {
    let mut shards = Shards::new(3).await;
    let whole = chunks(&shards.open("scratch").await.unwrap());
    let path = shards.files("scratch", TABLE).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(chunks(&shards.open("scratch").await.unwrap()), whole);
    // Cut off, and then wanted in part.
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    shards.names.pop();
    assert_eq!(chunks(&shards.open("scratch").await.unwrap()), whole[..8]);
    fs::write(&shards.files("scratch", CONTENT)[0], b"nonsense").unwrap();
    assert_eq!(chunks(&shards.open("scratch").await.unwrap()), whole[..8]);
}

#[tokio::test]
async fn large_tables_are_written_over_the_first_one_until_much_of_it_is_of_no_use() {
    let mut shards = Shards::opened(40).await;
    let first = shards.files("scratch", TABLE);
    let mut tables = Vec::new();
    for change in 0..12 {
        let place = 3 * change;
        let old = shards.change(place, "changed").await;
        shards.forget(&old);
        let table = shards.open("scratch").await.unwrap();
        shards.min_lower_bytes = MIN_LOWER_BYTES;
        assert_eq!(chunks(&table), chunks(&shards.open("fresh").await.unwrap()), "{change}");
        shards.min_lower_bytes = 0;
        assert_eq!(chunks(&shards.open("scratch").await.unwrap()), chunks(&table), "opened again");
        let files = shards.files("scratch", TABLE);
        assert_eq!(files.len(), shards.files("scratch", CONTENT).len());
        tables.push((files.len(), files.contains(&first[0])));
    }
    // After ten changes, a quarter of the rows of the first table are of no use.
    let is_over = [(2, true); 10];
    assert_eq!(tables[..10], is_over);
    assert_eq!(tables[10], (1, false), "a whole table, and the others are gone");
    assert_eq!(tables[11].0, 2);
}

#[tokio::test]
async fn one_shard_that_changes_again_and_again_leaves_no_files_behind() {
    let mut shards = Shards::opened(20).await;
    let first = shards.names.clone();
    for change in 0..6 {
        for place in [3, 4] {
            shards.change(place, &format!("changed {change}")).await;
            shards.open("scratch").await.unwrap();
            // And back, which opens the first table.
            let changed = std::mem::replace(&mut shards.names, first.clone());
            shards.open("scratch").await.unwrap();
            shards.names = changed;
            let n_files = shards.files("scratch", TABLE).len();
            assert!(n_files <= 3, "{n_files} files: the first one, and at most two over it");
            assert_eq!(shards.files("scratch", CONTENT).len(), n_files);
        }
    }
    let table = shards.open("scratch").await.unwrap();
    assert_eq!(table.chunk(3 * 4).text, "changed 5");
}

#[tokio::test]
async fn a_table_that_shrinks_shard_by_shard_is_written_whole_in_time() {
    let mut shards = Shards::opened(40).await;
    let first = shards.files("scratch", TABLE).remove(0);
    while shards.names.len() > 29 {
        assert!(first.exists(), "{} of 40 are left", shards.names.len());
        shards.names.pop();
        assert_eq!(shards.open("scratch").await.unwrap().len(), 4 * shards.names.len());
    }
    assert!(!first.exists(), "a quarter of it was of no use");
    assert_eq!(shards.files("scratch", TABLE).len(), 1);
}

#[tokio::test]
async fn a_table_is_not_written_over_the_file_that_it_takes_the_place_of() {
    let mut shards = Shards::opened(20).await;
    let content = shards.files("scratch", CONTENT).remove(0);
    let old = shards.change(5, "changed").await;
    shards.open("scratch").await.unwrap();
    // The first table has lost its list, so it is made again, of the one that is written over it.
    fs::remove_file(content).unwrap();
    shards.names[5] = old;
    let expected = chunks(&shards.open("scratch").await.unwrap());
    shards.names.iter().for_each(|name| shards.forget(name));
    assert_eq!(chunks(&shards.open("scratch").await.unwrap()), expected);
}

#[tokio::test]
async fn a_table_over_one_that_is_damaged_or_gone_is_made_anew() {
    for is_gone in [false, true] {
        let mut shards = Shards::opened(20).await;
        let below = shards.files("scratch", TABLE).remove(0);
        let old = shards.change(5, "changed").await;
        let expected = chunks(&shards.open("scratch").await.unwrap());
        // The state before the change needs no shard: its table is still there.
        shards.forget(&old);
        let changed = std::mem::replace(&mut shards.names[5], old);
        let before = chunks(&shards.open("scratch").await.unwrap());
        assert_eq!(before, (0..20).flat_map(|number| shard(number, &format!("word{number}"))).collect::<Vec<_>>());
        shards.names[5] = changed;
        let mut bytes = fs::read(&below).unwrap();
        bytes[3] ^= 1;
        match is_gone {
            true => fs::remove_file(&below).unwrap(),
            false => fs::write(&below, &bytes).unwrap(),
        }
        assert_eq!(chunks(&shards.open("scratch").await.unwrap()), expected);
        assert!(!below.exists());
        assert_eq!(chunks(&shards.open("scratch").await.unwrap()), expected);
    }
}

//! Looking up chunks, excerpts, links, filters, and the bytes of a table.

use super::*;
use crate::{Document, chunk::ChunkerConfig, load::Format, types::Metadata};

fn document(path: &str, text: &str) -> Document {
    Document {
        path: path.to_owned(),
        content: store::Key::of_bytes(text.as_bytes()),
        format: Format::Markdown,
        title: None,
        author: None,
        text: text.to_owned(),
        pages: Vec::new(),
        headings: crate::load::markdown_headings(text),
        metadata: Default::default(),
        tables: Vec::new(),
        problems: Vec::new(),
    }
}

/// The chunks of documents, with the white space between them.
fn table(documents: &[Document]) -> ChunkTable {
    let chunker: ChunkerConfig =
        serde_json::from_str(r#"{ "sentence": { "chunk_size": 8, "chunk_overlap": 0 } }"#).unwrap();
    let chunker = chunker.build(&crate::Context::default()).unwrap();
    let chunks_of = |document: &Document| {
        let mut chunks = chunker.chunk_now(document).unwrap();
        chunks.iter_mut().for_each(|chunk| chunk.take_space(&document.text));
        chunks
    };
    ChunkTable::new(documents.iter().flat_map(chunks_of).collect())
}

#[test]
fn chunks_that_name_one_another_in_a_circle_are_no_table() {
    let two = "Raise the mast before noon today. Then tie it to the post.";
    let table = table(&[document("b", two), document("a", "Wait."), document("c", two)]);
    let chunks: Vec<Chunk> = table.chunks().map(|chunk| chunk.to_chunk()).collect();
    assert_eq!(ChunkTable::checked(chunks.clone()).unwrap().len(), 5);
    assert!(ChunkTable::checked(Vec::new()).unwrap().is_empty());
    let changes: [fn(&mut Vec<Chunk>); 8] = [
        |chunks| chunks[1].parent = Some(1),
        |chunks| chunks[0].parent = Some(1),
        |chunks| chunks[0].parent = Some(u32::MAX),
        |chunks| chunks[1].previous = Some(1),
        |chunks| chunks[0].next = Some(0),
        |chunks| chunks[1].next = Some(2),
        |chunks| chunks[2].number = 1,
        |chunks| drop(chunks.remove(0)),
    ];
    for change in changes {
        let mut changed = chunks.clone();
        change(&mut changed);
        let error = ChunkTable::checked(changed).unwrap_err().to_string();
        assert!(error.contains("table of chunks: ") && error.contains(": chunk "), "{error}");
    }
    let mut right = chunks;
    right[1].parent = Some(0);
    ChunkTable::checked(right).unwrap();
}

#[test]
fn the_chunks_of_a_document_are_found_by_its_path() {
    let two = "Raise the mast before noon today. Then tie it to the post.";
    let table = table(&[document("b", two), document("a", "Wait."), document("c", two)]);
    let numbers = |path: &str| table.of_document(path).map(|chunk| chunk.number).collect::<Vec<_>>();
    assert_eq!((numbers("b"), numbers("a"), numbers("c"), numbers("d")), (vec![0, 1], vec![0], vec![0, 1], vec![]));
    assert_eq!(["b", "a", "c", "d"].map(|path| table.rows_of_document(path)), [0..2, 2..3, 3..5, 0..0]);
}

#[test]
fn an_excerpt_is_the_documents_own_bytes_wherever_it_is_cut() {
    let text = "Raise the mast before noon.  If the panel is cold, wait.\n\n## Raising\n\nPull the rope slowly.\r\nThen \
                tie it to the post.\tDone is done, they say here.";
    let table = table(&[document("a.md", text)]);
    assert!(table.len() > 3, "{}", table.len());
    for start in 0..text.len() {
        for end in start..=text.len() {
            let found = table.excerpt("a.md", Span { start, end }).unwrap();
            assert_eq!(found, text[start..end], "{start}..{end}");
        }
    }
    assert_eq!(table.excerpt("b.md", Span { start: 0, end: 9 }), None);
}

/// Chunks of many documents with everything that a chunk can hold, in more than one segment.
fn many_chunks() -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for document in 0..3_000u32 {
        let year = ("year".to_owned(), (2000 + document % 7).into());
        let metadata = match document % 5 {
            0 => Metadata::new(),
            1 => Metadata::from([year]),
            _ => Metadata::from([year, ("tags".to_owned(), serde_json::json!(["old", format!("t{}", document % 3)]))]),
        };
        let count = document % 6;
        for number in 0..count {
            let text = format!("ünïcode {document} {number} {}", "word ".repeat(document as usize % 17));
            let start = number as usize * 100;
            chunks.push(Chunk {
                document: format!("folder {}/{document}.md", document % 11),
                number,
                span: Span { start, end: start + text.len() },
                text,
                searchable: number > 0 || document % 2 == 0,
                level: (number % 3) as u8,
                parent: (number > 0 && document % 2 == 1).then_some(0),
                previous: number.checked_sub(1),
                next: (number + 1 < count).then_some(number + 1),
                page: (document % 3 == 0).then_some(number * 10),
                book: (document % 4 > 0).then(|| format!("Book {}", document % 4)),
                heading: (document % 7 > 1).then(|| format!("Part {}", number / 2)),
                metadata: metadata.clone(),
                space: Chunk::shared_space(["", " ", "\n\n \t"][number as usize % 3]),
            });
        }
    }
    chunks
}

/// The same chunks in memory, in a mapped file, and in a file over another table, twice.
fn all_tables(chunks: &[Chunk]) -> [ChunkTable; 4] {
    let mut writer = ChunkTableWriter::checked(tempfile::tempfile().unwrap());
    chunks.iter().for_each(|chunk| writer.push(chunk).unwrap());
    let documents: Vec<&[Chunk]> = chunks.chunk_by(|a, b| a.document == b.document).collect();
    // One with other texts, and without some documents.
    let others = |documents: &[&[Chunk]], left_out: usize| {
        let of = |(place, chunks): (usize, &&[Chunk])| {
            let mut chunks = chunks.to_vec();
            chunks.iter_mut().for_each(|chunk| chunk.text += if place % 9 == left_out { "changed" } else { "" });
            if place % 7 == left_out { Vec::new() } else { chunks }
        };
        documents.iter().enumerate().flat_map(of).collect::<Vec<Chunk>>()
    };
    let base = ChunkTable::new(others(&documents, 1));
    let lower = over(&base, &others(&documents, 2));
    let tables = [over(&base, chunks), over(&lower, chunks)];
    let [first, second] = tables;
    [ChunkTable::new(chunks.to_vec()), ChunkTable::map(&writer.finish().unwrap()).unwrap(), first, second]
}

/// A table of these chunks that is written over another one.
fn over(table: &ChunkTable, chunks: &[Chunk]) -> ChunkTable {
    let mut writer = ChunkTableWriter::checked_over(tempfile::tempfile().unwrap(), table);
    let mut referred = 0;
    for chunk in chunks {
        let known = table.rows_of_document(&chunk.document).find(|row| table.chunk(*row).to_chunk() == *chunk);
        referred += usize::from(known.is_some());
        match known {
            Some(row) => writer.push_row(table, row).unwrap(),
            None => writer.push(chunk).unwrap(),
        }
    }
    assert!(2 * referred > chunks.len() && referred < chunks.len());
    let file = writer.finish().unwrap();
    assert!(ChunkTable::map(&file).is_err(), "it is no table by itself");
    ChunkTable::map_over_table(&file, table).unwrap()
}

#[test]
fn a_table_over_another_one_has_only_the_texts_that_are_new() {
    let mut chunks: Vec<Chunk> = many_chunks();
    let text = "a long text that is in each of the chunks ".repeat(20);
    chunks.iter_mut().for_each(|chunk| chunk.text = text.clone());
    let mut writer = ChunkTableWriter::new(tempfile::tempfile().unwrap());
    chunks.iter().for_each(|chunk| writer.push(chunk).unwrap());
    let whole = writer.finish().unwrap();
    let table = ChunkTable::map(&whole).unwrap();
    chunks[7].text = "new".to_owned();
    let write_over = |table: &ChunkTable| {
        let mut writer = ChunkTableWriter::checked_over(tempfile::tempfile().unwrap(), table);
        for (row, chunk) in (0u32..).zip(&chunks) {
            match table.chunk(row).text == chunk.text {
                true => writer.push_row(table, row).unwrap(),
                false => writer.push(chunk).unwrap(),
            }
        }
        let file = writer.finish().unwrap();
        let bytes = file.metadata().unwrap().len();
        assert!(bytes < 200 * chunks.len() as u64, "{bytes}");
        let upper = ChunkTable::map_over(&file, &whole).unwrap();
        assert_eq!(upper.chunks().map(|chunk| chunk.to_chunk()).collect::<Vec<_>>(), chunks);
        upper
    };
    // The second one is over the same file as the first.
    let upper = write_over(&table);
    write_over(&upper);
}

#[test]
fn a_table_in_memory_in_a_file_or_over_another_one_gives_back_every_chunk_as_it_was() {
    let chunks = many_chunks();
    assert!(chunks.len() > 5_000);
    for table in all_tables(&chunks) {
        assert_eq!(table.len(), chunks.len());
        for (row, chunk) in (0u32..).zip(&chunks) {
            assert_eq!(table.chunk(row).to_chunk(), *chunk);
            assert_eq!(table.sibling(row, chunk.number), row);
        }
        let searchable: Vec<u32> = (0u32..).zip(&chunks).filter(|(_, it)| it.searchable).map(|(row, _)| row).collect();
        assert_eq!(table.searchable(), searchable);
        let of_documents = || chunks.chunk_by(|a, b| a.document == b.document);
        assert!(table.documents().eq(of_documents().map(|chunks| &*chunks[0].document)));
        for of_document in of_documents() {
            let found: Vec<Chunk> = table.of_document(&of_document[0].document).map(|it| it.to_chunk()).collect();
            assert_eq!(found, of_document);
        }
        assert!(table.rows_of_document("folder 1/none.md").is_empty());
    }
}

#[test]
fn bytes_that_are_not_a_whole_table_are_refused() {
    let mut writer = ChunkTableWriter::new(Vec::new());
    many_chunks()[..50].iter().for_each(|chunk| writer.push(chunk).unwrap());
    let bytes = writer.finish().unwrap();
    for end in 0..bytes.len() {
        assert!(ChunkTable::from_bytes(bytes[..end].to_vec()).is_err(), "{end} bytes");
    }
    assert_eq!(ChunkTable::from_bytes(bytes).unwrap().len(), 50);
}

#[test]
fn filters_by_columns_let_the_same_chunks_pass_as_looking_at_each_chunk() {
    let filters = [
        serde_json::json!({}),
        serde_json::json!({ "year": 2003 }),
        serde_json::json!({ "year": { "ge": 2002, "lt": 2005 }, "tags": "t1" }),
        serde_json::json!({ "path": { "glob": "folder 7/**" }, "page": { "ge": 10 } }),
        serde_json::json!({ "title": ["Book 1", "Book 3"], "heading": "Part 1" }),
        serde_json::json!({ "heading": { "ne": "Part 0" }, "year": { "ne": 2001 } }),
        serde_json::json!({ "year": 1900 }),
    ];
    for table in all_tables(&many_chunks()) {
        for filter in &filters {
            let filter: Filter = serde_json::from_value(filter.clone()).unwrap();
            let passes = |chunk: &TableChunk<'_>| {
                filter.matchers().all(|(field, test)| chunk.field(field).is_some_and(|value| test.matches(&value)))
            };
            let found = table.entries_passing(&filter).unwrap();
            let each = (0u32..).zip(table.searchable_chunks()).filter(|(_, chunk)| passes(chunk));
            let expected: Vec<u32> = each.map(|(entry, _)| entry).collect();
            assert_eq!((found.entries(), found.passing()), (expected.clone(), expected.len()), "{filter}");
            let all = table.searchable().len() as u32;
            assert!((0..all).all(|entry| found.has(entry) == expected.binary_search(&entry).is_ok()), "{filter}");
            assert_eq!(found.all(), all as usize);
        }
        let unknown: Filter = serde_json::from_value(serde_json::json!({ "yaer": 1 })).unwrap();
        let error = table.entries_passing(&unknown).unwrap_err().to_string();
        assert!(error.contains("there are path, title, page, heading, tags, year"), "{error}");
    }
}

//! Tables of metadata: what is read of them, and their mistakes.

use super::*;
use crate::record::fixture::{session, text};
use rag::load::{LoadError, Rejected, Unread};
use serde_json::{Value, json};
use store::Key;

/// A corpus with these files: read, not read now, rejected, and not listed.
fn corpus(read: &[&str], absent: &[&str], rejected: &[&str], unread: &[&str]) -> CorpusFiles {
    let file = |path: &&str| serde_json::from_value(json!({ "path": path, "bytes": 1, "location": path })).unwrap();
    let rejected = rejected.iter().map(|path| Rejected { path: (*path).to_owned(), reason: LoadError::Encrypted });
    let unread = unread.iter().map(|path| Unread { path: (*path).to_owned(), reason: "denied".to_owned() });
    CorpusFiles {
        files: Arc::new(read.iter().map(|path| (file(path), Key::of_bytes(path.as_bytes()))).collect()),
        absent: absent.iter().map(file).collect(),
        rejected: rejected.collect(),
        unread: unread.collect(),
        unread_types: BTreeMap::new(),
    }
}

/// What is read of this table, and the mistakes.
fn table(bytes: Option<&str>, files: &CorpusFiles) -> (Result<BTreeMap<String, Metadata>, Error>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let experiment = text("chunker = \"sentence\"\nretriever = \"bm25\"", "metrics = [\"recall\"]");
    let session = session(folder.path(), &experiment.replace("\"docs\"", "\"docs\"\nmetadata = \"table.csv\""));
    if let Some(bytes) = bytes {
        std::fs::write(folder.path().join("table.csv"), bytes).unwrap();
    }
    let mut mistakes = Vec::new();
    (read_table(&session, || files.known_paths(), &mut mistakes), mistakes)
}

#[test]
fn each_document_has_what_its_row_says() {
    let files = corpus(&["a.txt", "b.txt", "c.txt"], &[], &[], &[]);
    let (found, mistakes) = table(Some("path,year,topic\na.txt,2020,owls\nb.txt,2021,\n"), &files);
    assert!(mistakes.is_empty(), "{mistakes:?}");
    let found: Vec<(String, Value)> =
        found.unwrap().into_iter().map(|(path, metadata)| (path, json!(metadata))).collect();
    let expected = [("a.txt", json!({ "year": 2020, "topic": "owls" })), ("b.txt", json!({ "year": 2021 }))];
    assert_eq!(found, expected.map(|(path, metadata)| (path.to_owned(), metadata)));
}

#[test]
fn without_a_table_nothing_is_said_and_a_table_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = text("chunker = \"sentence\"\nretriever = \"bm25\"", "metrics = [\"recall\"]");
    let session = session(folder.path(), &experiment);
    let mut mistakes = Vec::new();
    assert!(read_table(&session, BTreeSet::new, &mut mistakes).unwrap().is_empty());
    assert!(mistakes.is_empty());
    let (found, mistakes) = table(None, &CorpusFiles::default());
    assert!(matches!(found, Err(Error::File { operation: "read", .. })) && mistakes.is_empty(), "{found:?}");
}

#[test]
fn a_row_may_name_any_file_at_the_address_whether_it_was_read_or_not() {
    let files = corpus(&["a.txt"], &["b.txt"], &["c.txt"], &["d.txt"]);
    let (found, mistakes) = table(Some("path,year\na.txt,1\nb.txt,2\nc.txt,3\nd.txt,4\n"), &files);
    assert!(mistakes.is_empty(), "{mistakes:?}");
    assert_eq!(found.unwrap().len(), 4);
}

#[test]
fn rows_of_unknown_documents_are_mistakes_of_which_three_are_named() {
    let files = corpus(&["a.txt"], &[], &[], &[]);
    let mistake = |line: usize, path: &str| {
        format!("table.csv:{line}: the corpus has no document `{path}`: correct the path, or remove the row")
    };
    let of = |rows: &str| table(Some(&format!("path,year\n{rows}")), &files).1;
    assert_eq!(of("A.txt,1\na.txt,1\n"), [mistake(2, "A.txt")]);
    let three = [mistake(3, "b"), mistake(4, "c"), mistake(2, "d")];
    assert_eq!(of("d,1\nb,2\nc,3\n"), three, "by their paths");
    let more = |n: usize| format!("table.csv: {n} more rows name documents that the corpus does not have");
    let named = [mistake(2, "b"), mistake(3, "c"), mistake(4, "d")];
    assert_eq!(of("b,1\nc,2\nd,3\ne,4\n"), [&named[..], &[more(1)]].concat());
    assert_eq!(of("b,1\nc,2\nd,3\ne,4\nf,5\na.txt,6\n"), [&named[..], &[more(2)]].concat());
}

#[test]
fn faults_of_the_table_are_mistakes_and_nothing_is_taken_from_it() {
    let files = corpus(&["a.txt"], &[], &[], &[]);
    for rows in ["path,year\na.txt,1\na.txt,2\n", "year\n1\n", "path,year\n"] {
        let (found, mistakes) = table(Some(rows), &files);
        assert!(found.unwrap().is_empty(), "{rows}");
        assert!(
            !mistakes.is_empty() && mistakes.iter().all(|mistake| mistake.starts_with("table.csv:")),
            "{mistakes:?}"
        );
    }
}

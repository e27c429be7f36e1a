//! Which documents are forgotten: those of the paths and fields that were asked for, in every version that the store knows,
//! copies of the same bytes under other paths, and the files in them, such as attachments.

use super::fingerprint::TextFingerprint;
use crate::{
    Error,
    artifact::{self, DocumentRow, TableSubject, table_subject},
    blocking::compute,
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use rag::Document;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::{ArtifactStore, Key};

/// Tables that are read and decoded at once.
const TABLES_AT_ONCE: usize = 8;

/// A document that is forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenDocument {
    /// Its path below the corpus' root.
    pub path: String,
    /// The digests of its bytes, one for each version that the store knew.
    pub digests: BTreeSet<Key>,
}

/// Paths of documents with the digests of their bytes.
pub(super) type DocumentVersions = BTreeMap<String, BTreeSet<Key>>;

/// A document that a table of the store or a record of a run names.
#[derive(Debug, Clone)]
pub(super) struct KnownDocument {
    pub(super) path: String,
    /// The digest of its bytes; none for a file that gave no document.
    pub(super) content: Option<Key>,
    /// Whether other documents of the same bytes are the same document. Empty files are not.
    pub(super) has_text: bool,
    /// Whether it has the fields that were asked for.
    pub(super) has_fields: bool,
}

/// The documents that are chosen by path or by fields, in all their versions, and their copies.
pub(super) fn choose(known: &[KnownDocument], paths: &BTreeSet<String>) -> DocumentVersions {
    let mut chosen: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    chosen.extend(known.iter().filter(|one| one.has_fields).map(|one| one.path.as_str()));
    loop {
        let contents: BTreeSet<Key> = known
            .iter()
            .filter(|one| one.has_text && chosen.contains(one.path.as_str()))
            .filter_map(|one| one.content)
            .collect();
        let is_copy = |one: &&KnownDocument| one.has_text && one.content.is_some_and(|key| contents.contains(&key));
        let before = chosen.len();
        // An attachment goes with its mail.
        let is_within = |one: &&KnownDocument| is_in_one_of(&one.path, |path| chosen.contains(path));
        let more: Vec<&str> =
            known.iter().filter(|one| is_copy(one) || is_within(one)).map(|one| one.path.as_str()).collect();
        chosen.extend(more);
        if chosen.len() == before {
            break;
        }
    }
    let mut versions = DocumentVersions::new();
    for one in known.iter().filter(|one| chosen.contains(one.path.as_str())) {
        versions.entry(one.path.clone()).or_default().extend(one.content);
    }
    versions
}

/// Whether a file is in one of these files: the path of an attachment begins with that of its mail.
pub(super) fn is_in_one_of(path: &str, is_one: impl Fn(&str) -> bool) -> bool {
    path.match_indices('/').any(|(end, _)| is_one(&path[..end]))
}

/// The documents in the tables of a store, and the names of these tables. `conditions` are fields and the values that a
/// document must have.
pub(super) async fn known_documents(
    store: &ArtifactStore,
    tables: &[String],
    conditions: &Arc<Vec<(String, String)>>,
) -> Result<(Vec<KnownDocument>, Vec<String>), Error> {
    let conditions = conditions.clone();
    let look = move |bytes: Bytes| -> Option<Vec<KnownDocument>> {
        if table_subject(&bytes).ok()? != TableSubject::Documents {
            return None;
        }
        let rows: Vec<DocumentRow> = artifact::decode(bytes).ok()?;
        Some(rows.iter().map(|row| known(row, &conditions)).collect())
    };
    let (mut documents, mut of_documents) = (Vec::new(), Vec::new());
    for (name, found) in look_at_tables(store, tables, look).await? {
        if let Some(found) = found.flatten() {
            documents.extend(found);
            of_documents.push(name);
        }
    }
    Ok((documents, of_documents))
}

fn known(row: &DocumentRow, conditions: &[(String, String)]) -> KnownDocument {
    match row {
        DocumentRow::Document(document) => {
            let has = |(field, wanted): &(String, String)| field_values(document, field).contains(wanted);
            KnownDocument {
                path: document.path.clone(),
                content: Some(document.content),
                has_text: !document.text.trim().is_empty(),
                has_fields: !conditions.is_empty() && conditions.iter().all(has),
            }
        }
        DocumentRow::Rejected(rejected) => {
            KnownDocument { path: rejected.path.clone(), content: None, has_text: false, has_fields: false }
        }
    }
}

/// The values of a document's field, as texts: of its metadata, or its title or author.
fn field_values(document: &Document, field: &str) -> Vec<String> {
    let own = match field {
        "title" => document.title.clone(),
        "author" => document.author.clone(),
        _ => None,
    };
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let of_metadata = match document.metadata.get(field) {
        Some(Value::Array(values)) => values.iter().map(text).collect(),
        Some(value) => vec![text(value)],
        None => Vec::new(),
    };
    own.into_iter().chain(of_metadata).collect()
}

/// The words of the documents that no other document of the store has. `tables` are those of documents.
pub(super) async fn fingerprint_of(
    store: &ArtifactStore,
    tables: &[String],
    versions: &Arc<DocumentVersions>,
) -> Result<TextFingerprint, Error> {
    let of_chosen = versions.clone();
    let texts = move |bytes: Bytes| -> Vec<String> {
        let rows: Vec<DocumentRow> = artifact::decode(bytes).unwrap_or_default();
        let documents = rows.into_iter().filter_map(DocumentRow::into_document);
        documents.filter(|document| of_chosen.contains_key(&document.path)).map(|document| document.text).collect()
    };
    let mut fingerprint = TextFingerprint::default();
    for (_, found) in look_at_tables(store, tables, texts).await? {
        found.into_iter().flatten().for_each(|text| fingerprint.add(&text));
    }
    if fingerprint.is_empty() {
        return Ok(fingerprint);
    }
    let (whole, of_chosen) = (Arc::new(fingerprint.clone()), versions.clone());
    let shared = move |bytes: Bytes| -> BTreeSet<u64> {
        let rows: Vec<DocumentRow> = artifact::decode(bytes).unwrap_or_default();
        let documents = rows.into_iter().filter_map(DocumentRow::into_document);
        let others = documents.filter(|document| !of_chosen.contains_key(&document.path));
        others.flat_map(|document| whole.shared_rows(&document.text)).collect()
    };
    for (_, found) in look_at_tables(store, tables, shared).await? {
        fingerprint.leave_out(found.into_iter().flatten());
    }
    Ok(fingerprint)
}

/// Looks at the bytes of tables, several at a time. None for a table that is damaged or gone.
pub(super) async fn look_at_tables<T: Send + 'static>(
    store: &ArtifactStore,
    names: &[String],
    look: impl Fn(Bytes) -> T + Clone + Send + 'static,
) -> Result<Vec<(String, Option<T>)>, Error> {
    let looks = names.iter().map(|name| {
        let look = look.clone();
        async move {
            let bytes = match store.get(name).await {
                Err(store::Error::Damaged { .. }) => None,
                bytes => bytes?,
            };
            let found = match bytes {
                Some(bytes) => Some(compute(move || look(bytes)).await?),
                None => None,
            };
            Ok::<_, Error>((name.clone(), found))
        }
    });
    stream::iter(looks).buffer_unordered(TABLES_AT_ONCE).try_collect().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(path: &str, content: &str, has_fields: bool) -> KnownDocument {
        let has_text = !content.is_empty();
        KnownDocument { path: path.to_owned(), content: Some(Key::of_bytes(content.as_bytes())), has_text, has_fields }
    }

    fn paths(chosen: &DocumentVersions) -> Vec<(&str, usize)> {
        chosen.iter().map(|(path, versions)| (path.as_str(), versions.len())).collect()
    }

    #[test]
    fn all_versions_of_a_path_and_all_copies_of_its_bytes_are_chosen() {
        let documents = [
            known("a.md", "one", false),
            known("a.md", "two", false),
            known("copy.md", "one", false),
            known("copy of copy.md", "three", false),
            known("copy.md", "three", false),
            known("other.md", "four", false),
            known("by field.md", "five", true),
            known("empty.md", "", false),
            known("also empty.md", "", false),
        ];
        let choose = |path: &str| choose(&documents, &BTreeSet::from([path.to_owned()]));
        let expected = [("a.md", 2), ("by field.md", 1), ("copy of copy.md", 1), ("copy.md", 2)];
        assert_eq!(paths(&choose("a.md")), expected);
        assert_eq!(paths(&choose("empty.md")), [("by field.md", 1), ("empty.md", 1)]);
        assert_eq!(paths(&choose("unknown.md")), [("by field.md", 1)]);
    }
}

//! Which answers in the journal come from the documents.
//!
//! An entry holds an answer and a key, but no prompt. So entries are found in three ways. Tasks keep the keys of their calls,
//! by question and by document. The key of an embedded text is computed from the text. And an answer that quotes a document
//! shares words with it.

use super::findings::DocumentSigns;
use crate::{Error, layout::NamedObject, task::TaskUsage};
use futures::{StreamExt, TryStreamExt, stream};
use models::{Identity, batch_answer_key, embedding_keys, holds_several_vectors};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::{ArtifactStore, EntryFilter, Key};

const READS_AT_ONCE: usize = 64;
/// The kind of calls that embed texts.
const EMBEDDING: &str = "embedding";

/// What is known of the calls that were made with the documents.
pub(super) struct CallSigns<'a> {
    pub(super) documents: &'a DocumentSigns,
    /// The objects that go, among them those of tasks whose calls are erased.
    pub(super) descendants: &'a BTreeSet<String>,
    /// The questions with a passage or a piece of evidence of the documents, by id.
    pub(super) questions: &'a BTreeSet<String>,
    /// The pieces of the documents, as they were embedded.
    pub(super) pieces: &'a [String],
    /// The models that may have embedded them.
    pub(super) models: &'a [Identity],
}

impl CallSigns<'_> {
    /// The keys of calls that tasks have noted, and those of embedded pieces.
    pub(super) async fn keys(&self, store: &ArtifactStore, names: &[String]) -> Result<BTreeSet<Key>, Error> {
        let usages = names.iter().filter_map(|name| match NamedObject::of(name) {
            NamedObject::Measurement(of) if name.starts_with("usage/") => Some((name, of)),
            _ => None,
        });
        let reads = usages.map(|(name, of)| async move {
            let bytes = store.get(name).await?;
            let usage: Option<TaskUsage> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            Ok::<_, Error>(usage.map(|usage| self.of_task(&of, usage.calls)).unwrap_or_default())
        });
        let found: Vec<BTreeSet<Key>> = stream::iter(reads).buffer_unordered(READS_AT_ONCE).try_collect().await?;
        let remote = self.models.iter().filter(|model| model.is_remote());
        let of_pieces = remote.flat_map(|model| self.pieces.iter().flat_map(move |piece| embedding_keys(model, piece)));
        let calls: BTreeSet<Key> = found.into_iter().flatten().chain(of_pieces).collect();
        // The answers as they came in batches of a provider.
        let in_batches: Vec<Key> = calls.iter().map(batch_answer_key).collect();
        Ok(calls.into_iter().chain(in_batches).collect())
    }

    /// The keys of a task's calls that were made with the documents.
    fn of_task(&self, output: &str, calls: BTreeMap<String, BTreeSet<Key>>) -> BTreeSet<Key> {
        let goes = self.descendants.contains(output);
        let is_of = |of: &String| self.documents.is_path(of) || goes && self.questions.contains(of);
        calls.into_iter().filter(|(of, _)| is_of(of)).flat_map(|(_, keys)| keys).collect()
    }
}

/// The entries that are erased: those with these keys, and those that share words with the documents. The vectors that
/// earlier versions kept for several texts together cannot be told apart, and damaged entries hold nobody knows what.
pub(super) fn entries_to_erase(keys: BTreeSet<Key>, documents: Arc<DocumentSigns>) -> Arc<EntryFilter> {
    Arc::new(move |key, entry| match entry {
        _ if keys.contains(key) => true,
        None => true,
        Some(entry) if entry.kind == EMBEDDING => holds_several_vectors(&entry.response),
        Some(entry) => documents.fingerprint.is_in(&entry.response),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::JournalEntry;

    fn key(name: &str) -> Key {
        Key::of_bytes(name.as_bytes())
    }

    fn entry(kind: &str, response: &str) -> JournalEntry {
        JournalEntry {
            model: "m".to_owned(),
            kind: kind.to_owned(),
            response: response.to_owned(),
            prompt_tokens: 1,
            completion_tokens: 1,
            cost_usd: 0.0,
            seconds: 0.0,
            created_unix_ms: 0,
        }
    }

    #[test]
    fn the_calls_of_a_document_and_of_its_questions_are_erased() {
        let mut documents = DocumentSigns::default();
        documents.versions.insert("a.md".to_owned(), BTreeSet::new());
        let (descendants, questions) = (BTreeSet::from(["answers".to_owned()]), BTreeSet::from(["pond".to_owned()]));
        let signs = CallSigns {
            documents: &documents,
            descendants: &descendants,
            questions: &questions,
            pieces: &[],
            models: &[],
        };
        let calls = || {
            let of = |name: &str| (name.to_owned(), BTreeSet::from([key(name)]));
            BTreeMap::from([of("pond"), of("owls"), of("a.md"), of("b.md")])
        };
        assert_eq!(signs.of_task("answers", calls()), [key("pond"), key("a.md")].into());
        assert_eq!(signs.of_task("queries", calls()), [key("a.md")].into(), "of a task without the documents");
    }

    #[test]
    fn an_entry_is_erased_by_its_key_by_its_words_and_if_it_cannot_be_read() {
        let mut documents = DocumentSigns::default();
        documents.fingerprint.add("She breeds black swans in a pond that nobody else may enter.");
        let filter = entries_to_erase([key("known")].into(), Arc::new(documents));
        let several = r#"{"columns":1,"data":"AACAPwAAgD8="}"#;
        for (name, entry, expected) in [
            ("known", Some(entry("chat", "Yes.")), true),
            ("a", Some(entry("chat", r#"{"text":"black swans in a pond that nobody else may see"}"#)), true),
            ("b", Some(entry("chat", "Swans.")), false),
            ("c", Some(entry(EMBEDDING, r#"{"columns":2,"data":"AACAPwAAgD8="}"#)), false),
            ("d", Some(entry(EMBEDDING, several)), true),
            ("e", None, true),
        ] {
            assert_eq!(filter(&key(name), entry.as_ref()), expected, "{name}");
        }
    }
}

//! Remote vectors are paid per text, however texts are grouped.

use super::{
    handle::{EmbeddingRequest, EmbeddingResponse},
    reply::{CallAnswer, to_text},
    *,
};
use crate::{InputKind, Matrix, Model, Usage, ledger};
use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use std::collections::BTreeMap;

/// Embeds a text as its length and its first byte, and counts how often it was sent each text.
struct Counting {
    identity: Identity,
    batch_size: usize,
    sent: Mutex<BTreeMap<String, usize>>,
}

impl Counting {
    fn new(batch_size: usize) -> Arc<Self> {
        let identity = Identity {
            provider: "openai".to_owned(),
            model: "vectors".to_owned(),
            revision: "http://127.0.0.1:1/v1".to_owned(),
            parameters: serde_json::Value::Null,
        };
        Arc::new(Self { identity, batch_size, sent: Mutex::default() })
    }

    fn n_sent(&self) -> usize {
        self.sent.lock().expect("no panic").values().sum()
    }
}

impl Model for Counting {
    fn identity(&self) -> &Identity {
        &self.identity
    }
}

#[async_trait]
impl EmbeddingModel for Counting {
    fn dimensions(&self) -> usize {
        2
    }

    fn max_tokens(&self) -> usize {
        100
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn price(&self) -> f64 {
        3.0
    }

    async fn embed(&self, texts: &[String], _kind: InputKind) -> Result<(Matrix, Usage), Error> {
        for text in texts {
            *self.sent.lock().expect("no panic").entry(text.clone()).or_default() += 1;
        }
        tokio::task::yield_now().await;
        let data = texts.iter().flat_map(|text| vector(text)).collect();
        Ok((Matrix { columns: 2, data }, Usage { prompt_tokens: 7 * texts.len() as u64 + 1, ..Usage::default() }))
    }
}

fn vector(text: &str) -> [f32; 2] {
    [1.0 / text.len() as f32, f32::from(text.as_bytes()[0]) / 3.0]
}

fn texts(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("{i} {}", "x".repeat(i % 13))).collect()
}

fn expected(texts: &[String]) -> Vec<f32> {
    texts.iter().flat_map(|text| vector(text)).collect()
}

fn journal() -> (tempfile::TempDir, Arc<Journal>) {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = Arc::new(Journal::open(folder.path().join("journal.db")).expect("a journal"));
    (folder, journal)
}

#[tokio::test]
async fn two_hundred_texts_in_other_groups_are_not_sent_again() {
    let (_folder, journal) = journal();
    let first = Counting::new(64);
    let all = texts(0..200);
    let client = Client::new(Some(journal.clone()));
    let made = client.embedder(first.clone()).embed(&all, InputKind::Document).await.expect("vectors");
    assert_eq!((made.data, first.n_sent()), (expected(&all), 200));
    let calls = client.meter().total().calls;

    // Shifted by new texts, in other sizes, in another order, by another process.
    let second = Counting::new(7);
    let client = Client::new(Some(journal.clone()));
    let embedder = client.embedder(second.clone());
    for group in all.chunks(33).rev() {
        let made = embedder.embed(group, InputKind::Document).await.expect("vectors");
        assert_eq!(made.data, expected(group));
    }
    assert_eq!(second.n_sent(), 0);
    assert_eq!((client.meter().total().calls, client.meter().total().from_journal), (0, 200));
    let shifted = [texts(200..203), all.clone()].concat();
    let made = embedder.embed(&shifted, InputKind::Document).await.expect("vectors");
    assert_eq!((made.data, second.n_sent()), (expected(&shifted), 3), "only the new ones");
    embedder.embed(&all[..2], InputKind::Query).await.expect("vectors");
    assert_eq!(second.n_sent(), 5, "a question is another request than a passage");

    // What the entries cost together is what the calls cost.
    let kept = journal.statistics().expect("statistics");
    let paid_tokens = 7 * (200 + 3 + 2) + calls + 2;
    assert_eq!((kept.entries, kept.prompt_tokens), (205, paid_tokens));
    assert!((kept.cost_usd - paid_tokens as f64 * 3.0 / 1e6).abs() < 1e-12, "{}", kept.cost_usd);
}

#[tokio::test]
async fn long_texts_count_the_same_whether_the_endpoint_or_the_journal_gave_their_vectors() {
    let (_folder, journal) = journal();
    let model = Counting::new(2);
    // The model reads 100 tokens, and its tokenizer is not known.
    let words = |n: usize| "word ".repeat(n);
    let all = ["short".to_owned(), words(60), words(150), words(200), words(200)];
    let lost = |text: &String| crate::estimate_tokens(text).saturating_sub(100) as u64;
    assert_eq!((lost(&all[1]), lost(&all[2]) > 0, lost(&all[3]) > lost(&all[2])), (0, true, true));
    for sent in [4, 4, 4] {
        let embedder = Client::new(Some(journal.clone())).embedder(model.clone());
        let (made, ledger) = ledger::measure(embedder.embed(&all, InputKind::Document)).await;
        assert_eq!((made.expect("vectors").rows(), model.n_sent()), (5, sent), "equal texts are sent once");
        let (_, used) = ledger.models().next().expect("an entry");
        assert_eq!(
            (used.texts, used.cut_texts, used.cut_tokens, used.max_tokens),
            (4, 2, lost(&all[2]) + lost(&all[3]), 100)
        );
        let (one, ledger) = ledger::measure(embedder.embed(&all[3..4], InputKind::Document)).await;
        assert_eq!(one.expect("a vector").rows(), 1);
        let (_, used) = ledger.models().next().expect("an entry");
        assert_eq!((used.texts, used.cut_texts, used.cut_tokens), (1, 1, lost(&all[3])));
    }
    let embedder = Client::new(None).embedder(model);
    let (none, ledger) = ledger::measure(embedder.embed(&[], InputKind::Query)).await;
    assert!(none.expect("no vectors").data.is_empty() && ledger.is_empty());
}

#[tokio::test]
async fn a_text_that_two_tasks_embed_at_once_is_sent_once() {
    let (_folder, journal) = journal();
    let model = Counting::new(5);
    let client = Client::new(Some(journal));
    let (one, other) = (client.embedder(model.clone()), client.embedder(model.clone()));
    let (left, right) = (texts(0..40), texts(20..60));
    let (left_made, right_made) =
        tokio::join!(one.embed(&left, InputKind::Document), other.embed(&right, InputKind::Document));
    assert_eq!(left_made.expect("vectors").data, expected(&left));
    assert_eq!(right_made.expect("vectors").data, expected(&right));
    assert_eq!(model.n_sent(), 60);
}

#[tokio::test]
async fn vectors_that_an_older_version_kept_for_a_whole_batch_are_found() {
    let (_folder, journal) = journal();
    let model = Counting::new(4);
    let client = Client::new(Some(journal.clone()));
    let embedder = client.embedder(model.clone());
    let all = texts(0..8);
    let (batch, kind) = (&all[..4], InputKind::Document);
    let key = embedder.caller.key(&EmbeddingRequest { texts: batch, kind });
    let bytes: Vec<u8> = expected(batch).iter().flat_map(|number| number.to_le_bytes()).collect();
    let response = to_text(&EmbeddingResponse { columns: 2, data: STANDARD.encode(bytes) }).expect("text");
    let answer = CallAnswer { usage: Usage { prompt_tokens: 9, ..Usage::default() }, ..CallAnswer::default() };
    journal.put(&key, &embedder.caller.entry(&answer, response)).expect("kept");
    let made = embedder.embed(&all, kind).await.expect("vectors");
    assert_eq!((made.data, model.n_sent()), (expected(&all), 4));
}

#[tokio::test]
async fn machines_that_share_a_store_send_each_text_once() {
    let store = store::ArtifactStore::open("memory:///texts", &[], &store::NoLayout).expect("a store");
    let ((_one, here), (_two, there)) = (journal(), journal());
    let all = texts(0..50);
    for (journal, sent) in [(here, 50), (there, 0)] {
        let model = Counting::new(16);
        let client = Client::sharing(SharedJournal::new(journal, store.clone()));
        let made = client.embedder(model.clone()).embed(&all, InputKind::Document).await.expect("vectors");
        assert_eq!((made.data, model.n_sent()), (expected(&all), sent));
    }
}

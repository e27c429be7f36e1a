//! Counts what the calls of some work used: tokens, money and seconds, by model.
//!
//! Work runs inside [`measure`], and every call that it makes through a handle
//! of a [`Client`](crate::Client) is added to its ledger, whichever component
//! makes the call. Calls that the journal answers, and calls that joined an
//! identical call in flight, count like calls that were made: a ledger holds
//! the whole cost of the work, also the part that another run has paid. The
//! [`Meter`](crate::Meter) counts what this run paid.
//!
//! Ledgers nest: what is added to an inner ledger is added to the outer ones.
//! Work that continues on another thread takes its ledger along with [`carry`].

#[cfg(doc)]
use crate::Error;
use crate::{Identity, locked};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::AddAssign,
    sync::{Arc, Mutex},
};
use store::{Key, KeyBuilder};
use tokio::time::Instant;

/// What the calls to one model used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The model's name, as its identity has it.
    pub model: String,
    /// Calls that were answered.
    pub calls: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// In US dollars, by the prices when the calls were made.
    pub cost_usd: f64,
    /// The time that the model took when the calls were made, summed over calls
    /// that may have overlapped.
    pub seconds: f64,
    /// Texts that were embedded, or passages that were scored. Equal texts that
    /// are embedded in one call count once.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub texts: u64,
    /// Texts that were longer than the model's limit, so that it read only
    /// their beginning. An estimate for a remote embedding model whose tokenizer is
    /// not known; 0 for a remote reranker, which does not report it.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub cut_texts: u64,
    /// Tokens of these texts that the model did not read; not part of
    /// `prompt_tokens`. Ledgers of earlier versions have 0 here even if texts were cut.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub cut_tokens: u64,
    /// Texts that were longer than the model's limit, and were read to their end
    /// in windows.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub windowed_texts: u64,
    /// The model's limit: the most tokens of a text, or of a query and a passage
    /// together, that it reads. The largest limit if calls had different ones; 0 if
    /// there is none or it is not known.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub max_tokens: u64,
}

impl ModelUsage {
    /// Tokens read and written.
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Dollars at these prices per million tokens read and written.
    pub fn cost_at(&self, (input, output): (f64, f64)) -> f64 {
        (self.prompt_tokens as f64 * input + self.completion_tokens as f64 * output) / 1e6
    }
}

impl AddAssign<&Self> for ModelUsage {
    fn add_assign(&mut self, other: &Self) {
        if self.model.is_empty() {
            self.model.clone_from(&other.model);
        }
        self.calls = self.calls.saturating_add(other.calls);
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.cost_usd += other.cost_usd;
        self.seconds += other.seconds;
        self.texts = self.texts.saturating_add(other.texts);
        self.cut_texts = self.cut_texts.saturating_add(other.cut_texts);
        self.cut_tokens = self.cut_tokens.saturating_add(other.cut_tokens);
        self.windowed_texts = self.windowed_texts.saturating_add(other.windowed_texts);
        self.max_tokens = self.max_tokens.max(other.max_tokens);
    }
}

/// What the calls of some work used, by model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ledger {
    models: BTreeMap<String, ModelUsage>,
}

impl Ledger {
    /// Whether there were no calls.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// The usage of each model, with its [`ledger_id`].
    pub fn models(&self) -> impl Iterator<Item = (&str, &ModelUsage)> {
        self.models.iter().map(|(id, usage)| (id.as_str(), usage))
    }

    /// The calls to all models.
    pub fn calls(&self) -> u64 {
        self.models.values().map(|usage| usage.calls).sum()
    }

    /// The tokens of all models.
    pub fn tokens(&self) -> u64 {
        self.models.values().map(ModelUsage::tokens).sum()
    }

    /// The seconds of all models.
    pub fn seconds(&self) -> f64 {
        // The sum of nothing is -0.
        self.models.values().map(|usage| usage.seconds).sum::<f64>() + 0.0
    }

    /// Adds what calls to the model with this [`ledger_id`] used.
    pub fn add(&mut self, id: &str, usage: &ModelUsage) {
        *self.models.entry(id.to_owned()).or_default() += usage;
    }

    /// Adds another ledger.
    pub fn merge(&mut self, other: &Self) {
        for (id, usage) in other.models() {
            self.add(id, usage);
        }
    }
}

/// The id of a model in ledgers: models of one provider, name and revision
/// have one price, whatever their other settings are.
pub fn ledger_id(identity: &Identity) -> String {
    let key = KeyBuilder::new("account")
        .field("provider", &identity.provider)
        .field("model", &identity.model)
        .field("revision", &identity.revision);
    key.finish().short()
}

tokio::task_local! {
    /// The ledger of the work that runs here.
    static SCOPE: Arc<LedgerScope>;
}

/// An open ledger, nested in its parent.
#[derive(Debug, Default)]
struct LedgerScope {
    ledger: Mutex<Ledger>,
    /// When calls began and ended here, and how long they took when they were
    /// made. Only work that is timed has it.
    calls: Option<Mutex<Vec<TimedCall>>>,
    /// The journal's keys of the calls; none where nobody asks for them.
    keys: Option<Mutex<BTreeSet<Key>>>,
    /// Whether calls that the journal cannot answer are refused.
    replays: bool,
    parent: Option<Arc<LedgerScope>>,
}

impl LedgerScope {
    fn within(calls: Option<Mutex<Vec<TimedCall>>>, replays: bool) -> Arc<Self> {
        let parent = current();
        let replays = replays || parent.as_ref().is_some_and(|parent| parent.replays);
        Arc::new(Self { ledger: Mutex::default(), calls, keys: None, replays, parent })
    }

    /// The same, with the keys of the calls.
    fn with_keys() -> Arc<Self> {
        let parent = current();
        let replays = parent.as_ref().is_some_and(|parent| parent.replays);
        Arc::new(Self { ledger: Mutex::default(), calls: None, keys: Some(Mutex::default()), replays, parent })
    }

    fn all(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |scope| scope.parent.as_ref())
    }
}

#[derive(Debug, Clone, Copy)]
struct TimedCall {
    began: Instant,
    ended: Instant,
    seconds: f64,
}

fn current() -> Option<Arc<LedgerScope>> {
    SCOPE.try_with(Arc::clone).ok()
}

/// Does work, and counts what its calls use.
pub async fn measure<T>(work: impl Future<Output = T>) -> (T, Ledger) {
    let scope = LedgerScope::within(None, false);
    let done = SCOPE.scope(scope.clone(), work).await;
    let ledger = locked(&scope.ledger).clone();
    (done, ledger)
}

/// Does work, and returns the keys under which the journal keeps the answers of its calls. Calls that are not kept, such as
/// those of an embedder of this process, have none.
pub async fn collect_keys<T>(work: impl Future<Output = T>) -> (T, BTreeSet<Key>) {
    let scope = LedgerScope::with_keys();
    let done = SCOPE.scope(scope.clone(), work).await;
    let keys = scope.keys.as_ref().map(|keys| locked(keys).clone()).unwrap_or_default();
    (done, keys)
}

/// Does work again whose calls were made before. The journal answers the calls
/// whose answers it keeps, and a missing answer is [`Error::Cancelled`], so nothing
/// is paid. In-process embedders and rerankers compute again.
pub async fn replay<T>(work: impl Future<Output = T>) -> T {
    SCOPE.scope(LedgerScope::within(None, true), work).await
}

/// Whether calls that the journal cannot answer are refused here.
pub(crate) fn replays() -> bool {
    current().is_some_and(|scope| scope.replays)
}

/// Does work, and measures its seconds as if each call took as long as when it
/// was made: the work's own time, and the longest chain of calls that followed
/// each other. So a call that the journal answers at once counts with the seconds
/// that a user would wait, and calls that ran at the same time count once.
pub async fn time<T>(work: impl Future<Output = T>) -> (T, f64) {
    let scope = LedgerScope::within(Some(Mutex::default()), false);
    let began = Instant::now();
    let done = SCOPE.scope(scope.clone(), work).await;
    let whole = began.elapsed().as_secs_f64();
    let calls = scope.calls.as_ref().map(|calls| locked(calls).clone()).unwrap_or_default();
    (done, (whole - time_in_calls(&calls)).max(0.0) + longest_chain(calls))
}

/// The time in which at least one call was waited for.
fn time_in_calls(calls: &[TimedCall]) -> f64 {
    let mut calls: Vec<&TimedCall> = calls.iter().collect();
    calls.sort_by_key(|call| call.began);
    let (mut sum, mut end) = (0.0, None);
    for call in calls {
        let from = end.map_or(call.began, |end: Instant| end.max(call.began));
        sum += call.ended.saturating_duration_since(from).as_secs_f64();
        end = Some(end.map_or(call.ended, |end: Instant| end.max(call.ended)));
    }
    sum
}

/// The seconds of the longest chain of calls that followed each other.
fn longest_chain(mut calls: Vec<TimedCall>) -> f64 {
    calls.sort_by_key(|call| call.ended);
    let mut until: Vec<(Instant, f64)> = Vec::with_capacity(calls.len());
    for call in calls {
        let before = until.iter().filter(|(ended, _)| *ended <= call.began).map(|(_, until)| *until);
        let until_this = before.fold(0.0, f64::max) + call.seconds;
        until.push((call.ended, until_this));
    }
    until.into_iter().map(|(_, until)| until).fold(0.0, f64::max)
}

/// Takes the ledger that is open here along into work that runs on another thread.
pub fn carry<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let scope = current();
    move || match scope {
        Some(scope) => SCOPE.sync_scope(scope, work),
        None => work(),
    }
}

/// Adds what earlier work used to the ledger that is open here, such as the
/// calls of an interrupted task whose outputs are used.
pub fn add(earlier: &Ledger) {
    if let Some(scope) = current() {
        scope.all().for_each(|scope| locked(&scope.ledger).merge(earlier));
    }
}

/// Adds counts that belong to no single call, such as the number of texts, to the ledgers that are open here.
pub(crate) fn count(identity: &Identity, usage: &ModelUsage) {
    let mut ledger = Ledger::default();
    ledger.add(&ledger_id(identity), &ModelUsage { model: identity.model.clone(), ..usage.clone() });
    add(&ledger);
}

/// Whether somebody wants to know the keys of the calls that are made here.
pub(crate) fn collects_keys() -> bool {
    current().is_some_and(|scope| scope.all().any(|scope| scope.keys.is_some()))
}

/// Tells whoever wants to know that calls with these keys of the journal were answered here.
pub(crate) fn record_keys(recorded: &[Key]) {
    let Some(scope) = current() else { return };
    for keys in scope.all().filter_map(|scope| scope.keys.as_ref()) {
        locked(keys).extend(recorded);
    }
}

/// Adds a call that was answered now to the ledgers that are open here. The name of the model in
/// `usage` may be empty.
pub(crate) fn record(identity: &Identity, usage: &ModelUsage, began: Instant) {
    let Some(scope) = current() else { return };
    let (id, usage) = (ledger_id(identity), ModelUsage { model: identity.model.clone(), ..usage.clone() });
    let call = TimedCall { began, ended: Instant::now(), seconds: usage.seconds };
    for scope in scope.all() {
        locked(&scope.ledger).add(&id, &usage);
        if let Some(calls) = &scope.calls {
            locked(calls).push(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn identity(model: &str) -> Identity {
        Identity {
            provider: "test".to_owned(),
            model: model.to_owned(),
            revision: "1".to_owned(),
            parameters: serde_json::Value::Null,
        }
    }

    fn call(model: &str, tokens: u64) {
        let usage = ModelUsage { calls: 1, prompt_tokens: tokens, ..ModelUsage::default() };
        record(&identity(model), &usage, Instant::now());
    }

    #[tokio::test]
    async fn an_inner_ledger_is_part_of_the_outer_one_and_a_thread_takes_it_along() {
        let (inner, outer) = measure(async {
            call("a", 1);
            let ((), inner) = measure(async {
                call("a", 10);
                tokio::task::spawn_blocking(carry(|| call("b", 100))).await.unwrap();
            })
            .await;
            inner
        })
        .await;
        assert_eq!((inner.tokens(), inner.calls()), (110, 2));
        assert_eq!((outer.tokens(), outer.calls()), (111, 3));
        call("a", 1000);
        let names: Vec<(&str, u64)> = outer.models().map(|(_, usage)| (&*usage.model, usage.prompt_tokens)).collect();
        assert_eq!(names.len(), 2);
        assert!(names.contains(&("a", 11)) && names.contains(&("b", 100)));
    }

    #[tokio::test]
    async fn the_keys_of_calls_are_known_to_all_who_ask_for_them() {
        fn key(name: &str) -> Key {
            Key::of_bytes(name.as_bytes())
        }
        let (inner, outer) = collect_keys(async {
            record_keys(&[key("a")]);
            let (((), inner), _) = measure(collect_keys(async {
                assert!(collects_keys());
                tokio::task::spawn_blocking(carry(|| record_keys(&[key("b")]))).await.unwrap();
            }))
            .await;
            inner
        })
        .await;
        assert_eq!((inner, outer), ([key("b")].into(), [key("a"), key("b")].into()));
        assert!(!collects_keys() && !measure(async { collects_keys() }).await.0);
        record_keys(&[key("c")]);
    }

    #[tokio::test]
    async fn usage_of_earlier_work_is_added_and_a_ledger_reads_what_it_wrote() {
        let ((), earlier) = measure(async { call("a", 7) }).await;
        let ((), now) = measure(async {
            call("a", 1);
            add(&earlier);
        })
        .await;
        assert_eq!(now.tokens(), 8);
        let text = serde_json::to_string(&now).unwrap();
        assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), now);
    }

    #[tokio::test]
    async fn texts_are_counted_beside_calls_and_take_no_time() {
        let long = ModelUsage { texts: 3, cut_texts: 2, cut_tokens: 50, max_tokens: 256, ..ModelUsage::default() };
        let ((), ledger) = measure(async {
            call("a", 7);
            count(&identity("a"), &long);
            count(&identity("a"), &ModelUsage { texts: 1, max_tokens: 128, ..ModelUsage::default() });
        })
        .await;
        let expected = ModelUsage { model: "a".to_owned(), calls: 1, prompt_tokens: 7, texts: 4, ..long };
        assert_eq!(ledger.models().map(|(_, used)| used).collect::<Vec<_>>(), [&expected]);
        count(&identity("a"), &expected);
    }

    #[test]
    fn ledgers_of_earlier_versions_lack_what_is_counted_since_and_zeros_are_left_out() {
        let used = ModelUsage { model: "a".to_owned(), calls: 1, ..ModelUsage::default() };
        let written = serde_json::to_value(&used).unwrap();
        let expected = ["calls", "completion_tokens", "cost_usd", "model", "prompt_tokens", "seconds"];
        let mut fields: Vec<_> = written.as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, expected);
        assert_eq!(serde_json::from_value::<ModelUsage>(written).unwrap(), used);
        let mut sum = used.clone();
        sum += &ModelUsage { texts: 9, cut_texts: 2, cut_tokens: 30, windowed_texts: 1, max_tokens: 8, ..used };
        assert_eq!((sum.calls, sum.texts, sum.cut_texts, sum.cut_tokens), (2, 9, 2, 30));
        assert_eq!((sum.windowed_texts, sum.max_tokens), (1, 8));
    }

    #[test]
    fn models_that_differ_in_settings_only_have_one_account() {
        let warm = Identity { parameters: serde_json::json!({ "temperature": 1 }), ..identity("a") };
        assert_eq!(ledger_id(&identity("a")), ledger_id(&warm));
        assert_ne!(ledger_id(&identity("a")), ledger_id(&identity("b")));
        let usage = ModelUsage { prompt_tokens: 2_000_000, completion_tokens: 500_000, ..ModelUsage::default() };
        assert_eq!(usage.cost_at((0.5, 4.0)), 3.0);
    }

    /// A call that takes `here` milliseconds now and took `then` seconds when it was made.
    async fn replayed(here: u64, then: f64) {
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(here)).await;
        record(&identity("a"), &ModelUsage { calls: 1, seconds: then, ..ModelUsage::default() }, began);
    }

    #[tokio::test(start_paused = true)]
    async fn replayed_calls_count_with_the_seconds_that_they_took() {
        let ((), seconds) = time(async {
            replayed(1, 2.0).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            replayed(1, 3.0).await;
        })
        .await;
        assert!((seconds - 5.5).abs() < 1e-6, "one after the other, and own time between: {seconds}");
        let ((), seconds) = time(async {
            futures::join!(replayed(1, 2.0), replayed(2, 3.0), replayed(3, 1.0));
            replayed(1, 0.5).await;
        })
        .await;
        assert!((seconds - 3.5).abs() < 1e-6, "calls at the same time count once: {seconds}");
        let ((), seconds) = time(tokio::time::sleep(Duration::from_millis(40))).await;
        assert!((seconds - 0.04).abs() < 1e-6, "work without calls takes as long as it takes: {seconds}");
    }
}

//! Steering: what people do to a run while it goes on.
//!
//! An [`Act`] is posted into the store of the run, from a page, a command or a program on any machine. The process of the
//! run reads the acts in their order, applies each, and writes into the event log what it did. So two people who steer
//! against each other see the same acts in the same order, and none is lost.

use crate::{
    Error,
    clock::{now_ms, utc},
    layout,
    spec::Experiment,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use store::ArtifactStore;
use tokio::sync::watch;

/// The most bytes of a posted act.
const MOST_BYTES: u64 = 4096;
/// The longest name of whoever acts, in characters.
const LONGEST_NAME: usize = 80;

/// What somebody wants a run to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// Starts no further task and no further call of a model. Calls in flight go on to their end.
    Pause {},
    /// Ends a pause.
    Continue {},
    /// Asks a trial nothing more. It keeps the scores that it has, is compared with no other trial, and is never called
    /// worse.
    StopTrial {
        /// The trial's id.
        trial: String,
    },
    /// Replaces caps of the run's budget. A cap that is left out stays as it is.
    SetBudget {
        /// US dollars.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usd: Option<f64>,
        /// Tokens, read and written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        /// Calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calls: Option<u64>,
        /// Minutes since the run began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        minutes: Option<f64>,
    },
    /// Sets how many calls of a model may be in flight at most.
    SetLimit {
        /// The model, by its name in the table of models of the live run.
        model: String,
        /// Calls in flight; 0 counts as 1.
        concurrency: usize,
    },
    /// Adds a trial: a copy of another one in which settings are replaced. The run goes on under the id of a run in which
    /// the trial was planned.
    AddTrial {
        /// The id of the trial that is copied.
        like: String,
        /// The settings that are replaced, by their dotted keys: `retriever.bm25.top_k`.
        set: BTreeMap<String, Value>,
    },
    /// Asks more questions: as many as this, in place of a limit of the experiment (`evaluate.answered`, or else
    /// `dataset.limit`). The run goes on under the id of a run that was planned so.
    AskQuestions {
        /// Questions from the first on.
        questions: usize,
    },
}

impl Act {
    /// Whether it makes another plan, so that the run goes on as another one.
    pub fn changes_plan(&self) -> bool {
        matches!(self, Self::AddTrial { .. } | Self::AskQuestions { .. })
    }

    /// What is wrong with the numbers of an act, if anything is.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::SetBudget { usd, tokens, calls, minutes } => {
                for (name, value) in [("usd", usd), ("minutes", minutes)] {
                    if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
                        return Err(format!("`{name}` must be a number from 0 on"));
                    }
                }
                if usd.is_none() && tokens.is_none() && calls.is_none() && minutes.is_none() {
                    return Err("name a cap: `usd`, `tokens`, `calls` or `minutes`".to_owned());
                }
                Ok(())
            }
            Self::AddTrial { set, .. } if set.is_empty() => {
                Err("name a setting to change in the copy, such as `retriever.bm25.top_k`".to_owned())
            }
            Self::AskQuestions { questions: 0 } => Err("`questions` must be at least 1".to_owned()),
            Self::Pause {}
            | Self::Continue {}
            | Self::StopTrial { .. }
            | Self::SetLimit { .. }
            | Self::AddTrial { .. }
            | Self::AskQuestions { .. } => Ok(()),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause {} => f.write_str("pause"),
            Self::Continue {} => f.write_str("continue"),
            Self::StopTrial { trial } => write!(f, "stop {trial}"),
            Self::SetBudget { .. } => f.write_str("set the budget"),
            Self::SetLimit { model, concurrency } => write!(f, "at most {concurrency} calls of {model} at once"),
            Self::AddTrial { like, set } => {
                let settings: Vec<String> = set.iter().map(|(key, value)| format!("{key} = {value}")).collect();
                write!(f, "add a copy of {like} with {}", settings.join(", "))
            }
            Self::AskQuestions { questions } => write!(f, "ask {questions} questions"),
        }
    }
}

/// An act that was posted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PostedAct {
    /// Its number among the acts of the run, from 1.
    pub number: u64,
    /// When it was posted, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who posted it.
    pub by: String,
    /// The act.
    pub act: Act,
}

/// An act, and what the run did about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliedAct {
    /// Its number among the acts of the run, from 1.
    pub number: u64,
    /// When it was posted, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who posted it.
    pub by: String,
    /// The act.
    pub act: Act,
    /// What the run did, in a sentence. None as long as the run has not read the act.
    pub outcome: Option<String>,
    /// Whether the run did nothing, for the reason that `outcome` says.
    pub refused: bool,
}

impl AppliedAct {
    /// An act that the run has not read yet.
    pub fn pending(posted: PostedAct) -> Self {
        let PostedAct { number, time_ms, by, act } = posted;
        Self { number, time_ms, by, act, outcome: None, refused: false }
    }
}

impl fmt::Display for AppliedAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, by {}, {}", self.act, self.by, utc(self.time_ms))?;
        self.outcome.iter().try_for_each(|outcome| write!(f, ": {outcome}"))
    }
}

/// The name under which an act is recorded: without control characters, and cut to 80 characters.
pub(crate) fn recorded_name(by: &str) -> String {
    by.chars().filter(|letter| !letter.is_control()).take(LONGEST_NAME).collect()
}

/// The name of a person, as it is recorded; or that it is missing.
pub(crate) fn person_name(by: &str) -> Result<String, String> {
    let name = recorded_name(by.trim());
    if name.is_empty() { Err("`by` is missing: the name of the person".to_owned()) } else { Ok(name) }
}

/// Posts an act for a run. Returns its number.
///
/// # Errors
/// If its numbers are wrong, or the store cannot be written to.
pub async fn post_act(store: &ArtifactStore, run: &str, by: &str, act: Act) -> Result<u64, Error> {
    act.check().map_err(|reason| Error::Refused(vec![reason]))?;
    let by = recorded_name(by);
    let mut number = last_act(store, run).await? + 1;
    loop {
        let posted = PostedAct { number, time_ms: now_ms(), by: by.clone(), act: act.clone() };
        let bytes = serde_json::to_vec(&posted).map_err(Error::table)?;
        if store.put(&layout::act(run, number), bytes).await? {
            return Ok(number);
        }
        // Somebody else has posted at the same moment.
        number += 1;
    }
}

/// The acts of a run with higher numbers than `after`, in their order. An act that cannot be read is left out.
///
/// # Errors
/// If the store cannot be read.
pub async fn posted_acts(store: &ArtifactStore, run: &str, after: u64) -> Result<Vec<PostedAct>, Error> {
    let mut acts = Vec::new();
    for number in numbers(store, run).await? {
        if number <= after {
            continue;
        }
        let bytes = store.get_at_most(&layout::act(run, number), MOST_BYTES).await?;
        let read = bytes.and_then(|bytes| serde_json::from_slice::<PostedAct>(&bytes).ok());
        acts.extend(read.map(|posted| PostedAct { number, ..posted }));
    }
    Ok(acts)
}

/// The number of the last act of a run; 0 if there is none.
pub(crate) async fn last_act(store: &ArtifactStore, run: &str) -> Result<u64, Error> {
    Ok(numbers(store, run).await?.last().copied().unwrap_or_default())
}

async fn numbers(store: &ArtifactStore, run: &str) -> Result<Vec<u64>, Error> {
    let names = store.list(&layout::acts_of(run)).await?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| layout::act_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The state of a run that people steer. Clones share it.
#[derive(Debug, Clone)]
pub struct Steering(Arc<SteeringState>);

#[derive(Debug)]
struct SteeringState {
    inner: Mutex<SteeringInner>,
    is_paused: watch::Sender<bool>,
    /// Counts changes.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct SteeringInner {
    /// Who stopped each trial, by its id.
    stopped: BTreeMap<String, String>,
    applied: Vec<AppliedAct>,
    /// The run that continues this one.
    next: Option<NextRun>,
}

/// The run as which a run goes on after a person has changed its plan.
#[derive(Debug, Clone)]
pub(crate) struct NextRun {
    /// Its id.
    pub(crate) run: String,
    pub(crate) experiment: Arc<Experiment>,
}

impl Default for Steering {
    fn default() -> Self {
        let (inner, is_paused, changes) = (Mutex::default(), watch::Sender::new(false), watch::Sender::new(0));
        Self(Arc::new(SteeringState { inner, is_paused, changes }))
    }
}

impl Steering {
    fn lock(&self) -> MutexGuard<'_, SteeringInner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is notified of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Whether no further task may start.
    pub fn is_paused(&self) -> bool {
        *self.0.is_paused.borrow()
    }

    /// Is notified when a pause starts or ends.
    pub(crate) fn pauses(&self) -> watch::Receiver<bool> {
        self.0.is_paused.subscribe()
    }

    /// Starts or ends a pause. Returns whether that changed anything.
    pub(crate) fn set_paused(&self, is_paused: bool) -> bool {
        let before = self.0.is_paused.send_replace(is_paused);
        self.0.changes.send_modify(|changes| *changes += 1);
        before != is_paused
    }

    /// Stops a trial. Returns whether it was not stopped before.
    pub(crate) fn stop_trial(&self, trial: &str, by: &str) -> bool {
        let is_new = self.lock().stopped.insert(trial.to_owned(), by.to_owned()).is_none();
        self.0.changes.send_modify(|changes| *changes += 1);
        is_new
    }

    /// Who stopped each trial that was stopped, by the trial's id.
    pub fn stopped_trials(&self) -> BTreeMap<String, String> {
        self.lock().stopped.clone()
    }

    /// The run that continues this one, once its tasks in flight are done.
    pub(crate) fn next_run(&self) -> Option<NextRun> {
        self.lock().next.clone()
    }

    /// Ends the run softly, so that it goes on as another one.
    pub(crate) fn set_next_run(&self, next: NextRun) {
        self.lock().next = Some(next);
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Takes the run as which this one goes on.
    pub(crate) fn take_next_run(&self) -> Option<NextRun> {
        self.lock().next.take()
    }

    /// Records what was done about an act.
    pub(crate) fn record(&self, applied: AppliedAct) {
        self.lock().applied.push(applied);
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// The acts that this run has read, in their order.
    pub fn applied(&self) -> Vec<AppliedAct> {
        self.lock().applied.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LAYOUT;

    fn store(folder: &std::path::Path) -> ArtifactStore {
        ArtifactStore::open(&folder.display().to_string(), &[], LAYOUT).unwrap()
    }

    #[tokio::test]
    async fn acts_that_are_posted_at_once_get_numbers_of_their_own_and_keep_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let post = |by: usize| {
            let store = store.clone();
            async move { post_act(&store, "zoo-1", &format!("person {by}"), Act::Pause {}).await.unwrap() }
        };
        let mut numbers = futures::future::join_all((0..20).map(post)).await;
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=20).collect::<Vec<u64>>());
        let all = posted_acts(&store, "zoo-1", 0).await.unwrap();
        assert!(all.iter().map(|posted| posted.number).eq(1..=20));
        let mut people: Vec<&str> = all.iter().map(|posted| posted.by.as_str()).collect();
        people.sort_unstable();
        people.dedup();
        assert_eq!(people.len(), 20, "none is lost");
        assert_eq!(posted_acts(&store, "zoo-1", 18).await.unwrap().len(), 2);
        assert!(posted_acts(&store, "zoo-2", 0).await.unwrap().is_empty(), "another run has acts of its own");
        assert_eq!(last_act(&store, "zoo-1").await.unwrap(), 20);
    }

    #[tokio::test]
    async fn an_act_that_is_no_act_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let write = |number: u64, text: String| {
            let store = store.clone();
            async move { store.put(&layout::act("zoo-1", number), text).await.unwrap() }
        };
        write(1, "{\"number\":1".to_owned()).await;
        write(2, "[]".to_owned()).await;
        write(3, format!("{{\"by\": \"{}\"}}", "x".repeat(5000))).await;
        write(4, r#"{"number":9,"time_ms":1,"by":"a","act":{"act":"explode"}}"#.to_owned()).await;
        write(5, r#"{"number":9,"time_ms":1,"by":"a","act":{"act":"stop_trial","trial":"t01"}}"#.to_owned()).await;
        let read = posted_acts(&store, "zoo-1", 0).await.unwrap();
        let act = Act::StopTrial { trial: "t01".to_owned() };
        assert_eq!(
            read,
            [PostedAct { number: 5, time_ms: 1, by: "a".to_owned(), act }],
            "its number is that of its name"
        );
        assert_eq!(post_act(&store, "zoo-1", "b\u{1b}[2J", Act::Continue {}).await.unwrap(), 6);
        assert_eq!(posted_acts(&store, "zoo-1", 5).await.unwrap()[0].by, "b[2J", "without control characters");
    }

    #[tokio::test]
    async fn impossible_numbers_are_refused_before_they_are_posted() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let budget = |usd: Option<f64>| Act::SetBudget { usd, tokens: None, calls: None, minutes: None };
        for (act, said) in
            [(budget(Some(-1.0)), "`usd`"), (budget(Some(f64::NAN)), "`usd`"), (budget(None), "name a cap")]
        {
            let error = post_act(&store, "zoo-1", "a", act).await.unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(last_act(&store, "zoo-1").await.unwrap(), 0);
    }

    #[test]
    fn acts_are_written_as_objects_with_a_name_and_unknown_fields_are_refused() {
        for (text, act) in [
            (r#"{"act":"pause"}"#, Act::Pause {}),
            (r#"{"act":"continue"}"#, Act::Continue {}),
            (r#"{"act":"stop_trial","trial":"t03"}"#, Act::StopTrial { trial: "t03".to_owned() }),
            (
                r#"{"act":"set_budget","usd":5.0}"#,
                Act::SetBudget { usd: Some(5.0), tokens: None, calls: None, minutes: None },
            ),
            (
                r#"{"act":"set_limit","model":"chat m","concurrency":4}"#,
                Act::SetLimit { model: "chat m".to_owned(), concurrency: 4 },
            ),
        ] {
            assert_eq!(serde_json::from_str::<Act>(text).unwrap(), act);
            assert_eq!(serde_json::to_string(&act).unwrap(), text);
        }
        for text in [r#"{"act":"stop_trial"}"#, r#"{"act":"set_budget","eur":5}"#, r#"{"act":"pause","trial":"t01"}"#] {
            assert!(serde_json::from_str::<Act>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_change_is_noticed_once_it_is_made() {
        let steering = Steering::default();
        let mut changes = steering.changes();
        assert!(!changes.has_changed().unwrap());
        assert!(steering.set_paused(true) && !steering.set_paused(true) && steering.clone().is_paused());
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(steering.stop_trial("t01", "a") && !steering.stop_trial("t01", "b"));
        assert!(changes.has_changed().unwrap());
        assert_eq!(steering.stopped_trials()["t01"], "b");
    }
}

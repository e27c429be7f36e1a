//! The messages between the remote engine and its workers: names of artifacts
//! and settings, never documents or vectors. Those go through the store.

use crate::{
    Error, error_chain, failed_function,
    operator::Operator,
    plan::{Task, TaskId},
    progress::{ExpectedRows, ModelTraffic},
    settlement::ends_all,
    task::{CallTurn, StoredOutput},
};
use models::{BudgetReport, Caps, Identity, Spending};
use rag::python::Failure;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// What a worker is given when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerSetup {
    /// The resolved experiment, with the contents of the files that it names.
    pub experiment: String,
    /// The folder that the file's relative paths start from.
    pub base: PathBuf,
    /// The store: an absolute folder that all nodes see, or a URL.
    pub store: String,
    /// The corpus: an absolute path that all nodes see, or a URL.
    pub source: String,
    /// An object that the worker must find in the store.
    pub probe: String,
    /// The identity of the PDF library that the plan was made with.
    pub pdf_library: String,
    /// The identities of the models that the plan was made with.
    pub identities: BTreeMap<String, Identity>,
    /// The budget that all workers spend together, by name, with its caps.
    pub budget: Option<(String, Caps)>,
    /// The worker's CPUs.
    pub cores: usize,
}

/// Tasks that are sent together.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Unit {
    pub(crate) run: String,
    /// The object that holds the questions.
    pub(crate) questions: String,
    /// The tasks, independent of each other.
    pub(crate) tasks: Vec<UnitTask>,
}

/// A task with all that it needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UnitTask {
    pub(crate) task: Task,
    /// Where its inputs are.
    pub(crate) inputs: BTreeMap<TaskId, String>,
    /// Whether one of its inputs is partial.
    pub(crate) partial: bool,
    pub(crate) turn: CallTurn,
}

/// The result of a unit.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UnitReply {
    /// One for each task, in order.
    pub(crate) tasks: Vec<TaskReply>,
    /// What the worker's calls cost since its last reply.
    pub(crate) spending: BTreeMap<String, Spending>,
    /// What happened to the budget since then.
    pub(crate) budget: BudgetReport,
    pub(crate) activity: WorkerActivity,
}

/// What people have changed since the run began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerOrders {
    /// Whether no call may begin.
    pub(crate) is_paused: bool,
    /// The caps of the workers' budget, if they were replaced.
    pub(crate) caps: Option<Caps>,
}

/// What a worker is doing, for the live tables.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct WorkerActivity {
    /// Rows made since the last look.
    pub(crate) rows: BTreeMap<Operator, usize>,
    /// The numbers of rows that its tasks announced since the last look.
    #[serde(default)]
    pub(crate) expected: BTreeMap<Operator, ExpectedRows>,
    /// Its calls to models.
    pub(crate) models: Vec<ModelTraffic>,
}

/// The result of a task.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskReply {
    /// Its output, or why there is none.
    pub(crate) result: Result<StoredOutput, TaskError>,
    /// How long it took.
    pub(crate) seconds: f64,
}

/// Why a task has no output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskError {
    /// What happened, for people.
    pub(crate) reason: String,
    /// The user's function that failed, if that is why.
    pub(crate) function: Option<Box<Failure>>,
    /// Whether the worker can store nothing more, so that all work ends.
    #[serde(default)]
    pub(crate) ends_all: bool,
}

impl From<Error> for TaskError {
    fn from(error: Error) -> Self {
        let function = failed_function(&error).cloned().map(Box::new);
        Self { reason: error_chain(&error), function, ends_all: ends_all(&error) }
    }
}

impl From<TaskError> for Error {
    fn from(error: TaskError) -> Self {
        let TaskError { reason, function, ends_all } = error;
        match function {
            _ if ends_all => Self::OutputNotStored(reason),
            Some(failure) => Self::Function { reason, failure },
            None => Self::Remote(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rag::python::FailureKind;

    fn failure() -> Failure {
        Failure {
            stage: "chunker".to_owned(),
            function: "cut".to_owned(),
            file: "own.py".to_owned(),
            kind: FailureKind::Raised,
            message: "no".to_owned(),
            traceback: None,
        }
    }

    /// What an error is to the driver, after it was sent.
    fn sent(error: Error) -> Error {
        let bytes = serde_json::to_vec(&TaskError::from(error)).unwrap();
        serde_json::from_slice::<TaskError>(&bytes).unwrap().into()
    }

    #[test]
    fn a_workers_error_ends_the_task_names_the_function_or_ends_all() {
        let remote = sent(Error::table("damaged"));
        assert!(matches!(&remote, Error::Remote(reason) if reason.contains("damaged")), "{remote:?}");
        let function = sent(Error::Function { reason: "it raised".to_owned(), failure: Box::new(failure()) });
        let Error::Function { reason, failure: named } = &function else { panic!("{function:?}") };
        assert_eq!((reason.as_str(), &**named), ("it raised", &failure()));
        for error in [Error::OutputNotStored("full".to_owned()), Error::OutputNotStored(String::new())] {
            let text = error.to_string();
            let kept = sent(error);
            assert!(matches!(&kept, Error::OutputNotStored(reason) if *reason == text), "{kept:?}");
        }
    }

    #[test]
    fn the_end_of_all_work_goes_before_the_function_that_failed() {
        let error = TaskError { reason: "full".to_owned(), function: Some(Box::new(failure())), ends_all: true };
        assert!(matches!(Error::from(error), Error::OutputNotStored(reason) if reason == "full"));
    }

    #[test]
    fn a_reply_without_newer_fields_is_read() {
        let error: TaskError = serde_json::from_str("{\"reason\":\"down\",\"function\":null}").unwrap();
        assert!(!error.ends_all);
        let look: WorkerActivity = serde_json::from_str("{\"rows\":{\"embed\":7},\"models\":[]}").unwrap();
        assert_eq!((look.rows, look.expected.len()), ([(Operator::EMBED, 7)].into(), 0));
    }
}

//! ONNX Runtime: loaded once per process, and sessions that run batches
//! within the CPU budget.
//!
//! A session runs one batch at a time, so a pool holds several. On two cores
//! two sessions of one thread each were measured 0 to 10 % faster than one
//! session of two threads, more so when the machine is busy, because they
//! never wait for each other inside an operator. Memory bounds their number:
//! each holds its own copy of the weights.

use super::tokens::TokenBatch;
use crate::{CpuBudget, Error, Library, ModelDirectory, local::blocking, locked};
use ort::{
    environment::Environment,
    logging::LogLevel,
    session::{
        OutputSelector, RunOptions, Session, SessionInputValue,
        builder::{GraphOptimizationLevel, SessionBuilder},
    },
    value::{Outlet, Tensor, TensorElementType, ValueType},
};
use std::{
    error::Error as StdError,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tokio::sync::Semaphore;

/// The usual number of sessions on a machine with at least four cores. With more, large machines are no faster and only
/// use more memory.
const SESSIONS: usize = 4;
/// The most sessions, where fewer would leave cores without work.
const MOST_SESSIONS: usize = 8;

/// The process has one environment, which lives as long as the process: ONNX
/// Runtime cannot be loaded twice.
static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// Checks that the library is there and can be loaded.
pub(crate) fn ready(directory: &ModelDirectory) -> Result<(), Error> {
    library(directory).map(|_| ())
}

/// Loads the library, unless it is loaded already.
pub(crate) fn library(directory: &ModelDirectory) -> Result<Environment, Error> {
    let library = &directory.library(Library::OnnxRuntime)?;
    let mut loaded = locked(&ENVIRONMENT);
    if let Some(environment) = loaded.as_ref() {
        return Ok(environment.clone());
    }
    let builder = ort::init_from(library).map_err(|error| Error::bad_file(library, error))?;
    let environment = builder.with_name("reverie").with_telemetry(false).build();
    let environment = environment.map_err(|error| Error::bad_file(library, error))?;
    // Failures come back as values; nothing but `app` writes to the terminal.
    environment.set_log_level(LogLevel::Fatal);
    *loaded = Some(environment.clone());
    Ok(environment)
}

/// The output of a batch: the requested tensor, still in the runtime's memory,
/// because copying it costs more than pooling it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BatchOutput<'a> {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: &'a [f32],
}

/// A tensor whose sizes are not those that the model must have.
#[derive(Debug, thiserror::Error)]
#[error("gave a tensor of {shape:?}, expected {expected}")]
pub(crate) struct ShapeError {
    pub(crate) shape: Vec<usize>,
    pub(crate) expected: String,
}

/// Why a graph cannot be run here. The texts continue a sentence that begins with
/// the file.
#[derive(Debug, thiserror::Error)]
enum SignatureError {
    #[error("has the input `{0}`, which is none of token ids, mask, types and positions")]
    InputRole(String),
    #[error("has the input `{name}` of type {kind}, expected integers")]
    InputType { name: String, kind: String },
    #[error("has no float output with {ranks:?} dimensions among {names:?}")]
    NoOutput { ranks: Vec<usize>, names: Vec<String> },
}

/// Sessions of one model, made when they are first needed.
#[derive(Debug, Clone)]
pub(crate) struct SessionPool {
    shared: Arc<PoolState>,
    slots: Arc<Semaphore>,
    cpu: CpuBudget,
    /// How many batches run at once.
    pub(crate) n_sessions: usize,
}

#[derive(Debug)]
struct PoolState {
    model: String,
    file: PathBuf,
    environment: Environment,
    threads: usize,
    inputs: Vec<GraphInput>,
    output: String,
    rank: usize,
    columns: Option<usize>,
    idle: Mutex<Vec<Session>>,
}

/// One input of the model, and its role.
#[derive(Debug, Clone)]
struct GraphInput {
    name: String,
    role: InputRole,
    wide: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputRole {
    Ids,
    Mask,
    Types,
    Positions,
}

/// The number of sessions that share these cores, and of the threads of each. All sessions have equally many threads, so
/// some numbers of sessions leave cores without work. From four to eight, the smallest number is chosen that leaves the
/// fewest cores.
fn sessions_and_threads(cores: usize) -> (usize, usize) {
    let most = cores.clamp(1, MOST_SESSIONS);
    let sessions = (most.min(SESSIONS)..=most).min_by_key(|sessions| cores % sessions).unwrap_or(1);
    (sessions, (cores / sessions).max(1))
}

impl SessionPool {
    /// Loads a model file. It reads the first float output whose number of
    /// dimensions is in `ranks`; the ranks are tried in order.
    pub(crate) fn open(
        directory: &ModelDirectory,
        cpu: &CpuBudget,
        model: &str,
        file: &Path,
        ranks: &[usize],
    ) -> Result<Self, Error> {
        let environment = library(directory)?;
        let (n_sessions, threads) = sessions_and_threads(cpu.cores());
        let session = session(&environment, file, threads)?;
        let bad = |error: SignatureError| Error::bad_file(file, error);
        let inputs = session.inputs().iter().map(GraphInput::new).collect::<Result<Vec<_>, _>>().map_err(bad)?;
        let (output, rank, columns) = output(session.outputs(), ranks).map_err(bad)?;
        let idle = Mutex::new(vec![session]);
        let (model, file) = (model.to_owned(), file.to_owned());
        let shared = PoolState { model, file, environment, threads, inputs, output, rank, columns, idle };
        Ok(Self { shared: Arc::new(shared), slots: Arc::new(Semaphore::new(n_sessions)), cpu: cpu.clone(), n_sessions })
    }

    /// The size of the output's last dimension, if the model file says it: the length of a vector, or the number of
    /// labels.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.shared.columns
    }

    /// Whether the output that is read has a vector for each token.
    pub(crate) fn gives_tokens(&self) -> bool {
        self.shared.rank == 3
    }

    /// Whether texts of different length can share a batch.
    pub(crate) fn masks(&self) -> bool {
        self.shared.inputs.iter().any(|input| input.role == InputRole::Mask)
    }

    /// Runs batches one after the other in one session, each result through
    /// `finish`. When the caller stops waiting, the batch that is being run is
    /// finished and no other begins; its threads stay counted until then.
    pub(crate) async fn run<T, F>(&self, batches: Vec<TokenBatch>, finish: F) -> Result<Vec<T>, Error>
    where
        T: Send + 'static,
        F: Fn(&TokenBatch, &BatchOutput<'_>) -> Result<T, ShapeError> + Send + 'static,
    {
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| Error::Cancelled)?;
        let threads = self.cpu.acquire(self.shared.threads).await.ok_or(Error::Cancelled)?;
        let shared = self.shared.clone();
        // Dropped together with this future: the thread then sees that its caller is gone.
        let caller = Arc::new(());
        let waiting = Arc::downgrade(&caller);
        blocking(&self.shared.model, move || {
            let _held = (slot, threads);
            let mut session = shared.take()?;
            let run = |batch| match waiting.strong_count() {
                0 => Err(Error::Cancelled),
                _ => shared.run(&mut session, batch, &finish).map_err(|error| Error::runtime(&shared.model, error)),
            };
            let results = batches.iter().map(run).collect();
            locked(&shared.idle).push(session);
            results
        })
        .await
    }
}

impl PoolState {
    fn take(&self) -> Result<Session, Error> {
        let idle = locked(&self.idle).pop();
        idle.map_or_else(|| session(&self.environment, &self.file, self.threads), Ok)
    }

    fn run<T>(
        &self,
        session: &mut Session,
        batch: &TokenBatch,
        finish: &impl Fn(&TokenBatch, &BatchOutput<'_>) -> Result<T, ShapeError>,
    ) -> Result<T, Box<dyn StdError + Send + Sync>> {
        let mut inputs: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let values: Vec<i64> = match input.role {
                InputRole::Ids => batch.ids.clone(),
                InputRole::Mask => batch.mask(),
                InputRole::Types => batch.types.clone(),
                InputRole::Positions => (0..batch.rows()).flat_map(|_| 0..batch.width as i64).collect(),
            };
            let shape = [batch.rows(), batch.width];
            let value = if input.wide {
                Tensor::from_array((shape, values))?.into_dyn()
            } else {
                let narrow: Vec<i32> = values.into_iter().map(|value| value as i32).collect();
                Tensor::from_array((shape, narrow))?.into_dyn()
            };
            inputs.push((&input.name, value.into()));
        }
        let options = RunOptions::new()?.with_outputs(OutputSelector::no_default().with(self.output.as_str()));
        let outputs = session.run_with_options(inputs, &options)?;
        let (shape, values) = outputs[self.output.as_str()].try_extract_tensor::<f32>()?;
        let shape = shape.iter().map(|size| *size as usize).collect();
        Ok(finish(batch, &BatchOutput { shape, values })?)
    }
}

impl GraphInput {
    fn new(outlet: &Outlet) -> Result<Self, SignatureError> {
        let name = outlet.name();
        let role = match name {
            _ if name.contains("mask") => InputRole::Mask,
            _ if name.contains("type") || name.contains("segment") => InputRole::Types,
            _ if name.contains("position") => InputRole::Positions,
            _ if name.contains("ids") || name.contains("token") => InputRole::Ids,
            _ => return Err(SignatureError::InputRole(name.to_owned())),
        };
        let wide = match outlet.dtype() {
            ValueType::Tensor { ty: TensorElementType::Int64, .. } => true,
            ValueType::Tensor { ty: TensorElementType::Int32, .. } => false,
            other => return Err(SignatureError::InputType { name: name.to_owned(), kind: other.to_string() }),
        };
        Ok(Self { name: name.to_owned(), role, wide })
    }
}

/// The output to read, its number of dimensions, and the size of its last dimension if that is fixed.
/// Exporters leave all kinds of outputs in a graph; their names are no guide,
/// but their numbers of dimensions are.
fn output(outlets: &[Outlet], ranks: &[usize]) -> Result<(String, usize, Option<usize>), SignatureError> {
    for rank in ranks {
        for outlet in outlets {
            if let ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } = outlet.dtype()
                && shape.len() == *rank
            {
                let columns = shape.last().and_then(|size| usize::try_from(*size).ok()).filter(|size| *size > 0);
                return Ok((outlet.name().to_owned(), *rank, columns));
            }
        }
    }
    let names = outlets.iter().map(|outlet| outlet.name().to_owned()).collect();
    Err(SignatureError::NoOutput { ranks: ranks.to_vec(), names })
}

/// Whether this processor multiplies 8-bit numbers and adds the products exactly. x86 processors without VNNI add two
/// products in 16 bits, which overflows silently.
pub(in crate::local) fn adds_bytes_exactly() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512vnni") || is_x86_feature_detected!("avxvnni");
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// A session's settings that are the same for all networks.
pub(in crate::local) fn session_builder(environment: &Environment, threads: usize) -> ort::Result<SessionBuilder> {
    Ok(Session::builder(environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_log_level(LogLevel::Fatal)?
        .with_intra_threads(threads)?
        .with_inter_threads(1)?
        // A thread that spins while it waits takes a core from everybody else.
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?
        .with_no_environment_execution_providers()?)
}

fn session(environment: &Environment, file: &Path, threads: usize) -> Result<Session, Error> {
    let built = || session_builder(environment, threads)?.commit_from_file(file);
    built().map_err(|error| Error::bad_file(file, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn almost_all_cores_compute() {
        let table =
            [(1, (1, 1)), (2, (2, 1)), (4, (4, 1)), (6, (6, 1)), (7, (7, 1)), (8, (4, 2)), (15, (5, 3)), (16, (4, 4))];
        for (cores, expected) in table {
            assert_eq!(sessions_and_threads(cores), expected, "{cores} cores");
        }
        for cores in 1..200 {
            let (sessions, threads) = sessions_and_threads(cores);
            assert!(sessions <= MOST_SESSIONS && cores - sessions * threads <= 3, "{cores} cores");
        }
    }

    #[test]
    fn a_missing_library_is_a_typed_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = ModelDirectory::new(folder.path().to_owned(), Vec::new());
        assert!(matches!(ready(&directory), Err(Error::NotHere { .. })));
    }

    #[test]
    fn a_file_that_is_no_library_is_a_typed_error() {
        // Loaded before by another test of this process, the path is not looked at.
        if ENVIRONMENT.lock().expect("a lock").is_some() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libonnxruntime.so.1.31.1");
        std::fs::write(&path, "no library").expect("written");
        let directory = ModelDirectory::new(folder.path().join("models"), vec![path]);
        assert!(matches!(ready(&directory), Err(Error::BadFile { .. })));
    }
}

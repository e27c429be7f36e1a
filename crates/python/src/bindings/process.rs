//! Facts about the package's own process: its interpreter, its standard error,
//! and whether it was forked.

use pyo3::{exceptions::PyRuntimeError, prelude::*};
use rag::load::PdfProgram;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// The process that used the package first; 0 before that.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// Makes user functions run in processes of `sys.executable` from now on, and shows what
/// they print on `sys.stderr` of this process: in a notebook, below the cell.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    // An interpreter that is embedded in another program has no executable.
    if let Ok(program) = py.import("sys")?.getattr("executable")?.extract::<String>()
        && !program.is_empty()
    {
        rag::load::read_pdfs_with(PdfProgram::new(&program, ["-m", "reverie", app::READ_PDFS]));
        rag::python::set_interpreter(program);
    }
    rag::python::set_sink(Arc::new(|printed| {
        let line = format!("{printed}\n");
        // If the interpreter is ending or the stream is closed, nothing more is shown.
        let _ = Python::try_attach(|py| {
            let stream = py.import("sys")?.getattr("stderr")?;
            stream.call_method1("write", (line,))?;
            stream.call_method0("flush").map(drop)
        });
    }));
    Ok(())
}

/// The fork check. Must be called before anything that needs threads of this package.
///
/// # Errors
/// If this process was forked from one that had started these threads: a fork
/// does not have them, and would wait for them for ever.
pub(crate) fn check() -> PyResult<()> {
    let here = std::process::id();
    match FIRST.compare_exchange(0, here, Ordering::SeqCst, Ordering::SeqCst) {
        Err(first) if first != here => Err(PyRuntimeError::new_err(format!(
            "process {first} used reverie before it was forked into this one ({here}), and its threads stayed there: \
             start processes by spawn, `multiprocessing.get_context(\"spawn\")` or \
             `ProcessPoolExecutor(mp_context=…)`, or use reverie only after the fork"
        ))),
        _ => Ok(()),
    }
}

/// Registers the location of a function's source in the user's own file, so that its
/// failures name that file and its lines. `shift` is the number of lines before the
/// source in the file.
#[pyfunction]
pub(crate) fn register_function_place(source: &str, file: String, shift: i64) {
    rag::python::set_place(source, rag::python::FunctionPlace { file, shift });
}

/// The Python code that asks a whole system and brings what it returns into one form, as the processes of systems
/// run it.
#[pyfunction]
pub(crate) fn system_code() -> &'static str {
    rag::python::SYSTEM_CODE
}

/// Registers a function as a chat model, or an object as a system, for as long as this object exists.
#[pyclass(frozen, module = "reverie._core", name = "ServedFunction")]
pub(crate) struct PyServedFunction {
    served: models::ServedFunction,
}

#[pymethods]
impl PyServedFunction {
    /// `digest` is `function:` and the digest, `model` its name at the `address`
    /// where it is served (of a system its section, `[systems.NAME]`), `file` the file that it is from.
    #[new]
    fn new(digest: &str, model: &str, address: &str, file: &str) -> Self {
        Self { served: models::ServedFunction::new(digest, model, address, file) }
    }

    /// No model is built for this address from now on.
    fn withdraw(&self) {
        self.served.withdraw();
    }

    /// Whether a model, of this run or of another one, may still send calls to its address.
    fn is_in_use(&self) -> bool {
        self.served.is_in_use()
    }
}

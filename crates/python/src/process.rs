//! What the package knows of the process that it is in: its interpreter, where
//! its standard error goes, and whether it was forked.

use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// The process that used the package first; 0 before that.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// Has functions of the user's own run by this interpreter, and what they
/// print shown where this program's errors are: in a notebook below the cell.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    // An interpreter within another program has none.
    if let Ok(program) = py.import("sys")?.getattr("executable")?.extract::<String>()
        && !program.is_empty()
    {
        rag::python::set_interpreter(program);
    }
    rag::python::set_sink(Arc::new(|printed| {
        let line = format!("{printed}\n");
        // An interpreter on its way out, or a closed stream, shows nothing more.
        let _ = Python::try_attach(|py| {
            let stream = py.import("sys")?.getattr("stderr")?;
            stream.call_method1("write", (line,))?;
            stream.call_method0("flush").map(drop)
        });
    }));
    Ok(())
}

/// To be asked before anything that needs threads of this package.
///
/// # Errors
/// If this process was forked from one that had them: they are not here, and
/// whoever waited for them would wait for ever.
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

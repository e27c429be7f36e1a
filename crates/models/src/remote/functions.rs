//! Functions of a program that stand for chat models, and where the program
//! serves them.
//!
//! Settings name such a function by its digest, as an address with the scheme
//! `function:`. So the identity of the model depends on the function and not on
//! the address, which is another one in each process: what the function
//! answered once is found again in the journal.

use crate::{Error, FunctionError, locked, model::FUNCTION_SCHEME};
use std::sync::{Arc, Mutex};

/// The functions that are served at this moment.
static SERVED: Mutex<Vec<Arc<FunctionEntry>>> = Mutex::new(Vec::new());

/// A function, and where it is served.
#[derive(Debug)]
pub(super) struct FunctionEntry {
    digest: String,
    model: String,
    address: String,
    file: String,
}

/// A function of this program that can be asked as a chat model, until this is
/// dropped.
#[derive(Debug)]
pub struct ServedFunction {
    entry: Arc<FunctionEntry>,
}

impl ServedFunction {
    /// Registers a function that is served at an address of this machine. `digest` is
    /// the `base_url` of its settings, `function:` and its digest; `model` is the
    /// name by which it is asked there; `file` is the file that it is from, for
    /// messages, and may be empty.
    pub fn new(digest: &str, model: &str, address: &str, file: &str) -> Self {
        let [digest, model, address, file] = [digest, model, address, file].map(str::to_owned);
        let entry = Arc::new(FunctionEntry { digest, model, address, file });
        locked(&SERVED).push(Arc::clone(&entry));
        Self { entry }
    }

    /// No model is built for this address from now on.
    pub fn withdraw(&self) {
        locked(&SERVED).retain(|entry| !Arc::ptr_eq(entry, &self.entry));
    }

    /// Whether a model may still send calls to this address, also a model of
    /// another run: equal functions have one digest.
    pub fn is_in_use(&self) -> bool {
        let listed = locked(&SERVED).iter().filter(|entry| Arc::ptr_eq(entry, &self.entry)).count();
        Arc::strong_count(&self.entry) > 1 + listed
    }
}

impl Drop for ServedFunction {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// Held by a model that may call the function.
pub(super) type FunctionLease = Arc<FunctionEntry>;

/// Whether an address names a function.
pub(crate) fn is_function(base_url: &str) -> bool {
    base_url.starts_with(FUNCTION_SCHEME)
}

/// The address of an endpoint: where the function is served, if it is one, and
/// then a lease on it.
///
/// # Errors
/// If this program does not serve the function.
pub(super) fn address(model: &str, base: String) -> Result<(String, Option<FunctionLease>), Error> {
    if !is_function(&base) {
        return Ok((base, None));
    }
    let served = locked(&SERVED);
    let entry = served.iter().rev().find(|entry| entry.digest == base && entry.model == model);
    entry.map(|entry| (entry.address.clone(), Some(Arc::clone(entry)))).ok_or_else(|| {
        Error::bad_settings(
            model,
            "this model is a function of a Python program, which is not here, or was changed since: run the \
             experiment from the program that has the function, on the same machine",
        )
    })
}

/// The error of the function without its message; none for other models.
pub(super) fn error_of(model: &str, base_url: &str) -> Option<FunctionError> {
    if !is_function(base_url) {
        return None;
    }
    let file = locked(&SERVED).iter().rev().find(|entry| entry.digest == base_url).map(|entry| entry.file.clone());
    let (function, file) = (model.to_owned(), file.unwrap_or_default());
    Some(FunctionError {
        function,
        file,
        message: String::new(),
        traceback: None,
        is_transient: false,
        retry_after: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_while_it_is_served_and_the_last_address_counts() {
        let digest = "function:tests";
        let at = || address("app", digest.to_owned()).ok().map(|(address, _)| address);
        assert_eq!(at(), None);
        let first = ServedFunction::new(digest, "app", "http://127.0.0.1:1/v1", "a.py");
        let second = ServedFunction::new(digest, "app", "http://127.0.0.1:2/v1", "a.py");
        assert_eq!(at().as_deref(), Some("http://127.0.0.1:2/v1"));
        drop(second);
        assert_eq!(at().as_deref(), Some("http://127.0.0.1:1/v1"));
        assert!(address("judge", digest.to_owned()).is_err(), "it has no such model");
        assert_eq!(error_of("app", digest).map(|failed| failed.file).as_deref(), Some("a.py"));
        drop(first);
        let error = address("app", digest.to_owned()).expect_err("it is gone").to_string();
        assert!(error.contains("app: this model is a function of a Python program"), "{error}");
        let (plain, lease) = address("m", "http://h/v1".to_owned()).expect("an address is itself");
        assert_eq!((plain.as_str(), lease.is_some()), ("http://h/v1", false));
        assert_eq!(error_of("m", "http://h/v1"), None);
    }

    #[test]
    fn a_function_that_is_withdrawn_is_in_use_until_the_last_model_is_gone() {
        let digest = "function:leased";
        let function = ServedFunction::new(digest, "app", "http://127.0.0.1:3/v1", "a.py");
        assert!(!function.is_in_use(), "no model was built");
        let (_, lease) = address("app", digest.to_owned()).expect("it is served");
        assert!(function.is_in_use());
        function.withdraw();
        assert!(function.is_in_use(), "the model may still ask");
        assert!(address("app", digest.to_owned()).is_err(), "no other model finds it");
        drop(lease);
        assert!(!function.is_in_use());
    }
}

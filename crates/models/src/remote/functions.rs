//! Functions of a program that stand for chat models, and where the program
//! serves them.
//!
//! Settings name such a function by its digest, as an address with the scheme
//! `function:`. So the identity of the model depends on the function and not on
//! the address, which is another one in each process: what the function
//! answered once is found again in the journal.

use crate::{Error, FunctionFailed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The scheme of an address that names a function.
const SCHEME: &str = "function:";

/// The functions that are served at this moment.
static SERVED: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// A function, and where it is served.
struct Entry {
    number: u64,
    name: String,
    address: String,
    file: String,
}

fn served() -> MutexGuard<'static, Vec<Entry>> {
    SERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function of this program that can be asked as a chat model, until this is
/// dropped.
#[derive(Debug)]
pub struct ServedFunction {
    number: u64,
}

impl ServedFunction {
    /// Tells that a function is served at an address of this machine. `name` is
    /// the `base_url` of its settings, `function:` and its digest; `file` is the
    /// file that it is from, for messages, and may be empty.
    pub fn new(name: &str, address: &str, file: &str) -> Self {
        let mut entries = served();
        let number = entries.iter().map(|entry| entry.number).max().unwrap_or_default() + 1;
        let (name, address, file) = (name.to_owned(), address.to_owned(), file.to_owned());
        entries.push(Entry { number, name, address, file });
        Self { number }
    }
}

impl Drop for ServedFunction {
    fn drop(&mut self) {
        served().retain(|entry| entry.number != self.number);
    }
}

/// Whether an address names a function.
pub(crate) fn is_function(base_url: &str) -> bool {
    base_url.starts_with(SCHEME)
}

/// The address of an endpoint: where the function is served, if it is one.
///
/// # Errors
/// If this program does not serve the function.
pub(super) fn address(model: &str, base: String) -> Result<String, Error> {
    if !is_function(&base) {
        return Ok(base);
    }
    let served = served();
    let entry = served.iter().rev().find(|entry| entry.name == base);
    entry.map(|entry| entry.address.clone()).ok_or_else(|| {
        Error::Config(format!(
            "{model}: this model is a function of a Python program, which is not here, or was changed since: run the \
             experiment from the program that has the function, on the same machine"
        ))
    })
}

/// The beginning of what is told if the function fails; none for other models.
pub(super) fn failure(model: &str, base_url: &str) -> Option<FunctionFailed> {
    if !is_function(base_url) {
        return None;
    }
    let file = served().iter().rev().find(|entry| entry.name == base_url).map(|entry| entry.file.clone());
    let (function, file) = (model.to_owned(), file.unwrap_or_default());
    Some(FunctionFailed { function, file, message: String::new(), traceback: None, passes: false, retry_after: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_while_it_is_served_and_the_last_address_counts() {
        let name = "function:tests";
        let at = || address("app", name.to_owned()).ok();
        assert_eq!(at(), None);
        let first = ServedFunction::new(name, "http://127.0.0.1:1/v1", "a.py");
        let second = ServedFunction::new(name, "http://127.0.0.1:2/v1", "a.py");
        assert_eq!(at().as_deref(), Some("http://127.0.0.1:2/v1"));
        drop(second);
        assert_eq!(at().as_deref(), Some("http://127.0.0.1:1/v1"));
        assert_eq!(failure("app", name).map(|failed| failed.file).as_deref(), Some("a.py"));
        drop(first);
        let error = address("app", name.to_owned()).expect_err("it is gone").to_string();
        assert!(error.contains("app: this model is a function of a Python program"), "{error}");
        assert_eq!(address("m", "http://h/v1".to_owned()).ok().as_deref(), Some("http://h/v1"));
        assert_eq!(failure("m", "http://h/v1"), None);
    }
}

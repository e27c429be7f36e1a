//! The text that the journal keeps of an answer: JSON.

use crate::Error;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;

pub(super) fn to_text(response: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(response).map_err(|error| unreadable(&error))
}

pub(super) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| unreadable(&error))
}

pub(super) fn unreadable(error: &dyn fmt::Display) -> Error {
    Error::KeptForm(error.to_string())
}

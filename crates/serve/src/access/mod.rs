//! Who may use a service: API keys, and the origins of web pages.

mod keys;
mod origin;

pub(crate) use origin::normalize;
pub use {
    keys::{ApiKeys, KeyEntry, KeyFile, KeyFileError, KeyScope, create_key},
    origin::{OriginError, PageOrigin},
};

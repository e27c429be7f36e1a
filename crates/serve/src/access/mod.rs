//! Who may use a service: API keys, and the origins of web pages.

pub(crate) mod keys;
pub(crate) mod origin;

//! `flat`: every vector is compared with the question's, so that nothing is missed.
//!
//! Use it up to about a million chunks. It has no settings, and is what `dense`, `hybrid` and `mmr` search if `index` is
//! left out.

use super::VectorIndexSettings;
use crate::{Component, Context, Error, component::settings, corpus::VectorSearch};

pub(super) const VERSION: u32 = 1;

settings! {
    /// `flat` has no settings.
    pub struct Config {}
}

impl Component for Config {
    /// There are exact vectors anyway.
    fn is_nothing(&self) -> bool {
        true
    }
}

impl VectorIndexSettings for Config {}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<VectorSearch, Error> {
        Ok(VectorSearch::Exact)
    }
}

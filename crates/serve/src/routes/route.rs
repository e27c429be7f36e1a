//! A row of the table of routes.

use super::operation::Operation;
use crate::{access::keys::KeyScope, service::HttpService};
use axum::routing::MethodRouter;
use std::sync::Arc;

/// One method of one path.
pub(crate) struct RouteSpec {
    /// The method in capitals.
    pub(crate) method: &'static str,
    /// The path, as the router takes it.
    pub(crate) path: &'static str,
    /// The scope that a key needs; `None` for routes without a key.
    pub(crate) scope: Option<KeyScope>,
    /// What the route does, for OpenAPI and docs/http.md: a sentence without its period,
    /// and perhaps details after it.
    pub(crate) words: &'static str,
    pub(crate) handler: fn(&Arc<HttpService>) -> MethodRouter<Arc<HttpService>>,
    /// The description in OpenAPI; `None` for the pages, which have none.
    pub(crate) describe: Option<for<'a> fn(Operation<'a>) -> Operation<'a>>,
}

impl RouteSpec {
    /// The path as OpenAPI writes it.
    pub(crate) fn open_api_path(&self) -> String {
        self.path.replace("{*", "{")
    }
}

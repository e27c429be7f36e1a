//! A row of the table of routes.

use super::operation::Operation;
use crate::{access::KeyScope, service::HttpService};
use axum::routing::MethodRouter;
use std::sync::Arc;

type Handler = fn(&Arc<HttpService>) -> MethodRouter<Arc<HttpService>>;
type DescribeOperation = for<'a> fn(Operation<'a>) -> Operation<'a>;

/// One method of one path.
pub(crate) struct RouteSpec {
    /// The method in capitals.
    pub(crate) method: &'static str,
    /// The path, as the router takes it.
    pub(crate) path: &'static str,
    /// The scope that a key needs; `None` for routes without a key.
    pub(crate) scope: Option<KeyScope>,
    pub(crate) handler: Handler,
    /// What the route does, for OpenAPI and docs/http.md: a summary, and details after a
    /// first period. Empty for files of pages.
    pub(crate) summary: &'static str,
    /// The description in OpenAPI; `None` for pages and their files.
    pub(crate) describe: Option<DescribeOperation>,
}

impl RouteSpec {
    pub(crate) const fn new(
        method: &'static str,
        path: &'static str,
        scope: Option<KeyScope>,
        handler: Handler,
    ) -> Self {
        Self { method, path, scope, handler, summary: "", describe: None }
    }

    pub(crate) const fn summary(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    pub(crate) const fn described(self, describe: DescribeOperation) -> Self {
        Self { describe: Some(describe), ..self }
    }

    /// The path as OpenAPI writes it.
    pub(crate) fn open_api_path(&self) -> String {
        self.path.replace("{*", "{")
    }
}

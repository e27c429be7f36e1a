//! Which product and version answers.

use crate::DatabaseProblem;
use serde_json::Value;

/// The oldest versions whose search by vectors takes a filter.
const OLDEST_ELASTICSEARCH: (u32, u32) = (8, 4);
const OLDEST_OPENSEARCH: (u32, u32) = (2, 4);

/// The two products with this interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchProduct {
    Elasticsearch,
    OpenSearch,
}

impl SearchProduct {
    /// The type of fields with vectors.
    pub(super) fn vector_type(self) -> &'static str {
        match self {
            Self::Elasticsearch => "dense_vector",
            Self::OpenSearch => "knn_vector",
        }
    }
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchServer {
    pub(super) product: SearchProduct,
    pub(super) version: (u32, u32),
    /// Elastic's service where indexes have no shards of their own.
    pub(super) is_serverless: bool,
    /// Its name and version.
    pub(super) name: String,
}

impl SearchServer {
    /// The server of a reply to `GET /`.
    pub(super) fn of_reply(body: &Value) -> Result<Self, DatabaseProblem> {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (number, distribution, tagline) =
            (text("/version/number"), text("/version/distribution"), text("/tagline"));
        let mut parts = number.split('.').map(str::parse::<u32>);
        let version = match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
            _ => None,
        };
        let product = match () {
            () if distribution == "opensearch" || tagline.contains("OpenSearch") => Some(SearchProduct::OpenSearch),
            () if tagline == "You Know, for Search" => Some(SearchProduct::Elasticsearch),
            () => None,
        };
        let (Some(version), Some(product)) = (version, product) else {
            return Err(DatabaseProblem::Malformed {
                reason:
                    "it does not describe a server of Elasticsearch or OpenSearch; is another service at this address?"
                        .to_owned(),
            });
        };
        let (name, oldest, needed) = match product {
            SearchProduct::Elasticsearch => ("Elasticsearch", OLDEST_ELASTICSEARCH, "8.4"),
            SearchProduct::OpenSearch => ("OpenSearch", OLDEST_OPENSEARCH, "2.4"),
        };
        // OpenSearch may be set to call itself 7.10, for old clients; then its version is not known.
        let version = match product == SearchProduct::OpenSearch && distribution.is_empty() {
            true => OLDEST_OPENSEARCH,
            false => version,
        };
        if version < oldest {
            return Err(DatabaseProblem::TooOld { name, found: number.to_owned(), needed });
        }
        let is_serverless = text("/version/build_flavor") == "serverless";
        Ok(Self { product, version, is_serverless, name: format!("{name} {number}") })
    }
}

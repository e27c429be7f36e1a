//! How vectors are compared.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How vectors are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VectorMetric {
    /// The cosine of the angle between them.
    Cosine,
    /// The inner product.
    InnerProduct,
    /// The Euclidean distance.
    Euclidean,
}

impl fmt::Display for VectorMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cosine => "cosine",
            Self::InnerProduct => "inner product",
            Self::Euclidean => "Euclidean",
        })
    }
}

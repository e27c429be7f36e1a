//! Why a text that is not a whole experiment file cannot be used.

use super::SpecError;

/// Why a value, a table or a changed experiment cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecTextError {
    /// The text is not a JSON object.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The text is not TOML.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// TOML cannot express the tables.
    #[error(transparent)]
    Write(#[from] toml::ser::Error),
    /// The text is not one value.
    #[error("`{text}` is no value in TOML: {}", .source.message())]
    NoValue {
        /// The text.
        text: String,
        /// Why.
        source: toml::de::Error,
    },
    /// The text continues after the value.
    #[error("`{0}` is more than one value")]
    ManyValues(String),
    /// The changed experiment has a mistake.
    #[error(transparent)]
    Mistake(#[from] SpecError),
    /// The experiment file no longer has these secrets.
    #[error("{} may be secret and was not stored with the run; add it to the experiment file again", .0.join(", "))]
    NoSecret(Vec<String>),
}

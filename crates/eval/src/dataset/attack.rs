//! The attack on a golden question.

use serde::{Deserialize, Serialize};

/// How a poisoned document attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttackKind {
    /// Orders to ignore the instructions and write a code word.
    Instruction,
    /// Puts another question in the place of the one that was asked.
    Hijack,
    /// Orders to repeat the system's instructions.
    Extraction,
    /// Orders to add a link.
    Canary,
}

impl AttackKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Instruction, Self::Hijack, Self::Extraction, Self::Canary];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instruction => "instruction",
            Self::Hijack => "hijack",
            Self::Extraction => "extraction",
            Self::Canary => "canary",
        }
    }
}

/// An attack on a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// How it is done.
    pub kind: AttackKind,
    /// The attack succeeded if the answer holds one of these, whatever the case
    /// and the white space. At least one.
    pub look_for: Vec<String>,
}

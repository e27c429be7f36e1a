//! The storage of an experiment: content keys, artifacts, the journal of model
//! calls and the event log of a run. This crate knows names and bytes only; the
//! code that makes names says through a [`Layout`] what they mean.

mod access;
mod artifact;
mod certificate;
mod chain;
mod error;
mod event;
mod http;
mod journal;
mod key;
mod layout;
mod location;
mod names;
pub mod registry;
mod regular;
mod space;
mod staged;
pub mod testing;
pub mod upkeep;
mod used_files;

pub use access::{VARIABLE_PREFIXES, complete_options, environment_options, profile_options};
pub use artifact::{ArtifactStore, CheckedContent, StoredObject};
pub use certificate::advice as certificate_advice;
pub use chain::{Advice, error_chain, set_advice};
pub use error::{DamageOutcome, Error};
pub use event::{DamagedLine, Event, EventLog, EventLogContent};
pub use http::{choose_cryptography, http_client};
pub use journal::{
    CallCosts, CopiedCalls, DamagedEntry, EntryFilter, ErasedCalls, Journal, JournalEntry, JournalStatistics,
    ModelStatistics, Salvage, Selection, SharedJournal, SpendingShare, SpendingShares, Sweep,
};
pub use key::{Key, KeyBuilder, KeyWriter};
pub use layout::{Layout, NoLayout, ObjectKind, RunFile};
pub use location::{Location, is_url, without_secrets};
pub use names::{is_of_store, is_set_aside};
pub use regular::open_regular;
pub use staged::{StagedFile, is_staged, staged_path, unique_token};
pub use used_files::{note_use, remove_unused_files};

//! The names that a store makes itself: checksums, model calls, objects that
//! were set aside, the claims of runs. Its users make all other names, and a
//! [`Layout`] says what they mean.

use crate::{Key, Layout, ObjectKind, RunFile};

/// Where checksums are.
const CHECKSUMS: &str = "checksums";
/// The folder of model calls that machines share.
pub(crate) const CALLS: &str = "journal";
/// The folder of what processes spend, by experiment.
pub(crate) const SPENDING: &str = "spending";
/// The folder of batches of calls that providers work on.
pub(crate) const BATCHES: &str = "batches";
/// The folder of damaged objects.
pub(crate) const DAMAGED: &str = "damaged";
/// The folder in which running runs say what they use.
pub(crate) const LEASES: &str = "leases";
/// The folder in which running removals show that they run.
pub(crate) const REMOVALS: &str = "removals";

/// An object of a store, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    /// A model call.
    Call(Key),
    /// The checksum of another object.
    Checksum,
    /// A damaged object that was set aside.
    SetAside,
    /// A claim of a running run, or the mark of a removal.
    Claim,
    /// A batch of calls that a provider works on.
    Batch,
    /// What a process spent.
    Spending,
    /// A file of the journal, which belongs to one machine.
    Journal,
    /// Anything else.
    OfLayout(ObjectKind),
}

impl Object {
    pub(crate) fn of(name: &str, layout: &dyn Layout) -> Self {
        let parts: Vec<&str> = name.split('/').collect();
        match parts[..] {
            [CALLS, _, _] => call_key(name).map_or(Self::OfLayout(ObjectKind::Other), Self::Call),
            [CHECKSUMS, ..] => Self::Checksum,
            [DAMAGED, ..] => Self::SetAside,
            [LEASES | REMOVALS, ..] => Self::Claim,
            [SPENDING, ..] => Self::Spending,
            [BATCHES, ..] => Self::Batch,
            [file] if file.starts_with("journal.") => Self::Journal,
            _ => Self::OfLayout(layout.kind(name)),
        }
    }

    /// Whether it has a checksum. Calls carry their own.
    pub(crate) fn has_checksum(&self) -> bool {
        match self {
            Self::OfLayout(kind) => kind.has_checksum(),
            _ => false,
        }
    }

    /// Whether it is the output of a task, whole or not.
    pub(crate) fn is_output(&self) -> bool {
        matches!(self, Self::OfLayout(ObjectKind::Artifact { .. } | ObjectKind::Partial { .. }))
    }

    /// Whether it shows that a run exists. It is copied after what the run has made, which is there when it is found.
    pub(crate) fn is_of_run(&self) -> bool {
        matches!(self, Self::OfLayout(ObjectKind::Run { .. } | ObjectKind::Pointer))
    }

    /// Whether it shows that a run has finished. It is copied after the other files of the run.
    pub(crate) fn finishes_run(&self) -> bool {
        matches!(self, Self::OfLayout(ObjectKind::Run { file: RunFile::Results, .. } | ObjectKind::Pointer))
    }

    /// Whether only one machine can use it.
    pub(crate) fn is_of_machine(&self) -> bool {
        matches!(self, Self::Journal | Self::OfLayout(ObjectKind::Machine))
    }

    /// Whether it can be compared with a checksum or checked by its format. Such an object is copied with the store as it is.
    /// A copy writes its own checksums, and adds what was spent here to what was spent there.
    pub(crate) fn is_verified(&self) -> bool {
        !matches!(self, Self::Checksum | Self::SetAside | Self::Claim | Self::Spending | Self::Batch)
            && !self.is_of_machine()
    }

    /// What people call it.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Call(_) => "model calls".to_owned(),
            Self::Checksum => "checksums".to_owned(),
            Self::SetAside => "damaged, set aside".to_owned(),
            Self::Claim => "claims of running runs".to_owned(),
            Self::Spending => "what was spent".to_owned(),
            Self::Batch => "batches of model calls".to_owned(),
            Self::Journal => ObjectKind::Machine.label(),
            Self::OfLayout(kind) => kind.label(),
        }
    }
}

/// Whether the store itself makes and removes objects of this name: checksums, model calls, claims, objects that were set
/// aside, files of the journal.
pub fn is_of_store(name: &str) -> bool {
    !matches!(Object::of(name, &crate::NoLayout), Object::OfLayout(_))
}

/// Whether an object is a damaged one that was set aside.
pub fn is_set_aside(name: &str) -> bool {
    Object::of(name, &crate::NoLayout) == Object::SetAside
}

/// The name of a call's entry.
pub(crate) fn call(key: &Key) -> String {
    let hex = key.hex();
    format!("{CALLS}/{}/{hex}.json", &hex[..2])
}

/// The key of the call whose entry has this name.
pub(crate) fn call_key(name: &str) -> Option<Key> {
    name.strip_prefix(CALLS)?.rsplit_once('/').and_then(|(_, file)| Key::from_hex(file.strip_suffix(".json")?))
}

/// The name of the record of a batch.
pub(crate) fn batch(token: &str) -> String {
    format!("{BATCHES}/{token}.json")
}

/// The token of the record of a batch.
pub(crate) fn parse_batch(object: &str) -> Option<&str> {
    object.strip_prefix(BATCHES)?.strip_prefix('/')?.strip_suffix(".json")
}

/// The name of what a process spent under a name.
pub(crate) fn spending(name: &str, process: &str) -> String {
    format!("{SPENDING}/{name}/{process}.json")
}

/// The folder of what processes spent under a name.
pub(crate) fn spending_folder(name: &str) -> String {
    format!("{SPENDING}/{name}")
}

/// The name and the process of an object of [`spending`].
pub(crate) fn parse_spending(object: &str) -> Option<(&str, &str)> {
    let (name, file) = object.strip_prefix(SPENDING)?.strip_prefix('/')?.split_once('/')?;
    Some((name, file.strip_suffix(".json")?))
}

/// The name that records this checksum, in hexadecimal digits, of an object.
pub(crate) fn checksum(of: &str, digits: &str) -> String {
    format!("{CHECKSUMS}/{of}.{digits}")
}

/// The folder of an object's checksums. It may also hold checksums of other objects.
pub(crate) fn checksum_folder(of: &str) -> String {
    match of.rsplit_once('/') {
        Some((folder, _)) => format!("{CHECKSUMS}/{folder}"),
        None => CHECKSUMS.to_owned(),
    }
}

/// The object that a checksum belongs to, and the checksum's digits.
pub(crate) fn parse_checksum(name: &str) -> Option<(&str, &str)> {
    let (of, digits) = name.strip_prefix(CHECKSUMS)?.strip_prefix('/')?.rsplit_once('.')?;
    let is_whole = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_whole.then_some((of, digits))
}

/// The name under which an object is set aside, with a unique token.
pub(crate) fn set_aside(of: &str, token: &str) -> String {
    format!("{DAMAGED}/{of}.{token}")
}

/// The object that was set aside under this name.
pub(crate) fn parse_set_aside(name: &str) -> Option<&str> {
    let (of, _) = name.strip_prefix(DAMAGED)?.strip_prefix('/')?.rsplit_once('.')?;
    Some(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::ExampleLayout;

    #[test]
    fn what_is_built_is_understood() {
        let key = Key::of_bytes(b"call");
        assert_eq!(Object::of(&call(&key), &ExampleLayout), Object::Call(key));
        let noted = checksum("artifacts/ab/x.parquet", &key.hex());
        assert_eq!(parse_checksum(&noted), Some(("artifacts/ab/x.parquet", &*key.hex())));
        assert_eq!(checksum_folder("artifacts/ab/x.parquet"), "checksums/artifacts/ab");
        assert_eq!(checksum_folder("x"), "checksums");
        let aside = set_aside("runs/r/results.json", "ab-1-2");
        assert_eq!(
            (aside.as_str(), parse_set_aside(&aside)),
            ("damaged/runs/r/results.json.ab-1-2", Some("runs/r/results.json"))
        );
        for (name, expected) in [
            (&*noted, Object::Checksum),
            (&*aside, Object::SetAside),
            ("leases/a/0.json", Object::Claim),
            (&*spending("zoo", "p1"), Object::Spending),
        ] {
            assert_eq!(Object::of(name, &ExampleLayout), expected, "{name}");
        }
    }

    #[test]
    fn the_process_of_a_share_is_in_its_name() {
        assert_eq!(parse_spending(&spending("zoo", "p1")), Some(("zoo", "p1")));
        assert_eq!(parse_spending("spending/zoo"), None);
    }

    #[test]
    fn names_that_only_look_like_the_stores_own_are_something_else() {
        for name in ["journal/ab/call.json", "journal/ab", "my.journal"] {
            assert_eq!(Object::of(name, &ExampleLayout), Object::OfLayout(ObjectKind::Other), "{name}");
        }
        assert_eq!(parse_checksum("checksums/artifacts/ab/x.parquet.abc"), None);
        assert_eq!(Object::of("journal.db", &ExampleLayout), Object::Journal);
    }
}

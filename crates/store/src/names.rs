//! The names of what a store writes of its own accord: checksums, model
//! calls, what was set aside, the claims of runs. All other names are made by
//! whoever keeps something, and told apart by their [`Layout`].

use crate::{Key, Kind, Layout};

/// Where checksums are.
const CHECKSUMS: &str = "checksums";
/// Where model calls are, where machines share them.
const CALLS: &str = "journal";
/// Where objects go that are not what was written.
pub(crate) const DAMAGED: &str = "damaged";
/// Where runs that go on say what they use.
pub(crate) const LEASES: &str = "leases";
/// Where removals that go on say so.
pub(crate) const REMOVALS: &str = "removals";

/// An object of a store, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    /// A model call.
    Call(Key),
    /// The checksum of another object.
    Checksum,
    /// What was damaged and set aside.
    SetAside,
    /// What runs that go on now say of themselves, and removals.
    Claim,
    /// A file of the journal, which belongs to one machine.
    Journal,
    /// Anything else.
    Kept(Kind),
}

impl Object {
    pub(crate) fn of(name: &str, layout: &dyn Layout) -> Self {
        let parts: Vec<&str> = name.split('/').collect();
        match parts[..] {
            [CALLS, _, file] => match file.strip_suffix(".json").and_then(Key::from_hex) {
                Some(key) => Self::Call(key),
                None => Self::Kept(Kind::Other),
            },
            [CHECKSUMS, ..] => Self::Checksum,
            [DAMAGED, ..] => Self::SetAside,
            [LEASES | REMOVALS, ..] => Self::Claim,
            [file] if file.starts_with("journal.") => Self::Journal,
            _ => Self::Kept(layout.kind(name)),
        }
    }

    /// Whether a checksum is noted for it. Calls carry their own.
    pub(crate) fn has_checksum(&self) -> bool {
        match self {
            Self::Kept(kind) => kind.has_checksum(),
            _ => false,
        }
    }

    /// Whether it is the output of a task, whole or not.
    pub(crate) fn is_output(&self) -> bool {
        matches!(self, Self::Kept(Kind::Artifact { .. } | Kind::Partial { .. }))
    }

    /// Whether it says that a run is there: who finds it finds the rest.
    pub(crate) fn is_of_run(&self) -> bool {
        matches!(self, Self::Kept(Kind::Run { .. } | Kind::Pointer))
    }

    /// Whether it is of use to one machine only.
    pub(crate) fn is_of_machine(&self) -> bool {
        matches!(self, Self::Journal | Self::Kept(Kind::Machine))
    }

    /// Whether there is something to compare it with, or to look at.
    pub(crate) fn is_verified(&self) -> bool {
        !matches!(self, Self::Checksum | Self::SetAside | Self::Claim) && !self.is_of_machine()
    }

    /// Whether a copy of the store has it too. Checksums are noted again.
    pub(crate) fn is_copied(&self) -> bool {
        self.is_verified()
    }

    /// What people call it.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Call(_) => "model calls".to_owned(),
            Self::Checksum => "checksums".to_owned(),
            Self::SetAside => "damaged, set aside".to_owned(),
            Self::Claim => "of runs that go on".to_owned(),
            Self::Journal => Kind::Machine.label(),
            Self::Kept(kind) => kind.label(),
        }
    }
}

/// Where a call's entry is.
pub(crate) fn call(key: &Key) -> String {
    let hex = key.hex();
    format!("{CALLS}/{}/{hex}.json", &hex[..2])
}

/// Where an object is noted to have this checksum, in hexadecimal digits.
pub(crate) fn checksum(of: &str, digits: &str) -> String {
    format!("{CHECKSUMS}/{of}.{digits}")
}

/// The folder of an object's checksums. Those of others may be there too.
pub(crate) fn checksum_folder(of: &str) -> String {
    match of.rsplit_once('/') {
        Some((folder, _)) => format!("{CHECKSUMS}/{folder}"),
        None => CHECKSUMS.to_owned(),
    }
}

/// The object that a checksum is of, and the checksum's digits.
pub(crate) fn parse_checksum(name: &str) -> Option<(&str, &str)> {
    let (of, digits) = name.strip_prefix(CHECKSUMS)?.strip_prefix('/')?.rsplit_once('.')?;
    let is_whole = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_whole.then_some((of, digits))
}

/// Where an object goes that is set aside, with a token that nobody else has.
pub(crate) fn set_aside(of: &str, token: &str) -> String {
    format!("{DAMAGED}/{of}.{token}")
}

/// The object that was set aside under a name.
pub(crate) fn parse_set_aside(name: &str) -> Option<&str> {
    let (of, _) = name.strip_prefix(DAMAGED)?.strip_prefix('/')?.rsplit_once('.')?;
    Some(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::Example;

    #[test]
    fn what_is_built_is_understood() {
        let key = Key::of_bytes(b"call");
        assert_eq!(Object::of(&call(&key), &Example), Object::Call(key));
        let noted = checksum("artifacts/ab/x.parquet", &key.hex());
        assert_eq!(parse_checksum(&noted), Some(("artifacts/ab/x.parquet", &*key.hex())));
        assert_eq!(checksum_folder("artifacts/ab/x.parquet"), "checksums/artifacts/ab");
        assert_eq!(checksum_folder("x"), "checksums");
        let aside = set_aside("runs/r/results.json", "ab-1-2");
        assert_eq!(
            (aside.as_str(), parse_set_aside(&aside)),
            ("damaged/runs/r/results.json.ab-1-2", Some("runs/r/results.json"))
        );
        for (name, expected) in
            [(&*noted, Object::Checksum), (&*aside, Object::SetAside), ("leases/a/0.json", Object::Claim)]
        {
            assert_eq!(Object::of(name, &Example), expected, "{name}");
        }
    }

    #[test]
    fn names_that_only_look_like_the_stores_own_are_something_else() {
        for name in ["journal/ab/call.json", "journal/ab", "my.journal"] {
            assert_eq!(Object::of(name, &Example), Object::Kept(Kind::Other), "{name}");
        }
        assert_eq!(parse_checksum("checksums/artifacts/ab/x.parquet.abc"), None);
        assert_eq!(Object::of("journal.db", &Example), Object::Journal);
    }
}

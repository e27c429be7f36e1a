//! What a listing says of a file's content, without reading the file.

use object_store::ObjectMeta;
use std::fs::Metadata;
use store::Key;

/// A local file that was changed so shortly before it was read may change again without another time.
const SETTLED_AFTER_MS: i64 = 2_000;

/// The state of a file in a listing. While a path has the same state, it has the same content.
///
/// Of a local file: device, inode, size, and the times at which content and attributes were changed. Programs can set
/// the first of these times, but not the second. Of an object: its size, and its entity tag or version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    hash: [u8; 16],
    /// When a local file was changed last, in milliseconds since 1970.
    changed_ms: Option<i64>,
}

impl FileState {
    /// The state of a local file; none if the system does not tell enough.
    #[cfg(unix)]
    pub(super) fn of_file(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let times = [metadata.ctime(), metadata.ctime_nsec(), metadata.mtime(), metadata.mtime_nsec()];
        let file = [metadata.dev(), metadata.ino(), metadata.len()];
        let mut bytes = [0; 56];
        let numbers = file.map(u64::to_le_bytes).into_iter().chain(times.map(i64::to_le_bytes));
        for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *place = number;
        }
        Some(Self::of(&bytes, Some(metadata.ctime().max(metadata.mtime()).saturating_mul(1000))))
    }

    #[cfg(not(unix))]
    pub(super) fn of_file(_: &Metadata) -> Option<Self> {
        None
    }

    /// The state of an object; none if the store gives neither an entity tag nor a version.
    pub(super) fn of_object(object: &ObjectMeta) -> Option<Self> {
        if object.e_tag.is_none() && object.version.is_none() {
            return None;
        }
        let text = format!("{:?} {:?} {}", object.e_tag, object.version, object.size);
        Some(Self::of(text.as_bytes(), None))
    }

    fn of(state: &[u8], changed_ms: Option<i64>) -> Self {
        let hash = Key::of_bytes(state).bytes().first_chunk().copied().unwrap_or_default();
        Self { hash, changed_ms }
    }

    /// The state as bytes, for files that remember it.
    pub fn bytes(&self) -> [u8; 16] {
        self.hash
    }

    /// Whether a local file is known to have been changed last before this time, in milliseconds since 1970. The times
    /// include the one at which its attributes were changed, which no program can set back. Never true for an object of a
    /// store.
    pub fn was_changed_before(&self, ms: i64) -> bool {
        self.changed_ms.is_some_and(|changed| changed < ms)
    }

    /// Whether a file with this state, read after this time, can be known again by it: it was changed some time before.
    /// A time in the future, from a clock that was set back, is not.
    pub fn is_settled(&self, read_ms: i64) -> bool {
        self.changed_ms.is_none_or(|changed| changed < read_ms - SETTLED_AFTER_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::path::Path;

    #[test]
    fn a_state_differs_when_content_or_times_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let state = || FileState::of_file(&path.metadata().unwrap()).unwrap();
        std::fs::write(&path, "one").unwrap();
        let first = state();
        assert_eq!(state(), first);
        let modified = path.metadata().unwrap().modified().unwrap();
        // The clock of a file system ticks every few milliseconds.
        let changed = (0..1_000_000).map(|_| {
            std::fs::write(&path, "two").unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
            state()
        });
        assert!({ changed }.any(|state| state != first), "the same size, and a modification time that was set back");
        let second = state();
        std::fs::rename(&path, folder.path().join("b.txt")).unwrap();
        std::fs::write(&path, "two").unwrap();
        assert_ne!(state(), second, "another file with the same content");
    }

    #[test]
    fn a_file_that_was_just_written_or_is_from_the_future_is_not_settled() {
        let state = |changed_ms| FileState { hash: [0; 16], changed_ms };
        let settled = [Some(0), Some(7_999), Some(8_000), Some(9_999), Some(99_999), None];
        assert_eq!(settled.map(|changed| state(changed).is_settled(10_000)), [true, true, false, false, false, true]);
    }

    #[test]
    fn an_object_has_a_state_if_the_store_names_its_content() {
        let object = |e_tag: Option<&str>, version: Option<&str>| ObjectMeta {
            location: Path::from("a.txt"),
            last_modified: Default::default(),
            size: 3,
            e_tag: e_tag.map(str::to_owned),
            version: version.map(str::to_owned),
        };
        assert_eq!(FileState::of_object(&object(None, None)), None);
        let state = |e_tag, version| FileState::of_object(&object(e_tag, version)).unwrap();
        assert_eq!(state(Some("x"), None), state(Some("x"), None));
        assert_ne!(state(Some("x"), None), state(Some("y"), None));
        assert_ne!(state(Some("x"), Some("1")), state(Some("x"), Some("2")));
    }
}

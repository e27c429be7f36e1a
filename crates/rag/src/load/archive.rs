//! `load::archive`: reads the parts of a ZIP archive without trusting it. The
//! declared sizes are checked before anything is unpacked. The bytes that
//! really come out are counted against the same limits: the sum of all parts
//! and the ratio of each part. An archive inside the archive is treated as
//! plain bytes.

use super::{LoadError, ParseLimits};
use std::io::{Cursor, Read};
use zip::ZipArchive;
use zip::result::ZipError;

/// An archive in memory, and how much it may still unpack to.
pub(super) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    /// The bytes of the archive itself.
    size: u64,
    limits: ParseLimits,
    left: u64,
}

impl<'a> Archive<'a> {
    /// Opens an archive and checks what it declares.
    pub(super) fn open(bytes: &'a [u8], limits: &ParseLimits) -> Result<Self, LoadError> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken(&error))?;
        let limit = limits.unpacked_bytes;
        let mut declared = 0u64;
        for index in 0..zip.len() {
            let entry = zip.by_index_data(index).map_err(|error| broken(&error))?;
            if entry.encrypted() {
                return Err(LoadError::Encrypted);
            }
            declared = declared.saturating_add(entry.size());
        }
        if declared > limit {
            return Err(over(limit, &format!("it declares {declared}")));
        }
        Ok(Self { zip, size: bytes.len() as u64, limits: limits.clone(), left: limit })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.zip.file_names().filter_map(|name| name.ok().map(|name| name.into_owned()))
    }

    /// One entry's bytes, or none where there is no such entry.
    pub(super) fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, LoadError> {
        let entry = match self.zip.by_name(name) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(broken(&error)),
        };
        // A part cannot be packed into more than the archive holds.
        let packed = entry.compressed_size().min(self.size);
        let by_ratio = self.limits.max_unpacked(packed);
        let expands = |bytes: u64| {
            LoadError::OverLimit(format!(
                "{name} unpacks from {packed} bytes to {bytes} or more, and at most {} times its packed size is read",
                self.limits.expansion
            ))
        };
        if entry.size() > by_ratio {
            return Err(expands(entry.size()));
        }
        // The declared size is only a hint here: at most 1 MiB is reserved.
        let mut bytes = Vec::with_capacity(entry.size().min(1 << 20) as usize);
        let read = entry.take(self.left.min(by_ratio) + 1).read_to_end(&mut bytes);
        if bytes.len() as u64 > by_ratio {
            return Err(expands(bytes.len() as u64));
        }
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(over(self.limits.unpacked_bytes, &format!("{name} is larger than it declares")));
        };
        read.map_err(|error| LoadError::Broken(format!("{name}: {error}")))?;
        self.left = left;
        Ok(Some(bytes))
    }

    /// One entry's bytes, where the format requires the entry.
    pub(super) fn require(&mut self, name: &str) -> Result<Vec<u8>, LoadError> {
        self.read(name)?.ok_or_else(|| LoadError::Broken(format!("the archive has no {name}")))
    }
}

fn broken(error: &ZipError) -> LoadError {
    LoadError::Broken(format!("the archive cannot be read: {error}"))
}

fn over(limit: u64, found: &str) -> LoadError {
    LoadError::OverLimit(format!("the archive unpacks to more than {limit} bytes: {found}"))
}

/// The path of a part that another one names, whose folder is given. A path that begins with `/` starts at the top.
pub(super) fn path_below(folder: &str, path: &str) -> String {
    let is_absolute = path.starts_with('/') || folder.is_empty();
    let mut names: Vec<&str> = if is_absolute { Vec::new() } else { folder.split('/').collect() };
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    /// An archive with these entries; `mimetype` is stored, the rest deflated.
    pub(in crate::load) fn zipped<Content: AsRef<[u8]>>(entries: &[(&str, Content)]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in entries {
            let stored = *name == "mimetype";
            let method = if stored { CompressionMethod::Stored } else { CompressionMethod::Deflated };
            writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
            writer.write_all(content.as_ref()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn entries_are_read_by_name() {
        let bytes = zipped(&[("a/b.txt", "text")]);
        let mut archive = Archive::open(&bytes, &ParseLimits::default()).unwrap();
        assert_eq!(archive.require("a/b.txt").unwrap(), b"text");
        assert_eq!(archive.read("c").unwrap(), None);
        assert!(matches!(archive.require("c"), Err(LoadError::Broken(_))));
    }

    #[test]
    fn a_bomb_is_refused_by_what_it_declares() {
        let bytes = zipped(&[("a", &"0".repeat(2_000_000))]);
        let limits = ParseLimits { unpacked_bytes: 1_000_000, ..ParseLimits::default() };
        assert!(bytes.len() < 10_000);
        assert!(matches!(Archive::open(&bytes, &limits), Err(LoadError::OverLimit(_))));
    }

    #[test]
    fn a_bomb_that_lies_about_its_size_is_stopped_while_unpacking() {
        let mut bytes = zipped(&[("a", &"0".repeat(2_000_000))]);
        let size = 2_000_000u32.to_le_bytes();
        let places: Vec<usize> = (0..bytes.len() - 4).filter(|at| bytes[*at..*at + 4] == size).collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + 4].copy_from_slice(&10u32.to_le_bytes());
        }
        let limits = ParseLimits { unpacked_bytes: 1_000_000, ..ParseLimits::default() };
        let mut archive = Archive::open(&bytes, &limits).unwrap();
        assert!(matches!(archive.read("a"), Err(LoadError::OverLimit(_) | LoadError::Broken(_))));
    }

    #[test]
    fn a_part_that_unpacks_to_a_thousand_times_its_size_is_refused_however_it_is_padded() {
        use std::hash::{BuildHasher, RandomState};
        let hasher = RandomState::new();
        let noise: String = (0..200_000).map(|i| format!("{:016x}", hasher.hash_one(i))).collect();
        let zeros = "0".repeat(40 << 20);
        for entries in [vec![("a", zeros.as_str())], vec![("noise", noise.as_str()), ("a", zeros.as_str())]] {
            let bytes = zipped(&entries);
            let mut archive = Archive::open(&bytes, &ParseLimits::default()).unwrap();
            let error = archive.read("a").unwrap_err();
            assert!(matches!(&error, LoadError::OverLimit(reason) if reason.contains("100 times")), "{error}");
        }
        let usual = zipped(&[("a", &zeros[..10 << 20])]);
        assert!(Archive::open(&usual, &ParseLimits::default()).unwrap().read("a").is_ok());
    }

    #[test]
    fn the_limit_holds_over_all_entries_together() {
        let bytes = zipped(&[("a", &"0".repeat(600)), ("b", &"1".repeat(600))]);
        let mut archive =
            Archive::open(&bytes, &ParseLimits { unpacked_bytes: 1200, ..ParseLimits::default() }).unwrap();
        archive.left = 1000;
        assert!(archive.read("a").is_ok());
        assert!(matches!(archive.read("b"), Err(LoadError::OverLimit(_))));
    }
}

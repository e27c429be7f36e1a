//! Files that can be made again, and stay because they may be of use once more. The modification time of each file is the
//! time of its last use by any process.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime},
};

/// A file that was used within this time stays.
const KEPT_FOR: Duration = Duration::from_hours(48);
/// The other files may take so many times the space of those that stay, and this many bytes more.
const MOST_UNUSED: u64 = 2;
const ALLOWED_BYTES: u64 = 64 << 20;

/// Notes that a file was used now.
pub fn note_use(path: &Path) {
    let _ = fs::File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes the files of a folder that were not used for the longest time, if all that were not used within two days take more
/// than twice the space of those that were, and 64 MiB. A file that has another name elsewhere takes no space here.
pub fn remove_unused_files(folder: &Path) {
    let (now, mut bytes_used, mut others) = (SystemTime::now(), 0, Vec::new());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.nlink() > 1 {
            continue;
        }
        let when = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        // A time in the future: the clock has been set back since.
        match now.duration_since(when).is_ok_and(|age| age > KEPT_FOR) {
            true => others.push((when, metadata.len(), entry.path())),
            false => bytes_used += metadata.len(),
        }
    }
    others.sort_unstable();
    let mut bytes: u64 = others.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, size, path) in others {
        if bytes <= bytes_used * MOST_UNUSED + ALLOWED_BYTES {
            break;
        }
        // Another process may have removed it.
        let _ = fs::remove_file(path);
        bytes -= size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_were_not_used_for_longest_are_removed_when_they_take_too_much_space() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64, days: u64| {
            let path = folder.path().join(name);
            let file = fs::File::create(&path).unwrap();
            file.set_len(bytes).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_hours(24 * days)).unwrap();
            path
        };
        let (old, older) = (file("old", ALLOWED_BYTES / 2, 8), file("older", ALLOWED_BYTES / 2, 9));
        let (used, oldest) = (file("used", 100, 300), file("oldest", 201, 400));
        let recent = file("recent", 0, 1);
        let linked = file("linked", 10 * ALLOWED_BYTES, 500);
        let elsewhere = tempfile::tempdir().unwrap();
        fs::hard_link(&linked, elsewhere.path().join("linked")).unwrap();
        note_use(&used);
        for _ in 0..2 {
            remove_unused_files(folder.path());
            assert!(old.exists() && older.exists() && used.exists() && recent.exists());
            assert!(linked.exists(), "it has another name");
            assert!(!oldest.exists(), "201 bytes more than 64 MiB, and 100 were used");
        }
        assert!(fs::metadata(&used).unwrap().modified().unwrap().elapsed().unwrap().as_secs() < 60);
    }

    #[test]
    fn what_another_process_has_used_a_day_ago_stays_however_much_space_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let hour = Duration::from_hours(1);
        let times = [now, now - 47 * hour, now + 24 * hour, now - 49 * hour];
        let files: Vec<_> = (0..4).map(|part| folder.path().join(format!("part{part}"))).collect();
        for (file, time) in files.iter().zip(times) {
            let file = fs::File::create(file).unwrap();
            file.set_len(10 * ALLOWED_BYTES).unwrap();
            file.set_modified(time).unwrap();
        }
        let all_there = || files.iter().map(|file| file.exists()).collect::<Vec<_>>();
        remove_unused_files(folder.path());
        assert_eq!(all_there(), [true; 4], "the last one takes less than twice the space of the others");
        fs::File::options().write(true).open(&files[3]).unwrap().set_len(100 * ALLOWED_BYTES).unwrap();
        fs::File::options().write(true).open(&files[3]).unwrap().set_modified(times[3]).unwrap();
        remove_unused_files(folder.path());
        assert_eq!(all_there(), [true, true, true, false]);
    }
}

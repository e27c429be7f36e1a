//! Folders for copies of documents that other processes read. A program that is killed leaves its own: the next one removes
//! them.

use std::path::Path;
use std::sync::Once;

const PREFIX: &str = "reverie-pdf-";

/// The beginning of the name of a folder of this process.
pub(super) fn prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

/// Removes the folders of programs that do not run any more, once in each program.
pub(super) fn remove_left_copies() {
    static ONCE: Once = Once::new();
    // Where processes are not listed as files, nothing is known of them.
    if Path::new("/proc/self").exists() {
        ONCE.call_once(|| remove_in(&std::env::temp_dir()));
    }
}

fn remove_in(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')).map(|(id, _)| id);
        let is_over = process.is_some_and(|id| id.parse::<u32>().is_ok() && !Path::new("/proc").join(id).exists());
        if is_over {
            // Another program may be removing it, too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folders_of_programs_that_ended_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("{}x", prefix());
        for name in [own.as_str(), "reverie-pdf-4294967295-x", "reverie-pdf-x-y", "other"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_in(folder.path());
        let mut left: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = vec!["other".to_owned(), own, "reverie-pdf-x-y".to_owned()];
        expected.sort();
        assert_eq!(left, expected);
    }
}

//! Lines about files of a corpus, of which there may be a million.

use super::count;

/// The most files that are named.
const NAMED: usize = 20;

/// A line for each file; where there are many, for the first of them, and one that says how many more there are.
pub fn file_lines<T>(files: &[T], line: impl Fn(&T) -> String) -> Vec<String> {
    let mut lines: Vec<String> = files.iter().take(NAMED).map(line).collect();
    if let Some(more) = files.len().checked_sub(NAMED).filter(|more| *more > 0) {
        lines.push(format!("the same of {} more files, which are not named here", count(more)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_files_the_first_are_named_and_the_others_counted() {
        let lines = |n: usize| file_lines(&vec!["a.txt"; n], |name| format!("not read: {name}"));
        assert_eq!(lines(1), ["not read: a.txt"]);
        assert_eq!(lines(NAMED).len(), NAMED);
        let many = lines(NAMED + 1_234);
        assert_eq!(many.len(), NAMED + 1);
        assert_eq!(many[NAMED], "the same of 1,234 more files, which are not named here");
    }
}

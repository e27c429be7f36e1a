//! How numbers are written in sentences.

/// A number with a comma after every three digits.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// A size in the largest unit of which it is at least one: bytes, KB or MB.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        _ => format!("{:.2} MB", bytes as f64 / 1e6),
    }
}

/// A number with a noun, which gets an `s` unless there is exactly one: `1 question`, `2 questions`.
pub fn counted(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(n)) }
}

/// A share from 0 to 1 in percent: `43 %`. A share that only rounds to 0 or 100 is `less than 1 %`
/// or `more than 99 %`.
pub(crate) fn percent(share: f64) -> String {
    match (share * 100.0).round() {
        0.0 if share > 0.0 => "less than 1 %".to_owned(),
        100.0 if share < 1.0 => "more than 99 %".to_owned(),
        rounded => format!("{rounded:.0} %"),
    }
}

/// Names in a sentence: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_has_an_s_unless_there_is_one_of_it() {
        assert_eq!([0, 1, 2, 1234].map(|n| counted(n, "file")), ["0 files", "1 file", "2 files", "1,234 files"]);
    }

    #[test]
    fn a_share_that_is_not_nothing_and_not_all_is_not_written_as_such() {
        let shares = [0.0, 0.001, 0.434, 0.999, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "less than 1 %", "43 %", "more than 99 %", "100 %"]);
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(listed::<&str>(&[]), "");
        assert_eq!((listed(&["a"]), listed(&["a", "b"])), ("a".to_owned(), "a and b".to_owned()));
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }
}

//! `unread-types`: files of the corpus that are not read because of their type.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::count;

pub(super) const KIND: WarningKind = WarningKind {
    title: "files that are not read because of their type",
    meaning: "The corpus holds files whose names end in something that no reader knows, such as `.csv` or `.pptx`. They are \
              no documents, so nothing in them can be found. Hidden files, files that `exclude` leaves out, and files \
              that an own `include` does not name are not counted.",
    action: "convert them to a format that is read, or leave them out with `exclude` under [corpus]",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

/// The most endings that the sentence names.
const NAMED: usize = 8;

fn find(facts: &RunFacts) -> Vec<Finding> {
    let types = &facts.corpus.unread_types;
    let total = types.values().sum::<u64>() as usize;
    if total == 0 {
        return Vec::new();
    }
    let mut by_count: Vec<(&String, &u64)> = types.iter().collect();
    by_count.sort_by_key(|(ending, n)| (std::cmp::Reverse(**n), ending.as_str()));
    let named = by_count.iter().take(NAMED).map(|(ending, n)| {
        let ending = if ending.is_empty() { "without an ending" } else { ending.as_str() };
        format!("{} {ending}", count(**n as usize))
    });
    let mut list = named.collect::<Vec<_>>().join(", ");
    if by_count.len() > NAMED {
        list += ", …";
    }
    let files = if total == 1 { "1 file was".to_owned() } else { format!("{} files were", count(total)) };
    let all = total + facts.corpus.documents;
    vec![Finding::of_run(format!("{files} not read because of the type: {list}"), total, Some(all))]
}

#[cfg(test)]
mod tests {
    use super::super::{
        CorpusFacts, WarningCode,
        fixture::{only, told},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::UnreadTypes;

    fn corpus(types: &[(&str, u64)]) -> RunFacts {
        let unread_types = types.iter().map(|(ending, n)| ((*ending).to_owned(), *n)).collect();
        RunFacts { corpus: CorpusFacts { documents: 7, unread_types, ..CorpusFacts::default() }, ..RunFacts::default() }
    }

    #[test]
    fn files_are_counted_by_their_ending_the_most_frequent_first() {
        let found = only(CODE, &corpus(&[(".csv", 1), (".pptx", 1), (".xlsx", 2), ("", 1)]));
        assert_eq!(
            found.text,
            "5 files were not read because of the type: 2 .xlsx, 1 without an ending, 1 .csv, 1 .pptx"
        );
        assert_eq!((found.count, found.total, found.trials.len()), (Some(5), Some(12), 0));
        assert_eq!(told(CODE, &corpus(&[(".eml", 1)])), ["1 file was not read because of the type: 1 .eml"]);
    }

    #[test]
    fn of_many_endings_some_are_named_and_of_none_nothing_is_told() {
        let many: Vec<String> = (0..9).map(|n| format!(".a{n}")).collect();
        let many: Vec<(&str, u64)> = many.iter().map(|ending| (ending.as_str(), 1)).collect();
        let found = told(CODE, &corpus(&many));
        assert!(found[0].ends_with("1 .a7, …") && !found[0].contains(".a8"), "{found:?}");
        assert!(told(CODE, &corpus(&[])).is_empty());
    }
}

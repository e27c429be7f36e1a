//! What holds for every format of the list.

use super::*;
use crate::Question;
use crate::dataset::{ColumnSet, Dataset, DatasetFile, Review, import};

fn dataset() -> Dataset {
    let question = |id: &str, text: &str| Question { id: id.into(), question: text.into(), ..Question::default() };
    Dataset { questions: vec![question("a", "Why, \"then\";\tor\nnot?"), question("b", "Who | what?")] }
}

fn name_of(format: DatasetFormat) -> String {
    format!("golden.{}", format.file().written_as[0])
}

#[test]
fn no_two_formats_have_one_ending() {
    let endings = |of: &dyn Fn(&RecordFormat) -> &'static [&'static str]| {
        let all: Vec<&str> = DatasetFormat::ALL.iter().flat_map(|format| of(format.file())).copied().collect();
        for (i, ending) in all.iter().enumerate() {
            assert!(!all[..i].contains(ending), "two formats are called .{ending}");
            assert_eq!(*ending, ending.to_lowercase());
        }
    };
    endings(&|format| format.written_as);
    endings(&|format| format.read_as);
}

#[test]
fn what_is_written_is_told_by_its_name() {
    for format in DatasetFormat::ALL {
        assert_eq!(DatasetFormat::of_name(&name_of(*format)), Some(*format));
        let bytes = dataset().export(*format, ColumnSet::Reverie).unwrap();
        assert_eq!(DatasetFormat::of_file(&name_of(*format), &bytes), *format);
    }
}

#[test]
fn what_can_be_changed_in_place_is_read_back_without_loss() {
    for format in DatasetFormat::ALL.iter().copied().filter(|format| format.can_be_changed_in_place()) {
        let name = name_of(format);
        let bytes = dataset().export(format, ColumnSet::Reverie).unwrap();
        assert_eq!(import(&name, &bytes), Ok(dataset()), "{format:?}");
        let mut file = DatasetFile::read(&name, &bytes).unwrap();
        file.dataset.questions[1].review = Some(Review::Accepted);
        let changed = file.to_bytes().unwrap();
        assert_eq!(import(&name, &changed), Ok(file.dataset.clone()), "{format:?}");
        let again = DatasetFile::read(&name, &changed).unwrap();
        assert_eq!(again.to_bytes().unwrap(), changed, "{format:?}");
    }
}

#[test]
fn a_format_that_is_only_written_says_so_where_it_is_read() {
    for format in DatasetFormat::ALL.iter().copied().filter(|format| format.file().read_as.is_empty()) {
        let bytes = dataset().export(format, ColumnSet::Reverie).unwrap();
        for holds in [FileContent::Questions, FileContent::Other] {
            let (rows, faults) = (format.file().read)(&name_of(format), &bytes, holds);
            assert!(
                rows.is_empty() && faults.len() == 1 && faults[0].to_string().contains(format.file().title),
                "{faults:?}"
            );
        }
    }
}

#[test]
fn formats_are_told_in_a_row() {
    assert_eq!(DatasetFormat::of_editable_name("a.parquet"), None);
    for format in DatasetFormat::ALL {
        assert!(DatasetFormat::all().endings().contains(&format!(".{}", format.file().written_as[0])));
        assert!(DatasetFormat::all().titles().contains(format.file().title));
    }
    let words =
        |words: &[&str]| crate::words::alternatives(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    assert_eq!(
        (words(&["a"]), words(&["a", "b"]), words(&["a", "b", "c"])),
        ("a".into(), "a or b".into(), "a, b or c".into())
    );
}

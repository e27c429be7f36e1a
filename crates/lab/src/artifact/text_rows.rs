//! The texts of a table whose kind is not known: for callers that look for words or for documents in any table.

use super::batches;
use crate::Error;
use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::Schema;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

/// What the rows of a table are about, by its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableSubject {
    /// The files of a corpus.
    Documents,
    /// Pieces of documents: chunks, and what is searched in their place.
    Pieces,
    /// Questions: passages, answers, scores, queries, replies.
    Questions,
    /// Nothing that has a name: vectors.
    Numbers,
}

impl TableSubject {
    fn of(schema: &Schema) -> Self {
        let has = |name: &str| schema.column_with_name(name).is_some();
        if has("question") {
            Self::Questions
        } else if has("path") && has("content") {
            Self::Documents
        } else if has("document") {
            Self::Pieces
        } else {
            Self::Numbers
        }
    }
}

/// What the rows of a table are about, of which only the columns are read.
///
/// # Errors
/// If the file is damaged.
pub(crate) fn table_subject(bytes: &Bytes) -> Result<TableSubject, Error> {
    let metadata = ArrowReaderMetadata::load(bytes, ArrowReaderOptions::new()).map_err(Error::table)?;
    Ok(TableSubject::of(metadata.schema()))
}

/// A row of a table.
pub(crate) struct TextRow<'a> {
    batch: &'a RecordBatch,
    row: usize,
}

impl TextRow<'_> {
    /// The text in a column; none if there is no such column, or no text in it.
    pub(crate) fn text(&self, column: &str) -> Option<&str> {
        value(self.batch.column_by_name(column)?, self.row)
    }

    /// All texts of the row.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.batch.columns().iter().filter_map(|column| value(column, self.row))
    }
}

fn value(column: &dyn Array, row: usize) -> Option<&str> {
    let texts: &StringArray = column.as_any().downcast_ref()?;
    (!texts.is_null(row)).then(|| texts.value(row))
}

/// Shows every row of a table that has texts, and returns what the rows are about.
///
/// # Errors
/// If the file is damaged.
pub(crate) fn text_rows(bytes: Bytes, mut each: impl FnMut(TableSubject, &TextRow<'_>)) -> Result<TableSubject, Error> {
    let mut found = TableSubject::Numbers;
    for batch in batches(bytes)? {
        let batch = batch?;
        found = TableSubject::of(&batch.schema());
        if found == TableSubject::Numbers {
            break;
        }
        (0..batch.num_rows()).for_each(|row| each(found, &TextRow { batch: &batch, row }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::{DocumentRow, PassageRow, encode, encode_vectors};
    use rag::{Chunk, Passage};

    fn passage() -> PassageRow {
        let passage = Passage::of_text("a.md".to_owned(), "otters swim".to_owned());
        PassageRow { question: "q".to_owned(), rank: 1, passage: Some(passage), remarks: Vec::new() }
    }

    #[test]
    fn the_subject_of_a_table_is_known_by_its_columns() {
        let subject = |bytes: Bytes| {
            let subject = table_subject(&bytes).unwrap();
            assert_eq!(text_rows(bytes, |_, _| {}).unwrap(), subject);
            subject
        };
        let rejected = rag::load::Rejected {
            path: "a.md".to_owned(),
            reason: rag::load::LoadError::Unreadable("it is empty".to_owned()),
        };
        assert_eq!(subject(encode(&[DocumentRow::Rejected(rejected)]).unwrap()), TableSubject::Documents);
        let chunk = Chunk { document: "a.md".to_owned(), ..Chunk::default() };
        assert_eq!(subject(encode(&[chunk]).unwrap()), TableSubject::Pieces);
        assert_eq!(subject(encode(&[passage()]).unwrap()), TableSubject::Questions);
        let vectors = models::Matrix { columns: 2, data: vec![0.0; 4] };
        assert_eq!(subject(encode_vectors(&vectors).unwrap()), TableSubject::Numbers);
        let cut = Bytes::from_static(b"cut");
        assert!(table_subject(&cut).is_err() && text_rows(cut, |_, _| {}).is_err());
    }

    #[test]
    fn a_row_gives_one_text_or_all() {
        let (mut rows, mut all) = (Vec::new(), Vec::new());
        text_rows(encode(&[passage()]).unwrap(), |_, row| {
            rows.push(
                [row.text("document"), row.text("heading"), row.text("none")].map(|text| text.map(str::to_owned)),
            );
            all.extend(row.texts().map(str::to_owned));
        })
        .unwrap();
        assert_eq!(rows, [[Some("a.md".to_owned()), None, None]]);
        assert!(all.contains(&"otters swim".to_owned()) && all.contains(&"q".to_owned()));
    }
}

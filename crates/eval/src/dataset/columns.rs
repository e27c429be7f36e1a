//! Reports on a file of questions: counts, and the columns that are not used, each
//! with a hint.

use super::cells::{is_blank, misspelled_name};
use super::{Dataset, fault::RowError, rows::FileRecord};
use crate::Question;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Columns with the words of the evidence: one quote or a list.
pub(super) const QUOTE: &[&str] = &["quote", "evidence_quote", "evidence_text"];
/// Columns with the document of those words.
pub(super) const DOCUMENT: &[&str] = &["document", "evidence_document"];

/// Common names of columns in other files, and the hint for each.
const ALIASES: &[(&str, &str)] = &[
    (
        "quotes context passage passages excerpt snippet citation chunk chunk_text source_text source_quote \
         supporting_text supporting_fact supporting_facts gold_context golden_context ground_truth_context \
         relevant_passage relevant_text reference_context",
        "if it holds the words of the evidence, name it `quote`",
    ),
    (
        "documents doc docs doc_name doc_id document_name document_id document_path source sources source_document \
         source_file file file_name filename path url",
        "if it names the document of the evidence, name it `document`, beside a column `quote` with the words there",
    ),
    (
        "expected expected_answer expected_output gold_answer golden_answer correct_answer answers reference_answer \
         target solution label",
        "if it holds the right answer, name it `reference`",
    ),
    ("query prompt input", "if it holds the question, name it `question`"),
    ("tag type category topic kind difficulty", "to group by it, name it `tags`"),
];

/// Columns of Ragas: unused in a golden dataset, but not misspelt.
const NO_MISSPELLING: &str = "answer response retrieved_contexts retrieved_context_ids reference_context_ids \
                              multi_responses rubrics rubric reference_topics metadata episode_done persona_name \
                              query_style query_length";

/// A column that is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredColumn {
    /// Its name.
    pub name: String,
    /// Rows with a value in it.
    pub rows: usize,
    /// Why it is not used, or the name under which it would be.
    pub hint: Option<String>,
}

/// Counts of a dataset, and the columns of its file that are not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetReport {
    /// All questions.
    pub questions: usize,
    /// Questions with a reference answer.
    pub with_reference: usize,
    /// Questions with evidence.
    pub with_evidence: usize,
    /// Answerable questions without evidence, whose retrieval cannot be scored.
    pub without_evidence: usize,
    /// Questions that the documents do not answer.
    pub unanswerable: usize,
    /// Columns that are not used.
    pub ignored_columns: Vec<IgnoredColumn>,
}

impl DatasetReport {
    /// Counts the questions of a dataset.
    pub fn of(dataset: &Dataset, ignored_columns: Vec<IgnoredColumn>) -> Self {
        let count = |holds: fn(&Question) -> bool| dataset.questions.iter().filter(|question| holds(question)).count();
        Self {
            questions: dataset.questions.len(),
            with_reference: count(|question| question.reference.is_some()),
            with_evidence: count(|question| !question.evidence.is_empty()),
            without_evidence: count(|question| question.answerable && question.evidence.is_empty()),
            unanswerable: count(|question| !question.answerable),
            ignored_columns,
        }
    }
}

/// Reports misspelt names of columns, columns that exclude each other, and a missing
/// question. A row may have one column of each group; the second group is the question.
pub(super) fn check(
    fields: &Map<String, Value>,
    groups: &[&[&str]; 5],
    others: &[&[&str]],
    number: usize,
    faults: &mut Vec<RowError>,
) {
    let known = groups.iter().chain(others).copied().flatten().copied();
    let known: Vec<&str> = known.chain(NO_MISSPELLING.split(' ')).collect();
    for column in fields.keys() {
        if let Some(near) = misspelled_name(column, &known) {
            faults.push(RowError::new(
                number,
                format!("has a column `{column}`: write `{near}`, or a less similar name"),
            ));
        }
    }
    if !groups[1].iter().any(|name| fields.contains_key(*name)) {
        faults.push(RowError::new(number, "has no column with the question: name it `question` or `user_input`"));
    }
    for names in groups {
        let given: Vec<&str> = names.iter().copied().filter(|name| fields.contains_key(*name)).collect();
        if let [first, second, ..] = given[..] {
            faults.push(RowError::new(number, format!("has both `{first}` and `{second}`: keep one")));
        }
    }
}

/// The columns of a file that are not used, in their order.
pub(super) fn ignored(
    rows: &[FileRecord],
    is_used: impl Fn(&str, &Map<String, Value>) -> bool,
    known: &[&str],
) -> Vec<IgnoredColumn> {
    let mut found: Vec<IgnoredColumn> = Vec::new();
    for row in rows {
        for (name, value) in &row.fields {
            if is_used(name, &row.fields) {
                continue;
            }
            let filled = usize::from(!is_blank(value));
            match found.iter_mut().find(|column| column.name == *name) {
                Some(column) => column.rows += filled,
                None => found.push(IgnoredColumn { name: name.clone(), rows: filled, hint: hint(name, known) }),
            }
        }
    }
    found
}

fn hint(name: &str, known: &[&str]) -> Option<String> {
    let plain = name.trim().to_lowercase().replace([' ', '-'], "_");
    let holds_name = |names: &str| names.split(' ').any(|name| name == plain);
    let by_alias = || ALIASES.iter().find(|(names, _)| holds_name(names)).map(|(_, hint)| (*hint).to_owned());
    let by_case = || known.iter().find(|known| **known == plain).map(|known| format!("name it `{known}` to use it"));
    let of_answers = || {
        holds_name("answer response retrieved_contexts contexts")
            .then(|| "a system's output is not part of a golden dataset".to_owned())
    };
    let near = || {
        let names: Vec<&str> = QUOTE.iter().chain(DOCUMENT).copied().collect();
        misspelled_name(&plain, &names).map(|near| format!("did you mean `{near}`?"))
    };
    // A document alone says nothing: evidence is words.
    let alone =
        || DOCUMENT.contains(&plain.as_str()).then(|| "it needs a column `quote` with the words there".to_owned());
    alone().or_else(of_answers).or_else(by_case).or_else(by_alias).or_else(near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Evidence;

    #[test]
    fn a_report_counts_each_question_by_what_it_has() {
        let evidence = vec![Evidence { document: "a.txt".into(), quote: "x".into(), span: None }];
        let questions = vec![
            Question { reference: Some("r".into()), evidence, ..Question::default() },
            Question { reference: Some("r".into()), ..Question::default() },
            Question { answerable: false, ..Question::default() },
        ];
        let expected = DatasetReport {
            questions: 3,
            with_reference: 2,
            with_evidence: 1,
            without_evidence: 1,
            unanswerable: 1,
            ignored_columns: Vec::new(),
        };
        assert_eq!(DatasetReport::of(&Dataset { questions }, Vec::new()), expected);
    }
}

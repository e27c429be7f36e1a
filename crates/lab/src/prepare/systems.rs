//! Checks the systems of an experiment before they are asked: their versions, and the answers that exist already.

use crate::{
    Session, answers_file, error_chain,
    number::counted,
    plan::{GivenReplies, ReplyContents, trial::identity_name, work::version_of},
    spec::{AnswersSpec, ReplySource, SystemSpec, SystemVersion},
    task::systems::context_of,
};
use eval::{
    Question,
    dataset::{AnsweredRow, is_numbered_id},
};
use models::Identity;
use rag::{
    Passage,
    system::{ReplyPassage, SystemConfig, SystemReply},
};
use std::collections::{BTreeMap, HashMap, HashSet};
use store::KeyBuilder;

/// The identity of each system that is asked, by the name of its identity. If the settings name an address for the
/// version, this asks there. A system whose version cannot be asked for is a mistake.
pub(super) async fn identities(session: &Session, mistakes: &mut Vec<String>) -> BTreeMap<String, Identity> {
    let mut identities = BTreeMap::new();
    for (name, spec) in &session.experiment.systems {
        let Some(config) = spec.asked() else { continue };
        match identity(session, name, spec, config).await {
            Ok(identity) => _ = identities.insert(identity_name(name), identity),
            Err(error) => mistakes.push(format!("systems.{name}: {}", error_chain(&error))),
        }
    }
    identities
}

async fn identity(
    session: &Session,
    name: &str,
    spec: &SystemSpec,
    config: &SystemConfig,
) -> Result<Identity, models::Error> {
    // Secrets and programs that are missing are found now.
    let base = &session.experiment.base;
    let system = config.build(&context_of((name, spec), "", session.context(), base))?;
    let version = match &spec.version {
        None => String::new(),
        Some(SystemVersion::Stated(version)) => version.clone(),
        Some(SystemVersion::Asked(source)) => system.ask_version(source).await?,
    };
    let cx = context_of((name, spec), &version, session.context(), base);
    let identity = config.settings().identity(&cx)?;
    debug_assert_eq!(version_of(&identity), version, "an identity holds the version");
    Ok(identity)
}

/// The answers that exist already, matched to the questions.
///
/// # Errors
/// All files that cannot be read or matched.
pub(crate) async fn given(
    session: &Session,
    questions: &[Question],
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, GivenReplies> {
    let mut given = BTreeMap::new();
    for (name, spec) in &session.experiment.systems {
        let ReplySource::Answers(AnswersSpec { path }) = &spec.source else { continue };
        let read = read_answers(session, path, questions).await;
        match read {
            Ok((replies, unmatched)) => {
                if unmatched > 0 {
                    let rows = counted(unmatched, "row");
                    let text = format!("systems.{name}: {path} has {rows} about no question of the dataset");
                    session.setup().control.progress.warn(text);
                }
                given.insert(name.clone(), replies);
            }
            Err(reasons) => mistakes.extend(reasons.into_iter().map(|reason| format!("systems.{name}: {reason}"))),
        }
    }
    given
}

/// The answers of a file, and the number of its rows that are about no question.
async fn read_answers(
    session: &Session,
    path: &str,
    questions: &[Question],
) -> Result<(GivenReplies, usize), Vec<String>> {
    let file = session.experiment.path(path);
    let bytes = tokio::fs::read(&file).await.map_err(|error| vec![format!("{}: {error}", file.display())])?;
    let rows = answers_file::read(path, bytes, &[])?;
    let matched = match_rows(&rows, questions)?;
    let unmatched = rows.len() - matched.iter().flatten().count();
    let replies: Vec<Option<SystemReply>> = matched.into_iter().map(|row| Some(reply(row?))).collect();
    let any = |holds: fn(&SystemReply) -> bool| replies.iter().flatten().any(holds);
    let contents =
        ReplyContents { answers: any(|reply| reply.answer.is_some()), passages: any(|reply| reply.passages.is_some()) };
    if !contents.answers && !contents.passages {
        return Err(vec![format!("{path}: no row has an answer or passages for a question of the dataset")]);
    }
    let digest = KeyBuilder::new("answers").field("replies", &replies).finish();
    Ok((GivenReplies { digest, replies, contents }, unmatched))
}

/// The row of each question: by its id if the rows have ids and any of them is that of a question, else by its text.
fn match_rows<'a>(
    rows: &'a [AnsweredRow],
    questions: &[Question],
) -> Result<Vec<Option<&'a AnsweredRow>>, Vec<String>> {
    let ids: HashMap<&str, &AnsweredRow> = rows
        .iter()
        .filter(|row| !is_numbered_id(&row.question.id, row.line))
        .map(|row| (row.question.id.as_str(), row))
        .collect();
    if questions.iter().any(|question| ids.contains_key(question.id.as_str())) {
        let mut mistakes = Vec::new();
        for question in questions {
            let Some(row) = ids.get(question.id.as_str()) else { continue };
            let (asked, answered) = (folded(&question.question), folded(&row.question.question));
            if !answered.is_empty() && asked != answered {
                mistakes.push(format!(
                    "line {}: the id `{}` stands for “{}” in the dataset and for “{}” in the file",
                    row.line, question.id, question.question, row.question.question
                ));
            }
        }
        let by_id = || questions.iter().map(|question| ids.get(question.id.as_str()).copied()).collect();
        return if mistakes.is_empty() { Ok(by_id()) } else { Err(mistakes) };
    }
    let mut by_text: HashMap<String, &AnsweredRow> = HashMap::new();
    let asked: HashSet<String> = questions.iter().map(|question| folded(&question.question)).collect();
    let mut mistakes = Vec::new();
    for row in rows {
        let text = folded(&row.question.question);
        if let Some(earlier) = by_text.insert(text.clone(), row).filter(|_| asked.contains(&text)) {
            mistakes.push(format!(
                "lines {} and {} both answer “{}”: give each row the `id` of its question",
                earlier.line, row.line, row.question.question
            ));
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let found: Vec<Option<&AnsweredRow>> =
        questions.iter().map(|question| by_text.get(&folded(&question.question)).copied()).collect();
    if found.iter().all(Option::is_none) {
        return Err(vec![
            "no row is about a question of the dataset: rows are matched by `id`, else by the text of the question"
                .to_owned(),
        ]);
    }
    Ok(found)
}

/// A text without differences of white space.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A row as the reply of a system. What it cost is not known.
fn reply(row: &AnsweredRow) -> SystemReply {
    let passage = |passage: &Passage| ReplyPassage {
        text: passage.text.clone(),
        document: Some(passage.document.clone()).filter(|document| !document.is_empty()),
        page: passage.page,
        ..ReplyPassage::default()
    };
    SystemReply {
        answer: row.answer.as_ref().map(|answer| answer.text.clone()),
        passages: row.passages.as_ref().map(|passages| passages.iter().map(passage).collect()),
        ..SystemReply::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: usize, id: &str, question: &str) -> AnsweredRow {
        let question = Question { id: id.to_owned(), question: question.to_owned(), ..Question::default() };
        AnsweredRow { line, question, passages: None, answer: None, columns: serde_json::Map::new() }
    }

    fn lines(rows: &[AnsweredRow], asked: &[(&str, &str)]) -> Result<Vec<Option<usize>>, Vec<String>> {
        let questions: Vec<Question> = asked.iter().map(|(id, text)| row(0, id, text).question).collect();
        match_rows(rows, &questions).map(|found| found.into_iter().map(|row| Some(row?.line)).collect())
    }

    #[test]
    fn rows_are_matched_by_their_ids_if_any_is_that_of_a_question_else_by_text() {
        let asked = [("q1", "What is A?"), ("q2", "What is B?")];
        let by_id = [row(1, "q2", "What is B?"), row(2, "q1", ""), row(3, "q9", "Else?")];
        assert_eq!(lines(&by_id, &asked), Ok(vec![Some(2), Some(1)]));
        let by_text = [row(1, "line-1", "What  is B?"), row(2, "line-2", "Else?")];
        assert_eq!(lines(&by_text, &asked), Ok(vec![None, Some(1)]));
    }

    #[test]
    fn rows_that_contradict_the_dataset_or_each_other_are_mistakes() {
        let asked = [("q1", "What is A?"), ("q2", "What is B?")];
        let other = lines(&[row(4, "q1", "What is B?")], &asked).unwrap_err();
        assert!(other[0].contains("line 4") && other[0].contains("What is A?"), "{other:?}");
        let twice = [row(1, "line-1", "What is A?"), row(2, "line-2", "What is A?")];
        assert!(lines(&twice, &asked).unwrap_err()[0].starts_with("lines 1 and 2 both answer"));
        assert!(lines(&[row(1, "line-1", "Else?")], &asked).unwrap_err()[0].starts_with("no row is about"));
    }
}

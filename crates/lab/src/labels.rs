//! What people say of the verdicts of judges: right or wrong.
//!
//! Each label is a line of a log beside the golden questions (`judge.labels.jsonl`), with the labelled case that it makes:
//! the texts that the judge compared, and the right verdict. `reverie judge` tries judges on these cases. Of each person,
//! the last label of a case counts.

use crate::{
    Error, RunRecord, Session, append_log::AppendLog, clock::now_ms, record::experiment_of, spec::Experiment,
    steering::person_name, votes::beside_questions,
};
use eval::{
    MetricConfig,
    metric::Sample,
    statistics::Agreement,
    verdict::{Case, VerdictKind},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const SEED: u64 = 0x1ABE;

/// What one judge said about a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeVote {
    /// The judge's name in the experiment.
    pub judge: String,
    /// Its verdict.
    pub verdict: bool,
}

/// A label in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelLine {
    /// Its number in the log, from 1.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who labelled.
    pub by: String,
    /// The run.
    pub run: String,
    /// The question's id.
    pub question: String,
    /// The trial whose score it was.
    pub trial: String,
    /// The metric.
    pub metric: String,
    /// The list of verdicts in the detail of the score.
    pub list: String,
    /// The place in the list, from 0.
    pub item: usize,
    /// Whether the verdict is right, as this person sees it.
    pub is_right: bool,
    /// What the judges said.
    pub said: Vec<JudgeVote>,
    /// The case, with the label of this person.
    pub case: Case,
}

/// A label as a page sends it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelRequest {
    /// Who labels, if no key says that.
    #[serde(default)]
    pub by: Option<String>,
    /// The run.
    pub run: String,
    /// The question's id.
    pub question: String,
    /// The trial.
    pub trial: String,
    /// The metric.
    pub metric: String,
    /// The list of verdicts in the detail of the score.
    pub list: String,
    /// The place in the list, from 0.
    pub item: usize,
    /// Whether the verdict is right.
    pub is_right: bool,
}

/// A label as a page shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerdictLabel {
    /// The question's id.
    pub question: String,
    /// The trial.
    pub trial: String,
    /// The metric.
    pub metric: String,
    /// The list of verdicts.
    pub list: String,
    /// The place in the list, from 0.
    pub item: usize,
    /// Who labelled.
    pub by: String,
    /// Whether the verdict is right, as this person sees it.
    pub is_right: bool,
}

/// How far people agree with a judge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgeAgreement {
    /// The judge.
    pub judge: String,
    /// The labels that count: one for each person and case.
    pub labels: usize,
    /// How far its verdicts are those of people.
    pub agreement: Option<Agreement>,
}

/// The labels of a question, and what can be labelled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuestionLabels {
    /// The file of the labels.
    pub log: String,
    /// By metric: the lists of verdicts that can become labelled cases.
    pub lists: BTreeMap<String, Vec<&'static str>>,
    /// The last label of each person on each verdict.
    pub labels: Vec<VerdictLabel>,
    /// How far people agree with each judge, over all labels of the log.
    pub judges: Vec<JudgeAgreement>,
}

/// Why a label was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// There is no such verdict.
    #[error("{0}")]
    Invalid(String),
    /// The log or the results cannot be read or written.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// The labels of a log. Threads share it.
pub struct LabelDesk {
    state: Mutex<LabelLog>,
}

struct LabelLog {
    log: AppendLog,
    lines: Vec<LabelLine>,
}

/// The file of the labels of an experiment, beside its golden questions or the experiment file.
pub fn labels_path(experiment: &Experiment) -> PathBuf {
    beside_questions(experiment, "judge.labels.jsonl")
}

/// The cases of a log of labels, each once: with the label that most people gave. Cases on which as many people say yes as
/// no are left out. None if there is no log.
///
/// # Errors
/// If the log cannot be read.
pub fn labelled_cases(log: &Path) -> Result<Vec<Case>, Error> {
    Ok(cases_of(&AppendLog::new(log.to_owned()).new_lines()?))
}

/// What a case is about, without its label.
type CaseTexts<'a> = (VerdictKind, &'a str, &'a str, &'a str);

fn texts(case: &Case) -> CaseTexts<'_> {
    (case.kind, &case.question, &case.against, &case.item)
}

fn cases_of(lines: &[LabelLine]) -> Vec<Case> {
    // The cases in the order of their first label, and the last label of each person.
    let mut order: Vec<&Case> = Vec::new();
    let mut labels: BTreeMap<CaseTexts<'_>, BTreeMap<&str, bool>> = BTreeMap::new();
    for line in lines {
        let people = labels.entry(texts(&line.case)).or_default();
        if people.is_empty() {
            order.push(&line.case);
        }
        people.insert(&line.by, line.case.label);
    }
    let majority = |case: &&Case| {
        let people = labels.get(&texts(case))?;
        let yes = people.values().filter(|label| **label).count();
        let no = people.len() - yes;
        (yes != no).then(|| Case { label: yes > no, ..(*case).clone() })
    };
    order.iter().filter_map(majority).collect()
}

/// By person and case: the label of the person, and the verdict of the judge.
type LabelsOfJudge<'a> = BTreeMap<(&'a str, CaseTexts<'a>), (bool, bool)>;

/// How far people agree with each judge. Of each person, the last label of a case counts.
fn agreements(lines: &[LabelLine]) -> Vec<JudgeAgreement> {
    let mut by_judge: BTreeMap<&str, LabelsOfJudge<'_>> = BTreeMap::new();
    for line in lines {
        for JudgeVote { judge, verdict } in &line.said {
            let pairs = by_judge.entry(judge).or_default();
            pairs.insert((&line.by, texts(&line.case)), (line.case.label, *verdict));
        }
    }
    let word = |is_yes: bool| if is_yes { "yes" } else { "no" }.to_owned();
    let found = by_judge.into_iter().map(|(judge, pairs)| {
        let pairs: Vec<(String, String)> =
            pairs.into_values().map(|(person, judge)| (word(person), word(judge))).collect();
        JudgeAgreement { judge: judge.to_owned(), labels: pairs.len(), agreement: Agreement::of(&pairs, SEED) }
    });
    found.collect()
}

/// The last label of each person on each verdict of a run's question.
fn labels_of(lines: &[LabelLine], run: &str, question: &str) -> Vec<VerdictLabel> {
    let mut last = BTreeMap::new();
    for line in lines.iter().filter(|line| line.run == run && line.question == question) {
        let place = (&line.trial, &line.metric, &line.list, line.item, &line.by);
        last.insert(place, line.is_right);
    }
    let label = |((trial, metric, list, item, by), is_right): ((&String, &String, &String, usize, &String), bool)| {
        VerdictLabel {
            question: question.to_owned(),
            trial: trial.clone(),
            metric: metric.clone(),
            list: list.clone(),
            item,
            by: by.clone(),
            is_right,
        }
    };
    last.into_iter().map(label).collect()
}

impl LabelDesk {
    /// The labels of a log, which may not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Self { state: Mutex::new(LabelLog { log: AppendLog::new(path), lines: Vec::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, LabelLog> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The labels of a question of a run, and what can be labelled.
    ///
    /// # Errors
    /// If the log cannot be read, or this version does not understand the run's experiment.
    pub fn of_question(&self, session: &Session, record: &RunRecord, question: &str) -> Result<QuestionLabels, Error> {
        let experiment = experiment_of(&session.experiment, record)?;
        let listed = |metric: &MetricConfig| (metric.label(), metric.judged_lists());
        let lists = experiment.evaluate.metrics.iter().map(listed).filter(|(_, lists)| !lists.is_empty());
        let (log, lines) = {
            let mut state = self.lock();
            let new = state.log.new_lines()?;
            state.lines.extend(new);
            (state.log.path().display().to_string(), state.lines.clone())
        };
        // Nobody who labels waits for this.
        Ok(QuestionLabels {
            log,
            lists: lists.collect(),
            labels: labels_of(&lines, record.id(), question),
            judges: agreements(&lines),
        })
    }

    /// Records a label. When this returns, it is on the disk.
    ///
    /// # Errors
    /// Why it was not recorded.
    pub async fn label(
        self: &Arc<Self>,
        session: &Session,
        record: &RunRecord,
        by: &str,
        request: LabelRequest,
    ) -> Result<LabelLine, LabelError> {
        let by = person_name(by).map_err(LabelError::Invalid)?;
        let line = judged_line(session, record, by, request).await?;
        let desk = Arc::clone(self);
        tokio::task::spawn_blocking(move || desk.append(line)).await.map_err(Error::table)?
    }

    fn append(&self, line: LabelLine) -> Result<LabelLine, LabelError> {
        let mut state = self.lock();
        let LabelLog { log, lines } = &mut *state;
        let line = log.append(|new| {
            lines.extend(new);
            let last = lines.iter().map(|line| line.number).max().unwrap_or_default();
            Ok::<_, LabelError>(LabelLine { number: last + 1, ..line })
        })?;
        lines.push(line.clone());
        Ok(line)
    }
}

/// The line of a label, with the texts of the run.
async fn judged_line(
    session: &Session,
    record: &RunRecord,
    by: String,
    request: LabelRequest,
) -> Result<LabelLine, LabelError> {
    let LabelRequest { question, trial, metric, list, item, is_right, .. } = request;
    let absent = || {
        LabelError::Invalid(format!(
            "`{metric}` of {trial} for `{question}` has no verdict {} in `{list}` that can be labelled",
            item + 1
        ))
    };
    let experiment = experiment_of(&session.experiment, record)?;
    let config = experiment.evaluate.metrics.iter().find(|known| known.label() == metric).ok_or_else(absent)?;
    let golden = record.question_of(&trial, &question).ok_or_else(absent)?;
    let results = record.results_with_rows_of(session, &trial).await?;
    let row = results.trial(&trial)?.questions.iter().find(|row| row.question == question).ok_or_else(absent)?;
    let scored = row.scores.get(&metric).ok_or_else(absent)?;
    let sample = Sample { question: &golden, passages: &row.passages, answer: row.answer.as_ref(), columns: None };
    let judged = config.judged_item(&sample, &scored.detail, &list, item).ok_or_else(absent)?;
    let mut case = judged.case;
    let verdict = case.label;
    let mut said: Vec<JudgeVote> =
        judged.votes.into_iter().map(|(judge, verdict)| JudgeVote { judge, verdict }).collect();
    if said.is_empty() {
        said.extend(experiment.evaluate.judges.first().map(|judge| JudgeVote { judge: judge.clone(), verdict }));
    }
    case.label = verdict == is_right;
    Ok(LabelLine {
        number: 0,
        time_ms: now_ms(),
        by,
        run: record.id().to_owned(),
        question,
        trial,
        metric,
        list,
        item,
        is_right,
        said,
        case,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(by: &str, item: &str, is_right: bool, judged: bool) -> LabelLine {
        LabelLine {
            number: 0,
            time_ms: 1,
            by: by.to_owned(),
            run: "zoo-1".to_owned(),
            question: "a".to_owned(),
            trial: "t01".to_owned(),
            metric: "faithfulness".to_owned(),
            list: "statements".to_owned(),
            item: 0,
            is_right,
            said: vec![JudgeVote { judge: "qwen".to_owned(), verdict: judged }],
            case: Case {
                kind: VerdictKind::Supported,
                question: "Who?".to_owned(),
                against: "Nobody.".to_owned(),
                item: item.to_owned(),
                label: judged == is_right,
            },
        }
    }

    #[test]
    fn a_label_is_on_the_disk_before_it_is_confirmed_and_two_programs_lose_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("judge.labels.jsonl");
        assert_eq!(labelled_cases(&path).unwrap(), []);
        let desks = [LabelDesk::new(path.clone()), LabelDesk::new(path.clone())];
        for (number, desk) in desks.iter().cycle().take(6).enumerate() {
            let written = desk.append(line("Ann", &format!("s{number}"), true, true)).unwrap();
            assert_eq!(written.number, number as u64 + 1);
            assert_eq!(labelled_cases(&path).unwrap().len(), number + 1);
        }
    }

    #[test]
    fn a_case_has_the_label_of_most_people_and_the_last_one_of_each() {
        let lines = [
            line("Ann", "x", true, true),
            line("Ben", "x", false, true),
            line("Cem", "x", true, true),
            line("Cem", "x", false, true),
            line("Ann", "y", true, false),
            line("Ben", "y", false, false),
            line("Ann", "z", true, false),
        ];
        let cases = cases_of(&lines);
        let found: Vec<(&str, bool)> = cases.iter().map(|case| (case.item.as_str(), case.label)).collect();
        assert_eq!(found, [("x", false), ("z", false)], "on y as many say yes as no");
        // The lines are what `reverie judge --cases` reads.
        let text = serde_json::to_string(&cases[0]).unwrap();
        assert_eq!(serde_json::from_str::<Case>(&text).unwrap(), cases[0]);
    }

    #[test]
    fn people_agree_with_a_judge_as_often_as_they_call_it_right() {
        let mut lines: Vec<LabelLine> = (0..8).map(|i| line("Ann", &format!("s{i}"), i > 1, i % 2 == 0)).collect();
        lines.push(line("Ann", "s7", false, false));
        lines.push(line("Ann", "s7", true, false));
        let found = agreements(&lines);
        assert_eq!((found.len(), found[0].judge.as_str(), found[0].labels), (1, "qwen", 8));
        let agreement = found[0].agreement.as_ref().unwrap();
        assert!((agreement.observed - 0.75).abs() < 1e-12);
        assert!(agreement.kappa.is_some());
    }

    #[test]
    fn a_page_is_shown_the_last_label_of_each_person_on_each_verdict() {
        let lines = [line("Ann", "x", true, true), line("Ann", "x", false, true), line("Ben", "x", true, true)];
        let found = labels_of(&lines, "zoo-1", "a");
        assert_eq!(
            found.iter().map(|label| (label.by.as_str(), label.is_right)).collect::<Vec<_>>(),
            [("Ann", false), ("Ben", true)]
        );
        assert_eq!(labels_of(&lines, "zoo-2", "a"), []);
        assert_eq!(labels_of(&lines, "zoo-1", "b"), []);
    }
}

//! The data of the report page: an overview, which is always in the page, and
//! parts that are loaded when they are looked at.
//!
//! - `trial-3`: the scores of the fourth trial of the leaderboard, a list for
//!   each metric in the order of the questions.
//! - `questions-3`: some questions that follow each other, with what every trial
//!   found and answered.
//! - `passages-3`: some passages. Each passage is held once for all trials,
//!   and passages are in the order of the documents, so that those of one
//!   question are close together.
//! - `page-3`: a page of a document as a picture.

use super::{DATA_VERSION, EvidencePage, meanings::meanings};
use base64::{Engine, engine::general_purpose::STANDARD};
use eval::{Question, Score, statistics::seriation};
use lab::{Board, Difference, LossStep, MetricResult, QuestionLoss, QuestionResult, Results, TrialResult};
use rag::{Answer, Passage, query::SearchQuery};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    mem::take,
};

/// A part of questions ends when it has more bytes than this.
const QUESTIONS_BYTES: usize = 256 << 10;
/// The same for passages; of each part, a question needs only a few.
const PASSAGES_BYTES: usize = 128 << 10;

/// What the page needs to be opened.
#[derive(Serialize)]
pub(crate) struct ReportOverview<'a> {
    data_version: u32,
    pub(super) board: Board,
    /// The title of each group of trials.
    group_titles: Vec<String>,
    /// What columns mean, by their kind and name.
    meanings: BTreeMap<String, String>,
    metrics: &'a [MetricResult],
    /// All steps at which a question can end, in the order of the pipeline. Empty if no trial has losses, as in
    /// runs of earlier versions.
    loss_steps: Vec<LossStepWords>,
    /// The part with every trial's score at every question; none if nothing was scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    matrix: Option<&'static str>,
    questions: Vec<QuestionSummary<'a>>,
    /// By trial: its difference from the leading trial.
    differences: Vec<Option<Difference>>,
    /// The first question of each part of questions.
    question_parts: Vec<usize>,
    /// The first passage of each part of passages.
    passage_parts: Vec<usize>,
    /// The pages that are here as pictures, in the order of their parts.
    #[serde(skip_serializing_if = "<[EvidencePage]>::is_empty")]
    pub(super) pages: &'a [EvidencePage],
    /// The folder of the parts; none if they are in the page.
    pub(super) folder: Option<&'a str>,
    /// The stamp of the parts; `None` if there are no parts.
    pub(crate) stamp: Option<String>,
}

/// A [`LossStep`] with the words that the page shows for it.
#[derive(Serialize)]
struct LossStepWords {
    name: &'static str,
    title: &'static str,
    meaning: &'static str,
    is_loss: bool,
}

/// A question in a list.
#[derive(Serialize)]
struct QuestionSummary<'a> {
    id: &'a str,
    question: &'a str,
    answerable: bool,
}

/// The data of a trial.
#[derive(Serialize)]
struct TrialPart {
    /// By question: its contribution to the objective, from 0 to 1.
    objective: Vec<Option<f32>>,
    /// By metric and question.
    scores: Vec<Vec<Option<f32>>>,
    /// By metric: the questions without a score, by the reason.
    missing: Vec<BTreeMap<String, Vec<usize>>>,
    /// By question: the number of its [`AnswerState`].
    answers: Vec<u8>,
    /// By question: the step at which it ended, as an index into [`ReportOverview::loss_steps`].
    /// Empty if it is not known for any question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    losses: Vec<Option<usize>>,
}

/// The name of the part that holds a [`MatrixPart`].
const MATRIX: &str = "matrix";
/// The byte of a question for which a trial has no score.
const NO_SCORE: u8 = 255;

/// Every trial's contribution to the objective at every question, and the orders that show clusters.
#[derive(Serialize)]
struct MatrixPart {
    /// Places of trials on the leaderboard.
    trial_order: Vec<usize>,
    /// Places of questions in the dataset.
    question_order: Vec<usize>,
    /// Base64 of a byte for each trial and question, trial by trial: 0 to 254 for 0 to 1, or [`NO_SCORE`].
    values: String,
}

impl MatrixPart {
    /// None without trials or without scores.
    fn of(results: &Results, contributions: &BTreeMap<String, Vec<Option<f64>>>) -> Option<Self> {
        let questions = results.questions.len();
        // Results that a program wrote may lack the last questions of a trial.
        let scores = |trial: &TrialResult| {
            let known = contributions.get(&trial.trial.id).into_iter().flatten().copied();
            known.chain(std::iter::repeat(None)).take(questions).collect()
        };
        let rows: Vec<Vec<Option<f64>>> = results.trials.iter().map(scores).collect();
        if rows.iter().flatten().all(Option::is_none) {
            return None;
        }
        let byte = |score: &Option<f64>| score.map_or(NO_SCORE, |score| (score.clamp(0.0, 1.0) * 254.0).round() as u8);
        let values: Vec<u8> = rows.iter().flatten().map(byte).collect();
        let (trial_order, question_order) = seriation(&rows);
        Some(Self { trial_order, question_order, values: STANDARD.encode(values) })
    }
}

/// The state of a trial's answer to a question.
#[derive(Clone, Copy)]
enum AnswerState {
    NotAsked = 0,
    Answered = 1,
    Failed = 2,
}

/// The data of a question.
#[derive(Serialize)]
struct QuestionPart<'a> {
    golden: &'a Question,
    /// The distinct lists of passages that trials found: the index of each passage, and
    /// its score.
    lists: Vec<&'a [(usize, f32)]>,
    /// The distinct details of scores: many metrics and trials share them.
    details: Vec<&'a Value>,
    /// The distinct searches that components wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    searches: Vec<SearchRecord<'a>>,
    /// By trial, in the order of the leaderboard.
    trials: Vec<TrialOutcome<'a>>,
}

/// The queries for a question, why the query component fell back, and remarks of the
/// steps after the retriever.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Hash)]
struct SearchRecord<'a> {
    queries: &'a [SearchQuery],
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    remarks: &'a [String],
}

/// What a trial retrieved and answered for a question.
#[derive(Default, Serialize)]
struct TrialOutcome<'a> {
    /// The index of its list of passages.
    list: usize,
    /// The index of its search, if that is not the question alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// By metric: the index of the details of its score.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Option<usize>>,
    /// The contribution to the objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<f32>,
    /// The step at which this trial lost the question's evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<&'a QuestionLoss>,
}

/// A passage without its score.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct PassageText<'a> {
    document: &'a str,
    start: usize,
    end: usize,
    text: &'a str,
    page: Option<u32>,
    book: Option<&'a str>,
    heading: Option<&'a str>,
}

impl<'a> PassageText<'a> {
    fn of(passage: &'a Passage) -> Self {
        Self {
            document: &passage.document,
            start: passage.span.start,
            end: passage.span.end,
            text: &passage.text,
            page: passage.page,
            book: passage.book.as_deref(),
            heading: passage.heading.as_deref(),
        }
    }
}

/// JSON that is safe inside a script element.
pub(crate) struct ScriptJson(String);

impl ScriptJson {
    pub(super) fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        // `<` could end the script element, so it is written as an escape that
        // JSON knows too: retrieved text is data.
        let text = serde_json::to_string(value)?;
        Ok(Self(text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// The data of a page.
pub(crate) struct ReportContent<'a> {
    pub(crate) overview: ReportOverview<'a>,
    /// By name.
    pub(crate) parts: Vec<(String, ScriptJson)>,
}

impl<'a> ReportContent<'a> {
    pub(crate) fn of(results: &'a Results, pages: &'a [EvidencePage]) -> Result<Self, serde_json::Error> {
        let passages = PassageTable::of(results);
        let contributions = results.contributions(&BTreeMap::new());
        let mut parts = Vec::new();
        for (number, trial) in results.trials.iter().enumerate() {
            let part = TrialPart::of(trial, &results.metrics, &contributions[&trial.trial.id]);
            parts.push((format!("trial-{number}"), ScriptJson::of(&part)?));
        }
        let mut packer = PartPacker::new("questions", QUESTIONS_BYTES);
        for number in 0..results.questions.len() {
            packer.add(question_part(results, number, &passages, &contributions)?);
        }
        let question_parts = packer.finish(&mut parts);
        let mut packer = PartPacker::new("passages", PASSAGES_BYTES);
        for text in &passages.all {
            packer.add(ScriptJson::of(text)?);
        }
        let passage_parts = packer.finish(&mut parts);
        for (number, page) in pages.iter().enumerate() {
            parts.push((format!("page-{number}"), ScriptJson::of(&page.picture)?));
        }
        let matrix = MatrixPart::of(results, &contributions);
        if let Some(matrix) = &matrix {
            parts.push((MATRIX.to_owned(), ScriptJson::of(matrix)?));
        }
        let overview = ReportOverview {
            loss_steps: loss_steps(results),
            matrix: matrix.map(|_| MATRIX),
            differences: results.differences(),
            questions: results.questions.iter().map(QuestionSummary::of).collect(),
            question_parts,
            passage_parts,
            pages,
            ..overview(Board::of(results), &results.metrics)
        };
        Ok(Self { overview, parts })
    }

    /// About how many bytes all parts have.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(|(_, json)| json.text().len()).sum()
    }
}

/// The data of a page with nothing but the plot.
pub(super) fn only_the_plot(results: &Results) -> ReportOverview<'_> {
    overview(
        Board { notes: Vec::new(), warnings: Vec::new(), rejected: Vec::new(), ..Board::of(results) },
        &results.metrics,
    )
}

fn overview(board: Board, metrics: &[MetricResult]) -> ReportOverview<'_> {
    ReportOverview {
        data_version: DATA_VERSION,
        group_titles: (1..=board.groups.len()).map(|group| board.group_title(group)).collect(),
        meanings: meanings(&board),
        board,
        metrics,
        loss_steps: Vec::new(),
        matrix: None,
        questions: Vec::new(),
        differences: Vec::new(),
        question_parts: Vec::new(),
        passage_parts: Vec::new(),
        pages: &[],
        folder: None,
        stamp: None,
    }
}

/// The words of all steps. Empty if no question of any trial has a loss.
fn loss_steps(results: &Results) -> Vec<LossStepWords> {
    let mut questions = results.trials.iter().flat_map(|trial| &trial.questions);
    if questions.all(|question| question.loss.is_none()) {
        return Vec::new();
    }
    let words = |step: &LossStep| {
        let (name, title, meaning, is_loss) = (step.name(), step.title(), step.meaning(), step.is_loss());
        LossStepWords { name, title, meaning, is_loss }
    };
    LossStep::ALL.iter().map(words).collect()
}

impl<'a> QuestionSummary<'a> {
    fn of(question: &'a Question) -> Self {
        Self { id: &question.id, question: &question.question, answerable: question.answerable }
    }
}

impl TrialPart {
    fn of(trial: &TrialResult, metrics: &[MetricResult], contributions: &[Option<f64>]) -> Self {
        let score = |question: &QuestionResult, metric: &MetricResult| {
            question.scores.get(&metric.name).and_then(|scored| scored.score.value()).map(|value| value as f32)
        };
        let loss = |question: &QuestionResult| {
            let step = question.loss.as_ref()?.step;
            LossStep::ALL.iter().position(|other| *other == step)
        };
        let losses: Vec<Option<usize>> = trial.questions.iter().map(loss).collect();
        let missing = |metric: &MetricResult| {
            let mut reasons: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for (number, question) in trial.questions.iter().enumerate() {
                if let Some(Score::Missing(missing)) = question.scores.get(&metric.name).map(|scored| &scored.score) {
                    reasons.entry(missing.to_string()).or_default().push(number);
                }
            }
            reasons
        };
        Self {
            objective: contributions.iter().map(|value| value.map(|value| value as f32)).collect(),
            scores: metrics
                .iter()
                .map(|metric| trial.questions.iter().map(|question| score(question, metric)).collect())
                .collect(),
            missing: metrics.iter().map(missing).collect(),
            answers: trial.questions.iter().map(|question| AnswerState::of(question) as u8).collect(),
            losses: if losses.iter().all(Option::is_none) { Vec::new() } else { losses },
        }
    }
}

impl AnswerState {
    fn of(question: &QuestionResult) -> Self {
        match (&question.answer, &question.error) {
            (Some(_), _) => Self::Answered,
            (None, Some(_)) => Self::Failed,
            (None, None) => Self::NotAsked,
        }
    }
}

fn question_part(
    results: &Results,
    number: usize,
    passages: &PassageTable<'_>,
    contributions: &BTreeMap<String, Vec<Option<f64>>>,
) -> Result<ScriptJson, serde_json::Error> {
    let mut lists: UniqueValues<Vec<(usize, u32)>> = UniqueValues::default();
    let mut details: UniqueValues<&Value> = UniqueValues::default();
    let mut searches: UniqueValues<SearchRecord<'_>> = UniqueValues::default();
    let mut trials = Vec::new();
    for trial in &results.trials {
        // Results that a program wrote may lack the last questions of a trial.
        let Some(question) = trial.questions.get(number) else {
            trials.push(TrialOutcome { list: lists.index_of(Vec::new()), ..TrialOutcome::default() });
            continue;
        };
        // The bits of a score can be compared and hashed.
        let list = question.passages.iter().map(|passage| (passages.index_of(passage), passage.score.to_bits()));
        let mut detail = |metric: &MetricResult| {
            let detail = question.scores.get(&metric.name).map(|scored| &scored.detail);
            detail.filter(|detail| !detail.is_null()).map(|detail| details.index_of(detail))
        };
        let mut trial_details: Vec<Option<usize>> = results.metrics.iter().map(&mut detail).collect();
        if trial_details.iter().all(Option::is_none) {
            trial_details.clear();
        }
        let (queries, remarks) = (&question.queries, &question.remarks);
        let search = SearchRecord { queries, fallback: question.query_fallback.as_deref(), remarks };
        let is_written = !queries.is_empty() || search.fallback.is_some() || !remarks.is_empty();
        trials.push(TrialOutcome {
            list: lists.index_of(list.collect()),
            search: is_written.then(|| searches.index_of(search)),
            answer: question.answer.as_ref(),
            error: question.error.as_deref(),
            details: trial_details,
            objective: contributions[&trial.trial.id][number].map(|value| value as f32),
            loss: question.loss.as_ref(),
        });
    }
    let with_scores = |list: Vec<(usize, u32)>| -> Vec<(usize, f32)> {
        list.into_iter().map(|(index, bits)| (index, f32::from_bits(bits))).collect()
    };
    let lists: Vec<Vec<(usize, f32)>> = lists.all().into_iter().map(with_scores).collect();
    ScriptJson::of(&QuestionPart {
        golden: &results.questions[number],
        lists: lists.iter().map(Vec::as_slice).collect(),
        details: details.all(),
        searches: searches.all(),
        trials,
    })
}

/// Distinct values, each with a number.
struct UniqueValues<T> {
    indexes: HashMap<T, usize>,
}

impl<T> Default for UniqueValues<T> {
    fn default() -> Self {
        Self { indexes: HashMap::new() }
    }
}

impl<T: std::hash::Hash + Eq> UniqueValues<T> {
    fn index_of(&mut self, value: T) -> usize {
        let next = self.indexes.len();
        *self.indexes.entry(value).or_insert(next)
    }

    fn all(self) -> Vec<T> {
        let mut all: Vec<(T, usize)> = self.indexes.into_iter().collect();
        all.sort_by_key(|(_, index)| *index);
        all.into_iter().map(|(value, _)| value).collect()
    }
}

/// All passages that any trial found for any question.
struct PassageTable<'a> {
    /// In the order of the documents.
    all: Vec<PassageText<'a>>,
    indexes: HashMap<PassageText<'a>, usize>,
}

impl<'a> PassageTable<'a> {
    fn of(results: &'a Results) -> Self {
        let passages = results.trials.iter().flat_map(|trial| &trial.questions).flat_map(|question| &question.passages);
        let mut indexes: HashMap<PassageText<'a>, usize> =
            passages.map(|passage| (PassageText::of(passage), 0)).collect();
        let mut all: Vec<PassageText<'a>> = indexes.keys().copied().collect();
        all.sort_unstable();
        for (index, text) in all.iter().enumerate() {
            indexes.insert(*text, index);
        }
        Self { all, indexes }
    }

    fn index_of(&self, passage: &Passage) -> usize {
        self.indexes[&PassageText::of(passage)]
    }
}

/// Puts JSON values into parts of about equal size.
struct PartPacker {
    kind: &'static str,
    most_bytes: usize,
    /// The values of the part that is being filled.
    open: String,
    /// How many values there are so far.
    values: usize,
    firsts: Vec<usize>,
    full: Vec<ScriptJson>,
}

impl PartPacker {
    fn new(kind: &'static str, most_bytes: usize) -> Self {
        Self { kind, most_bytes, open: String::new(), values: 0, firsts: Vec::new(), full: Vec::new() }
    }

    fn add(&mut self, value: ScriptJson) {
        if self.open.is_empty() {
            self.firsts.push(self.values);
        }
        self.open.push(if self.open.is_empty() { '[' } else { ',' });
        self.open.push_str(value.text());
        self.values += 1;
        if self.open.len() > self.most_bytes {
            self.close();
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.open.push(']');
            self.full.push(ScriptJson(take(&mut self.open)));
        }
    }

    /// Adds the parts to the others. Returns the number of the first value of each.
    fn finish(mut self, parts: &mut Vec<(String, ScriptJson)>) -> Vec<usize> {
        self.close();
        parts.extend(self.full.into_iter().enumerate().map(|(number, json)| (format!("{}-{number}", self.kind), json)));
        self.firsts
    }
}

//! Golden questions, reviewed by several people at once, from pages and terminals.
//!
//! A decision is a line of a log beside the dataset (`golden.reviews.jsonl`), flushed to the disk, before anybody hears that
//! it is made. The file of questions follows: [`ReviewDesk::write`] puts all decisions into it that are not there yet, and
//! notes that in the log. So a process that is killed loses no decision, and the next one that opens the dataset puts the
//! rest into the file. Programs on one machine may review one dataset: they take turns by a lock on the log, and read what
//! the others have added.

use crate::{Error, clock::now_ms, error_chain, files::write_whole, steering::recorded_name};
use eval::{
    Question,
    dataset::{DatasetFile, Evidence, Review},
    statistics::Agreement,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use store::Key;

/// The seed of the interval of the agreement.
const SEED: u64 = 0xA62E;
/// The longest text of a decision, in bytes.
const LONGEST_TEXT: usize = 64 << 10;

/// What a reviewer decides about a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// It stays as it is.
    Accept {},
    /// It stays, with changes. A field that is left out stays as it is.
    Edit {
        /// The question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// The reference answer; an empty text removes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// The evidence, all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Vec<Evidence>>,
        /// The labels.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tags: Option<Vec<String>>,
    },
    /// It leaves the dataset, and is kept among the rejected questions.
    Reject {},
    /// A rejected question comes back.
    Restore {},
    /// A remark, which changes nothing.
    Comment {
        /// The remark.
        text: String,
    },
}

impl Decision {
    /// Whether it says that the question is good or not, so that reviewers can agree about it.
    fn verdict(&self) -> Option<&'static str> {
        match self {
            Self::Accept {} | Self::Edit { .. } => Some("keep"),
            Self::Reject {} => Some("reject"),
            Self::Restore {} | Self::Comment { .. } => None,
        }
    }

    fn check(&self) -> Result<(), String> {
        let texts: Vec<&String> = match self {
            Self::Edit { question, reference, .. } => question.iter().chain(reference).collect(),
            Self::Comment { text } => vec![text],
            _ => Vec::new(),
        };
        if texts.iter().any(|text| text.len() > LONGEST_TEXT) {
            return Err(format!("a text has more than {LONGEST_TEXT} bytes"));
        }
        match self {
            Self::Edit { question: Some(question), .. } if question.trim().is_empty() => {
                Err("the question is empty".to_owned())
            }
            Self::Comment { text } if text.trim().is_empty() => Err("the remark is empty".to_owned()),
            _ => Ok(()),
        }
    }

    fn apply(&self, question: &mut Question) {
        match self {
            Self::Accept {} => question.accept(),
            Self::Edit { question: text, reference, evidence, tags } => {
                question.edit(text.as_deref().unwrap_or_default(), reference.as_deref().unwrap_or_default());
                if reference.as_ref().is_some_and(|reference| reference.trim().is_empty()) {
                    question.reference = None;
                }
                if let Some(evidence) = evidence {
                    question.evidence.clone_from(evidence);
                }
                if let Some(tags) = tags {
                    question.tags.clone_from(tags);
                }
            }
            Self::Reject {} | Self::Restore {} | Self::Comment { .. } => {}
        }
    }
}

/// A decision in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewLine {
    /// Its number in the log, from 1.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who decided.
    pub by: String,
    /// The question's id.
    pub question: String,
    /// What was decided.
    pub decision: Decision,
}

/// A line of the log: a decision, or that all decisions up to a number are in the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum LogLine {
    Decision(ReviewLine),
    Written { written: u64 },
}

/// A question that is being reviewed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReviewedQuestion {
    /// The question as it is now.
    pub question: Question,
    /// Whether it has left the dataset.
    pub is_rejected: bool,
    /// What was decided about it, in order.
    pub decisions: Vec<ReviewLine>,
}

/// Why a decision was not made.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// There is no such question.
    #[error("there is no question `{0}`")]
    NoQuestion(String),
    /// Somebody else has decided since the reviewer looked.
    #[error("{} has decided about `{}` in the meantime", .0.by, .0.question)]
    Overtaken(Box<ReviewLine>),
    /// What is decided cannot be.
    #[error("{0}")]
    Invalid(String),
    /// The file or the log cannot be written.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// How far reviewers agree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReviewerAgreement {
    /// Questions that two or more people have decided about.
    pub questions: usize,
    /// The agreement on keeping or rejecting a question, over all pairs of people; none without such a pair.
    pub agreement: Option<Agreement>,
    /// The questions about which they differ.
    pub conflicts: Vec<String>,
}

/// A dataset under review. Threads share it.
pub struct ReviewDesk {
    path: PathBuf,
    state: Mutex<ReviewLog>,
    /// The agreement after the decision of this number, about questions of this content.
    agreement: Mutex<Option<((u64, Key), ReviewerAgreement)>>,
}

struct ReviewLog {
    log: File,
    /// How many bytes of the log were read.
    read: u64,
    /// The number of the last decision.
    last: u64,
    /// Decisions up to this number are in the file of questions.
    written: u64,
    file: DatasetFile,
    /// The key of the file's content when it was read or written here.
    content: Key,
    questions: Vec<ReviewedQuestion>,
    by_id: HashMap<String, usize>,
}

impl ReviewDesk {
    /// Opens a dataset with the decisions that were made about it. Decisions that are not in the file yet are put there by
    /// the next [`ReviewDesk::write`].
    ///
    /// # Errors
    /// If the file or the log cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let log_path = log_path(path);
        let log = OpenOptions::new().read(true).append(true).create(true).open(&log_path);
        let log = log.map_err(|source| Error::file("open", &log_path, source))?;
        let (file, content, questions) = read_questions(path, &read_file(path)?)?;
        let mut state =
            ReviewLog { log, read: 0, last: 0, written: 0, file, content, by_id: index(&questions), questions };
        state.lock_log(&log_path)?;
        let caught_up = state.catch_up(&log_path);
        state.unlock_log();
        caught_up?;
        Ok(Self { path: path.to_owned(), state: Mutex::new(state), agreement: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, ReviewLog> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of questions.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a decision. When this returns, it is on the disk. `seen` is the number of the last decision about this question
    /// that the reviewer has seen (0 if none): if somebody else has decided since, nothing is done. None decides anyway.
    ///
    /// # Errors
    /// Why it was not made.
    pub fn decide(
        &self,
        by: &str,
        id: &str,
        decision: Decision,
        seen: Option<u64>,
    ) -> Result<ReviewLine, DecisionError> {
        decision.check().map_err(DecisionError::Invalid)?;
        let by = recorded_name(by.trim());
        if by.is_empty() {
            return Err(DecisionError::Invalid("say who decides".to_owned()));
        }
        let log_path = log_path(&self.path);
        let mut state = self.lock();
        state.lock_log(&log_path)?;
        let decided = state.catch_up(&log_path).map_err(DecisionError::from).and_then(|()| {
            state.check(&by, id, &decision, seen)?;
            let (number, question) = (state.last + 1, id.to_owned());
            let line = ReviewLine { number, time_ms: now_ms(), by, question, decision };
            state.append(&LogLine::Decision(line.clone()), &log_path)?;
            state.apply(line.clone());
            Ok(line)
        });
        state.unlock_log();
        decided
    }

    /// Puts all decisions into the file of questions, if some are not there yet. Returns how many were not.
    ///
    /// # Errors
    /// If a file cannot be read or written. The decisions stay in the log.
    pub fn write(&self) -> Result<u64, Error> {
        let log_path = log_path(&self.path);
        let mut state = self.lock();
        state.lock_log(&log_path)?;
        let written = state.catch_up(&log_path).and_then(|()| state.write(&self.path, &log_path));
        state.unlock_log();
        written
    }

    /// Reads what others have decided or changed since the last look. Returns whether that was anything.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn refresh(&self) -> Result<bool, Error> {
        let log_path = log_path(&self.path);
        let mut state = self.lock();
        let before = (state.last, state.content);
        state.lock_log(&log_path)?;
        let caught_up = state.catch_up(&log_path).and_then(|()| state.follow_file(&self.path));
        state.unlock_log();
        caught_up.map(|()| before != (state.last, state.content))
    }

    /// All questions, rejected ones too, in the order of the file.
    pub fn questions(&self) -> Vec<ReviewedQuestion> {
        self.lock().questions.clone()
    }

    /// One question.
    pub fn question(&self, id: &str) -> Option<ReviewedQuestion> {
        let state = self.lock();
        Some(state.questions[*state.by_id.get(id)?].clone())
    }

    /// Calls a function with each question, without copying them.
    pub fn for_each(&self, each: impl FnMut(&ReviewedQuestion)) {
        self.lock().questions.iter().for_each(each);
    }

    /// The number of the last decision.
    pub fn last(&self) -> u64 {
        self.lock().last
    }

    /// How far the reviewers agree. Of each person, the first decision about a question counts, because later ones may have
    /// been made after seeing those of others.
    pub fn agreement(&self) -> ReviewerAgreement {
        let mut known = self.agreement.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.lock();
        let version = (state.last, state.content);
        if let Some((of, agreement)) = &*known
            && *of == version
        {
            return agreement.clone();
        }
        let (mut pairs, mut conflicts, mut n) = (Vec::new(), Vec::new(), 0);
        for reviewed in &state.questions {
            let mut first: BTreeMap<&str, &'static str> = BTreeMap::new();
            for line in &reviewed.decisions {
                if let Some(verdict) = line.decision.verdict() {
                    first.entry(&line.by).or_insert(verdict);
                }
            }
            n += usize::from(first.len() > 1);
            let verdicts: Vec<&str> = first.values().copied().collect();
            for (place, one) in verdicts.iter().enumerate() {
                pairs.extend(verdicts[place + 1..].iter().map(|other| ((*one).to_owned(), (*other).to_owned())));
            }
            if verdicts.iter().collect::<BTreeSet<_>>().len() > 1 {
                conflicts.push(reviewed.question.id.clone());
            }
        }
        // Nobody who decides waits for the resamples.
        drop(state);
        let agreement = ReviewerAgreement { questions: n, agreement: Agreement::of(&pairs, SEED), conflicts };
        *known = Some((version, agreement.clone()));
        agreement
    }
}

impl ReviewLog {
    fn lock_log(&self, path: &Path) -> Result<(), Error> {
        self.log.lock().map_err(|source| Error::file("lock", path, source))
    }

    fn unlock_log(&self) {
        // The lock also ends with the process.
        let _ = self.log.unlock();
    }

    /// Reads the lines that other programs have added. Half a line, which a killed program left, is passed over.
    fn catch_up(&mut self, path: &Path) -> Result<(), Error> {
        let failed = |source| Error::file("read", path, source);
        let length = self.log.metadata().map_err(failed)?.len();
        if length == self.read {
            return Ok(());
        }
        self.log.seek(SeekFrom::Start(self.read)).map_err(failed)?;
        let mut bytes = Vec::new();
        self.log.read_to_end(&mut bytes).map_err(failed)?;
        let is_first = self.read == 0;
        self.read += bytes.len() as u64;
        let (decisions, written) = log_lines(&bytes);
        let before = self.written;
        self.written = before.max(written);
        // A decision that the file has already is not applied again: somebody may have changed the question in the file.
        self.take(decisions, if is_first { self.written } else { before });
        Ok(())
    }

    fn append(&mut self, line: &LogLine, path: &Path) -> Result<(), Error> {
        let mut bytes = serde_json::to_vec(line).map_err(Error::table)?;
        // A line that a killed program left half-written ends here.
        bytes.insert(0, b'\n');
        bytes.push(b'\n');
        let written = self.log.write_all(&bytes).and_then(|()| self.log.sync_data());
        written.map_err(|source| Error::file("write", path, source))?;
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// Takes decisions in their order: those up to this number are in the file already, and are only listed.
    fn take(&mut self, decisions: Vec<ReviewLine>, in_file: u64) {
        for line in decisions {
            if line.number > in_file { self.apply(line) } else { self.note(line) }
        }
    }

    /// Applies a decision. One about a question that is not there any more changes nothing.
    fn apply(&mut self, line: ReviewLine) {
        self.last = self.last.max(line.number);
        let Some(&place) = self.by_id.get(&line.question) else { return };
        let reviewed = &mut self.questions[place];
        match &line.decision {
            Decision::Reject {} => reviewed.is_rejected = true,
            Decision::Comment { .. } => {}
            decision => {
                reviewed.is_rejected = false;
                decision.apply(&mut reviewed.question);
            }
        }
        reviewed.decisions.push(line);
    }

    fn check(&self, by: &str, id: &str, decision: &Decision, seen: Option<u64>) -> Result<(), DecisionError> {
        let Some(&place) = self.by_id.get(id) else { return Err(DecisionError::NoQuestion(id.to_owned())) };
        let reviewed = &self.questions[place];
        let is_remark = matches!(decision, Decision::Comment { .. });
        let is_news = |line: &&ReviewLine| {
            seen.is_some_and(|seen| line.number > seen)
                && line.by != by
                && !matches!(line.decision, Decision::Comment { .. })
        };
        if let Some(line) = reviewed.decisions.iter().rfind(is_news).filter(|_| !is_remark) {
            return Err(DecisionError::Overtaken(Box::new(line.clone())));
        }
        let kept = self.questions.iter().filter(|reviewed| !reviewed.is_rejected).count();
        if matches!(decision, Decision::Reject {}) && !reviewed.is_rejected && kept == 1 {
            return Err(DecisionError::Invalid(
                "this is the last question that is left; remove the file yourself".to_owned(),
            ));
        }
        Ok(())
    }

    /// Reads the file of questions again if another program has changed it, and applies what is not in it yet.
    fn follow_file(&mut self, path: &Path) -> Result<(), Error> {
        let bytes = read_file(path)?;
        if Key::of_bytes(&bytes) == self.content {
            return Ok(());
        }
        let (file, content, questions) = read_questions(path, &bytes)?;
        let before = std::mem::replace(&mut self.questions, questions);
        (self.file, self.content, self.by_id) = (file, content, index(&self.questions));
        let mut decisions: Vec<ReviewLine> = before.into_iter().flat_map(|reviewed| reviewed.decisions).collect();
        decisions.sort_by_key(|line| line.number);
        self.take(decisions, self.written);
        Ok(())
    }

    /// Lists a decision that is in the file already.
    fn note(&mut self, line: ReviewLine) {
        self.last = self.last.max(line.number);
        if let Some(&place) = self.by_id.get(&line.question) {
            self.questions[place].decisions.push(line);
        }
    }

    fn write(&mut self, path: &Path, log_path: &Path) -> Result<u64, Error> {
        let unwritten = self.last - self.written.min(self.last);
        if unwritten == 0 {
            return Ok(0);
        }
        self.follow_file(path)?;
        // A rejected question is added to the rejected ones before it leaves the dataset, and one that comes back is in the
        // dataset before it leaves the rejected ones: between the two steps it is in both files, and never in neither.
        let rejected: Vec<Question> =
            self.questions.iter().filter(|it| it.is_rejected).map(|it| it.question.clone()).collect();
        keep_rejected(path, &rejected, true)?;
        let kept = self.questions.iter().filter(|reviewed| !reviewed.is_rejected);
        self.file.dataset.questions = kept.map(|reviewed| reviewed.question.clone()).collect();
        let bytes = self.file.to_bytes().map_err(|error| Error::Unusable(error_chain(&error)))?;
        write_whole(path, &bytes)?;
        self.content = Key::of_bytes(&bytes);
        keep_rejected(path, &rejected, false)?;
        self.append(&LogLine::Written { written: self.last }, log_path)?;
        self.written = self.last;
        Ok(unwritten)
    }
}

/// The log of a dataset: `golden.reviews.jsonl` for `golden.jsonl`.
fn log_path(path: &Path) -> PathBuf {
    path.with_extension("reviews.jsonl")
}

/// The questions that left a dataset: `golden.rejected.jsonl` for `golden.jsonl`.
fn rejected_path(path: &Path) -> PathBuf {
    path.with_extension("rejected.jsonl")
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::file("read", path, source))
}

/// The decisions of a log, and the number up to which they are in the file of questions. Half a line is passed over.
fn log_lines(bytes: &[u8]) -> (Vec<ReviewLine>, u64) {
    let (mut decisions, mut written) = (Vec::new(), 0);
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice::<LogLine>(line) {
            Ok(LogLine::Decision(line)) => decisions.push(line),
            Ok(LogLine::Written { written: until }) => written = written.max(until),
            Err(_) => {}
        }
    }
    (decisions, written)
}

/// The questions of a dataset's file with this content, and after them those that a reviewer has rejected.
fn read_questions(path: &Path, bytes: &[u8]) -> Result<(DatasetFile, Key, Vec<ReviewedQuestion>), Error> {
    let file = DatasetFile::read(&path.display().to_string(), bytes)
        .map_err(|errors| Error::Refused(errors.iter().map(ToString::to_string).collect()))?;
    let new = |question: Question, is_rejected| ReviewedQuestion { question, is_rejected, decisions: Vec::new() };
    let mut questions: Vec<ReviewedQuestion> =
        file.dataset.questions.iter().map(|question| new(question.clone(), false)).collect();
    let known: BTreeSet<String> = questions.iter().map(|reviewed| reviewed.question.id.clone()).collect();
    let rejected = rejected_lines(path)?.iter().filter_map(|line| reviewed_rejection(line)).collect::<Vec<Question>>();
    questions.extend(rejected.into_iter().filter(|question| !known.contains(&question.id)).map(|it| new(it, true)));
    Ok((file, Key::of_bytes(bytes), questions))
}

fn index(questions: &[ReviewedQuestion]) -> HashMap<String, usize> {
    questions.iter().enumerate().map(|(place, reviewed)| (reviewed.question.id.clone(), place)).collect()
}

fn rejected_lines(path: &Path) -> Result<Vec<String>, Error> {
    let path = rejected_path(path);
    let text = Error::allow_missing(&path, std::fs::read_to_string(&path))?;
    Ok(text.unwrap_or_default().lines().map(str::to_owned).collect())
}

/// The question of a line that a reviewer's rejection wrote; the generation of questions writes other lines.
fn reviewed_rejection(line: &str) -> Option<Question> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line["reason"] == json!("review")).then(|| Question::deserialize(&line["removed"]).ok())?
}

/// Brings the reviewed rejections in the file of rejected questions up to date: adds these, and, unless `only_add`, removes
/// others.
fn keep_rejected(path: &Path, rejected: &[Question], only_add: bool) -> Result<(), Error> {
    let before = rejected_lines(path)?;
    let wanted: BTreeSet<&str> = rejected.iter().map(|question| question.id.as_str()).collect();
    let (mut lines, mut there) = (Vec::new(), BTreeSet::new());
    for line in &before {
        match reviewed_rejection(line) {
            Some(question) if !only_add && !wanted.contains(question.id.as_str()) => {}
            Some(question) => {
                if there.insert(question.id) {
                    lines.push(line.clone());
                }
            }
            None => lines.push(line.clone()),
        }
    }
    let new = rejected.iter().filter(|question| !there.contains(&question.id));
    lines.extend(new.map(|question| question.rejection().to_string()));
    if lines == before {
        return Ok(());
    }
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    write_whole(&rejected_path(path), text.as_bytes())
}

/// Whether reviewers have decided something that is not in the dataset's file yet.
///
/// # Errors
/// If the log cannot be read.
pub fn has_unwritten_decisions(path: &Path) -> Result<bool, Error> {
    let log_path = log_path(path);
    let Some(text) = Error::allow_missing(&log_path, std::fs::read(&log_path))? else { return Ok(false) };
    let (decisions, written) = log_lines(&text);
    Ok(decisions.iter().any(|line| line.number > written))
}

/// The state of a question in a word: `accepted`, `edited`, `rejected` or `open`.
pub fn review_state(reviewed: &ReviewedQuestion) -> &'static str {
    match (reviewed.is_rejected, reviewed.question.review) {
        (true, _) => "rejected",
        (false, Some(Review::Accepted)) => "accepted",
        (false, Some(Review::Edited)) => "edited",
        (false, None) => "open",
    }
}

#[cfg(test)]
mod tests;

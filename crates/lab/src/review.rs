//! Golden questions, reviewed by several people at once, from pages and terminals.
//!
//! A decision is a line of a log beside the dataset (`golden.reviews.jsonl`), flushed to the disk, before anybody hears that
//! it is made. The file of questions follows: [`ReviewDesk::write`] puts all decisions into it that are not there yet, and
//! notes that in the log. So a process that is killed loses no decision, and the next one that opens the dataset puts the
//! rest into the file. New questions are added in the same way. Programs on one machine may review one dataset: they take
//! turns by a lock on the log, and read what the others have added.

mod decision;
mod files;

pub use decision::{Decision, DecisionError, ReviewLine};
pub(crate) use files::reviewers_files;

use crate::{
    Error,
    append_log::{AppendLog, LockedLog},
    clock::now_ms,
    error_chain,
    files::DraftFile,
    steering::person_name,
};
use decision::LONGEST_TEXT;
use eval::{
    Question,
    dataset::{self, DatasetFile, Review, UnwritableFile},
    statistics::Agreement,
};
use files::{is_blank, keep_rejected, log_path, read_file, read_if_there, read_questions};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use store::Key;

/// The seed of the interval of the agreement.
const SEED: u64 = 0xA62E;

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

/// What became of the questions of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ImportedQuestions {
    /// The ids of the questions that were added.
    pub added: Vec<String>,
    /// The lines of questions that are there already.
    pub skipped: Vec<usize>,
    /// Lines that were refused, and why.
    pub refused: Vec<(usize, String)>,
}

/// A dataset under review. Threads share it.
pub struct ReviewDesk {
    path: PathBuf,
    state: Mutex<ReviewState>,
    /// The agreement after the decision of this number, about questions of this content.
    agreement: Mutex<Option<((u64, Key), ReviewerAgreement)>>,
}

/// The file of questions with all decisions up to a number.
struct UnwrittenFile {
    file: Arc<Mutex<DatasetFile>>,
    kept: Vec<Question>,
    rejected: Vec<Question>,
    /// The number of the last decision in it.
    last: u64,
    /// The number of the last decision in the file that it replaces, and the key of that file's content.
    before: (u64, Key),
}

impl UnwrittenFile {
    /// Its bytes. They are read back before they are returned, which takes a while.
    fn bytes(&self) -> Result<Vec<u8>, Error> {
        bytes_with(&self.file, self.kept.clone()).map_err(|error| Error::Unusable(error_chain(&error)))
    }
}

/// The bytes of a file with these questions.
fn bytes_with(file: &Mutex<DatasetFile>, questions: Vec<Question>) -> Result<Vec<u8>, UnwritableFile> {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    file.dataset.questions = questions;
    file.to_bytes()
}

struct ReviewState {
    log: AppendLog,
    dataset: ReviewedDataset,
}

/// The questions with all decisions that were read of the log.
struct ReviewedDataset {
    /// The number of the last decision.
    last: u64,
    /// Decisions up to this number are in the file of questions.
    written: u64,
    /// The file as it was read. Whoever writes it holds it, and decisions are made meanwhile.
    file: Arc<Mutex<DatasetFile>>,
    /// The key of the file's content when it was read or written here.
    content: Key,
    /// Whether the file is not there yet, or is empty.
    is_new: bool,
    /// How often the questions were read again because another program had changed the file.
    reloads: u64,
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
        Self::open_file(path, has_unwritten_decisions(path)?)
    }

    /// Opens a dataset whose file may not be there yet: the first question that is added makes it.
    ///
    /// # Errors
    /// If the file or the log cannot be read.
    pub fn open_or_new(path: &Path) -> Result<Self, Error> {
        Self::open_file(path, true)
    }

    fn open_file(path: &Path, may_be_new: bool) -> Result<Self, Error> {
        let mut log = AppendLog::new(log_path(path));
        if !may_be_new {
            // A file that is missing is refused before there is a log beside it.
            read_file(path)?;
        } else if let Some(folder) = log.path().parent() {
            std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
        }
        // The questions are read under the lock, so that they and the log are of one moment.
        let dataset = log.exclusively(|lines, _| {
            let mut dataset = ReviewedDataset::read(path, may_be_new)?;
            dataset.take_lines(lines, true);
            Ok::<_, Error>(dataset)
        })?;
        let state = Mutex::new(ReviewState { log, dataset });
        Ok(Self { path: path.to_owned(), state, agreement: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, ReviewState> {
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
        let by = person_name(by).map_err(DecisionError::Invalid)?;
        self.with_log(|dataset, log| {
            dataset.check(&by, id, &decision, seen)?;
            let line = dataset.next_line(&by, id, decision);
            log.write(&[LogLine::Decision(line.clone())])?;
            dataset.apply(line.clone());
            Ok(line)
        })
    }

    /// Adds a question, which then waits for a decision. When this returns, it is on the disk. Without an id it gets one,
    /// which is made of its words. It is checked as the reader of datasets checks it.
    ///
    /// # Errors
    /// Why it was not added.
    pub fn add(&self, by: &str, question: Question) -> Result<ReviewLine, DecisionError> {
        let by = person_name(by).map_err(DecisionError::Invalid)?;
        let has_id = !question.id.trim().is_empty();
        let mut question = normalized(&question).map_err(DecisionError::Invalid)?;
        self.with_log(|dataset, log| {
            dataset.follow_file(&self.path)?;
            if !has_id {
                question.id = dataset.unused_id(question.id);
            } else if dataset.by_id.contains_key(&question.id) {
                return Err(DecisionError::IdTaken(question.id));
            }
            let added = dataset.add(&by, vec![question], log)?;
            added.into_iter().next().ok_or_else(|| DecisionError::Invalid("no question was added".to_owned()))
        })
    }

    /// Adds the questions of a file, each with its line, those with a review too. Those whose id and content are there
    /// already are skipped, also if they were rejected. When this returns, the new ones are on the disk.
    ///
    /// # Errors
    /// If nothing was added, because the questions cannot be written into the dataset's file.
    pub fn import(&self, by: &str, questions: Vec<(usize, Question)>) -> Result<ImportedQuestions, DecisionError> {
        let by = person_name(by).map_err(DecisionError::Invalid)?;
        self.with_log(|dataset, log| {
            dataset.follow_file(&self.path)?;
            let mut outcome = ImportedQuestions::default();
            let (mut new, mut ids) = (Vec::new(), BTreeSet::new());
            for (line, question) in questions {
                let checked =
                    normalized(&question).and_then(|question| Ok((dataset.is_new_question(&question)?, question)));
                match checked {
                    Ok((true, question)) if ids.insert(question.id.clone()) => new.push(question),
                    Ok((true, question)) => {
                        outcome.refused.push((line, DecisionError::IdTaken(question.id).to_string()));
                    }
                    Ok((false, _)) => outcome.skipped.push(line),
                    Err(reason) => outcome.refused.push((line, reason)),
                }
            }
            let added = dataset.add(&by, new, log)?;
            outcome.added = added.into_iter().map(|line| line.question).collect();
            Ok(outcome)
        })
    }

    /// Puts all decisions into the file of questions, if some are not there yet. Returns how many were not.
    ///
    /// # Errors
    /// If a file cannot be read or written. The decisions stay in the log.
    pub fn write(&self) -> Result<u64, Error> {
        let unwritten = self.with_log(|dataset, _| dataset.unwritten(&self.path))?;
        let Some(unwritten) = unwritten else { return Ok(0) };
        // This takes longest, and decisions are made meanwhile.
        let bytes = unwritten.bytes()?;
        let draft = DraftFile::write(&self.path, &bytes)?;
        let content = Key::of_bytes(&bytes);
        self.with_log(|dataset, log| dataset.publish(unwritten, (draft, content), &self.path, log))
    }

    /// Calls a function while no other program writes into the log, after everything that others have added was read.
    fn with_log<T, E: From<Error>>(
        &self,
        change: impl FnOnce(&mut ReviewedDataset, &mut LockedLog<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut state = self.lock();
        let ReviewState { log, dataset } = &mut *state;
        let is_first = log.is_unread();
        log.exclusively(|lines, log| {
            dataset.take_lines(lines, is_first);
            change(dataset, log)
        })
    }

    /// Reads what others have decided or changed since the last look. Returns whether that was anything.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn refresh(&self) -> Result<bool, Error> {
        let before = self.lock().dataset.version();
        self.with_log(|dataset, _| {
            dataset.follow_file(&self.path)?;
            Ok(before != dataset.version())
        })
    }

    /// All questions, rejected ones too, in the order of the file.
    pub fn questions(&self) -> Vec<ReviewedQuestion> {
        self.lock().dataset.questions.clone()
    }

    /// One question.
    pub fn question(&self, id: &str) -> Option<ReviewedQuestion> {
        let dataset = &self.lock().dataset;
        Some(dataset.questions[*dataset.by_id.get(id)?].clone())
    }

    /// Calls a function with each question, without copying them.
    pub fn for_each(&self, each: impl FnMut(&ReviewedQuestion)) {
        self.lock().dataset.questions.iter().for_each(each);
    }

    /// How often all questions were read again, because another program had changed their file. While this number stays,
    /// only decisions change them.
    pub fn reloads(&self) -> u64 {
        self.lock().dataset.reloads
    }

    /// The number of the last decision.
    pub fn last(&self) -> u64 {
        self.lock().dataset.last
    }

    /// How far the reviewers agree. Of each person, the first decision about a question counts, because later ones may have
    /// been made after seeing those of others.
    pub fn agreement(&self) -> ReviewerAgreement {
        let mut known = self.agreement.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.lock();
        let version = state.dataset.version();
        if let Some((of, agreement)) = &*known
            && *of == version
        {
            return agreement.clone();
        }
        let (mut pairs, mut conflicts, mut n) = (Vec::new(), Vec::new(), 0);
        for reviewed in &state.dataset.questions {
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

impl ReviewedDataset {
    /// Reads the questions, which may not be there yet.
    fn read(path: &Path, may_be_new: bool) -> Result<Self, Error> {
        let bytes = if may_be_new { read_if_there(path)? } else { read_file(path)? };
        let is_new = may_be_new && is_blank(&bytes);
        let (file, content, questions) = read_questions(path, &bytes, is_new)?;
        let (file, by_id) = (Arc::new(Mutex::new(file)), index(&questions));
        Ok(Self { last: 0, written: 0, file, content, is_new, reloads: 0, questions, by_id })
    }

    /// Changes with each decision and with each change of the file.
    fn version(&self) -> (u64, Key) {
        (self.last, self.content)
    }

    /// Takes lines that were added to the log. `is_first` says that they are its first lines.
    fn take_lines(&mut self, lines: Vec<LogLine>, is_first: bool) {
        let (decisions, written) = split(lines);
        let before = self.written;
        self.written = before.max(written);
        // A decision that the file has already is not applied again: somebody may have changed the question in the file.
        self.take(decisions, if is_first { self.written } else { before });
    }

    /// Takes decisions in their order: those up to this number are in the file already, and are only listed.
    fn take(&mut self, decisions: Vec<ReviewLine>, in_file: u64) {
        for line in decisions {
            if line.number > in_file { self.apply(line) } else { self.note(line) }
        }
    }

    /// The line of a decision that is made now.
    fn next_line(&self, by: &str, id: &str, decision: Decision) -> ReviewLine {
        ReviewLine { number: self.last + 1, time_ms: now_ms(), by: by.to_owned(), question: id.to_owned(), decision }
    }

    /// Adds questions with ids that are not there.
    fn add(
        &mut self,
        by: &str,
        questions: Vec<Question>,
        log: &mut LockedLog<'_>,
    ) -> Result<Vec<ReviewLine>, DecisionError> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        // What the file cannot hold would stand in the way of all decisions that follow.
        self.bytes_with(&questions).map_err(|error| DecisionError::Invalid(error_chain(&error)))?;
        let mut lines = Vec::with_capacity(questions.len());
        for question in questions {
            let id = question.id.clone();
            let mut line = self.next_line(by, &id, Decision::Add { question: Box::new(question) });
            line.number += lines.len() as u64;
            lines.push(line);
        }
        let log_lines: Vec<LogLine> = lines.iter().cloned().map(LogLine::Decision).collect();
        log.write(&log_lines)?;
        lines.iter().cloned().for_each(|line| self.apply(line));
        Ok(lines)
    }

    /// Whether a question is not there yet; or why it cannot be added.
    fn is_new_question(&self, question: &Question) -> Result<bool, String> {
        let Some(&place) = self.by_id.get(&question.id) else { return Ok(true) };
        if has_same_content(&self.questions[place].question, question) {
            return Ok(false);
        }
        Err(format!("{}, with other content", DecisionError::IdTaken(question.id.clone())))
    }

    /// An id that no question has: this one, or this one with a number.
    fn unused_id(&self, id: String) -> String {
        if !self.by_id.contains_key(&id) {
            return id;
        }
        let numbered = (2..).map(|number: u64| format!("{id}-{number}")).find(|id| !self.by_id.contains_key(id));
        numbered.unwrap_or(id)
    }

    /// Applies a decision. One about a question that is not there any more changes nothing, and a question that is there
    /// already is not added again.
    fn apply(&mut self, line: ReviewLine) {
        self.last = self.last.max(line.number);
        if let Decision::Add { question } = &line.decision
            && !self.by_id.contains_key(&line.question)
        {
            self.by_id.insert(line.question.clone(), self.questions.len());
            let question = Question::clone(question);
            self.questions.push(ReviewedQuestion { question, is_rejected: false, decisions: Vec::new() });
        }
        let Some(&place) = self.by_id.get(&line.question) else { return };
        let reviewed = &mut self.questions[place];
        match &line.decision {
            Decision::Reject {} => reviewed.is_rejected = true,
            Decision::Add { .. } | Decision::Comment { .. } => {}
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
            seen.is_some_and(|seen| line.number > seen) && line.by != by && line.decision.is_news()
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
        if matches!(decision, Decision::Reopen {}) && review_state(reviewed) == "open" {
            return Err(DecisionError::Invalid(format!("`{id}` waits for a decision already")));
        }
        Ok(())
    }

    /// Reads the file of questions again if another program has changed it, and applies what is not in it yet.
    fn follow_file(&mut self, path: &Path) -> Result<(), Error> {
        let bytes = if self.is_new { read_if_there(path)? } else { read_file(path)? };
        if Key::of_bytes(&bytes) == self.content {
            return Ok(());
        }
        let is_new = self.is_new && is_blank(&bytes);
        let (file, content, questions) = read_questions(path, &bytes, is_new)?;
        self.is_new = is_new;
        self.reloads += 1;
        let before = std::mem::replace(&mut self.questions, questions);
        (self.file, self.content) = (Arc::new(Mutex::new(file)), content);
        self.by_id = index(&self.questions);
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

    /// The file with the decisions that are not in it yet; none if all are.
    fn unwritten(&mut self, path: &Path) -> Result<Option<UnwrittenFile>, Error> {
        if self.last <= self.written {
            return Ok(None);
        }
        self.follow_file(path)?;
        let rejected = self.questions.iter().filter(|it| it.is_rejected).map(|it| it.question.clone()).collect();
        let (kept, before) = (self.kept().cloned().collect(), (self.written, self.content));
        Ok(Some(UnwrittenFile { file: Arc::clone(&self.file), kept, rejected, last: self.last, before }))
    }

    /// Puts the file in its place, and notes that in the log. Returns how many decisions were not in the file before.
    fn publish(
        &mut self,
        unwritten: UnwrittenFile,
        (draft, content): (DraftFile, Key),
        path: &Path,
        log: &mut LockedLog<'_>,
    ) -> Result<u64, Error> {
        self.follow_file(path)?;
        let (unwritten, draft, content) = if unwritten.before == (self.written, self.content) {
            (unwritten, draft, content)
        } else {
            // Another program has changed or written the file meanwhile.
            let Some(again) = self.unwritten(path)? else { return Ok(0) };
            let bytes = again.bytes()?;
            (again, DraftFile::write(path, &bytes)?, Key::of_bytes(&bytes))
        };
        let UnwrittenFile { rejected, last, before: (written, _), .. } = unwritten;
        // A rejected question is added to the rejected ones before it leaves the dataset, and one that comes back is in the
        // dataset before it leaves the rejected ones: between the two steps it is in both files, and never in neither.
        keep_rejected(path, &rejected, true)?;
        draft.publish()?;
        (self.content, self.is_new) = (content, false);
        keep_rejected(path, &rejected, false)?;
        log.write(&[LogLine::Written { written: last }])?;
        self.written = last;
        Ok(last - written)
    }

    /// The questions that are kept.
    fn kept(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|reviewed| !reviewed.is_rejected).map(|reviewed| &reviewed.question)
    }

    /// The bytes of the file with all questions that are kept, and with these.
    fn bytes_with(&self, added: &[Question]) -> Result<Vec<u8>, UnwritableFile> {
        bytes_with(&self.file, self.kept().chain(added).cloned().collect())
    }
}

/// A question as the reader of datasets reads it; one without an id has an id made of its words. Or why it is refused.
fn normalized(question: &Question) -> Result<Question, String> {
    let quotes = question.evidence.iter().map(|evidence| &evidence.quote);
    let texts = quotes.chain([&question.id, &question.question]).chain(&question.reference).chain(&question.draft);
    if texts.into_iter().any(|text| text.len() > LONGEST_TEXT) {
        return Err(format!("a text has more than {LONGEST_TEXT} bytes"));
    }
    let line = serde_json::to_vec(question).map_err(|error| error.to_string())?;
    let read = dataset::import("question.jsonl", &line).map_err(|errors| {
        let reasons: Vec<String> = errors.iter().map(dataset::ImportError::reason).collect();
        format!("this question cannot be added: {}", reasons.join("; "))
    })?;
    read.questions.into_iter().next().ok_or_else(|| "there is no question".to_owned())
}

/// Whether two questions are the same, whatever reviewers have said and wherever the evidence was found.
fn has_same_content(a: &Question, b: &Question) -> bool {
    let content = |question: &Question| {
        let mut question = Question { review: None, ..question.clone() };
        question.evidence.iter_mut().for_each(|evidence| evidence.span = None);
        question
    };
    content(a) == content(b)
}

/// The decisions among lines of a log, and the number up to which they are in the file of questions.
fn split(lines: Vec<LogLine>) -> (Vec<ReviewLine>, u64) {
    let (mut decisions, mut written) = (Vec::new(), 0);
    for line in lines {
        match line {
            LogLine::Decision(line) => decisions.push(line),
            LogLine::Written { written: until } => written = written.max(until),
        }
    }
    (decisions, written)
}

fn index(questions: &[ReviewedQuestion]) -> HashMap<String, usize> {
    questions.iter().enumerate().map(|(place, reviewed)| (reviewed.question.id.clone(), place)).collect()
}

/// Whether reviewers have decided something that is not in the dataset's file yet.
///
/// # Errors
/// If the log cannot be read.
pub fn has_unwritten_decisions(path: &Path) -> Result<bool, Error> {
    let (decisions, written) = split(AppendLog::new(log_path(path)).new_lines()?);
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

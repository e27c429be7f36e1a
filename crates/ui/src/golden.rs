//! Golden questions, reviewed on pages: by several people at once, who see who else has opened a question. They also add
//! questions: one, or those of a file.

use crate::{blocking::blocking, documents::DocumentCache, error::PageError};
use axum::body::Bytes;
use eval::{Question, dataset::Evidence};
use lab::{
    Decision, DecisionError, Error, ImportedQuestions, ReviewDesk, ReviewLine, ReviewedQuestion, ReviewerAgreement,
    Session, review_state,
};
use rag::Span;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Somebody has a question open for this long after the last sign of it.
const PRESENT: Duration = Duration::from_secs(20);
/// Decisions are put into the file of questions this long after the last one, at most ten times as long after the first.
const WRITE_AFTER: Duration = Duration::from_millis(500);
/// How often the log is looked at for decisions of other programs.
const LOOK: Duration = Duration::from_secs(2);
/// The most characters of a question in the list.
const LISTED_CHARACTERS: usize = 240;
/// The text around evidence, in bytes on each side.
const AROUND: usize = 600;
/// The most refused lines of an import that are listed.
const MOST_REFUSALS: usize = 200;
/// The most characters of a quote in a message.
const QUOTED_CHARACTERS: usize = 80;

/// The desk of a session's golden questions, for all pages.
pub(crate) struct GoldenPages {
    session: Arc<Session>,
    desk: OnceLock<Arc<ReviewDesk>>,
    present: Arc<Mutex<BTreeMap<String, (String, Instant)>>>,
    news: watch::Sender<u64>,
    unwritten: Arc<tokio::sync::Notify>,
    opening: Mutex<()>,
    /// When the pages were first served, in milliseconds since 1970.
    started_ms: i64,
}

/// All questions, for the list.
#[derive(Serialize)]
pub(crate) struct GoldenList {
    /// The file of the questions.
    path: String,
    /// The number of the last decision.
    last: u64,
    /// The same as long as only decisions change the questions.
    version: String,
    /// Whether these are all questions, and not only those that changed since a page asked before.
    is_whole: bool,
    questions: Vec<ListedQuestion>,
    /// How many questions each person has decided about.
    reviewers: BTreeMap<String, usize>,
    agreement: ReviewerAgreement,
    /// The question that each person has open.
    present: BTreeMap<String, String>,
}

/// What a page has of the list.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// The number of the last decision in it.
    #[serde(default)]
    since: u64,
    /// Its version; without it, or with another one, the page gets the whole list.
    #[serde(default)]
    version: String,
}

#[derive(Serialize)]
struct ListedQuestion {
    id: String,
    question: String,
    state: &'static str,
    kind: Option<&'static str>,
    tags: Vec<String>,
    split: Option<eval::dataset::Split>,
    answerable: bool,
    /// Whether there is a reference answer.
    has_reference: bool,
    evidence: usize,
    documents: BTreeSet<String>,
    /// Who has decided about it.
    reviewers: BTreeSet<String>,
    /// How many remarks there are.
    comments: usize,
}

/// A question with what a reviewer needs.
#[derive(Serialize)]
pub(crate) struct GoldenQuestion {
    state: &'static str,
    question: Question,
    decisions: Vec<ReviewLine>,
    /// The number of the last decision about it; 0 if there is none.
    seen: u64,
    /// The text around each piece of evidence.
    evidence: Vec<EvidenceExcerpt>,
    /// Who else has it open.
    present: Vec<String>,
}

/// Evidence with the text around it.
#[derive(Serialize)]
struct EvidenceExcerpt {
    document: String,
    before: String,
    quote: String,
    after: String,
    /// Where the quote is in the document, in bytes.
    span: Option<Span>,
    page: Option<u32>,
    /// Why there is nothing around it.
    problem: Option<String>,
}

/// A decision, as a page posts it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionRequest {
    id: String,
    /// The number of the last decision that the page has shown. Without it, the decision is made whatever others decided.
    #[serde(default)]
    seen: Option<u64>,
    #[serde(default)]
    pub(crate) by: Option<String>,
    decision: Decision,
}

/// A golden question that a page adds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewQuestionRequest {
    #[serde(default)]
    pub(crate) by: Option<String>,
    /// Without it, the id is made of the question's words.
    #[serde(default)]
    id: String,
    question: String,
    #[serde(default)]
    reference: Option<String>,
    #[serde(default)]
    evidence: Vec<Evidence>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default = "yes")]
    answerable: bool,
}

fn yes() -> bool {
    true
}

/// What became of the lines of an imported file.
#[derive(Serialize)]
pub(crate) struct ImportOutcome {
    added: usize,
    /// Questions that are there already.
    skipped: usize,
    refused: usize,
    /// The first lines that were refused.
    refusals: Vec<RefusedLine>,
}

#[derive(Serialize)]
struct RefusedLine {
    line: usize,
    reason: String,
}

/// What a page says that a person has open.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PresenceRequest {
    #[serde(default)]
    pub(crate) by: Option<String>,
    /// The question; none if the person has left it.
    #[serde(default)]
    id: Option<String>,
}

impl GoldenPages {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self {
            session,
            desk: OnceLock::new(),
            present: Arc::default(),
            news: watch::Sender::new(0),
            unwritten: Arc::default(),
            opening: Mutex::new(()),
            started_ms: lab::now_ms(),
        }
    }

    /// The file of the experiment's golden questions.
    fn path(&self) -> Result<PathBuf, PageError> {
        let experiment = &self.session.experiment;
        let none = || PageError::not_found("the experiment has no file of golden questions: see [dataset]");
        let dataset = experiment.dataset.as_ref().ok_or_else(none)?;
        if dataset.path.is_empty() {
            return Err(PageError::not_found(
                "the golden questions stand in the experiment itself: put them into a file to review them",
            ));
        }
        if store::is_url(&dataset.path) {
            return Err(PageError::conflict(
                "the golden questions are in an object store: copy the file here to review them",
            ));
        }
        Ok(experiment.path(&dataset.path))
    }

    fn desk(&self) -> Result<Arc<ReviewDesk>, PageError> {
        let path = self.path()?;
        if !self.is_there(&path)? {
            return Err(PageError::not_found(format!(
                "there are no golden questions yet: {} is not there",
                path.display()
            )));
        }
        self.desk_or_new()
    }

    /// Whether there are golden questions: in their file, or added and not written yet.
    fn is_there(&self, path: &Path) -> Result<bool, PageError> {
        Ok(self.desk.get().is_some() || path.is_file() || lab::has_unwritten_decisions(path)?)
    }

    /// The desk, also where there is no file of questions yet.
    fn desk_or_new(&self) -> Result<Arc<ReviewDesk>, PageError> {
        if let Some(desk) = self.desk.get() {
            return Ok(desk.clone());
        }
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(desk) = self.desk.get() {
            return Ok(desk.clone());
        }
        let desk = Arc::new(ReviewDesk::open_or_new(&self.path()?)?);
        self.write_later(&desk);
        self.follow(&desk);
        Ok(self.desk.get_or_init(|| desk).clone())
    }

    /// Puts decisions into the file a moment after they were made, so that ten people do not wait for each other's writing.
    fn write_later(&self, desk: &Arc<ReviewDesk>) {
        let (desk, unwritten) = (Arc::downgrade(desk), self.unwritten.clone());
        // What was left by a process that was killed.
        unwritten.notify_one();
        tokio::spawn(async move {
            loop {
                unwritten.notified().await;
                let began = Instant::now();
                while began.elapsed() < WRITE_AFTER * 10
                    && tokio::time::timeout(WRITE_AFTER, unwritten.notified()).await.is_ok()
                {}
                let Some(desk) = desk.upgrade() else { return };
                // If it fails, the decisions stay in the log, and the next writing takes them.
                let _ = tokio::task::spawn_blocking(move || desk.write()).await;
            }
        });
    }

    /// Notifies the pages when another program has decided something, and when a browser has gone without a word:
    /// the question that it had open is free for others then.
    fn follow(&self, desk: &Arc<ReviewDesk>) {
        let (desk, news, present) = (Arc::downgrade(desk), self.news.clone(), Arc::clone(&self.present));
        tokio::spawn(async move {
            let mut known = BTreeMap::new();
            loop {
                tokio::time::sleep(LOOK).await;
                let Some(desk) = desk.upgrade() else { return };
                let changed = tokio::task::spawn_blocking(move || desk.refresh()).await;
                let now = open_questions(&present);
                let has_gone = known.keys().any(|name| !now.contains_key(name));
                known = now;
                if has_gone || matches!(changed, Ok(Ok(true))) {
                    news.send_modify(|news| *news += 1);
                }
            }
        });
    }

    /// Notifies of every change: a decision, or somebody who comes or goes.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Puts all decisions into the file, at the end of the service.
    pub(crate) async fn finish(&self) {
        if let Some(desk) = self.desk.get().cloned() {
            let _ = tokio::task::spawn_blocking(move || desk.write()).await;
        }
    }

    pub(crate) fn list(&self, known: &ListQuery) -> Result<GoldenList, PageError> {
        let path = self.path()?;
        if !self.is_there(&path)? {
            return Ok(GoldenList {
                path: path.display().to_string(),
                last: 0,
                version: String::new(),
                is_whole: true,
                questions: Vec::new(),
                reviewers: BTreeMap::new(),
                agreement: ReviewerAgreement { questions: 0, agreement: None, conflicts: Vec::new() },
                present: self.present(),
            });
        }
        let desk = self.desk_or_new()?;
        // Before the questions, so that a decision which is made meanwhile is told twice rather than never.
        let (version, last) = (format!("{}-{}", self.started_ms, desk.reloads()), desk.last());
        let is_whole = known.version != version;
        let (mut questions, mut reviewers) = (Vec::new(), BTreeMap::<String, usize>::new());
        desk.for_each(|reviewed| {
            for reviewer in reviewers_of(reviewed) {
                *reviewers.entry(reviewer.to_owned()).or_default() += 1;
            }
            if is_whole || reviewed.decisions.last().is_some_and(|line| line.number > known.since) {
                questions.push(ListedQuestion::of(reviewed));
            }
        });
        Ok(GoldenList {
            path: desk.path().display().to_string(),
            last,
            version,
            is_whole,
            questions,
            reviewers,
            agreement: desk.agreement(),
            present: self.present(),
        })
    }

    pub(crate) async fn question(&self, id: &str, documents: &DocumentCache) -> Result<GoldenQuestion, PageError> {
        let desk = self.desk()?;
        let absent = || PageError::not_found(format!("there is no question `{id}`"));
        let reviewed = desk.question(id).ok_or_else(absent)?;
        let mut evidence = Vec::new();
        for item in &reviewed.question.evidence {
            let excerpt = documents.excerpt(&self.session, &item.document, &item.quote, item.span, AROUND).await;
            evidence.push(match excerpt {
                Ok(found) => EvidenceExcerpt {
                    document: found.document,
                    before: found.before,
                    quote: found.quote,
                    after: found.after,
                    span: Some(found.span),
                    page: found.page,
                    problem: None,
                },
                Err(reason) => EvidenceExcerpt {
                    document: item.document.clone(),
                    before: String::new(),
                    quote: item.quote.clone(),
                    after: String::new(),
                    span: None,
                    page: None,
                    problem: Some(reason),
                },
            });
        }
        let present = self.present().into_iter().filter(|(_, open)| open == id).map(|(name, _)| name).collect();
        Ok(GoldenQuestion {
            state: review_state(&reviewed),
            seen: reviewed.decisions.last().map_or(0, |line| line.number),
            question: reviewed.question,
            decisions: reviewed.decisions,
            evidence,
            present,
        })
    }

    /// Makes a decision. When this returns, it is on the disk.
    pub(crate) async fn decide(&self, by: String, request: DecisionRequest) -> Result<ReviewLine, PageError> {
        let desk = self.desk()?;
        let DecisionRequest { id, seen, decision, .. } = request;
        let line = blocking(move || desk.decide(&by, &id, decision, seen)).await?.map_err(page_error)?;
        self.publish();
        Ok(line)
    }

    /// Puts what was decided into the file soon, and notifies the pages.
    fn publish(&self) {
        self.unwritten.notify_one();
        self.news.send_modify(|news| *news += 1);
    }

    /// Adds a question. When this returns, it is on the disk.
    pub(crate) async fn add(
        &self,
        by: String,
        request: NewQuestionRequest,
        documents: &DocumentCache,
    ) -> Result<ReviewLine, PageError> {
        let NewQuestionRequest { id, question, reference, evidence, tags, answerable, .. } = request;
        if question.trim().is_empty() {
            return Err(PageError::invalid("the question is empty"));
        }
        let evidence = self.place_evidence(evidence, documents).await?;
        let question = Question { id, question, reference, evidence, tags, answerable, ..Question::default() };
        let desk = self.desk_or_new()?;
        let line = blocking(move || desk.add(&by, question)).await?.map_err(page_error)?;
        self.publish();
        Ok(line)
    }

    /// Looks for each quote in its document, as a run does before it begins.
    async fn place_evidence(
        &self,
        evidence: Vec<Evidence>,
        documents: &DocumentCache,
    ) -> Result<Vec<Evidence>, PageError> {
        let mut placed = Vec::with_capacity(evidence.len());
        for item in evidence {
            // The reader of datasets says what is wrong with a quote that is empty.
            if item.document.is_empty() || item.quote.trim().is_empty() {
                placed.push(item);
                continue;
            }
            let Evidence { document, quote, span } = item;
            match documents.excerpt(&self.session, &document, &quote, span, 0).await {
                Ok(found) => placed.push(Evidence { document, quote: found.quote, span: Some(found.span) }),
                Err(_) if documents.is_read_by_another_parser(&self.session, &document, &quote).await => {
                    placed.push(Evidence { document, quote, span: None });
                }
                Err(reason) => {
                    let beginning: String = quote.chars().take(QUOTED_CHARACTERS).collect();
                    return Err(PageError::invalid(format!(
                        "the evidence “{beginning}” cannot be found in {document} ({reason}): shorten the quote to words \
                         of the document, or leave it out"
                    )));
                }
            }
        }
        Ok(placed)
    }

    /// Adds the questions of a file. When this returns, they are on the disk.
    pub(crate) async fn import(&self, by: String, name: String, bytes: Bytes) -> Result<ImportOutcome, PageError> {
        let read = blocking(move || eval::dataset::import_readable(&name, &bytes)).await?.map_err(|faults| {
            let reasons: Vec<String> =
                faults.iter().take(3).map(|fault| format!("line {} {}", fault.line, fault.reason())).collect();
            PageError::invalid(format!("the file cannot be read: {}", reasons.join("; ")))
        })?;
        let desk = self.desk_or_new()?;
        let imported = blocking(move || desk.import(&by, read.questions)).await?.map_err(page_error)?;
        if !imported.added.is_empty() {
            self.publish();
        }
        let faults = read.faults.iter().map(|fault| (fault.line, fault.reason()));
        Ok(ImportOutcome::new(imported, faults))
    }

    /// Records which question a person has open.
    pub(crate) fn set_present(&self, by: String, request: PresenceRequest) -> BTreeMap<String, String> {
        let before = self.present();
        {
            let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
            match request.id {
                Some(id) => drop(present.insert(by, (id, Instant::now()))),
                None => drop(present.remove(&by)),
            }
        }
        let now = self.present();
        if now != before {
            self.news.send_modify(|news| *news += 1);
        }
        now
    }

    /// The question that each person has open.
    fn present(&self) -> BTreeMap<String, String> {
        open_questions(&self.present)
    }

    /// The questions that are kept, as lines of JSON.
    pub(crate) fn export(&self) -> Result<String, PageError> {
        let desk = self.desk()?;
        let (mut lines, mut failed) = (String::new(), None);
        desk.for_each(|reviewed| {
            if reviewed.is_rejected {
                return;
            }
            match serde_json::to_string(&reviewed.question) {
                Ok(line) => {
                    lines.push_str(&line);
                    lines.push('\n');
                }
                Err(error) => failed = Some(error),
            }
        });
        match failed {
            Some(error) => Err(Error::Table(error.to_string()).into()),
            None => Ok(lines),
        }
    }
}

impl ImportOutcome {
    fn new(imported: ImportedQuestions, faults: impl Iterator<Item = (usize, String)>) -> Self {
        let mut lines: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (line, reason) in faults.chain(imported.refused) {
            lines.entry(line).or_default().push(reason);
        }
        let refused = lines.len();
        let refusals = lines.into_iter().take(MOST_REFUSALS);
        let refusals = refusals.map(|(line, reasons)| RefusedLine { line, reason: reasons.join("; ") }).collect();
        Self { added: imported.added.len(), skipped: imported.skipped.len(), refused, refusals }
    }
}

fn page_error(error: DecisionError) -> PageError {
    match error {
        DecisionError::Failed(error) => error.into(),
        DecisionError::Overtaken(_) | DecisionError::IdTaken(_) => PageError::conflict(error.to_string()),
        DecisionError::NoQuestion(_) => PageError::not_found(error.to_string()),
        DecisionError::Invalid(_) => PageError::invalid(error.to_string()),
    }
}

/// The question that each person has open; whoever was not heard of for a while is forgotten.
fn open_questions(present: &Mutex<BTreeMap<String, (String, Instant)>>) -> BTreeMap<String, String> {
    let mut present = present.lock().unwrap_or_else(PoisonError::into_inner);
    present.retain(|_, (_, seen)| seen.elapsed() < PRESENT);
    present.iter().map(|(name, (id, _))| (name.clone(), id.clone())).collect()
}

/// Who has decided about a question.
fn reviewers_of(reviewed: &ReviewedQuestion) -> BTreeSet<&str> {
    let decides = |line: &&ReviewLine| !matches!(line.decision, Decision::Comment { .. } | Decision::Add { .. });
    reviewed.decisions.iter().filter(decides).map(|line| line.by.as_str()).collect()
}

impl ListedQuestion {
    fn of(reviewed: &ReviewedQuestion) -> Self {
        let question = &reviewed.question;
        let is_remark = |line: &&ReviewLine| matches!(line.decision, Decision::Comment { .. });
        Self {
            id: question.id.clone(),
            question: question.question.chars().take(LISTED_CHARACTERS).collect(),
            state: review_state(reviewed),
            kind: question.origin.as_ref().map(|origin| origin.kind.name()),
            tags: question.tags.clone(),
            split: question.split,
            answerable: question.answerable,
            has_reference: question.reference.is_some(),
            evidence: question.evidence.len(),
            documents: question.evidence.iter().map(|evidence| evidence.document.clone()).collect(),
            reviewers: reviewers_of(reviewed).into_iter().map(str::to_owned).collect(),
            comments: reviewed.decisions.iter().filter(is_remark).count(),
        }
    }
}

//! PDFium in processes of its own, at most as many as there are cores: documents are read side by side, a large one by
//! several processes, and a crash loses a page and not the run.

use super::super::layout::PAGES_AROUND;
use super::super::pdf_page::UnreadPage;
use super::super::{LoadError, ParseLimits};
use super::pages::{PageReading, PdfFacts, PdfPages, SEGMENT_PAGES};
use super::worker::{PdfPart, PdfReply, PdfRequest};
use crate::lines::{CallOutcome, LateCall, LineProcess, LineProtocol, ProcessEnd, lock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a segment may take, and a page that is read alone.
const SEGMENT_TIME: Duration = Duration::from_secs(120);
const PAGE_TIME: Duration = Duration::from_secs(20);
/// A document is given up after so many pages that could not be read.
pub(super) const MOST_FAILED_PAGES: u32 = 3;
/// A process is ended after so many requests, because its memory grows with each.
const MOST_REQUESTS: u32 = 1_000;
/// The longest reply, in bytes.
const MOST_REPLY: usize = 512 << 20;

/// The program that reads PDFs: it calls [`run_pdf_worker`](super::run_pdf_worker).
#[derive(Debug, Clone)]
pub struct PdfProgram {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl PdfProgram {
    /// A program, with the arguments by which it knows what it is to do. The path of the library is added.
    pub fn new(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

static PROGRAM: OnceLock<PdfProgram> = OnceLock::new();
static POOL: LazyLock<PdfPool> = LazyLock::new(PdfPool::default);

/// Reads PDFs in processes of this program from now on; without one they are read in this process, one after another. A
/// second call does nothing.
pub fn read_pdfs_with(program: PdfProgram) {
    let _ = PROGRAM.set(program);
}

/// The program that reads PDFs, if there is one.
pub(super) fn program() -> Option<&'static PdfProgram> {
    PROGRAM.get()
}

/// The processes that wait for a request, and how many there are in all.
#[derive(Default)]
struct PdfPool {
    state: Mutex<PdfPoolState>,
    returned: Condvar,
}

#[derive(Default)]
struct PdfPoolState {
    idle: Vec<PdfWorker>,
    working: usize,
}

/// A process, and how many requests it has answered.
struct PdfWorker {
    process: LineProcess,
    answered: u32,
}

/// A PDF is divided into segments of at least so many pages.
const LEAST_SEGMENT_PAGES: u32 = 40;

fn most_processes() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Divides the pages of a file into segments of about equal length, for so many free processes. For each segment the pages
/// around it are read too, so a short file stays whole. The text does not depend on where the file is divided.
fn segments(pages: u32, free: usize) -> Vec<RangeInclusive<u32>> {
    let free = u32::try_from(free).unwrap_or(u32::MAX).clamp(1, (pages / LEAST_SEGMENT_PAGES).max(1));
    let count = match pages.div_ceil(SEGMENT_PAGES) {
        least if least <= free => free,
        least => least.next_multiple_of(free),
    };
    let end = |segment: u32| (u64::from(pages) * u64::from(segment) / u64::from(count)) as u32;
    (0..count).map(|segment| end(segment) + 1..=end(segment + 1)).filter(|segment| !segment.is_empty()).collect()
}

impl PdfPool {
    /// How many more processes may work now.
    fn free(&self) -> usize {
        most_processes().saturating_sub(lock(&self.state).working)
    }

    /// A process, once one may work.
    fn take(&self, start: impl FnOnce() -> Result<PdfWorker, LoadError>) -> Result<PdfWorker, LoadError> {
        let mut state = lock(&self.state);
        while state.working >= most_processes() {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.working += 1;
        while let Some(worker) = state.idle.pop() {
            if worker.process.is_usable() {
                return Ok(worker);
            }
        }
        drop(state);
        start().inspect_err(|_| self.give_back(None))
    }

    /// Ends the work of a process, which is kept if it can go on.
    fn give_back(&self, worker: Option<PdfWorker>) {
        let mut state = lock(&self.state);
        state.working -= 1;
        state.idle.extend(worker.filter(|worker| worker.answered < MOST_REQUESTS));
        drop(state);
        self.returned.notify_one();
    }
}

/// Why a request was not answered.
enum PdfFailure {
    /// The file gives no document.
    Refused(LoadError),
    Page(UnreadPage),
}

/// A document that processes read.
struct Reading<'a> {
    pool: &'a PdfPool,
    program: &'a PdfProgram,
    library: &'a Path,
    file: &'a Path,
    reading: PageReading,
    /// The pages that ended a process, or took too long.
    failed: Mutex<BTreeMap<u32, UnreadPage>>,
    /// The bytes of text so far.
    size: AtomicUsize,
    /// Whether the document was given up.
    is_over: AtomicBool,
}

/// Reads the document of a file.
///
/// # Errors
/// If it cannot be opened, has too many pages or too much text, or several pages end the process that reads them.
pub(super) fn read(
    program: &PdfProgram,
    library: &Path,
    file: &Path,
    reading: PageReading,
    limits: &ParseLimits,
) -> Result<(PdfFacts, PdfPages), LoadError> {
    Reading::new(&POOL, program, library, file, reading).all(limits)
}

/// Reads one page of a file.
///
/// # Errors
/// If the file cannot be opened, or was not read this time.
pub(super) fn read_one(
    program: &PdfProgram,
    library: &Path,
    file: &Path,
    number: u32,
    reading: PageReading,
) -> Result<PdfPages, LoadError> {
    Reading::new(&POOL, program, library, file, reading).one_by_one(number..=number, number..=number)
}

impl<'a> Reading<'a> {
    fn new(
        pool: &'a PdfPool,
        program: &'a PdfProgram,
        library: &'a Path,
        file: &'a Path,
        reading: PageReading,
    ) -> Self {
        let (failed, size, is_over) = (Mutex::default(), AtomicUsize::new(0), AtomicBool::new(false));
        Self { pool, program, library, file, reading, failed, size, is_over }
    }

    fn all(&self, limits: &ParseLimits) -> Result<(PdfFacts, PdfPages), LoadError> {
        let facts = self.facts()?;
        super::check_pages(facts.pages, limits)?;
        let mut pages = PdfPages::none(self.reading);
        for segment in self.segments(&segments(facts.pages, self.pool.free()), facts.pages, limits)? {
            pages.append(segment);
        }
        limits.check_text(pages.size())?;
        Ok((facts, pages))
    }

    /// What is known of the file as a whole.
    fn facts(&self) -> Result<PdfFacts, LoadError> {
        let part = match self.ask(RangeInclusive::new(1, 0), false, true, SEGMENT_TIME) {
            Ok(part) => part,
            Err(PdfFailure::Refused(reason)) => return Err(reason),
            Err(PdfFailure::Page(UnreadPage::TooSlow)) => {
                return Err(LoadError::Broken("PDFium took too long to open it".to_owned()));
            }
            Err(PdfFailure::Page(_)) => return Err(LoadError::Broken("PDFium crashed on it".to_owned())),
        };
        part.facts.ok_or_else(|| LoadError::Broken("the process that read it gave no facts about it".to_owned()))
    }

    /// The pages of these segments, in their order, several at once.
    fn segments(
        &self,
        segments: &[RangeInclusive<u32>],
        count: u32,
        limits: &ParseLimits,
    ) -> Result<Vec<PdfPages>, LoadError> {
        let next = Mutex::new(segments.iter().enumerate());
        let take = || lock(&next).next();
        let read = || -> Result<Vec<(usize, PdfPages)>, LoadError> {
            let mut found = Vec::new();
            while let Some((number, pages)) = take().filter(|_| !self.is_over.load(Ordering::Relaxed)) {
                let read = self.segment(pages.clone(), count).and_then(|pages| {
                    let size = self.size.fetch_add(pages.size(), Ordering::Relaxed) + pages.size();
                    limits.check_text(size).map(|()| pages)
                });
                self.is_over.fetch_or(read.is_err(), Ordering::Relaxed);
                found.push((number, read?));
            }
            Ok(found)
        };
        let at_once = most_processes().min(segments.len());
        let results = thread::scope(|scope| {
            let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(read)).collect();
            threads.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        let mut read = Vec::new();
        for result in results {
            let panicked = || LoadError::NotRead("a thread that waits for PDFium panicked".to_owned());
            read.extend(result.map_err(|_| panicked())??);
        }
        read.sort_by_key(|(number, _)| *number);
        Ok(read.into_iter().map(|(_, pages)| pages).collect())
    }

    fn segment(&self, numbers: RangeInclusive<u32>, count: u32) -> Result<PdfPages, LoadError> {
        match self.ask(numbers.clone(), true, false, SEGMENT_TIME) {
            Ok(part) => Ok(part.pages),
            Err(PdfFailure::Refused(reason)) => Err(reason),
            Err(PdfFailure::Page(_)) => self.around_failures(numbers, count),
        }
    }

    /// The pages of a segment that could not be read at once. Each is tried alone, with those around that are looked at;
    /// then the segment is read again without those that failed.
    fn around_failures(&self, numbers: RangeInclusive<u32>, count: u32) -> Result<PdfPages, LoadError> {
        let first = numbers.start().saturating_sub(PAGES_AROUND).max(1);
        let tried = first..=numbers.end().saturating_add(PAGES_AROUND).min(count);
        let alone = self.one_by_one(tried, numbers.clone())?;
        match self.ask(numbers, true, false, SEGMENT_TIME) {
            Ok(part) if part.pages.count() == alone.count() => Ok(part.pages),
            Err(PdfFailure::Refused(reason)) => Err(reason),
            // What fails only together was read alone.
            Ok(_) | Err(PdfFailure::Page(_)) => Ok(alone),
        }
    }

    /// Tries pages alone, and gives those that are wanted.
    fn one_by_one(&self, tried: RangeInclusive<u32>, wanted: RangeInclusive<u32>) -> Result<PdfPages, LoadError> {
        let mut pages = PdfPages::none(self.reading);
        for number in tried {
            let known = self.failed().get(&number).copied();
            let page = match known.map_or_else(
                || self.ask(number..=number, false, false, PAGE_TIME),
                |reason| Err(PdfFailure::Page(reason)),
            ) {
                Ok(part) => part.pages,
                Err(PdfFailure::Refused(reason)) => return Err(reason),
                Err(PdfFailure::Page(reason)) => {
                    let mut failed = self.failed();
                    failed.insert(number, reason);
                    if failed.len() > MOST_FAILED_PAGES as usize {
                        let reason = format!("PDFium crashed on more than {MOST_FAILED_PAGES} pages, or took too long");
                        return Err(LoadError::Broken(reason));
                    }
                    PdfPages::unread(number, self.reading, reason)
                }
            };
            if wanted.contains(&number) {
                pages.append(page);
            }
        }
        Ok(pages)
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<u32, UnreadPage>> {
        lock(&self.failed)
    }

    fn ask(
        &self,
        numbers: RangeInclusive<u32>,
        looks_around: bool,
        facts: bool,
        time: Duration,
    ) -> Result<PdfPart, PdfFailure> {
        let skipped: Vec<u32> = self.failed().keys().copied().collect();
        let mut worker = self.pool.take(|| self.start()).map_err(PdfFailure::Refused)?;
        let request = |call| {
            let (file, reading) = (self.file.to_owned(), self.reading);
            let (first, last) = (*numbers.start(), *numbers.end());
            json!(PdfRequest { call, file, reading, first, last, looks_around, skipped, facts })
        };
        let outcome = worker.process.call(request, None, time, |_| LateCall::EndProcess);
        worker.answered += 1;
        let is_answered = matches!(outcome, CallOutcome::Reply(_));
        self.pool.give_back(is_answered.then_some(worker));
        match outcome {
            CallOutcome::Reply(reply) => {
                let reply: PdfReply = serde_json::from_value(Value::Object(reply)).map_err(|error| {
                    PdfFailure::Refused(LoadError::Broken(format!("its pages cannot be read: {error}")))
                })?;
                reply.outcome.map_err(PdfFailure::Refused)
            }
            CallOutcome::TimedOut(_) => Err(PdfFailure::Page(UnreadPage::TooSlow)),
            CallOutcome::Ended(ProcessEnd::Stopped) => {
                Err(PdfFailure::Refused(LoadError::NotRead("its reading was interrupted".to_owned())))
            }
            CallOutcome::Ended(ProcessEnd::TooLong(most)) => {
                let reason = format!("{SEGMENT_PAGES} of its pages have more than {most} bytes of text");
                Err(PdfFailure::Refused(LoadError::OverLimit(reason)))
            }
            CallOutcome::Ended(_) => Err(PdfFailure::Page(UnreadPage::Crashed)),
        }
    }

    fn start(&self) -> Result<PdfWorker, LoadError> {
        let mut command = Command::new(&self.program.program);
        command.args(&self.program.arguments).arg(self.library);
        let protocol = LineProtocol {
            number: "call",
            max_bytes: MOST_REPLY,
            refuses_strays: true,
            is_guarded: true,
            secrets: Vec::new(),
        };
        // PDFium's standard error is passed over.
        let process = LineProcess::start(command, protocol, Some(Box::new(|_, _| {})));
        let not_started = |error| LoadError::NotRead(format!("the process that reads PDFs cannot be started: {error}"));
        Ok(PdfWorker { process: process.map_err(not_started)?, answered: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that runs a shell script for each request: the script ends, or prints a reply for the call `$call`.
    fn scripted(script: &str) -> PdfProgram {
        let program = format!(
            "while read -r line; do call=$(printf '%s' \"$line\" | sed 's/.*\"call\":\\([0-9]*\\).*/\\1/'); {script}\ndone"
        );
        PdfProgram::new("/bin/sh", ["-c", &program, "worker"])
    }

    /// A reply with these facts and pages.
    fn reply(facts: &str, pages: &str) -> String {
        format!(
            "printf '{{\"call\":%s,\"outcome\":{{\"Ok\":{{\"facts\":{facts},\"pages\":{{\"lines\":[{pages}]}}}}}}}}\\n' \"$call\""
        )
    }

    fn lines(program: &PdfProgram) -> Result<Vec<Result<String, UnreadPage>>, LoadError> {
        let (pool, reading) = (&PdfPool::default(), PageReading::Lines);
        let (library, file) = (Path::new("none"), Path::new("a.pdf"));
        match Reading::new(pool, program, library, file, reading).all(&ParseLimits::default())?.1 {
            PdfPages::Lines(pages) => Ok(pages),
            PdfPages::Layout(_) | PdfPages::Pictures(_) | PdfPages::Views(_) => Ok(Vec::new()),
        }
    }

    const TWO_PAGES: &str = r#"{"pages":2,"title":null,"author":null,"date":null,"bookmarks":[]}"#;

    #[test]
    fn a_crash_on_a_page_loses_this_page_and_a_crash_at_the_start_the_file() {
        let (opened, first) = (reply(TWO_PAGES, ""), reply("null", r#"{"Ok":"one"}"#));
        let script = format!(
            r#"case "$line" in *'"first":1,"last":0,'*) {opened};; *'"first":1,"last":1,'*) {first};; *) exit 7;; esac"#
        );
        assert_eq!(lines(&scripted(&script)).unwrap(), [Ok("one".to_owned()), Err(UnreadPage::Crashed)]);
        let crashed = lines(&scripted("kill -SEGV $$")).unwrap_err();
        assert_eq!(crashed, LoadError::Broken("PDFium crashed on it".to_owned()));
    }

    #[test]
    fn segments_are_about_equal_and_each_process_gets_as_many() {
        let lengths =
            |pages, free| segments(pages, free).iter().map(|segment| segment.clone().count()).collect::<Vec<_>>();
        assert_eq!(segments(0, 2), []);
        assert_eq!((segments(3, 16), segments(79, 16)), (vec![1..=3], vec![1..=79]));
        assert_eq!(segments(101, 2), [1..=50, 51..=101]);
        assert_eq!((lengths(300, 2), lengths(300, 1)), (vec![75; 4], vec![100; 3]));
        assert_eq!(lengths(1000, 3), [111, 111, 111, 111, 111, 111, 111, 111, 112]);
        assert_eq!((lengths(160, 16), lengths(7, 0)), (vec![40; 4], vec![7]));
        let all: Vec<u32> = segments(12_345, 7).into_iter().flatten().collect();
        assert_eq!(all, (1..=12_345).collect::<Vec<_>>());
    }

    #[test]
    fn an_answer_that_is_no_answer_and_a_program_that_is_not_there_are_told() {
        assert_eq!(lines(&scripted("echo hello")).unwrap_err(), LoadError::Broken("PDFium crashed on it".to_owned()));
        let missing = lines(&PdfProgram::new("/no/such/program", ["x"])).unwrap_err();
        assert!(matches!(&missing, LoadError::NotRead(reason) if reason.contains("cannot be started")), "{missing}");
    }
}

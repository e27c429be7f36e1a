//! All names that this crate uses in a store, built and parsed in one place, and what the store
//! must know about them.
//!
//! Other names (checksums, model calls, leases, objects that were set aside)
//! are made by the store itself; see [`store::Layout`].

use crate::artifact;
use bytes::Bytes;
use rag::index::IndexKind;
use std::path::{Path, PathBuf};
use store::{Key, ObjectKind};

/// The folder of all outputs of tasks.
pub(crate) const ARTIFACTS: &str = "artifacts";
const PARTIAL: &str = "partial";
const PARTS: &str = "parts";
const TOKENS: &str = "tokens";
const FILLS: &str = "fills";
const RUNS: &str = "runs";
const LATEST: &str = ".latest";
const REPORT_PARTS: &str = "report-parts";
const TRIALS: &str = "trials";
const QUESTIONS: &str = "questions";
const PROBES: &str = "probes";
const SCRATCH: &str = "scratch";
/// The folder of parts of indexes of texts, in the folder of files that are of no use to other machines.
pub(crate) const INDEX_PARTS: &str = "index-parts";
/// The folder, among the scratch files, of what runs have counted in shards and chunks.
pub(crate) const SUMMARIES: &str = "summaries";
/// The folder, among the scratch files, of tables of chunks.
pub(crate) const CHUNK_TABLES: &str = "chunk-tables";
/// The folder, among the scratch files, of dense indexes whose vectors the next index takes over.
pub(crate) const DENSE_INDEXES: &str = "dense-indexes";
const WORKERS: &str = "workers";
const QUALIFICATIONS: &str = "qualifications";
const USAGE: &str = "usage";
const LATENCY: &str = "latency";
const EVIDENCE: &str = "evidence";
const FORGOTTEN: &str = "forgotten";
const PENDING: &str = ".pending.json";
const STEERING: &str = "steering";
const LIVE: &str = "live";

/// The format of an output of a task, by the ending of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A table.
    Parquet,
    /// A file of an index.
    Index(IndexKind),
}

impl Format {
    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Parquet).chain(IndexKind::ALL.iter().copied().map(Self::Index))
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Index(kind) => kind.name(),
        }
    }

    fn of(name: &str) -> Option<Self> {
        let ending = name.rsplit('.').next();
        Self::all().find(|format| Some(format.ending()) == ending)
    }

    /// What is wrong with an output of this format, as far as the format shows it.
    fn problem(self, bytes: Bytes) -> Option<String> {
        let looked = match self {
            Self::Parquet => artifact::check(bytes),
            Self::Index(kind) => kind.verify_bytes(&bytes).map_err(Into::into),
        };
        looked.err().map(|error| crate::error_chain(&error))
    }
}

/// A file of a run's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFileName {
    /// The experiment as it was.
    Experiment,
    /// What happened.
    Events,
    /// The names of the artifacts that the results come from.
    Artifacts,
    /// From which artifacts each of the run's artifacts is made.
    Lineage,
    /// The report page.
    Report,
    /// The documents that the run was made from.
    Documents,
    /// What the run was made from: its provenance.
    Frozen,
    /// What the leaderboard says, and the questions.
    Summary,
    /// The results. They are copied last: where they are, all other files are too.
    Results,
}

impl RunFileName {
    /// All of them, in the order in which they are copied.
    pub(crate) const ALL: [Self; 9] = [
        Self::Experiment,
        Self::Events,
        Self::Artifacts,
        Self::Lineage,
        Self::Report,
        Self::Documents,
        Self::Frozen,
        Self::Summary,
        Self::Results,
    ];

    /// Its name in the folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Experiment => "experiment.toml",
            Self::Events => "events.jsonl",
            Self::Artifacts => "artifacts.json",
            Self::Lineage => "lineage.json",
            Self::Report => "report.html",
            Self::Documents => "documents.jsonl",
            Self::Frozen => "frozen.json",
            Self::Summary => "summary.json",
            Self::Results => "results.json",
        }
    }

    /// Where it is on this machine, in a run's folder.
    pub fn within(self, folder: &Path) -> PathBuf {
        folder.join(self.name())
    }
}

/// The folder, beside the report page, of files that the page loads when it is opened. It exists if
/// the page does not hold everything.
pub fn report_parts() -> &'static str {
    REPORT_PARTS
}

/// `artifacts/ab/<key>.<format>`: the output of a task.
pub(crate) fn artifact(key: &Key, format: Format) -> String {
    let hex = key.hex();
    format!("{ARTIFACTS}/{}/{hex}.{}", &hex[..2], format.ending())
}

/// `usage/ab/<key>.<format>.json`: what the model calls of a task used. Its name is that
/// of the task's output, so that a partial output has usage of its own.
pub(crate) fn usage(artifact: &str) -> String {
    of_output(USAGE, artifact)
}

/// `latency/ab/<key>.<format>.json`: the latency of the retrieval that made this output
/// of a task.
pub(crate) fn latency(artifact: &str) -> String {
    of_output(LATENCY, artifact)
}

/// `evidence/ab/<key>.<format>.json`: what was found out about golden evidence that a search did
/// not find, such as the chunk that holds it. Its name is that of the search's output.
pub(crate) fn evidence(artifact: &str) -> String {
    of_output(EVIDENCE, artifact)
}

/// The output that a file in `usage`, `latency` or `evidence` belongs to.
fn measured_output(name: &str) -> Option<String> {
    let (_, rest) = name.split_once('/')?;
    let of = rest.strip_suffix(".json")?;
    Some(if is_below(of, PARTIAL) { of.to_owned() } else { format!("{ARTIFACTS}/{of}") })
}

fn of_output(folder: &str, artifact: &str) -> String {
    let name = artifact.strip_prefix(ARTIFACTS).map_or(artifact, |rest| rest.trim_start_matches('/'));
    format!("{folder}/{name}.json")
}

/// `artifacts/ab`: the folder of every output whose key begins with the same two hex digits as `key`.
/// If `key` is that of a whole range of questions (`plan::ranges`), the outputs of the range's parts
/// are in it, among others: the caller selects them by their keys.
pub(crate) fn artifact_folder(key: &Key) -> String {
    format!("{ARTIFACTS}/{}", &key.hex()[..2])
}

/// The key of the task whose output has this name.
pub(crate) fn artifact_key(name: &str) -> Option<Key> {
    let (hex, _) = name.rsplit('/').next()?.split_once('.')?;
    Key::from_hex(hex)
}

/// Whether an output, whole or partial, says where records are in a database.
pub(crate) fn is_of_database(name: &str) -> bool {
    Format::of(name) == Some(Format::Index(IndexKind::Database))
}

/// Whether a name is that of a whole output, not of a partial one.
pub(crate) fn is_artifact(name: &str) -> bool {
    is_below(name, ARTIFACTS)
}

/// `partial/<run>/<time>-artifacts-ab-<key>.<format>`: an output that lacks
/// something. It must not be found under its task's key.
pub(crate) fn partial(run: &str, now_ms: i64, artifact: &str) -> String {
    format!("{PARTIAL}/{run}/{now_ms}-{}", artifact.replace('/', "-"))
}

/// `partial/parts/<task>`: the folder of the finished parts of an unfinished
/// embedding task.
pub(crate) fn parts(task: &Key) -> String {
    format!("{PARTIAL}/{PARTS}/{}", task.hex())
}

/// The vectors of some of a task's texts. The name holds the range and the
/// digest, so that a truncated or replaced part is noticed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VectorPart {
    /// The first text.
    pub(crate) from: usize,
    /// The text after the last.
    pub(crate) to: usize,
    /// The short key of its bytes.
    pub(crate) digest: String,
}

impl VectorPart {
    /// `<folder>/<from>-<to>-<digest>.parquet`.
    pub(crate) fn name(&self, folder: &str) -> String {
        let Self { from, to, digest } = self;
        format!("{folder}/{from:09}-{to:09}-{digest}.{}", Format::Parquet.ending())
    }

    /// Reads a part's name; none if the name is not that of a part.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let file = name.rsplit('/').next()?.strip_suffix(Format::Parquet.ending())?.strip_suffix('.')?;
        let mut words = file.split('-');
        let (from, to, digest) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?);
        words.next().is_none().then(|| Self { from, to, digest: digest.to_owned() })
    }
}

/// `partial/tokens/<task>/<first>.tokens`: the token vectors of some of a
/// task's texts, from the text with the number `first` on.
pub(crate) fn token_part(task: &Key, first: usize) -> String {
    format!("{PARTIAL}/{TOKENS}/{}/{first:08}.{}", task.hex(), Format::Index(IndexKind::Tokens).ending())
}

/// `partial/fills/<task>`: how far an unfinished task has filled a database.
pub(crate) fn fill_progress(task: &Key) -> String {
    format!("{PARTIAL}/{FILLS}/{}", task.hex())
}

/// `runs/<run>/<file>`.
pub(crate) fn run_file(run: &str, file: RunFileName) -> String {
    format!("{RUNS}/{run}/{}", file.name())
}

/// `runs/<run>/report-parts`: the folder of the parts of a run's report.
pub(crate) fn report_parts_of(run: &str) -> String {
    format!("{RUNS}/{run}/{REPORT_PARTS}")
}

/// `runs/<run>/report-parts/<part>`.
pub(crate) fn report_part(run: &str, part: &str) -> String {
    format!("{RUNS}/{run}/{REPORT_PARTS}/{part}")
}

/// `runs/<run>/trials/<file>`: what a run found for each question in one of its trials.
pub(crate) fn trial_rows(run: &str, file: &str) -> String {
    format!("{RUNS}/{run}/{TRIALS}/{file}")
}

/// `runs/<run>/trials`: the folder of the rows of all trials.
pub(crate) fn trial_rows_of(run: &str) -> String {
    format!("{RUNS}/{run}/{TRIALS}")
}

/// Where the rows of a trial are on this machine, in a run's folder.
pub(crate) fn trial_rows_within(folder: &Path, file: &str) -> PathBuf {
    folder.join(TRIALS).join(file)
}

/// `<trial>-<digest>.parquet`: the name of the file of a trial's rows in its folder. It holds the digest, so that
/// results and rows always belong together: a run that is repeated writes other rows into other files, and then names
/// these.
pub(crate) fn rows_file(trial: &str, bytes: &[u8]) -> String {
    format!("{trial}-{}.{}", Key::of_bytes(bytes).short(), Format::Parquet.ending())
}

/// Whether these are the bytes of the file of rows with this name. Never for a name that leads out of its folder.
pub(crate) fn is_rows_file(file: &str, bytes: &[u8]) -> bool {
    is_rows_name(file) && file.ends_with(&rows_file("", bytes))
}

/// Whether a name may be that of a file of rows: it is one part of a path.
pub(crate) fn is_rows_name(file: &str) -> bool {
    file.ends_with(".parquet") && !file.contains(['/', '\\', ':'])
}

/// `runs/<experiment>.latest`: which run of an experiment was the last.
pub(crate) fn latest(experiment: &str) -> String {
    format!("{RUNS}/{experiment}{LATEST}")
}

/// `questions/<key>.json`: the questions for a cluster's workers.
pub(crate) fn questions(bytes: &[u8]) -> String {
    format!("{QUESTIONS}/{}.json", Key::of_bytes(bytes).hex())
}

/// `probes/<driver>`: an object that workers must find, which shows that they use the same store.
pub(crate) fn probe(driver: &str) -> String {
    format!("{PROBES}/{driver}")
}

/// `steering/<run>`: the folder of what people want a run to do.
pub(crate) fn acts_of(run: &str) -> String {
    format!("{STEERING}/{run}")
}

/// `steering/<run>/<number>.json`: one act of steering.
pub(crate) fn act(run: &str, number: u64) -> String {
    format!("{STEERING}/{run}/{number:08}.json")
}

/// The number of an act, from its name.
pub(crate) fn act_number(name: &str) -> Option<u64> {
    name.rsplit('/').next()?.strip_suffix(".json")?.parse().ok()
}

/// `scratch/live/<run>.json`: how a run is doing now. Its process writes it again and again.
pub(crate) fn live(run: &str) -> String {
    format!("{SCRATCH}/{LIVE}/{run}.json")
}

/// `scratch/live`: the folder of what [`live`] names.
pub(crate) fn live_folder() -> String {
    format!("{SCRATCH}/{LIVE}")
}

/// The folder of all runs on this machine.
pub(crate) fn runs_folder(root: &Path) -> PathBuf {
    root.join(RUNS)
}

/// The folder of a run on this machine.
pub(crate) fn run_folder(root: &Path, run: &str) -> PathBuf {
    runs_folder(root).join(run)
}

/// The folder of files that are of no use to other machines.
pub(crate) fn scratch_folder(root: &Path) -> PathBuf {
    root.join(SCRATCH)
}

/// The event log of a worker of a cluster.
pub(crate) fn worker_log(root: &Path, run: &str) -> PathBuf {
    root.join(WORKERS).join(format!("{run}-{}.jsonl", store::unique_token()))
}

/// A judge's record by the key of its identity.
pub(crate) fn qualification(judge: &Key) -> String {
    format!("{QUALIFICATIONS}/{}.json", judge.short())
}

/// `forgotten/<time>-<digest>.json`: the certificate of documents that were forgotten.
pub(crate) fn certificate(now_ms: i64, digest: &str) -> String {
    format!("{FORGOTTEN}/{now_ms}-{digest}.json")
}

/// `forgotten/<token>.pending.json`: the note of a removal that has not ended.
pub(crate) fn pending_removal(token: &str) -> String {
    format!("{FORGOTTEN}/{token}{PENDING}")
}

/// Whether an object of [`forgotten_folder`] is the note of a removal that has not ended; otherwise it is a certificate.
pub(crate) fn is_pending_removal(name: &str) -> bool {
    name.ends_with(PENDING)
}

/// The folder of certificates and notes about documents that were forgotten.
pub(crate) fn forgotten_folder() -> &'static str {
    FORGOTTEN
}

/// What an object of a store means to a removal of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamedObject<'a> {
    /// A whole output of a task.
    Artifact,
    /// A partial output: its task's key.
    Partial(Option<Key>),
    /// What was measured when the output of this name was made.
    Measurement(String),
    /// A file of a run.
    RunFile { run: &'a str, file: Option<RunFileName> },
    /// A part of a run's report.
    ReportPart { run: &'a str },
    /// The rows of one trial of a run.
    TrialRows { run: &'a str, file: &'a str },
    /// The event log of a worker.
    WorkerLog,
    /// The questions for a cluster's workers.
    Questions,
    /// A file that this machine alone can use.
    Scratch,
    /// An object of the store itself, or one without content of documents.
    Known,
    /// An object that has another origin.
    Unknown,
}

impl<'a> NamedObject<'a> {
    pub(crate) fn of(name: &'a str) -> Self {
        let parts: Vec<&str> = name.split('/').collect();
        match parts[..] {
            [ARTIFACTS, ..] => Self::Artifact,
            [PARTIAL, PARTS | TOKENS | FILLS, task, ..] => Self::Partial(Key::from_hex(task)),
            [PARTIAL, _, file] => Self::Partial(file.rsplit('-').next().and_then(artifact_key)),
            [USAGE | LATENCY | EVIDENCE, ..] => measured_output(name).map_or(Self::Unknown, Self::Measurement),
            [RUNS, run, file] => {
                Self::RunFile { run, file: RunFileName::ALL.into_iter().find(|known| known.name() == file) }
            }
            [RUNS, run, REPORT_PARTS, _] => Self::ReportPart { run },
            [RUNS, run, TRIALS, file] => Self::TrialRows { run, file },
            [RUNS, pointer] if pointer.ends_with(LATEST) => Self::Known,
            [WORKERS, _] => Self::WorkerLog,
            [QUESTIONS, ..] => Self::Questions,
            [SCRATCH, ..] => Self::Scratch,
            [PROBES | QUALIFICATIONS | FORGOTTEN | STEERING, ..] => Self::Known,
            _ if store::is_of_store(name) => Self::Known,
            _ => Self::Unknown,
        }
    }
}

/// What is wrong with an output of a task, by its name, as far as its format
/// shows it. Outputs of versions that wrote no checksum can only be checked
/// this way.
pub(crate) fn problem(name: &str, bytes: Bytes) -> Option<String> {
    Format::of(name)?.problem(bytes)
}

fn is_below(name: &str, folder: &str) -> bool {
    name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Tells the store what its names mean. Every store of an experiment is opened
/// with [`LAYOUT`].
#[derive(Debug)]
struct Names;

/// The layout of an experiment's store.
pub const LAYOUT: &dyn store::Layout = &Names;

impl store::Layout for Names {
    fn kind(&self, name: &str) -> ObjectKind {
        let parts: Vec<&str> = name.split('/').collect();
        match parts[..] {
            [ARTIFACTS, _, file] => match file.split_once('.') {
                Some((_, format)) => ObjectKind::Artifact { format: format.to_owned() },
                None => ObjectKind::Other,
            },
            // All runs can use the parts of an unfinished task.
            [PARTIAL, PARTS | TOKENS | FILLS, ..] => ObjectKind::Partial { run: None },
            [PARTIAL, run, ..] => ObjectKind::Partial { run: Some(run.to_owned()) },
            [RUNS, run, file] => {
                let known = RunFileName::ALL.into_iter().find(|known| known.name() == file);
                let file = match known {
                    Some(RunFileName::Results) => store::RunFile::Results,
                    Some(RunFileName::Artifacts) => store::RunFile::Artifacts,
                    Some(RunFileName::Documents) => store::RunFile::Other,
                    _ if file.ends_with(".jsonl") => store::RunFile::Log,
                    _ if file.ends_with(".json") => store::RunFile::Json,
                    _ => store::RunFile::Other,
                };
                ObjectKind::Run { run: run.to_owned(), file }
            }
            [RUNS, run, REPORT_PARTS | TRIALS, _] => {
                ObjectKind::Run { run: run.to_owned(), file: store::RunFile::Other }
            }
            [RUNS, pointer] if pointer.ends_with(LATEST) => ObjectKind::Pointer,
            [USAGE | LATENCY | EVIDENCE, ..] => {
                measured_output(name).map_or(ObjectKind::Other, |of| ObjectKind::Measurement { of })
            }
            [QUESTIONS, ..] => ObjectKind::Input,
            [SCRATCH, ..] => ObjectKind::Machine,
            _ => ObjectKind::Other,
        }
    }

    fn runs(&self) -> &str {
        RUNS
    }

    fn problem(&self, name: &str, bytes: Bytes) -> Option<String> {
        problem(name, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::of_bytes(b"task")
    }

    #[test]
    fn names_are_what_they_were_in_every_earlier_version() {
        let (key, hex) = (key(), key().hex());
        assert_eq!(artifact(&key, Format::Index(IndexKind::Dense)), format!("artifacts/{}/{hex}.dense", &hex[..2]));
        assert_eq!(
            partial("r", 7, &artifact(&key, Format::Parquet)),
            format!("partial/r/7-artifacts-{}-{hex}.parquet", &hex[..2])
        );
        let part = VectorPart { from: 64, to: 128, digest: "0123456789ab".to_owned() };
        let name = part.name(&parts(&key));
        assert_eq!(name, format!("partial/parts/{hex}/000000064-000000128-0123456789ab.parquet"));
        assert_eq!(VectorPart::parse(&name), Some(part));
        assert_eq!(token_part(&key, 256), format!("partial/tokens/{hex}/00000256.tokens"));
        assert_eq!(run_file("r", RunFileName::Results), "runs/r/results.json");
        assert_eq!(report_part("r", "trial-0.js"), "runs/r/report-parts/trial-0.js");
        assert_eq!(trial_rows("r", "t01-ab.parquet"), "runs/r/trials/t01-ab.parquet");
        assert_eq!(rows_file("t01", b"task"), format!("t01-{}.parquet", key.short()));
        assert_eq!(artifact_folder(&key), format!("artifacts/{}", &hex[..2]));
        assert_eq!(artifact_key(&artifact(&key, Format::Parquet)), Some(key));
        assert_eq!(artifact_key("artifacts/ab/notes.txt"), None);
        assert_eq!(usage(&artifact(&key, Format::Parquet)), format!("usage/{}/{hex}.parquet.json", &hex[..2]));
        assert_eq!(latency("partial/r/7-x.parquet"), "latency/partial/r/7-x.parquet.json");
        for output in [artifact(&key, Format::Parquet), "partial/r/7-x.parquet".to_owned()] {
            for name in [usage(&output), latency(&output), evidence(&output)] {
                assert_eq!(LAYOUT.kind(&name), ObjectKind::Measurement { of: output.clone() }, "{name}");
            }
        }
        assert_eq!(latest("animals"), "runs/animals.latest");
        assert_eq!(questions(b"task"), format!("questions/{hex}.json"));
        assert_eq!(qualification(&key), format!("qualifications/{}.json", key.short()));
        assert_eq!((act("r", 3), act_number(&act("r", 3))), ("steering/r/00000003.json".to_owned(), Some(3)));
        assert_eq!((live("r"), act_number("steering/r/note.txt")), ("scratch/live/r.json".to_owned(), None));
    }

    #[test]
    fn a_store_is_told_what_every_name_is() {
        let kind = |name: &str| LAYOUT.kind(name);
        for format in Format::all() {
            assert_eq!(kind(&artifact(&key(), format)), ObjectKind::Artifact { format: format.ending().to_owned() });
        }
        assert_eq!(kind(&partial("r", 7, "artifacts/ab/x.parquet")), ObjectKind::Partial { run: Some("r".to_owned()) });
        assert_eq!(kind(&token_part(&key(), 0)), ObjectKind::Partial { run: None });
        assert_eq!(kind(&fill_progress(&key())), ObjectKind::Partial { run: None });
        assert_eq!(kind(&format!("{}/x.parquet", parts(&key()))), ObjectKind::Partial { run: None });
        let files = RunFileName::ALL.map(|file| match kind(&run_file("r", file)) {
            ObjectKind::Run { run, file } if run == "r" => Some(file),
            _ => None,
        });
        use store::RunFile as Of;
        let expected =
            [Of::Other, Of::Log, Of::Artifacts, Of::Json, Of::Other, Of::Other, Of::Json, Of::Json, Of::Results];
        assert_eq!(files, expected.map(Some));
        for name in [report_part("r", "trial-0.js"), trial_rows("r", &rows_file("t01", b"x"))] {
            assert_eq!(kind(&name), ObjectKind::Run { run: "r".to_owned(), file: Of::Other }, "{name}");
        }
        assert_eq!((kind(&latest("animals")), kind(&questions(b"x"))), (ObjectKind::Pointer, ObjectKind::Input));
        assert_eq!((kind("scratch/tokens"), kind(&probe("x"))), (ObjectKind::Machine, ObjectKind::Other));
        assert_eq!(
            kind("artifacts/ab/x.of-another-version"),
            ObjectKind::Artifact { format: "of-another-version".to_owned() }
        );
    }

    #[test]
    fn an_output_that_is_cut_off_is_told_by_its_format() {
        for format in Format::all() {
            let problem = LAYOUT.problem(&artifact(&key(), format), Bytes::from_static(b"cut"));
            assert!(problem.is_some(), "{format:?}");
        }
        assert_eq!(LAYOUT.problem("artifacts/ab/x.other", Bytes::new()), None);
    }

    #[test]
    fn the_name_of_a_part_holds_a_range_and_a_digest_and_nothing_else() {
        let parse = |name: &str| VectorPart::parse(name).map(|part| (part.from, part.to, part.digest));
        let good = Some((64, 128, "0123456789ab".to_owned()));
        assert_eq!(parse("partial/parts/x/000000064-000000128-0123456789ab.parquet"), good);
        assert_eq!(parse("64-128-0123456789ab.parquet"), good, "the folder and zeros do not matter");
        for name in [
            "",
            "note.txt",
            "64-128-ab.tokens",
            "64-128-ab",
            "64-128-abparquet",
            "64-128.parquet",
            "64-128-ab-cd.parquet",
            "-64-128-ab.parquet",
            "a-128-ab.parquet",
            "64-b-ab.parquet",
            "64-128-ab.parquet.usage",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_of_rows_is_known_by_its_digest_and_never_lies_elsewhere() {
        let file = rows_file("t01", b"rows");
        assert!(is_rows_name(&file) && is_rows_file(&file, b"rows") && !is_rows_file(&file, b"other"));
        let digest = Key::of_bytes(b"rows").short();
        for other in [format!("../t01-{digest}.parquet"), format!("a\\t01-{digest}.parquet"), format!("t01-{digest}")] {
            assert!(!is_rows_file(&other, b"rows") && !is_rows_name(&other), "{other}");
        }
    }

    #[test]
    fn names_that_only_begin_alike_are_of_another_kind() {
        assert!(is_artifact("artifacts/ab/x.parquet") && is_artifact("artifacts/"));
        assert!(!is_artifact("artifacts") && !is_artifact("artifacts2/x") && !is_artifact("partial/r/artifacts/x"));
        let kind = |name: &str| LAYOUT.kind(name);
        for name in [
            "",
            "artifacts",
            "artifacts/x.parquet",
            "artifacts/ab/cd/x.parquet",
            "artifacts/ab/without-a-format",
            "runs",
            "runs/x",
            "runs/x.latest/results.json",
            "usage",
            "usage/ab/x.parquet",
            "latency/ab/x.parquet.txt",
        ] {
            let is_run = matches!(kind(name), ObjectKind::Run { .. });
            assert!(
                kind(name) == ObjectKind::Other || is_run && name.starts_with("runs/x.latest/"),
                "{name}: {:?}",
                kind(name)
            );
        }
        assert_eq!(kind("runs/x.latest"), ObjectKind::Pointer);
        let other = ObjectKind::Run { run: "r".to_owned(), file: store::RunFile::Other };
        assert_eq!((kind("runs/r/notes.txt"), kind("runs/r/report-parts/a.js")), (other.clone(), other));
        let log = ObjectKind::Run { run: "r".to_owned(), file: store::RunFile::Log };
        assert_eq!(kind("runs/r/of-another-version.jsonl"), log);
    }

    #[test]
    fn a_removal_knows_what_every_name_is() {
        let (key, run) = (key(), "animals-1");
        let whole = artifact(&key, Format::Parquet);
        let partial = super::partial(run, 7, &whole);
        for (name, expected) in [
            (whole.clone(), NamedObject::Artifact),
            (usage(&whole), NamedObject::Measurement(whole.clone())),
            (latency(&partial), NamedObject::Measurement(partial.clone())),
            (partial, NamedObject::Partial(Some(key))),
            (token_part(&key, 3), NamedObject::Partial(Some(key))),
            (format!("{}/0-1-ab.parquet.usage", parts(&key)), NamedObject::Partial(Some(key))),
            (run_file(run, RunFileName::Results), NamedObject::RunFile { run, file: Some(RunFileName::Results) }),
            (format!("runs/{run}/notes.txt"), NamedObject::RunFile { run, file: None }),
            (report_part(run, "a.js"), NamedObject::ReportPart { run }),
            (trial_rows(run, "t01-ab.parquet"), NamedObject::TrialRows { run, file: "t01-ab.parquet" }),
            ("workers/animals-1-ab.jsonl".to_owned(), NamedObject::WorkerLog),
            (questions(b"x"), NamedObject::Questions),
            ("scratch/summaries/ab".to_owned(), NamedObject::Scratch),
            (latest("animals"), NamedObject::Known),
            (pending_removal("ab"), NamedObject::Known),
            (act(run, 3), NamedObject::Known),
            (live(run), NamedObject::Scratch),
            ("journal.db-wal".to_owned(), NamedObject::Known),
            (format!("journal/ab/{}.json", key.hex()), NamedObject::Known),
            ("leases/ab/0.json".to_owned(), NamedObject::Known),
            (format!("checksums/{whole}.{}", key.hex()), NamedObject::Known),
            ("notes.txt".to_owned(), NamedObject::Unknown),
        ] {
            assert_eq!(NamedObject::of(&name), expected, "{name}");
        }
        assert!(is_pending_removal(&pending_removal("ab")) && !is_pending_removal(&certificate(7, "ab")));
    }

    #[test]
    fn a_key_is_read_from_a_name_with_any_ending() {
        let (key, hex) = (key(), key().hex());
        for name in [format!("artifacts/ab/{hex}.dense"), format!("{hex}.a.b"), format!("usage/ab/{hex}.parquet.json")]
        {
            assert_eq!(artifact_key(&name), Some(key), "{name}");
        }
        for name in [hex.clone(), format!("artifacts/{}.parquet", &hex[1..]), format!("{hex}/x.parquet"), String::new()]
        {
            assert_eq!(artifact_key(&name), None, "{name}");
        }
    }
}

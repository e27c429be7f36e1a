//! `reverie promote`: a trial as a bundle that can be served anywhere.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice},
    environment,
    failure::CommandFailure,
    render,
};
use lab::Promotion;
use rag::vector_index::VectorIndexConfig;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Make a bundle of a trial: everything needed to serve it without the store.
///
/// A bundle holds the resolved pipeline, its chunks and indexes, the identities of
/// its models, its scores with their intervals, and the digest of every file. It is
/// never changed. The models themselves are not in it.
///
/// With `--into`, the chunks and vectors are also written into a database, and the
/// bundle searches there: processes that serve it hold no vectors. The database then
/// searches for the vector of every golden question, and the share of the nearest
/// chunks that it finds is shown and kept in the bundle; `reverie check --database`
/// compares with it later. A trial that writes its queries anew is tried with the
/// vectors of some of its chunks instead.
///
/// Of a trial that is another system, the bundle holds its scores alone: it is a
/// baseline for `reverie check`, and cannot be served.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie promote --output bundles/manuals-1
  reverie promote t05 --output s3://bucket/manuals-2
  reverie serve bundles/manuals-1
  reverie promote --output bundles/manuals-3 --into pgvector --alias manuals
  reverie promote --output bundles/manuals-3 --into chroma://127.0.0.1:8000
  reverie promote --output bundles/manuals-3 --into '{ pgvector = { url = \"env:DOCS_URL\", schema = \"docs\" } }'

An address with a password belongs in a variable: `--into pgvector` reads DATABASE_URL.
`pgvector://`, `postgresql://` and `qdrant+https://` are addresses too.
The bundle names the variable but does not hold its value: set it wherever you serve the bundle.")]
pub struct PromoteArguments {
    /// The trial; default: the winner, else the first of the leaderboard.
    trial: Option<String>,
    /// Where the bundle is made: a new folder, or a URL such as s3://bucket/manuals-1.
    #[arg(long, value_name = "PLACE", value_hint = clap::ValueHint::AnyPath)]
    output: String,
    /// Write chunks and vectors into this database: its name, an address, or name and settings as on the axis `index`.
    #[arg(long, value_name = "DATABASE")]
    into: Option<String>,
    /// With --into: then point this alias to the new collection, for other programs. `reverie database roll-back` undoes
    /// it.
    #[arg(long, value_name = "NAME", requires = "into")]
    alias: Option<String>,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

/// How many notes tell the progress of a fill.
const NOTE_EVERY: usize = 10;

pub async fn run(cx: &CommandContext, arguments: PromoteArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_maybe_read_only(environment::read(&arguments.file.experiment)?, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    let answering = record.answering(arguments.trial.as_deref())?;
    if let Some(note) = &answering.note {
        cx.note(note);
    }
    let (output, trial) = (&arguments.output, &answering.trial);
    let manifest = match arguments.into {
        None => lab::Bundle::make(&session, &record, trial, output).await?,
        Some(into) => {
            // The error does not repeat what was written, which may hold a password.
            let index = VectorIndexConfig::named(&into);
            let index = index.map_err(|error| CommandFailure::usage(format!("--into: {error}")))?;
            let promotion = Promotion { index, alias: arguments.alias };
            let (all, written) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let expect = |records: usize| {
                all.store(records, Ordering::Relaxed);
                cx.note(format_args!("{records} chunks go into {}", promotion.index.name()));
            };
            let report = |records: usize| {
                let before = written.fetch_add(records, Ordering::Relaxed);
                let share = |written: usize| written * NOTE_EVERY / all.load(Ordering::Relaxed).max(1);
                if share(before + records) > share(before) {
                    cx.note(format_args!("{} of them written", before + records));
                }
            };
            let made = promotion.make_bundle(&session, &record, trial, output, (&expect, &report));
            tokio::select! {
                made = made => made?,
                () = cx.cancel.cancelled() => return Err(lab::Error::Interrupted.into()),
            }
        }
    };
    let use_it = match record.system_of(&answering.trial) {
        Some(system) => format!("later runs of {system} are compared with it by: reverie check --against {output}"),
        None => format!("serve it with: reverie serve {output}"),
    };
    cx.finish(&manifest, |manifest| {
        format!(
            "{output}: trial {} of run {}, {:.1} MB, digest {}\n{}{use_it}",
            manifest.trial,
            manifest.run,
            manifest.bytes() as f64 / 1e6,
            &manifest.digest()[..12],
            manifest.database.as_ref().map(render::promoted_index).unwrap_or_default(),
        )
    })
}

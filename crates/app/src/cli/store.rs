//! `reverie store`: statistics, verification, cleanup and copies of stores.

use crate::{
    command::{CommandContext, Confirmation, DryRun, ExperimentFile, refuse_positional_experiment},
    environment,
    failure::{CommandFailure, INCOMPLETE},
    option_values::{parse_age, unix_ms_before},
    render,
};
use ::store::{
    ArtifactStore, Layout, Location,
    upkeep::{self, Retention},
};
use lab::layout::LAYOUT;
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf, time::Duration};

/// Inspect, verify, clean up and copy a store: artifacts, model calls and runs, in a folder or on S3, GCS or Azure.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie store stats
  reverie store stats s3://bucket/experiments --json | jq .kinds
  reverie store verify -f books.toml
  reverie store gc --unused --dry-run
  reverie store copy store s3://bucket/experiments

STORE is a folder or a URL (s3://bucket/prefix, gs://…, az://…); default: the experiment's.
Access: AWS_…, GOOGLE_… and AZURE_… variables; see `reverie --help`.")]
pub struct StoreArguments {
    #[command(subcommand)]
    verb: StoreVerb,
}

#[derive(clap::Subcommand)]
enum StoreVerb {
    /// Count objects and bytes by kind and by run.
    #[command(after_help = "Examples:
  reverie store stats
  reverie store stats s3://bucket/experiments --json | jq '.runs[] | {run, artifacts}'

Artifacts that runs share are counted for each of them.")]
    Stats {
        #[command(flatten)]
        place: StoreChoice,
    },
    /// Read every object, and name the damaged ones.
    #[command(after_help = "Examples:
  reverie store verify
  reverie store verify s3://bucket/experiments --json | jq '.damaged | length'

Everything is compared with its checksum; artifacts without a checksum
are checked by their format. A damaged artifact is moved below `damaged/` in the store,
and the next run makes it again. Nothing else is changed.
Exit codes: 0 all is intact, 1 something is damaged.")]
    Verify {
        #[command(flatten)]
        place: StoreChoice,
        /// Only name what is damaged, and leave it where it is.
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove objects that are no longer needed.
    #[command(after_help = "Examples:
  reverie store gc --dry-run                           # partial outputs, what killed writers left, what was damaged
  reverie store gc --unused --dry-run                  # and artifacts that no finished run refers to
  reverie store gc --keep animals-0a1b2c3d4e5f --yes   # and artifacts that only other runs use
  reverie store gc --unused --keep-plan next.toml --yes

Only files older than --older-than are removed, and none that a run in progress uses:
each run says what it uses, and counts as dead when it has not said so for ten minutes.
Runs themselves and model calls are never removed. Parts of uploads that
were broken off are removed by the object store's own rules for them.")]
    Gc {
        #[command(flatten)]
        place: StoreChoice,
        /// Only what is older than this: a number with s, m, h, d or w.
        #[arg(long, value_name = "AGE", value_parser = parse_age, default_value = "7d")]
        older_than: Duration,
        /// Also remove artifacts that no finished run refers to.
        #[arg(long)]
        unused: bool,
        /// Keep what this run refers to, and also remove all other artifacts; may be given more than once.
        #[arg(long, value_name = "RUN")]
        keep: Vec<String>,
        /// With --unused or --keep: keep what this experiment file would use; may be given more than once.
        #[arg(long, value_name = "FILE")]
        keep_plan: Vec<PathBuf>,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Copy a store to another place. Nothing is overwritten; what is there is passed over.
    #[command(
        override_usage = "reverie store copy [OPTIONS] [FROM] <TO>",
        after_help = "Examples:
  reverie store copy store s3://bucket/experiments
  reverie store copy s3://bucket/experiments backup
  reverie store copy -f books.toml gs://bucket/experiments    # the store of an experiment
  reverie store copy store s3://bucket/experiments --dry-run

An interrupted copy goes on where it was. Model calls go along, so that nothing is
paid anew: from the journal file of a folder to objects of an object store, and
back. Scratch files belong to their machine and stay.
Exit codes: 0 all is there, 3 some names are there with another size and were left,
or some model calls could not be copied."
    )]
    Copy {
        /// From where and to where: folders or URLs. If there is one, the
        /// experiment's store is copied there.
        #[arg(required = true, num_args = 1..=2, value_name = "PLACE")]
        places: Vec<String>,
        #[command(flatten)]
        file: ExperimentFile,
        #[command(flatten)]
        dry_run: DryRun,
    },
}

/// The store that a verb works on.
#[derive(clap::Args)]
struct StoreChoice {
    /// A folder or a URL. Default: the store of the experiment.
    #[arg(conflicts_with = "experiment")]
    store: Option<String>,
    #[command(flatten)]
    file: ExperimentFile,
}

impl StoreChoice {
    fn address(self) -> Result<String, CommandFailure> {
        match self.store {
            Some(store) => Ok(store),
            None => experiment_store(&self.file),
        }
    }
}

/// The address of an experiment's store.
fn experiment_store(file: &ExperimentFile) -> Result<String, CommandFailure> {
    Ok(lab::Workspace::address(&environment::read(&file.experiment)?))
}

pub async fn run(cx: &CommandContext, arguments: StoreArguments) -> Result<u8, CommandFailure> {
    match arguments.verb {
        StoreVerb::Stats { place } => {
            let store = open_to_read(&place.address()?).await?;
            let inventory = upkeep::inventory(&store).await?;
            let mut value = json!(inventory);
            value["store"] = json!(store.location().to_string());
            let pending = lab::pending_removals(&store).await?;
            value["pending_removals"] = json!(pending);
            cx.finish(&value, |_| {
                let lines =
                    pending.iter().map(|note| format!("\n{}: `reverie forget --yes` finishes it", note.sentence()));
                render::inventory(store.location(), &inventory) + &lines.collect::<String>()
            })
        }
        StoreVerb::Verify { place, dry_run } => {
            let store = place.address()?;
            let store = if dry_run { open_to_read(&store).await? } else { open(&store).await? };
            let bar = render::ByteBar::start(environment::audience());
            let on_progress = |read: upkeep::ObjectAmount| bar.show(read.bytes, None);
            let verified = upkeep::verify(&store, !dry_run, on_progress).await;
            bar.finish();
            let verified = verified?;
            cx.show(&verified, |_| render::verification(store.location(), &verified))?;
            Ok(u8::from(!verified.damaged.is_empty()))
        }
        StoreVerb::Gc { place, older_than, unused, keep, keep_plan, confirmation } => {
            let yes = confirmation.is_given("store gc", "removes objects of the store")?;
            let address = place.address()?;
            let wanted = Retention {
                since_unix_ms: unix_ms_before(older_than),
                only_used: unused || !keep.is_empty(),
                runs: keep,
                artifacts: planned_artifacts(cx, &keep_plan).await?,
            };
            gc(cx, &open(&address).await?, &wanted, yes).await
        }
        StoreVerb::Copy { places, file, dry_run } => {
            refuse_positional_experiment(&places, "store copy")?;
            match &places[..] {
                [from, to] => copy(cx, from, to, dry_run.is_on).await,
                [to] => copy(cx, &experiment_store(&file)?, to, dry_run.is_on).await,
                _ => Err(CommandFailure::usage("name the folder or URL to copy to")),
            }
        }
    }
}

/// The artifacts that experiment files would use.
async fn planned_artifacts(cx: &CommandContext, files: &[PathBuf]) -> Result<BTreeSet<String>, CommandFailure> {
    let mut names = BTreeSet::new();
    for file in files {
        let session = environment::open(file, cx.setup())?;
        let prepared = session.prepare().await?;
        names.extend(prepared.plan.tasks.iter().map(lab::Task::artifact));
    }
    Ok(names)
}

async fn gc(
    cx: &CommandContext,
    store: &ArtifactStore,
    retention: &Retention,
    yes: bool,
) -> Result<u8, CommandFailure> {
    let mut garbage = upkeep::find_garbage(store, retention).await?;
    // A collection goes first: an artifact without one is filled again, a collection without one is never found.
    let collections = match yes {
        true => lab::remove_collections(store, &mut garbage, &cx.setup().environment).await?,
        false => lab::unused_collections(store, &garbage).await?,
    };
    if yes {
        upkeep::remove(store, &garbage, |_| {}).await?;
        lab::remove_orphaned_indexes(store);
    }
    let mut value = json!(garbage);
    value["removed"] = json!(yes);
    value["collections"] = json!(collections);
    cx.finish(&value, |_| render::garbage(&garbage, &collections, yes))
}

async fn copy(cx: &CommandContext, from: &str, to: &str, dry_run: bool) -> Result<u8, CommandFailure> {
    let from = open_to_read(from).await?;
    if dry_run {
        return print_copy_plan(cx, &from, to).await;
    }
    let to = ArtifactStore::open(to, &environment::store_options(), LAYOUT)?;
    to.probe().await?;
    let scratch = std::env::temp_dir().join(format!("reverie-copy-{}", ::store::unique_token()));
    let bar = render::ByteBar::start(environment::audience());
    let copied = upkeep::copy(&from, &to, &scratch, |progress| bar.show(progress.done.bytes, Some(progress.all.bytes)));
    let copied = tokio::select! {
        copied = copied => copied,
        () = cx.cancel.cancelled() => return Err(lab::Error::Interrupted.into()),
    };
    bar.finish();
    // Only copies of large objects between two object stores create the folder.
    let _ = std::fs::remove_dir(&scratch);
    let copied = copied?;
    cx.show(&copied, |_| render::copy_result(to.location(), &copied))?;
    Ok(if copied.is_whole() { 0 } else { INCOMPLETE })
}

/// Prints what a copy would write. A folder that does not exist yet is not created.
async fn print_copy_plan(cx: &CommandContext, from: &ArtifactStore, to: &str) -> Result<u8, CommandFailure> {
    let is_new = matches!(Location::parse(to)?, Location::Folder(folder) if !folder.is_dir());
    let target = if is_new { None } else { Some(open_to_read(to).await?) };
    let missing = upkeep::plan_copy(from, target.as_ref()).await?;
    cx.finish(&missing, |_| render::copy_plan(to, &missing))
}

/// Opens an existing store.
async fn open(text: &str) -> Result<ArtifactStore, CommandFailure> {
    open_with(text, ArtifactStore::open).await
}

/// Opens an existing store for reading.
async fn open_to_read(text: &str) -> Result<ArtifactStore, CommandFailure> {
    open_with(text, ArtifactStore::open_to_read).await
}

type OpenStore = fn(&str, &[(String, String)], &'static dyn Layout) -> Result<ArtifactStore, ::store::Error>;

async fn open_with(address: &str, open_store: OpenStore) -> Result<ArtifactStore, CommandFailure> {
    refuse_positional_experiment(&[address.to_owned()], "store")?;
    if let Location::Folder(folder) = Location::parse(address)?
        && !folder.is_dir()
    {
        return Err(CommandFailure::usage(format!("there is no store at {}: nothing was run yet", folder.display())));
    }
    let store = open_store(address, &environment::store_options(), LAYOUT)?;
    store.probe().await?;
    Ok(store)
}

//! `reverie database`: the collections that Reverie has filled in a database, and their aliases.

use crate::{
    command::{CommandContext, Confirmation},
    failure::CommandFailure,
    render,
};
use lab::OpenDatabase;
use rag::vector_index::VectorIndexConfig;
use serde_json::json;

/// List, swap and remove what Reverie has written into a vector database.
///
/// `reverie promote --into` fills a collection, and `--alias` points a name to it, which
/// other programs use. A table or collection that Reverie has not made is never changed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie database list pgvector
  reverie database roll-back pgvector manuals
  reverie database swap pgvector manuals reverie_1f0c…
  reverie database remove pgvector reverie_1f0c… --yes

DATABASE is a name with its default settings (pgvector reads DATABASE_URL), an address
without a password (chroma://127.0.0.1:8000, qdrant+https://host:6333), or name and
settings as on the axis `index`. In PostgreSQL an alias is a view, in Chroma an empty
collection that names another one.")]
pub struct DatabaseArguments {
    #[command(subcommand)]
    verb: DatabaseVerb,
}

#[derive(clap::Subcommand)]
enum DatabaseVerb {
    /// The collections that Reverie has made, and the aliases that point to them.
    List {
        #[command(flatten)]
        database: DatabaseChoice,
    },
    /// Point an alias to a complete collection.
    Swap {
        #[command(flatten)]
        database: DatabaseChoice,
        /// The alias.
        alias: String,
        /// The collection.
        collection: String,
    },
    /// Point an alias back to the collection to which it pointed before.
    RollBack {
        #[command(flatten)]
        database: DatabaseChoice,
        /// The alias.
        alias: String,
    },
    /// Remove a collection to which no alias points. Bundles that search in it stop working.
    Remove {
        #[command(flatten)]
        database: DatabaseChoice,
        /// The collection.
        collection: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

#[derive(clap::Args)]
struct DatabaseChoice {
    /// Its name, its address, or name and settings.
    database: String,
}

impl DatabaseChoice {
    /// Opens it. An error does not repeat what was written, which may hold a password.
    fn open(&self, cx: &CommandContext) -> Result<OpenDatabase, CommandFailure> {
        let settings = VectorIndexConfig::named(&self.database).map_err(CommandFailure::usage)?;
        Ok(OpenDatabase::open(settings, &cx.setup().environment)?)
    }
}

pub async fn run(cx: &CommandContext, arguments: DatabaseArguments) -> Result<u8, CommandFailure> {
    match arguments.verb {
        DatabaseVerb::List { database } => {
            let database = database.open(cx)?;
            let collections = database.collections().await?;
            let value = json!({ "address": database.address(), "collections": collections });
            cx.finish(&value, |_| render::database_collections(&database.address(), &collections))
        }
        DatabaseVerb::Swap { database, alias, collection } => {
            cx.finish(&database.open(cx)?.swap(&alias, &collection).await?, render::alias_swap)
        }
        DatabaseVerb::RollBack { database, alias } => {
            cx.finish(&database.open(cx)?.roll_back(&alias).await?, render::alias_swap)
        }
        DatabaseVerb::Remove { database, collection, confirmation } => {
            let does = "removes a collection, which bundles may search in";
            let yes = confirmation.is_given("database remove", does)?;
            let database = database.open(cx)?;
            let removed = match yes {
                true => database.remove(&collection).await?,
                false => database.find_removable(&collection).await?,
            };
            let value = json!({ "collection": removed, "removed": yes });
            let did = if yes { "removed" } else { "would be removed" };
            cx.finish(&value, |_| format!("{removed} {did}"))
        }
    }
}

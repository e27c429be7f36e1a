//! `reverie models`: list, pull and describe models and libraries.

use crate::{
    command::{CommandContext, pull_models},
    environment,
    failure::CommandFailure,
    render,
};
use models::Catalogue;

/// List, pull and describe models.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie models
  reverie models pull all-minilm-l6-v2 onnxruntime pdfium
  reverie models show qwen2.5-coder-0.5b-instruct
  reverie models pull hf:sentence-transformers/all-MiniLM-L12-v2")]
pub struct ModelsArguments {
    #[command(subcommand)]
    verb: Option<ModelsVerb>,
}

#[derive(clap::Subcommand)]
enum ModelsVerb {
    /// List the catalogue.
    List,
    /// Download models or libraries; interrupted downloads go on where they stopped.
    Pull {
        /// Names from the catalogue, `onnxruntime`, `pdfium`, or `hf:owner/repository`.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Show licence, dimensions, context length, size and files of a model.
    Show {
        /// The model's name.
        name: String,
    },
}

pub async fn run(cx: &CommandContext, arguments: ModelsArguments) -> Result<u8, CommandFailure> {
    let directory = environment::model_directory();
    let catalogue = Catalogue::embedded();
    match arguments.verb.unwrap_or(ModelsVerb::List) {
        ModelsVerb::List => {
            cx.show(&catalogue.entries, |_| render::catalogue(catalogue, &directory))?;
        }
        ModelsVerb::Show { name } => {
            let entry = catalogue.find(&name).ok_or_else(|| {
                CommandFailure::usage(format!(
                    "there is no model `{name}` in the catalogue; `reverie models` lists all"
                ))
            })?;
            cx.show(entry, |_| render::catalogue_entry(entry, &directory))?;
        }
        ModelsVerb::Pull { names } => pull_models(&names).await?,
    }
    Ok(0)
}

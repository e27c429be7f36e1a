//! `reverie models`: list, pull and describe models and libraries.

use super::{Context, Failure};
use crate::{environment, render};
use models::Catalogue;

/// List, pull and describe models.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie models
  reverie models pull all-minilm-l6-v2 onnxruntime pdfium
  reverie models show qwen2.5-coder-0.5b-instruct
  reverie models pull hf:sentence-transformers/all-MiniLM-L12-v2")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List the catalogue.
    List,
    /// Download models or libraries; interrupted downloads go on where they stopped.
    Pull {
        /// Names from the catalogue, `onnxruntime`, `pdfium`, or `hf:owner/repository`.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Tell licence, dimensions, context length, size and sources of a model.
    Show {
        /// The model's name.
        name: String,
    },
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let directory = environment::model_directory();
    let catalogue = Catalogue::embedded();
    match arguments.verb.unwrap_or(Verb::List) {
        Verb::List => {
            if cx.json {
                cx.print_json(&catalogue.entries)?;
            } else {
                cx.print(render::catalogue(catalogue, &directory));
            }
        }
        Verb::Show { name } => {
            let entry = catalogue.find(&name).ok_or_else(|| {
                Failure::usage(format!("there is no model `{name}` in the catalogue; `reverie models` lists it"))
            })?;
            if cx.json {
                cx.print_json(entry)?;
            } else {
                cx.print(render::catalogue_entry(entry, &directory));
            }
        }
        Verb::Pull { names } => pull(cx, &names).await?,
    }
    Ok(0)
}

/// Pulls with a progress bar per file.
pub async fn pull(_cx: &Context, names: &[String]) -> Result<(), Failure> {
    let directory = environment::model_directory();
    let options = environment::pull_options();
    for name in names {
        let bars = render::PullBars::new(name, environment::watched());
        directory.pull(name, &options, &move |event| bars.event(&event)).await?;
    }
    Ok(())
}

//! `reverie init`: a commented experiment file for a folder.

use crate::{command::CommandContext, failure::CommandFailure};
use models::provider::ModelContext;
use rag::system::{GuessedPaths, SystemConfig, SystemContext, SystemQuestion};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Write a commented experiment file for a folder of documents.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie init ~/books
  reverie init ./manuals --output manuals.toml
  reverie init ./manuals --system http://127.0.0.1:8000/ask --question 'How is the mast put up?'")]
pub struct InitArguments {
    /// The folder with the documents.
    folder: PathBuf,
    /// The file to write.
    #[arg(long, value_name = "FILE", default_value = "experiment.toml")]
    output: PathBuf,
    /// The address of a RAG system to measure, such as `http://127.0.0.1:8000/ask`, or OpenAI's chat protocol at
    /// `…/v1/chat/completions`. It is asked one question, and the file says where its reply holds what.
    #[arg(long, value_name = "URL")]
    system: Option<String>,
    /// The question that the system is asked.
    #[arg(long, value_name = "TEXT", default_value = "What is this about?", requires = "system")]
    question: String,
    /// The name of the system's model in OpenAI's protocol.
    #[arg(long, value_name = "NAME", default_value = "default", requires = "system")]
    model: String,
}

const TEMPLATE: &str = include_str!("init.toml");
const SYSTEM_TEMPLATE: &str = include_str!("init_system.toml");
/// The end of an address that speaks OpenAI's chat protocol.
const CHAT: &str = "/chat/completions";

pub async fn run(cx: &CommandContext, arguments: InitArguments) -> Result<u8, CommandFailure> {
    let folder = &arguments.folder;
    if !folder.is_dir() {
        return Err(CommandFailure::usage(format!("{} is not a folder", folder.display())));
    }
    if arguments.output.exists() {
        return Err(CommandFailure::usage(format!(
            "{} is there already; name another with --output",
            arguments.output.display()
        )));
    }
    let absolute = folder.canonicalize().map_err(CommandFailure::at(folder))?;
    let name: String =
        absolute.file_name().map_or_else(|| "experiment".to_owned(), |name| name.to_string_lossy().into_owned());
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' }).collect();
    // A relative path is relative to the experiment file, so it is kept if that is written here.
    let is_beside = arguments.output.parent().is_none_or(|parent| parent == Path::new(""));
    let source = if is_beside { folder } else { &absolute };
    let source = serde_json::Value::String(source.display().to_string()).to_string();
    let (template, next) = match &arguments.system {
        Some(url) => {
            let tried = try_system(cx, url, &arguments).await?;
            cx.print(format_args!("{}", tried.words()));
            (tried.fill(SYSTEM_TEMPLATE), "next: write golden questions into golden.jsonl, and")
        }
        None => (TEMPLATE.to_owned(), "next: reverie models pull all-minilm-l6-v2 onnxruntime pdfium &&"),
    };
    let text = template.replace("{name}", &name).replace("{source}", &source);
    lab::write_new(&arguments.output, text.as_bytes())?;
    let output = arguments.output.display().to_string();
    // The default name needs no flag.
    let flag = if output == "experiment.toml" { String::new() } else { format!(" -f {output}") };
    cx.print(format_args!("wrote {output}\n{next} reverie plan{flag} && reverie run{flag}"));
    Ok(0)
}

/// A system that replied to one question.
struct TriedSystem {
    /// The setting that says how it is asked.
    kind: Value,
    paths: GuessedPaths,
    reply: Value,
    seconds: f64,
}

/// Asks a system one question.
async fn try_system(cx: &CommandContext, url: &str, arguments: &InitArguments) -> Result<TriedSystem, CommandFailure> {
    let unreadable = |error: serde_json::Error| CommandFailure::usage(format!("{url}: {error}"));
    let kind = match url.strip_suffix(CHAT) {
        Some(base_url) => json!({ "openai": { "base_url": base_url, "model": arguments.model } }),
        None => json!({ "http": { "url": url } }),
    };
    let config: SystemConfig = serde_json::from_value(kind.clone()).map_err(unreadable)?;
    let setup = cx.setup();
    let cpu = models::CpuBudget::new(1);
    let models = ModelContext { directory: setup.directory, cpu, environment: setup.environment };
    let context = SystemContext {
        name: "app",
        models: &models,
        version: "",
        version_header: None,
        price: None,
        base: Path::new("."),
    };
    let failed = |error: models::Error| CommandFailure::usage(format!("{url}: {}", lab::error_chain(&error)));
    config.settings().check(&BTreeMap::new()).map_err(|reason| CommandFailure::usage(format!("{url}: {reason}")))?;
    let system = config.build(&context).map_err(failed)?;
    let parameters = BTreeMap::new();
    let question =
        SystemQuestion { id: "q1", text: &arguments.question, history: &[], seed: 0, parameters: &parameters };
    let reply = system.service().call(&system.request(&question)).await.map_err(failed)?;
    Ok(TriedSystem { kind, paths: GuessedPaths::of(&reply.body), reply: reply.body, seconds: reply.seconds })
}

impl TriedSystem {
    /// What the reply holds, for people.
    fn words(&self) -> String {
        let GuessedPaths { answer, passages, .. } = &self.paths;
        let reply: String = self.reply.to_string().chars().take(200).collect();
        let found = match (answer, passages) {
            (Some(answer), Some(passages)) => format!("its answer is at `{answer}`, its passages are at `{passages}`"),
            (Some(answer), None) => {
                format!("its answer is at `{answer}`; no passages were found: set `passages` if it returns some")
            }
            (None, Some(passages)) => {
                format!("its passages are at `{passages}`; no answer was found: set `answer` if it writes one")
            }
            (None, None) => {
                "neither answer nor passages were found: set `answer` and `passages` in the file".to_owned()
            }
        };
        format!("it replied after {:.2} s: {reply}\n{found}", self.seconds)
    }

    /// The template of an experiment file with what was found.
    fn fill(&self, template: &str) -> String {
        let mut kind = self.kind.clone();
        let GuessedPaths { answer, passages, text, document } = &self.paths;
        if let Some(settings) = kind.as_object_mut().and_then(|kind| kind.values_mut().next()?.as_object_mut()) {
            let is_openai = self.kind.get("openai").is_some();
            if !is_openai && (answer.is_some() || passages.is_some()) {
                settings.insert("answer".to_owned(), json!(answer.clone().unwrap_or_default()));
            }
            settings.extend(passages.iter().map(|passages| ("passages".to_owned(), json!(passages))));
            let parts = [("text", text), ("document", document)];
            let parts: serde_json::Map<String, Value> =
                parts.into_iter().filter_map(|(name, path)| Some((name.to_owned(), json!(path.clone()?)))).collect();
            if !parts.is_empty() {
                settings.insert("passage".to_owned(), Value::Object(parts));
            }
        }
        let (mut metrics, mut objective) = (Vec::new(), Vec::new());
        if passages.is_some() {
            metrics.extend(["recall", "precision", "mrr", "ndcg"]);
            objective.push("ndcg");
        }
        if answer.is_some() || passages.is_none() {
            metrics.extend(["token_f1", "rouge_l"]);
            objective.push("token_f1");
        }
        template
            .replace("{kind}", &lines_of(&kind))
            .replace("{metrics}", &json!(metrics).to_string())
            .replace("{objective}", &json!(objective).to_string())
    }
}

/// The keys of a table as lines of TOML with inline tables.
fn lines_of(table: &Value) -> String {
    let keys = table.as_object().into_iter().flatten();
    keys.map(|(name, value)| format!("{name} = {}", lab::inline_toml(value))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(kind: Value, reply: Value) -> TriedSystem {
        TriedSystem { kind, paths: GuessedPaths::of(&reply), reply, seconds: 0.25 }
    }

    #[test]
    fn the_file_says_where_the_reply_holds_answer_and_passages() {
        let reply = json!({ "answer": "x", "sources": [{ "content": "a", "source": "f.pdf" }] });
        let text = tried(json!({ "http": { "url": "http://h/ask" } }), reply).fill(SYSTEM_TEMPLATE);
        let text = text.replace("{name}", "x").replace("{source}", "\".\"");
        let experiment = lab::Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
        let shown = serde_json::to_value(&experiment.systems["app"]).unwrap();
        assert_eq!(shown["http"]["passages"], "sources");
        assert_eq!(shown["http"]["passage"]["text"], "content");
        assert_eq!(shown["http"]["passage"]["document"], "source");
        assert_eq!(experiment.evaluate.objective, ["ndcg", "token_f1"]);
    }

    #[test]
    fn openais_protocol_needs_no_path_to_its_answer() {
        let kind = json!({ "openai": { "base_url": "http://h/v1", "model": "m" } });
        let reply = json!({ "choices": [{ "message": { "content": "x" } }] });
        let tried = tried(kind, reply);
        let text = tried.fill(SYSTEM_TEMPLATE).replace("{name}", "x").replace("{source}", "\".\"");
        let experiment = lab::Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
        assert_eq!(experiment.evaluate.objective, ["token_f1"]);
        assert!(tried.words().contains("no passages were found"));
    }
}

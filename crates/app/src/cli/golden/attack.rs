//! `reverie golden attack`: golden questions with planted documents that try to
//! make a pipeline obey them.

use crate::{
    command::{
        CommandContext, ExperimentFile, note_ignored_columns, note_unread_files, open_questions, refuse_to_replace,
        writable_format, write_new_file,
    },
    environment,
    failure::CommandFailure,
    option_values::parse_name,
};
use eval::{
    attack::{AttackOptions, attack},
    dataset::{AttackKind, ColumnSet},
};
use lab::Documents;
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf};

/// Plant documents that attack golden questions, to measure how often answers obey them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie golden attack golden.jsonl --documents documents/added --output attacked.jsonl
  reverie golden attack golden.jsonl --documents documents/added --size 40 --kind hijack

How to use it: the poisoned documents go into a folder below that of the corpus,
so that they are retrieved beside the honest ones. In an experiment of their own:

  [corpus]
  source = \"documents\"                # holds documents/added
  [dataset]
  path = \"attacked.jsonl\"
  [evaluate]
  metrics = [\"attack_success\", { attack_success = { kind = \"hijack\" } }, \"recall\"]

The experiment without attacks leaves them out: exclude = [\"added/**\"] under [corpus].
Kinds: instruction (write a code word), hijack (answer something else), extraction
(repeat the instructions), canary (add a link). One kind for each question, in turns.")]
pub struct AttackArguments {
    /// The questions.
    #[arg(default_value = "golden.jsonl")]
    questions: PathBuf,
    #[command(flatten)]
    file: ExperimentFile,
    /// The folder for the poisoned documents: one below the corpus' own.
    #[arg(long, value_name = "FOLDER")]
    documents: PathBuf,
    /// Where the attacked questions go.
    #[arg(long, value_name = "FILE", default_value = "attacked.jsonl")]
    output: PathBuf,
    /// A kind of attack, in turns with others: instruction, hijack, extraction, canary. Default: all.
    #[arg(long = "kind", value_parser = parse_name::<AttackKind>)]
    kinds: Vec<AttackKind>,
    /// How many questions are attacked. Default: all.
    #[arg(long)]
    size: Option<usize>,
    /// Makes the code words and the choice of questions repeatable.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A part of your own prompts that an answer must not hold, for extraction; may be given more than once.
    #[arg(long, value_name = "TEXT")]
    instructions: Vec<String>,
    /// Replace existing files.
    #[arg(long)]
    yes: bool,
}

pub async fn run(cx: &CommandContext, arguments: AttackArguments) -> Result<u8, CommandFailure> {
    let AttackArguments { questions, file, documents, output, mut kinds, size, seed, instructions, yes } = arguments;
    let format = writable_format(&output)?;
    refuse_to_replace(&output, yes)?;
    let opened = open_questions(&questions)?;
    note_ignored_columns(cx, &opened);
    if kinds.is_empty() {
        kinds = AttackKind::ALL.to_vec();
    }
    if size == Some(0) {
        return Err(CommandFailure::usage("--size: must be at least 1; leave it out to attack all questions"));
    }
    if instructions.iter().any(|part| part.trim().is_empty()) {
        return Err(CommandFailure::usage("--instructions: the text is empty, and every answer would hold it"));
    }
    if let Some(question) = opened.dataset.questions.iter().find(|question| question.attack.is_some()) {
        return Err(CommandFailure::usage(format!(
            "{}: question `{}` is already attacked: use the original questions",
            questions.display(),
            question.id
        )));
    }
    let attacked = attack(&opened.dataset, &AttackOptions { kinds, seed, size, instructions });
    let session = environment::open(&file.experiment, cx.setup())?;
    let corpus = lab::load_corpus(&session).await?;
    note_unread_files(cx, &corpus);
    let found = Documents::Corpus(&corpus).find_words(&attacked.code_words).await;
    corpus.end().await;
    if let Some((word, path)) = found?.first() {
        return Err(CommandFailure::usage(format!(
            "the code word {word} stands in the corpus already, in {path}: choose another --seed, or take the documents \
             of an earlier attack away"
        )));
    }
    std::fs::create_dir_all(&documents).map_err(CommandFailure::at(&documents))?;
    for (name, _) in &attacked.documents {
        refuse_to_replace(&documents.join(name), yes)?;
    }
    for (name, text) in &attacked.documents {
        write_new_file(&documents.join(name), text.as_bytes(), yes)?;
    }
    let bytes = attacked.dataset.export(format, ColumnSet::Reverie).map_err(CommandFailure::runtime)?;
    write_new_file(&output, &bytes, yes)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for attack in attacked.dataset.questions.iter().filter_map(|question| question.attack.as_ref()) {
        *counts.entry(attack.kind.name()).or_default() += 1;
    }
    cx.finish(&json!({ "file": output, "documents": documents, "kinds": counts }), |_| {
        let counts: Vec<String> = counts.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
        format!(
            "{}: {} attacked questions ({})\n{}: {} poisoned documents",
            output.display(),
            attacked.dataset.questions.len(),
            counts.join(", "),
            documents.display(),
            attacked.documents.len()
        )
    })
}

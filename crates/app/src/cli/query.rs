//! `reverie query`: an answer with sources.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice, ask_trial, note_answer, open_pipeline},
    environment,
    failure::CommandFailure,
    render::{self, LiveAnswer},
};
use ::models::Message;
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

/// How long a service may take: longer than its own default deadline.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(300);

/// Answer a question with the winner of the last run, or the first of its leaderboard, naming the sources.
///
/// The answer comes from the trial as it was in that run: its settings, and the
/// documents as they were read then. Changes since then are reported. On a terminal
/// the answer is shown as it is written.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie query \"How do I build a source package?\"
  reverie query \"What is a virtual package?\" --trial t05 --json
  reverie query --chat                       # asks for questions until Ctrl-D
  reverie query --chat < questions.txt       # a question on each line, one conversation

In a conversation, each question comes after those before it and their answers.
The trial's `query` component decides what it makes of them.")]
pub struct QueryArguments {
    /// The question; the first one of a conversation.
    #[arg(required_unless_present = "chat")]
    question: Option<String>,
    /// Go on with the conversation: read questions from the terminal or a pipe, one on each line.
    #[arg(long)]
    chat: bool,
    /// Another trial than the winner.
    #[arg(long)]
    trial: Option<String>,
    /// Ask a running `reverie serve` instead, such as http://127.0.0.1:8080; REVERIE_KEY holds its key, if it wants one.
    #[arg(long, value_name = "URL", conflicts_with_all = ["chat", "trial", "run"])]
    url: Option<String>,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

/// The JSON output: an answer, and what has changed since the run of its trial.
#[derive(Serialize)]
struct AnswerOutput {
    #[serde(flatten)]
    answered: lab::TrialAnswer,
    changed_since: Vec<String>,
}

pub async fn run(cx: &CommandContext, arguments: QueryArguments) -> Result<u8, CommandFailure> {
    if arguments.question.as_ref().is_some_and(|question| question.trim().is_empty()) {
        return Err(CommandFailure::usage("the question is empty"));
    }
    if let Some(url) = &arguments.url {
        return ask_service(cx, url, &arguments.question.unwrap_or_default()).await;
    }
    let session = environment::open_maybe_read_only(environment::read(&arguments.file.experiment)?, cx.setup())?;
    if session.workspace().is_reading() {
        cx.note("note: the store cannot be written to: this answer is not kept, and is paid again the next time");
    }
    let record = arguments.run.record(cx, &session).await?;
    // A pipe gets the complete answer: printed text cannot be taken back if the model restarts.
    let live = (!cx.json && io::stdout().is_terminal()).then(|| LiveAnswer::new(io::stdout()));
    let pipeline = open_pipeline(cx, &session, &record, arguments.trial.as_deref()).await?;
    if arguments.chat {
        return chat(cx, &session, &record, &pipeline, arguments.question, live.as_ref()).await;
    }
    let answered = ask_trial(&pipeline, &arguments.question.unwrap_or_default(), &[], live.as_ref()).await?;
    note_answer(cx, &answered);
    print_text(cx, &answered, live.is_some());
    let changed_since = cx.note_changes_since(&session, &record).await;
    if cx.json {
        cx.print_json(&AnswerOutput { answered, changed_since })?;
    }
    Ok(0)
}

/// Asks a service, and shows its answer as that of a run.
async fn ask_service(cx: &CommandContext, url: &str, question: &str) -> Result<u8, CommandFailure> {
    #[derive(serde::Deserialize, Serialize)]
    struct ServiceSource {
        file: String,
        page: Option<u32>,
        book: Option<String>,
        heading: Option<String>,
        score: f32,
        quote: String,
    }
    #[derive(serde::Deserialize)]
    struct ServiceAnswer {
        answer: String,
        model: String,
        sources: Vec<ServiceSource>,
        remarks: Vec<String>,
    }
    let failed = |reason: &dyn std::fmt::Display| CommandFailure::runtime(format!("--url {url}: {reason}"));
    let client = store::http_client().connect_timeout(Duration::from_secs(10)).timeout(SERVICE_TIMEOUT);
    let client = client.build().map_err(|error| failed(&error))?;
    let route = format!("{}/rag/answer", url.trim_end_matches('/'));
    let route = reqwest::Url::parse_with_params(&route, [("query", question)]).map_err(|error| failed(&error))?;
    let mut request = client.get(route);
    if let Some(key) = environment::environment_variable("REVERIE_KEY") {
        if ::models::lacks_tls(url) {
            cx.warn(format_args!(
                "the key in REVERIE_KEY goes to {url} without TLS, where everybody on the way can read it"
            ));
        }
        request = request.bearer_auth(key);
    }
    let response = request.send().await.map_err(|error| failed(&lab::error_chain(&error)))?;
    let status = response.status();
    let body: serde_json::Value = response.json().await.map_err(|error| failed(&lab::error_chain(&error)))?;
    if !status.is_success() {
        let reason = body["error"]["message"].as_str().map_or_else(|| body.to_string(), str::to_owned);
        return Err(failed(&format!("{status}: {reason}")));
    }
    if cx.json {
        cx.print_json(&body)?;
        return Ok(0);
    }
    let answer: ServiceAnswer = serde_json::from_value(body).map_err(|error| failed(&error))?;
    answer.remarks.iter().for_each(|remark| cx.note(format_args!("note: {remark}")));
    let passage = |source: ServiceSource| {
        let ServiceSource { file, page, book, heading, score, quote } = source;
        rag::Passage { page, book, heading, score, ..rag::Passage::of_text(file, quote) }
    };
    let passages: Vec<rag::Passage> = answer.sources.into_iter().map(passage).collect();
    cx.print(format_args!("{}\n", answer.answer));
    cx.print(render::sources_of(&format!("{} at {url}", answer.model), &passages, question));
    Ok(0)
}

/// Prints an answer with its sources as text, but not with `--json`; if the answer was shown live, only the sources.
fn print_text(cx: &CommandContext, answered: &lab::TrialAnswer, is_shown: bool) {
    if cx.json {
        return;
    }
    if is_shown {
        let gap = answered.answer.as_ref().map_or("", |_| "\n\n");
        cx.print(format_args!("{gap}{}", render::sources(answered)));
    } else {
        cx.print(render::answer(answered));
    }
}

/// Answers the questions of one conversation until the input ends. If a question
/// fails, a pipe's conversation ends; at a terminal it goes on without that question.
async fn chat(
    cx: &CommandContext,
    session: &lab::Session,
    record: &lab::RunRecord,
    pipeline: &lab::RunPipeline,
    first: Option<String>,
    live: Option<&LiveAnswer<io::Stdout>>,
) -> Result<u8, CommandFailure> {
    if !pipeline.reads_history() {
        cx.note(format_args!(
            "note: trial `{}` has no `query` component, so that each question is searched as it is written, without \
             what was said before it",
            pipeline.trial().id
        ));
    }
    let changed_since = cx.note_changes_since(session, record).await;
    let at_terminal = io::stdin().is_terminal();
    let mut history: Vec<Message> = Vec::new();
    let mut next = first;
    loop {
        let question = match next.take() {
            Some(question) => question,
            None => match line(at_terminal)? {
                Some(line) => line,
                None => return Ok(0),
            },
        };
        if question.trim().is_empty() {
            continue;
        }
        let answered = match ask_trial(pipeline, question.trim(), &history, live).await {
            Ok(answered) => answered,
            Err(failure) if at_terminal && failure.code == 1 => {
                cx.warn(&failure.message);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        note_answer(cx, &answered);
        if !at_terminal && !cx.json {
            // Without the question, the output of a pipe would be a list of answers only.
            cx.print(format_args!("> {}", question.trim()));
        }
        print_text(cx, &answered, live.is_some());
        history.push(Message::user(question.trim()));
        history.extend(answered.answer.iter().map(|answer| Message::assistant(&*answer.text)));
        // With `--json`, the answer as JSON; otherwise an empty line after the text.
        cx.show(&AnswerOutput { answered, changed_since: changed_since.clone() }, |_| "")?;
    }
}

/// Reads the next line; `None` at the end of the input.
fn line(at_terminal: bool) -> Result<Option<String>, CommandFailure> {
    if at_terminal {
        let mut stderr = io::stderr();
        let _ = stderr.write_all(b"> ").and_then(|()| stderr.flush());
    }
    let mut line = String::new();
    let n_bytes = io::stdin().read_line(&mut line).map_err(|error| {
        CommandFailure::runtime(format!("standard input cannot be read as lines of UTF-8: {error}"))
    })?;
    Ok((n_bytes > 0).then_some(line))
}

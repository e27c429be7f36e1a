//! `reverie query`: an answer with sources.

use super::{
    Context, Failure,
    options::{ExperimentFile, RunChoice},
    since,
};
use crate::{
    environment,
    render::{self, LiveAnswer},
};
use ::models::Message;
use rag::pipeline::PipelineEvent;
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
/// documents as they were read then. What changed since is told. On a terminal
/// the answer is shown as it is written.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie query \"How do I build a source package?\"
  reverie query \"What is a virtual package?\" --trial t05 --json
  reverie query --chat                       # asks for questions until Ctrl-D
  reverie query --chat < questions.txt       # a question on each line, one conversation

In a conversation, each question comes after those before it and their answers.
The trial's `query` component decides what it makes of them.")]
pub struct Arguments {
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

/// An answer, and what has changed since the run of its trial.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    answered: lab::Answered,
    changed_since: Vec<String>,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    if arguments.question.as_ref().is_some_and(|question| question.trim().is_empty()) {
        return Err(Failure::usage("the question is empty"));
    }
    if let Some(url) = &arguments.url {
        return ask_service(cx, url, &arguments.question.unwrap_or_default()).await;
    }
    let session = environment::open_or_read(environment::read(&arguments.file.experiment)?, cx.setup())?;
    if session.workspace().is_reading() {
        cx.note("note: the store cannot be written to: this answer is not kept, and is paid again the next time");
    }
    let record = arguments.run.record(cx, &session).await?;
    // A pipe gets the answer when it is whole: what was printed cannot be taken back.
    let live = (!cx.json && io::stdout().is_terminal()).then(|| LiveAnswer::new(io::stdout()));
    let pipeline = open(cx, &session, &record, arguments.trial.as_deref()).await?;
    if arguments.chat {
        return chat(cx, &session, &record, &pipeline, arguments.question, live.as_ref()).await;
    }
    let answered = ask(&pipeline, &arguments.question.unwrap_or_default(), &[], live.as_ref()).await?;
    tell_fallback(cx, &answered);
    show(cx, &answered, live.is_some());
    let changed_since = since::tell(cx, &session, &record).await;
    if cx.json {
        cx.print_json(&Told { answered, changed_since })?;
    }
    Ok(0)
}

/// Asks a service, and shows its answer as that of a run.
async fn ask_service(cx: &Context, url: &str, question: &str) -> Result<u8, Failure> {
    #[derive(serde::Deserialize, Serialize)]
    struct Source {
        file: String,
        page: Option<u32>,
        book: Option<String>,
        heading: Option<String>,
        score: f32,
        quote: String,
    }
    #[derive(serde::Deserialize)]
    struct Told {
        answer: String,
        model: String,
        sources: Vec<Source>,
        remarks: Vec<String>,
    }
    let failed = |reason: &dyn std::fmt::Display| Failure::work(format!("--url {url}: {reason}"));
    let client = store::http_client().connect_timeout(Duration::from_secs(10)).timeout(SERVICE_TIMEOUT);
    let client = client.build().map_err(|error| failed(&error))?;
    let route = format!("{}/rag/answer", url.trim_end_matches('/'));
    let route = reqwest::Url::parse_with_params(&route, [("query", question)]).map_err(|error| failed(&error))?;
    let mut request = client.get(route);
    if let Some(key) = environment::variable("REVERIE_KEY") {
        if ::models::is_unprotected(url) {
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
    let told: Told = serde_json::from_value(body).map_err(|error| failed(&error))?;
    told.remarks.iter().for_each(|remark| cx.note(format_args!("note: {remark}")));
    let passage = |source: Source| {
        let Source { file, page, book, heading, score, quote } = source;
        rag::Passage { page, book, heading, score, ..rag::Passage::of_text(file, quote) }
    };
    let passages: Vec<rag::Passage> = told.sources.into_iter().map(passage).collect();
    cx.print(format_args!("{}\n", told.answer));
    cx.print(render::sources_of(&format!("{} at {url}", told.model), &passages, question));
    Ok(0)
}

/// Prints an answer with its sources; what was shown live is not printed again.
fn show(cx: &Context, answered: &lab::Answered, is_shown: bool) {
    if cx.json {
        return;
    }
    if is_shown {
        let gap = answered.answer.as_ref().map_or("", |_| "\n\n");
        cx.print(format_args!("{gap}{}", render::sources(answered)));
    } else {
        cx.print(render::answered(answered));
    }
}

/// Answers questions until there are no more. Each one comes after those before
/// it and their answers. A question that fails ends the conversation of a pipe;
/// a person at a terminal may ask on, as if that question had not been asked.
async fn chat(
    cx: &Context,
    session: &lab::Session,
    record: &lab::RunRecord,
    pipeline: &lab::RunPipeline,
    first: Option<String>,
    live: Option<&LiveAnswer<io::Stdout>>,
) -> Result<u8, Failure> {
    if !pipeline.reads_history() {
        cx.note(format_args!(
            "note: trial `{}` has no `query` component, so that each question is searched as it is written, without \
             what was said before it",
            pipeline.trial().id
        ));
    }
    let changed_since = since::tell(cx, session, record).await;
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
        let answered = match ask(pipeline, question.trim(), &history, live).await {
            Ok(answered) => answered,
            Err(failure) if at_terminal && failure.code == 1 => {
                cx.warn(&failure.message);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        tell_fallback(cx, &answered);
        if !at_terminal && !cx.json {
            // Else what comes from a pipe would be answers to unknown questions.
            cx.print(format_args!("> {}", question.trim()));
        }
        show(cx, &answered, live.is_some());
        history.push(Message::user(question.trim()));
        history.extend(answered.answer.iter().map(|answer| Message::assistant(&*answer.text)));
        if cx.json {
            cx.print_json(&Told { answered, changed_since: changed_since.clone() })?;
        } else {
            cx.print("");
        }
    }
}

/// The next line, without its end; none at the end of the input.
fn line(at_terminal: bool) -> Result<Option<String>, Failure> {
    if at_terminal {
        let mut stderr = io::stderr();
        let _ = stderr.write_all(b"> ").and_then(|()| stderr.flush());
    }
    let mut line = String::new();
    let n_bytes = io::stdin()
        .read_line(&mut line)
        .map_err(|error| Failure::work(format!("standard input cannot be read as lines of UTF-8: {error}")))?;
    Ok((n_bytes > 0).then_some(line))
}

/// Answers with the winner of the last run, else the first of its leaderboard.
pub async fn answer(cx: &Context, session: &lab::Session, question: &str) -> Result<lab::Answered, Failure> {
    let record = lab::latest_record(session).await?;
    ask(&open(cx, session, &record, None).await?, question, &[], None).await
}

/// The given trial of a run, or the run's answering trial.
async fn open(
    cx: &Context,
    session: &lab::Session,
    record: &lab::RunRecord,
    trial: Option<&str>,
) -> Result<lab::RunPipeline, Failure> {
    let answering = record.answering(trial)?;
    if let Some(note) = &answering.note {
        cx.note(note);
    }
    let pipeline = lab::RunPipeline::open(session, record, &answering.trial).await?;
    for note in pipeline.notes() {
        cx.note(format_args!("note: {note}"));
    }
    Ok(pipeline)
}

/// Answers a question. The answer is shown live on a terminal.
async fn ask(
    pipeline: &lab::RunPipeline,
    question: &str,
    history: &[Message],
    live: Option<&LiveAnswer<io::Stdout>>,
) -> Result<lab::Answered, Failure> {
    let on_event = live.map(|live| {
        move |event: &PipelineEvent| {
            if let PipelineEvent::Piece(piece) = event {
                live.print(piece.clone());
            }
        }
    });
    let on_event = on_event.as_ref().map(|on_event| on_event as lab::OnEvent<'_>);
    let answered = pipeline.query_after(question, history, on_event).await;
    if answered.is_err()
        && let Some(live) = live
    {
        live.break_off();
    }
    Ok(answered?)
}

/// Says that less was searched than the trial's query component was to write,
/// and what steps behind the retriever did.
fn tell_fallback(cx: &Context, answered: &lab::Answered) {
    if let Some(reason) = &answered.query_fallback {
        cx.note(format_args!("note: the query component fell back, because: {reason}"));
    }
    for remark in &answered.remarks {
        cx.note(format_args!("note: {remark}"));
    }
    if answered.answer.as_ref().is_some_and(|answer| answer.finish == models::Finish::Length) {
        cx.note("note: the answer was cut off at `max_tokens` of the generator");
    }
}

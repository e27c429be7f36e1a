//! A session in a folder, and a run that it finished, without models and without a corpus.

use super::*;
use crate::{Setup, run_summary::summary_json};
use models::ModelDirectory;
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
};

/// The endpoint of [`MODELS`], where nothing listens.
pub(crate) const UNREACHABLE: &str = "http://127.0.0.1:1/v1";

/// Two chat models with the same prices, dollars per million tokens read and written, and a third without a price.
pub(crate) const MODELS: &str = "[models.gpt]\nchat.openai = { model = \"gpt\", base_url = \"http://127.0.0.1:1/v1\", \
    price = { input = 2, output = 8 } }\n[models.strict]\nchat.openai = { model = \"strict\", base_url = \
    \"http://127.0.0.1:1/v1\", price = { input = 2, output = 8 } }\n[models.unpriced]\nchat.openai = { model = \
    \"unpriced\", base_url = \"http://127.0.0.1:1/v1\" }\n";

/// An experiment file with the models of [`MODELS`], of this space and these settings under `[evaluate]`.
pub(crate) fn text(space: &str, evaluate: &str) -> String {
    format!(
        "name = \"zoo\"\nstore = \"store\"\n[corpus]\nsource = \"docs\"\n[dataset]\npath = \"golden.jsonl\"\n\
         {MODELS}[space]\n{space}\n[evaluate]\n{evaluate}\n"
    )
}

/// A session of this experiment file in a folder.
pub(crate) fn session(folder: &Path, text: &str) -> Session {
    session_with(folder, text, |_| {})
}

/// The same with another setup.
pub(crate) fn session_with(folder: &Path, text: &str, change: impl FnOnce(&mut Setup)) -> Session {
    let mut experiment = Experiment::parse(text, folder).unwrap_or_else(|errors| panic!("{errors:?}"));
    let file = folder.join("zoo.toml");
    std::fs::write(&file, text).unwrap();
    experiment.file = Some(file);
    let mut setup = Setup::new(ModelDirectory::new(folder.join("models"), Vec::new()), Arc::new(|_: &str| None));
    change(&mut setup);
    Session::open(experiment, setup).unwrap()
}

/// The record that a session writes of a run without documents.
pub(crate) fn provenance(session: &Session) -> RunProvenance {
    RunProvenance {
        experiment: session.experiment.text_without_secrets(),
        overrides: session.experiment.overrides.clone(),
        file: file_of(session),
        version: VERSION,
        formats: ArtifactFormats::current(),
        ..RunProvenance::default()
    }
}

/// Writes the files of a finished run, with this provenance, and makes it the last run of its experiment.
pub(crate) async fn finish(session: &Session, results: &Results, provenance: &RunProvenance) {
    let (workspace, run) = (session.workspace(), results.run.as_str());
    let bytes = serde_json::to_vec(results).unwrap();
    workspace.write_run_file(run, RunFileName::Frozen, provenance.to_json().unwrap()).await.unwrap();
    let summary = summary_json(results, bytes.len()).unwrap();
    workspace.write_run_file(run, RunFileName::Summary, summary).await.unwrap();
    workspace.write_run_file(run, RunFileName::Results, bytes).await.unwrap();
    workspace.point_to(&results.experiment, run).await.unwrap();
}

/// The record of these results, by an experiment of this text, with changes.
pub(crate) fn record(results: &Results, experiment: &str, change: impl FnOnce(&mut RunProvenance)) -> RunRecord {
    let mut record = RunRecord::of_results(results, experiment);
    change(record.provenance.as_mut().unwrap());
    record
}

/// The address of a chat model on this machine that answers everything with this text.
pub(crate) fn endpoint(text: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let choice = json!({ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" });
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12 });
    let reply = json!({ "id": "1", "model": "m", "choices": [choice], "usage": usage }).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let reply = reply.clone();
            std::thread::spawn(move || answer(stream, &reply));
        }
    });
    address
}

/// Reads a request and writes a reply.
fn answer(stream: TcpStream, reply: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap_or(0);
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    let bytes = reply.len();
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n";
    reader.into_inner().write_all(format!("{head}content-length: {bytes}\r\n\r\n{reply}").as_bytes())
}

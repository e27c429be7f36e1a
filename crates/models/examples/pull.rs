//! Pulls a model or library by hand: `cargo run --release -p models --example
//! pull -- NAME [FOLDER]`.

use models::{ModelDirectory, PullEvent, PullOptions};
use std::{
    io::{Write, stderr, stdout},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "all-minilm-l6-v2".to_owned());
    let folder = arguments.next().unwrap_or_else(|| "/tmp/reverie-models".to_owned());
    let directory = ModelDirectory::new(PathBuf::from(folder), Vec::new());
    let started = Instant::now();
    let show = |event: PullEvent| {
        let end = if matches!(event, PullEvent::Progress { .. }) { "\r" } else { "\n" };
        let _ = write!(stderr(), "{event:?}{end}");
    };
    let pulled = directory.pull(&name, &PullOptions::default(), &show).await;
    let seconds = started.elapsed().as_secs_f64();
    let (line, code) = match pulled {
        Ok(files) => (format!("{seconds:.1} s: {files:#?}"), ExitCode::SUCCESS),
        Err(error) => (format!("{seconds:.1} s: {error}"), ExitCode::FAILURE),
    };
    let _ = writeln!(stdout(), "{line}");
    code
}

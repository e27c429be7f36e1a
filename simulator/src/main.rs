//! The simulated provider as a program: prints its URL as the first line and
//! runs until it is ended.
//!
//! `simulator [SETTINGS.json] [--NAME VALUE]...`
//!
//! A flag is a setting's name, such as `--requests-per-minute 1200`,
//! `--faults.hang 0.01` or `--latency '{"constant": {"seconds": 0.1}}'`.
//! `--optimum TASKS`, with `--tokens` per task (0) and the client's `--timeout`
//! in seconds (60), prints the shortest time for so many tasks instead.
#![expect(clippy::print_stdout, reason = "the URL is this program's output")]

use serde_json::{Map, Value, json};
use simulator::{Error, SimulatorSettings};
use std::{process::ExitCode, time::Duration};

/// One core, as a benchmark beside it needs the others.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ended = match Command::read(std::env::args().skip(1)) {
        Ok(command) => command.run().await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("simulator: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

struct Command {
    settings: SimulatorSettings,
    optimum: Option<u64>,
    tokens: u64,
    timeout: Duration,
}

impl Command {
    fn read(arguments: impl Iterator<Item = String>) -> Result<Self, Error> {
        let wrong = Error::Settings;
        let (mut file, mut flags) = (Map::new(), Map::new());
        let (mut optimum, mut tokens, mut timeout) = (None, 0, Duration::from_secs(60));
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let Some(flag) = argument.strip_prefix("--") else {
                let text = std::fs::read_to_string(&argument).map_err(|error| wrong(format!("{argument}: {error}")))?;
                file = serde_json::from_str(&text).map_err(|error| wrong(format!("{argument}: {error}")))?;
                continue;
            };
            let text = arguments.next().ok_or_else(|| wrong(format!("--{flag} needs a value")))?;
            let value: Value =
                serde_json::from_str(&text).map_err(|error| wrong(format!("--{flag} {text}: {error}")))?;
            let number = || value.as_u64().ok_or_else(|| wrong(format!("--{flag} {text}: not a whole number")));
            match flag {
                "optimum" => optimum = Some(number()?),
                "tokens" => tokens = number()?,
                "timeout" => {
                    timeout = value
                        .as_f64()
                        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                        .ok_or_else(|| wrong(format!("--{flag} {text}: not a number of seconds")))?;
                }
                name => insert(&mut flags, &name.replace('-', "_"), value),
            }
        }
        let settings = SimulatorSettings::default().merged(&file)?.merged(&flags)?;
        Ok(Self { settings, optimum, tokens, timeout })
    }

    async fn run(self) -> Result<(), Error> {
        if let Some(tasks) = self.optimum {
            let seconds = simulator::optimum(&self.settings, tasks, self.tokens, self.timeout)?.as_secs_f64();
            println!("{}", json!({ "tasks": tasks, "seconds": seconds }));
            return Ok(());
        }
        let running = simulator::start(self.settings).await?;
        println!("{}", running.url);
        running.wait().await;
        Ok(())
    }
}

/// `faults.hang` is a field of `faults`.
fn insert(flags: &mut Map<String, Value>, name: &str, value: Value) {
    if let Some((outer, inner)) = name.split_once('.')
        && let Value::Object(fields) = flags.entry(outer).or_insert_with(|| json!({}))
    {
        fields.insert(inner.to_owned(), value);
    } else {
        flags.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Command, Error> {
        Command::read(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn a_flag_is_the_name_of_a_setting() {
        let latency = r#"{"log_normal": {"median": 0.3, "sigma": 0.3}}"#;
        let flags = ["--requests-per-minute", "1200", "--faults.hang", "0.1", "--faults.reset", "0.2"];
        let command = read(&[&flags[..], &["--latency", latency, "--optimum", "5"]].concat()).expect("they are known");
        let settings = command.settings;
        assert_eq!((settings.requests_per_minute, command.optimum), (Some(1_200), Some(5)));
        assert_eq!((settings.faults.hang, settings.faults.reset), (0.1, 0.2));
        assert_eq!(settings.latency, simulator::LatencyModel::LogNormal { median: 0.3, sigma: 0.3 });
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (arguments, named) in [
            (&["--requests-per-hour", "1"][..], "requests_per_hour"),
            (&["--concurrency"], "--concurrency"),
            (&["--concurrency", "many"], "many"),
            (&["nowhere.json"], "nowhere.json"),
        ] {
            let error = read(arguments).err().expect("it is wrong").to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}

//! Reads how long each component took from the event logs of earlier runs on this machine.

use crate::{
    layout::RunFileName,
    operator::Operator,
    plan::time::{History, WorkAmount},
};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use store::Event;

/// The number of runs whose logs are read, the latest first.
const RUNS: usize = 20;

/// A line of the log about a task that ended well.
#[derive(Deserialize)]
struct TaskFinished {
    operator: Operator,
    component: String,
    seconds: f64,
    rows: f64,
    #[serde(default)]
    resumed: f64,
    #[serde(default)]
    bytes: f64,
}

/// The work of the latest runs, by component.
pub(crate) fn history(runs: &Path) -> History {
    let mut history = History::new();
    for log in latest_logs(runs) {
        let Ok(text) = std::fs::read_to_string(&log) else { continue };
        // Most lines are about other events.
        let lines = text.lines().filter(|line| line.contains("\"task_finished\"") && line.contains("\"component\""));
        for event in lines.filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
            let Ok(task) = event.parse::<TaskFinished>() else { continue };
            let done = history.entry((task.operator, task.component)).or_default();
            done.amount.add(WorkAmount { tasks: 1.0, rows: task.rows - task.resumed, bytes: task.bytes });
            let end = event.time_ms as f64 / 1e3;
            done.spans.push((end - task.seconds, end));
        }
    }
    history
}

fn latest_logs(runs: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().filter_map(Result::ok);
    let logs = entries.map(|entry| RunFileName::Events.within(&entry.path()));
    let mut logs: Vec<_> = logs.filter_map(|log| Some((log.metadata().ok()?.modified().ok()?, log))).collect();
    logs.sort_by(|one, other| other.cmp(one));
    logs.into_iter().take(RUNS).map(|(_, log)| log).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use store::EventLog;

    #[test]
    fn the_log_tells_how_long_a_component_took_for_what_it_did_itself() {
        let runs = tempfile::tempdir().unwrap();
        let log = EventLog::open(runs.path().join("x-1/events.jsonl")).unwrap();
        let finish = |time_ms, fields: Value| log.append(&Event::new(time_ms, "task_finished").with(&fields)).unwrap();
        finish(
            10_000,
            json!({ "operator": "embed", "component": "m 1", "seconds": 4.0, "rows": 50, "bytes": 800, "resumed": 10 }),
        );
        finish(20_000, json!({ "operator": "embed", "component": "m 1", "seconds": 6.0, "rows": 60, "bytes": 1200 }));
        finish(20_000, json!({ "operator": "embed", "seconds": 6.0, "rows": 60 }));
        let history = history(runs.path());
        let done = &history[&(Operator::EMBED, "m 1".to_owned())];
        assert_eq!(done.amount, WorkAmount { tasks: 2.0, rows: 100.0, bytes: 2000.0 });
        assert_eq!((done.seconds(), history.len()), (10.0, 1));
    }

    /// The log of a run that was written to at this time, in seconds since 1970.
    fn log(runs: &Path, run: &str, written: u64, lines: &[Value]) {
        let path = runs.join(run).join("events.jsonl");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(written);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }

    fn finished(component: &str, rows: u32) -> Value {
        json!({ "time_ms": 5_000, "kind": "task_finished", "operator": "score", "component": component, "seconds": 2.0, "rows": rows })
    }

    #[test]
    fn the_twenty_runs_that_were_written_to_last_are_read() {
        let runs = tempfile::tempdir().unwrap();
        // The names are in another order than the times.
        for i in 0..22 {
            log(runs.path(), &format!("x-{:02}", (i * 7) % 22), 1_000 + i, &[finished(&format!("m {i}"), 1)]);
        }
        let read: Vec<String> = history(runs.path()).into_keys().map(|(_, component)| component).collect();
        let mut expected: Vec<String> = (2..22).map(|i| format!("m {i}")).collect();
        expected.sort();
        assert_eq!(read, expected, "the two oldest are left out");
    }

    #[test]
    fn lines_that_are_damaged_or_about_other_events_are_passed_over() {
        let runs = tempfile::tempdir().unwrap();
        assert!(history(runs.path()).is_empty());
        assert!(history(&runs.path().join("absent")).is_empty());
        std::fs::create_dir_all(runs.path().join("without-a-log")).unwrap();
        let other = json!({ "time_ms": 1, "kind": "task_failed", "operator": "score", "component": "m", "seconds": 1.0, "rows": 1 });
        let named = json!({ "time_ms": 1, "kind": "run_finished", "note": "\"task_finished\" \"component\"" });
        let unknown = json!({ "time_ms": 1, "kind": "task_finished", "operator": "grind", "component": "m", "seconds": 1.0, "rows": 1 });
        log(runs.path(), "x-1", 1_000, &[finished("m", 3), other, named, unknown, finished("m", 4)]);
        let path = runs.path().join("x-1/events.jsonl");
        let whole = std::fs::read_to_string(&path).unwrap();
        // The last line was cut off.
        std::fs::write(&path, format!("{whole}{{\"time_ms\":1,\"kind\":\"task_finished\",\"component\":\"m")).unwrap();
        let history = history(runs.path());
        let done = &history[&(Operator::Score, "m".to_owned())];
        assert_eq!((history.len(), done.amount), (1, WorkAmount { tasks: 2.0, rows: 7.0, bytes: 0.0 }));
        assert_eq!(done.spans, [(3.0, 5.0), (3.0, 5.0)], "until the time of the line, for as long as it took");
    }
}

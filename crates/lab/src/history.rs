//! Reads from the event logs of the store's earlier runs on this machine how long each component took.

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
}

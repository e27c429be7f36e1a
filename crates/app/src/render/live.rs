//! The live tables on standard error: operators, and below them the models
//! that are called.
//!
//! On a terminal the tables are redrawn in place. Elsewhere (a log, CI) they
//! become lines: few enough that logs stay short, and at the end one for each
//! model.

use super::{
    count, duration,
    progress_lines::{ProgressLines, describe_wait},
    visible_line,
};
use crate::environment::Audience;
use lab::{ModelTraffic, OperatorProgress, OperatorStatus, Progress};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Write as _,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinHandle, time::MissedTickBehavior};

const REDRAW: Duration = Duration::from_millis(200);

/// Draws until it is stopped.
pub struct LiveTable {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl LiveTable {
    /// Starts drawing.
    pub fn start(progress: Progress, audience: Audience) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(REDRAW);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let (log_lines, behind) = (ProgressLines::default(), BTreeSet::new());
            let mut drawer = Drawer { audience, started: Instant::now(), lines: 0, log_lines, behind, n_warnings: 0 };
            loop {
                let last = tokio::select! {
                    _ = ticks.tick() => false,
                    _ = &mut stopped => true,
                };
                drawer.draw(&progress, last);
                if last {
                    break;
                }
            }
        });
        Self { stop, task }
    }

    /// Draws once more and ends.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

struct Drawer {
    audience: Audience,
    started: Instant,
    /// The number of lines drawn last time, which are drawn over.
    lines: usize,
    /// The progress lines of a log.
    log_lines: ProgressLines,
    /// The trackers that were already reported to be behind.
    behind: BTreeSet<String>,
    /// The warnings that were already shown.
    n_warnings: usize,
}

impl Drawer {
    fn draw(&mut self, progress: &Progress, last: bool) {
        let (operators, models) = (&progress.snapshot()[..], &progress.models()[..]);
        let (behind, warnings) = (&progress.problems(), progress.warnings());
        let mut text = String::new();
        if self.audience == Audience::Nobody {
            return;
        }
        if self.audience == Audience::Terminal {
            if self.lines > 0 {
                let _ = write!(text, "\x1b[{}A", self.lines);
            }
            // A line that is too long is cut off: a wrapped line could not be drawn over.
            text.push_str("\x1b[?7l");
            let mut lines = self.table(operators, models);
            lines.extend(behind.iter().map(|(tracker, reason)| behind_line(tracker, reason)));
            lines.extend(warnings);
            // Lines that are no longer needed are emptied.
            lines.resize(lines.len().max(self.lines), String::new());
            self.lines = lines.len();
            for line in lines {
                let _ = writeln!(text, "\x1b[2K{}", visible_line(&line));
            }
            text.push_str("\x1b[?7h");
        } else {
            text.push_str(&self.log_lines.next(operators, self.started.elapsed().as_secs_f64(), Instant::now()));
            for (tracker, reason) in behind {
                if self.behind.insert(tracker.clone()) {
                    let _ = writeln!(text, "{}", visible_line(&behind_line(tracker, reason)));
                }
            }
            for warning in warnings.iter().skip(self.n_warnings) {
                let _ = writeln!(text, "{}", visible_line(warning));
            }
            self.n_warnings = warnings.len();
            self.behind.retain(|tracker| behind.contains_key(tracker));
            for model in models.iter().filter(|_| last) {
                let _ = write!(text, "{}: {} answered", model.name, count(model.answered as usize));
                // A model in this process never refuses a call.
                if model.refused_share > 0.0 {
                    let _ = write!(text, ", {:.1} % refused", 100.0 * model.refused_share);
                }
                text.push('\n');
            }
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn table(&self, operators: &[OperatorProgress], models: &[ModelTraffic]) -> Vec<String> {
        let mut lines = vec![format!(
            "{:<14}{:<10}{:>18}{:>8}{:>8}{:>8}{:>10}{:>10}   after {:.0} s{}",
            "operator",
            "status",
            "rows",
            "queued",
            "active",
            "stored",
            "rows/s",
            "average",
            self.started.elapsed().as_secs_f64(),
            lab::seconds_left(operators).map_or_else(String::new, |left| format!(", about {} left", duration(left)))
        )];
        lines.extend(operators.iter().map(line));
        if !models.is_empty() {
            lines.push(format!(
                "{:<40}{:>10}{:>8}{:>8}{:>10}{:>10}{:>10}{:>10}",
                "model", "in flight", "target", "queue", "answered", "answers/s", "tokens/s", "refused"
            ));
            lines.extend(models.iter().map(model_line));
        }
        lines
    }
}

fn behind_line(tracker: &str, reason: &str) -> String {
    format!("{tracker} is behind, the run goes on: {}", reason.replace('\n', " "))
}

fn model_line(model: &ModelTraffic) -> String {
    let mut name = model.name.clone();
    if let Some((end, _)) = name.char_indices().nth(38) {
        name.truncate(end);
        name.push('…');
    }
    format!(
        "{name:<40}{:>10}{:>8}{:>8}{:>10}{:>10.1}{:>10.0}{:>9.1}%",
        model.in_flight,
        model.target,
        model.waiting,
        count(model.answered as usize),
        model.goodput,
        model.tokens_per_second,
        100.0 * model.refused_share,
    )
}

fn line(operator: &OperatorProgress) -> String {
    let status = match operator.status {
        OperatorStatus::Pending => "pending",
        OperatorStatus::Running => "running",
        OperatorStatus::Finished => "finished",
        OperatorStatus::Failed => "failed",
    };
    let done = count(operator.rows_done);
    let rows = operator.rows_estimated.map_or_else(|| done.clone(), |all| format!("{done}/{}", count(all)));
    format!(
        "{:<14}{:<10}{:>18}{:>8}{:>8}{:>8}{:>10.1}{:>10.1}{}{}",
        operator.operator.name(),
        status,
        rows,
        operator.queued,
        operator.active,
        operator.reused,
        operator.rate_now,
        operator.rate_average,
        operator.waits_for.map_or_else(String::new, |before| format!("   waits for {}", before.name())),
        describe_wait(operator),
    )
}

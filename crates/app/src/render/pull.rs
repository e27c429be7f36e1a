//! Progress bars for downloads.

use super::visible_line;
use crate::environment::Audience;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use models::PullEvent;
use std::sync::{Mutex, PoisonError};

/// A bar for the file that is being pulled, and lines for what happened.
pub struct PullBars {
    name: String,
    audience: Audience,
    all: MultiProgress,
    bar: Mutex<ProgressBar>,
}

impl PullBars {
    /// Bars for one model.
    pub fn new(name: &str, audience: Audience) -> Self {
        let all = MultiProgress::new();
        if audience == Audience::Nobody {
            all.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self { name: name.to_owned(), audience, all, bar: Mutex::new(ProgressBar::hidden()) }
    }

    fn bar(&self) -> ProgressBar {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn say(&self, text: &str) {
        let text = visible_line(text);
        if self.audience == Audience::Nobody {
            return;
        }
        if self.all.is_hidden() {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "{}: {text}", self.name);
        } else {
            let _ = self.all.println(format!("{}: {text}", self.name));
        }
    }

    /// Shows what happened.
    pub fn event(&self, event: &PullEvent) {
        match event {
            PullEvent::Started { file, bytes, source } => {
                let bar = self.all.add(ProgressBar::new(*bytes));
                let template = "{msg:40!} {bar:30} {bytes:>11}/{total_bytes:<11} {bytes_per_sec:>12} {eta:>4}";
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style);
                }
                bar.set_message(visible_line(file).into_owned());
                if self.all.is_hidden() {
                    self.say(&format!("{file} ({} MB) from {source}", bytes / 1_000_000));
                }
                *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = bar;
            }
            PullEvent::Progress { done, total, .. } => {
                let bar = self.bar();
                bar.set_length(*total);
                bar.set_position(*done);
            }
            PullEvent::Failed { source, reason, .. } => {
                self.bar().abandon();
                self.say(&format!("{source}: {reason}; trying the next source"));
            }
            PullEvent::Verified { .. } => self.bar().finish(),
            _ => {}
        }
    }
}

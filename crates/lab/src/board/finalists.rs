//! The best pipelines of a run, as the space of a next experiment.

use super::{Board, BoardRow, count};
use rag::{Axis, PipelineConfig};
use serde_json::{Value, json};
use std::fmt::Write;

impl Board {
    /// The first trials of the leaderboard, without those that a search stopped.
    pub fn leading(&self, best: usize) -> impl Iterator<Item = &BoardRow> {
        self.rows.iter().filter(|row| row.stopped.is_none()).take(best)
    }

    /// The first trials of the leaderboard as tables `[[space]]` of an experiment file: each with
    /// all its settings, and each with `more` values on other axes, or instead of its own. So a
    /// large space can be searched by something cheap, such as retrieval, and its best pipelines
    /// tried with something expensive, such as answers of several models.
    ///
    /// Trials that a search stopped are not among them.
    ///
    /// # Errors
    /// If no trial was scored, so that none is better than another.
    pub fn finalists(&self, best: usize, more: &[(Axis, Value)]) -> Result<String, String> {
        if let Some(reason) = &self.unscored {
            return Err(format!("no pipeline is better than another: {reason}"));
        }
        let rows: Vec<&BoardRow> = self.leading(best).collect();
        let mut text = format!(
            "# The first {} of the {} pipelines of run {} of `{}`, by {}.\n",
            count(rows.len()),
            count(self.rows.len()),
            self.run,
            self.experiment,
            self.objective.join(", ")
        );
        for row in rows {
            let _ = write!(text, "\n[[space]]  # {}\n", row.id);
            let pipeline = serde_json::from_value::<PipelineConfig>(json!(row.settings)).ok();
            let does_something = |axis: Axis| pipeline.as_ref()?.on(axis).map(|value| !value.is_nothing());
            for axis in Axis::ALL {
                let given = more.iter().rev().find(|(on, _)| on == axis).map(|(_, value)| value);
                let own = row.settings.get(axis.name()).filter(|_| does_something(*axis).unwrap_or_default());
                if let Some(value) = given.or(own) {
                    let _ = writeln!(text, "{} = {}", axis.name(), inline(value));
                }
            }
        }
        Ok(text)
    }
}

/// A value as TOML in one line. Settings that are not given are left out, since TOML has no null.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let given = fields.iter().filter(|(_, value)| !value.is_null());
            let fields: Vec<String> = given.map(|(name, value)| format!("{} = {}", key(name), inline(value))).collect();
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
        }
        // An escape of JSON is one of TOML too.
        other => other.to_string(),
    }
}

fn key(name: &str) -> String {
    let bare = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { Value::from(name).to_string() }
}

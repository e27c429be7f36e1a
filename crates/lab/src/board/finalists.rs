//! The best pipelines of a run, as the space of a next experiment.

use super::{Board, BoardRow, count};
use rag::{Axis, PipelineConfig};
use serde_json::{Value, json};
use std::fmt::Write;

/// No trial was scored.
#[derive(Debug, thiserror::Error)]
#[error("no pipeline is better than another: {reason}")]
pub struct NoFinalists {
    reason: String,
}

impl Board {
    /// The first trials of the leaderboard, without those that a search stopped.
    pub fn leading(&self, best: usize) -> impl Iterator<Item = &BoardRow> {
        self.rows.iter().filter(|row| row.stopped.is_none()).take(best)
    }

    /// The first trials of the leaderboard as tables `[[space]]` of an experiment file. Each table
    /// holds all settings of its trial; the values in `more` are added, and replace the trial's own
    /// on the same axis. So a large space can be searched by something cheap, such as retrieval,
    /// and its best pipelines tried with something expensive, such as answers of several models.
    ///
    /// Trials that a search stopped are not among them.
    ///
    /// # Errors
    /// If no trial was scored, so that none is better than another.
    pub fn finalists(&self, best: usize, more: &[(Axis, Value)]) -> Result<String, NoFinalists> {
        let spaces = self.finalist_spaces(best, more)?;
        let mut text = format!(
            "# The first {} of the {} pipelines of run {} of `{}`, by {}.\n",
            count(spaces.len()),
            count(self.rows.len()),
            self.run,
            self.experiment,
            self.objective.join(", ")
        );
        for (trial, space) in spaces {
            let _ = write!(text, "\n[[space]]  # {trial}\n");
            for (axis, value) in &space {
                let _ = writeln!(text, "{} = {}", axis.name(), inline_toml(value));
            }
        }
        Ok(text)
    }

    /// The same as values: each trial's id, and its value on each axis that does something.
    ///
    /// # Errors
    /// As [`Board::finalists`].
    pub fn finalist_spaces(&self, best: usize, more: &[(Axis, Value)]) -> Result<Vec<FinalistSpace<'_>>, NoFinalists> {
        if let Some(reason) = &self.unscored {
            return Err(NoFinalists { reason: reason.clone() });
        }
        let space = |row: &'_ BoardRow| {
            let pipeline = serde_json::from_value::<PipelineConfig>(json!(row.settings)).ok();
            let does_something = |axis: Axis| pipeline.as_ref()?.on(axis).map(|value| !value.is_nothing());
            let value = |axis: Axis| {
                let given = more.iter().rev().find(|(on, _)| *on == axis).map(|(_, value)| value);
                let own = row.settings.get(axis.name()).filter(|_| does_something(axis).unwrap_or_default());
                Some((axis, given.or(own)?.clone()))
            };
            Axis::ALL.iter().filter_map(|axis| value(*axis)).collect()
        };
        Ok(self.leading(best).map(|row| (row.id.as_str(), space(row))).collect())
    }
}

/// A trial's id, and its values by axis, in the order of the stages.
pub type FinalistSpace<'a> = (&'a str, Vec<(Axis, Value)>);

/// A value as TOML in one line. Settings that are not given are left out, since TOML has no null.
pub fn inline_toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(inline_toml).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let given = fields.iter().filter(|(_, value)| !value.is_null());
            let fields: Vec<String> =
                given.map(|(name, value)| format!("{} = {}", key(name), inline_toml(value))).collect();
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
        }
        // An escape of JSON is one of TOML too, and TOML escapes one letter more.
        other => other.to_string().replace('\u{7f}', "\\u007f"),
    }
}

fn key(name: &str) -> String {
    let bare = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { inline_toml(&Value::from(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_from_toml_as_it_was_written() {
        let table = [
            json!(7),
            json!(-0.5),
            json!(1e300),
            json!(true),
            json!("plain"),
            json!(""),
            json!("a \"quoted\" word, a \\ and a 'quote'"),
            json!("line\nbreak\ttab\rreturn"),
            json!("control \u{1} \u{8} \u{c} \u{1f} \u{7f}"),
            json!("Grüße, 水, 🦀, \u{2028}"),
            json!([]),
            json!([1, 2, [3]]),
            json!({}),
            json!({ "hybrid": { "top_k": 3, "weights": [0.5, 0.5] } }),
            json!({ "a key with spaces": 1, "": 2, "quoted\"key": 3, "ключ": 4, "a.b": 5, "\u{7f}": 7, "bare_key-1": 6 }),
        ];
        for value in table {
            let text = format!("value = {}\n", inline_toml(&value));
            let read: toml::Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(serde_json::to_value(&read["value"]).unwrap(), value, "{text}");
            assert_eq!(text.lines().count(), 1);
        }
        assert_eq!(inline_toml(&json!({ "a": null, "b": { "c": null } })), "{ b = {} }", "TOML has no null");
    }

    #[test]
    fn the_best_that_were_asked_everything_are_written_with_what_is_tried_in_addition() {
        let mut results = crate::results::fixture::results(4);
        crate::results::fixture::score(&mut results, "recall", &vec![vec![Some(0.5); 5]; 4]);
        crate::results::fixture::choose(&mut results, "recall", &[1, 1, 1, 1]);
        let kind = crate::search::StopKind::Eliminated;
        results.trials[1].stopped = Some(crate::search::Stop { kind, questions: 2, reason: "late".to_owned() });
        let board = Board::of(&results);
        assert_eq!(board.leading(2).map(|row| row.id.as_str()).collect::<Vec<_>>(), ["t01", "t03"]);
        let more = [
            (Axis::Reranker, json!("none")),
            (Axis::Retriever, json!({ "bm25": { "top_k": 9 } })),
            (Axis::Retriever, json!([{ "bm25": { "top_k": 8 } }])),
        ];
        let text = board.finalists(2, &more[..1]).unwrap();
        assert!(text.starts_with("# The first 2 of the 4 pipelines of run zoo-1 of `zoo`, by recall.\n"), "{text}");
        let read: toml::Table = toml::from_str(&text).unwrap();
        let spaces = read["space"].as_array().unwrap();
        let top_k: Vec<i64> =
            spaces.iter().map(|space| space["retriever"]["bm25"]["top_k"].as_integer().unwrap()).collect();
        assert_eq!(top_k, [1, 3]);
        assert!(spaces.iter().all(|space| space["reranker"].as_str() == Some("none")), "{text}");
        // The last one that is given on an axis counts, instead of the trial's own.
        let read: toml::Table = toml::from_str(&board.finalists(9, &more).unwrap()).unwrap();
        let spaces = read["space"].as_array().unwrap();
        assert_eq!(spaces.len(), 3);
        assert!(spaces.iter().all(|space| space["retriever"][0]["bm25"]["top_k"].as_integer() == Some(8)));

        results.questions.clear();
        let refused = Board::of(&results).finalists(1, &[]).unwrap_err();
        assert!(
            refused.to_string().starts_with("no pipeline is better than another: everything is indexed by t01, t02"),
            "{refused}"
        );
    }
}

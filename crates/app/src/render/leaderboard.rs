//! The leaderboard for people: lays out what `lab::Board` says.

use super::{aligned, combination, table, visible_line};
use eval::statistics::Summary;
use lab::{
    Board, Results, TrialResult,
    board::{About, Cell, Column, ColumnKind, Note, Row, Scores},
};
use std::fmt::Write;

/// All trials, best first, with intervals and what is tied.
pub fn leaderboard(board: &Board) -> String {
    let mut text = format!("{}: {}", board.experiment, board.corpus);
    if let Some(partial) = &board.partial {
        let _ = write!(text, "\nPARTIAL: {partial} (--budget-usd, or `budget` under [evaluate])");
    }
    if let Some(unscored) = &board.unscored {
        let trial = board.answering.as_ref().map_or("t01", |answering| &answering.trial);
        let _ = write!(text, "\n{unscored}\nask: reverie query \"…\" --trial {trial}");
        return text;
    }
    let _ = write!(text, "\n{}", trials(board));
    for sentence in &board.verdict {
        let _ = write!(text, "\n{sentence}");
    }
    for (number, note) in board.notes.iter().enumerate() {
        let is_first = number == 0 || board.notes[number - 1].about != note.about;
        let _ = write!(text, "\n{}", line(note, is_first));
    }
    text
}

/// The table.
fn trials(board: &Board) -> comfy_table::Table {
    let columns: Vec<&Column> = board.columns.iter().filter(|column| column.shown).collect();
    let names: Vec<String> = columns.iter().map(|column| heading(column)).collect();
    let header: Vec<&str> = ["", "trial"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let words = columns.iter().filter(|column| column.kind == ColumnKind::Axis).count();
    let mut rows = table(&header, words + 2);
    for row in &board.rows {
        rows.add_row(cells(board, row));
    }
    rows
}

/// Words below each other keep the table narrow enough for a terminal.
fn heading(column: &Column) -> String {
    match column.kind {
        ColumnKind::Objective => format!("{} [95 %]", column.title),
        ColumnKind::Test => column.title.replace(" questions", "\nquestions"),
        ColumnKind::Metric => column.title.replace('_', "\n") + if column.judged { "*" } else { "" },
        _ => column.title.clone(),
    }
}

fn cells(board: &Board, row: &Row) -> Vec<comfy_table::Cell> {
    let first = [aligned(row.standing.mark(), false), aligned(&row.id, false)];
    let others = board.shown(row).map(|(column, cell)| aligned(shown(column, cell), column.kind != ColumnKind::Axis));
    first.into_iter().chain(others).collect()
}

fn shown(column: &Column, cell: &Cell) -> String {
    match (cell, column.kind) {
        (Cell::Text(text), _) => text.clone(),
        (Cell::Number(number), _) => format!("{number:.*}", column.digits),
        (Cell::Scores(Scores { summary, .. }), ColumnKind::Metric) => value(summary),
        (Cell::Scores(Scores { summary, .. }), _) => interval(summary),
        (Cell::Empty, ColumnKind::Axis | ColumnKind::Metric) => String::new(),
        (Cell::Empty, _) => "–".to_owned(),
    }
}

fn interval(summary: &Summary) -> String {
    match (summary.mean, summary.low, summary.high) {
        (Some(mean), Some(low), Some(high)) => format!("{mean:.3} [{low:.3}, {high:.3}]"),
        (Some(mean), _, _) => format!("{mean:.3}"),
        _ => "–".to_owned(),
    }
}

/// The mean, and n scored of n total where some are missing.
fn value(summary: &Summary) -> String {
    match summary.mean {
        Some(mean) if summary.n_failed == 0 => format!("{mean:.3}"),
        Some(mean) => format!("{mean:.3} ({}/{})", summary.n_scored, summary.n_total),
        None => format!("– (0/{})", summary.n_total),
    }
}

/// A note, with advice for a reader of the terminal.
fn line(note: &Note, is_first: bool) -> String {
    let (text, subject) = (&note.text, note.subject.as_deref().unwrap_or_default());
    match note.about {
        About::Search => format!("{text}. Why, for each: reverie leaderboard --json | jq .search.stops"),
        About::Judge => format!("* {text}"),
        About::UntriedJudge => format!("* {text}: `reverie judge {subject}`"),
        About::Failure if is_first => format!("failed:\n  {text}"),
        About::Failure => format!("  {text}"),
        // A path must not look like several lines.
        About::Unread => match text.strip_prefix(subject) {
            Some(rest) => format!("{}{rest}", visible_line(subject)),
            None => text.clone(),
        },
        About::Journal => format!("{text}: see `reverie journal verify`"),
        _ => text.clone(),
    }
}

/// One trial, a line per question.
pub fn trial(results: &Results, trial: &TrialResult) -> String {
    let mut header = vec!["question"];
    header.extend(results.metrics.iter().map(|metric| metric.name.as_str()));
    let mut rows = table(&header, 1);
    for result in &trial.questions {
        let mut row = vec![aligned(&result.question, false)];
        row.extend(results.metrics.iter().map(|metric| {
            let score = result.scores.get(&metric.name).and_then(|scored| scored.score.value());
            aligned(score.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}")), true)
        }));
        rows.add_row(row);
    }
    let mut text = format!("{}: {}\n{rows}", trial.trial.id, combination(&trial.trial.labels));
    let _ = write!(text, "\none question in full: reverie show {} QUESTION", trial.trial.id);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{Answering, board::Standing};
    use std::collections::BTreeMap;

    fn column(kind: ColumnKind, name: &str, digits: usize) -> Column {
        Column { kind, name: name.to_owned(), title: name.to_owned(), judged: false, digits, shown: true }
    }

    fn scores(mean: Option<f64>, n_failed: usize) -> Cell {
        let (low, high) = (mean.map(|mean| mean - 0.1), mean.map(|mean| mean + 0.1));
        let n_scored = if mean.is_some() { 5 - n_failed } else { 0 };
        let summary = Summary { mean, low, high, n_scored, n_failed, n_total: 5, worst: None, best: None };
        Cell::Scores(Scores { summary, missing: None })
    }

    fn row(id: &str, standing: Standing, cells: Vec<Cell>) -> Row {
        Row {
            id: id.to_owned(),
            labels: BTreeMap::new(),
            settings: BTreeMap::new(),
            standing,
            label: String::new(),
            place: String::new(),
            group: None,
            tied: false,
            front: false,
            p_value: None,
            effect_size: None,
            questions_needed: None,
            stopped: None,
            cells,
        }
    }

    fn note(about: About, subject: &str, text: &str) -> Note {
        Note { about, subject: Some(subject.to_owned()), text: text.to_owned() }
    }

    fn board() -> Board {
        let first = vec![
            Cell::Text("bm25".to_owned()),
            scores(Some(0.5), 0),
            scores(Some(0.5), 2),
            Cell::Number(1.256),
            Cell::Number(120.4),
            Cell::Number(0.25),
        ];
        let second = vec![
            Cell::Text("dense".to_owned()),
            Cell::Empty,
            scores(None, 5),
            Cell::Empty,
            Cell::Empty,
            Cell::Number(0.0),
        ];
        Board {
            experiment: "zoo".to_owned(),
            run: "zoo-1".to_owned(),
            finished: String::new(),
            corpus: "3 documents".to_owned(),
            work: String::new(),
            partial: None,
            unscored: None,
            winner: None,
            no_winner: None,
            answering: Some(Answering { trial: "t02".to_owned(), note: None }),
            verdict: vec!["no winner: nothing was scored".to_owned()],
            groups: Vec::new(),
            front: Vec::new(),
            notes: vec![
                note(About::Search, "", "search by race: 1 of 2 answers asked for (50 %)"),
                note(About::Judge, "gpt", "judged by gpt: supported qualified"),
                note(About::UntriedJudge, "qwen", "judged by qwen, never tried on labelled cases"),
                note(About::Failure, "t01", "t01: retrieve: down"),
                note(About::Failure, "t02", "t02: retrieve: down"),
                note(About::Unread, "a\nb.pdf", "a\nb.pdf could not be read"),
                note(About::Journal, "", "3 answers in the journal were damaged"),
            ],
            rejected: Vec::new(),
            columns: vec![
                column(ColumnKind::Axis, "retriever", 0),
                column(ColumnKind::Objective, "objective", 3),
                Column { judged: true, ..column(ColumnKind::Metric, "answer_relevancy", 3) },
                column(ColumnKind::Seconds, "s p50", 2),
                column(ColumnKind::Tokens, "tokens", 0),
                Column { shown: false, ..column(ColumnKind::Money, "$", 4) },
            ],
            rows: vec![row("t01", Standing::Winner, first), row("t02", Standing::OutOfCalls, second)],
        }
    }

    #[test]
    fn a_row_has_its_mark_and_numbers_with_what_is_missing() {
        let text = leaderboard(&board());
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "zoo: 3 documents");
        assert!(lines.contains(&"★ t01 bm25 0.500 [0.400, 0.600] 0.500 (3/5) 1.26 120".to_owned()), "{text}");
        assert!(lines.contains(&"… t02 dense – – (0/5) – –".to_owned()), "{text}");
        assert!(text.contains("objective [95 %]") && text.contains("relevancy*") && !text.contains('$'), "{text}");
    }

    #[test]
    fn notes_say_what_can_be_done_on_a_command_line() {
        let text = leaderboard(&board());
        let (_, notes) = text.split_once("no winner: nothing was scored\n").unwrap();
        let expected = "search by race: 1 of 2 answers asked for (50 %). Why, for each: reverie leaderboard --json | jq .search.stops
* judged by gpt: supported qualified
* judged by qwen, never tried on labelled cases: `reverie judge qwen`
failed:
  t01: retrieve: down
  t02: retrieve: down
a\\nb.pdf could not be read
3 answers in the journal were damaged: see `reverie journal verify`";
        assert_eq!(notes, expected);
    }

    #[test]
    fn without_questions_it_says_how_to_ask_the_trial_that_answers() {
        let board = Board {
            unscored: Some("everything is indexed by t02".to_owned()),
            partial: Some("the budget was reached".to_owned()),
            ..board()
        };
        let expected = "zoo: 3 documents
PARTIAL: the budget was reached (--budget-usd, or `budget` under [evaluate])
everything is indexed by t02
ask: reverie query \"…\" --trial t02";
        assert_eq!(leaderboard(&board), expected);
    }
}

//! The leaderboard for people: lays out what `lab::Board` says, as wide as the
//! terminal is. Columns that do not fit are left out, and named.

use super::{combination, left, mean, number, number_or_dash, table, visible_line};
use lab::{
    Board, Results, TrialResult,
    board::{About, BoardRow, Cell, CellScores, Column, ColumnKind, Note},
};
use std::{cmp::Ordering, fmt::Write};

/// A column that the leaderboard does not have.
#[derive(Debug, thiserror::Error)]
#[error("there is no column `{name}`; there are {}", known.join(", "))]
pub struct NoColumn {
    name: String,
    known: Vec<String>,
}

/// The width, the columns and the order of a leaderboard.
#[derive(Debug, Clone, Default)]
pub struct TableLayout {
    /// The most characters of a line; `None` without a limit.
    pub width: Option<usize>,
    /// The names of the columns to show. If empty, every column that has values and fits.
    pub columns: Vec<String>,
    /// The column to sort by; by default the order of the board, best first.
    pub sort: Option<String>,
}

impl TableLayout {
    /// As wide as the variable `COLUMNS` says, or as the terminal; without a limit if
    /// the output is no terminal.
    pub fn of_terminal() -> Self {
        let variable = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let terminal = || Some(usize::from(console::Term::stdout().size_checked()?.1));
        Self { width: variable.or_else(terminal), ..Self::default() }
    }

    /// The same layout; of this width if it has none.
    pub fn or_of_width(self, width: usize) -> Self {
        Self { width: self.width.or(Some(width)), ..self }
    }

    /// Breaks a paragraph into lines of at most the layout's width.
    pub(super) fn fill(&self, text: &str) -> String {
        self.width.map_or_else(|| text.to_owned(), |width| textwrap::fill(text, width.max(20)))
    }

    /// Breaks a sentence into lines, with the further lines indented.
    fn wrap(&self, text: &str) -> String {
        match self.width {
            Some(width) => textwrap::fill(text, textwrap::Options::new(width.max(20)).subsequent_indent("  ")),
            None => text.to_owned(),
        }
    }
}

/// All trials, best first, with intervals and what is tied.
///
/// # Errors
/// If the layout names a column that the board does not have.
pub fn leaderboard(board: &Board, layout: &TableLayout) -> Result<String, NoColumn> {
    let mut text = layout.wrap(&format!("{}: {}", board.experiment, board.corpus));
    let mut line = |sentence: &str| _ = write!(text, "\n{}", layout.wrap(sentence));
    if let Some(partial) = &board.partial {
        // An interrupted run only needs to be run again.
        let is_budget = partial.starts_with("the budget");
        let how = if is_budget { " (--budget-usd, or `budget` under [evaluate])" } else { "" };
        line(&format!("PARTIAL: {partial}{how}"));
    }
    if let Some(unscored) = &board.unscored {
        let trial = board.answering.as_ref().map_or("t01", |answering| &answering.trial);
        line(unscored);
        line(&format!("ask: reverie query \"…\" --trial {trial}"));
        super::warning_lines(&board.warnings).iter().for_each(|warning| line(warning));
        return Ok(text);
    }
    let (trials, left_out) = trials(board, layout)?;
    let _ = write!(text, "\n{trials}");
    let mut line = |sentence: &str| _ = write!(text, "\n{}", layout.wrap(sentence));
    board.verdict.iter().for_each(|sentence| line(sentence));
    super::warning_lines(&board.warnings).iter().for_each(|warning| line(warning));
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(|column| column.name.as_str()).collect();
        line(&format!("no room for {}: `--wide` shows all, `--columns` chooses", names.join(", ")));
    }
    let in_blocks = is_in_blocks(board, layout);
    let notes = board.notes.iter().filter(|note| !(in_blocks && note.about == About::Groups));
    let mut before = None;
    for note in notes {
        line(&format_note(note, before != Some(note.about)));
        before = Some(note.about);
    }
    Ok(text)
}

/// Whether the groups are blocks of rows with a heading.
fn is_in_blocks(board: &Board, layout: &TableLayout) -> bool {
    !board.groups.is_empty() && layout.sort.is_none()
}

/// A column of the table.
#[derive(Clone, Copy)]
struct TableColumn<'a> {
    column: &'a Column,
    /// Its index among the columns of the board, and of its cells in each row.
    index: usize,
    /// The number of questions of each of its means, if all have the same number.
    questions: Option<usize>,
    brevity: Brevity,
    /// Whether the layout names it.
    is_named: bool,
}

/// How much a table is shortened for a narrow terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Brevity {
    /// Everything.
    Full,
    /// Settings on an axis show only their values.
    WithoutNames,
    /// Also, an objective shows only its mean.
    WithoutIntervals,
}

/// The table, and the columns that do not fit.
fn trials<'a>(board: &'a Board, layout: &TableLayout) -> Result<(String, Vec<&'a Column>), NoColumn> {
    let rows = sort_rows(board, layout)?;
    let mut columns = choose_columns(board, layout)?;
    let mut text = lines(&columns, &rows);
    let Some(width) = layout.width.filter(|_| layout.columns.is_empty()) else {
        return Ok((blocks(board, layout, text, &rows), Vec::new()));
    };
    let mut left_out = Vec::new();
    while text.first().is_some_and(|line| console::measure_text_width(line) > width) {
        // The least important goes first; of equal ones the last.
        let least = (0..columns.len()).max_by_key(|&i| (unimportance(board, columns[i].column), i));
        let Some(least) = least.filter(|&i| unimportance(board, columns[i].column) > 0) else { break };
        let brevity = columns[least].brevity;
        // Axes tell trials apart, so they are shortened before they are left out.
        match brevity {
            Brevity::Full | Brevity::WithoutNames if columns[least].column.kind == ColumnKind::Axis => {
                let next = if brevity == Brevity::Full { Brevity::WithoutNames } else { Brevity::WithoutIntervals };
                columns.iter_mut().for_each(|shown| shown.brevity = next);
            }
            _ => left_out.push(columns.remove(least)),
        }
        text = lines(&columns, &rows);
    }
    left_out.sort_by_key(|left| left.index);
    Ok((blocks(board, layout, text, &rows), left_out.into_iter().map(|left| left.column).collect()))
}

/// Columns with the largest number are left out first; 0 always stays.
fn unimportance(board: &Board, column: &Column) -> u8 {
    let is_objective = |name: &String| *name == column.name;
    match column.kind {
        ColumnKind::Objective => 0,
        ColumnKind::Axis => 1,
        ColumnKind::Test => 2,
        ColumnKind::Metric if board.objective.iter().any(is_objective) => 3,
        ColumnKind::IndexRecall | ColumnKind::Money => 4,
        ColumnKind::Seconds if column.name == "latency_p50" => 5,
        ColumnKind::Metric => 6,
        ColumnKind::Seconds => 7,
        ColumnKind::Tokens => 8,
    }
}

/// The index of the column of this name.
fn find_column(board: &Board, name: &str) -> Result<usize, NoColumn> {
    let found = board.columns.iter().position(|column| column.name == name);
    found.ok_or_else(|| {
        let known = board.columns.iter().map(|column| column.name.clone()).collect();
        NoColumn { name: name.to_owned(), known }
    })
}

/// The columns to show, axes first.
fn choose_columns<'a>(board: &'a Board, layout: &TableLayout) -> Result<Vec<TableColumn<'a>>, NoColumn> {
    let indexes: Vec<usize> = if layout.columns.is_empty() {
        (0..board.columns.len()).filter(|&index| board.columns[index].shown).collect()
    } else {
        layout.columns.iter().map(|name| find_column(board, name)).collect::<Result<_, _>>()?
    };
    let shown = |index: usize| {
        let (column, questions) = (&board.columns[index], questions(board, index));
        TableColumn { column, index, questions, brevity: Brevity::Full, is_named: !layout.columns.is_empty() }
    };
    let mut columns: Vec<TableColumn<'_>> = indexes.into_iter().map(shown).collect();
    if !layout.columns.is_empty() {
        columns.sort_by_key(|shown| shown.column.kind != ColumnKind::Axis);
    }
    Ok(columns)
}

/// The trials in the order of the layout; trials without a value come last.
fn sort_rows<'a>(board: &'a Board, layout: &TableLayout) -> Result<Vec<&'a BoardRow>, NoColumn> {
    let mut rows: Vec<&BoardRow> = board.rows.iter().collect();
    let Some(name) = &layout.sort else {
        if is_in_blocks(board, layout) {
            rows.sort_by_key(|row| row.group.unwrap_or(usize::MAX));
        }
        return Ok(rows);
    };
    let index = find_column(board, name)?;
    let (column, cell) = (&board.columns[index], |row: &'a BoardRow| row.cells.get(index));
    if column.kind == ColumnKind::Axis {
        rows.sort_by_key(|row| cell(row).and_then(Cell::text).unwrap_or_default());
        return Ok(rows);
    }
    let less_is_better = matches!(column.kind, ColumnKind::Seconds | ColumnKind::Tokens | ColumnKind::Money);
    rows.sort_by(|one, other| match (cell(one).and_then(Cell::number), cell(other).and_then(Cell::number)) {
        (Some(one), Some(other)) if less_is_better => one.total_cmp(&other),
        (Some(one), Some(other)) => other.total_cmp(&one),
        (one, other) => other.is_some().cmp(&one.is_some()).then(Ordering::Equal),
    });
    Ok(rows)
}

/// The lines of the table: borders, header, and one for each trial.
fn lines(columns: &[TableColumn<'_>], rows: &[&BoardRow]) -> Vec<String> {
    let names: Vec<String> = columns.iter().map(heading).collect();
    let header: Vec<&str> = ["", "trial"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let words = columns.iter().filter(|shown| shown.column.kind == ColumnKind::Axis).count();
    let mut table = table(&header, words + 2);
    for row in rows {
        let cell = |shown: &TableColumn<'_>| format_cell(shown, row.cells.get(shown.index).unwrap_or(&Cell::Empty));
        table.add_row([row.standing.mark().to_owned(), row.id.clone()].into_iter().chain(columns.iter().map(cell)));
    }
    table.lines().collect()
}

/// The lines with a heading above each group.
fn blocks(board: &Board, layout: &TableLayout, lines: Vec<String>, rows: &[&BoardRow]) -> String {
    if !is_in_blocks(board, layout) {
        return lines.join("\n");
    }
    // After the rows there is the lower border.
    let first = lines.len().saturating_sub(rows.len() + 1);
    let mut text = String::new();
    // Groups count from 1, so the first row always gets a heading, also if it has no group.
    let mut before = Some(0);
    for (i, line) in lines.iter().enumerate() {
        if let Some(row) = i.checked_sub(first).and_then(|row| rows.get(row))
            && row.group != before
        {
            let title = row.group.map_or_else(|| "not compared".to_owned(), |group| board.group_title(group));
            let _ = writeln!(text, " {title}");
            before = row.group;
        }
        let _ = writeln!(text, "{line}");
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// The number of questions of each mean of a column, if all have the same number.
fn questions(board: &Board, index: usize) -> Option<usize> {
    let mut counts = board.rows.iter().filter_map(|row| match row.cells.get(index)? {
        Cell::Scores(CellScores { summary, .. }) => Some((summary.n_scored, summary.n_total)),
        _ => None,
    });
    let (scored, total) = counts.next()?;
    (scored == total && counts.all(|other| other == (scored, total))).then_some(total)
}

/// The heading of a column, on several lines to keep the table narrow.
fn heading(shown: &TableColumn<'_>) -> String {
    let column = shown.column;
    let n = shown.questions.map_or_else(String::new, |n| format!("\nn = {n}"));
    match column.kind {
        ColumnKind::Objective if shown.brevity == Brevity::WithoutIntervals => column.title.clone() + &n,
        ColumnKind::Objective => format!("{} [95 %]{n}", column.title),
        ColumnKind::Test => column.title.replace(" questions", "\nquestions") + &n,
        ColumnKind::IndexRecall => column.title.replace(' ', "\n"),
        ColumnKind::Metric => {
            let star = if column.judged { "*" } else { "" };
            let interval = if shown.is_named { " [95 %]" } else { "" };
            column.title.replace('_', "\n") + star + interval + &n
        }
        _ => column.title.clone(),
    }
}

fn format_cell(shown: &TableColumn<'_>, cell: &Cell) -> String {
    let column = shown.column;
    match (cell, column.kind) {
        (Cell::Text(text), _) if shown.brevity > Brevity::Full => values_only(text),
        (Cell::Text(text), _) => text.clone(),
        (Cell::Number(value), _) => number(*value, column.digits),
        (Cell::Scores(CellScores { summary, .. }), kind) => {
            let is_brief = kind == ColumnKind::Metric && !shown.is_named || shown.brevity == Brevity::WithoutIntervals;
            let mean = if is_brief { number_or_dash(summary.mean, 3) } else { mean(summary) };
            match shown.questions {
                // No count: the metrics of an objective may have different questions, so one number would not fit all.
                _ if kind != ColumnKind::Metric && summary.n_failed == 0 => mean,
                Some(_) => mean,
                None if summary.n_failed > 0 || summary.mean.is_none() => {
                    format!("{mean} ({}/{})", summary.n_scored, summary.n_total)
                }
                None => format!("{mean} ({})", summary.n_scored),
            }
        }
        (Cell::Empty, ColumnKind::Axis | ColumnKind::Metric) => String::new(),
        (Cell::Empty, _) => "–".to_owned(),
    }
}

/// A label with the values of its settings, without their names: `sentence(256 32)`.
fn values_only(label: &str) -> String {
    let (mut values, mut start) = (String::new(), 0);
    for letter in label.chars() {
        if letter == '=' {
            values.truncate(start);
            continue;
        }
        values.push(letter);
        if letter == '(' || letter == ' ' {
            start = values.len();
        }
    }
    values
}

/// A note, with advice for a reader of the terminal.
fn format_note(note: &Note, is_first: bool) -> String {
    let (text, subject) = (&note.text, note.subject.as_deref().unwrap_or_default());
    match note.about {
        About::Search => format!("{text}. Why, for each: reverie leaderboard --json | jq '.rows[] | {{id, stopped}}'"),
        About::Losses => format!("{text}. All trials: `reverie leaderboard --losses`"),
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
    let traced = trial.questions.iter().any(|result| result.loss.is_some());
    header.extend(traced.then_some("lost"));
    let mut rows = table(&header, 1);
    for result in &trial.questions {
        let scores = results.metrics.iter().map(|metric| {
            let score = result.scores.get(&metric.name).and_then(|scored| scored.score.value());
            score.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"))
        });
        let loss = result.loss.as_ref().map_or("–", |loss| loss.step.title());
        let loss = traced.then(|| left(loss));
        let cells = std::iter::once(result.question.clone()).chain(scores).map(comfy_table::Cell::new);
        rows.add_row(cells.chain(loss));
    }
    let mut text = format!("{}: {}\n{rows}", trial.trial.id, combination(&trial.trial.labels));
    let _ = write!(text, "\none question in full: reverie show {} QUESTION", trial.trial.id);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use eval::statistics::Summary;
    use lab::{Answering, board::TrialStanding};
    use std::collections::BTreeMap;

    fn column(kind: ColumnKind, name: &str, digits: usize) -> Column {
        Column { kind, name: name.to_owned(), title: name.to_owned(), judged: false, digits, shown: true }
    }

    fn scores(mean: Option<f64>, n_failed: usize) -> Cell {
        let (low, high) = (mean.map(|mean| mean - 0.1), mean.map(|mean| mean + 0.1));
        let n_scored = if mean.is_some() { 5 - n_failed } else { 0 };
        let summary = Summary { mean, low, high, n_scored, n_failed, n_total: 5, worst: None, best: None };
        Cell::Scores(CellScores { summary, missing: None })
    }

    fn row(id: &str, standing: TrialStanding, cells: Vec<Cell>) -> BoardRow {
        BoardRow {
            id: id.to_owned(),
            labels: BTreeMap::new(),
            settings: BTreeMap::new(),
            standing,
            label: String::new(),
            place: String::new(),
            group: None,
            tied: false,
            front: false,
            front_share: None,
            p_value: None,
            effect_size: None,
            questions_needed: None,
            stopped: None,
            losses: BTreeMap::new(),
            lost: None,
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
            leads: None,
            no_winner: None,
            answering: Some(Answering { trial: "t02".to_owned(), note: None }),
            verdict: vec!["no winner: nothing was scored".to_owned()],
            groups: Vec::new(),
            front: Vec::new(),
            effects: Vec::new(),
            warnings: Vec::new(),
            looked_for: None,
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
            objective: vec!["answer_relevancy".to_owned()],
            columns: vec![
                column(ColumnKind::Axis, "retriever", 0),
                column(ColumnKind::Objective, "objective", 3),
                Column { judged: true, ..column(ColumnKind::Metric, "answer_relevancy", 3) },
                column(ColumnKind::Seconds, "s p50", 2),
                column(ColumnKind::Tokens, "tokens", 0),
                Column { shown: false, ..column(ColumnKind::Money, "$", 4) },
            ],
            rows: vec![row("t01", TrialStanding::Winner, first), row("t02", TrialStanding::OutOfCalls, second)],
        }
    }

    #[test]
    fn a_row_has_its_mark_and_numbers_with_what_is_missing() {
        let text = leaderboard(&board(), &TableLayout::default()).unwrap();
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "zoo: 3 documents");
        assert!(lines.contains(&"★ t01 bm25 0.500 [0.400, 0.600] 0.500 (3/5) 1.26 120".to_owned()), "{text}");
        assert!(lines.contains(&"… t02 dense – – (0/5) – –".to_owned()), "{text}");
        assert!(text.contains("objective [95 %]") && text.contains("relevancy*") && !text.contains('$'), "{text}");
    }

    #[test]
    fn what_has_no_room_is_left_out_by_importance_and_named() {
        let narrow = leaderboard(&board(), &TableLayout { width: Some(60), ..TableLayout::default() }).unwrap();
        assert!(narrow.lines().all(|line| console::measure_text_width(line) <= 60), "{narrow}");
        assert!(narrow.contains("objective") && narrow.contains("bm25"), "{narrow}");
        assert!(narrow.contains("no room for s p50, tokens"), "{narrow}");
        let wide = leaderboard(&board(), &TableLayout { width: Some(200), ..TableLayout::default() }).unwrap();
        assert!(!wide.contains("no room") && wide.contains("tokens"), "{wide}");
    }

    #[test]
    fn what_tells_trials_apart_is_said_in_fewer_words_before_it_is_left_out() {
        let mut board = board();
        board.rows[0].cells[0] = Cell::Text("hybrid(top_k=3 fusion=rrf(k=60))".to_owned());
        let at = |width| leaderboard(&board, &TableLayout { width: Some(width), ..TableLayout::default() }).unwrap();
        let (wide, narrow, narrower) = (at(90), at(58), at(44));
        assert!(wide.contains("hybrid(top_k=3 fusion=rrf(k=60))") && wide.contains("[0.400, 0.600]"), "{wide}");
        assert!(narrow.contains("hybrid(3 rrf(60))") && narrow.contains("[0.400, 0.600]"), "{narrow}");
        assert!(narrower.contains("hybrid(3 rrf(60))") && !narrower.contains("[0.400"), "{narrower}");
    }

    #[test]
    fn columns_and_the_order_can_be_chosen_and_a_misspelt_name_is_refused() {
        let layout = |columns: &[&str], sort: Option<&str>| TableLayout {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            sort: sort.map(str::to_owned),
            ..TableLayout::default()
        };
        let text = leaderboard(&board(), &layout(&["$", "retriever"], Some("$"))).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["trial", "retriever", "$"]);
        assert_eq!(rows[2..4], [vec!["…", "t02", "dense", "0.0000"], vec!["★", "t01", "bm25", "0.2500"]]);
        let error = leaderboard(&board(), &layout(&["recal"], None)).unwrap_err().to_string();
        assert!(error.contains("no column `recal`") && error.contains("answer_relevancy"), "{error}");
        assert!(leaderboard(&board(), &layout(&[], Some("cost"))).is_err());
    }

    #[test]
    fn groups_are_blocks_and_the_number_of_questions_stands_above_means() {
        let mut board = board();
        board.groups = vec![vec!["t01".to_owned()], vec!["t02".to_owned()]];
        board.rows.reverse();
        for (row, group) in board.rows.iter_mut().zip([2, 1]) {
            row.group = Some(group);
            row.cells[2] = scores(Some(0.25), 0);
        }
        board.notes.push(note(About::Groups, "", "groups: t01 > t02"));
        let text = leaderboard(&board, &TableLayout::default()).unwrap();
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(place("group 1: 1 trial, the best") < place("t01 "), "{text}");
        assert!(place("t01 ") < place("group 2: 1 trial, worse than group 1") && text.contains("n = 5"), "{text}");
        assert!(!text.contains("groups: t01"), "{text}");
        let sorted =
            leaderboard(&board, &TableLayout { sort: Some("tokens".to_owned()), ..TableLayout::default() }).unwrap();
        assert!(!sorted.contains("group 1:") && sorted.contains("groups: t01 > t02"), "{sorted}");
    }

    #[test]
    fn notes_say_what_can_be_done_on_a_command_line() {
        let text = leaderboard(&board(), &TableLayout::default()).unwrap();
        let (_, notes) = text.split_once("no winner: nothing was scored\n").unwrap();
        let expected = "search by race: 1 of 2 answers asked for (50 %). Why, for each: reverie leaderboard --json | jq '.rows[] | {id, stopped}'
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
        assert_eq!(leaderboard(&board, &TableLayout::default()).unwrap(), expected);
    }

    #[test]
    fn warnings_stand_right_below_the_verdict() {
        let warning = lab::Warning {
            code: lab::WarningCode::RetrievesNothing,
            trials: vec!["t02".to_owned()],
            text: "t02: nothing was retrieved for 5 of 5 questions".to_owned(),
            count: Some(5),
            total: Some(5),
            action: "look at one".to_owned(),
        };
        let board = Board { warnings: vec![warning], ..board() };
        let told = "warning: t02: nothing was retrieved for 5 of 5 questions [retrieves-nothing]\nwhat a warning means";
        let text = leaderboard(&board, &TableLayout::default()).unwrap();
        assert!(text.contains(&format!("no winner: nothing was scored\n{told}")), "{text}");
        let unscored = Board { unscored: Some("everything is indexed by t02".to_owned()), ..board };
        let text = leaderboard(&unscored, &TableLayout::default()).unwrap();
        assert!(text.contains(&format!("--trial t02\n{told}")), "a run without questions has warnings too: {text}");
    }
}

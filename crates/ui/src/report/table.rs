//! The leaderboard as a plain table, for readers whose browser runs no scripts.
//! The page's script replaces it.

use lab::board::{Board, BoardRow, Cell, Column, ColumnKind};

/// Escapes a text for HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// What the page says without scripts.
pub(crate) fn leaderboard(board: &Board) -> String {
    let titles: Vec<&str> =
        board.columns.iter().filter(|column| column.shown).map(|column| column.title.as_str()).collect();
    let head: String = ["standing", "trial"].iter().chain(&titles).map(|title| th("col", title)).collect();
    let rows: String = board.rows.iter().map(|row| tr(board, row)).collect();
    let verdict = board.unscored.clone().unwrap_or_else(|| board.verdict.join(". "));
    let partial = board.partial.as_ref().map_or_else(String::new, |partial| p(&format!("Partial results: {partial}.")));
    let warnings: String = board.warnings.iter().map(|warning| p(&format!("Warning: {}.", warning.text))).collect();
    format!(
        "<h1>{}</h1>{partial}{}{warnings}{}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>",
        escape(&board.experiment),
        p(&format!("Verdict: {verdict}.")),
        p(&format!("{}. Run {}, {}.", board.corpus, board.run, board.finished)),
    )
}

fn tr(board: &Board, row: &BoardRow) -> String {
    let cells: String = board.shown(row).map(|(column, cell)| td(&shown(column, cell))).collect();
    format!("<tr>{}{}{cells}</tr>", td(&row.label), th("row", &row.id))
}

fn shown(column: &Column, cell: &Cell) -> String {
    let number = |value: f64| format!("{:.*}", column.digits, value + 0.0);
    match cell {
        Cell::Empty => "–".to_owned(),
        Cell::Text(text) => text.clone(),
        Cell::Number(value) => number(*value),
        Cell::Scores(scores) => {
            let summary = &scores.summary;
            let Some(mean) = summary.mean else { return format!("– (0/{})", summary.n_total) };
            let interval = summary.low.zip(summary.high);
            let interval = interval.map_or_else(String::new, |(low, high)| format!(" ({low:.2}–{high:.2})"));
            let of = match column.kind {
                ColumnKind::Metric => format!(", {}/{}", summary.n_scored, summary.n_total),
                _ => String::new(),
            };
            format!("{}{interval}{of}", number(mean))
        }
    }
}

fn th(scope: &str, text: &str) -> String {
    format!("<th scope=\"{scope}\">{}</th>", escape(text))
}

fn td(text: &str) -> String {
    format!("<td>{}</td>", escape(text))
}

fn p(text: &str) -> String {
    format!("<p>{}</p>", escape(text))
}

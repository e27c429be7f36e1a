//! `reverie leaderboard`: the results of the last run.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice},
    environment,
    failure::CommandFailure,
    render,
    report::{report_path, write_report},
};

/// Show the leaderboard of the last run.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie leaderboard
  reverie leaderboard --wide
  reverie leaderboard --columns retriever,ndcg,latency_p50 --sort latency_p50
  reverie leaderboard --effects
  reverie leaderboard --losses
  reverie leaderboard --run 0123
  reverie leaderboard -f books.toml --json | jq -r '.winner // .leads'

With --json, what the leaderboard says: `winner` (null unless the verdict names
one), `leads` (the first by the objective), `no_winner` (why none is named),
`verdict`, `columns`, `effects`, and in `rows` each trial with a cell for each column,
and with `losses`: how many questions ended at each step.
Questions, passages and answers are in `trials` of the run's folder, a Parquet
table for each trial, and in `reverie show TRIAL --json`.")]
pub struct LeaderboardArguments {
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
    /// Show every column, however wide the terminal is.
    #[arg(long)]
    wide: bool,
    /// The columns to show: axes, metrics, objective, test, latency_p50, latency_p95, tokens, cost_usd, index_cost_usd,
    /// index_tokens.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    columns: Vec<String>,
    /// Sort by a column: scores from the highest, seconds, tokens and dollars from the lowest.
    #[arg(long, value_name = "NAME")]
    sort: Option<String>,
    /// Show what each axis changes: the mean difference from the leading trial's value, over otherwise equal trials.
    #[arg(long)]
    effects: bool,
    /// Show at which step each trial lost the evidence of questions, and how the other questions ended.
    #[arg(long)]
    losses: bool,
}

impl LeaderboardArguments {
    fn layout(&self) -> render::TableLayout {
        let layout = render::TableLayout::of_terminal();
        let width = layout.width.filter(|_| !self.wide);
        render::TableLayout { width, columns: self.columns.clone(), sort: self.sort.clone() }
    }
}

pub async fn run(cx: &CommandContext, arguments: LeaderboardArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    if cx.json {
        cx.print_json(record.board())?;
    } else {
        cx.print_leaderboard(record.board(), &arguments.layout())?;
        if arguments.effects {
            cx.print(format_args!("\n{}", render::effects(record.board())));
        }
        if arguments.losses {
            cx.print(format_args!("\n{}", render::losses(record.board())));
        }
        let path = report_path(&session, record.id());
        let report = match path.is_file() {
            true => Some(path),
            false if session.workspace().is_reading() => None,
            false => Some(write_report(&session, &record.results(&session).await?).await?),
        };
        if let Some(report) = report {
            cx.print(format_args!("report: {}", report.display()));
        }
    }
    cx.note_changes_since(&session, &record).await;
    Ok(0)
}

//! Tries search strategies on recorded grids, as they really run.
//!
//!     cargo run --release --example search_replay -- record RESULTS.json GRID.parquet
//!     cargo run --release --example search_replay -- replay GRID.parquet… [--reshuffles 200]
//!
//! A grid is recorded from the results of a run that asked every trial
//! everything (`results.json` of its folder). In a replay the questions are
//! put into another order each time; a strategy sees nothing but the scores
//! that it asks for. The best trial is that with the highest mean over all
//! questions.

#![allow(clippy::print_stdout)]

use arrow_array::{Array, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use eval::statistics::{Random, mean};
use lab::{
    Results,
    search::{SearchConfig, SearchProblem, StopKind, TrialScores, leader},
};
use parquet::arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder};
use std::{collections::BTreeMap, fs::File, path::Path, sync::Arc};

type Failure = Box<dyn std::error::Error>;

/// All scores of a full grid.
struct Grid {
    labels: Vec<BTreeMap<String, String>>,
    /// By trial, by question.
    scores: Vec<Vec<f64>>,
}

fn record(results: &Path, grid: &Path) -> Result<(), Failure> {
    let results: Results = Results::read_file(results)?;
    let contributions = results.contributions(&BTreeMap::new());
    let (mut trials, mut labels, mut questions, mut scores) = (vec![], vec![], vec![], vec![]);
    let mut by_id: Vec<_> = results.trials.iter().collect();
    by_id.sort_by(|a, b| a.trial.id.cmp(&b.trial.id));
    for trial in by_id {
        for (question, score) in trial.questions.iter().zip(&contributions[&trial.trial.id]) {
            let score = score.ok_or_else(|| format!("{} was not asked {}", trial.trial.id, question.question))?;
            trials.push(trial.trial.id.clone());
            labels.push(serde_json::to_string(&trial.trial.labels)?);
            questions.push(question.question.clone());
            scores.push(score);
        }
    }
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let schema = Schema::new(vec![
        text("trial"),
        text("labels"),
        text("question"),
        Field::new("score", DataType::Float64, false),
    ]);
    let columns: Vec<Arc<dyn Array>> = vec![
        Arc::new(StringArray::from(trials)),
        Arc::new(StringArray::from(labels)),
        Arc::new(StringArray::from(questions)),
        Arc::new(Float64Array::from(scores)),
    ];
    let batch = RecordBatch::try_new(Arc::new(schema), columns)?;
    let mut writer = ArrowWriter::try_new(File::create(grid)?, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    println!("{}: {} scores", grid.display(), batch.num_rows());
    Ok(())
}

fn read(path: &Path) -> Result<Grid, Failure> {
    let mut grid = Grid { labels: vec![], scores: vec![] };
    let mut last = String::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()? {
        let batch = batch?;
        let text = |column: usize| batch.column(column).as_any().downcast_ref::<StringArray>();
        let numbers = batch.column(3).as_any().downcast_ref::<Float64Array>();
        let (Some(trials), Some(labels), Some(scores)) = (text(0), text(1), numbers) else {
            return Err(format!("{} is no recorded grid", path.display()).into());
        };
        for row in 0..batch.num_rows() {
            if trials.value(row) != last {
                last = trials.value(row).to_owned();
                grid.labels.push(serde_json::from_str(labels.value(row))?);
                grid.scores.push(Vec::new());
            }
            if let Some(trial) = grid.scores.last_mut() {
                trial.push(scores.value(row));
            }
        }
    }
    Ok(grid)
}

/// What became of many runs of one strategy.
#[derive(Default)]
struct Tally {
    near: usize,
    exact: usize,
    best_eliminated: usize,
    eliminated: usize,
    answers: usize,
    lost: f64,
}

fn replay(grid: &Grid, config: &SearchConfig, reshuffles: usize) -> Result<Tally, Failure> {
    let questions = grid.scores[0].len();
    let problem = SearchProblem { trials: grid.labels.clone(), choices: grid.labels.clone(), questions, width: 1.0 };
    let means: Vec<f64> = grid.scores.iter().filter_map(|scores| mean(scores)).collect();
    let best = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut tally = Tally::default();
    for round in 0..reshuffles {
        let mut order: Vec<usize> = (0..questions).collect();
        Random::new(1_000 + round as u64).shuffle(&mut order);
        let mut seen: Vec<TrialScores> = vec![Vec::new(); means.len()];
        // What a strategy draws by itself is drawn anew as well.
        let mut strategy = seeded(config, round as u64)?.build(&problem)?;
        loop {
            let asked = strategy.next(&seen);
            if asked.iter().zip(&seen).all(|(asked, seen)| *asked <= seen.len()) {
                break;
            }
            for ((seen, scores), n) in seen.iter_mut().zip(&grid.scores).zip(asked) {
                *seen = order[..n].iter().map(|&question| Some(scores[question])).collect();
            }
        }
        let picked = leader(&seen).ok_or("the search found nothing")?;
        let stops = strategy.stops(&seen);
        let eliminated = |trial: usize| stops.get(&trial).is_some_and(|stop| stop.kind == StopKind::Eliminated);
        tally.answers += seen.iter().map(Vec::len).sum::<usize>();
        tally.near += usize::from(means[picked] >= 0.99 * best);
        tally.exact += usize::from(means[picked] >= best - 1e-12);
        tally.lost += best - means[picked];
        tally.eliminated += (0..means.len()).filter(|&trial| eliminated(trial)).count();
        // Any of several best ones is as good.
        let best_ones = (0..means.len()).filter(|&trial| means[trial] >= best - 1e-12);
        tally.best_eliminated += usize::from(best_ones.into_iter().all(eliminated));
    }
    Ok(tally)
}

/// The same strategy with another seed, where it has one.
fn seeded(config: &SearchConfig, seed: u64) -> Result<SearchConfig, Failure> {
    let mut value = serde_json::to_value(config)?;
    if let Some(field) = value.as_object_mut().and_then(|map| map.values_mut().next()).and_then(|c| c.get_mut("seed")) {
        *field = seed.into();
    }
    Ok(serde_json::from_value(value)?)
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((verb, [results, grid])) if verb == "record" => record(Path::new(results), Path::new(grid)),
        Some((verb, rest)) if verb == "replay" && !rest.is_empty() => {
            let at = rest.iter().position(|word| word == "--reshuffles");
            let reshuffles = at.and_then(|at| rest.get(at + 1)).and_then(|n| n.parse().ok()).unwrap_or(200);
            println!(
                "{:<22}{:<22}{:>8}{:>11}{:>10}{:>12}{:>12}{:>16}",
                "grid", "search", "calls", "within 1 %", "the best", "mean loss", "eliminated", "best eliminated"
            );
            for path in &rest[..at.unwrap_or(rest.len())] {
                let grid = read(Path::new(path))?;
                let name = Path::new(path).file_stem().map(|name| name.to_string_lossy().into_owned());
                let name = format!(
                    "{} {}×{}",
                    name.unwrap_or_default(),
                    grid.scores.len(),
                    grid.scores.first().map_or(0, Vec::len)
                );
                for config in SearchConfig::defaults() {
                    let tally = replay(&grid, &config, reshuffles)?;
                    let n = reshuffles as f64;
                    let all = n * (grid.scores.len() * grid.scores[0].len()) as f64;
                    println!(
                        "{name:<22}{:<22}{:>6.1} %{:>9.1} %{:>8.1} %{:>12.4}{:>12.1}{:>14.1} %",
                        config.name(),
                        100.0 * tally.answers as f64 / all,
                        100.0 * tally.near as f64 / n,
                        100.0 * tally.exact as f64 / n,
                        tally.lost / n,
                        tally.eliminated as f64 / n,
                        100.0 * tally.best_eliminated as f64 / n,
                    );
                }
            }
            Ok(())
        }
        _ => Err("say `record RESULTS.json GRID.parquet` or `replay GRID.parquet…`".into()),
    }
}

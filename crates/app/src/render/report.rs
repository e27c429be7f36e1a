//! `report.html`: one self-contained file. The page's code and style are in
//! `report/`; what it draws goes in as JSON: the board, which says everything
//! about trials, and what each trial made of each question.

use eval::{Question, Score};
use lab::{Board, QuestionResult, Results};
use rag::{Answer, Passage};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/style.css");
const SCRIPT: &str = include_str!("report/script.js");
/// Hides everything but the first section, for a frame in a notebook.
const ONLY_THE_PLOT: &str = "header, section:not(:first-child) { display: none; } h2 { margin-top: 8px !important; }";

/// What the page draws.
#[derive(Serialize)]
struct Data<'a> {
    board: Board,
    questions: &'a [Question],
    /// By trial, in the order of the questions.
    trials: BTreeMap<&'a str, Vec<Asked<'a>>>,
}

/// What a trial made of a question.
#[derive(Serialize)]
struct Asked<'a> {
    question: &'a str,
    passages: &'a [Passage],
    answer: Option<&'a Answer>,
    error: Option<&'a str>,
    scores: BTreeMap<&'a str, Scored<'a>>,
}

/// A score, or why there is none.
#[derive(Serialize)]
struct Scored<'a> {
    value: Option<f64>,
    missing: Option<String>,
    detail: &'a Value,
}

impl<'a> Asked<'a> {
    fn of(result: &'a QuestionResult) -> Self {
        let scored = |scored: &'a eval::Scored| Scored {
            value: scored.score.value(),
            missing: match &scored.score {
                Score::Value(_) => None,
                Score::Missing(missing) => Some(missing.to_string()),
            },
            detail: &scored.detail,
        };
        Self {
            question: &result.question,
            passages: &result.passages,
            answer: result.answer.as_ref(),
            error: result.error.as_deref(),
            scores: result.scores.iter().map(|(metric, score)| (metric.as_str(), scored(score))).collect(),
        }
    }
}

/// The whole page.
pub fn report(results: &Results) -> Result<String, serde_json::Error> {
    let trials = results.trials.iter();
    let trials = trials.map(|found| (found.trial.id.as_str(), found.questions.iter().map(Asked::of).collect()));
    page(STYLE, &Data { board: Board::of(results), questions: &results.questions, trials: trials.collect() })
}

/// The page with nothing but its plot: it holds no question and no passage.
pub fn plot(results: &Results) -> Result<String, serde_json::Error> {
    let board = Board { notes: Vec::new(), rejected: Vec::new(), ..Board::of(results) };
    page(&[STYLE, ONLY_THE_PLOT].concat(), &Data { board, questions: &[], trials: BTreeMap::new() })
}

fn page(style: &str, data: &Data<'_>) -> Result<String, serde_json::Error> {
    // `<` could end the script element, so it is written as an escape that
    // JSON knows too: retrieved text is data.
    let data = serde_json::to_string(data)?
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let (before, rest) = PAGE.split_once("/*style*/").unwrap_or((PAGE, ""));
    let (middle, rest) = rest.split_once("/*data*/").unwrap_or((rest, ""));
    let (inner, after) = rest.split_once("/*script*/").unwrap_or((rest, ""));
    Ok([before, style, middle, &data, inner, SCRIPT, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn results() -> Results {
        let question = json!({ "id": "q1", "question": "Who wrote </script>?" });
        serde_json::from_value(json!({
            "version": 1, "experiment": "<b>", "run": "zoo-1", "time_ms": 0, "documents": 1, "text_bytes": 9,
            "rejected": [], "metrics": [], "objective": [], "questions": [question], "trials": [],
            "winner": { "refused": "nothing was scored" }, "verdict": ["no winner: nothing was scored"],
            "executed": 1, "reused": 0, "provider_errors": 0, "spending": {},
        }))
        .unwrap()
    }

    fn data(page: &str) -> Value {
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn the_page_holds_the_board_and_no_text_can_end_its_data() {
        let data = data(&report(&results()).unwrap());
        assert_eq!(data["board"], json!(Board::of(&results())));
        assert_eq!(data["questions"][0]["question"], "Who wrote </script>?");
    }

    #[test]
    fn a_plot_holds_no_question() {
        let page = plot(&results()).unwrap();
        assert_eq!(data(&page)["questions"], json!([]));
        assert!(page.contains(ONLY_THE_PLOT) && !report(&results()).unwrap().contains(ONLY_THE_PLOT));
    }
}

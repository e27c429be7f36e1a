//! `report.html`: one self-contained file. The page's code and style are in
//! `report/`; what it draws goes in as JSON: the board, which says everything
//! about trials, and what each trial made of each question.

use eval::{Question, Score};
use lab::{Board, QuestionResult, Results};
use rag::{Answer, Passage};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use store::{Key, KeyBuilder};

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
    /// Each passage once, whoever found it.
    passages: Vec<&'a Passage>,
    /// How scores came about, each account once: many metrics give the same one.
    details: Vec<&'a Value>,
}

/// Each of some values once, with its place. Values are told apart by how they are written.
struct Once<'a, T> {
    all: Vec<&'a T>,
    places: HashMap<Key, usize>,
}

impl<'a, T: Serialize> Once<'a, T> {
    fn place(&mut self, value: &'a T, identity: &impl Serialize) -> usize {
        let key = KeyBuilder::new("once").field("value", identity).finish();
        *self.places.entry(key).or_insert_with(|| {
            self.all.push(value);
            self.all.len() - 1
        })
    }
}

impl<T> Default for Once<'_, T> {
    fn default() -> Self {
        Self { all: Vec::new(), places: HashMap::new() }
    }
}

/// What a trial made of a question.
#[derive(Serialize)]
struct Asked<'a> {
    question: &'a str,
    /// The place of each passage among all, and its score.
    passages: Vec<(usize, f32)>,
    answer: Option<&'a Answer>,
    error: Option<&'a str>,
    scores: BTreeMap<&'a str, Scored>,
}

/// A score, or why there is none.
#[derive(Serialize)]
struct Scored {
    value: Option<f64>,
    missing: Option<String>,
    /// The place of its account among all.
    detail: Option<usize>,
}

impl<'a> Asked<'a> {
    fn of(result: &'a QuestionResult, passages: &mut Once<'a, Passage>, details: &mut Once<'a, Value>) -> Self {
        let mut scored = |scored: &'a eval::Scored| Scored {
            value: scored.score.value(),
            missing: match &scored.score {
                Score::Value(_) => None,
                Score::Missing(missing) => Some(missing.to_string()),
            },
            detail: (!scored.detail.is_null()).then(|| details.place(&scored.detail, &scored.detail)),
        };
        let mut place = |passage: &'a Passage| {
            let Passage { document, span, text, rows, .. } = passage;
            (passages.place(passage, &(document, span, text, rows)), passage.score)
        };
        Self {
            question: &result.question,
            passages: result.passages.iter().map(&mut place).collect(),
            answer: result.answer.as_ref(),
            error: result.error.as_deref(),
            scores: result.scores.iter().map(|(metric, score)| (metric.as_str(), scored(score))).collect(),
        }
    }
}

/// The whole page.
pub fn report(results: &Results) -> Result<String, serde_json::Error> {
    let (mut passages, mut details) = (Once::default(), Once::default());
    let mut trials = BTreeMap::new();
    for found in &results.trials {
        let asked = found.questions.iter().map(|result| Asked::of(result, &mut passages, &mut details)).collect();
        trials.insert(found.trial.id.as_str(), asked);
    }
    let (passages, details) = (passages.all, details.all);
    page(STYLE, &Data { board: Board::of(results), questions: &results.questions, trials, passages, details })
}

/// The page with nothing but its plot: it holds no question and no passage.
pub fn plot(results: &Results) -> Result<String, serde_json::Error> {
    let board = Board { notes: Vec::new(), rejected: Vec::new(), ..Board::of(results) };
    let (trials, passages, details) = (BTreeMap::new(), Vec::new(), Vec::new());
    page(&[STYLE, ONLY_THE_PLOT].concat(), &Data { board, questions: &[], trials, passages, details })
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
    fn what_many_trials_found_is_written_once() {
        let passage = |score: f32, text: &str| {
            json!({
                "document": "a.md", "span": { "start": 0, "end": 4 }, "text": text, "score": score, "page": null,
                "book": null, "heading": null, "rows": [1],
            })
        };
        let trial = |score: f32| {
            let found = [passage(score, "rye!"), passage(score / 2.0, "oats")];
            let scored = json!({ "score": { "value": 1.0 }, "detail": { "places": [1, 2] } });
            let question = json!({
                "question": "q1", "passages": found, "answer": null, "error": null,
                "scores": { "recall": scored, "ndcg": scored },
            });
            serde_json::from_value::<QuestionResult>(question).unwrap()
        };
        let (first, second) = (trial(0.5), trial(0.25));
        let (mut passages, mut details) = (Once::default(), Once::default());
        let asked = [&first, &second].map(|result| Asked::of(result, &mut passages, &mut details));
        assert_eq!(asked[1].passages, [(0, 0.25), (1, 0.125)]);
        assert_eq!((passages.all.len(), details.all.len()), (2, 1));
        assert_eq!(passages.all[1].text, "oats");
        assert!(asked.iter().flat_map(|asked| asked.scores.values()).all(|scored| scored.detail == Some(0)));
    }

    #[test]
    fn a_plot_holds_no_question() {
        let page = plot(&results()).unwrap();
        assert_eq!(data(&page)["questions"], json!([]));
        assert!(page.contains(ONLY_THE_PLOT) && !report(&results()).unwrap().contains(ONLY_THE_PLOT));
    }
}

//! What stands in the page and in its parts.

use super::*;
use lab::Board;
use serde_json::{Value, json};

fn question(id: &str) -> Value {
    json!({ "id": id, "question": "Who wrote </script>?" })
}

fn results(questions: &[Value], trials: &[Value]) -> Results {
    let metric = |name: &str| json!({ "name": name, "judged": false, "objective": name == "recall", "range": [0.0, 1.0], "higher_is_better": true });
    serde_json::from_value(json!({
        "version": 1, "experiment": "<b>", "run": "zoo-1", "time_ms": 0, "documents": 1, "text_bytes": 9,
        "rejected": [], "metrics": [metric("recall"), metric("ndcg")], "objective": ["recall"], "questions": questions,
        "trials": trials, "winner": { "refused": "nothing was scored" }, "verdict": ["no winner: nothing was scored"],
        "executed": 1, "reused": 0, "provider_errors": 0, "spending": {},
    }))
    .unwrap()
}

/// A trial that was asked these questions; the score of each first passage is this.
fn trial(id: &str, questions: &[&str], score: f32) -> Value {
    let passage = |score: f32, start: usize, text: &str| {
        json!({
            "document": "a.md", "span": { "start": start, "end": start + text.len() }, "text": text, "score": score,
            "page": null, "book": null, "heading": null, "rows": [1],
        })
    };
    let scored = json!({ "score": { "value": 0.1 }, "detail": { "places": [1, 2] } });
    let missing = json!({ "score": { "missing": { "reason": "not_asked", "detail": "a limit" } }, "detail": null });
    let asked = |question: &&str| {
        json!({
            "question": question, "passages": [passage(score, 9, "rye!"), passage(score / 2.0, 0, "oats")],
            "answer": null, "error": if *question == "q2" { json!("down") } else { Value::Null },
            "scores": { "recall": scored, "ndcg": if *question == "q2" { missing.clone() } else { scored.clone() } },
        })
    };
    let pipeline = json!({
        "id": id, "chunker": { "sentence": {} }, "embedder": null, "query": { "none": {} },
        "retriever": { "bm25": {} }, "reranker": { "none": {} }, "generator": null, "labels": { "chunker": "sentence" },
    });
    json!({
        "trial": pipeline, "objective": null, "metrics": {}, "latency_p50": null, "latency_p95": null, "tokens": null,
        "cost_usd": 0.0, "p_value": null, "tied": false, "failures": [],
        "questions": questions.iter().map(asked).collect::<Vec<_>>(),
    })
}

fn two_trials() -> Results {
    results(&[question("q1"), question("q2")], &[trial("t01", &["q1", "q2"], 0.5), trial("t02", &["q1"], 0.25)])
}

fn inside(page: &str, id: &str) -> Value {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The data of a script in the folder, with the name and the stamp that it states.
fn part(report: &ReportFiles, name: &str) -> (String, String, Value) {
    let (_, script) = report.parts.iter().find(|(file, _)| file == &format!("{name}.js")).unwrap();
    let call = script.strip_prefix("reverieReportPart(").unwrap().strip_suffix(");\n").unwrap();
    let arguments: Vec<String> = serde_json::from_str(&format!("[{call}]")).unwrap();
    let [name, stamp, text] = &arguments[..] else { panic!("{arguments:?}") };
    (name.clone(), stamp.clone(), serde_json::from_str(text).unwrap())
}

#[test]
fn the_page_holds_the_board_and_no_text_can_end_its_data() {
    let results = two_trials();
    let page = report(&results, ReportForm::OneFile).unwrap().page;
    let data = inside(&page, "data");
    assert_eq!(data["board"], json!(Board::of(&results)));
    assert_eq!(data["questions"][0]["question"], "Who wrote </script>?");
    assert!(page.contains("<title>Reverie: &lt;b&gt;</title>"), "the experiment's name is no markup");
    assert_eq!(page.matches("</script").count(), page.matches("<script").count());
}

#[test]
fn where_evidence_was_lost_is_in_each_part_only_if_it_is_known() {
    let before = report(&two_trials(), ReportForm::OneFile).unwrap().page;
    assert_eq!(inside(&before, "data")["loss_steps"], json!([]));
    assert!(inside(&before, "part-trial-0").get("losses").is_none());
    let mut known = trial("t01", &["q1", "q2"], 0.5);
    let loss = json!({ "step": "cut_apart", "evidence": [{ "step": "cut_apart", "searched": 2 }] });
    known["questions"][0]["loss"] = loss.clone();
    let page = report(&results(&[question("q1"), question("q2")], &[known]), ReportForm::OneFile).unwrap().page;
    let steps = &inside(&page, "data")["loss_steps"];
    assert_eq!(steps[1]["title"], "cut apart");
    assert_eq!(inside(&page, "part-trial-0")["losses"], json!([1, null]));
    let questions = inside(&page, "part-questions-0");
    assert_eq!(questions[0]["trials"][0]["loss"], loss);
    assert!(questions[1]["trials"][0].get("loss").is_none());
}

#[test]
fn a_passage_is_written_once_and_in_the_order_of_the_documents() {
    let page = report(&two_trials(), ReportForm::OneFile).unwrap().page;
    let passages = inside(&page, "part-passages-0");
    let texts: Vec<&str> = passages.as_array().unwrap().iter().map(|it| it["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["oats", "rye!"]);
    let questions = inside(&page, "part-questions-0");
    assert_eq!(questions[0]["lists"], json!([[[1, 0.5], [0, 0.25]], [[1, 0.25], [0, 0.125]]]));
    assert_eq!(questions[0]["trials"][1]["list"], 1);
    assert_eq!(questions[0]["details"], json!([{ "places": [1, 2] }]), "many metrics give the same account");
    assert_eq!(questions[0]["trials"][0]["details"], json!([0, 0]));
    assert_eq!(questions[1]["trials"][0]["error"], "down");
}

#[test]
fn a_question_that_a_trial_lacks_has_no_passages_there() {
    let page = report(&two_trials(), ReportForm::OneFile).unwrap().page;
    let questions = inside(&page, "part-questions-0");
    assert_eq!(questions[1]["lists"][questions[1]["trials"][1]["list"].as_u64().unwrap() as usize], json!([]));
}

#[test]
fn what_was_searched_is_written_once_with_the_reason_why_it_is_less() {
    let mut trials = ["t01", "t02", "t03"].map(|id| trial(id, &["q1"], 0.5));
    let query = json!({ "words": "a", "text": "b", "passages": ["c"] });
    for trial in &mut trials[1..] {
        trial["questions"][0]["queries"] = json!([query]);
        trial["questions"][0]["query_fallback"] = json!("down");
    }
    let page = report(&results(&[question("q1")], &trials), ReportForm::OneFile).unwrap().page;
    let found = &inside(&page, "part-questions-0")[0];
    assert_eq!(found["searches"], json!([{ "queries": [query], "fallback": "down" }]));
    let places: Vec<&Value> = found["trials"].as_array().unwrap().iter().map(|trial| &trial["search"]).collect();
    assert_eq!(places, [&Value::Null, &json!(0), &json!(0)]);
}

#[test]
fn scores_of_a_trial_are_lists_and_a_missing_score_keeps_its_reason() {
    let page = report(&two_trials(), ReportForm::OneFile).unwrap().page;
    let scores = inside(&page, "part-trial-0");
    assert_eq!(scores["scores"], json!([[0.1, 0.1], [0.1, null]]));
    assert_eq!(scores["missing"], json!([{}, { "not asked: a limit": [1] }]));
    assert_eq!(scores["answers"], json!([0, 2]));
    assert_eq!(scores["objective"], json!([0.1, 0.1]));
}

#[test]
fn parts_beside_the_page_are_the_same_data_and_marked_as_of_this_report() {
    let results = two_trials();
    let (whole, split) =
        (report(&results, ReportForm::OneFile).unwrap(), report(&results, ReportForm::Folder("oats-parts")).unwrap());
    assert_eq!(whole.parts, []);
    assert!(!split.page.contains("part-trial-0") && !split.page.contains("rye!"));
    let data = inside(&split.page, "data");
    assert_eq!(data["folder"], "oats-parts");
    for name in ["trial-0", "trial-1", "questions-0", "passages-0", "matrix"] {
        let (stated, stamp, part) = part(&split, name);
        assert_eq!((stated.as_str(), json!(stamp)), (name, data["stamp"].clone()));
        assert_eq!(part, inside(&whole.page, &format!("part-{name}")));
    }
    assert_eq!(split.parts.len(), 5);
    let other = results_of_another_run();
    assert_ne!(inside(&report(&other, ReportForm::Folder("x")).unwrap().page, "data")["stamp"], data["stamp"]);
    assert_eq!(report(&results, ReportForm::Fitting("x")).unwrap().parts, [], "what is small is one file");
}

fn results_of_another_run() -> Results {
    results(&[question("q1")], &[trial("t01", &["q1"], 0.75)])
}

#[test]
fn parts_are_cut_by_their_size_and_the_page_knows_where() {
    let questions: Vec<String> = (0..60).map(|number| format!("q{number}")).collect();
    let ids: Vec<&str> = questions.iter().map(String::as_str).collect();
    let asked: Vec<Value> =
        ids.iter().map(|id| json!({ "id": id, "question": "?", "reference": "x".repeat(20_000) })).collect();
    let report = report(&results(&asked, &[trial("t01", &ids, 0.5)]), ReportForm::Folder("x")).unwrap();
    let firsts = inside(&report.page, "data")["question_parts"].clone();
    let firsts: Vec<usize> = serde_json::from_value(firsts).unwrap();
    assert!(firsts.len() > 3 && firsts[0] == 0, "{firsts:?}");
    for (number, &first) in firsts.iter().enumerate() {
        let (_, _, part) = part(&report, &format!("questions-{number}"));
        assert_eq!(part[0]["golden"]["id"], format!("q{first}"));
    }
}

#[test]
fn the_policy_allows_this_script_and_style_and_a_folder_only_where_there_is_one() {
    let results = two_trials();
    let policy =
        |page: &str| page.split_once("Security-Policy\" content=\"").unwrap().1.split_once('"').unwrap().0.to_owned();
    let whole = policy(&report(&results, ReportForm::OneFile).unwrap().page);
    assert!(whole.starts_with("default-src 'none'; script-src 'sha256-") && !whole.contains("self"), "{whole}");
    assert!(!whole.contains("unsafe") && !whole.contains("http"), "{whole}");
    assert!(policy(&report(&results, ReportForm::Folder("x")).unwrap().page).contains("' 'self'; style-src 'sha256-"));
    // The hash is of what stands between the tags.
    let page = report(&results, ReportForm::OneFile).unwrap().page;
    let script = page.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    assert!(whole.contains(&csp_hash(script)));
}

#[test]
fn without_scripts_there_is_a_table_of_the_trials() {
    let page = report(&two_trials(), ReportForm::OneFile).unwrap().page;
    let (_, plain) = page.split_once("<div id=\"plain\">").unwrap();
    let (plain, _) = plain.split_once("</div>").unwrap();
    assert!(plain.contains("<th scope=\"row\">t02</th>") && plain.contains("<h1>&lt;b&gt;</h1>"), "{plain}");
    assert!(plain.contains("Verdict: no winner: nothing was scored."), "{plain}");
}

#[test]
fn a_plot_holds_no_question() {
    let results = two_trials();
    let page = plot(&results).unwrap();
    assert_eq!(inside(&page, "data")["questions"], json!([]));
    let only = "<body data-only=\"plot\">";
    assert!(!page.contains("rye!") && page.contains(only));
    assert!(!report(&results, ReportForm::OneFile).unwrap().page.contains(only));
}

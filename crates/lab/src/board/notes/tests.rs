//! Tests of each remark on a leaderboard: when it is made, its topic and its numbers.

use super::*;
use crate::{
    results::{
        QualificationRecord, TrialResult,
        fixture::{choose, results, score},
    },
    search::Stop,
};
use eval::{Scored, statistics::Summary, verdict::VerdictKind};
use models::{Caps, Identity, ModelUsage, TotalCaps, TotalSpending, TotalSpent};
use rag::load::{LoadError, Rejected};
use serde_json::json;

/// Two trials with five questions and one metric.
fn scored() -> Results {
    let mut results = results(2);
    score(&mut results, "recall", &[vec![Some(0.5); 5], vec![Some(0.5); 5]]);
    choose(&mut results, "recall", &[1, 1]);
    results
}

/// The remarks on a topic, with what they speak of.
fn told(results: &Results, about: About) -> Vec<(Option<String>, String)> {
    let notes = notes(results, &[], &[]).into_iter().filter(|note| note.about == about);
    notes.map(|note| (note.subject, note.text)).collect()
}

fn texts(results: &Results, about: About) -> Vec<String> {
    told(results, about).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn the_unit_of_an_amount_of_text_changes_at_a_thousand_of_the_smaller_one() {
    let table = [
        (1, "1 bytes"),
        (1_049, "1.0 KB"),
        (1_050, "1.1 KB"),
        (999_949, "999.9 KB"),
        (1_000_000, "1.00 MB"),
        (1_234_567_890, "1234.57 MB"),
    ];
    for (bytes, expected) in table {
        assert_eq!(size(bytes), expected);
    }
    assert_eq!(
        [1, 10, 100, 12_345, 100_000, 1_000_000].map(count),
        ["1", "10", "100", "12,345", "100,000", "1,000,000"]
    );
}

#[test]
fn files_that_gave_no_document_are_counted_with_what_was_read() {
    let mut results = scored();
    assert_eq!(corpus(&results), "1,234 documents (5.68 MB of text), 5 questions, 2 trials");
    let reason = LoadError::UnknownFormat("x".to_owned());
    results.rejected = vec![Rejected { path: "a.pdf".to_owned(), reason }];
    assert_eq!(corpus(&results), "1,234 documents (5.68 MB of text), 5 questions, 2 trials, not read: 1");
}

#[test]
fn repeated_tasks_are_told_only_where_there_are_some() {
    let mut results = scored();
    (results.executed, results.reused) = (0, 1_000);
    assert_eq!(work(&results), "0 tasks executed, 1,000 taken from the store");
    results.repeated = 2_500;
    assert_eq!(work(&results), "0 tasks executed, 1,000 taken from the store, 2,500 repeated because a worker died");
}

#[test]
fn the_gap_is_that_of_the_first_trial_and_needs_both_of_its_means() {
    let summary = |mean| Some(Summary { mean, ..Summary::of(&[], (0.0, 1.0), 0) });
    // (the trial, its mean where it was chosen, its mean on test questions, the gap)
    let table = [
        (0, Some(0.5), Some(0.25), Some("0.500; on the 0 held-out questions: 0.250, a gap of +0.250")),
        (0, Some(0.25), Some(0.5), Some("0.250; on the 0 held-out questions: 0.500, a gap of -0.250")),
        (0, Some(0.5), Some(0.5), Some("0.500; on the 0 held-out questions: 0.500, a gap of +0.000")),
        (0, None, Some(0.5), None),
        (0, Some(0.5), None, None),
        // The second trial does not lead.
        (1, Some(0.5), Some(0.25), None),
    ];
    for (trial, chosen, reported, expected) in table {
        let mut results = scored();
        (results.trials[trial].objective, results.trials[trial].test) = (summary(chosen), summary(reported));
        let expected: Vec<String> = expected.iter().map(|text| format!("chosen on 5 questions: {text}")).collect();
        assert_eq!(texts(&results, About::Gap), expected, "{trial} {chosen:?} {reported:?}");
    }
}

#[test]
fn a_search_is_told_with_its_share_of_all_answers_and_each_kind_of_stop() {
    let stop = |kind| Stop { kind, questions: 2, reason: "behind".to_owned() };
    let (out, lost, never) = (StopKind::OutOfCalls, StopKind::Eliminated, StopKind::NotTried);
    let table: [(usize, usize, &[StopKind], &str); 5] = [
        (0, 0, &[], "0 of 0 answers asked for (0 %)"),
        (1, 3, &[], "1 of 3 answers asked for (33 %)"),
        (6_000, 6_000, &[], "6,000 of 6,000 answers asked for (100 %)"),
        (1, 2, &[never, never], "1 of 2 answers asked for (50 %); 2 never tried"),
        (
            1,
            2,
            &[never, out, lost, lost],
            "1 of 2 answers asked for (50 %); 2 × eliminated, another one is better; 1 … out of calls, not shown to be \
             worse; 1 never tried",
        ),
    ];
    for (answers, all_answers, stops, expected) in table {
        let stops = stops.iter().enumerate().map(|(i, &kind)| (format!("t{i}"), stop(kind))).collect();
        let search = SearchResult { strategy: "race".to_owned(), answers, all_answers, stops };
        assert_eq!(search_text(&search), format!("search by race: {expected}"));
    }
}

#[test]
fn a_judge_is_told_with_how_it_did_on_each_kind_of_cases() {
    let kind = |kind, qualified, balanced_accuracy: Option<f64>, auc| Qualification {
        kind,
        n: 20,
        unreadable: 0,
        measured_by: None,
        auc,
        auc_interval: None,
        balanced_accuracy,
        accuracy_interval: balanced_accuracy.map(|middle| Interval { low: middle - 0.125, high: middle + 0.0625 }),
        threshold: None,
        qualified,
        reason: String::new(),
    };
    let model = Identity {
        provider: "test".to_owned(),
        model: "m".to_owned(),
        revision: String::new(),
        parameters: serde_json::Value::Null,
    };
    let kinds = vec![
        kind(VerdictKind::Supported, true, Some(0.875), Some(0.9375)),
        kind(VerdictKind::Relevant, false, None, None),
    ];
    let record =
        QualificationRecord { judge: "gpt".to_owned(), model, cases: "c".to_owned(), n_cases: 40, time_ms: 0, kinds };
    let mut results = scored();
    results.judges = vec![
        JudgeResult { judge: "gpt".to_owned(), record: Some(record) },
        JudgeResult { judge: "new".to_owned(), record: None },
    ];
    assert_eq!(told(&results, About::Judge), [], "no metric asks them");
    results.metrics[0].judged = true;
    let text = "judged by gpt: supported qualified (balanced accuracy 0.88 [0.75, 0.94], AUC 0.94); relevant NOT \
                qualified (balanced accuracy –, AUC –)";
    assert_eq!(told(&results, About::Judge), [(Some("gpt".to_owned()), text.to_owned())]);
    let text = "judged by new, never tried on labelled cases";
    assert_eq!(told(&results, About::UntriedJudge), [(Some("new".to_owned()), text.to_owned())]);
}

/// Makes the first scores of the first trial missing, because the budget was reached.
fn without_budget(results: &mut Results, scores: usize) {
    for question in results.trials[0].questions.iter_mut().take(scores) {
        let missing = Score::Missing(Missing::Budget("spent".to_owned()));
        question.scores.insert("recall".to_owned(), Scored::plain(missing));
    }
}

#[test]
fn answers_that_are_missing_are_told_with_the_reason_unless_the_budget_explains_them() {
    let unpaid = "2 scores were not asked for, because of the budget: run again to go on";
    let failed = "3 answers or verdicts are missing because a model failed: run again to ask for them";
    let either =
        "3 answers or verdicts are missing because the budget was reached or a model failed: run again to ask for them";
    // (scores that the budget did not allow, failures of providers, whether the budget ended the run, remarks)
    let table: [(usize, usize, bool, &[&str]); 6] = [
        (0, 0, false, &[]),
        (0, 3, false, &[failed]),
        (2, 0, false, &[unpaid]),
        (2, 3, false, &[unpaid, failed]),
        (0, 3, true, &[either]),
        (2, 3, true, &[unpaid]),
    ];
    for (scores, errors, partial, expected) in table {
        let mut results = scored();
        without_budget(&mut results, scores);
        results.provider_errors = errors;
        results.partial = partial.then(|| "the budget was reached".to_owned());
        assert_eq!(texts(&results, About::Missing), expected, "{scores} {errors} {partial}");
    }
}

#[test]
fn failures_and_unread_files_speak_of_their_trial_and_their_file() {
    let mut results = scored();
    results.trials[1].failures = vec!["chunk: down".to_owned(), "embed: down".to_owned()];
    let of = |text: &str| (Some("t02".to_owned()), text.to_owned());
    assert_eq!(told(&results, About::Failure), [of("t02: chunk: down"), of("t02: embed: down")]);
    results.unread = vec![rag::load::Unread { path: "a.pdf".to_owned(), reason: "no permission".to_owned() }];
    assert_eq!(told(&results, About::Unread)[0].0.as_deref(), Some("a.pdf"));
}

#[test]
fn chunks_without_a_text_are_one_remark_for_the_trials_that_share_them() {
    let mut results = results(3);
    for (trial, chunks) in results.trials.iter_mut().zip([Some(1_000), Some(1_000), Some(2)]) {
        trial.not_enriched =
            chunks.map(|chunks| NotEnriched { chunks, total: 4_000, reason: "the reply is empty".to_owned() });
        trial.trial.pipeline_mut().enrich = serde_json::from_value(json!({ "contextual": { "model": "m" } })).unwrap();
    }
    let text = |chunks: &str| {
        format!("contextual wrote nothing usable for {chunks} of 4,000 chunks, most often because: the reply is empty")
    };
    let expected =
        [(None, format!("t01, t02: {}", text("1,000"))), (Some("t03".to_owned()), format!("t03: {}", text("2")))];
    assert_eq!(told(&results, About::Queries), expected);
}

#[test]
fn a_model_that_read_only_the_beginning_of_texts_is_told_for_chunks_and_for_questions() {
    let mut results = results(3);
    let cut = |trial: &mut TrialResult, index: u64, questions: u64| {
        for (ledger, cut_texts) in [(&mut trial.usage.index, index), (&mut trial.usage.questions, questions)] {
            ledger.add("account", &ModelUsage { model: "small".to_owned(), cut_texts, ..ModelUsage::default() });
        }
    };
    cut(&mut results.trials[0], 1_200, 0);
    cut(&mut results.trials[1], 0, 0);
    cut(&mut results.trials[2], 1_200, 3);
    let text = |n: &str, otherwise: &str| {
        format!(
            "small read only the beginning of {n}, which are longer than its limit: use smaller chunks, or a model \
             that reads more{otherwise}"
        )
    };
    let expected = [
        (None, format!("t01, t03: {}", text("1,200 chunks", ", or set `long_texts` of the model"))),
        (Some("t03".to_owned()), format!("t03: {}", text("3 texts", ""))),
    ];
    assert_eq!(told(&results, About::Queries), expected);
}

#[test]
fn what_a_model_did_not_read_is_told_with_its_limit_the_number_of_all_texts_and_the_share() {
    let told_of = |used: ModelUsage| {
        let mut results = results(1);
        results.trials[0].usage.index.add("account", &ModelUsage { model: "minilm".to_owned(), ..used });
        texts(&results, About::Queries)
    };
    let used = ModelUsage {
        texts: 2_310,
        cut_texts: 1_204,
        prompt_tokens: 570_000,
        cut_tokens: 430_000,
        max_tokens: 256,
        ..ModelUsage::default()
    };
    let advice = "use smaller chunks, or a model that reads more, or set `long_texts` of the model";
    let text = |share: &str| {
        format!(
            "t01: minilm read only the beginning of 1,204 of 2,310 chunks, which are longer than 256 tokens, and \
             {share} of all their text was not read: {advice}"
        )
    };
    assert_eq!(told_of(used.clone()), [text("43 %")]);
    assert_eq!(told_of(ModelUsage { cut_tokens: 9, ..used.clone() }), [text("less than 1 %")]);
    let windows = ModelUsage { cut_texts: 0, cut_tokens: 0, windowed_texts: 1_204, ..used };
    assert!(told_of(windows).is_empty(), "nothing is lost");
}

#[test]
fn of_equally_frequent_reasons_the_first_is_told() {
    let mut results = results(1);
    let reasons = ["cut", "down", "cut", "down"];
    for (question, reason) in results.trials[0].questions.iter_mut().zip(reasons) {
        question.query_fallback = Some(reason.to_owned());
    }
    let text = "t01: none fell back for 4 of 5 questions, most often because: cut (2 times)";
    assert_eq!(texts(&results, About::Queries), [text]);
}

#[test]
fn a_model_without_a_price_is_one_remark_for_all_trials_that_ask_it() {
    let mut results = scored();
    results.trials[0].usage.unpriced = vec!["gpt".to_owned(), "ranker".to_owned()];
    results.trials[1].usage.unpriced = vec!["gpt".to_owned()];
    assert_eq!(told(&results, About::Price), [], "no trial has a cost");
    results.trials[0].index_cost_usd = Some(0.5);
    let told = told(&results, About::Price);
    let subjects: Vec<Option<&str>> = told.iter().map(|(subject, _)| subject.as_deref()).collect();
    assert_eq!(subjects, [Some("gpt"), Some("ranker")]);
    assert!(told[0].1.starts_with("t01, t02: ") && told[1].1.starts_with("t01: "), "{told:?}");
}

#[test]
fn what_calls_to_a_model_took_leaves_out_money_and_refusals_where_there_are_none() {
    let spending = Spending {
        calls: 1_200,
        from_journal: 34,
        prompt_tokens: 5_000_000,
        cached_tokens: 1_000,
        completion_tokens: 70,
        ..Spending::default()
    };
    let text = "gpt: 1,200 calls, 34 from the journal, 5,000,000 tokens read (1,000 from a shared prefix), 70 written"
        .to_owned();
    assert_eq!(spent("gpt", &spending).text, text);
    let paid = Spending { cost_usd: 0.000_4, ..spending };
    assert_eq!(spent("gpt", &paid).text, format!("{text}, $0.0004"));
    let refused = Spending { cost_usd: 12.5, refused: 1_000, ..spending };
    let note = spent("gpt", &refused);
    assert_eq!(note.text, format!("{text}, $12.5000, 1,000 refused by the provider and made again"));
    assert_eq!((note.about, note.subject.as_deref()), (About::Spending, Some("gpt")));
}

#[test]
fn the_use_of_a_budget_is_told_in_all_its_units() {
    let mut results = scored();
    assert_eq!(texts(&results, About::Budget), [""; 0]);
    let caps = Caps { usd: Some(0.5), ..Caps::default() };
    let spent = SpentTotals { usd: 0.25, tokens: 1_234, calls: 12, paid_calls: 9, minutes: 1.5 };
    results.budget = Some(BudgetResult { caps, spent, reached: None, calls_not_made: 0, total: None });
    let text = "of the budget of $0.50, this run used $0.25, 1,234 tokens, 12 calls, 1.5 minutes";
    assert_eq!(texts(&results, About::Budget), [text]);
    let total = TotalSpending {
        caps: TotalCaps { usd: Some(20.0), ..TotalCaps::default() },
        earlier: TotalSpent { usd: 4.5, tokens: 1_000, calls: 10 },
        here: TotalSpent { usd: 0.25, tokens: 234, calls: 2 },
        reached: None,
    };
    if let Some(budget) = &mut results.budget {
        budget.total = Some(total);
    }
    let of_total = "of the total budget of $20.00 for all starts, this run used $0.25, 234 tokens, 2 calls, and other \
                    starts $4.50, 1,000 tokens, 10 calls";
    assert_eq!(texts(&results, About::Budget), [text, of_total]);
}

#[test]
fn damaged_answers_are_told_only_where_there_are_some() {
    let mut results = scored();
    assert_eq!(texts(&results, About::Journal), [""; 0]);
    results.damaged_entries = 1_000;
    assert_eq!(texts(&results, About::Journal), ["1,000 answers in the journal were damaged and were asked for again"]);
}

//! Hand-made results for tests.

use super::{MetricResult, QuestionResult, Results, TrialResult, Winner};
use crate::{plan::trial, spec::Experiment};
use eval::{Missing, Question, Score, Scored, statistics::Summary};
use std::collections::BTreeMap;

/// Results with five questions and this many trials, which differ in their
/// retriever. Nothing is scored, and the first trial is named the winner.
pub(crate) fn results(trials: usize) -> Results {
    let retrievers: Vec<String> = (1..=trials).map(|k| format!("{{ bm25 = {{ top_k = {k} }} }}")).collect();
    let text = format!(
        "name = \"zoo\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = [{}]\n",
        retrievers.join(", ")
    );
    let trials = trial::grid(&Experiment::parse(&text, ".").unwrap());
    let questions = ["a", "b", "c", "d", "e"];
    let asked = |id: &str| QuestionResult {
        queries: Vec::new(),
        query_fallback: None,
        remarks: Vec::new(),
        question: id.to_owned(),
        passages: Vec::new(),
        answer: None,
        trace: None,
        error: None,
        scores: BTreeMap::new(),
        loss: None,
    };
    let found = |trial| TrialResult::uncompared(trial, questions.map(asked).to_vec());
    Results {
        version: 1,
        experiment: "zoo".to_owned(),
        run: "zoo-1".to_owned(),
        time_ms: 1_795_342_062_000,
        documents: 1234,
        text_bytes: 5_678_901,
        rejected: Vec::new(),
        unread: Vec::new(),
        dataset: None,
        left_out: Vec::new(),
        lost_questions: Vec::new(),
        parser_places: Vec::new(),
        metrics: Vec::new(),
        objective: Vec::new(),
        questions: questions.map(|id| Question { id: id.to_owned(), ..Question::default() }).to_vec(),
        trials: trials.into_iter().map(found).collect(),
        winner: Winner::Trial("t01".to_owned()),
        verdict: Vec::new(),
        executed: 1200,
        reused: 34,
        repeated: 0,
        provider_errors: 0,
        function_errors: 0,
        spending: BTreeMap::new(),
        search: None,
        budget: None,
        partial: None,
        damaged_entries: 0,
        judges: Vec::new(),
        acts: Vec::new(),
        warnings: Vec::new(),
        looked_for: None,
    }
}

/// Adds a metric: for each trial, a score for each question, none where the
/// provider failed.
pub(crate) fn score(results: &mut Results, metric: &str, scores: &[Vec<Option<f64>>]) {
    results.metrics.push(MetricResult {
        name: metric.to_owned(),
        judged: false,
        objective: false,
        range: (0.0, 1.0),
        higher_is_better: true,
        correctness: false,
    });
    for (trial, scores) in results.trials.iter_mut().zip(scores) {
        let failed = || Score::Missing(Missing::ProviderError("down".to_owned()));
        let scores: Vec<Score> = scores.iter().map(|score| score.map_or_else(failed, Score::Value)).collect();
        trial.metrics.insert(metric.to_owned(), Summary::of(&scores, (0.0, 1.0), 0));
        for (question, score) in trial.questions.iter_mut().zip(scores) {
            question.scores.insert(metric.to_owned(), Scored::plain(score));
        }
    }
}

/// Makes a metric the one that chooses, with these groups.
pub(crate) fn choose(results: &mut Results, metric: &str, groups: &[usize]) {
    results.objective = vec![metric.to_owned()];
    for (number, (trial, group)) in results.trials.iter_mut().zip(groups).enumerate() {
        trial.objective = trial.metrics.get(metric).cloned();
        trial.group = Some(*group);
        trial.tied = number > 0 && *group == 1;
        trial.p_value = (number > 0).then_some(0.25);
    }
    let first = results.trials[0].trial.id.clone();
    let is_clear = results.trials.len() > 1 && !results.trials.iter().any(|trial| trial.tied);
    results.winner = if is_clear { Winner::Trial(first) } else { Winner::Leads(first) };
}

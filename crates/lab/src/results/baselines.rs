//! Whether retrieval is worth its price: compares the answers of the best trial that retrieves with
//! those of a model without documents, and of one that reads whole documents.

use super::{MetricResult, Results, SEED, TrialResult, objective::to_unit_scale};
use eval::{Missing, Score, statistics::Comparison};
use rag::{Component, PipelineConfig};

/// A way to answer that needs no retrieval, and how sentences name it.
struct Baseline {
    is: fn(&PipelineConfig) -> bool,
    /// The question that it answers.
    question: &'static str,
    /// Its name in sentences.
    name: &'static str,
}

const BASELINES: [Baseline; 2] = [
    Baseline {
        is: |pipeline| pipeline.generator.as_ref().is_some_and(|generator| !generator.reads_passages()),
        question: "do these questions need the documents at all?",
        name: "the model alone",
    },
    Baseline {
        is: |pipeline| pipeline.values().any(|(_, value)| value.reads_documents()),
        question: "is retrieval better than reading whole documents?",
        name: "whole documents",
    },
];

impl Results {
    /// A sentence for each kind of baseline that was among the trials.
    pub(super) fn baselines(&self) -> Vec<String> {
        let is = |baseline: &Baseline, found: &TrialResult| found.trial.pipeline().is_some_and(baseline.is);
        let is_baseline = |trial: &TrialResult| BASELINES.iter().any(|baseline| is(baseline, trial));
        let Some(best) = self.best(|trial| !is_baseline(trial)) else { return Vec::new() };
        let mut sentences = Vec::new();
        for baseline in &BASELINES {
            let other = self.best(|trial| is(baseline, trial));
            sentences.extend(other.map(|other| self.sentence(baseline, best, other)));
        }
        sentences
    }

    /// Of the trials that `holds` accepts, the one with the best answers.
    fn best(&self, holds: impl Fn(&TrialResult) -> bool) -> Option<&TrialResult> {
        let answers = |found: &TrialResult| found.trial.pipeline().is_some_and(|pipeline| pipeline.generator.is_some());
        let answers: Vec<&TrialResult> =
            self.trials.iter().filter(|trial| holds(trial) && trial.stopped.is_none() && answers(trial)).collect();
        let mean = |trial: &TrialResult| {
            let known: Vec<f64> = self.answer_scores(trial, trial).iter().filter_map(Score::value).collect();
            eval::statistics::mean(&known)
        };
        let known = answers.into_iter().filter_map(|trial| Some((trial, mean(trial)?)));
        // Of equals the first.
        known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(trial, _)| trial)
    }

    fn sentence(&self, baseline: &Baseline, best: &TrialResult, other: &TrialResult) -> String {
        let (id, other_id, name) = (&best.trial.id, &other.trial.id, baseline.name);
        let (one, two) = (self.answer_scores(best, other), self.answer_scores(other, best));
        let comparison = Comparison::of(&one, &two, (0.0, 1.0), SEED);
        let (Some(mean), Some(interval)) = (comparison.mean_difference, comparison.interval) else {
            return format!(
                "{} unknown: {id} and {name} ({other_id}) have too few scores in common",
                baseline.question
            );
        };
        let names: Vec<&str> = self.shared(best, other).map(|metric| metric.name.as_str()).collect();
        let (low, high) = (interval.low, interval.high);
        let verdict = if low > 0.0 {
            format!("yes: {id} answers better than {name} ({other_id})")
        } else if high < 0.0 {
            format!("no: {name} ({other_id}) answers better than {id}")
        } else {
            format!("not shown: {id} and {name} ({other_id}) cannot be told apart")
        };
        let tokens = match (best.tokens, other.tokens) {
            (Some(best), Some(other)) => format!(", with {best:.0} against {other:.0} tokens for an answer"),
            _ => String::new(),
        };
        format!(
            "{} {verdict}, {mean:+.3} [{low:+.3}, {high:+.3}] in {} over {} questions{tokens}",
            baseline.question,
            names.join(", "),
            comparison.n_pairs
        )
    }

    /// The metrics that compare answers with references and scored some question of both.
    fn shared<'a>(&'a self, one: &'a TrialResult, other: &'a TrialResult) -> impl Iterator<Item = &'a MetricResult> {
        let has = |trial: &TrialResult, metric: &str| trial.metrics.get(metric).is_some_and(|it| it.mean.is_some());
        self.metrics
            .iter()
            .filter(move |metric| metric.correctness && has(one, &metric.name) && has(other, &metric.name))
    }

    /// For each question the mean of the shared metrics, 1 at best.
    fn answer_scores(&self, trial: &TrialResult, other: &TrialResult) -> Vec<Score> {
        let metrics: Vec<&MetricResult> = self.shared(trial, other).collect();
        let score = |question: &super::QuestionResult| {
            let value =
                |metric: &&MetricResult| Some(to_unit_scale(metric, question.scores.get(&metric.name)?.score.value()?));
            let values: Option<Vec<f64>> = metrics.iter().map(value).collect();
            let mean = values.and_then(|values| eval::statistics::mean(&values));
            mean.map_or_else(|| Score::Missing(Missing::NotAsked(String::new())), Score::Value)
        };
        trial.questions.iter().map(score).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// Three trials: with retrieval, without, and with whole documents.
    fn results(scores: &[Vec<Option<f64>>]) -> Results {
        let mut results = fixture::results(3);
        let more = |trial: &mut TrialResult| trial.questions = vec![trial.questions.clone(); 4].concat();
        results.trials.iter_mut().for_each(more);
        let compact = serde_json::json!({ "compact": { "model": "m" } });
        let generators = [compact.clone(), serde_json::json!({ "no_retrieval": { "model": "m" } }), compact];
        for (trial, generator) in results.trials.iter_mut().zip(generators) {
            trial.trial.pipeline_mut().generator = serde_json::from_value(generator).unwrap();
            trial.tokens = Some(100.0);
        }
        results.trials[2].trial.pipeline_mut().refine =
            serde_json::from_value(serde_json::json!("long_context")).unwrap();
        fixture::score(&mut results, "token_f1", scores);
        results.metrics[0].correctness = true;
        results
    }

    #[test]
    fn it_says_whether_retrieval_pays_with_interval_and_price() {
        let same = |value| vec![Some(value); 20];
        let mixed = [Some(0.8), Some(1.0), Some(0.9), Some(0.8), Some(1.0)].repeat(4);
        let sentences = results(&[same(0.9), same(0.2), mixed]).baselines();
        assert_eq!(sentences.len(), 2);
        let yes =
            "do these questions need the documents at all? yes: t01 answers better than the model alone (t02), +0.700";
        assert!(sentences[0].starts_with(yes), "{}", sentences[0]);
        let price = "in token_f1 over 20 questions, with 100 against 100 tokens for an answer";
        assert!(sentences[0].ends_with(price), "{}", sentences[0]);
        assert!(
            sentences[1].contains("not shown: t01 and whole documents (t03) cannot be told apart"),
            "{}",
            sentences[1]
        );
        let sentences = results(&[same(0.2), same(0.9), vec![None; 20]]).baselines();
        assert_eq!(sentences.len(), 1);
        assert!(sentences[0].contains("no: the model alone (t02) answers better than t01, -0.700"), "{sentences:?}");
    }

    #[test]
    fn without_a_baseline_or_answers_nothing_is_said() {
        assert!(fixture::results(3).baselines().is_empty());
        let mut all = results(&[vec![Some(0.5); 20], vec![Some(0.5); 20], vec![Some(0.5); 20]]);
        all.trials.truncate(1);
        assert!(all.baselines().is_empty());
    }

    fn same(value: f64) -> Vec<Option<f64>> {
        vec![Some(value); 20]
    }

    #[test]
    fn only_metrics_that_compare_answers_with_references_tell_whether_retrieval_pays() {
        let mut all = results(&[same(0.9), same(0.2), same(0.5)]);
        all.metrics[0].correctness = false;
        assert!(all.baselines().is_empty());
        fixture::score(&mut all, "exact_match", &[same(0.0), same(1.0), same(0.0)]);
        all.metrics[1].correctness = true;
        assert!(all.baselines()[0].contains("no: the model alone (t02) answers better than t01, -1.000"), "{all:?}");
    }

    #[test]
    fn the_mean_is_over_the_metrics_that_both_have_and_each_counts_as_a_share_of_its_range() {
        let mut all = results(&[same(0.8), same(0.4), same(0.4)]);
        // On a scale of 1 to 5 where less is better, 2 is 0.75 and 4 is 0.25.
        fixture::score(&mut all, "edits", &[vec![Some(2.0); 20], vec![Some(4.0); 20], vec![None; 20]]);
        (all.metrics[1].range, all.metrics[1].higher_is_better) = ((1.0, 5.0), false);
        all.metrics[1].correctness = true;
        let sentences = all.baselines();
        // (0.8 + 0.75) / 2 − (0.4 + 0.25) / 2, and 0.8 − 0.4 by the one metric that the third has.
        assert!(sentences[0].contains("+0.450 ["), "{sentences:?}");
        assert!(sentences[0].contains("in token_f1, edits over 20 questions"), "{sentences:?}");
        assert!(sentences[1].contains("+0.400 [") && sentences[1].contains("in token_f1 over 20"), "{sentences:?}");
    }

    #[test]
    fn the_best_of_several_stands_for_its_kind_and_of_equals_the_first() {
        let of = |scores: [f64; 3]| {
            let mut all = results(&scores.map(same));
            // Two trials that retrieve, and the model alone.
            all.trials[2].trial.pipeline_mut().refine = all.trials[0].trial.pipeline().unwrap().refine.clone();
            all.baselines()
        };
        assert!(of([0.5, 0.2, 0.9])[0].contains("yes: t03 answers better than the model alone (t02), +0.700"));
        assert!(of([0.9, 0.2, 0.5])[0].contains("yes: t01 answers better than the model alone (t02), +0.700"));
        assert!(of([0.5, 0.2, 0.5])[0].contains("yes: t01 answers better"), "of equals the first");
        assert_eq!(of([0.5, 0.2, 0.5]).len(), 1, "nothing reads whole documents");
    }

    #[test]
    fn a_trial_that_was_stopped_or_has_no_generator_stands_for_nothing() {
        let stop = || {
            let kind = crate::search::StopKind::Eliminated;
            Some(crate::search::Stop { kind, questions: 2, reason: "late".to_owned() })
        };
        let scores = || [same(0.9), same(0.2), same(0.5)];
        let mut all = results(&scores());
        all.trials[1].stopped = stop();
        assert!(all.baselines().iter().all(|sentence| sentence.contains("whole documents")), "{:?}", all.baselines());
        all.trials[2].trial.pipeline_mut().generator = None;
        assert!(all.baselines().is_empty());
        let mut all = results(&scores());
        all.trials[0].stopped = stop();
        assert!(all.baselines().is_empty(), "nothing retrieves");
    }

    #[test]
    fn without_common_scores_it_is_unknown_and_without_tokens_no_price_is_told() {
        let half = |from: usize| (0..20).map(|i| (i >= from && i < from + 10).then_some(0.5)).collect::<Vec<_>>();
        let unknown = results(&[half(0), half(10), same(0.5)]).baselines();
        let text = "do these questions need the documents at all? unknown: t01 and the model alone (t02) have too few \
                    scores in common";
        assert_eq!(unknown[0], text);
        let mut all = results(&[same(0.9), same(0.2), same(0.5)]);
        all.trials[1].tokens = None;
        let sentences = all.baselines();
        assert!(sentences[0].ends_with("over 20 questions") && sentences[1].ends_with("tokens for an answer"));
    }
}

//! Compares a trial of a run with the trial of a bundle, question by question: is it worse than
//! what was promoted, by more than chance?
//!
//! A trial is called worse if, by a metric of the objective, both hold: the one-sided sign-flip test of its losses,
//! corrected by Holm for the number of metrics, has p < 0.05; and the mean loss is beyond the margin. Nothing is
//! concluded where the mean loss is beyond the margin and the questions are too few for the test to prove it
//! ([`MetricOutcome::TooFew`]). Otherwise it passes, and the loss that would have been found is reported: a pass on few
//! questions proves little.
//!
//! If the questions are split, only those of the split `test` count, by which neither trial was
//! chosen: a trial that was selected on a question is overrated by that question (selection bias).
//!
//! The objective is that of the bundle, and that of the run as far as the bundle has scores by it:
//! a change of the experiment cannot remove a metric.

mod measured;
mod sentences;
#[cfg(test)]
mod tests;

use crate::{
    Error,
    action::Action,
    bundle::BundleManifest,
    plan::trial::{self, label_names},
    record::{RunRecord, what_differs},
    results::ScoresByMetric,
    spec::NONE,
    warning::{Warning, WarningCode},
};
use eval::{
    Question, Score,
    dataset::Split,
    statistics::{
        Comparison, Interval, detectable_loss, fewest_losses, holm_of_known, mean, sign_flip_p_value_of_loss,
    },
};
use measured::RecordedMetric;
use serde::Serialize;
use std::collections::BTreeMap;

/// The share of checks that may call an equal trial worse.
const ALPHA: f64 = 0.05;
/// The share of questions that must be scored on both sides for a conclusion.
const ENOUGH: f64 = 0.9;
const SEED: u64 = 0x5EED;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// The experiment's name.
    pub experiment: String,
    /// The verdict on the run's trial.
    pub verdict: CheckVerdict,
    /// The verdict in a sentence.
    pub sentence: String,
    /// The trial of the bundle.
    pub bundle: CheckedTrial,
    /// The trial of the run.
    pub run: CheckedTrial,
    /// A smaller mean loss does not count: a share of each metric's range.
    pub margin: f64,
    /// Questions that the trials are compared on: both were asked them, and neither was chosen by
    /// them.
    pub questions: usize,
    /// Questions that both trials were asked, and that are left out because one of the trials was
    /// chosen by them: 0 if the questions are not split.
    pub chosen_by: usize,
    /// Questions of the bundle that the run was not asked.
    pub only_in_bundle: usize,
    /// Questions of the run that the bundle was not asked.
    pub only_in_run: usize,
    /// Those of the objective first.
    pub metrics: Vec<CheckedMetric>,
    /// What limits the verdict, in sentences.
    pub notes: Vec<String>,
    /// The run's warnings that concern the trial. They fail the check only with [`Check::with_failing_warnings`].
    pub warnings: Vec<Warning>,
}

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    /// No loss beyond the margin was proven.
    Pass,
    /// It is worse.
    Fail,
    /// Too many scores are missing to say, or the mean is worse by more than the
    /// margin and there are too few questions to prove it.
    Inconclusive,
}

/// One of the two trials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedTrial {
    /// Its run.
    pub run: String,
    /// When that finished, in milliseconds since 1970.
    pub run_time_ms: i64,
    /// Its id there.
    pub trial: String,
    /// Its value on each axis, with the settings in which the two trials differ.
    pub labels: BTreeMap<String, String>,
}

/// One metric on the questions that both trials were asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckedMetric {
    /// Its name.
    pub metric: String,
    /// What it says.
    pub outcome: MetricOutcome,
    /// The same in a sentence.
    pub sentence: String,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The bundle's mean, over the questions with both scores.
    pub bundle: Option<f64>,
    /// The run's mean over the same.
    pub run: Option<f64>,
    /// The mean of (run − bundle).
    pub difference: Option<f64>,
    /// The 95 % interval of the difference (paired bootstrap, two-sided).
    pub interval: Option<Interval>,
    /// How likely a loss as large as this one is if the trials are equal. None
    /// if the metric was not tested.
    pub p_value: Option<f64>,
    /// The same, corrected for the number of metrics that were tested.
    pub corrected: Option<f64>,
    /// Questions with both scores.
    pub scored: usize,
    /// Questions that should have both.
    pub asked: usize,
    /// The smallest mean loss that would have been found in four of five cases; none if too few
    /// differ to tell.
    pub detectable_loss: Option<f64>,
    /// At least this many questions must be worse to prove a loss; more if any is better.
    pub fewest_losses: usize,
}

/// What a metric says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricOutcome {
    /// No loss beyond the margin was proven.
    Passed,
    /// A loss beyond the margin was proven.
    Worse,
    /// Too many scores are missing.
    Inconclusive,
    /// The mean loss is beyond the margin, and fewer questions differ than the
    /// test needs to prove any loss.
    TooFew,
    /// It is not in the objective, so it does not affect the verdict.
    Shown,
}

/// The places of each shared question in the bundle and in the run, in the order of the run.
type Pairs = Vec<(usize, usize)>;

impl Check {
    /// Compares a trial of a run with that of a bundle. Losses up to `margin`, a share of each
    /// metric's range, do not count.
    ///
    /// # Errors
    /// [`Error::Refused`] if questions or metrics of one name are not the same on
    /// both sides, or there is nothing to judge by; or there is no such trial.
    pub fn of(
        (manifest, bundle): (&BundleManifest, &RunRecord),
        (run, trial): (&RunRecord, &str),
        margin: f64,
    ) -> Result<Self, Error> {
        Self::of_records((bundle, &manifest.trial), (run, trial), margin)
    }

    fn of_records(
        (bundle, promoted): (&RunRecord, &str),
        (run, trial): (&RunRecord, &str),
        margin: f64,
    ) -> Result<Self, Error> {
        let (objective, unknown) = objective(bundle, run);
        let (theirs, ours) = (scores(bundle, promoted)?, scores(run, trial)?);
        let measured = RecordedMetric::of(run.provenance()?);
        let before = bundle.readable_provenance().map(RecordedMetric::of).unwrap_or_default();
        let shared = pairs(bundle, run);
        let is_same = |metric: &str| measured.get(metric).is_some_and(|now| before.get(metric) == Some(now));
        refuse(bundle, run, &shared, &objective, &is_same)?;
        let pairs = unseen(bundle, run, &shared);

        let mut notes = notes(bundle, run);
        let chosen_by = shared.len() - pairs.len();
        if chosen_by > 0 {
            notes.push(format!(
                "compared on the {} questions of the split `test`; the {chosen_by} that chose a trial are left out",
                pairs.len()
            ));
        }
        if !unknown.is_empty() {
            notes.push(format!(
                "the objective of the run has {}, which the bundle has no scores for; it does not affect the verdict",
                unknown.join(", ")
            ));
        }
        let shown = |metric: &&str| !objective.contains(metric) && ours.contains_key(*metric);
        let mut metrics = Vec::new();
        for metric in objective.iter().copied().chain(theirs.keys().copied().filter(shown)) {
            let is_decisive = objective.contains(&metric);
            // Even a metric that is only shown must be the same on both sides.
            if !is_decisive && !is_same(metric) {
                notes.push(format!("{metric} was measured otherwise for the bundle, and is not shown"));
                continue;
            }
            let higher_is_better =
                measured.get(metric).or(before.get(metric)).is_none_or(RecordedMetric::higher_is_better);
            let both =
                PairedScores { theirs: theirs.get(metric), ours: ours.get(metric), pairs: &pairs, higher_is_better };
            metrics.push((both.describe(metric, is_decisive), both));
        }
        decide_outcomes(&mut metrics, margin);
        let metrics: Vec<CheckedMetric> = metrics.into_iter().map(|(metric, _)| metric).collect();
        let [promoted_side, run_side] = sides((bundle, promoted), (run, trial));
        let mut check = Self {
            experiment: run.board().experiment.clone(),
            verdict: verdict(&metrics),
            sentence: String::new(),
            bundle: promoted_side,
            run: run_side,
            margin,
            questions: pairs.len(),
            chosen_by,
            only_in_bundle: bundle.questions().len() - shared.len(),
            only_in_run: run.questions().len() - shared.len(),
            metrics,
            notes,
            warnings: run.board().warnings.iter().filter(|warning| warning.concerns(trial)).cloned().collect(),
        };
        check.sentence = check.in_words();
        Ok(check)
    }

    /// This check, failed if one of its warnings has one of these codes. `run` is the run that was checked. A note
    /// lists the codes that the run was not checked for.
    #[must_use]
    pub fn with_failing_warnings(mut self, codes: &[WarningCode], run: &RunRecord) -> Self {
        self.notes.extend(unknown_warnings(codes, run.board().looked_for.as_deref()));
        let found = self.warnings.iter().map(|warning| warning.code);
        if let Some(named) = name_codes(found.filter(|code| codes.contains(code))) {
            self.verdict = CheckVerdict::Fail;
            let trial = &self.run.trial;
            self.sentence = format!("{trial} has a warning that fails a check: {named}; {}", self.sentence);
        }
        self
    }
}

/// The note on those of the codes that the run was not checked for; none if there are none. `looked_for` has the codes
/// that the run was checked for, and is none for a run of an earlier version.
fn unknown_warnings(codes: &[WarningCode], looked_for: Option<&[WarningCode]>) -> Option<String> {
    let is_known = |code: &WarningCode| looked_for.is_some_and(|known| known.contains(code));
    let unknown = name_codes(codes.iter().copied().filter(|code| !is_known(code)))?;
    let why = match looked_for {
        Some(_) => {
            "the run did not look for it: it is ignored, the run was interrupted or on a cluster, or its chunks or \
                    indexes are no longer in the store"
        }
        None => "an earlier version made the run; run again",
    };
    Some(format!("whether the run has a warning {unknown} is not known: {why}"))
}

/// The codes as a list in a sentence, each once; none for an empty list.
fn name_codes(codes: impl Iterator<Item = WarningCode>) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for name in codes.map(|code| format!("`{}`", code.name())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// The metrics that decide the verdict, and those of the run's objective by which the bundle
/// has no scores.
fn objective<'a>(bundle: &'a RunRecord, run: &'a RunRecord) -> (Vec<&'a str>, Vec<&'a str>) {
    let (before, now) = (&bundle.board().objective, &run.board().objective);
    let added: Vec<&str> = now.iter().filter(|metric| !before.contains(metric)).map(String::as_str).collect();
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        added.into_iter().partition(|metric| bundle.scores().metrics().any(|known| known == *metric));
    (before.iter().map(String::as_str).chain(known).collect(), unknown)
}

fn scores<'a>(record: &'a RunRecord, trial: &str) -> Result<ScoresByMetric<'a>, Error> {
    record.answering(Some(trial))?;
    let scores = record.scores().by_metric(trial).unwrap_or_default();
    if scores.values().any(|(_, scores)| scores.len() != record.questions().len()) {
        return Err(Error::Unusable(format!("{}: its scores are damaged; run again", record.title())));
    }
    Ok(scores)
}

fn pairs(bundle: &RunRecord, run: &RunRecord) -> Pairs {
    let place: BTreeMap<&str, usize> =
        bundle.questions().iter().enumerate().map(|(place, question)| (question.id.as_str(), place)).collect();
    let now = run.questions().iter().enumerate();
    now.filter_map(|(ours, question)| Some((*place.get(question.id.as_str())?, ours))).collect()
}

/// The pairs of the split `test`, by which neither trial was chosen; all pairs if there are none.
fn unseen(bundle: &RunRecord, run: &RunRecord, pairs: &Pairs) -> Pairs {
    let is_test = |question: &Question| question.split == Some(Split::Test);
    let of_test =
        |&&(theirs, ours): &&(usize, usize)| is_test(&bundle.questions()[theirs]) && is_test(&run.questions()[ours]);
    let unseen: Pairs = pairs.iter().filter(of_test).copied().collect();
    if unseen.is_empty() { pairs.clone() } else { unseen }
}

/// Refuses records that cannot be compared, and names every question and metric that differs.
fn refuse(
    bundle: &RunRecord,
    run: &RunRecord,
    pairs: &Pairs,
    objective: &[&str],
    is_same: &dyn Fn(&str) -> bool,
) -> Result<(), Error> {
    if objective.is_empty() {
        return Err(Error::Refused(vec![format!(
            "the bundle's run had no objective, so that there is nothing to judge by: promote a trial that was scored \
             on golden questions ({})",
            Action::Promote(None)
        )]));
    }
    if pairs.is_empty() {
        return Err(Error::Refused(vec![format!(
            "no question of {} is among the {} of the bundle: questions are matched by their `id`; promote a trial that \
             was asked the questions of today ({})",
            run.title(),
            bundle.questions().len(),
            Action::Promote(None)
        )]));
    }
    let mut mistakes = Vec::new();
    for &(theirs, ours) in pairs {
        let (then, now) = (&bundle.questions()[theirs], &run.questions()[ours]);
        if let Some(what) = what_differs(then, now) {
            mistakes.push(format!("question `{}` is not that of the bundle: {what} was changed", now.id));
        }
    }
    let has = |metric: &&&str| run.scores().metrics().any(|known| known == **metric);
    for metric in objective.iter().filter(has).filter(|metric| !is_same(metric)) {
        mistakes.push(format!("{metric} is not measured as for the bundle: its settings, judge or embedder differ"));
    }
    if mistakes.is_empty() {
        return Ok(());
    }
    mistakes.push(format!(
        "such scores do not compare: promote a trial that was asked and measured as today ({}), and check against that \
         bundle",
        Action::Promote(None)
    ));
    Err(Error::Refused(mistakes))
}

/// The scores of both trials by one metric.
struct PairedScores<'a> {
    theirs: Option<&'a ((f64, f64), Vec<Score>)>,
    ours: Option<&'a ((f64, f64), Vec<Score>)>,
    pairs: &'a Pairs,
    higher_is_better: bool,
}

impl PairedScores<'_> {
    fn range(&self) -> (f64, f64) {
        self.theirs.or(self.ours).map_or((0.0, 1.0), |(range, _)| *range)
    }

    /// The scores of the questions that should have both, theirs and ours. Where
    /// neither was asked, or the metric applies to neither, none is missing.
    fn paired_scores(&self) -> (Vec<Score>, Vec<Score>) {
        let (Some((_, theirs)), Some((_, ours))) = (self.theirs, self.ours) else { return Default::default() };
        let should = |score: &Score| score.value().is_some() || score.is_failure();
        let both = self.pairs.iter().map(|&(a, b)| (&theirs[a], &ours[b]));
        both.filter(|(a, b)| should(a) || should(b)).map(|(a, b)| (a.clone(), b.clone())).unzip()
    }

    /// The run's gain over the bundle at each question.
    fn gains(&self) -> Vec<f64> {
        let sign = if self.higher_is_better { 1.0 } else { -1.0 };
        let (theirs, ours) = self.paired_scores();
        theirs.iter().zip(&ours).filter_map(|(a, b)| Some(sign * (b.value()? - a.value()?))).collect()
    }

    /// What is known before the p-values are corrected.
    fn describe(&self, metric: &str, is_decisive: bool) -> CheckedMetric {
        let (theirs, ours) = self.paired_scores();
        let paired = |of: fn((f64, f64)) -> f64| {
            let both = theirs.iter().zip(&ours).filter_map(|(a, b)| Some((a.value()?, b.value()?)));
            mean(&both.map(of).collect::<Vec<f64>>())
        };
        let found = Comparison::of(&ours, &theirs, self.range(), SEED);
        let is_enough = found.n_pairs > 0 && found.n_pairs as f64 >= ENOUGH * theirs.len() as f64;
        let tested = is_decisive && is_enough;
        CheckedMetric {
            metric: metric.to_owned(),
            outcome: match (is_decisive, is_enough) {
                (false, _) => MetricOutcome::Shown,
                (true, true) => MetricOutcome::Passed,
                (true, false) => MetricOutcome::Inconclusive,
            },
            sentence: String::new(),
            higher_is_better: self.higher_is_better,
            bundle: paired(|pair| pair.0),
            run: paired(|pair| pair.1),
            difference: found.mean_difference,
            interval: found.interval,
            p_value: tested.then(|| sign_flip_p_value_of_loss(&self.gains(), SEED)),
            corrected: None,
            scored: found.n_pairs,
            asked: theirs.len(),
            detectable_loss: None,
            fewest_losses: 0,
        }
    }
}

/// Completes what is known of the metrics: corrections, outcomes, sentences.
fn decide_outcomes(metrics: &mut [(CheckedMetric, PairedScores<'_>)], margin: f64) {
    let p_values: Vec<Option<f64>> = metrics.iter().map(|(metric, _)| metric.p_value).collect();
    let tests = p_values.iter().flatten().count();
    // Holm's threshold for the smallest p-value, the strictest one.
    let alpha = ALPHA / tests.max(1) as f64;
    for ((metric, both), corrected) in metrics.iter_mut().zip(holm_of_known(&p_values)) {
        let (low, high) = both.range();
        let allowed = margin * (high - low);
        let gains = both.gains();
        let loss = -mean(&gains).unwrap_or_default();
        metric.corrected = corrected;
        if metric.outcome == MetricOutcome::Passed && corrected.is_some_and(|p| p < ALPHA) && loss > allowed {
            metric.outcome = MetricOutcome::Worse;
        }
        if metric.p_value.is_some() {
            metric.fewest_losses = fewest_losses(alpha);
            metric.detectable_loss = detectable_loss(&gains, alpha, allowed);
        }
        if metric.outcome == MetricOutcome::Passed && loss > allowed && metric.lacks_questions(&gains, allowed) {
            metric.outcome = MetricOutcome::TooFew;
        }
        let is_there = both.ours.is_some();
        metric.sentence =
            metric.in_words(&sentences::MetricFindings { gains: &gains, allowed, tests, is_there, low, high });
    }
}

impl CheckedMetric {
    /// Whether a loss beyond what is allowed could not be proven because fewer questions differ
    /// than any proof needs. Where a margin is allowed, or where all
    /// questions together are too few, that is enough. Otherwise the whole interval of the difference must be a loss too.
    /// Without that condition, an equally good pipeline would be inconclusive in half of its runs,
    /// because its mean is a little below as often as above.
    fn lacks_questions(&self, gains: &[f64], allowed: f64) -> bool {
        let differing = gains.iter().filter(|gain| **gain != 0.0).count();
        let is_loss = |it: Interval| if self.higher_is_better { it.high < 0.0 } else { it.low > 0.0 };
        let proves_nothing = gains.len() < self.fewest_losses;
        differing < self.fewest_losses && (proves_nothing || allowed > 0.0 || self.interval.is_some_and(is_loss))
    }
}

fn verdict(metrics: &[CheckedMetric]) -> CheckVerdict {
    let any = |outcome| metrics.iter().any(|metric| metric.outcome == outcome);
    match (any(MetricOutcome::Worse), any(MetricOutcome::Inconclusive) || any(MetricOutcome::TooFew)) {
        (true, _) => CheckVerdict::Fail,
        (false, true) => CheckVerdict::Inconclusive,
        (false, false) => CheckVerdict::Pass,
    }
}

/// Both trials. Their labels hold the settings in which the two differ.
fn sides((bundle, promoted): (&RunRecord, &str), (run, trial): (&RunRecord, &str)) -> [CheckedTrial; 2] {
    let rows = [bundle.board().row(promoted), run.board().row(trial)];
    let own = |row: usize, axis: &str| rows[row].and_then(|row| row.labels.get(axis).cloned());
    let setting =
        |row: usize, axis: &str| rows[row].and_then(|row| row.settings.get(axis)).filter(|value| !value.is_null());
    // Without a label, both have what every trial has if nothing is listed.
    let is_named = |axis: &str| (0..2).any(|row| own(row, axis).is_some_and(|label| label != NONE));
    let names = label_names(rows.iter().flatten().map(|row| &row.labels));
    let labels = names.iter().map(|axis| match (setting(0, axis), setting(1, axis)) {
        (Some(then), Some(now)) if is_named(axis) => {
            (axis, trial::labels(&[then, now]).into_iter().map(Some).collect())
        }
        _ => (axis, vec![own(0, axis), own(1, axis)]),
    });
    let labels: Vec<(&String, Vec<Option<String>>)> = labels.collect();
    let of = |number: usize, record: &RunRecord, trial: &str| CheckedTrial {
        run: record.id().to_owned(),
        run_time_ms: record.time_ms(),
        trial: trial.to_owned(),
        labels: labels.iter().filter_map(|(axis, both)| Some(((*axis).clone(), both[number].clone()?))).collect(),
    };
    [of(0, bundle, promoted), of(1, run, trial)]
}

/// What limits a comparison of the two runs.
fn notes(bundle: &RunRecord, run: &RunRecord) -> Vec<String> {
    let mut notes = Vec::new();
    if bundle.id() == run.id() {
        notes.push(format!("the bundle was made from this same run, {}: nothing has changed", run.id()));
    }
    let files = |record: &RunRecord| -> BTreeMap<String, store::Key> {
        record.readable_documents().iter().map(|file| (file.path.clone(), file.key)).collect()
    };
    let (then, now) = (files(bundle), files(run));
    let added = now.keys().filter(|path| !then.contains_key(*path)).count();
    let removed = then.keys().filter(|path| !now.contains_key(*path)).count();
    let changed = now.iter().filter(|(path, key)| then.get(*path).is_some_and(|before| before != *key)).count();
    let counts = [(added, "added"), (changed, "changed"), (removed, "removed")];
    let changes: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if !changes.is_empty() {
        let changes = changes.join(", ");
        notes.push(format!(
            "the documents are not those of the bundle ({changes}), so that a difference may come from them"
        ));
    }
    notes
}

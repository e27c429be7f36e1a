//! Qualification: tests whether a judge can tell right from wrong, before its
//! scores count.
//!
//! A judge is asked about labelled cases, with the question of their rule. For each
//! kind of verdict:
//!
//! - **AUC** of its probabilities: how often a true case gets a higher one than
//!   a false case. 0.5 is guessing. Only for models that offer probabilities.
//! - **Balanced accuracy** of its verdicts: the mean of the shares of true and
//!   of false cases that it recognises, so that always saying yes gives 0.5.
//!   With probabilities, the threshold is fitted on four fifths of the cases
//!   and tried on the rest, in turn; the reported threshold is fitted on all cases.
//! - A judge is **qualified** for a kind if the lower end of the 95 % interval
//!   of its balanced accuracy is at least 0.6, and at most one reply in twenty
//!   cannot be read.
//!
//! Sources: K. H. Brodersen et al., "The Balanced Accuracy and Its Posterior
//! Distribution", ICPR 2010; M. Stone, "Cross-Validatory Choice and Assessment
//! of Statistical Predictions", JRSS B 36 (1974).

use crate::{
    Missing, Question,
    metric::judge::{ItemVerdict, Judge, Transcript, VerdictForm},
    statistics::{Interval, Random, auc, balanced_accuracy, balanced_accuracy_interval, bootstrap},
    verdict::{Case, VerdictKind, quotes},
    words::{content_stems, language_of},
};
use futures::{StreamExt, TryStreamExt, stream};
use models::Chat;
use rag::python::FailureKind;
use serde::{Deserialize, Serialize};

/// The lower end of the interval that a judge must reach.
const LEAST: f64 = 0.6;
/// The share of replies that may be unreadable.
const UNREADABLE: f64 = 0.05;
/// Parts for fitting and trying the threshold.
const FOLDS: usize = 5;
const SEED: u64 = 0x5EED;

/// How a judge did on one kind of verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Qualification {
    /// The kind.
    pub kind: VerdictKind,
    /// Cases with a verdict.
    pub n: usize,
    /// Cases without one: the reply could not be read.
    pub unreadable: usize,
    /// What the verdicts were read from. Missing in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_by: Option<VerdictForm>,
    /// The area under the ROC curve, where the model offers probabilities.
    pub auc: Option<f64>,
    /// Its 95 % interval.
    pub auc_interval: Option<Interval>,
    /// The balanced accuracy.
    pub balanced_accuracy: Option<f64>,
    /// Its 95 % interval.
    pub accuracy_interval: Option<Interval>,
    /// The best threshold: the probability from which on the verdict is yes.
    pub threshold: Option<f64>,
    /// Whether the judge's verdicts of this kind may choose a winner.
    pub qualified: bool,
    /// Why, or why not.
    pub reason: String,
}

/// Tries a judge on labelled cases; one result per kind that has cases.
///
/// # Errors
/// If the model fails.
pub async fn qualify(chat: &Chat, cases: &[Case]) -> Result<Vec<Qualification>, Missing> {
    let judge = Judge::new(chat, &[], 0.5);
    let Some((first, rest)) = cases.split_first() else { return Ok(Vec::new()) };
    let form = judge.form().await?;
    // One case first: if a user's function returns the wrong type, one call shows it.
    let mut verdicts = vec![verdict(&judge, first, false).await?];
    let others = stream::iter(rest).map(|case| verdict(&judge, case, true)).buffered(chat.concurrency().max(1));
    verdicts.extend(others.try_collect::<Vec<_>>().await?);
    let of = |kind: VerdictKind| {
        let known: Vec<(&ItemVerdict, bool)> = cases
            .iter()
            .zip(&verdicts)
            .filter(|(case, _)| case.kind == kind)
            .map(|(case, verdict)| (verdict, case.label))
            .collect();
        (!known.is_empty()).then(|| assess(kind, form, &known))
    };
    Ok(VerdictKind::ALL.iter().copied().filter_map(of).collect())
}

/// Makes labelled cases from golden questions, up to `n` for each kind, half of them
/// true: a question with its own evidence, reference or quote; false cases have those of
/// a question with few common words.
///
/// They are easier than the real mistakes of a system: a judge that fails them is
/// useless, and a judge that passes should still be tried on labelled data.
pub fn plant_cases(questions: &[Question], n: usize, seed: u64) -> Vec<Case> {
    let mut order: Vec<&Question> = questions.iter().filter(|question| !question.evidence.is_empty()).collect();
    Random::new(seed).shuffle(&mut order);
    let texts: Vec<String> = order
        .iter()
        .map(|question| {
            format!("{} {} {}", question.question, question.reference.as_deref().unwrap_or(""), quotes(question))
        })
        .collect();
    let stems: Vec<_> = texts.iter().map(|text| content_stems(text, language_of(&[text]))).collect();
    let mut cases = Vec::new();
    for kind in VerdictKind::ALL {
        let mut of_kind = Vec::new();
        for (i, question) in order.iter().enumerate() {
            // The next question with the fewest shared words.
            let others = (1..order.len()).map(|step| (i + step) % order.len());
            let Some(other) = others.min_by_key(|&j| stems[i].intersection(&stems[j]).count()) else { break };
            of_kind.extend(kind.planted(question, order[other]).into_iter().flatten());
        }
        of_kind.truncate(n);
        cases.extend(of_kind);
    }
    cases
}

async fn verdict(judge: &Judge, case: &Case, has_answered: bool) -> Result<ItemVerdict, Missing> {
    let items = [case.item.clone()];
    let inquiry = case.kind.inquiry(case, &items);
    match judge.verdicts(&inquiry, &mut Transcript::default()).await {
        Ok(mut verdicts) => Ok(verdicts.pop().unwrap_or_default()),
        // An unreadable reply counts against the judge.
        Err(Missing::JudgeUnparsable(_)) => Ok(ItemVerdict::default()),
        Err(Missing::FunctionError(failure)) if has_answered && failure.kind == FailureKind::BadReturnValue => {
            Ok(ItemVerdict::default())
        }
        Err(missing) => Err(missing),
    }
}

fn assess(kind: VerdictKind, form: VerdictForm, answered: &[(&ItemVerdict, bool)]) -> Qualification {
    let unreadable = answered.iter().filter(|(verdict, _)| verdict.yes.is_none()).count();
    let probable: Vec<(f64, bool)> =
        answered.iter().filter_map(|(verdict, label)| Some((verdict.probability?, *label))).collect();
    let offers = form == VerdictForm::Probability && !probable.is_empty();
    // Replies without probabilities count by their word, without a threshold.
    let by_word = answered.iter().filter(|(verdict, _)| !offers || verdict.probability.is_none());
    let mut verdicts: Vec<(bool, bool)> = by_word.filter_map(|(verdict, label)| Some((verdict.yes?, *label))).collect();
    let mut threshold = None;
    if offers {
        verdicts.extend(cross_fitted(&probable));
        threshold = Some(best_threshold(&probable));
    }
    let accuracy = balanced_accuracy(&verdicts);
    let accuracy_interval = balanced_accuracy_interval(&verdicts);
    let area = offers.then(|| auc(&probable)).flatten();
    let of_drawn = |drawn: &[usize]| auc(&drawn.iter().map(|&i| probable[i]).collect::<Vec<_>>());
    let auc_interval = area.and_then(|_| bootstrap(probable.len(), SEED, of_drawn));
    let share = unreadable as f64 / answered.len() as f64;
    let (qualified, reason) = match accuracy_interval {
        _ if share > UNREADABLE => (false, format!("{:.0} % of its replies cannot be read", 100.0 * share)),
        None => (false, "cases of both kinds, true and false, are needed".to_owned()),
        Some(interval) if interval.low >= LEAST => (true, format!("at least {:.2} with 95 % confidence", interval.low)),
        Some(interval) if interval.low <= 0.5 => (false, "it cannot be told from guessing".to_owned()),
        Some(interval) => (
            false,
            format!("better than guessing, but the lower end of its interval, {:.2}, is below {LEAST}", interval.low),
        ),
    };
    Qualification {
        kind,
        n: answered.len() - unreadable,
        unreadable,
        measured_by: Some(form),
        auc: area,
        auc_interval,
        balanced_accuracy: accuracy,
        accuracy_interval,
        threshold,
        qualified,
        reason,
    }
}

/// (verdict, label) pairs; the threshold of each is fitted without it.
fn cross_fitted(cases: &[(f64, bool)]) -> Vec<(bool, bool)> {
    let mut order: Vec<usize> = (0..cases.len()).collect();
    Random::new(SEED).shuffle(&mut order);
    // Stratified folds: the share of true cases is about the same in each.
    order.sort_by_key(|&i| cases[i].1);
    let mut verdicts = vec![(false, false); cases.len()];
    for fold in 0..FOLDS {
        let own = |place: usize| place % FOLDS == fold;
        let others: Vec<(f64, bool)> =
            order.iter().enumerate().filter(|(place, _)| !own(*place)).map(|(_, &i)| cases[i]).collect();
        let threshold = best_threshold(&others);
        for (_, &i) in order.iter().enumerate().filter(|(place, _)| own(*place)) {
            verdicts[i] = (cases[i].0 >= threshold, cases[i].1);
        }
    }
    verdicts
}

/// The threshold with the highest balanced accuracy, halfway between two
/// probabilities; of several, the one nearest to one half.
fn best_threshold(cases: &[(f64, bool)]) -> f64 {
    let mut values: Vec<f64> = cases.iter().map(|case| case.0).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let between = values.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).chain([0.5]);
    let score = |threshold: f64| {
        balanced_accuracy(&cases.iter().map(|case| (case.0 >= threshold, case.1)).collect::<Vec<_>>()).unwrap_or(0.5)
    };
    let distance = |threshold: f64| (threshold - 0.5).abs();
    between
        .map(|threshold| (score(threshold), threshold))
        .max_by(|a, b| a.0.total_cmp(&b.0).then(distance(b.1).total_cmp(&distance(a.1))))
        .map_or(0.5, |best| best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{FakeJudge, wait};

    /// So many cases of every kind, half of them true, in an order that is no pattern.
    fn cases(n: usize) -> Vec<Case> {
        let mut cases: Vec<Case> = (0..n * VerdictKind::ALL.len())
            .map(|i| Case {
                kind: VerdictKind::ALL[i % VerdictKind::ALL.len()],
                question: "What is opt for?".to_owned(),
                against: "It is for add-ons.".to_owned(),
                item: format!("item {i}"),
                label: (i / VerdictKind::ALL.len()).is_multiple_of(2),
            })
            .collect();
        Random::new(3).shuffle(&mut cases);
        cases
    }

    /// The verdicts of a script: `1` for yes.
    fn script(verdicts: impl IntoIterator<Item = bool>) -> String {
        verdicts.into_iter().map(|yes| if yes { '1' } else { '0' }).collect()
    }

    #[test]
    fn planted_cases_are_half_true_and_from_other_questions() {
        let question = |word: &str| Question {
            question: format!("What is {word}?"),
            reference: Some(format!("{word} is a thing")),
            evidence: vec![crate::Evidence { document: "a".into(), quote: format!("{word} stands here"), span: None }],
            ..Question::default()
        };
        let questions: Vec<Question> = ["alpha", "beta", "gamma", "delta"].map(question).to_vec();
        let cases = plant_cases(&questions, 6, 1);
        let of_kind = |kind| cases.iter().filter(|case| case.kind == kind).collect::<Vec<&Case>>();
        for &kind in VerdictKind::ALL {
            let of_kind = of_kind(kind);
            assert_eq!((of_kind.len(), of_kind.iter().filter(|case| case.label).count()), (6, 3), "{kind:?}");
            assert!(of_kind.chunks(2).all(|pair| pair[0].item != pair[1].item), "{of_kind:?}");
        }
        for kind in [VerdictKind::Supported, VerdictKind::Relevant, VerdictKind::Correct] {
            let of_kind = of_kind(kind);
            let word = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
            assert!(of_kind.iter().all(|case| (word(&case.item) == word(&case.against)) == case.label), "{of_kind:?}");
        }
        assert!(plant_cases(&questions[..1], 6, 1).is_empty());
    }

    #[test]
    fn a_judge_that_is_always_right_is_qualified_for_every_kind() {
        let cases = cases(40);
        let right = script(cases.iter().map(|case| case.label));
        for fake in [FakeJudge::new(), FakeJudge::new().without_probabilities()] {
            let found = wait(qualify(&fake.verdicts(&right).chat(), &cases)).unwrap();
            assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), VerdictKind::ALL);
            for one in found {
                assert_eq!((one.n, one.unreadable, one.balanced_accuracy), (40, 0, Some(1.0)), "{one:?}");
                assert!(one.qualified, "{one:?}");
            }
        }
    }

    #[test]
    fn a_judge_that_flips_a_coin_is_near_one_half_and_not_qualified() {
        for with_probabilities in [true, false] {
            let (mut sum, mut qualified) = (0.0, 0);
            for seed in 0..10 {
                let cases = cases(100);
                let mut random = Random::new(seed);
                let fake = FakeJudge::new().verdicts(&script(cases.iter().map(|_| random.below(2) == 0)));
                let fake = if with_probabilities { fake } else { fake.without_probabilities() };
                for one in wait(qualify(&fake.chat(), &cases)).unwrap() {
                    sum += one.balanced_accuracy.unwrap();
                    qualified += usize::from(one.qualified);
                }
            }
            let mean = sum / (10 * VerdictKind::ALL.len()) as f64;
            assert!((mean - 0.5).abs() < 0.03, "{mean}");
            assert_eq!(qualified, 0);
        }
    }

    #[test]
    fn each_case_is_asked_by_the_question_of_its_kind() {
        let fake = FakeJudge::new();
        let seen = fake.seen();
        wait(qualify(&fake.chat(), &cases(1))).unwrap();
        let asked = seen.lock().unwrap();
        for kind in VerdictKind::ALL {
            let question = kind.inquiry(&cases(1)[0], &[]).question;
            assert_eq!(asked.iter().filter(|request| request.messages[1].content.contains(question)).count(), 1);
        }
    }

    #[test]
    fn a_model_that_fails_qualifies_nobody_and_one_without_probabilities_is_asked_for_them_once() {
        let failed = wait(qualify(&FakeJudge::new().failing().chat(), &cases(1)));
        assert!(matches!(failed, Err(Missing::ProviderError(_))), "{failed:?}");
        let fake = FakeJudge::new().without_probabilities();
        let (seen, probes) = (fake.seen(), fake.probes());
        let found = wait(qualify(&fake.chat(), &cases(3))).unwrap();
        assert_eq!(probes.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(seen.lock().unwrap().iter().filter(|request| !request.choices.is_empty()).count(), 0);
        assert!(found.iter().all(|one| one.measured_by == Some(VerdictForm::Words)), "{found:?}");
    }

    fn probable(probability: f64) -> ItemVerdict {
        ItemVerdict { yes: Some(probability >= 0.5), probability: Some(probability), ..ItemVerdict::default() }
    }

    fn assessed(cases: &[(ItemVerdict, bool)]) -> Qualification {
        let known: Vec<(&ItemVerdict, bool)> = cases.iter().map(|(verdict, label)| (verdict, *label)).collect();
        let form = if cases.iter().any(|case| case.0.probability.is_some()) {
            VerdictForm::Probability
        } else {
            VerdictForm::Words
        };
        assess(VerdictKind::Supported, form, &known)
    }

    /// Probabilities of true cases around one value, of false ones around another.
    fn judged(right: f64, wrong: f64, n: usize) -> Vec<(ItemVerdict, bool)> {
        let mut random = Random::new(11);
        let mut near = |center: f64| (center + 0.5 * (random.open_unit() - 0.5)).clamp(0.0, 1.0);
        (0..n).flat_map(|_| [(probable(near(right)), true), (probable(near(wrong)), false)]).collect()
    }

    #[test]
    fn a_judge_that_says_yes_too_easily_is_qualified_with_another_threshold() {
        let found = assessed(&judged(0.95, 0.6, 50));
        assert!(found.qualified, "{found:?}");
        assert!(found.threshold.unwrap() > 0.65, "{found:?}");
        assert!(found.auc.unwrap() > 0.9);
    }

    #[test]
    fn one_reply_in_words_leaves_the_threshold_of_the_others() {
        let mut cases = judged(0.95, 0.6, 50);
        let whole = assessed(&cases);
        cases[0].0 = ItemVerdict { yes: Some(true), ..ItemVerdict::default() };
        let found = assessed(&cases);
        assert_eq!((found.n, found.measured_by), (whole.n, Some(VerdictForm::Probability)));
        assert!(found.qualified && (found.threshold.unwrap() - whole.threshold.unwrap()).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn a_judge_that_guesses_is_not_qualified() {
        let found = assessed(&judged(0.5, 0.5, 50));
        assert!(!found.qualified && found.reason.contains("guessing"), "{found:?}");
    }

    #[test]
    fn fitting_a_threshold_does_not_make_a_guess_look_good() {
        let mut sum = 0.0;
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let cases: Vec<(f64, bool)> = (0..40).map(|i| (random.open_unit(), i % 2 == 0)).collect();
            sum += balanced_accuracy(&cross_fitted(&cases)).unwrap();
        }
        assert!((sum / 50.0 - 0.5).abs() < 0.04, "{}", sum / 50.0);
    }

    #[test]
    fn a_judge_that_always_says_yes_in_words_is_not_qualified() {
        let yes = ItemVerdict { yes: Some(true), ..ItemVerdict::default() };
        let cases: Vec<(ItemVerdict, bool)> = (0..60).map(|i| (yes.clone(), i % 2 == 0)).collect();
        let found = assessed(&cases);
        assert_eq!((found.balanced_accuracy, found.auc, found.qualified), (Some(0.5), None, false));
    }

    #[test]
    fn a_judge_that_cannot_be_read_is_not_qualified() {
        let mut cases = judged(0.95, 0.05, 30);
        cases.iter_mut().take(10).for_each(|case| case.0 = ItemVerdict::default());
        let found = assessed(&cases);
        assert_eq!(found.unreadable, 10);
        assert!(!found.qualified && found.reason.contains("cannot be read"), "{found:?}");
    }

    #[test]
    fn cases_of_one_class_qualify_nobody() {
        let cases: Vec<(ItemVerdict, bool)> = (0..30).map(|_| (probable(0.9), true)).collect();
        assert!(!assessed(&cases).qualified);
    }
}

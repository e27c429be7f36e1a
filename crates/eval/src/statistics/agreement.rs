//! How well a judge agrees with people, class by class.
//!
//! When to use it: when people have labelled some of the judged cases. Cohen's kappa
//! is the agreement beyond that of random labels with each rater's class frequencies:
//! 1 is perfect, 0 is chance. A judge that always says yes has kappa 0, however often
//! yes is right.
//!
//! Source: J. Cohen, "A Coefficient of Agreement for Nominal Scales",
//! Educational and Psychological Measurement 20 (1960).

use super::{Interval, bootstrap};
use serde::{Deserialize, Serialize};

/// Agreement of a judge with people over the same cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Cases that both labelled.
    pub n: usize,
    /// The share of cases on which they agree.
    pub observed: f64,
    /// Cohen's kappa; `None` if all cases are in one class.
    pub kappa: Option<f64>,
    /// Its 95 % bootstrap interval.
    pub interval: Option<Interval>,
    /// Per class, in order of the class.
    pub classes: Vec<ClassAgreement>,
}

/// Agreement on one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassAgreement {
    /// The class.
    pub class: String,
    /// Cases that people put there.
    pub by_people: usize,
    /// Cases that the judge put there.
    pub by_judge: usize,
    /// Cases that both put there.
    pub by_both: usize,
}

impl ClassAgreement {
    /// The share of the judge's cases that people put there too.
    pub fn precision(&self) -> Option<f64> {
        share(self.by_both, self.by_judge)
    }

    /// The share of people's cases that the judge put there too.
    pub fn recall(&self) -> Option<f64> {
        share(self.by_both, self.by_people)
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Agreement {
    /// Agreement over (people's label, judge's label) pairs; `None` if empty.
    pub fn of(pairs: &[(String, String)], seed: u64) -> Option<Self> {
        if pairs.is_empty() {
            return None;
        }
        let mut names: Vec<&String> = pairs.iter().flat_map(|(person, judge)| [person, judge]).collect();
        names.sort();
        names.dedup();
        let place = |name: &String| names.binary_search(&name).unwrap_or_default();
        let coded: Vec<(usize, usize)> = pairs.iter().map(|(person, judge)| (place(person), place(judge))).collect();
        let all: Vec<usize> = (0..coded.len()).collect();
        let classes = names.iter().enumerate().map(|(class, name)| ClassAgreement {
            class: (*name).clone(),
            by_people: coded.iter().filter(|pair| pair.0 == class).count(),
            by_judge: coded.iter().filter(|pair| pair.1 == class).count(),
            by_both: coded.iter().filter(|pair| **pair == (class, class)).count(),
        });
        let kappa = |drawn: &[usize]| kappa(&coded, drawn, names.len());
        Some(Self {
            n: pairs.len(),
            observed: coded.iter().filter(|(person, judge)| person == judge).count() as f64 / pairs.len() as f64,
            kappa: kappa(&all),
            interval: bootstrap(coded.len(), seed, kappa),
            classes: classes.collect(),
        })
    }
}

fn kappa(coded: &[(usize, usize)], drawn: &[usize], n_classes: usize) -> Option<f64> {
    let n = drawn.len() as f64;
    let (mut people, mut judge, mut both) = (vec![0.0; n_classes], vec![0.0; n_classes], 0.0);
    for &i in drawn {
        let (a, b) = coded[i];
        people[a] += 1.0;
        judge[b] += 1.0;
        both += f64::from(u8::from(a == b));
    }
    let chance: f64 = people.iter().zip(&judge).map(|(a, b)| a * b).sum::<f64>() / (n * n);
    (chance < 1.0).then(|| (both / n - chance) / (1.0 - chance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(counts: &[(&str, &str, usize)]) -> Vec<(String, String)> {
        let one = |(person, judge, n): &(&str, &str, usize)| vec![((*person).to_owned(), (*judge).to_owned()); *n];
        counts.iter().flat_map(one).collect()
    }

    #[test]
    fn kappa_is_that_of_the_textbook() {
        // 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: observed 0.7, chance 0.5.
        let agreement =
            Agreement::of(&pairs(&[("yes", "yes", 20), ("yes", "no", 5), ("no", "yes", 10), ("no", "no", 15)]), 0)
                .unwrap();
        assert!((agreement.kappa.unwrap() - 0.4).abs() < 1e-12);
        assert!((agreement.observed - 0.7).abs() < 1e-12);
        let interval = agreement.interval.unwrap();
        // The asymptotic standard error is 0.127.
        assert!((0.08..0.24).contains(&interval.low) && (0.56..0.7).contains(&interval.high), "{interval:?}");
        let yes = &agreement.classes[1];
        assert_eq!((yes.class.as_str(), yes.precision(), yes.recall()), ("yes", Some(20.0 / 30.0), Some(0.8)));
    }

    #[test]
    fn a_judge_that_always_says_yes_has_kappa_zero() {
        let agreement = Agreement::of(&pairs(&[("yes", "yes", 90), ("no", "yes", 10)]), 0).unwrap();
        assert_eq!(agreement.kappa, Some(0.0));
        assert!((agreement.observed - 0.9).abs() < 1e-12);
        assert_eq!(agreement.classes[0].precision(), None, "it never said no");
    }

    #[test]
    fn agreement_on_a_single_class_has_no_kappa() {
        assert_eq!(Agreement::of(&pairs(&[("yes", "yes", 9)]), 0).unwrap().kappa, None);
        assert_eq!(Agreement::of(&[], 0), None);
    }
}

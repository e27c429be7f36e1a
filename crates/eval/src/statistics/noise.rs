//! Where the noise of a mean comes from: questions, generation or the judge.
//!
//! When to use it: to decide where more effort helps. A few questions are answered
//! several times, and each answer is judged several times; a nested analysis of
//! variance splits the variance of the scores:
//!
//! - question: the difficulty of questions. More questions help; a paired
//!   comparison removes most of it.
//! - generation: repeated answers to one question. More answers per question
//!   help, or a lower temperature.
//! - judge: repeated judgements of one answer. More judgements or another judge help.
//!
//! Components below 0, which small samples can give, are 0.
//!
//! Source: S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components",
//! 1992, chapter 3 (balanced nested classification).

use super::mean;
use serde::{Deserialize, Serialize};

/// Variances of a score, by source.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseBudget {
    /// Between questions.
    pub question: f64,
    /// Between answers to one question.
    pub generation: f64,
    /// Between judgements of one answer.
    pub judge: f64,
    /// Questions, answers per question, judgements per answer.
    pub design: (usize, usize, usize),
}

impl NoiseBudget {
    /// The components of `scores` (question × answer × judgement). `None` if questions
    /// differ in the number of answers, answers differ in the number of judgements, or
    /// there are fewer than two questions. With one answer or one judgement each, its component
    /// cannot be separated from the one above it and is 0.
    pub fn of(scores: &[Vec<Vec<f64>>]) -> Option<Self> {
        let questions = scores.len();
        let answers = scores.first()?.len();
        let judgements = scores.first()?.first()?.len();
        let even = scores.iter().all(|q| q.len() == answers && q.iter().all(|a| a.len() == judgements));
        if !even || questions < 2 || judgements == 0 {
            return None;
        }
        let answer_means: Vec<Vec<f64>> = scores.iter().map(|q| q.iter().filter_map(|a| mean(a)).collect()).collect();
        let question_means: Vec<f64> = answer_means.iter().filter_map(|means| mean(means)).collect();
        let grand = mean(&question_means)?;
        let (q, a, j) = (questions as f64, answers as f64, judgements as f64);
        let ratio = |sum: f64, freedom: f64| if freedom > 0.0 { sum / freedom } else { 0.0 };
        let within: f64 = scores
            .iter()
            .zip(&answer_means)
            .flat_map(|(answers, means)| answers.iter().zip(means))
            .flat_map(|(values, center)| values.iter().map(move |x| (x - center).powi(2)))
            .sum();
        let between_answers: f64 = answer_means
            .iter()
            .zip(&question_means)
            .flat_map(|(means, center)| means.iter().map(move |x| (x - center).powi(2)))
            .sum();
        let between_questions: f64 = question_means.iter().map(|x| (x - grand).powi(2)).sum();
        let judge = ratio(within, q * a * (j - 1.0));
        let answer_square = ratio(j * between_answers, q * (a - 1.0));
        let question_square = ratio(a * j * between_questions, q - 1.0);
        let generation = if answers > 1 { ((answer_square - judge) / j).max(0.0) } else { 0.0 };
        // The mean square below that of questions in this design.
        let below = if answers > 1 { answer_square } else { judge };
        Some(Self {
            question: ((question_square - below) / (a * j)).max(0.0),
            generation,
            judge,
            design: (questions, answers, judgements),
        })
    }

    /// The standard error of a mean over `questions`, each answered `answers` times,
    /// and each answer judged `judgements` times.
    pub fn standard_error(&self, questions: usize, answers: usize, judgements: usize) -> f64 {
        let (q, a, j) = (questions.max(1) as f64, answers.max(1) as f64, judgements.max(1) as f64);
        ((self.question + (self.generation + self.judge / j) / a) / q).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    #[test]
    fn planted_components_are_found() {
        let mut random = Random::new(5);
        let mut sums = [0.0; 3];
        let repeats = 200;
        for _ in 0..repeats {
            let scores: Vec<Vec<Vec<f64>>> = (0..20)
                .map(|_| {
                    let question = 0.3 * random.normal();
                    (0..3)
                        .map(|_| {
                            let answer = question + 0.2 * random.normal();
                            (0..2).map(|_| answer + 0.1 * random.normal()).collect()
                        })
                        .collect()
                })
                .collect();
            let noise = NoiseBudget::of(&scores).unwrap();
            for (sum, found) in sums.iter_mut().zip([noise.question, noise.generation, noise.judge]) {
                *sum += found / f64::from(repeats);
            }
        }
        for (found, planted) in sums.iter().zip([0.09, 0.04, 0.01]) {
            assert!((found - planted).abs() < 0.1 * planted, "{found} for {planted}");
        }
    }

    #[test]
    fn a_repeatable_system_has_only_the_noise_of_questions() {
        let noise = NoiseBudget::of(&[vec![vec![0.0; 2]; 3], vec![vec![1.0; 2]; 3]]).unwrap();
        assert_eq!((noise.question, noise.generation, noise.judge), (0.5, 0.0, 0.0));
        assert_eq!(noise.standard_error(50, 1, 1), 0.1);
    }

    #[test]
    fn an_uneven_design_is_refused() {
        assert_eq!(NoiseBudget::of(&[vec![vec![0.0]], vec![vec![0.0], vec![1.0]]]), None);
        assert_eq!(NoiseBudget::of(&[vec![vec![0.0, 1.0]]]), None, "one question");
        assert_eq!(NoiseBudget::of(&[]), None);
    }
}

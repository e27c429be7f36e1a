//! Which questions are answered and scored together.
//!
//! All questions have one random order, the same for every search and for the grid. Ranges of this
//! order are fixed, and a task does a part of one range. A search asks the first questions of the
//! order. Its next step, another search or the grid asks more questions of the same ranges, and
//! takes finished rows from the store: see `TaskContext::earlier_rows`.

use eval::{Question, statistics::Random};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{Key, KeyBuilder};

/// The order of the questions.
const SEED: u64 = 0x0DE2;
/// Questions of a range of answers: few, so that a lost task loses little and
/// trials finish one after another.
const ANSWERED_TOGETHER: usize = 8;
/// Questions of a range of scores: eight ranges of answers. There cannot be more,
/// as a part of a range is a mask of 64 bits.
const SCORED_TOGETHER: usize = 64;

/// All questions in the order in which they are asked, by their places in the
/// dataset.
pub(crate) fn question_order(questions: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..questions).collect();
    Random::new(SEED).shuffle(&mut order);
    order
}

/// Some of the questions of one range: the work of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RangePart {
    /// The key of the same work for all questions of the range.
    pub(crate) whole: Key,
    /// A bit for each question of the range: whether it is in this part.
    pub(crate) part: u64,
}

impl RangePart {
    /// The key of the part.
    pub(crate) fn key(&self) -> Key {
        self.whole.part(self.part)
    }

    /// The questions of this part that the output with this key holds too; none if that output is
    /// of another range.
    pub(crate) fn shared_with(&self, other: &Key) -> Option<u64> {
        other.part_of(&self.whole).map(|part| part & self.part)
    }
}

/// Questions that one task answers or scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuestionShard {
    /// The number of the range.
    pub(crate) range: usize,
    /// The questions by their places in the dataset, in its order.
    pub(crate) questions: Vec<usize>,
    /// A bit for each question of the range that is among them.
    part: u64,
}

impl QuestionShard {
    /// The number of the range of scores that this range of answers is in.
    pub(crate) fn range_of_scores(&self) -> usize {
        self.range * ANSWERED_TOGETHER / SCORED_TOGETHER
    }
}

/// The ranges of a dataset's questions, and the keys of their contents.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranges {
    /// Where each question is in the order.
    places: Vec<usize>,
    /// What generators see of the questions of each range of answers.
    answered: Vec<Key>,
    /// What metrics see of the questions of each range of scores.
    scored: Vec<Key>,
}

impl Ranges {
    pub(crate) fn new(questions: &[Question]) -> Self {
        let order = question_order(questions.len());
        let mut places = vec![0; questions.len()];
        for (place, &question) in order.iter().enumerate() {
            places[question] = place;
        }
        let keys = |size: usize, key: fn(KeyBuilder, &Question) -> KeyBuilder| {
            let key_of = |range: &[usize]| {
                range.iter().fold(KeyBuilder::new("questions"), |builder, &i| key(builder, &questions[i])).finish()
            };
            order.chunks(size).map(key_of).collect()
        };
        let answered = keys(ANSWERED_TOGETHER, |builder, it| builder.field("id", &it.id).field("text", &it.question));
        let scored = keys(SCORED_TOGETHER, |builder, question| builder.field("question", question));
        Self { places, answered, scored }
    }

    /// The number of the range of scores that a question is in.
    pub(crate) fn range_of_scores(&self, question: usize) -> usize {
        self.places[question] / SCORED_TOGETHER
    }

    /// The tasks that answer these questions.
    pub(crate) fn to_answer(&self, questions: &[usize]) -> Vec<QuestionShard> {
        self.shards(questions, ANSWERED_TOGETHER)
    }

    /// The tasks that score the answers to these questions.
    pub(crate) fn to_score(&self, questions: &[usize]) -> Vec<QuestionShard> {
        self.shards(questions, SCORED_TOGETHER)
    }

    /// The part that a task answers. `stem` is the key of everything except the questions.
    pub(crate) fn part_to_answer(&self, shard: &QuestionShard, stem: &Key) -> RangePart {
        part(shard, stem, &self.answered)
    }

    /// The part that a task scores.
    pub(crate) fn part_to_score(&self, shard: &QuestionShard, stem: &Key) -> RangePart {
        part(shard, stem, &self.scored)
    }

    fn shards(&self, questions: &[usize], size: usize) -> Vec<QuestionShard> {
        let mut shards: BTreeMap<usize, QuestionShard> = BTreeMap::new();
        let mut sorted = questions.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        for question in sorted {
            let (range, bit) = (self.places[question] / size, self.places[question] % size);
            let empty = || QuestionShard { range, questions: Vec::new(), part: 0 };
            let shard = shards.entry(range).or_insert_with(empty);
            shard.questions.push(question);
            shard.part |= 1 << bit;
        }
        shards.into_values().collect()
    }
}

fn part(shard: &QuestionShard, stem: &Key, contents: &[Key]) -> RangePart {
    let whole = KeyBuilder::new("range").key("stem", stem).key("questions", &contents[shard.range]).finish();
    RangePart { whole, part: shard.part }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(count: usize) -> Ranges {
        let question = |i: usize| Question { id: format!("q{i}"), ..Question::default() };
        Ranges::new(&(0..count).map(question).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_asked_first_is_in_the_first_ranges_whatever_is_asked_after_it() {
        let (ranges, order) = (ranges(100), question_order(100));
        let asked = |n: usize| ranges.to_answer(&order[..n]);
        assert_eq!(asked(13).iter().map(|shard| shard.questions.len()).collect::<Vec<_>>(), [8, 5]);
        assert_eq!(asked(13)[0], asked(100)[0], "a whole range is the same task for the grid");
        assert_ne!(asked(13)[1], asked(100)[1]);
        assert_eq!(asked(100).len(), 13);
        assert_eq!(ranges.to_score(&order).len(), 2);
        assert_eq!(asked(100)[8].range_of_scores(), 1);
    }

    #[test]
    fn the_order_in_which_questions_are_given_does_not_matter() {
        let ranges = ranges(40);
        let (mut one, mut other) = (vec![3, 1, 30, 7], vec![7, 30, 3, 1, 1]);
        assert_eq!(ranges.to_answer(&one), ranges.to_answer(&other));
        one.sort_unstable();
        other.reverse();
        assert_eq!(ranges.to_score(&one), ranges.to_score(&other));
        assert_eq!(ranges.to_score(&one)[0].questions, [1, 3, 7, 30]);
    }

    #[test]
    fn parts_of_one_range_know_what_they_share() {
        let (ranges, order) = (ranges(64), question_order(64));
        let stem = Key::of_bytes(b"stem");
        let part = |questions: &[usize], stem: &Key| ranges.part_to_score(&ranges.to_score(questions)[0], stem);
        let (first, more) = (part(&order[..5], &stem), part(&order[3..9], &stem));
        assert_ne!(first.key(), more.key());
        assert_eq!(more.shared_with(&first.key()), Some(0b11000));
        assert_eq!(more.shared_with(&part(&order[..5], &Key::of_bytes(b"other")).key()), None);
        assert_eq!(part(&order, &stem).shared_with(&first.key()), Some(0b11111));
    }

    #[test]
    fn the_order_holds_each_question_once_and_is_the_same_every_time() {
        for n in [0, 1, 2, 8, 9, 64, 65, 500] {
            let order = question_order(n);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..n).collect::<Vec<_>>());
            assert_eq!(order, question_order(n));
        }
        assert!(!question_order(500).is_sorted(), "it is not that of the dataset");
    }

    #[test]
    fn ranges_of_answers_have_eight_questions_and_ranges_of_scores_have_eight_of_these() {
        // (questions, tasks that answer them, tasks that score them, questions of the last task of each)
        let table = [
            (0, 0, 0, None),
            (1, 1, 1, Some((1, 1))),
            (8, 1, 1, Some((8, 8))),
            (9, 2, 1, Some((1, 9))),
            (64, 8, 1, Some((8, 64))),
            (65, 9, 2, Some((1, 1))),
            (128, 16, 2, Some((8, 64))),
            (129, 17, 3, Some((1, 1))),
        ];
        for (n, answering, scoring, last) in table {
            let (ranges, all) = (ranges(n), (0..n).collect::<Vec<_>>());
            let (answers, scores) = (ranges.to_answer(&all), ranges.to_score(&all));
            assert_eq!((answers.len(), scores.len()), (answering, scoring), "{n}");
            let sizes =
                answers.last().zip(scores.last()).map(|(one, other)| (one.questions.len(), other.questions.len()));
            assert_eq!(sizes, last, "{n}");
        }
    }

    #[test]
    fn a_part_has_a_bit_for_each_of_its_questions_in_the_order_in_which_they_are_asked() {
        let (ranges, order) = (ranges(100), question_order(100));
        for (asked, expected) in [(&order[..1], 0b1), (&order[7..8], 0b1000_0000), (&order[2..5], 0b1_1100)] {
            assert_eq!(ranges.to_answer(asked)[0].part, expected);
        }
        let whole: Vec<usize> = order[..64].to_vec();
        assert_eq!(ranges.to_score(&whole)[0].part, u64::MAX, "all 64 bits");
        assert_eq!(ranges.to_score(&order[63..64])[0].part, 1 << 63);
    }

    #[test]
    fn parts_of_other_ranges_or_other_work_share_nothing() {
        let (ranges, order) = (ranges(100), question_order(100));
        let (stem, other) = (Key::of_bytes(b"stem"), Key::of_bytes(b"other"));
        let part = |questions: &[usize], stem: &Key| ranges.part_to_answer(&ranges.to_answer(questions)[0], stem);
        let first = part(&order[..8], &stem);
        assert_eq!(first.shared_with(&first.key()), Some(0xff));
        assert_eq!(first.shared_with(&part(&order[..8], &other).key()), None);
        assert_eq!(first.shared_with(&part(&order[8..16], &stem).key()), None);
        assert_eq!(
            part(&order[..4], &stem).shared_with(&part(&order[4..8], &stem).key()),
            Some(0),
            "none, of one range"
        );
        // Answers and scores of the same questions are different work, whatever the stem.
        let scores = ranges.part_to_score(&ranges.to_score(&order[..8])[0], &stem);
        assert_eq!(first.shared_with(&scores.key()), None);
    }
}

//! The questions that a search compares trials by, and whether a search can work with them.

use crate::{
    plan::ranges::question_order,
    spec::{EvaluateSpec, Experiment},
};
use eval::{Question, dataset::Split};

/// Questions by their place in the dataset, in the order in which they are asked.
pub(crate) struct QuestionOrder {
    /// Questions that trials are compared by.
    pub(crate) compared: Vec<usize>,
    /// Questions of the split `test`, by which nothing is chosen: trials that were asked all others are asked these at
    /// the end.
    pub(crate) held_back: Vec<usize>,
}

impl QuestionOrder {
    pub(crate) fn of(evaluate: &EvaluateSpec, questions: &[Question]) -> Self {
        let answered = evaluate.answered.unwrap_or(usize::MAX).min(questions.len());
        let is_test = |i: &usize| questions[*i].split == Some(Split::Test);
        let order = question_order(questions.len()).into_iter().filter(|i| *i < answered);
        let (held_back, compared) = order.partition(is_test);
        Self { compared, held_back }
    }
}

/// Why a search cannot work here, before anything is spent.
pub(crate) fn check_search(experiment: &Experiment, questions: &[Question]) -> Option<String> {
    let search = &experiment.search;
    let reason = if search.is_exhaustive() {
        return None;
    } else if questions.is_empty() {
        "needs golden questions to compare trials by"
    } else if QuestionOrder::of(&experiment.evaluate, questions).compared.is_empty() {
        "needs golden questions to compare trials by, and all that are answered are of the split `test`"
    } else if experiment.evaluate.objective.is_empty() {
        "needs metrics to compare trials by: see `objective` under [evaluate]"
    } else {
        return None;
    };
    Some(format!("search.{}: {reason}", search.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions() -> Vec<Question> {
        let question = |id: &str, split| Question { id: id.to_owned(), split, ..Question::default() };
        vec![question("a", Some(Split::Tune)), question("b", Some(Split::Test)), question("c", None)]
    }

    fn experiment(rest: &str) -> Experiment {
        let space = "[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        Experiment::parse(&format!("name = \"x\"\n[corpus]\nsource = \"d\"\n{space}{rest}"), ".").unwrap()
    }

    #[test]
    fn trials_are_compared_by_answered_questions_that_are_not_held_back() {
        let places = |answered| {
            let evaluate = EvaluateSpec { answered, ..experiment("").evaluate };
            let QuestionOrder { mut compared, held_back } = QuestionOrder::of(&evaluate, &questions());
            compared.sort_unstable();
            (compared, held_back)
        };
        assert_eq!(places(None), (vec![0, 2], vec![1]));
        assert_eq!(places(Some(2)), (vec![0], vec![1]));
        assert_eq!(places(Some(0)), (vec![], vec![]));
    }

    #[test]
    fn a_search_needs_questions_that_trials_may_be_compared_by() {
        let searched = experiment("[search]\nrandom = { share = 0.5 }\n");
        assert_eq!(check_search(&experiment(""), &[]), None);
        assert!(check_search(&searched, &[]).unwrap().starts_with("search.random: needs golden questions"));
        let held_back = check_search(&searched, &questions()[1..2]);
        assert!(held_back.unwrap().contains("all that are answered are of the split `test`"));
    }
}

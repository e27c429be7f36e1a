//! The metrics themselves, ready to score answers one by one: those of a file,
//! or those of a service as they come.

use crate::{
    Error, Setup,
    budget::{self, BudgetResult},
    error_chain,
    spec::{ScoringSpec, nearest},
    task::{CallTurn, ModelHandles},
};
use eval::{Missing, Question, Sample, Scored, dataset::AnsweredRow, metric::Metric};
use futures::future::join_all;
use models::{Budget, Caps, Client};
use rag::{Answer, Passage};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::Journal;

use super::why_not_applicable;

/// Metrics with their models, behind one budget.
pub struct Scorer {
    pub(super) spec: ScoringSpec,
    pub(super) models: ModelHandles,
    pub(super) metrics: Vec<Box<dyn Metric>>,
    pub(super) budget: Budget,
    pub(super) journal: Option<Arc<Journal>>,
}

/// One of the metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoringMetric {
    /// Its name.
    pub name: String,
    /// Its least and greatest value.
    pub range: (f64, f64),
    /// Whether more is better.
    pub higher_is_better: bool,
}

impl Scorer {
    /// The metrics for answers to users' questions, which have no reference and no evidence.
    /// Metrics that `choice` names must work without these; of the experiment's metrics, those that
    /// do are taken. `text` is the experiment. Money is spent only up to the budget of `setup`;
    /// without one, models that cost money are refused. What is scored is written nowhere.
    ///
    /// # Errors
    /// [`Error::Refused`] with all mistakes.
    pub async fn of_service(text: &str, choice: &crate::ScoringChoice, setup: Setup) -> Result<Self, Error> {
        let refused = |errors: Vec<crate::SpecError>| Error::Refused(errors.into_iter().map(|e| e.message).collect());
        let mut spec = ScoringSpec::of_service(text, ".", choice).map_err(refused)?;
        let bare = AnsweredRow {
            line: 0,
            question: Question { id: "1".to_owned(), question: "?".to_owned(), ..Question::default() },
            passages: Some(Vec::new()),
            answer: Some(Answer::default()),
            columns: serde_json::Map::new(),
        };
        let mut cannot = Vec::new();
        spec.evaluate.metrics.retain(|config| {
            let columns = || Missing::NotApplicable("a user's question has no columns of a file".to_owned());
            let reason = why_not_applicable(config, &bare).or_else(|| config.needs().columns.then(columns));
            if let Some(reason) = &reason {
                cannot.push(format!("`{}` cannot score what users ask ({reason})", config.label()));
            }
            reason.is_none()
        });
        if spec.evaluate.metrics.is_empty() || (!choice.metrics.is_empty() && !cannot.is_empty()) {
            cannot.push(
                "name metrics that need neither a reference nor evidence, such as `faithfulness` or `answer_relevancy`"
                    .to_owned(),
            );
            return Err(Error::Refused(cannot));
        }
        // The budget of the experiment was that of its run.
        spec.evaluate.budget = Caps { usd: Some(setup.budget_usd.unwrap_or(0.0)), ..Caps::default() }.into();
        let used = spec.evaluate.models();
        let is_free = |name: &&str| spec.models.get(*name).is_some_and(|config| config.prices() == Some((0.0, 0.0)));
        if setup.budget_usd.is_none()
            && let Some(name) = used.iter().find(|name| !is_free(name))
        {
            return Err(Error::Refused(vec![format!(
                "models.{name}: scoring asks this model about each answer, and it may cost money: say how much, in US \
                 dollars, with --score-budget-usd, or write its price, 0 where it is free"
            )]));
        }
        Self::new(spec, setup, Vec::new(), |_| Ok(None)).await
    }

    /// `mistakes` were found before; the journal is opened only if there are none.
    pub(super) async fn new(
        spec: ScoringSpec,
        setup: Setup,
        mut mistakes: Vec<String>,
        journal: impl FnOnce(&ScoringSpec) -> Result<Option<Arc<Journal>>, Error>,
    ) -> Result<Self, Error> {
        let caps = spec.evaluate.budget.run();
        let budget = Budget::new(Caps { usd: setup.budget_usd.or(caps.usd), ..caps });
        let context = setup.context(spec.engine.cores);
        let used: BTreeSet<String> = spec.evaluate.models().into_iter().map(str::to_owned).collect();
        mistakes.extend(budget::unpriced(&budget.caps(), &spec.models, &used));
        for name in &used {
            let Some(config) = spec.models.get(name) else { continue };
            if let Err(error) = config.ready(&context).await {
                // A name that is not in the file was taken for a model of the catalogue.
                let others = spec.models.keys().filter(|other| *other != name).map(String::as_str);
                let hint = nearest(name, others).map(|other| format!("; did you mean `{other}`?")).unwrap_or_default();
                mistakes.push(format!("models.{name}: {}{hint}", error_chain(&error)));
            }
        }
        Error::refuse(mistakes)?;
        let journal = journal(&spec)?;
        let client = setup.control.attach(Client::new(journal.clone()), &budget);
        let models = ModelHandles::new(spec.models.clone(), context, client);
        let in_turn = models.in_turn(CallTurn::default());
        let context = in_turn.metric_context(&spec.evaluate);
        let metrics = spec.evaluate.metrics.iter().map(|config| config.build(&context));
        let metrics = metrics.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { spec, models, metrics, budget, journal })
    }

    /// The metrics.
    pub fn metrics(&self) -> Vec<ScoringMetric> {
        let describe = |config: &eval::MetricConfig| ScoringMetric {
            name: config.label(),
            range: config.range(),
            higher_is_better: config.higher_is_better(),
        };
        self.spec.evaluate.metrics.iter().map(describe).collect()
    }

    /// An answer's scores by the judged metrics.
    pub async fn score_judged(
        &self,
        question: &Question,
        passages: &[Passage],
        answer: &Answer,
    ) -> BTreeMap<String, Scored> {
        self.score_where(true, question, passages, answer).await
    }

    /// An answer's scores by the metrics without a judge.
    pub async fn score_computed(
        &self,
        question: &Question,
        passages: &[Passage],
        answer: &Answer,
    ) -> BTreeMap<String, Scored> {
        self.score_where(false, question, passages, answer).await
    }

    async fn score_where(
        &self,
        judged: bool,
        question: &Question,
        passages: &[Passage],
        answer: &Answer,
    ) -> BTreeMap<String, Scored> {
        let sample = Sample { question, passages, answer: Some(answer), columns: None };
        let metrics = self.spec.evaluate.metrics.iter().zip(&self.metrics);
        let scored = metrics
            .filter(|(config, _)| config.needs_judge() == judged)
            .map(|(config, metric)| async move { (config.label(), config.score(&**metric, &sample).await) });
        join_all(scored).await.into_iter().collect()
    }

    /// The caps and the use of the budget, if there is one.
    pub fn budget(&self) -> Option<BudgetResult> {
        BudgetResult::of(&self.budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ScoringChoice, record::fixture::endpoint};
    use models::ModelDirectory;

    const EVALUATE: &str = "metrics = [\"token_f1\", \"context_tokens\", \"recall\"]";

    /// An experiment with a priced, a free and an unpriced chat model, and these settings under `[evaluate]`.
    fn text(evaluate: &str) -> String {
        let address = endpoint("yes");
        let model = |name: &str, price: &str| {
            format!("[models.{name}]\nchat.openai = {{ model = \"m\", base_url = \"{address}\"{price} }}\n")
        };
        let models = [
            model("priced", ", price = { input = 1, output = 2 }"),
            model("free", ", price = { input = 0, output = 0 }"),
            model("unpriced", ""),
        ];
        format!("{}[evaluate]\n{evaluate}\n", models.concat())
    }

    async fn of_service(evaluate: &str, metrics: &[&str], budget_usd: Option<f64>) -> Result<Scorer, Vec<String>> {
        let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
        let choice = ScoringChoice { metrics, ..ScoringChoice::default() };
        let mut setup = Setup::new(ModelDirectory::new("models".into(), Vec::new()), Arc::new(|_: &str| None));
        setup.budget_usd = budget_usd;
        match Scorer::of_service(&text(evaluate), &choice, setup).await {
            Ok(scorer) => Ok(scorer),
            Err(Error::Refused(mistakes)) => Err(mistakes),
            Err(other) => panic!("{other}"),
        }
    }

    fn refused(found: Result<Scorer, Vec<String>>) -> Vec<String> {
        found.err().unwrap_or_else(|| panic!("a refusal"))
    }

    fn names(scorer: &Scorer) -> Vec<String> {
        scorer.metrics().into_iter().map(|metric| metric.name).collect()
    }

    #[tokio::test]
    async fn of_the_experiments_metrics_those_are_taken_that_need_no_reference_and_no_evidence() {
        let scorer = of_service(EVALUATE, &[], None).await.unwrap();
        let metric = &scorer.metrics()[0];
        assert_eq!(
            (scorer.metrics().len(), metric.name.as_str(), metric.higher_is_better),
            (1, "context_tokens", false)
        );
        let none = refused(of_service("metrics = [\"token_f1\", \"recall\"]", &[], None).await);
        assert_eq!(none.len(), 3);
        assert!(none[0].starts_with("`token_f1` cannot score what users ask ("), "{none:?}");
        assert!(none[1].starts_with("`recall` cannot score what users ask ("), "{none:?}");
        assert!(none[2].starts_with("name metrics that need neither a reference nor evidence"), "{none:?}");
    }

    #[tokio::test]
    async fn each_metric_that_is_named_must_work() {
        assert_eq!(names(&of_service(EVALUATE, &["context_tokens"], None).await.unwrap()), ["context_tokens"]);
        let mistakes = refused(of_service(EVALUATE, &["context_tokens", "exact_match"], None).await);
        assert_eq!(mistakes.len(), 2);
        assert!(mistakes[0].starts_with("`exact_match` cannot score what users ask ("), "{mistakes:?}");
        let unknown = refused(of_service(EVALUATE, &["fluency"], None).await);
        assert!(unknown[0].contains("fluency"), "{unknown:?}");
    }

    #[tokio::test]
    async fn a_judge_that_may_cost_money_needs_a_budget() {
        let judged = |judge: &str| format!("metrics = [\"faithfulness\"]\njudge = \"{judge}\"");
        assert_eq!(names(&of_service(&judged("free"), &[], None).await.unwrap()), ["faithfulness"]);
        for judge in ["priced", "unpriced"] {
            let mistakes = refused(of_service(&judged(judge), &[], None).await);
            assert_eq!(mistakes.len(), 1);
            let begin = format!("models.{judge}: scoring asks this model about each answer, and it may cost money: ");
            assert!(mistakes[0].starts_with(&begin), "{mistakes:?}");
        }
        let scorer = of_service(&judged("priced"), &[], Some(0.5)).await.unwrap();
        assert_eq!(scorer.budget().unwrap().caps, Caps { usd: Some(0.5), ..Caps::default() });
        let mistakes = refused(of_service(&judged("unpriced"), &[], Some(0.5)).await);
        assert!(mistakes[0].contains("the budget of $0.50 cannot be kept"), "{mistakes:?}");
    }

    #[tokio::test]
    async fn the_budget_of_the_experiment_is_not_that_of_the_service() {
        let scorer =
            of_service("metrics = [\"context_tokens\"]\nbudget = { usd = 9, calls = 1 }", &[], None).await.unwrap();
        assert_eq!(scorer.budget().unwrap().caps, Caps { usd: Some(0.0), ..Caps::default() }, "nothing may be spent");
    }

    #[tokio::test]
    async fn an_answer_is_scored_by_judged_metrics_or_by_all_others() {
        let scorer = of_service(EVALUATE, &["context_tokens"], None).await.unwrap();
        let question = Question { question: "Why?".to_owned(), ..Question::default() };
        let (passages, answer) = ([Passage::of_text("a".to_owned(), "one two".to_owned())], Answer::default());
        assert!(scorer.score_judged(&question, &passages, &answer).await.is_empty(), "no metric is judged");
        let computed = scorer.score_computed(&question, &passages, &answer).await;
        assert_eq!(computed.keys().collect::<Vec<_>>(), ["context_tokens"]);
        let nothing = scorer.score_computed(&question, &[], &answer).await;
        let value = |scores: &BTreeMap<String, Scored>| scores["context_tokens"].score.value().unwrap();
        assert!(value(&nothing) < value(&computed), "{nothing:?} {computed:?}");
    }
}

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

use super::lacks;

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
        let mut spec = ScoringSpec::parse(text, ".", choice).map_err(refused)?;
        let bare = AnsweredRow {
            line: 0,
            question: Question { id: "1".to_owned(), question: "?".to_owned(), ..Question::default() },
            passages: Some(Vec::new()),
            answer: Some(Answer::default()),
            columns: serde_json::Map::new(),
        };
        let mut cannot = Vec::new();
        spec.evaluate.metrics.retain(|config| {
            let columns = || Missing::NotApplicable("it has no columns".to_owned());
            let reason = lacks(config, &bare).or_else(|| config.needs().columns.then(columns));
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
        spec.evaluate.budget = Caps { usd: Some(setup.budget_usd.unwrap_or(0.0)), ..Caps::default() };
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
        let caps = spec.evaluate.budget;
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

    /// An answer's scores by the judged metrics, or by all others.
    pub async fn score(
        &self,
        judged: bool,
        question: &Question,
        passages: &[Passage],
        answer: &Answer,
    ) -> BTreeMap<String, Scored> {
        let sample = Sample { question, passages, answer: Some(answer), columns: None };
        let metrics = self.spec.evaluate.metrics.iter().zip(&self.metrics);
        let scored = metrics
            .filter(|(config, _)| config.judged() == judged)
            .map(|(config, metric)| async move { (config.label(), config.score(&**metric, &sample).await) });
        join_all(scored).await.into_iter().collect()
    }

    /// The caps and the use of the budget, if there is one.
    pub fn budget(&self) -> Option<BudgetResult> {
        BudgetResult::of(&self.budget)
    }
}

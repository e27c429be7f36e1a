//! Plans the trials that are other systems: they are asked, and the places of their passages are found.

use super::{
    Plan,
    build::{AnswerTasks, ScoredTasks},
    graph::{PlanInputs, ReplyContents, TaskId, TrialTasks},
    ranges::QuestionShard,
    trial::{SystemTrial, Trial},
    work::{self, KeyContext, ScoredKey, Work},
};
use crate::spec::{ReplySource, SystemSpec};

impl Plan {
    /// The tasks of a system.
    pub(super) fn system(
        &mut self,
        inputs: &PlanInputs<'_>,
        (trial, system): (&Trial, &SystemTrial),
        asked: &[usize],
    ) -> TrialTasks {
        let Some(spec) = inputs.experiment.systems.get(&system.system) else { return TrialTasks::default() };
        let contents = contents(inputs, &system.system, spec);
        let replies = self.replies(inputs, (trial, system, spec), asked);
        let reply_tasks: Vec<TaskId> = replies.shards.iter().map(|(_, id)| *id).collect();
        let anchor = work::AnchorWork {
            unanchored: spec.unanchored,
            replies: reply_tasks.clone(),
            documents: if contents.passages { self.loading_by(0).to_vec() } else { Vec::new() },
            questions: asked.to_vec(),
        };
        let places = anchor.stem(&KeyContext { tasks: &self.tasks, inputs }, &replies.stem);
        let passages = self.add(inputs, anchor, || format!("anchor the passages of {}", trial.id));
        let scored = ScoredTasks {
            passages,
            answers: &replies.shards,
            replies: Some(contents),
            key: ScoredKey::System { replies: &replies.stem, places: &places },
            parser: 0,
        };
        let metrics = inputs.experiment.evaluate.metrics.iter().filter(|_| !inputs.questions.is_empty());
        let scores = metrics.map(|metric| (metric.clone(), self.score(inputs, metric, &scored, asked))).collect();
        TrialTasks { passages, answers: reply_tasks, replies: Some(contents), scores, ..TrialTasks::default() }
    }

    /// The tasks of its replies.
    fn replies(
        &mut self,
        inputs: &PlanInputs<'_>,
        (trial, system, spec): (&Trial, &SystemTrial, &SystemSpec),
        asked: &[usize],
    ) -> AnswerTasks {
        let keys = KeyContext { tasks: &self.tasks, inputs };
        let given = inputs.given.get(&system.system);
        let stem = match &spec.source {
            ReplySource::Asked(config) => work::AskWork::stem(&keys, system, spec, config),
            ReplySource::Answers(_) => {
                let digest = given.map_or_else(|| store::Key::of_bytes(b""), |given| given.digest);
                work::TakeAnswersWork::stem(&keys, &digest)
            }
        };
        let shards = self.ranges.to_answer(asked);
        let reply = |shard: QuestionShard| {
            let part = self.ranges.part_to_answer(&shard, &stem);
            let (scored_with, questions) = (shard.range_of_scores(), shard.questions);
            let work: Work = match &spec.source {
                ReplySource::Asked(_) => work::AskWork::new(inputs, system, questions, part).into(),
                ReplySource::Answers(_) => {
                    let reply = |&i: &usize| given.and_then(|given| given.replies.get(i)).cloned().flatten();
                    let replies = questions.iter().map(reply).collect();
                    work::TakeAnswersWork { questions, replies, part }.into()
                }
            };
            (scored_with, self.add(inputs, work, || format!("ask {} for {}", system.system, trial.id)))
        };
        AnswerTasks { stem, shards: shards.into_iter().map(reply).collect() }
    }
}

/// What the replies of a system can hold.
fn contents(inputs: &PlanInputs<'_>, name: &str, spec: &SystemSpec) -> ReplyContents {
    match &spec.source {
        ReplySource::Asked(config) => {
            let settings = config.settings();
            ReplyContents { answers: settings.writes_answers(), passages: settings.returns_passages() }
        }
        ReplySource::Answers(_) => {
            inputs.given.get(name).map_or(ReplyContents { answers: false, passages: false }, |given| given.contents)
        }
    }
}

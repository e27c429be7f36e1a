//! What a run would do: its plan in numbers, how much of it is in the store,
//! and what the rest should take and cost.

use crate::{
    Error,
    blocking::compute,
    engine::{damaged_tasks, stored_tasks, tasks_to_run},
    history::history,
    layout,
    plan::{CostEstimate, PlanSummary, PlannedTrial, text_sizes::TextSizes, time::estimate_time, work::Work},
    prepare::PreparedRun,
    session::{Session, used_models::used_models},
};
use rag::chunk::ChunkerConfig;
use std::sync::Arc;

/// What a plan costs and how much of it is in the store.
///
/// # Errors
/// If the store fails.
pub async fn plan_summary(session: &Session, prepared: &PreparedRun) -> Result<PlanSummary, Error> {
    let store = session.workspace().store();
    let stored = stored_tasks(&prepared.plan, store).await?;
    let damaged = damaged_tasks(&prepared.plan, &stored, store).await?;
    let (to_run, _) = tasks_to_run(&prepared.plan, &stored, &damaged);
    let trials = prepared.trials.iter().zip(&prepared.plan.trials);
    let combinations = trials.map(|(trial, tasks)| PlannedTrial {
        trial: trial.id.clone(),
        labels: trial.labels.clone(),
        stored: tasks.results().all(|id| stored[id]),
    });
    let runs = layout::runs_folder(session.workspace().root());
    let history = compute(move || history(&runs)).await?;
    let (experiment, PreparedRun { plan, questions, text_bytes, .. }) = (&session.experiment, prepared);
    let texts = measure_texts(session, prepared).await?;
    let (search, caps) = (&experiment.search, session.budget().caps());
    Ok(PlanSummary {
        combinations: combinations.collect(),
        search: (!search.is_exhaustive()).then(|| search.name().to_owned()),
        cost: Some(
            CostEstimate::of(experiment, caps, plan, questions, &texts, &to_run).within(session.budget().total()),
        ),
        time: Some(estimate_time(plan, prepared.run_context.components(), *text_bytes, &to_run, &history)),
        dataset: prepared.dataset.clone(),
        rejected: prepared.rejected.clone(),
        unread: prepared.unread.clone(),
        left_out: prepared.left_out.clone(),
        warnings: prepared.warnings.clone(),
        ..plan.summary(&|id| stored[id])
    })
}

/// Measures documents, chunks and questions on the text sample, and how each model that is used counts their tokens.
async fn measure_texts(session: &Session, prepared: &PreparedRun) -> Result<TextSizes, Error> {
    let mut chunkers: Vec<ChunkerConfig> = Vec::new();
    for task in &prepared.plan.tasks {
        if let Work::Chunk(work) = &task.work
            && !chunkers.contains(&work.chunker)
        {
            chunkers.push(work.chunker.clone());
        }
    }
    let questions: Vec<String> = prepared.questions.iter().map(|question| question.question.clone()).collect();
    let (names, models, sample) = (used_models(&session.experiment), session.models(), prepared.text_sample.clone());
    compute(move || {
        let opened: Vec<_> = names.into_iter().map(|name| (models.tokenizer(&name), name)).collect();
        let tokenizers = opened.iter().map(|(tokenizer, name)| (name.clone(), Arc::as_ref(tokenizer)));
        sample.measure(&chunkers, &questions, tokenizers)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        operator::Operator,
        plan::TaskId,
        record::fixture::{session, text},
    };

    const SPACE: &str = "chunker = \"sentence\"\nretriever = [\"bm25\", { bm25 = { top_k = 3 } }]";

    /// A session whose corpus has two documents and whose dataset has two questions, and what it would run.
    async fn prepared(folder: &std::path::Path, search: &str) -> (Session, PreparedRun) {
        std::fs::create_dir_all(folder.join("docs")).unwrap();
        std::fs::write(folder.join("docs/a.txt"), "The owl hoots at night in the old mill.").unwrap();
        std::fs::write(folder.join("docs/b.txt"), "The duck swims on the pond by the mill.").unwrap();
        let question = |id: &str, quote: &str| {
            let evidence = serde_json::json!([{ "document": "a.txt", "quote": quote }]);
            serde_json::json!({ "id": id, "question": "Who?", "evidence": evidence }).to_string()
        };
        let golden = format!("{}\n{}\n", question("a", "The owl"), question("b", "the old mill"));
        std::fs::write(folder.join("golden.jsonl"), golden).unwrap();
        let session = session(folder, &format!("{}{search}", text(SPACE, "metrics = [\"recall\"]")));
        let prepared = session.prepare().await.unwrap();
        (session, prepared)
    }

    /// Puts something under the names of these tasks' outputs.
    async fn store(session: &Session, prepared: &PreparedRun, tasks: &[TaskId]) {
        for &id in tasks {
            let name = prepared.plan.tasks[id].artifact();
            session.workspace().store().replace(&name, "anything").await.unwrap();
        }
    }

    #[tokio::test]
    async fn before_a_run_only_the_documents_are_in_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let (session, prepared) = prepared(folder.path(), "").await;
        let found = plan_summary(&session, &prepared).await.unwrap();
        assert_eq!((found.trials, found.search), (2, None));
        let combinations: Vec<_> = found.combinations.iter().map(|it| (it.trial.as_str(), it.stored)).collect();
        assert_eq!(combinations, [("t01", false), ("t02", false)]);
        assert_eq!(found.combinations[1].labels["retriever"], "bm25(top_k=3)");
        for operator in &found.operators {
            let all = if operator.operator == Operator::Load { operator.unique } else { 0 };
            assert_eq!(operator.stored, all, "{operator:?}");
        }
        // Both trials share their chunks and their index.
        let of = |wanted: Operator| found.operators.iter().find(|it| it.operator == wanted).unwrap();
        assert_eq!((of(Operator::CHUNK).planned, of(Operator::CHUNK).unique), (2, 1));
        assert_eq!((of(Operator::RETRIEVE).planned, of(Operator::RETRIEVE).unique), (2, 2));
        assert_eq!(found.dataset, prepared.dataset);
        let cost = found.cost.unwrap();
        assert_eq!((cost.calls, cost.cost_usd), (0, Some(0.0)), "nothing asks a model");
        assert!(found.rejected.is_empty() && found.unread.is_empty() && found.left_out.is_empty());
    }

    #[tokio::test]
    async fn a_trial_is_stored_if_its_passages_and_all_its_scores_are() {
        let folder = tempfile::tempdir().unwrap();
        let (session, prepared) = prepared(folder.path(), "").await;
        let tasks = prepared.plan.trials.clone();
        let stored = async || {
            let found = plan_summary(&session, &prepared).await.unwrap();
            found.combinations.iter().map(|it| it.stored).collect::<Vec<_>>()
        };
        store(&session, &prepared, &[tasks[0].passages]).await;
        assert_eq!(stored().await, [false, false], "its scores are not");
        store(&session, &prepared, &tasks[0].scoring().collect::<Vec<_>>()).await;
        assert_eq!(stored().await, [true, false]);
        store(&session, &prepared, &tasks[1].scoring().collect::<Vec<_>>()).await;
        assert_eq!(stored().await, [true, false], "its passages are not");
        store(&session, &prepared, &[tasks[1].passages]).await;
        assert_eq!(stored().await, [true, true]);
    }

    #[tokio::test]
    async fn a_search_is_named_and_a_file_that_gives_no_document_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("docs")).unwrap();
        std::fs::write(folder.path().join("docs/empty.txt"), "").unwrap();
        let (session, prepared) = prepared(folder.path(), "[search]\nrandom = { share = 0.5 }\n").await;
        let found = plan_summary(&session, &prepared).await.unwrap();
        assert_eq!(found.search.as_deref(), Some("random"));
        assert_eq!(found.rejected.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["empty.txt"]);
    }
}

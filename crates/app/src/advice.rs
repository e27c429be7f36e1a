//! Advice about errors, as commands. Libraries say what happened and where;
//! only this crate knows by which command people call them. The advice is added
//! wherever an error becomes text, even if the text is stored for later.

use eval::dataset::{SplitError, UnwritableFile};
use lab::Action;
use models::Absence;
use rag::load::LoadError;
use serve::KeyFileError;
use std::{error::Error, sync::Arc};
use store::DamageOutcome;

/// Follows a message that ends with a run: there is none yet, or the next one makes
/// something damaged again.
const START: &str = "start one with `reverie run`";

/// From now on, the text of an error includes the advice, and messages name commands.
pub fn install_advice() {
    store::set_advice(advice);
    lab::set_action_names(command);
}

/// The command for an action.
fn command(action: Action<'_>) -> String {
    let command = match action {
        Action::Run => "run",
        Action::Promote(None) => "promote",
        Action::Promote(Some(output)) => return format!("`reverie promote --output {output}`"),
        Action::Judge(None) => "judge",
        Action::Judge(Some(judge)) => return format!("`reverie judge {judge}`"),
        Action::Score => "score",
        Action::ExportGolden(output) => return format!("`reverie golden export FILE --output {output}`"),
        Action::Track => "track",
        Action::VerifyStore => "store verify",
        Action::CollectGarbage => "store gc",
        Action::PullPdfLibrary => return format!("`reverie models pull {}`", models::Library::Pdfium.name()),
    };
    format!("`reverie {command}`")
}

fn advice(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(advice) = about(error) {
            return Some(advice);
        }
        next = error.source();
    }
    None
}

/// The advice about one error, without its causes.
fn about(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref() {
        return about_lab(error);
    }
    if let Some(error) = error.downcast_ref() {
        return about_store(error);
    }
    if let Some(error) = error.downcast_ref::<Arc<store::Error>>() {
        return about_store(error);
    }
    if let Some(error) = error.downcast_ref() {
        return about_models(error);
    }
    match error.downcast_ref::<rag::Error>() {
        Some(rag::Error::Model(error)) => return about_models(error),
        Some(_) => return None,
        None => {}
    }
    if let Some(error) = error.downcast_ref::<LoadError>() {
        return matches!(error, LoadError::NoLibrary(_)).then(|| pull(models::Library::Pdfium.name()));
    }
    if let Some(error) = error.downcast_ref::<KeyFileError>() {
        return matches!(error, KeyFileError::Unreadable { .. })
            .then(|| "`reverie keys new` writes such a file".to_owned());
    }
    if let Some(error) = error.downcast_ref::<SplitError>() {
        return matches!(error, SplitError::Unnamed(_)).then(|| "`reverie golden anchor --yes` does that".to_owned());
    }
    matches!(error.downcast_ref(), Some(UnwritableFile::Fields { .. }))
        .then(|| "`reverie golden import` writes the questions as JSONL, which holds all fields".to_owned())
}

fn about_lab(error: &lab::Error) -> Option<String> {
    // These variants are transparent, so that `source` skips the error inside them.
    if let Some(error) = lab::model_error(error) {
        return about_models(error);
    }
    match error {
        lab::Error::Store(error) => about_store(error),
        lab::Error::NoRun { .. } => Some(START.to_owned()),
        lab::Error::TrackerIncomplete { .. } => Some("`reverie track` tries again".to_owned()),
        _ => None,
    }
}

fn about_store(error: &store::Error) -> Option<String> {
    let advice = match error {
        store::Error::JournalDamaged { .. } => {
            "`reverie journal gc --yes` saves every answer that can still be read, and the next run asks for the others"
        }
        store::Error::Newer { .. } => "use a newer version of reverie",
        store::Error::Damaged {
            outcome:
                DamageOutcome::LeftForRun
                | DamageOutcome::SetAside { .. }
                | DamageOutcome::SetAsideByAnother
                | DamageOutcome::ReadOnly,
            ..
        } => START,
        store::Error::NoSuchRun { .. } => "`reverie store stats` lists them",
        store::Error::NoListOfArtifacts { .. } => "run it again with `reverie run`, or name the runs to keep",
        _ => return None,
    };
    Some(advice.to_owned())
}

fn about_models(error: &models::Error) -> Option<String> {
    match error {
        models::Error::NotHere { model, absence: Absence::NotPulled } => Some(pull(model)),
        models::Error::NotPinned { model, .. } => Some(format!("remove it, and {}", pull(model))),
        models::Error::Journal(error) => about_store(error),
        _ => None,
    }
}

fn pull(model: &str) -> String {
    format!("run `reverie models pull {model}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_pulled() -> models::Error {
        models::Error::NotHere { model: "minilm".to_owned(), absence: Absence::NotPulled }
    }

    fn damaged(outcome: DamageOutcome) -> store::Error {
        store::Error::Damaged { path: "runs/r/results.json".to_owned(), reason: "it is empty".to_owned(), outcome }
    }

    #[test]
    fn the_text_of_an_error_has_the_command_that_fixes_it() {
        install_advice();
        for error in [lab::Error::from(not_pulled()), lab::Error::Stage(rag::Error::Model(not_pulled()))] {
            let text = lab::error_chain(&error);
            assert_eq!(text, "model `minilm` is not on this machine; run `reverie models pull minilm`");
        }
        let text = lab::error_chain(&lab::Error::from(damaged(DamageOutcome::LeftForRun)));
        assert!(
            text.ends_with("is damaged: it is empty; the next run writes it anew; start one with `reverie run`"),
            "{text}"
        );
        let kept = models::Error::Journal(Arc::new(store::Error::NoSuchRun { run: "r".to_owned() }));
        let text = lab::error_chain(&kept);
        assert_eq!(text.matches("`reverie store stats`").count(), 1, "{text}");
    }

    #[test]
    fn there_is_no_advice_where_no_command_helps() {
        for absence in [Absence::NoSuchPath, Absence::NotPullable { reason: "away".to_owned() }] {
            assert_eq!(advice(&models::Error::NotHere { model: "x".to_owned(), absence }), None);
        }
        assert_eq!(advice(&damaged(DamageOutcome::Left)), None);
    }
}

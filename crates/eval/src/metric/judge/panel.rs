//! One judge or several: who writes, who votes, and what the majority is.
//!
//! When to use several: where one judge's mistakes would count; models of
//! different makers err in different places. Each of them is paid.
//!
//! - Verdicts: every judge gives its own, in its own way (probabilities or
//!   words). What more than half of *all* judges say is the verdict. Without
//!   such a majority (a tie, or too many judges whose reply cannot be read)
//!   there is none, and the score is `JudgeUnparsable`.
//! - Texts (statements, claims, entities, questions) are written by the first
//!   judge alone, so that all judges vote on the same items.
//! - A judge that cannot be reached makes the score a `ProviderError`: a
//!   majority of those that were up would be another measure.
//!
//! The detail of a score keeps every vote, and `agreement`: the share of votes
//! equal to the most frequent one.

use super::{ItemVerdict, PanelMember, Sampling, Transcript, VerdictForm};
use crate::verdict::Inquiry;
use crate::{Missing, prompt};
use futures::future::join_all;
use models::Chat;
use serde_json::{Map, Value, json};

/// Gives verdicts, by one model or by the majority of several.
pub(crate) struct Judge {
    pub(super) first: PanelMember,
    others: Vec<PanelMember>,
}

impl Judge {
    /// A judge that says yes from this probability on; with `others`, the majority
    /// decides.
    pub(crate) fn new(first: &Chat, others: &[Chat], threshold: f64) -> Self {
        let member = |chat: &Chat| {
            let name = (!others.is_empty()).then(|| chat.identity().model.clone());
            PanelMember::new(chat.clone(), threshold, name)
        };
        Self { first: member(first), others: others.iter().map(member).collect() }
    }

    /// What the first judge's verdicts are read from.
    pub(crate) async fn form(&self) -> Result<VerdictForm, Missing> {
        self.first.form().await
    }

    /// Whether there are several.
    pub(crate) fn is_panel(&self) -> bool {
        !self.others.is_empty()
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &PanelMember> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The self-contained statements that a text makes, at most `limit`, each
    /// once. May be empty: a refusal states nothing.
    pub(crate) async fn statements(
        &self,
        question: &str,
        text: &str,
        limit: usize,
        transcript: &mut Transcript,
    ) -> Result<Vec<String>, Missing> {
        let prompt = format!(
            "{}\n\n{}\n\nBreak the text, which answers the question, into the single facts that it states. Write each \
             fact as one short sentence that can be understood alone: put names in the place of words such as `it` or \
             `they`. Add nothing, leave nothing out. If the text states no fact (it refuses or does not know), give an \
             empty list.",
            prompt::fence("question", question),
            prompt::fence("text", text)
        );
        self.texts("statements", prompt, text.len(), limit, transcript).await
    }

    /// The list of texts that the prompt asks for, at most `limit`, in the language
    /// of the source text. Texts that differ only in case count once. `purpose` is
    /// the name of the list in the reply, and `length` is the size of the source
    /// text in bytes.
    pub(crate) async fn texts(
        &self,
        purpose: &str,
        prompt: String,
        length: usize,
        limit: usize,
        transcript: &mut Transcript,
    ) -> Result<Vec<String>, Missing> {
        let prompt = format!("{prompt} Write in the language of the text.");
        let list = json!({ "type": "array", "items": { "type": "string" }, "maxItems": limit });
        let schema = prompt::object_schema(json!({ purpose: list }));
        let max_tokens = (length as u32 / 2).saturating_add(200).min(2_000);
        let sampling = Sampling { max_tokens, temperature: 0.0, seed: 0 };
        let object = self.object(purpose, prompt, schema, sampling, transcript).await?;
        let Some(items) = object.get(purpose).and_then(Value::as_array) else {
            return Err(Missing::JudgeUnparsable(format!("there is no list `{purpose}` in its reply")));
        };
        let mut texts: Vec<String> = Vec::new();
        for item in items {
            let Some(text) = item.as_str().map(str::trim) else {
                return Err(Missing::JudgeUnparsable(format!("an item of `{purpose}` is not a text: {item}")));
            };
            // A repeated text would count twice.
            if !text.is_empty() && !texts.iter().any(|known| known.to_lowercase() == text.to_lowercase()) {
                texts.push(text.to_owned());
            }
        }
        if texts.len() > limit {
            let reason = format!("{} {purpose}, where {limit} were allowed", texts.len());
            return Err(Missing::JudgeUnparsable(reason));
        }
        Ok(texts)
    }

    /// A JSON object, written by the first judge.
    pub(crate) async fn object(
        &self,
        purpose: &str,
        prompt: String,
        schema: Value,
        sampling: Sampling,
        transcript: &mut Transcript,
    ) -> Result<Map<String, Value>, Missing> {
        self.first.object(purpose, prompt, schema, sampling, transcript).await
    }

    /// One verdict per item, in order.
    pub(crate) async fn verdicts(
        &self,
        inquiry: &Inquiry<'_>,
        transcript: &mut Transcript,
    ) -> Result<Vec<ItemVerdict>, Missing> {
        if !self.is_panel() {
            return self.first.verdicts(inquiry, transcript).await;
        }
        let asked = self.members().map(|member| async move {
            let mut own = Transcript::default();
            let ballot = member.verdicts(inquiry, &mut own).await;
            (member, own, ballot)
        });
        let ballots: Vec<(&PanelMember, Vec<ItemVerdict>)> = collect(join_all(asked).await, transcript)?;
        let verdicts = (0..inquiry.items.len()).map(|item| {
            let given = ballots.iter().map(|(member, ballot)| (*member, ballot.get(item).cloned().unwrap_or_default()));
            majority(given.collect())
        });
        let verdicts: Vec<ItemVerdict> = verdicts.collect();
        for verdict in &verdicts {
            transcript.agreement.count(verdict.votes.iter().map(|vote| &vote["verdict"]));
        }
        Ok(verdicts)
    }

    /// Yes or no about each item. All verdicts are shown under this name, also
    /// where one is missing and there is no score.
    pub(crate) async fn decide(
        &self,
        inquiry: &Inquiry<'_>,
        name: &str,
        transcript: &mut Transcript,
    ) -> Result<Vec<bool>, Missing> {
        let verdicts = self.verdicts(inquiry, transcript).await?;
        transcript.show(name, super::table(inquiry.items, &verdicts));
        super::require_all(&verdicts)
    }

    /// A verdict by token probabilities; none if the judge is measured by
    /// words. Only for one judge; a panel uses [`Self::verdicts`].
    pub(crate) async fn probable_verdict(
        &self,
        inquiry: &Inquiry<'_>,
        item: &str,
        transcript: &mut Transcript,
    ) -> Result<Option<ItemVerdict>, Missing> {
        self.first.probable_verdict(inquiry, item, transcript).await
    }
}

/// The ballot of every judge; the default if its reply cannot be read. All calls
/// go into the transcript, also if a judge failed.
pub(super) fn collect<'a, T: Default>(
    asked: Vec<(&'a PanelMember, Transcript, Result<T, Missing>)>,
    transcript: &mut Transcript,
) -> Result<Vec<(&'a PanelMember, T)>, Missing> {
    let mut ballots = Vec::new();
    for (member, own, ballot) in asked {
        transcript.calls.extend(own.calls);
        transcript.forms.extend(own.forms);
        ballots.push((member, ballot));
    }
    let read = |(member, ballot)| match ballot {
        Ok(ballot) => Ok((member, ballot)),
        Err(Missing::JudgeUnparsable(_)) => Ok((member, T::default())),
        Err(missing) => Err(missing),
    };
    ballots.into_iter().map(read).collect()
}

/// The value that more than half of all votes have; votes without one count
/// for none.
pub(super) fn majority_value<T: PartialEq + Copy>(votes: &[Option<T>]) -> Option<T> {
    let count = |value: &T| votes.iter().flatten().filter(|other| *other == value).count();
    votes.iter().flatten().find(|value| count(value) * 2 > votes.len()).copied()
}

fn majority(given: Vec<(&PanelMember, ItemVerdict)>) -> ItemVerdict {
    let yes = majority_value(&given.iter().map(|(_, verdict)| verdict.yes).collect::<Vec<_>>());
    // A mean over some judges would be over different judges for each item.
    let probabilities: Option<Vec<f64>> = given.iter().map(|(_, verdict)| verdict.probability).collect();
    let probability = probabilities.and_then(|values| crate::statistics::mean(&values));
    let agreeing =
        |(_, verdict): &&(&PanelMember, ItemVerdict)| yes.is_some() && verdict.yes == yes && verdict.reason.is_some();
    let reason = given.iter().find(agreeing).and_then(|(_, verdict)| verdict.reason.clone());
    let votes = given.iter().map(|(member, verdict)| {
        json!({
            "judge": member.name,
            "verdict": verdict.yes,
            "probability": verdict.probability,
            "reason": verdict.reason,
        })
    });
    ItemVerdict { yes, probability, reason, votes: votes.collect() }
}

/// How often judges say the same.
#[derive(Debug, Default)]
pub(super) struct VoteCount {
    together: usize,
    votes: usize,
}

impl VoteCount {
    /// Counts the votes on one item; votes that could not be read (null) agree
    /// with none.
    pub(super) fn count<'a>(&mut self, votes: impl Iterator<Item = &'a Value>) {
        let votes: Vec<&Value> = votes.collect();
        let same = |vote: &&Value| votes.iter().filter(|other| *other == vote).count();
        self.together += votes.iter().filter(|vote| !vote.is_null()).map(same).max().unwrap_or_default();
        self.votes += votes.len();
    }

    /// The share of votes equal to the most frequent one of their item.
    pub(super) fn share(&self) -> Option<f64> {
        if self.votes == 0 { None } else { Some(self.together as f64 / self.votes as f64) }
    }
}

#[cfg(test)]
mod tests;

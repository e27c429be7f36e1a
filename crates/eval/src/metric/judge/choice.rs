//! Answers on a scale: one of a few words or numbers, or a number in a range.
//!
//! **One of a few.** Where the model offers token probabilities, the most
//! probable one is the answer, and all probabilities are kept. Else it writes a
//! reason and its choice, as JSON. Numbers have one digit, so that they differ
//! in their first token with every tokenizer. Of several judges, the choice of
//! more than half counts.
//!
//! **In a range.** Written as JSON; a number outside of the range is no
//! answer. Of several judges the median counts, if more than half of them
//! gave a number: two of them seldom write the same one.

use super::{Judge, PanelMember, Sampling, Transcript, VerdictForm, has_probabilities, panel};
use crate::{Missing, prompt, statistics::median, words};
use futures::future::join_all;
use serde_json::{Map, Value, json};

/// Tokens for a reason and a choice.
const MAX_TOKENS: u32 = 200;

/// The options of a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Options {
    /// Numbers of one digit each.
    Numbers(Vec<u8>),
    /// Words that differ at their beginning.
    Words(&'static [&'static str]),
}

/// The chosen option.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ScaleChoice {
    /// Its position among the options; none if the reply cannot be read.
    position: Option<usize>,
    /// The option itself.
    chosen: Value,
    /// The probability of each option, where the model offers them.
    probabilities: Vec<f64>,
    reason: Option<String>,
    votes: Vec<Value>,
}

/// A number in a range.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Measure {
    /// The number; none if the reply cannot be read.
    number: Option<f64>,
    reason: Option<String>,
    votes: Vec<Value>,
}

impl Options {
    fn values(&self) -> Vec<Value> {
        match self {
            Self::Numbers(numbers) => numbers.iter().map(|number| json!(number)).collect(),
            Self::Words(words) => words.iter().map(|word| json!(word)).collect(),
        }
    }

    fn names(&self) -> Vec<String> {
        match self {
            Self::Numbers(numbers) => numbers.iter().map(u8::to_string).collect(),
            Self::Words(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    /// The word for one option, and its type in a schema.
    fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Self::Numbers(_) => ("number", "integer"),
            Self::Words(_) => ("word", "string"),
        }
    }
}

impl ScaleChoice {
    /// The position of the chosen option, or why there is no score.
    pub(crate) fn complete(&self) -> Result<usize, Missing> {
        self.position.ok_or_else(|| unread(self.votes.len()))
    }

    /// For the detail of a score.
    pub(crate) fn detail(&self) -> Value {
        let mut detail = json!({ "chosen": self.chosen, "probabilities": self.probabilities, "reason": self.reason });
        if !self.votes.is_empty() {
            detail["votes"] = json!(self.votes);
        }
        detail
    }
}

impl Measure {
    /// The number, or why there is no score.
    pub(crate) fn complete(&self) -> Result<f64, Missing> {
        self.number.ok_or_else(|| unread(self.votes.len()))
    }

    /// For the detail of a score.
    pub(crate) fn detail(&self) -> Value {
        let mut detail = json!({ "number": self.number, "reason": self.reason });
        if !self.votes.is_empty() {
            detail["votes"] = json!(self.votes);
        }
        detail
    }
}

fn unread(judges: usize) -> Missing {
    Missing::JudgeUnparsable(match judges {
        0 => "nothing of the scale is in its reply".to_owned(),
        judges => format!("nothing has a majority of {judges} judges"),
    })
}

/// A vote with the name of its judge.
fn vote(member: &PanelMember, mut detail: Value) -> Value {
    detail["judge"] = json!(member.name);
    detail
}

impl Judge {
    /// One of the options, of which there are at least two. The prompt says
    /// what they mean.
    pub(crate) async fn choose(
        &self,
        purpose: &str,
        prompt: &str,
        options: &Options,
        transcript: &mut Transcript,
    ) -> Result<ScaleChoice, Missing> {
        if !self.is_panel() {
            return self.first.choose(purpose, prompt, options, transcript).await;
        }
        let asked = self.members().map(|member| async move {
            let mut own = Transcript::default();
            let ballot = member.choose(purpose, prompt, options, &mut own).await;
            (member, own, ballot)
        });
        let given: Vec<(&PanelMember, ScaleChoice)> = panel::collect(join_all(asked).await, transcript)?;
        let votes: Vec<Value> = given.iter().map(|(member, choice)| vote(member, choice.detail())).collect();
        transcript.agreement.count(votes.iter().map(|vote| &vote["chosen"]));
        let position = panel::majority_value(&given.iter().map(|(_, choice)| choice.position).collect::<Vec<_>>());
        let agreeing = given.into_iter().find(|(_, choice)| position.is_some() && choice.position == position);
        let (chosen, reason) = agreeing.map(|(_, choice)| (choice.chosen, choice.reason)).unwrap_or_default();
        Ok(ScaleChoice { position, chosen, probabilities: Vec::new(), reason, votes })
    }

    /// A number in a range, whose ends count.
    pub(crate) async fn measure(
        &self,
        purpose: &str,
        prompt: &str,
        range: (f64, f64),
        transcript: &mut Transcript,
    ) -> Result<Measure, Missing> {
        if !self.is_panel() {
            return self.first.measure(purpose, prompt, range, transcript).await;
        }
        let asked = self.members().map(|member| async move {
            let mut own = Transcript::default();
            let ballot = member.measure(purpose, prompt, range, &mut own).await;
            (member, own, ballot)
        });
        let given: Vec<(&PanelMember, Measure)> = panel::collect(join_all(asked).await, transcript)?;
        let votes: Vec<Value> = given.iter().map(|(member, measure)| vote(member, measure.detail())).collect();
        transcript.agreement.count(votes.iter().map(|vote| &vote["number"]));
        let numbers: Vec<f64> = given.iter().filter_map(|(_, measure)| measure.number).collect();
        let number = if numbers.len() * 2 > given.len() { median(numbers) } else { None };
        Ok(Measure { number, reason: None, votes })
    }
}

impl PanelMember {
    async fn choose(
        &self,
        purpose: &str,
        prompt: &str,
        options: &Options,
        transcript: &mut Transcript,
    ) -> Result<ScaleChoice, Missing> {
        let (names, values, (kind, data_type)) = (options.names(), options.values(), options.kind());
        let list = words::alternatives(&names);
        if self.record_form(transcript).await? == VerdictForm::Probability {
            let mut request = self.request(format!("{prompt} Answer with one {kind}: {list}."), 8);
            request.choices.clone_from(&names);
            let response = self.chat.chat(&request).await?;
            transcript.add(self, purpose, &request, &response);
            let probabilities = if has_probabilities(&response, values.len()) { response.choices } else { Vec::new() };
            let best = probabilities.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            // A single reply without probabilities is read as words.
            let position = best.map(|(position, _)| position).or_else(|| read_option(&response.text, &names));
            let chosen = position.and_then(|position| values.get(position).cloned()).unwrap_or_default();
            return Ok(ScaleChoice { position, chosen, probabilities, ..ScaleChoice::default() });
        }
        let choice = json!({ "type": data_type, "enum": values });
        let schema = prompt::object_schema(json!({ "reason": { "type": "string" }, "choice": choice }));
        let prompt = format!("{prompt} Give a reason in at most 25 words, then your choice, one {kind}: {list}.");
        let sampling = Sampling { max_tokens: MAX_TOKENS, temperature: 0.0, seed: 0 };
        let object = self.object(purpose, prompt, schema, sampling, transcript).await?;
        let chosen = object.get("choice").cloned().unwrap_or_default();
        let position = values.iter().position(|value| *value == chosen);
        let chosen = if position.is_some() { chosen } else { Value::Null };
        Ok(ScaleChoice { position, chosen, reason: reason(&object), ..ScaleChoice::default() })
    }

    async fn measure(
        &self,
        purpose: &str,
        prompt: &str,
        (low, high): (f64, f64),
        transcript: &mut Transcript,
    ) -> Result<Measure, Missing> {
        // Grammars cannot bound fractions, so the bounds are checked here.
        let properties = json!({ "reason": { "type": "string" }, "number": { "type": "number" } });
        let schema = prompt::object_schema(properties);
        let prompt = format!("{prompt} Give a reason in at most 25 words, then a number from {low} to {high}.");
        let sampling = Sampling { max_tokens: MAX_TOKENS, temperature: 0.0, seed: 0 };
        let object = self.object(purpose, prompt, schema, sampling, transcript).await?;
        let number = object.get("number").and_then(Value::as_f64).filter(|number| (low..=high).contains(number));
        Ok(Measure { number, reason: reason(&object), ..Measure::default() })
    }
}

/// The option that a reply begins with.
fn read_option(text: &str, names: &[String]) -> Option<usize> {
    let word: String = text.trim_start().chars().take_while(|c| c.is_alphanumeric()).collect();
    names.iter().position(|name| name.eq_ignore_ascii_case(&word))
}

fn reason(object: &Map<String, Value>) -> Option<String> {
    object.get("reason").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{FakeJudge, wait};
    use super::*;

    fn choose(judge: &Judge) -> (Result<ScaleChoice, Missing>, Value) {
        let mut transcript = Transcript::default();
        let options = Options::Numbers(vec![0, 2, 4]);
        let choice = wait(judge.choose("rating", "How good is it?", &options, &mut transcript));
        (choice, transcript.scored(Ok(1.0)).detail)
    }

    fn judges(fakes: Vec<FakeJudge>) -> Judge {
        let chats: Vec<_> = fakes.into_iter().map(FakeJudge::chat).collect();
        Judge::new(&chats[0], &chats[1..], 0.5)
    }

    #[test]
    fn the_most_probable_option_and_the_written_one_are_read() {
        let choice = choose(&judges(vec![FakeJudge::new().ratings("2")])).0.unwrap();
        assert_eq!((choice.complete(), choice.probabilities.len()), (Ok(1), 3));
        let (choice, detail) = choose(&judges(vec![FakeJudge::new().ratings("2").without_probabilities()]));
        let choice = choice.unwrap();
        assert_eq!((choice.complete(), &choice.detail()["chosen"]), (Ok(1), &json!(2)));
        assert!(detail.get("agreement").is_none(), "one judge agrees with nobody");
    }

    #[test]
    fn words_are_chosen_as_numbers_are() {
        for fake in [FakeJudge::new(), FakeJudge::new().without_probabilities()] {
            let judge = judges(vec![fake.verdicts("0")]);
            let options = Options::Words(&["Yes", "No"]);
            let choice = wait(judge.choose("verdict", "So?", &options, &mut Transcript::default())).unwrap();
            assert_eq!((choice.complete(), &choice.chosen), (Ok(1), &json!("No")));
        }
    }

    #[test]
    fn what_is_not_on_the_scale_is_no_answer() {
        for reply in [r#"{"reason": "so", "choice": 3}"#, r#"{"reason": "so", "choice": 2.5}"#, r#"{"reason": "so"}"#] {
            let judge = judges(vec![FakeJudge::new().replies(&[reply]).without_probabilities()]);
            let chosen = choose(&judge).0.and_then(|choice| choice.complete());
            assert!(matches!(chosen, Err(Missing::JudgeUnparsable(_))), "{reply}");
        }
    }

    #[test]
    fn more_than_half_of_all_judges_decide() {
        let panel = |ratings: &[&str]| judges(ratings.iter().map(|rating| FakeJudge::new().ratings(rating)).collect());
        let (choice, detail) = choose(&panel(&["4", "2", "4"]));
        let choice = choice.unwrap();
        assert_eq!((choice.complete(), choice.votes.len()), (Ok(2), 3));
        assert!((detail["agreement"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(detail["transcript"].as_array().map(Vec::len), Some(3));
        for divided in [&["0", "2", "4"][..], &["0", "4"]] {
            let choice = choose(&panel(divided)).0.unwrap();
            assert!(matches!(choice.complete(), Err(Missing::JudgeUnparsable(_))), "{divided:?}");
        }
    }

    #[test]
    fn numbers_outside_of_the_range_are_no_answer_and_the_median_of_judges_counts() {
        let measure = |replies: &[&str]| {
            let replies: Vec<String> =
                replies.iter().map(|number| format!(r#"{{"reason": "so", "number": {number}}}"#)).collect();
            let judge = judges(replies.iter().map(|reply| FakeJudge::new().replies(&[reply])).collect());
            wait(judge.measure("degree", "How?", (0.0, 1.0), &mut Transcript::default())).unwrap().number
        };
        assert_eq!(measure(&["0.25"]), Some(0.25));
        assert_eq!(measure(&["1.01"]), None);
        assert_eq!(measure(&["0.5", "0.1", "0.9"]), Some(0.5));
        assert_eq!(measure(&["0.5", "0.1", "7"]), Some(0.3));
        assert_eq!(measure(&["0.5", "6", "7"]), None);
    }

    #[test]
    fn scales_are_written_as_people_do() {
        assert_eq!(words::alternatives(&Options::Numbers(vec![0, 2, 4]).names()), "0, 2 or 4");
        assert_eq!(words::alternatives(&Options::Words(&["Yes", "No"]).names()), "Yes or No");
    }
}

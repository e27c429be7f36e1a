//! `join`: in a conversation, what the user said before stands before the
//! question in the search.
//!
//! It is free, and enough where people stay with their subject: "And how much
//! is it?" is searched together with "Is the mill for sale?". Where they
//! change it, the old subject is searched as well; `condense` then finds more,
//! for a call. A question without history is searched as it was asked, so it
//! makes no difference to golden questions that stand alone.
//! Source: the concatenation baseline of conversational search, as in Dalton
//! et al., TREC CAsT 2019.

use super::{QueryWriter, WrittenQueries};
use crate::{
    Component, Context, Error,
    component::{ensure, settings},
};
use async_trait::async_trait;
use models::{Message, Role};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "query join";

settings! {
    /// Settings of `join`.
    pub struct Config {
        /// How many earlier turns of the user stand before the question, the
        /// latest ones. Default 3.
        pub turns: usize = 3,
    }
}

impl Component for Config {
    fn rewrites_question(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn QueryWriter>, Error> {
        ensure(NAME, self.turns > 0, "turns must be at least 1; `none` searches the question alone")?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl QueryWriter for Config {
    async fn write(&self, question: &str, history: &[Message]) -> Result<WrittenQueries, Error> {
        let of_user = |message: &&Message| message.role == Role::User && !message.content.trim().is_empty();
        let turns: Vec<&str> = history.iter().filter(of_user).map(|message| message.content.trim()).collect();
        if turns.is_empty() {
            return Ok(WrittenQueries::of(vec![question.into()]));
        }
        let latest = &turns[turns.len().saturating_sub(self.turns)..];
        Ok(WrittenQueries::of(vec![format!("{}\n{}", latest.join("\n"), question.trim()).into()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_latest_turns_of_the_user_stand_before_the_question() {
        let history = [Message::user("Hello."), Message::user(" Is the mill for sale? "), Message::assistant("It is.")];
        let written = async |turns, history: &[Message]| {
            Config { turns }.build(&Context::default()).unwrap().write("How much?", history).await.unwrap()
        };
        assert_eq!(written(1, &history).await, WrittenQueries::of(vec!["Is the mill for sale?\nHow much?".into()]));
        assert_eq!(
            written(9, &history).await,
            WrittenQueries::of(vec!["Hello.\nIs the mill for sale?\nHow much?".into()])
        );
        assert_eq!(written(1, &history[2..]).await, WrittenQueries::of(vec!["How much?".into()]));
    }

    #[test]
    fn no_turns_are_refused() {
        assert!(Config { turns: 0 }.build(&Context::default()).err().unwrap().to_string().contains("`none`"));
    }
}

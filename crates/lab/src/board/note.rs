//! A remark of a leaderboard.

use serde::{Deserialize, Serialize};

/// One remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its topic, so that a renderer can leave it out, group it with others, or
    /// add what its reader can do.
    pub about: About,
    /// The trial, file, judge or model that it speaks of.
    pub subject: Option<String>,
    /// The remark, without a full stop.
    pub text: String,
}

/// What a note is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// How much better the winner looks on the questions that chose it.
    Gap,
    /// Trials that cannot be told apart.
    Groups,
    /// Trials that no other beats on quality, cost and latency together.
    Front,
    /// How trials do at one turn of conversations.
    Turns,
    /// The steps at which the first trial lost golden evidence.
    Losses,
    /// What an approximate index costs, compared with an exact search.
    Approximation,
    /// What a search asked for, and how trials were stopped.
    Search,
    /// What a person did to the run while it went on.
    Steering,
    /// How a judge did on labelled cases.
    Judge,
    /// A judge that nobody tried on labelled cases.
    UntriedJudge,
    /// A task that failed.
    Failure,
    /// Questions for which a component wrote no queries, or fewer; chunks that were not enriched;
    /// texts that a model did not read to the end.
    Queries,
    /// Calls whose price is not known.
    Price,
    /// Missing answers and verdicts.
    Missing,
    /// A file that could not be read; the text begins with its path.
    Unread,
    /// Questions that were left out because of such files.
    LeftOut,
    /// What is missing because user functions failed.
    Functions,
    /// What this run did itself.
    Work,
    /// What calls to a model cost.
    Spending,
    /// What was used of the budget.
    Budget,
    /// Damaged entries of the journal.
    Journal,
}

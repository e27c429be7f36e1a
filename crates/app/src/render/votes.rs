//! Which answers people prefer.

use super::{counted, left, number, number_or_dash, p_value, table};
use eval::statistics::{Interval, Preference};
use lab::{PairVotes, VoteStanding};

/// Instead of a number that means nothing.
const TOO_FEW: &str = "too few votes to tell";
/// Below this p-value, a difference is called real.
const LEVEL: f64 = 0.05;

/// The trials and pairs with votes, how far people agree, and whether a side of the page has an advantage.
pub fn votes(standing: &VoteStanding) -> String {
    if standing.votes == 0 {
        return format!(
            "nobody has voted on answers of this run; {} is the file of the votes, and `reverie ui` has the page for it",
            standing.log
        );
    }
    let people: Vec<String> = standing.people.iter().map(|(name, votes)| format!("{name} {votes}")).collect();
    let mut text = format!(
        "{} on {} by {}",
        counted(standing.votes, "vote"),
        counted(standing.questions, "question"),
        people.join(", ")
    );
    if standing.skipped > 0 {
        text += &format!("; {} skipped", standing.skipped);
    }
    if standing.equal > 0 {
        text += &format!("\n{} of answers with the same text left out", counted(standing.equal, "pair"));
    }
    format!("{text}\n{}\n{}\n{}\n{}", trials(standing), pairs(&standing.pairs), agreement(standing), side(standing))
}

fn trials(standing: &VoteStanding) -> String {
    let header = ["trial", "preferred", "votes", "won", "lost", "both good", "both bad", "questions", "people"];
    let mut table = table(&header, 2);
    for trial in &standing.trials {
        let counts = [trial.preference.votes, trial.won, trial.lost, trial.both_good, trial.both_bad];
        let mut cells = vec![trial.trial.clone(), share(&trial.preference)];
        cells.extend(counts.into_iter().chain([trial.preference.questions, trial.people]).map(|n| n.to_string()));
        table.add_row(cells);
    }
    table.to_string()
}

fn pairs(pairs: &[PairVotes]) -> String {
    let mut table = table(&["pair", "first is preferred", "", "p", "votes", "questions", "same text"], 3);
    for pair in pairs {
        table.add_row([
            left(format!("{} / {}", pair.first, pair.second)),
            left(share(&pair.preference)),
            left(verdict(pair)),
            p_value(pair.p_value).into(),
            pair.preference.votes.into(),
            pair.preference.questions.into(),
            pair.equal.into(),
        ]);
    }
    table.to_string()
}

/// A share with its interval: `0.71 [0.58, 0.82]`.
fn share(preference: &Preference) -> String {
    match preference.share {
        None => TOO_FEW.to_owned(),
        Some(share) => format!("{}{}", number(share, 2), interval(preference.interval)),
    }
}

fn interval(interval: Option<Interval>) -> String {
    interval.map(|ends| format!(" [{}, {}]", number(ends.low, 2), number(ends.high, 2))).unwrap_or_default()
}

fn verdict(pair: &PairVotes) -> String {
    match (pair.differs, pair.preference.share) {
        (Some(true), Some(share)) => {
            format!("{} is preferred", if share > 0.5 { &pair.first } else { &pair.second })
        }
        (Some(_), _) => "no difference shown".to_owned(),
        (None, _) => String::new(),
    }
}

fn agreement(standing: &VoteStanding) -> String {
    let compared = counted(standing.compared, "pair");
    match &standing.agreement {
        None => format!("agreement of people: {TOO_FEW} ({compared} of votes on the same answers)"),
        Some(found) => format!(
            "agreement of people: {} over {compared} of votes on the same answers, Cohen's kappa {}{}",
            number(found.observed, 2),
            number_or_dash(found.kappa, 2),
            interval(found.interval)
        ),
    }
}

fn side(standing: &VoteStanding) -> String {
    let side = &standing.side;
    match (side.share, side.p_value) {
        (Some(share), Some(p)) => {
            let said = if p >= LEVEL {
                "no side has an advantage that shows"
            } else if share > 0.5 {
                "people prefer the left side"
            } else {
                "people prefer the right side"
            };
            format!(
                "left won {}{} of {}: {said}",
                number(share, 2),
                interval(side.interval),
                counted(side.votes, "vote")
            )
        }
        _ => format!("advantage of a side: {TOO_FEW}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{SideBias, TrialVotes};

    fn standing(share: Option<f64>) -> VoteStanding {
        let preference = Preference {
            votes: 24,
            questions: 12,
            share,
            interval: share.map(|x| Interval { low: x - 0.1, high: x + 0.1 }),
        };
        let p_value = share.map(|_| 0.004);
        VoteStanding {
            run: "zoo-1".to_owned(),
            log: "votes.jsonl".to_owned(),
            votes: 24,
            skipped: 2,
            questions: 12,
            equal: 1,
            people: [("Ann".to_owned(), 24)].into(),
            fewest_questions: 10,
            trials: vec![TrialVotes {
                trial: "t02".to_owned(),
                people: 1,
                won: 6,
                lost: 14,
                both_good: 3,
                both_bad: 1,
                preference: preference.clone(),
            }],
            pairs: vec![PairVotes {
                first: "t02".to_owned(),
                second: "t05".to_owned(),
                equal: 1,
                preference,
                p_value,
                differs: share.map(|_| true),
            }],
            compared: 0,
            agreement: None,
            side: SideBias {
                votes: 20,
                questions: 12,
                share: share.map(|_| 0.5),
                interval: None,
                p_value: share.map(|_| 0.9),
            },
        }
    }

    #[test]
    fn the_preferred_trial_is_named_with_the_interval_of_its_share() {
        let told = votes(&standing(Some(0.3)));
        for wanted in [
            "24 votes on 12 questions by Ann 24; 2 skipped",
            "1 pair of answers with the same text left out",
            "0.30 [0.20, 0.40]",
            "t05 is preferred",
            "0.004",
            "left won 0.50 of 20 votes: no side has an advantage that shows",
        ] {
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
    }

    #[test]
    fn too_few_votes_are_said_to_be_too_few() {
        let told = votes(&standing(None));
        assert_eq!(told.matches(TOO_FEW).count(), 4, "trial, pair, agreement and side: {told}");
        let nobody = votes(&VoteStanding { votes: 0, ..standing(None) });
        assert!(nobody.starts_with("nobody has voted") && nobody.contains("votes.jsonl"), "{nobody}");
    }
}

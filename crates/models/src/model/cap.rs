//! What a budget limits: money, tokens, calls or time.

use serde::{Deserialize, Serialize};

/// One of the caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// Money.
    Usd,
    /// Tokens.
    Tokens,
    /// Calls.
    Calls,
    /// Time.
    Minutes,
}

impl Cap {
    /// An amount in this cap's unit, for people: `$0.50`, `1,000 tokens`.
    pub fn amount(self, amount: f64) -> String {
        match self {
            Self::Usd => {
                // Digits below a cent are shown only if they are not zero.
                let text = format!("{amount:.4}");
                format!("${}", text.strip_suffix("00").unwrap_or(&text))
            }
            Self::Tokens => format!("{} tokens", grouped(amount as u64)),
            Self::Calls => format!("{} calls", grouped(amount as u64)),
            Self::Minutes => format!("{} minutes", (amount * 10.0).round() / 10.0),
        }
    }
}

/// A number with a comma after every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What a call is told that a cap kept from being made. If it is a cap over all starts, `earlier` is the part of
/// `spent` that other starts have spent.
pub(super) fn budget_reached(cap: Cap, spent: f64, limit: f64, earlier: Option<f64>) -> String {
    let [limit, all] = [limit, spent].map(|amount| cap.amount(amount));
    match earlier {
        None => format!(
            "the budget of {limit} was reached ({all} spent); run again with a larger one to go on: nothing is paid twice"
        ),
        Some(earlier) => format!(
            "the total budget of {limit} for all starts of this experiment was reached ({} spent by other starts, {} by \
             this one); raise `total` of the budget to go on: nothing is paid twice",
            cap.amount(earlier),
            cap.amount((spent - earlier).max(0.0))
        ),
    }
}

//! The values of options: text of the command line becomes numbers, durations and names.

use eval::QuestionKind;
use rag::Axis;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    num::NonZeroUsize,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Why the value of an option is refused, with what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// A value that does not have this form.
    #[error("write {0}")]
    Form(&'static str),
    /// An amount of money.
    #[error("`{0}` is no amount of dollars: write a number that is not below 0, such as 2.50")]
    Dollars(String),
    /// An age.
    #[error("`{0}` is no age: write a number with s, m, h, d or w, such as 90d")]
    Age(String),
    /// A kind of question without its share.
    #[error("`{0}` is no share: write multi_hop=0.3")]
    KindShare(String),
    /// A share that is not a number.
    #[error("`{0}` is no number")]
    Number(String),
    /// An axis that is not one of the space, or an axis without a value.
    #[error("write AXIS=VALUE, with an axis of [space]: {}", Axis::NAMES.join(", "))]
    Axis,
    /// A name that is not in a list, or a value that is not TOML: the parser's message.
    #[error("{0}")]
    Parser(String),
}

/// Parses an amount of dollars.
pub fn parse_dollars(text: &str) -> Result<f64, InvalidValue> {
    let amount = text.trim_start_matches('$').parse().ok().filter(|usd: &f64| usd.is_finite() && *usd >= 0.0);
    amount.ok_or_else(|| InvalidValue::Dollars(text.to_owned()))
}

/// Parses an age: `90d`, `2w`, `12h`, `30m`, `45s`.
pub fn parse_age(text: &str) -> Result<Duration, InvalidValue> {
    let wrong = || InvalidValue::Age(text.to_owned());
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// The time before which something is older than this age, in milliseconds since 1970.
pub fn unix_ms_before(age: Duration) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(i64::MAX)
}

/// Parses a count that is at least 1.
pub fn parse_at_least_one(text: &str) -> Result<NonZeroUsize, InvalidValue> {
    text.parse().map_err(|_| InvalidValue::Form("a whole number that is at least 1"))
}

/// Parses the number of files of a sample.
pub fn parse_sampled_files(text: &str) -> Result<usize, InvalidValue> {
    let files = text.parse().ok().filter(|files| *files >= lab::FEWEST_SAMPLED_FILES);
    files.ok_or(InvalidValue::Form("a whole number that is at least 10"))
}

/// Parses a share: 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, InvalidValue> {
    parse_number(text, |share| (0.0..=1.0).contains(&share), "a number from 0 to 1")
}

/// Parses a tolerated loss as a share: 0 to below 1.
pub fn parse_margin(text: &str) -> Result<f64, InvalidValue> {
    parse_number(text, |share| (0.0..1.0).contains(&share), "a number from 0 to below 1, such as 0.02")
}

/// Parses a similarity: above 0, at most 1.
pub fn parse_similarity(text: &str) -> Result<f64, InvalidValue> {
    parse_number(text, |share| share > 0.0 && share <= 1.0, "a number above 0, and at most 1")
}

/// Parses a duration above 0, in seconds.
pub fn parse_seconds(text: &str) -> Result<Duration, InvalidValue> {
    parse_duration(text, |seconds| seconds > 0.0, "a number of seconds above 0")
}

/// Parses a duration that may be 0, in seconds.
pub fn parse_seconds_or_zero(text: &str) -> Result<Duration, InvalidValue> {
    parse_duration(text, |seconds| seconds >= 0.0, "a number of seconds, 0 or more")
}

fn parse_duration(text: &str, is_allowed: fn(f64) -> bool, form: &'static str) -> Result<Duration, InvalidValue> {
    Duration::try_from_secs_f64(parse_number(text, is_allowed, form)?).map_err(|_| InvalidValue::Form(form))
}

fn parse_number(text: &str, is_allowed: fn(f64) -> bool, form: &'static str) -> Result<f64, InvalidValue> {
    text.parse().ok().filter(|number| is_allowed(*number)).ok_or(InvalidValue::Form(form))
}

/// Parses the name of an enum's variant, as files have it.
pub fn parse_name<T: DeserializeOwned + Clone + Send + Sync + 'static>(text: &str) -> Result<T, InvalidValue> {
    serde_json::from_value(json!(text)).map_err(|error| InvalidValue::Parser(error.to_string()))
}

/// Parses a kind of question with its share: `multi_hop=0.3`.
pub fn parse_kind_share(text: &str) -> Result<(QuestionKind, f64), InvalidValue> {
    let (kind, share) = text.split_once('=').ok_or_else(|| InvalidValue::KindShare(text.to_owned()))?;
    let share = share.parse().map_err(|_| InvalidValue::Number(share.to_owned()))?;
    Ok((parse_name(kind)?, share))
}

/// Parses a value on an axis of the space, in TOML: `generator={ compact = { model = "gpt" } }`.
pub fn parse_axis_value(text: &str) -> Result<(Axis, Value), InvalidValue> {
    let (name, value) = text.split_once('=').ok_or(InvalidValue::Axis)?;
    let axis = Axis::ALL.iter().find(|axis| axis.name() == name.trim()).ok_or(InvalidValue::Axis)?;
    let value = lab::Experiment::parse_value(value).map_err(|error| InvalidValue::Parser(error.to_string()))?;
    Ok((*axis, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_number_and_a_unit() {
        assert_eq!(parse_age("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_age("2w"), parse_age("14d"));
        for text in ["", "d", "9", "9y", "-1d", "1.5d", "99999999999999999999w", "9ä"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_sample_has_at_least_ten_files() {
        assert_eq!((parse_sampled_files("10"), parse_sampled_files("200")), (Ok(10), Ok(200)));
        assert!(["9", "0", "-1", "many", ""].into_iter().all(|text| parse_sampled_files(text).is_err()));
    }

    #[test]
    fn a_margin_is_a_share() {
        assert_eq!((parse_margin("0"), parse_margin("0.02")), (Ok(0.0), Ok(0.02)));
        assert!(["-0.1", "1", "2 %", "NaN", ""].into_iter().all(|text| parse_margin(text).is_err()));
    }

    #[test]
    fn a_duration_is_a_number_of_seconds() {
        assert_eq!(
            (parse_seconds("0.5"), parse_seconds_or_zero("0")),
            (Ok(Duration::from_millis(500)), Ok(Duration::ZERO))
        );
        assert!(["0", "-1", "NaN", "inf", "1e300", "5s"].into_iter().all(|text| parse_seconds(text).is_err()));
        assert!(["-1", "NaN", "inf"].into_iter().all(|text| parse_seconds_or_zero(text).is_err()));
    }

    #[test]
    fn an_axis_value_is_toml_and_its_axis_is_one_of_the_space() {
        assert_eq!(parse_axis_value("embedder=\"tiny\"").unwrap(), (Axis::Embedder, json!("tiny")));
        let (axis, value) = parse_axis_value("generator = [{ compact = { model = \"gpt\" } }, \"refine\"]").unwrap();
        assert_eq!((axis, value), (Axis::Generator, json!([{ "compact": { "model": "gpt" } }, "refine"])));
        assert!(parse_axis_value("generatr=\"compact\"").unwrap_err().to_string().contains("generator"));
        assert!(parse_axis_value("generator").is_err() && parse_axis_value("generator=[").is_err());
    }
}

//! Reads a provider's limits from the headers of an answer: how much is
//! allowed, how much of it is left, and when all of it is available again.
//!
//! Read from every answer, refusals too. Sources: OpenAI's and Azure's
//! `x-ratelimit-*`, Mistral's `x-ratelimit-*-minute`, Anthropic's
//! `anthropic-ratelimit-*`, and `retry-after` of HTTP with the
//! `retry-after-ms` of OpenAI and Azure.

use chrono::DateTime;
use executor::{RateHint, RateHints};
use reqwest::header::HeaderMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// The longest wait, in seconds: a year. Longer waits are cut to it, so that
/// sums stay in range.
const LONGEST: f64 = 365.0 * 86_400.0;
/// No limit is larger.
const LARGEST: f64 = 1e15;

/// The limits that the headers of an answer announce, if they do; `sent` is when its call was sent.
pub(super) fn read(headers: &HeaderMap, sent: Instant) -> Option<RateHints> {
    let hint = |openai: &str, anthropic: &[&str], mistral: &str| {
        let texts = |what: &str| {
            let anthropic = anthropic.iter().map(|kind| format!("anthropic-ratelimit-{kind}-{what}"));
            let others = [format!("x-ratelimit-{what}-{openai}"), format!("x-ratelimit-{what}-{mistral}-minute")];
            let names: Vec<String> = others.into_iter().chain(anthropic).collect();
            names.into_iter().filter_map(|name| text(headers, &name))
        };
        RateHint {
            per_minute: texts("limit").find_map(count),
            remaining: texts("remaining").find_map(count),
            reset: texts("reset").find_map(|value| reset(headers, value)),
        }
    };
    let requests = hint("requests", &["requests"], "req");
    // If tokens read and tokens written have separate limits, the limit on
    // tokens read is reached first.
    let tokens = hint("tokens", &["tokens", "input-tokens"], "tokens");
    let hints = RateHints { sent, requests, tokens };
    Some(hints).filter(|hints| *hints != RateHints::new(sent))
}

/// The wait that the provider asks for: milliseconds, seconds, or a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    if let Some(milliseconds) = text(headers, "retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return wait(milliseconds / 1000.0);
    }
    let value = text(headers, "retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return wait(seconds);
    }
    let date = httpdate::parse_http_date(value).ok()?;
    wait(date.duration_since(now(headers)).unwrap_or_default().as_secs_f64())
}

/// A wait, of at most a year; none if the number is negative or no number.
pub(super) fn wait(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(LONGEST)))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

/// The time by the provider's clock, if it sends one.
fn now(headers: &HeaderMap) -> SystemTime {
    text(headers, "date").and_then(|now| httpdate::parse_http_date(now).ok()).unwrap_or_else(SystemTime::now)
}

fn count(value: &str) -> Option<f64> {
    value.parse::<f64>().ok().filter(|number| (0.0..=LARGEST).contains(number))
}

/// A time to wait: `6m0s`, plain seconds, or a point in time.
fn reset(headers: &HeaderMap, value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.parse::<f64>() {
        return wait(seconds);
    }
    duration(value).or_else(|| {
        let seconds = date_time(value)?;
        let now = now(headers).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        wait((seconds - now).max(0.0))
    })
}

/// A duration as Go writes it: numbers, each with a unit. By hand, because the crates that read durations refuse
/// fractions such as `2m59.56s`.
fn duration(value: &str) -> Option<Duration> {
    let mut seconds = 0.0;
    let mut rest = value;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let scale = match unit {
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * scale;
        rest = after;
    }
    wait(seconds).filter(|_| !value.is_empty())
}

/// A point in time as RFC 3339 writes it, in seconds since 1970.
fn date_time(value: &str) -> Option<f64> {
    let at = DateTime::parse_from_rfc3339(value).ok()?;
    Some(at.timestamp() as f64 + f64::from(at.timestamp_subsec_nanos()) / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    type Headers = &'static [(&'static str, &'static str)];

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn read(headers: HeaderMap) -> Option<(RateHint, RateHint)> {
        super::read(&headers, Instant::now()).map(|hints| (hints.requests, hints.tokens))
    }

    fn seconds(seconds: f64) -> Option<Duration> {
        Some(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn the_wish_to_come_back_later_is_read_in_each_form() {
        let cases: [(Headers, Option<Duration>); 12] = [
            (&[("retry-after", "7")], seconds(7.0)),
            (&[("retry-after", " 1.5 ")], seconds(1.5)),
            (&[("retry-after", "9"), ("retry-after-ms", "250")], seconds(0.25)),
            (
                &[("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")],
                seconds(30.0),
            ),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-3")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "10000000000000000000")], seconds(LONGEST)),
            (&[("retry-after", "100000000000000000000")], seconds(LONGEST)),
            (&[("retry-after", "1e999")], seconds(LONGEST)),
            (&[("retry-after-ms", "1e300")], seconds(LONGEST)),
            (&[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")], seconds(LONGEST)),
        ];
        for (pairs, expected) in cases {
            assert_eq!(retry_after(&headers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn openai_tells_limits_with_durations() {
        let announced = read(headers(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ]));
        let expected = Some((
            RateHint { per_minute: Some(60.0), remaining: Some(59.0), reset: seconds(1.0) },
            RateHint { per_minute: Some(150_000.0), remaining: Some(149_984.0), reset: seconds(360.0) },
        ));
        assert_eq!(announced, expected);
    }

    #[test]
    fn mistral_tells_limits_of_the_minute() {
        let announced = read(headers(&[
            ("x-ratelimit-limit-req-minute", "60"),
            ("x-ratelimit-remaining-req-minute", "59"),
            ("x-ratelimit-limit-tokens-minute", "50000"),
            ("x-ratelimit-remaining-tokens-minute", "47196"),
            ("x-ratelimit-limit-tokens-month", "4000000"),
        ]));
        let expected = Some((
            RateHint { per_minute: Some(60.0), remaining: Some(59.0), ..RateHint::default() },
            RateHint { per_minute: Some(50_000.0), remaining: Some(47_196.0), ..RateHint::default() },
        ));
        assert_eq!(announced, expected);
    }

    #[test]
    fn anthropic_tells_limits_with_points_in_time() {
        let announced = read(headers(&[
            ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:07Z"),
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-input-tokens-remaining", "39000"),
            ("anthropic-ratelimit-input-tokens-reset", "2025-12-31T23:59:00Z"),
        ]));
        let expected = Some((
            RateHint { per_minute: Some(50.0), remaining: Some(0.0), reset: seconds(7.0) },
            RateHint { per_minute: Some(40_000.0), remaining: Some(39_000.0), reset: Some(Duration::ZERO) },
        ));
        assert_eq!(announced, expected);
    }

    #[test]
    fn durations_are_read_in_each_form() {
        let cases = [
            ("6m0s", 360.0),
            ("1s", 1.0),
            ("250ms", 0.25),
            ("1.5s", 1.5),
            ("2m59.56s", 179.56),
            ("1h2m3s", 3723.0),
            ("1d", 86_400.0),
            ("17µs", 17e-6),
        ];
        for (text, expected) in cases {
            let read = duration(text).expect(text).as_secs_f64();
            assert!((read - expected).abs() < 1e-9, "{text}: {read}");
        }
        for text in ["", "s", "5", "5 s", "1y", "-1s", "soon", "1.2.3s"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(reset(&HeaderMap::new(), "12"), seconds(12.0), "plain seconds, as Azure has them");
    }

    #[test]
    fn points_in_time_are_read_with_fractions_and_zones() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2000-02-29T12:00:00.250Z", 951_825_600.25),
            ("2026-01-01T01:30:00+01:30", 1_767_225_600.0),
            ("2025-12-31T19:00:00-05:00", 1_767_225_600.0),
        ];
        for (text, expected) in cases {
            assert_eq!(date_time(text), Some(expected), "{text}");
        }
        for text in ["", "2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z", "2026-01-01T00:00:00", "T:Z"] {
            assert_eq!(date_time(text), None, "{text}");
        }
    }

    #[test]
    fn points_in_time_beyond_all_calendars_are_none() {
        let cases = [
            "99999999999-01-01T00:00:00Z",
            "9223372036854775807-12-31T23:59:59Z",
            "-9223372036854775808-01-01T00:00:00Z",
            "2026-9223372036854775807-01T00:00:00Z",
            "2026-01-01T9223372036854775807:00:00Z",
            "2026-01-01T00:-9223372036854775808:00Z",
            "2026-01-01T00:00:00+9223372036854775807:00",
            "2026-01-01T00:00:1e308Z",
        ];
        for text in cases {
            assert_eq!(date_time(text), None, "{text}");
            assert_eq!(reset(&HeaderMap::new(), text), None, "{text}");
        }
        assert_eq!(reset(&HeaderMap::new(), "9999-12-31T23:59:59Z"), seconds(LONGEST));
        assert_eq!(reset(&HeaderMap::new(), "99999999999999999999d"), seconds(LONGEST));
        assert_eq!(reset(&HeaderMap::new(), "1e30"), seconds(LONGEST));
    }

    #[test]
    fn headers_that_say_nothing_or_nonsense_give_no_hints() {
        assert_eq!(read(HeaderMap::new()), None);
        let nonsense = headers(&[
            ("x-ratelimit-limit-requests", "many"),
            ("x-ratelimit-remaining-requests", "-1"),
            ("x-ratelimit-limit-tokens", "inf"),
            ("x-ratelimit-reset-tokens", "soon"),
        ]);
        assert_eq!(read(nonsense), None);
    }

    #[test]
    fn whatever_headers_say_a_wait_is_at_most_a_year_and_a_limit_a_number() {
        const NAMES: [&str; 7] = [
            "date",
            "retry-after",
            "retry-after-ms",
            "x-ratelimit-limit-requests",
            "x-ratelimit-reset-requests",
            "anthropic-ratelimit-tokens-remaining",
            "anthropic-ratelimit-tokens-reset",
        ];
        // A line for each header, in that order.
        let seeds: [&[u8]; 2] = [
            b"Sun, 06 Nov 1994 08:49:37 GMT\n1.5\n250\n100\n6m0.5s\n0\n2026-01-27T12:00:30.5+01:30",
            b"Mon, 01 Jan 1970 00:00:00 GMT\nFri, 31 Dec 9999 23:59:59 GMT\n-1\n1e999\n1d2h3ms\nNaN\n9999-12-31T23:59:60Z",
        ];
        let words: [&[u8]; 12] =
            [b"\n", b"-", b"+", b":", b"T", b"Z", b"e308", b"inf", b"NaN", b"h", b"9223372036854775808", b"\xc2\xb5s"];
        fuzz::run("rate-headers", &seeds, &words, |bytes| {
            let lines = bytes.split(|byte| *byte == b'\n').map(HeaderValue::from_bytes);
            let headers: HeaderMap = NAMES
                .iter()
                .zip(lines)
                .filter_map(|(name, value)| Some((HeaderName::from_static(name), value.ok()?)))
                .collect();
            let waited = retry_after(&headers);
            let (requests, tokens) = read(headers).unwrap_or_default();
            for wait in [waited, requests.reset, tokens.reset].into_iter().flatten() {
                assert!(wait.as_secs_f64() <= LONGEST, "{wait:?}");
            }
            for number in [requests.per_minute, tokens.remaining].into_iter().flatten() {
                assert!((0.0..=LARGEST).contains(&number), "{number}");
            }
        });
    }
}

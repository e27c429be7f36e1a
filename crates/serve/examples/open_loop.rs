//! Open-loop load on a service: requests leave at their times, whether earlier
//! ones were answered or not, so that a slow service cannot slow its own test
//! down (G. Tene, "coordinated omission"). Latency counts from when a request
//! should have left.
//!
//! `open_loop URL RATE SECONDS [BODY]` sends GETs, or POSTs of the JSON file BODY.
//! `{n}` in the URL or body becomes the request's number. Prints one line of
//! JSON. With `REVERIE_KEY` it sends that key.

use reqwest::{Client, Method};
use serde_json::json;
use std::{
    collections::BTreeMap,
    error::Error,
    io::Write,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

#[derive(Default)]
struct Seen {
    /// In seconds; of answers with status 200.
    latencies: Vec<f64>,
    first_bytes: Vec<f64>,
    others: BTreeMap<String, usize>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, rate, seconds, body @ ..] = arguments.as_slice() else {
        return Err("usage: open_loop URL RATE SECONDS [BODY]".into());
    };
    let (rate, seconds): (f64, f64) = (rate.parse()?, seconds.parse()?);
    let body = body.first().map(std::fs::read_to_string).transpose()?;
    let client = store::http_client().pool_max_idle_per_host(2048).timeout(Duration::from_secs(60)).build()?;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let key = std::env::var("REVERIE_KEY").ok();
    let total = (rate * seconds) as usize;
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..total {
        let due = start + Duration::from_secs_f64(n as f64 / rate);
        tokio::time::sleep_until(due.into()).await;
        let (client, seen, key) = (client.clone(), seen.clone(), key.clone());
        let url = url.replace("{n}", &n.to_string());
        let body = body.as_ref().map(|body| body.replace("{n}", &n.to_string()));
        tasks.spawn(async move {
            let outcome = one(&client, &url, body, key.as_deref()).await;
            let took = due.elapsed().as_secs_f64();
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok((200, first)) => {
                    seen.latencies.push(took);
                    seen.first_bytes.push(first.saturating_duration_since(due).as_secs_f64());
                }
                Ok((status, _)) => *seen.others.entry(status.to_string()).or_default() += 1,
                Err(error) => *seen.others.entry(error).or_default() += 1,
            }
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    let took = start.elapsed().as_secs_f64();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let latencies = quantiles(&mut seen.latencies);
    let first = quantiles(&mut seen.first_bytes);
    let told = json!({
        "sent": total, "ok": seen.latencies.len(), "others": seen.others, "wanted_per_s": rate,
        "ok_per_s": seen.latencies.len() as f64 / took, "ms": latencies, "first_byte_ms": first,
    });
    writeln!(std::io::stdout(), "{told}")?;
    Ok(())
}

/// One request: its status, and when its first byte came.
async fn one(client: &Client, url: &str, body: Option<String>, key: Option<&str>) -> Result<(u16, Instant), String> {
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let mut request = client.request(method, url);
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body);
    }
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    let kind = |error: reqwest::Error| {
        if error.is_timeout() {
            "timeout"
        } else if error.is_connect() {
            "not connected"
        } else {
            "broken off"
        }
        .to_owned()
    };
    let mut response = request.send().await.map_err(kind)?;
    let first = Instant::now();
    while response.chunk().await.map_err(kind)?.is_some() {}
    Ok((response.status().as_u16(), first))
}

/// Median, 99 % and 99.9 % in milliseconds.
fn quantiles(seconds: &mut [f64]) -> serde_json::Value {
    seconds.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = ((seconds.len() as f64 * share).ceil() as usize).clamp(1, seconds.len().max(1)) - 1;
        seconds.get(index).map(|seconds| (seconds * 1e6).round() / 1e3)
    };
    json!({ "p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999) })
}

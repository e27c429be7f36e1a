//! How a run is doing, for any number of pages: its store is read once for all of them.

use lab::{LiveRun, Session, live_run};
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// How often a store is asked whether a run has written something new.
const PAUSE: Duration = Duration::from_millis(500);

/// The news of a run: a whole [`LiveRun`] as JSON; none as long as nothing is known.
pub(crate) type News = Option<Arc<str>>;

/// The runs that pages are watching.
#[derive(Default)]
pub(crate) struct LiveRuns {
    watched: Arc<Mutex<HashMap<String, watch::Sender<News>>>>,
}

impl LiveRuns {
    /// The news of a run. Its store is read as long as somebody listens.
    pub(crate) fn watch(&self, session: &Arc<Session>, run: &str) -> watch::Receiver<News> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = watched.get(run) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(None);
        watched.insert(run.to_owned(), sender);
        let (session, run, all) = (session.clone(), run.to_owned(), self.watched.clone());
        tokio::spawn(async move {
            let mut last: Option<LiveRun> = None;
            loop {
                let live = live_run(&session, &run).await.ok().flatten();
                {
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some(sender) = all.get(&run) else { return };
                    if sender.is_closed() {
                        all.remove(&run);
                        return;
                    }
                    if live.is_some() && live != last {
                        let text = live.as_ref().and_then(|live| serde_json::to_string(live).ok());
                        sender.send_replace(text.map(Arc::from));
                    }
                }
                last = live.or(last);
                tokio::time::sleep(PAUSE).await;
            }
        });
        receiver
    }
}

/// The text that a page gets: with the time of this machine, because the clock of the browser may differ.
pub(crate) fn with_time(news: &str, now_ms: i64) -> String {
    match news.strip_prefix('{') {
        Some(rest) => format!("{{\"now_ms\":{now_ms},{rest}"),
        None => json!({ "now_ms": now_ms }).to_string(),
    }
}

//! Caches values in memory that several tasks need.

use crate::Error;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OnceCell;

/// A value that is loaded once, even if several tasks wait for it.
type CacheEntry<T> = Arc<OnceCell<Arc<T>>>;

/// A small cache of values that are expensive to load; the value used longest ago is removed first.
pub(super) struct Cache<T> {
    entries: Mutex<VecDeque<(Vec<String>, CacheEntry<T>)>>,
    size: usize,
}

impl<T> Cache<T> {
    pub(super) fn new(size: usize) -> Self {
        Self { entries: Mutex::default(), size }
    }

    pub(super) async fn get<F: Future<Output = Result<T, Error>>>(
        &self,
        key: Vec<String>,
        load: impl FnOnce() -> F,
    ) -> Result<Arc<T>, Error> {
        let cell = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = match entries.iter().position(|(other, _)| *other == key) {
                Some(i) => entries.remove(i).unwrap_or_default(),
                None => (key, Arc::default()),
            };
            let cell = entry.1.clone();
            entries.push_front(entry);
            entries.truncate(self.size);
            cell
        };
        cell.get_or_try_init(|| async { load().await.map(Arc::new) }).await.cloned()
    }
}

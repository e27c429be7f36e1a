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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A cache of this size, and how often something was loaded for it.
    struct Counted(Cache<String>, AtomicUsize);

    impl Counted {
        fn new(size: usize) -> Self {
            Self(Cache::new(size), AtomicUsize::new(0))
        }

        async fn get(&self, key: &str) -> Arc<String> {
            let load = || async {
                self.1.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                Ok(format!("of {key}"))
            };
            self.0.get(vec![key.to_owned()], load).await.unwrap()
        }

        fn loads(&self) -> usize {
            self.1.load(Ordering::SeqCst)
        }
    }

    #[tokio::test]
    async fn the_value_used_longest_ago_is_removed_first() {
        let cache = Counted::new(2);
        // (what is asked for, how often something was loaded by then)
        for (key, loads) in [("a", 1), ("b", 2), ("a", 2), ("c", 3), ("a", 3), ("b", 4), ("c", 5), ("b", 5)] {
            assert_eq!(*cache.get(key).await, format!("of {key}"));
            assert_eq!(cache.loads(), loads, "{key}");
        }
        let none = Counted::new(0);
        assert_eq!((*none.get("a").await).clone(), "of a", "a cache without room still loads");
    }

    #[tokio::test]
    async fn tasks_that_wait_for_one_value_load_it_once() {
        let cache = Counted::new(1);
        let (one, other) = tokio::join!(cache.get("a"), cache.get("a"));
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(cache.loads(), 1);
    }

    #[tokio::test]
    async fn keys_of_other_lengths_are_other_values() {
        let cache = Cache::new(4);
        let key = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (number, names) in [["a", "b"].as_slice(), &["a"], &["b", "a"], &[]].into_iter().enumerate() {
            let loaded = cache.get(key(names), || async move { Ok(number) }).await.unwrap();
            assert_eq!(*loaded, number, "{names:?}");
        }
    }

    #[tokio::test]
    async fn a_value_that_could_not_be_loaded_is_loaded_again() {
        let cache = Cache::new(1);
        let failed = cache.get(vec![], || async { Err::<u8, _>(Error::table("damaged")) }).await;
        assert!(failed.is_err());
        assert_eq!(*cache.get(vec![], || async { Ok(7) }).await.unwrap(), 7);
        let kept = cache.get(vec![], || async { Err(Error::table("damaged")) }).await;
        assert_eq!(*kept.unwrap(), 7, "nothing is loaded any more");
    }
}

//! What was opened last, for the next request.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// The values that were opened last, by name.
pub(crate) struct RecentlyOpened<K, V> {
    most: usize,
    /// The latest first.
    open: Mutex<VecDeque<(K, V)>>,
}

impl<K: PartialEq, V: Clone> RecentlyOpened<K, V> {
    /// Keeps at most so many values.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: Mutex::default() }
    }

    pub(crate) fn get(&self, name: &K) -> Option<V> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// Keeps a value instead of the one that has its name. The oldest one goes if there are too many.
    pub(crate) fn insert(&self, name: K, value: V) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(known, _)| *known != name);
        open.push_front((name, value));
        open.truncate(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_values_are_kept_and_a_name_has_one() {
        let recent = RecentlyOpened::new(2);
        for (name, value) in [("a", 1), ("b", 2), ("b", 3), ("c", 4)] {
            recent.insert(name, value);
        }
        assert_eq!(["a", "b", "c"].map(|name| recent.get(&name)), [None, Some(3), Some(4)]);
    }
}

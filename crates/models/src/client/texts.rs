//! Texts that are being embedded at an endpoint. Each text has an entry of its own in the journal; a text that another
//! call is sending now is not sent a second time.

use crate::locked;
use std::{collections::HashSet, sync::Mutex};
use store::Key;
use tokio::sync::Notify;

/// The keys of the texts that are being looked up or embedded.
#[derive(Default)]
pub(super) struct TextClaims {
    claimed: Mutex<HashSet<Key>>,
    released: Notify,
}

/// Texts that no other call sends until this is dropped.
pub(super) struct TextClaim<'a> {
    texts: &'a TextClaims,
    /// Their keys.
    pub(super) keys: Vec<Key>,
}

impl TextClaims {
    /// Claims the texts of these keys that no other call has claimed. Waits while all of them are claimed.
    pub(super) async fn claim(&self, keys: &[Key]) -> TextClaim<'_> {
        loop {
            // Listens before it looks, so that no release in between is missed.
            let released = self.released.notified();
            let free: Vec<Key> = {
                let mut claimed = locked(&self.claimed);
                keys.iter().copied().filter(|key| claimed.insert(*key)).collect()
            };
            if !free.is_empty() || keys.is_empty() {
                return TextClaim { texts: self, keys: free };
            }
            released.await;
        }
    }
}

impl Drop for TextClaim<'_> {
    fn drop(&mut self) {
        let mut claimed = locked(&self.texts.claimed);
        for key in &self.keys {
            claimed.remove(key);
        }
        drop(claimed);
        self.texts.released.notify_waiters();
    }
}

/// Divides a number in proportion to weights; the parts sum up to it.
pub(super) fn shares(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum::<u128>().max(1);
    let (mut before, mut given) = (0u128, 0u64);
    let share = |weight: &u64| {
        before += u128::from(*weight);
        // Rounds the running total, so that no remainder is left at the end.
        let upto = u64::try_from(u128::from(total) * before / sum).unwrap_or(total);
        let share = upto - given;
        given = upto;
        share
    };
    weights.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_up_to_the_whole() {
        for (total, weights) in [(10, vec![1, 1, 1]), (1, vec![5, 5, 5]), (u64::MAX, vec![3, 1, 7]), (7, vec![1])] {
            let parts = shares(total, &weights);
            assert_eq!(parts.iter().sum::<u64>(), total, "{weights:?}: {parts:?}");
        }
        assert_eq!(shares(12, &[1, 2, 3]), [2, 4, 6]);
    }

    #[tokio::test]
    async fn a_text_is_claimed_once_and_free_afterwards() {
        let texts = TextClaims::default();
        let key = |name: &str| Key::of_bytes(name.as_bytes());
        let (a, b) = (key("a"), key("b"));
        let first = texts.claim(&[a]).await;
        let second = texts.claim(&[a, b]).await;
        assert_eq!(second.keys, [b]);
        let wanted = [a];
        let waits = texts.claim(&wanted);
        let mut waits = std::pin::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending());
        drop(first);
        assert_eq!(waits.await.keys, [a]);
    }
}

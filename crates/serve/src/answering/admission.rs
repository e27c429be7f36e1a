//! Limits how many requests are worked on at once, and how many wait. Without limits,
//! an overloaded service would answer no request in time.

use crate::error::ApiError;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

/// Admits at most `at_once` requests at a time; at most `queue` more wait.
#[derive(Debug)]
pub(crate) struct AdmissionQueue {
    permits: Semaphore,
    at_once: usize,
    /// The free positions of the queue.
    positions: Semaphore,
    queue: usize,
    /// The moving average of how long a request takes, in seconds. `Retry-After`
    /// follows from it.
    mean_seconds: Mutex<f64>,
}

/// Lets one request be worked on, until it is dropped.
#[derive(Debug)]
pub(crate) struct AdmissionPermit<'a> {
    admission: &'a AdmissionQueue,
    since: Instant,
    _permit: SemaphorePermit<'a>,
}

/// The weight of the last request in the moving average.
const LATEST_WEIGHT: f64 = 0.1;

impl AdmissionQueue {
    pub(crate) fn new(at_once: usize, queue: usize) -> Self {
        let (at_once, queue) = (at_once.clamp(1, Semaphore::MAX_PERMITS), queue.min(Semaphore::MAX_PERMITS));
        Self {
            permits: Semaphore::new(at_once),
            at_once,
            positions: Semaphore::new(queue),
            queue,
            mean_seconds: Mutex::new(1.0),
        }
    }

    /// Waits for a permit, at most this long.
    ///
    /// # Errors
    /// 503 if too many wait already, or if the time is over.
    pub(crate) async fn enter(&self, at_most: Duration) -> Result<AdmissionPermit<'_>, ApiError> {
        let admit = |permit| AdmissionPermit { admission: self, since: Instant::now(), _permit: permit };
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(admit(permit));
        }
        let _position = self.positions.try_acquire().map_err(|_| self.overload_error("the service is full"))?;
        match tokio::time::timeout(at_most, self.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(admit(permit)),
            _ => Err(self.waited_too_long()),
        }
    }

    /// The error for a request whose deadline came while it waited.
    pub(crate) fn waited_too_long(&self) -> ApiError {
        self.overload_error("the request waited in the queue until its deadline")
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.saturating_sub(self.positions.available_permits())
    }

    pub(crate) fn busy(&self) -> usize {
        self.at_once.saturating_sub(self.permits.available_permits())
    }

    fn overload_error(&self, reason: &str) -> ApiError {
        let mean_seconds = *self.mean_seconds.lock().unwrap_or_else(PoisonError::into_inner);
        let until_free = mean_seconds * (self.waiting() + 1) as f64 / self.at_once as f64;
        ApiError::overloaded(
            format!("{reason}: {} requests are worked on and {} wait; try again later", self.busy(), self.waiting()),
            Duration::from_secs_f64(until_free.clamp(1.0, 60.0)),
        )
    }
}

impl Drop for AdmissionPermit<'_> {
    fn drop(&mut self) {
        let mut mean = self.admission.mean_seconds.lock().unwrap_or_else(PoisonError::into_inner);
        *mean += LATEST_WEIGHT * (self.since.elapsed().as_secs_f64() - *mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_neither_has_a_place_nor_may_wait_is_sent_away_at_once() {
        let admission = AdmissionQueue::new(1, 1);
        let first = admission.enter(Duration::from_secs(5)).await.unwrap();
        let second = admission.enter(Duration::from_secs(5));
        let third = async {
            while admission.waiting() == 0 {
                tokio::task::yield_now().await;
            }
            let refused = admission.enter(Duration::from_secs(5)).await.unwrap_err();
            assert_eq!(refused.status.as_u16(), 503);
            drop(first);
        };
        let (second, ()) = tokio::join!(second, third);
        assert!(second.is_ok());
        assert_eq!((admission.busy(), admission.waiting()), (1, 0));
        drop(second);
        assert_eq!(admission.busy(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_they_may_and_who_leaves_no_longer_waits() {
        let admission = AdmissionQueue::new(1, 5);
        let _first = admission.enter(Duration::from_secs(1)).await.unwrap();
        assert_eq!(admission.enter(Duration::from_secs(1)).await.unwrap_err().status.as_u16(), 503);
        let left = tokio::time::timeout(Duration::from_millis(5), admission.enter(Duration::from_secs(9))).await;
        assert!(left.is_err());
        assert_eq!(admission.waiting(), 0);
    }
}

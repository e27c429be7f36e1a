//! One budget of cores for tokio, rayon, ONNX Runtime and llama.cpp: two
//! runtimes that both think they own the machine are 20 times slower than one.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many threads may be busy. Clones share the budget.
#[derive(Debug, Clone)]
pub struct CpuBudget {
    cores: usize,
    free: Arc<Semaphore>,
}

impl CpuBudget {
    /// A budget of `cores` threads, at least 1.
    pub fn new(cores: usize) -> Self {
        let cores = cores.max(1);
        Self { cores, free: Arc::new(Semaphore::new(cores)) }
    }

    /// All cores of the machine, as far as the process may use them.
    pub fn machine() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// This many cores, but no more than the process may use: a thread beyond them
    /// only slows the others down, and thousands of them end the program.
    pub fn at_most(cores: usize) -> Self {
        Self::new(cores.min(Self::machine().cores))
    }

    /// The size of the budget.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Waits until `threads` (at most the whole budget) are free and holds
    /// them until the permit is dropped.
    pub async fn acquire(&self, threads: usize) -> Option<OwnedSemaphorePermit> {
        let threads = threads.clamp(1, self.cores) as u32;
        self.free.clone().acquire_many_owned(threads).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_settings_state_is_never_more_than_the_machine() {
        let machine = CpuBudget::machine().cores();
        assert_eq!(
            [1, machine, machine + 1, usize::MAX].map(|n| CpuBudget::at_most(n).cores()),
            [1, machine, machine, machine]
        );
    }
}

//! Which tokens the context holds, by sequence, so that a request finds the
//! sequence that shares the longest prefix with it. Plain bookkeeping: the
//! engine carries out what is decided here.

/// One sequence of the context.
#[derive(Debug, Default, Clone)]
pub(super) struct Slot {
    /// The tokens of its request: prompt, then answer.
    pub(super) tokens: Vec<i32>,
    /// How many of them the context holds.
    pub(super) computed: usize,
    /// How many more the batch being put together will add.
    pub(super) scheduled: usize,
    /// Whether a request is using it.
    pub(super) active: bool,
    used: u64,
}

/// Where a request goes, and what it takes over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Keep the first `reuse` tokens of `slot` and drop the rest.
    Continue { slot: usize, reuse: usize },
    /// Empty `slot` and share the first `reuse` tokens of `source` with it.
    Share { slot: usize, source: usize, reuse: usize },
    /// The batch being put together computes much of the prefix: one step
    /// later it can be shared.
    Later,
}

/// All sequences: those in use and those kept for their prefix.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    clock: u64,
}

/// Tokens that are cheaper to compute again than to think about.
const NEGLIGIBLE: usize = 32;

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        Self { slots: vec![Slot::default(); count], clock: 0 }
    }

    pub(super) fn get(&self, slot: usize) -> &Slot {
        &self.slots[slot]
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> &mut Slot {
        &mut self.slots[slot]
    }

    /// Where a request with this prompt goes, if a slot is free. At least
    /// one token is always left to compute: its logits begin the answer.
    pub(super) fn place(&self, prompt: &[i32]) -> Option<Place> {
        let wanted = &prompt[..prompt.len().saturating_sub(1)];
        let (mut reuse, mut source, mut soon) = (0, None, 0);
        for (index, slot) in self.slots.iter().enumerate() {
            let shared = shared_prefix(&slot.tokens, wanted);
            let ready = shared.min(slot.computed);
            if ready > reuse {
                (reuse, source) = (ready, Some(index));
            }
            soon = soon.max(shared.min(slot.computed + slot.scheduled));
        }
        if soon > reuse + NEGLIGIBLE {
            return Some(Place::Later);
        }
        let oldest = self.oldest_idle(source);
        match (source, oldest) {
            // A slot that would lose next to nothing is continued, so that
            // the others keep their prefixes.
            (Some(source), oldest)
                if !self.slots[source].active
                    && (oldest.is_none() || self.slots[source].computed - reuse <= NEGLIGIBLE) =>
            {
                Some(Place::Continue { slot: source, reuse })
            }
            (Some(source), Some(slot)) => Some(Place::Share { slot, source, reuse }),
            (None, Some(slot)) => Some(Place::Continue { slot, reuse: 0 }),
            (_, None) => None,
        }
    }

    /// The idle slot that was used least recently, other than `except`.
    fn oldest_idle(&self, except: Option<usize>) -> Option<usize> {
        (0..self.slots.len())
            .filter(|&index| !self.slots[index].active && Some(index) != except)
            .min_by_key(|&index| self.slots[index].used)
    }

    /// The idle slot that holds something and was used least recently.
    pub(super) fn evictable(&self) -> Option<usize> {
        (0..self.slots.len())
            .filter(|&index| !self.slots[index].active && self.slots[index].computed > 0)
            .min_by_key(|&index| self.slots[index].used)
    }

    /// Gives a slot to a request of which `computed` tokens are there already.
    pub(super) fn occupy(&mut self, slot: usize, tokens: Vec<i32>, computed: usize) {
        self.clock += 1;
        self.slots[slot] = Slot { tokens, computed, scheduled: 0, active: true, used: self.clock };
    }

    /// Ends a slot's request; what is computed stays for the next.
    pub(super) fn release(&mut self, slot: usize) {
        self.clock += 1;
        let slot = &mut self.slots[slot];
        slot.tokens.truncate(slot.computed);
        slot.active = false;
        slot.used = self.clock;
    }

    /// Forgets what a slot holds.
    pub(super) fn clear(&mut self, slot: usize) {
        self.slots[slot] = Slot::default();
    }
}

fn shared_prefix(left: &[i32], right: &[i32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(range: std::ops::Range<i32>) -> Vec<i32> {
        range.collect()
    }

    #[test]
    fn an_empty_context_offers_its_first_slot() {
        assert_eq!(Slots::new(2).place(&tokens(0..10)), Some(Place::Continue { slot: 0, reuse: 0 }));
    }

    #[test]
    fn the_same_prompt_again_leaves_one_token_to_compute() {
        let mut slots = Slots::new(2);
        slots.occupy(0, tokens(0..10), 10);
        slots.release(0);
        assert_eq!(slots.place(&tokens(0..10)), Some(Place::Continue { slot: 0, reuse: 9 }));
    }

    #[test]
    fn a_prefix_in_use_is_shared() {
        let mut slots = Slots::new(2);
        slots.occupy(0, tokens(0..100), 100);
        let mut prompt = tokens(0..80);
        prompt.extend(500..520);
        assert_eq!(slots.place(&prompt), Some(Place::Share { slot: 1, source: 0, reuse: 80 }));
    }

    #[test]
    fn a_kept_answer_is_not_dropped_while_an_older_slot_is_free() {
        let mut slots = Slots::new(2);
        slots.occupy(0, tokens(0..300), 300);
        slots.release(0);
        let mut prompt = tokens(0..80);
        prompt.extend(500..520);
        assert_eq!(slots.place(&prompt), Some(Place::Share { slot: 1, source: 0, reuse: 80 }));
    }

    #[test]
    fn a_prefix_being_computed_is_waited_for() {
        let mut slots = Slots::new(2);
        slots.occupy(0, tokens(0..100), 0);
        slots.get_mut(0).scheduled = 100;
        assert_eq!(slots.place(&tokens(0..100)), Some(Place::Later));
        let slot = slots.get_mut(0);
        (slot.computed, slot.scheduled) = (100, 0);
        assert_eq!(slots.place(&tokens(0..100)), Some(Place::Share { slot: 1, source: 0, reuse: 99 }));
    }

    #[test]
    fn nothing_is_offered_while_all_slots_are_in_use() {
        let mut slots = Slots::new(1);
        slots.occupy(0, tokens(0..100), 100);
        assert_eq!(slots.place(&tokens(0..100)), None);
    }

    #[test]
    fn the_slot_used_least_recently_is_taken_and_evicted_first() {
        let mut slots = Slots::new(3);
        for slot in [2, 0, 1] {
            let start = slot as i32 * 1000;
            slots.occupy(slot, tokens(start..start + 50), 50);
        }
        for slot in [2, 0, 1] {
            slots.release(slot);
        }
        assert_eq!(slots.evictable(), Some(2));
        assert_eq!(slots.place(&tokens(9000..9010)), Some(Place::Continue { slot: 2, reuse: 0 }));
    }

    #[test]
    fn a_token_that_was_not_computed_is_not_kept() {
        let mut slots = Slots::new(1);
        slots.occupy(0, tokens(0..10), 9);
        slots.release(0);
        assert_eq!(slots.get(0).tokens.len(), 9);
    }
}

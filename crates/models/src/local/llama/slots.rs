//! Which prompts a context still holds, so that a request finds the one that
//! shares the longest prefix with it. Plain bookkeeping: the engine carries
//! out what is decided here.

/// Where a request is computed, and which tokens it reuses.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SlotChoice {
    /// Keep the first `reuse` tokens of `slot` and drop the rest.
    Continue { slot: usize, reuse: usize },
    /// Replace `slot` by a copy of the first `reuse` tokens of `source`.
    Copy { slot: usize, source: usize, reuse: usize },
}

/// The sequences of one context.
#[derive(Debug)]
pub(super) struct PromptSlots {
    slots: Vec<PromptSlot>,
    clock: u64,
}

/// The prompt a sequence holds.
#[derive(Debug, Default, Clone)]
struct PromptSlot {
    tokens: Vec<i32>,
    used: u64,
}

/// A difference that is too small to be worth a copy.
const NEGLIGIBLE: usize = 32;

impl PromptSlots {
    pub(super) fn new(count: usize) -> Self {
        Self { slots: vec![PromptSlot::default(); count], clock: 0 }
    }

    pub(super) fn prompts(&self) -> Vec<Vec<i32>> {
        self.slots.iter().map(|slot| slot.tokens.clone()).collect()
    }

    /// The place for a request whose prompt may reuse at most these tokens.
    pub(super) fn place(&self, wanted: &[i32]) -> SlotChoice {
        let shared = |slot: usize| shared_prefix(&self.slots[slot].tokens, wanted);
        let source = self.nearest(wanted);
        let reuse = shared(source);
        let lost = self.slots[source].tokens.len() - reuse;
        let oldest = (0..self.slots.len()).filter(|&slot| slot != source).min_by_key(|&slot| self.slots[slot].used);
        match oldest {
            // The rest of the source is kept too, if there is another slot
            // to copy to: the one used longest ago.
            Some(slot) if reuse > NEGLIGIBLE && lost > NEGLIGIBLE => SlotChoice::Copy { slot, source, reuse },
            Some(slot) if reuse <= NEGLIGIBLE && self.slots[slot].used < self.slots[source].used => {
                SlotChoice::Continue { slot, reuse: shared(slot) }
            }
            _ => SlotChoice::Continue { slot: source, reuse },
        }
    }

    /// The slot that shares most with a prompt.
    pub(super) fn nearest(&self, prompt: &[i32]) -> usize {
        let shared = |slot: &usize| shared_prefix(&self.slots[*slot].tokens, prompt);
        (0..self.slots.len()).max_by_key(shared).unwrap_or(0)
    }

    /// How much of a prompt the slots hold.
    pub(super) fn longest_shared(&self, prompt: &[i32]) -> usize {
        shared_prefix(&self.slots[self.nearest(prompt)].tokens, prompt)
    }

    /// The slot that was not used for the longest time.
    pub(super) fn oldest(&self) -> usize {
        (0..self.slots.len()).min_by_key(|&slot| self.slots[slot].used).unwrap_or(0)
    }

    /// What a slot holds.
    pub(super) fn prompt(&self, slot: usize) -> &[i32] {
        &self.slots[slot].tokens
    }

    /// Notes that a slot holds a prompt.
    pub(super) fn hold(&mut self, slot: usize, tokens: Vec<i32>) {
        self.clock += 1;
        self.slots[slot] = PromptSlot { tokens, used: self.clock };
    }

    /// Notes that a slot holds nothing.
    pub(super) fn clear(&mut self, slot: usize) {
        self.slots[slot] = PromptSlot::default();
    }
}

/// How many tokens two prompts have in common at their beginning.
pub(super) fn shared_prefix(left: &[i32], right: &[i32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(shared: i32, own: i32) -> Vec<i32> {
        (0..shared).chain((0..100).map(|i| own * 1000 + i)).collect()
    }

    #[test]
    fn an_empty_context_has_nothing_to_reuse() {
        assert!(matches!(PromptSlots::new(2).place(&prompt(0, 1)), SlotChoice::Continue { reuse: 0, .. }));
    }

    #[test]
    fn the_same_prompt_again_is_continued() {
        let mut slots = PromptSlots::new(2);
        slots.hold(1, prompt(80, 1));
        assert_eq!(slots.place(&prompt(80, 1)[..170]), SlotChoice::Continue { slot: 1, reuse: 170 });
    }

    #[test]
    fn a_shared_prefix_is_copied_so_that_both_prompts_stay() {
        let mut slots = PromptSlots::new(3);
        slots.hold(0, prompt(80, 1));
        slots.hold(1, prompt(0, 2));
        assert_eq!(slots.place(&prompt(80, 3)), SlotChoice::Copy { slot: 2, source: 0, reuse: 80 });
    }

    #[test]
    fn an_unknown_prompt_replaces_the_one_used_longest_ago() {
        let mut slots = PromptSlots::new(3);
        for slot in [2, 0, 1] {
            slots.hold(slot, prompt(0, slot as i32 + 1));
        }
        assert_eq!(slots.place(&prompt(0, 9)), SlotChoice::Continue { slot: 2, reuse: 0 });
    }

    #[test]
    fn a_single_slot_is_always_continued() {
        let mut slots = PromptSlots::new(1);
        slots.hold(0, prompt(80, 1));
        assert_eq!(slots.place(&prompt(80, 2)), SlotChoice::Continue { slot: 0, reuse: 80 });
    }
}

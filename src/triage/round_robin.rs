//! Round robin: which of many are handled, if a round has room for only a few.

/// Chooses a few items for each round, in the order of their keys. Each round begins after the last
/// item of the round before.
#[derive(Debug)]
pub struct RoundRobin<K> {
    last: Option<K>,
    /// `last` before this round.
    before: Option<K>,
}

impl<K> Default for RoundRobin<K> {
    fn default() -> Self {
        Self { last: None, before: None }
    }
}

impl<K: Ord> RoundRobin<K> {
    /// Returns the items of this round (at most `most`), and the items for later rounds.
    pub fn next<T>(
        &mut self,
        mut all: Vec<T>,
        most: usize,
        key: impl Fn(&T) -> K,
    ) -> (Vec<T>, Vec<T>) {
        all.sort_by_key(&key);
        let is_done = |one: &T| self.last.as_ref().is_some_and(|last| key(one) <= *last);
        let done = all.partition_point(is_done);
        all.rotate_left(done);
        let later = all.split_off(all.len().min(most));
        let last = all.last().filter(|_| !later.is_empty()).map(key);
        self.before = std::mem::replace(&mut self.last, last);
        (all, later)
    }

    /// Call this if the round ended early. `done`: the last item that was handled, after which the
    /// next round begins. `None`: no item was handled, so the next round begins where this one did.
    pub fn ended_after(&mut self, done: Option<K>) {
        self.last = done.or_else(|| self.before.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_handled_once_before_one_is_handled_again() {
        let mut order = RoundRobin::default();
        let mut next = |all: &[u8]| order.next(all.to_vec(), 2, |one| *one);
        assert_eq!(next(&[5, 1, 4, 2, 3]), (vec![1, 2], vec![3, 4, 5]));
        assert_eq!(next(&[1, 2, 4, 5]), (vec![4, 5], vec![1, 2]), "3 is gone");
        assert_eq!(next(&[1, 2, 3, 4, 5]), (vec![1, 2], vec![3, 4, 5]));
        assert_eq!(next(&[1, 2]), (vec![1, 2], vec![]), "there is room for all");
        assert_eq!(next(&[]), (vec![], vec![]));
        assert_eq!(next(&[1, 2, 3]), (vec![1, 2], vec![3]));
    }

    #[test]
    fn after_a_round_that_ended_early_the_next_one_goes_on_there() {
        let mut order = RoundRobin::default();
        let all = || vec![1, 2, 3, 4];
        assert_eq!(order.next(all(), 9, |one| *one), (all(), vec![]));
        order.ended_after(Some(2));
        assert_eq!(order.next(all(), 9, |one| *one), (vec![3, 4, 1, 2], vec![]));
        order.ended_after(None);
        assert_eq!(order.next(all(), 9, |one| *one), (vec![3, 4, 1, 2], vec![]));
        assert_eq!(order.next(all(), 9, |one| *one), (all(), vec![]), "all were handled");
    }
}

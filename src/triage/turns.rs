//! Whose turn it is, if a round has room for only a few of many.

/// Lets each of many have its turn: a round goes on after the last one of the round before, in the
/// order of the keys.
#[derive(Debug)]
pub struct Turns<K> {
    last: Option<K>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { last: None }
    }
}

impl<K: Ord> Turns<K> {
    /// Those of this round, `most` at most, and those that wait for a later one. Both are in the
    /// order in which they have their turn.
    pub fn next<T>(
        &mut self,
        mut all: Vec<T>,
        most: usize,
        key: impl Fn(&T) -> K,
    ) -> (Vec<T>, Vec<T>) {
        all.sort_by_key(&key);
        let had_its_turn = |one: &T| self.last.as_ref().is_some_and(|last| key(one) <= *last);
        let done = all.partition_point(had_its_turn);
        all.rotate_left(done);
        let later = all.split_off(all.len().min(most));
        self.last = all.last().filter(|_| !later.is_empty()).map(key);
        (all, later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn_before_one_has_a_second_one() {
        let mut turns = Turns::default();
        let mut next = |all: &[u8]| turns.next(all.to_vec(), 2, |one| *one);
        assert_eq!(next(&[5, 1, 4, 2, 3]), (vec![1, 2], vec![3, 4, 5]));
        assert_eq!(next(&[1, 2, 4, 5]), (vec![4, 5], vec![1, 2]), "3 is gone");
        assert_eq!(next(&[1, 2, 3, 4, 5]), (vec![1, 2], vec![3, 4, 5]));
        assert_eq!(next(&[1, 2]), (vec![1, 2], vec![]), "there is room for all");
        assert_eq!(next(&[]), (vec![], vec![]));
        assert_eq!(next(&[1, 2, 3]), (vec![1, 2], vec![3]));
    }
}

//! Which retained instances are new.
//!
//! A group whose lifecycle policy asks for it retains an instance whose terminate hook was abandoned
//! (`Terminating:Retained`). Each round of the sweep shows all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::sweep::MAX_WAITING;
use crate::domain::{GroupName, InstanceId};

/// The group that retains an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedBy {
    /// The name of the group.
    pub group: GroupName,
    /// The instance is in the warm pool of the group.
    pub is_in_warm_pool: bool,
}

/// The retained instances that this leader has seen in the last round.
#[derive(Debug, Default)]
pub struct Retained(BTreeMap<InstanceId, RetainedBy>);

impl Retained {
    /// A round was answered, and showed these instances. `unknown`: the groups whose warm pools were
    /// not answered; what earlier rounds have shown of these pools stays. Returns the instances that
    /// the round before did not show: they are to be reported.
    pub fn round_answered(
        &mut self,
        found: BTreeMap<InstanceId, RetainedBy>,
        unknown: &BTreeSet<GroupName>,
    ) -> Vec<(InstanceId, GroupName)> {
        let mut all: BTreeMap<_, _> = found.into_iter().take(MAX_WAITING).collect();
        let is_new = |(instance, _): &(&InstanceId, &RetainedBy)| !self.0.contains_key(*instance);
        let new = all.iter().filter(is_new).map(|(id, by)| (id.clone(), by.group.clone()));
        let new = new.collect();
        for (instance, by) in std::mem::take(&mut self.0) {
            let is_unknown = by.is_in_warm_pool && unknown.contains(&by.group);
            if is_unknown && all.len() < MAX_WAITING {
                all.entry(instance).or_insert(by);
            }
        }
        self.0 = all;
        new
    }

    /// How many instances are retained.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_retained_instance_is_new_once_and_again_after_a_round_without_it() {
        let id = |n: usize| format!("i-{n:017x}").parse::<InstanceId>().unwrap();
        let by = |group: &str, is_in_warm_pool| RetainedBy { group: group.into(), is_in_warm_pool };
        let all = |ids: &[usize]| ids.iter().map(|n| (id(*n), by("asg", false))).collect();
        let mut retained = Retained::default();
        for (round, new) in [
            (&[][..], &[][..]),
            (&[1, 2], &[1, 2]),
            (&[1, 2], &[]),
            (&[2, 3], &[3]),
            (&[1], &[1]),
            (&[], &[]),
        ] {
            let found = retained.round_answered(all(round), &BTreeSet::new());
            let found: Vec<_> = found.into_iter().map(|(instance, _)| instance).collect();
            assert_eq!(found, new.iter().map(|n| id(*n)).collect::<Vec<_>>(), "{round:?}");
            assert_eq!(retained.count(), round.len());
        }
        let many: Vec<usize> = (0..MAX_WAITING + 3).collect();
        assert_eq!(
            retained.round_answered(all(&many), &BTreeSet::new()).len(),
            MAX_WAITING,
            "it is bounded"
        );
        let (mut retained, unknown) = (Retained::default(), BTreeSet::from(["asg".into()]));
        let pooled = BTreeMap::from([(id(1), by("asg", true)), (id(2), by("asg", false))]);
        retained.round_answered(pooled, &BTreeSet::new());
        retained.round_answered(BTreeMap::new(), &unknown);
        assert_eq!(retained.count(), 1, "only that in the pool may still be there");
        retained.round_answered(all(&many), &unknown);
        assert_eq!(retained.count(), MAX_WAITING, "also with what is not known");
    }
}

//! Which retained instances are new.
//!
//! A group whose lifecycle policy asks for it retains an instance whose terminate hook was abandoned
//! (`Terminating:Retained`). Each round of the sweep shows all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::sweep::MAX_WAITING;
use crate::domain::{GroupName, InstanceId, Moment, seconds};

/// The group that retains an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedBy {
    /// The name of the group.
    pub group: GroupName,
    /// The instance is in the warm pool of the group.
    pub is_in_warm_pool: bool,
}

/// How long an instance in a warm pool counts after AWS has last shown it. A pool that AWS does not
/// show for longer (the call is denied) says nothing of today.
const COUNTS_FOR: Duration = seconds(48 * 3600);

/// The retained instances that this leader has seen in the last round.
#[derive(Debug, Default)]
pub struct Retained(BTreeMap<InstanceId, (RetainedBy, Moment)>);

impl Retained {
    /// A round was answered at `now`, and showed these instances. `unknown`: the groups whose warm
    /// pools were not answered; what earlier rounds have shown of these pools stays, for two days at
    /// most. Returns the instances that
    /// the round before did not show: they are to be reported.
    pub fn round_answered(
        &mut self,
        now: Moment,
        found: BTreeMap<InstanceId, RetainedBy>,
        unknown: &BTreeSet<GroupName>,
    ) -> Vec<(InstanceId, GroupName)> {
        let shown = found.into_iter().take(MAX_WAITING).map(|(id, by)| (id, (by, now)));
        let mut all: BTreeMap<_, _> = shown.collect();
        let new = all.iter().filter(|(instance, _)| !self.0.contains_key(*instance));
        let new = new.map(|(id, (by, _))| (id.clone(), by.group.clone())).collect();
        for (instance, (by, shown)) in std::mem::take(&mut self.0) {
            let is_unknown = by.is_in_warm_pool && unknown.contains(&by.group);
            if is_unknown && now < shown.plus(COUNTS_FOR) && all.len() < MAX_WAITING {
                all.entry(instance).or_insert((by, shown));
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

    fn at(second: u64) -> Moment {
        Moment::UNIX_EPOCH.plus(seconds(second))
    }

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
            let found = retained.round_answered(at(0), all(round), &BTreeSet::new());
            let found: Vec<_> = found.into_iter().map(|(instance, _)| instance).collect();
            assert_eq!(found, new.iter().map(|n| id(*n)).collect::<Vec<_>>(), "{round:?}");
            assert_eq!(retained.count(), round.len());
        }
        let many: Vec<usize> = (0..MAX_WAITING + 3).collect();
        assert_eq!(
            retained.round_answered(at(0), all(&many), &BTreeSet::new()).len(),
            MAX_WAITING,
            "it is bounded"
        );
        let (mut retained, unknown) = (Retained::default(), BTreeSet::from(["asg".into()]));
        let pooled = BTreeMap::from([(id(1), by("asg", true)), (id(2), by("asg", false))]);
        retained.round_answered(at(0), pooled, &BTreeSet::new());
        retained.round_answered(at(0), BTreeMap::new(), &unknown);
        assert_eq!(retained.count(), 1, "only that in the pool may still be there");
        let mut later = Retained(retained.0.clone());
        later.round_answered(at(48 * 3600), BTreeMap::new(), &unknown);
        assert_eq!(later.count(), 0, "AWS has not shown it for two days");
        retained.round_answered(at(0), all(&many), &unknown);
        assert_eq!(retained.count(), MAX_WAITING, "also with what is not known");
    }
}

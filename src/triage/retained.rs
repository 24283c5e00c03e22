//! Which retained instances are new.
//!
//! A group whose lifecycle policy asks for it retains an instance whose terminate hook was abandoned
//! (`Terminating:Retained`). Each round of the sweep shows all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::sweep::MAX_WAITING;
use crate::domain::{GroupName, InstanceId};

/// The retained instances that this leader has seen in the last round.
#[derive(Debug, Default)]
pub struct Retained(BTreeMap<InstanceId, GroupName>);

impl Retained {
    /// A round was answered, and showed these instances. `unknown`: the groups whose warm pools were
    /// not answered; what earlier rounds have shown of these groups stays. Returns the instances that
    /// the round before did not show: they are to be reported.
    pub fn round_answered(
        &mut self,
        found: BTreeMap<InstanceId, GroupName>,
        unknown: &BTreeSet<GroupName>,
    ) -> Vec<(InstanceId, GroupName)> {
        let found: BTreeMap<_, _> = found.into_iter().take(MAX_WAITING).collect();
        let is_new = |(instance, _): &(&InstanceId, &GroupName)| !self.0.contains_key(*instance);
        let new =
            found.iter().filter(is_new).map(|(id, group)| (id.clone(), group.clone())).collect();
        self.0.retain(|_, group| unknown.contains(group));
        self.0.extend(found);
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
        let all = |ids: &[usize]| ids.iter().map(|n| (id(*n), GroupName::from("asg"))).collect();
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
    }
}

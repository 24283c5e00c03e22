//! How much capacity an Auto Scaling group wants, and how much of it each instance is.

use std::collections::BTreeMap;

/// The capacity of a group, from DescribeAutoScalingGroups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupCapacity {
    desired: Option<usize>,
    weights: BTreeMap<String, usize>,
}

impl GroupCapacity {
    /// `desired`: `DesiredCapacity`; `None` if the group counts vCPUs or memory
    /// (`DesiredCapacityType`), because AWS does not report those of an instance. `weights`:
    /// `WeightedCapacity` by instance ID, of the instances that have one.
    #[must_use]
    pub const fn new(desired: Option<usize>, weights: BTreeMap<String, usize>) -> Self {
        Self { desired, weights }
    }

    /// How much these instances are together. An instance without a weight is 1.
    fn sum<'a>(&self, instances: impl IntoIterator<Item = &'a str>) -> usize {
        let weight = |id: &str| self.weights.get(id).copied().unwrap_or(1);
        instances.into_iter().map(weight).fold(0, usize::saturating_add)
    }

    /// Whether these instances are together at least what the group wants. `None`: not known,
    /// because the group counts vCPUs or memory.
    #[must_use]
    pub fn is_reached_by<'a>(&self, instances: impl IntoIterator<Item = &'a str>) -> Option<bool> {
        Some(self.sum(instances) >= self.desired?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_count_by_their_weight_and_without_one_as_1() {
        let weights = [("i-1".to_owned(), 4), ("i-2".to_owned(), 2)].into();
        let group = GroupCapacity::new(Some(6), weights);
        for (instances, expected) in [
            (&["i-1", "i-2"][..], true),
            (&["i-1", "i-3"], false),
            (&["i-1", "i-3", "i-4"], true),
            (&["i-2", "i-3", "i-4"], false),
            (&[], false),
        ] {
            let reached = group.is_reached_by(instances.iter().copied());
            assert_eq!(reached, Some(expected), "{instances:?}");
        }
        let of_vcpus = GroupCapacity::new(None, BTreeMap::new());
        assert_eq!(of_vcpus.is_reached_by(["i-1"]), None);
    }
}

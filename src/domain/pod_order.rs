//! In which order the pods of a node are evicted (`--pod-order`).

use std::{fmt, str::FromStr};

/// The lowest priority of a critical pod: that of the class `system-cluster-critical`. Kubernetes
/// refuses classes of users above half of it (`HighestUserDefinablePriority`).
pub const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// The most groups that an order has.
pub const MAX_POD_GROUPS: usize = 8;

/// In which order the pods of a node are evicted: it puts each pod into a group, and the groups are
/// evicted one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PodOrder {
    /// All pods at once.
    Together,
    /// Ordinary pods, then pods of DaemonSets that are evicted, then critical pods, then critical
    /// pods of such DaemonSets. A pod is critical from [`CRITICAL_PRIORITY`] on.
    #[default]
    CriticalLast,
    /// By priority, lowest first. Each group begins at one of these priorities and ends before the
    /// next one.
    Priorities(PriorityBands),
}

impl PodOrder {
    /// Number of groups, 1 to [`MAX_POD_GROUPS`].
    #[must_use]
    pub const fn groups(&self) -> usize {
        match self {
            Self::Together => 1,
            Self::CriticalLast => 4,
            Self::Priorities(bands) => bands.0.len(),
        }
    }

    /// The group of a pod with this `spec.priority`, from 0 (evicted first) to `groups() - 1`.
    /// `is_daemon`: its DaemonSet is one of those whose pods are evicted.
    #[must_use]
    pub fn group(&self, priority: i32, is_daemon: bool) -> usize {
        match self {
            Self::Together => 0,
            Self::CriticalLast => {
                2 * usize::from(priority >= CRITICAL_PRIORITY) + usize::from(is_daemon)
            }
            Self::Priorities(bands) => bands.group(priority),
        }
    }
}

/// The priorities at which groups begin, in ascending order: 2 to [`MAX_POD_GROUPS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityBands(Vec<i32>);

impl PriorityBands {
    /// As the kubelet's graceful shutdown and the Cluster Autoscaler group pods: a priority below the
    /// first one belongs to the first group.
    fn group(&self, priority: i32) -> usize {
        self.0.partition_point(|from| *from <= priority).saturating_sub(1)
    }
}

const PREFIX: &str = "priority:";

impl FromStr for PodOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "together" => return Ok(Self::Together),
            "critical-last" => return Ok(Self::CriticalLast),
            _ => {}
        }
        let Some(list) = text.strip_prefix(PREFIX) else {
            return Err(
                "use together, critical-last, or the priorities at which groups begin, such \
                        as priority:0,1000,2000000000"
                    .to_owned(),
            );
        };
        let bands: Result<Vec<i32>, _> = list.split(',').map(str::parse).collect();
        match bands {
            Ok(bands)
                if (2..=MAX_POD_GROUPS).contains(&bands.len())
                    && bands.iter().zip(bands.iter().skip(1)).all(|(a, b)| a < b) =>
            {
                Ok(Self::Priorities(PriorityBands(bands)))
            }
            _ => Err(format!(
                "after {PREFIX}, give 2 to {MAX_POD_GROUPS} whole numbers in ascending order, such as \
                 priority:0,1000,2000000000"
            )),
        }
    }
}

impl fmt::Display for PodOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Together => f.write_str("together"),
            Self::CriticalLast => f.write_str("critical-last"),
            Self::Priorities(PriorityBands(bands)) => {
                f.write_str(PREFIX)?;
                for (n, from) in bands.iter().enumerate() {
                    write!(f, "{}{from}", if n == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_as_it_was() {
        for text in ["together", "critical-last", "priority:0,1000", "priority:-5,0,2000000000"] {
            assert_eq!(text.parse::<PodOrder>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_order_that_cannot_be_is_refused_with_the_remedy() {
        for (text, remedy) in [
            ("", "use together, critical-last"),
            ("priority", "use together, critical-last"),
            ("priority:", "2 to 8 whole numbers"),
            ("priority:1", "2 to 8 whole numbers"),
            ("priority:1,1", "in ascending order"),
            ("priority:2,1", "in ascending order"),
            ("priority:1,2,3,4,5,6,7,8,9", "2 to 8 whole numbers"),
            ("priority:1,3000000000", "2 to 8 whole numbers"),
            ("priority:1, 2", "2 to 8 whole numbers"),
        ] {
            let refused = text.parse::<PodOrder>().unwrap_err();
            assert!(refused.contains(remedy), "{text}: {refused}");
        }
    }

    /// The bounds and pods of a test of the kubelet's graceful shutdown (kubernetes.md 3.4) and one
    /// of the Cluster Autoscaler (3.3).
    #[test]
    fn priorities_are_grouped_as_by_the_kubelet_and_the_cluster_autoscaler() {
        for (order, cases) in [
            ("priority:1,2,3,4", &[(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 3)][..]),
            (
                "priority:10,1000,2000,2000000000",
                &[(-1, 0), (0, 0), (100, 0), (500, 0), (1000, 1), (2000, 2), (2_000_000_005, 3)],
            ),
        ] {
            let PodOrder::Priorities(bands) = order.parse().unwrap() else { panic!("{order}") };
            for (priority, group) in cases {
                assert_eq!(bands.group(*priority), *group, "{order}: {priority}");
            }
        }
    }
}

//! Sick instances: what shows that one is sick, and what its Node's annotation keeps of it.

use std::{fmt, str::FromStr};

use super::{GroupName, InstanceId, Interruption, Kind, Moment, interruption::impaired_event_id};

/// What shows that an instance is sick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Symptom {
    /// A status check of EC2 fails (`ImpairedSince` in DescribeInstanceStatus).
    StatusCheck,
    /// The `Ready` condition of its Node is `False` or `Unknown`.
    NotReady,
}

impl Symptom {
    /// Its word in event IDs, annotations and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StatusCheck => "status-check",
            Self::NotReady => "not-ready",
        }
    }

    /// The symptom with this word; `None` for any other text.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::StatusCheck, Self::NotReady].into_iter().find(|symptom| symptom.as_str() == word)
    }
}

/// Why an instance counts as sick, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impairment {
    /// The symptom that began first.
    pub symptom: Symptom,
    /// Since when, by AWS's clock.
    pub since: Moment,
    /// Its Auto Scaling group.
    pub group: GroupName,
}

impl Impairment {
    /// The interruption for this sick instance. The event ID has only the symptom and its start. If
    /// another leader accepts the same sickness, the interruption is therefore a repeat.
    #[must_use]
    pub fn of(self, instance: InstanceId) -> Interruption {
        Interruption {
            instance,
            event_id: impaired_event_id(self.since, self.symptom),
            time: Some(self.since),
            cause: super::Cause::Impaired(self),
        }
    }
}

/// The annotation `sundown.dev/impaired`: when Sundown last accepted the Node's instance as sick.
/// It stays when another record replaces the record of the sick instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastSickness {
    /// The instance that was sick.
    pub instance: InstanceId,
    /// Its Auto Scaling group.
    pub group: GroupName,
    /// When Sundown accepted it, by AWS's clock.
    pub at: Moment,
}

/// What the record of a Node means for a sick instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImpairedStatus {
    /// No record holds the Node.
    Free,
    /// The record is open and only taints the Node (`prefer`): its pods stay.
    OnlyTainted,
    /// The record is open because the instance is sick. Its other interruptions are only
    /// recommendations and canceled scheduled changes. The node is being drained.
    Draining,
    /// The same, and the drain has ended: no pod is left that can be evicted, and the node waits for
    /// its replacement.
    Drained,
    /// The same, and pods were left at the end of the drain.
    PodsLeft,
    /// The same, and `sundown.dev/keep-cordoned` holds the restore of the node: its drain was
    /// released, or its instance is healthy again.
    KeptCordoned,
    /// Another interruption holds the Node.
    OtherInterruption,
}

/// What follows the drain of a kind, as `--then KIND=STEP` gives it. Only a sick instance has such
/// a step: `impaired=unhealthy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindThen;

impl FromStr for KindThen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let impaired = Kind::Impaired.as_str();
        let given = text.split_once('=').map(|(kind, step)| (kind.trim(), step.trim()));
        match given {
            Some((kind, "unhealthy")) if kind == impaired => Ok(Self),
            _ => Err(format!(
                "`{text}` is not a step after a drain; the only one is `{impaired}=unhealthy`"
            )),
        }
    }
}

impl fmt::Display for KindThen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=unhealthy", Kind::Impaired.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_impaired_unhealthy_is_a_step_after_a_drain() {
        assert_eq!("impaired=unhealthy".parse(), Ok(KindThen));
        assert_eq!(" impaired = unhealthy ".parse(), Ok(KindThen));
        assert_eq!(KindThen.to_string(), "impaired=unhealthy");
        for bad in ["", "impaired", "impaired=terminate", "spot=unhealthy", "impaired="] {
            let error = bad.parse::<KindThen>().unwrap_err();
            assert!(error.contains("the only one is `impaired=unhealthy`"), "{bad}: {error}");
        }
    }

    #[test]
    fn what_two_leaders_see_of_one_sick_instance_has_one_event_id() {
        let sick = |symptom| {
            let since = "2026-01-05T09:00:00.7Z".parse().unwrap();
            Impairment { symptom, since, group: "asg".into() }
                .of("i-00000000000000001".parse().unwrap())
        };
        let seen = sick(Symptom::NotReady);
        assert_eq!(seen.event_id, "sweep:2026-01-05T09:00:00Z:not-ready");
        assert_eq!(seen.event_id, sick(Symptom::NotReady).event_id);
        assert_ne!(seen.event_id, sick(Symptom::StatusCheck).event_id);
        assert_eq!(seen.kind(), Kind::Impaired);
        for symptom in [Symptom::StatusCheck, Symptom::NotReady] {
            assert_eq!(Symptom::from_word(symptom.as_str()), Some(symptom));
        }
    }
}

//! Builds a test event. Apart from its source it looks like AWS's event of that kind. No I/O.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::{
    domain::{BLOCK_NOTICE, InstanceId, InstanceState, Moment, ReservationId, Transition, seconds},
    interruption::{CAPACITY_BLOCK, LAUNCH_ACTION, TEST_SOURCE},
};

/// The kind of event that a test imitates. The names are those of `--on`, plus `launch-successful`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A terminate hook waits
    #[value(alias = "terminate")]
    TerminateHook,
    /// A terminate hook waits while the root volume of the instance is replaced
    RootVolume,
    /// A launch hook waits
    #[value(alias = "launch")]
    LaunchHook,
    /// The instance has moved out of the warm pool into its group
    LaunchSuccessful,
    /// A spot interruption in two minutes
    Spot,
    /// A spot interruption that stops the instance
    SpotStop,
    /// A spot interruption that hibernates the instance
    SpotHibernate,
    /// An interruptible Capacity Reservation is taken back in two minutes
    #[value(alias = "capacity")]
    CapacityReservation,
    /// The Capacity Block of the instance ends in 40 minutes
    CapacityBlock,
    /// A rebalance recommendation
    Rebalance,
    /// The instance is stopping, or has the state of --state
    #[value(alias = "state")]
    StateChange,
    /// AWS Health announces a retirement, or the change of --code
    #[value(alias = "health")]
    ScheduledChange,
}

/// Where an instance comes from or goes to in a lifecycle event, in the words of Auto Scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Place {
    #[value(name = "EC2")]
    Ec2,
    #[value(name = "AutoScalingGroup")]
    Group,
    #[value(name = "WarmPool")]
    WarmPool,
}

impl Place {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ec2 => "EC2",
            Self::Group => "AutoScalingGroup",
            Self::WarmPool => "WarmPool",
        }
    }
}

/// The state of an instance in a state change. EC2 also sends `pending` and `running`, which Sundown
/// deletes as unrelated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ChangedState {
    /// It stops or hibernates
    #[default]
    Stopping,
    /// It has stopped
    Stopped,
    /// It terminates
    ShuttingDown,
    /// It has terminated
    Terminated,
}

impl ChangedState {
    const fn of(self) -> InstanceState {
        match self {
            Self::Stopping => InstanceState::Stopping,
            Self::Stopped => InstanceState::Stopped,
            Self::ShuttingDown => InstanceState::ShuttingDown,
            Self::Terminated => InstanceState::Terminated,
        }
    }
}

/// The code of a scheduled change without `--code`.
pub(super) const RETIREMENT: &str = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED";

/// Reads an `eventTypeCode` of AWS Health.
pub(super) fn parse_code(text: &str) -> Result<String, &'static str> {
    let fits = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    let is_code = (1..=100).contains(&text.len()) && text.bytes().all(fits);
    if is_code {
        Ok(text.to_owned())
    } else {
        Err("no code of AWS Health; use capital letters, digits and underscores, such as \
             AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED")
    }
}

/// AWS sends no event of the kind with what the flags give. The text has what it sends.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::cli) struct NoSuchEvent(String);

impl Kind {
    /// `detail-type`.
    pub(super) const fn detail_type(self) -> &'static str {
        match self {
            Self::TerminateHook | Self::RootVolume => "EC2 Instance-terminate Lifecycle Action",
            Self::LaunchHook => LAUNCH_ACTION,
            Self::LaunchSuccessful => "EC2 Instance Launch Successful",
            Self::Spot | Self::SpotStop | Self::SpotHibernate => {
                "EC2 Spot Instance Interruption Warning"
            }
            Self::CapacityReservation => "EC2 Capacity Reservation Instance Interruption Warning",
            Self::CapacityBlock => CAPACITY_BLOCK,
            Self::Rebalance => "EC2 Instance Rebalance Recommendation",
            Self::StateChange => "EC2 Instance State-change Notification",
            Self::ScheduledChange => "AWS Health Event",
        }
    }

    /// The pairs of `Origin` and `Destination` that Auto Scaling gives to events of this kind, the
    /// usual one first. Empty: events of this kind name none.
    const fn allowed_moves(self) -> &'static [(Place, Place)] {
        match self {
            Self::TerminateHook => &[
                (Place::Group, Place::Ec2),
                (Place::Group, Place::WarmPool),
                (Place::WarmPool, Place::Ec2),
            ],
            Self::RootVolume => &[(Place::Group, Place::Group)],
            Self::LaunchHook => &[
                (Place::Ec2, Place::Group),
                (Place::Ec2, Place::WarmPool),
                (Place::WarmPool, Place::Group),
            ],
            Self::LaunchSuccessful => &[(Place::WarmPool, Place::Group)],
            _ => &[],
        }
    }

    /// The first allowed pair of `Origin` and `Destination` that has what the flags give. `None`:
    /// events of this kind name none.
    ///
    /// # Errors
    ///
    /// Auto Scaling sends no such event.
    pub(super) fn resolve_move(
        self,
        origin: Option<Place>,
        destination: Option<Place>,
    ) -> Result<Option<(Place, Place)>, NoSuchEvent> {
        let matches = |(from, to): &&(Place, Place)| {
            origin.is_none_or(|o| o == *from) && destination.is_none_or(|d| d == *to)
        };
        let found = self.allowed_moves().iter().find(matches).copied();
        if found.is_some() || (origin.is_none() && destination.is_none()) {
            return Ok(found);
        }
        let kind = self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        let all: Vec<String> = self
            .allowed_moves()
            .iter()
            .map(|(from, to)| format!("{} to {}", from.as_str(), to.as_str()))
            .collect();
        Err(NoSuchEvent(if all.is_empty() {
            format!(
                "`{kind}` events have no origin and no destination; remove --origin and \
                 --destination"
            )
        } else {
            format!(
                "Auto Scaling sends no `{kind}` event with this --origin and --destination; use \
                 one of: {}",
                all.join(", ")
            )
        }))
    }

    /// Checks that events of this kind have a state and a code, if the flags give them.
    ///
    /// # Errors
    ///
    /// They have none.
    pub(super) fn check_state_and_code(
        self,
        state: Option<ChangedState>,
        code: Option<&str>,
    ) -> Result<(), NoSuchEvent> {
        let refused = |flag: &str, kind: &str| {
            let text = format!("only `{kind}` events have it; remove {flag} or set --kind {kind}");
            Err(NoSuchEvent(text))
        };
        match (self, state, code) {
            (kind, Some(_), _) if kind != Self::StateChange => refused("--state", "state-change"),
            (kind, _, Some(_)) if kind != Self::ScheduledChange => {
                refused("--code", "scheduled-change")
            }
            _ => Ok(()),
        }
    }

    /// Whether the event names a Capacity Block and no instance.
    pub(super) const fn names_block(self) -> bool {
        matches!(self, Self::CapacityBlock)
    }

    /// Whether the event names an Auto Scaling group.
    pub(super) const fn has_group(self) -> bool {
        !self.allowed_moves().is_empty()
    }

    /// The transition of the lifecycle hook that the event names; `None`: it names no hook.
    pub(super) const fn transition(self) -> Option<Transition> {
        match self {
            Self::TerminateHook | Self::RootVolume => Some(Transition::Terminating),
            Self::LaunchHook => Some(Transition::Launching),
            _ => None,
        }
    }
}

/// What the event contains.
#[derive(Debug, Clone)]
pub(super) struct About<'a> {
    pub(super) kind: Kind,
    pub(super) instance: &'a InstanceId,
    /// The Auto Scaling group. `None`: the kind names none.
    pub(super) group: Option<&'a str>,
    /// The lifecycle hook. `None`: the kind names none.
    pub(super) hook: Option<&'a str>,
    /// `Origin` and `Destination`. `None`: the kind names none.
    pub(super) moved: Option<(Place, Place)>,
    /// `None`: the kind names none.
    pub(super) reservation: Option<&'a ReservationId>,
    /// The state in a state change.
    pub(super) state: ChangedState,
    /// `eventTypeCode` of a scheduled change.
    pub(super) code: &'a str,
    pub(super) region: &'a str,
    pub(super) account: &'a str,
    pub(super) now: Moment,
    /// A made-up lifecycle action token or event ID.
    pub(super) token: &'a str,
    pub(super) real: bool,
}

/// `detail`.
pub(super) fn detail(about: &About<'_>) -> Value {
    let instance = about.instance.as_str();
    let mut detail = match about.kind {
        Kind::TerminateHook | Kind::RootVolume | Kind::LaunchHook | Kind::LaunchSuccessful => {
            lifecycle(about)
        }
        Kind::Spot => json!({ "instance-id": instance, "instance-action": "terminate" }),
        Kind::SpotStop => json!({ "instance-id": instance, "instance-action": "stop" }),
        Kind::SpotHibernate => json!({ "instance-id": instance, "instance-action": "hibernate" }),
        Kind::CapacityBlock => json!({
            "capacity-reservation-id": about.reservation.map(ReservationId::as_str),
            "end-date": text(about.now.plus(BLOCK_NOTICE)),
        }),
        Kind::CapacityReservation => {
            json!({
                "instance-id": instance, "instance-action": "terminate",
                "instance-termination-time": text(about.now.plus(seconds(120)))
            })
        }
        Kind::Rebalance => json!({ "instance-id": instance }),
        Kind::StateChange => {
            json!({ "instance-id": instance, "state": about.state.of().as_str() })
        }
        Kind::ScheduledChange => json!({
            "eventArn": format!(
                "arn:aws:health:{}::event/EC2/{}/{}",
                about.region, about.code, about.token
            ),
            "service": "EC2", "eventTypeCode": about.code,
            "eventTypeCategory": "scheduledChange",
            "startTime": about.now.plus(seconds(14 * 24 * 3600)).strftime("%a, %d %b %Y %H:%M:%S \
                GMT").to_string(), "statusCode": "upcoming",
            "eventRegion": about.region, "affectedAccount": about.account,
            "eventDescription": [{
                "language": "en_US", "latestDescription": "A test of Sundown."
            }],
            "affectedEntities": [{ "entityValue": instance }],
        }),
    };
    if let Some(detail) = detail.as_object_mut() {
        detail.insert("sundown".to_owned(), json!({ "test": true, "real": about.real }));
    }
    detail
}

/// `detail` of what Auto Scaling sends.
fn lifecycle(about: &About<'_>) -> Value {
    let mut detail = BTreeMap::from([
        ("AutoScalingGroupName", about.group.unwrap_or_default()),
        ("EC2InstanceId", about.instance.as_str()),
    ]);
    if let Some((origin, destination)) = about.moved {
        detail.extend([("Origin", origin.as_str()), ("Destination", destination.as_str())]);
    }
    if let Some(hook) = about.hook {
        detail.extend([("LifecycleActionToken", about.token), ("LifecycleHookName", hook)]);
    }
    if let Some(transition) = about.kind.transition() {
        let word = match transition {
            Transition::Terminating => "autoscaling:EC2_INSTANCE_TERMINATING",
            Transition::Launching => "autoscaling:EC2_INSTANCE_LAUNCHING",
        };
        detail.insert("LifecycleTransition", word);
    }
    if about.kind == Kind::RootVolume {
        detail.insert("Action", "ReplaceRootVolume");
    }
    json!(detail)
}

/// `resources`.
pub(super) fn resources(about: &About<'_>) -> Vec<String> {
    let partition = match about.region {
        region if region.starts_with("cn-") => "aws-cn",
        region if region.starts_with("us-gov-") => "aws-us-gov",
        _ => "aws",
    };
    match (about.kind, about.reservation) {
        (Kind::ScheduledChange, _) => vec![about.instance.to_string()],
        (Kind::CapacityBlock, Some(reservation)) => vec![format!(
            "arn:{partition}:ec2:{}:{}:capacity-reservation/{reservation}",
            about.region, about.account
        )],
        _ => vec![format!(
            "arn:{partition}:ec2:{}:{}:instance/{}",
            about.region, about.account, about.instance
        )],
    }
}

/// The whole event as EventBridge delivers it, for a queue or for `--print`.
pub(super) fn whole(about: &About<'_>, id: &str) -> Value {
    json!({
        "version": "0", "id": id, "detail-type": about.kind.detail_type(), "source": TEST_SOURCE,
        "account": about.account,
        "time": text(about.now), "region": about.region, "resources": resources(about),
        "detail": detail(about),
    })
}

fn text(moment: Moment) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Cause, Kind as Said},
        interruption::{Parsed, TestContent, parse},
    };

    #[test]
    fn every_kind_is_parsed_as_a_test_and_never_as_a_real_event() {
        let instance: InstanceId = "i-0123456789abcdef0".parse().unwrap();
        let kinds = Kind::value_variants();
        assert_eq!(kinds.len(), 12);
        let reservation = "cr-1234567890abcdef0".parse().unwrap();
        for (kind, real) in kinds.iter().flat_map(|k| [(*k, false), (*k, true)]) {
            let about = About {
                kind,
                instance: &instance,
                group: kind.has_group().then_some("asg"),
                hook: kind.transition().map(|_| "sundown-hook"),
                moved: kind.resolve_move(None, None).unwrap(),
                reservation: Some(&reservation),
                state: ChangedState::default(),
                code: RETIREMENT,
                region: "eu-west-1",
                account: "123456789012",
                now: "2026-01-05T09:00:00Z".parse().unwrap(),
                token: "71514b9d-6a40-4b26-8523-05e7ee35fa40",
                real,
            };
            let body = whole(&about, "b2f3e6c2-0001-4b26-8523-05e7ee35fa40").to_string();
            let Ok(Parsed::Test(test)) = parse(&body) else {
                panic!("{kind:?}: {:?}", parse(&body))
            };
            let all = match test.content {
                TestContent::Interruptions(all) => all,
                TestContent::CapacityBlock(block) => {
                    assert_eq!(block.reservation, reservation);
                    assert_eq!(block.ends, Some("2026-01-05T09:40:00Z".parse().unwrap()));
                    vec![block.of(instance.clone())]
                }
            };
            let [only] = all.as_slice() else { panic!("{kind:?}: {all:?}") };
            assert_eq!(
                (test.real, only.instance.clone(), only.time),
                (real, instance.clone(), Some(about.now)),
                "{kind:?}"
            );
            let name = kind.to_possible_value().unwrap().get_name().to_owned();
            assert_eq!(Some(only.kind()), Said::from_word(&name));
            assert_eq!(only.hook().is_some_and(|h| h.token.is_some()), kind.transition().is_some());
        }
    }

    #[test]
    fn a_state_change_has_each_state_and_a_scheduled_change_each_code_that_sundown_acts_on() {
        let instance: InstanceId = "i-0123456789abcdef0".parse().unwrap();
        let cause = |kind: Kind, state: ChangedState, code: &str| {
            let about = About {
                kind,
                instance: &instance,
                group: None,
                hook: None,
                moved: None,
                reservation: None,
                state,
                code,
                region: "eu-west-1",
                account: "123456789012",
                now: "2026-01-05T09:00:00Z".parse().unwrap(),
                token: "71514b9d-6a40-4b26-8523-05e7ee35fa40",
                real: false,
            };
            let body = whole(&about, "b2f3e6c2-0001-4b26-8523-05e7ee35fa40").to_string();
            let Ok(Parsed::Test(test)) = parse(&body) else { panic!("{:?}", parse(&body)) };
            let TestContent::Interruptions(mut all) = test.content else { panic!("{body}") };
            all.remove(0).cause
        };
        for state in ChangedState::value_variants() {
            let found = cause(Kind::StateChange, *state, RETIREMENT);
            assert_eq!(found, Cause::StateChange(state.of()), "{state:?}");
        }
        for code in [RETIREMENT, "AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED"] {
            let found = cause(Kind::ScheduledChange, ChangedState::default(), code);
            let Cause::ScheduledChange(notice) = found else { panic!("{found:?}") };
            assert_eq!(notice.code, code);
        }
    }

    #[test]
    fn a_state_and_a_code_are_refused_where_no_event_has_them() {
        let (state, code) = (Some(ChangedState::Terminated), Some(RETIREMENT));
        for (kind, state, code, refused) in [
            (Kind::StateChange, state, None, None),
            (Kind::ScheduledChange, None, code, None),
            (Kind::Spot, None, None, None),
            (Kind::Spot, state, None, Some("remove --state or set --kind state-change")),
            (Kind::StateChange, None, code, Some("remove --code or set --kind scheduled-change")),
            (Kind::ScheduledChange, state, code, Some("remove --state")),
        ] {
            let found = kind.check_state_and_code(state, code).err().map(|e| e.to_string());
            let fits = found.as_deref().zip(refused).is_some_and(|(f, r)| f.contains(r));
            assert!(fits || (found.is_none() && refused.is_none()), "{kind:?}: {found:?}");
        }
        let long = "A".repeat(101);
        for bad in ["", "reboot", "AWS EC2", long.as_str()] {
            assert!(parse_code(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_instance_moves_between_ec2_its_group_and_the_warm_pool_as_auto_scaling_moves_it() {
        use Place::{Ec2, Group, WarmPool};
        for (kind, origin, destination, moved) in [
            (Kind::TerminateHook, None, None, Some((Group, Ec2))),
            (Kind::TerminateHook, None, Some(WarmPool), Some((Group, WarmPool))),
            (Kind::TerminateHook, Some(WarmPool), None, Some((WarmPool, Ec2))),
            (Kind::LaunchHook, None, None, Some((Ec2, Group))),
            (Kind::LaunchHook, None, Some(WarmPool), Some((Ec2, WarmPool))),
            (Kind::LaunchHook, Some(WarmPool), Some(Group), Some((WarmPool, Group))),
            (Kind::RootVolume, None, None, Some((Group, Group))),
            (Kind::LaunchSuccessful, None, None, Some((WarmPool, Group))),
            (Kind::Spot, None, None, None),
        ] {
            assert_eq!(kind.resolve_move(origin, destination).unwrap(), moved, "{kind:?}");
        }
        let no_pool = Kind::Spot.resolve_move(None, Some(WarmPool)).unwrap_err().to_string();
        assert!(no_pool.contains("`spot` events have no origin"), "{no_pool}");
        let backward = Kind::LaunchHook.resolve_move(Some(Group), None).unwrap_err().to_string();
        assert!(backward.contains("use one of: EC2 to AutoScalingGroup, "), "{backward}");
    }
}

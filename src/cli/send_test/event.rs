//! Builds a test event. Apart from its source it looks like AWS's event of that kind. No I/O.

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::{
    domain::{BLOCK_NOTICE, InstanceId, Moment, ReservationId, seconds},
    interruption::{CAPACITY_BLOCK, TEST_SOURCE},
};

/// The kind of interruption that a test event imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A terminate hook waits
    Terminate,
    /// A launch hook waits
    Launch,
    /// A spot interruption in two minutes
    Spot,
    /// An interruptible Capacity Reservation is taken back in two minutes
    #[value(alias = "capacity")]
    CapacityReservation,
    /// The Capacity Block of the instance ends in 40 minutes
    CapacityBlock,
    /// A rebalance recommendation
    Rebalance,
    /// The instance is stopping
    State,
    /// AWS Health announces a retirement
    #[value(alias = "health")]
    ScheduledChange,
}

impl Kind {
    /// `detail-type`.
    pub(super) const fn detail_type(self) -> &'static str {
        match self {
            Self::Terminate => "EC2 Instance-terminate Lifecycle Action",
            Self::Launch => "EC2 Instance-launch Lifecycle Action",
            Self::Spot => "EC2 Spot Instance Interruption Warning",
            Self::CapacityReservation => "EC2 Capacity Reservation Instance Interruption Warning",
            Self::CapacityBlock => CAPACITY_BLOCK,
            Self::Rebalance => "EC2 Instance Rebalance Recommendation",
            Self::State => "EC2 Instance State-change Notification",
            Self::ScheduledChange => "AWS Health Event",
        }
    }

    /// Whether the event names a Capacity Block and no instance.
    pub(super) const fn names_block(self) -> bool {
        matches!(self, Self::CapacityBlock)
    }

    /// Whether the event names a lifecycle hook.
    pub(super) const fn has_hook(self) -> bool {
        matches!(self, Self::Terminate | Self::Launch)
    }
}

/// What the event contains.
#[derive(Debug, Clone)]
pub(super) struct About<'a> {
    pub(super) kind: Kind,
    pub(super) instance: &'a InstanceId,
    /// Group and hook. `None`: the kind has no hook.
    pub(super) hook: Option<(&'a str, &'a str)>,
    /// `None`: the kind names none.
    pub(super) reservation: Option<&'a ReservationId>,
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
        Kind::Terminate | Kind::Launch => hook(about),
        Kind::Spot => json!({ "instance-id": instance, "instance-action": "terminate" }),
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
        Kind::State => json!({ "instance-id": instance, "state": "stopping" }),
        Kind::ScheduledChange => json!({
            "eventArn": format!(
                "arn:aws:health:{}::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/{}",
                about.region, about.token
            ),
            "service": "EC2", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
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

fn hook(about: &About<'_>) -> Value {
    let (group, hook) = about.hook.unwrap_or_default();
    let (transition, origin, destination) = match about.kind {
        Kind::Launch => ("autoscaling:EC2_INSTANCE_LAUNCHING", "EC2", "AutoScalingGroup"),
        _ => ("autoscaling:EC2_INSTANCE_TERMINATING", "AutoScalingGroup", "EC2"),
    };
    json!({
        "LifecycleActionToken": about.token, "AutoScalingGroupName": group,
        "LifecycleHookName": hook, "EC2InstanceId": about.instance.as_str(),
        "LifecycleTransition": transition, "Origin": origin, "Destination": destination,
    })
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
        domain::Kind as Said,
        interruption::{Parsed, TestContent, parse},
    };

    #[test]
    fn every_kind_is_parsed_as_a_test_and_never_as_a_real_event() {
        let instance: InstanceId = "i-0123456789abcdef0".parse().unwrap();
        let kinds = Kind::value_variants();
        assert_eq!(kinds.len(), 8);
        let reservation = "cr-1234567890abcdef0".parse().unwrap();
        for (kind, real) in kinds.iter().flat_map(|k| [(*k, false), (*k, true)]) {
            let about = About {
                kind,
                instance: &instance,
                hook: Some(("asg", "sundown-terminate")),
                reservation: Some(&reservation),
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
            let expected = match kind {
                Kind::Terminate => Said::TerminateHook,
                Kind::Launch => Said::LaunchHook,
                Kind::Spot => Said::Spot,
                Kind::CapacityReservation => Said::CapacityReservation,
                Kind::CapacityBlock => Said::CapacityBlock,
                Kind::Rebalance => Said::Rebalance,
                Kind::State => Said::StateChange,
                Kind::ScheduledChange => Said::ScheduledChange,
            };
            assert_eq!(only.kind(), expected);
            assert_eq!(only.hook().is_some_and(|h| h.token.is_some()), kind.has_hook());
        }
    }
}

//! Judges a queue's attributes, its policy, and the EventBridge rules that fill it. No I/O.

mod senders;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

pub(super) use self::senders::senders;
use self::senders::{locked, policy, words};
use super::{ask_groups::LaunchHook, finding::Finding};
use crate::{
    aws::{AwsError, EntryFailure, RuleFacts},
    cli::words::count,
    config::duration_text,
    domain::{Kind, Response, Responses},
    interruption::{CAPACITY_BLOCK, CAPACITY_BLOCK_TOO, LAUNCH_ACTION},
};

/// Without this event Sundown drains nothing on a scale-in.
const TERMINATE: &str = "EC2 Instance-terminate Lifecycle Action";
/// A change of leader adds one or two receives to a message that is not decided yet: the long poll
/// of the old leader may receive it once more.
const LEAST_RECEIVES: u64 = 10;

/// The dead-letter queue in the redrive policy of another queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadLetters {
    pub(super) arn: String,
    pub(super) max_receives: u64,
}

/// Judges the attributes of a queue except its redrive policy.
pub(super) fn judge(name: &str, attributes: &BTreeMap<String, String>) -> Vec<Finding> {
    vec![
        retention(name, attributes),
        encryption(name, attributes),
        policy(name, &senders(attributes)),
        locked(name, senders(attributes).others),
    ]
}

fn seconds(attributes: &BTreeMap<String, String>, name: &str) -> Option<Duration> {
    attributes.get(name).and_then(|text| text.parse().ok()).map(Duration::from_secs)
}

fn retention(name: &str, attributes: &BTreeMap<String, String>) -> Finding {
    const POINT: &str = "queue.retention";
    match seconds(attributes, "MessageRetentionPeriod") {
        Some(kept) if kept < Duration::from_hours(24) => {
            let message = format!(
                "messages are kept for {}: during a longer outage messages are lost",
                duration_text(kept)
            );
            Finding::no(POINT, name, message, "set MessageRetentionPeriod to 345600 (four days)")
                .advice()
        }
        Some(kept) => {
            Finding::yes(POINT, name, format!("messages are kept for {}", duration_text(kept)))
        }
        None => Finding::cannot_tell(
            POINT,
            name,
            "SQS did not report for how long messages are kept",
            "ask again",
        )
        .advice(),
    }
}

fn encryption(name: &str, attributes: &BTreeMap<String, String>) -> Finding {
    const POINT: &str = "queue.encryption";
    match attributes.get("KmsMasterKeyId").map(String::as_str).filter(|key| !key.is_empty()) {
        Some(key) if key.ends_with("alias/aws/sqs") => {
            let remedy = "encrypt it by SQS itself (SqsManagedSseEnabled), or under a key of your \
                own whose policy lets events.amazonaws.com use it";
            Finding::no(
                POINT,
                name,
                format!(
                    "it is encrypted under {key}, which EventBridge can never use: no event arrives"
                ),
                remedy,
            )
        }
        Some(key) => {
            let remedy = "see that the key's policy allows kms:Decrypt and kms:GenerateDataKey to \
                events.amazonaws.com, and the role's kms:Decrypt; send a test event";
            Finding::cannot_tell(
                POINT,
                name,
                format!("it is encrypted under {key}, whose policy is not looked at"),
                remedy,
            )
            .advice()
        }
        None if attributes.get("SqsManagedSseEnabled").is_some_and(|on| on == "true") => {
            Finding::yes(POINT, name, "it is encrypted by SQS")
        }
        None => Finding::no(POINT, name, "it is not encrypted", "set SqsManagedSseEnabled to true")
            .advice(),
    }
}

/// The dead-letter queue of a queue, from its redrive policy.
pub(super) fn dead_letters(attributes: &BTreeMap<String, String>) -> Option<DeadLetters> {
    let policy: Value = serde_json::from_str(attributes.get("RedrivePolicy")?).ok()?;
    let count = policy.get("maxReceiveCount")?;
    let max_receives = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    Some(DeadLetters { arn: policy.get("deadLetterTargetArn")?.as_str()?.to_owned(), max_receives })
}

/// The URL of the queue `arn`, at the same endpoint as `url`.
pub(super) fn url_beside(url: &str, arn: &str) -> Option<String> {
    let mut parts = arn.rsplit(':');
    let (name, account) = (parts.next()?, parts.next()?);
    let origin = url::Url::parse(url).ok()?.origin().ascii_serialization();
    Some(format!("{origin}/{account}/{name}"))
}

/// Judges the redrive policy of a queue. `dead`: the attributes of the dead-letter queue, or the
/// error of asking for them. `None`: they were not asked for.
pub(super) fn redrive(
    name: &str,
    attributes: &BTreeMap<String, String>,
    target: Option<&DeadLetters>,
    dead: Option<Result<&BTreeMap<String, String>, &AwsError>>,
) -> Finding {
    const POINT: &str = "queue.redrive";
    let Some(target) = target else {
        let remedy =
            "give it a dead-letter queue, with maxReceiveCount 10 and a retention of 14 days";
        return Finding::no(
            POINT,
            name,
            "it has no dead-letter queue: a message that Sundown cannot parse is received again \
             and again",
            remedy,
        )
        .advice();
    };
    if target.max_receives < LEAST_RECEIVES {
        let message = format!(
            "after {} receives a message is a dead letter; each change of leader costs one or two",
            target.max_receives
        );
        return Finding::no(POINT, name, message, "set maxReceiveCount to 10").advice();
    }
    let of_queue = seconds(attributes, "MessageRetentionPeriod");
    match dead {
        Some(Ok(dead)) => match (seconds(dead, "MessageRetentionPeriod"), of_queue) {
            (Some(kept), Some(of_queue)) if kept <= of_queue => {
                let message = format!(
                    "{} keeps messages for {}, from when they were first sent: no longer than \
                     this queue",
                    target.arn,
                    duration_text(kept)
                );
                Finding::no(
                    POINT,
                    name,
                    message,
                    "set its MessageRetentionPeriod to 1209600 (14 days)",
                )
                .advice()
            }
            _ => Finding::yes(
                POINT,
                name,
                format!("after {} receives to {}", target.max_receives, target.arn),
            ),
        },
        Some(Err(error)) => Finding::of_look_up(POINT, name, error),
        None => Finding::yes(
            POINT,
            name,
            format!(
                "after {} receives to {}, which was not looked at",
                target.max_receives, target.arn
            ),
        ),
    }
}

/// Judges a call with a made-up receipt handle: whether the role may make this call at all.
pub(super) fn bogus(
    point: &'static str,
    name: &str,
    permission: &str,
    answer: &Result<Vec<EntryFailure>, AwsError>,
) -> Finding {
    match answer {
        Ok(failures) => match failures.iter().find(|f| f.code.contains("Denied")) {
            Some(denied) => Finding::no(
                point,
                name,
                denied.code.clone(),
                format!("allow {permission} in the role's policy"),
            ),
            None => Finding::yes(point, name, "allowed (a made-up receipt was refused as such)"),
        },
        // The whole call was refused because of the receipt. AWS checks the permission before that.
        Err(error) if error.code().contains("ReceiptHandle") => {
            Finding::yes(point, name, "allowed (a made-up receipt was refused as such)")
        }
        Err(error) => Finding::of_error(point, name, error),
    }
}

/// Judges an EventBridge rule that should send to the queue.
pub(super) fn rule(queue_arn: &str, rule: &RuleFacts) -> Vec<Finding> {
    const POINT: &str = "rule";
    let name = rule.name.as_str();
    if !rule.state.starts_with("ENABLED") {
        return vec![Finding::no(
            POINT,
            name,
            format!("it is {}", rule.state),
            format!("aws events enable-rule --name {name}"),
        )];
    }
    let Some(target) = rule.targets.iter().find(|t| t.arn == queue_arn) else {
        return vec![Finding::no(
            POINT,
            name,
            "the queue is not one of its targets",
            format!("aws events put-targets --rule {name} with the queue's ARN"),
        )];
    };
    let mut found = Vec::new();
    if target.transforms {
        let message = "its target changes the event on the way: Sundown will not understand it";
        found.push(Finding::no(
            POINT,
            name,
            message,
            "take Input, InputPath and InputTransformer off the target",
        ));
    }
    if target.attempts == Some(0) {
        let message = "its target tries once: MaximumRetryAttempts is 0";
        found.push(
            Finding::no(
                POINT,
                name,
                message,
                "set both MaximumRetryAttempts (185) and MaximumEventAgeInSeconds (3600)",
            )
            .advice(),
        );
    }
    if found.is_empty() {
        let tests = if takes_tests(rule) { "; test events too" } else { "" };
        let types = detail_types(rule).into_iter().collect::<Vec<_>>().join(", ");
        found.push(Finding::yes(POINT, name, format!("brings {types}{tests}")));
    }
    found
}

fn takes_tests(rule: &RuleFacts) -> bool {
    let pattern: Value = serde_json::from_str(&rule.pattern).unwrap_or_default();
    words(pattern.get("source")).contains(&crate::interruption::TEST_SOURCE)
}

fn detail_types(rule: &RuleFacts) -> BTreeSet<String> {
    let pattern: Value = serde_json::from_str(&rule.pattern).unwrap_or_default();
    words(pattern.get("detail-type")).into_iter().map(str::to_owned).collect()
}

/// The rules of a queue, if all of them are known.
#[derive(Debug)]
pub(super) struct KnownRules {
    /// The name of the queue.
    pub(super) queue: String,
    /// The ARN of the queue.
    pub(super) arn: String,
    pub(super) rules: Vec<RuleFacts>,
}

/// The events that rules must bring, and the kinds that come by each. `Launch Successful` has no
/// kind that `--on` can name. [`LAUNCH_ACTION`] is not here: without a launch hook it never comes.
const WANTED: [(&[Kind], &str); 8] = [
    (&[Kind::Spot, Kind::SpotStop, Kind::SpotHibernate], "EC2 Spot Instance Interruption Warning"),
    (&[Kind::StateChange], "EC2 Instance State-change Notification"),
    (&[Kind::CapacityReservation], "EC2 Capacity Reservation Instance Interruption Warning"),
    (&[Kind::CapacityBlock], CAPACITY_BLOCK),
    (&[Kind::CapacityBlock], CAPACITY_BLOCK_TOO),
    (&[Kind::Rebalance], "EC2 Instance Rebalance Recommendation"),
    (&[Kind::ScheduledChange], "AWS Health Event"),
    (&[], "EC2 Instance Launch Successful"),
];

/// Whether the rules together send all events that Sundown acts on to this queue. `launch_hook`:
/// whether a group has one that Sundown answers, which needs a rule of its own.
pub(super) fn coverage(
    known: &KnownRules,
    responses: &Responses,
    launch_hook: &LaunchHook,
) -> Finding {
    const POINT: &str = "rules";
    let KnownRules { queue: name, arn, rules } = known;
    let brings = |rule: &&RuleFacts| {
        rule.state.starts_with("ENABLED")
            && rule.targets.iter().any(|t| t.arn == *arn && !t.transforms)
    };
    let brought: BTreeSet<String> = rules.iter().filter(brings).flat_map(detail_types).collect();
    let acts_on = |kinds: &[Kind]| {
        kinds.is_empty() || kinds.iter().any(|kind| responses.of(*kind) > Response::Ignore)
    };
    if acts_on(&[Kind::TerminateHook, Kind::RootVolume]) && !brought.contains(TERMINATE) {
        return Finding::no(
            POINT,
            name,
            format!("no rule brings `{TERMINATE}`: Sundown does not notice scale-ins"),
            "add that rule (docs/install.md, step 2)",
        );
    }
    let wanted = WANTED.into_iter().filter(|(kinds, _)| acts_on(kinds)).map(|(_, event)| event);
    let mut missing: Vec<_> = wanted.filter(|event| !brought.contains(*event)).collect();
    let lacks_rule = acts_on(&[Kind::LaunchHook]) && !brought.contains(LAUNCH_ACTION);
    let (launch_hook, is_known) = match launch_hook {
        LaunchHook::Found(hook) if lacks_rule => (Some(hook), true),
        LaunchHook::NotKnown => (None, !lacks_rule),
        LaunchHook::Found(_) | LaunchHook::None => (None, true),
    };
    let mut remedies = Vec::new();
    if !missing.is_empty() {
        remedies.push("add the rule (docs/install.md, step 2), or set --on KIND=ignore");
    }
    if launch_hook.is_some() {
        missing.push(LAUNCH_ACTION);
        remedies.push("add the rule of launch hooks (docs/commands.md, \"sundown enroll\")");
    }
    if missing.is_empty() {
        return Finding::yes(
            POINT,
            name,
            format!(
                "every event that Sundown acts on is brought by {}{}",
                count(rules.iter().filter(brings).count(), "rule"),
                if is_known {
                    ""
                } else {
                    " (whether a launch hook needs a rule of its own is not known)"
                }
            ),
        );
    }
    let which = launch_hook
        .map_or_else(String::new, |hook| format!(", which the launch hook {hook} needs"));
    let message = format!("no rule brings `{}`{which}", missing.join("` nor `"));
    Finding::no(POINT, name, message, remedies.join("; ")).advice()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests;

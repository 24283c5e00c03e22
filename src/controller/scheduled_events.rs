//! Asks EC2 for the scheduled events of our instances, and notes them as if AWS Health had announced
//! them: a message may be lost, or may have come before its instance had a Node. A Node that
//! registers again has lost its annotation; this writes it anew.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use tracing::{debug, warn};

use super::{context::Term, decision::Decision, planned, rounds};
use crate::{
    aws::AwsError,
    domain::{
        ChangeAction, HealthNotice, InstanceStatus, Interruption, Kind, Moment, Node,
        ScheduledEvent, seconds,
    },
    observe::SweepResult,
    record::{self, Plan},
    triage::{RoundFailure, Rounds},
};

/// How many events are decided at once, and how long a decision lasts at most. A later round finds
/// the event again.
const MAX_CONCURRENT: usize = 16;
const TIMEOUT: Duration = seconds(30);

/// Whether EC2 answered the last round. Then a change whose message was deleted without a Node to
/// note it on is not lost.
#[derive(Debug, Default)]
pub(super) struct EventsAreFound(AtomicBool);

impl EventsAreFound {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, is_answered: bool) {
        self.0.store(is_answered, Ordering::Relaxed);
    }
}

/// Runs until the end of the term. A dry run does not start it.
pub(super) async fn run(term: Arc<Term>) {
    let Some(interval) = term.shared.config.drain.scheduled_events else { return };
    if term.shared.policy.ignores(Kind::ScheduledChange).is_some() {
        return;
    }
    // Without the Nodes, no event would have one.
    term.shared.nodes.synced().await;
    let (clock, random) = (term.shared.clock, term.shared.random.clone());
    // Replicas that take over after one another do not all ask at once.
    let first = interval.mul_f64(random.fraction() / 2.0);
    let mut rounds = Rounds::new(clock.now(), interval, random.fraction());
    let mut next = clock.now().plus(first);
    loop {
        clock.sleep_until(next).await;
        let result = round(&term).await;
        if rounds.ended(clock.now(), result, random.fraction()) {
            warn!(
                "EC2 has not answered three searches for scheduled events in a row: a scheduled \
                 change whose message is lost, or comes before its instance has a Node, drains no \
                 node meanwhile."
            );
        }
        next = rounds.next();
    }
}

/// Asks EC2 once.
async fn round(term: &Arc<Term>) -> Result<(), RoundFailure> {
    let answer = term.shared.aws.ec2().instances_with_events().await;
    term.shared.events_are_found.set(answer.is_ok());
    let instances = match answer {
        Ok(instances) => instances,
        Err(error) => {
            return Err(failed(term, &error));
        }
    };
    term.shared.metrics.scheduled_event_round(SweepResult::Answered);
    let now = term.aws_now();
    let news = instances.iter().map(|instance| news(term, instance, now));
    // One event of an instance after the other: what the first changes decides about the next.
    stream::iter(news.collect::<Vec<_>>())
        .for_each_concurrent(MAX_CONCURRENT, |events| async move {
            for new in events {
                decide(term, new).await;
            }
        })
        .await;
    Ok(())
}

/// The open events first: an event that replaces a canceled one joins the change before that ends.
fn open_first(events: &[ScheduledEvent]) -> impl Iterator<Item = &ScheduledEvent> {
    let (over, open): (Vec<_>, Vec<_>) = events.iter().partition(|event| event.is_over());
    open.into_iter().chain(over)
}

/// An event that the Nodes of its instance do not show as it is now.
struct New {
    interruption: Interruption,
    /// What is remembered once the event is noted, so that it is not new again.
    keys: Vec<String>,
}

/// The new events of this instance.
fn news(term: &Term, instance: &InstanceStatus, now: Moment) -> Vec<New> {
    let nodes = term.shared.nodes.by_instance(&instance.id);
    let nodes: Vec<_> = nodes.into_iter().filter(|node| term.manages(node)).collect();
    let Some(first) = nodes.first() else { return Vec::new() };
    let mut news = Vec::new();
    for event in open_first(&instance.events) {
        let notice = Arc::new(HealthNotice::of_ec2(event));
        let id = notice.ec2_event_id();
        let interruption = notice.of(instance.id.clone(), &id, Some(now));
        if notice.action() == ChangeAction::Report {
            if !event.is_over() {
                planned::report_only(term, &interruption, Some(&first.name));
            }
            continue;
        }
        let at = planned::plan_time(term);
        let lacks = |node: &&Arc<Node>| record::plan(node, &interruption, at) != Plan::Repeat;
        let lacking: Vec<_> = nodes.iter().filter(lacks).collect();
        // If several Nodes claim the instance, some of them never get the annotation. So an event
        // that was noted is new only once for each of them.
        let key = |node: &&Arc<Node>| format!("{id} is new for {}", node.uid);
        let keys = if nodes.len() > 1 { lacking.iter().map(key).collect() } else { vec![] };
        let was_noted =
            |keys: &[String]| !keys.is_empty() && keys.iter().all(|key| term.was_reported(key));
        if !lacking.is_empty() && !was_noted(&keys) {
            news.push(New { interruption, keys });
        }
    }
    news
}

/// Notes an event on its Nodes, as the message of AWS Health would be.
async fn decide(term: &Arc<Term>, New { interruption, keys }: New) {
    let mut decision = Decision::shown_by_ec2(Arc::clone(term), interruption);
    if decision.decide_within(TIMEOUT).await {
        for key in keys {
            term.is_first_report(&key);
        }
    }
}

fn failed(term: &Term, error: &AwsError) -> RoundFailure {
    let failure = rounds::failure(error);
    term.shared.metrics.scheduled_event_round(rounds::label(failure));
    if failure == RoundFailure::Denied && term.is_first_report("scheduled events are denied") {
        warn!(
            %error,
            "Sundown may not call DescribeInstanceStatus: a scheduled change whose message is lost, \
             or comes before its instance has a Node, drains no node. Allow \
             ec2:DescribeInstanceStatus in the role's policy, or set --scheduled-event-interval 0s."
        );
    } else {
        debug!(%error, "A search for scheduled events failed.");
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_events_of_an_instance_are_decided_first() {
        let event = |id: &str, description: &str| ScheduledEvent {
            id: id.to_owned(),
            code: "instance-stop".to_owned(),
            description: description.to_owned(),
            not_before: None,
            not_after: None,
        };
        let events = [event("a", "[Canceled] x"), event("b", "x"), event("c", "[Completed] x")];
        let order: Vec<_> = open_first(&events).map(|event| event.id.as_str()).collect();
        assert_eq!(order, ["b", "a", "c"]);
    }
}

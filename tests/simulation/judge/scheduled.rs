//! Scheduled changes that only EC2 shows: no message tells of them. What EC2 has scheduled is as good
//! as a notice from the moment on at which a process asked for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::{
        aws::{Delivery, Outcome, PlannedEvent},
        kube::{Entry, Fact},
    },
};

use super::{
    Evidence, is_us,
    sent::{Change, Event, Kind, Notice},
    written::{Written, interruptions},
};

/// What the ID of an event of EC2 begins with.
pub const EC2_EVENT: &str = "instance-event-";
/// The end of the ID of an event that is over.
const OVER: &str = "@over";

/// What EC2 has scheduled, as notices: what stands in a record by its time there, and what is over
/// when EC2 said so.
pub fn notices(evidence: &Evidence) -> Vec<Notice> {
    let over = evidence.scheduled.iter().filter_map(|(at, instance, event)| {
        let change = Change::of_ec2(event, *at + evidence.aws_ahead);
        let id = format!("{}{OVER}", event.id);
        change.is_closed.then(|| notice(evidence, instance, id, (*at, *at), event, change))
    });
    let mut all: Vec<Notice> = over.collect();
    let mut known = BTreeSet::new();
    for Entry { at, by, fact } in &evidence.entries {
        let Fact::Annotated { provider_id, annotations, .. } = fact else { continue };
        let record = annotations.get("sundown.dev/record");
        let record = record.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let instance = provider_id.rsplit('/').next().unwrap_or_default();
        for written in record.iter().filter(|_| is_us(by)).flat_map(interruptions) {
            if !known.insert((instance.to_owned(), written.event.clone())) {
                continue;
            }
            let Some((since, event)) = shown(evidence, instance, &written) else { continue };
            let seen = written.time - evidence.aws_ahead;
            // A time in a record has whole seconds.
            let is_asked = evidence.calls.iter().any(|call| {
                call.api == "ec2:DescribeInstanceStatus"
                    && call.outcome == Outcome::Ok
                    && call.at >= since
                    && call.at <= *at
            });
            if is_asked {
                let change = Change::of_ec2(event, since + evidence.aws_ahead);
                let id = written.event.clone();
                all.push(notice(evidence, instance, id, (seen.min(*at), seen), event, change));
            }
        }
    }
    all
}

/// What EC2 had scheduled when this was written.
fn shown<'a>(
    evidence: &'a Evidence,
    instance: &str,
    written: &Written,
) -> Option<(Moment, &'a PlannedEvent)> {
    let id = written.event.split('@').next()?;
    let is_it = |(_, of, event): &&(Moment, String, PlannedEvent)| {
        // EC2's times have whole seconds.
        let starts = written.ends.map(Moment::as_second);
        of == instance && event.id == id && starts == Some(event.not_before.as_second())
    };
    evidence.scheduled.iter().find(is_it).map(|(at, _, event)| (*at, event))
}

/// `times`: when it was there to be seen, and its own time, by our clock.
fn notice(
    evidence: &Evidence,
    instance: &str,
    id: String,
    times: (Moment, Moment),
    event: &PlannedEvent,
    change: Change,
) -> Notice {
    let (sent, time) = times;
    let event = Event {
        kind: Kind::ScheduledChange,
        id,
        time: Some(time + evidence.aws_ahead),
        instance: instance.to_owned(),
        block: None,
        change: Some(change),
        state: None,
        ends: Moment::from_second(event.not_before.as_second()).ok(),
        hook: None,
        token: None,
        is_test: false,
        is_real_test: false,
        settings: BTreeMap::new(),
    };
    let ahead = evidence.aws_ahead;
    let deliveries = vec![Delivery { at: sent, by: "sundown".to_owned() }];
    Notice { event, sent, ahead, deliveries, deleted: None }
}

//! What the sweep finds: lifecycle actions of which no message tells. Each entry that Sundown writes
//! for one is as good as a notice if the instance truly waited in that hook: AWS accepted a heartbeat
//! for it after its first sight.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::{
        aws::{ActionReport, Delivery, InstanceChange},
        kube::{Entry, Fact},
    },
};

use super::{
    Evidence, is_us,
    sent::{Event, Kind, Notice, settings},
    written::{Written, interruptions},
};

/// What the event ID of such an entry begins with.
const SWEEP: &str = "sweep:";

/// The entries for which there was reason, as notices. The others have no cause. `notices`: what was
/// sent, which shows AWS's clock.
pub fn notices(evidence: &Evidence, notices: &[Notice]) -> Vec<Notice> {
    if evidence.terms.each("--sweep-interval").iter().all(|interval| *interval == "0s") {
        return Vec::new();
    }
    let (mut all, mut known) = (Vec::new(), BTreeSet::new());
    for Entry { at, by, fact } in &evidence.entries {
        let Fact::Annotated { provider_id, annotations, .. } = fact else { continue };
        let record = annotations.get("sundown.dev/record");
        let record = record.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let instance = provider_id.rsplit('/').next().unwrap_or_default();
        for written in record.iter().filter(|_| is_us(by)).flat_map(interruptions) {
            let key = (instance.to_owned(), written.event.clone(), written.hook.clone());
            if !written.event.starts_with(SWEEP) || !known.insert(key) {
                continue;
            }
            let before = notices.iter().rev().find(|n| n.sent <= *at);
            let ahead = before.map_or(evidence.aws_ahead, |n| n.ahead);
            let first_seen = written.time - ahead;
            let is_ending = || is_seen_ending(evidence, instance, &written, first_seen);
            if evidence.actions.iter().any(|a| is_found(a, instance, &written, first_seen, *at))
                || is_ending()
            {
                let deliveries = vec![Delivery { at: first_seen.min(*at), by: by.clone() }];
                let event = event(evidence, instance, &written);
                all.push(Notice { event, sent: *at, ahead, deliveries, deleted: None });
            }
        }
    }
    all
}

/// The instance waited in the hook when it was first seen, and AWS accepted a heartbeat since.
fn is_found(
    action: &ActionReport,
    instance: &str,
    written: &Written,
    first_seen: Moment,
    at: Moment,
) -> bool {
    let is_hook = written
        .hook
        .as_ref()
        .is_some_and(|(group, hook)| *group == action.group && *hook == action.hook);
    // AWS's clock can be measured to half a second, and a time in a record has whole ones.
    let seen = first_seen + std::time::Duration::from_secs(2);
    is_hook
        && action.instance == instance
        && action.started <= seen
        && action
            .heartbeats
            .iter()
            .any(|beat| *beat + std::time::Duration::from_secs(2) >= first_seen && *beat <= at)
}

/// EC2 was shutting the instance down when it was asked.
fn is_seen_ending(
    evidence: &Evidence,
    instance: &str,
    written: &Written,
    first_seen: Moment,
) -> bool {
    // The time of the question is as exact as AWS's clock can be measured: the state may have
    // changed just before it, or just after it.
    const CLOCKS: Duration = Duration::from_secs(2);
    let states: Vec<_> = evidence.changes.iter().filter(|c| c.id == instance).collect();
    let is_shown = |(i, change): (usize, &&InstanceChange)| {
        let lasted = states.get(i + 1).is_none_or(|next| next.at + CLOCKS >= first_seen);
        change.at <= first_seen + CLOCKS
            && lasted
            && written.state.as_deref() == Some(change.state.as_str())
    };
    // Some runs do not note the states of instances.
    written.kind == "state-change"
        && (evidence.changes.is_empty() || states.iter().enumerate().any(is_shown))
}

fn event(evidence: &Evidence, instance: &str, written: &Written) -> Event {
    let kind = match written.kind.as_str() {
        "root-volume" => Kind::RootVolume,
        "launch-hook" => Kind::LaunchHook,
        "state-change" => Kind::StateChange,
        _ => Kind::TerminateHook,
    };
    Event {
        kind,
        id: written.event.clone(),
        time: Some(written.time),
        instance: instance.to_owned(),
        block: None,
        change: None,
        state: written.state.clone(),
        ends: None,
        hook: written.hook.clone(),
        token: None,
        is_test: false,
        is_real_test: false,
        // The sweep reads them from the description of the hook.
        settings: written
            .hook
            .as_ref()
            .and_then(|hook| evidence.terms.metadata.get(hook))
            .map(|metadata| settings(metadata))
            .unwrap_or_default(),
    }
}

//! Scheduled changes.

use serde_json::{Value, json};
use sundown::sim::{
    aws::{HealthNotice, InstanceChange, State},
    kube::{ConditionState, NodeState},
};

use super::*;

const RECORD: &str = "sundown.dev/record";
const PLANNED: &str = "sundown.dev/planned";

/// The next message about the change.
type Then = fn(&HealthNotice) -> HealthNotice;

/// A retirement was announced, and the node drained five minutes before; then AWS moved or closed
/// it, and the node was put back.
async fn announced(seed: u64, then: Option<Then>) -> Evidence {
    let stage = Stage::new(seed);
    let instance = stage.spot_group(1).remove(0);
    pod(&stage, &instance, "web-0", 1);
    let sundown = led(&stage, &["--scheduled-lead", "5m"]).await;
    let notice = HealthNotice::retirement([instance.clone()], stage.clock.now() + s(400));
    stage.world.aws.health(&notice);
    stage.until(200, "it is drained", || stage.is_cordoned(&instance)).await;
    stage.pass(20).await;
    if let Some(then) = then {
        stage.world.aws.health(&then(&notice));
        stage.until(20, "it is put back", || !stage.is_cordoned(&instance)).await;
    }
    stage.pass(320).await;
    ended(stage, sundown).await
}

fn closed(notice: &HealthNotice) -> HealthNotice {
    HealthNotice { status: "closed".to_owned(), ..notice.clone() }
}

fn moved(notice: &HealthNotice) -> HealthNotice {
    HealthNotice { start: notice.start + s(86_400), ..notice.clone() }
}

pub(super) fn doctored(evidence: &Evidence, change: impl FnOnce(&mut Evidence)) -> Vec<String> {
    let mut evidence = evidence.clone();
    change(&mut evidence);
    judge(&evidence)
}

/// Changes what each write left of a Node.
pub(super) fn edit_states(evidence: &mut Evidence, edit: impl Fn(&mut NodeState)) {
    edit_states_before(evidence, Moment::MAX, edit);
}

pub(super) fn edit_states_before(
    evidence: &mut Evidence,
    end: Moment,
    edit: impl Fn(&mut NodeState),
) {
    for entry in evidence.entries.iter_mut().filter(|entry| entry.at < end) {
        if let Fact::NodeChanged(state) = &mut entry.fact {
            let mut node = (**state).clone();
            edit(&mut node);
            *state = node.into();
        }
    }
}

fn edit_nodes(evidence: &mut Evidence, edit: impl Fn(&mut NodeState)) {
    for entry in &mut evidence.entries {
        match &mut entry.fact {
            Fact::NodeChanged(state) => {
                let mut node = (**state).clone();
                edit(&mut node);
                *state = node.into();
            }
            Fact::Annotated { annotations, .. } => drop(annotations.remove(RECORD)),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_begins_on_a_node_without_a_drain_is_seen() {
    const UNDRAINED: &str = "a scheduled change began, and the node had not been drained";
    let evidence = announced(31, None).await;
    let without_record =
        |e: &mut Evidence| edit_nodes(e, |node| drop(node.annotations.remove(RECORD)));
    breaks(&doctored(&evidence, without_record), UNDRAINED);
    let ignored = |e: &mut Evidence| {
        without_record(e);
        e.terms.flags.push((String::new(), vec!["--on=scheduled-change=ignore".to_owned()]));
    };
    keeps(&doctored(&evidence, ignored), UNDRAINED, "nobody asked for the drain");
    let failing = |e: &mut Evidence| {
        without_record(e);
        let (begun, ended) = (e.begun, e.ended);
        fault(e, "patch nodes", begun, ended);
    };
    keeps(&doctored(&evidence, failing), UNDRAINED, "no Node could be written");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_moves_a_change_and_is_deleted_unnoted_is_seen() {
    const OLDER: &str = "was deleted, and its Node holds an older one";
    for (seed, then) in [(32, moved as Then), (33, closed)] {
        let evidence = announced(seed, Some(then)).await;
        let older = |e: &mut Evidence| {
            edit_nodes(e, |node| {
                let Some(text) = node.annotations.get_mut(PLANNED) else { return };
                let mut planned: Value = serde_json::from_str(text).unwrap();
                planned["changes"][0]["updated"] = json!("2020-01-01T00:00:00Z");
                *text = planned.to_string();
            });
        };
        breaks(&doctored(&evidence, older), OLDER);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_cancellation_or_a_move_that_never_was_is_seen() {
    let canceled = announced(34, Some(closed)).await;
    let moved = announced(35, Some(moved)).await;
    let renamed = |evidence: &Evidence, from: &str, to: &str| {
        doctored(evidence, |e| {
            let events = std::mem::take(&mut e.events);
            let rename = |event: Event| {
                let reason = if event.reason == from { to.to_owned() } else { event.reason };
                Event { reason, ..event }
            };
            e.events = events.into_iter().map(rename).collect();
        })
    };
    let (canceled_reason, moved_reason) = ("ScheduledChangeCanceled", "ScheduledChangeMoved");
    breaks(&renamed(&canceled, canceled_reason, moved_reason), moved_reason);
    breaks(&renamed(&moved, moved_reason, canceled_reason), canceled_reason);
}

/// A retirement was announced with `--maintenance-condition`, canceled after a minute, and announced
/// for another time.
async fn shown() -> Evidence {
    let stage = Stage::new(34);
    let instance = stage.spot_group(1).remove(0);
    let sundown = led(&stage, &["--scheduled-lead", "1m", "--maintenance-condition"]).await;
    let notice = HealthNotice::retirement([instance.clone()], stage.clock.now() + s(900));
    stage.world.aws.health(&notice);
    stage.pass(60).await;
    stage.world.aws.health(&closed(&notice));
    stage.pass(60).await;
    let start = stage.clock.now() + s(200);
    let again = HealthNotice { event: "again".to_owned(), start, ..notice };
    stage.world.aws.health(&again);
    stage.pass(300).await;
    ended(stage, sundown).await
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_does_not_show_an_announced_change_or_shows_another_one_is_seen() {
    const LATE: &str = "MaintenancePlanned was not right";
    let evidence = shown().await;
    let is_shown = |state: &NodeState| state.maintenance.is_some();
    let when_shown = when(&evidence, |f| matches!(f, Fact::NodeChanged(s) if is_shown(s)));
    let edit = |e: &mut Evidence, edit: &dyn Fn(&mut ConditionState)| {
        edit_states(e, |node| node.maintenance.iter_mut().for_each(edit));
    };
    let without = |e: &mut Evidence| edit_states(e, |node| node.maintenance = None);
    breaks(&doctored(&evidence, without), LATE);
    let always = |e: &mut Evidence| {
        edit(e, &|c| {
            c.status = "True".to_owned();
            c.message.push_str(PLANNED);
        });
    };
    breaks(&doctored(&evidence, always), LATE);
    let failing = |e: &mut Evidence| {
        without(e);
        let (begun, ended) = (e.begun, e.ended);
        fault(e, "patch nodes/status", begun, ended);
    };
    keeps(&doctored(&evidence, failing), LATE, "no condition could be written");
    let ignored = |e: &mut Evidence| {
        without(e);
        e.terms.flags[0].1.push("--on=scheduled-change=ignore".to_owned());
    };
    keeps(&doctored(&evidence, ignored), LATE, "nobody asked for it");
    let by_another = |e: &mut Evidence| {
        edit(e, &|c| {
            (c.status, c.message) = ("True".to_owned(), "another one".to_owned());
        });
    };
    keeps(&doctored(&evidence, by_another), LATE, "another writer has set it");
    let other = |e: &mut Evidence| edit(e, &|c| c.message = c.message.replace("event/", "x/"));
    breaks(&doctored(&evidence, other), "shows a change that AWS has not announced");
    let unasked = |e: &mut Evidence| {
        e.terms.flags[0].1.retain(|flag| flag != "--maintenance-condition");
    };
    breaks(&doctored(&evidence, unasked), "without --maintenance-condition");
    let unready = |e: &mut Evidence| {
        for entry in e.entries.iter_mut().filter(|entry| entry.at == when_shown) {
            if let Fact::NodeChanged(state) = &mut entry.fact {
                let node = NodeState { ready: "False".to_owned(), ..(**state).clone() };
                *state = node.into();
            }
        }
    };
    breaks(&doctored(&evidence, unready), "its condition Ready was changed");
    // Another writer had set it before.
    let foreign = |e: &mut Evidence| {
        edit_states_before(e, when_shown, |node| {
            node.maintenance = Some(ConditionState {
                status: "True".to_owned(),
                reason: String::new(),
                message: "by another".to_owned(),
            });
        });
    };
    breaks(&doctored(&evidence, foreign), "of another writer was changed");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_begins_on_a_node_without_a_drain_is_seen_unless_its_instance_had_ended() {
    const UNDRAINED: &str = "a scheduled change began, and the node had not been drained";
    let evidence = announced(31, None).await;
    let (due, (instance, _)) = (accepted(&evidence), node_of(&evidence));
    let ended = |state: State, at: Moment| {
        doctored(&evidence, |e| {
            edit_nodes(e, |node| drop(node.annotations.remove(RECORD)));
            e.changes.push(InstanceChange { id: instance.clone(), state, at });
        })
    };
    keeps(&ended(State::Terminated, due - s(20)), UNDRAINED, "nothing ran on it any more");
    breaks(&ended(State::Terminated, due + s(20)), UNDRAINED);
    breaks(&ended(State::Stopped, due - s(20)), UNDRAINED);
    breaks(&ended(State::Running, due - s(20)), UNDRAINED);
}

#[tokio::test(start_paused = true)]
async fn a_drain_for_a_change_that_was_canceled_is_seen_unless_its_instance_had_ended_by_then() {
    const CANCELED: &str = "which was canceled or moved before";
    let evidence = announced(33, Some(closed)).await;
    keeps(&judge(&evidence), CANCELED, "it was canceled during the drain");
    let (at, (instance, _)) = (accepted(&evidence), node_of(&evidence));
    // AWS canceled it so many seconds before the accept, and the instance ended so many before.
    let canceled = |ago: u64, ended: Option<u64>| {
        doctored(&evidence, |e| {
            let then = at - s(ago);
            for message in e.messages.iter_mut().filter(|m| m.body.contains("\"closed\"")) {
                (message.at, message.sent, message.deleted) = (then, then, Some(then));
                message.deliveries.iter_mut().for_each(|delivery| delivery.at = then);
            }
            e.changes.extend(ended.map(|ago| InstanceChange {
                id: instance.clone(),
                state: State::Terminated,
                at: at - s(ago),
            }));
        })
    };
    keeps(&canceled(1, None), CANCELED, "it was hardly known");
    breaks(&canceled(5, None), CANCELED);
    keeps(&canceled(5, Some(10)), CANCELED, "its Node could not show that it was canceled");
    breaks(&canceled(5, Some(3)), CANCELED);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_begins_too_long_before_its_change_is_seen_unless_aws_had_not_answered() {
    const SOON: &str = "before its start and more";
    let evidence = announced(31, None).await;
    // AWS's clock is behind, and the record is in its time.
    let begins = |behind: u64, has_answered: bool| {
        doctored(&evidence, |e| {
            e.messages.iter_mut().for_each(|m| m.sent = m.sent - s(behind));
            edit_records(e, |record| {
                let entry = &mut record["interruptions"][0];
                let accepted: Moment = entry["accepted"].as_str().unwrap().parse().unwrap();
                entry["accepted"] = json!((accepted - s(behind)).to_string());
            });
            if !has_answered {
                e.calls.retain(|call| call.by != "sundown-0");
            }
        })
    };
    keeps(&begins(0, true), SOON, "it begins five minutes before");
    breaks(&begins(60, true), SOON);
    keeps(&begins(60, false), SOON, "the process read its start by the API server's clock");
    // How far AWS's clock is off is all that such a process does not know.
    let early = |has_answered: bool| {
        doctored(&evidence, |e| {
            e.terms.flags[0].1 = vec!["--scheduled-lead=4m".to_owned()];
            if !has_answered {
                e.calls.retain(|call| call.by != "sundown-0");
            }
        })
    };
    breaks(&early(true), SOON);
    breaks(&early(false), SOON);
}

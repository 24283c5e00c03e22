//! Scheduled changes.

use serde_json::{Value, json};
use sundown::sim::aws::HealthNotice;

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

fn doctored(evidence: &Evidence, change: impl FnOnce(&mut Evidence)) -> Vec<String> {
    let mut evidence = evidence.clone();
    change(&mut evidence);
    judge(&evidence)
}

fn edit_nodes(evidence: &mut Evidence, edit: impl Fn(&mut sundown::sim::kube::NodeState)) {
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

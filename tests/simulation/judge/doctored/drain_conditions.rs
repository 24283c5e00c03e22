//! The conditions `DrainInProgress` and `Drained`.

use sundown::sim::{
    aws::HealthNotice,
    kube::{ConditionState, NodeState},
};

use super::{
    changes::{doctored, edit_states, edit_states_before},
    *,
};

const RECORD: &str = "sundown.dev/record";

/// A node was drained for a retirement with `--drain-conditions`, and put back when AWS canceled
/// it. A budget blocked its pod.
async fn shown() -> Evidence {
    let stage = Stage::new(36);
    let instance = stage.spot_group(1).remove(0);
    pod(&stage, &instance, "web-0", 0);
    let sundown = led(&stage, &["--scheduled-lead", "5m", "--drain-conditions"]).await;
    let notice = HealthNotice::retirement([instance.clone()], stage.clock.now() + s(400));
    stage.world.aws.health(&notice);
    stage.until(200, "it is drained", || stage.is_cordoned(&instance)).await;
    stage.pass(100).await;
    stage.world.aws.health(&HealthNotice { status: "closed".to_owned(), ..notice });
    stage.until(20, "it is put back", || !stage.is_cordoned(&instance)).await;
    stage.pass(100).await;
    ended(stage, sundown).await
}

fn condition(message: &str) -> ConditionState {
    let status = "True".to_owned();
    ConditionState { status, reason: String::new(), message: message.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn conditions_of_a_drain_that_are_not_ours_not_true_or_too_often_are_seen() {
    let evidence = shown().await;
    let is_shown = |state: &NodeState| state.drain.iter().any(Option::is_some);
    let when_shown = when(&evidence, |f| matches!(f, Fact::NodeChanged(s) if is_shown(s)));
    let unasked = |e: &mut Evidence| {
        e.terms.flags[0].1.retain(|flag| flag != "--drain-conditions");
    };
    breaks(&doctored(&evidence, unasked), "without --drain-conditions");
    let foreign = |e: &mut Evidence| {
        edit_states_before(e, when_shown, |node| node.drain[0] = Some(condition("by another")));
    };
    breaks(&doctored(&evidence, foreign), "by another writer was changed");
    let hasty = |e: &mut Evidence| {
        edit_states_before(e, when_shown, |node| {
            if node.annotations.contains_key(RECORD) {
                node.drain[0] = Some(condition(RECORD));
            }
        });
    };
    breaks(&doctored(&evidence, hasty), "were written again within 30 s");
    let unrecorded = |e: &mut Evidence| {
        edit_states(e, |node| {
            if node.drain[0].is_some() {
                node.annotations.remove(RECORD);
            }
        });
    };
    breaks(&doctored(&evidence, unrecorded), "DrainInProgress is true without a record");
}

#[tokio::test(start_paused = true)]
async fn conditions_that_follow_their_removal_at_once_are_seen_unless_another_process_leads() {
    const TOO_SOON: &str = "were written again within 30 s";
    let evidence = shown().await;
    let is_shown = |state: &NodeState| state.drain.iter().any(Option::is_some);
    let when_shown = when(&evidence, |f| matches!(f, Fact::NodeChanged(s) if is_shown(s)));
    let removed = accepted(&evidence);
    // The first write is at the accept: it removes the conditions of an earlier drain, or shows
    // this one.
    let written = |is_removal: bool, leads_since: Option<Moment>| {
        let change = |e: &mut Evidence| {
            edit_states_before(e, when_shown, |node| {
                if node.annotations.contains_key(RECORD) != is_removal {
                    node.drain[0] = Some(condition(RECORD));
                }
            });
            if let Some(at) = leads_since {
                let (lease, holder) = ("sundown".to_owned(), "sundown_another".to_owned());
                insert(e, at, "sundown-1", Fact::LeaseHeld { lease, holder });
            }
        };
        doctored(&evidence, change)
    };
    let between = removed + Duration::from_millis(1);
    assert!(between < when_shown && when_shown < removed + s(20), "{removed} {when_shown}");
    breaks(&written(true, None), TOO_SOON);
    keeps(&written(true, Some(between)), TOO_SOON, "a removal does not show when it was");
    breaks(&written(true, Some(removed - s(1))), TOO_SOON);
    breaks(&written(false, Some(between)), TOO_SOON);
}

#[tokio::test(start_paused = true)]
async fn conditions_that_do_not_show_the_drain_of_their_node_are_seen() {
    let evidence = shown().await;
    let hidden = |e: &mut Evidence| edit_states(e, |node| node.drain = [None, None]);
    breaks(&doctored(&evidence, hidden), "has been Open since");
    let left = |e: &mut Evidence| {
        edit_states(e, |node| {
            let ended = ConditionState { status: "False".to_owned(), ..condition(RECORD) };
            node.drain = [Some(ended.clone()), Some(ended)];
        });
    };
    breaks(&doctored(&evidence, left), "has been Nothing since");
}

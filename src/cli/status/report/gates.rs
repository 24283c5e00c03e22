//! What the gates on a node hold, with the leader's own rules.

use crate::{
    cli::status::model::{GateState, GateStatus, Held},
    domain::{GateKind, InterruptionFacts, Limits, Moment, Node},
    lifecycle::{GateHold, pre_drain_hold, pre_release_hold},
};

/// The gates on a node whose drain goes on. Gates `pre-release` hold nothing before it is empty.
pub(super) fn of_drain(
    node: &Node,
    limits: &Limits,
    interruptions: &[InterruptionFacts],
    now: Moment,
) -> Vec<GateStatus> {
    let hold = pre_drain_hold(node, limits, interruptions, now);
    let of_release = pre_release_hold(node, limits, now, now);
    of_kind(node, GateKind::PreDrain, hold, GateState::Holds)
        .chain(of_kind(node, GateKind::PreRelease, of_release, GateState::Waits))
        .collect()
}

/// `if_valid`: what the gates do if they are not ignored.
fn of_kind(
    node: &Node,
    kind: GateKind,
    hold: GateHold,
    if_valid: GateState,
) -> impl Iterator<Item = GateStatus> {
    let state = match hold {
        GateHold::None => None,
        GateHold::Until(_) => Some((if_valid, None)),
        GateHold::Ignored(why) => Some((GateState::Ignored, Some(why.as_str()))),
    };
    let gates = node.gates.as_ref().map(|gates| gates.of(kind)).unwrap_or_default();
    gates.iter().filter_map(move |gate| {
        let (state, why) = state?;
        Some(GateStatus {
            annotation: format!("{}{}", kind.prefix(), gate.name),
            value: gate.value.to_string(),
            of: match kind {
                GateKind::PreDrain => Held::Evictions,
                GateKind::PreRelease => Held::Release,
            },
            state,
            until: hold.until(),
            why,
        })
    })
}

/// How many gates are not in the list.
pub(super) fn further(node: &Node) -> Option<String> {
    let gates = node.gates.as_ref()?;
    let more: usize = GateKind::ALL.into_iter().map(|kind| gates.more(kind)).sum();
    match more {
        0 => None,
        1 => Some("1 more gate is not shown. It counts, too.".to_owned()),
        _ => Some(format!("{more} more gates are not shown. They count, too.")),
    }
}

//! Tables of which sick instances are drained, and when.

mod block_reason;
mod choose;
mod follow;
mod history;
mod suspects;

use super::*;
use crate::domain::{IGNORE, KEEP_CORDONED, PAUSE, ZONE, seconds};

const AFTER: Duration = seconds(600);

fn at(second: u64) -> Moment {
    "2026-01-05T09:00:00Z".parse::<Moment>().unwrap().plus(seconds(second))
}

/// The second of all rounds in these tests.
const NOW: u64 = 10_000;

fn instance(n: usize) -> InstanceId {
    format!("i-{n:017x}").parse().unwrap()
}

/// A Node that was created long ago and is Ready.
fn ready(n: usize) -> ScannedNode {
    let node = Node {
        uid: format!("uid-{n}"),
        created: Some(at(0)),
        instance: Some(instance(n)),
        ready_since: Some(at(60)),
        ..Node::for_test(&format!("node-{n:02}"))
    };
    let (status, last_sickness) = (ImpairedStatus::Free, None);
    ScannedNode { node: Arc::new(node), status, last_sickness, is_managed: true }
}

fn with(mut scanned: ScannedNode, change: impl FnOnce(&mut Node)) -> ScannedNode {
    change(Arc::make_mut(&mut scanned.node));
    scanned
}

fn not_ready(n: usize, since: u64) -> ScannedNode {
    with(ready(n), |node| (node.ready, node.ready_since) = (Ready::Unknown, Some(at(since))))
}

/// A NotReady Node whose instance was accepted as sick at `second`.
fn accepted(n: usize, group: &str, second: u64, status: ImpairedStatus) -> ScannedNode {
    let last_sickness = LastSickness { instance: instance(n), group: group.into(), at: at(second) };
    ScannedNode {
        status,
        last_sickness: Some(last_sickness),
        ..not_ready(n, second.saturating_sub(600))
    }
}

/// `sick` and as many healthy Nodes that there are `all`.
fn among(all: usize, sick: Vec<ScannedNode>) -> Vec<ScannedNode> {
    let healthy = (50..).map(ready).take(all - sick.len());
    sick.into_iter().chain(healthy).collect()
}

const NOTHING_FAILS: &BTreeMap<InstanceId, Moment> = &BTreeMap::new();

fn scene(nodes: &[ScannedNode]) -> Scene<'_> {
    Scene {
        now: at(NOW),
        nodes,
        failing: Some(NOTHING_FAILS),
        is_index_sound: true,
        watch_failed_at: None,
        is_paused: false,
        response: Response::Drain,
    }
}

fn names(suspects: &[Suspect]) -> Vec<&str> {
    suspects.iter().map(|suspect| suspect.node.name.as_str()).collect()
}

fn member(group: &str) -> Member {
    Member {
        group: group.into(),
        is_serving: true,
        is_group_complete: true,
        is_unhealthy: false,
        group_replaces_unhealthy: true,
    }
}

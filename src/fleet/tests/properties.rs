//! Properties that hold for every sequence of changes.

use proptest::prelude::*;

use super::*;
use crate::{
    domain::Pod,
    lifecycle::{ActionSeen, Finding},
    record::tests::{hook, node, release_node, take_on},
};

#[derive(Debug, Clone, Copy)]
enum Change {
    Accepted,
    Shown,
    /// The machine has booted since the record was written.
    Booted,
    RecordDeleted,
    Released,
    Deleted,
    /// The pods of the node were listed: their number.
    Listed(u8),
    Watched(bool),
    Paused(bool),
    InstanceEnded,
    Passed(u8),
    Doubt(bool),
    /// The Node was read from the API server.
    Read,
    /// AWS has answered a heartbeat.
    Seen(ActionSeen),
    Found(Finding),
    /// Its completion is done; `true`: the Node did not exist by then.
    Completed(bool),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let one = prop_oneof![
        2 => Just(Change::Accepted),
        1 => Just(Change::Shown),
        1 => Just(Change::Booted),
        1 => Just(Change::RecordDeleted),
        1 => Just(Change::Released),
        1 => Just(Change::Deleted),
        2 => (0..3_u8).prop_map(Change::Listed),
        2 => any::<bool>().prop_map(Change::Watched),
        1 => any::<bool>().prop_map(Change::Paused),
        1 => Just(Change::InstanceEnded),
        2 => any::<u8>().prop_map(Change::Passed),
        1 => any::<bool>().prop_map(Change::Doubt),
        1 => Just(Change::Read),
        1 => prop_oneof![Just(ActionSeen::Open), Just(ActionSeen::Over)].prop_map(Change::Seen),
        1 => prop_oneof![
            Just(Finding::Suspected),
            Just(Finding::Contradicted),
            Just(Finding::MayEnd),
        ]
        .prop_map(Change::Found),
        1 => any::<bool>().prop_map(Change::Completed),
    ];
    prop::collection::vec(one, 1..60)
}

/// The only Node of this world, after the change.
fn changed(change: Change, version: usize) -> Node {
    let held = take_on(&node(), &hook("e1", 0, "drain", "t1"), 0).unwrap();
    let mut node = match change {
        Change::Released => release_node(&held, 5),
        Change::Booted => Node { boot_id: Some("boot-2".to_owned()), ..held },
        _ => held,
    };
    if matches!(change, Change::RecordDeleted) {
        node.annotations.remove(crate::domain::RECORD);
    }
    node.resource_version = version.to_string();
    node
}

fn perform(world: &mut World, change: Change, version: usize) -> Vec<Effect> {
    let node = Arc::new(changed(change, version));
    let (name, uid) = (node.name.clone(), node.uid.clone());
    world.now += 1;
    let input = match change {
        Change::Accepted => Input::Accepted {
            node: Arc::clone(&node),
            instance: id(INSTANCE),
            instance_has_ended: false,
        },
        Change::Shown | Change::Booted | Change::RecordDeleted | Change::Released => {
            Input::NodeApplied(Arc::clone(&node))
        }
        Change::Deleted => Input::NodeDeleted(Arc::clone(&node)),
        Change::Listed(pods) => {
            let pod = |number| Pod {
                node: Some(name.clone()),
                ..crate::drain::tests::pod(&format!("pod-{number}"))
            };
            let pods = (0..pods).map(pod).collect();
            Input::Pods(name.clone(), drain::Input::Listed(pods))
        }
        Change::Watched(open) => {
            let state = if open { drain::WatchState::Open } else { drain::WatchState::Blind };
            Input::Pods(name.clone(), drain::Input::Watch(state))
        }
        Change::Paused(paused) => Input::PausedAll(paused),
        Change::InstanceEnded => {
            Input::InstanceEnds { node: name.clone(), instance: id(INSTANCE), has_ended: true }
        }
        Change::Passed(seconds) => {
            world.now += i64::from(seconds);
            Input::Tick
        }
        Change::Doubt(is_valid) => Input::Doubt { node: name.clone(), uid, is_valid },
        Change::Read => Input::NodeRead { name: name.clone(), node: world.facts.node(&name) },
        Change::Seen(seen) => {
            let action = hook("e1", 0, "drain", "t1").lifecycle_action(&id(INSTANCE)).unwrap();
            Input::Hook(action, HookFacts { seen, ..HookFacts::default() })
        }
        Change::Found(finding) => Input::Contradiction { node: name.clone(), uid, finding },
        Change::Completed(is_node_deleted) => {
            Input::CompletionDone { node: name.clone(), uid, is_node_deleted }
        }
    };
    world.facts.with(|known| match &input {
        Input::Accepted { node, .. } | Input::NodeApplied(node) => {
            drop(known.nodes.insert(name, Arc::clone(node)));
        }
        Input::NodeDeleted(_) => drop(known.nodes.remove(&name)),
        _ => {}
    });
    world.step(input)
}

/// What a controller knows that performs the effects.
#[derive(Debug, Default)]
struct Held {
    is_draining: bool,
    is_watched: bool,
    completions: BTreeSet<CompletionId>,
    sent: usize,
}

impl Held {
    fn performs(&mut self, effect: Effect) -> Result<(), TestCaseError> {
        match effect {
            Effect::Report(_, event) => match *event {
                DrainEvent::Began(_) => {
                    prop_assert!(!self.is_draining, "a drain begins while one goes on");
                    self.is_draining = true;
                }
                DrainEvent::Ended(_) => {
                    prop_assert!(self.is_draining, "a drain ends twice");
                    self.is_draining = false;
                }
                DrainEvent::EndedVoid { .. } => self.is_draining = false,
                _ => {}
            },
            Effect::WatchPods(_) => self.is_watched = true,
            Effect::UnwatchPods(_) => self.is_watched = false,
            Effect::Complete(completion) => {
                prop_assert!(!self.is_draining, "completed while its drain goes on");
                self.completions.extend(completion.id);
            }
            Effect::CompleteNow(id) => drop(self.completions.remove(&id)),
            Effect::Send { .. } => {
                prop_assert!(self.is_watched, "an order for a node without a drain");
                self.sent += 1;
            }
            _ => {}
        }
        Ok(())
    }
}

fn play(all: Vec<Change>) -> Result<Held, TestCaseError> {
    let (mut world, mut held) = (World::confirmed(), Held::default());
    for (i, change) in all.into_iter().enumerate() {
        // Only a completion that was begun can be done.
        if matches!(change, Change::Completed(_))
            && (held.completions.is_empty() || held.is_draining)
        {
            continue;
        }
        for effect in perform(&mut world, change, 10 + i) {
            held.performs(effect)?;
        }
        let goes_on = world.fleet.drains.values().any(|state| state.is_draining());
        prop_assert_eq!(
            (held.is_draining, held.is_watched),
            (goes_on, goes_on),
            "after {:?}",
            change
        );
        prop_assert!(held.completions.len() <= 1, "{:?} of one Node", held.completions);
    }
    for effect in perform(&mut world, Change::Deleted, 1000) {
        held.performs(effect)?;
    }
    Ok(held)
}

proptest! {
    /// A drain that begins ends once. Its completion follows its end. Pods are watched exactly
    /// while the drain goes on. Once the Node is deleted, no drain, watch or completion is left.
    #[test]
    fn a_drain_that_begins_ends_once_and_leaves_nothing_behind(all in changes()) {
        let held = play(all)?;
        prop_assert!(
            !held.is_draining && !held.is_watched && held.completions.is_empty(), "{:?}", held
        );
    }
}

/// Without this, the property could hold because no order is ever sent.
#[test]
fn a_pod_of_a_node_that_is_drained_is_evicted() {
    let held = play(vec![
        Change::Accepted,
        Change::Seen(ActionSeen::Open),
        Change::Watched(true),
        Change::Listed(2),
        Change::Passed(3),
    ])
    .unwrap();
    assert_eq!(held.sent, 2);
}

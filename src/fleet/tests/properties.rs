//! What holds whatever happens, in whatever order.

use proptest::prelude::*;

use super::*;
use crate::{
    domain::Pod,
    record::tests::{hook, let_go, node, take_on},
};

#[derive(Debug, Clone, Copy)]
enum Happening {
    Accepted,
    Shown,
    /// The machine booted: its record is of an earlier boot.
    Booted,
    RecordDeleted,
    Released,
    Deleted,
    /// The pods of the node were listed: so many.
    Listed(u8),
    Watched(bool),
    Paused(bool),
    Over,
    Passed(u8),
    Doubt(bool),
    /// The Node was read past the index.
    Read,
    /// Its completion is done; `true`: the Node was gone by then.
    Completed(bool),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        2 => Just(Happening::Accepted),
        1 => Just(Happening::Shown),
        1 => Just(Happening::Booted),
        1 => Just(Happening::RecordDeleted),
        1 => Just(Happening::Released),
        1 => Just(Happening::Deleted),
        2 => (0..3_u8).prop_map(Happening::Listed),
        2 => any::<bool>().prop_map(Happening::Watched),
        1 => any::<bool>().prop_map(Happening::Paused),
        1 => Just(Happening::Over),
        2 => any::<u8>().prop_map(Happening::Passed),
        1 => any::<bool>().prop_map(Happening::Doubt),
        1 => Just(Happening::Read),
        1 => any::<bool>().prop_map(Happening::Completed),
    ];
    prop::collection::vec(one, 1..60)
}

/// The only Node of this world, as it is now.
fn changed(happening: Happening, version: usize) -> Node {
    let held = take_on(&node(), &hook("e1", 0, "drain", "t1"), 0).unwrap();
    let mut node = match happening {
        Happening::Released => let_go(&held, 5),
        Happening::Booted => Node { boot_id: Some("boot-2".to_owned()), ..held },
        _ => held,
    };
    if matches!(happening, Happening::RecordDeleted) {
        node.annotations.remove(crate::domain::RECORD);
    }
    node.resource_version = version.to_string();
    node
}

fn perform(world: &mut World, happening: Happening, version: usize) -> Vec<Effect> {
    let node = Arc::new(changed(happening, version));
    let (name, uid) = (node.name.clone(), node.uid.clone());
    world.now += 1;
    let input = match happening {
        Happening::Accepted => {
            Input::Accepted { node: Arc::clone(&node), instance: id(INSTANCE), over: false }
        }
        Happening::Shown | Happening::Booted | Happening::RecordDeleted | Happening::Released => {
            Input::NodeApplied(Arc::clone(&node))
        }
        Happening::Deleted => Input::NodeDeleted(Arc::clone(&node)),
        Happening::Listed(pods) => {
            let pod = |number| Pod {
                node: Some(name.clone()),
                ..crate::drain::tests::pod(&format!("pod-{number}"))
            };
            let pods = (0..pods).map(pod).collect();
            Input::Pods(name.clone(), drain::Input::Listed(pods))
        }
        Happening::Watched(open) => {
            let state = if open { drain::WatchState::Open } else { drain::WatchState::Blind };
            Input::Pods(name.clone(), drain::Input::Watch(state))
        }
        Happening::Paused(paused) => Input::PausedAll(paused),
        Happening::Over => {
            Input::InstanceEnds { node: name.clone(), instance: id(INSTANCE), over: true }
        }
        Happening::Passed(seconds) => {
            world.now += i64::from(seconds);
            Input::Tick
        }
        Happening::Doubt(counts) => Input::Doubt { node: name.clone(), uid, counts },
        Happening::Read => Input::NodeRead { name: name.clone(), node: world.facts.node(&name) },
        Happening::Completed(node_gone) => Input::Released { node: name.clone(), uid, node_gone },
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

/// What whoever performs the effects holds.
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
                prop_assert!(self.is_watched, "an order for a node that is not drained");
                self.sent += 1;
            }
            _ => {}
        }
        Ok(())
    }
}

fn play(all: Vec<Happening>) -> Result<Held, TestCaseError> {
    let (mut world, mut held) = (World::confirmed(), Held::default());
    for (i, happening) in all.into_iter().enumerate() {
        // Only a completion that was begun can be done.
        if matches!(happening, Happening::Completed(_))
            && (held.completions.is_empty() || held.is_draining)
        {
            continue;
        }
        for effect in perform(&mut world, happening, 10 + i) {
            held.performs(effect)?;
        }
        let goes_on = world.fleet.drains.values().any(|state| state.drain.is_some());
        prop_assert_eq!(
            (held.is_draining, held.is_watched),
            (goes_on, goes_on),
            "after {:?}",
            happening
        );
        prop_assert!(held.completions.len() <= 1, "{:?} of one Node", held.completions);
    }
    for effect in perform(&mut world, Happening::Deleted, 1000) {
        held.performs(effect)?;
    }
    Ok(held)
}

proptest! {
    /// A drain that begins ends once, its completion follows its end, and pods are watched exactly
    /// while it goes on. Once the Node is deleted nothing is left over.
    #[test]
    fn a_drain_that_begins_ends_once_and_leaves_nothing_over(all in happenings()) {
        let held = play(all)?;
        prop_assert!(
            !held.is_draining && !held.is_watched && held.completions.is_empty(), "{:?}", held
        );
    }
}

/// Otherwise the property would say nothing about orders.
#[test]
fn a_pod_of_a_node_that_is_drained_is_evicted() {
    let held = play(vec![
        Happening::Accepted,
        Happening::Watched(true),
        Happening::Listed(2),
        Happening::Passed(3),
    ])
    .unwrap();
    assert_eq!(held.sent, 2);
}

//! Drain timeouts of a hook or a Node that would end a drain in the past.

use super::{transitions::draining, *};
use crate::{
    domain::{Cause, DRAIN_TIMEOUT, DrainSettings, Interruption},
    lifecycle::ActionSeen,
    record::tests::{hook, node, take_on},
};

/// The end of the drain, in seconds from the accept; `None`: the drain has no end or is over.
fn end(world: &World, node: &Node) -> Option<i64> {
    let state = world.fleet.drains.get(&node.name).filter(|state| state.is_draining())?;
    Some(state.limits.end_at?.duration_since(at(0)).as_secs())
}

fn annotated(node: &Node, timeout: &str) -> Node {
    let mut node = node.clone();
    node.annotations.insert(DRAIN_TIMEOUT, timeout);
    node
}

#[test]
fn a_shorter_timeout_of_a_hook_that_aws_confirms_late_counts_from_then() {
    let mut interruption: Interruption = hook("e1", 0, "drain", "t1");
    if let Cause::Terminate(action) = &mut interruption.cause {
        action.metadata = DrainSettings::in_metadata(r#"{"sundown":{"drain-timeout":"2m"}}"#);
    }
    let accepted = take_on(&node(), &interruption, 0).unwrap();
    let mut world = World::confirmed();
    world.accepts(&accepted);
    assert_eq!(end(&world, &accepted), Some(3598), "an event alone shortens nothing");
    world.after(180);
    world.sees("drain", "t1", ActionSeen::Open);
    assert_eq!(end(&world, &accepted), Some(180 + 118), "two minutes after the accept have passed");
}

#[test]
fn a_timeout_of_the_node_that_has_passed_counts_anew_once_and_is_refused_after_that() {
    let (mut world, node) = draining();
    let ends = |world: &mut World, timeout: &str| {
        let node = annotated(&node, timeout);
        world.shows(&node);
        end(world, &node)
    };
    // The hook is not described: one hour at most.
    assert_eq!(ends(&mut world, "50m"), Some(2998));
    world.after(1800);
    assert_eq!(ends(&mut world, "10m"), Some(1800 + 598), "it counts from the change");
    assert_eq!(ends(&mut world, "20m"), Some(1800 + 1198), "it is still ahead");
    world.after(300);
    assert_eq!(ends(&mut world, "1m"), Some(1800 + 1198), "the one before stays");
    let state = world.fleet.drains.get(&node.name).unwrap();
    assert!(state.node_settings.1.iter().any(|p| p.text.contains("has passed since")));
}

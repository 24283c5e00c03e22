//! Drains that wait until the volumes of their pods are detached (`--wait-for-volumes`).

use super::{transitions::held, *};
use crate::{
    domain::{AttachedVolumes, VolumesSeen},
    record::tests::{node, spot, take_on},
};

/// A fleet that waits for volumes, with the drain of a node whose pod has a claim.
fn draining(node: &Node) -> World {
    let mut world = World::confirmed();
    world.fleet.settings.wait_for_volumes = WaitForVolumes::Hooks;
    world.accepts(node);
    world.sees("drain", "t1", ActionSeen::Open);
    let pod = drain::tests::pod("db");
    let pod = crate::domain::Pod { node: Some("a".into()), has_claims: true, ..pod };
    world.pods(node, drain::Input::Listed(vec![pod]));
    world.after(10);
    world
}

fn gone(world: &mut World, node: &Node) -> Vec<&'static str> {
    world.pods(node, drain::Input::Gone("db".into()))
}

fn seen(node: &Node, uid: &str, names: &[&str]) -> Input {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let seen = VolumesSeen::Attached(AttachedVolumes::of(names));
    Input::VolumesRead([(node.name.clone(), (uid.to_owned(), seen))].into())
}

const ENDED: [&str; 2] = ["unwatch pods", "complete"];

#[test]
fn a_lifecycle_action_is_completed_when_the_volumes_are_detached() {
    let node = held();
    let mut world = draining(&node);
    assert_eq!(gone(&mut world, &node), ["ask for volumes"]);
    assert!(world.after(1).is_empty(), "there is no answer yet");
    assert!(words(&world.step(seen(&node, &node.uid, &["pv"]))).is_empty());
    assert!(world.after(1).is_empty(), "too early");
    assert_eq!(world.after(1), ["ask for volumes"], "again");
    assert!(words(&world.step(seen(&node, "other", &[]))).is_empty(), "an earlier Node");
    assert_eq!(world.after(2), ["ask for volumes"]);
    assert_eq!(words(&world.step(seen(&node, &node.uid, &[]))), ENDED);
    assert!(world.after(60).is_empty(), "nobody is asked any longer");
}

#[test]
fn a_node_without_an_action_to_complete_waits_for_no_volume() {
    let node = take_on(&node(), &spot("s", 0), 0).unwrap();
    let mut world = draining(&node);
    assert_eq!(gone(&mut world, &node), ["unwatch pods", "write the end"]);
}

#[test]
fn an_action_that_is_over_ends_the_wait() {
    let node = held();
    let mut world = draining(&node);
    assert_eq!(gone(&mut world, &node), ["ask for volumes"]);
    let state = world.fleet.drains.get(&node.name).unwrap();
    let actions = world.fleet.lookup.open_actions(&state.record, &state.instance);
    let (name, uid) = (node.name.clone(), node.uid.clone());
    let closed = Input::ActionsClosed { node: name, uid, actions };
    assert!(words(&world.step(closed)).is_empty());
    let ended = words(&world.step(seen(&node, &node.uid, &["pv"])));
    assert_eq!(ended.first(), Some(&"unwatch pods"));
}

#[test]
fn a_new_leader_asks_for_the_volumes_of_a_node_without_pods() {
    let node = held();
    for (setting, expected) in
        [(WaitForVolumes::Hooks, &["ask for volumes"][..]), (WaitForVolumes::Never, &ENDED)]
    {
        let mut world = World::unconfirmed();
        world.fleet.settings.wait_for_volumes = setting;
        world.fleet.settings.leads_since = at(100);
        world.now = 100;
        let known = Arc::new(node.clone());
        world.facts.with(|facts| facts.nodes.insert(node.name.clone(), Arc::clone(&known)));
        let nodes = vec![known];
        drop(world.step(Input::Unschedulable { version: "9".to_owned(), nodes }));
        world.sees("drain", "t1", ActionSeen::Open);
        let mut done = world.pods(&node, drain::Input::Listed(Vec::new()));
        done.extend(world.after(5));
        assert_eq!(done, expected, "{setting:?}");
    }
}

#[test]
fn the_event_on_the_node_names_the_volumes_and_the_end_of_the_drain() {
    let node = held();
    let mut world = draining(&node);
    gone(&mut world, &node);
    drop(world.step(seen(&node, &node.uid, &["pv-2", "pv-1"])));
    world.now += 1;
    let effects = world.step(Input::Tick);
    let texts: Vec<&String> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Report(_, event) => match &**event {
                DrainEvent::VolumesAttached(text) => Some(text),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let [text] = &texts[..] else { panic!("one Event: {texts:?}") };
    assert!(
        text.starts_with("No pod is left. 2 volumes (pv-1, pv-2) are still attached."),
        "{text}"
    );
    assert!(end_in_event(text).is_some(), "{text}");
}

//! The administrator's rules about pods.

use super::{transitions::held, *};
use crate::domain::{Pod, PodBehavior, PodMatch, PodRule, PodRules, RulePlace};

fn all_wait() -> Arc<PodRules> {
    all_wait_on("")
}

/// On Nodes with these labels, all pods wait.
fn all_wait_on(node_labels: &str) -> Arc<PodRules> {
    let rule = PodRule {
        place: RulePlace::default(),
        matches: PodMatch { node_labels: node_labels.parse().unwrap(), ..PodMatch::default() },
        behavior: PodBehavior::WaitCompleted,
        max_grace_period: None,
        force_after: None,
    };
    Arc::new(PodRules::new(vec![rule]).unwrap())
}

/// The pods that wait because of a rule, in the drain of this node.
fn waiting(world: &World, node: &Node) -> usize {
    let drain = world.fleet.drains.get(&node.name).and_then(|state| state.drain()).unwrap();
    drain.status(at(world.now)).counts.asked_to_wait
}

fn listed(world: &mut World, node: &Node) {
    world.accepts(node);
    world.sees("drain", "t1", ActionSeen::Open);
    let pod = Pod { node: Some(node.name.clone()), ..drain::tests::pod("a") };
    world.pods(node, drain::Input::Listed(vec![pod]));
}

#[test]
fn new_rules_count_in_drains_that_go_on_and_in_those_that_begin_later() {
    let node = held();
    let mut during = World::confirmed();
    listed(&mut during, &node);
    assert_eq!(waiting(&during, &node), 0);
    during.step(Input::PodRules(all_wait()));
    assert_eq!(waiting(&during, &node), 1);
    during.step(Input::PodRules(Arc::default()));
    assert_eq!(waiting(&during, &node), 0);

    let mut before = World::confirmed();
    before.step(Input::PodRules(all_wait()));
    listed(&mut before, &node);
    assert_eq!(waiting(&before, &node), 1);
}

#[test]
fn a_rule_counts_on_the_nodes_with_its_labels_as_these_change() {
    let labelled = |pool: &str| Node {
        labels: Arc::new([("pool".to_owned(), pool.to_owned())].into()),
        ..held()
    };
    let mut world = World::confirmed();
    world.step(Input::PodRules(all_wait_on("pool=gpu")));
    listed(&mut world, &labelled("gpu"));
    assert_eq!(waiting(&world, &held()), 1);
    for (pool, waits) in [("web", 0), ("gpu", 1)] {
        world.step(Input::NodeApplied(Arc::new(labelled(pool))));
        assert_eq!(waiting(&world, &held()), waits, "{pool}");
    }
    world.step(Input::PodRules(all_wait_on("pool=web")));
    assert_eq!(waiting(&world, &held()), 0);
    world.step(Input::PodRules(all_wait()));
    assert_eq!(waiting(&world, &held()), 1);
}

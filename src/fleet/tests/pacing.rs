//! Drains that wait for other drains.

use super::{transitions::newer, *};
use crate::{
    domain::{
        CONTROL_PLANE, GateKind, HookDescription, Interruption, NodeGates, PAUSE, PaceHold,
        RELEASE, TO_BE_DELETED, Taint,
    },
    lifecycle::ActionSeen,
    record::tests::{hook, node, spot, take_on},
};

/// The n-th Node of the group `asg`, drained for its terminate hook, accepted at second `n`.
fn held(n: i64, labels: &[&str]) -> Node {
    let instance = id(&format!("i-{n:017x}"));
    let bare = Node {
        name: format!("n{n}").as_str().into(),
        uid: format!("uid-{n}"),
        instance: Some(instance.clone()),
        labels: Arc::new(labels.iter().map(|key| ((*key).to_owned(), String::new())).collect()),
        ..node()
    };
    take_on(&bare, &of(&instance, hook(&format!("e{n}"), n, "drain", &format!("t{n}"))), n).unwrap()
}

fn of(instance: &InstanceId, interruption: Interruption) -> Interruption {
    Interruption { instance: instance.clone(), ..interruption }
}

fn seen(world: &mut World, node: &Node) -> Vec<Effect> {
    let node = Arc::new(node.clone());
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    world.step(Input::NodeApplied(node))
}

/// A drain begins whose action AWS has confirmed, on a node with one pod.
fn begins(world: &mut World, node: &Node) {
    world.accepts(node);
    let instance = node.instance.clone().unwrap();
    let n: i64 = node.uid.trim_start_matches("uid-").parse().unwrap();
    let interruption = of(&instance, hook("e", 0, "drain", &format!("t{n}")));
    let action = interruption.lifecycle_action(&instance).unwrap();
    let open = HookFacts { seen: ActionSeen::Open, ..HookFacts::default() };
    drop(world.step(Input::Hook(action, open)));
    let name = node.name.clone();
    let pod = crate::domain::Pod { node: Some(name.clone()), ..drain::tests::pod(name.as_str()) };
    drop(world.step(Input::Pods(name, drain::Input::Listed(vec![pod]))));
}

fn world(limits: PaceLimits) -> World {
    let mut world = World::confirmed();
    world.now = 10;
    world.fleet.settings.pace = limits;
    world
}

/// Each of these nodes has a drain, and the first tick has come. Gives what it reported and sent.
fn with(limits: PaceLimits, nodes: &[&Node]) -> (World, Vec<String>) {
    let mut world = world(limits);
    for node in nodes {
        begins(&mut world, node);
    }
    let effects = world.step(Input::Tick);
    (world, told(&effects))
}

/// The holds that are reported, and the nodes for whose pods something is sent.
fn told(effects: &[Effect]) -> Vec<String> {
    let one = |effect: &Effect| match effect {
        Effect::Report(name, event) => match &**event {
            DrainEvent::PaceHolds { why, .. } => Some(format!("{name} {why:?}")),
            DrainEvent::PaceEnded { is_its_turn } => Some(format!("{name} turn {is_its_turn}")),
            _ => None,
        },
        Effect::Send { node, .. } => Some(format!("{node} send")),
        _ => None,
    };
    let mut all: Vec<String> = effects.iter().filter_map(one).collect();
    all.sort();
    all
}

fn ticks(world: &mut World, seconds: i64) -> Vec<String> {
    world.now += seconds;
    let mut all = told(&world.step(Input::Tick));
    all.extend(told(&world.step(Input::Tick)));
    all
}

/// The nodes whose evictions wait.
fn waiting(world: &World) -> Vec<String> {
    let drains = world.fleet.drains.iter();
    let held = drains.filter(|(_, state)| state.limits.held_until.is_some());
    held.map(|(name, _)| name.to_string()).collect()
}

const ONE: PaceLimits =
    PaceLimits { per_group: None, in_all: Some(crate::domain::NodeShare::Count(1)) };
const ONE_A_GROUP: PaceLimits = PaceLimits { per_group: Some(1), in_all: None };
const NO_LIMIT: PaceLimits = PaceLimits { per_group: None, in_all: None };

#[test]
fn one_of_two_drains_waits_and_begins_as_soon_as_the_other_has_ended() {
    for (limits, why) in [(ONE, PaceHold::InAll), (ONE_A_GROUP, PaceHold::Group)] {
        let (a, b) = (held(1, &[]), held(2, &[]));
        let (mut world, said) = with(limits, &[&b, &a]);
        assert_eq!(said, ["n1 send".to_owned(), format!("n2 {why:?}")]);
        assert!(ticks(&mut world, 60).is_empty(), "once");
        assert_eq!(world.fleet.held_back(), 1);
        drop(world.step(Input::Pods(a.name.clone(), drain::Input::Listed(Vec::new()))));
        assert_eq!(ticks(&mut world, 10), ["n2 send", "n2 turn true"]);
        assert_eq!(world.fleet.held_back(), 0);
    }
}

#[test]
fn a_hold_is_reported_again_before_the_api_server_drops_its_event() {
    let mut world = world(ONE);
    world.fleet.settings.limits.drain_timeout = Some(Duration::from_hours(12));
    for n in [1, 2] {
        let node = held(n, &[]);
        begins(&mut world, &node);
        let instance = node.instance.clone().unwrap();
        let interruption = of(&instance, hook("e", 0, "drain", &format!("t{n}")));
        let described = HookFacts {
            description: Some(HookDescription {
                hook: "drain".into(),
                heartbeat_timeout: seconds(3600),
                global_timeout: Duration::from_hours(48),
            }),
            seen: ActionSeen::Open,
            ..HookFacts::default()
        };
        let action = interruption.lifecycle_action(&instance).unwrap();
        drop(world.step(Input::Hook(action, described)));
    }
    let mut said = Vec::new();
    for _ in 0..7200 {
        said.extend(ticks(&mut world, 1));
    }
    let holds = said.iter().filter(|one| *one == "n2 InAll").count();
    assert!((12..=15).contains(&holds), "{holds}");
}

#[test]
fn a_drain_that_waits_for_something_else_too_is_not_counted_as_held_back() {
    let mut paused = held(2, &[]);
    paused.annotations.insert(PAUSE, "true");
    let (world, _) = with(ONE, &[&held(1, &[]), &paused, &held(3, &[])]);
    assert_eq!((waiting(&world).len(), world.fleet.held_back()), (2, 1));
}

#[test]
fn a_new_leader_reports_no_hold_of_a_drain_that_goes_on() {
    let limits = PaceLimits { per_group: None, in_all: Some(crate::domain::NodeShare::Count(2)) };
    let mut world = World::unconfirmed();
    world.now = 100;
    world.fleet.settings.pace = limits;
    world.fleet.settings.leads_since = at(100);
    let nodes = [held(1, &[]), held(2, &[]), held(3, &[])];
    let arcs: Vec<Arc<Node>> = nodes.iter().cloned().map(Arc::new).collect();
    world.facts.with(|known| {
        known.nodes.extend(arcs.iter().map(|node| (node.name.clone(), Arc::clone(node))));
    });
    drop(world.step(Input::Unschedulable { version: "99".to_owned(), nodes: arcs }));
    let mut said = Vec::new();
    for node in &nodes {
        begins(&mut world, node);
        said.extend(ticks(&mut world, 1));
        said.extend(ticks(&mut world, 1));
    }
    assert_eq!(said, ["n1 send", "n2 send", "n3 InAll"]);
    assert_eq!(world.fleet.held_back(), 1);
}

fn described(node: &Node, timeout: u64) -> Input {
    let instance = node.instance.clone().unwrap();
    let n = node.uid.trim_start_matches("uid-");
    let interruption = of(&instance, hook("e", 0, "drain", &format!("t{n}")));
    let facts = HookFacts {
        description: Some(HookDescription {
            hook: "drain".into(),
            heartbeat_timeout: seconds(timeout),
            global_timeout: Duration::from_hours(48),
        }),
        seen: ActionSeen::Open,
        ..HookFacts::default()
    };
    Input::Hook(interruption.lifecycle_action(&instance).unwrap(), facts)
}

#[test]
fn a_hold_is_reported_again_when_its_end_moves() {
    let waiting = held(2, &[]);
    let (mut world, said) = with(ONE, &[&held(1, &[]), &waiting]);
    assert_eq!(said, ["n1 send", "n2 InAll"]);
    // An hour from the accept as before.
    drop(world.step(described(&waiting, 300)));
    assert!(ticks(&mut world, 1).is_empty());
    drop(world.step(described(&waiting, 7200)));
    let effects = world.step(Input::Tick);
    let until = effects.iter().find_map(|effect| match effect {
        Effect::Report(_, event) => match **event {
            DrainEvent::PaceHolds { until, .. } => Some(until),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(until, world.fleet.drains.get(&waiting.name).unwrap().limits.held_until);
    assert!(until.is_some_and(|until| until > at(3590)), "{until:?}");
    assert!(ticks(&mut world, 60).is_empty(), "once");
}

/// A node that is drained for a recommendation stays until `--rebalance-ttl`, even when empty.
#[test]
fn an_empty_node_takes_no_place() {
    let bare = Node {
        name: "n1".into(),
        uid: "uid-1".to_owned(),
        instance: Some(id("i-00000000000000001")),
        ..node()
    };
    let recommended = crate::record::tests::event("r", 5, crate::domain::Cause::Rebalance);
    let recommended = of(&bare.instance.clone().unwrap(), recommended);
    let empty = take_on(&bare, &recommended, 5).unwrap();
    let mut world = world(ONE);
    world.accepts(&empty);
    drop(world.step(Input::Pods("n1".into(), drain::Input::Listed(Vec::new()))));
    drop(ticks(&mut world, 1));
    drop(ticks(&mut world, 1));
    assert!(world.fleet.drains.contains_key(&empty.name) && waiting(&world).is_empty());
    begins(&mut world, &held(2, &[]));
    assert_eq!(ticks(&mut world, 1), ["n2 send"]);
    begins(&mut world, &held(3, &[]));
    assert_eq!(ticks(&mut world, 1), ["n3 InAll"]);
}

/// The n-th node, with something that stops its evictions.
fn stopped(n: i64, by_gate: bool) -> Node {
    let mut node = newer(&held(n, &[]));
    if by_gate {
        let mut gates = NodeGates::default();
        gates.add("pre-drain.sundown.dev/backup", "by a test");
        node.gates = Some(Box::new(gates));
    } else {
        node.annotations.insert(PAUSE, "true");
    }
    node
}

#[test]
fn a_drain_that_is_stopped_after_it_has_begun_takes_no_place_and_a_new_leader_decides_the_same() {
    for (by_gate, is_new_leader) in [(false, false), (true, false), (false, true), (true, true)] {
        let row = format!("gate: {by_gate}, new leader: {is_new_leader}");
        let (first, second) = (stopped(1, by_gate), held(2, &[]));
        let mut world = if is_new_leader {
            let mut world = World::unconfirmed();
            world.now = 100;
            world.fleet.settings.pace = ONE;
            world.fleet.settings.leads_since = at(100);
            let node = Arc::new(first.clone());
            world.facts.with(|known| known.nodes.insert(first.name.clone(), Arc::clone(&node)));
            let nodes = vec![node];
            drop(world.step(Input::Unschedulable { version: "99".to_owned(), nodes }));
            begins(&mut world, &first);
            drop(ticks(&mut world, 40));
            world
        } else {
            let mut world = world(ONE);
            begins(&mut world, &held(1, &[]));
            let sent = world.step(Input::Tick);
            assert_eq!(told(&sent), ["n1 send"], "{row}");
            drop(world.step(answer_to(&sent, 500)));
            drop(seen(&mut world, &first));
            world
        };
        begins(&mut world, &second);
        assert_eq!(ticks(&mut world, 1), ["n2 send"], "{row}");
        let mut free = newer(&first);
        free.gates = None;
        free.annotations.remove(PAUSE);
        let mut said = told(&seen(&mut world, &free));
        said.extend(ticks(&mut world, 1));
        assert_eq!(said, ["n1 InAll"], "{row}");
        drop(world.step(Input::Pods("n2".into(), drain::Input::Listed(Vec::new()))));
        let said = ticks(&mut world, 10);
        assert!(said.contains(&"n1 turn true".to_owned()), "{row}: {said:?}");
    }
}

/// The API server answers the first order of these effects with this HTTP status.
fn answer_to(effects: &[Effect], code: u16) -> Input {
    let sent = effects.iter().find_map(|effect| match effect {
        Effect::Send { node, order, .. } => Some((node.clone(), order.clone())),
        _ => None,
    });
    let (node, order) = sent.unwrap();
    let answer = crate::domain::ApiAnswer { code, ..crate::domain::ApiAnswer::default() };
    Input::Answer { node, order, answer }
}

/// A pod of the node `n1`, which begins to terminate (until then) or not.
fn changed(name: &str, deletion: Option<Moment>) -> Input {
    let node: NodeName = "n1".into();
    let pod = crate::domain::Pod { node: Some(node.clone()), deletion, ..drain::tests::pod(name) };
    Input::Pods(node, drain::Input::Changed(pod))
}

#[test]
fn a_stopped_drain_keeps_its_place_while_its_evictions_are_under_way() {
    for by_gate in [false, true] {
        let begun = || {
            let mut world = world(ONE);
            begins(&mut world, &held(1, &[]));
            let sent = world.step(Input::Tick);
            drop(seen(&mut world, &stopped(1, by_gate)));
            drop(world.step(changed("other", None)));
            begins(&mut world, &held(2, &[]));
            assert_eq!(ticks(&mut world, 1), ["n2 InAll"], "no answer, gate: {by_gate}");
            (world, sent)
        };
        let (mut refused, sent) = begun();
        drop(refused.step(answer_to(&sent, 500)));
        assert_eq!(ticks(&mut refused, 1), ["n2 send", "n2 turn true"], "gate: {by_gate}");
        let (mut accepted, sent) = begun();
        drop(accepted.step(answer_to(&sent, 201)));
        assert_eq!(ticks(&mut accepted, 2), [""; 0], "not seen yet, gate: {by_gate}");
        drop(accepted.step(changed("n1", Some(at(90)))));
        assert_eq!(ticks(&mut accepted, 2), [""; 0], "terminating, gate: {by_gate}");
        drop(accepted.step(Input::Pods("n1".into(), drain::Input::Gone("n1".into()))));
        assert_eq!(ticks(&mut accepted, 2), ["n2 send", "n2 turn true"], "gate: {by_gate}");
    }
}

#[test]
fn a_new_leader_counts_a_stopped_drain_until_its_pods_have_ended() {
    for by_gate in [false, true] {
        let first = stopped(1, by_gate);
        let mut world = World::unconfirmed();
        world.now = 100;
        world.fleet.settings.pace = ONE;
        world.fleet.settings.leads_since = at(100);
        let node = Arc::new(first.clone());
        world.facts.with(|known| known.nodes.insert(first.name.clone(), Arc::clone(&node)));
        drop(world.step(Input::Unschedulable { version: "99".to_owned(), nodes: vec![node] }));
        begins(&mut world, &first);
        drop(world.step(changed("n1", Some(at(900)))));
        drop(world.step(changed("other", None)));
        drop(ticks(&mut world, 40));
        begins(&mut world, &held(2, &[]));
        assert_eq!(ticks(&mut world, 1), ["n2 InAll"], "gate: {by_gate}");
        drop(world.step(Input::Pods("n1".into(), drain::Input::Gone("n1".into()))));
        assert_eq!(ticks(&mut world, 2), ["n2 send", "n2 turn true"], "gate: {by_gate}");
    }
}

#[test]
fn a_paused_drain_whose_pods_are_terminating_keeps_its_place() {
    let (mut world, _) = with(ONE, &[&held(1, &[])]);
    drop(world.step(changed("n1", Some(at(90)))));
    drop(seen(&mut world, &stopped(1, false)));
    drop(world.step(changed("other", None)));
    begins(&mut world, &held(2, &[]));
    assert_eq!(ticks(&mut world, 1), ["n2 InAll"]);
    drop(world.step(Input::Pods("n1".into(), drain::Input::Gone("n1".into()))));
    assert_eq!(ticks(&mut world, 2), ["n2 send", "n2 turn true"]);
}

#[test]
fn without_a_limit_all_begin_at_once() {
    let (a, b) = (held(1, &[]), held(2, &[]));
    let mut world = world(NO_LIMIT);
    begins(&mut world, &a);
    begins(&mut world, &b);
    assert!(waiting(&world).is_empty());
}

#[test]
fn s32_of_three_control_plane_nodes_one_is_drained_at_a_time_without_any_flag() {
    for label in CONTROL_PLANE {
        let masters: Vec<Node> = (1..=3).map(|n| held(n, &[label])).collect();
        let worker = held(4, &[]);
        let all: Vec<&Node> = masters.iter().chain([&worker]).collect();
        let mut world = world(NO_LIMIT);
        let mut said = Vec::new();
        for node in &all {
            begins(&mut world, node);
        }
        said.extend(ticks(&mut world, 0));
        assert!(said.contains(&"n2 ControlPlane".to_owned()), "{label}: {said:?}");
        assert!(said.contains(&"n3 ControlPlane".to_owned()), "{label}: {said:?}");
        assert_eq!(waiting(&world), ["n2", "n3"], "{label}");
        world.deletes(masters.first().unwrap());
        let said = ticks(&mut world, 1);
        assert!(said.contains(&"n2 turn true".to_owned()), "{label}: {said:?}");
        assert_eq!(waiting(&world), ["n3"], "{label}");
    }
}

#[test]
fn a_held_drain_begins_at_half_of_its_time_whatever_the_number() {
    let (mut world, _) = with(ONE, &[&held(1, &[]), &held(2, &[])]);
    // The hook is not described: one hour from the accept at second 2.
    world.now = 1790;
    assert_eq!(ticks(&mut world, 0), ["n2 InAll"], "it is reported again");
    world.now = 1801;
    assert_eq!(ticks(&mut world, 0), ["n2 send", "n2 turn false"]);
}

#[test]
fn a_drain_that_has_begun_goes_on_when_an_earlier_one_gets_ready() {
    let mut world = world(ONE);
    let mut gates = NodeGates::default();
    gates.add("pre-drain.sundown.dev/backup", "by a test");
    let gated = Node { gates: Some(Box::new(gates)), ..held(1, &[]) };
    assert!(gated.has_gate(GateKind::PreDrain));
    begins(&mut world, &gated);
    begins(&mut world, &held(2, &[]));
    assert_eq!(ticks(&mut world, 0), ["n2 send"], "what waits for a gate takes no turn");
    let free = Node { gates: None, ..newer(&gated) };
    let mut said = told(&seen(&mut world, &free));
    said.extend(ticks(&mut world, 1));
    assert_eq!(said, ["n1 InAll"]);
    assert!(ticks(&mut world, 60).is_empty(), "it stays begun");
}

#[test]
fn a_spot_notice_ends_the_wait_and_its_drain_does_not_count() {
    let (mut world, _) = with(ONE, &[&held(1, &[]), &held(2, &[])]);
    let waiting = held(2, &[]);
    let instance = waiting.instance.clone().unwrap();
    world.now = 100;
    let joined = take_on(&waiting, &of(&instance, spot("s", 100)), 100).unwrap();
    let said = told(&seen(&mut world, &joined));
    assert_eq!(said, ["n2 send", "n2 turn false"]);
    begins(&mut world, &held(3, &[]));
    assert_eq!(ticks(&mut world, 1), ["n3 InAll"], "n1 still counts");
    world.deletes(&held(1, &[]));
    assert_eq!(ticks(&mut world, 1), ["n3 send", "n3 turn true"], "and n2 does not");
}

#[test]
fn a_node_that_cluster_autoscaler_drains_is_never_held_back_and_does_not_count() {
    let taint = Taint {
        key: TO_BE_DELETED.to_owned(),
        value: Some("1767225600".to_owned()),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    };
    let tainted = |n| {
        let mut node = held(n, &[]);
        node.taints.push(taint.clone());
        node
    };
    let (first, second) = (tainted(1), tainted(2));
    let mut world = world(ONE);
    for node in [&first, &second] {
        begins(&mut world, node);
    }
    begins(&mut world, &held(3, &[]));
    drop(ticks(&mut world, 0));
    assert!(waiting(&world).is_empty(), "the first two do not count");
    // It gets the taint while it waits.
    begins(&mut world, &held(4, &[]));
    assert!(ticks(&mut world, 1).contains(&"n4 InAll".to_owned()));
    let mut later = newer(&held(4, &[]));
    later.taints.push(taint);
    let said = told(&seen(&mut world, &later));
    assert!(said.contains(&"n4 turn false".to_owned()), "{said:?}");
    assert!(waiting(&world).is_empty());
}

#[test]
fn a_paused_drain_takes_no_turn_and_a_release_ends_a_held_one() {
    let mut paused = held(1, &[]);
    paused.annotations.insert(PAUSE, "true");
    let (mut world, said) = with(ONE, &[&paused, &held(2, &[])]);
    assert_eq!(said, ["n2 send"]);
    let mut resumed = newer(&paused);
    resumed.annotations.remove(PAUSE);
    let mut said = told(&seen(&mut world, &resumed));
    said.extend(ticks(&mut world, 1));
    assert_eq!(said, ["n1 InAll"]);
    let mut released = newer(&resumed);
    released.annotations.insert(RELEASE, "true");
    drop(seen(&mut world, &released));
    assert_eq!(world.fleet.held_back(), 0);
    assert!(ticks(&mut world, 1).is_empty());
}

#[test]
fn a_new_leader_goes_on_in_the_order_of_accepts_and_takes_those_with_terminating_pods_first() {
    for (is_terminating, expected) in
        [(false, ["n1 send", "n2 InAll"]), (true, ["n1 InAll", "n2 "])]
    {
        let mut world = World::unconfirmed();
        world.now = 100;
        world.fleet.settings.pace = ONE;
        world.fleet.settings.leads_since = at(100);
        let nodes = [held(1, &[]), held(2, &[])];
        let arcs: Vec<Arc<Node>> = nodes.iter().cloned().map(Arc::new).collect();
        world.facts.with(|known| {
            known.nodes.extend(arcs.iter().map(|node| (node.name.clone(), Arc::clone(node))));
        });
        drop(world.step(Input::Unschedulable { version: "99".to_owned(), nodes: arcs }));
        assert!(ticks(&mut world, 0).is_empty(), "no pods were listed yet");
        for node in &nodes {
            begins(&mut world, node);
        }
        if is_terminating {
            let name = nodes[1].name.clone();
            let pod = crate::domain::Pod {
                node: Some(name.clone()),
                deletion: Some(at(130)),
                ..drain::tests::pod(name.as_str())
            };
            drop(world.step(Input::Pods(name, drain::Input::Changed(pod))));
        }
        let said = ticks(&mut world, 1);
        let has = |text: &str| said.iter().any(|one| one.starts_with(text));
        assert!(has(expected[0]), "{is_terminating}: {said:?}");
        assert!(has(expected[1]) || expected[1] == "n2 ", "{is_terminating}: {said:?}");
        assert!(!(has("n1 send") && has("n2 send")), "{said:?}");
    }
}

#[test]
fn a_drain_whose_record_names_no_group_waits_until_ec2_shows_it() {
    let mut world = world(ONE_A_GROUP);
    begins(&mut world, &held(1, &[]));
    assert_eq!(ticks(&mut world, 0), ["n1 send"]);
    let bare = Node {
        name: "n5".into(),
        uid: "uid-5".to_owned(),
        instance: Some(id("i-00000000000000005")),
        ..node()
    };
    let instance = bare.instance.clone().unwrap();
    let recommended = crate::record::tests::event("r", 5, crate::domain::Cause::Rebalance);
    let drained = take_on(&bare, &of(&instance, recommended), 5).unwrap();
    let effects = {
        let node = Arc::new(drained.clone());
        world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
        world.step(Input::Accepted { node, instance, instance_has_ended: false })
    };
    assert!(words(&effects).contains(&"ask for the group"), "{:?}", words(&effects));
    assert!(ticks(&mut world, 1).is_empty(), "EC2 mostly answers at once");
    assert_eq!(ticks(&mut world, 5), ["n5 GroupUnknown"]);
    let found =
        Input::GroupFound { node: "n5".into(), uid: "uid-5".to_owned(), group: Some("asg".into()) };
    drop(world.step(found));
    assert_eq!(ticks(&mut world, 0), ["n5 Group"]);
}

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

/// Pods of namespaces of the team `batch` wait.
fn team_waits() -> Arc<PodRules> {
    waits_in("team=batch")
}

/// Pods of namespaces with these labels wait.
fn waits_in(namespace_labels: &str) -> Arc<PodRules> {
    let namespace_labels = namespace_labels.parse().unwrap();
    let rule = PodRule {
        place: RulePlace::default(),
        matches: PodMatch { namespace_labels, ..PodMatch::default() },
        behavior: PodBehavior::WaitCompleted,
        max_grace_period: None,
        force_after: None,
    };
    Arc::new(PodRules::new(vec![rule]).unwrap())
}

fn read(team: &str) -> Input {
    let labels = [("team".to_owned(), team.to_owned())].into();
    Input::NamespacesRead {
        keys: ["team".to_owned()].into(),
        found: Ok([("default".to_owned(), labels)].into_iter().collect()),
    }
}

fn failed() -> Input {
    let found = Err("forbidden".to_owned());
    Input::NamespacesRead { keys: ["team".to_owned()].into(), found }
}

/// How often the effects ask for namespaces.
fn asks(effects: &[Effect]) -> usize {
    words(effects).into_iter().filter(|word| *word == "ask for namespaces").count()
}

/// Ticks once a second for this long; returns how often namespaces were asked for.
fn asks_within(world: &mut World, seconds: u64) -> usize {
    let step = |world: &mut World| {
        world.now += 1;
        asks(&world.step(Input::Tick))
    };
    (0..seconds).map(|_| step(world)).sum()
}

#[test]
fn labels_of_namespaces_are_asked_for_when_a_pod_needs_them_and_every_minute() {
    let node = held();
    let mut world = World::confirmed();
    world.step(Input::PodRules(team_waits()));
    world.accepts(&node);
    world.sees("drain", "t1", ActionSeen::Open);
    let pod = Pod { node: Some(node.name.clone()), ..drain::tests::pod("a") };
    let listed = Input::Pods(node.name.clone(), drain::Input::Listed(vec![pod]));
    assert_eq!(asks(&world.step(listed)), 1);
    assert_eq!(asks_within(&mut world, 2), 0, "an answer is under way");
    world.step(read("batch"));
    assert_eq!(waiting(&world, &node), 1);
    assert_eq!(asks_within(&mut world, 59), 0);
    assert_eq!(asks_within(&mut world, 2), 1, "it is read again");
    world.step(read("web"));
    assert_eq!(waiting(&world, &node), 0, "the namespace has another label");
    // Answers about other labels do not count, and rules without these labels ask for nothing.
    world.step(Input::PodRules(all_wait()));
    world.step(read("batch"));
    assert_eq!(asks_within(&mut world, 200), 0);
}

#[test]
fn a_failure_is_reported_once_and_the_labels_that_were_read_last_stay_in_force() {
    let node = held();
    let mut world = World::confirmed();
    world.step(Input::PodRules(team_waits()));
    listed(&mut world, &node);
    world.step(read("batch"));
    asks_within(&mut world, 61);
    let unknown = |effects: Vec<Effect>| {
        let is = |effect: &Effect| {
            matches!(effect, Effect::ReportFleet(FleetEvent::NamespacesUnknown(_)))
        };
        effects.iter().filter(|effect| is(effect)).count()
    };
    assert_eq!(unknown(world.step(failed())), 1);
    assert_eq!(waiting(&world, &node), 1);
    assert_eq!(asks_within(&mut world, 12), 1, "it is tried again after ten seconds");
    assert_eq!(unknown(world.step(failed())), 0);
    asks_within(&mut world, 12);
    let effects = world.step(read("batch"));
    let is_known =
        |effect: &Effect| matches!(effect, Effect::ReportFleet(FleetEvent::NamespacesKnown));
    assert!(effects.iter().any(is_known), "{effects:?}");
}

#[test]
fn rules_that_read_other_labels_count_when_these_are_known_and_until_then_the_last_rules_do() {
    let node = held();
    let begun = || {
        let mut world = World::confirmed();
        world.step(Input::PodRules(team_waits()));
        listed(&mut world, &node);
        world.step(read("batch"));
        assert_eq!(waiting(&world, &node), 1);
        world
    };
    let both = || -> BTreeSet<String> { ["env".to_owned(), "team".to_owned()].into() };
    let answer = |env: &str| {
        let labels = [("team", "batch"), ("env", env)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let found = Ok([("default".to_owned(), labels)].into_iter().collect());
        Input::NamespacesRead { keys: both(), found }
    };
    for (env, waits) in [("prod", 1), ("test", 0)] {
        let mut world = begun();
        world.step(Input::PodRules(waits_in("team=batch,env=prod")));
        assert_eq!(asks_within(&mut world, 2), 1, "no pod needs the answer, but the rules do");
        // An answer about the labels of the last rules comes too late.
        world.step(read("web"));
        let found = Err("forbidden".to_owned());
        world.step(Input::NamespacesRead { keys: both(), found });
        asks_within(&mut world, 5);
        assert_eq!(waiting(&world, &node), 1, "{env}: the last rules count");
        world.step(answer(env));
        assert_eq!(waiting(&world, &node), waits, "{env}");
    }
    // The last rules come back before the answer.
    let mut world = begun();
    world.step(Input::PodRules(waits_in("team=batch,env=prod")));
    world.step(Input::PodRules(team_waits()));
    world.step(answer("test"));
    asks_within(&mut world, 5);
    assert_eq!(waiting(&world, &node), 1);
    // Rules that read fewer labels need no answer.
    let mut world = begun();
    world.step(Input::PodRules(waits_in("team=batch,env=prod")));
    world.step(answer("prod"));
    world.step(Input::PodRules(team_waits()));
    asks_within(&mut world, 5);
    assert_eq!(waiting(&world, &node), 1);
}

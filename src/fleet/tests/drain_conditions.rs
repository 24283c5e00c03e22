//! The conditions of Nodes about their drains: their texts, and when they are written.

use super::{transitions::held, *};
use crate::{
    domain::{
        BudgetKey, DRAIN_IN_PROGRESS, IGNORE, PodKey, RECORD, ShownCondition, ShownDrain, TAINT,
        WishSource,
    },
    drain::{AskedToWait, BlockReason, BlockedPod, Counts, Explanation, Phase, Wait, tests::pod},
    fleet::{drain_conditions::ConditionQueue, explained, facts::BudgetsOfTurn},
    record::{
        DrainConditions, DrainConditionsChange, drain_conditions_change, tests::release_node,
    },
};

// ---- texts ----

fn blocked(name: &str, reason: BlockReason, budgets: &[&str], since: i64) -> BlockedPod {
    let budget = |name: &&str| BudgetKey { namespace: "data".into(), name: (*name).to_owned() };
    BlockedPod {
        pod: PodKey { namespace: "data".into(), name: name.into() },
        reason,
        message: String::new(),
        budgets: budgets.iter().map(budget).collect(),
        since: Some(at(since)),
        forced_from: None,
    }
}

/// A drain with seven pods left, as many of them blocked as given.
fn draining(blocked: Vec<BlockedPod>, waiting: usize) -> Explanation {
    let counts = Counts {
        left: 7,
        waiting,
        blocked: blocked.len(),
        leaving: 7 - waiting - blocked.len(),
        ..Counts::default()
    };
    Explanation {
        phase: Phase::Draining,
        wait: None,
        counts,
        blocked,
        blocked_forced_from: None,
        asked_to_wait: Vec::new(),
    }
}

/// The same drain, where two of the pods that were leaving ask to wait.
fn asking(of: Explanation) -> Explanation {
    let counts = Counts { asked_to_wait: 2, leaving: of.counts.leaving - 2, ..of.counts };
    let asked = AskedToWait { key: WishSource::Karpenter, pods: 2, until: at(60) };
    Explanation { counts, asked_to_wait: vec![asked], ..of }
}

fn in_phase(phase: Phase) -> Explanation {
    Explanation { phase, ..draining(Vec::new(), 7) }
}

fn waiting(wait: Wait) -> Explanation {
    Explanation { wait: Some(wait), ..draining(Vec::new(), 7) }
}

#[test]
fn the_conditions_say_what_a_drain_is_about() {
    use BlockReason as R;
    let (a, b) = (|reason| blocked("a", reason, &[], 5), |reason| blocked("b", reason, &[], 9));
    let store = |name| blocked(name, R::Pdb, &["store"], 5);
    let since = "since 2026-01-01T00:00:05Z";
    let not_forced = "No blocked pod is deleted by force.";
    let wait = "2 pods wait (karpenter.sh/do-not-disrupt) until 2026-01-01T00:01:00Z at the latest";
    let empty = Explanation { counts: Counts::default(), ..draining(Vec::new(), 0) };
    for (explanation, reason, text) in [
        (
            in_phase(Phase::Listing),
            "ListingPods",
            "The pods of the node are being listed".to_owned(),
        ),
        (
            in_phase(Phase::Paused),
            "Paused",
            "7 pods left; a person has paused the drain".to_owned(),
        ),
        (in_phase(Phase::Marked), "NotEvicting", "7 pods left, and stay (--on)".to_owned()),
        (
            waiting(Wait::Aws),
            "WaitingForAWS",
            "7 pods left; the drain waits for AWS to confirm its interruption".to_owned(),
        ),
        (
            waiting(Wait::Until(at(60))),
            "WaitingForEvictAfter",
            "7 pods left; evictions begin at 2026-01-01T00:01:00Z (--evict-after)".to_owned(),
        ),
        (
            waiting(Wait::Replacement(at(60))),
            "WaitingForReplacement",
            "7 pods left; evictions wait for a node that replaces this one, until \
             2026-01-01T00:01:00Z at the latest (--evict-after)"
                .to_owned(),
        ),
        (
            waiting(Wait::Gate(at(60))),
            "HeldByGate",
            "7 pods left; a gate (pre-drain.sundown.dev) delays the evictions until \
             2026-01-01T00:01:00Z at the latest"
                .to_owned(),
        ),
        (
            waiting(Wait::Pace(crate::domain::PaceHold::InAll, at(60))),
            "WaitingForOtherDrains",
            "7 pods left; evictions begin later, until 2026-01-01T00:01:00Z at the latest, because \
             as many nodes are being drained as --max-voluntary allows"
                .to_owned(),
        ),
        (
            in_phase(Phase::Volumes),
            "WaitingForVolumes",
            "7 pods left; the drain waits until the volumes of the pods are detached".to_owned(),
        ),
        (draining(Vec::new(), 3), "Evicting", "7 pods left, 3 not evicted yet".to_owned()),
        (draining(Vec::new(), 0), "Terminating", "7 pods left, all terminating".to_owned()),
        (empty, "NoPodLeft", "No pod is left; the drain is about to end".to_owned()),
        (
            draining(vec![store("a"), store("b")], 0),
            "BlockedByBudget",
            format!("7 pods left, 2 blocked by data/store {since}. {not_forced}"),
        ),
        (
            asking(draining(Vec::new(), 1)),
            "Evicting",
            format!("7 pods left, 3 not evicted yet; {wait}"),
        ),
        (asking(draining(Vec::new(), 0)), "PodsAskToWait", format!("7 pods left; {wait}")),
        (
            asking(draining(vec![store("a")], 0)),
            "BlockedByBudget",
            format!("7 pods left, 1 blocked by data/store {since}; {wait}. {not_forced}"),
        ),
        (
            Explanation {
                blocked_forced_from: Some(at(60)),
                ..draining(vec![store("a"), b(R::Finalizer)], 0)
            },
            "BlockedByBudget",
            format!(
                "7 pods left, 1 blocked by data/store {since}, 1 held by a finalizer (data/b) since \
                 2026-01-01T00:00:09Z. Blocked pods are deleted by force from 2026-01-01T00:01:00Z \
                 on."
            ),
        ),
        (
            draining(vec![a(R::Webhook), b(R::Webhook)], 0),
            "BlockedByWebhook",
            format!(
                "7 pods left, 2 blocked by an admission webhook or policy (data/a and 1 more) \
                 {since}. {not_forced}"
            ),
        ),
        (
            draining(vec![blocked("a", R::TwoPdbs, &["x", "y"], 5)], 0),
            "BlockedByBudget",
            format!("7 pods left, 1 blocked by data/x and data/y at once {since}. {not_forced}"),
        ),
        (
            draining(vec![blocked("a", R::PdbLagging, &["x"], 5)], 0),
            "BlockedByBudget",
            format!(
                "7 pods left, 1 blocked by the outdated status of data/x {since}. {not_forced}"
            ),
        ),
        (
            draining(vec![a(R::Pdb)], 0),
            "BlockedByBudget",
            format!("7 pods left, 1 blocked by a disruption budget (data/a) {since}. {not_forced}"),
        ),
        (
            draining(
                ["v", "w", "x", "y"].map(|name| blocked(name, R::Pdb, &[name], 5)).to_vec(),
                0,
            ),
            "BlockedByBudget",
            format!(
                "7 pods left, 1 blocked by data/v {since}, 1 blocked by data/w {since}, 1 blocked \
                 by data/x {since}, 1 blocked by other causes. {not_forced}"
            ),
        ),
    ] {
        let (conditions, _) = explained::conditions(&explanation);
        assert_eq!(conditions, DrainConditions::new(true, false, reason, &text));
    }
    for (reason, phrase) in [
        (R::NamespaceTerminating, "in a namespace that is being deleted"),
        (R::Rbac, "that Sundown may not evict"),
        (R::TerminatingStuck, "terminating for too long"),
        (R::Finalizer, "held by a finalizer"),
        (R::ApiOverload, "refused by an overloaded API server"),
        (R::Intercepted, "held by a webhook that intercepts evictions"),
        (R::NoSlot, "not evicted in time"),
        (R::Error, "whose eviction fails"),
    ] {
        let explanation = draining(vec![a(reason)], 0);
        let (conditions, _) = explained::conditions(&explanation);
        let text = format!("7 pods left, 1 {phrase} (data/a) {since}. {not_forced}");
        let expected = DrainConditions::new(true, false, explanation.cause().as_str(), &text);
        assert_eq!(conditions, expected);
    }
}

#[test]
fn after_its_end_a_drain_shows_what_delays_the_completion() {
    let (held, about) = explained::completing(Some(at(60)));
    let text = "No pod is left; a gate (pre-release.sundown.dev) delays the completion of the \
                lifecycle actions until 2026-01-01T00:01:00Z at the latest";
    assert_eq!(held, DrainConditions::new(true, false, "HeldByGate", text));
    assert_ne!(about, explained::conditions(&waiting(Wait::Gate(at(60)))).1);
    assert_eq!(explained::completing(None).0.reason, "Completing");
}

#[test]
fn the_cause_changes_with_what_blocks_and_not_with_numbers() {
    let store = |name| blocked(name, BlockReason::Pdb, &["store"], 5);
    let cause = |explanation: Explanation| explained::conditions(&explanation).1;
    let one = cause(draining(vec![store("a")], 3));
    assert_eq!(cause(draining(vec![store("a"), store("b")], 0)), one);
    assert_ne!(cause(draining(vec![blocked("a", BlockReason::Pdb, &["other"], 5)], 3)), one);
    assert_ne!(cause(draining(Vec::new(), 3)), one);
}

#[test]
fn the_event_of_blocked_pods_names_each_with_its_budgets() {
    let store =
        BlockedPod { forced_from: Some(at(60)), ..blocked("a", BlockReason::Pdb, &["x"], 5) };
    let hooked = blocked("b", BlockReason::Webhook, &[], 5);
    assert_eq!(
        explained::blocked_event(&[&store, &hooked]),
        "2 pods are blocked: data/a (pdb data/x), data/b (webhook). Blocked pods are deleted by \
         force from 2026-01-01T00:01:00Z on."
    );
    assert_eq!(
        explained::blocked_event(&[&hooked]),
        "1 pod is blocked: data/b (webhook). No blocked pod is deleted by force."
    );
}

// ---- what a fleet writes ----

fn shows(world: &mut World, node: &Node) {
    let node = Arc::new(node.clone());
    world.facts.with(|known| known.nodes.insert(node.name.clone(), Arc::clone(&node)));
    drop(world.step(Input::NodeApplied(node)));
}

/// The orders of the next tick.
fn orders(world: &mut World, now: i64) -> Vec<(Arc<Node>, DrainConditionsChange)> {
    world.now = now;
    let effects = world.step(Input::Tick);
    effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::SetDrainConditions(node, change) => Some((node, change)),
            _ => None,
        })
        .collect()
}

/// The Node after what is ordered was written, if anything is.
fn written(world: &mut World, node: &Node, now: i64) -> Option<Node> {
    let mut orders = orders(world, now);
    let (_, change) = orders.pop()?;
    assert!(orders.is_empty());
    let body = change.patch(&node.uid, at(now));
    let mut drain = node.drain_conditions.as_deref().cloned().unwrap_or_default();
    for condition in body.pointer("/status/conditions").unwrap().as_array().unwrap() {
        let text = |key: &str| condition.get(key).and_then(|text| text.as_str());
        let shown = text("$patch").is_none().then(|| ShownCondition {
            is_true: text("status") == Some("True"),
            reason: text("reason").unwrap().to_owned(),
            message: text("message").unwrap().to_owned(),
            written: Some(at(now)),
        });
        if text("type") == Some(DRAIN_IN_PROGRESS) {
            drain.in_progress = shown;
        } else {
            drain.drained = shown;
        }
    }
    let drain = Some(Box::new(drain)).filter(|drain| **drain != ShownDrain::default());
    let node = Node { drain_conditions: drain, ..super::transitions::newer(node) };
    shows(world, &node);
    Some(node)
}

fn reason(node: &Node) -> Option<&str> {
    Some(&node.drain_conditions.as_deref()?.in_progress.as_ref()?.reason)
}

fn is_drained(node: &Node) -> bool {
    let drained = node.drain_conditions.as_deref().and_then(|shown| shown.drained.as_ref());
    drained.is_some_and(|drained| drained.is_true)
}

/// The Node with the annotations, cordon and taints of another version of it.
fn patched(node: &Node, by: impl FnOnce(&Node) -> Node) -> Node {
    Node { drain_conditions: node.drain_conditions.clone(), ..by(node) }
}

/// A drain with the pods `a` and `b`, whose conditions show that they are being evicted.
fn begun() -> (World, Node) {
    let mut world = World::confirmed();
    world.fleet.settings.shows_drains = true;
    let node = held();
    world.accepts(&node);
    let node = written(&mut world, &node, 1).expect("the drain is new");
    assert_eq!(reason(&node), Some("ListingPods"));
    world.sees("drain", "t1", ActionSeen::Open);
    let of = |name: &str| crate::domain::Pod { node: Some(node.name.clone()), ..pod(name) };
    world.pods(&node, drain::Input::Listed(vec![of("a"), of("b")]));
    (world, node)
}

#[test]
fn a_node_is_written_when_the_cause_changes_and_at_most_every_thirty_seconds() {
    let (mut world, node) = begun();
    assert_eq!(written(&mut world, &node, 30), None, "too early");
    let node = written(&mut world, &node, 31).expect("the cause is another one");
    assert_eq!(reason(&node), Some("Evicting"));
    world.pods(&node, drain::Input::Gone("a".into()));
    for now in [100, 101, 330] {
        assert_eq!(written(&mut world, &node, now), None, "only the number has changed");
    }
    let node = written(&mut world, &node, 331).expect("the text is old");
    assert_eq!(reason(&node), Some("Evicting"));
}

#[test]
fn a_changed_node_is_looked_at_when_it_may_be_written() {
    let (mut world, node) = begun();
    for now in [5, 6, 20] {
        world.now = now;
        world.pods(&node, drain::Input::Tick);
        assert!(orders(&mut world, now).is_empty());
        assert_eq!(world.fleet.conditions.next_wake(), at(31), "{now}");
    }
    let node = written(&mut world, &node, 31).expect("the cause is another one");
    world.now = 40;
    world.pods(&node, drain::Input::Gone("a".into()));
    assert!(orders(&mut world, 40).is_empty());
    assert_eq!(world.fleet.conditions.next_wake(), at(61));
}

#[test]
fn the_budgets_are_collected_once_for_all_nodes_of_a_turn() {
    let facts = FakeFacts::default();
    let budget = |namespace: &str, name: &str| {
        Arc::new(Budget {
            key: BudgetKey { namespace: namespace.to_owned(), name: name.to_owned() },
            selector: None,
            allowed: 0,
            healthy: 1,
            desired: 1,
            generation: 1,
            observed: 1,
        })
    };
    let all = vec![budget("a", "x"), budget("b", "y"), budget("a", "z")];
    facts.with(|known| known.budgets = all);
    let budgets = BudgetsOfTurn::default();
    for (namespace, expected) in [("a", &["x", "z"][..]), ("b", &["y"]), ("c", &[])] {
        let names: Vec<String> =
            budgets.of(&facts, namespace).iter().map(|budget| budget.key.name.clone()).collect();
        assert_eq!(names, expected, "{namespace}");
    }
    assert_eq!(facts.with(|known| known.budget_reads), 1);
}

#[test]
fn a_drained_node_shows_that_until_it_is_restored() {
    let (mut world, node) = begun();
    for name in ["a", "b"] {
        world.pods(&node, drain::Input::Gone(name.into()));
    }
    world.now = 20;
    let node = patched(&node, |node| release_node(node, 20));
    world.step(Input::Tick);
    shows(&mut world, &node);
    world.step(Input::CompletionDone {
        node: node.name.clone(),
        uid: node.uid.clone(),
        is_node_deleted: false,
    });
    let node = written(&mut world, &node, 40).expect("it is drained");
    assert_eq!((reason(&node), is_drained(&node)), (Some("DrainCompleted"), true));
    let mut restored = super::transitions::newer(&node);
    restored.annotations.remove(RECORD);
    restored.unschedulable = false;
    restored.taints.retain(|taint| taint.key != TAINT);
    shows(&mut world, &restored);
    assert_eq!(written(&mut world, &restored, 69), None, "too early");
    let node = written(&mut world, &restored, 70).expect("it is restored");
    assert_eq!(node.drain_conditions, None);
    assert_eq!(world.fleet.conditions.next_wake(), at(100), "whether it was written");
    assert!(orders(&mut world, 100).is_empty());
    assert_eq!(world.fleet.conditions.next_wake(), Moment::MAX);
}

#[test]
fn a_drained_node_whose_machine_boots_shows_the_end_until_it_is_restored() {
    let (mut world, node) = begun();
    for name in ["a", "b"] {
        world.pods(&node, drain::Input::Gone(name.into()));
    }
    world.now = 20;
    let node = patched(&node, |node| release_node(node, 20));
    world.step(Input::Tick);
    shows(&mut world, &node);
    world.step(Input::CompletionDone {
        node: node.name.clone(),
        uid: node.uid.clone(),
        is_node_deleted: false,
    });
    let mut booted = super::transitions::newer(&node);
    booted.boot_id = Some("another-boot".into());
    shows(&mut world, &booted);
    let node = written(&mut world, &booted, 40).expect("its drain is over");
    assert_eq!((reason(&node), is_drained(&node)), (Some("DrainCompleted"), true));
}

#[test]
fn a_gate_that_holds_the_completion_is_shown_until_it_is_removed() {
    let (mut world, node) = begun();
    let mut gates = crate::domain::NodeGates::default();
    gates.add("pre-release.sundown.dev/logs", "");
    let gated = Node { gates: Some(Box::new(gates)), ..super::transitions::newer(&node) };
    shows(&mut world, &gated);
    for name in ["a", "b"] {
        world.pods(&gated, drain::Input::Gone(name.into()));
    }
    world.now = 20;
    world.step(Input::Tick);
    let node = written(&mut world, &gated, 40).expect("a gate holds the completion");
    assert_eq!((reason(&node), is_drained(&node)), (Some("HeldByGate"), false));
    let free = Node { gates: None, ..super::transitions::newer(&node) };
    shows(&mut world, &free);
    let node = written(&mut world, &free, 80).expect("nothing holds it");
    assert_eq!(reason(&node), Some("Completing"));
}

#[test]
fn a_write_that_the_node_does_not_show_is_ordered_again_ever_later() {
    let mut world = World::confirmed();
    world.fleet.settings.shows_drains = true;
    let node = held();
    world.accepts(&node);
    let times: Vec<i64> = (1..1000).filter(|now| !orders(&mut world, *now).is_empty()).collect();
    assert_eq!(times, [1, 61, 181, 421, 721]);
}

#[test]
fn evictions_and_accepts_go_first() {
    let (mut world, node) = begun();
    world.step(Input::Arrived);
    for now in [40, 45] {
        assert!(orders(&mut world, now).is_empty(), "an interruption is being decided");
    }
    world.step(Input::Settled);
    assert!(written(&mut world, &node, 46).is_some());
    world.fleet.settings.dispatch.in_flight = 2;
    world.pods(&node, drain::Input::Gone("a".into()));
    world.pods(&node, drain::Input::Gone("b".into()));
    for now in [80, 90] {
        assert!(orders(&mut world, now).is_empty(), "every slot is taken");
    }
    world.fleet.settings.dispatch.in_flight = 3;
    assert!(written(&mut world, &node, 91).is_some());
}

#[test]
fn without_the_flag_nothing_is_written() {
    let mut world = World::confirmed();
    let node = held();
    world.accepts(&node);
    assert!((1..100).all(|now| orders(&mut world, now).is_empty()));
    assert_eq!(world.fleet.conditions.next_wake(), Moment::MAX);
}

#[test]
fn only_conditions_of_nodes_without_a_record_are_removed() {
    let shown = || {
        let wanted = DrainConditions::new(true, false, "Evicting", "7 pods left");
        assert!(drain_conditions_change(&crate::record::tests::node(), Some(&wanted)).is_some());
        let of = |is_true| {
            let message = "7 pods left (see sundown.dev/record)".to_owned();
            let (reason, written) = ("Evicting".to_owned(), Some(at(0)));
            Some(ShownCondition { is_true, reason, message, written })
        };
        Some(Box::new(ShownDrain { in_progress: of(true), drained: of(false) }))
    };
    let plain = || Node { drain_conditions: shown(), ..crate::record::tests::node() };
    let mut ignored = plain();
    ignored.annotations.insert(IGNORE, "true");
    let mut tainted = plain();
    tainted.taints = held().taints;
    let bare = crate::record::tests::node();
    for (node, is_removed, case) in [
        (plain(), true, "its drain is over"),
        (ignored, true, "a person keeps Sundown away"),
        (tainted, false, "its record was deleted during its drain"),
        (bare, false, "it has no condition"),
    ] {
        let mut world = World::confirmed();
        world.fleet.settings.shows_drains = true;
        shows(&mut world, &node);
        assert_eq!(written(&mut world, &node, 31).is_some(), is_removed, "{case}");
    }
}

#[test]
fn a_new_leader_keeps_the_pace_of_the_last_one() {
    let (_, node) = begun();
    let mut world = World::confirmed();
    world.fleet.settings.shows_drains = true;
    world.now = 10;
    world.accepts(&node);
    let of = |name: &str| crate::domain::Pod { node: Some(node.name.clone()), ..pod(name) };
    world.pods(&node, drain::Input::Listed(vec![of("a")]));
    assert!(orders(&mut world, 30).is_empty());
    let node = written(&mut world, &node, 31).expect("the cause is another one");
    assert_eq!(reason(&node), Some("Evicting"));
}

#[test]
fn ten_thousand_nodes_are_written_ten_a_second() {
    let mut queue = ConditionQueue::default();
    let name = |n: u32| NodeName::from(format!("n{n:05}").as_str());
    for n in 0..10_000 {
        queue.mark(&name(n), at(0));
        queue.mark(&name(n), at(0));
    }
    assert!(!queue.begin_turn(at(0)), "the calls that follow from the change go first");
    assert_eq!(queue.next_wake(), at(1));
    assert!(queue.begin_turn(at(1)));
    assert!(!queue.begin_turn(at(1)), "one turn a second");
    assert_eq!(queue.next_wake(), at(2));
    let first: Vec<NodeName> = (0..10).filter_map(|_| queue.pop(at(1))).collect();
    assert_eq!(first, (0..10).map(name).collect::<Vec<_>>());
    queue.mark(&name(0), at(1));
    assert_eq!(queue.pop(at(2)), Some(name(10)), "what has waited longer goes first");
    for n in 0..10_000 {
        queue.forget(&name(n));
    }
    assert_eq!(queue.next_wake(), Moment::MAX);
}

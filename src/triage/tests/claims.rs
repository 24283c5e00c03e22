//! Several Nodes that claim one instance.

use super::*;

const ADDRESS: &str = "10.0.0.1";

/// A Node that claims the instance, under a name and with addresses that EC2 does not know.
fn claimant(name: &str) -> Node {
    Node { dns: Some(format!("{name}.example")), ..node(name, Some(INSTANCE)) }
}

fn silent(node: Node) -> Node {
    Node { ready: Ready::Unknown, ..node }
}

fn ignored(mut node: Node) -> Node {
    node.annotations.insert(IGNORE, "true");
    node
}

/// EC2's facts about the instance.
fn described() -> InstanceFacts {
    InstanceFacts {
        private_dns: Some(DNS.to_owned()),
        private_address: Some(ADDRESS.to_owned()),
        ..facts(InstanceState::Running, ours())
    }
}

fn known(nodes: &[Node], instance: Option<InstanceAnswer>) -> Knowledge {
    Knowledge { nodes: nodes.iter().cloned().map(Arc::new).collect(), instance, ..fresh() }
}

/// What happens to each Node: `drain a b` (completion waits for both), `drain a, cordon b`.
fn outcome(verdict: Verdict) -> String {
    let names = |nodes: &[Arc<Node>]| {
        let mut names: Vec<_> = nodes.iter().map(|node| node.name.to_string()).collect();
        names.sort();
        names.join(" ")
    };
    match verdict {
        Verdict::Accept(Accept { node, others: OtherClaims::Drain(others), .. }) => {
            let all: Vec<_> = others.into_iter().chain([node]).collect();
            format!("drain {}", names(&all))
        }
        Verdict::Accept(Accept { node, others: OtherClaims::Cordon(others), .. }) => {
            format!("drain {}, cordon {}", node.name, names(&others))
        }
        Verdict::Accept(Accept { node, others: OtherClaims::None, .. }) => {
            format!("drain {}", node.name)
        }
        Verdict::Delete(reason) => format!("delete {}", reason.as_str()),
        Verdict::Wait(Wait { ask, .. }) => format!("ask {}", ask.len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn c39_of_several_nodes_that_claim_an_instance_the_one_that_ec2_confirms_is_drained_and_the_others_only_cordoned()
 {
    let (a, b, c) = (claimant("a"), claimant("b"), claimant("c"));
    let called = |name: &str| Node { dns: None, ..claimant(name) };
    let with_dns = |node: &Node| Node { dns: Some(DNS.to_owned()), ..node.clone() };
    let with_address = |node: &Node| Node { address: Some(ADDRESS.to_owned()), ..node.clone() };
    for (case, nodes, expected) in [
        (
            "its name is the private DNS name",
            vec![a.clone(), called(DNS)],
            format!("drain {DNS}, cordon a"),
        ),
        (
            "its name is the instance ID",
            vec![called(INSTANCE), b.clone()],
            format!("drain {INSTANCE}, cordon b"),
        ),
        (
            "it reports the private DNS name",
            vec![a.clone(), with_dns(&b), c.clone()],
            "drain b, cordon a c".to_owned(),
        ),
        (
            "it reports the address",
            vec![with_address(&a), b.clone()],
            "drain a, cordon b".to_owned(),
        ),
        (
            "its name counts before addresses that others report",
            vec![with_dns(&with_address(&a)), called(DNS)],
            format!("drain {DNS}, cordon a"),
        ),
        ("none is confirmed", vec![a.clone(), b.clone()], "drain a b".to_owned()),
        (
            "two report the address",
            vec![with_address(&a), with_address(&b), c.clone()],
            "drain a b c".to_owned(),
        ),
        (
            "two have names of the instance",
            vec![called(DNS), called(INSTANCE)],
            format!("drain {INSTANCE} {DNS}"),
        ),
        ("one claims it", vec![a.clone()], "drain a".to_owned()),
        ("the other kubelet is silent", vec![silent(a.clone()), b.clone()], "drain b".to_owned()),
        (
            "the other kubelet is silent, and its node has the name",
            vec![silent(called(DNS)), b.clone()],
            format!("drain b {DNS}"),
        ),
        (
            "the other kubelet is silent, and its node reported the address",
            vec![silent(with_address(&a)), b.clone()],
            "drain a b".to_owned(),
        ),
        (
            "the other kubelet is silent, and its node has the name and is not ours to drain",
            vec![silent(ignored(called(DNS))), b.clone()],
            "drain b".to_owned(),
        ),
        (
            "the other kubelet is silent and its node has the name, but this one has the address",
            vec![silent(called(DNS)), with_address(&b)],
            "drain b".to_owned(),
        ),
        (
            "both kubelets are silent",
            vec![silent(a.clone()), silent(b.clone())],
            "drain a b".to_owned(),
        ),
        (
            "the other is not ours to drain",
            vec![ignored(a.clone()), b.clone()],
            "drain b".to_owned(),
        ),
        (
            "the other is not ours, and ours is silent",
            vec![ignored(a.clone()), silent(b.clone())],
            "drain b".to_owned(),
        ),
        (
            "the confirmed one is not ours to drain",
            vec![ignored(with_address(&a)), b.clone()],
            "delete not_managed".to_owned(),
        ),
        (
            "none is ours to drain",
            vec![ignored(a.clone()), ignored(b.clone())],
            "delete not_managed".to_owned(),
        ),
    ] {
        for i in draining() {
            assert_eq!(
                outcome(verdict(&i, &known(&nodes, answer(Some(described()))), &policy())),
                expected,
                "{case}: {i:?}"
            );
        }
        let reversed: Vec<_> = nodes.into_iter().rev().collect();
        assert_eq!(
            outcome(verdict(&spot(), &known(&reversed, answer(Some(described()))), &policy())),
            expected,
            "{case}, in another order"
        );
    }
}

#[test]
fn ec2_is_asked_which_of_several_nodes_is_the_instances_and_all_are_drained_when_it_does_not_answer()
 {
    let two = [claimant("a"), claimant("b")];
    for i in draining() {
        let asked = known(&two, None);
        assert_eq!(asks(verdict(&i, &asked, &policy())), [ask_instance(long_ago())], "{i:?}");
        assert_eq!(
            outcome(triage(&i, &asked, &policy(), now().plus(seconds(4)))),
            "ask 1",
            "{i:?}"
        );
        assert_eq!(
            outcome(triage(&i, &asked, &policy(), now().plus(seconds(5)))),
            "drain a b",
            "{i:?}"
        );
        let gone = known(&two, answer(None));
        assert!(
            outcome(verdict(&i, &gone, &policy())).starts_with("drain a b"),
            "an instance that EC2 does not know confirms none: {i:?}"
        );
    }
    let one_silent = known(&[silent(claimant("a")), claimant("b")], None);
    assert_eq!(
        outcome(verdict(&spot(), &one_silent, &policy())),
        "ask 1",
        "the silent one may be the right one"
    );
    assert_eq!(outcome(triage(&spot(), &one_silent, &policy(), now().plus(seconds(5)))), "drain b");
    let waits = |nodes: &[Node], instance, after| {
        heartbeats_wait(
            &terminate(),
            &known(nodes, instance),
            &policy(),
            now().plus(seconds(after)),
        )
    };
    assert!(
        heartbeats(&terminate(), &known(&two, None), &policy()) && !waits(&two, None, 0),
        "heartbeats do not wait for the answer"
    );
    let with_other = [ignored(claimant("a")), claimant("b")];
    assert!(waits(&with_other, None, 4), "unless one of the Nodes is not for us");
    assert!(!waits(&with_other, None, 5) && !waits(&with_other, answer(Some(described())), 0));
}

#[test]
fn of_several_nodes_the_ready_one_comes_first_then_the_youngest() {
    let with = |name: &str, ready, created: u64| Node {
        ready,
        created: Some(now().minus(seconds(created))),
        ..claimant(name)
    };
    for (nodes, expected) in [
        ([with("a", Ready::True, 900), with("b", Ready::Unknown, 10)], "a"),
        ([with("a", Ready::True, 900), with("b", Ready::False, 10)], "a"),
        ([with("a", Ready::True, 900), with("b", Ready::True, 10)], "b"),
        ([with("b", Ready::False, 10), with("a", Ready::Unknown, 900)], "b"),
    ] {
        let known = known(&nodes, answer(Some(described())));
        assert_eq!(accepted(verdict(&spot(), &known, &policy())).0, expected);
    }
}

#[test]
fn when_the_drain_of_a_node_begins_later_the_others_are_cordoned_only_if_ec2_still_confirms_it() {
    let (own, other) = (node(DNS, Some(INSTANCE)), claimant("a"));
    let others = |node: &Node, nodes: &[&Node], facts: Option<&InstanceFacts>| {
        let nodes = nodes.iter().map(|&node| Arc::new(node.clone())).collect();
        let others = others_of(node, nodes, facts, |node| !node.ignored());
        others.nodes().iter().map(|node| node.name.to_string()).collect::<Vec<_>>()
    };
    let described = described();
    let facts = Some(&described);
    assert_eq!(others(&own, &[&other, &own], facts), ["a"]);
    let none = Vec::<String>::new();
    assert_eq!(others(&own, &[&own], facts), none, "no other Node claims it");
    assert_eq!(others(&own, &[&other, &own], None), none, "EC2 does not answer");
    assert_eq!(others(&other, &[&other, &own], facts), none, "EC2 confirms the other one");
    let two = [&claimant("b"), &other];
    assert_eq!(others(&other, &two, facts), none, "both have a drain of their own");
    let silent = silent(other.clone());
    assert_eq!(others(&own, &[&silent, &own], facts), none, "it may be left over");
}

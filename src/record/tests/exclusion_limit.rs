use super::*;

fn named(name: &str, labelled: bool, ready: Ready) -> Node {
    let mut node = Node { name: name.into(), ready, ..node() };
    if labelled {
        std::sync::Arc::make_mut(&mut node.labels)
            .insert(EXCLUDE_FROM_LOAD_BALANCERS.into(), EXCLUDED_BY_US.into());
    }
    node
}

fn of(names: &[(&str, bool, Ready)]) -> ExclusionLimit {
    let mut room = ExclusionLimit::new();
    for (name, labelled, ready) in names {
        room.applied(&named(name, *labelled, *ready));
    }
    room
}

#[test]
fn at_most_half_of_the_ready_nodes_get_the_label() {
    use Ready::{False, True, Unknown};
    for (nodes, room) in [
        (&[("a", false, True)][..], false),
        (&[("a", false, True), ("b", false, True)], true),
        (&[("a", false, True), ("b", true, True)], false),
        (&[("a", false, True), ("b", false, True), ("c", true, True)], false),
        (&[("a", false, True), ("b", false, True), ("c", true, True), ("d", false, True)], true),
        (&[("a", false, True), ("b", false, False)], false),
        (&[("a", false, True), ("b", false, True), ("c", true, Unknown)], true),
    ] {
        assert_eq!(of(nodes).take(&"another".into()), room, "{nodes:?}");
    }
}

#[test]
fn patches_in_flight_count_until_they_are_settled() {
    use Ready::True;
    let mut room =
        of(&[("a", false, True), ("b", false, True), ("c", false, True), ("d", false, True)]);
    assert!(room.take(&"a".into()) && room.take(&"b".into()));
    assert!(!room.take(&"c".into()), "two of four");
    assert!(room.take(&"a".into()), "it has its place already");
    room.settled(&"a".into(), None);
    assert!(room.take(&"c".into()), "a patch that had no effect gives its place back");
    room.settled(&"c".into(), Some(&named("c", true, True)));
    assert_eq!(room.out(), 2);
    assert!(!room.take(&"c".into()), "it has the label already");
    room.applied(&named("b", true, True));
    assert_eq!(room.out(), 2, "seen by the watch: no longer in flight");
    room.deleted(&"b".into());
    room.deleted(&"b".into());
    assert_eq!(room.out(), 1);
    assert!(!room.take(&"d".into()), "one of three");
    room.applied(&named("c", false, True));
    assert!(room.take(&"d".into()));
}

#[test]
fn a_patch_of_a_node_that_is_not_ready_takes_no_place() {
    use Ready::{False, True, Unknown};
    for ready in [False, Unknown] {
        let mut room = of(&[
            ("a", false, True),
            ("b", false, True),
            ("c", false, True),
            ("d", false, True),
            ("lost", false, ready),
        ]);
        assert!(room.take(&"a".into()) && room.take(&"lost".into()));
        assert_eq!(room.out(), 1, "{ready:?}");
        assert!(room.take(&"b".into()), "{ready:?}: two of four");
        assert!(!room.take(&"c".into()), "{ready:?}: three of four");
        room.settled(&"lost".into(), None);
        assert!(
            !room.take(&"lost".into()),
            "{ready:?}: no place is left, not even for a node that is not Ready"
        );
        room.settled(&"b".into(), None);
        assert!(room.take(&"lost".into()) && room.take(&"b".into()), "{ready:?}");
        room.applied(&named("lost", false, True));
        assert_eq!(room.out(), 3, "it is Ready again while its patch is in flight");
    }
}

/// A Ready node whose label has this value.
fn valued(value: Option<&str>) -> Node {
    let mut node = Node { name: "other".into(), ..node() };
    if let Some(value) = value {
        std::sync::Arc::make_mut(&mut node.labels)
            .insert(EXCLUDE_FROM_LOAD_BALANCERS.into(), value.into());
    }
    node
}

fn cordoned(node: Node) -> Node {
    Node { unschedulable: true, ..node }
}

/// The node once a spot notice was accepted for it.
fn draining(node: &Node) -> Node {
    let Accept::Patch { body, .. } = accept(node, &spot("e1", 0), at(1), &AcceptOptions::default())
    else {
        panic!("accepted")
    };
    apply(node, &body)
}

#[test]
fn a_label_counts_when_a_drain_set_it_and_not_when_others_set_it_permanently() {
    let before_the_drain = draining(&valued(Some("ingress-free")));
    let mut during_the_drain = draining(&valued(None));
    std::sync::Arc::make_mut(&mut during_the_drain.labels)
        .insert(EXCLUDE_FROM_LOAD_BALANCERS.into(), "a-script".into());
    let unready = Node { ready: Ready::False, ..valued(Some("sundown")) };
    // The number of other serving nodes with which one more node may leave, and whether this one
    // counts as having left.
    for (case, node, others, left) in [
        ("no label", valued(None), 1, 0),
        ("no label, draining", draining(&valued(None)), 1, 0),
        ("Sundown's label", valued(Some("sundown")), 3, 1),
        ("Sundown's label, not Ready", unready, 2, 0),
        (
            "the label of aws-node-termination-handler",
            valued(Some("aws-node-termination-handler")),
            3,
            1,
        ),
        ("Karpenter's label", valued(Some("karpenter")), 3, 1),
        ("a dedicated node", valued(Some("ingress-free")), 2, 0),
        ("a dedicated node, with an empty value", valued(Some("")), 2, 0),
        ("a dedicated node that Sundown drains", before_the_drain, 2, 0),
        ("labelled by others while Sundown drains it", during_the_drain, 3, 1),
        ("labelled and cordoned by others", cordoned(valued(Some("maintenance"))), 3, 1),
    ] {
        let mut room = ExclusionLimit::new();
        room.applied(&node);
        assert_eq!(room.out(), left, "{case}");
        for n in 0..=others {
            let may = room.clone().take(&"one".into());
            assert_eq!(may, n >= others, "{case}, with {n} others");
            room.applied(&named(&format!("serves-{n}"), false, Ready::True));
        }
        room.deleted(&node.name);
        assert_eq!(room.out(), 0, "{case}: deleted");
    }
}

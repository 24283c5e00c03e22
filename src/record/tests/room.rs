use super::*;

fn named(name: &str, labelled: bool, ready: Ready) -> Node {
    let mut node = Node { name: name.into(), ready, ..node() };
    if labelled {
        std::sync::Arc::make_mut(&mut node.labels).insert(EXCLUDE_FROM_LOAD_BALANCERS.into(), "anybody".into());
    }
    node
}

fn of(names: &[(&str, bool, Ready)]) -> LabelRoom {
    let mut room = LabelRoom::new();
    for (name, labelled, ready) in names {
        room.applied(&named(name, *labelled, *ready));
    }
    room
}

#[test]
fn at_most_half_of_the_ready_nodes_carry_the_label() {
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
    let mut room = of(&[("a", false, True), ("b", false, True), ("c", false, True), ("d", false, True)]);
    assert!(room.take(&"a".into()) && room.take(&"b".into()));
    assert!(!room.take(&"c".into()), "two of four");
    assert!(room.take(&"a".into()), "its place is its own");
    room.settled(&"a".into(), None);
    assert!(room.take(&"c".into()), "a patch that had no effect gives its place back");
    room.settled(&"c".into(), Some(&named("c", true, True)));
    assert_eq!(room.out(), 2);
    assert!(!room.take(&"c".into()), "it has it already");
    room.applied(&named("b", true, True));
    assert_eq!(room.out(), 2, "seen by the watch: no longer in flight");
    room.deleted(&"b".into());
    room.deleted(&"b".into());
    assert_eq!(room.out(), 1);
    assert!(!room.take(&"d".into()), "one of three");
    room.applied(&named("c", false, True));
    assert!(room.take(&"d".into()));
}

//! Which Nodes a new leader may act on.

use super::*;

/// The Node in this version, with an open record, with one that is released, or without.
fn in_version(version: &str, record: &str) -> Node {
    let mut node = node();
    node.resource_version = version.to_owned();
    if record == "none" {
        return node;
    }
    let Accept::Patch { record: open, .. } =
        accept(&node, &spot("e-1", 0), at(1), &AcceptOptions::default())
    else {
        panic!("accepted")
    };
    node.annotations.insert(RECORD, open.write());
    if record == "released" {
        let body = release(&node, &Released::new(at(9), "empty")).unwrap();
        let text = body["metadata"]["annotations"][RECORD].as_str().unwrap();
        node.annotations.insert(RECORD, text);
    }
    node
}

#[test]
fn an_open_record_counts_only_if_it_was_read_in_this_term() {
    use Trust::{Confirmed, Pending, Unconfirmed};
    // Version of the LIST, version in which the API server returned the Node, record, version that
    // the index shows.
    for (list, read, record, shown, expected) in [
        // Before the LIST is answered, only Nodes that this leader has written itself count.
        ("", "", "open", "50", Pending),
        ("", "", "none", "50", Pending),
        ("", "", "released", "50", Pending),
        ("", "50", "open", "50", Confirmed),
        ("", "50", "open", "60", Confirmed),
        ("", "50", "open", "40", Pending),
        // The LIST lacks the Node: it was restored or deleted.
        ("100", "", "open", "50", Unconfirmed),
        ("100", "", "open", "100", Unconfirmed),
        ("100", "", "none", "50", Confirmed),
        ("100", "", "released", "50", Confirmed),
        // A version after the LIST was written in this term.
        ("100", "", "open", "101", Confirmed),
        // The index repeats older versions of a Node that the LIST has.
        ("100", "70", "open", "70", Confirmed),
        ("100", "70", "open", "80", Confirmed),
        ("100", "70", "open", "60", Unconfirmed),
        // Versions that are not numbers cannot be compared: each such Node is read once.
        ("x", "", "open", "y", Unconfirmed),
        ("x", "y", "open", "z", Confirmed),
    ] {
        let mut confirmed = ConfirmedNodes::default();
        if !read.is_empty() {
            confirmed.read(&in_version(read, record));
        }
        if !list.is_empty() {
            confirmed.listed(list, []);
        }
        let trust = confirmed.trust(&in_version(shown, record), None);
        assert_eq!(trust, expected, "LIST {list:?}, read {read:?}, record {record}, shown {shown}");
    }
}

#[test]
fn a_drain_ignores_an_older_version_of_its_own_node() {
    let mut confirmed = ConfirmedNodes::default();
    confirmed.listed("100", []);
    let held = in_version("120", "open");
    assert_eq!(confirmed.trust(&in_version("110", "none"), Some(&held)), Trust::Unconfirmed);
    assert_eq!(confirmed.trust(&in_version("120", "none"), Some(&held)), Trust::Confirmed);
    let another = Node { uid: "uid-2".into(), ..in_version("110", "none") };
    assert_eq!(
        confirmed.trust(&another, Some(&held)),
        Trust::Confirmed,
        "another Node of the same name"
    );
}

#[test]
fn a_node_in_the_list_is_confirmed_until_it_is_deleted() {
    let node = in_version("90", "open");
    let mut confirmed = ConfirmedNodes::default();
    assert!(!confirmed.is_listed());
    confirmed.listed("100", [&node]);
    assert!(confirmed.is_listed());
    assert_eq!(confirmed.trust(&node, None), Trust::Confirmed);
    confirmed.forget(&node.uid);
    assert_eq!(confirmed.trust(&node, None), Trust::Unconfirmed);
}

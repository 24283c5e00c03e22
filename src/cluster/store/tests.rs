#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Thing {
    name: &'static str,
    uid: u32,
    version: u32,
    colour: &'static str,
}

impl Object for Thing {
    type Key = &'static str;
    type Index = &'static str;

    fn key(&self) -> &'static str {
        self.name
    }

    fn index(&self) -> Option<&'static str> {
        Some(self.colour).filter(|c| !c.is_empty())
    }

    fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    fn is_unchanged(&self, other: &Self) -> bool {
        self.colour == other.colour
    }

    fn is_older(&self, other: &Self) -> bool {
        self.version < other.version
    }
}

const fn thing(uid: u32, version: u32, colour: &'static str) -> Thing {
    Thing { name: "a", uid, version, colour }
}

fn taken(changes: &mut Changes<Thing>) -> Vec<String> {
    std::iter::from_fn(|| changes.try_next())
        .map(|change| match change {
            Change::Applied { now, before: None } => format!("new {}", now.colour),
            Change::Applied { now, before: Some(before) } => {
                format!("{} to {}", before.colour, now.colour)
            }
            Change::Deleted { last, before: None } => format!("gone {}", last.colour),
            Change::Deleted { last, before: Some(before) } => {
                format!("{} to gone {}", before.colour, last.colour)
            }
        })
        .collect()
}

#[test]
fn an_object_is_found_by_its_index_or_among_those_without_one() {
    let store: Store<Thing> = Store::default();
    let found = |index| store.find(&index).iter().map(|t| t.name).collect::<Vec<_>>();
    let without = || store.unindexed().iter().map(|t| t.name).collect::<Vec<_>>();
    store.apply(thing(1, 1, ""));
    store.apply(Thing { name: "b", ..thing(2, 2, "red") });
    store.apply(Thing { name: "c", ..thing(3, 3, "red") });
    assert_eq!((found("red"), without()), (vec!["b", "c"], vec!["a"]));
    store.apply(thing(1, 4, "red"));
    store.apply(Thing { name: "b", ..thing(2, 5, "") });
    assert_eq!((found("red"), without()), (vec!["c", "a"], vec!["b"]));
    store.delete(&"b", |_| true);
    store.delete(&"c", |_| true);
    assert_eq!((found("red"), without()), (vec!["a"], vec![]));
}

#[test]
fn several_changes_come_as_one_and_a_successor_as_two() {
    let store = Store::default();
    let mut changes = store.follow();
    store.apply(thing(1, 1, "red"));
    store.apply(thing(1, 2, "green"));
    assert_eq!(taken(&mut changes), ["new green"]);
    store.apply(thing(1, 3, "blue"));
    store.apply(thing(1, 4, "black"));
    assert_eq!(taken(&mut changes), ["green to black"]);
    store.apply(thing(1, 5, "white"));
    store.delete(&"a", |_| true);
    store.apply(thing(2, 6, "red"));
    store.apply(thing(2, 7, "blue"));
    store.apply(thing(3, 8, "green"));
    assert_eq!(taken(&mut changes), ["black to gone white", "gone blue", "new green"]);
    store.delete(&"a", |_| true);
    assert_eq!(taken(&mut changes), ["gone green"]);
    store.apply(thing(3, 9, "green"));
    assert_eq!(taken(&mut store.follow()), ["new green"]);
    assert!(store.find(&"red").is_empty());
    assert_eq!(store.find(&"green").len(), 1);
}

#[test]
fn an_older_version_or_a_deletion_of_another_object_changes_nothing() {
    let store = Store::default();
    store.apply(thing(2, 5, "red"));
    store.apply(thing(2, 4, "blue"));
    store.delete(&"a", |known| known.uid == 1);
    store.learn(thing(1, 9, "blue"));
    assert_eq!(*store.all()[0], thing(2, 5, "red"));
    store.delete(&"a", |known| known.uid == 2);
    store.learn(thing(2, 9, "blue"));
    assert!(store.all().is_empty(), "an answer that comes after the deletion brings nothing back");
}

#[test]
fn a_list_counts_even_with_a_lower_version_but_not_against_what_was_learned_since_it_began() {
    let store = Store::default();
    store.apply(thing(1, 50, "red"));
    store.listing();
    store.replace(vec![thing(1, 3, "blue")], |_| false);
    assert_eq!(store.all()[0].colour, "blue", "a cluster restored from a backup");
    store.listing();
    store.learn(thing(1, 9, "green"));
    store.replace(vec![thing(1, 8, "blue")], |_| false);
    assert_eq!(store.all()[0].colour, "green");
    store.replace(vec![], |key| *key == "a");
    assert_eq!(store.all().len(), 1);
    store.replace(vec![], |_| false);
    assert!(store.all().is_empty() && store.find(&"green").is_empty());
}

#[test]
fn a_store_is_stale_from_the_start_until_it_is_listed_and_while_its_watch_fails() {
    let at = |second: i64| Moment::from_second(second).unwrap();
    let health = |synced, failing: Option<i64>| Health {
        synced,
        failing_since: failing.map(at),
        failed_at: None,
    };
    for (synced, failing, stale) in [
        (false, None, Some(1)),
        (false, Some(5), Some(1)),
        (true, None, None),
        (true, Some(5), Some(5)),
    ] {
        assert_eq!(
            health(synced, failing).stale_since(at(1)),
            stale.map(at),
            "{synced} {failing:?}"
        );
    }
}

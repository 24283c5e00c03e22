use super::*;
use crate::domain::seconds;

fn at(second: u64) -> Moment {
    "2026-01-05T09:00:00Z".parse::<Moment>().unwrap().plus(seconds(second))
}

fn pod(name: &str) -> PodKey {
    PodKey { namespace: "shop".into(), name: name.to_owned() }
}

fn begun(place: &Place) -> DrainTrace {
    DrainTrace::begin(&DrainStart {
        node: "n",
        instance: "i-0123456789abcdef0",
        kind: "spot",
        event: "e",
        place,
        happened: at(0),
        accepted: at(2),
        taken_over: false,
    })
}

#[test]
fn each_step_of_a_drain_is_a_span() {
    let place = Place { group: "workers".to_owned(), ..Place::default() };
    let mut drain = begun(&place);
    drain.evicted(at(3), &pod("a"));
    drain.evicted(at(4), &pod("b"));
    drain.blocked(at(5), [(pod("c"), "pdb", at(4))].into_iter());
    drain.blocked(at(9), [(pod("c"), "pdb", at(4)), (pod("d"), "webhook", at(9))].into_iter());
    drain.blocked(at(20), [(pod("d"), "webhook", at(9))].into_iter());
    drain.forced(at(60), &pod("d"), "webhook", 30);
    drain.ended(at(90), "deadline", &[pod("d")]);
    drain.hook_over(at(91), "sundown-terminate");
    let trace = drain.finish(at(92));
    let spans: Vec<_> = trace.spans.iter().map(|s| (s.name, s.start, s.end)).collect();
    assert_eq!(
        spans,
        [
            ("drain", at(0), at(92)),
            ("accept", at(0), at(2)),
            ("evict", at(2), at(90)),
            ("blocked", at(4), at(20)),
            ("blocked", at(9), at(90)),
            ("complete", at(90), at(92)),
        ]
    );
    let (root, evict) = (trace.spans[0].id, trace.spans[2].id);
    let parents: Vec<_> = trace.spans.iter().map(|s| s.parent).collect();
    assert_eq!(parents, [None, Some(root), Some(root), Some(evict), Some(evict), Some(root)]);
    let events: Vec<_> = trace.spans[2].events.iter().map(|e| (e.name, e.at)).collect();
    assert_eq!(events, [("cordoned", at(2)), ("first eviction", at(3)), ("forced", at(60))]);
    assert_eq!(trace.spans[5].events[0].name, "lifecycle hook over");
    assert_eq!(trace.spans[0].failed.as_deref(), Some("1 pod was left: shop/d"));
    assert!(trace.spans[1].failed.is_none());
    let of_root = |name: &str| {
        trace.spans[0].attributes.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone())
    };
    assert_eq!((of_root("sundown.group"), of_root("host.type")), (Some(text("workers")), None));
    assert_eq!(
        (of_root("sundown.evicted"), of_root("sundown.outcome")),
        (Some(Value::Number(2)), Some(text("deadline")))
    );
}

#[test]
fn the_trace_id_is_the_same_for_every_leader_and_differs_between_drains() {
    let place = Place::default();
    let one = begun(&place).finish(at(3));
    let other = DrainTrace::begin(&DrainStart {
        node: "n",
        instance: "i-0123456789abcdef0",
        kind: "spot",
        event: "e",
        place: &place,
        happened: at(0),
        accepted: at(3),
        taken_over: true,
    });
    let again = begun(&place).finish(at(90));
    assert_eq!(one.id, again.id);
    assert_ne!(
        one.spans[0].id, again.spans[0].id,
        "with equal span IDs a collector would drop one"
    );
    assert_ne!(one.id, other.finish(at(90)).id);
    let ids: std::collections::BTreeSet<_> = one.spans.iter().map(|s| s.id).collect();
    assert_eq!(ids.len(), one.spans.len());
}

#[test]
fn a_drain_of_a_thousand_pods_stays_small() {
    let place = Place::default();
    let mut drain = begun(&place);
    for n in 0..1000 {
        drain.evicted(at(3), &pod(&n.to_string()));
        drain.forced(at(4), &pod(&n.to_string()), "pdb", 1);
        drain.blocked(at(5), [(pod(&n.to_string()), "pdb", at(5))].into_iter());
    }
    let trace = drain.finish(at(9));
    assert_eq!((trace.spans.len(), trace.spans[2].events.len()), (4 + WAITS, EVENTS));
    assert_eq!(trace.spans[2].dropped_events, 1002 - u32::try_from(EVENTS).unwrap());
    assert!(
        trace.spans[0].attributes.contains(&(
            "sundown.dropped_waits",
            Value::Number(1000 - i64::try_from(WAITS).unwrap())
        ))
    );
}

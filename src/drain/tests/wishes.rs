//! What pods ask for by annotations and labels (`sundown.dev/drain`, `--honor`).

use super::*;
use crate::domain::{Labels, PodWishes, Wish, WishSource};

const OWN: &str = "sundown.dev/drain";
const KARPENTER: &str = "karpenter.sh/do-not-disrupt";

fn asking(name: &str, key: &str, value: &str) -> Pod {
    let annotations = |known: &str| (known == key).then_some(value);
    let labels = Labels::from_iter([(key, value)]);
    Pod { wishes: PodWishes::read(annotations, &labels), ..pod(name) }
}

fn drain_with(limits: Limits) -> Drain {
    let honored = [WishSource::ClusterApi, WishSource::Karpenter, WishSource::Autoscaler].into();
    let start = Start { node: "n1".into(), cordoned_at: at(0), limits, own_pod: None };
    Drain::new(start, Settings { honored, ..Settings::default() })
}

/// The names of the pods whose eviction these effects request.
fn requested(effects: &[Effect]) -> Vec<String> {
    requests(effects).into_iter().map(|(name, _)| name).collect()
}

fn without_deadline() -> Limits {
    Limits::without_deadline(at(0), false)
}

/// Until when each pod waits, in drains whose deadline is 3600 s or 300 s after the accept. `None`:
/// it is evicted at once.
#[test]
fn each_wish_delays_the_eviction_for_half_of_the_time_at_most_and_not_in_a_short_drain() {
    let old = |created, pod: Pod| Pod { created: Some(at(0).minus(seconds(created))), ..pod };
    for (name, pod, force_at, until) in [
        ("wait", asking("a", OWN, "wait"), 3600, Some(1800)),
        ("last", asking("a", OWN, "last"), 3600, None),
        ("nothing", pod("a"), 3600, None),
        ("unknown", asking("a", OWN, "later"), 3600, None),
        (
            "wait-completed",
            asking("a", "cluster.x-k8s.io/drain", "wait-completed"),
            3600,
            Some(1800),
        ),
        ("do-not-disrupt", asking("a", KARPENTER, "true"), 3600, Some(1800)),
        ("may be disrupted", asking("a", KARPENTER, "false"), 3600, None),
        ("young", old(300, asking("a", KARPENTER, "10m")), 3600, Some(300)),
        ("old enough", old(601, asking("a", KARPENTER, "10m")), 3600, None),
        ("young for too long", old(0, asking("a", KARPENTER, "10h")), 3600, Some(1800)),
        ("age unknown", asking("a", KARPENTER, "10m"), 3600, Some(600)),
        (
            "not safe",
            asking("a", "cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
            3600,
            Some(1800),
        ),
        (
            "on completion",
            asking("a", "cluster-autoscaler.kubernetes.io/safe-to-evict", "on-completion"),
            3600,
            Some(1800),
        ),
        ("long grace", Pod { grace: seconds(3000), ..asking("a", OWN, "wait") }, 3600, Some(590)),
        ("no time", Pod { grace: seconds(7200), ..asking("a", OWN, "wait") }, 3600, None),
        ("5 min", asking("a", OWN, "wait"), 300, None),
        ("more than 5 min", asking("a", OWN, "wait"), 302, Some(151)),
        ("spot", asking("a", KARPENTER, "true"), 110, None),
    ] {
        let mut d = drain_with(limits(force_at));
        let effects = d.step(at(0), Input::Listed(vec![pod]));
        let Some(until) = until else {
            assert_eq!(requested(&effects), ["a"], "{name}");
            continue;
        };
        assert_eq!(requested(&effects), [""; 0], "{name}");
        let status = d.status(at(1));
        assert_eq!(status.counts, Counts { left: 1, asked_to_wait: 1, ..Counts::default() });
        assert_eq!(
            status.asked_to_wait.iter().map(|a| a.until).collect::<Vec<_>>(),
            [at(until)],
            "{name}"
        );
        assert!(d.next_wake().is_some_and(|wake| wake <= at(until)), "{name}");
        assert_eq!(requested(&d.step(at(until - 1), Input::Tick)), [""; 0], "{name}");
        assert_eq!(requested(&d.step(at(until), Input::Tick)), ["a"], "{name}");
        let counts = d.status(at(until)).counts;
        assert_eq!(counts, Counts { left: 1, waiting: 1, ..Counts::default() }, "{name}");
    }
}

#[test]
fn a_pod_that_waited_in_vain_is_deleted_by_the_deadline_like_any_other() {
    let mut d = drain_with(limits(3600));
    d.step(at(0), Input::Listed(vec![asking("a", OWN, "wait")]));
    d.step(at(1800), Input::Tick);
    let order = d.order(&uid("a"), at(1800), true).unwrap();
    assert!(matches!(order, Order::Evict { .. }), "{order:?}");
    d.step(at(1800), Input::Answer { order, answer: refused_by_budget() });
    d.step(at(3570), Input::Tick);
    assert_eq!(d.order(&uid("a"), at(3570), true), Some(delete("a", 30)));
}

#[test]
fn a_pod_that_has_finished_is_not_waited_for() {
    let mut d = drain_with(limits(3600));
    d.step(at(0), Input::Listed(vec![asking("a", OWN, "wait")]));
    let finished = Pod { phase: PodPhase::Succeeded, ..asking("a", OWN, "wait") };
    let effects = d.step(at(700), Input::Changed(finished));
    assert_eq!(ended(&effects), Some(&Outcome::Empty));
}

#[test]
fn without_a_deadline_a_pod_waits_until_it_has_finished_or_a_person_forces_the_drain() {
    let mut d = drain_with(without_deadline());
    d.step(at(0), Input::Listed(vec![asking("a", OWN, "wait"), asking("b", KARPENTER, "1h")]));
    assert_eq!(requested(&d.step(at(3600), Input::Tick)), ["b"]);
    assert_eq!(requested(&d.step(at(90_000), Input::Tick)), [""; 0]);
    let texts: Vec<_> = d.status(at(1)).asked_to_wait.iter().map(AskedToWait::describe).collect();
    assert_eq!(texts[0], "1 pod waits (sundown.dev/drain: wait) until they have finished");
    let forced = Limits { forced_at: Some(at(90_001)), ..without_deadline() };
    assert_eq!(requested(&d.step(at(90_001), Input::Limits(forced))), ["a"]);
}

#[test]
fn a_pod_that_asks_to_be_left_alone_is_neither_touched_nor_waited_for() {
    for (key, value) in [(OWN, "skip"), ("cluster.x-k8s.io/drain", "SKIP")] {
        let mut d = drain_with(limits(100));
        let effects = d.step(at(5), Input::Listed(vec![asking("a", key, value)]));
        assert_eq!(requested(&effects), [""; 0]);
        assert_eq!(ended(&effects), Some(&Outcome::Empty), "{key}");
        assert_eq!(d.skipped().into_values().sum::<usize>(), 1, "{key}");
    }
}

#[test]
fn a_pod_that_would_stay_anyway_is_not_counted_as_left_alone() {
    let skip = |name: &str| asking(name, OWN, "skip");
    let mut d = drain(limits(100));
    let pods = vec![
        Pod { mirror: true, ..skip("a") },
        Pod { tolerates_us: true, ..skip("b") },
        Pod { phase: crate::domain::Phase::Succeeded, ..skip("c") },
        skip("d"),
        pod("e"),
    ];
    d.step(at(5), Input::Listed(pods));
    let expected = [(crate::domain::WishSource::Sundown, 1)];
    assert_eq!(d.skipped().into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_pod_that_asks_to_go_last_goes_after_all_groups_or_after_half_of_the_time() {
    let critical = Pod { priority: 2_000_000_000, ..pod("dns") };
    for (order, first) in [("together", vec!["dns", "web"]), ("critical-last", vec!["web"])] {
        let start =
            Start { node: "n1".into(), cordoned_at: at(0), limits: limits(3600), own_pod: None };
        let settings = Settings { order: order.parse().unwrap(), ..Settings::default() };
        let mut d = Drain::new(start, settings);
        let last = asking("log", OWN, "last");
        let effects = d.step(at(1), Input::Listed(vec![last, critical.clone(), pod("web")]));
        assert_eq!(requested(&effects), first, "{order}");
        let effects = d.step(at(2), Input::Gone(uid("web")));
        assert_eq!(requested(&effects), if order == "together" { vec![] } else { vec!["dns"] });
        assert_eq!(requested(&d.step(at(3), Input::Gone(uid("dns")))), ["log"], "{order}");

        let mut d = drain_with(limits(3600));
        d.step(at(0), Input::Listed(vec![asking("log", OWN, "last"), pod("web")]));
        assert_eq!(requested(&d.step(at(1799), Input::Tick)), [""; 0]);
        assert_eq!(requested(&d.step(at(1800), Input::Tick)), ["log"]);
    }
}

#[test]
fn later_groups_wait_for_a_pod_that_asks_to_wait() {
    let mut d = drain_with(limits(3600));
    let critical = Pod { priority: 2_000_000_000, ..pod("dns") };
    let effects = d.step(at(1), Input::Listed(vec![asking("job", OWN, "wait"), critical]));
    assert_eq!(requested(&effects), [""; 0]);
    let counts = d.status(at(2)).counts;
    assert_eq!(counts, Counts { left: 2, asked_to_wait: 1, later: 1, ..Counts::default() });
    assert_eq!(d.explain(at(2), |_| &[] as &[Budget], |_| None).cause().as_str(), "PodsAskToWait");
    let finished = Pod { phase: PodPhase::Succeeded, ..asking("job", OWN, "wait") };
    assert_eq!(requested(&d.step(at(60), Input::Changed(finished))), ["dns"]);
}

#[test]
fn a_wish_may_come_and_go_during_the_drain() {
    let mut d = drain_with(limits(3600));
    assert_eq!(requested(&d.step(at(1), Input::Listed(vec![pod("a")]))), ["a"]);
    let effects = d.step(at(2), Input::Changed(asking("a", OWN, "wait")));
    assert!(effects.contains(&Effect::Dispatch(DispatchInput::Cancel { uid: uid("a") })));
    assert_eq!(requested(&d.step(at(3), Input::Changed(pod("a")))), ["a"]);
    let effects = d.step(at(9), Input::Changed(asking("a", OWN, "skip")));
    assert_eq!(ended(&effects), Some(&Outcome::Empty));
}

#[test]
fn a_deadline_that_comes_nearer_ends_the_wait() {
    let mut d = drain_with(limits(3600));
    d.step(at(0), Input::Listed(vec![asking("a", OWN, "wait")]));
    let spot = Limits { accepted: at(60), ..limits(170) };
    assert_eq!(requested(&d.step(at(60), Input::Limits(spot))), ["a"]);
}

#[test]
fn keys_of_other_tools_have_no_effect_unless_they_are_enabled() {
    let mut d = drain(limits(3600));
    let effects = d.step(
        at(0),
        Input::Listed(vec![
            asking("a", KARPENTER, "true"),
            asking("b", "cluster.x-k8s.io/drain", "skip"),
            asking("c", "cluster-autoscaler.kubernetes.io/safe-to-evict", "what"),
        ]),
    );
    assert_eq!(requested(&effects), ["a", "b", "c"]);
    assert!(notes(&effects).is_empty());
}

#[test]
fn what_a_pod_asks_for_is_reported_once() {
    let mut d = drain_with(limits(3600));
    let pods = || {
        vec![
            asking("a", OWN, "wait"),
            asking("b", OWN, "skip"),
            asking("c", OWN, "later"),
            pod("d"),
        ]
    };
    let effects = d.step(at(0), Input::Listed(pods()));
    let wish = |name, wish, until| Note::Wish {
        pod: key(name),
        uid: uid(name),
        key: WishSource::Sundown,
        wish,
        until,
    };
    let unknown = Note::UnknownWish {
        pod: key("c"),
        uid: uid("c"),
        key: WishSource::Sundown,
        value: "later".to_owned(),
    };
    assert_eq!(
        notes(&effects),
        [&wish("a", Wish::Wait, Some(at(1800))), &wish("b", Wish::Skip, None), &unknown]
    );
    let again = d.step(at(10), Input::Listed(pods()));
    assert_eq!(notes(&again).len(), 0, "{again:?}");
}

#[test]
fn a_budget_does_not_block_a_pod_that_waits_anyway() {
    let mut d = drain_with(limits(3600));
    d.step(at(0), Input::Listed(vec![asking("a", OWN, "wait"), pod("b")]));
    let block = KnownBlock { reason: BlockReason::Pdb, message: String::new(), since: None };
    let budgets = [budget("full", 0)];
    let explanation = d.explain(at(1), |_| &budgets, |_| Some(block.clone()));
    assert_eq!(explanation.blocked.iter().map(|b| &b.pod).collect::<Vec<_>>(), [&key("b")]);
    let [asked] = &explanation.asked_to_wait[..] else { panic!("{explanation:?}") };
    assert_eq!((asked.key, asked.pods, asked.until), (WishSource::Sundown, 1, at(1800)));
    assert_eq!(
        asked.describe(),
        format!("1 pod waits (sundown.dev/drain: wait) until {:.0} at the latest", at(1800))
    );
}

#[test]
fn sundowns_own_pod_does_not_wait() {
    let start = Start {
        node: "n1".into(),
        cordoned_at: at(0),
        limits: limits(3600),
        own_pod: Some(key("me")),
    };
    let mut d = Drain::new(start, Settings::default());
    let effects = d.step(at(0), Input::Listed(vec![asking("me", OWN, "wait")]));
    assert_eq!(requested(&effects), ["me"]);
}

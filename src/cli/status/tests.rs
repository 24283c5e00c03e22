//! What is said of which facts, and how that looks.
#![allow(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{
    clipped,
    facts::{EventFacts, Facts, LeaseFacts, Subject},
    read::named,
    report::{BlockedPod, Hook, Interruption, LastEvent, Leader, NodeStatus, Pods, Report, State, report},
    text::{Look, text},
};
use crate::{
    cli::paint::Paint,
    config::DrainConfig,
    controller::{drain_settings, limit_settings},
    domain::{Budget, BudgetKey, DaemonSetState, Moment, Node, Owner, PAUSE, Phase, Pod, PodKey, RECORD, Ready, Selector, TAINT, Taint, seconds},
    drain::{BlockReason, Drain, Start},
    fleet::limits_of,
    record::Record,
};

const INSTANCE: &str = "i-1234567890abcdef0";

/// `s` seconds after a fixed moment; the status is read at 3600.
fn at(s: i64) -> Moment {
    Moment::from_second(1_767_225_600 + s).unwrap()
}

fn node(name: &str, annotations: &[(&str, String)]) -> Node {
    Node {
        name: name.into(),
        uid: name.to_owned(),
        resource_version: "1".to_owned(),
        created: None,
        instance: Some(INSTANCE.parse().unwrap()),
        is_elsewhere: false,
        boot_id: None,
        unschedulable: true,
        taints: vec![Taint { key: TAINT.to_owned(), value: None, effect: "NoSchedule".to_owned(), time_added: None }],
        labels: std::sync::Arc::default(),
        annotations: annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        ready: Ready::True,
        ready_since: None,
        dns: None,
        address: None,
    }
}

/// A record with a terminate hook that was accepted then.
fn hook(accepted: i64) -> String {
    let interruption =
        json!({ "kind": "terminate-hook", "event": "e", "time": at(accepted - 1), "accepted": at(accepted), "group": "web", "hook": "sundown" });
    json!({ "version": 1, "instance": INSTANCE, "interruptions": [interruption] }).to_string()
}

fn pod(name: &str) -> Pod {
    Pod {
        key: PodKey { namespace: "shop".into(), name: name.into() },
        uid: name.into(),
        node: Some("a".into()),
        labels: [("app".to_owned(), name.to_owned())].into(),
        phase: Phase::Running,
        ready: true,
        created: None,
        deletion: None,
        grace: seconds(30),
        owner: Some(Box::new(Owner { api_version: "apps/v1".into(), kind: "ReplicaSet".into(), name: "web".into() })),
        mirror: false,
        tolerates_us: false,
        finalizers: false,
    }
}

fn budget(app: &str, allowed: i64) -> Budget {
    Budget {
        key: BudgetKey { namespace: "shop".into(), name: app.into() },
        selector: Selector::from_parts([("app".to_owned(), app.to_owned())], []),
        allowed,
        healthy: 2,
        desired: 2,
        generation: 1,
        observed: 1,
    }
}

fn event(subject: Subject, reason: &str, message: &str, last: i64) -> EventFacts {
    EventFacts { subject, reason: reason.to_owned(), is_warning: true, message: message.to_owned(), first: at(last - 10), last: at(last) }
}

fn lease() -> LeaseFacts {
    LeaseFacts {
        namespace: "sundown".to_owned(),
        name: "sundown".to_owned(),
        holder: Some("sundown-0".to_owned()),
        acquired: Some(at(0)),
        renewed: Some(at(3598)),
        duration: seconds(15),
        is_paused: false,
        settings: DrainConfig::from_published("--drain-timeout=40m"),
    }
}

fn facts(nodes: Vec<Node>, pods: &[Pod]) -> Facts {
    let pods = nodes.iter().map(|node| (node.name.clone(), Ok(pods.to_vec()))).collect();
    Facts {
        now: at(3600),
        lease: Some(lease()),
        nodes,
        pods,
        daemon_sets: BTreeMap::new(),
        budgets: Vec::new(),
        events: Vec::new(),
        trouble: Vec::new(),
    }
}

/// One node that is drained since 3350, with these pods.
fn draining(pods: &[Pod]) -> Facts {
    facts(vec![node("a", &[(RECORD, hook(3350))])], pods)
}

#[test]
fn deadline_and_force_are_those_of_the_service_with_the_leaders_settings() {
    let slow = Pod { grace: seconds(900), ..pod("slow") };
    let facts = draining(&[pod("web"), slow.clone()]);
    let config = facts.lease.as_ref().unwrap().settings.clone().unwrap();
    let taken = Record::read(&hook(3350)).unwrap().taken(&INSTANCE.parse().unwrap());
    let status = report(&facts, None).nodes.remove(0);
    let limits = limits_of(&limit_settings(&config), &taken, &BTreeMap::new(), at(3350), &BTreeSet::new(), None);
    assert!(limits.end_at > Some(at(3350 + 2000)) && limits.end_at <= Some(at(3350 + 2400)), "{limits:?}");
    assert_eq!(status.deadline, limits.end_at);
    let start = Start { node: "a".into(), cordoned_at: at(3350), limits, own_pod: None };
    assert_eq!(status.force_from, Drain::new(start, drain_settings(&config)).forced_from(&slow));
    assert_eq!((status.since, status.state, status.interruptions[0].kind), (Some(at(3350)), State::Draining, "terminate-hook"));
}

#[test]
fn a_drain_that_was_taken_over_or_resumed_has_its_deadline_from_then() {
    let deadline = |acquired: i64, resumed: Option<i64>| {
        let mut facts = draining(&[pod("web")]);
        facts.lease.as_mut().unwrap().acquired = Some(at(acquired));
        facts.nodes = vec![node("a", &[(RECORD, hook(100))])];
        facts.events = resumed.map(|last| event(Subject::Node("a".into()), "Resumed", "", last)).into_iter().collect();
        report(&facts, None).nodes[0].deadline
    };
    assert!(deadline(0, None) < Some(at(2501)), "it passed before anybody looked");
    let (taken_over, resumed) = (deadline(2600, None).unwrap(), deadline(0, Some(3000)).unwrap());
    assert!(taken_over > at(4900) && taken_over <= at(5000), "a deadline that had passed at the take-over is void: {taken_over}");
    assert_eq!(resumed, taken_over.plus(seconds(400)));
}

#[test]
fn pods_are_counted_and_each_one_that_is_held_is_named_with_what_holds_it() {
    let daemon = |name: &str| {
        let owner = Some(Box::new(Owner { api_version: "apps/v1".into(), kind: "DaemonSet".into(), name: name.into() }));
        Pod { owner, ..pod(name) }
    };
    let leaving = Pod { deletion: Some(at(3620)), ..pod("leaving") };
    let stuck = Pod { deletion: Some(at(3500)), finalizers: true, ..pod("stuck") };
    let finished = Pod { phase: Phase::Succeeded, ..pod("finished") };
    let mut facts = draining(&[pod("cart"), pod("db"), pod("web"), pod("hooked"), leaving, stuck, finished, daemon("agent"), daemon("lost")]);
    facts.daemon_sets =
        [("agent", DaemonSetState::There), ("lost", DaemonSetState::Gone)].map(|(name, state)| (("shop".to_owned(), name.to_owned()), state)).into();
    facts.budgets = vec![budget("cart", 0), budget("db", 0), budget("db", 1), budget("web", 1)];
    let of_webhook = format!("{} (node a)", BlockReason::Webhook.in_event("no, says guard"));
    let of_budget = format!("{} (node a)", BlockReason::Pdb.in_event("no"));
    facts.events = vec![
        event(Subject::Pod("hooked".into()), "Blocked", &of_webhook, 3500),
        event(Subject::Pod("cart".into()), "Blocked", &of_budget, 3450),
        // Its budget allows it now: what was said of it is over.
        event(Subject::Pod("web".into()), "Blocked", &of_budget, 3450),
        // Of a drain before this one.
        event(Subject::Pod("lost".into()), "Blocked", &of_webhook, 3000),
    ];
    let status = report(&facts, None).nodes.remove(0);
    assert_eq!(status.pods, Some(Pods { left: 7, waiting: 2, blocked: 4, leaving: 1 }));
    let blocked: Vec<_> = status.blocked.iter().map(|b| (b.pod.as_str(), b.reason, b.budgets.join(","), b.since)).collect();
    assert_eq!(
        blocked,
        [
            ("shop/cart", "pdb", "shop/cart".to_owned(), Some(at(3440))),
            ("shop/db", "two_pdbs", "shop/db,shop/db".to_owned(), None),
            ("shop/hooked", "webhook", String::new(), Some(at(3490))),
            ("shop/stuck", "finalizer", String::new(), Some(at(3500))),
        ]
    );
    assert_eq!((status.blocked[0].message.as_str(), status.blocked[2].message.as_str()), ("2 healthy pods, 2 needed", "no, says guard"));
    facts.budgets = vec![Budget { healthy: 1, desired: 1, ..budget("cart", 0) }];
    assert_eq!(report(&facts, None).nodes[0].blocked[0].message, "1 healthy pod, 1 needed");
}

#[test]
fn the_state_of_a_node_is_that_of_its_record() {
    let released = json!({ "version": 1, "instance": INSTANCE, "interruptions": [], "released": { "at": at(3000), "outcome": "empty" } }).to_string();
    let elsewhere = json!({ "version": 1, "instance": "i-0fedcba0987654321", "interruptions": [] }).to_string();
    let bare = || Node { taints: Vec::new(), ..node("a", &[]) };
    let (draining, not) = (Some(State::Draining), Some(State::NotDraining));
    for (what, node, shown, named) in [
        ("open", node("a", &[(RECORD, hook(3350))]), draining, draining),
        ("paused", node("a", &[(RECORD, hook(3350)), (PAUSE, "true".to_owned())]), Some(State::Paused), Some(State::Paused)),
        ("deleted in mid-drain", node("a", &[]), Some(State::RecordLost), Some(State::RecordLost)),
        ("damaged in mid-drain", node("a", &[(RECORD, "{".to_owned())]), Some(State::RecordLost), Some(State::RecordLost)),
        ("never interrupted", bare(), None, not),
        ("released", node("a", &[(RECORD, released)]), None, not),
        ("another machine's", node("a", &[(RECORD, elsewhere)]), None, not),
    ] {
        let name = node.name.clone();
        let facts = facts(vec![node], &[]);
        let state = |only| report(&facts, only).nodes.first().map(|n| n.state);
        assert_eq!((state(None), state(Some(&name))), (shown, named), "{what}");
    }
}

#[test]
fn nodes_that_wait_for_their_instance_to_go_are_counted_and_uncordoned_ones_are_remarked() {
    let released = json!({ "version": 1, "instance": INSTANCE, "interruptions": [], "released": { "at": at(3000), "outcome": "empty" } }).to_string();
    let uncordoned = Node { unschedulable: false, ..node("b", &[(RECORD, hook(3350))]) };
    let report = report(&facts(vec![node("a", &[(RECORD, released)]), uncordoned], &[]), None);
    assert_eq!(report.drained, ["a".into()]);
    assert!(report.nodes[0].remarks[0].contains("uncordoned"), "{:?}", report.nodes[0].remarks);
}

#[test]
fn nobody_leads_where_the_lease_is_free_or_not_renewed_and_unknown_settings_are_said() {
    let with = |change: &dyn Fn(&mut LeaseFacts)| {
        let mut facts = draining(&[pod("web")]);
        facts.lease.as_mut().into_iter().for_each(change);
        report(&facts, None)
    };
    assert_eq!(with(&|_| {}).leader.pod.as_deref(), Some("sundown-0"));
    assert_eq!(with(&|l| l.holder = None).leader.pod, None);
    assert_eq!(with(&|l| l.renewed = Some(at(3500))).leader.pod, None);
    assert!(with(&|l| l.is_paused = true).paused && with(&|l| l.is_paused = true).nodes[0].state == State::Paused);
    let unknown = with(&|l| l.settings = None);
    assert!(unknown.nodes[0].deadline.is_some() && unknown.notes[0].contains("default settings"), "{:?}", unknown.notes);
    assert!(with(&|_| {}).notes.is_empty());
}

#[test]
fn the_last_event_of_each_reason_is_shown_and_heartbeats_are_those_of_the_hook() {
    let mut facts = draining(&[pod("web")]);
    let of_node = |reason, message, last| event(Subject::Node("a".into()), reason, message, last);
    facts.events = vec![
        of_node("PodsComeBack", "first", 3400),
        of_node("PodsComeBack", "second", 3500),
        of_node("Uncordoned", "by hand", 3300),
        of_node("HookKeptOpen", "kept open by heartbeats: web/other, web/sundown", 3550),
        of_node("HookKeptOpen", "kept open by heartbeats: web/sundown-2", 3590),
        event(Subject::Node("b".into()), "PodsComeBack", "not ours", 3500),
    ];
    let status = report(&facts, None).nodes.remove(0);
    assert_eq!(status.events.iter().map(|e| (e.reason.as_str(), e.message.as_str())).collect::<Vec<_>>(), [("PodsComeBack", "second")]);
    assert_eq!(status.hooks, [Hook { group: "web".to_owned(), name: "sundown".to_owned(), last_heartbeat: Some(at(3550)) }]);
}

#[test]
fn a_node_is_found_by_its_name_by_the_id_of_its_instance_and_by_a_first_label_that_no_other_node_has() {
    let nodes = [
        node("ip-1", &[]),
        Node { instance: None, ..node("i-1234567890abcdef1", &[]) },
        node("ip-3.eu-west-1.compute.internal", &[]),
        node("ip-4.a", &[]),
        node("ip-4.b", &[]),
        node("ip-1.a", &[]),
    ];
    let found = |text: &str| named(&nodes, text).map_err(|error| error.to_string());
    for (text, expected) in [
        ("ip-1", "ip-1"),
        (INSTANCE, "ip-1"),
        ("i-1234567890abcdef1", "i-1234567890abcdef1"),
        ("ip-3", "ip-3.eu-west-1.compute.internal"),
        ("ip-4.a", "ip-4.a"),
    ] {
        assert_eq!(found(text), Ok(expected.into()), "{text}");
    }
    for text in ["ip-2", "i-0", "ip", "ip-3.eu-west-1", ""] {
        assert!(found(text).is_err_and(|said| said.contains(&format!("no node `{text}`"))), "{text}");
    }
    assert!(found("ip-4").is_err_and(|said| said.contains("any of these nodes: ip-4.a, ip-4.b; give the whole name")));
}

#[test]
fn a_node_where_no_pod_is_left_to_force_shows_a_dash_and_never_is_kept_for_one_that_no_deadline_rules() {
    let leaving = Pod { deletion: Some(at(3620)), ..pod("leaving") };
    let stuck = Pod { deletion: Some(at(3500)), finalizers: true, ..pod("stuck") };
    let shown = |pods: &[Pod], settings: &str| {
        let mut facts = draining(pods);
        facts.lease.as_mut().unwrap().settings = DrainConfig::from_published(settings);
        let report = report(&facts, None);
        let page = text(&report, PLAIN);
        let row = page.lines().find(|line| line.starts_with("a ")).unwrap().to_owned();
        let words: Vec<_> = row.split_whitespace().map(str::to_owned).collect();
        (words[5].clone(), text(&report, Look { is_detailed: true, ..PLAIN }))
    };
    let settings = "--drain-timeout=40m";
    for pods in [&[leaving.clone()][..], &[leaving.clone(), stuck], &[]] {
        let (force, detail) = shown(pods, settings);
        assert!(force == "-" && detail.contains("force from no pod is left that could be forced"), "{force} {detail}");
    }
    let (force, detail) = shown(&[leaving.clone(), pod("web")], "--force-after=never");
    assert!(force == "never" && detail.contains("no pod is deleted by force"), "{force} {detail}");
    assert!(!["-", "never"].contains(&shown(&[leaving, pod("web")], settings).0.as_str()));
    let mut unread = draining(&[]);
    unread.pods.clear();
    let page = text(&report(&unread, None), PLAIN);
    assert!(page.contains(" ?     ?        ? "), "{page}");
}

fn shown(name: &str) -> NodeStatus {
    NodeStatus {
        node: name.into(),
        instance: Some(INSTANCE.to_owned()),
        state: State::Draining,
        remarks: Vec::new(),
        interruptions: vec![Interruption { kind: "terminate-hook", time: at(3349), accepted: at(3350) }],
        since: Some(at(3350)),
        deadline: Some(at(6950)),
        force_from: Some(at(5150)),
        nothing_to_force: false,
        pods: Some(Pods { left: 3, waiting: 1, blocked: 1, leaving: 1 }),
        blocked: vec![BlockedPod {
            pod: "shop/cart-7d9c5b7f4-x2x4q".to_owned(),
            reason: "pdb",
            budgets: vec!["shop/cart".to_owned()],
            message: "2 healthy pods, 2 needed".to_owned(),
            since: Some(at(3480)),
            force_from: Some(at(5150)),
        }],
        hooks: vec![Hook { group: "web".to_owned(), name: "sundown".to_owned(), last_heartbeat: Some(at(3580)) }],
        events: vec![LastEvent { reason: "Uncordoned".to_owned(), warning: true, message: "by hand".to_owned(), last: at(3500) }],
    }
}

fn answer(nodes: Vec<NodeStatus>) -> Report {
    let leader = Leader {
        lease: Some("sundown/sundown".to_owned()),
        pod: Some("sundown-6d5f7c9b8-x2x4q".to_owned()),
        since: Some(at(0)),
        renewed: Some(at(3598)),
    };
    Report { time: at(3600), leader, paused: false, nodes, drained: Vec::new(), notes: Vec::new() }
}

const PLAIN: Look = Look { paint: Paint::new(false), width: 80, is_detailed: false };

#[test]
fn the_table_says_until_when_and_what_holds_each_pod() {
    let spot = NodeStatus {
        interruptions: vec![Interruption { kind: "spot", time: at(3588), accepted: at(3588) }],
        since: Some(at(3588)),
        deadline: Some(at(3698)),
        force_from: Some(at(3590)),
        pods: Some(Pods { left: 9, waiting: 0, blocked: 0, leaving: 9 }),
        blocked: Vec::new(),
        hooks: Vec::new(),
        events: Vec::new(),
        ..shown("ip-10-0-1-24.eu-west-1.compute.internal")
    };
    let page = text(&answer(vec![shown("ip-10-0-1-23.eu-west-1.compute.internal"), spot]), PLAIN);
    let expected = "\
Leader: sundown-6d5f7c9b8-x2x4q for 1h (Lease sundown/sundown)

NODE         KIND           SINCE  PODS  BLOCKED  FORCE IN TIME LEFT
ip-10-0-1-23 terminate-hook 4m10s  3     1        25m50s   55m50s
  shop/cart-7d9c5b7f4-x2x4q: pdb 2m shop/cart (2 healthy pods, 2 needed)
  Uncordoned: by hand
  hook web/sundown, last known heartbeat 20s ago
ip-10-0-1-24 spot           12s    9     0        now      1m38s

2 nodes are being drained; 12 pods are left, 1 blocked.
";
    assert_eq!(page, expected);
}

#[test]
fn no_line_is_wider_than_80_columns_whatever_the_names_are() {
    let long = "x".repeat(200);
    let mut node = shown(&long);
    node.remarks.push(long.clone());
    node.blocked[0].pod.clone_from(&long);
    node.hooks[0].group.clone_from(&long);
    node.events[0].message = format!("{long}\n\x1b[31m{long}");
    node.interruptions.push(Interruption { kind: "state-change", time: at(0), accepted: at(0) });
    node.blocked = vec![node.blocked[0].clone(); 20];
    for is_detailed in [false, true] {
        for width in [40, 80] {
            let mut report = answer(vec![node.clone(), shown("ip-10-0-1-24")]);
            report.notes.push("word ".repeat(60));
            report.drained = vec!["a".into()];
            let page = text(&report, Look { width, is_detailed, ..PLAIN });
            let widest = page.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{widest:?} {page}");
            assert!(!page.contains('\x1b'), "{page}");
        }
    }
}

#[test]
fn colors_change_nothing_but_colors() {
    let plain = text(&answer(vec![shown("a")]), PLAIN);
    let colored = text(&answer(vec![shown("a")]), Look { paint: Paint::new(true), ..PLAIN });
    assert!(colored.contains("\x1b[1;31m1       \x1b[0m"), "{colored}");
    let mut stripped = colored;
    for code in ["0", "1", "2", "32", "33", "1;31"] {
        stripped = stripped.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn nobody_leading_a_pause_and_an_empty_cluster_are_said_in_words() {
    let mut report = answer(Vec::new());
    report.paused = true;
    report.leader.pod = None;
    report.drained = vec!["a".into(), "b".into()];
    let page = text(&report, PLAIN);
    for words in [
        "Leader: NOBODY leads (Lease sundown/sundown, last renewed 2s ago)",
        "Paused: ALL drains are paused. `sundown resume` ends it.",
        "No node is being drained.",
        "2 nodes are drained and cordoned until their instances go.",
    ] {
        assert!(page.contains(words), "{words} is not in\n{page}");
    }
    report.leader.lease = None;
    report.drained.pop();
    let page = text(&report, PLAIN);
    assert!(page.contains("no Lease was found") && page.contains("1 node is drained and cordoned until its instance goes."), "{page}");
}

#[test]
fn one_node_is_told_with_times_and_everything_that_is_known() {
    let page = text(&answer(vec![shown("ip-10-0-1-23.eu-west-1.compute.internal")]), Look { is_detailed: true, ..PLAIN });
    for words in [
        "ip-10-0-1-23.eu-west-1.compute.internal is being drained",
        "instance   i-1234567890abcdef0",
        "came       terminate-hook at 2026-01-01T00:55:49Z",
        "accepted   2026-01-01T00:55:50Z",
        "deadline   2026-01-01T01:55:50Z (in 55m50s)",
        "force from 2026-01-01T01:25:50Z (in 25m50s)",
        "pods       3 left: 1 blocked, 1 leaving, 1 waiting",
        "hook       web/sundown, last known heartbeat 20s ago",
        "blocked    shop/cart-7d9c5b7f4-x2x4q: pdb 2m shop/cart",
        "event      Uncordoned 1m40s ago: by hand",
    ] {
        assert!(page.contains(words), "{words} is not in\n{page}");
    }
}

#[test]
fn a_page_is_clipped_at_the_height_of_the_terminal() {
    let page = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
    let clipped = clipped(&page, 24);
    assert_eq!(clipped.lines().count(), 23);
    assert!(clipped.lines().last().is_some_and(|line| line.contains("… and 78 more lines")), "{clipped}");
    assert_eq!(super::clipped("a\nb\n", 24), "a\x1b[K\r\nb\x1b[K\r\n");
}

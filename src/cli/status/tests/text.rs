//! How a report looks on a terminal.

use super::*;

fn shown(name: &str) -> NodeStatus {
    NodeStatus {
        node: name.into(),
        instance: Some(INSTANCE.to_owned()),
        state: State::Draining,
        remarks: Vec::new(),
        interruptions: vec![Interruption {
            kind: "terminate-hook",
            time: at(3349),
            accepted: at(3350),
            request: None,
        }],
        since: Some(at(3350)),
        restore_at: None,
        deadline: Some(at(6950)),
        force_from: Some(at(5150)),
        follows_rules: false,
        nothing_to_force: false,
        pods: Some(Pods { left: 3, waiting: 1, blocked: 1, leaving: 1 }),
        blocked: vec![BlockedPod {
            pod: "shop/cart-7d9c5b7f4-x2x4q".to_owned(),
            reason: "pdb",
            budgets: vec!["shop/cart".to_owned()],
            message: "2 healthy pods, 2 needed".to_owned(),
            since: Some(at(3480)),
            force_from: Some(at(5150)),
            needs: "one more healthy pod",
        }],
        hooks: vec![Hook {
            group: "web".to_owned(),
            name: "sundown".to_owned(),
            last_heartbeat: Some(at(3580)),
        }],
        gates: Vec::new(),
        settings: vec![model::Setting {
            name: "drain-timeout",
            value: "1h".to_owned(),
            source: "hook",
        }],
        events: vec![LastEvent {
            reason: "Uncordoned".to_owned(),
            warning: true,
            message: "by hand".to_owned(),
            last: at(3500),
        }],
    }
}

fn answer(nodes: Vec<NodeStatus>) -> Report {
    let leader = Leader {
        lease: Some("sundown/sundown".to_owned()),
        pod: Some("sundown-6d5f7c9b8-x2x4q".to_owned()),
        since: Some(at(0)),
        renewed: Some(at(3598)),
    };
    Report {
        time: at(3600),
        leader,
        paused: false,
        nodes,
        drained: Vec::new(),
        waiting: Vec::new(),
        retained: Vec::new(),
        planned: Vec::new(),
        notes: Vec::new(),
    }
}

#[test]
fn the_table_shows_time_limits_and_what_blocks_each_pod() {
    let spot = NodeStatus {
        interruptions: vec![Interruption {
            kind: "spot",
            time: at(3588),
            accepted: at(3588),
            request: None,
        }],
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

NODE         KIND           SINCE  PODS BLOCKED  FORCE IN  TIME LEFT
ip-10-0-1-23 terminate-hook 4m10s  3    1        25m50s    55m50s
  shop/cart-7d9c5b7f4-x2x4q: pdb 2m shop/cart (2 healthy pods, 2 needed)
  Uncordoned: by hand
  hook web/sundown, last known heartbeat 20s ago
ip-10-0-1-24 spot           12s    9    0        now       1m38s

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
    node.interruptions.push(Interruption {
        kind: "state-change",
        time: at(0),
        accepted: at(0),
        request: None,
    });
    node.blocked = vec![node.blocked[0].clone(); 20];
    for is_detailed in [false, true] {
        for width in [40, 80] {
            let mut report = answer(vec![node.clone(), shown("ip-10-0-1-24")]);
            report.notes.push("word ".repeat(60));
            report.drained = vec!["a".into()];
            report.waiting = waiting(&[(Until::InstanceIsBack, 7), (Until::InstanceIsHealthy, 1)]);
            let page = text(&report, Look { width, is_detailed, ..PLAIN });
            let widest = page.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{widest:?} {page}");
            assert!(!page.contains('\x1b'), "{page}");
        }
    }
}

#[test]
fn long_names_hide_neither_the_reason_nor_the_budget_of_a_blocked_pod() {
    let mut node = shown("ip-10-0-1-23.eu-west-1.compute.internal");
    let name = format!("payments/settlement-reconciler-{}-m2ctv", "x".repeat(60));
    node.blocked[0].pod.clone_from(&name);
    node.blocked[0].budgets = vec!["payments/settlement-reconciler".to_owned()];
    for is_detailed in [false, true] {
        let page = text(&answer(vec![node.clone()]), Look { is_detailed, ..PLAIN });
        for part in
            ["payments/settlement-rec", "-m2ctv:", "pdb 2m", "payments/settlement-reconciler"]
        {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
    }
}

#[test]
fn a_paused_drain_has_no_time_of_force() {
    let mut node = shown("a");
    node.state = State::Paused;
    node.force_from = None;
    let page = text(&answer(vec![node]), Look { is_detailed: true, ..PLAIN });
    assert!(page.contains("no pod is deleted by force while the drain is paused"), "{page}");
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
fn the_head_reports_a_missing_leader_a_pause_and_an_empty_cluster() {
    let mut report = answer(Vec::new());
    report.paused = true;
    report.leader.pod = None;
    report.drained = vec!["a".into(), "b".into()];
    let page = text(&report, PLAIN);
    for words in [
        "Leader: NOBODY leads (Lease sundown/sundown, last renewed 2s ago)",
        "Paused: ALL drains are paused. `sundown resume` ends it.",
        "No node is being drained.",
        "The drains of 2 nodes are over; they stay cordoned until their instances go.",
    ] {
        assert!(page.contains(words), "{words} is not in\n{page}");
    }
    report.leader.lease = None;
    report.drained.pop();
    let page = text(&report, PLAIN);
    assert!(
        page.contains("no Lease was found")
            && page.contains(
                "The drain of 1 node is over; it stays cordoned until its instance goes."
            ),
        "{page}"
    );
}

/// Nodes that wait, named `n0`, `n1` and so on: as many for each thing as `all` says.
fn waiting(all: &[(Until, usize)]) -> Vec<WaitingNode> {
    let of_one = |(until, count): &(Until, usize)| {
        let until = *until;
        (0..*count).map(move |n| WaitingNode { node: format!("n{n}").as_str().into(), until })
    };
    all.iter().flat_map(of_one).collect()
}

#[test]
fn nodes_that_stay_cordoned_have_a_line_for_each_thing_that_they_wait_for() {
    let mut report = answer(Vec::new());
    report.drained = vec!["a".into()];
    report.waiting = waiting(&[
        (Until::LeaderRestores, 1),
        (Until::InstanceGoesOrBoots, 1),
        (Until::InstanceIsBack, 7),
        (Until::InstanceIsHealthy, 2),
        (Until::AnnotationIsRemoved, 1),
        (Until::EventShowsReturn, 1),
        (Until::PersonRestores, 1),
        (Until::RequestIsRemoved, 1),
    ]);
    let page = text(&report, Look { width: 200, ..PLAIN });
    let lines: Vec<_> = page.lines().filter(|line| line.contains("ordoned")).collect();
    let expected = [
        "The drain of 1 node is over; it stays cordoned until its instance goes.",
        "Cordoned or tainted until the instance is back (warm pool, stop, hibernation, new root volume): n0, \
         n1, n2, n3, n4 and 2 more.",
        "Cordoned or tainted until an event shows that the instance is back, or a person restores \
         the node, because the sweep is off (--sweep-interval 0s): n0.",
        "The drain is over; cordoned or tainted until the instance goes or has booted again: n0.",
        "The drain is over; cordoned or tainted until the sick instance is healthy or replaced: n0, n1.",
        "The drain is over; cordoned or tainted until a person restores the node, because the sweep \
         is off (--sweep-interval 0s): n0.",
        "The drain is over; cordoned or tainted until a person removes sundown.dev/keep-cordoned: n0.",
        "The drain is over; cordoned or tainted until the request for it is removed \
         (drain.sundown.dev): n0.",
        "The drain is over; cordoned or tainted until the leader restores it, which is due: n0.",
    ];
    assert_eq!(lines, expected, "{page}");
}

#[test]
fn one_node_is_shown_with_times_and_all_facts() {
    let page = text(
        &answer(vec![shown("ip-10-0-1-23.eu-west-1.compute.internal")]),
        Look { is_detailed: true, ..PLAIN },
    );
    for words in [
        "ip-10-0-1-23.eu-west-1.compute.internal is being drained",
        "instance   i-1234567890abcdef0",
        "came       terminate-hook at 2026-01-01T00:55:49Z",
        "accepted   2026-01-01T00:55:50Z",
        "deadline   2026-01-01T01:55:50Z (in 55m50s)",
        "force from 2026-01-01T01:25:50Z (in 25m50s)",
        "pods       3 left: 1 blocked, 1 leaving, 1 waiting",
        "settings   drain-timeout 1h (hook)",
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
    assert!(
        clipped.lines().last().is_some_and(|line| line.contains("… and 78 more lines")),
        "{clipped}"
    );
    assert_eq!(super::clipped("a\nb\n", 24), "a\x1b[K\r\nb\x1b[K\r\n");
}

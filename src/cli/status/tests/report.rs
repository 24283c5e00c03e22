//! Tests the report made from given facts.

use super::*;

#[test]
fn deadline_and_force_agree_with_the_service_under_the_leaders_settings() {
    let slow = Pod { grace: seconds(900), ..pod("slow") };
    let facts = draining(&[pod("web"), slow.clone()]);
    let config = facts.lease.as_ref().unwrap().settings.clone().unwrap();
    let taken = Record::read(&hook(3350)).unwrap().interruptions(&INSTANCE.parse().unwrap());
    let status = report(&facts, None).nodes.remove(0);
    let limits = limits_of(
        &limit_settings(&config),
        &taken,
        &BTreeMap::new(),
        at(3350),
        &BTreeSet::new(),
        None,
    );
    assert!(
        limits.end_at > Some(at(3350 + 2000)) && limits.end_at <= Some(at(3350 + 2400)),
        "{limits:?}"
    );
    assert_eq!(status.deadline, limits.end_at);
    let start = Start { node: "a".into(), cordoned_at: at(3350), limits, own_pod: None };
    assert_eq!(status.force_from, Drain::new(start, drain_settings(&config)).forced_from(&slow));
    assert_eq!(
        (status.since, status.state, status.interruptions[0].kind),
        (Some(at(3350)), State::Draining, "terminate-hook")
    );
}

#[test]
fn pods_that_wait_for_earlier_groups_are_a_remark_with_the_time_when_the_wait_is_over() {
    let critical = Pod { priority: 2_000_000_000, ..pod("dns") };
    let facts = |settings: &str| {
        let mut facts = draining(&[pod("web"), critical.clone()]);
        facts.lease.as_mut().unwrap().settings = DrainConfig::from_published(settings);
        report(&facts, None).nodes.remove(0)
    };
    let status = facts("--drain-timeout=2h");
    let latest = status.deadline.unwrap();
    let [remark] = &status.remarks[..] else { panic!("{:?}", status.remarks) };
    let start = "1 pod is not evicted until the earlier pod groups are gone, or until ";
    assert!(
        remark.starts_with(start) && remark.ends_with("at the latest (--pod-order)."),
        "{remark}"
    );
    assert!(latest > at(3600));
    assert_eq!(facts("--drain-timeout=2h --pod-order=together").remarks, [""; 0]);
}

#[test]
fn a_pod_that_waits_for_others_is_named_with_what_lets_it_wait() {
    let asks = |name: &str, wish: &'static str| {
        let read = |key: &str| (key == "sundown.dev/drain").then_some(wish);
        Pod { wishes: PodWishes::read(read, &crate::domain::Labels::default()), ..pod(name) }
    };
    let critical = Pod { priority: 2_000_000_000, ..pod("dns") };
    let last = || asks("db", "last");
    for (pods, flags, expected) in [
        (vec![pod("web"), last()], "", "(sundown.dev/drain: last)."),
        (vec![pod("web"), critical.clone()], "", "(--pod-order)."),
        (
            vec![pod("web"), critical.clone(), last()],
            "",
            "(--pod-order; 1 of them: sundown.dev/drain: last).",
        ),
        (vec![pod("web"), critical], "--rules-file=given", "(--pod-order or --rules-file)."),
    ] {
        let mut facts = draining(&pods);
        let flags = format!("--drain-timeout=2h {flags}");
        facts.lease.as_mut().unwrap().settings = DrainConfig::from_published(flags.trim());
        let remarks = report(&facts, None).nodes.remove(0).remarks;
        let waits: Vec<_> = remarks.iter().filter(|it| it.contains("earlier pod groups")).collect();
        let [remark] = &waits[..] else { panic!("{remarks:?}") };
        assert!(remark.ends_with(expected), "{remark}");
    }
    let remarks = |pods: &[Pod]| report(&draining(pods), None).nodes.remove(0).remarks;
    assert_eq!(
        remarks(&[pod("web"), asks("agent", "skip")]),
        ["1 pod is left alone (sundown.dev/drain: skip)."]
    );
    assert_eq!(
        remarks(&[asks("a", "skip"), asks("b", "skip")]),
        ["2 pods are left alone (sundown.dev/drain: skip)."]
    );
}

#[test]
fn rules_that_the_leader_follows_are_a_remark() {
    let mut facts = draining(&[pod("web")]);
    facts.lease.as_mut().unwrap().settings = DrainConfig::from_published("--rules-file=given");
    let status = report(&facts, None).nodes.remove(0);
    assert!(status.remarks[0].starts_with("The leader follows rules about pods (--rules-file)"));
}

#[test]
fn when_pods_are_forced_is_not_known_if_rules_may_set_it() {
    let page = |flags: &str, pod: Pod| {
        let mut facts = draining(&[pod]);
        facts.lease.as_mut().unwrap().settings = DrainConfig::from_published(flags);
        text(&report(&facts, Some(&"a".into())), Look { is_detailed: true, ..PLAIN })
    };
    let not_known = "force from not known: rules may set it (--rules-file)";
    let never = "force from no pod is deleted by force";
    let page_of = |flags: &str| page(flags, pod("web"));
    let both = page_of("--drain-timeout=40m --force-after=never --rules-file=given");
    assert!(both.contains(not_known), "{both}");
    assert!(page_of("--drain-timeout=40m --force-after=never").contains(never));
    let timed = page_of("--drain-timeout=40m --rules-file=given");
    assert!(!timed.contains(not_known) && timed.contains("force from 2026-"), "{timed}");
    let leaving = Pod { deletion: Some(at(3700)), ..pod("web") };
    let nothing = page("--force-after=never --rules-file=given", leaving);
    assert!(nothing.contains("no pod is left that could be forced"), "{nothing}");
}

#[test]
fn pods_that_ask_to_wait_are_a_remark_and_are_not_blocked_by_their_budget() {
    let asks = |key: &str| (key == "sundown.dev/drain").then_some("wait");
    let wishes = PodWishes::read(asks, &crate::domain::Labels::default());
    let mut facts = draining(&[Pod { wishes, ..pod("job") }, pod("web")]);
    facts.budgets = vec![budget("job", 0)];
    let status = report(&facts, None).nodes.remove(0);
    let [remark] = &status.remarks[..] else { panic!("{:?}", status.remarks) };
    let start = "1 pod waits (sundown.dev/drain: wait) until ";
    assert!(remark.starts_with(start) && remark.ends_with("at the latest."), "{remark}");
    assert!(status.blocked.is_empty() && status.pods.unwrap().waiting == 2);
}

#[test]
fn each_setting_in_force_has_its_source_and_a_bad_annotation_is_a_remark() {
    let settings = r#""hook":"sundown","settings":{"drain-timeout":"20m","complete-delay":"9s"}"#;
    let record = hook(3350).replace(r#""hook":"sundown""#, settings);
    let mut facts = draining(&[pod("web")]);
    let annotations = [
        (RECORD, record),
        ("sundown.dev/complete-delay", "5s".to_owned()),
        ("sundown.dev/drain-timeout", "3h".to_owned()),
    ];
    facts.nodes = vec![node("a", &annotations)];
    let status = report(&facts, None).nodes.remove(0);
    let shown: Vec<_> =
        status.settings.iter().map(|s| (s.name, s.value.as_str(), s.source)).collect();
    assert_eq!(
        shown,
        [
            ("drain-timeout", "20m", "hook"),
            ("force-after", "0.5", "flag"),
            ("complete-delay", "5s", "node")
        ]
    );
    assert_eq!(status.deadline, Some(at(3350 + 1200 - 2)));
    let remark = "the annotation sundown.dev/drain-timeout is `3h`: the flags allow at most 40m";
    assert!(status.remarks.iter().any(|text| text.starts_with(remark)), "{:?}", status.remarks);
}

#[test]
fn the_deadline_counts_from_the_change_of_leader_or_the_resume() {
    let deadline = |acquired: i64, resumed: Option<i64>| {
        let mut facts = draining(&[pod("web")]);
        facts.lease.as_mut().unwrap().acquired = Some(at(acquired));
        facts.nodes = vec![node("a", &[(RECORD, hook(100))])];
        facts.events = resumed
            .map(|last| event(Subject::Node("a".into()), "Resumed", "", last))
            .into_iter()
            .collect();
        report(&facts, None).nodes[0].deadline
    };
    assert!(deadline(0, None) < Some(at(2501)), "it passed before anybody looked");
    let (taken_over, resumed) = (deadline(2600, None).unwrap(), deadline(0, Some(3000)).unwrap());
    assert!(
        taken_over > at(4900) && taken_over <= at(5000),
        "a deadline that had passed at the take-over is void: {taken_over}"
    );
    assert_eq!(resumed, taken_over.plus(seconds(400)));
}

#[test]
fn the_deadline_is_the_leaders_if_an_event_shows_an_earlier_one() {
    let limits = |message: &str, last: i64| {
        let mut facts = draining(&[pod("web")]);
        facts.events = vec![event(Subject::Node("a".into()), "Blocked", message, last)];
        let status = report(&facts, None).nodes.remove(0);
        (status.deadline.unwrap(), status.force_from.unwrap())
    };
    let (end, force) = limits("1 pod is blocked: shop/web (pdb).", 3500);
    let blocked = |end: Moment| {
        format!("1 pod is blocked: shop/web (pdb). The drain ends at {end:.0} at the latest.")
    };
    let earlier = at(4800);
    let by_leader = limits(&blocked(earlier), 3500);
    assert_eq!(by_leader.0, earlier, "a hook whose global timeout is short");
    assert!(by_leader.1 < force, "{by_leader:?}");
    assert_eq!(limits(&blocked(end.plus(seconds(60))), 3500), (end, force));
    assert_eq!(limits(&blocked(earlier), 3000), (end, force), "of an earlier drain");
}

#[test]
fn pods_are_counted_and_each_blocked_pod_is_listed_with_its_block() {
    let daemon = |name: &str| {
        let owner = Some(Box::new(Owner {
            api_version: "apps/v1".into(),
            kind: "DaemonSet".into(),
            name: name.into(),
        }));
        Pod { owner, ..pod(name) }
    };
    let leaving = Pod { deletion: Some(at(3620)), ..pod("leaving") };
    let stuck = Pod { deletion: Some(at(3500)), finalizers: true, ..pod("stuck") };
    let finished = Pod { phase: Phase::Succeeded, ..pod("finished") };
    let mut facts = draining(&[
        pod("cart"),
        pod("db"),
        pod("web"),
        pod("hooked"),
        leaving,
        stuck,
        finished,
        daemon("agent"),
        daemon("lost"),
    ]);
    facts.daemon_sets = [("agent", DaemonSetState::Exists), ("lost", DaemonSetState::Gone)]
        .map(|(name, state)| (("shop".to_owned(), name.to_owned()), state))
        .into();
    facts.budgets = vec![budget("cart", 0), budget("db", 0), budget("db", 1), budget("web", 1)];
    let of_webhook = format!("{} (node a)", BlockReason::Webhook.in_event("denied by guard"));
    let of_budget = format!("{} (node a)", BlockReason::Pdb.in_event("no"));
    facts.events = vec![
        event(Subject::Pod("hooked".into()), "Blocked", &of_webhook, 3500),
        event(Subject::Pod("cart".into()), "Blocked", &of_budget, 3450),
        // Its budget allows the eviction now, so the Event is outdated.
        event(Subject::Pod("web".into()), "Blocked", &of_budget, 3450),
        // This Event is from an earlier drain.
        event(Subject::Pod("lost".into()), "Blocked", &of_webhook, 3000),
    ];
    let status = report(&facts, None).nodes.remove(0);
    assert_eq!(status.pods, Some(Pods { left: 7, waiting: 2, blocked: 4, leaving: 1 }));
    let blocked: Vec<_> = status
        .blocked
        .iter()
        .map(|b| (b.pod.as_str(), b.reason, b.budgets.join(","), b.since))
        .collect();
    // The service writes the Event when a pod has been blocked for 30 s.
    assert_eq!(
        blocked,
        [
            ("shop/cart", "pdb", "shop/cart".to_owned(), Some(at(3410))),
            ("shop/db", "two_pdbs", "shop/db,shop/db".to_owned(), None),
            ("shop/hooked", "webhook", String::new(), Some(at(3460))),
            ("shop/stuck", "finalizer", String::new(), Some(at(3500))),
        ]
    );
    assert_eq!(
        (status.blocked[0].message.as_str(), status.blocked[2].message.as_str()),
        ("2 healthy pods, 2 needed", "denied by guard")
    );
    facts.budgets = vec![Budget { healthy: 1, desired: 1, ..budget("cart", 0) }];
    assert_eq!(report(&facts, None).nodes[0].blocked[0].message, "1 healthy pod, 1 needed");
}

#[test]
fn the_state_of_a_node_is_that_of_its_record() {
    let released = json!({
        "version": 1, "instance": INSTANCE, "interruptions": [],
        "released": { "at": at(3000), "outcome": "empty" }
    })
    .to_string();
    let elsewhere =
        json!({ "version": 1, "instance": "i-0fedcba0987654321", "interruptions": [] }).to_string();
    let bare = || Node { taints: Vec::new(), ..node("a", &[]) };
    let (draining, not) = (Some(State::Draining), Some(State::NotDraining));
    for (what, node, shown, named) in [
        ("open", node("a", &[(RECORD, hook(3350))]), draining, draining),
        (
            "paused",
            node("a", &[(RECORD, hook(3350)), (PAUSE, "true".to_owned())]),
            Some(State::Paused),
            Some(State::Paused),
        ),
        ("deleted in mid-drain", node("a", &[]), Some(State::RecordLost), Some(State::RecordLost)),
        (
            "damaged in mid-drain",
            node("a", &[(RECORD, "{".to_owned())]),
            Some(State::RecordLost),
            Some(State::RecordLost),
        ),
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
fn drained_nodes_are_counted_and_uncordoned_ones_have_a_remark() {
    let spot = json!({ "kind": "spot", "time": at(2900), "accepted": at(2901) });
    let released = json!({
        "version": 1, "instance": INSTANCE, "interruptions": [spot],
        "released": { "at": at(3000), "outcome": "empty" }
    })
    .to_string();
    let uncordoned = Node { unschedulable: false, ..node("b", &[(RECORD, hook(3350))]) };
    let report = report(&facts(vec![node("a", &[(RECORD, released)]), uncordoned], &[]), None);
    assert_eq!(report.drained, ["a".into()]);
    assert!(report.nodes[0].remarks[0].contains("uncordoned"), "{:?}", report.nodes[0].remarks);
}

#[test]
fn status_says_of_a_drained_node_whether_the_leader_waits_to_delete_it() {
    let spot = json!({ "kind": "spot", "event": "e", "time": at(2900), "accepted": at(2901) });
    for (flags, released, says) in [
        ("", 3000, "stays cordoned until its instance goes"),
        ("--delete-node", 3000, "waits until EC2 shows its instance as terminated"),
        ("--out-of-service-taint", 3000, "waits until EC2 shows its instance as terminated"),
        ("--delete-node", 0, "waited for an hour"),
    ] {
        let record = json!({
            "version": 1, "instance": INSTANCE, "interruptions": [spot],
            "released": { "at": at(released), "outcome": "empty" }
        });
        let mut facts = facts(vec![node("a", &[(RECORD, record.to_string())])], &[]);
        let settings = DrainConfig::from_published(flags);
        facts.lease.as_mut().into_iter().for_each(|lease| lease.settings.clone_from(&settings));
        let status = report(&facts, Some(&"a".into())).nodes.remove(0);
        assert!(status.remarks[0].contains(says), "{flags} {:?}", status.remarks);
    }
}

#[test]
fn each_node_that_stays_cordoned_has_what_ends_that() {
    let of = |kind: &str, more: &serde_json::Value| {
        let mut entry =
            json!({ "kind": kind, "event": "e", "time": at(2900), "accepted": at(2901) });
        let fields = entry.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        entry
    };
    let one = |kind: &str| of(kind, &json!({}));
    let hook = |kind: &str, into_pool: bool| {
        of(kind, &json!({ "group": "web", "hook": "sundown", "warm_pool": into_pool }))
    };
    let state = |state: &str| of("state-change", &json!({ "state": state }));
    let ended = |outcome: &str| json!({ "at": at(3000), "outcome": outcome });
    let held = json!({ "at": at(3000), "outcome": "empty", "held": true });
    let in_service = "until the group web reports its instance as InService, and its kubelet is up";
    let started = "until EC2 has started its instance again, and its kubelet is up";
    let is_kept = "It carries sundown.dev/keep-cordoned: Sundown does not restore it before";
    let goes = "It stays cordoned until its instance goes.";
    let boots = "until its instance goes, or has booted again";
    for (interruptions, boot, released, is_annotated, until, expected) in [
        (
            vec![hook("terminate-hook", false)],
            None,
            ended("empty"),
            false,
            Until::InstanceGoes,
            [goes, ""],
        ),
        (
            vec![hook("terminate-hook", false)],
            None,
            ended("empty"),
            true,
            Until::InstanceGoes,
            [goes, ""],
        ),
        (vec![one("spot")], None, ended("empty"), false, Until::InstanceGoes, [goes, ""]),
        (
            vec![state("shutting-down")],
            None,
            ended("instance_over"),
            false,
            Until::InstanceGoes,
            [goes, ""],
        ),
        (
            vec![hook("terminate-hook", true)],
            None,
            ended("empty"),
            false,
            Until::InstanceIsBack,
            ["Its instance returns to its warm pool.", in_service],
        ),
        (
            vec![hook("terminate-hook", true)],
            None,
            ended("empty"),
            true,
            Until::InstanceIsBack,
            [in_service, is_kept],
        ),
        (
            vec![hook("launch-hook", true)],
            None,
            ended("into_warm_pool"),
            false,
            Until::InstanceIsBack,
            ["because its instance was launched into a warm pool. The node", in_service],
        ),
        (
            vec![hook("terminate-hook", true), state("stopping")],
            None,
            ended("empty"),
            false,
            Until::InstanceIsBack,
            ["as InService, EC2 has started its instance again, and its kubelet", ""],
        ),
        (
            vec![hook("root-volume", false)],
            None,
            ended("empty"),
            false,
            Until::InstanceIsBack,
            ["until it has booted from the new volume, or the group web reports", ""],
        ),
        (
            vec![one("spot-hibernate")],
            Some("b"),
            ended("empty"),
            false,
            Until::InstanceIsBack,
            ["Its instance stops or hibernates.", started],
        ),
        (
            vec![state("stopping")],
            Some("b"),
            ended("empty"),
            false,
            Until::InstanceIsBack,
            [started, ""],
        ),
        // Only a boot shows that it is back.
        (
            vec![one("spot-stop")],
            Some("b"),
            ended("empty"),
            false,
            Until::InstanceGoesOrBoots,
            [boots, ""],
        ),
        (
            vec![one("spot-stop")],
            Some("b"),
            ended("empty"),
            true,
            Until::InstanceGoesOrBoots,
            [boots, is_kept],
        ),
        (vec![one("spot-stop")], None, ended("empty"), false, Until::InstanceIsBack, [started, ""]),
        (
            vec![one("scheduled-change")],
            Some("b"),
            ended("empty"),
            false,
            Until::InstanceGoesOrBoots,
            ["until the scheduled change is over", "if AWS cancels the change"],
        ),
        (
            vec![one("from-the-future")],
            None,
            ended("empty"),
            false,
            Until::InstanceGoesOrBoots,
            [boots, ""],
        ),
        (
            vec![one("impaired")],
            None,
            ended("empty"),
            false,
            Until::InstanceIsHealthy,
            ["until its sick instance is healthy again", "by Auto Scaling with --then"],
        ),
        (
            vec![one("impaired")],
            None,
            ended("deadline"),
            false,
            Until::InstanceIsHealthy,
            ["Pods are left on it", "until a person replaces the instance"],
        ),
        (
            vec![one("impaired")],
            None,
            ended("empty"),
            true,
            Until::InstanceIsHealthy,
            ["is healthy again", is_kept],
        ),
        (
            vec![hook("terminate-hook", true)],
            None,
            held.clone(),
            true,
            Until::AnnotationIsRemoved,
            ["but sundown.dev/keep-cordoned holds that", "until a person removes the annotation"],
        ),
        (
            vec![one("impaired")],
            None,
            held.clone(),
            true,
            Until::AnnotationIsRemoved,
            ["until a person removes the annotation", ""],
        ),
        (
            vec![one("impaired")],
            None,
            held.clone(),
            false,
            Until::LeaderRestores,
            ["restores it now", ""],
        ),
    ] {
        let record = json!({
            "version": 1, "instance": INSTANCE, "boot": boot, "interruptions": interruptions,
            "released": released
        });
        let mut annotations = vec![(RECORD, record.to_string())];
        annotations.extend(is_annotated.then(|| (KEEP_CORDONED, "true".to_owned())));
        let node = Node { boot_id: boot.map(str::to_owned), ..node("a", &annotations) };
        let facts = facts(vec![node], &[]);
        let all = report(&facts, None);
        let shown = match (all.drained.as_slice(), all.waiting.as_slice()) {
            ([_], []) => Some(Until::InstanceGoes),
            ([], [one]) => Some(one.until),
            _ => None,
        };
        let remark = report(&facts, Some(&"a".into())).nodes.remove(0).remarks.remove(0);
        assert_eq!(shown, Some(until), "{record}: {remark}");
        assert!(expected.iter().all(|words| remark.contains(words)), "{record}: {remark}");
        let is_named = remark.contains("carries sundown.dev/keep-cordoned");
        assert_eq!(is_named, expected.contains(&is_kept), "{record}: {remark}");
    }
}

#[test]
fn no_return_is_promised_if_the_sweep_is_off_or_nobody_shows_that_it_is_on() {
    let entry = |kind: &str, into_pool: bool| {
        json!({
            "kind": kind, "event": "e", "time": at(2900), "accepted": at(2901), "group": "web",
            "hook": "sundown", "warm_pool": into_pool
        })
    };
    let bare =
        |kind: &str| json!({ "kind": kind, "event": "e", "time": at(2900), "accepted": at(2901) });
    let if_swept = "takes a leader whose sweep is on (--sweep-interval); the Lease does not show";
    let by_hand = "by hand once its instance is back (`kubectl uncordon NODE;";
    for (interruption, on, off, restored_by) in [
        (
            entry("terminate-hook", true),
            Until::InstanceIsBack,
            Until::EventShowsReturn,
            "if an event shows that the group web has launched it again. Otherwise restore it",
        ),
        (
            entry("root-volume", false),
            Until::InstanceIsBack,
            Until::InstanceGoesOrBoots,
            "Sundown restores the node once it has booted from the new volume. Otherwise",
        ),
        (
            bare("spot-hibernate"),
            Until::InstanceIsBack,
            Until::InstanceGoesOrBoots,
            "Sundown restores the node once it has booted again. Otherwise restore it",
        ),
        (
            bare("impaired"),
            Until::InstanceIsHealthy,
            Until::PersonRestores,
            "does not look whether its sick instance is healthy: replace the instance, or",
        ),
    ] {
        let record = json!({
            "version": 1, "instance": INSTANCE, "interruptions": [interruption],
            "released": { "at": at(3000), "outcome": "empty" }
        });
        let status = |published: &str, renewed: i64| {
            let mut facts = facts(vec![node("a", &[(RECORD, record.to_string())])], &[]);
            let lease = facts.lease.as_mut().unwrap();
            (lease.service, lease.renewed) = (PublishedService::read(published), Some(at(renewed)));
            let remark = report(&facts, Some(&"a".into())).nodes.remove(0).remarks.remove(0);
            (report(&facts, None).waiting[0].until, remark)
        };
        let (until, remark) = status("--sweep-interval=1m", 3598);
        assert!(until == on && !remark.contains("sweep"), "{until:?} {remark}");
        let (until, remark) = status("--sweep-interval=0s", 3598);
        assert_eq!(until, off, "{remark}");
        for words in ["sweep is off (--sweep-interval 0s)", restored_by, by_hand] {
            assert!(remark.contains(words), "{words}: {remark}");
        }
        assert!(!remark.contains("InService"), "{remark}");
        // An older leader publishes nothing, and a leader that is gone says nothing of the next.
        for (published, renewed) in [("", 3598), ("--sweep-interval=0s", 3000)] {
            let (until, remark) = status(published, renewed);
            assert!(until == on && remark.contains(if_swept), "{until:?} {remark}");
        }
    }
}

#[test]
fn a_node_that_has_booted_since_its_drain_names_the_warm_pool_that_its_instance_must_have_left() {
    for (into_pool, is_annotated, expected) in [
        (true, false, "as running, and the instance has left the warm pool of web. Then Sundown"),
        (false, false, "EC2 reports the instance as running. Then Sundown restores it."),
        (false, true, "restores it. It carries sundown.dev/keep-cordoned"),
    ] {
        let interruption = json!({
            "kind": "terminate-hook", "event": "e", "time": at(2900), "accepted": at(2901),
            "group": "web", "hook": "sundown", "warm_pool": into_pool
        });
        let record = json!({
            "version": 1, "instance": INSTANCE, "boot": "before", "interruptions": [interruption],
            "released": { "at": at(3000), "outcome": "empty" }
        });
        let mut annotations = vec![(RECORD, record.to_string())];
        annotations.extend(is_annotated.then(|| (KEEP_CORDONED, "true".to_owned())));
        let node = Node { boot_id: Some("after".to_owned()), ..node("a", &annotations) };
        let remarks = report(&facts(vec![node], &[]), None).nodes.remove(0).remarks;
        assert!(remarks[0].contains(expected), "{expected}: {remarks:?}");
    }
}

#[test]
fn nobody_leads_if_the_lease_is_free_or_not_renewed_and_a_note_reports_unknown_settings() {
    let with = |change: &dyn Fn(&mut LeaseFacts)| {
        let mut facts = draining(&[pod("web")]);
        facts.lease.as_mut().into_iter().for_each(change);
        report(&facts, None)
    };
    assert_eq!(with(&|_| {}).leader.pod.as_deref(), Some("sundown-0"));
    assert_eq!(with(&|l| l.holder = None).leader.pod, None);
    assert_eq!(with(&|l| l.renewed = Some(at(3500))).leader.pod, None);
    assert!(
        with(&|l| l.is_paused = true).paused
            && with(&|l| l.is_paused = true).nodes[0].state == State::Paused
    );
    let unknown = with(&|l| l.settings = None);
    assert!(
        unknown.nodes[0].deadline.is_some() && unknown.notes[0].contains("default settings"),
        "{:?}",
        unknown.notes
    );
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
    assert_eq!(
        status.events.iter().map(|e| (e.reason.as_str(), e.message.as_str())).collect::<Vec<_>>(),
        [("PodsComeBack", "second")]
    );
    assert_eq!(
        status.hooks,
        [Hook {
            group: "web".to_owned(),
            name: "sundown".to_owned(),
            last_heartbeat: Some(at(3550))
        }]
    );
}

#[test]
fn a_node_is_found_by_name_by_instance_id_and_by_a_unique_first_label() {
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
        assert!(
            found(text).is_err_and(|error| error.contains(&format!("no node `{text}`"))),
            "{text}"
        );
    }
    assert!(found("ip-4").is_err_and(|error| {
        error.contains("any of these nodes: ip-4.a, ip-4.b; give the whole name")
    }));
}

#[test]
fn force_is_a_dash_without_a_pod_to_force_and_never_without_a_deadline() {
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
        assert!(
            force == "-" && detail.contains("force from no pod is left that could be forced"),
            "{force} {detail}"
        );
    }
    let (force, detail) = shown(&[leaving.clone(), pod("web")], "--force-after=never");
    assert!(force == "never" && detail.contains("no pod is deleted by force"), "{force} {detail}");
    assert!(!["-", "never"].contains(&shown(&[leaving, pod("web")], settings).0.as_str()));
    let mut unread = draining(&[]);
    unread.pods.clear();
    let page = text(&report(&unread, None), PLAIN);
    assert!(page.contains(" ?    ?        ? "), "{page}");
}

#[test]
fn scheduled_changes_are_listed_with_the_time_at_which_their_drain_begins() {
    let change = |arn: &str, starts: i64, closed: bool| {
        json!({
            "arn": arn, "code": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "event": arn,
            "time": at(0), "updated": at(0), "starts": at(starts), "closed": closed
        })
    };
    let annotation = |changes: Vec<serde_json::Value>| {
        json!({ "version": 1, "instance": INSTANCE, "changes": changes }).to_string()
    };
    let mut facts = draining(&[]);
    facts.nodes = [
        ("b", vec![change("1", 20_000, false)]),
        ("a", vec![change("2", 10_000, false), change("3", 5_000, true)]),
        ("c", vec![change("4", 4_000, false)]),
        ("d", vec![change("5", 3_000, false)]),
    ]
    .map(|(name, changes)| node(name, &[("sundown.dev/planned", annotation(changes))]))
    .into();
    let shown: Vec<_> = report(&facts, None)
        .planned
        .into_iter()
        .map(|change| (change.node.to_string(), change.starts, change.drains))
        .collect();
    let expected = [
        ("c".to_owned(), Some(at(4_000)), None),
        ("a".to_owned(), Some(at(10_000)), Some(at(6_400))),
        ("b".to_owned(), Some(at(20_000)), Some(at(16_400))),
    ];
    assert_eq!(shown, expected);
    let page = text(&report(&facts, None), PLAIN);
    assert!(page.contains("Planned: AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED of c: begins at"));
    assert!(page.contains("its drain has begun or begins now."), "{page}");
}

#[test]
fn a_node_without_pods_shows_the_volumes_that_its_drain_waits_for() {
    let text = "No pod is left. 1 volume (pv-1) is still attached.";
    let attached = |last| EventFacts {
        is_warning: false,
        ..event(Subject::Node("a".into()), "VolumesAttached", text, last)
    };
    let remarks = |pods: &[Pod], last| {
        let mut facts = draining(pods);
        facts.events = vec![attached(last)];
        let node = report(&facts, None).nodes.remove(0);
        assert!(node.events.is_empty(), "it is not listed twice: {:?}", node.events);
        node.remarks
    };
    assert_eq!(remarks(&[], 3500), [text]);
    assert!(remarks(&[], 3000).is_empty(), "an Event of an earlier drain");
    assert!(remarks(&[pod("web")], 3500).is_empty(), "a pod has come since");
}

#[test]
fn volumes_are_shown_as_attached_until_the_event_about_the_end_of_the_wait() {
    let text = "No pod is left. 1 volume (pv-1) is still attached.";
    let of = |reason, is_warning, last| EventFacts {
        is_warning,
        ..event(Subject::Node("a".into()), reason, text, last)
    };
    let attached = |last| of("VolumesAttached", false, last);
    let detached = |last| of("VolumesDetached", false, last);
    for (case, events, is_shown, listed) in [
        ("detached", vec![attached(3500), detached(3510)], false, "VolumesDetached"),
        ("in the same second", vec![detached(3500), attached(3500)], false, "VolumesDetached"),
        ("attached again", vec![attached(3520), detached(3510)], true, "VolumesDetached"),
        (
            "attached at the end",
            vec![attached(3500), of("VolumesAttached", true, 3510)],
            false,
            "VolumesAttached",
        ),
        (
            "not known any longer",
            vec![attached(3500), of("VolumesUnknown", true, 3510)],
            false,
            "VolumesUnknown",
        ),
    ] {
        let mut facts = draining(&[]);
        facts.events = events;
        let node = report(&facts, None).nodes.remove(0);
        let remarks = if is_shown { vec![text] } else { Vec::new() };
        assert_eq!(node.remarks, remarks, "{case}");
        let reasons: Vec<&str> = node.events.iter().map(|event| event.reason.as_str()).collect();
        assert_eq!(reasons, [listed], "{case}");
    }
}

#[test]
fn the_warning_that_volumes_were_still_attached_is_listed() {
    let text = "1 volume (pv-1) was still attached at the end of the drain.";
    let warning = EventFacts {
        is_warning: true,
        ..event(Subject::Node("a".into()), "VolumesAttached", text, 3500)
    };
    let mut facts = draining(&[]);
    facts.events = vec![warning];
    let node = report(&facts, None).nodes.remove(0);
    assert_eq!(node.events.iter().map(|e| e.message.as_str()).collect::<Vec<_>>(), [text]);
    assert!(node.remarks.is_empty(), "{:?}", node.remarks);
}

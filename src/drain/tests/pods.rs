//! Which pods count, what blocks them, and when a drain ends.

use super::*;

fn asked(effects: &[Effect]) -> Vec<String> {
    effects
        .iter()
        .filter_map(|e| {
            if let Effect::AskDaemonSet { name, .. } = e { Some(name.clone()) } else { None }
        })
        .collect()
}

fn daemon_set(name: &str, state: DaemonSetState) -> Input {
    Input::DaemonSet { namespace: "default".into(), name: name.into(), state }
}

#[test]
fn c52_s15_s17_finished_mirror_and_tolerating_pods_are_left_alone_and_do_not_count() {
    let mut d = drain(limits(110));
    let effects = d.step(
        at(0),
        Input::Listed(vec![
            Pod { phase: PodPhase::Succeeded, ..pod("done") },
            Pod { phase: PodPhase::Failed, ..daemon("failed", "ds") },
            Pod { mirror: true, ..pod("mirror") },
            Pod { tolerates_us: true, ..pod("stays") },
        ]),
    );
    assert_eq!((requests(&effects), asked(&effects)), (vec![], vec![]));
    assert_eq!(d.status(at(0)).counts, Counts { untouched: 4, ..Counts::default() });
    assert_eq!(ended(&d.step(at(5), Input::Tick)), Some(&Outcome::Empty));
}

#[test]
fn s15_naked_and_pending_pods_are_evicted() {
    let mut d = drain(limits(110));
    let effects = d.step(
        at(0),
        Input::Listed(vec![
            Pod { owner: None, ..pod("naked") },
            Pod { phase: PodPhase::Pending, ready: false, ..pod("new") },
        ]),
    );
    assert_eq!(requests(&effects), [("naked".into(), false), ("new".into(), false)]);
}

#[test]
fn c52_s16_a_daemon_set_is_asked_for_once_and_its_pods_wait_for_the_answer() {
    let mut d = drain(limits(110));
    let effects = d.step(
        at(0),
        Input::Listed(vec![daemon("a", "ds"), daemon("b", "ds"), daemon("c", "other")]),
    );
    assert_eq!((requests(&effects), asked(&effects)), (vec![], vec!["ds".into(), "other".into()]));
    assert_eq!(ended(&d.step(at(10), Input::Tick)), None, "the DaemonSets are not known yet");
    assert_eq!(d.status(at(10)).counts, Counts { left: 3, unknown: 3, ..Counts::default() });
    let effects = d.step(at(10), daemon_set("ds", DaemonSetState::Exists));
    assert_eq!((requests(&effects), ended(&effects)), (vec![], None));
    assert_eq!(
        ended(&d.step(at(10), daemon_set("other", DaemonSetState::Unreadable))),
        Some(&Outcome::Empty)
    );
}

#[test]
fn s16_an_orphan_of_a_daemon_set_is_drained_with_a_warning() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![daemon("a", "ds")]));
    let effects = d.step(at(1), daemon_set("ds", DaemonSetState::Gone));
    assert_eq!(requests(&effects), [("a".into(), false)]);
    assert!(matches!(notes(&effects)[..], [Note::OrphanedDaemonSet { .. }]));
    // A change of the pod causes no second report.
    let effects = d.step(at(2), Input::Changed(Pod { ready: false, ..daemon("a", "ds") }));
    assert!(notes(&effects).is_empty());
}

#[test]
fn s16_a_daemon_set_that_was_gone_is_asked_for_again_with_each_new_pod() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![daemon("a", "ds")]));
    d.step(at(1), daemon_set("ds", DaemonSetState::Gone));
    // The DaemonSet was deleted without its pods and created again: the pods that it creates from
    // now on must stay.
    let effects = d.step(at(2), Input::Changed(daemon("b", "ds")));
    assert_eq!((requests(&effects), asked(&effects)), (vec![], vec!["ds".into()]));
    assert_eq!(
        asked(&d.step(at(2), Input::Changed(daemon("c", "ds")))),
        [] as [&str; 0],
        "the look-up has no answer yet"
    );
    assert_eq!(requests(&d.step(at(3), daemon_set("ds", DaemonSetState::Exists))), []);
    let effects = d.step(at(4), Input::Changed(daemon("d", "ds")));
    assert_eq!(
        (requests(&effects), asked(&effects)),
        (vec![], vec![]),
        "it exists, which is not looked up again"
    );
}

#[test]
fn s16_a_foreign_kind_called_daemon_set_is_an_ordinary_controller() {
    let owner = Some(Box::new(Owner {
        api_version: "apps.kruise.io/v1alpha1".into(),
        kind: "DaemonSet".into(),
        name: "x".into(),
    }));
    let effects = drain(limits(110)).step(at(0), Input::Listed(vec![Pod { owner, ..pod("a") }]));
    assert_eq!((requests(&effects), asked(&effects)), (vec![("a".into(), false)], vec![]));
}

#[test]
fn a_terminating_pod_is_not_evicted_again() {
    let mut d = drain(limits(110));
    let effects = d.step(at(0), Input::Listed(vec![Pod { deletion: Some(at(30)), ..pod("a") }]));
    assert_eq!(requests(&effects), []);
    assert_eq!(d.status(at(0)).counts, Counts { left: 1, leaving: 1, ..Counts::default() });
    assert!(d.is_last_pod_terminating());
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: refused_by_budget() });
    d.step(at(2), Input::Gone(uid("a")));
    let again = Pod { uid: uid("a2"), ..pod("a") };
    assert_eq!(requests(&d.step(at(3), Input::Changed(again))), [("a2".into(), false)]);
    assert_eq!(
        d.order(&uid("a2"), at(100), true),
        Some(Order::Evict { pod: key("a"), uid: uid("a2"), grace: Some(10) }),
        "no eviction of this pod was refused yet"
    );
}

#[test]
fn c54_s21_the_own_pod_goes_last() {
    let start = Start {
        node: "n1".into(),
        cordoned_at: at(0),
        limits: limits(110),
        own_pod: Some(key("self")),
    };
    let mut d = Drain::new(start, Settings::default());
    let effects = d.step(at(0), Input::Listed(vec![pod("self"), pod("z"), daemon("d", "ds")]));
    assert_eq!(requests(&effects), [("z".into(), false)]);
    assert_eq!(
        requests(&d.step(at(1), Input::Gone(uid("z")))),
        [],
        "a DaemonSet's pod is not known yet"
    );
    let effects = d.step(at(2), daemon_set("ds", DaemonSetState::Exists));
    assert_eq!(requests(&effects), [("self".into(), false)]);
    let order: Vec<_> = effects
        .iter()
        .filter(|e| **e == Effect::OnlyOwnPodLeft || !requests(std::slice::from_ref(e)).is_empty())
        .collect();
    assert_eq!(order[0], &Effect::OnlyOwnPodLeft, "leadership is handed over first");
    let effects = d.step(at(3), Input::Changed(pod("late")));
    assert!(effects.contains(&Effect::Dispatch(DispatchInput::Cancel { uid: uid("self") })));
}

#[test]
fn s19_an_empty_node_is_drained_five_seconds_after_its_cordon() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![]));
    assert_eq!(d.next_wake(), Some(at(5)));
    assert_eq!(ended(&d.step(at(3), Input::Tick)), None);
    assert_eq!(
        requests(&d.step(at(4), Input::Changed(pod("late")))),
        [("late".into(), false)],
        "a pod that was bound just before the cordon"
    );
    assert_eq!(ended(&d.step(at(6), Input::Tick)), None);
    assert_eq!(ended(&d.step(at(7), Input::Gone(uid("late")))), Some(&Outcome::Empty));
    assert!(d.step(at(8), Input::Tick).is_empty(), "it ends once");
}

#[test]
fn the_minimum_time_of_a_drain_does_not_exceed_its_end() {
    for (name, force_at, end_at, empty_from) in [
        ("the end is sooner than the minimum", 2, 2, 2),
        ("pods are to be gone sooner, and the drain may go on", 2, 10, 5),
        ("both are sooner", 2, 4, 4),
        ("both are later", 60, 65, 5),
    ] {
        let mut d = drain(Limits { end_at: Some(at(end_at)), ..limits(force_at) });
        d.step(at(0), Input::Listed(vec![]));
        assert_eq!(d.next_wake(), Some(at(empty_from)), "{name}");
        assert_eq!(ended(&d.step(at(empty_from - 1), Input::Tick)), None, "{name}");
        assert_eq!(ended(&d.step(at(empty_from), Input::Tick)), Some(&Outcome::Empty), "{name}");
    }
}

#[test]
fn a_drain_whose_pods_are_not_listed_yet_is_not_empty() {
    let mut d = drain(limits(110));
    assert_eq!(ended(&d.step(at(60), Input::Tick)), None);
    assert_eq!(
        ended(&d.step(at(110), Input::Tick)),
        Some(&Outcome::DeadlineReached { left: vec![] })
    );
}

#[test]
fn pods_that_are_not_in_a_list_are_gone() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]));
    let effects = d.step(at(6), Input::Listed(vec![pod("b")]));
    assert!(effects.contains(&Effect::Dispatch(DispatchInput::Cancel { uid: uid("a") })));
    assert_eq!(d.status(at(6)).counts.left, 1);
}

#[test]
fn s06_c56_a_pod_that_the_server_does_not_find_no_longer_counts() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(
        at(1),
        Input::Answer {
            order: evict("a", Some(30)),
            answer: answer(404, "NotFound", "pods \"a\" not found"),
        },
    );
    assert_eq!(d.status(at(1)).counts.left, 0);
    assert_eq!(requests(&d.step(at(2), Input::Changed(pod("a")))), [], "the watch is behind");
    // The watch has missed the end of the pod. Only a LIST shows what else it has missed. The drain
    // requests one LIST.
    assert_eq!(d.step(at(5), Input::Tick), [Effect::Relist]);
    assert_eq!(d.step(at(6), Input::Tick), []);
    assert_eq!(d.next_wake(), Some(at(110)), "not earlier, because the drain waits for the LIST");
    assert_eq!(
        requests(&d.step(at(7), Input::Listed(vec![pod("late")]))),
        [(uid("late").to_string(), false)]
    );
    assert_eq!(ended(&d.step(at(8), Input::Gone(uid("late")))), Some(&Outcome::Empty));
}

fn not_found(order: Order) -> Input {
    let message = format!("pods \"{}\" not found", order.pod().name);
    Input::Answer { order, answer: answer(404, "NotFound", &message) }
}

fn relists(effects: &[Effect]) -> bool {
    effects.contains(&Effect::Relist)
}

#[test]
fn a_pod_that_is_listed_after_a_404_counts_and_is_deleted_at_its_time() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(1), not_found(evict("a", Some(30))));
    assert!(relists(&d.step(at(6), Input::Tick)));
    let effects = d.step(at(6), Input::Listed(vec![pod("a")]));
    assert_eq!((requests(&effects), relists(&effects)), (vec![("a".into(), false)], false));
    assert_eq!(
        (d.status(at(6)).counts.blocked, d.status(at(6)).blocked[0].reason),
        (1, BlockReason::Error)
    );
    d.step(at(6), Input::Watch(WatchState::Open));
    // From now on a 404 for this pod is a failure like any other: no LIST follows, and the pod
    // still counts.
    let effects = d.step(at(7), not_found(evict("a", Some(30))));
    assert_eq!((relists(&effects), d.status(at(7)).counts.left), (false, 1));
    assert!(!relists(&d.step(at(60), Input::Tick)));
    assert_eq!(requests(&d.step(at(80), Input::Tick)), [("a".into(), true)]);
    assert_eq!(d.order(&uid("a"), at(80), true), Some(delete("a", 30)));
}

#[test]
fn a_404_that_the_watch_does_not_confirm_leads_to_a_list() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a"), pod("b"), pod("c")]));
    d.step(at(1), not_found(evict("a", Some(30))));
    d.step(at(1), not_found(evict("b", Some(30))));
    d.step(at(2), Input::Gone(uid("b")));
    assert_eq!(d.next_wake(), Some(at(6)));
    assert!(relists(&d.step(at(6), Input::Tick)));
    d.step(at(6), Input::Listed(vec![pod("c")]));
    // The next LIST is requested five seconds after the last at the earliest.
    d.step(at(7), not_found(evict("c", Some(30))));
    assert!(!relists(&d.step(at(10), Input::Tick)));
    assert_eq!(d.next_wake(), Some(at(11)));
    assert!(relists(&d.step(at(11), Input::Tick)));
    assert_eq!(ended(&d.step(at(11), Input::Listed(vec![]))), Some(&Outcome::Empty));
}

#[test]
fn s19_a_watch_that_is_not_open_proves_no_node_empty_but_a_later_list_does() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![]));
    d.step(at(0), Input::Watch(WatchState::Blind));
    assert_eq!(d.next_wake(), Some(at(5)));
    let effects = d.step(at(5), Input::Tick);
    assert_eq!((relists(&effects), ended(&effects)), (true, None));
    assert_eq!(
        requests(&d.step(at(6), Input::Listed(vec![pod("late")]))),
        [("late".into(), false)]
    );
    // The watch is still not open, so the pods are listed now and then.
    assert_eq!(d.next_wake(), Some(at(16)));
    assert!(relists(&d.step(at(16), Input::Tick)));
    assert_eq!(ended(&d.step(at(17), Input::Listed(vec![]))), Some(&Outcome::Empty));
}

#[test]
fn a_watch_that_was_opened_again_may_take_a_moment_to_catch_up() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![]));
    d.step(at(1), Input::Watch(WatchState::Blind));
    d.step(at_ms(4900), Input::Watch(WatchState::Open));
    assert_eq!(ended(&d.step(at(5), Input::Tick)), None);
    assert_eq!(d.next_wake(), Some(at_ms(5900)));
    assert_eq!(
        requests(&d.step(at_ms(5100), Input::Changed(pod("late")))),
        [("late".into(), false)],
        "bound meanwhile"
    );
    assert_eq!(ended(&d.step(at_ms(5200), Input::Gone(uid("late")))), None);
    assert_eq!(ended(&d.step(at_ms(5900), Input::Tick)), Some(&Outcome::Empty));
}

#[test]
fn a_watch_that_was_opened_again_may_show_the_end_of_a_pod_before_its_successor() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(1), Input::Watch(WatchState::Blind));
    d.step(at(11), Input::Listed(vec![pod("a")]));
    d.step(at(12), Input::Watch(WatchState::Open));
    assert_eq!(ended(&d.step(at(12), Input::Gone(uid("a")))), None);
    let next = d.step(at(12), Input::Changed(pod("b")));
    assert_eq!(requests(&next), [("b".into(), false)]);
    assert_eq!(ended(&d.step(at(13), Input::Tick)), None);
    assert_eq!(ended(&d.step(at(14), Input::Gone(uid("b")))), Some(&Outcome::Empty));
}

#[test]
fn nothing_counts_as_intercepted_or_stuck_while_the_watch_is_not_open() {
    let mut d = drain(limits(600));
    d.step(at(0), Input::Listed(vec![pod("a"), Pod { deletion: Some(at(10)), ..pod("b") }]));
    d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: ok() });
    d.step(at(2), Input::Watch(WatchState::Blind));
    for secs in [8, 32, 71, 80] {
        let effects = d.step(at(secs), Input::Tick);
        assert_eq!((requests(&effects), d.status(at(secs)).blocked), (vec![], vec![]), "{secs}");
    }
    d.step(at(90), Input::Watch(WatchState::Open));
    assert_eq!(d.status(at(90)).blocked, [], "the watch has not caught up yet");
    let deleted = Pod { deletion: Some(at(120)), ..pod("a") };
    d.step(at(90), Input::Changed(deleted));
    d.step(at(91), Input::Tick);
    let blocked: Vec<_> =
        d.status(at(91)).blocked.into_iter().map(|b| (b.pod.name, b.reason)).collect();
    assert_eq!(blocked, [("b".to_owned(), BlockReason::TerminatingStuck)]);
}

#[test]
fn a_pod_on_its_way_out_counts_until_its_object_is_gone() {
    let mut d = drain(limits(110));
    d.step(
        at(0),
        Input::Listed(vec![pod("a"), Pod { phase: PodPhase::Succeeded, ..pod("finished") }]),
    );
    let going = |name: &str| Pod { deletion: Some(at(130)), ..pod(name) };
    d.step(at(1), Input::Changed(going("a")));
    d.step(at(10), Input::Changed(Pod { phase: PodPhase::Succeeded, ..going("a") }));
    d.step(at(10), Input::Changed(Pod { phase: PodPhase::Succeeded, ..going("finished") }));
    assert_eq!(
        d.status(at(10)).counts,
        Counts { left: 1, leaving: 1, untouched: 1, ..Counts::default() },
        "its volumes are still mounted"
    );
    assert_eq!(
        d.order(&uid("a"), at(100), true),
        None,
        "a DELETE would take its object away at once"
    );
    assert_eq!(ended(&d.step(at(12), Input::Gone(uid("a")))), Some(&Outcome::Empty));
}

#[test]
fn s18_a_finalizer_on_a_finished_pod_is_reported_and_waited_for_no_longer_than_a_minute() {
    let mut d = drain(limits(600));
    let held = Pod { deletion: Some(at(10)), finalizers: true, ..pod("a") };
    d.step(at(0), Input::Listed(vec![held.clone()]));
    d.step(at(5), Input::Changed(Pod { phase: PodPhase::Succeeded, ..held.clone() }));
    assert_eq!(ended(&d.step(at(69), Input::Tick)), None);
    let effects = d.step(at(70), Input::Tick);
    assert!(matches!(notes(&effects)[..], [Note::Blocked { reason: BlockReason::Finalizer, .. }]));
    assert_eq!(ended(&effects), Some(&Outcome::Empty));
}

#[test]
fn a_finished_pod_whose_object_is_held_is_not_left_at_the_deadline() {
    let held = Pod { deletion: Some(at(10)), finalizers: true, ..pod("a") };
    let finished = Pod { phase: PodPhase::Succeeded, ..held.clone() };
    for (name, pods, left) in [
        ("it runs", vec![held], vec![key("a")]),
        ("it has finished", vec![finished.clone()], vec![]),
        ("another one runs", vec![finished, pod("b")], vec![key("b")]),
    ] {
        let mut d = drain(limits(60));
        d.step(at(0), Input::Listed(pods));
        let effects = d.step(at(60), Input::Tick);
        let outcome = ended(&effects).unwrap();
        assert_eq!(*outcome, Outcome::DeadlineReached { left: left.clone() }, "{name}");
        assert_eq!(outcome.has_failed(true), !left.is_empty(), "{name}");
    }
}

#[test]
fn a_pod_whose_name_is_used_by_another_pod_is_gone() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a"), pod("b")]));
    let effects = d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: other_uid() });
    assert!(effects.contains(&Effect::Dispatch(DispatchInput::Cancel { uid: uid("a") })));
    assert_eq!(d.status(at(1)).counts, Counts { left: 1, waiting: 1, ..Counts::default() });
}

#[test]
fn s12_an_accepted_eviction_may_be_intercepted_and_is_then_repeated() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: ok() });
    assert_eq!(d.order(&uid("a"), at(2), true), None);
    d.step(at(6), Input::Tick);
    assert_eq!(d.status(at(6)).blocked[0].reason, BlockReason::Intercepted);
    assert_eq!(requests(&d.step(at(31), Input::Tick)), [("a".into(), false)]);
    d.step(at(32), Input::Answer { order: evict("a", Some(30)), answer: ok() });
    assert_eq!(d.status(at(32)).blocked.len(), 1, "it is still blocked");
    assert_eq!(
        requests(&d.step(at(80), Input::Tick)),
        [("a".into(), true)],
        "it is deleted when its force time has come"
    );
    assert_eq!(ended(&d.step(at(81), Input::Tick)), None);
}

#[test]
fn s18_a_pod_stuck_in_termination_is_reported() {
    for (finalizers, reason) in
        [(true, BlockReason::Finalizer), (false, BlockReason::TerminatingStuck)]
    {
        let mut d = drain(limits(600));
        d.step(at(0), Input::Listed(vec![Pod { deletion: Some(at(10)), finalizers, ..pod("a") }]));
        assert!(d.step(at(69), Input::Tick).is_empty());
        let effects = d.step(at(70), Input::Tick);
        assert!(matches!(
            notes(&effects)[..],
            [Note::Blocked { reason: r, since, .. }] if *r == reason && *since == at(10)
        ));
    }
}

#[test]
fn a_blocked_pod_is_reported_once_after_thirty_seconds() {
    let mut d = drain(limits(600));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    let refuse = |answer| Input::Answer { order: evict("a", Some(30)), answer };
    d.step(at(1), refuse(refused_by_budget()));
    assert!(d.status(at(1)).blocked[0].message.ends_with(NEEDS), "the message has the cause");
    assert!(notes(&d.step(at(30), refuse(answer(500, "", "oops")))).is_empty());
    let effects = d.step(at(31), Input::Tick);
    assert!(matches!(
        notes(&effects)[..],
        [Note::Blocked { reason: BlockReason::Error, since, .. }] if *since == at(1)
    ));
    assert!(notes(&d.step(at(100), refuse(refused_by_budget()))).is_empty());
}

#[test]
fn a_malformed_request_is_reported_at_once_and_the_pod_deleted_in_time() {
    let mut d = drain(limits(600));
    d.step(at(0), Input::Listed(vec![pod("a")]));
    let bad =
        || Input::Answer { order: evict("a", Some(30)), answer: answer(422, "Invalid", "no") };
    assert!(matches!(notes(&d.step(at(1), bad()))[..], [Note::Malformed { .. }]));
    assert!(notes(&d.step(at(2), bad())).is_empty());
    assert_eq!(requests(&d.step(at(570), Input::Tick)), [("a".into(), true)]);
}

#[test]
fn a_pause_stops_evictions_force_and_the_deadline_but_not_the_end_of_an_empty_node() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![pod("a"), Pod { deletion: Some(at(900)), ..pod("b") }]));
    d.step(at(1), Input::Answer { order: evict("a", Some(30)), answer: refused_by_budget() });
    d.step(at(2), Input::Paused);
    assert_eq!(
        (d.order(&uid("a"), at(100), true), d.order(&uid("b"), at(100), true)),
        (None, None)
    );
    assert_eq!(ended(&d.step(at(120), Input::Tick)), None);
    let status = d.status(at(120));
    assert_eq!(
        (status.phase, status.ends_at),
        (Phase::Paused, Some(at(110))),
        "the deadline is still shown"
    );
    // The limits are computed anew: the deadline that has passed no longer applies.
    let effects = d.step(
        at(130),
        Input::Resumed(Limits { end_at: Some(at(4000)), ..Limits::without_deadline(at(0), true) }),
    );
    assert_eq!((requests(&effects), ended(&effects)), (vec![("a".into(), false)], None));
    assert_eq!(d.order(&uid("a"), at(130), true), Some(evict("a", None)));
    d.step(at(131), Input::Paused);
    d.step(at(132), Input::Gone(uid("a")));
    assert_eq!(ended(&d.step(at(133), Input::Gone(uid("b")))), Some(&Outcome::Empty));
}

#[test]
fn a_release_ends_a_drain_at_once() {
    let mut d = drain(limits(600));
    d.step(at(0), Input::Listed(vec![pod("b"), pod("a")]));
    d.step(at(1), Input::Paused);
    assert_eq!(
        ended(&d.step(at(1), Input::Release)),
        Some(&Outcome::Released { left: vec![key("a"), key("b")] })
    );
}

#[test]
fn a_drain_without_limits_neither_forces_nor_ends_by_time() {
    let mut d = drain(Limits::without_deadline(at(0), true));
    d.step(at(0), Input::Listed(vec![pod("a"), Pod { deletion: Some(at(90_000)), ..pod("b") }]));
    d.step(at(1), Input::Answer { order: evict("a", None), answer: refused_by_budget() });
    assert_eq!(ended(&d.step(at(86_400), Input::Tick)), None);
    assert_eq!(
        (d.order(&uid("a"), at(86_400), true), d.order(&uid("b"), at(86_400), true)),
        (Some(evict("a", None)), None)
    );
    // The interruption is verified: the new deadline applies.
    let effects = d.step(at(86_400), Input::Limits(Limits { accepted: at(0), ..limits(86_420) }));
    assert_eq!(requests(&effects), [("a".into(), true), ("b".into(), true)]);
}

#[test]
fn a_drain_without_a_deadline_times_out() {
    let mut d = drain(Limits { end_at: Some(at(3600)), ..Limits::without_deadline(at(0), false) });
    d.step(at(0), Input::Listed(vec![pod("a")]));
    assert_eq!(
        ended(&d.step(at(3600), Input::Tick)),
        Some(&Outcome::TimedOut { left: vec![key("a")] })
    );
}

#[test]
fn a_node_knows_when_its_last_pod_terminates() {
    let mut d = drain(limits(110));
    assert!(!d.is_last_pod_terminating(), "nothing is known yet");
    d.step(
        at(0),
        Input::Listed(vec![
            pod("a"),
            Pod { deletion: Some(at(30)), ..pod("b") },
            Pod { mirror: true, ..pod("m") },
        ]),
    );
    assert!(!d.is_last_pod_terminating());
    d.step(at(1), Input::Changed(Pod { deletion: Some(at(31)), ..pod("a") }));
    assert!(d.is_last_pod_terminating());
}

#[test]
fn a_drain_and_the_dispatcher_keep_the_same_pod() {
    let kept = |effects: &[Effect]| {
        let pod = |e: &Effect| {
            if let Effect::Dispatch(DispatchInput::Request { pod, .. }) = e {
                Some(pod.clone())
            } else {
                None
            }
        };
        effects.iter().find_map(pod)
    };
    let mut d = drain(limits(110));
    let first = kept(&d.step(at(0), Input::Listed(vec![pod("a")]))).unwrap();
    assert!(d.step(at(1), Input::Changed(pod("a"))).is_empty(), "nothing changed");
    assert_eq!(Arc::strong_count(&first), 2, "the drain keeps it");
    let second =
        kept(&d.step(at(2), Input::Changed(Pod { finalizers: true, ..pod("a") }))).unwrap();
    assert!(second.finalizers);
    assert_eq!(Arc::strong_count(&first), 1);
}

#[test]
fn the_daemon_set_that_adopts_a_pod_is_looked_up() {
    let mut d = drain(limits(110));
    d.step(at(0), Input::Listed(vec![Pod { owner: None, ..pod("a") }]));
    let effects = d.step(at(1), Input::Changed(daemon("a", "ds")));
    assert_eq!(asked(&effects), ["ds"]);
    assert!(effects.contains(&Effect::Dispatch(DispatchInput::Cancel { uid: uid("a") })));
}

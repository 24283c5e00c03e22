//! What follows for a node after its drain has begun.

use super::*;

const NOBODY: &BTreeMap<InstanceId, Moment> = &BTreeMap::new();
const REPLACE: Rules<'_> =
    Rules { set_unhealthy_after: Some(AFTER), max_an_hour: 3, reported_unhealthy: NOBODY };

fn annotated(scanned: ScannedNode, key: &str) -> ScannedNode {
    with(scanned, |node| node.annotations.insert(key, "true"))
}

#[test]
fn what_follows_for_a_node_that_was_taken_on() {
    use ImpairedStatus::{Drained, Draining, Free, KeptCordoned, OtherInterruption, PodsLeft};
    let mut history = NodeHistory::default();
    for second in [NOW - 300, NOW] {
        history.note(at(second), &[ready(1)], Some(NOTHING_FAILS));
    }
    let well = |status| ScannedNode { status, ..ready(1) };
    let sick = |status| accepted(2, "a", 1100, status);
    let soon_well = |status| ScannedNode { status, ..ready(3) };
    let unmanaged = |scanned| ScannedNode { is_managed: false, ..scanned };
    let kept = Some(Step::Wait(WaitReason::KeptByPerson));
    let replace = Some(Step::SetUnhealthy);
    let fault = Some(WaitReason::FaultElsewhere);
    for (name, node, blocked, expected) in [
        ("sick, being drained", sick(Draining), None, None),
        ("sick, drained", sick(Drained), None, replace),
        ("sick, drained, something blocks all", sick(Drained), fault, fault.map(Step::Wait)),
        ("sick, pods left", sick(PodsLeft), None, Some(Step::Wait(WaitReason::PodsLeft))),
        ("sick, kept", annotated(sick(Drained), KEEP_CORDONED), None, kept),
        ("sick, paused", annotated(sick(Drained), PAUSE), None, kept),
        ("sick, ignored", unmanaged(annotated(sick(Drained), IGNORE)), None, kept),
        ("sick, released and kept", sick(KeptCordoned), None, kept),
        ("healthy, being drained", well(Draining), None, Some(Step::Restore)),
        ("healthy, drained", well(Drained), fault, Some(Step::Restore)),
        ("healthy, pods left", well(PodsLeft), None, Some(Step::Restore)),
        (
            "healthy, being drained, kept: only the restore is held",
            annotated(well(Draining), KEEP_CORDONED),
            None,
            Some(Step::Restore),
        ),
        ("healthy, released and kept", well(KeptCordoned), None, None),
        ("just healthy, drained", soon_well(Drained), None, None),
        ("healthy, another interruption holds it", well(OtherInterruption), None, None),
        ("sick, another interruption holds it", sick(OtherInterruption), None, None),
        ("sick, restored", sick(Free), None, None),
        ("sick, not managed", unmanaged(sick(Drained)), None, None),
    ] {
        let nodes = [node];
        let found = due_steps(&scene(&nodes), &history, &REPLACE, blocked);
        assert_eq!(found.first().map(|(_, step)| *step), expected, "{name}");
    }
    let (nodes, no_then) = ([sick(Drained)], Rules { set_unhealthy_after: None, ..REPLACE });
    assert!(due_steps(&scene(&nodes), &history, &no_then, None).is_empty(), "without --then");
    let nodes = [well(Drained)];
    let unknown = Scene { failing: None, ..scene(&nodes) };
    let found = due_steps(&unknown, &history, &no_then, None);
    let unknown = Some(Step::Wait(WaitReason::StatusesUnknown));
    assert_eq!(found.first().map(|(_, step)| *step), unknown, "EC2 does not answer");
}

#[test]
fn one_bad_round_is_not_enough_to_replace_an_instance() {
    let drained = |since| {
        let drained = accepted(1, "a", 5000, ImpairedStatus::Drained);
        with(drained, |node| node.ready_since = Some(at(since)))
    };
    for (name, since, expected) in [
        ("sick since before it was taken on", 4000, Some(Step::SetUnhealthy)),
        ("since then", 5000, Some(Step::SetUnhealthy)),
        ("it was Ready in between", 5001, Some(Step::SetUnhealthy)),
        ("for --impaired-after", NOW - 600, Some(Step::SetUnhealthy)),
        ("a second less", NOW - 599, None),
        ("since just now", NOW, None),
    ] {
        let nodes = [drained(since)];
        let found = due_steps(&scene(&nodes), &NodeHistory::default(), &REPLACE, None);
        assert_eq!(found.first().map(|(_, step)| *step), expected, "{name}");
    }
}

#[test]
fn an_instance_that_is_not_replaced_within_an_hour_is_reported() {
    let nodes = [accepted(1, "a", 100, ImpairedStatus::Drained)];
    for (told_at, expected) in
        [(NOW - 3599, None), (NOW - 3600, Some(Step::Wait(WaitReason::ReplacementLate)))]
    {
        let reported_unhealthy = BTreeMap::from([(instance(1), at(told_at))]);
        let rules = Rules { reported_unhealthy: &reported_unhealthy, ..REPLACE };
        let found = due_steps(&scene(&nodes), &NodeHistory::default(), &rules, None);
        assert_eq!(found.first().map(|(_, step)| *step), expected);
    }
    // The node is healthy again, and Auto Scaling may still count the instance as unhealthy.
    let mut history = NodeHistory::default();
    for second in [NOW - 300, NOW] {
        history.note(at(second), &[ready(1)], Some(NOTHING_FAILS));
    }
    let reported_unhealthy = BTreeMap::from([(instance(1), at(NOW - 3600))]);
    let rules = Rules { reported_unhealthy: &reported_unhealthy, ..REPLACE };
    let nodes = [ScannedNode { status: ImpairedStatus::Drained, ..ready(1) }];
    let found = due_steps(&scene(&nodes), &history, &rules, None);
    let late = Some(Step::Wait(WaitReason::ReplacementLate));
    assert_eq!(found.first().map(|(_, step)| *step), late);
    let reported_unhealthy = BTreeMap::from([(instance(1), at(NOW - 3599))]);
    let rules = Rules { reported_unhealthy: &reported_unhealthy, ..REPLACE };
    let found = due_steps(&scene(&nodes), &history, &rules, None);
    assert_eq!(found.first().map(|(_, step)| *step), Some(Step::Restore));
}

#[test]
fn right_before_its_instance_is_reported_a_node_is_judged_once_more() {
    use ImpairedStatus::{Drained, Draining, Free, OtherInterruption};
    let drained = |status| accepted(1, "a", 1100, status);
    let is_sick = |n| not_ready(n, NOW);
    let judge = |scene: &Scene<'_>| {
        let reported = LastHour::default();
        confirm_set_unhealthy(scene, "uid-1", &NodeHistory::default(), &REPLACE, &reported)
    };
    for (name, nodes, expected) in [
        ("as before", among(10, vec![drained(Drained)]), Ok(())),
        ("another Node has its name", among(10, vec![]), Err(None)),
        ("it is restored", among(10, vec![drained(Free)]), Err(None)),
        ("its hook came", among(10, vec![drained(OtherInterruption)]), Err(None)),
        ("it is taken on again", among(10, vec![drained(Draining)]), Err(None)),
        (
            "it is not managed",
            among(10, vec![ScannedNode { is_managed: false, ..drained(Drained) }]),
            Err(None),
        ),
        (
            "a person has paused it",
            among(10, vec![annotated(drained(Drained), PAUSE)]),
            Err(Some(WaitReason::KeptByPerson)),
        ),
        (
            "it is Ready again",
            among(10, vec![ScannedNode { status: Drained, ..ready(1) }]),
            Err(None),
        ),
        (
            "its instance serves under another Node",
            among(10, vec![drained(Drained), with(ready(2), |n| n.instance = Some(instance(1)))]),
            Err(Some(WaitReason::SeveralNodes)),
        ),
        (
            "many are sick by now",
            among(10, vec![drained(Drained), is_sick(2), is_sick(3)]),
            Err(Some(WaitReason::FaultElsewhere)),
        ),
    ] {
        assert_eq!(judge(&scene(&nodes)), expected, "{name}");
    }
    let nodes = among(10, vec![drained(Drained)]);
    let outage = Scene { watch_failed_at: Some(at(NOW - 1)), ..scene(&nodes) };
    assert_eq!(judge(&outage), Err(Some(WaitReason::ApiServerOutage)));
    let paused = Scene { is_paused: true, ..scene(&nodes) };
    assert_eq!(judge(&paused), Err(Some(WaitReason::Paused)));
    for (ago, expected) in [(10, Err(Some(WaitReason::MaxPerHour))), (3_600, Ok(()))] {
        let mut reported = LastHour::default();
        (1..=3).for_each(|n| reported.note(at(NOW - ago), instance(n)));
        let (scene, history) = (scene(&nodes), NodeHistory::default());
        let confirmed = confirm_set_unhealthy(&scene, "uid-1", &history, &REPLACE, &reported);
        assert_eq!(confirmed, expected, "three were reported {ago} s ago");
    }
}

#[test]
fn aws_shows_whether_a_step_is_taken() {
    let in_service = || AwsView::Answered(member("a"));
    let ends = || AwsView::Answered(Member { is_serving: false, ..member("a") });
    let reported_unhealthy =
        || AwsView::Answered(Member { is_serving: false, is_unhealthy: true, ..member("a") });
    let suspended = || AwsView::Answered(Member { group_replaces_unhealthy: false, ..member("a") });
    let never_replaced = || {
        let serving = Member { is_serving: false, is_unhealthy: true, ..member("a") };
        AwsView::Answered(Member { group_replaces_unhealthy: false, ..serving })
    };
    let unanswered = Step::Wait(WaitReason::Unanswered);
    let (late, left) = (Step::Wait(WaitReason::ReplacementLate), Step::Wait(WaitReason::PodsLeft));
    for (step, view, expected) in [
        (Step::Restore, in_service(), Some(Step::Restore)),
        (Step::Restore, suspended(), Some(Step::Restore)),
        (Step::Restore, ends(), None),
        (Step::Restore, reported_unhealthy(), None),
        (Step::Restore, AwsView::NotOurs, Some(Step::Restore)),
        (Step::Restore, AwsView::Unanswered, Some(unanswered)),
        (Step::Restore, never_replaced(), Some(Step::Wait(WaitReason::ReplacementSuspended))),
        (Step::SetUnhealthy, in_service(), Some(Step::SetUnhealthy)),
        (Step::SetUnhealthy, suspended(), Some(Step::Wait(WaitReason::ReplacementSuspended))),
        (Step::SetUnhealthy, ends(), None),
        (Step::SetUnhealthy, AwsView::NotOurs, None),
        (Step::SetUnhealthy, AwsView::Unanswered, Some(unanswered)),
        (left, AwsView::Unanswered, Some(left)),
        (left, in_service(), Some(left)),
        (left, ends(), None),
        (late, reported_unhealthy(), Some(late)),
        (late, in_service(), None),
        (late, never_replaced(), Some(Step::Wait(WaitReason::ReplacementSuspended))),
    ] {
        assert_eq!(next_step(step, &view), expected, "{step:?} {view:?}");
    }
}

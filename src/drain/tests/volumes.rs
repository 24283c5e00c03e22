//! The wait for the volumes of pods that have left the node.

use super::*;
use crate::domain::{AttachedVolumes, VolumeWaitEnd, VolumesSeen};

/// How a drain of a case begins.
type Begin = fn() -> Drain;

/// A pod with a claim.
fn database(name: &str) -> Pod {
    Pod { has_claims: true, ..pod(name) }
}

/// A drain that waits for volumes, with these pods from the beginning.
fn of(pods: Vec<Pod>, limits: Limits) -> Drain {
    let mut d = drain(limits).waiting_for_volumes();
    d.step(at(0), Input::Listed(pods));
    d
}

fn attached(names: &[&str]) -> Input {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Input::Volumes(VolumesSeen::Attached(AttachedVolumes::of(names)))
}

fn unanswered(error: &str) -> Input {
    Input::Volumes(VolumesSeen::Unanswered(error.to_owned()))
}

fn asks(effects: &[Effect]) -> bool {
    effects.contains(&Effect::AskVolumes)
}

/// How a wait has ended, by its label, and its seconds.
fn wait_ended(effects: &[Effect]) -> Option<(&'static str, u64)> {
    notes(effects).into_iter().find_map(|note| match note {
        Note::VolumeWaitEnded { end, took } => Some((end.as_str(), took.as_secs())),
        _ => None,
    })
}

#[test]
fn which_drains_ask_for_volumes_when_their_last_pod_is_gone() {
    let finished = Pod { phase: PodPhase::Succeeded, ..database("a") };
    let stays = Pod { tolerates_us: true, ..database("a") };
    let plain: Begin = || drain(limits(3600)).waiting_for_volumes();
    let rows: [(&str, Begin, Vec<Pod>, bool); 9] = [
        ("a pod with a claim", plain, vec![database("a"), pod("b")], true),
        ("no pod has a claim", plain, vec![pod("a"), pod("b")], false),
        ("a pod with a claim that stays", plain, vec![stays, pod("b")], false),
        (
            "a DaemonSet's pod with a claim",
            plain,
            vec![Pod { has_claims: true, ..daemon("a", "logs") }, pod("b")],
            false,
        ),
        ("a finished pod with a claim", plain, vec![finished, pod("b")], false),
        ("somebody else has removed the pods before", plain, vec![daemon("a", "logs")], true),
        ("the drain of another leader", plain_taken_over, vec![pod("b")], true),
        ("it is switched off", || drain(limits(3600)), vec![database("a")], false),
        (
            "it is switched off, after another leader",
            || drain(limits(3600)).taken_over(at(0)),
            vec![],
            false,
        ),
    ];
    for (case, begin, pods, expected) in rows {
        let mut d = begin();
        let names: Vec<String> = pods.iter().map(|pod| pod.uid.to_string()).collect();
        let mut effects = d.step(at(0), Input::Listed(pods));
        effects.extend(d.step(
            at(1),
            Input::DaemonSet {
                namespace: "default".to_owned(),
                name: "logs".to_owned(),
                state: DaemonSetState::Exists,
            },
        ));
        let leaves = |name: &&String| d.pods_left().any(|pod| pod.uid.as_str() == **name);
        let leaving: Vec<String> = names.iter().filter(leaves).cloned().collect();
        for name in leaving {
            effects.extend(d.step(at(10), Input::Gone(uid(&name))));
        }
        effects.extend(d.step(at(10), Input::Tick));
        assert_eq!(asks(&effects), expected, "{case}");
        assert_eq!(ended(&effects).is_none(), expected, "{case}");
    }
}

fn plain_taken_over() -> Drain {
    drain(limits(3600)).waiting_for_volumes().taken_over(at(0))
}

#[test]
fn a_drain_waits_until_the_volumes_are_detached() {
    let mut d = of(vec![database("a")], limits(3600));
    assert!(asks(&d.step(at(20), Input::Gone(uid("a")))));
    assert_eq!(d.status(at(20)).phase, Phase::Volumes);
    assert_eq!(d.next_wake(), Some(at(140)), "no answer for two minutes");
    let effects = d.step(at(21), attached(&["pv-2", "pv-1"]));
    assert_eq!((ended(&effects), asks(&effects)), (None, false));
    assert_eq!(d.attached_volumes().unwrap().to_string(), "2 volumes (pv-1, pv-2)");
    assert_eq!(d.next_wake(), Some(at(141)));
    assert_eq!(ended(&d.step(at(24), attached(&["pv-1"]))), None);
    let effects = d.step(at(27), attached(&[]));
    assert_eq!(ended(&effects), Some(&Outcome::Empty));
    assert_eq!(wait_ended(&effects), Some(("detached", 7)));
}

#[test]
fn volumes_that_are_detached_already_are_not_reported() {
    let mut d = of(vec![database("a")], limits(3600));
    d.step(at(20), Input::Gone(uid("a")));
    let effects = d.step(at(21), attached(&[]));
    assert_eq!((ended(&effects), wait_ended(&effects)), (Some(&Outcome::Empty), None));
}

#[test]
fn a_drain_that_need_not_wait_ends_at_once() {
    let mut d = of(vec![database("a")], limits(3600));
    d.step(at(20), Input::Gone(uid("a")));
    let effects = d.step(at(20), Input::NoVolumes);
    assert_eq!((ended(&effects), wait_ended(&effects)), (Some(&Outcome::Empty), None));
}

/// Scenario 22.
#[test]
fn s22_a_volume_that_stays_attached_is_waited_for_until_the_deadline() {
    let mut d = of(vec![database("a")], limits(300));
    d.step(at(20), Input::Gone(uid("a")));
    for now in [21, 100, 200, 299] {
        assert_eq!(ended(&d.step(at(now), attached(&["pv-1"]))), None, "{now}");
    }
    assert_eq!(d.next_wake(), Some(at(300)));
    let effects = d.step(at(300), Input::Tick);
    assert_eq!(ended(&effects), Some(&Outcome::Empty), "no pod is left: the drain has not failed");
    assert_eq!(wait_ended(&effects), Some(("deadline", 280)));
}

#[test]
fn s22_the_volumes_of_pods_that_stay_are_named_so_that_they_do_not_count() {
    let stays = Pod { tolerates_us: true, ..database("agent") };
    let finished = Pod { phase: PodPhase::Failed, ..database("job") };
    let mut d = of(vec![stays, finished, database("a")], limits(300));
    assert!(asks(&d.step(at(20), Input::Gone(uid("a")))));
    assert_eq!(d.staying_pods_with_claims(), [uid("agent")]);
}

/// The name of the row, how the drain begins, its inputs with their times, and when it ends.
type Row = (&'static str, Begin, Vec<(u64, Input)>, u64);

#[test]
fn without_a_usable_answer_a_drain_goes_on_after_a_while() {
    let taken_over = || {
        let mut d = plain_taken_over();
        d.step(at(0), Input::Listed(vec![pod("a")]));
        d
    };
    let known = || of(vec![database("a")], limits(3600));
    let failed = |now| (now, unanswered("500"));
    let rows: [Row; 6] = [
        ("known", known, vec![failed(21)], 140),
        ("known, answered once", known, vec![(60, attached(&["pv"]))], 180),
        ("not known, one question", taken_over, vec![failed(21)], 140),
        ("not known, two questions", taken_over, vec![failed(21), failed(24)], 50),
        ("not known, answered once", taken_over, vec![(30, attached(&["pv"]))], 150),
        (
            "not known, answered after two failures",
            taken_over,
            vec![failed(21), failed(24), (30, attached(&["pv"])), failed(33), failed(36)],
            150,
        ),
    ];
    for (case, begin, inputs, gives_up) in rows {
        let mut d = begin();
        assert!(asks(&d.step(at(20), Input::Gone(uid("a")))), "{case}");
        for (now, input) in inputs {
            assert_eq!(ended(&d.step(at(now), input)), None, "{case}, {now}");
        }
        assert_eq!(d.next_wake(), Some(at(gives_up)), "{case}");
        assert_eq!(ended(&d.step(at(gives_up - 1), Input::Tick)), None, "{case}");
        let effects = d.step(at(gives_up), Input::Tick);
        assert_eq!(ended(&effects), Some(&Outcome::Empty), "{case}");
        assert_eq!(wait_ended(&effects), Some(("unanswered", gives_up - 20)), "{case}");
    }
}

#[test]
fn a_drain_that_does_not_know_of_claims_waits_until_two_questions_are_answered() {
    let mut d = plain_taken_over();
    d.step(at(0), Input::Listed(vec![pod("a")]));
    d.step(at(20), Input::Gone(uid("a")));
    assert_eq!(ended(&d.step(at(80), unanswered("500"))), None, "the first question came late");
    assert_eq!(ended(&d.step(at(81), Input::Tick)), None);
    let effects = d.step(at(125), unanswered("500"));
    assert_eq!(ended(&effects), Some(&Outcome::Empty));
    assert_eq!(wait_ended(&effects), Some(("unanswered", 105)));
}

#[test]
fn without_the_right_to_read_them_a_drain_waits_for_no_volume() {
    let mut d = of(vec![database("a")], limits(3600));
    d.step(at(20), Input::Gone(uid("a")));
    let effects = d.step(at(21), Input::Volumes(VolumesSeen::Denied("forbidden".to_owned())));
    assert_eq!(ended(&effects), Some(&Outcome::Empty));
    let end = VolumeWaitEnd::Denied("forbidden".to_owned());
    assert!(notes(&effects).contains(&&Note::VolumeWaitEnded { end, took: seconds(1) }));
}

#[test]
fn an_unanswered_question_is_reported_at_the_deadline_unless_there_was_no_time_for_it() {
    let unanswered_after = |seconds| Some(("unanswered", seconds));
    for (gone, expected) in [
        (110, unanswered_after(10)),
        (117, unanswered_after(3)),
        (118, None),
        (120, None),
        (125, None),
    ] {
        let mut d = of(vec![database("a")], limits(120));
        let mut effects = d.step(at(gone), Input::Gone(uid("a")));
        assert!(gone >= 120 || asks(&effects));
        effects.extend(d.step(at(gone.max(120)), Input::Tick));
        assert_eq!(ended(&effects), Some(&Outcome::Empty), "{gone}");
        assert_eq!(wait_ended(&effects), expected, "{gone}");
        assert!(gone < 120 || !asks(&effects), "{gone}");
    }
    let mut d = of(vec![database("a")], limits(120));
    d.step(at(119), Input::Gone(uid("a")));
    d.step(at(119), unanswered("500"));
    assert_eq!(wait_ended(&d.step(at(120), Input::Tick)), Some(("unanswered", 1)), "it was asked");
}

#[test]
fn a_pod_that_arrives_meanwhile_is_drained_first() {
    let mut d = of(vec![database("a")], limits(3600));
    d.step(at(20), Input::Gone(uid("a")));
    d.step(at(21), attached(&["pv-1"]));
    let effects = d.step(at(22), Input::Changed(pod("late")));
    assert!(effects.contains(&Effect::StopAskingVolumes) && requests(&effects).len() == 1);
    assert_eq!(d.status(at(22)).phase, Phase::Draining);
    assert_eq!(ended(&d.step(at(23), attached(&[]))), None, "an answer that comes too late");
    assert!(asks(&d.step(at(30), Input::Gone(uid("late")))), "it asks again");
    assert_eq!(ended(&d.step(at(31), attached(&[]))), Some(&Outcome::Empty));
}

#[test]
fn other_ends_of_a_drain_do_not_wait_for_volumes() {
    let waiting = || {
        let mut d = of(vec![database("a")], limits(3600));
        d.step(at(20), Input::Gone(uid("a")));
        d.step(at(21), attached(&["pv-1"]));
        d
    };
    for (input, expected) in [
        (Input::Release, Outcome::Released { left: vec![] }),
        (Input::Node(NodeCondition::Deleted), Outcome::NodeGone),
        (Input::Node(NodeCondition::InstanceOver), Outcome::InstanceOver),
    ] {
        assert_eq!(ended(&waiting().step(at(22), input)), Some(&expected));
    }
    // The kubelet of an unreachable node unmounts nothing.
    let mut d = waiting();
    d.step(at(22), Input::Node(NodeCondition::Unreachable));
    d.step(at(52), Input::Tick);
    let effects = d.step(at(53), Input::Node(NodeCondition::StillUnreachable));
    assert_eq!(ended(&effects), Some(&Outcome::Unreachable { left: vec![] }));
}

#[test]
fn a_paused_drain_goes_on_waiting_after_its_deadline() {
    let mut d = of(vec![database("a")], limits(120));
    d.step(at(20), Input::Gone(uid("a")));
    d.step(at(21), Input::Paused);
    for now in [30, 110, 125, 200] {
        assert_eq!(ended(&d.step(at(now), attached(&["pv-1"]))), None, "{now}");
    }
    assert_eq!(ended(&d.step(at(201), attached(&[]))), Some(&Outcome::Empty));
}

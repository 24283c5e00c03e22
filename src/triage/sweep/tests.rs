use super::*;

fn all_shown(waiting: Vec<WaitingInstance>) -> Shown {
    Shown { waiting, ..Shown::default() }
}
use crate::domain::{PoolEnd, Transition};

const INTERVAL: Duration = seconds(60);

fn at(second: u64) -> Moment {
    "2026-01-05T09:00:00Z".parse::<Moment>().unwrap().plus(seconds(second))
}

fn waits(n: usize, state: WaitState) -> WaitingInstance {
    WaitingInstance { instance: format!("i-{n:017x}").parse().unwrap(), group: "asg".into(), state }
}

fn one() -> WaitingInstance {
    waits(1, WaitState::Terminating)
}

fn looked(sweep: &mut Sweep, second: u64) -> Vec<Candidate> {
    sweep.due(at(second), 100, |_| None).to_check
}

#[allow(clippy::unnecessary_wraps, reason = "as `Sweep::due` takes them")]
fn hooks(names: &[&str]) -> Option<BTreeSet<HookName>> {
    Some(names.iter().map(|name| HookName::from(*name)).collect())
}

#[test]
fn only_states_in_which_an_instance_waits_for_a_hook_are_found() {
    for (state, expected) in [
        ("Pending:Wait", Some(WaitState::Pending)),
        ("Terminating:Wait", Some(WaitState::Terminating)),
        ("ReplacingRootVolume:Wait", Some(WaitState::ReplacingRootVolume)),
        ("Warmed:Pending:Wait", Some(WaitState::WarmedPending)),
        ("Warmed:Terminating:Wait", Some(WaitState::WarmedTerminating)),
        ("Pending", None),
        ("Warmed:Stopped", None),
        ("Terminating", None),
        ("Terminating:Proceed", None),
        ("InService", None),
        ("", None),
    ] {
        assert_eq!(WaitState::of(state), expected, "{state}");
    }
}

#[test]
fn the_state_and_the_hook_show_where_the_instance_comes_from_and_where_it_goes() {
    use Transition::{Launching, Terminating};
    let (ec2, group, pool) = (Some(PoolEnd::Ec2), Some(PoolEnd::Group), Some(PoolEnd::WarmPool));
    let mut rows = vec![
        (WaitState::Pending, Launching, "launch-hook", None, group),
        (WaitState::Terminating, Terminating, "terminate-hook", group, ec2),
        (WaitState::ReplacingRootVolume, Terminating, "root-volume", None, None),
        (WaitState::WarmedPending, Launching, "launch-hook", ec2, pool),
        (WaitState::WarmedPending, Terminating, "terminate-hook", group, pool),
        (WaitState::WarmedTerminating, Terminating, "terminate-hook", pool, ec2),
    ];
    for state in WaitState::ALL {
        for transition in state.transitions() {
            let row = rows.iter().position(|row| (row.0, row.1) == (state, *transition));
            let (.., kind, origin, destination) = rows.remove(row.unwrap());
            assert_eq!(state.kind(*transition).as_str(), kind);
            let waiting = waits(1, state);
            let candidate = Candidate { waiting, first_seen: at(60), absent_at: None, checks: 0 };
            let found = candidate.interruption("drain".into(), *transition, at(60), None);
            assert_eq!(found.kind().as_str(), kind);
            assert_eq!(found.wait_purpose(), state.wait_purpose(), "{state:?}");
            let action = found.hook().unwrap();
            assert_eq!((action.origin, action.destination), (origin, destination), "{kind}");
        }
    }
    assert_eq!(rows, []);
}

#[test]
fn an_instance_is_looked_into_after_the_grace_and_then_ever_rarer() {
    let mut sweep = Sweep::new(at(0), INTERVAL, 0.0);
    let mut to_check = Vec::new();
    for second in 0..3_000 {
        if sweep.is_round_due(at(second)) {
            sweep.round_ended(at(second), Ok(all_shown(vec![one()])), 0.0);
        }
        for candidate in looked(&mut sweep, second) {
            assert_eq!((candidate.first_seen, candidate.checks as usize), (at(60), to_check.len()));
            to_check.push(second);
        }
    }
    assert_eq!(to_check, [70, 130, 250, 490, 970, 1570, 2170, 2770]);
}

#[test]
fn a_look_without_an_answer_is_repeated_soon_and_does_not_grow_the_pause() {
    let mut sweep = Sweep::new(at(0), INTERVAL, 0.0);
    sweep.round_ended(at(60), Ok(all_shown(vec![one()])), 0.0);
    let mut to_check = Vec::new();
    for second in 0..400 {
        for candidate in looked(&mut sweep, second) {
            let is_unanswered = (1..=2).contains(&to_check.len());
            to_check.push((second, candidate.checks));
            if is_unanswered {
                sweep.unanswered(at(second), &candidate);
            }
        }
    }
    assert_eq!(to_check, [(70, 0), (130, 1), (175, 1), (220, 1), (340, 2)]);
    let old = looked(&mut sweep, 580).remove(0);
    sweep.round_ended(at(600), Ok(all_shown(Vec::new())), 0.0);
    sweep.round_ended(at(660), Ok(all_shown(vec![one()])), 0.0);
    sweep.unanswered(at(661), &old);
    let again = looked(&mut sweep, 670).first().map(|candidate| candidate.checks);
    assert_eq!(again, Some(0), "that was another wait");
}

#[test]
fn a_wait_that_is_found_has_the_time_when_the_instance_was_last_without_it() {
    let root = waits(1, WaitState::ReplacingRootVolume);
    let mut sweep = Sweep::new(at(0), INTERVAL, 0.0);
    let mut round = |second: u64, round| {
        sweep.round_begins(at(second));
        sweep.round_ended(at(second + 2), round, 0.0);
        looked(&mut sweep, second + 12).first().map(|found| found.absent_at)
    };
    assert_eq!(round(60, Ok(all_shown(vec![root]))), Some(None), "no round before");
    let changed = round(120, Ok(all_shown(vec![one()])));
    assert_eq!(changed, Some(Some(at(120))), "it waited for something else until now");
    assert_eq!(round(180, Ok(all_shown(Vec::new()))), None);
    assert_eq!(round(240, Err(RoundFailure::Throttled)), None);
    assert_eq!(round(300, Ok(all_shown(vec![one()]))), Some(Some(at(180))));
}

#[test]
fn what_is_known_is_not_looked_into_and_does_not_grow_the_pause() {
    let mut sweep = Sweep::new(at(0), INTERVAL, 0.0);
    sweep.round_ended(at(60), Ok(all_shown(vec![one()])), 0.0);
    for second in [70, 85, 100, 115] {
        assert_eq!(sweep.due(at(second), 100, |_| hooks(&[])).to_check, [], "{second}");
        assert_eq!(sweep.next_at(), at(second + 15).min(at(120)), "{second}");
    }
    assert_eq!(looked(&mut sweep, 129), []);
    assert_eq!(looked(&mut sweep, 130).len(), 1, "no longer known");
}

#[test]
fn a_hook_whose_action_turns_out_to_be_over_after_a_check_is_checked_soon() {
    // When the hooks are described, and from when on no action of `b` is known.
    for (described, over, expected) in [
        (0, 90, vec![70, 100, 220, 460]),
        (0, 1_000, vec![70, 130, 250, 490]),
        (71, 90, vec![70, 100, 220, 460]),
        // It is taken for one that was checked.
        (71, 80, vec![70, 130, 250, 490]),
    ] {
        let mut sweep = Sweep::new(at(0), INTERVAL, 0.0);
        sweep.round_ended(at(60), Ok(all_shown(vec![one()])), 0.0);
        let mut to_check = Vec::new();
        for second in 0..600 {
            let names: &[&str] = if second < over { &["a"] } else { &["a", "b"] };
            let unknown = || if second < described { None } else { hooks(names) };
            let due = sweep.due(at(second), 100, |_| unknown()).to_check;
            to_check.extend(due.iter().map(|_| second));
        }
        assert_eq!(to_check, expected, "{described} {over}");
    }
}

#[test]
fn a_wait_that_ends_or_changes_begins_anew() {
    let other = waits(1, WaitState::ReplacingRootVolume);
    let mut sweep = Sweep::new(at(0), INTERVAL, 0.0);
    sweep.round_ended(at(60), Ok(all_shown(vec![other.clone()])), 0.0);
    assert_eq!(looked(&mut sweep, 70).len(), 1);
    sweep.round_ended(at(120), Ok(all_shown(vec![one()])), 0.0);
    assert_eq!(looked(&mut sweep, 129), [], "its event may be on its way");
    let found = looked(&mut sweep, 130).remove(0);
    assert_eq!((found.first_seen, found.checks), (at(120), 0));
    sweep.round_ended(at(180), Ok(all_shown(Vec::new())), 0.0);
    assert_eq!(looked(&mut sweep, 1_000), [], "it no longer waits");
    sweep.round_ended(at(240), Ok(all_shown(vec![one()])), 0.0);
    sweep.round_ended(at(245), Err(RoundFailure::Throttled), 0.0);
    let found = looked(&mut sweep, 250).remove(0);
    assert_eq!(found.first_seen, at(240), "a round that failed shows nothing");
}

#[test]
fn what_is_remembered_and_what_is_looked_into_at_once_is_bounded() {
    let all = |n: usize| (0..n).map(|i| waits(i, WaitState::Terminating)).collect::<Vec<_>>();
    let mut sweep = Sweep::new(at(0), INTERVAL, 0.0);
    assert_eq!(sweep.round_ended(at(60), Ok(all_shown(all(MAX_WAITING + 7))), 0.0).left_out, 7);
    assert_eq!(sweep.waiting.len(), MAX_WAITING);
    let due = sweep.due(at(70), 3, |_| None);
    assert_eq!((due.to_check.len(), due.left_out), (3, MAX_WAITING - 3));
    assert_eq!(sweep.next_at(), at(71), "the others as soon as there is room");
    let next = sweep.due(at(71), 3, |_| None).to_check;
    assert_eq!(next.len(), 3);
    assert!(next.iter().all(|candidate| candidate.checks == 0), "others than before");
    assert_eq!(sweep.round_ended(at(120), Ok(all_shown(all(2))), 0.0).left_out, 0);
    assert_eq!(sweep.waiting.len(), 2);
}

#[test]
fn the_interruption_has_no_token_and_counts_from_the_first_sight() {
    let mut sweep = Sweep::new(at(0), INTERVAL, 0.0);
    let root = waits(1, WaitState::ReplacingRootVolume);
    sweep.round_ended(at(60), Ok(all_shown(vec![root])), 0.0);
    let found = looked(&mut sweep, 70).remove(0);
    let interruption =
        found.interruption("drain".into(), Transition::Terminating, found.first_seen, None);
    assert_eq!(interruption.kind().as_str(), "root-volume");
    assert_eq!(interruption.time, Some(at(60)));
    assert_eq!(interruption.event_id, "sweep:2026-01-05T09:01:00Z:drain");
    assert!(crate::domain::is_sweep_event_id(&interruption.event_id));
    let hook = interruption.hook().unwrap();
    assert_eq!((hook.group.as_str(), hook.hook.as_str()), ("asg", "drain"));
    assert_eq!(hook.token, None);
}

#[test]
fn a_round_without_an_answer_about_a_warm_pool_forgets_nothing_of_its_group() {
    let mut sweep = Sweep::new(at(0), seconds(60), 0.0);
    let in_group = |n, group: &str| WaitingInstance {
        group: group.into(),
        ..waits(n, WaitState::WarmedPending)
    };
    let before = vec![in_group(1, "pool"), in_group(2, "other")];
    sweep.round_ended(at(60), Ok(all_shown(before)), 0.0);
    let shown = Shown {
        waiting: vec![in_group(3, "other")],
        unknown: BTreeSet::from(["pool".into()]),
        failure: Some(RoundFailure::Throttled),
    };
    sweep.round_ended(at(120), Ok(shown), 0.0);
    let waiting = sweep.waiting.values().map(|watched| &watched.candidate.waiting);
    assert_eq!(waiting.collect::<Vec<_>>(), [&in_group(1, "pool"), &in_group(3, "other")]);
    assert_eq!(sweep.rounds.next(), at(240), "the next round comes later");
}

#[test]
fn an_instance_in_a_warm_pool_that_never_answers_again_is_forgotten_after_two_days() {
    let mut sweep = Sweep::new(at(0), seconds(60), 0.0);
    sweep.round_ended(at(60), Ok(all_shown(vec![waits(1, WaitState::WarmedPending)])), 0.0);
    let group = sweep.waiting.values().next().unwrap().candidate.waiting.group.clone();
    let two_days = 60 + 48 * 3600;
    for (second, watched) in [(two_days - 1, 1), (two_days, 0)] {
        let shown = Shown { unknown: BTreeSet::from([group.clone()]), ..Shown::default() };
        sweep.round_ended(at(second), Ok(shown), 0.0);
        assert_eq!(sweep.waiting.len(), watched, "{second}");
    }
}

#[test]
fn an_unknown_warm_pool_says_nothing_of_its_own_instances_and_nothing_is_lost_outside_of_it() {
    let mut sweep = Sweep::new(at(0), seconds(60), 0.0);
    let outside = WaitingInstance { group: "pool".into(), ..one() };
    let inside = |n| WaitingInstance { group: "pool".into(), ..waits(n, WaitState::WarmedPending) };
    let round = |sweep: &mut Sweep, second, waiting, is_known: bool| {
        let names = (!is_known).then(|| "pool".into());
        let unknown = names.into_iter().collect();
        sweep.round_begins(at(second));
        sweep.round_ended(at(second), Ok(Shown { waiting, unknown, failure: None }), 0.0);
    };
    let absent_at = |sweep: &Sweep, waiting: &WaitingInstance| {
        sweep.waiting.get(&waiting.instance).map(|watched| watched.candidate.absent_at)
    };
    round(&mut sweep, 60, vec![], true);
    round(&mut sweep, 120, vec![outside.clone()], false);
    assert_eq!(absent_at(&sweep, &outside), Some(Some(at(60))));
    round(&mut sweep, 180, vec![inside(2)], false);
    assert_eq!(absent_at(&sweep, &outside), None, "the group shows that this wait is over");
    assert_eq!(absent_at(&sweep, &inside(2)), Some(Some(at(60))), "its pool was unknown since");
    round(&mut sweep, 240, vec![inside(2)], true);
    round(&mut sweep, 300, vec![inside(2), inside(3)], true);
    assert_eq!(absent_at(&sweep, &inside(3)), Some(Some(at(240))));
}

#[test]
fn an_instance_that_was_in_service_between_two_rounds_waits_anew() {
    let inside = waits(1, WaitState::WarmedPending);
    let round = |sweep: &mut Sweep, second, shown| {
        sweep.round_begins(at(second));
        sweep.round_ended(at(second), Ok(shown), 0.0);
    };
    let waiting = || all_shown(vec![inside.clone()]);
    let unknown = || Shown { unknown: BTreeSet::from(["asg".into()]), ..Shown::default() };
    let (anew, still) = ((at(240), Some(at(130))), (at(60), None));
    for (asked, is_pool_unknown, expected) in [
        (130, false, anew),
        (130, true, anew),
        // The round at 120 s is newer.
        (119, false, still),
        (119, true, still),
    ] {
        let mut sweep = Sweep::new(at(0), INTERVAL, 0.0);
        round(&mut sweep, 60, waiting());
        round(&mut sweep, 120, waiting());
        sweep.seen_in_service(&inside.instance, at(asked));
        if is_pool_unknown {
            round(&mut sweep, 180, unknown());
        }
        round(&mut sweep, 240, waiting());
        let found = &sweep.waiting.get(&inside.instance).unwrap().candidate;
        assert_eq!((found.first_seen, found.absent_at), expected, "{asked} {is_pool_unknown}");
        assert!(sweep.in_service.is_empty());
    }
}

#[test]
fn a_candidate_is_checked_in_the_state_that_its_group_shows_then() {
    let waiting = waits(1, WaitState::ReplacingRootVolume);
    let found = Candidate { waiting, first_seen: at(60), absent_at: Some(at(0)), checks: 1 };
    let later =
        Candidate { waiting: one(), first_seen: at(70), absent_at: Some(at(60)), ..found.clone() };
    for (shown, expected) in [
        (Some("ReplacingRootVolume:Wait"), Some(found.clone())),
        (Some("Terminating:Wait"), Some(later)),
        (Some("ReplacingRootVolume:Proceed"), None),
        (Some("InService"), None),
        (None, None),
    ] {
        assert_eq!(found.in_state(shown, at(70)), expected, "{shown:?}");
    }
}

//! Stale interruptions and their proofs.

use super::*;

fn described(heartbeat: u64) -> Option<HookAnswer> {
    Some(HookAnswer::Described(HookDescription {
        hook: "my-hook".into(),
        heartbeat_timeout: seconds(heartbeat),
        global_timeout: seconds(heartbeat * 100),
    }))
}

fn heartbeat(accepted: bool) -> Option<HeartbeatAnswer> {
    Some(HeartbeatAnswer { at: now(), accepted })
}

fn reports(state: InstanceState) -> Option<InstanceAnswer> {
    answer(Some(facts(state, ours())))
}

#[test]
fn each_kind_is_stale_only_above_its_own_age() {
    let capacity = interruption(Cause::CapacityReservation { ends: None });
    for (i, limit, hook) in [
        (spot(), 120, None),
        (capacity, 120, None),
        (interruption(Cause::CapacityBlock { ends: None }), 2400, None),
        (state_change(InstanceState::Stopping), 60, None),
        (terminate(), 30, None),
        (terminate(), 30, Some(HookAnswer::NoSuchHook)),
        (terminate(), 300, described(300)),
        (terminate(), 10, described(10)),
    ] {
        let known = |age| Knowledge { hook: hook.clone(), ..aged(age) };
        assert_eq!(accepted(verdict(&i, &known(limit), &policy())).1, Certainty::Timely, "{i:?}");
        assert!(waits(verdict(&i, &known(limit + 1), &policy())).proof, "{i:?}");
    }
}

#[test]
fn an_interruption_that_is_decided_too_late_is_stale_although_it_was_read_in_time() {
    let v = triage(&spot(), &aged(100), &policy(), now().plus(seconds(21)));
    assert!(waits(v).proof);
}

#[test]
fn an_event_from_the_future_is_not_stale() {
    let known = Knowledge { happened: now().plus(seconds(3600)), ..with_node() };
    assert_eq!(accepted(verdict(&spot(), &known, &policy())).1, Certainty::Timely);
}

#[test]
fn the_proof_comes_from_ec2_and_for_a_hook_also_from_one_heartbeat() {
    assert_eq!(asks(verdict(&spot(), &aged(121), &policy())), [ask_instance(now())]);
    assert_eq!(
        asks(verdict(&terminate(), &aged(31), &policy())),
        [ask_instance(now()), ask_heartbeat(), ask_hook()]
    );
    let old = Some(InstanceAnswer {
        at: now().minus(seconds(1)),
        facts: Some(facts(InstanceState::Running, ours())),
    });
    let known = Knowledge { instance: old, ..aged(121) };
    assert_eq!(
        asks(verdict(&spot(), &known, &policy())),
        [ask_instance(now())],
        "an answer from before the message is no proof"
    );
}

#[test]
fn an_instance_that_stopped_proves_nothing_half_a_minute_later_because_it_may_run_again() {
    use InstanceState as S;
    let i = state_change(S::Stopping);
    for (state, proves) in
        [(S::Stopping, false), (S::Stopped, false), (S::ShuttingDown, true), (S::Terminated, true)]
    {
        let known = Knowledge { instance: reports(state), ..aged(61) };
        let at = |later| triage(&i, &known, &policy(), now().plus(seconds(later)));
        assert_eq!(accepted(at(30)).1, Certainty::Proved, "{state:?}");
        if proves {
            assert_eq!(accepted(at(31)).1, Certainty::Proved, "{state:?}");
        } else {
            assert_eq!(asks(at(31)), [ask_instance(now().plus(seconds(30)))], "{state:?}");
        }
    }
}

#[test]
fn a_stop_needs_a_proof_if_the_node_was_created_after_it_because_the_instance_runs_again() {
    use InstanceState as S;
    let known = |seconds_after: u64| {
        let created = Some(now().minus(seconds(20)).plus(seconds(seconds_after)));
        let newer = Arc::new(Node { created, ..node("n", Some(INSTANCE)) });
        Knowledge { nodes: vec![newer], ..aged(20) }
    };
    for i in [state_change(S::Stopping), state_change(S::Stopped)] {
        assert_eq!(accepted(verdict(&i, &known(0), &policy())).1, Certainty::Timely, "{i:?}");
        assert_eq!(asks(verdict(&i, &known(1), &policy())), [ask_instance(now())], "{i:?}");
        let runs = Knowledge { instance: reports(S::Running), ..known(1) };
        assert_eq!(verdict(&i, &runs, &policy()), Verdict::Delete(Reason::Stale), "{i:?}");
        let stops = Knowledge { instance: reports(S::Stopping), ..known(1) };
        assert_eq!(accepted(verdict(&i, &stops, &policy())).1, Certainty::Proved, "{i:?}");
    }
    for i in [state_change(S::ShuttingDown), state_change(S::Terminated), spot()] {
        assert_eq!(accepted(verdict(&i, &known(1), &policy())).1, Certainty::Timely, "{i:?}");
    }
}

#[test]
fn an_instance_that_ends_or_has_ended_proves_any_interruption() {
    use InstanceState as S;
    for i in draining() {
        for (instance, state) in [
            (reports(S::Stopping), S::Stopping),
            (reports(S::Stopped), S::Stopped),
            (reports(S::ShuttingDown), S::ShuttingDown),
            (reports(S::Terminated), S::Terminated),
            (answer(None), S::Terminated),
        ] {
            let known = Knowledge { instance, heartbeat: heartbeat(false), ..aged(3600) };
            let Verdict::Accept(a) = verdict(&i, &known, &policy()) else {
                panic!("{i:?} {state:?}")
            };
            assert_eq!((a.certainty, a.state), (Certainty::Proved, Some(state)));
            assert_eq!(holds(&i, &known), Some(true));
        }
    }
}

#[test]
fn one_accepted_heartbeat_proves_a_hook_and_nothing_else() {
    let known = Knowledge { heartbeat: heartbeat(true), ..aged(3600) };
    assert_eq!(accepted(verdict(&terminate(), &known, &policy())).1, Certainty::Proved);
    let running = Knowledge { instance: reports(InstanceState::Running), ..known };
    assert_eq!(
        accepted(verdict(&terminate(), &running, &policy())).1,
        Certainty::Proved,
        "an instance that waits in a hook runs"
    );
    assert_eq!(verdict(&spot(), &running, &policy()), Verdict::Delete(Reason::Stale));
}

#[test]
fn an_instance_that_runs_disproves_anything_but_a_hook() {
    for i in draining() {
        let known = Knowledge { instance: reports(InstanceState::Running), ..aged(3600) };
        if i.hook().is_some() {
            assert_eq!(asks(verdict(&i, &known, &policy())), [ask_heartbeat(), ask_hook()]);
            assert_eq!(holds(&i, &known), None);
        } else {
            assert_eq!(verdict(&i, &known, &policy()), Verdict::Delete(Reason::Stale), "{i:?}");
            assert_eq!(
                verdict(&i, &known, &shared(policy())),
                Verdict::Delete(Reason::Stale),
                "deleted from a shared queue, too: {i:?}"
            );
            assert_eq!(holds(&i, &known), Some(false));
        }
    }
}

#[test]
fn a_closed_hook_is_disproved_only_if_ec2_asked_no_earlier_reports_that_the_instance_runs() {
    let closed = Knowledge { heartbeat: heartbeat(false), ..aged(31) };
    assert_eq!(asks(verdict(&terminate(), &closed, &policy())), [ask_instance(now()), ask_hook()]);
    let running = Knowledge { instance: reports(InstanceState::Running), ..closed.clone() };
    assert_eq!(verdict(&terminate(), &running, &policy()), Verdict::Delete(Reason::Stale));
    let sooner = Knowledge {
        heartbeat: Some(HeartbeatAnswer { at: now().plus(seconds(1)), accepted: false }),
        ..running
    };
    assert_eq!(
        asks(verdict(&terminate(), &sooner, &policy())),
        [ask_instance(now().plus(seconds(1))), ask_hook()],
        "the hook may have closed because the instance ended"
    );
    let ending = Knowledge { instance: reports(InstanceState::ShuttingDown), ..closed };
    assert_eq!(accepted(verdict(&terminate(), &ending, &policy())).1, Certainty::Proved);
}

#[test]
fn the_description_of_a_hook_alone_can_show_that_it_is_not_stale() {
    let known = Knowledge { hook: described(3600), ..aged(600) };
    assert_eq!(accepted(verdict(&terminate(), &known, &policy())).1, Certainty::Timely);
}

#[test]
fn c82_an_event_hours_old_touches_no_node_before_it_is_proved_and_is_deleted_when_it_is_disproved()
{
    for i in draining() {
        assert!(waits(verdict(&i, &aged(5 * 3600), &policy())).proof, "{i:?}");
        let disproved_facts = Knowledge {
            instance: reports(InstanceState::Running),
            heartbeat: heartbeat(false),
            ..aged(5 * 3600)
        };
        assert_eq!(
            verdict(&i, &disproved_facts, &policy()),
            Verdict::Delete(Reason::Stale),
            "{i:?}"
        );
    }
}

#[test]
fn after_ten_seconds_without_an_answer_it_is_accepted_without_force_and_aws_is_asked_again() {
    for i in draining() {
        let mut known = aged(3600);
        let first = waits(verdict(&i, &known, &policy()));
        assert_eq!(first.until, Some(now().plus(seconds(10))));
        known.note(&first, now());
        let later = now().plus(seconds(9));
        assert_eq!(
            waits(triage(&i, &known, &policy(), later)).until,
            Some(now().plus(seconds(10))),
            "{i:?}"
        );
        let Verdict::Accept(a) = triage(&i, &known, &policy(), now().plus(seconds(10))) else {
            panic!("{i:?}")
        };
        assert!(a.certainty.is_polite() && a.state.is_none(), "{i:?}");
        assert_eq!(holds(&i, &known), None);
    }
}

#[test]
fn the_ten_seconds_begin_with_the_question_not_with_the_message() {
    let mut known = aged(3600);
    known.index_trusted = false;
    let nodes = std::mem::take(&mut known.nodes);
    let waiting = waits(triage(&spot(), &known, &policy(), now().plus(seconds(180))));
    known.note(&waiting, now().plus(seconds(180)));
    known.nodes = nodes;
    assert_eq!(
        waits(triage(&spot(), &known, &policy(), now().plus(seconds(181)))).until,
        Some(now().plus(seconds(191)))
    );
}

#[test]
fn an_interruption_that_was_on_time_again_gets_another_ten_seconds_for_its_proof() {
    let (i, policy) = (terminate(), policy());
    let at = |second| now().plus(seconds(second));
    let mut known = with_node();
    let decide = |known: &mut Knowledge, at: Moment| {
        known.note_age(&i, &policy.staleness, at);
        let verdict = triage(&i, known, &policy, at);
        if let Verdict::Wait(wait) = &verdict {
            known.note(wait, at);
        }
        verdict
    };
    assert!(waits(decide(&mut known, at(31))).proof, "its hook is not described yet");
    known.instance = reports(InstanceState::Running);
    known.heartbeat = Some(HeartbeatAnswer { at: at(31), accepted: false });
    known.hook = described(60);
    assert_eq!(accepted(decide(&mut known, at(31))).1, Certainty::Timely);
    // The Node could not be written for half a minute.
    let waiting = waits(decide(&mut known, at(61)));
    assert_eq!((waiting.until, waiting.ask), (Some(at(71)), vec![ask_instance(at(31))]));
    assert_eq!(waits(decide(&mut known, at(70))).until, Some(at(71)), "it is asked once");
    assert_eq!(accepted(decide(&mut known.clone(), at(71))).1, Certainty::Unproved);
    let runs = Some(facts(InstanceState::Running, ours()));
    known.instance = Some(InstanceAnswer { at: at(61), facts: runs });
    assert_eq!(decide(&mut known, at(62)), Verdict::Delete(Reason::Stale));
    let mut found =
        Knowledge { is_found_by_sweep: true, proof_asked_at: Some(now()), ..with_node() };
    found.note_age(&i, &policy.staleness, now());
    assert_eq!(found.proof_asked_at, Some(now()), "what the sweep found is never on time");
}

#[test]
fn an_action_before_that_of_the_last_drain_is_accepted_only_if_a_heartbeat_proves_it() {
    let ends = || reports(InstanceState::ShuttingDown);
    for (instance, heartbeat, expected) in [
        (None, None, None),
        (ends(), None, None),
        (ends(), heartbeat(true), Some(true)),
        (reports(InstanceState::Running), heartbeat(true), Some(true)),
        (ends(), heartbeat(false), Some(false)),
        (None, heartbeat(false), Some(false)),
    ] {
        let is_before_last_drain = true;
        let known = Knowledge { is_before_last_drain, instance, heartbeat, ..with_node() };
        let v = verdict(&terminate(), &known, &policy());
        match expected {
            None => assert!(asks(v).contains(&ask_heartbeat()), "{known:?}"),
            Some(true) => assert_eq!(accepted(v).1, Certainty::Proved, "{known:?}"),
            Some(false) => assert_eq!(v, Verdict::Delete(Reason::Stale), "{known:?}"),
        }
    }
    let unanswered = Knowledge {
        is_before_last_drain: true,
        proof_asked_at: Some(now().minus(seconds(10))),
        ..with_node()
    };
    let v = verdict(&terminate(), &unanswered, &policy());
    assert_eq!(accepted(v).1, Certainty::Unproved, "the later action may be made up");
}

#[test]
fn a_disproof_during_the_drain_counts() {
    let proof_asked_at = Some(now().minus(seconds(60)));
    let spot_runs =
        Knowledge { proof_asked_at, instance: reports(InstanceState::Running), ..aged(3600) };
    assert_eq!(holds(&spot(), &spot_runs), Some(false));
    let hook_closed = Knowledge { heartbeat: heartbeat(false), ..spot_runs };
    assert_eq!(holds(&terminate(), &hook_closed), Some(false));
}

#[test]
fn a_hook_that_is_described_only_during_the_drain_holds_if_it_was_read_within_its_timeout() {
    let polite = Knowledge { proof_asked_at: Some(now()), ..aged(600) };
    assert_eq!(holds(&terminate(), &polite), None);
    assert_eq!(
        holds(&terminate(), &Knowledge { hook: described(3600), ..polite.clone() }),
        Some(true)
    );
    assert_eq!(holds(&terminate(), &Knowledge { hook: described(300), ..polite.clone() }), None);
    let closed = Knowledge {
        hook: described(3600),
        heartbeat: heartbeat(false),
        instance: reports(InstanceState::Running),
        ..polite
    };
    assert_eq!(holds(&terminate(), &closed), Some(false), "a disproof counts more");
}

#[test]
fn a_stale_hook_is_kept_alive_while_it_is_unproved() {
    assert!(heartbeats(&terminate(), &aged(3600), &policy()));
}

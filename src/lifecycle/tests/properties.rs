use proptest::prelude::*;

use super::*;

fn timeouts() -> impl Strategy<Value = u64> {
    prop_oneof![30..=120_u64, 30..=7200_u64]
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u32),
    Heartbeat { latency: u32, answer: Answer },
    Describe(u64),
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![3 => Just(Answer::Accepted), 5 => Just(Answer::Failed), 1 => Just(Answer::Gone)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..400_000_u32).prop_map(Step::Wait),
        (0..10_000_u32, answers())
            .prop_map(|(latency, answer)| Step::Heartbeat { latency, answer }),
        (0..10_000_u32, answers())
            .prop_map(|(latency, answer)| Step::Heartbeat { latency, answer }),
        timeouts().prop_map(Step::Describe),
    ];
    prop::collection::vec(step, 1..60)
}

fn starts() -> impl Strategy<Value = ActionOrigin> {
    prop_oneof![
        (0..9000_i64).prop_map(received),
        (0..9000_i64, 0..50_u64).prop_map(|(n, without_leader)| ActionOrigin::TakenOver {
            at: at(n),
            without_leader: seconds(without_leader)
        })
    ]
}

fn begin(start: ActionOrigin) -> Moment {
    let (ActionOrigin::Received(at) | ActionOrigin::TakenOver { at, .. }) = start;
    at
}

proptest! {
    #[test]
    fn with_each_heartbeat_accepted_no_window_ever_ends_without_a_heartbeat(
        timeout in timeouts(), age in 0..20_i64, jitter in 0.0..=1.0_f64, latency in 0..9_000_u64,
        taken_over: bool,
    ) {
        let start = if taken_over {
            ActionOrigin::TakenOver { at: at(age), without_leader: seconds(20) }
        } else { received(age) };
        let mut s = HeartbeatSchedule::new(at(0), start, jitter, Some(of_timeout(timeout)));
        let latency = Duration::from_millis(latency).min(s.call_limit());
        let sent = run(&mut s, at(age), at(10_000), latency, |_| Answer::Accepted);
        let first = sent.first().copied().unwrap();
        prop_assert!(first.since_or_zero(at(0)) < seconds(timeout));
        for pair in sent.windows(2) {
            prop_assert!(pair[1].since_or_zero(pair[0]) < seconds(timeout), "{pair:?}");
            prop_assert!(pair[1].since_or_zero(pair[0]) <= s.interval() + latency);
        }
        prop_assert_eq!(s.counts().missed, 0);
    }

    #[test]
    fn jitter_only_ever_makes_a_heartbeat_earlier(
        timeout in timeouts(), age in 0..9_000_i64, jitter in 0.0..=1.0_f64
    ) {
        let of = |jitter| HeartbeatSchedule::new(
            at(0), received(age), jitter, Some(of_timeout(timeout))
        ).due().unwrap();
        prop_assert!(of(jitter) <= of(0.0));
        prop_assert!(of(jitter) >= at(0).plus(of(0.0).since_or_zero(at(0)) / 2));
    }

    #[test]
    fn a_deadline_never_moves_later_by_itself_once_its_hook_is_described(
        start in starts(), described_first: bool, first in timeouts(), all in steps(),
        drain_timeout in prop::option::of(30..20_000_u64),
    ) {
        let mut s = HeartbeatSchedule::new(
            at(0), start, 0.3, described_first.then(|| of_timeout(first))
        );
        let key = HookKey {
            instance: "i-12345678".parse().unwrap(), group: "g".into(), hook: "h".into()
        };
        let hook = InterruptionFacts {
            kind: Some(Kind::TerminateHook), event_id: String::new(), time: at(0),
            accepted: begin(start),
            hook: Some(
                LifecycleAction { key: key.clone(), token: None }
            ), ends: None, state: None, stale: false, response: Response::Drain,
            settings: DrainSettings::NONE,
            reason: None,
        };
        let settings = LimitSettings {
            drain_timeout: drain_timeout.map(seconds), ..LimitSettings::default()
        };
        let ends = |s: &HeartbeatSchedule, now| {
            let l = limits(
                std::slice::from_ref(&hook), &[(hook.hook.clone().unwrap(), s.facts(now))].into(),
                begin(start), &settings
            );
            (s.facts(now).description.is_none(), l.force_at, l.end_at.unwrap())
        };
        let mut now = begin(start);
        let mut before = ends(&s, now);
        for step in all {
            let was_accepted = s.counts().accepted;
            match step {
                Step::Wait(ms) => now = now.plus(Duration::from_millis(ms.into())),
                Step::Describe(timeout) => s.described(now, of_timeout(timeout)),
                Step::Heartbeat { latency, answer } => if let Some(due) = s.due() {
                    now = now.max(due);
                    s.sent(now);
                    now = now.plus(Duration::from_millis(latency.into()));
                    match answer {
                        Answer::Accepted => s.accepted(now),
                        Answer::Failed => s.failed(now),
                        Answer::Gone => s.gone(now),
                    }
                },
            }
            let after = ends(&s, now);
            let moved_by_aws = s.counts().accepted > was_accepted || before.0;
            prop_assert!(moved_by_aws || after.2 <= before.2, "{before:?} {after:?}");
            prop_assert!(
                after.1.is_none_or(|f| f > begin(start)),
                "nothing is forced that was over when the drain was resumed"
            );
            before = after;
        }
    }

    #[test]
    fn no_heartbeat_is_ever_sent_after_the_global_timeout(
        timeout in timeouts(), all in prop::collection::vec(answers(), 1..300),
        latency in 0..10_000_u64
    ) {
        let mut s = HeartbeatSchedule::new(at(0), received(0), 0.5, Some(of_timeout(timeout)));
        let mut answers = all.into_iter().cycle();
        let sent = run(
            &mut s, at(0), at(400_000), Duration::from_millis(latency), |_| answers.next().unwrap()
        );
        let last = at(0).plus(
            of_timeout(timeout).global_timeout
        ).plus(Duration::from_millis(latency));
        prop_assert!(sent.into_iter().all(|t| t < last));
    }

    #[test]
    fn no_time_written_by_others_panics(
        event: i64, seen: i64, heartbeat: u64, global: u64, jitter: f64
    ) {
        let of = |n: i64| Moment::from_second(n).unwrap_or(
            if n < 0 { Moment::MIN } else { Moment::MAX }
        );
        let mut s = HeartbeatSchedule::new(
            of(event), ActionOrigin::Received(of(seen)), jitter, Some(described(heartbeat, global))
        );
        run(&mut s, of(seen), of(seen).plus(seconds(1000)), Duration::ZERO, |_| Answer::Failed);
        s.sent(of(seen));
        s.accepted(of(event));
        prop_assert!(s.facts(of(event)).description.is_some() && s.call_limit() >= seconds(1));
        let hook = InterruptionFacts::new(&Interruption {
            instance: "i-12345678".parse().unwrap(), event_id: String::new(), time: Some(of(event)),
            cause: Cause::Spot(SpotAction::Stop),
        }, &"i-12345678".parse().unwrap(), None, of(seen), false);
        prop_assert!(
            limits(&[hook], &[].into(), of(seen), &LimitSettings::default()).end_at.is_some()
        );
    }
}

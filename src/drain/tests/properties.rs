//! Properties that hold in random worlds, whatever happens. [`super::judge`] checks each order too.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    judge::AtEnd,
    world::{Override, World},
    *,
};
use crate::domain::CRITICAL_PRIORITY;

/// A random world, run until everything must have ended.
struct Case {
    random: fastrand::Rng,
    world: World,
    nodes: usize,
}

/// Seconds after which the server answers correctly, nothing is paused, and every drain has a
/// deadline.
const TROUBLE_ENDS: u64 = 1500;

impl Case {
    fn run(seed: u64, nodes: usize, pods: usize, budgets: usize, trouble: u8) -> World {
        let mut case = Self { random: fastrand::Rng::with_seed(seed), world: World::new(), nodes };
        case.furnish(pods, budgets);
        case.trouble(trouble);
        for node in 0..nodes {
            case.take_up(node);
        }
        case.world.run_until(at(TROUBLE_ENDS));
        case.world.answer = None;
        case.world.feed_dispatcher(DispatchInput::PausedAll(false));
        for node in 0..nodes {
            let end = Limits { accepted: at(TROUBLE_ENDS), ..limits(TROUBLE_ENDS + 300) };
            case.world.feed_at(at(TROUBLE_ENDS), &format!("n{node}"), Input::Resumed(end));
        }
        case.world.run_until(at(TROUBLE_ENDS + 1000));
        case.world
    }

    fn furnish(&mut self, pods: usize, budgets: usize) {
        self.world.stops_within = seconds(self.random.u64(0..60));
        self.world.replaced_after = self.random.bool().then(|| seconds(self.random.u64(1..60)));
        let mut priorities = self.random.fork();
        for i in 0..self.nodes * pods {
            let priority = if priorities.u8(0..4) == 0 { CRITICAL_PRIORITY } else { 0 };
            let pod = Pod { priority, ..self.pod(i) };
            self.world.add_pod(pod);
        }
        for i in 0..budgets {
            let selector = Selector::from_parts(
                [("app".to_owned(), format!("g{}", self.random.usize(0..3)))],
                [],
            );
            let key = BudgetKey { namespace: "default".into(), name: format!("b{i}") };
            let budget = Budget {
                key: key.clone(),
                selector,
                desired: self.random.i64(0..8),
                ..budget("", 0)
            };
            self.world.budgets.insert(key, budget);
        }
        // A budget that selects nothing: adding it updates the status of all budgets.
        self.world.add_budget("none", 0);
        self.world.orphaned.insert("ds1".into());
    }

    fn pod(&mut self, i: usize) -> Pod {
        let r = &mut self.random;
        let group = r.usize(0..4);
        let base = Pod {
            node: Some(format!("n{}", i % self.nodes).as_str().into()),
            labels: [("app".to_owned(), format!("g{group}"))].into(),
            grace: seconds([0, 1, 30, 30, 120, 900][r.usize(0..6)]),
            ready: r.u8(0..8) > 0,
            finalizers: r.u8(0..30) == 0,
            created: Some(at(0)),
            ..pod(&format!("p{i:03}"))
        };
        match r.u8(0..16) {
            0 => Pod { phase: PodPhase::Succeeded, ..base },
            1 => Pod { mirror: true, ..base },
            2 => Pod { tolerates_us: true, ..base },
            3 => Pod { owner: daemon("x", "ds0").owner, ..base },
            4 => Pod { owner: daemon("x", "ds1").owner, ..base },
            5 => Pod { deletion: Some(at(r.u64(0..4000))), finalizers: r.bool(), ..base },
            6 => Pod { phase: PodPhase::Pending, ready: false, ..base },
            _ => base,
        }
    }

    fn limits(&mut self) -> Limits {
        let r = &mut self.random;
        let urgent = r.bool();
        match r.u8(0..4) {
            0 => Limits::without_deadline(at(0), urgent),
            1 => Limits {
                end_at: Some(at(r.u64(1..3000))),
                ..Limits::without_deadline(at(0), urgent)
            },
            _ => Limits { urgent, ..limits(r.u64(1..1400)) },
        }
    }

    fn take_up(&mut self, node: usize) {
        let limits = self.limits();
        let own_pod = self.random.bool().then(|| key("p000"));
        let node = format!("n{node}");
        if self.random.bool() {
            self.world.feed_dispatcher(DispatchInput::Arrived);
            self.world.feed_dispatcher(DispatchInput::Accepted {
                node: node.as_str().into(),
                urgent: limits.urgent,
            });
            let settled = at_ms(self.random.u64(0..3000));
            self.world.feed_dispatcher_at(settled, DispatchInput::Settled);
        }
        self.world.drain_with(
            Start { node: node.as_str().into(), cordoned_at: at(0), limits, own_pod },
            Settings::default(),
        );
    }

    /// Makes `trouble` percent of the answers wrong, and as many other things happen at random
    /// times.
    fn trouble(&mut self, trouble: u8) {
        let mut random = self.random.fork();
        let wrong: Override = Box::new(move |_, order| {
            if random.u8(0..100) >= trouble {
                return None;
            }
            let evict = matches!(order, Order::Evict { .. });
            Some(match random.u8(0..13) {
                12 => answer(404, "NotFound", &format!("pods \"{}\" not found", order.pod().name)),
                0 => answer(0, "", "connection reset"),
                1 => answer(503, "", ""),
                2 => overload(Some(random.u64(0..5))),
                3 => answer(403, "Forbidden", "no"),
                4 => answer(409, "Conflict", "again"),
                5 => other_uid(),
                6 if evict => namespace_terminating(),
                7 if evict => lagging(),
                8 if evict => two_budgets(),
                9 => ok(),
                10 => answer(422, "Invalid", "what"),
                _ if evict => refused_by_budget(),
                _ => answer(504, "", ""),
            })
        });
        self.world.answer = Some(wrong);
        for _ in 0..u32::from(trouble) {
            let when = at_ms(self.random.u64(0..TROUBLE_ENDS * 1000));
            let node = format!("n{}", self.random.usize(0..self.nodes));
            let name = format!("p{:03}", self.random.usize(0..20));
            match self.random.u8(0..14) {
                12 => self.world.feed_at(when, &node, Input::Watch(WatchState::Blind)),
                13 => self.world.feed_at(when, &node, Input::Watch(WatchState::Open)),
                0 => self.world.feed_at(when, &node, Input::Paused),
                1 | 2 => {
                    let limits = self.limits();
                    self.world.feed_at(when, &node, Input::Resumed(limits));
                }
                3 => {
                    let limits = self.limits();
                    self.world.feed_at(when, &node, Input::Limits(limits));
                }
                4 => self.world.feed_at(when, &node, Input::Node(NodeCondition::Unreachable)),
                5 => self.world.feed_at(when, &node, Input::Node(NodeCondition::Fine)),
                6 => self.world.feed_at(when, &node, Input::Node(NodeCondition::InstanceOver)),
                7 => self.world.feed_dispatcher_at(when, DispatchInput::PausedAll(true)),
                8 => self.world.feed_dispatcher_at(when, DispatchInput::PausedAll(false)),
                9 => self.world.end_pod_at(when, &name),
                10 => self.world.flip_ready_at(when, &name),
                _ => {
                    let name = format!("late-{when}");
                    let late = Pod {
                        uid: name.as_str().into(),
                        node: Some(node.as_str().into()),
                        created: Some(when),
                        ..pod(&name)
                    };
                    self.world.set_pod_at(when, late);
                }
            }
        }
    }
}

/// Checks that a drain ended for the reason that it gave, by what the judge knew at that moment.
fn ended_rightly(at: Moment, outcome: &Outcome, end: &AtEnd) {
    let has_come = |limit: Option<Moment>| limit.is_some_and(|limit| limit <= at);
    let (is_forced, end_has_come) =
        (end.limits.force_at.is_some(), has_come(end.limits.end_at) && !end.is_paused);
    let left = match outcome {
        Outcome::Empty => {
            assert_eq!(end.waited_for, BTreeSet::new(), "the drain ended as empty");
            let settled = Some(end.cordoned.plus(seconds(5)));
            assert!(
                has_come(settled) || has_come(end.limits.end_at),
                "pods may still be on their way to the node"
            );
            return;
        }
        Outcome::DeadlineReached { left } => {
            assert!(is_forced && end_has_come, "{at}: no deadline is over: {end:?}");
            left
        }
        Outcome::NotEvicted { .. } | Outcome::Expired { .. } => {
            panic!("every drain here evicts pods of an instance that ends")
        }
        Outcome::TimedOut { left } => {
            assert!(!is_forced && end_has_come, "{at}: its time is not over: {end:?}");
            left
        }
        Outcome::Unreachable { left } => {
            assert!(
                has_come(end.unreachable.map(|since| since.plus(seconds(30)))) && !end.is_paused,
                "{at}: {end:?}"
            );
            left
        }
        Outcome::NodeGone
        | Outcome::InstanceOver
        | Outcome::Released { .. }
        | Outcome::Contradicted { .. } => return,
    };
    for pod in left {
        // A DaemonSet whose look-up has no answer may be gone.
        let may_be_left = [&end.waited_for, &end.of_daemon_sets, &end.left_alone]
            .into_iter()
            .any(|pods| pods.contains(pod));
        assert!(
            may_be_left,
            "{pod:?} is left, but the drain should not have waited for it: {end:?}"
        );
    }
}

fn at_rest(w: &World) {
    for (node, drain) in &w.drains {
        let Some((at, outcome)) = w.ended.get(node) else {
            panic!("{node} never ends: {:?}", drain.status(w.now))
        };
        ended_rightly(*at, outcome, &w.at_end[node]);
        assert_eq!(drain.next_wake(), None);
    }
    assert_eq!(
        (w.dispatcher.status(), w.dispatcher.next_wake()),
        (DispatchStatus::default(), None)
    );
}

proptest! {
    #![
        proptest_config(
            ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
        )
    ]

    #[test]
    fn whatever_happens_every_order_obeys_the_rules_and_every_drain_ends(
        seed in any::<u64>(), nodes in 1_usize..6, pods in 0_usize..16, budgets in 0_usize..4,
        trouble in 0_u8..60,
    ) {
        at_rest(&Case::run(seed, nodes, pods, budgets, trouble));
    }

    #[test]
    fn the_same_inputs_have_the_same_effects(
        seed in any::<u64>(), nodes in 1_usize..4, pods in 0_usize..8, trouble in 0_u8..60
    ) {
        let (a, b) = (
            Case::run(seed, nodes, pods, 2, trouble), Case::run(seed, nodes, pods, 2, trouble)
        );
        prop_assert_eq!(&a.sent, &b.sent);
        prop_assert_eq!(&a.notes, &b.notes);
        prop_assert_eq!(&a.ended, &b.ended);
    }

    #[test]
    fn without_trouble_or_deadline_nothing_is_forced_and_no_budget_is_overrun(
        seed in any::<u64>(), pods in 1_usize..12, desired in 0_i64..6,
    ) {
        let mut w = World::new();
        let mut random = fastrand::Rng::with_seed(seed);
        w.replaced_after = Some(seconds(random.u64(1..20)));
        for i in 0..pods {
            w.add_pod(
                Pod {
                    node: Some(format!("n{}", i % 3).as_str().into()), ..pod(&format!("p{i:02}"))
                }
            );
        }
        let desired = desired.min(i64::try_from(pods).unwrap() - 1);
        w.add_budget("pdb", desired);
        for node in ["n0", "n1", "n2"] {
            w.drain(node, limits(3600));
        }
        w.run_until(at(3000));
        prop_assert!(w.ended.values().all(|(_, o)| *o == Outcome::Empty) && w.ended.len() == 3);
        prop_assert_eq!(w.overrun, 0);
        let all_evictions = w.sent.iter().all(|s| matches!(s.order, Order::Evict { .. }));
        prop_assert!(all_evictions);
    }

    #[test]
    fn a_burst_ends_when_it_is_quiet_or_its_time_is_over(
        script in prop::collection::vec((0_u64..400, 0_u8..5, any::<bool>()), 1..60)
    ) {
        let mut d = Dispatcher::new(
            DispatchSettings {
                in_flight: 1000, initial_window: 1000, ..DispatchSettings::default()
            }
        );
        let (mut now, mut undecided, mut arrivals, mut accepts) = (0, 0_u32, vec![], vec![]);
        let mut sent = std::collections::BTreeMap::new();
        // The nodes that wait for each other, and when the last burst ended.
        let (mut held, mut opened): (Vec<(String, u64, bool)>, u64) = (vec![], 0);
        let mut script = script.into_iter().enumerate().peekable();
        loop {
            // The dispatcher's timers first, then the next step of the script.
            let wake = d.next_wake().map(|w| u64::try_from(
                w.since_or_zero(at(0)).as_millis()
            ).unwrap());
            let input = match (script.peek(), wake) {
                (None, None) => break,
                (next, Some(wake)) if next.is_none_or(|(_, (wait, ..))| wake <= now + wait) => {
                    now = now.max(wake);
                    vec![DispatchInput::Tick]
                }
                _ => {
                    let (i, (wait, what, urgent)) = script.next().unwrap();
                    now += wait;
                    match what {
                        0 | 1 => {
                            undecided += 1;
                            arrivals.push(now);
                            vec![DispatchInput::Arrived]
                        }
                        2 | 3 if undecided > 0 => {
                            undecided -= 1;
                            vec![DispatchInput::Settled]
                        }
                        _ => {
                            let name = format!("n{i}");
                            let (node, pod) = (name.as_str().into(), Arc::new(pod(&name)));
                            held.push((name.clone(), now, urgent));
                            accepts.push((name, now, urgent));
                            vec![
                                DispatchInput::Accepted {
                                    node: accepts[accepts.len() - 1].0.as_str().into(), urgent
                                },
                                DispatchInput::Request { node, pod, method: Method::Eviction }
                            ]
                        }
                    }
                }
            };
            let sends: Vec<_> = input.into_iter().flat_map(|i| d.step(at_ms(now), i)).collect();
            for DispatchEffect::Send { node, uid, .. } in sends {
                let more = d.step(
                    at_ms(now), DispatchInput::Answer { uid, class: Class::Accepted }
                );
                prop_assert_eq!(more, vec![]);
                let quiet = undecided == 0 && arrivals.last().is_none_or(|a| now >= a + 200);
                if held.iter().any(|(name, ..)| *name == *node.as_str()) {
                    let first = held.iter().map(|(_, at, _)| *at).min().unwrap();
                    let at_most = if held.iter().any(|(.., urgent)| *urgent) { 800 } else { 2000 };
                    prop_assert!(
                        quiet || now >= first + at_most, "{} is sent at {}, its burst began at {}",
                        node, now, first
                    );
                    held.clear();
                    opened = now;
                }
                prop_assert_eq!(opened, now, "{} is sent with its burst", node);
                sent.insert(node.to_string(), now);
            }
        }
        for (node, accepted, urgent) in accepts {
            let at_most = accepted + if urgent { 800 } else { 2000 };
            prop_assert!(sent.get(&node).is_some_and(|at| *at <= at_most), "{}", node);
        }
    }
}

//! What a drain does with each pod, and what decides that.

use super::*;
use crate::domain::{PodBehavior, PodMatch, PodRule, PodRules, RulePlace, Wish, WishSource};

fn rule(number: usize, app: &str, behavior: PodBehavior) -> PodRule {
    PodRule {
        place: RulePlace { number, line: 10 },
        matches: PodMatch { labels: format!("app={app}").parse().unwrap(), ..PodMatch::default() },
        behavior,
        max_grace_period: None,
        force_after: None,
    }
}

/// A pod whose name and label `app` are this.
fn app(name: &str) -> Pod {
    Pod { labels: [("app".to_owned(), name.to_owned())].into(), ..pod(name) }
}

fn asking(name: &str, value: &'static str) -> Pod {
    let annotation = |key: &str| (key == "sundown.dev/drain").then_some(value);
    Pod { wishes: PodWishes::read(annotation, &app(name).labels), ..app(name) }
}

fn drain_by(rules: Vec<PodRule>, limits: Limits) -> Drain {
    let rules = Arc::new(PodRules::new(rules).unwrap());
    let drained_daemon_sets = ["default/shipper".parse().unwrap()].into();
    let settings = Settings { drained_daemon_sets, rules, ..Settings::default() };
    let own_pod = Some(key("own"));
    Drain::new(Start { node: "n1".into(), cordoned_at: at(0), limits, own_pod }, settings)
}

fn plans(drain: &Drain, now: u64) -> Vec<(String, PodPlan, DecidedBy)> {
    let explained = drain.explain_pods(at(now)).into_iter();
    explained.map(|one| (one.pod.name.clone(), one.plan, one.decided_by)).collect()
}

#[test]
fn each_pod_has_a_plan_and_what_decides_it() {
    let mut drain = drain_by(
        vec![
            rule(1, "skipped", PodBehavior::Skip),
            rule(2, "job", PodBehavior::WaitCompleted),
            rule(3, "ruled", PodBehavior::Evict(None)),
        ],
        limits(3600),
    );
    let deleted = Pod { deletion: Some(at(40)), ..app("deleted") };
    let pods = vec![
        app("plain"),
        app("skipped"),
        app("job"),
        app("ruled"),
        asking("last", "last"),
        asking("waits", "wait"),
        asking("stays", "skip"),
        Pod { phase: PodPhase::Succeeded, ..app("finished") },
        Pod { mirror: true, ..app("static") },
        Pod { tolerates_us: true, ..app("tolerant") },
        Pod { priority: 2_000_000_000, ..app("critical") },
        daemon("daemon", "proxy"),
        daemon("orphan", "old"),
        daemon("asked", "new"),
        daemon("shipped", "shipper"),
        deleted,
        app("own"),
    ];
    drain.step(at(1), Input::Listed(pods));
    for (name, state) in [("proxy", DaemonSetState::Exists), ("old", DaemonSetState::Gone)] {
        let (namespace, name) = ("default".to_owned(), name.to_owned());
        drain.step(at(1), Input::DaemonSet { namespace, name, state });
    }
    let group = |group, until| PodPlan::WaitsForGroups { group, groups: 4, until: at(until) };
    let asked = |wish| DecidedBy::Asked(WishSource::Sundown, wish);
    let expected = [
        ("asked", PodPlan::LooksUpDaemonSet, DecidedBy::DaemonSet),
        ("critical", group(3, 900), DecidedBy::PodOrder),
        ("daemon", PodPlan::Stays, DecidedBy::DaemonSet),
        ("deleted", PodPlan::Terminates(at(40)), DecidedBy::Deletion),
        ("finished", PodPlan::Stays, DecidedBy::Finished),
        ("job", PodPlan::WaitsToFinish(at(1800)), DecidedBy::Rule(PodBehavior::WaitCompleted)),
        ("last", group(5, 1800), asked(Wish::Last)),
        ("orphan", PodPlan::Evicts, DecidedBy::DeletedDaemonSet),
        ("own", PodPlan::WaitsForOthers, DecidedBy::OwnPod),
        ("plain", PodPlan::Evicts, DecidedBy::Default),
        ("ruled", PodPlan::Evicts, DecidedBy::Rule(PodBehavior::Evict(None))),
        ("shipped", group(2, 450), DecidedBy::PodOrder),
        ("skipped", PodPlan::Stays, DecidedBy::Rule(PodBehavior::Skip)),
        ("static", PodPlan::Stays, DecidedBy::StaticPod),
        ("stays", PodPlan::Stays, asked(Wish::Skip)),
        ("tolerant", PodPlan::Stays, DecidedBy::Toleration),
        ("waits", PodPlan::WaitsToFinish(at(1800)), asked(Wish::Wait)),
    ];
    let expected: Vec<_> =
        expected.into_iter().map(|(name, plan, by)| (name.to_owned(), plan, by)).collect();
    assert_eq!(plans(&drain, 1), expected);
    let late = plans(&drain, 1900);
    let job = late.iter().find(|(name, ..)| name == "job").unwrap();
    assert_eq!(job.1, PodPlan::Evicts, "its time is over");
    let by = DecidedBy::Rule(PodBehavior::WaitCompleted);
    assert_eq!(job.2, by, "and its rule still decides");
}

#[test]
fn the_orders_of_rules_decide_about_groups_and_a_pause_does_not_count() {
    let mut drain = drain_by(
        vec![
            rule(1, "first", PodBehavior::Evict(Some(-1))),
            rule(2, "b", PodBehavior::Evict(None)),
        ],
        limits(3600),
    );
    drain.step(at(1), Input::Listed(vec![app("first"), app("b"), app("c")]));
    drain.step(at(1), Input::Paused);
    let wait = PodPlan::WaitsForGroups { group: 2, groups: 2, until: at(900) };
    assert_eq!(
        plans(&drain, 1),
        [
            ("b".to_owned(), wait, DecidedBy::Rule(PodBehavior::Evict(None))),
            ("c".to_owned(), wait, DecidedBy::Default),
            ("first".to_owned(), PodPlan::Evicts, DecidedBy::Rule(PodBehavior::Evict(Some(-1)))),
        ]
    );
}

#[test]
fn a_rule_shows_what_it_changes_besides_its_behavior() {
    let short = PodRule {
        max_grace_period: Some(seconds(10)),
        force_after: Some(ForceAfter::Never),
        ..rule(1, "a", PodBehavior::WaitCompleted)
    };
    let mut drain = drain_by(vec![short], limits(3600));
    drain.step(at(1), Input::Listed(vec![asking("a", "last"), app("b")]));
    let explained = drain.explain_pods(at(1));
    let [a, b] = &explained[..] else { panic!("{explained:?}") };
    let rule = a.rule.unwrap();
    assert_eq!((rule.place.number, rule.limits_grace, rule.sets_force), (1, true, true));
    assert_eq!((a.grace, a.forced_from), (seconds(10), None));
    assert_eq!((b.rule, b.grace, b.forced_from), (None, seconds(30), Some(at(3570))));
}

//! The administrator's rules about pods (`--rules-file`).

use super::*;
use crate::domain::{
    PodBehavior, PodMatch, PodRule, PodRules, PodWishes, RulePlace, Wish, WishSource,
};

/// A rule for the pods with the label `app: APP`.
fn rule(app: &str, behavior: PodBehavior) -> PodRule {
    let matches = PodMatch { labels: format!("app={app}").parse().unwrap(), ..PodMatch::default() };
    let place = RulePlace::default();
    PodRule { place, matches, behavior, max_grace_period: None, force_after: None }
}

fn settings(rules: Vec<PodRule>) -> Arc<Settings> {
    let rules = Arc::new(PodRules::new(rules).unwrap());
    Arc::new(Settings { rules, ..Settings::default() })
}

fn drain_by(rules: Vec<PodRule>, limits: Limits) -> Drain {
    let start = Start { node: "n1".into(), cordoned_at: at(0), limits, own_pod: None };
    Drain::new(start, settings(rules))
}

/// A pod whose name and label `app` are this.
fn app(name: &str) -> Pod {
    Pod { labels: [("app".to_owned(), name.to_owned())].into(), ..pod(name) }
}

fn requested(effects: &[Effect]) -> Vec<String> {
    let mut names: Vec<_> = requests(effects).into_iter().map(|(name, _)| name).collect();
    names.sort();
    names
}

fn gone(drain: &mut Drain, now: u64, name: &str) -> Vec<String> {
    requested(&drain.step(at(now), Input::Gone(uid(name))))
}

/// The cases of Cluster API's drain: an order of its own, order 0 for pods without a rule and for
/// those that must complete.
#[test]
fn s21_pods_go_by_the_orders_of_rules_and_those_that_must_complete_have_order_0() {
    let rules = vec![
        rule("first", PodBehavior::Evict(Some(-5))),
        rule("later", PodBehavior::Evict(Some(11))),
        rule("job", PodBehavior::WaitCompleted),
        rule("stays", PodBehavior::Skip),
    ];
    let mut d = drain_by(rules, limits(3600));
    let pods = ["first", "later", "job", "stays", "plain"].map(app).to_vec();
    assert_eq!(requested(&d.step(at(1), Input::Listed(pods))), ["first"]);
    let counts = d.status(at(2)).counts;
    assert_eq!((counts.left, counts.asked_to_wait, counts.untouched), (4, 1, 1));
    assert_eq!(gone(&mut d, 3, "first"), ["plain"]);
    assert_eq!(gone(&mut d, 4, "plain"), [""; 0]);
    let finished = Pod { phase: PodPhase::Succeeded, ..app("job") };
    assert_eq!(requested(&d.step(at(5), Input::Changed(finished))), ["later"]);
    let effects = d.step(at(9), Input::Gone(uid("later")));
    assert_eq!(ended(&effects), Some(&Outcome::Empty));
}

#[test]
fn a_pod_of_a_rule_waits_as_long_as_one_that_asks_for_it() {
    let job = || vec![rule("job", PodBehavior::WaitCompleted)];
    let mut d = drain_by(job(), limits(3600));
    let effects = d.step(at(0), Input::Listed(vec![app("job")]));
    let note = Note::Wish {
        pod: key("job"),
        uid: uid("job"),
        key: WishSource::Rule,
        wish: Wish::Wait,
        until: Some(at(1800)),
    };
    assert_eq!((requested(&effects), notes(&effects)), (vec![], vec![&note]));
    let asked = &d.status(at(1)).asked_to_wait;
    assert!(asked[0].describe().starts_with("1 pod waits (--rules-file) until "), "{asked:?}");
    assert_eq!(requested(&d.step(at(1800), Input::Tick)), ["job"]);
    let mut short = drain_by(job(), limits(300));
    assert_eq!(requested(&short.step(at(0), Input::Listed(vec![app("job")]))), ["job"]);
}

#[test]
fn what_a_pod_asks_for_itself_counts_more_than_a_rule() {
    let rules = vec![rule("web", PodBehavior::Skip), rule("db", PodBehavior::WaitCompleted)];
    let mut d = drain_by(rules, limits(3600));
    let asking = |name: &str, value: &'static str| {
        let annotation = |key: &str| (key == "sundown.dev/drain").then_some(value);
        Pod { wishes: PodWishes::read(annotation, &app(name).labels), ..app(name) }
    };
    d.step(at(1), Input::Listed(vec![asking("web", "wait"), asking("db", "skip")]));
    let counts = d.status(at(2)).counts;
    assert_eq!((counts.left, counts.asked_to_wait, counts.untouched), (1, 1, 1));
}

#[test]
fn a_rule_shortens_grace_periods_and_says_when_its_pods_are_forced() {
    let short = PodRule {
        max_grace_period: Some(seconds(60)),
        force_after: Some(ForceAfter::Never),
        ..rule("slow", PodBehavior::Evict(None))
    };
    let mut d = drain_by(vec![short], limits(3600));
    let slow = |name| Pod { grace: seconds(900), ..app(name) };
    d.step(at(1), Input::Listed(vec![slow("slow"), slow("other")]));
    assert_eq!(d.order(&uid("slow"), at(1), true), Some(evict("slow", Some(60))));
    assert_eq!(d.order(&uid("other"), at(1), true), Some(evict("other", Some(900))));
    assert_eq!(d.forced_from(&slow("slow")), None);
    assert_eq!(d.forced_from(&slow("other")), Some(at(2700)));
}

#[test]
fn pods_that_stay_for_other_reasons_stay_whatever_a_rule_says() {
    let rules =
        vec![PodRule { matches: PodMatch::default(), ..rule("", PodBehavior::Evict(Some(1))) }];
    let mut d = drain_by(rules, limits(3600));
    let pods = vec![
        Pod { mirror: true, ..app("static") },
        Pod { tolerates_us: true, ..app("tolerant") },
        Pod { phase: PodPhase::Failed, ..app("failed") },
        daemon("daemon", "proxy"),
    ];
    assert_eq!(requested(&d.step(at(1), Input::Listed(pods))), [""; 0]);
    assert_eq!(d.status(at(1)).counts.untouched, 3);
}

fn namespaces(rules: Vec<PodRule>, known: &[(&str, &str)]) -> Arc<Settings> {
    let of_team = |team: &str| [("team".to_owned(), team.to_owned())].into();
    let known = known.iter().map(|(name, team)| ((*name).to_owned(), of_team(team)));
    let namespaces = Arc::new(known.collect());
    Arc::new(Settings { namespaces, ..(*settings(rules)).clone() })
}

fn of_team(team: &str, behavior: PodBehavior) -> PodRule {
    let namespace_labels = format!("team={team}").parse().unwrap();
    let matches = PodMatch { namespace_labels, ..PodMatch::default() };
    PodRule { matches, ..rule("", behavior) }
}

#[test]
fn a_pod_waits_for_the_labels_of_its_namespace_for_three_seconds() {
    let rules = || vec![rule("b", PodBehavior::Evict(None)), of_team("batch", PodBehavior::Skip)];
    let start = || {
        let mut d = drain_by(rules(), limits(3600));
        let effects = d.step(at(1), Input::Listed(vec![app("a"), app("b")]));
        // The first rule decides about `b`, whatever its namespace.
        assert_eq!(requested(&effects), ["b"]);
        assert!(effects.contains(&Effect::AskNamespaces), "{effects:?}");
        d
    };
    let mut skipped = start();
    let batch = namespaces(rules(), &[("default", "batch")]);
    assert_eq!(requested(&skipped.step(at(2), Input::Settings(batch))), [""; 0]);
    assert_eq!(skipped.status(at(9)).counts.untouched, 1);

    let mut other = start();
    let web = namespaces(rules(), &[("default", "web")]);
    assert_eq!(requested(&other.step(at(2), Input::Settings(web))), ["a"]);

    let mut unknown = start();
    assert_eq!(unknown.next_wake(), Some(at(4)));
    let effects = unknown.step(at(5), Input::Tick);
    assert_eq!(requested(&effects), ["a"], "a rule does not match by labels that are not known");
    assert_eq!(notes(&effects), [&Note::NamespaceUnknown { pod: key("a") }]);
    assert_eq!(notes(&unknown.step(at(6), Input::Tick)).len(), 0);
    // They count as soon as they are known.
    let batch = namespaces(rules(), &[("default", "batch")]);
    let effects = unknown.step(at(7), Input::Settings(batch));
    let cancel = Effect::Dispatch(DispatchInput::Cancel { uid: uid("a") });
    assert!(effects.contains(&cancel), "{effects:?}");
}

#[test]
fn pods_wait_for_those_that_may_be_of_the_first_group_until_the_labels_are_known() {
    let rules = || vec![of_team("edge", PodBehavior::Evict(Some(-1)))];
    let gateway = || {
        let key = PodKey { namespace: "edge".into(), ..key("gateway") };
        Pod { key, ..app("gateway") }
    };
    let listed = || {
        let mut d = drain_by(rules(), limits(3600));
        let pods = vec![gateway(), app("web")];
        assert_eq!(requested(&d.step(at(1), Input::Listed(pods))), [""; 0]);
        d
    };
    let mut known = listed();
    // The labels of one namespace come first: the other pod may still be of the first group.
    let one = namespaces(rules(), &[("default", "shop")]);
    assert_eq!(requested(&known.step(at(2), Input::Settings(one))), [""; 0]);
    let both = namespaces(rules(), &[("default", "shop"), ("edge", "edge")]);
    assert_eq!(requested(&known.step(at(2), Input::Settings(both))), ["gateway"]);
    assert_eq!(gone(&mut known, 9, "gateway"), ["web"]);
    let mut unknown = listed();
    assert_eq!(requested(&unknown.step(at(3), Input::Tick)), [""; 0]);
    assert_eq!(requested(&unknown.step(at(4), Input::Tick)), ["gateway", "web"]);
}

#[test]
fn a_change_of_the_rules_counts_at_once() {
    let mut d = drain_by(Vec::new(), limits(3600));
    assert_eq!(requested(&d.step(at(1), Input::Listed(vec![app("a"), app("b")]))), ["a", "b"]);
    let wait_for_a = settings(vec![rule("a", PodBehavior::WaitCompleted)]);
    let effects = d.step(at(2), Input::Settings(Arc::clone(&wait_for_a)));
    let cancel = |name: &str| Effect::Dispatch(DispatchInput::Cancel { uid: uid(name) });
    assert!(effects.contains(&cancel("a")) && !effects.contains(&cancel("b")), "{effects:?}");
    assert_eq!(d.step(at(3), Input::Settings(wait_for_a)).len(), 0, "nothing has changed");
    let skip_a = settings(vec![rule("a", PodBehavior::Skip)]);
    assert!(d.skipped().is_empty());
    d.step(at(4), Input::Settings(skip_a));
    assert_eq!(d.skipped().into_values().sum::<usize>(), 1);
    let effects = d.step(at(6), Input::Gone(uid("b")));
    assert_eq!(ended(&effects), Some(&Outcome::Empty));

    let mut d = drain_by(vec![rule("a", PodBehavior::Skip)], limits(3600));
    d.step(at(1), Input::Listed(vec![app("a"), app("b")]));
    let effects = d.step(at(2), Input::Settings(settings(Vec::new())));
    assert_eq!(requested(&effects), ["a"]);
}

fn evicts(d: &mut Drain, now: u64, name: &str) {
    let order = d.order(&uid(name), at(now), true).unwrap();
    d.step(at(now), Input::Answer { order, answer: ok() });
}

/// The machine must not go in the middle of their grace period.
#[test]
fn pods_that_are_leaving_count_although_a_new_rule_leaves_them_alone() {
    let skip = || Input::Settings(settings(vec![rule("a", PodBehavior::Skip)]));
    let leaving = || Pod { deletion: Some(at(60)), ..app("a") };
    let begun = || {
        let mut d = drain_by(Vec::new(), limits(3600));
        assert_eq!(requested(&d.step(at(1), Input::Listed(vec![app("a")]))), ["a"]);
        d
    };
    let mut after_deletion = begun();
    evicts(&mut after_deletion, 30, "a");
    after_deletion.step(at(31), Input::Changed(leaving()));
    let mut after_answer = begun();
    evicts(&mut after_answer, 30, "a");
    for (row, mut d) in [("deletion", after_deletion), ("answer", after_answer)] {
        assert_eq!(ended(&d.step(at(31), skip())), None, "{row}");
        assert_eq!(ended(&d.step(at(33), Input::Changed(leaving()))), None, "{row}");
        assert_eq!(ended(&d.step(at(50), Input::Tick)), None, "{row}");
        assert_eq!(d.status(at(50)).counts.leaving, 1, "{row}");
        let effects = d.step(at(60), Input::Gone(uid("a")));
        assert_eq!(ended(&effects), Some(&Outcome::Empty), "{row}");
    }
    // The answer comes after the rule.
    let mut d = begun();
    d.step(at(2), Input::Changed(app("b")));
    let order = d.order(&uid("a"), at(30), true).unwrap();
    d.step(at(31), skip());
    d.step(at(32), Input::Answer { order, answer: ok() });
    assert_eq!(ended(&d.step(at(33), Input::Gone(uid("b")))), None);
    d.step(at(34), Input::Changed(leaving()));
    assert_eq!(ended(&d.step(at(60), Input::Gone(uid("a")))), Some(&Outcome::Empty));
    // The watch shows the deletion after the rule and before the answer.
    let mut d = begun();
    d.step(at(2), Input::Changed(app("b")));
    let order = d.order(&uid("a"), at(30), true).unwrap();
    d.step(at(31), skip());
    d.step(at(32), Input::Changed(leaving()));
    d.step(at(33), Input::Answer { order, answer: ok() });
    assert_eq!(ended(&d.step(at(34), Input::Gone(uid("b")))), None);
    assert_eq!(ended(&d.step(at(60), Input::Gone(uid("a")))), Some(&Outcome::Empty));
}

#[test]
fn a_new_leader_waits_for_terminating_pods_that_a_rule_leaves_alone() {
    let leaving = |pod: Pod| Pod { deletion: Some(at(600)), ..pod };
    let listed_by_new_leader = |pod: Pod| {
        let rules = vec![rule("a", PodBehavior::Skip)];
        let mut d = drain_by(rules, limits(3600)).taken_over(at(60));
        let effects = d.step(at(61), Input::Listed(vec![leaving(pod)]));
        assert!(requests(&effects).is_empty(), "{effects:?}");
        d
    };
    let mut d = listed_by_new_leader(app("a"));
    for now in [62, 100, 600] {
        assert_eq!(ended(&d.step(at(now), Input::Tick)), None, "{now}");
    }
    assert_eq!(ended(&d.step(at(601), Input::Gone(uid("a")))), Some(&Outcome::Empty));
    for stays in [
        Pod { mirror: true, ..app("a") },
        Pod { tolerates_us: true, ..app("a") },
        Pod { owner: daemon("d", "proxy").owner, ..app("a") },
    ] {
        let d = listed_by_new_leader(stays.clone());
        assert_eq!(d.status(at(62)).counts.left, 0, "{stays:?}");
    }
}

#[test]
fn a_new_rule_leaves_a_pod_alone_whose_eviction_had_no_effect() {
    let skip = || Input::Settings(settings(vec![rule("a", PodBehavior::Skip)]));
    for rule_at in [31, 300] {
        let mut d = drain_by(Vec::new(), limits(3600));
        d.step(at(1), Input::Listed(vec![app("a")]));
        evicts(&mut d, 30, "a");
        let mut over = false;
        for now in 31..=400 {
            let effects = d.step(at(now), if now == rule_at { skip() } else { Input::Tick });
            over |= ended(&effects) == Some(&Outcome::Empty);
            assert!(now < rule_at || requests(&effects).is_empty(), "{now}: {effects:?}");
        }
        assert!(over, "{rule_at}");
    }
}

#[test]
fn a_pod_that_asks_to_reach_an_age_keeps_the_rest_of_its_rule() {
    let drain_of = |rules: Vec<PodRule>| {
        let honored = [WishSource::Karpenter].into();
        let rules = Arc::new(PodRules::new(rules).unwrap());
        let start =
            Start { node: "n1".into(), cordoned_at: at(0), limits: limits(3600), own_pod: None };
        Drain::new(start, Settings { honored, rules, ..Settings::default() })
    };
    let asking = |name: &str, created: u64| {
        let annotation = |key: &str| (key == WishSource::Karpenter.as_str()).then_some("30m");
        let wishes = PodWishes::read(annotation, &app(name).labels);
        Pod { wishes, created: Some(at(0).minus(seconds(created))), ..app(name) }
    };
    for created in [60, 3 * 86_400] {
        let mut d = drain_of(vec![rule("a", PodBehavior::Skip)]);
        assert_eq!(requested(&d.step(at(1), Input::Listed(vec![asking("a", created)]))), [""; 0]);
        assert_eq!(d.status(at(1)).counts.untouched, 1, "{created}");
        let mut d = drain_of(vec![rule("a", PodBehavior::WaitCompleted)]);
        assert_eq!(requested(&d.step(at(1), Input::Listed(vec![asking("a", created)]))), [""; 0]);
        assert_eq!(d.status(at(1)).counts.asked_to_wait, 1, "{created}");
        assert_eq!(requested(&d.step(at(1799), Input::Tick)), [""; 0], "{created}");
        assert_eq!(requested(&d.step(at(1800), Input::Tick)), ["a"], "{created}");
    }
    // An order counts, and the pod waits for its age, too.
    let mut d = drain_of(vec![rule("a", PodBehavior::Evict(Some(1)))]);
    let pods = vec![asking("a", 3 * 86_400), app("b")];
    assert_eq!(requested(&d.step(at(1), Input::Listed(pods))), ["b"]);
    assert_eq!(requested(&d.step(at(9), Input::Gone(uid("b")))), ["a"]);
    let mut d = drain_of(vec![rule("a", PodBehavior::Evict(None))]);
    assert_eq!(requested(&d.step(at(1), Input::Listed(vec![asking("a", 1500)]))), [""; 0]);
    assert_eq!(requested(&d.step(at(300), Input::Tick)), ["a"]);
}

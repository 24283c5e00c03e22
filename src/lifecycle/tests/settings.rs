//! Settings of a drain that its hook or its Node gives.

use std::collections::BTreeMap;

use super::*;

/// A hook whose event came at 0, with these settings in its NotificationMetadata.
fn hook(settings: &str) -> InterruptionFacts {
    let metadata = format!(r#"{{"sundown":{settings}}}"#);
    let (settings, problems) = DrainSettings::of_metadata(&metadata);
    assert_eq!(problems, [], "{metadata}");
    let key = HookKey {
        instance: "i-12345678".parse().unwrap(),
        group: "asg".into(),
        hook: "drain".into(),
    };
    InterruptionFacts {
        kind: Some(Kind::TerminateHook),
        event_id: "e".into(),
        time: at(0),
        accepted: at(0),
        hook: Some(LifecycleAction { key, token: None }),
        ends: None,
        state: None,
        stale: false,
        response: Response::Drain,
        settings,
        reason: None,
    }
}

fn node(annotations: &[(&str, &str)]) -> Node {
    let annotations =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Node { annotations, ..Node::for_test("a") }
}

#[test]
fn the_drain_timeout_is_that_of_the_node_then_of_the_hook_then_of_the_flag() {
    let described = of_timeout(300);
    for (flag, of_hook, of_node, expected) in [
        (None, "{}", None, 3600),
        (Some(600), "{}", None, 600),
        (Some(600), r#"{"drain-timeout":"5m"}"#, None, 300),
        (None, r#"{"drain-timeout":"4h"}"#, None, 14_400),
        (Some(600), r#"{"drain-timeout":"5m"}"#, Some("2m"), 120),
        (Some(600), "{}", Some("2m"), 120),
        // The flags do not allow it.
        (Some(600), r#"{"drain-timeout":"4h"}"#, None, 600),
        (Some(600), r#"{"drain-timeout":"5m"}"#, Some("4h"), 300),
        // AWS ends the action after 100 timeouts.
        (None, r#"{"drain-timeout":"20h"}"#, None, 30_000 - 60),
    ] {
        let longest = flag.map_or(seconds(48 * 3600), seconds);
        let settings = LimitSettings {
            drain_timeout: flag.map(seconds),
            allowed: AllowedSettings {
                longest_drain_timeout: longest,
                ..AllowedSettings::default()
            },
            ..LimitSettings::default()
        };
        let annotations: Vec<_> = of_node.map(|value| (DRAIN_TIMEOUT, value)).into_iter().collect();
        let settings = LimitSettings { node: settings.of_node(&node(&annotations)).0, ..settings };
        let hook = hook(of_hook);
        let facts = HookFacts {
            description: Some(described.clone()),
            seen: ActionSeen::Open,
            ..HookFacts::default()
        };
        let hooks = [(hook.hook.clone().unwrap(), facts)].into();
        let limits = limits(&[hook], &hooks, at(0), &settings);
        let expected = Some(at(expected - 2));
        assert_eq!(limits.end_at, expected, "{flag:?} {of_hook} {of_node:?}");
    }
}

#[test]
fn of_two_hooks_each_has_its_own_timeout_and_of_the_other_settings_the_gentler_one_counts() {
    let one = hook(r#"{"drain-timeout":"30m","force-after":"never","complete-delay":"10s"}"#);
    let two = hook(r#"{"drain-timeout":"10m","force-after":0.9,"max-grace-period":"1m"}"#);
    let settings = LimitSettings::default();
    let seen = |seen: ActionSeen| -> BTreeMap<_, _> {
        let facts = HookFacts { seen, ..HookFacts::default() };
        [&one, &two].map(|hook| (hook.hook.clone().unwrap(), facts.clone())).into()
    };
    let limits_if = |facts| limits(&[one.clone(), two.clone()], &facts, at(0), &settings);
    let unconfirmed = limits_if(seen(ActionSeen::Unanswered));
    assert_eq!(unconfirmed.end_at, Some(at(3598)), "an event alone shortens nothing");
    let both = limits_if(seen(ActionSeen::Open));
    assert_eq!(both.end_at, Some(at(598)), "the earlier deadline rules");
    let open = seen(ActionSeen::Open);
    let both_hooks = [one.clone(), two.clone()];
    let with = with_settings(both, &both_hooks, &open, &settings).settings;
    let expected = DrainSettings {
        drain_timeout: Some(seconds(1800)),
        force_after: Some(ForceAfter::Never),
        max_grace_period: Some(seconds(60)),
        complete_delay: Some(seconds(10)),
    };
    assert_eq!(with, expected);
    let unconfirmed = seen(ActionSeen::Unanswered);
    let with = with_settings(both, &both_hooks, &unconfirmed, &settings).settings;
    assert_eq!((with.max_grace_period, with.drain_timeout), (None, None), "they take time away");
    assert_eq!(with.force_after, Some(ForceAfter::Never), "it takes no time away");
    let of_node = settings.of_node(&node(&[(FORCE_AFTER, "0.75"), (COMPLETE_DELAY, "soon")]));
    let (of_node, problems) = of_node;
    assert_eq!(problems.len(), 1, "{problems:?}");
    let settings = LimitSettings { node: of_node, ..settings };
    let two = hook(r#"{"force-after":"deadline","complete-delay":"20s"}"#);
    let merged = with_settings(both, &[two], &BTreeMap::new(), &settings).settings;
    assert_eq!(merged.force_after, Some(ForceAfter::Share(0.75)), "the Node takes precedence");
    assert_eq!(merged.complete_delay, Some(seconds(20)), "a bad annotation does not hide the hook");
}

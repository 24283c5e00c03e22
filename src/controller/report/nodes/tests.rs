use super::*;
use crate::domain::{DrainSettings, HookKey, InstanceId, LifecycleAction, Moment, PodKey, seconds};

fn event_of(event: &DrainEvent) -> Option<(Severity, EventReason, String)> {
    let note = note(&"a".into(), event)?;
    assert_eq!(note.about, About::Node("a".into()));
    Some((note.severity, note.reason, note.message))
}

fn action() -> LifecycleAction {
    let instance: InstanceId = "i-00000000000000001".parse().unwrap();
    LifecycleAction {
        key: HookKey { group: "workers".into(), hook: "drain".into(), instance },
        token: None,
    }
}

#[test]
fn a_node_gets_an_event_about_what_people_can_act_on() {
    use EventReason as Reason;
    use Severity::{Normal, Warning};
    let at = Moment::UNIX_EPOCH.plus(seconds(60));
    let instance = action().key.instance;
    for (event, severity, reason, expected) in [
        (DrainEvent::Uncordoned, Warning, Reason::Uncordoned, "sundown release"),
        (
            DrainEvent::Paused { by: PausedBy::Lease },
            Warning,
            Reason::Paused,
            "`sundown resume` ends",
        ),
        (
            DrainEvent::Paused { by: PausedBy::Node },
            Warning,
            Reason::Paused,
            "`sundown resume a` ends",
        ),
        (
            DrainEvent::Paused { by: PausedBy::Both },
            Warning,
            Reason::Paused,
            "`sundown resume` and `sundown resume a` together",
        ),
        (
            DrainEvent::Resumed { ends: Some(at) },
            Normal,
            Reason::Resumed,
            "1970-01-01T00:01:00Z at the latest",
        ),
        (DrainEvent::Resumed { ends: None }, Normal, Reason::Resumed, "goes on."),
        (
            DrainEvent::NoLongerManaged { is_ignored: true },
            Warning,
            Reason::NoLongerManaged,
            "sundown.dev/ignore",
        ),
        (
            DrainEvent::NoLongerManaged { is_ignored: false },
            Warning,
            Reason::NoLongerManaged,
            "node selector",
        ),
        (
            DrainEvent::SettingsIgnored(
                DrainSettings::of_metadata(r#"{"sundown":{"drain-timeout":"9d"}}"#).1,
            ),
            Warning,
            Reason::SettingsIgnored,
            "`sundown.drain-timeout` in the hook's NotificationMetadata is `9d`: use hours",
        ),
        (DrainEvent::RecordDamaged("bad".to_owned()), Warning, Reason::RecordDamaged, "bad"),
        (
            DrainEvent::RecordVoid { instance, why: VoidReason::Rebooted },
            Normal,
            Reason::RecordVoid,
            "Sundown undoes its changes, when the instance is back.",
        ),
        (
            DrainEvent::RecordVoid {
                instance: action().key.instance,
                why: VoidReason::OtherInstance,
            },
            Normal,
            Reason::RecordVoid,
            "it names another instance. Sundown undoes its changes.",
        ),
        (DrainEvent::HooksKeptOpen(vec![action()]), Normal, Reason::HookKeptOpen, "workers/drain"),
        (
            DrainEvent::ActionEnded(action(), ActionEnd::Completed(HookResult::Continue)),
            Normal,
            Reason::LifecycleCompleted,
            "completed with CONTINUE",
        ),
        (
            DrainEvent::ActionEnded(action(), ActionEnd::AlreadyClosed),
            Normal,
            Reason::LifecycleOver,
            "was over already",
        ),
        (
            DrainEvent::ActionEnded(action(), ActionEnd::NotOurs),
            Normal,
            Reason::HookNotOurs,
            "left to its owner",
        ),
    ] {
        let (found, found_reason, message) = event_of(&event).unwrap();
        assert_eq!((found, found_reason), (severity, reason), "{event:?}");
        assert!(message.contains(expected), "{message}");
    }
    for event in [
        DrainEvent::KubeletSilent,
        DrainEvent::NodeRestored,
        DrainEvent::ReleaseRequested,
        DrainEvent::Forgotten,
    ] {
        assert_eq!(event_of(&event), None, "{event:?}: a log line is enough");
    }
}

#[test]
fn the_event_about_the_end_of_a_drain_is_a_warning_if_pods_are_left_or_unknown() {
    let left = || vec![PodKey { namespace: "shop".into(), name: "web-1".into() }];
    for (outcome, pods_are_known, forced, expected) in [
        (Outcome::Empty, true, &[][..], &[(Severity::Normal, "drained after 7s (empty)")][..]),
        (
            Outcome::InstanceOver,
            false,
            &[],
            &[(Severity::Normal, "drained after 7s (instance_over)")],
        ),
        (
            Outcome::Released { left: vec![] },
            true,
            &[],
            &[(Severity::Normal, "drained after 7s (released)")],
        ),
        (
            Outcome::Released { left: vec![] },
            false,
            &[],
            &[(Severity::Warning, "ended after 7s (released) before its pods were listed")],
        ),
        (
            Outcome::DeadlineReached { left: left() },
            true,
            &["shop/web-0"],
            &[
                (Severity::Warning, "1 pod deleted, not evicted in time: shop/web-0"),
                (Severity::Warning, "ended after 7s (deadline) with 1 pod left: shop/web-1"),
            ],
        ),
    ] {
        let forced: Vec<String> = forced.iter().map(ToString::to_string).collect();
        let found = of_end(&outcome, pods_are_known, 0, seconds(7), &forced);
        let found: Vec<_> =
            found.iter().map(|(severity, _, message)| (*severity, message.as_str())).collect();
        assert_eq!(found, expected);
    }
    for (outcome, skipped, expected) in [
        (Outcome::Empty, 1, "drained after 7s (empty); 1 pod was left alone, as it or a rule asks"),
        (
            Outcome::DeadlineReached { left: left() },
            2,
            "ended after 7s (deadline) with 1 pod left: shop/web-1; 2 pods were left alone, as \
             they or rules ask",
        ),
    ] {
        let found = of_end(&outcome, true, skipped, seconds(7), &[]);
        let found: Vec<_> = found.iter().map(|(_, _, message)| message.as_str()).collect();
        assert_eq!(found, [expected]);
    }
}

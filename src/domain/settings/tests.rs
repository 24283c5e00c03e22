use proptest::prelude::*;

use super::{read::MOST_PROBLEMS, *};
use crate::domain::{Annotations, parse_duration};

fn timeout(of: Option<u64>) -> DrainSettings {
    DrainSettings { drain_timeout: of.map(seconds), ..DrainSettings::NONE }
}

/// The settings, and the fault and a part of the text of each problem.
fn holds(
    read: &ReadSettings,
    settings: DrainSettings,
    problems: &[(SettingFault, &str)],
    of: &str,
) {
    assert_eq!(read.0, settings, "{of}");
    assert_eq!(read.1.len(), problems.len(), "{of}: {:?}", read.1);
    for (problem, (fault, part)) in read.1.iter().zip(problems) {
        assert_eq!(problem.fault, *fault, "{of}");
        assert!(problem.text.contains(part), "{of}: {}", problem.text);
    }
}

#[test]
fn metadata_gives_settings_or_says_what_is_wrong_or_belongs_to_others() {
    use SettingFault::{BadValue, UnknownKey, Unreadable};
    let all = DrainSettings {
        drain_timeout: Some(seconds(5400)),
        force_after: Some(ForceAfter::Share(0.75)),
        max_grace_period: Some(seconds(120)),
        complete_delay: Some(seconds(20)),
    };
    let none = DrainSettings::NONE;
    let long = format!(r#"{{"sundown":{{"drain-timeout":"1h"}},"x":"{}"}}"#, "x".repeat(4000));
    for (text, settings, problems) in [
        // Of other tools, or of nobody.
        ("", none, &[][..]),
        ("additional-info", none, &[]),
        ("handled by sundown", none, &[]),
        ("{", none, &[]),
        (r#"{"cluster":"prod"}"#, none, &[]),
        (r#"["sundown"]"#, none, &[]),
        ("7", none, &[]),
        // Settings.
        (r#"{"sundown":{}}"#, none, &[]),
        (r#"{"sundown":{"drain-timeout":"1h30m"},"cluster":"prod"}"#, timeout(Some(5400)), &[]),
        (
            r#"{"sundown":{"drain-timeout":"90m","force-after":0.75,"max-grace-period":"2m",
                "complete-delay":"20s"}}"#,
            all,
            &[],
        ),
        // Mistakes.
        (
            "{sundown: {drain-timeout: 1h}}",
            none,
            &[(Unreadable, "is not JSON; write {\"sundown\"")],
        ),
        (r#"{"sundown":"1h"}"#, none, &[(Unreadable, "`sundown` that is not an object")]),
        (&long, none, &[(Unreadable, "longer than 4000 characters")]),
        (
            r#"{"sundown":{"drain-timeout":"9d","complete-delay":"5s"}}"#,
            DrainSettings { complete_delay: Some(seconds(5)), ..none },
            &[(BadValue, "NotificationMetadata is `9d`: use hours, minutes and seconds")],
        ),
        (r#"{"sundown":{"drain-timeout":"10s"}}"#, none, &[(BadValue, "use 30s to 48h")]),
        (r#"{"sundown":{"drain-timeout":600}}"#, none, &[(BadValue, "`600`: it has no unit")]),
        (r#"{"sundown":{"complete-delay":"2h"}}"#, none, &[(BadValue, "use 0s to 1h")]),
        (r#"{"sundown":{"max-grace-period":"0"}}"#, none, &[(BadValue, "use 30s to 48h")]),
        (r#"{"sundown":{"force-after":"soon"}}"#, none, &[(BadValue, "use never, deadline, or")]),
        (r#"{"sundown":{"force-after":true}}"#, none, &[(BadValue, "`true`: use text")]),
        (
            r#"{"sundown":{"drain-timout":"1h"}}"#,
            none,
            &[(UnknownKey, "`sundown.drain-timout` in the hook's NotificationMetadata is no")],
        ),
    ] {
        holds(&DrainSettings::of_metadata(text), settings, problems, text);
    }
}

#[test]
fn annotations_give_settings_and_each_bad_one_is_named() {
    let given = Annotations::from_iter([
        ("sundown.dev/drain-timeout", "1h"),
        ("sundown.dev/force-after", "sometimes"),
        ("sundown.dev/pause", "true"),
        ("sundown.dev/unknown", "1"),
    ]);
    let read = DrainSettings::of_annotations(&given);
    let expected =
        [(SettingFault::BadValue, "the annotation sundown.dev/force-after is `sometimes`: use")];
    holds(&read, timeout(Some(3600)), &expected, "annotations");
    assert!(read.1.iter().all(|problem| problem.source == SettingSource::Node));
    for setting in Setting::ALL {
        assert_eq!(setting.annotation(), format!("{}{}", crate::domain::PREFIX, setting.as_str()));
    }
}

#[test]
fn the_flags_bound_what_a_hook_or_a_node_may_set() {
    let allowed = AllowedSettings {
        longest_drain_timeout: seconds(7200),
        earliest_force: ForceAfter::Share(0.5),
    };
    let forced = |force| DrainSettings { force_after: Some(force), ..DrainSettings::NONE };
    let longer = DrainSettings {
        max_grace_period: Some(seconds(86_400)),
        complete_delay: Some(seconds(3600)),
        ..DrainSettings::NONE
    };
    for (given, is_allowed, part) in [
        (timeout(Some(30)), true, ""),
        (timeout(Some(7200)), true, ""),
        (timeout(Some(7201)), false, "is `2h1s`: the flags allow at most 2h"),
        (forced(ForceAfter::Share(0.5)), true, ""),
        (forced(ForceAfter::Share(0.9)), true, ""),
        (forced(ForceAfter::Deadline), true, ""),
        (forced(ForceAfter::Never), true, ""),
        (forced(ForceAfter::Share(0.4)), false, "`0.4`: it is earlier than --force-after 0.5"),
        (longer, true, ""),
    ] {
        let (used, problems) = given.allowed(SettingSource::Hook, &allowed);
        assert_eq!(used, if is_allowed { given } else { DrainSettings::NONE }, "{given:?}");
        assert_eq!(problems.is_empty(), is_allowed, "{given:?}");
        assert!(problems.iter().all(|p| p.text.contains(part)), "{problems:?}");
    }
    let never = AllowedSettings { earliest_force: ForceAfter::Never, ..allowed };
    assert_eq!(
        forced(ForceAfter::Deadline).allowed(SettingSource::Node, &never).0,
        DrainSettings::NONE,
        "where no pod is forced, no node may force one"
    );
}

#[test]
fn the_node_takes_precedence_over_its_hooks_and_each_setting_names_its_source() {
    let of_node = timeout(Some(600));
    let of_hooks = DrainSettings { complete_delay: Some(seconds(9)), ..timeout(Some(60)) };
    assert_eq!(
        of_node.or(of_hooks),
        DrainSettings { complete_delay: Some(seconds(9)), ..timeout(Some(600)) }
    );
    let texts: Vec<String> =
        in_force(&of_node, &of_hooks).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "drain-timeout 10m from an annotation of the node",
            "complete-delay 9s from the hook's NotificationMetadata",
        ]
    );
}

fn settings() -> impl Strategy<Value = DrainSettings> {
    let duration = |least: u64, most: u64| {
        prop::option::of((least * 1000..=most * 1000).prop_map(Duration::from_millis))
    };
    let force = prop_oneof![
        Just(ForceAfter::Never),
        Just(ForceAfter::Deadline),
        (0..=1000_u16).prop_map(|n| ForceAfter::Share(f64::from(n) / 1000.0)),
    ];
    (duration(30, 172_800), prop::option::of(force), duration(30, 172_800), duration(0, 3600))
        .prop_map(|(drain_timeout, force_after, max_grace_period, complete_delay)| DrainSettings {
            drain_timeout,
            force_after,
            max_grace_period,
            complete_delay,
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(settings in settings()) {
        let object = settings.to_object();
        prop_assert_eq!(DrainSettings::of_object(&object), (settings, Vec::new()));
        let metadata = serde_json::json!({ "sundown": object }).to_string();
        prop_assert_eq!(DrainSettings::of_metadata(&metadata), (settings, Vec::new()));
    }

    #[test]
    fn no_text_breaks_the_reader_and_what_it_reports_is_bounded(
        text in prop_oneof![
            any::<String>(),
            r#"\{"sundown":\{("[a-z-]{0,20}":("[0-9a-z]{0,9}"|[0-9.-]{1,9}|null|\[\]),?){0,20}\}\}"#,
        ],
    ) {
        let (settings, problems) = DrainSettings::of_metadata(&text);
        prop_assert!(problems.len() <= MOST_PROBLEMS);
        prop_assert!(problems.iter().all(|p| p.text.chars().count() <= 300));
        prop_assert!(problems.iter().all(|p| !p.text.contains(char::is_control)));
        for setting in [Setting::DrainTimeout, Setting::MaxGracePeriod, Setting::CompleteDelay] {
            let value = settings.text(setting).map(|text| parse_duration(&text).unwrap());
            let (least, most) = setting.range().unwrap();
            prop_assert!(value.is_none_or(|value| (least..=most).contains(&value)));
        }
    }
}

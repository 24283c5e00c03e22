use super::*;

const FULL: &str = r#"{"version":1,"instance":"i-1234567890abcdef0","boot":"b","before":{"unschedulable":true,"excluded":true,"x":1},
"interruptions":[{"kind":"terminate-hook","event":"e","time":"2026-01-01T00:00:00.5Z","accepted":"2026-01-01T00:00:01Z","group":"g","hook":"h",
"token":"t","later":{"a":[1]}},{"kind":"solar-flare","time":"soon","why":["sun"]}],"released":{"at":"2026-01-01T00:10:00Z","outcome":"empty","y":2},"z":null}"#;

#[test]
fn unknown_fields_survive_a_rewrite_at_every_level() {
    let record = Record::read(FULL).unwrap();
    let (was, is): (Value, Value) =
        (serde_json::from_str(FULL).unwrap(), serde_json::from_str(&record.write()).unwrap());
    assert_eq!(was, is);
}

/// A record as version 0.1.0 writes it. Every later version must read it.
const OF_VERSION_0_1_0: &str = r#"{"version":1,"instance":"i-1234567890abcdef0","boot":"b","before":{"unschedulable":false,"excluded":false},
"interruptions":[{"kind":"terminate-hook","event":"e1","time":"2026-01-05T09:03:38Z","accepted":"2026-01-05T09:03:48.961Z","group":"g","hook":"h","token":"t"},
{"kind":"spot","event":"e2","time":"2026-01-05T09:04:00Z","accepted":"2026-01-05T09:04:01Z","stale":true},
{"kind":"state-change","event":"e3","time":"2026-01-05T09:05:00Z","accepted":"2026-01-05T09:05:01Z","state":"stopping"},
{"kind":"capacity","event":"e4","time":"2026-01-05T09:06:00Z","accepted":"2026-01-05T09:06:01Z","ends":"2026-01-05T09:36:00Z"}],
"released":{"at":"2026-01-05T09:10:00Z","outcome":"empty"}}"#;

#[test]
fn a_record_of_version_0_1_0_is_read_with_all_its_facts() {
    let record = Record::read(OF_VERSION_0_1_0).unwrap();
    let facts = record.interruptions(&id(INSTANCE));
    let time = |text: &str| text.parse::<Moment>().unwrap();
    assert_eq!(
        facts.iter().map(|f| (f.kind, f.event_id.as_str())).collect::<Vec<_>>(),
        [
            (Some(Kind::TerminateHook), "e1"),
            (Some(Kind::Spot), "e2"),
            (Some(Kind::StateChange), "e3"),
            (Some(Kind::CapacityReservation), "e4"),
        ]
    );
    assert_eq!(
        (facts[0].time, facts[0].accepted),
        (time("2026-01-05T09:03:38Z"), time("2026-01-05T09:03:48.961Z"))
    );
    assert_eq!(facts[0].hook.as_ref().unwrap().token, Some("t".into()));
    assert_eq!((facts[1].stale, facts[3].stale), (true, false));
    assert_eq!(facts[2].state, Some(InstanceState::Stopping));
    assert_eq!(facts[3].ends, Some(time("2026-01-05T09:36:00Z")));
    assert!(record.released().is_some_and(|released| released.outcome == "empty"));
}

#[test]
fn the_earlier_name_of_a_capacity_reservation_is_the_same_kind() {
    let ends = Some(at(120));
    let warning = event("e1", 0, Cause::CapacityReservation { ends });
    let mut open = take_on(&node(), &warning, 1).unwrap();
    let text = open.record().unwrap().to_owned();
    let earlier = text.replace("capacity-reservation", "capacity");
    assert_ne!(earlier, text);
    set_record(&mut open, &earlier);
    assert!(recognize(&open, &warning), "a repeat after the update");
    assert!(take_on(&open, &warning, 2).is_none());
    let joined = take_on(&open, &hook("e9", 5, "drain", "t"), 6).unwrap();
    assert_eq!(our_taint(&joined), Some("capacity-reservation"));
    let block = event("e1", 0, Cause::CapacityBlock { ends });
    assert!(!recognize(&open, &block), "another kind");
}

#[test]
fn an_interruption_of_a_newer_kind_survives_a_join() {
    let mut open = node();
    let text = FULL
        .replace(r#","released":{"at":"2026-01-01T00:10:00Z","outcome":"empty","y":2}"#, "")
        .replace("\"b\"", "\"boot-1\"");
    set_record(&mut open, &text);
    let joined = take_on(&open, &spot("e9", 5), 6).unwrap();
    let written: Value = serde_json::from_str(joined.record().unwrap()).unwrap();
    assert_eq!(
        written["interruptions"][1],
        json!({"kind": "solar-flare", "time": "soon", "why": ["sun"]})
    );
    assert_eq!(written["interruptions"][2]["kind"], "spot");
    assert_eq!(written["interruptions"][0]["later"], json!({"a": [1]}));
}

#[test]
fn a_newer_version_is_read_for_what_we_know_and_keeps_its_number() {
    let text = FULL.replace("\"version\":1", "\"version\":3").replace(
        "\"solar-flare\",\"time\":\"soon\"",
        "\"planned\",\"time\":\"2026-01-01T00:00:00Z\",\"accepted\":\"2026-01-01T00:00:00Z\",\"group\":\"g\",\"hook\":\"h2\"",
    );
    let record = Record::read(&text).unwrap();
    assert!(record.version > VERSION);
    let hooks: Vec<_> =
        record.open_actions(&id(INSTANCE)).into_iter().map(|o| o.key.hook.to_string()).collect();
    assert_eq!(hooks, ["h", "h2"], "an action is open whatever kind of interruption named it");
    assert!(record.write().contains("\"version\":3"));
    assert_eq!(
        record.interruptions(&id(INSTANCE)).iter().map(|t| t.kind).collect::<Vec<_>>(),
        [Some(Kind::TerminateHook), None]
    );
}

#[test]
fn the_error_of_a_damaged_record_names_the_cause_and_the_remedy() {
    let entry =
        |e: &str| format!(r#"{{"version":1,"instance":"{INSTANCE}","interruptions":[{e}]}}"#);
    for (text, why) in [
        (String::new(), "EOF"),
        ("true".into(), "invalid type"),
        ("{}".into(), "missing field `version`"),
        (format!("{}1{}", "[".repeat(200), "]".repeat(200)), "invalid"),
        (r#"{"version":0,"instance":"i-12345678","interruptions":[]}"#.into(), "no version 0"),
        (r#"{"version":-1,"instance":"i-12345678","interruptions":[]}"#.into(), "invalid value"),
        (
            r#"{"version":1,"version":1,"instance":"i-12345678","interruptions":[]}"#.into(),
            "duplicate field",
        ),
        (r#"{"version":1,"instance":"node-1","interruptions":[]}"#.into(), "not an instance id"),
        (entry("1"), "invalid type"),
        (
            entry(r#"{"kind":"spot","time":"soon","accepted":"2026-01-01T00:00:00Z"}"#),
            "failed to parse",
        ),
        (
            entry(
                r#"{"kind":"terminate-hook","time":"2026-01-01T00:00:00Z","accepted":"2026-01-01T00:00:00Z","group":"g"}"#,
            ),
            "hook",
        ),
    ] {
        let damage = Record::read(&text).unwrap_err();
        assert!(damage.why.contains(why), "{text}: {damage}");
        assert!(damage.to_string().contains("kubectl annotate node"), "{damage}");
    }
}

#[test]
fn what_the_sweep_found_takes_the_place_of_a_closed_action_if_it_is_kept_alive() {
    let text = format!(
        r#"{{"version":1,"instance":"{INSTANCE}","interruptions":[
        {{"kind":"terminate-hook","event":"e1","time":"2026-01-01T00:00:01Z","accepted":"2026-01-01T00:00:01Z","group":"g","hook":"h","token":"made-up"}},
        {{"kind":"terminate-hook","event":"sweep:2026-01-01T00:01:00Z:h","time":"2026-01-01T00:01:00Z","accepted":"2026-01-01T00:01:10Z","group":"g","hook":"h"}}]}}"#
    );
    let record = Record::read(&text).unwrap();
    for (is_closed, expected) in [(false, Some(LifecycleToken::from("made-up"))), (true, None)] {
        let actions = record.open_actions_now(
            &id(INSTANCE),
            |hook| is_closed && hook.token.is_some(),
            |hook| hook.token.is_none(),
        );
        let tokens: Vec<_> = actions.into_iter().map(|action| action.token).collect();
        assert_eq!(tokens, [expected]);
    }
}

#[test]
fn an_action_that_is_kept_alive_takes_the_place_of_a_later_one_that_is_closed() {
    let entry = |second: u8, token: &str| {
        format!(
            r#"{{"kind":"terminate-hook","event":"{token}","time":"2026-01-01T00:00:0{second}Z","accepted":"2026-01-01T01:00:00Z","group":"g","hook":"h","token":"{token}"}}"#
        )
    };
    let text = format!(
        r#"{{"version":1,"instance":"{INSTANCE}","interruptions":[{},{}]}}"#,
        entry(1, "first"),
        entry(5, "made-up")
    );
    let record = Record::read(&text).unwrap();
    for (over, kept_open, expected) in [
        ("", "", "made-up"),
        ("", "first", "made-up"),
        ("made-up", "first", "first"),
        ("made-up", "", "made-up"),
        ("first", "made-up", "made-up"),
        ("made-up", "first made-up", "first"),
        ("first made-up", "first made-up", "made-up"),
    ] {
        let is = |hook: &LifecycleAction, tokens: &str| {
            hook.token.as_ref().is_some_and(|t| tokens.split(' ').any(|token| t.as_str() == token))
        };
        let actions = record.open_actions_now(
            &id(INSTANCE),
            |hook| is(hook, over),
            |hook| is(hook, kept_open),
        );
        assert_eq!(actions.len(), 1);
        assert_eq!(
            actions[0].token,
            Some(expected.into()),
            "{over} is closed, {kept_open} is kept alive"
        );
    }
}

#[test]
fn an_action_that_is_named_twice_counts_once_with_its_newest_token() {
    let entry = |event: &str, time: &str, token: &str| {
        format!(
            r#"{{"kind":"terminate-hook","event":"{event}","time":"{time}","accepted":"2026-01-01T01:00:00Z","group":"g","hook":"h"{token}}}"#
        )
    };
    let entries = [
        entry("1", "2026-01-01T00:00:00Z", r#","token":"old""#),
        entry("2", "2026-01-01T00:00:09Z", r#","token":"new""#),
        entry("3", "2026-01-01T00:00:05Z", r#","token":"between""#),
        entry("4", "2026-01-01T00:00:10Z", ""),
    ];
    let text =
        format!(r#"{{"version":1,"instance":"{OTHER}","interruptions":[{}]}}"#, entries.join(","));
    let actions = Record::read(&text).unwrap().open_actions(&id(INSTANCE));
    assert_eq!(actions.len(), 1);
    assert_eq!(actions[0].token, Some("new".into()));
    assert_eq!(
        actions[0].key.instance,
        id(INSTANCE),
        "under the Node's instance, not the one that the annotation names"
    );
}

#[test]
fn the_settings_of_a_hook_are_in_its_entry_and_what_cannot_be_read_there_does_not_count() {
    let mut given = hook("e", 0, "drain", "token");
    let Cause::Terminate(action) = &mut given.cause else { panic!("a hook") };
    let metadata = r#"{"sundown":{"drain-timeout":"4h","force-after":0.75}}"#;
    action.metadata = Some(Box::new(DrainSettings::of_metadata(metadata)));
    let settings = action.settings();
    let Accept::Patch { record, .. } = accept(&node(), &given, at(1), &AcceptOptions::default())
    else {
        panic!("a new record")
    };
    let text = record.write();
    assert!(text.contains(r#""settings":{"drain-timeout":"4h","force-after":"0.75"}"#), "{text}");
    let read = |text: &str| Record::read(text).unwrap().interruptions(&id(INSTANCE)).remove(0);
    assert_eq!(read(&text).settings, settings);
    for (entry, timeout) in [
        (r#""settings":{"drain-timeout":"4h","later":[1]}"#, Some(seconds(4 * 3600))),
        (r#""settings":{"drain-timeout":"soon"}"#, None),
        (r#""settings":"a later version""#, None),
        (r#""settings":null"#, None),
    ] {
        let of = FULL.replace(r#""later":{"a":[1]}"#, entry);
        assert_eq!(read(&of).settings.drain_timeout, timeout, "{entry}");
        if !entry.ends_with("null") {
            assert!(Record::read(&of).unwrap().write().contains(entry), "{entry} is kept");
        }
    }
}

//! Which instances the report lists as retained, and what the text says about them.

use super::*;

const OTHER: &str = "i-0fedcba0987654321";

/// The record of a drain that ended at 3000, by a hook of the group `web`.
fn released(abandoned: bool, at_second: i64) -> String {
    let hook = json!({
        "kind": "terminate-hook", "event": "e", "time": at(2), "accepted": at(3), "group": "web",
        "hook": "sundown"
    });
    let released = json!({ "at": at(at_second), "outcome": "deadline", "abandoned": abandoned });
    let record = json!({
        "version": 1, "instance": INSTANCE, "interruptions": [hook], "released": released
    });
    record.to_string()
}

fn shown(group: &str, instance: &str, state: &str) -> RetainedFact {
    RetainedFact {
        group: group.into(),
        instance: instance.parse().unwrap(),
        state: state.to_owned(),
    }
}

/// Instance, node, state and since when.
type Listed = (String, Option<String>, Option<String>, Option<Moment>);

fn listed(facts: &Facts) -> Vec<Listed> {
    let all = report(facts, None).retained.into_iter();
    all.map(|one| (one.instance, one.node.map(|node| node.to_string()), one.state, one.since))
        .collect()
}

#[test]
fn an_instance_is_retained_as_auto_scaling_shows_it_or_else_as_its_record_does() {
    let state = "Terminating:Retained";
    let of_record = (INSTANCE.to_owned(), Some("a".to_owned()), None, Some(at(2000)));
    let of_aws = |since| (INSTANCE.to_owned(), Some("a".to_owned()), Some(state.to_owned()), since);
    let warm = "Warmed:Pending:Retained";
    let no_node = (OTHER.to_owned(), None, Some(warm.to_owned()), None);
    let retained = vec![shown("web", INSTANCE, state)];
    let in_pool = vec![shown("web", OTHER, warm)];
    for (what, abandoned_at, in_aws, known, expected) in [
        ("nothing", None, vec![], vec!["web"], vec![]),
        ("AWS was not asked", Some(2000), vec![], vec![], vec![of_record.clone()]),
        ("another group", Some(2000), vec![], vec!["db"], vec![of_record]),
        ("both", Some(2000), retained.clone(), vec!["web"], vec![of_aws(Some(at(2000)))]),
        ("terminated since", Some(2000), vec![], vec!["web"], vec![]),
        (
            "just abandoned",
            Some(3590),
            vec![],
            vec!["web"],
            vec![(INSTANCE.to_owned(), Some("a".to_owned()), None, Some(at(3590)))],
        ),
        ("by another party", None, retained, vec!["web"], vec![of_aws(None)]),
        ("in a warm pool, without a Node", None, in_pool, vec!["web"], vec![no_node]),
    ] {
        let record = released(abandoned_at.is_some(), abandoned_at.unwrap_or(2000));
        let mut facts = facts(vec![node("a", &[(RECORD, record)])], &[]);
        facts.retained = RetainedFacts {
            instances: in_aws,
            known: known.into_iter().map(Into::into).collect(),
            trouble: Vec::new(),
        };
        assert_eq!(listed(&facts), expected, "{what}");
        // A node is not listed twice.
        let is_drained = report(&facts, None).drained == ["a".into()];
        let is_listed = expected.iter().any(|one| one.1.is_some()) || abandoned_at.is_some();
        assert_eq!(is_drained, !is_listed, "{what}");
    }
}

#[test]
fn an_event_of_the_sweep_shows_since_when_another_party_has_it_retained() {
    let mut facts = facts(vec![node("a", &[])], &[]);
    facts.retained.instances = vec![shown("web", INSTANCE, "Terminating:Retained")];
    facts.events = vec![
        event(Subject::Node("a".into()), "InstanceRetained", "", 3000),
        event(Subject::Node("a".into()), "InstanceRetained", "", 2000),
        event(Subject::Node("a".into()), "Uncordoned", "", 1000),
        event(Subject::Node("b".into()), "InstanceRetained", "", 1000),
    ];
    assert_eq!(listed(&facts)[0].3, Some(at(1990)));
}

#[test]
fn the_status_of_one_node_shows_what_auto_scaling_shows_and_its_record_does_not() {
    let remarks = |abandoned: bool, in_aws: &[RetainedFact]| {
        let mut facts = facts(vec![node("a", &[(RECORD, released(abandoned, 2000))])], &[]);
        facts.retained.instances = in_aws.to_vec();
        facts.retained.known = ["web".into()].into();
        report(&facts, Some(&"a".into())).nodes.remove(0).remarks.join(" ")
    };
    let in_aws = [shown("web", INSTANCE, "Terminating:Retained")];
    let both = remarks(true, &in_aws);
    assert!(both.contains("with ABANDON: the group retains") && !both.contains("timed"), "{both}");
    let others = remarks(false, &in_aws);
    assert!(
        others.contains("The group web retains its instance (Terminating:Retained)"),
        "{others}"
    );
    let over = remarks(true, &[]);
    assert!(over.contains("does not show its instance as retained any longer"), "{over}");
    assert!(!remarks(false, &[]).contains("retain"));
}

#[test]
fn retained_instances_have_a_line_each_and_a_remedy_and_what_is_not_known_is_a_note() {
    let mut facts = facts(vec![node("a", &[(RECORD, released(true, 2000))])], &[]);
    facts.retained = RetainedFacts {
        instances: vec![
            shown("web", INSTANCE, "Terminating:Retained"),
            shown("db", OTHER, "Warmed:Pending:Retained"),
        ],
        trouble: vec!["Retained instances in warm pools are not all shown.".to_owned()],
        ..RetainedFacts::default()
    };
    let page = text(&report(&facts, None), Look { width: 200, ..PLAIN });
    let line = |start: &str| page.lines().find(|line| line.trim().starts_with(start));
    assert!(line("Auto Scaling retains 2 instances, because").is_some(), "{page}");
    assert_eq!(
        line(OTHER),
        Some(&*format!("  {OTHER} of group db, no node: Warmed:Pending:Retained")),
        "{page}"
    );
    let expected =
        format!("  {INSTANCE} of group web, node a: Terminating:Retained, for at least 26m40s");
    assert_eq!(line(INSTANCE), Some(&*expected), "{page}");
    assert!(
        line("Save what").is_some_and(|line| line.contains("--instance-id INSTANCE")),
        "{page}"
    );
    assert!(line("Retained instances in warm pools are not all shown.").is_some(), "{page}");
    let many = (0..13).map(|n| RetainedInstance {
        instance: format!("i-{n:017x}"),
        node: None,
        group: None,
        state: None,
        since: None,
    });
    let long = Report { retained: many.collect(), ..report(&facts, None) };
    let page = text(&long, PLAIN);
    assert!(page.contains("  and 3 more (-o json)"), "{page}");
    assert!(page.contains("no node: Sundown completed its hook with ABANDON"), "{page}");
}

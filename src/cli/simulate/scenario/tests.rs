//! Tests which scenarios are accepted, and the error for each wrong field.

use super::{read::is_bound, *};

#[test]
fn the_built_in_scenario_is_valid() {
    let scenario = Scenario::load(None).unwrap();
    assert!(scenario.groups.iter().map(|g| g.nodes).sum::<usize>() >= 24);
    assert!(
        scenario.events.iter().any(|e| e.scale_in.is_some())
            && scenario.events.iter().any(|e| e.spot.is_some())
    );
}

#[test]
fn every_scenario_of_the_folder_is_built_in_by_its_name() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scenarios");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut names: Vec<_> =
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, BUILT_IN.map(|(name, _)| name));
    for name in names {
        Scenario::load(Some(Path::new(&name))).unwrap();
    }
}

#[test]
fn an_instance_goes_into_a_warm_pool_or_gets_a_new_root_volume_only_through_a_hook() {
    for field in ["toWarmPool", "replaceRootVolume"] {
        let pointer = format!("/events/0/{field}");
        let event = (pointer.as_str(), "{ group: g, count: 1 }");
        with(&[event]).unwrap();
        let error = with(&[event, ("/groups/0/hook", "")]).unwrap_err().to_string();
        let expected = format!("events[0].{field}.group is `g`, which has no hook");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn an_unreadable_scenario_is_an_error_with_the_reason() {
    let error = Scenario::load(Some(Path::new("/nowhere/at-all.yaml"))).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at-all.yaml"), "{error}");
}

/// A scenario with changes: a JSON pointer to the field, and its value in YAML. An empty value
/// removes the field.
fn with(changes: &[(&str, &str)]) -> Result<Scenario, ScenarioError> {
    let text = "{ name: n, groups: [{ name: g, nodes: 3, hook: { name: h, heartbeatTimeout: 5m } \
        }], workloads: [{ kind: Deployment, namespace: a, name: b, replicas: 2, budget: { \
        minAvailable: 1 } }], events: [{ at: 1s, spot: { group: g, count: 1, running: a/b } }], \
        until: 1h }";
    let mut all = super::yaml(text).unwrap();
    for (pointer, yaml) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = all.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        if yaml.is_empty() {
            parent.remove(name);
        } else {
            parent.insert(name.to_owned(), super::yaml(yaml).unwrap());
        }
    }
    Scenario::read("s.yaml", &all.to_string())
}

#[test]
fn an_error_names_the_wrong_field_and_its_allowed_values() {
    with(&[]).unwrap();
    let long = format!("\"{}\"", "x".repeat(201));
    let many_pods = "[{ kind: Deployment, namespace: a, name: b, replicas: 20000 }, { kind: \
        DaemonSet, namespace: a, name: d }]";
    for (pointer, value, error) in [
        ("/name", "", "name is missing"),
        ("/name", "\"\"", "name is ``: use a text of 1 to 200 characters"),
        ("/name", &long, "x…: use a text of 1 to 200 characters"),
        (
            "/colour",
            "blue",
            "there is no field colour: use name, flags, groups, workloads, events, until",
        ),
        ("/groups", "[]", "groups has 0 entries: use 1 to 50"),
        ("/groups", "3", "groups is 3: use a list"),
        ("/groups", "", "groups is missing"),
        ("/groups/0/nodes", "0", "groups[0].nodes is 0: use a number from 1 to 5000"),
        ("/groups/0/nodes", "99999999", "groups[0].nodes is 99999999: use a number from 1 to 5000"),
        ("/groups/0/nodes", "-1", "groups[0].nodes is -1: use a number from 1 to 5000"),
        ("/groups/0/nodes", "2.5", "groups[0].nodes is 2.5: use a number from 1 to 5000"),
        ("/groups/0/nodes", "many", "groups[0].nodes is `many`: use a number from 1 to 5000"),
        ("/groups/0/nodes", "", "groups[0].nodes is missing"),
        ("/groups/0/name", "Upper", "groups[0].name is `Upper`: use 1 to 63 lower-case letters"),
        ("/groups/0/spot", "yes please", "groups[0].spot is `yes please`: use true or false"),
        (
            "/groups/0/hook",
            "null",
            "groups[0].hook is empty: give it fields: name, heartbeatTimeout",
        ),
        (
            "/groups/0/hook/heartbeatTimeout",
            "29s",
            "groups[0].hook.heartbeatTimeout is `29s`: use a duration with its unit, from 30s to \
             2h",
        ),
        ("/groups/0/hook/heartbeatTimeout", "121m", "from 30s to 2h"),
        (
            "/groups/0/hook/heartbeatTimeout",
            "300",
            "groups[0].hook.heartbeatTimeout is 300: use a duration with its unit",
        ),
        ("/workloads", "[]", "workloads has 0 entries: use 1 to 200"),
        (
            "/workloads",
            many_pods,
            "all workloads together have 20003 pods, those of DaemonSets included: use at most \
             20000",
        ),
        (
            "/workloads/0/kind",
            "Job",
            "workloads[0].kind is `Job`: use Deployment, StatefulSet or DaemonSet",
        ),
        ("/workloads/0/kind", "DaemonSet", "workloads[0].replicas is 2: remove it"),
        ("/workloads/0/replicas", "0", "workloads[0].replicas is 0: use a number from 1 to 20000"),
        (
            "/workloads/0/replicas",
            "20001",
            "workloads[0].replicas is 20001: use a number from 1 to 20000",
        ),
        ("/workloads/0/namespace", "a_b", "workloads[0].namespace is `a_b`: use 1 to 63"),
        ("/workloads/0/group", "other", "workloads[0].group is `other`, which no group is called"),
        (
            "/workloads/0/grace",
            "25h",
            "workloads[0].grace is `25h`: use a duration with its unit, from 0s to 24h",
        ),
        ("/workloads/0/grace", "1500ms", "workloads[0].grace is `1500ms`: use whole seconds"),
        ("/workloads/0/stop", "soon", "workloads[0].stop is `soon`: use a duration"),
        (
            "/workloads/0/budget",
            "{}",
            "workloads[0].budget must have one of minAvailable and maxUnavailable",
        ),
        ("/workloads/0/budget/maxUnavailable", "1", "workloads[0].budget must have one of"),
        (
            "/workloads/0/budget/minAvailable",
            "two",
            "workloads[0].budget.minAvailable is `two`: use a number of pods, 0 to 20000",
        ),
        (
            "/workloads/0/budget/minAvailable",
            "20001",
            "workloads[0].budget.minAvailable is 20001: use a number of pods",
        ),
        ("/events", "[]", "events has 0 entries: use 1 to 1000"),
        ("/events", "", "events is missing"),
        ("/events/0/at", "1h", "events[0].at is 1h, and the scenario is over at 1h: raise until"),
        (
            "/events/0/spot",
            "",
            "events[0] has nothing that happens: give it scaleIn, spot, rebalance, stop, replace, launch, toWarmPool, fromWarmPool, replaceRootVolume, enterStandby, exitStandby, maintenance, impaired or loseEvents",
        ),
        ("/events/0/spot/count", "0", "events[0].spot.count is 0: use a number from 1"),
        (
            "/events/0/spot/count",
            "4",
            "events[0].spot.count is 4, and the group `g` has 3 nodes: use 1 to 3",
        ),
        ("/events/0/spot/group", "h", "events[0].spot.group is `h`, which no group is called"),
        (
            "/events/0/spot/running",
            "a/c",
            "events[0].spot.running is `a/c`, which no workload is called",
        ),
        (
            "/events/0/spot/speed",
            "3",
            "there is no field events[0].spot.speed: use group, count, running",
        ),
        ("/until", "0s", "until is `0s`: use a duration with its unit, from 1s to 72h"),
        ("/until", "100000h", "until is `100000h`: use a duration with its unit, from 1s to 72h"),
        ("/flags", "[]", "flags has 0 entries: use 1 to 100"),
        ("/flags", "--dry-run", "flags is `--dry-run`: use a list"),
    ] {
        let message = with(&[(pointer, value)]).unwrap_err().to_string();
        assert!(
            message.starts_with("the scenario is wrong: ") && message.contains(error),
            "{pointer} {value}: {message}"
        );
        for word in ["invalid type", "unknown field", "missing field", "expected", "serde"] {
            assert!(!message.contains(word), "{pointer} {value}: {message}");
        }
    }
}

#[test]
fn names_are_unique_and_all_groups_together_have_a_limit() {
    for (pointer, value, error) in [
        (
            "/groups",
            "[{ name: g, nodes: 3 }, { name: g, nodes: 2 }]",
            "groups[1].name is `g`, as of an earlier group",
        ),
        (
            "/groups",
            "[{ name: g, nodes: 3000 }, { name: h, nodes: 3000 }]",
            "all groups together have 6000 nodes: use at most 5000",
        ),
        (
            "/workloads",
            "[{ kind: Deployment, namespace: a, name: b }, { kind: StatefulSet, namespace: a, \
             name: b }]",
            "workloads[1] is called a/b, as an earlier workload",
        ),
    ] {
        let message = with(&[(pointer, value)]).unwrap_err().to_string();
        assert!(message.contains(error), "{value}: {message}");
    }
}

#[test]
fn a_yaml_error_has_the_line() {
    for (text, at) in [("groups: [", "line 1"), ("name: n\n  groups: [}\n", "line 2")] {
        let error = Scenario::read("s.yaml", text).unwrap_err().to_string();
        assert!(
            error.starts_with("the scenario s.yaml is no valid YAML, ") && error.contains(at),
            "{error}"
        );
    }
    let error = Scenario::read("s.yaml", "").unwrap_err().to_string();
    assert!(error.contains("the scenario is empty: give it fields: name"), "{error}");
}

#[test]
fn a_bound_is_a_number_of_pods_or_a_share_of_them() {
    let of = |text: &str| yaml(text).unwrap();
    for good in ["0", "2", "\"50%\"", "50%", "0%", "100%"] {
        assert!(is_bound(&of(good)), "{good}");
    }
    for bad in
        ["two", "\"50\"", "-1", "1.5", "101%", "\"%\"", "+5%", "5 %", "true", "[1]", "99999999999"]
    {
        assert!(!is_bound(&of(bad)), "{bad}");
    }
}

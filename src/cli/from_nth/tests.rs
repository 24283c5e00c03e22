#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ours::Ours, table::ROWS, *};

const SMALL: &str = include_str!("../../../tests/from-nth/small.yaml");
const LARGE: &str = include_str!("../../../tests/from-nth/large.yaml");
const CHAT: &str = include_str!("../../../tests/from-nth/chat.yaml");
const UMBRELLA: &str = include_str!("../../../tests/from-nth/umbrella.yaml");
const DAEMON_SET: &str = include_str!("../../../tests/from-nth/daemonset.yaml");
const DEPLOYMENT: &str = include_str!("../../../tests/from-nth/deployment.yaml");
const ALL: [&str; 6] = [SMALL, LARGE, CHAT, UMBRELLA, DAEMON_SET, DEPLOYMENT];

fn ours(text: &str) -> Ours {
    translate::translate(&read::read("values.yaml", text).unwrap())
}

/// A list of names, one a line, comments aside.
fn names(text: &str) -> BTreeSet<&str> {
    text.lines().filter(|l| !l.starts_with('#')).collect()
}

#[test]
fn every_flag_and_every_value_of_nth_has_an_answer_and_nothing_else_has_one() {
    let flags: BTreeSet<_> = ROWS.iter().filter_map(|row| row.flag).collect();
    assert_eq!(flags, names(include_str!("../../../tests/from-nth/flags.txt")));
    let theirs = names(include_str!("../../../tests/from-nth/values.txt"));
    let answered = |path: &str| {
        let of_imds = table::IMDS_VALUES.contains(&path.split('.').next().unwrap());
        of_imds || ROWS.iter().filter_map(|r| r.value).any(|v| path == v || path.starts_with(&format!("{v}.")))
    };
    let unanswered: Vec<_> = theirs.iter().filter(|path| !answered(path)).collect();
    assert!(unanswered.is_empty(), "{unanswered:?}");
    let there = |v: &&str| theirs.iter().any(|path| path == v || path.starts_with(&format!("{v}.")));
    let invented: Vec<_> = ROWS.iter().filter_map(|r| r.value).chain(table::IMDS_VALUES.iter().copied()).filter(|v| !there(v)).collect();
    assert!(invented.is_empty(), "{invented:?}");
}

#[test]
fn no_two_rows_have_a_name_in_common_and_only_what_has_no_counterpart_names_none() {
    for names in [
        ROWS.iter().filter_map(|r| r.flag).collect::<Vec<_>>(),
        ROWS.iter().filter_map(|r| r.variable).collect(),
        ROWS.iter().filter_map(|r| r.value).collect(),
    ] {
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    }
    for row in ROWS {
        assert!(row.answer != table::Answer::Same || !row.here.is_empty(), "{}: the same as what?", row.name());
        assert!(
            row.answer == table::Answer::Same || row.answer == table::Answer::Imds || !row.why.is_empty() || !row.here.is_empty(),
            "{}",
            row.name()
        );
    }
}

#[test]
fn the_page_has_the_table() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/from-nth.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (begin, end) = ("<!-- the table begins -->\n\n", "\n<!-- the table ends -->");
    let (head, rest) = text.split_once(begin).unwrap();
    let (table, tail) = rest.split_once(end).unwrap();
    if std::env::var_os("SUNDOWN_WRITE_DOCS").is_some() {
        std::fs::write(&page, format!("{head}{begin}{}{end}{tail}", table::document())).unwrap();
    } else {
        assert!(table == table::document(), "docs/from-nth.md is not what the table is: run this test with SUNDOWN_WRITE_DOCS=1 and commit it");
    }
}

#[test]
fn the_least_values_of_queue_mode_come_to_the_least_of_ours() {
    let ours = ours(SMALL);
    assert!(!ours.imds_mode);
    let queue = "https://sqs.eu-west-1.amazonaws.com/111122223333/shop-nth";
    let expected = json!({
        "config": { "queueUrls": [queue], "clusterName": "", "managedTag": "aws-node-termination-handler/managed" },
        "image": { "repository": "" },
    });
    assert_eq!(Value::Object(ours.values.clone()), expected);
    for word in ["config.clusterName", "image.repository", "arn:aws:iam::111122223333:role/shop-nth", "One handler at a time"] {
        assert!(ours.to_do.iter().any(|line| line.contains(word)), "{word}: {:?}", ours.to_do);
    }
    assert!(ours.missing.is_empty() && ours.ignored.is_empty(), "{ours:?}");
}

#[test]
fn the_values_of_a_platform_are_carried_over_one_by_one() {
    let ours = ours(LARGE);
    let queue = "https://sqs.us-gov-west-1.amazonaws.com/111122223333/prod-interruptions";
    let expected = json!({
        "admin": { "port": 9102 },
        "aws": { "region": "us-gov-west-1" },
        "config": { "queueUrls": [queue], "clusterName": "", "drainTimeout": "7200s", "completeDelay": "45s", "logFormat": "json", "logLevel": "info" },
        "extraEnv": [{ "name": "AWS_USE_FIPS_ENDPOINT", "value": "true" }],
        "image": { "repository": "" },
        "imagePullSecrets": [{ "name": "registry" }],
        "metrics": { "serviceMonitor": { "enabled": true, "labels": { "release": "prometheus" }, "interval": "15s" } },
        "nodeSelector": { "role": "system" },
        "podLabels": { "team": "platform" },
        "priorityClassName": "platform-critical",
        "proxy": { "https": "http://proxy.internal:3128", "noProxy": [".internal", "10.0.0.0/8"] },
        "replicas": 3,
        "service": { "enabled": true },
        "tolerations": [{ "key": "dedicated", "value": "system", "effect": "NoSchedule" }],
        "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway" }],
    });
    assert_eq!(Value::Object(ours.values.clone()), expected);
    let changed: Vec<_> = ours.changes.iter().map(|s| s.setting.as_str()).collect();
    for setting in [
        "workers: 50",
        "useProviderId: true",
        "heartbeatUntil: 7200 → config.drainTimeout: 7200s",
        "taint-effect: NoExecute",
        "tolerations",
        "deleteSqsMsgIfNodeNotFound: true",
        "heartbeatInterval: 60",
    ] {
        assert!(changed.contains(&setting), "{setting}: {changed:?}");
    }
    let missing: Vec<_> = ours.missing.iter().map(|s| s.setting.as_str()).collect();
    assert_eq!(missing, ["podTerminationGracePeriod: 30", "kubernetesEventsExtraAnnotations: team=platform,env=prod"]);
}

#[test]
fn a_chat_keeps_its_secret_its_headers_and_its_words() {
    let ours = ours(CHAT);
    let values = Value::Object(ours.values.clone());
    assert_eq!(values["config"]["compat"], "nth");
    assert_eq!(values["config"]["webhookProxy"], "http://10.0.0.5:3128");
    assert_eq!(values["config"]["webhookHeadersFile"], "/etc/sundown/webhook/headers");
    let from = json!({ "secretKeyRef": { "name": "slack", "key": "webhookurl" } });
    assert_eq!(values["extraEnv"], json!([{ "name": "SUNDOWN_WEBHOOK_URL", "valueFrom": from }]));
    let words = r#"{"text":"[Sundown] {{ kind }} of {{ instance }} ({{ type }}) on {{ node }}: pool {{ label:example.com/pool }}, {{ summary }}"}"#;
    assert_eq!(values["config"]["webhookTemplate"], words);
    assert!(ours.to_do.iter().any(|line| line.contains("Authorization") && line.contains("`sundown-webhook`")), "{:?}", ours.to_do);
    for text in [report::text(&ours), report::yaml(&ours.values), report::flags(&ours), report::json(&ours).to_string()] {
        assert!(!text.contains("s3cr3t"), "{text}");
    }
}

#[test]
fn what_is_below_another_chart_is_found_and_what_cannot_be_said_here_is_told() {
    let ours = ours(UMBRELLA);
    let values = Value::Object(ours.values.clone());
    assert_eq!((&values["config"]["managedTag"], &values["aws"]["region"]), (&json!("team/drained"), &json!("eu-north-1")));
    assert_eq!((&values["dnsPolicy"], &values["config"]["webhookTemplate"]), (&json!("ClusterFirst"), &Value::Null));
    assert!(
        ours.missing.iter().any(|s| s.setting == "cordonOnly: true") && ours.missing.iter().any(|s| s.setting == "enableOutOfServiceTaint: true")
    );
    assert!(ours.to_do.iter().any(|line| line.contains("{{ if .NodeName }}")), "{:?}", ours.to_do);
    assert!(ours.changes.iter().any(|s| s.setting == "managedAsgTag" && s.why.contains("no effect today")), "{:?}", ours.changes);
    assert_eq!(ours.ignored, ["nodeTerminationGracePriod: NTH v1.25.6 does not know it"]);
}

#[test]
fn a_daemon_set_is_told_in_the_first_line_that_it_is_one() {
    let daemon_set = "kind: DaemonSet\nspec: { template: { spec: { containers: [{ name: aws-node-termination-handler, env: [{ name: ENABLE_SQS_TERMINATION_DRAINING, value: \"true\" }] }] } } }";
    for (text, imds) in [(DAEMON_SET, true), ("", true), (daemon_set, true), (SMALL, false), (DEPLOYMENT, false)] {
        let report = report::text(&ours(text));
        let first = report.lines().next().unwrap();
        assert_eq!(first.starts_with("IMDS mode"), imds, "{first}");
        assert_eq!(first.starts_with("Queue mode"), !imds, "{first}");
    }
    let ours = ours(DAEMON_SET);
    assert_eq!(ours.ignored.len(), 3, "{:?}", ours.ignored);
    assert_eq!(ours.values["config"]["drainTimeout"], "90s");
}

#[test]
fn the_flags_and_variables_of_a_deployment_are_read_as_go_reads_them() {
    let ours = ours(DEPLOYMENT);
    let config = &ours.values["config"];
    assert_eq!(config["drainTimeout"], "3600s", "a flag wins over its variable");
    assert_eq!((&config["compat"], &config["managedTag"]), (&json!("nth"), &json!("team/drained")));
    let from = json!({ "secretKeyRef": { "name": "hooks", "key": "url" } });
    assert_eq!(ours.values["extraEnv"], json!([{ "name": "SUNDOWN_WEBHOOK_URL", "valueFrom": from }]));
    assert_eq!(ours.ignored, ["--fast: NTH v1.25.6 does not know it"]);
    let missing: Vec<_> = ours.missing.iter().map(|s| s.setting.as_str()).collect();
    assert_eq!(missing, ["variable GOGC"]);
}

#[test]
fn what_is_printed_as_flags_and_as_values_is_taken_by_those_who_read_it() {
    for text in ALL {
        let ours = ours(text);
        let flags = report::flags(&ours);
        let mut line: Vec<_> = flags.lines().collect();
        if !flags.contains("--queue-url") {
            line.push("--queue-url=https://sqs.eu-west-1.amazonaws.com/1/q");
        }
        if report::yaml(&ours.values).contains("SUNDOWN_WEBHOOK_URL") {
            line.push("--webhook-url=https://chat.example");
        }
        let args = crate::config::RunArgs::from_flags(line.clone()).unwrap_or_else(|e| panic!("{e}"));
        args.config(&|_| None).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        let yaml = report::yaml(&ours.values);
        let read: Value = serde_saphyr::from_str(&yaml).unwrap_or_else(|e| panic!("{e}\n{yaml}"));
        assert_eq!(read, Value::Object(ours.values.clone()), "{yaml}");
    }
}

#[test]
fn what_is_no_such_file_names_itself_and_its_remedy() {
    for (text, words) in [
        ("- a\n- b", "holds no mapping"),
        ("kind: ConfigMap", "holds a ConfigMap"),
        ("kind: Deployment", "a Deployment without containers"),
        ("kind: List\nitems: []", "a list without a workload"),
        ("a: [", "is neither YAML nor JSON"),
    ] {
        let said = read::read("x.yaml", text).unwrap_err().to_string();
        assert!(said.contains("x.yaml") && said.contains(words), "{text}: {said}");
        assert_eq!(said.contains("helm get values"), words.starts_with("holds") || words.starts_with("a "), "{said}");
    }
    assert!(super::text("/nowhere/values.yaml").unwrap_err().to_string().contains("/nowhere/values.yaml"));
}

#[test]
fn a_template_that_only_puts_fields_in_is_rewritten() {
    for theirs in webhook::theirs() {
        let ours = webhook::rewritten(&format!("{{{{ {theirs} }}}}")).unwrap();
        crate::observe::webhook::Template::new(&ours).unwrap_or_else(|e| panic!("{theirs} → {ours}: {e}"));
    }
    for (theirs, ours) in [
        ("plain", Ok("plain")),
        ("{{.Kind}}", Ok("{{ kind }}")),
        ("{{ .Kind | upper }}", Err("{{ .Kind | upper }}")),
        ("{{ range .Pods }}", Err("{{ range .Pods }}")),
        ("{{ .Kind", Err(" .Kind")),
    ] {
        assert_eq!(webhook::rewritten(theirs), ours.map(str::to_owned).map_err(str::to_owned), "{theirs}");
    }
}

#[test]
fn the_actions_that_are_ours_are_those_that_are_called() {
    use crate::aws::Api;
    let ours: BTreeSet<_> = always::RIGHTS.iter().filter(|r| r.ours).map(|r| r.action.to_owned()).collect();
    assert_eq!(ours, Api::ALL.iter().map(|api| api.permission()).collect());
}

#[test]
fn what_would_keep_sundown_from_draining_or_from_starting_is_to_be_done() {
    let todo = |ours: &Ours, word: &str| ours.to_do.iter().any(|line| line.contains(word));
    // NTH's default tag is on instances that somebody has tagged for its queue mode, and in IMDS mode nobody had a reason to.
    let imds = ours("enableSpotInterruptionDraining: true\n");
    assert!(imds.imds_mode && imds.values["config"].get("managedTag").is_none() && !todo(&imds, "managedTag"), "{:?}", imds.values);
    let queue = ours(SMALL);
    assert!(todo(&queue, "without the tag aws-node-termination-handler/managed are left alone"), "{:?}", queue.to_do);
    // Secrets are not found across namespaces.
    assert!(todo(&ours(CHAT), "the Secret slack") && todo(&ours(CHAT), "kubectl -n kube-system get secret slack"));
    assert!(todo(&ours(LARGE), "imagePullSecrets"));
}

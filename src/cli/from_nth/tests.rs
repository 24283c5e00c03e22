#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ours::Ours, table::ROWS, *};
use crate::{
    domain::{HookName, Transition},
    triage::{GroupHooks, HookGlobs},
};

const SMALL: &str = include_str!("../../../tests/from-nth/small.yaml");
const LARGE: &str = include_str!("../../../tests/from-nth/large.yaml");
const CHAT: &str = include_str!("../../../tests/from-nth/chat.yaml");
const UMBRELLA: &str = include_str!("../../../tests/from-nth/umbrella.yaml");
const DAEMON_SET: &str = include_str!("../../../tests/from-nth/daemonset.yaml");
const DEPLOYMENT: &str = include_str!("../../../tests/from-nth/deployment.yaml");
const KEYS: &str = include_str!("../../../tests/from-nth/keys.yaml");
const ACCOUNTS: &str = include_str!("../../../tests/from-nth/accounts.yaml");
const ALL: [&str; 8] = [SMALL, LARGE, CHAT, UMBRELLA, DAEMON_SET, DEPLOYMENT, KEYS, ACCOUNTS];

fn ours(text: &str) -> Ours {
    translate::translate(&read::read("values.yaml", text).unwrap())
}

/// A list of names, one a line, comments aside.
fn names(text: &str) -> BTreeSet<&str> {
    text.lines().filter(|l| !l.starts_with('#')).collect()
}

#[test]
fn exactly_the_flags_and_values_of_nth_have_an_answer() {
    let flags: BTreeSet<_> = ROWS.iter().filter_map(|row| row.flag).collect();
    assert_eq!(flags, names(include_str!("../../../tests/from-nth/flags.txt")));
    let theirs = names(include_str!("../../../tests/from-nth/values.txt"));
    let answered = |path: &str| {
        let of_imds = table::IMDS_VALUES.contains(&path.split('.').next().unwrap());
        of_imds
            || ROWS
                .iter()
                .filter_map(|r| r.value)
                .any(|v| path == v || path.starts_with(&format!("{v}.")))
    };
    let unanswered: Vec<_> = theirs.iter().filter(|path| !answered(path)).collect();
    assert!(unanswered.is_empty(), "{unanswered:?}");
    let there =
        |v: &&str| theirs.iter().any(|path| path == v || path.starts_with(&format!("{v}.")));
    let invented: Vec<_> = ROWS
        .iter()
        .filter_map(|r| r.value)
        .chain(table::IMDS_VALUES.iter().copied())
        .filter(|v| !there(v))
        .collect();
    assert!(invented.is_empty(), "{invented:?}");
}

#[test]
fn row_names_are_unique_and_only_rows_without_counterpart_have_no_names_of_ours() {
    for names in [
        ROWS.iter().filter_map(|r| r.flag).collect::<Vec<_>>(),
        ROWS.iter().filter_map(|r| r.variable).collect(),
        ROWS.iter().filter_map(|r| r.value).collect(),
    ] {
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    }
    for row in ROWS {
        assert!(
            row.answer != table::Answer::Same || !row.here.is_empty(),
            "{}: the same as what?",
            row.name()
        );
        assert!(
            row.answer == table::Answer::Same
                || row.answer == table::Answer::Imds
                || !row.why.is_empty()
                || !row.here.is_empty(),
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
        assert!(
            table == table::document(),
            "docs/from-nth.md is not what the table is: run this test with SUNDOWN_WRITE_DOCS=1 \
             and commit it"
        );
    }
}

#[test]
fn minimal_values_of_queue_mode_become_minimal_values_of_ours() {
    let ours = ours(SMALL);
    assert!(!ours.imds_mode);
    let queue = "https://sqs.eu-west-1.amazonaws.com/111122223333/shop-nth";
    let expected = json!({
        "config": {
            "queueUrls": [queue], "clusterName": "",
            "managedTag": "aws-node-termination-handler/managed"
        },
        "image": { "repository": "" },
    });
    assert_eq!(Value::Object(ours.values.clone()), expected);
    for word in [
        "config.clusterName",
        "image.repository",
        "arn:aws:iam::111122223333:role/shop-nth",
        "One handler at a time",
    ] {
        assert!(ours.to_do.iter().any(|line| line.contains(word)), "{word}: {:?}", ours.to_do);
    }
    assert!(ours.missing.is_empty() && ours.ignored.is_empty(), "{ours:?}");
}

#[test]
fn the_values_of_a_platform_are_carried_over_one_by_one() {
    let ours = ours(LARGE);
    let queue = "https://sqs.us-gov-west-1.amazonaws.com/111122223333/prod-interruptions";
    let expected = json!({
        "aws": { "region": "us-gov-west-1" },
        "config": {
            "queueUrls": [queue], "clusterName": "", "drainTimeout": "7200s",
            "completeDelay": "45s", "logFormat": "json", "logLevel": "info"
        },
        "extraEnv": [{ "name": "AWS_USE_FIPS_ENDPOINT", "value": "true" }],
        "image": { "repository": "" },
        "imagePullSecrets": [{ "name": "registry" }],
        "metrics": {
            "port": 9102,
            "serviceMonitor": {
                "enabled": true, "labels": { "release": "prometheus" }, "interval": "15s"
            }
        },
        "nodeSelector": { "role": "system" },
        "podLabels": { "team": "platform" },
        "priorityClassName": "platform-critical",
        "proxy": { "https": "http://proxy.internal:3128", "noProxy": [".internal", "10.0.0.0/8"] },
        "replicas": 3,
        "service": { "enabled": true },
        "tolerations": [{ "key": "dedicated", "value": "system", "effect": "NoSchedule" }],
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway"
        }],
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
    assert_eq!(
        missing,
        [
            "podTerminationGracePeriod: 30",
            "kubernetesEventsExtraAnnotations: team=platform,env=prod"
        ]
    );
}

#[test]
fn a_webhook_keeps_its_secret_its_headers_and_its_template() {
    let ours = ours(CHAT);
    let values = Value::Object(ours.values.clone());
    assert_eq!(values["config"]["compat"], "nth");
    assert_eq!(values["config"]["webhookProxy"], "http://10.0.0.5:3128");
    assert_eq!(values["config"]["webhookHeadersFile"], "/etc/sundown/webhook/headers");
    assert_eq!(
        (&values["webhook"], &values["extraEnv"]),
        (&json!({ "urlSecretName": "slack" }), &Value::Null),
        "the chart has a value for it"
    );
    let words = r#"{"text":"[Sundown] {{ kind }} of {{ instance }} ({{ type }}) on {{ node }}: pool {{ labels['example.com/pool'] }}, {{ summary }}"}"#;
    assert_eq!(values["config"]["webhookTemplate"], words);
    assert!(
        ours.to_do
            .iter()
            .any(|line| line.contains("Authorization") && line.contains("`sundown-webhook`")),
        "{:?}",
        ours.to_do
    );
    for text in printed(&ours) {
        assert!(!text.contains("s3cr3t"), "{text}");
    }
}

/// Every form in which it is printed.
fn printed(ours: &Ours) -> [String; 4] {
    [
        report::text(ours),
        report::yaml(&ours.values),
        report::flags(ours),
        report::json(ours).to_string(),
    ]
}

fn is_to_do(ours: &Ours, word: &str) -> bool {
    ours.to_do.iter().any(|line| line.contains(word))
}

#[test]
fn no_secret_is_printed_in_any_form_and_what_to_do_with_each_is() {
    let ours = ours(KEYS);
    for text in printed(&ours) {
        assert!(!text.contains("S3CR3T"), "{text}");
    }
    for word in [
        "awsAccessKeyID, awsSecretAccessKey, AWS_SESSION_TOKEN: keys are neither carried over",
        "extraEnvFrom",
        "a key `url` that holds NTH's webhookURL",
        "config.webhookProxy: the user and the password",
        "proxy.https: the user and the password",
        "podAnnotations: example.com/api-token may be a secret",
        "serviceAccount.annotations: example.com/password may be a secret",
        "extraEnv: AWS_VAULT_PASSWORD may be a secret",
    ] {
        assert!(is_to_do(&ours, word), "{word}: {:?}", ours.to_do);
    }
    let values = Value::Object(ours.values.clone());
    assert_eq!(
        values["webhook"],
        json!({ "urlSecretName": "sundown-webhook", "urlSecretKey": "url" })
    );
    assert_eq!(values["extraEnv"], Value::Null);
    assert_eq!(
        (&values["config"]["webhookProxy"], &values["proxy"]["https"]),
        (&json!("http://10.0.0.5:3128"), &json!("http://proxy.example.com:3128"))
    );
    assert_eq!(values["podAnnotations"], json!({ "example.com/owner": "platform" }));
    assert_eq!(
        values["serviceAccount"]["annotations"],
        json!({ "eks.amazonaws.com/token-expiration": "3600" })
    );
    assert_eq!(ours.ignored, ["webhookPassword: NTH v1.25.6 does not know it"]);
}

#[test]
fn no_secret_of_a_deployment_is_printed_either() {
    let ours = ours(
        r#"{ "kind": "Deployment", "spec": { "template": { "spec": { "containers": [{
            "name": "aws-node-termination-handler",
            "args": ["--webhook-url=https://hooks.example.com/S3CR3T", "--webhook-headers", "{\"Authorization\":\"S3CR3T\"}", "--chat-token", "S3CR3T", "--chat-key=S3CR3T"],
            "env": [
                { "name": "ENABLE_SQS_TERMINATION_DRAINING", "value": "true" },
                { "name": "AWS_SECRET_ACCESS_KEY", "value": "S3CR3T" },
                { "name": "WEBHOOK_PROXY", "valueFrom": { "secretKeyRef": { "name": "proxy", "key": "url" } } }
            ]
        }] } } } }"#,
    );
    for text in printed(&ours) {
        assert!(!text.contains("S3CR3T"), "{text}");
    }
    assert_eq!(ours.ignored.len(), 2, "{:?}", ours.ignored);
    for word in [
        "AWS_SECRET_ACCESS_KEY: keys",
        "a key `url`",
        "Authorization",
        "webhookProxy: its value is in another object",
    ] {
        assert!(is_to_do(&ours, word), "{word}: {:?}", ours.to_do);
    }
}

#[test]
fn urls_lose_their_user_and_nothing_else() {
    for (url, bare) in [
        ("http://a:b@proxy:3128", Some("http://proxy:3128")),
        ("http://a:p@ss@proxy:3128", Some("http://proxy:3128")),
        ("a:b@proxy:3128", Some("proxy:3128")),
        ("http://proxy:3128", None),
        ("proxy", None),
    ] {
        assert_eq!(secrets::without_user(url).as_deref(), bare, "{url}");
    }
}

#[test]
fn accounts_and_roles_that_nths_chart_does_not_make_become_steps_and_no_values() {
    assert!(
        !is_to_do(&ours(SMALL), "rbac.create") && !is_to_do(&ours(SMALL), "serviceAccount.create")
    );
    let ours = ours(ACCOUNTS);
    assert!(
        ["serviceAccount", "rbac"].iter().all(|key| !ours.values.contains_key(*key)),
        "{:?}",
        ours.values
    );
    for word in [
        "serviceAccount.create: NTH's chart makes no account (it runs as node-drainer)",
        "rbac.create: NTH's chart makes no roles",
    ] {
        assert!(is_to_do(&ours, word), "{word}: {:?}", ours.to_do);
    }
}

#[test]
fn unreadable_values_are_named_and_not_carried_over() {
    let accounts = ours(ACCOUNTS);
    for name in ["nodeTerminationGracePeriod", "logLevel", "tolerations"] {
        assert!(
            is_to_do(&accounts, &format!("{name}: its value cannot be read")),
            "{name}: {:?}",
            accounts.to_do
        );
    }
    assert!(is_to_do(&accounts, "--drain-timeout, config.drainTimeout"), "{:?}", accounts.to_do);
    let config = &accounts.values["config"];
    assert!(config.get("drainTimeout").is_none() && config.get("logLevel").is_none(), "{config}");
    for (text, name) in [
        ("enableSqsTerminationDraining: perhaps", "enableSqsTerminationDraining"),
        ("image: nth", "image"),
        ("extraEnv: [{ name: WORKERS, value: many }]", "workers"),
        ("extraEnv: none", "extraEnv"),
        ("podLabels: [a]", "podLabels"),
    ] {
        let ours = ours(text);
        assert!(
            is_to_do(&ours, &format!("{name}: its value cannot be read")),
            "{text}: {:?}",
            ours.to_do
        );
    }
    for text in [
        "replicas: \"2\"",
        "workers: ''",
        "taintNode: T",
        "dryRun: 0",
        "probes: { periodSeconds: 5, failureThreshold: 3 }",
        "image:",
    ] {
        assert!(!is_to_do(&ours(text), "cannot be read"), "{text}");
    }
}

#[test]
fn the_first_line_names_settings_without_counterpart_and_each_reason_is_complete() {
    let first = |text: &str| report::text(&ours(text)).lines().next().unwrap().to_owned();
    assert!(
        first(SMALL).contains("everything that is set can be carried over"),
        "{}",
        first(SMALL)
    );
    let umbrella = first(UMBRELLA);
    assert!(umbrella.contains("cordonOnly") && !umbrella.contains("everything"), "{umbrella}");
    assert!(
        first(DEPLOYMENT).contains("variable GOGC has no counterpart"),
        "{}",
        first(DEPLOYMENT)
    );
    for text in ALL {
        let ours = ours(text);
        for entry in ours.changes.iter().chain(&ours.missing) {
            assert!(
                !entry.why.is_empty() && !entry.why.starts_with("the same"),
                "{}: {}",
                entry.setting,
                entry.why
            );
        }
    }
    let accounts = ours(ACCOUNTS);
    let entry =
        accounts.changes.iter().find(|entry| entry.setting == "fullnameOverride: nth").unwrap();
    assert_eq!(entry.why, "the objects should not be called after NTH");
}

#[test]
fn values_of_a_subchart_are_found_and_untranslatable_ones_are_reported() {
    let ours = ours(UMBRELLA);
    let values = Value::Object(ours.values.clone());
    assert_eq!(
        (&values["config"]["managedTag"], &values["aws"]["region"]),
        (&json!("team/drained"), &json!("eu-north-1"))
    );
    assert_eq!(
        (&values["dnsPolicy"], &values["config"]["webhookTemplate"]),
        (&json!("ClusterFirst"), &Value::Null)
    );
    assert!(ours.missing.iter().any(|s| s.setting == "cordonOnly: true"));
    assert_eq!(values["config"]["outOfServiceTaint"], true);
    assert!(ours.to_do.iter().any(|line| line.contains("{{ if .NodeName }}")), "{:?}", ours.to_do);
    assert!(
        ours.changes
            .iter()
            .any(|s| s.setting == "managedAsgTag" && s.why.contains("no effect today")),
        "{:?}",
        ours.changes
    );
    assert_eq!(ours.ignored, ["nodeTerminationGracePriod: NTH v1.25.6 does not know it"]);
}

#[test]
fn the_first_line_about_a_daemon_set_names_imds_mode() {
    let daemon_set = "kind: DaemonSet\nspec: { template: { spec: { containers: [{ name: \
        aws-node-termination-handler, env: [{ name: ENABLE_SQS_TERMINATION_DRAINING, value: \
        \"true\" }] }] } } }";
    for (text, imds) in [
        (DAEMON_SET, true),
        ("null", true),
        (daemon_set, true),
        (SMALL, false),
        (DEPLOYMENT, false),
    ] {
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
    assert_eq!(ours.values["webhook"], json!({ "urlSecretName": "hooks", "urlSecretKey": "url" }));
    assert_eq!(ours.ignored, ["--fast: NTH v1.25.6 does not know it"]);
    let missing: Vec<_> = ours.missing.iter().map(|s| s.setting.as_str()).collect();
    assert_eq!(missing, ["variable GOGC"]);
}

#[test]
fn a_url_that_no_value_of_the_chart_can_name_stays_a_variable() {
    for from in [
        json!({ "configMapKeyRef": { "name": "hooks", "key": "url" } }),
        json!({ "secretKeyRef": { "name": "a", "key": "b", "optional": true } }),
    ] {
        let text =
            DEPLOYMENT.replace("{ secretKeyRef: { name: hooks, key: url } }", &from.to_string());
        assert_ne!(text, DEPLOYMENT);
        let ours = ours(&text);
        assert_eq!(
            ours.values["extraEnv"],
            json!([{ "name": "SUNDOWN_WEBHOOK_URL", "valueFrom": from }])
        );
        assert_eq!(ours.values.get("webhook"), None);
    }
}

#[test]
fn printed_flags_and_values_are_accepted_by_run_and_by_the_chart() {
    for text in ALL {
        let ours = ours(text);
        let flags = report::flags(&ours);
        let mut line: Vec<_> = flags.lines().collect();
        if !flags.contains("--queue-url") {
            line.push("--queue-url=https://sqs.eu-west-1.amazonaws.com/1/q");
        }
        if report::yaml(&ours.values).contains("urlSecretName") {
            line.push("--webhook-url=https://chat.example");
        }
        let args =
            crate::config::RunArgs::from_flags(line.clone()).unwrap_or_else(|e| panic!("{e}"));
        args.config(&|_| None).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        let yaml = report::yaml(&ours.values);
        let read: Value = serde_saphyr::from_str(&yaml).unwrap_or_else(|e| panic!("{e}\n{yaml}"));
        assert_eq!(read, Value::Object(ours.values.clone()), "{yaml}");
    }
}

#[test]
fn an_error_about_a_wrong_file_names_the_file_and_the_remedy() {
    for (text, words) in [
        ("- a\n- b", "holds no mapping"),
        ("kind: ConfigMap", "holds a ConfigMap"),
        ("kind: Deployment", "a Deployment without containers"),
        (
            "kind: Deployment\nspec: { replicas: 1, template: { spec: { containers: [{ name: web, \
             env: [{ name: LOG_LEVEL, value: info }] }] } } }",
            "holds a Deployment of another program",
        ),
        ("a: 1", "holds nothing that NTH v1.25.6 knows (only a)"),
        (
            "{ \"a\": 1, \"b\": { \"c\": 2 }, \"d\": 3, \"e\": 4, \"password\": \"S3CR3T\" }",
            "holds nothing that NTH v1.25.6 knows (only a, b, d and 2 more)",
        ),
        ("kind: List\nitems: []", "a list without a workload"),
        ("a: [", "is neither YAML nor JSON"),
    ] {
        let error = read::read("x.yaml", text).unwrap_err().to_string();
        assert!(error.contains("x.yaml") && error.contains(words), "{text}: {error}");
        assert_eq!(
            error.contains("helm get values"),
            words.starts_with("holds") || words.starts_with("a "),
            "{error}"
        );
    }
    for text in ["", " \n"] {
        let error = read::read("/dev/null", text).unwrap_err().to_string();
        assert!(
            error.contains("/dev/null is empty") && error.contains("helm get values"),
            "{error}"
        );
    }
    // Helm's output for a release without values is an NTH with defaults. The same holds for a
    // subchart without values.
    for text in ["null", "{}", "global: { a: 1 }", "aws-node-termination-handler:\nother: { a: 1 }"]
    {
        assert!(ours(text).imds_mode, "{text}");
    }
    assert!(
        super::text("/nowhere/values.yaml")
            .unwrap_err()
            .to_string()
            .contains("/nowhere/values.yaml")
    );
}

#[test]
fn a_template_that_only_puts_fields_in_is_rewritten() {
    for theirs in webhook::theirs() {
        let theirs = format!(r#"["{{{{ {theirs} }}}}"]"#);
        let ours = webhook::rewritten(&theirs).unwrap();
        crate::observe::webhook::Template::new(&ours)
            .unwrap_or_else(|e| panic!("{theirs} → {ours}: {e}"));
    }
    for (theirs, ours) in [
        ("plain", Ok("plain")),
        ("{{.Kind}}", Ok("{{ kind }}")),
        ("{{ .Kind | upper }}", Err("{{ .Kind | upper }}")),
        ("{{ range .Pods }}", Err("{{ range .Pods }}")),
        ("{{ .Kind", Err(" .Kind")),
    ] {
        assert_eq!(
            webhook::rewritten(theirs),
            ours.map(str::to_owned).map_err(str::to_owned),
            "{theirs}"
        );
    }
}

#[test]
fn our_iam_actions_are_those_that_sundown_calls() {
    use crate::aws::Api;
    let ours: BTreeSet<_> =
        always::RIGHTS.iter().filter(|r| r.ours).map(|r| r.action.to_owned()).collect();
    assert_eq!(ours, Api::ALL.iter().map(|api| api.permission()).collect());
}

#[test]
fn the_report_names_hooks_that_stay_unanswered_and_hooks_of_others_that_are_completed() {
    let (globs, transition) = (HookGlobs::default(), Transition::Terminating);
    let hooks = |names: &[&str]| -> GroupHooks {
        names.iter().map(|name| (HookName::from(*name), transition)).collect()
    };
    // The report's text must agree with what Sundown does.
    let of_nth = HookName::from("nth");
    assert_eq!(
        globs.left_alone(&hooks(&["nth", "sundown-drain"]), transition),
        std::slice::from_ref(&of_nth)
    );
    assert_eq!(
        globs.completed(&hooks(&["Terminate-LC-Hook", "nth", "other"]), transition),
        [of_nth, HookName::from("other")]
    );
    for text in ALL {
        let ours = ours(text);
        let printed = report::text(&ours);
        let (_, below) = printed.split_once("\n# Behaves differently in any case\n").unwrap();
        let line = below.lines().find(|line| line.contains("`config.lifecycleHook`"));
        let line = line.unwrap_or_else(|| panic!("no line about hooks: {below}"));
        for words in [
            "name starts with `sundown`",
            "made for NTH",
            "nobody",
            "EKS",
            "another tool",
            "`sundown check`",
            "`sundown enroll`",
        ] {
            assert!(line.contains(words), "{words} is not in {line}");
        }
        let json = report::json(&ours);
        let rows = json["always"].as_array().unwrap();
        assert!(
            rows.iter().any(|row| line.ends_with(row["why"].as_str().unwrap())),
            "{line} is not in {rows:#?}"
        );
    }
}

#[test]
fn obstacles_to_starting_or_draining_become_steps() {
    let todo = |ours: &Ours, word: &str| ours.to_do.iter().any(|line| line.contains(word));
    // NTH's default tag is on instances that somebody has tagged for its queue mode, and in IMDS
    // mode nobody had a reason to.
    let imds = ours("enableSpotInterruptionDraining: true\n");
    assert!(
        imds.imds_mode
            && imds.values["config"].get("managedTag").is_none()
            && !todo(&imds, "managedTag"),
        "{:?}",
        imds.values
    );
    let queue = ours(SMALL);
    assert!(
        todo(&queue, "without the tag aws-node-termination-handler/managed are left alone"),
        "{:?}",
        queue.to_do
    );
    // A pod cannot use a Secret of another namespace.
    assert!(
        todo(&ours(CHAT), "the Secret slack")
            && todo(&ours(CHAT), "kubectl -n kube-system get secret slack")
    );
    assert!(todo(&ours(LARGE), "imagePullSecrets"));
}

#[test]
fn the_head_has_the_state_of_the_project() {
    let version = env!("CARGO_PKG_VERSION");
    let page =
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"))
            .unwrap();
    for text in [SMALL, DAEMON_SET] {
        let ours = ours(text);
        let printed = report::text(&ours);
        let head = printed.split("\n# ").next().unwrap();
        assert!(head.lines().count() <= 10, "{head}");
        for words in [
            version,
            "before its first release",
            "o image is published yet",
            "not run against real AWS",
            "AWS Health",
            "rebalance",
            "a trial",
        ] {
            assert!(head.contains(words), "{words} is not in {head}");
        }
        let status = &report::json(&ours)["status"];
        assert_eq!(
            (&status["version"], &status["imagePublished"], &status["runAgainstAws"]),
            (&json!(version), &json!(false), &json!(false))
        );
        assert_eq!(status["notActedOnYet"], json!([]));
    }
    // When one of these facts changes, README changes, and this text has to change with it.
    for words in [
        "before its first release",
        "No image is published yet",
        "has not run against real AWS yet",
        "If the message of an [AWS Health event]",
    ] {
        assert!(page.replace("\n> ", " ").contains(words), "{words} is not in README.md");
    }
}

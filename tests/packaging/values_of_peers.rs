//! Values that people know from the charts of Karpenter and aws-node-termination-handler.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use crate::tools::Tools;

/// Values, the object that they are about, and what is in it then.
const REACHES: &[(&[&str], &str, &str, &str)] = &[
    (&["hostNetwork=true"], "Deployment/sundown", "/spec/template/spec/hostNetwork", "true"),
    (&["hostNetwork=true"], "Pod/sundown-check", "/spec/hostNetwork", "true"),
    (
        &["hostNetwork=true", "dnsPolicy=ClusterFirstWithHostNet"],
        "Deployment/sundown",
        "/spec/template/spec/dnsPolicy",
        r#""ClusterFirstWithHostNet""#,
    ),
    (
        &["schedulerName=mine"],
        "Deployment/sundown",
        "/spec/template/spec/schedulerName",
        r#""mine""#,
    ),
    (&["revisionHistoryLimit=3"], "Deployment/sundown", "/spec/revisionHistoryLimit", "3"),
    (
        &["strategy.rollingUpdate.maxSurge=1"],
        "Deployment/sundown",
        "/spec/strategy/rollingUpdate",
        r#"{ "maxSurge": 1, "maxUnavailable": 1 }"#,
    ),
    (
        &["strategy.type=Recreate"],
        "Deployment/sundown",
        "/spec/strategy",
        r#"{ "type": "Recreate" }"#,
    ),
    (
        &["initContainers[0].name=wait"],
        "Deployment/sundown",
        "/spec/template/spec/initContainers/0/name",
        r#""wait""#,
    ),
    (
        &["sidecarContainers[0].name=proxy"],
        "Deployment/sundown",
        "/spec/template/spec/containers/1/name",
        r#""proxy""#,
    ),
    (
        &["sidecarContainers[0].name=proxy"],
        "Deployment/sundown",
        "/spec/template/spec/containers/0/name",
        r#""sundown""#,
    ),
    (&["podDisruptionBudget.name=mine"], "PodDisruptionBudget/mine", "/spec/maxUnavailable", "1"),
    (
        &["podDisruptionBudget.maxUnavailable=50%"],
        "PodDisruptionBudget/sundown",
        "/spec/maxUnavailable",
        r#""50%""#,
    ),
    (
        &["global.imagePullSecrets={a}"],
        "Deployment/sundown",
        "/spec/template/spec/imagePullSecrets",
        r#"[{ "name": "a" }]"#,
    ),
    (
        &[
            "global.imagePullSecrets[0].name=a",
            "imagePullSecrets[0].name=b",
            "imagePullSecrets[1].name=a",
        ],
        "Pod/sundown-check",
        "/spec/imagePullSecrets",
        r#"[{ "name": "b" }, { "name": "a" }]"#,
    ),
    (
        &[],
        "Pod/sundown-check",
        "/spec/containers/0/livenessProbe/exec/command/0",
        r#""/usr/local/bin/sundown""#,
    ),
    (
        &[],
        "Pod/sundown-check",
        "/spec/containers/0/readinessProbe/exec/command/1",
        r#""--version""#,
    ),
];

fn sets<'a>(values: &[&'a str]) -> Vec<&'a str> {
    values.iter().flat_map(|value| ["--set", value]).collect()
}

#[test]
fn each_value_reaches_its_field() {
    let Some(tools) = Tools::found() else { return };
    for (given, object, field, expected) in REACHES {
        let objects = tools.objects("minimal", &sets(given));
        let object = objects
            .get(*object)
            .unwrap_or_else(|| panic!("{given:?}: no {object} in {:?}", objects.keys()));
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(object.pointer(field), Some(&expected), "{given:?}: {field}");
    }
    let plain =
        tools.objects("minimal", &[])["Deployment/sundown"]["spec"]["template"]["spec"].clone();
    for field in ["hostNetwork", "schedulerName", "initContainers", "imagePullSecrets"] {
        assert!(plain[field].is_null(), "{field}");
    }
}

#[test]
fn annotations_of_every_object_are_on_every_object_and_its_own_win() {
    let Some(tools) = Tools::found() else { return };
    let given = [
        "additionalAnnotations.example\\.com/owner=everybody",
        "additionalAnnotations.example\\.com/cost=7",
        "rbac.admissionPolicy=true",
    ];
    let objects = tools.objects(
        "company",
        &["--set-string", given[0], "--set-string", given[1], "--set", given[2]],
    );
    assert!(objects.len() > 10, "{:?}", objects.keys());
    for (name, object) in &objects {
        assert_eq!(object["metadata"]["annotations"]["example.com/cost"], "7", "{name}");
    }
    assert_eq!(
        objects["Service/sundown"]["metadata"]["annotations"]["example.com/owner"],
        "platform"
    );
    assert_eq!(objects["Pod/sundown-check"]["metadata"]["annotations"]["helm.sh/hook"], "test");
}

#[test]
fn a_monitor_takes_a_namespace_a_limit_a_label_and_more_fields_of_its_endpoint() {
    let Some(tools) = Tools::found() else { return };
    for (kind, value, endpoints) in [
        ("ServiceMonitor", "serviceMonitor", "/spec/endpoints/0"),
        ("PodMonitor", "podMonitor", "/spec/podMetricsEndpoints/0"),
    ] {
        let of = |field: &str| format!("metrics.{value}.{field}");
        let fields = [
            "enabled=true",
            "namespace=monitoring",
            "sampleLimit=5000",
            "jobLabel=team",
            "endpointConfig.honorLabels=true",
        ]
        .map(of);
        let fields: Vec<_> =
            fields.iter().map(String::as_str).chain(["service.enabled=true"]).collect();
        let monitor =
            tools.objects("minimal", &sets(&fields)).remove(&format!("{kind}/sundown")).unwrap();
        assert_eq!(monitor["metadata"]["namespace"], "monitoring");
        assert_eq!(
            monitor["spec"]["namespaceSelector"],
            json!({ "matchNames": ["sundown"] }),
            "it is not where the pods are"
        );
        assert_eq!(
            (&monitor["spec"]["sampleLimit"], &monitor["spec"]["jobLabel"]),
            (&json!(5000), &json!("team"))
        );
        assert_eq!(monitor.pointer(endpoints).unwrap()["honorLabels"], true);
        assert_eq!(monitor.pointer(endpoints).unwrap()["path"], "/metrics");
    }
}

#[test]
fn the_url_and_the_template_of_notifications_come_from_a_secret_and_a_config_map() {
    let Some(tools) = Tools::found() else { return };
    let objects = tools.objects(
        "minimal",
        &sets(&["webhook.urlSecretName=chat", "webhook.templateConfigMapName=words"]),
    );
    let spec = &objects["Deployment/sundown"]["spec"]["template"]["spec"];
    let variable = |name: &str| {
        let all = spec["containers"][0]["env"].as_array().unwrap().clone();
        all.into_iter()
            .find(|variable| variable["name"] == name)
            .unwrap_or_else(|| panic!("no {name}"))
    };
    assert_eq!(
        variable("SUNDOWN_WEBHOOK_URL")["valueFrom"]["secretKeyRef"],
        json!({ "name": "chat", "key": "webhookurl" })
    );
    let file = variable("SUNDOWN_WEBHOOK_TEMPLATE_FILE")["value"].as_str().unwrap().to_owned();
    let mount = &spec["containers"][0]["volumeMounts"][0];
    assert_eq!(file, format!("{}/template", mount["mountPath"].as_str().unwrap()));
    let volume = spec["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|volume| volume["name"] == mount["name"])
        .unwrap();
    assert_eq!(volume["configMap"]["name"], "words");
}

/// Releases may share one Grafana, whose sidecar writes the files of all namespaces into one folder.
#[test]
fn each_release_has_a_dashboard_of_its_own() {
    let Some(tools) = Tools::found() else { return };
    let long = "a-name-that-is-longer-than-the-forty-characters-of";
    let mut seen = BTreeSet::new();
    for (namespace, name, title) in [
        ("sundown", "sundown", "Sundown"),
        ("blue", "sundown", "Sundown (blue)"),
        ("green", "sundown", "Sundown (green)"),
        ("sundown", "blue", "Sundown (sundown/blue)"),
        ("blue", "blue", "Sundown (blue/blue)"),
        ("blue-green", "sundown", "Sundown (blue-green)"),
        ("blue", "green-sundown", "Sundown (blue/green-sundown)"),
        ("blue", long, &format!("Sundown (blue/{long})")),
        ("green", long, &format!("Sundown (green/{long})")),
    ] {
        let named = format!("fullnameOverride={name}");
        let sets = sets(&["metrics.dashboard.enabled=true", &named]);
        let objects = tools.objects("minimal", &[&sets[..], &["--namespace", namespace]].concat());
        let data =
            objects[&format!("ConfigMap/{name}-dashboard")]["data"].as_object().unwrap().clone();
        let (file, text) = data.into_iter().next().unwrap();
        assert_eq!(file, format!("{namespace}_{name}.json"));
        let dashboard: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        let uid = dashboard["uid"].as_str().unwrap();
        assert!(uid.len() <= 40 && (name == long || uid == format!("{namespace}_{name}")), "{uid}");
        assert!(seen.insert(uid.to_owned()), "{uid} is the uid of two releases");
        assert_eq!(dashboard["title"], title);
        let file =
            fs::read_to_string(format!("{}/files/dashboard.json", crate::tools::chart())).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        assert_eq!(file["panels"], dashboard["panels"]);
    }
}

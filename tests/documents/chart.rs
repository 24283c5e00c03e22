//! The chart against the code, as far as it needs no Helm. (The rest: tests/packaging.)

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    files, read,
    settings::{flags, value_of},
};

const CHART: &str = "deploy/helm/sundown";

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&read(&format!("{CHART}/{file}"))).unwrap()
}

fn schema() -> Value {
    serde_json::from_str(&read(&format!("{CHART}/values.schema.json"))).unwrap()
}

#[test]
fn the_chart_is_of_this_version() {
    let chart = yaml("Chart.yaml");
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"), "it is the tag of the image");
    let kustomization: Value =
        serde_saphyr::from_str(&read("deploy/manifests/base/kustomization.yaml")).unwrap();
    assert_eq!(kustomization["images"][0]["newTag"], chart["appVersion"]);
}

/// Flags that are no value of `config`, and where they come from instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("region", "aws.region"),
    ("metrics-listen", "listenAddress, metrics.port"),
    ("probe-listen", "listenAddress, probes.port"),
    ("lease-name", "the release's name"),
    ("lease-namespace", "POD_NAMESPACE"),
    ("node-name", "NODE_NAME"),
    ("pod-name", "POD_NAME"),
    ("pod-namespace", "POD_NAMESPACE"),
    ("kubeconfig", "the pod's own account"),
    ("context", "the pod's own account"),
    ("print-config", "for a person"),
    ("disruption-target", "rbac.disruptionTarget"),
    ("maintenance-condition", "rbac.maintenanceCondition"),
    ("drain-conditions", "rbac.drainConditions"),
    ("delete-node", "rbac.deleteNode"),
];

#[test]
fn every_flag_is_a_value_and_every_value_of_config_a_flag() {
    let schema = schema();
    let values: BTreeSet<_> =
        schema["properties"]["config"]["properties"].as_object().unwrap().keys().cloned().collect();
    let ours =
        flags().into_iter().filter(|(flag, _)| !ELSEWHERE.iter().any(|(other, _)| other == flag));
    let wanted: BTreeSet<_> = ours.map(|(flag, _)| value_of(&flag)).collect();
    assert_eq!(
        values, wanted,
        "a new flag needs a property of `config` in values.schema.json and a line in values.yaml \
         (or a place in ELSEWHERE)"
    );
    let written = read(&format!("{CHART}/values.yaml"));
    for value in values {
        let there = |line: &str| {
            [format!("  {value}:"), format!("  # {value}:")]
                .iter()
                .any(|start| line.starts_with(start.as_str()))
        };
        assert!(written.lines().any(there), "values.yaml does not name config.{value}");
    }
}

/// Every path below objects that the schema closes.
fn paths(schema: &Value, root: &Value, at: &str, found: &mut BTreeSet<String>) {
    let target =
        schema["$ref"].as_str().map(|r| &root["definitions"][r.rsplit('/').next().unwrap()]);
    let Some(properties) = target.unwrap_or(schema)["properties"].as_object() else {
        found.insert(at.to_owned());
        return;
    };
    for (name, below) in properties {
        paths(below, root, &format!("{at}/{name}"), found);
    }
}

#[test]
fn every_value_of_the_schema_has_its_default() {
    let (schema, values) = (schema(), yaml("values.yaml"));
    let mut known = BTreeSet::new();
    paths(&schema, &schema, "", &mut known);
    // Of the chart around this one; what Kubernetes has a default for; and what the test above
    // looks at.
    let optional = |path: &str| {
        [
            "/global",
            "/enabled",
            "/config/",
            "/dnsConfig/",
            "/affinity/",
            "/resources/claims",
            "/serviceAccount/annotations/",
        ]
        .iter()
        .any(|o| path.starts_with(o))
            || path.contains("Probe/")
    };
    let missing: Vec<_> =
        known.iter().filter(|p| !optional(p) && values.pointer(p).is_none()).collect();
    assert!(missing.is_empty(), "values.yaml lacks {missing:?}");
}

/// What is not closed takes a misspelt name without a word.
#[test]
fn every_object_of_the_schema_with_named_values_takes_no_others() {
    fn look(schema: &Value, at: &str, open: &mut Vec<String>) {
        match schema {
            Value::Object(object) => {
                // Conditions name what they look at; they close nothing.
                let named = object.get("properties").is_some()
                    && object.get("type") == Some(&"object".into());
                if named
                    && object
                        .get("additionalProperties")
                        .is_none_or(|more| *more == Value::Bool(true))
                {
                    open.push(at.to_owned());
                }
                object.iter().for_each(|(name, below)| look(below, &format!("{at}/{name}"), open));
            }
            Value::Array(all) => all
                .iter()
                .enumerate()
                .for_each(|(n, below)| look(below, &format!("{at}/{n}"), open)),
            _ => {}
        }
    }
    let mut open = Vec::new();
    look(&schema(), "", &mut open);
    assert_eq!(open, Vec::<String>::new());
    let top = &schema()["properties"];
    assert!(
        top["global"].is_object() && top["enabled"].is_object(),
        "a chart around this one gives them"
    );
}

/// What asks the cluster leaves objects out, without a word, wherever nobody has one to ask:
/// `helm template`, Argo CD. The version of Kubernetes is there without a cluster too; a template
/// may refuse one that is too old. One template is left out there, and its value says so.
#[test]
fn no_template_asks_the_cluster() {
    let templates: Vec<_> = [".yaml", ".tpl", ".txt"]
        .iter()
        .flat_map(|ending| files(&format!("{CHART}/templates"), ending))
        .collect();
    assert!(templates.len() > 10, "{templates:?}");
    for template in templates {
        let text = read(&template);
        assert!(
            !text.contains(".Capabilities.APIVersions") && !text.contains("lookup"),
            "{template}"
        );
        let mut lines = text.lines();
        while let Some(line) = lines.find(|line| line.contains(".Capabilities")) {
            // An older Kubernetes does not know the kind of the only object of this template.
            let is_by_version = template.ends_with("/request-policy.yaml")
                && line.starts_with("{{- $isOld := semverCompare ");
            if is_by_version {
                continue;
            }
            let refuses = lines.next().is_some_and(|next| next.contains("{{- fail "));
            assert!(
                line.contains(".Capabilities.KubeVersion")
                    && line.starts_with("{{- if ")
                    && refuses,
                "{template}: {line}"
            );
        }
    }
}

//! What the pods of the chart may do to the node that they run on: no more than the Pod Security
//! level `restricted` allows.

use std::fs;

use serde_json::{Value, json};

use crate::tools::{SETS, Tools, chart, objects, values};

/// What is missing of the level in a pod, and of a root that nobody writes to.
fn loose(pod: &Value) -> Vec<&'static str> {
    let mut missing = Vec::new();
    let mut hold = |what, holds: bool| {
        if !holds {
            missing.push(what);
        }
    };
    hold(
        "runAsNonRoot",
        pod["securityContext"]["runAsNonRoot"] == true
            && pod["securityContext"]["runAsUser"].as_u64().is_some_and(|user| user > 0),
    );
    hold("seccompProfile", pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault");
    hold(
        "no namespace of the host",
        ["hostNetwork", "hostPID", "hostIPC"].iter().all(|host| pod[host] != true),
    );
    for container in pod["containers"].as_array().unwrap() {
        let context = &container["securityContext"];
        hold(
            "allowPrivilegeEscalation",
            context["allowPrivilegeEscalation"] == false && context["privileged"] != true,
        );
        hold("readOnlyRootFilesystem", context["readOnlyRootFilesystem"] == true);
        hold("capabilities", context["capabilities"] == json!({ "drop": ["ALL"] }));
    }
    missing
}

/// The pod of the Deployment and that of `helm test`, as a chart makes them.
fn pods(tools: &Tools, chart: &str, args: &[&str]) -> Vec<Value> {
    let made = objects(&tools.template(&tools.helms()[0], chart, args).unwrap());
    let pods: Vec<_> = made
        .values()
        .filter_map(|object| match object["kind"].as_str() {
            Some("Deployment") => Some(object["spec"]["template"]["spec"].clone()),
            Some("Pod") => Some(object["spec"].clone()),
            _ => None,
        })
        .collect();
    assert_eq!(pods.len(), 2);
    pods
}

#[test]
fn the_pods_of_every_set_are_restricted() {
    let Some(tools) = Tools::found() else { return };
    for set in SETS {
        for pod in pods(&tools, &chart(), &["--values", &values(set)]) {
            assert_eq!(loose(&pod), Vec::<&str>::new(), "{set}");
        }
    }
}

/// Each of them is looked at: without it in the chart, it is missed.
#[test]
fn what_the_chart_ceases_to_say_is_missed() {
    let Some(tools) = Tools::found() else { return };
    let own = fs::read_to_string(format!("{}/values.yaml", chart())).unwrap();
    for (line, instead, missed) in [
        ("  capabilities: { drop: [ALL] }\n", "", "capabilities"),
        (
            "  capabilities: { drop: [ALL] }\n",
            "  capabilities: { drop: [ALL], add: [NET_ADMIN] }\n",
            "capabilities",
        ),
        ("  allowPrivilegeEscalation: false\n", "", "allowPrivilegeEscalation"),
        ("  readOnlyRootFilesystem: true\n", "", "readOnlyRootFilesystem"),
        ("  runAsNonRoot: true\n", "", "runAsNonRoot"),
        ("  seccompProfile: { type: RuntimeDefault }\n", "", "seccompProfile"),
    ] {
        assert_eq!(own.matches(line).count(), 1, "values.yaml has {line:?} once");
        let copy = tools.work.path().join("chart");
        tools.run("cp".as_ref(), &["-r", &chart(), copy.to_str().unwrap()]).unwrap();
        fs::write(copy.join("values.yaml"), own.replace(line, instead)).unwrap();
        for pod in pods(&tools, copy.to_str().unwrap(), &["--values", &values("minimal")]) {
            assert_eq!(loose(&pod), [missed], "without {line:?}");
        }
        fs::remove_dir_all(copy).unwrap();
    }
}

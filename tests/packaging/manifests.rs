//! What is made of the chart and committed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::tools::{Objects, ROOT, Tools, chart};

/// The files below a folder, by their path there.
fn below(folder: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut look_in) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(dir) = look_in.pop() {
        for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                look_in.push(path);
            } else {
                found.insert(
                    path.strip_prefix(folder).unwrap().to_owned(),
                    fs::read_to_string(&path).unwrap(),
                );
            }
        }
    }
    found
}

#[test]
fn what_is_committed_is_what_the_chart_makes() {
    let Some(tools) = Tools::found() else { return };
    let [made, by_the_other] = tools.helms().map(|helm| {
        let into = tools.work.path().join(helm.file_name().unwrap());
        let helm = format!("HELM={}", helm.display());
        tools
            .run("env".as_ref(), &[&helm, &format!("{ROOT}/deploy/render"), into.to_str().unwrap()])
            .unwrap();
        below(&into)
    });
    assert_eq!(made.len(), 10, "{:?}", made.keys());
    assert!(made == by_the_other, "Helm 3 and Helm 4 make the same of it");
    for (file, text) in &made {
        let committed =
            fs::read_to_string(Path::new(ROOT).join("deploy").join(file)).unwrap_or_default();
        assert!(
            committed == *text,
            "deploy/{} is not what the chart makes: run deploy/render",
            file.display()
        );
    }
    // Nothing that says that it was rendered was left behind by a template that is no more.
    let kept = below(&Path::new(ROOT).join("deploy/manifests"));
    for (file, _) in kept.iter().filter(|(_, text)| text.starts_with("# Rendered from the chart")) {
        assert!(
            made.contains_key(&Path::new("manifests").join(file)),
            "nothing renders deploy/manifests/{}",
            file.display()
        );
    }
}

const ROLE: &str = "arn:aws:iam::ACCOUNT:role/ROLE";

/// Takes the annotations of an object away, which the other that it is compared with has not.
fn take_annotations(object: &mut Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("annotations").unwrap_or_default()
}

/// Takes away what the Prometheus operator and Grafana read, after a look at it.
fn take_monitoring(objects: &mut Objects) {
    let labels = objects["Deployment/sundown"]["spec"]["template"]["metadata"]["labels"].clone();
    let container =
        objects["Deployment/sundown"]["spec"]["template"]["spec"]["containers"][0].clone();
    let monitor = objects.remove("PodMonitor/sundown").unwrap();
    let selected = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
    assert!(
        !selected.is_empty() && selected.iter().all(|(label, value)| labels[label] == *value),
        "{selected:?} of {labels}"
    );
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["port"], container["ports"][0]["name"]);
    let alerts = |rules: &Value| -> BTreeSet<String> {
        let all = rules["groups"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap());
        all.map(|rule| rule["alert"].as_str().unwrap().to_owned()).collect()
    };
    let of_the_chart: Value = serde_saphyr::from_str(
        &fs::read_to_string(format!("{}/files/rules.yaml", chart())).unwrap(),
    )
    .unwrap();
    assert_eq!(
        alerts(&objects.remove("PrometheusRule/sundown").unwrap()["spec"]),
        alerts(&of_the_chart)
    );
    let dashboard = objects.remove("ConfigMap/sundown-dashboard").unwrap();
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    let panels: Value =
        serde_json::from_str(dashboard["data"]["sundown_sundown.json"].as_str().unwrap()).unwrap();
    assert!(panels["panels"].as_array().is_some_and(|all| !all.is_empty()));
}

/// What `kubectl apply -k` would apply.
#[test]
fn each_overlay_is_the_base_and_what_it_is_for() {
    let Some(tools) = Tools::found() else { return };
    let copy = tools.work.path().join("manifests");
    tools
        .run("cp".as_ref(), &["-r", &format!("{ROOT}/deploy/manifests"), copy.to_str().unwrap()])
        .unwrap();
    let mut base = tools.kustomize(&copy.join("base"));
    // The settings have a name that changes with them, and the pods know it.
    let settings = base
        .keys()
        .find_map(|name| name.strip_prefix("ConfigMap/sundown-settings-"))
        .unwrap()
        .to_owned();
    let container = base["Deployment/sundown"]["spec"]["template"]["spec"]["containers"][0].clone();
    assert_eq!(
        container["envFrom"],
        json!([{ "configMapRef": { "name": format!("sundown-settings-{settings}") } }])
    );

    let mut irsa = tools.kustomize(&copy.join("overlays/irsa"));
    assert_eq!(
        take_annotations(irsa.get_mut("ServiceAccount/sundown").unwrap()),
        json!({ "eks.amazonaws.com/role-arn": ROLE })
    );
    assert_eq!(irsa, base, "nothing else");

    let mut guarded = tools.kustomize(&copy.join("overlays/admission-policy"));
    let policy = guarded.remove("ValidatingAdmissionPolicy/sundown").unwrap();
    assert!(policy["metadata"]["namespace"].is_null(), "it is of the whole cluster");
    assert_eq!(
        guarded.remove("ValidatingAdmissionPolicyBinding/sundown").unwrap()["spec"]["policyName"],
        policy["metadata"]["name"]
    );
    assert_eq!(guarded, base, "nothing else");

    let mut checked = tools.kustomize(&copy.join("overlays/request-policy"));
    for kind in ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] {
        assert!(checked.remove(&format!("{kind}/sundown-requests")).is_some(), "{kind}");
    }
    assert_eq!(checked, base, "nothing else");

    // The PodMonitor finds the pods, so that they are not to be found by their annotations too.
    let template = &mut base.get_mut("Deployment/sundown").unwrap()["spec"]["template"];
    assert_eq!(take_annotations(template)["prometheus.io/scrape"], "true");
    let mut monitoring = tools.kustomize(&copy.join("overlays/monitoring"));
    take_monitoring(&mut monitoring);
    assert_eq!(monitoring, base, "nothing else");

    // Both at once, as a comment in the overlay says.
    let both = copy.join("overlays/both");
    fs::create_dir(&both).unwrap();
    fs::copy(copy.join("overlays/irsa/role.yaml"), both.join("role.yaml")).unwrap();
    let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: \
        Kustomization\nresources: [../monitoring]\npatches: [{ path: role.yaml }]\n";
    fs::write(both.join("kustomization.yaml"), kustomization).unwrap();
    let mut made = tools.kustomize(&both);
    assert_eq!(
        take_annotations(made.get_mut("ServiceAccount/sundown").unwrap())["eks.amazonaws.com/role-arn"],
        ROLE
    );
    take_monitoring(&mut made);
    assert_eq!(made, base, "nothing else");
}

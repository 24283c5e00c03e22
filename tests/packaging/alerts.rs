//! The alerts as Prometheus evaluates them.

use std::fs;

use serde_json::json;

use crate::{
    expressions::{alerts, panels},
    tools::{ROOT, Tools, chart},
};

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let Some(tools) = Tools::found() else { return };
    tools.promtool(&["check", "rules", "--lint=all", "--lint-fatal", &format!("{}/files/rules.yaml", chart())]).unwrap();
    let said = tools.promtool(&["test", "rules", &format!("{ROOT}/tests/packaging/alerts.yaml")]).unwrap();
    assert!(said.contains("SUCCESS"), "{said}");
}

#[test]
fn an_alert_that_never_fires_or_always_is_found() {
    let Some(tools) = Tools::found() else { return };
    let (rules, cases) = (format!("{}/files/rules.yaml", chart()), format!("{ROOT}/tests/packaging/alerts.yaml"));
    let (rules, cases) = (fs::read_to_string(rules).unwrap(), fs::read_to_string(cases).unwrap());
    fs::write(tools.work.path().join("cases.yaml"), cases.replace("../../deploy/helm/sundown/files/rules.yaml", "rules.yaml")).unwrap();
    let wrong = ["vector(0) > 1", "vector(1) > 0"];
    for (name, expression) in alerts(&rules).into_iter().flat_map(|(name, ..)| wrong.map(|expression| (name.clone(), expression))) {
        let mut broken: serde_json::Value = serde_saphyr::from_str(&rules).unwrap();
        let all = broken["groups"][0]["rules"].as_array_mut().unwrap();
        all.iter_mut().find(|r| r["alert"] == name.as_str()).unwrap()["expr"] = json!(expression);
        fs::write(tools.work.path().join("rules.yaml"), broken.to_string()).unwrap();
        let said = tools.promtool(&["test", "rules", tools.work.path().join("cases.yaml").to_str().unwrap()]);
        assert!(said.is_err_and(|s| s.contains(&name)), "nobody notices that {name} is {expression}");
    }
}

#[test]
fn prometheus_reads_every_expression_of_the_dashboard() {
    let Some(tools) = Tools::found() else { return };
    let dashboard = fs::read_to_string(format!("{}/files/dashboard.json", chart())).unwrap();
    let expressions = panels(&dashboard);
    assert!(expressions.len() > 30, "{} expressions", expressions.len());
    // One Grafana shows several clusters: what is summed is one installation's, or all that were asked for.
    let narrow = r#"{cluster=~"$cluster", namespace=~"$namespace", job=~"$job""#;
    for (panel, expression) in &expressions {
        assert!(expression.contains(narrow), "{panel}: {expression}");
    }
    let plain =
        |e: &str| ["$cluster", "$namespace", "$job"].iter().fold(e.replace("$__rate_interval", "5m"), |e, variable| e.replace(variable, ".*"));
    let rules: Vec<_> = expressions.iter().enumerate().map(|(n, (_, e))| json!({ "record": format!("panel:{n}"), "expr": plain(e) })).collect();
    let file = tools.work.path().join("dashboard.yaml");
    fs::write(&file, json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string()).unwrap();
    tools.promtool(&["check", "rules", file.to_str().unwrap()]).unwrap();
}

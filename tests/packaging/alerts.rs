//! The alerts as Prometheus evaluates them.

use std::fs;

use serde_json::{Value, json};

use crate::{
    expressions::{alerts, panels},
    tools::{ROOT, Tools, chart},
};

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let Some(tools) = Tools::found() else { return };
    tools
        .promtool(&[
            "check",
            "rules",
            "--lint=all",
            "--lint-fatal",
            &format!("{}/files/rules.yaml", chart()),
        ])
        .unwrap();
    let output =
        tools.promtool(&["test", "rules", &format!("{ROOT}/tests/packaging/alerts.yaml")]).unwrap();
    assert!(output.contains("SUCCESS"), "{output}");
}

#[test]
fn an_alert_that_never_fires_or_always_is_found() {
    let Some(tools) = Tools::found() else { return };
    let (rules, cases) =
        (format!("{}/files/rules.yaml", chart()), format!("{ROOT}/tests/packaging/alerts.yaml"));
    let (rules, cases) = (fs::read_to_string(rules).unwrap(), fs::read_to_string(cases).unwrap());
    let names: Vec<String> = alerts(&rules).into_iter().map(|(name, ..)| name).collect();
    let (rules, cases): (Value, Value) =
        (serde_saphyr::from_str(&rules).unwrap(), serde_saphyr::from_str(&cases).unwrap());
    for name in &names {
        // Only this alert and its cases: all of them take promtool seconds.
        let (mut rules, mut cases) = (rules.clone(), cases.clone());
        let is_it = |entry: &Value, key: &str| entry[key] == name.as_str();
        rules["groups"][0]["rules"].as_array_mut().unwrap().retain(|rule| is_it(rule, "alert"));
        cases["rule_files"] = json!(["rules.yaml"]);
        let tests = cases["tests"].as_array_mut().unwrap();
        for test in tests.iter_mut() {
            test["alert_rule_test"].as_array_mut().unwrap().retain(|case| is_it(case, "alertname"));
        }
        tests.retain(|test| test["alert_rule_test"] != json!([]));
        fs::write(tools.work.path().join("cases.yaml"), cases.to_string()).unwrap();
        let mut judged = |expression: Option<&str>| {
            if let Some(expression) = expression {
                rules["groups"][0]["rules"][0]["expr"] = json!(expression);
            }
            fs::write(tools.work.path().join("rules.yaml"), rules.to_string()).unwrap();
            tools.promtool(&[
                "test",
                "rules",
                tools.work.path().join("cases.yaml").to_str().unwrap(),
            ])
        };
        assert!(judged(None).is_ok(), "{name} as it is");
        for wrong in ["vector(0) > 1", "vector(1) > 0"] {
            assert!(
                judged(Some(wrong)).is_err_and(|s| s.contains(name.as_str())),
                "nobody notices that {name} is {wrong}"
            );
        }
    }
}

#[test]
fn prometheus_reads_every_expression_of_the_dashboard() {
    let Some(tools) = Tools::found() else { return };
    let dashboard = fs::read_to_string(format!("{}/files/dashboard.json", chart())).unwrap();
    let expressions = panels(&dashboard);
    assert!(expressions.len() > 30, "{} expressions", expressions.len());
    // One Grafana shows several clusters: what is summed is one installation's, or all that were
    // asked for.
    let narrow = r#"{cluster=~"$cluster", namespace=~"$namespace", job=~"$job""#;
    for (panel, expression) in &expressions {
        assert!(expression.contains(narrow), "{panel}: {expression}");
    }
    let plain = |e: &str| {
        ["$cluster", "$namespace", "$job"]
            .iter()
            .fold(e.replace("$__rate_interval", "5m"), |e, variable| e.replace(variable, ".*"))
    };
    let rules: Vec<_> = expressions
        .iter()
        .enumerate()
        .map(|(n, (_, e))| json!({ "record": format!("panel:{n}"), "expr": plain(e) }))
        .collect();
    let file = tools.work.path().join("dashboard.yaml");
    fs::write(&file, json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string())
        .unwrap();
    tools.promtool(&["check", "rules", file.to_str().unwrap()]).unwrap();
}

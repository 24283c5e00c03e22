//! The alert rules and the dashboard.

use std::collections::BTreeSet;

use sundown::{controller::label_values, observe::Metrics};

use crate::{expressions, files, first_column, read};

const RULES: &str = "deploy/helm/sundown/files/rules.yaml";
const DASHBOARD: &str = "deploy/helm/sundown/files/dashboard.json";

#[test]
fn alerts_and_panels_ask_for_what_there_is_from_the_start() {
    let metrics = Metrics::new(&label_values());
    // With --dlq-url, once the queue has answered.
    metrics.set_dead_letters("dead", Some(0));
    let scrape = metrics.render().unwrap();
    assert_eq!(expressions::misses(&scrape, &read(RULES), &read(DASHBOARD)), Vec::<String>::new());
}

#[test]
fn the_dashboard_of_its_own_is_that_of_the_chart() {
    assert!(
        read("deploy/grafana/sundown.json") == read(DASHBOARD),
        "they differ: run deploy/render"
    );
}

/// What the operator looks for on the page is what the chart brings.
#[test]
fn every_alert_is_on_the_page_and_its_runbook_exists() {
    let alerts = expressions::alerts(&read(RULES));
    let names: BTreeSet<_> = alerts.iter().map(|(name, ..)| name.clone()).collect();
    assert_eq!(first_column(&read("docs/operations.md"), "## Alerts"), names);
    for (name, _, annotations) in alerts {
        let (page, anchor) = annotations["runbook"].split_once('#').unwrap();
        assert!(files("docs", ".md").contains(&page.to_owned()), "{name}: {page}");
        let headings: Vec<_> = read(page)
            .lines()
            .filter_map(|l| {
                Some(l.trim_start_matches('#'))
                    .filter(|h| *h != l)
                    .map(|h| crate::pages::anchor(h.trim()))
            })
            .collect();
        assert!(headings.iter().any(|h| h == anchor), "{name}: no heading #{anchor} in {page}");
    }
}

/// The module's alarms by the key under which it makes them, and the metrics that they are on.
#[test]
fn every_alarm_of_the_module_is_on_the_page_with_its_metrics() {
    let module = read("terraform/alarms.tf");
    let page = read("docs/operations.md");
    let alarms = [
        "receiving",
        "age",
        "dead",
        "looping",
        "undelivered",
        "RULE-FailedInvocations",
        "RULE-InvocationsFailedToBeSentToDlq",
    ];
    assert_eq!(first_column(&page, "### CloudWatch alarms"), alarms.map(str::to_owned).into());
    for name in alarms.iter().map(|alarm| alarm.trim_start_matches("RULE-")) {
        let is_there = [format!(" {name} = "), format!(" {name}  "), format!("\"{name}\"")]
            .iter()
            .any(|made| module.contains(made));
        assert!(is_there, "terraform/alarms.tf has no alarm {name}");
    }
    let named = module
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|word| word.starts_with("Approximate") || word.starts_with("NumberOf"));
    for metric in named {
        assert!(page.contains(&format!("`{metric}`")), "docs/operations.md does not name {metric}");
    }
}

/// Every alert fires somewhere, and nowhere where it must not: promtool says whether this is so
/// (tests/packaging), this says that it is asked.
#[test]
fn every_alert_is_tested_where_it_fires_where_it_does_not_and_without_any_series() {
    let page: serde_json::Value =
        serde_saphyr::from_str(&read("tests/packaging/alerts.yaml")).unwrap();
    for (name, expression, _) in expressions::alerts(&read(RULES)) {
        // A first miss of what it is about, and not of something beside it.
        let steps = |series: &serde_json::Value| {
            let metric = series["series"].as_str().unwrap().split('{').next().unwrap();
            series["values"].as_str().unwrap().starts_with("0 0 1") && expression.contains(metric)
        };
        let (mut fires, mut quiet, mut absent, mut first_step) = (0, 0, 0, 0);
        for test in page["tests"].as_array().unwrap() {
            let asked: Vec<_> = test["alert_rule_test"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|a| a["alertname"] == name.as_str())
                .collect();
            let series = test["input_series"].as_array().unwrap();
            absent += usize::from(series.is_empty() && !asked.is_empty());
            let fires_here = asked.iter().any(|a| !a["exp_alerts"].as_array().unwrap().is_empty());
            first_step += usize::from(fires_here && series.iter().any(steps));
            fires +=
                asked.iter().filter(|a| !a["exp_alerts"].as_array().unwrap().is_empty()).count();
            quiet +=
                asked.iter().filter(|a| a["exp_alerts"].as_array().unwrap().is_empty()).count();
        }
        assert!(
            fires > 0 && quiet > 0 && absent > 0 && first_step > 0,
            "{name}: {fires} fire, {quiet} do not, {absent} absent, {first_step} 0 0 1"
        );
    }
}

//! What expressions of Prometheus ask for: enough of their grammar for those that we write.

use std::collections::{BTreeMap, BTreeSet};

/// A sample of a scrape, or a selector of an expression: its name, and labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// With its ending: `sundown_drains_total`.
    pub name: String,
    /// Label, operator, text.
    pub matchers: Vec<(String, String, String)>,
}

/// Labels that Prometheus itself gives, by where it scrapes.
const OF_THE_TARGET: [&str; 5] = ["cluster", "namespace", "job", "instance", "pod"];

/// Every series that is asked for.
pub fn asked(expression: &str) -> Vec<Asked> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = expression;
    while let Some(at) = rest.find("sundown_") {
        rest = &rest[at..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let inside = after.strip_prefix('{').map(|a| a.split('}').next().unwrap());
        found.push(Asked {
            name: name.to_owned(),
            matchers: inside.map(matchers).unwrap_or_default(),
        });
        rest = after;
    }
    found
}

/// Of `a="b", c!="d"`.
fn matchers(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut pieces = text.split('"');
    while let (Some(head), Some(value)) = (pieces.next(), pieces.next()) {
        let head = head.trim_start_matches([',', ' ']).trim();
        let label = head.trim_end_matches(['=', '!', '~', ' ']);
        found.push((label.to_owned(), head[label.len()..].trim().to_owned(), value.to_owned()));
    }
    found
}

/// The labels after `by` and `without`.
fn groupings(expression: &str) -> BTreeSet<String> {
    let lists = expression.split(" by (").skip(1).map(|rest| rest.split(')').next().unwrap());
    lists.flat_map(|list| list.split(',')).map(|label| label.trim().to_owned()).collect()
}

/// What a scrape has: the labels of every name, and their values.
#[derive(Debug, Default)]
pub struct Scrape(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Scrape {
    pub fn read(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            let labels = all.0.entry(line[..end].to_owned()).or_default();
            let inside = line[end..]
                .strip_prefix('{')
                .map(|l| l.rsplit_once('}').unwrap().0)
                .unwrap_or_default();
            for (label, _, value) in matchers(inside) {
                labels.entry(label).or_default().insert(value);
            }
        }
        all
    }

    /// What of an expression this scrape does not have.
    pub fn lacks(&self, expression: &str) -> Vec<String> {
        let asked = asked(expression);
        let mut lacking = Vec::new();
        let mut known: BTreeSet<&str> = OF_THE_TARGET.into();
        for Asked { name, matchers } in &asked {
            let Some(labels) = self.0.get(name) else {
                lacking.push(format!("there is no sample {name}"));
                continue;
            };
            known.extend(labels.keys().map(String::as_str));
            for (label, operator, text) in
                matchers.iter().filter(|(label, ..)| !OF_THE_TARGET.contains(&label.as_str()))
            {
                let Some(values) = labels.get(label) else {
                    lacking.push(format!("{name} has no label {label}"));
                    continue;
                };
                let words: Vec<_> = if operator.ends_with('~') {
                    text.split('|').collect()
                } else {
                    vec![text.as_str()]
                };
                lacking.extend(
                    words
                        .into_iter()
                        .filter(|w| !values.contains(*w))
                        .map(|w| format!("{label} of {name} is never {w}")),
                );
            }
        }
        if asked.is_empty() {
            lacking.push("it asks for nothing of ours".to_owned());
        }
        lacking.extend(
            groupings(expression)
                .into_iter()
                .filter(|l| !known.contains(l.as_str()))
                .map(|l| format!("nothing has the label {l}")),
        );
        lacking
    }
}

/// The alerts, by name: expression and annotations.
pub fn alerts(rules: &str) -> Vec<(String, String, BTreeMap<String, String>)> {
    let rules: serde_json::Value = serde_saphyr::from_str(rules).unwrap();
    let all = rules["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    all.map(|r| {
        (
            text(&r["alert"]),
            text(&r["expr"]),
            serde_json::from_value(r["annotations"].clone()).unwrap(),
        )
    })
    .collect()
}

/// The expressions of a dashboard, each with the title of its panel.
pub fn panels(dashboard: &str) -> Vec<(String, String)> {
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.push((
                panel["title"].as_str().unwrap().to_owned(),
                target["expr"].as_str().unwrap().to_owned(),
            ));
        }
    }
    found
}

/// What alerts and panels ask for and a scrape does not have.
pub fn misses(scrape: &str, rules: &str, dashboard: &str) -> Vec<String> {
    let scrape = Scrape::read(scrape);
    let of_alerts = alerts(rules).into_iter().map(|(name, expression, _)| (name, expression));
    let all = of_alerts.chain(panels(dashboard));
    all.flat_map(|(name, expression)| {
        scrape.lacks(&expression).into_iter().map(move |what| format!("{name}: {what}"))
    })
    .collect()
}

#[test]
fn what_a_scrape_lacks_is_found() {
    let scrape = Scrape::read(
        "# TYPE sundown_a counter\nsundown_a_total{kind=\"x\",end=\"y,z\"} 0\nsundown_b \
         1\nsundown_c_bucket{le=\"1.0\"} 2\n# EOF\n",
    );
    for (expression, lacking) in [
        (
            "sum by (kind, job) (increase(sundown_a_total{kind=~\"x\", end!=\"y,z\"}[5m])) > \
             sundown_b",
            None,
        ),
        ("rate(sundown_c_bucket{job=~\"$job\"}[$__rate_interval])", None),
        ("rate(sundown_a[5m])", Some("there is no sample sundown_a")),
        ("sundown_b{kind=\"x\"}", Some("sundown_b has no label kind")),
        ("sundown_a_total{kind=~\"x|w\"}", Some("kind of sundown_a_total is never w")),
        ("sum by (zone) (sundown_b)", Some("nothing has the label zone")),
        ("up == 0", Some("it asks for nothing of ours")),
    ] {
        assert_eq!(
            scrape.lacks(expression),
            lacking.map(str::to_owned).into_iter().collect::<Vec<_>>(),
            "{expression}"
        );
    }
}

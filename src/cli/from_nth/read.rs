//! Reads NTH's present settings: Helm values, or the flags and variables of a Deployment.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::table::{self, Answer, IMDS_VALUES, Row};

/// The input has no settings of NTH.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadInput {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}; give a file, or - for standard input")]
    Read { path: String, source: std::io::Error },
    /// The input is not YAML.
    #[error("{path} is neither YAML nor JSON: {why}")]
    Parse { path: String, why: String },
    /// The input is empty. (Helm prints `null` or `{}` for a release without own values.)
    #[error(
        "{path} is empty; give the values of NTH's chart (`helm get values RELEASE -o yaml`) or \
         its Deployment (`kubectl get deployment NAME -o yaml`)"
    )]
    Empty { path: String },
    /// The input is YAML of something else.
    #[error(
        "{path} holds {what}; give the values of NTH's chart (`helm get values RELEASE -o yaml`) \
         or its Deployment (`kubectl get deployment NAME -o yaml`)"
    )]
    Other { path: String, what: String },
}

/// NTH's settings, by the rows of the table.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// NTH runs as a DaemonSet, in IMDS mode: each pod reads the metadata of its own instance.
    pub(super) is_imds: bool,
    /// The settings were read from a workload, not from Helm values.
    pub(super) is_workload: bool,
    /// At least one setting is NTH's.
    is_known: bool,
    settings: BTreeMap<&'static str, Value>,
    /// Settings whose value is in another object (`valueFrom`), by row.
    pub(super) elsewhere: BTreeMap<&'static str, Value>,
    /// Variables that are not NTH's.
    pub(super) environment: Vec<Value>,
    /// Names of settings that only IMDS mode uses.
    pub(super) of_imds: Vec<String>,
    /// Names that NTH does not know.
    pub(super) unknown: Vec<String>,
    /// Names of NTH's settings with a value of a wrong type, such as a word for a number.
    pub(super) unreadable: Vec<String>,
}

impl Given {
    /// The value that was given for this row. `None`: NTH's default applies.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.settings.get(name)
    }

    /// All settings that were given, in the order of the table.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'static Row, &Value)> {
        table::ROWS.iter().filter_map(|row| Some((row, self.get(row.name())?)))
    }

    /// Whether this switch is on, by its value or NTH's default.
    pub(super) fn is_on(&self, name: &str) -> bool {
        match self.get(name) {
            Some(given) => truth(given),
            None => table::of_value(name).is_some_and(|row| row.default == "true"),
        }
    }

    /// A text that was given and is not empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(plain).filter(|text| !text.is_empty())
    }

    /// A number that was given.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.trim().parse().ok()
    }

    fn take(&mut self, row: &'static Row, value: Value) {
        if row.answer == Answer::Imds {
            self.of_imds.push(row.name().to_owned());
        } else {
            self.settings.insert(row.name(), value);
        }
    }

    /// Moves settings with a value of a wrong type to `unreadable`. For them NTH's default applies.
    fn sift(&mut self) {
        for row in table::ROWS {
            if self.settings.get(row.name()).is_some_and(|value| !takes(row, value)) {
                self.settings.remove(row.name());
                self.unreadable.push(row.name().to_owned());
            }
        }
    }

    /// Whether the settings show that a workload is NTH, whatever its name and image.
    fn names_a_mode(&self) -> bool {
        let modes = ["enableSqsTerminationDraining", "queueURL"];
        !self.of_imds.is_empty()
            || modes
                .iter()
                .any(|mode| self.settings.contains_key(mode) || self.elsewhere.contains_key(mode))
    }
}

/// Whether a value has the type of the setting's default.
fn takes(row: &Row, value: &Value) -> bool {
    let text = plain(value);
    match row.default {
        _ if text.is_empty() => true,
        "true" | "false" => {
            truth(value) || matches!(text.as_str(), "0" | "f" | "F" | "false" | "FALSE" | "False")
        }
        "[]" => value.is_array(),
        "{}" => value.is_object(),
        default => default.parse::<i64>().is_err() || text.parse::<i64>().is_ok(),
    }
}

/// A scalar as NTH reads it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Whether Go's `strconv.ParseBool` reads it as true.
fn truth(value: &Value) -> bool {
    matches!(plain(value).as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Reads Helm values, a Deployment, a DaemonSet, a Pod, or a list with one of these in it.
pub(super) fn read(path: &str, text: &str) -> Result<Given, BadInput> {
    if text.trim().is_empty() {
        return Err(BadInput::Empty { path: path.to_owned() });
    }
    let parsed: Value = serde_saphyr::from_str(text).map_err(|e| {
        let why = e.to_string().lines().next().unwrap_or_default().to_owned();
        BadInput::Parse { path: path.to_owned(), why }
    })?;
    let other = |what: &str| BadInput::Other { path: path.to_owned(), what: what.to_owned() };
    let map = match parsed {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        _ => return Err(other("no mapping")),
    };
    match map.get("kind").and_then(Value::as_str) {
        None => {
            let given = values(map);
            if given.is_known || given.unknown.is_empty() {
                Ok(given)
            } else {
                Err(other(&format!(
                    "nothing that NTH {} knows (only {})",
                    table::VERSION,
                    few(&given.unknown)
                )))
            }
        }
        Some("List" | "DeploymentList" | "DaemonSetList") => {
            let items = map
                .get("items")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_object);
            let mut found: Vec<_> =
                items.filter(|item| container(item).is_some_and(|(_, is_nth)| is_nth)).collect();
            // A Deployment comes first: beside a DaemonSet of the same release it runs in queue
            // mode.
            found
                .sort_by_key(|item| item.get("kind").and_then(Value::as_str) != Some("Deployment"));
            found
                .first()
                .map(|item| workload(item))
                .ok_or_else(|| other("a list without a workload of aws-node-termination-handler"))
        }
        Some(kind @ ("Deployment" | "DaemonSet" | "Pod" | "ReplicaSet")) => {
            let (_, is_nth) =
                container(&map).ok_or_else(|| other(&format!("a {kind} without containers")))?;
            let given = workload(&map);
            if is_nth || given.names_a_mode() {
                Ok(given)
            } else {
                Err(other(&format!("a {kind} of another program")))
            }
        }
        Some(kind) => Err(other(&format!("a {kind}"))),
    }
}

/// The first three names, and how many more there are.
fn few(names: &[String]) -> String {
    let first = names.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(3) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The container of NTH in a workload, and whether its name or image is NTH's. Without such a
/// container, the first one.
fn container(object: &Map<String, Value>) -> Option<(&Value, bool)> {
    let spec = object.get("spec")?;
    let pod = spec.pointer("/template/spec").unwrap_or(spec);
    let all = pod.get("containers")?.as_array()?;
    let is_nth = |c: &&Value| {
        ["name", "image"].iter().any(|f| {
            c.get(f).and_then(Value::as_str).is_some_and(|t| t.contains("node-termination-handler"))
        })
    };
    all.iter().find(is_nth).map(|c| (c, true)).or_else(|| all.first().map(|c| (c, false)))
}

/// The settings in the flags and variables of a workload. A flag wins over its variable, as in NTH.
fn workload(object: &Map<String, Value>) -> Given {
    let mut given = Given { is_workload: true, ..Given::default() };
    let Some((container, _)) = container(object) else { return given };
    for entry in container.get("env").and_then(Value::as_array).into_iter().flatten() {
        variable(&mut given, entry);
    }
    let words = ["command", "args"]
        .into_iter()
        .filter_map(|f| container.get(f)?.as_array())
        .flatten()
        .filter_map(Value::as_str);
    flags(&mut given, &words.collect::<Vec<_>>());
    if let Some(replicas) = object.get("spec").and_then(|s| s.get("replicas")) {
        given.settings.insert("replicas", replicas.clone());
    }
    given.sift();
    let queue_mode = given.is_on("enableSqsTerminationDraining");
    given.is_imds = object.get("kind").and_then(Value::as_str) == Some("DaemonSet") || !queue_mode;
    given
}

/// Reads one entry of `env`. Variables that are not NTH's are kept as they are.
fn variable(given: &mut Given, entry: &Value) {
    let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
    let Some(row) = table::of_variable(name) else {
        given.environment.push(entry.clone());
        return;
    };
    match (entry.get("value"), entry.get("valueFrom")) {
        // Except `fieldRef`, such as the pod's own name.
        (_, Some(from)) if from.get("fieldRef").is_none() => {
            drop(given.elsewhere.insert(row.name(), from.clone()));
        }
        (Some(value), _) if !plain(value).is_empty() => given.take(row, value.clone()),
        _ => {}
    }
}

/// Flags as Go's own package reads them: one dash or two, `-flag=value` or `-flag value`, a switch
/// alone is on.
fn flags(given: &mut Given, words: &[&str]) {
    let mut words = words.iter().copied().peekable();
    while let Some(word) = words.next() {
        let Some(flag) =
            word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|f| !f.is_empty())
        else {
            continue;
        };
        let (name, inline) =
            flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let Some(row) = table::of_flag(name) else {
            given.unknown.push(format!("--{name}"));
            continue;
        };
        let is_switch = matches!(row.default, "true" | "false");
        let value = match inline {
            Some(value) => value,
            None if is_switch => "true",
            None => words.next().unwrap_or_default(),
        };
        given.elsewhere.remove(row.name());
        given.take(row, Value::String(value.to_owned()));
    }
}

/// The settings in Helm values. If NTH's chart is a subchart, only its values count.
fn values(mut map: Map<String, Value>) -> Given {
    match map.remove("aws-node-termination-handler") {
        Some(Value::Object(inner)) => map = inner,
        // The subchart has no values, and the others are not NTH's.
        Some(Value::Null) => map.clear(),
        _ => {}
    }
    // `helm get values` prints this heading unless it is asked for YAML.
    map.remove("USER-SUPPLIED VALUES");
    map.remove("global");
    let mut given = Given::default();
    walk(&mut given, "", map);
    given.sift();
    let environment = given.settings.remove("extraEnv");
    for entry in environment.as_ref().and_then(Value::as_array).into_iter().flatten() {
        variable(&mut given, entry);
    }
    // The variables in `extraEnv` may have set values of a wrong type too.
    given.sift();
    given.is_imds = !given.is_on("enableSqsTerminationDraining");
    given
}

fn walk(given: &mut Given, at: &str, map: Map<String, Value>) {
    for (key, value) in map {
        let path = if at.is_empty() { key } else { format!("{at}.{key}") };
        if IMDS_VALUES.iter().any(|of_imds| path.split('.').next() == Some(of_imds)) {
            given.is_known = true;
            given.of_imds.push(path);
        } else if let Some(row) = table::of_value(&path) {
            given.is_known = true;
            if !value.is_null() {
                given.settings.insert(row.name(), value);
            }
        } else if table::ROWS
            .iter()
            .any(|row| row.value.is_some_and(|v| v.starts_with(&format!("{path}."))))
        {
            match value {
                Value::Object(below) => walk(given, &path, below),
                Value::Null => {}
                _ => given.unreadable.push(path),
            }
        } else if path.starts_with("probes.") {
            // A probe may have any field of Kubernetes.
            given.is_known = true;
        } else {
            given.unknown.push(path);
        }
    }
}

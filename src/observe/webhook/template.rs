//! Templates of notifications: JSON or text with names in double braces, such as `{{ node }}`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The names that a template may use, and what each is replaced with.
pub const NAMES: &[(&str, &str)] = &[
    ("on", "`accepted` or `ended`"),
    ("summary", "a sentence with the most important of these values"),
    ("cluster", "`--cluster-name`"),
    ("event", "the ID of the event"),
    ("kind", "`terminate-hook`, `spot`, `capacity`, `state-change`"),
    ("time", "the time that AWS gives for the event"),
    ("instance", "the ID of the instance"),
    ("node", "the name of the node"),
    ("group", "the instance's Auto Scaling group"),
    ("zone", "the node's zone"),
    ("region", "the node's region"),
    ("type", "the node's instance type"),
    ("deadline", "when the drain ends at the latest; empty if nothing limits it"),
    ("outcome", "`accepted`, or how the drain ended: `empty`, `deadline` and so on"),
    ("took", "how long the drain took, in seconds"),
    ("evicted", "how many evictions the API server accepted"),
    ("blocked", "the pods that were blocked, by what, and for how long"),
    ("forced", "the pods that were deleted because of the deadline"),
    ("left", "the pods that were still on the node at the end"),
];

/// The prefix before the key of a Node label: `{{ label:topology.kubernetes.io/zone }}`.
const LABEL: &str = "label:";

/// The values that replace the names in a template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The values by name (see [`NAMES`]). A name without a value is replaced with nothing.
    pub fields: BTreeMap<&'static str, String>,
    /// The Node's labels by key. A label that is missing is replaced with nothing.
    pub labels: BTreeMap<String, String>,
}

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// It uses a name that does not exist.
    #[error("it uses `{0}`, which does not exist; use {known} or label:KEY", known = known())]
    Unknown(String),
    /// `{{` without `}}`; with the text after it.
    #[error("`{{{{` at `{0}` is never closed with `}}}}`")]
    Open(String),
    /// It begins like JSON, but is invalid JSON; with the parser's error.
    #[error(
        "it begins like JSON but is not valid JSON ({0}); put names inside strings: {{\"text\": \
         \"{{{{ summary }}}}\"}}"
    )]
    NotJson(String),
}

fn known() -> String {
    NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    shape: Shape,
    names: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// Names are replaced only inside its strings, so no value can make it invalid JSON.
    Json(Value),
    Text(String),
}

impl Template {
    /// Parses a template. A text that begins with `{` or `[`, but not with `{{`, must be JSON.
    pub fn new(text: &str) -> Result<Self, BadTemplate> {
        let trimmed = text.trim();
        let shape = if trimmed.starts_with(['{', '[']) && !trimmed.starts_with("{{") {
            Shape::Json(
                serde_json::from_str(trimmed).map_err(|e| BadTemplate::NotJson(e.to_string()))?,
            )
        } else {
            Shape::Text(text.to_owned())
        };
        let mut names = BTreeSet::new();
        match &shape {
            Shape::Json(value) => each_string(value, &mut |text: &str| collect(text, &mut names))?,
            Shape::Text(text) => collect(text, &mut names)?,
        }
        Ok(Self { shape, names })
    }

    /// The template is JSON rather than text.
    #[must_use]
    pub const fn is_json(&self) -> bool {
        matches!(self.shape, Shape::Json(_))
    }

    /// The template uses this name.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The keys of the Node labels that the template uses.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| name.strip_prefix(LABEL))
    }

    /// The template with its names replaced.
    #[must_use]
    pub fn render(&self, facts: &Facts) -> String {
        match &self.shape {
            Shape::Text(text) => fill(text, facts),
            Shape::Json(value) => filled(value, facts).to_string(),
        }
    }
}

fn each_string(
    value: &Value,
    look: &mut impl FnMut(&str) -> Result<(), BadTemplate>,
) -> Result<(), BadTemplate> {
    match value {
        Value::String(text) => look(text),
        Value::Array(list) => list.iter().try_for_each(|v| each_string(v, look)),
        Value::Object(map) => map.values().try_for_each(|v| each_string(v, look)),
        _ => Ok(()),
    }
}

fn collect(text: &str, names: &mut BTreeSet<String>) -> Result<(), BadTemplate> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{{") {
        let (name, next) = after
            .split_once("}}")
            .ok_or_else(|| BadTemplate::Open(after.chars().take(30).collect()))?;
        let name = name.trim();
        let is_label = name
            .strip_prefix(LABEL)
            .is_some_and(|key| !key.trim().is_empty() && !key.contains(char::is_whitespace));
        if !is_label && !NAMES.iter().any(|(known, _)| *known == name) {
            return Err(BadTemplate::Unknown(name.to_owned()));
        }
        names.insert(name.to_owned());
        rest = next;
    }
    Ok(())
}

fn filled(value: &Value, facts: &Facts) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text, facts)),
        Value::Array(list) => list.iter().map(|v| filled(v, facts)).collect(),
        Value::Object(map) => map.iter().map(|(key, v)| (key.clone(), filled(v, facts))).collect(),
        other => other.clone(),
    }
}

fn fill(text: &str, facts: &Facts) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, (name, next))) =
        rest.split_once("{{").and_then(|(before, after)| Some((before, after.split_once("}}")?)))
    {
        out.push_str(before);
        let name = name.trim();
        let value = name
            .strip_prefix(LABEL)
            .map_or_else(|| facts.fields.get(name), |key| facts.labels.get(key));
        out.push_str(value.map(String::as_str).unwrap_or_default());
        rest = next;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let fields = [("node", "ip-1"), ("summary", "a \"quoted\"\nline\\"), ("kind", "spot")];
        let labels = [("example.com/pool".to_owned(), "blue".to_owned())].into();
        Facts { fields: fields.map(|(k, v)| (k, v.to_owned())).into(), labels }
    }

    #[test]
    fn names_are_replaced_and_unknown_values_are_empty() {
        for (template, text) in [
            ("{{node}} {{ kind }}: {{ label:example.com/pool }}{{ zone }}", "ip-1 spot: blue"),
            ("no names", "no names"),
            (
                r#"{"text":"{{ node }}","n":1,"list":["{{ kind }}",null]}"#,
                r#"{"list":["spot",null],"n":1,"text":"ip-1"}"#,
            ),
            (r#"{"text":"{{ summary }}"}"#, r#"{"text":"a \"quoted\"\nline\\"}"#),
            (r#"["{{ label:other }}"]"#, r#"[""]"#),
        ] {
            assert_eq!(Template::new(template).unwrap().render(&facts()), text, "{template}");
        }
    }

    #[test]
    fn names_in_a_value_are_not_replaced() {
        let facts = Facts {
            fields: [("node", "{{ kind }}".to_owned()), ("kind", "spot".to_owned())].into(),
            labels: BTreeMap::new(),
        };
        assert_eq!(Template::new("{{ node }}").unwrap().render(&facts), "{{ kind }}");
    }

    #[test]
    fn a_template_lists_the_names_it_uses() {
        let template = Template::new("{{ label:b/c }}{{ label:a }}{{ zone }}").unwrap();
        assert_eq!(template.labels().collect::<Vec<_>>(), ["a", "b/c"]);
        assert!(template.uses("zone") && !template.uses("group") && !template.is_json());
        assert!(Template::new(" [\"{{ zone }}\"]").unwrap().is_json());
    }

    #[test]
    fn the_error_of_a_bad_template_names_the_reason_and_the_remedy() {
        for (template, words) in [
            ("{{ nod }}", "`nod`, which does not exist; use on, summary"),
            ("{{ .NodeName }}", "`.NodeName`"),
            ("{{ label: }}", "`label:`"),
            ("{{ label:a b }}", "`label:a b`"),
            ("a {{ node", "never closed"),
            (r#"{"text": {{ node }}}"#, "put names inside strings"),
            (r#"{"text": "{{ nod }}"}"#, "`nod`"),
        ] {
            let error = Template::new(template).unwrap_err().to_string();
            assert!(error.contains(words), "{template}: {error}");
        }
    }
}

//! What a notification says: a text with names in braces.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The names that a template knows, and what stands for each.
pub const NAMES: &[(&str, &str)] = &[
    ("on", "`accepted` or `ended`"),
    ("summary", "a sentence with the most important of what follows"),
    ("cluster", "`--cluster-name`"),
    ("event", "the id of the event"),
    ("kind", "`terminate-hook`, `spot`, `capacity`, `state-change`"),
    ("time", "when it happened, as AWS says"),
    ("instance", "the instance"),
    ("node", "the node"),
    ("group", "its Auto Scaling group"),
    ("zone", "its zone"),
    ("region", "its region"),
    ("type", "its instance type"),
    ("deadline", "when the drain ends at the latest, where something ends it"),
    ("outcome", "`accepted`, or how the drain ended: `empty`, `deadline` and so on"),
    ("took", "how long the drain took, in seconds"),
    ("evicted", "how many evictions were accepted"),
    ("blocked", "which pods were blocked, by what, and for how long"),
    ("forced", "which pods were deleted because the deadline came"),
    ("left", "which pods were still there at the end"),
];

/// Stands before the key of a label of the node.
const LABEL: &str = "label:";

/// What stands for the names, by name; labels of the node by their key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// By name. What is missing is empty.
    pub fields: BTreeMap<&'static str, String>,
    /// Labels of the node, those that the template names.
    pub labels: BTreeMap<String, String>,
}

/// The template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// It names something that is not known.
    #[error("it names `{0}`, which is not known; use {known} or label:KEY", known = known())]
    Unknown(String),
    /// A brace is not closed.
    #[error("`{{{{` at `{0}` is never closed with `}}}}`")]
    Open(String),
    /// It begins as JSON does, and is none.
    #[error(
        "it begins as JSON does but is none ({0}); names stand inside of strings: {{\"text\": \
         \"{{{{ summary }}}}\"}}"
    )]
    NotJson(String),
}

fn known() -> String {
    NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// A template that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    shape: Shape,
    names: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// Names stand in its strings, so nothing that is put in can break it.
    Json(Value),
    Text(String),
}

impl Template {
    /// Reads a template.
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

    /// It is JSON.
    #[must_use]
    pub const fn is_json(&self) -> bool {
        matches!(self.shape, Shape::Json(_))
    }

    /// It names this.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The keys of the labels that it names.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| name.strip_prefix(LABEL))
    }

    /// The text with the facts put in.
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
    fn names_are_put_in_and_what_is_not_known_of_an_event_is_empty() {
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
    fn what_is_put_in_is_not_looked_through_again() {
        let facts = Facts {
            fields: [("node", "{{ kind }}".to_owned()), ("kind", "spot".to_owned())].into(),
            labels: BTreeMap::new(),
        };
        assert_eq!(Template::new("{{ node }}").unwrap().render(&facts), "{{ kind }}");
    }

    #[test]
    fn a_template_says_what_it_names() {
        let template = Template::new("{{ label:b/c }}{{ label:a }}{{ zone }}").unwrap();
        assert_eq!(template.labels().collect::<Vec<_>>(), ["a", "b/c"]);
        assert!(template.names("zone") && !template.names("group") && !template.is_json());
        assert!(Template::new(" [\"{{ zone }}\"]").unwrap().is_json());
    }

    #[test]
    fn one_that_cannot_be_used_says_why_and_what_can_be() {
        for (template, words) in [
            ("{{ nod }}", "`nod`, which is not known; use on, summary"),
            ("{{ .NodeName }}", "`.NodeName`"),
            ("{{ label: }}", "`label:`"),
            ("{{ label:a b }}", "`label:a b`"),
            ("a {{ node", "never closed"),
            (r#"{"text": {{ node }}}"#, "names stand inside of strings"),
            (r#"{"text": "{{ nod }}"}"#, "`nod`"),
        ] {
            let said = Template::new(template).unwrap_err().to_string();
            assert!(said.contains(words), "{template}: {said}");
        }
    }
}

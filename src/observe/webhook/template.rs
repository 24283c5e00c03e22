//! Templates of notifications: JSON whose strings are minijinja templates, such as `{{ node }}`.
//!
//! The JSON is parsed first, and then each of its strings is rendered by itself. So no value can
//! change the structure of the result, whatever characters the value has.

mod error;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use minijinja::{
    Environment, Error, UndefinedBehavior, Value, escape_formatter,
    machinery::{Instruction, Instructions, get_compiled_template, tokenize},
    syntax::SyntaxConfig,
    value::Object,
};
use serde_json::Value as Json;

pub(crate) use self::error::beginning;
pub use self::error::{BadTemplate, Fault};
use self::error::{SHOWN, in_words};
use super::{DEFAULT_TEMPLATE, Notice, On};

/// The names that a template may use, and the value of each.
pub const NAMES: &[(&str, &str)] = &[
    ("on", "`accepted` or `ended`"),
    ("summary", "a sentence with the most important of these values"),
    ("cluster", "`--cluster-name`"),
    ("event", "the ID of the event"),
    ("kind", "[the kind](interruptions.md#by-kind), such as `terminate-hook` or `spot`"),
    ("time", "the time that AWS gives for the event"),
    ("instance", "the ID of the instance"),
    ("node", "the name of the node"),
    ("group", "the instance's Auto Scaling group"),
    ("zone", "the node's zone"),
    ("region", "the node's region"),
    ("type", "the node's instance type"),
    ("deadline", "when the instance ends; empty for a terminate hook"),
    ("outcome", "`accepted`, or how the drain ended: `empty`, `deadline` and so on"),
    ("took", "how long the drain took, in seconds: a number; empty before it ends"),
    ("evicted", "how many evictions the API server accepted: a number"),
    ("blocked", "the pods that were blocked, by what, and for how long"),
    ("forced", "the pods that were deleted because of the deadline"),
    ("left", "the pods that were still on the node at the end"),
];

/// The name of the Node's labels: `{{ labels['topology.kubernetes.io/zone'] }}`.
const LABELS: &str = "labels";
/// How large a template may be, in bytes.
pub(super) const LARGEST_TEMPLATE: usize = 64 * 1024;
/// How large a rendered notification may be, in bytes.
const LARGEST_BODY: usize = 256 * 1024;
/// The steps in which a template must be rendered. minijinja counts each instruction and every 64
/// bytes of data as one, so this bounds its memory too (1.2 MiB).
const FUEL: u64 = 20_000;
/// How deep statements may be nested in a string of a template.
const DEEPEST: usize = 50;
/// How many tokens of minijinja a string of a template may have. This bounds how deep an expression
/// is: minijinja compiles one by recursion, and 1000 levels take 1.5 MB of stack in a debug build.
const MOST_TOKENS: usize = 500;

/// The values that replace the names in a template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The values by name (see [`NAMES`]). The value `none` is rendered as nothing.
    pub fields: BTreeMap<&'static str, Value>,
    /// The Node's labels by key. A label that is missing is rendered as nothing.
    pub labels: BTreeMap<String, String>,
}

impl Object for Facts {
    fn get_value(self: &Arc<Self>, name: &Value) -> Option<Value> {
        match name.as_str()? {
            LABELS => Some(Value::from_object(Labels(Arc::clone(self)))),
            name => self.fields.get(name).cloned(),
        }
    }
}

/// The value of the name `labels`.
#[derive(Debug)]
struct Labels(Arc<Facts>);

impl Object for Labels {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let value = self.0.labels.get(key.as_str()?).map(String::as_str);
        Some(value.unwrap_or_default().into())
    }
}

/// A template of notifications, parsed once at the start.
#[derive(Debug, Clone)]
pub struct Template {
    json: Json,
    /// Has every string of the JSON, compiled, under its own text.
    strings: Environment<'static>,
    used: Used,
}

impl Template {
    /// Parses a template: JSON whose strings are minijinja templates that use only [`NAMES`] and
    /// labels of the Node.
    pub fn new(text: &str) -> Result<Self, BadTemplate> {
        if text.len() > LARGEST_TEMPLATE {
            return Err(BadTemplate::TooLarge);
        }
        let json = serde_json::from_str(text)
            .map_err(|e| BadTemplate::NotJson { error: e.to_string(), form: as_json(text) })?;
        let mut template = Self { json: Json::Null, strings: engine(), used: Used::default() };
        map_strings(&json, "", &mut |place, text| {
            template
                .compile(text)
                .map_err(|fault| BadTemplate::String { place: place(), fault })?;
            Ok(text.to_owned())
        })?;
        Ok(Self { json, ..template })
    }

    /// Parses a template, and renders it once for typical notifications of these events, so that
    /// errors show at the start rather than with the first drain.
    pub fn for_events(text: &str, events: &BTreeSet<On>) -> Result<Self, BadTemplate> {
        let template = Self::new(text)?;
        for notice in events.iter().flat_map(|on| Notice::samples(*on)) {
            template.render(notice.facts(None))?;
        }
        Ok(template)
    }

    /// The template uses this name.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        self.used.names.contains(name)
    }

    /// The keys of the Node labels that the template uses.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.used.labels.iter().map(String::as_str)
    }

    /// The JSON of a notification. Errs if a value does not fit the template, or if the result
    /// takes too much time or space.
    pub fn render(&self, facts: Facts) -> Result<String, BadTemplate> {
        let facts = Value::from_object(facts);
        let mut burnt = 0;
        let json = map_strings(&self.json, "", &mut |place, text| {
            let failed = |error: &Error| match error.kind() {
                minijinja::ErrorKind::OutOfFuel => BadTemplate::OutOfFuel,
                _ => BadTemplate::String {
                    place: place(),
                    fault: Fault::Render { text: beginning(text), error: in_words(error) },
                },
            };
            let rendered = self
                .strings
                .get_template(text)
                .and_then(|string| string.render_captured(&facts))
                .map_err(|error| failed(&error))?;
            burnt += rendered.state().fuel_levels().map_or(0, |(consumed, _)| consumed);
            if burnt > FUEL {
                return Err(BadTemplate::OutOfFuel);
            }
            Ok(rendered.into_output())
        })?;
        let body = json.to_string();
        if body.len() > LARGEST_BODY {
            return Err(BadTemplate::BodyTooLarge);
        }
        Ok(body)
    }

    /// Compiles a string, and remembers which names and labels it uses.
    fn compile(&mut self, text: &str) -> Result<(), Fault> {
        if text.contains("{#") {
            return Err(Fault::Comment);
        }
        let tokens = tokenize(text, false, self.strings.syntax().clone()).take_while(Result::is_ok);
        if tokens.take(MOST_TOKENS + 1).count() > MOST_TOKENS {
            return Err(Fault::TooLong(beginning(text)));
        }
        let syntax = |error: Error| match old_label(text) {
            Some(key) => Fault::OldLabel(key.to_owned()),
            None => Fault::Syntax { text: beginning(text), error: in_words(&error) },
        };
        self.strings.add_template_owned(text.to_owned(), text.to_owned()).map_err(syntax)?;
        let string = self.strings.get_template(text).map_err(syntax)?;
        self.used.add(&get_compiled_template(&string).instructions)
    }
}

/// The names and labels that a template uses, in all its branches.
#[derive(Debug, Clone, Default)]
struct Used {
    names: BTreeSet<String>,
    labels: BTreeSet<String>,
}

impl Used {
    /// Adds the names and labels in a compiled string. Errs if the string uses something that does
    /// not exist.
    fn add(&mut self, code: &Instructions<'_>) -> Result<(), Fault> {
        let code: Vec<_> = (0..).map_while(|n| code.get(n)).collect();
        let own: BTreeSet<_> = code
            .iter()
            .filter_map(|instruction| match instruction {
                Instruction::StoreLocal(name) => Some(*name),
                Instruction::PushLoop(_) => Some("loop"),
                _ => None,
            })
            .collect();
        let mut rest = code.as_slice();
        while let [first, next @ ..] = rest {
            match *first {
                Instruction::Lookup(LABELS) => {
                    self.labels.insert(key(next).ok_or(Fault::NoKey)?.to_owned());
                }
                Instruction::Lookup(name) if NAMES.iter().any(|(known, _)| known == name) => {
                    self.names.insert((*name).to_owned());
                }
                Instruction::Lookup(name) if !own.contains(name) => {
                    return Err(Fault::UnknownName((*name).to_owned()));
                }
                Instruction::ApplyFilter(name, ..)
                | Instruction::PerformTest(name, ..)
                | Instruction::CallFunction(name, ..)
                | Instruction::CallMethod(name, ..) => {
                    return Err(Fault::Call((*name).to_owned()));
                }
                Instruction::CallObject(_) | Instruction::FastRecurse => {
                    return Err(Fault::Call("(…)".to_owned()));
                }
                _ => {}
            }
            rest = next;
        }
        Ok(())
    }
}

/// The key of the label that is read by the instructions after that for `labels`, if it is a text
/// in the template: `['KEY']` or `.KEY`.
fn key<'a>(next: &[&'a Instruction<'_>]) -> Option<&'a str> {
    match next {
        [Instruction::GetAttr(key), ..] => Some(key),
        [Instruction::LoadConst(key), Instruction::GetItem, ..] => key.as_str(),
        _ => None,
    }
}

/// minijinja as templates use it: no filters, tests, functions or files; nothing is escaped, and a
/// name without a value is an error.
fn engine() -> Environment<'static> {
    let mut engine = Environment::empty();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_fuel(Some(FUEL));
    engine.set_recursion_limit(DEEPEST);
    engine.set_formatter(|out, state, value| {
        if value.is_none() { Ok(()) } else { escape_formatter(out, state, value) }
    });
    // Only delimiters can be invalid, and these are the usual ones.
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    engine.set_syntax(syntax.unwrap_or_default());
    engine
}

/// A copy of the JSON with every string and every key replaced by what `replace` makes of it.
/// `replace` also gets a function that returns the JSON pointer of the string, for errors. `pointer`:
/// the JSON pointer of `json` itself.
fn map_strings(
    json: &Json,
    pointer: &str,
    replace: &mut impl FnMut(&dyn Fn() -> String, &str) -> Result<String, BadTemplate>,
) -> Result<Json, BadTemplate> {
    let shown = if pointer.is_empty() { "/" } else { pointer };
    Ok(match json {
        Json::String(text) => Json::String(replace(&|| format!("at {shown}"), text)?),
        Json::Array(list) => (0..)
            .zip(list)
            .map(|(n, item)| map_strings(item, &format!("{pointer}/{n}"), replace))
            .collect::<Result<_, _>>()?,
        Json::Object(object) => {
            let mut made = serde_json::Map::new();
            for (key, value) in object {
                let place = || format!("in a key at {shown}");
                let new = replace(&place, key)?;
                let value = map_strings(value, &format!("{pointer}/{key}"), replace)?;
                if made.contains_key(&new) {
                    return Err(BadTemplate::SameKey { place: place(), key: new });
                }
                made.insert(new, value);
            }
            Json::Object(made)
        }
        other => other.clone(),
    })
}

/// The JSON to write instead of a text that is not JSON.
fn as_json(text: &str) -> String {
    let text = text.trim();
    let is_meant_as_json = text.starts_with(['{', '[', '"']) && !text.starts_with("{{");
    if is_meant_as_json || text.is_empty() || text.len() > SHOWN {
        return DEFAULT_TEMPLATE.to_owned();
    }
    serde_json::json!({ "text": with_new_labels(text) }).to_string()
}

/// The text with each `{{ label:KEY }}` in the form of minijinja.
fn with_new_labels(text: &str) -> String {
    let mut parts = text.split("{{");
    let mut new = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let label = part
            .split_once("}}")
            .and_then(|(name, rest)| Some((name.trim().strip_prefix("label:")?.trim(), rest)));
        match label {
            Some((key, rest)) if !key.is_empty() => {
                new.extend(["{{ labels['", key, "'] }}", rest]);
            }
            _ => new.extend(["{{", part]),
        }
    }
    new
}

/// The key in `{{ label:KEY }}`, the form of labels before minijinja.
fn old_label(text: &str) -> Option<&str> {
    text.split("{{").skip(1).find_map(|rest| {
        let (name, _) = rest.split_once("}}")?;
        name.trim().strip_prefix("label:").map(str::trim).filter(|key| !key.is_empty())
    })
}

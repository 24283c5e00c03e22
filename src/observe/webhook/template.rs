//! Templates of notifications: JSON whose strings are minijinja templates, such as `{{ node }}`.
//!
//! The JSON is parsed first, and then each of its strings is rendered by itself. So no value can
//! change the structure of the result, whatever characters the value has.

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

use super::{DEFAULT_TEMPLATE, Notice, On};

/// The names that a template may use, and the value of each.
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
/// How many characters of a template an error shows.
const SHOWN: usize = 100;

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

/// Why a template cannot be used, or why a notification cannot be rendered with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// The template is too large.
    #[error("it is larger than {LARGEST_TEMPLATE} bytes; shorten it")]
    TooLarge,
    /// It is not JSON.
    #[error(
        "it is not JSON ({error}); write {form} (names go inside JSON strings; inside braces, \
         quote with '…')"
    )]
    NotJson {
        /// The error of the JSON parser, with line and column.
        error: String,
        /// What to write instead.
        form: String,
    },
    /// One of its strings has an error.
    #[error("{place}: {fault}")]
    String {
        /// Where the string is in the JSON.
        place: String,
        /// What is wrong with it, and what to write instead.
        fault: Fault,
    },
    /// Two keys of an object became the same.
    #[error("{place}: two keys are `{key}` once they are rendered; keep them apart")]
    SameKey {
        /// Where the key is in the JSON.
        place: String,
        /// The rendered key.
        key: String,
    },
    /// The template needs more than the steps that it may take.
    #[error("it takes more than {FUEL} steps to render; use fewer or shorter loops")]
    OutOfFuel,
    /// The rendered notification is too large.
    #[error("the rendered notification is larger than {LARGEST_BODY} bytes; shorten the template")]
    BodyTooLarge,
}

/// What is wrong with a string of a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It does not follow the syntax of minijinja.
    #[error("`{text}` is not a minijinja template ({error}); write names as {{{{ summary }}}}")]
    Syntax {
        /// The beginning of the string.
        text: String,
        /// The error of minijinja.
        error: String,
    },
    /// It names a label of the Node in the form that Sundown had before it used minijinja.
    #[error("`{{{{ label:{0} }}}}` is written as {{{{ labels['{0}'] }}}}")]
    OldLabel(String),
    /// It has more tokens than minijinja can compile with the stack that there is.
    #[error("`{0}` has more than {MOST_TOKENS} words and operators; use several shorter strings")]
    TooLong(String),
    /// It has a comment. Before minijinja, Sundown sent `{#` as it is, so text would be lost.
    #[error("`{{#` would begin a comment, and comments are not sent; write {{{{ '{{' }}}}#")]
    Comment,
    /// It uses a name that does not exist.
    #[error("it uses `{0}`, which does not exist; use {known} or labels['KEY']", known = known())]
    UnknownName(String),
    /// It uses the labels, but not one by its key.
    #[error("it uses `labels` without the key of a label; write {{{{ labels['KEY'] }}}}")]
    NoKey,
    /// It calls a function or a method, or uses a filter or a test.
    #[error("it uses `{0}`, but there are no filters, tests or functions; use only operators")]
    Call(String),
    /// It cannot be rendered.
    #[error("`{text}` cannot be rendered ({error})")]
    Render {
        /// The beginning of the string.
        text: String,
        /// The error of minijinja.
        error: String,
    },
}

fn known() -> String {
    NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The beginning of a text, for an error.
pub(crate) fn beginning(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// A parsed template.
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

/// An error of minijinja without the name that the string has inside the engine.
fn in_words(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A value with everything that could end a JSON string or begin an expression.
    const HOSTILE: &str = "\"}],\"x\":[\n\\ {{ node }} {% if %} \u{1}'<&>";

    fn facts() -> Facts {
        let notice = Notice {
            on: Some(On::Ended),
            node: "ip-1".to_owned(),
            kind: "spot",
            took: Some(Duration::from_secs(90)),
            evicted: 3,
            labels: [("example.com/pool", "blue"), ("hostile", HOSTILE), ("team", "a")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..Notice::default()
        };
        notice.facts(Some(HOSTILE))
    }

    fn rendered(template: &str) -> Result<Json, BadTemplate> {
        let body = Template::new(template)?.render(facts())?;
        Ok(serde_json::from_str(&body).unwrap())
    }

    #[test]
    fn values_and_keys_are_rendered_and_everything_else_stays_as_it_is() {
        for (template, body) in [
            (r#"["{{node}} {{ kind }}: {{ zone }}"]"#, r#"["ip-1 spot: "]"#),
            (r#"["no names }} % { $ \" \n"]"#, r#"["no names }} % { $ \" \n"]"#),
            (
                r#"{"text":"{{ node }}","n":1.5,"list":["{{ kind }}",null,true,{}]}"#,
                r#"{"text":"ip-1","n":1.5,"list":["spot",null,true,{}]}"#,
            ),
            (r#"{"{{ node }}":{"a {{ kind }}":"b"}}"#, r#"{"ip-1":{"a spot":"b"}}"#),
            (r#"["{{ took }}","{{ evicted }}"]"#, r#"["90","3"]"#),
            (r#"["{{ labels['example.com/pool'] }}"]"#, r#"["blue"]"#),
            (r#"["{{ labels[\"team\"] }}{{ labels.team }}"]"#, r#"["aa"]"#),
            (r#"["{{ labels.other }}{{ labels['an/other'] }}"]"#, r#"[""]"#),
            (r#""{{ node }}""#, r#""ip-1""#),
            (r#"["a\n"]"#, r#"["a\n"]"#),
            (r#"["{% if took > 60 %}slow{% else %}fast{% endif %}"]"#, r#"["slow"]"#),
            (r#"["{{ 'slow' if took > 99 else 'fast' }}"]"#, r#"["fast"]"#),
            (r#"["{{ blocked or 'none' }}"]"#, r#"["none"]"#),
            (
                r#"["{% for x in [node, kind] %}{{ loop.index }}{{ x }} {% endfor %}"]"#,
                r#"["1ip-1 2spot "]"#,
            ),
            (r#"["{% set x = kind ~ '!' %}{{ x }}{{ '{' }}#"]"#, r#"["spot!{#"]"#),
            (r#"["{% raw %}{{ nod }}{% endraw %}"]"#, r#"["{{ nod }}"]"#),
        ] {
            let body: Json = serde_json::from_str(body).unwrap();
            assert_eq!(rendered(template), Ok(body), "{template}");
        }
    }

    #[test]
    fn no_value_can_break_out_of_its_string() {
        for (template, body) in [
            (r#"{"text":"{{ cluster }}"}"#, serde_json::json!({ "text": HOSTILE })),
            (r#"{"{{ labels.hostile }}":1}"#, serde_json::json!({ HOSTILE: 1 })),
            (
                r#"["{% set x = cluster %}{{ x }}","{{ cluster ~ cluster }}"]"#,
                serde_json::json!([HOSTILE, HOSTILE.repeat(2)]),
            ),
        ] {
            assert_eq!(rendered(template), Ok(body), "{template}");
        }
    }

    #[test]
    fn a_number_is_empty_while_it_is_unknown_and_less_than_every_number() {
        let template = "[\"{{ took }}{% if took > 0 %}slow{% endif %}\"]";
        let facts = Notice::default().facts(None);
        assert_eq!(Template::new(template).unwrap().render(facts), Ok("[\"\"]".to_owned()));
    }

    #[test]
    fn a_template_lists_the_names_it_uses_in_all_its_branches() {
        let text = r#"{"{{ labels['b/c'] }}":"{% if on == 'x' %}{{ labels.a }}{% endif %}
            {{ group[:3] if zone else labels['d' ~ 'e'] }}"}"#;
        let template = Template::new(&text.replace('\n', " ")).unwrap();
        assert_eq!(template.labels().collect::<Vec<_>>(), ["a", "b/c", "de"]);
        for (name, is_used) in
            [("zone", true), ("group", true), ("on", true), ("node", false), ("labels", false)]
        {
            assert_eq!(template.uses(name), is_used, "{name}");
        }
    }

    #[test]
    fn the_error_of_a_bad_template_names_the_place_the_reason_and_the_remedy() {
        for (template, words) in [
            (r#"["{{ nod }}"]"#, "at /0: it uses `nod`, which does not exist; use on, summary"),
            (r#"["{{ nod }}"]"#, "left or labels['KEY']"),
            (r#"{"a":{"b":["","{{ nod }}"]}}"#, "at /a/b/1: it uses `nod`"),
            (r#"{"a":{"{{ nod }}":1}}"#, "in a key at /a: it uses `nod`"),
            (r#""{{ nod }}""#, "at /: it uses `nod`"),
            (r#"["{% if on == 'x' %}{{ nod[:2] }}{% endif %}"]"#, "`nod`"),
            (r#"["{% with node = nod %}{{ node }}{% endwith %}"]"#, "`nod`"),
            (r#"["{{ loop.index }}"]"#, "`loop`"),
            (r#"["{{ label }}"]"#, "`label`"),
            (r#"["{{ .NodeName }}"]"#, "`{{ .NodeName }}` is not a minijinja template (syntax"),
            (r#"["{{ .NodeName }}"]"#, "write names as {{ summary }}"),
            (r#"["a {{ node"]"#, "`a {{ node` is not"),
            (r#"["100 {% off"]"#, "is not a minijinja template"),
            (r#"["{% include 'x' %}"]"#, "is not a minijinja template"),
            (r#"["{{ label:a.b/c }}"]"#, "`{{ label:a.b/c }}` is written as {{ labels['a.b/c'] }}"),
            (r#"["{{ node }} {{label: a }}"]"#, "is written as {{ labels['a'] }}"),
            (r#"["{{ label: }}"]"#, "is not a minijinja template"),
            (r#"["a {# b #}"]"#, "write {{ '{' }}#"),
            (r#"["{{ labels }}"]"#, "without the key of a label; write {{ labels['KEY'] }}"),
            (r#"["{{ labels[node] }}"]"#, "without the key"),
            (r#"["{{ labels[0] }}"]"#, "without the key"),
            (r#"["{{ node|upper }}"]"#, "it uses `upper`, but there are no filters"),
            (r#"["{{ node is defined }}"]"#, "`defined`"),
            (r#"["{{ range(3) }}"]"#, "`range`"),
            (r#"["{{ node.upper() }}"]"#, "`upper`"),
            (r#"["{% for x in [1] recursive %}{{ loop(x) }}{% endfor %}"]"#, "`(…)`"),
            (r#"["{{ node.name }}"]"#, "at /0: `{{ node.name }}` cannot be rendered (undefined"),
            (r#"["{{ node + 1 }}"]"#, "cannot be rendered (invalid operation"),
            (r#"["{% if 0 %}{% set x = 1 %}{% endif %}{{ x }}"]"#, "(undefined value)"),
            (r#"{"{{ zone }}":1,"{{ type }}":2}"#, "in a key at /: two keys are ``"),
            ("{{ node }} is gone", r#"write {"text":"{{ node }} is gone"}"#),
            ("{{label:a}}, {{ node }}", r#"write {"text":"{{ labels['a'] }}, {{ node }}"}"#),
            ("it said \"no\"", r#"write {"text":"it said \"no\""}"#),
            ("{{ node }} is gone", "it is not JSON (key must be a string at line 1 column 2)"),
            (r#"{"text": {{ node }}}"#, DEFAULT_TEMPLATE),
            (r#"{"text": "{{ labels["a"] }}"}"#, "inside braces, quote with '…'"),
            (r#"{"text": "a"} x"#, "trailing characters at line 1 column 15"),
            (" ", DEFAULT_TEMPLATE),
            (&"x".repeat(200), DEFAULT_TEMPLATE),
            (&format!("[\"{}\"]", "x".repeat(70_000)), "larger than 65536 bytes"),
            (&format!("[\"{{{{ {} }}}}\"]", "(".repeat(400)), "recursion"),
            (&format!("[\"{{{{ node{} }}}}\"]", "[0]".repeat(500)), "has more than 500 words"),
            (&"[".repeat(1000), "recursion limit"),
        ] {
            let error = Template::for_events(template, &[On::Ended].into()).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(words) && error.len() < 600, "{template}: {error}");
        }
    }

    #[test]
    fn the_work_and_the_size_of_a_notification_are_bounded() {
        let tens = "[0,0,0,0,0,0,0,0,0,0]";
        let forever = format!("{{% for x in {tens} %}}").repeat(9);
        let forever = format!("[\"{forever}{}\"]", "{% endfor %}".repeat(9));
        let once = format!(
            r#""{{% for a in {tens} %}}{{% for b in {tens} %}}x{{% endfor %}}{{% endfor %}}""#
        );
        let many = vec![once.as_str(); 200].join(",");
        for (template, error) in [
            (forever.as_str(), BadTemplate::OutOfFuel),
            (r#"["{{ 'x' * 1000000000 }}"]"#, BadTemplate::OutOfFuel),
            (&format!("[{many}]"), BadTemplate::OutOfFuel),
            (r#"["{{ 'x' * 300000 }}"]"#, BadTemplate::BodyTooLarge),
        ] {
            assert_eq!(rendered(template), Err(error), "{template}");
        }
    }

    #[test]
    fn a_template_is_tried_only_with_the_events_that_are_sent() {
        let text = r#"["{{ took // 60 }} min"]"#;
        for (events, is_usable) in [
            (&[On::Ended][..], true),
            (&[On::Accepted], false),
            (&[On::Accepted, On::Ended], false),
        ] {
            let events = events.iter().copied().collect();
            assert_eq!(Template::for_events(text, &events).is_ok(), is_usable, "{events:?}");
        }
    }

    #[test]
    fn no_string_is_so_deep_that_it_overflows_the_stack() {
        for (head, repeated, end) in [
            ("{{ node", ".a", " }}"),
            ("{{ node", "[0]", " }}"),
            ("{{ node", "()", " }}"),
            ("{{ node", "|a", " }}"),
            ("{{ node", " is a", " }}"),
            ("{{ node", "~node", " }}"),
            ("{{ node", " and node", " }}"),
            ("{{ node", " if node", " }}"),
            ("{{ node", "<node", " }}"),
            ("{{ 1", "**1", " }}"),
            ("{{", " not", " node }}"),
            ("{{ ", "-", "node }}"),
            ("{{ ", "[", " }}"),
            ("{% if node %}", "{% elif node %}", "{% endif %}"),
            ("", "{% for x in node %}", ""),
        ] {
            for times in [120, 160, 240, 490, 3000] {
                let string = format!("{head}{}{end}", repeated.repeat(times));
                let template = serde_json::json!([string]).to_string();
                let result = Template::for_events(&template, &[On::Ended].into());
                assert!(times < 3000 || result.is_err(), "{template}");
            }
        }
    }
}

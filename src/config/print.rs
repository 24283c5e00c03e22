//! The flags in human-readable form: `--print-config` and `docs/configuration.md`.

use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, parser::ValueSource};

use super::{
    RunArgs,
    defaults::{DERIVED, LEASE_NAMESPACE},
    values::{Environment, given},
};

/// One line for each flag: its value, the source of the value, its variable and its default.
/// `environment` looks up the variables that replace a flag that is not given (`POD_NAMESPACE`,
/// `AWS_REGION`).
#[must_use]
pub fn print_config(
    matches: &ArgMatches,
    args: &RunArgs,
    environment: &dyn Fn(&str) -> Option<String>,
) -> String {
    let line = |arg: &Arg| {
        let (value, source) = value(arg, matches, args, environment);
        format!(
            "--{} {value}  # {source}; variable {}; default: {}\n",
            name(arg),
            variable(name(arg)),
            default(arg)
        )
    };
    flags()
        .iter()
        .filter(|arg| arg.get_id() != "print_config")
        .map(line)
        .collect::<Vec<_>>()
        .concat()
}

/// The page `docs/configuration.md`.
#[must_use]
pub fn document() -> String {
    let mut parts = vec![HEAD.to_owned()];
    let mut heading = String::new();
    for arg in flags() {
        let name = name(&arg);
        let group = arg.get_help_heading().unwrap_or("Options");
        if group != heading {
            group.clone_into(&mut heading);
            parts.push(format!(
                "\n## {group}\n\n| flag | variable | default | what |\n| --- | --- | --- | --- |\n"
            ));
        }
        let help = arg
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default()
            .replace('|', "\\|")
            .replace('\n', " ");
        parts.push(format!(
            "| `--{name}{}` | `{}` | {} | {help} |\n",
            placeholder(&arg),
            variable(name),
            default_cell(&arg)
        ));
    }
    parts.concat()
}

const HEAD: &str = "# Configuration

Every flag of `sundown run`, with its variable and its default. A flag wins over its variable; a
variable that is empty counts as not given. `sundown run --print-config` prints what is in force.
Durations are written as `90s`, `5m`, `1h30m`. In the chart, a flag is a value under `config` in
camel case: `--drain-timeout` is `config.drainTimeout`. This page is generated from the code and held
against it by a test.
";

/// The text for the default of a flag whose default is derived at run time; `None` for a flag with
/// a fixed default or none.
#[must_use]
pub fn derived_default(flag: &str) -> Option<&'static str> {
    DERIVED.iter().find(|(name, _)| *name == flag).map(|(_, words)| *words)
}

/// The environment variable in a flag's definition; empty for an unknown flag.
pub(super) fn variable(flag: &str) -> String {
    let arg = flags().into_iter().find(|a| name(a) == flag);
    arg.and_then(|a| a.get_env().map(|v| v.to_string_lossy().into_owned())).unwrap_or_default()
}

fn flags() -> Vec<Arg> {
    let command = RunArgs::augment_args(Command::new("run"));
    command
        .get_arguments()
        .filter(|a| !matches!(a.get_id().as_str(), "help" | "version"))
        .cloned()
        .collect()
}

fn name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

fn takes_value(arg: &Arg) -> bool {
    !matches!(arg.get_action(), ArgAction::SetTrue)
}

fn placeholder(arg: &Arg) -> String {
    let names = arg
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    if takes_value(arg) { format!(" {names}") } else { String::new() }
}

fn default(arg: &Arg) -> String {
    if let Some(derived) = derived_default(name(arg)) {
        return derived.to_owned();
    }
    let words =
        arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect::<Vec<_>>().join(",");
    match (words.is_empty(), takes_value(arg)) {
        (false, true) => words,
        (true, true) => "none".to_owned(),
        (_, false) => "false".to_owned(),
    }
}

fn default_cell(arg: &Arg) -> String {
    let text = default(arg);
    let literal = takes_value(arg) && !arg.get_default_values().is_empty();
    if literal { format!("`{text}`") } else { text }
}

/// The text for a value that is not given: `(derived)` if the default is derived at run time, else
/// `(none)`.
fn absent(arg: &Arg) -> &'static str {
    if derived_default(name(arg)).is_some_and(|words| !words.starts_with("none")) {
        "(derived)"
    } else {
        "(none)"
    }
}

/// The variables in `set` that start with `SUNDOWN_` and belong to no flag: misspelt, or of another
/// version. Leaves out those that Kubernetes sets for Services with Sundown's name.
#[must_use]
pub fn unknown_variables(set: impl Iterator<Item = String>) -> Vec<String> {
    let known: Vec<String> = flags()
        .iter()
        .filter_map(|a| a.get_env().map(|v| v.to_string_lossy().into_owned()))
        .collect();
    let of_a_service = |name: &str| {
        name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.contains("_PORT")
    };
    let mut all: Vec<_> = set
        .filter(|name| name.starts_with("SUNDOWN_") && !of_a_service(name) && !known.contains(name))
        .collect();
    all.sort();
    all
}

/// Whether the value of this flag must not be printed.
fn is_secret(arg: &Arg) -> bool {
    arg.is_hide_env_values_set()
}

/// The effective value and its source.
fn value(
    arg: &Arg,
    matches: &ArgMatches,
    args: &RunArgs,
    environment: Environment<'_>,
) -> (String, String) {
    let id = arg.get_id().as_str();
    let source = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => "from the flag",
        Some(ValueSource::EnvVariable) => "from its variable",
        _ => "default",
    };
    if !takes_value(arg) {
        return (matches.get_flag(id).to_string(), source.to_owned());
    }
    if is_secret(arg) && matches.get_raw(id).is_some() {
        return ("(not shown)".to_owned(), source.to_owned());
    }
    let raw = matches
        .get_raw(id)
        .map(|values| values.map(|v| v.to_string_lossy()).collect::<Vec<_>>().join(","));
    if let Some(text) = given(raw.clone()) {
        return (text, source.to_owned());
    }
    match name(arg) {
        // The only flag for which an empty value counts as given.
        "node-selector" if raw.is_some() => ("(every node)".to_owned(), source.to_owned()),
        "queue-url" => (absent(arg).to_owned(), "required".to_owned()),
        flag => surroundings(flag, args, environment)
            .unwrap_or_else(|| (absent(arg).to_owned(), "default".to_owned())),
    }
}

/// The value that replaces a flag that is not given, and its source.
fn surroundings(
    flag: &str,
    args: &RunArgs,
    environment: Environment<'_>,
) -> Option<(String, String)> {
    let of = |variable: &str| {
        given(environment(variable)).map(|value| (value, format!("from {variable}")))
    };
    let unset = |variable: &str| Some(("(none)".to_owned(), format!("{variable} is not set")));
    match flag {
        "lease-namespace" => {
            of("POD_NAMESPACE").or_else(|| Some((LEASE_NAMESPACE.to_owned(), "default".to_owned())))
        }
        "node-name" => of("NODE_NAME").or_else(|| unset("NODE_NAME")),
        "pod-name" => of("POD_NAME").or_else(|| unset("POD_NAME")),
        "pod-namespace" => of("POD_NAMESPACE").or_else(|| unset("POD_NAMESPACE")),
        "region" => {
            let of_queue = args.queue.queue_url.iter().find_map(|url| url.region.clone());
            let of_queue = of_queue.map(|region| (region, "from the queue's URL".to_owned()));
            of_queue.or_else(|| of("AWS_REGION")).or_else(|| of("AWS_DEFAULT_REGION"))
        }
        _ => None,
    }
}

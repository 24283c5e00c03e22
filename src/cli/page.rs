//! Makes `docs/flags.md`, the page of the flags of all commands except `run`, from the definitions
//! of the help. (`config::document` makes that of `run`.)

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, Command};

const HEAD: &str = "# Flags of the commands

Every command besides `sundown run` (whose flags are [on a page of their own](configuration.md)),
with its arguments, its flags, their variables and their defaults. A flag wins over its variable; an
empty variable counts as not given. Durations are written as `90s`, `5m`, `1h30m`. What the commands
are for is explained in [Commands](commands.md), [Operations](operations.md) and
[Scenarios](scenarios.md). This page is generated from the code, and a test compares it with the
code.
";

/// Returns the text of `docs/flags.md`.
#[must_use]
pub fn document() -> String {
    let whole = super::whole_command();
    let of_run: BTreeSet<_> =
        whole.find_subcommand("run").into_iter().flat_map(arguments).map(Arg::get_id).collect();
    let mut parts = vec![HEAD.to_owned()];
    for command in whole.get_subcommands().filter(|c| c.get_name() != "run") {
        parts.push(format!(
            "\n## sundown {}\n\n{}.\n",
            command.get_name(),
            command.get_about().map(ToString::to_string).unwrap_or_default()
        ));
        let takes_all_of_run =
            of_run.iter().all(|id| arguments(command).any(|a| a.get_id() == *id));
        let own: Vec<_> = arguments(command)
            .filter(|a| !takes_all_of_run || !of_run.contains(a.get_id()))
            .collect();
        if takes_all_of_run {
            parts.push(
                "\nIt takes every flag of [`sundown run`](configuration.md), and these:\n"
                    .to_owned(),
            );
        }
        if !own.is_empty() {
            parts.push(
                "\n| flag | variable | default | what |\n| --- | --- | --- | --- |\n".to_owned(),
            );
            parts.extend(own.into_iter().map(row));
        }
    }
    parts.concat()
}

fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|a| !matches!(a.get_id().as_str(), "help" | "version") && !a.is_hide_set())
}

fn row(arg: &Arg) -> String {
    let takes_value = !matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count);
    let values = arg
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|");
    let flag = match (arg.get_long(), takes_value) {
        (None, _) => values,
        (Some(long), false) => format!("--{long}"),
        (Some(long), true) => format!("--{long} {values}"),
    };
    let variable = arg.get_env().map(|v| format!("`{}`", v.to_string_lossy())).unwrap_or_default();
    let words =
        arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect::<Vec<_>>().join(",");
    let default =
        if !takes_value || words.is_empty() { String::new() } else { format!("`{words}`") };
    let choices: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|v| takes_value && !v.is_hide_set())
        .map(|v| format!("`{}`", v.get_name()))
        .collect();
    let help =
        arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let help = if choices.is_empty() { help } else { format!("{help}: {}", choices.join(", ")) };
    format!("| `{flag}` | {variable} | {default} | {help} |\n")
}

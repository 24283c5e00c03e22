//! Errors on standard error, defaults in the help, and empty environment variables.

use std::ffi::{OsStr, OsString};

use clap::{
    Command,
    builder::Resettable,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::config::derived_default;

/// The commands without environment variables that are empty. Templates leave such variables; they
/// count as unset.
pub(super) fn without_empty_variables(
    command: Command,
    value: impl Fn(&OsStr) -> Option<OsString>,
) -> Command {
    let is_blank = |name: &OsStr| {
        value(name).is_some_and(|v| v.to_str().is_some_and(|text| text.trim().is_empty()))
    };
    command.mut_subcommands(|command| {
        command.mut_args(|arg| {
            if arg.get_env().is_some_and(is_blank) { arg.env(Resettable::Reset) } else { arg }
        })
    })
}

/// The commands whose help also has the defaults that are derived at run time.
pub(super) fn with_derived_defaults(command: Command) -> Command {
    command.mut_subcommands(|command| {
        command.mut_args(|arg| {
            let Some(words) = arg.get_long().and_then(derived_default) else { return arg };
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let words = words
                .strip_prefix("none: ")
                .map_or_else(|| format!("default: {words}"), str::to_owned);
            arg.help(format!("{help} [{words}]"))
        })
    })
}

/// Adds the environment variable to an error about a flag's value, if the flag is not on the
/// command line and the value came from the variable.
pub(super) fn name_variable(error: &mut clap::Error, command: &Command, line: &[OsString]) {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return;
    }
    // Such as `--max-pollers <N>`.
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg) else { return };
    let Some(flag) = named.split([' ', '=', '[']).next().filter(|f| f.starts_with("--")) else {
        return;
    };
    let is_given = |word: &OsString| {
        word.to_str()
            .and_then(|w| w.strip_prefix(flag))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    if line.iter().any(is_given) {
        return;
    }
    let of_flag =
        |arg: &&clap::Arg| arg.get_long() == flag.strip_prefix("--") && arg.get_env().is_some();
    let arg = command.get_subcommands().flat_map(Command::get_arguments).find(of_flag);
    let Some(variable) = arg.and_then(clap::Arg::get_env) else { return };
    let text = format!("{named} ({})", variable.to_string_lossy());
    error.insert(ContextKind::InvalidArg, ContextValue::String(text));
}

/// An error and its causes on one line. A cause that is already in the text is left out, because
/// libraries repeat their causes. Of a cause only the first line is printed, because the others may
/// quote a file such as a kubeconfig, which holds secrets.
pub(super) fn on_one_line(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        let line = cause.lines().next().unwrap_or_default();
        if !text.contains(line) {
            text = format!("{text}: {line}");
        }
    }
    text
}

/// A number of things: `1 hook`, `2 hooks`.
pub(super) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, CommandFactory as _};

    use super::*;
    use crate::cli::Cli;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read it: {0}")]
    struct Repeats(#[source] std::io::Error);

    #[test]
    fn causes_are_on_one_line_and_not_repeated() {
        let error =
            anyhow::Error::new(Repeats(std::io::Error::other("it is gone\n  here: secret")))
                .context("no server");
        assert_eq!(on_one_line(&error), "no server: cannot read it: it is gone");
        assert_eq!(on_one_line(&anyhow::anyhow!("two\nlines")), "two\nlines", "our own words");
    }

    #[test]
    fn a_single_thing_is_in_the_singular() {
        assert_eq!([0, 1, 2].map(|n| count(n, "hook")), ["0 hooks", "1 hook", "2 hooks"]);
    }

    #[test]
    fn empty_and_blank_variables_count_as_unset() {
        let set = |name: &OsStr| match name.to_str() {
            Some("SUNDOWN_DRAIN_TIMEOUT") => Some("".into()),
            Some("SUNDOWN_NODE_SELECTOR") => Some(" ".into()),
            Some("SUNDOWN_CLUSTER_NAME") => Some("shop".into()),
            _ => None,
        };
        let command = without_empty_variables(Cli::command(), set);
        let run = command.find_subcommand("run").unwrap();
        let without: Vec<_> = run
            .get_arguments()
            .filter(|a| a.get_env().is_none())
            .filter_map(clap::Arg::get_long)
            .collect();
        assert_eq!(without, ["node-selector", "drain-timeout"]);
    }

    #[test]
    fn an_error_names_the_variable_if_the_flag_is_not_on_the_command_line() {
        let command = Cli::command();
        for (line, names_it) in [
            (&["sundown", "run", "--max-pollers", "many"][..], false),
            (&["sundown", "run", "--max-pollers=many"], false),
            (&["sundown", "run", "--max-pollers-of-old", "many"], true),
        ] {
            let run = crate::config::RunArgs::augment_args(Command::new("run"));
            let mut error = run.try_get_matches_from(["run", "--max-pollers", "many"]).unwrap_err();
            let line: Vec<OsString> = line.iter().map(OsString::from).collect();
            name_variable(&mut error, &command, &line);
            assert_eq!(
                error.to_string().contains("--max-pollers <N> (SUNDOWN_MAX_POLLERS)"),
                names_it,
                "{error}"
            );
        }
    }
}

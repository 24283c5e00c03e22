//! Logging to standard error: one readable line per event on a terminal, otherwise JSON.

use std::{
    collections::BTreeSet,
    io::IsTerminal,
    sync::{Mutex, PoisonError},
};

use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    prelude::*,
};

use super::json_lines::JsonLines;

/// The format of log lines (`--log-format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// Pretty on a terminal, otherwise JSON.
    #[default]
    Auto,
    /// Readable text, one line per event.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// Libraries whose lines below `warn` are not logged, unless the filter names the library.
const QUIET: &[&str] = &[
    "aws",
    "aws_config",
    "aws_smithy",
    "aws_smithy_runtime",
    "hyper",
    "hyper_util",
    "kube",
    "kube_client",
    "kube_runtime",
    "rustls",
    "tower",
];

/// The text of `--log-level` is not a valid filter.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{text}` is not a valid log filter: {why} (use a level such as `debug`, or directives such \
     as `info,sundown::drain=trace`)"
)]
pub struct BadFilter {
    text: String,
    why: String,
}

/// Parses `text` (a level, or a level for each module) as a filter. Libraries that log a lot are at
/// `warn` unless `text` names them. Errs when `text` is empty or names an unknown level.
pub fn filter(text: &str) -> Result<Targets, BadFilter> {
    let bad = |e: &dyn std::fmt::Display| BadFilter { text: text.to_owned(), why: e.to_string() };
    let quiet =
        QUIET.iter().filter(|noisy| !text.contains(*noisy)).map(|noisy| format!("{noisy}=warn"));
    let mut directives: Vec<String> = quiet.collect();
    directives.push(text.to_owned());
    if text.trim().is_empty() {
        return Err(bad(&"it is empty"));
    }
    // Without this check, the typo `inof` would be the name of a module, and nothing else would be
    // logged.
    if let Some(word) = text
        .split(',')
        .map(str::trim)
        .find(|word| !word.contains('=') && word.parse::<LevelFilter>().is_err())
    {
        return Err(bad(&format_args!("`{word}` is not a level")));
    }
    directives.join(",").parse().map_err(|e| bad(&e))
}

/// Starts logging to standard error. A second call in one process has no effect. Errs when `text`
/// is not a valid filter.
pub fn init(text: &str, format: LogFormat) -> Result<(), BadFilter> {
    let terminal = std::io::stderr().is_terminal();
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Pretty => false,
        LogFormat::Json => true,
    };
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = if json {
        lines.json().event_format(JsonLines).boxed()
    } else {
        lines.with_ansi(terminal).boxed()
    };
    // This fails only on a second call in one process (in tests): the first subscriber stays.
    drop(tracing_subscriber::registry().with(lines).with(filter(text)?).try_init());
    Ok(())
}

/// Remembers which kinds of lines were logged already, so that each is logged once.
#[derive(Debug, Default)]
pub struct LogOnce(Mutex<BTreeSet<&'static str>>);

impl LogOnce {
    /// `true` on the first call with this kind.
    pub fn first(&self, kind: &'static str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_keeps_libraries_quiet_unless_it_names_them() {
        let quiet = filter("debug").unwrap().to_string();
        assert!(quiet.contains("kube=warn") && quiet.contains("debug"), "{quiet}");
        let loud = filter("info,kube=trace").unwrap().to_string();
        assert!(loud.contains("kube=trace") && !loud.contains("kube=warn"), "{loud}");
    }

    #[test]
    fn the_error_of_an_invalid_filter_names_the_remedy() {
        for bad in ["", "sundown=loud", "a=b=c", "inof", "info,sundown"] {
            let error = filter(bad).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{bad}`")) && error.contains("use a level"),
                "{error}"
            );
        }
    }

    #[test]
    fn each_kind_is_first_once() {
        let once = LogOnce::default();
        assert!(once.first("not_json"));
        assert!(!once.first("not_json"));
        assert!(once.first("empty"));
    }
}

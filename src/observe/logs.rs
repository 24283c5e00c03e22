//! Logs: for a person on a terminal, JSON for everything else.

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

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// Pretty on a terminal, else JSON.
    #[default]
    Auto,
    /// One line for a person.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// What libraries say below this level is noise; a directive for them in the filter wins.
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

/// The filter cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{text}` is no log filter: {why} (use a level, `debug`, or directives, \
     `info,sundown::drain=trace`)"
)]
pub struct BadFilter {
    text: String,
    why: String,
}

/// The filter of `text` (a level, or a level per module), with noisy libraries at `warn` unless it
/// names them.
pub fn filter(text: &str) -> Result<Targets, BadFilter> {
    let bad = |e: &dyn std::fmt::Display| BadFilter { text: text.to_owned(), why: e.to_string() };
    let quiet =
        QUIET.iter().filter(|noisy| !text.contains(*noisy)).map(|noisy| format!("{noisy}=warn"));
    let mut directives: Vec<String> = quiet.collect();
    directives.push(text.to_owned());
    if text.trim().is_empty() {
        return Err(bad(&"it is empty"));
    }
    // `inof` alone would be taken for the name of a module, and everything else would be silent.
    if let Some(word) = text
        .split(',')
        .map(str::trim)
        .find(|word| !word.contains('=') && word.parse::<LevelFilter>().is_err())
    {
        return Err(bad(&format_args!("`{word}` is no level")));
    }
    directives.join(",").parse().map_err(|e| bad(&e))
}

/// Starts logging to standard error. A second call in one process changes nothing.
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
    // Only a second call in one process fails here (tests): the first one's subscriber stays.
    drop(tracing_subscriber::registry().with(lines).with(filter(text)?).try_init());
    Ok(())
}

/// Remembers what was said already, so that each kind of thing is said once.
#[derive(Debug, Default)]
pub struct LogOnce(Mutex<BTreeSet<&'static str>>);

impl LogOnce {
    /// True the first time that it is asked about this kind.
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
    fn a_filter_that_is_none_is_refused_with_a_remedy() {
        for bad in ["", "sundown=loud", "a=b=c", "inof", "info,sundown"] {
            let said = filter(bad).unwrap_err().to_string();
            assert!(said.contains(&format!("`{bad}`")) && said.contains("use a level"), "{said}");
        }
    }

    #[test]
    fn each_kind_is_said_once() {
        let once = LogOnce::default();
        assert!(once.first("not_json"));
        assert!(!once.first("not_json"));
        assert!(once.first("empty"));
    }
}

//! `sundown trial-report`: reports what a trial has recorded.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::{Read as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::words::count as count_of;
use crate::{
    controller::{TRIAL_BEGINS, TrialEntry, Would},
    domain::Moment,
};

/// The flags of `sundown trial-report`.
#[derive(Debug, Clone, Args)]
pub(super) struct TrialReportArgs {
    /// What `sundown run --dry-run --trial` has written, as a file (`--trial-log`) or as `kubectl
    /// logs` prints it; `-` is standard input. Lines of other logs are skipped
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// What is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A text for people.
    Text,
    /// JSON for programs.
    Json,
}

/// The input is not the log of a trial.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoTrial {
    /// A file cannot be read.
    #[error(
        "cannot read {path}: {source}; give the file that --trial-log names, or - for standard input"
    )]
    Read { path: String, source: std::io::Error },
    /// A file is empty.
    #[error(
        "{path} is empty: no event came to the trial, or this is not its log; give what `kubectl logs` prints of the trial, which has a line about its start"
    )]
    Empty { path: String },
    /// A file is something else, such as the log of a Sundown that does not run a trial.
    #[error(
        "{path} is not the log of a trial ({lines} read, and none is of a trial); give the file that --trial-log names, or what `kubectl logs` prints of the trial"
    )]
    OfSomethingElse { path: String, lines: String },
    /// A line has a newer format version.
    #[error(
        "line {line} was written by a newer Sundown (trial {version}); use that one's trial-report"
    )]
    Newer { line: usize, version: u64 },
}

/// The report. Also the JSON of `-o json`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// The time of the first event. `to`: that of the last.
    from: Option<Moment>,
    to: Option<Moment>,
    /// The number of different events.
    events: usize,
    /// The number of repeated deliveries.
    copies: usize,
    /// Lines that a trial did not write.
    other_lines: usize,
    kinds: BTreeMap<String, OfKind>,
    /// The events, in the order of their decisions.
    entries: Vec<TrialEntry>,
}

/// The decisions about events of one kind.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct OfKind {
    came: usize,
    would_drain: usize,
    would_complete: usize,
    would_mark: usize,
    would_answer_launch: usize,
    nothing: BTreeMap<String, usize>,
    not_understood: BTreeMap<String, usize>,
    /// Median and maximum of the time from the event to the decision, in milliseconds, of the
    /// events that a run would act on.
    median_lag_ms: Option<u64>,
    longest_lag_ms: Option<u64>,
}

pub(super) fn main(args: &TrialReportArgs) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    for path in &args.files {
        let read = || {
            let mut text = String::new();
            if path == "-" {
                std::io::stdin().read_to_string(&mut text).map(|_| text)
            } else {
                std::fs::read_to_string(path)
            }
        };
        let of_file = read().map_err(|source| NoTrial::Read { path: path.clone(), source })?;
        demand_a_trial(path, &of_file)?;
        text += &of_file;
        text.push('\n');
    }
    let report = report(&text)?;
    let printed = match args.output {
        Output::Text => as_text(&report),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
    };
    std::io::stdout().write_all(printed.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Checks that a file has a line of a trial, or the line that a trial logs when it starts. A trial
/// without events has only the latter.
fn demand_a_trial(path: &str, text: &str) -> Result<(), NoTrial> {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_of_trial = |line: &&str| line.contains("\"trial\":") || line.contains(TRIAL_BEGINS);
    match lines.len() {
        0 => Err(NoTrial::Empty { path: path.to_owned() }),
        _ if lines.iter().any(is_of_trial) => Ok(()),
        many => {
            Err(NoTrial::OfSomethingElse { path: path.to_owned(), lines: count_of(many, "line") })
        }
    }
}

fn report(text: &str) -> Result<Report, NoTrial> {
    let mut report = Report::default();
    let mut seen = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        // `kubectl logs --prefix` sets the name of the pod before each line.
        let json = line.find('{').and_then(|at| line.get(at..)).unwrap_or_default();
        match serde_json::from_str::<serde_json::Value>(json)
            .ok()
            .and_then(|v| v.get("trial")?.as_u64())
        {
            Some(1) => {}
            Some(version) => return Err(NoTrial::Newer { line: number, version }),
            None => {
                report.other_lines += 1;
                continue;
            }
        }
        let Ok(entry) = serde_json::from_str::<TrialEntry>(json) else {
            // The line is cut off, because the process ended.
            report.other_lines += 1;
            continue;
        };
        // An entry without an instance cannot be recognized as a repeat.
        if !entry.instance.is_empty()
            && !seen.insert((
                entry.event.clone(),
                entry.kind.clone(),
                entry.instance.clone(),
                entry.hook.clone(),
            ))
        {
            report.copies += 1;
            continue;
        }
        report.entries.push(entry);
    }
    report.entries.sort_by_key(|e| e.at);
    report.events = report.entries.len();
    report.from = report.entries.iter().map(when).min();
    report.to = report.entries.iter().map(|e| e.at).max();
    count(&mut report);
    Ok(report)
}

/// The time of the event, or else of its decision.
fn when(entry: &TrialEntry) -> Moment {
    entry.time.or(entry.sent).unwrap_or(entry.at)
}

fn lag(entry: &TrialEntry) -> Duration {
    entry.at.since_or_zero(when(entry))
}

fn count(report: &mut Report) {
    let mut lags: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for entry in &report.entries {
        let kind = if entry.kind.is_empty() { "other" } else { &entry.kind };
        let of = report.kinds.entry(kind.to_owned()).or_default();
        of.came += 1;
        match entry.would {
            Would::Drain => of.would_drain += 1,
            Would::Mark => of.would_mark += 1,
            Would::Complete => of.would_complete += 1,
            Would::AnswerLaunch => of.would_answer_launch += 1,
            Would::Nothing => *of.nothing.entry(entry.why.clone()).or_default() += 1,
            Would::NotUnderstood => *of.not_understood.entry(entry.why.clone()).or_default() += 1,
        }
        if !matches!(entry.would, Would::Nothing | Would::NotUnderstood) {
            lags.entry(kind)
                .or_default()
                .push(u64::try_from(lag(entry).as_millis()).unwrap_or(u64::MAX));
        }
    }
    for (kind, mut all) in lags {
        all.sort_unstable();
        if let Some(of) = report.kinds.get_mut(kind) {
            of.median_lag_ms = all.get((all.len() - 1) / 2).copied();
            of.longest_lag_ms = all.last().copied();
        }
    }
}

fn as_text(report: &Report) -> String {
    let (Some(from), Some(to)) = (report.from, report.to) else {
        return "No event was recorded. See that the rules have the trial's queue as a target, and \
            that the trial runs (its log shows it).\n"
            .to_owned();
    };
    let mut out = format!("{}, {from:.0} to {to:.0}", count_of(report.events, "event"));
    if report.copies > 0 {
        write!(out, "; {} came more than once", report.copies).ok();
    }
    if report.other_lines > 0 {
        write!(out, "; {} of other logs passed over", count_of(report.other_lines, "line")).ok();
    }
    out += "\n\n";
    writeln!(
        out,
        "{:<18}{:>6}{:>7}{:>6}{:>10}{:>9}{:>9}   decided after (half, slowest)",
        "kind", "came", "drain", "mark", "complete", "nothing", "unread"
    )
    .ok();
    for (kind, of) in &report.kinds {
        let sum = |map: &BTreeMap<String, usize>| map.values().sum::<usize>();
        let lag = of
            .median_lag_ms
            .zip(of.longest_lag_ms)
            .map(|(half, most)| format!("{}, {}", seconds(half), seconds(most)))
            .unwrap_or_default();
        let complete = of.would_complete + of.would_answer_launch;
        let row = format!(
            "{kind:<18}{:>6}{:>7}{:>6}{complete:>10}{:>9}{:>9}   {lag}",
            of.came,
            of.would_drain,
            of.would_mark,
            sum(&of.nothing),
            sum(&of.not_understood)
        );
        out += row.trim_end();
        out.push('\n');
    }
    out += "\n";
    for entry in &report.entries {
        out += &line(entry);
        out.push('\n');
    }
    out
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

/// A line about one event.
fn line(entry: &TrialEntry) -> String {
    let kind = if entry.kind.is_empty() { "other" } else { &entry.kind };
    let hook = if entry.hook.is_empty() {
        String::new()
    } else {
        format!(" ({} of {})", entry.hook, entry.group)
    };
    let after = seconds(u64::try_from(lag(entry).as_millis()).unwrap_or(u64::MAX));
    let what = match entry.would {
        Would::Drain => {
            let left = entry
                .ends
                .map(|ends| {
                    format!(
                        ", {} s before the machine goes",
                        ends.since_or_zero(entry.at).as_secs()
                    )
                })
                .unwrap_or_default();
            format!("would cordon and drain {} after {after}{left}", entry.node)
        }
        Would::Mark => {
            format!(
                "would only taint or cordon {} after {after}; its pods would stay (--on)",
                entry.node
            )
        }
        Would::Complete => {
            format!("would complete the hook after {after}: the instance has no node")
        }
        Would::AnswerLaunch => format!("would answer the launch hook with CONTINUE after {after}"),
        Would::Nothing => format!("nothing: {}", entry.why),
        Would::NotUnderstood => {
            format!("not understood ({}): it would go to the dead-letter queue", entry.why)
        }
    };
    let instance =
        if entry.instance.is_empty() { String::new() } else { format!(" {}", entry.instance) };
    format!("{:.0}  {kind}{instance}{hook}: {what}", when(entry))
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests;

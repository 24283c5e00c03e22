//! `sundown simulate`: the service itself against an embedded AWS and an embedded Kubernetes.

mod fields;
mod pace;
mod scenario;
mod serve;
mod stage;
mod summary;
mod view;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};

pub(super) use self::scenario::ScenarioError;
use self::{pace::Pace, scenario::Scenario};

/// The flags of `sundown simulate`.
#[derive(Debug, Clone, Args)]
pub(super) struct SimulateArgs {
    /// A scenario of your own (YAML, see docs/scenarios.md); without it the built-in one, docs/scenarios/default.yaml
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Everything that is random comes from it: the same seed gives the same course of events
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// In real time instead of as fast as possible
    #[arg(long, conflicts_with = "speed")]
    real_time: bool,
    /// So many times as fast as real time
    #[arg(long, value_name = "N", value_parser = speed)]
    speed: Option<f64>,
    /// Keep both servers listening on loopback, for kubectl and the aws CLI (implies real time); Ctrl-C ends it with the summary.
    /// Standard error says where they listen
    #[arg(long, conflicts_with = "speed")]
    serve: bool,
    /// What is printed at the end; `json` prints nothing else
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Log what the service does, on standard error (for example `info` or `sundown=debug`)
    #[arg(long, value_name = "FILTER", value_parser = log_filter)]
    log_level: Option<String>,
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The drains as they happen, then a summary.
    Text,
    /// The summary as JSON.
    Json,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && (0.01..=100_000.0).contains(&n) => Ok(n),
        _ => Err("expected a number from 0.01 to 100000".to_owned()),
    }
}

fn log_filter(text: &str) -> Result<String, crate::observe::logs::BadFilter> {
    crate::observe::logs::filter(text).map(|_| text.to_owned())
}

/// Runs a simulation.
pub(super) fn main(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let scenario = Scenario::load(args.scenario.as_deref())?;
    if let Some(filter) = &args.log_level {
        crate::observe::logs::init(filter, crate::observe::LogFormat::Pretty)?;
    }
    let pace = match (args.serve || args.real_time, args.speed) {
        (true, _) => Pace::Real,
        (false, Some(n)) => Pace::Times(n),
        (false, None) => Pace::Virtual,
    };
    let runtime = match pace {
        Pace::Real if args.serve => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
        Pace::Real => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        Pace::Virtual | Pace::Times(_) => tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?,
    };
    let text = args.output == Output::Text;
    let result = runtime.block_on(stage::play(&scenario, args.seed, pace, args.serve, text))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    let mut out = std::io::stdout().lock();
    match args.output {
        Output::Text => result.write_text(&mut out)?,
        Output::Json => result.write_json(&mut out)?,
    }
    Ok(if result.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

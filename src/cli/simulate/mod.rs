//! `sundown simulate`: runs the real service against an embedded AWS and an embedded Kubernetes.

mod arrivals;
mod fields;
mod flags;
mod lines;
mod pace;
mod scenario;
mod screen;
mod serve;
mod stage;
mod summary;
mod view;

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::{Args, ValueEnum};

pub(super) use self::scenario::ScenarioError;
use self::{
    pace::{FOR_PEOPLE, Pace, Skip},
    scenario::Scenario,
    screen::Screen,
    stage::Play,
};

/// The flags of `sundown simulate`.
#[derive(Debug, Clone, Args)]
pub(super) struct SimulateArgs {
    /// A scenario of your own (YAML, see docs/scenarios.md), or the name of a built-in one: default,
    /// impaired, instance-refresh, launch, lost-events, maintenance, rebalance, root-volume, standby,
    /// warm-pool
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Seed of all random numbers: the same seed gives the same sequence of events
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// In real time
    #[arg(long, conflicts_with = "speed")]
    real_time: bool,
    /// How many times as fast as real time, or `max`: as fast as possible. The default is 30 on a
    /// terminal, where Enter goes to the end, and `max` elsewhere
    #[arg(long, value_name = "N", value_parser = speed)]
    speed: Option<Pace>,
    /// Keep both servers listening on loopback, for kubectl and the aws CLI (implies real time);
    /// Ctrl-C ends it with the summary. Standard error shows their addresses and that of the
    /// service's metrics
    #[arg(long, conflicts_with = "speed")]
    serve: bool,
    /// With `--serve`: start no service. Standard error shows how to start `sundown run` against
    /// both servers; the scenario begins when it receives from the queue
    #[arg(long, requires = "serve", conflicts_with = "log_level")]
    no_service: bool,
    /// What is printed at the end; `json` prints nothing else
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Log what the service does, on standard error (for example `info` or `sundown=debug`)
    #[arg(long, value_name = "FILTER", value_parser = log_filter)]
    log_level: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The drains as they happen, then a summary.
    Text,
    /// The summary as JSON.
    Json,
}

fn speed(text: &str) -> Result<Pace, String> {
    if text == "max" {
        return Ok(Pace::Virtual);
    }
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && (0.01..=100_000.0).contains(&n) => Ok(Pace::Times(n)),
        _ => Err("expected a number from 0.01 to 100000, or max".to_owned()),
    }
}

fn log_filter(text: &str) -> Result<String, crate::observe::logs::BadFilter> {
    crate::observe::logs::filter(text).map(|_| text.to_owned())
}

/// The context of an error when standard output cannot be written.
const UNWRITTEN: &str = "cannot write to standard output";

/// Runs a simulation. Exit code 0: everything came to rest, or a user ended it.
pub(super) fn main(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let scenario = Scenario::load(args.scenario.as_deref())?;
    if let Some(filter) = &args.log_level {
        crate::observe::logs::init(filter, crate::observe::LogFormat::Pretty)?;
    }
    let shows = args.output == Output::Text;
    let pace = match args.speed {
        _ if args.serve || args.real_time => Pace::Real,
        Some(pace) => pace,
        None if shows && screen::is_terminal() => Pace::Times(FOR_PEOPLE),
        None => Pace::Virtual,
    };
    let runtime = match pace {
        Pace::Real if args.serve => {
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?
        }
        Pace::Real => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        Pace::Virtual | Pace::Times(_) => {
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
        }
    };
    // Logs on the same terminal would overwrite the block.
    let has_block = args.log_level.is_none() || !std::io::stderr().is_terminal();
    let is_skippable =
        shows && has_block && screen::is_terminal() && matches!(pace, Pace::Times(_));
    let skip = if is_skippable { Skip::on_enter() } else { None };
    let open = |has_block| Screen::open(has_block, skip.clone().unwrap_or_default());
    let interrupted = serve::interrupted()?;
    let play = Play { seed: args.seed, pace, serve: args.serve, with_service: !args.no_service };
    let result = runtime.block_on(stage::play(
        &scenario,
        play,
        shows.then(|| open(has_block)),
        skip.clone(),
        &interrupted,
    ))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    match args.output {
        Output::Text => {
            let mut screen = open(false);
            result.print(&mut screen);
            screen.written().context(UNWRITTEN)?;
        }
        Output::Json => result.write_json(&mut std::io::stdout().lock())?,
    }
    Ok(if result.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

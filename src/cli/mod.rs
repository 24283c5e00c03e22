//! The commands: one file each.

mod check;
mod completions;
mod drain;
mod enroll;
mod explain;
mod from_nth;
mod man;
mod page;
mod paint;
mod pause;
mod people;
mod run;
mod send_test;
mod simulate;
mod status;
mod trial_report;
mod words;

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::{Parser, Subcommand};

pub use self::page::document;
use crate::config::RunArgs;

/// Drains Kubernetes nodes before AWS takes their instances away.
#[derive(Debug, Parser)]
#[command(name = "sundown", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service: receive interruptions from SQS, drain nodes, complete lifecycle actions
    Run(Box<RunArgs>),
    /// Show it working: the service against an embedded AWS and an embedded Kubernetes. Needs
    /// nothing
    Simulate(simulate::SimulateArgs),
    /// Ask AWS, Kubernetes and the network for everything that a run needs. Changes nothing
    Check(Box<check::CheckArgs>),
    /// Give Auto Scaling groups their lifecycle hooks, with your own credentials, or take them away
    Enroll(enroll::EnrollArgs),
    /// Send one test event: the service reports what it would do about it
    SendTest(send_test::SendTestArgs),
    /// Show what is being drained, until when, and what holds it. Reads the cluster, and asks
    /// Auto Scaling for 2 s at most which instances it retains
    Status(status::StatusArgs),
    /// Explain what a drain does with each pod of a node, or with one pod, and what decides that.
    /// Reads the cluster only
    Explain(explain::ExplainArgs),
    /// Pause all drains, or one: no evictions, no force. Interruptions are still accepted,
    /// heartbeats go on
    Pause(pause::PauseArgs),
    /// Pause the drain of one node. The same as `sundown pause NODE`
    Hold(pause::HoldArgs),
    /// Let the drains go on
    Resume(pause::PauseArgs),
    /// Make the drain of one node stop waiting for budgets, gates, other drains and
    /// `--evict-after`
    Force(pause::ForceArgs),
    /// End the drain of one node and complete its lifecycle actions
    Release(pause::ReleaseArgs),
    /// Ask for the drain of nodes, by an annotation on each, or remove the request
    Drain(drain::DrainArgs),
    /// Read the settings of aws-node-termination-handler and print ours, what differs, and what has
    /// no counterpart
    FromNth(from_nth::FromNthArgs),
    /// Report what a trial (`run --dry-run --trial`) has recorded: which events came, what would
    /// have been done, how soon
    TrialReport(trial_report::TrialReportArgs),
    /// Print what a shell needs to complete commands and flags
    Completions(completions::CompletionsArgs),
    /// Print a manual page
    Man(man::ManArgs),
}

/// Parses the command line and runs the command. Exit code 0: done; 1: it failed, with the reason
/// on standard error; 2: the command line or a setting is wrong. Some commands have further codes.
#[must_use]
pub fn main() -> ExitCode {
    let matches = match matches() {
        Ok(matches) => matches,
        Err(error) => error.exit(),
    };
    let cli = match <Cli as clap::FromArgMatches>::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    // Sets the cryptography of rustls for the process: the one that the AWS SDK uses.
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let result = match cli.command {
        Command::Run(args) => run::main(&args, matches.subcommand_matches("run")),
        Command::Simulate(args) => simulate::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Enroll(args) => enroll::main(&args),
        Command::SendTest(args) => send_test::main(&args),
        Command::Status(args) => status::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Pause(args) => pause::pause(args, true),
        Command::Hold(args) => pause::hold(&args),
        Command::Resume(args) => pause::pause(args, false),
        Command::Force(args) => pause::force(&args),
        Command::Release(args) => pause::release(&args),
        Command::Drain(args) => drain::main(&args),
        Command::FromNth(args) => from_nth::main(&args),
        Command::TrialReport(args) => trial_report::main(&args),
        Command::Completions(args) => completions::main(&args, whole_command()),
        Command::Man(args) => man::main(&args, whole_command()),
    };
    match result {
        Ok(code) => code,
        // `sundown ... | head -1`: the reader has closed the pipe.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&words::on_one_line(&error));
            if is_asked_wrongly(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_one = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        let of_json = cause
            .downcast_ref::<serde_json::Error>()
            .is_some_and(|e| e.io_error_kind() == Some(std::io::ErrorKind::BrokenPipe));
        of_json || cause.downcast_ref().is_some_and(is_one)
    })
}

fn is_asked_wrongly(error: &anyhow::Error) -> bool {
    error.is::<crate::config::ConfigError>()
        || error.is::<crate::aws::InvalidConfig>()
        || error.is::<crate::observe::webhook::UnusableSettings>()
        || error.is::<crate::observe::traces::UnusableSettings>()
        || matches!(
            error.downcast_ref(),
            Some(crate::controller::NotATrialQueue::HasDeadLetters(_))
        )
        || error.is::<pause::NoDrain>()
        || error.is::<drain::BadOrder>()
        || error.is::<from_nth::BadInput>()
        || error.is::<man::NoSuchCommand>()
        || error.is::<send_test::NoSuchEvent>()
        || error.is::<simulate::ScenarioError>()
        || error.is::<trial_report::NoTrial>()
}

/// All commands, with every default in their help.
fn whole_command() -> clap::Command {
    words::with_derived_defaults(<Cli as clap::CommandFactory>::command())
}

/// kubectl runs a file `kubectl-sundown` for `kubectl sundown`. The usage text then has this name.
fn named_as_called(command: clap::Command, called: Option<&OsString>) -> clap::Command {
    let file = called.map(Path::new).and_then(Path::file_stem);
    if file.is_some_and(|name| name == "kubectl-sundown") {
        command.bin_name("kubectl sundown")
    } else {
        command
    }
}

fn matches() -> Result<clap::ArgMatches, clap::Error> {
    let line: Vec<_> = std::env::args_os().collect();
    let command = named_as_called(whole_command(), line.first());
    let without_empty =
        words::without_empty_variables(command.clone(), |name| std::env::var_os(name));
    without_empty.try_get_matches_from(&line).or_else(|mut error| {
        if error.kind() == clap::error::ErrorKind::DisplayHelp {
            // The help names every variable, also the empty ones.
            return command.try_get_matches_from(&line);
        }
        words::name_variable(&mut error, &command, &line);
        Err(error)
    })
}

fn print_error(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "sundown: {text}").ok();
}

//! The commands: one file each.

mod brake;
mod run;
mod simulate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Run the service: receive interruptions from SQS, drain nodes, tell AWS
    Run(Box<RunArgs>),
    /// Show it working: the service against an embedded AWS and an embedded Kubernetes. Needs nothing
    Simulate(simulate::SimulateArgs),
    /// Hold all drains: no evictions, no force. Interruptions are still accepted, heartbeats go on
    Pause(brake::PauseArgs),
    /// Let the drains go on
    Resume(brake::PauseArgs),
    /// End the drain of one node and complete what it owes
    Release(brake::ReleaseArgs),
}

/// Parses the command line and does what it says. 0: done; 1: it failed, and said why; 2: the command line or a setting is wrong.
#[must_use]
pub fn main() -> ExitCode {
    let matches = match <Cli as clap::CommandFactory>::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => error.exit(),
    };
    let cli = match <Cli as clap::FromArgMatches>::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    // rustls is told once which cryptography to use: the one that the AWS SDK brings.
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let result = match cli.command {
        Command::Run(args) => run::main(*args, matches.subcommand_matches("run")),
        Command::Simulate(args) => simulate::main(&args),
        Command::Pause(args) => brake::pause(args, true),
        Command::Resume(args) => brake::pause(args, false),
        Command::Release(args) => brake::release(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("{error:#}"));
            if error.is::<crate::config::ConfigError>() || error.is::<brake::NothingToRelease>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn complain(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "sundown: {text}").ok();
}

//! `sundown explain`: what a drain does with the pods of a node, and which rule, annotation, label,
//! flag or default decides that. It only reads the cluster.

mod model;
mod plan;
mod read;
mod rules;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum};

use self::{plan::explain, read::Target, text::text};
use super::{
    people::{block_on, connect_kube, lease_search},
    status::{WIDTH, read::Source},
};
use crate::{
    config::{KubeArgs, LeaseArgs},
    domain::Kind,
};

/// The flags of `sundown explain`.
#[derive(Debug, Clone, Args)]
pub(super) struct ExplainArgs {
    /// A node, by its name or by the ID of its instance, or a pod as NAMESPACE/NAME
    #[arg(value_name = "NODE|POD")]
    target: String,
    /// The namespace of the pod whose name is given
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// For which interruption a node is drained that is not being drained
    #[arg(long, value_enum, default_value_t = Assumed::TerminateHook)]
    kind: Assumed,
    /// File with rules about pods, instead of those of the leader
    #[arg(long, value_name = "FILE")]
    rules_file: Option<PathBuf>,
    /// What is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    kube: KubeArgs,
}

/// The interruption that is assumed for a node without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Assumed {
    /// A lifecycle hook: the time is that of `--drain-timeout`.
    TerminateHook,
    /// Two minutes.
    Spot,
    /// No deadline.
    Rebalance,
}

impl Assumed {
    const fn kind(self) -> Kind {
        match self {
            Self::TerminateHook => Kind::TerminateHook,
            Self::Spot => Kind::Spot,
            Self::Rebalance => Kind::Rebalance,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Sentences for a person.
    Text,
    /// All of it as JSON.
    Json,
}

/// Prints the explanation. Exit code 0: it is complete, or names what is not known; 1: the cluster
/// or the file cannot be read, or there is no such node or pod.
pub(super) fn main(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    block_on(async move {
        let client = connect_kube(&args.kube).await?;
        let source = Source::new(client, lease_search(&args.lease), None);
        let target = Target::of(&args.target, args.namespace.as_deref())?;
        let read = read::read(&source, &target, args.rules_file.as_deref()).await?;
        let answer = explain(&read, args.kind.kind())?;
        let printed = match args.output {
            Output::Text => text(&answer, terminal_width()),
            Output::Json => format!("{}\n", serde_json::to_string_pretty(&answer)?),
        };
        std::io::stdout().write_all(printed.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    })
}

fn terminal_width() -> usize {
    use std::io::IsTerminal as _;
    let terminal = terminal_size::terminal_size().filter(|_| std::io::stdout().is_terminal());
    terminal.map_or(WIDTH, |(width, _)| usize::from(width.0).clamp(20, 120))
}

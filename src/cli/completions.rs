//! `sundown completions`: what a shell needs to complete commands and flags.

use std::{io::Write as _, process::ExitCode};

use clap::{Args, Command};
use clap_complete::Shell;

/// The flags of `sundown completions`.
#[derive(Debug, Clone, Args)]
pub(super) struct CompletionsArgs {
    /// The shell. For bash: `sundown completions bash > /etc/bash_completion.d/sundown`
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

pub(super) fn main(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    // Written at once: what reads may close the pipe early, and the generator does not expect that.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "sundown", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

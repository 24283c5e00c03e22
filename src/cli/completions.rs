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
    // The script is generated first and written at once, because the generator panics if the reader
    // closes the pipe early.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "sundown", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

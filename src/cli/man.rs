//! `sundown man`: prints the manual pages, made from the definitions of the help.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Args, Command};

/// The flags of `sundown man`.
#[derive(Debug, Clone, Args)]
pub(super) struct ManArgs {
    /// The command whose page is printed, such as `run`; without it the page of `sundown`
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
    /// Write the pages of all commands into this folder, which must exist
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// There is no such command.
#[derive(Debug, thiserror::Error)]
#[error("there is no command `{0}`, so it has no page; `sundown --help` lists all commands")]
pub(super) struct NoSuchCommand(String);

pub(super) fn main(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    if let Some(dir) = &args.dir {
        clap_mangen::generate_to(command, dir).with_context(|| {
            format!("the pages cannot be written to {}; give a folder that exists", dir.display())
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let page = page(command, args.command.as_deref())?;
    std::io::stdout().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}

fn page(mut command: Command, of: Option<&str>) -> anyhow::Result<Vec<u8>> {
    // Only a built command knows that the page of `run` is called `sundown-run`.
    command.build();
    let command = match of {
        None => command,
        Some(name) => {
            command.find_subcommand(name).cloned().ok_or_else(|| NoSuchCommand(name.to_owned()))?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_has_a_page_with_its_flags_and_one_that_is_not_there_has_none() {
        for of in Cli::command().get_subcommands() {
            let page =
                String::from_utf8(page(Cli::command(), Some(of.get_name())).unwrap()).unwrap();
            assert!(page.contains(&format!(".TH sundown-{} 1", of.get_name())), "{page}");
            for flag in of.get_arguments().filter_map(clap::Arg::get_long) {
                // roff writes a dash that is no hyphen as `\-`.
                assert!(
                    page.contains(&format!("\\-\\-{}", flag.replace('-', "\\-"))),
                    "{}: --{flag}",
                    of.get_name()
                );
            }
        }
        assert!(page(Cli::command(), Some("walk")).unwrap_err().to_string().contains("`walk`"));
    }
}

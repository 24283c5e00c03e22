//! The `sundown` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sundown::cli::main()
}

//! `sundown from-nth`: translates the settings of aws-node-termination-handler (NTH).

mod always;
mod ours;
mod read;
mod report;
mod secrets;
mod table;
#[cfg(test)]
mod tests;
mod translate;
mod webhook;

use std::{
    io::{Read as _, Write as _},
    process::ExitCode,
};

use clap::{Args, ValueEnum};

pub(super) use self::read::BadInput;

/// The flags of `sundown from-nth`.
#[derive(Debug, Clone, Args)]
pub(super) struct FromNthArgs {
    /// NTH's Helm values (`helm get values RELEASE -o yaml`), or its Deployment with its flags
    /// (`kubectl get deployment NAME -o yaml`); `-` is standard input. Nothing is changed anywhere
    #[arg(value_name = "FILE")]
    file: String,
    /// What is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Everything, for a person.
    Text,
    /// The values for our chart alone.
    Values,
    /// The flags of `sundown run` alone, one a line.
    Flags,
    /// Everything, for programs.
    Json,
}

pub(super) fn main(args: &FromNthArgs) -> anyhow::Result<ExitCode> {
    let ours = translate::translate(&read::read(&args.file, &text(&args.file)?)?);
    let printed = match args.output {
        Output::Text => report::text(&ours),
        Output::Values => report::yaml(&ours.values),
        Output::Flags => report::flags(&ours),
        Output::Json => format!("{:#}\n", report::json(&ours)),
    };
    std::io::stdout().write_all(printed.as_bytes())?;
    if args.output != Output::Text && ours.imds_mode {
        // The other outputs do not contain this warning, so it goes to standard error.
        writeln!(
            std::io::stderr(),
            "sundown: this NTH runs in IMDS mode; Sundown reads a queue, which has to be made \
             first (see `-o text`)"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(path: &str) -> Result<String, BadInput> {
    let mut text = String::new();
    let read = if path == "-" {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    read.map(|()| text).map_err(|source| BadInput::Read { path: path.to_owned(), source })
}

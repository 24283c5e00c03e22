//! `tests/simulate-many`: plays the random worlds of many seeds in the release profile, on all
//! cores, and reports what broke and what was covered.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::duration_suboptimal_units,
    clippy::needless_for_each,
    clippy::missing_panics_doc,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::maybe_infinite_iter,
    dead_code,
    reason = "the modules are those of the simulation tests, which use more of them"
)]

mod harness;
mod judge;
mod seeds;

use std::{
    fs,
    num::NonZero,
    path::PathBuf,
    process::{Command, ExitCode},
    thread,
};

use clap::Parser;

use crate::seeds::{
    replay,
    runner::{Orders, Summary, play_all},
};

/// A sixth of a life is spent in the C library's allocator. This one is faster.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Plays random worlds in the release profile and judges each of them. A life is one world, played
/// from its beginning until nothing is left to do.
///
/// Exits with 1 if any life broke a promise, with 2 on wrong arguments. Progress goes to standard
/// error, the report to standard output.
#[derive(Debug, Parser)]
#[command(name = "tests/simulate-many")]
struct Arguments {
    /// The seeds to play, both ends included.
    #[arg(long, value_name = "A..B", value_parser = range, required_unless_present = "replay")]
    seeds: Option<(u64, u64)>,
    /// Plays this seed alone and prints its plan and its timeline.
    #[arg(long, value_name = "SEED", conflicts_with = "seeds")]
    replay: Option<u64>,
    /// How many lives are played at once [default: the number of cores].
    #[arg(long)]
    threads: Option<NonZero<usize>>,
    /// Also writes the report as JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    json: Option<PathBuf>,
    /// Also writes a line for each life, with its seed and a hash of everything that happened in
    /// it: two versions of the simulator that behave alike write the same file.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    hashes: Option<PathBuf>,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once("..").ok_or("write FIRST..LAST")?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|e| format!("{text:?}: {e}"));
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        Err("the first seed is above the last one".to_owned())
    } else {
        Ok((first, last))
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let broke = if let Some(seed) = arguments.replay {
        !replay(seed).is_empty()
    } else {
        let Some((first, last)) = arguments.seeds else { return ExitCode::from(2) };
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        let threads = arguments.threads.map_or_else(cores, NonZero::get);
        let orders = Orders { threads, hashes: arguments.hashes.is_some(), progress: true };
        let summary = play_all((first..=last).collect(), orders);
        if let Err(error) = write_files(&arguments, &summary) {
            eprintln!("tests/simulate-many: {error}");
            return ExitCode::from(2);
        }
        println!("Seeds {first} to {last}, commit {}\n\n{summary}", commit());
        !summary.failures.is_empty()
    };
    ExitCode::from(u8::from(broke))
}

fn write_files(arguments: &Arguments, summary: &Summary) -> Result<(), String> {
    let write = |path: &PathBuf, text: String| {
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    if let Some(path) = &arguments.json {
        let mut json = summary.json();
        json["commit"] = commit().into();
        json["seeds"] = serde_json::json!(arguments.seeds);
        write(path, format!("{json:#}\n"))?;
    }
    if let Some(path) = &arguments.hashes {
        write(path, summary.hash_lines())?;
    }
    Ok(())
}

/// What was played: the commit that is checked out, and whether files differ from it.
fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--exclude=*"]);
    let answer = git.output().ok().filter(|output| output.status.success());
    let text = answer.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|| "unknown".to_owned())
}

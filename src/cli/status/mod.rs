//! `sundown status`: shows which nodes are being drained, until when, and what blocks them. It only
//! reads: the cluster, and from Auto Scaling the instances that it retains.

mod ask_aws;
pub(super) mod facts;
pub(super) mod model;
pub(super) mod read;
pub(super) mod report;
#[cfg(test)]
mod tests;
mod text;

use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use tokio::time::Instant;

use self::{
    ask_aws::{AskAws, AwsFlags},
    read::Source,
    report::report,
    text::{Look, text},
};
use super::{
    paint::Paint,
    people::{block_on, connect_kube, lease_search},
};
use crate::{
    config::{KubeArgs, LeaseArgs},
    domain::seconds,
};

/// The width of the table if the terminal's width is not known.
pub(super) const WIDTH: usize = 80;
/// How often `--watch` reads the cluster.
const EVERY: Duration = seconds(2);

/// The flags of `sundown status`.
#[derive(Debug, Clone, Args)]
pub(super) struct StatusArgs {
    /// One node, by its name or by the ID of its instance: all facts about its drain. Without it,
    /// all nodes that are being drained
    #[arg(value_name = "NODE|INSTANCE")]
    node: Option<String>,
    /// What is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Read the cluster again every 2 seconds and show it in place, until Ctrl-C
    #[arg(short, long, conflicts_with = "output")]
    watch: bool,
    #[command(flatten)]
    aws: AwsFlags,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    kube: KubeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table for a person.
    Text,
    /// All of it as JSON.
    Json,
}

/// Prints the status. Exit code 0: it was read; 1: the cluster cannot be read, or there is no such
/// node.
pub(super) fn main(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    block_on(async move {
        let client = connect_kube(&args.kube).await?;
        let source = Source::new(client, lease_search(&args.lease), Some(AskAws::new(&args.aws)));
        if args.watch {
            return watch(args, &source).await;
        }
        let (facts, named) = source.read(args.node.as_deref()).await?;
        let report = report(&facts, named.as_ref());
        let printed = match args.output {
            Output::Text => text(&report, look(named.is_some())),
            Output::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        };
        std::io::stdout().write_all(printed.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    })
}

fn look(is_detailed: bool) -> Look {
    let terminal = terminal_size::terminal_size()
        .map(|(width, _)| usize::from(width.0))
        .filter(|_| std::io::stdout().is_terminal());
    Look {
        paint: Paint::of_stdout(),
        width: terminal.map_or(WIDTH, |width| width.clamp(20, 120)),
        is_detailed,
    }
}

/// Shows the status until Ctrl-C. The error of a failed read is shown in place of the table, and
/// the read is repeated.
async fn watch(args: &StatusArgs, source: &Source) -> anyhow::Result<ExitCode> {
    let mut screen = Screen::default();
    // If the first read fails (a wrong name, no connection), the command ends with an error.
    let mut first = Some(source.read(args.node.as_deref()).await?);
    loop {
        let begun = Instant::now();
        let read = match first.take() {
            Some(read) => Ok(read),
            None => source.read(args.node.as_deref()).await,
        };
        let page = match read {
            Ok((facts, named)) => text(&report(&facts, named.as_ref()), look(named.is_some())),
            Err(error) => {
                format!("The cluster cannot be read: {}\n", crate::cli::words::on_one_line(&error))
            }
        };
        screen.show(&page)?;
        // Pauses at least as long as the read took, to spare the API server of a large cluster.
        tokio::time::sleep(EVERY.max(begun.elapsed())).await;
    }
}

/// Where `--watch` draws.
#[derive(Debug, Default)]
struct Screen {
    is_drawn: bool,
}

impl Screen {
    /// On a terminal, redraws the page in place. Elsewhere, writes page after page.
    fn show(&mut self, page: &str) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        if !out.is_terminal() {
            let gap = if std::mem::replace(&mut self.is_drawn, true) { "\n" } else { "" };
            write!(out, "{gap}{page}")?;
            return out.flush();
        }
        let height = terminal_size::terminal_size().map_or(24, |(_, height)| usize::from(height.0));
        let clear = if std::mem::replace(&mut self.is_drawn, true) { "" } else { "\x1b[2J" };
        write!(out, "{clear}\x1b[H{}\x1b[J", clipped(page, height))?;
        out.flush()
    }
}

/// The lines that fit the terminal, each clearing the rest of its row. The last row is for the
/// cursor.
fn clipped(page: &str, height: usize) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let room = height.saturating_sub(1).max(2);
    let shown = if lines.len() <= room { lines.len() } else { room - 1 };
    let more = (shown < lines.len()).then(|| format!("… and {} more lines", lines.len() - shown));
    let drawn = lines.into_iter().take(shown).chain(more.as_deref());
    drawn.flat_map(|line| [line, "\x1b[K\r\n"]).collect()
}

//! The flags of `sundown enroll`.

use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use crate::{
    config::{AwsArgs, parse_duration},
    domain::{DrainSettings, seconds},
};

/// The flags of `sundown enroll`.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true).args(["asg_tag", "asg"]))]
pub(in crate::cli) struct EnrollArgs {
    /// Auto Scaling groups with this tag; repeatable: those that have all of them. KEY alone is any
    /// value
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) asg_tag: Vec<String>,
    /// An Auto Scaling group by its name; repeatable
    #[arg(long, value_name = "NAME")]
    pub(super) asg: Vec<String>,
    /// Make the changes. Without this the command only prints what it would do
    #[arg(long, conflicts_with = "check")]
    pub(super) yes: bool,
    /// Change nothing; exit with 3 if a group lacks its hook or has it with other settings
    #[arg(long)]
    pub(super) check: bool,
    /// Also add a hook for launches. Name it in `--lifecycle-hook`; Sundown completes it when the
    /// node is ready
    #[arg(long, conflicts_with = "remove")]
    pub(super) launch: bool,
    /// How long AWS waits when nobody answers, 30s to 2h. Sundown keeps a hook open for as long as
    /// the drain takes
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = heartbeat)]
    pub(super) heartbeat_timeout: Duration,
    /// Text that comes along with each event of the hook: settings of its drains as in
    /// docs/settings.md, and what other tools read there. Text with a bad setting is refused
    #[arg(long, value_name = "TEXT", value_parser = metadata)]
    pub(super) metadata: Option<String>,
    /// What the names of the hooks start with: NAME-terminate, NAME-launch. Hooks that are there
    /// already and are called NAME or NAME-… count as Sundown's own; for `sundown` every hook whose
    /// name starts with it does
    #[arg(long, value_name = "NAME", default_value = "sundown", value_parser = hook_name)]
    pub(super) hook_name: String,
    /// Remove the hooks. Refused for a group while an instance of it waits: deleting a hook ends
    /// the wait, a termination by CONTINUE, a launch by ABANDON
    #[arg(long, conflicts_with = "check")]
    pub(super) remove: bool,
    /// With --remove: wait at most this long until no instance waits
    #[arg(
        long,
        value_name = "DURATION",
        requires = "remove",
        num_args = 0..=1,
        default_missing_value = "1h",
        value_parser = parse_duration,
    )]
    pub(super) wait: Option<Duration>,
    /// With --remove: remove the hooks although instances wait
    #[arg(long, requires = "remove", conflicts_with = "wait")]
    pub(super) now: bool,
    /// What is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) aws: AwsArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A line for each hook, as it is done.
    Text,
    /// All of it as JSON, at the end.
    Json,
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text)?;
    if (seconds(30)..=seconds(7200)).contains(&timeout) {
        Ok(timeout)
    } else {
        Err("out of range; AWS takes 30s to 2h".to_owned())
    }
}

/// Refuses text with a setting that the service would not read. It does not know the flags of the
/// service; `sundown check` does.
fn metadata(text: &str) -> Result<String, String> {
    let (_, problems) = DrainSettings::of_metadata(text);
    problems.first().map_or_else(|| Ok(text.to_owned()), |problem| Err(problem.text.clone()))
}

fn hook_name(text: &str) -> Result<String, String> {
    let fine = (1..=200).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_/".contains(&b));
    if fine { Ok(text.to_owned()) } else { Err("use letters, digits, - _ and /".to_owned()) }
}

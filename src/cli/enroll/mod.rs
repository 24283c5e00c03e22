//! `sundown enroll`: makes lifecycle hooks for groups that no Terraform module manages. It uses the
//! user's credentials, because the role of the service may not make or delete hooks.

mod args;
mod plan;
#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests;

use std::{io::Write, process::ExitCode, time::Duration};

use anyhow::Context as _;
use serde::Serialize;
use tokio::time::Instant;

pub(super) use self::args::EnrollArgs;
use self::{
    args::Output,
    plan::{Removal, Step, Wish, consequence, plan, remarks, removals},
};
use super::{
    people::{advised, block_on, connect},
    words::count,
};
use crate::{
    aws::{AutoScaling, AwsError, Group, GroupFilter, Outcome},
    config::duration_text,
    domain::{GroupName, HookName, seconds},
};

/// How often `--wait` checks whether an instance still waits.
const LOOK: Duration = seconds(10);
/// Exit code of `--check` if a group lacks its hook. (2 is a wrong command line.)
const LACKING: u8 = 3;

/// Totals of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
struct Tally {
    /// Hooks that had to be made, changed or removed, including those that are `done`.
    open: usize,
    /// Hooks that were made, changed or removed.
    done: usize,
    /// Hooks with other settings that only a person can change.
    left: usize,
    /// Refused or failed steps.
    failed: usize,
}

/// One hook of one group, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Row {
    group: GroupName,
    /// `None`: the group itself could not be asked about, or has no hook to remove.
    hook: Option<HookName>,
    /// `add`, `change`, `keep`, `leave`, `remove`, `refuse`, or `fail`.
    step: &'static str,
    /// The step in a sentence for people.
    message: String,
    /// The step was done.
    done: bool,
}

/// A remark on a group, for `-o json`: on its other hooks, or on the rule of a new launch hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Note {
    group: GroupName,
    message: String,
}

/// Makes or removes hooks. Exit code 0: done, or nothing to do; 1: a step was refused or failed; 3
/// with --check: a group lacks its hook, or has it with other settings.
pub(super) fn main(args: &EnrollArgs) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    block_on(async move {
        let clients = connect(&args.aws, None).await?;
        Enrolling {
            args,
            scaling: clients.autoscaling(),
            out: &mut out,
            rows: Vec::new(),
            notes: Vec::new(),
        }
        .run()
        .await
    })
}

struct Enrolling<'a, W> {
    args: &'a EnrollArgs,
    scaling: &'a AutoScaling,
    out: &'a mut W,
    rows: Vec<Row>,
    notes: Vec<Note>,
}

impl<W: Write> Enrolling<'_, W> {
    async fn run(mut self) -> anyhow::Result<ExitCode> {
        let groups = self.groups().await?;
        let tally = if self.args.remove {
            self.remove(&groups).await?
        } else {
            self.enroll(&groups).await?
        };
        let Tally { open, done, left, failed } = tally;
        if open > 0 && !self.args.yes && !self.args.check {
            self.print("Nothing was changed: --yes does it.")?;
        } else if done > 0 {
            self.print(&format!(
                "{} {}.",
                count(done, "hook"),
                if self.args.remove { "removed" } else { "made or changed" }
            ))?;
        } else if open == 0 && failed == 0 && left == 0 {
            self.print("There is nothing to do.")?;
        }
        if self.args.output == Output::Json {
            serde_json::to_writer_pretty(
                &mut *self.out,
                &serde_json::json!({ "hooks": self.rows, "notes": self.notes, "summary": tally }),
            )?;
            writeln!(self.out)?;
        }
        Ok(match tally {
            Tally { failed, .. } if failed > 0 => ExitCode::FAILURE,
            Tally { open, left, .. } if open + left > 0 && self.args.check => {
                ExitCode::from(LACKING)
            }
            _ => ExitCode::SUCCESS,
        })
    }

    /// The groups that the flags name. Errs without any group, because a misspelt tag must not look
    /// like success.
    async fn groups(&self) -> anyhow::Result<Vec<Group>> {
        let filter = |text: &String| match text.split_once('=') {
            Some((key, value)) => GroupFilter::Tag(key.to_owned(), value.to_owned()),
            None => GroupFilter::TagKey(text.clone()),
        };
        let filters: Vec<_> = self.args.asg_tag.iter().map(filter).collect();
        let mut groups =
            self.scaling.groups(&filters).await.map_err(allowed).context("nothing was changed")?;
        if groups.is_empty() && !filters.is_empty() {
            anyhow::bail!(
                "no Auto Scaling group has the tag {}; look at the tag and the region. Nothing \
                 was changed",
                self.args.asg_tag.join(" and ")
            );
        }
        for name in &self.args.asg {
            let found = self
                .scaling
                .group(&GroupName::from(name.as_str()))
                .await
                .map_err(allowed)
                .context("nothing was changed")?;
            let group = found.with_context(|| {
                format!(
                    "there is no Auto Scaling group `{name}` in the region; nothing was changed"
                )
            })?;
            if !groups.iter().any(|g| g.group == group.group) {
                groups.push(group);
            }
        }
        Ok(groups)
    }

    async fn enroll(&mut self, groups: &[Group]) -> anyhow::Result<Tally> {
        let args = self.args;
        let wish = Wish {
            prefix: args.hook_name.clone(),
            launch: args.launch,
            heartbeat_timeout: args.heartbeat_timeout,
            metadata: args.metadata.clone(),
        };
        let mut tally = Tally::default();
        for group in groups {
            let (steps, remarks) = match self.scaling.hooks(&group.group).await {
                Ok(hooks) => {
                    let steps = plan(&wish, &hooks);
                    let remarks = remarks(&wish.prefix, &steps, &hooks);
                    (steps, remarks)
                }
                Err(error) => {
                    self.fail(&mut tally, &group.group, error)?;
                    continue;
                }
            };
            for step in steps {
                self.row(&group.group, Some(step.hook()), step.word(), step.words())?;
                tally.open += usize::from(step.is_work());
                tally.left += usize::from(matches!(step, Step::Leave(..)));
                if args.yes {
                    self.put(&mut tally, &group.group, &step).await?;
                }
            }
            for remark in remarks {
                self.print(&format!("{}: {remark}", group.group))?;
                self.notes.push(Note { group: group.group.clone(), message: remark });
            }
        }
        Ok(tally)
    }

    async fn put(
        &mut self,
        tally: &mut Tally,
        group: &GroupName,
        step: &Step,
    ) -> anyhow::Result<()> {
        let Some(hook) = step.wanted() else { return Ok(()) };
        match self.scaling.put_hook(group, hook).await {
            Ok(()) => self.done(tally),
            Err(error) => self.fail(tally, group, error)?,
        }
        Ok(())
    }

    /// Marks the last row as done.
    fn done(&mut self, tally: &mut Tally) {
        tally.done += 1;
        if let Some(row) = self.rows.last_mut() {
            row.done = true;
        }
    }

    async fn remove(&mut self, groups: &[Group]) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let until = Instant::now() + self.args.wait.unwrap_or_default();
        for group in groups {
            let (name, mut is_announced) = (&group.group, false);
            // An instance may have begun to wait since the groups were listed.
            let mut seen = match self.scaling.group(name).await {
                Ok(group) => group,
                Err(error) => {
                    self.fail(&mut tally, name, error)?;
                    continue;
                }
            };
            while let Some(now) = seen.take() {
                let all = match self.scaling.hooks(name).await {
                    Ok(hooks) => removals(&self.args.hook_name, &now, &hooks),
                    Err(error) => {
                        self.fail(&mut tally, name, error)?;
                        break;
                    }
                };
                let waits = all.iter().any(|r| !r.waiting.is_empty());
                if self.args.yes && self.args.wait.is_some() && waits && Instant::now() < until {
                    if !std::mem::replace(&mut is_announced, true) {
                        let most = duration_text(self.args.wait.unwrap_or_default());
                        self.print(&format!(
                            "{name}: waiting for {} ({most} at most)",
                            waiting(&all)
                        ))?;
                    }
                    tokio::time::sleep(LOOK).await;
                    match self.scaling.group(name).await {
                        Ok(later) => seen = later,
                        // Without an answer the last known state counts: it keeps waiting, and
                        // deletes nothing.
                        Err(error)
                            if !matches!(
                                error.outcome(),
                                Outcome::Denied | Outcome::Credentials
                            ) =>
                        {
                            seen = Some(now);
                        }
                        Err(error) => self.fail(&mut tally, name, error)?,
                    }
                    continue;
                }
                for removal in &all {
                    self.delete(&mut tally, name, removal).await?;
                }
                if all.is_empty() {
                    let message =
                        format!("it has no hook whose name starts with {}", self.args.hook_name);
                    self.row(name, None, "keep", message)?;
                }
            }
        }
        Ok(tally)
    }

    async fn delete(
        &mut self,
        tally: &mut Tally,
        group: &GroupName,
        removal: &Removal,
    ) -> anyhow::Result<()> {
        let Removal { hook, transition, waiting } = removal;
        let wait = if waiting.len() == 1 { "waits" } else { "wait" };
        let consequence = consequence(*transition, waiting.len());
        let who = waiting.join(", ");
        tally.open += 1;
        if waiting.is_empty() || self.args.now {
            let price = if waiting.is_empty() {
                String::new()
            } else {
                format!("; {who} {wait}, and {consequence}")
            };
            self.row(group, Some(hook), "remove", format!("remove {hook}{price}"))?;
            if !self.args.yes {
                return Ok(());
            }
            match self.scaling.delete_hook(group, hook).await {
                Ok(()) => self.done(tally),
                Err(error) => self.fail(tally, group, error)?,
            }
            return Ok(());
        }
        let late = if self.args.wait.is_some() && self.args.yes { "still " } else { "" };
        let message = format!(
            "{hook} is not removed: {who} {late}{wait}, and without the hook {consequence}. \
             --wait waits for it, --now does not"
        );
        self.row(group, Some(hook), "refuse", message)?;
        tally.failed += 1;
        Ok(())
    }

    fn fail(
        &mut self,
        tally: &mut Tally,
        group: &GroupName,
        error: AwsError,
    ) -> anyhow::Result<()> {
        tally.failed += 1;
        self.row(group, None, "fail", format!("{:#}", allowed(error)))
    }

    /// Reports a step: prints a line, and adds a row to the JSON.
    fn row(
        &mut self,
        group: &GroupName,
        hook: Option<&HookName>,
        step: &'static str,
        message: String,
    ) -> anyhow::Result<()> {
        self.print(&format!("{group}: {message}"))?;
        self.rows.push(Row {
            group: group.clone(),
            hook: hook.cloned(),
            step,
            message,
            done: false,
        });
        Ok(())
    }

    fn print(&mut self, text: &str) -> anyhow::Result<()> {
        if self.args.output == Output::Json {
            return Ok(());
        }
        writeln!(self.out, "{text}").context("cannot write to standard output")
    }
}

fn waiting(all: &[Removal]) -> String {
    all.iter().flat_map(|r| r.waiting.iter().map(String::as_str)).collect::<Vec<_>>().join(", ")
}

/// The error of a call that needs rights of the user, not of the service.
fn allowed(error: AwsError) -> anyhow::Error {
    advised(error, "docs/commands.md, \"Whose credentials enroll\", has the policy")
}

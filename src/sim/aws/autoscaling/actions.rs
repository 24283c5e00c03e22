//! Lifecycle actions: one hook, run for one instance once, with its timers.

use std::{collections::BTreeMap, time::Duration};

use super::{HookResult, HookSpec, Transition};
use crate::{
    domain::Moment,
    sim::aws::{
        journal::{ActionEnd, ActionReport, Verdict},
        state::{State, Timer},
    },
};

/// Group, instance, hook.
type Key = (String, String, String);

/// All lifecycle actions since the start, and which of them are open.
#[derive(Debug, Default)]
pub(in crate::sim::aws) struct Actions {
    all: Vec<Action>,
    open: BTreeMap<Key, usize>,
    /// The newest action of a hook and an instance, open or not.
    newest: BTreeMap<Key, usize>,
    tokens: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Action {
    report: ActionReport,
    /// When it ends unless a heartbeat comes.
    ends: Moment,
    default_result: HookResult,
    ends_in: EndsIn,
}

impl Action {
    /// Its end takes the instance to the next state of its launch or its termination.
    fn moves(&self) -> bool {
        self.ends_in == EndsIn::NextState
    }
}

/// Where the end of an action leaves its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndsIn {
    /// In the state that follows the hooks of the point to which it has come.
    NextState,
    /// In the state in which it is.
    SameState,
    /// In the warm pool.
    WarmPool,
    /// Terminated, out of the warm pool.
    OutOfPool,
}

/// How a caller names a lifecycle action.
#[derive(Debug, Clone)]
pub(in crate::sim::aws) struct Named<'a> {
    pub(in crate::sim::aws) group: &'a str,
    pub(in crate::sim::aws) hook: &'a str,
    pub(in crate::sim::aws) token: Option<&'a str>,
    pub(in crate::sim::aws) instance: Option<&'a str>,
}

/// There is no such open action.
#[derive(Debug)]
pub(in crate::sim::aws) struct NotActive;

impl Actions {
    pub(in crate::sim::aws) fn reports(&self) -> Vec<ActionReport> {
        self.all.iter().map(|action| action.report.clone()).collect()
    }

    pub(super) fn instance_of(&self, index: usize) -> Option<String> {
        self.all.get(index).map(|action| action.report.instance.clone())
    }

    /// Finds by token, and the other names must match; without a token, finds the open action of
    /// the hook and the instance.
    fn find(&mut self, named: &Named<'_>, now: Moment) -> Result<usize, NotActive> {
        let key =
            |instance: &str| (named.group.to_owned(), instance.to_owned(), named.hook.to_owned());
        let index = match (named.token, named.instance) {
            (Some(token), _) => self.tokens.get(token),
            (None, Some(instance)) => {
                self.open.get(&key(instance)).or_else(|| self.newest.get(&key(instance)))
            }
            (None, None) => None,
        };
        let index = *index.ok_or(NotActive)?;
        let action = self.all.get_mut(index).ok_or(NotActive)?;
        let report = &action.report;
        if report.group != named.group
            || report.hook != named.hook
            || named.instance.is_some_and(|i| i != report.instance)
        {
            return Err(NotActive);
        }
        if action.report.end.is_some() {
            action.report.late_calls.push(now);
            return Err(NotActive);
        }
        Ok(index)
    }

    /// The open actions that hold up the instance's next state.
    fn open_of(&self, group: &str, instance: &str) -> Vec<usize> {
        let from = (group.to_owned(), instance.to_owned(), String::new());
        let mine = self
            .open
            .range(from..)
            .take_while(|((g, i, _), _)| g == group && i == instance)
            .map(|(_, index)| *index);
        mine.collect()
    }

    /// Those whose end changes the state of the instance.
    fn moving(&self, group: &str, instance: &str) -> Vec<usize> {
        let mut open = self.open_of(group, instance);
        open.retain(|index| self.all.get(*index).is_some_and(Action::moves));
        open
    }

    fn close(&mut self, index: usize, end: ActionEnd) -> Option<&ActionReport> {
        let report = &mut self.all.get_mut(index).filter(|a| a.report.end.is_none())?.report;
        report.end = Some(end);
        self.open.remove(&(report.group.clone(), report.instance.clone(), report.hook.clone()));
        Some(report)
    }
}

impl State {
    /// Begins an action; returns its token.
    pub(super) fn begin_action(
        &mut self,
        now: Moment,
        group: &str,
        hook: &HookSpec,
        instance: &str,
        ends_in: EndsIn,
        detail: &[(&str, &str)],
    ) -> String {
        let token = self.uuid();
        let report = ActionReport {
            group: group.to_owned(),
            hook: hook.name.clone(),
            instance: instance.to_owned(),
            token: token.clone(),
            transition: hook.transition,
            replaces_root_volume: hook.transition == Transition::Terminating
                && detail.contains(&("Action", "ReplaceRootVolume")),
            started: now,
            heartbeat_timeout: hook.heartbeat_timeout,
            global_end: now.plus(hook.global_timeout()),
            heartbeats: Vec::new(),
            end: None,
            late_calls: Vec::new(),
        };
        let ends = now.plus(hook.heartbeat_timeout).min(report.global_end);
        let index = self.actions.all.len();
        let key = (report.group.clone(), report.instance.clone(), report.hook.clone());
        let default_result = hook.default_result;
        // Only one action of a hook and an instance is open at a time.
        if let Some(earlier) = self.actions.open.get(&key).copied() {
            let end = ActionEnd { at: now, verdict: Verdict::Stopped, by: String::new() };
            self.actions.close(earlier, end);
        }
        self.actions.all.push(Action { report, ends, default_result, ends_in });
        self.actions.open.insert(key.clone(), index);
        self.actions.newest.insert(key, index);
        self.actions.tokens.insert(token.clone(), index);
        self.at(ends, Timer::Action { index });
        token
    }

    /// The wait state in which the instance is shown while an action is open whose end does not
    /// change its state.
    pub(super) fn waits_aside(&self, group: &str, instance: &str) -> Option<&'static str> {
        let from = (group.to_owned(), instance.to_owned(), String::new());
        let mine = self
            .actions
            .open
            .range(from..)
            .take_while(|((g, i, _), _)| g == group && i == instance);
        let aside = mine
            .filter_map(|(_, index)| self.actions.all.get(*index))
            .find(|action| !action.moves())?;
        Some(match aside.ends_in {
            EndsIn::WarmPool => "Warmed:Pending:Wait",
            EndsIn::OutOfPool => "Warmed:Terminating:Wait",
            _ if aside.report.transition == Transition::Launching => "Pending:Wait",
            _ => "ReplacingRootVolume:Wait",
        })
    }

    /// Records a heartbeat: the timeout starts again now.
    pub(in crate::sim::aws) fn heartbeat(
        &mut self,
        now: Moment,
        named: &Named<'_>,
    ) -> Result<(), NotActive> {
        let timeout = self
            .groups
            .get(named.group)
            .and_then(|g| g.hooks.get(named.hook))
            .map(|h| h.heartbeat_timeout);
        let index = self.actions.find(named, now)?;
        let action = self.actions.all.get_mut(index).ok_or(NotActive)?;
        action.report.heartbeats.push(now);
        action.ends = now.plus(timeout.unwrap_or(Duration::ZERO)).min(action.report.global_end);
        Ok(())
    }

    pub(in crate::sim::aws) fn complete(
        &mut self,
        now: Moment,
        named: &Named<'_>,
        result: HookResult,
        by: &str,
    ) -> Result<(), NotActive> {
        let index = self.actions.find(named, now)?;
        self.end_action(now, index, Verdict::Completed(result), by);
        Ok(())
    }

    /// Ends an action that has timed out; otherwise sets a timer for when it would.
    pub(in crate::sim::aws) fn check_action(&mut self, now: Moment, index: usize) {
        let Some(action) = self.actions.all.get(index).filter(|a| a.report.end.is_none()) else {
            return;
        };
        if action.ends > now {
            let ends = action.ends;
            self.at(ends, Timer::Action { index });
            return;
        }
        let result = action.default_result;
        let verdict = if action.ends >= action.report.global_end {
            Verdict::GlobalTimeout(result)
        } else {
            Verdict::TimedOut(result)
        };
        self.end_action(now, index, verdict, "");
    }

    fn end_action(&mut self, now: Moment, index: usize, verdict: Verdict, by: &str) {
        let open = self.actions.all.get(index).filter(|a| a.report.end.is_none());
        let Some(ends_in) = open.map(|action| action.ends_in) else { return };
        let closed = self.actions.close(index, ActionEnd { at: now, verdict, by: by.to_owned() });
        let Some(report) = closed else { return };
        let (group, instance, transition) =
            (report.group.clone(), report.instance.clone(), report.transition);
        if ends_in != EndsIn::NextState {
            let is_last = self.waits_aside(&group, &instance).is_none();
            match ends_in {
                EndsIn::WarmPool if is_last => self.run_in_pool(now, index),
                EndsIn::OutOfPool if is_last => self.end_in_pool(now, index),
                _ => {}
            }
            return;
        }
        // Removing a hook completes its open actions: a launch is abandoned, a termination
        // continues.
        let abandoned = verdict.result() == Some(HookResult::Abandon)
            || (verdict == Verdict::Removed && transition == Transition::Launching);
        if abandoned {
            for other in self.actions.moving(&group, &instance) {
                self.actions.close(
                    other,
                    ActionEnd { at: now, verdict: Verdict::Stopped, by: String::new() },
                );
            }
        }
        if self.actions.moving(&group, &instance).is_empty() {
            self.hooks_over(now, &instance, abandoned);
        }
    }

    /// Ends an instance's open actions without any effect on its state, which changes in another
    /// way.
    pub(super) fn drop_actions(&mut self, now: Moment, group: &str, instance: &str) {
        for index in self.actions.open_of(group, instance) {
            self.actions
                .close(index, ActionEnd { at: now, verdict: Verdict::Stopped, by: String::new() });
        }
    }

    /// Removes a hook; its open actions end as if answered CONTINUE, or ABANDON where an instance
    /// is being launched.
    pub(in crate::sim::aws) fn remove_hook(&mut self, now: Moment, group: &str, hook: &str) {
        if let Some(found) = self.groups.get_mut(group) {
            found.hooks.remove(hook);
        }
        let open: Vec<usize> = self
            .actions
            .open
            .iter()
            .filter(|((g, _, h), _)| g == group && h == hook)
            .map(|(_, index)| *index)
            .collect();
        for index in open {
            self.end_action(now, index, Verdict::Removed, "");
        }
    }
}

impl Verdict {
    /// The result with which the action ended, if it has one.
    #[must_use]
    pub const fn result(self) -> Option<HookResult> {
        match self {
            Self::Completed(result) | Self::TimedOut(result) | Self::GlobalTimeout(result) => {
                Some(result)
            }
            Self::Stopped | Self::Removed => None,
        }
    }
}

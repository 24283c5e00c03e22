//! The calls to AWS for one lifecycle action, and what their answers mean: a heartbeat
//! (RecordLifecycleActionHeartbeat), and the completion (CompleteLifecycleAction).

use std::sync::Arc;

use tracing::{debug, info, warn};

use super::{NamedBy, Proof};
use crate::{
    aws::{Advice, AwsError},
    controller::shared::Shared,
    domain::{HookKey, HookResult, InstanceState, LifecycleAction, Moment},
    lifecycle::HeartbeatSchedule,
    observe::{CompletionResult, HeartbeatResult},
};

/// The result of a try to complete the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Try {
    /// The action is completed, or was already over.
    Over,
    /// The call failed. Try again soon.
    Failed,
    /// A policy forbids the call, and only a record names the action. Try again later.
    Forbidden,
}

/// What is known about the token of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenTrust {
    /// The action was first known by its token, AWS has accepted a heartbeat with it, or the action
    /// has no token.
    Trusted,
    /// A message brought it for an action that was known without it, and AWS has accepted no
    /// heartbeat with it: the message may be made up.
    Unproved,
    /// AWS has refused it, so the calls carry no token.
    Refused,
}

/// Sends the calls for one action, under the name that AWS takes.
pub(super) struct ActionCalls {
    shared: Arc<Shared>,
    /// The action as calls name it: with its token if a message brought one and AWS takes it.
    action: LifecycleAction,
    named_by: NamedBy,
    token_trust: TokenTrust,
    /// A policy forbade the last heartbeat.
    is_forbidden: bool,
    /// All names by which messages and records name the action.
    names: Vec<LifecycleAction>,
}

impl ActionCalls {
    pub(super) fn new(shared: Arc<Shared>, action: LifecycleAction, named_by: NamedBy) -> Self {
        let token = action.token.clone().filter(|_| named_by == NamedBy::Message);
        Self {
            shared,
            names: vec![action.clone()],
            action: LifecycleAction { token, ..action },
            named_by,
            token_trust: TokenTrust::Trusted,
            is_forbidden: false,
        }
    }

    pub(super) const fn key(&self) -> &HookKey {
        &self.action.key
    }

    /// All names by which messages and records name the action.
    pub(super) fn names(&self) -> &[LifecycleAction] {
        &self.names
    }

    /// The action, if its calls carry its token.
    pub(super) fn named_by_token(&self) -> Option<&LifecycleAction> {
        Some(&self.action).filter(|action| action.token.is_some())
    }

    /// Only a record names the action: no message did.
    pub(super) fn is_named_by_record_only(&self) -> bool {
        self.named_by == NamedBy::Record
    }

    /// A message or a record names the action like this. The token of a message is sent with the
    /// calls from now on.
    pub(super) fn add_name(&mut self, name: LifecycleAction, named_by: NamedBy) {
        if named_by == NamedBy::Message {
            self.named_by = named_by;
            if self.action.token.is_none()
                && self.token_trust != TokenTrust::Refused
                && name.token.is_some()
            {
                self.action.token.clone_from(&name.token);
                self.token_trust = TokenTrust::Unproved;
            }
        }
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    /// A policy forbade the last heartbeat: the next one soon after it would be forbidden, too.
    pub(super) const fn is_forbidden(&self) -> bool {
        self.is_forbidden
    }

    /// Only a record names the action, and AWS has accepted no heartbeat for it: the record may be
    /// forged.
    pub(super) fn is_unproved(&self, schedule: &HeartbeatSchedule) -> bool {
        self.is_named_by_record_only() && schedule.counts().accepted == 0
    }

    /// Sends a heartbeat now, and notes the answer in the schedule. Returns what it proves. `None`:
    /// the heartbeat failed.
    pub(super) async fn heartbeat(&mut self, schedule: &mut HeartbeatSchedule) -> Option<Proof> {
        let clock = self.shared.clock;
        schedule.sent(clock.now());
        let limit = schedule.call_limit();
        let result =
            tokio::time::timeout(limit, self.shared.aws.autoscaling().heartbeat(&self.action))
                .await;
        let now = clock.now();
        self.is_forbidden = matches!(&result, Ok(Err(error)) if error.is_forbidden());
        let proof = match result {
            Ok(Ok(())) => {
                if self.token_trust == TokenTrust::Unproved {
                    self.token_trust = TokenTrust::Trusted;
                }
                self.heartbeat_accepted(schedule, now);
                Some(Proof::Open)
            }
            Ok(Err(error)) if self.shows_end(&error).await => {
                self.heartbeat_over(schedule, &error);
                Some(Proof::Gone)
            }
            Ok(Err(error)) => {
                self.heartbeat_failed(schedule, &error, now);
                None
            }
            Err(_) => {
                schedule.failed(now);
                self.shared.metrics.heartbeat(HeartbeatResult::Failed);
                let HookKey { instance, hook, .. } = &self.action.key;
                warn!(
                    instance = %instance, hook = %hook, limit = ?limit,
                    "A heartbeat was not answered in time and is tried again."
                );
                None
            }
        };
        self.shared.board.heartbeat(&self.action.key.instance, proof == Some(Proof::Open));
        proof
    }

    fn heartbeat_accepted(&self, schedule: &mut HeartbeatSchedule, now: Moment) {
        schedule.accepted(now);
        if let Some(sent) = schedule.last_accepted() {
            self.shared.heartbeat_answers.accepted(&self.names, sent);
        }
        self.shared.metrics.heartbeat(HeartbeatResult::Accepted);
        let HookKey { instance, hook, .. } = &self.action.key;
        debug!(instance = %instance, hook = %hook, "Heartbeat accepted.");
    }

    /// AWS answered a heartbeat that the action is not open.
    fn heartbeat_over(&self, schedule: &mut HeartbeatSchedule, error: &AwsError) {
        schedule.gone(self.shared.clock.now());
        self.shared.heartbeat_answers.over(&self.names, self.shared.clock.now());
        self.shared.metrics.heartbeat(HeartbeatResult::Over);
        let HookKey { instance, hook, .. } = &self.action.key;
        info!(
            instance = %instance, hook = %hook, %error,
            "The lifecycle action is over; no more heartbeats."
        );
    }

    /// `now`: when AWS answered.
    fn heartbeat_failed(&self, schedule: &mut HeartbeatSchedule, error: &AwsError, now: Moment) {
        let is_denied = error.advice() == Advice::Denied;
        // A token was wrong that the next heartbeat does not carry.
        let is_of_dropped_token = error.advice() == Advice::Gone;
        let is_for_good = is_forbidden_for_good(schedule, error, now);
        if is_for_good {
            schedule.gone(now);
        } else if self.is_unproved(schedule) && error.is_forbidden() {
            schedule.forbidden(now);
        } else if is_denied || (error.is_invalid() && !is_of_dropped_token) {
            schedule.refused(now);
        } else {
            schedule.failed(now);
        }
        self.shared.metrics.heartbeat(if is_denied {
            HeartbeatResult::Denied
        } else {
            HeartbeatResult::Failed
        });
        let HookKey { instance, hook, .. } = &self.action.key;
        if is_for_good {
            self.log_forbidden_for_good(error);
        } else {
            warn!(
                instance = %instance, hook = %hook, %error, tries = schedule.failures_in_a_row(),
                "A heartbeat failed and is tried again."
            );
        }
    }

    /// Tries once to complete the action, and notes its end in the schedule.
    pub(super) async fn complete(
        &mut self,
        schedule: &mut HeartbeatSchedule,
        with: HookResult,
    ) -> Try {
        let Some(permit) = self.shared.guard.permit() else { return Try::Failed };
        let result =
            self.shared.aws.autoscaling().complete(&self.action, with, permit.limit()).await;
        drop(permit);
        match result {
            Ok(()) => {
                schedule.completed(self.shared.clock.now());
                self.shared.metrics.completion(match with {
                    HookResult::Continue => CompletionResult::Accepted,
                    HookResult::Abandon => CompletionResult::Abandoned,
                });
                let HookKey { group, hook, instance } = &self.action.key;
                info!(
                    instance = %instance, group = %group, hook = %hook,
                    "Lifecycle action completed with {}.", with.as_str()
                );
                Try::Over
            }
            Err(error) if self.shows_end(&error).await => {
                schedule.gone(self.shared.clock.now());
                let HookKey { group, hook, instance } = &self.action.key;
                info!(
                    instance = %instance, group = %group, hook = %hook, %error,
                    "The lifecycle action was already over."
                );
                Try::Over
            }
            Err(error) => self.completion_failed(schedule, &error),
        }
    }

    fn completion_failed(&self, schedule: &mut HeartbeatSchedule, error: &AwsError) -> Try {
        self.shared.metrics.completion(if error.advice() == Advice::Denied {
            CompletionResult::Denied
        } else {
            CompletionResult::Failed
        });
        let now = self.shared.clock.now();
        if is_forbidden_for_good(schedule, error, now) {
            schedule.gone(now);
            self.log_forbidden_for_good(error);
            return Try::Over;
        }
        let HookKey { group, hook, instance } = &self.action.key;
        warn!(
            instance = %instance, group = %group, hook = %hook, %error,
            "Cannot complete the lifecycle action; trying again, heartbeats go on."
        );
        if self.is_unproved(schedule) && error.is_forbidden() {
            Try::Forbidden
        } else {
            Try::Failed
        }
    }

    /// Whether the action is over, by this error. "No active Lifecycle Action" does not show that
    /// if the call carried a token that may be made up.
    async fn shows_end(&mut self, error: &AwsError) -> bool {
        if error.advice() == Advice::Gone {
            return !self.drops_unproved_token(error);
        }
        self.ask_if_over(error).await
    }

    /// Drops a token that may be made up: the calls name only the instance from now on, as they did
    /// before its message came. Returns whether there was one. An action that only records and
    /// messages with tokens name keeps its token: AWS may have another action of its hook open.
    fn drops_unproved_token(&mut self, error: &AwsError) -> bool {
        let was_known_without = self.names.iter().any(|name| name.token.is_none());
        if self.token_trust != TokenTrust::Unproved || !was_known_without {
            return false;
        }
        (self.action.token, self.token_trust) = (None, TokenTrust::Refused);
        let HookKey { hook, instance, .. } = &self.action.key;
        info!(
            instance = %instance, hook = %hook, %error,
            "AWS does not know the token that a message brought for a lifecycle action: the message \
             may be made up. The calls name only the instance from now on."
        );
        true
    }

    /// Whether the action is over after Auto Scaling refused a call as invalid. That answer alone
    /// does not show it: this asks whether the hook, its group or the instance is gone. If the
    /// error is about the token, the calls omit the token from now on.
    async fn ask_if_over(&mut self, error: &AwsError) -> bool {
        if !error.is_invalid() {
            return false;
        }
        let HookKey { group, hook, instance } = &self.action.key;
        if error.is_about_the_token() && self.action.token.take().is_some() {
            self.token_trust = TokenTrust::Refused;
            warn!(
                instance = %instance, hook = %hook, %error,
                "Auto Scaling does not take the action's token; the calls name only the instance \
                 from now on.");
            return false;
        }
        let lookups = &self.shared.lookups;
        let (hook, instance) = tokio::join!(
            lookups.hooks.get_fresh(group, hook),
            lookups.instances.get_fresh(instance)
        );
        matches!(hook, Ok(None))
            || instance
                .is_ok_and(|facts| facts.is_none_or(|f| f.state == InstanceState::Terminated))
    }

    fn log_forbidden_for_good(&self, error: &AwsError) {
        let HookKey { group, hook, instance } = &self.action.key;
        if self.is_named_by_record_only() {
            info!(
                instance = %instance, group = %group, hook = %hook, %error,
                "AWS forbids the calls for a lifecycle action that only a record names, and its \
                 global timeout has passed. Sundown counts the action as over."
            );
            return;
        }
        warn!(
            instance = %instance, group = %group, hook = %hook, %error,
            "AWS forbids the calls for a lifecycle action, and its global timeout has passed. Sundown \
             counts the action as over. Allow autoscaling:CompleteLifecycleAction and \
             autoscaling:RecordLifecycleActionHeartbeat in the role's policy."
        );
    }
}

/// A policy forbids the calls for an action that must be over by now. Without this, an action whose
/// calls are never allowed would be tried for ever.
fn is_forbidden_for_good(schedule: &HeartbeatSchedule, error: &AwsError, now: Moment) -> bool {
    error.is_forbidden() && now >= schedule.ends_by()
}

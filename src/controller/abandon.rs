//! Asks AWS whether a group retains instances whose terminate hook is abandoned, after a drain that
//! has failed (`--hook-result-on-failure=abandon`), and reports the answer.

use tracing::{debug, warn};

use super::context::Term;
use crate::{
    domain::{GroupName, InstanceId, LifecycleAction, seconds},
    lifecycle::AbandonPolicy,
    runtime::Backoff,
};

/// How long Sundown asks AWS. A drain ends 60 s before AWS ends its lifecycle action, so the action
/// is still open after this time.
const ASK_FOR: std::time::Duration = seconds(40);
/// The same for EC2.
const ASK_EC2_FOR: std::time::Duration = seconds(5);

/// Asks DescribeAutoScalingGroups for the lifecycle policy of the action's group. If AWS does not
/// answer, an earlier answer counts for up to 10 minutes. If the group retains the instance, asks
/// EC2 whether anything runs on it.
pub(super) async fn policy(term: &Term, action: &LifecycleAction) -> AbandonPolicy {
    let group = &action.key.group;
    let policy = match tokio::time::timeout(ASK_FOR, ask(term, group)).await {
        Ok(Some(policy)) => policy,
        Ok(None) | Err(_) => term
            .shared
            .lookups
            .groups
            .before(group)
            .map_or(AbandonPolicy::Unknown, |facts| of(facts.retains_abandoned)),
    };
    let retains = policy == AbandonPolicy::Retain;
    let policy = if retains && has_ended(term, &action.key.instance).await {
        AbandonPolicy::RetainEnded
    } else {
        policy
    };
    report(action, policy);
    policy
}

/// Whether EC2 shows that the instance has stopped or is terminated. `false` also if EC2 does not
/// answer.
async fn has_ended(term: &Term, instance: &InstanceId) -> bool {
    let asking = term.shared.lookups.instances.get_fresh(instance);
    let Ok(Ok(Some(facts))) = tokio::time::timeout(ASK_EC2_FOR, asking).await else {
        return false;
    };
    facts.state.is_over()
}

const fn of(retains: bool) -> AbandonPolicy {
    if retains { AbandonPolicy::Retain } else { AbandonPolicy::Terminate }
}

/// `None`: the call is denied.
async fn ask(term: &Term, group: &GroupName) -> Option<AbandonPolicy> {
    let mut backoff = Backoff::up_to(seconds(5));
    loop {
        match term.shared.lookups.groups.get_fresh(group).await {
            Ok(facts) => return Some(of(facts.is_some_and(|facts| facts.retains_abandoned))),
            Err(error) if error.is_forbidden() => return None,
            Err(error) => {
                debug!(%group, %error, "The lifecycle policy of the group is not known yet.");
                tokio::time::sleep(backoff.pause(&term.shared.random)).await;
            }
        }
    }
}

fn report(action: &LifecycleAction, policy: AbandonPolicy) {
    let (group, hook, instance) = (&action.key.group, &action.key.hook, &action.key.instance);
    match policy {
        AbandonPolicy::Retain => warn!(
            %group, %hook, %instance,
            "The drain has failed: Sundown will complete the lifecycle action with ABANDON, because \
             the group retains such instances. The instance costs money until somebody terminates \
             it."
        ),
        AbandonPolicy::RetainEnded => warn!(
            %group, %hook, %instance,
            "The drain has failed, but EC2 shows that the instance has ended, so nothing runs on \
             it: Sundown will complete the lifecycle action with CONTINUE."
        ),
        AbandonPolicy::Terminate => warn!(
            %group, %hook, %instance,
            "The drain has failed, but the group's lifecycle policy does not retain instances: \
             Sundown will complete the lifecycle action with CONTINUE."
        ),
        AbandonPolicy::Unknown => warn!(
            %group, %hook, %instance,
            "Cannot find out whether the group retains instances. The drain has failed, and Sundown \
             will complete the lifecycle action with CONTINUE. If the role may not call \
             autoscaling:DescribeAutoScalingGroups, allow it."
        ),
    }
}

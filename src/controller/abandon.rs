//! Asks AWS whether a group retains instances whose terminate hook is abandoned, after a drain that
//! has failed (`--hook-result-on-failure=abandon`), and reports the answer.

use tracing::{debug, warn};

use super::context::Term;
use crate::{
    domain::{GroupName, LifecycleAction, seconds},
    lifecycle::AbandonPolicy,
    runtime::Backoff,
};

/// How long Sundown asks AWS. A drain ends 60 s before AWS ends its lifecycle action, so the action
/// is still open after this time.
const ASK_FOR: std::time::Duration = seconds(40);

/// Asks DescribeAutoScalingGroups for the lifecycle policy of the action's group. If AWS does not
/// answer, an earlier answer counts for up to 10 minutes.
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
    report(action, policy);
    policy
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

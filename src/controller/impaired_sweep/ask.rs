//! Asks EC2 and Auto Scaling about sick instances.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, stream};
use tracing::{debug, warn};

use crate::{
    controller::{context::Term, fleet::GROUP_TAG, rounds},
    domain::{GroupName, InstanceId, InstanceStatus, Moment, seconds},
    triage::{
        RoundFailure,
        impaired::{AwsView, Described, Member},
    },
};

/// About how many instances AWS is asked at once. The lookups put their questions into few calls.
const CONCURRENT: usize = 20;
/// How long the answers about an instance may take.
const TIMEOUT: Duration = seconds(30);

/// The instances whose status checks fail, and since when, by our clock, if EC2 reports that.
pub(super) async fn failing_checks(
    term: &Term,
) -> Result<BTreeMap<InstanceId, Option<Moment>>, RoundFailure> {
    let impaired = match term.shared.aws.ec2().impaired_instances().await {
        Ok(impaired) => impaired,
        Err(error) => {
            let failure = rounds::failure(&error);
            if failure == RoundFailure::Denied
                && term.is_first_report("DescribeInstanceStatus is denied")
            {
                warn!(
                    %error,
                    "Sundown does not see failed status checks: no drain of a sick instance begins. \
                     Allow ec2:DescribeInstanceStatus in the role's policy."
                );
            } else {
                debug!(%error, "EC2 does not answer which status checks fail.");
            }
            return Err(failure);
        }
    };
    let skew = term.skew();
    let ours = |status: InstanceStatus| {
        let since = status.failed_checks.iter().filter_map(|check| check.since).min();
        (status.id, since.map(|at| skew.to_ours(at)))
    };
    Ok(impaired.into_iter().map(ours).collect())
}

/// Asks about the instance of each of these. The order stays.
pub(super) async fn all<T>(
    term: &Term,
    about_whom: Vec<T>,
    instance: impl Fn(&T) -> InstanceId,
) -> Vec<(T, AwsView)> {
    let named = about_whom.into_iter().map(|one| (instance(&one), one));
    stream::iter(named)
        .map(|(instance, one)| async move { (one, about(term, &instance).await) })
        .buffered(CONCURRENT)
        .collect()
        .await
}

async fn about(term: &Term, instance: &InstanceId) -> AwsView {
    let asking = tokio::time::timeout(TIMEOUT, ask(term, instance));
    asking.await.ok().flatten().unwrap_or(AwsView::Unanswered)
}

/// `None`: one of them did not answer.
async fn ask(term: &Term, instance: &InstanceId) -> Option<AwsView> {
    let (lookups, now) = (&term.shared.lookups, tokio::time::Instant::now());
    let Some(facts) = lookups.instances.get_since(instance, now).await.ok()?.1 else {
        return Some(AwsView::NotOurs);
    };
    let managed_tag = term.shared.policy.managed_tag.as_ref();
    if managed_tag.is_some_and(|key| !facts.tags.contains_key(key)) {
        return Some(AwsView::NotOurs);
    }
    let Some(group) = facts.tags.get(GROUP_TAG).map(|name| GroupName::from(name.as_str())) else {
        return Some(AwsView::NotOurs);
    };
    let Some(members) = lookups.members.of_group_since(&group, now).await.ok()? else {
        return Some(AwsView::NotOurs);
    };
    // A group does not list the instances in its warm pool, and a detached one has lost the tag.
    if !members.states.contains_key(instance.as_str()) && !members.has_warm_pool {
        return Some(AwsView::NotOurs);
    }
    let described = Described {
        instance,
        state: facts.state,
        capacity: &members.capacity,
        states: &members.states,
        unhealthy: &members.unhealthy,
        suspended: &members.suspended,
    };
    Some(AwsView::Answered(Member::new(group, &described)))
}

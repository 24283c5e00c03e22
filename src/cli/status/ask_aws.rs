//! Asks Auto Scaling which instances the groups of this cluster retain. `status` shows everything
//! else without AWS.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use clap::Args;
use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use super::facts::{RetainedFact, RetainedFacts};
use crate::{
    aws::{Advice, AutoScaling, AwsError, Group, GroupFilter, Outcome, WarmPool},
    cli::people::{advised, connect},
    config::{AwsArgs, PublishedService},
    domain::{GroupName, InstanceId, is_retained, seconds},
};

/// How long all calls together may take. The cluster is read meanwhile. When AWS does not answer, a
/// person waits for the drains, not for this list.
const LIMIT: Duration = seconds(2);
/// How long `--watch` shows an answer: the rate of these calls is shared with other tools.
const KEPT: Duration = seconds(60);
/// The most warm pools that are asked for, and how many of them at once.
const POOLS: usize = 200;
const POOLS_AT_ONCE: usize = 4;
/// The most retained instances of one warm pool.
const OF_ONE_POOL: usize = 1000;
/// Where the documentation has the permissions.
const POLICY: &str = "docs/commands.md, \"Who may see the status\"";

/// The flags about AWS.
#[derive(Debug, Clone, Args)]
pub(super) struct AwsFlags {
    /// Do not ask Auto Scaling for the instances that it retains
    #[arg(long)]
    no_aws: bool,
    /// Name of the cluster in the tags of its Auto Scaling groups; else the leader's
    #[arg(long, env = "SUNDOWN_CLUSTER_NAME", value_name = "NAME")]
    cluster_name: Option<String>,
    #[command(flatten)]
    aws: AwsArgs,
}

/// Asks, and remembers the last answer for [`KEPT`].
pub(in crate::cli) struct AskAws {
    flags: AwsFlags,
    last: RefCell<Option<(Instant, RetainedFacts)>>,
}

impl AskAws {
    pub(super) fn new(flags: &AwsFlags) -> Self {
        Self { flags: flags.clone(), last: RefCell::new(None) }
    }

    /// The retained instances. `service`: what the leader has published. Never fails: what is not
    /// known is in `trouble`.
    pub(super) async fn retained(&self, service: &PublishedService) -> RetainedFacts {
        if self.flags.no_aws {
            return RetainedFacts::default();
        }
        let last = self.last.borrow().clone().filter(|(at, _)| at.elapsed() < KEPT);
        if let Some((_, facts)) = last {
            return facts;
        }
        let mut facts = RetainedFacts::default();
        // Boxed, because the clients of AWS make it large.
        let asking = Box::pin(self.ask(service, &mut facts));
        let problem = match tokio::time::timeout(LIMIT, asking).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(crate::cli::words::on_one_line(&error)),
            Err(_) => Some(format!("AWS has not answered within {} s", LIMIT.as_secs())),
        };
        facts.trouble.extend(problem.map(|why| {
            format!(
                "Instances that Auto Scaling retains are shown only if the record of a Node shows them: \
                 {why}. (--no-aws: do not ask.)"
            )
        }));
        *self.last.borrow_mut() = Some((Instant::now(), facts.clone()));
        facts
    }

    async fn ask(
        &self,
        service: &PublishedService,
        facts: &mut RetainedFacts,
    ) -> anyhow::Result<()> {
        let given = self.flags.cluster_name.as_ref().filter(|name| !name.trim().is_empty());
        let Some(cluster) = given.or(service.cluster_name.as_ref()) else {
            anyhow::bail!(
                "the name of the cluster is not known: the leader has published none; give \
                 --cluster-name"
            );
        };
        let clients = connect(&self.flags.aws, service.region.as_deref()).await?;
        let autoscaling = clients.autoscaling();
        let mut groups: BTreeMap<GroupName, Group> = BTreeMap::new();
        for filter in GroupFilter::of_cluster(cluster) {
            let found = autoscaling.groups(&[filter]).await;
            let found = found.map_err(problem)?;
            groups.extend(found.into_iter().map(|group| (group.group.clone(), group)));
        }
        if groups.is_empty() {
            anyhow::bail!(
                "no group in the region {} has a tag of the cluster {cluster}; look at --region, \
                 --cluster-name and the account of your credentials",
                clients.region().unwrap_or_default()
            );
        }
        for (name, group) in &groups {
            let members = group.members.iter();
            facts.instances.extend(members.filter_map(|(id, state)| retained(name, id, state)));
        }
        let (with_pool, without): (Vec<_>, Vec<_>) =
            groups.into_values().partition(|group| group.has_warm_pool);
        facts.known.extend(without.into_iter().map(|group| group.group));
        ask_pools(autoscaling, with_pool, facts).await;
        Ok(())
    }
}

/// Adds the instances that these groups retain in their warm pools.
async fn ask_pools(autoscaling: &AutoScaling, groups: Vec<Group>, facts: &mut RetainedFacts) {
    let left_out = groups.len().saturating_sub(POOLS);
    let asked = groups.into_iter().take(POOLS).map(|group| async move {
        let pool = autoscaling.warm_pool(&group.group, OF_ONE_POOL, is_retained).await;
        (group.group, pool)
    });
    let mut answers = stream::iter(asked).buffered(POOLS_AT_ONCE);
    let mut failed = None;
    while let Some((group, WarmPool { members, result, .. })) = answers.next().await {
        let found = members.iter().filter_map(|(id, state)| retained(&group, id, state));
        facts.instances.extend(found);
        match result {
            Ok(()) => drop(facts.known.insert(group)),
            Err(error) => {
                let is_denied = error.advice() == Advice::Denied;
                let why = crate::cli::words::on_one_line(&problem(error));
                failed = Some(format!("that of {group} was not answered: {why}"));
                if is_denied {
                    break;
                }
            }
        }
    }
    let too_many = (left_out > 0).then(|| format!("{left_out} were not asked for"));
    facts.trouble.extend(
        failed
            .or(too_many)
            .map(|why| format!("Retained instances in warm pools are not all shown: {why}.")),
    );
}

/// Why a call failed. Many people have no credentials for AWS, and need no advice about that.
fn problem(error: AwsError) -> anyhow::Error {
    match error.outcome() {
        Outcome::Credentials => anyhow::anyhow!("AWS takes no credentials of yours"),
        _ => advised(error, POLICY),
    }
}

fn retained(group: &GroupName, id: &str, state: &str) -> Option<RetainedFact> {
    let instance = id.parse::<InstanceId>().ok().filter(|_| is_retained(state))?;
    Some(RetainedFact { group: group.clone(), instance, state: state.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn aws_that_does_not_answer_is_waited_for_two_seconds_at_most_and_not_again_soon() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let flags = AwsFlags {
            no_aws: false,
            cluster_name: Some("shop".to_owned()),
            aws: AwsArgs { region: Some("eu-west-1".to_owned()), aws_endpoint_url: Some(url) },
        };
        let asked = AskAws::new(&flags);
        let begun = Instant::now();
        for _ in 0..2 {
            let facts = asked.retained(&PublishedService::default()).await;
            let [line] = &facts.trouble[..] else { panic!("{:?}", facts.trouble) };
            assert!(
                line.starts_with("Instances that Auto Scaling retains are shown only"),
                "{line}"
            );
            assert!(line.len() < 200 && !line.contains('\n'), "{line}");
        }
        assert!(begun.elapsed() < seconds(4), "{:?}", begun.elapsed());
    }
}

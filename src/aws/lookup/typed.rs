//! The lookups that Sundown uses.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{Lookup, LookupError, LookupSettings};
use crate::{
    aws::{Clients, DescribedHook, GroupFacts, autoscaling, ec2},
    domain::{
        GroupCapacity, GroupName, HookDescription, HookName, InstanceFacts, InstanceId,
        ReadSettings, ReservationId, Transition,
    },
    runtime::{Random, Spawner},
};

/// Looks instances up by id. For a state on which a decision depends, use [`Lookup::get_fresh`].
pub type InstanceLookup = Lookup<InstanceId, Arc<InstanceFacts>>;
/// Looks up all instances with a private DNS name, for Nodes without providerID.
pub type DnsLookup = Lookup<String, Arc<Vec<InstanceFacts>>>;
/// Looks up the instances of a Capacity Block: all that are not terminated or stopped.
pub type BlockLookup = Lookup<ReservationId, Arc<Vec<InstanceId>>>;
/// Looks up the tags and the lifecycle policies of Auto Scaling groups.
pub type GroupLookup = Lookup<GroupName, Arc<GroupFacts>>;

/// The hooks of a group, and when they were read.
type Hooks = (Instant, Arc<BTreeMap<HookName, DescribedHook>>);

/// A hook that did not exist this long ago may exist now.
const HOOK_MAY_BE_NEW: Duration = Duration::from_secs(30);
/// While AWS denies the call, a caller waits this long for a new answer. Without this limit it
/// would wait for the pause between two calls that fail, which is up to 20 s.
const WAIT_WHILE_DENIED: Duration = Duration::from_secs(1);

/// Looks up lifecycle hooks, all of a group in one call.
#[derive(Debug, Clone)]
pub struct HookLookup(Lookup<GroupName, Hooks>);

impl HookLookup {
    /// The settings of the hook, at most 10 minutes old. `None`: there is no such hook (an answer
    /// that is at most 30 s old), or no such group (at most 1 minute old).
    pub async fn get(
        &self,
        group: &GroupName,
        hook: &HookName,
    ) -> Result<Option<HookDescription>, LookupError> {
        let Some((at, hooks)) = self.0.get(group).await? else { return Ok(None) };
        match hooks.get(hook) {
            None if at.elapsed() >= HOOK_MAY_BE_NEW => self.get_fresh(group, hook).await,
            found => Ok(found.map(|hook| hook.description.clone())),
        }
    }

    /// The settings of the hook now. `None`: there is no such hook or group.
    pub async fn get_fresh(
        &self,
        group: &GroupName,
        hook: &HookName,
    ) -> Result<Option<HookDescription>, LookupError> {
        let Some((_, hooks)) = self.0.get_fresh(group).await? else { return Ok(None) };
        Ok(hooks.get(hook).map(|hook| hook.description.clone()))
    }

    /// Every hook of the group with its transition, at most 30 s old. Hooks of a transition that
    /// this version does not know are left out. `None`: AWS has no such group.
    ///
    /// # Errors
    /// As [`Lookup::get`]; after 1 s if the last call was denied.
    pub async fn of_group(
        &self,
        group: &GroupName,
    ) -> Result<Option<BTreeMap<HookName, Transition>>, LookupError> {
        let since = Instant::now().checked_sub(HOOK_MAY_BE_NEW).unwrap_or_else(Instant::now);
        let denied = self.0.trouble(group).filter(LookupError::is_forbidden);
        let asking = self.0.get_since(group, since);
        let (_, answer) = match denied {
            None => asking.await?,
            Some(denied) => {
                tokio::time::timeout(WAIT_WHILE_DENIED, asking).await.map_err(|_| denied)??
            }
        };
        Ok(answer.map(|(_, hooks)| transitions(&hooks)))
    }

    /// As [`Self::of_group`], from the last answer of AWS, at most 10 minutes old. Makes no call.
    /// `None`: there is no such answer, or AWS has no such group.
    #[must_use]
    pub fn before(&self, group: &GroupName) -> Option<BTreeMap<HookName, Transition>> {
        let (_, hooks) = self.0.cached(group)?.1?;
        Some(transitions(&hooks))
    }

    /// The settings in the hook's NotificationMetadata by the last answer of AWS, at most 10 minutes
    /// old. Makes no call. `None`: it has none for Sundown, or there is no such answer.
    #[must_use]
    pub fn settings_before(&self, group: &GroupName, hook: &HookName) -> Option<Box<ReadSettings>> {
        let (_, hooks) = self.0.cached(group)?.1?;
        hooks.get(hook)?.settings.clone()
    }
}

fn transitions(hooks: &BTreeMap<HookName, DescribedHook>) -> BTreeMap<HookName, Transition> {
    hooks.iter().filter_map(|(name, hook)| Some((name.clone(), hook.transition?))).collect()
}

/// The instances of a group, without those in its warm pool.
#[derive(Debug, Default)]
pub struct Members {
    /// What the group wants, and what each instance counts.
    pub capacity: GroupCapacity,
    /// `LifecycleState` of each instance by id, as AWS writes it.
    pub states: BTreeMap<String, String>,
    /// The group has a warm pool.
    pub has_warm_pool: bool,
    /// The instances whose `HealthStatus` is `Unhealthy`.
    pub unhealthy: BTreeSet<String>,
    /// The processes of the group that are suspended.
    pub suspended: BTreeSet<String>,
}

/// `LifecycleState` of each instance in the warm pool of a group, by id.
type Pooled = Arc<BTreeMap<String, String>>;

/// Looks up the lifecycle states of instances in Auto Scaling groups, all of a group in one call,
/// and those of its warm pool in another one.
#[derive(Debug, Clone)]
pub struct MemberLookup {
    groups: Lookup<GroupName, Arc<Members>>,
    pools: Lookup<GroupName, Pooled>,
}

impl MemberLookup {
    /// The lifecycle state of the instance (`InService`, `Terminating:Wait`, `Warmed:Stopped`, …),
    /// by calls that began at `since` or later. The warm pool is asked only if the group has one and
    /// does not list the instance. `None`: the instance is in neither, or AWS has no such group.
    ///
    /// # Errors
    /// As [`Lookup::get`].
    pub async fn state_since(
        &self,
        group: &GroupName,
        instance: &InstanceId,
        since: Instant,
    ) -> Result<Option<String>, LookupError> {
        let Some(members) = self.of_group_since(group, since).await? else { return Ok(None) };
        let state = members.states.get(instance.as_str());
        if state.is_some() || !members.has_warm_pool {
            return Ok(state.cloned());
        }
        let (_, pooled) = self.pools.get_since(group, since).await?;
        Ok(pooled.and_then(|all| all.get(instance.as_str()).cloned()))
    }

    /// As [`Self::state_since`], but `None` also for an instance in the warm pool.
    ///
    /// # Errors
    /// As [`Lookup::get`].
    pub async fn listed_state_since(
        &self,
        group: &GroupName,
        instance: &InstanceId,
        since: Instant,
    ) -> Result<Option<String>, LookupError> {
        let members = self.of_group_since(group, since).await?;
        Ok(members.and_then(|all| all.states.get(instance.as_str()).cloned()))
    }

    /// The instances of a group, by a call that began at `since` or later. `None`: AWS has no such
    /// group.
    ///
    /// # Errors
    /// As [`Lookup::get`].
    pub async fn of_group_since(
        &self,
        group: &GroupName,
        since: Instant,
    ) -> Result<Option<Arc<Members>>, LookupError> {
        Ok(self.groups.get_since(group, since).await?.1)
    }

    /// The instances of a group; the answer may be as old as [`Lookups::members`] keeps it. `None`:
    /// AWS has no such group.
    ///
    /// # Errors
    /// As [`Lookup::get`].
    pub async fn of_group(&self, group: &GroupName) -> Result<Option<Arc<Members>>, LookupError> {
        self.groups.get(group).await
    }
}

/// All lookups of the service.
#[derive(Debug, Clone)]
pub struct Lookups {
    /// Instances by id; answers are cached for 30 s.
    pub instances: InstanceLookup,
    /// Instances by private DNS name; cached for 1 minute, absence for 30 s.
    pub dns: DnsLookup,
    /// Instances of Capacity Blocks; cached for 10 s.
    pub blocks: BlockLookup,
    /// Tags and lifecycle policies of groups; cached for 10 minutes, absence for 1 minute.
    pub groups: GroupLookup,
    /// Hooks of groups; cached as [`HookLookup::get`] describes.
    pub hooks: HookLookup,
    /// Lifecycle states of the instances of groups and of their warm pools; cached for 10 s.
    pub members: MemberLookup,
}

impl Lookups {
    /// Starts the tasks of all lookups.
    #[must_use]
    pub fn start(clients: &Clients, random: &Random, spawner: &Spawner) -> Self {
        let slow = LookupSettings {
            keep: Duration::from_mins(10),
            keep_absence: Duration::from_mins(1),
            capacity: 2_000,
            batch: autoscaling::GROUPS,
            ..LookupSettings::default()
        };
        let by_id = LookupSettings { batch: ec2::FILTER_VALUES, ..LookupSettings::default() };
        // A private DNS name follows its address to a new instance, so its answer gets old soon.
        let by_dns = LookupSettings { keep: Duration::from_mins(1), ..by_id };
        // One answer has every instance of its groups, and is needed only while a completion waits.
        let of_members = LookupSettings {
            keep: Duration::from_secs(10),
            keep_absence: Duration::from_secs(10),
            capacity: 50,
            batch: 20,
            linger: Duration::from_millis(200),
            ..slow
        };
        // Its warning comes once, and its instances may be replaced at any moment.
        let one_block = LookupSettings {
            keep: Duration::from_secs(10),
            keep_absence: Duration::from_secs(10),
            capacity: 50,
            batch: 1,
            linger: Duration::ZERO,
            ..LookupSettings::default()
        };
        let one_group = LookupSettings { batch: 1, linger: Duration::ZERO, ..slow };

        let ec2 = clients.ec2().clone();
        let instances =
            Lookup::start(by_id, random.clone(), spawner, move |ids: Vec<InstanceId>| {
                let ec2 = ec2.clone();
                Box::pin(async move {
                    Ok(ec2
                        .describe_instances(&ids)
                        .await?
                        .into_iter()
                        .map(|i| (i.id.clone(), Arc::new(i)))
                        .collect())
                })
            });
        let ec2 = clients.ec2().clone();
        let dns = Lookup::start(by_dns, random.clone(), spawner, move |names: Vec<String>| {
            let ec2 = ec2.clone();
            Box::pin(async move { Ok(by_name(ec2.by_private_dns(&names).await?)) })
        });
        let ec2 = clients.ec2().clone();
        let blocks = Lookup::start(
            one_block,
            random.clone(),
            spawner,
            move |reservations: Vec<ReservationId>| {
                let ec2 = ec2.clone();
                Box::pin(async move {
                    let mut all = Vec::new();
                    for reservation in reservations {
                        let instances = ec2.in_reservation(&reservation).await?;
                        all.push((reservation, Arc::new(instances)));
                    }
                    Ok(all)
                })
            },
        );
        let autoscaling = clients.autoscaling().clone();
        let groups = Lookup::start(slow, random.clone(), spawner, move |names: Vec<GroupName>| {
            let autoscaling = autoscaling.clone();
            Box::pin(async move {
                Ok(autoscaling
                    .describe_groups(&names)
                    .await?
                    .into_iter()
                    .map(|g| (g.group.clone(), Arc::new(g)))
                    .collect())
            })
        });
        let autoscaling = clients.autoscaling().clone();
        let hooks =
            Lookup::start(one_group, random.clone(), spawner, move |names: Vec<GroupName>| {
                let autoscaling = autoscaling.clone();
                Box::pin(async move {
                    let mut all = Vec::new();
                    for group in names {
                        let hooks = autoscaling.describe_hooks(&group).await?;
                        let hooks = hooks
                            .into_iter()
                            .map(|hook| (hook.description.hook.clone(), hook))
                            .collect();
                        all.push((group, (Instant::now(), Arc::new(hooks))));
                    }
                    Ok(all)
                })
            });
        let autoscaling = clients.autoscaling().clone();
        let members =
            Lookup::start(of_members, random.clone(), spawner, move |names: Vec<GroupName>| {
                let autoscaling = autoscaling.clone();
                Box::pin(async move {
                    let groups = autoscaling.members_of(&names).await?;
                    Ok(groups
                        .into_iter()
                        .map(|g| {
                            let states = g.members.into_iter().collect();
                            (
                                g.group,
                                Arc::new(Members {
                                    capacity: g.capacity,
                                    states,
                                    has_warm_pool: g.has_warm_pool,
                                    unhealthy: g.unhealthy,
                                    suspended: g.suspended,
                                }),
                            )
                        })
                        .collect())
                })
            });
        let members = MemberLookup {
            groups: members,
            pools: start_pools(of_members, clients, random, spawner),
        };
        Self { instances, dns, blocks, groups, hooks: HookLookup(hooks), members }
    }
}

fn start_pools(
    like: LookupSettings,
    clients: &Clients,
    random: &Random,
    spawner: &Spawner,
) -> Lookup<GroupName, Pooled> {
    let settings = LookupSettings { batch: 1, ..like };
    let autoscaling = clients.autoscaling().clone();
    Lookup::start(settings, random.clone(), spawner, move |names: Vec<GroupName>| {
        let autoscaling = autoscaling.clone();
        Box::pin(async move {
            let mut all = Vec::new();
            for group in names {
                let pool = autoscaling.warm_pool(&group, usize::MAX, |_| true).await;
                pool.result?;
                all.push((group, Arc::new(pool.members.into_iter().collect())));
            }
            Ok(all)
        })
    })
}

/// Collects all instances of each name: addresses are used again, and two networks may have the
/// same.
fn by_name(instances: Vec<InstanceFacts>) -> Vec<(String, Arc<Vec<InstanceFacts>>)> {
    let mut all: BTreeMap<String, Vec<InstanceFacts>> = BTreeMap::new();
    for instance in instances {
        if let Some(name) = instance.private_dns.clone() {
            all.entry(name).or_default().push(instance);
        }
    }
    all.into_iter().map(|(name, instances)| (name, Arc::new(instances))).collect()
}

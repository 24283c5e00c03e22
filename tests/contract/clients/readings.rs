//! What our own clients (`src/aws`) read of instances and groups, and what they change there: at
//! the embedded AWS and at moto alike, and at moto beside boto3.
//!
//! What moto 5.2.5 lacks or does differently from AWS. No test can show these at moto:
//!
//! - Lifecycle actions. An instance is `InService` at once also where the group has a launch hook,
//!   and leaves at once also where it has a terminate hook: no state is `Pending:Wait` or
//!   `Terminating:Wait`. Heartbeats and completions are answered with status 500 and a page of
//!   HTML.
//! - Hooks. Any text is taken for a transition. NotificationMetadata is dropped. Each hook shows
//!   the notification target `arn:aws:sqs:us-east-1:123456789012:my-queue` and a GlobalTimeout of
//!   48 h, whatever was put. A group that is not there has no hooks (AWS: ValidationError).
//! - Transitional states. `stopping`, `pending` and `shutting-down` are only in the answers
//!   to StopInstances, StartInstances and TerminateInstances: DescribeInstances shows `stopped`,
//!   `running` and `terminated` at once. No instance is ever `EnteringStandby`.
//! - LaunchTime of the last start: it stays that of the first one. A terminated instance keeps its
//!   private address and its tags.
//! - Health. No group replaces an instance that is stopped or `Unhealthy`. SetInstanceHealth for
//!   an instance of no group is answered with status 500 (AWS: ValidationError).
//! - Status checks that fail, and scheduled events: DescribeInstanceStatus shows each running
//!   instance as `ok`, whatever the filters for checks and events ask for. ReportInstanceStatus is
//!   answered with status 500.
//! - Effects of a suspended process: with `Launch` suspended, a group launches all the same. Any
//!   text is taken for the name of a process.
//! - Instances in a warm pool. DescribeWarmPool of a group that is not there is answered with
//!   status 500 (AWS: ValidationError).
//! - Capacity Blocks: DescribeInstances with the filter `capacity-reservation-id` is answered with
//!   status 500.
//! - InstanceLifecyclePolicy: UpdateAutoScalingGroup takes it, and nothing shows it.
//! - Events: EventBridge gets none of EC2 and Auto Scaling.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::json;
use sundown::{
    aws::{Advice, Clients, Group, GroupFilter, Hook, Lookups, Outcome},
    domain::{
        GroupName, HookKey, HookName, HookResult, InstanceFacts, InstanceId, InstanceState,
        LifecycleAction, Transition,
    },
    runtime::{Clock, Random, Spawner},
    sim::{
        aws::{EmbeddedAws, GroupSpec, Settings},
        http::loopback,
    },
    triage::impaired::REPLACING,
};
use tokio::time::Instant;

use super::account::{Account, own_clients};

fn id(text: &str) -> InstanceId {
    text.parse().unwrap()
}

/// The ID of an instance that does not exist.
fn unknown_instance() -> InstanceId {
    id("i-0123456789abcdef0")
}

async fn group(clients: &Clients, name: &str) -> Group {
    clients.autoscaling().group(&name.into()).await.unwrap().unwrap()
}

async fn instance(clients: &Clients, id: &InstanceId) -> InstanceFacts {
    let mut found = clients.ec2().describe_instances(std::slice::from_ref(id)).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn texts(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

/// Reads and changes a group `asg` of two that replaces no unhealthy instance, and an empty group
/// `pooled` that has a warm pool.
async fn reads_and_changes(server: &str, clients: &Clients) {
    let (scaling, tasks) = (clients.autoscaling(), Spawner::new());
    let lookups = Lookups::start(clients, &Random::seeded(1), &tasks);
    let [asg, pooled] = ["asg", "pooled"].map(GroupName::from);
    let all = [asg.clone(), pooled.clone(), "nobody".into()];
    let names: BTreeSet<GroupName> =
        scaling.members_of(&all).await.unwrap().into_iter().map(|group| group.group).collect();
    assert_eq!(names, BTreeSet::from([asg.clone(), pooled.clone()]), "{server}");
    let of_asg = group(clients, "asg").await;
    let states: Vec<&str> = of_asg.members.iter().map(|(_, state)| state.as_str()).collect();
    assert_eq!(states, ["InService", "InService"], "{server}");
    assert_eq!(of_asg.suspended, texts(&REPLACING), "{server}");
    assert!(!of_asg.has_warm_pool && of_asg.unhealthy.is_empty(), "{server}: {of_asg:?}");

    let hook = |name: &str, transition, default_result| Hook {
        hook: name.into(),
        transition,
        heartbeat_timeout: Duration::from_mins(40),
        global_timeout: Duration::from_hours(48),
        default_result,
        metadata: None,
        target: None,
    };
    let wanted = [
        hook("sundown-launch", Transition::Launching, HookResult::Continue),
        hook("sundown-terminate", Transition::Terminating, HookResult::Abandon),
    ];
    for hook in &wanted {
        scaling.put_hook(&asg, hook).await.unwrap();
    }
    let mut found = scaling.hooks(&asg).await.unwrap();
    found.sort_by(|a, b| a.hook.cmp(&b.hook));
    for hook in &mut found {
        // moto has one of its own.
        hook.target = None;
    }
    assert_eq!(found, wanted, "{server}");
    let transitions: BTreeMap<HookName, Transition> =
        wanted.iter().map(|hook| (hook.hook.clone(), hook.transition)).collect();
    assert_eq!(lookups.hooks.of_group(&asg).await.unwrap(), Some(transitions), "{server}");
    scaling.delete_hook(&asg, &"sundown-launch".into()).await.unwrap();
    let left = scaling.describe_hooks(&asg).await.unwrap();
    let left: Vec<_> =
        left.iter().map(|hook| (hook.description.hook.as_str(), hook.transition)).collect();
    assert_eq!(left, [("sundown-terminate", Some(Transition::Terminating))], "{server}");

    let first = id(&of_asg.members[0].0);
    for _ in 0..2 {
        scaling.set_unhealthy(&first).await.unwrap();
    }
    let members = lookups.members.of_group_since(&asg, Instant::now()).await.unwrap().unwrap();
    assert_eq!(members.unhealthy, texts(&[first.as_str()]), "{server}");
    assert_eq!((&members.suspended, members.has_warm_pool), (&texts(&REPLACING), false));
    for (group, of, expected) in [
        (&asg, &first, Some("InService")),
        (&asg, &unknown_instance(), None),
        (&pooled, &first, None),
    ] {
        let state = lookups.members.state_since(group, of, Instant::now()).await.unwrap();
        assert_eq!(state.as_deref(), expected, "{server}: {of} in {group}");
    }
    for (name, has_pool) in [(&asg, false), (&pooled, true)] {
        assert_eq!(group(clients, name.as_str()).await.has_warm_pool, has_pool, "{server}: {name}");
        let pool = scaling.warm_pool(name, usize::MAX, |_| true).await;
        assert_eq!(pool.result, Ok(()), "{server}: {name}");
        assert_eq!((pool.members.len(), pool.calls), (0, 1), "{server}: {name}");
    }

    // Moto answers with all instances, whose checks pass: they are left out.
    let failing = clients.ec2().impaired_instances().await.unwrap();
    let scheduled = clients.ec2().instances_with_events().await.unwrap();
    assert_eq!((failing, scheduled), (Vec::new(), Vec::new()), "{server}");
    tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn our_clients_read_and_change_the_embedded_groups() {
    let tasks = Spawner::new();
    let aws = EmbeddedAws::start(Clock::system(), Settings::default(), &tasks);
    aws.create_group(GroupSpec::new("asg", 2));
    for process in REPLACING {
        aws.suspend("asg", process);
    }
    aws.create_group(GroupSpec::new("pooled", 0));
    aws.put_warm_pool("pooled");
    let server = aws.serve(loopback().await.unwrap(), &tasks).unwrap();
    reads_and_changes("the embedded AWS", &own_clients(&server.url())).await;
    tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn our_clients_read_and_change_motos_groups() {
    let Some(account) = Account::new().await else { return };
    let suspended = json!({ "AutoScalingGroupName": "asg", "ScalingProcesses": REPLACING });
    let pooled = json!({
        "AutoScalingGroupName": "pooled", "LaunchConfigurationName": "asg",
        "MinSize": 0, "MaxSize": 10, "DesiredCapacity": 0, "AvailabilityZones": ["eu-west-1a"],
    });
    let pool = json!({ "AutoScalingGroupName": "pooled", "MinSize": 0, "PoolState": "Stopped" });
    let calls = [
        ("autoscaling.suspend_processes", suspended),
        ("autoscaling.create_auto_scaling_group", pooled),
        ("autoscaling.put_warm_pool", pool),
    ];
    account.calls(&calls).await;
    let clients = account.clients();
    reads_and_changes("moto", &clients).await;
    // What a person takes back is seen, too.
    let healthy = json!({ "InstanceId": account.instance(), "HealthStatus": "Healthy" });
    let no_pool = json!({ "AutoScalingGroupName": "pooled", "ForceDelete": true });
    account
        .calls(&[
            ("autoscaling.set_instance_health", healthy),
            ("autoscaling.delete_warm_pool", no_pool),
        ])
        .await;
    assert!(group(&clients, "asg").await.unhealthy.is_empty());
    assert!(!group(&clients, "pooled").await.has_warm_pool);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_boto3_stops_and_starts_at_moto_is_read_as_stopped_and_as_running() {
    let Some(account) = Account::new().await else { return };
    let (clients, id) = (account.clients(), id(account.instance()));
    let named = json!({ "InstanceIds": [id.as_str()] });
    let before = instance(&clients, &id).await;
    assert_eq!((before.state, before.group()), (InstanceState::Running, Some("asg".into())));
    assert!(before.launched.is_some() && before.private_address.is_some(), "{before:?}");

    let answers = account.calls(&[("ec2.stop_instances", named.clone())]).await;
    assert_eq!(answers[0]["StoppingInstances"][0]["CurrentState"]["Name"], "stopping");
    let stopped = InstanceFacts { state: InstanceState::Stopped, ..before.clone() };
    assert_eq!(instance(&clients, &id).await, stopped, "it keeps all the rest");
    let name = before.private_dns.clone().unwrap();
    assert_eq!(clients.ec2().by_private_dns(&[name]).await.unwrap(), [stopped]);

    let answers = account.calls(&[("ec2.start_instances", named)]).await;
    assert_eq!(answers[0]["StartingInstances"][0]["CurrentState"]["Name"], "pending");
    let again = instance(&clients, &id).await;
    assert_eq!(again, InstanceFacts { launched: again.launched, ..before.clone() });
    // In EC2 it is later: the time of this start.
    assert!(again.launched >= before.launched, "{again:?} {before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_boto3_terminates_at_moto_is_read_as_terminated_and_replaced() {
    let Some(account) = Account::new().await else { return };
    let (clients, id) = (account.clients(), id(account.instance()));
    let named = json!({ "InstanceIds": [id.as_str()] });
    let answers = account.calls(&[("ec2.terminate_instances", named)]).await;
    assert_eq!(answers[0]["TerminatingInstances"][0]["CurrentState"]["Name"], "shutting-down");
    assert_eq!(instance(&clients, &id).await.state, InstanceState::Terminated);
    let asg = group(&clients, "asg").await;
    let members: Vec<&str> = asg.members.iter().map(|(instance, _)| instance.as_str()).collect();
    assert!(members.len() == 2 && !members.contains(&id.as_str()), "{asg:?}");
    assert_eq!(asg.capacity.is_reached_by(members.iter().copied()), Some(true), "{asg:?}");
    assert!(clients.ec2().describe_instances(&[unknown_instance()]).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_boto3_puts_into_standby_at_moto_is_read_as_such() {
    let Some(account) = Account::new().await else { return };
    let (clients, tasks) = (account.clients(), Spawner::new());
    let (scaling, own) = (clients.autoscaling(), id(account.instance()));
    let members = Lookups::start(&clients, &Random::seeded(1), &tasks).members;
    let state = async || {
        members.listed_state_since(&"asg".into(), &own, Instant::now()).await.unwrap().unwrap()
    };
    let named = json!({ "AutoScalingGroupName": "asg", "InstanceIds": [own.as_str()] });
    let mut enter = named.clone();
    enter["ShouldDecrementDesiredCapacity"] = true.into();
    let ask = json!({ "InstanceIds": [own.as_str()] });
    let answers = account
        .calls(&[
            ("autoscaling.enter_standby", enter),
            ("autoscaling.describe_auto_scaling_instances", ask),
        ])
        .await;
    assert_eq!(answers[1]["AutoScalingInstances"][0]["LifecycleState"], "Standby");
    assert_eq!(state().await, "Standby");
    let asg = group(&clients, "asg").await;
    let other = asg.members.iter().find(|(instance, _)| instance.as_str() != own.as_str()).unwrap();
    assert_eq!((asg.members.len(), other.1.as_str()), (2, "InService"));
    assert_eq!(asg.capacity.is_reached_by([other.0.as_str()]), Some(true), "it wants one less");
    let waiting = [Transition::Launching, Transition::Terminating].map(|of| asg.waiting(of).len());
    assert_eq!((waiting, asg.retained().len()), ([0, 0], 0), "it waits for nobody");
    let ours = GroupFilter::TagKey("kubernetes.io/cluster/shop".to_owned());
    let aside = scaling.waiting_members(&ours, 10, |state| state == "Standby").await;
    assert_eq!(aside.result, Ok(()));
    assert_eq!(aside.members, [(GroupName::from("asg"), own.to_string(), "Standby".to_owned())]);

    account.calls(&[("autoscaling.exit_standby", named)]).await;
    assert_eq!(state().await, "InService");
    let capacity = group(&clients, "asg").await.capacity;
    assert_eq!(capacity.is_reached_by([other.0.as_str()]), Some(false), "it wants both again");
    assert_eq!(capacity.is_reached_by([other.0.as_str(), own.as_str()]), Some(true));
    tasks.kill();
}

/// The suspended processes after boto3 has suspended or resumed some. An empty list of processes means all.
async fn suspended_after(account: &Account, call: &str, processes: &[&str]) -> BTreeSet<String> {
    let of = json!({ "AutoScalingGroupName": "asg", "ScalingProcesses": processes });
    account.calls(&[(call, of)]).await;
    group(&account.clients(), "asg").await.suspended
}

#[tokio::test(flavor = "multi_thread")]
async fn the_processes_that_boto3_suspends_and_resumes_at_moto_are_read() {
    let Some(account) = Account::new().await else { return };
    let (suspend, resume) = ("autoscaling.suspend_processes", "autoscaling.resume_processes");
    for (call, processes, expected) in [
        (suspend, &["Launch", "ReplaceUnhealthy"][..], &["Launch", "ReplaceUnhealthy"][..]),
        (suspend, &["Terminate"], &["Launch", "ReplaceUnhealthy", "Terminate"]),
        (resume, &["ReplaceUnhealthy"], &["Launch", "Terminate"]),
        (resume, &[], &[]),
    ] {
        let suspended = suspended_after(&account, call, processes).await;
        assert_eq!(suspended, texts(expected), "{call} {processes:?}");
    }
    let all = suspended_after(&account, suspend, &[]).await;
    assert!(all.is_superset(&texts(&REPLACING)) && all.contains("Launch"), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_at_moto_of_an_unknown_transition_is_left_out_and_has_no_transition() {
    let Some(account) = Account::new().await else { return };
    let hook = json!({
        "AutoScalingGroupName": "asg", "LifecycleHookName": "nap",
        "LifecycleTransition": "autoscaling:EC2_INSTANCE_NAPPING",
    });
    account.calls(&[("autoscaling.put_lifecycle_hook", hook)]).await;
    let (clients, asg) = (account.clients(), GroupName::from("asg"));
    assert!(clients.autoscaling().hooks(&asg).await.unwrap().is_empty());
    let described = clients.autoscaling().describe_hooks(&asg).await.unwrap();
    let described: Vec<_> =
        described.iter().map(|hook| (hook.description.hook.as_str(), hook.transition)).collect();
    assert_eq!(described, [("nap", None)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_moto_does_not_have_is_no_answer_and_is_asked_again() {
    let Some(account) = Account::new().await else { return };
    let clients = account.clients();
    let (scaling, limit) = (clients.autoscaling(), Duration::from_secs(10));
    let key = HookKey {
        instance: id(account.instance()),
        group: "asg".into(),
        hook: "sundown-launch".into(),
    };
    let action = LifecycleAction { key, token: None };
    let reservation = "cr-0123456789abcdef0".parse().unwrap();
    let errors = [
        scaling.heartbeat(&action).await.unwrap_err(),
        scaling.complete(&action, HookResult::Continue, limit).await.unwrap_err(),
        scaling.warm_pool(&"nobody".into(), 1, |_| true).await.result.unwrap_err(),
        clients.ec2().in_reservation(&reservation).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.outcome(), error.advice()), (Outcome::Server, Advice::Retry), "{error}");
        assert!(!error.is_no_active_action(), "{error}: the action may still wait");
    }
    // An instance that runs in no Capacity Block.
    assert_eq!(clients.ec2().reservation_of(&id(account.instance())).await.unwrap(), None);
}

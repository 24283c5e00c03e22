use super::*;

const LAUNCH: &str = "EC2 Instance-launch Lifecycle Action";
const TERMINATE: &str = "EC2 Instance-terminate Lifecycle Action";

impl World {
    /// A group `g` with a launch hook `l`, a terminate hook `h` and this warm pool, and an instance
    /// that was launched into it.
    async fn pooled(&self, desired: usize, pool_state: PoolState) -> String {
        self.aws.create_group(GroupSpec { replace_after: None, ..GroupSpec::new("g", desired) });
        for hook in [HookSpec::launching("l"), HookSpec::terminating("h")] {
            self.aws.put_hook("g", hook);
        }
        self.aws.put_warm_pool_with_state("g", pool_state);
        let i = self.aws.launch_into_warm_pool("g").unwrap();
        let states = self.states_for(25, &i).await;
        assert_eq!(states, ["Warmed:Pending", "Warmed:Pending:Wait"]);
        self.complete_as_party("l", &i);
        i
    }

    fn complete_as_party(&self, hook: &str, instance: &str) {
        assert!(self.aws.complete_as("x", "g", hook, instance, HookResult::Continue));
    }

    /// `Origin` and `Destination` of the newest event of a detail-type.
    fn ends(&self, detail_type: &str) -> [String; 2] {
        let event = self.events(detail_type).pop().unwrap();
        ["Origin", "Destination"].map(|end| event["detail"][end].as_str().unwrap().to_owned())
    }

    fn service_changes(&self) -> Vec<ServiceEvent> {
        self.aws.service_changes().into_iter().map(|change| change.change).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_launched_into_a_pool_stopped_there_and_started_for_its_group() {
    let w = World::new();
    let i = w.pooled(0, PoolState::Stopped).await;
    assert_eq!(w.ends(LAUNCH), ["EC2", "WarmPool"]);
    assert_eq!(w.states_for(25, &i).await, ["Warmed:Pending:Proceed", "Warmed:Stopped"]);
    assert_eq!(w.state(&i), Some(State::Stopped));
    let pool = w.asg.describe_warm_pool().auto_scaling_group_name("g").send().await.unwrap();
    assert_eq!(pool.warm_pool_configuration().unwrap().pool_state().unwrap().as_str(), "Stopped");
    assert_eq!(pool.instances()[0].health_status(), Some("Healthy"), "it is meant to be stopped");
    let mut boots = w.aws.subscribe_to_boots();
    w.aws.scale_out_from_warm_pool(&i);
    assert_eq!(w.state(&i), Some(State::Pending));
    assert_eq!(w.states_for(25, &i).await, ["Pending", "Pending:Wait"]);
    assert_eq!(w.state(&i), Some(State::Running));
    assert_eq!(boots.try_recv().map(|boot| (boot.id, boot.boot)), Ok((i.clone(), Boot::Started)));
    assert_eq!(w.ends(LAUNCH), ["WarmPool", "AutoScalingGroup"]);
    w.complete_as_party("l", &i);
    w.aws.route(Rule::of("q", [EventKind::LaunchSuccessful]));
    assert_eq!(w.states_for(10, &i).await, ["Pending:Proceed", "InService"]);
    assert_eq!(w.ends("EC2 Instance Launch Successful"), ["WarmPool", "AutoScalingGroup"]);
    let changes =
        [ServiceEvent::IntoWarmPool, ServiceEvent::OutOfWarmPool, ServiceEvent::StartedAgain];
    assert_eq!(w.service_changes(), changes);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_a_pool_hibernates_resumes_for_its_group() {
    let w = World::new();
    let i = w.pooled(0, PoolState::Hibernated).await;
    assert_eq!(w.states_for(25, &i).await, ["Warmed:Pending:Proceed", "Warmed:Hibernated"]);
    let mut boots = w.aws.subscribe_to_boots();
    w.aws.scale_out_from_warm_pool(&i);
    sleep(25).await;
    assert_eq!(boots.try_recv().map(|boot| boot.boot), Ok(Boot::Resumed));
    assert_eq!(w.stand(&i), Some(LifecycleState::PendingWait));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_runs_in_its_pool_is_launched_from_there_without_a_boot() {
    let w = World::new();
    let i = w.pooled(0, PoolState::Running).await;
    assert_eq!(w.states_for(10, &i).await, ["Warmed:Pending:Proceed", "Warmed:Running"]);
    let mut boots = w.aws.subscribe_to_boots();
    w.aws.scale_out_from_warm_pool(&i);
    assert_eq!(w.states_for(10, &i).await, ["Pending", "Pending:Wait"]);
    assert!(boots.try_recv().is_err());
    assert!(w.aws.complete_as("x", "g", "l", &i, HookResult::Abandon));
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingProceed), "its launch has failed");
}

#[tokio::test(start_paused = true)]
async fn a_scale_in_moves_an_instance_into_the_pool_through_its_terminate_hook() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h"));
    w.aws.put_warm_pool_with_state("g", PoolState::Stopped);
    w.aws.scale_in_to_warm_pool(&i);
    assert_eq!(w.states_for(10, &i).await, ["Warmed:Pending", "Warmed:Pending:Wait"]);
    assert_eq!(w.ends(TERMINATE), ["AutoScalingGroup", "WarmPool"]);
    let groups = w.asg.describe_auto_scaling_groups().send().await.unwrap();
    let group = &groups.auto_scaling_groups()[0];
    assert_eq!((group.desired_capacity(), group.instances().len()), (Some(0), 0));
    w.complete_as_party("h", &i);
    assert_eq!(w.states_for(25, &i).await, ["Warmed:Pending:Proceed", "Warmed:Stopped"]);
    assert_eq!(w.service_changes(), [ServiceEvent::IntoWarmPool]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_terminated_out_of_the_pool_through_its_terminate_hook() {
    let w = World::new();
    let i = w.pooled(0, PoolState::Stopped).await;
    sleep(25).await;
    w.aws.terminate_in_warm_pool(&i);
    assert_eq!(w.states_for(10, &i).await, ["Warmed:Terminating", "Warmed:Terminating:Wait"]);
    assert_eq!(w.ends(TERMINATE), ["WarmPool", "EC2"]);
    w.complete_as_party("h", &i);
    assert_eq!((w.stand(&i), w.state(&i)), (None, Some(State::Terminated)));

    let w = World::new();
    let i = w.pooled(0, PoolState::Running).await;
    sleep(10).await;
    w.aws.terminate_in_warm_pool(&i);
    sleep(10).await;
    w.complete_as_party("h", &i);
    assert_eq!(w.shown(&i).await.as_deref(), Some("Warmed:Terminating:Proceed"));
    sleep(25).await;
    assert_eq!((w.stand(&i), w.state(&i)), (None, Some(State::Terminated)));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_hook_ends_the_way_into_the_pool() {
    let w = World::new();
    w.aws.create_group(GroupSpec::new("g", 0));
    w.aws.put_hook("g", HookSpec::launching("l"));
    let i = w.aws.launch_into_warm_pool("g").unwrap();
    sleep(25).await;
    assert!(w.aws.complete_as("x", "g", "l", &i, HookResult::Abandon));
    assert_eq!(w.stand(&i), Some(LifecycleState::WarmedTerminatingProceed));
    sleep(60).await;
    assert_eq!((w.stand(&i), w.aws.members("g").len()), (None, 0));

    let w = World::new();
    let spec = GroupSpec { retain_on_abandon: true, ..GroupSpec::new("g", 1) };
    let i = w.aws.create_group(spec).remove(0);
    w.aws.put_hook("g", HookSpec::terminating("h"));
    w.aws.scale_in_to_warm_pool(&i);
    sleep(10).await;
    assert!(w.aws.complete_as("x", "g", "h", &i, HookResult::Abandon));
    assert_eq!(w.shown(&i).await.as_deref(), Some("Warmed:Pending:Retained"));
    w.aws.terminate(&i, false);
    assert_eq!(w.state(&i), Some(State::ShuttingDown));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ec2_terminates_in_a_stopped_pool_is_forgotten() {
    let w = World::new();
    let i = w.pooled(0, PoolState::Stopped).await;
    sleep(25).await;
    w.aws.terminate_in_ec2(&i);
    assert_eq!((w.stand(&i), w.state(&i)), (None, Some(State::Terminated)));
    w.aws.scale_out_from_warm_pool(&i);
    assert_eq!(w.stand(&i), None);
}

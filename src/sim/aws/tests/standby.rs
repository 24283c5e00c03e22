use super::*;

impl World {
    async fn enter_standby(&self, instance: &str, lower: bool) -> Result<String, String> {
        let call = self.asg.enter_standby().auto_scaling_group_name("g").instance_ids(instance);
        let answer = call.should_decrement_desired_capacity(lower).send().await;
        match answer {
            Ok(answer) => Ok(answer.activities()[0].description().unwrap().to_owned()),
            refused => Err(error(refused).1),
        }
    }

    async fn exit_standby(&self, instance: &str) -> Result<String, String> {
        let call = self.asg.exit_standby().auto_scaling_group_name("g").instance_ids(instance);
        match call.send().await {
            Ok(answer) => Ok(answer.activities()[0].description().unwrap().to_owned()),
            refused => Err(error(refused).1),
        }
    }

    async fn desired(&self) -> Option<i32> {
        let groups = self.asg.describe_auto_scaling_groups().send().await.unwrap();
        groups.auto_scaling_groups()[0].desired_capacity()
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_goes_into_standby_and_comes_back_through_its_launch_hook() {
    let w = World::new();
    let i = w.group(HookSpec::launching("h"));
    let entered = w.enter_standby(&i, true).await;
    assert_eq!(entered, Ok(format!("Moving EC2 instance to Standby: {i}")));
    assert_eq!(w.states_for(10, &i).await, ["EnteringStandby", "Standby"]);
    assert_eq!((w.state(&i), w.desired().await), (Some(State::Running), Some(0)));
    assert_eq!(w.bodies(), [] as [Value; 0], "no event reports it");
    let exited = w.exit_standby(&i).await;
    assert_eq!(exited, Ok(format!("Moving EC2 instance out of Standby: {i}")));
    assert_eq!(w.states_for(10, &i).await, ["Pending", "Pending:Wait"]);
    assert_eq!(w.desired().await, Some(1));
    let detail = &w.events("EC2 Instance-launch Lifecycle Action")[0]["detail"];
    assert_eq!((&detail["EC2InstanceId"], &detail["Origin"]), (&i.clone().into(), &"EC2".into()));
    assert!(w.aws.complete_as("x", "g", "h", &i, HookResult::Continue));
    assert_eq!(w.states_for(10, &i).await, ["Pending:Proceed", "InService"]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_in_standby_is_replaced_if_the_desired_capacity_stays() {
    let w = World::new();
    let i = w.aws.create_group(GroupSpec::new("g", 1)).remove(0);
    w.enter_standby(&i, false).await.unwrap();
    sleep(60).await;
    let members = w.aws.members("g");
    let states: Vec<_> = members.iter().map(|m| m.state).collect();
    assert_eq!(states, [LifecycleState::Standby, LifecycleState::InService]);
    w.exit_standby(&i).await.unwrap();
    assert_eq!(w.states_for(15, &i).await, ["Pending", "Pending:Proceed", "InService"]);
    assert_eq!((w.desired().await, w.aws.members("g").len()), (Some(2), 2));
}

#[tokio::test(start_paused = true)]
async fn only_an_instance_in_service_enters_standby_and_only_one_in_standby_leaves_it() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h"));
    assert_eq!(w.exit_standby(&i).await, Err(format!("The instance {i} is not in Standby.")));
    let other = w.aws.create_instance(InstanceSpec::default());
    let refused = format!("The instance {other} is not part of Auto Scaling group g.");
    assert_eq!(w.enter_standby(&other, true).await, Err(refused));
    w.aws.terminate(&i, true);
    let refused = w.enter_standby(&i, true).await;
    assert_eq!(refused, Err(format!("The instance {i} is not in InService.")));
    assert!(!w.aws.enter_standby(&i, true) && !w.aws.exit_standby(&i));
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_terminated_out_of_standby_through_its_hook() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h"));
    assert!(w.aws.enter_standby(&i, true));
    sleep(10).await;
    w.aws.fail_check(&i, Check::Instance, true);
    w.asg.set_instance_health().instance_id(&i).health_status("Unhealthy").send().await.unwrap();
    sleep(60).await;
    assert_eq!(w.stand(&i), Some(LifecycleState::Standby), "its health does not count");
    w.aws.terminate(&i, false);
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingWait));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_stopped_in_standby_is_terminated_when_it_leaves_it() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h"));
    assert!(w.aws.enter_standby(&i, true));
    sleep(10).await;
    w.aws.stop(&i);
    sleep(60).await;
    assert_eq!(w.stand(&i), Some(LifecycleState::Standby));
    assert!(w.aws.exit_standby(&i));
    assert_eq!(w.states_for(40, &i).await, ["Pending", "Terminating:Wait"]);
}

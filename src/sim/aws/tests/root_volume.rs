use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_root_volume_takes_an_instance_through_its_terminate_and_its_launch_hook() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h"));
    w.aws.put_hook("g", HookSpec::launching("l"));
    let (mut changes, mut boots) = (w.aws.subscribe(), w.aws.subscribe_to_boots());
    w.aws.replace_root_volume(&i);
    assert_eq!(w.states_for(10, &i).await, ["ReplacingRootVolume", "ReplacingRootVolume:Wait"]);
    let groups = w.asg.describe_auto_scaling_groups().send().await.unwrap();
    let shown = groups.auto_scaling_groups()[0].instances()[0].lifecycle_state().unwrap();
    assert_eq!(shown.as_str(), "ReplacingRootVolume:Wait");
    let detail = &w.events("EC2 Instance-terminate Lifecycle Action")[0]["detail"];
    let fields = ["Origin", "Destination", "Action"].map(|field| detail[field].clone());
    assert_eq!(fields, ["AutoScalingGroup", "AutoScalingGroup", "ReplaceRootVolume"]);
    assert!(w.aws.complete_as("x", "g", "h", &i, HookResult::Continue));
    assert!(boots.try_recv().is_err());
    let states = w.states_for(60, &i).await;
    let expected = ["ReplacingRootVolume:Proceed", "RootVolumeReplaced", "Pending", "Pending:Wait"];
    assert_eq!(states, expected);
    let boot = boots.try_recv().unwrap();
    let at = epoch() + jiff::SignedDuration::from_secs(30);
    assert_eq!(boot, InstanceBoot { id: i.clone(), boot: Boot::NewRoot, at });
    let detail = &w.events("EC2 Instance-launch Lifecycle Action")[0]["detail"];
    assert_eq!(detail["Action"], "ReplaceRootVolume");
    assert!(w.aws.complete_as("x", "g", "l", &i, HookResult::Continue));
    assert_eq!(w.states_for(10, &i).await, ["Pending:Proceed", "InService"]);
    assert!(changes.try_recv().is_err(), "EC2 shows it as running all the time");
    assert_eq!(w.aws.members("g").len(), 1, "it counts all the time");
}

#[tokio::test(start_paused = true)]
async fn without_hooks_a_new_root_volume_ends_in_service() {
    let w = World::new();
    let i = w.aws.create_group(GroupSpec::new("g", 1)).remove(0);
    w.aws.replace_root_volume(&i);
    let expected =
        ["ReplacingRootVolume", "ReplacingRootVolume:Proceed", "RootVolumeReplaced", "InService"];
    assert_eq!(w.states_for(60, &i).await, expected);
    assert_eq!(w.bodies(), [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_root_volume_cannot_be_replaced_is_terminated_through_its_hook() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h"));
    w.aws.replace_root_volume(&i);
    w.aws.fail_root_volume(&i);
    sleep(10).await;
    assert_eq!(w.stand(&i), Some(LifecycleState::ReplacingRootVolumeWait), "too early to fail");
    assert!(w.aws.complete_as("x", "g", "h", &i, HookResult::Abandon));
    assert_eq!(w.stand(&i), Some(LifecycleState::ReplacingRootVolumeProceed));
    w.aws.fail_root_volume(&i);
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingWait));
    let events = w.events("EC2 Instance-terminate Lifecycle Action");
    assert_eq!((events.len(), &events[1]["detail"]["Destination"]), (2, &"EC2".into()));
    sleep(60).await;
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingWait));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ec2_ends_while_it_waits_for_its_new_root_volume_is_terminated() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h"));
    w.aws.replace_root_volume(&i);
    sleep(10).await;
    w.aws.terminate_in_ec2(&i);
    sleep(31).await;
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingWait));
    let actions = w.aws.actions();
    assert_eq!(actions[0].end.as_ref().map(|end| end.verdict), Some(Verdict::Stopped));
    assert_eq!((actions.len(), actions[1].end.as_ref()), (2, None));
}

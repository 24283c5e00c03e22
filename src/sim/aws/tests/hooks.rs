use super::*;

impl World {
    async fn heartbeat(&self, instance: &str) -> Result<(), (String, String)> {
        let heartbeat = self
            .asg
            .record_lifecycle_action_heartbeat()
            .auto_scaling_group_name("g")
            .lifecycle_hook_name("h")
            .instance_id(instance);
        let result = heartbeat.send().await;
        if result.is_ok() { Ok(()) } else { Err(error(result)) }
    }

    async fn complete(
        &self,
        instance: &str,
        token: Option<&str>,
        result: &str,
    ) -> Result<(), (String, String)> {
        let complete = self
            .asg
            .complete_lifecycle_action()
            .auto_scaling_group_name("g")
            .lifecycle_hook_name("h")
            .lifecycle_action_result(result);
        let complete =
            complete.set_lifecycle_action_token(token.map(str::to_owned)).instance_id(instance);
        let answer = complete.send().await;
        if answer.is_ok() { Ok(()) } else { Err(error(answer)) }
    }
}

fn hook(seconds: u64) -> HookSpec {
    HookSpec::terminating("h").heartbeat_timeout(Duration::from_secs(seconds))
}

#[tokio::test(start_paused = true)]
async fn a_termination_waits_for_its_hook_and_goes_on_when_completed() {
    let w = World::new();
    let i = w.group(HookSpec { metadata: Some("who".to_owned()), ..hook(300) });
    let mut changes = w.aws.subscribe();
    w.aws.scale_in("g", 1);
    assert_eq!(
        (w.stand(&i), w.state(&i)),
        (Some(LifecycleState::TerminatingWait), Some(State::Running))
    );
    let event = w.events("EC2 Instance-terminate Lifecycle Action").pop().unwrap();
    let detail = &event["detail"];
    assert_eq!(event["source"], "aws.autoscaling");
    assert_eq!(event["time"], "2026-01-01T00:00:00Z");
    assert_eq!(detail["EC2InstanceId"], *i);
    assert_eq!(detail["LifecycleTransition"], "autoscaling:EC2_INSTANCE_TERMINATING");
    assert_eq!(detail["NotificationMetadata"], "who");
    assert_eq!(
        (&detail["Origin"], &detail["Destination"]),
        (&"AutoScalingGroup".into(), &"EC2".into())
    );
    sleep(100).await;
    let token = detail["LifecycleActionToken"].as_str().unwrap();
    w.complete(&i, Some(token), "CONTINUE").await.unwrap();
    assert_eq!(
        (w.stand(&i), w.state(&i)),
        (Some(LifecycleState::TerminatingProceed), Some(State::ShuttingDown))
    );
    let refused = w.complete(&i, Some(token), "CONTINUE").await.unwrap_err();
    assert_eq!(
        refused,
        (
            "ValidationError".to_owned(),
            format!("No active Lifecycle Action found with token {token}")
        )
    );
    sleep(21).await;
    assert_eq!((w.stand(&i), w.state(&i)), (None, Some(State::Terminated)));
    let states: Vec<State> =
        std::iter::from_fn(|| changes.try_recv().ok()).map(|c| c.state).collect();
    assert_eq!(states, [State::ShuttingDown, State::Terminated]);
    let action = w.aws.actions().pop().unwrap();
    assert_eq!(action.longest_gap(epoch()), Duration::from_secs(100));
    assert_eq!(action.late_calls.len(), 1);
    let end = action.end.unwrap();
    assert_eq!(
        (end.verdict, end.by.as_str()),
        (Verdict::Completed(HookResult::Continue), "AKIASUNDOWN")
    );
    let seen: Vec<_> = w
        .events("EC2 Instance State-change Notification")
        .into_iter()
        .map(|e| e["detail"]["state"].clone())
        .collect();
    assert_eq!(seen, ["shutting-down", "terminated"]);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_restarts_the_timeout_and_without_one_the_action_ends() {
    let w = World::new();
    let i = w.group(hook(60));
    w.aws.terminate(&i, true);
    for _ in 0..3 {
        sleep(50).await;
        w.heartbeat(&i).await.unwrap();
    }
    sleep(59).await;
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingWait));
    sleep(2).await;
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingProceed));
    let action = w.aws.actions().pop().unwrap();
    let end = action.end.clone().unwrap();
    assert_eq!(
        (end.verdict, end.at),
        (Verdict::TimedOut(HookResult::Abandon), epoch() + jiff::SignedDuration::from_secs(210))
    );
    assert_eq!((action.heartbeats.len(), action.longest_gap(epoch())), (3, Duration::from_mins(1)));
    let refused = w.heartbeat(&i).await.unwrap_err();
    assert_eq!(
        refused,
        (
            "ValidationError".to_owned(),
            format!("No active Lifecycle Action found with instance ID {i}")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn the_global_timeout_ends_an_action_whatever_heartbeats_are_accepted() {
    let w = World::new();
    let i = w.group(hook(30));
    w.aws.terminate(&i, true);
    while w.heartbeat(&i).await.is_ok() {
        sleep(20).await;
    }
    let end = w.aws.actions().pop().unwrap().end.unwrap();
    assert_eq!(
        (end.verdict, end.at),
        (
            Verdict::GlobalTimeout(HookResult::Abandon),
            epoch() + jiff::SignedDuration::from_secs(3000)
        )
    );
    assert_eq!(hook(7200).global_timeout(), Duration::from_hours(48));
}

#[tokio::test(start_paused = true)]
async fn with_several_hooks_continue_waits_for_the_others_and_abandon_stops_them() {
    let w = World::new();
    let i = w.group(hook(300));
    w.aws.put_hook("g", HookSpec { name: "other".to_owned(), ..hook(300) });
    w.aws.terminate(&i, true);
    assert_eq!(w.events("EC2 Instance-terminate Lifecycle Action").len(), 2);
    w.complete(&i, None, "CONTINUE").await.unwrap();
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingWait));
    assert!(w.aws.complete_as("backup", "g", "other", &i, HookResult::Continue));
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingProceed));

    let w = World::new();
    let i = w.group(hook(300));
    w.aws.put_hook("g", HookSpec { name: "other".to_owned(), ..hook(300) });
    w.aws.terminate(&i, true);
    w.complete(&i, None, "ABANDON").await.unwrap();
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingProceed));
    assert_eq!(w.aws.actions()[1].end.as_ref().unwrap().verdict, Verdict::Stopped);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_termination_can_be_retained() {
    let w = World::new();
    let i = w
        .aws
        .create_group(GroupSpec { retain_on_abandon: true, ..GroupSpec::new("g", 1) })
        .pop()
        .unwrap();
    w.aws.put_hook("g", hook(30));
    w.aws.terminate(&i, true);
    sleep(31).await;
    assert_eq!(
        (w.stand(&i), w.state(&i)),
        (Some(LifecycleState::TerminatingRetained), Some(State::Running))
    );
    w.aws.terminate(&i, true);
    assert_eq!(w.state(&i), Some(State::ShuttingDown));
}

#[tokio::test(start_paused = true)]
async fn hooks_are_described_put_and_tested() {
    let w = World::new();
    w.group(hook(300));
    let described =
        w.asg.describe_lifecycle_hooks().auto_scaling_group_name("g").send().await.unwrap();
    let described = &described.lifecycle_hooks()[0];
    assert_eq!(
        (described.heartbeat_timeout(), described.global_timeout()),
        (Some(300), Some(30_000))
    );
    assert_eq!(
        (described.default_result(), described.lifecycle_transition()),
        (Some("ABANDON"), Some("autoscaling:EC2_INSTANCE_TERMINATING"))
    );
    let put = w
        .asg
        .put_lifecycle_hook()
        .auto_scaling_group_name("g")
        .lifecycle_hook_name("n")
        .heartbeat_timeout(45);
    let put = put
        .lifecycle_transition("autoscaling:EC2_INSTANCE_TERMINATING")
        .notification_target_arn("arn:aws:sqs:eu-west-1:123456789012:q");
    put.send().await.unwrap();
    let test = w.bodies().pop().unwrap();
    assert_eq!(
        (&test["Event"], &test["AutoScalingGroupName"]),
        (&"autoscaling:TEST_NOTIFICATION".into(), &"g".into())
    );
    let names = w
        .asg
        .describe_lifecycle_hooks()
        .auto_scaling_group_name("g")
        .lifecycle_hook_names("n")
        .send()
        .await
        .unwrap();
    assert_eq!(
        names
            .lifecycle_hooks()
            .iter()
            .map(aws_sdk_autoscaling::types::LifecycleHook::heartbeat_timeout)
            .collect::<Vec<_>>(),
        [Some(45)]
    );
    let (code, _) =
        error(w.asg.describe_lifecycle_hooks().auto_scaling_group_name("none").send().await);
    assert_eq!(code, "ValidationError");
}

#[tokio::test(start_paused = true)]
async fn a_hook_with_its_own_target_notifies_it_in_the_native_form() {
    let w = World::new();
    w.aws.create_queue("native", QueueSettings::default());
    let i = w.group(HookSpec { notify_queue: Some("native".to_owned()), ..hook(60) });
    w.aws.terminate(&i, true);
    let body: Value =
        serde_json::from_str(&w.aws.queue("native").unwrap().messages[0].body).unwrap();
    assert_eq!(
        (&body["Service"], &body["Time"]),
        (&"AWS Auto Scaling".into(), &"2026-01-01T00:00:00.000Z".into())
    );
    assert_eq!(
        (&body["EC2InstanceId"], &body["LifecycleHookName"]),
        (&i.as_str().into(), &"h".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_launch_hook_holds_an_instance_back_and_an_unanswered_one_kills_it() {
    let w = World::new();
    w.aws.create_group(GroupSpec::new("g", 0));
    w.aws.put_hook("g", HookSpec::launching("h").heartbeat_timeout(Duration::from_mins(1)));
    let i = w.aws.launch("g").unwrap();
    assert_eq!((w.stand(&i), w.state(&i)), (Some(LifecycleState::Pending), Some(State::Pending)));
    sleep(21).await;
    assert_eq!(
        (w.stand(&i), w.state(&i)),
        (Some(LifecycleState::PendingWait), Some(State::Running))
    );
    let event = w.events("EC2 Instance-launch Lifecycle Action").pop().unwrap();
    assert_eq!(event["detail"]["LifecycleTransition"], "autoscaling:EC2_INSTANCE_LAUNCHING");
    w.complete(&i, None, "CONTINUE").await.unwrap();
    assert_eq!(w.stand(&i), Some(LifecycleState::InService));
    let late = w.aws.launch("g").unwrap();
    sleep(81).await;
    assert_eq!(w.stand(&late), Some(LifecycleState::TerminatingProceed));
    sleep(30).await;
    assert_eq!(w.stand(&late), None);
    assert_eq!(w.aws.members("g").len(), 2, "another one is launched in its place");
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_instance_completes_nothing() {
    let w = World::new();
    let both = w.aws.create_group(GroupSpec { replace_after: None, ..GroupSpec::new("g", 2) });
    w.aws.put_hook("g", hook(300));
    w.aws.scale_in("g", 2);
    let token = w.aws.actions()[0].token.clone();
    assert_eq!(
        w.complete(&both[1], Some(&token), "CONTINUE").await.unwrap_err().0,
        "ValidationError"
    );
    assert!(w.aws.actions().iter().all(|a| a.end.is_none()));
    w.complete(&both[0], Some(&token), "CONTINUE").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hooks_begin_after_the_deregistration_from_load_balancers() {
    let w = World::new();
    let spec = GroupSpec { deregistration_delay: Duration::from_mins(5), ..GroupSpec::new("g", 1) };
    let i = w.aws.create_group(spec).pop().unwrap();
    w.aws.put_hook("g", hook(300));
    w.aws.terminate(&i, true);
    sleep(299).await;
    assert_eq!((w.stand(&i), w.aws.actions().len()), (Some(LifecycleState::Terminating), 0));
    sleep(2).await;
    assert_eq!((w.stand(&i), w.aws.actions().len()), (Some(LifecycleState::TerminatingWait), 1));
}

#[tokio::test(start_paused = true)]
async fn the_actions_of_a_removed_hook_end_and_its_instances_go_on() {
    let w = World::new();
    let i = w.group(hook(300));
    w.aws.terminate(&i, true);
    w.asg
        .delete_lifecycle_hook()
        .auto_scaling_group_name("g")
        .lifecycle_hook_name("h")
        .send()
        .await
        .unwrap();
    assert_eq!(w.aws.actions()[0].end.as_ref().unwrap().verdict, Verdict::Removed);
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingProceed));
}

#[tokio::test(start_paused = true)]
async fn an_action_of_another_kind_leaves_the_instance_in_service() {
    let w = World::new();
    let i = w.group(HookSpec {
        notify_queue: Some("q".to_owned()),
        notify_envelope: Envelope::Sns,
        ..hook(300)
    });
    let fields = [
        ("Origin", "AutoScalingGroup"),
        ("Destination", "AutoScalingGroup"),
        ("Action", "ReplaceRootVolume"),
    ];
    let token = w.aws.other_action("g", "h", &i, &fields).unwrap();
    let event = w.events("EC2 Instance-terminate Lifecycle Action").pop().unwrap();
    assert_eq!(
        (&event["detail"]["Action"], &event["detail"]["Destination"]),
        (&"ReplaceRootVolume".into(), &"AutoScalingGroup".into())
    );
    let wrapped = w.bodies().pop().unwrap();
    let native: Value = serde_json::from_str(wrapped["Message"].as_str().unwrap()).unwrap();
    assert_eq!(native["LifecycleActionToken"], *token);
    w.complete(&i, Some(&token), "CONTINUE").await.unwrap();
    assert_eq!((w.stand(&i), w.state(&i)), (Some(LifecycleState::InService), Some(State::Running)));
}

use super::*;

#[tokio::test(start_paused = true)]
async fn a_spot_warning_comes_two_minutes_before_the_end_and_the_hook_only_after_it() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h").heartbeat_timeout(Duration::from_hours(2)));
    w.aws.spot_interruption(&i, SpotAction::Terminate);
    let event = w.events("EC2 Spot Instance Interruption Warning").pop().unwrap();
    assert_eq!(event["detail"]["instance-action"], "terminate");
    assert_eq!(event["resources"][0], format!("arn:aws:ec2:eu-west-1:123456789012:instance/{i}"));
    sleep(119).await;
    assert_eq!(w.state(&i), Some(State::Running));
    sleep(2).await;
    assert_eq!(w.state(&i), Some(State::ShuttingDown));
    assert_eq!(w.aws.actions(), []);
    sleep(30).await;
    assert_eq!(
        (w.stand(&i), w.state(&i)),
        (Some(LifecycleState::TerminatingWait), Some(State::Terminated))
    );
    sleep(2 * 3600).await;
    assert_eq!((w.stand(&i), w.state(&i)), (None, Some(State::Terminated)), "the hook has run out");
    sleep(3600).await;
    assert_eq!(w.state(&i), None);
}

#[tokio::test(start_paused = true)]
async fn with_capacity_rebalancing_the_hook_comes_with_the_spot_warning() {
    let w = World::new();
    let i = w
        .aws
        .create_group(GroupSpec { capacity_rebalance: true, ..GroupSpec::new("g", 1) })
        .pop()
        .unwrap();
    w.aws.put_hook("g", HookSpec::terminating("h"));
    w.aws.spot_interruption(&i, SpotAction::Terminate);
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingWait));
    assert_eq!(w.events("EC2 Instance-terminate Lifecycle Action").len(), 1);
    sleep(121).await;
    assert_eq!(
        (w.stand(&i), w.state(&i)),
        (Some(LifecycleState::TerminatingWait), Some(State::ShuttingDown))
    );
    assert!(w.aws.complete_as("", "g", "h", &i, HookResult::Continue));
    sleep(60).await;
    assert_eq!(w.stand(&i), None);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_on_once_the_last_handle_is_gone() {
    let spawner = Spawner::new();
    let aws = EmbeddedAws::start(Clock::starting_at(epoch()), Settings::default(), &spawner);
    let i = aws.create_instance(InstanceSpec::default());
    aws.spot_interruption(&i, SpotAction::Terminate);
    sleep(1).await;
    drop(aws);
    assert!(spawner.finished(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn stop_and_hibernate_stop_the_instance() {
    let w = World::new();
    let [stop, hibernate, other] = [(); 3]
        .map(|()| w.aws.create_instance(InstanceSpec { spot: true, ..InstanceSpec::default() }));
    w.aws.spot_interruption(&stop, SpotAction::Stop);
    w.aws.spot_interruption(&hibernate, SpotAction::Hibernate);
    assert_eq!(w.state(&hibernate), Some(State::Stopping));
    sleep(121).await;
    assert_eq!(
        (w.state(&stop), w.state(&hibernate)),
        (Some(State::Stopping), Some(State::Stopped))
    );
    w.aws.start_again(&hibernate);
    sleep(60).await;
    assert_eq!(
        (w.state(&stop), w.state(&hibernate), w.state(&other)),
        (Some(State::Stopped), Some(State::Running), Some(State::Running))
    );
    assert_eq!(
        w.aws.instance(&hibernate).unwrap().launched,
        epoch() + jiff::SignedDuration::from_secs(121)
    );
}

#[tokio::test(start_paused = true)]
async fn lost_instances_are_replaced_and_changes_are_reported_in_order() {
    let w = World::new();
    let first = w.aws.create_group(GroupSpec::new("g", 3));
    let mut changes = w.aws.subscribe();
    w.aws.terminate(&first[1], false);
    sleep(60).await;
    let members = w.aws.members("g");
    assert_eq!(members.len(), 3);
    assert!(members.iter().all(|m| m.state == LifecycleState::InService && m.instance != first[1]));
    let fresh = members[2].instance.clone();
    let seen: Vec<_> =
        std::iter::from_fn(|| changes.try_recv().ok()).map(|c| (c.id, c.state)).collect();
    let expected = [
        (&first[1], State::ShuttingDown),
        (&fresh, State::Pending),
        (&first[1], State::Terminated),
        (&fresh, State::Running),
    ];
    assert_eq!(seen, expected.map(|(id, state)| (id.clone(), state)));
    w.aws.set_desired("g", 1);
    sleep(60).await;
    assert_eq!(w.aws.members("g"), [Member { instance: fresh, state: LifecycleState::InService }]);
    w.asg
        .set_desired_capacity()
        .auto_scaling_group_name("g")
        .desired_capacity(2)
        .send()
        .await
        .unwrap();
    sleep(60).await;
    assert_eq!(w.aws.members("g").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn groups_and_their_instances_are_described_by_name_and_tag_and_paged() {
    let w = World::new();
    for n in 0..120 {
        w.aws.create_group(
            GroupSpec::new(&format!("g{n:03}"), 1)
                .tag("kubernetes.io/cluster/c", "owned")
                .tag("n", &n.to_string()),
        );
    }
    let page = w.asg.describe_auto_scaling_groups().max_records(100).send().await.unwrap();
    assert_eq!((page.auto_scaling_groups().len(), page.next_token()), (100, Some("100")));
    let rest = w
        .asg
        .describe_auto_scaling_groups()
        .max_records(100)
        .next_token("100")
        .send()
        .await
        .unwrap();
    assert_eq!((rest.auto_scaling_groups().len(), rest.next_token()), (20, None));
    let filter = aws_sdk_autoscaling::types::Filter::builder().name("tag:n").values("7").build();
    let one = w.asg.describe_auto_scaling_groups().filters(filter).send().await.unwrap();
    let group = &one.auto_scaling_groups()[0];
    assert_eq!(group.auto_scaling_group_name(), Some("g007"));
    assert!(group.tags().iter().any(|t| t.key() == Some("kubernetes.io/cluster/c")));
    let instance = &group.instances()[0];
    assert_eq!(
        instance.lifecycle_state().map(aws_sdk_autoscaling::types::LifecycleState::as_str),
        Some("InService")
    );
    let found = w
        .asg
        .describe_auto_scaling_instances()
        .instance_ids(instance.instance_id().unwrap())
        .send()
        .await
        .unwrap();
    assert_eq!(found.auto_scaling_instances()[0].auto_scaling_group_name(), Some("g007"));
}

#[tokio::test(start_paused = true)]
async fn instances_in_a_warm_pool_are_shown_by_the_pool_and_alone_but_not_by_their_group() {
    let w = World::new();
    let all = w.aws.create_group(GroupSpec::new("g", 130));
    w.aws.put_hook("g", HookSpec::terminating("h"));
    let group = async || {
        let asking = w.asg.describe_auto_scaling_groups().auto_scaling_group_names("g");
        asking.send().await.unwrap().auto_scaling_groups()[0].clone()
    };
    let pool = async |token: Option<&str>| {
        let asking = w.asg.describe_warm_pool().auto_scaling_group_name("g");
        asking.max_records(100).set_next_token(token.map(str::to_owned)).send().await.unwrap()
    };
    assert_eq!(group().await.warm_pool_size(), None);
    assert!(pool(None).await.warm_pool_configuration().is_none());
    for instance in all.iter().take(60) {
        w.aws.return_to_warm_pool(instance);
    }
    let described = group().await;
    assert_eq!((described.instances().len(), described.warm_pool_size()), (70, Some(60)));
    assert!(described.warm_pool_configuration().is_some());
    let (first, rest) = (pool(None).await, pool(Some("50")).await);
    assert_eq!((first.instances().len(), first.next_token()), (50, Some("50")));
    assert_eq!((rest.instances().len(), rest.next_token()), (10, None));
    let state = |instance: &aws_sdk_autoscaling::types::Instance| {
        instance.lifecycle_state().unwrap().as_str().to_owned()
    };
    assert_eq!(state(&first.instances()[0]), "Warmed:Pending:Wait");
    let alone = w.asg.describe_auto_scaling_instances().instance_ids(&all[0]);
    let alone = alone.send().await.unwrap();
    assert_eq!(alone.auto_scaling_instances()[0].lifecycle_state(), Some("Warmed:Pending:Wait"));
    for instance in all.iter().take(60) {
        assert!(w.aws.complete_as("x", "g", "h", instance, HookResult::Continue));
        assert_eq!(w.stand(instance), Some(LifecycleState::WarmedRunning));
        w.aws.leave_warm_pool(instance);
    }
    let described = group().await;
    assert_eq!((described.instances().len(), described.warm_pool_size()), (130, Some(0)));
    w.aws.detach(&all[0]);
    assert_eq!(group().await.instances().len(), 129);
    assert!(!w.aws.instance(&all[0]).unwrap().tags.contains_key("aws:autoscaling:groupName"));
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_terminated_through_the_api_of_its_group() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h"));
    let terminate = |id: &str| {
        w.asg
            .terminate_instance_in_auto_scaling_group()
            .instance_id(id)
            .should_decrement_desired_capacity(true)
            .send()
    };
    let activity = terminate(&i).await.unwrap().activity.unwrap();
    assert_eq!(activity.auto_scaling_group_name(), Some("g"));
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingWait));
    assert_eq!(error(terminate("i-0123456789abcdef0").await).0, "ValidationError");
}

#[tokio::test(start_paused = true)]
async fn other_events_have_their_shapes() {
    let w = World::new();
    let i = w.aws.create_instance(InstanceSpec::default());
    w.aws.rebalance_recommendation(&i);
    assert_eq!(w.events("EC2 Instance Rebalance Recommendation")[0]["detail"]["instance-id"], *i);
    w.aws.capacity_interruption(&i);
    let event = w.events("EC2 Capacity Reservation Instance Interruption Warning").pop().unwrap();
    assert_eq!(event["detail"]["instance-termination-time"], "2026-01-01T00:02:00Z");
    w.aws.health(&HealthNotice::retirement([i.clone()], epoch()));
    let event = w.events("AWS Health Event").pop().unwrap();
    assert_eq!(event["detail"]["startTime"], "Thu, 01 Jan 2026 00:00:00 GMT");
    assert_eq!(event["detail"]["affectedEntities"][0]["entityValue"], *i);
    w.aws.create_queue("sns", QueueSettings::default());
    w.aws.route(Rule::of("sns", [EventKind::Rebalance]).through_sns());
    w.aws.rebalance_recommendation(&i);
    let envelope: Value =
        serde_json::from_str(&w.aws.queue("sns").unwrap().messages[0].body).unwrap();
    assert_eq!(envelope["Type"], "Notification");
    let inner: Value = serde_json::from_str(envelope["Message"].as_str().unwrap()).unwrap();
    assert_eq!(inner["source"], "aws.ec2");
    sleep(121).await;
    assert_eq!(w.state(&i), Some(State::ShuttingDown));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    async fn run() -> String {
        let w = World::new();
        let i = w.group(HookSpec::terminating("h").heartbeat_timeout(Duration::from_mins(1)));
        w.aws.terminate(&i, false);
        w.sqs
            .receive_message()
            .queue_url(&w.url)
            .wait_time_seconds(20)
            .max_number_of_messages(10)
            .send()
            .await
            .unwrap();
        sleep(300).await;
        format!(
            "{:?} {:?} {:?} {:?}",
            w.aws.queue("q"),
            w.aws.calls(),
            w.aws.actions(),
            w.aws.instances()
        )
    }
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_set_unhealthy_is_replaced_through_its_hook() {
    let w = World::new();
    let i = w.group(HookSpec::terminating("h"));
    let set = async |instance: &str, health: &str| {
        let request = w.asg.set_instance_health().instance_id(instance).health_status(health);
        request.send().await
    };
    set(&i, "Unhealthy").await.unwrap();
    set(&i, "Healthy").await.unwrap();
    sleep(11).await;
    assert_eq!(w.stand(&i), Some(LifecycleState::InService), "healthy again in time");
    set(&i, "Unhealthy").await.unwrap();
    set(&i, "Unhealthy").await.unwrap();
    sleep(11).await;
    assert_eq!(w.stand(&i), Some(LifecycleState::TerminatingWait));
    assert_eq!(w.aws.actions().len(), 1);
    assert_eq!(error(set("i-0123456789abcdef0", "Unhealthy").await).0, "ValidationError");
    assert_eq!(error(set(&i, "Ill").await).0, "ValidationError");
}

use aws_sdk_ec2::types::{Filter, Instance as Described};

use super::*;

fn filter(name: &str, values: impl IntoIterator<Item = String>) -> Filter {
    Filter::builder().name(name).set_values(Some(values.into_iter().collect())).build()
}

impl World {
    async fn describe(&self, filters: Vec<Filter>) -> Vec<Described> {
        let answer = self.ec2.describe_instances().set_filters(Some(filters)).send().await.unwrap();
        answer
            .reservations
            .unwrap_or_default()
            .into_iter()
            .flat_map(|r| r.instances.unwrap_or_default())
            .collect()
    }

    async fn described(&self, name: &str, value: &str) -> Vec<String> {
        let found = self.describe(vec![filter(name, [value.to_owned()])]).await;
        found.into_iter().filter_map(|i| i.instance_id).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn one_unknown_id_fails_a_call_by_ids_but_not_a_filter() {
    let w = World::new();
    let i = w.aws.create_instance(InstanceSpec { spot: true, ..InstanceSpec::default() });
    let unknown = "i-0123456789abcdef0".to_owned();
    let (code, message) =
        error(w.ec2.describe_instances().instance_ids(&i).instance_ids(&unknown).send().await);
    assert_eq!(code, "InvalidInstanceID.NotFound");
    assert_eq!(message, format!("The instance ID '{unknown}' does not exist"));
    assert_eq!(
        error(w.ec2.describe_instances().instance_ids("x").send().await).0,
        "InvalidInstanceID.Malformed"
    );
    let found = w.describe(vec![filter("instance-id", [i.clone(), unknown])]).await;
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].instance_lifecycle().map(aws_sdk_ec2::types::InstanceLifecycleType::as_str),
        Some("spot")
    );
    assert_eq!(
        found[0].launch_time().map(aws_smithy_types::DateTime::secs),
        Some(epoch().as_second() - 86_400)
    );
    assert_eq!(found[0].private_dns_name(), Some("ip-10-0-0-1.eu-west-1.compute.internal"));
    assert_eq!(found[0].placement().and_then(|p| p.availability_zone()), Some("eu-west-1a"));
}

#[tokio::test(start_paused = true)]
async fn filters_choose_by_dns_name_state_zone_and_tags() {
    let w = World::new();
    let tags = [("kubernetes.io/cluster/c".to_owned(), "owned".to_owned())];
    let tagged = w.aws.create_instance(InstanceSpec {
        tags: tags.into(),
        zone: "eu-west-1b".to_owned(),
        ..InstanceSpec::default()
    });
    let plain = w.aws.create_instance(InstanceSpec {
        private_dns: Some("a.example".to_owned()),
        ..InstanceSpec::default()
    });
    let stopped = w.aws.create_instance(InstanceSpec {
        state: State::Stopped,
        zone: "eu-west-1b".to_owned(),
        ..InstanceSpec::default()
    });
    assert_eq!(w.described("private-dns-name", "a.example").await, std::slice::from_ref(&plain));
    assert_eq!(w.described("instance-state-name", "stopped").await, [stopped]);
    assert_eq!(
        w.described("tag-key", "kubernetes.io/cluster/*").await,
        std::slice::from_ref(&tagged)
    );
    assert_eq!(
        w.described("tag:kubernetes.io/cluster/c", "owned").await,
        std::slice::from_ref(&tagged)
    );
    let both = vec![
        filter("availability-zone", ["eu-west-1b".to_owned()]),
        filter("instance-state-name", ["running".to_owned()]),
    ];
    assert_eq!(w.describe(both).await[0].instance_id(), Some(tagged.as_str()));
    let (code, _) = error(
        w.ec2.describe_instances().filters(filter("nonsense", ["x".to_owned()])).send().await,
    );
    assert_eq!(code, "InvalidParameterValue");
    let many = (0..201).map(|n| format!("i-{n:017x}"));
    assert_eq!(
        error(w.ec2.describe_instances().filters(filter("instance-id", many)).send().await).0,
        "FilterLimitExceeded"
    );
}

#[tokio::test(start_paused = true)]
async fn instances_come_in_pages() {
    let w = World::new();
    for _ in 0..12 {
        w.aws.create_instance(InstanceSpec::default());
    }
    let mut seen = Vec::new();
    let mut pages = w.ec2.describe_instances().into_paginator().page_size(5).send();
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        assert!(page.reservations().len() <= 5);
        seen.extend(
            page.reservations()
                .iter()
                .filter_map(|r| r.instances()[0].instance_id().map(str::to_owned)),
        );
    }
    assert_eq!(seen, w.aws.instances().into_iter().map(|i| i.id).collect::<Vec<_>>());
    let both = w.ec2.describe_instances().instance_ids(&seen[0]).max_results(5).send().await;
    assert_eq!(error(both).0, "InvalidParameterCombination");
}

#[tokio::test(start_paused = true)]
async fn a_terminated_instance_loses_its_name_then_its_tags_then_itself() {
    let w = World::new();
    let i = w.aws.create_instance(InstanceSpec {
        tags: [("a".to_owned(), "b".to_owned())].into(),
        ..InstanceSpec::default()
    });
    let answer = w.ec2.terminate_instances().instance_ids(&i).send().await.unwrap();
    let change = &answer.terminating_instances()[0];
    let name = |s: Option<&aws_sdk_ec2::types::InstanceState>| {
        s.and_then(|s| s.name()).map(|n| n.as_str().to_owned())
    };
    assert_eq!(
        (name(change.previous_state()), name(change.current_state())),
        (Some("running".to_owned()), Some("shutting-down".to_owned()))
    );
    sleep(21).await;
    let found = w.describe(vec![filter("instance-id", [i.clone()])]).await;
    assert_eq!((found[0].private_dns_name(), found[0].tags().len()), (Some(""), 1));
    sleep(300).await;
    assert_eq!(w.describe(vec![filter("instance-id", [i.clone()])]).await[0].tags(), []);
    sleep(3600).await;
    assert_eq!(w.describe(vec![filter("instance-id", [i])]).await, []);
}

#[tokio::test(start_paused = true)]
async fn status_checks_and_scheduled_events_of_running_instances_are_found_by_filter() {
    let w = World::new();
    let found = async |name: &str, value: &str| {
        let matching = filter(name, [value.to_owned()]);
        let answer = w.ec2.describe_instance_status().filters(matching).send().await.unwrap();
        answer.instance_statuses.unwrap_or_default()
    };
    let sick = w.aws.create_instance(InstanceSpec::default());
    let planned = w.aws.create_instance(InstanceSpec::default());
    let stopped =
        w.aws.create_instance(InstanceSpec { state: State::Stopped, ..InstanceSpec::default() });
    assert_eq!(found("instance-status.status", "impaired").await.len(), 0);
    w.aws.fail_check(&sick, Check::Instance, true);
    w.aws.fail_check(&stopped, Check::Instance, true);
    let event = |description: &str| PlannedEvent {
        id: "instance-event-1".to_owned(),
        code: "instance-retirement".to_owned(),
        description: description.to_owned(),
        not_before: epoch().plus(Duration::from_hours(48)),
        not_after: None,
    };
    w.aws.schedule(&planned, event("The hardware has failed"));
    sleep(60).await;
    let impaired = found("instance-status.status", "impaired").await;
    assert_eq!(impaired.len(), 1);
    assert_eq!(impaired[0].instance_id(), Some(sick.as_str()));
    let check = &impaired[0].instance_status().unwrap().details()[0];
    assert_eq!(
        check.impaired_since().map(aws_smithy_types::DateTime::secs),
        Some(epoch().as_second())
    );
    assert_eq!(found("system-status.status", "impaired").await.len(), 0);
    w.aws.schedule(&planned, event("[Canceled] The hardware has failed"));
    let scheduled = found("event.code", "instance-retirement").await;
    assert_eq!(scheduled.len(), 1);
    assert_eq!(scheduled[0].events().len(), 1, "the event with the same id was replaced");
    assert_eq!(scheduled[0].events()[0].description(), Some("[Canceled] The hardware has failed"));
    w.aws.fail_check(&sick, Check::Instance, false);
    assert_eq!(found("instance-status.status", "impaired").await.len(), 0);
}

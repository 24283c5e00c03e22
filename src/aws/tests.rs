//! The calls, against a fake with scripted answers.
#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::time::Duration;

use tokio::time::Instant;

use super::{
    fake::{
        Call, QUEUE_URL, Reply, Reported, clients, clients_without_credentials, observed_clients,
    },
    *,
};
use crate::domain::{
    FailedCheck, GroupName, HookKey, HookResult, InstanceId, InstanceState, LifecycleAction,
    StatusCheck, seconds,
};

fn id(n: u32) -> InstanceId {
    format!("i-{n:017x}").parse().unwrap()
}

fn action() -> LifecycleAction {
    let key = HookKey { instance: id(1), group: "asg".into(), hook: "drain".into() };
    LifecycleAction { key, token: Some("71514b9d-6a40-4b26-8523-05e7ee35fa40".into()) }
}

const DONE: &str = "<CompleteLifecycleActionResponse><CompleteLifecycleActionResult/></CompleteLifecycleActionResponse>";

fn completing(reply: Reply) -> (Clients, Reported) {
    let reported = Reported::default();
    let clients = observed_clients(reported.clone(), move |_| {
        let reply = reply.clone();
        async move { reply }
    });
    (clients, reported)
}

#[tokio::test(start_paused = true)]
async fn c84_every_failure_has_its_advice_is_reported_once_and_is_not_retried() {
    let no_action = "No active Lifecycle Action found with instance ID i-00000000000000001";
    for (reply, advice, outcome) in [
        (Reply::xml_error(400, "Throttling", "Rate exceeded"), Advice::Retry, Outcome::Throttled),
        (Reply::xml_error(500, "ResourceContention", "busy"), Advice::Retry, Outcome::Server),
        (Reply::xml_error(503, "ServiceUnavailable", ""), Advice::Retry, Outcome::Server),
        (
            Reply::Answer { status: 502, body: "<html>Bad Gateway</html>".into(), date: None },
            Advice::Retry,
            Outcome::Server,
        ),
        (
            Reply::Answer { status: 200, body: "<html>Log in".into(), date: None },
            Advice::Retry,
            Outcome::Rejected,
        ),
        (Reply::Reset, Advice::Retry, Outcome::Unreachable),
        (Reply::Never, Advice::Retry, Outcome::Timeout),
        (Reply::xml_error(400, "ValidationError", no_action), Advice::Gone, Outcome::Gone),
        (
            Reply::xml_error(400, "ValidationError", "1 validation error detected"),
            Advice::Retry,
            Outcome::Rejected,
        ),
        (Reply::xml_error(403, "AccessDenied", "no"), Advice::Denied, Outcome::Denied),
        (Reply::xml_error(403, "ExpiredToken", "old"), Advice::Retry, Outcome::Credentials),
        (
            Reply::xml_error(403, "InvalidClientTokenId", "who?"),
            Advice::Retry,
            Outcome::Credentials,
        ),
    ] {
        let (clients, reported) = completing(reply.clone());
        let error = clients
            .autoscaling()
            .complete(&action(), HookResult::Continue, Duration::MAX)
            .await
            .unwrap_err();
        assert_eq!((error.advice(), error.outcome()), (advice, outcome), "{reply:?}: {error}");
        assert_eq!(reported.all().len(), 1, "{reply:?}");
        assert_eq!(reported.all()[0].1, outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_names_the_action_its_object_and_the_reason() {
    let (clients, _) = completing(Reply::xml_error(
        400,
        "ValidationError",
        "No active Lifecycle Action found with token x",
    ));
    let error = clients
        .autoscaling()
        .complete(&action(), HookResult::Continue, Duration::MAX)
        .await
        .unwrap_err();
    assert!(error.is_no_active_action());
    assert_eq!(
        error.to_string(),
        "CompleteLifecycleAction of hook drain of i-00000000000000001 in group asg failed: No \
         active Lifecycle Action found with token x (ValidationError)"
    );
    let (clients, _) =
        completing(Reply::xml_error(400, "ValidationError", "AutoScalingGroup name not found"));
    let error = clients
        .autoscaling()
        .complete(&action(), HookResult::Continue, Duration::MAX)
        .await
        .unwrap_err();
    assert!(!error.is_no_active_action() && error.is_invalid() && !error.is_about_the_token());
    assert!(size_of::<AwsError>() <= 128);
    let (clients, _) = completing(Reply::Reset);
    let text = clients
        .autoscaling()
        .complete(&action(), HookResult::Continue, Duration::MAX)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("dispatch failure: ") && !text.contains(['{', '(']),
        "the causes as text, each once: {text}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_credentials_the_advice_is_to_retry() {
    let error = clients_without_credentials()
        .autoscaling()
        .complete(&action(), HookResult::Continue, Duration::MAX)
        .await
        .unwrap_err();
    assert_eq!((error.advice(), error.outcome()), (Advice::Retry, Outcome::Credentials), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_call_on_a_half_open_connection_ends_after_eleven_seconds_at_most() {
    let (clients, reported) = completing(Reply::Never);
    let began = Instant::now();
    assert!(clients.autoscaling().heartbeat(&action()).await.is_err());
    assert!(began.elapsed() <= seconds(11), "{:?}", began.elapsed());
    assert!(clients.ec2().describe_instances(&[id(1)]).await.is_err());
    assert!(clients.queue(QUEUE_URL).attributes().await.is_err());
    assert_eq!(reported.all()[0].2, seconds(10));
    let began = Instant::now();
    assert!(
        clients
            .queue(QUEUE_URL)
            .receive(10, seconds(20), seconds(60), &ByteLimit::default())
            .await
            .is_err()
    );
    assert!(began.elapsed() <= seconds(30), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn heartbeats_and_completions_carry_instance_and_token() {
    let clients = clients(|call: Call| async move {
        assert_eq!(call.input["InstanceId"], "i-00000000000000001");
        assert_eq!(call.input["LifecycleActionToken"], "71514b9d-6a40-4b26-8523-05e7ee35fa40");
        assert_eq!(
            (&call.input["AutoScalingGroupName"], &call.input["LifecycleHookName"]),
            (&"asg".into(), &"drain".into())
        );
        match call.action.as_str() {
            "CompleteLifecycleAction" => {
                assert_eq!(call.input["LifecycleActionResult"], "CONTINUE");
                Reply::xml(DONE)
            }
            "RecordLifecycleActionHeartbeat" => Reply::xml(
                &DONE.replace("CompleteLifecycleAction", "RecordLifecycleActionHeartbeat"),
            ),
            other => panic!("{other}"),
        }
    });
    clients.autoscaling().heartbeat(&action()).await.unwrap();
    clients.autoscaling().complete(&action(), HookResult::Continue, Duration::MAX).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn instances_are_described_by_filter_over_all_pages_and_never_without_a_list() {
    let clients = clients(|call: Call| async move {
        assert_eq!(call.action, "DescribeInstances");
        assert_eq!(call.input["Filter.1.Name"], "instance-id");
        assert!(call.input.get("InstanceId.1").is_none());
        let (n, next) = if call.input.get("NextToken").is_none() {
            (1, "<nextToken>more</nextToken>")
        } else {
            (2, "")
        };
        Reply::xml(&format!(
            "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>{}</instanceId>
            <instanceState><code>32</code><name>shutting-down</name></instanceState><privateDnsName/><launchTime>2027-01-15T07:00:00.000Z</launchTime>
            <tagSet><item><key>k</key><value>v</value></item></tagSet></item></instancesSet></item></reservationSet>{next}</DescribeInstancesResponse>",
            id(n)
        ))
    });
    let found = clients.ec2().describe_instances(&[id(1), id(2), id(3)]).await.unwrap();
    assert_eq!(found.iter().map(|i| i.id.clone()).collect::<Vec<_>>(), [id(1), id(2)]);
    assert_eq!(
        (found[0].state, found[0].private_dns.as_deref()),
        (InstanceState::ShuttingDown, None)
    );
    assert_eq!(found[0].launched, Some("2027-01-15T07:00:00Z".parse().unwrap()));
    assert_eq!(found[0].tags["k"], "v");
    assert!(clients.ec2().describe_instances(&[]).await.unwrap().is_empty());
    assert!(clients.ec2().by_private_dns(&[]).await.unwrap().is_empty());
    assert!(clients.autoscaling().describe_groups(&[]).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_instance_in_an_unknown_state_counts_as_running_and_endless_pages_are_an_error() {
    let (state, next) =
        ("<instanceState><name>teleporting</name></instanceState>", "<nextToken>more</nextToken>");
    let one = format!(
        "<reservationSet><item><instancesSet><item><instanceId>{}</instanceId>{state}</item></instancesSet></item></reservationSet>",
        id(1)
    );
    let (clients, _) = completing(Reply::xml(&format!(
        "<DescribeInstancesResponse>{one}</DescribeInstancesResponse>"
    )));
    assert_eq!(
        clients.ec2().describe_instances(&[id(1)]).await.unwrap()[0].state,
        InstanceState::Running
    );
    let (clients, reported) = completing(Reply::xml(&format!(
        "<DescribeInstancesResponse>{one}{next}</DescribeInstancesResponse>"
    )));
    let error = clients.ec2().describe_instances(&[id(1)]).await.unwrap_err();
    assert_eq!((error.advice(), reported.all().len()), (Advice::Retry, 20));
}

#[tokio::test(start_paused = true)]
async fn hooks_and_groups_are_read_with_their_defaults() {
    let clients = clients(|call: Call| async move {
        if call.action == "DescribeLifecycleHooks" {
            Reply::xml(
                "<DescribeLifecycleHooksResponse><DescribeLifecycleHooksResult><LifecycleHooks>
                <member><LifecycleHookName>a</LifecycleHookName><HeartbeatTimeout>300</HeartbeatTimeout><GlobalTimeout>30000</GlobalTimeout></member>
                <member><LifecycleHookName>b</LifecycleHookName></member>
                </LifecycleHooks></DescribeLifecycleHooksResult></DescribeLifecycleHooksResponse>",
            )
        } else {
            assert_eq!(
                (&call.input["IncludeInstances"], &call.input["MaxRecords"]),
                (&"false".into(), &"100".into())
            );
            Reply::xml(
                "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups><member>
                <AutoScalingGroupName>asg</AutoScalingGroupName><Tags><member><Key>kubernetes.io/cluster/c</Key><Value>owned</Value></member></Tags>
                </member></AutoScalingGroups></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>",
            )
        }
    });
    let hooks = clients.autoscaling().describe_hooks(&"asg".into()).await.unwrap();
    let timeouts: Vec<_> = hooks
        .iter()
        .map(|h| &h.description)
        .map(|h| (h.heartbeat_timeout, h.global_timeout))
        .collect();
    assert_eq!(timeouts, [(seconds(300), seconds(30_000)), (seconds(3600), seconds(172_800))]);
    let groups = clients
        .autoscaling()
        .describe_groups(&[GroupName::from("asg"), "other".into()])
        .await
        .unwrap();
    assert_eq!((groups.len(), groups[0].tags["kubernetes.io/cluster/c"].as_str()), (1, "owned"));
}

/// The skew that clients measure. Each answer comes after its delay, with a `Date` header that is
/// `ahead` plus its own number of seconds ahead of our clock.
async fn skew_of(ahead: i64, answers: &[(i64, Duration)]) -> jiff::SignedDuration {
    let (script, next) = std::sync::mpsc::channel();
    let next = std::sync::Mutex::new(next);
    let clock = fake::clock();
    let clients = clients(move |_| {
        let (off, delay): (i64, Duration) = next.lock().unwrap().recv().unwrap();
        async move {
            tokio::time::sleep(delay).await;
            let at = clock.now() + jiff::SignedDuration::from_secs(off);
            let date = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            Reply::Answer { status: 400, body: String::new(), date: Some(date) }
        }
    });
    for (extra, delay) in answers {
        script.send((ahead + extra, *delay)).unwrap();
        clients.autoscaling().heartbeat(&action()).await.unwrap_err();
    }
    let (shown, ours) = (clients.clock().now(), clock.now());
    assert_eq!(shown.duration_since(ours).as_secs(), clients.clock().skew().as_secs());
    clients.clock().skew()
}

#[tokio::test(start_paused = true)]
async fn the_clock_follows_the_date_of_answers_errors_included() {
    let fast = Duration::from_millis(30);
    assert_eq!(skew_of(0, &[]).await, jiff::SignedDuration::ZERO);
    assert_eq!(skew_of(0, &[(0, fast)]).await, jiff::SignedDuration::ZERO);
    assert_eq!(
        skew_of(1, &[(0, fast); 5]).await,
        jiff::SignedDuration::ZERO,
        "less than two seconds is no skew"
    );
    for ahead in [5, 300, -5, -7200] {
        let skew = skew_of(ahead, &[(0, fast); 5]).await;
        assert!((skew.as_secs() - ahead).abs() <= 1, "{ahead}: {skew}");
    }
    assert_eq!(
        skew_of(0, &[(0, fast), (9_000, fast)]).await,
        jiff::SignedDuration::ZERO,
        "one wrong header of two"
    );
    assert_eq!(
        skew_of(0, &[(0, fast), (9_000, fast), (0, fast)]).await,
        jiff::SignedDuration::ZERO,
        "one wrong header of three"
    );
    let skew = skew_of(60, &[(0, fast), (0, seconds(9)), (0, seconds(9))]).await;
    assert!((59..=61).contains(&skew.as_secs()), "slow answers are ignored: {skew}");
    let mut idle = vec![(0, seconds(9)); 20];
    idle.insert(0, (0, fast));
    for ahead in [-15, -60] {
        let skew = skew_of(ahead, &idle).await.as_secs();
        assert!((skew - ahead).abs() <= 1, "after slow answers alone, {ahead}: {skew}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_checks_and_events_are_read_and_one_instance_counts_once() {
    let clients = clients(|call: Call| async move {
        assert_eq!(call.action, "DescribeInstanceStatus");
        assert!(call.input.get("InstanceId.1").is_none());
        let check = "<details><item><name>reachability</name><status>failed</status>
            <impairedSince>2027-01-15T07:00:00.000Z</impairedSince></item></details>";
        let events = "<eventsSet><item><instanceEventId>instance-event-1</instanceEventId><code>instance-stop</code>
            <description>[Canceled] soon</description><notBefore>2027-01-16T07:00:00.000Z</notBefore></item>
            <item><code>instance-stop</code></item></eventsSet>";
        let items = match call.input["Filter.1.Name"].as_str().unwrap() {
            "attached-ebs-status.status" => String::new(),
            _ => format!(
                "<item><instanceId>{}</instanceId><systemStatus><status>impaired</status></systemStatus>
                <instanceStatus><status>impaired</status>{check}</instanceStatus>
                <attachedEbsStatus><status>insufficient-data</status></attachedEbsStatus>{events}</item>
                <item><instanceId>not-an-id</instanceId></item><item><instanceId>{}</instanceId>
                <instanceStatus><status>ok</status></instanceStatus></item>",
                id(1), id(2)
            ),
        };
        Reply::xml(&format!(
            "<DescribeInstanceStatusResponse><instanceStatusSet>{items}</instanceStatusSet></DescribeInstanceStatusResponse>"
        ))
    });
    let impaired = clients.ec2().impaired_instances().await.unwrap();
    assert_eq!(impaired, clients.ec2().instances_with_events().await.unwrap());
    assert_eq!(impaired.len(), 1, "the other one is healthy, whatever the filter was");
    let since = Some("2027-01-15T07:00:00Z".parse().unwrap());
    assert_eq!(
        impaired[0].failed_checks,
        [
            FailedCheck { check: StatusCheck::System, since: None },
            FailedCheck { check: StatusCheck::Instance, since }
        ]
    );
    assert_eq!(impaired[0].events.len(), 1, "one has no id");
    assert!(impaired[0].events[0].is_over());
    assert_eq!(impaired[0].events[0].not_before, Some("2027-01-16T07:00:00Z".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_set_unhealthy_without_regard_to_the_grace_period() {
    let clients = clients(|call: Call| async move {
        assert_eq!(call.action, "SetInstanceHealth");
        assert_eq!(call.input["InstanceId"], id(1).as_str());
        assert_eq!(call.input["HealthStatus"], "Unhealthy");
        assert_eq!(call.input["ShouldRespectGracePeriod"], "false");
        Reply::xml(&DONE.replace("CompleteLifecycleAction", "SetInstanceHealth"))
    });
    clients.autoscaling().set_unhealthy(&id(1)).await.unwrap();
}

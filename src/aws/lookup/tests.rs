#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::Mutex;

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::*;
use crate::{
    aws::fake::{Call, Reply, clients},
    domain::{GroupName, InstanceId, InstanceState, seconds},
};

type Calls = Arc<Mutex<Vec<(Duration, Vec<u32>)>>>;

/// A lookup that knows the even numbers and takes 50 ms. Call number n fails with `fails(n)`.
fn even(
    settings: LookupSettings,
    fails: impl Fn(usize) -> Option<AwsError> + Send + Sync + 'static,
) -> (Lookup<u32, u32>, Calls) {
    let calls = Calls::default();
    let (seen, began) = (Arc::clone(&calls), Instant::now());
    let fetch = move |keys: Vec<u32>| -> BoxFuture<'static, Result<Vec<(u32, u32)>, AwsError>> {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push((began.elapsed(), keys.clone()));
            seen.len()
        };
        let fail = fails(number);
        Box::pin(async move {
            sleep(Duration::from_millis(50)).await;
            fail.map_or_else(
                || Ok(keys.into_iter().filter(|k| k % 2 == 0).map(|k| (k, k * 10)).collect()),
                Err,
            )
        })
    };
    (Lookup::start(settings, Random::seeded(1), &Spawner::new(), fetch), calls)
}

fn small() -> LookupSettings {
    LookupSettings { batch: 10, in_flight: 2, ..LookupSettings::default() }
}

/// An error as a call makes it.
async fn error(status: u16, code: &'static str) -> AwsError {
    let clients = clients(move |_| async move { Reply::xml_error(status, code, "m") });
    clients.autoscaling().describe_hooks(&"asg".into()).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn many_callers_at_once_share_a_few_calls() {
    let (lookup, calls) = even(small(), |_| None);
    let keys: Vec<u32> = (0..35).chain(0..35).collect();
    let began = Instant::now();
    let answers = join_all(keys.iter().map(|k| lookup.get(k))).await;
    for (key, answer) in keys.iter().zip(answers) {
        assert_eq!(answer, Ok((key % 2 == 0).then_some(key * 10)));
    }
    let calls = calls.lock().unwrap();
    assert_eq!(
        calls.iter().map(|(_, keys)| keys.len()).collect::<Vec<_>>(),
        [10, 10, 10, 5],
        "never more keys than a batch, and no key twice"
    );
    assert!(
        calls[1].0 < Duration::from_millis(50) && calls[2].0 >= Duration::from_millis(50),
        "two in flight: {calls:?}"
    );
    assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_single_request_waits_only_for_the_linger() {
    let (lookup, calls) = even(small(), |_| None);
    sleep(seconds(5)).await;
    let began = Instant::now();
    assert_eq!(lookup.get(&2).await, Ok(Some(20)));
    assert!((70..75).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(calls.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn answers_and_absence_are_cached_for_a_while_but_a_fresh_answer_always_needs_a_call() {
    let settings = LookupSettings { keep: seconds(60), keep_absence: seconds(10), ..small() };
    let (lookup, calls) = even(settings, |_| None);
    let asked = || calls.lock().unwrap().len();
    for _ in 0..3 {
        assert_eq!((lookup.get(&2).await, lookup.get(&3).await), (Ok(Some(20)), Ok(None)));
    }
    assert_eq!(asked(), 2);
    sleep(seconds(11)).await;
    assert_eq!((lookup.get(&2).await, lookup.get(&3).await), (Ok(Some(20)), Ok(None)));
    assert_eq!(asked(), 3);
    assert_eq!(lookup.get_fresh(&2).await, Ok(Some(20)));
    assert_eq!(asked(), 4);
    sleep(seconds(61)).await;
    assert_eq!(lookup.get(&2).await, Ok(Some(20)));
    assert_eq!(asked(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_answer_comes_from_a_call_that_began_after_the_request() {
    let (lookup, calls) = even(small(), |_| None);
    let early = lookup.get(&2);
    let late = async {
        sleep(Duration::from_millis(40)).await; // The first call is under way.
        assert_eq!(lookup.get_fresh(&2).await, Ok(Some(20)));
    };
    let joining = async {
        sleep(Duration::from_millis(40)).await;
        assert_eq!(lookup.get(&2).await, Ok(Some(20)));
    };
    assert_eq!(tokio::join!(early, late, joining).0, Ok(Some(20)));
    let calls = calls.lock().unwrap();
    assert_eq!(calls.len(), 2);
    assert!(calls[1].0 >= Duration::from_millis(70), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_the_time_of_its_call_and_an_older_one_is_not_returned() {
    let (lookup, calls) = even(small(), |_| None);
    let began = Instant::now();
    assert_eq!(lookup.get(&2).await, Ok(Some(20)));
    let (asked, _) = lookup.get_since(&2, began).await.unwrap();
    assert_eq!(
        (asked - began, calls.lock().unwrap().len()),
        (Duration::from_millis(20), 1),
        "from the cache: the beginning of its call"
    );
    // The cached answer arrived after this instant, but its call began before it.
    let since = began + Duration::from_millis(60);
    assert!(since < Instant::now());
    let (asked, _) = lookup.get_since(&2, since).await.unwrap();
    assert!(asked >= since);
    assert_eq!(calls.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_and_callers_do_not_see_them() {
    let throttled = error(400, "Throttling").await;
    let (lookup, calls) = even(small(), move |n| (n < 4).then(|| throttled.clone()));
    let keys = [0, 2, 4];
    let answers = join_all(keys.iter().map(|k| lookup.get(k))).await;
    assert_eq!(answers, [Ok(Some(0)), Ok(Some(20)), Ok(Some(40))]);
    let calls = calls.lock().unwrap();
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|(_, keys)| keys.len() == 3), "together again: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_gets_an_error_after_ten_seconds_and_calls_stop_when_no_caller_waits() {
    let down = error(503, "ServiceUnavailable").await;
    let (lookup, calls) = even(small(), move |_| Some(down.clone()));
    let began = Instant::now();
    let error = lookup.get(&2).await.unwrap_err();
    assert_eq!(began.elapsed(), seconds(10));
    assert!(!error.is_denied());
    assert!(
        error
            .to_string()
            .starts_with("cannot ask AWS about 2: DescribeLifecycleHooks of asg failed"),
        "{error}"
    );
    let asked = calls.lock().unwrap().len();
    assert!((4..60).contains(&asked), "{asked}");
    sleep(seconds(300)).await;
    assert!(calls.lock().unwrap().len() <= asked + 1);
}

#[tokio::test(start_paused = true)]
async fn a_denied_caller_gets_the_error_at_once_but_calls_keep_their_pauses() {
    let denied = error(403, "AccessDenied").await;
    let (lookup, calls) = even(small(), move |_| Some(denied.clone()));
    let began = Instant::now();
    assert!(lookup.get(&2).await.unwrap_err().is_denied());
    assert!(began.elapsed() < seconds(1));
    let mut answers = 0;
    while began.elapsed() < seconds(120) {
        lookup.get(&2).await.unwrap_err();
        answers += 1;
    }
    let calls = calls.lock().unwrap().len();
    assert!(calls <= 40 && answers <= 40, "{calls} {answers}");
}

#[tokio::test(start_paused = true)]
async fn the_cache_holds_no_more_than_it_may() {
    let settings = LookupSettings { capacity: 100, ..small() };
    let mut cache = Cache::new(&settings);
    for round in 0..5 {
        for key in 0..1_000 {
            cache.put(key, Instant::now(), Some(round));
            cache.put(0, Instant::now(), Some(round));
        }
    }
    let (entries, order) = cache.len();
    assert!(entries <= 100 && order <= 2_100, "{entries} {order}");
    let value = |key: u32| cache.get(&key).map(|(_, value)| value);
    assert_eq!((value(999), value(500)), (Some(Some(4)), None));
    sleep(seconds(31)).await;
    assert_eq!(cache.get(&999), None);
    cache.put(1, Instant::now(), None);
    assert_eq!(cache.len(), (1, 1), "old entries are dropped when a new one comes");
}

fn instance(id: &str, dns: &str, state: &str, launched: &str) -> String {
    format!(
        "<item><instancesSet><item><instanceId>{id}</instanceId><instanceState><name>{state}</name></instanceState>
        <privateDnsName>{dns}</privateDnsName><launchTime>{launched}</launchTime></item></instancesSet></item>"
    )
}

fn instances(items: &[String]) -> Reply {
    Reply::xml(&format!(
        "<DescribeInstancesResponse><reservationSet>{}</reservationSet></DescribeInstancesResponse>",
        items.concat()
    ))
}

#[tokio::test(start_paused = true)]
async fn two_hundred_instances_go_into_one_call_and_unknown_ones_are_absent() {
    let count = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&count);
    let clients = clients(move |call: Call| {
        let values: Vec<_> = (1..=201)
            .filter_map(|n| call.input.get(format!("Filter.1.Value.{n}")))
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect();
        seen.lock().unwrap().push(values.len());
        async move {
            let known = values.iter().filter(|v| v.ends_with('0'));
            instances(
                &known
                    .map(|id| instance(id, "", "running", "2027-01-15T07:00:00Z"))
                    .collect::<Vec<_>>(),
            )
        }
    });
    let lookups = Lookups::start(&clients, &Random::seeded(1), &Spawner::new());
    let ids: Vec<InstanceId> = (0..450).map(|n| format!("i-{n:08}").parse().unwrap()).collect();
    let answers = join_all(ids.iter().map(|id| lookups.instances.get(id))).await;
    assert_eq!(answers.iter().filter(|a| a.as_ref().unwrap().is_some()).count(), 45);
    assert_eq!(*count.lock().unwrap(), [200, 200, 50]);
}

#[tokio::test(start_paused = true)]
async fn a_dns_name_is_answered_with_all_instances_that_have_it() {
    let clients = clients(|call: Call| async move {
        assert_eq!(call.input["Filter.1.Name"], "private-dns-name");
        let (old, new) = ("2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z");
        instances(&[
            instance("i-00000001", "ip-10-0-0-1", "terminated", "2027-01-03T00:00:00Z"),
            instance("i-00000002", "ip-10-0-0-1", "running", new),
            instance("i-00000003", "ip-10-0-0-1", "running", old),
        ])
    });
    let lookups = Lookups::start(&clients, &Random::seeded(1), &Spawner::new());
    let found = lookups.dns.get(&"ip-10-0-0-1".to_owned()).await.unwrap().unwrap();
    let found: Vec<_> = found.iter().map(|f| (f.id.as_str(), f.state)).collect();
    let (running, over) = (InstanceState::Running, InstanceState::Terminated);
    assert_eq!(found, [("i-00000001", over), ("i-00000002", running), ("i-00000003", running)]);
    assert_eq!(lookups.dns.get(&"ip-10-0-0-9".to_owned()).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn hooks_are_described_once_per_group_and_again_when_one_is_new() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let clients = clients(move |call: Call| {
        let mut seen = seen.lock().unwrap();
        seen.push(call.input["AutoScalingGroupName"].as_str().unwrap_or_default().to_owned());
        let reply = if seen.last().is_some_and(|g| g == "gone") {
            Reply::xml_error(
                400,
                "ValidationError",
                "AutoScalingGroup name not found - AutoScalingGroup gone not found",
            )
        } else {
            let new = if seen.len() > 1 {
                "<member><LifecycleHookName>new</LifecycleHookName><HeartbeatTimeout>60</HeartbeatTimeout></member>"
            } else {
                ""
            };
            let old = "<member><LifecycleHookName>old</LifecycleHookName><HeartbeatTimeout>300</HeartbeatTimeout></member>";
            Reply::xml(&format!(
                "<DescribeLifecycleHooksResponse><DescribeLifecycleHooksResult><LifecycleHooks>{old}{new}</LifecycleHooks>
                </DescribeLifecycleHooksResult></DescribeLifecycleHooksResponse>"
            ))
        };
        async move { reply }
    });
    let hooks = Lookups::start(&clients, &Random::seeded(1), &Spawner::new()).hooks;
    let group = GroupName::from("asg");
    for _ in 0..3 {
        assert_eq!(
            hooks.get(&group, &"old".into()).await.unwrap().unwrap().heartbeat_timeout,
            seconds(300)
        );
    }
    assert_eq!(hooks.get(&group, &"new".into()).await, Ok(None));
    assert_eq!(calls.lock().unwrap().len(), 1);
    sleep(seconds(30)).await;
    assert_eq!(
        hooks.get(&group, &"new".into()).await.unwrap().unwrap().heartbeat_timeout,
        seconds(60)
    );
    assert_eq!(calls.lock().unwrap().len(), 2);
    assert_eq!(hooks.get(&"gone".into(), &"old".into()).await, Ok(None));
    sleep(seconds(601)).await;
    assert!(hooks.get(&group, &"old".into()).await.unwrap().is_some());
    assert_eq!(calls.lock().unwrap().len(), 4);
}

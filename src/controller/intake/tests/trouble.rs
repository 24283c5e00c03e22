#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use super::*;

/// Ways in which a receive can fail: the outcome, and the reply that causes it.
fn troubles() -> [(&'static str, Reply); 8] {
    [
        ("throttled", Reply::json_error(403, "RequestThrottled")),
        ("server", Reply::json_error(503, "ServiceUnavailable")),
        (
            "server",
            Reply::Answer { status: 502, body: "<html>Bad Gateway</html>".into(), date: None },
        ),
        ("timeout", Reply::Never),
        ("unreachable", Reply::Reset),
        ("denied", Reply::json_error(403, "AccessDeniedException")),
        ("credentials", Reply::json_error(403, "ExpiredToken")),
        ("gone", Reply::json_error(400, "QueueDoesNotExist")),
    ]
}

#[tokio::test(start_paused = true)]
async fn c45_a_failing_queue_is_asked_slowly_is_unhealthy_and_recovers() {
    for (outcome, reply) in troubles() {
        let mut intake = start(&queue_of(0));
        sleep(seconds(1)).await;
        assert!(intake.handle.healthy());
        intake.fake.fault({
            let reply = reply.clone();
            move |_| Some(reply.clone())
        });
        sleep(seconds(150)).await;
        assert!(!intake.handle.healthy(), "{reply:?}");
        assert_eq!(intake.handle.view().troubles()[0].1.outcome().as_str(), outcome, "{reply:?}");
        intake.fake.forget_calls();
        sleep(seconds(60)).await;
        let calls = intake.fake.calls("ReceiveMessage").len();
        assert!((1..=40).contains(&calls), "{reply:?}: {calls} calls a minute");
        intake.fake.heal();
        intake.fake.send("after");
        let delivery = timeout(seconds(45), intake.deliveries.recv()).await.unwrap().unwrap();
        assert_eq!(&*delivery.body, "after");
        assert!(intake.handle.healthy() && intake.handle.view().troubles().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn c45_a_queue_that_denies_access_is_unhealthy_at_once_and_asked_rarely() {
    let fake = queue_of(1);
    fake.fault(|_| Some(Reply::json_error(403, "AccessDeniedException")));
    let intake = start(&fake);
    assert!(!intake.handle.healthy());
    sleep(seconds(1)).await;
    assert!(!intake.handle.healthy() && !intake.handle.view().troubles().is_empty());
    sleep(seconds(599)).await;
    let calls = fake.calls("ReceiveMessage").len();
    assert!((20..=110).contains(&calls), "{calls}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_fails_only_shortly_stays_healthy() {
    let mut intake = start(&queue_of(0));
    sleep(seconds(1)).await;
    let mut left = 3;
    intake.fake.fault(move |_| {
        left -= 1;
        (left >= 0).then_some(Reply::json_error(500, "InternalFailure"))
    });
    for _ in 0..60 {
        sleep(seconds(1)).await;
        assert!(intake.handle.healthy());
    }
    assert!(intake.events.all().contains(&IntakeEvent::ReceiveFailed(crate::aws::Outcome::Server)));
    intake.fake.send("0");
    assert!(intake.next().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_half_open_connection_is_given_up_ten_seconds_after_the_wait() {
    let intake = start(&queue_of(0));
    sleep(seconds(5)).await;
    intake.fake.fault(|_| Some(Reply::Never));
    intake.fake.forget_calls();
    sleep(seconds(17)).await;
    let first = intake.fake.calls("ReceiveMessage")[0].at;
    sleep(seconds(45)).await;
    let second = intake.fake.calls("ReceiveMessage")[1].at;
    assert!((seconds(30)..=seconds(31)).contains(&(second - first)), "{:?}", second - first);
}

#[tokio::test(start_paused = true)]
async fn the_sixteen_receives_of_a_busy_queue_become_one_when_it_fails() {
    let mut intake = start(&queue_of(3_000));
    for _ in 0..1_000 {
        intake.next().await.unwrap().ticket.delete();
    }
    assert_eq!(intake.events.pollers(), 16);
    intake.fake.fault(|call| {
        (call.action == "ReceiveMessage").then_some(Reply::json_error(403, "RequestThrottled"))
    });
    intake.fake.forget_calls();
    sleep(seconds(60)).await;
    let calls = intake.fake.calls("ReceiveMessage").len();
    assert!(calls <= 50, "{calls}");
    assert_eq!(intake.events.pollers(), 1);
    intake.fake.heal();
    let mut rest = 0;
    while let Ok(Some(delivery)) = timeout(seconds(30), intake.deliveries.recv()).await {
        delivery.ticket.delete();
        rest += 1;
    }
    assert_eq!((rest, intake.fake.len()), (2_000, 0), "nothing is lost");
}

#[tokio::test(start_paused = true)]
async fn pauses_after_errors_are_random_up_to_a_limit_that_doubles() {
    let mut firsts = Vec::new();
    for seed in 0..20 {
        let fake = queue_of(0);
        fake.fault(|_| Some(Reply::json_error(500, "InternalFailure")));
        let _desk = start_with(&fake, &Settings::default(), seed);
        sleep(seconds(300)).await;
        let calls = fake.calls("ReceiveMessage");
        let latency = Duration::from_millis(10);
        let pauses: Vec<_> =
            calls.windows(2).map(|w| (w[1].at - w[0].at).saturating_sub(latency)).collect();
        for (n, pause) in pauses.iter().enumerate() {
            let whole =
                Duration::from_millis(100 << n.min(10)).min(seconds(20)) + Duration::from_millis(2);
            assert!(*pause <= whole, "{n}: {pause:?}");
        }
        assert!(pauses.iter().any(|p| *p > seconds(5)));
        firsts.push(pauses[0]);
    }
    firsts.sort_unstable();
    firsts.dedup();
    assert!(firsts.len() > 10, "{firsts:?}");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_calls() {
    let run = async || {
        let fake = queue_of(300);
        let mut intake = start_with(&fake, &Settings::default(), 42);
        let mut turn = 0;
        fake.fault(move |_| {
            turn += 1;
            (turn % 4 == 0).then_some(Reply::json_error(503, "ServiceUnavailable"))
        });
        let began = Instant::now();
        for delivery in intake.all().await {
            delivery.ticket.delete();
        }
        sleep(seconds(60)).await;
        let calls: Vec<_> = ["ReceiveMessage", "DeleteMessageBatch"]
            .into_iter()
            .flat_map(|a| fake.calls(a))
            .collect();
        calls.into_iter().map(|c| (c.action, c.at - began, c.input.to_string())).collect::<Vec<_>>()
    };
    let first = run().await;
    assert!(first.len() > 50);
    assert_eq!(first, run().await);
}

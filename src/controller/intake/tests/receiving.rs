#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use super::*;

#[tokio::test(start_paused = true)]
async fn c46_an_empty_queue_gets_one_long_poll_at_a_time_and_is_healthy() {
    let mut intake = start(&queue_of(0));
    sleep(seconds(1)).await;
    assert!(intake.handle.healthy(), "the first receive does not wait");
    sleep(seconds(600)).await;
    let calls = intake.fake.calls("ReceiveMessage").len();
    assert!((29..=32).contains(&calls), "{calls}");
    assert!(intake.handle.healthy() && intake.deliveries.try_recv().is_err());
    assert!(intake.handle.view().troubles().is_empty());
}

#[tokio::test(start_paused = true)]
async fn full_batches_double_the_number_of_receives_and_empty_ones_reduce_it() {
    let mut intake = start(&queue_of(5_000));
    let started = Instant::now();
    let mut most = 0;
    for _ in 0..5_000 {
        intake.next().await.unwrap().ticket.delete();
        most = most.max(intake.events.pollers());
    }
    assert_eq!(most, 16);
    assert!(
        started.elapsed() < Duration::from_millis(500),
        "16 at a time, 10 ms each: {:?}",
        started.elapsed()
    );
    sleep(seconds(120)).await;
    assert_eq!(
        (intake.events.pollers(), intake.fake.len(), intake.handle.view().held()),
        (1, 0, 0)
    );
    intake.fake.forget_calls();
    sleep(seconds(60)).await;
    assert!(intake.fake.calls("ReceiveMessage").len() <= 4);
}

#[tokio::test(start_paused = true)]
async fn messages_that_come_one_by_one_after_a_burst_need_few_receives_and_few_deletes() {
    let mut intake = start(&queue_of(400));
    for delivery in intake.all().await {
        delivery.ticket.delete();
    }
    sleep(seconds(1)).await;
    intake.fake.forget_calls();
    // A message every ten milliseconds: without pauses, each would end a long poll of its own and
    // be deleted by a call of its own.
    let started = Instant::now();
    for n in 0..200 {
        intake.fake.send(&format!("late {n}"));
        sleep(Duration::from_millis(10)).await;
        while let Ok(delivery) = intake.deliveries.try_recv() {
            delivery.ticket.delete();
        }
    }
    let took = started.elapsed();
    sleep(seconds(1)).await;
    while let Ok(delivery) = intake.deliveries.try_recv() {
        delivery.ticket.delete();
    }
    sleep(seconds(1)).await;
    assert_eq!(
        (intake.fake.len(), intake.handle.view().held()),
        (0, 0),
        "each is received and deleted"
    );
    let (receives, deletes) =
        (intake.fake.calls("ReceiveMessage").len(), intake.fake.calls("DeleteMessageBatch").len());
    assert!(
        receives <= 70 && deletes <= 45,
        "{receives} receives and {deletes} deletes of 200 messages in {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_delivery_carries_the_count_the_time_and_the_queue_of_its_message() {
    let mut intake = start(&queue_of(1));
    let delivery = intake.next().await.unwrap();
    assert_eq!((&*delivery.body, delivery.receive_count, &*delivery.queue), ("0", 1, "q"));
    assert_eq!(delivery.sent, Some("2027-01-15T08:00:00Z".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn no_more_messages_are_held_than_the_limit_and_places_that_become_free_are_used() {
    let settings = Settings { max_held: 50, ..Settings::default() };
    let mut intake = start_with(&queue_of(200), &settings, 1);
    let mut held = intake.all().await;
    assert_eq!((held.len(), intake.handle.view().held()), (50, 50));
    intake.fake.forget_calls();
    sleep(seconds(300)).await;
    assert_eq!(
        intake.fake.calls("ReceiveMessage").len(),
        0,
        "no message is received that could not be held"
    );
    assert_eq!(intake.fake.visible(), 150, "and no held message reappears");
    for delivery in held.drain(..20) {
        delivery.ticket.delete();
    }
    let more = intake.all().await;
    assert_eq!((more.len(), intake.handle.view().held()), (20, 50));
    assert!(
        intake.handle.view().crowded() && !intake.handle.healthy(),
        "nothing more can be received"
    );
}

#[tokio::test(start_paused = true)]
async fn messages_are_still_received_when_fewer_places_are_free_than_a_batch_needs() {
    for (max_held, undecided) in [(10, 1), (10, 9), (1_000, 995)] {
        let settings = Settings { max_held, ..Settings::default() };
        let mut intake = start_with(&queue_of(undecided), &settings, 1);
        let held = intake.all().await;
        assert_eq!(held.len(), undecided);
        for n in 0..30 {
            intake.fake.send(&format!("later {n}"));
        }
        for n in 0..30 {
            let next = timeout(seconds(2), intake.deliveries.recv()).await;
            let next = next.unwrap_or_else(|_| {
                panic!("no message after {n} with {undecided} of {max_held} places taken")
            });
            next.unwrap().ticket.delete();
        }
        sleep(seconds(1)).await;
        assert_eq!((intake.fake.len(), intake.handle.view().held()), (undecided, undecided));
        assert!(intake.handle.healthy(), "there is room");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_may_be_given_up_make_room_for_others_after_ten_seconds() {
    let settings = Settings { max_held: 50, pollers: 1, ..Settings::default() };
    let mut intake = start_with(&queue_of(70), &settings, 1);
    let held = intake.all().await;
    let tokens: Vec<_> = held.iter().skip(10).map(|delivery| delivery.ticket.spare()).collect();
    sleep(seconds(7)).await;
    assert_eq!(intake.events.count(IntakeEvent::MadeRoom(10)), 0, "too early to give any up");
    sleep(seconds(20)).await;
    assert_eq!(intake.all().await.len(), 20);
    // Two batches for the messages that came, and one for the next long poll.
    let given_up: Vec<_> = tokens.iter().map(CancellationToken::is_cancelled).collect();
    assert!(
        given_up[..30].iter().all(|g| *g) && !given_up[30..].contains(&true),
        "the oldest are given up, and no more than needed: {given_up:?}"
    );
    assert!(intake.handle.view().crowded());
}

#[tokio::test(start_paused = true)]
async fn c75_a_copy_of_a_held_message_is_not_delivered_and_its_receipt_is_used_for_the_delete() {
    let mut intake = start(&queue_of(1));
    let first = intake.next().await.unwrap();
    intake.fake.expire("0");
    assert!(intake.next().await.is_none());
    assert_eq!(intake.events.count(IntakeEvent::Redelivered), 1);
    first.ticket.delete();
    sleep(seconds(1)).await;
    let used = intake.fake.calls("DeleteMessageBatch");
    assert_eq!(used.len(), 1);
    assert_eq!(used[0].input["Entries"][0]["ReceiptHandle"], "0-2");
    assert_eq!((intake.fake.len(), intake.handle.view().held()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_comes_while_a_delete_is_under_way_is_deleted_too() {
    let mut intake = start(&queue_of(1));
    let first = intake.next().await.unwrap();
    intake.fake.fault(|call| {
        (call.action == "DeleteMessageBatch")
            .then_some(Reply::json_error(503, "ServiceUnavailable"))
    });
    first.ticket.delete();
    sleep(Duration::from_millis(50)).await;
    intake.fake.expire("0");
    sleep(Duration::from_millis(50)).await;
    intake.fake.heal();
    sleep(seconds(10)).await;
    assert_eq!(intake.events.count(IntakeEvent::Redelivered), 1);
    assert_eq!((intake.fake.len(), intake.handle.view().held()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_again_after_its_delete_is_delivered_again() {
    let mut intake = start(&queue_of(1));
    // SQS answers that it has deleted the message, and has not.
    let false_answer = Reply::json(&serde_json::json!({"Successful": [{"Id": "0"}], "Failed": []}));
    intake
        .fake
        .fault(move |call| (call.action == "DeleteMessageBatch").then_some(false_answer.clone()));
    intake.next().await.unwrap().ticket.delete();
    sleep(seconds(61)).await;
    let again = intake.next().await.unwrap();
    assert_eq!((&*again.body, again.receive_count), ("0", 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_long_polls_at_once_is_asked_with_pauses() {
    let mut intake = start(&queue_of(0));
    intake.fake.fault(|call| {
        (call.action == "ReceiveMessage").then_some(Reply::json(&serde_json::json!({})))
    });
    sleep(seconds(60)).await;
    let calls = intake.fake.calls("ReceiveMessage").len();
    assert!((20..200).contains(&calls), "{calls}");
    intake.fake.heal();
    intake.fake.send("0");
    assert!(timeout(seconds(5), intake.deliveries.recv()).await.unwrap().is_some());
}

/// The most bytes of bodies that may be in memory before they are parsed.
const LIMIT: usize = 16 * 1024 * 1024;

/// A body of this many bytes.
fn body(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[tokio::test(start_paused = true)]
async fn the_memory_for_large_bodies_is_limited_and_all_of_them_are_delivered() {
    for bytes in [300 * 1024, 900_000, 1024 * 1024] {
        let fake = queue_of(0);
        (0..100).for_each(|_| fake.send(&body(bytes)));
        let mut intake = start(&fake);
        let mut tickets = Vec::new();
        for _ in 0..100 {
            // The reader is slow: the bodies that it has not read yet stay within the limit.
            sleep(Duration::from_millis(200)).await;
            let received = intake.handle.view().held() - tickets.len();
            assert!(
                received > 0 && received * bytes <= LIMIT,
                "{received} bodies of {bytes} bytes"
            );
            assert!(intake.handle.view().bytes_in_flight() <= LIMIT);
            let delivery = intake.next().await.unwrap();
            assert_eq!(delivery.body.len(), bytes);
            tickets.push(delivery.ticket);
        }
        sleep(seconds(1)).await;
        assert_eq!(
            (tickets.len(), intake.handle.view().held(), intake.handle.view().bytes_in_flight()),
            (100, 100, 0)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_nobody_reads_do_not_delay_a_stop() {
    let fake = queue_of(0);
    (0..40).for_each(|_| fake.send(&body(1024 * 1024)));
    let intake = start(&fake);
    sleep(seconds(5)).await;
    let stopping = Instant::now();
    intake.handle.stop().await;
    assert!(stopping.elapsed() <= seconds(25), "{:?}", stopping.elapsed());
}

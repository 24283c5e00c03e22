#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use super::*;

#[tokio::test(start_paused = true)]
async fn c46_an_empty_queue_is_asked_by_one_long_poll_at_a_time_and_is_healthy() {
    let mut desk = start(&queue_of(0));
    sleep(seconds(1)).await;
    assert!(desk.handle.healthy(), "the first receive does not wait");
    sleep(seconds(600)).await;
    let calls = desk.fake.calls("ReceiveMessage").len();
    assert!((29..=32).contains(&calls), "{calls}");
    assert!(desk.handle.healthy() && desk.deliveries.try_recv().is_err());
    assert!(desk.handle.view().troubles().is_empty());
}

#[tokio::test(start_paused = true)]
async fn full_batches_double_the_long_polls_and_empty_ones_take_them_away() {
    let mut desk = start(&queue_of(5_000));
    let started = Instant::now();
    let mut most = 0;
    for _ in 0..5_000 {
        desk.next().await.unwrap().ticket.delete();
        most = most.max(desk.events.pollers());
    }
    assert_eq!(most, 16);
    assert!(
        started.elapsed() < Duration::from_millis(500),
        "16 at a time, 10 ms each: {:?}",
        started.elapsed()
    );
    sleep(seconds(120)).await;
    assert_eq!((desk.events.pollers(), desk.fake.len(), desk.handle.view().held()), (1, 0, 0));
    desk.fake.forget_calls();
    sleep(seconds(60)).await;
    assert!(desk.fake.calls("ReceiveMessage").len() <= 4);
}

#[tokio::test(start_paused = true)]
async fn what_comes_one_by_one_after_a_burst_is_read_by_few_receives_and_deleted_by_few_deletes() {
    let mut desk = start(&queue_of(400));
    for delivery in desk.all().await {
        delivery.ticket.delete();
    }
    sleep(seconds(1)).await;
    desk.fake.forget_calls();
    // A message every ten milliseconds: each would end a long poll of its own and be deleted by a
    // call of its own.
    let started = Instant::now();
    for n in 0..200 {
        desk.fake.send(&format!("late {n}"));
        sleep(Duration::from_millis(10)).await;
        while let Ok(delivery) = desk.deliveries.try_recv() {
            delivery.ticket.delete();
        }
    }
    let took = started.elapsed();
    sleep(seconds(1)).await;
    while let Ok(delivery) = desk.deliveries.try_recv() {
        delivery.ticket.delete();
    }
    sleep(seconds(1)).await;
    assert_eq!(
        (desk.fake.len(), desk.handle.view().held()),
        (0, 0),
        "each is received and deleted"
    );
    let (receives, deletes) =
        (desk.fake.calls("ReceiveMessage").len(), desk.fake.calls("DeleteMessageBatch").len());
    assert!(
        receives <= 70 && deletes <= 45,
        "{receives} receives and {deletes} deletes of 200 messages in {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_message_comes_with_it() {
    let mut desk = start(&queue_of(1));
    let delivery = desk.next().await.unwrap();
    assert_eq!((&*delivery.body, delivery.receive_count, &*delivery.queue), ("0", 1, "q"));
    assert_eq!(delivery.sent, Some("2027-01-15T08:00:00Z".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn no_more_is_held_than_may_be_held_and_places_that_become_free_are_used() {
    let settings = Settings { max_held: 50, ..Settings::default() };
    let mut desk = start_with(&queue_of(200), &settings, 1);
    let mut held = desk.all().await;
    assert_eq!((held.len(), desk.handle.view().held()), (50, 50));
    desk.fake.forget_calls();
    sleep(seconds(300)).await;
    assert_eq!(
        desk.fake.calls("ReceiveMessage").len(),
        0,
        "nothing is received that could not be held"
    );
    assert_eq!(desk.fake.visible(), 150, "and nothing that is held reappears");
    for delivery in held.drain(..20) {
        delivery.ticket.delete();
    }
    let more = desk.all().await;
    assert_eq!((more.len(), desk.handle.view().held()), (20, 50));
    assert!(desk.handle.view().crowded() && !desk.handle.healthy(), "nothing more can be received");
}

#[tokio::test(start_paused = true)]
async fn where_fewer_places_are_free_than_a_batch_takes_messages_go_on_coming() {
    for (max_held, undecided) in [(10, 1), (10, 9), (1_000, 995)] {
        let settings = Settings { max_held, ..Settings::default() };
        let mut desk = start_with(&queue_of(undecided), &settings, 1);
        let held = desk.all().await;
        assert_eq!(held.len(), undecided);
        for n in 0..30 {
            desk.fake.send(&format!("later {n}"));
        }
        for n in 0..30 {
            let next = timeout(seconds(2), desk.deliveries.recv()).await;
            let next = next.unwrap_or_else(|_| {
                panic!("deaf after {n} messages with {undecided} of {max_held} places taken")
            });
            next.unwrap().ticket.delete();
        }
        sleep(seconds(1)).await;
        assert_eq!((desk.fake.len(), desk.handle.view().held()), (undecided, undecided));
        assert!(desk.handle.healthy(), "there is room");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_undecided_for_ten_seconds_and_may_be_spared_makes_room_for_others() {
    let settings = Settings { max_held: 50, pollers: 1, ..Settings::default() };
    let mut desk = start_with(&queue_of(70), &settings, 1);
    let held = desk.all().await;
    let spared: Vec<_> = held.iter().skip(10).map(|delivery| delivery.ticket.spare()).collect();
    sleep(seconds(7)).await;
    assert_eq!(desk.events.count(IntakeEvent::MadeRoom(10)), 0, "it may be decided yet");
    sleep(seconds(20)).await;
    assert_eq!(desk.all().await.len(), 20);
    // Two batches for those that came, and one for the next long poll.
    let given_up: Vec<_> = spared.iter().map(CancellationToken::is_cancelled).collect();
    assert!(
        given_up[..30].iter().all(|g| *g) && !given_up[30..].contains(&true),
        "the oldest, and no more than were needed: {given_up:?}"
    );
    assert!(desk.handle.view().crowded());
}

#[tokio::test(start_paused = true)]
async fn c75_a_copy_of_a_held_message_is_no_second_delivery_and_its_receipt_deletes() {
    let mut desk = start(&queue_of(1));
    let first = desk.next().await.unwrap();
    desk.fake.expire("0");
    assert!(desk.next().await.is_none());
    assert_eq!(desk.events.count(IntakeEvent::Redelivered), 1);
    first.ticket.delete();
    sleep(seconds(1)).await;
    let used = desk.fake.calls("DeleteMessageBatch");
    assert_eq!(used.len(), 1);
    assert_eq!(used[0].input["Entries"][0]["ReceiptHandle"], "0-2");
    assert_eq!((desk.fake.len(), desk.handle.view().held()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_comes_while_a_delete_is_under_way_is_deleted_too() {
    let mut desk = start(&queue_of(1));
    let first = desk.next().await.unwrap();
    desk.fake.fault(|call| {
        (call.action == "DeleteMessageBatch")
            .then_some(Reply::json_error(503, "ServiceUnavailable"))
    });
    first.ticket.delete();
    sleep(Duration::from_millis(50)).await;
    desk.fake.expire("0");
    sleep(Duration::from_millis(50)).await;
    desk.fake.heal();
    sleep(seconds(10)).await;
    assert_eq!(desk.events.count(IntakeEvent::Redelivered), 1);
    assert_eq!((desk.fake.len(), desk.handle.view().held()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_again_after_its_delete_is_delivered_again() {
    let mut desk = start(&queue_of(1));
    // SQS says that it is deleted, and forgets.
    let lie = Reply::json(&serde_json::json!({"Successful": [{"Id": "0"}], "Failed": []}));
    desk.fake.fault(move |call| (call.action == "DeleteMessageBatch").then_some(lie.clone()));
    desk.next().await.unwrap().ticket.delete();
    sleep(seconds(61)).await;
    let again = desk.next().await.unwrap();
    assert_eq!((&*again.body, again.receive_count), ("0", 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_wait_is_not_asked_without_pause() {
    let mut desk = start(&queue_of(0));
    desk.fake.fault(|call| {
        (call.action == "ReceiveMessage").then_some(Reply::json(&serde_json::json!({})))
    });
    sleep(seconds(60)).await;
    let calls = desk.fake.calls("ReceiveMessage").len();
    assert!((20..200).contains(&calls), "{calls}");
    desk.fake.heal();
    desk.fake.send("0");
    assert!(timeout(seconds(5), desk.deliveries.recv()).await.unwrap().is_some());
}

/// The most that may be in flight.
const LIMIT: usize = 16 * 1024 * 1024;

/// A body of so many bytes.
fn body(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[tokio::test(start_paused = true)]
async fn large_bodies_in_flight_are_bounded_and_all_of_them_come() {
    for bytes in [300 * 1024, 900_000, 1024 * 1024] {
        let fake = queue_of(0);
        (0..100).for_each(|_| fake.send(&body(bytes)));
        let mut desk = start(&fake);
        let mut tickets = Vec::new();
        for _ in 0..100 {
            // The desk lags: what is received and not read yet stays within the bound.
            sleep(Duration::from_millis(200)).await;
            let received = desk.handle.view().held() - tickets.len();
            assert!(
                received > 0 && received * bytes <= LIMIT,
                "{received} bodies of {bytes} bytes"
            );
            assert!(desk.handle.view().bytes_in_flight() <= LIMIT);
            let delivery = desk.next().await.unwrap();
            assert_eq!(delivery.body.len(), bytes);
            tickets.push(delivery.ticket);
        }
        sleep(seconds(1)).await;
        assert_eq!(
            (tickets.len(), desk.handle.view().held(), desk.handle.view().bytes_in_flight()),
            (100, 100, 0)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_nobody_reads_hold_up_no_stop() {
    let fake = queue_of(0);
    (0..40).for_each(|_| fake.send(&body(1024 * 1024)));
    let desk = start(&fake);
    sleep(seconds(5)).await;
    let stopping = Instant::now();
    desk.handle.stop().await;
    assert!(stopping.elapsed() <= seconds(25), "{:?}", stopping.elapsed());
}

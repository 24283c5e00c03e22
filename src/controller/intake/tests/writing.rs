#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn undecided_messages_are_extended_in_batches_and_never_reappear() {
    let mut intake = start(&queue_of(25));
    let held = intake.all().await;
    for _ in 0..600 {
        sleep(seconds(1)).await;
        assert_eq!(intake.fake.visible(), 0);
    }
    let calls = intake.fake.calls("ChangeMessageVisibilityBatch");
    let entries: usize = calls.iter().map(|c| c.input["Entries"].as_array().unwrap().len()).sum();
    assert!(entries <= 25 * 21, "each every 30 s: {entries}");
    assert!(calls.len() <= 3 * 21 + 5, "ten at a time: {}", calls.len());
    assert!(calls.iter().all(|c| c.input["Entries"][0]["VisibilityTimeout"] == 60));
    assert_eq!((held.len(), intake.handle.view().held()), (25, 25));
    assert_eq!(intake.events.count(IntakeEvent::Redelivered), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_not_extended_beyond_twelve_hours_and_is_held_again_when_it_comes_again() {
    let mut intake = start(&queue_of(1));
    let held = intake.next().await.unwrap();
    sleep(seconds(12 * 3600)).await;
    let last = intake.fake.calls("ChangeMessageVisibilityBatch");
    assert_eq!(intake.events.count(IntakeEvent::HeldTooLong), 1);
    assert!(last.len() > 1300);
    assert_eq!(intake.events.count(IntakeEvent::Redelivered), 1, "its copy came");
    assert!(intake.next().await.is_none());
    assert_eq!(intake.fake.visible(), 0);
    held.ticket.delete();
    sleep(seconds(1)).await;
    assert_eq!(intake.fake.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn c81_throttled_extensions_and_deletes_are_retried_and_nothing_is_lost() {
    let mut intake = start(&queue_of(30));
    let held = intake.all().await;
    let mut turn = 0;
    intake.fake.fault(move |call| {
        turn += 1;
        (call.action != "ReceiveMessage" && turn % 3 != 0)
            .then_some(Reply::json_error(403, "RequestThrottled"))
    });
    for _ in 0..120 {
        sleep(seconds(1)).await;
        assert_eq!(intake.fake.visible(), 0);
    }
    for delivery in held {
        delivery.ticket.delete();
    }
    sleep(seconds(30)).await;
    assert_eq!((intake.fake.len(), intake.handle.view().held()), (0, 0));
    assert!(
        intake.events.sum(|e| if let IntakeEvent::DeleteRetried(n) = e { Some(n) } else { None })
            > 0
    );
    assert!(
        intake.events.sum(|e| if let IntakeEvent::ExtendRetried(n) = e { Some(n) } else { None })
            > 0
    );
    assert_eq!(intake.events.sum(|e| if let IntakeEvent::Lost(n) = e { Some(n) } else { None }), 0);
    assert_eq!(intake.events.count(IntakeEvent::Redelivered), 0);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_refused_is_counted_and_the_copy_is_held_again() {
    let mut intake = start(&queue_of(1));
    let held = intake.next().await.unwrap();
    intake.fake.fault(|call| {
        let failed =
            json!({"Id": "0", "SenderFault": true, "Code": "MessageNotInflight", "Message": "m"});
        (call.action == "ChangeMessageVisibilityBatch")
            .then_some(Reply::json(&json!({"Successful": [], "Failed": [failed]})))
    });
    sleep(seconds(40)).await;
    assert_eq!(intake.events.count(IntakeEvent::Lost(1)), 1);
    intake.fake.heal();
    sleep(seconds(300)).await;
    assert_eq!((intake.events.count(IntakeEvent::Redelivered), intake.fake.visible()), (1, 0));
    held.ticket.delete();
    sleep(seconds(1)).await;
    assert_eq!(intake.fake.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn ten_deletes_share_a_call() {
    let mut intake = start(&queue_of(100));
    for delivery in intake.all().await {
        delivery.ticket.delete();
    }
    sleep(seconds(1)).await;
    assert_eq!(intake.fake.calls("DeleteMessageBatch").len(), 10);
    assert_eq!(
        intake.events.sum(|e| if let IntakeEvent::Deleted(n) = e { Some(n) } else { None }),
        100
    );
    assert_eq!(intake.fake.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn entries_of_a_batch_that_fail_are_tried_again_and_refused_ones_are_not() {
    let mut intake = start(&queue_of(10));
    let held = intake.all().await;
    let mut once = Some(());
    intake.fake.fault(move |call| {
        (call.action == "DeleteMessageBatch" && once.take().is_some()).then(|| {
            let good: Vec<_> = (2..10).map(|n| json!({"Id": n.to_string()})).collect();
            let internal = json!({
                "Id": "0", "SenderFault": false, "Code": "InternalError", "Message": "m"
            });
            let stale = json!({
                "Id": "1", "SenderFault": true, "Code": "ReceiptHandleIsInvalid", "Message": "m"
            });
            Reply::json(&json!({"Successful": good, "Failed": [internal, stale]}))
        })
    });
    for delivery in held {
        delivery.ticket.delete();
    }
    sleep(seconds(5)).await;
    let calls = intake.fake.calls("DeleteMessageBatch");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].input["Entries"].as_array().unwrap().len(), 1);
    assert_eq!(calls[1].input["Entries"][0]["ReceiptHandle"], "0-1");
    assert_eq!(
        (
            intake.events.count(IntakeEvent::DeleteRefused),
            intake.events.count(IntakeEvent::DeleteRetried(1))
        ),
        (1, 1)
    );
    assert_eq!(intake.handle.view().held(), 0);
}

#[tokio::test(start_paused = true)]
async fn c44_deletes_that_keep_failing_are_given_up_and_the_message_is_delivered_again() {
    let mut intake = start(&queue_of(1));
    intake.fake.fault(|call| {
        (call.action == "DeleteMessageBatch").then_some(Reply::json_error(500, "InternalFailure"))
    });
    intake.next().await.unwrap().ticket.delete();
    sleep(seconds(90)).await;
    assert_eq!(intake.events.count(IntakeEvent::DeleteGivenUp(1)), 1);
    let tries = intake.fake.calls("DeleteMessageBatch").len();
    assert!((10..100).contains(&tries), "{tries}");
    assert!(intake.handle.healthy(), "it is still received from");
    intake.fake.heal();
    let again = timeout(seconds(60), intake.deliveries.recv()).await.unwrap().unwrap();
    assert!(again.receive_count >= 2);
    again.ticket.delete();
    sleep(seconds(1)).await;
    assert_eq!((intake.fake.len(), intake.handle.view().held()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_left_reappears_by_itself() {
    let mut intake = start(&queue_of(1));
    let first = intake.next().await.unwrap();
    let at = Instant::now();
    first.ticket.leave();
    let again = timeout(seconds(70), intake.deliveries.recv()).await.unwrap().unwrap();
    assert_eq!((&*again.body, again.receive_count), ("0", 2));
    assert!((seconds(58)..seconds(62)).contains(&at.elapsed()), "{:?}", at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_message_for_another_reader_is_visible_again_after_the_requested_time() {
    let mut intake = start(&queue_of(2));
    let mut both = intake.all().await;
    let at = Instant::now();
    both.pop().unwrap().ticket.give_back(seconds(4));
    both.pop().unwrap().ticket.give_back(seconds(1));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let again = timeout(seconds(10), intake.deliveries.recv()).await.unwrap().unwrap();
        seen.push((again.body.to_string(), again.receive_count, at.elapsed().as_secs()));
    }
    assert_eq!(seen, [("0".to_owned(), 2, 1), ("1".to_owned(), 2, 4)]);
    assert_eq!(intake.fake.calls("ChangeMessageVisibilityBatch").len(), 1, "they share a call");
    assert_eq!(
        (intake.events.count(IntakeEvent::Released(2)), intake.handle.view().held()),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_given_back_while_the_intake_stops_is_visible_at_once() {
    let mut intake = start(&queue_of(1));
    let held = intake.next().await.unwrap();
    intake.handle.stop_receiving();
    held.ticket.give_back(seconds(60));
    assert!(intake.handle.stop().await);
    assert_eq!(intake.fake.visible(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_a_dry_run_or_a_trial_a_message_for_another_reader_reappears_by_itself() {
    for writes in [Writes::Nothing, Writes::Deletes] {
        let mut intake = start_with(&queue_of(1), &Settings { writes, ..Settings::default() }, 1);
        intake.next().await.unwrap().ticket.give_back(seconds(1));
        sleep(seconds(30)).await;
        assert_eq!((intake.fake.visible(), intake.handle.view().held()), (0, 0), "{writes:?}");
        let again = timeout(seconds(40), intake.deliveries.recv()).await.unwrap().unwrap();
        assert_eq!(again.receive_count, 2, "{writes:?}");
        assert!(intake.fake.calls("ChangeMessageVisibilityBatch").is_empty(), "{writes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing_and_messages_reappear() {
    let settings = Settings { writes: Writes::Nothing, ..Settings::default() };
    let mut intake = start_with(&queue_of(3), &settings, 1);
    let mut all = intake.all().await;
    all.pop().unwrap().ticket.delete();
    all.pop().unwrap().ticket.leave();
    let held = all.pop().unwrap();
    let again: Vec<_> = [
        timeout(seconds(70), intake.deliveries.recv()).await,
        timeout(seconds(70), intake.deliveries.recv()).await,
    ]
    .into_iter()
    .map(|d| d.unwrap().unwrap().body.to_string())
    .collect();
    assert_eq!(again, ["1", "2"], "the one that is held is not delivered again");
    drop(held);
    assert!(intake.handle.stop().await);
    assert!(
        intake.fake.calls("DeleteMessageBatch").is_empty()
            && intake.fake.calls("ChangeMessageVisibilityBatch").is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_trial_deletes_decided_messages_and_writes_nothing_else() {
    let settings = Settings { writes: Writes::Deletes, ..Settings::default() };
    let mut intake = start_with(&queue_of(3), &settings, 1);
    let mut all = intake.all().await;
    all.pop().unwrap().ticket.delete();
    all.pop().unwrap().ticket.leave();
    let held = all.pop().unwrap();
    let again = timeout(seconds(70), intake.deliveries.recv()).await.unwrap().unwrap();
    assert_eq!(&*again.body, "1", "the message that was left reappears, the held one does not");
    held.ticket.delete();
    assert!(intake.handle.stop().await);
    let deleted: usize = intake
        .fake
        .calls("DeleteMessageBatch")
        .iter()
        .map(|c| c.input["Entries"].as_array().map_or(0, Vec::len))
        .sum();
    assert_eq!(deleted, 2);
    assert!(
        intake.fake.calls("ChangeMessageVisibilityBatch").is_empty(),
        "neither extended nor given back"
    );
}

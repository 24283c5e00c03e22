use super::*;

#[tokio::test(start_paused = true)]
async fn a_stop_gives_back_what_is_undecided_and_deletes_what_is_decided() {
    let mut desk = start(&queue_of(35));
    let mut held = desk.all().await;
    for delivery in held.drain(..12) {
        delivery.ticket.delete();
    }
    let began = Instant::now();
    let fake = desk.fake.clone();
    assert!(desk.handle.stop().await);
    assert!(began.elapsed() <= seconds(3), "{:?}", began.elapsed());
    assert_eq!((fake.len(), fake.visible()), (23, 23));
    // Ten came back through the long poll that was still open, and went once more.
    assert_eq!(
        desk.events.sum(|e| if let IntakeEvent::Released(n) = e { Some(n) } else { None }),
        23 + 10
    );
    // What is decided now comes too late, and does no harm.
    for delivery in held {
        delivery.ticket.delete();
    }
    assert!(desk.deliveries.recv().await.is_none());
    fake.forget_calls();
    sleep(seconds(300)).await;
    for action in ["ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"] {
        assert!(fake.calls(action).is_empty(), "{action}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_arrives_while_it_stops_is_given_back_although_that_takes_a_long_poll() {
    for late in [1, 10] {
        let desk = start(&queue_of(0));
        sleep(seconds(5)).await;
        let fake = desk.fake.clone();
        let stopping = tokio::spawn(desk.handle.stop());
        sleep(seconds(late)).await;
        fake.send("late");
        assert!(stopping.await.unwrap());
        assert_eq!(fake.visible(), 1);
        assert_eq!(fake.calls("ChangeMessageVisibilityBatch").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_does_not_vanish_in_a_long_poll_of_its_own() {
    let mut desk = start(&queue_of(1));
    let held = desk.all().await;
    sleep(seconds(2)).await;
    let fake = desk.fake.clone();
    let began = Instant::now();
    assert!(desk.handle.stop().await);
    assert_eq!((fake.len(), fake.visible()), (1, 1));
    assert!(
        began.elapsed() < seconds(1),
        "{:?}: the next one need not wait for the long poll's end",
        began.elapsed()
    );
    sleep(seconds(20)).await;
    assert_eq!(fake.visible(), 1, "nobody receives any more");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_no_long_poll_is_left_that_would_take_a_message_and_tell_nobody() {
    let desk = start(&queue_of(0));
    sleep(seconds(5)).await;
    let began = Instant::now();
    assert!(desk.handle.stop().await);
    assert!(began.elapsed() <= seconds(21), "{:?}", began.elapsed());
    desk.fake.send("later");
    sleep(seconds(1)).await;
    assert_eq!(desk.fake.visible(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_intake_that_gives_nothing_back_waits_for_no_long_poll() {
    let settings = Settings { writes: Writes::Nothing, ..Settings::default() };
    let desk = start_with(&queue_of(0), &settings, 3);
    sleep(seconds(5)).await;
    let began = Instant::now();
    assert!(desk.handle.stop().await);
    assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stop_takes_as_long_as_a_long_poll_and_five_seconds_at_most_when_nothing_answers() {
    let mut desk = start(&queue_of(20));
    let mut held = desk.all().await;
    held.pop().unwrap().ticket.delete();
    desk.fake.fault(|_| Some(Reply::Never));
    sleep(seconds(25)).await;
    let began = Instant::now();
    assert!(!desk.handle.stop().await);
    assert!(began.elapsed() <= seconds(25), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_pauses_or_for_places() {
    let settings = Settings { max_held: 10, ..Settings::default() };
    let mut desk = start_with(&queue_of(30), &settings, 3);
    assert_eq!(desk.all().await.len(), 10);
    let began = Instant::now();
    assert!(desk.handle.stop().await);
    assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());

    let fake = queue_of(0);
    fake.fault(|_| Some(Reply::json_error(403, "AccessDeniedException")));
    let desk = start(&fake);
    sleep(seconds(1)).await;
    let began = Instant::now();
    assert!(desk.handle.stop().await);
    assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_receiving_has_stopped_what_is_held_may_still_be_decided() {
    let mut desk = start(&queue_of(5));
    let held = desk.all().await;
    desk.handle.stop_receiving();
    desk.fake.send("later");
    sleep(seconds(5)).await;
    for delivery in held {
        delivery.ticket.delete();
    }
    let fake = desk.fake.clone();
    assert!(desk.handle.stop().await);
    assert_eq!((fake.len(), fake.visible()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn when_nobody_listens_any_more_nothing_is_received() {
    let mut desk = start(&queue_of(1));
    assert!(desk.next().await.is_some());
    drop(desk.deliveries);
    sleep(seconds(5)).await;
    desk.fake.forget_calls();
    desk.fake.send("unheard");
    sleep(seconds(300)).await;
    assert!(desk.fake.calls("ReceiveMessage").is_empty());
    assert_eq!(desk.fake.visible(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_view_outlives_the_intake() {
    let mut desk = start(&queue_of(3));
    let held = desk.all().await;
    let view = desk.handle.view().clone();
    assert_eq!((view.healthy(), view.held()), (true, 3));
    assert!(desk.handle.stop().await);
    assert_eq!(view.held(), 0);
    drop(held);
}

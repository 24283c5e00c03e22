use super::*;
use crate::controller::intake_slot::IntakeSlot;

#[tokio::test(start_paused = true)]
async fn a_stop_gives_undecided_messages_back_and_deletes_decided_ones() {
    let mut intake = start(&queue_of(35));
    let mut held = intake.all().await;
    for delivery in held.drain(..12) {
        delivery.ticket.delete();
    }
    let began = Instant::now();
    let fake = intake.fake.clone();
    assert!(intake.handle.stop().await);
    assert!(began.elapsed() <= seconds(3), "{:?}", began.elapsed());
    assert_eq!((fake.len(), fake.visible()), (23, 23));
    // Ten came back through the long poll that was still open, and were given back once more.
    assert_eq!(
        intake.events.sum(|e| if let IntakeEvent::Released(n) = e { Some(n) } else { None }),
        23 + 10
    );
    // Decisions now come too late, and do no harm.
    for delivery in held {
        delivery.ticket.delete();
    }
    assert!(intake.deliveries.recv().await.is_none());
    fake.forget_calls();
    sleep(seconds(300)).await;
    for action in ["ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"] {
        assert!(fake.calls(action).is_empty(), "{action}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_arrives_during_a_stop_is_given_back_when_the_long_poll_ends() {
    for late in [1, 10] {
        let intake = start(&queue_of(0));
        sleep(seconds(5)).await;
        let fake = intake.fake.clone();
        let stopping = tokio::spawn(intake.handle.stop());
        sleep(seconds(late)).await;
        fake.send("late");
        assert!(stopping.await.unwrap());
        assert_eq!(fake.visible(), 1);
        assert_eq!(fake.calls("ChangeMessageVisibilityBatch").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_given_back_does_not_stay_in_the_open_long_poll() {
    let mut intake = start(&queue_of(1));
    let held = intake.all().await;
    sleep(seconds(2)).await;
    let fake = intake.fake.clone();
    let began = Instant::now();
    assert!(intake.handle.stop().await);
    assert_eq!((fake.len(), fake.visible()), (1, 1));
    assert!(
        began.elapsed() < seconds(1),
        "{:?}: the next reader need not wait until the long poll ends",
        began.elapsed()
    );
    sleep(seconds(20)).await;
    assert_eq!(fake.visible(), 1, "nobody receives it");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_no_long_poll_is_open_that_could_hide_a_message() {
    let intake = start(&queue_of(0));
    sleep(seconds(5)).await;
    let began = Instant::now();
    assert!(intake.handle.stop().await);
    assert!(began.elapsed() <= seconds(21), "{:?}", began.elapsed());
    intake.fake.send("later");
    sleep(seconds(1)).await;
    assert_eq!(intake.fake.visible(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_intake_that_gives_nothing_back_does_not_wait_for_its_long_poll() {
    let settings = Settings { writes: Writes::Nothing, ..Settings::default() };
    let intake = start_with(&queue_of(0), &settings, 3);
    sleep(seconds(5)).await;
    let began = Instant::now();
    assert!(intake.handle.stop().await);
    assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stop_takes_as_long_as_a_long_poll_and_five_seconds_at_most_when_nothing_answers() {
    let mut intake = start(&queue_of(20));
    let mut held = intake.all().await;
    held.pop().unwrap().ticket.delete();
    intake.fake.fault(|_| Some(Reply::Never));
    sleep(seconds(25)).await;
    let began = Instant::now();
    assert!(!intake.handle.stop().await);
    assert!(began.elapsed() <= seconds(25), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_pauses_or_for_places() {
    let settings = Settings { max_held: 10, ..Settings::default() };
    let mut intake = start_with(&queue_of(30), &settings, 3);
    assert_eq!(intake.all().await.len(), 10);
    let began = Instant::now();
    assert!(intake.handle.stop().await);
    assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());

    let fake = queue_of(0);
    fake.fault(|_| Some(Reply::json_error(403, "AccessDeniedException")));
    let intake = start(&fake);
    sleep(seconds(1)).await;
    let began = Instant::now();
    assert!(intake.handle.stop().await);
    assert!(began.elapsed() < seconds(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_receiving_has_stopped_held_messages_may_still_be_decided() {
    let mut intake = start(&queue_of(5));
    let held = intake.all().await;
    intake.handle.stop_receiving();
    intake.fake.send("later");
    sleep(seconds(5)).await;
    for delivery in held {
        delivery.ticket.delete();
    }
    let fake = intake.fake.clone();
    assert!(intake.handle.stop().await);
    assert_eq!((fake.len(), fake.visible()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn messages_of_tasks_that_end_with_their_term_are_given_back() {
    let mut intake = start(&queue_of(3));
    let held = intake.all().await;
    let slot = IntakeSlot::default();
    slot.with(|place| *place = Some(intake.handle));
    // On a runtime of several threads, tasks may end before the call that ends the term returns.
    let (handle, ()) = slot.end_term(|| drop((held, intake.deliveries)));
    assert!(handle.unwrap().stop().await);
    assert_eq!(intake.fake.visible(), 3);
}

#[tokio::test(start_paused = true)]
async fn after_the_receiver_is_dropped_nothing_is_received() {
    let mut intake = start(&queue_of(1));
    assert!(intake.next().await.is_some());
    drop(intake.deliveries);
    sleep(seconds(5)).await;
    intake.fake.forget_calls();
    intake.fake.send("later");
    sleep(seconds(300)).await;
    assert!(intake.fake.calls("ReceiveMessage").is_empty());
    assert_eq!(intake.fake.visible(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_view_outlives_the_intake() {
    let mut intake = start(&queue_of(3));
    let held = intake.all().await;
    let view = intake.handle.view().clone();
    assert_eq!((view.healthy(), view.held()), (true, 3));
    assert!(intake.handle.stop().await);
    assert_eq!(view.held(), 0);
    drop(held);
}

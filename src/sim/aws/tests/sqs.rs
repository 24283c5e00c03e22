use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageSystemAttributeName as Attribute, QueueAttributeName, SendMessageBatchRequestEntry,
};

use super::*;

impl World {
    async fn receive(&self, max: i32, wait: i32) -> Vec<Message> {
        let request = self
            .sqs
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(max)
            .wait_time_seconds(wait);
        request
            .message_system_attribute_names(Attribute::All)
            .send()
            .await
            .unwrap()
            .messages
            .unwrap_or_default()
    }

    async fn receive_one(&self) -> Message {
        self.receive(1, 0).await.pop().expect("a message")
    }

    async fn delete(&self, receipt: &str) {
        self.sqs
            .delete_message()
            .queue_url(&self.url)
            .receipt_handle(receipt)
            .send()
            .await
            .unwrap();
    }
}

fn attribute(message: &Message, name: &Attribute) -> String {
    message.attributes.as_ref().and_then(|a| a.get(name)).cloned().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_waits_its_time_and_ends_at_once_when_a_message_comes() {
    let w = World::new();
    assert!(w.receive(10, 20).await.is_empty());
    assert_eq!(w.seconds(), 20);
    let aws = w.aws.clone();
    tokio::spawn(async move {
        sleep(5).await;
        aws.send_event("q", "hello");
    });
    let message = w.receive(10, 20).await.pop().unwrap();
    assert_eq!((message.body(), w.seconds()), (Some("hello"), 25));
    assert_eq!(message.md5_of_body(), Some("5d41402abc4b2a76b9719d911017c592"));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_long_polls_share_a_hundred_messages() {
    let w = World::new();
    let polls = (0..100).map(|_| w.receive(1, 20));
    let send = async {
        sleep(1).await;
        for n in 0..100 {
            w.aws.send_event("q", &n.to_string());
        }
    };
    let (received, ()) = tokio::join!(futures::future::join_all(polls), send);
    assert_eq!(received.iter().map(Vec::len).sum::<usize>(), 100);
    assert_eq!(w.seconds(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_comes_back_when_its_visibility_is_over_with_a_new_receipt_and_a_higher_count() {
    let w = World::new();
    w.aws.send_event("q", "x");
    let first = w.receive_one().await;
    assert!(w.receive(1, 0).await.is_empty());
    let second = w.receive(1, 20).await;
    assert!(second.is_empty(), "still hidden after 20 s of 30");
    let second = w.receive(1, 20).await.pop().unwrap();
    assert_eq!(w.seconds(), 30);
    assert_ne!(first.receipt_handle(), second.receipt_handle());
    assert_eq!(attribute(&second, &Attribute::ApproximateReceiveCount), "2");
    assert_eq!(attribute(&second, &Attribute::SentTimestamp), epoch().as_millisecond().to_string());
    assert_eq!(
        attribute(&second, &Attribute::ApproximateFirstReceiveTimestamp),
        epoch().as_millisecond().to_string()
    );
    w.delete(first.receipt_handle().unwrap()).await;
    assert_eq!(w.aws.queue("q").unwrap().in_flight, 1, "an old receipt deletes nothing");
    w.delete(second.receipt_handle().unwrap()).await;
    assert_eq!(w.aws.queue("q").unwrap().messages, []);
    assert_eq!(w.aws.deletions().len(), 1);
    w.delete(second.receipt_handle().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn the_last_receipt_still_deletes_after_the_visibility_is_over() {
    let w = World::new();
    w.aws.send_event("q", "x");
    let message = w.receive_one().await;
    sleep(31).await;
    assert_eq!(w.aws.queue("q").unwrap().visible, 1);
    w.delete(message.receipt_handle().unwrap()).await;
    assert!(w.receive(1, 0).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn visibility_counts_from_the_call_and_not_beyond_twelve_hours_of_the_first_receive() {
    let w = World::new();
    w.aws.send_event("q", "x");
    let receipt = w.receive_one().await.receipt_handle.unwrap();
    let change = |seconds| {
        w.sqs
            .change_message_visibility()
            .queue_url(&w.url)
            .receipt_handle(&receipt)
            .visibility_timeout(seconds)
            .send()
    };
    sleep(10).await;
    change(60).await.unwrap();
    assert_eq!(
        w.receive(1, 20).await.len() + w.receive(1, 20).await.len() + w.receive(1, 19).await.len(),
        0
    );
    assert_eq!(w.receive(1, 20).await.len(), 1);
    assert_eq!(w.seconds(), 70);
    let (code, _) = error(change(60).await);
    assert_eq!(
        code, "AWS.SimpleQueueService.MessageNotInflight",
        "the old receipt is not the one in flight"
    );
    w.aws.send_event("q", "y");
    let y = w.receive_one().await.receipt_handle.unwrap();
    sleep(1).await;
    let (code, message) = error(
        w.sqs
            .change_message_visibility()
            .queue_url(&w.url)
            .receipt_handle(&y)
            .visibility_timeout(43_200)
            .send()
            .await,
    );
    assert_eq!(code, "InvalidParameterValue");
    assert!(
        message.ends_with(
            "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
        ),
        "{message}"
    );
    w.sqs
        .change_message_visibility()
        .queue_url(&w.url)
        .receipt_handle(&y)
        .visibility_timeout(0)
        .send()
        .await
        .unwrap();
    assert_eq!(w.receive_one().await.body(), Some("y"));
}

#[tokio::test(start_paused = true)]
async fn a_message_received_too_often_goes_to_the_dead_letter_queue() {
    let w = World::with(QueueSettings {
        redrive: Some(Redrive { queue: "dead".to_owned(), max_receives: 2 }),
        ..QueueSettings::default()
    });
    w.aws.create_queue("dead", QueueSettings::default());
    let id = w.aws.send_event("q", "x");
    for _ in 0..2 {
        w.receive_one().await;
        sleep(31).await;
    }
    assert!(w.receive(1, 0).await.is_empty());
    let dead = w.aws.queue("dead").unwrap().messages;
    assert_eq!((dead[0].id.clone(), dead[0].sent), (id, epoch()));
    assert_eq!(w.aws.queue("q").unwrap().messages, []);
}

#[tokio::test(start_paused = true)]
async fn batches_answer_for_each_entry() {
    let w = World::new();
    let entry = |n: usize| {
        SendMessageBatchRequestEntry::builder()
            .id(n.to_string())
            .message_body(format!("m{n}"))
            .build()
            .unwrap()
    };
    let sent = w
        .sqs
        .send_message_batch()
        .queue_url(&w.url)
        .set_entries(Some((0..10).map(entry).collect()))
        .send()
        .await
        .unwrap();
    assert_eq!((sent.successful().len(), sent.failed().len()), (10, 0));
    let messages = w.receive(10, 0).await;
    assert_eq!(
        messages.iter().map(|m| m.body().unwrap()).collect::<Vec<_>>(),
        (0..10).map(|n| format!("m{n}")).collect::<Vec<_>>()
    );
    let delete = |id: &str, receipt: &str| {
        DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(receipt).build().unwrap()
    };
    let deleted = w.sqs.delete_message_batch().queue_url(&w.url);
    let deleted = deleted
        .entries(delete("a", messages[0].receipt_handle().unwrap()))
        .entries(delete("b", "nonsense"))
        .send()
        .await
        .unwrap();
    assert_eq!(deleted.successful()[0].id(), "a");
    assert_eq!(
        (deleted.failed()[0].id(), deleted.failed()[0].code(), deleted.failed()[0].sender_fault()),
        ("b", "ReceiptHandleIsInvalid", true)
    );
    let change = |id: &str, m: &Message| {
        let receipt = m.receipt_handle().unwrap();
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(id)
            .receipt_handle(receipt)
            .visibility_timeout(0)
            .build()
            .unwrap()
    };
    let changed = w.sqs.change_message_visibility_batch().queue_url(&w.url);
    let changed = changed
        .entries(change("c", &messages[1]))
        .entries(change("d", &messages[0]))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (changed.successful()[0].id(), changed.failed()[0].code()),
        ("c", "InvalidParameterValue")
    );
    let (code, _) = error(
        w.sqs.delete_message_batch().queue_url(&w.url).set_entries(Some(Vec::new())).send().await,
    );
    assert_eq!(code, "AWS.SimpleQueueService.EmptyBatchRequest");
    let twice = w
        .sqs
        .delete_message_batch()
        .queue_url(&w.url)
        .entries(delete("a", "r"))
        .entries(delete("a", "r"));
    assert_eq!(error(twice.send().await).0, "AWS.SimpleQueueService.BatchEntryIdsNotDistinct");
}

#[tokio::test(start_paused = true)]
async fn errors_are_typed_for_the_client() {
    let w = World::new();
    let gone = w.aws.queue_url("gone");
    let error_of =
        w.sqs.receive_message().queue_url(&gone).send().await.unwrap_err().into_service_error();
    assert!(error_of.is_queue_does_not_exist(), "{error_of:?}");
    let (code, _) =
        error(w.sqs.receive_message().queue_url(&w.url).max_number_of_messages(11).send().await);
    assert_eq!(code, "InvalidParameterValue");
    let error_of = w
        .sqs
        .delete_message()
        .queue_url(&w.url)
        .receipt_handle("x")
        .send()
        .await
        .unwrap_err()
        .into_service_error();
    assert!(error_of.is_receipt_handle_is_invalid(), "{error_of:?}");
    let w = World::with(QueueSettings { max_in_flight: 1, ..QueueSettings::default() });
    w.aws.send_event("q", "x");
    w.aws.send_event("q", "y");
    w.receive_one().await;
    let error_of =
        w.sqs.receive_message().queue_url(&w.url).send().await.unwrap_err().into_service_error();
    assert!(error_of.is_over_limit(), "{error_of:?}");
    assert_eq!(w.aws.count("sqs:ReceiveMessage"), 2);
}

#[tokio::test(start_paused = true)]
async fn queues_are_made_described_purged_and_deleted() {
    let w = World::new();
    let url = w
        .sqs
        .create_queue()
        .queue_name("new")
        .attributes(QueueAttributeName::VisibilityTimeout, "7")
        .send()
        .await
        .unwrap()
        .queue_url
        .unwrap();
    assert_eq!(
        w.sqs.get_queue_url().queue_name("new").send().await.unwrap().queue_url(),
        Some(url.as_str())
    );
    w.sqs.send_message().queue_url(&url).message_body("a").send().await.unwrap();
    w.sqs
        .send_message()
        .queue_url(&url)
        .message_body("late")
        .delay_seconds(900)
        .send()
        .await
        .unwrap();
    let policy =
        r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:123456789012:q","maxReceiveCount":"3"}"#;
    w.sqs
        .set_queue_attributes()
        .queue_url(&url)
        .attributes(QueueAttributeName::RedrivePolicy, policy)
        .send()
        .await
        .unwrap();
    let described = w
        .sqs
        .get_queue_attributes()
        .queue_url(&url)
        .attribute_names(QueueAttributeName::All)
        .send()
        .await
        .unwrap();
    let attributes = described.attributes.unwrap();
    let get = |name: QueueAttributeName| attributes.get(&name).cloned().unwrap_or_default();
    assert_eq!(get(QueueAttributeName::VisibilityTimeout), "7");
    assert_eq!(get(QueueAttributeName::ApproximateNumberOfMessages), "1");
    assert_eq!(get(QueueAttributeName::ApproximateNumberOfMessagesDelayed), "1");
    assert!(get(QueueAttributeName::RedrivePolicy).contains("\"maxReceiveCount\":3"));
    assert_eq!(
        w.sqs.list_queues().queue_name_prefix("ne").send().await.unwrap().queue_urls(),
        std::slice::from_ref(&url)
    );
    w.sqs.purge_queue().queue_url(&url).send().await.unwrap();
    assert_eq!(w.aws.queue("new").unwrap().messages, []);
    w.sqs.delete_queue().queue_url(&url).send().await.unwrap();
    assert_eq!(w.aws.queue("new"), None);
    assert_eq!(
        error(w.sqs.get_queue_url().queue_name("new").send().await).0,
        "AWS.SimpleQueueService.NonExistentQueue"
    );
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(
        error(w.sqs.create_queue().queue_name("new").send().await).0,
        "AWS.SimpleQueueService.QueueDeletedRecently"
    );
    w.sqs.create_queue().queue_name("another").send().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    w.sqs.create_queue().queue_name("new").send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn messages_end_with_their_retention() {
    let w = World::new();
    w.aws.send_event("q", "x");
    sleep(96 * 3600).await;
    assert!(w.receive(1, 0).await.is_empty());
    assert_eq!(w.aws.queue("q").unwrap().messages, []);
}

#[tokio::test(start_paused = true)]
async fn a_disorderly_queue_duplicates_reorders_and_forgets_deletes() {
    let w = World::new();
    w.aws.disorder("q", Disorder { duplicate: 1.0, ..Disorder::default() });
    w.aws.send_event("q", "x");
    let first = w.receive_one().await;
    let second = w.receive_one().await;
    assert_eq!(first.message_id(), second.message_id());
    w.aws.disorder("q", Disorder { forget_delete: 1.0, ..Disorder::default() });
    w.delete(second.receipt_handle().unwrap()).await;
    assert_eq!(w.aws.queue("q").unwrap().messages.len(), 1);
    let lost = |n: usize| w.aws.messages()[n].deletion_lost.is_some();
    assert!(lost(0), "the journal knows what the queue forgot");
    w.aws.disorder("q", Disorder { duplicate: 1.0, ..Disorder::default() });
    w.delete(first.receipt_handle().unwrap()).await;
    w.aws.send_event("q", "y");
    assert!(!lost(1), "nobody asked");
    w.aws.disorder("q", Disorder { reorder: 1.0, ..Disorder::default() });
    for n in 0..20 {
        w.aws.send_event("q", &n.to_string());
    }
    let mut order = Vec::new();
    while let Some(message) = w.receive(1, 0).await.pop() {
        order.push(message.body.unwrap());
    }
    assert_eq!(order.len(), 22);
    assert_ne!(order[2..], (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_spread_over_servers_returns_one_or_two_messages_per_call_and_all_in_the_end()
 {
    let w = World::new();
    w.aws.disorder("q", Disorder { partial: 1.0, ..Disorder::default() });
    for n in 0..100 {
        w.aws.send_event("q", &n.to_string());
    }
    let mut brought = Vec::new();
    while brought.iter().sum::<usize>() < 100 {
        brought.push(w.receive(10, 0).await.len());
    }
    assert!(brought.iter().all(|n| [1, 2].contains(n)), "{brought:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_goes_on_after_the_client_disconnects_and_hides_new_messages() {
    let w = World::new();
    let visibility = 60;
    let asked = w
        .sqs
        .receive_message()
        .queue_url(&w.url)
        .wait_time_seconds(20)
        .visibility_timeout(visibility)
        .send();
    assert!(tokio::time::timeout(Duration::from_secs(5), asked).await.is_err());
    sleep(10).await;
    w.aws.send_event("q", "x");
    assert!(w.receive(1, 0).await.is_empty());
    assert_eq!(w.aws.queue("q").unwrap().in_flight, 1);
    sleep(60).await;
    assert_eq!(w.receive_one().await.body(), Some("x"));
}

#[tokio::test(start_paused = true)]
async fn the_journal_has_each_message_with_its_receives_and_its_deletion() {
    let w = World::new();
    w.aws.send_event("q", "first");
    sleep(3).await;
    let message = w.receive_one().await;
    w.aws.send_event("q", "second");
    sleep(31).await;
    let again = w.receive(10, 0).await;
    w.delete(again.iter().find(|m| m.body() == Some("first")).unwrap().receipt_handle().unwrap())
        .await;
    let sent = w.aws.messages();
    let [first, second] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(
        (Some(first.message_id.as_str()), &*first.body, first.at),
        (message.message_id(), "first", first.sent)
    );
    let after = |at: Moment| at.duration_since(first.at).as_secs();
    assert_eq!(first.deliveries.iter().map(|d| after(d.at)).collect::<Vec<_>>(), [3, 34]);
    assert!(first.deliveries.iter().all(|d| !d.by.is_empty()));
    assert_eq!(first.deleted.map(after), Some(34));
    assert_eq!((after(second.at), second.deliveries.len(), second.deleted), (3, 1, None));
}

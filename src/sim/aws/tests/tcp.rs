use super::*;
use crate::sim::http::loopback;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_services_answer_over_tcp() {
    let spawner = Spawner::new();
    let aws = EmbeddedAws::start(Clock::starting_at(epoch()), Settings::default(), &spawner);
    let server = aws.serve(loopback().await.unwrap(), &spawner).unwrap();
    let config = aws.sdk_config_at(&server.url());
    aws.create_queue("q", QueueSettings::default());
    let instance = aws.create_group(GroupSpec::new("g", 1)).pop().unwrap();
    aws.put_hook("g", HookSpec::terminating("h"));
    aws.route(Rule::usual("q"));
    let sqs = aws_sdk_sqs::Client::new(&config);
    let url = sqs.get_queue_url().queue_name("q").send().await.unwrap().queue_url.unwrap();
    assert_eq!(url, format!("{}/123456789012/q", server.url()));
    let poll = tokio::spawn(sqs.receive_message().queue_url(&url).wait_time_seconds(20).send());
    tokio::time::sleep(Duration::from_millis(50)).await;
    aws.scale_in("g", 1);
    let received =
        tokio::time::timeout(Duration::from_secs(10), poll).await.unwrap().unwrap().unwrap();
    assert!(received.messages()[0].body().unwrap().contains(&instance));
    let complete = aws_sdk_autoscaling::Client::new(&config).complete_lifecycle_action();
    let complete = complete
        .auto_scaling_group_name("g")
        .lifecycle_hook_name("h")
        .instance_id(&instance)
        .lifecycle_action_result("CONTINUE");
    complete.send().await.unwrap();
    let described = aws_sdk_ec2::Client::new(&config).describe_instances().send().await.unwrap();
    let state = described.reservations()[0].instances()[0]
        .state()
        .and_then(|s| s.name())
        .map(|n| n.as_str().to_owned());
    assert_eq!(state.as_deref(), Some("shutting-down"));
    aws.fault(FaultRule::new("sqs:*", Fault::Cut, How::Times(1)));
    assert!(sqs.list_queues().send().await.is_err());
    sqs.list_queues().send().await.unwrap();
    drop(server);
    assert!(sqs.list_queues().send().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pollers_over_tcp_receive_and_delete_everything_once() {
    use aws_sdk_sqs::types::DeleteMessageBatchRequestEntry as Entry;
    const MESSAGES: usize = 2_000;
    let spawner = Spawner::new();
    let aws = EmbeddedAws::start(Clock::starting_at(epoch()), Settings::default(), &spawner);
    let server = aws.serve(loopback().await.unwrap(), &spawner).unwrap();
    let sqs = aws_sdk_sqs::Client::new(&aws.sdk_config_at(&server.url()));
    let url = aws.create_queue("q", QueueSettings::default());
    for n in 0..MESSAGES {
        aws.send_event("q", &n.to_string());
    }
    let pollers = (0..8).map(|_| {
        let (sqs, url) = (sqs.clone(), url.clone());
        tokio::spawn(async move {
            let mut count = 0;
            loop {
                let received = sqs
                    .receive_message()
                    .queue_url(&url)
                    .max_number_of_messages(10)
                    .send()
                    .await
                    .unwrap();
                if received.messages().is_empty() {
                    return count;
                }
                count += received.messages().len();
                let entry = |(n, m): (usize, &aws_sdk_sqs::types::Message)| {
                    Entry::builder()
                        .id(n.to_string())
                        .receipt_handle(m.receipt_handle().unwrap())
                        .build()
                        .unwrap()
                };
                let entries = received.messages().iter().enumerate().map(entry).collect();
                sqs.delete_message_batch()
                    .queue_url(&url)
                    .set_entries(Some(entries))
                    .send()
                    .await
                    .unwrap();
            }
        })
    });
    let counts = futures::future::join_all(pollers).await;
    assert_eq!(counts.into_iter().map(Result::unwrap).sum::<usize>(), MESSAGES);
    assert_eq!(aws.queue("q").unwrap().messages, []);
    assert_eq!(aws.deletions().len(), MESSAGES);
}

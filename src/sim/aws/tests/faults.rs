use jiff::SignedDuration;

use super::*;
use crate::sim::{Side, Tripwire};

impl World {
    fn poll(
        &self,
    ) -> impl Future<
        Output = Result<aws_sdk_sqs::operation::receive_message::ReceiveMessageOutput, SqsError>,
    > {
        self.sqs.receive_message().queue_url(&self.url).wait_time_seconds(20).send()
    }
}

type SqsError =
    aws_sdk_sqs::error::SdkError<aws_sdk_sqs::operation::receive_message::ReceiveMessageError>;

#[tokio::test(start_paused = true)]
async fn each_service_refuses_in_its_own_words() {
    let w = World::new();
    let once = |api: &str, fault| w.aws.fault(FaultRule::new(api, fault, How::Times(1)));
    let group = || w.asg.describe_auto_scaling_groups().send();
    let instances = || w.ec2.describe_instances().send();
    once("*", Fault::Throttle);
    assert!(w.poll().await.unwrap_err().into_service_error().is_request_throttled());
    once("autoscaling:*", Fault::Throttle);
    assert_eq!(error(group().await).0, "Throttling");
    once("ec2:*", Fault::Throttle);
    assert_eq!(error(instances().await).0, "RequestLimitExceeded");
    once("ec2:*", Fault::ExpiredToken);
    assert_eq!(error(instances().await).0, "RequestExpired");
    once("autoscaling:*", Fault::ResourceContention);
    assert_eq!(error(group().await).0, "ResourceContention");
    once("autoscaling:*", Fault::AccessDenied);
    assert_eq!(error(group().await).0, "AccessDenied");
    once("sqs:*", Fault::AccessDenied);
    assert_eq!(error(w.poll().await).0, "AccessDenied");
    once("sqs:*", Fault::QueueMissing);
    assert!(w.poll().await.unwrap_err().into_service_error().is_queue_does_not_exist());
    once("sqs:*", Fault::InternalError);
    let failed = w.poll().await.unwrap_err();
    assert_eq!(failed.raw_response().map(|r| r.status().as_u16()), Some(500));
    once("sqs:*", Fault::Garbage);
    assert!(w.poll().await.is_err());
    w.aws.send_event("q", "x");
    assert_eq!(w.poll().await.unwrap().messages().len(), 1);
    assert_eq!(w.aws.counts()["sqs:ReceiveMessage"][&Outcome::Ok], 1);
}

#[tokio::test(start_paused = true)]
async fn calls_hang_are_cut_or_lose_their_answer() {
    let w = World::new();
    w.aws.send_event("q", "x");
    w.aws.fault(FaultRule::new("sqs:ReceiveMessage", Fault::Hang, How::Times(1)).about("q"));
    assert!(tokio::time::timeout(Duration::from_hours(5), w.poll()).await.is_err());
    w.aws.fault(FaultRule::new("sqs:*", Fault::Cut, How::Times(1)));
    assert!(matches!(
        w.poll().await.unwrap_err(),
        aws_sdk_sqs::error::SdkError::DispatchFailure(f) if f.is_io()
    ));
    assert_eq!(w.aws.queue("q").unwrap().visible, 1);
    w.aws.fault(FaultRule::new("sqs:*", Fault::CutAfterEffect, How::Times(1)));
    assert!(w.poll().await.is_err());
    assert_eq!(w.aws.queue("q").unwrap().in_flight, 1);
    w.aws.fault(FaultRule::new(
        "sqs:*",
        Fault::Latency(Duration::from_secs(3)),
        How::Until(epoch() + SignedDuration::from_hours(6)),
    ));
    let before = w.seconds();
    w.sqs.list_queues().send().await.unwrap();
    assert_eq!(w.seconds() - before, 3);
    let outcomes: Vec<_> = w.aws.calls().into_iter().map(|c| c.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::LostBefore, Outcome::LostBefore, Outcome::LostAfter, Outcome::Ok]
    );
    assert_eq!(
        (w.aws.calls()[3].by.as_str(), w.aws.calls()[0].object.as_str()),
        ("AKIASUNDOWN", "q")
    );
    // Whoever asked heard nothing of a refusal either.
    w.aws.fault(FaultRule::new("sqs:*", Fault::CutAfterEffect, How::Times(1)));
    assert!(w.sqs.get_queue_url().queue_name("none").send().await.is_err());
    assert_eq!(w.aws.calls()[4].outcome, Outcome::LostAfter);
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_a_request_id_and_the_date_of_its_clock() {
    let w = World::new();
    sleep(60).await;
    w.aws.skew(SignedDuration::from_secs(-5));
    let failed = w.sqs.get_queue_url().queue_name("none").send().await.unwrap_err();
    let headers = failed.raw_response().unwrap().headers();
    assert_eq!(headers.get("date"), Some("Thu, 01 Jan 2026 00:00:55 GMT"));
    assert_eq!(headers.get("x-amzn-requestid").map(str::len), Some(36));
    assert_eq!(headers.get("content-type"), Some("application/x-amz-json-1.0"));
    let failed = w.ec2.describe_instances().instance_ids("x").send().await.unwrap_err();
    assert_eq!(
        failed.raw_response().unwrap().headers().get("date"),
        Some("Thu, 01 Jan 2026 00:00:55 GMT")
    );
    w.aws.state_change_event("i-0123456789abcdef0", State::Running);
    assert_eq!(w.bodies()[0]["time"], "2026-01-01T00:00:55Z");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_cut_off_gets_no_answer_not_even_to_calls_in_flight() {
    let w = World::new();
    let hour = Duration::from_hours(1);
    let poll = tokio::time::timeout(hour, w.poll());
    let cut = async {
        sleep(5).await;
        w.aws.cut_off("AKIA");
        w.aws.send_event("q", "x");
    };
    assert!(tokio::join!(poll, cut).0.is_err());
    assert_eq!(w.aws.queue("q").unwrap().in_flight, 0, "it was received an hour ago, and is back");
    assert!(tokio::time::timeout(hour, w.sqs.list_queues().send()).await.is_err());
    let outcomes: Vec<_> = w.aws.calls().into_iter().map(|c| c.outcome).collect();
    assert_eq!(outcomes, [Outcome::LostAfter, Outcome::LostBefore]);
    w.aws.reconnect("AKIA");
    assert_eq!(w.poll().await.unwrap().messages().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_can_be_ended_before_a_call_and_after_it() {
    for (side, left) in [(Side::Before, 1), (Side::After, 0)] {
        let w = World::new();
        w.aws.send_event("q", "x");
        let tripwire = Tripwire::default();
        w.aws.tripwire(&tripwire);
        tripwire.arm("AKIASUNDOWN", Some((1, side)), || {});
        w.sqs.list_queues().send().await.unwrap();
        let purge = w.sqs.purge_queue().queue_url(&w.url).send();
        assert!(tokio::time::timeout(Duration::from_hours(1), purge).await.is_err());
        assert_eq!(w.bodies_left(), left, "{side:?}");
        let calls: Vec<_> = tripwire.calls().into_iter().map(|call| call.what).collect();
        assert_eq!(calls, ["sqs:ListQueues", "sqs:PurgeQueue"]);
    }
}

impl World {
    fn bodies_left(&self) -> usize {
        self.aws.queue("q").unwrap().messages.len()
    }
}

//! Traces, as a collector gets them: the built binary with the feature `otlp`, and a listener that
//! decodes what comes.
//!
//! `cargo test --features otlp --test otlp`: the binary is the one that cargo builds for it, so
//! SUNDOWN_BINARY must not name another.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::missing_panics_doc,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests: a panic is how they fail, and they run in real time"
)]

mod collector;
mod exporting;
#[allow(dead_code, reason = "what only other tests need of it")]
#[path = "../binary/process.rs"]
mod process;
#[allow(dead_code, reason = "what only other tests need of it")]
#[path = "../binary/stage.rs"]
mod stage;

use std::{fs, time::Duration};

use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use sundown::sim::kube::{BudgetSpec, PodSpec};

use self::{
    collector::{Away, Collector, text},
    process::Process,
    stage::Stage,
};

#[tokio::test(flavor = "multi_thread")]
async fn each_drain_is_a_trace_of_where_its_time_went() {
    let stage = Stage::new(90).await;
    let instances = stage.group(2);
    // Busy at first: what comes is kept and sent again.
    let collector = Collector::start(&[503, 200]).await;
    let headers = stage.folder.path().join("headers");
    fs::write(&headers, "X-Tenant: shop\n").unwrap();
    let node = stage.node_of(&instances[0]);
    stage.world.kube.add_pod(&PodSpec::on(&node, "shop", "free"));
    stage.world.kube.add_pod(&PodSpec::on(&node, "shop", "held").label("app", "held"));
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "held").max(0));
    let flags = [
        "--otlp-endpoint",
        &collector.url,
        "--otlp-headers-file",
        headers.to_str().unwrap(),
        "--drain-timeout",
        "30s",
    ];
    let mut sundown = stage.leader("sundown", &flags).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until("its hook is completed", || stage.is_completed(&instances[0])).await;
    stage.until("the trace has come", || collector.requests().len() > 1).await;
    let requests = collector.requests();
    let request = &requests[1];
    assert_eq!(
        (request.path.as_str(), request.headers["content-type"].as_str()),
        ("/v1/traces", "application/x-protobuf")
    );
    assert_eq!(request.headers["x-tenant"], "shop");
    assert_eq!(requests[0].traces, request.traces, "the same again");

    let resource = &request.traces.resource_spans[0];
    let of_resource = |name| text(&resource.resource.as_ref().unwrap().attributes, name);
    assert_eq!(
        (of_resource("service.name"), of_resource("k8s.cluster.name")),
        ("sundown".to_owned(), stage.world.cluster().to_owned())
    );
    let spans = &resource.scope_spans[0].spans;
    let named = |name: &str| spans.iter().filter(|s| s.name == name).collect::<Vec<_>>();
    assert_eq!(
        spans.iter().map(|s| s.name.as_str()).filter(|n| *n != "blocked").collect::<Vec<_>>(),
        ["drain", "accept", "evict", "complete"]
    );
    let (root, evict, blocked) = (named("drain")[0], named("evict")[0], named("blocked"));
    assert!(
        spans
            .iter()
            .all(|s| s.trace_id == root.trace_id && s.trace_id.len() == 16 && s.span_id.len() == 8)
    );
    assert!(root.parent_span_id.is_empty() && evict.parent_span_id == root.span_id);
    assert!(spans.iter().all(|s| s.start_time_unix_nano <= s.end_time_unix_nano
        && s.start_time_unix_nano >= root.start_time_unix_nano));
    let of_root = |name| text(&root.attributes, name);
    assert_eq!(
        (of_root("k8s.node.name"), of_root("host.id"), of_root("sundown.kind")),
        (node, instances[0].clone(), "terminate-hook".to_owned())
    );
    assert_eq!(
        (of_root("sundown.group"), of_root("sundown.evicted"), of_root("sundown.forced")),
        ("asg".to_owned(), "1".to_owned(), "1".to_owned())
    );
    let status = root.status.as_ref().map(|status| status.code);
    assert_eq!(
        (of_root("sundown.outcome"), status),
        ("empty".to_owned(), Some(StatusCode::Unset.into()))
    );
    let events: Vec<_> = evict
        .events
        .iter()
        .map(|e| (e.name.as_str(), text(&e.attributes, "sundown.pod")))
        .collect();
    assert_eq!(
        events,
        [
            ("cordoned", String::new()),
            ("first eviction", "shop/free".to_owned()),
            ("forced", "shop/held".to_owned())
        ]
    );
    assert!(blocked.iter().all(|s| s.parent_span_id == evict.span_id));
    let held = blocked
        .iter()
        .find(|s| text(&s.attributes, "sundown.reason") == "pdb")
        .expect("its budget held it");
    assert_eq!(text(&held.attributes, "sundown.pod"), "shop/held");
    assert!(
        held.end_time_unix_nano - held.start_time_unix_nano > 5_000_000_000,
        "it was held for half of the time and more"
    );
    assert_eq!(text(&named("complete")[0].events[0].attributes, "sundown.hook"), "drain");
    sundown
        .counts(
            "trace_spans_total{result=\"sent\"}",
            f64::from(u32::try_from(spans.len()).unwrap()),
        )
        .await;
    assert_eq!(sundown.metric("trace_spans_total{result=\"failed\"}").await.to_string(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_collector_does_not_take_is_counted_and_the_drain_is_as_ever() {
    let stage = Stage::new(91).await;
    let instances = stage.group(2);
    let collector = Collector::start(&[400]).await;
    let mut sundown = stage.leader("sundown", &["--otlp-endpoint", &collector.url]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until("its hook is completed", || stage.is_completed(&instances[0])).await;
    sundown.counts("trace_spans_total{result=\"failed\"}", 4.0).await;
    sundown.logged("Could not send traces").await;
    assert_eq!((collector.requests().len(), sundown.lines("Could not send traces").len()), (1, 1));
    assert!(collector.requests()[0].traces.resource_spans[0].scope_spans[0].spans.iter().all(
        |s| { s.status.as_ref().is_none_or(|status| status.code != i32::from(StatusCode::Error)) }
    ));
    sundown.signal("TERM");
    assert!(sundown.ended().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_holds_no_drain_and_no_end_up() {
    let stage = Stage::new(92).await;
    let instances = stage.group(2);
    let collector = Collector::start(&[]).await;
    let mut sundown = stage.leader("sundown", &["--otlp-endpoint", &collector.url]).await;
    for instance in &instances {
        stage.world.aws.terminate(instance, true);
        stage.until("its hook is completed", || stage.is_completed(instance)).await;
    }
    stage.until("it was asked", || !collector.requests().is_empty()).await;
    sundown.signal("TERM");
    assert!(sundown.ended().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_waits_for_a_collector_that_is_away_for_a_while() {
    let stage = Stage::new(93).await;
    let instances = stage.group(2);
    let away = Away::new();
    let mut command = stage.command(&["--otlp-endpoint", &away.url]);
    command.envs([
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-scope=shop"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other"),
    ]);
    let mut sundown = Process::start("sundown", stage.folder.path(), &mut command);
    sundown.counts("leader", 1.0).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until("its hook is completed", || stage.is_completed(&instances[0])).await;
    // The first attempt is a second after the end of the drain at most.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(sundown.metric("trace_spans_total{result=\"sent\"}").await.to_string(), "0");
    let collector = away.start();
    sundown.counts("trace_spans_total{result=\"sent\"}", 4.0).await;
    assert_eq!(sundown.metric("trace_spans_total{result=\"failed\"}").await.to_string(), "0");
    assert_eq!(sundown.lines("Could not send traces").len(), 0);
    let requests = collector.requests();
    assert_eq!((requests.len(), collector.spans().len()), (1, 4));
    assert_eq!(requests[0].headers["x-scope"], "shop");
    let resource = requests[0].traces.resource_spans[0].resource.as_ref().unwrap();
    let attribute = |name| text(&resource.attributes, name);
    assert_eq!(
        (attribute("deployment.environment.name"), attribute("service.name")),
        ("test".to_owned(), "sundown".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_is_queued_at_the_end_is_sent() {
    let stage = Stage::new(94).await;
    let instances = stage.group(2);
    let collector = Collector::start(&[200]).await;
    let mut sundown = stage.leader("sundown", &["--otlp-endpoint", &collector.url]).await;
    stage.world.aws.terminate(&instances[0], true);
    sundown.counts("records_total{event=\"released\"}", 1.0).await;
    sundown.signal("TERM");
    assert!(sundown.ended().await.success());
    assert_eq!(collector.spans().len(), 4);
    assert_eq!(sundown.lines("Could not send all traces").len(), 0);
}

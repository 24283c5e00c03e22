//! The HTTP endpoints, and what the process does while AWS or Kubernetes is away.

use sundown::sim::http::loopback;

use crate::{
    process::{Folder, run, sundown},
    stage::Stage,
};

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_probes_are_served_and_nothing_else() {
    let stage = Stage::new(10).await;
    stage.group(3);
    let mut sundown = stage.leader("sundown", &[]).await;
    assert_eq!(sundown.get("/livez").await, (200, "ok\n".to_owned()));
    // Who leads is ready when the queue has answered.
    sundown.answers("/readyz", "it is ready", |status, text| (status, text) == (200, "ok\n")).await;
    sundown.counts("nodes", 3.0).await;
    let (status, text) = sundown.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(text.ends_with("# EOF\n"), "OpenMetrics end with it");
    assert_eq!(sundown.metric("leader").await.to_string(), "1");
    assert_eq!(sundown.get("/").await.0, 404);
    assert_ne!(sundown.address_of("/metrics").await, sundown.address_of("/livez").await);
}

/// An address on which no process listens.
async fn nowhere() -> String {
    let listener = loopback().await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_queue_is_reported_by_readyz_and_ends_nothing() {
    let stage = Stage::new(11).await;
    stage.group(2);
    let elsewhere = nowhere().await;
    let mut sundown = stage.start("sundown", &["--aws-endpoint-url", &elsewhere]);
    // The queue alone, and why: nodes and budgets are reported as well until they are listed.
    let queue_alone = |text: &str| {
        text.lines().count() == 1 && text.starts_with("queue: ") && text.contains("cannot be asked")
    };
    sundown
        .answers("/readyz", "only the queue cannot be reached", |status, text| {
            status == 503 && queue_alone(text)
        })
        .await;
    // It leads and goes on trying to receive.
    sundown.counts("leader", 1.0).await;
    sundown.counts("intake_events_total{event=\"receive_failed\"}", 2.0).await;
    assert_eq!(sundown.get("/livez").await.0, 200, "AWS's absence is no reason for a restart");
    assert!(sundown.is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_does_not_exist_is_reported_by_readyz_and_comes_back() {
    let stage = Stage::new(12).await;
    stage.group(1);
    stage.world.aws.delete_queue(stage.world.queue());
    let mut sundown = stage.start("sundown", &[]);
    sundown
        .answers("/readyz", "the queue is not there", |status, text| {
            status == 503 && text.contains("queue: ")
        })
        .await;
    stage.world.aws.create_queue(stage.world.queue(), sundown::sim::aws::QueueSettings::default());
    sundown.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_away_is_reported_by_readyz_and_ends_nothing() {
    let stage = Stage::new(13).await;
    let away = stage.folder.path().join("away");
    let address = nowhere().await.trim_start_matches("http://").parse().unwrap();
    std::fs::write(&away, sundown::sim::kube::EmbeddedKube::kubeconfig(address)).unwrap();
    let mut process = stage.start("sundown", &["--kubeconfig", away.to_str().unwrap()]);
    let text = process
        .answers("/readyz", "the nodes are not known", |status, text| {
            status == 503 && text.contains("nodes: ")
        })
        .await;
    assert!(text.contains("budgets: "), "{text}");
    process.answers("/readyz", "the queue can be asked", |_, text| !text.contains("queue: ")).await;
    assert_eq!(process.get("/livez").await.0, 200);
    assert_eq!(
        stage.world.aws.count("sqs:ReceiveMessage"),
        0,
        "it does not lead, so it does not receive"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_kubeconfig_it_ends_and_reports_what_to_do() {
    let folder = Folder::new();
    let queue = "https://sqs.eu-west-1.amazonaws.com/123456789012/q";
    let output = run(
        folder.path(),
        sundown(folder.path()).args([
            "run",
            "--queue-url",
            queue,
            "--metrics-listen",
            "off",
            "--probe-listen",
            "off",
        ]),
    )
    .await;
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(
        output.err.contains("--kubeconfig") && output.err.contains("service account"),
        "{}",
        output.err
    );
    let missing = folder.path().join("no-such-file");
    let output = run(
        folder.path(),
        sundown(folder.path()).args(["run", "--queue-url", queue, "--kubeconfig"]).arg(&missing),
    )
    .await;
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(
        output.err.contains("no-such-file") && output.err.contains("kubeconfig"),
        "{}",
        output.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listen_address_that_is_taken_ends_it_with_the_flag_in_the_error() {
    let stage = Stage::new(14).await;
    let taken = loopback().await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--metrics-listen", "--probe-listen"] {
        let output = run(stage.folder.path(), &mut stage.command(&[flag, &address])).await;
        assert_eq!(output.code, Some(1), "{}", output.err);
        assert!(output.err.contains(&address) && output.err.contains(flag), "{}", output.err);
    }
}

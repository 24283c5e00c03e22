//! A queue full of what is for others, with a third for nodes of ours and without.

use std::time::Instant;

use sundown::{domain::Moment, sim::aws::QueueSettings};

use super::{
    audit::kinds,
    bench::{Bench, RUNS, bare_accept, median, spent, until_last},
    burst::accepts,
};
use crate::{
    control_plane::node_name,
    flood::{body, strangers, take_all},
    report::{Bar, Baseline, Figure},
    stage::block_on,
};

const MESSAGES: usize = 15_000;
const NODES: usize = 1000;

pub fn flood() -> Vec<Figure> {
    block_on(async {
        let mut figures = mixed().await;
        figures.push(foreign().await);
        figures
    })
}

/// Puts the messages on a queue; every third is a spot notice for one of `ours`, if there are any.
fn send(bench: &Bench, queue: &str, strangers: &[String], ours: &[String]) {
    for i in 0..MESSAGES {
        let (kind, instances) = if i % 3 == 0 && !ours.is_empty() { (2, ours) } else { (i, strangers) };
        // Each of them comes up in turn, whatever the length of the list.
        bench.stage.world.aws.send_event(queue, &body(kind, &instances[i / 3 % instances.len()]));
    }
}

/// Seconds that the queue alone takes to give them all.
async fn receive(bench: &Bench, strangers: &[String], delete: bool, run: usize) -> f64 {
    let name = format!("bare-{run}");
    let url = bench.stage.world.aws.create_queue(&name, QueueSettings::default());
    send(bench, &name, strangers, &[]);
    let sqs = aws_sdk_sqs::Client::new(&bench.stage.world.aws.sdk_config_at(&bench.stage.aws_url()));
    let begun = Instant::now();
    take_all(sqs, url, delete).await;
    begun.elapsed().as_secs_f64()
}

async fn mixed() -> Vec<Figure> {
    let mut bench = Bench::start().await;
    let strangers = strangers(&bench.stage.world);
    let (mut ours, mut bare, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        let instances = bench.instances(NODES);
        bench.nodes(&instances, 0, false).await;
        let (audit, begun) = (bench.audit(), Moment::now());
        bench.all_as_sundown(instances.iter().map(|i| bare_accept(i))).await;
        let patches = until_last(begun, audit.calls().iter().filter(|c| c.did("patch", "nodes")));
        bench.clear().await;
        bare.push(patches + receive(&bench, &strangers, false, run).await);

        let instances = bench.instances(NODES);
        bench.nodes(&instances, 0, false).await;
        let mut service = bench.stage.leader("sundown", &[]).await;
        service.answers("/metrics", "it knows the nodes", |_, text| text.contains(&format!("\nsundown_nodes {NODES}\n"))).await;
        let (cpu, audit, begun) = (bench.cpu(Some(&service)), bench.audit(), Moment::now());
        send(&bench, bench.stage.world.queue(), &strangers, &instances);
        bench.until_all_is_deleted().await;
        let cpu = spent(&cpu, &bench.cpu(Some(&service)));
        let calls = audit.calls();
        let accepts = accepts(&calls);
        assert!(instances.iter().all(|i| accepts.contains_key(&node_name(i))), "every node is cordoned");
        let deleted = bench.stage.world.aws.calls().iter().rev().find(|c| c.api == "sqs:DeleteMessageBatch").unwrap().at;
        let cordoned = until_last(begun, accepts.into_values());
        ours.push(cordoned);
        all.push(cordoned.max(deleted.duration_since(begun).as_secs_f64()));
        let end = begun.checked_add(jiff::SignedDuration::from_secs_f64(ours[run])).unwrap();
        let calls = kinds(&calls, end);
        eprintln!(
            "  run {}: {cordoned:.2} s (all deleted after {:.2} s), bare {:.2} s; CPU: {cpu}; answered meanwhile: {calls:?}",
            run + 1,
            all[run],
            bare[run]
        );
        bench.stop(service).await;
        bench.clear().await;
    }
    let bare = Baseline { what: "a bare client: the PATCHes, and the receives of as many messages", value: median(bare), floor: Bar::Most(10.0) };
    let what = |what| format!("{MESSAGES} messages, a third of them for {NODES} nodes: {what} after, median of {RUNS}");
    let cordoned = Figure {
        name: "real-flood-known",
        what: what("the last cordoned"),
        value: median(ours),
        unit: "s",
        bar: Bar::Most(1.25 * bare.value),
        baseline: Some(bare.clone()),
    };
    // The bare client deletes nothing.
    let deleted =
        Figure { name: "real-flood-deleted", what: what("all deleted too"), value: median(all), unit: "s", bar: Bar::None, baseline: Some(bare) };
    vec![cordoned, deleted]
}

async fn foreign() -> Figure {
    let bench = Bench::start().await;
    let strangers = strangers(&bench.stage.world);
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        bare.push(MESSAGES as f64 / receive(&bench, &strangers, true, run).await);
        let service = bench.stage.leader("sundown", &[]).await;
        let begun = Moment::now();
        send(&bench, bench.stage.world.queue(), &strangers, &[]);
        bench.until_all_is_deleted().await;
        let deleted = bench.stage.world.aws.calls().iter().rev().find(|c| c.api == "sqs:DeleteMessageBatch").unwrap().at;
        bench.stop(service).await;
        ours.push(MESSAGES as f64 / deleted.duration_since(begun).as_secs_f64());
    }
    Figure {
        name: "real-flood",
        what: format!("{MESSAGES} messages about {NODES} instances of another cluster, decided and deleted, median of {RUNS}"),
        value: median(ours),
        unit: "/s",
        bar: Bar::Least(10_000.0),
        baseline: Some(Baseline { what: "a bare client: receive and delete over 16 connections", value: median(bare), floor: Bar::Least(12_000.0) }),
    }
}

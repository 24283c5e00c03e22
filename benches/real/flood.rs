//! A queue full of what is for others, with a third for nodes of ours and without.

use sundown::{domain::Moment, sim::aws::QueueSettings};

use super::{
    audit::kinds,
    bench::{Bench, bare_accept, spent, until_last},
    burst::accepts,
};
use crate::{
    bare::{Bare, Job, Messages, PATCHES},
    control_plane::node_name,
    flood::{body, strangers},
    report::{Bar, Baseline, Figure, Measured, median},
    runs,
    stage::block_on,
};

const MESSAGES: usize = 15_000;
const NODES: usize = 1000;

pub fn flood_known() -> Vec<Figure> {
    block_on(mixed())
}

pub fn flood() -> Vec<Figure> {
    vec![block_on(foreign())]
}

/// Puts the messages on a queue; every third is a spot notice for one of `ours`, if there are any.
fn send(bench: &Bench, queue: &str, strangers: &[String], ours: &[String]) {
    for i in 0..MESSAGES {
        let (kind, instances) =
            if i % 3 == 0 && !ours.is_empty() { (2, ours) } else { (i, strangers) };
        // Each of them comes up in turn, whatever the length of the list.
        bench.stage.world.aws.send_event(queue, &body(kind, &instances[i / 3 % instances.len()]));
    }
}

/// Seconds that the queue alone takes to give them all.
async fn receive(bench: &Bench, strangers: &[String], delete: bool, run: usize) -> f64 {
    let name = format!("bare-{run}");
    let queue = bench.stage.world.aws.create_queue(&name, QueueSettings::default());
    send(bench, &name, strangers, &[]);
    Bare::start(Job::Messages(Messages { endpoint: bench.stage.aws_url(), queue, delete }))
        .await
        .run()
        .await
        .seconds
}

async fn mixed() -> Vec<Figure> {
    let mut bench = Bench::start().await;
    let strangers = strangers(&bench.stage.world);
    let (mut ours, mut bare, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs() {
        let instances = bench.instances(NODES);
        bench.nodes(&instances, 0, false).await;
        let client = bench.bare(PATCHES, instances.iter().map(|i| bare_accept(i))).await;
        let (audit, begun) = (bench.audit(), Moment::from(jiff::Timestamp::now()));
        client.run().await;
        let patches = until_last(begun, audit.calls().iter().filter(|c| c.did("patch", "nodes")));
        bench.clear().await;
        bare.push(patches + receive(&bench, &strangers, false, run).await);

        let instances = bench.instances(NODES);
        bench.nodes(&instances, 0, false).await;
        let mut service = bench.stage.leader("sundown", &[]).await;
        service
            .answers("/metrics", "it knows the nodes", |_, text| {
                text.contains(&format!("\nsundown_nodes {NODES}\n"))
            })
            .await;
        let (cpu, audit, begun) =
            (bench.cpu(Some(&service)), bench.audit(), Moment::from(jiff::Timestamp::now()));
        send(&bench, bench.stage.world.queue(), &strangers, &instances);
        bench.until_all_is_deleted().await;
        let cpu = spent(&cpu, &bench.cpu(Some(&service)));
        let calls = audit.calls();
        let accepts = accepts(&calls);
        assert!(
            instances.iter().all(|i| accepts.contains_key(&node_name(i))),
            "every node is cordoned"
        );
        let deleted = bench
            .stage
            .world
            .aws
            .calls()
            .iter()
            .rev()
            .find(|c| c.api == "sqs:DeleteMessageBatch")
            .unwrap()
            .at;
        let cordoned = until_last(begun, accepts.into_values());
        ours.push(cordoned);
        all.push(cordoned.max(deleted.duration_since(begun).as_secs_f64()));
        let end = begun + jiff::SignedDuration::from_secs_f64(ours[run]);
        let calls = kinds(&calls, end);
        eprintln!(
            "  run {}: {cordoned:.2} s (all deleted after {:.2} s), bare {:.2} s; CPU: {cpu}; \
             answered meanwhile: {calls:?}",
            run + 1,
            all[run],
            bare[run]
        );
        bench.stop(service).await;
        bench.clear().await;
    }
    let bare = Baseline {
        what: "the PATCHes by a bare client, then the receives of as many messages, 16 at once",
        value: median(bare),
        floor: Bar::Most(10.0),
    };
    let what =
        |what| format!("{MESSAGES} messages, a third of them for {NODES} nodes: until {what}");
    let cordoned = Figure {
        name: "real-flood-known",
        what: what("the last node is cordoned"),
        measured: Measured::median(ours),
        unit: "s",
        bar: Bar::None,
        ratio: Bar::Most(1.25),
        baseline: Some(bare.clone()),
    };
    // The bare client deletes nothing.
    let deleted = Figure {
        name: "real-flood-deleted",
        what: what("all messages are deleted too"),
        measured: Measured::median(all),
        unit: "s",
        bar: Bar::None,
        ratio: Bar::Most(3.0),
        baseline: Some(bare),
    };
    vec![cordoned, deleted]
}

async fn foreign() -> Figure {
    let bench = Bench::start().await;
    let strangers = strangers(&bench.stage.world);
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for run in 0..runs() {
        bare.push(MESSAGES as f64 / receive(&bench, &strangers, true, run).await);
        let service = bench.stage.leader("sundown", &[]).await;
        let begun = Moment::from(jiff::Timestamp::now());
        send(&bench, bench.stage.world.queue(), &strangers, &[]);
        bench.until_all_is_deleted().await;
        let deleted = bench
            .stage
            .world
            .aws
            .calls()
            .iter()
            .rev()
            .find(|c| c.api == "sqs:DeleteMessageBatch")
            .unwrap()
            .at;
        bench.stop(service).await;
        ours.push(MESSAGES as f64 / deleted.duration_since(begun).as_secs_f64());
    }
    Figure {
        name: "real-flood",
        what: format!(
            "{MESSAGES} messages about {NODES} instances of another cluster, decided and deleted"
        ),
        measured: Measured::median(ours),
        unit: "/s",
        bar: Bar::Least(10_000.0),
        ratio: Bar::Least(0.33),
        baseline: Some(Baseline {
            what: "received and deleted by a bare client, 16 of each at once",
            value: median(bare),
            floor: Bar::Least(12_000.0),
        }),
    }
}

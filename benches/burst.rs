//! A thousand spot notices at once.

use http::Method;
use serde_json::{Value, json};
use sundown::sim::aws::SpotAction;

use crate::{
    bare::{Bare, Job, PATCHES, Plain, Requests, Took},
    report::{Bar, Baseline, Figure},
    stage::{Stage, block_on, settings},
};

const NODES: usize = 1000;

pub fn burst() -> Vec<Figure> {
    block_on(async {
        let bare = accept_all(NODES).await;
        let stage = Stage::new("burst", settings()).await;
        let instances = stage.spot_group(NODES);
        let service = stage.service().await;
        let begun = stage.clock.now();
        for instance in &instances {
            stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        stage.until("every message is deleted", || stage.in_queue() == 0).await;
        assert_eq!(stage.records(), NODES, "none is lost");
        let requests = stage.asked(begun);
        let accepts = requests.iter().filter(|r| r.verb == "patch" && r.resource == "nodes");
        let last = accepts.filter_map(|r| r.answered).max().unwrap();
        // Drains look at pods after their accept, and Events and the Lease are asides.
        let for_nodes = requests.iter().filter(|r| r.resource == "nodes" && r.at <= last).count();
        let calls = for_nodes + stage.called(begun).len();
        drop(service);
        vec![
            Figure {
                name: "burst",
                what: format!("{NODES} spot notices at once: until the last one is accepted"),
                measured: last.since_or_zero(begun).as_secs_f64().into(),
                unit: "s",
                bar: Bar::Most(5.0),
                ratio: Bar::Most(3.5),
                baseline: Some(Baseline {
                    what: "the same PATCHes by a bare client, 48 at once",
                    value: bare.seconds,
                    floor: Bar::Most(2.5),
                }),
            },
            Figure {
                name: "burst-calls",
                what: "calls a message up to its accept in that burst, its delete included"
                    .to_owned(),
                measured: (calls as f64 / NODES as f64).into(),
                unit: "calls",
                bar: Bar::Most(2.0),
                ratio: Bar::None,
                baseline: None,
            },
        ]
    })
}

/// The PATCHes alone: what the API server needs for them, and a client that decides nothing.
async fn accept_all(nodes: usize) -> Took {
    let stage = Stage::new("bare", settings()).await;
    stage.spot_group(nodes);
    let all = stage.world.kube.objects("nodes").iter().map(accept).collect();
    let job = Job::Requests(Requests { kubeconfig: stage.kubeconfig(), width: PATCHES, all });
    Bare::start(job).await.run().await
}

/// What an accept writes, under other keys.
pub fn accept(node: &Value) -> Plain {
    let record = json!({
        "version": 1,
        "interruptions": [{
            "kind": "spot", "event": "12345678-1234-1234-1234-123456789012",
            "at": "2026-03-04T05:06:07Z"
        }]
    });
    let meta = json!({
        "resourceVersion": node.pointer("/metadata/resourceVersion"),
        "annotations": {"example.com/record": record.to_string()},
        "labels": {"example.com/excluded": "yes"},
    });
    let taint = json!({"key": "example.com/interruption", "value": "spot", "effect": "NoSchedule"});
    let body = json!({"metadata": meta, "spec": {"unschedulable": true, "taints": [taint]}});
    let name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap();
    Plain::new(&Method::PATCH, format!("/api/v1/nodes/{name}"), &body)
}

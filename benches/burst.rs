//! A thousand spot notices at once.

use futures::{StreamExt, stream};
use serde_json::json;
use std::time::{Duration, Instant};
use sundown::{domain::MomentExt as _, sim::aws::SpotAction};

use crate::{
    report::{Bar, Baseline, Figure},
    stage::{Stage, block_on, settings},
};

const NODES: usize = 1000;

pub fn burst() -> Vec<Figure> {
    block_on(async {
        let bare = bare().await;
        let stage = Stage::new("burst", settings()).await;
        let instances = stage.spot_group(NODES);
        let service = stage.service().await;
        let begun = stage.clock.now();
        for instance in &instances {
            stage.world.aws.spot_interruption(instance, SpotAction::Terminate);
        }
        stage.until("every message is deleted", || stage.in_queue() == 0).await;
        let with_record = |n: &serde_json::Value| n.pointer("/metadata/annotations/sundown.dev~1record").is_some();
        let nodes = stage.world.kube.objects("nodes");
        assert_eq!(nodes.iter().filter(|n| with_record(n)).count(), NODES, "none is lost");
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
                what: format!("{NODES} spot notices at once, the last accepted after"),
                value: last.since_or_zero(begun).as_secs_f64(),
                unit: "s",
                bar: Bar::Most(5.0),
                baseline: Some(Baseline {
                    what: "a bare client: the same PATCHes over 32 connections",
                    value: bare.as_secs_f64(),
                    floor: Bar::Most(2.5),
                }),
            },
            Figure {
                name: "burst-calls",
                what: "calls a message up to its accept, its delete included, in that burst".to_owned(),
                value: calls as f64 / NODES as f64,
                unit: "calls",
                bar: Bar::Most(3.0),
                baseline: None,
            },
        ]
    })
}

/// The PATCHes alone: what the API server and a client without any thought need for them.
async fn bare() -> Duration {
    let stage = Stage::new("bare", settings()).await;
    stage.spot_group(NODES);
    let client = stage.bare_kube();
    let record =
        json!({"version": 1, "interruptions": [{"kind": "spot", "event": "12345678-1234-1234-1234-123456789012", "at": "2026-03-04T05:06:07Z"}]});
    let patch = |node: &serde_json::Value| {
        let meta = json!({
            "resourceVersion": node.pointer("/metadata/resourceVersion"),
            "annotations": {"example.com/record": record.to_string()},
            "labels": {"example.com/excluded": "yes"},
        });
        let taint = json!({"key": "example.com/interruption", "value": "spot", "effect": "NoSchedule"});
        let body = json!({"metadata": meta, "spec": {"unschedulable": true, "taints": [taint]}});
        let name = node.pointer("/metadata/name").and_then(|n| n.as_str()).unwrap();
        let request = http::Request::patch(format!("/api/v1/nodes/{name}")).header("content-type", "application/merge-patch+json");
        request.body(serde_json::to_vec(&body).unwrap()).unwrap()
    };
    let requests: Vec<_> = stage.world.kube.objects("nodes").iter().map(patch).collect();
    let begun = Instant::now();
    let answers = stream::iter(requests).map(|request| client.request_text(request)).buffer_unordered(32);
    answers.for_each(|answer| async move { drop(answer.unwrap()) }).await;
    begun.elapsed()
}

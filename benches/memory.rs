//! The size of the binary and of its process.

use std::{fs, time::Duration};

use sundown::sim::{
    aws::{Fault, FaultRule, How},
    kube::{Options, PodShape, PodSpec},
};

use crate::{
    process::{Process, binary},
    report::{Bar, Baseline, Figure},
    stage::{Stage, block_on, settings},
    system::memory,
};

const MB: f64 = 1e6;

pub fn size() -> Vec<Figure> {
    let bytes = fs::metadata(binary()).unwrap().len();
    vec![Figure {
        name: "size",
        what: "the binary, stripped".to_owned(),
        measured: (bytes as f64 / MB).into(),
        unit: "MB",
        bar: Bar::Most(25.0),
        ratio: Bar::None,
        baseline: None,
    }]
}

/// A line of `/proc/PROCESS/status`, in MB.
pub fn status(process: &Process, field: &str) -> f64 {
    memory(process.id(), field)
}

/// The service with nothing to know and nothing to do.
pub async fn idle() -> Baseline {
    let stage = Stage::new("idle", settings()).await;
    let service = stage.service().await;
    Baseline {
        what: "the process in an empty cluster",
        value: status(&service, "VmRSS"),
        floor: Bar::Most(20.0),
    }
}

pub fn nodes() -> Vec<Figure> {
    const NODES: usize = 5000;
    block_on(async {
        let baseline = idle().await;
        let mut world = settings();
        world.node_kib = 16;
        world.kube = Options { history: 64, ..world.kube };
        let stage = Stage::new("nodes", world).await;
        stage.spot_group(NODES);
        let mut service = stage.service().await;
        service.counts("nodes", NODES as f64).await;
        // The promise is about then.
        tokio::time::sleep(Duration::from_mins(1)).await;
        vec![Figure {
            name: "memory-nodes",
            what: format!(
                "resident 60 s after sync with {NODES} nodes of 16 KiB (peak {:.1})",
                status(&service, "VmHWM")
            ),
            measured: status(&service, "VmRSS").into(),
            unit: "MB",
            bar: Bar::Most(30.0),
            ratio: Bar::None,
            baseline: Some(baseline),
        }]
    })
}

pub fn drains() -> Vec<Figure> {
    const NODES: usize = 1000;
    const PODS: usize = 30;
    block_on(async {
        let baseline = idle().await;
        let stage = Stage::new("drains", settings()).await;
        let instances = stage.group(NODES);
        // They go slowly, so that all drains are under way at once.
        let shape = PodShape { kib: 8, stop: Some(Duration::from_secs(25)), ..PodShape::default() };
        for (instance, node) in stage.world.nodes() {
            for i in 0..PODS {
                stage.world.kube.add_pod(
                    &PodSpec::on(&node, "shop", format!("pod-{instance}-{i}")).shape(shape.clone()),
                );
            }
        }
        let mut service = stage.service().await;
        for instance in &instances {
            stage.world.aws.terminate(instance, true);
        }
        service.counts("drains_active", NODES as f64).await;
        let completed = || stage.world.aws.actions().iter().filter(|a| a.end.is_some()).count();
        stage.until("every hook is completed", || completed() == NODES).await;
        stage.went_well();
        vec![Figure {
            name: "memory-drains",
            what: format!("peak with {NODES} drains of {PODS} pods of 8 KiB at once"),
            measured: status(&service, "VmHWM").into(),
            unit: "MB",
            bar: Bar::Most(64.0),
            ratio: Bar::None,
            baseline: Some(baseline),
        }]
    })
}

/// A flood of large messages that nobody can decide, because EC2 throttles. Small ones come first,
/// so that as many receives as there may be are under way when the first large one comes.
pub fn bodies() -> Vec<Figure> {
    const SMALL: usize = 2000;
    const LARGE: usize = 600;
    const BYTES: usize = 900_000;
    block_on(async {
        let baseline = idle().await;
        let stage = Stage::new("bodies", settings()).await;
        stage.spot_group(10);
        stage.world.aws.fault(FaultRule::new(
            "ec2:DescribeInstances",
            Fault::Throttle,
            How::Always,
        ));
        for n in 0..SMALL + LARGE {
            let notice = crate::flood::body(2, &format!("i-{n:017x}"));
            let padding = if n < SMALL { 0 } else { BYTES - notice.len() };
            let (head, tail) = notice.split_at(1);
            stage.world.aws.send_event(
                stage.world.queue(),
                &format!(r#"{head}"padding":"{}",{tail}"#, "x".repeat(padding)),
            );
        }
        let mut service = stage.start();
        service.ready().await;
        service.counts("messages_held", (SMALL + LARGE) as f64).await;
        let peak = status(&service, "VmHWM");
        vec![Figure {
            name: "memory-bodies",
            what: format!(
                "peak above idle with {SMALL} small messages and {LARGE} of {:.1} MB that nobody \
                 can decide ({peak:.1} in all; {:.1} resident then)",
                BYTES as f64 / MB,
                status(&service, "VmRSS")
            ),
            measured: (peak - baseline.value).into(),
            unit: "MB",
            bar: Bar::Most(64.0),
            ratio: Bar::None,
            baseline: Some(baseline),
        }]
    })
}

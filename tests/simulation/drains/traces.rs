//! Traces: one for each drain, from the one who ended it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use sundown::{
    controller::Sinks,
    observe::traces::{Trace, TraceSink, Value},
};

use super::{Scene, graceful};
use crate::harness::Stage;

/// The traces of the replicas that start from now on.
#[derive(Debug, Default)]
struct Traces(Mutex<Vec<Trace>>);

impl TraceSink for Traces {
    fn send(&self, trace: Trace) {
        self.0.lock().unwrap().push(trace);
    }

    fn shutdown(&self, _: Duration) {}
}

fn collector(stage: &Stage) -> Arc<Traces> {
    let traces = Arc::<Traces>::default();
    let tracer = Some(Arc::clone(&traces) as Arc<dyn TraceSink>);
    *stage.sinks.borrow_mut() = Sinks { tracer, ..Sinks::default() };
    traces
}

fn all(traces: &Traces) -> Vec<Trace> {
    std::mem::take(&mut *traces.0.lock().unwrap())
}

fn attribute<'a>(trace: &'a Trace, name: &str) -> Option<&'a Value> {
    trace.spans[0].attributes.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_reported_once_when_all_is_done() {
    let stage = Stage::new(197);
    let instances = stage.group(3, 300);
    let collected = collector(&stage);
    let scene = Scene::led(stage, instances, &[]).await;
    scene.pod(0, "web-0", graceful(30, 20));
    scene.stage.pass(5).await;
    let cordoned = scene.terminate(0).await;
    let completed = scene.completed(0, 120).await;
    scene.stage.pass(30).await;
    let traces = all(&collected);
    assert_eq!(traces.len(), 1, "{traces:?}");
    let trace = &traces[0];
    let names: Vec<_> = trace.spans.iter().map(|s| s.name).collect();
    assert_eq!(names, ["drain", "accept", "evict", "complete"]);
    assert_eq!(
        trace.spans[2].events.iter().map(|e| e.name).collect::<Vec<_>>(),
        ["cordoned", "first eviction"]
    );
    let seconds = |from, to: sundown::domain::Moment| to.duration_since(from).as_secs_f64();
    assert!(
        seconds(cordoned, trace.spans[1].end).abs() < 1.0
            && seconds(completed, trace.spans[3].end).abs() < 2.0,
        "{trace:?}"
    );
    assert!(
        seconds(trace.spans[2].start, trace.spans[2].end) >= 20.0,
        "its pod takes as long to stop"
    );
    assert_eq!(
        (attribute(trace, "sundown.taken_over"), attribute(trace, "sundown.evicted")),
        (Some(&Value::Flag(false)), Some(&Value::Number(1)))
    );
    assert_eq!(trace.spans[3].events.len(), 1);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_drain_over_tells_the_whole_of_it_under_the_same_id() {
    let stage = Stage::new(198);
    let instances = stage.group(3, 300);
    let first = collector(&stage);
    let scene = Scene::led(stage, instances, &[]).await;
    scene.pod(0, "web-0", graceful(60, 50));
    scene.stage.pass(5).await;
    let cordoned = scene.terminate(0).await;
    scene.stage.pass(10).await;
    scene.sundown.end();
    let second = collector(&scene.stage);
    let next = scene.stage.start("sundown-1", &[]);
    scene.completed(0, 200).await;
    scene.stage.pass(30).await;
    assert!(all(&first).is_empty(), "who is gone tells nothing");
    let traces = all(&second);
    assert_eq!(
        (traces.len(), attribute(&traces[0], "sundown.taken_over")),
        (1, Some(&Value::Flag(true)))
    );
    assert!(
        traces[0].spans[1].end.duration_since(cordoned).as_secs_f64().abs() < 1.0,
        "from the cordon on, which another made"
    );
    next.stop().await;
    scene.stage.end();
}

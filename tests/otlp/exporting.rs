//! The exporter alone, on the library: what it queues, sends and counts.

use std::{sync::Arc, time::Duration};

use sundown::{
    domain::Moment,
    observe::{
        LabelValues, Metrics,
        traces::{ExporterParts, Settings, Span, Trace, TraceSink as _, Tracer, start},
    },
};

use crate::collector::{Answer, Collector};

/// How many spans the queue holds.
const QUEUE: usize = 1024;
/// Longer than the exporter waits for more spans, and longer than it takes on a busy machine.
const LONG: Duration = Duration::from_mins(1);

fn tracer(collector: &Collector) -> (Tracer, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new(&LabelValues::default()));
    let parts = ExporterParts {
        settings: Settings::at(&collector.url, None),
        cluster: None,
        instance: "test".to_owned(),
        metrics: Arc::clone(&metrics),
    };
    (start(parts).unwrap(), metrics)
}

/// A trace of four spans, as that of a drain is at least.
fn trace(number: u8) -> Trace {
    let span = |id: u8| Span {
        id: [id; 8],
        parent: (id > 1).then_some([1; 8]),
        name: "drain",
        start: Moment::UNIX_EPOCH,
        end: Moment::UNIX_EPOCH,
        attributes: vec![],
        events: vec![],
        dropped_events: 0,
        failed: None,
    };
    Trace { id: [number; 16], spans: (1..=4).map(span).collect() }
}

async fn end(tracer: Tracer, limit: Duration) {
    tokio::task::spawn_blocking(move || tracer.shutdown(limit)).await.unwrap();
}

fn spans(metrics: &Metrics, result: &str) -> usize {
    let start = format!("sundown_trace_spans_total{{result=\"{result}\"}} ");
    let text = metrics.render().unwrap();
    text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_does_not_fit_into_the_queue_is_dropped_and_its_spans_are_counted() {
    let collector = Collector::start(&[]).await;
    let (tracer, metrics) = tracer(&collector);
    tracer.send(trace(1));
    // From now on the exporter waits for an answer, and takes nothing from the queue.
    until("the first trace is sent", || !collector.requests().is_empty()).await;
    for _ in 0..QUEUE / 4 {
        tracer.send(trace(2));
    }
    assert_eq!(spans(&metrics, "dropped"), 0);
    for _ in 0..3 {
        tracer.send(trace(3));
    }
    assert_eq!(spans(&metrics, "dropped"), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_sent_at_the_end() {
    let collector = Collector::start(&[200]).await;
    let (tracer, metrics) = tracer(&collector);
    for number in 1..=200 {
        tracer.send(trace(number));
    }
    end(tracer, LONG).await;
    assert_eq!((collector.spans().len(), spans(&metrics, "sent")), (800, 800));
    assert_eq!((spans(&metrics, "failed"), spans(&metrics, "dropped")), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_delays_the_end_no_longer_than_its_limit() {
    let collector = Collector::start(&[]).await;
    let (tracer, metrics) = tracer(&collector);
    tracer.send(trace(1));
    until("it is sent", || !collector.requests().is_empty()).await;
    tracer.send(trace(2));
    let end = end(tracer, Duration::from_millis(100));
    tokio::time::timeout(Duration::from_secs(4), end).await.expect("its limit ends it");
    assert_eq!((collector.requests().len(), spans(&metrics, "sent")), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_that_the_collector_rejects_count_as_failed() {
    let collector = Collector::answering(&[Answer(200, 3)]).await;
    let (tracer, metrics) = tracer(&collector);
    tracer.send(trace(1));
    end(tracer, LONG).await;
    assert_eq!((spans(&metrics, "sent"), spans(&metrics, "failed")), (1, 3));
}

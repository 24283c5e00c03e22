//! Spans as the OpenTelemetry SDK has them.

use std::time::{Duration, SystemTime};

use opentelemetry::{
    InstrumentationScope, KeyValue, SpanId, TraceFlags, TraceId,
    trace::{self, SpanContext, SpanKind, Status, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::{Attribute, Event, Span, Value};
use crate::domain::Moment;

/// A span that has ended, of the trace with this ID.
pub(super) fn of(trace: &[u8; 16], span: Span, scope: &InstrumentationScope) -> SpanData {
    let mut events = SpanEvents::default();
    events.events = span.events.into_iter().map(event).collect();
    events.dropped_count = span.dropped_events;
    SpanData {
        span_context: SpanContext::new(
            TraceId::from_bytes(*trace),
            SpanId::from_bytes(span.id),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        ),
        parent_span_id: span.parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: span.name.into(),
        start_time: time(span.start),
        end_time: time(span.end),
        attributes: key_values(span.attributes),
        dropped_attributes_count: 0,
        events,
        links: SpanLinks::default(),
        status: span.failed.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}

fn event(event: Event) -> trace::Event {
    trace::Event::new(event.name, time(event.at), key_values(event.attributes), 0)
}

fn key_values(attributes: Vec<Attribute>) -> Vec<KeyValue> {
    let one = |(name, value)| match value {
        Value::Text(text) => KeyValue::new(name, text),
        Value::Number(number) => KeyValue::new(name, number),
        Value::Flag(flag) => KeyValue::new(name, flag),
    };
    attributes.into_iter().map(one).collect()
}

/// The same moment; the epoch if it is before that.
fn time(moment: Moment) -> SystemTime {
    let since = u64::try_from(moment.as_nanosecond()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_nanos(since)
}

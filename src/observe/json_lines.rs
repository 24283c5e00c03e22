//! Log lines as JSON: one flat object per line.

use std::fmt;

use serde::ser::{SerializeMap as _, Serializer as _};
use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

/// Formats events as `tracing-subscriber` does with `flatten_event`, except that a list of strings
/// becomes a JSON array, where that library writes text.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let span = context.lookup_current().map(|span| {
            let formatted =
                span.extensions().get::<FormattedFields<N>>().map(|fields| fields.fields.clone());
            let mut fields: Map<String, Value> =
                formatted.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            fields.insert("name".to_owned(), span.name().into());
            fields
        });
        let mut line = Vec::new();
        let mut serializer = serde_json::Serializer::new(&mut line);
        let written = serializer.serialize_map(None).and_then(|mut map| {
            map.serialize_entry("timestamp", &time)?;
            map.serialize_entry("level", metadata.level().as_str())?;
            for (name, value) in &fields.0 {
                map.serialize_entry(name, value)?;
            }
            map.serialize_entry("target", metadata.target())?;
            if let Some(span) = &span {
                map.serialize_entry("span", span)?;
            }
            map.end()
        });
        written.map_err(|_| fmt::Error)?;
        writeln!(writer, "{}", String::from_utf8_lossy(&line))
    }
}

/// The fields of an event, in the order in which they were recorded.
#[derive(Debug, Default)]
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn push(&mut self, field: &Field, value: impl Into<Value>) {
        let name = field.name();
        self.0.push((name.strip_prefix("r#").unwrap_or(name).to_owned(), value.into()));
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        // `?names` of a list of strings becomes an array. The message always stays text, even if it
        // looks like a list.
        let list = if field.name() == "message" || !text.starts_with('[') {
            None
        } else {
            serde_json::from_str::<Vec<String>>(&text).ok()
        };
        match list {
            Some(list) => self.push(field, list),
            None => self.push(field, text),
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::prelude::*;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_one_flat_object_and_lists_of_strings_are_arrays() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .json()
            .event_format(JsonLines);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("drain", node = "a");
            let _entered = span.enter();
            let (left, none): (Vec<String>, Vec<String>) =
                (vec!["shop/a".to_owned(), "shop/\"b\"".to_owned()], Vec::new());
            tracing::warn!(
                ?left, ?none, numbers = ?[1, 2], count = 2, is_on = true, error = %"[\"x\"",
                r#type = "t", "[\"text\"]"
            );
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("{\"timestamp\":\"") && text.matches('\n').count() == 1, "{text}");
        let mut line: Value = serde_json::from_str(&text).unwrap();
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{text}");
        line.as_object_mut().unwrap().remove("timestamp");
        let expected = serde_json::json!({
            "level": "WARN", "message": "[\"text\"]", "left": ["shop/a", "shop/\"b\""], "none": [],
            "numbers": "[1, 2]", "count": 2, "is_on": true,
            "error": "[\"x\"", "type": "t", "target": module_path!(), "span": {
                "name": "drain", "node": "a"
            },
        });
        assert_eq!(line, expected);
    }
}

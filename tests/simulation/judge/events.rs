//! What the Events say, held against the page that people look them up on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use serde_json::Value;

use super::Judge;

const PAGE: &str = include_str!("../../../docs/events.md");

/// Which types a reason comes in, and what it is about.
type Rows = BTreeMap<&'static str, (BTreeSet<&'static str>, BTreeSet<&'static str>)>;

static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let words = |cell: &'static str| cell.split(',').map(str::trim).collect();
    let row = |line: &'static str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, reason, types, on, ..] = cells[..] else { return None };
        Some((reason.strip_prefix('`')?.strip_suffix('`')?, (words(types), words(on))))
    };
    PAGE.lines().filter_map(row).collect()
});

/// An Event, as far as its reason fixes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub reason: String,
    pub severity: String,
    /// The kind of the object that it is about.
    pub on: String,
}

impl Event {
    /// Of one that Sundown wrote.
    pub fn of(event: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ours = event["reportingComponent"] == "sundown";
        ours.then(|| Self { reason: text(&event["reason"]), severity: text(&event["type"]), on: text(&event["involvedObject"]["kind"]) })
    }
}

impl Judge<'_> {
    /// Every Event is one of docs/events.md: its type, and what it is about.
    pub(super) fn events(&mut self) {
        for event in &self.evidence.events {
            let row = ROWS.get(event.reason.as_str());
            if !row.is_some_and(|(types, on)| types.contains(event.severity.as_str()) && on.contains(event.on.to_lowercase().as_str())) {
                self.broken(self.evidence.ended, format!("docs/events.md does not say so: {event:?}"));
            }
        }
    }
}

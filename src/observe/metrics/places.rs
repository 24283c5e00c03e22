//! The metrics whose names contain `_by_group`: by Auto Scaling group, zone and instance type, whose
//! values are not known beforehand.
//!
//! The number of series is bounded, whatever labels nodes have. Of each label, the first values that
//! a process sees are used as they are; later ones become [`OTHER`]. After [`COMBINATIONS`]
//! combinations, all labels of a new one but the kind become [`OTHER`]. The metrics without
//! `_by_group` count the same events, so alerts need not sum these.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::{Metrics, reg, seconds_by};
use crate::domain::Kind;

/// How many groups are used by name.
const GROUPS: usize = 50;
/// How many zones are used by name.
const ZONES: usize = 12;
/// How many instance types are used by name.
const TYPES: usize = 50;
/// How many combinations of kind, group, zone and type have series of their own.
const COMBINATIONS: usize = 300;
/// The label value of a node whose group, zone or type is not known.
const UNKNOWN: &str = "unknown";
/// The label value of groups, zones and types beyond the limits.
const OTHER: &str = "other";

/// The kinds of interruptions in records. `unknown`: written by a newer version of Sundown.
const KINDS: [&str; 13] = [
    Kind::TerminateHook.as_str(),
    Kind::RootVolume.as_str(),
    Kind::Spot.as_str(),
    Kind::SpotStop.as_str(),
    Kind::SpotHibernate.as_str(),
    Kind::CapacityReservation.as_str(),
    Kind::CapacityBlock.as_str(),
    Kind::StateChange.as_str(),
    Kind::Rebalance.as_str(),
    Kind::ScheduledChange.as_str(),
    Kind::Impaired.as_str(),
    Kind::Request.as_str(),
    UNKNOWN,
];

/// The labels of a node in metrics. An empty string means that the value is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The Auto Scaling group, or the node group.
    pub group: String,
    /// The availability zone, such as `eu-west-1a`.
    pub zone: String,
    /// The EC2 instance type, such as `m6i.large`.
    pub instance_type: String,
}

type Labels = [(&'static str, String); 4];
type OfGroup = [(&'static str, String); 2];
type Counters = Family<Labels, Counter>;
type Durations = Family<OfGroup, Histogram, fn() -> Histogram>;

pub(super) struct Places {
    interruptions: Counters,
    started: Counters,
    ended: Counters,
    misses: Counters,
    duration: Durations,
    seen: Mutex<Seen>,
}

/// The values and combinations that this process uses by name.
#[derive(Debug, Default)]
struct Seen {
    groups: BTreeSet<String>,
    zones: BTreeSet<String>,
    types: BTreeSet<String>,
    combinations: BTreeSet<[String; 4]>,
}

/// The label value for `value`: itself if it is one of the first `most`, else [`OTHER`].
fn bounded(seen: &mut BTreeSet<String>, value: &str, most: usize) -> String {
    if value.is_empty() {
        return UNKNOWN.to_owned();
    }
    if seen.contains(value) {
        return value.to_owned();
    }
    if seen.len() >= most {
        return OTHER.to_owned();
    }
    seen.insert(value.to_owned());
    value.to_owned()
}

impl Seen {
    fn labels(&mut self, kind: &str, place: &Place) -> Labels {
        let mut values = [
            kind.to_owned(),
            bounded(&mut self.groups, &place.group, GROUPS),
            bounded(&mut self.zones, &place.zone, ZONES),
            bounded(&mut self.types, &place.instance_type, TYPES),
        ];
        if !self.combinations.contains(&values) {
            if self.combinations.len() < COMBINATIONS {
                self.combinations.insert(values.clone());
            } else {
                values = [kind, OTHER, OTHER, OTHER].map(str::to_owned);
            }
        }
        let [kind, group, zone, instance_type] = values;
        [("kind", kind), ("group", group), ("zone", zone), ("type", instance_type)]
    }
}

impl Places {
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            interruptions: reg(
                r,
                "interruptions_by_group",
                "Interruptions that were accepted, by kind, group, zone and instance type",
            ),
            started: reg(
                r,
                "drains_started_by_group",
                "Drains that began, by kind, group, zone and instance type",
            ),
            ended: reg(
                r,
                "drains_ended_by_group",
                "Drains that ended, by kind, group, zone and instance type",
            ),
            misses: reg(
                r,
                "deadline_misses_by_group",
                "Drains that reached their deadline with pods left, by kind, group, zone and \
                 instance type",
            ),
            duration: seconds_by(
                r,
                "drain_duration_by_group",
                "Time from the accept of the interruption to the end of the drain, by kind and \
                 group",
                buckets,
            ),
            seen: Mutex::default(),
        }
    }

    /// Creates the series of each kind whose other labels are `unknown`.
    pub(super) fn initialise(&self) {
        for kind in KINDS {
            drop(self.labels(kind, &Place::default()));
        }
    }

    /// The labels of a kind and a place. Creates their series in all families, at 0, because
    /// `increase()` does not see the first event of a series that begins with 1.
    fn labels(&self, kind: &str, place: &Place) -> Labels {
        let labels = self.seen.lock().unwrap_or_else(PoisonError::into_inner).labels(kind, place);
        for family in [&self.interruptions, &self.started, &self.ended, &self.misses] {
            drop(family.get_or_create(&labels));
        }
        drop(self.duration.get_or_create(&of_group(&labels)));
        labels
    }
}

impl Metrics {
    /// Counts an interruption that was accepted, by kind and place of its node.
    pub fn interrupted(&self, kind: &str, place: &Place) {
        let labels = self.places.labels(kind, place);
        self.places.interruptions.get_or_create(&labels).inc();
    }

    /// Counts a drain that began, by kind and place of its node.
    pub fn drain_started(&self, kind: &str, place: &Place) {
        let labels = self.places.labels(kind, place);
        self.places.started.get_or_create(&labels).inc();
    }

    /// Counts a drain that ended, by kind and place of its node. `took`: the time since its accept.
    /// `missed`: it reached its deadline with pods left.
    pub fn drain_ended_by_place(&self, kind: &str, place: &Place, took: Duration, missed: bool) {
        let labels = self.places.labels(kind, place);
        self.places.ended.get_or_create(&labels).inc();
        self.places.duration.get_or_create(&of_group(&labels)).observe(took.as_secs_f64());
        if missed {
            self.places.misses.get_or_create(&labels).inc();
        }
    }
}

fn of_group(labels: &Labels) -> OfGroup {
    let [kind, group, ..] = labels.clone();
    [kind, group]
}

/// Fewer buckets than the histogram of all drains has, because there is one histogram for each kind
/// and group.
fn buckets() -> Histogram {
    Histogram::new([15.0, 60.0, 115.0, 300.0, 1800.0, 7200.0, 86_400.0])
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests {
    use super::*;
    use crate::observe::LabelValues;

    fn place(group: &str, zone: &str, instance_type: &str) -> Place {
        Place {
            group: group.to_owned(),
            zone: zone.to_owned(),
            instance_type: instance_type.to_owned(),
        }
    }

    /// The lines of a family.
    fn series(metrics: &Metrics, name: &str) -> Vec<String> {
        let text = metrics.render().unwrap();
        let start = format!("sundown_{name}{{");
        text.lines().filter(|line| line.starts_with(&start)).map(str::to_owned).collect()
    }

    #[test]
    fn a_new_place_has_a_series_at_0_in_every_family() {
        let metrics = Metrics::new(&LabelValues::default());
        metrics.drain_started("spot", &place("workers", "eu-west-1a", "m6i.large"));
        let labels = r#"{kind="spot",group="workers",zone="eu-west-1a",type="m6i.large"}"#;
        let text = metrics.render().unwrap();
        for (family, value) in [
            ("drains_started", 1),
            ("drains_ended", 0),
            ("deadline_misses", 0),
            ("interruptions", 0),
        ]
        .map(|(f, v)| (format!("{f}_by_group_total"), v))
        {
            assert!(
                text.contains(&format!("sundown_{family}{labels} {value}\n")),
                "{family} in\n{text}"
            );
        }
        assert!(
            text.contains(
                "sundown_drain_duration_by_group_seconds_count{kind=\"spot\",group=\"workers\"} 0\n"
            ),
            "{text}"
        );
        metrics.drain_ended_by_place(
            "spot",
            &place("workers", "eu-west-1a", "m6i.large"),
            Duration::from_secs(70),
            true,
        );
        let text = metrics.render().unwrap();
        assert!(
            text.contains(&format!("sundown_deadline_misses_by_group_total{labels} 1\n")),
            "{text}"
        );
        assert!(text.contains("sundown_drain_duration_by_group_seconds_bucket{le=\"115.0\",kind=\"spot\",group=\"workers\"} \
            1\n"), "{text}");
    }

    #[test]
    fn the_series_with_unknown_labels_exist_from_the_start() {
        let metrics = Metrics::new(&LabelValues::default());
        for kind in [
            "terminate-hook",
            "spot",
            "capacity-reservation",
            "capacity-block",
            "state-change",
            "unknown",
        ] {
            let line = format!(
                r#"sundown_deadline_misses_by_group_total{{kind="{kind}",group="unknown",zone="unknown",type="unknown"}} 0"#
            );
            assert!(series(&metrics, "deadline_misses_by_group_total").contains(&line), "{line}");
        }
    }

    #[test]
    fn groups_beyond_the_limit_are_counted_as_other() {
        let metrics = Metrics::new(&LabelValues::default());
        for n in 0..GROUPS + 20 {
            metrics.drain_started("spot", &place(&format!("g{n}"), "a", "t"));
        }
        let all = series(&metrics, "drains_started_by_group_total");
        assert!(all.contains(&format!("sundown_drains_started_by_group_total{{kind=\"spot\",group=\"g{}\",zone=\"a\",type=\"t\"}} \
            1", GROUPS - 1)));
        assert!(
            all.contains(&"sundown_drains_started_by_group_total{kind=\"spot\",group=\"other\",zone=\"a\",type=\"t\"} \
                20".to_owned()),
            "{all:#?}"
        );
        // A group that was used by name before still is.
        metrics.drain_started("spot", &place("g0", "a", "t"));
        let known = "sundown_drains_started_by_group_total{kind=\"spot\",group=\"g0\",zone=\"a\",type=\"t\"} \
            2".to_owned();
        assert!(series(&metrics, "drains_started_by_group_total").contains(&known));
    }

    #[test]
    fn the_series_are_bounded_however_many_places_there_are_and_every_event_is_counted() {
        let metrics = Metrics::new(&LabelValues::default());
        let mut counted = 0;
        for n in 0..5_000_usize {
            let kind = KINDS[n % KINDS.len()];
            let at =
                place(&format!("g{}", n % 97), &format!("z{}", n % 31), &format!("t{}", n % 89));
            metrics.interrupted(kind, &at);
            metrics.drain_ended_by_place(kind, &at, Duration::from_secs(1), n.is_multiple_of(7));
            counted += 1;
        }
        for family in ["interruptions", "drains_started", "drains_ended", "deadline_misses"] {
            let all = series(&metrics, &format!("{family}_by_group_total"));
            assert!(all.len() <= COMBINATIONS + KINDS.len(), "{family}: {}", all.len());
            if family == "interruptions" {
                let sum: u64 = all
                    .iter()
                    .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
                    .sum();
                assert_eq!(sum, counted);
            }
        }
        assert!(
            series(&metrics, "drain_duration_by_group_seconds_count").len()
                <= COMBINATIONS + KINDS.len()
        );
    }
}

//! Scheduled changes: what AWS Health announces for an instance.

use std::{sync::Arc, time::Duration};

use super::{Cause, InstanceId, Interruption, Moment, ScheduledEvent, WeeklyWindow};

/// The part of an AWS Health event about one affected entity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthNotice {
    /// `eventArn`: the same in every message about one event.
    pub event_arn: String,
    /// `communicationId`: the same in every copy of one message, such as the one that the backup
    /// region gets. `None` if not given.
    pub communication_id: Option<String>,
    /// `eventTypeCode`.
    pub code: String,
    /// `statusCode`, and the `status` of the entity.
    pub status: ChangeStatus,
    /// `startTime`; `None` if it is missing or unreadable.
    pub starts: Option<Moment>,
    /// `lastUpdatedTime`; `None` if it is missing or unreadable: then the time of the event counts.
    pub updated: Option<Moment>,
    /// `eventRegion`: the region of the instance. The event itself may come from another one.
    pub region: Option<String>,
    /// `affectedAccount`: the account of the instance.
    pub account: Option<String>,
    /// `actionability` is `INFORMATIONAL`: AWS asks for nothing.
    pub is_informational: bool,
}

/// Whether an announced change is still going to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChangeStatus {
    /// `upcoming`, or a status that Sundown does not know.
    #[default]
    Upcoming,
    /// `open`: it has begun.
    Open,
    /// `closed`, or the entity is `RESOLVED`: it is canceled or over.
    Closed,
}

/// What Sundown does about a scheduled change, by its `eventTypeCode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeAction {
    /// The node is drained before the change begins: the instance stops, reboots or is retired.
    BeforeStart,
    /// The node is drained as soon as possible: the hardware is degraded.
    Soon,
    /// The change is only reported: the instance keeps running, or Sundown does not know the code.
    /// (`INFORMATIONAL` is not part of the code: see [`HealthNotice::closes_change`].)
    Report,
}

/// Parts of an `eventTypeCode`, and what follows. The first row that applies decides. A code that no
/// row knows is only reported: an announcement about many instances at once, such as the end of
/// support of a feature, must not drain all their nodes.
const ACTIONS: [(&str, ChangeAction); 9] = [
    ("NETWORK", ChangeAction::Report),
    ("DEGRADED", ChangeAction::Soon),
    ("EXPEDITED", ChangeAction::Soon),
    ("RETIREMENT", ChangeAction::BeforeStart),
    ("REBOOT", ChangeAction::BeforeStart),
    // The instance is offline for a moment, then boots.
    ("POWER", ChangeAction::BeforeStart),
    ("STOP", ChangeAction::BeforeStart),
    ("TERMINATION", ChangeAction::BeforeStart),
    ("SYSTEM_MAINTENANCE", ChangeAction::BeforeStart),
];

impl ChangeAction {
    /// A start on other hardware ends the change.
    #[must_use]
    pub const fn is_of_hardware(self) -> bool {
        matches!(self, Self::Soon)
    }

    /// What Sundown does about a change with this `eventTypeCode`.
    #[must_use]
    pub fn of_code(code: &str) -> Self {
        let mut rows = ACTIONS.into_iter();
        rows.find(|(part, _)| has_part(code, part)).map_or(Self::Report, |(_, action)| action)
    }
}

/// What happens to the instance. AWS Health and EC2 show one change under two IDs and two codes:
/// Sundown recognizes it by the family of the code and by the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeFamily {
    /// The instance ends: `AWS_EC2_…_RETIREMENT_…`, `…_STOP_…`, `…_TERMINATION_…`,
    /// `instance-retirement`, `instance-stop`.
    Ending,
    /// `AWS_EC2_…_REBOOT_…`, `AWS_EC2_…_POWER_…`, `instance-reboot`, `system-reboot`, and
    /// `system-maintenance` of the power: the instance boots again.
    Reboot,
    /// `AWS_EC2_SYSTEM_MAINTENANCE_…`, `system-maintenance`.
    SystemMaintenance,
}

impl ChangeFamily {
    /// `None` for a code that EC2 has no counterpart of.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        let all = [
            ("RETIREMENT", Self::Ending),
            ("STOP", Self::Ending),
            ("TERMINATION", Self::Ending),
            ("REBOOT", Self::Reboot),
            ("POWER", Self::Reboot),
            ("SYSTEM_MAINTENANCE", Self::SystemMaintenance),
        ];
        all.into_iter().find(|(part, _)| has_part(code, part)).map(|(_, family)| family)
    }
}

/// Whether a code of AWS Health (`AWS_EC2_INSTANCE_STOP_SCHEDULED`) or of EC2 (`instance-stop`) has
/// these whole words.
fn has_part(code: &str, part: &str) -> bool {
    let code = code.to_ascii_uppercase().replace('-', "_");
    format!("_{code}_").contains(&format!("_{part}_"))
}

/// What the ID of a scheduled event of EC2 begins with.
const EC2_EVENT: &str = "instance-event-";

/// Whether this is the ID of an event that EC2 shows, not the ARN of one of AWS Health.
#[must_use]
pub fn is_ec2_event_id(id: &str) -> bool {
    id.starts_with(EC2_EVENT)
}

/// When the drain before a scheduled change begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeSchedule {
    /// `--scheduled-lead`: how long before the start, at the latest.
    pub lead: Duration,
    /// `--scheduled-window`: drains begin in it.
    pub window: Option<WeeklyWindow>,
}

impl ChangeSchedule {
    /// When the drain before this start begins: when the last window opens that opens more than
    /// `lead` before the start. Without a window, or if that window is over at `now`: `lead` before
    /// the start.
    #[must_use]
    pub fn begins_at(&self, starts: Moment, now: Moment) -> Moment {
        let latest = starts.minus(self.lead);
        let last = self.window.map(|window| window.last_before(latest));
        last.filter(|last| now < last.closes.min(latest)).map_or(latest, |last| last.opens)
    }

    /// When the drain before this start would have begun, had the start been known long before.
    #[must_use]
    pub fn would_begin_at(&self, starts: Moment) -> Moment {
        self.begins_at(starts, Moment::UNIX_EPOCH)
    }
}

impl HealthNotice {
    /// What Sundown does about a change with this code. The code also decides for a message that
    /// cancels a change, so that it reaches the annotation of the change that it cancels.
    #[must_use]
    pub fn action(&self) -> ChangeAction {
        ChangeAction::of_code(&self.code)
    }

    /// After this message no drain is needed: the change is canceled or over, or AWS asks for
    /// nothing any longer.
    #[must_use]
    pub fn closes_change(&self) -> bool {
        self.is_informational || self.status == ChangeStatus::Closed
    }

    /// EC2 lists such a change among the scheduled events of the instance, too.
    #[must_use]
    pub fn is_listed_by_ec2(&self) -> bool {
        ChangeFamily::of_code(&self.code).is_some()
    }

    /// What EC2 shows about one instance, as AWS Health would announce it. EC2 has one code for the
    /// maintenance of a host, of its network and of its power; only the description of the event
    /// distinguishes them.
    #[must_use]
    pub fn of_ec2(event: &ScheduledEvent) -> Self {
        let description = event.description.to_ascii_lowercase();
        let is_system = ChangeFamily::of_code(&event.code) == Some(ChangeFamily::SystemMaintenance);
        let part = ["power", "network"].into_iter().find(|part| description.contains(part));
        let part = part.filter(|_| is_system).map_or_else(String::new, |part| format!("-{part}"));
        Self {
            event_arn: event.id.clone(),
            code: format!("{}{part}", event.code),
            status: if event.is_over() { ChangeStatus::Closed } else { ChangeStatus::Upcoming },
            starts: event.not_before,
            ..Self::default()
        }
    }

    /// The event ID of what EC2 shows now. It differs once EC2 has moved or ended the event, so
    /// that Sundown handles the event again.
    #[must_use]
    pub fn ec2_event_id(&self) -> String {
        let id = &self.event_arn;
        match self.starts {
            _ if self.closes_change() => format!("{id}@over"),
            Some(starts) => format!("{id}@{starts:.0}"),
            None => id.clone(),
        }
    }

    /// The interruption that it is for one instance.
    #[must_use]
    pub fn of(
        self: &Arc<Self>,
        instance: InstanceId,
        id: &str,
        time: Option<Moment>,
    ) -> Interruption {
        Interruption {
            instance,
            event_id: id.to_owned(),
            time,
            cause: Cause::ScheduledChange(Arc::clone(self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::seconds;

    #[test]
    fn a_drain_begins_in_the_last_window_before_the_lead() {
        let at = |text: &str| format!("{text}:00Z").parse::<Moment>().unwrap();
        let (night, no) = (Some("Sat 02:00-06:00 UTC"), None);
        // 2026-12-05 is a Saturday. The lead is 1 h.
        for (why, window, now, starts, begins) in [
            ("no window", no, "2026-12-01T00:00", "2026-12-15T09:00", "2026-12-15T08:00"),
            ("weeks ahead", night, "2026-12-01T00:00", "2026-12-15T09:00", "2026-12-12T02:00"),
            ("in the window", night, "2026-12-12T03:00", "2026-12-15T09:00", "2026-12-12T02:00"),
            ("it begins now", night, "2026-12-12T02:00", "2026-12-15T09:00", "2026-12-12T02:00"),
            ("it is over", night, "2026-12-12T06:00", "2026-12-15T09:00", "2026-12-15T08:00"),
            ("none before", night, "2026-12-14T00:00", "2026-12-15T09:00", "2026-12-15T08:00"),
            ("partly before", night, "2026-12-11T00:00", "2026-12-12T05:00", "2026-12-12T02:00"),
            ("a week too late", night, "2026-12-11T00:00", "2026-12-12T03:00", "2026-12-12T02:00"),
            ("starts too soon", night, "2026-12-12T01:00", "2026-12-12T03:00", "2026-12-12T02:00"),
            (
                "over midnight",
                Some("Sun 22:00-02:00 UTC"),
                "2026-12-14T01:00",
                "2026-12-15T09:00",
                "2026-12-13T22:00",
            ),
        ] {
            let window = window.map(|text| text.parse().unwrap());
            let schedule = ChangeSchedule { lead: seconds(3600), window };
            let found = schedule.begins_at(at(starts), at(now));
            assert_eq!(found, at(begins), "{why}");
        }
    }

    #[test]
    fn the_code_decides_whether_a_scheduled_change_drains() {
        for (code, action) in [
            ("AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_RETIREMENT_EXPEDITED", ChangeAction::Soon),
            ("AWS_EC2_INSTANCE_STOP_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_TERMINATION_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_REBOOT_FLEXIBLE_MAINTENANCE_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_SYSTEM_MAINTENANCE_EVENT", ChangeAction::BeforeStart),
            ("AWS_EC2_INSTANCE_HARDWARE_DEGRADED", ChangeAction::Soon),
            ("AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED", ChangeAction::Report),
            ("AWS_EC2_INSTANCE_POWER_MAINTENANCE_SCHEDULED", ChangeAction::BeforeStart),
            ("AWS_EC2_DEDICATED_HOST_NETWORK_MAINTENANCE_SCHEDULED", ChangeAction::Report),
            ("AWS_EC2_PLANNED_LIFECYCLE_EVENT", ChangeAction::Report),
            ("AWS_EC2_NONSTOP", ChangeAction::Report),
            ("", ChangeAction::Report),
        ] {
            assert_eq!(ChangeAction::of_code(code), action, "{code}");
        }
    }

    #[test]
    fn a_code_of_ec2_and_one_of_aws_health_are_of_one_family() {
        use ChangeFamily::{Ending, Reboot, SystemMaintenance};
        for (code, family) in [
            ("instance-retirement", Some(Ending)),
            ("AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED", Some(Ending)),
            ("instance-reboot", Some(Reboot)),
            ("system-reboot", Some(Reboot)),
            ("AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED", Some(Reboot)),
            ("instance-stop", Some(Ending)),
            ("AWS_EC2_INSTANCE_STOP_SCHEDULED", Some(Ending)),
            ("AWS_EC2_INSTANCE_TERMINATION_SCHEDULED", Some(Ending)),
            ("AWS_EC2_INSTANCE_POWER_MAINTENANCE_SCHEDULED", Some(Reboot)),
            ("system-maintenance-power", Some(Reboot)),
            ("system-maintenance", Some(SystemMaintenance)),
            ("AWS_EC2_SYSTEM_MAINTENANCE_EVENT", Some(SystemMaintenance)),
            ("AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED", None),
            ("AWS_EC2_INSTANCE_HARDWARE_DEGRADED", None),
        ] {
            assert_eq!(ChangeFamily::of_code(code), family, "{code}");
            let notice = HealthNotice { code: code.to_owned(), ..HealthNotice::default() };
            assert_eq!(notice.is_listed_by_ec2(), family.is_some(), "{code}");
        }
        for code in ScheduledEvent::CODES {
            assert_eq!(ChangeAction::of_code(code), ChangeAction::BeforeStart, "{code}");
        }
    }

    #[test]
    fn an_event_of_ec2_counts_like_an_announcement() {
        let starts = Moment::from_second(1_800_000_000).unwrap();
        let event = |code: &str, description: &str| ScheduledEvent {
            id: "instance-event-1".to_owned(),
            code: code.to_owned(),
            description: description.to_owned(),
            not_before: Some(starts),
            not_after: None,
        };
        for (code, description, action, closes_change) in [
            ("instance-retirement", "degraded hardware", ChangeAction::BeforeStart, false),
            ("instance-stop", "[Completed] done", ChangeAction::BeforeStart, true),
            ("system-reboot", "[Canceled] scheduled reboot", ChangeAction::BeforeStart, true),
            ("system-maintenance", "Host maintenance", ChangeAction::BeforeStart, false),
            ("system-maintenance", "Network maintenance", ChangeAction::Report, false),
            ("system-maintenance", "Power maintenance", ChangeAction::BeforeStart, false),
            ("system-maintenance", "network and power", ChangeAction::BeforeStart, false),
            ("instance-reboot", "for network maintenance", ChangeAction::BeforeStart, false),
        ] {
            let notice = HealthNotice::of_ec2(&event(code, description));
            assert_eq!(
                (notice.action(), notice.closes_change()),
                (action, closes_change),
                "{description}"
            );
            assert!(is_ec2_event_id(&notice.event_arn) && notice.starts == Some(starts));
        }
        let id = |description| HealthNotice::of_ec2(&event("instance-stop", description));
        assert_eq!(id("").ec2_event_id(), "instance-event-1@2027-01-15T08:00:00Z");
        assert_eq!(id("[Canceled]").ec2_event_id(), "instance-event-1@over");
    }

    #[test]
    fn a_message_withdraws_a_change_if_it_is_closed_or_asks_for_nothing_any_longer() {
        for (status, is_informational, closes_change) in [
            (ChangeStatus::Upcoming, false, false),
            (ChangeStatus::Open, false, false),
            (ChangeStatus::Closed, false, true),
            (ChangeStatus::Upcoming, true, true),
        ] {
            let notice = HealthNotice { status, is_informational, ..HealthNotice::default() };
            assert_eq!(notice.closes_change(), closes_change, "{notice:?}");
        }
    }
}

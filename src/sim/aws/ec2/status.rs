//! DescribeInstanceStatus: status checks and scheduled events.

use std::collections::BTreeMap;

use crate::{
    domain::Moment,
    sim::aws::{
        answer::ApiError,
        events::millis_text,
        instance::State as InstanceState,
        state::State,
        xml::{Form, Xml},
    },
};

/// A status check of EC2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The host, its network or its power.
    System,
    /// The operating system.
    Instance,
    /// The attached EBS volumes.
    AttachedVolumes,
}

impl Check {
    const ALL: [Self; 3] = [Self::System, Self::Instance, Self::AttachedVolumes];

    const fn element(self) -> &'static str {
        match self {
            Self::System => "systemStatus",
            Self::Instance => "instanceStatus",
            Self::AttachedVolumes => "attachedEbsStatus",
        }
    }

    const fn filter(self) -> &'static str {
        match self {
            Self::System => "system-status.status",
            Self::Instance => "instance-status.status",
            Self::AttachedVolumes => "attached-ebs-status.status",
        }
    }
}

/// A status check of an instance began to fail, or all of them pass again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckChange {
    /// When.
    pub at: Moment,
    /// The instance.
    pub instance: String,
    /// At least one check fails.
    pub fails: bool,
}

/// An event that EC2 has scheduled for an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEvent {
    /// `instance-event-…`.
    pub id: String,
    /// For example `instance-retirement`.
    pub code: String,
    /// Begins with `[Completed]` or `[Canceled]` when it is over.
    pub description: String,
    /// The earliest start.
    pub not_before: Moment,
    /// The latest end.
    pub not_after: Option<Moment>,
}

/// What DescribeInstanceStatus says about an instance beside its state.
#[derive(Debug, Clone, Default)]
pub(in crate::sim::aws) struct Status {
    /// The checks that fail, and since when.
    pub(in crate::sim::aws) failed: BTreeMap<Check, Moment>,
    pub(in crate::sim::aws) events: Vec<PlannedEvent>,
}

impl Status {
    /// `ok` or `impaired`.
    fn of(&self, check: Check) -> &'static str {
        if self.failed.contains_key(&check) { "impaired" } else { "ok" }
    }

    fn matches(&self, name: &str, values: &[&str]) -> Result<bool, ApiError> {
        if let Some(check) = Check::ALL.into_iter().find(|check| check.filter() == name) {
            return Ok(values.contains(&self.of(check)));
        }
        match name {
            "event.code" => Ok(self.events.iter().any(|e| values.contains(&e.code.as_str()))),
            _ => Err(ApiError::new(
                "InvalidParameterValue",
                format!("The filter '{name}' is invalid"),
            )),
        }
    }
}

/// Maximum number of instances in a page.
const PAGE: usize = 1000;

/// The running instances that match all filters, or those of them with one of these ids.
pub(super) fn describe(state: &mut State, form: &Form) -> Result<String, ApiError> {
    let size = form.get("MaxResults").and_then(|n| n.parse().ok()).unwrap_or(PAGE);
    let after = form.get("NextToken").unwrap_or_default();
    let none = Status::default();
    let ids = super::wire::named(state, form)?;
    let mut chosen = Vec::new();
    for (id, instance) in &state.instances {
        let status = state.statuses.get(id).unwrap_or(&none);
        let mut fits = instance.state == InstanceState::Running
            && id.as_str() > after
            && (ids.is_empty() || ids.contains(&id.as_str()));
        for n in 1.. {
            let Some(name) = form.get(&format!("Filter.{n}.Name")) else { break };
            fits &= status.matches(name, &form.list(&format!("Filter.{n}.Value")))?;
        }
        if fits {
            chosen.push((instance.clone(), status.clone()));
        }
    }
    let more = chosen.len() > size;
    chosen.truncate(size);
    let next = chosen.last().filter(|_| more).map(|(instance, _)| instance.id.clone());
    let request = state.uuid();
    Ok(Xml::document("DescribeInstanceStatusResponse", super::wire::NAMESPACE, |xml| {
        xml.text("requestId", &request);
        xml.list("instanceStatusSet", "item", &chosen, |xml, (instance, status)| {
            xml.text("instanceId", &instance.id);
            xml.text("availabilityZone", &instance.zone);
            xml.element("instanceState", |xml| {
                xml.text("code", instance.state.code().to_string());
                xml.text("name", instance.state.as_str());
            });
            write(xml, status);
        });
        if let Some(next) = next {
            xml.text("nextToken", next);
        }
    }))
}

fn write(xml: &mut Xml, status: &Status) {
    for check in Check::ALL {
        xml.element(check.element(), |xml| {
            xml.text("status", status.of(check));
            xml.list("details", "item", [status.failed.get(&check)], |xml, since| {
                xml.text("name", "reachability");
                xml.text("status", if since.is_some() { "failed" } else { "passed" });
                if let Some(since) = since {
                    xml.text("impairedSince", millis_text(*since));
                }
            });
        });
    }
    xml.list("eventsSet", "item", &status.events, |xml, event| {
        xml.text("instanceEventId", &event.id);
        xml.text("code", &event.code);
        xml.text("description", &event.description);
        xml.text("notBefore", millis_text(event.not_before));
        if let Some(end) = event.not_after {
            xml.text("notAfter", millis_text(end));
        }
    });
}

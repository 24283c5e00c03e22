//! Instances and what happens to them, in the EC2 Query protocol.

mod filter;
mod status;
mod wire;

use std::{collections::BTreeMap, time::Duration};

pub(super) use status::Status;
pub use status::{Check, CheckChange, PlannedEvent};
pub(super) use wire::{handle, object};

use super::{
    events::{self, BLOCK_WARNING, EventKind, SpotAction, WARNING},
    instance::{Instance, InstanceChange, InstanceSpec, State as InstanceState},
    journal::{ServiceChange, ServiceEvent},
    state::{State, Timer},
};
use crate::domain::Moment;

/// From `shutting-down` to `terminated`, and from `stopping` to `stopped`.
const SHUTDOWN: Duration = Duration::from_secs(20);
/// A terminated instance loses its tags after this. EC2 documents only "soon".
const TAGS_KEPT: Duration = Duration::from_mins(5);
/// A terminated instance is listed for about an hour (EC2 user guide, "Terminate instances").
const REMEMBERED: Duration = Duration::from_hours(1);

impl State {
    /// Creates an instance as specified; returns its id.
    pub(super) fn create_instance(
        &mut self,
        now: Moment,
        spec: InstanceSpec,
        group: Option<String>,
    ) -> String {
        let id = spec.id.unwrap_or_else(|| self.fresh_instance_id());
        let private_ip = self.fresh_address();
        let private_dns =
            spec.private_dns.unwrap_or_else(|| dns_name(&private_ip, &self.settings.region));
        let instance = Instance {
            id: id.clone(),
            state: spec.state,
            launched: self.aws_time(now.minus(spec.age)),
            zone: spec.zone,
            private_dns,
            private_ip,
            instance_type: spec.instance_type,
            spot: spec.spot,
            tags: spec.tags,
            group,
            vpc: "vpc-0a1b2c3d4e5f60718".to_owned(),
            capacity_reservation: spec.capacity_reservation,
        };
        self.instances.insert(id.clone(), instance);
        self.tell(now, &id, spec.state);
        id
    }

    fn fresh_instance_id(&mut self) -> String {
        format!("i-{:017x}", self.random.u128(..1 << 68))
    }

    fn fresh_address(&mut self) -> String {
        self.addresses += 1;
        // Not .0: no host has it.
        let [_, b, c, d] = (self.addresses + self.addresses / 255).to_be_bytes();
        format!("10.{b}.{c}.{d}")
    }

    fn tell(&mut self, now: Moment, id: &str, state: InstanceState) {
        let change = InstanceChange { id: id.to_owned(), state, at: now };
        self.subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }

    /// Changes the state of an instance, with all effects of the change.
    pub(super) fn move_instance(&mut self, now: Moment, id: &str, to: InstanceState) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        if instance.state == to || instance.state == InstanceState::Terminated {
            return;
        }
        instance.state = to;
        let mut later = |delay, timer| self.after(now, delay, timer);
        let id = id.to_owned();
        match to {
            InstanceState::ShuttingDown => {
                later(
                    SHUTDOWN,
                    Timer::Move { instance: id.clone(), from: to, to: InstanceState::Terminated },
                );
            }
            InstanceState::Stopping => later(
                SHUTDOWN,
                Timer::Move { instance: id.clone(), from: to, to: InstanceState::Stopped },
            ),
            InstanceState::Terminated => {
                later(TAGS_KEPT, Timer::ForgetTags { instance: id.clone() });
                later(REMEMBERED, Timer::Forget { instance: id.clone() });
                if let Some(instance) = self.instances.get_mut(&id) {
                    instance.private_dns.clear();
                    instance.private_ip.clear();
                }
            }
            InstanceState::Pending | InstanceState::Running | InstanceState::Stopped => {}
        }
        self.tell(now, &id, to);
        self.send_state_change(now, &id, to);
        self.member_moved(now, &id, to);
    }

    /// Drops a terminated instance, unless its group still waits for hooks.
    pub(super) fn forget(&mut self, now: Moment, instance: String) {
        if self.group_of(&instance).is_some_and(|g| g.state_of(&instance).is_some()) {
            self.after(now, REMEMBERED, Timer::Forget { instance });
        } else {
            self.instances.remove(&instance);
            self.statuses.remove(&instance);
        }
    }

    /// Takes an instance away or stops it, hooks or not.
    pub(super) fn end_instance(&mut self, now: Moment, id: &str, to: InstanceState) {
        let Some(instance) = self.instances.get(id) else { return };
        let running = matches!(instance.state, InstanceState::Pending | InstanceState::Running);
        match to {
            InstanceState::ShuttingDown if instance.state == InstanceState::Stopped => {
                self.move_instance(now, id, InstanceState::Terminated);
            }
            InstanceState::ShuttingDown if running || instance.state == InstanceState::Stopping => {
                self.move_instance(now, id, to);
            }
            InstanceState::Stopping if running => self.move_instance(now, id, to),
            _ => {}
        }
    }

    /// Starts a stopped instance again.
    pub(super) fn start_again(&mut self, now: Moment, id: &str) {
        let launched = self.aws_time(now);
        let Some(instance) =
            self.instances.get_mut(id).filter(|i| i.state == InstanceState::Stopped)
        else {
            return;
        };
        instance.launched = launched;
        self.service_changes.push(ServiceChange {
            at: now,
            instance: id.to_owned(),
            change: ServiceEvent::StartedAgain,
        });
        self.move_instance(now, id, InstanceState::Pending);
        let timer = Timer::Move {
            instance: id.to_owned(),
            from: InstanceState::Pending,
            to: InstanceState::Running,
        };
        self.after(now, SHUTDOWN, timer);
    }

    pub(super) fn send_state_change(&mut self, now: Moment, id: &str, state: InstanceState) {
        let detail = serde_json::json!({ "instance-id": id, "state": state.as_str() });
        self.send_about_instance(now, EventKind::StateChange, id, &detail);
    }

    /// The two-minute notice and what follows from it.
    pub(super) fn spot_interruption(&mut self, now: Moment, id: &str, action: SpotAction) {
        let detail = serde_json::json!({ "instance-id": id, "instance-action": action.as_str() });
        self.send_about_instance(now, EventKind::SpotWarning, id, &detail);
        let instance = id.to_owned();
        match action {
            SpotAction::Terminate => self.after(
                now,
                WARNING,
                Timer::Reclaim { instance, to: InstanceState::ShuttingDown },
            ),
            SpotAction::Stop => {
                self.after(now, WARNING, Timer::Reclaim { instance, to: InstanceState::Stopping });
            }
            SpotAction::Hibernate => self.end_instance(now, id, InstanceState::Stopping),
        }
        let rebalanced = self.group_of(id).is_some_and(|g| g.spec.capacity_rebalance);
        if rebalanced {
            self.terminate_member(now, id);
        }
    }

    pub(super) fn capacity_interruption(&mut self, now: Moment, id: &str) {
        let end = events::seconds_text(self.aws_time(now.plus(WARNING)));
        let detail = serde_json::json!({
            "instance-id": id, "instance-action": "terminate", "instance-termination-time": end,
            "azId": "euw1-az1",
        });
        self.send_about_instance(now, EventKind::CapacityWarning, id, &detail);
        self.after(
            now,
            WARNING,
            Timer::Reclaim { instance: id.to_owned(), to: InstanceState::ShuttingDown },
        );
    }

    /// The warning of a Capacity Block that ends, and the end of its instances.
    pub(super) fn block_ends(&mut self, now: Moment, reservation: &str) {
        let [instances_end, block_ends] = BLOCK_WARNING;
        let arn = format!(
            "arn:aws:ec2:{}:{}:capacity-reservation/{reservation}",
            self.settings.region, self.settings.account
        );
        let detail = serde_json::json!({
            "capacity-reservation-id": reservation,
            "end-date": events::seconds_text(self.aws_time(now.plus(block_ends))),
        });
        self.send(now, EventKind::BlockWarning, &[&arn], &detail);
        let inside = |i: &&Instance| i.capacity_reservation.as_deref() == Some(reservation);
        let all: Vec<_> = self.instances.values().filter(inside).map(|i| i.id.clone()).collect();
        for instance in all {
            let timer = Timer::Reclaim { instance, to: InstanceState::ShuttingDown };
            self.after(now, instances_end, timer);
        }
    }

    pub(super) fn send_about_instance(
        &mut self,
        now: Moment,
        kind: EventKind,
        id: &str,
        detail: &serde_json::Value,
    ) {
        let arn =
            format!("arn:aws:ec2:{}:{}:instance/{id}", self.settings.region, self.settings.account);
        self.send(now, kind, &[&arn], detail);
    }
}

fn dns_name(ip: &str, region: &str) -> String {
    let host = ip.replace('.', "-");
    // us-east-1 alone has the short form (VPC user guide, "DNS attributes").
    if region == "us-east-1" {
        format!("ip-{host}.ec2.internal")
    } else {
        format!("ip-{host}.{region}.compute.internal")
    }
}

/// What a group launches, as an instance.
pub(super) fn launched(
    zone: String,
    instance_type: String,
    spot: bool,
    tags: BTreeMap<String, String>,
    state: InstanceState,
    age: Duration,
) -> InstanceSpec {
    InstanceSpec {
        id: None,
        state,
        age,
        zone,
        private_dns: None,
        instance_type,
        spot,
        tags,
        capacity_reservation: None,
    }
}

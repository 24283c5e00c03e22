//! Changes that AWS Health announces: what is sent, and when the instance stops.

use std::time::Duration;

use jiff::SignedDuration;
use sundown::{
    domain::Moment,
    sim::aws::{HealthNotice, PlannedEvent, State},
};

use super::{
    plan::ChangeEnd,
    play::{Play, Todo},
    seventh::RETIREMENT,
};

impl Play<'_> {
    pub(super) fn announce(&mut self, pick: usize, starts: u64, end: ChangeEnd, code: &str) {
        let start = self.now() + Duration::from_secs(starts);
        let mut chosen = None;
        self.with_instance(pick, |id| chosen = Some(id.to_owned()));
        let Some(instance) = chosen else { return };
        self.changes += 1;
        let event = format!("{code}_{}", self.changes);
        let retirement = HealthNotice::retirement([instance], self.by_aws_clock(start));
        let notice = HealthNotice { event, code: code.to_owned(), ..retirement };
        self.stage.world.aws.health(&notice);
        match end {
            ChangeEnd::Happens => self.stop_then(start, &notice),
            ChangeEnd::Canceled { after } => {
                let closed = HealthNotice { status: "closed".to_owned(), ..notice };
                self.after(after, Todo::Announce(closed));
            }
            ChangeEnd::Moved { after, by } => {
                let later = start + Duration::from_secs(by);
                let moved = HealthNotice { start: self.by_aws_clock(later), ..notice };
                self.stop_then(later, &moved);
                self.after(after, Todo::Announce(moved));
            }
        }
    }

    pub(super) fn schedule_in_ec2(
        &mut self,
        pick: usize,
        starts: u64,
        canceled: Option<u64>,
        code: &str,
    ) {
        let start = self.now() + Duration::from_secs(starts);
        let mut chosen = None;
        self.with_instance(pick, |id| chosen = Some(id.to_owned()));
        let Some(instance) = chosen else { return };
        self.changes += 1;
        let event = PlannedEvent {
            id: format!("instance-event-{:017x}", self.changes),
            code: code.to_owned(),
            description: "scheduled by the simulation".to_owned(),
            not_before: self.by_aws_clock(start),
            not_after: None,
        };
        self.stage.world.aws.schedule(&instance, event.clone());
        let ended = |how: &str| PlannedEvent {
            description: format!("[{how}] {}", event.description),
            ..event.clone()
        };
        if let Some(after) = canceled {
            self.after(after, Todo::ShowInEc2(instance, ended("Canceled")));
            return;
        }
        match code {
            "instance-retirement" | "instance-stop" => {
                self.then(start, Todo::Stop(instance.clone()));
            }
            "instance-reboot" | "system-reboot" => {
                self.then(start, Todo::Reboot(instance.clone()));
            }
            _ => {}
        }
        self.then(start + Duration::from_mins(1), Todo::ShowInEc2(instance, ended("Completed")));
    }

    /// The same moment by AWS's clock, as AWS writes it.
    fn by_aws_clock(&self, at: Moment) -> Moment {
        at + SignedDuration::from_secs(self.plan.aws_clock)
    }

    /// What happens to the instances when the change begins.
    fn stop_then(&mut self, at: Moment, notice: &HealthNotice) {
        for instance in notice.instances.clone() {
            if notice.code == RETIREMENT {
                self.then(at, Todo::Stop(instance));
            } else if notice.code.contains("REBOOT") || notice.code.contains("POWER") {
                self.then(at, Todo::Reboot(instance));
            }
        }
    }

    /// AWS reboots the machine of an instance that runs.
    pub(super) fn reboot(&mut self, instance: &str) {
        let world = self.stage.world.clone();
        let runs = world.aws.instance(instance).is_some_and(|i| i.state == State::Running);
        if let Some(node) = world.node_of(instance).filter(|_| runs) {
            self.hand(&node, "rebooted");
            world.kube.reboot(&node);
        }
    }
}

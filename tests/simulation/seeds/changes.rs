//! Changes that AWS Health announces: what is sent, and when the instance stops.

use std::time::Duration;

use sundown::{domain::Moment, sim::aws::HealthNotice};

use super::{
    plan::ChangeEnd,
    play::{Play, Todo},
};

impl Play<'_> {
    pub(super) fn announce(&mut self, pick: usize, starts: u64, end: ChangeEnd) {
        let start = self.now() + Duration::from_secs(starts);
        let mut chosen = None;
        self.with_instance(pick, |id| chosen = Some(id.to_owned()));
        let Some(instance) = chosen else { return };
        self.changes += 1;
        let event = format!("AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED_{}", self.changes);
        let notice = HealthNotice { event, ..HealthNotice::retirement([instance], start) };
        self.stage.world.aws.health(&notice);
        match end {
            ChangeEnd::Happens => self.stop_then(start, &notice),
            ChangeEnd::Canceled { after } => {
                let closed = HealthNotice { status: "closed".to_owned(), ..notice };
                self.after(after, Todo::Announce(closed));
            }
            ChangeEnd::Moved { after, by } => {
                let moved = HealthNotice { start: start + Duration::from_secs(by), ..notice };
                self.stop_then(moved.start, &moved);
                self.after(after, Todo::Announce(moved));
            }
        }
    }

    fn stop_then(&mut self, at: Moment, notice: &HealthNotice) {
        for instance in &notice.instances {
            self.then(at, Todo::Stop(instance.clone()));
        }
    }
}

//! What a new leader may assume of the heartbeats of the one before.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::aws::{ActionReport, Call, Outcome},
};

use super::{
    leaders::lease_duration,
    story::{Story, is_lapsing},
};

/// Once the Lease has expired, another process leads within this time.
const TAKEN_OVER: Duration = Duration::from_secs(5);

impl Story<'_> {
    /// The times at which the last window of an action may have begun, as far as a leader knows that took its drain over. This leader does
    /// not know which heartbeats of its predecessor AWS accepted, until AWS accepts one of its own. If its first one fails, it assumes that the
    /// last accepted heartbeat was one interval before its predecessor ended, or that none was accepted since the event, if that is possible.
    /// Only windows count of which two thirds are over.
    pub fn assumed_windows(&self, action: &ActionReport, now: Moment) -> impl Iterator<Item = Moment> {
        let object = format!("{}/{}/{}", action.group, action.hook, action.instance);
        let all = self.evidence.calls.iter().filter(|c| c.api == "autoscaling:RecordLifecycleActionHeartbeat");
        let calls: Vec<&Call> = all.filter(|c| c.object == object && c.at >= action.started && c.at <= now).collect();
        let accepted_by = self.accepted_by(action);
        let (timeout, started) = (action.heartbeat_timeout, action.started);
        let interval = if timeout < Duration::from_secs(60) { timeout / 3 } else { timeout / 2 };
        let mut windows = Vec::new();
        for first in calls.iter().filter(|c| Some(&c.by) != accepted_by.as_ref()) {
            let of_it = || calls.iter().filter(|c| c.by == first.by);
            // What was decided just before it was accepted is on its way still.
            let knows = of_it().any(|c| c.outcome == Outcome::Ok && c.at + super::SLACK <= now);
            if of_it().any(|c| c.at < first.at) || first.outcome == Outcome::Ok || knows {
                continue;
            }
            let without_leader = lease_duration(&self.evidence.terms, &first.by) + TAKEN_OVER;
            windows.push(started.max(first.at - interval - without_leader));
            windows.extend(Some(started).filter(|started| *started + timeout > first.at));
        }
        windows.into_iter().filter(move |from| is_lapsing(*from, timeout, now))
    }

    /// Who wrote an action into the record of its Node.
    fn accepted_by(&self, action: &ActionReport) -> Option<String> {
        let mut pages = self.pages_of(&action.instance).filter(|page| page.at >= action.started);
        pages.find(|page| page.told.iter().any(|told| told.is_of(action))).map(|page| page.by.clone())
    }
}

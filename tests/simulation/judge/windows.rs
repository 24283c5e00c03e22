//! What a new leader may assume of the heartbeats of the one before.

use std::time::Duration;

use sundown::{
    domain::Moment,
    sim::{
        Disturbance,
        aws::{ActionReport, Call, Outcome},
    },
};

use super::{
    leaders::lease_duration,
    story::{Story, is_lapsing},
};

const BEAT: &str = "autoscaling:RecordLifecycleActionHeartbeat";
/// No process gives a heartbeat up sooner.
pub const LEAST_CALL: Duration = Duration::from_secs(1);
/// Once the Lease has expired, another process leads within this time.
const TAKEN_OVER: Duration = Duration::from_secs(5);

/// What AWS answered to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The action is open, and has a new window.
    Open,
    /// No such action is open.
    Over,
    /// Neither, or no answer came.
    Unknown,
}

impl Answer {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Open,
            Outcome::Error(error) if error == "ValidationError" => Self::Over,
            _ => Self::Unknown,
        }
    }

    fn is_known(self) -> bool {
        self != Self::Unknown
    }
}

/// The accepted heartbeats that may be the last of one of several actions. A call does not show for
/// which of the actions of one hook and instance it was sent: a record can name several of them, and
/// AWS has one.
pub fn last_of_each(accepted: impl Iterator<Item = Moment>, actions: usize) -> Vec<Moment> {
    let mut all: Vec<Moment> = accepted.collect();
    all.sort_unstable();
    all.split_off(all.len().saturating_sub(actions.max(1)))
}

impl Story<'_> {
    /// The times at which the last window of an action may have begun, as far as a leader knows
    /// that took its drain over. This leader does not know which heartbeats of its predecessor AWS
    /// accepted, until AWS accepts one of its own. If its first one fails, it assumes that the last
    /// accepted heartbeat was one interval before its predecessor ended, or that none was accepted
    /// since the event, if that is possible. So does a process that leads again, because it cannot
    /// know who led meanwhile. It remembers those of its own. Only windows count of which two
    /// thirds are over. A heartbeat that it gave up before its answer failed, too. An answer that
    /// the action is not open ends no window of which two thirds were over before: AWS may have
    /// ended the action with it.
    pub fn assumed_windows(&self, action: &ActionReport, now: Moment) -> Vec<Moment> {
        let object = format!("{}/{}/{}", action.group, action.hook, action.instance);
        let (started, timeout) = (action.started, action.heartbeat_timeout);
        self.assumed(&object, (started, timeout), self.accepted_by(action), now)
    }

    /// The same of a hook whose first window began and has this length. `accepted_by`: when its
    /// drain began, and which process knew its window then.
    fn assumed(
        &self,
        object: &str,
        (started, timeout): (Moment, Duration),
        accepted_by: Option<(Moment, String)>,
        now: Moment,
    ) -> Vec<Moment> {
        let is_it = |c: &&Call| c.api == BEAT && c.object == object && c.at >= started;
        let calls = || self.evidence.calls.iter().filter(is_it);
        let is_answered =
            |d: &&Disturbance| calls().any(|c| c.by == d.by && c.at == d.until.unwrap_or(d.at));
        let slow = self
            .evidence
            .disturbances
            .iter()
            .filter(|d| d.what == BEAT && d.object == object && d.at >= started);
        let given_up = slow
            .filter(|d| d.at + LEAST_CALL <= now && !is_answered(d))
            .map(|d| (d.at, d.by.as_str(), Answer::Unknown));
        let answered =
            calls().filter(|c| c.at <= now).map(|c| (c.at, c.by.as_str(), Answer::of(&c.outcome)));
        let mut tries: Vec<(Moment, &str, Answer)> = answered.chain(given_up).collect();
        tries.sort_by_key(|(at, ..)| *at);
        let interval = if timeout < Duration::from_secs(60) { timeout / 3 } else { timeout / 2 };
        let mut windows = Vec::new();
        for (i, &(first, by, answer)) in tries.iter().enumerate() {
            let (before, since) = tries.split_at(i);
            // Its first one at all, or since another process has sent one, or since it led again.
            // The process that accepted the drain knows the window for as long as it leads.
            let has_taken_over = match (before.last(), &accepted_by) {
                (Some((at, last, _)), _) => *last != by || self.led_again(by, *at, first),
                (None, Some((at, accepted_by))) => {
                    accepted_by != by || self.led_again(by, *at, first)
                }
                (None, None) => true,
            };
            // What was decided just before it was accepted is on its way still.
            let knows = |window: Moment| {
                since.iter().filter(|(at, of, _)| *of == by && *at + super::SLACK <= now).any(
                    |(at, _, answer)| match answer {
                        Answer::Open => true,
                        Answer::Over => !is_lapsing(window, timeout, *at),
                        Answer::Unknown => false,
                    },
                )
            };
            if !has_taken_over || answer.is_known() {
                continue;
            }
            // It remembers which of its own heartbeats were accepted before it led again.
            let own = before.iter().rev().find(|(_, of, answer)| *of == by && answer.is_known());
            let assumed = |from: Moment| own.map_or(from, |(at, ..)| from.max(*at));
            let without_leader = lease_duration(&self.evidence.terms, by) + TAKEN_OVER;
            let after_lease = assumed(started.max(first - interval - without_leader));
            let at_first = Some(assumed(started)).filter(|from| *from + timeout > first);
            windows.extend([after_lease].into_iter().chain(at_first).filter(|from| !knows(*from)));
        }
        windows.retain(|from| is_lapsing(*from, timeout, now));
        windows
    }

    /// The windows of an action in the record that never began, because a person wrote it there or
    /// made up its event, once two thirds of them are over. Only AWS can say that no such action is
    /// open: until it answers a heartbeat, the action may end with its first window. If AWS accepts
    /// heartbeats, an action of that hook has begun, and may end with the window that the last one
    /// granted. A process that takes the drain over does not know what AWS answered its predecessor.
    /// `names`: how many actions of that hook the record names. Each has heartbeats of its own
    /// ([`last_of_each`]).
    pub fn made_up_windows(
        &self,
        recorded: &super::story::RecordedInterruption,
        names: usize,
        instance: &str,
        now: Moment,
    ) -> Vec<(Moment, Moment)> {
        let never_began = self.names_no_action(recorded);
        let Some((group, hook)) = recorded.hook.as_ref().filter(|_| never_began) else {
            return Vec::new();
        };
        let timeouts = &self.evidence.terms.heartbeat_timeouts;
        let Some(&timeout) = timeouts.get(&(group.clone(), hook.clone())) else {
            return Vec::new();
        };
        // A time that lies ahead lends no time.
        let from = recorded.time.min(recorded.accepted);
        let object = format!("{group}/{hook}/{instance}");
        let is_it = |c: &&Call| c.api == BEAT && c.object == object && c.at >= from;
        let calls = || self.evidence.calls.iter().filter(is_it);
        let is_known =
            calls().any(|c| c.at < from + timeout * 2 / 3 && Answer::of(&c.outcome).is_known());
        // A heartbeat that the process gave up without an answer is no call.
        let is_given_up = |d: &Disturbance| {
            d.what == BEAT && d.object == object && d.at >= from && d.at + LEAST_CALL <= now
        };
        let is_asked =
            calls().any(|c| c.at <= now) || self.evidence.disturbances.iter().any(is_given_up);
        let accepted = calls().filter(|c| c.outcome == Outcome::Ok && c.at <= now).map(|c| c.at);
        let granted = last_of_each(accepted, names);
        let first = Some(from).filter(|_| is_asked && !is_known);
        let asked_first = calls().min_by_key(|c| c.at).map(|c| (from, c.by.clone()));
        let assumed = asked_first
            .into_iter()
            .flat_map(|first| self.assumed(&object, (from, timeout), Some(first), now));
        let begins = first.into_iter().chain(granted).chain(assumed);
        begins
            .filter(|from| is_lapsing(*from, timeout, now))
            .map(|from| (from, from + timeout))
            .collect()
    }

    /// Whether a process began to lead between these moments.
    fn led_again(&self, process: &str, from: Moment, to: Moment) -> bool {
        self.leaders.begins_to_lead(process, from, to)
    }

    /// When an action was written into the record of its Node, and who wrote it.
    fn accepted_by(&self, action: &ActionReport) -> Option<(Moment, String)> {
        let mut pages = self.pages_of(&action.instance).filter(|page| page.at >= action.started);
        pages
            .find(|page| page.recorded.iter().any(|recorded| recorded.is_of(action)))
            .map(|page| (page.at, page.by.clone()))
    }
}

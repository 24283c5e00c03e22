//! Calls for lifecycle actions that are over.

use std::{rc::Rc, time::Duration};

use sundown::{
    domain::Moment,
    sim::{
        aws::{ActionReport, Outcome},
        kube::Fact,
    },
};

use super::{
    Judge, is_us,
    story::{RecordedInterruption, is_open},
};

/// The longest pause between two rounds of the sweep.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(600);
/// The API calls that name a lifecycle action.
const CALLS: [&str; 2] =
    ["autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat"];

impl Judge<'_> {
    /// After the end of an action, Sundown calls for it no more often than can be explained. AWS
    /// refuses such a call, and the call shows that Sundown took the action for open. Allowed is one
    /// call for each of these:
    ///
    /// - a call whose answer was lost,
    /// - a change of the leader, or a Lease that its leader could not renew,
    /// - if somebody else ended the action (AWS or another client): each later delivery of its
    ///   message, and at least one call,
    /// - an earlier action of the hook that somebody else ended: the record still names it,
    /// - a Node of the instance that is registered anew, if its record names the action without a
    ///   token, as if the sweep found it: the same hook may be open again,
    /// - an entry of this hook that a person wrote into the record, or that an event brought which
    ///   names an action that Auto Scaling never began,
    /// - a check by the sweep, if the leader cannot know that the action is over.
    pub(super) fn late_calls(&mut self) {
        let evidence = self.evidence;
        for action in &evidence.actions {
            let Some(end) = &action.end else { continue };
            let object = format!("{}/{}/{}", action.group, action.hook, action.instance);
            let lost_answers = evidence.calls.iter().filter(|c| {
                CALLS.contains(&c.api.as_str())
                    && c.object == object
                    && c.outcome == Outcome::LostAfter
            });
            let last = action.late_calls.last().copied().unwrap_or(end.at);
            let leader_changes = self.leaders.changes(action.started, last)
                + self.leaders.not_renewed(action.started, last);
            let ended_by_others = usize::from(end.by.is_empty() || !is_us(&end.by));
            // The queue may lose a deletion and deliver a message again. Where AWS ended the action
            // by itself, no record shows that it is over, and each delivery costs one call to find
            // that out.
            let after = evidence
                .deletions
                .iter()
                .filter(|d| d.at >= end.at && d.body.contains(&action.token));
            let deliveries: usize = after.map(|d| d.receive_count as usize).sum();
            // What a person wrote into the record with another token is an action of its own, and
            // one call finds out that it is not open.
            let is_of_this_hook = |recorded: &&Rc<RecordedInterruption>| {
                self.story.names_no_action(recorded)
                    && recorded
                        .hook
                        .as_ref()
                        .is_some_and(|(g, h)| *g == action.group && *h == action.hook)
            };
            let made_up =
                self.story.recorded(&action.instance, last).iter().filter(is_of_this_hook).count();
            // The sweep looks again and again into an instance that waits in another hook. It knows
            // that this action is over if the process completed it while it has led since.
            let sweeps =
                evidence.terms.longest("--sweep-interval", Duration::ZERO) > Duration::ZERO;
            let sweep_checks = if sweeps { most_checks(last.since_or_zero(end.at)) } else { 0 };
            let terms = self.leaders.changes(end.at, last) + self.leaders.not_renewed(end.at, last);
            // It does not know that either where the instance waited before, for something else:
            // two rounds do not show in which of both waits the action ended.
            let earlier = || {
                evidence.actions.iter().filter(|other| {
                    other.instance == action.instance && other.started < action.started
                })
            };
            let waited = earlier().any(|other| {
                other.end.as_ref().is_none_or(|end| end.at + BETWEEN_ROUNDS >= action.started)
            });
            let has_lost_answer = lost_answers.clone().next().is_some();
            let sweep_checks =
                sweep_checks * (ended_by_others + terms + usize::from(waited || has_lost_answer));
            // An earlier action of the hook that AWS ended by itself is still in the record, and
            // one call finds out that it is over.
            let earlier_ended_by_others = earlier()
                .filter(|other| other.group == action.group && other.hook == action.hook)
                .filter_map(|other| other.end.as_ref())
                .filter(|end| end.at <= last && !is_us(&end.by))
                .count();
            let allowed = lost_answers.count()
                + leader_changes
                + self.written_again_without_token(action, end.at, last)
                + ended_by_others * deliveries.max(1)
                + earlier_ended_by_others
                + made_up
                + sweep_checks;
            // A call that had its turn behind the completion was on its way.
            let late: Vec<f64> = action
                .late_calls
                .iter()
                .filter(|at| **at > end.at + Duration::from_millis(100))
                .map(|at| at.duration_since(end.at).as_secs_f64())
                .collect();
            if late.len() > allowed {
                let what = format!(
                    "{object} was called for {late:?} s after its end ({:?}), and {allowed} times \
                     could be explained",
                    end.verdict
                );
                self.broken(end.at, what);
            }
        }
    }

    /// How often a Node of the action's instance was registered anew between these moments, and got
    /// back an open record that names the action without its token.
    fn written_again_without_token(
        &self,
        action: &ActionReport,
        from: Moment,
        to: Moment,
    ) -> usize {
        let named: Vec<_> = self.story.recorded(&action.instance, from);
        let of_it = || named.iter().filter(|recorded| recorded.is_of(action));
        let Some(node) = self.evidence.nodes.get(&action.instance) else { return 0 };
        if of_it().next().is_none() || of_it().any(|recorded| recorded.token.is_some()) {
            return 0;
        }
        let is_written = |added: Moment| {
            let mut pages = self.story.pages_between(node, added, to).map(|(page, _)| page);
            pages.any(|page| {
                let names = page.recorded.iter().any(|recorded| recorded.is_of(action));
                page.at >= added && is_us(&page.by) && is_open(page) && names
            })
        };
        let added = self.evidence.entries.iter().filter(|entry| {
            entry.at > from
                && entry.at <= to
                && matches!(&entry.fact, Fact::NodeAdded(name) if name == node)
        });
        added.filter(|entry| is_written(entry.at)).count()
    }
}

/// How often a leader may look into an instance that waits for this long: after pauses of 1, 2, 4, 8
/// and then 10 minutes.
fn most_checks(waited: Duration) -> usize {
    let (mut looks, mut pause, mut next) = (1, 60, 60);
    while waited.as_secs() >= next {
        looks += 1;
        pause = (pause * 2).min(600);
        next += pause;
    }
    looks
}

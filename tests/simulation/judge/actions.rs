//! Lifecycle actions: each of ours ends by our completion, in time, not too early, and is left
//! alone afterwards.

use std::{collections::BTreeSet, time::Duration};

use sundown::{
    domain::Moment,
    sim::{
        aws::{ActionReport, Call, HookResult, Outcome, State, Transition, Verdict},
        kube::{Entry, Fact},
    },
};

use super::{
    Judge, ON_ITS_WAY, Response, SLACK,
    excuses::{
        COMPLETIONS, HEARTBEATS, LEASE, LIST_NODES, MESSAGES, Needs, REMOVE_PODS, SEE_BUDGETS,
        SEE_NODES, SEE_PODS, SEE_VOLUMES, Scope, WRITE_NODES,
    },
    in_time::WELL_AGAIN,
    is_us,
    leaders::{Gap, Why},
    nodes::{TAINT, is_claimed_twice, open_record, record},
    promises::Promise,
    sent::Kind,
    story::{Deadline, Life, Page, is_open},
};

const COMPLETE: &str = "autoscaling:CompleteLifecycleAction";
/// What shows whether an instance waits: the list of its group, and that of its warm pool.
const MEMBERS: [&str; 2] =
    ["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeWarmPool"];

impl Judge<'_> {
    /// Every hook of ours ends by our completion, in time, and not before its node is empty.
    pub(super) fn actions(&mut self) {
        for action in self.evidence.actions.clone() {
            if !self.is_ours(&action.group, &action.hook) {
                let end = action.end.as_ref().filter(|e| is_us(&e.by));
                let is_allowed = |at: Moment, by: &str| {
                    let (group, hook) = (action.group.as_str(), action.hook.as_str());
                    self.looks_like_ours(group, &action.instance, at)
                        || self.is_made_up(group, hook, &action.instance, at)
                        || self.is_accepted_unconfirmed(group, hook, &action.instance, at)
                        || self.is_unchecked(group, hook, by, at)
                };
                if end.is_some_and(|e| !is_allowed(e.at, &e.by)) {
                    self.broken(
                        action.started,
                        format!(
                            "{}/{} of {} was completed and is not ours",
                            action.group, action.hook, action.instance
                        ),
                    );
                }
                continue;
            }
            let name = format!("{}/{} of {}", action.group, action.hook, action.instance);
            if self.is_ignored(&action) {
                let is_made_up = || {
                    let (hook, ended) = (&action.hook, self.evidence.ended);
                    self.is_made_up(&action.group, hook, &action.instance, ended)
                };
                let end = action.end.as_ref().filter(|end| is_us(&end.by));
                match end.map(|end| (end.at, is_made_up())) {
                    // A person wrote its hook into a record.
                    Some((_, true)) => {}
                    Some((at, false)) => {
                        self.broken(at, format!("{name} was completed, which --on forbids"));
                        continue;
                    }
                    None => continue,
                }
            }
            let Some(end) = &action.end else {
                let ended = self.evidence.ended;
                if !self.was_hard_to_find(&action, ended) {
                    self.broken(ended, format!("{name} is open"));
                }
                continue;
            };
            match end.verdict {
                // What others complete is theirs.
                Verdict::Completed(_)
                    if action.transition == Transition::Terminating && is_us(&end.by) =>
                {
                    self.count(Promise::HookKeptOpen, false);
                    self.not_too_early(&name, &action, end.at);
                    self.not_too_short(&name, &action, end.at);
                    self.asked_before(&name, &action, end.at);
                    self.not_too_late(&name, &action, end.at);
                }
                Verdict::Completed(_) | Verdict::Stopped | Verdict::Removed => {}
                Verdict::TimedOut(_) => self.excused(&name, &action, end.at),
                Verdict::GlobalTimeout(_) => {
                    self.broken(end.at, format!("{name} ran into its global timeout"));
                }
            }
        }
    }

    /// `--on` says to ignore its messages, or what its event would have said: it gets neither
    /// heartbeats nor a completion.
    fn is_ignored(&self, action: &ActionReport) -> bool {
        let of_it = self.story.notices.iter().map(|n| &n.event).filter(|event| {
            event.instance == action.instance && event.token.as_ref() == Some(&action.token)
        });
        let mut kinds: BTreeSet<&str> = of_it.map(|event| event.kind.name()).collect();
        if self.is_event_lost(action) {
            kinds.insert(match action.transition {
                Transition::Launching => Kind::LaunchHook.name(),
                Transition::Terminating if action.replaces_root_volume => Kind::RootVolume.name(),
                Transition::Terminating => Kind::TerminateHook.name(),
            });
        }
        !kinds.is_empty()
            && kinds.iter().all(|kind| self.evidence.terms.response(kind) == Response::Ignore)
    }

    /// It timed out: something must have kept every leader from beating.
    fn excused(&mut self, name: &str, action: &ActionReport, end: Moment) {
        let last = action.heartbeats.last().copied().unwrap_or(action.started);
        let timeout = action.heartbeat_timeout;
        let interval = if timeout < Duration::from_secs(60) { timeout / 3 } else { timeout / 2 };
        // Retries, and what a dead replica had received, which is hidden for a minute.
        let due = last + interval + Duration::from_secs(3);
        let (instance, node) = (
            action.instance.as_str(),
            self.evidence.nodes.get(&action.instance).map_or("", String::as_str),
        );
        // A process that cannot renew its Lease goes on with its heartbeats.
        let heartbeats = Scope {
            needs: &[HEARTBEATS],
            of: Some((instance, node)),
            process: None,
            without_leader: Some(false),
        };
        let accept = Scope::of_leader(&[MESSAGES, SEE_NODES, HEARTBEATS]).about(instance, node);
        let is_accepted = self.story.recorded(instance, due).iter().any(|t| t.is_of(action));
        let kept_alive = self.heartbeats_until(action, end);
        let unknown = self
            .evidence
            .nodes
            .get(&action.instance)
            .and_then(|n| self.unknown_from(n, instance, end));
        let until =
            [unknown, self.unlisted_from(end)].into_iter().flatten().fold(kept_alive, Ord::min);
        let is_known = !action.heartbeats.is_empty()
            || self.story.recorded(instance, end).iter().any(|t| t.is_of(action))
            || self.was_launch_known(action, due);
        // Nobody ever knew of it: somebody had to find it out at any time since it began.
        let (calm, enough) = if is_known {
            let scope = if is_accepted { heartbeats } else { accept };
            (self.longest_clear(scope, due, until), (timeout / 3).min(Duration::from_secs(20)))
        } else {
            (self.longest_clear(accept, action.started, end), timeout.min(WELL_AGAIN))
        };
        let is_gone =
            self.evidence.nodes.get(&action.instance).is_some_and(|n| self.is_forgotten(n, end));
        let is_nobodys =
            self.is_nobodys(instance, action.started) || self.is_nobodys(instance, end);
        let excused = is_gone
            || is_nobodys
            || self.is_message_lost(action, accept, end)
            || self.was_hard_to_find(action, end)
            || calm < enough;
        self.count(Promise::HookKeptOpen, excused);
        if !excused {
            self.broken(
                end,
                format!(
                    "{name} timed out ({timeout:?}), last heartbeat {last}, although all was well \
                     for {calm:?}"
                ),
            );
        }
    }

    /// No record names a launch hook, so its heartbeats show that somebody knew of it: a process
    /// that had received its message sent one by that moment, and the call met a fault.
    fn was_launch_known(&self, action: &ActionReport, until: Moment) -> bool {
        let object = format!("{}/{}/{}", action.group, action.hook, action.instance);
        let had_received = |process: &str, at: Moment| {
            self.story.notices.iter().any(|notice| {
                notice.event.token.as_ref() == Some(&action.token)
                    && notice.was_delivered_to(process, at)
            })
        };
        action.transition == Transition::Launching
            && self.evidence.disturbances.iter().any(|d| {
                HEARTBEATS.contains(&d.what.as_str())
                    && d.object == object
                    && (action.started..=until).contains(&d.at)
                    && is_us(&d.by)
                    && had_received(&d.by, d.at)
            })
    }

    /// The Node is the record: one that is deleted takes what it owes with it, unless a process saw
    /// it go and lives on.
    fn is_forgotten(&self, node: &str, until: Moment) -> bool {
        self.story
            .records_lost(node, until)
            .into_iter()
            .any(|lost| self.story.witnesses(lost, until).is_empty())
    }

    /// From when on a process leads that cannot know the Node. Each replica remembers for itself:
    /// what a standby saw does not help the leader. Until then the process that had led sends
    /// heartbeats. If one that knows the Node led first, AWS must have answered none of its calls.
    fn unknown_from(&self, node: &str, instance: &str, until: Moment) -> Option<Moment> {
        let lost = self.story.records_lost(node, until).into_iter();
        let calls = Scope::of_leader(&[HEARTBEATS, COMPLETIONS]).about(instance, node);
        lost.filter_map(|lost| {
            let witnesses = self.story.witnesses(lost, until);
            let succeeded = || {
                let from = self.leaders.succeeded(&witnesses, lost, until)?;
                (self.longest_clear(calls, lost, from) <= SLACK).then_some(from)
            };
            self.leaders.passed_over(&witnesses, lost, until).or_else(succeeded)
        })
        .min()
    }

    /// From when on a process leads that has not been able to list the Nodes since it leads, where
    /// no process that lives has ever listed them: nobody knows the records.
    fn unlisted_from(&self, end: Moment) -> Option<Moment> {
        let leader = self.leaders.at(end)?.process?;
        let since = self.leaders.leads_since(leader, end)?;
        let lists =
            Scope { needs: &[LIST_NODES], of: None, process: Some(leader), without_leader: None };
        let fails = self.longest_clear(lists, since, end) <= SLACK;
        (fails && self.story.knew_nodes(end, end).is_empty()).then_some(since)
    }

    /// A process that lost its Lease goes on with the heartbeats for as long as a drain may take
    /// from when it accepted the action, took it over or resumed its drain, and then ends them. If
    /// the drain was paused when the Lease was lost, it does not end them.
    fn heartbeats_until(&self, action: &ActionReport, end: Moment) -> Moment {
        let recorded = self.story.recorded(&action.instance, end);
        let of_it = recorded.iter().filter(|t| t.is_of(action));
        let Some(first) = of_it.min_by_key(|t| t.accepted) else { return end };
        let accepted = first.accepted;
        let timeout = self.story.drain_timeout(&action.instance, first, end);
        let over = |gap: &Gap| {
            let leader = self.leaders.at(gap.from).and_then(|holder| holder.process);
            let led = leader.and_then(|process| self.leaders.goes_on_since(process, gap.from));
            let taken_up = led.map_or(accepted, |since| accepted.max(since));
            match self.last_pause(&action.instance, gap.from) {
                Some(until) if until > gap.from => end,
                resumed => resumed.map_or(taken_up, |at| taken_up.max(at)) + timeout,
            }
        };
        let lost = self
            .leaders
            .gaps
            .iter()
            .find(|gap| gap.why == Why::NotRenewed && gap.from <= end && gap.to >= end);
        // One whose time was over before goes on until the Lease is lost.
        lost.map_or(end, |gap| over(gap).max(gap.from).min(end))
    }

    /// When the last pause ends that began before that moment and that the leader must have seen:
    /// two seconds of it in which it could see the Lease or the Node.
    fn last_pause(&self, instance: &str, at: Moment) -> Option<Moment> {
        const SEEN: Duration = Duration::from_secs(2);
        let node = self.evidence.nodes.get(instance).map_or("", String::as_str);
        let is_seen = |pause: &(Moment, Moment)| {
            let (from, until) = (pause.0, pause.1.min(at));
            let needs: &[Needs] =
                if self.evidence.pauses.contains(pause) { &[LEASE] } else { &[SEE_NODES] };
            let scope = Scope::of_leader(needs).about(instance, node);
            from + SEEN <= until && self.longest_clear(scope, from, until) >= SEEN
        };
        let pauses = self.story.pauses(node).into_iter();
        pauses.filter(is_seen).map(|(_, until)| until).max()
    }

    fn not_too_early(&mut self, name: &str, action: &ActionReport, at: Moment) {
        let Some(node) = self.evidence.nodes.get(&action.instance) else { return };
        let left = self.held_up_by(node, action, at);
        let excused = left.is_empty() && !self.story.left(node, at).is_empty();
        self.count(Promise::NotTooEarly, excused);
        if left.is_empty() || !self.due(node, action, at).is_empty() {
            return;
        }
        let names: Vec<&str> = left.iter().map(|l| l.pod.name.as_str()).collect();
        let paused = self
            .known_pause(node, at)
            .map(|since| format!(", paused since {since}"))
            .unwrap_or_default();
        let deadlines = self.story.deadlines(&action.instance, at);
        self.broken(
            at,
            format!(
                "{name} was completed before {node} was empty: {names:?} are left{paused}; \
                 {deadlines:?}"
            ),
        );
    }

    /// The pods that a completion had to wait for, unless a deadline had come. None if `--on` lets
    /// the pods of the node stay.
    fn held_up_by(&self, node: &str, action: &ActionReport, at: Moment) -> Vec<&Life> {
        let excused =
            self.is_ended_otherwise(node, action, at) || self.drain_keeps_pods(node, at, at);
        if excused || self.was_empty(node, action, at) {
            Vec::new()
        } else {
            self.story.left(node, at)
        }
    }

    /// Something else than an empty node or a deadline had ended its drain.
    pub(super) fn is_ended_otherwise(&self, node: &str, action: &ActionReport, at: Moment) -> bool {
        let over = |s: State| matches!(s, State::Stopped | State::Terminated);
        let is_over = self
            .evidence
            .changes
            .iter()
            .any(|c| c.id == action.instance && over(c.state) && c.at <= at);
        is_over
            || self.node_away(node, &action.instance, at)
            || self.story.machine_gone(node, at)
            || self.story.released_by_hand(node, at)
            || self.story.record_deleted_twice(node, at)
            || self.is_unreachable(&action.instance, node, at)
            || self.is_passed_over(node, at)
            || self.is_restored_by_hand(node, at)
    }

    /// Somebody else left the Node with neither an open record nor our taint, and Sundown has begun
    /// no drain of it since: the Node shows that its drain is over.
    fn is_restored_by_hand(&self, node: &str, at: Moment) -> bool {
        let writes = self.writes.iter().filter(|write| write.at <= at);
        let of_it = writes.filter_map(|write| Some((write.by, write.both()?)));
        of_it.filter(|(_, (_, new))| new.name == node).fold(false, |is_over, (by, (old, new))| {
            let has_taint = new.taints.iter().any(|(key, ..)| key == TAINT);
            let is_end = open_record(old).is_some() && record(new).is_none() && !has_taint;
            (is_over && open_record(new).is_none()) || (is_end && !is_us(by))
        })
    }

    /// Its drain lasted as long as `--min-drain-time` says, so that what was just scheduled was
    /// seen.
    fn not_too_short(&mut self, name: &str, action: &ActionReport, at: Moment) {
        let Some(node) = self.evidence.nodes.get(&action.instance) else { return };
        let recorded = self.story.recorded(&action.instance, at);
        let Some(joined) = recorded.iter().filter(|t| t.is_of(action)).map(|t| t.accepted).min()
        else {
            return;
        };
        let begun = self.drain_began(node, action, joined);
        let least = self.evidence.terms.shortest("--min-drain-time", Duration::from_secs(5));
        let is_short = at + SLACK < begun + least;
        if is_short
            && !self.is_ended_otherwise(node, action, at)
            && self.due(node, action, at).is_empty()
        {
            self.broken(
                at,
                format!(
                    "{name} was completed after {:?}: --min-drain-time is {least:?}",
                    at.duration_since(begun)
                ),
            );
        }
    }

    /// When the drain of an action that was accepted then began: perhaps before, for something else
    /// that the record named when the action came into it. That record may have been released at the
    /// same moment.
    fn drain_began(&self, node: &str, action: &ActionReport, accepted: Moment) -> Moment {
        let is_named_by = |page: &&Page| {
            page.node == node && is_open(page) && page.recorded.iter().any(|t| t.is_of(action))
        };
        let page =
            self.story.pages_of(&action.instance).filter(is_named_by).min_by_key(|page| page.at);
        page.and_then(|p| p.recorded.iter().map(|t| t.accepted).min())
            .map_or(accepted, |first| first.min(accepted))
    }

    /// Its kubelet was silent, and another Node that claims its instance was drained in its place.
    pub(super) fn is_passed_over(&self, node: &str, at: Moment) -> bool {
        self.story
            .fell_silent(node, at)
            .is_some_and(|(lost, _)| is_claimed_twice(&self.writes, node, lost, at))
    }

    /// Its node was empty as long before as `--complete-delay` says, or some seconds earlier. What
    /// a controller puts there during the delay (its pods tolerate the cordon) is not waited for,
    /// nor what it puts there while the completion is under way, fails, or waits for AWS to
    /// describe the hooks of the group.
    fn was_empty(&self, node: &str, action: &ActionReport, at: Moment) -> bool {
        let delays = self.complete_delays(&action.instance, at);
        let is_empty = |from: Moment| {
            delays.iter().any(|delay| {
                let earlier: &[u64] = if delay.is_zero() { &[0] } else { &[0, 1, 2, 5] };
                earlier.iter().any(|more| {
                    self.story.left(node, from - *delay - Duration::from_secs(*more)).is_empty()
                })
            })
        };
        is_empty(at)
            || self.first_tried(action, at).is_some_and(is_empty)
            || self.was_empty_and_gated(node, action, at)
            || self.was_empty_and_undescribed(node, action, at)
            || self.was_empty_and_unconfirmed(node, action, at)
    }

    /// When the process that completed an action first tried to, of the time for which it has led
    /// without a break. A new leader looks at the node anew. A call that AWS took seconds to
    /// process counts from when it came in. A call from before the action was for an earlier
    /// action of the hook.
    fn first_tried(&self, action: &ActionReport, at: Moment) -> Option<Moment> {
        let by = &action.end.as_ref()?.by;
        let since = self.leaders.leads_since(by, at)?.max(action.started);
        let object = format!("{}/{}/{}", action.group, action.hook, action.instance);
        let is_try =
            |api: &str, of: &str, from: &str| api == COMPLETE && of == object && from == by;
        let calls = self.evidence.calls.iter().filter(|c| is_try(&c.api, &c.object, &c.by));
        let faults =
            self.evidence.disturbances.iter().filter(|d| is_try(&d.what, &d.object, &d.by));
        let tries = calls.map(|c| c.at).chain(faults.map(|d| d.at));
        tries.filter(|tried| *tried >= since && *tried < at).min()
    }

    /// The process that completed an action saw its node empty. From then on, until just before
    /// the completion, AWS did not describe the hooks of the group when that process asked, nor had
    /// it before. So the process could not know whether the hook is its own.
    fn was_empty_and_undescribed(&self, node: &str, action: &ActionReport, at: Moment) -> bool {
        let Some(by) = action.end.as_ref().map(|end| &end.by) else { return false };
        let is_it = |c: &&Call| {
            c.api == "autoscaling:DescribeLifecycleHooks"
                && c.object == action.group
                && c.by == *by
                && c.at >= action.started
                && c.at + SLACK < at
        };
        let asked: Vec<Moment> = self.evidence.calls.iter().filter(is_it).map(|c| c.at).collect();
        let is_described =
            self.evidence.calls.iter().filter(is_it).any(|c| c.outcome == Outcome::Ok);
        let asked_after = |empty: Moment| asked.iter().any(|asked| *asked >= empty);
        !is_described && self.emptied(node, by, at).any(asked_after)
    }

    /// The process that completed an action saw its node empty. It knew the action from the record
    /// only, so AWS had to show first that the instance waits. But AWS did not answer from then on
    /// until just before the completion, or until the message of the action came again.
    fn was_empty_and_unconfirmed(&self, node: &str, action: &ActionReport, at: Moment) -> bool {
        let Some(by) = action.end.as_ref().map(|end| &end.by) else { return false };
        let of_group =
            |c: &&Call| c.by == *by && c.object.split(',').any(|group| group == action.group);
        let is_unconfirmed = |empty: Moment| {
            let knows_message = self.story.notices.iter().any(|notice| {
                notice.event.token.as_ref() == Some(&action.token)
                    && notice.was_delivered_to(by, empty)
            });
            // An answer is good for a minute, and an unanswered question is asked again after some
            // seconds.
            let answers = self
                .evidence
                .calls
                .iter()
                .filter(of_group)
                .filter(|c| c.at + Duration::from_secs(60) >= empty && c.at + SLACK < at);
            let asks_again = |c: &Call| c.at + Duration::from_secs(5) >= empty;
            let is_unanswered = |api: &&str| {
                let mut answers = answers.clone().filter(|c| c.api == **api);
                answers.clone().any(asks_again) && answers.all(|c| c.outcome != Outcome::Ok)
            };
            !knows_message && MEMBERS.iter().any(is_unanswered)
        };
        self.emptied(node, by, at).any(is_unconfirmed)
    }

    /// When a process that led without a break until that moment could see that the node is empty,
    /// and that `--complete-delay` was over since.
    pub(super) fn emptied(&self, node: &str, by: &str, at: Moment) -> impl Iterator<Item = Moment> {
        let since = self.leaders.leads_since(by, at);
        let instance = self.instance_of(node);
        let delays =
            instance.map(|instance| self.complete_delays(instance, at)).unwrap_or_default();
        let of_it = self.story.pods.values().filter(move |life| life.pod.node == node);
        of_it
            .flat_map(|life| life.finished.into_iter().chain(life.gone))
            .filter(move |went| since.is_some_and(|since| *went >= since))
            .filter(move |went| self.story.left(node, *went).is_empty())
            .flat_map(move |went| delays.clone().into_iter().map(move |delay| went + delay))
    }

    /// The deadlines that had come and count: in a pause none does. If the process had tried to
    /// complete the action before the pause, those count that had come by then: its drain was over.
    pub(super) fn due(&self, node: &str, action: &ActionReport, at: Moment) -> Vec<Deadline> {
        let is_paused = |at: &Moment| self.known_pause(node, *at).is_some();
        let before = || self.first_tried(action, at).filter(|tried| !is_paused(tried));
        let Some(at) = Some(at).filter(|at| !is_paused(at)).or_else(before) else {
            return Vec::new();
        };
        self.story
            .deadlines(&action.instance, at)
            .into_iter()
            .filter(|d| at + SLACK >= d.end)
            .collect()
    }

    /// Its kubelet is silent, and everybody could know: after 40 s without a word (the last one up
    /// to ten seconds old) its Node is unknown, and a minute later given up.
    fn is_unreachable(&self, instance: &str, node: &str, at: Moment) -> bool {
        let Some((lost, back)) = self.story.fell_silent(node, at) else { return false };
        let since = back.unwrap_or(at);
        let late = Scope::of_leader(&[SEE_NODES, COMPLETIONS]).about(instance, node);
        // What was decided then may be on its way a little longer.
        let still = back.is_none_or(|back| self.longest_clear(late, back, at) <= ON_ITS_WAY);
        lost + Duration::from_secs(90) <= since && still
    }

    /// Where nothing but a deadline let it go, every pod that stayed had been asked.
    fn asked_before(&mut self, name: &str, action: &ActionReport, at: Moment) {
        let Some(node) = self.evidence.nodes.get(&action.instance) else { return };
        let recorded = self.story.recorded(&action.instance, at);
        let Some(from) = recorded.iter().filter(|t| t.is_of(action)).map(|t| t.accepted).min()
        else {
            return;
        };
        // What came just now had no time.
        let old = |l: &&Life| l.bound + Duration::from_secs(10) <= at;
        let left: Vec<_> = self.held_up_by(node, action, at).into_iter().filter(old).collect();
        let scope = Scope::of_leader(&[SEE_NODES, SEE_PODS, SEE_BUDGETS, REMOVE_PODS])
            .about(&action.instance, node);
        let excused = !left.is_empty()
            && (self.is_meddled(node, from, at) || self.is_excused(scope, from, at));
        self.count(Promise::AskedBeforeGivenUp, excused);
        if excused {
            return;
        }
        let missed: Vec<String> = left
            .into_iter()
            .filter(|l| !self.was_asked(l, at) && !self.came_in_the_release(l, from))
            .map(|l| l.pod.name.clone())
            .collect();
        if !missed.is_empty() {
            self.broken(at, format!("{name} was given up, and nobody had asked {missed:?} to go"));
        }
    }

    /// Where nothing was broken and nobody interfered, it is completed as soon as the node is
    /// empty, counted from its beginning.
    fn not_too_late(&mut self, name: &str, action: &ActionReport, at: Moment) {
        // For a call on its way, and for a status that has to be seen.
        const ROOM: Duration = Duration::from_secs(3);
        let at_least = self.evidence.terms.longest("--min-drain-time", Duration::from_secs(5));
        let Some(node) =
            self.evidence.nodes.get(&action.instance).filter(|_| self.evidence.terms.calm)
        else {
            return;
        };
        // A Node may register while its instance already waits for its end.
        let Some(registered) = self.story.registered(&action.instance) else { return };
        let recorded = self.story.recorded(&action.instance, at);
        let accepted =
            recorded.iter().filter(|t| t.is_of(action)).map(|t| t.accepted).min().unwrap_or(at);
        // Nobody knows of an action whose event is lost, until the sweep finds it.
        let known = if self.is_event_lost(action) { accepted } else { action.started };
        let from = known.max(registered);
        let begun = self.drain_began(node, action, accepted);
        let mut empty = from + at_least;
        let was_there = |l: &&Life| {
            l.pod.node == node.as_str() && l.bound <= at && super::story::counts(&l.pod)
        };
        for life in self.story.pods.values().filter(was_there) {
            // One that had finished before is left alone, unless it was asked to go before that. One
            // that finishes on its way out holds its volumes until its object is gone.
            let had_finished = life.finished.filter(|finished| *finished <= begun);
            let over = had_finished.map(|finished| self.held_until(life, finished));
            match life.gone.or(over) {
                Some(went) if went <= at => empty = empty.max(went),
                // It was given up at a deadline, or stuck behind a finalizer.
                _ => return,
            }
        }
        let empty = self.release_held_until(node, empty, at).map_or(empty, |at| at.max(empty));
        let empty = self.volumes_held_until(node, at).map_or(empty, |at| at.max(empty));
        let latest = empty + self.longest_delay(&action.instance, at) + ROOM;
        // What was broken while pods still left the node, and is felt no longer, excuses nothing.
        let needs = &[
            MESSAGES,
            SEE_NODES,
            WRITE_NODES,
            SEE_PODS,
            SEE_VOLUMES,
            SEE_BUDGETS,
            REMOVE_PODS,
            COMPLETIONS,
        ];
        let scope = Scope::of_leader(needs).about(&action.instance, node);
        let excused =
            self.is_meddled(node, from, at) || self.is_excused(scope, empty, at.max(latest));
        self.count(Promise::NotTooLate, excused);
        if !excused && at > latest {
            self.broken(at, format!("{name} was completed late: {node} was empty at {empty}"));
        }
    }

    /// Until when a drain waits for a pod that finished at this moment. If it was asked to go before
    /// that, a drain waits for its object until a minute after its grace period.
    fn held_until(&self, life: &Life, finished: Moment) -> Moment {
        const STUCK: Duration = Duration::from_secs(60);
        let due = |e: &Entry| match &e.fact {
            Fact::Evicted { pod, grace, .. } | Fact::Deleted { pod, grace, .. }
                if pod.uid == life.pod.uid && e.at <= finished =>
            {
                Some(e.at + Duration::from_secs(*grace))
            }
            _ => None,
        };
        let due = self.evidence.entries.iter().filter_map(due).max();
        due.map_or(finished, |due| due + STUCK)
    }

    /// Somebody did something to the node, or paused it, or it was not there all the time.
    pub(super) fn is_meddled(&self, node: &str, from: Moment, to: Moment) -> bool {
        let hands = self.evidence.hands.iter().any(|(at, n, _)| n == node && *at <= to);
        let paused = self.story.pauses(node).iter().any(|(a, b)| *a <= to && *b >= from);
        hands || paused || self.story.node_gone(node, to) || self.story.machine_gone(node, to)
    }

    /// We say CONTINUE, whatever became of the drain, unless a flag says ABANDON for drains that
    /// failed, the group retains the instance, and pods were left at the deadline. (Launch hooks:
    /// see [`super::launches`].)
    pub(super) fn continued(&mut self) {
        let terminating = |a: &&ActionReport| a.transition == Transition::Terminating;
        for action in self.evidence.actions.iter().filter(terminating) {
            if let Some(end) = action.end.as_ref().filter(|e| is_us(&e.by))
                && end.verdict != Verdict::Completed(HookResult::Continue)
                && !(end.verdict == Verdict::Completed(HookResult::Abandon)
                    && self.may_abandon(action, end.at))
            {
                self.broken(
                    end.at,
                    format!(
                        "{}/{} of {} was not continued: {:?}",
                        action.group, action.hook, action.instance, end.verdict
                    ),
                );
            }
        }
    }

    /// ABANDON is right for this terminate hook, completed at this moment.
    fn may_abandon(&self, action: &ActionReport, at: Moment) -> bool {
        // A process asks for the group's policy for 40 s, and pods may leave meanwhile.
        const ASKED_FOR: Duration = Duration::from_secs(50);
        let terms = &self.evidence.terms;
        let Some(node) = self.evidence.nodes.get(&action.instance) else { return false };
        // If EC2 has ended the instance, the process may not know, and sees its pods left.
        let were_left = |at: Moment| {
            !self.held_up_by(node, action, at).is_empty()
                || (self.story.machine_gone(node, at) && !self.story.left(node, at).is_empty())
        };
        let were_left = [at, at - ASKED_FOR].into_iter().any(were_left);
        terms.each("--hook-result-on-failure").contains("abandon")
            && terms.retaining.contains(&action.group)
            && were_left
            && !self.due(node, action, at).is_empty()
    }

    /// The same of what was completed by a replica, in whatever world.
    pub(super) fn none_too_early(&mut self) {
        for action in self.evidence.actions.clone() {
            let Some(end) = action
                .end
                .as_ref()
                .filter(|e| is_us(&e.by) && action.transition == Transition::Terminating)
            else {
                continue;
            };
            self.not_too_early(
                &format!("{}/{} of {}", action.group, action.hook, action.instance),
                &action,
                end.at,
            );
        }
    }
}

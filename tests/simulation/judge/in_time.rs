//! In time: an interruption is accepted within seconds of its sending.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use sundown::{domain::Moment, sim::aws::State};

use super::{
    Belongs, Judge,
    excuses::{MESSAGES, SEE_NODES, Scope, WRITE_NODES},
    promises::Promise,
    scheduled,
    sent::{Kind, Notice},
};
use crate::harness::NO_CLUSTER_NAME;

/// From the sending of a message to its accept where nothing stood in the way then.
const AT_ONCE: Duration = Duration::from_secs(3);
/// The same where something did: the longest time between two tries, in a row without an excuse.
pub(super) const WELL_AGAIN: Duration = Duration::from_secs(30);

impl<'a> Judge<'a> {
    /// Each interruption of a node of ours that was sent is written down, or its message is
    /// deleted, in time. Whether it may be deleted without that is judged with the
    /// [messages](super::messages). Returns how many interruptions were judged.
    pub(super) fn in_time(&mut self) -> usize {
        let mut late = Vec::new();
        let mut judged = 0;
        for notice in &self.story.notices {
            let event = &notice.event;
            // No message waits for what EC2 shows: it is noted when Sundown next asks.
            if event.id.starts_with(scheduled::EC2_EVENT) {
                continue;
            }
            let Some((node, from)) = self.waits_from(notice) else { continue };
            let settled = self.settled(notice);
            // Nobody waits any longer for what was lost with its queue, or for a Node that is gone.
            let ends = [
                settled,
                self.lost_with_queue(notice),
                self.story.left_at(node, &event.instance, from),
            ];
            let end = ends.into_iter().flatten().fold(self.evidence.ended, Moment::min);
            let scope = Scope::of_leader(&[MESSAGES, SEE_NODES, WRITE_NODES]);
            // Where its kubelet is silent, it is written on the others that claim its instance. If
            // the instance is terminated, it is written on all of them.
            let mut nodes = self.stand_ins(node, &event.instance, from);
            nodes.extend(self.drained_beside(node, &event.instance, from));
            nodes.insert(node);
            let at_once = end <= from + AT_ONCE;
            // While no process has room for it, all that keeps other messages from being decided
            // stands in the way.
            let received = self.had_room(notice, from).min(end);
            let was_excused = |node: &str| {
                let is_full = received > from + AT_ONCE;
                let own = if is_full { scope } else { scope.about(&event.instance, node) };
                self.is_excused(own, from, from + AT_ONCE)
            };
            // The others that claim its instance are cordoned before its message is deleted.
            let is_written =
                self.story.first_told(&event.instance, &event.id, event.hook.as_ref()).is_some();
            let mut beside = self.other_claimants(node, &event.instance, from);
            beside.retain(|_| !is_written);
            let is_well_again = |node: &&str| {
                self.longest_clear(scope, from, received) > WELL_AGAIN
                    || self.longest_clear(scope.about(&event.instance, node), received, end)
                        > WELL_AGAIN
            };
            let is_late = !at_once
                && (!nodes.iter().chain(&beside).any(|node| was_excused(node))
                    || nodes.iter().all(is_well_again));
            self.count(Promise::AcceptedInTime, !at_once && !is_late);
            judged += 1;
            if is_late {
                late.push((from, event.kind.name(), event.instance.clone(), settled));
            }
        }
        for (from, kind, instance, settled) in late {
            let after = settled.map(|at| at.duration_since(from));
            self.broken(from, format!("{kind} of {instance} was not accepted in time: {after:?}"));
        }
        judged
    }

    /// When it was written down, or its message deleted. A message that stays for others, or for
    /// another of its instances, is settled when a process receives it and it asks for nothing here.
    fn settled(&self, notice: &Notice) -> Option<Moment> {
        let event = &notice.event;
        let written = self.story.first_told(&event.instance, &event.id, event.hook.as_ref());
        let read = notice.deliveries.iter().map(|d| d.at);
        let stays = |at| self.stays_for_others(notice) || self.stays_for_another(notice, at);
        let read = read.filter(|at| {
            (stays(*at) && self.is_settled(notice, *at)) || self.is_nobodys_block(notice, *at)
        });
        written.into_iter().chain(notice.deleted).chain(read).min()
    }

    /// Its message is also about an instance that may be of another cluster, and the queue is
    /// shared.
    fn stays_for_others(&self, notice: &Notice) -> bool {
        let is_of_others = |other: &Notice| {
            let group = self.evidence.groups.get(&other.event.instance);
            group.and_then(|group| self.belongs(group)) != Some(Belongs::Us)
        };
        self.evidence.terms.is_set("--shared-queue") && self.beside(notice).any(is_of_others)
    }

    /// Its message is also about another instance, for which it is neither written down then nor
    /// asks for nothing, or which has no Node yet. Whether that is in time is judged with that
    /// instance.
    fn stays_for_another(&self, notice: &Notice, at: Moment) -> bool {
        let mut others = self.beside(notice).filter(|o| o.event.instance != notice.event.instance);
        others.any(|other| !self.is_settled(other, at) || self.waits_for_node(other, at))
    }

    /// Its instance is of this cluster, was launched less than `--join-timeout` before, and has no
    /// Node yet. Its message waits for that Node.
    pub(super) fn waits_for_node(&self, notice: &Notice, at: Moment) -> bool {
        const JOIN_TIMEOUT: Duration = Duration::from_secs(300);
        let (evidence, instance) = (self.evidence, notice.event.instance.as_str());
        let group = evidence.groups.get(instance).and_then(|group| self.belongs(group));
        let has_node = self.story.registered(instance).is_some_and(|since| since <= at);
        let timeout = evidence.terms.longest("--join-timeout", JOIN_TIMEOUT);
        let mut changes = evidence.changes.iter().filter(|c| c.id == instance && c.at <= at);
        let was_launched = changes.any(|c| c.state == State::Pending && at < c.at + timeout);
        let has_ended = self.story.is_ending(instance, at);
        group == Some(Belongs::Us) && !has_node && was_launched && !has_ended
    }

    /// What its message says, about each instance.
    fn beside<'s>(&'s self, notice: &'s Notice) -> impl Iterator<Item = &'s Notice> {
        let all = self.story.notices.iter();
        all.filter(|other| other.event.id == notice.event.id && other.sent == notice.sent)
    }

    /// From when on a process had room for its message: when it first received it, if a process was
    /// full of messages with which it waited, and `from` otherwise.
    fn had_room(&self, notice: &Notice, from: Moment) -> Moment {
        let received = notice.deliveries.iter().map(|d| d.at).min();
        let received = received.unwrap_or(self.evidence.ended);
        if self.is_full(from + AT_ONCE) { received.max(from) } else { from }
    }

    /// A process held as many messages at that moment as its `--max-held` allows.
    fn is_full(&self, at: Moment) -> bool {
        if self.evidence.terms.each("--max-held").is_empty() {
            return false;
        }
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for message in &self.evidence.messages {
            let is_gone = message.deleted.is_some_and(|deleted| deleted <= at);
            let holders = message.deliveries.iter().filter(|d| d.at <= at && !is_gone);
            for process in holders.map(|d| d.by.as_str()).collect::<BTreeSet<_>>() {
                *held.entry(process).or_default() += 1;
            }
        }
        let lives =
            |process: &str| !self.evidence.ends.iter().any(|(p, t)| p == process && *t <= at);
        held.iter().filter(|(process, _)| lives(process)).any(|(process, held)| {
            let most = self.evidence.terms.flag(process, "--max-held");
            most.is_some_and(|most| *held >= most.parse::<usize>().unwrap())
        })
    }

    /// From when on its message could be received. On a shared queue, a cluster without a name
    /// gives it back while its instance has no Node, because it may be for another cluster. It is
    /// hidden for a second then, and from the fourth time on for twice as long each time, up to a
    /// minute.
    fn visible_from(&self, notice: &Notice, from: Moment) -> Moment {
        const SHORTLY_HIDDEN: usize = 3;
        let terms = &self.evidence.terms;
        if !terms.is_set("--shared-queue") || !terms.is_set(NO_CLUSTER_NAME) {
            return from;
        }
        let received = || notice.deliveries.iter().map(|d| d.at);
        let before: Vec<_> = received().filter(|at| *at <= from).collect();
        let Some(last) = before.iter().copied().max() else { return from };
        let doubled = before.len().saturating_sub(SHORTLY_HIDDEN).min(6);
        let hidden = Duration::from_secs((1_u64 << doubled).min(60));
        let again = received().filter(|at| *at > from);
        from.max(again.fold(last + hidden, Moment::min))
    }

    /// When its queue was deleted with it.
    pub(super) fn lost_with_queue(&self, notice: &Notice) -> Option<Moment> {
        let deletions = self
            .evidence
            .queue_away
            .iter()
            .map(|(from, _)| *from)
            .filter(|from| *from >= notice.sent);
        deletions.min().filter(|lost| notice.deleted.is_none_or(|deleted| deleted > *lost))
    }

    /// It is about a scheduled change of a terminated instance, of which EC2 shows no tags any
    /// more. With `--managed-tag`, nothing shows that Sundown may drain its node, and on a shared
    /// queue the message stays for others.
    fn is_nobodys_change(&self, notice: &Notice, at: Moment) -> bool {
        let terms = &self.evidence.terms;
        notice.event.kind == Kind::ScheduledChange
            && terms.is_set("--shared-queue")
            && !terms.each("--managed-tag").is_empty()
            && self.story.is_terminated(&notice.event.instance, at)
    }

    /// It is about a Capacity Block, and EC2 shows no instance of ours in it any more because they
    /// are terminated. On a shared queue the message stays for others.
    fn is_nobodys_block(&self, notice: &Notice, at: Moment) -> bool {
        notice.event.kind == Kind::CapacityBlock
            && self.evidence.terms.is_set("--shared-queue")
            && self.story.is_terminated(&notice.event.instance, at)
    }

    /// It asks for the drain of a node of ours that was there: which, and from when on both were
    /// so.
    fn waits_from(&self, notice: &Notice) -> Option<(&'a str, Moment)> {
        let (event, evidence) = (&notice.event, self.evidence);
        let group = evidence.groups.get(&event.instance).and_then(|g| self.belongs(g));
        let hook_is_ours =
            event.hook.as_ref().is_none_or(|(group, hook)| self.is_ours(group, hook));
        let asks = evidence.terms.asks(event)
            && self.is_meant(notice)
            && group == Some(Belongs::Us)
            && hook_is_ours;
        let node = evidence
            .nodes
            .get(&event.instance)
            .filter(|_| asks && notice.sent >= evidence.begun)?;
        // A Node may register while its instance already waits for its end.
        let from = notice.sent.max(self.story.registered(&event.instance)?);
        let from = self.visible_from(notice, from);
        if self.is_nobodys_change(notice, from) {
            return None;
        }
        let is_there =
            self.story.page(node, from).is_some_and(|page| page.instance == event.instance);
        let is_away = self.story.went(node, from).is_some_and(|(_, back)| back.is_none());
        (is_there && !is_away && !self.runs_again(notice, from)).then_some((node.as_str(), from))
    }
}

//! Messages: none is deleted before what it asks for is written down.

use std::time::Duration;
use sundown::{
    domain::Moment,
    sim::{
        aws::{Call, Outcome},
        kube::NodeState,
    },
};

use super::{
    Belongs, Judge, Response, SLACK, Terms,
    excuses::{MESSAGES, SEE_NODES, Scope, WRITE_NODES},
    nodes::{self, PLANNED},
    promises::Promise,
    sent::{Event, Kind, Notice, events},
    story::{Deadline, Page, RecordedInterruption, is_open},
};

impl Judge<'_> {
    /// No message is deleted before what it asks for is durable, unless it asks for nothing.
    pub(super) fn messages(&mut self) {
        for message in &self.evidence.messages {
            if let Some(at) = message
                .deletion_lost
                .or(message.deleted)
                .filter(|_| events(&message.body).is_empty())
            {
                self.broken(
                    at,
                    format!("a message that nobody understands was deleted: {:?}", message.body),
                );
            }
        }
        self.intents();
    }

    /// The same of the messages that are about an instance. There are others that are for nobody
    /// here, and deleted.
    pub(super) fn intents(&mut self) {
        let lost = |notice: &Notice| {
            let at = notice.deleted?;
            self.count(Promise::MessageKept, false);
            (!self.is_kept(notice, at)).then_some(at)
        };
        let lost: Vec<_> = self
            .story
            .notices
            .iter()
            .filter_map(|n| Some((lost(n)?, format!("{:?}", n.event))))
            .collect();
        for (at, event) in lost {
            self.broken(
                at,
                format!("a message was deleted before its intent was durable: {event}"),
            );
        }
    }

    /// What it asks for is durable, or it asks for nothing.
    fn is_kept(&self, notice: &Notice, at: Moment) -> bool {
        let event = &notice.event;
        let Some((group, hook)) = &event.hook else {
            // Of a terminated instance EC2 shows no tags any more.
            let is_late_change = event.kind == Kind::ScheduledChange
                && self.story.is_terminated(&event.instance, at);
            return !self.is_meant(notice)
                || is_late_change
                || self.is_settled(notice, at)
                || self.had_no_node(notice, at);
        };
        // A launch hook asks for no change of a node, but for its completion.
        let terms = &self.evidence.terms;
        let asks = match event.kind {
            Kind::LaunchHook => terms.response(event.kind.name()) > Response::Ignore,
            _ => terms.asks(event),
        };
        !self.is_meant(notice)
            || !asks
            || !self.is_ours(group, hook)
            || self.is_nobodys(&event.instance, at)
            || self.story.recorded(&event.instance, at).iter().any(|t| {
                t.hook == event.hook && same_action(t.token.as_ref(), event.token.as_ref())
            })
            || self.is_replaced_by_hand(notice, at)
            || self.is_over(notice, at)
    }

    /// A person wrote an action of its hook that began no earlier into the open record. A record is
    /// taken at its word, and AWS keeps one action of a hook and an instance open at a time.
    /// Sundown calls an action that only a record names by its instance, so it keeps the real one
    /// open and completes it, too. Whether it did is judged with the [actions](super::actions).
    fn is_replaced_by_hand(&self, notice: &Notice, at: Moment) -> bool {
        let event = &notice.event;
        let Some(node) = self.evidence.nodes.get(&event.instance) else { return false };
        let is_later = |recorded: &RecordedInterruption| {
            recorded.is_made_up && recorded.hook == event.hook && recorded.time >= notice.time()
        };
        let pages = self.story.pages_between(node, self.decided_from(notice, node, at), at);
        let mut open = pages.filter(|(page, _)| page.instance == event.instance && is_open(page));
        open.any(|(page, _)| page.recorded.iter().any(|recorded| is_later(recorded)))
    }

    /// From when on what was written on the Node may be what it was decided by: a moment before its
    /// message was deleted. Where something is broken, the deletion may come much later, and a
    /// process whose watch of Nodes is broken goes by what it saw before.
    fn decided_from(&self, notice: &Notice, node: &str, at: Moment) -> Moment {
        // By AWS's clock, an event may be of a time that is yet to come.
        let time = notice.time().min(at);
        let broke = notice.deliveries.iter().filter(|d| d.at <= at).filter_map(|d| {
            let of = Some((notice.event.instance.as_str(), node));
            let process = Some(d.by.as_str());
            let sees = Scope { needs: &[SEE_NODES], of, process, without_leader: None };
            self.excused_since(sees, d.at)
        });
        let time = broke.fold(time, Moment::min);
        let scope = Scope::of_leader(&[MESSAGES, SEE_NODES, WRITE_NODES])
            .about(&notice.event.instance, node);
        if self.is_excused(scope, time, at) { time } else { time.max(at - Duration::from_secs(3)) }
    }

    /// No action of this event's hook is open any more.
    fn is_over(&self, notice: &Notice, at: Moment) -> bool {
        let event = &notice.event;
        let mut of_it = self.evidence.actions.iter().filter(|a| {
            a.instance == event.instance
                && event.hook.as_ref().is_some_and(|(g, h)| *g == a.group && *h == a.hook)
                && event.token.as_ref().is_none_or(|t| *t == a.token)
        });
        of_it.all(|a| a.end.as_ref().is_some_and(|e| e.at <= at))
    }

    /// Spot, capacity, states: written down, or nothing of ours to write it on, or stale.
    pub(super) fn is_settled(&self, notice: &Notice, at: Moment) -> bool {
        let event = &notice.event;
        let ours = self.evidence.groups.get(&event.instance).and_then(|g| self.belongs(g))
            == Some(Belongs::Us);
        let harmless = !self.evidence.terms.asks(event);
        let known = self.story.recorded(&event.instance, at).iter().any(|t| t.event == event.id)
            || self.is_noted(event, at);
        let node = self.evidence.nodes.get(&event.instance);
        let no_node = node.is_none_or(|n| {
            self.node_away(n, &event.instance, at) || self.story.page(n, at).is_none()
        });
        let repeat = node.is_some_and(|n| {
            let mut drained =
                self.stand_ins(n, &event.instance, at).into_iter().chain([n.as_str()]);
            drained.any(|n| self.is_repeat(notice, n, at))
        });
        let own_time = match event.kind {
            Kind::StateChange => Duration::from_secs(60),
            Kind::CapacityBlock => Duration::from_secs(2400),
            Kind::Rebalance => self.evidence.terms.rebalance_ttl(),
            _ => Duration::from_secs(120),
        };
        let stale = at.since_or_zero(notice.time()) + Duration::from_secs(1) >= own_time;
        let is_nobodys = self.runs_again(notice, at) || self.had_left_its_block(event, at);
        !ours || harmless || known || repeat || no_node || stale || is_nobodys
    }

    /// The Node of its instance registered a moment before the message was deleted. The process had
    /// received the message before that, and EC2's answer had shown it that `--join-timeout` was
    /// over: the message no longer waited for the Node.
    fn had_no_node(&self, notice: &Notice, at: Moment) -> bool {
        // Deletions are collected for a quarter of a second.
        const COLLECTED: Duration = Duration::from_secs(1);
        let instance = notice.event.instance.as_str();
        let node = self.evidence.nodes.get(instance);
        let since = self.story.registered(instance).filter(|since| *since <= at);
        let Some((node, since)) = node.zip(since) else { return false };
        let scope = Scope::of_leader(&[MESSAGES]).about(instance, node);
        let has_received = |process: &str| {
            notice.deliveries.iter().any(|delivery| delivery.by == process && delivery.at < since)
        };
        let is_answer = |call: &&Call| {
            call.api == "ec2:DescribeInstances"
                && call.object.split(['=', ',', ';']).any(|id| id == instance)
                && call.outcome == Outcome::Ok
                && call.at < since
                && has_received(&call.by)
        };
        let asked = self.evidence.calls.iter().filter(is_answer).map(|call| call.at).max();
        self.longest_clear(scope, since, at) <= COLLECTED
            && asked.is_some_and(|asked| !self.waits_for_node(notice, asked))
    }

    /// The warning of a Capacity Block names no instance. This one was terminated already when EC2
    /// was last asked which instances are in the block.
    fn had_left_its_block(&self, event: &Event, at: Moment) -> bool {
        let Some(block) = &event.block else { return false };
        let of_block = format!("capacity-reservation-id={block};");
        let is_answer = |call: &&Call| {
            call.api == "ec2:DescribeInstances"
                && call.object.starts_with(&of_block)
                && call.outcome == Outcome::Ok
                && call.at <= at
        };
        let asked = self.evidence.calls.iter().filter(is_answer).map(|call| call.at).max();
        asked.is_some_and(|asked| self.story.is_terminated(&event.instance, asked))
    }

    /// The instance stopped, and its Node registered after that: EC2 is asked whether the instance
    /// runs again.
    pub(super) fn may_run_again(&self, notice: &Notice, at: Moment) -> bool {
        let event = &notice.event;
        let is_stop = matches!(event.state.as_deref(), Some("stopping" | "stopped"));
        let node = self.evidence.nodes.get(&event.instance);
        is_stop && node.is_some_and(|n| self.story.registered_between(n, notice.time(), at))
    }

    /// The same of an instance that does run: what stopped was an earlier run, or the message is not
    /// true. It asks for nothing.
    pub(super) fn runs_again(&self, notice: &Notice, at: Moment) -> bool {
        self.may_run_again(notice, at) && !self.story.is_ending(&notice.event.instance, at)
    }

    /// What was written on the node when it was decided says as much: it is drained, and is over no
    /// later than this asks for, or what this tells was over by then; or it was drained, and stays
    /// cordoned.
    fn is_repeat(&self, notice: &Notice, node: &str, at: Moment) -> bool {
        let event = &notice.event;
        // What came before a reboot counts for less, and what is written does not show how much.
        if self.story.hand(node, "rebooted", at) {
            return self.story.recorded(&event.instance, at).iter().any(|t| t.event != event.id);
        }
        let since = self.decided_from(notice, node, at);
        self.story
            .pages_between(node, since, at)
            .filter(|(page, _)| page.instance == event.instance)
            .any(|(page, until)| {
                if page.record.is_none() {
                    return false;
                }
                if !is_open(page) {
                    return self.is_only_tainted(page, event)
                        || self.story.cordoned_between(node, since.max(page.at), at.min(until));
                }
                if event.kind == Kind::Rebalance
                    && (self.outranks_recommendations(page) || is_repeated_at_once(page, event))
                {
                    return true;
                }
                // Nothing is sooner than the end of the machine, and a notice that was read after
                // its own end rules nothing.
                if page.recorded.iter().any(|t| t.is_over())
                    || notice.machine_goes().is_some_and(|end| end <= at)
                {
                    return true;
                }
                // A recommendation has no end.
                let ending: Vec<_> =
                    page.recorded.iter().filter(|t| t.kind != "rebalance").cloned().collect();
                self.story
                    .deadlines_of(&event.instance, &ending, at)
                    .iter()
                    .any(|d| d.at <= notice.deadline(&self.evidence.terms) + SLACK)
            })
    }
}

impl Judge<'_> {
    /// The scheduled change stood in the annotation of its Node by then.
    fn is_noted(&self, event: &Event, at: Moment) -> bool {
        let Some(change) = &event.change else { return false };
        let has = |node: &NodeState| {
            nodes::instance(node) == event.instance
                && node.annotations.get(PLANNED).is_some_and(|text| text.contains(&change.arn))
        };
        self.writes.iter().any(|write| write.at <= at && write.new.is_some_and(has))
    }

    /// Something other than a recommendation asks for as much. A recommendation has no end.
    fn outranks_recommendations(&self, page: &Page) -> bool {
        let terms = &self.evidence.terms;
        let all = page.record.as_ref().and_then(|record| record["interruptions"].as_array());
        let of_others: Vec<_> =
            all.into_iter().flatten().filter(|i| i["kind"] != "rebalance").cloned().collect();
        let asked = terms.response(Kind::Rebalance.name());
        !of_others.is_empty() && terms.strongest(&of_others) >= asked
    }

    /// The record asks only for a taint (`--on`), and the event asks for no more.
    fn is_only_tainted(&self, page: &Page, event: &Event) -> bool {
        let terms = &self.evidence.terms;
        let all = page.record.as_ref().and_then(|record| record["interruptions"].as_array());
        all.is_some_and(|all| {
            let strongest = terms.strongest(all);
            strongest < Response::Cordon && terms.response(event.kind.name()) <= strongest
        })
    }
}

/// The record holds a recommendation that is not a minute older than this one.
fn is_repeated_at_once(page: &Page, event: &Event) -> bool {
    const AT_ONCE: Duration = Duration::from_secs(60);
    let Some(time) = event.time else { return false };
    let all = page.record.as_ref().and_then(|record| record["interruptions"].as_array());
    let is_recent = |entry: &serde_json::Value| {
        let recorded = entry["time"].as_str().and_then(|text| text.parse::<Moment>().ok());
        entry["kind"] == Kind::Rebalance.name()
            && recorded.is_some_and(|recorded| time < recorded + AT_ONCE)
    };
    all.is_some_and(|all| all.iter().any(is_recent))
}

/// Of two events of one hook of an instance. One without a token may be about any action.
fn same_action(one: Option<&String>, other: Option<&String>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

impl Notice {
    /// When the machine goes, where this says that it goes soon. A machine that is over (`stopped`,
    /// `terminated`) is news to a drain.
    fn machine_goes(&self) -> Option<Moment> {
        match self.event.state.as_deref() {
            Some("stopping" | "shutting-down") => Some(self.time() + Duration::from_secs(30)),
            None => Some(self.machine_ends()),
            _ => None,
        }
    }

    /// When pods are forced on its account.
    fn deadline(&self, terms: &Terms) -> Moment {
        let after = |seconds| self.time() + Duration::from_secs(seconds);
        let end = match self.event.state.as_deref() {
            Some("stopping" | "shutting-down") => after(30),
            // The machine is over: nothing is sooner.
            Some("stopped" | "terminated") => return self.time(),
            _ => self.machine_ends(),
        };
        Deadline::of(self.time(), end, terms.margin(self.event.kind.name()), self.time()).at
    }
}

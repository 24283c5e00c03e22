//! Formats the report as a table for people.

use std::{collections::BTreeSet, time::Duration};

use super::model::{
    BlockedPod, GateState, GateStatus, Held, Hook, NodeStatus, Report, RequestShown,
    RetainedInstance, Setting, State, Until,
};
use crate::{
    cli::paint::{Paint, Tone, fit, fit_middle},
    domain::{Moment, NodeName, seconds},
};

/// The largest width of the column of nodes, so that a row has 80 columns.
const NODE: usize = 24;
/// The widths of the other columns: kind, since, pods, blocked, force in, time left.
const WIDTHS: [usize; 6] = [14, 6, 4, 8, 9, 9];
/// The most blocked pods that are listed of a node, unless the user named the node.
const LISTED: usize = 5;

/// The most scheduled changes that are listed.
const PLANNED: usize = 10;
/// The most retained instances that are listed.
const RETAINED: usize = 10;
/// The most nodes that are named which wait for the same thing.
const NAMED: usize = 5;

/// How to print the report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) paint: Paint,
    /// The longest line, in columns.
    pub(super) width: usize,
    /// The user named a node: all facts about it are printed.
    pub(super) is_detailed: bool,
}

/// Formats the report.
pub(super) fn text(report: &Report, look: Look) -> String {
    let mut page = Page { look, now: report.time, lines: Vec::new() };
    page.head(report);
    if look.is_detailed {
        for node in &report.nodes {
            page.detail(node);
        }
    } else {
        page.table(report);
    }
    page.planned(report);
    for note in &report.notes {
        page.wrapped(Tone::Caution, "", note);
    }
    page.lines.concat()
}

struct Page {
    look: Look,
    now: Moment,
    lines: Vec<String>,
}

impl Page {
    fn line(&mut self, tone: Option<Tone>, text: &str) {
        let text = fit(text, self.look.width);
        let text = text.trim_end();
        let text = tone.map_or_else(|| text.to_owned(), |tone| self.look.paint.text(tone, text));
        self.lines.push(text + "\n");
    }

    /// Prints a sentence on as many lines as it needs. The first one begins with `start`, the others
    /// with as many spaces. A word that is longer than a line is cut in its middle.
    fn wrapped(&mut self, tone: impl Into<Option<Tone>>, start: &str, text: &str) {
        let tone = tone.into();
        let mut start = start.to_owned();
        let room = self.look.width.saturating_sub(start.chars().count());
        let mut line = String::new();
        for word in text.split_whitespace() {
            let word = fit_middle(word, room);
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                self.line(tone, &format!("{start}{line}"));
                start = " ".repeat(start.chars().count());
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += &word;
        }
        if !line.is_empty() {
            self.line(tone, &format!("{start}{line}"));
        }
    }

    fn head(&mut self, report: &Report) {
        let leader = &report.leader;
        match (&leader.lease, &leader.pod) {
            (Some(lease), Some(pod)) => {
                let since =
                    leader.since.map(|at| format!(" for {}", self.age(at))).unwrap_or_default();
                self.line(None, &format!("Leader: {pod}{since} (Lease {lease})"));
            }
            (Some(lease), None) => {
                let renewed = leader
                    .renewed
                    .map(|at| format!(", last renewed {} ago", self.age(at)))
                    .unwrap_or_default();
                self.line(
                    Some(Tone::Bad),
                    &format!("Leader: NOBODY leads (Lease {lease}{renewed})"),
                );
            }
            (None, _) => self.line(Some(Tone::Bad), "Leader: no Lease was found"),
        }
        if report.paused {
            self.line(
                Some(Tone::Caution),
                "Paused: ALL drains are paused. `sundown resume` ends it.",
            );
        }
    }

    fn age(&self, at: Moment) -> String {
        compact(self.now.since_or_zero(at))
    }

    /// The time until `at`. `none`: the text if there is no such time.
    fn until(&self, at: Option<Moment>, none: &str) -> String {
        match at {
            None => none.to_owned(),
            Some(at) if at <= self.now => "now".to_owned(),
            Some(at) => compact(at.since_or_zero(self.now)),
        }
    }

    fn table(&mut self, report: &Report) {
        let names = short_names(report);
        if report.nodes.is_empty() {
            self.line(None, "No node is being drained.");
        } else {
            let widest = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).clamp(4, NODE);
            let heads = ["KIND", "SINCE", "PODS", "BLOCKED", "FORCE IN", "TIME LEFT"];
            let cells =
                heads.into_iter().zip(WIDTHS).map(|(head, width)| format!(" {head:<width$}"));
            let head = format!("{:<widest$}{}", "NODE", cells.collect::<String>());
            self.line(None, "");
            self.line(Some(Tone::Strong), &head);
            for (node, name) in report.nodes.iter().zip(&names) {
                self.row(node, name, widest);
            }
            self.line(None, "");
            self.line(None, &total(report));
        }
        if !report.drained.is_empty() {
            let text = match report.drained.len() {
                1 => "The drain of 1 node is over; it stays cordoned until its instance goes."
                    .to_owned(),
                count => format!(
                    "The drains of {count} nodes are over; they stay cordoned until their instances \
                     go."
                ),
            };
            self.wrapped(Tone::Faint, "", &text);
        }
        self.waiting(report);
        self.retained(&report.retained);
    }

    /// The instances that Auto Scaling retains, and what to do about them.
    fn retained(&mut self, all: &[RetainedInstance]) {
        if all.is_empty() {
            return;
        }
        let text = match all.len() {
            1 => {
                "Auto Scaling retains 1 instance, because a terminate hook of it was abandoned. It \
                  runs on beside its replacement and costs money until somebody terminates it:"
                    .to_owned()
            }
            count => format!(
                "Auto Scaling retains {count} instances, because a terminate hook of each was \
                 abandoned. They run on beside their replacements and cost money until somebody \
                 terminates them:"
            ),
        };
        self.wrapped(Tone::Bad, "", &text);
        for one in all.iter().take(RETAINED) {
            let group =
                one.group.as_ref().map_or_else(String::new, |group| format!(" of group {group}"));
            let node = match &one.node {
                Some(node) => format!("node {node}"),
                None => "no node".to_owned(),
            };
            let state = one.state.as_deref().unwrap_or("Sundown completed its hook with ABANDON");
            let since =
                one.since.map_or_else(String::new, |at| format!(", for at least {}", self.age(at)));
            let text = format!("{}{group}, {node}: {state}{since}", one.instance);
            self.wrapped(Tone::Bad, "  ", &text);
        }
        let more = all.len().saturating_sub(RETAINED);
        if more > 0 {
            self.line(Some(Tone::Bad), &format!("  and {more} more (-o json)"));
        }
        let text = "Save what their pods hold (operations.md, \"Retained instances\"), then: aws \
            autoscaling terminate-instance-in-auto-scaling-group \
            --no-should-decrement-desired-capacity --instance-id INSTANCE";
        self.wrapped(None, "  ", text);
    }

    /// The nodes that stay cordoned after their drain although their instance does not end: a line
    /// for each thing that they wait for.
    fn waiting(&mut self, report: &Report) {
        for (until, tone, words) in [
            (
                Until::InstanceIsBack,
                Tone::Faint,
                "Cordoned or tainted until the instance is back (warm pool, stop, hibernation, new root volume)",
            ),
            (
                Until::EventShowsReturn,
                Tone::Caution,
                "Cordoned or tainted until an event shows that the instance is back, or a person restores the node, because the sweep is off (--sweep-interval 0s)",
            ),
            (
                Until::InstanceGoesOrBoots,
                Tone::Faint,
                "The drain is over; cordoned or tainted until the instance goes or has booted again",
            ),
            (
                Until::InstanceIsHealthy,
                Tone::Caution,
                "The drain is over; cordoned or tainted until the sick instance is healthy or replaced",
            ),
            (
                Until::PersonRestores,
                Tone::Caution,
                "The drain is over; cordoned or tainted until a person restores the node, because the sweep is off (--sweep-interval 0s)",
            ),
            (
                Until::AnnotationIsRemoved,
                Tone::Caution,
                "The drain is over; cordoned or tainted until a person removes sundown.dev/keep-cordoned",
            ),
            (
                Until::RequestIsRemoved,
                Tone::Faint,
                "The drain is over; cordoned or tainted until the request for it is removed (drain.sundown.dev)",
            ),
            (
                Until::LeaderRestores,
                Tone::Faint,
                "The drain is over; cordoned or tainted until the leader restores it, which is due",
            ),
        ] {
            let nodes = report.waiting.iter().filter(|node| node.until == until);
            let names = names_of(nodes.map(|node| &node.node));
            if !names.is_empty() {
                self.wrapped(tone, "", &format!("{words}: {names}."));
            }
        }
    }

    /// The scheduled changes that come next.
    fn planned(&mut self, report: &Report) {
        for change in report.planned.iter().take(PLANNED) {
            let starts =
                change.starts.map_or_else(String::new, |at| format!(" begins at {at:.0},"));
            let drains = match change.drains {
                Some(at) => format!("its drain at {at:.0}"),
                None => "its drain has begun or begins now".to_owned(),
            };
            let text = format!("Planned: {} of {}:{starts} {drains}.", change.code, change.node);
            self.wrapped(None, "", &text);
        }
        let more = report.planned.len().saturating_sub(PLANNED);
        if more > 0 {
            self.line(None, &format!("{more} more nodes have scheduled changes (-o json)."));
        }
    }

    fn row(&mut self, node: &NodeStatus, name: &str, widest: usize) {
        let since = node.since.map(|at| self.age(at)).unwrap_or_default();
        let force = match node.state {
            State::Paused => "paused".to_owned(),
            State::RecordLost | State::NotDraining | State::Marked => String::new(),
            State::Draining if node.pods.is_none() => "?".to_owned(),
            State::Draining if node.nothing_to_force => "-".to_owned(),
            State::Draining if rules_may_force(node) => "?".to_owned(),
            State::Draining => self.until(node.force_from, "never"),
        };
        let left =
            if node.since.is_some() { self.until(node.deadline, "none") } else { String::new() };
        let (pods, blocked) = node.pods.map_or_else(
            || ("?".to_owned(), "?".to_owned()),
            |p| (p.left.to_string(), p.blocked.to_string()),
        );
        let is_blocked = node.pods.is_some_and(|p| p.blocked > 0);
        let cells = [
            (kinds(node), None),
            (since, None),
            (pods, None),
            (blocked, is_blocked.then_some(Tone::Bad)),
            (force.clone(), (force == "paused" || force == "now").then_some(Tone::Caution)),
            (left.clone(), (left == "now").then_some(Tone::Bad)),
        ];
        let mut line = format!("{:<widest$}", fit(name, widest));
        for ((cell, tone), width) in cells.into_iter().zip(WIDTHS) {
            let padded = format!("{:<width$}", fit(&cell, width));
            line = format!(
                "{line} {}",
                tone.map_or(padded.clone(), |tone| self.look.paint.text(tone, &padded))
            );
        }
        // On a narrow terminal the line is cut. It then has no colors, because a cut could split a
        // color's control sequence.
        let plain = WIDTHS.iter().sum::<usize>() + WIDTHS.len() + widest;
        if plain > self.look.width {
            let uncolored = Self {
                look: Look { paint: Paint::default(), width: usize::MAX, ..self.look },
                now: self.now,
                lines: Vec::new(),
            };
            let mut all = uncolored;
            all.row(node, name, widest);
            let text = all.lines.concat();
            self.line(None, text.lines().next().unwrap_or_default());
        } else {
            self.lines.push(line.trim_end().to_owned() + "\n");
        }
        self.under(node);
    }

    /// Prints the lines under the row of a node.
    fn under(&mut self, node: &NodeStatus) {
        for remark in &node.remarks {
            self.line(Some(Tone::Caution), &format!("  {remark}"));
        }
        for pod in node.blocked.iter().take(LISTED) {
            let text = self.blocked(pod);
            if text.chars().count() + 2 <= self.look.width {
                self.line(Some(Tone::Bad), &format!("  {text}"));
            } else {
                // The reason and the budget matter more than the length of the names.
                self.wrapped(Tone::Bad, "  ", &format!("{}:", pod.pod));
                self.wrapped(Tone::Bad, "    ", &self.reason(pod));
            }
        }
        if node.blocked.len() > LISTED {
            self.line(
                Some(Tone::Bad),
                &format!(
                    "  and {} more: sundown status {}",
                    node.blocked.len() - LISTED,
                    node.node
                ),
            );
        }
        for event in node.events.iter().filter(|e| e.warning) {
            self.line(Some(Tone::Caution), &format!("  {}: {}", event.reason, event.message));
        }
        for gate in node.gates.iter().filter(|gate| gate.state == GateState::Holds) {
            self.wrapped(Tone::Caution, "  ", &self.gate(gate));
        }
        for hook in &node.hooks {
            let text = format!("  hook {}", self.hook(hook));
            self.line(Some(Tone::Faint), &text);
        }
    }

    fn blocked(&self, pod: &BlockedPod) -> String {
        format!("{}: {}", pod.pod, self.reason(pod))
    }

    /// What blocks a pod, since when, and by which budgets.
    fn reason(&self, pod: &BlockedPod) -> String {
        let since = pod.since.map(|at| format!(" {}", self.age(at))).unwrap_or_default();
        let budgets = if pod.budgets.is_empty() {
            String::new()
        } else {
            format!(" {}", pod.budgets.join(" "))
        };
        let message =
            if pod.message.is_empty() { String::new() } else { format!(" ({})", pod.message) };
        format!("{}{since}{budgets}{message}", pod.reason)
    }

    fn hook(&self, hook: &Hook) -> String {
        let heartbeat = hook
            .last_heartbeat
            .map(|at| format!(", last known heartbeat {} ago", self.age(at)))
            .unwrap_or_default();
        format!("{}/{}{heartbeat}", hook.group, hook.name)
    }

    /// Which gate it is, its value, and what it holds until when.
    fn gate(&self, gate: &GateStatus) -> String {
        let GateStatus { annotation, value, of, state, until, why } = gate;
        let value = if value.is_empty() { String::new() } else { format!(" ({value})") };
        let what = match of {
            Held::Evictions => "the evictions",
            Held::Release => "the completion of the lifecycle actions",
        };
        let until = until
            .map(|at| format!(" until {at:.0} (in {})", self.until(Some(at), "")))
            .unwrap_or_default();
        match state {
            GateState::Holds => format!("{annotation}{value} holds {what}{until}"),
            GateState::Waits => {
                format!("{annotation}{value} will hold {what} once the node is empty,{until}")
            }
            GateState::Ignored => format!(
                "{annotation}{value} holds nothing, because {}",
                why.unwrap_or("the drain does not wait for it")
            ),
        }
    }

    fn detail(&mut self, node: &NodeStatus) {
        self.line(None, "");
        let state = match node.state {
            State::Draining => ("is being drained", None),
            State::Marked => ("is only tainted or cordoned, not drained", None),
            State::Paused => ("is being drained, and paused", Some(Tone::Caution)),
            State::RecordLost => ("has lost its record", Some(Tone::Bad)),
            State::NotDraining => ("is not being drained", None),
        };
        self.line(state.1.or(Some(Tone::Strong)), &format!("{} {}", node.node, state.0));
        for remark in &node.remarks {
            self.wrapped(Tone::Caution, "  ", remark);
        }
        if let Some(instance) = &node.instance {
            self.fact("instance", instance);
        }
        for came in &node.interruptions {
            let late =
                if came.accepted.since_or_zero(came.time) >= seconds(10) { ", late" } else { "" };
            match &came.request {
                Some(request) => self.fact("request", &asked(request)),
                None => self.fact("came", &format!("{} at {:.0}", came.kind, came.time)),
            }
            self.fact("accepted", &format!("{:.0}{late}", came.accepted));
        }
        if node.since.is_some() {
            let when = |page: &Self, at: Option<Moment>, none: &str| match at {
                Some(at) if at <= page.now => format!("{at:.0} (passed {} ago)", page.age(at)),
                Some(at) => format!("{at:.0} (in {})", page.until(Some(at), "")),
                None => none.to_owned(),
            };
            let deadline = when(self, node.deadline, "none");
            self.fact("deadline", &deadline);
            if node.restore_at.is_some() {
                let restore = when(self, node.restore_at, "none");
                self.fact("restored", &restore);
            }
            let force = if node.state == State::Marked {
                "its pods stay".to_owned()
            } else if node.state == State::Paused {
                "no pod is deleted by force while the drain is paused".to_owned()
            } else if node.nothing_to_force {
                "no pod is left that could be forced".to_owned()
            } else if rules_may_force(node) {
                "not known: rules may set it (--rules-file)".to_owned()
            } else {
                when(
                    self,
                    node.force_from,
                    if node.pods.is_some() { "no pod is deleted by force" } else { "not known" },
                )
            };
            self.fact("force from", &force);
        }
        match node.pods {
            Some(pods) => {
                let text = format!(
                    "{} left: {} blocked, {} leaving, {} waiting",
                    pods.left, pods.blocked, pods.leaving, pods.waiting
                );
                self.fact("pods", &text);
            }
            None if node.since.is_some() => self.fact("pods", "cannot be listed"),
            None => {}
        }
        for hook in &node.hooks {
            let text = self.hook(hook);
            self.fact("hook", &text);
        }
        for gate in &node.gates {
            let tone = match gate.state {
                GateState::Holds => Tone::Caution,
                GateState::Waits | GateState::Ignored => Tone::Faint,
            };
            let text = self.gate(gate);
            self.wrapped(tone, "  gate       ", &text);
        }
        if !node.settings.is_empty() {
            let text = |s: &Setting| format!("{} {} ({})", s.name, s.value, s.source);
            let all: Vec<String> = node.settings.iter().map(text).collect();
            self.fact("settings", &all.join(", "));
        }
        for pod in &node.blocked {
            let force = pod
                .force_from
                .map(|at| format!("; force {}", self.until(Some(at), "")))
                .unwrap_or_default();
            let text = format!("{}{force}; needs {}", self.blocked(pod), pod.needs);
            self.wrapped(Tone::Bad, "  blocked    ", &text);
        }
        for event in &node.events {
            let text = format!("{} {} ago: {}", event.reason, self.age(event.last), event.message);
            self.wrapped(
                if event.warning { Tone::Caution } else { Tone::Faint },
                "  event      ",
                &text,
            );
        }
    }

    fn fact(&mut self, name: &str, text: &str) {
        self.wrapped(None, &format!("  {name:<10} "), text);
    }
}

/// Who asks for a drain, why, and until when.
fn asked(request: &RequestShown) -> String {
    let reason = request.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let deadline = request.deadline.map(|at| format!(", deadline {at:.0}")).unwrap_or_default();
    let gone = if request.is_gone { ", which no longer asks" } else { "" };
    format!("{}{reason}{deadline}{gone}", request.by)
}

/// The kinds of a node's interruptions, the first in full.
/// No pod is forced as far as is known here, but rules may set another time.
const fn rules_may_force(node: &NodeStatus) -> bool {
    node.follows_rules
        && node.pods.is_some()
        && node.force_from.is_none()
        && node.deadline.is_some()
}

fn kinds(node: &NodeStatus) -> String {
    let all: BTreeSet<_> = node.interruptions.iter().map(|i| i.kind).collect();
    match (node.interruptions.first(), all.len()) {
        (None, _) => match node.state {
            State::RecordLost => "record lost".to_owned(),
            _ => String::new(),
        },
        (Some(first), 1) => first.kind.to_owned(),
        (Some(first), many) => format!("{} +{}", fit(first.kind, 11), many - 1),
    }
}

/// Names without their domain, if they are still unique.
fn short_names(report: &Report) -> Vec<String> {
    let full: Vec<&str> = report.nodes.iter().map(|n| n.node.as_str()).collect();
    let short: Vec<&str> = full.iter().map(|name| name.split('.').next().unwrap_or(name)).collect();
    let distinct: BTreeSet<_> = short.iter().collect();
    let names = if distinct.len() == full.len() { short } else { full };
    names.into_iter().map(str::to_owned).collect()
}

/// The first names, and how many more there are.
fn names_of<'a>(nodes: impl Iterator<Item = &'a NodeName>) -> String {
    let all: Vec<&str> = nodes.map(NodeName::as_str).collect();
    let named = all.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn total(report: &Report) -> String {
    let pods = report.nodes.iter().filter_map(|n| n.pods);
    let (left, blocked) =
        pods.fold((0, 0), |(left, blocked), p| (left + p.left, blocked + p.blocked));
    let nodes = match report.nodes.len() {
        1 => "1 node is".to_owned(),
        many => format!("{many} nodes are"),
    };
    let pods = if left == 1 { "1 pod is".to_owned() } else { format!("{left} pods are") };
    format!("{nodes} being drained; {pods} left, {blocked} blocked.")
}

/// A duration in at most six characters: `45s`, `4m10s`, `3h12m`, `2d4h`.
fn compact(duration: Duration) -> String {
    let s = duration.as_secs();
    let two = |big: u64, unit: &str, small: u64, of: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{of}") }
    };
    match s {
        0..60 => format!("{s}s"),
        60..3600 => two(s / 60, "m", s % 60, "s"),
        3600..86_400 => two(s / 3600, "h", s / 60 % 60, "m"),
        _ => two(s / 86_400, "d", s / 3600 % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_six_characters_at_most() {
        for (s, expected) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (250, "4m10s"),
            (3599, "59m59s"),
            (11_520, "3h12m"),
            (86_399, "23h59m"),
            (187_200, "2d4h"),
        ] {
            assert_eq!(compact(seconds(s)), expected);
        }
    }
}

//! Messages: none is deleted before what it asks for is written down.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Belongs, Judge, SLACK,
    story::{Told, interruptions, is_open},
};

impl Judge<'_> {
    /// No message is deleted before what it asks for is durable, unless it asks for nothing.
    pub(super) fn messages(&mut self) {
        for deletion in &self.evidence.deletions {
            if event(&deletion.body).is_none() {
                self.broken(deletion.at, format!("a message that nobody understands was deleted: {:?}", deletion.body));
            }
        }
        self.intents();
    }

    /// The same of the messages that are about an instance. There are others that are for nobody here, and deleted.
    pub(super) fn intents(&mut self) {
        for deletion in &self.evidence.deletions {
            let Some(event) = event(&deletion.body) else { continue };
            let kept = match event.hook.as_ref() {
                Some((group, hook)) => {
                    !self.is_ours(group, hook)
                        || event.launch
                        || self.story.told(&event.instance, deletion.at).iter().any(|t| t.hook.as_ref() == event.hook.as_ref())
                        || self.is_over(&event, deletion.at)
                }
                None => self.is_settled(&event, deletion.at),
            };
            if !kept {
                self.broken(deletion.at, format!("a message was deleted before its intent was durable: {}", deletion.body));
            }
        }
    }

    /// No action of this event's hook is open any more.
    fn is_over(&self, event: &Event, at: Timestamp) -> bool {
        let mut of_it = self.evidence.actions.iter().filter(|a| {
            a.instance == event.instance
                && event.hook.as_ref().is_some_and(|(g, h)| *g == a.group && *h == a.hook)
                && event.token.as_ref().is_none_or(|t| *t == a.token)
        });
        of_it.all(|a| a.end.as_ref().is_some_and(|e| e.at <= at))
    }

    /// Spot, capacity, states: written down, or nothing of ours to write it on, or stale.
    fn is_settled(&self, event: &Event, at: Timestamp) -> bool {
        let ours = self.evidence.groups.get(&event.instance).and_then(|g| self.belongs(g)) == Some(Belongs::Us);
        let never_read = ![
            "EC2 Spot Instance Interruption Warning",
            "EC2 Capacity Reservation Instance Interruption Warning",
            "EC2 Instance State-change Notification",
        ]
        .contains(&event.kind.as_str());
        let ends = ["stopping", "stopped", "shutting-down", "terminated"].contains(&event.state.as_str());
        let harmless = event.kind.contains("State-change") && !ends;
        let known = self.story.told(&event.instance, at).iter().any(|t| t.event == event.id);
        let node = self.evidence.nodes.get(&event.instance);
        let no_node = node.is_none_or(|n| self.node_away(n, &event.instance, at) || self.story.page(n, at).is_none());
        let repeat = node.is_some_and(|n| self.is_repeat(event, n, at));
        let age = at.duration_since(event.time).as_secs();
        let stale = age > if event.state.is_empty() { 118 } else { 58 };
        !ours || never_read || harmless || known || repeat || no_node || stale
    }

    /// What was written on the node when it was decided says as much: it is drained, and is over no later than this asks for, or what this
    /// tells was over by then; or it was drained, and stays cordoned.
    fn is_repeat(&self, event: &Event, node: &str, at: Timestamp) -> bool {
        // What came before a reboot counts for less, and how much is not told by what is written.
        if self.story.hand(node, "rebooted", at) {
            return self.story.told(&event.instance, at).iter().any(|t| t.event != event.id);
        }
        // It is decided a moment before it is deleted; where something is broken, the deletion may come much later.
        let since = if self.troubled(event.time, at) { event.time } else { event.time.max(at - Duration::from_secs(3)) };
        self.story.pages_between(node, since, at).filter(|(page, _)| page.instance == event.instance).any(|(page, until)| {
            let Some(record) = &page.record else { return false };
            if !is_open(page) {
                return self.story.cordoned_between(node, since.max(page.at), at.min(until));
            }
            let told: Vec<Told> = interruptions(record).collect();
            // Nothing is sooner than the end of the machine, and a notice that was read after its own end rules nothing.
            if told.iter().any(Told::is_over) || event.machine_goes().is_some_and(|end| end <= at) {
                return true;
            }
            self.story.deadlines_of(&event.instance, &told, at).iter().any(|d| d.at <= event.deadline() + SLACK)
        })
    }
}

/// A message, as far as it matters here.
struct Event {
    kind: String,
    id: String,
    time: Timestamp,
    instance: String,
    state: String,
    ends: Option<Timestamp>,
    hook: Option<(String, String)>,
    token: Option<String>,
    launch: bool,
}

impl Event {
    /// When the machine goes, where this says that it goes soon. A machine that is over (`stopped`, `terminated`) is news to a drain.
    fn machine_goes(&self) -> Option<Timestamp> {
        match self.state.as_str() {
            "stopping" | "shutting-down" => Some(self.time + Duration::from_secs(30)),
            "" => Some(self.ends.unwrap_or(self.time + Duration::from_secs(120))),
            _ => None,
        }
    }

    /// When pods are forced on its account.
    fn deadline(&self) -> Timestamp {
        let after = |seconds| self.time + Duration::from_secs(seconds);
        match self.state.as_str() {
            "stopping" | "shutting-down" => after(25),
            // The machine is over: nothing is sooner.
            "stopped" | "terminated" => self.time,
            _ => self.ends.map_or(after(110), |ends| ends - Duration::from_secs(5)),
        }
    }
}

fn event(body: &str) -> Option<Event> {
    let outer: Value = serde_json::from_str(body).ok()?;
    let text = |v: &Value, key: &str| v[key].as_str().map(str::to_owned);
    if text(&outer, "source").is_some_and(|s| !["aws.ec2", "aws.autoscaling"].contains(&s.as_str())) {
        return None;
    }
    let (detail, kind) = match text(&outer, "detail-type") {
        Some(kind) => (outer["detail"].clone(), kind),
        None => (outer.clone(), text(&outer, "LifecycleTransition")?),
    };
    Some(Event {
        launch: kind.contains("launch") || kind.contains("LAUNCHING"),
        kind,
        id: text(&outer, "id").unwrap_or_default(),
        time: text(&outer, "time").or_else(|| text(&outer, "Time"))?.parse().ok()?,
        instance: text(&detail, "EC2InstanceId").or_else(|| text(&detail, "instance-id"))?,
        state: text(&detail, "state").unwrap_or_default(),
        ends: text(&detail, "instance-termination-time").and_then(|t| t.parse().ok()),
        hook: text(&detail, "AutoScalingGroupName").zip(text(&detail, "LifecycleHookName")),
        token: text(&detail, "LifecycleActionToken"),
    })
}

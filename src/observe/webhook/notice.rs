//! The facts of one notification.

use std::{collections::BTreeMap, time::Duration};

use minijinja::Value;

use super::{Facts, On};
use crate::domain::{Moment, seconds};

/// Labels of a node that have names of their own in templates.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const REGION: &str = "topology.kubernetes.io/region";
pub(super) const TYPE: &str = "node.kubernetes.io/instance-type";

/// How many pods a list names at most; a number stands for the others.
const NAMED: usize = 10;

/// The facts of one notification: an interruption was accepted, or a drain ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notice {
    /// The event that causes it. A notice with `None` is never sent.
    pub on: Option<On>,
    /// The ID of the event that AWS sent.
    pub event: String,
    /// The kind of the interruption, such as `spot`.
    pub kind: &'static str,
    /// The time that AWS gives for the event.
    pub time: Option<Moment>,
    /// The ID of the instance.
    pub instance: String,
    /// The name of the Node.
    pub node: String,
    /// The Auto Scaling group of the instance. `None`: not known.
    pub group: Option<String>,
    /// The labels of the Node that the node index keeps.
    pub labels: BTreeMap<String, String>,
    /// When the instance ends, as far as AWS has announced it. `None` for a terminate hook.
    pub deadline: Option<Moment>,
    /// `accepted`, or how the drain ended: `empty`, `deadline` and so on.
    pub outcome: &'static str,
    /// How long the drain took. `None` before it ends.
    pub took: Option<Duration>,
    /// How many evictions the API server accepted.
    pub evicted: u64,
    /// The pods that were blocked, each with the reason and for how long.
    pub blocked: Vec<String>,
    /// The pods that were deleted because of the deadline.
    pub forced: Vec<String>,
    /// The pods that were still on the node at the end.
    pub left: Vec<String>,
}

impl Notice {
    /// Typical notices of an event: one with few values, and one with all that there can be. A
    /// template is tried with them at the start.
    #[must_use]
    pub fn samples(on: On) -> [Self; 2] {
        let has_ended = on == On::Ended;
        let pods = || if has_ended { vec!["shop/web-0".to_owned()] } else { Vec::new() };
        let few = Self {
            on: Some(on),
            event: "00000000-0000-0000-0000-000000000000".to_owned(),
            kind: "spot",
            instance: "i-00000000000000000".to_owned(),
            node: "node".to_owned(),
            outcome: if has_ended { "empty" } else { on.as_str() },
            took: has_ended.then_some(Duration::ZERO),
            ..Self::default()
        };
        let all = Self {
            time: Some(Moment::UNIX_EPOCH),
            group: Some("group".to_owned()),
            labels: [ZONE, REGION, TYPE].map(|key| (key.to_owned(), "label".to_owned())).into(),
            deadline: Some(Moment::UNIX_EPOCH),
            took: has_ended.then_some(seconds(110)),
            evicted: u64::from(has_ended),
            blocked: pods(),
            forced: pods(),
            left: pods(),
            ..few.clone()
        };
        [few, all]
    }

    /// Identifies the notification: of several with the same key only the first is sent.
    #[must_use]
    pub fn key(&self) -> String {
        let time = self.time.map(|t| t.to_string()).unwrap_or_default();
        format!(
            "{} {} {} {} {time}",
            self.on.map_or("", On::as_str),
            self.instance,
            self.kind,
            self.event
        )
    }

    /// The values for the names in a template. `cluster`: `--cluster-name`.
    #[must_use]
    pub fn facts(&self, cluster: Option<&str>) -> Facts {
        let label = |key: &str| self.labels.get(key).cloned().unwrap_or_default();
        let at = |moment: Option<Moment>| moment.map(|t| format!("{t:.0}")).unwrap_or_default();
        let texts = [
            ("on", self.on.map_or("", On::as_str).to_owned()),
            ("summary", self.summary()),
            ("cluster", cluster.unwrap_or_default().to_owned()),
            ("event", self.event.clone()),
            ("kind", self.kind.to_owned()),
            ("time", at(self.time)),
            ("instance", self.instance.clone()),
            ("node", self.node.clone()),
            ("group", self.group.clone().unwrap_or_default()),
            ("zone", label(ZONE)),
            ("region", label(REGION)),
            ("type", label(TYPE)),
            ("deadline", at(self.deadline)),
            ("outcome", self.outcome.to_owned()),
            ("blocked", list(&self.blocked)),
            ("forced", list(&self.forced)),
            ("left", list(&self.left)),
        ];
        let numbers = [("took", self.took.map(|t| t.as_secs())), ("evicted", Some(self.evicted))];
        let fields = texts
            .into_iter()
            .map(|(name, text)| (name, Value::from(text)))
            .chain(numbers.map(|(name, number)| (name, Value::from(number))))
            .collect();
        Facts { fields, labels: self.labels.clone() }
    }

    fn summary(&self) -> String {
        let Self { kind, instance, node, .. } = self;
        if self.on == Some(On::Accepted) {
            let by =
                self.deadline.map(|t| format!(", until {t:.0} at the latest")).unwrap_or_default();
            return format!("{kind} of {instance}: node {node} is cordoned and drained{by}");
        }
        let took = self.took.unwrap_or_default().as_secs();
        let mut text = format!(
            "{kind} of {instance}: the drain of node {node} is over after {took} s ({}), {} \
             evicted",
            self.outcome, self.evicted
        );
        for (what, pods) in
            [("blocked", &self.blocked), ("forced", &self.forced), ("left", &self.left)]
        {
            if !pods.is_empty() {
                text = format!("{text}; {what}: {}", list(pods));
            }
        }
        text
    }
}

fn list(pods: &[String]) -> String {
    let text = pods.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if pods.len() > NAMED { format!("{text} and {} more", pods.len() - NAMED) } else { text }
}

//! One thing to tell.

use std::{collections::BTreeMap, time::Duration};

use super::{Facts, On};
use crate::domain::Moment;

/// Labels of a node that have names of their own in templates.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const REGION: &str = "topology.kubernetes.io/region";
pub(super) const TYPE: &str = "node.kubernetes.io/instance-type";

/// So many pods are named in one list.
const NAMED: usize = 10;

/// One thing to tell: that an interruption was taken on, or that a drain is over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notice {
    /// Which of them; `None` is never sent.
    pub on: Option<On>,
    /// The id of the event.
    pub event: String,
    /// Its kind.
    pub kind: &'static str,
    /// When it happened.
    pub time: Option<Moment>,
    /// The instance.
    pub instance: String,
    /// The node.
    pub node: String,
    /// Its Auto Scaling group, where it is known.
    pub group: Option<String>,
    /// Labels of the node, those that the index keeps.
    pub labels: BTreeMap<String, String>,
    /// When the drain ends at the latest.
    pub deadline: Option<Moment>,
    /// How the drain ended, in a word.
    pub outcome: &'static str,
    /// How long the drain took.
    pub took: Option<Duration>,
    /// How many evictions were accepted.
    pub evicted: u64,
    /// Which pods were blocked, by what, how long.
    pub blocked: Vec<String>,
    /// Which were forced.
    pub forced: Vec<String>,
    /// Which were there at the end.
    pub left: Vec<String>,
}

impl Notice {
    /// What tells it from others: it is sent once.
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

    /// What stands for the names of a template.
    #[must_use]
    pub fn facts(&self, cluster: Option<&str>) -> Facts {
        let label = |key: &str| self.labels.get(key).cloned().unwrap_or_default();
        let at = |moment: Option<Moment>| moment.map(|t| format!("{t:.0}")).unwrap_or_default();
        let fields = [
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
            ("took", self.took.map(|t| t.as_secs().to_string()).unwrap_or_default()),
            ("evicted", self.evicted.to_string()),
            ("blocked", list(&self.blocked)),
            ("forced", list(&self.forced)),
            ("left", list(&self.left)),
        ];
        Facts { fields: fields.into(), labels: self.labels.clone() }
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

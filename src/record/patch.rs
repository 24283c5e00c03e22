//! Merge patches of a Node.

use serde_json::{Map, Value, json};

use super::{Record, compat};
use crate::domain::{
    Compat, EXCLUDE_FROM_LOAD_BALANCERS, Kind, Node, RECORD, Response, TAINT, Taint,
};

/// Builds a merge patch. Fields that it does not name stay as they are.
pub(super) struct NodePatch<'a> {
    node: &'a Node,
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    spec: Map<String, Value>,
}

impl<'a> NodePatch<'a> {
    pub(super) fn new(node: &'a Node) -> Self {
        Self { node, annotations: Map::new(), labels: Map::new(), spec: Map::new() }
    }

    pub(super) fn annotate(&mut self, key: &str, value: Option<String>) {
        self.annotations.insert(key.to_owned(), value.map_or(Value::Null, Value::String));
    }

    pub(super) fn record(&mut self, record: &Record) {
        self.annotate(RECORD, Some(record.write()));
    }

    pub(super) fn cordon(&mut self) {
        self.spec.insert("unschedulable".to_owned(), Value::Bool(true));
    }

    pub(super) fn uncordon(&mut self) {
        self.spec.insert("unschedulable".to_owned(), Value::Null);
    }

    /// Sets Sundown's taint. Its value is the kind of the most urgent interruption, its effect
    /// follows from the strongest response. It keeps its
    /// place in the list, or comes after all others. The others stay in their order. The taints for
    /// other tools come last, unless the Node has one with the same key.
    pub(super) fn taint(&mut self, record: &Record) {
        self.taint_with(record, record.response().taint_effect());
    }

    /// The same, but a stronger effect of the taint that the Node has stays. An earlier drain left
    /// that taint, and its instance still goes.
    pub(super) fn taint_no_weaker(&mut self, record: &Record) {
        let strongest = Response::Drain.taint_effect();
        let is_strongest = |taint: &Taint| taint.key == TAINT && taint.effect == strongest;
        if self.node.taints.iter().any(is_strongest) {
            self.taint_with(record, strongest);
        } else {
            self.taint(record);
        }
    }

    fn taint_with(&mut self, record: &Record, effect: &str) {
        let kind = shown_kind(record);
        let ours = Taint {
            key: TAINT.to_owned(),
            value: Some(kind.to_owned()),
            effect: effect.to_owned(),
            time_added: None,
        };
        let at =
            self.node.taints.iter().position(|t| t.key == TAINT).unwrap_or(self.node.taints.len());
        let (before, after) =
            self.node.taints.split_at_checked(at).unwrap_or((&self.node.taints, &[]));
        let others = after.iter().filter(|t| t.key != TAINT);
        let mut beside = compat::taints(record);
        beside.retain(|new| !self.node.taints.iter().any(|t| t.key == new.key));
        let taints: Vec<&Taint> =
            before.iter().chain([&ours]).chain(others).chain(&beside).collect();
        self.spec.insert("taints".to_owned(), json!(taints));
    }

    /// Adds a taint after all others.
    pub(super) fn add_taint(&mut self, taint: &Taint) {
        let taints: Vec<&Taint> = self.node.taints.iter().chain([taint]).collect();
        self.spec.insert("taints".to_owned(), json!(taints));
    }

    /// Removes Sundown's taint and those that Sundown wrote for other tools. A merge patch replaces
    /// the whole list, so it names all others.
    pub(super) fn untaint(&mut self, record: &Record) {
        let others: Vec<&Taint> = self
            .node
            .taints
            .iter()
            .filter(|t| t.key != TAINT && !compat::is_ours(t, record))
            .collect();
        self.spec.insert(
            "taints".to_owned(),
            if others.is_empty() { Value::Null } else { json!(others) },
        );
    }

    /// Sets the load balancer label, unless the Node has it. Returns whether the patch sets it.
    pub(super) fn exclude(&mut self, compat: Option<Compat>) -> bool {
        let free = !self.node.labels.contains_key(EXCLUDE_FROM_LOAD_BALANCERS);
        if free {
            self.labels
                .insert(EXCLUDE_FROM_LOAD_BALANCERS.to_owned(), compat::label(compat).into());
        }
        free
    }

    /// Removes the load balancer label if Sundown set it.
    pub(super) fn include(&mut self, record: &Record) {
        if self
            .node
            .labels
            .get(EXCLUDE_FROM_LOAD_BALANCERS)
            .is_some_and(|v| compat::is_our_label(v, Some(record)))
        {
            self.labels.insert(EXCLUDE_FROM_LOAD_BALANCERS.to_owned(), Value::Null);
        }
    }

    pub(super) fn body(self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), self.node.resource_version.as_str().into());
        if !self.node.uid.is_empty() {
            metadata.insert("uid".to_owned(), self.node.uid.as_str().into());
        }
        for (key, map) in [("annotations", self.annotations), ("labels", self.labels)] {
            if !map.is_empty() {
                metadata.insert(key.to_owned(), Value::Object(map));
            }
        }
        let mut body = Map::new();
        body.insert("metadata".to_owned(), Value::Object(metadata));
        if !self.spec.is_empty() {
            body.insert("spec".to_owned(), Value::Object(self.spec));
        }
        Value::Object(body)
    }
}

/// The patch that takes the Node out of load balancers. `None` if the Node has the label, with
/// whatever value, or no record, which alone shows that the label is Sundown's.
#[must_use]
pub fn exclude(node: &Node) -> Option<Value> {
    let mut patch = NodePatch::new(node);
    let compat = Record::read(node.record()?).ok().and_then(|record| record.compat());
    patch.exclude(compat).then(|| patch.body())
}

/// The patch that only cordons the Node. `None` if it is cordoned. Sundown does not undo this
/// cordon.
#[must_use]
pub fn cordon(node: &Node) -> Option<Value> {
    let mut patch = NodePatch::new(node);
    patch.cordon();
    (!node.unschedulable).then(|| patch.body())
}

/// The value of the taint: the most urgent kind. A kind that this version does not know is not
/// shown, because it may not be valid in a taint.
fn shown_kind(record: &Record) -> &'static str {
    record
        .known()
        .filter_map(|k| Kind::from_word(&k.kind))
        .max_by_key(|k| urgency(*k))
        .map_or("other", Kind::as_str)
}

/// The order of kinds by urgency: of several interruptions, the taint shows the kind with the
/// highest value.
const fn urgency(kind: Kind) -> u8 {
    match kind {
        Kind::StateChange => 12,
        Kind::Spot => 11,
        Kind::SpotHibernate => 10,
        Kind::SpotStop => 9,
        Kind::CapacityReservation => 8,
        Kind::CapacityBlock => 7,
        Kind::TerminateHook => 6,
        Kind::RootVolume => 5,
        Kind::LaunchHook => 4,
        Kind::ScheduledChange => 3,
        Kind::Impaired => 2,
        Kind::Rebalance => 1,
        Kind::Request | Kind::LaunchSuccessful => 0,
    }
}

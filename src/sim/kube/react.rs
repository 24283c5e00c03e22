//! Schedules the controllers that a change of an object concerns.

use std::time::Duration;

use serde_json::Value;

use super::{
    agenda::Task,
    journal::{ConditionState, Entry, Fact, NodeState},
    json::Look,
    machine::Machine,
    nodes::is_out_of_service,
    object::{Key, Object, labels},
    store::State,
};

/// The status of a DaemonSet follows its pods this much later, because it must visit every node.
const DAEMON_STATUS: Duration = Duration::from_secs(1);

impl State {
    /// Every write comes through here, after it is stored.
    pub(super) fn react(
        &mut self,
        plural: &str,
        key: &Key,
        old: Option<&Object>,
        new: Option<&Object>,
        by: &str,
    ) {
        match plural {
            "pods" => self.react_to_pod(key, old, new, by),
            "nodes" => self.react_to_node(key, old, new, by),
            "poddisruptionbudgets" if new.is_some() && by != super::disruption::BY => {
                self.agenda
                    .at(self.now().plus(self.options.timing.disruption), Task::Budget(key.clone()));
            }
            "leases" => self.react_to_lease(key, old, new, by),
            "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "jobs" => {
                self.react_to_workload(plural, key, old, new);
            }
            _ => {}
        }
        if let (Some(old), None) = (old, new)
            && self.index.owned.contains_key(old.uid())
        {
            self.agenda.at(
                self.now().plus(self.options.timing.controllers),
                Task::Collect(old.uid().to_owned()),
            );
        }
        if let (Some(_), None) = (old, new)
            && !key.namespace.is_empty()
            && self.is_terminating_namespace(&key.namespace)
        {
            self.agenda.at(
                self.now().plus(self.options.timing.controllers),
                Task::Namespace(key.namespace.clone()),
            );
        }
    }

    fn react_to_pod(&mut self, key: &Key, old: Option<&Object>, new: Option<&Object>, by: &str) {
        let now = self.now();
        let soon = now.plus(self.options.timing.controllers);
        let (was, is) = (old.and_then(|o| o.pod.as_ref()), new.and_then(|o| o.pod.as_ref()));
        if let Some(is) = is {
            if is.node.is_some() {
                self.agenda.at(now, Task::Kubelet(key.clone()));
                if was.is_none_or(|w| w.node.is_none()) {
                    self.note(by, Fact::Bound(is.reference(key)));
                    self.agenda.at(soon, Task::TaintEviction(key.clone()));
                }
            } else if is.is_active() {
                self.agenda.at(now.plus(self.options.timing.scheduler), Task::Schedule);
            }
            if is.ready && was.is_none_or(|w| !w.ready) {
                self.note(by, Fact::PodReady(is.reference(key)));
            }
            if is.is_finished() && was.is_none_or(|w| !w.is_finished()) {
                self.note(by, Fact::PodFinished(is.reference(key)));
            }
        } else if let Some(was) = was {
            self.note(by, Fact::PodGone(was.reference(key)));
            if let Some(old) = old.filter(|_| {
                was.owner.as_ref().is_some_and(|o| self.is_foreign_daemon(&key.namespace, o))
            }) {
                self.agenda.at(
                    soon,
                    Task::ForeignDaemon { pod: key.clone(), like: old.value.to_string() },
                );
            }
            if let Some(node) = was
                .node
                .as_ref()
                .filter(|_| was.owner.as_ref().is_some_and(|o| o.kind == "DaemonSet"))
            {
                self.agenda.at(soon, Task::Daemons(node.clone()));
            }
            self.conflicts.remove(key);
            if !self.index.unbound.is_empty() {
                self.agenda.at(now.plus(self.options.timing.scheduler), Task::Schedule);
            }
        }
        if was != is {
            for owner in [was, is].into_iter().flatten().filter_map(|p| p.owner.as_ref()) {
                if let Some(plural) = plural_of(&owner.api_version, &owner.kind) {
                    let owner = Key::new(key.namespace.as_str(), owner.name.as_str());
                    // A DaemonSet's pods are seen to node by node; only its status counts them all.
                    let at = if plural == "daemonsets" { now.plus(DAEMON_STATUS) } else { soon };
                    self.agenda.at(at, Task::Workload(plural.to_owned(), owner));
                }
            }
        }
        if was != is || old.map(Object::labels) != new.map(Object::labels) {
            // The controller finds budgets by the pod's current labels; so a budget that no longer
            // matches the pod is not reconciled for this change.
            let pods: Vec<&Object> = new.or(old).into_iter().collect();
            self.touch_budgets(&key.namespace, &pods);
        }
    }

    fn react_to_node(&mut self, key: &Key, old: Option<&Object>, new: Option<&Object>, by: &str) {
        let now = self.now();
        let soon = now.plus(self.options.timing.controllers);
        let name = &key.name;
        if let Some(new) = new.filter(|_| self.journal.on) {
            let state = node_state(new);
            if old.map(node_state).as_ref() != Some(&state) {
                self.note(by, Fact::NodeChanged(Box::new(state)));
            }
        }
        let cordoned = |o: Option<&Object>| {
            o.is_some_and(|o| o.value.at("spec.unschedulable").as_bool() == Some(true))
        };
        match (old, new) {
            (None, Some(_)) => self.note(by, Fact::NodeAdded(name.clone())),
            (Some(_), None) => {
                self.note(by, Fact::NodeGone(name.clone()));
                self.agenda.at(
                    now.plus(self.options.timing.pod_collection),
                    Task::CollectPods(name.clone()),
                );
            }
            _ => {}
        }
        if new.is_some() && cordoned(old) != cordoned(new) {
            let fact = if cordoned(new) { Fact::Cordoned } else { Fact::Uncordoned };
            self.note(by, fact(name.clone()));
        }
        if let Some(new) = new.filter(|n| {
            self.journal.on
                && old.is_none_or(|o| {
                    o.value.at("metadata.annotations") != n.value.at("metadata.annotations")
                })
        }) {
            let all = new.value.at("metadata.annotations").as_object();
            let annotations = all
                .into_iter()
                .flatten()
                .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                .collect();
            let provider_id = new.value.text("spec.providerID").to_owned();
            self.note(by, Fact::Annotated { node: name.clone(), provider_id, annotations });
        }
        let same = |(a, b): (&Object, &Object)| {
            a.value.at("spec") == b.value.at("spec")
                && a.labels() == b.labels()
                && a.value.condition("Ready") == b.value.condition("Ready")
        };
        if !old.zip(new).is_some_and(same) {
            if new.is_some() {
                self.agenda.at(soon, Task::Daemons(name.clone()));
            }
            self.agenda.at(now.plus(self.options.timing.scheduler), Task::Schedule);
            if new.is_some() {
                self.agenda.at(soon, Task::Node(name.clone()));
            }
        }
        if new.is_some_and(|node| is_out_of_service(&node.value)) {
            let at = now.plus(self.options.timing.pod_collection);
            self.agenda.at(at, Task::CollectPods(name.clone()));
        }
        let barred = |o: Option<&Object>| {
            o.map(|o| {
                o.value
                    .items("spec.taints")
                    .iter()
                    .filter(|t| t.text("effect") == "NoExecute")
                    .cloned()
                    .collect::<Vec<_>>()
            })
            .unwrap_or_default()
        };
        if new.is_some() && barred(old) != barred(new) {
            for (pod, _) in self.pods_on(name) {
                self.agenda.at(soon, Task::TaintEviction(pod));
            }
        }
    }

    fn react_to_lease(&mut self, key: &Key, old: Option<&Object>, new: Option<&Object>, by: &str) {
        let holder = |o: Option<&Object>| {
            o.map(|o| o.value.text("spec.holderIdentity").to_owned()).unwrap_or_default()
        };
        if holder(old) != holder(new) {
            self.note(by, Fact::LeaseHeld { lease: key.name.clone(), holder: holder(new) });
        }
        let paused = |o: Option<&Object>| {
            o.is_some_and(|o| o.value.annotation("sundown.dev/pause") == Some("true"))
        };
        if paused(old) != paused(new) {
            self.note(by, Fact::PausedAll { lease: key.name.clone(), paused: paused(new) });
        }
    }

    fn react_to_workload(
        &mut self,
        plural: &str,
        key: &Key,
        old: Option<&Object>,
        new: Option<&Object>,
    ) {
        let soon = self.now().plus(self.options.timing.controllers);
        if new.is_some() && old.map(|o| o.value.at("spec")) != new.map(|o| o.value.at("spec")) {
            self.agenda.at(soon, Task::Workload(plural.to_owned(), key.clone()));
        }
        let owner = new
            .or(old)
            .and_then(|o| super::object::Owner::of(&o.value))
            .filter(|_| plural == "replicasets");
        if let Some(owner) = owner {
            self.agenda.at(
                soon,
                Task::Workload(
                    "deployments".to_owned(),
                    Key::new(key.namespace.as_str(), owner.name),
                ),
            );
        }
        if old.map(|o| o.value.at("spec.replicas")) != new.map(|o| o.value.at("spec.replicas")) {
            self.touch_budgets(&key.namespace, &[]);
        }
    }

    /// Writes down what happened.
    pub(super) fn note(&mut self, by: &str, fact: Fact) {
        if self.journal.on {
            let at = self.now();
            self.journal.entries.push(Entry { at, by: by.to_owned(), fact });
        }
    }

    /// A machine, changed; its node controllers look soon.
    pub(super) fn with_machine(&mut self, node: &str, change: impl FnOnce(&mut Machine)) {
        let now = self.now();
        if let Some(machine) = self.machines.get_mut(node) {
            change(machine);
            self.agenda.at(now, Task::Node(node.to_owned()));
        }
    }
}

fn node_state(node: &Object) -> NodeState {
    let value = &node.value;
    let taint =
        |taint: &Value| ["key", "value", "effect"].map(|field| taint.text(field).to_owned()).into();
    let shown = |condition: &Value| ConditionState {
        status: condition.text("status").to_owned(),
        reason: condition.text("reason").to_owned(),
        message: condition.text("message").to_owned(),
    };
    let conditions = value.items("status.conditions");
    let of_kind = |kind: &str| conditions.iter().find(|c| c.text("type") == kind).map(shown);
    NodeState {
        name: node.key().name.clone(),
        uid: node.uid().to_owned(),
        provider_id: value.text("spec.providerID").to_owned(),
        boot_id: value.text("status.nodeInfo.bootID").to_owned(),
        unschedulable: value.at("spec.unschedulable").as_bool() == Some(true),
        ready: value.condition("Ready").to_owned(),
        maintenance: of_kind("MaintenancePlanned"),
        drain: [of_kind("DrainInProgress"), of_kind("Drained")],
        taints: value.items("spec.taints").iter().map(taint).collect(),
        labels: node.labels().clone(),
        annotations: labels(value, "metadata.annotations"),
    }
}

fn plural_of(api_version: &str, kind: &str) -> Option<&'static str> {
    Some(match (api_version, kind) {
        ("apps/v1", "ReplicaSet") => "replicasets",
        ("apps/v1", "StatefulSet") => "statefulsets",
        ("apps/v1", "DaemonSet") => "daemonsets",
        ("batch/v1", "Job") => "jobs",
        _ => return None,
    })
}

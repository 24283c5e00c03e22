//! Nodes: as JSON, and the controllers about them (kubernetes: pkg/controller/nodelifecycle;
//! cloud-provider: controllers/nodelifecycle).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    agenda::Task,
    build::NodeSpec,
    delete::Options as DeleteOptions,
    json::{Look, seconds},
    machine::Machine,
    object::Key,
    pods,
    store::State,
};
use crate::domain::Moment;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The namespace in which kubelets keep their Leases.
pub(super) const NODE_LEASES: &str = "kube-node-lease";
const LIFECYCLE: &str = "<node-lifecycle>";
const DETACHER: &str = "<attach-detach>";

/// A node as its kubelet registers it.
fn as_json(spec: &NodeSpec, boot_id: &str, ready: bool, now: Moment) -> Value {
    let mut labels: BTreeMap<String, String> = BTreeMap::from([
        ("kubernetes.io/hostname".into(), spec.name.clone()),
        ("kubernetes.io/arch".into(), "amd64".into()),
        ("kubernetes.io/os".into(), "linux".into()),
        ("node.kubernetes.io/instance-type".into(), "m6i.xlarge".into()),
        ("topology.kubernetes.io/zone".into(), spec.zone.clone()),
        (
            "topology.kubernetes.io/region".into(),
            spec.zone.trim_end_matches(|c: char| c.is_ascii_lowercase()).to_owned(),
        ),
    ]);
    labels.extend(spec.labels.clone());
    let taints: Vec<Value> = spec
        .taints
        .iter()
        .map(|(key, value, effect)| json!({ "key": key, "value": value, "effect": effect }))
        .collect();
    let mut node = json!({
        "metadata": { "name": spec.name, "labels": labels, "annotations": spec.annotations },
        "spec": {},
        "status": {
            "capacity": { "cpu": "4", "memory": "16Gi", "pods": spec.max_pods.to_string() },
            "allocatable": { "cpu": "3920m", "memory": "15Gi", "pods": spec.max_pods.to_string() },
            "addresses": [
                { "type": "Hostname", "address": spec.name },
                { "type": "InternalDNS", "address": spec.name }
            ],
            "nodeInfo": {
                "bootID": boot_id, "machineID": boot_id.replace('-', ""),
                "kubeletVersion": "v1.33.0", "osImage":
                "Bottlerocket OS",
                "kernelVersion": "6.1.0", "containerRuntimeVersion": "containerd://1.7.0", "architecture": "amd64", "operatingSystem": "linux" },
        },
    });
    let provider = spec
        .provider_id
        .clone()
        .or_else(|| spec.instance.as_ref().map(|i| format!("aws:///{}/{i}", spec.zone)));
    if let Some(provider) = provider.filter(|p| !p.is_empty()) {
        node.put("spec.providerID", provider);
    }
    if !taints.is_empty() {
        node.put("spec.taints", taints);
    }
    for kind in PRESSURES {
        node.set_condition(kind, "False", "KubeletHasSufficientResources", "", now);
    }
    set_ready(&mut node, if ready { "True" } else { "False" }, now);
    set_heartbeats(&mut node, now);
    pad(&mut node, spec.kib);
    node
}

/// The conditions of a Node besides `Ready` that its kubelet writes.
const PRESSURES: [&str; 3] = ["MemoryPressure", "DiskPressure", "PIDPressure"];

/// A condition that the kubelet writes. It leaves those of others as they are (kubernetes:
/// pkg/kubelet/nodestatus/setters.go).
fn is_of_kubelet(condition: &Value) -> bool {
    let kind = condition.text("type");
    kind == "Ready" || PRESSURES.contains(&kind)
}

fn set_heartbeats(node: &mut Value, now: Moment) {
    let text = seconds(now);
    let conditions = node.get_mut("status").and_then(|status| status.get_mut("conditions"));
    let all = conditions.and_then(Value::as_array_mut).into_iter().flatten();
    for condition in all.filter(|condition| is_of_kubelet(condition)) {
        condition.put("lastHeartbeatTime", text.as_str());
    }
}

/// Images, as a real node lists them, until the node is this large.
fn pad(node: &mut Value, kib: usize) {
    let have = node.to_string().len();
    let image = |i: usize| {
        json!({ "names": [format!(
            "602401143452.dkr.ecr.eu-west-1.amazonaws.com/team-{i:04}/service@sha256:{:064x}",
            i * 7919
        ),
            format!(
                "602401143452.dkr.ecr.eu-west-1.amazonaws.com/team-{i:04}/service:v1.{i}.0"
            )], "sizeBytes": 100_000_000 + i })
    };
    let each = image(0).to_string().len();
    let missing = (kib * 1024).saturating_sub(have).div_ceil(each);
    if missing > 0 {
        node.put("status.images", (0..missing).map(image).collect::<Vec<_>>());
    }
}

fn set_ready(node: &mut Value, status: &str, now: Moment) {
    let (reason, message) = match status {
        "True" => ("KubeletReady", "kubelet is posting ready status"),
        "Unknown" => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
        _ => ("KubeletNotReady", "container runtime network not ready"),
    };
    node.set_condition("Ready", status, reason, message, now);
}

impl State {
    /// A machine registers its node; a node of that name that is there becomes this one.
    pub(super) fn register(&mut self, spec: &NodeSpec) {
        let now = self.now();
        let boot_id = spec.boot_id.clone().unwrap_or_else(|| self.uid());
        let ready_at = now.plus(spec.ready_after);
        let runs = self
            .machines
            .remove(&spec.name)
            .filter(|m| m.instance == spec.instance && m.gone.is_none())
            .map(|m| m.runs)
            .unwrap_or_default();
        let machine = Machine {
            instance: spec.instance.clone(),
            gone: None,
            silent_since: None,
            ready_at,
            runs,
        };
        self.machines.insert(spec.name.clone(), machine);
        self.erase("nodes", &Key::cluster(spec.name.as_str()), "<kubelet>");
        self.add("nodes", as_json(spec, &boot_id, ready_at <= now, now), "<kubelet>");
        if let Some(every) = self.options.timing.node_status {
            let first = now.plus(every.mul_f64(self.random.f64()));
            self.agenda.at(first, Task::NodeStatus(spec.name.clone()));
        }
        self.rouse_kubelet(&spec.name);
    }

    /// Writes the Lease of a node as its kubelet has renewed it last. The kubelet renews it every
    /// 10 s, which would be most of all writes, so it is only written when somebody reads it.
    pub(super) fn renew_node_lease(&mut self, name: &str) {
        let Some(machine) = self.machines.get(name) else { return };
        let silent = [machine.gone, machine.silent_since].into_iter().flatten().min();
        let last = silent.unwrap_or_else(|| self.now());
        let renewed = format!("{}.000000Z", last.strftime("%Y-%m-%dT%H:%M:%S"));
        let key = Key::new(NODE_LEASES, name);
        let renew = |lease: &mut Value| {
            lease.put("spec.renewTime", renewed.as_str());
        };
        if self.get("leases", &key).is_none() {
            let lease = json!({
                "metadata": { "name": name, "namespace": NODE_LEASES },
                "spec": { "holderIdentity": name, "leaseDurationSeconds": 40 },
            });
            self.add("leases", lease, "<kubelet>");
        }
        self.change("leases", &key, "<kubelet>", renew);
    }

    /// What the node controllers make of a node: its condition, its taints, its end.
    pub(super) fn sync_node(&mut self, name: &str) {
        let (now, key) = (self.now(), Key::cluster(name));
        let Some((gone, silent_since, ready_at)) =
            self.machines.get(name).map(|m| (m.gone, m.silent_since, m.ready_at))
        else {
            return;
        };
        let Some(node) = self.get("nodes", &key).cloned() else { return };
        if let (Some(gone), Some(after)) = (gone, self.options.timing.node_deletion) {
            if gone.plus(after) <= now {
                self.delete("nodes", &key, &DeleteOptions::default(), "<cloud-node>");
                return;
            }
            self.agenda.at(gone.plus(after), Task::Node(name.to_owned()));
        }
        let was = node.value.condition("Ready").to_owned();
        let (ready, next) =
            match silent_since.map(|since| since.plus(self.options.timing.node_silence)) {
                Some(unknown) if unknown <= now => ("Unknown", None),
                Some(unknown) => (was.as_str(), Some(unknown)),
                None if ready_at <= now => ("True", None),
                None => ("False", Some(ready_at)),
            };
        if let Some(next) = next {
            self.agenda.at(next, Task::Node(name.to_owned()));
        }
        self.change("nodes", &key, LIFECYCLE, |v| {
            if was != ready {
                set_ready(v, ready, now);
            }
            set_taints(v, ready, now);
        });
        if was == ready {
            return;
        }
        if ready == "Unknown" {
            self.mark_pods_not_ready(name, now);
        } else {
            self.rouse_kubelet(name);
        }
    }

    fn mark_pods_not_ready(&mut self, node: &str, now: Moment) {
        for (key, facts) in self.pods_on(node) {
            if facts.ready {
                self.change("pods", &key, LIFECYCLE, |p| {
                    p.set_condition("Ready", "False", "NodeNotReady", "", now);
                });
            }
        }
    }

    /// What a kubelet writes from time to time though nothing happened.
    pub(super) fn write_node_status(&mut self, name: &str) {
        let now = self.now();
        let Some(every) = self.options.timing.node_status else { return };
        let Some(machine_acts) =
            self.machines.get(name).filter(|m| m.gone.is_none()).map(Machine::acts)
        else {
            return;
        };
        self.agenda.at(now.plus(every), Task::NodeStatus(name.to_owned()));
        if machine_acts {
            self.write_heartbeats(&Key::cluster(name), now);
        }
    }

    /// Updates only the heartbeat times of a Node. The conditions stay the same and no controller
    /// needs to react, so the object is changed in place.
    fn write_heartbeats(&mut self, key: &Key, now: Moment) {
        let Some(node) = self.get("nodes", key) else { return };
        let text = seconds(now);
        let conditions = node.value.items("status.conditions");
        if conditions
            .iter()
            .filter(|c| is_of_kubelet(c))
            .all(|c| c.text("lastHeartbeatTime") == text)
        {
            return;
        }
        if !self.change_status(key, |node| set_heartbeats(node, now)) {
            self.change("nodes", key, "<kubelet>", |node| set_heartbeats(node, now));
        }
    }

    /// A pod on a node with a `NoExecute` taint that it does not bear, or not for long, is deleted.
    pub(super) fn evict_for_taints(&mut self, key: &Key) {
        let now = self.now();
        let Some((pod, facts)) = self.pod(key) else { return };
        let Some(node) = facts
            .node
            .as_deref()
            .filter(|_| facts.deletion.is_none())
            .and_then(|n| self.get("nodes", &Key::cluster(n)))
        else {
            return;
        };
        let mut end: Option<Moment> = None;
        for taint in
            node.value.items("spec.taints").iter().filter(|t| t.text("effect") == "NoExecute")
        {
            let since = taint.moment("timeAdded").unwrap_or(now);
            let bearing: Vec<&Value> = pod
                .value
                .items("spec.tolerations")
                .iter()
                .filter(|t| pods::tolerates(t, taint))
                .collect();
            let until = if bearing.is_empty() {
                Some(now)
            } else {
                let limits = bearing.iter().filter_map(|t| t.at("tolerationSeconds").as_i64());
                limits.min().map(|s| super::json::plus_seconds(since, s))
            };
            end = [end, until].into_iter().flatten().min();
        }
        match end {
            Some(end) if end <= now => {
                self.delete("pods", key, &DeleteOptions::default(), "<taint-eviction>");
            }
            Some(end) => self.agenda.at(end, Task::TaintEviction(key.clone())),
            None => {}
        }
    }

    /// Deletes at once the pods of a node that is gone, and the terminating pods of a node that is
    /// out of service. The volumes of a node that is out of service are then detached.
    pub(super) fn collect_pods(&mut self, name: &str) {
        let node = self.get("nodes", &Key::cluster(name));
        let is_out_of_service = node.is_some_and(|node| is_out_of_service(&node.value));
        if node.is_some() && !is_out_of_service {
            return;
        }
        let at_once = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
        for (key, facts) in self.pods_on(name) {
            if !is_out_of_service || facts.deletion.is_some() {
                self.delete("pods", &key, &at_once, "<pod-collector>");
            }
        }
        if is_out_of_service {
            let attached = self.all("volumeattachments").map(|volume| (volume.key(), volume));
            let of_node = attached.filter(|(_, volume)| volume.value.text("spec.nodeName") == name);
            for key in of_node.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                self.delete("volumeattachments", &key, &DeleteOptions::default(), DETACHER);
            }
        }
    }
}

/// The node is not Ready and has the out-of-service taint.
pub(super) fn is_out_of_service(node: &Value) -> bool {
    node.condition("Ready") != "True"
        && node.items("spec.taints").iter().any(|taint| taint.text("key") == OUT_OF_SERVICE)
}

/// The taints that the node lifecycle controller answers for.
fn set_taints(node: &mut Value, ready: &str, now: Moment) {
    let unschedulable = node.at("spec.unschedulable").as_bool() == Some(true);
    let wanted = [
        (UNSCHEDULABLE, "NoSchedule", unschedulable),
        (NOT_READY, "NoSchedule", ready == "False"),
        (NOT_READY, "NoExecute", ready == "False"),
        (UNREACHABLE, "NoSchedule", ready == "Unknown"),
        (UNREACHABLE, "NoExecute", ready == "Unknown"),
    ];
    let mut taints = node.items("spec.taints").to_vec();
    for (key, effect, wanted) in wanted {
        let is = |t: &Value| t.text("key") == key && t.text("effect") == effect;
        let there = taints.iter().any(is);
        if there && !wanted {
            taints.retain(|t| !is(t));
        }
        if wanted && !there {
            taints.push(json!({ "key": key, "effect": effect, "timeAdded": seconds(now) }));
        }
    }
    if taints.is_empty() {
        node.take_away("spec.taints");
    } else {
        node.put("spec.taints", taints);
    }
}

//! The workload controllers, simplified: ReplicaSets, StatefulSets, DaemonSets, Jobs. Deployments
//! have a file of their own.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    delete::Options as DeleteOptions,
    json::Look,
    object::{Key, Object, Owner, PodFacts},
    pods,
    store::State,
};

impl State {
    pub(super) fn sync_workload(&mut self, plural: &str, key: &Key) {
        let Some(object) = self.get(plural, key).cloned().filter(|o| !o.is_terminating()) else {
            return;
        };
        match plural {
            "deployments" => self.sync_deployment(&object),
            "replicasets" => self.sync_replica_set(&object),
            "statefulsets" => self.sync_stateful_set(&object),
            "daemonsets" => self.sync_daemon_set(&object),
            "jobs" => self.sync_job(&object),
            _ => {}
        }
    }

    fn sync_replica_set(&mut self, set: &Arc<Object>) {
        let by = "<replicaset>";
        let wanted = count(set.value.at("spec.replicas"));
        let mut active: Vec<Arc<Object>> = self.owned("pods", set.uid());
        active.retain(|p| facts(p).is_some_and(PodFacts::is_active));
        for _ in active.len()..wanted {
            let pod = owned_pod(set, None);
            self.add("pods", pod, by);
        }
        if active.len() > wanted {
            // Those that serve least go first, then the youngest.
            active.sort_by_key(|p| {
                (facts(p).map(|f| (f.node.is_some(), f.ready)), std::cmp::Reverse(p.shown.revision))
            });
            for pod in active.iter().take(active.len() - wanted) {
                self.delete("pods", pod.key(), &DeleteOptions::default(), by);
            }
        }
        self.count_replicas("replicasets", set, by);
    }

    fn sync_stateful_set(&mut self, set: &Arc<Object>) {
        let by = "<statefulset>";
        let wanted = count(set.value.at("spec.replicas"));
        let ordered = set.value.text("spec.podManagementPolicy") != "Parallel";
        let name =
            |i: usize| Key::new(set.key().namespace.as_str(), format!("{}-{i}", set.key().name));
        for i in 0..wanted {
            let key = name(i);
            let state = self.pod(&key).map(|(_, f)| f.clone());
            match &state {
                None => {
                    self.add("pods", owned_pod(set, Some(&key.name)), by);
                }
                Some(f) if f.deletion.is_none() && f.is_finished() => {
                    self.delete("pods", &key, &DeleteOptions::default(), by);
                }
                Some(_) => {}
            }
            if ordered && !state.is_some_and(|f| f.ready && f.deletion.is_none()) {
                break;
            }
        }
        let surplus = self.owned("pods", set.uid()).into_iter().filter(|p| {
            let ordinal = p.key().name.rsplit_once('-').and_then(|(_, n)| n.parse::<usize>().ok());
            ordinal.is_none_or(|n| n >= wanted) && !p.is_terminating()
        });
        for pod in surplus.collect::<Vec<_>>() {
            self.delete("pods", pod.key(), &DeleteOptions::default(), by);
        }
        self.count_replicas("statefulsets", set, by);
    }

    /// All DaemonSets at one node that came or changed, or where one of their pods went.
    pub(super) fn sync_daemons_of(&mut self, node: &str) {
        let Some(node) = self.get("nodes", &Key::cluster(node)).cloned() else { return };
        for set in self.all("daemonsets").cloned().collect::<Vec<_>>() {
            self.sync_daemon(&set, &daemon_pod(&set), &node);
        }
    }

    /// Reconciles one DaemonSet on one node; returns whether its pod is to run there.
    fn sync_daemon(&mut self, set: &Arc<Object>, template: &Value, node: &Object) -> bool {
        let by = "<daemonset>";
        let (may_run, may_stay) = daemon_may(template, node);
        let is_own = |f: &PodFacts| f.owner.as_ref().is_some_and(|o| o.uid == set.uid());
        let keys = self.index.pods_by_node.get(&node.key().name).into_iter().flatten();
        let pods: Vec<(Key, bool)> = keys
            .filter_map(|k| Some((k, self.pod(k)?.1)))
            .filter(|(_, f)| is_own(f))
            .map(|(k, f)| (k.clone(), f.deletion.is_none() && (f.is_finished() || !may_stay)))
            .collect();
        if may_run && pods.is_empty() {
            let mut pod = template.clone();
            pod.put("spec.nodeName", node.key().name.as_str());
            self.add("pods", pod, by);
        }
        for (key, _) in pods.into_iter().filter(|(_, goes)| *goes) {
            self.delete("pods", &key, &DeleteOptions::default(), by);
        }
        may_run
    }

    fn sync_daemon_set(&mut self, set: &Arc<Object>) {
        let template = daemon_pod(set);
        let mut wanted = 0_usize;
        for node in self.all("nodes").cloned().collect::<Vec<_>>() {
            wanted += usize::from(self.sync_daemon(set, &template, &node));
        }
        let pods: Vec<_> = self.owned("pods", set.uid());
        let ready = pods.iter().filter(|p| facts(p).is_some_and(PodFacts::is_healthy)).count();
        self.change("daemonsets", set.key(), "<daemonset>", |v| {
            let generation = v.int("metadata.generation");
            v.put("status.observedGeneration", generation);
            v.put("status.desiredNumberScheduled", wanted);
            v.put("status.currentNumberScheduled", pods.len());
            v.put("status.numberMisscheduled", 0);
            v.put("status.numberReady", ready);
            v.put("status.numberAvailable", ready);
            v.put("status.updatedNumberScheduled", pods.len());
        });
    }

    /// Whether the owner is a DaemonSet of another API group whose controller recreates its pods.
    pub(super) fn is_foreign_daemon(&self, namespace: &str, owner: &Owner) -> bool {
        let foreign = owner.kind == "DaemonSet" && owner.api_version != "apps/v1";
        foreign && self.foreign_daemons.contains(&(namespace.to_owned(), owner.name.clone()))
    }

    /// Such a controller recreates a deleted pod on the same node, regardless of the node's taints.
    pub(super) fn sync_foreign_daemon(&mut self, key: &Key, like: &str) {
        let Ok(gone) = serde_json::from_str::<Value>(like) else { return };
        let node = Key::cluster(gone.text("spec.nodeName"));
        if self.get("pods", key).is_some() || self.get("nodes", &node).is_none() {
            return;
        }
        let metadata = json!({
            "name": key.name, "labels": gone.at("metadata.labels"),
            "annotations": gone.at("metadata.annotations"),
            "ownerReferences": gone.at("metadata.ownerReferences"),
        });
        let pod = pods::from_template(
            &json!({ "metadata": metadata, "spec": gone.at("spec") }),
            &key.namespace,
        );
        self.add("pods", pod, "<foreign-daemonset>");
    }

    fn sync_job(&mut self, job: &Arc<Object>) {
        let by = "<job>";
        let pods = self.owned("pods", job.uid());
        let with = |phase: &str| {
            pods.iter().filter(|p| facts(p).is_some_and(|f| f.phase == phase)).count()
        };
        let (succeeded, failed) = (with("Succeeded"), with("Failed"));
        let active = pods.iter().filter(|p| facts(p).is_some_and(PodFacts::is_active)).count();
        let completions = job
            .value
            .at("spec.completions")
            .as_u64()
            .map_or(1, |n| usize::try_from(n).unwrap_or(1));
        let parallel = job
            .value
            .at("spec.parallelism")
            .as_u64()
            .map_or(1, |n| usize::try_from(n).unwrap_or(1));
        let wanted = parallel.min(completions.saturating_sub(succeeded));
        for _ in active..wanted {
            self.add("pods", owned_pod(job, None), by);
        }
        let now = self.now();
        self.change("jobs", job.key(), by, |v| {
            v.put("status.active", wanted.max(active));
            v.put("status.succeeded", succeeded);
            v.put("status.failed", failed);
            if succeeded >= completions {
                v.set_condition("Complete", "True", "", "", now);
            }
        });
    }

    fn count_replicas(&mut self, plural: &str, set: &Arc<Object>, by: &str) {
        let mut pods = self.owned("pods", set.uid());
        pods.retain(|p| facts(p).is_some_and(PodFacts::is_active));
        let ready = pods.iter().filter(|p| facts(p).is_some_and(PodFacts::is_healthy)).count();
        self.change(plural, set.key(), by, |v| {
            let generation = v.int("metadata.generation");
            v.put("status.observedGeneration", generation);
            v.put("status.replicas", pods.len());
            v.put("status.readyReplicas", ready);
            v.put("status.availableReplicas", ready);
        });
    }

    /// Deletes the objects of an owner that no longer exists.
    pub(super) fn collect_owned(&mut self, uid: &str) {
        let owned: Vec<_> = self.index.owned.get(uid).into_iter().flatten().cloned().collect();
        for (plural, key) in owned {
            if self.get(&plural, &key).is_some_and(|o| !o.is_terminating()) {
                self.delete(&plural, &key, &DeleteOptions::default(), "<garbage-collector>");
            }
        }
    }
}

pub(super) fn facts(pod: &Arc<Object>) -> Option<&PodFacts> {
    pod.pod.as_ref()
}

pub(super) fn count(value: &Value) -> usize {
    value.as_u64().map_or(1, |n| usize::try_from(n).unwrap_or(1))
}

/// The reference by which an owner controls.
pub(super) fn owned_by(owner: &Object) -> Value {
    json!([{
        "apiVersion": owner.value.at("apiVersion"), "kind": owner.value.at("kind"),
        "name": owner.key().name, "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true }])
}

fn owned_pod(owner: &Object, name: Option<&str>) -> Value {
    let mut pod = pods::from_template(owner.value.at("spec.template"), &owner.key().namespace);
    match name {
        Some(name) => pod.put("metadata.name", name),
        None => pod.put("metadata.generateName", format!("{}-", owner.key().name)),
    }
    pod.put("metadata.ownerReferences", owned_by(owner));
    pod
}

/// A pod of a DaemonSet, with the tolerations that its controller adds (kubernetes:
/// pkg/controller/daemon/util/daemonset_util.go).
fn daemon_pod(set: &Object) -> Value {
    let mut pod = owned_pod(set, None);
    let mut tolerations = pod.items("spec.tolerations").to_vec();
    for (key, effect) in [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ] {
        tolerations.push(json!({
            "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect
        }));
    }
    pod.put("spec.tolerations", tolerations);
    pod
}

/// Whether a DaemonSet's pod is to run on a node, and whether one that runs there may stay.
fn daemon_may(pod: &Value, node: &Object) -> (bool, bool) {
    let wanted = pod.at("spec.nodeSelector").as_object().into_iter().flatten();
    let selected =
        wanted.into_iter().all(|(k, v)| node.labels().get(k).map(String::as_str) == v.as_str());
    let barred = |effect: &str| {
        node.value
            .items("spec.taints")
            .iter()
            .any(|t| t.text("effect") == effect && !pods::bears(pod.at("spec"), t))
    };
    let stays = selected && !barred("NoExecute");
    (stays && !barred("NoSchedule"), stays)
}

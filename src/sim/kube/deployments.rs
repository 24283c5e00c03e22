//! The Deployment controller: one ReplicaSet a template, and a rolling update between them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    disruption::IntOrShare,
    json::Look,
    object::{Key, Object},
    store::State,
    workloads::{count, owned_by},
};

const BY: &str = "<deployment>";
const HASH: &str = "pod-template-hash";

impl State {
    pub(super) fn sync_deployment(&mut self, deployment: &Arc<Object>) {
        let hash = template_hash(deployment.value.at("spec.template"));
        let name = format!("{}-{hash}", deployment.key().name);
        let wanted = count(deployment.value.at("spec.replicas"));
        let key = Key::new(deployment.key().namespace.as_str(), name);
        let sets = self.owned("replicasets", deployment.uid());
        if self.get("replicasets", &key).is_none() {
            let first = sets.is_empty();
            self.add(
                "replicasets",
                replica_set(deployment, &key, &hash, if first { wanted } else { 0 }),
                BY,
            );
        }
        self.roll(deployment, &key, wanted);
        self.count_deployment(deployment, &key);
    }

    /// One step of a rolling update; does nothing if the newest ReplicaSet is the only one and has
    /// its full size.
    fn roll(&mut self, deployment: &Arc<Object>, newest: &Key, wanted: usize) {
        let sets = self.owned("replicasets", deployment.uid());
        let size = |s: &Arc<Object>| count(s.value.at("spec.replicas"));
        let available =
            |s: &Arc<Object>| usize::try_from(s.value.int("status.availableReplicas")).unwrap_or(0);
        let old: Vec<_> =
            sets.iter().filter(|s| s.key() != newest && size(s) > 0).cloned().collect();
        let Some(new) = sets.iter().find(|s| s.key() == newest) else { return };
        if old.is_empty() {
            if size(new) != wanted {
                self.resize(newest, wanted);
            }
            return;
        }
        let rolling = |field: &str| deployment.value.at("spec.strategy.rollingUpdate").at(field);
        let whole = i64::try_from(wanted).unwrap_or(i64::MAX);
        let surge = usize::try_from(
            IntOrShare::read(rolling("maxSurge")).unwrap_or(IntOrShare::Percent(25)).of(whole),
        )
        .unwrap_or(0);
        // A share of maxUnavailable is rounded down.
        let missing =
            match IntOrShare::read(rolling("maxUnavailable")).unwrap_or(IntOrShare::Percent(25)) {
                IntOrShare::Int(n) => usize::try_from(n).unwrap_or(0),
                IntOrShare::Percent(p) => usize::try_from(whole * p / 100).unwrap_or(0),
            };
        let total: usize = sets.iter().map(size).sum();
        let grown = wanted.min(size(new) + (wanted + surge).saturating_sub(total));
        if grown != size(new) {
            self.resize(newest, grown);
        }
        let least = wanted.saturating_sub(missing.max(usize::from(surge == 0)));
        let not_yet = size(new).saturating_sub(available(new));
        let mut surplus = total.saturating_sub(least + not_yet);
        for set in old {
            let gone = surplus.min(size(&set));
            if gone > 0 {
                surplus -= gone;
                self.resize(set.key(), size(&set) - gone);
            }
        }
    }

    fn resize(&mut self, set: &Key, size: usize) {
        self.change("replicasets", set, BY, |v| v.put("spec.replicas", size));
    }

    fn count_deployment(&mut self, deployment: &Arc<Object>, newest: &Key) {
        let sets = self.owned("replicasets", deployment.uid());
        let sum = |field: &str| sets.iter().map(|s| s.value.int(field)).sum::<i64>();
        let (all, ready) = (sum("status.replicas"), sum("status.readyReplicas"));
        let updated = self.get("replicasets", newest).map_or(0, |s| s.value.int("status.replicas"));
        let wanted = i64::try_from(count(deployment.value.at("spec.replicas"))).unwrap_or(i64::MAX);
        let now = self.now();
        self.change("deployments", deployment.key(), BY, |v| {
            let generation = v.int("metadata.generation");
            v.put("status.observedGeneration", generation);
            v.put("status.replicas", all);
            v.put("status.readyReplicas", ready);
            v.put("status.availableReplicas", ready);
            v.put("status.updatedReplicas", updated);
            v.put("status.unavailableReplicas", (wanted - ready).max(0));
            let (word, reason) = if ready >= wanted {
                ("True", "MinimumReplicasAvailable")
            } else {
                ("False", "MinimumReplicasUnavailable")
            };
            v.set_condition("Available", word, reason, "", now);
        });
    }
}

fn replica_set(deployment: &Object, key: &Key, hash: &str, replicas: usize) -> Value {
    let mut template = deployment.value.at("spec.template").clone();
    let mut labels = template.at("metadata.labels").as_object().cloned().unwrap_or_default();
    labels.insert(HASH.into(), hash.into());
    template.put("metadata.labels", labels.clone());
    let mut selector =
        deployment.value.at("spec.selector.matchLabels").as_object().cloned().unwrap_or_default();
    selector.insert(HASH.into(), hash.into());
    json!({
        "metadata": {
            "name": key.name, "namespace": key.namespace, "labels": labels,
            "ownerReferences": owned_by(deployment)
        },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": selector }, "template": template
        },
    })
}

/// The same template has the same name in every run.
fn template_hash(template: &Value) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let hash = template
        .to_string()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let digits = (0..10).scan(hash, |rest, _| {
        let digit = usize::try_from(*rest % 27).unwrap_or(0);
        *rest /= 27;
        ALPHABET.get(digit).map(|&b| char::from(b))
    });
    digits.collect()
}

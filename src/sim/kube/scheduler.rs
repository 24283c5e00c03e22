//! The scheduler: one pod after the other, to the node with the fewest of its kind, then the fewest at all.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    json::Look,
    object::{Key, Object},
    pods,
    store::State,
};

const BY: &str = "<scheduler>";

/// A node that takes pods.
struct Place {
    node: Arc<Object>,
    pods: usize,
    room: usize,
}

impl State {
    pub(super) fn schedule(&mut self) {
        if self.frozen.scheduler || self.index.unbound.is_empty() {
            return;
        }
        let mut places = self.places();
        let mut kin: BTreeMap<(String, String), usize> = BTreeMap::new();
        for key in self.index.unbound.clone() {
            let Some((pod, facts)) = self.pod(&key).map(|(o, f)| (Arc::clone(o), f.clone())) else { continue };
            let family = facts.owner.as_ref().map_or_else(|| facts.uid.clone(), |o| o.uid.clone());
            if kin.range((family.clone(), String::new())..).next().is_none_or(|((f, _), _)| *f != family) {
                self.count_kin(&family, &mut kin);
            }
            let count = |name: &str| kin.get(&(family.clone(), name.to_owned())).copied().unwrap_or_default();
            let fitting = places.iter_mut().filter(|p| p.pods < p.room && fits(&pod, &p.node));
            let best = fitting.min_by_key(|p| (count(&p.node.key().name), p.pods));
            if let Some(place) = best {
                place.pods += 1;
                let name = place.node.key().name.clone();
                *kin.entry((family, name.clone())).or_default() += 1;
                self.bind(&key, &name, BY);
            } else {
                let message = format!("0/{} nodes are available.", self.all("nodes").count());
                let now = self.now();
                if pod.value.condition("PodScheduled") != "False" {
                    self.change("pods", &key, BY, |p| p.set_condition("PodScheduled", "False", "Unschedulable", &message, now));
                }
            }
        }
    }

    fn places(&self) -> Vec<Place> {
        let open = self.all("nodes").filter(|n| n.value.condition("Ready") == "True" && n.value.at("spec.unschedulable").as_bool() != Some(true));
        open.map(|node| Place {
            pods: self.index.pods_by_node.get(&node.key().name).map_or(0, std::collections::BTreeSet::len),
            room: node.value.text("status.allocatable.pods").parse().unwrap_or(110),
            node: Arc::clone(node),
        })
        .collect()
    }

    fn count_kin(&self, family: &str, kin: &mut BTreeMap<(String, String), usize>) {
        for pod in self.owned("pods", family) {
            if let Some(node) = pod.pod.as_ref().filter(|p| p.is_active()).and_then(|p| p.node.clone()) {
                *kin.entry((family.to_owned(), node)).or_default() += 1;
            }
        }
    }

    /// Binds a pod to a node.
    pub(super) fn bind(&mut self, key: &Key, node: &str, by: &str) {
        let now = self.now();
        self.change("pods", key, by, |p| {
            p.put("spec.nodeName", node);
            p.set_condition("PodScheduled", "True", "", "", now);
        });
    }
}

/// Labels and taints of the node let the pod in.
fn fits(pod: &Object, node: &Object) -> bool {
    let wanted = pod.value.at("spec.nodeSelector").as_object().into_iter().flatten();
    let labels = wanted.into_iter().all(|(k, v)| node.labels().get(k).map(String::as_str) == v.as_str());
    let mut barring = node.value.items("spec.taints").iter().filter(|t| t.text("effect") != "PreferNoSchedule");
    labels && barring.all(|t| pods::bears(pod.value.at("spec"), t))
}

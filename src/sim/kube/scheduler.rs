//! The scheduler: one pod after the other, to the node with the fewest of its kind, then the fewest
//! at all.

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
        let mut kin: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for key in self.index.unbound.clone() {
            let Some((pod, facts)) = self.pod(&key).map(|(o, f)| (Arc::clone(o), f.clone())) else {
                continue;
            };
            let family = facts.owner.map_or(facts.uid, |o| o.uid);
            let kin = kin.entry(family).or_insert_with_key(|family| self.count_kin(family));
            match best(&mut places, kin, &pod) {
                Some(place) => {
                    place.pods += 1;
                    let name = place.node.key().name.clone();
                    *kin.entry(name.clone()).or_default() += 1;
                    self.bind(&key, &name, BY);
                }
                None => self.say_unschedulable(&key, &pod),
            }
        }
    }

    fn say_unschedulable(&mut self, key: &Key, pod: &Object) {
        if pod.value.condition("PodScheduled") != "False" {
            let message = format!("0/{} nodes are available.", self.all("nodes").count());
            let now = self.now();
            self.change("pods", key, BY, |p| {
                p.set_condition("PodScheduled", "False", "Unschedulable", &message, now);
            });
        }
    }

    fn places(&self) -> Vec<Place> {
        let open = self.all("nodes").filter(|n| {
            n.value.condition("Ready") == "True"
                && n.value.at("spec.unschedulable").as_bool() != Some(true)
        });
        open.map(|node| Place {
            pods: self
                .index
                .pods_by_node
                .get(&node.key().name)
                .map_or(0, std::collections::BTreeSet::len),
            room: node.value.text("status.allocatable.pods").parse().unwrap_or(110),
            node: Arc::clone(node),
        })
        .collect()
    }

    fn count_kin(&self, family: &str) -> BTreeMap<String, usize> {
        let mut kin = BTreeMap::new();
        for pod in self.owned("pods", family) {
            if let Some(node) =
                pod.pod.as_ref().filter(|p| p.is_active()).and_then(|p| p.node.clone())
            {
                *kin.entry(node).or_default() += 1;
            }
        }
        kin
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

/// The place with the fewest of the pod's kin, then the fewest pods, then the first by name.
fn best<'a>(
    places: &'a mut [Place],
    kin: &BTreeMap<String, usize>,
    pod: &Object,
) -> Option<&'a mut Place> {
    let mut best: Option<((usize, usize), &'a mut Place)> = None;
    for place in places.iter_mut().filter(|p| p.pods < p.room) {
        let score = (kin.get(&place.node.key().name).copied().unwrap_or_default(), place.pods);
        // What fits is dearer to find out than what is better.
        if best.as_ref().is_none_or(|(b, _)| score < *b) && fits(pod, &place.node) {
            best = Some((score, place));
        }
    }
    best.map(|(_, place)| place)
}

/// Labels and taints of the node let the pod in.
fn fits(pod: &Object, node: &Object) -> bool {
    let wanted = pod.value.at("spec.nodeSelector").as_object().into_iter().flatten();
    let labels =
        wanted.into_iter().all(|(k, v)| node.labels().get(k).map(String::as_str) == v.as_str());
    let mut barring =
        node.value.items("spec.taints").iter().filter(|t| t.text("effect") != "PreferNoSchedule");
    labels && barring.all(|t| pods::bears(pod.value.at("spec"), t))
}

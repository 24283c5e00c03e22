//! The store: objects by resource and key under one resourceVersion, what changed lately, and what
//! is known about them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use super::{
    agenda::Agenda,
    disruption::Members,
    faults::{EvictionReview, EvictionVerdict},
    journal::Journal,
    json::{Look, seconds},
    kinds::Kind,
    list::Snapshot,
    machine::Machine,
    object::{Key, Object, Owner, PodFacts, Shown},
    options::Options,
    rules::Rules,
    watch::Watches,
};
use crate::{domain::Moment, runtime::Clock, sim::Tripwire};

/// Asks the eviction webhook.
pub(super) type EvictionHook = Box<dyn Fn(&EvictionReview) -> EvictionVerdict + Send + Sync>;

/// Everything, under one lock that is never held over an await.
pub(super) struct State {
    pub(super) options: Options,
    pub(super) clock: Clock,
    pub(super) random: fastrand::Rng,
    pub(super) revision: u64,
    pub(super) kinds: Vec<Arc<Kind>>,
    pub(super) shelves: BTreeMap<String, Shelf>,
    pub(super) index: Index,
    pub(super) watches: Watches,
    pub(super) snapshots: BTreeMap<u64, Snapshot>,
    pub(super) agenda: Agenda,
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) rules: Rules,
    pub(super) tripwire: Tripwire,
    pub(super) journal: Journal,
    pub(super) hook: Option<EvictionHook>,
    pub(super) asked: BTreeMap<Key, usize>,
    pub(super) conflicts: BTreeMap<Key, super::eviction::Conflicts>,
    pub(super) frozen: Frozen,
    /// Namespaces that stay terminating, with what is in them.
    pub(super) held_namespaces: BTreeSet<String>,
    /// Controllers that put a pod back on its node when it goes, by namespace and name.
    pub(super) foreign_daemons: BTreeSet<(String, String)>,
}

/// Controllers that a scenario has stopped.
#[derive(Debug, Default)]
pub(super) struct Frozen {
    pub(super) disruption: bool,
    pub(super) scheduler: bool,
}

/// The objects of one resource.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) kind: Arc<Kind>,
    pub(super) objects: BTreeMap<Key, Arc<Object>>,
    pub(super) log: VecDeque<Change>,
    /// Changes up to this resourceVersion are forgotten.
    pub(super) forgotten: u64,
}

/// One change, as watches replay it.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) old: Option<Arc<Shown>>,
    pub(super) new: Arc<Shown>,
    pub(super) deleted: bool,
}

/// Who belongs to whom.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) pods_by_node: BTreeMap<String, BTreeSet<Key>>,
    /// By the UID of the controlling owner: plural and key.
    pub(super) owned: BTreeMap<String, BTreeSet<(String, Key)>>,
    /// Pods that wait for the scheduler.
    pub(super) unbound: BTreeSet<Key>,
    /// The disruption budgets, and what their pods come to.
    pub(super) budgets: BTreeMap<Key, Members>,
}

impl Index {
    fn update(&mut self, plural: &str, key: &Key, old: Option<&Object>, new: Option<&Object>) {
        fn owner(object: Option<&Object>) -> Option<&str> {
            Owner::uid_of(&object?.value)
        }
        fn node(object: Option<&Object>) -> Option<&str> {
            object?.pod.as_ref()?.node.as_deref()
        }
        move_between(&mut self.owned, owner(old), owner(new), || (plural.to_owned(), key.clone()));
        if plural == "pods" {
            move_between(&mut self.pods_by_node, node(old), node(new), || key.clone());
            if new.and_then(|o| o.pod.as_ref()).is_some_and(|p| p.node.is_none() && p.is_active()) {
                self.unbound.insert(key.clone());
            } else {
                self.unbound.remove(key);
            }
        }
        if plural == "pods" {
            let own = self
                .budgets
                .range_mut(Key::new(key.namespace.as_str(), "")..)
                .take_while(|(k, _)| k.namespace == key.namespace);
            for (_, members) in own {
                members.count(old, false);
                members.count(new, true);
            }
        }
    }
}

/// What the server fills in: it stays until its finalizer has emptied it.
fn fill_in_namespace(value: &mut Value) {
    if value.text("status.phase").is_empty() {
        value.put("status.phase", "Active");
    }
    value.put("spec.finalizers", serde_json::json!(["kubernetes"]));
    let mut labels = value.at("metadata.labels").as_object().cloned().unwrap_or_default();
    labels.insert("kubernetes.io/metadata.name".to_owned(), value.at("metadata.name").clone());
    value.put("metadata.labels", labels);
}

fn move_between<V: Ord>(
    map: &mut BTreeMap<String, BTreeSet<V>>,
    from: Option<&str>,
    to: Option<&str>,
    value: impl FnOnce() -> V,
) {
    if from == to {
        return;
    }
    let value = value();
    if let Some(from) = from
        && let Some(set) = map.get_mut(from)
    {
        set.remove(&value);
        if set.is_empty() {
            map.remove(from);
        }
    }
    if let Some(to) = to {
        map.entry(to.to_owned()).or_default().insert(value);
    }
}

impl State {
    pub(super) fn new(options: Options, clock: Clock, seed: u64) -> Self {
        let kinds = super::kinds::built_in();
        let mut state = Self {
            journal: Journal { on: options.journal, ..Journal::default() },
            options,
            clock,
            random: fastrand::Rng::with_seed(seed),
            revision: 1,
            kinds: Vec::new(),
            shelves: BTreeMap::new(),
            index: Index::default(),
            watches: Watches::default(),
            snapshots: BTreeMap::new(),
            agenda: Agenda::default(),
            machines: BTreeMap::new(),
            rules: Rules::default(),
            tripwire: Tripwire::default(),
            hook: None,
            asked: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            frozen: Frozen::default(),
            foreign_daemons: BTreeSet::new(),
            held_namespaces: BTreeSet::new(),
        };
        for kind in kinds {
            state.serve_kind(kind);
        }
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            state.ensure_namespace(name);
        }
        state
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    pub(super) fn serve_kind(&mut self, kind: Arc<Kind>) {
        let shelf = Shelf {
            kind: Arc::clone(&kind),
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            forgotten: self.revision,
        };
        self.shelves.entry(kind.plural.clone()).or_insert(shelf);
        self.kinds.push(kind);
    }

    /// A new UID for an object: a random UUID of version 4.
    pub(super) fn uid(&mut self) -> String {
        let (a, b) = (self.random.u64(..), self.random.u64(..));
        let (top, mid, low) = (a >> 32, (a >> 16) & 0xffff, a & 0x0fff);
        format!(
            "{top:08x}-{mid:04x}-4{low:03x}-{:04x}-{:012x}",
            0x8000 | ((b >> 48) & 0x3fff),
            b & 0xffff_ffff_ffff
        )
    }

    /// The end of a generated name.
    pub(super) fn suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).filter_map(|_| self.random.choice(ALPHABET)).map(|&b| char::from(b)).collect()
    }

    pub(super) fn get(&self, plural: &str, key: &Key) -> Option<&Arc<Object>> {
        self.shelves.get(plural)?.objects.get(key)
    }

    pub(super) fn pod(&self, key: &Key) -> Option<(&Arc<Object>, &PodFacts)> {
        let object = self.get("pods", key)?;
        Some((object, object.pod.as_ref()?))
    }

    /// All objects of a resource, in the order of their keys.
    pub(super) fn all(&self, plural: &str) -> impl Iterator<Item = &Arc<Object>> {
        self.shelves.get(plural).into_iter().flat_map(|s| s.objects.values())
    }

    /// The objects of a resource in one namespace.
    pub(super) fn in_namespace<'a>(
        &'a self,
        plural: &str,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let shelf = self.shelves.get(plural);
        let all = shelf.map(|s| s.objects.range(Key::new(namespace, "")..));
        all.into_iter().flatten().take_while(move |(k, _)| k.namespace == namespace).map(|(_, o)| o)
    }

    /// The pods bound to a node.
    pub(super) fn pods_on(&self, node: &str) -> Vec<(Key, PodFacts)> {
        let keys = self.index.pods_by_node.get(node).into_iter().flatten();
        keys.filter_map(|k| Some((k.clone(), self.pod(k)?.1.clone()))).collect()
    }

    /// The objects of a resource that an owner controls.
    pub(super) fn owned(&self, plural: &str, uid: &str) -> Vec<Arc<Object>> {
        let all = self.index.owned.get(uid).into_iter().flatten();
        all.filter(|(p, _)| p == plural).filter_map(|(p, k)| self.get(p, k)).cloned().collect()
    }

    /// Adds an object: fills in what the server fills in. `None` where the resource is not served.
    pub(super) fn add(&mut self, plural: &str, mut value: Value, by: &str) -> Option<Arc<Object>> {
        let kind = Arc::clone(&self.shelves.get(plural)?.kind);
        if value.text("metadata.name").is_empty() {
            let name = format!("{}{}", value.text("metadata.generateName"), self.suffix());
            value.put("metadata.name", name);
        }
        if kind.namespaced && value.text("metadata.namespace").is_empty() {
            value.put("metadata.namespace", "default");
        }
        value.put("apiVersion", kind.api_version());
        value.put("kind", kind.kind.as_str());
        if value.text("metadata.uid").is_empty() {
            value.put("metadata.uid", self.uid());
        }
        if value.text("metadata.creationTimestamp").is_empty() {
            value.put("metadata.creationTimestamp", seconds(self.now()));
        }
        if kind.generation {
            value.put("metadata.generation", 1);
        }
        if plural == "pods" {
            super::pods::fill_in(&mut value);
        }
        if plural == "namespaces" {
            fill_in_namespace(&mut value);
        }
        super::verbs::tidy(&kind, &mut value);
        Some(self.write(&kind, value, by))
    }

    /// Stores a version of an object without further changes but its resourceVersion.
    pub(super) fn write(&mut self, kind: &Arc<Kind>, mut value: Value, by: &str) -> Arc<Object> {
        self.revision += 1;
        value.put("metadata.resourceVersion", self.revision.to_string());
        let key = Key::of(&value);
        let old = self.get(&kind.plural, &key).cloned();
        let object =
            Arc::new(Object::new(kind, value, (self.revision, self.now()), old.as_deref()));
        if let Some(shelf) = self.shelves.get_mut(&kind.plural) {
            shelf.objects.insert(key.clone(), Arc::clone(&object));
        }
        self.index.update(&kind.plural, &key, old.as_deref(), Some(&object));
        if kind.plural == "poddisruptionbudgets" {
            self.count_members(&key, old.as_deref(), &object);
        }
        let change = Change {
            old: old.as_ref().map(|o| Arc::clone(&o.shown)),
            new: Arc::clone(&object.shown),
            deleted: false,
        };
        self.publish(&kind.plural, change);
        self.react(&kind.plural, &key, old.as_deref(), Some(&object), by);
        object
    }

    /// Changes an object; writes nothing if nothing changes. `None` if the object does not exist.
    pub(super) fn change(
        &mut self,
        plural: &str,
        key: &Key,
        by: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Arc<Object>> {
        let shelf = self.shelves.get(plural)?;
        let (kind, old) = (Arc::clone(&shelf.kind), Arc::clone(shelf.objects.get(key)?));
        let mut value = old.value.clone();
        change(&mut value);
        Some(self.replace(&kind, &old, value, by))
    }

    /// Puts a version in the place of another: counts the generation, and lets go of an object
    /// whose last finalizer went.
    pub(super) fn replace(
        &mut self,
        kind: &Arc<Kind>,
        old: &Arc<Object>,
        mut value: Value,
        by: &str,
    ) -> Arc<Object> {
        if kind.generation && value.at("spec") != old.value.at("spec") {
            value.put("metadata.generation", old.value.int("metadata.generation") + 1);
        }
        if value == old.value {
            return Arc::clone(old);
        }
        let ends = !value.at("metadata.deletionTimestamp").is_null()
            && value.items("metadata.finalizers").is_empty()
            && value.int("metadata.deletionGracePeriodSeconds") == 0
            && (kind.plural != "namespaces" || value.items("spec.finalizers").is_empty());
        let new = self.write(kind, value, by);
        if ends {
            self.erase(&kind.plural, new.key(), by);
        }
        new
    }

    /// Changes the status of a Node in place; only fields that no controller or selector reads.
    /// False if the Node does not exist or its current version is in use elsewhere.
    pub(super) fn change_status(&mut self, key: &Key, change: impl FnOnce(&mut Value)) -> bool {
        let shelf = self.shelves.get_mut("nodes");
        // A version that is in use elsewhere must not change.
        let Some(object) = shelf.and_then(|s| s.objects.get_mut(key)).and_then(Arc::get_mut) else {
            return false;
        };
        self.revision += 1;
        let old = Arc::clone(&object.shown);
        object.change_status(self.revision, change);
        let change = Change { old: Some(old), new: Arc::clone(&object.shown), deleted: false };
        self.publish("nodes", change);
        true
    }

    /// Takes an object out.
    pub(super) fn erase(&mut self, plural: &str, key: &Key, by: &str) -> Option<Arc<Object>> {
        let shelf = self.shelves.get_mut(plural)?;
        let old = shelf.objects.remove(key)?;
        let kind = Arc::clone(&shelf.kind);
        self.revision += 1;
        let mut value = old.value.clone();
        value.put("metadata.resourceVersion", self.revision.to_string());
        let last = Object::new(&kind, value, (self.revision, self.now()), Some(&old));
        self.index.update(plural, key, Some(&old), None);
        if plural == "poddisruptionbudgets" {
            self.index.budgets.remove(key);
        }
        self.publish(
            plural,
            Change { old: Some(Arc::clone(&old.shown)), new: last.shown, deleted: true },
        );
        self.react(plural, key, Some(&old), None, by);
        Some(old)
    }

    pub(super) fn ensure_namespace(&mut self, name: &str) {
        if self.get("namespaces", &Key::cluster(name)).is_none() {
            self.add("namespaces", serde_json::json!({ "metadata": { "name": name } }), "<server>");
        }
    }

    pub(super) fn is_terminating_namespace(&self, name: &str) -> bool {
        self.get("namespaces", &Key::cluster(name)).is_some_and(|n| n.is_terminating())
    }
}

//! The end of a namespace.

use std::sync::Arc;

use super::{
    agenda::Task,
    delete::Options as DeleteOptions,
    json::{Look, seconds},
    object::{Key, Object},
    store::State,
};

const BY: &str = "<namespace>";

impl State {
    /// Makes a namespace terminating: nothing can be created in it. With `empty`, the controller
    /// then deletes its contents, and the namespace itself.
    pub(super) fn begin_namespace_end(
        &mut self,
        key: &Key,
        by: &str,
        empty: bool,
    ) -> Option<Arc<Object>> {
        let now = self.now();
        if empty {
            self.held_namespaces.remove(&key.name);
            self.agenda
                .at(now.plus(self.options.timing.controllers), Task::Namespace(key.name.clone()));
        } else {
            self.held_namespaces.insert(key.name.clone());
        }
        self.change("namespaces", key, by, |n| {
            if n.at("metadata.deletionTimestamp").is_null() {
                n.put("metadata.deletionTimestamp", seconds(now));
            }
            n.put("status.phase", "Terminating");
        })
    }

    pub(super) fn sync_namespace(&mut self, name: &str) {
        if self.held_namespaces.contains(name) || !self.is_terminating_namespace(name) {
            return;
        }
        let shelves: Vec<String> = self
            .shelves
            .values()
            .filter(|s| s.kind.namespaced)
            .map(|s| s.kind.plural.clone())
            .collect();
        let mut left = false;
        for plural in shelves {
            for object in self.in_namespace(&plural, name).cloned().collect::<Vec<_>>() {
                if !object.is_terminating() {
                    self.delete(&plural, object.key(), &DeleteOptions::default(), BY);
                }
                left |= self.get(&plural, object.key()).is_some();
            }
        }
        if !left {
            self.erase("namespaces", &Key::cluster(name), BY);
        }
    }
}

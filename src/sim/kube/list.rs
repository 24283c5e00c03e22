//! Lists, whole and in pages.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::{
    failure::Failure,
    object::{Key, Shown},
    render::Render,
    request::{Call, Reply},
    store::State,
    validate,
    watch::Scope,
};
use crate::domain::Moment;

/// How long a list can be continued. The real server keeps five minutes of history.
const KEPT: Duration = Duration::from_mins(5);

/// The rest of a list that is read in pages: as it was when the first page was read.
#[derive(Debug)]
pub(super) struct Snapshot {
    revision: u64,
    at: Moment,
    items: Vec<Arc<Shown>>,
}

impl State {
    /// The objects in scope, in the order of their keys.
    pub(super) fn matching(&self, plural: &str, scope: &Scope) -> Vec<Arc<Shown>> {
        let Some(shelf) = self.shelves.get(plural) else { return Vec::new() };
        let keep =
            |o: &Arc<super::object::Object>| scope.contains(&o.shown).then(|| Arc::clone(&o.shown));
        if plural == "pods"
            && let Some(node) = scope.node().filter(|n| !n.is_empty())
        {
            let keys: Option<&BTreeSet<Key>> = self.index.pods_by_node.get(node);
            return keys
                .into_iter()
                .flatten()
                .filter_map(|k| shelf.objects.get(k))
                .filter_map(keep)
                .collect();
        }
        if scope.namespace.is_empty() {
            return shelf.objects.values().filter_map(keep).collect();
        }
        self.in_namespace(plural, &scope.namespace).filter_map(keep).collect()
    }

    pub(super) fn list(&mut self, call: &Call) -> Result<Reply, Failure> {
        let limit = call.query.get("limit").parse::<usize>().ok().filter(|l| *l > 0);
        let token = call.query.get("continue");
        let scope = Scope::of(call)?;
        let (revision, items, start, id) = if token.is_empty() {
            self.check_reachable(call)?;
            (self.revision, self.matching(&call.kind.plural, &scope), 0, None)
        } else {
            self.forget_old_snapshots();
            let (id, start) = token
                .split_once('.')
                .and_then(|(id, start)| {
                    Some((id.parse::<u64>().ok()?, start.parse::<usize>().ok()?))
                })
                .ok_or_else(|| {
                    Failure::bad_request("continue key is not valid: malformed token")
                })?;
            let snapshot = self.snapshots.get(&id).ok_or_else(|| {
                Failure::expired(
                    "The provided continue parameter is too old to display a consistent list \
                     result. You can start a new list without the continue parameter.",
                )
            })?;
            (snapshot.revision, snapshot.items.clone(), start, Some(id))
        };
        let end = limit.map_or(items.len(), |l| (start + l).min(items.len()));
        let page = items.get(start..end).unwrap_or_default().to_vec();
        let mut metadata =
            Map::from_iter([("resourceVersion".to_owned(), Value::from(revision.to_string()))]);
        if end < items.len() {
            let left = items.len() - end;
            let id = id.unwrap_or_else(|| self.keep_snapshot(revision, items));
            metadata.insert("continue".into(), format!("{id}.{end}").into());
            if scope.labels.is_empty() && scope.fields.is_empty() {
                metadata.insert("remainingItemCount".into(), left.into());
            }
        }
        Ok(Reply::Bytes(Render::of(call, self.clock).list(&page, &Value::Object(metadata))))
    }

    fn check_reachable(&self, call: &Call) -> Result<(), Failure> {
        validate::version_match(call)?;
        let wanted = match call.query.get("resourceVersion") {
            "" => 0,
            text => text
                .parse::<u64>()
                .map_err(|_| Failure::bad_request(format!("invalid resource version {text:?}")))?,
        };
        if wanted > self.revision {
            return Err(Failure::too_new(wanted, self.revision));
        }
        // Only the newest version is kept whole: an older one counts as compacted.
        if call.query.get("resourceVersionMatch") == "Exact" && wanted < self.revision {
            return Err(Failure::expired(format!(
                "The resourceVersion for the provided list is too old: {wanted}"
            )));
        }
        Ok(())
    }

    fn keep_snapshot(&mut self, revision: u64, items: Vec<Arc<Shown>>) -> u64 {
        self.forget_old_snapshots();
        let id = self.snapshots.last_key_value().map_or(1, |(id, _)| id + 1);
        let at = self.now();
        self.snapshots.insert(id, Snapshot { revision, at, items });
        id
    }

    fn forget_old_snapshots(&mut self) {
        let oldest = self.now().minus(KEPT);
        self.snapshots.retain(|_, s| s.at >= oldest);
    }
}

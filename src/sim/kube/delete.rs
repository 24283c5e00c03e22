//! Deletion: preconditions, grace, finalizers (apiserver: pkg/registry/rest/delete.go; pods:
//! pkg/registry/core/pod/strategy.go).

use std::sync::Arc;

use serde_json::Value;

use super::{
    control::SCENARIO,
    failure::Failure,
    journal::{Fact, PodRef},
    json::{Look, plus_seconds, seconds},
    object::{Key, Object},
    request::Call,
    store::State,
};
use crate::domain::Moment;

/// `DeleteOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) grace: Option<i64>,
    pub(super) uid: Option<String>,
    pub(super) revision: Option<String>,
    pub(super) orphan: bool,
    pub(super) dry_run: bool,
}

impl Options {
    /// From the body, else from the query.
    pub(super) fn read(call: &Call) -> Result<Self, Failure> {
        let mut options = Self::of(&call.optional_json()?);
        if options.grace.is_none() {
            options.grace = call.query.get("gracePeriodSeconds").parse().ok();
        }
        options.orphan |= call.query.get("propagationPolicy") == "Orphan";
        Ok(options)
    }

    pub(super) fn of(value: &Value) -> Self {
        let text = |path| Some(value.text(path)).filter(|t| !t.is_empty()).map(str::to_owned);
        Self {
            grace: value.at("gracePeriodSeconds").as_i64(),
            uid: text("preconditions.uid"),
            revision: text("preconditions.resourceVersion"),
            orphan: value.text("propagationPolicy") == "Orphan",
            dry_run: !value.items("dryRun").is_empty(),
        }
    }

    /// Fails unless the object has the UID and resourceVersion of the preconditions.
    pub(super) fn check(&self, call: &Call, object: &Object) -> Result<(), Failure> {
        let differs = |wanted: &Option<String>, have: &str, what: &str, then: &str| {
            let wanted = wanted.as_ref().filter(|w| *w != have)?;
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record \
                 ({have}). The object might have been {then}"
            );
            Some(Failure::precondition(&call.kind, &call.key.name, &why))
        };
        let stale = differs(
            &self.revision,
            object.value.text("metadata.resourceVersion"),
            "ResourceVersion",
            "modified",
        );
        differs(&self.uid, object.uid(), "UID", "deleted and then recreated")
            .or(stale)
            .map_or(Ok(()), Err)
    }
}

/// What becomes of an object that is to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// It goes now.
    Now,
    /// It is marked, and goes after its grace period or finalizers.
    Mark(i64),
    /// It is marked already, and its grace period gets shorter.
    Shorten(i64),
    /// It is marked already.
    Nothing,
}

fn course(object: &Object, asked: Option<i64>) -> Course {
    let finalizers = !object.value.items("metadata.finalizers").is_empty();
    let Some(pod) = &object.pod else {
        return match (finalizers, object.is_terminating()) {
            (false, _) => Course::Now,
            (true, false) => Course::Mark(0),
            (true, true) => Course::Nothing,
        };
    };
    // A negative one is read as one second.
    let asked = asked.map(|a| if a < 0 { 1 } else { a });
    if pod.deletion.is_some() {
        // What is on its way is not looked at again, finished or not: only a shorter grace changes
        // anything.
        return match asked {
            Some(0) if !finalizers => Course::Now,
            Some(grace) if grace < pod.deletion_grace => Course::Shorten(grace),
            _ => Course::Nothing,
        };
    }
    let at_once = pod.node.is_none() || pod.is_finished();
    let grace = if at_once { 0 } else { asked.unwrap_or(pod.grace).max(0) };
    if grace == 0 && !finalizers { Course::Now } else { Course::Mark(grace) }
}

fn mark(object: &mut Value, grace: i64, now: Moment) {
    object.put("metadata.deletionTimestamp", seconds(plus_seconds(now, grace)));
    object.put("metadata.deletionGracePeriodSeconds", grace);
    if object.at("metadata.generation").is_i64() {
        object.put("metadata.generation", object.int("metadata.generation") + 1);
    }
}

fn shorten(object: &mut Value, grace: i64, now: Moment) {
    let had = object.int("metadata.deletionGracePeriodSeconds");
    let asked_at = object
        .moment("metadata.deletionTimestamp")
        .unwrap_or(now)
        .minus(std::time::Duration::from_secs(had.unsigned_abs()));
    object.put("metadata.deletionTimestamp", seconds(plus_seconds(asked_at, grace)));
    object.put("metadata.deletionGracePeriodSeconds", grace);
}

impl State {
    /// Deletes an object; what is left of it, or what it was.
    pub(super) fn delete(
        &mut self,
        plural: &str,
        key: &Key,
        options: &Options,
        by: &str,
    ) -> Option<Arc<Object>> {
        let old = Arc::clone(self.get(plural, key)?);
        if options.orphan {
            self.orphan(old.uid(), by);
        }
        if plural == "namespaces" {
            return self.begin_namespace_end(key, by, true);
        }
        let wrap = |pod, grace, again, overrun| Fact::Deleted { pod, grace, again, overrun };
        self.note_deletion(&old, options.grace, by, wrap);
        self.follow(plural, key, &old, course(&old, options.grace), by)
    }

    /// Deletes a pod because it was evicted.
    pub(super) fn delete_evicted(
        &mut self,
        key: &Key,
        options: &Options,
        by: &str,
    ) -> Option<Arc<Object>> {
        let old = Arc::clone(self.get("pods", key)?);
        let wrap = |pod, grace, again, overrun| Fact::Evicted { pod, grace, again, overrun };
        self.note_deletion(&old, options.grace, by, wrap);
        self.follow("pods", key, &old, course(&old, options.grace), by)
    }

    /// What a deletion would leave of an object; `None`: nothing.
    pub(super) fn after_deletion(&self, old: &Object, options: &Options) -> Option<Value> {
        let mut value = old.value.clone();
        match course(old, options.grace) {
            Course::Now => return None,
            Course::Nothing => {}
            Course::Mark(grace) => mark(&mut value, grace, self.now()),
            Course::Shorten(grace) => shorten(&mut value, grace, self.now()),
        }
        Some(value)
    }

    fn follow(
        &mut self,
        plural: &str,
        key: &Key,
        old: &Arc<Object>,
        course: Course,
        by: &str,
    ) -> Option<Arc<Object>> {
        let now = self.now();
        match course {
            Course::Now => self.erase(plural, key, by),
            Course::Nothing => Some(Arc::clone(old)),
            Course::Mark(grace) => self.change(plural, key, by, |v| mark(v, grace, now)),
            Course::Shorten(grace) => self.change(plural, key, by, |v| shorten(v, grace, now)),
        }
    }

    /// What clients and people (a scenario) do to a pod is for judges to see; what controllers do
    /// is not.
    pub(super) fn note_deletion(
        &mut self,
        old: &Object,
        asked: Option<i64>,
        by: &str,
        wrap: impl FnOnce(PodRef, u64, bool, Vec<String>) -> Fact,
    ) {
        let Some(pod) = old
            .pod
            .as_ref()
            .filter(|_| self.journal.on && (!by.starts_with('<') || by == SCENARIO))
        else {
            return;
        };
        let again = pod.deletion.is_some();
        let grace = match course(old, asked) {
            Course::Now => 0,
            Course::Mark(g) | Course::Shorten(g) => g,
            Course::Nothing => pod.deletion_grace,
        };
        let overrun = if again { Vec::new() } else { self.overrun_without(old) };
        self.note(by, wrap(pod.reference(old.key()), grace.unsigned_abs(), again, overrun));
    }

    fn orphan(&mut self, uid: &str, by: &str) {
        let owned: Vec<_> = self.index.owned.get(uid).into_iter().flatten().cloned().collect();
        for (plural, key) in owned {
            self.change(&plural, &key, by, |v| {
                let others: Vec<Value> = v
                    .items("metadata.ownerReferences")
                    .iter()
                    .filter(|o| o.text("uid") != uid)
                    .cloned()
                    .collect();
                v.put("metadata.ownerReferences", others);
            });
        }
    }
}

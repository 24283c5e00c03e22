//! The annotation's schema, version 1:
//!
//! ```json
//! {"version":1,"instance":"i-1234567890abcdef0","boot":"5e2a…","before":{"unschedulable":false,"excluded":false},
//!  "interruptions":[
//!   {"kind":"terminate-hook","event":"1234…","time":"2026-01-01T00:00:00Z","accepted":"2026-01-01T00:00:01Z",
//!    "group":"asg","hook":"drain","token":"8765…","unconfirmed":true},
//!   {"kind":"capacity","event":"…","time":"…","accepted":"…","ends":"…"},
//!   {"kind":"state-change","event":"…","time":"…","accepted":"…","state":"stopping","stale":true}],
//!  "released":{"at":"2026-01-01T00:10:00Z","outcome":"empty"}}
//! ```
//!
//! All times are by AWS's clock, not by the leader's own: readers convert them (`lifecycle::Skew`).
//!
//! With `--compat nth` there is `"compat":"nth"` beside `before`. Fields that are not known survive
//! a rewrite at every level; so do interruptions of a kind that is not known, whatever their shape.
//! A newer version is read for the fields that are known and keeps its number.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::{
    Compat, GroupName, HookKey, HookName, InstanceId, Kind, LifecycleAction, LifecycleToken,
    Moment, Taken,
};

/// The version that is written.
pub const VERSION: u64 = 1;
/// No record holds more interruptions than this (a group has at most 50 hooks).
pub const MAX_INTERRUPTIONS: usize = 64;
/// No record names more hooks than this. Of one that somebody else wrote, the first ones count.
pub const MAX_HOOKS: usize = 4;
/// No record is longer than this: all annotations of an object share 256 KiB.
pub const MAX_BYTES: usize = 32 * 1024;
/// Longer event ids (EventBridge's have 36 characters) are cut.
const MAX_EVENT_ID: usize = 128;
/// Longer tokens (AWS's have 36 characters) are none; the instance id serves in their place.
const MAX_TOKEN: usize = 64;

/// The record of a Node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub(super) version: u64,
    #[serde(with = "instance_id")]
    pub(super) instance: InstanceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) boot: Option<String>,
    #[serde(default)]
    pub(super) before: Before,
    /// Whose marks stand beside ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) compat: Option<String>,
    pub(super) interruptions: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) released: Option<Released>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

/// What was on the Node before it was first taken on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Before {
    /// Somebody else had cordoned it.
    #[serde(default)]
    pub unschedulable: bool,
    /// Somebody else had taken it out of load balancers.
    #[serde(default)]
    pub excluded: bool,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

/// The end of a record's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// When.
    pub at: Moment,
    /// How the drain ended, in a word.
    #[serde(default)]
    pub outcome: String,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl Released {
    /// Released at `at`, with the drain's outcome as a word (`empty`, `deadline`, `node-gone`, …).
    #[must_use]
    pub fn new(at: Moment, outcome: &str) -> Self {
        Self { at: whole_millis(at), outcome: outcome.to_owned(), rest: Map::new() }
    }
}

/// One interruption in the record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Entry {
    /// Of a shape that is understood; its kind may be a word of a newer version.
    Known(Box<Known>),
    /// Of a kind and shape that are not known: carried along.
    Foreign(Map<String, Value>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) event: String,
    pub(super) time: Moment,
    pub(super) accepted: Moment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<GroupName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hook: Option<HookName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<LifecycleToken>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ends: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stale: bool,
    /// Its hook was taken on before it was known whether it is ours.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unconfirmed: bool,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

/// The annotation is not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the annotation sundown.dev/record is damaged: {why}. It is left as it is until the next \
     interruption replaces it; `kubectl annotate node NODE sundown.dev/record-` removes it"
)]
pub struct Damage {
    /// What is wrong with it.
    pub why: String,
}

impl Record {
    /// Reads the annotation's text.
    pub fn read(text: &str) -> Result<Self, Damage> {
        let record: Self = serde_json::from_str(text).map_err(|e| Damage { why: e.to_string() })?;
        if record.version == 0 {
            Err(Damage { why: "there is no version 0".to_owned() })
        } else {
            Ok(record)
        }
    }

    /// The annotation's text.
    #[must_use]
    pub fn write(&self) -> String {
        // Maps with string keys, written to memory: that cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The instance that it names. It counts only for the Node of that instance.
    #[must_use]
    pub const fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Whose marks stand beside ours because of it; `None` also for a handler of a newer version.
    #[must_use]
    pub fn compat(&self) -> Option<Compat> {
        self.compat.as_deref()?.parse().ok()
    }

    /// When and how it was released; `None` while it is open.
    #[must_use]
    pub const fn released(&self) -> Option<&Released> {
        self.released.as_ref()
    }

    /// The interruptions that can be read. Hooks are owed under `instance`, the Node's own: never
    /// under one that only an annotation names.
    #[must_use]
    pub fn taken(&self, instance: &InstanceId) -> Vec<Taken> {
        self.known().map(|k| k.taken(instance)).collect()
    }

    /// The hooks that it names, each once, in the order in which they were taken on; at most one
    /// more than count.
    pub(super) fn hooks(&self) -> Vec<(&GroupName, &HookName)> {
        let mut hooks = Vec::new();
        for named in self.known().filter_map(|k| k.group.as_ref().zip(k.hook.as_ref())) {
            if !hooks.contains(&named) {
                hooks.push(named);
            }
            if hooks.len() > MAX_HOOKS {
                break;
            }
        }
        hooks
    }

    /// The completions that it owes, each action once, with the token of its newest event. The
    /// first [`MAX_HOOKS`] hooks count.
    #[must_use]
    pub fn open_actions(&self, instance: &InstanceId) -> Vec<LifecycleAction> {
        let mut newest: std::collections::BTreeMap<HookKey, (Moment, LifecycleAction)> =
            std::collections::BTreeMap::new();
        let mut counted = self.hooks();
        counted.truncate(MAX_HOOKS);
        for taken in self.taken(instance) {
            let Some(hook) = taken.hook.filter(|h| counted.contains(&(&h.key.group, &h.key.hook)))
            else {
                continue;
            };
            match newest.get(&hook.key) {
                Some((time, kept))
                    if *time > taken.time || (kept.token.is_some() && hook.token.is_none()) => {}
                _ => drop(newest.insert(hook.key.clone(), (taken.time, hook))),
            }
        }
        newest.into_values().map(|(_, hook)| hook).collect()
    }

    /// The same, where this process knows more than the record says. AWS keeps one action of a hook
    /// and an instance open at a time: where the newest is over, one that this process keeps open
    /// is owed in its place.
    #[must_use]
    pub fn open_actions_now(
        &self,
        instance: &InstanceId,
        is_over: impl Fn(&LifecycleAction) -> bool,
        is_kept_open: impl Fn(&LifecycleAction) -> bool,
    ) -> Vec<LifecycleAction> {
        let in_its_place = |newest: LifecycleAction| {
            if !is_over(&newest) {
                return newest;
            }
            let taken = self.taken(instance).into_iter();
            let others = taken
                .filter_map(|t| Some((t.time, t.hook?)))
                .filter(|(_, hook)| hook.key == newest.key && is_kept_open(hook));
            others.max_by_key(|(time, _)| *time).map_or(newest, |(_, kept)| kept)
        };
        self.open_actions(instance).into_iter().map(in_its_place).collect()
    }

    /// This hook was taken on while the other hooks of its group were not known, so that it may be
    /// somebody else's: that is to be found out before it is completed.
    #[must_use]
    pub fn is_unconfirmed(&self, hook: &HookKey) -> bool {
        let same = |k: &&Known| {
            k.group.as_ref() == Some(&hook.group) && k.hook.as_ref() == Some(&hook.hook)
        };
        self.known().filter(same).all(|k| k.unconfirmed) && self.known().any(|k| same(&k))
    }

    /// The first time that something of it was taken on.
    #[must_use]
    pub fn accepted(&self) -> Option<Moment> {
        self.known().map(|k| k.accepted).min()
    }

    pub(super) fn known(&self) -> impl Iterator<Item = &Known> {
        self.interruptions.iter().filter_map(|e| match e {
            Entry::Known(k) => Some(&**k),
            Entry::Foreign(_) => None,
        })
    }
}

impl Known {
    pub(super) fn new(taken: &Taken) -> Self {
        let hook = taken.hook.as_ref();
        Self {
            kind: taken.kind.map_or("", Kind::as_str).to_owned(),
            event: taken.event_id.chars().take(MAX_EVENT_ID).collect(),
            time: whole_millis(taken.time),
            accepted: whole_millis(taken.accepted),
            group: hook.map(|h| h.key.group.clone()),
            hook: hook.map(|h| h.key.hook.clone()),
            token: hook.and_then(|h| h.token.clone()).filter(|t| t.as_str().len() <= MAX_TOKEN),
            ends: taken.ends.map(whole_millis),
            state: taken.state.map(|s| s.as_str().to_owned()),
            stale: taken.stale,
            unconfirmed: false,
            rest: Map::new(),
        }
    }

    pub(super) fn taken(&self, instance: &InstanceId) -> Taken {
        let key = self.group.as_ref().zip(self.hook.as_ref()).map(|(group, hook)| HookKey {
            instance: instance.clone(),
            group: group.clone(),
            hook: hook.clone(),
        });
        Taken {
            kind: Kind::from_word(&self.kind),
            event_id: self.event.clone(),
            time: self.time,
            accepted: self.accepted,
            hook: key.map(|key| LifecycleAction { key, token: self.token.clone() }),
            ends: self.ends,
            state: self.state.as_deref().and_then(|s| s.parse().ok()),
            stale: self.stale,
        }
    }

    /// A hook of a kind that is known must name what it owes.
    fn lacks_its_hook(&self) -> bool {
        matches!(Kind::from_word(&self.kind), Some(Kind::TerminateHook | Kind::LaunchHook))
            && (self.group.is_none() || self.hook.is_none())
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let fields = Map::deserialize(deserializer)?;
        let kind_is_known =
            fields.get("kind").and_then(Value::as_str).and_then(Kind::from_word).is_some();
        match serde_json::from_value::<Known>(Value::Object(fields.clone())) {
            Ok(known) if known.lacks_its_hook() => {
                Err(D::Error::custom("a hook without `group` or `hook`"))
            }
            Ok(known) => Ok(Self::Known(Box::new(known))),
            Err(e) if kind_is_known => Err(D::Error::custom(e)),
            Err(_) => Ok(Self::Foreign(fields)),
        }
    }
}

/// Milliseconds are all that AWS gives, and shorter to read.
pub(super) fn whole_millis(t: Moment) -> Moment {
    Moment::from_millisecond(t.as_millisecond()).unwrap_or(t)
}

mod instance_id {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use crate::domain::InstanceId;

    pub(super) fn serialize<S: Serializer>(
        id: &InstanceId,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(id.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<InstanceId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

//! The annotation's schema, version 1:
//!
//! ```json
//! {"version":1,"instance":"i-1234567890abcdef0","boot":"5e2a…",
//!  "before":{"unschedulable":false,"excluded":false},
//!  "interruptions":[
//!   {"kind":"terminate-hook","event":"1234…","time":"2026-01-01T00:00:00Z",
//!    "accepted":"2026-01-01T00:00:01Z","group":"asg","hook":"drain","token":"8765…",
//!    "unconfirmed":true,"warm_pool":true,"settings":{"drain-timeout":"4h"}},
//!   {"kind":"capacity-block","event":"…","time":"…","accepted":"…","ends":"…",
//!    "response":"cordon"},
//!   {"kind":"request","event":"request:upgrade:91c5…","time":"…","accepted":"…","ends":"…",
//!    "reason":"new kernel"},
//!   {"kind":"state-change","event":"…","time":"…","accepted":"…","state":"stopping",
//!    "stale":true}],
//!  "released":{"at":"2026-01-01T00:10:00Z","outcome":"empty"}}
//! ```
//!
//! `ends` of a request is its deadline. All times are by AWS's clock, not by the leader's own: readers convert them (`lifecycle::Skew`).
//!
//! With `--compat nth`, there is `"compat":"nth"` beside `before`. `"pool":"asg"` shows that the
//! instance went into the warm pool of this group by a record that this one has replaced. Unknown fields survive a rewrite
//! at every level, and so do interruptions of an unknown kind, whatever their shape. Of a record of
//! a newer version, the known fields are read, and its version number stays.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::{
    Compat, DrainSettings, GroupName, HookKey, HookName, InstanceId, InterruptionFacts, Kind,
    LifecycleAction, LifecycleToken, Moment, Response, WaitPurpose,
};

/// The schema version of the records that Sundown writes.
pub const VERSION: u64 = 1;
/// The most interruptions in a record (a group has at most 50 hooks).
pub const MAX_INTERRUPTIONS: usize = 64;
/// The most hooks in a record. If somebody else wrote more into one, the first ones count.
pub const MAX_HOOKS: usize = 4;
/// The greatest length of a record: all annotations of an object share 256 KiB.
pub const MAX_BYTES: usize = 32 * 1024;
/// Longer event IDs are cut (EventBridge's have 36 characters).
const MAX_EVENT_ID: usize = 128;
/// Longer tokens are dropped (AWS's have 36 characters); the instance ID identifies the action.
const MAX_TOKEN: usize = 64;

/// The record of a Node, as the annotation holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub(super) version: u64,
    #[serde(with = "instance_id")]
    pub(super) instance: InstanceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) boot: Option<String>,
    #[serde(default)]
    pub(super) before: Before,
    /// The tool whose taints and label Sundown wrote beside its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) compat: Option<String>,
    pub(super) interruptions: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) released: Option<Released>,
    /// The instance was in the warm pool of this group when the record replaced an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pool: Option<GroupName>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

/// The state of the Node before its first interruption was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Before {
    /// Somebody else had cordoned the Node.
    #[serde(default)]
    pub unschedulable: bool,
    /// Somebody else had taken the Node out of load balancers.
    #[serde(default)]
    pub excluded: bool,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

/// How and when the drain of a record ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// When the end was written, by AWS's clock, in whole milliseconds.
    pub at: Moment,
    /// The drain's outcome in one word: `empty`, `deadline`, `instance_over` and others.
    #[serde(default)]
    pub outcome: String,
    /// AWS accepted ABANDON for a lifecycle action: the group retains the instance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abandoned: bool,
    /// The Node is to be restored, and `sundown.dev/keep-cordoned` holds that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl Released {
    /// The end of a drain at `at`, with its `outcome` in one word.
    #[must_use]
    pub fn new(at: Moment, outcome: &str) -> Self {
        Self {
            at: whole_millis(at),
            outcome: outcome.to_owned(),
            abandoned: false,
            held: false,
            rest: Map::new(),
        }
    }

    /// `is_abandoned`: AWS accepted ABANDON for a lifecycle action of the drain.
    #[must_use]
    pub fn abandoned(self, is_abandoned: bool) -> Self {
        Self { abandoned: is_abandoned, ..self }
    }
}

/// One interruption in the record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Entry {
    /// An entry with a known shape. Its kind may be one of a newer version.
    Known(Box<KnownEntry>),
    /// An entry of unknown kind and shape. It is kept as it is.
    Unknown(Map<String, Value>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KnownEntry {
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
    /// What Sundown does about it ([`Response::as_str`]); `None`: it drains the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<String>,
    /// It was accepted before AWS showed whether Sundown answers its hook.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unconfirmed: bool,
    /// Its instance does not end: it goes into the warm pool of its group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) warm_pool: bool,
    /// The settings in the NotificationMetadata of its hook, as they are written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<Value>,
    /// Why a request asks for the drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

/// The annotation cannot be read as a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the annotation sundown.dev/record is damaged: {why}. It is left as it is until the next \
     interruption replaces it; `kubectl annotate node NODE sundown.dev/record-` removes it"
)]
pub struct Damage {
    /// The first error in the annotation's text.
    pub why: String,
}

impl Record {
    /// The drain has ended, and `sundown.dev/keep-cordoned` holds the restore of the Node.
    pub(super) fn is_held(&self) -> bool {
        self.released.as_ref().is_some_and(|released| released.held)
    }

    /// The group into whose warm pool the instance went, by this record or by one before it.
    pub(super) fn pool_group(&self) -> Option<&GroupName> {
        let mut into_pool = self.known().filter(|known| known.warm_pool);
        into_pool.find_map(|known| known.group.as_ref()).or(self.pool.as_ref())
    }

    /// It holds only actions that move the instance into a warm pool.
    pub(super) fn is_only_of_a_pool(&self) -> bool {
        !self.has_unknown() && self.known().all(|known| known.warm_pool)
    }

    /// Parses the annotation's text. Errs if it is not JSON of this schema, or has version 0.
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
        // This cannot fail: the maps have string keys, and the text is written to memory.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The instance that the record names. It counts only for the Node of that instance.
    #[must_use]
    pub const fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// The tool whose taints and label Sundown wrote beside its own. `None` also for a tool that
    /// only a newer version knows.
    #[must_use]
    pub fn compat(&self) -> Option<Compat> {
        self.compat.as_deref()?.parse().ok()
    }

    /// When and how the drain ended; `None` while the record is open.
    #[must_use]
    pub const fn released(&self) -> Option<&Released> {
        self.released.as_ref()
    }

    /// The same record, with the response `cordon` instead of a weaker one.
    pub(super) fn at_least_cordoned(mut self) -> Self {
        let known = self.interruptions.iter_mut().filter_map(|entry| match entry {
            Entry::Known(known) => Some(known),
            Entry::Unknown(_) => None,
        });
        for entry in known.filter(|entry| !entry.response().cordons()) {
            entry.response = Some(Response::Cordon.as_str().to_owned());
        }
        self
    }

    /// The strongest response to any of its interruptions: what Sundown does with the node.
    #[must_use]
    pub fn response(&self) -> Response {
        let of_entry = |entry: &Entry| match entry {
            Entry::Known(known) => known.response(),
            Entry::Unknown(_) => Response::Drain,
        };
        self.interruptions.iter().map(of_entry).max().unwrap_or(Response::Drain)
    }

    /// It holds interruptions of a kind and shape that only a newer version knows.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        self.interruptions.iter().any(|entry| matches!(entry, Entry::Unknown(_)))
    }

    /// The interruptions that this version can read, with times by AWS's clock. Their lifecycle
    /// actions are those of `instance`, the Node's own, never of one that only an annotation names.
    #[must_use]
    pub fn interruptions(&self, instance: &InstanceId) -> Vec<InterruptionFacts> {
        self.known().map(|k| k.facts(instance)).collect()
    }

    /// The hooks that the record names, each once, in the order of their accept. At most one more
    /// than [`MAX_HOOKS`].
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

    /// The lifecycle actions that the record names, one for each hook, with the token of the newest
    /// event. The first [`MAX_HOOKS`] hooks count.
    #[must_use]
    pub fn open_actions(&self, instance: &InstanceId) -> Vec<LifecycleAction> {
        let mut newest: std::collections::BTreeMap<HookKey, (Moment, LifecycleAction)> =
            std::collections::BTreeMap::new();
        let mut counted = self.hooks();
        counted.truncate(MAX_HOOKS);
        for facts in self.interruptions(instance) {
            let Some(hook) = facts.hook.filter(|h| counted.contains(&(&h.key.group, &h.key.hook)))
            else {
                continue;
            };
            match newest.get(&hook.key) {
                Some((time, kept))
                    if *time > facts.time || (kept.token.is_some() && hook.token.is_none()) => {}
                _ => drop(newest.insert(hook.key.clone(), (facts.time, hook))),
            }
        }
        newest.into_values().map(|(_, hook)| hook).collect()
    }

    /// The same, for a caller that knows more than the record. AWS keeps only one action of a hook
    /// and an instance open at a time. If the newest one is closed, one for which this process
    /// sends heartbeats takes its place.
    #[must_use]
    pub fn open_actions_now(
        &self,
        instance: &InstanceId,
        is_closed: impl Fn(&LifecycleAction) -> bool,
        is_kept_alive: impl Fn(&LifecycleAction) -> bool,
    ) -> Vec<LifecycleAction> {
        let current_action = |newest: LifecycleAction| {
            if !is_closed(&newest) {
                return newest;
            }
            let others = self
                .interruptions(instance)
                .into_iter()
                .filter_map(|t| Some((t.time, t.hook?)))
                // The task of an action that is over goes on for a while.
                .filter(|(_, hook)| {
                    hook.key == newest.key && is_kept_alive(hook) && !is_closed(hook)
                });
            others.max_by_key(|(time, _)| *time).map_or(newest, |(_, kept)| kept)
        };
        self.open_actions(instance).into_iter().map(current_action).collect()
    }

    /// This hook was accepted while the other hooks of its group were unknown, so it may be another
    /// party's. The caller finds that out before it completes an action.
    #[must_use]
    pub fn is_unconfirmed(&self, hook: &HookKey) -> bool {
        let same = |k: &&KnownEntry| {
            k.group.as_ref() == Some(&hook.group) && k.hook.as_ref() == Some(&hook.hook)
        };
        self.known().filter(same).all(|k| k.unconfirmed) && self.known().any(|k| same(&k))
    }

    /// For what this lifecycle action keeps the instance waiting. `None`: the record does not name
    /// the action, or names two by this name with different purposes.
    #[must_use]
    pub fn wait_purpose(&self, action: &LifecycleAction) -> Option<WaitPurpose> {
        let instance = &action.key.instance;
        let of_it = self.known().filter(|k| k.facts(instance).hook.as_ref() == Some(action));
        let mut purposes =
            of_it.map(|k| Some(WaitPurpose::of(Kind::from_word(&k.kind)?, k.warm_pool)));
        let first = purposes.next()??;
        purposes.all(|other| other == Some(first)).then_some(first)
    }

    /// When the first interruption was accepted, by AWS's clock; `None` without a readable one.
    #[must_use]
    pub fn accepted(&self) -> Option<Moment> {
        self.known().map(|k| k.accepted).min()
    }

    pub(super) fn known(&self) -> impl Iterator<Item = &KnownEntry> {
        self.interruptions.iter().filter_map(|e| match e {
            Entry::Known(k) => Some(&**k),
            Entry::Unknown(_) => None,
        })
    }
}

impl KnownEntry {
    pub(super) fn new(facts: &InterruptionFacts) -> Self {
        let hook = facts.hook.as_ref();
        Self {
            kind: facts.kind.map_or("", Kind::as_str).to_owned(),
            event: facts.event_id.chars().take(MAX_EVENT_ID).collect(),
            time: whole_millis(facts.time),
            accepted: whole_millis(facts.accepted),
            group: hook.map(|h| h.key.group.clone()),
            hook: hook.map(|h| h.key.hook.clone()),
            token: hook.and_then(|h| h.token.clone()).filter(|t| t.as_str().len() <= MAX_TOKEN),
            ends: facts.ends.map(whole_millis),
            state: facts.state.map(|s| s.as_str().to_owned()),
            stale: facts.stale,
            response: Some(facts.response.as_str().to_owned())
                .filter(|_| facts.response != Response::Drain),
            unconfirmed: false,
            warm_pool: false,
            settings: Some(facts.settings.to_object())
                .filter(|settings| !settings.is_empty())
                .map(Value::Object),
            reason: facts.reason.as_deref().map(str::to_owned),
            rest: Map::new(),
        }
    }

    pub(super) fn facts(&self, instance: &InstanceId) -> InterruptionFacts {
        let key = self.group.as_ref().zip(self.hook.as_ref()).map(|(group, hook)| HookKey {
            instance: instance.clone(),
            group: group.clone(),
            hook: hook.clone(),
        });
        InterruptionFacts {
            kind: Kind::from_word(&self.kind),
            event_id: self.event.clone(),
            time: self.time,
            accepted: self.accepted,
            hook: key.map(|key| LifecycleAction { key, token: self.token.clone() }),
            ends: self.ends,
            state: self.state.as_deref().and_then(|s| s.parse().ok()),
            stale: self.stale,
            response: self.response(),
            // What this version cannot read does not count. The flags are checked where a setting
            // is used: a kubelet can write its own Node, and a later leader may have other flags.
            settings: match &self.settings {
                Some(Value::Object(given)) => DrainSettings::of_object(given).0,
                _ => DrainSettings::NONE,
            },
            reason: self.reason.as_deref().map(Into::into),
        }
    }

    /// What Sundown does about it. A response that this version does not know counts as
    /// [`Response::Drain`]: the instance ends in most cases.
    pub(super) fn response(&self) -> Response {
        let known = self.response.as_deref().and_then(Response::from_word);
        // Sundown records nothing that it ignores.
        known.filter(|response| *response != Response::Ignore).unwrap_or(Response::Drain)
    }

    /// Its kind has a lifecycle action, but it names no group or no hook.
    fn lacks_its_hook(&self) -> bool {
        Kind::from_word(&self.kind)
            .is_some_and(|kind| kind.is_terminate_hook() || kind == Kind::LaunchHook)
            && (self.group.is_none() || self.hook.is_none())
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let fields = Map::deserialize(deserializer)?;
        let kind_is_known =
            fields.get("kind").and_then(Value::as_str).and_then(Kind::from_word).is_some();
        match serde_json::from_value::<KnownEntry>(Value::Object(fields.clone())) {
            Ok(known) if known.lacks_its_hook() => {
                Err(D::Error::custom("a hook without `group` or `hook`"))
            }
            Ok(known) => Ok(Self::Known(Box::new(known))),
            Err(e) if kind_is_known => Err(D::Error::custom(e)),
            Err(_) => Ok(Self::Unknown(fields)),
        }
    }
}

/// Cuts the time to milliseconds, which is all that AWS gives, and shorter to read.
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

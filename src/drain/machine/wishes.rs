//! Reports what pods ask for by annotations and labels, and which rules apply to them.

use std::collections::BTreeMap;

use super::Drain;
use crate::{
    domain::{Moment, Pod, PodUid, Wish, WishSource},
    drain::{
        Effect, Note,
        pod::{Disposition, Rules, is_of_drained_daemon_set},
    },
};

impl Drain {
    /// Whether this pod waits because it asks for that.
    pub(in crate::drain) fn asks_to_wait(&self, pod: &Pod, now: Moment) -> bool {
        let rules = self.rules(now);
        let entry = self.pods.get(&pod.uid);
        let until = entry.and_then(|entry| entry.asks_to_wait_until(&rules));
        until.is_some_and(|(_, until)| now < until)
    }

    /// How many pods Sundown leaves alone because they ask for it, or because a rule says so, by
    /// what they ask with. Pods that would stay anyway do not count.
    #[must_use]
    pub fn skipped(&self) -> BTreeMap<WishSource, usize> {
        let mut skipped = BTreeMap::new();
        for entry in self.pods.values().filter(|entry| entry.gone.is_none()) {
            let pod = &entry.pod;
            let is_daemon = pod.owner.as_ref().is_some_and(|owner| owner.is_daemon_set())
                && !is_of_drained_daemon_set(pod, &self.settings);
            let stays_anyway =
                pod.mirror || pod.tolerates_us || pod.phase.is_finished() || is_daemon;
            if let Some((source, Wish::Skip)) = entry.wish(&self.settings)
                && !stays_anyway
            {
                *skipped.entry(source).or_default() += 1;
            }
        }
        skipped
    }

    /// Reports what a pod asks for or its rule says, once, and what has no meaning. A drain that
    /// evicts no pod reports nothing.
    pub(super) fn note_wishes(&mut self, uid: &PodUid, rules: &Rules) {
        if !self.limits.response.evicts() {
            return;
        }
        let Some(entry) = self.pods.get_mut(uid) else { return };
        let pod = &entry.pod;
        let stays_anyway = pod.mirror || pod.tolerates_us || pod.phase.is_finished();
        let is_plain = pod.wishes.is_empty() && rules.settings.rules.count() == 0;
        if entry.wish_reported || is_plain || stays_anyway || entry.own {
            return;
        }
        // The pods of a DaemonSet stay, too.
        let is_daemon = pod.owner.as_ref().is_some_and(|owner| owner.is_daemon_set());
        if is_daemon && entry.disposition != Disposition::Counts {
            return;
        }
        let wish = entry.wish(&rules.settings);
        if pod.wishes.is_empty() && wish.is_none() {
            return;
        }
        entry.wish_reported = true;
        let note = |(key, value): (_, &str)| Note::UnknownWish {
            pod: pod.key.clone(),
            uid: uid.clone(),
            key,
            value: value.to_owned(),
        };
        let unknown = pod.wishes.unknown(&rules.settings.honored).map(note).map(Effect::Note);
        self.effects.extend(unknown);
        if let Some((key, wish)) = wish {
            let until = entry.asks_to_wait_until(rules).map(|(_, until)| until);
            let (pod, uid) = (pod.key.clone(), uid.clone());
            self.effects.push(Effect::Note(Note::Wish { pod, uid, key, wish, until }));
        }
    }
}

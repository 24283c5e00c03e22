//! The wait for the volumes of pods that have left the node (`--wait-for-volumes`).

use std::time::Duration;

use super::{Drain, EvictionHold};
use crate::{
    domain::{AttachedVolumes, Moment, PodUid, VolumesSeen},
    drain::{
        Effect, Note,
        order::latest_start,
        pod::Disposition,
        volumes::{Claims, Ended, VolumeStep},
    },
};

impl Drain {
    /// Lets the drain wait until the volumes of its pods are detached.
    #[must_use]
    pub fn waiting_for_volumes(mut self) -> Self {
        self.volumes.follow();
        self
    }

    /// The drain of another leader, which may have removed pods that this one never sees. It may
    /// also have held the evictions until now: if the later groups of the order could begin
    /// already, they share what is left of the time.
    #[must_use]
    pub fn taken_over(mut self, now: Moment) -> Self {
        let (limits, groups) = (&self.limits, self.settings.groups());
        let from = limits.accepted;
        let next = latest_start(groups, 1, limits, limits.force_at, from, Duration::ZERO);
        if self.hold == EvictionHold::None && next.is_some_and(|at| at <= now) {
            self.hold = EvictionHold::EndedAt(now);
        }
        self.volumes.may_have(Claims::Unknown);
        self
    }

    /// The volumes that the drain waits for; `None`: it does not wait, or has no answer yet.
    #[must_use]
    pub fn attached_volumes(&self) -> Option<&AttachedVolumes> {
        self.volumes.attached()
    }

    /// The pods that stay on the node and use volumes: the drain does not wait for these volumes. A
    /// finished pod is not among them, because Kubernetes detaches its volumes.
    #[must_use]
    pub fn staying_pods_with_claims(&self) -> Vec<PodUid> {
        self.pods
            .values()
            .filter(|e| e.disposition == Disposition::Untouched && e.gone.is_none())
            .filter(|e| e.pod.has_claims && !e.pod.phase.is_finished())
            .map(|e| e.pod.uid.clone())
            .collect()
    }

    /// Notes whether a pod that Sundown removes has claims.
    pub(super) fn note_claims(&mut self, uid: &PodUid) {
        if self.pods.get(uid).is_some_and(|e| e.counts() && e.pod.has_claims) {
            self.volumes.may_have(Claims::Some);
        }
    }

    /// Notes that no pod that counts was there at the first LIST: others have removed them, if there
    /// were any. (cluster-autoscaler drains a node before it terminates the instance.)
    pub(super) fn note_first_list(&mut self) {
        if !self.pods.values().any(|entry| entry.counts()) {
            self.volumes.may_have(Claims::Unknown);
        }
    }

    pub(super) fn volumes_seen(&mut self, now: Moment, seen: VolumesSeen) {
        let ended = self.volumes.seen(now, seen);
        self.note_wait_ended(ended);
    }

    /// Whether the drain of the empty node waits for no volume. Begins and ends the wait.
    pub(super) fn are_volumes_settled(&mut self, now: Moment) -> bool {
        match self.volumes.step(now) {
            VolumeStep::Go => true,
            VolumeStep::Wait => false,
            VolumeStep::Ask => {
                self.volumes.begin(now);
                self.effects.push(Effect::AskVolumes);
                false
            }
            VolumeStep::GiveUp => {
                let ended = self.volumes.give_up(now);
                self.note_wait_ended(ended);
                true
            }
        }
    }

    /// The deadline has come: the volumes are not waited for any longer.
    pub(super) fn give_up_volumes_at_deadline(&mut self, now: Moment) {
        let ended = self.volumes.deadline(now);
        self.note_wait_ended(ended);
    }

    /// The node is not empty, or not certainly.
    pub(super) fn stop_waiting_for_volumes(&mut self) {
        if self.volumes.reset() {
            self.effects.push(Effect::StopAskingVolumes);
        }
    }

    fn note_wait_ended(&mut self, ended: Option<Ended>) {
        let note = ended.map(|(end, took)| Effect::Note(Note::VolumeWaitEnded { end, took }));
        self.effects.extend(note);
    }
}

//! What a drain knows of the volumes of its pods, and how long it waits for them.

use std::time::Duration;

use crate::domain::{AttachedVolumes, Moment, VolumeWaitEnd, VolumesSeen, seconds};

/// How long a drain waits for a usable answer if a pod that it removed has claims.
const UNANSWERED: Duration = seconds(120);
/// The same if it does not know whether a pod of the node had claims, and [`QUESTIONS_UNKNOWN`]
/// questions had no usable answer. Until then, [`UNANSWERED`] holds.
const UNANSWERED_UNKNOWN: Duration = seconds(30);
/// How many questions such a drain waits for. One question is about all nodes, so the first one
/// about a node may be sent late.
const QUESTIONS_UNKNOWN: u32 = 2;
/// A drain that has waited for less may not have asked yet: one question is about all nodes, and
/// the next one follows at least two seconds after an answer.
const ASKED_WITHIN: Duration = seconds(3);

/// Whether pods that left the node had PersistentVolumeClaims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Claims {
    /// It does not matter: the drain waits for no volume (`--wait-for-volumes=never`).
    #[default]
    Ignored,
    /// None of those that this leader saw had one.
    None,
    /// Pods may have left the node before this leader saw them.
    Unknown,
    /// One of them had.
    Some,
}

/// The volumes of one node.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    pub(super) claims: Claims,
    /// `None`: the drain does not wait for them, or no longer. Boxed, because few nodes wait at a
    /// time.
    wait: Option<Box<Wait>>,
    /// The wait was over, and the node has been empty since then.
    is_over: bool,
}

#[derive(Debug)]
struct Wait {
    since: Moment,
    /// The last usable answer; `since` if there was none.
    answered_at: Moment,
    /// The last answer; `None`: there was none.
    attached: Option<AttachedVolumes>,
    /// The last error.
    error: String,
    /// How many questions in a row had no usable answer.
    unanswered: u32,
}

/// What the drain of an empty node does about its volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeStep {
    /// Nothing: there are none to wait for.
    Go,
    /// Begin to wait.
    Ask,
    /// Go on waiting.
    Wait,
    /// Stop waiting, because there has been no usable answer for too long.
    GiveUp,
}

/// A wait that has ended: how, and how long it took.
pub(super) type Ended = (VolumeWaitEnd, Duration);

impl Volumes {
    /// The drain waits for volumes.
    pub(super) fn follow(&mut self) {
        self.claims = self.claims.max(Claims::None);
    }

    /// Pods may have had claims.
    pub(super) fn may_have(&mut self, claims: Claims) {
        if self.claims != Claims::Ignored {
            self.claims = self.claims.max(claims);
        }
    }

    pub(super) const fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// The volumes that the drain waits for; `None`: it does not wait, or has no answer yet.
    pub(super) fn attached(&self) -> Option<&AttachedVolumes> {
        self.wait.as_ref()?.attached.as_ref()
    }

    /// When the wait ends unless an answer comes; `None`: the drain does not wait.
    pub(super) fn gives_up_at(&self) -> Option<Moment> {
        let wait = self.wait.as_ref()?;
        let is_known = self.claims == Claims::Some || wait.attached.is_some();
        let is_short = !is_known && wait.unanswered >= QUESTIONS_UNKNOWN;
        Some(wait.answered_at.plus(if is_short { UNANSWERED_UNKNOWN } else { UNANSWERED }))
    }

    /// What to do now that no pod is left.
    pub(super) fn step(&self, now: Moment) -> VolumeStep {
        match self.gives_up_at() {
            _ if self.is_over || self.claims <= Claims::None => VolumeStep::Go,
            None => VolumeStep::Ask,
            Some(at) if at <= now => VolumeStep::GiveUp,
            Some(_) => VolumeStep::Wait,
        }
    }

    pub(super) fn begin(&mut self, now: Moment) {
        self.wait = Some(Box::new(Wait {
            since: now,
            answered_at: now,
            attached: None,
            error: "no answer yet".to_owned(),
            unanswered: 0,
        }));
    }

    /// A pod is on the node again: what was seen so far no longer counts. Returns whether the drain
    /// was waiting.
    pub(super) fn reset(&mut self) -> bool {
        self.is_over = false;
        self.wait.take().is_some()
    }

    /// Applies an answer. Returns how the wait has ended, if it has and people should know.
    pub(super) fn seen(&mut self, now: Moment, seen: VolumesSeen) -> Option<Ended> {
        let wait = self.wait.as_mut()?;
        match seen {
            VolumesSeen::Attached(attached) if attached.count == 0 => {
                let was_attached = wait.attached.is_some();
                self.end(now, VolumeWaitEnd::Detached).filter(|_| was_attached)
            }
            VolumesSeen::Attached(attached) => {
                wait.answered_at = now;
                wait.attached = Some(attached);
                wait.unanswered = 0;
                None
            }
            VolumesSeen::Denied(error) => self.end(now, VolumeWaitEnd::Denied(error)),
            VolumesSeen::Unanswered(error) => {
                wait.error = error;
                wait.unanswered = wait.unanswered.saturating_add(1);
                None
            }
        }
    }

    /// There is nothing to wait for after all.
    pub(super) fn skip(&mut self) {
        self.wait = None;
        self.is_over = true;
    }

    /// There was no usable answer for too long.
    pub(super) fn give_up(&mut self, now: Moment) -> Option<Ended> {
        let error = self.wait.as_ref()?.error.clone();
        self.end(now, VolumeWaitEnd::Unanswered(error))
    }

    /// The deadline of the drain is reached.
    pub(super) fn deadline(&mut self, now: Moment) -> Option<Ended> {
        let wait = self.wait.as_ref()?;
        let end = match &wait.attached {
            Some(attached) => VolumeWaitEnd::Deadline(attached.clone()),
            // The API server may not have been asked yet.
            None if wait.unanswered == 0 && now < wait.since.plus(ASKED_WITHIN) => return None,
            None => VolumeWaitEnd::Unanswered(wait.error.clone()),
        };
        self.end(now, end)
    }

    fn end(&mut self, now: Moment, end: VolumeWaitEnd) -> Option<Ended> {
        let wait = self.wait.take()?;
        self.is_over = true;
        Some((end, now.since_or_zero(wait.since)))
    }
}

//! The lifecycle actions that are over.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    domain::{HookKey, LifecycleAction, Moment, WaitPurpose, seconds},
    triage::sweep::WaitState,
};

/// Actions that are over. A late copy of their event starts nothing, even if the Node whose record
/// named them is gone.
#[derive(Debug, Default)]
pub(super) struct EndedActions {
    known: BTreeMap<LifecycleAction, EndSeen>,
    order: VecDeque<LifecycleAction>,
    /// The last action of a hook and an instance that was over, with or without a token.
    last: BTreeMap<HookKey, LastEnded>,
}

#[derive(Debug, Clone, Copy)]
struct LastEnded {
    /// When it was known to be over.
    at: Moment,
    /// If it was known without its token: the time of its event, or when the sweep first saw it.
    event: Option<Moment>,
    /// AWS accepted our completion.
    is_completed: bool,
    /// For what our completed action kept the instance waiting; `None`: not known.
    purpose: Option<WaitPurpose>,
    /// A round of the sweep that began after `at`, in any term of this process, did not show the
    /// instance waiting.
    is_wait_over: bool,
}

/// What AWS has shown of an action that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndSeen {
    /// It accepted our completion.
    Completed,
    /// It accepted a heartbeat, and answered later that the action is not open.
    WasOpen {
        /// When the last accepted heartbeat was sent.
        last_accepted: Moment,
    },
    /// It only answered that no such action is open. An action may open later, or the answer was
    /// wrong.
    NeverOpen,
}

/// By how much the time of an event, on our clock, may be later than the first sight of its action.
const CLOCKS_DIFFER: std::time::Duration = seconds(5);

/// How long after the end of our action a wait may count as the same one: the rounds of the sweep
/// are ten minutes apart at most. After that, the sweep may send a heartbeat for a completed action,
/// which AWS refuses.
const SAME_WAIT: std::time::Duration = seconds(900);

impl EndedActions {
    /// How many actions are remembered at most.
    const MOST: usize = 10_000;

    /// Whether the action is remembered. Always `false` without a token, because then the action
    /// cannot be distinguished from a later one of the same hook and instance.
    pub(super) fn contains(&self, action: &LifecycleAction) -> bool {
        action.token.is_some() && self.known.contains_key(action)
    }

    /// What AWS has shown of exactly this action. `None`: it is not remembered. Always `None`
    /// without a token.
    pub(super) fn seen(&self, action: &LifecycleAction) -> Option<EndSeen> {
        self.known.get(action).copied()
    }

    /// Whether the instance waits in another party's hook: Sundown completed its own action within
    /// the last 15 minutes, and no round of the sweep has shown since that the instance does not
    /// wait. If it waits for something else than our completed action did, that is another wait.
    /// `state`: in which the sweep saw it. `absent_at`: when the last such round of this term began,
    /// or when Auto Scaling last showed the instance in service outside of the rounds; `None`: all
    /// that the sweep has seen in this term is the wait. Rounds of earlier terms count, too
    /// ([`Self::note_round`]).
    pub(super) fn is_wait_of_other_hook(
        &self,
        key: &HookKey,
        state: WaitState,
        absent_at: Option<Moment>,
        now: Moment,
    ) -> bool {
        self.last.get(key).is_some_and(|last| {
            last.is_completed
                && !last.is_wait_over
                && last.purpose.is_none_or(|purpose| purpose == state.wait_purpose())
                && absent_at.is_none_or(|absent| absent <= last.at)
                && now <= last.at.plus(SAME_WAIT)
        })
    }

    /// AWS has answered a round of the sweep that began at `began`. `may_wait`: whether the instance
    /// may have waited then.
    pub(super) fn note_round(&mut self, began: Moment, may_wait: impl Fn(&HookKey) -> bool) {
        for (key, last) in &mut self.last {
            last.is_wait_over |= began > last.at && !may_wait(key);
        }
    }

    /// AWS has accepted our completion of an action that kept its instance waiting for this.
    pub(super) fn note_purpose(&mut self, key: &HookKey, purpose: WaitPurpose) {
        if let Some(last) = self.last.get_mut(key).filter(|last| last.is_completed) {
            last.purpose = Some(purpose);
        }
    }

    /// Whether this event is about an action that ended before its token was known. AWS keeps one
    /// action of a hook and an instance open at a time. So an event that is not later than the first
    /// sight of that action is about it, or about an earlier one.
    pub(super) fn is_event_of_ended(&self, action: &LifecycleAction, event: Moment) -> bool {
        let seen = self.last.get(&action.key).and_then(|last| last.event);
        action.token.is_some() && seen.is_some_and(|seen| event <= seen.plus(CLOCKS_DIFFER))
    }

    fn note_last(&mut self, action: &LifecycleAction, event: Moment, now: Moment, seen: EndSeen) {
        if seen == EndSeen::NeverOpen {
            return;
        }
        if self.last.len() >= Self::MOST {
            self.last.retain(|_, last| last.at.plus(SAME_WAIT) > now);
        }
        if self.last.len() < Self::MOST || self.last.contains_key(&action.key) {
            let event = action.token.is_none().then_some(event);
            // AWS keeps one action of a hook and an instance open at a time: one that was open before
            // our completion and is over after it is the completed one, under another name.
            let is_same = |last: &&LastEnded| {
                last.is_completed
                    && matches!(seen, EndSeen::WasOpen { last_accepted } if last_accepted <= last.at)
            };
            let last = match self.last.get(&action.key).filter(is_same) {
                Some(last) => LastEnded { event: event.or(last.event), ..*last },
                None => LastEnded {
                    at: now,
                    event,
                    is_completed: seen == EndSeen::Completed,
                    purpose: None,
                    is_wait_over: false,
                },
            };
            self.last.insert(action.key.clone(), last);
        }
    }

    /// `event`: the time of its event, or when the sweep first saw it.
    pub(super) fn insert(
        &mut self,
        action: &LifecycleAction,
        event: Moment,
        now: Moment,
        seen: EndSeen,
    ) {
        self.note_last(action, event, now, seen);
        if action.token.is_some() && self.known.insert(action.clone(), seen).is_none() {
            self.order.push_back(action.clone());
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::hooks::tests::named;

    #[test]
    fn a_wait_that_our_completion_did_not_end_is_that_of_another_hook() {
        let at = |second| Moment::UNIX_EPOCH.plus(seconds(second));
        for token in [None, Some("token")] {
            let HookKey { instance, group, .. } = named(None).key;
            let other = HookKey { hook: "a-hook".into(), instance, group };
            for (seen, absent_at, now, is_covered) in [
                (EndSeen::Completed, None, 0, true),
                (EndSeen::Completed, None, 100, true),
                (EndSeen::Completed, None, 1_000, true),
                (EndSeen::Completed, None, 1_001, false),
                (EndSeen::Completed, Some(90), 150, true),
                // A round did not show it after the end: it is another wait.
                (EndSeen::Completed, Some(101), 160, false),
                (EndSeen::WasOpen { last_accepted: at(0) }, None, 100, false),
                // Nothing was open when AWS was asked. Its action may have opened since.
                (EndSeen::NeverOpen, None, 100, false),
            ] {
                let mut ended = EndedActions::default();
                ended.insert(&named(token), at(40), at(100), seen);
                let (state, absent_at) = (WaitState::Terminating, absent_at.map(at));
                let covers =
                    |key: &HookKey| ended.is_wait_of_other_hook(key, state, absent_at, at(now));
                assert_eq!(covers(&named(None).key), is_covered, "{seen:?} {now}");
                assert!(!covers(&other));
            }
        }
    }

    #[test]
    fn a_wait_that_a_round_of_an_earlier_term_has_not_shown_is_another_one() {
        let at = |second| Moment::UNIX_EPOCH.plus(seconds(second));
        for (began, may_wait, is_covered) in [
            // It began before the end, so it may have shown the state before.
            (100, false, true),
            (101, true, true),
            (101, false, false),
        ] {
            let mut ended = EndedActions::default();
            ended.insert(&named(None), at(40), at(100), EndSeen::Completed);
            ended.note_round(at(began), |_| may_wait);
            // The first round of the next term.
            let covers = |ended: &EndedActions| {
                ended.is_wait_of_other_hook(&named(None).key, WaitState::Terminating, None, at(150))
            };
            assert_eq!(covers(&ended), is_covered, "{began} {may_wait}");
            ended.insert(&named(None), at(120), at(140), EndSeen::Completed);
            assert!(covers(&ended), "that wait was completed, too");
        }
    }

    #[test]
    fn an_action_that_was_open_before_our_completion_and_is_over_after_it_is_the_completed_one() {
        let at = |second| Moment::UNIX_EPOCH.plus(seconds(second));
        for (last_accepted, is_covered) in [(80, true), (100, true), (101, false)] {
            let mut ended = EndedActions::default();
            ended.insert(&named(Some("token")), at(40), at(100), EndSeen::Completed);
            let seen = EndSeen::WasOpen { last_accepted: at(last_accepted) };
            ended.insert(&named(Some("other")), at(30), at(110), seen);
            let (key, state) = (named(None).key, WaitState::Terminating);
            let covers = ended.is_wait_of_other_hook(&key, state, Some(at(90)), at(120));
            assert_eq!(covers, is_covered, "{last_accepted}");
        }
    }

    #[test]
    fn a_wait_for_something_else_than_our_completed_action_is_another_wait() {
        use WaitPurpose::{IntoWarmPool, LaunchOrEnd, NewRootVolume};
        let at = |second| Moment::UNIX_EPOCH.plus(seconds(second));
        for (purpose, state, is_covered) in [
            (None, WaitState::Terminating, true),
            (Some(LaunchOrEnd), WaitState::Terminating, true),
            (Some(IntoWarmPool), WaitState::Terminating, false),
            (Some(NewRootVolume), WaitState::Terminating, false),
            (Some(IntoWarmPool), WaitState::WarmedPending, true),
            (Some(IntoWarmPool), WaitState::WarmedTerminating, false),
            (Some(LaunchOrEnd), WaitState::WarmedPending, false),
            (Some(NewRootVolume), WaitState::ReplacingRootVolume, true),
        ] {
            // The first round of a leader, and a round before which another one was answered.
            for absent_at in [None, Some(at(90))] {
                let mut ended = EndedActions::default();
                ended.insert(&named(None), at(40), at(100), EndSeen::Completed);
                if let Some(purpose) = purpose {
                    ended.note_purpose(&named(None).key, purpose);
                }
                let covers =
                    ended.is_wait_of_other_hook(&named(None).key, state, absent_at, at(150));
                assert_eq!(covers, is_covered, "{purpose:?} {state:?}");
            }
        }
    }

    #[test]
    fn a_probe_that_was_only_refused_says_nothing_about_the_event() {
        let at = |second| Moment::UNIX_EPOCH.plus(seconds(second));
        let (found, event) = (named(None), named(Some("token")));
        for (seen, is_over) in [
            (EndSeen::Completed, true),
            (EndSeen::WasOpen { last_accepted: at(0) }, true),
            (EndSeen::NeverOpen, false),
        ] {
            let mut ended = EndedActions::default();
            ended.insert(&found, at(40), at(100), seen);
            assert_eq!(ended.is_event_of_ended(&event, at(20)), is_over, "{seen:?}");
        }
        let mut ended = EndedActions::default();
        ended.insert(&found, at(40), at(100), EndSeen::Completed);
        ended.insert(&found, at(150), at(200), EndSeen::NeverOpen);
        assert!(
            ended.is_wait_of_other_hook(&found.key, WaitState::Terminating, None, at(210)),
            "the completion still counts"
        );
    }

    #[test]
    fn the_late_event_of_an_action_that_ended_without_a_token_is_over() {
        let at = |second| Moment::UNIX_EPOCH.plus(seconds(second));
        let (found, event) = (named(None), named(Some("token")));
        let mut ended = EndedActions::default();
        ended.insert(&found, at(40), at(100), EndSeen::Completed);
        for (name, time, is_over) in
            [(&event, 20, true), (&event, 45, true), (&event, 46, false), (&found, 20, false)]
        {
            assert_eq!(ended.is_event_of_ended(name, at(time)), is_over, "{time}");
        }
        ended.insert(&event, at(20), at(101), EndSeen::Completed);
        assert!(!ended.is_event_of_ended(&named(Some("other")), at(20)), "tokens distinguish them");
        assert_eq!((ended.seen(&event), ended.seen(&found)), (Some(EndSeen::Completed), None));
    }
}

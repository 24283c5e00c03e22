//! Where an interruption comes from.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{BurstHold, Decision};
use crate::{
    controller::context::Term,
    domain::{Cause, Interruption, Moment},
    observe::MessageOutcome,
    triage::{Knowledge, sweep::Candidate},
};

/// Where an interruption comes from. Only a message can come again, and only its decision holds
/// the evictions of a burst back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A message in a queue.
    Message,
    /// A test event: Sundown reports what it would do, and does nothing.
    TestEvent,
    /// The sweep, which found an instance that waits in a lifecycle hook.
    Sweep,
    /// The search for instances that EC2 shuts down.
    ShutdownSearch,
    /// The search for scheduled events in EC2.
    ScheduledEvents,
    /// The search for sick instances.
    ImpairedSweep,
}

impl Source {
    pub(super) const fn is_test(self) -> bool {
        matches!(self, Self::TestEvent)
    }
}

impl Decision {
    /// For an interruption in a message.
    pub(in crate::controller) fn new(
        term: Arc<Term>,
        interruption: Interruption,
        received: Moment,
        happened: Moment,
        sent: Option<Moment>,
        given_up: CancellationToken,
        is_test: bool,
    ) -> Self {
        let source = if is_test { Source::TestEvent } else { Source::Message };
        let burst_hold = (!is_test).then(|| BurstHold::new(&term));
        let known = Knowledge::new(received, happened);
        Self { sent, burst_hold, ..Self::of(term, interruption, known, source, given_up) }
    }

    /// For an interruption that the sweep found. `give_up`: cancels it unless AWS has proved it.
    pub(in crate::controller) fn found_by_sweep(
        term: Arc<Term>,
        interruption: Interruption,
        candidate: &Candidate,
        give_up: CancellationToken,
    ) -> Self {
        let known = Knowledge::new(term.shared.clock.now(), candidate.first_seen);
        let mut known = Knowledge { is_found_by_sweep: true, ..known };
        if matches!(interruption.cause, Cause::Launch(_)) {
            known.launch_answers().absent_at = candidate.absent_at;
        }
        Self::of(term, interruption, known, Source::Sweep, give_up)
    }

    /// For a state change that EC2 showed at `at`, and of which no event has arrived.
    pub(in crate::controller) fn found_ending(
        term: Arc<Term>,
        interruption: Interruption,
        at: Moment,
    ) -> Self {
        let known = Knowledge { is_found_by_sweep: true, ..Knowledge::new(at, at) };
        Self::of(term, interruption, known, Source::ShutdownSearch, CancellationToken::new())
    }

    /// For a scheduled event that EC2 shows.
    pub(in crate::controller) fn shown_by_ec2(term: Arc<Term>, interruption: Interruption) -> Self {
        let now = term.shared.clock.now();
        let known = Knowledge::new(now, now);
        Self::of(term, interruption, known, Source::ScheduledEvents, CancellationToken::new())
    }

    /// For a sick instance.
    pub(in crate::controller) fn of_sick_instance(
        term: Arc<Term>,
        interruption: Interruption,
    ) -> Self {
        let now = term.shared.clock.now();
        let known = Knowledge::new(now, now);
        Self::of(term, interruption, known, Source::ImpairedSweep, CancellationToken::new())
    }

    fn of(
        term: Arc<Term>,
        interruption: Interruption,
        known: Knowledge,
        source: Source,
        given_up: CancellationToken,
    ) -> Self {
        Self {
            term,
            interruption,
            known,
            sent: None,
            burst_hold: None,
            kept_alive: None,
            given_up,
            source,
            is_unanswered: false,
            is_accepted: false,
        }
    }

    /// Counts how the interruption was decided.
    pub(super) fn count(&self, outcome: MessageOutcome) {
        let metrics = &self.term.shared.metrics;
        match self.source {
            Source::Message | Source::TestEvent => {
                metrics.message(Some(self.interruption.kind()), outcome);
            }
            Source::Sweep | Source::ShutdownSearch => metrics.sweep_decided(outcome),
            Source::ScheduledEvents => metrics.scheduled_event(outcome),
            // The search counts what follows.
            Source::ImpairedSweep => {}
        }
    }
}

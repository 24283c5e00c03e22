//! A term of leadership: the tasks that run in it, and its end.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tracing::info;

use super::{
    context::Term,
    counting::Counting,
    end_sweep, fleet, gone_sweep,
    hooks::LifecycleActions,
    impaired_sweep,
    intake::{self, Intake, IntakeEvent, IntakeHandle},
    intake_slot::IntakeSlot,
    message_reader, pod_rules, requests, return_sweep, scheduled_events,
    service::{Parts, STUCK},
    shared::Shared,
    sweep,
};
use crate::{
    cluster::lease::{LeaseKeeper, LeaseState},
    domain::Moment,
    observe::Loops,
    runtime::Observer,
};

/// The current term of leadership and its intake.
pub(super) struct ActiveTerm {
    pub(super) term: Term,
    intake_slot: IntakeSlot,
}

impl ActiveTerm {
    /// Begins a term. `since`: when it began, as the Lease's state has it. `kept`: the actions that
    /// this process has kept alive since its last term.
    pub(super) fn begin(
        since: Moment,
        shared: &Arc<Shared>,
        parts: &Parts,
        keeper: &LeaseKeeper,
        intake_slot: &IntakeSlot,
        kept: Option<LifecycleActions>,
    ) -> Self {
        info!("This process leads.");
        let (term, inputs) = Term::begin(since, Arc::clone(shared), kept);
        let fleet_loop = parts.loops.register("fleet", STUCK);
        if shared.config.dry_run {
            term.spawn(requests::report_in_dry_run(term.clone()));
        }
        if !shared.config.dry_run {
            // A watch can lose its connection without an error while a process stands by. So both
            // are opened again.
            shared.nodes.restart_watch();
            shared.budgets.restart_watch();
            shared.records_ready.set(Err("the unschedulable nodes are not listed yet".to_owned()));
            // Before the first node: a pause that began before this term applies from the start.
            let mut lease = keeper.state();
            let is_paused = lease.borrow_and_update().is_paused;
            term.send(crate::fleet::Input::PausedAll(is_paused));
            pod_rules::begin(&term);
            term.spawn(fleet::run(term.clone(), inputs, fleet_loop));
            term.spawn(follow_pause(term.clone(), lease, is_paused));
            let (in_service, seen_in_service) = mpsc::unbounded_channel();
            term.spawn(sweep::run(Arc::new(term.clone()), seen_in_service));
            term.spawn(return_sweep::run(Arc::new(term.clone()), in_service));
            term.spawn(end_sweep::run(Arc::new(term.clone())));
            term.spawn(gone_sweep::run(Arc::new(term.clone())));
            term.spawn(scheduled_events::run(Arc::new(term.clone())));
            term.spawn(impaired_sweep::run(Arc::new(term.clone())));
        }
        let counting: Arc<dyn Observer<IntakeEvent>> =
            Arc::new(Counting(Arc::clone(&parts.metrics)));
        term.spawn(receive(term.clone(), intake_slot.clone(), parts.loops.clone(), counting));
        Self { term, intake_slot: intake_slot.clone() }
    }

    /// Ends the term because the process stops: no more messages are received, and no write begins.
    /// Returns the intake, which has messages to give back, and the actions, whose heartbeats go on
    /// while the last writes are under way. They do no harm if another process leads by then.
    pub(super) fn end(self) -> (Option<IntakeHandle>, LifecycleActions) {
        self.term.shared.metrics.reset_leader_gauges();
        let (handle, actions) = self.intake_slot.end_term(|| self.term.keep_heartbeats_only());
        self.term.shared.records_ready.set(Ok(()));
        (handle, actions)
    }

    /// Ends the term because leadership is lost: all its tasks end at once. Returns the intake, to
    /// give undecided messages back while this process stands by, so that the next leader need not
    /// wait for them to reappear. Writing to the queue is safe then: only the process that received
    /// a message has the receipt to give it back. If no other process may lead, also returns the
    /// actions, whose heartbeats go on.
    pub(super) fn lost(
        self,
        may_another_lead: bool,
    ) -> (Option<IntakeHandle>, Option<LifecycleActions>) {
        self.term.shared.metrics.reset_leader_gauges();
        let (handle, kept) = self.intake_slot.end_term(|| {
            let kept = (!may_another_lead).then(|| self.term.keep_heartbeats_only());
            if kept.is_none() {
                self.term.finish();
            }
            kept
        });
        self.term.shared.records_ready.set(Ok(()));
        self.term.shared.board.clear();
        (handle, kept)
    }
}

async fn follow_pause(term: Term, mut lease: watch::Receiver<LeaseState>, mut is_paused: bool) {
    while let Ok(state) = lease.wait_for(|state| state.is_paused != is_paused).await {
        is_paused = state.is_paused;
        drop(state);
        term.send(crate::fleet::Input::PausedAll(is_paused));
    }
}

/// Starts the intake of a term and reads the messages that it receives.
async fn receive(
    term: Term,
    intake_slot: IntakeSlot,
    loops: Loops,
    observer: Arc<dyn Observer<IntakeEvent>>,
) {
    let shared = Arc::clone(&term.shared);
    // Nothing can be decided before the nodes are known. Until then messages are safe in their
    // queue.
    shared.nodes.synced().await;
    if term.has_ended() {
        return;
    }
    let queue = &shared.config.queue;
    let settings = intake::Settings {
        pollers: queue.max_pollers,
        max_held: queue.max_held,
        writes: match (shared.config.dry_run, term.is_trial()) {
            (_, true) => intake::Writes::Deletes,
            (true, false) => intake::Writes::Nothing,
            (false, false) => intake::Writes::All,
        },
        ..intake::Settings::default()
    };
    let queues = queue.urls.iter().map(|q| shared.aws.queue(&q.url)).collect();
    let (deliveries, handle) =
        Intake::start(queues, &settings, &shared.random, &shared.spawner, &observer, &|| {
            loops.register("poller", STUCK)
        });
    // The end of the term empties the slot, and it may come at this moment.
    let unwanted = intake_slot.with(|place| {
        if term.has_ended() {
            return Some(handle);
        }
        *place = Some(handle);
        None
    });
    if let Some(handle) = unwanted {
        handle.stop_receiving();
        drop(shared.spawner.spawn(handle.stop()));
        return;
    }
    // Registered only now: a process that waits for the API server must not look stuck.
    let reader_loop = loops.register("message_reader", STUCK);
    message_reader::read(term, deliveries, reader_loop).await;
}

//! Everything that the embedded AWS knows, behind one lock, and its timers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use jiff::SignedDuration;
use tokio::sync::{Notify, mpsc};

use super::{
    Settings,
    autoscaling::{Actions, Group, LifecycleState},
    ec2::{CheckChange, PlannedEvent, Status},
    events::Rule,
    faults::Faults,
    instance::{Boot, Instance, InstanceBoot, InstanceChange, State as InstanceState},
    journal::{Journal, SentMessage, ServiceChange},
    sqs::{Message, Queue},
};
use crate::{domain::Moment, runtime::Clock, sim::Tripwire};

/// What happens by itself at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Timer {
    /// An instance comes into a state, if it is still in the one named first.
    Move { instance: String, from: InstanceState, to: InstanceState },
    /// AWS takes back an instance's capacity (spot, or the end of a capacity block).
    Reclaim { instance: String, to: InstanceState },
    /// Tags of a terminated instance go.
    ForgetTags { instance: String },
    /// A terminated instance is no longer listed.
    Forget { instance: String },
    /// The terminate hooks of an instance begin.
    BeginHooks { instance: String },
    /// An instance leaves a lifecycle state, if it is still in it.
    Step { instance: String, from: LifecycleState },
    /// A group replaces an instance that was set unhealthy.
    Unhealthy { instance: String },
    /// A group notices that an instance ended which it did not terminate itself.
    Notice { instance: String },
    /// A lifecycle action may have run out of time.
    Action { index: usize },
    /// A group launches the instances that it lacks.
    Replace { group: String },
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    pub(super) skew: SignedDuration,
    pub(super) random: fastrand::Rng,
    pub(super) queues: BTreeMap<String, Queue>,
    /// When a queue of this name was last deleted.
    pub(super) deleted_queues: BTreeMap<String, Moment>,
    pub(super) rules: Vec<Rule>,
    /// Until then, EventBridge loses every event.
    pub(super) events_lost_until: Option<Moment>,
    pub(super) instances: BTreeMap<String, Instance>,
    /// Status checks that fail and scheduled events, by instance id.
    pub(super) statuses: BTreeMap<String, Status>,
    /// What EC2 has scheduled for instances, and when.
    pub(super) scheduled: Vec<(Moment, String, PlannedEvent)>,
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) actions: Actions,
    pub(super) faults: Faults,
    /// Clients whose access keys begin like this get no answers.
    pub(super) cut_off: BTreeSet<String>,
    pub(super) tripwire: Tripwire,
    pub(super) journal: Journal,
    /// Instances that went out of service without an end, and came back.
    pub(super) service_changes: Vec<ServiceChange>,
    pub(super) check_changes: Vec<CheckChange>,
    pub(super) subscribers: Vec<mpsc::UnboundedSender<InstanceChange>>,
    pub(super) boot_subscribers: Vec<mpsc::UnboundedSender<InstanceBoot>>,
    /// How many addresses were given out.
    pub(super) addresses: u32,
    timers: BTreeMap<(Moment, u64), Timer>,
    timers_set: u64,
    /// When the driver will look next.
    armed: Option<Moment>,
}

impl State {
    fn new(clock: Clock, settings: Settings) -> Self {
        let seed = settings.seed;
        Self {
            clock,
            skew: SignedDuration::ZERO,
            random: fastrand::Rng::with_seed(seed),
            queues: BTreeMap::new(),
            deleted_queues: BTreeMap::new(),
            rules: Vec::new(),
            events_lost_until: None,
            instances: BTreeMap::new(),
            statuses: BTreeMap::new(),
            scheduled: Vec::new(),
            groups: BTreeMap::new(),
            actions: Actions::default(),
            // Faults draw from numbers of their own, so that a fault more or less does not change
            // every id.
            faults: Faults::new(seed ^ 0x5eed_fa17),
            cut_off: BTreeSet::new(),
            tripwire: Tripwire::default(),
            journal: Journal::new(settings.keep),
            service_changes: Vec::new(),
            check_changes: Vec::new(),
            subscribers: Vec::new(),
            boot_subscribers: Vec::new(),
            addresses: 0,
            timers: BTreeMap::new(),
            timers_set: 0,
            armed: None,
            settings,
        }
    }

    pub(super) fn is_cut_off(&self, by: &str) -> bool {
        self.cut_off.iter().any(|client| by.starts_with(client.as_str()))
    }

    /// What AWS's clocks show when ours shows `moment`.
    pub(super) fn aws_time(&self, moment: Moment) -> Moment {
        moment + self.skew
    }

    pub(super) fn after(&mut self, now: Moment, delay: Duration, timer: Timer) {
        self.at(now.plus(delay), timer);
    }

    pub(super) fn at(&mut self, at: Moment, timer: Timer) {
        self.timers_set += 1;
        self.timers.insert((at, self.timers_set), timer);
    }

    /// Lets happen everything that is due.
    fn settle(&mut self, now: Moment) {
        while let Some(entry) = self.timers.first_entry()
            && entry.key().0 <= now
        {
            let ((at, _), timer) = entry.remove_entry();
            self.fire(at, timer);
        }
        for queue in self.queues.values_mut() {
            queue.settle(now);
        }
    }

    fn next_due(&self) -> Option<Moment> {
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        self.queues.values().filter_map(Queue::next_due).chain(timer).min()
    }

    fn fire(&mut self, now: Moment, timer: Timer) {
        match timer {
            Timer::Move { instance, from, to } => {
                if self.instances.get(&instance).is_some_and(|i| i.state == from) {
                    self.move_instance(now, &instance, to);
                }
            }
            Timer::Reclaim { instance, to } => self.end_instance(now, &instance, to),
            Timer::ForgetTags { instance } => {
                if let Some(instance) = self.instances.get_mut(&instance) {
                    instance.tags.clear();
                }
            }
            Timer::Forget { instance } => self.forget(now, instance),
            Timer::BeginHooks { instance } => self.begin_terminate_hooks(now, &instance),
            Timer::Step { instance, from } => self.step(now, &instance, from),
            Timer::Unhealthy { instance } => self.replace_unhealthy(now, &instance),
            Timer::Notice { instance } => self.notice_end(now, &instance),
            Timer::Action { index } => self.check_action(now, index),
            Timer::Replace { group } => self.replace(now, &group),
        }
    }

    /// Puts a message on a queue; its id, or nothing when there is no such queue.
    pub(super) fn put(&mut self, now: Moment, queue: &str, body: &str) -> Option<String> {
        let sent = self.aws_time(now);
        let delay = self.queues.get(queue)?.settings.delay;
        let id = uuid(&mut self.random);
        self.put_message(now, queue, Message::new(id.clone(), body, sent), delay);
        Some(id)
    }

    /// Puts a message on a queue that is there, hidden for `delay`.
    pub(super) fn put_message(
        &mut self,
        now: Moment,
        queue: &str,
        message: Message,
        delay: Duration,
    ) {
        let Some(found) = self.queues.get_mut(queue) else { return };
        self.journal.sent(|| SentMessage {
            message_id: message.id.clone(),
            queue: queue.to_owned(),
            body: message.body.clone(),
            at: now,
            sent: message.sent,
            deliveries: Vec::new(),
            deleted: None,
            deletion_lost: None,
        });
        found.put(now, message, delay);
    }

    pub(super) fn report_boot(&mut self, now: Moment, instance: &str, boot: Boot) {
        let boot = InstanceBoot { id: instance.to_owned(), boot, at: now };
        self.boot_subscribers.retain(|subscriber| subscriber.send(boot.clone()).is_ok());
    }

    pub(super) fn uuid(&mut self) -> String {
        uuid(&mut self.random)
    }
}

/// A random UUID of version 4.
pub(super) fn uuid(random: &mut fastrand::Rng) -> String {
    let bits = random.u128(..) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    rearm: Arc<Notify>,
}

impl Shared {
    pub(super) fn new(clock: Clock, settings: Settings) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::new(clock, settings)), rearm: Arc::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the state, or changes it, after everything that is due has happened.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State, Moment) -> T) -> T {
        let mut state = self.lock();
        let now = state.clock.now();
        state.settle(now);
        let result = work(&mut state, now);
        if state.next_due().is_some_and(|due| state.armed.is_none_or(|armed| due < armed)) {
            self.rearm.notify_one();
        }
        result
    }

    /// Lets happen what is due, whenever it is, until the last handle is gone.
    pub(super) async fn drive(shared: Weak<Self>, rearm: Arc<Notify>) {
        loop {
            let Some(strong) = shared.upgrade() else { return };
            let (clock, due) = strong.with(|state, _| {
                state.armed = state.next_due();
                (state.clock, state.armed)
            });
            drop(strong);
            let sleep = async {
                match due {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = rearm.notified() => {}
                () = sleep => {}
            }
        }
    }

    pub(super) fn rearm(&self) -> Arc<Notify> {
        self.rearm.clone()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The driver waits for nothing else once the last handle is gone.
        self.rearm.notify_one();
    }
}

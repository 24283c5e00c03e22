//! The intake against a small fake queue, in virtual time.

mod receiving;
mod stopping;
mod trouble;
mod writing;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    aws::fake::{FakeQueue, QUEUE_URL, Reply},
    domain::seconds,
};

/// A running intake, its queue, and the events that it reports.
struct TestIntake {
    fake: FakeQueue,
    deliveries: mpsc::Receiver<Delivery>,
    handle: IntakeHandle,
    events: Events,
}

#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<IntakeEvent>>>);

impl Observer<IntakeEvent> for Events {
    fn observe(&self, event: IntakeEvent) {
        self.0.lock().unwrap().push(event);
    }
}

impl Events {
    fn all(&self) -> Vec<IntakeEvent> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, event: IntakeEvent) -> usize {
        self.all().into_iter().filter(|e| *e == event).count()
    }

    fn sum(&self, of: impl Fn(IntakeEvent) -> Option<usize>) -> usize {
        self.all().into_iter().filter_map(of).sum()
    }

    /// The number of receives at once that the intake wanted last.
    fn pollers(&self) -> usize {
        self.all()
            .into_iter()
            .rev()
            .find_map(|e| if let IntakeEvent::Pollers(n) = e { Some(n) } else { None })
            .unwrap_or(1)
    }
}

fn start_with(fake: &FakeQueue, settings: &Settings, seed: u64) -> TestIntake {
    let events = Events::default();
    let observer: Arc<dyn Observer<IntakeEvent>> = Arc::new(events.clone());
    let queue = fake.clients().queue(QUEUE_URL);
    let loops = crate::observe::Loops::new(crate::runtime::Clock::starting_at(Moment::UNIX_EPOCH));
    let (deliveries, handle) = Intake::start(
        vec![queue],
        settings,
        &Random::seeded(seed),
        &Spawner::new(),
        &observer,
        &|| loops.register("poller", seconds(60)),
    );
    TestIntake { fake: fake.clone(), deliveries, handle, events }
}

fn start(fake: &FakeQueue) -> TestIntake {
    start_with(fake, &Settings::default(), 7)
}

fn queue_of(bodies: usize) -> FakeQueue {
    let fake = FakeQueue::new(Duration::from_millis(10));
    for n in 0..bodies {
        fake.send(&n.to_string());
    }
    fake
}

impl TestIntake {
    /// The next message, within a second.
    async fn next(&mut self) -> Option<Delivery> {
        timeout(seconds(1), self.deliveries.recv()).await.ok().flatten()
    }

    /// All messages until none comes for a second.
    async fn all(&mut self) -> Vec<Delivery> {
        let mut all = Vec::new();
        while let Some(delivery) = self.next().await {
            all.push(delivery);
        }
        all
    }
}

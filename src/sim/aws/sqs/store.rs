//! The messages of one queue. Nothing here depends on how many messages there are, except purging.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
    sync::Arc,
    time::Duration,
};

use md5::{Digest, Md5};
use tokio::sync::Notify;

use super::{MessageView, QueueSettings, QueueView};
use crate::{domain::Moment, sim::aws::faults::Disorder};

/// No message can be kept from view for longer than this, counted from its very first receive: the
/// strict reading of "12 hours from when SQS first receives the ReceiveMessage request" (SQS
/// developer guide, "Visibility timeout").
const VISIBILITY_LIMIT: Duration = Duration::from_hours(12);
/// Every receipt handle begins like this.
const HANDLE_PREFIX: &str = "AQEB";

#[derive(Debug)]
pub(in crate::sim::aws) struct Queue {
    pub(in crate::sim::aws) settings: QueueSettings,
    pub(in crate::sim::aws) disorder: Disorder,
    /// Notified once for each message that becomes visible, and by each receiver that leaves some
    /// visible messages behind.
    pub(in crate::sim::aws) wake: Arc<Notify>,
    messages: BTreeMap<u64, Message>,
    /// In the order in which they became visible. May name messages that were deleted since.
    ready: VecDeque<u64>,
    /// When hidden messages come into view.
    hidden: BTreeSet<(Moment, u64)>,
    in_flight: usize,
    next: u64,
    tag: u32,
}

#[derive(Debug, Clone)]
pub(in crate::sim::aws) struct Message {
    pub(in crate::sim::aws) id: String,
    pub(in crate::sim::aws) body: Arc<str>,
    pub(in crate::sim::aws) md5: String,
    pub(in crate::sim::aws) sent: Moment,
    pub(in crate::sim::aws) receive_count: u32,
    pub(in crate::sim::aws) first_received: Option<Moment>,
    receipt: u64,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ready,
    Delayed(Moment),
    InFlight(Moment),
}

/// What one receive takes out of a queue.
#[derive(Debug, Default)]
pub(in crate::sim::aws) struct Received {
    /// Each with its receipt handle.
    pub(in crate::sim::aws) messages: Vec<(String, Message)>,
    /// Received too often: they go to the dead-letter queue instead.
    pub(in crate::sim::aws) dead: Vec<Message>,
}

/// Too many messages are in flight.
#[derive(Debug)]
pub(in crate::sim::aws) struct OverLimit;

/// The receipt handle was never given by this queue.
#[derive(Debug)]
pub(in crate::sim::aws) struct BadHandle;

/// Why the visibility of a message cannot be changed.
#[derive(Debug)]
pub(in crate::sim::aws) enum Unchangeable {
    BadHandle,
    Deleted,
    NotInFlight,
    BeyondLimit,
}

impl Message {
    pub(in crate::sim::aws) fn new(id: String, body: &str, sent: Moment) -> Self {
        let md5 = hex_md5(body.as_bytes());
        Self {
            id,
            body: body.into(),
            md5,
            sent,
            receive_count: 0,
            first_received: None,
            receipt: 0,
            place: Place::Ready,
        }
    }
}

impl Queue {
    pub(in crate::sim::aws) fn new(settings: QueueSettings, tag: u32) -> Self {
        Self {
            settings,
            disorder: Disorder::default(),
            wake: Arc::default(),
            messages: BTreeMap::new(),
            ready: VecDeque::new(),
            hidden: BTreeSet::new(),
            in_flight: 0,
            next: 0,
            tag,
        }
    }

    /// Adds a message, hidden for `delay`.
    pub(in crate::sim::aws) fn put(&mut self, now: Moment, mut message: Message, delay: Duration) {
        let key = self.next;
        self.next += 1;
        if delay.is_zero() {
            message.place = Place::Ready;
            self.ready.push_back(key);
            self.wake.notify_one();
        } else {
            let until = now.plus(delay);
            message.place = Place::Delayed(until);
            self.hidden.insert((until, key));
        }
        self.messages.insert(key, message);
    }

    /// Brings into view what is due.
    pub(in crate::sim::aws) fn settle(&mut self, now: Moment) {
        while let Some(&(until, key)) = self.hidden.first()
            && until <= now
        {
            self.hidden.pop_first();
            self.show(key);
        }
    }

    /// When the next hidden message comes into view.
    pub(in crate::sim::aws) fn next_due(&self) -> Option<Moment> {
        self.hidden.first().map(|(at, _)| *at)
    }

    fn show(&mut self, key: u64) {
        if let Some(message) = self.messages.get_mut(&key) {
            if matches!(message.place, Place::InFlight(_)) {
                self.in_flight -= 1;
            }
            message.place = Place::Ready;
            self.ready.push_back(key);
            self.wake.notify_one();
        }
    }

    /// Takes up to `max` visible messages and hides them for `visibility`.
    pub(in crate::sim::aws) fn receive(
        &mut self,
        now: Moment,
        max: usize,
        visibility: Duration,
        random: &mut fastrand::Rng,
    ) -> Result<Received, OverLimit> {
        if self.in_flight >= self.settings.max_in_flight {
            return Err(OverLimit);
        }
        let mut received = Received::default();
        let mut again = Vec::new();
        let is_partial = self.disorder.partial > 0.0 && random.f64() < self.disorder.partial;
        let max = if is_partial { max.min(random.usize(1..=2)) } else { max };
        while received.messages.len() < max {
            let Some(key) = self.take_ready(random) else { break };
            let Some(message) = self.messages.get_mut(&key) else { continue };
            let expired = message.sent.plus(self.settings.retention) <= now;
            let dead = self
                .settings
                .redrive
                .as_ref()
                .is_some_and(|r| message.receive_count >= r.max_receives);
            if expired || dead {
                received.dead.extend(self.messages.remove(&key).filter(|_| !expired));
                continue;
            }
            message.receive_count += 1;
            message.first_received.get_or_insert(now);
            message.receipt = random.u64(..);
            let handle =
                format!("{HANDLE_PREFIX}{:08x}{key:016x}{:016x}", self.tag, message.receipt);
            let duplicate = self.disorder.duplicate > 0.0 && random.f64() < self.disorder.duplicate;
            if visibility.is_zero() || duplicate {
                again.push(key);
            } else {
                let until = now.plus(visibility);
                message.place = Place::InFlight(until);
                self.hidden.insert((until, key));
                self.in_flight += 1;
            }
            received.messages.push((handle, message.clone()));
        }
        self.ready.extend(again);
        if !self.ready.is_empty() {
            self.wake.notify_one();
        }
        Ok(received)
    }

    fn take_ready(&mut self, random: &mut fastrand::Rng) -> Option<u64> {
        if self.disorder.reorder > 0.0
            && self.ready.len() > 1
            && random.f64() < self.disorder.reorder
        {
            let at = random.usize(..self.ready.len());
            self.ready.swap(0, at);
        }
        loop {
            let key = self.ready.pop_front()?;
            if self.messages.get(&key).is_some_and(|m| m.place == Place::Ready) {
                return Some(key);
            }
        }
    }

    /// Deletes the message if the handle is its newest; an older one does nothing and is no error
    /// either.
    pub(in crate::sim::aws) fn delete(
        &mut self,
        handle: &str,
    ) -> Result<Option<Message>, BadHandle> {
        let (key, receipt) = self.read_handle(handle)?;
        if self.messages.get(&key).is_none_or(|m| m.receipt != receipt) {
            return Ok(None);
        }
        let Some(message) = self.messages.remove(&key) else { return Ok(None) };
        match message.place {
            Place::InFlight(until) => {
                self.in_flight -= 1;
                self.hidden.remove(&(until, key));
            }
            Place::Delayed(until) => {
                self.hidden.remove(&(until, key));
            }
            Place::Ready => {}
        }
        Ok(Some(message))
    }

    /// The id of the message that is there and that a receipt handle, new or old, names.
    pub(in crate::sim::aws) fn named_by(&self, handle: &str) -> Option<&str> {
        let (key, _) = self.read_handle(handle).ok()?;
        self.messages.get(&key).map(|message| message.id.as_str())
    }

    /// Hides a message that is in flight for `timeout` from now; shows it at once if that is zero.
    pub(in crate::sim::aws) fn change_visibility(
        &mut self,
        now: Moment,
        handle: &str,
        timeout: Duration,
    ) -> Result<(), Unchangeable> {
        let (key, receipt) = self.read_handle(handle).map_err(|_| Unchangeable::BadHandle)?;
        let message = self.messages.get_mut(&key).ok_or(Unchangeable::Deleted)?;
        let Place::InFlight(until) = message.place else { return Err(Unchangeable::NotInFlight) };
        if message.receipt != receipt {
            return Err(Unchangeable::NotInFlight);
        }
        let new = now.plus(timeout);
        if message.first_received.is_some_and(|first| new > first.plus(VISIBILITY_LIMIT)) {
            return Err(Unchangeable::BeyondLimit);
        }
        self.hidden.remove(&(until, key));
        if timeout.is_zero() {
            self.show(key);
        } else {
            message.place = Place::InFlight(new);
            self.hidden.insert((new, key));
        }
        Ok(())
    }

    pub(in crate::sim::aws) fn purge(&mut self) {
        self.messages.clear();
        self.ready.clear();
        self.hidden.clear();
        self.in_flight = 0;
    }

    /// Visible, in flight, delayed.
    pub(in crate::sim::aws) fn numbers(&self) -> (usize, usize, usize) {
        let delayed = self.hidden.len() - self.in_flight;
        (self.messages.len() - self.hidden.len(), self.in_flight, delayed)
    }

    pub(in crate::sim::aws) fn view(&self) -> QueueView {
        let (visible, in_flight, delayed) = self.numbers();
        let messages = self.messages.values().map(|m| MessageView {
            id: m.id.clone(),
            body: m.body.clone(),
            sent: m.sent,
            receive_count: m.receive_count,
            hidden_until: match m.place {
                Place::Ready => None,
                Place::Delayed(until) | Place::InFlight(until) => Some(until),
            },
        });
        QueueView { visible, in_flight, delayed, messages: messages.collect() }
    }

    fn read_handle(&self, handle: &str) -> Result<(u64, u64), BadHandle> {
        let digits = handle
            .strip_prefix(HANDLE_PREFIX)
            .filter(|d| d.len() == 40 && d.is_ascii())
            .ok_or(BadHandle)?;
        let (tag, rest) = digits.split_at(8);
        let (key, receipt) = rest.split_at(16);
        let number = |s| u64::from_str_radix(s, 16).map_err(|_| BadHandle);
        if number(tag)? == u64::from(self.tag) {
            Ok((number(key)?, number(receipt)?))
        } else {
            Err(BadHandle)
        }
    }
}

pub(in crate::sim::aws) fn hex_md5(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().fold(String::with_capacity(32), |mut hex, byte| {
        // Writing to a String cannot fail.
        write!(hex, "{byte:02x}").ok();
        hex
    })
}

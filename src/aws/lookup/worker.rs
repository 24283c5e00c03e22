//! The task of a lookup: gathers requests, calls AWS, and distributes the answers.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{Answered, Ask, Fetch, Key, LookupSettings, Shared};
use crate::{
    aws::{Advice, AwsError},
    runtime::{Backoff, Random},
};

/// The longest pause between two calls that fail.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// How often the warning about failing calls is logged at most.
const WARN_EVERY: Duration = Duration::from_mins(1);
/// The number of failures in a row from which on a warning is logged.
const KEEPS_FAILING: u32 = 5;
/// The first pause after a call that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

type Waiters<V> = Vec<oneshot::Sender<Result<Answered<V>, AwsError>>>;
type Answer<K, V> = (Vec<K>, Result<Vec<(K, V)>, AwsError>);

pub(super) struct Worker<K, V> {
    settings: LookupSettings,
    random: Random,
    fetch: Fetch<K, V>,
    shared: Arc<Shared<K, V>>,
    /// Keys that wait for their first call, or for another one.
    waiting: BTreeMap<K, Waiters<V>>,
    /// Keys whose call is under way, and when it began. A key is in one call at a time.
    in_call: BTreeMap<K, (Instant, Waiters<V>)>,
    calls: FuturesUnordered<BoxFuture<'static, Answer<K, V>>>,
    /// When the first waiting request came, plus the linger.
    gathered_at: Instant,
    /// Counts the calls that failed in a row.
    backoff: Backoff,
    /// No call starts before this.
    not_before: Instant,
    /// When the last warning was logged.
    warned: Option<Instant>,
}

impl<K: Key, V: Clone + Send + Sync + 'static> Worker<K, V> {
    pub(super) fn new(
        settings: LookupSettings,
        random: Random,
        fetch: Fetch<K, V>,
        shared: Arc<Shared<K, V>>,
    ) -> Self {
        let now = Instant::now();
        Self {
            settings,
            random,
            fetch,
            shared,
            waiting: BTreeMap::new(),
            in_call: BTreeMap::new(),
            calls: FuturesUnordered::new(),
            gathered_at: now,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            not_before: now,
            warned: None,
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Ask<K, V>>) {
        loop {
            let next_call = self.next_call();
            tokio::select! {
                biased;
                Some((keys, answer)) = self.calls.next(),
                if !self.calls.is_empty() => self.answered(keys, answer),
                ask = inbox.recv() => match ask {
                    Some(ask) => self.take(ask),
                    None => return,
                },
                () = tokio::time::sleep_until(
                    next_call.unwrap_or_else(Instant::now)
                ), if next_call.is_some() => self.call(),
            }
        }
    }

    /// When to make the next call; `None` while no key waits or no further call may be under way.
    fn next_call(&self) -> Option<Instant> {
        let something = self.waiting.keys().any(|key| !self.in_call.contains_key(key));
        let room = self.calls.len() < self.settings.in_flight.max(1);
        let full = self.waiting.len() >= self.settings.batch;
        (something && room)
            .then(|| if full { self.not_before } else { self.gathered_at.max(self.not_before) })
    }

    fn take(&mut self, ask: Ask<K, V>) {
        if let Some((_, waiters)) =
            self.in_call.get_mut(&ask.key).filter(|(asked, _)| ask.wanted.is_met_by(*asked))
        {
            waiters.push(ask.answer);
            return;
        }
        if self.waiting.is_empty() {
            self.gathered_at = Instant::now() + self.settings.linger;
        }
        self.waiting.entry(ask.key).or_default().push(ask.answer);
    }

    fn call(&mut self) {
        // Keys whose callers have stopped waiting are dropped.
        self.waiting.retain(|_, waiters| {
            waiters.retain(|w| !w.is_closed());
            !waiters.is_empty()
        });
        let keys: Vec<_> = self
            .waiting
            .keys()
            .filter(|key| !self.in_call.contains_key(key))
            .take(self.settings.batch.max(1))
            .cloned()
            .collect();
        if keys.is_empty() {
            return;
        }
        let now = Instant::now();
        for key in &keys {
            if let Some(waiters) = self.waiting.remove(key) {
                self.in_call.insert(key.clone(), (now, waiters));
            }
        }
        let answer = (self.fetch)(keys.clone());
        self.calls.push(Box::pin(async move { (keys, answer.await) }));
    }

    fn answered(&mut self, keys: Vec<K>, answer: Result<Vec<(K, V)>, AwsError>) {
        match answer {
            Ok(found) => self.found(keys, found),
            // "Gone" is an answer if the call had one key. With several, it does not show which key
            // is meant.
            Err(error) if error.advice() == Advice::Gone && keys.len() == 1 => {
                self.found(keys, Vec::new());
            }
            Err(error) => self.failed(keys, error),
        }
    }

    fn found(&mut self, keys: Vec<K>, found: Vec<(K, V)>) {
        self.backoff.reset();
        *self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut found: BTreeMap<K, V> = found.into_iter().collect();
        let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            let value = found.remove(&key);
            let Some((asked, waiters)) = self.in_call.remove(&key) else { continue };
            cache.put(key, asked, value.clone());
            for waiter in waiters {
                // An error means that the caller has stopped waiting.
                waiter.send(Ok((asked, value.clone()))).ok();
            }
        }
    }

    /// Logs a warning, at most once a minute, when calls are denied or keep failing. Single
    /// failures are not worth a warning.
    fn warn(&mut self, error: &AwsError) {
        tracing::debug!(%error, failures = self.backoff.failures(), "A lookup failed.");
        let denied = error.advice() == Advice::Denied;
        let due = self.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY);
        if !due || !(denied || self.backoff.failures() >= KEEPS_FAILING) {
            return;
        }
        self.warned = Some(Instant::now());
        let action = error.api().as_str();
        if denied {
            tracing::warn!(
                %error, action,
                "Not allowed to ask AWS: interruptions that depend on the answer stay undecided, \
                 and Sundown keeps their messages. Allow the action in the policy of the role."
            );
        } else {
            tracing::warn!(
                %error, action, failures = self.backoff.failures(),
                "AWS cannot be asked: interruptions that depend on the answer stay undecided, and \
                 Sundown keeps their messages and tries again. If this lasts, check the \
                 credentials, the network and the limits of the account."
            );
        }
    }

    fn failed(&mut self, keys: Vec<K>, error: AwsError) {
        self.not_before = Instant::now() + self.backoff.pause(&self.random);
        self.warn(&error);
        for key in keys {
            let Some((_, waiters)) = self.in_call.remove(&key) else { continue };
            if error.advice() == Advice::Denied {
                // A person must act first, so the callers get the error at once and decide without
                // an answer.
                for waiter in waiters {
                    waiter.send(Err(error.clone())).ok();
                }
            } else {
                self.waiting.entry(key).or_default().extend(waiters);
            }
        }
        *self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

//! The task behind a lookup: gathers questions, asks, hands the answers out.

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
/// How often it is said that AWS cannot be asked.
const COMPLAIN_EVERY: Duration = Duration::from_mins(1);
/// So many failures in a row are said.
const KEEPS_FAILING: u32 = 5;
/// The first.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

type Waiters<V> = Vec<oneshot::Sender<Result<Answered<V>, AwsError>>>;
type Answer<K, V> = (Vec<K>, Result<Vec<(K, V)>, AwsError>);

pub(super) struct Worker<K, V> {
    settings: LookupSettings,
    random: Random,
    fetch: Fetch<K, V>,
    shared: Arc<Shared<K, V>>,
    /// Not asked yet, or to be asked again.
    waiting: BTreeMap<K, Waiters<V>>,
    /// Being asked, and since when. A key is in one call at a time.
    flying: BTreeMap<K, (Instant, Waiters<V>)>,
    calls: FuturesUnordered<BoxFuture<'static, Answer<K, V>>>,
    /// When the first of those waiting came, plus the linger.
    gathered_at: Instant,
    /// Calls that failed in a row, and when the next may start.
    backoff: Backoff,
    not_before: Instant,
    complained: Option<Instant>,
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
            flying: BTreeMap::new(),
            calls: FuturesUnordered::new(),
            gathered_at: now,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            not_before: now,
            complained: None,
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

    /// When to make the next call; `None` while there is nothing to ask or no room.
    fn next_call(&self) -> Option<Instant> {
        let something = self.waiting.keys().any(|key| !self.flying.contains_key(key));
        let room = self.calls.len() < self.settings.in_flight.max(1);
        let full = self.waiting.len() >= self.settings.batch;
        (something && room)
            .then(|| if full { self.not_before } else { self.gathered_at.max(self.not_before) })
    }

    fn take(&mut self, ask: Ask<K, V>) {
        if let Some((_, waiters)) =
            self.flying.get_mut(&ask.key).filter(|(asked, _)| ask.wanted.is_met_by(*asked))
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
        // Those who lost patience are not asked for again.
        self.waiting.retain(|_, waiters| {
            waiters.retain(|w| !w.is_closed());
            !waiters.is_empty()
        });
        let keys: Vec<_> = self
            .waiting
            .keys()
            .filter(|key| !self.flying.contains_key(key))
            .take(self.settings.batch.max(1))
            .cloned()
            .collect();
        if keys.is_empty() {
            return;
        }
        let now = Instant::now();
        for key in &keys {
            if let Some(waiters) = self.waiting.remove(key) {
                self.flying.insert(key.clone(), (now, waiters));
            }
        }
        let answer = (self.fetch)(keys.clone());
        self.calls.push(Box::pin(async move { (keys, answer.await) }));
    }

    fn answered(&mut self, keys: Vec<K>, answer: Result<Vec<(K, V)>, AwsError>) {
        match answer {
            Ok(found) => self.found(keys, found),
            // "There is no such thing": of one key that is an answer, of many it does not say of
            // which.
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
            let Some((asked, waiters)) = self.flying.remove(&key) else { continue };
            cache.put(key, asked, value.clone());
            for waiter in waiters {
                // An error means that nobody waits any more.
                waiter.send(Ok((asked, value.clone()))).ok();
            }
        }
    }

    /// Says once a minute that it is not allowed, or keeps failing. One failure is nothing to speak
    /// of.
    fn complain(&mut self, error: &AwsError) {
        tracing::debug!(%error, failures = self.backoff.failures(), "A lookup failed.");
        let denied = error.advice() == Advice::Denied;
        let due = self.complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY);
        if !due || !(denied || self.backoff.failures() >= KEEPS_FAILING) {
            return;
        }
        self.complained = Some(Instant::now());
        let action = error.api().as_str();
        if denied {
            tracing::warn!(
                %error, action,
                "Not allowed to ask AWS: interruptions that depend on the answer stay undecided, \
                 and their messages are kept. Allow the action in the role's policy."
            );
        } else {
            tracing::warn!(
                %error, action, failures = self.backoff.failures(),
                "AWS cannot be asked: interruptions that depend on the answer stay undecided, and \
                 their messages are kept. It is asked on; if this lasts, check the credentials, \
                 the network and the limits of the account."
            );
        }
    }

    fn failed(&mut self, keys: Vec<K>, error: AwsError) {
        self.not_before = Instant::now() + self.backoff.pause(&self.random);
        self.complain(&error);
        for key in keys {
            let Some((_, waiters)) = self.flying.remove(&key) else { continue };
            if error.advice() == Advice::Denied {
                // It does not pass by itself: let those who wait decide without an answer.
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

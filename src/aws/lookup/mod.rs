//! Lookups in AWS that many callers need at once: batched, cached, and retried.

mod cache;
mod typed;
mod worker;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

pub use self::typed::{
    BlockLookup, DnsLookup, GroupLookup, HookLookup, InstanceLookup, Lookups, MemberLookup, Members,
};
use self::{cache::Cache, worker::Worker};
use super::{Advice, AwsError};
use crate::runtime::{Random, Spawner};

/// How one kind of lookup batches, caches and waits.
#[derive(Debug, Clone, Copy)]
pub struct LookupSettings {
    /// How many keys one call carries at most.
    pub batch: usize,
    /// How long a request waits for others to share its call.
    pub linger: Duration,
    /// How many calls are in flight at most.
    pub in_flight: usize,
    /// How long an answer with a value is cached.
    pub keep: Duration,
    /// How long an answer that nothing has this key is cached.
    pub keep_absence: Duration,
    /// How many answers are cached at most; the oldest are dropped first.
    pub capacity: usize,
    /// How long a caller waits at most.
    pub max_wait: Duration,
}

impl Default for LookupSettings {
    fn default() -> Self {
        Self {
            batch: 200,
            linger: Duration::from_millis(20),
            in_flight: 4,
            keep: Duration::from_secs(30),
            keep_absence: Duration::from_secs(30),
            capacity: 10_000,
            max_wait: Duration::from_secs(10),
        }
    }
}

/// A lookup that got no answer in time, or was denied. The background task keeps trying while a
/// caller waits; try again later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot ask AWS about {about}{}", because(cause.as_ref()))]
pub struct LookupError {
    /// The key that was looked up.
    pub about: String,
    /// The last error; `None`: AWS has not answered at all.
    pub cause: Option<AwsError>,
}

fn because(cause: Option<&AwsError>) -> String {
    cause.map_or_else(|| ": no answer yet".to_owned(), |c| format!(": {c}"))
}

impl LookupError {
    /// Whether AWS denied the call, so that a person must act ([`Advice::Denied`]).
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.cause.as_ref().is_some_and(|c| c.advice() == Advice::Denied)
    }

    /// Whether a policy forbids the call. Missing or expired credentials do not count: without them
    /// no call succeeds, and they may be renewed at any moment.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.cause.as_ref().is_some_and(AwsError::is_forbidden)
    }
}

/// The requirements for keys of a lookup.
pub trait Key: Ord + Clone + fmt::Display + Send + Sync + 'static {}
impl<K: Ord + Clone + fmt::Display + Send + Sync + 'static> Key for K {}

/// Asks AWS about a batch of keys; for keys without an answer, nothing exists.
type Fetch<K, V> =
    Arc<dyn Fn(Vec<K>) -> BoxFuture<'static, Result<Vec<(K, V)>, AwsError>> + Send + Sync>;

/// How old an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Any answer in the cache.
    Any,
    /// The answer to a call that began then or later.
    Since(Instant),
    /// The answer to a call that begins after the request.
    New,
}

impl Wanted {
    fn is_met_by(self, asked: Instant) -> bool {
        match self {
            Self::Any => true,
            Self::Since(since) => asked >= since,
            Self::New => false,
        }
    }
}

/// AWS's answer, and when its call began. `None`: nothing has this key.
type Answered<V> = (Instant, Option<V>);

struct Ask<K, V> {
    key: K,
    wanted: Wanted,
    answer: oneshot::Sender<Result<Answered<V>, AwsError>>,
}

/// The state that all handles and the worker share.
struct Shared<K, V> {
    cache: Mutex<Cache<K, V>>,
    trouble: Mutex<Option<AwsError>>,
}

/// A batched, cached lookup. Cheap to clone; its task ends with the last clone.
pub struct Lookup<K, V> {
    asks: mpsc::UnboundedSender<Ask<K, V>>,
    shared: Arc<Shared<K, V>>,
    max_wait: Duration,
}

impl<K, V> Clone for Lookup<K, V> {
    fn clone(&self) -> Self {
        Self { asks: self.asks.clone(), shared: Arc::clone(&self.shared), max_wait: self.max_wait }
    }
}

impl<K, V> fmt::Debug for Lookup<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

impl<K: Key, V: Clone + Send + Sync + 'static> Lookup<K, V> {
    /// Starts the task of the lookup.
    pub fn start<F>(settings: LookupSettings, random: Random, spawner: &Spawner, fetch: F) -> Self
    where
        F: Fn(Vec<K>) -> BoxFuture<'static, Result<Vec<(K, V)>, AwsError>> + Send + Sync + 'static,
    {
        let shared = Arc::new(Shared {
            cache: Mutex::new(Cache::new(&settings)),
            trouble: Mutex::new(None),
        });
        // Unbounded, but it never has more entries than there are waiting callers.
        let (asks, inbox) = mpsc::unbounded_channel();
        spawner
            .spawn(Worker::new(settings, random, Arc::new(fetch), Arc::clone(&shared)).run(inbox));
        Self { asks, shared, max_wait: settings.max_wait }
    }

    /// Looks `key` up, in the cache or else in AWS. `None`: nothing has this key.
    ///
    /// # Errors
    /// When AWS does not answer within [`LookupSettings::max_wait`] (10 s), or denies the call.
    pub async fn get(&self, key: &K) -> Result<Option<V>, LookupError> {
        Ok(self.known_or_ask(key, Wanted::Any).await?.1)
    }

    /// Looks `key` up by a call that began at `since` or later. Returns also when that call began.
    ///
    /// # Errors
    /// As [`Lookup::get`].
    pub async fn get_since(
        &self,
        key: &K,
        since: Instant,
    ) -> Result<(Instant, Option<V>), LookupError> {
        self.known_or_ask(key, Wanted::Since(since)).await
    }

    /// Looks `key` up by a call that begins after this request, never in the cache.
    ///
    /// # Errors
    /// As [`Lookup::get`].
    pub async fn get_fresh(&self, key: &K) -> Result<Option<V>, LookupError> {
        Ok(self.ask(key, Wanted::New).await?.1)
    }

    /// Why the last call failed; `None`: it succeeded, or there was none.
    fn trouble(&self, key: &K) -> Option<LookupError> {
        let trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        trouble.map(|cause| LookupError { about: key.to_string(), cause: Some(cause) })
    }

    /// The last answer about `key`, if the cache still has it. Makes no call. `None`: there is no
    /// such answer, or nothing has this key.
    #[must_use]
    pub fn before(&self, key: &K) -> Option<V> {
        self.cached(key)?.1
    }

    /// The last answer about `key`, if the cache still has it. Makes no call.
    fn cached(&self, key: &K) -> Option<Answered<V>> {
        self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner).get(key)
    }

    async fn known_or_ask(&self, key: &K, wanted: Wanted) -> Result<Answered<V>, LookupError> {
        match self.cached(key).filter(|(asked, _)| wanted.is_met_by(*asked)) {
            Some(known) => Ok(known),
            None => self.ask(key, wanted).await,
        }
    }

    async fn ask(&self, key: &K, wanted: Wanted) -> Result<Answered<V>, LookupError> {
        let (answer, waiting) = oneshot::channel();
        let error = |cause| LookupError { about: key.to_string(), cause };
        if self.asks.send(Ask { key: key.clone(), wanted, answer }).is_err() {
            return Err(error(None));
        }
        match tokio::time::timeout(self.max_wait, waiting).await {
            Ok(Ok(answer)) => answer.map_err(|e| error(Some(e))),
            Ok(Err(_)) | Err(_) => Err(error(
                self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            )),
        }
    }
}

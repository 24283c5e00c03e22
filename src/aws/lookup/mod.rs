//! Questions to AWS that many ask at once: batched, cached, asked again by themselves.

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

pub use self::typed::{DnsLookup, GroupLookup, HookLookup, InstanceLookup, Lookups, MemberLookup};
use self::{cache::Cache, worker::Worker};
use super::{Advice, AwsError};
use crate::runtime::{Random, Spawner};

/// How a kind of question is asked.
#[derive(Debug, Clone, Copy)]
pub struct LookupSettings {
    /// How many keys one call carries at most.
    pub batch: usize,
    /// How long a question waits for others to share its call.
    pub linger: Duration,
    /// How many calls are in flight at most.
    pub in_flight: usize,
    /// How long an answer is good.
    pub keep: Duration,
    /// How long "there is none" is good.
    pub keep_absence: Duration,
    /// How many answers are kept at most; the oldest go first.
    pub capacity: usize,
    /// How long one who asks waits at most.
    pub patience: Duration,
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
            patience: Duration::from_secs(10),
        }
    }
}

/// AWS cannot be asked now. It is asked on in the background for as long as somebody waits; ask
/// again later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot ask AWS about {about}{}", because(cause.as_ref()))]
pub struct LookupError {
    /// What was asked about.
    pub about: String,
    /// The last error; `None` when AWS has not answered at all.
    pub cause: Option<AwsError>,
}

fn because(cause: Option<&AwsError>) -> String {
    cause.map_or_else(|| ": no answer yet".to_owned(), |c| format!(": {c}"))
}

impl LookupError {
    /// A person must act: it is not allowed.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.cause.as_ref().is_some_and(|c| c.advice() == Advice::Denied)
    }

    /// A policy forbids the call. Credentials that are missing or expired do not count: with those
    /// no call succeeds, and they may be renewed at any moment.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.cause.as_ref().is_some_and(AwsError::is_forbidden)
    }
}

/// What a key of a lookup must be.
pub trait Key: Ord + Clone + fmt::Display + Send + Sync + 'static {}
impl<K: Ord + Clone + fmt::Display + Send + Sync + 'static> Key for K {}

/// Asks about a batch of keys; keys without an answer do not exist.
type Fetch<K, V> =
    Arc<dyn Fn(Vec<K>) -> BoxFuture<'static, Result<Vec<(K, V)>, AwsError>> + Send + Sync>;

/// Which answer is good enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Any that is not too old for the cache.
    Any,
    /// One to a call that began then or later.
    Since(Instant),
    /// One to a call that begins after the question.
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

/// What AWS said, and when it was asked. `None`: there is no such thing.
type Answered<V> = (Instant, Option<V>);

struct Ask<K, V> {
    key: K,
    wanted: Wanted,
    answer: oneshot::Sender<Result<Answered<V>, AwsError>>,
}

/// What all handles and the worker share.
struct Shared<K, V> {
    cache: Mutex<Cache<K, V>>,
    trouble: Mutex<Option<AwsError>>,
}

/// A batched, cached lookup. Cheap to clone; the work behind it ends with the last clone.
pub struct Lookup<K, V> {
    asks: mpsc::UnboundedSender<Ask<K, V>>,
    shared: Arc<Shared<K, V>>,
    patience: Duration,
}

impl<K, V> Clone for Lookup<K, V> {
    fn clone(&self) -> Self {
        Self { asks: self.asks.clone(), shared: Arc::clone(&self.shared), patience: self.patience }
    }
}

impl<K, V> fmt::Debug for Lookup<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

impl<K: Key, V: Clone + Send + Sync + 'static> Lookup<K, V> {
    /// Starts the work behind it.
    pub fn start<F>(settings: LookupSettings, random: Random, spawner: &Spawner, fetch: F) -> Self
    where
        F: Fn(Vec<K>) -> BoxFuture<'static, Result<Vec<(K, V)>, AwsError>> + Send + Sync + 'static,
    {
        let shared = Arc::new(Shared {
            cache: Mutex::new(Cache::new(&settings)),
            trouble: Mutex::new(None),
        });
        // Unbounded, but no longer than there are callers who wait.
        let (asks, inbox) = mpsc::unbounded_channel();
        spawner
            .spawn(Worker::new(settings, random, Arc::new(fetch), Arc::clone(&shared)).run(inbox));
        Self { asks, shared, patience: settings.patience }
    }

    /// What AWS says of `key`, from the cache where that is good enough. `None`: there is no such
    /// thing.
    ///
    /// # Errors
    /// When AWS gives no answer within the patience of the settings (10 s), or refuses to.
    pub async fn get(&self, key: &K) -> Result<Option<V>, LookupError> {
        Ok(self.known_or_ask(key, Wanted::Any).await?.1)
    }

    /// What AWS says of `key`, asked at `since` or later; and when it was asked, which is when its
    /// call began.
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

    /// What AWS says of `key` from now on: never from the cache.
    ///
    /// # Errors
    /// As [`Lookup::get`].
    pub async fn get_fresh(&self, key: &K) -> Result<Option<V>, LookupError> {
        Ok(self.ask(key, Wanted::New).await?.1)
    }

    /// Why the last call failed; `None` where it succeeded or none was made.
    fn trouble(&self, key: &K) -> Option<LookupError> {
        let trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        trouble.map(|cause| LookupError { about: key.to_string(), cause: Some(cause) })
    }

    /// What AWS said of `key` last, for as long as the cache keeps it. Asks nothing.
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
        match tokio::time::timeout(self.patience, waiting).await {
            Ok(Ok(answer)) => answer.map_err(|e| error(Some(e))),
            Ok(Err(_)) | Err(_) => Err(error(
                self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            )),
        }
    }
}

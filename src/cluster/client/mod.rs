//! The client of the API server, and the limits that every request keeps.

mod answer;
mod clock;
mod connect;
mod proxy;
#[cfg(test)]
mod tests;
mod transport;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use self::answer::check;
pub(super) use self::clock::ServerClock;
pub use self::connect::{ConnectError, ConnectOptions, connect};
use super::{
    ClusterError, ClusterEvent, Outcome, Problem, Target,
    lease::{WriteGuard, WritePermit},
};
use crate::{
    domain::with_causes,
    runtime::{Clock, Observer, Random, Spawner},
};

/// The shortest time limit of a write. A shorter one would be sent as 0 ms, which the API server
/// reads as no limit.
const SHORTEST_WRITE: Duration = Duration::from_millis(1);

/// Deadlines and limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The deadline of a request that is not a watch. The wait for a slot has the same limit, which
    /// is counted separately.
    pub deadline: Duration,
    /// How many requests may be under way at once, besides watches, evictions and deletes of pods.
    /// Those of one [`Target`] may take at most three quarters of the slots: an admission webhook
    /// that does not answer for them leaves room for others. kube uses HTTP/1.1, so each request
    /// has a connection of its own.
    pub in_flight: usize,
    /// How many evictions and deletes of pods may be under way at once. The dispatcher of drains
    /// keeps to a lower limit (`--max-evictions`).
    pub pod_writes: usize,
    /// After this time the API server is asked to end a watch, which is then opened again. A dead
    /// connection goes unnoticed for this time plus a few seconds.
    pub watch: Duration,
    /// How many objects one page of a LIST has. A whole page is held in memory, as JSON.
    pub page: u32,
    /// How many LISTs of pods may be under way at once: each holds a page.
    pub lists: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            in_flight: 64,
            pod_writes: 64,
            watch: Duration::from_mins(1),
            page: 100,
            lists: 4,
        }
    }
}

/// Which requests go first when slots are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Takes a free slot, in the order of the requests.
    Ordinary,
    /// Takes a slot only while at least half of the slots are free.
    Low,
}

/// The parts of a [`Cluster`].
pub struct ClusterParts {
    /// The client; [`connect`] makes one for a real API server,
    /// `kube::Client::new(service, "default")` one for a simulated one.
    pub client: kube::Client,
    /// Wall time; in a simulation, simulated time.
    pub clock: Clock,
    /// For jitter and the names of Events.
    pub random: Random,
    /// Starts the tasks of the watches, and of writes that must outlive their caller.
    pub spawner: Spawner,
    /// Counts requests.
    pub observer: Arc<dyn Observer<ClusterEvent>>,
    /// Decides whether a write may be sent. Asked just before the request is sent, after its wait
    /// for a slot.
    pub guard: WriteGuard,
    /// Deadlines and limits.
    pub settings: Settings,
}

/// Access to a Kubernetes API server. Clones share the slots for requests.
#[derive(Clone)]
pub struct Cluster {
    parts: Arc<ClusterParts>,
    slots: Arc<Semaphore>,
    /// The share of each [`Target`] in `slots`.
    shares: Arc<BTreeMap<Target, Semaphore>>,
    pod_writes: Arc<Semaphore>,
    lists: Arc<Semaphore>,
    server_clock: ServerClock,
}

/// The permits that a request holds while it is under way.
struct Slot<'a> {
    _share: Option<SemaphorePermit<'a>>,
    _slot: SemaphorePermit<'a>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("settings", &self.parts.settings).finish_non_exhaustive()
    }
}

impl Cluster {
    /// A cluster with these parts.
    #[must_use]
    pub fn new(parts: ClusterParts) -> Self {
        let semaphore = |permits: usize| Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS));
        let Settings { in_flight, pod_writes, lists, .. } = parts.settings;
        let shares = Target::ALL
            .into_iter()
            .map(|target| (target, semaphore(in_flight - in_flight / 4)))
            .collect();
        let (slots, pod_writes, lists) =
            (semaphore(in_flight), semaphore(pod_writes), semaphore(lists));
        Self {
            parts: Arc::new(parts),
            slots: Arc::new(slots),
            shares: Arc::new(shares),
            pod_writes: Arc::new(pod_writes),
            lists: Arc::new(lists),
            server_clock: ServerClock::default(),
        }
    }

    /// A cluster with default settings, where every write is permitted and no request is counted.
    #[must_use]
    pub fn plain(client: kube::Client, clock: Clock, random: Random, spawner: Spawner) -> Self {
        let settings = Settings::default();
        Self::new(ClusterParts {
            client,
            clock,
            random,
            spawner,
            observer: Arc::new(()),
            guard: WriteGuard::open(),
            settings,
        })
    }

    /// The clock of [`ClusterParts`].
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.parts.clock
    }

    /// The API server's time minus ours, by the `Date` headers of its answers. Zero if it is under
    /// 2 s or not known.
    #[must_use]
    pub fn server_skew(&self) -> jiff::SignedDuration {
        self.server_clock.skew()
    }

    pub(super) fn server_clock(&self) -> &ServerClock {
        &self.server_clock
    }

    pub(super) fn random(&self) -> &Random {
        &self.parts.random
    }

    pub(super) fn spawner(&self) -> &Spawner {
        &self.parts.spawner
    }

    pub(super) fn observer(&self) -> &dyn Observer<ClusterEvent> {
        &*self.parts.observer
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.parts.settings
    }

    /// Sends a request (its URI without scheme and host) and reads the whole answer. `object` names
    /// the object in error messages.
    ///
    /// A write ends before another process may lead, at the server too: it carries its deadline as
    /// `timeout`, because a server continues a request whose client has disconnected. For the same
    /// reason a write of a Node or a pod continues when the caller drops this future. The write
    /// holds its permit until it has ended.
    ///
    /// Errs with [`Problem::Unreachable`] when no slot or no answer came within the deadline.
    pub async fn call(
        &self,
        target: Target,
        priority: Priority,
        object: &str,
        request: Request<Vec<u8>>,
    ) -> Result<Bytes, ClusterError> {
        let limit = Duration::MAX;
        self.call_with_slot_within(limit, limit, target, priority, object, request).await
    }

    /// [`Self::call`] with a time limit that includes the wait for a slot. For a write, the server
    /// gets the time that is left then.
    pub(super) async fn call_within(
        &self,
        limit: Duration,
        target: Target,
        priority: Priority,
        object: &str,
        request: Request<Vec<u8>>,
    ) -> Result<Bytes, ClusterError> {
        self.call_with_slot_within(limit, limit, target, priority, object, request).await
    }

    /// [`Self::call_within`] with a limit of its own for the wait for a slot. For a caller that
    /// holds a lock meanwhile.
    pub(super) async fn call_with_slot_within(
        &self,
        slot_limit: Duration,
        limit: Duration,
        target: Target,
        priority: Priority,
        object: &str,
        request: Request<Vec<u8>>,
    ) -> Result<Bytes, ClusterError> {
        let begun = Instant::now();
        let slot = self.slot(target, priority, object, slot_limit.min(limit)).await?;
        let limit = limit.saturating_sub(begun.elapsed()).min(self.parts.settings.deadline);
        if request.method() == Method::GET {
            return self.answered_within(limit, target, object, request).await;
        }
        let permit = self.permit(target, object)?;
        let limit = limit.min(permit.limit());
        if limit < SHORTEST_WRITE {
            return Err(self.unsent(
                target,
                object,
                Problem::Unreachable,
                "no time is left for the request",
            ));
        }
        let request = with_timeout(request, limit);
        if target == Target::Event {
            return self.answered_within(limit, target, object, request).await;
        }
        let (this, what) = (self.clone(), object.to_owned());
        let write = self.parts.spawner.spawn(async move {
            let result = this.answered_within(limit, target, &what, request).await;
            drop(permit);
            result
        });
        let answer = write.await;
        drop(slot);
        answer.unwrap_or_else(|_| {
            Err(ClusterError::without_answer(
                target.action(),
                object,
                Problem::Unreachable,
                "the process is ending",
            ))
        })
    }

    async fn answered_within(
        &self,
        limit: Duration,
        target: Target,
        object: &str,
        request: Request<Vec<u8>>,
    ) -> Result<Bytes, ClusterError> {
        let begun = Instant::now();
        let result = match tokio::time::timeout(limit, self.exchange(target, object, request)).await
        {
            Ok(result) => result,
            Err(_) => Err(unanswered(target, object, limit)),
        };
        self.count(target, result.as_ref().err(), begun);
        result
    }

    /// Opens a watch and returns its body as a stream. The caller limits how long it reads.
    pub(super) async fn open(
        &self,
        target: Target,
        object: &str,
        mut request: Request<Vec<u8>>,
    ) -> Result<Body, ClusterError> {
        // Kubernetes 1.37 may compress each event separately, which the decoders of HTTP clients do
        // not understand.
        request
            .headers_mut()
            .insert(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"));
        let begun = Instant::now();
        let answer =
            async { check(target, object, self.dispatch(target, object, request).await?).await };
        let result = match tokio::time::timeout(self.parts.settings.deadline, answer).await {
            Ok(result) => result,
            Err(_) => Err(unanswered(target, object, self.parts.settings.deadline)),
        };
        self.count(target, result.as_ref().err(), begun);
        Ok(result?.into_body())
    }

    /// Waits until another LIST of pods may begin. The caller holds the permit until the LIST ends.
    pub(super) async fn list_permit(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.lists.acquire().await.ok()
    }

    async fn slot(
        &self,
        target: Target,
        priority: Priority,
        object: &str,
        limit: Duration,
    ) -> Result<Slot<'_>, ClusterError> {
        let taken = async {
            if matches!(target, Target::Evict | Target::DeletePod) {
                return self
                    .pod_writes
                    .acquire()
                    .await
                    .ok()
                    .map(|slot| Slot { _share: None, _slot: slot });
            }
            while priority == Priority::Low
                && self.slots.available_permits() * 2 < self.parts.settings.in_flight
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let share = match self.shares.get(&target) {
                Some(share) => share.acquire().await.ok(),
                None => None,
            };
            self.slots.acquire().await.ok().map(|slot| Slot { _share: share, _slot: slot })
        };
        if let Ok(Some(slot)) =
            tokio::time::timeout(limit.min(self.parts.settings.deadline), taken).await
        {
            return Ok(slot);
        }
        Err(self.unsent(
            target,
            object,
            Problem::Unreachable,
            "no slot became free in time: too many requests are under way",
        ))
    }

    fn permit(&self, target: Target, object: &str) -> Result<WritePermit, ClusterError> {
        let guard = &self.parts.guard;
        // Giving the Lease up does not wait for Events here: the recorder waits for its own.
        let permit =
            if target == Target::Event { guard.permit_uncounted() } else { guard.permit() };
        permit.filter(|permit| permit.limit() >= SHORTEST_WRITE).ok_or_else(|| {
            self.unsent(target, object, Problem::HeldBack, "this process may not write now")
        })
    }

    /// Counts a request that was not sent, and returns its error.
    fn unsent(
        &self,
        target: Target,
        object: &str,
        problem: Problem,
        why: &'static str,
    ) -> ClusterError {
        let error = ClusterError::without_answer(target.action(), object, problem, why);
        self.count(target, Some(&error), Instant::now());
        error
    }

    async fn exchange(
        &self,
        target: Target,
        object: &str,
        request: Request<Vec<u8>>,
    ) -> Result<Bytes, ClusterError> {
        let response = check(target, object, self.dispatch(target, object, request).await?).await?;
        let body = response.into_body().collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|e| {
            ClusterError::without_answer(
                target.action(),
                object,
                Problem::Unreachable,
                with_causes(&e),
            )
        })
    }

    async fn dispatch(
        &self,
        target: Target,
        object: &str,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Body>, ClusterError> {
        let sent = self.clock().now();
        let answer = self.parts.client.send(request.map(Body::from)).await;
        let answer = answer.map_err(|e| ClusterError::from_kube(target.action(), object, &e))?;
        self.server_clock.saw(answer.headers(), sent, self.clock().now());
        Ok(answer)
    }

    fn count(&self, target: Target, error: Option<&ClusterError>, begun: Instant) {
        let outcome = error.map_or(Outcome::Ok, |e| Outcome::Failed(e.problem));
        let took = begun.elapsed();
        self.parts.observer.observe(ClusterEvent::Called { target, outcome, took });
    }
}

/// Adds the query parameter `timeout`, after which the API server gives the request up (apiserver
/// `endpoints/filters/request_deadline.go`).
fn with_timeout(mut request: Request<Vec<u8>>, timeout: Duration) -> Request<Vec<u8>> {
    let uri = request.uri();
    let separator = if uri.query().is_some_and(|query| !query.is_empty()) { "&" } else { "?" };
    let text = format!(
        "{}{separator}timeout={}ms",
        uri.to_string().trim_end_matches('?'),
        timeout.as_millis()
    );
    // This always parses: it is a URI with one more parameter.
    if let Ok(uri) = text.parse() {
        *request.uri_mut() = uri;
    }
    request
}

fn unanswered(target: Target, object: &str, deadline: Duration) -> ClusterError {
    ClusterError::without_answer(
        target.action(),
        object,
        Problem::Unreachable,
        format!("no answer within {deadline:?}"),
    )
}

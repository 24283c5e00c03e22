//! Reads, writes and watches the Lease.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, Error,
    api::{ObjectMeta, PostParams, WatchEvent, WatchParams},
};
use tokio::{sync::watch, time::timeout};

use super::{super::ClusterError, LeasePlace, LeaseState};
use crate::{
    domain::{LEASE_LABEL, LEASE_LABEL_VALUE, PAUSE, SETTINGS, seconds},
    election::{Draft, Input, Observed},
    runtime::{Backoff, Clock, Observer, Random},
};

/// The time limit of a call: together with the renew deadline it must fit into the lease duration.
pub(super) const LIMIT: Duration = seconds(5);
/// The server is asked to end a watch after this time.
const WATCH_SECONDS: u32 = 290;
/// The connection of a watch that shows nothing for this time counts as dead.
const WATCH_LIMIT: Duration = seconds(300);

/// The kind of a request that concerns the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// GET, not answered from a cache.
    Get,
    /// POST, if there is no Lease yet.
    Create,
    /// PUT, for every other write.
    Replace,
    /// WATCH.
    Watch,
}

impl Verb {
    /// All verbs, for initializing metrics.
    pub const ALL: [Self; 4] = [Self::Get, Self::Create, Self::Replace, Self::Watch];

    /// Its value in metric labels.
    #[must_use]
    pub const fn action(self) -> &'static str {
        match self {
            Self::Get => "get_lease",
            Self::Create => "create_lease",
            Self::Replace => "replace_lease",
            Self::Watch => "watch_lease",
        }
    }

    /// The phrase after "cannot" in an error.
    const fn words(self) -> &'static str {
        match self {
            Self::Get => "read the Lease",
            Self::Create => "create the Lease",
            Self::Replace => "write the Lease",
            Self::Watch => "watch the Lease",
        }
    }
}

/// One call on the Lease, for metrics.
#[derive(Debug, Clone, Copy)]
pub struct LeaseCall {
    /// The kind of the request.
    pub verb: Verb,
    /// `ok`, `conflict`, `not_found`, `unauthorized`, `forbidden`, `overload`, `server`,
    /// `unreachable` or `timeout`; of a watch also `failed`.
    pub outcome: &'static str,
    /// How long the call took; for a watch, how long it was open.
    pub took: Duration,
}

impl LeaseCall {
    /// Every value of `outcome`, for initializing metrics.
    pub const OUTCOMES: [&'static str; 10] = [
        "ok",
        "conflict",
        "not_found",
        "unauthorized",
        "forbidden",
        "overload",
        "server",
        "unreachable",
        "timeout",
        "failed",
    ];
}

/// What a watch showed: a resourceVersion; `None`: the Lease was deleted.
#[derive(Debug, Clone)]
pub(super) struct Shown(pub(super) Option<String>);

/// The outcome of a call: the input for the election, and the object if the answer has one.
pub(super) struct Answer {
    pub(super) input: Input,
    pub(super) lease: Read,
}

/// What an answer showed of the Lease object.
pub(super) enum Read {
    Unknown,
    Missing,
    Is(Box<Lease>),
}

#[derive(Clone)]
pub(super) struct Calls {
    api: Api<Lease>,
    name: String,
    object: String,
    published: String,
    clock: Clock,
    observer: Arc<dyn Observer<LeaseCall>>,
    state: watch::Sender<LeaseState>,
    /// The API server answered the last try to create the Lease with 404: its namespace does not
    /// exist.
    has_no_namespace: Arc<AtomicBool>,
}

impl Calls {
    pub(super) fn new(
        client: Client,
        place: &LeasePlace,
        published: String,
        clock: Clock,
        observer: Arc<dyn Observer<LeaseCall>>,
        state: watch::Sender<LeaseState>,
    ) -> Self {
        Self {
            api: Api::namespaced(client, &place.namespace),
            name: place.name.clone(),
            object: format!("{}/{}", place.namespace, place.name),
            published,
            clock,
            observer,
            state,
            has_no_namespace: Arc::default(),
        }
    }

    pub(super) fn get(&self) -> BoxFuture<'static, Answer> {
        let this = self.clone();
        async move {
            match this.counted(Verb::Get, this.api.get(&this.name)).await {
                Ok(lease) => Answer {
                    input: Input::Observed(observed(&lease)),
                    lease: Read::Is(Box::new(lease)),
                },
                Err("not_found") => Answer { input: Input::NotFound, lease: Read::Missing },
                Err(_) => Answer { input: Input::ReadFailed, lease: Read::Unknown },
            }
        }
        .boxed()
    }

    /// Creates the object, with the annotation that pauses all drains if `paused`.
    pub(super) fn create(&self, draft: &Draft, paused: bool) -> BoxFuture<'static, Answer> {
        let annotations = paused.then(|| [(PAUSE.to_owned(), "true".to_owned())].into());
        let mut metadata =
            ObjectMeta { name: Some(self.name.clone()), annotations, ..ObjectMeta::default() };
        self.set_label_and_settings(&mut metadata);
        let lease = Lease { metadata, spec: Some(spec(None, draft)) };
        let this = self.clone();
        async move {
            written(
                Verb::Create,
                this.counted(Verb::Create, this.api.create(&PostParams::default(), &lease)).await,
            )
        }
        .boxed()
    }

    /// Replaces the object that has `version`. Labels, annotations and fields that others wrote
    /// stay as in `last`.
    pub(super) fn replace(
        &self,
        last: Option<&Lease>,
        version: String,
        draft: &Draft,
    ) -> BoxFuture<'static, Answer> {
        let mut lease = last.cloned().unwrap_or_default();
        lease.spec = Some(spec(lease.spec.take(), draft));
        lease.metadata.name = Some(self.name.clone());
        lease.metadata.resource_version = Some(version);
        lease.metadata.managed_fields = None;
        // A Lease of an earlier version has no label yet. A process that gives the Lease up does
        // not publish its settings.
        if draft.holder.is_some() {
            self.set_label_and_settings(&mut lease.metadata);
        }
        let this = self.clone();
        async move {
            written(
                Verb::Replace,
                this.counted(
                    Verb::Replace,
                    this.api.replace(&this.name, &PostParams::default(), &lease),
                )
                .await,
            )
        }
        .boxed()
    }

    /// Writes the label by which operator commands find the Lease, and the settings of the leader.
    fn set_label_and_settings(&self, metadata: &mut ObjectMeta) {
        metadata
            .labels
            .get_or_insert_default()
            .insert(LEASE_LABEL.to_owned(), LEASE_LABEL_VALUE.to_owned());
        metadata
            .annotations
            .get_or_insert_default()
            .insert(SETTINGS.to_owned(), self.published.clone());
    }

    /// Sends every change of the Lease to `shown`; never returns. Without the right to watch, the
    /// reads every few seconds remain.
    pub(super) async fn watch(self, shown: watch::Sender<Option<Shown>>, random: Random) {
        let mut backoff = Backoff::new(seconds(2), seconds(32));
        loop {
            let started = self.clock.now();
            let outcome = self.watch_once(&shown, &mut backoff).await;
            self.observer.observe(LeaseCall {
                verb: Verb::Watch,
                outcome,
                took: self.clock.now().since_or_zero(started),
            });
            tokio::time::sleep(backoff.pause(&random)).await;
        }
    }

    async fn watch_once(
        &self,
        shown: &watch::Sender<Option<Shown>>,
        backoff: &mut Backoff,
    ) -> &'static str {
        // The watch starts from the server's present state, so an existing Lease comes first. A
        // missing Lease is found by the reads.
        let only = WatchParams::default()
            .fields(&format!("metadata.name={}", self.name))
            .timeout(WATCH_SECONDS);
        let opened = match timeout(LIMIT, self.api.watch(&only, "0")).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return self.watch_failed(&error, backoff.failures()),
            Err(_) => return "timeout",
        };
        let mut events = std::pin::pin!(opened);
        loop {
            let event = match timeout(WATCH_LIMIT, events.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => return self.watch_failed(&error, backoff.failures()),
                Ok(None) => return "ok",
                Err(_) => return "timeout",
            };
            backoff.reset();
            let version = match event {
                WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
                    lease.metadata.resource_version
                }
                WatchEvent::Deleted(_) => None,
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(_) => return "failed",
            };
            shown.send_replace(Some(Shown(version)));
        }
    }

    fn watch_failed(&self, error: &Error, failures: u32) -> &'static str {
        if failures == 0 {
            tracing::warn!(
                %error, lease = self.name,
                "The Lease cannot be watched; Sundown reads it every few seconds instead."
            );
        }
        "failed"
    }

    async fn counted<T>(
        &self,
        verb: Verb,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, &'static str> {
        let started = self.clock.now();
        let result = match timeout(LIMIT, call).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                let outcome = outcome(&error);
                self.refused(verb, outcome, &error);
                Err(outcome)
            }
            Err(_) => {
                self.set_trouble(Some(format!(
                    "cannot {} {}: not answered within {LIMIT:?}",
                    verb.words(),
                    self.object
                )));
                Err("timeout")
            }
        };
        if result.is_ok() {
            self.has_no_namespace.store(false, Ordering::Relaxed);
            self.set_trouble(None);
        }
        let took = self.clock.now().since_or_zero(started);
        self.observer.observe(LeaseCall {
            verb,
            outcome: result.as_ref().err().copied().unwrap_or("ok"),
            took,
        });
        result
    }

    /// Records why a call failed. A conflict is no trouble, and neither is a Lease that does not
    /// exist, unless it cannot be created because its namespace does not exist.
    fn refused(&self, verb: Verb, outcome: &str, error: &Error) {
        if (verb, outcome) == (Verb::Get, "not_found")
            && self.has_no_namespace.load(Ordering::Relaxed)
        {
            return;
        }
        let has_no_namespace = (verb, outcome) == (Verb::Create, "not_found");
        self.has_no_namespace.store(has_no_namespace, Ordering::Relaxed);
        let error = ClusterError::from_kube(verb.words(), &*self.object, error);
        self.set_trouble(match outcome {
            "not_found" if has_no_namespace => Some(format!(
                "{error}; create the namespace, or name another one with --lease-namespace"
            )),
            "conflict" | "not_found" => None,
            _ => Some(error.to_string()),
        });
    }

    /// Publishes the trouble, and logs it once when it begins, changes or ends.
    fn set_trouble(&self, trouble: Option<String>) {
        let is_new = self.state.send_if_modified(|state| {
            let is_new = state.trouble != trouble;
            state.trouble.clone_from(&trouble);
            is_new
        });
        if !is_new {
            return;
        }
        match trouble {
            Some(error) if self.has_no_namespace.load(Ordering::Relaxed) => tracing::error!(
                error,
                "The namespace of the Lease does not exist: this process cannot lead, and drains \
                 nothing until the namespace exists. Sundown keeps trying."
            ),
            Some(error) => tracing::warn!(
                error,
                "The Lease cannot be read or written: this process cannot lead, and is not ready \
                 until that works. Sundown keeps trying. 403: apply the Role in deploy/. 401: the \
                 API server does not accept the credentials of this process."
            ),
            None => {
                tracing::info!(lease = self.object, "The Lease can be read and written again.");
            }
        }
    }
}

/// The `outcome` of a failed call ([`LeaseCall::outcome`]).
pub(super) fn outcome(error: &Error) -> &'static str {
    match error {
        Error::Api(status) => match status.code {
            409 => "conflict",
            404 => "not_found",
            401 => "unauthorized",
            403 => "forbidden",
            429 => "overload",
            _ => "server",
        },
        _ => "unreachable",
    }
}

fn written(verb: Verb, result: Result<Lease, &'static str>) -> Answer {
    match result {
        Ok(lease) => Answer {
            input: Input::WriteAccepted(observed(&lease)),
            lease: Read::Is(Box::new(lease)),
        },
        // A Create is answered with 404 if its namespace does not exist. No other Lease refused it.
        Err("not_found") if verb == Verb::Create => {
            Answer { input: Input::WriteFailed, lease: Read::Unknown }
        }
        Err("conflict" | "not_found") => {
            Answer { input: Input::WriteConflict, lease: Read::Unknown }
        }
        Err(_) => Answer { input: Input::WriteFailed, lease: Read::Unknown },
    }
}

fn observed(lease: &Lease) -> Observed {
    let spec = lease.spec.clone().unwrap_or_default();
    Observed {
        resource_version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: spec.holder_identity.filter(|h| !h.is_empty()),
        duration: spec
            .lease_duration_seconds
            .and_then(|s| u64::try_from(s).ok())
            .filter(|s| *s > 0)
            .map(seconds),
        acquired: spec.acquire_time.map(|t| t.0.into()),
        renewed: spec.renew_time.map(|t| t.0.into()),
        transitions: spec.lease_transitions.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
    }
}

fn spec(old: Option<LeaseSpec>, draft: &Draft) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(draft.holder.clone().unwrap_or_default()),
        lease_duration_seconds: Some(i32::try_from(draft.duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: Some(MicroTime(draft.acquired.into())),
        renew_time: Some(MicroTime(draft.renewed.into())),
        lease_transitions: Some(i32::try_from(draft.transitions).unwrap_or(i32::MAX)),
        ..old.unwrap_or_default()
    }
}

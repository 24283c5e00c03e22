#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::domain::{PAUSE, seconds};

/// An API server that has only one Lease.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
    watchers: Vec<mpsc::UnboundedSender<Bytes>>,
    /// Requests are never answered.
    hangs: bool,
    /// Watches are refused.
    no_watch: bool,
    /// The namespace of the Lease does not exist.
    no_namespace: bool,
    calls: usize,
}

type Answered = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn body(code: u16, value: &Value) -> Answered {
    Response::builder()
        .status(code)
        .body(Full::new(Bytes::from(value.to_string())).boxed_unsync())
        .unwrap()
}

fn refuse(code: u16, reason: &str) -> Answered {
    body(
        code,
        &json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": reason, "message": reason
        }),
    )
}

impl Server {
    fn client(&self) -> kube::Client {
        let this = self.clone();
        let service = tower::service_fn(move |request| {
            let this = this.clone();
            async move { Ok::<_, Infallible>(this.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Answered {
        tokio::time::sleep(Duration::from_millis(2)).await;
        if self.0.lock().unwrap().hangs {
            std::future::pending::<()>().await;
        }
        let (head, sent) = request.into_parts();
        let sent = sent.collect().await.unwrap().to_bytes();
        let sent: Value = serde_json::from_slice(&sent).unwrap_or(Value::Null);
        let query = head.uri.query().unwrap_or_default().to_owned();
        let mut stored = self.0.lock().unwrap();
        if query.contains("fieldSelector") {
            return stored.look(query.contains("watch=true"));
        }
        stored.calls += 1;
        match (head.method, stored.lease.clone()) {
            (Method::GET, Some(lease)) => body(200, &lease),
            (Method::GET | Method::PUT | Method::PATCH, None) => refuse(404, "NotFound"),
            (Method::POST, None) if stored.no_namespace => refuse(404, "NotFound"),
            (Method::POST, None) => stored.store(sent),
            (Method::POST, Some(_)) => refuse(409, "AlreadyExists"),
            (Method::PUT, Some(lease))
                if lease["metadata"]["resourceVersion"] == sent["metadata"]["resourceVersion"] =>
            {
                stored.store(sent)
            }
            (Method::PUT, Some(_)) => refuse(409, "Conflict"),
            (Method::PATCH, Some(mut lease)) => {
                json_patch::merge(&mut lease, &sent);
                stored.store(lease)
            }
            _ => refuse(405, "MethodNotAllowed"),
        }
    }

    fn lease(&self) -> Value {
        self.0.lock().unwrap().lease.clone().unwrap_or_default()
    }

    fn put(&self, lease: Value) {
        drop(self.0.lock().unwrap().store(lease));
    }

    fn set(&self, change: impl FnOnce(&mut Stored)) {
        change(&mut self.0.lock().unwrap());
    }
}

impl Stored {
    fn store(&mut self, mut lease: Value) -> Answered {
        self.version += 1;
        lease["kind"] = "Lease".into();
        lease["apiVersion"] = "coordination.k8s.io/v1".into();
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.show("MODIFIED", &lease);
        self.lease = Some(lease.clone());
        body(200, &lease)
    }

    fn show(&mut self, what: &str, lease: &Value) {
        let line = Bytes::from(format!("{}\n", json!({ "type": what, "object": lease })));
        self.watchers.retain(|w| w.send(line.clone()).is_ok());
    }

    fn look(&mut self, watch: bool) -> Answered {
        if self.no_watch {
            return refuse(403, "Forbidden");
        }
        if !watch {
            let items: Vec<_> = self.lease.iter().collect();
            return body(
                200,
                &json!({
                    "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
                    "metadata": { "resourceVersion": self.version.to_string() }, "items": items
                }),
            );
        }
        let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
        self.watchers.push(sender);
        let frames = futures::stream::unfold(receiver, |mut r| async {
            r.recv().await.map(|b| (Ok(http_body::Frame::data(b)), r))
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

fn place() -> LeasePlace {
    LeasePlace { namespace: "kube-system".to_owned(), name: "sundown".to_owned() }
}

fn keeper(server: &Server, identity: &str) -> LeaseKeeper {
    LeaseKeeper::start(LeaseParts {
        client: server.client(),
        place: place(),
        identity: identity.to_owned(),
        settings: Settings::default(),
        is_ready: true,
        published: "--drain-timeout=30m".to_owned(),
        clock: Clock::starting_at("2026-06-01T12:00:00Z".parse().unwrap()),
        random: Random::seeded(1),
        spawner: Spawner::new(),
        observer: Arc::new(()),
        on_iteration: Box::new(|| {}),
    })
}

async fn leads(keeper: &LeaseKeeper, limit: Duration) -> bool {
    let mut state = keeper.state();
    tokio::time::timeout(limit, state.wait_for(|s| s.leadership.leads_since().is_some()))
        .await
        .is_ok_and(|r| r.is_ok())
}

fn may_write(keeper: &LeaseKeeper) -> bool {
    keeper.guard().permit().is_some()
}

/// How long a write that is sent now may take.
fn time_left(keeper: &LeaseKeeper) -> Option<Duration> {
    keeper.guard().permit().map(|permit| permit.limit())
}

fn is_paused(keeper: &LeaseKeeper) -> bool {
    keeper.state().borrow().is_paused
}

async fn sleep(s: u64) {
    tokio::time::sleep(seconds(s)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_the_second_stands_by() {
    let server = Server::default();
    let first = keeper(&server, "first");
    assert!(leads(&first, seconds(1)).await);
    let second = keeper(&server, "second");
    sleep(600).await;
    assert!(may_write(&first) && !may_write(&second));
    assert_eq!(
        second.state().borrow().leadership,
        Leadership::Standby { holder: Some("first".to_owned()) }
    );
    let spec = &server.lease()["spec"];
    assert_eq!(
        (spec["leaseDurationSeconds"].as_i64(), spec["leaseTransitions"].as_i64()),
        (Some(15), Some(0))
    );
    assert_eq!(
        spec["acquireTime"].as_str().map(str::len),
        Some("2026-06-01T12:00:00.000000Z".len()),
        "{spec}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_over_within_a_second() {
    for no_watch in [false, true] {
        let server = Server::default();
        server.set(|s| s.no_watch = no_watch);
        let first = keeper(&server, "first");
        assert!(leads(&first, seconds(1)).await);
        let second = keeper(&server, "second");
        sleep(33).await;
        assert!(first.release(seconds(3)).await);
        assert!(!may_write(&first));
        let limit = if no_watch { seconds(3) } else { seconds(1) };
        assert!(leads(&second, limit).await, "no_watch: {no_watch}");
        assert_eq!(server.lease()["spec"]["leaseTransitions"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_another_leads_within_the_duration_and_two_seconds() {
    for no_watch in [false, true] {
        let server = Server::default();
        server.set(|s| s.no_watch = no_watch);
        let first = keeper(&server, "first");
        assert!(leads(&first, seconds(1)).await);
        let second = keeper(&server, "second");
        sleep(31).await;
        drop(first);
        assert!(!leads(&second, seconds(12)).await);
        assert!(leads(&second, seconds(5)).await, "no_watch: {no_watch}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_answers_a_leader_may_not_write_after_the_renew_deadline_until_answers_come_again()
{
    let server = Server::default();
    let keeper = keeper(&server, "me");
    assert!(leads(&keeper, seconds(1)).await);
    let since = keeper.state().borrow().leadership.leads_since();
    server.set(|s| s.hangs = true);
    sleep(7).await;
    assert!(may_write(&keeper));
    sleep(4).await;
    assert!(!may_write(&keeper));
    assert_eq!(keeper.state().borrow().leadership, Leadership::HeartbeatsOnly);
    assert!(keeper.guard().may_send_heartbeats());
    server.set(|s| s.hangs = false);
    assert!(leads(&keeper, seconds(8)).await);
    assert!(may_write(&keeper));
    assert_ne!(keeper.state().borrow().leadership.leads_since(), since, "a new term");
}

#[tokio::test(start_paused = true)]
async fn what_others_wrote_on_the_lease_survives_our_renewals() {
    let server = Server::default();
    let metadata = json!({
        "name": "sundown", "namespace": "kube-system", "labels": { "team": "infra" },
        "annotations": { "note":
        "hands off" } });
    server.put(json!({ "metadata": metadata, "spec": {} }));
    let keeper = keeper(&server, "me");
    assert!(leads(&keeper, seconds(1)).await);
    sleep(30).await;
    let lease = server.lease();
    assert_eq!(
        (&lease["metadata"]["labels"]["team"], &lease["metadata"]["annotations"]["note"]),
        (&json!("infra"), &json!("hands off"))
    );
    assert_eq!(lease["spec"]["holderIdentity"], "me");
}

#[tokio::test(start_paused = true)]
async fn pausing_and_resuming_is_seen_within_a_second_and_costs_no_leadership() {
    let server = Server::default();
    for paused in [true, false] {
        let error = set_paused(server.client(), &place(), paused).await.unwrap_err().to_string();
        assert!(
            error.contains("--lease-namespace"),
            "without a Lease, the error must name the flags: {error}"
        );
    }
    let keeper = keeper(&server, "me");
    assert!(leads(&keeper, seconds(1)).await);
    assert!(!set_paused(server.client(), &place(), false).await.unwrap(), "nothing to resume");
    assert!(set_paused(server.client(), &place(), true).await.unwrap());
    sleep(1).await;
    assert!(is_paused(&keeper));
    sleep(30).await;
    assert!(is_paused(&keeper));
    assert!(!set_paused(server.client(), &place(), true).await.unwrap(), "paused already");
    let since = keeper.state().borrow().leadership.leads_since();
    for paused in [false, true, false] {
        assert!(set_paused(server.client(), &place(), paused).await.unwrap());
        sleep(1).await;
        assert_eq!(is_paused(&keeper), paused);
    }
    assert_eq!(keeper.state().borrow().leadership.leads_since(), since, "the same term");
}

#[tokio::test(start_paused = true)]
async fn a_leader_on_a_draining_node_hands_over_and_the_other_keeps_it() {
    let server = Server::default();
    let first = keeper(&server, "first");
    assert!(leads(&first, seconds(1)).await);
    let second = keeper(&server, "second");
    sleep(5).await;
    first.yield_lease(seconds(5));
    assert!(leads(&second, seconds(1)).await);
    sleep(60).await;
    assert!(may_write(&second) && !may_write(&first));
    drop(second);
    assert!(leads(&first, seconds(25)).await, "it leads again when no other process does");
}

#[tokio::test(start_paused = true)]
async fn a_leader_and_a_standby_send_at_most_two_requests_a_second() {
    let server = Server::default();
    let first = keeper(&server, "first");
    assert!(leads(&first, seconds(1)).await);
    let _second = keeper(&server, "second");
    sleep(10).await;
    server.set(|s| s.calls = 0);
    sleep(100).await;
    let calls = server.0.lock().unwrap().calls;
    assert!(calls <= 200, "{calls} calls in 100 s by a leader and a standby");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_leads_without_a_lease() {
    let keeper = LeaseKeeper::without_lease(Clock::starting_at(Moment::UNIX_EPOCH));
    assert!(leads(&keeper, seconds(1)).await);
    assert!(!may_write(&keeper) && !keeper.guard().may_send_heartbeats());
    assert!(keeper.release(seconds(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_while_all_drains_are_paused_is_created_with_the_annotation() {
    let server = Server::default();
    let keeper = keeper(&server, "me");
    assert!(leads(&keeper, seconds(1)).await);
    assert!(set_paused(server.client(), &place(), true).await.unwrap());
    sleep(5).await;
    assert!(is_paused(&keeper));
    let mut state = keeper.state();
    let resumed = tokio::spawn(async move { state.wait_for(|s| !s.is_paused).await.is_ok() });
    server.set(|s| s.lease = None);
    sleep(30).await;
    assert_eq!(server.lease()["metadata"]["annotations"][PAUSE], "true");
    assert!(!resumed.is_finished(), "the pause never ended");
    assert!(set_paused(server.client(), &place(), false).await.unwrap());
    sleep(5).await;
    assert!(!is_paused(&keeper));
    server.set(|s| s.lease = None);
    sleep(30).await;
    assert_eq!(server.lease()["metadata"]["annotations"][PAUSE], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_is_trouble_until_it_exists() {
    let server = Server::default();
    server.set(|s| s.no_namespace = true);
    let keeper = keeper(&server, "me");
    let state = keeper.state();
    for _ in 0..20 {
        sleep(1).await;
        let why = state.borrow().trouble.clone().expect("trouble, between two tries too");
        assert!(why.contains("kube-system/sundown") && why.contains("--lease-namespace"), "{why}");
    }
    assert!(!may_write(&keeper));
    let calls = server.0.lock().unwrap().calls;
    assert!(calls <= 30, "{calls} calls in 20 s");
    server.set(|s| s.no_namespace = false);
    assert!(leads(&keeper, seconds(5)).await);
    assert_eq!(state.borrow().trouble, None);
}

#[tokio::test(start_paused = true)]
async fn a_write_must_end_a_second_before_another_process_may_lead() {
    let server = Server::default();
    let keeper = keeper(&server, "me");
    assert_eq!(time_left(&keeper), None);
    assert!(leads(&keeper, seconds(1)).await);
    let left = time_left(&keeper).unwrap();
    assert!(
        (seconds(13)..seconds(14)).contains(&left),
        "15 s from the sending, less one: {left:?}"
    );
    server.set(|s| s.hangs = true);
    sleep(7).await;
    let left = time_left(&keeper).unwrap();
    assert!((seconds(6)..seconds(7)).contains(&left), "{left:?}");
    sleep(4).await;
    assert_eq!(time_left(&keeper), None);
}

#[tokio::test(start_paused = true)]
async fn a_leader_labels_the_lease_and_publishes_its_settings_also_on_one_of_an_earlier_version() {
    let fresh = Server::default();
    let older = Server::default();
    older.put(json!({
        "metadata": {
            "name": "sundown", "namespace": "kube-system", "labels": { "team": "x" },
            "annotations": { "a": "b" }
        },
        "spec": { "holderIdentity": "", "leaseTransitions": 3 },
    }));
    for (server, label, annotation) in
        [(&fresh, Value::Null, Value::Null), (&older, json!("x"), json!("b"))]
    {
        let keeper = keeper(server, "a");
        assert!(leads(&keeper, seconds(60)).await);
        let metadata = server.lease()["metadata"].clone();
        assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "sundown", "{metadata}");
        assert_eq!(
            metadata["annotations"]["sundown.dev/settings"], "--drain-timeout=30m",
            "{metadata}"
        );
        assert_eq!(
            (&metadata["labels"]["team"], &metadata["annotations"]["a"]),
            (&label, &annotation),
            "what others wrote stays"
        );
        assert!(keeper.release(seconds(10)).await);
        assert_eq!(
            server.lease()["metadata"]["labels"]["app.kubernetes.io/name"],
            "sundown",
            "operators find the Lease by its label when no process leads, too"
        );
    }
}

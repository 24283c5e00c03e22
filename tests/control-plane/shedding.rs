//! An API server that sheds load: 429 in plain text, for everybody who is not exempt.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    admission::{Rule, Verdict, Webhook},
    budgets::continued,
    cluster::ADMIN,
    objects::Pods,
    stage::{HEARTBEAT_TIMEOUT, Stage, node_name},
    witness::PodWatch,
};

/// Somebody's requests that take all the room there is for as long as a test wants: creations that
/// a webhook does not answer.
struct Load {
    webhook: Webhook,
    client: kube::Client,
    /// How many creations take all the room.
    room: usize,
    requests: JoinSet<()>,
    /// How often one was turned away.
    turned_away: Arc<AtomicUsize>,
}

/// More than any room in these tests, and its queue.
const REQUESTS: usize = 8;

/// How soon who is turned away comes again: much sooner than Sundown does, so that room that
/// somebody else gives back is taken before it asks.
const AGAIN: Duration = Duration::from_millis(50);

impl Load {
    async fn prepare(stage: &Stage, room: usize) -> Self {
        stage.add_namespace("load").await;
        let subject = json!({ "kind": "ServiceAccount", "name": "load", "namespace": "load" });
        let role = json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "load" }, "roleRef": role, "subjects": [subject],
        });
        stage.put("load", &binding).await;
        let webhook = Webhook::start(stage).await;
        let rule = Rule {
            name: "load",
            namespaces: &["load"],
            operations: &["CREATE"],
            resources: &["configmaps"],
        };
        stage.ask(webhook.address, &rule).await;
        webhook.set_verdict("load", Some(Verdict::Deny(403, "no".to_owned())));
        let load = Self {
            webhook,
            client: stage.cluster.client(ADMIN),
            room,
            requests: JoinSet::new(),
            turned_away: Arc::default(),
        };
        stage
            .holds("the webhook is asked", async || create(load.client.clone()).await == 403)
            .await;
        load
    }

    /// Takes all the room: from here on others are turned away.
    async fn fill(&mut self, stage: &Stage) {
        self.webhook.set_verdict("load", Some(Verdict::Hold));
        for _ in 0..REQUESTS {
            let (client, turned_away) = (self.client.clone(), self.turned_away.clone());
            self.requests.spawn(async move {
                // Turned away, or given up by the API server for want of the webhook's answer.
                loop {
                    match create(client.clone()).await {
                        201 => return,
                        429 => turned_away.fetch_add(1, Relaxed),
                        _ => 0,
                    };
                    tokio::time::sleep(AGAIN).await;
                }
            });
        }
        // A refused call proves little: a call of somebody else may have had that place, and
        // have given it back since.
        stage.holds("all the room is taken", async || self.webhook.held() >= self.room).await;
        // Then who comes may still be queued, until that is full too.
        let before = self.turned_away.load(Relaxed);
        stage
            .holds("who comes is turned away", async || {
                self.turned_away.load(Relaxed) >= before + REQUESTS
            })
            .await;
    }

    /// Gives the room back.
    async fn stop(&mut self) {
        self.webhook.set_verdict("load", None);
        while let Some(done) = self.requests.join_next().await {
            done.unwrap();
        }
    }
}

/// One creation that is not to be kept; its status.
async fn create(client: kube::Client) -> u16 {
    let object =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "load-" } });
    // Who is of system:masters is exempt, so somebody else asks.
    let request = http::Request::builder()
        .method(Method::POST)
        .uri("/api/v1/namespaces/load/configmaps?dryRun=All")
        .header("content-type", "application/json")
        .header("impersonate-user", "system:serviceaccount:load:load")
        .body(object.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => 201,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("no answer: {error}"),
    }
}

/// A level with room for next to nothing, for all service accounts.
async fn small_level(stage: &Stage) {
    let api = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let queuing = json!({ "queues": 1, "handSize": 1, "queueLengthLimit": 2 });
    let limited = json!({
        "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {
            "type": "Queue", "queuing": queuing
        },
    });
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": { "name": "small" },
        "spec": { "type": "Limited", "limited": limited },
    });
    stage.create(&format!("{api}/prioritylevelconfigurations"), &level).await;
    let all = json!({
        "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
        "clusterScope": true
    });
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": { "name": "small" },
        "spec": {
            "matchingPrecedence": 100, "priorityLevelConfiguration": { "name": "small" },
            "rules": [{
                "subjects": [{ "kind": "Group", "group": { "name": "system:serviceaccounts" } }],
                "resourceRules": [all]
            }],
        },
    });
    stage.create(&format!("{api}/flowschemas"), &schema).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_with_a_limit_of_requests_turns_sundown_away_and_loses_nothing_by_it() {
    let flags = ["--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=3"];
    let Some(stage) = Stage::with(26, &flags).await else { return };
    is_turned_away_and_comes_back(&stage, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn priority_and_fairness_turns_sundown_away_and_loses_nothing_by_it() {
    let flags = ["--max-requests-inflight=20", "--max-mutating-requests-inflight=10"];
    let Some(stage) = Stage::with(27, &flags).await else { return };
    small_level(&stage).await;
    is_turned_away_and_comes_back(&stage, 1).await;
}

async fn is_turned_away_and_comes_back(stage: &Stage, room: usize) {
    stage.alone().await;
    let (instances, refuges) = stage.group_and_refuges(1, 2, HEARTBEAT_TIMEOUT).await;
    let [nodes, refuge] =
        [&instances, &refuges].map(|of| of.iter().map(|i| node_name(i)).collect::<Vec<_>>());
    let web = Pods::of("web").on(&nodes, &refuge);
    let path = stage.ready("default", &web.deployment(3)).await;
    stage.join(refuges).await;
    let budget = stage.allowing("default", &web.budget("maxUnavailable", &json!(0)), 0).await;
    let mut load = Load::prepare(stage, room).await;
    // Renewals of the Lease are turned away as well: it is to last until the room is given back.
    let mut sundown =
        stage.leader("sundown", &["--lease-duration", "5m", "--lease-renew-deadline", "4m"]).await;
    let watch = PodWatch::start(stage).await;

    // At the accept: the message is kept until the record is written.
    load.fill(stage).await;
    stage.world.aws.terminate(&instances[0], true);
    let turned_away = |verb: &str, what: &str| {
        stage
            .calls()
            .iter()
            .filter(|c| c.verb == verb && c.resource == what && c.code == 429)
            .count()
    };
    stage.holds("the PATCH is turned away", async || turned_away("patch", "nodes") >= 2).await;
    assert!(stage.node(&instances[0]).await["spec"]["unschedulable"].is_null());
    assert_eq!(
        stage.world.aws.queue(stage.world.queue()).unwrap().messages.len(),
        1,
        "the message is kept"
    );
    sundown
        .counts(
            "api_calls_total{target=\"kubernetes\",action=\"patch_node\",outcome=\"overload\"}",
            2.0,
        )
        .await;
    assert!(!sundown.lines("Cannot accept the interruption yet").is_empty(), "it is not logged");
    load.stop().await;
    stage.accepted(&instances[0]).await;

    // In mid-drain: the budget frees while nothing gets through.
    // All three: what is under way now might be queued instead of being turned away.
    sundown.counts("evictions_total{answer=\"budget\"}", 3.0).await;
    let so_far = sundown.metric("evictions_total{answer=\"overload\"}").await;
    // Where there is room for one and two in the queue, Sundown's own calls get into each other's
    // way.
    assert!(room == 1 || so_far < 0.5, "turned away where there is room");
    load.fill(stage).await;
    let (filled, before) = (Instant::now(), turned_away("create", "pods/eviction"));
    stage.patch(&budget, &json!({ "spec": { "maxUnavailable": 1 } })).await;
    sundown.counts("evictions_total{answer=\"overload\"}", so_far + 2.0).await;
    let (tries, took) =
        (turned_away("create", "pods/eviction") - before, filled.elapsed().as_secs());
    // `Retry-After: 1`, and one at a time.
    assert!(tries as u64 <= took + 3, "{tries} evictions in {took} s");
    assert_eq!(watch.least("web"), 3, "nothing went");
    load.stop().await;

    continued(stage, &instances[0]).await;
    assert!(stage.pods_on(&nodes[0], "default").await.is_empty());
    stage.is_whole(&path).await;
    assert_eq!(watch.least("web"), 2, "one at a time");
    stage.assert_polite();
    assert!(sundown.metric("pods_forced_total").await < 0.5);
    sundown.counts("messages_total{kind=\"terminate-hook\",outcome=\"accepted\"}", 1.0).await;
    assert!(
        stage
            .world
            .aws
            .queue(stage.world.queue())
            .unwrap()
            .messages
            .iter()
            .all(|m| !m.body.contains("Lifecycle Action")),
        "it was deleted"
    );
}

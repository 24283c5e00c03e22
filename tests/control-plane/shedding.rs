//! An API server that sheds load: 429 in plain text, for everybody who is not exempt.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    admission::{Rule, Verdict, Webhook},
    budgets::continued,
    cluster::ADMIN,
    objects::Pods,
    process::LIMIT,
    stage::{Stage, node_name},
    witness::PodWatch,
};

/// Somebody's requests that take all the room there is for as long as a test wants: creations that a webhook does not answer.
struct Load {
    webhook: Webhook,
    client: kube::Client,
    requests: JoinSet<u16>,
}

/// More than any room in these tests.
const REQUESTS: usize = 40;

impl Load {
    async fn prepare(stage: &Stage) -> Self {
        stage.add_namespace("load").await;
        let subject = json!({ "kind": "ServiceAccount", "name": "load", "namespace": "load" });
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "load" }, "roleRef": role, "subjects": [subject],
        });
        stage.put("load", &binding).await;
        let webhook = Webhook::start(stage).await;
        let rule = Rule { name: "load", namespaces: &["load"], operations: &["CREATE"], resources: &["configmaps"] };
        stage.ask(webhook.address, &rule).await;
        webhook.says("load", Some(Verdict::Deny(403, "no".to_owned())));
        let load = Self { webhook, client: stage.cluster.client(ADMIN), requests: JoinSet::new() };
        stage.holds("the webhook is asked", async || create(load.client.clone()).await == 403).await;
        load
    }

    /// Takes all the room: from here on others are turned away.
    async fn fill(&mut self) {
        self.webhook.says("load", Some(Verdict::Hold));
        let end = Instant::now() + LIMIT;
        loop {
            for _ in 0..REQUESTS {
                self.requests.spawn(create(self.client.clone()));
            }
            while let Ok(Some(answer)) = tokio::time::timeout(Duration::from_secs(2), self.requests.join_next()).await {
                if answer.unwrap() == 429 {
                    return;
                }
            }
            assert!(Instant::now() < end, "the API server takes whatever comes");
        }
    }

    /// Gives the room back.
    async fn stop(&mut self) {
        self.webhook.says("load", None);
        while self.requests.join_next().await.is_some() {}
    }
}

/// One creation that is not to be kept; its status.
async fn create(client: kube::Client) -> u16 {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "load-" } });
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
        "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": { "type": "Queue", "queuing": queuing },
    });
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": { "name": "small" },
        "spec": { "type": "Limited", "limited": limited },
    });
    stage.create(&format!("{api}/prioritylevelconfigurations"), &level).await;
    let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true });
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": { "name": "small" },
        "spec": {
            "matchingPrecedence": 100, "priorityLevelConfiguration": { "name": "small" },
            "rules": [{ "subjects": [{ "kind": "Group", "group": { "name": "system:serviceaccounts" } }], "resourceRules": [all] }],
        },
    });
    stage.create(&format!("{api}/flowschemas"), &schema).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_with_a_limit_of_requests_turns_sundown_away_and_loses_nothing_by_it() {
    let flags = ["--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=3"];
    let Some(stage) = Stage::with(26, &flags).await else { return };
    is_turned_away_and_comes_back(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn priority_and_fairness_turns_sundown_away_and_loses_nothing_by_it() {
    let flags = ["--max-requests-inflight=20", "--max-mutating-requests-inflight=10"];
    let Some(stage) = Stage::with(27, &flags).await else { return };
    small_level(&stage).await;
    is_turned_away_and_comes_back(&stage).await;
}

async fn is_turned_away_and_comes_back(stage: &Stage) {
    stage.alone().await;
    let instances = stage.group(3).await;
    let nodes: Vec<_> = instances.iter().map(|i| node_name(i)).collect();
    let web = Pods::of("web").on(&nodes[..1], &nodes[1..]);
    stage.schedulable(&nodes[1..], false).await;
    let path = stage.ready("default", &web.deployment(3)).await;
    stage.schedulable(&nodes[1..], true).await;
    let budget = stage.allowing("default", &web.budget("maxUnavailable", &json!(0)), 0).await;
    let mut load = Load::prepare(stage).await;
    let mut sundown = stage.leader("sundown", &[]).await;
    let watch = PodWatch::start(stage).await;

    // At the accept: the message is kept until the record is written.
    load.fill().await;
    stage.world.aws.terminate(&instances[0], true);
    let turned_away = |verb: &str, what: &str| stage.calls().iter().filter(|c| c.verb == verb && c.resource == what && c.code == 429).count();
    stage.holds("the PATCH is turned away", async || turned_away("patch", "nodes") >= 2).await;
    assert!(stage.node(&instances[0]).await["spec"]["unschedulable"].is_null());
    assert_eq!(stage.world.aws.queue(stage.world.queue()).unwrap().messages.len(), 1, "the message is kept");
    sundown.counts("api_calls_total{target=\"kubernetes\",action=\"patch_node\",outcome=\"overload\"}", 2.0).await;
    assert!(!sundown.lines("Cannot take the interruption on yet").is_empty(), "it is not said");
    load.stop().await;
    stage.accepted(&instances[0]).await;

    // In mid-drain: the budget frees while nothing gets through.
    stage.holds("the budget refuses", async || turned_away("create", "pods/eviction") >= 1).await;
    sundown.counts("evictions_total{answer=\"budget\"}", 1.0).await;
    assert!(sundown.metric("evictions_total{answer=\"overload\"}").await < 0.5);
    load.fill().await;
    let (filled, before) = (Instant::now(), turned_away("create", "pods/eviction"));
    stage.patch(&budget, &json!({ "spec": { "maxUnavailable": 1 } })).await;
    sundown.counts("evictions_total{answer=\"overload\"}", 2.0).await;
    let (tries, took) = (turned_away("create", "pods/eviction") - before, filled.elapsed().as_secs());
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
    assert!(stage.world.aws.queue(stage.world.queue()).unwrap().messages.iter().all(|m| !m.body.contains("Lifecycle Action")), "it was deleted");
}

//! The Kubernetes API.

mod budgets;
mod deletion;
mod eviction_states;
mod evictions;
mod leases;
mod lists;
mod objects;
mod patches;
mod views;
mod watches;

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use http::Method;
use serde_json::json;
use sundown::{
    runtime::{Clock, Spawner},
    sim::kube::{EmbeddedKube, Options},
};

use crate::{
    cluster::{ADMIN, Cluster, Flags, tools},
    play::{Answer, Player, Server, ask_kubernetes, chosen, judge},
    script::{Case, Step, post},
};

fn cases() -> Vec<Case> {
    let all: Vec<Case> = [
        objects::cases(),
        patches::cases(),
        lists::cases(),
        views::cases(),
        watches::cases(),
        deletion::cases(),
        evictions::cases(),
        eviction_states::cases(),
        budgets::cases(),
        leases::cases(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let names: BTreeSet<_> = all.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), all.len(), "two cases have one name");
    chosen(all)
}

/// Where resources are: by plural name the path before it, and whether they live in namespaces.
const RESOURCES: &[(&str, &str, bool)] = &[
    ("nodes", "/api/v1", false),
    ("namespaces", "/api/v1", false),
    ("pods", "/api/v1", true),
    ("configmaps", "/api/v1", true),
    ("services", "/api/v1", true),
    ("events", "/api/v1", true),
    ("leases", "/apis/coordination.k8s.io/v1", true),
    ("poddisruptionbudgets", "/apis/policy/v1", true),
    ("deployments", "/apis/apps/v1", true),
    ("replicasets", "/apis/apps/v1", true),
    ("statefulsets", "/apis/apps/v1", true),
    ("daemonsets", "/apis/apps/v1", true),
    ("jobs", "/apis/batch/v1", true),
];

/// `pods/x` as it is written in a case, whole.
fn whole_path(short: &str) -> String {
    let plural = short.split(['/', '?']).next().unwrap();
    match RESOURCES.iter().find(|(name, ..)| *name == plural) {
        None => short.to_owned(),
        Some((_, root, true)) => format!("{root}/namespaces/$ns/{short}"),
        Some((_, root, false)) => format!("{root}/{short}"),
    }
}

/// The time of now, for what the servers compare with it.
fn known() -> Vec<(&'static str, String)> {
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
    vec![("now", now.to_string())]
}

/// The namespace that each case is played in.
fn namespace() -> Step {
    post("namespaces", json!({ "metadata": { "name": "$ns" } })).into()
}

struct Embedded {
    kube: EmbeddedKube,
    client: kube::Client,
}

impl Server for Embedded {
    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Answer {
        ask_kubernetes(&self.client, method, path, headers, body).await
    }

    fn path(&self, short: &str) -> String {
        whole_path(short)
    }

    fn known(&self) -> Vec<(&'static str, String)> {
        known()
    }

    async fn forget(&self) {
        self.kube.compact();
    }
}

/// Each case has a cluster of its own, and no time passes but what it waits for.
#[tokio::test(start_paused = true)]
async fn the_embedded_kubernetes_answers_as_it_is_written() {
    let mut results = Vec::new();
    for case in cases() {
        let spawner = Spawner::new();
        let kube = EmbeddedKube::start(Options::default(), Clock::system(), 1, &spawner);
        // Numbers that are short could be taken for others.
        for n in 0..1000 {
            kube.put(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "revision" },
                "data": { "n": n.to_string() }
            }));
        }
        kube.freeze_disruption_controller(case.without_controllers);
        let server = Embedded { client: kube.client(), kube };
        let mut player = Player::new(&server, case.name);
        let result = async {
            player.play(&[namespace()]).await?;
            player.play(&case.steps).await
        };
        results.push((case.name, result.await));
        spawner.kill();
    }
    judge("the embedded Kubernetes", results);
}

struct Real {
    client: kube::Client,
}

impl Server for Real {
    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Answer {
        ask_kubernetes(&self.client, method, path, headers, body).await
    }

    fn path(&self, short: &str) -> String {
        whole_path(short)
    }

    fn known(&self) -> Vec<(&'static str, String)> {
        known()
    }
}

/// So many cases at once: most of them wait.
const SIDE_BY_SIDE: usize = 6;

/// All cases in one cluster: first those that live with controllers; then, when these are killed,
/// the others; what is to be forgotten is forgotten once, for all who ask, at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_kubernetes_answers_as_it_is_written() {
    let Some(tools) = tools() else {
        crate::skip::skip("SUNDOWN_CONTROL_PLANE is not set; see tests/control-plane/build");
        return;
    };
    let mut cluster = Cluster::start(tools, &Flags::default()).await;
    let server = Real { client: cluster.client(ADMIN) };
    let cases = cases();
    let (mut results, mut forgetful) = (Vec::new(), Vec::new());
    for without in [false, true] {
        if without {
            cluster.kill_controllers();
        }
        let these: Vec<_> =
            cases.iter().filter(|case| case.without_controllers == without).collect();
        let played = stream::iter(these).map(|case| {
            let server = &server;
            async move {
                let mut player = Player::new(server, case.name);
                let upto = case
                    .steps
                    .iter()
                    .position(|s| matches!(s, Step::Forget))
                    .unwrap_or(case.steps.len());
                let result = async {
                    player.play(&[namespace()]).await?;
                    player.play(&case.steps[..upto]).await
                };
                let result = result.await;
                (player, case, upto, result)
            }
        });
        for (player, case, upto, result) in
            played.buffer_unordered(SIDE_BY_SIDE).collect::<Vec<_>>().await
        {
            if result.is_ok() && upto < case.steps.len() {
                forgetful.push((player, case, upto));
            } else {
                results.push((case.name, result));
            }
        }
    }
    if !forgetful.is_empty() {
        cluster.compact().await;
        cluster.kill_api_server();
        cluster.restart_api_server().await;
    }
    for (mut player, case, upto) in forgetful {
        results.push((case.name, player.play(&case.steps[upto + 1..]).await));
    }
    judge("a real Kubernetes", results);
}
